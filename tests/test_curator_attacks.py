"""Programs that try to get more out of a curator than its opening; all of them are refused."""

import contextlib
import copy
import dataclasses
import math
import multiprocessing
import pickle
import threading
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

from skriemdp._curator import curator as curators
from skriemdp._curator import sets
from skriemdp._curator.curator import Curator, Kept
from skriemdp._curator.openings import Gaussian, Pure, Sampled, Selection
from skriemdp._curator.tables import Memory
from skriemdp._gives.base import Give
from skriemdp._gives.points import Length, LogAt
from skriemdp._groups import Groups
from skriemdp._mechanisms import bounded_sets as helds
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.bounds import Ball
from skriemdp._random import NoiseStreams
from skriemdp.geometry import Euclidean, GeodesicBall, Sphere
from skriemdp.privacy._laplace import LaplaceEvent, laplace_law

SPACE, N, MU = Euclidean(3), 300, 0.27
X = np.random.default_rng(5).normal(size=(N, 3)) + [5.0, -2.0, 1.0]
ORIGIN = np.zeros(3)
SEEN = LogAt(SPACE, ORIGIN)
BALL = sets.ball(20.0, 3)
LAW = laplace_law(3, 1.0, 1e-5, 0.1)
RUN = Sampled("poisson", 30.0, 5.0, 4, 3)


@pytest.fixture
def drawn(monkeypatch):
    """Every draw of noise."""
    draw, found = noise.draw, []
    monkeypatch.setattr(noise, "draw", lambda *a, **k: found.append(a) or draw(*a, **k))
    return found


def opened(opening=None, table=None):
    return Curator(table or Memory(X), opening or Gaussian(MU), NoiseStreams())


def closes(c, ask):
    """`ask` ends the fit of `c`, and says so in the one sentence."""
    with pytest.raises(RuntimeError) as refused:
        ask()
    assert str(refused.value) == curators.FAILED
    assert refused.value.__cause__ is None and refused.value.__context__ is None
    with pytest.raises(RuntimeError, match="over"):
        c.sum(SEEN, BALL, 0.1, "x", "after")


# -- gives that fail, or say more than one answer -------------------------------------------------


class Own(Give):
    """What a function says of rows."""

    shape = (3,)

    def __init__(self, function, shape=(3,)):
        self._function, self.shape = function, shape

    def of(self, *rows, beside=None):
        return self._function(*rows)


def _raise(error):
    raise error


def above(bound, error=ValueError):
    def say(rows):
        for x in rows:
            if x[0] > bound:
                raise error(f"row {x}")
        return rows + 0.0

    return say


WRONG = {
    "many rows": lambda rows: np.repeat(rows, 1000, axis=0),
    "no row": lambda rows: rows[:0],
    "wider": lambda rows: np.concatenate([rows, rows], axis=1),
    "narrower": lambda rows: rows[:, :2],
    "a number": lambda rows: 3.0,
    "a tuple": lambda rows: (rows, rows),
    "text": lambda rows: rows.astype(str),
    "objects": lambda rows: rows.astype(object),
    "complex": lambda rows: rows.astype(complex),
    "nothing": lambda rows: None,
    "writes": lambda rows: rows.__setitem__(slice(None), 0.0),
    "makes writable": lambda rows: rows.setflags(write=True) or rows,
    "not finite": lambda rows: rows * np.inf,
    "not a number": lambda rows: np.full(rows.shape, np.nan),
    "fails": lambda rows: _raise(ValueError(rows)),
    "runs out of memory": lambda rows: _raise(MemoryError()),
    "asserts": lambda rows: _raise(AssertionError()),
    "stops": lambda rows: _raise(StopIteration()),
}


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("which", ["all", "one"])
def test_a_row_of_a_wrong_answer_counts_as_zero(how, which):
    bad = X[7, 0]

    def say(rows):
        wrong = np.ones(len(rows), dtype=bool) if which == "all" else rows[:, 0] == bad
        if not wrong.any():
            return rows + 0.0
        if how.startswith("not "):  # a row is wrong, and not the answer
            return np.where(wrong[:, None], WRONG[how](rows), rows)
        return WRONG[how](rows)

    before = X.copy()
    table, bound = Memory(X), BALL.made()
    steps = bound.check(MU)
    exact = table.total(Own(say), bound, steps)
    kept = np.zeros(N, dtype=bool) if which == "all" else X[:, 0] != bad
    plain = Memory(X[kept]).total(SEEN, bound, steps) if kept.any() else np.zeros(3)
    assert np.array_equal(exact, plain)
    assert np.array_equal(X, before)


