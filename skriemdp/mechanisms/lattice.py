"""Sums and counts in exact integers with discrete Gaussian noise: no floating point to trust."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from skriemdp._validation import check_count, check_positive
from skriemdp.geometry._tiles import tiles
from skriemdp.mechanisms import noise
from skriemdp.privacy.events import GaussianEvent
from skriemdp.privacy.lattice import lattice_scale

__all__ = ["LatticeCount", "LatticeSum", "lattice_log_mean"]

# The noise has about 2^40 lattice units: rounding the records to the lattice and the sensitivity up
# to it then cost nothing that could be measured, and every integer is exact in a float64.
_NOISE_BITS = 40
# Rounding moves a record by at most sqrt(dim) / 2 units; its share of the bound stays below this.
_ROUNDING_SHARE = 0.01
_UNIT_ROUNDOFF = 2.0**-52
_LONGEST_SUM = 2**62


@dataclasses.dataclass(frozen=True)
class LatticeSum:
    """Sum of one bounded vector per record, in integer multiples of a public power of two.

    Each record's vector is divided by :attr:`spacing`, shortened to the bound, and rounded to
    integers; these are added without error, and discrete Gaussian integers with them.

    Parameters
    ----------
    dim : int
        Length of the vectors.
    bound : float
        Public; longer vectors are shortened to this Euclidean norm.
    noise_multiplier : float
        Standard deviation of the noise on every coordinate of the sum over ``2 * bound``, the
        replace-one sensitivity.

    Raises
    ------
    ValueError
        When the noise is so large, or `bound` so small, that the lattice would be too coarse.

    Notes
    -----
    *Guarantee*: ``1 / noise_multiplier``-GDP under replacement of one record, n public, whatever
    rounding errors the vectors have, as long as a record's computed vector does not depend on other
    records (docs/theory/lattice.md).  No geometry, no summation order and no mathematical library
    is trusted: what is bounded is the integer vector that is added.

    *Edge cases*: vectors that are not finite, or whose squared norm is not, count as zero.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = LatticeSum(dim=3, bound=1.0, noise_multiplier=4.0)
    >>> mechanism.event.mu, round(mechanism.sigma, 6)
    (0.25, 8.0)
    >>> mechanism.release([np.zeros((100, 3))], np.random.default_rng(0)).shape
    (3,)
    """

    dim: int
    bound: float
    noise_multiplier: float

    def __post_init__(self):
        check_count(dim=self.dim)
        check_positive(bound=self.bound, noise_multiplier=self.noise_multiplier)
        _check_multiplier(self.noise_multiplier)
        if not 1e-250 < self.bound < 1e250:
            raise ValueError(
                f"bound={self.bound} is out of range for lattice arithmetic; rescale the records."
            )
        if 0.5 * math.sqrt(self.dim) > _ROUNDING_SHARE * self.units:
            raise ValueError(
                f"noise_multiplier={self.noise_multiplier:.4g} in dimension {self.dim} leaves "
                "fewer lattice points per record than rounding needs; use a larger epsilon or "
                "arithmetic='float'."
            )

    @property
    def spacing(self) -> float:
        """Distance of neighbouring lattice points, a power of two; public."""
        exponent = math.frexp(2.0 * self.bound * self.noise_multiplier)[1] - 1
        return math.ldexp(1.0, exponent - _NOISE_BITS)

    @property
    def units(self) -> int:
        """Bound of the length of a record's integer vector."""
        # `bound` in lattice units, with room for the error of a computed norm (2 dim roundings are
        # far more than there are), and the rounding of every coordinate by at most one half.
        longest = self.bound / self.spacing * (1.0 + (2 * self.dim + 16) * _UNIT_ROUNDOFF)
        return math.ceil(longest) + math.isqrt(self.dim) // 2 + 2

    @functools.cached_property
    def scale(self) -> int:
        """Parameter of the discrete Gaussian noise, in lattice units."""
        return lattice_scale(2 * self.units, self.noise_multiplier)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on every coordinate of the sum."""
        return self.scale * self.spacing

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(self.noise_multiplier)

    def integers(self, vectors):
        """The integer vector of each record, int64 of shape (n, dim), no longer than `units`.

        Parameters
        ----------
        vectors : ndarray of shape (n, dim)
            Row i a function of record i and public numbers only.
        """
        with np.errstate(all="ignore"):
            x = np.asarray(vectors, dtype=float) / self.spacing
            norm = np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
            longest = self.bound / self.spacing
            x = x * (longest / np.maximum(norm, longest))
            x = np.where(np.isfinite(norm), x, 0.0)
        return np.rint(x).astype(np.int64)

    def release(self, blocks, rng, size=()):
        """Noisy sum.

        Parameters
        ----------
        blocks : iterable of ndarray of shape (b, dim)
            The records' vectors, in blocks.
        rng : numpy.random.Generator
        size : int or tuple of int, default=()
            Independent releases along leading axes, each of which costs one `event`.

        Returns
        -------
        ndarray of float64, shape ``(*size, dim)``
        """
        total = np.zeros(self.dim, dtype=object)
        for block in blocks:
            total = total + self._exact_sum(self.integers(block))
        bound, law = 2 * self.units, "discrete-gaussian"
        noisy = noise.draw(total, self.scale, law, rng, size, sensitivity=bound)
        return noisy.astype(float) * self.spacing  # post-processing

    def _exact_sum(self, integers):
        rows = max(_LONGEST_SUM // self.units, 1)
        total = np.zeros(self.dim, dtype=object)
        for begin in range(0, len(integers), rows):
            total = total + integers[begin : begin + rows].sum(axis=0).astype(object)
        return total


def lattice_log_mean(geometry, point, records, radius, noise_multiplier, rng):
    """Mean of ``log(point, record)``, each shortened to norm `radius`, plus noise.

    Parameters
    ----------
    geometry : Geometry
    point : ndarray of shape ``geometry.shape``
        Public or already released.
    records : ndarray of shape ``(n, *geometry.shape)``
    radius, noise_multiplier : float
        As `bound` and `noise_multiplier` of :class:`LatticeSum`, whose guarantee this has.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape ``geometry.shape``
        A tangent vector at `point`.
    """
    mechanism = LatticeSum(geometry.dim, radius, noise_multiplier)
    blocks = (np.asarray(geometry.log_coordinates(point, block)) for block in tiles(records))
    total = mechanism.release(blocks, rng)
    return geometry.tangent_from_coordinates(point, total / len(records))


@dataclasses.dataclass(frozen=True)
class LatticeCount:
    """A count of records plus discrete Gaussian noise, on a lattice much finer than one record.

    *Guarantee*: ``1 / noise_multiplier``-GDP; replacing a record moves a count by at most one, and
    nothing is computed in floating point before the noise is in (docs/theory/lattice.md).
    """

    noise_multiplier: float

    def __post_init__(self):
        check_positive(noise_multiplier=self.noise_multiplier)
        _check_multiplier(self.noise_multiplier)

    @property
    def _units(self) -> int:
        """Lattice points per record, a power of two."""
        return 2 ** (_NOISE_BITS - max(math.frexp(self.noise_multiplier)[1] - 1, 0))

    @functools.cached_property
    def scale(self) -> int:
        """Parameter of the discrete Gaussian noise, in lattice units."""
        return lattice_scale(self._units, self.noise_multiplier)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in records."""
        return self.scale / self._units

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(self.noise_multiplier)

    def release(self, count, rng, size=()):
        """The integer `count` plus noise; with `size`, that many independent releases."""
        exact, law = int(count) * self._units, "discrete-gaussian"
        noisy = noise.draw(exact, self.scale, law, rng, size, sensitivity=self._units)
        noisy = np.asarray(noisy).astype(float) / self._units
        return float(noisy) if size == () else noisy


def _check_multiplier(noise_multiplier):
    # Below, records would need more than the 53 bits that their floats have.
    if not 2.0**-10 < noise_multiplier < 2.0**_NOISE_BITS:
        raise ValueError(
            f"noise_multiplier={noise_multiplier:.4g} is out of range for lattice arithmetic; use "
            "arithmetic='float'."
        )
