"""Shares of the noise that hides a sum of several clients, and the parties that it hides from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skriemdp._core.spent import COMPUTATIONAL
from skriemdp._errors import PublicValueError
from skriemdp._validation import check_count
from skriemdp.privacy._events import Event, compose
from skriemdp.privacy._lattice import NOISE_SCALE, share_scale

# Public facts of a guarantee whose noise every client adds for itself.
BY_CLIENTS = {"trust": "nobody"}
# And where a trusted coordinator adds it.
BY_AGGREGATOR = {
    "trust": "aggregator",
    "holds": "against everybody but the coordinator: clients trust it with their exact sums, to "
    "add the noise and to show nothing else",
}


@dataclass(frozen=True)
class Shares:
    """The noise of one secure sum.

    Parameters
    ----------
    clients : int
        In the sum, each with a share of the noise.
    colluding : int
        How many of them may tell the server what they know.

    Raises
    ------
    ValueError
        If nobody is left whose share is not known; and for ``colluding=0``, because whoever took
        part knows one share.

    Examples
    --------
    >>> from skriemdp.federated._shares import Shares
    >>> shares = Shares(clients=5, colluding=1)
    >>> shares.honest, round(shares.variance, 6)
    (4, 1.25)
    """

    clients: int
    colluding: int

    def __post_init__(self) -> None:
        check_count(clients=self.clients, colluding=self.colluding)
        if self.honest < 1:
            raise PublicValueError(
                f"colluding={self.colluding} of {self.clients} clients leaves nobody whose noise "
                "is not known; use a smaller number, or more clients."
            )

    @property
    def honest(self) -> int:
        """Number of shares that nobody else knows."""
        return self.clients - self.colluding

    @property
    def variance(self) -> float:
        """Variance of the noise of the sum, in units of that of a release with all its records."""
        return self.clients * (share_scale(self.honest) / NOISE_SCALE) ** 2

    def alone(self, event: Event) -> Event:
        """Event of a client's upload if the client's own share were its only noise.

        That is so if all others collude or the cryptography fails.  Its mu is ``sqrt(honest)``
        times that of `event`, as of so many releases.
        """
        return compose([event] * self.honest)

    def epsilon_alone(self, event: Event, delta: float) -> float:
        """The epsilon of :meth:`alone`, rounded up."""
        return float(self.alone(event).epsilon(delta)) * (1.0 + 1e-12)

    @property
    def stated(self) -> dict[str, Any]:
        """Public facts of the guarantee."""
        several = f"{self.colluding} clients" if self.colluding > 1 else "one client"
        return {
            "trust": "cohort",
            "colluding": int(self.colluding),
            "honest": self.honest,
            "holds": f"against the server together with any {several} of these {self.clients}, "
            "chosen in advance, while Ed25519, X25519, HKDF-SHA256 and ChaCha20 are not broken, "
            "each client runs its own code and its identity has one book of answers",
        }


def noted(shares: Shares, event: Event, delta: float) -> dict[str, Any]:
    """Return the facts that the ledger notes of a secure sum, beside its event."""
    return {
        "guarantee": COMPUTATIONAL,
        "honest": shares.honest,
        "epsilon_alone": shares.epsilon_alone(event, delta),
    }