def test_fifty_failing_gives_tell_no_more_than_their_noise():
    c, low, high = opened(), 0.0, 64.0
    for k in range(50):
        middle = 0.5 * (low + high)
        found = c.sum(Own(above(middle)), BALL, 1e-6, "x", k)
        low, high = (low, middle) if found.value[0] > 0.0 else (middle, high)
    assert not c._account.over and c.left == pytest.approx(1.0 - 50e-6)
    # Nothing but the noisy sums was seen: coins, at this share.
    assert abs(high - X[:, 0].max()) > 1e-6


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, BaseException])
def test_what_is_no_exception_ends_the_fit(error, drawn):
    c = opened()
    closes(c, lambda: c.sum(Own(above(6.0, error)), BALL, 0.1, "x", "x"))
    assert not drawn


def test_an_interrupt_ends_the_fit_without_words():
    c = opened()
    with pytest.raises(KeyboardInterrupt) as stopped:
        c.sum(Own(above(6.0, KeyboardInterrupt)), BALL, 0.1, "x", "x")
    assert not stopped.value.args and stopped.value.__context__ is None
    with pytest.raises(RuntimeError, match="over"):
        c.keep(0.1, "x")


def test_gives_warn_of_nothing():
    def say(rows):
        warnings.warn(f"row {rows[0]}", stacklevel=1)
        return np.log(rows)  # of negative numbers

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened().sum(Own(say), BALL, 0.1, "x", "x")
        opened().count(Own(lambda rows: np.sqrt(rows[:, 1]), ()), 1.0, 0.1, "x", "x")


@pytest.mark.parametrize("ask", ["quantile", "count"])
def test_rows_that_fail_lie_beyond_every_bound(ask):
    table, grid = Memory(X), 2.0 ** np.arange(-9.0, 9.0)
    failing = Own(lambda rows: _raise(ValueError(rows)), ())
    if ask == "count":
        assert table.count_above(failing, 1e300) == N
    else:
        assert table.places(failing, grid).tolist() == [0] * len(grid) + [N]


