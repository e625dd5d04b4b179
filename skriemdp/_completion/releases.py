"""The private releases of matrix completion: how the budget is shared, and in what order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skriemdp._completion.item_releases import (
    LEVEL,
    ItemEffects,
    centered_values,
    clipped_ratings,
    effect_strength,
    overall_level,
    share_within_bound,
    typical_count,
    user_biases,
    user_deviations,
)
from skriemdp._completion.problem import CompletionProblem, normalized_rows, with_data
from skriemdp._completion.signal_releases import (
    SIGNAL_ITEMS,
    SignalTest,
    ballots,
    voted_ridges,
    whole_spectrum,
)
from skriemdp._descent.releases import Batches, FullBatch
from skriemdp._descent.stochastic import RiemannianSGD
from skriemdp._descent.trajectory import Moves, Trajectory
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.bounded_sets import BoundedSet, Moment, Outer
from skriemdp._mechanisms.budget import Release
from skriemdp._mechanisms.noise import expect_integers
from skriemdp._mechanisms.quantile import PrivateQuantile, log_grid, log_normal_weights
from skriemdp._mechanisms.sum import mu_of, private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._random import NoiseStreams, public_generator
from skriemdp._warnings import warn_user
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import GaussianEvent, compose
from skriemdp.privacy._lattice import check_distance

# Shares of mu**2 of the small releases, 1 % each by convention; items and subspace have the rest.
SMALL_SHARES = {
    "count": 0.01,
    "clipped": 0.01,
    "level": 0.01,
    "cut": 0.01,
    "clip": 0.01,
    "signal": 0.05,
    "ridge": 0.03,
}
# The noisy covariance replaces descent if rows have at least this share of observed entries and
# at most this many items (benchmarks/completion.py utility).
DENSE_SHARE, LARGEST_MATRIX = 0.3, 2000
# Ridges that users vote on, times r / d: residual variance over variance of a factor.
RIDGE_GRID = tuple(2.0**k for k in range(-2, 9))
# Norms of gradients: grid, and median and spread of the log-normal prior.
NORM_GRID = log_grid(2.0**-14, 2.0**10, 2.0**0.25)
NORM_MEDIAN, NORM_SPREAD = 1.0, 2.0
# Smallest estimated signal-to-noise ratio at which a subspace lowers the error
# (benchmarks/completion.py utility).
PAID_THRESHOLD = 0.27
# Below this public signal-to-noise ratio a subspace never lowered the error, whatever its signal;
# no budget is spent on an estimate of the signal (benchmarks/completion.py utility).
HOPELESS_SNR = 6.0
# Share of the reserved budget for the subspace; all of it if the estimated signal-to-noise ratio
# is at least STRONG_SIGNAL (benchmarks/completion.py utility).
MODEST_SHARE, STRONG_SIGNAL = 0.65, 0.8
# Smallest ratio of the assumed spread of item effects to their noise at which they are released.
LEAST_STRENGTH = 0.25
# Step size of DP-RSGD in units of the reciprocal clip norm, and its steps unless they are given.
STOCHASTIC_STEP, STOCHASTIC_STEPS, STOCHASTIC_BATCHES = 1.0, 200, 50


@dataclass(frozen=True)
class CompletionPlan:
    """Everything public about a fit.

    Parameters
    ----------
    mu : float
        Total of the Gaussian releases.
    n, d : int
    bounds : tuple of float
        Of the ratings.
    rank : int or None
        None: by rule.
    mechanism : {"auto", "gradient", "covariance", "stochastic", "none"}
    test : {"none", "paid"}
        How "auto" decides whether there is a subspace at all.
    n_steps : int or None
        Of the descent; None: by rule.
    stochastic : RiemannianSGD or None
        DP-RSGD, calibrated before the clip norm is known: noise scales with it, and so do steps.
    public_seed : int
    """

    mu: float
    n: int
    d: int
    bounds: tuple[float, float] = (-1.0, 1.0)
    rank: int | None = None
    mechanism: str = "auto"
    test: str = "paid"
    n_steps: int | None = None
    stochastic: RiemannianSGD | None = None
    public_seed: int = 0

    def mu_of(self, share: float) -> float:
        """Mu of a release that has this share of mu**2."""
        return self.mu * math.sqrt(share)

    @property
    def small(self) -> dict[str, float]:
        """Shares of the small releases that can occur in this fit."""
        needed = {
            "count": True,
            "clipped": True,
            "level": True,
            "cut": True,
            "clip": self.may_descend,
            "signal": self.may_have_subspace and self.test == "paid",
            "ridge": self.may_have_subspace,
        }
        return {name: SMALL_SHARES[name] for name, used in needed.items() if used}

    @property
    def may_have_subspace(self) -> bool:
        """Whether a subspace may be released."""
        return self.mechanism != "none"

    @property
    def may_descend(self) -> bool:
        """Whether descent may run."""
        return self.mechanism in ("auto", "gradient", "stochastic")

    @property
    def main_share(self) -> float:
        """Share that the small releases leave."""
        return 1.0 - sum(self.small.values())

    @property
    def item_share(self) -> float:
        """First instalment of the item effects."""
        if not self.may_have_subspace:
            return self.main_share
        # The subspace has .6 at most (benchmarks/completion.py utility).
        return 0.4 * self.main_share

    @property
    def rest_share(self) -> float:
        """Reserved for the subspace; returned to the items when there is none."""
        return self.main_share - self.item_share

    @property
    def gaussian_share(self) -> float:
        """Share of mu**2 for releases about all users; 1 unless batches of users are sampled."""
        return 1.0 - self.rest_share if self.mechanism == "stochastic" else 1.0

    def snr(self, rank: int, share: float | None = None) -> float:
        """Clip norm times n over the noise of one descent step with `share`, by default all."""
        share = self.rest_share if share is None else share
        return self.n * self.mu_of(share) / (2.0 * math.sqrt(self.d * rank))

    def schedule(self, snr: float) -> tuple[int, float]:
        """Number of steps and mean step size, in units of the reciprocal clip norm."""
        n_steps = self.n_steps or (20 if snr < 20 else 40)
        return n_steps, min(max(math.sqrt(snr), 3.0), 16.0)

    @property
    def event(self) -> Event:
        """Event of the whole fit, whichever way its released decisions go."""
        if self.stochastic is not None:
            rest = self.stochastic.event(self.n)
            return compose([GaussianEvent(1.0 / self.mu_of(self.gaussian_share)), rest])
        return GaussianEvent(1.0 / self.mu)

    @property
    def releases(self) -> tuple[Release, ...]:
        """Names of what may be released, with shares; what is not needed goes to the items."""
        shares = {**self.small, "items, or the level alone": self.item_share}
        if self.may_have_subspace:
            shares["subspace, or items again"] = self.rest_share
        return tuple(Release(name, share, "gaussian") for name, share in shares.items())

    def check(self, epsilon: float, delta: float) -> None:
        """ValueError where a release that may occur has integers that are too coarse."""
        if self.event.tv:
            check_distance(self.event.tv, epsilon, delta)
        # Released numbers choose shares and lengths within these; items' integers only gain by
        # counts above the least.
        least, most = self.mu_of(self.small["count"]), self.mu
        items = ItemEffects(1.0, least).bounded_set(self.d)
        checked: list[tuple[BoundedSet, float]] = [
            (bounded_set, mu) for bounded_set in (LEVEL, items) for mu in (least, most)
        ]
        if self.may_have_subspace:
            modest, reserve = MODEST_SHARE * self.rest_share, self.rest_share
            checked.append((ballots(len(RIDGE_GRID)), self.mu_of(self.small["ridge"])))
            small = self.mechanism == "auto" and self.d <= LARGEST_MATRIX
            if small or self.mechanism == "covariance":
                square = Moment(1.0, self.d)
                checked += [(square, self.mu_of(share)) for share in (modest, reserve)]
            products = Outer(1.0, self.d, min(self.rank or 5, self.d - 1))
            if self.stochastic is not None:
                if not products.halves:
                    raise PublicValueError(
                        "sums over random batches need a set that holds its absences."
                    )
                checked.append((products, mu_of(self.stochastic.noise_multiplier)))
            elif self.may_descend:
                slow, fast = self.n_steps or 40, self.n_steps or 20
                checked += [
                    (products, self.mu_of(share) / math.sqrt(steps))
                    for share, steps in ((modest, slow), (reserve, fast))
                ]
        for bounded_set, mu in checked:
            bounded_set.check(mu)


@dataclass(frozen=True)
class CompletionModel:
    """The releases of a fit; all of them private, none about a single user."""

    level: float
    effects: np.ndarray
    counts: np.ndarray
    typical_count: float
    reason: str
    clipped: tuple[float, float]
    mechanism: str = "none"
    ridge: float = math.inf
    subspace: np.ndarray | None = None
    signal: float | None = None
    singular_values: np.ndarray | None = None
    noise_level: float | None = None


def release_model(
    matrix: sparse.csr_array, plan: CompletionPlan, streams: NoiseStreams
) -> CompletionModel:
    """Spend the budget of `plan` on `matrix`, ratings as a CSR array; clipped to [-1, 1].

    Every decision below is a function of public numbers and earlier releases, so the total is the
    adaptive composition that ``plan.event`` names.
    """
    small = plan.small
    typical = typical_count(matrix, plan.mu_of(small["count"]), streams("typical count"))
    clipped = clipped_ratings(matrix, plan.mu_of(small["clipped"]), streams("clipped"))
    matrix = with_data(matrix, np.clip(matrix.data, -1.0, 1.0))
    strength = effect_strength(plan.n, plan.d, plan.mu_of(plan.gaussian_share), typical)
    if strength < LEAST_STRENGTH:
        return _level_only(matrix, plan, typical, strength, clipped, streams)
    level = overall_level(matrix, plan.mu_of(small["level"]), streams("level"))
    uncut = share_within_bound(matrix, level, plan.mu_of(small["cut"]), streams("cut"))
    items = _Items(matrix, typical, level, uncut, plan, streams)
    items.add(plan.item_share, "items")

    mechanism, rank, reason = _choice(plan, typical)
    score, reserve = None, plan.rest_share
    if mechanism != "none" and "signal" in small:
        measured = items.residuals(), items.masses, plan, rank, typical, streams
        score, explained = _measured_signal(*measured)
        enough = score >= PAID_THRESHOLD
        reason += f"; measured signal {score:.2g} "
        reason += f"{'reaches' if enough else 'is below'} {PAID_THRESHOLD:g}"
        mechanism = mechanism if enough else "none"
        if enough and explained < STRONG_SIGNAL and mechanism == "gradient":
            reserve *= MODEST_SHARE
            items.add(plan.rest_share - reserve, "items again")
    subspace, ridge, spectrum, noise = None, math.inf, None, None
    if mechanism == "covariance":
        found = _covariance(items.residuals(), plan, rank, reserve, streams)
        subspace, spectrum, noise = found
    elif mechanism != "none":
        subspace = _descent(items.residuals(), plan, rank, reserve, streams)
    if subspace is not None:
        unit, mu = subspace.shape[1] / plan.d, plan.mu_of(small["ridge"])
        ridges = [c * unit for c in RIDGE_GRID]
        votes = voted_ridges(items.deviations(), subspace, ridges, mu, streams("ridge"))
        best = int(np.argmax(votes))
        ridge = ridges[best] if votes[best] > 0 else math.inf
        if math.isinf(ridge):
            reason += "; the users' vote left it unused"
    elif plan.may_have_subspace and plan.mechanism != "stochastic":
        done = {"count", "clipped", "level", "cut"} | ({"signal"} if score is not None else set())
        left = 1.0 - items.share - sum(share for name, share in small.items() if name in done)
        items.add(left, "items again")
    known = (items.effects, items.counts, typical, reason, clipped)
    return CompletionModel(level, *known, mechanism, ridge, subspace, score, spectrum, noise)


def _level_only(
    matrix: sparse.csr_array,
    plan: CompletionPlan,
    typical: float,
    strength: float,
    clipped: tuple[float, float],
    streams: NoiseStreams,
) -> CompletionModel:
    """Release only the overall level, with the remaining budget; item effects would be noise."""
    left = plan.mu_of(plan.gaussian_share - plan.small["count"] - plan.small["clipped"])
    level = overall_level(matrix, left, streams("level"))
    reason = (
        f"level only: item effects would stand out of their noise by {strength:.2g}, which is "
        f"below {LEAST_STRENGTH:g}"
    )
    warn_user(
        f"Nothing but the overall level was released: with n={plan.n}, {plan.d} items, about "
        f"{typical:.3g} ratings per user (private) and this epsilon, item effects would be noise. "
        "Use more users, fewer items or a larger epsilon."
    )
    nothing = np.zeros(plan.d)
    return CompletionModel(level, nothing, nothing, typical, reason, clipped)


class _Items:
    """Running average of the released item effects, with the data that more releases need."""

    def __init__(
        self,
        matrix: sparse.csr_array,
        typical: float,
        level: float,
        uncut: float,
        plan: CompletionPlan,
        streams: NoiseStreams,
    ) -> None:
        self.matrix, self.typical, self.level, self.uncut = matrix, typical, level, uncut
        self.plan, self.streams = plan, streams
        self.share = 0.0
        self.sums, self.counts = np.zeros(plan.d), np.zeros(plan.d)
        self.effects, self.masses = np.zeros(plan.d), np.ones(plan.d)

    def add(self, share: float, label: str) -> None:
        """Release the totals with this share of mu**2 and average with what is there."""
        part = ItemEffects(self.typical, self.plan.mu_of(share))
        units = user_deviations(self.matrix, self.level)
        sums, counts = part.release(units, self.streams(label))
        total = self.share + share
        self.sums = (self.share * self.sums + share * sums) / total
        self.counts = (self.share * self.counts + share * counts) / total
        self.share = total
        whole = ItemEffects(self.typical, self.plan.mu_of(total))
        self.effects, self.masses = whole.effects(self.sums, self.counts, self.uncut)

    def deviations(self) -> sparse.csr_array:
        """Ratings minus level and item effects."""
        values = centered_values(self.matrix, self.effects + self.level, np.zeros(self.plan.n))
        return with_data(self.matrix, values)

    def residuals(self) -> sparse.csr_array:
        """Residuals less the users' biases."""
        biases = user_biases(self.matrix, self.effects + self.level)
        values = centered_values(self.matrix, self.effects + self.level, biases)
        return with_data(self.matrix, values)


