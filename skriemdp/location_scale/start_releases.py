"""Where a search on a manifold begins: one release that needs no radius, on spaces that allow it.

Compact manifolds in a Euclidean space have a mean there, and bounds that hold for every point;
symmetric positive definite matrices have a determinant.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from skriemdp._dataclasses import dataclass
from skriemdp.geometry import _symmetric as sym
from skriemdp.geometry._orthonormal import Complement
from skriemdp.geometry._tiles import map_tiles
from skriemdp.geometry.base import is_one_of
from skriemdp.location_scale.points import PointRecords
from skriemdp.location_scale.search import START, Start
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.budget import GaussianBudget
from skriemdp.mechanisms.held import VectorSet, ball, projectors
from skriemdp.mechanisms.quantile import noisy_quantile
from skriemdp.mechanisms.sum import private_sum
from skriemdp.mechanisms.units import Units

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams

# Units that are told apart: 30 decades to either side, a decibel each.
_UNITS = 10.0 ** (np.arange(-304.0, 305.0) / 10.0)
# Share of mu**2 of the sum of projectors: what a wide cloud of subspaces needs
# (benchmarks/wide_means.py).
_SUBSPACE_SHARE = 0.15


@dataclass(frozen=True)
class StartRule(abc.ABC):
    """How to begin on one geometry; planned from public numbers.

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
    ) -> Start:
        """A start for the share of the budget; the records are points."""

    @property
    def held(self) -> VectorSet | None:
        """The set of what a record adds to a mean; None where there is none."""
        return None

    def check(self, mu: float) -> None:
        """ValueError where integers would be too coarse for the release in a fit of this `mu`."""
        if self.held is not None:
            self.held.check(mu * math.sqrt(self.share))


def start_rule(geometry: Any, n: int, mu: float) -> StartRule | None:
    """The rule for n points and a fit of this mu; None where a search begins at the base point."""

    def share(part: float, least: float = 0.03, most: float = 0.25) -> float:
        return min(max((part / max(n * mu, 1e-3)) ** 2, least), most)

    if is_one_of(geometry, "SPDGeometry"):
        return _Unit(geometry, n, share(14.0))
    if is_one_of(geometry, "Grassmann"):
        return _Subspace(geometry, n, share(10.0, _SUBSPACE_SHARE))
    if is_one_of(geometry, "PlanarShapes"):
        return _Shape(geometry, n, share(10.0, _SUBSPACE_SHARE))
    if is_one_of(geometry, "Product"):
        rules = tuple(start_rule(factor, n, mu) for factor in geometry.factors)
        whole = max((rule.share for rule in rules if rule is not None), default=0.0)
        return _Factors(geometry, n, whole, rules) if whole else None
    if is_one_of(geometry, "Sphere"):
        return _Ambient(geometry, n, share(8.0 * math.sqrt((geometry.dim + 1) / 3.0), most=0.2))
    if is_one_of(geometry, "Stiefel", "Circle", "Rotations") or _is_rotations(geometry):
        return _Ambient(geometry, n, share(10.0))
    return None


def _is_rotations(geometry: Any) -> bool:
    """Whether points are matrices of pymanopt's special orthogonal group."""
    if not is_one_of(geometry, "PymanoptGeometry"):
        return False
    kind = type(geometry.manifold)
    named = kind.__name__ == "SpecialOrthogonalGroup" and kind.__module__.startswith("pymanopt.")
    return named and len(geometry.shape) == 2 and geometry.shape[0] == geometry.shape[1]


# -- means in the surrounding space ---------------------------------------------------------------


@dataclass(frozen=True)
class _Ambient(StartRule):
    """The mean of the points as vectors, each in the ball that holds all of the manifold."""

    @functools.cached_property
    def held(self) -> VectorSet:
        return ball(Ball(self._radius), self._dim)

    @property
    def _dim(self) -> int:
        return 2 if is_one_of(self.geometry, "Circle") else math.prod(self.geometry.shape)

    @property
    def _radius(self) -> float:
        shape = self.geometry.shape
        return math.sqrt(shape[1]) if len(shape) == 2 else 1.0

    def release(
        self, records: PointRecords, budget: GaussianBudget, streams: NoiseStreams
    ) -> Start:
        held = self.held
        mu, rng = budget.take(self.share, START, held.width), streams("surrounding mean")
        total, sigma = private_sum(records.units, self._embedded, held, mu, rng)
        direction = float(np.linalg.norm(total)) / (sigma * math.sqrt(self._dim))
        noise = (sigma / self.n) ** 2
        mean = total / self.n
        square = max(float(mean @ mean) - self._dim * noise, noise)
        length = math.sqrt(square) if is_one_of(self.geometry, "Sphere", "Circle") else None
        return Start(self._nearest(mean), 1.0, direction, length)

    def _embedded(self, points: np.ndarray) -> np.ndarray:
        """Rows of numbers; only sphere and circle need to be brought to unit length."""
        if is_one_of(self.geometry, "Sphere"):
            return points if self.geometry.radius == 1.0 else points / self.geometry.radius
        if is_one_of(self.geometry, "Circle"):
            angles = points[:, 0] * (2.0 * math.pi / self.geometry.length)
            return np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return points.reshape(len(points), -1)

    def _nearest(self, mean: np.ndarray) -> np.ndarray:
        """The point of the manifold nearest to `mean` (post-processing)."""
        geometry = self.geometry
        if is_one_of(geometry, "Sphere"):
            length = float(np.linalg.norm(mean))
            return mean * (geometry.radius / length) if length > 0.0 else geometry.base_point
        if is_one_of(geometry, "Circle"):
            turn = math.atan2(mean[1], mean[0]) % (2.0 * math.pi)
            return np.array([turn * (geometry.length / (2.0 * math.pi))])
        left, _, right = np.linalg.svd(mean.reshape(geometry.shape), full_matrices=False)
        if geometry.shape[0] == geometry.shape[1] and np.linalg.det(left @ right) < 0.0:
            left[:, -1] *= -1.0  # the nearest rotation
        return left @ right


