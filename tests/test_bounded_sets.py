"""Every set that holds records: bounds of replacement and presence, in Python integers."""

from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

from skriemdp._groups import Groups
from skriemdp._mechanisms.bounded_sets import (
    Frame,
    Moment,
    Outer,
    VectorSet,
    answers,
    ball,
    labelled,
    projectors,
    unpacked,
    variances,
    weighted,
)
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.sum import (
    PLAIN_STEPS,
    ExactTotal,
    integer_total,
    plain_sum,
    private_sum,
)
from skriemdp._mechanisms.units import Units
from skriemdp._random import NoiseStreams
from skriemdp.geometry._tiles import one_by_one
from skriemdp.privacy._sensitivity import ball_sensitivity, interval_sensitivity

WILD = [0.0, 1e-320, 1e-160, 1e-3, 1.0, 3.0, 1e154, 1e160, 1e308, -1e308, np.inf, -np.inf, np.nan]
SHARES = [1e-3, 0.3, 7.7]  # mu of a release


def hostile(count, dim, seed):
    """Rows of every size, not finite, mixed, opposite and at right angles."""
    rng = np.random.default_rng([dim, seed])
    rows = rng.normal(size=(count, dim))
    rows *= 10.0 ** rng.choice([-320.0, -160, -3, -1, 0, 1, 3, 100, 300], size=(count, 1))
    some = rng.random((count, dim)) < 0.2
    rows[some] = rng.choice(WILD, size=int(some.sum()))
    rows[rng.random(count) < 0.05] = 0.0
    ends = 10.0 * np.eye(dim)
    diagonal = np.full(dim, 10.0)
    fixed = np.array([*ends, *-ends, diagonal, -diagonal])
    rows[: len(fixed)] = fixed[:count]
    return rows


# Each set says what it is, and tiles of one record each.


def of_ball(count, dim, seed):
    center = np.arange(dim) / 7.0
    bounded_set = ball(Ball(0.7, center), dim)
    return bounded_set, [row[None] for row in hostile(count, dim, seed)]


def of_classes(count, dim, seed):
    rows = hostile(count, dim, seed)
    labels = np.random.default_rng(seed).integers(-1, 4, size=count)  # -1 and 3: there are none
    labels[: 2 * dim] = 0
    return labelled(0.7, dim, 3), list(zip(rows[:, None], labels[:, None], strict=True))


def of_several_classes(count, dim, seed):
    rng, rows = np.random.default_rng(seed), hostile(3 * count, dim, seed)
    tiles = []
    for i in range(count):
        shown = np.array([1, 2, 3]) if i < 4 else rng.permutation(3)[: rng.integers(1, 4)]
        own = rows[3 * i : 3 * i + len(shown)]
        if i < 2:
            own = np.full((len(shown), dim), 9.0 * (-1) ** i)
            shown = np.array([0])
            own = own[:1]
        shown = shown[shown < 3]
        tiles.append((own[: len(shown)], shown, np.array([len(shown)])))
    return labelled(0.7, dim, 3), tiles


def of_answers(count, dim, seed):
    rows = hostile(count, dim, seed)
    rows[: 2 * dim] = 9.0
    rows[0] = -9.0
    return answers(dim), [row[None] for row in rows]


def of_weights(count, dim, seed):
    rows = hostile(count, dim, seed)
    weights = np.random.default_rng(seed).choice([0.0, 1e-300, 0.3, 1.0, *WILD], size=count)
    weights[: 2 * dim] = 1.0
    return weighted(0.7, dim), list(zip(rows[:, None], weights[:, None], strict=True))


def of_public_weights(count, dim, seed):
    rows = hostile(count, dim, seed)
    weights = np.random.default_rng(seed).choice([0.0, -0.3, 1.0, -1.0, *WILD], size=count)
    weights[: 2 * dim] = 1.0
    with np.errstate(all="ignore"):
        tiles = zip(weights[:, None] * rows, weights, strict=True)
        return weighted(0.7, dim, counted=False), [(row[None], a[None]) for row, a in tiles]


