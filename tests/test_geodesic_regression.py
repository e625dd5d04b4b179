"""Regression along geodesics: what it finds, its bars, people, refusals, audits."""

import dataclasses
import math
from unittest import mock

import numpy as np
import pytest
from conftest import GEOMETRIES, random_points, weaker_scale

from skriemdp import PrivateGeodesicRegressor, PrivateHyperbolicRegressor
from skriemdp._groups import Groups
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.lifts import Lifts
from skriemdp._mechanisms.sum import PLAIN_STEPS, integer_total
from skriemdp._mechanisms.units import Units
from skriemdp._regression import geodesic_fit, geodesic_releases
from skriemdp._regression.geodesic_model import GeodesicModel
from skriemdp._regression.geodesic_releases import (
    GeodesicPlan,
    plan_releases,
    representatives,
)
from skriemdp._regression.planning import clip_norms
from skriemdp._regression.scores import frechet_r2
from skriemdp.auditing import audit_scores, worst_case_neighbours
from skriemdp.geometry import AffineInvariantSPD, Euclidean, Hyperboloid, LogEuclideanSPD, Sphere
from skriemdp.ledger._accountant import PrivacyAccountant

CURVED = [Sphere(2), Hyperboloid(2), AffineInvariantSPD(2)]
ENDS = np.array([[-1.0], [0.0], [1.0]])
BOUNDS = {"radius": 1.3, "feature_scale": 1.0}


def truth(geometry, length=1.2):
    """A geodesic whose middle lies 0.3 from the base point."""
    middle, slope = np.random.default_rng(5).normal(size=(2, geometry.dim))
    base = geometry.exp_coordinates(geometry.base_point, 0.3 * middle / np.linalg.norm(middle))
    return GeodesicModel(geometry, base, length / 2 * slope[None] / np.linalg.norm(slope))


def draw(model, n, rng, spread=0.1):
    X = rng.uniform(-1.0, 1.0, size=(n, len(model.slopes)))
    residuals = spread * rng.normal(size=(n, model.geometry.dim))
    return X, np.asarray(model.geometry.exp_coordinates(model.points(X), residuals))


# -- what it finds ----------------------------------------------------------------------------


def test_without_noise_it_is_linear_least_squares():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(400, 2)) / math.sqrt(2.0)
    y = 0.2 + X @ np.array([[0.1, 0.3, 0.0], [0.0, -0.2, 0.2]]) + 0.01 * rng.normal(size=(400, 3))
    rows = np.concatenate([np.ones((400, 1)), X], axis=1)
    exact = np.linalg.lstsq(rows, y, rcond=None)[0]
    with (
        mock.patch.object(noise, "draw", lambda value, *a, **k: np.array(value)),
        mock.patch.object(geodesic_releases, "_LEAST_FOR_TWO", math.inf),
    ):
        bounds = {"radius": 2.0, "feature_scale": 1.0}
        model = PrivateGeodesicRegressor(epsilon=1e4, **bounds).fit(X, y)
    # Records are rounded to some five digits.
    np.testing.assert_allclose(model.coef_, exact[1:], atol=1e-5)
    np.testing.assert_allclose(model.base_point_, exact[0], atol=1e-5)
    middle = rows.mean(axis=0) @ exact
    np.testing.assert_allclose(
        model.predict(X), middle + model.kept_ * (rows @ exact - middle), atol=1e-5
    )
    residuals = y - rows @ exact
    spread = residuals.T @ residuals / 400
    np.testing.assert_allclose(model.residual_covariance_, spread, rtol=0.1, atol=2e-5)


