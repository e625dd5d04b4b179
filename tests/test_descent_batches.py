"""Integers on random batches: what they add to delta, who is in a batch, whole fits."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import pickle
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.sparse import csr_matrix, issparse
from threadpoolctl import threadpool_limits

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateNoisyAdaGrad,
    PrivateRiemannianERM,
)
from skriemdp._descent.queries import GradientQuery, Query
from skriemdp._descent.releases import FixedSizeSampler, PoissonSampler
from skriemdp._descent.stochastic import calibrated_sgd
from skriemdp._descent.trajectory import Moves
from skriemdp._linear_model.glm import GeneralizedLinearLoss, LinearProblem, unit_rows
from skriemdp._mechanisms.batch_sizes import COIN, _table, binomial_sizes, coin_threshold
from skriemdp._mechanisms.bounded_sets import Moment, Outer, RoundedRows, ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import Steps
from skriemdp._mechanisms.sum import integer_total, mu_of
from skriemdp._mechanisms.units import Units
from skriemdp._random import NoiseStreams
from skriemdp.federated import Agent, FederatedEstimator, LocalSettings
from skriemdp.geometry import SPD, Euclidean, Hyperboloid, Sphere, Stiefel
from skriemdp.geometry._tiles import blocks_of_at_most
from skriemdp.ledger._filters import make_filter
from skriemdp.privacy import _lattice as lattice
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import (
    FixedSizeSampledGaussianEvent,
    GaussianEvent,
    MixtureEvent,
    ParallelEvent,
    PoissonSampledGaussianEvent,
    PureEvent,
    SelectionEvent,
    SelfComposedEvent,
    compose,
    event_from_dict,
)
from skriemdp.privacy._lattice import rounding_distance, rounding_divergence

# -- Theorem 3 -----------------------------------------------------------------------------------


def discrete_and_rounded(s, reach=14):
    """Probabilities of -reach s, ..., reach s under both laws, in 40 digits."""
    with mp.workdps(40):
        steps = range(-reach * s, reach * s + 1)
        weights = [mp.exp(-(mpf(t) ** 2) / (2 * s * s)) for t in steps]
        total = mp.fsum(weights)
        discrete = [w / total for w in weights]
        cuts = [mp.ncdf((mpf(t) - mpf(1) / 2) / s) for t in (*steps, reach * s + 1)]
        rounded = [b - a for a, b in zip(cuts, cuts[1:], strict=False)]
    return list(steps), discrete, rounded


@pytest.mark.parametrize("s", [2, 3, 5, 10, 20])
def test_discrete_noise_is_near_rounded_noise(s):
    steps, discrete, rounded = discrete_and_rounded(s)
    with mp.workdps(40):
        tv = mp.fsum(max(p - r, mpf(0)) for p, r in zip(discrete, rounded, strict=True))
        bound = mpf(1) / (24 * s * s)
        assert 0.39 < tv / bound < 0.5  # the proof gives away a factor of two, no more
        for t, p, r in zip(steps, discrete, rounded, strict=True):
            if abs(t) <= 8 * s:  # beyond, differences of distribution functions lose digits
                assert r >= (1 - bound) * p
                assert r <= mp.exp(mpf(t) ** 2 / (24 * mpf(s) ** 4)) * p * (1 + mpf(10) ** -25)


def sampled_deltas(law, s, shift, q, epsilon):
    """Delta at epsilon of one Poisson step, absent against shift, by this law of noise."""
    reach = len(law) // 2
    here = dict(zip(range(-reach, reach + 1), law, strict=True))
    spots = range(-reach - shift, reach + shift + 1)
    mixed = {
        sign: [(1 - q) * here.get(t, 0) + q * here.get(t - sign * shift, 0) for t in spots]
        for sign in (1, -1)
    }
    growth = mp.exp(mpf(epsilon))
    return mp.fsum(max(a - growth * b, 0) for a, b in zip(mixed[1], mixed[-1], strict=True))


@pytest.mark.parametrize(("s", "shift"), [(4, 2), (6, 6), (12, 3)])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0, 3.0])
def test_profiles_of_small_lattices_count_the_distance(s, shift, epsilon):
    """Records of length `shift` in a batch: the noise is ``s / (2 shift)`` sensitivities."""
    _, discrete, rounded = discrete_and_rounded(s)
    q = 0.3
    real = PoissonSampledGaussianEvent(q, s / (2 * shift)).delta(epsilon)
    with mp.workdps(40):
        found = sampled_deltas(discrete, s, shift, mpf(q), epsilon)
        tails = mpf(10) ** -30  # beyond the reach of both tables
        assert sampled_deltas(rounded, s, shift, mpf(q), epsilon) <= real + tails
        assert found <= real + (1 + math.exp(epsilon)) / (24 * s * s)


# -- events --------------------------------------------------------------------------------------

COARSE = 2**12
POISSON = PoissonSampledGaussianEvent(0.1, 1.5, count=10, integers=7)
FIXED = FixedSizeSampledGaussianEvent(100, 10, 1.5, count=10, integers=7)


@pytest.fixture
def coarse(monkeypatch):
    """A scale so small that the distance shows."""
    monkeypatch.setattr(lattice, "NOISE_SCALE", COARSE)


def real(event):
    """The same event with real noise."""
    text = json.dumps(event.to_dict()).replace('"integers": 7', '"integers": 0')
    return event_from_dict(json.loads(text))


TV = 70 / (24 * COARSE**2)


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize(
    ("event", "distance"),
    [
        (POISSON, TV),
        (FIXED, TV),
        (SelfComposedEvent(POISSON, 3), 3 * TV),
        (compose([POISSON, POISSON, FIXED, GaussianEvent(3.0)]), 3 * TV),
        (compose([POISSON, PureEvent(0.1)]), TV),
        (ParallelEvent((POISSON, GaussianEvent(2.0))), TV),
        (MixtureEvent((0.25, 0.75), (GaussianEvent(2.0), POISSON)), 0.75 * TV),
        (SelectionEvent(POISSON, 8.0), 8 * TV),
        (SelectionEvent(FIXED, 8.0, "poisson"), 8 * TV),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_every_statement_counts_the_distance(event, distance, coarse):
    assert event.tv == pytest.approx(distance, rel=1e-8)
    assert event.tv >= distance
    again = event_from_dict(json.loads(json.dumps(event.to_dict())))
    assert again == event
    assert again.tv == event.tv
    plain = real(event)
    assert plain.tv == 0.0
    for epsilon in (0.1, 1.0, 2.5):
        # What holds at a smaller epsilon holds here too.
        sums = [
            plain.delta(smaller) + (1 + math.exp(smaller)) * distance
            for smaller in np.linspace(0.0, epsilon, 400)
        ]
        assert again.delta(epsilon) == pytest.approx(min(sums), rel=1e-4)
        assert again.delta(epsilon) >= min(sums) * (1 - 1e-4)
    for delta in (1e-4, 1e-3):
        epsilon = again.epsilon(delta)
        if math.isfinite(epsilon):
            assert epsilon > plain.epsilon(delta)
            assert again.delta(epsilon) <= delta * (1 + 1e-8)
            assert again.delta(epsilon * (1 - 1e-4)) > delta
    # Nothing below the distance can be promised.
    assert again.epsilon(distance) == math.inf


def test_full_batches_need_no_delta():
    for event in (
        PoissonSampledGaussianEvent(1.0, 2.0, integers=5),
        FixedSizeSampledGaussianEvent(10, 10, 2.0, integers=5),
    ):
        assert event.tv == 0.0
        assert event.mu == 0.5


def test_the_distance_at_the_usual_scale():
    assert rounding_distance(10**6, 10**4) == pytest.approx(1e10 / (24 * 2.0**80), rel=1e-8)
    exact = Fraction(7 * 10, 24 * 2**80)
    assert Fraction(POISSON.tv) >= exact


def test_stored_events_of_real_noise_are_read():
    stored = POISSON.to_dict()
    del stored["integers"]
    assert event_from_dict(stored) == real(POISSON)


@pytest.mark.parametrize("kind", ["auto", "renyi", "gdp", "sum"])
def test_ledgers_charge_integers_on_batches(kind, coarse):
    rule = make_filter(kind, 8.0, 1e-2)
    cost, plain = rule.cost(POISSON), rule.cost(real(POISSON))
    if kind == "gdp":  # the mu of full batches, which integers have
        assert cost == plain
    elif kind == "sum":
        assert all(a > b for a, b in zip(cost, plain, strict=True))
        epsilon, delta = (amount / 10**24 for amount in cost)
        assert POISSON.delta(epsilon) <= delta
    else:
        places = {"auto": (1, 2), "renyi": (0, 1)}[kind]
        rho, delta = (cost[i] - plain[i] for i in places)
        assert delta == 1
        expected = rounding_divergence(POISSON.tv, rule.order)
        assert rho == pytest.approx(expected * 10**24, rel=1e-9)
        assert rho > POISSON.tv * 10**24


@dataclasses.dataclass(frozen=True)
class Counted(Event):
    """The same integers with their distance inside of the profile and of the divergences."""

    base: Event
    kind = "counted"

    def renyi(self, order):
        return self.base.renyi(order) + rounding_divergence(self.base.tv, order)

    def _exact_delta(self, epsilon):
        return self.base.delta(epsilon)

    def privacy_loss_distribution(self, interval=1e-4):
        raise AssertionError("divergences are asked here")


MADE_OF = {
    "rare": lambda run: MixtureEvent((0.99, 0.01), (compose([]), run)),
    "equal": lambda run: MixtureEvent((0.5, 0.5), (GaussianEvent(1.0), run)),
    "geometric": lambda run: SelectionEvent(run, 1.2),
    "logarithmic": lambda run: SelectionEvent(run, 8.0, shape=0.0),
    "poisson": lambda run: SelectionEvent(run, 0.4, "poisson"),
    "many": lambda run: SelectionEvent(run, 20.0, "poisson"),
    "nested": lambda run: MixtureEvent((0.9, 0.1), (compose([]), SelectionEvent(run, 2.0))),
    "parts": lambda run: ParallelEvent((GaussianEvent(9.0), SelfComposedEvent(run, 1))),
}


@pytest.mark.parametrize("kind", ["auto", "renyi"])
@pytest.mark.parametrize("name", MADE_OF)
def test_ledgers_charge_mixtures_and_searches_for_the_distance_of_their_runs(name, kind, coarse):
    """Not less than the divergence of the event whose runs have the distance inside."""
    make, rule = MADE_OF[name], make_filter(kind, 30.0, 1e-2)
    place = {"auto": 1, "renyi": 0}[kind]
    charged = rule.cost(make(POISSON))[place] / 10**24
    assert charged >= make(Counted(POISSON)).renyi(rule.order) * (1 - 1e-12)
    assert charged > make(real(POISSON)).renyi(rule.order)


def test_a_ledger_on_disk_counts_the_distance(tmp_path, coarse):
    accountant = PrivacyAccountant(20.0, 1e-2, path=tmp_path / "ledger.db")
    accountant.spend(POISSON, label="one")
    accountant.spend(POISSON, label="two")
    again = PrivacyAccountant(20.0, 1e-2, path=tmp_path / "ledger.db")
    both = compose([POISSON, POISSON])
    assert again.spent.epsilon == both.epsilon(1e-2) > real(both).epsilon(1e-2)


# -- who is in a batch ---------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "q"), [(1, 0.3), (7, 0.25), (40, 1 / 3), (30, 0.97), (25, 1e-9)])
def test_sizes_have_the_binomial_law(n, q):
    threshold = coin_threshold(q)
    assert Fraction(threshold, COIN) <= Fraction(q) < Fraction(threshold + 1, COIN)
    smallest, sums = _table(n, threshold)
    weights = np.diff([0, *sums])
    p = Fraction(threshold, COIN)
    law = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    found = [Fraction(0)] * smallest + [Fraction(int(w), sums[-1]) for w in weights]
    found += [Fraction(0)] * (n + 1 - len(found))
    distance = sum(abs(a - b) for a, b in zip(law, found, strict=True)) / 2
    assert distance <= Fraction(n * n, 2**512)


def test_sizes_are_drawn_from_the_table(rng):
    sizes = np.array(binomial_sizes(1000, 0.05, 4000, rng))
    # Five standard deviations of the mean, and ten per cent of the variance: false alarms < 1e-6.
    assert abs(sizes.mean() - 50.0) < 5 * math.sqrt(47.5 / 4000)
    assert abs(sizes.var() / 47.5 - 1.0) < 0.12
    assert binomial_sizes(9, 1.0, 5, rng) == [9] * 5
    assert binomial_sizes(9, 1e-300, 5, rng) == [0] * 5


# -- sums ----------------------------------------------------------------------------------------


class Pairwise(Query):
    """A set whose records move a sum further by their absence than half a replacement."""

    n = dim = 3
    bounded_set = Moment(1.0, 3)

    def blocks(self, indices=None):
        yield np.eye(3)[indices]


@pytest.mark.parametrize("sampler", [PoissonSampler(2, 9), FixedSizeSampler(2, 9)])
def test_bounds_of_differences_are_refused(sampler, rng):
    with pytest.raises(TypeError, match="half as far"):
        sampler.noisy_mean(Pairwise(), 1.0, Steps(1), rng)


def test_more_integers_than_charged_are_refused(rng):
    query = GradientQuery(mean_problem(Euclidean(3), 50), np.zeros(3), 1.0)
    with pytest.raises(RuntimeError, match="more integers"):
        PoissonSampler(5, 2).noisy_mean(query, 1.0, Steps(1), rng)


def mean_problem(geometry, n, seed=0):
    rng = np.random.default_rng(seed)
    c = rng.normal(size=(n, geometry.dim))
    c *= 0.5 * rng.random((n, 1)) / np.linalg.norm(c, axis=1, keepdims=True)
    X = np.asarray(geometry.exp_coordinates(geometry.base_point, c))
    return PrivateRiemannianERM(geometry)._problem(X)


@pytest.mark.parametrize("geometry", [Sphere(2), SPD(3), Hyperboloid(2)], ids=str)
def test_sums_of_batches_are_the_same_in_any_order_and_tiles(geometry):
    problem = mean_problem(geometry, 4001)
    chosen = np.flatnonzero(np.random.default_rng(1).random(4001) < 0.5)
    point = geometry.base_point

    def released(indices):
        query = GradientQuery(problem, point, 0.3)
        return query.noisy(0.5, np.random.default_rng(7), indices).value

    first = released(chosen)
    for other in (chosen[::-1], np.random.default_rng(2).permutation(chosen)):
        np.testing.assert_array_equal(released(other), first)
    for size in (2**10, 2**14, 2**22):
        with blocks_of_at_most(size):
            np.testing.assert_array_equal(released(chosen), first)
    for threads in (1, 2):
        with threadpool_limits(threads):
            np.testing.assert_array_equal(released(chosen), first)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_sums_of_products_are_the_same_in_any_order(n_outputs):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 17)), rng.integers(0, max(n_outputs, 2), size=2000).astype(float)
    loss = GeneralizedLinearLoss("log_loss", n_outputs, 0.5)
    bounded_set = Outer(0.5, 18, n_outputs)
    steps = bounded_set.check(0.5)
    problem = LinearProblem(unit_rows(X, 1.0, True), y, loss)
    units = Units((bounded_set.rounded(problem.rows, steps), y))
    weights = rng.normal(size=(18, n_outputs))
    chosen = np.flatnonzero(rng.random(2000) < 0.3)

    def total(indices):
        give = problem.gradients(weights / bounded_set.resolution(steps), batch_invariant=True)
        return integer_total(units.take(indices), give, bounded_set, steps)

    first = total(chosen)
    for other in (chosen[::-1], rng.permutation(chosen)):
        assert (total(other) == first).all()
    # What the others add does not move when one record is left out.
    alone = total(chosen[5:6])
    assert (total(np.delete(chosen, 5)) + alone == first).all()
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert (total(chosen) == first).all()


# -- the low bits --------------------------------------------------------------------------------


def one_step(value, integers, trials):
    """What one Poisson step on the line releases: batches hold nine zeros, and the value or not."""
    records = np.zeros((10, 1))
    records[0] = value
    problem = PrivateRiemannianERM(Euclidean(1), gradient=lambda p, X, y: X)._problem(records)
    sampler = PoissonSampler(5, integers)
    rng = np.random.default_rng(3)
    query = GradientQuery(problem, np.zeros(1), 1.0)
    return np.array([5 * sampler.noisy_mean(query, 4.0, Steps(1), rng)[0] for _ in range(trials)])


def test_batches_have_one_support_whatever_their_records():
    bounded_set = ball(Ball(1.0), 1)
    spacing = bounded_set.spacing(bounded_set.check(mu_of(4.0)))
    for value in (0.0, 1 / 3, 1.0):
        units = one_step(value, 1, 1500) / spacing
        np.testing.assert_allclose(units, np.rint(units), rtol=1e-12)
        odd = np.mod(np.rint(units), 2.0).mean()
        assert 0.43 < odd < 0.57  # both residues, five standard deviations


# -- whole fits ----------------------------------------------------------------------------------

LABELS = (np.random.default_rng(0).random(400) < 0.5).astype(int)


def rows(geometry, n=400):
    return mean_problem(geometry, n).X


def erm(**settings):
    return PrivateRiemannianERM(Sphere(2), n_steps=20, batch_size=40, **settings)


def federated(epsilon=1.0, **settings):
    settings = {"clients_per_round": 4, **settings}
    mean = PrivateFrechetMean(Sphere(2), radius=0.6, epsilon=epsilon)
    return FederatedEstimator(mean, 3, **settings)


FITS = {
    "poisson": (erm(), ()),
    "fixed-size": (erm(sampling="fixed-size"), ()),
    "variance-reduced": (erm(solver="variance-reduced", smoothness=1.0), ()),
    "adagrad": (PrivateNoisyAdaGrad(classes=[0, 1], batch_size=150), (LABELS,)),
    "federated": (federated(), (np.arange(400) % 4,)),
    "federated joblib": (federated(n_jobs=1), (np.arange(400) % 4,)),
    "federated batches": (federated(batch_fraction=0.3, local_steps=2), (np.arange(400) % 4,)),
    "federated svrg": (federated(local="rsvrg", batch_fraction=0.3), (np.arange(400) % 4,)),
    "federated clients": (
        federated(unit="client", clients_per_round=60, epsilon=10.0),
        (np.arange(400) % 200,),
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_fits_say_what_they_add(name, recording_accountant):
    model, more = FITS[name]
    data = {"clients": more[0]} if name.startswith("federated") else {}
    labels = () if data else more
    model.set_params(accountant=recording_accountant).fit(rows(Sphere(2)), *labels, **data)
    spent = model.privacy_spent_
    assert spent.public["arithmetic"] == "exact integers"
    (charged,) = recording_accountant.spends
    assert charged == spent.event
    assert spent.event.delta(spent.epsilon) <= spent.delta
    assert spent.event.epsilon(spent.delta) <= spent.epsilon
    sampled = name not in ("federated", "federated joblib")
    assert (spent.event.tv > 0.0) == sampled


def test_a_delta_without_room_for_integers_is_refused(recording_accountant):
    model = erm(delta=1e-24, accountant=recording_accountant)
    with pytest.raises(ValueError, match="noise"):
        model.fit(rows(Sphere(2)))
    assert not recording_accountant.spends
    assert model.set_params(delta=1e-18).fit(rows(Sphere(2))).privacy_spent_.event.tv > 0.0


def mixing_bits(point, X, y):
    return -2.0 * (X @ point)[:, None] * X


@pytest.mark.parametrize(
    ("geometry", "settings"),
    [
        (Stiefel(3, 2), {}),
        (Sphere(9), {"euclidean_gradient": mixing_bits}),
    ],
    ids=["coupled logarithms", "gradient that mixes bits"],
)
def test_what_couples_rows_is_asked_apart(geometry, settings):
    """What a record adds has the same bits in any batch: in batches, and among people."""
    X = np.random.default_rng(0).normal(size=(300, 10))
    if not settings:
        rng = np.random.default_rng(0)
        X = np.stack([geometry.random_point(rng) for _ in range(300)])
    model = PrivateRiemannianERM(
        geometry, n_steps=3, batch_size=30, accountant=PrivacyAccountant(), **settings
    )
    problem = model.fit(X)._problem(X)
    assert model.privacy_spent_.public["arithmetic"] == "exact integers"
    bounded_set, point = ball(Ball(1.0), geometry.dim), model.point_
    steps = bounded_set.check(1.0)

    def total(chosen, problem=problem):
        return problem.integers(bounded_set, steps, (point,), np.asarray(chosen))

    chosen = np.flatnonzero(np.random.default_rng(1).random(300) < 0.2)
    for out in (0, 3, len(chosen) - 1):
        rest = total(np.delete(chosen, out)) + total(chosen[out : out + 1])
        np.testing.assert_array_equal(total(chosen), rest)
    # All rows have places of their own: what one adds there is the same among others.
    moves = []
    for others in (X, X[::-1]):
        sums = []
        for row in X[:2]:
            table = others.copy()
            table[7] = row
            sums.append(model._problem(table).integers(bounded_set, steps, (point,)))
        moves.append(sums[1] - sums[0])
    np.testing.assert_array_equal(*moves)


def test_calibration_counts_the_integers():
    solvers = [
        calibrated_sgd(PoissonSampler(100, integers), Moves(50), 1000, 1.0, 1e-17)
        for integers in (0, 10**6)
    ]
    events = [solver.event(1000) for solver in solvers]
    assert events[1].delta(1.0) <= 1e-17
    assert events[1].tv > 1e-18 and solvers[1].noise_multiplier > solvers[0].noise_multiplier


# -- streams -------------------------------------------------------------------------------------


def test_a_stock_of_noise_stays_in_its_process():
    settings = LocalSettings("rsgd", 1, 0.5, 1.0, 1.0)
    problem = mean_problem(Euclidean(3), 20)
    agent = Agent("a", problem, settings, 2.0, shared=NoiseStreams()("simulated clients"))
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(agent)
    assert pickle.loads(pickle.dumps(Agent("a", problem, settings, 2.0))).shared is None


# -- what is given to a sum ------------------------------------------------------------------------


def bits(given):
    """What `give` said, as arrays that compare bit by bit."""
    parts = given if isinstance(given, tuple) else (given,)
    whole = [part.rows if isinstance(part, RoundedRows) else part for part in parts]
    return [np.asarray(part.toarray() if issparse(part) else part) for part in whole]


@contextlib.contextmanager
def every_batch_in_company():
    """Each row that a batch or a person gives is given once more alone, moved and among others."""
    real, seen = Units.tiles, []

    def tiles(self, give, width, per_person):
        def checked(*rows):
            found, count = give(*rows), rows[-1].shape[0]
            if self.chosen is None and self.groups is None:
                return found
            seen.append(count)
            order = np.random.default_rng(count).permutation(count)
            for some in (order, order[: count // 2], order[:1], order[:2], np.arange(1, count)):
                if len(some):
                    again = give(*(part[some] for part in rows))
                    for one, other in zip(bits(found), bits(again), strict=True):
                        np.testing.assert_array_equal(one[some], other)
            return found

        yield from real(self, checked, width, per_person)

    with mock.patch.object(Units, "tiles", tiles):
        yield seen


WIDE = np.random.default_rng(3).normal(size=(400, 43))
OUTPUTS = {"one": np.arange(400) % 2, "several": np.arange(400) % 5, "numbers": WIDE[:, 0]}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["dense", "sparse", "people", "all people", "subspace"])
@pytest.mark.parametrize("outputs", OUTPUTS)
def test_rows_of_a_linear_models_batch_have_bits_of_their_own(outputs, form):
    """Matrix products of a library round a row at another place another way."""
    y = OUTPUTS[outputs]
    known = (
        {"loss": "squared_error", "target_range": (-4.0, 4.0)}
        if outputs == "numbers"
        else {"classes": np.unique(y)}
    )
    if form == "subspace":
        known["subspace"] = np.linalg.qr(WIDE[:43, :17])[0]
    size = None if form == "all people" else 90
    model = PrivateNoisyAdaGrad(
        feature_norm=8.0, batch_size=size, n_steps=3, fit_intercept=False, **known
    )
    X = csr_matrix(WIDE) if form == "sparse" else WIDE
    groups = np.arange(400) // 3 if "people" in form else None
    with every_batch_in_company() as seen:
        model.fit(X, y, groups=groups)
    assert len(seen) >= 3 and max(seen) > 30