def of_projectors(count, dim, seed):
    rank = max(1, dim // 2)
    frames = hostile(count * rank, dim, seed).reshape(count, rank, dim)
    frames[0], frames[1] = np.eye(dim)[:rank], np.eye(dim)[-rank:]
    return projectors(dim, rank), [frame[None] for frame in frames]


def of_answers_less_levels(count, dim, seed):
    bounded_set, levels = answers(dim, np.resize([0.2, 0.8], dim)), np.resize([0.2, 0.8], dim)
    tiles = of_answers(count, dim, seed)[1]
    return bounded_set, [levels[None] < 0.5, levels[None] > 0.5, *tiles]


def of_moments(count, dim, seed):
    return Moment(0.7, dim), [row[None] for row in hostile(count, dim, seed)]


def of_class_moments(count, dim, seed):
    rows, labels = hostile(count, dim, seed), np.arange(count) % 3
    tiles = list(zip(rows[:, None], labels[:, None], strict=True))
    return Moment(0.7, dim, classes=3), tiles


def of_people(count, dim, seed, by_trace=False):
    sizes = np.random.default_rng(seed).integers(1, 2 * dim + 2, size=count)
    sizes[: 2 * dim] = 1
    rows = hostile(int(sizes.sum()), dim, seed)
    return Moment(0.7, dim, people=True, by_trace=by_trace), [
        part[None] for part in np.split(rows, sizes.cumsum()[:-1])
    ]


def of_people_by_trace(count, dim, seed):
    return of_people(count, dim, seed, by_trace=True)


def of_products(count, dim, seed):
    left, right = hostile(count, dim, seed), hostile(count, 2, seed + 1)
    right[: 2 * dim] = [5.0, 0.0]
    return Outer(0.7, dim, 2), list(zip(left[:, None], right[:, None], strict=True))


def of_rounded(count, dim, seed, narrow=2**22):
    bounded_set, tiles = Outer(0.7, dim, 2), of_products(count, dim, seed)[1]
    steps = {mu: bounded_set.check(mu) for mu in SHARES}

    def at(mu):
        for place, (left, right) in enumerate(tiles):
            with np.errstate(all="ignore"):
                left = left / max(np.linalg.norm(left), 1.0)
            rows = csr_matrix(left) if place % 2 else left
            with mock.patch("skriemdp._mechanisms.bounded_sets._NARROW", narrow):
                yield bounded_set.rounded(rows, steps[mu]), right

    return bounded_set, at


def of_sparse(count, dim, seed):
    bounded_set, tiles = of_products(count, dim, seed)
    return bounded_set, [(in_parts(left), right) for left, right in tiles]


def in_parts(row):
    """A sparse row, some of whose entries are stored in two parts."""
    columns, row = np.arange(row.shape[1]), row.ravel()
    parts, places = np.concatenate([row, row[:1]]), np.concatenate([columns, columns[:1]])
    parts[[0, -1]] *= 0.5
    return csr_matrix((parts, places, [0, len(parts)]), (1, len(row)))


def of_lengths(count, dim, seed):
    """Products with a public vector, of rows that are first shortened."""
    w, rows = np.eye(dim)[0], hostile(count, dim, seed)
    rows[:2] = 20.0 * (0.1 * w + np.outer([1.0, -1.0], np.eye(dim)[-1]))
    with np.errstate(all="ignore"):
        return Outer(0.7, dim, 1, 9.0), [(row[None], row[None] @ w[:, None]) for row in rows]


def of_sparse_moments(count, dim, seed):
    return Moment(0.7, dim), [in_parts(row[None]) for row in hostile(count, dim, seed)]


def of_variances(count, dim, seed):
    return variances(0.7, dim), [row[None] for row in hostile(count, dim, seed)]


def of_people_variances(count, dim, seed):
    tiles = of_people(count, dim, seed)[1]
    return variances(0.7, dim), tiles


def of_frame(count, dim, seed, columns):
    columns = min(columns, dim)
    frame = np.linalg.qr(np.random.default_rng(0).normal(size=(dim, columns)))[0]
    rows = hostile(count, dim, seed)
    w = frame[:, 0]
    other = np.eye(dim)[0] - w * w[0]
    other = other / np.linalg.norm(other)
    # The ends of the set: for one column the row halfway to one at right angles, and its mirror.
    ends = [9.0 * (w + other), 9.0 * (w - other), *9.0 * frame.T]
    rows[: len(ends)] = ends
    return Frame(0.7, frame), [row[None] for row in rows]


SETS = {
    "ball": of_ball,
    "classes": of_classes,
    "several classes": of_several_classes,
    "answers": of_answers,
    "answers less levels": of_answers_less_levels,
    "weights": of_weights,
    "public weights": of_public_weights,
    "projectors": of_projectors,
    "moments": of_moments,
    "moments of classes": of_class_moments,
    "people": of_people,
    "people, by trace": of_people_by_trace,
    "products": of_products,
    "products of rounded rows": of_rounded,
    "products of rounded rows, 32 bits": lambda *a: of_rounded(*a, narrow=0),
    "products of sparse rows": of_sparse,
    "products of a length": of_lengths,
    "moments of sparse rows": of_sparse_moments,
    "variances": of_variances,
    "variances of people": of_people_variances,
    "a column": lambda *a: of_frame(*a, 1),
    "a frame": lambda *a: of_frame(*a, 2),
}


def integers(bounded_set, tile, steps):
    total = ExactTotal(bounded_set.shape, bounded_set.largest(steps))
    with np.errstate(all="ignore"):
        bounded_set.add(total, tile, steps)
    return [int(v) for v in np.ravel(total.value())]


def square(values):
    return sum(v * v for v in values)


def farthest(vectors, bound):
    """Largest squared distance of two of the integer `vectors`; exact near the bound."""
    floats = np.array(vectors, dtype=float)
    squares = np.einsum("ij,ij->i", floats, floats)
    apart = squares[:, None] + squares - 2.0 * floats @ floats.T
    near = np.argwhere(np.triu(apart >= apart.max() * (1.0 - 1e-9)))
    return max(
        square(x - y for x, y in zip(vectors[i], vectors[j], strict=True)) for i, j in near[:500]
    )


def check_set(name, dim, mu, count, seed):
    bounded_set, tiles = SETS[name](count, dim, seed)
    steps = bounded_set.check(mu)
    if callable(tiles):
        tiles = tiles(mu)
    vectors = list({tuple(integers(bounded_set, tile, steps)) for tile in tiles})  # some are alike
    most = max(map(square, vectors))
    assert max(abs(v) for vector in vectors for v in vector) <= bounded_set.largest(steps)
    assert most <= bounded_set.presence(steps) ** 2
    assert (
        Fraction(bounded_set.presence(steps))
        <= Fraction(steps)
        * Fraction(bounded_set.bound.presence)
        / Fraction(bounded_set.bound.value)
        + 1
    )
    moved = farthest(vectors, steps)
    assert moved <= steps**2
    if name == "people, by trace":  # the bound that pure noise asks for
        assert max(sum(vector[:: dim + 1]) for vector in vectors) <= bounded_set.longest(steps) ** 2
    return most / bounded_set.presence(steps) ** 2, moved / steps**2


# Squares of one number have one sign: they use a part of what matrices would.
CASES = [
    (name, dim)
    for name in SETS
    for dim in (1, 3, 7)
    if dim > 1
    or SETS[name]
    not in (
        of_moments,
        of_sparse_moments,
        of_people,
        of_people_by_trace,
        of_projectors,
        of_lengths,
        SETS["a column"],
        SETS["a frame"],
    )
]


@pytest.mark.parametrize(("name", "dim"), CASES)
@pytest.mark.parametrize("mu", SHARES)
def test_records_move_a_sum_by_the_bounds_and_no_more(name, dim, mu):
    presence, moved = check_set(name, dim, mu, 60, 0)
    assert presence >= 0.98**2
    assert moved >= 0.98**2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dim"), CASES)
def test_no_record_of_forty_thousand_moves_a_sum_further(name, dim):
    for seed, mu in enumerate(SHARES):
        check_set(name, dim, mu, 400, 1 + seed)


def whole(vectors):
    return np.array(vectors, dtype=object).sum(axis=0)


def together(parts):
    if isinstance(parts[0], tuple):
        return tuple(map(together, zip(*parts, strict=True)))
    return vstack(parts).tocsr() if isinstance(parts[0], csr_matrix) else np.concatenate(parts)


@pytest.mark.parametrize("mu", [0.3, 900.0])
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in SETS
        if name not in ("people", "people, by trace", "variances of people")
        and "rounded" not in name
    ],
)
def test_a_sum_is_that_of_its_records_to_the_last_bit(name, mu):
    bounded_set, tiles = SETS[name](400, 3, 5)
    steps = bounded_set.check(mu)
    alone = whole([integers(bounded_set, tile, steps) for tile in tiles])
    assert integers(bounded_set, together(tiles[::-1]), steps) == alone.tolist()


