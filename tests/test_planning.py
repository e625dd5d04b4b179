"""What a fit plans before it sees records: composed profiles, and integrals behind them."""

import json
import math
import warnings

import mpmath
import numpy as np
import pytest
from sklearn.base import clone

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateHyperbolicRegressor,
    PrivateMatrixCompletion,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateRiemannianERM,
    PrivateTangentClassifier,
    PrivateTangentPCA,
)
from skriemdp.datasets import make_cloud
from skriemdp.geometry import SPD, Hyperboloid, Sphere
from skriemdp.plotting import PlanDisplay
from skriemdp.privacy._events import GaussianEvent, PureEvent, compose
from skriemdp.privacy._laplace import LaplaceEvent, laplace_law
from skriemdp.riemannian_laws._gaussian_chords import Cells, choose_cells, chord_delta, memoized
from skriemdp.riemannian_laws._profile_hockey import log_delta
from skriemdp.riemannian_laws._profile_integrand import RadialPair
from skriemdp.riemannian_laws._profile_mu import mu_at_zero
from skriemdp.riemannian_laws._profile_spd import MatrixRelease
from skriemdp.riemannian_laws._profiles import RiemannianEvent, calibrated_riemannian_event
from skriemdp.riemannian_laws._quadrature import Window, integrate

# -- a Gaussian and a Laplace release together -----------------------------------------------------


def laplace_profile(dim, shift):
    """The profile in one or three dimensions, in mpmath's precision."""
    a = mpmath.mpf(shift)

    def three(e):
        # Caps of the two-dimensional sphere are linear: shares u and v of docs/theory.
        start = (a - e) / 2
        c = a - e

        def outside(r):
            first = r**2 * (2 * r + a + e) * c / (4 * r * a)
            second = (r + e) ** 2 * (2 * r + e - a) * c / (4 * (r + e) * a)
            return first - second

        # A polynomial of degree 2 (here through three points) times exp(-r), from `start` on.
        f0, f1, f2 = (outside(start + k) for k in range(3))
        second = (f2 - 2 * f1 + f0) / 2
        first = f1 - f0 - second
        tail = mpmath.exp(-start) * (f0 + first + 2 * second) / 2
        return mpmath.gammainc(3, 0, start, regularized=True) + tail

    def profile(e):
        if e >= a:
            return mpmath.mpf(0)
        return 1 - mpmath.exp((e - a) / 2) if dim == 1 else three(e)

    return profile


def exact_composition(profile, mu, epsilon, kink):
    """E[delta(epsilon - L)] in 40 digits."""
    mu, epsilon, kink = mpmath.mpf(mu), mpmath.mpf(epsilon), mpmath.mpf(kink)

    def any_sign(e):
        if e >= 0:
            return profile(e)
        return 1 - mpmath.exp(e) + mpmath.exp(e) * profile(-e)

    def integrand(z):
        return any_sign(epsilon - mu**2 / 2 - mu * z) * mpmath.npdf(z)

    corners = [(epsilon - x) / mu - mu / 2 for x in (kink, 0, -kink)]
    edges = sorted({x for x in [*map(mpmath.mpf, range(-16, 17)), *corners] if abs(x) <= 16})
    pieces = [mpmath.quad(integrand, pair) for pair in zip(edges[:-1], edges[1:], strict=True)]
    return mpmath.fsum(pieces)


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize(
    ("shift", "mu", "epsilon"),
    [(1.0, 0.05, 0.97), (0.95, 0.1, 1.0), (0.5, 0.5, 1.0), (0.9, 0.02, 1.0), (2.0, 2.0, 6.0)],
)
def test_composed_profile_against_many_digits(dim, shift, mu, epsilon):
    with mpmath.workdps(40):
        profile = laplace_profile(dim, shift)
        middle = float(profile(mpmath.mpf(0.3 * shift)))
        exact = exact_composition(profile, mu, epsilon, shift)
    law = LaplaceEvent(dim, 1.0 / shift)
    assert law.delta(0.3 * shift) == pytest.approx(middle, rel=1e-9)
    event = compose([GaussianEvent(1.0 / mu), law])
    assert exact <= event.delta(epsilon) <= (1.0 + 1e-8) * exact


