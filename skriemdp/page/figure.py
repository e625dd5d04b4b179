"""The share of a budget used over time, as an SVG figure without any script."""

from __future__ import annotations

import datetime
import html

from skriemdp.page.facts import Account, clean

__all__ = ["steps_figure"]

# The drawing's own units; it is scaled to the width of the page.
WIDTH, HEIGHT = 360.0, 200.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 350.0, 14.0, 160.0


def steps_figure(account: Account, number: int) -> str:
    """An ``<svg>`` with a title and a description that say what it shows."""
    first, last = account.charges[0].time, account.charges[-1].time
    places = _places([time for time, _ in account.steps], first, last)
    points = [f"M{_x(0.0)} {_y(0.0)}"]
    for place, (_, used) in zip(places, account.steps, strict=True):
        points.append(f"H{_x(place)}V{_y(used)}")
    points.append(f"H{_x(1.0)}")
    name = html.escape(clean(account.name))
    percent = 100.0 * account.used
    many = "1 charge" if account.count == 1 else f"{account.count} charges"
    description = (
        f"A line that climbs by steps from 0 to {percent:.1f} per cent over {many}, from "
        f"{_minute(first)} to {_minute(last)}. The charges are listed below with the share that "
        "each of them left used."
    )
    grid = "".join(
        f"<path class='grid' d='M{_x(0.0)} {_y(share)}H{_x(1.0)}'/>"
        f"<text x='{LEFT - 6:g}' y='{_y(share)}' dy='4' text-anchor='end'>{share:.0%}</text>"
        for share in (0.0, 0.5, 1.0)
    )
    return (
        f"<svg role='img' viewBox='0 0 {WIDTH:g} {HEIGHT:g}' aria-labelledby='ft{number} "
        f"fd{number}'><title id='ft{number}'>Share of the budget of {name} used over time</title>"
        f"<desc id='fd{number}'>{description}</desc>{grid}"
        f"<path class='limit' d='M{_x(0.0)} {_y(1.0)}H{_x(1.0)}'/>"
        f"<path class='steps' d='{''.join(points)}'/>"
        f"<text x='{LEFT:g}' y='{BOTTOM + 18:g}'>{_minute(first)}</text>"
        f"<text x='{RIGHT:g}' y='{BOTTOM + 34:g}' text-anchor='end'>{_minute(last)}</text></svg>"
    )


def _minute(time: str) -> str:
    return html.escape(clean(time[:16]).replace("T", " "))


def _places(times: list[str], first: str, last: str) -> list[float]:
    """Where times lie between the first and the last, in [0, 1]; by order if that is not known."""
    try:
        start, end = (datetime.datetime.fromisoformat(time) for time in (first, last))
        span = (end - start).total_seconds()
        if span > 0.0:
            offsets = [
                (datetime.datetime.fromisoformat(time) - start).total_seconds() for time in times
            ]
            # A clock may have been set back; the line only goes to the right.
            highest, places = 0.0, []
            for offset in offsets:
                highest = min(max(highest, offset / span), 1.0)
                places.append(highest)
            return places
    except (ValueError, TypeError):
        pass
    return [index / max(len(times), 1) for index in range(len(times))]


def _x(place: float) -> str:
    return f"{LEFT + place * (RIGHT - LEFT):.1f}"


def _y(share: float) -> str:
    return f"{BOTTOM - share * (BOTTOM - TOP):.1f}"