@pytest.mark.parametrize("mu", [0.01, 0.3, 900.0])
def test_a_table_is_added_as_fractions_would(mu):
    rng = np.random.default_rng(3)
    table, center = rng.uniform(-0.2, 0.2, size=(90_000, 2)), np.array([0.1, -0.2])
    bounded_set = ball(Ball(0.7), 2)
    steps = bounded_set.check(mu)
    spacing = bounded_set.spacing(steps)
    found = integer_total(Units((table,)), lambda rows: rows - center, bounded_set, steps)
    assert bounded_set.value(found, steps) == pytest.approx((table - center).sum(axis=0), rel=1e-6)
    few = table[:200]
    total = integer_total(Units((few,)), lambda rows: rows - center, bounded_set, steps)
    # Vectors inside the ball: the computed factor 1 / g is within two roundings of the true one.
    for column in range(2):
        true = sum((Fraction(float(v)) for v in few[:, column] - center[column]), Fraction(0))
        off = abs(true / Fraction(spacing) - int(total[column]))
        assert off <= 200 * (Fraction(1, 2) + Fraction(steps, 2**52))
    # The same bitwise from a memory map's slices, a stream, and in another order.
    shuffled = table[rng.permutation(len(table))]
    give = lambda rows: rows - center  # noqa: E731
    for other in ([table[:17], table[17:]], shuffled, csr_matrix(table)):
        dense = (lambda rows: rows.toarray() - center) if isinstance(other, csr_matrix) else give
        assert (integer_total(Units((other,)), dense, bounded_set, steps) == found).all()
    batches = [np.arange(0, 90_000, 2), np.arange(1, 90_000, 2)]
    units = Units((table,))
    parts = [integer_total(units.take(batch), give, bounded_set, steps) for batch in batches]
    assert (parts[0] + parts[1] == found).all()


