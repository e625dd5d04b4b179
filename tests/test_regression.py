"""Regression with hyperbolic responses: gradients, budgets, layouts, audits."""

import pickle
import warnings
from unittest import mock

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skriemdp._core.estimator import Terms
from skriemdp._descent.problem import FrechetProblem
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.units import Units
from skriemdp._regression import PrivateHyperbolicRegressor, prediction_releases
from skriemdp._regression.features import FeatureMap
from skriemdp._regression.moment_releases import MomentModel
from skriemdp._regression.planning import (
    BASE_SHARE,
    BasePoint,
    frequency_rule,
    model_rule,
    query_ridge,
)
from skriemdp._regression.prediction_releases import (
    KernelRidgeWeights,
    KernelWeights,
    WeightedMean,
)
from skriemdp._regression.scores import frechet_variation
from skriemdp._regression.wrapped_releases import WrappedModel, geodesic_gradients
from skriemdp.auditing import audit_epsilon, audit_scores
from skriemdp.datasets import embed_taxonomy, load_closure, make_tree
from skriemdp.geometry import GeodesicBall, Hyperboloid, Poincare
from skriemdp.ledger._accountant import BudgetExceededError, PrivacyAccountant
from skriemdp.privacy._calibration import gaussian_mu

MECHANISMS = ("parametric", "sufficient-statistics", "per-query")
UNITS = ("record", "label")


def tree(n=300, dim=2):
    return make_tree(n, dim=dim)


def model(**parameters):
    parameters = {"manifold": "hyperboloid", "random_state": 0, "n_queries": 50} | parameters
    return PrivateHyperbolicRegressor(**parameters)


# -- the wrapped model ------------------------------------------------------------------------


def test_frequencies_follow_what_they_cost():
    assert frequency_rule(10**6, True) == frequency_rule(100, True) == 128
    assert (frequency_rule(4999, False), frequency_rule(5000, False)) == (32, 64)


@pytest.mark.parametrize("dim", [1, 2, 4])
@pytest.mark.parametrize("scale", [1e-6, 0.3, 3.0, 8.0])
def test_gradients_are_those_of_the_squared_distance(dim, scale):
    rng = np.random.default_rng(1)
    z, labels = scale * rng.normal(size=(2, dim, 6))
    z[:, 0] = 0.0
    labels[:, 1] = 0.0
    labels[:, 2] = z[:, 2]
    lengths = np.linalg.norm(labels, axis=0)
    gradients = geodesic_gradients(z, labels / np.maximum(lengths, 1e-150), lengths)
    space = Hyperboloid(dim)
    points = space.exp_coordinates(space.base_point, labels.T)

    def losses(z):
        return 0.5 * space.dist(space.exp_coordinates(space.base_point, z.T), points) ** 2

    step = 1e-5 * scale
    for k in range(dim):
        shift = step * np.eye(dim)[:, [k]]
        numeric = (losses(z + shift) - losses(z - shift)) / (2.0 * step)
        atol = 1e-7 * scale * max(1.0, np.abs(gradients).max() / scale)
        np.testing.assert_allclose(gradients[k], numeric, rtol=1e-5, atol=atol)


def mean_gradient(fitted, weights, features, labels):
    """Of clipped gradients, without noise."""
    units = fitted.prepared(Units((features, labels)))
    with mock.patch.object(noise, "draw", lambda exact, *rest, **facts: exact):
        return fitted.gradient(weights, units, None)


def test_gradients_of_far_labels_are_bounded_by_clipping():
    fitted = WrappedModel(n=4, shape=(16, 2), mu=1.0, n_steps=1, step_size=1.0, clip_norm=0.5)
    rng = np.random.default_rng(0)
    features = FeatureMap(2, 8, 1.0, 1.0, 10.0, 0)(rng.normal(size=(4, 2)))
    lengths = np.array([1e4, 600.0, 0.0, 3.0])  # the first overflows and must count as zero
    directions = np.array([[1.0], [0.0]])
    weights = 100.0 * rng.normal(size=(16, 2))
    gradient = mean_gradient(fitted, weights, features, (lengths * directions).T)
    assert np.isfinite(gradient).all()
    assert np.linalg.norm(gradient) <= 0.5


