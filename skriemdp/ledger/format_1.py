"""Ledgers of format 1, which kept charges in a write-ahead log and had no chain."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import defaultdict

from skriemdp.ledger import chain, connections, files, storage
from skriemdp.ledger.chain import add
from skriemdp.ledger.connections import BudgetError
from skriemdp.ledger.filters import Filter
from skriemdp.privacy.events import event_from_dict

__all__ = ["upgrade"]

TABLES = ("entries", "events", "parts", "datasets", "ledger")
# Costs are computed again; floating point may differ by this much between machines.
TOLERANCE = 1e-9


def upgrade(path: str) -> None:
    """Bring a ledger of format 1 to the present format, in place; nothing is lost or loosened.

    Rules, ceilings and the ledger's key stay, so handles and pickles stay good.  The charges get
    new numbers, because creating a data set is an entry now.  The file is changed in one
    transaction: a crash leaves the old ledger.

    Parameters
    ----------
    path : str or path-like
        A ledger that no other program has open.  One of the present format is left as it is.

    Raises
    ------
    BudgetError
        The file is in use, damaged, or its totals are not those of its entries.
    """
    path = os.path.realpath(os.fsdecode(path))
    with connections.explained(path):
        files.refuse_network(path)
        files.look(path)
        db = connections.open_file(path)
        try:
            if db.execute("PRAGMA application_id").fetchone()[0] != connections.APPLICATION_ID:
                raise BudgetError(f"{path!r} is not a privacy ledger.")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == 1:
                _rewrite(db)
            elif version != chain.FORMAT:
                raise BudgetError(f"the ledger {path!r} has format {version}, not 1.")
        finally:
            db.close()
    storage.Ledger(path).verify()


def _rewrite(db: sqlite3.Connection) -> None:
    # Fails while anybody else has the file open; merges the log into the file.
    db.execute("PRAGMA journal_mode = PERSIST")
    db.execute("PRAGMA synchronous = EXTRA")
    db.execute("PRAGMA fullfsync = ON")
    db.execute("PRAGMA legacy_alter_table = ON")
    db.execute("BEGIN EXCLUSIVE")
    try:
        for table in TABLES:
            db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        for statement in chain.SCHEMA.split(";"):
            db.execute(statement)
        db.execute("INSERT INTO ledger SELECT key, created, '' FROM old_ledger")
        _copy(db)
        for table in TABLES:
            db.execute(f"DROP TABLE old_{table}")
        db.execute(f"PRAGMA user_version = {chain.FORMAT}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _copy(db: sqlite3.Connection) -> None:
    (created,) = db.execute("SELECT created FROM ledger").fetchone()
    rules, names, missing = {}, {}, {}
    for number, name, text, common in db.execute(
        "SELECT id, name, filter, common FROM old_datasets ORDER BY id"
    ).fetchall():
        rules[number], names[number] = Filter.from_dict(json.loads(text)), name
        storage.enter_dataset(
            db, name, None, json.loads(text), rules[number].zero, "record", "float", created
        )
        missing[number, ""] = chain.amounts(common)
    for number, part, amounts in db.execute("SELECT dataset, name, amounts FROM old_parts"):
        missing[number, part] = chain.amounts(amounts)
    charges = db.execute(
        "SELECT e.id, e.dataset, e.part, e.label, e.params, v.json, e.time FROM old_entries e "
        "JOIN old_events v ON v.id = e.event ORDER BY e.id"
    )
    last = {
        (number, part): entry
        for number, part, entry in db.execute(
            "SELECT dataset, part, MAX(id) FROM old_entries GROUP BY dataset, part"
        )
    }
    own: dict = defaultdict(lambda: (0, None))
    for entry, number, part, label, params, event, time in charges:
        rule = rules[number]
        cost = rule.cost(event_from_dict(json.loads(event)))
        count, total = own[number, part]
        total = rule.zero if total is None else total
        if entry == last[number, part]:
            cost = _completed(cost, total, missing[number, part])
        place = chain.dataset(db, names[number])
        assert place is not None
        unit = json.loads(params).get("unit", "record")
        storage.write_charge(
            db, place, part, count, total, cost, time=time, label=label, params=params,
            event=event, unit=str(unit), arithmetic="float",
        )  # fmt: skip
        own[number, part] = count + 1, add(total, cost)
    for where, stored in missing.items():
        if where not in last and any(stored):
            raise chain.Broken("it has totals without entries")


def _completed(cost: tuple, before: tuple, stored: tuple) -> tuple:
    """The last cost of a list, raised so that the new total is never below the stored one."""
    completed: list[int | None] = []
    for each, so_far, total in zip(cost, before, stored, strict=True):
        if each is None or so_far is None or total is None:
            completed.append(None)
            continue
        if abs(so_far + each - total) > TOLERANCE * max(total, 1):
            raise chain.Broken("its totals are not those of its entries")
        completed.append(max(each, total - so_far))
    return tuple(completed)
