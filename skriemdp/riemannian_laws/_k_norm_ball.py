"""Exact draws of the K-norm gradient law on a ball of a sphere: no Markov chain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skriemdp._arrays import Size
from skriemdp.geometry._ball import GeodesicBall
from skriemdp.privacy._mean_iteration import least_convexity
from skriemdp.riemannian_laws._distributions_radial import accepted

# Bins of the records' distances, and number of distances at which slopes are computed.
_BINS = 256


@dataclass(frozen=True, eq=False)
class _Envelope:
    """An upper bound of the density, constant on shells about a point.

    The shells end at the distances `edges`; `log_heights` bounds the log density of the distance on
    each of them, times the area of its sphere.
    """

    center: np.ndarray
    edges: np.ndarray
    log_heights: np.ndarray

    @property
    def log_masses(self) -> np.ndarray:
        return self.log_heights + np.log(np.diff(self.edges))

    @property
    def log_total(self) -> float:
        return float(np.logaddexp.reduce(self.log_masses))


def sample_k_norm_in_ball(
    ball: GeodesicBall,
    gradient_norm: Callable[[np.ndarray], np.ndarray],
    distances: np.ndarray,
    center: np.ndarray,
    scale: float,
    rng: np.random.Generator,
    size: Size = (),
) -> np.ndarray:
    """Exact draws with density proportional to ``exp(-gradient_norm(x) / scale)`` on `ball`.

    Parameters
    ----------
    ball : GeodesicBall
        On a space of constant curvature at least 0; it holds the records.
    gradient_norm : callable
        Points of shape ``(k, *shape)`` of the ball to norms ``(k,)`` of ``sum_i log_x(x_i)``.
    distances : ndarray of shape (n,)
        Of the records from `center`.
    center : array of shape ``shape``
        Any point of the ball; the closer to the Frechet mean, the fewer proposals.
    scale : float
    rng : numpy.random.Generator
    size : int or tuple of int, default=()

    Returns
    -------
    ndarray of shape ``(*size, *shape)``

    Notes
    -----
    Rejection.  At distance s from `center` the gradient is at least the integral of the least
    second derivative of the risk up to there, less the gradient at `center`; and far away it is at
    least what :func:`skriemdp.privacy._mean_iteration.least_convexity` says of all stationary
    points.  Both are rounded down to a constant on each of many thin shells, and so is the area of
    spheres, up; points are drawn from what that makes, and kept with the quotient of the two
    densities.  The other envelope is the uniform law of the ball; the smaller one is used
    (docs/theory/riemannian-gdp.md, "Samplers").
    """
    geometry = ball.geometry
    root = math.sqrt(geometry.curvature_bounds[1])
    n, reach = len(distances), ball.radius + float(geometry.dist(ball.center, center))
    residual = float(gradient_norm(np.asarray(center)[None])[0]) / n
    least = _least_gradients(ball, distances, residual, reach)
    around = _envelope(ball, center, reach, least, scale / n)
    uniform = _envelope(ball, ball.center, ball.radius, 0.0, 1.0)
    envelope = min(uniform, around, key=lambda e: e.log_total)
    weights = np.exp(envelope.log_masses - envelope.log_total)
    cumulative = np.cumsum(weights)

    def propose(batch: int) -> np.ndarray:
        cell = np.searchsorted(cumulative, rng.random(batch) * cumulative[-1], side="right")
        cell = np.minimum(cell, len(weights) - 1)
        low, high = envelope.edges[cell], envelope.edges[cell + 1]
        length = low + (high - low) * rng.random(batch)
        direction = rng.standard_normal((batch, geometry.dim))
        direction *= (length / np.linalg.norm(direction, axis=-1))[:, None]
        points = np.asarray(geometry.exp_coordinates(envelope.center, direction))
        log_ratio = _log_area(geometry.dim, root, length) - envelope.log_heights[cell]
        inside = np.asarray(geometry.dist(ball.center, points)) <= ball.radius
        accept = np.log(rng.random(batch))
        # Only where it can still be kept is the gradient worth its price.
        worth = np.flatnonzero(inside & (accept < log_ratio))
        log_ratio = log_ratio[worth] - gradient_norm(points[worth]) / scale
        return points[worth[accept[worth] < log_ratio]]

    return accepted(size, propose, 0.5, 0.01, (8, 10_000))


def expected_proposals(ball: GeodesicBall, n_records: int, scale: float) -> float:
    """About how many proposals a draw takes, for records that fill the tangent ball evenly.

    From public numbers only, so that a fit that would take hours can be refused in advance.
    """
    dim, root = ball.geometry.dim, math.sqrt(ball.geometry.curvature_bounds[1])
    typical = ball.radius * dim / (dim + 1.0)
    least = _least_gradients(ball, np.array([typical]), 0.0, ball.radius)
    around = _envelope(ball, ball.center, ball.radius, least, scale / n_records)
    uniform = _envelope(ball, ball.center, ball.radius, 0.0, 1.0)
    across = root * typical / math.tan(root * typical) if root else 1.0
    slope = across + (1.0 - across) / dim
    middle = 0.5 * (around.edges[1:] + around.edges[:-1])
    log_density = _log_area(dim, root, middle) - n_records / scale * slope * middle
    target = np.logaddexp.reduce(log_density + np.log(np.diff(around.edges)))
    log_ratio = min(around.log_total, uniform.log_total) - float(target)
    return math.exp(min(log_ratio, 700.0))


def _log_area(dim: int, root: float, length: np.ndarray) -> np.ndarray:
    """Log area of spheres of these radii, up to a constant."""
    if dim == 1:
        return np.zeros_like(length)
    with np.errstate(divide="ignore"):
        return (dim - 1) * np.log(np.sin(root * length) / root if root else length)


def _envelope(
    ball: GeodesicBall,
    center: np.ndarray,
    reach: float,
    least: Callable[[np.ndarray], np.ndarray] | float,
    scale: float,
) -> _Envelope:
    """Envelope from a lower bound of the gradient on shells about `center`, over `scale`."""
    dim, root = ball.geometry.dim, math.sqrt(ball.geometry.curvature_bounds[1])
    smallest = 0.01 * min(reach, scale)
    # A proposal that is constant on cells loses .1 in its logarithm, for each dimension.
    cells = math.ceil(math.log(reach / smallest) * dim / 0.1)
    edges = np.concatenate([[0.0], np.geomspace(smallest, reach * (1.0 + 1e-12), cells + 1)])
    # Areas of spheres grow up to the equator, and fall beyond.
    low, high = edges[:-1], edges[1:]
    largest = np.clip(0.5 * math.pi / root, low, high) if root else high
    heights = _log_area(dim, root, largest) + 1e-12
    if not isinstance(least, float):
        heights = heights - least(edges) / scale
    return _Envelope(center, edges, heights)


def _least_gradients(
    ball: GeodesicBall, distances: np.ndarray, residual: float, reach: float
) -> Callable[[np.ndarray], np.ndarray]:
    """Lower bounds of the mean gradient's norm between neighbouring distances from a point.

    `distances` are those of the records from that point m, `residual` the mean gradient there.  At
    distance d from m, in units of the curvature radius, the norm is at least the integral over s up
    to d of the mean of ``c(min(d(m, x_i) + s, 2 r))``, ``c(t) = t cot t``, less `residual`; and at
    least ``min(lambda (d - d(m, mean)), g)``, lambda = ``least_convexity(r, g, r)``
    (docs/theory/mean-iteration.md, "Spheres").
    """
    root = math.sqrt(ball.geometry.curvature_bounds[1])
    unit = root or 1.0  # lengths below are those of the unit sphere
    r, residual_angle = unit * ball.radius, unit * residual
    # Records are moved away, and steps too, so that each slope is a lower bound.
    bins = 2.0 * r / _BINS * np.arange(1.0, _BINS + 1.0)
    place = np.searchsorted(bins, unit * np.asarray(distances) * (1.0 + 1e-12))
    shares = np.bincount(np.minimum(place, _BINS - 1), minlength=_BINS) / len(distances)
    steps = unit * reach / _BINS * np.arange(_BINS + 1.0)
    apart = np.minimum(bins + steps[1:, None], 2.0 * r)
    slopes = (apart / np.tan(apart)) @ shares if root else np.ones(_BINS)
    rise = np.concatenate([[0.0], np.cumsum(slopes * steps[1])])
    # Where the gradient is at most `far`, the mean is within gradient / near.
    far = 0.25 * math.pi / math.tan(r) if root else 0.0
    near = max(least_convexity(r, far, r), 0.0) if root else 0.0
    off = 1.01 * residual_angle / near if near and residual_angle <= far else math.inf

    def least(edges: np.ndarray) -> np.ndarray:
        lengths = unit * edges
        # Concave, so that it is least at an end of each shell.
        climbed = (np.interp(lengths, steps, rise) - residual_angle) / unit
        here = np.minimum(climbed[:-1], climbed[1:])
        anywhere = np.minimum(near * np.maximum(lengths[:-1] - off, 0.0), far) / unit
        return np.maximum(np.maximum(here, anywhere), 0.0) * (1.0 - 1e-9)

    return least
