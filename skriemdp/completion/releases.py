"""The private releases of matrix completion: how the budget is shared, and in what order."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from scipy import sparse

from skriemdp._random import public_generator
from skriemdp.completion.item_effects import (
    DyadicMedian,
    ItemEffects,
    centered_values,
    overall_level,
    share_within_bound,
    user_biases,
)
from skriemdp.completion.local_factors import RidgeVote
from skriemdp.completion.problem import CompletionProblem, hollow_moment
from skriemdp.completion.signal import SignalTest
from skriemdp.descent.gradient_descent import RiemannianGradientDescent
from skriemdp.descent.sampling import PoissonSampler
from skriemdp.descent.stochastic import RiemannianSGD
from skriemdp.descent.trajectory import Walk
from skriemdp.mechanisms.covariance import SymmetricGaussian
from skriemdp.privacy.events import GaussianEvent, compose
from skriemdp.privacy.sensitivity import second_moment_sensitivity

__all__ = [
    "CompletionModel",
    "CompletionPlan",
    "DescentSettings",
    "StochasticSettings",
    "release_model",
]

# Shares of mu**2 of the small releases; items and subspace have the rest.
SMALL_SHARES = {
    "count": 0.01,
    "level": 0.01,
    "cut": 0.01,
    "clip": 0.01,
    "signal": 0.05,
    "ridge": 0.03,
}
# Observed share of a row from which the noisy covariance beats descent, and its largest order.
DENSE_SHARE, LARGEST_MATRIX = 0.3, 2000
# Range of numbers of ratings per user that the private median tells apart.
COUNT_RANGE = (0, 20)
# Ridges that users vote on, times r / d: residual variance over variance of a factor.
RIDGE_GRID = tuple(2.0**k for k in range(-2, 9))
# Ridge of the descent in the same unit; the norms of gradients that its clip distinguishes.
DESCENT_RIDGE = 10.0
NORM_RANGE = (-14, 10)
# Clip at this multiple of the median norm at the start.
CLIP_SHARE = 0.35
# Least signal over noise for which a subspace has paid, by the paid and by the public test.
PAID_THRESHOLD, PUBLIC_THRESHOLD = 0.27, 40.0
# Below this public signal-to-noise ratio no measured signal has paid, and none is measured.
HOPELESS_SNR = 6.0
# Of the reserve, the subspace gets this much unless the measured signal is strong.
MODEST_SHARE, STRONG_SIGNAL = 0.65, 0.8


@dataclasses.dataclass(frozen=True)
class DescentSettings:
    """Public settings of the descent; None means by rule."""

    n_steps: int | None = None
    step_size: float | None = None
    clip_norm: float | None = None
    stochastic: StochasticSettings | None = None

    def schedule(self, snr: float):
        """Number of steps and mean step size, in units of the reciprocal clip norm."""
        n_steps = self.n_steps or (20 if snr < 20 else 40)
        return n_steps, self.step_size or min(max(math.sqrt(snr), 3.0), 16.0)


@dataclasses.dataclass(frozen=True)
class StochasticSettings:
    """DP-RSGD calibrated before the clip norm is known: noise scales with the clip norm."""

    sampler: PoissonSampler
    n_steps: int
    step_size: float
    noise_multiplier: float

    def solver(self, clip_norm: float) -> RiemannianSGD:
        """The solver at this clip norm."""
        walk = Walk(self.n_steps, self.step_size / clip_norm, retraction=True)
        return RiemannianSGD(self.sampler, self.noise_multiplier, walk, clip_norm)

    def event(self, n: int):
        """What the run costs, at any clip norm."""
        return self.sampler.event(n, self.noise_multiplier, self.n_steps)


@dataclasses.dataclass(frozen=True)
class CompletionPlan:
    """Everything public about a fit.

    Parameters
    ----------
    mu : float
        Total of the Gaussian releases.
    n, d : int
    rank : int or None
        None: by rule.
    method : {"auto", "gradient", "covariance", "stochastic", "none"}
    test : {"none", "public", "paid"}
        How "auto" decides whether there is a subspace at all.
    typical_count : float or None
        None: released.
    subspace_share : float
        Of what the small releases leave.
    ridge : float or None
        None: voted on.
    descent : DescentSettings
    public_seed : int
    """

    mu: float
    n: int
    d: int
    rank: int | None
    method: str = "auto"
    test: str = "paid"
    typical_count: float | None = None
    subspace_share: float = 0.6
    ridge: float | None = None
    descent: DescentSettings = DescentSettings()
    public_seed: int = 0

    def mu_of(self, share: float) -> float:
        """Mu of a release that has this share of mu**2."""
        return self.mu * math.sqrt(share)

    @property
    def small(self) -> dict:
        """Shares of the small releases that can occur in this fit."""
        needed = {
            "count": self.typical_count is None,
            "level": True,
            "cut": True,
            "clip": self.may_descend and self.descent.clip_norm is None,
            "signal": self.may_have_subspace and self.test == "paid",
            "ridge": self.may_have_subspace and self.ridge is None,
        }
        return {name: SMALL_SHARES[name] for name, used in needed.items() if used}

    @property
    def may_have_subspace(self) -> bool:
        """Whether a subspace may be released."""
        return self.method != "none"

    @property
    def may_descend(self) -> bool:
        """Whether descent may run."""
        return self.method in ("auto", "gradient", "stochastic")

    @property
    def main_share(self) -> float:
        """What the small releases leave."""
        return 1.0 - sum(self.small.values())

    @property
    def item_share(self) -> float:
        """First instalment of the item effects."""
        if not self.may_have_subspace:
            return self.main_share
        return (1.0 - self.subspace_share) * self.main_share

    @property
    def rest_share(self) -> float:
        """Reserved for the subspace; returned to the items when there is none."""
        return self.main_share - self.item_share

    def snr(self, rank: int, share: float | None = None) -> float:
        """Clip norm times n over the noise of one descent step with `share`, by default all."""
        share = self.rest_share if share is None else share
        return self.n * self.mu_of(share) / (2.0 * math.sqrt(self.d * rank))

    @property
    def event(self):
        """What the whole fit costs, whichever way its released decisions go."""
        if self.method == "stochastic":
            rest = self.descent.stochastic.event(self.n)
            return compose([GaussianEvent(1.0 / self.mu_of(1.0 - self.rest_share)), rest])
        return GaussianEvent(1.0 / self.mu)


@dataclasses.dataclass(frozen=True)
class CompletionModel:
    """What a fit releases; all of it private, none of it about one user."""

    level: float
    effects: np.ndarray
    counts: np.ndarray
    subspace: np.ndarray
    ridge: float
    method: str
    reason: str
    typical_count: float
    signal: float | None = None
    singular_values: np.ndarray | None = None
    noise_level: float | None = None


def release_model(matrix, plan: CompletionPlan, streams, progress=None) -> CompletionModel:
    """Spend the budget of `plan` on `matrix`, ratings in [-1, 1] as a CSR array.

    Every decision below is a function of public numbers and earlier releases, so the total is the
    adaptive composition that ``plan.event`` names.
    """
    small, typical = plan.small, plan.typical_count
    if typical is None:
        median = DyadicMedian(*COUNT_RANGE, 1.0 / plan.mu_of(small["count"]))
        typical = median.release(np.diff(matrix.indptr), streams("typical count"))
    typical = min(max(float(typical), 1.0), float(plan.d))
    level = overall_level(matrix, 1.0 / plan.mu_of(small["level"]), streams("level"))
    uncut = share_within_bound(matrix, level, 1.0 / plan.mu_of(small["cut"]), streams("cut"))
    items = _Items(matrix, ItemEffects(typical), level, uncut, plan, streams)
    items.add(plan.item_share, "items")

    method, rank, reason = _choice(plan, typical)
    signal, reserve = None, plan.rest_share
    if method != "none" and "signal" in small:
        signal = _measured_signal(items.residuals(), plan, rank, typical, streams)
        enough = signal.score >= PAID_THRESHOLD
        reason += f"; measured signal {signal.score:.2g} "
        reason += f"{'reaches' if enough else 'is below'} {PAID_THRESHOLD:g}"
        method = method if enough else "none"
        if enough and signal.explained < STRONG_SIGNAL and method == "gradient":
            reserve *= MODEST_SHARE
            items.add(plan.rest_share - reserve, "items again")
    subspace, ridge, spectrum, noise = np.zeros((plan.d, 0)), math.inf, None, None
    if method != "none":
        release = _SubspaceRelease(plan, method, rank, reserve, streams, progress)
        subspace, spectrum, noise = release(items.residuals())
        ridge = (
            _voted_ridge(items.deviations(), subspace, plan, streams)
            if plan.ridge is None
            else plan.ridge
        )
        if math.isinf(ridge):
            reason += "; the users' vote left it unused"
    elif plan.may_have_subspace and plan.method != "stochastic":
        done = {"count", "level", "cut"} | ({"signal"} if signal is not None else set())
        left = 1.0 - items.share - sum(share for name, share in small.items() if name in done)
        items.add(left, "items again")
    return CompletionModel(
        level=level,
        effects=items.effects,
        counts=items.counts,
        subspace=subspace,
        ridge=ridge,
        method=method,
        reason=reason,
        typical_count=typical,
        signal=None if signal is None else signal.score,
        singular_values=spectrum,
        noise_level=noise,
    )


class _Items:
    """Item effects so far, and the data around them."""

    def __init__(self, matrix, mechanism, level, uncut, plan, streams):
        self.matrix, self.mechanism, self.level, self.uncut = matrix, mechanism, level, uncut
        self.plan, self.streams = plan, streams
        self.share, self.sums, self.counts = 0.0, 0.0, 0.0
        self.exact = mechanism.totals(matrix, level)

    def add(self, share, label):
        """Release the totals with this share of mu**2 and average with what is there."""
        mechanism = self.mechanism.mechanism(self.plan.mu_of(share))
        sums, counts = mechanism.release(*self.exact, self.streams(label))
        total = self.share + share
        self.sums = (self.share * self.sums + share * sums) / total
        self.counts = (self.share * self.counts + share * counts) / total
        self.share = total
        mu = self.plan.mu_of(total)
        self.effects = self.mechanism.effects(self.sums, self.counts, mu, self.uncut)

    def deviations(self):
        """Ratings minus level and item effects."""
        values = centered_values(self.matrix, self.effects + self.level, np.zeros(self.plan.n))
        return self._with(values)

    def residuals(self):
        """The same minus the users' biases."""
        biases = user_biases(self.matrix, self.effects + self.level)
        return self._with(centered_values(self.matrix, self.effects + self.level, biases))

    def _with(self, values):
        matrix = self.matrix
        return sparse.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _choice(plan, typical):
    """Method, rank and reason from public numbers and the typical count."""
    if plan.method == "none" or plan.d < 3:
        why = "asked for" if plan.method == "none" else "two items span no smaller subspace"
        return "none", 0, f"item effects only: {why}"
    share = typical / plan.d
    method, reason = plan.method, "asked for"
    if method == "auto":
        dense = share >= DENSE_SHARE and plan.d <= LARGEST_MATRIX
        method = "covariance" if dense else "gradient"
        reason = f"a typical user rated {share:.2g} of the items"
    rank = plan.rank
    if rank is None:
        rank = 8 if method == "covariance" else 5
    rank = min(rank, plan.d - 1)
    if plan.test == "paid" and plan.snr(rank) < HOPELESS_SNR:
        reason += f"; public signal-to-noise {plan.snr(rank):.3g} is below {HOPELESS_SNR:g}"
        method = "none"
    if plan.test == "public":
        snr, threshold = plan.snr(rank), PUBLIC_THRESHOLD
        verdict = "reaches" if snr >= threshold else "is below"
        reason += f"; public signal-to-noise {snr:.3g} {verdict} {threshold:g}"
        method = method if snr >= threshold else "none"
    return method, rank, reason


