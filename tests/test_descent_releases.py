"""Samplers: what they draw, need to know and cost; one object answers all three."""

import dataclasses
import math
from unittest import mock

import numpy as np
import pytest
from scipy.stats import binom

from skriemdp._descent import releases
from skriemdp._descent.problem import FrechetProblem
from skriemdp._descent.queries import GradientQuery, Query
from skriemdp._descent.releases import FixedSizeSampler, FullBatch, PoissonSampler
from skriemdp._descent.stochastic import RiemannianSGD, calibrated_sgd
from skriemdp._descent.trajectory import Moves
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.bounds import Ball, clip_norms
from skriemdp._mechanisms.budget import Steps
from skriemdp._random import NoiseStreams
from skriemdp.auditing import audit_scores
from skriemdp.geometry import SPD, Euclidean, GeodesicBall, Sphere
from skriemdp.privacy._calibration import gaussian_delta

LINE = Euclidean(1)
# Two-sided tests below use this many standard deviations or binomial tails: false alarms <= 1e-6.
TAIL = 2.5e-7


class LineQuery(Query):
    """Fixed numbers, as a query on the real line."""

    geometry, point, dim = LINE, np.zeros(1), 1

    def __init__(self, values, radius=math.inf, center=None):
        self.values = np.asarray(values, dtype=float)
        self.n = len(self.values)
        self.bound = Ball(radius, None if center is None else np.array([center]))

    def blocks(self, indices=None):
        yield (self.values if indices is None else self.values[indices])[:, None]


def exact(sampler, query, rng):
    """A release without its noise."""
    with mock.patch.object(noise, "draw", lambda exact, *law, **bounds: exact):
        return float(sampler.noisy_mean(query, 1.0, Steps(1), rng)[0])


# -- draws ----------------------------------------------------------------------------------------


@pytest.fixture(params=["one by one", "ahead"])
def coins(request, rng):
    """A generator, and one that draws many batches at a time."""
    return rng if request.param == "one by one" else NoiseStreams(3)("batches")


def test_poisson_draws_are_independent_coins(coins):
    n, trials = 12, 20_000
    sampler = PoissonSampler(batch_size=3.0)
    draws = np.zeros((trials, n), dtype=bool)
    for row in draws:
        row[sampler.draw(n, coins)] = True
    low, high = binom.ppf([TAIL, 1 - TAIL], trials, 0.25)
    assert ((low <= draws.sum(axis=0)) & (draws.sum(axis=0) <= high)).all()
    pairs = (draws[:, 0] & draws[:, 1]).sum()
    low, high = binom.ppf([TAIL, 1 - TAIL], trials, 0.25**2)
    assert low <= pairs <= high
    empty = (draws.sum(axis=1) == 0).sum()
    low, high = binom.ppf([TAIL, 1 - TAIL], trials, 0.75**n)
    assert low <= empty <= high


def test_fixed_size_draws_are_uniform_subsets(coins):
    n, trials = 12, 10_000
    sampler = FixedSizeSampler(batch_size=3)
    draws = np.zeros((trials, n), dtype=bool)
    for row in draws:
        row[sampler.draw(n, coins)] = True
    assert (draws.sum(axis=1) == 3).all()
    low, high = binom.ppf([TAIL, 1 - TAIL], trials, 0.25)
    assert ((low <= draws.sum(axis=0)) & (draws.sum(axis=0) <= high)).all()


@pytest.mark.parametrize("sampler", [PoissonSampler(50), FixedSizeSampler(50)], ids=repr)
def test_batches_are_sorted_and_without_repetition(sampler, coins):
    for _ in range(20):
        chosen = sampler.draw(1000, coins)
        assert (np.diff(chosen) > 0).all()
        assert chosen.min() >= 0 and chosen.max() < 1000


def test_few_batches_are_drawn_ahead_each_of_its_own_sampler(monkeypatch):
    asked, real = [], releases._subset

    def noted(n, size, rng):
        asked.append((n, size))
        return real(n, size, rng)

    monkeypatch.setattr(releases, "_subset", noted)
    coins = NoiseStreams()("batches")
    for _ in range(2**7):
        assert 0 <= PoissonSampler(2**8).draw(2**20, coins).max() < 2**20
        assert len(FixedSizeSampler(3).draw(9, coins)) == 3
    large = [(n, size) for n, size in asked if n != 9]
    assert [n for n, _ in large] == [2**20 * 2**k for k in (0, 1, 2, 3, 4, 5, 5, 5, 5)]
    assert all(abs(size - n / 2**12) < 6 * (n / 2**12) ** 0.5 for n, size in large)
    assert [size for n, size in asked if n == 9] == [3] * (2**8 - 1)


