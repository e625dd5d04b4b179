"""The one function through which every private release draws its noise.

An estimator's privacy then rests on what is passed to it: the exact statistic, the scale of the
noise, and the bound of what one record moves.  Callers write ``noise.draw``, so a test that
replaces that attribute sees every release (docs/theory/tests.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from skriemdp._arrays import Array, Size, array_namespace, device
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.discrete_gaussian import discrete_gaussian
from skriemdp._random import NoiseGenerator
from skriemdp.privacy._lattice import NOISE_SCALE, share_scale

__all__ = ["NOISE_SCALE", "draw", "expect_integers", "on_public_grid"]


def draw(
    statistic: Any,
    scale: Any,
    law: Any,
    rng: np.random.Generator,
    size: Size = (),
    *,
    sensitivity: Any,
    presence: float | None = None,
    grid: float | None = None,
    averaged: int | None = None,
    shares: int | None = None,
    sampler: Callable[..., Any] | None = None,
) -> Any:
    """`statistic` with noise of `scale`, on the public grid where the noise is a float.

    Parameters
    ----------
    statistic : array, number or callable; or tuple of arrays
        Exact, in coordinates in which the noise is isotropic.  A tuple is one release of
        several blocks; `scale`, `law` and `sensitivity` are then tuples of the same length.
    scale : float or int
        Of the noise, in the units of `statistic`.
    law : {"gaussian", "symmetric", "radial", "laplace", "discrete-gaussian", "exponential"} or str
        "symmetric" has standard deviation `scale` along every symmetric matrix of Frobenius norm
        one; "radial" has density proportional to ``exp(-|v| / scale)``;
        "discrete-gaussian" adds integers to integers; "exponential" returns an index, with
        probability proportional to ``exp(statistic / scale)``.  Another law needs its `sampler`.
    rng : numpy.random.Generator
    size : int or tuple of int, default=()
        Independent releases along leading axes.
    sensitivity : float or int
        What one record moves it by at most, as the law measures it; so ``scale / sensitivity``
        is the noise multiplier of a Gaussian release.  Blocks are bounded together: the squares of
        their moves, each over its own sensitivity, add up to at most 1.
    presence : float or int, optional
        What a record that is added or removed moves it by at most; half of `sensitivity` where
        nothing else is said and batches are drawn at random.
    grid : float, optional
        Noise scale that decides the spacing of the public grid; `scale` by default.
    averaged : int, optional
        The noise is the mean of so many draws of `scale`: as good as so many answers to one query.
        Of integers it is a `Fraction`.
        Such an answer is paid for by the releases that follow, whose sensitivity includes it.
    shares : int, optional
        Of the law "discrete-gaussian" at the usual scale: one of so many draws, in the sum of
        which they hide what one of `scale` does (:func:`skriemdp.privacy._lattice.share_scale`).
    sampler : callable, optional
        ``sampler(statistic, rng, size)`` draws from a law that is not listed.

    Returns
    -------
    array or float, or tuple of them
    """
    one = size == () and averaged is None and shares is None
    if one and type(statistic) is int and law == "discrete-gaussian":
        return statistic + int(_integers(scale, rng, (1,))[0])  # a count; a search asks many
    size = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    if isinstance(statistic, tuple):
        blocks = zip(statistic, scale, law, strict=True)
        return tuple(_noisy(block, s, kind, rng, size) for block, s, kind in blocks)
    if sampler is not None:
        return sampler(statistic, rng, size)
    if shares is not None:
        # The scale of a single share is above the usual one: its draws are Python integers.
        share = discrete_gaussian(share_scale(shares), rng, np.shape(statistic))
        return statistic + share.astype(np.int64)
    return _noisy(statistic, scale, law, rng, size, grid, averaged)


def expect_integers(rng: np.random.Generator, count: int) -> None:
    """Announce that `count` discrete Gaussian integers will be drawn: they are made at once."""
    if isinstance(rng, NoiseGenerator):
        rng.expect(count)


def _noisy(
    statistic: Any,
    scale: Any,
    law: str,
    rng: np.random.Generator,
    size: tuple[int, ...],
    grid: float | None = None,
    averaged: int | None = None,
) -> Any:
    shape = (*size, *np.shape(statistic))
    if law == "discrete-gaussian":
        draws = _integers(scale, rng, shape if averaged is None else (averaged, *shape))
        if averaged is None and _fits(statistic, scale):
            return statistic + draws
        # Python integers, so that nothing can overflow.
        draws = draws.astype(object)
        if averaged is None:
            return statistic + draws
        return statistic + draws.sum(axis=0) * Fraction(1, averaged)
    if law == "exponential":
        # The largest of independently Gumbel-perturbed scores follows the law.
        return np.argmax(statistic + scale * rng.gumbel(size=shape), axis=-1)
    if law == "gaussian":
        unit = rng.standard_normal(shape if averaged is None else (averaged, *shape))
        noise = scale * (unit if averaged is None else unit.mean(axis=0))
    elif law == "symmetric":
        unit = rng.standard_normal(shape)
        # (G + G') / 2 of independent entries: variance 1 on the diagonal, 1/2 off it.
        noise = scale * (0.5 * (unit + np.swapaxes(unit, -1, -2)))
    elif law == "laplace":
        noise = rng.laplace(scale=scale, size=shape)
    elif law == "radial":
        direction = rng.standard_normal(shape)
        length = np.linalg.norm(direction, axis=-1, keepdims=True)
        # |v| / scale has the Gamma(dim) law.
        noise = scale * rng.standard_gamma(shape[-1], size=length.shape) / length * direction
    else:
        raise PublicValueError(f"unknown law {law!r}; pass its sampler.")
    noisy = statistic + _like(noise, statistic)
    if law == "symmetric":
        noisy = 0.5 * (noisy + np.swapaxes(noisy, -1, -2))
    if averaged is not None:
        scale = scale / math.sqrt(averaged)
    return on_public_grid(noisy, scale if grid is None else grid)


def _fits(statistic: Any, scale: int) -> bool:
    """Whether `statistic`, plus noise of up to 64 scales, stays within 63 bits."""
    if getattr(statistic, "dtype", None) != np.int64 or scale > NOISE_SCALE:
        return False
    return statistic.size == 0 or int(statistic.max()) <= 2**62 and int(statistic.min()) >= -(2**62)


def _integers(scale: int, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Discrete Gaussian integers; those of the usual scale come from the generator's stock."""
    if scale == NOISE_SCALE and isinstance(rng, NoiseGenerator):
        ahead = rng.take_ahead(math.prod(shape), _usual)
        return ahead if len(shape) == 1 else ahead.reshape(shape)
    return discrete_gaussian(scale, rng, shape)


