"""Sensitivities from public numbers, replacement and presence, each proved in docs/theory.

Radii and reaches are geodesic distances, `kappa` an upper bound of the sectional curvature, `n` the
public number of records.  Results are rounded up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from skriemdp._errors import PublicValueError
from skriemdp._validation import (
    check_count,
    check_fraction,
    check_instance,
    check_nonnegative,
    check_positive,
    check_scale,
    plain_number,
    plain_numbers,
    shown,
)

__all__ = [
    "answers_sensitivity",
    "exact_moment_norm",
    "exact_total_sensitivity",
    "weighted_sum_sensitivity",
    "ball_logarithms_sensitivity",
    "ball_sensitivity",
    "check_sensitivity",
    "class_moments_sensitivity",
    "frame_product_sensitivity",
    "frechet_mean_sensitivity",
    "gradient_root_sensitivity",
    "grouped_sum_sensitivity",
    "interval_sensitivity",
    "iterated_mean_sensitivity",
    "leading_eigenvalues_sensitivity",
    "log_lipschitz",
    "mean_sensitivity",
    "second_moment_sensitivity",
    "semidefinite_sum_sensitivity",
    "Sensitivity",
    "sums_and_counts_sensitivity",
    "trace_part_sensitivity",
    "with_tolerance",
]

P = ParamSpec("P")
R = TypeVar("R")
# Factor that covers the rounding errors of a few float64 operations.
_UP = 1.0 + 4e-15
# Cells for the bound of a maximum, and parts of a cell that may contain it; a compromise between
# time and tightness.
_CELLS, _PARTS = 64, 4


def _of_plain_numbers(function: Callable[P, R]) -> Callable[P, R]:
    """`function` of Python's own numbers: a square in single precision may be rounded down."""

    @functools.wraps(function)
    def plain(*args: P.args, **kwargs: P.kwargs) -> R:
        own: Any = map(plain_number, args)
        named: Any = {name: plain_number(value) for name, value in kwargs.items()}
        return function(*own, **named)

    return plain


@dataclass(frozen=True)
class Sensitivity:
    """Bound of how far replacing one record moves a statistic (Euclidean norm); with its proof.

    Made by the functions of this module only, so that every number which scales noise has a
    theorem; mechanisms refuse anything else.

    Attributes
    ----------
    value : float
        Rounded up.
    theorem : str
        Name of the function that made it, whose docstring cites the proof.
    presence : float
        How far it moves when a record is added or removed, rounded up: the length of what one
        record adds.  Infinite where nothing is proved of it.
    """

    value: float
    theorem: str
    presence: float = math.inf

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_positive(sensitivity=self.value)
        check_positive(allow_inf=True, presence=self.presence)


def check_sensitivity(sensitivity: object, name: str = "sensitivity") -> None:
    """TypeError for a bare number: what scales noise must come with its theorem."""
    if not isinstance(sensitivity, Sensitivity):
        cure = "make it with a function of skriemdp.privacy, such as ball_sensitivity(radius)"
        check_instance(Sensitivity, cure, **{name: sensitivity})


@_of_plain_numbers
def ball_sensitivity(radius: float) -> Sensitivity:
    """Sensitivity of a sum of vectors within `radius` of one public vector: ``2 radius``.

    Attained by opposite points of the ball.  sensitivity.md, section 0.
    """
    check_positive(radius=radius)
    return Sensitivity(2.0 * radius * _UP, "ball_sensitivity", radius * _UP)


