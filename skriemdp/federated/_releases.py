"""Schedules of participation, and the event that a whole run costs a record of each client."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from skriemdp._errors import PublicValueError
from skriemdp._validation import check_count, check_generator, check_option
from skriemdp.privacy._event import check_events
from skriemdp.privacy._events import (
    Event,
    FixedSizeSampledGaussianEvent,
    SelfComposedEvent,
    compose,
)
from skriemdp.privacy._events_mixed import MixtureEvent

# Binomial tail mass that is not summed term by term; it is added to delta.
_TAIL = 1e-15


@dataclass(frozen=True)
class Participation:
    """The rule by which clients take part; independent of all data.

    Parameters
    ----------
    n_clients, n_rounds, clients_per_round : int
    rule : {"schedule", "uniform"}
        "schedule": clients take turns, so everyone trains equally often (up to one round).
        "uniform": every round draws a uniform subset, as published.

    Notes
    -----
    Clients hold different records, so a record is touched only in the rounds of its client
    (parallel composition).  An adversary who sees every upload, the server for instance, knows who
    trained: sampling clients amplifies nothing at the level of a record, and the guarantee is that
    of k adaptive local trainings averaged over k, ``delta(epsilon) = E_k delta_k(epsilon)``
    (docs/theory/federated.md).  Theorem 4.2 of the paper, which claims amplification, does not hold
    for records.
    """

    n_clients: int
    n_rounds: int
    clients_per_round: int
    rule: str = "schedule"

    def __post_init__(self) -> None:
        check_count(
            n_clients=self.n_clients,
            n_rounds=self.n_rounds,
            clients_per_round=self.clients_per_round,
        )
        check_option(("schedule", "uniform"), rule=self.rule)
        if self.clients_per_round > self.n_clients:
            raise PublicValueError(
                f"clients_per_round={self.clients_per_round} exceeds the number of clients "
                f"{self.n_clients}."
            )

    @property
    def most_rounds(self) -> int:
        """Largest number of rounds in which one client of a schedule trains."""
        return math.ceil(self.n_rounds * self.clients_per_round / self.n_clients)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Client indices of each round, shape ``(n_rounds, clients_per_round)``."""
        check_generator(rng)
        if self.rule == "uniform" or self.clients_per_round == self.n_clients:
            rows = [
                np.sort(rng.choice(self.n_clients, self.clients_per_round, replace=False))
                for _ in range(self.n_rounds)
            ]
            return np.array(rows)
        order = rng.permutation(self.n_clients)
        slots = np.arange(self.n_rounds * self.clients_per_round) % self.n_clients
        return np.sort(order[slots].reshape(self.n_rounds, -1), axis=1)

    def record_event(self, local: Event, clients: int = 1) -> Event:
        """Event of the whole run for one record, given the event of one local training.

        For a person, `clients` bounds the number of clients that hold records of theirs.
        """
        check_events([local])
        if self.rule == "schedule" or self.clients_per_round == self.n_clients:
            return _repeated(local, self.most_rounds * clients)
        if clients > 1:
            raise PublicValueError(
                "how often the clients of one person train together is not known with "
                "participation='uniform'; pass participation='schedule'."
            )
        share = self.clients_per_round / self.n_clients
        law = binom(self.n_rounds, share)
        last = min(self.n_rounds, int(law.isf(_TAIL)) + 1)
        weights = law.pmf(np.arange(last + 1))
        events = [_repeated(local, k) for k in range(last + 1)]
        rest = 1.0 - math.fsum(weights)
        if last < self.n_rounds:
            # The tail counts as training in every round: never less than the truth.
            weights, rest = np.append(weights, max(rest, _TAIL)), 0.0
            events.append(_repeated(local, self.n_rounds))
        weights[-1] += max(rest, 0.0)
        return MixtureEvent(tuple(weights / math.fsum(weights)), tuple(events))

    def client_event(self, noise_multiplier: float, integers: int = 0) -> Event:
        """Event of the whole run for one client, with noise on the mean of clipped updates.

        *Guarantee*: one client's whole data set is replaced; the aggregator is trusted, only the
        points it sends out are seen, and who trained stays hidden.  Cohorts of fixed size are drawn
        uniformly, which amplifies (docs/theory/accounting.md, fixed-size sampling).
        """
        if self.rule != "uniform":
            raise PublicValueError("whole clients are protected with rule='uniform' only.")
        return FixedSizeSampledGaussianEvent(
            population=self.n_clients,
            batch_size=self.clients_per_round,
            noise_multiplier=noise_multiplier,
            count=self.n_rounds,
            integers=integers,
        )


def _repeated(event: Event, count: int) -> Event:
    return compose([SelfComposedEvent(event, count)] if count else [])