def _usual(rng: np.random.Generator, size: int) -> np.ndarray:
    return discrete_gaussian(NOISE_SCALE, rng, size)


def _like(noise: np.ndarray, statistic: Any) -> Array:
    """`noise` in the precision, library and device of a floating array `statistic`."""
    if type(statistic) is np.ndarray and statistic.dtype == np.float64:
        return noise
    if not hasattr(statistic, "dtype"):
        return noise
    xp = array_namespace(statistic)
    if not xp.isdtype(statistic.dtype, "real floating"):
        return noise
    return xp.asarray(noise, dtype=statistic.dtype, device=device(statistic))


def on_public_grid(noisy: Any, sigma: float) -> Any:
    """Round a noisy float, or an array, to multiples of a power of two that only `sigma` decides.

    The floating-point sum ``value + noise`` is a multiple of the last bit of the larger of the two,
    so its low bits say which values it can have come from: a sum close to zero with bits below
    those of a candidate value excludes that candidate (docs/sharp-edges.md).  On the grid every
    candidate reaches every point.  This is post-processing and costs no budget; it closes that
    channel, and proves nothing about the others (docs/theory/lattice.md).
    """
    # Spacing of the grid, at most this many powers of two below the noise: fine enough to add
    # nothing to the error (a relative 2**-43 of the variance), and 30 bits above the last bit of
    # the sum.
    spacing = math.ldexp(1.0, max(math.frexp(sigma)[1] - 1 - 20, -1000))
    if isinstance(noisy, float):
        return round(noisy / spacing) * spacing if math.isfinite(noisy / spacing) else noisy
    if type(noisy) is np.ndarray:
        return np.rint(noisy / spacing) * spacing
    return array_namespace(noisy).round(noisy / spacing) * spacing
