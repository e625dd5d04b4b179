"""PrivatePrincipalEigenvector: utility, honesty of its bounds, attacks, scikit-learn's contract."""

import json
import math
import warnings

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from skriemdp import (
    PrivacyAccountant,
    PrivatePrincipalEigenvector,
    SeededNoiseWarning,
)
from skriemdp._core.estimator import Terms
from skriemdp._descent.gradient_descent import RiemannianGradientDescent
from skriemdp._descent.queries import GradientQuery
from skriemdp._location_scale.rows import PairDifferences, Rows
from skriemdp._mechanisms.bounded_sets import Moment
from skriemdp._mechanisms.budget import GaussianBudget, PureBudget
from skriemdp._mechanisms.counts import noisy_fraction
from skriemdp._mechanisms.covariance import symmetric_noise_radius
from skriemdp._mechanisms.sum import private_sum
from skriemdp._mechanisms.units import Units
from skriemdp._pca.problem import SubspaceProblem
from skriemdp._pca.releases import CovarianceRelease, PowerRelease, RefineRelease, exact_moment
from skriemdp._pca.search_releases import Bounds, BoundsSearch, _Asking, clip_level
from skriemdp.auditing import audit_epsilon
from skriemdp.geometry import Euclidean, Grassmann, Sphere, Stiefel
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import GaussianEvent, PureEvent
from skriemdp.privacy._sensitivity import second_moment_sensitivity

CONFIDENCE = 1 - 1e-8
MECHANISMS = ["covariance", "refine", "power", "gradient"]


def table(n=4000, d=6, k=1, shift=0.0, seed=0):
    """Gaussian rows with k strong directions along rotated axes."""
    rng = np.random.default_rng(seed)
    scales = np.r_[4.0 - np.arange(k), np.ones(d - k)]
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rng.normal(size=(n, d)) * scales @ rotation + shift


def loss(model, X):
    """Share of the leading variance that the components miss."""
    k = len(model.components_)
    covariance = np.cov(X.T, bias=True)
    best = np.linalg.eigvalsh(covariance)[-k:].sum()
    return 1.0 - np.trace(model.components_ @ covariance @ model.components_.T) / best


def dense(X):
    return Rows(X, *X.shape)


