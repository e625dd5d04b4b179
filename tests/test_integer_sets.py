"""Every set of integer vectors: claimed and attained bounds, in Python integers."""

import numpy as np
import pytest

from skriemdp.mechanisms import noise
from skriemdp.mechanisms.bounds import Ball
from skriemdp.mechanisms.counts import GaussianCount, GaussianNumber
from skriemdp.mechanisms.integers import IntegerBall
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


@pytest.mark.parametrize("dim", [1, 3, 7])
@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_neighbours_move_by_the_bound_and_no_more(dim, multiplier):
    vectors, bound = ball(dim, multiplier)
    vectors = list(map(list, {tuple(v) for v in vectors}))  # most are alike
    moved = max(apart(a, b) for i, a in enumerate(vectors) for b in vectors[: i + 1])
    assert moved <= bound**2
    # Rounding takes up to a hundredth of a length.
    assert moved >= 0.95 * bound**2


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_counts_and_numbers_move_by_the_bound_and_no_more(monkeypatch, multiplier):
    totals = []
    monkeypatch.setattr(noise, "draw", lambda exact, *a, **b: totals.append(int(exact)) or exact)
    bound = largest_shift(NOISE_SCALE, multiplier)
    for count in (0, 1):
        GaussianCount(multiplier).release(count, None)
    assert totals[1] - totals[0] == bound
    for size in (2.0**-1000, 1.0, 2.0**1000):
        number = GaussianNumber(interval_sensitivity(size), 1.0 / multiplier)
        for place in (0.0, 0.25, -4096.0):  # so that floats are exactly so far apart
            del totals[:]
            for value in (place * size, (place + 1.0) * size):
                number.release(value, None)
            assert 0.98 * bound < totals[1] - totals[0] <= bound


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_bounds_whose_squares_are_no_floats_are_refused(size):
    """A spacing that is no ordinary float would leave integers longer than the bound."""
    with pytest.raises(ValueError, match="radius="):
        IntegerBall(Ball(size), 2, 1.0)