def test_units_and_places_do_not_matter():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 1))
    y = 0.5 * X[:, 0] + 0.1 * rng.normal(size=20_000)
    plain = PrivateGeodesicRegressor(epsilon=3.0).fit(X, y)
    moved = PrivateGeodesicRegressor(epsilon=3.0).fit(1e4 + 1e3 * X, 1e-3 * y - 7.0)
    assert plain.coef_[0, 0] == pytest.approx(0.5, abs=0.02)
    assert moved.coef_[0, 0] == pytest.approx(0.5e-6, abs=0.02e-6)
    assert moved.predict([[1e4]])[0] == pytest.approx(-7.0, abs=1e-4)
    error = moved.coef_standard_error_[0, 0] / plain.coef_standard_error_[0, 0]
    assert error == pytest.approx(1e-6, rel=0.5)


@pytest.mark.parametrize("geometry", [Sphere(2), Hyperboloid(2)], ids=str)
def test_one_release_is_corrected_for_curvature(geometry):
    """Regression in one tangent space is off by much more than the corrected model."""
    curve = truth(geometry)
    X, y = draw(curve, 4000, np.random.default_rng(2), 0.05)
    aim = curve.points(ENDS)

    def worst(model):
        return np.max(geometry.dist(model.predict(ENDS).reshape(aim.shape), aim))

    fits = []
    for bent in (geodesic_fit._bent, lambda model, change, *rest: (change, np.eye(change.size))):
        with (
            mock.patch.object(geodesic_fit, "_bent", bent),
            mock.patch.object(geodesic_releases, "_LEAST_FOR_TWO", math.inf),
        ):
            fits.append(
                PrivateGeodesicRegressor(
                    geometry, epsilon=500.0, center=geometry.base_point, **BOUNDS
                ).fit(X, y)
            )
    corrected, plain = map(worst, fits)
    assert corrected < 0.006
    assert plain > 1.5 * corrected


@pytest.mark.parametrize("geometry", [*CURVED, LogEuclideanSPD(2)], ids=str)
def test_two_releases_find_the_curve_and_its_spread(geometry):
    curve = truth(geometry)
    X, y = draw(curve, 5000, np.random.default_rng(3))
    model = PrivateGeodesicRegressor(geometry, epsilon=2.0, random_state=0).fit(X, y)
    assert model.n_releases_ == 2
    assert 0.15 < model.residual_radius_ < 0.6
    aim = curve.points(ENDS)
    assert np.max(geometry.dist(model.predict(ENDS).reshape(aim.shape), aim)) < 0.03
    np.testing.assert_allclose(np.diag(model.residual_covariance_), 0.01, rtol=0.5)
    assert model.score(X, y) > 0.6
    assert model.clipped_fraction_ < 0.1


def test_residuals_of_a_record_are_its_own_to_the_last_bit():
    rng = np.random.default_rng(4)
    for geometry in GEOMETRIES:
        if not geometry.separate_rows:
            continue
        points = random_points(geometry, rng, 40)
        slopes = 0.1 * rng.normal(size=(3, geometry.dim))
        model = GeodesicModel(geometry, geometry.base_point, slopes)
        features = rng.uniform(-0.5, 0.5, size=(40, 3))
        together = model.residuals(features, points)
        for i in (0, 7, 39):
            alone = model.residuals(features[i : i + 1], points[i : i + 1])
            np.testing.assert_array_equal(together[i], alone[0], err_msg=str(geometry))


def test_changes_are_limited_to_the_ball():
    model = GeodesicModel(Hyperboloid(2), Hyperboloid(2).base_point, np.zeros((1, 2)))
    moved = model.moved(np.array([[300.0, 0.0], [0.0, -900.0]]), 1.0)
    assert model.geometry.dist(moved.base, model.base) == pytest.approx(1.0)
    assert np.linalg.norm(moved.slopes) == pytest.approx(2.0)
    assert np.isfinite(moved.points(ENDS)).all()


# -- bars -------------------------------------------------------------------------------------


def coverage(geometry, fits, n, epsilon, **settings):
    curve = truth(geometry)
    aim, hits = curve.points(ENDS), []
    for fit in range(fits):
        X, y = draw(curve, n, np.random.default_rng(fit), **settings)
        model = PrivateGeodesicRegressor(
            geometry, center=geometry.base_point, epsilon=epsilon, random_state=fit, **BOUNDS
        ).fit(X, y)
        regions = model.confidence_region(ENDS)
        hits.append([bool(r.contains(p[None])[0]) for r, p in zip(regions, aim, strict=True)])
    return np.mean(hits, axis=0)


