"""Geodesics of Stiefel manifolds in the frame of their start: end points, logarithm, transport.

Both metrics belong to the family ``beta |A|^2 + |B|^2`` (beta = 1 embedded, 1/2 canonical), whose
geodesic with initial velocity ``X A + X_perp B`` is

    ``[X, X_perp] expm(s M) [I; 0] expm(s D)``,  ``M = [[2 beta A, -B'], [B, 0]]``,
    ``D = (1 - 2 beta) A``

(Zimmermann and Hueper 2022): the orbit of the one-parameter group of isometries
``Y -> expm(s M) Y expm(s D)``.  Parallel transport along such an orbit is the group's differential
after the exponential of the constant operator ``L w = -nabla_w K``, K the Killing field of the
group.  For beta = 1, ``nabla`` is the projected derivative, so
``L(a, b) = -(3/2 [A, a] - skew(B' b), B a - b A)``; for beta = 1/2 the space is naturally reductive
and ``L w = -[A + B, w] / 2``, tangential part.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from skriemdp._arrays import Array, device
from skriemdp.geometry._elementary import nonzero, sinc
from skriemdp.geometry._orthonormal import frobenius, skew, t

# Earlier steps of the logarithm that a step is mixed with.
MEMORY = 4
# Which entries of a skew-symmetric 4x4 matrix its dual has, row by row.
_DUAL = [0, 11, 13, 6, 14, 0, 3, 8, 7, 12, 0, 1, 9, 2, 4, 0]


def group_elements(xp: ModuleType, a: Array, b: Array, beta: float) -> tuple[Array, Array]:
    """``expm(M)`` and ``expm(D)`` of the module docstring."""
    k = b.shape[-2]
    a = a + 0.0 * b[..., :1, :]
    b = b + 0.0 * a[..., :1, :]
    corner = xp.zeros((*b.shape[:-2], k, k), dtype=b.dtype, device=device(b))
    top = xp.concat([2 * beta * a, -t(xp, b)], axis=-1)
    bottom = xp.concat([b, corner], axis=-1)
    return expm_skew(xp, xp.concat([top, bottom], axis=-2)), expm_skew(xp, (1 - 2 * beta) * a)


def expm_skew(xp: ModuleType, matrix: Array) -> Array:
    """Exponential of skew-symmetric matrices, orthogonal to rounding for any norm."""
    size = matrix.shape[-1]
    if size == 1:
        return xp.ones_like(matrix)
    if size == 2:
        return _turn(xp, matrix, frobenius(xp, matrix) / math.sqrt(2.0))
    if size == 3:  # Rodrigues
        angle = (frobenius(xp, matrix) / math.sqrt(2.0))[..., None, None]
        identity = xp.eye(3, dtype=matrix.dtype, device=device(matrix))
        bend = sinc(xp, angle / 2) ** 2 / 2
        return identity + sinc(xp, angle) * matrix + bend * (matrix @ matrix)
    if size == 4:  # the halves commute
        halves = (matrix + _dual(xp, matrix)) / 2, (matrix - _dual(xp, matrix)) / 2
        left, right = (_turn(xp, half, frobenius(xp, half) / 2) for half in halves)
        return left @ right
    dtype = xp.complex128 if xp.finfo(matrix.dtype).bits == 64 else xp.complex64
    values, vectors = xp.linalg.eigh(xp.astype(matrix, dtype) * 1j)
    phases = xp.exp(-1j * xp.astype(values, dtype))
    return xp.real((vectors * phases[..., None, :]) @ xp.conj(t(xp, vectors)))


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


def _connection(
    xp: ModuleType, a: Array, b: Array, w_a: Array, w_b: Array, beta: float
) -> tuple[Array, Array]:
    """The operator L of the module docstring, applied to ``(w_a, w_b)``."""
    commutator = a @ w_a - w_a @ a
    if beta == 1.0:
        return skew(xp, t(xp, b) @ w_b) - 1.5 * commutator, w_b @ a - b @ w_a
    mixed = t(xp, w_b) @ b - t(xp, b) @ w_b
    return -(commutator + mixed) / 2, (w_b @ a - b @ w_a) / 2


def _exp_connection(
    xp: ModuleType,
    a: Array,
    b: Array,
    w_a: Array,
    w_b: Array,
    beta: float,
    sign: float,
    steps: int,
    terms: int,
) -> tuple[Array, Array]:
    """``expm(sign L)`` applied to ``(w_a, w_b)``, by `steps` Taylor expansions."""
    for _ in range(steps):
        term_a, term_b = w_a, w_b
        for order in range(1, terms):
            term_a, term_b = _connection(xp, a, b, term_a, term_b, beta)
            factor = sign / (steps * order)
            term_a, term_b = factor * term_a, factor * term_b
            w_a, w_b = w_a + term_a, w_b + term_b
    return w_a, w_b


def carry(
    xp: ModuleType, a: Array, b: Array, w_a: Array, w_b: Array, beta: float
) -> tuple[Array, Array]:
    """Transport along the geodesic (a, b) up to the group's differential, to rounding."""
    # |L| <= 1.5 sqrt(2) |a| + |b| (commutators by the inequality of Boettcher and Wenzel), so every
    # step has norm at most 1 and 18 terms leave 1 / 18! < 2e-16.
    norm = 2.2 * frobenius(xp, a) + frobenius(xp, b)
    steps = 1 + int(xp.max(norm)) if math.prod(norm.shape) else 1
    return _exp_connection(xp, a, b, w_a, w_b, beta, 1.0, steps, 18)