def test_features_have_norm_one_whatever_the_input():
    features = FeatureMap(3, 7, 0.5, 1.0, 10.0, 0)
    X = np.array([[0.0, 0.0, 0.0], [1e300, -1e300, 1.0], [-3.0, 0.2, 50.0]])
    np.testing.assert_allclose(np.linalg.norm(features(X), axis=1), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(features(X[1:2]), features(np.array([[10.0, -10.0, 1.0]])))


def worst_change(release, features, labels, others):
    """Largest norm of the change of a statistic over replacements of the first record."""
    base = release(features, labels)
    changes = []
    for phi, v in others:
        moved_features, moved_labels = features.copy(), labels.copy()
        moved_features[0], moved_labels[0] = phi, v
        changes.append(np.linalg.norm(release(moved_features, moved_labels) - base))
    return max(changes)


def test_gradient_sensitivity_is_attained_and_never_passed():
    rng = np.random.default_rng(3)
    map_ = FeatureMap(2, 16, 1.0, 1.0, 10.0, 0)
    features = map_(rng.normal(size=(5, 2)))
    labels = rng.normal(size=(5, 2)) * 3.0
    fitted = WrappedModel(n=5, shape=(32, 2), mu=1.0, n_steps=1, step_size=1.0, clip_norm=0.5)
    weights = np.zeros((32, 2))

    def statistic(features, labels):
        return mean_gradient(fitted, weights, features, labels)

    others = [(map_(rng.normal(size=(1, 2)))[0], 4.0 * rng.normal(size=2)) for _ in range(200)]
    others.append((features[0], -labels[0]))
    worst = worst_change(statistic, features, labels, others)
    bound = fitted.sigma * fitted.step_mu
    assert worst <= bound
    assert worst >= 0.999 * bound


@pytest.mark.parametrize("private", [True, False])
def test_moment_noise_matches_the_worst_change(private):
    fitted = MomentModel((32, 2), mu=0.7, clip_norm=2.0, ridge=None, features_private=private)
    rng = np.random.default_rng(0)
    map_ = FeatureMap(2, 16, 1.0, 1.0, 10.0, 0)
    phi, psi = map_(rng.normal(size=(2, 2)))
    # Only the products: the joint bound is tested with the mechanism.
    change = np.linalg.norm(np.outer(phi, [2.0, 0.0]) - np.outer(psi, [-2.0, 0.0]))
    same = np.linalg.norm(np.outer(phi, [2.0, 0.0]) - np.outer(phi, [-2.0, 0.0]))
    assert max(change, same) <= fitted.sigma * fitted.mu
    if not private:
        assert same >= 0.999 * fitted.sigma * fitted.mu


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_rules_read_public_numbers_only(epsilon):
    n_steps, step_size, momentum = model_rule(1000, gaussian_mu(epsilon, 1e-5), None)
    assert 10 <= n_steps <= 100
    assert 1.0 <= step_size / (1.0 - momentum) <= 20.0 + 1e-9


# -- the estimator ----------------------------------------------------------------------------


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_one_fit_costs_exactly_what_was_asked(mechanism, unit, recording_accountant):
    X, y = tree()
    settings = {"accountant": recording_accountant, "random_state": None}
    fitted = model(mechanism=mechanism, privacy_unit=unit, **settings).fit(X, y)
    (event,) = recording_accountant.spends
    assert event.mu == pytest.approx(gaussian_mu(1.0, 1e-5), rel=1e-12)
    assert event.delta(1.0) <= 1e-5 * (1 + 1e-9)
    assert fitted.privacy_spent_.unit == unit
    assert fitted.noise_scale_ > 0.0


def test_predictions_are_free_and_unlimited(tmp_path):
    X, y = tree()
    accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5, path=tmp_path / "ledger.db")
    settings = {"accountant": accountant, "epsilon": 0.99, "random_state": None}
    fitted = model(**settings).fit(X, y)
    before = accountant.path, len(accountant.history)
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert fitted.predict(rng.normal(size=(20_000, X.shape[1]))).shape == (20_000, 3)
    assert (accountant.path, len(accountant.history)) == before
    with pytest.raises(BudgetExceededError):
        model(**settings).fit(X, y)