def test_rounded_rows_are_the_same_integers_in_32_bits():
    bounded_set, rng = Outer(0.5, 5, 1), np.random.default_rng(0)
    steps = bounded_set.check(0.3)
    rows = 0.4 * rng.uniform(-1.0, 1.0, size=(50, 5))
    rows[0] = [(2.0**24 + 1.0) / bounded_set.resolution(steps), 0.0, 0.0, 0.0, 0.0]
    rows[1] = np.nan
    wide = bounded_set.rounded(rows, steps)
    with mock.patch("skriemdp._mechanisms.bounded_sets._NARROW", 0):
        narrow = bounded_set.rounded(rows, steps)
    assert narrow.rows.dtype == np.float32 and narrow[:].rows.dtype == float
    np.testing.assert_array_equal(narrow.rows[1:], wide.rows[1:])
    np.testing.assert_array_equal(narrow.limits[1:], wide.limits[1:])
    # An integer that 32 bits round is longer than any caller's.
    assert wide.rows[0, 0] == 2**24 + 1 and wide.limits[0] > 0.0
    assert not narrow.rows[0].any() and narrow.limits[0] == 0.0


def test_python_integers_take_over_where_longer_ones_end():
    total = ExactTotal((1,), 2**50)
    for _ in range(2**13):
        for piece in total.pieces(4):
            total.floats += float(2**50 * (piece.stop - piece.start))
    assert total.value().tolist() == [2**65]
    total.add(np.array([7]), 1)
    assert total.value().tolist() == [2**65 + 7]


