"""Rounds that somebody else runs: charged to a ledger before anything leaves, and one update.

The core of the doors to other federations; it knows none of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._mechanisms.bounded_sets import VectorSet, ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import Release
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._random import NoiseStreams
from skriemdp._validation import check_positive, check_scale, plain_numbers
from skriemdp.ledger._accountant import BudgetExceededError, PrivacyAccountant
from skriemdp.privacy._events import Event, GaussianEvent, compose, event_from_dict

# Entry of the ledger for an update that leaves the client.
_RELEASES = (Release("updates of clients", 1.0, "gaussian"),)


class RoundBudget:
    """The rounds of a federation, each charged to a ledger before anything of it leaves.

    Parameters
    ----------
    budget : PrivacyAccountant
        With a ceiling and delta > 0; its unit may be "client".
    label : str
        Of its charges in the ledger.
    host : str
        Whose rounds these are, in the words of an error.

    Raises
    ------
    ValueError
        The budget has no ceiling, or delta=0.
    """

    def __init__(self, budget: PrivacyAccountant, label: str, host: str):
        if not isinstance(budget, PrivacyAccountant):
            raise PublicTypeError(
                f"budget must be a PrivacyAccountant, got {type(budget).__name__}."
            )
        if not math.isfinite(budget.epsilon) or budget.delta == 0.0:
            raise PublicValueError(
                f"budget must have a ceiling and delta > 0, because {host} asks before a round "
                "only where there is a limit; make it with epsilon= and delta=."
            )
        self.budget, self.label = budget, label
        # Charged rounds that have not been confirmed.
        self._pending: Counter[Hashable] = Counter()

    def charge(self, event: Event, count: int, facts: dict[str, Any]) -> None:
        """Charge `count` rounds that cost `event` together.

        Raises
        ------
        BudgetExceededError
            The ceiling would be passed; nothing is charged.
        """
        params = {"unit": "client", "rounds": count}
        stated = facts | {"releases": _RELEASES}
        self.budget.spend(event, label=self.label, params=params, facts=stated)

    def total(self, *more: Event) -> Event:
        """Everything charged to the budget, as if its list had been fixed in advance."""
        return compose([*(event_from_dict(entry.event) for entry in self.budget.history), *more])

    @property
    def confirmed(self) -> int:
        """Rounds charged to the budget by any process, but for those this one may still confirm."""
        charged = [e.params["rounds"] for e in self.budget.history if self.label == e.label]
        return sum(charged) - self._pending.total()

    def would_exceed(
        self,
        round_: Hashable,
        event_of: Callable[[int], Event],
        count: int,
        facts: dict[str, Any],
        max_epsilon: float | None = None,
    ) -> bool:
        """Charge `count` rounds; True, and nothing charged, where there is no room.

        Rounds that were charged before and never confirmed are not charged again.

        Parameters
        ----------
        round_ : hashable
            Equal for rounds of one kind.
        event_of : callable
            ``event_of(count)``: what so many of them cost.
        count : int
        facts : dict
            For the ledger.
        max_epsilon : float, optional
            A limit below the budget's ceiling, for the total of all charges with this one.
        """
        missing = count - self._pending[round_]
        if missing <= 0:
            return False
        if max_epsilon is not None:
            check_positive(max_epsilon=max_epsilon)
            if self.total(event_of(missing)).epsilon(self.budget.delta) > max_epsilon:
                return True
        try:
            self.charge(event_of(missing), missing, facts)
        except BudgetExceededError:
            return True
        self._pending[round_] += missing
        return False

    def confirm(
        self,
        round_: Hashable,
        event_of: Callable[[int], Event],
        count: int,
        facts: dict[str, Any],
    ) -> None:
        """Confirm charged rounds; those that were not charged are charged now.

        Raises
        ------
        BudgetExceededError
            There was no charge, and the ceiling would be passed: they must not be released.
        """
        confirmed = min(count, self._pending[round_])
        if count > confirmed:
            self.charge(event_of(count - confirmed), count - confirmed, facts)
        self._pending[round_] -= confirmed

    def send(self, update: UpdateRelease, numbers: np.ndarray) -> np.ndarray:
        """Charge the round, then return a client's update clipped and with noise.

        Parameters
        ----------
        update : UpdateRelease
        numbers : ndarray of shape (size,)
            Of the update.

        Returns
        -------
        ndarray of shape (size,)

        Raises
        ------
        BudgetExceededError
            The ceiling would be passed; nothing is charged or drawn.
        ValueError
            Integers would be too coarse; nothing is charged or drawn.
        """
        update.bounded_set(len(numbers))
        self.charge(update.event(), 1, {"clip_norm": update.clip_norm, "size": len(numbers)})
        return update.release(numbers, NoiseStreams())


@dataclass(frozen=True)
class UpdateRelease:
    """A client's update: clipped to `clip_norm`, with exact discrete Gaussian noise.

    Parameters
    ----------
    clip_norm : float
        Public bound of the Euclidean norm of all numbers of an update together.
    mu : float
        Gaussian differential privacy parameter of one update.

    Notes
    -----
    *Guarantee*: mu-GDP under the replacement of all records of the client, which moves an update
    within a ball of radius `clip_norm` (docs/theory/sensitivity.md).
    """

    clip_norm: float
    mu: float

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_scale(clip_norm=self.clip_norm)
        check_positive(mu=self.mu)

    def event(self, count: int = 1) -> Event:
        """Event of `count` updates."""
        return GaussianEvent(1.0 / self.mu, count=count)

    def bounded_set(self, size: int) -> VectorSet:
        """The set of updates of so many numbers; ValueError where integers would be too coarse."""
        bounded_set = ball(Ball(self.clip_norm), size)
        bounded_set.check(self.mu)
        return bounded_set

    def release(self, update: np.ndarray, streams: NoiseStreams) -> np.ndarray:
        """The update with noise, shape ``(size,)``; numbers that are not finite count as none."""
        bounded_set = self.bounded_set(len(update))
        rows = Units((np.asarray(update, dtype=float)[None],))
        return private_sum(rows, lambda row: row, bounded_set, self.mu, streams("update")).value
