"""Public sets that hold each record's vector, and the projections that keep it there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skriemdp._arrays import row_squares
from skriemdp._errors import PublicValueError
from skriemdp._validation import plain_numbers

__all__ = ["Ball", "lifted", "matrix_norms", "short_factors", "clip_norms"]

# Squares of numbers in this range, and their sums, are ordinary floats.
_LEAST, _MOST = 1e-140, 1e140
_LARGEST = np.finfo(float).max


@dataclass(frozen=True, eq=False)
class Ball:
    """Vectors within `radius` of a public `center`; what is summed is their offset from it.

    Parameters
    ----------
    radius : float
    center : ndarray of shape (dim,), optional
        Zero by default.
    norm : float, default=inf
        Rows are first clipped to this norm, for what is known of shortened rows.

    Notes
    -----
    A row that is not finite, or whose squared norm is not, counts as the centre: one record must
    not be able to spoil a sum.
    """

    radius: float
    center: np.ndarray | None = None
    norm: float = math.inf

    def __post_init__(self) -> None:
        plain_numbers(self)
        if not _LEAST <= self.radius <= _MOST and self.radius != math.inf:
            raise PublicValueError(
                f"radius={self.radius!r} is out of the range [{_LEAST:g}, {_MOST:g}] in which "
                "squares of floats neither vanish nor overflow; rescale the records."
            )

    @property
    def is_bounded(self) -> bool:
        """Whether the ball bounds anything: without a finite radius there is no release."""
        return math.isfinite(self.radius)

    def clipped(self, norm: float) -> Ball:
        """A ball that holds every vector of this one after it was clipped to `norm`.

        Shortening is 1-Lipschitz and moves no vector out of the ball of radius `norm` about zero;
        the smaller of the two balls that are known is taken.
        """
        if norm <= self.radius:
            return Ball(norm)
        if self.center is None:
            return self
        if norm == math.inf:
            return self
        length = math.sqrt(self.center @ self.center)
        return Ball(self.radius, self.center * (norm / max(length, norm)), norm)

    def enforce(self, rows: np.ndarray, unit: float | None = None) -> np.ndarray:
        """Offsets from the centre, no longer than the radius.

        Parameters
        ----------
        rows : ndarray of shape (b, dim)
            In orthonormal coordinates; row i depends on record i and public numbers only.
        unit : float, optional
            What they are divided by; they are then no longer than ``radius / unit``, and always a
            new array.

        Returns
        -------
        ndarray of shape (b, dim)
        """
        with np.errstate(all="ignore"):
            if self.norm != math.inf:
                rows = clip_norms(rows, self.norm)
            offsets = rows if self.center is None else rows - self.center
            return clip_norms(offsets, self.radius, unit)


def lifted(rows: np.ndarray, norm: float, end: float) -> np.ndarray:
    """Rows clipped to `norm`, and one coordinate more, `end` for all of them."""
    return np.concatenate([clip_norms(rows, norm), np.full((len(rows), 1), end)], axis=1)


def clip_norms(rows: np.ndarray, norm: float, unit: float | None = None) -> np.ndarray:
    """Rows scaled to Euclidean norm <= `norm`; zero where a row has no finite square.

    With `unit` they are then divided by it, and always a new array.
    """
    with np.errstate(all="ignore"):
        squares, inverse = row_squares(rows), 1.0 if unit is None else 1.0 / unit
        norm = min(norm, _LARGEST)
        long = (~(squares <= min(norm * norm, _LARGEST))).nonzero()[0]
        if not len(long):
            return rows if unit is None else rows * inverse
        # One number for all rows takes half the time, and the factor of a short row is that number.
        few = 8 * len(long) <= len(rows)
        factors = norm / np.maximum(np.sqrt(squares[long] if few else squares), norm) * inverse
        scaled = rows * (inverse if few else factors[:, None])
        if few:
            scaled[long] = rows[long] * factors[:, None]
        scaled[long[~np.isfinite(squares[long])]] = 0.0
        return scaled


def short_factors(factors: np.ndarray) -> np.ndarray:
    """Factors L of the same matrices ``L' L``, with no more rows than columns."""
    if factors.shape[1] <= factors.shape[2]:
        return factors
    with np.errstate(all="ignore"):
        return np.asarray(np.linalg.qr(factors, mode="r"))


def matrix_norms(factors: np.ndarray) -> np.ndarray:
    """Frobenius norms of ``L' L`` for each of the `factors` L, shape (b, rows, dim).

    From the smaller Gram matrix of the two; infinite where it is not finite.  One product for each
    factor, so that none has a bit in common with another.
    """
    with np.errstate(all="ignore"):
        turned = factors.transpose(0, 2, 1)
        small = factors.shape[1] <= factors.shape[2]
        gram = np.matmul(factors, turned) if small else np.matmul(turned, factors)
        largest = np.einsum("bii->bi", gram).max(axis=1)  # of all entries: they are semidefinite
        scaled = gram / np.where(largest > 0.0, largest, 1.0)[:, None, None]
        norms = largest * np.sqrt(np.einsum("bij,bij->b", scaled, scaled))
    return np.where(np.isfinite(norms), norms, np.inf)