class Streams:
    """One ordinary generator behind every label."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, *label):
        return self.rng


# -- utility ----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("shift", [0.0, 50.0])
def test_large_budget_recovers_the_components(mechanism, k, shift):
    X = table(k=k, shift=shift)
    model = PrivatePrincipalEigenvector(k, mechanism=mechanism, epsilon=60.0, random_state=1).fit(X)
    assert loss(model, X) < 0.05
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(k), atol=1e-9)
    assert np.linalg.norm(model.mean_ - X.mean(axis=0)) < 2.0


@pytest.mark.parametrize("manifold", ["stiefel", "grassmann", "ambient"])
def test_gradient_on_every_manifold(manifold):
    X = table(k=2)
    model = PrivatePrincipalEigenvector(
        2, mechanism="gradient", manifold=manifold, epsilon=60.0, random_state=0
    ).fit(X)
    assert loss(model, X) < 0.03


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_unit_of_measurement_does_not_matter(unit):
    X = table() + 3.0
    model = PrivatePrincipalEigenvector(epsilon=2.0, random_state=0).fit(unit * X)
    assert loss(model, X) < 0.02
    assert 2.0 < model.row_norm_ / unit < 12.0


def test_without_centring_raw_data_give_their_mean():
    X = table(shift=30.0)
    model = PrivatePrincipalEigenvector(center="assume", epsilon=5.0, random_state=0).fit(X)
    mean = X.mean(axis=0) / np.linalg.norm(X.mean(axis=0))
    assert abs(model.components_[0] @ mean) > 0.99
    assert not model.mean_.any()


def test_variances_match_scikit_learn_for_a_large_budget():
    X = table(n=20_000, k=2)
    model = PrivatePrincipalEigenvector(2, epsilon=60.0, random_state=0).fit(X)
    pca = PCA(2).fit(X)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=0.1)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=0.1
    )
    assert model.score(X) == pytest.approx(pca.explained_variance_ratio_.sum(), rel=0.02)
    assert model.spectrum_.shape == (6,)
    assert np.all(np.diff(model.spectrum_) <= 0)


def test_digits_beat_a_clip_at_the_largest_norm():
    """The private bound pays for itself (docs/user_guide/pca.md); both budgets are the same."""
    X = load_digits().data / 16.0
    largest = np.linalg.norm(X - X.mean(axis=0), axis=1).max()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auto, fixed = (
            np.mean(
                [
                    loss(
                        PrivatePrincipalEigenvector(
                            row_norm=row_norm, epsilon=0.5, delta=1e-3, random_state=seed
                        ).fit(X),
                        X,
                    )
                    for seed in range(12)
                ]
            )
            for row_norm in ("private", largest)
        )
    assert auto < 0.7 * fixed


def test_noise_that_hides_everything_is_announced():
    with pytest.warns(UserWarning, match="random direction"):
        PrivatePrincipalEigenvector(epsilon=0.01, delta=1e-6, random_state=0).fit(table(n=300))


# -- what bounds what -------------------------------------------------------------------------

HUGE = [1e3, 1e12, 1e160, 1e308]


def neighbours(size, d=5, n=40, seed=0):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(2, 1, d))
    rest = rng.normal(size=(n - 1, d))
    X, Y = (row / np.abs(row).max() * size for row in (X, Y))
    return np.vstack([rest, X]), np.vstack([rest, Y])


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("center", [0.0, 0.7])
@pytest.mark.parametrize("size", HUGE)
def test_one_huge_row_moves_no_sum_beyond_its_bound(storage, center, size):
    R, d = 1.5, 5
    X, Y = (dense(storage(table)) for table in neighbours(size))
    c = np.full(d, center)
    (one, longest), (two, _) = (exact_moment(rows, c, R) for rows in (X, Y))
    assert np.isfinite(one).all() and np.isfinite(two).all() and longest < R * (1 + 1e-5)
    assert np.linalg.norm(one - two) <= second_moment_sensitivity(longest).value
    for rows in (X, Y):
        (cosines,) = rows.squared_cosines(c, 20)
        assert len(cosines) == 20 and cosines.min() >= 0.0 and cosines.max() <= 1.0


def test_bounds_of_sums_are_attained():
    R, d = 2.0, 4
    e = R * np.eye(d)
    rest = np.zeros((3, d))

    one, two = (
        exact_moment(dense(np.vstack([rest, row])), np.zeros(d), R)[0] for row in (e[0], e[1])
    )
    assert np.linalg.norm(one - two) == pytest.approx(math.sqrt(2) * R**2, rel=1e-5)


@pytest.mark.parametrize(
    "geometry",
    [Sphere(4), Stiefel(5, 2), Grassmann(5, 2), Euclidean(5, 2), Euclidean(5, 1)],
    ids=str,
)
def test_gradients_stay_within_their_bounds(geometry):
    rng = np.random.default_rng(0)
    point = rng.normal(size=geometry.shape)
    point = np.linalg.qr(point.reshape(5, -1))[0].reshape(geometry.shape)
    rows = dense(rng.normal(size=(4000, 5)) * 10 ** rng.uniform(-2, 2, size=(4000, 1)))
    problem = SubspaceProblem(geometry, rows, np.zeros(5), 1.3)
    gradients = problem.gradients(point)
    flat = gradients.reshape(len(gradients), -1)
    bound = problem.gradient_ball(point)
    offsets = flat if bound.center is None else flat - bound.center
    norms = np.linalg.norm(offsets, axis=1)
    assert norms.max() <= bound.radius * (1 + 1e-9)
    assert norms.max() > 0.8 * bound.radius
    apart = np.linalg.norm(flat[:2000] - flat[2000:], axis=1).max()
    assert apart <= 2.0 * bound.radius * (1 + 1e-9)
    np.testing.assert_allclose(
        GradientQuery(problem, point).exact(), offsets.sum(axis=0), atol=1e-8 * bound.radius
    )
    # What is released is tangent, and its noise isotropic there.
    tangent = geometry.tangent_from_coordinates(
        point, problem.leave_gradients(point, flat.sum(axis=0))
    )
    np.testing.assert_allclose(tangent, gradients.sum(axis=0), atol=1e-8)


@pytest.mark.parametrize("columns", [1, 2, 3, 5])
def test_the_ball_of_ambient_gradients_is_attained(columns):
    """``|z z' W - a R^2 W|`` over rows of every length, against its closed form."""
    d, R = 6, 1.3
    frame = np.linalg.qr(np.random.default_rng(columns).normal(size=(d, columns)))[0]
    geometry = Euclidean(d, columns)
    inside = R * frame[:, 0]
    rows = np.array([t * inside for t in np.linspace(0.0, 1.0, 11)])
    problem = SubspaceProblem(geometry, dense(rows), np.zeros(d), R)
    bound = problem.gradient_ball(frame)
    found = problem.gradient_coordinates(frame) - bound.center
    assert np.linalg.norm(found, axis=1).max() == pytest.approx(bound.radius)


def test_gradient_ball_is_attained_on_the_sphere():
    w, u = np.eye(3)[:2]
    rows = dense(np.array([w + u, w - u]) / math.sqrt(2) * 1.3)
    problem = SubspaceProblem(Sphere(2), rows, np.zeros(3), 1.3)
    a, b = problem.gradients(w)
    assert np.linalg.norm(a - b) == pytest.approx(2.0 * problem.gradient_ball(w).radius)


@pytest.mark.parametrize("center", [0.0, 0.3, 1e6])
@pytest.mark.parametrize("radius", [0.8, 2.5, 50.0])
def test_sparse_streamed_and_dense_sums_agree(center, radius):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6)) * (rng.random((500, 6)) < 0.4)
    X[::50] *= 1e4
    c = np.full(6, center)
    Z = X - c
    Z = Z * np.minimum(1.0, radius / np.maximum(np.linalg.norm(Z, axis=1), 1e-300))[:, None]
    for rows in (
        dense(X),
        dense(sparse.csr_array(X)),
        Rows([X[:7], X[7:300], sparse.csr_array(X[300:])], *X.shape),
    ):
        found, _ = exact_moment(rows, c, radius)
        np.testing.assert_allclose(found, Z.T @ Z, atol=1e-4 * radius**2)


def test_rounded_norms_are_never_too_small():
    """A row that the clip believes shorter than it is would break the sensitivity."""
    rng = np.random.default_rng(0)
    center = np.full(30, 1e7)
    X = center + rng.normal(size=(2000, 30))
    exact = ((X - center) ** 2).sum(axis=1)
    (dense_norms,) = dense(X).squared_norms(center)
    (sparse_norms,) = dense(sparse.csr_array(X)).squared_norms(center)
    assert (dense_norms >= exact).all() and (sparse_norms >= exact).all()


