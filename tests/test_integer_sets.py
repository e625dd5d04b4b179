"""Every set of integer vectors: claimed and attained bounds, in Python integers."""

import numpy as np
import pytest

from skriemdp.mechanisms import noise
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.counts import GaussianCount
from skriemdp.mechanisms.integer_matrices import IntegerMatrices
from skriemdp.mechanisms.integer_products import IntegerFactors, IntegerFrames, IntegerMoments
from skriemdp.mechanisms.integers import IntegerBall, IntegerNumber, IntegerWeights
from skriemdp.mechanisms.memberships import IntegerMemberships, Memberships
from skriemdp.mechanisms.noise import NOISE_SCALE
from skriemdp.privacy.lattice import largest_shift
from skriemdp.privacy.sensitivity import interval_sensitivity

WILD = [0.0, 1e-320, 1e-160, 1e-3, 1.0, 3.0, 1e154, 1e160, 1e308, -1e308, np.inf, -np.inf, np.nan]
MULTIPLIERS = [2.0**-9, 0.3, 7.7, 1000.0]


def whole(values):
    """Python integers; a number that is none fails."""
    values = np.ravel(values).tolist()
    assert all(v == int(v) for v in values)
    return [int(v) for v in values]


def square(values):
    return sum(v * v for v in values)


def apart(a, b):
    return square(x - y for x, y in zip(a, b, strict=True))


def hostile(dim):
    """Rows of every size, not finite, mixed, opposite and at right angles."""
    rng = np.random.default_rng(dim)
    rows = [np.full(dim, value) for value in WILD]
    rows += [rng.normal(size=dim) * size for size in (1e-160, 1.0, 1e100, 1e300)]
    for value in WILD:
        mixed = np.ones(dim)
        mixed[0] = value
        rows.append(mixed)
    ends = 10.0 * np.eye(min(dim, 2), dim)
    return np.array([*rows, *ends, *-ends])


# Each set says what its records become, as integer vectors of which any two may be neighbours; the
# bound of their distance; and how much of it the worst pair attains, squared.


def ball(dim, multiplier):
    lattice = IntegerBall(Ball(0.7), dim, multiplier)
    vectors = [whole(row) for row in lattice.integers(hostile(dim))]
    assert max(map(square, vectors)) <= lattice.units**2
    return vectors, 2 * lattice.units


def weights(dim, multiplier):
    lattice = IntegerWeights(0.7, dim, multiplier)
    vectors = []
    for weight in (0.0, 1e-300, 0.3, 1.0, 1e308, -1.0, np.inf, np.nan):
        rows = hostile(dim)
        a = np.full(len(rows), weight)
        v, c = lattice.vectors(rows, a), lattice.weights(a)
        vectors += [whole([*row, count]) for row, count in zip(v, c, strict=True)]
    return vectors, lattice.units


def memberships(dim, multiplier):
    lattice = IntegerMemberships(0.7, min(1.5, dim**0.5), dim, multiplier)
    vectors = []
    for count in {1, min(2, dim), dim}:
        for value in WILD:
            members = Memberships(
                np.full(count, value), np.arange(count), np.array([0, count]), dim
            )
            vectors.append(whole(lattice.total(members)))
    return vectors, lattice.units


def moments(dim, multiplier):
    lattice = IntegerMoments(0.7, dim, multiplier)
    rows = [whole(row) for row in lattice.integers(hostile(dim))]
    return [[a * b for a in row for b in row] for row in rows], lattice.units


def frames(dim, multiplier, columns):
    frame = np.linalg.qr(np.random.default_rng(0).normal(size=(dim, columns)))[0]
    lattice = IntegerFrames(0.7, frame, multiplier)
    rows = np.vstack([hostile(dim), 9.0 * frame.T, -9.0 * frame.T, *_across(frame)])
    z, b = lattice.integers(rows)
    vectors = [
        [x * y for x in whole(left) for y in whole(right)] for left, right in zip(z, b, strict=True)
    ]
    return vectors, lattice.units


def _across(frame):
    """For one column: the row halfway between it and one at right angles, and its mirror image."""
    w = frame[:, 0]
    other = np.eye(len(w))[0] - w * w[0]
    other = other / np.linalg.norm(other) if np.linalg.norm(other) > 0.1 else 0.0 * other
    return np.array([[9.0 * (w + other)], [9.0 * (w - other)]])


def factors(dim, multiplier):
    lattice = IntegerFactors(dim, 2, multiplier)
    lefts, rights = hostile(dim), hostile(2)
    vectors = []
    for right in rights:
        a, b = lattice.balanced(lefts, np.tile(right, (len(lefts), 1)), 0.7)
        vectors += [
            [x * y for x in whole(left) for y in whole(other)]
            for left, other in zip(a, b, strict=True)
        ]
    assert max(map(square, vectors)) <= lattice.units**2
    return vectors, 2 * lattice.units