@pytest.mark.parametrize("unit", UNITS)
def test_per_query_answers_what_it_declared_and_no_more(unit, recording_accountant):
    X, y = tree()
    fitted = model(
        mechanism="per-query", privacy_unit=unit, n_queries=7, accountant=recording_accountant
    ).fit(X, y)
    first = fitted.predict(X[:5])
    np.testing.assert_array_equal(fitted.predict(X[:5]), first)  # repeated: stored answers
    assert fitted.n_queries_left_ == 2
    with pytest.raises(BudgetExceededError, match="2 of n_queries=7"):
        fitted.predict(X[:8])
    assert fitted.n_queries_left_ == 2  # the refusal released nothing
    fitted.predict(X[5:7])
    with pytest.raises(BudgetExceededError):
        fitted.predict(X[7:8])
    assert len(recording_accountant.spends) == 1


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("seed", [0, None])
def test_an_interrupted_query_can_be_asked_again(unit, seed, monkeypatch):
    X, y = tree()
    settings = {
        "mechanism": "per-query",
        "privacy_unit": unit,
        "random_state": seed,
        "n_queries": 3,
    }
    fitted, whole = model(**settings).fit(X, y), model(**settings).fit(X, y)
    draw, drawn, interrupts = noise.draw, [], [1, 1]

    def noted(*arguments, **facts):
        drawn.append(draw(*arguments, **facts))
        if interrupts:
            interrupts.pop()
            raise KeyboardInterrupt
        return drawn[-1]

    def first_of(asked, row):
        place = len(drawn)
        answer = asked.predict(X[row : row + 1])
        return answer, pickle.dumps(drawn[place]) if len(drawn) > place else None

    monkeypatch.setattr(noise, "draw", noted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            fitted.predict(X[:1])
        assert fitted.n_queries_left_ == 3  # nothing was answered
    answer, last = first_of(fitted, 0)
    assert fitted.n_queries_left_ == 2
    # The same noisy sum as what was begun, so that all attempts say no more than one.
    assert pickle.dumps(drawn[0]) == pickle.dumps(drawn[1]) == last
    assert np.array_equal(first_of(fitted, 0)[0], answer) and first_of(fitted, 0)[1] is None
    assert first_of(fitted, 1)[1] != last
    assert (first_of(whole, 0)[1] == last) == (seed == 0)


def test_copies_of_a_per_query_model_hold_no_records():
    X, y = tree()
    fitted = model(mechanism="per-query", n_queries=10).fit(X, y)
    answers = fitted.predict(X[:3])
    blob = pickle.dumps(fitted)
    labels = Hyperboloid(2).exp_coordinates(
        Hyperboloid(2).base_point, Hyperboloid(2).log_coordinates(Hyperboloid(2).base_point, y)
    )
    assert not any(row.tobytes() in blob for row in [*X[1:], *y[1:], *labels[1:]])
    copy = pickle.loads(blob)
    np.testing.assert_array_equal(copy.predict(X[:3]), answers)
    assert copy.n_queries_left_ == 0
    with pytest.raises(BudgetExceededError, match="copy"):
        copy.predict(X[3:4])
    assert fitted.n_queries_left_ == 7


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("curvature", [-1.0, -0.25])
def test_layouts_agree(mechanism, curvature):
    X, y = tree()
    y = y / np.sqrt(-curvature)
    space = Hyperboloid(2, curvature)
    disk = Poincare(2, curvature)
    layouts = {space: y, disk: disk.from_hyperboloid(y)}
    if curvature == -1.0:
        layouts[None] = space.log_coordinates(space.base_point, y)
    points = {}
    for manifold, labels in layouts.items():
        fitted = model(mechanism=mechanism, manifold=manifold, radius=9.0)
        # The same noise for inputs that differ by rounding.
        fitted._noise_context = lambda data, plan: b"shared"
        predicted = fitted.fit(X, labels).predict(X[:20])
        assert predicted.shape == labels[:20].shape
        if manifold is disk:
            predicted = disk.to_hyperboloid(predicted)
        elif manifold is None:
            predicted = space.exp_coordinates(space.base_point, predicted)
        points[manifold] = predicted
        assert fitted.score(X[:20], labels[:20]) <= 1.0
    for predicted in points.values():
        assert space.dist(predicted, points[space]).max() < 1e-5


@pytest.mark.parametrize("mechanism", MECHANISMS[:2])
def test_curvature_only_rescales(mechanism):
    X, y = tree()
    results = []
    for curvature in (-1.0, -0.25):
        space, radius = Hyperboloid(2, curvature), 6.0 / np.sqrt(-curvature)
        fitted = model(mechanism=mechanism, manifold=space, radius=radius)
        fitted._noise_context = lambda data, plan: b"shared"
        results.append(fitted.fit(X, y / np.sqrt(-curvature)).predict(X) * np.sqrt(-curvature))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_predictions_and_labels_stay_in_the_ball(mechanism):
    X, y = tree()
    fitted = model(mechanism=mechanism, radius=1.0, epsilon=0.05).fit(X, y)
    ball = GeodesicBall(Hyperboloid(2), None, 1.0 + 1e-9)
    assert ball.contains(fitted.predict(X[:20])).all()
    inside = GeodesicBall(Hyperboloid(2), None, 1.0).project(y)
    again = model(mechanism=mechanism, radius=1.0, epsilon=0.05)
    again._noise_context = fitted._noise_context = lambda data, plan: b"shared"
    fitted.fit(X, y)
    again.fit(X, inside)
    np.testing.assert_allclose(fitted.predict(X[:20]), again.predict(X[:20]), atol=1e-6)


@pytest.mark.parametrize("dim", [1, 3])
def test_any_dimension_learns(dim):
    X, y = tree(3000, dim)
    fitted = model(epsilon=5.0).fit(X[::2], y[::2])
    assert fitted.score(X[1::2], y[1::2]) > 0.5


def test_one_column_of_real_labels_comes_back_as_one():
    X, y = tree()
    fitted = PrivateHyperbolicRegressor(random_state=0).fit(X, y[:, 1])
    assert fitted.predict(X).shape == (len(X),)
    assert fitted.base_point_.shape == ()


def test_score_is_the_frechet_r2():
    X, y = tree()
    fitted = model(epsilon=5.0).fit(X, y)
    space = Hyperboloid(2)
    mean_error = frechet_variation(space, y, np.ones(len(y)))
    squares = np.sum(space.dist(fitted.predict(X), y) ** 2)
    assert fitted.score(X, y) == pytest.approx(1.0 - squares / mean_error)
    # Nothing is nearer to all labels than their Fréchet mean.
    for point in y[:50]:
        assert np.sum(space.dist(point, y) ** 2) >= mean_error * (1 - 1e-9)
    twice = fitted.score(X, y, sample_weight=2.0 * np.ones(len(y)))
    assert twice == pytest.approx(fitted.score(X, y))


def test_flat_data_keeps_the_euclidean_r2():
    # Dimension one is flat: the Fréchet R^2 is the ordinary one.
    from sklearn.metrics import r2_score

    X, y = tree()
    y = np.log(y[:, 0] + 0.1)
    fitted = PrivateHyperbolicRegressor(random_state=0, epsilon=5.0).fit(X, y)
    assert fitted.score(X, y) == pytest.approx(r2_score(y, fitted.predict(X)))


def test_works_in_pipelines_searches_and_cross_validation():
    X, y = tree(200)
    steps = make_pipeline(FunctionTransformer(lambda X: 0.5 * X), model(n_steps=10))
    search = GridSearchCV(
        steps,
        {"privatehyperbolicregressor__length_scale": [0.5, 1.0]},
        cv=KFold(2),
        error_score="raise",
    ).fit(X, y)
    assert search.predict(X).shape == y.shape
    assert cross_val_predict(steps, X, y, cv=KFold(2)).shape == y.shape
    queried = model(mechanism="per-query", n_queries=100)
    assert cross_val_predict(queried, X, y, cv=KFold(2)).shape == y.shape


def test_a_public_base_point_leaves_all_budget_to_the_model():
    X, y = tree()
    private, public = model().fit(X, y), model(base_point=[1.0, 0.0, 0.0]).fit(X, y)
    np.testing.assert_allclose(public.base_point_, [1.0, 0.0, 0.0], atol=1e-12)
    events = [m.privacy_spent_.planned_event for m in (public, private)]
    assert events[0].mu == pytest.approx(events[1].mu, rel=1e-12)
    # All but what the search and the count may take: 10 % more without a private base point.
    plans = [m._plan(m._validate(X, y).facts, None).settings for m in (private, public)]
    shares = [plan.model.mu**2 / plan.mu**2 + plan.scaling.share for plan in plans]
    assert shares == pytest.approx([1.0 - BASE_SHARE, 1.0])


def test_a_base_point_means_the_same_in_all_layouts():
    X, _ = tree()
    length = 1.3
    places = {
        "hyperboloid": [np.cosh(length), 0.0, np.sinh(length)],
        "poincare": [0.0, np.tanh(0.5 * length)],
        None: [0.0, length],
    }
    for manifold, place in places.items():
        y = np.repeat([place], len(X), axis=0)
        fitted = model(manifold=manifold, base_point=place, n_steps=1).fit(X, y)
        np.testing.assert_allclose(fitted.base_point_, place, atol=1e-9)


def test_the_base_point_follows_the_labels():
    X, y = tree(5000)
    space = Hyperboloid(2)
    shift = space.exp_coordinates(space.base_point, np.array([2.5, 0.0]))
    moved = space.exp_coordinates(shift, space.log_coordinates(space.base_point, y))
    fitted = model(radius=8.0, epsilon=3.0).fit(X, moved)
    assert space.dist(fitted.base_point_, shift) < 1.0
    here, there = model(epsilon=3.0).fit(X, y).score(X, y), fitted.score(X, moved)
    assert there > here - 0.05


BAD = [
    ({"mechanism": "magic"}, "mechanism"),
    ({"privacy_unit": "user"}, "privacy_unit"),
    ({"manifold": "klein"}, "manifold"),
    ({"manifold": "sphere"}, "manifold"),
    ({"feature_scale": [1.0, 2.0]}, "feature_scale"),
    ({"feature_scale": -1.0}, "feature_scale"),
    ({"radius": 0.0}, "radius"),
    ({"base_point": "median"}, "base_point"),
    ({"base_point": [5.0, 0.0, 0.0]}, "base_point"),
    ({"length_scale": -1.0}, "length_scale"),
    ({"n_frequencies": 0}, "n_frequencies"),
    ({"n_steps": 0}, "n_steps"),
    ({"clip_norm": np.inf}, "clip_norm"),
    ({"mechanism": "per-query", "n_queries": 0}, "n_queries"),
    ({"public_seed": -1}, "public_seed"),
    ({"delta": 0.0}, "delta"),
]


@pytest.mark.parametrize(("bad", "name"), BAD, ids=str)
def test_bad_parameters_are_named_and_spend_nothing(bad, name, recording_accountant):
    X, y = tree(50)
    with pytest.raises(ValueError, match=name):
        model(accountant=recording_accountant, **bad).fit(X, y)
    assert recording_accountant.spends == []


@pytest.mark.parametrize("manifold", ["hyperboloid", "poincare"])
def test_labels_off_the_manifold_are_neither_counted_nor_shown(manifold, recording_accountant):
    X, y = tree(50)
    y = np.full((50, 3), 7.25)
    with pytest.raises(ValueError, match="some rows of y") as caught:
        model(manifold=manifold, accountant=recording_accountant).fit(X, y)
    assert "7.25" not in str(caught.value)
    assert recording_accountant.spends == []


# -- kernel weights ---------------------------------------------------------------------------


def test_kernel_ridge_weights_interpolate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    weights, largest = KernelRidgeWeights(X, 0.5, 1e-10)(X[3])
    np.testing.assert_allclose(weights, np.eye(20)[3], atol=1e-5)
    assert largest == np.abs(weights).max()
    weights, largest = KernelWeights(X, 0.5)(X[3])
    assert largest == 1.0
    assert weights.max() == weights[3] == 1.0
    assert weights.min() >= 0.0


@pytest.mark.parametrize("private", [True, False])
def test_weighted_means_converge_to_the_frechet_mean_without_noise(private):
    rng = np.random.default_rng(0)
    space = Hyperboloid(2)
    ball = GeodesicBall(space, None, 5.0)
    points = space.exp_coordinates(space.base_point, rng.normal(size=(40, 2)))
    weights = rng.random(40)
    release = WeightedMean(ball, 5000.0, 40, 10.0, private, space.base_point)
    whole = mock.patch.object(prediction_releases, "signal_share", lambda total, sigma: 1.0)
    with whole, mock.patch.object(noise, "draw", lambda exact, *rest, **facts: exact):
        found = release.release(Units((points, weights)), rng)
    size = np.linalg.norm(weights @ space.log_coordinates(found, points)) / weights.sum()
    assert size < 1e-3


# -- audits -----------------------------------------------------------------------------------


class Weaker:
    """A generator whose normal draws are `scale` times what they should be."""

    def __init__(self, rng, scale):
        self._rng, self._scale = rng, scale

    def standard_normal(self, size):
        return self._scale * self._rng.standard_normal(size)

    @property
    def integers(self):
        return self._rng.integers


class WeakerStreams(Weaker):
    """Streams of nothing but those."""

    def __call__(self, *label):
        return Weaker(self._rng, self._scale)

    def repeatable(self, *label):
        return self


def weaker_integers(scale):
    """Draws that are `scale` times what they should be, meanwhile."""
    draw = noise._integers
    return mock.patch.object(
        noise, "_integers", lambda *args: (scale * draw(*args)).astype(np.int64)
    )


def audited_model(mechanism, unit, scale, trials=350):
    """Lower bound of mu of the model that an estimator plans, run on near-worst neighbours."""
    rng = np.random.default_rng(11)
    X = np.zeros((5, 2))
    y = np.zeros((5, 2))
    y[0] = [9.0, 0.0]  # outside the ball, and beyond every clip
    other_y = y.copy()
    other_y[0] = [-9.0, 0.0]
    estimator = PrivateHyperbolicRegressor(
        mechanism,
        privacy_unit=unit,
        base_point=[0.0, 0.0],
        feature_scale=1.0,
        n_steps=1,
        n_frequencies=4,
        n_queries=1,
        ridge=1e4 if mechanism == "sufficient-statistics" else None,  # the output is linear then
        epsilon=8.0,
    )
    outputs, weaker = [], weaker_integers(scale)
    # Shrinkage is post-processing, and hides most of what an audit would see.
    whole = mock.patch.object(prediction_releases, "signal_share", lambda total, sigma: 1.0)
    for data in ((X, y), (X, other_y)):
        arrays = estimator._validate(*data)
        plan = estimator._plan(arrays.facts, Terms(8.0, 1e-5))
        for _ in range(trials):
            with weaker, whole:
                estimator._release(arrays, plan, WeakerStreams(rng, scale))
                if mechanism == "per-query":
                    outputs.append(estimator.predict(X[:1]).ravel())
                else:
                    outputs.append(estimator.coef_.ravel())
    outputs = np.reshape(outputs, (2, trials, -1))

    def release(side, trials):
        return outputs[side]

    result = audit_epsilon(release, 0, 1, trials=trials, confidence=1 - 1e-7)
    return result.mu, plan.event.mu


def audited_base_point(scale, trials=400):
    """Lower bound of mu of all steps of the base point, by the likelihood ratio of its path."""
    rng = np.random.default_rng(5)
    mu, n = 2.0, 5
    base = BasePoint(2, 10.0, n, mu)
    solver, space = base.solver, Hyperboloid(2)
    sides = np.zeros((2, n, 2))
    sides[:, 0, 0] = -9.0, 9.0
    sides = space.exp_coordinates(space.base_point, sides)
    weaker = weaker_integers(scale)
    paths = np.empty((2, trials, solver.n_steps + 1, 3))
    paths[:, :, 0] = space.base_point
    for side, points in enumerate(sides):
        problem = FrechetProblem(solver.domain, points)
        for trial in range(trials):

            def keep(step, point, path=paths[side, trial]):
                path[step] = point

            with weaker:
                solver.solve(problem, space.base_point, Weaker(rng, scale), callback=keep)
    scores = np.zeros((2, trials))
    steps = zip(solver.step_size, solver.noise_multipliers, strict=True)
    for t, (eta, multiplier) in enumerate(steps):
        here, there = paths[:, :, t], paths[:, :, t + 1]
        answer = space.log_coordinates(here, there) / eta
        logs = space.log_coordinates(here[..., None, None, :], sides)
        norms = np.linalg.norm(logs, axis=-1, keepdims=True)
        logs = logs * solver.clip_norm / np.maximum(norms, solver.clip_norm)
        low, high = np.moveaxis(logs.mean(axis=-2), -2, 0)
        sigma = multiplier * 2.0 * solver.clip_norm / n
        scores += np.sum((answer - 0.5 * (low + high)) * (high - low), axis=-1) / sigma**2
    return audit_scores(*scores, confidence=1 - 1e-7).mu, base.event.mu


AUDITS = [(mechanism, unit) for mechanism in MECHANISMS for unit in UNITS]


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "unit"), AUDITS)
def test_audit_of_the_model(mechanism, unit):
    # False alarm at most 1e-7 each.
    found, claimed = audited_model(mechanism, unit, 1.0)
    assert 0.2 * claimed < found <= claimed
    found, claimed = audited_model(mechanism, unit, 0.25)
    assert found > claimed