def test_regions_hold_the_line():
    found = coverage(Euclidean(2), 150, 400, 3.0)
    assert found.min() > 0.89, found


@pytest.mark.slow
@pytest.mark.parametrize("geometry", CURVED, ids=str)
def test_regions_hold_the_curve(geometry):
    found = coverage(geometry, 80, 2000, 1.0)
    assert found.min() > 0.86, found


def test_bars_are_of_sampling_and_of_noise():
    X, y = draw(truth(Euclidean(2)), 2000, np.random.default_rng(0))
    model = PrivateGeodesicRegressor(epsilon=1.0, random_state=0, **BOUNDS).fit(X, y)
    law = model._law
    sampling = dataclasses.replace(law, fixed=np.zeros_like(law.fixed)).covariances(ENDS)[1]
    noise_only = dataclasses.replace(law, spread=np.zeros_like(law.spread)).covariances(ENDS)[1]
    np.testing.assert_allclose(sampling + noise_only, law.covariances(ENDS)[1], rtol=1e-9)
    assert np.trace(sampling[0]) > 0 and np.trace(noise_only[0]) > np.trace(sampling[0])
    assert (law.thresholds(ENDS, 0.95) >= 5.99).all()
    assert str(model.confidence_region([0.0])).count("the point of the model") == 1


def test_bars_of_curved_space_are_those_of_flat_space_where_it_is_nearly_flat():
    axes = []
    for geometry in (Sphere(2, radius=1e3), Euclidean(2)):
        X, y = draw(truth(geometry), 2000, np.random.default_rng(0))
        with mock.patch.object(noise, "draw", lambda value, *a, **k: np.array(value)):
            model = PrivateGeodesicRegressor(geometry, center=geometry.base_point, **BOUNDS)
            model.fit(X, y)
        axes.append(model.confidence_region([1.0]).semi_axes)
    np.testing.assert_allclose(axes[0], axes[1], rtol=1e-3)


# -- people -----------------------------------------------------------------------------------


def own_averages(lifts, rows, groups):
    """What each person adds, in integers, in the order of their numbers."""
    units = Units((rows[:, :2], rows[:, 2:]), groups)
    return [
        integer_total(units.take(np.array([person])), lifts.lift, lifts.bounded_set, PLAIN_STEPS)
        for person in range(groups.count)
    ]


def test_averages_of_lifts_move_as_far_as_single_lifts_and_no_further():
    rng = np.random.default_rng(6)
    lifts, largest = Lifts((2, 2), (1.0, 1.0), 1.0, 1.0, people=True), 0.0
    groups = Groups.from_ids(np.repeat([0, 1], [6, 6]))
    for trial in range(400):
        rows = rng.normal(size=(12, 4))
        if trial % 2:  # equal rows, lifts of two people at right angles
            first, second = rng.normal(size=(2, 2))
            rows = np.repeat([[*first, *second], [*first, *-second]], 6, axis=0)
        rows[:, :2] *= 5.0 / np.linalg.norm(rows[:, :2], axis=1, keepdims=True)
        rows[:, 2:] *= 5.0 / np.linalg.norm(rows[:, 2:], axis=1, keepdims=True)
        one, two = own_averages(lifts, rows, groups)
        square = sum(int(x) ** 2 for x in (one - two).ravel())
        assert square <= PLAIN_STEPS**2
        largest = max(largest, square)
    assert largest > 0.998 * PLAIN_STEPS**2


