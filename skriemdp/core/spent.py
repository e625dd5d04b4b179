"""What a fit spent: the guarantee object that every estimator carries as `privacy_spent_`."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["SEEDED", "PrivacySpent"]

# The guarantee of a release whose noise can be reproduced.
SEEDED = "none (seeded)"


@dataclasses.dataclass(frozen=True, eq=False)
class PrivacySpent:
    """The privacy statement of one fit; unpacks as ``epsilon, delta = estimator.privacy_spent_``.

    Attributes
    ----------
    epsilon, delta : float
        The fit is (epsilon, delta)-differentially private, by the certified profile of `event`.
    event : Event
        What was released, in numbers; composes with other events (:mod:`skriemdp.privacy.events`).
    unit : str
        Whose data are protected: ``"record"``, ``"label"``, ``"user"`` or ``"client"``.
    guarantee : str
        ``"exact"``, ``"statistical"`` (a constant was certified by simulation with a stated error
        probability), or ``"none (seeded)"``: the noise can be reproduced from `random_state`, so
        nobody is protected.
    seeded : bool
        True when `random_state` was an integer.
    public : dict
        What had to be public for the statement to hold, by name.
    neighboring : str
        The adjacency: always ``"replace-one"``; the number of records is public.
    """

    epsilon: float
    delta: float
    event: Any
    unit: str = "record"
    guarantee: str = "exact"
    seeded: bool = False
    public: dict = dataclasses.field(default_factory=dict)
    neighboring: str = "replace-one"

    def __iter__(self):
        yield self.epsilon
        yield self.delta

    @property
    def mu(self) -> float | None:
        """Gaussian differential privacy parameter; None unless the release is exactly Gaussian."""
        return self.event.mu

    def to_dict(self) -> dict:
        """Plain-data form, ready for ``json.dumps`` (public arrays become nested lists)."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        fields["event"] = self.event.to_dict()
        fields["public"] = {name: _plain(value) for name, value in self.public.items()}
        return fields | {"mu": self.mu}


def _plain(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