@pytest.mark.parametrize("mu", [1e-7, 1e-3, 0.3, 4.0, 14.0])
def test_cells_are_the_expectation_of_chords(mu):
    # Chords of 1 and of exp(-L) are exact, and those of a convex function lie above it.
    cells = Cells(mu, np.linspace(-9.0, 9.0, 181))
    assert cells.weights.sum() + cells.tail == pytest.approx(1.0, rel=1e-12)
    inside = math.exp(-mu * mu) if mu > 9.0 else 1.0
    if mu < 1.0:
        assert cells.weights @ np.exp(-cells.losses) == pytest.approx(inside, rel=1e-9)
    assert (cells.weights >= 0.0).all()


def test_any_cells_give_a_bound_and_chosen_ones_a_close_one():
    law = laplace_law(3, 0.8, 1e-5)

    def profile(epsilons):
        return np.array([law.delta(epsilon) for epsilon in epsilons])

    exact = law.delta_with_gaussian(0.1, 1.0)
    fine = chord_delta(profile, 0.1, 1.0, cells=Cells(0.1, np.linspace(-9.0, 9.0, 4001)))
    coarse = chord_delta(profile, 0.1, 1.0, cells=Cells(0.1, np.linspace(-5.0, 9.0, 30)))
    chosen = choose_cells(profile, 0.1, 1.0)
    assert exact <= fine <= coarse and chosen.edges.size < 300
    assert fine * (1.0 - 1e-4) <= chord_delta(profile, 0.1, 1.0, cells=chosen) <= 1.003 * fine


# -- searches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", [SPD(2), Sphere(2)], ids=str)
def test_a_fit_searches_its_law_once(geometry, rng):
    X = make_cloud(geometry, 200, rng=rng)
    before = laplace_law.cache_info().misses
    epsilon = 0.9 + 0.01 * geometry.dim
    PrivateFrechetMean(
        geometry, center=geometry.base_point, epsilon=epsilon, random_state=0, radius=1.0
    ).fit(X)
    # Alone, for what the looks may cost, and behind them.
    assert laplace_law.cache_info().misses == before + 2


def bumps(centres, widths):
    def evaluate(index, t):
        z = (t - centres[index, None]) / widths[index, None]
        return -0.5 * z * z, np.ones((1, *t.shape))

    return evaluate


def test_integrals_do_not_depend_on_guessed_windows():
    centres, widths = np.linspace(-4.0, 9.0, 60), np.geomspace(0.02, 0.4, 60)
    exact = widths * math.sqrt(2.0 * math.pi)
    for window in (
        None,
        Window(),
        Window(centres - 12.0 * widths, centres + 12.0 * widths),
        Window(centres + 3.0, centres + 4.0),  # beside the peaks
        Window(centres - widths, centres + widths),  # too narrow
        Window(np.full(60, -5.5), np.full(60, 12.0)),  # so wide that peaks fall between the nodes
        Window(np.zeros(3), np.ones(3)),  # of other integrals
    ):
        factor, sums = integrate(bumps(centres, widths), 60, (-5.5, 12.0), window)
        np.testing.assert_allclose(np.exp(factor) * sums[0], exact, rtol=1e-12)


def test_no_place_of_the_nodes_hides_an_error():
    """A rule's error turns with the place of its nodes, and vanishes at some; not at two spacings.

    Of 96 steps it is 1e-8 here, and of 48 it is zero: they differ by less than is asked for.
    """
    low, high = -4.0, 9.0
    step = 1.08 * (high - low) / 96  # a guessed window is widened by 4 % at both ends
    centre = low - 0.04 * (high - low) + 40.5 * step
    width = 0.984 * step
    window = Window(np.array([low]), np.array([high]))
    factor, sums = integrate(bumps(np.array([centre]), np.array([width])), 1, (-5.5, 12.0), window)
    exact = width * math.sqrt(2.0 * math.pi)
    assert np.exp(factor) * sums[0] == pytest.approx([exact], rel=1e-12)


def test_a_profile_is_asked_once():
    asked = []

    def profile(epsilons):
        asked.extend(epsilons.tolist())
        return np.exp(-epsilons)

    once = memoized(profile)
    for epsilons in ([0.5, 1.0, 0.5], [1.0, 2.0], [2.0, 0.5]):
        np.testing.assert_array_equal(once(np.array(epsilons)), np.exp(-np.array(epsilons)))
    assert sorted(set(asked)) == [0.5, 1.0, 2.0] and asked.count(1.0) == asked.count(2.0) == 1