def test_a_persons_average_is_of_own_rows_to_the_last_bit():
    rng = np.random.default_rng(7)
    mine, others = rng.normal(size=(2, 9, 4))
    lifts, found = Lifts((2, 2), (1.0, 0.5), 1.0, 1.0, people=True), []
    for count in (1, 4, 9):
        rows = np.concatenate([others[:count], mine])
        groups = Groups.from_ids(np.repeat([1, 0], [count, 9]))
        found.append(own_averages(lifts, rows, groups)[0])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    rows = lifts.lift(mine[:, :2], mine[:, 2:])
    matrix = lifts.bounded_set.value(found[0], PLAIN_STEPS)
    np.testing.assert_allclose(matrix, rows.T @ rows / 9, atol=1e-5)


def test_people_with_one_row_each_are_records():
    X, y = draw(truth(Sphere(2)), 300, np.random.default_rng(8))
    with mock.patch.object(noise, "draw", lambda value, *a, **k: np.array(value)):
        alone = PrivateGeodesicRegressor(Sphere(2), **BOUNDS).fit(X, y)
        people = PrivateGeodesicRegressor(Sphere(2), **BOUNDS).fit(X, y, np.arange(300))
    np.testing.assert_allclose(people.coef_, alone.coef_, atol=1e-4)
    assert people.privacy_spent_.unit == "group"
    assert people.privacy_spent_.public["n_groups"] == 300


def test_people_count_once_however_many_rows_they_have():
    rng = np.random.default_rng(9)
    sizes = rng.integers(1, 8, size=3000)
    person = np.repeat(np.arange(3000), sizes)
    X = rng.uniform(-1.0, 1.0, size=(len(person), 1))
    y = 0.4 * X[:, 0] + 0.1 * rng.normal(size=3000)[person] + 0.05 * rng.normal(size=len(person))
    model = PrivateGeodesicRegressor(radius=1.0, feature_scale=1.0).fit(X, y, groups=person)
    assert model.coef_[0, 0] == pytest.approx(0.4, abs=5 * model.coef_standard_error_[0, 0])
    assert model.coef_standard_error_[0, 0] < 0.02
    assert model.privacy_spent_.public["arithmetic"] == "exact integers"


def test_representatives_are_rows_of_their_own_group():
    ids = np.array([2, 0, 1, 0, 2, 2, 0])
    groups = Groups.from_ids(ids)
    assert ids[representatives(groups, 7)].tolist() == [0, 1, 2]
    others = Groups.from_ids(np.array([2, 0, 1, 1, 1, 0, 1, 0]))
    # Person 0 owns three rows both times, at other places of the table: the same one stands.
    place = [np.flatnonzero(i == 0).tolist() for i in (ids, np.array([2, 0, 1, 1, 1, 0, 1, 0]))]
    first, second = representatives(groups, 7)[0], representatives(others, 8)[0]
    assert place[0].index(first) == place[1].index(second)


def test_features_in_unlike_units_get_a_scale_each(rng):
    space, units = Sphere(2), np.array([1.0, 1e4])
    features = rng.uniform(-1.0, 1.0, size=(6000, 2))
    slopes = np.array([[0.3, 0.2], [0.2, -0.3]])
    noise = 0.1 * rng.normal(size=(6000, 2))
    y = space.exp_coordinates(space.base_point, features @ slopes + noise)
    model = PrivateGeodesicRegressor(space, random_state=0).fit(units * features, y)
    np.testing.assert_allclose(model.feature_scale_ / units, model.feature_scale_[0], rtol=0.5)
    assert model.score(units * features, y) > 0.8  # .81 without noise


# -- plans ------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", [Euclidean(3), Sphere(2), AffineInvariantSPD(3)], ids=str)
def test_searches_leave_enough(geometry):
    for n in (10, 31, 50, 101, 300, 10_000):
        plan = plan_releases(geometry, n, 1.0, None, None, 3, None, None, averaged=False)
        assert 0.0 < plan.searched <= (0.81 if plan.constant else 0.62)
    assert plan.two


