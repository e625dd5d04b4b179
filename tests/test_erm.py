"""PrivateRiemannianERM: any cost on any manifold, behind one scikit-learn door."""

import pickle

import numpy as np
import pytest
from pymanopt.manifolds import Oblique, SymmetricPositiveDefinite
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from skriemdp import PrivacyAccountant
from skriemdp._erm import PrivateRiemannianERM
from skriemdp.geometry import SPD, Euclidean, Grassmann, Hyperboloid, Sphere, Stiefel
from skriemdp.ledger._accountant import BudgetExceededError
from skriemdp.privacy._calibration import gaussian_mu

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(2000, 4)) * [1.0, 0.3, 0.2, 0.1]
START = np.full(4, 0.5)


def pca_gradient(point, X, y):
    return -2 * (X @ point)[:, None] * X


def pca_cost(point, x, y):
    return -((point * x).sum() ** 2)


def least_squares(point, x, y):
    return 0.5 * ((point * x).sum() - y) ** 2


def pca(**settings):
    settings = (
        dict(clip_norm=2.0, start=START, n_steps=30, euclidean_gradient=pca_gradient) | settings
    )
    return PrivateRiemannianERM("sphere", **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        dict(batch_size=300),
        dict(batch_size=300, sampling="fixed-size"),
        dict(batch_size=300, solver="variance-reduced", smoothness=6.0),
        dict(output="average"),
        dict(output="weighted-average", retraction=True),
        dict(output="random", n_steps=60),
        dict(radius=1.2),
    ],
    ids=str,
)
def test_finds_the_principal_direction(settings):
    model = pca(epsilon=3.0, step_size=0.2, **settings).fit(ROWS)
    first = np.linalg.eigh(ROWS.T @ ROWS)[1][:, -1]
    # A random iterate may be an early one; the start has .5.
    least = 0.97 if settings.get("output") != "random" else 0.4
    assert abs(model.point_ @ first) > least
    assert np.linalg.norm(model.point_) == pytest.approx(1.0)
    assert tuple(model.privacy_spent_) == (3.0, 1e-5)
    assert model.privacy_spent_.event.epsilon(1e-5) <= 3.0
    assert model.noise_scale_ > 0


@pytest.mark.parametrize("backend", ["torch", "jax", "autograd"])
def test_backends_agree_with_the_formula(backend):
    pytest.importorskip(backend)
    X = ROWS[:200]
    automatic = pca(
        euclidean_gradient=None, cost=pca_cost, backend=backend, random_state=0, n_steps=3
    )
    exact = pca(random_state=0, n_steps=3).fit(X)
    automatic.fit(X)
    np.testing.assert_allclose(automatic.point_, exact.point_, atol=1e-12)
    assert automatic.score(X) == pytest.approx(np.mean((X @ automatic.point_) ** 2))


def test_labels_reach_the_cost():
    pytest.importorskip("torch")
    truth = np.array([1.0, -0.5])
    X = RNG.normal(size=(3000, 2))
    y = X @ truth + 0.01 * RNG.normal(size=3000)
    model = PrivateRiemannianERM(
        "euclidean", least_squares, backend="torch", clip_norm=3.0, epsilon=3.0, step_size=0.2
    ).fit(X, y)
    np.testing.assert_allclose(model.point_, truth, atol=0.05)
    assert model.score(X, y) > -0.01
    folds = cross_val_score(model, X, y, cv=3, error_score="raise")
    assert folds.shape == (3,) and (folds > -0.05).all()


@pytest.mark.parametrize(
    "geometry", [SPD(2), Hyperboloid(2), Sphere(2), Grassmann(4, 2), Stiefel(4, 2)], ids=str
)
def test_default_cost_gives_a_mean(geometry):
    coordinates = RNG.uniform(-0.4, 0.4, size=(1000, geometry.dim))
    X = geometry.exp_coordinates(geometry.base_point, coordinates)
    model = PrivateRiemannianERM(geometry, epsilon=5.0, step_size=0.3, n_steps=20).fit(X)
    gradient = geometry.clipped_log_sum(model.point_, X) / len(X)
    assert geometry.norm(model.point_, gradient) < 0.1
    assert model.score(X) == pytest.approx(-0.5 * np.mean(geometry.dist(model.point_, X) ** 2))


@pytest.mark.slow
def test_any_pymanopt_manifold():
    manifold = Oblique(3, 2)
    X = RNG.normal(size=(500, 3, 2)) + 1.0

    def gradient(point, X, y):
        return point - X

    start = np.eye(3, 2)
    model = PrivateRiemannianERM(
        manifold, euclidean_gradient=gradient, start=start, n_steps=20, clip_norm=3.0, epsilon=5.0
    ).fit(X)
    expected = X.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=0)
    np.testing.assert_allclose(np.linalg.norm(model.point_, axis=0), 1.0)
    assert np.abs(model.point_ - expected).max() < 0.3
    twin = PrivateRiemannianERM(SymmetricPositiveDefinite(2), n_steps=3).fit(
        np.broadcast_to(np.eye(2), (50, 2, 2))
    )
    assert twin.geometry_ == SPD(2)