def test_the_callers_table_is_never_written_to():
    X = table(n=500) + 5.0
    X[0] *= 1e6
    before = X.copy()
    for mechanism in MECHANISMS:
        PrivatePrincipalEigenvector(mechanism=mechanism, random_state=0).fit(X)
        PrivatePrincipalEigenvector(mechanism=mechanism, center="assume", random_state=0).fit(X)
    np.testing.assert_array_equal(X, before)


# -- differences of pairs -----------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 40, 41])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_pairs_are_disjoint_and_matched_without_the_data(n, storage):
    X = np.random.default_rng(n).normal(size=(n, 3))
    rows = dense(storage(X)).pairs(0)
    assert rows.n == n // 2
    # Replacing a record changes one difference, or none where it is left out.
    changed = []
    for i in range(n):
        Y = X.copy()
        Y[i] += 1.0
        other = dense(storage(Y)).pairs(0)
        moved = [
            rows.select([j], np.zeros(3), 1e9) != other.select([j], np.zeros(3), 1e9)
            for j in range(n // 2)
        ]
        changed.append([j for j, m in enumerate(moved) if m.any()])
    assert sorted(j for of in changed for j in of) == sorted(list(range(n // 2)) * 2)
    assert max(len(of) for of in changed) == 1 and [len(c) for c in changed].count(0) == n % 2
    # Their second moment is the covariance, on average; scale included.
    assert not (PairDifferences(X, 0)[:] == PairDifferences(X, 1)[:]).all() or n < 4


def test_the_second_moment_of_pairs_estimates_the_covariance():
    """Within six standard errors of a second moment; false alarm below 1e-8."""
    X = table(n=20_000, shift=1e3)
    rows = dense(X).pairs(0)
    differences = rows.select(slice(None), np.zeros(6), 1e9)
    moment = differences.T @ differences / rows.n
    variance = np.var(X, axis=0)
    error = 6.0 * np.sqrt(2.0 * np.outer(variance, variance) / rows.n)
    assert (np.abs(moment - np.cov(X.T)) < error).all()


def test_a_sorted_table_loses_nothing():
    """Neighbours of a sorted table are alike: pairs by position would see within groups only."""
    X = np.sort(table(n=4000, d=4)[:, :1], axis=0) * [5.0, 0.0, 0.0, 0.0] + table(
        n=4000, d=4, seed=1
    )
    rows = dense(X).pairs(0)
    differences = rows.select(slice(None), np.zeros(4), 1e9)
    assert np.mean(differences[:, 0] ** 2) == pytest.approx(np.var(X[:, 0]), rel=0.2)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_very_few_records_are_not_matched_in_pairs(n):
    """One difference has no angle with another; what is charged is released all the same."""
    X, matched = np.random.default_rng(0).normal(size=(n, 2)), []
    for epsilon in (5.0, 10.0, 20.0, 40.0, 80.0):
        model = PrivatePrincipalEigenvector(mechanism="covariance", epsilon=epsilon)
        model.fit(X)
        matched.append("differences" in str(model.privacy_spent_.public.get("rows")))
    assert any(matched) == (n >= 4)
    assert not list(Rows(X[:1], 1, 2).squared_cosines(np.zeros(2), 5))


def test_pairs_serve_a_public_window():
    def fitted(X, **settings):
        model = PrivatePrincipalEigenvector(mechanism="covariance", random_state=0, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(X)

    def uses_pairs(model):
        return "rows" in model.privacy_spent_.public

    X = table(n=100)  # n mu = 11.0 roots of d
    assert uses_pairs(fitted(X)) and uses_pairs(fitted(sparse.csr_array(X)))
    assert not uses_pairs(fitted(X, center="assume"))
    assert not uses_pairs(fitted(X, row_norm=3.0))
    assert not uses_pairs(fitted(X, delta=0))
    assert not uses_pairs(fitted([X[:50], X[50:]]))
    assert not uses_pairs(fitted(table(n=400))) and not uses_pairs(fitted(table(n=30)))


# -- the budget -------------------------------------------------------------------------------


@pytest.mark.parametrize("center", ["private", "assume"])
@pytest.mark.parametrize("row_norm", ["private", 3.0])
@pytest.mark.parametrize("shift", [0.0, 1e4])
@pytest.mark.parametrize("mechanism", [*MECHANISMS, "pure covariance"])
def test_every_release_is_charged(monkeypatch, center, row_norm, shift, mechanism):
    """All that draws noise in a fit composes to no more than its event."""
    drawn = []
    from skriemdp._mechanisms import pure_covariance, quantile, vector
    from skriemdp._pca import releases, search_releases

    for module, name in [
        (pure_covariance, "PureSymmetric"),
        (quantile, "PrivateQuantile"),
        (quantile, "ExponentialQuantile"),
        (vector, "LaplaceNoise"),
    ]:
        cls = getattr(module, name)
        for method in {"release", "release_counts"} & set(dir(cls)):
            original = getattr(cls, method)

            def spy(self, *args, _original=original, **kwargs):
                drawn.append(self.event)
                return _original(self, *args, **kwargs)

            monkeypatch.setattr(cls, method, spy)
    for module in (search_releases, releases):

        def summed(units, give, bounded_set, mu, rng):
            drawn.append(GaussianEvent(1.0 / mu))
            return private_sum(units, give, bounded_set, mu, rng)

        monkeypatch.setattr(module, "private_sum", summed)

    def solved(self, *args, _original=RiemannianGradientDescent.solve):
        drawn.append(GaussianEvent(1.0 / self.mu))
        return _original(self, *args)

    monkeypatch.setattr(RiemannianGradientDescent, "solve", solved)

    def counted(part, n, parameter, pure, rng):
        drawn.append(PureEvent(parameter) if pure else GaussianEvent(1.0 / parameter))
        return noisy_fraction(part, n, parameter, pure, rng)

    monkeypatch.setattr(search_releases, "noisy_fraction", counted)

    model = PrivatePrincipalEigenvector(
        2, mechanism=mechanism, center=center, row_norm=row_norm, random_state=0
    )
    if mechanism == "pure covariance":
        model.set_params(mechanism="auto", delta=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table(n=800, shift=shift))
    event = model.privacy_spent_.planned_event
    if mechanism == "pure covariance":
        assert event == PureEvent(1.0)
        spent = math.fsum(e.epsilon(0.0) for e in drawn)
        assert spent == pytest.approx(1.0, rel=1e-9)
        assert len(drawn) >= 2
    else:
        spent = math.fsum(e.mu**2 for e in drawn)
        assert spent == pytest.approx(event.mu**2, rel=1e-9)
        assert event.delta(1.0) <= 1e-5


def test_a_budget_cannot_be_overdrawn():
    for budget in (GaussianBudget(0.5), PureBudget(0.5)):
        budget.take(0.7, "mean")
        with pytest.raises(RuntimeError, match="budget"):
            budget.take(0.4, "mean")
        budget.rest("mean")
        with pytest.raises(RuntimeError, match="budget"):
            budget.rest("mean")


@pytest.mark.filterwarnings("ignore:delta")
def test_plans_know_public_numbers_only():
    model = PrivatePrincipalEigenvector()
    terms = Terms(1.0, 1e-5)
    facts = {"n": 1000, "d": 20, "sparse": False, "streamed": False}
    plan = model._plan(facts, terms)
    assert plan.event == model._plan(facts, terms).event
    chosen = {
        (d, n): model._plan({"n": n, "d": d, "sparse": False, "streamed": False}, terms).public[
            "mechanism"
        ]
        for d, n in [(149, 100_000), (150, 1000), (150, 100_000), (5000, 100_000)]
    }
    assert list(chosen.values()) == ["covariance", "refine", "refine", "power"]
    for d in (20, 200, 5000):
        plan = PrivatePrincipalEigenvector(delta=0)._plan(facts | {"d": d}, Terms(1.0, 0.0))
        assert plan.public["mechanism"] == "covariance" and plan.event == PureEvent(1.0)


def centred(X, norm):
    """Rows about zero within a public norm, as a search would find them."""
    zero = np.zeros(X.shape[1])
    return Bounds(dense(X), zero, norm, zero)


def after_the_first_matrix(X, mu, k=1):
    """What "refine" released, and the labels of its draws; rows are centred, their norm public."""
    drawn, rng = [], np.random.default_rng(0)

    def streams(*label):
        drawn.append(label)
        return rng

    norm = float(np.linalg.norm(X, axis=1).max())
    budget = GaussianBudget(mu)
    subspace = RefineRelease(k).release(centred(X, norm), budget, streams)
    assert budget.remaining < 1e-12
    return subspace, [label for label in drawn if label[0] != "product norm"]


def test_the_first_matrix_tells_what_the_rest_of_the_budget_is_spent_on():
    rng = np.random.default_rng(5)
    n, d = 2000, 100
    flat = np.r_[np.full(2, 4.0), np.ones(d - 2)]
    first, second = ("second moment",), ("second moment", 2)
    X = rng.normal(size=(n, d)) * np.sqrt(flat)
    # Eigenvalues that stand out of the noise; that are hidden in it; that hold much of the norms.
    shown, drawn = after_the_first_matrix(X, 5.0)
    assert drawn == [first, ("product",)]
    assert np.sum(shown.components[0, :2] ** 2) > 0.9
    _, drawn = after_the_first_matrix(X, 0.5)
    assert drawn == [first, *(("product", step) for step in range(4))]
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -1.0
    twice, drawn = after_the_first_matrix(X, 0.8)
    assert drawn == [first, second]
    # Two matrices have the noise of one that had all of the budget.
    norm = float(np.linalg.norm(X, axis=1).max())
    whole = CovarianceRelease(1).release(centred(X, norm), GaussianBudget(0.8), Streams(0))
    assert twice.noise_scale == pytest.approx(whole.noise_scale, rel=1e-5)
    assert twice.spectrum_noise == pytest.approx(whole.spectrum_noise, rel=1e-5)


def test_two_matrices_are_averaged_with_their_precisions():
    """The noise of the average is what `spectrum_noise` says: errors of traces, 200 fits."""
    X = np.random.default_rng(1).normal(size=(500, 3)) * [3.0, 1.0, 0.5]
    norm = float(np.linalg.norm(X, axis=1).max())
    errors = []
    for seed in range(200):
        found = RefineRelease(1).release(centred(X, norm), GaussianBudget(1.0), Streams(seed))
        errors.append(found.total_variance - np.sum(X**2) / len(X))
    # A trace of three entries of the diagonal; 200 squares have a spread of a tenth.
    expected = math.sqrt(6.0) * found.spectrum_noise
    assert 0.75 < np.sqrt(np.mean(np.square(errors))) / expected < 1.25


def test_privacy_statement():
    model = PrivatePrincipalEigenvector(epsilon=0.7, delta=1e-6).fit(table())
    spent = model.privacy_spent_
    assert tuple(spent) == (0.7, 1e-6)
    assert spent.mu == pytest.approx(gaussian_mu(0.7, 1e-6), rel=1e-9)
    assert (spent.unit, spent.neighboring, spent.guarantee) == ("record", "replace-one", "exact")
    assert json.loads(json.dumps(spent.to_dict()))["public"]["row_norm"] == "private"


def test_published_noise_is_reported_at_its_true_epsilon():
    """The published script adds, to the *sum* of the gradients, noise scaled for their mean.

    Its variance ``T log(1/delta) L0^2 / (n^2 2 epsilon)`` with ``L0 = 2 max |x|^2``, the
    replace-one sensitivity of that sum, makes T steps ``n sqrt(2 epsilon / log(1/delta))``-GDP:
    epsilon is 3.6e7 where 0.1 is claimed; with both slips mended it would be .059.
    """
    n, epsilon, delta, steps = 49_990, 0.1, 1e-3, 15
    published = GaussianEvent(math.sqrt(steps * math.log(1 / delta) / (2 * epsilon)) / n, steps)
    mended = GaussianEvent(math.sqrt(steps * math.log(1 / delta)) / epsilon, steps)
    with PrivacyAccountant(delta=delta) as accountant:
        accountant.spend(published)
        assert 3.5e7 < accountant.spent.epsilon < 3.8e7
    with PrivacyAccountant(delta=delta) as accountant:
        accountant.spend(mended)
        assert accountant.spent.epsilon == pytest.approx(0.059, abs=0.001)


def test_clip_level_follows_the_noise_and_the_effective_rank():
    assert clip_level(14, 2872, 9.0) == pytest.approx(0.94, abs=0.005)
    assert clip_level(14, 2872, 3.0) > clip_level(14, 2872, 9.0) > clip_level(14, 2872, 14.0)
    assert clip_level(64, 20, 10.0) == 0.5
    assert clip_level(5, 1e9, 2.0) == 0.998


@pytest.mark.parametrize("rank", [1, 3, 12])
def test_effective_rank_is_found(rank):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 12))
    X[:, rank:] *= 1e-3
    search = BoundsSearch(*X.shape, 0.3, False, None)
    asked = _Asking(dense(X), GaussianBudget(0.3), rng)
    found = search._effective_rank(asked, np.zeros(12))
    # Rows scaled to norm one have cosines of mean square 1/rank, exactly.
    assert found == pytest.approx(rank, rel=0.1)


def test_released_variances_turn_the_frame_onto_the_axes():
    """Two columns in the plane span it whatever they are: the order within comes from variances."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 2)) * [1.0, 0.5] @ [[0.8, 0.6], [-0.6, 0.8]]
    X *= np.minimum(1.0, 3.0 / np.linalg.norm(X, axis=1))[:, None]
    model = PrivatePrincipalEigenvector(
        2, row_norm=3.0, center="assume", mechanism="power", n_steps=1, epsilon=4e5
    ).fit(X)
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    np.testing.assert_allclose(np.abs(model.components_ @ vectors[:, ::-1]), np.eye(2), atol=1e-3)
    np.testing.assert_allclose(model.explained_variance_, values[::-1], atol=5e-3)
    for row in model.components_:
        assert row[np.argmax(np.abs(row))] > 0


# -- audits -----------------------------------------------------------------------------------


def worst_pair(n=30, d=3, size=1e9):
    """Small rows and one huge one, along the first or the second axis."""
    X = np.random.default_rng(5).normal(size=(n, d)) * 0.3
    Y = X.copy()
    X[-1], Y[-1] = size * np.eye(d)[0], size * np.eye(d)[1]
    return X, Y


@pytest.mark.parametrize(("factor", "caught"), [(1.0, False), (0.5, True)])
def test_audit_of_the_noisy_matrix(factor, caught):
    """False alarms below 1e-6; noise of half the size is exposed."""
    X, Y = worst_pair()
    mu = 2.0
    bounded_set, rng = Moment(1.0, 3), np.random.default_rng(0)

    def release(data, trials):
        units = Units((data,))
        noisy = (
            private_sum(units, np.asarray, bounded_set, mu / factor, rng) for _ in range(trials)
        )
        return np.array([sums.value for sums in noisy])

    audit = audit_epsilon(release, X, Y, trials=4000, confidence=CONFIDENCE)
    assert (audit.mu > mu) == caught
    assert audit.mu > 0.7 * mu


def release_of_auto(mu, scale=1.0, mechanism=None, **settings):
    """All that `mechanism="auto"` releases, as one vector: centre, norm and noisy matrix."""
    mechanism = mechanism or CovarianceRelease(3)

    def release(data, trials):
        out = []
        for seed in range(trials):
            streams = Streams([trials, seed, int(data[-1, 0] > 0)])
            budget = GaussianBudget(scale * mu)
            search = BoundsSearch(*data.shape, mu, True, None, **settings)
            bounds = search.release(dense(data), budget, streams)
            center, norm = bounds.center, bounds.row_norm
            found = mechanism.release(bounds, budget, streams)
            matrix = (found.components.T * found.variances) @ found.components
            out.append(np.r_[center, math.log(norm), (matrix / norm**2).ravel()])
        return np.asarray(out)

    return release


def second_axis(outputs):
    """What the huge row pushes up in the second data set, from the last nine numbers."""
    return outputs[:, -5] - outputs[:, -9]


@pytest.mark.parametrize(
    ("d", "part", "holds"),
    [(1, 1.0, True), (5, 1.0, True), (40, 1.0, True), (5, 0.5, False), (40, 0.5, False)],
)
def test_the_radius_of_symmetric_noise_holds(d, part, holds):
    """False alarms below 1e-6; half of the noise scale is exposed."""
    level, draws = 0.9, 1000
    bounded_set, rng, units = Moment(1.0, d), np.random.default_rng(d), Units((np.zeros((1, d)),))
    noisy = [private_sum(units, np.asarray, bounded_set, 1.0, rng) for _ in range(draws)]
    noise = np.array([sums.value for sums in noisy])
    radius = symmetric_noise_radius(part * noisy[0].sigma, d, level)
    missed = np.count_nonzero(np.linalg.norm(noise, ord=2, axis=(1, 2)) > radius)
    assert (missed <= stats.binom.isf(1e-6, draws, 1.0 - level)) == holds


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:about")
def test_eigenvalues_and_angles_are_within_what_the_noise_can_do():
    """Weyl and Davis-Kahan on whole fits; false alarms below 1e-6, as of the noise scale's test."""
    X, level, fits = table(n=400, d=4, k=2), 0.9, 150
    clipped = X * np.minimum(1.0, 6.0 / np.linalg.norm(X, axis=1))[:, None]
    values, vectors = np.linalg.eigh(clipped.T @ clipped / len(X))
    missed, traces, informative = 0, [], 0
    for seed in range(fits):
        pca = PrivatePrincipalEigenvector(
            2, 6.0, "covariance", center="assume", epsilon=8.0, random_state=seed
        ).fit(X)
        sine = np.linalg.norm(pca.components_ @ vectors[:, :2], ord=2)
        within = np.abs(pca.spectrum_ - values[::-1]).max() <= pca.noise_radius(level)
        missed += not (within and sine <= pca.sine_bound(level))
        informative += pca.sine_bound(level) < 1.0
        sigma = math.sqrt(2.0) * pca.spectrum_noise_scale_
        traces.append((pca.spectrum_.sum() - values.sum()) / (sigma * math.sqrt(len(values))))
    assert missed <= stats.binom.isf(1e-6, fits, 1.0 - level)
    assert informative == fits
    squares = np.sum(np.square(traces))
    assert stats.chi2.isf(1 - 5e-7, fits) < squares < stats.chi2.isf(5e-7, fits)


def test_the_noise_that_is_reported_is_that_of_an_entry():
    n, mu = 400, gaussian_mu(1.0, 1e-5)
    pca = PrivatePrincipalEigenvector(1, 6.0, "covariance", center="assume", epsilon=1.0)
    pca.fit(table(n=n))
    # sqrt(2) R^2 / (n mu) along a unit matrix, hence R^2 / (n mu) in an entry off the diagonal;
    # a hundredth of mu^2 goes to the share of clipped rows.
    assert pca.noise_scale_ == pytest.approx(36.0 / (n * mu), rel=0.01)
    assert pca.noise_scale_ == pca.spectrum_noise_scale_


def test_what_noise_did_is_known_of_gaussian_matrices_only():
    X = table(n=500)
    kept = PrivatePrincipalEigenvector(6, mechanism="covariance", random_state=0).fit(X)
    assert kept.sine_bound() == 0.0
    assert kept.noise_radius(0.99) > kept.noise_radius(0.5) > 0.0
    with pytest.raises(ValueError, match="level"):
        kept.noise_radius(1.0)
    for other in ({"mechanism": "refine"}, {"mechanism": "covariance", "delta": 0.0}):
        pca = PrivatePrincipalEigenvector(random_state=0, **other).fit(X)
        with pytest.raises(AttributeError, match="delta > 0"):
            pca.noise_radius()
        with pytest.raises(AttributeError, match="delta > 0"):
            pca.sine_bound()


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "caught"), [(1.0, False), (4.0, True)])
def test_audit_of_auto_with_its_private_bounds(scale, caught):
    """Centre, clipping norm and components together, on neighbours that differ in a huge row.

    False alarms below 1e-6; four times the budget is exposed.
    """
    mu = 2.5
    audit = audit_epsilon(
        release_of_auto(mu, scale),
        *worst_pair(),
        trials=400,
        confidence=CONFIDENCE,
        statistic=second_axis,
    )
    assert (audit.mu > mu) == caught
    assert audit.mu > 0.3 * mu


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", [RefineRelease(1), PowerRelease(1, 2, 0)], ids=["refine", "power"]
)
def test_audit_of_products(mechanism):
    audit = audit_epsilon(
        release_of_auto(8.0, 1.0, mechanism),
        *worst_pair(),
        trials=400,
        confidence=CONFIDENCE,
        statistic=second_axis,
    )
    assert 0.3 < audit.mu <= 8.0


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "caught"), [(1.0, False), (4.0, True)])
def test_audit_of_pairs(scale, caught):
    """The huge row is in one pair; four times the budget is exposed.  False alarms below 1e-6."""
    mu = 2.5
    audit = audit_epsilon(
        release_of_auto(mu, scale, pair_seed=0),
        *worst_pair(),
        trials=400,
        confidence=CONFIDENCE,
        statistic=second_axis,
    )
    assert (audit.mu > mu) == caught
    assert audit.mu > 0.3 * mu


