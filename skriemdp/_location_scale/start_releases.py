"""Initial centre of a search on a manifold: one release that needs no radius, where one exists.

Geometries say it themselves, by `Geometry.embedding` and `Geometry.scaling`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._location_scale.points import PointRecords, alone
from skriemdp._location_scale.search import START, InitialCenter
from skriemdp._mechanisms.bounded_sets import VectorSet, ball, projectors, unpacked
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._mechanisms.quantile import noisy_quantile
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp.geometry._tiles import map_tiles

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams

# Units that are told apart: 30 decades to either side, a decibel each.
_UNITS = 10.0 ** (np.arange(-304.0, 305.0) / 10.0)
# Share of mu**2 of the sum of projectors: what a wide cloud of subspaces needs
# (benchmarks/wide_means.py).
_SUBSPACE_SHARE = 0.15


@dataclass(frozen=True)
class StartRule(abc.ABC):
    """Rule for the initial centre on one geometry; planned from public numbers.

    Parameters
    ----------
    geometry : Geometry
    n : int
        Number of points.
    share : float
        Of the ``mu**2`` of the fit.
    """

    geometry: Any
    n: int
    share: float

    @abc.abstractmethod
    def release(
        self, records: PointRecords, budget: GaussianBudget, streams: NoiseStreams
    ) -> InitialCenter:
        """A start for the share of the budget; the records are points."""

    @abc.abstractmethod
    def check(self, mu: float) -> None:
        """ValueError where integers would be too coarse for the release in a fit of this `mu`."""


def start_rule(geometry: Any, n: int, mu: float) -> StartRule | None:
    """The rule for n points and a fit of this mu; None where a search begins at the base point."""

    def share(part: float, least: float = 0.03, most: float = 0.25) -> float:
        return min(max((part / max(n * mu, 1e-3)) ** 2, least), most)

    if geometry.factors:
        rules = tuple(start_rule(factor, n, mu) for factor in geometry.factors)
        whole = max((rule.share for rule in rules if rule is not None), default=0.0)
        return _Factors(geometry, n, whole, rules) if whole else None
    if geometry.scaling is not None:
        return _Unit(geometry, n, share(14.0))
    known = geometry.embedding
    if known is None:
        return None
    if known.rank:
        return _Embedded(geometry, n, share(10.0, _SUBSPACE_SHARE))
    if known.on_sphere:
        return _Embedded(geometry, n, share(8.0 * math.sqrt(known.size / 3.0), most=0.2))
    return _Embedded(geometry, n, share(10.0))


@dataclass(frozen=True)
class _Embedded(StartRule):
    """The point nearest to the mean of the points as vectors, or as projectors."""

    @functools.cached_property
    def bounded_set(self) -> VectorSet:
        """The set of what a record adds."""
        known = self.geometry.embedding
        if known.rank:
            return projectors(known.size, known.rank)
        return ball(Ball(known.radius), known.size)

    def check(self, mu: float) -> None:
        self.bounded_set.check(mu * math.sqrt(self.share))

    def release(
        self, records: PointRecords, budget: GaussianBudget, streams: NoiseStreams
    ) -> InitialCenter:
        known, bounded_set = self.geometry.embedding, self.bounded_set
        mu, rng = budget.take(self.share, START, bounded_set.width), streams("surrounding mean")
        give = alone(self.geometry, known.give)
        total, sigma = private_sum(records.units, give, bounded_set, mu, rng)
        scale, length = sigma * math.sqrt(bounded_set.width), None
        if known.rank:
            matrix = unpacked(total, known.size)
            middle = matrix - np.trace(matrix) / known.size * np.eye(known.size)
            return InitialCenter(known.nearest(matrix), 1.0, float(np.linalg.norm(middle)) / scale)
        mean = total / self.n
        if known.on_sphere:
            noise = (sigma / self.n) ** 2
            length = math.sqrt(max(float(mean @ mean) - known.size * noise, noise))
        return InitialCenter(known.nearest(mean), 1.0, float(np.linalg.norm(total)) / scale, length)


@dataclass(frozen=True)
class PublicStart(StartRule):
    """A public centre, which costs nothing."""

    center: Any

    def check(self, mu: float) -> None:
        return  # nothing is released

    def release(
        self, records: PointRecords, budget: GaussianBudget, streams: NoiseStreams
    ) -> InitialCenter:
        return InitialCenter(self.center)


@dataclass(frozen=True)
class _Unit(StartRule):
    """The base point, in the private median of the records' units of measurement."""

    def check(self, mu: float) -> None:
        return  # counts are integers already

    def release(
        self, records: PointRecords, budget: GaussianBudget, streams: NoiseStreams
    ) -> InitialCenter:
        scaling, chart = self.geometry.scaling, records.chart
        units = records.units if chart is None else Units((chart,), records.groups)
        give = alone(self.geometry, scaling.unit if chart is None else scaling.charted)
        if units.groups is None:
            values = map_tiles(give, units.arrays[0])
        else:
            width = math.prod(self.geometry.shape)
            values = np.concatenate(list(units.tiles(give, width, "mean")))
        asked = budget, self.share, START, _UNITS, 0.5, [values], len(values), streams("unit")
        unit = noisy_quantile(*asked, prior=(0.0,) * len(_UNITS))
        return InitialCenter(scaling.point(unit), scaling.distance(unit))


@dataclass(frozen=True)
class _Factors(StartRule):
    """Every factor begins by its own rule, with an equal part of the share."""

    rules: tuple[StartRule | None, ...]

    @property
    def _parts(self) -> list[StartRule | None]:
        part = self.share / sum(rule is not None for rule in self.rules)
        return [rule and dataclasses.replace(rule, share=part) for rule in self.rules]

    def check(self, mu: float) -> None:
        for rule in self._parts:
            if rule is not None:
                rule.check(mu)

    def release(
        self, records: PointRecords, budget: GaussianBudget, streams: NoiseStreams
    ) -> InitialCenter:
        centers, split = [], self.geometry.split(records.points)
        parts = zip(self.geometry.factors, self._parts, split, strict=True)
        for k, (factor, rule, own) in enumerate(parts):
            if rule is None:
                centers.append(factor.base_point)
            else:
                named: Any = functools.partial(streams, k)
                points = PointRecords(factor, own, groups=records.groups)
                centers.append(rule.release(points, budget, named).center)
        return InitialCenter(self.geometry.join(*centers))
