"""The reproductions of published figures: their exact numbers, their kernels, their short runs."""

from __future__ import annotations

import functools
import importlib
import math
import os
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skriemdp import PrivacyAccountant
from skriemdp.geometry import SPD, Hyperboloid
from skriemdp.privacy._calibration import gaussian_epsilon
from skriemdp.privacy._events import GaussianEvent, compose
from skriemdp.riemannian_laws._distributions import RiemannianLaplace

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "reproductions"


@pytest.fixture(scope="module")
def script():
    """Import a script of the folder by name; the folder is importable meanwhile."""
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module
    sys.path.remove(str(FOLDER))


def gaussian_delta(mu, epsilon):
    """delta of a mu-GDP release with forty digits, from the textbook formula."""
    with mpmath.workdps(40):
        a, b = mpmath.mpf(epsilon) / mu - mpmath.mpf(mu) / 2, mpmath.mpf(epsilon) / mu
        b += mpmath.mpf(mu) / 2
        return float(mpmath.ncdf(-a) - mpmath.exp(epsilon) * mpmath.ncdf(-b))


# -- true epsilons of published curves ------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.0761, 89.0, 8506.0, 46_600.0])
def test_epsilons_in_the_millions_have_the_stated_delta(mu):
    assert_allclose(gaussian_delta(mu, gaussian_epsilon(mu, 1e-3)), 1e-3, rtol=1e-6)


@pytest.mark.parametrize("n", [20, 300, 5000])
def test_published_means_have_epsilon_0_142(script, n):
    means = script("han2022_spd_mean")
    # T = n releases of a mean gradient that one record moves by 2/n.
    released = compose([GaussianEvent(means.published_sigma(n, 1.0) / (2.0 / n), count=n)])
    assert_allclose(released.mu, means.published_mu(2.0, 1.0), rtol=1e-12)
    epsilons = {row[0]: row[1] for row in means.true_epsilons()}
    assert_allclose(epsilons["DP-RGD, affine-invariant"], 0.1416, atol=1e-4)
    assert_allclose(gaussian_delta(released.mu, 0.1), 3.5e-3, rtol=0.02)  # stated: 1e-3


def test_published_components_have_epsilons_in_the_millions(script):
    pca, rng = script("han2022_pca"), np.random.default_rng(0)
    task = pca.Task(pca.standardised(rng.normal(size=(800, 6)) * np.arange(1, 7)))
    bound = 2 * task.R**2
    for epsilon in (0.1, 3.0):
        steps = pca.published_steps(task, epsilon, bound)
        assert steps > 0
        sigma = pca.published_sigma(task, epsilon, bound, steps)
        # What is released is the SUM of gradients, and 2 R^2 is how far one record moves it.
        mu = GaussianEvent(sigma / (2 * task.R**2), count=steps).mu
        assert_allclose(mu, pca.descent_mu(task.n, epsilon), rtol=1e-12)
        (diagonal, _), (least, above) = pca.gmip_scales(task, epsilon)
        assert_allclose(math.sqrt(2) * task.R**2 / diagonal, pca.gmip_mu(epsilon), rtol=1e-12)
        assert_allclose(math.sqrt(2) * above, least, rtol=1e-12)
    assert_allclose(pca.descent_mu(49_990, 0.1), 8506, atol=1)
    assert_allclose(gaussian_epsilon(pca.descent_mu(49_990, 0.1), 1e-3), 3.62e7, rtol=2e-3)
    assert_allclose(gaussian_epsilon(pca.gmip_mu(0.1), 1e-3), 0.023, atol=5e-4)


def test_the_gradient_of_a_component_moves_by_twice_the_squared_norm():
    # 2 R^2 is attained for the Euclidean gradient, and nearly so for its tangent part.
    rng, best = np.random.default_rng(1), 0.0
    for angle in rng.uniform(0, math.pi, 2000):
        w, x = np.array([1.0, 0.0]), np.array([math.cos(angle), math.sin(angle)])
        y = np.array([math.cos(angle), -math.sin(angle)])
        change = 2 * ((x @ w) * x - (y @ w) * y)
        best = max(best, float(np.linalg.norm(change)))
    assert 1.999 < best < 2.0 + 1e-12