def test_batches_drawn_ahead_repeat_with_their_seed():
    first, again = (
        [PoissonSampler(5).draw(100, coins).tolist() for _ in range(9)]
        for coins in (NoiseStreams(1)("batches"), NoiseStreams(1)("batches"))
    )
    assert first == again
    assert len({tuple(batch) for batch in first}) == 9


# -- releases -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampler, variance",  # the most of a batch mean of numbers in [-1, 1], of 12 records
    [
        (FullBatch(), 0.0),
        (PoissonSampler(4, 1), (1 - 4 / 12) / 4),
        (FixedSizeSampler(4, 1), 2 / 11),
    ],
    ids=repr,
)
def test_releases_estimate_the_mean(sampler, variance, rng):
    values = rng.uniform(size=12)
    query = LineQuery(values, radius=1.0)
    answers = [exact(sampler, query, rng) for _ in range(4000)]
    spread = math.sqrt(variance / 4000)
    assert abs(np.mean(answers) - values.mean()) <= 5.1 * spread + 1e-9
    assert np.var(answers) <= variance * 1.2 + 1e-12


def test_poisson_divides_by_the_public_size(rng):
    query = LineQuery(np.ones(10), radius=1.0)
    answers = {round(exact(PoissonSampler(5.0, 1), query, rng) * 5) for _ in range(200)}
    assert len(answers) > 3  # the realised sizes 0..10 show; a realised normaliser would give 1


def test_poisson_centre_is_taken_out_and_put_back(rng):
    values = 100.0 + rng.uniform(-1, 1, size=40)
    query = LineQuery(values, radius=1.0, center=100.0)
    answers = [exact(PoissonSampler(20.0, 1), query, rng) for _ in range(200)]
    assert np.ptp(answers) < 2.0  # without the centre the random batch size alone spreads by tens


@pytest.mark.parametrize(
    "sampler", [FullBatch(), PoissonSampler(4, 1), FixedSizeSampler(4, 1)], ids=repr
)
def test_no_record_moves_a_release_by_more_than_the_noise_unit(sampler):
    # Same coins on both sides: the shift over the unit of noise is at most one, and is attained.
    values = np.zeros(8)
    shifts = []
    for seed in range(50):
        sides = []
        for value in (-1.0, 1.0):
            values[3] = value
            query = LineQuery(values, radius=1.0)
            sides.append(exact(sampler, query, np.random.default_rng(seed)))
        shifts.append(abs(sides[1] - sides[0]))
    unit = noise_unit(sampler)
    assert max(shifts) == pytest.approx(unit, rel=1e-6)


def noise_unit(sampler):
    """Standard deviation of a release of zeros with noise multiplier one."""
    rng = np.random.default_rng(7)
    query = LineQuery(np.zeros(8), radius=1.0)
    wide = [float(sampler.noisy_mean(query, 1.0, Steps(1), rng)[0]) for _ in range(3000)]
    expected = 2.0 / sampler.expected_size(8)
    assert np.std(wide) == pytest.approx(expected, rel=0.08)  # six standard deviations
    return expected


# -- the public ball of a problem -----------------------------------------------------------------


@pytest.mark.parametrize(
    "sampler",
    [FullBatch(), PoissonSampler(1.0, 1), FixedSizeSampler(2, 1)],
    ids=repr,
)
def test_nothing_is_released_without_a_bound(sampler, rng):
    query = LineQuery([100.0, 101.0, 100.5])
    with pytest.raises(ValueError, match="pass a finite clip_norm"):
        sampler.noisy_mean(query, 1.0, Steps(1), rng)


def test_a_bound_on_differences_only_cannot_be_said():
    # Records far from zero but close to each other: absent ones count as the public centre.
    query = LineQuery([100.0, 101.0, 100.5], radius=1.0)
    rows = np.concatenate([query.bound.enforce(block) for block in query.blocks()])
    assert np.abs(rows).max() <= 1.0


def far_pair_epsilon(q, count, separation, delta):
    """True epsilon of Poisson steps when two records far from zero differ by `separation` sds.

    Far away, a step shows whether the record was in the batch; given that it was k times, the two
    records are told apart by k Gaussian answers: delta = E[delta_{separation sqrt(k)}].
    """
    ks = np.arange(1, 60)
    weights = binom.pmf(ks, count, q)

    def profile(epsilon):
        parts = [gaussian_delta(separation * math.sqrt(k), epsilon) for k in ks]
        return float(weights @ parts)

    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if profile(middle) > delta else (low, middle)
    return high


