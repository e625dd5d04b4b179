"""The page as one HTML file: no script, no request, no clock; the same ledger, the same bytes."""

from __future__ import annotations

import html
from collections.abc import Iterable

from skriemdp.ledger.statements import percent
from skriemdp.page.facts import ENDS, Account, Charge, Facts, Group, clean
from skriemdp.page.figure import steps_figure
from skriemdp.page.words import (
    CONDITIONS,
    account_lines,
    file_lines,
    meaning_rows,
    meaning_warning,
    moment,
)

__all__ = ["DARK", "LIGHT", "to_html"]

# Colours of text and of what carries meaning; tests compute their contrast on the background.
LIGHT = {
    "back": "#ffffff",
    "text": "#1b1f24",
    "quiet": "#4b5563",
    "line": "#0b5cad",
    "bad": "#a11212",
}
DARK = {
    "back": "#14171a",
    "text": "#e8e8e6",
    "quiet": "#b0b7bf",
    "line": "#7cb7ff",
    "bad": "#ff9c94",
}

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; %(light)s }
@media (prefers-color-scheme: dark) { :root { %(dark)s } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--back);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1, h2, h3 { line-height: 1.25; margin: 1.5em 0 .5em }
h1 { margin-top: 0 }
.verdict { border: 2px solid var(--line); padding: .75rem 1rem; font-weight: 600 }
.verdict.found { border: 4px double var(--bad); color: var(--bad) }
.scroll { overflow-x: auto; max-width: 100%%; margin: 1rem 0 }
.scroll:focus-visible { outline: 3px solid var(--line) }
table { border-collapse: collapse; font-size: .9rem; overflow-wrap: normal }
caption { text-align: left; font-weight: 600; padding-bottom: .25rem }
th, td { border: 1px solid var(--quiet); padding: .25rem .5rem; text-align: left;
  vertical-align: top }
td.long { min-width: 14rem; max-width: 20rem; overflow-wrap: anywhere }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
dl { display: grid; grid-template-columns: minmax(5.5rem, 11rem) 1fr; gap: .25rem 1rem; margin: 0 }
dt { font-weight: 600 } dd { margin: 0; min-width: 0 }
@media (max-width: 36rem) { dl { display: block } dd { margin: 0 0 .5rem } }
figure { margin: 1.5rem 0 } figcaption { font-weight: 600; font-size: .9rem }
.quiet { color: var(--quiet) }
.digest { font-family: ui-monospace, monospace; font-size: .9em }
svg { display: block; width: 100%%; max-width: 36rem; height: auto }
svg text { font-size: 11px; fill: var(--text) }
svg .grid { stroke: var(--quiet); stroke-width: .5 }
svg .limit { stroke: var(--text); stroke-width: 1; stroke-dasharray: 4 3 }
svg .steps { fill: none; stroke: var(--line); stroke-width: 2 }
ul.checks { list-style: none; padding: 0 }
ul.checks li { margin: .5rem 0 }
ul.checks label { display: grid; grid-template-columns: 1.75rem 1fr }
ul.checks input { width: 1.1rem; height: 1.1rem; margin: .2rem 0 0 }
@media print { :root { color-scheme: light; %(light)s }
  body { max-width: none; padding: 0; font-size: 10pt }
  .scroll { overflow: visible } table { font-size: 8pt } thead { display: table-header-group }
  tr, svg, .verdict, ul.checks li { break-inside: avoid } }