def test_people_whose_rows_fail_count_as_zero():
    groups = Groups.from_ids(np.arange(N) // 3)
    bound, bad = BALL.made(), X[7, 0]
    steps = bound.check(MU)
    exact = Memory(X, groups=groups).total(Own(above(6.9)), bound, steps)
    zeroed = np.where((X[:, 0] > 6.9)[:, None], 0.0, X)
    assert np.array_equal(exact, Memory(zeroed, groups=groups).total(SEEN, bound, steps))
    assert bad == X[7, 0]


@pytest.mark.parametrize("how", WRONG)
def test_replacing_a_row_moves_integers_by_the_steps_at_most(how):
    def say(rows):
        return WRONG[how](rows) if (rows[:, 0] > 6.0).any() else rows * 1e9

    bound = BALL.made()
    steps, other = bound.check(MU), X.copy()
    other[3] = [1e6, 1.0, -1.0]
    one, two = (Memory(rows).total(Own(say), bound, steps) for rows in (X, other))
    assert sum(int(d) ** 2 for d in one - two) <= steps**2


def test_answers_that_are_kept_cannot_be_changed():
    @dataclass(frozen=True, eq=False)
    class Changes(Give):
        inner: LogAt
        shape = (3,)

        def of(self, rows, beside=None):
            return rows

        def after(self, known, *rest):
            known[:] = 0.0
            return known

    table, bound = Memory(X), BALL.made()
    steps = bound.check(MU)
    before = table.total(SEEN, bound, steps)
    table.total(Changes(SEEN), bound, steps)
    assert np.array_equal(table.total(SEEN, bound, steps), before)


# -- questions while a give runs ------------------------------------------------------------------


@pytest.mark.parametrize("how", ["keep", "sum", "thread"])
def test_a_give_asks_nothing(how, drawn):
    c = opened()

    def ask():
        if how == "sum":
            return c.sum(SEEN, BALL, 0.1, "aside", "aside")
        return c.keep(0.01, "aside", 1)

    def quietly():
        with contextlib.suppress(RuntimeError):
            ask()

    def say(rows):
        if (rows[:, 0] > 6.5).any():
            if how == "thread":
                thread = threading.Thread(target=quietly)
                thread.start()
                thread.join()
            else:
                ask()
        return rows + 0.0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        c.sum(Own(say), BALL, 0.1, "x", "x")
    assert c.left == 0.9 and len(drawn) == 1 and [r.name for r in c.releases] == ["x"]


def test_threads_share_one_budget():
    c, got = opened(), []

    def take():
        for _ in range(500):
            with contextlib.suppress(RuntimeError):
                got.append(c.keep(1.0 / 400, "t", 1))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(got) == len(set(got)) <= 400
    assert c.left >= 0.0


# -- shares ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, -0.1, math.nan, math.inf, 1.0 + 1e-9, 2.0])
def test_shares_that_are_none(share, drawn):
    c = opened()
    with pytest.raises(RuntimeError, match="exceed"):
        c.sum(SEEN, BALL, share, "x", "x")
    with pytest.raises(RuntimeError, match="exceed"):
        c.keep(share, "x")
    assert c.left == 1.0 and not drawn


def test_a_share_is_read_once(drawn):
    class Turns:
        requested = 0

        def __float__(self):
            self.requested += 1
            return 0.1 if self.requested == 1 else 1e-30

    c = opened()
    c.sum(SEEN, BALL, Turns(), "x", "x")
    assert c.left == 0.9


@pytest.mark.parametrize(
    "token",
    [Kept(1), Kept(1000), Kept(-1), Kept(math.nan), Kept("1")],
    ids=["guessed", "large", "negative", "nan", "text"],
)
def test_a_share_that_was_not_kept(token, drawn):
    c = opened()
    with pytest.raises(RuntimeError, match="not kept"):
        c.sum(SEEN, BALL, token, "x", "x")
    assert not drawn


def test_a_kept_share_is_used_once(drawn):
    c = opened()
    token, other = c.keep(0.01, "x", 3), opened()
    with pytest.raises(RuntimeError, match="not kept"):
        other.sum(SEEN, BALL, token, "x", "x")
    c.sum(SEEN, BALL, token, "x", "x")
    for ask in (
        lambda: c.sum(SEEN, BALL, token, "x", "y"),
        lambda: c.count(Length(SEEN), 1.0, token, "x", "z"),
        lambda: c.quantile(Length(SEEN), [1.0, 2.0], 0.5, token, "x", "q"),
        lambda: c.run(3, token, "x", "r", dim=3),
        lambda: c.sum(SEEN, BALL, Kept(token.number), "x", "w"),
    ):
        with pytest.raises(RuntimeError, match="not kept"):
            ask()
    assert len(drawn) == 1

    class More(Kept):
        pass

    with pytest.raises((RuntimeError, TypeError)):
        c.sum(SEEN, BALL, More(1), "x", "x")


def test_runs_end():
    c = opened()
    run = c.run(4, 0.01, "x", "x", dim=3)
    with pytest.raises(ValueError, match="no more numbers"):
        run.sum(Own(lambda rows: np.tile(rows, 2), (6,)), sets.ball(1.0, 6))
    for _ in range(4):
        run.sum(SEEN, BALL)
    for more in (lambda: run.sum(SEEN, BALL), lambda: run.anchor(SEEN, BALL), run.root_moment):
        with pytest.raises(RuntimeError, match="exceed"):
            more()
    assert c.left == 0.99


# -- sets and mechanisms --------------------------------------------------------------------------


class Larger(float):
    """A number that is another one inside."""

    def __mul__(self, other):
        return 1e9


class Named(str):
    __slots__ = ()


class Forged(sets.Set):
    def made(self):
        return helds.ball(Ball(1e9), 3)


@pytest.mark.parametrize(
    "bounded_set",
    [
        helds.ball(Ball(0.1), 3),
        ("ball", (1.0, 3)),
        sets.Set("VectorSet", ((3,), 0.1)),
        sets.Set("Ball", (1.0, 3)),
        sets.Set(Named("ball"), (1.0, 3)),
        sets.Set("ball", [1.0, 3]),
        sets.Set("ball", (Larger(1.0), 3)),
        sets.Set("ball", (np.array([1.0]), 3)),
        sets.Set("ball", ("1.0", 3)),
        sets.Set("ball", (math.nan, 3)),
        sets.Set("ball", (-1.0, 3)),
        sets.Set("ball", (math.inf, 3)),
        sets.Set("ball", (1.0, 3, 5.0)),
        sets.Set("__class__", ()),
        sets.frame(1.0, 5.0 * np.eye(3, 2)),
        Forged("ball", (1.0, 3)),
        sets.Set("labelled", (1.0, 3, 2, Larger(2.0))),
        None,
    ],
    ids=repr,
)
def test_a_set_of_the_program_is_refused(bounded_set, drawn):
    c = opened()
    with pytest.raises((TypeError, ValueError)):
        c.sum(SEEN, bounded_set, 0.1, "x", "x")
    assert not drawn


def test_a_frame_is_copied():
    columns = np.eye(3, 2)
    bound = sets.frame(1.0, columns).made()
    columns *= 100.0
    assert bound.frame.max() == 1.0


class NoNoise:
    sigma = 0.0

    def release(self, exact, rng):
        return exact


def test_mechanisms_are_named(drawn):
    c, ball = opened(), GeodesicBall(SPACE, ORIGIN, 20.0)
    for how in ("pure", "exact", NoNoise()):
        with pytest.raises((ValueError, TypeError)):
            c.matrix(how, SEEN, 9.0, 0.1, "x", "x")
    with pytest.raises((TypeError, ValueError)):
        c.point(ball, NoNoise(), 0.1, "x", "x")
    with pytest.raises(TypeError):
        c.point(ball, 0.1, 0.1, "x", "x", mechanism=NoNoise())
    assert not drawn


class Fake:
    geometry, center, radius, step_sizes = SPACE, ORIGIN, 0.001, (1.0,)

    def project(self, points):
        return points


class Wide(GeodesicBall):
    def project(self, points):
        return points


@pytest.mark.parametrize("ball", [Fake(), Wide(SPACE, ORIGIN, 1.0)], ids=["fake", "subclass"])
def test_a_ball_is_one_of_the_package(ball, drawn):
    with pytest.raises(TypeError, match="GeodesicBall"):
        opened().point(ball, 0.1, 0.1, "x", "x")
    assert not drawn


def test_a_ball_that_is_changed_afterwards_is_the_one_that_was_asked_for():
    space = Sphere(2)
    ball = GeodesicBall(space, space.base_point, 0.5)
    object.__setattr__(ball, "project", lambda points: points)
    rng = np.random.default_rng(0)
    points = space.exp_coordinates(space.base_point, rng.normal(size=(N, 2)))
    noisy = opened(Gaussian(1e3), Memory(points)).point(ball, 1e-3, 0.5, "x", "x")
    plain = GeodesicBall(space, space.base_point, 0.5)
    exact = opened(Gaussian(1e3), Memory(points)).point(plain, 1e-3, 0.5, "x", "x")
    assert np.abs(noisy.value - exact.value).max() < 12.0 * exact.sigma


@pytest.mark.parametrize(
    "give", [lambda rows: rows, None, X, LogAt], ids=["function", "None", "rows", "class"]
)
def test_what_is_no_give_is_refused(give, drawn):
    c = opened()
    for ask in (
        lambda: c.sum(give, BALL, 0.1, "x", "x"),
        lambda: c.count(give, 1.0, 0.1, "x", "x"),
        lambda: c.quantile(give, [1.0, 2.0], 0.5, 0.1, "x", "x"),
    ):
        with pytest.raises(TypeError):
            ask()
    assert not drawn


@pytest.mark.parametrize(
    "asked",
    [([1.0], 0.5), ([2.0, 1.0], 0.5), ([1.0, math.nan], 0.5), ([1.0, 2.0], 1.5), ([], 0.5)],
)
def test_quantiles_of_no_grid(asked, drawn):
    with pytest.raises(ValueError, match=r"grid|level"):
        opened().quantile(Length(SEEN), *asked, 0.1, "x", "x")
    assert not drawn


# -- openings -------------------------------------------------------------------------------------


class Generous(Gaussian):
    def budget(self):
        return Gaussian(100.0).budget()


class Cheap(LaplaceEvent):
    pass


def test_openings_are_of_the_list():
    for opening in (Generous(MU), None, 0.5, "gaussian"):
        with pytest.raises(TypeError):
            Curator(Memory(X), opening, NoiseStreams())
    with pytest.raises(TypeError):
        Gaussian(MU, 0.5, law=Cheap(3, 1e-6))
    with pytest.raises(TypeError):
        Gaussian(MU, 0.5, run="all")
    with pytest.raises(ValueError, match="both"):
        Gaussian(MU, 0.5, law=LAW, run=RUN)
    with pytest.raises(ValueError, match="cap"):
        Gaussian(MU, 1.5)


def test_an_opening_that_is_changed_afterwards():
    opening = Gaussian(MU, 0.3, law=LAW)
    c = opened(opening)
    object.__setattr__(opening, "law", LaplaceEvent(3, 1e-9))
    object.__setattr__(opening, "cap", 1.0)
    with pytest.raises(RuntimeError, match="exceed"):
        c.sum(SEEN, BALL, 0.5, "x", "x")
    assert c.sum(SEEN, BALL, None, "x", "x").sigma > 1.0


def test_a_law_is_drawn_once_and_last(drawn):
    c = opened(Gaussian(MU, 0.3, law=LAW))
    kept = c.keep(0.1, "later", 3)
    with pytest.raises(ValueError, match="coordinates"):  # of another dimension: not drawn at all
        c.sum(Own(lambda rows: rows[:, :2], (2,)), sets.ball(1.0, 2), None, "x", "x")
    assert not drawn
    c.sum(SEEN, BALL, None, "x", "x")
    for ask in (
        lambda: c.sum(SEEN, BALL, None, "x", "y"),
        lambda: c.sum(SEEN, BALL, 0.1, "x", "z"),
        lambda: c.sum(SEEN, BALL, kept, "x", "w"),
        lambda: c.point(GeodesicBall(SPACE, ORIGIN, 1.0), 0.1, None, "x", "p"),
        lambda: c.run(2, 0.1, "x", "r", dim=3),
        lambda: c.pairs(10),
    ):
        with pytest.raises(RuntimeError, match="over"):
            ask()
    assert len(drawn) == 1


def test_a_planned_run_is_started_once_and_last(drawn):
    c = opened(Gaussian(MU, 0.3, run=RUN))
    for steps, dim, more in ((5, 3, 0.0), (4, 4, 0.0), (4, 3, 0.1)):
        with pytest.raises(ValueError, match="not the run"):
            c.run(steps, None, "x", "x", dim=dim, moments=more)
    run = c.run(4, None, "x", "x", dim=3)
    for ask in (
        lambda: c.run(4, None, "x", "y", dim=3),
        lambda: c.sum(SEEN, BALL, 0.1, "x", "z"),
        lambda: c.sum(SEEN, BALL, None, "x", "z"),
    ):
        with pytest.raises(RuntimeError, match="over"):
            ask()
    assert not drawn
    with pytest.raises(TypeError, match="about zero"):  # absence would move it as far
        run.sum(Own(lambda rows: rows[:, :1], (1,)), sets.labelled(1.0, 1, 1))
    with pytest.raises((RuntimeError, ValueError)):
        run.anchor(SEEN, BALL)
    assert not drawn


def test_a_pure_fit_has_no_gaussian_noise(drawn):
    c = opened(Pure(1.0))
    with pytest.raises(ValueError, match="no theorem"):
        c.run(3, 0.1, "x", "x", dim=3)
    c.sum(SEEN, BALL, 0.5, "x", "x")
    c.count(Length(SEEN), 1.0, 0.1, "y", "y")
    assert {a[2] for a in drawn} == {"radial", "laplace"}
    assert math.fsum(r.share for r in c.releases) <= 1.0


# -- doubles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copies(copied):
    c = opened()
    run = c.run(2, 0.1, "x", "x", dim=3)
    for each in (c, run, c.pairs(10)):
        with pytest.raises(TypeError, match="never copied"):
            copied(each)


def _asked_there(c, run, pipe):
    found = []
    for ask in (
        lambda: c.sum(SEEN, BALL, 1.0, "x", "x"),
        lambda: c.keep(0.1, "x"),
        lambda: run.sum(SEEN, BALL),
        lambda: c.pairs(10).sum(SEEN, BALL, 0.1, "x", "y"),
    ):
        try:
            ask()
            found.append("answered")
        except RuntimeError as error:
            found.append(str(error))
    pipe.send(found)


def test_a_fork_is_answered_nothing():
    c = opened()
    run = c.run(2, 0.1, "run", "run", dim=3)
    here, there = multiprocessing.Pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads in a process that forks
        child = multiprocessing.get_context("fork").Process(
            target=_asked_there, args=(c, run, there)
        )
        child.start()
    said = here.recv()
    child.join()
    assert len(said) == 4 and all("forked process" in each for each in said)
    run.sum(SEEN, BALL)


@pytest.mark.parametrize(
    "places",
    [
        [[0, 1], [1, 2]],
        [[0, 0]],
        [[-1, 2]],
        [[N]],
        [np.arange(N), [3]],
    ],
)
def test_parts_that_are_none(places):
    with pytest.raises(ValueError, match="disjoint"):
        opened().part(places)


def test_parts_are_cut_before_anything_is_asked():
    for ask in (lambda c: c.keep(0.1, "x"), lambda c: c.sum(SEEN, BALL, 0.1, "x", "x")):
        c = opened()
        ask(c)
        with pytest.raises(RuntimeError, match="cut into parts"):
            c.part([[0], [1]])


# -- selections -----------------------------------------------------------------------------------


def _open_hearted(c, shown):
    shown.append(c.sum(SEEN, BALL, None, "x", "x").value)
    return 0.0, shown


def _failing(c, setting):
    raise ValueError("a score")


def test_selections_run_named_programs_only(monkeypatch):
    opening = Selection(Gaussian(0.3), 10.0)
    c = opened(opening)
    for program in ("mean", _open_hearted, "_open_hearted"):
        with pytest.raises((ValueError, TypeError)):
            c.select(program, [0], "x")
    for ask in (
        lambda: c.sum(SEEN, BALL, 0.1, "x", "x"),
        lambda: c.sum(SEEN, BALL, None, "x", "x"),
        lambda: c.keep(0.1, "x"),
        lambda: c.count(Length(SEEN), 1.0, 0.1, "x"),
    ):
        with pytest.raises(RuntimeError, match="exceed"):
            ask()
    with pytest.raises(ValueError, match="Selection"):
        opened().select("mean", [0], "x")
    monkeypatch.setitem(curators.PROGRAMS, "failing", _failing)
    with pytest.raises(RuntimeError) as refused:
        c.select("failing", [0], "x")
    assert str(refused.value) == curators.FAILED
    with pytest.raises(RuntimeError, match="over"):
        c.select("failing", [0], "y")


def test_no_program_is_on_the_list_that_is_not_of_the_package():
    assert all(p.__module__.startswith("skriemdp.") for p in curators.PROGRAMS.values())


# -- a number that is secret ----------------------------------------------------------------------


def test_one_row_more_changes_no_row_where_their_number_is_secret(monkeypatch):
    from skriemdp._curator import tables

    space = Sphere(2)
    rng = np.random.default_rng(0)
    points = space.exp_coordinates(space.base_point, rng.normal(size=(301, 2)))
    monkeypatch.setattr(tables, "KEPT_BYTES", 8 * 300 * 2)
    give = Length(LogAt(space, points[0]))
    found = []
    for n in (300, 301):
        table = Memory(points[:n])
        Curator(table, Gaussian(MU), NoiseStreams(), n=300.0)
        found.append(np.concatenate(list(table.numbers(give)))[:300])
    assert np.array_equal(*found)


def test_rows_of_kept_and_of_new_answers_are_functions_of_themselves():
    rng = np.random.default_rng(0)
    for space in (SPACE, Sphere(2), Sphere(30)):
        points = space.exp_coordinates(space.base_point, 0.3 * rng.normal(size=(N, space.dim)))
        give = Length(LogAt(space, points[0]))
        (whole,) = Memory(points).numbers(give)
        for _ in range(10):
            some = rng.permutation(N)[: rng.integers(1, N)]
            (part,) = Memory(points[some]).numbers(give)
            assert np.array_equal(part, whole[some])


def test_openings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Gaussian(MU).mu = 1.0