def test_one_release_for_few_records():
    X, y = draw(truth(Euclidean(3)), 200, np.random.default_rng(0))
    model = PrivateGeodesicRegressor(**BOUNDS).fit(X, y)
    assert model.n_releases_ == 1 and model.residual_radius_ == 1.3
    assert PrivateGeodesicRegressor(epsilon=20.0, **BOUNDS).fit(X, y).n_releases_ == 2


def test_the_charge_is_one_gaussian_event_in_integers():
    X, y = draw(truth(Sphere(2)), 1500, np.random.default_rng(0))
    for settings in (BOUNDS, {}):
        budget = PrivacyAccountant(epsilon=2.0, delta=1e-4)
        model = PrivateGeodesicRegressor("sphere", accountant=budget, **settings).fit(X, y)
        assert model.privacy_spent_.mu == pytest.approx(model.privacy_spent_.event.mu)
        assert model.privacy_spent_.public["arithmetic"] == "exact integers"
        assert len(budget.history) == 1


# -- layouts and refusals ---------------------------------------------------------------------


def test_predictions_have_the_layout_of_the_responses():
    geometry = AffineInvariantSPD(2)
    X, y = draw(truth(geometry), 60, np.random.default_rng(0))
    points = PrivateGeodesicRegressor("spd", center=np.eye(2), epsilon=5.0, **BOUNDS).fit(X, y)
    flat = PrivateGeodesicRegressor("spd", center=np.eye(2), epsilon=5.0, **BOUNDS).fit(
        X, y.reshape(60, 4)
    )
    assert points.predict(X[:7]).shape == (7, 2, 2)
    assert flat.predict(X[:7]).shape == (7, 4)
    assert flat.geometry_ == points.geometry_ == geometry
    assert np.isfinite(points.score(X, y)) and np.isfinite(flat.score(X, y.reshape(60, 4)))
    assert points.score(X, points.predict(X)) == pytest.approx(1.0)
    numbers = PrivateGeodesicRegressor(epsilon=5.0, **BOUNDS).fit(X, X[:, 0])
    assert numbers.predict(X[:7]).shape == (7,) and numbers.coef_.shape == (1, 1)
    columns = PrivateGeodesicRegressor(epsilon=5.0, **BOUNDS).fit(X, X)
    assert columns.predict(X[:7]).shape == (7, 1)


def test_features_beyond_their_scale_count_as_its_rim():
    X, y = draw(truth(Euclidean(2)), 60, np.random.default_rng(0))
    model = PrivateGeodesicRegressor(epsilon=5.0, **BOUNDS).fit(X, y)
    rim = model.predict([[1.0], [-1.0]])
    np.testing.assert_allclose(model.predict([[30.0], [-1e300]]), rim, rtol=1e-12)


REFUSED = [
    ({"delta": 0}, "delta > 0"),
    ({"radius": -1.0}, "radius"),
    ({"radius": 2.0, "manifold": "sphere"}, "radius"),
    ({"center": "middle", "radius": 1.0}, "center"),
    ({"center": [0.0, 1.0]}, "center"),
    ({"feature_scale": "all"}, "feature_scale"),
    ({"feature_scale": [1.0, 2.0]}, "feature_scale"),
    ({"feature_scale": 0.0}, "feature_scale"),
    ({"feature_center": [1.0, 2.0]}, "feature_center"),
    ({"manifold": "spd"}, "symmetric|positive definite|spd"),
]


@pytest.mark.parametrize(("parameters", "words"), REFUSED, ids=str)
def test_what_cannot_run_is_refused_for_free(parameters, words):
    X, y = draw(truth(Sphere(2)), 40, np.random.default_rng(0))
    budget = PrivacyAccountant(epsilon=2.0)
    model = PrivateGeodesicRegressor(accountant=budget, **parameters)
    with pytest.raises((ValueError, TypeError), match=words):
        model.fit(X, y)
    assert len(budget.history) == 0


def test_every_entry_of_a_centre_is_looked_at():
    X, y = draw(truth(Sphere(2)), 40, np.random.default_rng(0))
    X = np.column_stack([X, X])
    for center in ([0.0, 1e61], [1e61, 0.0]):
        model = PrivateGeodesicRegressor(feature_center=center, accountant=PrivacyAccountant())
        with pytest.raises(ValueError, match="feature_center must hold 2 finite numbers"):
            model.fit(X, y)


