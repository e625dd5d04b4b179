"""A curator without records: what a program takes is what its plan holds."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from skriemdp._curator.curator import Curator, Inner, Run
from skriemdp._gives.base import Give
from skriemdp._mechanisms.bounded_sets import BoundedSet
from skriemdp._mechanisms.quantile import middle
from skriemdp._mechanisms.sum import Noisy, plain_sensitivity
from skriemdp._mechanisms.units import runs_of_neighbours
from skriemdp._mechanisms.vector import LaplaceNoise
from skriemdp.privacy._laplace import LaplaceEvent
from skriemdp.privacy._sensitivity import Sensitivity


class _Nobody:
    """A table of so many records, none of whom there is."""

    groups = None

    def __init__(self, n: float):
        self.n = self.planned = n


class Rehearsal(Curator):
    """Runs a program before its charge: shares, names, sets and refusals are those of the fit.

    Sums answer zero, quantiles what their prior likes best.  Branches take their dearest side, so
    that no fit takes more; what is then left to the last release is the least that it gets, and
    integers must be fine enough for that and for all of the budget.

    Parameters
    ----------
    n : float
        Number of records.
    opening : Gaussian, Pure or Selection
    secret : bool, default=False
        Whether their number was released.
    """

    def __init__(self, n: float, opening: Any, secret: bool = False):
        super().__init__(_Nobody(n), opening, _silent, n if secret else None)

    def whether(self, condition: Any, dearest: bool) -> bool:
        return dearest

    def _gaussian(
        self, give: Give, bound: BoundedSet, mu: float, label: tuple, rest: bool
    ) -> Noisy:
        if rest:  # or all of the budget, of which a release before may have left its share
            bound.check(self.mu)
        return super()._gaussian(give, bound, mu, label, rest)

    def _noised(
        self, give: Give, bound: BoundedSet, steps: int, rng: Any, chosen: np.ndarray | None = None
    ) -> Noisy:
        return self._vector(bound.shape, bound.sigma(steps))

    def _laplace(self, give: Give, bound: Any, law: LaplaceEvent, label: tuple) -> Noisy:
        sigma = LaplaceNoise(plain_sensitivity(bound, self._most), law).sigma
        return self._vector(bound.shape, sigma)

    def _quantile(self, give: Give, quantile: Any, label: tuple) -> float:
        grid, prior = quantile.grid, getattr(quantile, "prior", None)
        place = len(grid) // 2 if prior is None else int(np.argmax(prior))
        return middle(np.array(grid), grid[place])

    def _count(self, give: Give, bound: float, counts: Any, label: tuple) -> Noisy:
        return self._vector((), counts.sigma)

    def _point(self, ball: Any, steps: tuple, mechanism: Any, label: tuple) -> Noisy:
        return self._vector((ball.geometry.dim,), mechanism.sigma)

    def _matrix(
        self, how: str, give: Give, bound: Any, parameter: float, rank: int, label: tuple
    ) -> Any:
        return self._vector(() if how == "leading" else (bound.dim, bound.dim), 1.0)

    def _step(self, give: Give, bound: BoundedSet, steps: int, run: Run) -> Noisy:
        if run._roots:
            run._gradients.append(np.zeros((bound.shape[0], 1)))
            run._bounds.append(1.0)
        return self._vector(bound.shape, bound.sigma(steps))

    def _root(
        self, gradients: list[np.ndarray], size: Sensitivity, multiplier: float, rng: Any
    ) -> Noisy:
        rows = gradients[0].shape[0]
        return self._vector((rows, rows), size.value * multiplier)

    def _vector(self, shape: tuple[int, ...], sigma: float) -> Noisy:
        """Return zeros in place of a release with noise `sigma`."""
        return Noisy(np.zeros(shape), sigma)

    def _pairs(self, most: int) -> Any:
        return _Nobody(sum(r.stop - r.start for r in runs_of_neighbours(int(self.n) // 2, most)))

    def _part(self, chosen: np.ndarray) -> Any:
        return _Nobody(len(chosen))

    def _opened(self, table: Any, opening: Any, label: tuple) -> Curator:
        return Rehearsal(table.n, opening)

    def _selected(self, program: Inner, settings: tuple, label: tuple) -> tuple[int, float, Any]:
        answers = [
            program(self._opened(self._table, self._account.opening.each, ()), one)[1]
            for one in settings
        ]
        return 0, -math.inf, answers[0]


class _NoStreams(NamedTuple):
    """Noise that nobody draws."""


def _silent(*label: Any) -> _NoStreams:
    return _NoStreams()
