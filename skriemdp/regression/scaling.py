"""Centre and scale of a regression's features: public, or found privately."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from skriemdp._dataclasses import dataclass
from skriemdp._groups import Groups
from skriemdp._warnings import warn_user
from skriemdp.location_scale.bounded_rows import COUNT_SHARE, RowBounds, clipped_fraction
from skriemdp.mechanisms.budget import COUNT, GaussianBudget
from skriemdp.regression.features import FeatureMap

__all__ = ["ADVICE", "FeatureScaling"]

ADVICE = (
    "have a feature beyond {limit:g} times feature_scale and were clipped; choose feature_scale "
    "from public knowledge of the data, or pass feature_scale='private'."
)
_WARN = 0.2


@dataclass(frozen=True, eq=False)
class FeatureScaling:
    """How features are brought to scale one.

    Parameters
    ----------
    auto : bool
        Whether the centre and the scale have to be found.
    public : bool
        Whether the features are public, so that they are what their own moments say.
    bounds : RowBounds
        The search for those of private features.

    Notes
    -----
    *Guarantee*: that of :class:`skriemdp.location_scale.bounded_rows.RowBounds`, and a count, which
    moves by one, within `share` of the fit's ``mu**2``.  Nothing for public features.
    """

    auto: bool
    public: bool
    bounds: RowBounds

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

    def release(
        self,
        X: np.ndarray,
        features: FeatureMap,
        budget: GaussianBudget,
        streams: Any,
        groups: Groups | None = None,
    ) -> FeatureMap:
        """`features` with the centre and the scale of the rows X, which may belong to `groups`."""
        if not self.auto:
            return features
        if self.public:
            center, scale = X.mean(axis=0), X.std(axis=0)
            usable = np.isfinite(center) & np.isfinite(scale) & (scale > 1e-100)
            return dataclasses.replace(
                features, center=np.where(usable, center, 0.0), scale=np.where(usable, scale, 1.0)
            )
        place = self.bounds.release(X, budget, streams, groups)
        scale = place.norm / math.sqrt(X.shape[1])
        return dataclasses.replace(features, center=place.center, scale=scale)

    def clipped(
        self,
        X: np.ndarray,
        features: FeatureMap,
        budget: GaussianBudget,
        streams: Any,
        groups: Groups | None = None,
    ) -> float:
        """Share of records that the limit of the features changes; noisy if they are private."""
        beyond, advice = features.beyond(X, groups), ADVICE.format(limit=features.limit)
        if not self.public:
            return clipped_fraction(beyond, self.bounds.n, 0.0, advice, budget, streams)
        if beyond > _WARN * len(X):
            warn_user(f"{beyond / len(X):.0%} of the rows {advice}")
        return beyond / len(X)
