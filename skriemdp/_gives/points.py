"""Contributions of points of a manifold: logarithms, distances, and statistics for a start."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._arrays import row_squares
from skriemdp._gives.base import Give
from skriemdp.geometry._base import Geometry
from skriemdp.geometry._columns import MOST_COLUMNS
from skriemdp.geometry._tiles import one_by_one


def logarithms_at(geometry: Geometry, center: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function to normal coordinates, bitwise independent of the other points."""
    return separately(geometry, functools.partial(geometry.log_coordinates, center))


def distances_to(geometry: Geometry, center: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Distances of all points to `center`, each from its own numbers alone, bitwise."""
    return np.asarray(separately(geometry, functools.partial(geometry.dist, center))(points))


def separately(geometry: Geometry, give: Callable[..., Any]) -> Callable[[np.ndarray], np.ndarray]:
    """`give`, asked point by point where the geometry computes points together."""
    return give if geometry.separate_rows else one_by_one(give)


@dataclass(frozen=True, eq=False)
class Chart(Give):
    """Coordinates whose differences are logarithms, on a geometry that has such a chart."""

    geometry: Any
    kept = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.geometry.dim,)

    def key(self) -> Hashable:
        return "chart", id(self.geometry)

    def of(self, points: Any, *rest: Any, beside: np.ndarray | None = None) -> Any:
        return self.geometry.chart(points)


@dataclass(frozen=True, eq=False)
class Squares(Give):
    """Numbers of a point that quick distances reuse."""

    geometry: Any
    shape = ()
    kept = always = True

    def key(self) -> Hashable:
        return "squares", id(self.geometry)

    def of(self, points: Any, *rest: Any, beside: np.ndarray | None = None) -> Any:
        return self.geometry.squares(points)


def _chart(geometry: Any) -> Chart | None:
    """The chart of a geometry that has one."""
    return Chart(geometry) if geometry.charted and not geometry.quick_distances else None


@dataclass(frozen=True, eq=False)
class LogAt(Give):
    """Normal coordinates at a public or released centre; of people the mean of own points'."""

    geometry: Any
    center: np.ndarray
    of_people = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "beside", _chart(self.geometry))
        object.__setattr__(self, "kept", not self.geometry.quick_distances)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.geometry.dim,)

    @property
    def by_column(self) -> bool:
        """Whether answers lie column by column, as kernels compute them."""
        return bool(self.geometry.dim <= MOST_COLUMNS)

    def key(self) -> Hashable:
        return "log", id(self.geometry), self.center.tobytes()

    def of(self, points: Any, *rest: Any, beside: np.ndarray | None = None) -> Any:
        if beside is not None:
            return beside - np.asarray(self.geometry.chart(self.center))
        return logarithms_at(self.geometry, self.center)(points)


@dataclass(frozen=True, eq=False)
class Length(Give):
    """Distance to the centre of logarithms: their length, where they are kept."""

    inner: LogAt
    shape = ()
    kept = always = of_people = True

    def __post_init__(self) -> None:
        geometry = self.inner.geometry
        quick, some = geometry.quick_distances, geometry.base_point[None]
        squared = quick and geometry.squares(some) is not None
        object.__setattr__(self, "beside", Squares(geometry) if squared else None)

    def key(self) -> Hashable:
        return "length", self.inner.key()

    def of(self, points: Any, *rest: Any, beside: np.ndarray | None = None) -> Any:
        geometry, center = self.inner.geometry, self.inner.center
        if beside is not None:
            return geometry.distances(center, points, beside)
        return distances_to(geometry, center, points)

    def after(self, inner: np.ndarray, *rest: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.sqrt(row_squares(inner))


@dataclass(frozen=True, eq=False)
class Labelled(Give):
    """Contribution of another give, with the label of the row."""

    inner: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.inner.shape)

    def of(self, points: Any, labels: Any, *rest: Any, beside: np.ndarray | None = None) -> Any:
        return self.inner.of(points), labels

    def after(self, inner: np.ndarray, labels: Any, *rest: Any) -> Any:
        return inner, labels

    def nothing(self, count: int) -> Any:
        return self.inner.nothing(count), np.zeros(count, dtype=np.intp)
