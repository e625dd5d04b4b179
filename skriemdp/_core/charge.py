"""The one place where estimators, searches, optimizers and federations charge their budget."""

from __future__ import annotations

import math
from typing import Any

from skriemdp._core.spent import SEEDED, ChargedEntry
from skriemdp._errors import PublicRuntimeError
from skriemdp._warnings import SeededNoiseWarning, warn_user
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import as_drawn


def warn_seeded() -> None:
    """Tell the user that noise from an integer protects nobody."""
    warn_user(
        "an integer random_state makes the noise reproducible, which protects nobody: this states "
        "epsilon=inf. That is for made-up data; for people's data leave random_state=None.",
        SeededNoiseWarning,
    )


def charge(
    accountant: Any,
    event: Event,
    owner: object,
    *,
    at: tuple[float, float] | None = None,
    random_state: int | None,
    params: dict[str, Any],
    facts: dict[str, Any],
    gaussian: str = "",
) -> ChargedEntry | None:
    """Charge `event` to `accountant`, before any noise is drawn.

    Parameters
    ----------
    accountant : PrivacyAccountant
        Or whatever stands in for one, with a method ``spend``.
    event : Event
        What will be released, with noise that nobody can repeat.
    owner : object
        Whose release it is; the ledger records the name of its class.
    at : tuple of float, optional
        The (epsilon, delta) that the release promises.
    random_state : int or None
        Where the noise comes from; an integer gives a :class:`SeededNoiseWarning`.
    params : dict
        What else the ledger should note: the unit, the guarantee.
    facts : dict
        What has to be public for the guarantee, by name: `public` of the statement.
    gaussian : str, default=""
        Parameters that make the release Gaussian; a refused fit is told of them.

    Returns
    -------
    ChargedEntry or None
        Where the charge is in its ledger; None of a stand-in.

    Raises
    ------
    RuntimeError
        If `event` is not private at `at`; nothing is charged.
    """
    name = type(owner).__name__
    if at is not None and not event.delta(at[0]) <= at[1]:
        raise PublicRuntimeError(
            f"{name} planned an event that is not {at}-private; nothing was released."
        )
    if random_state is not None:
        event, at = as_drawn(event, random_state), None
        stated = {name: params[name] for name in params.keys() - {"epsilon", "delta"}}
        params = stated | {"guarantee": SEEDED}
        if math.isinf(getattr(accountant, "epsilon", math.inf)):  # one with a ceiling refuses
            warn_seeded()
    spend = accountant.spend(
        event, label=name, params=params, facts=facts, at=at, gaussian=gaussian
    )
    if not hasattr(spend, "digest"):
        return None
    return ChargedEntry(spend.entry, spend.digest, spend.dataset)
