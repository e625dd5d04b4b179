"""Releases of a search: noisy scores of its runs, one of which is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skriemdp._mechanisms.bounded_sets import VectorSet, ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._mechanisms.sum import plain_sum, private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._mechanisms.vector import LaplaceNoise
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import ParallelEvent, SelectionEvent
from skriemdp.privacy._laplace import LaplaceEvent, laplace_law


@dataclass(frozen=True)
class Scores:
    """A search's runs and their scores: minus the mean of clipped losses, with noise.

    Parameters
    ----------
    event : SelectionEvent
        The whole search.
    scoring : Event
        What a score costs, next to the fit of its run.
    loss_bound : float
        Losses lie in [0, loss_bound].

    Notes
    -----
    *Guarantee*: `event`, for a record that is in a fit or in a score.
    """

    event: SelectionEvent
    scoring: Event
    loss_bound: float

    @classmethod
    def planned(
        cls, fits: list[Event], runs: float, loss_bound: float, delta: float, composes: bool
    ) -> Scores:
        """The whole search, and what a score costs: a record is in a fit, or in a score.

        Gaussian fits pay for scores of their own mu.  Next to other laws the noise of a score is
        calibrated to the fits' epsilon at the search's delta: Laplace, which is smaller, unless
        Gaussian noise makes the whole search cheaper, or the ledger `composes` releases.
        """
        distinct = tuple(dict.fromkeys(fits))
        mus = [event.mu for event in distinct if event.mu is not None]
        if len(mus) == len(distinct):
            run = GaussianBudget(max(mus)).event
            return cls(_search(run, runs), run, loss_bound)
        # Where delta alone covers a fit, any small epsilon will do.
        epsilon = max(1e-3, *(event.epsilon(delta) for event in distinct))
        laplace = laplace_law(1, epsilon, delta)
        gaussian = GaussianBudget(gaussian_mu(epsilon, delta)).event
        by_laplace, by_gaussian = (
            _search(ParallelEvent((*distinct, score)), runs) for score in (laplace, gaussian)
        )
        # Where it costs at most 2 % more, Laplace noise halves the error of scores.
        cheap = by_laplace.epsilon(delta) <= 1.02 * by_gaussian.epsilon(delta)
        if cheap and not composes:
            return cls(by_laplace, laplace, loss_bound)
        return cls(by_gaussian, gaussian, loss_bound)

    @property
    def bounded_set(self) -> VectorSet:
        """Losses, in an interval about half of their bound."""
        half = 0.5 * float(self.loss_bound)
        return ball(Ball(half, np.array([half])), 1)

    def scorer(self, n: int, rng: np.random.Generator) -> Callable[[np.ndarray], float]:
        """``score(losses)`` of n records: minus their mean, released."""

        def score(losses: np.ndarray) -> float:
            records = Units((losses[:, None],)), lambda rows: rows, self.bounded_set
            if isinstance(self.scoring, LaplaceEvent):
                total, sensitivity = plain_sum(*records, n)
                noisy = LaplaceNoise(sensitivity, self.scoring).release(total, rng)
            else:
                assert self.scoring.mu is not None  # scores have no other noise
                noisy = private_sum(*records, self.scoring.mu, rng).value
            return float(-0.5 * self.loss_bound - noisy[0] / n)

        return score


def _search(run: Event, runs: float) -> SelectionEvent:
    """A search of so many runs in the mean, by the logarithmic law."""
    return SelectionEvent(run, runs, shape=0.0)