def _choice(plan: CompletionPlan, typical: float) -> tuple[str, int, str]:
    """Method, rank and reason from public numbers and the typical count."""
    if plan.mechanism == "none" or plan.d < 3:
        why = "asked for" if plan.mechanism == "none" else "two items span no smaller subspace"
        return "none", 0, f"item effects only: {why}"
    share = typical / plan.d
    mechanism, reason = plan.mechanism, "asked for"
    if mechanism == "auto":
        dense = share >= DENSE_SHARE and plan.d <= LARGEST_MATRIX
        mechanism = "covariance" if dense else "gradient"
        reason = f"a typical user rated {share:.2g} of the items"
    rank = plan.rank
    if rank is None:
        rank = 8 if mechanism == "covariance" else 5
    rank = min(rank, plan.d - 1)
    if plan.test == "paid" and plan.snr(rank) < HOPELESS_SNR:
        reason += f"; public signal-to-noise {plan.snr(rank):.3g} is below {HOPELESS_SNR:g}"
        mechanism = "none"
    return mechanism, rank, reason


def _measured_signal(
    residuals: sparse.csr_array,
    popularity: np.ndarray,
    plan: CompletionPlan,
    rank: int,
    typical: float,
    streams: NoiseStreams,
) -> tuple[float, float]:
    """Estimate the signal-to-noise ratio of a subspace from a noisy sum of leading eigenvalues.

    Also return the share of the variance that it would explain.
    """
    test = SignalTest(min(rank, plan.d), plan.n, plan.mu_of(SMALL_SHARES["signal"]))
    # The items with the largest released counts; one order for equal ones.
    columns = np.sort(np.argsort(-popularity, kind="stable")[:SIGNAL_ITEMS])
    total = max(test.release(Units((residuals[:, columns],)), streams("signal")), 0.0)
    total = whole_spectrum(total, popularity, columns)
    # A user of m ratings whose residuals lie in the subspace for a share s of their variance adds
    # about s m / d to the sum, for evenly spread observations.
    explained = total * plan.d / (plan.n * typical)
    # The mean eigenvalue over the noise that a spectrum released with 2/3 of the reserve has.
    height = total / rank * plan.mu_of(plan.rest_share / 1.5) / math.sqrt(plan.d)
    return height * math.sqrt(explained), explained