@dataclasses.dataclass(frozen=True)
class _Signal:
    score: float
    explained: float


def _measured_signal(residuals, plan, rank, typical, streams):
    """How far a subspace would stand out, from the noisy sum of the leading eigenvalues."""
    test = SignalTest(rank, 1.0 / plan.mu_of(plan.small["signal"]))
    start = public_generator(plan.public_seed, "signal start").standard_normal(plan.d)
    total = max(test.release(residuals, start, streams("signal")), 0.0)
    # A user of m ratings whose residuals lie in the subspace for a share s of their variance adds
    # about s m / d to the sum, for evenly spread observations.
    explained = total * plan.d / (plan.n * typical)
    # The mean eigenvalue over the noise that a spectrum released with 2/3 of the reserve has.
    height = total / rank * plan.mu_of(plan.rest_share / 1.5) / math.sqrt(plan.d)
    return _Signal(height * math.sqrt(explained), explained)


@dataclasses.dataclass(frozen=True)
class _SubspaceRelease:
    plan: CompletionPlan
    method: str
    rank: int
    share: float
    streams: Any
    progress: Any

    def __call__(self, residuals):
        """Subspace, and where there is one the released spectrum and the edge of its noise."""
        if self.method == "covariance":
            return self._covariance(residuals)
        return self._descent(residuals), None, None

    def _covariance(self, residuals):
        d, mu = self.plan.d, self.plan.mu_of(self.share)
        mechanism = SymmetricGaussian(d, second_moment_sensitivity(1.0), 1.0 / mu, hollow=True)
        noisy = mechanism.release(hollow_moment(residuals), self.streams("covariance"))
        values, vectors = np.linalg.eigh(noisy)
        # Off-diagonal noise of standard deviation s fills [-2 s sqrt(d), 2 s sqrt(d)].
        edge = 2.0 * mechanism.sigma / math.sqrt(2.0) * math.sqrt(d)
        return np.ascontiguousarray(vectors[:, ::-1][:, : self.rank]), values[::-1], edge

    def _descent(self, residuals):
        plan, rank, settings = self.plan, self.rank, self.plan.descent
        ridge = plan.ridge if plan.ridge is not None else DESCENT_RIDGE * rank / plan.d
        problem = CompletionProblem(residuals, rank, ridge)
        start = problem.geometry.random_point(public_generator(plan.public_seed, "start", rank))
        clip = settings.clip_norm
        if clip is None:
            median = DyadicMedian(*NORM_RANGE, 1.0 / plan.mu_of(plan.small["clip"]))
            clip = CLIP_SHARE * median.release(problem.norms(start), self.streams("clip"))
        if self.method == "stochastic":
            solver = settings.stochastic.solver(clip)
        else:
            n_steps, step_size = settings.schedule(plan.snr(rank, self.share))
            # Decreasing to zero: late steps average the noise that early ones let in.
            steps = 2.0 * step_size / clip * (1.0 - np.arange(n_steps) / n_steps)
            mu = plan.mu_of(self.share)
            solver = RiemannianGradientDescent(
                mu, n_steps, tuple(steps), clip_norm=clip, retraction=True
            )
        return solver.solve(problem, start, self.streams("descent"), self.progress)


def _voted_ridge(deviations, subspace, plan, streams):
    vote = RidgeVote(1.0 / plan.mu_of(plan.small["ridge"]))
    unit = subspace.shape[1] / plan.d
    ridges = [c * unit for c in RIDGE_GRID]
    means = vote.release(deviations, subspace, ridges, streams("ridge"))
    best = int(np.argmax(means))
    return ridges[best] if means[best] > 0 else math.inf