# -- people ---------------------------------------------------------------------------------------


def people_of(sizes, seed):
    rng = np.random.default_rng(seed)
    owners = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return Groups.from_ids(owners), owners


def test_a_tile_of_one_group_does_not_overflow():
    """At the largest budgets a tile of equal records is longer than 63 bits."""
    bounded_set = labelled(1.0, 1, 2)
    steps = bounded_set.check(1000.0)
    rows, groups = np.ones((50_000, 1)), np.zeros(50_000, dtype=int)
    assert 50_000 * bounded_set.largest(steps) > 2**63
    one, many = (ExactTotal(bounded_set.shape, bounded_set.largest(steps)) for _ in range(2))
    bounded_set.add(one, (rows[:1], groups[:1]), steps)
    bounded_set.add(many, (rows, groups), steps)
    assert [int(v) for v in many.value().ravel()] == [50_000 * int(v) for v in one.value().ravel()]


@pytest.mark.parametrize("per_person", ["mean", "factors", "classes"])
def test_what_a_person_gives_depends_on_own_rows_alone(per_person):
    bounded_set = {
        "mean": ball(Ball(0.7), 3),
        "factors": Moment(0.7, 3, people=True),
        "classes": labelled(0.7, 3, 4),
    }[per_person]
    steps = bounded_set.check(0.3)
    sizes = np.array([1, 2, 3, 50, 4000, 1, 9])
    groups, owners = people_of(sizes, 0)
    rng = np.random.default_rng(1)
    table, labels = rng.normal(size=(len(owners), 3)), rng.integers(0, 4, size=len(owners))
    give = (lambda x, y: (x, y)) if per_person == "classes" else lambda x, y: x
    found = integer_total(Units((table, labels), groups), give, bounded_set, steps)
    alone = []
    for person in range(len(sizes)):
        mine = owners == person
        one = Groups.from_ids(np.zeros(mine.sum()))
        alone.append(
            integer_total(Units((table[mine], labels[mine]), one), give, bounded_set, steps)
        )
    assert (found == whole(alone)).all()
    batch = np.array([4, 1])
    chosen = integer_total(Units((table, labels), groups).take(batch), give, bounded_set, steps)
    assert (chosen == alone[4] + alone[1]).all()


def test_what_a_person_gives_is_the_mean_of_own_rows():
    sizes, rng = np.array([3, 1, 6, 1000, 2]), np.random.default_rng(4)
    groups, owners = people_of(sizes, 1)
    table, labels = rng.uniform(-1, 1, size=(len(owners), 3)), rng.integers(0, 3, size=len(owners))
    own = [table[owners == person] for person in range(len(sizes))]
    sums = {
        ball(Ball(9.0), 3): sum(rows.mean(axis=0) for rows in own),
        Moment(9.0, 3, people=True): sum(rows.T @ rows / len(rows) for rows in own),
    }
    for bounded_set, expected in sums.items():
        steps = bounded_set.check(0.3)
        found = integer_total(Units((table,), groups), lambda x: x, bounded_set, steps)
        assert bounded_set.value(found, steps) == pytest.approx(expected, abs=1e-3)
    bounded_set, expected = labelled(9.0, 3, 3), np.zeros((3, 4))
    for person, rows in enumerate(own):
        shown = labels[owners == person]
        for label in np.unique(shown):
            share = 1.0 / np.sqrt(len(np.unique(shown)))
            expected[label] += share * np.append(rows[shown == label].mean(axis=0) / 9.0, 1.0)
    steps = bounded_set.check(0.3)
    found = integer_total(Units((table, labels), groups), lambda x, y: (x, y), bounded_set, steps)
    assert bounded_set.value(found, steps) == pytest.approx(expected, rel=1e-9)


