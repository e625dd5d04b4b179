"""Figures of the gallery, refused where an axes shows nothing."""

from __future__ import annotations

from typing import Any

__all__ = ["scraper", "empty_axes"]


def empty_axes(figure: Any) -> list[int]:
    """Which axes of a matplotlib figure show neither data nor text, by number."""
    return [
        number
        for number, axes in enumerate(figure.axes)
        if not (axes.has_data() or axes.texts or axes.tables)
    ]


def scraper(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """sphinx-gallery's own scraper of figures, after a look at their axes."""
    from matplotlib import pyplot
    from sphinx_gallery.scrapers import matplotlib_scraper

    for number in pyplot.get_fignums():
        empty = empty_axes(pyplot.figure(number))
        if empty:
            raise ValueError(
                f"{block_vars['src_file']}: figure {number} has axes without artists: {empty}"
            )
    return matplotlib_scraper(block, block_vars, gallery_conf)