@pytest.mark.slow
def test_audit_of_the_estimator_from_end_to_end(recording_accountant):
    def release(data, trials):
        model = PrivatePrincipalEigenvector(
            3, epsilon=20.0, delta=1e-3, accountant=recording_accountant
        )
        out = []
        for _ in range(trials):
            model.fit(data)
            matrix = (model.components_.T * model.spectrum_) @ model.components_
            out.append(
                np.r_[model.mean_, np.log(model.row_norm_), matrix.ravel() / model.row_norm_**2]
            )
        return np.asarray(out)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit = audit_epsilon(
            release,
            *worst_pair(),
            trials=300,
            delta=1e-3,
            confidence=CONFIDENCE,
            statistic=second_axis,
        )
    mu = gaussian_mu(20.0, 1e-3)
    assert 0.1 * mu < audit.mu <= mu
    assert 0.5 < audit.epsilon <= 20.0


@pytest.mark.parametrize("size", HUGE)
def test_row_norms_never_leak(size):
    """With the same noise, a row of any length moves what is released by its bound at most."""
    mu = 1.0
    X = table(n=400, d=3)
    far = X.copy()
    far[7] = size * np.array([0.6, -0.8, 0.0])
    same_norm = 0
    for seed in range(20):
        released = []
        for data in (X, far):
            search = BoundsSearch(*data.shape, mu, True, None)
            bounds = search.release(dense(data), GaussianBudget(mu), Streams(seed))
            released.append((bounds.center, bounds.row_norm))
        (center, norm), (far_center, far_norm) = released
        assert np.isfinite(far_norm) and np.isfinite(far_center).all()
        same_norm += abs(math.log(norm / far_norm)) < 0.2
    # One count moves by one, 20 times less than its noise.
    assert same_norm >= 16