def test_a_person_answers_with_the_mean_of_own_rows():
    """Integers of the mean, not of the rows: three rows of one person weigh one."""
    rows = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    groups, bounded_set = Groups.from_ids(np.array([0, 0, 0, 1])), answers(2)
    steps = bounded_set.check(0.3)
    found = integer_total(Units((rows,), groups), lambda x: x, bounded_set, steps)
    expected = np.array([2 / 3 + 1, 1 / 3]) - 1.0
    assert bounded_set.value(found, steps) == pytest.approx(expected, abs=1e-9)


def test_a_row_given_alone_has_no_company():
    rng = np.random.default_rng(5)
    table, bounded_set = rng.normal(size=(50, 3)), ball(Ball(0.7), 3)
    shift = one_by_one(lambda rows: rows - rows.mean(axis=0) + 0.1)  # tells of its company
    found = integer_total(Units((table,)), shift, bounded_set, bounded_set.check(1.0))
    one = integer_total(Units((table[:1],)), shift, bounded_set, bounded_set.check(1.0))
    assert (found == 50 * one).all()


@pytest.mark.parametrize("per_person", ["mean", "factors", "classes"])
def test_people_move_a_sum_by_the_bounds_and_no_more(per_person):
    dim = 3
    bounded_set = {
        "mean": ball(Ball(0.7), dim),
        "factors": Moment(0.7, dim, people=True),
        "classes": labelled(0.7, dim, 3),
    }[per_person]
    steps, rng = bounded_set.check(0.3), np.random.default_rng(2)
    give = (lambda x, y: (x, y)) if per_person == "classes" else lambda x, y: x
    vectors = []
    for person in range(300):
        size = int(rng.integers(1, 40))
        rows, labels = hostile(size, dim, person), rng.integers(0, 3, size=size)
        if person < 6:
            rows, labels = np.tile(hostile(6, dim, 0)[person], (size, 1)), labels * 0
        one = Groups.from_ids(np.zeros(size))
        total = integer_total(Units((rows, labels), one), give, bounded_set, steps)
        vectors.append([int(v) for v in np.ravel(total)])
    most = max(map(square, vectors))
    assert 0.98**2 * bounded_set.presence(steps) ** 2 <= most <= bounded_set.presence(steps) ** 2
    assert 0.98**2 * steps**2 <= farthest(vectors, steps) <= steps**2


# -- what is refused, and what is drawn ------------------------------------------------------------


def test_parties_have_the_integers_of_one():
    rng, bounded_set = np.random.default_rng(0), ball(Ball(0.7), 3)
    rows, owners = 0.5 * rng.normal(size=(200, 3)), rng.integers(7, size=200)
    steps = bounded_set.check(0.3)
    apart = bounded_set.by_party(7)
    assert apart.spacing(steps) == bounded_set.spacing(steps) and apart.check(0.3) == steps
    together = integer_total(Units((rows, owners)), lambda *tile: tile, apart, steps)
    for k in range(7):
        alone = integer_total(Units((rows[owners == k],)), lambda rows: rows, bounded_set, steps)
        np.testing.assert_array_equal(together[k], alone)


def test_a_set_far_from_zero_is_refused():
    for bound in (interval_sensitivity(1.0), ball_sensitivity(1.0)):
        VectorSet((1,), bound, lambda tile, unit: tile / unit)
    for presence in (5.0, 0.4, float("inf")):
        with pytest.raises(ValueError, match="center the set"):
            VectorSet((1,), replace(interval_sensitivity(1.0), presence=presence), lambda t, u: t)


def test_vectors_of_a_set_that_are_not_finite_count_as_zero():
    bounded_set = VectorSet((2,), ball_sensitivity(1.0), lambda tile, unit: tile / unit)
    steps = bounded_set.check(1.0)
    tile = np.array([[0.5, np.nan], [np.inf, 0.0], [0.25, -0.5], [-np.inf, np.inf]])
    assert integers(bounded_set, tile, steps) == integers(bounded_set, tile[2:3], steps)