def _covariance(
    residuals: sparse.csr_array,
    plan: CompletionPlan,
    rank: int,
    share: float,
    streams: NoiseStreams,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Subspace of a noisy second moment, its spectrum and the edge of what noise alone has."""
    noisy, sigma = private_sum(
        Units((residuals,)),
        lambda rows: normalized_rows(rows).toarray(),
        Moment(1.0, plan.d),
        plan.mu_of(share),
        streams("covariance"),
    )
    np.fill_diagonal(noisy, 0.0)
    values, vectors = np.linalg.eigh(noisy)
    # Off-diagonal noise of standard deviation s fills [-2 s sqrt(d), 2 s sqrt(d)].
    edge = 2.0 * sigma / math.sqrt(2.0) * math.sqrt(plan.d)
    return np.ascontiguousarray(vectors[:, ::-1][:, :rank]), values[::-1], edge


def _descent(
    residuals: sparse.csr_array,
    plan: CompletionPlan,
    rank: int,
    share: float,
    streams: NoiseStreams,
) -> np.ndarray:
    """Subspace of a private descent, on all users or on batches of them."""
    problem = CompletionProblem(residuals, rank, 10.0 * rank / plan.d)
    start = problem.geometry.random_point(public_generator(plan.public_seed, "start", rank))
    prior = log_normal_weights(NORM_GRID, NORM_MEDIAN, NORM_SPREAD)
    median = PrivateQuantile(NORM_GRID, 0.5, plan.mu_of(plan.small["clip"]), prior)
    # Clipping at .35 of the median norm at the start weighs bias against noise.
    clip = 0.35 * median.release(problem.norms(start), streams("clip"))
    bounded_set, rng = Outer(clip, plan.d, rank), streams("descent")
    if plan.stochastic is not None:
        batches: Batches = plan.stochastic.sampler
        n_steps, mu = plan.stochastic.moves.n_steps, mu_of(plan.stochastic.noise_multiplier)
        moves = Moves(n_steps, STOCHASTIC_STEP / clip, retraction=True)
    else:
        batches = FullBatch()
        n_steps, step_size = plan.schedule(plan.snr(rank, share))
        # Decreasing to zero: late steps average the noise that early ones let in.
        steps = 2.0 * step_size / clip * (1.0 - np.arange(n_steps) / n_steps)
        mu = plan.mu_of(share) / math.sqrt(n_steps)
        moves = Moves(n_steps, tuple(steps), retraction=True)
    expect_integers(rng, n_steps * plan.d * rank)
    path, size = Trajectory(problem.geometry, start, moves, rng), batches.expected_size(plan.n)
    for _ in range(n_steps):
        units = problem.units(batches.batch(bounded_set, plan.n, rng))
        noisy = private_sum(units, problem.products(path.point), bounded_set, mu, rng)
        path.advance(problem.leave(path.point, noisy.value / size))
    return path.result
