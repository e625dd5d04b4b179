"""Second moments with pure privacy: noise in the norm that one record can change least in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._arrays import Size
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.pure_spectrum import LARGEST_SIZE, TABLE_ERROR, eigenvalue_law
from skriemdp._validation import check_count, check_positive
from skriemdp.privacy._events import PureEvent
from skriemdp.privacy._sensitivity import Sensitivity, check_sensitivity

__all__ = ["PureSymmetric"]


@dataclass(frozen=True)
class PureSymmetric:
    """A symmetric matrix plus symmetric noise, invariant under rotations; pure epsilon-DP.

    Parameters
    ----------
    size : int
        Rows d of the matrix.
    sensitivity : Sensitivity
        Delta: replacing a record changes the matrix by ``A - B``, both positive semidefinite with
        trace at most Delta (:func:`skriemdp.privacy.trace_part_sensitivity`).
    epsilon : float

    Notes
    -----
    *Guarantee*: pure epsilon-DP.  Up to d = 20, and from epsilon = 1e-6 on, the noise N has density
    proportional to ``exp(-epsilon max(tr N+, tr N-) / Delta)``, N+ and N- its positive and negative
    parts; the maximum is a norm, in which the change is at most Delta.  Its eigenvalues are drawn
    exactly (:mod:`skriemdp._mechanisms.pure_spectrum`); the scale makes up for rounding in its
    tables.

    Otherwise N is the difference of two independent Wishart matrices with d + 1 degrees of freedom,
    each of density proportional to ``exp(-epsilon tr W / (2 Delta))`` on positive semidefinite W.
    Moving one of them by A multiplies its density by ``exp(epsilon tr A / (2 Delta))`` at most, and
    A and B move both.  (One Wishart matrix alone is not private: its range moves with the data.)
    Entries get 1.2 times the variance of the first law.  Proofs: docs/theory/pure-covariance.md.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.privacy import trace_part_sensitivity
    >>> mechanism = PureSymmetric(3, trace_part_sensitivity(1.0, 100), epsilon=1.0)
    >>> noisy = mechanism.release(np.eye(3), np.random.default_rng(0))
    >>> bool((noisy == noisy.T).all()), mechanism.event.epsilon_0
    (True, 1.0)
    """

    size: int
    sensitivity: Sensitivity
    epsilon: float

    def __post_init__(self) -> None:
        check_count(size=self.size)
        check_sensitivity(self.sensitivity)
        check_positive(epsilon=self.epsilon)

    @property
    def _tabled(self) -> bool:
        # Below, rounding in the tables would not be small beside epsilon.
        return self.size <= LARGEST_SIZE and self.epsilon >= 1e-6

    @property
    def event(self) -> PureEvent:
        """Event of one release."""
        return PureEvent(self.epsilon)

    @property
    def scale(self) -> float:
        """Delta over epsilon, a little more where tables are rounded."""
        rounding = 2.0 * TABLE_ERROR / self.epsilon if self._tabled else 0.0
        return self.sensitivity.value / self.epsilon * (1.0 + rounding + 1e-15)

    @property
    def entry_scale(self) -> float:
        """Standard deviation of the noise of entries off the diagonal."""
        if self._tabled and self.size == 1:
            return math.sqrt(2.0) * self.scale  # the only entry; Laplace noise
        if self._tabled:
            return self.scale * math.sqrt(eigenvalue_law(self.size).entry_variance)
        return self.scale * math.sqrt(2.0 * (self.size + 1))

    def release(self, value: Any, rng: np.random.Generator, size: Size = ()) -> Any:
        """`value` plus noise; with `size`, that many independent releases along leading axes."""
        bound = self.sensitivity.value
        law, draws = "pure symmetric", self._draws
        return noise.draw(value, self.scale, law, rng, size, sensitivity=bound, sampler=draws)

    def _draws(
        self, matrix: np.ndarray, rng: np.random.Generator, size: tuple[int, ...]
    ) -> np.ndarray:
        draw = self._by_eigenvalues if self._tabled else self._wishart_difference
        unit = draw(rng, math.prod(size)).reshape(*size, self.size, self.size)
        noisy = matrix + self.scale * unit
        noisy = 0.5 * (noisy + np.swapaxes(noisy, -1, -2))
        return noise.on_public_grid(noisy, self.entry_scale)

    def _by_eigenvalues(self, rng: np.random.Generator, count: int) -> np.ndarray:
        values = eigenvalue_law(self.size).sample(rng, count)
        # Q is uniform up to the signs of its columns, which cancel.
        frames = np.linalg.qr(rng.standard_normal((count, self.size, self.size)))[0]
        return (frames * values[:, None, :]) @ np.swapaxes(frames, -1, -2)

    def _wishart_difference(self, rng: np.random.Generator, count: int) -> np.ndarray:
        # X X' - Y Y' = P Q' + Q P' with P = (X - Y) / sqrt(2), Q = (X + Y) / sqrt(2), independent.
        shape = (2, count, self.size, self.size + 1)
        p, q = rng.standard_normal(shape)
        product = p @ np.swapaxes(q, -1, -2)
        return product + np.swapaxes(product, -1, -2)
