"""How much discrete Gaussian noise on the integers makes a shift as private as a Gaussian would."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from skriemdp._validation import check_count, check_positive

__all__ = ["largest_shift", "lattice_scale", "lattice_step"]


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
    >>> from skriemdp.privacy.lattice import lattice_step
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
        As in :class:`skriemdp.privacy.events.GaussianEvent`.

    Examples
    --------
    >>> from skriemdp.privacy.lattice import lattice_scale
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


@functools.lru_cache(maxsize=1024)
def largest_shift(scale: int, noise_multiplier: float) -> int:
    """Longest shift that noise of this integer scale makes ``1 / noise_multiplier``-GDP.

    The other side of :func:`lattice_scale`: the largest D with ``lattice_scale(D, noise_multiplier)
    <= scale``.  Computed in rational numbers and rounded down.

    Examples
    --------
    >>> from skriemdp.privacy.lattice import largest_shift
    >>> largest_shift(4001, 4.0)
    1000
    """
    check_count(minimum=2, scale=scale)
    check_positive(noise_multiplier=noise_multiplier)
    shift = math.floor(Fraction(scale) / Fraction(noise_multiplier))
    while shift >= 1 and lattice_scale(shift, noise_multiplier) > scale:
        shift -= 1
    if shift < 1:
        raise ValueError(
            f"noise_multiplier={noise_multiplier:.4g} is too large for integers of scale {scale}."
        )
    return shift
