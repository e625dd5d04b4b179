"""Estimates of a fit's memory and time from public numbers; what is too large is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skriemdp import _progress
from skriemdp._config import check_bytes, get_config
from skriemdp._errors import PublicValueError
from skriemdp._validation import shown

if TYPE_CHECKING:
    from skriemdp.geometry._base import Geometry

# Assumed operations per second of one core, and per entry of a point for one logarithm (of matrices
# times their number of columns).  Forecast times are right within a factor of about three.
_PER_SECOND = 5e9
_PER_MATRIX, _PER_VECTOR = 30.0, 30.0

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
            raise PublicValueError(
                f"{name}={shown(value)} is above the limit of {most:g} {_MEANING[limit]}; pass a "
                f"smaller {name}, or raise the limit with skriemdp.config_context({limit}=...)."
            )


@dataclass(frozen=True)
class Work:
    """Memory besides X, steps and operations of a fit, as planned from public numbers.

    Attributes
    ----------
    bytes, steps : float
    cause : str
        The parameters or sizes that decide about the memory, for the refusal.
    operations : float
        Multiplications and additions, roughly; zero where nobody counted.
    """

    bytes: float = 0.0
    steps: float = 0
    cause: str = "the size of X"
    operations: float = 0.0

    @classmethod
    def of_points(cls, geometry: Geometry, n: int, steps: float = 1) -> Work:
        """Copies of `n` points, and their logarithms in a search and in every step."""
        size = math.prod(geometry.shape)
        each = _PER_MATRIX * geometry.shape[-1] if len(geometry.shape) > 1 else _PER_VECTOR
        # `plan` adds seven passes over all records for a search and the steps to a mean.
        return cls(16.0 * n * size, steps, operations=(7.0 + steps) * n * size * each)

    def plus(self, bytes: float, cause: str, operations: float = 0.0) -> Work:
        """This work and more; `cause` is named if its memory is the larger part."""
        return Work(
            self.bytes + bytes,
            self.steps,
            cause if bytes > self.bytes else self.cause,
            self.operations + operations,
        )

    def check(self) -> Work:
        """This work, or ValueError if it is above the limits of the configuration."""
        check_limit("most_steps", n_steps=self.steps)
        check_bytes(self.bytes, "the fit", f" besides X, because of {self.cause}")
        most = get_config()["most_operations"]
        if self.operations > most:
            raise PublicValueError(
                f"the fit would take about {self.operations:.2g} operations, "
                f"{_progress.duration(self._seconds)} of one core; the limit is {most:.2g}. Choose "
                "smaller points, fewer features, components or steps, or raise the limit with "
                "skriemdp.config_context(most_operations=...)."
            )
        return self

    def begin(self) -> None:
        """Check, and tell the log how long a long fit will take."""
        self.check()
        _progress.expect(self._seconds)

    @property
    def _seconds(self) -> float:
        return self.operations / _PER_SECOND


def decomposed(dim: int) -> float:
    """Operations that eigenvalues and eigenvectors of a symmetric matrix take."""
    return 10.0 * float(dim) ** 3