def test_warnings_and_attributes_never_depend_on_a_huge_row():
    X = table(n=3000, d=4)
    X[5] = 1e200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SeededNoiseWarning)
        model = PrivatePrincipalEigenvector(epsilon=3.0, random_state=0).fit(X)
    assert loss(model, np.delete(X, 5, axis=0)) < 0.05
    values = [np.max(np.abs(v)) for v in vars(model).values() if isinstance(v, (float, np.ndarray))]
    assert max(v for v in values if np.isfinite(v)) < 1e4


# -- scikit-learn -----------------------------------------------------------------------------


@pytest.mark.slow  # the default configuration is checked in every run, in test_estimators.py
@pytest.mark.parametrize(
    "parameters",
    [{"mechanism": "gradient"}, {"mechanism": "power", "center": "assume", "row_norm": 2.0}],
    ids=str,
)
def test_check_estimator(parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            PrivatePrincipalEigenvector(**parameters), on_fail=None, on_skip=None
        )
    failed = [(r["check_name"], repr(r["exception"])) for r in results if r["status"] == "failed"]
    assert failed == []
    assert sum(r["status"] == "passed" for r in results) > 40


def test_transform_and_its_inverse():
    X = table(k=3, shift=2.0)
    model = PrivatePrincipalEigenvector(3, epsilon=20.0, random_state=0).fit(X)
    coordinates = model.transform(X)
    np.testing.assert_allclose(coordinates, (X - model.mean_) @ model.components_.T)
    np.testing.assert_allclose(model.inverse_transform(coordinates), model.predict(X))
    rest = X - model.predict(X)
    np.testing.assert_allclose(rest @ model.components_.T, 0.0, atol=1e-9)
    captured = 1 - (rest**2).sum() / ((X - model.mean_) ** 2).sum()
    assert model.score(X) == pytest.approx(captured)