@functools.lru_cache(maxsize=4096)
@_of_plain_numbers
def ball_logarithms_sensitivity(radius: float, kappa: float) -> Sensitivity:
    """Sensitivity of ``sum_i log_x x_i`` at every x of a ball with the records, on a sphere.

    Parameters
    ----------
    radius : float
        Of the ball, less than ``pi / (2 sqrt(kappa))`` and half the injectivity radius (the latter
        is not checked here).
    kappa : float
        The sectional curvature, constant and at least 0.

    Returns
    -------
    Sensitivity
        ``2 max_t t sqrt(1 - cot(r)^2 tan(t / 2)^2)`` in units with ``kappa = 1``: ``2 r`` for small
        balls, 1.12 times that for ``r = pi / 4``, ``4 r`` at the limit.  Attained on the rim.

    Notes
    -----
    sensitivity.md, section 11.

    Examples
    --------
    >>> round(ball_logarithms_sensitivity(3.141592653589793 / 4, 1.0).value, 4)
    1.7531
    """
    check_positive(radius=radius)
    r = _scaled(kappa, radius)
    if r >= math.pi / 2.0:
        raise PublicValueError(
            f"radius={radius!r} must be less than pi/(2 sqrt(kappa)) = "
            f"{0.5 * math.pi / math.sqrt(kappa):.6g}; use a smaller ball."
        )
    if r < 1e-4:  # the maximum is r (1 + r^2 / 6 + ...)
        return Sensitivity(2.0 * radius * (1.0 + 0.17 * r * r) * _UP, "ball_logarithms_sensitivity")
    square = math.tan(r) ** -2
    low, high = 0.0, 2.0 * r
    for _ in range(60):
        t = 0.5 * (low + high)
        tangent = math.tan(0.5 * t)
        rising = square * tangent * (tangent + 0.5 * t * (1.0 + tangent**2)) < 1.0
        low, high = (t, high) if rising else (low, t)
    best = high * math.sqrt(max(1.0 - square * math.tan(0.5 * low) ** 2, 0.0))
    value = 2.0 * best / r * radius * (1.0 + 1e-12)
    return Sensitivity(value * _UP, "ball_logarithms_sensitivity")


@_of_plain_numbers
def exact_total_sensitivity(bound: Sensitivity, moved: float, n: float) -> Sensitivity:
    """Sensitivity of an exact integer total of at most n records, turned into floats.

    Parameters
    ----------
    bound : Sensitivity
        Of the sum in real numbers, with its presence.
    moved : float
        How far the total moves in numbers: the largest shift of the integers times their spacing.
    n : float
        Most records.

    Returns
    -------
    Sensitivity
        `moved` and twice ``2^-50`` of the longest total, whose presence needs it once.  floats.md,
        "Floating-point noise on an exact total".
    """
    check_sensitivity(bound, "bound")
    check_positive(moved=moved, n=n)
    longest = moved * (bound.presence / bound.value)
    rounding = 2.0**-50 * n * longest
    return Sensitivity((moved + 2.0 * rounding) * _UP, bound.theorem, (longest + rounding) * _UP)


@_of_plain_numbers
def exact_moment_norm(longest: float, n: int, dim: int) -> float:
    """Length that rows may be taken to have, of an exact total of their ``z z'`` in floats.

    Parameters
    ----------
    longest : float
        Of rows z, or the root of the largest trace of people's matrices.
    n, dim : int
        Numbers of records and of columns.

    Returns
    -------
    float
        R with ``R^2 >= longest^2 + e``, e the trace norm of what two totals are rounded by, at
        most ``2^-49 n sqrt(dim) longest^2``.  floats.md, "Floating-point noise on an exact total".
    """
    check_positive(longest=longest)
    check_count(n=n, dim=dim)
    return longest * (1.0 + 2.0**-50 * n * math.sqrt(dim)) * _UP


@_of_plain_numbers
def iterated_mean_sensitivity(iterate: float, stretch: float) -> Sensitivity:
    """Sensitivity of the normal coordinates of an iterated Fréchet mean at its ball's centre.

    The iterate moves by at most `iterate` (docs/theory/mean-iteration.md), and ``log_c`` stretches
    distances on the ball by at most `stretch`.  With ``stretch = 1`` it is that of the iterate
    itself, in geodesic distance.
    """
    check_positive(iterate=iterate, stretch=stretch)
    return Sensitivity(iterate * stretch * _UP, "iterated_mean_sensitivity")


@_of_plain_numbers
def interval_sensitivity(width: float) -> Sensitivity:
    """Sensitivity of a sum of one number per record, each in an interval of this `width`.

    With ``width = 1`` it is that of a count, and of the distance of a public rank to two counts.
    Presence is that of an interval that holds zero.
    """
    check_positive(width=width)
    return Sensitivity(width * _UP, "interval_sensitivity", width * _UP)


@_of_plain_numbers
def second_moment_sensitivity(norm: float) -> Sensitivity:
    """Frobenius sensitivity of ``sum z z'``, ``|z| <= norm``: ``sqrt(2) norm^2``; attained.

    Also of its part off the diagonal, and of ``sum W' z z' W`` for orthonormal columns W of two or
    more.  Matrices ``z z'`` have nonnegative inner products.  sensitivity.md, section 4.
    """
    check_scale(norm=norm)
    square = norm**2 * _UP
    return Sensitivity(math.sqrt(2.0) * square, "second_moment_sensitivity", square)