def test_responses_that_are_no_points_are_called_y():
    with pytest.raises(ValueError, match="rows of y are not points"):
        PrivateGeodesicRegressor("sphere").fit(np.zeros((20, 1)), np.ones((20, 3)))


def test_hidden_features_are_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 30)) * 1e-3
    with pytest.warns(UserWarning, match="noise hides how the features vary"):
        PrivateGeodesicRegressor(radius=1.0, feature_scale=1.0).fit(X, X[:, 0])


def test_frechet_r2_is_that_of_the_hyperbolic_regressor():
    space = Hyperboloid(2)
    X, y = draw(truth(space), 200, np.random.default_rng(0))
    model = PrivateHyperbolicRegressor(manifold="hyperboloid", n_frequencies=8).fit(X, y)
    shared = frechet_r2(space, y, model.predict(X), np.ones(200))
    assert model.score(X, y) == pytest.approx(shared)
    ball = Sphere(2)
    y = draw(truth(ball), 200, np.random.default_rng(0))[1]
    assert frechet_r2(ball, y, y, np.ones(200)) == 1.0


# -- audits -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:noise hides")
@pytest.mark.parametrize(("n", "releases"), [(20, 1), (60, 2)])
def test_audit_of_whole_fits(n, releases):
    """What is stated survives (false alarm below 1e-7); with a quarter of the noise it does not."""
    estimator = PrivateGeodesicRegressor(epsilon=10.0, **BOUNDS)
    pair = worst_case_neighbours(estimator, n=n)
    found = {}
    for scale, trials in ((1.0, 150), (0.25, 200)):
        scores = np.empty((2, trials))
        for side, data in enumerate((pair.data, pair.neighbour)):
            for trial in range(trials):
                attack = Likelihood(pair)
                with (
                    mock.patch.object(noise, "draw", Weaker(scale)),
                    mock.patch.object(GeodesicPlan, "_moments", attack.bound()),
                ):
                    model = estimator.fit(*data)
                scores[side, trial] = attack.ratio
        assert model.n_releases_ == attack.seen == releases
        claimed = model.privacy_spent_.mu
        found[scale] = audit_scores(*scores, confidence=1 - 1e-7, tuning_share=0.2).mu
    assert found[1.0] <= claimed < found[0.25]


class Likelihood:
    """Log-likelihood ratio of a fit's released products, between two responses of the first record.

    All that is released, given what was released before: no attack on the model itself sees more.
    """

    def __init__(self, pair):
        self.ends, self.ratio, self.seen = (pair.data[1][:1], pair.neighbour[1][:1]), 0.0, 0
        self.moments = GeodesicPlan._moments

    def bound(self):
        return lambda *arguments: self(*arguments)

    def __call__(self, releases, model, units, norm, *rest):
        z, points = units.arrays
        released = self.moments(releases, model, units, norm, *rest)
        rows = np.concatenate([np.ones((len(z), 1)), z], axis=1)
        here, there = (clip_norms(model.residuals(z[:1], end), norm)[0] for end in self.ends)
        others = rows[1:].T @ clip_norms(model.residuals(z[1:], points[1:]), norm)
        middle = others + np.outer(rows[0], (here + there) / 2.0)
        away = np.sum((released.product - middle) * np.outer(rows[0], there - here))
        self.ratio += float(away) / released.product_noise**2
        self.seen += 1
        return released


class Weaker:
    """``noise.draw`` with noise of another size."""

    def __init__(self, scale):
        self.scale, self.draw = scale, noise.draw

    def __call__(self, exact, scale, *arguments, **settings):
        return self.draw(exact, weaker_scale(scale, self.scale), *arguments, **settings)


# -- wide data, and slopes that do not stand out ---------------------------------------------------


