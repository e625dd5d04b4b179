"""Fills the template (`template.txt`), which holds all words, as HTML, as text and as data.

The HTML is one file without script or request; the same ledger on the same day gives the same
bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import itertools
import json
import math
import re
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from skriemdp._validation import check_instance
from skriemdp.ledger._filters import round_down, round_up
from skriemdp.ledger._statements import percent
from skriemdp.ledger._units import PRESENT
from skriemdp.page._facts import ENDS, Account, Facts, Release, clean, plural
from skriemdp.page._meaning import ALARMS, WEAK, found_at_most, guessed_at_most, pair, profile_of

SHOWN = 20  # rows of a table in a terminal; the HTML and the history have more
_LINE = re.compile(r"(?:\((!?)([\w.]+)\) )?(\S+) ?(.*)")
_WRAPS = {"?": "dl", "*": "ul", "[]": "ul class='checks'"}
_KINDS = {">": " class='number'", "<": " class='long'"}
_ITEMS = {
    "#": "<h1>{}</h1>",
    "##": "<h2>{}</h2>",
    "!": "<p class='verdict'>{}</p>",
    "!!": "<p class='verdict found'>{}</p>",
    "~": "<p class='part'>{}</p>",
    "-": "<p>{}</p>",
    "*": "<li>{}</li>",
    "[]": "<li><label><input type='checkbox'><span>{}</span></label></li>",
}


class Table(NamedTuple):
    """Rows under a caption; heads begin with > or < where the template says so."""

    rows: list[list[Any]]
    caption: str
    heads: list[str]


@functools.cache
def _sections() -> dict[str, list[str]]:
    text = Path(__file__).with_name("template.txt").read_text(encoding="utf-8")
    pieces = (piece.splitlines() for piece in text.split("\n%% ")[1:])
    return {name: [line for line in lines if line] for name, *lines in pieces}


@functools.cache
def words(section: str) -> dict[str, str]:
    """Return the template's text for each name of a section."""
    return dict(line.split(": ", 1) for line in _sections()[section])


