"""Records in dask arrays: exact sums from workers, one noise per step from the caller."""

import functools
import os
import threading
import time
import warnings

import numpy as np
import pytest

from skriemdp._descent.chunked import DaskProblem, _on_block
from skriemdp._descent.gradient_descent import RiemannianGradientDescent
from skriemdp._descent.per_sample import CostProblem, EuclideanGradient, HalfSquaredDistance
from skriemdp._descent.problem import FrechetProblem
from skriemdp._descent.queries import DifferenceQuery, GradientQuery
from skriemdp._erm import PrivateRiemannianERM
from skriemdp._mechanisms.bounded_sets import ball
from skriemdp._mechanisms.bounds import Ball
from skriemdp.datasets import make_cloud
from skriemdp.geometry import SPD, Euclidean, GeodesicBall, Grassmann, Sphere, Stiefel
from skriemdp.geometry._tiles import block_length

da = pytest.importorskip("dask.array")
BALL = GeodesicBall(SPD(2), None, 1.0)


def matrices(n, seed=0):
    """SPD matrices in the unit ball."""
    coordinates = np.random.default_rng(seed).uniform(-0.5, 0.5, size=(n, 3))
    return SPD(2).exp_coordinates(np.eye(2), coordinates)


def slow_block(block_id, rows, seconds):
    """Block of records that can be made again, after a while."""
    time.sleep(seconds)
    return matrices(rows, seed=block_id)


def regenerable(blocks, rows, seconds=0.0):
    import dask

    parts = [
        da.from_delayed(
            dask.delayed(slow_block, pure=True)(k, rows, seconds), shape=(rows, 2, 2), dtype=float
        )
        for k in range(blocks)
    ]
    return da.concatenate(parts)


@pytest.fixture
def synchronous():
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("indices", [None, np.array([0, 3, 70, 71, 149]), np.array([], dtype=int)])
@pytest.mark.usefixtures("synchronous")
def test_chunks_sum_to_the_whole(indices):
    X = matrices(150)
    whole = FrechetProblem(BALL, X)
    chunked = DaskProblem(
        functools.partial(FrechetProblem, BALL), da.from_array(X, chunks=(40, 1, 2))
    )
    point, anchor = X[3], X[4]
    assert chunked.n == 150
    assert chunked.geometry == SPD(2)
    bound, expected = (problem.gradient_ball(point) for problem in (chunked, whole))
    assert bound.radius == expected.radius
    np.testing.assert_array_equal(bound.center, expected.center)
    assert chunked.longest_piece == whole.longest_piece
    for query in (
        lambda problem: GradientQuery(problem, point),
        lambda problem: GradientQuery(problem, point, 0.2),
        lambda problem: DifferenceQuery(problem, point, anchor, 0.1),
    ):
        found, expected = (query(problem).exact(indices) for problem in (chunked, whole))
        np.testing.assert_array_equal(found, expected)
    for method, arguments in (
        ("gradients", (point,)),
        ("gradient_coordinates", (point,)),
    ):
        expected = getattr(whole, method)(*arguments, indices)
        found = getattr(chunked, method)(*arguments, indices)
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.usefixtures("synchronous")
@pytest.mark.parametrize(
    "settings",
    [{}, dict(batch_size=60), dict(batch_size=60, solver="variance-reduced")],
    ids=str,
)
def test_estimator_accepts_dask_arrays(settings):
    rng = np.random.default_rng(0)
    X, truth = rng.normal(size=(600, 3)), np.array([1.0, 0.0, -1.0])
    y = X @ truth

    def gradient(point, X, y):
        return (X @ point - y)[:, None] * X

    model = PrivateRiemannianERM(
        Euclidean(3),
        euclidean_gradient=gradient,
        epsilon=30.0,
        clip_norm=3.0,
        n_steps=40,
        **settings,
    )
    model.fit(da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100))
    np.testing.assert_allclose(model.point_, truth, atol=0.35)
    assert model.privacy_spent_.public["n"] == 600 and model.n_features_in_ == 3


@pytest.mark.usefixtures("synchronous")
def test_seeded_fits_repeat_and_depend_on_the_data():
    X = np.random.default_rng(0).normal(size=(90, 2))
    model = PrivateRiemannianERM(random_state=0, n_steps=2)
    first = model.fit(da.from_array(X, chunks=(30, 2))).point_
    again = model.fit(da.from_array(X, chunks=(30, 2))).point_
    np.testing.assert_array_equal(first, again)
    X[0] += 1e-9
    other = model.fit(da.from_array(X, chunks=(30, 2))).point_
    assert np.abs(other - first).max() > 1e-6


class _Library:
    """A C library that remembers what was asked of its allocator."""

    def __init__(self):
        self.asked = []

    def mallopt(self, option, value):
        self.asked.append((option, value))
        return 1


