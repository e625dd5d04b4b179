"""Geodesics of Stiefel manifolds in the frame of their start: end points, logarithm, transport.

The geodesic of the embedded metric ``|A|^2 + |B|^2`` with initial velocity ``X A + X_perp B`` is

    ``[X, X_perp] expm(s M) [I; 0] expm(-s A)``,  ``M = [[2 A, -B'], [B, 0]]``

(Zimmermann and Hueper 2022): the orbit of the one-parameter group of isometries
``Y -> expm(s M) Y expm(-s A)``.  Parallel transport along such an orbit is the group's differential
after the exponential of the constant operator ``L w = -nabla_w K``, K the Killing field of the
group; ``nabla`` is the projected derivative, so
``L(a, b) = -(3/2 [A, a] - skew(B' b), B a - b A)``.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from skriemdp._arrays import Array, device
from skriemdp.geometry._elementary import nonzero, sinc
from skriemdp.geometry._orthonormal import frobenius, skew, t

# Iterations of the logarithm (of 8, 12, 16) and memory of its Anderson mixing (of 4, 6, 8): the
# fastest pair with errors below 1e-6 at 0.8 of the injectivity radius
# (tests/test_geometry_frames.py).
ITERATIONS, MEMORY = 16, 6
# Largest Frobenius norm for the exponential by a polynomial with repeated squaring.
_SHORT = 16.0
# Which entries of a skew-symmetric 4x4 matrix its dual has, row by row.
_DUAL = [0, 11, 13, 6, 14, 0, 3, 8, 7, 12, 0, 1, 9, 2, 4, 0]


def group_elements(xp: ModuleType, a: Array, b: Array) -> tuple[Array, Array]:
    """``expm(M)`` and ``expm(-A)`` of the module docstring."""
    k = b.shape[-2]
    a = a + 0.0 * b[..., :1, :]
    b = b + 0.0 * a[..., :1, :]
    corner = xp.zeros((*b.shape[:-2], k, k), dtype=b.dtype, device=device(b))
    top = xp.concat([2 * a, -t(xp, b)], axis=-1)
    bottom = xp.concat([b, corner], axis=-1)
    return expm_skew(xp, xp.concat([top, bottom], axis=-2)), expm_skew(xp, -a)


def expm_skew(xp: ModuleType, matrix: Array) -> Array:
    """Exponential of skew-symmetric matrices, orthogonal to rounding for any norm."""
    width = matrix.shape[-1]
    if width == 1:
        return xp.ones_like(matrix)
    if width == 2:
        return _turn(xp, matrix, frobenius(xp, matrix) / math.sqrt(2.0))
    if width == 3:  # Rodrigues
        angle = (frobenius(xp, matrix) / math.sqrt(2.0))[..., None, None]
        identity = xp.eye(3, dtype=matrix.dtype, device=device(matrix))
        bend = sinc(xp, angle / 2) ** 2 / 2
        return identity + sinc(xp, angle) * matrix + bend * (matrix @ matrix)
    if width == 4:  # the halves commute
        halves = (matrix + _dual(xp, matrix)) / 2, (matrix - _dual(xp, matrix)) / 2
        left, right = (_turn(xp, half, frobenius(xp, half) / 2) for half in halves)
        return left @ right
    size = frobenius(xp, matrix)[..., None, None]
    short = _expm_short(xp, xp.where(size <= _SHORT, matrix, 0.0 * matrix))
    if not bool(xp.any(size > _SHORT)):
        return short
    dtype = xp.complex128 if xp.finfo(matrix.dtype).bits == 64 else xp.complex64
    values, vectors = xp.linalg.eigh(xp.astype(matrix, dtype) * 1j)
    phases = xp.exp(-1j * xp.astype(values, dtype))
    return xp.where(
        size <= _SHORT, short, xp.real((vectors * phases[..., None, :]) @ xp.conj(t(xp, vectors)))
    )


def _expm_short(xp: ModuleType, matrix: Array) -> Array:
    """Exponential of skew-symmetric matrices of Frobenius norm at most `_SHORT`.

    Twelve terms of a 64th, whose spectral norm is at most .18, leave 3e-20; then six squares.
    """
    x = matrix / 64.0
    square = x @ x
    powers = (xp.eye(x.shape[-1], dtype=x.dtype, device=device(x)), x, square, square @ x)
    fourth = square @ square
    total = fourth / math.factorial(12)
    for first in (8, 4, 0):
        for k, power in enumerate(powers):
            total = total + power / math.factorial(first + k)
        total = total @ fourth if first else total
    for _ in range(6):
        total = total @ total
    return total


def _turn(xp: ModuleType, matrix: Array, angle: Array) -> Array:
    """Exponential of matrices whose square is ``-angle**2`` times the identity."""
    angle = angle[..., None, None]
    identity = xp.eye(matrix.shape[-1], dtype=matrix.dtype, device=device(matrix))
    return xp.cos(angle) * identity + sinc(xp, angle) * matrix


def _dual(xp: ModuleType, matrix: Array) -> Array:
    """Duals of skew-symmetric 4x4 matrices: planes change places with orthogonal ones."""
    flat = xp.reshape(matrix, (*matrix.shape[:-2], 16))
    places = xp.asarray(_DUAL, dtype=xp.int64, device=device(matrix))
    return xp.reshape(xp.take(flat, places, axis=-1), matrix.shape)


def _connection(xp: ModuleType, a: Array, b: Array, w_a: Array, w_b: Array) -> tuple[Array, Array]:
    """The operator L of the module docstring, applied to ``(w_a, w_b)``."""
    commutator = a @ w_a - w_a @ a
    return skew(xp, t(xp, b) @ w_b) - 1.5 * commutator, w_b @ a - b @ w_a


def _exp_connection(
    xp: ModuleType,
    a: Array,
    b: Array,
    w_a: Array,
    w_b: Array,
    share: Any,
    terms: int,
) -> tuple[Array, Array]:
    """``expm(share L)`` applied to ``(w_a, w_b)``, by a Taylor expansion."""
    term_a, term_b = w_a, w_b
    for order in range(1, terms):
        term_a, term_b = _connection(xp, a, b, term_a, term_b)
        factor = share / order
        term_a, term_b = factor * term_a, factor * term_b
        w_a, w_b = w_a + term_a, w_b + term_b
    return w_a, w_b


def carry(xp: ModuleType, a: Array, b: Array, w_a: Array, w_b: Array) -> tuple[Array, Array]:
    """Transport along the geodesic (a, b) up to the group's differential, to rounding."""
    # |L| <= 1.5 sqrt(2) |a| + |b| (commutators by the inequality of Boettcher and Wenzel), so every
    # step has norm at most 1 and 18 terms leave 1 / 18! < 2e-16.  A row takes as many steps as its
    # own geodesic needs, whoever stands beside it.
    norm = 2.2 * frobenius(xp, a) + frobenius(xp, b)
    norm = xp.where(xp.isfinite(norm), norm, xp.zeros_like(norm))
    steps = 1 + xp.floor(norm)[..., None, None]
    for done in range(int(xp.max(steps)) if math.prod(norm.shape) else 0):
        moved = _exp_connection(xp, a, b, w_a, w_b, 1.0 / steps, 18)
        w_a, w_b = (xp.where(done < steps, *pair) for pair in zip(moved, (w_a, w_b), strict=True))
    return w_a, w_b