def test_published_prediction_has_epsilon_in_the_thousands(script):
    hyperbolic = script("han2022_hyperbolic")
    for n, largest in ((1169, 0.0042), (200, 0.3)):
        steps, sigma = hyperbolic.schedule(n, largest)
        # The gradient of d^2 is twice the logarithm, whose difference is at most the diameter.
        moved = 2.0 * largest * hyperbolic.DIAMETER
        mu = GaussianEvent(sigma / moved, count=steps).mu
        assert_allclose(mu, hyperbolic.published_mu(n), rtol=1e-12)
    assert_allclose(hyperbolic.published_mu(1169), 88.96, atol=0.01)
    assert_allclose(gaussian_epsilon(hyperbolic.published_mu(1169), 1e-3), 4230, rtol=2e-3)


@pytest.mark.parametrize("root_t", [False, True])
def test_stated_noise_of_adagrad(script, root_t):
    adagrad, n, steps, epsilon = script("kairouz2021_adagrad"), 500, 7, 0.7
    events = []
    for t in range(1, steps + 1):
        sigma = math.sqrt(steps * t * math.log(1e5)) / (epsilon * n)
        gradient = sigma if root_t else sigma / math.sqrt(t)
        events.append(GaussianEvent(gradient / (2.0 / n)))
        # The ensemble has entries of variance 1 above the diagonal, 2 on it.
        events.append(GaussianEvent(math.sqrt(2) * sigma / (2 * math.sqrt(2 * t) / n)))
    mu = adagrad.stated_mu(epsilon, 1e-5, steps, root_t)
    assert_allclose(mu, compose(events).mu, rtol=1e-12)


def test_preconditioners_move_more_than_published(script):
    change = script("kairouz2021_adagrad").preconditioner_change
    for n, t in ((5, 1), (100, 30)):
        exact = 2 * math.sqrt(2) * (n - 1) / math.hypot(n - 1, 1)
        assert_allclose(change(n, t, True), exact, rtol=1e-10)
    assert_allclose(change(10_000, 4, False), math.sqrt(2), rtol=1e-4)


def test_bures_constants_bound_the_ball(script):
    means, rng, radius = script("han2022_spd_mean"), np.random.default_rng(2), 0.3
    flat, bures = SPD(2), SPD(2, metric="bures-wasserstein")
    steps = rng.normal(size=(4000, 3))
    steps *= radius * rng.random((4000, 1)) ** 0.05 / np.linalg.norm(steps, axis=1)[:, None]
    W = bures.exp(np.eye(2), bures.tangent_from_coordinates(np.eye(2), steps))
    U = bures.tangent_from_coordinates(W, rng.normal(size=(4000, 3)))
    ratio = flat.norm(W, U) / bures.norm(W, U)
    assert 0.9 * means.metric_ratio(radius) < ratio.max() < means.metric_ratio(radius)
    curvature = 3.0 / np.trace(W, axis1=-2, axis2=-1)
    assert 0.9 * means.bures_curvature(radius) < curvature.max() <= means.bures_curvature(radius)


# -- kernels of the scripts against the library ---------------------------------------------------


@pytest.mark.parametrize("name", ["AffineCloud", "BuresCloud"])
def test_closed_forms_for_two_by_two_matrices(script, name):
    means, rng = script("han2022_spd_mean"), np.random.default_rng(3)
    kind = getattr(means, name)
    cloud, W = means.wishart_in_ball(kind, 30, 0.3, rng), means.random_start(6, rng)
    assert float(kind.geometry.dist(np.eye(2), cloud.X).max()) < 0.3
    W[0] = cloud.X[0]  # equal points are the degenerate case
    for point, log, risk in zip(W, cloud.mean_log(W), cloud.risk(W), strict=True):
        expected = kind.geometry.clipped_log_sum(point, cloud.X) / cloud.n
        assert_allclose(log, expected, atol=1e-10)
        assert_allclose(risk, np.mean(kind.geometry.dist(point, cloud.X) ** 2), rtol=1e-8)
    assert cloud.gradient_norm(cloud.mean()[None])[0] < 1e-10


def test_k_norm_draws_follow_their_law(script):
    """Against self-normalised importance weights on Laplace draws."""
    means, rng = script("han2022_spd_mean"), np.random.default_rng(4)
    # Two records far apart: the norm of the mean logarithm is well above the distance.
    X = SPD(2).exp(np.eye(2), np.array([np.diag([3.0, 0.0]), [[0.0, 2.0], [2.0, 0.0]]]))
    cloud, scale, count = means.AffineCloud(X), 0.3, 3000
    draws = means.k_norm_exact(cloud, scale, count, rng)
    distance = np.minimum(cloud.geometry.dist(cloud.mean(), draws), 2.0)
    others = RiemannianLaplace(SPD(2), scale).sample(cloud.mean(), (count,), rng)
    far = cloud.geometry.dist(cloud.mean(), others)
    weight = np.exp(-(cloud.gradient_norm(others) - far) / scale)
    expected = np.average(np.minimum(far, 2.0), weights=weight)
    assert_allclose(distance.mean(), expected, atol=0.03)
    assert weight.min() < 0.9 * weight.max()  # the two laws differ