@pytest.mark.slow
def test_audit_of_the_base_point():
    # False alarm at most 1e-7.
    found, claimed = audited_base_point(1.0)
    assert 0.2 * claimed < found <= claimed
    found, claimed = audited_base_point(0.25)
    assert found > claimed


# -- hierarchies ------------------------------------------------------------------------------


def test_a_tree_is_a_set_of_points_of_the_hyperboloid():
    X, y = make_tree(100, dim=3)
    assert X.shape == (100, 6)
    assert Hyperboloid(3).belongs(y).all()
    np.testing.assert_array_equal(make_tree(100, dim=3)[1], y)
    assert not np.array_equal(make_tree(100, dim=3, public_seed=1)[1], y)


def test_embeddings_put_ancestors_near(tmp_path):
    path = tmp_path / "closure.tsv"
    lines = [f"{i}\t{(i - 1) // 2}\t1" for i in range(1, 31)]
    path.write_text("\n".join(["0\t0\t1", *lines]))
    names, edges = load_closure(path)
    assert len(names) == 31
    assert len(edges) == 30
    points = embed_taxonomy(edges, radius=4.0, n_epochs=60)
    space = Hyperboloid(2)
    assert GeodesicBall(space, None, 4.0 + 1e-9).contains(points).all()
    near = space.dist(points[edges[:, 0]], points[edges[:, 1]]).mean()
    far = space.dist(points[:, None], points[None]).sum() / (31 * 30)
    assert near < 0.6 * far


