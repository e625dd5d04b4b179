"""What a fit will ask of the machine, from public numbers; too much is refused, uncharged."""

from __future__ import annotations

from skriemdp._config import get_config
from skriemdp._dataclasses import dataclass
from skriemdp._validation import shown

__all__ = ["Work", "check_limit"]

_MEANING = {
    "most_steps": "steps",
    "most_rounds": "rounds",
    "most_runs": "runs",
    "most_classes": "classes",
    "most_candidates": "candidates",
}


def check_limit(limit: str, **values: float) -> None:
    """Raise ValueError if the number given by keyword is above the setting `limit`."""
    most = get_config()[limit]
    for name, value in values.items():
        if value > most:
            raise ValueError(
                f"{name}={shown(value)} is above the limit of {most:g} {_MEANING[limit]}; pass a "
                f"smaller {name}, or raise the limit with skriemdp.config_context({limit}=...)."
            )


@dataclass(frozen=True)
class Work:
    """Memory besides X and steps of a fit, as planned from public numbers.

    Attributes
    ----------
    bytes, steps : float
    cause : str
        The parameters or sizes that decide about the memory, for the refusal.
    """

    bytes: float = 0.0
    steps: float = 0
    cause: str = "the size of X"

    def plus(self, bytes: float, cause: str) -> Work:
        """This work and more memory; `cause` is named if that is the larger part."""
        return Work(self.bytes + bytes, self.steps, cause if bytes > self.bytes else self.cause)

    @property
    def fits(self) -> bool:
        """Whether the memory is below the limit of the configuration."""
        return self.bytes <= get_config()["most_bytes"]

    def check(self) -> Work:
        """This work, or ValueError if it is above the limits of the configuration."""
        check_limit("most_steps", n_steps=self.steps)
        if not self.fits:
            most = get_config()["most_bytes"]
            raise ValueError(
                f"the fit would need about {_gib(self.bytes)} GiB besides X, because of "
                f"{self.cause}; the limit is {_gib(most)} GiB. Choose smaller ones, or raise the "
                "limit with skriemdp.config_context(most_bytes=...)."
            )
        return self


def _gib(size: float) -> str:
    return f"{float(size) / 2**30:.3g}"