def test_made_up_records_are_asked_on_narrow_data_only():
    """Beyond a radius of curvature what they say is not believed; flat spaces ask nothing."""
    rng, space, asked = np.random.default_rng(0), Hyperboloid(2), []

    def noted(model, target, *rest):
        asked.append(model)
        return target, np.eye(target.size)

    X = rng.normal(size=(4000, 2))
    for spread, times in ((0.2, 2), (2.5, 0)):
        y = space.exp_coordinates(space.base_point, spread * rng.normal(size=(4000, 2)))
        asked.clear()
        with mock.patch.object(geodesic_fit, "_bent", noted):
            model = PrivateGeodesicRegressor(space, epsilon=5.0, random_state=0).fit(X, y)
        assert model.n_releases_ == 2
        assert len(asked) == times


def test_the_mean_hessian_is_that_of_simulated_residuals():
    """By differences of the mean squared distance."""
    rng, width = np.random.default_rng(0), 1e-3
    for geometry, spread in ((Hyperboloid(2), 1.5), (Sphere(3), 0.5), (AffineInvariantSPD(2), 1.5)):
        d, base = geometry.dim, geometry.base_point
        covariance = spread**2 * np.diag(1.0 / (1.0 + np.arange(d)))
        v = rng.normal(size=(20_000, d)) @ np.sqrt(covariance)
        points = geometry.exp_coordinates(base, v)
        found = geodesic_fit._hessian(geometry, base, covariance)
        for axis in range(d):
            move = width * np.eye(d)[axis]
            halves = [
                0.5 * np.mean(geometry.dist(geometry.exp_coordinates(base, s * move), points) ** 2)
                for s in (-1.0, 0.0, 1.0)
            ]
            second = (halves[0] - 2.0 * halves[1] + halves[2]) / width**2
            assert found[axis, axis] == pytest.approx(second, rel=0.05)


def test_slopes_without_a_meaning_are_drawn_to_zero_and_warned_of():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(3000, 5)), rng.normal(size=(3000, 3))
    with pytest.warns(UserWarning, match="no slope stands out"):
        model = PrivateGeodesicRegressor(epsilon=1.0, random_state=0).fit(X, y)
    assert model.kept_ < 0.3
    predicted = model.predict(X)
    assert (
        np.var(predicted, axis=0).sum()
        < 0.1 * np.var(model._law.model.points(model._features(X)), axis=0).sum()
    )
    # Regions and coefficients stay as they were released.
    assert model.confidence_region(X[0]).center == pytest.approx(
        model._law.model.points(model._features(X[:1]))[0]
    )


def test_slopes_that_stand_out_stay(recwarn):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(5000, 3))
    y = X @ rng.normal(size=(3, 3)) + 0.1 * rng.normal(size=(5000, 3))
    model = PrivateGeodesicRegressor(epsilon=3.0, random_state=0).fit(X, y)
    assert 0.95 < model.kept_ < 1.0
    assert not [w for w in recwarn if "no slope" in str(w.message)]
    # One slope, or two: Stein's rule has nothing to say.
    single = PrivateGeodesicRegressor(epsilon=3.0, random_state=0).fit(X[:, :1], y[:, 0])
    assert single.kept_ == 1.0


def test_what_is_drawn_keeps_the_prediction_at_the_mean_of_the_features():
    rng = np.random.default_rng(5)
    X, y = 3.0 + rng.normal(size=(3000, 4)), 7.0 + rng.normal(size=(3000, 2))
    settings = {"feature_center": np.zeros(4), "feature_scale": 8.0, "random_state": 0}
    model = PrivateGeodesicRegressor(epsilon=3.0, **settings).fit(X, y)
    assert model.kept_ < 0.6
    assert model.predict(np.full((1, 4), 3.0))[0] == pytest.approx([7.0, 7.0], abs=0.15)


# -- a constant in place of a model of few records -------------------------------------------