@pytest.mark.parametrize("bad", [np.zeros((0, 2), int), np.zeros((3, 2)), -np.ones((3, 2), int)])
def test_bad_edges_are_refused(bad):
    with pytest.raises(ValueError, match="edges"):
        embed_taxonomy(bad)


def test_the_disk_display_draws_geodesics():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg", force=True)
    from skriemdp.plotting import PoincareDiskDisplay

    _, y = make_tree(20)
    clouds = np.stack([y[3:6], y[6:9]])
    display = PoincareDiskDisplay(
        y[1:3], clouds, background=y, edges=[[1, 0]], names=("a", "b")
    ).plot()
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["a", "b"]
    matplotlib.pyplot.close(display.figure_)
    # Geodesics of the disk lie on circles orthogonal to the unit circle: |c|^2 = 1 + r^2.
    (curve,) = PoincareDiskDisplay.geodesics(y[7:8], y[15:16])
    disk = Poincare(2)
    np.testing.assert_allclose(curve[[0, -1]], disk.from_hyperboloid(y[[7, 15]]), atol=1e-12)
    unknown = np.linalg.lstsq(2.0 * curve, np.sum(curve**2, axis=1) + 1.0, rcond=None)[0]
    np.testing.assert_allclose(2.0 * curve @ unknown, np.sum(curve**2, axis=1) + 1.0, atol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_of_a_query_follow_its_budget():
    """Little budget asks for even weights, much for the ridge that is right without privacy."""
    ridges = [query_ridge(1000, mu) for mu in (1e-200, 1e-6, 0.01, 0.1, 1.0, 10.0, 1e6)]
    assert ridges == sorted(ridges, reverse=True)
    assert np.isfinite(ridges[0]) and ridges[-1] == pytest.approx(1.0)
    assert query_ridge(2000, 0.1) < query_ridge(1000, 0.1)
    X = np.random.default_rng(0).normal(size=(200, 2))
    even = []
    for n_queries in (1, 1000):
        fitted = PrivateHyperbolicRegressor(
            "per-query", privacy_unit="label", n_queries=n_queries, epsilon=10.0
        )
        weights, largest = fitted.fit(X, X)._server._private[0](X[0])
        even.append(np.abs(weights).sum() / largest)
    assert even[1] > 1.1 * even[0]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("unit", UNITS)
def test_answers_in_features_of_any_unit_are_no_worse_than_no_answers_by_much(unit):
    """Twenty answers at epsilon = 3 from 400 records; without shrinkage scores were below -3."""
    rng, scores = np.random.default_rng(0), []
    X = rng.normal(size=(420, 3)) * [1.0, 50.0, 1e-3]
    y = 0.7 * np.stack([np.sin(X[:, 0]), X[:, 1] / 50.0], axis=1)
    for seed in range(5):
        fitted = PrivateHyperbolicRegressor(
            "per-query", privacy_unit=unit, n_queries=20, epsilon=3.0, random_state=seed
        ).fit(X[:400], y[:400])
        scores.append(fitted.score(X[400:], y[400:]))
    assert np.mean(scores) > -1.0


@pytest.mark.parametrize("mechanism", ["parametric", "sufficient-statistics"])
def test_a_fit_without_signal_warns_and_one_with_signal_does_not(mechanism):
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(3000, 3)), 0.3 * rng.normal(size=(3000, 2))
    said = {"blind": 0, "seeing": 0}
    for seed in range(8):
        for kind, y in (("blind", noise), ("seeing", np.tanh(X[:, :2]) + noise)):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                PrivateHyperbolicRegressor(mechanism, radius=2.0, random_state=seed).fit(X, y)
            said[kind] += any("no better than its base point" in str(w.message) for w in seen)
    assert said["blind"] >= 3 and said["seeing"] == 0


@pytest.mark.parametrize("more", [{}, {"base_point": [1.0, 0.0, 0.0]}, {"feature_scale": 1.0}])
def test_few_records_are_said_before_a_search(more):
    X, y = make_tree(40)
    known = {"feature_scale": 1.0, "base_point": [1.0, 0.0, 0.0]}
    with pytest.warns(match="n mu = .* a public feature_scale and base_point"):
        PrivateHyperbolicRegressor(manifold="hyperboloid", n_steps=2, **more).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "about .* of the rows")
        warnings.filterwarnings("ignore", "the labels never stood out")
        PrivateHyperbolicRegressor(manifold="hyperboloid", n_steps=2, **known).fit(X, y)
