"""Private quantiles on a public grid: by noisy binary search, or by the exponential mechanism."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skriemdp._validation import check_fraction, check_positive
from skriemdp.mechanisms.counts import GaussianCount
from skriemdp.privacy.events import GaussianEvent, PureEvent

__all__ = ["ExponentialQuantile", "PrivateQuantile"]


@dataclasses.dataclass(frozen=True)
class PrivateQuantile:
    """A grid value with about the fraction `level` of the records at or below it.

    Binary search over the grid; every comparison asks for one noisy count.  The number of
    comparisons depends on the grid alone.

    Parameters
    ----------
    grid : tuple of float
        Public, increasing.
    level : float
        In (0, 1).
    mu : float
        Gaussian differential privacy parameter of the whole search.

    Notes
    -----
    *Guarantee*: mu-GDP under replacement of one record.  Replacing a record moves the number of
    records at or below a threshold by at most one, and ``n_counts`` adaptive counts of
    ``mu / sqrt(n_counts)`` compose to mu exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.mechanisms.quantile import PrivateQuantile
    >>> grid = tuple(1.1 ** np.arange(-50.0, 50.0))
    >>> values = np.random.default_rng(0).exponential(size=10_000)
    >>> median = PrivateQuantile(grid, level=0.5, mu=1.0).release(values, np.random.default_rng(1))
    >>> 0.6 < median < 0.8
    True
    """

    grid: tuple[float, ...]
    level: float
    mu: float

    def __post_init__(self):
        check_positive(mu=self.mu)
        check_fraction(level=self.level)
        _check_grid(self.grid)

    @property
    def n_counts(self) -> int:
        """Comparisons of the search."""
        return max(1, math.ceil(math.log2(len(self.grid))))

    @property
    def mechanism(self) -> GaussianCount:
        """One count."""
        return GaussianCount(math.sqrt(self.n_counts) / self.mu)

    @property
    def event(self) -> GaussianEvent:
        """What one release costs."""
        return GaussianEvent(1.0 / self.mu)

    def release(self, values, rng) -> float:
        """A grid value; `values` holds one number per record."""
        values = np.asarray(values)
        return self.search(lambda t: np.count_nonzero(values <= t), len(values), rng)

    def search(self, count, n: int, rng) -> float:
        """As :meth:`release`, with ``count(threshold)`` the number of records at or below it."""
        low, high = 0, len(self.grid) - 1
        for _ in range(self.n_counts):
            middle = (low + high) // 2
            noisy = self.mechanism.release(count(self.grid[middle]), rng)
            if noisy >= self.level * n:
                high = middle
            else:
                low = min(middle + 1, high)
        return float(self.grid[high])

    def release_counts(self, counts, n: int, rng) -> float:
        """As :meth:`release`, from the numbers of records at or below each grid value."""
        index = dict(zip(self.grid, np.asarray(counts).tolist(), strict=True))
        return self.search(index.__getitem__, n, rng)


@dataclasses.dataclass(frozen=True)
class ExponentialQuantile:
    """A grid value with about the fraction `level` of the records at or below it; pure privacy.

    Parameters
    ----------
    grid : tuple of float
        Public, increasing.
    level : float
        In (0, 1).
    epsilon : float

    Notes
    -----
    *Guarantee*: pure epsilon-DP under replacement of one record: the exponential mechanism (McSherry
    and Talwar 2007) with the utility ``-|count(t) - level n|``, which a replacement moves by at
    most one.
    """

    grid: tuple[float, ...]
    level: float
    epsilon: float

    def __post_init__(self):
        check_positive(epsilon=self.epsilon)
        check_fraction(level=self.level)
        _check_grid(self.grid)

    @property
    def event(self) -> PureEvent:
        """What one release costs."""
        return PureEvent(self.epsilon)

    def release(self, values, rng) -> float:
        """A grid value; `values` holds one number per record."""
        ordered = np.sort(np.asarray(values))
        return self.release_counts(
            np.searchsorted(ordered, self.grid, side="right"), len(ordered), rng
        )

    def release_counts(self, counts, n: int, rng) -> float:
        """As :meth:`release`, from the numbers of records at or below each grid value."""
        utilities = -np.abs(np.asarray(counts, dtype=float) - self.level * n)
        # The largest of independently Gumbel-perturbed utilities follows the mechanism's law.
        noisy = 0.5 * self.epsilon * utilities + rng.gumbel(size=len(utilities))
        return float(self.grid[int(np.argmax(noisy))])


def _check_grid(grid):
    values = np.asarray(grid, dtype=float)
    if values.ndim != 1 or not len(values) or not (np.diff(values) > 0).all():
        raise ValueError("grid must hold increasing numbers, at least one.")