@pytest.mark.parametrize(
    "bounded_set",
    [
        ball(Ball(1.0), 10**9),
        Moment(1.0, 600),
        Moment(1.0, 200, people=True),
        Outer(1.0, 10**5, 10**5),
        Frame(1.0, np.eye(600, 2)),
        labelled(1.0, 10**4, 10**5),
    ],
)
def test_integers_that_are_coarse_are_refused_before_the_charge(bounded_set):
    bounded_set.check(9.0)
    with pytest.raises(ValueError, match="fewer integers"):
        bounded_set.check(1e-6)
    with pytest.raises(ValueError, match="smaller epsilon"):
        bounded_set.check(2.0**10)
    with pytest.raises(ValueError, match="larger epsilon"):
        bounded_set.check(2.0**-33)


def test_the_check_of_moments_knows_their_root():
    """Integers of second moments are as long as the root of D, not D."""
    for dim, mu in ((600, 1e-3), (200, 1e-4), (60, 1e-5)):
        with pytest.raises(ValueError, match="fewer integers"):
            Moment(1.0, dim, people=True).check(mu)


def test_a_set_without_a_bound_is_refused():
    with pytest.raises(ValueError, match="nothing bounds"):
        ball(Ball(np.inf), 2)


def test_noise_has_the_scale_that_is_stated():
    bounded_set, rng = ball(Ball(2.0), 4000), NoiseStreams(0)("noise")
    noisy = private_sum(Units((np.zeros((3, 4000)),)), lambda rows: rows, bounded_set, 0.5, rng)
    assert noisy.sigma == pytest.approx(2.0 * 2.0 / 0.5, rel=1e-6)
    assert np.std(noisy.value) == pytest.approx(noisy.sigma, rel=0.1)
    bounded_set = Moment(1.0, 50)
    noisy = private_sum(Units((np.zeros((3, 50)),)), lambda rows: rows, bounded_set, 0.5, rng)
    assert (noisy.value == noisy.value.T).all()
    assert noisy.sigma == pytest.approx(np.sqrt(2.0) / 0.5, rel=1e-3)
    assert np.std(np.diag(noisy.value)) == pytest.approx(noisy.sigma, rel=0.5)
    assert np.std(noisy.value[np.triu_indices(50, 1)]) * np.sqrt(2.0) == pytest.approx(
        noisy.sigma, rel=0.15
    )


@pytest.mark.parametrize("n", [1, 10**6])
def test_a_plain_sum_moves_by_its_sensitivity_and_no_more(n):
    """Of 10^6 records the float of a total rounds by more than the lattice's own margin."""
    bounded_set, rng = ball(Ball(0.7), 3), np.random.default_rng(0)
    table = np.full((n, 3), 0.7 / np.sqrt(3.0)) * (1.0 - 1e-3 * rng.random((n, 1)))
    table[0] = 0.7 / np.sqrt(3.0)
    value, sensitivity = plain_sum(Units((table,)), lambda rows: rows, bounded_set, n)
    table[0] *= -1.0
    other, _ = plain_sum(Units((table,)), lambda rows: rows, bounded_set, n)
    moved = square(
        Fraction(float(a)) - Fraction(float(b)) for a, b in zip(value, other, strict=True)
    )
    assert moved <= Fraction(sensitivity.value) ** 2
    assert moved >= Fraction(0.999 * sensitivity.value) ** 2
    spacing = Fraction(bounded_set.spacing(PLAIN_STEPS))
    longest = n * Fraction(bounded_set.bound.presence)
    assert Fraction(sensitivity.value) >= PLAIN_STEPS * spacing + longest / 2**50


def test_products_are_those_of_rows_shortened_to_a_length():
    bounded_set, z = (
        Outer(0.7, 3, 2, 0.5),
        np.array([[3.0, 0.0, 4.0], [0.1, 0.2, 0.2], [0.0, 0.0, 0.0]]),
    )
    w = np.eye(3)[:, 1:]
    short = z * [[0.1], [1.0], [1.0]]
    for left in (z, csr_matrix(z)):
        steps = bounded_set.check(1.0)
        total = integer_total(Units((left, z @ w)), lambda *own: own, bounded_set, steps)
        np.testing.assert_allclose(bounded_set.value(total, steps), short.T @ short @ w, rtol=1e-4)


