"""Records whose numbers all lie halfway between lattice points, at the edge of their set.

Rounding then moves every coordinate outwards by a half, as the proofs allow for and no more: each
set's room for it is attained, so a set with less room is refuted.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from skriemdp._mechanisms.bounded_sets import (
    Frame,
    Moment,
    Outer,
    answers,
    ball,
    labelled,
    projectors,
    variances,
    weighted,
)
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.sum import ExactTotal

SIZES = (10, 100, 2500)
MU = 1e-3  # few integers: a half is much to them


def halfway(length, count):
    """An even number of numbers, a little above ``m + 1/2``, together almost `length` long.

    As many as are needed are one larger; then pairs, one up and one down, add twice the square of
    their step to the squared length.
    """
    tiny = 1e-5 + 64.0 * math.ulp(length / math.sqrt(count))
    length = Fraction(length - 2.0 * tiny * math.sqrt(count))
    low = math.floor(float(length) / math.sqrt(count) - 0.5 - 1e-3)
    found = np.full(count, low, dtype=np.int64)

    def left():
        known = zip(*np.unique(found, return_counts=True), strict=True)
        return length**2 - sum((int(v) + Fraction(1, 2)) ** 2 * int(times) for v, times in known)

    more = min(int(left() / (2 * low + 2)), count) // 2 * 2
    found[count - more :] += 1
    for pair in range(count // 2):
        step = math.isqrt(max(int(left() / 2), 0))
        if not step:
            break
        found[[2 * pair, 2 * pair + 1]] += [step, -step]
    return found + 0.5 + tiny


def integers(bounded_set, tile, steps):
    total = ExactTotal(bounded_set.shape, bounded_set.largest(steps))
    bounded_set.add(total, tile, steps)
    return [int(v) for v in np.ravel(total.value())]


def square(values):
    return sum(v * v for v in values)


def apart(one, other):
    return math.sqrt(square(x - y for x, y in zip(one, other, strict=True)))


def of_ball(size):
    bounded_set = ball(Ball(0.7), size)
    steps = bounded_set.check(MU)
    row = halfway(0.7 / bounded_set.spacing(steps), size) * bounded_set.spacing(steps)
    return bounded_set, steps, row[None], -row[None]


def of_labelled(size):
    bounded_set = labelled(0.7, size, 3)
    steps = bounded_set.check(MU)
    row = 0.7 * halfway(1.0 / bounded_set.spacing(steps), size) * bounded_set.spacing(steps)
    return bounded_set, steps, (row[None], np.array([1])), (-row[None], np.array([1]))


def of_weighted(size):
    bounded_set = weighted(0.7, size)
    steps = bounded_set.check(MU)
    row = 0.7 * halfway(1.0 / bounded_set.spacing(steps), size) * bounded_set.spacing(steps)
    return bounded_set, steps, (row[None], np.ones(1)), (-row[None], np.ones(1))


def of_public_weights(size):
    bounded_set = weighted(0.7, size, counted=False)
    steps = bounded_set.check(MU)
    row = 0.7 * halfway(1.0 / bounded_set.spacing(steps), size) * bounded_set.spacing(steps)
    return bounded_set, steps, (row[None], np.ones(1)), (-row[None], np.ones(1))


OPPOSITE = [of_ball, of_labelled, of_weighted, of_public_weights]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("make", OPPOSITE)
def test_opposite_vectors_attain_the_diameter(make, size):
    bounded_set, steps, one, other = make(size)
    moved = apart(integers(bounded_set, one, steps), integers(bounded_set, other, steps))
    # Of rows for several groups it touches one.
    groups = math.sqrt(math.prod(bounded_set.shape)) - math.sqrt(size)
    assert steps - 4.0 - groups <= moved <= steps
    assert square(integers(bounded_set, one, steps)) <= bounded_set.presence(steps) ** 2


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_answers_attain_their_diameter(size):
    """All are at an end, which lies halfway between lattice points for some budgets."""
    closest = math.inf
    for mu in 1e-3 * (1.0 + np.arange(400) / 1000.0):
        bounded_set = answers(size)
        steps = bounded_set.check(mu)
        ends = [integers(bounded_set, np.full((1, size), v), steps) for v in (0.0, 1.0)]
        moved = apart(*ends)
        assert moved <= steps
        closest = min(closest, steps - moved)
    assert closest <= 3.0 + 0.1 * math.sqrt(size)


@pytest.mark.parametrize(
    ("form", "size"),
    [
        pytest.param(form, size, marks=[pytest.mark.slow] * (form == "classes" and size > 1000))
        for form in ("dense", "sparse", "classes")
        for size in SIZES
    ],
)
def test_rows_of_moments_attain_their_length(form, size):
    bounded_set = Moment(0.7, size, classes=3 if form == "classes" else None)
    steps = bounded_set.check(MU if size < 1000 else 1.0)
    most, spacing = bounded_set.longest(steps), bounded_set.spacing(steps)
    row = halfway(0.7 / spacing, size)[None] * spacing
    tile = {"dense": row, "sparse": csr_matrix(row), "classes": (row, np.array([1]))}[form]
    total = np.array(integers(bounded_set, tile, steps), dtype=object).reshape(-1, size, size)
    found = sum(int(matrix[i, i]) for matrix in total for i in range(size))
    assert (most - 2) ** 2 <= found <= most**2
    assert bounded_set.presence(steps) >= found


@pytest.mark.parametrize("size", [4, 10, 40])
@pytest.mark.parametrize("by_trace", [False, True])
def test_people_at_the_edge_are_not_lost_to_rounding(size, by_trace):
    """Their integers are checked, and those that are too long would count as zero."""
    bounded_set = Moment(0.7, size, people=True, by_trace=by_trace)
    steps = bounded_set.check(MU)
    most, spacing = bounded_set.longest(steps), bounded_set.spacing(steps)
    # As many rows as columns; all of one direction, so that trace and norm are one.
    factor = halfway(0.7 / spacing, size**2).reshape(1, size, size) * spacing
    matrix = np.array(integers(bounded_set, factor, steps), dtype=object).reshape(size, size)
    trace, squares = sum(int(matrix[i, i]) for i in range(size)), square(matrix.ravel().tolist())
    assert (most - 3) ** 4 * (0.9 if by_trace else 1.0 - 1e-6) <= squares
    assert squares <= bounded_set.presence(steps) ** 2
    if by_trace:
        assert (most - 3) ** 2 <= trace <= most**2


@pytest.mark.parametrize("columns", [1, 2, 16])
def test_products_with_a_frame_leave_room_for_the_rounding_of_both(columns):
    frame = np.linalg.qr(np.random.default_rng(0).normal(size=(20, columns)))[0]
    bounded_set = Frame(0.7, frame)
    for mu in (1e-3, 0.3, 7.0):
        steps = bounded_set.check(mu)
        most = bounded_set.longest(steps)
        moved = (1.0 if columns == 1 else math.sqrt(2.0)) * most**2 + most * math.sqrt(columns)
        assert moved <= steps * (1.0 + 1e-12)


@pytest.mark.parametrize(("left", "right"), [(10, 10), (100, 10), (10, 100), (400, 400), (30, 1)])
@pytest.mark.parametrize("form", ["rounded", "balanced", "sparse"])
def test_both_factors_of_a_product_attain_their_lengths(left, right, form):
    bounded_set = Outer(0.7, left, right)
    steps = bounded_set.check(MU if left * right < 10**4 else 1.0)
    unit, spacing = bounded_set.resolution(steps), bounded_set.spacing(steps)
    a = halfway(unit, left)[None] / unit
    integer_left = np.rint(a * unit)
    a_length = math.sqrt(square(map(int, integer_left[0])))
    most = steps // 2
    if form == "rounded":
        rounded = bounded_set.rounded(a, steps)
        b = halfway(float(rounded.limits[0]), right) if right > 1 else rounded.limits[:1]
        tile = rounded, b[None] * (spacing * unit)
    else:
        # Longer than the set: both are shortened, the right one to what the longest left leaves.
        limit = bounded_set._longest_right(steps)
        b = halfway(limit, right) if right > 1 else np.array([limit])
        tile = (csr_matrix(a) if form == "sparse" else a), 5.0 * b[None] * (spacing * unit)
    found = integers(bounded_set, tile, steps)
    reached = math.sqrt(square(found))
    assert square(found) <= most**2
    # A unit less of either factor would be seen.
    assert reached >= most * (1.0 - 1e-8) - 3.0 * a_length - 3.0 * most / a_length
    assert reached <= bounded_set.presence(steps)


@pytest.mark.parametrize("size", [100, 900])
def test_rows_of_a_frame_attain_their_length(size):
    frame = np.full((size, 1), size**-0.5)
    bounded_set = Frame(0.7, frame)
    steps = bounded_set.check(MU if size < 500 else 0.1)
    spacing, most = bounded_set.spacing(steps), bounded_set.longest(steps)
    row = halfway(0.7 / spacing, size)[None] * spacing
    found = math.sqrt(square(integers(bounded_set, row, steps)))
    assert (most - 2.0) * (most - 3.0) * (1.0 - 1e-6) <= found <= bounded_set.presence(steps)
    assert found <= most * (most + 1)


HELD = {
    "ball": ball(Ball(0.7), 5),
    "answers": answers(5),
    "answers about levels": answers(5, np.array([0.2, 0.5, 0.3, 0.9, 0.1])),
    "labelled": labelled(0.7, 5, 3),
    "weighted": weighted(0.7, 5),
    "public weights": weighted(0.7, 5, counted=False),
    "projectors": projectors(5, 2),
    "variances": variances(0.7, 5),
    "one variance": variances(0.7, 1),
    "products": Outer(0.7, 5, 3),
    "column": Frame(0.7, np.eye(5)[:, :1]),
    "frame": Frame(0.7, np.eye(5)[:, :2]),
}


@pytest.mark.parametrize("name", HELD)
def test_a_record_more_moves_integers_by_its_share_rounded_up(name):
    """Where the diameter is an odd number of steps, and where it is an even one."""
    bounded_set, parities = HELD[name], set()
    for mu in np.geomspace(1e-3, 10.0, 60):
        steps = bounded_set.check(mu)
        parities.add(steps % 2)
        share = Fraction(bounded_set.bound.presence) / Fraction(bounded_set.bound.value)
        assert share * steps <= bounded_set.presence(steps) < share * steps + 1
    assert parities == {0, 1}


@pytest.mark.parametrize("name", HELD)
def test_room_for_rounding_is_what_the_proof_asks_for(name):
    """In fractions: k numbers, each off by a half, and what floats are off by before."""
    bounded_set = HELD[name]
    for mu in (1e-3, 0.3, 7.0):
        steps = bounded_set.check(mu)
        spacing = Fraction(bounded_set.spacing(steps))
        if isinstance(bounded_set, Outer):
            resolution, right = (
                bounded_set.resolution(steps),
                Fraction(bounded_set._longest_right(steps)),
            )
            left = resolution + Fraction(math.sqrt(bounded_set.left)) / 2
            room = left * (right + Fraction(math.sqrt(bounded_set.right)) / 2)
            assert room <= steps // 2
            assert spacing * resolution * right >= Fraction(bounded_set.norm) * (
                1 - Fraction(1, 2**50)
            )
        elif isinstance(bounded_set, Frame):
            room = bounded_set.longest(steps) - Fraction(math.sqrt(bounded_set.width)) / 2
            assert spacing * room > Fraction(bounded_set.radius) * (
                1 + Fraction(2 * bounded_set.width, 2**53)
            )
        else:
            size = math.prod(bounded_set.shape)
            off = 1 + Fraction(4 * size + 32, 2**53)
            room = steps - Fraction(math.sqrt(size)) - 2
            assert spacing * room >= Fraction(bounded_set.bound.value) * off * (
                1 - Fraction(1, 2**51)
            )