def test_accepting_a_diameter_would_be_a_violation():
    q, count, delta = 0.01, 1000, 1e-5
    reported = PoissonSampler(1.0).event(100, 1.0, count).epsilon(delta)
    assert reported == pytest.approx(1.205, abs=0.005)
    assert far_pair_epsilon(q, count, 1.0, delta) == pytest.approx(23.4, abs=0.1)


@pytest.mark.slow
def test_audit_finds_the_violation_of_a_diameter_bound(rng):
    # False-alarm rate 1e-6: the confidence of the audit.
    q, count, trials = 0.01, 1000, 200_000
    hits = rng.binomial(count, q, size=(2, trials))
    sums = rng.standard_normal((2, trials)) * np.sqrt(hits) + np.array([[0.0], [1.0]]) * hits
    scores = sums - hits / 2  # log-likelihood ratio
    found = audit_scores(*scores, delta=1e-5, confidence=1 - 1e-6)
    assert found.epsilon > 1.5 > 1.21


def test_problem_bounds_reach_the_query():
    ball = GeodesicBall(SPD(2), None, 1.0)
    problem = FrechetProblem(ball, np.broadcast_to(np.eye(2), (5, 2, 2)))
    point = np.diag([3.0, 1.0])
    bound = GradientQuery(problem, point).bound
    assert bound.radius == 1.0
    assert bound.radius == pytest.approx(1, rel=1e-14)
    np.testing.assert_allclose(bound.center, -SPD(2).log_coordinates(point, ball.center))
    clipped = GradientQuery(problem, point, 0.25).bound
    assert (clipped.center, clipped.radius) == (None, 0.25)
    assert clipped.radius == pytest.approx(0.25, rel=1e-14)


@pytest.mark.parametrize("clip_norm", [0.3, 0.8, 1.5, math.inf])
@pytest.mark.parametrize("geometry", [SPD(2), Sphere(2)], ids=str)
def test_query_bounds_hold(geometry, clip_norm, rng):
    ball = GeodesicBall(geometry, None, 0.7)
    coordinates = rng.standard_normal((300, geometry.dim))
    coordinates *= 0.7 / np.linalg.norm(coordinates, axis=1, keepdims=True)
    points = ball.project(geometry.exp_coordinates(ball.center, coordinates))
    problem = FrechetProblem(ball, points)
    here = geometry.exp_coordinates(ball.center, np.full(geometry.dim, 0.5))
    query = GradientQuery(problem, here, clip_norm)
    each = np.stack([query.exact(np.array([i])) for i in range(300)])
    assert np.linalg.norm(each, axis=1).max() <= query.bound.radius * (1 + 1e-9)
    pairs = np.linalg.norm(each[:150] - each[150:], axis=1)
    assert pairs.max() <= 2.0 * query.bound.radius * (1 + 1e-9)
    # The ball holds every clipped gradient before it is enforced: enforcing it moves none.
    rows = clip_norms(np.concatenate(list(query.blocks())), clip_norm)
    center = 0.0 if query.bound.center is None else query.bound.center
    np.testing.assert_allclose(each, rows - center, atol=1e-9)


# -- events ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampler, kind",
    [
        (FullBatch(), "GaussianEvent"),
        (PoissonSampler(10), "PoissonSampledGaussianEvent"),
        (FixedSizeSampler(10), "FixedSizeSampledGaussianEvent"),
    ],
    ids=["full", "poisson", "fixed"],
)
def test_the_event_is_the_samplers_and_nobody_elses(sampler, kind):
    solver = RiemannianSGD(sampler, 2.0, Moves(20, 0.1), clip_norm=1.0)
    event = solver.event(100)
    assert type(event).__name__ == kind
    assert event.count == 20
    # No argument of a solver takes an event, so another one cannot be smuggled in.
    assert not {f.name for f in dataclasses.fields(solver)} & {"event", "accounting"}
    with pytest.raises(AttributeError):
        solver.event = lambda n: None
    with pytest.raises(dataclasses.FrozenInstanceError):
        solver.sampler = PoissonSampler(1)


def test_other_samplers_are_refused():
    class Shuffled:
        def event(self, n, noise_multiplier, count):
            return PoissonSampler(1.0).event(n, noise_multiplier, count)

        def release(self, query, noise_multiplier, rng):
            return query.exact(None)

    with pytest.raises(TypeError, match="shuffled epochs"):
        RiemannianSGD(Shuffled(), 1.0, Moves(3, 0.1))

    class Cheaper(FixedSizeSampler):
        def event(self, n, noise_multiplier, count=1):
            return PoissonSampler(self.batch_size).event(n, noise_multiplier, count)

    with pytest.raises(TypeError):
        RiemannianSGD(Cheaper(5), 1.0, Moves(3, 0.1))