def test_pandas_pipeline_and_search():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(table(), columns=list("abcdef"))
    model = PrivatePrincipalEigenvector(2, epsilon=5.0).set_output(transform="pandas").fit(frame)
    out = model.transform(frame)
    assert list(out.columns) == ["privateprincipaleigenvector0", "privateprincipaleigenvector1"]
    assert list(model.feature_names_in_) == list("abcdef")
    search = GridSearchCV(
        make_pipeline(PrivatePrincipalEigenvector(epsilon=3.0)),
        {"privateprincipaleigenvector__n_components": [1, 2]},
        cv=KFold(3),
        error_score="raise",
    ).fit(frame)
    assert search.best_params_ == {"privateprincipaleigenvector__n_components": 2}


def test_sparse_and_streamed_fits_equal_the_dense_one(tmp_path):
    """Same digest of the data is not needed: with the noise all but gone, results agree."""
    X = table(n=3000) * (np.random.default_rng(0).random((3000, 6)) < 0.5)
    path = tmp_path / "rows.dat"
    mapped = np.memmap(path, dtype=np.float32, mode="w+", shape=X.shape)
    mapped[:] = X
    make = clone(PrivatePrincipalEigenvector(2, row_norm=8.0, epsilon=4e5, random_state=0))
    reference = clone(make).fit(X)
    for data in (
        sparse.csr_matrix(X),
        sparse.coo_array(X),
        mapped,
        [X[:1000], sparse.csc_array(X[1000:])],
        (mapped[:700], mapped[700:]),
    ):
        model = clone(make).fit(data)
        np.testing.assert_allclose(model.components_, reference.components_, atol=1e-3)
        assert model.n_samples_ == 3000
    again = clone(make).fit([X[:1000], X[1000:]])
    np.testing.assert_array_equal(again.mean_, clone(make).fit([X[:1000], X[1000:]]).mean_)


