"""Openings: the total cost of a curator, fixed as an event before its first answer.

A program is any rule that chooses its next question from earlier answers.  A *give* is a function
of one row and of public or released fields, clipped to a public set last of all.  One record is
replaced.  Questions above a cap are refused before their noise.

*Lemma.*  At its mu, a sum clipped to a set, a count or a quantile is mu-GDP (docs/theory/lattice.md
and private-quantile.md); so are a point with real noise (mean-iteration.md), the sum of leading
eigenvalues, and all of these over disjoint pairs of rows at public places.  A give that fails on a
row, or answers anything but finite numbers of the right shape, adds zero to a sum and lies beyond
every bound in a count.

1. *Gaussian.*  Questions with ``sum mu_t^2 <= mu^2`` on every path are mu-GDP together
   (docs/theory/filters.md, Theorem 2).
2. *Cap, then one law.*  If ``sum mu_t^2 <= c mu^2``, and one release with noise of a law fixed at
   the start follows, the whole has the event ``compose([GaussianEvent(1 / (mu sqrt(c))), law])``:
   the law's pair does not depend on earlier answers, so dominating pairs compose.
3. *Cap, then one sampled run.*  The same holds for a run whose sampler, noise and numbers of steps
   and sums are fixed at the start: each step draws its batch from noise that the program never
   sees, and absence moves its sum half as far as replacement, so it has its event's pair at every
   history (docs/theory/accounting.md).
4. *Pure.*  Epsilons add up on every path, because likelihood ratios multiply.
5. *Selection.*  The best of K runs of programs from a closed list has the `SelectionEvent` of their
   opening: only its setting, score and answer come out.
6. *Parts.*  Curators over disjoint parts at public positions cost as much as the most expensive
   one: a record is in one part.

If n is secret, its release divides sums; pairs, parts, points and matrices are refused
(docs/theory/presence.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skriemdp._descent.releases import Batches, FixedSizeSampler, FullBatch, PoissonSampler
from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._mechanisms.budget import GaussianBudget, PureBudget
from skriemdp._validation import check_count, check_fraction, check_positive
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import compose
from skriemdp.privacy._laplace import LaplaceEvent

if TYPE_CHECKING:
    from skriemdp.privacy._events import SelectionEvent

SAMPLERS = {"poisson": PoissonSampler, "fixed size": FixedSizeSampler}


@dataclass(frozen=True)
class Sampled:
    """A run of noisy sums over random batches, and of sums over all records among them.

    Attributes
    ----------
    sampler : {"poisson", "fixed size"}
    batch_size : float
    noise_multiplier : float
        Of a sum over a batch.
    steps : int
        How many of those.
    integers : int
        Most numbers that a step releases.
    anchors : int
        Sums over all records.
    anchor_multiplier : float
        Their noise multiplier.
    """

    sampler: str
    batch_size: float
    noise_multiplier: float
    steps: int
    integers: int
    anchors: int = 0
    anchor_multiplier: float = math.inf

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise PublicValueError(
                f"sampler must be one of {list(SAMPLERS)}, got {self.sampler!r}."
            )
        check_positive(noise_multiplier=self.noise_multiplier)
        check_count(steps=self.steps)
        check_count(minimum=0, anchors=self.anchors)
        check_positive(allow_inf=not self.anchors, anchor_multiplier=self.anchor_multiplier)

    @property
    def batches(self) -> Batches:
        """The sampler of batches."""
        sampler: Any = SAMPLERS[self.sampler]
        return sampler(self.batch_size, integers=self.integers)  # type: ignore[no-any-return]

    def event(self, n: int) -> Event:
        """Event of the run on n records."""
        batches: Any = self.batches
        sampled = batches.event(n, self.noise_multiplier, self.steps)
        if not self.anchors:
            return sampled  # type: ignore[no-any-return]
        whole = FullBatch().event(n, self.anchor_multiplier, self.anchors)
        return compose([whole, sampled])


@dataclass(frozen=True)
class Gaussian:
    """Gaussian releases whose ``mu_t^2`` add up to ``mu^2`` at most; shares may depend on answers.

    With a `cap`, these may take that part of ``mu^2`` only, and one release of a law or a run that
    were fixed at the start comes after them, and ends the fit.
    """

    mu: float
    cap: float = 1.0
    law: LaplaceEvent | None = None
    run: Sampled | None = None

    def __post_init__(self) -> None:
        check_positive(mu=self.mu)
        check_fraction(open_right=False, cap=self.cap)
        if self.law is not None and self.run is not None:
            raise PublicValueError("a fit ends with a law or with a run, not with both.")
        if self.law is not None and type(self.law) is not LaplaceEvent:
            raise PublicTypeError(f"law must be a LaplaceEvent, got {type(self.law).__name__}.")
        if self.run is not None and type(self.run) is not Sampled:
            raise PublicTypeError(f"run must be a Sampled, got {type(self.run).__name__}.")

    def budget(self) -> GaussianBudget:
        """Budget that shares refer to."""
        return GaussianBudget(self.mu)

    def event(self, n: int) -> Event:
        """All of it, on n records."""
        if self.cap == 1.0 and self.law is None and self.run is None:
            return self.budget().event
        first = GaussianBudget(self.mu * math.sqrt(self.cap)).event
        if self.run is not None:
            return compose([first, self.run.event(n)])
        return first if self.law is None else compose([first, self.law])


@dataclass(frozen=True)
class Pure:
    """Pure releases whose epsilons add up to `epsilon` at most."""

    epsilon: float
    cap = 1.0
    law = run = None

    def __post_init__(self) -> None:
        check_positive(epsilon=self.epsilon)

    def budget(self) -> PureBudget:
        """Budget that shares refer to."""
        return PureBudget(self.epsilon)

    def event(self, n: int) -> Event:
        """All of it."""
        return self.budget().event


@dataclass(frozen=True)
class Selection:
    """The best of a secret number of runs of a named program; nothing else is shown.

    Attributes
    ----------
    each : Gaussian or Pure
        Opening of a run.
    runs : float
        How many there are in the mean.
    shape : float
        Of their law, as for :class:`skriemdp.privacy.SelectionEvent`.
    """

    each: Gaussian | Pure
    runs: float
    shape: float = 0.0
    cap = 1.0
    law = run = None

    def event(self, n: int) -> SelectionEvent:
        """All of it, on n records."""
        from skriemdp.privacy._events import SelectionEvent

        return SelectionEvent(self.each.event(n), self.runs, shape=self.shape)
