"""The one place where estimators, searches, optimizers and federations charge their budget."""

from __future__ import annotations

from typing import Any

from skriemdp.privacy.event import Event

__all__ = ["charge"]


def charge(
    accountant: Any,
    event: Event,
    owner: object,
    *,
    at: tuple[float, float] | None = None,
    params: dict[str, Any],
    gaussian: str = "",
) -> Any:
    """Charge `event` to `accountant`, before any noise is drawn.

    Parameters
    ----------
    accountant : PrivacyAccountant
        Or whatever stands in for one, with a method ``spend``.
    event : Event
        What will be released.
    owner : object
        Whose release it is; the ledger records the name of its class.
    at : tuple of float, optional
        The (epsilon, delta) that the release promises.
    params : dict
        Public facts for the ledger.
    gaussian : str, default=""
        Parameters that make the release Gaussian; a refused fit is told of them.

    Raises
    ------
    RuntimeError
        If `event` is not private at `at`; nothing is charged.
    """
    name = type(owner).__name__
    if at is not None and not event.delta(at[0]) <= at[1]:
        raise RuntimeError(
            f"{name} planned an event that is not {at}-private; nothing was released."
        )
    return accountant.spend(event, label=name, params=params, at=at, gaussian=gaussian)
