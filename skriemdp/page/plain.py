"""The page as lines of text, and as plain data for other programs."""

from __future__ import annotations

import dataclasses
from typing import Any

from skriemdp.ledger.statements import percent
from skriemdp.page.facts import Account, Charge, Facts, clean
from skriemdp.page.words import (
    CONDITIONS,
    account_lines,
    file_lines,
    meaning_rows,
    meaning_warning,
    moment,
)

__all__ = ["to_data", "to_text"]

SHOWN = 20  # charges of a data set; the page and the history have more


def to_text(facts: Facts) -> str:
    """What the page says, for a terminal."""
    lines = [facts.verdict]
    lines += [f"FINDING: {clean(text)}" for text in facts.findings]
    lines += [_line(*row) for row in file_lines(facts)]
    for account in facts.accounts:
        lines += ["", f"Data set {clean(account.name)}"]
        lines += [_line(name, clean(value)) for name, value in account_lines(account)]
        shown = account.charges[-SHOWN:]
        if len(shown) < account.count:
            lines.append(_line("Charges", f"{account.count - len(shown)} earlier ones, not shown"))
        lines += [_line("Charge", _charge_text(charge)) for charge in shown]
        for what, ceiling, spent in meaning_rows(account):
            cells = f"under the ceiling {ceiling or '-'}, by these charges {spent or '-'}"
            lines.append(_line("At most", f"{what}: {cells}"))
        if warning := meaning_warning(account):
            lines.append(_line("Note", warning))
    lines += ["", "All this holds if (tick what you have checked):"]
    lines += [f"[ ] {text}" for text in CONDITIONS]
    return "\n".join(lines) + "\n"


def _line(name: str, value: str) -> str:
    return f"{name + ':':<19}{value}"


def _charge_text(charge: Charge) -> str:
    where = f" on partition {clean(charge.part)}" if charge.part else ""
    share = "" if charge.share is None else f"  {percent(charge.share)}"
    seeded = ", SEEDED" if charge.seeded else ""
    return (
        f"{charge.entry}  {clean(moment(charge.time))}  {clean(charge.label)}{where}  "
        f"{charge.guarantee} per {clean(charge.unit)}{share}  ({clean(charge.noise)}{seeded})"
    )


def to_data(facts: Facts) -> dict[str, Any]:
    """What the page says, ready for ``json.dumps``."""
    return {
        "verdict": facts.verdict,
        "findings": facts.findings,
        "file": facts.file,
        "created": facts.created,
        "head": None if facts.head is None else facts.head._asdict(),
        "datasets": [_account_data(account) for account in facts.accounts],
        "conditions": list(CONDITIONS),
    }


def _account_data(account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "unit": account.unit,
        "parent": account.parent,
        "parts": account.parts,
        "filter": account.rule.to_dict(),
        "count": account.count,
        "used": account.used if account.limited else None,
        "epsilon_if_fixed_in_advance": None if account.epsilon is None else repr(account.epsilon),
        "charges": [dataclasses.asdict(charge) for charge in account.charges],
        "groups": [dataclasses.asdict(group) for group in account.groups],
        "seeded": account.seeded,
        "unreadable": account.unreadable,
        "meaning": [
            {"what": what, "ceiling": ceiling, "spent": spent}
            for what, ceiling, spent in meaning_rows(account)
        ],
    }
