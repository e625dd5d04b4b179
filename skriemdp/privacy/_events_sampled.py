"""Events of noisy sums over random batches: Poisson sampling, and batches of fixed size."""

from __future__ import annotations

from dataclasses import dataclass

from skriemdp._errors import PublicValueError
from skriemdp._validation import check_count, check_fraction, check_order, check_positive
from skriemdp.privacy._event import Event, normalize_fields
from skriemdp.privacy._lattice import rounding_distance
from skriemdp.privacy._loss_distributions import (
    PrivacyLossDistribution,
    fixed_size_gaussian_loss,
    poisson_gaussian_loss,
)
from skriemdp.privacy._renyi import fixed_size_gaussian_renyi, poisson_gaussian_renyi


@dataclass(frozen=True)
class PoissonSampledGaussianEvent(Event):
    """Noisy sums over batches that each record enters by its own coin; `count` steps.

    Parameters
    ----------
    sampling_probability : float
        In (0, 1].
    noise_multiplier : float
        Standard deviation of the noise on the *sum* over ``2 tau``, where tau bounds the norm of
        every record's contribution.  (dp_accounting divides by tau: its multiplier is twice this.)
    count : int, default=1
        Number of adaptive steps, each with a fresh batch.
    integers : int, default=0
        How many numbers a step releases, where they are integers with discrete Gaussian noise; 0
        for real noise.  They add :attr:`tv` to what is proved of real noise.

    Notes
    -----
    *Guarantee*: the pair ``q N(1/2, s^2) + (1-q) N(0, s^2)`` against ``q N(-1/2, s^2) + (1-q) N(0,
    s^2)`` dominates each step at every order, and is attained, so composition is exact
    (docs/theory/accounting.md).  The batch must be divided by a public number, never by its
    realised size, and stay secret.  A bound on the difference of two contributions is not enough.
    """

    sampling_probability: float
    noise_multiplier: float
    count: int = 1
    integers: int = 0
    kind = "poisson-gaussian"

    def __post_init__(self) -> None:
        normalize_fields(self)
        check_fraction(open_right=False, sampling_probability=self.sampling_probability)
        check_positive(noise_multiplier=self.noise_multiplier)
        check_count(count=self.count)
        check_count(minimum=0, integers=self.integers)

    @property
    def tv(self) -> float:
        """``count * integers / (24 s^2)``; 0 with full batches, where integers need no delta."""
        whole = self.sampling_probability == 1.0
        return 0.0 if whole else rounding_distance(self.integers, self.count)

    @property
    def mu(self) -> float | None:
        """Gaussian privacy parameter if every batch is the whole data set, else None."""
        if self.sampling_probability == 1.0:
            return self.count**0.5 / self.noise_multiplier
        return None

    @property
    def gdp_bound(self) -> float:
        """Bound of full batches, which sampling can only improve; true of integers as it stands."""
        return self.count**0.5 / self.noise_multiplier

    def renyi(self, order: float) -> float:
        """`count` times that of the dominating pair, by quadrature."""
        check_order(order)
        return self.count * poisson_gaussian_renyi(
            float(self.sampling_probability), float(self.noise_multiplier), float(order)
        )

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        return poisson_gaussian_loss(
            self.sampling_probability, self.noise_multiplier, interval, self.count
        )


@dataclass(frozen=True)
class FixedSizeSampledGaussianEvent(Event):
    """Noisy sums over uniformly random batches of fixed size, without replacement; `count` steps.

    Parameters
    ----------
    population : int
        Number of records.
    batch_size : int
        Number of records in a batch, at most `population`.
    noise_multiplier : float
        Standard deviation of the noise on the sum over the largest change of a batch's sum when one
        of its records is replaced.
    count : int, default=1
        Number of adaptive steps, each with a fresh batch.
    integers : int, default=0
        How many numbers a step releases, where they are integers with discrete Gaussian noise; 0
        for real noise.  They add :attr:`tv` to what is proved of real noise.

    Notes
    -----
    *Guarantee*: PLD*, the smallest symmetric pair that dominates one step at every order; a proved
    upper bound under composition, not exact (docs/theory/accounting.md).  The Poisson event is not
    valid for such batches, not even with twice the sensitivity.
    """

    population: int
    batch_size: int
    noise_multiplier: float
    count: int = 1
    integers: int = 0
    kind = "fixed-size-gaussian"

    def __post_init__(self) -> None:
        normalize_fields(self)
        check_count(population=self.population, batch_size=self.batch_size, count=self.count)
        if self.batch_size > self.population:
            raise PublicValueError(
                f"batch_size={self.batch_size} exceeds population={self.population}; draw at most "
                "all records."
            )
        check_positive(noise_multiplier=self.noise_multiplier)
        check_count(minimum=0, integers=self.integers)

    @property
    def tv(self) -> float:
        """``count * integers / (24 s^2)``; 0 with full batches, where integers need no delta."""
        whole = self.batch_size == self.population
        return 0.0 if whole else rounding_distance(self.integers, self.count)

    @property
    def fraction(self) -> float:
        """``batch_size / population``."""
        return int(self.batch_size) / int(self.population)

    @property
    def mu(self) -> float | None:
        """Gaussian privacy parameter if every batch is the whole data set, else None."""
        return self.gdp_bound if self.batch_size == self.population else None

    @property
    def gdp_bound(self) -> float:
        """Bound of full batches with the same noise per sum, which sampling can only improve.

        True of integers as it stands: given the batch, a sum of integers is as private.
        """
        return self.count**0.5 / self.noise_multiplier

    def renyi(self, order: float) -> float:
        """`count` times that of PLD*, by quadrature."""
        check_order(order)
        return self.count * fixed_size_gaussian_renyi(
            self.fraction, float(self.noise_multiplier), float(order)
        )

    def privacy_loss_distribution(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """See :meth:`Event.privacy_loss_distribution`."""
        return fixed_size_gaussian_loss(self.fraction, self.noise_multiplier, interval, self.count)