def test_a_task_keeps_freed_memory_until_it_ends(monkeypatch):
    library = _Library()
    monkeypatch.setattr("ctypes.CDLL", lambda name: library)
    problem, point = FrechetProblem(BALL, matrices(20)), np.eye(2)
    bounded_set = ball(Ball(0.3), 3)
    arguments = bounded_set, bounded_set.check(1.0), (point,)
    expected = problem.integers(*arguments)

    def make(X):
        seen.append(list(library.asked))
        return FrechetProblem(BALL, X)

    few, many, most = "65536", "999999999", 2**25
    for limit, mapped, kept, left in (
        (None, None, [], []),
        (few, None, [(-1, most), (-3, most)], [(-3, 2**17), (-1, int(few))]),
        (few, few, [(-1, most), (-3, most)], [(-3, int(few)), (-1, int(few))]),
        (many, many, [(-1, int(many)), (-3, int(many))], [(-3, int(many)), (-1, int(many))]),
    ):
        seen = []
        library.asked.clear()
        if limit is not None:
            monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", limit)
        if mapped is not None:
            monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", mapped)
        found = _on_block(make, "integers", arguments, None, matrices(20))
        np.testing.assert_array_equal(found, expected)
        assert seen == [kept]
        assert library.asked == kept + left
    with pytest.raises(ZeroDivisionError):
        _on_block(lambda X: 1 / 0, "integers", (), None, None)
    assert library.asked[-1] == (-1, 999999999)


def test_without_such_an_allocator_blocks_are_small(monkeypatch):
    def missing(name):
        raise OSError

    monkeypatch.setattr("ctypes.CDLL", missing)
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")

    class Spy:
        def longest(self, indices):
            return block_length(np.empty((0, 2, 2)))

    assert _on_block(Spy, "longest", (), None) == 2**16 // 32
    assert block_length(np.empty((0, 2, 2))) == 2**18 // 32


@pytest.mark.usefixtures("synchronous")
def test_no_generator_reaches_a_task():
    # What a task gets besides its chunk: the problem's settings, a method, points and indices.
    seen = []

    class Spy(CostProblem):
        def integers(self, bounded_set, steps, points, indices=None):
            seen.append((bounded_set, steps, *points, indices))
            return super().integers(bounded_set, steps, points, indices)

    gradient = HalfSquaredDistance(Euclidean(2))
    problem = DaskProblem(functools.partial(Spy, gradient), da.ones((40, 2), chunks=(10, 2)))
    solver = RiemannianGradientDescent(mu=1.0, n_steps=3, step_size=0.5, clip_norm=1.0)
    solver.solve(problem, np.zeros(2), np.random.default_rng(0))
    assert len(seen) == 12
    assert not any(isinstance(x, np.random.Generator) for call in seen for x in call)


def test_bad_chunks():
    make = functools.partial(CostProblem, HalfSquaredDistance(Euclidean(2)))
    with pytest.raises(TypeError, match="dask arrays"):
        DaskProblem(make, np.ones((4, 2)))
    x = da.ones((10, 2), chunks=(5, 2))
    with pytest.raises(ValueError, match="same chunks"):
        DaskProblem(make, x, da.ones(10, chunks=3))
    with pytest.raises(ValueError, match="unknown"):
        DaskProblem(make, x[x[:, 0] > 0.5])
    model = PrivateRiemannianERM(euclidean_gradient=plain_gradient)
    with pytest.raises(TypeError, match="y as a dask array"):
        model.fit(x, np.ones(10))


@pytest.mark.usefixtures("synchronous")
def test_records_that_are_not_finite_count_as_zero():
    X = np.ones((20, 2))
    X[3] = np.nan
    model = PrivateRiemannianERM(n_steps=3, epsilon=50.0).fit(da.from_array(X, chunks=(10, 2)))
    assert np.isfinite(model.point_).all()


@pytest.mark.slow
def test_a_worker_killed_in_mid_step_changes_nothing():
    distributed = pytest.importorskip("distributed")
    solver = RiemannianGradientDescent(mu=1.0, n_steps=4, step_size=0.5)

    def run(kill):
        with (
            distributed.LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            X = regenerable(8, 50, seconds=0.2).persist()
            problem = DaskProblem(functools.partial(FrechetProblem, BALL), X)
            victim = next(iter(client.run(os.getpid).values()))
            killed = []

            def assassinate():
                time.sleep(0.5)  # 1.6 s of blocks on two workers: in the middle of the first step
                os.kill(victim, 9)
                killed.append(victim)

            thread = threading.Thread(target=assassinate)
            if kill:
                thread.start()
            point = solver.solve(problem, BALL.center, np.random.default_rng(7))
            if kill:
                thread.join()
                assert killed and victim not in client.run(os.getpid).values()
            return point

    calm, disturbed = run(kill=False), run(kill=True)
    np.testing.assert_array_equal(calm, disturbed)
    rows = np.concatenate([matrices(50, seed=k) for k in range(8)])
    alone = solver.solve(FrechetProblem(BALL, rows), BALL.center, np.random.default_rng(7))
    np.testing.assert_allclose(calm, alone, atol=1e-12)


def test_explicit_gradients_survive_pickling():
    import pickle

    problem = CostProblem(EuclideanGradient(Euclidean(2), plain_gradient), np.ones((3, 2)))
    copy = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(copy.gradients(np.zeros(2)), problem.gradients(np.zeros(2)))


def plain_gradient(point, X, y):
    return point - X


@pytest.mark.usefixtures("synchronous")
@pytest.mark.parametrize("junk", [np.nan, np.inf, 1e308, 0.0])
@pytest.mark.parametrize("geometry", [Grassmann(4, 2), Stiefel(4, 2), Sphere(3), SPD(3)], ids=str)
def test_a_record_that_is_no_point_counts_as_zero(geometry, junk):
    """Nobody has read the records, so none of them may make a fit fail after its charge."""
    X = make_cloud(geometry, 60, radius=0.4, rng=np.random.default_rng(0))
    X[3] = junk
    model = PrivateRiemannianERM(geometry, clip_norm=1.0, n_steps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model.fit(da.from_array(X, chunks=(30, *X.shape[1:])))
    assert geometry.belongs(model.point_)
