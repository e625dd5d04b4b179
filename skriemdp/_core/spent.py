"""The guarantee of a fit, which every estimator carries as `privacy_spent_`."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from skriemdp._mechanisms.budget import Release
from skriemdp.privacy._event import Event, plain
from skriemdp.privacy._events import SeededEvent

__all__ = ["COMPUTATIONAL", "SEEDED", "ChargedEntry", "PrivacySpent", "shown_value", "table"]

# The guarantee of a release whose noise can be reproduced.
SEEDED = "none (seeded)"
# That of a secure sum.
COMPUTATIONAL = "computational"


class ChargedEntry(NamedTuple):
    """The ledger entry of a fit, by which a model can be matched with its ledger."""

    number: int
    digest: str
    dataset: str


@dataclass(frozen=True, eq=False, repr=False)
class PrivacySpent:
    """The privacy statement of one fit; unpacks as ``epsilon, delta = estimator.privacy_spent_``.

    Attributes
    ----------
    planned_epsilon, planned_delta : float
        What the noise was calibrated to.
    event : Event
        What was released, in numbers; composes with other events (:mod:`skriemdp.privacy`).
        A :class:`skriemdp.privacy.SeededEvent` where `random_state` was an integer.
    unit : str
        Whose data are protected: ``"record"``, ``"record, present or not"``, ``"label"``,
        ``"group"``, ``"user"`` or ``"client"``.
    planned_guarantee : str
        ``"exact"``, ``"statistical"`` (a constant was certified by simulation with a stated error
        probability) or ``"computational"`` (a secure sum of clients: against adversaries who cannot
        break the cryptography, and as `public` says).
    public : dict
        What had to be public for the statement to hold, by name.
    neighboring : str
        The adjacency: ``"replace-one"``, the number of records public; or ``"replace-one or
        add/remove-one"``, the number secret.
    entry : ChargedEntry or None
        Number and digest of the charge in its ledger, and the name of the data set
        (:func:`skriemdp.ledger.matches`); None where nothing was charged here.
    planned_alone : float or None
        Of a secure sum: the epsilon that holds for a client's records if all other clients work
        with the server, or if the cryptography is broken.
    """

    planned_epsilon: float
    planned_delta: float
    event: Event
    unit: str = "record"
    planned_guarantee: str = "exact"
    public: dict = dataclasses.field(default_factory=dict)
    neighboring: str = "replace-one"
    entry: ChargedEntry | None = None
    planned_alone: float | None = None

    @property
    def epsilon_alone(self) -> float | None:
        """`planned_alone`, infinite of a seeded fit."""
        return math.inf if self.seeded and self.planned_alone else self.planned_alone

    @property
    def seeded(self) -> bool:
        """Whether `random_state` was an integer: the noise can be repeated, and protects nobody."""
        return isinstance(self.event, SeededEvent)

    @property
    def epsilon(self) -> float:
        """The fit is (epsilon, delta)-differentially private; infinite of a seeded one."""
        return math.inf if self.seeded else self.planned_epsilon

    @property
    def delta(self) -> float:
        """Delta by the certified profile of `event`; 1 of a seeded fit."""
        return 1.0 if self.seeded else self.planned_delta

    @property
    def guarantee(self) -> str:
        """The planned one, or ``"none (seeded)"``."""
        return SEEDED if self.seeded else self.planned_guarantee

    @property
    def planned_event(self) -> Event:
        """Event of the fit with fresh noise, even if an integer seed makes its noise repeatable."""
        return self.event.event if isinstance(self.event, SeededEvent) else self.event

    @property
    def releases(self) -> tuple[Release, ...]:
        """Names of what the fit could release, with shares: planned before the charge."""
        return self.public.get("releases", ())

    def __iter__(self) -> Iterator[float]:
        yield self.epsilon
        yield self.delta

    def __repr__(self) -> str:
        count = len(self.public)
        facts = f"{count} public fact{'' if count == 1 else 's'}"
        alone = "" if self.epsilon_alone is None else f"epsilon_alone={self.epsilon_alone:.4g}, "
        return (
            f"PrivacySpent(epsilon={self.epsilon:g}, {alone}delta={self.delta:g}, per {self.unit}, "
            f"{self.guarantee}, {facts})"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("epsilon, delta", f"{self.epsilon:g}, {self.delta:g}"),
            ("per", f"{self.unit} ({self.neighboring})"),
            ("guarantee", self.guarantee),
        ]
        if self.epsilon_alone is not None:
            rows.insert(1, ("epsilon if all others collude", f"{self.epsilon_alone:.4g}"))
        facts = [(name, shown_value(value)) for name, value in self.public.items()]
        folded = f"<details><summary>{len(facts)}</summary>{table(facts)}</details>"
        shown = table(rows, [("public facts", folded)])
        return f"<div class='skriemdp-spent'>{shown}</div>"

    @property
    def mu(self) -> float | None:
        """Gaussian differential privacy parameter; None unless the release is exactly Gaussian."""
        return self.event.mu

    def to_dict(self) -> dict:
        """Plain-data form, ready for ``json.dumps`` (public arrays become nested lists)."""
        names = ("epsilon", "epsilon_alone", "delta", "guarantee", "seeded", "mu")
        fields = {name: getattr(self, name) for name in names}
        fields |= {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        fields["event"] = self.event.to_dict()
        fields["public"] = {name: plain(value) for name, value in self.public.items()}
        return fields


def shown_value(value: Any) -> str:
    """A public fact in a few words; arrays as shapes."""
    shape = getattr(value, "shape", ())
    if shape:
        return f"array of shape {tuple(shape)}"
    if isinstance(value, (list, tuple, dict)) and len(value) > 4:
        return f"{type(value).__name__} of {len(value)}"
    return str(value)


def table(rows: Iterable[tuple], markup: Iterable[tuple] = ()) -> str:
    """Names and values as an HTML table; the values of `markup` are HTML already."""
    cells = [(html.escape(str(name)), html.escape(str(value))) for name, value in rows]
    lines = "".join(
        f"<tr><th scope='row' style='text-align:left'>{name}</th>"
        f"<td style='text-align:left'>{value}</td></tr>"
        for name, value in [*cells, *markup]
    )
    return f"<table>{lines}</table>"
