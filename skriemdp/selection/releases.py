"""What a search releases: noisy scores of its runs, of which one is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from skriemdp._config import get_config
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.budget import GaussianBudget
from skriemdp.mechanisms.integers import IntegerBall
from skriemdp.mechanisms.sums import release_rows
from skriemdp.mechanisms.vector import GaussianNoise, LaplaceNoise
from skriemdp.privacy.calibration import gaussian_mu
from skriemdp.privacy.event import Event
from skriemdp.privacy.events import ParallelEvent, SelectionEvent
from skriemdp.privacy.laplace import LaplaceEvent, laplace_law
from skriemdp.privacy.sensitivity import (
    Sensitivity,
    computed_sum_sensitivity,
    interval_sensitivity,
    mean_sensitivity,
)

__all__ = ["Scores"]

# Laplace noise halves the error of scores; that much more may the search cost for it.
_MORE = 1.02


@dataclasses.dataclass(frozen=True)
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
    exact : bool, default=False
        Add integers, and discrete Gaussian integers to them.

    Notes
    -----
    *Guarantee*: `event`, for a record that is in a fit or in a score.
    """

    event: SelectionEvent
    scoring: Event
    loss_bound: float
    exact: bool = False

    @classmethod
    def planned(
        cls,
        fits: list[Event],
        runs: float,
        loss_bound: float,
        delta: float,
        composes: bool,
    ) -> Scores:
        """The whole search, and what a score costs: a record is in a fit, or in a score.

        Gaussian fits pay for scores of their own mu.  Next to other laws the noise of a score is
        calibrated to the fits' epsilon at the search's delta: Laplace, which is smaller, unless
        Gaussian noise makes the whole search cheaper, the ledger `composes` releases, or integers
        were asked for.
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
        cheap = by_laplace.epsilon(delta) <= _MORE * by_gaussian.epsilon(delta)
        if cheap and not composes and get_config()["arithmetic"] != "lattice":
            return cls(by_laplace, laplace, loss_bound)
        return cls(by_gaussian, gaussian, loss_bound)

    @property
    def lattice(self) -> IntegerBall:
        """The integers of losses, which lie in an interval about half of their bound."""
        assert self.scoring.mu is not None
        half = 0.5 * float(self.loss_bound)
        return IntegerBall(Ball(half, np.array([half])), 1, 1.0 / self.scoring.mu)

    def scorer(self, n: int, rng: np.random.Generator) -> Callable[[np.ndarray], float]:
        """``score(losses)`` of n records: minus their mean, released."""
        if self.exact:
            lattice = self.lattice

            def score(losses: np.ndarray) -> float:
                (noisy,) = release_rows(lattice, losses[:, None], rng)
                return float(-0.5 * self.loss_bound - noisy / n)

            return score
        total = computed_sum_sensitivity(
            interval_sensitivity(self.loss_bound), self.loss_bound, n, 1
        )
        noise = self._noise(mean_sensitivity(total, n))
        return lambda losses: float(noise.release(-np.mean(losses, keepdims=True), rng)[0])

    def _noise(self, sensitivity: Sensitivity) -> GaussianNoise | LaplaceNoise:
        if isinstance(self.scoring, LaplaceEvent):
            return LaplaceNoise(sensitivity, self.scoring)
        assert self.scoring.mu is not None  # scores have no other noise
        return GaussianNoise(sensitivity, 1.0 / self.scoring.mu)


def _search(run: Event, runs: float) -> SelectionEvent:
    """A search of so many runs in the mean, by the logarithmic law."""
    return SelectionEvent(run, runs, shape=0.0)