# -- privacy ----------------------------------------------------------------------------------


def test_charge_before_noise(recording_accountant):
    calls = []

    def gradient(point, X, y):
        calls.append(len(X))
        return X - point

    model = PrivateRiemannianERM(gradient=gradient, accountant=recording_accountant, n_steps=2)
    recording_accountant.refuse = True
    with pytest.raises(RuntimeError, match="refused"):
        model.fit(ROWS)
    assert calls and len(ROWS) not in calls  # tried on made-up records, no row of X
    assert not hasattr(model, "point_")
    recording_accountant.refuse = False
    model.fit(ROWS)
    (event,) = recording_accountant.spends
    assert event.mu == pytest.approx(gaussian_mu(1.0, 1e-5))


def test_the_dry_run_sees_no_record(recording_accountant):
    seen = []

    def gradient(point, X, y):
        seen.append(X.copy())
        return X - point

    recording_accountant.refuse = True
    with pytest.raises(RuntimeError):
        PrivateRiemannianERM(gradient=gradient, accountant=recording_accountant).fit(ROWS)
    assert all(not np.isin(X, ROWS).any() for X in seen)


def test_budget_is_enforced(tmp_path):
    with PrivacyAccountant(epsilon=1.5, delta=1e-5, path=tmp_path / "ledger.db") as accountant:
        pca(batch_size=100, n_steps=5).fit(ROWS)
        with pytest.raises(BudgetExceededError):
            pca(batch_size=100, n_steps=5, epsilon=1.4).fit(ROWS)
        assert len(accountant.history) == 1


def test_noise_scale_is_exact():
    steps, clip, n = 7, 0.5, len(ROWS)
    model = pca(n_steps=steps, clip_norm=clip).fit(ROWS)
    mu = gaussian_mu(1.0, 1e-5) * np.sqrt(0.99)  # the rest counts clipped gradients
    assert model.noise_scale_ == pytest.approx(2 * clip / n * np.sqrt(steps) / mu, rel=1e-9)


def test_statement():
    model = pca(batch_size=50, random_state=3).fit(ROWS)
    spent = model.privacy_spent_
    assert spent.neighboring == "replace-one" and spent.seeded
    assert spent.guarantee == "none (seeded)"
    assert spent.public["sampling"] == "poisson" and spent.public["n"] == len(ROWS)
    assert pca().fit(ROWS).privacy_spent_.guarantee == "exact"


