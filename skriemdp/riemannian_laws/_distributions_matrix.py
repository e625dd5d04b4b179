"""Exact draws of Riemannian Gaussian and Laplace laws on SPD matrices, by rejection.

In whitened coordinates a draw is ``exp(L)``, L symmetric with uniform eigenvectors and eigenvalues
of density ``exp(-V(|rho|)) prod_{i<j} sinh(|rho_i - rho_j| / 2)``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy.special import gammaln

from skriemdp.geometry import _symmetric as sym
from skriemdp.riemannian_laws._distributions_radial import RadialTable, accepted


def volume_growth(size: int) -> float:
    """Exponential growth rate of balls: ``sqrt(m (m**2 - 1) / 12)``; Laplace needs 1/b above it."""
    return math.sqrt(size * (size * size - 1) / 12.0)


@functools.cache
def _pairs(size: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(size, 1)


def _gaps(rho: np.ndarray) -> np.ndarray:
    i, j = _pairs(rho.shape[-1])
    return rho[..., i] - rho[..., j]


def _log_sinh_sum(rho: np.ndarray) -> np.ndarray:
    """``sum_{i<j} log sinh((rho_i - rho_j) / 2)`` for decreasing rho; -inf when not decreasing."""
    gaps = _gaps(rho)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (0.5 * gaps + np.log(-0.5 * np.expm1(-gaps))).sum(axis=-1)
    return np.where((gaps > 0.0).all(axis=-1), value, -np.inf)


def _log_sinhc(z: float | np.ndarray) -> np.ndarray:
    """``g(z) = log(sinh(x) / x)``, ``x = sqrt(z) / 2``: concave in z."""
    x = 0.5 * np.sqrt(z)
    small = x < 1e-2
    safe = np.where(small, 1.0, x)
    series = x * x * (1.0 / 6.0 - x * x / 180.0)
    return np.where(small, series, safe + np.log(-0.5 * np.expm1(-2.0 * safe) / safe))


def _log_sinhc_slope(z: float) -> float:
    x = 0.5 * math.sqrt(z)
    if x < 1e-2:
        return (1.0 / 3.0 - x * x / 45.0) / 8.0
    return (1.0 / math.tanh(x) - 1.0 / x) / (8.0 * x)


def _climb(rho: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """`gradient` and that of :func:`_log_sinh_sum` at decreasing rho."""
    (i, j), slope = _pairs(len(rho)), 0.5 / np.tanh(0.5 * _gaps(rho))
    np.add.at(gradient, i, slope)
    np.add.at(gradient, j, -slope)
    return gradient


def _mode(size: int, variance: float) -> np.ndarray:
    """Decreasing rho that maximises ``sum log sinh - |rho|**2 / (2 variance)``, by Newton's method.

    Any decreasing vector would do as a point of tangency; the mode gives the best acceptance.
    """
    i, j = _pairs(size)
    ranks = 0.5 * (size + 1 - 2 * np.arange(1, size + 1))
    rho = ranks * (variance + 2.0 * math.sqrt(variance / size))

    def value(r: np.ndarray) -> float:
        return float(_log_sinh_sum(r) - r @ r / (2.0 * variance))

    for _ in range(60):
        gap = rho[i] - rho[j]
        gradient = _climb(rho, -rho / variance)
        bend = 0.25 / np.sinh(np.minimum(0.5 * gap, 300.0)) ** 2
        hessian = np.diag(np.full(size, 1.0 / variance))
        np.add.at(hessian, (i, i), bend)
        np.add.at(hessian, (j, j), bend)
        np.add.at(hessian, (i, j), -bend)
        np.add.at(hessian, (j, i), -bend)
        step = np.linalg.solve(hessian, gradient)
        length, now = 1.0, value(rho)
        while length > 1e-9 and value(rho + length * step) < now:
            length *= 0.5
        rho = rho + length * step
        if np.abs(step).max() < 1e-10 * math.sqrt(variance):
            break
    return rho


class _TangentEnvelope:
    """``sum log sinh`` is concave: its tangent plane turns the law into one Gaussian proposal.

    Good for wide laws; the proposal is rejected unless it is decreasing.
    """

    def __init__(self, size: int, variance: float):
        rho = _mode(size, variance)
        self.gradient = _climb(rho, np.zeros(size))
        self.offset = float(_log_sinh_sum(rho) - self.gradient @ rho)
        self.size = size

    def log_mass(self, variance: float | np.ndarray) -> float | np.ndarray:
        """Log of the proposal's integral over decreasing rho (over all rho, in fact)."""
        square = float(self.gradient @ self.gradient)
        volume = 0.5 * self.size * np.log(2.0 * math.pi * variance)
        return volume + self.offset + 0.5 * variance * square

    def propose(
        self, variance: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms and log acceptance probabilities, for an array of variances."""
        noise = rng.standard_normal((variance.size, self.size))
        rho = variance[:, None] * self.gradient + np.sqrt(variance)[:, None] * noise
        return rho, _log_sinh_sum(rho) - self.offset - rho @ self.gradient

    def finish(self, rho: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        # Uniform eigenvectors: QR of a Gaussian matrix with the signs of R's diagonal taken out.
        q, r = np.linalg.qr(rng.standard_normal((*rho.shape, self.size)))
        q = q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
        return sym.symmetrized(np, (q * rho[..., None, :]) @ np.swapaxes(q, -1, -2))


class _GaussianMatrixEnvelope:
    """``log(sinh(y/2) / (y/2))`` is concave in y**2: its tangent gives Gaussian symmetric matrices.

    Good for narrow laws, where it is exact in the limit.
    """

    def __init__(self, size: int, variance: float):
        self.size, self.pairs = size, size * (size - 1) // 2
        # The point of tangency with the largest acceptance solves z0 = (m + 2) S(z0)**2.
        z0 = (size + 2.0) * variance
        for _ in range(200):
            stretched = 1.0 / variance - 2.0 * size * _log_sinhc_slope(z0)
            if stretched <= 0.0:
                z0 *= 2.0
                continue
            target = (size + 2.0) / stretched
            if abs(target - z0) < 1e-9 * z0:
                break
            z0 = math.sqrt(z0 * target)
        self.slope = _log_sinhc_slope(z0)
        self.offset = float(_log_sinhc(z0)) - self.slope * z0
        j = np.arange(1, size + 1)
        mehta = 0.5 * size * math.log(2.0 * math.pi) + float(
            (gammaln(1.0 + 0.5 * j) - gammaln(1.5)).sum()
        )
        self._constant = mehta - gammaln(size + 1.0) + self.pairs * (self.offset - math.log(2.0))

    def _traceless_variance(self, variance: float | np.ndarray) -> np.ndarray:
        stretched = 1.0 / variance - 2.0 * self.size * self.slope
        return np.where(stretched > 0.0, 1.0 / np.where(stretched > 0.0, stretched, 1.0), np.inf)

    def log_mass(self, variance: float | np.ndarray) -> float | np.ndarray:
        """Log of the proposal's integral over decreasing rho."""
        traceless = 0.5 * (self.size - 1) * (self.size + 2)
        spread = 0.5 * traceless * np.log(self._traceless_variance(variance))
        return self._constant + 0.5 * np.log(variance) + spread

    def propose(
        self, variance: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        size = self.size
        noise = rng.standard_normal((variance.size, size * (size + 1) // 2))
        matrix = sym.unpack(np, noise, size)
        trace = np.trace(matrix, axis1=-2, axis2=-1) / size
        identity = np.eye(size)
        traceless = matrix - trace[:, None, None] * identity
        spread = np.sqrt(self._traceless_variance(variance))[:, None, None]
        centre = np.sqrt(variance)[:, None, None] * trace[:, None, None] * identity
        matrix = spread * traceless + centre
        z = _gaps(np.linalg.eigvalsh(matrix)) ** 2
        return matrix, (_log_sinhc(z) - self.offset - self.slope * z).sum(axis=-1)

    def finish(self, matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return matrix


_Envelope: TypeAlias = _GaussianMatrixEnvelope | _TangentEnvelope


@functools.lru_cache(maxsize=4096)
def _envelope(size: int, variance: float) -> _Envelope:
    """The envelope with the smaller mass, hence the larger acceptance, at this variance."""
    candidates: list[_Envelope] = [
        _TangentEnvelope(size, variance),
        _GaussianMatrixEnvelope(size, variance),
    ]
    # A little above: the second kind stops to exist somewhere, and a cell of variances uses it.
    return min(candidates, key=lambda envelope: float(envelope.log_mass(1.08 * variance)))


def sample_gaussian_logarithms(
    size: int, sigma: float, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Logarithms L, shape ``(count, size, size)``, of Gaussian draws centred at the identity.

    By rejection from Gaussians: tangents of ``sum log sinh``, which is concave on ``l_1 > l_2 >
    ...``, or of ``log(sinh(y / 2) / (y / 2))``, which is concave in ``y^2``.
    """
    if size == 1:
        return sigma * rng.standard_normal((count, 1, 1))
    envelope = _envelope(size, float(sigma) ** 2)
    return _rejection(count, rng, lambda k: [(envelope, np.full(k, float(sigma) ** 2))])


def sample_laplace_logarithms(
    size: int, scale: float, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Logarithms L of Laplace draws centred at the identity: a Gaussian law of random variance.

    ``exp(-t / b)`` is a mixture of ``exp(-t**2 / (2 v))`` with weights ``v**(-1/2)
    exp(-v / (2 b**2))``; v is drawn with the mass of its envelope and rejected with the draw.
    """
    if size == 1:
        sign = np.where(rng.random(count) < 0.5, -1.0, 1.0)
        return (sign * scale * rng.standard_exponential(count))[:, None, None]
    edges, envelopes, table = _laplace_variances(size, float(scale))

    def draw(k: int) -> list[tuple[_Envelope, np.ndarray]]:
        variance = table.sample(k, rng)
        cell = np.clip(np.searchsorted(edges, variance, side="right") - 1, 0, len(envelopes) - 1)
        order = np.argsort(cell, kind="stable")
        variance, cell = variance[order], cell[order]
        cuts = np.searchsorted(cell, np.arange(len(envelopes) + 1))
        return [
            (envelopes[c], variance[low:high])
            for c, (low, high) in enumerate(zip(cuts[:-1], cuts[1:], strict=True))
            if high > low
        ]

    return _rejection(count, rng, draw)


@functools.lru_cache(maxsize=64)
def _laplace_variances(size: int, scale: float) -> tuple[np.ndarray, list[_Envelope], RadialTable]:
    rate = 0.5 * (1.0 / scale**2 - volume_growth(size) ** 2)
    dim = size * (size + 1) // 2
    # Between the small variances of a flat law of this dimension and the exponential tail.
    low = min(scale**2, 1.0 / rate) * 1e-9
    high = (60.0 + 2.0 * dim) / rate
    edges = np.geomspace(low, high, max(2, math.ceil(math.log(high / low) / 0.12)))
    middle = np.sqrt(edges[:-1] * edges[1:])
    envelopes = [_envelope(size, float(v)) for v in middle]

    def log_density(v: np.ndarray) -> np.ndarray:
        # Relative to the middle of its cell, to which every envelope belongs.
        cell = np.clip(np.searchsorted(edges, v, side="right") - 1, 0, len(envelopes) - 1)
        result = np.empty_like(v)
        for c in np.unique(cell):
            here = cell == c
            result[here] = envelopes[c].log_mass(v[here])
        return result - 0.5 * np.log(v) - 0.5 * v / scale**2

    return edges, envelopes, RadialTable(log_density, math.sqrt(low * high), high, cuts=edges)


def _rejection(count: int, rng: np.random.Generator, draw: Callable[..., Any]) -> np.ndarray:
    """Repeat proposals until `count` have been accepted.

    The proposals of one round are exchangeable only within an envelope, so all that a round accepts
    is shuffled before it is cut to the number wanted.
    """

    def propose(batch: int) -> np.ndarray:
        parts = []
        for envelope, variance in draw(batch):
            proposal, log_acceptance = envelope.propose(variance, rng)
            keep = np.log(rng.random(variance.size)) < log_acceptance
            parts.append(envelope.finish(proposal[keep], rng))
        together = np.concatenate(parts)
        return together[rng.permutation(len(together))] if len(together) > 1 else together

    return accepted(count, propose, 0.3, 1e-4, (64, 200_000))