@pytest.mark.parametrize("geometry", [Euclidean(2), Sphere(2), Hyperboloid(2)], ids=str)
def test_few_records_whose_responses_must_be_found_give_a_constant(geometry):
    X, y = draw(truth(geometry), 80, np.random.default_rng(0))  # n mu = 21
    with pytest.warns(UserWarning, match="n mu is 21.4, below"):
        model = PrivateGeodesicRegressor(geometry, random_state=0).fit(X, y)
    assert model.is_constant_ and not model.coef_.any()
    assert np.isinf(model.coef_standard_error_).all()
    assert model.feature_center_.shape == model.feature_scale_.shape == (X.shape[1],)
    predicted = model.predict(X)
    assert (predicted == predicted[0]).all()
    names = [each.name for each in model.privacy_spent_.releases]
    assert "moments" in names and "first moments" not in names
    region = model.confidence_region(X[0])
    assert "the mean of the responses" in str(region)
    np.testing.assert_allclose(region.center, model.base_point_)


def test_a_constant_costs_what_a_model_does_and_public_balls_keep_models():
    X, y = draw(truth(Euclidean(2)), 80, np.random.default_rng(0))
    constant = PrivateGeodesicRegressor(random_state=0).fit(X, y)
    model = PrivateGeodesicRegressor(random_state=0, **BOUNDS).fit(X, y)
    assert not model.is_constant_ and model.coef_.any()
    assert constant.privacy_spent_.mu == model.privacy_spent_.mu
    assert not PrivateGeodesicRegressor(epsilon=3.0, random_state=0).fit(X, y).is_constant_


def test_regions_of_a_constant_hold_the_mean():
    # Fewer than 48 of 60 at level .99 by chance: below 1e-13.
    bounded_set = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y = 20.0 + rng.normal(size=(125, 2))  # n mu = 34
        model = PrivateGeodesicRegressor(random_state=seed).fit(rng.normal(size=(125, 2)), y)
        bounded_set += int(model.confidence_region(np.zeros(2), 0.99).contains([[20.0, 20.0]])[0])
    assert bounded_set >= 48


# -- whitened features -------------------------------------------------------------------------


def alike(n, rng, d=4):
    """Features that are alike, and a response that is the difference of two."""
    X = 4.0 * rng.normal(size=(n, 1)) + rng.normal(size=(n, d))
    return X, X[:, :1] - X[:, 1:2] + 0.3 * rng.normal(size=(n, 1))


def test_white_features_find_contrasts_and_keep_their_bars():
    ratios, errors = [], []
    for seed in range(8):
        X, y = alike(8000, np.random.default_rng(seed))
        model = PrivateGeodesicRegressor(epsilon=2.0, random_state=seed).fit(X, y)
        assert "moment of unit rows" in [each.name for each in model.privacy_spent_.releases]
        off = model.coef_[:, 0] - np.array([1.0, -1.0, 0.0, 0.0])
        ratios += list(np.abs(off) / model.coef_standard_error_[:, 0])
        errors.append(np.mean((model.predict(X) - y) ** 2) / y.var())
    assert np.median(errors) < 0.3  # .9 as they are
    # Features that are shortened are few; a bar of one spread holds two thirds.
    assert np.mean(np.array(ratios) < 3.0) > 0.9 and np.median(ratios) < 1.3


@pytest.mark.parametrize("settings", [{"feature_scale": 5.0}, {"epsilon": 0.5}], ids=str)
def test_features_of_few_records_or_known_ones_are_not_whitened(settings):
    X, y = alike(8000, np.random.default_rng(0))
    known = {"epsilon": 2.0, "random_state": 0, **settings}
    model = PrivateGeodesicRegressor(**known).fit(X, y)
    assert "moment of unit rows" not in [each.name for each in model.privacy_spent_.releases]
    ids = np.arange(8000) // 2
    people = PrivateGeodesicRegressor(epsilon=8.0, random_state=0).fit(X, y, groups=ids)
    assert "moment of unit rows" not in [each.name for each in people.privacy_spent_.releases]