def log(xp: ModuleType, target: Array, p: int, longest: float) -> tuple[Array, Array]:
    """Initial velocity (a, b) of the geodesic from ``[I; 0]`` to `target`, ``(..., p + k, p)``.

    Fixed point iteration: shoot, carry the gap back along the geodesic by parallel transport, add
    it.  Parallel transport differs from the exact inverse (of the Jacobi fields) by the curvature
    only, so this converges linearly up to the conjugate radius; Anderson acceleration makes it
    fast.  Vectors are kept shorter than `longest`.  All take the same number of iterations: how
    long a batch takes tells nothing of its records.
    """
    if p == 1:
        return _circle_log(xp, target)
    batch = tuple(target.shape[:-2])
    targets = xp.reshape(target, (-1, *target.shape[-2:]))
    if targets.shape[0] == 0:
        return target[..., :p, :], target[..., p:, :]
    best = xp.reshape(_iterate(xp, targets, p, longest), (*batch, *target.shape[-2:]))
    return best[..., :p, :], best[..., p:, :]


def _circle_log(xp: ModuleType, target: Array) -> tuple[Array, Array]:
    cosine, sine = target[..., :1, :], target[..., 1:, :]
    sign = xp.where(sine < 0, -xp.ones_like(sine), xp.ones_like(sine))
    return xp.zeros_like(cosine), sign * xp.atan2(xp.abs(sine), cosine)