@_of_plain_numbers
def class_moments_sensitivity(norm: float) -> Sensitivity:
    """Sensitivity of the sums of ``w w'`` of all classes, Frobenius norm; ``|w| <= norm``.

    A record adds ``w w'`` to the block of its own class and nothing to the others.  Two records, of
    one class or of two, add positive semidefinite matrices, so ``|P - Q|^2 <= |P|^2 + |Q|^2 <= 2
    norm^4``: ``sqrt(2) norm^2``, whatever the number of classes.  Every record of the longest w
    that changes its class attains it.  moments.md, "Second moments by class".
    """
    check_scale(norm=norm)
    square = norm**2 * _UP
    return Sensitivity(math.sqrt(2.0) * square, "class_moments_sensitivity", square)


@_of_plain_numbers
def semidefinite_sum_sensitivity(norm: float) -> Sensitivity:
    """Sensitivity of a sum of one semidefinite matrix per record, Frobenius norm <= `norm`.

    ``sqrt(2) norm``: two of them have a nonnegative inner product, so ``|P - Q|^2 <= |P|^2 +
    |Q|^2``.  Attained by projectors on orthogonal subspaces.  location-scale.md, section 2.
    """
    check_positive(norm=norm)
    return Sensitivity(math.sqrt(2.0) * norm * _UP, "semidefinite_sum_sensitivity", norm * _UP)


@_of_plain_numbers
def frame_product_sensitivity(norm: float, columns: int, bound: float = math.inf) -> Sensitivity:
    """Sensitivity of ``sum z z' W``, terms of norm <= `bound`, W of orthonormal `columns`.

    ``min(2 bound, D)`` with ``D = norm^2`` for one column, where the terms fill a ball of that
    diameter, and ``sqrt(2) norm^2`` for more.  sensitivity.md, section 4.
    """
    check_scale(norm=norm)
    check_positive(allow_inf=True, bound=bound)
    check_count(columns=columns)
    diameter = norm**2 * (1.0 if columns == 1 else math.sqrt(2.0))
    presence = min(bound, norm**2) * _UP
    return Sensitivity(min(2.0 * bound, diameter) * _UP, "frame_product_sensitivity", presence)


@_of_plain_numbers
def sums_and_counts_sensitivity(weight: float) -> Sensitivity:
    """Sensitivity of all groups' sums and counts, in units of the counts: ``2 weight``.

    For records that add ``(v_g, q_g)`` to the groups with ``|v_g| <= bound q_g`` and ``sum q_g^2 <=
    weight^2``, sums in units of `bound`.  sensitivity.md, section 9; attained.
    """
    check_positive(weight=weight)
    presence = math.sqrt(2.0) * weight * _UP
    return Sensitivity(2.0 * weight * _UP, "sums_and_counts_sensitivity", presence)


@_of_plain_numbers
def answers_sensitivity(count: int, farthest: float = 0.5) -> Sensitivity:
    """Sensitivity of the sums of `count` numbers in [0, 1] per record: ``sqrt(count)``.

    Two corners of a cube are no farther apart, and none is farther than half of that from its
    middle: presence is that of numbers less 1/2.  Less other levels, a number is `farthest` at
    most: presence is ``farthest sqrt(count)``.  sensitivity.md, section 12.
    """
    check_count(count=count)
    check_fraction(farthest=farthest)
    root = math.sqrt(count) * _UP
    return Sensitivity(root, "answers_sensitivity", farthest * root)


@_of_plain_numbers
def weighted_sum_sensitivity(norm: float, largest: float = 1.0) -> Sensitivity:
    """Sensitivity of weighted sums of vectors ``|u_i| <= norm``: ``2 norm largest``; attained.

    Of ``sum a_i u_i`` with public weights ``|a_i| <= largest``, one vector replaced; and of
    ``(sqrt(3) norm sum k_i, sum k_i u_i)`` together, with ``largest = 1`` and weights k_i in [0, 1]
    that depend on record i, one record replaced.  sensitivity.md, section 7.
    """
    check_positive(norm=norm, largest=largest)
    value = 2.0 * norm * largest * _UP
    return Sensitivity(value, "weighted_sum_sensitivity", value)