def test_a_sparse_fit_stays_sparse(monkeypatch):
    X = sparse.random_array((2000, 300), density=0.02, format="csr", random_state=0)
    for cls in (sparse.csr_array, sparse.csr_matrix):
        original = cls.toarray

        def refuse(self, *args, _original=original, **kwargs):
            assert self.shape[0] <= 500, "rows were made dense"
            return _original(self, *args, **kwargs)

        monkeypatch.setattr(cls, "toarray", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PrivatePrincipalEigenvector(random_state=0).fit(X)
    assert model.transform(X).shape == (2000, 1)
    assert not hasattr(model, "predict")
    assert 0 <= model.score(X) <= 1


@pytest.mark.filterwarnings("ignore:delta")
def test_streams_need_constant_memory():
    import tracemalloc

    class Chunks:
        """20 tables of 20000 x 20, made when asked for: 64 MB in all."""

        def __iter__(self):
            return (np.random.default_rng(i).normal(size=(20_000, 20)) for i in range(20))

    tracemalloc.start()
    model = PrivatePrincipalEigenvector().fit(Chunks())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.n_samples_ == 400_000
    assert peak < 16e6


@pytest.mark.filterwarnings("ignore:about")
def test_clipped_fraction_is_private_and_warns_of_a_bad_bound():
    X = table()
    model = PrivatePrincipalEigenvector(row_norm=4.0, epsilon=20.0, random_state=0).fit(X)
    share = np.mean(np.linalg.norm(X - model.mean_, axis=1) > 4.0)
    assert model.clipped_fraction_ == pytest.approx(share, abs=0.05)
    assert model.clipped_fraction_ != share
    with pytest.warns(UserWarning, match="private estimate"):
        PrivatePrincipalEigenvector(row_norm=0.5, random_state=0).fit(X)
    assert not hasattr(PrivatePrincipalEigenvector(random_state=0).fit(X), "clipped_fraction_")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 7}, "n_components=7 exceeds"),
        ({"n_components": 0}, "n_components"),
        ({"row_norm": -1.0}, "row_norm"),
        ({"row_norm": "max"}, "row_norm"),
        ({"mechanism": "svd"}, "mechanism"),
        ({"center": "mean"}, "center"),
        ({"delta": 0, "mechanism": "refine"}, "delta=0"),
        ({"mechanism": "gradient", "n_components": 2, "manifold": "sphere"}, "sphere"),
        ({"mechanism": "gradient", "n_components": 6}, "n_components"),
        ({"n_steps": 0, "mechanism": "power"}, "n_steps"),
    ],
    ids=str,
)
def test_bad_parameters_cost_nothing(parameters, message, recording_accountant):
    model = PrivatePrincipalEigenvector(accountant=recording_accountant, **parameters)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(table(n=50))
    assert recording_accountant.spends == []