def test_variances_are_those_of_rows_and_of_people():
    rows = np.random.default_rng(0).normal(size=(40, 3))
    bounded_set, people = variances(0.9, 3), Groups.from_ids(np.arange(40) // 8)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    short = rows * np.minimum(1.0, 0.9 / norms)
    own = [part.T @ part / 8 for part in np.split(rows, 5)]
    sizes = [min(1.0, 0.81 / np.linalg.norm(matrix)) for matrix in own]
    matrices = sum(size * matrix for size, matrix in zip(sizes, own, strict=True))
    for units, expected in ((Units((rows,)), short.T @ short), (Units((rows,), people), matrices)):
        noisy = plain_sum(units, lambda z: z, bounded_set, 40)[0]
        np.testing.assert_allclose(unpacked(noisy, 3), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("rows", "value"), [(4, 1.0), (100, 1.5), (512, 1.5), (4096, 1.0), (10, np.nan), (3, 1e300)]
)
def test_frames_with_long_columns_are_refused(rows, value):
    """By their lengths: products of long columns with small entries would overflow, unnoticed."""
    for frame in (np.full((rows, 1), value), np.column_stack([np.eye(rows, 1), [value] * rows])):
        with pytest.raises(ValueError, match="must be orthonormal"):
            Frame(1.0, frame).check(0.25)


@pytest.mark.parametrize("stretch", [0.5, 1.0, 1.2, 1.9])
def test_frames_that_are_not_quite_orthonormal_stay_within_the_bound(stretch):
    frame = stretch * np.linalg.qr(np.random.default_rng(0).normal(size=(300, 3)))[0]
    bounded_set = Frame(1.0, frame)
    assert bounded_set.stretch >= sum(int(v) ** 2 for v in np.rint(frame[:, 0] * 2.0**27))
    steps = bounded_set.check(0.25)
    one, two = (integers(bounded_set, 1e3 * column[None], steps) for column in frame.T[:2])
    assert square(x - y for x, y in zip(one, two, strict=True)) <= steps**2


@pytest.mark.parametrize("count", [1, 255, 70_000])
def test_truth_values_add_up_as_the_numbers_zero_and_one(count):
    bounded_set, tile = (
        answers(2, np.array([0.2, 0.8])),
        np.random.default_rng(0).random((count, 2)) < 0.3,
    )
    sums = []
    for values in (tile, tile.astype(float)):
        total = ExactTotal(bounded_set.shape, bounded_set.largest(10**6))
        bounded_set.add(total, values, 10**6)
        sums.append(total.value())
    np.testing.assert_array_equal(*sums)


@pytest.mark.parametrize("bound", [-1.0, np.nan, 1e200])
def test_weighted_vectors_have_a_bound_whose_square_is_a_float(bound):
    with pytest.raises(ValueError):
        weighted(bound, 3)


@pytest.mark.parametrize("value", [0.1, 15.7, 1e-27, 300.0])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, np.int16, Fraction])
def test_bounds_of_narrow_types_have_the_lattice_of_their_numbers(kind, value):
    """Spacings and sensitivities are computed in Python's floats, whatever a bound is made of."""
    narrow = kind(value)
    if not float(narrow) > 0.0:
        pytest.skip("this type has no such number")
    for make in (
        lambda bound: ball(Ball(bound), 3),
        lambda bound: labelled(bound, 3, 2),
        lambda bound: weighted(bound, 3),
        lambda bound: variances(bound, 3),
        lambda bound: Moment(bound, 3),
        lambda bound: Outer(bound, 3, 2, bound),
        lambda bound: Frame(bound, np.eye(3)[:, :2]),
    ):
        first, second = make(narrow), make(float(narrow))
        steps = first.check(0.3)
        assert type(first.spacing(steps)) is float and first.spacing(steps) == second.spacing(steps)
        assert first.bound == second.bound and type(first.bound.value) is float