def test_a_ledger_without_a_ceiling_needs_no_divergence(monkeypatch, rng):
    def refuse(event, order):
        raise AssertionError("a divergence was computed")

    monkeypatch.setattr(LaplaceEvent, "renyi", refuse)
    X = make_cloud(SPD(2), 100, rng=rng)
    model = PrivateFrechetMean("spd", epsilon=0.77, center=np.eye(2), radius=1.0).fit(X)
    assert model.privacy_spent_.event.delta(0.77) <= model.delta


# -- 2x2 matrices ----------------------------------------------------------------------------------


def directions(sensitivity, scale, count=7):
    root = math.sqrt(0.5)
    for q in np.linspace(0.0, 0.9, count):
        distance = sensitivity * math.sqrt(1.0 - q) * root
        yield q, RadialPair("gaussian", -1, 2, distance, scale * root)


@pytest.mark.parametrize(("sensitivity", "scale"), [(0.007, 0.026), (0.02, 0.6), (1.0, 3.0)])
def test_the_bound_of_mu_holds_in_every_direction(sensitivity, scale):
    bound = MatrixRelease(sensitivity, scale).gdp_bound
    m = sensitivity / scale
    found = [
        math.hypot(mu_at_zero(pair), m * math.sqrt(q)) for q, pair in directions(sensitivity, scale)
    ]
    assert max(found) <= bound <= 1.01 * max(found)


@pytest.mark.parametrize(
    ("sensitivity", "scale", "epsilon"), [(0.007, 0.026, 1.0), (0.02, 0.6, 0.1), (0.5, 1.0, 1.0)]
)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_matrix_delta_in_every_direction(sensitivity, scale, epsilon, share):
    m = sensitivity / scale
    mu = share * m
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    exact = []
    for q, pair in directions(sensitivity, scale):
        line = math.hypot(mu, m * math.sqrt(q))
        level = epsilon - 0.5 * line**2 - line * nodes
        size = np.abs(level)
        value = np.exp(log_delta(pair, size))
        value = np.where(level >= 0, value, 1.0 - np.exp(-size) * (1.0 - value))
        exact.append(float(weights @ value) / math.sqrt(2.0 * math.pi))
    event = RiemannianEvent("gaussian", "spd", 3, -0.5, sensitivity, scale)
    if mu:
        event = compose([GaussianEvent(1.0 / mu), event])
    assert max(exact) <= event.delta(epsilon) <= 1.08 * max(exact)
    # The reported profile is the one at 1.003 times the sensitivity, and its inverse agrees.
    reported = event.delta(epsilon)
    assert event.epsilon(reported * (1.0 + 1e-7)) == pytest.approx(epsilon, rel=1e-4)


@pytest.mark.parametrize(("n", "target"), [(300, (0.97, 9.7e-6)), (60, (0.3, 1e-4))])
def test_matrix_calibration_is_close_to_the_worst_direction(n, target):
    epsilon, delta = target
    event = calibrated_riemannian_event(
        "gaussian", "spd", 3, -0.5, 2.0 / n, epsilon=epsilon, delta=delta
    )
    assert event.delta(epsilon) <= delta
    # With .4 % less noise the direction in the plane alone would break the target.
    narrower = MatrixRelease(2.0 / n, event.scale / 1.004).worst_pair
    assert math.exp(log_delta(narrower, np.array([epsilon]))[0]) > delta


def test_other_compositions_still_use_loss_distributions():
    event = compose([GaussianEvent(5.0), PureEvent(0.1)])
    assert event._exact_delta(1.0) is None and 0.0 < event.delta(1.0) < 1e-3


# -- what an estimator says before any data are seen ---------------------------------------------

