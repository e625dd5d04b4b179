"""The norm that clips gradients: public, or found at the public start; and how many it clips."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skriemdp._core.manifold_input import bounds_cure
from skriemdp._descent.problem import Problem
from skriemdp._descent.queries import GradientQuery
from skriemdp._location_scale.row_releases import (
    COUNT_SHARE,
    RowRecords,
    clipped_fraction,
    row_radii,
)
from skriemdp._location_scale.rows import Rows
from skriemdp._location_scale.search import RADIUS, LocationScaleSearch, Shares
from skriemdp._mechanisms.budget import COUNT, GaussianBudget
from skriemdp._mechanisms.units import Units

if TYPE_CHECKING:
    from skriemdp._random import NoiseStreams

# Share of mu**2 for the quantile of the gradients' norms: a convention.
_SHARE = 0.03


@dataclass(frozen=True)
class ClipNorm:
    """Finds a clip norm, or takes a public one, and counts the gradients beyond it.

    Parameters
    ----------
    n : int
    mu : float
        Gaussian differential privacy parameter of the whole fit.
    public : float or None
        None for a quantile of the norms of the gradients at the start.

    Notes
    -----
    *Guarantee*: within `share` of ``mu**2``.  Both releases are counts of records by a function of
    one record at a public point; a count moves by one when a record is replaced.
    """

    n: int
    mu: float
    public: float | None

    @property
    def share(self) -> float:
        """Share of ``mu**2`` that is spent."""
        return COUNT_SHARE + (_SHARE if self.public is None else 0.0)

    def reserve(self, budget: GaussianBudget) -> None:
        """Take from the budget of a plan all that is spent here."""
        if self.public is None:
            budget.take(_SHARE, RADIUS, 1)
        budget.take(COUNT_SHARE, COUNT, 1)

    @functools.cached_property
    def level(self) -> float:
        """Share of gradients within the norm: the highest that noisy counts can tell from all."""
        return float(np.clip(1.0 - 6.0 / (self.n * self.mu * math.sqrt(_SHARE)), 0.5, 0.9))

    def release(
        self, records: Units, budget: GaussianBudget, streams: NoiseStreams
    ) -> tuple[float, float]:
        """The clip norm, and a private estimate of the share of gradients beyond it.

        Parameters
        ----------
        records : Units
            Of :func:`gradient_norms`.
        budget : GaussianBudget
            Of the whole fit.
        streams : NoiseStreams
        """
        (norms,), clip, expected_fraction = records.arrays, self.public, 0.0
        if clip is None:
            only = Shares(0.0, 0.0, 0.0, final=_SHARE, rounds=0)
            search = LocationScaleSearch(
                self.n, 1, self.mu, only, row_radii(), center=np.zeros(1), max_level=self.level
            )
            found = search.release(RowRecords(Rows(norms, self.n, 1)), budget, streams)
            clip, expected_fraction = found.radius, 1.0 - found.level
        beyond = int(np.count_nonzero(~(norms <= clip)))
        cure = bounds_cure(clip_norm=None if self.public is None else "clip_norm='private'")
        advice = f"have gradients longer than {clip:.3g} at the start, which were shortened; {cure}"
        return clip, clipped_fraction(beyond, self.n, expected_fraction, advice, budget, streams)


def gradient_norms(problem: Problem, start: np.ndarray) -> Units:
    """Norms of all gradients at a public start, infinite where they are not finite; not private."""
    blocks = GradientQuery(problem, start).blocks()
    with np.errstate(all="ignore"):
        norms = np.concatenate([np.sqrt(np.einsum("ij,ij->i", b, b)) for b in blocks])
    return Units((np.where(np.isfinite(norms), norms, np.inf)[:, None],))