@pytest.mark.parametrize(
    "q, s, count, delta, fixed, poisson",
    [(0.01, 2.0, 1000, 1e-5, 0.719, 0.561), (0.1, 3.0, 100, 1e-5, 1.480, 1.270)],
)
def test_reference_table(q, s, count, delta, fixed, poisson):
    n = 1000
    size = round(q * n)
    assert FixedSizeSampler(size).event(n, s, count).epsilon(delta) == pytest.approx(
        fixed, abs=2e-3
    )
    assert PoissonSampler(size).event(n, s, count).epsilon(delta) == pytest.approx(
        poisson, abs=2e-3
    )


@pytest.mark.parametrize("kind", [PoissonSampler, FixedSizeSampler])
def test_calibration_ends_on_the_private_side(kind):
    solver = calibrated_sgd(kind(20), Moves(50, 0.1), 1000, 1.0, 1e-5)
    assert solver.event(1000).epsilon(1e-5) <= 1.0
    less = dataclasses.replace(solver, noise_multiplier=0.98 * solver.noise_multiplier)
    assert less.event(1000).epsilon(1e-5) > 1.0


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: PoissonSampler(0), ValueError),
        (lambda: PoissonSampler(5).event(4, 1.0), ValueError),
        (lambda: FixedSizeSampler(2.5), TypeError),
        (lambda: FixedSizeSampler(4).event(4, 1.0), ValueError),
    ],
)
def test_bad_sizes(make, error):
    with pytest.raises(error):
        make()


# -- audits ---------------------------------------------------------------------------------------


def worst_case_scores(sampler, query_of, noise, trials, score, seed):
    rng = np.random.default_rng(seed)
    sides = []
    for value in (-1.0, 1.0):
        query = query_of(value)
        sides.append(
            [float(sampler.noisy_mean(query, noise, Steps(1), rng)[0]) for _ in range(trials)]
        )
    return [score(np.asarray(side)) for side in sides]


def one_step_audit(sampler, n, multiplier, noise, trials=4000):
    """Audit one real step on the worst pair; `noise` is drawn, `multiplier` is claimed."""

    def query_of(value):
        values = np.zeros(n) if isinstance(sampler, PoissonSampler) else np.full(n, -1.0)
        values[0] = value
        return LineQuery(values, radius=1.0)

    def score(outputs):
        return outputs  # the likelihood ratio increases with the output

    scores = worst_case_scores(sampler, query_of, noise, trials, score, seed=n)
    found = audit_scores(*scores, delta=0.05, confidence=1 - 1e-6)
    return found.epsilon, sampler.event(n, multiplier, 1).epsilon(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampler", [PoissonSampler(4.0, integers=1), FixedSizeSampler(4, integers=1)], ids=repr
)
def test_audit_of_one_sampled_step(sampler):
    # False-alarm rate 1e-6 per case.
    found, claimed = one_step_audit(sampler, 8, multiplier=0.7, noise=0.7)
    assert 0.2 * claimed < found <= claimed
    found, claimed = one_step_audit(sampler, 8, multiplier=0.7, noise=0.2)
    assert found > claimed


@pytest.mark.slow
def test_audit_of_the_wrong_event():
    # A fixed-size batch of one under the Poisson event.  All other gradients are -1 (in units of
    # the clip norm), record 0 has +1: a step that draws it answers one sensitivity higher.
    # False-alarm rate 1e-6.
    q, s, count, delta = 0.001, 0.5, 1000, 1e-6
    reported = PoissonSampler(1.0).event(1000, s, count).epsilon(delta)
    true = FixedSizeSampler(1).event(1000, s, count).epsilon(delta)
    assert reported == pytest.approx(0.271, abs=0.01) and true == pytest.approx(4.284, abs=0.01)
    rng = np.random.default_rng(3)

    def scores(present, blocks=80, size=1000):
        ratios = []
        for _ in range(blocks):
            outputs = s * rng.standard_normal((size, count), dtype=np.float32)
            if present:
                outputs += rng.random((size, count), dtype=np.float32) < q
            ratios.append(np.log1p(q * np.expm1((outputs - 0.5) / s**2)).sum(axis=1))
        return np.concatenate(ratios)

    found = audit_scores(scores(False), scores(True), delta=delta, confidence=1 - 1e-6)
    assert reported < found.epsilon <= true
