"""The sentences that the page and its plain form share."""

from __future__ import annotations

import math
from collections.abc import Iterator

from skriemdp.ledger.statements import percent, round_up
from skriemdp.page.facts import Account, Facts
from skriemdp.page.meaning import (
    ALARMS,
    WEAK,
    found_at_most,
    guessed_at_most,
    pair,
    profile_of,
)

__all__ = ["CONDITIONS", "account_lines", "file_lines", "meaning_rows", "meaning_warning"]

CONDITIONS = (
    "The data of each fit were chosen without looking at the records: KFold does, StratifiedKFold "
    "and any choice of rows by their values do not.",
    "Only released models were looked at: no raw score on these records, no plot of them, and no "
    "choice that was based on either.",
    "Centres, radii, norms, scales and lists of names that were given as public did not come from "
    "these records.",
    "Noise came from the operating system: no fit had an integer random_state.",
    "No step before or after a private one learned from the records without privacy "
    "(skriemdp.privacy_report names such steps).",
    "Nobody owns more than one of the units that a ceiling protects: for people with several rows "
    "the unit is 'group', and groups= named the same people every time.",
    "Partitions of a data set are disjoint, and who is in which was fixed without looking at the "
    "records.",
    "Each name of a data set meant the same records every time, and no other ledger or release "
    "concerns the same people; where one does, both have to be added up.",
    "The head of this page is not older than one noted before, on paper or in a witness file.",
)


def file_lines(facts: Facts) -> list[tuple[str, str]]:
    """Name and head of the file."""
    head = "none: nothing was entered" if facts.head is None else f"entry {facts.head.entry}"
    lines = [("File", facts.file), ("Made", moment(facts.created)), ("Head of the chain", head)]
    if facts.head is not None:
        lines.append(("Its digest", facts.head.digest))
    return lines


def account_lines(account: Account) -> Iterator[tuple[str, str]]:
    """Ceiling, rule, use and total of one data set, as (name, value)."""
    rule = account.rule
    if account.limited:
        yield "Ceiling", f"epsilon = {rule.epsilon:g}, delta = {rule.delta:g}"
        yield "Rule", rule.describe()
    else:
        yield "Ceiling", "none: nothing is refused, and nothing is promised"
    yield "Protects", f"each {account.unit}; neighbouring data sets differ in one {account.unit}"
    if account.parent is not None:
        yield "Part of", account.parent
    if rule.kind == "gdp-part":
        yield (
            "Together",
            "this ceiling holds for this part alone. What holds for all parts together is the "
            "ceiling of the divided budget; ceilings of such parts must not be added.",
        )
    if account.parts:
        yield "Divided into", f"{len(account.parts)} parts, which are charged in its place"
    else:
        many = "1 charge" if account.count == 1 else f"{account.count} charges"
        used = f", {percent(account.used)} of the budget" if account.limited else ""
        yield "Used", f"{many}{used}"
    yield "In sum", _in_sum(account)


def _in_sum(account: Account) -> str:
    if account.totals is None or account.epsilon is None:
        return "not computed: the charges are too many different ones, or of unknown kinds"
    if not account.totals:
        return "nothing was charged"
    return (
        f"epsilon = {round_up(account.epsilon)} at delta = {account.rule.delta:g}, if this list of "
        "charges had been fixed in advance"
    )


def meaning_rows(account: Account) -> list[tuple[str, str, str]]:
    """Rows (what, under the ceiling, by the charges so far); empty where neither is known.

    Cells are ``""`` where the number is not known.
    """
    rule, rows = account.rule, []
    if account.void:
        return []
    ceiling = pair(rule.epsilon, rule.delta) if account.limited else None
    spent = None
    if account.totals and account.epsilon is not None and math.isfinite(account.epsilon):
        spent = [profile_of(event.delta, account.epsilon) for event in account.totals]
    if ceiling is None and spent is None:
        return []
    for alarm in ALARMS:
        top = "" if ceiling is None else _rate(found_at_most(alarm, ceiling))
        now = "" if spent is None else _rate(max(found_at_most(alarm, each) for each in spent))
        rows.append((f"found, at {100 * alarm:g} % false alarms", top, now))
    top = "" if ceiling is None else _rate(guessed_at_most(ceiling))
    now = "" if spent is None else _rate(max(guessed_at_most(each) for each in spent))
    rows.append(("guessed right, at even odds", top, now))
    return rows


def meaning_warning(account: Account) -> str:
    """A sentence on a guarantee that is missing or protects little; ``""`` for any other."""
    if account.void:
        return "Nothing bounds here what was revealed: see the findings."
    if not account.limited:
        return "Without a ceiling nothing bounds what later releases reveal."
    if account.rule.epsilon < WEAK:
        return ""
    return (
        f"An epsilon of {account.rule.epsilon:g} is weak: a test that is rarely wrong may still "
        "find a record that it looks for."
    )


def moment(time: str) -> str:
    """A stored time to the second."""
    return f"{time[:19].replace('T', ' ')} UTC"


def _rate(value: float) -> str:
    """A probability in per cent, three digits, never below the value."""
    shown = 100.0 * value
    digits = max(2 - math.floor(math.log10(shown)), 0) if shown > 0.0 else 2
    step = 10.0**-digits
    # The factor keeps numbers that are exact from being lifted by their own rounding.
    return f"{min(math.ceil(shown / step * (1.0 - 1e-9)) * step, 100.0):.{digits}f} %"