def test_seeds_repeat_and_differ():
    first, again, other = (pca(random_state=s).fit(ROWS).point_ for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    moved = ROWS.copy()
    moved[0] += 1e-3
    noise = (
        pca(random_state=1, n_steps=1).fit(ROWS).point_
        - pca(random_state=1, n_steps=1).fit(moved).point_
    )
    assert np.abs(noise).max() > 1e-6  # other data, other noise


def test_one_wild_record_stays_within_the_sensitivity():
    wild = ROWS.copy()
    wild[5] = 1e160
    for X in (ROWS, wild):
        model = pca(epsilon=50.0).fit(X)
        assert np.isfinite(model.point_).all()
        assert abs(model.point_[0]) > 0.97


def test_callback():
    points = []
    pca(n_steps=4, callback=lambda step, point: points.append(point)).fit(ROWS)
    assert len(points) == 4


def test_clone_and_pickle():
    model = pca(batch_size=20, n_steps=3)
    assert clone(model).get_params().keys() == model.get_params().keys()
    fitted = pickle.loads(pickle.dumps(model.fit(ROWS)))
    np.testing.assert_array_equal(fitted.point_, model.point_)


def test_step_sizes_of_the_theory_fit_in():
    from skriemdp.schedules import FunctionClass, schedule

    kind = FunctionClass("strongly-convex", dim=4, lipschitz=1.0, strong_convexity=1.0)
    plan = schedule(kind, len(ROWS), gaussian_mu(1.0, 1e-5), max_steps=50)
    model = PrivateRiemannianERM(
        n_steps=plan.n_steps, step_size=plan.step_size, output=plan.output
    ).fit(ROWS)
    assert model.noise_scale_ == pytest.approx(plan.sigma / np.sqrt(0.99))


def test_a_clip_norm_is_found_in_any_unit(recording_accountant):
    rng = np.random.default_rng(0)
    for unit in (1e-6, 1.0, 1e6):
        X = unit * (3.0 + rng.normal(size=(2000, 3)))
        model = PrivateRiemannianERM(clip_norm="private", accountant=recording_accountant).fit(X)
        norms = np.linalg.norm(X, axis=1)  # gradients at the start, which is zero
        assert 0.5 < np.mean(norms <= model.clip_norm_) <= 1.0
        assert model.clip_norm_ < 3.0 * norms.max()
        assert np.linalg.norm(model.point_ - X.mean(axis=0)) < unit
    events = recording_accountant.spends
    assert {event.mu for event in events} == {gaussian_mu(1.0, 1e-5)}
    far = 1e3 * ROWS
    with pytest.warns(UserWarning, match="clip_norm='private'"):
        PrivateRiemannianERM(n_steps=2).fit(far)
    for wrong in ({"batch_size": 10.0}, {"clip_norm": "automatic"}):
        with pytest.raises(ValueError, match="clip_norm"):
            PrivateRiemannianERM(**{"clip_norm": "private"} | wrong).fit(far)
    equal = PrivateRiemannianERM(clip_norm="private", n_steps=3).fit(np.ones((2, 2)))
    assert np.isfinite(equal.point_).all()


class Bare:
    """The least that a manifold must have: a sphere without logarithm, distance or transport."""

    dim = 3

    def projection(self, point, vector):
        return vector - point * np.sum(point * vector)

    def retraction(self, point, vector):
        return (point + vector) / np.linalg.norm(point + vector)

    def norm(self, point, vector):
        return np.linalg.norm(vector)

    def random_point(self):
        return self.retraction(np.zeros(4), np.random.normal(size=4))


@pytest.mark.slow
def test_a_bare_manifold_runs_and_says_what_it_cannot(recording_accountant):
    few = ROWS[:400]  # each of them alone: nothing says that rows are computed apart
    settings = dict(
        clip_norm=2.0,
        start=START,
        n_steps=5,
        step_size=0.8,
        euclidean_gradient=pca_gradient,
        epsilon=8.0,
        accountant=recording_accountant,
    )
    model = PrivateRiemannianERM(Bare(), **settings).fit(few)
    assert abs(model.point_[0]) > 0.9
    (first,) = recording_accountant.spends
    for more in (
        dict(output="average"),
        dict(solver="variance-reduced", batch_size=100, smoothness=1.0),
    ):
        with pytest.raises(TypeError):
            PrivateRiemannianERM(Bare(), **settings, **more).fit(few)
    assert recording_accountant.spends == [first]


# -- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, error, match",
    [
        (dict(clip_norm=0.0), ValueError, "clip_norm"),
        (dict(clip_norm=np.inf), ValueError, "clip_norm"),
        (dict(n_steps=0), ValueError, "n_steps"),
        (dict(step_size=-1.0), ValueError, "step_size"),
        (dict(batch_size=5000), ValueError, "batch_size"),
        (dict(batch_size=10.5, sampling="fixed-size"), TypeError, "batch_size"),
        (dict(sampling="shuffled"), ValueError, "sampling"),
        (dict(solver="adam"), ValueError, "solver"),
        (dict(solver="variance-reduced"), ValueError, "batch_size"),
        (
            dict(solver="variance-reduced", batch_size=10, smoothness=1.0, n_steps=15),
            ValueError,
            "multiple",
        ),
        (dict(delta=0.0), ValueError, "delta"),
        (dict(epsilon=np.inf), ValueError, "epsilon"),
        (dict(start=np.zeros(4)), ValueError, "start"),
        (dict(start=np.zeros(3)), ValueError, "start"),
        (dict(callback=3), TypeError, "callback"),
        (dict(output="best"), ValueError, "output"),
        (dict(backend="torch"), ValueError, "leave out"),
        (dict(euclidean_gradient=lambda point, X, y: X.sum(0)), ValueError, "one gradient per"),
    ],
    ids=lambda value: str(value).split(" at 0x")[0],
)
def test_bad_settings_spend_nothing(settings, error, match, recording_accountant):
    with pytest.raises(error, match=match):
        pca(accountant=recording_accountant, **settings).fit(ROWS)
    assert recording_accountant.spends == []


def test_a_closure_over_the_data_is_refused():
    pytest.importorskip("torch")
    import torch

    tensor = torch.from_numpy(ROWS)

    def cost(point, x, y):
        return ((tensor @ point) ** 2).mean()

    with pytest.raises(TypeError, match="closure"):
        pca(euclidean_gradient=None, cost=cost, backend="torch").fit(ROWS)
    with pytest.raises(TypeError, match="one record"):
        pca(euclidean_gradient=None, cost=lambda point: 0.0, backend="torch").fit(ROWS)


def test_default_cost_needs_points():
    with pytest.raises(ValueError, match="not points"):
        PrivateRiemannianERM("sphere").fit(ROWS)
    with pytest.raises(ValueError, match="shape"):
        PrivateRiemannianERM(Euclidean(3)).fit(ROWS)


def test_score_needs_a_cost():
    model = pca(n_steps=2).fit(ROWS)
    assert not hasattr(model, "score")
    model = pca(n_steps=2, cost=lambda point, x, y: -(float(point @ x) ** 2)).fit(ROWS)
    assert model.score(ROWS) == pytest.approx(np.mean((ROWS @ model.point_) ** 2))