@dataclass(frozen=True)
class _Subspace(StartRule):
    """The leading subspace of the mean projector, on the subspaces or on their complements.

    Whichever have the lower dimension: their projectors are closer to each other.
    """

    @property
    def _turned(self) -> bool:
        return 2 * self.geometry.p > self.geometry.n

    @functools.cached_property
    def held(self) -> VectorSet:
        m, p = self.geometry.n, self.geometry.p
        return projectors(m, m - p if self._turned else p)

    def release(
        self, records: PointRecords, budget: GaussianBudget, streams: NoiseStreams
    ) -> Start:
        m, held = self.geometry.n, self.held
        mu, rng = budget.take(self.share, START, held.width), streams("surrounding mean")
        triangle, sigma = private_sum(records.units, self._frames, held, mu, rng)
        noisy = np.zeros((m, m))
        noisy[np.tril_indices(m)] = triangle / math.sqrt(2.0)
        noisy += noisy.T
        np.fill_diagonal(noisy, np.diagonal(noisy) / math.sqrt(2.0))
        middle = noisy - np.trace(noisy) / m * np.eye(m)
        direction = float(np.linalg.norm(middle)) / (sigma * math.sqrt(held.width))
        vectors = np.linalg.eigh(-noisy if self._turned else noisy)[1]
        return Start(vectors[:, m - self.geometry.p :], 1.0, direction)

    def _frames(self, points: np.ndarray) -> np.ndarray:
        """The columns of the frames, as rows."""
        if self._turned:
            eye = np.eye(self.geometry.dim // self.geometry.p)
            eye = np.broadcast_to(eye, (len(points), *eye.shape))
            points = Complement(np, points).expand(eye)
        return np.swapaxes(points, -1, -2)


@dataclass(frozen=True)
class _Shape(StartRule):
    """The leading plane of the mean projector on all turns and sizes of a shape."""

    @property
    def _planes(self) -> _Subspace:
        from skriemdp.geometry.grassmann import Grassmann

        return _Subspace(Grassmann(2 * self.geometry.landmarks, 2), self.n, self.share)

    @property
    def held(self) -> VectorSet:
        return self._planes.held

    def release(
        self, records: PointRecords, budget: GaussianBudget, streams: NoiseStreams
    ) -> Start:
        rule, planes = self._planes, self.geometry.planes(records.points)
        shown = PointRecords(rule.geometry, planes, groups=records.groups)
        found = rule.release(shown, budget, streams)
        return dataclasses.replace(found, center=self.geometry.nearest(found.center))


# -- units of matrices ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Unit(StartRule):
    """A multiple of the identity, at the private median of the determinants."""

    def release(
        self, records: PointRecords, budget: GaussianBudget, streams: NoiseStreams
    ) -> Start:
        size = self.geometry.size

        # In a chart of logarithms the determinant is the trace.
        charted = records.chart is not None
        units = Units((records.chart,), records.groups) if charted else records.units

        def give(block: np.ndarray) -> np.ndarray:
            logs = _trace(block, size) if charted else sym.log_determinant(block)
            return np.exp(logs / size)

        if units.groups is None:
            values = map_tiles(give, units.arrays[0])
        else:
            values = np.concatenate(list(units.tiles(give, size**2, "mean")))
        asked = budget, self.share, START, _UNITS, 0.5, [values], len(values), streams("unit")
        unit = noisy_quantile(*asked, prior=(0.0,) * len(_UNITS))
        # Distances of the other metrics do not change with the unit.
        scale = math.sqrt(unit) if is_one_of(self.geometry, "BuresWassersteinSPD") else 1.0
        return Start(unit * np.eye(size), scale)


def _trace(coordinates: np.ndarray, size: int) -> np.ndarray:
    """Traces of matrices, each from the coordinates that :func:`sym.pack` gives of it."""
    return np.asarray(sum(coordinates.T[1:size], start=coordinates[:, 0]))


# -- products -------------------------------------------------------------------------------------


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
    ) -> Start:
        centers, split = [], self.geometry.split(records.points)
        parts = zip(self.geometry.factors, self._parts, split, strict=True)
        for k, (factor, rule, own) in enumerate(parts):
            if rule is None:
                centers.append(factor.base_point)
            else:
                named: Any = functools.partial(streams, k)
                points = PointRecords(factor, own, groups=records.groups)
                centers.append(rule.release(points, budget, named).center)
        return Start(self.geometry.join(*centers))