@pytest.mark.parametrize(
    ("X", "error"),
    [
        (iter([np.ones((3, 2))]), TypeError),
        ((row for row in np.ones((3, 2))), TypeError),
        ([np.ones((3, 2)), np.ones((3, 4))], ValueError),
        ([np.ones((3, 2)), np.full((3, 2), np.nan)], ValueError),
        (sparse.csr_array(np.array([[1.0, np.inf], [0.0, 1.0]])), ValueError),
        (np.ones((1, 3)), ValueError),
    ],
    ids=["iterator", "generator", "ragged", "nan", "sparse-inf", "one row"],
)
def test_bad_input_costs_nothing(X, error, recording_accountant):
    with pytest.raises(error):
        PrivatePrincipalEigenvector(accountant=recording_accountant).fit(X)
    assert recording_accountant.spends == []


def test_a_constant_table_is_no_error():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PrivatePrincipalEigenvector(random_state=0).fit(np.zeros((50, 3)))
    assert np.isfinite(model.components_).all() and np.isfinite(model.explained_variance_).all()


# -- displays -----------------------------------------------------------------------------------


def test_displays_show_released_numbers():
    plt = pytest.importorskip("matplotlib.pyplot")
    from skriemdp.plotting import CapturedVarianceDisplay, SpectrumDisplay

    X = table()
    models = [
        PrivatePrincipalEigenvector(epsilon=e, random_state=s).fit(X)
        for e in (1.0, 5.0)
        for s in (0, 1)
    ]
    display = SpectrumDisplay.from_estimator(models[0])
    drawn = display.ax_.lines[0].get_ydata()
    np.testing.assert_array_equal(drawn, models[0].spectrum_)
    band = display.ax_.patches[0].get_extents().height
    assert band > 0
    display = CapturedVarianceDisplay.from_estimators(models, X, non_private=0.76)
    assert display.shares.shape == (2, 2)
    assert display.shares[1, 0] == models[2].score(X)
    with pytest.raises(ValueError, match="no matrix"):
        SpectrumDisplay.from_estimator(PrivatePrincipalEigenvector(mechanism="power").fit(X))
    plt.close("all")


def test_a_stream_of_tables_of_one_row_is_fitted(recording_accountant):
    stream = list(np.random.default_rng(0).normal(size=(60, 1, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = PrivatePrincipalEigenvector(accountant=recording_accountant).fit(stream)
    assert model.components_.shape == (1, 4) and len(recording_accountant.spends) == 1


@pytest.mark.parametrize(("n", "epsilon"), [(500, 1.0), (500, 3.0), (5000, 0.5)])
@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_pure_norms_are_found(n, epsilon, offset):
    """Seeded noise: nothing is left to chance."""
    X = np.random.default_rng(n).normal(size=(n, 3)) * [1.0, 0.6, 0.4] + offset
    longest = np.linalg.norm(X - X.mean(axis=0), axis=1).max()
    for seed in range(6):
        model = PrivatePrincipalEigenvector(epsilon=epsilon, delta=0.0, random_state=seed).fit(X)
        assert 0.1 * longest < model.row_norm_ < 3.0 * longest


def test_few_rows_are_told_that_a_pure_norm_may_be_anything():
    X = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.warns(UserWarning, match="n times epsilon is 100"):
        PrivatePrincipalEigenvector(delta=0.0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivatePrincipalEigenvector(delta=0.0).plan(500, 3)
        PrivatePrincipalEigenvector(delta=0.0, row_norm=3.0, center="assume").plan(100, 3)
