"""What the reproduction scripts share: command line, data folder, tables, figures."""

import argparse
import os
from pathlib import Path

import numpy as np


def parse(doc, arguments=None, only=False):
    """Options of a script: ``quick``, ``output`` (made if missing) and ``data`` (None if unset).

    With `only` there is also ``only``, words of the names of problems, by default all of them.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer points and repeats")
    parser.add_argument("--output", type=Path, default=Path("reproductions_output"))
    parser.add_argument("--data", type=Path, default=os.environ.get("SKRIEMDP_DATA"))
    if only:
        parser.add_argument(
            "--only", nargs="+", default=[], help="problems with one of these words"
        )
    options = parser.parse_args(arguments)
    options.data = Path(options.data) if options.data else None
    options.output.mkdir(parents=True, exist_ok=True)
    return options


def data_file(options, name, what):
    """Path of a data file, or None after one line that says what was skipped and why."""
    path = None if options.data is None else options.data / name
    if path is None or not path.exists():
        where = "no folder given with --data or SKRIEMDP_DATA" if path is None else "not there"
        print(f"\nskipped: {what} needs {name} ({where})", flush=True)
        return None
    return path


def heading(text):
    print(f"\n### {text}\n", flush=True)


def table(header, rows):
    """Print a Markdown table, each row as soon as it is computed."""
    print("| " + " | ".join(str(cell) for cell in header) + " |")
    print("|---" * len(header) + "|")
    for row in rows:
        print("| " + " | ".join(cell(value) for value in row) + " |", flush=True)
    print()


def cell(value):
    """Text as it is, numbers to three digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)):
        return str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.1e}"
    return f"{value:.3g}"


def spread(values):
    """``mean ± standard error [median]`` of repeats."""
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{cell(values.mean())} ± {error:.1g} [{cell(float(np.median(values)))}]"


def save_figure(options, name, draw):
    """Write NAME.png with ``draw(pyplot)``, which returns a figure; without matplotlib, say so."""
    try:
        import matplotlib
    except ImportError:
        print("skipped: figures need matplotlib")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = draw(pyplot)
    figure.savefig(options.output / f"{name}.png", dpi=150, bbox_inches="tight")
    pyplot.close(figure)
    print(f"figure: {options.output / f'{name}.png'}", flush=True)