"""


def to_html(facts: Facts) -> str:
    """One UTF-8 file that needs nothing else."""
    title = f"Privacy ledger {_text(facts.file)}"
    style = _STYLE % {"light": _colours(LIGHT), "dark": _colours(DARK)}
    sections = "".join(_account(account, i) for i, account in enumerate(facts.accounts, 1))
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        "<meta name='referrer' content='no-referrer'>\n"
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n{_verdict(facts)}\n{_list(file_lines(facts))}\n"
        f"{sections}{_conditions()}</main>\n</body>\n</html>\n"
    )


def _colours(colours: dict[str, str]) -> str:
    return "; ".join(f"--{name}: {value}" for name, value in colours.items())


def _text(value: str) -> str:
    """Text of the file, whose direction ends where it ends."""
    return html.escape(clean(value))


def _own(value: str) -> str:
    return f"<bdi>{_text(value)}</bdi>"


def _verdict(facts: Facts) -> str:
    found = facts.findings
    kind = "verdict found" if found else "verdict"
    points = "".join(f"<li>{_own(text)}</li>" for text in found)
    listed = f"<h2>Findings</h2>\n<ul>{points}</ul>" if found else ""
    return f"<p class='{kind}'>{_text(facts.verdict)}</p>\n{listed}"


def _list(lines: Iterable[tuple[str, str]]) -> str:
    rows = "".join(
        f"<dt>{_text(name)}</dt><dd{_digest(name)}>{_own(value)}</dd>" for name, value in lines
    )
    return f"<dl>{rows}</dl>"


def _digest(name: str) -> str:
    return " class='digest'" if name == "Its digest" else ""


def _account(account: Account, number: int) -> str:
    what = "Data set" if account.parent is None else "Part"
    pieces = [
        f"<section aria-labelledby='a{number}'>\n"
        f"<h2 id='a{number}'>{what} {_own(account.name)}</h2>",
        _list(account_lines(account)),
    ]
    if account.charges and account.limited:
        caption = "Share of the budget used over time (UTC); the dashed line is the ceiling"
        figure = steps_figure(account, number)
        pieces.append(f"<figure><figcaption>{caption}</figcaption>{figure}</figure>")
    if account.groups:
        pieces.append(_groups(account, number))
    if account.charges:
        pieces.append(_charges(account, number))
    pieces.append(_meaning(account, number))
    return "\n".join(piece for piece in pieces if piece) + "\n</section>\n"


def _region(name: str, caption: str, head: Iterable[str], rows: Iterable[str]) -> str:
    """A table that scrolls by itself where the page is narrow; the keyboard reaches it."""
    columns = "".join(f"<th scope='col'>{text}</th>" for text in head)
    return (
        f"<div class='scroll' role='region' tabindex='0' aria-labelledby='{name}'><table>"
        f"<caption id='{name}'>{caption}</caption><thead><tr>{columns}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _groups(account: Account, number: int) -> str:
    caption = f"All {account.count} charges, by label and day (UTC)"
    if account.more_groups:
        caption += f"; {account.more_groups} more groups are not shown"
    head = ["Day", "Label", "Charges", "Entries", *_share_heads(account)]
    rows = (
        f"<tr><th scope='row'>{_text(group.day)}</th><td class='long'>{_own(group.label)}</td>"
        f"<td class='number'>{group.count}</td>"
        f"<td class='number'>{group.first} to {group.last}</td>{_shares(group)}</tr>"
        for group in account.groups
    )
    return _region(f"g{number}", caption, head, rows)


def _charges(account: Account, number: int) -> str:
    caption = "Charges"
    if len(account.charges) < account.count:
        caption = f"The first and the last {ENDS} charges"
    head = ["Entry", "Time (UTC)", "Label", "Guarantee", "Noise", *_share_heads(account)]
    rows = (
        f"<tr><th scope='row' class='number'>{charge.entry}</th>"
        f"<td>{_text(moment(charge.time).removesuffix(' UTC'))}</td>"
        f"<td class='long'>{_own(charge.label)}{_partition(charge)}</td>"
        f"<td>{_text(charge.guarantee)} per {_text(charge.unit)}</td>"
        f"<td>{_text(charge.noise)}{_seed(charge)}</td>{_shares(charge)}</tr>"
        for charge in account.charges
    )
    return _region(f"c{number}", caption, head, rows)


def _share_heads(account: Account) -> list[str]:
    return ["Share of the budget", "Used after it"] if account.limited else []


def _shares(row: Charge | Group) -> str:
    if row.share is None or row.used is None:
        return ""
    return (
        f"<td class='number'>{percent(row.share)}</td><td class='number'>{percent(row.used)}</td>"
    )


def _partition(charge: Charge) -> str:
    return f" <span class='quiet'>on partition {_own(charge.part)}</span>" if charge.part else ""


def _seed(charge: Charge) -> str:
    return "; <strong>seeded: protects nobody</strong>" if charge.seeded else ""


def _meaning(account: Account, number: int) -> str:
    rows, warning = meaning_rows(account), meaning_warning(account)
    if not rows:
        return f"<p>{_text(warning)}</p>" if warning else ""
    text = (
        f"Suppose that somebody knows everything about two {_text(account.unit)}s and about all "
        "others, and tests on everything released which of the two was in the data. Whatever the "
        "test, it succeeds at most so often. The number for a guess is the share of right ones "
        "over many guesses, not the certainty of a single one."
    )
    weak = f" <strong>{_text(warning)}</strong>" if warning else ""
    cells = (
        f"<tr><th scope='row'>{_text(what)}</th><td class='number'>{ceiling or 'no ceiling'}</td>"
        f"<td class='number'>{spent or 'not known'}</td></tr>"
        for what, ceiling, spent in rows
    )
    head = [
        "A test or a guess",
        "Under the ceiling, at most",
        "By these charges, if their list had been fixed in advance, at most",
    ]
    table = _region(f"m{number}", "Chances of an attack", head, cells)
    return f"<h3>What this epsilon means</h3>\n<p>{text}{weak}</p>\n{table}"


def _conditions() -> str:
    rows = "".join(
        f"<li><label><input type='checkbox'><span>{_text(text)}</span></label></li>"
        for text in CONDITIONS
    )
    return (
        "<section aria-labelledby='conditions'>\n<h2 id='conditions'>Conditions</h2>\n"
        "<p>The ledger cannot see these. What the page says holds if all of them are true; tick "
        f"what you have checked.</p>\n<ul class='checks'>{rows}</ul>\n</section>\n"
    )
