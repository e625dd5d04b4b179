"""Hockey-stick divergence of a pair of radial laws, by one-dimensional quadrature."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from skriemdp.riemannian_laws._profile_integrand import RadialPair, _Boundary, log_share
from skriemdp.riemannian_laws._quadrature import Window, integrate

_FINITE_SPAN = (-3.9, 3.9)
_INFINITE_SPAN = (-5.0, 26.0)


def _finite_map(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Double-exponential map of the real line to (0, 1): share, 1 - share, log derivative."""
    g = np.pi * np.sinh(t)
    low, high = np.exp(-np.logaddexp(0.0, -g)), np.exp(-np.logaddexp(0.0, g))
    derivative = np.log(np.pi * np.cosh(t)) - np.logaddexp(0.0, g) - np.logaddexp(0.0, -g)
    return low, high, derivative


def _infinite_map(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Double-exponential map of the real line to (0, inf) for integrands that decay fast."""
    log_x = t - np.exp(-t)
    return np.exp(log_x), log_x + np.log1p(np.exp(-t))


def _log_integrals(
    log_density: Callable[..., Any],
    rows: int,
    span: tuple[float, float],
    window: Window | None = None,
) -> np.ndarray:
    """Logs of the integrals of ``exp(log_density(index, t))`` over the real line."""

    def evaluate(index: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return log_density(index, t), np.ones((1, *t.shape))

    factor, sums = integrate(evaluate, rows, span, window)
    return factor + _log(sums[0])


def _log_mass(
    log_density: Callable[..., Any], lengths: list[float] | np.ndarray, window: Window | None = None
) -> np.ndarray:
    """Log integrals of ``exp(log_density(index, v))`` over ``0 < v < lengths[index]``."""
    lengths = np.asarray(lengths, dtype=float)

    def mapped(index: np.ndarray, t: np.ndarray) -> np.ndarray:
        share, _, derivative = _finite_map(t)
        length = lengths[index, None]
        with np.errstate(divide="ignore"):
            return log_density(index, length * share) + np.log(length) + derivative

    return _log_integrals(mapped, lengths.size, _FINITE_SPAN, window)


def _log(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > 0.0, np.log(np.maximum(x, 0.0)), -np.inf)


@functools.lru_cache(maxsize=512)
def _log_normaliser(pair: RadialPair) -> float:
    if pair.kind > 0:
        return float(_log_mass(lambda _, v: pair.log_weight(v), [np.pi])[0])

    def mapped(_: np.ndarray, t: np.ndarray) -> np.ndarray:
        x, derivative = _infinite_map(t)
        return pair.log_weight(pair.scale * x) + derivative + np.log(pair.scale)

    return float(_log_integrals(mapped, 1, _INFINITE_SPAN)[0])


def _main(
    pair: RadialPair, boundary: _Boundary, terms: Callable[..., Any], window: Window | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Integrals over the distances r at which the sphere around the first centre is cut.

    ``terms(log_ratio, shares, order)`` turns the four shares into a log scale and terms.
    """
    rows = boundary.start.size
    if pair.kind > 0 and not (boundary.length > 0.0).any():
        return np.full(rows, -np.inf), np.zeros((3, rows))

    def evaluate(index: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if pair.kind > 0:
            share, rest, derivative = _finite_map(t)
            length = boundary.length[index, None]
            x, rest = length * share, length * rest
            derivative = derivative + _log(length)
        else:
            share, derivative = _infinite_map(t)
            x, rest = pair.scale * share, None
            derivative = derivative + np.log(pair.scale)
        r, complement, log_ratio, shares = boundary.at(index, x, rest)
        log_scale, values = terms(log_ratio, shares, pair.order)
        return log_scale + pair.log_weight(r, complement) + derivative, values

    span = _FINITE_SPAN if pair.kind > 0 else _INFINITE_SPAN
    with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
        return integrate(evaluate, rows, span, window)


def _log_main(pair: RadialPair, boundary: _Boundary, share: Callable[..., Any]) -> np.ndarray:
    """Logs of the integrals of one share, which `share` takes from the four."""

    def terms(*found: Any) -> tuple[np.ndarray, np.ndarray]:
        log_scale = share(*found)
        return log_scale, np.ones((1, *log_scale.shape))

    factor, sums = _main(pair, boundary, terms)
    return factor + _log(sums[0])


# Four numbers whose incomplete betas are shares of spheres; see `_Boundary.at`.
_Shares: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _outside(_: np.ndarray, shares: _Shares, order: int) -> np.ndarray:
    return log_share(shares[1], order)


def _second(log_ratio: np.ndarray, shares: _Shares, order: int) -> np.ndarray:
    return log_ratio + log_share(shares[2], order)


def _complement(log_ratio: np.ndarray, shares: _Shares, order: int) -> np.ndarray:
    return np.logaddexp(_outside(log_ratio, shares, order), _second(log_ratio, shares, order))


def _difference(
    log_ratio: np.ndarray, shares: _Shares, order: int
) -> tuple[np.ndarray, np.ndarray]:
    first, second = log_share(shares[0], order), _second(log_ratio, shares, order)
    top = np.maximum(first, second)
    gap = -np.expm1(-np.abs(first - second))
    values = np.stack(
        [np.exp(first - top), np.exp(second - top), np.where(first >= second, gap, -gap)]
    )
    return top, np.nan_to_num(values)


# Next to the antipodes of the centres the boundary does not reach the spheres of radius > r1, R1.


def _cap_mass(pair: RadialPair, rest: np.ndarray) -> np.ndarray:
    """Log of the mass of the spheres whose radius is within `rest` of pi; -inf below exp(-1e6)."""
    nearest = (math.pi - rest) / pair.scale
    potential = nearest if pair.law == "laplace" else 0.5 * nearest**2
    # So far out that the logarithm itself would be mostly rounding.
    counts = potential < 1e6
    result = np.full(rest.shape, -np.inf)
    if counts.any():
        result[counts] = _log_mass(lambda _, v: pair.log_weight(np.pi - v, v), rest[counts])
    return result


def _first_cap(pair: RadialPair, boundary: _Boundary) -> np.ndarray:
    """Log of the mass of those around the first centre; they lie outside the set."""
    return _cap_mass(pair, boundary.first_rest)


def _second_cap(pair: RadialPair, boundary: _Boundary, epsilon: np.ndarray) -> np.ndarray:
    """Log of the mass of those around the second centre, inside the set, times exp(epsilon)."""
    if pair.kind <= 0:
        return np.full(epsilon.size, -np.inf)
    return epsilon + _cap_mass(pair, boundary.second_rest)


def _shells(
    pair: RadialPair, boundary: _Boundary, rows: np.ndarray, window: Window | None = None
) -> np.ndarray:
    """Log of the mass of the spheres around the first centre that the boundary does not reach.

    -inf but for `rows`, an array of bool.
    """
    result = np.full(rows.shape, -np.inf)
    if rows.any():
        result[rows] = _log_mass(lambda _, v: pair.log_weight(v), boundary.start[rows], window)
    return result


def _as_arrays(
    pair: RadialPair, epsilon: float | np.ndarray, gap: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    epsilon = np.atleast_1d(np.asarray(epsilon, dtype=float)).ravel()
    if gap is None:
        gap = pair.epsilon_max - epsilon
    return epsilon, np.atleast_1d(np.asarray(gap, dtype=float)).ravel()


def log_second_share(
    pair: RadialPair, epsilon: np.ndarray, gap: np.ndarray | None = None
) -> np.ndarray:
    """Log of ``exp(epsilon)`` times the chance under the second law that the loss exceeds epsilon.

    It is minus the derivative of the profile.  ``gap`` is ``epsilon_max - epsilon`` where it is
    known more accurately than the difference.
    """
    epsilon, gap = _as_arrays(pair, epsilon, gap)
    result = np.full(epsilon.size, -np.inf)
    live = np.flatnonzero(gap > 0.0)
    if live.size:
        boundary = pair.boundary(epsilon[live], gap[live])
        cap = _second_cap(pair, boundary, epsilon[live])
        main = _log_main(pair, boundary, _second)
        result[live] = np.logaddexp(main, cap) - _log_normaliser(pair)
    return result


def log_half_complement(pair: RadialPair) -> float:
    """``log((1 - delta(0)) / 2)``: the first law's chance to be nearer to the second centre.

    The same as ``log_complement(pair, 0) - log 2``, by symmetry, at half the cost.
    """
    boundary = pair.boundary(np.zeros(1), np.array([pair.epsilon_max]))
    total = _log_main(pair, boundary, _outside)
    if pair.kind > 0:
        total = np.logaddexp(total, _first_cap(pair, boundary))
    return min(float(total[0]) - _log_normaliser(pair), math.log(0.5))


def log_complement(pair: RadialPair, epsilon: float | np.ndarray) -> np.ndarray:
    """``log(1 - delta(epsilon))``, accurate however close delta is to one; epsilon >= 0."""
    epsilon, gap = _as_arrays(pair, epsilon, None)
    result = np.zeros(epsilon.size)
    live = np.flatnonzero(gap > 0.0)
    if live.size:
        boundary = pair.boundary(epsilon[live], gap[live])
        total = _log_main(pair, boundary, _complement)
        total = np.logaddexp(total, _second_cap(pair, boundary, epsilon[live]))
        if pair.kind > 0:
            total = np.logaddexp(total, _first_cap(pair, boundary))
        shells = _shells(pair, boundary, ~boundary.inside)
        result[live] = np.logaddexp(total, shells) - _log_normaliser(pair)
    return np.minimum(result, 0.0)


def log_delta(pair: RadialPair, epsilon: float | np.ndarray) -> np.ndarray:
    """``log delta(epsilon)`` for epsilon >= 0, not rounded; ``-inf`` from ``epsilon_max`` on.

    ``delta = (1/Z) integral exp(-V(r)) (E(r) - G(r)) dr`` with E the part of the sphere of radius r
    around the first centre, and G the part of the sphere of radius R(r) around the second, that lie
    in {loss >= epsilon} (docs/theory/riemannian-gdp.md).
    """
    # Where the two halves of the integral cancel beyond this factor, the nested form takes over.
    return np.minimum(log_delta_and_loss(pair, epsilon, 1e4)[0], 0.0)


def log_delta_and_loss(
    pair: RadialPair,
    epsilon: float | np.ndarray,
    most: float,
    windows: tuple[Window | None, Window | None] = (None, None),
) -> tuple[np.ndarray, np.ndarray]:
    """Log delta and loss; nested where the halves cancel beyond the factor `most`.

    The second result is 1 there.
    """
    epsilon, gap = _as_arrays(pair, epsilon, None)
    result, cancellation = log_delta_direct(pair, epsilon, windows)
    nested = np.flatnonzero((gap > 0.0) & ~(cancellation < most))
    if nested.size:
        result[nested] = _log_delta_nested(pair, epsilon[nested], gap[nested])
        cancellation[nested] = 1.0
    return result, cancellation


def log_delta_direct(
    pair: RadialPair,
    epsilon: np.ndarray,
    windows: tuple[Window | None, Window | None] = (None, None),
) -> tuple[np.ndarray, np.ndarray]:
    """Log delta without the nested form; also by how much the two halves cancel.

    The relative error is about machine epsilon times the second result.  `windows` of the last call
    with similar numbers make it faster.
    """
    window, shell_window = windows
    epsilon, gap = _as_arrays(pair, epsilon, None)
    result, cancellation = np.full(epsilon.size, -np.inf), np.ones(epsilon.size)
    live = np.flatnonzero(gap > 0.0)
    if not live.size:
        return result, cancellation
    boundary = pair.boundary(epsilon[live], gap[live])
    factor, sums = _main(pair, boundary, _difference, window)
    cap = _second_cap(pair, boundary, epsilon[live])
    shells = _shells(pair, boundary, boundary.inside, shell_window)
    top = np.maximum(np.maximum(factor, shells), cap)
    main, shell, cap = np.exp(factor - top), np.exp(shells - top), np.exp(cap - top)
    value = (shell - cap) + main * sums[2]
    size = shell + cap + main * (sums[0] + sums[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        result[live] = np.log(np.maximum(value, 0.0)) + top - _log_normaliser(pair)
        cancellation[live] = np.where(value > 0.0, size / value, np.inf)
    return result, cancellation


def _log_delta_nested(pair: RadialPair, epsilon: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Log delta as the integral of :func:`log_second_share` from epsilon on: positive, slower."""
    finite = np.isfinite(pair.epsilon_max)
    width = pair.distance / pair.scale

    def mapped(index: np.ndarray, t: np.ndarray) -> np.ndarray:
        if finite:
            _, share, derivative = _finite_map(t)
            rest = gap[index, None] * share
            level, scale = pair.epsilon_max - rest, np.log(gap[index, None])
        else:
            share, derivative = _infinite_map(t)
            level, scale = epsilon[index, None] + width * share, np.log(width)
            rest = np.full_like(level, np.inf)
        value = log_second_share(pair, level, rest).reshape(t.shape)
        return value + derivative + scale

    # Beyond these the share has fallen by more than exp(-42) from its value at epsilon.
    span = (-3.9, 2.9) if finite else (-5.0, np.log(20.0 + 2.0 * pair.order * pair.scale))
    return _log_integrals(mapped, epsilon.size, span)
