"""Which fits are refused where integers were asked for, and what local steps of clients add."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from skriemdp._config import get_config
from skriemdp.mechanisms.integers import check_integers
from skriemdp.privacy.event import Event
from skriemdp.privacy.lattice import check_distance

__all__ = [
    "check_arithmetic",
    "chooses_integers",
    "descends_in_integers",
    "draws_dominate",
]

# A draw of integer noise takes as long as adding an entry of a few records.  Above this many
# entries, and below this many records per entry, a step in integers may take more than 1.5 times as
# long as one in floats (benchmarks/lattice.py).
_FEW_ENTRIES, _RECORDS_PER_ENTRY = 1000, 1


def check_arithmetic(exact: bool, what: str) -> None:
    """Refuse `what`, which adds noise to floats, where exact integers were asked for."""
    if not exact and get_config()["arithmetic"] == "lattice":
        raise ValueError(
            f"arithmetic='lattice' asks for exact integers, and {what} adds noise in floating "
            "point; use skriemdp.config_context(arithmetic='auto')."
        )


class Descent(Protocol):
    """A solver whose sums may be taken in integers."""

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """Noise of its releases over their sensitivities."""
        ...


def descends_in_integers(
    solver: Descent,
    event: Event,
    dim: int,
    target: tuple[float, float],
    separate_rows: bool,
    batch_size: float,
) -> bool:
    """Whether a solver adds gradients of `dim` coordinates in exact integers.

    Parameters
    ----------
    solver : Descent
    event : Event
        What it would cost in integers: :func:`skriemdp.privacy.lattice.sampled_delta` leaves room.
    dim : int
    target : tuple of float
        The (epsilon, delta) of the run.
    separate_rows : bool
        Whether what a record adds is the same, to the last bit, in any company.
    batch_size : float
        Expected number of records in the smallest sum.

    Returns
    -------
    bool
        By ``config_context(arithmetic=...)``: never for "float"; for "auto", the default, where it
        can be done and integers do not take most of the time; always for "lattice".
    """

    def check() -> None:
        for noise_multiplier in solver.noise_multipliers:
            check_integers(dim, noise_multiplier)
        if event.tv:
            check_distance(event.tv, *target)

    reason = (
        "records in memory, and gradients that are the same, to the last bit, in any company of "
        "records"
    )
    return chooses_integers(separate_rows, check, reason, draws_dominate(batch_size, dim))


def chooses_integers(
    possible: bool, check: Callable[[], object], reason: str, costly: bool = False
) -> bool:
    """Whether a fit adds integers, by ``config_context(arithmetic=...)``.

    Parameters
    ----------
    possible : bool
    check : callable
        Raises ValueError where there is no lattice fine enough.
    reason : str
        What it takes, where `possible` is False; for the message.
    costly : bool, default=False
        Then "auto" means floats.
    """
    arithmetic = get_config()["arithmetic"]
    if arithmetic == "float" or (costly and arithmetic == "auto"):
        return False
    try:
        if not possible:
            raise ValueError(
                f"arithmetic='lattice' needs {reason}; use "
                "skriemdp.config_context(arithmetic='float')."
            )
        check()
    except ValueError:
        if arithmetic == "lattice":
            raise
        return False
    return True


def draws_dominate(n: float, entries: int) -> bool:
    """Whether integer noise on a step's `entries` numbers costs more than summing n records."""
    return entries > _FEW_ENTRIES and n < _RECORDS_PER_ENTRY * entries
