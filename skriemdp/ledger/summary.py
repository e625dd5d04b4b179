"""What an accountant says of itself: a table of short lines."""

from __future__ import annotations

import json
import math
from collections import deque
from typing import TYPE_CHECKING

from skriemdp.ledger.refusals import remaining
from skriemdp.ledger.statements import charge_line, percent, round_up
from skriemdp.ledger.storage import add

if TYPE_CHECKING:
    from skriemdp.ledger.accountant import PrivacyAccountant


__all__ = ["recent_charges", "summary_lines"]

_CHARGES_SHOWN = 20  # of a summary; the history has them all
_SHARES = (
    "of the condition closest to its limit; Gaussian charges add by mu squared, so half the "
    "epsilon takes about a quarter"
)
_TOGETHER = (
    "this ceiling holds for this part alone; what holds for all parts together is the ceiling of "
    "the divided budget, and ceilings of Gaussian parts must not be added"
)


def summary_lines(account: PrivacyAccountant) -> list[tuple[str, str]]:
    """Names and values of the lines, in their order; no record is shown."""
    rule, spent = account._filter, account.spent
    ceiling = (
        "none"
        if math.isinf(rule.epsilon)
        else f"epsilon={rule.epsilon:g}, delta={rule.delta:g}, filter {rule.describe()}"
    )
    place = account._dataset + (f", partition {account._partition}" if account._partition else "")
    parts = account.parts
    lines = [
        ("Data set", f"{place} ({account.path})"),
        ("Ceiling", ceiling),
        ("Protects", _protects(account)),
        (
            "Spent",
            f"epsilon={round_up(spent.epsilon)} at delta={rule.delta:g} over {spent.n_entries} "
            f"releases, if this list had been fixed in advance",
        ),
        ("Head", f"entry {account.head}"),
    ]
    if rule.kind == "gdp-part":
        lines.append(("Together", _TOGETHER))
    if parts:
        lines.append(("Divided", f"into {len(parts)} parts; charge one of them"))
        lines += [("Part", _part_line(part)) for part in parts]
    else:
        lines.append(("Remaining", f"{account.remaining()}"))
        lines += _charge_lines(account)
    lines.append(
        (
            "Valid",
            "for released models only, not for raw scores or a choice based on them; if each "
            "fit's data were chosen independently of the records (KFold yes, StratifiedKFold "
            "no) and its noise came from the system (no integer random_state).",
        )
    )
    return lines


def _protects(account: PrivacyAccountant) -> str:
    unit, rule = account.unit, account._filter
    text = f"each {unit}"
    if unit == "record":
        text += "; for people who own several, make an accountant with unit='group'"
    if rule.limits is None:
        text += "; without a ceiling nothing is refused, so see the unit of each charge"
    return text


def _part_line(account: PrivacyAccountant) -> str:
    rule, parts = account._filter, account.parts
    state = (
        f"divided into {len(parts)}"
        if parts
        else f"{percent(remaining(rule, account._standing()).used)} used"
    )
    return f"{account._dataset}: epsilon={rule.epsilon:g}, delta={rule.delta:g}, {state}"


def _charge_lines(account: PrivacyAccountant) -> list[tuple[str, str]]:
    """One line for each of the last charges, and one that counts those before."""
    limited = account._filter.limits is not None
    rows, used = recent_charges(account, _CHARGES_SHOWN)
    lines = []
    earlier = account._ledger.count(account._dataset, account._partition or None) - len(rows)
    if earlier:
        lines.append(("Charges", f"{earlier} earlier ones: see history or to_frame()"))
    if rows and limited:
        lines.append(("Shares", _SHARES))
    for row, before, after in zip(rows, used[:-1], used[1:], strict=True):
        share = after - before if limited else None
        lines.append(("Charge", charge_line(row, share, account.delta)))
    return lines


def recent_charges(account: PrivacyAccountant, most: int) -> tuple[list, list[float]]:
    """The last charges, and the share of the budget used before and after each."""
    rule, row = account._filter, account._ledger.row(account._dataset)
    own = rule.zero
    seen: deque = deque(maxlen=most + 1)
    seen.append((None, 0.0))
    # A partition's total needs its own entries from the first on; a data set's last ones
    # carry all that is needed, so a long ledger is read from its end.
    part, reach = account._partition or None, 4 * most
    while True:
        start = 0 if part else max(row.last - reach, 0)
        rows = list(account._ledger.entries(account._dataset, part, after=start))
        if start == 0 or len(rows) > most:
            break
        reach *= 8
    for found in rows if part else rows[-most - 1 :]:
        after = json.loads(found.after)
        own = tuple(after[5]) if part and found.part else own
        total = add(tuple(after[2]), own if part else tuple(after[3]))
        seen.append((found, min(rule.used(total), 1.0)))
    return [found for found, _ in seen][1:], [used for _, used in seen]
