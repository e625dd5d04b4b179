"""Public sets by name and numbers: a program names one, the curator makes it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skriemdp.mechanisms import held
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.held import Held


def _interval(width: float) -> Held:
    return held.ball(Ball(0.5 * width, np.array([0.5 * width])), 1)


# The closed list.
_SETS: dict[str, Callable[..., Held]] = {
    "ball": lambda radius, dim: held.ball(Ball(radius), dim),
    "ball about": lambda radius, *center: held.ball(Ball(radius, np.array(center)), len(center)),
    "interval": _interval,
    "labelled": held.labelled,
    "answers": held.answers,
    "weighted": held.weighted,
    "projectors": held.projectors,
    "variances": held.variances,
    "moment": held.Moment,
    "outer": held.Outer,
}


class Set(NamedTuple):
    """A public set of the closed list; made inside, so that no program writes a sensitivity."""

    name: str
    numbers: tuple

    def made(self) -> Held:
        """The set itself."""
        return made(self)


def ball(radius: float, dim: int) -> Set:
    """Vectors of R^dim no longer than `radius`."""
    return Set("ball", (radius, dim))


def interval(width: float) -> Set:
    """One number in [0, width]; what is summed is its offset from the middle."""
    return Set("interval", (width,))


def labelled(radius: float, dim: int, classes: int, weight: float = 1.0) -> Set:
    """Vectors in a ball, and the number of records, for each of several classes."""
    return Set("labelled", (radius, dim, classes, weight))


def moment(radius: float, dim: int, people: bool = False, by_trace: bool = False) -> Set:
    """Matrices ``z z'`` of vectors no longer than `radius`; of people as of ``held.Moment``."""
    return Set("moment", (radius, dim, people, by_trace))


def frame(radius: float, columns: np.ndarray) -> Set:
    """Products ``z z'W`` of vectors no longer than `radius` with orthonormal columns W."""
    return Set("frame", (radius, columns))


def made(asked: Any) -> Held:
    """The set of a name and of numbers.

    TypeError for whatever else: a set that a program made could be larger than it says.
    """
    if type(asked) is not Set or type(asked.name) is not str or type(asked.numbers) is not tuple:
        raise TypeError("a set is asked for by its name and numbers; use skriemdp.curator.sets.")
    if asked.name == "frame":
        radius, columns = asked.numbers
        return held.Frame(_number(radius), np.array(columns, dtype=float))
    if asked.name not in _SETS:
        raise ValueError(f"there is no set {asked.name!r}; there are {[*_SETS, 'frame']}.")
    return _listed(asked.name, tuple(map(_number, asked.numbers)))


@functools.lru_cache(maxsize=256)
def _listed(name: str, numbers: tuple) -> Held:
    return _SETS[name](*numbers)


def _number(value: Any) -> Any:
    """A plain number, or None; a subclass could be another number whenever it is asked."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (int, float, bool):
        return value
    if type(value) is tuple:
        return tuple(map(_number, value))
    raise TypeError(f"sets take plain numbers, got {type(value).__name__}.")