def test_image_covariances_are_what_the_means_expect(script):
    images, rng = script("han2022_spd_images"), np.random.default_rng(7)
    grey = images.sampled(255 * rng.random((6, 40, 36)))
    assert grey.shape == (6, 32, 32) and 0.0 <= grey.min() and grey.max() <= 1.0
    features = images.gabor_features(grey)
    assert features.shape == (6, 1024, 8) and 0.0 <= features.min() and features.max() <= 1.0
    flat = images.gabor_features(np.full((1, 32, 32), 0.7))[0].reshape(32, 32, 8)
    assert_allclose(flat[16, 16, 2:5], 0.0, atol=1e-12)  # no magnitude without contrast
    X = images.reduced(images.covariances(grey))
    assert X.shape == (6, 2, 2) and bool(np.all(SPD(2).belongs(X)))


def test_hyperbolic_kernels(script):
    hyperbolic, rng, space = script("han2022_hyperbolic"), np.random.default_rng(5), Hyperboloid(2)
    Y = space.exp_coordinates(space.base_point, 2 * rng.normal(size=(40, 2)))
    W = space.exp_coordinates(space.base_point, rng.normal(size=(5, 2)))
    weights = rng.normal(size=40)
    V = hyperbolic.pull(W, Y, weights)
    for point, total in zip(W, V, strict=True):
        assert_allclose(total, weights @ space.log(point, Y), atol=1e-9)
    assert_allclose(hyperbolic.step(W, 0.1 * V), space.exp(W, 0.1 * V), atol=1e-9)


def test_algorithm_1_without_noise_is_adagrad(script):
    adagrad, rng = script("kairouz2021_adagrad"), np.random.default_rng(6)
    task = adagrad.Task(10, k=3, n=300)
    assert np.linalg.norm(task.gradient(task.best)) < 1e-6
    average, indefinite = adagrad.algorithm_1(task, 1e9, 200, 2.0, rng)
    assert task.excess(average) < 0.1 * task.excess(np.zeros(10)) and indefinite < 0.05
    noisy, indefinite = adagrad.algorithm_1(task, 0.1, 20, 2.0, rng)
    assert task.excess(noisy) > task.excess(average) and indefinite > 0.5


def test_regret_of_batches_is_below_its_bound(script):
    regret = script("kairouz2021_regret")
    task = regret.Task(regret.K, k=regret.K, n=16 * regret.BATCH)
    people, start = regret.problem(task, 0, 16), np.zeros((regret.K, 1))
    least = people.risk(people.minimize(0.0))
    assert_allclose(least, task.least, atol=1e-6)
    loss, bound, _ = regret.online(task, 16, "clean", 2.0, 0)
    assert 0.0 < loss - least < min(bound, people.risk(start) - least)
    # One record moves the mean gradient of a batch by 2/n.
    batch = regret.problem(task, 0, 1)
    gradient, sigma = regret.released(batch, start, regret.MU, regret.NoiseStreams(1))
    assert_allclose(sigma, 2.0 / (regret.BATCH * regret.MU), rtol=1e-3)
    exact = batch.rows.T @ (0.5 - batch.targets[:, None]) / regret.BATCH
    assert 0.1 * sigma < np.abs(gradient - exact).max() < 6.5 * sigma  # false alarms: below 1e-9
    averaged = regret.averaged(task, 3, 0)
    assert averaged[0] == pytest.approx(math.log(2.0)) and averaged[2] < averaged[0]


# -- short runs -----------------------------------------------------------------------------------


