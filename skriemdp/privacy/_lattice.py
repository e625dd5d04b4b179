"""Privacy of discrete Gaussian noise on the integers: shifts and sampled batches."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from skriemdp._errors import PublicValueError
from skriemdp._validation import check_count, check_positive

# Discrete Gaussian noise has this scale in every release; the spacing of the integers varies.
NOISE_SCALE = 2**40
# Part of delta that is kept for :func:`rounding_distance` where batches are drawn at random.
_KEPT = 1e-6


def rounding_distance(integers: int, count: int = 1) -> float:
    """Total variation between integer releases and rounded Gaussian ones, rounded up.

    Discrete Gaussian noise of scale `NOISE_SCALE` on an integer vector is no further than
    ``integers / (24 NOISE_SCALE^2)`` from Gaussian noise of that standard deviation, rounded to
    integers.  So whatever is proved of Gaussian noise holds with ``(1 + e^epsilon)`` times as
    much added to delta.

    Parameters
    ----------
    integers : int
        Length of the vector.
    count : int, default=1
        Number of releases, also adaptive ones.

    Notes
    -----
    *Guarantee*: docs/theory/lattice.md, Theorem 3.  The rounding up is larger than the error in the
    law of a batch's size (:mod:`skriemdp._mechanisms.batch_sizes`).

    Examples
    --------
    >>> from skriemdp.privacy._lattice import rounding_distance
    >>> f"{rounding_distance(100, count=1000):.2g}"
    '3.4e-21'
    """
    check_count(minimum=0, integers=integers)
    check_count(count=count)
    return float(integers) * float(count) / (24.0 * float(NOISE_SCALE) ** 2) * (1.0 + 1e-9)


def rounding_divergence(distance: float, order: float) -> float:
    """Bound the Renyi divergence that rounding to integers adds, up to a mass far below 1e-24.

    Parameters
    ----------
    distance : float
        :func:`rounding_distance` of the releases.
    order : float
        Above 1.

    Notes
    -----
    *Guarantee*: docs/theory/lattice.md, Theorem 3, for noise multipliers above ``2^-10``, the least
    that integers admit.
    """
    # Noise is compared with a rounded Gaussian up to here, in standard deviations: a shift is no
    # longer than 2^10 of them, and where it and the noise are both longer together has no weight.
    return distance * (order / (order - 1.0) + 2.0**24) * (1.0 + 1e-9)


def sampled_delta(delta: float) -> float:
    """Return the delta for calibrating a sampled run with real noise; integers take the rest."""
    return delta * (1.0 - _KEPT)


def check_distance(distance: float, epsilon: float, delta: float) -> None:
    """ValueError where integers would take more of delta than :func:`sampled_delta` keeps."""
    if not math.log1p(math.exp(-epsilon)) + epsilon + math.log(distance) <= math.log(
        0.99 * _KEPT * delta
    ):
        raise PublicValueError(
            f"delta={delta:g} leaves no room for integers in sampled batches at "
            f"epsilon={epsilon:g}; use a larger delta or a smaller epsilon."
        )


def lattice_step(scale: int) -> float:
    """GDP parameter of discrete Gaussian noise of parameter ``scale**2`` against a shift by one.

    Noise on every coordinate of an integer vector makes a shift k (an integer vector) at most
    ``|k| * lattice_step(scale)``-GDP.  It is ``1 / scale`` up to a relative ``1 / (8 scale^2)``.

    Parameters
    ----------
    scale : int
        At least 2.  Noise has probabilities proportional to ``exp(-x^2 / (2 scale^2))`` on the
        integers.

    Notes
    -----
    *Guarantee*: ``w = sqrt(2 (1 - sqrt(1 - 1/scale^2)))``, proved in docs/theory/lattice.md; the
    largest quantile gap that is attained is about ``(1 + 1 / (24 scale^2)) / scale``.

    Examples
    --------
    >>> from skriemdp.privacy._lattice import lattice_step
    >>> round(lattice_step(10), 6)
    0.100126
    """
    check_count(minimum=2, scale=scale)
    # Written so that nothing cancels, and rounded up.
    inverse = 1.0 / float(scale)
    root = math.sqrt((1.0 - inverse) * (1.0 + inverse))
    return inverse * math.sqrt(2.0 / (1.0 + root)) * (1.0 + 1e-15)


def lattice_scale(shift: int, noise_multiplier: float) -> int:
    """Smallest integer scale that makes every shift of length <= `shift` private enough.

    That is, ``1 / noise_multiplier``-GDP.  Computed in rational numbers, nothing is rounded but the
    result, upwards.

    Parameters
    ----------
    shift : int
        Bound of the Euclidean length of the change of an integer vector, in lattice units.
    noise_multiplier : float
        As in :class:`skriemdp.privacy.GaussianEvent`.

    Examples
    --------
    >>> from skriemdp.privacy._lattice import lattice_scale
    >>> lattice_scale(1000, 4.0)
    4001
    """
    check_count(shift=shift)
    check_positive(noise_multiplier=noise_multiplier)
    # w^2 for the step w = 1 / (noise_multiplier * shift) that is allowed.
    square = 1 / (Fraction(noise_multiplier) * shift) ** 2
    if square >= 2:
        return 2
    # lattice_step(s) <= w where s^2 w^2 (1 - w^2 / 4) >= 1, the inequality of the proof.
    least = 1 / (square * (1 - square / 4))
    return max(2, math.isqrt(math.ceil(least) - 1) + 1)


# Largest number of shares for which Theorem 4 is used.
_MOST_SHARES = 10**6


def share_scale(shares: int) -> int:
    """Scale of the noise that each of several parties adds, so that the sum hides as one draw does.

    Parameters
    ----------
    shares : int
        How many of the parties draw noise that nobody else knows: m, at least one.

    Returns
    -------
    int
        A multiple of 64, about ``NOISE_SCALE / sqrt(m)``.

    Raises
    ------
    ValueError
        For more than a million shares.

    Notes
    -----
    *Guarantee*: the sum of m independent discrete Gaussian draws of this scale on each coordinate
    of an integer vector makes a shift of length `D` ``1 / noise_multiplier``-GDP for every ``D <=
    largest_shift(NOISE_SCALE, noise_multiplier)``, as one draw of scale `NOISE_SCALE` does, with no
    slack in delta (docs/theory/lattice.md, Theorem 4).  For somebody who knows all but h of the
    draws the parameter is at most ``sqrt(m / h) (1 + 2^-60)`` times as large.

    Examples
    --------
    >>> from skriemdp.privacy._lattice import NOISE_SCALE, share_scale
    >>> share_scale(4) - NOISE_SCALE // 2
    64
    """
    check_count(shares=shares)
    if shares > _MOST_SHARES:
        raise PublicValueError(
            f"shares={shares} is above {_MOST_SHARES}; add up fewer parties at once."
        )
    cells = NOISE_SCALE // 64
    return 64 * (math.isqrt(cells * cells // shares) + 1)


@functools.lru_cache(maxsize=1024)
def largest_shift(scale: int, noise_multiplier: float) -> int:
    """Longest shift that noise of this integer scale makes ``1 / noise_multiplier``-GDP.

    The other side of :func:`lattice_scale`: the largest D with ``lattice_scale(D, noise_multiplier)
    <= scale``.  Computed in rational numbers and rounded down.

    Examples
    --------
    >>> from skriemdp.privacy._lattice import largest_shift
    >>> largest_shift(4001, 4.0)
    1000
    """
    check_count(minimum=2, scale=scale)
    check_positive(noise_multiplier=noise_multiplier)
    shift = math.floor(Fraction(scale) / Fraction(noise_multiplier))
    while shift >= 1 and lattice_scale(shift, noise_multiplier) > scale:
        shift -= 1
    if shift < 1:
        raise PublicValueError(
            f"noise_multiplier={noise_multiplier:.4g} is too large for integers of scale {scale}."
        )
    return shift
