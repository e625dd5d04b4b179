"""Public sets by name and numbers: a program names one, the curator makes it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._mechanisms import bounded_sets
from skriemdp._mechanisms.bounded_sets import BoundedSet
from skriemdp._mechanisms.bounds import Ball


def _interval(width: float) -> BoundedSet:
    return bounded_sets.ball(Ball(0.5 * width, np.array([0.5 * width])), 1)


# The closed list.
_SETS: dict[str, Callable[..., BoundedSet]] = {
    "ball": lambda radius, dim: bounded_sets.ball(Ball(radius), dim),
    "ball about": lambda radius, *center: bounded_sets.ball(
        Ball(radius, np.array(center)), len(center)
    ),
    "interval": _interval,
    "labelled": bounded_sets.labelled,
    "answers": bounded_sets.answers,
    "weighted": bounded_sets.weighted,
    "projectors": bounded_sets.projectors,
    "variances": bounded_sets.variances,
    "moment": bounded_sets.Moment,
    "outer": bounded_sets.Outer,
}


class Set(NamedTuple):
    """A public set of the closed list; made inside, so that no program writes a sensitivity."""

    name: str
    numbers: tuple

    def made(self) -> BoundedSet:
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
    """Matrices ``z z'`` of vectors up to norm `radius`; people: as for ``bounded_sets.Moment``."""
    return Set("moment", (radius, dim, people, by_trace))


def frame(radius: float, columns: np.ndarray) -> Set:
    """Products ``z z'W`` of vectors no longer than `radius` with orthonormal columns W."""
    return Set("frame", (radius, columns))


def made(requested: Any) -> BoundedSet:
    """The set of a name and of numbers.

    TypeError for whatever else: a set that a program made could be larger than it says.
    """
    if (
        type(requested) is not Set
        or type(requested.name) is not str
        or type(requested.numbers) is not tuple
    ):
        raise PublicTypeError(
            "a set is asked for by its name and numbers; use the functions of this module."
        )
    if requested.name == "frame":
        radius, columns = requested.numbers
        return bounded_sets.Frame(_number(radius), np.array(columns, dtype=float))
    if requested.name not in _SETS:
        raise PublicValueError(
            f"there is no set {requested.name!r}; there are {[*_SETS, 'frame']}."
        )
    return _listed(requested.name, tuple(map(_number, requested.numbers)))


@functools.lru_cache(maxsize=256)
def _listed(name: str, numbers: tuple) -> BoundedSet:
    return _SETS[name](*numbers)


def _number(value: Any) -> Any:
    """A plain number, or None; a subclass could be another number whenever it is asked."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (int, float, bool):
        return value
    if type(value) is tuple:
        return tuple(map(_number, value))
    raise PublicTypeError(f"sets take plain numbers, got {type(value).__name__}.")