@_of_plain_numbers
def leading_eigenvalues_sensitivity(tolerance: float) -> Sensitivity:
    """Sensitivity of a sum of leading eigenvalues of ``sum (z z' - diag(z z'))``, ``|z| <= 1``.

    The sum is the largest ``tr(U' M U)`` over orthonormal columns U; a row adds a number in [-1, 1]
    to each of them, so it moves by at most 2.  `tolerance` bounds the error of the eigenvalue
    solver.  completion.md, section 1.
    """
    return Sensitivity(with_tolerance(2.0, tolerance), "leading_eigenvalues_sensitivity")


@_of_plain_numbers
def mean_sensitivity(total: Sensitivity, n: float) -> Sensitivity:
    """Sensitivity of a sum divided by a public number."""
    check_sensitivity(total, "total")
    check_positive(n=n)
    return Sensitivity(total.value / n * _UP, total.theorem, total.presence / n * _UP)


def _scaled(kappa: float, distance: float) -> float:
    """Distance in units where the curvature bound is 1; 0 for nonpositive curvature."""
    if kappa != kappa or kappa == math.inf or kappa > 1e300:
        raise PublicValueError(
            f"kappa must be a finite curvature bound (or -inf), got {shown(kappa)}."
        )
    return math.sqrt(kappa) * distance if kappa > 0.0 else 0.0


@_of_plain_numbers
def log_lipschitz(kappa: float, distance: float) -> float:
    """Lipschitz constant of ``log_w`` on the ball of radius `distance` about w.

    Parameters
    ----------
    kappa : float
        Upper curvature bound; with ``kappa <= 0`` on a Hadamard manifold the constant is 1.
    distance : float
        Less than ``pi / sqrt(kappa)``, and within the injectivity radius (not checked here).

    Returns
    -------
    float
        ``x / sin x`` with ``x = sqrt(kappa) * distance``.

    Notes
    -----
    Rauch's comparison theorem; sensitivity.md, section 2.  Tight on spheres.

    Examples
    --------
    >>> log_lipschitz(-1.0, 5.0)
    1.0
    >>> round(log_lipschitz(1.0, 1.0), 4)
    1.1884
    """
    check_nonnegative(distance=distance)
    x = _scaled(kappa, distance)
    if x >= math.pi:
        raise PublicValueError(
            f"distance={distance!r} reaches the conjugate distance pi/sqrt(kappa) = "
            f"{math.pi / math.sqrt(kappa):.6g}, where log has no Lipschitz constant; clip instead."
        )
    return 1.0 if x < 1e-9 else x / math.sin(x) * _UP


@_of_plain_numbers
def gradient_root_sensitivity(n: int, norm_bounds: Sequence[float]) -> Sensitivity:
    """Frobenius sensitivity of ``(sum_t g_t g_t')^{1/2}``, g_t the mean gradient of step t.

    Parameters
    ----------
    n : int
    norm_bounds : sequence of float
        Bound ``L_t`` of every record's gradient in each step, given what was released before.

    Returns
    -------
    Sensitivity
        ``sqrt(2) (2 / n) sqrt(sum_t L_t^2)``: ``2 sqrt(2) L sqrt(t) / n`` for constant bounds.

    Notes
    -----
    Araki and Yamagami (1981): moduli of matrices differ by at most sqrt(2) times their difference.
    Proof, and data that attain it as n grows: docs/theory/adagrad.md, section 1.
    """
    check_count(n=n)
    for bound in norm_bounds:
        check_positive(norm_bound=bound)
    value = 2.0 * math.sqrt(2.0) * math.hypot(*norm_bounds) / n * _UP
    return Sensitivity(value, "gradient_root_sensitivity")


@_of_plain_numbers
def trace_part_sensitivity(row_norm: float, n: int) -> Sensitivity:
    """Sensitivity of ``(1/n) sum z z'`` in the norm ``max(tr N+, tr N-)``, ``norm(z) <= row_norm``.

    N+ and N- are the positive and negative parts of a symmetric matrix.  Returns ``row_norm**2 /
    n``, also a bound of the trace of what one record adds; the trace norm changes by twice as much.
    Attained by orthogonal rows, and by one row that is zero.  sensitivity.md, section 4.
    """
    check_scale(row_norm=row_norm)
    check_count(n=n)
    return Sensitivity(row_norm**2 / n * _UP, "trace_part_sensitivity")


