"""Features of norm one, whatever the records are: random frequencies that are public."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp._dataclasses import dataclass
from skriemdp._groups import Groups
from skriemdp._random import public_generator
from skriemdp._validation import check_count, check_positive
from skriemdp.location_scale.rows import row_products

__all__ = ["FeatureMap"]

# Rows whose features are worked on at once; a few megabytes.
_TILE = 4096


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Random Fourier features of norm one, drawn without data.

    ``phi(x) = (cos w_j'x, sin w_j'x)_j / sqrt(n_frequencies)`` with ``w_j ~ N(0, I /
    length_scale^2)``: the inner product of two of them estimates the Gaussian kernel (Rahimi and
    Recht 2007), and ``|phi(x)| = 1`` whatever x is, so features need no bound for privacy.

    Parameters
    ----------
    n_inputs : int
    n_frequencies : int
    length_scale : float
        In units of `scale`.
    scale : float or array of shape (n_inputs,)
        Public or released scale of the inputs, which are divided by it.
    limit : float
        Scaled inputs are clipped to ``[-limit, limit]``.
    seed : int
        Public seed of the frequencies.
    center : float or array of shape (n_inputs,), default=0.0
        Public or released; it is subtracted from the inputs first.
    """

    n_inputs: int
    n_frequencies: int
    length_scale: float
    scale: float | np.ndarray
    limit: float
    seed: int
    center: float | np.ndarray = 0.0
    frequencies: np.ndarray = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_count(n_inputs=self.n_inputs, n_frequencies=self.n_frequencies)
        check_positive(length_scale=self.length_scale)
        rng = public_generator(self.seed, "random Fourier features")
        frequencies = rng.standard_normal((self.n_frequencies, self.n_inputs)).T / self.length_scale
        object.__setattr__(self, "frequencies", frequencies)

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Inputs less their centre, over their scale, clipped."""
        with np.errstate(over="ignore"):
            return np.clip((X - self.center) / self.scale, -self.limit, self.limit)

    def beyond(self, X: np.ndarray, groups: Groups | None = None) -> int:
        """Number of rows in which some input is clipped; with `groups` of people with such rows."""
        with np.errstate(over="ignore"):
            outside = np.any(np.abs((X - self.center) / self.scale) > self.limit, axis=1)
        if groups is not None:
            outside = groups.sums(np.asarray(outside)[groups.order].astype(np.intp)) > 0
        return int(np.count_nonzero(outside))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Features of shape ``(n, 2 n_frequencies)``; the same in any company, to the last bit."""
        half = self.n_frequencies
        features = np.empty((len(X), 2 * half))
        for begin in range(0, len(X), _TILE):
            rows = slice(begin, begin + _TILE)
            angles = row_products(self.scaled(X[rows]), self.frequencies)
            np.cos(angles, out=features[rows, :half])
            np.sin(angles, out=features[rows, half:])
        features *= 1.0 / math.sqrt(half)
        return features
