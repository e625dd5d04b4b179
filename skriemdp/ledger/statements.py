"""What an accountant says: entries of its ledger, totals, what remains, and refusals."""

from __future__ import annotations

import dataclasses
import math

from skriemdp.ledger.storage import BudgetError

__all__ = ["BudgetExceededError", "LedgerTotal", "Remaining", "Spend", "round_down", "round_up"]


class BudgetExceededError(BudgetError):
    """The spend would pass the ceiling; nothing was charged and nothing was released.

    Attributes
    ----------
    remaining : Remaining
        What the ledger would still admit.
    """

    def __init__(self, message: str, remaining: Remaining | None = None):
        super().__init__(message)
        self.remaining = remaining

    def __reduce__(self):
        return type(self), (self.args[0], self.remaining)


@dataclasses.dataclass(frozen=True)
class Spend:
    """One charge, as the ledger holds it.

    Attributes
    ----------
    entry : int
        Number in the ledger, increasing in the order of charging.
    time : str
        ISO 8601, UTC.
    dataset, partition : str
        What was charged; ``partition=""`` is the whole data set.
    label : str
        Who charged: the estimator's class name.
    params : dict
        Public parameters that the estimator noted.
    event : dict
        The event in plain data (:func:`skriemdp.privacy.events.event_from_dict` revives it).
    """

    entry: int
    time: str
    dataset: str
    partition: str
    label: str
    params: dict
    event: dict


@dataclasses.dataclass(frozen=True)
class LedgerTotal:
    """The tight total of the entries; unpacks as ``epsilon, delta = accountant.spent``.

    It states: everything charged so far is jointly (epsilon, delta)-private **if this list of
    charges had been fixed in advance** (a grid, folds, a script).  The promise that holds for
    choices made after seeing results is the ceiling's, enforced by the filter.

    Attributes
    ----------
    epsilon, delta : float
        By composition of privacy loss distributions, rounded up; the worst partition's.
    n_entries : int
        Number of charges.
    """

    epsilon: float
    delta: float
    n_entries: int

    def __iter__(self):
        yield self.epsilon
        yield self.delta


@dataclasses.dataclass(frozen=True)
class Remaining:
    """What the filter would still admit, rounded down.

    Attributes
    ----------
    filter : str
        The stored rule these numbers speak of.
    epsilon : float
        Largest epsilon that one more Gaussian fit at the ledger's delta may ask.
    mu : float
        The same as a Gaussian mu.
    pure_epsilon : float
        An epsilon that one more pure (delta = 0) fit may surely ask; the filter may admit more.
    room : dict
        What is left in the filter's own units.
    """

    filter: str
    epsilon: float
    mu: float
    pure_epsilon: float
    room: dict = dataclasses.field(default_factory=dict)

    def __str__(self):
        if math.isinf(self.epsilon):
            return f"no ceiling [{self.filter}]"
        room = ", ".join(f"{name} {value:.6g}" for name, value in self.room.items())
        return (
            f"a Gaussian fit of epsilon <= {round_down(self.epsilon)} or a pure fit of epsilon <= "
            f"{round_down(self.pure_epsilon)} [{self.filter}; left: {room}]"
        )


def round_up(value: float) -> str:
    """Four digits, never below the value."""
    return f"{math.ceil(value * 1e4) / 1e4:.4f}" if math.isfinite(value) else "inf"


def round_down(value: float) -> str:
    """Four digits, never above the value."""
    # The factor keeps an untouched 0.3 from printing as 0.2999.
    return f"{math.floor(value * 1e4 * (1 + 1e-12)) / 1e4:.4f}"