@functools.lru_cache(maxsize=4096)
@_of_plain_numbers
def frechet_mean_sensitivity(radius: float, n: int, kappa: float) -> float:
    """Largest move of the Frechet mean of n points of a ball when one of them is replaced.

    Parameters
    ----------
    radius : float
        Radius of the public ball.  For ``kappa > 0`` less than ``pi / (2 sqrt(kappa))`` and less
        than half the injectivity radius (the latter is not checked here).
    n : int
    kappa : float
        Upper curvature bound.  With ``kappa <= 0`` the manifold must be Hadamard.

    Returns
    -------
    float
        In geodesic distance.  ``2 radius / n`` for ``kappa <= 0``: tight.  For ``kappa > 0``, in
        units with ``kappa = 1``,

            (2 r / n) max over 0 <= R <= r of s(r + R) / c(t(R)),   cos t(R) = cos r / cos R,

        with ``s(t) = t / sin t``, ``c(t) = t cot t``: within 7 % of what a search finds for ``r =
        pi/8``, 25 % for ``r = 0.75``.

    Notes
    -----
    sensitivity.md, section 6.  The maximum is bounded from above cell by cell (the numerator grows
    with R, the denominator too), so the result is never below it.

    Examples
    --------
    >>> frechet_mean_sensitivity(1.0, 10, -1.0)
    0.2
    >>> round(frechet_mean_sensitivity(3.141592653589793 / 8, 10, 1.0), 4)
    0.0872
    """
    check_positive(radius=radius)
    check_count(n=n)
    r = _scaled(kappa, radius)
    flat = 2.0 * radius / n
    if r < 1e-6:
        # The largest ratio is 1 + 2 r**2 / 3 + O(r**4).
        return flat * (1.0 + 1.01 * r * r) if r > 0.0 else flat
    if r >= math.pi / 2.0:
        raise PublicValueError(
            f"radius={radius!r} must be less than pi/(2 sqrt(kappa)) = "
            f"{0.5 * math.pi / math.sqrt(kappa):.6g}, where the mean is unique; use a smaller "
            "ball, or release the mean of the logarithms at the centre."
        )
    return flat * _largest_ratio(r) * (1.0 + 1e-12 / math.cos(r))


def _largest_ratio(r: float) -> float:
    """Upper bound of ``max s(r + R) / c(t(R))``, within 5e-7 of it."""
    width = r / _CELLS
    left, best, bound = width * np.arange(_CELLS), 1.0, 1.0
    for _ in range(20):
        right = np.minimum(left + width, r)
        t = np.arccos(np.minimum(math.cos(r) / np.cos(left), 1.0))
        rate = np.maximum(_cotangent(t), 1e-300)
        upper = _stretch(r + right) / rate
        best = max(best, float((_stretch(r + left) / rate).max()))
        close = upper <= best * (1.0 + 5e-7)
        bound = max(bound, float(upper.max(where=close, initial=best)))
        if close.all():
            return bound
        width /= _PARTS
        left = (left[~close, None] + width * np.arange(_PARTS)).ravel()
    return max(float(upper.max()), bound)


def _stretch(x: np.ndarray) -> np.ndarray:
    return x / np.sin(x)


def _cotangent(t: np.ndarray) -> np.ndarray:
    return np.where(t < 1e-8, 1.0, t / np.tan(np.maximum(t, 1e-8)))


@_of_plain_numbers
def with_tolerance(sensitivity: float, tolerance: float) -> float:
    """Sensitivity of a value computed within `tolerance` of the exact one, whatever the data.

    ``sensitivity + 2 tolerance``, by the triangle inequality.
    """
    check_nonnegative(sensitivity=sensitivity, tolerance=tolerance)
    return (sensitivity + 2.0 * tolerance) * _UP


@_of_plain_numbers
def grouped_sum_sensitivity() -> Sensitivity:
    """Sensitivity of group sums and counts in ``sum_g max(|s_g| / bound, |c_g|)``: 2.

    Every record adds a vector of length at most `bound` to the sum of its group, and one to its
    count; replacing it, group included.  sensitivity.md, section 9; attained.
    """
    return Sensitivity(2.0 * _UP, "grouped_sum_sensitivity")