ROWS = np.random.default_rng(5).normal(size=(240, 4))
HALVES = (ROWS[:, 0] > 0.0).astype(int)
POINTS = Hyperboloid(2).exp_coordinates(Hyperboloid(2).base_point, 0.1 * ROWS[:, :2])
# Estimator, y, what `plan` is told of y.
PLANNED = (
    (PrivateFrechetMean(), None, {}),
    (PrivateFrechetMean(center=np.zeros(4), radius=4.0), None, {}),
    (PrivateFrechetMean(center=np.zeros(4), radius=4.0, delta=0.0), None, {}),
    (PrivateFrechetMean(center=np.zeros(4), radius=4.0, mechanism="gaussian"), None, {}),
    (PrivateFrechetMean(uncertainty=True), None, {}),
    (PrivateMinimumDistanceToMean(classes=[0, 1]), HALVES, {}),
    (PrivateMinimumDistanceToMean(classes=[0, 1], uncertainty=True), HALVES, {}),
    (PrivateTangentClassifier(classes=[0, 1]), HALVES, {}),
    (PrivateTangentClassifier(radius=4.0, classes=[0, 1]), HALVES, {}),
    (PrivateTangentPCA(), None, {}),
    (PrivatePrincipalEigenvector(), None, {}),
    (PrivatePrincipalEigenvector(2, 3.0, center="assume"), None, {}),
    (PrivatePrincipalEigenvector(delta=0.0), None, {}),
    (PrivateNoisyAdaGrad(classes=[0, 1]), HALVES, {}),
    (PrivateNoisyAdaGrad("huber", batch_size=60), ROWS[:, 0], {}),
    (PrivateMatrixCompletion(), None, {}),
    (PrivateHyperbolicRegressor(), 0.1 * ROWS[:, :2], {"y_shape": 2}),
    (PrivateHyperbolicRegressor(manifold="hyperboloid"), POINTS, {"y_shape": 3}),
    (PrivateGeodesicRegressor(), ROWS[:, 0], {}),
    (PrivateGeodesicRegressor("hyperboloid"), POINTS, {"y_shape": 3}),
    (PrivateRiemannianERM(), None, {}),
)


@pytest.mark.parametrize("case", PLANNED, ids=lambda case: str(case[0]))
def test_a_plan_is_what_a_fit_then_charges(case, recording_accountant):
    estimator, y, told = case
    warnings.simplefilter("ignore")
    model = clone(estimator).set_params(accountant=recording_accountant)
    before = dict(vars(model))
    plan = model.plan(len(ROWS), 4, **told)
    assert recording_accountant.spends == [] and vars(model) == before
    spent = model.fit(ROWS, y).privacy_spent_
    assert plan.releases == spent.releases
    assert (plan.unit, plan.mu, plan.arithmetic) == (
        spent.unit,
        spent.mu,
        spent.public["arithmetic"],
    )
    stated = spent.public.keys() - {"arithmetic", "releases"}
    assert plan.public.keys() == stated and plan.public["n"] == spent.public["n"]
    assert (plan.epsilon, plan.delta) == tuple(spent)
    read = json.loads(json.dumps(plan.to_dict()))
    assert [release["name"] for release in read["releases"]] == [r.name for r in plan.releases]
    text, page = str(plan), plan._repr_html_()
    for said in (type(estimator).__name__, plan.mechanism, *(r.name for r in plan.releases)):
        assert said in text and said.replace("'", "&#x27;") in page


def test_a_plan_of_people_and_of_a_secret_number():
    warnings.simplefilter("ignore")
    plan = PrivateFrechetMean().plan(100, (3,), grouped=True)
    assert plan.unit == "group" and plan.public["n_groups"] == 100
    with PrivacyAccountant(epsilon=3.0, delta=1e-4, unit="record, present or not"):
        plan = PrivateFrechetMean().plan(1000, 3)
        assert plan.unit == "record, present or not" and math.isfinite(plan.error())
        with pytest.raises(ValueError, match="number of records secret"):
            PrivatePrincipalEigenvector().plan(1000, 3)


@pytest.mark.parametrize(
    ("estimator", "asked", "cure"),
    [
        (PrivateFrechetMean(), (1, 3), "n"),
        (PrivateFrechetMean(), (10, 0), "shape"),
        (PrivateFrechetMean(delta=0.0), (10, 3), "pass a public center"),
        (PrivateFrechetMean(epsilon=-1.0), (10, 3), "epsilon"),
        (PrivatePrincipalEigenvector(5), (100, 4), "n_components=5"),
        (PrivateFrechetMean("hyperboloid"), (100, (3, 3)), "time coordinate first"),
        (PrivateRiemannianERM(n_steps=10**7), (100, 4), "most_steps"),
    ],
    ids=str,
)
def test_a_plan_refuses_what_a_fit_refuses(estimator, asked, cure):
    with pytest.raises(ValueError, match=cure):
        estimator.plan(*asked)