def _filled(section: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The lines of a section as (sign, what it holds)."""
    for line in _sections()[section]:
        match = _LINE.fullmatch(line)
        assert match is not None  # of the template
        no, flag, sign, rest = match.groups()
        if flag and bool(no) == bool(_value(flag, values)):
            continue
        if sign == "figure" and values["figure"]:
            yield sign, values["a"]
        elif sign == "table" and (rows := values[rest.split()[0]]):
            _, caption, *heads = (part.format_map(values) for part in rest.split(" | "))
            yield sign, Table(rows, caption, heads[: len(rows[0])])
        elif sign == "*" and rest in values:
            yield from ((sign, [text]) for text in values[rest])
        elif sign not in ("figure", "table"):
            yield sign, [part.format_map(values) for part in rest.split(" | ")]


def _value(name: str, values: Mapping[str, Any]) -> Any:
    first, _, attribute = name.partition(".")
    return getattr(values[first], attribute) if attribute else values[first]


# -- what the slots hold --


def _of_file(facts: Facts) -> dict[str, Any]:
    check_instance(Facts, "pass what gather(path) returns", facts=facts)
    findings, shown, everything = facts.findings, facts.accounts, facts.everything
    roots = [each for each in everything if each.parent is None]
    limited, broken = [each for each in roots if each.limited], bool(facts.read.problems)
    why = "some data sets have no ceiling" if len(limited) < len(roots) else ""
    why = "see the findings" if any(each.void for each in everything) else why
    what = f"{shown[0].name}, 1 of {plural(len(roots), 'data set')}" if shown else ""
    if shown and shown[0].parent is not None:
        what = f"{shown[0].name}, a part of {shown[0].parent}"
    return {
        "f": facts,
        "broken": broken,
        "found": findings and not broken,
        "count": plural(len(findings), "finding"),
        "open": not findings and not limited,
        "fine": not findings and limited,
        "partial": len(shown) < len(everything),
        "shown": what,
        "findings": findings,
        "cautions": [
            text for each in everything for _, (text,) in _filled("cautions", _of_account(each))
        ],
        "author": facts.author or "not stated (--author NAME)",
        "made": f"{facts.read.created[:19].replace('T', ' ')} UTC",
        "matched": facts.models and not facts.against,
        "unmatched": facts.against,
        "models": "; ".join(map(clean, facts.against or facts.models)),
        "compared": "; ".join(map(clean, facts.compared)),
        "left": "; ".join(map(clean, facts.left)),
        "roots": len(roots),
        "together": len(roots) > 1 and not why,
        "apart": len(roots) > 1 and why,
        "why": why,
        "unit": roots[0].unit.partition(",")[0] if roots else "",
        "epsilon": math.fsum(each.rule.epsilon for each in roots),
        "delta": math.fsum(each.rule.delta for each in roots),
        "head": f"entry {head}" if (head := facts.read.head) else "no entry",
    }


@functools.lru_cache(maxsize=256)
def _of_account(account: Account) -> dict[str, Any]:
    rule, limited, left = account.rule, account.limited, account.remaining
    ratio = rule.delta * account.n if account.n and limited else 0.0
    room = max(left.epsilon, left.pure_epsilon) if left else 0.0
    used = f", {percent(account.used)} of the budget" if limited else ""
    whole, releases = len(account.charges) == account.count, account.releases
    columns, secret = _profiles(account), account.unit == PRESENT
    who = "record" if secret else account.unit
    return {
        "a": account,
        "kind": "Data set" if account.parent is None else "Part",
        "unit": words("units").get(account.unit, "as the ledger was made"),
        "who": who,
        "secret": secret,
        "present": ", or whether one of them was there at all" if secret else "",
        "weak": limited and rule.epsilon >= WEAK,
        "below": 0.0 < ratio < 1.0,
        "above": ratio >= 1.0,
        "ratio": ratio,
        "uncounted": limited and rule.delta > 0.0 and account.n is None,
        "counted": "is secret" if secret else "was noted by no charge",
        "guess": ", and than ".join(
            f"{_rate(max(map(guessed_at_most, known)))} {where}" for where, known in columns
        ),
        "mechanisms": _mechanisms(account),
        "sentence": words("rules")[rule.kind],
        "formula": f"Rule {rule.describe()}.",
        "gaussian": rule.kind == "gdp-part",
        "parts": plural(len(account.parts), "part"),
        "used": "" if account.parts else plural(account.count, "charge") + used,
        "summed": account.totals,
        "unsummed": account.totals is None,
        "alone": account.alone != account.epsilon,
        "more_fits": room > 0.0,
        "full": left and room <= 0.0,
        "fits": "" if rule.kind == "sum" else " with Gaussian noise",
        "sum": round_up(account.epsilon or 0.0),
        "sum_alone": round_up(account.alone or 0.0),
        "gaussian_left": round_down(left.epsilon) if left else "",
        "pure_left": round_down(left.pure_epsilon) if left else "",
        "figure": account.charges and limited,
        "first": "Under the ceiling" if limited else "By the charges",
        "more": f"; {account.more_releases} more are not shown" if account.more_releases else "",
        "caption": "Charges" if whole else f"The first and the last {ENDS} charges",
        "chances": [
            [
                f"at {100 * alarm:g} % false alarms",
                *(_rate(max(found_at_most(alarm, one) for one in known)) for _, known in columns),
            ]
            for alarm in ALARMS
            if columns
        ],
        "releases": [] if whole else list(map(_release_row, releases)),
        "charges": [charge.cells for charge in account.charges],
        "facts": [row for release in releases for row in _fact_rows(release)],
    }


def _profiles(account: Account) -> list[tuple[str, list]]:
    """The columns of chances: where they hold, and the profiles that bound them."""
    rule, found = account.rule, []
    if account.limited:
        found.append(("under the ceiling", [pair(rule.epsilon, rule.delta)]))
    if account.totals and math.isfinite(account.epsilon or 0.0):
        spent = [profile_of(event.delta, account.epsilon or 0.0) for event in account.totals]
        found.append(("by the charges, if their list had been fixed in advance", spent))
    return [] if account.void else found


def _mechanisms(account: Account) -> str:
    kinds = ", ".join(f"{noise} ({count})" for noise, count in account.noises.items())
    noted = [each.noted for each in account.releases]
    signed = {" at ".join(filter(None, (each["user"], each["host"]))) for each in noted}
    unsigned = "Others do not say who made them" if signed - {""} else "No charge says who made it"
    versions = ", ".join(sorted({each["version"] for each in noted} - {""}))
    return (
        (f"Kinds of noise, and charges: {kinds}." if kinds else "None yet.")
        + (f" Charged by skriemdp {versions}." if versions else "")
        + (f" Signed by {', '.join(sorted(signed - {''}))}." if signed - {""} else "")
        + (
            f" {unsigned}; skriemdp.set_config(sign_charges=True) lets later ones name user and "
            "machine."
            if "" in signed
            else ""
        )
    )


def _release_row(row: Release) -> list[Any]:
    shares = [percent(share) for share in (row.share, row.used) if share is not None]
    return [row.first.label, row.count, f"{row.first.id} to {row.last.id}", row.days, *shares]


def _where(row: Release) -> str:
    more = f" to {row.last.id} ({row.count} charges)"
    return f"{row.first.id}{more if row.count > 1 else ''}"


def _plans(account: Account) -> Iterator[dict[str, Any]]:
    """Yield the planned releases of a data set's charges, once for all equal plans."""
    same: dict[tuple[str, str], list[Release]] = {}
    for each in account.releases:
        same.setdefault((each.first.label, json.dumps(each.noted["planned"])), []).append(each)
    for (label, planned), rows in same.items():
        plan = [
            [name, f"{100.0 * share:.3g} %", law, "several" if dim is None else dim]
            for name, share, law, dim in json.loads(planned)
        ]
        yield {"label": label, "where": ", ".join(map(_where, rows)), "plan": plan}


def _fact_rows(row: Release) -> Iterator[list[Any]]:
    for name, value in row.noted["facts"].items():
        what = words("facts").get(name)
        yield [f"{name}: {what}" if what else name, _shown(value), row.first.label, _where(row)]


def _shown(value: Any) -> str:
    if value in ("auto", "private"):
        return f"{value} (not given: found under the budget, or from other public facts)"
    if isinstance(value, dict) and "sha256" in value:
        size = value.get("shape") or value.get("characters")
        return f"too long to be kept here: size {size}, SHA-256 {value['sha256']}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _rate(value: float) -> str:
    """A probability in per cent, three digits, never below the value."""
    shown = 100.0 * value
    digits = max(2 - math.floor(math.log10(shown)), 0) if shown > 0.0 else 2
    step = 10.0**-digits
    # The factor keeps numbers that are exact from being lifted by their own rounding.
    return f"{min(math.ceil(shown / step * (1.0 - 1e-9)) * step, 100.0):.{digits}f} %"


# -- the forms --


def _report(facts: Facts) -> Iterator[tuple[str, Any]]:
    yield from _filled("head", _of_file(facts))
    for account in facts.accounts:
        yield from _filled("account", _of_account(account))
        for plan in _plans(account):
            yield from _filled("plan", plan)
    yield from _filled("foot", {})


def to_html(facts: Facts) -> str:
    """One UTF-8 file that needs nothing else."""
    ids, pieces = itertools.count(1), []
    for sign, lines in itertools.groupby(_report(facts), lambda line: line[0]):
        items = "\n".join(_item(sign, parts, ids) for _, parts in lines)
        wrap = _WRAPS.get(sign)
        pieces.append(f"<{wrap}>\n{items}\n</{wrap.split()[0]}>" if wrap else items)
    style, body = "\n".join(_sections()["style"]), "\n".join(pieces)
    page = "\n".join(_sections()["page"]) + "\n"
    return page.format(file=_text(facts.file), style=style, body=body)


def _text(value: object) -> str:
    return html.escape(clean(value))


def _own(value: object) -> str:
    """Text whose direction ends where it ends."""
    return f"<bdi>{_text(value)}</bdi>"


def _item(sign: str, parts: Any, ids: Iterator[int]) -> str:
    if sign == "table":
        return _table(parts, next(ids))
    if sign == "figure":
        return _figure(parts, next(ids))
    if sign == "?":
        name, answer, *folded = map(_own, parts)
        fold = "".join(f"<details><summary>Formula</summary>{x}</details>" for x in folded)
        return f"<dt>{name}</dt><dd>{answer}{fold}</dd>"
    return _ITEMS[sign].format(_own(parts[0]))


def _table(table: Table, number: int) -> str:
    """A table that scrolls by itself where the page is narrow; the keyboard reaches it."""
    head = "".join(f"<th scope='col'>{_own(text.lstrip('<>'))}</th>" for text in table.heads)
    kinds = [_KINDS.get(text[0], "") for text in table.heads]
    starts = [f"<td{kind}>" for kind in kinds]
    starts[0] = starts[0].replace("td", "th scope='row'")
    rows = "</tr>\n<tr>".join(
        "".join(
            f"{start}{_own(value)}</{start[1:3]}>" for start, value in zip(starts, row, strict=True)
        )
        for row in table.rows
    )
    return (
        f"<div class='scroll' role='region' tabindex='0' aria-labelledby='t{number}'><table>"
        f"<caption id='t{number}'>{_own(table.caption)}</caption><thead><tr>{head}</tr></thead>\n"
        f"<tbody><tr>{rows}</tr></tbody></table></div>"
    )


def _figure(account: Account, number: int) -> str:
    """The share of a budget used, charge by charge; its title and description say it."""
    first, last = (_text(account.charges[i].time[:16].replace("T", " ")) for i in (0, -1))
    path = "".join(
        f"H{44 + 306 * place / account.count:.1f}V{160 - 146 * used:.1f}"
        for place, used in account.steps
    )
    return "\n".join(_sections()["figure"]).format(
        number=number, name=_text(account.name), used=percent(account.used), count=account.count,
        first=first, last=last, path=path,
    )  # fmt: skip


def to_text(facts: Facts) -> str:
    """Render the page as text for a terminal."""
    lines: list[str] = []
    for sign, parts in _report(facts):
        if sign == "table":
            rows = [[text.lstrip("<>") for text in parts.heads], *parts.rows[-SHOWN:]]
            if (more := len(parts.rows) - SHOWN) > 0:
                rows.append([f"({more} earlier: in the page of --html, and in --json)"])
            lines += [f"-- {clean(parts.caption)}"]
            lines += ["   " + " | ".join(map(clean, row)) for row in rows]
        elif sign == "?":
            lines.append(f"{parts[0] + ':':<24}{clean(' '.join(parts[1:]))}")
        elif sign != "figure":
            lines.append(f"{'' if sign in '-!!' else sign + ' '}{clean(parts[0])}")
    return "\n".join(lines) + "\n"


def to_data(facts: Facts) -> dict[str, Any]:
    """Return the content of the page, ready for ``json.dumps``.

    ``deployments`` holds each data set in the fields of the OpenDP registry of deployments of
    differential privacy; what a ledger cannot know is ``"..."`` there.
    """
    values = _of_file(facts)
    head = list(_filled("head", values))
    return {
        "verdict": next(text for sign, (text, *_) in head if sign[0] == "!"),
        "findings": facts.findings,
        "cautions": values["cautions"],
        "answers": {parts[0]: parts[1] for sign, parts in head if sign == "?"},
        "shown": [each.name for each in facts.accounts],
        "of": [each.name for each in facts.everything],
        "head": facts.read.head and facts.read.head._asdict(),
        "datasets": [_account_data(account) for account in facts.accounts],
        "deployments": [_deployment(account, facts) for account in facts.accounts],
        "conditions": [parts[0] for sign, parts in _filled("foot", {}) if sign == "[]"],
    }


def _account_data(account: Account) -> dict[str, Any]:
    names = "name unit parent count noises n used seeded unreadable void more_releases".split()
    return {name: getattr(account, name) for name in names} | {
        "parts": [part.name for part in account.parts],
        "rule": account.rule.to_dict(),
        "epsilon": None if account.epsilon is None else repr(account.epsilon),
        "alone": None if account.alone is None else repr(account.alone),
        "remaining": account.remaining and dataclasses.asdict(account.remaining),
        "charges": [charge._asdict() for charge in account.charges],
        "releases": [
            {"label": each.first.label, "first": each.first.id, "last": each.last.id}
            | {name: getattr(each, name) for name in ("count", "days", "share", "used")}
            | each.noted
            for each in account.releases
        ],
    }


def _deployment(account: Account, facts: Facts) -> dict[str, Any]:
    values, rule = _of_account(account), account.rule
    answers = {
        parts[0].replace(" ", "_"): " ".join(parts[1:])
        for sign, parts in _filled("account", values)
        if sign == "?"
    }
    noted = (f"{name} = {value} ({label})" for name, value, label, _ in values["facts"])
    values = values | {"What_an_attacker_gains": ""} | answers | {
        "name": account.name,
        "date": facts.date[:10],
        "slug": "-".join(re.findall("[a-z0-9]+", f"{facts.file} {account.name}".lower())),
        "curator": facts.author or "...",
        "variant": "Approximate DP" if rule.delta > 0.0 else "Pure DP",
        "noted": "; ".join(noted),
        "model": "Federated" if account.unit == "client" else "Central",
        "times": "One release" if account.count == 1 else "Many releases",
        "head": _of_file(facts)["head"],
    }  # fmt: skip
    texts = {name: json.dumps(str(value))[1:-1] for name, value in values.items()}
    record = json.loads(string.Template("".join(_sections()["registry"])).substitute(texts))
    limits = {"epsilon": rule.epsilon, "delta": rule.delta} if account.limited else {}
    record["deployment"]["privacy_loss"]["privacy_parameters"] = limits
    return record