def people(dim, multiplier):
    """Matrices ``L' L`` of factors with one row, and with several."""
    lattice = IntegerMatrices(0.7, dim, multiplier)
    rows = hostile(dim)
    blocks = [row[None] for row in rows] + [rows[i : i + 3] for i in range(0, len(rows) - 3, 3)]
    vectors = []
    for block in blocks:
        found = np.array([whole(row) for row in lattice.integers(block[None])], dtype=object)
        vectors.append([int(v) for v in np.ravel(found.T @ found)])
    return vectors, lattice.units


SETS = {
    "Ball": ball,
    "weights of kernels": weights,
    "Weighted, several groups": memberships,
    "RankOne": moments,
    "RankOne times a column": lambda dim, multiplier: frames(dim, multiplier, 1),
    "RankOne times a frame": lambda dim, multiplier: frames(dim, multiplier, min(dim, 2)),
    "Factors": factors,
    "person matrices": people,
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("dim", [1, 3, 7])
@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_neighbours_move_by_the_bound_and_no_more(name, dim, multiplier):
    vectors, bound = SETS[name](dim, multiplier)
    vectors = list(map(list, {tuple(v) for v in vectors}))  # most are alike
    moved = max(apart(a, b) for i, a in enumerate(vectors) for b in vectors[: i + 1])
    assert moved <= bound**2
    # Squares of numbers have one sign: they use half of what matrices would.
    half = dim == 1 and name in ("RankOne", "person matrices")
    # Rounding takes up to a hundredth of a length, twice: of both factors of a product.
    assert moved >= (0.47 if half else 0.95) * bound**2


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_counts_and_numbers_move_by_the_bound_and_no_more(monkeypatch, multiplier):
    totals = []
    monkeypatch.setattr(noise, "draw", lambda exact, *a, **b: totals.append(int(exact)) or exact)
    bound = largest_shift(NOISE_SCALE, multiplier)
    for count in (0, 1):
        GaussianCount(multiplier).release(count, None)
    assert totals[1] - totals[0] == bound
    for size in (2.0**-1000, 1.0, 2.0**1000):
        number = IntegerNumber(interval_sensitivity(size), multiplier)
        for place in (0.0, 0.25, -4096.0):  # so that floats are exactly so far apart
            del totals[:]
            for value in (place * size, (place + 1.0) * size):
                number.release(value, None)
            assert 0.98 * bound < totals[1] - totals[0] <= bound


def test_a_million_coordinates():
    """Squares of Python integers; the rows are long, and at right angles where that is worst."""
    dim = 10**6
    rows = np.random.default_rng(0).normal(size=(2, dim)) * 1e3
    rows[:, ::2] *= [[1.0], [0.0]]
    rows[:, 1::2] *= [[0.0], [1.0]]
    lattice = IntegerBall(Ball(0.7), dim, 1.0)
    ends = [whole(row) for row in lattice.integers(np.array([rows[0], -rows[0]]))]
    assert 0.95 * (2 * lattice.units) ** 2 <= apart(*ends) <= (2 * lattice.units) ** 2
    moments = IntegerMoments(0.7, dim, 1.0)
    first, second = (whole(row) for row in moments.integers(rows))
    inner = sum(a * b for a, b in zip(first, second, strict=True))
    moved = square(first) ** 2 + square(second) ** 2 - 2 * inner**2
    assert 0.95 * moments.units**2 <= moved <= moments.units**2
    weights = IntegerWeights(0.7, dim, 1.0)
    v, c = weights.vectors(np.array([rows[0], -rows[0]]), np.ones(2)), weights.weights(np.ones(2))
    ends = [whole([*row, count]) for row, count in zip(v, c, strict=True)]
    assert 0.95 * weights.units**2 <= apart(*ends) <= weights.units**2
    members = IntegerMemberships(1.0, 100.0, dim // 2, 1.0)
    ends = []
    for sign in (1.0, -1.0):
        values = np.full(dim // 2, sign)
        one = Memberships(values, np.arange(dim // 2), np.array([0, dim // 2]), dim // 2)
        ends.append(whole(members.total(one)))
    assert 0.95 * members.units**2 <= apart(*ends) <= members.units**2


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_bounds_whose_squares_are_no_floats_are_refused(size):
    """A spacing that is no ordinary float would leave integers longer than the bound."""
    for make in (
        lambda: IntegerMoments(size, 2, 1.0),
        lambda: IntegerMatrices(size, 2, 1.0),
        lambda: IntegerFrames(size, np.eye(2), 1.0),
        lambda: IntegerWeights(size, 2, 1.0),
        lambda: IntegerBall(Ball(size), 2, 1.0),
    ):
        with pytest.raises(ValueError, match="radius="):
            make()