def _iterate(xp: ModuleType, target: Array, p: int, longest: float) -> Array:
    """Best velocities ``[a; b]`` found, (m, p + k, p)."""
    start = xp.concat([skew(xp, target[:, :p, :]), target[:, p:, :]], axis=-2)
    identity = xp.eye(p, dtype=target.dtype, device=device(target))
    chord = xp.concat([target[:, :p, :] - identity, target[:, p:, :]], axis=-2)
    scale = frobenius(xp, chord) / nonzero(xp, frobenius(xp, start))
    x = start * scale[:, None, None]

    best = x
    best_gap = last_gap = xp.sum(x, axis=(-2, -1)) * 0.0 + float("inf")
    # Differences of the last steps, and of where these led.
    steps = ends = xp.reshape(x, (x.shape[0], 1, -1))[:, :0, :]
    last_step = last_end = x
    for iteration in range(ITERATIONS):
        x = x * (longest / xp.clip(frobenius(xp, x), min=longest))[:, None, None]
        step, gap = _correction(xp, x, target, p)
        best = xp.where((gap < best_gap)[:, None, None], x, best)
        best_gap = xp.minimum(gap, best_gap)
        # Where acceleration made it worse: back to the last point, forget, take its plain step.
        worse = gap > last_gap
        last_gap = xp.where(worse, xp.full_like(gap, float("inf")), gap)
        worse = worse[:, None, None]
        end = x + step
        if iteration:
            keep = xp.astype(~worse, x.dtype)
            steps = _remembered(xp, steps, step - last_step, keep)
            ends = _remembered(xp, ends, end - last_end, keep)
        last_step, last_end = xp.where(worse, last_step, step), xp.where(worse, last_end, end)
        x = last_end - _anderson(xp, last_step, steps, ends)
    return best


def _correction(xp: ModuleType, x: Array, target: Array, p: int) -> tuple[Array, Array]:
    """The gap to the target, carried back to the start: (m, p + k, p), and its length."""
    a, b = skew(xp, x[:, :p, :]), x[:, p:, :]
    turn, twist = group_elements(xp, a, b)
    gap = target - turn[..., :p] @ twist
    back = t(xp, turn) @ gap @ t(xp, twist)
    w_a, w_b = skew(xp, back[:, :p, :]), back[:, p:, :]
    # An inexact transport only slows the iteration down: more terms cost more than they save.
    w_a, w_b = _exp_connection(xp, a, b, w_a, w_b, -1.0, 3)
    return xp.concat([w_a, w_b], axis=-2), frobenius(xp, gap)


def _remembered(xp: ModuleType, old: Array, new: Array, keep: Array) -> Array:
    flat = xp.reshape(new, (new.shape[0], 1, -1))
    return keep * xp.concat([old[:, max(old.shape[1] - MEMORY + 1, 0) :, :], flat], axis=1)


def _anderson(xp: ModuleType, step: Array, steps: Array, ends: Array) -> Array:
    """Anderson's correction: the combination of past differences that best explains the step."""
    if not steps.shape[1]:
        return xp.zeros_like(step)
    gram = steps @ t(xp, steps)
    identity = xp.eye(gram.shape[-1], dtype=gram.dtype, device=device(gram))
    ridge = 1e3 * float(xp.finfo(gram.dtype).eps) ** 0.8
    gram = gram + identity * nonzero(xp, ridge * xp.sum(gram * identity, axis=-1))[:, None, :]
    weights = xp.linalg.solve(gram, steps @ xp.reshape(step, (step.shape[0], -1, 1)))
    correction = xp.reshape(t(xp, weights) @ ends, step.shape)
    wild = frobenius(xp, correction) > 5 * frobenius(xp, step)
    return xp.where(wild[:, None, None], xp.zeros_like(correction), correction)
