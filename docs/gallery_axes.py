"""Figures of the gallery: refused where an axes shows nothing; one panel is the thumbnail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["scraper", "empty_axes", "panel"]


def empty_axes(figure: Any) -> list[int]:
    """Which axes of a matplotlib figure show neither data nor text, by number."""
    return [
        number
        for number, axes in enumerate(figure.axes)
        if not (axes.has_data() or axes.texts or axes.tables)
    ]


def panel(figure: Any) -> Any:
    """The axes of a figure that is labelled "thumbnail", else the first that shows data."""
    named = [axes for axes in figure.axes if axes.get_label() == "thumbnail"]
    return (named or [axes for axes in figure.axes if axes.has_data()] or figure.axes)[0]


def _save_panel(figure: Any, path: Path) -> None:
    """Draw one panel with its words, so that a small picture of it can be read."""
    figure.canvas.draw()
    box = panel(figure).get_tightbbox().transformed(figure.dpi_scale_trans.inverted())
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches=box.padded(0.1), dpi=150)


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
    path = Path(gallery_conf["src_dir"]) / "gallery" / "panels" / f"{_stem(block_vars)}.png"
    if pyplot.get_fignums() and not block_vars["example_globals"].get("__panel_saved__"):
        _save_panel(pyplot.figure(pyplot.get_fignums()[0]), path)
        block_vars["example_globals"]["__panel_saved__"] = True
    return matplotlib_scraper(block, block_vars, gallery_conf)


def _stem(block_vars: dict[str, Any]) -> str:
    return Path(block_vars["src_file"]).stem
