"""Operations and openings of a curator, and what a rehearsal says of them."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from skriemdp._curator import curator as curators
from skriemdp._curator import sets
from skriemdp._curator.curator import Curator
from skriemdp._curator.openings import Gaussian, Pure, Sampled, Selection
from skriemdp._curator.rehearsal import Rehearsal
from skriemdp._curator.tables import Memory
from skriemdp._gives.base import Give
from skriemdp._gives.points import Labelled, Length, LogAt
from skriemdp._groups import Groups
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.bounded_sets import Outer
from skriemdp._random import NoiseStreams
from skriemdp.geometry import SPD, Euclidean, GeodesicBall, Hyperboloid, Sphere
from skriemdp.privacy._events import GaussianEvent, PureEvent, compose
from skriemdp.privacy._laplace import laplace_law

SPACE, N, MU = Euclidean(3), 300, 0.5
X = np.random.default_rng(5).normal(size=(N, 3)) + [5.0, -2.0, 1.0]
ORIGIN = np.zeros(3)
SEEN = LogAt(SPACE, ORIGIN)
GRID = 1.1 ** np.arange(-60.0, 60.0)
LAW = laplace_law(3, 1.0, 1e-5, 0.1)
RUN = Sampled("poisson", 30.0, 5.0, 4, 3, anchors=2, anchor_multiplier=9.0)


@dataclass(frozen=True, eq=False)
class Factors(Give):
    """Outer products of a row with a public combination of its numbers."""

    inner: LogAt
    weights: np.ndarray | None = None
    shape = (3,)

    def of(self, points, beside=None):
        return self.after(self.inner.of(points))

    def after(self, rows, resolution=1):
        seen = rows.rows if hasattr(rows, "rows") else rows
        return rows, seen @ (self.weights / resolution)

    def nothing(self, count):
        return np.full((count, 3), np.nan), np.full((count, 1), np.nan)


def opened(opening, table=None, seed=0):
    return Curator(Memory(X) if table is None else table, opening, NoiseStreams(seed, b"x"))


def asked(c, share=0.1):
    """One of each operation that every opening with a budget has."""
    c.quantile(Length(SEEN), GRID, 0.9, share, "radius", "radius")
    c.sum(SEEN, sets.ball(9.0, 3), share, "rough", "rough")
    c.count(Length(SEEN), 6.0, share, "count", "count")


# -- operations -----------------------------------------------------------------------------------


def test_a_sum_is_the_exact_one_and_noise():
    c = opened(Gaussian(MU))
    noisy = c.sum(SEEN, sets.ball(20.0, 3), 0.5, "sum", "sum")
    exact = X.sum(axis=0)
    assert np.abs(noisy.value - exact).max() < 6.0 * noisy.sigma
    assert noisy.sigma == pytest.approx(40.0 / (MU * math.sqrt(0.5)), rel=1e-6)
    assert c.left == 0.5 and [r.name for r in c.releases] == ["sum"]


def test_quantiles_and_counts_are_those_of_the_lengths():
    c, lengths = opened(Gaussian(40.0)), np.linalg.norm(X, axis=1)
    assert c.quantile(Length(SEEN), GRID, 0.9, 0.3, "q", "q") == pytest.approx(
        np.quantile(lengths, 0.9), rel=0.1
    )
    found = c.count(Length(SEEN), 6.0, 0.3, "c", "c")
    assert abs(found.value - np.count_nonzero(lengths > 6.0)) < 6.0 * found.sigma


def test_labelled_sums_and_matrices():
    labels = np.arange(N) % 2
    c = opened(Gaussian(40.0), Memory(X, labels))
    noisy = c.sum(Labelled(SEEN), sets.labelled(9.0, 3, 2), 0.3, "classes", "classes")
    assert np.allclose(noisy.value[:, 3], 150.0, atol=6.0 * noisy.sigma)
    square = c.sum(SEEN, sets.moment(9.0, 3), 0.3, "moment", "moment")
    assert np.allclose(square.value, X.T @ X, atol=6.0 * square.sigma)
    frame = np.eye(3, 2)
    product = c.sum(SEEN, sets.frame(9.0, frame), 0.3, "product", "product")
    assert np.allclose(product.value, X.T @ X @ frame, atol=6.0 * product.sigma)


def test_pairs_change_in_one_place_and_share_the_budget():
    c = opened(Gaussian(MU))

    class Cosine(Give):
        shape = (1,)

        def of(self, first, second, beside=None):
            return np.einsum("ij,ij->i", first, second)[:, None]

    pairs = c.pairs(100)
    assert pairs.n == 100
    pairs.sum(Cosine(), sets.interval(1.0), 0.3, "cosine", "cosine")
    assert c.left == pairs.left == 0.7


@pytest.mark.parametrize("geometry", [SPD(2), Hyperboloid(2), Sphere(2)], ids=str)
def test_a_point_is_the_mean_of_the_ball(geometry):
    rng = np.random.default_rng(0)
    points = geometry.exp_coordinates(geometry.base_point, 0.2 * rng.normal(size=(N, geometry.dim)))
    ball = GeodesicBall(geometry, geometry.base_point, 0.7)
    c = Curator(Memory(points), Gaussian(100.0), NoiseStreams(1, b"x"))
    noisy = c.point(ball, 1e-3, None, "mean", "mean")
    from skriemdp import frechet_mean

    mean = geometry.log_coordinates(ball.center, frechet_mean(ball.project(points), geometry))
    assert np.abs(noisy.value - mean).max() < 6.0 * noisy.sigma + 1e-3
    assert c.left == 0.0


def test_matrices_of_pure_fits():
    c = opened(Pure(50.0))
    matrix, sigma = c.matrix("pure", SEEN, 9.0, 0.5, "moment", "moment")
    assert np.abs(matrix - X.T @ X / N).max() < 20.0 * sigma
    units = opened(Gaussian(20.0)).matrix("leading", SEEN, 9.0, None, "signal", "signal")
    moment = X.T @ X / 81.0
    np.fill_diagonal(moment, 0.0)
    assert abs(units.value - np.linalg.eigvalsh(moment)[-1]) < 6.0 * units.sigma + 1e-6


def test_a_run_rounds_its_rows_once_and_is_counted():
    weights, c = np.ones((3, 1)), opened(Gaussian(40.0))
    run = c.run(3, 0.5, "gradients", "gradients", dim=3)
    for _ in range(3):
        noisy = run.sum(Factors(SEEN, weights), sets.Set("outer", (90.0, 3, 1)))
    # Rows that are longer than one have no exact square on this lattice: this is of none of them.
    assert noisy.value.shape == (3, 1)
    with pytest.raises(RuntimeError, match="exceed"):
        run.sum(Factors(SEEN, weights), sets.Set("outer", (90.0, 3, 1)))
    assert isinstance(sets.Set("outer", (90.0, 3, 1)).made(), Outer)


def test_root_moments_are_those_of_exact_gradients():
    c = opened(Gaussian(60.0))
    run = c.run(2, 0.5, "gradients", "gradients", dim=3, moments=0.4)
    for _ in range(2):
        run.sum(SEEN, sets.ball(9.0, 3))
        root = run.root_moment()
    mean = X.mean(axis=0)[:, None]
    values, vectors = np.linalg.eigh(2.0 * mean @ mean.T)
    exact = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    assert np.abs(root.value - exact).max() < 6.0 * root.sigma
    with pytest.raises(RuntimeError, match="exceed"):
        run.root_moment()


def test_batches_are_of_the_opening():
    c = opened(Gaussian(MU, 0.3, run=RUN))
    asked(c)
    run = c.run(4, None, "gradients", "gradients", dim=3)
    for _ in range(2):
        run.anchor(SEEN, sets.ball(9.0, 3))
    for _ in range(4):
        run.sum(SEEN, sets.ball(9.0, 3))
    for more in (run.sum, run.anchor):
        with pytest.raises(RuntimeError, match="exceed"):
            more(SEEN, sets.ball(9.0, 3))
    with pytest.raises(RuntimeError, match="over"):
        asked(c)


def test_parts_have_the_opening_each():
    c = opened(Gaussian(MU))
    one, two = c.part([np.arange(100), np.arange(100, N)])
    assert (one.n, two.n) == (100, 200)
    for part in (one, two):
        part.sum(SEEN, sets.ball(9.0, 3), None, "sum", "sum")
        assert part.left == 0.0
    with pytest.raises(RuntimeError, match="over"):
        c.sum(SEEN, sets.ball(9.0, 3), None, "sum", "sum")


def _nearest_to(c, target):
    total = c.sum(SEEN, sets.ball(9.0, 3), 0.5, "mean", "mean").value
    score = c.count(Length(SEEN), target, None, "score", "score").value
    return -score, total / c.n


def test_a_selection_shows_its_winner(monkeypatch):
    monkeypatch.setitem(curators.PROGRAMS, "nearest", _nearest_to)
    opening = Selection(Gaussian(2.0), 5.0)
    c = opened(opening)
    place, score, answer = c.select("nearest", [3.0, 9.0], "search")
    assert place in (0, 1) and np.isfinite(score) and answer.shape == (3,)
    assert c.event.event == Gaussian(2.0).event(N)
    assert Rehearsal(N, opening).select("nearest", [3.0, 9.0])[2].shape == (3,)


# -- people, and a number that is secret ----------------------------------------------------------


def test_people_are_seen_as_the_means_of_their_rows():
    groups = Groups.from_ids(np.arange(N) // 3)
    table = Memory(X, groups=groups)
    means = X.reshape(-1, 3, 3).mean(axis=1)
    assert table.n == 100
    assert np.allclose(table.known(SEEN), means)
    (lengths,) = table.numbers(Length(SEEN))
    assert np.allclose(lengths, np.linalg.norm(means, axis=1))
    # As people, what each gives is held in the set, and not each row.
    c = Curator(table, Gaussian(50.0), NoiseStreams(2, b"x"))
    total = c.sum(SEEN, sets.ball(9.0, 3), None, "sum", "sum")
    assert np.abs(total.value - means.sum(axis=0)).max() < 6.0 * total.sigma


def test_a_released_number_decides_what_is_kept():
    table = Memory(X)
    c = Curator(table, Gaussian(MU), NoiseStreams(0, b"x"), n=1e9)
    assert table.planned == c.n == 1e9 and table.known(SEEN) is None
    for ask in (
        lambda: c.pairs(10),
        lambda: c.part([[0], [1]]),
        lambda: c.point(GeodesicBall(SPACE, ORIGIN, 1.0), 0.1, None, "x"),
        lambda: c.matrix("leading", SEEN, 1.0, 0.1, "x"),
    ):
        with pytest.raises(ValueError, match="public number"):
            ask()


# -- openings -------------------------------------------------------------------------------------


def test_openings_are_events():
    assert Gaussian(MU).event(N) == GaussianEvent(1.0 / MU)
    assert Pure(2.0).event(N) == PureEvent(2.0)
    first = GaussianEvent(1.0 / (MU * math.sqrt(0.3)))
    assert Gaussian(MU, 0.3, law=LAW).event(N) == compose([first, LAW])
    assert Gaussian(MU, 0.3, run=RUN).event(N) == compose([first, RUN.event(N)])
    assert Selection(Pure(1.0), 4.0).event(N).event == PureEvent(1.0)


def end(c):
    if c._account.opening.run is not None:
        run = c.run(4, None, "end", "end", dim=3)
        return [run.sum(SEEN, sets.ball(9.0, 3)) for _ in range(4)]
    return c.sum(SEEN, sets.ball(9.0, 3), None, "end", "end")


OPENINGS = {
    "gaussian": lambda cap: Gaussian(MU, cap),
    "law": lambda cap: Gaussian(MU, cap, law=LAW),
    "run": lambda cap: Gaussian(MU, cap, run=RUN),
    "pure": lambda cap: Pure(MU),
}


@pytest.mark.parametrize("name", OPENINGS)
def test_more_than_the_rehearsal_is_refused_before_noise(name, monkeypatch):
    def program(c, more=0.0):
        asked(c)
        if more:
            c.sum(SEEN, sets.ball(9.0, 3), more, "rough", "one more")
        # What a Gaussian or a pure fit has for its end is a share of the plan.
        share = 1.0 - 0.3 if name == "pure" else 0.2 if name == "gaussian" else None
        return end(c) if share is None else c.sum(SEEN, sets.ball(9.0, 3), share, "end", "end")

    wide = Rehearsal(N, OPENINGS[name](1.0))
    program(wide)
    before = [r for r in wide.releases if wide._account.last is not r]
    cap = math.fsum(r.share for r in before)
    opening, drawn = OPENINGS[name](min(cap, 1.0)), []
    draw = noise.draw
    monkeypatch.setattr(noise, "draw", lambda *a, **k: drawn.append(0) or draw(*a, **k))
    program(opened(opening))
    whole = len(drawn)
    for more in (0.01 * cap, 0.01 * 0.1, 0.3):
        drawn.clear()
        with pytest.raises(RuntimeError, match="exceed"):
            program(opened(opening), more)
        assert len(drawn) <= whole
        rehearsed = Rehearsal(N, opening)
        with pytest.raises(RuntimeError, match="exceed"):
            program(rehearsed, more)
    drawn.clear()
    c = opened(opening)
    with pytest.raises(RuntimeError, match="exceed"):
        c.sum(SEEN, sets.ball(9.0, 3), 1.01 * cap, "all", "all")
    assert not drawn


@pytest.mark.parametrize("name", OPENINGS)
def test_a_rehearsal_takes_what_its_fit_takes(name):
    opening = OPENINGS[name](1.0 if name in ("gaussian", "pure") else 0.3)
    rehearsal, fit = Rehearsal(N, opening), opened(opening)
    for c in (rehearsal, fit):
        asked(c)
        end(c)
    assert rehearsal.releases == fit.releases
    assert rehearsal.event == fit.event


def test_a_rehearsal_refuses_integers_that_are_too_coarse():
    with pytest.raises(ValueError, match="integers"):
        Rehearsal(N, Gaussian(1e-10)).sum(SEEN, sets.ball(1.0, 3), None, "x")
    with pytest.raises(ValueError, match="integers"):  # of all, where a branch leaves its share
        rehearsal = Rehearsal(N, Gaussian(1100.0))
        rehearsal.count(Length(SEEN), 1.0, 0.5, "x")
        rehearsal.sum(SEEN, sets.ball(1.0, 3), None, "x")


def test_branches_take_their_dearest_side():
    c, rehearsal = opened(Gaussian(MU)), Rehearsal(N, Gaussian(MU))
    assert c.whether(np.float64(1.0) > 0.5, dearest=False)
    assert rehearsal.whether(False, dearest=True)


def test_a_lent_curator_takes_from_the_budget_of_its_fit():
    budget = Gaussian(MU).budget()
    budget.take(0.4, "before")
    c = Curator.lent(Memory(X), budget, NoiseStreams(0, b"x"))
    asked(c)
    assert budget.remaining == pytest.approx(0.3)
    with pytest.raises(RuntimeError, match="exceed"):
        c.sum(SEEN, sets.ball(9.0, 3), 0.5, "x", "x")
    c.sum(SEEN, sets.ball(9.0, 3), None, "x", "y")
    assert budget.remaining == 0.0
