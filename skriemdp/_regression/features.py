"""Features of norm one, whatever the records are, and where these lie."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skriemdp._location_scale.row_releases import COUNT_SHARE, RowBounds, clipped_fraction
from skriemdp._location_scale.rows import row_products
from skriemdp._mechanisms.budget import COUNT, GaussianBudget
from skriemdp._mechanisms.units import Units
from skriemdp._random import public_generator
from skriemdp._validation import check_count, check_positive
from skriemdp._warnings import warn_user

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams

# Rows whose features are worked on at once; a few megabytes.
_TILE = 4096
ADVICE = (
    "have a feature beyond {limit:g} times feature_scale and were clipped; choose feature_scale "
    "from public knowledge of the data, or pass feature_scale='private'."
)


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
        return np.clip(self._units(X), -self.limit, self.limit)

    def _units(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return (X - self.center) / self.scale

    def count_clipped(self, records: Units) -> int:
        """Number of rows in which some input is clipped, or of people with such rows."""
        outside = np.any(np.abs(self._units(records.arrays[0])) > self.limit, axis=1)
        if (groups := records.groups) is not None:
            outside = groups.sums(np.asarray(outside)[groups.order].astype(np.intp)) > 0
        return int(np.count_nonzero(outside))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Features of shape ``(n, 2 n_frequencies)``; bitwise the same in any batch."""
        half = self.n_frequencies
        features = np.empty((len(X), 2 * half))
        for begin in range(0, len(X), _TILE):
            rows = slice(begin, begin + _TILE)
            angles = row_products(self.scaled(X[rows]), self.frequencies)
            np.cos(angles, out=features[rows, :half])
            np.sin(angles, out=features[rows, half:])
        features *= 1.0 / math.sqrt(half)
        return features


@dataclass(frozen=True, eq=False)
class FeatureScaling:
    """Rule that brings features to scale one.

    Parameters
    ----------
    auto : bool
        Whether the centre and the scale have to be found.
    public : bool
        Whether the features are public, so that they are what their own moments say.
    bounds : RowBounds
        The search for those of private features.
    features : FeatureMap
        With placeholders for what has to be found.

    Notes
    -----
    *Guarantee*: that of :class:`skriemdp._location_scale.row_releases.RowBounds`, and a count,
    which moves by one, within `share` of the fit's ``mu**2``.  Nothing for public features.
    """

    auto: bool
    public: bool
    bounds: RowBounds
    features: FeatureMap

    @property
    def searches(self) -> bool:
        """Whether centre and scale are found privately."""
        return self.auto and not self.public

    @property
    def share(self) -> float:
        """The most that is spent of ``mu**2``."""
        count = 0.0 if self.public else COUNT_SHARE
        return count + (self.bounds.share if self.searches else 0.0)

    def reserve(self, budget: GaussianBudget) -> None:
        """Take from the budget of a plan all that may be spent here."""
        if self.searches:
            self.bounds.reserve(budget)
        if not self.public:
            budget.take(COUNT_SHARE, COUNT, 1)

    def release(self, records: Units, budget: GaussianBudget, streams: NoiseStreams) -> FeatureMap:
        """The features with the centre and the scale of the rows."""
        (X,), features = records.arrays, self.features
        if not self.auto:
            return features
        if self.public:
            center, scale = X.mean(axis=0), X.std(axis=0)
            usable = np.isfinite(center) & np.isfinite(scale) & (scale > 1e-100)
            return dataclasses.replace(
                features, center=np.where(usable, center, 0.0), scale=np.where(usable, scale, 1.0)
            )
        place, _ = self.bounds.release(records, budget, streams)
        scale = place.norm / math.sqrt(X.shape[1])
        if place.columns is not None:
            scale = scale * place.columns.scale
        return dataclasses.replace(features, center=place.center, scale=scale)

    def clipped(
        self, records: Units, features: FeatureMap, budget: GaussianBudget, streams: NoiseStreams
    ) -> float:
        """Share of records that the limit of the features changes; noisy if they are private."""
        beyond, n = features.count_clipped(records), len(records.arrays[0])
        advice = ADVICE.format(limit=features.limit)
        if not self.public:
            return clipped_fraction(beyond, self.bounds.n, 0.0, advice, budget, streams)
        if beyond > 0.2 * n:
            warn_user(f"{beyond / n:.0%} of the rows {advice}")
        return beyond / n