@pytest.mark.parametrize(
    ("estimator", "shape"),
    [
        (PrivateNoisyAdaGrad(), (300, 3)),
        (PrivateFrechetMean("sphere"), (300, 3)),
        (PrivateFrechetMean("spd"), (300, 4, 4)),
        (PrivatePrincipalEigenvector(), (300, 4)),
        (PrivateTangentClassifier("spd"), (300, 4, 4)),
    ],
    ids=str,
)
def test_the_shape_of_a_whole_table_is_told_from_that_of_a_row(estimator, shape):
    with pytest.raises(ValueError, match=r"shape=\(300.*of one row, X.shape\[1:\]"):
        estimator.plan(300, shape)
    estimator.plan(300, shape[1:])
    if type(estimator) is PrivateNoisyAdaGrad:  # points of such a shape exist, too
        said = PrivateFrechetMean().plan(300, shape).warnings
        assert any("shape=(300, 3) begins with n" in one for one in said)
        assert not any("begins with n" in one for one in PrivateFrechetMean().plan(300, 3).warnings)


def _fits(estimator, fit, error):
    """Median of the errors of a few fits with noise that the test repeats."""
    seeded = (clone(estimator).set_params(random_state=seed) for seed in range(16))
    return float(np.median([error(fit(model)) for model in seeded]))


def test_noise_is_foretold():
    """Ten settings and their numbers are in benchmarks/planning.py."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4)) * [3.0, 1.0, 1.0, 1.0] + [5.0, 0.0, 0.0, 0.0]
    middle = X.mean(axis=0)
    spread = math.sqrt(X.var(axis=0).sum())
    y = np.arange(2000) % 2
    means = np.stack([X[y == k].mean(axis=0) for k in (0, 1)])
    mean, pca = PrivateFrechetMean(noise="gaussian"), PrivatePrincipalEigenvector()
    classes = PrivateMinimumDistanceToMean(classes=[0, 1])
    leading = np.linalg.svd(X - middle, full_matrices=False)[2][0]
    for told, measured in (
        (
            mean.plan(2000, 4, spread=spread),
            _fits(mean, lambda m: m.fit(X), lambda m: np.linalg.norm(m.mean_ - middle)),
        ),
        (
            pca.plan(2000, 4, spread=[3.0, 1.0, 1.0, 1.0]),
            _fits(
                pca,
                lambda m: m.fit(X),
                lambda m: math.sqrt(1.0 - min(abs(m.components_[0] @ leading), 1.0) ** 2),
            ),
        ),
        (
            classes.plan(2000, 4, spread=spread),
            _fits(
                classes,
                lambda m: m.fit(X, y),
                lambda m: np.linalg.norm(m.means_ - means) / math.sqrt(2.0),
            ),
        ),
    ):
        assert 0.65 * measured <= told.error() <= 1.5 * measured
        assert 0.0 < told.error("floor") <= told.error()


def test_errors_without_a_spread_are_in_units_of_it():
    mean = PrivateFrechetMean(noise="gaussian")
    unit, told = mean.plan(1000, 3), mean.plan(1000, 3, spread=7.0)
    assert told.error() == pytest.approx(7.0 * unit.error())
    assert told.error("sampling") == pytest.approx(7.0 / math.sqrt(1000))
    assert told.smallest_n == unit.smallest_n
    assert PrivateMatrixCompletion().plan(1000, 30).smallest_n is None


def test_the_smallest_number_of_records_is_where_noise_gets_small():
    warnings.simplefilter("ignore")
    mean = PrivateFrechetMean(noise="gaussian")
    least = mean.plan(1000, 3).smallest_n
    assert mean.plan(least, 3).error() <= 0.25 < mean.plan(round(0.9 * least), 3).error()


def test_errors_fall_with_epsilon_in_a_picture():
    pytest.importorskip("matplotlib").use("Agg")
    display = PlanDisplay.from_estimator(
        PrivateFrechetMean(noise="gaussian"), 1000, 3, epsilons=[0.5, 1.0, 2.0], spread=2.0
    )
    lines = {line.get_label(): np.asarray(line.get_ydata()) for line in display.ax_.lines}
    assert lines.keys() == {"noise", "floor", "sampling"}
    assert (np.diff(lines["noise"]) < 0.0).all() and np.ptp(lines["sampling"]) == 0.0
    display.figure_.clf()


@pytest.mark.parametrize("kind", [PrivateHyperbolicRegressor, PrivateGeodesicRegressor])
def test_a_plan_asks_for_the_shape_of_responses_where_nothing_says_it(kind):
    with pytest.raises(ValueError, match="y_shape= is the shape of a row of y"):
        kind(manifold="hyperboloid").plan(500, 3)
    plan = kind(manifold=Hyperboloid(2)).plan
    assert str(plan(500, 3)) == str(plan(500, 3, y_shape=3))