def log(xp: ModuleType, target: Array, p: int, beta: float, longest: float) -> tuple[Array, Array]:
    """Initial velocity (a, b) of the geodesic from ``[I; 0]`` to `target`, ``(..., p + k, p)``.

    Fixed point iteration: shoot, carry the gap back along the geodesic by parallel transport, add
    it.  Parallel transport differs from the exact inverse (of the Jacobi fields) by the curvature
    only, so this converges linearly up to the conjugate radius; Anderson acceleration makes it
    fast.  Vectors are kept shorter than `longest`.
    """
    if p == 1:
        return _circle_log(xp, target)
    batch = tuple(target.shape[:-2])
    targets = xp.reshape(target, (-1, *target.shape[-2:]))
    if targets.shape[0] == 0:
        return target[..., :p, :], target[..., p:, :]
    tolerance = 50 * float(xp.finfo(target.dtype).eps)
    # All rows together first, then those that need more iterations.
    best, residual = _iterate(xp, targets, p, beta, longest, tolerance, 24)
    late = residual > tolerance
    if bool(xp.any(late)):
        rest, _ = _iterate(xp, targets[late, ...], p, beta, longest, tolerance, 150)
        best[late, ...] = rest
    best = xp.reshape(best, (*batch, *target.shape[-2:]))
    return best[..., :p, :], best[..., p:, :]


def _circle_log(xp: ModuleType, target: Array) -> tuple[Array, Array]:
    cosine, sine = target[..., :1, :], target[..., 1:, :]
    sign = xp.where(sine < 0, -xp.ones_like(sine), xp.ones_like(sine))
    return xp.zeros_like(cosine), sign * xp.atan2(xp.abs(sine), cosine)


def _iterate(
    xp: ModuleType,
    target: Array,
    p: int,
    beta: float,
    longest: float,
    tolerance: float,
    iterations: int,
) -> tuple[Array, Array]:
    """Best velocities ``[a; b]`` found, (m, p + k, p), and the lengths of their gaps, (m,)."""
    start = xp.concat([skew(xp, target[:, :p, :]), target[:, p:, :]], axis=-2)
    identity = xp.eye(p, dtype=target.dtype, device=device(target))
    chord = xp.concat([target[:, :p, :] - identity, target[:, p:, :]], axis=-2)
    scale = frobenius(xp, chord) / nonzero(xp, frobenius(xp, start))
    x = start * scale[:, None, None]

    best = last_x = last_step = x
    best_gap = last_gap = xp.sum(x, axis=(-2, -1)) * 0.0 + float("inf")
    steps_x: list = []  # differences of the last velocities and of their steps
    steps_f: list = []
    for iteration in range(iterations):
        x = x * (longest / xp.clip(frobenius(xp, x), min=longest))[:, None, None]
        step, gap = _correction(xp, x, target, p, beta)
        # A row that is close enough stays as it is, however long the others take.
        better = (gap < best_gap) & (best_gap > tolerance)
        best = xp.where(better[:, None, None], x, best)
        best_gap = xp.where(better, gap, best_gap)
        if not bool(xp.any(best_gap > tolerance)):
            break
        # Where acceleration made it worse: back to the last point, forget, take its plain step.
        worse = gap > last_gap
        keep = xp.astype(~worse, x.dtype)[:, None, None]
        if iteration:
            steps_x = [old * keep for old in [*steps_x, x - last_x][-MEMORY:]]
            steps_f = [old * keep for old in [*steps_f, step - last_step][-MEMORY:]]
        x = xp.where(worse[:, None, None], last_x, x)
        step = xp.where(worse[:, None, None], last_step, step)
        last_gap = xp.where(worse, xp.full_like(gap, float("inf")), gap)
        last_x, last_step = x, step
        x = x + step - _anderson(xp, step, steps_x, steps_f)
    return best, best_gap


def _correction(
    xp: ModuleType, x: Array, target: Array, p: int, beta: float
) -> tuple[Array, Array]:
    """The gap to the target, carried back to the start: (m, p + k, p), and its length."""
    a, b = skew(xp, x[:, :p, :]), x[:, p:, :]
    turn, twist = group_elements(xp, a, b, beta)
    gap = target - turn[..., :p] @ twist
    back = t(xp, turn) @ gap @ t(xp, twist)
    w_a, w_b = skew(xp, back[:, :p, :]), back[:, p:, :]
    # An inexact transport only slows the iteration down: few terms suffice.
    w_a, w_b = _exp_connection(xp, a, b, w_a, w_b, beta, -1.0, 1, 10)
    return xp.concat([w_a, w_b], axis=-2), frobenius(xp, gap)


def _anderson(xp: ModuleType, step: Any, steps_x: Any, steps_f: Any) -> Array:
    """Anderson's correction: the combination of past differences that best explains the step."""
    if not steps_x:
        return xp.zeros_like(step)
    m = step.shape[0]
    flat = xp.reshape(step, (m, -1, 1))
    f = xp.reshape(xp.stack(steps_f, axis=-1), (m, flat.shape[1], -1))
    x = xp.reshape(xp.stack(steps_x, axis=-1), (m, flat.shape[1], -1))
    size = nonzero(xp, xp.sqrt(xp.sum(f * f, axis=-2, keepdims=True)))
    f, x = f / size, x / size
    ridge = 1e3 * float(xp.finfo(f.dtype).eps) ** 0.8
    ridge = ridge * xp.eye(f.shape[-1], dtype=f.dtype, device=device(f))
    weights = xp.linalg.solve(t(xp, f) @ f + ridge, t(xp, f) @ flat)
    correction = xp.reshape((x + f) @ weights, step.shape)
    wild = frobenius(xp, correction) > 5 * frobenius(xp, step)
    return xp.where(wild[:, None, None], xp.zeros_like(correction), correction)