def _shorten(monkeypatch, module):
    """Make the quick form of a script quicker still."""
    name = module.__name__
    if name == "han2022_spd_mean":
        walk = functools.partial(module.k_norm_walk, acceptances=20)
        monkeypatch.setattr(module, "k_norm_walk", walk)
        plan = module.Plan(3, 2, 2, (40,), (30,), (40,), (40,), (20,))
        monkeypatch.setattr(module, "QUICK", plan)
    elif name == "han2022_spd_images":
        monkeypatch.setattr(module, "QUICK", ((1.0,), 2))
    elif name == "han2022_hyperbolic":
        embed = module.embed_taxonomy
        short = lambda edges, radius, n_epochs: embed(edges, radius=radius, n_epochs=2)  # noqa: E731
        monkeypatch.setattr(module, "embed_taxonomy", short)
    elif name == "kairouz2021_adagrad":
        monkeypatch.setattr(module, "Task", functools.partial(module.Task, n=300))
    elif name == "jiang2023_mu":
        few = functools.partial(module.algorithm_2, m=5, n_epsilon=50)
        monkeypatch.setattr(module, "algorithm_2", few)


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize(
    ("name", "skips", "titles"),
    [
        ("han2022_hyperbolic", 1, ("Published settings", "Distance to the held-out label")),
        ("han2022_pca", 2, ("Synthetic",)),
        ("han2022_spd_images", 2, ("digits",)),
        ("han2022_spd_mean", 0, ("What the published noise", "Bures", "Records away")),
        ("huang2025_prirfed", 3, ("covariances",)),
        ("jiang2023_mu", 0, ("mu at Delta = 1", "delta(epsilon) on the circle", "S^2, n = 10")),
        ("kairouz2021_adagrad", 0, ("Change of the", "stated noise", "dimension p", "Gradients")),
        ("kairouz2021_regret", 0, ("step size of the theorem", "step size 2")),
    ],
)
def test_scripts_run_without_data(script, monkeypatch, tmp_path, capsys, name, skips, titles):
    pytest.importorskip("matplotlib", reason="the scripts draw figures")
    monkeypatch.delenv("SKRIEMDP_DATA", raising=False)
    module = script(name)
    _shorten(monkeypatch, module)
    with PrivacyAccountant(epsilon=math.inf):
        some = ["--only", "covariances"] if name == "huang2025_prirfed" else []
        module.main(["--quick", "--output", str(tmp_path), *some])
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert sum(line.startswith("skipped:") for line in lines) == skips
    assert all(any(title in line for line in lines if line[:4] == "### ") for title in titles)
    assert "nan" not in printed.lower().replace("nano", "")
    # Every private table stands beside an answer without data.
    assert name in ("jiang2023_mu", "huang2025_prirfed") or "no data" in printed
    tables_alone = ("han2022_pca", "kairouz2021_regret")
    assert bool(list(tmp_path.glob(f"{name}*.png"))) == (name not in tables_alone)


def test_the_driver_runs_what_is_there(script, tmp_path, capsys):
    driver = script("run_all")
    assert {"han2022_pca", "jiang2023_mu", "kairouz2021_adagrad"} <= set(driver.names())
    assert not {"run_all", "reproduction_tools"} & set(driver.names())
    target = tmp_path / "example.md"
    code, _, _ = driver.run("reproduction_tools", ["--quick"], target)  # defines, prints nothing
    assert code == 0
    assert target.read_text().strip() == (
        "`python examples/reproductions/reproduction_tools.py --quick`"
    )
    code, _, _ = driver.run("no_such_script", [], target)
    assert code != 0


def test_every_script_is_listed_and_has_a_page(script):
    folder = ROOT / "docs/reproductions"
    listed = (folder / "index.md").read_text(encoding="utf-8")
    pages = {p.stem: p.read_text(encoding="utf-8") for p in folder.glob("*.md")}
    for name in script("run_all").names():
        assert f"`{name}.py`" in listed
        assert f"python examples/reproductions/{name}.py" in pages[name.split("_")[0]]


@pytest.mark.skipif(not os.environ.get("SKRIEMDP_DATA"), reason="SKRIEMDP_DATA is not set")
def test_published_schedule_on_the_mammals(script):
    hyperbolic = script("han2022_hyperbolic")
    path = Path(os.environ["SKRIEMDP_DATA"]) / "wordnet_mammals.tsv"
    if not path.exists():
        pytest.skip("no wordnet_mammals.tsv in SKRIEMDP_DATA")
    names, edges = hyperbolic.load_closure(path)
    X, Y = hyperbolic.eigenmaps_and_labels(edges, len(names), quick=True)
    word = names.index("horse.n.01")
    query = hyperbolic.Query(X, Y, word, [word])
    assert query.n == 1169
    assert hyperbolic.schedule(query.n, query.largest)[0] == pytest.approx(2365, abs=30)
