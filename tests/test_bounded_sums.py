"""What one record can do to a sum, as floating point computes it: never more than its ball says."""

import math

import numpy as np
import pytest
from scipy import sparse

from skriemdp._descent.problem import FrechetProblem
from skriemdp._descent.queries import DifferenceQuery, GradientQuery, LogarithmQuery
from skriemdp._location_scale.rows import Rows
from skriemdp._mechanisms.bounds import Ball, clip_norms
from skriemdp._pca.releases import exact_moment
from skriemdp.federated._together import PooledRecords, queries_at
from skriemdp.geometry import SPD, GeodesicBall, Hyperboloid, Sphere
from skriemdp.privacy._sensitivity import (
    Sensitivity,
    ball_sensitivity,
    exact_total_sensitivity,
    mean_sensitivity,
)

SLACK = 1.0 + 1e-9
SIZES = [0.0, 5e-324, 1e-300, 1e-160, 1e-20, 1.0, 1e20, 1e150, 1e160, 1e300, math.inf, math.nan]


def hostile_rows(dim):
    """Every size in one coordinate, in all of them, and mixed with every other."""
    rng = np.random.default_rng(dim)
    rows = []
    for size in SIZES[1:]:
        alone = np.zeros(dim)
        alone[0] = -size
        rows += [alone, np.full(dim, -size), np.full(dim, size)]
        rows += [rng.choice(SIZES, size=dim) * rng.choice([-1.0, 1.0], size=dim) for _ in range(40)]
        rows += [size * direction for direction in rng.normal(size=(20, dim))]
    return np.stack(rows)


def length(row):
    return math.hypot(*row)


@pytest.mark.parametrize("radius", [1e-100, 1e-9, 1.0, 1e6, 1e100])
@pytest.mark.parametrize("offset", [None, 0.0, 1.0, 1e8, 1e154, 1e300])
@pytest.mark.parametrize("norm", [math.inf, 1e-3, 1e5])
def test_hostile_rows_stay_in_the_ball(radius, offset, norm):
    dim = 4
    center = None if offset is None else np.full(dim, offset * radius / 2.0)
    ball = Ball(radius, center, norm)
    rows = hostile_rows(dim)
    if center is not None:
        near = np.random.default_rng(0).normal(size=(50, dim)) * radius
        rows = np.concatenate([rows, center + near])
    with np.errstate(all="raise"):
        offsets = ball.enforce(rows)
    assert np.isfinite(offsets).all()
    assert max(map(length, offsets)) <= radius * (1 + (2 * dim + 16) * 2.0**-53)
    # A row's offset depends on that row alone.
    with np.errstate(all="raise"):
        alone = np.concatenate([ball.enforce(row[None]) for row in rows[::7]])
    np.testing.assert_allclose(alone, offsets[::7], rtol=1e-15)


def test_rows_inside_are_left_alone():
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, size=(100, 3))
    np.testing.assert_array_equal(Ball(1.0).enforce(rows), rows)
    center = np.array([3.0, 0.0, 0.0])
    np.testing.assert_array_equal(Ball(1.0, center).enforce(rows + center), rows + center - center)


def test_rows_without_a_finite_square_count_as_zero():
    good = np.array([0.3, 0.4, 0.0])
    for bad in ([1.7e308, 1.7e308, 0.0], [np.inf, 0.0, 0.0], [0.0, np.nan, 1.0]):
        for norm in (1.0, math.inf):
            np.testing.assert_array_equal(
                clip_norms(np.array([bad, good]), norm), np.array([np.zeros(3), good])
            )


@pytest.mark.parametrize("radius", [0.0, -1.0, math.nan, 1e-200, 1e200])
def test_radii_whose_squares_are_no_floats_are_refused(radius):
    with pytest.raises(ValueError, match="radius"):
        Ball(radius)


@pytest.mark.parametrize("clip", [0.1, 1.0, 4.0, math.inf])
@pytest.mark.parametrize("distance", [None, 0.3, 3.0, 20.0])
def test_a_clipped_ball_holds_what_the_ball_held(clip, distance):
    rng = np.random.default_rng(0)
    center = None if distance is None else np.array([distance, 0.0, 0.0])
    ball = Ball(1.0, center)
    rows = rng.normal(size=(2000, 3))
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    rows = clip_norms(rows if center is None else rows + center, clip)
    clipped = ball.clipped(clip)
    assert clipped.radius <= min(1.0, clip)
    offsets = rows if clipped.center is None else rows - clipped.center
    assert np.linalg.norm(offsets, axis=1).max() <= clipped.radius * SLACK


def test_sensitivities_come_with_a_theorem():
    exact = ball_sensitivity(0.5)
    assert exact == Sensitivity(exact.value, "ball_sensitivity", exact.value / 2)
    total = exact_total_sensitivity(exact, exact.value, 10_000)
    assert exact.value < total.value < exact.value * (1 + 1e-8)
    assert total.theorem == mean_sensitivity(total, 7).theorem == "ball_sensitivity"
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="sensitivity"):
            Sensitivity(bad, "none")


# -- sums of logarithms where floats lose their digits ---------------------------------------------


def check_sum(make, points, replacements, index=3):
    """Replace one record, and leave it out: the two halves of what the noise must cover."""
    query = make(points)
    assert query.bound.is_bounded
    radius, everybody = query.bound.radius, np.arange(len(points))
    others = np.delete(everybody, index)
    absent = query.exact(others)
    full, batches = [query.exact()], [query.exact(everybody)]
    for replacement in replacements:
        changed = points.copy()
        changed[index] = replacement
        query = make(changed)
        full.append(query.exact())
        batches.append(query.exact(everybody))
        np.testing.assert_array_equal(query.exact(others), absent)
    assert np.isfinite(full + batches).all() and np.isfinite(absent).all()
    worst = max(length(batch - absent) for batch in batches)
    assert worst <= radius * SLACK
    for totals in (full, batches):
        apart = max(length(total - other) for total in totals for other in totals)
        assert apart <= 2.0 * radius * SLACK
    assert query.bounded_set.sigma(query.bounded_set.check(1.0)) >= 2.0 * radius
    return worst / radius


def check_geometry(geometry, points, replacements, here, radius):
    """Gradients at a released point, and logarithms there; the share of the bound that is used."""
    ball = GeodesicBall(geometry, None, radius)
    shares = []
    for clip in (math.inf, 0.1 * radius):
        shares.append(
            check_sum(
                lambda x, clip=clip: GradientQuery(FrechetProblem(ball, x), here, clip),
                points,
                replacements,
            )
        )

    def projected(x):
        return GradientQuery(FrechetProblem.from_records(ball, x)[0], ball.center)

    shares.append(check_sum(projected, points, replacements))
    shares.append(
        check_sum(lambda x: LogarithmQuery(geometry, here, 0.5 * radius, x), points, replacements)
    )
    anchor = geometry.base_point
    shares.append(
        check_sum(
            lambda x: DifferenceQuery(FrechetProblem(ball, x), here, anchor, 0.1 * radius),
            points,
            replacements,
        )
    )
    return shares


@pytest.mark.parametrize("distance", [10.0, 33.0, 40.0, 100.0, 300.0])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_one_record_far_out_on_the_hyperboloid(distance, place):
    geometry, rng = Hyperboloid(2), np.random.default_rng(0)
    base = geometry.base_point
    directions = rng.normal(size=(30, 2))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points = geometry.exp_coordinates(base, distance * directions)
    here = geometry.exp_coordinates(base, place * distance * np.array([1.0, 0.0]))
    extremes = distance * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    replacements = [
        *geometry.exp_coordinates(base, extremes),
        base,
        geometry.exp_coordinates(base, 2.0 * distance * directions[0]),
        *(bad * np.ones(3) for bad in (math.nan, math.inf, 1e300)),
    ]
    with np.errstate(all="ignore"):
        shares = check_geometry(geometry, points, replacements, here, distance)
    assert max(shares) > 0.9


@pytest.mark.parametrize("condition", [1e4, 1e8, 1e12, 1e14])
@pytest.mark.parametrize("size", [2, 3])
def test_one_ill_conditioned_record_on_matrices(size, condition):
    geometry, rng = SPD(size), np.random.default_rng(0)

    def matrix(condition):
        turn = np.linalg.qr(rng.normal(size=(size, size)))[0]
        eigenvalues = np.geomspace(condition**-0.5, condition**0.5, size)
        found = turn * eigenvalues @ turn.T
        return 0.5 * (found + found.T)

    points = np.stack([matrix(condition) for _ in range(30)])
    replacements = [matrix(condition) for _ in range(6)]
    replacements += [np.eye(size), -np.eye(size), np.full((size, size), math.nan)]
    radius = 0.5 * math.log(condition) * math.sqrt(size)
    for here in (np.eye(size), matrix(condition)):
        with np.errstate(all="ignore"):
            shares = check_geometry(geometry, points, replacements, here, radius)
        assert max(shares) > 0.5


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("geometry", [SPD(2), SPD(3)], ids=str)
def test_gradients_obey_their_diameter_where_logarithms_lose_digits(geometry, pooled):
    # Two gradients differed by 1.17 (SPD(2)) and 1.04 (SPD(3)) times the bound; 1.38 when the
    # gradients of many clients are summed at once.
    rng, radius, worst = np.random.default_rng(2), 40.0, 0.0
    ball = GeodesicBall(geometry, None, radius)
    for reach in (0.3, 0.3, 0.6, 0.6, 1.0, 1.0):
        u = rng.normal(size=(31, geometry.dim))
        u *= radius / np.linalg.norm(u, axis=1, keepdims=True)
        point = ball.project(geometry.exp_coordinates(ball.center, reach * u[:1]))[0]
        points = ball.project(geometry.exp_coordinates(ball.center, 2.0 * u[1:]))
        problem = FrechetProblem(ball, points)
        if pooled:
            pool = PooledRecords(problem, dict.fromkeys(range(30), 1))
            each = queries_at(point, [problem] * 30, math.inf, range(30), pool)
            sums = np.stack([query.exact() for query in each])
        else:
            query = GradientQuery(problem, point)
            sums = np.stack([query.exact(np.array([i])) for i in range(30)])
        spread = np.linalg.norm(sums[:, None] - sums, axis=-1).max()
        worst = max(worst, spread / (2.0 * problem.gradient_ball(point).radius))
    assert 0.8 < worst < 1.0 + 1e-12


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("offset", [1e2, 1e5, 1e8])
def test_a_far_centre_leaves_the_sensitivity_of_second_moments(make, offset):
    # Sparse rows around 1e8 moved their second moment by 93 times its sensitivity.
    rng = np.random.default_rng(0)
    center = np.full(3, offset)
    X = center + rng.normal(size=(4000, 3))
    grams = []
    for _ in range(4):
        X[0] = center + 10.0 * rng.normal(size=3)
        gram, longest = exact_moment(Rows(make(X), *X.shape), center, 1.0)
        grams.append(gram)
    moved = max(np.linalg.norm(a - b) for a in grams for b in grams)
    assert 0.0 < moved <= np.sqrt(2.0) * longest**2


# -- means that centre rows ----------------------------------------------------------------------


def _as_table(kind, X):
    table = sparse.csr_array(X) if "csr" in kind else X
    return [table] if "stream" in kind else table


# -- sums that form no logarithm -------------------------------------------------------------------


def around(geometry, center, radius, n, rng):
    """Points within `radius` of `center`; on a sphere, off it by less than a millionth."""
    vectors = rng.normal(size=(n, geometry.dim))
    vectors *= radius * rng.random((n, 1)) / np.linalg.norm(vectors, axis=1, keepdims=True)
    points = geometry.exp_coordinates(center, vectors)
    if isinstance(geometry, Sphere):
        points = points * (1.0 + 5e-7 * rng.uniform(-1.0, 1.0, size=(n, 1)))
    return points


def some_center(geometry, rng):
    if isinstance(geometry, Sphere):
        return geometry.random_point(rng)
    direction = rng.normal(size=geometry.dim)
    length = 0.8 / math.sqrt(-geometry.curvature)
    direction *= length / np.linalg.norm(direction)
    return geometry.exp_coordinates(geometry.base_point, direction)


CURVED = [
    (Hyperboloid(1), 1.0),
    (Hyperboloid(2, curvature=-0.1), math.sqrt(10.0)),
    (Hyperboloid(3, curvature=-4.0), 0.5),
    (Hyperboloid(30), 1.0),
]


@pytest.mark.parametrize("radius", [1.2, 0.5, 1e-2, 1e-4])
@pytest.mark.parametrize("geometry, size", CURVED, ids=str)
@pytest.mark.parametrize("part", [1.0, 0.4])
def test_sums_by_products_are_those_of_bounded_logarithms(geometry, size, radius, part):
    rng = np.random.default_rng(geometry.dim)
    center = some_center(geometry, rng)
    points = around(geometry, center, radius * size, 3000, rng)
    points[:3] = center  # duplicates of the point itself below
    for point in (center, points[5]):
        offset = part * np.asarray(geometry.log_coordinates(point, center))
        ball = Ball(part * radius * size, offset)
        expected = ball.enforce(geometry.log_coordinates(point, points)).sum(axis=0)
        found = geometry.bounded_log_sum(point, points, ball.radius, offset)
        assert found is not None
        gap = np.abs(found - expected).max() / len(points)
        assert gap <= 1e-14 * size * max(radius, 1e-2)


@pytest.mark.parametrize("part", [0.2, 1.0])
@pytest.mark.parametrize("radius", [0.15, 1e-3, 2e-6])
@pytest.mark.parametrize("dim", [1, 2, 20])
def test_no_record_adds_more_to_a_sum_by_products_than_its_ball_allows(dim, radius, part):
    geometry, rng = Hyperboloid(dim), np.random.default_rng(3)
    center = some_center(geometry, rng)
    point = geometry.exp_coordinates(center, radius * part * np.eye(dim)[0])
    offset = np.asarray(geometry.log_coordinates(point, center))
    # One record at a time, up to eight times as far off as its ball allows.
    records = around(geometry, point, 7.9 * radius, 400, rng)
    records = np.concatenate([records, point[None], point[None] * (1.0 + 1e-6), center[None]])
    bounded = 0
    for record in records:
        added = geometry.bounded_log_sum(point, record[None], radius, offset)
        assert added is not None
        assert length(added) <= radius * (1.0 + 1e-10)
        bounded += length(added) >= radius * (1.0 - 1e-10)
    assert bounded > 100


@pytest.mark.parametrize("geometry", [Hyperboloid(3), Hyperboloid(20)], ids=str)
def test_squares_that_are_known_change_no_bit(geometry):
    rng = np.random.default_rng(0)
    center = some_center(geometry, rng)
    points = around(geometry, center, 0.5, 20_000, rng)
    squares, offset = geometry.squares(points), np.zeros(geometry.dim)
    for radius in (0.6, 0.4):
        known = geometry.bounded_log_sum(center, points, radius, offset, squares)
        np.testing.assert_array_equal(
            known, geometry.bounded_log_sum(center, points, radius, offset)
        )
    found = geometry.distances(center, points, squares)
    np.testing.assert_array_equal(found, geometry.dist(center, points))
    problem = FrechetProblem(GeodesicBall(geometry, center, 0.6), points)
    np.testing.assert_array_equal(problem.squares, squares)
    assert SPD(2).squares(np.eye(2)[None]) is None


@pytest.mark.parametrize("dim", [1, 3, 8, 9, 40])
def test_bounded_rows_in_units_are_the_same_in_any_company(dim):
    rng = np.random.default_rng(dim)
    rows = rng.normal(size=(40, dim)) / np.sqrt(dim)
    rows[3], rows[4] = 1e200, np.nan
    ball, unit = Ball(0.7, 0.2 * np.eye(dim)[0]), 3e-11
    for table in (rows, np.asfortranarray(rows)):
        found = ball.enforce(table, unit)
        assert not np.shares_memory(found, table)
        np.testing.assert_allclose(found * unit, ball.enforce(table), rtol=1e-15)
        assert (np.linalg.norm(found, axis=1) * unit <= 0.7 * (1 + 1e-14)).all()
        for place in range(40):
            np.testing.assert_array_equal(ball.enforce(rows[place][None], unit)[0], found[place])


def test_the_ball_of_gradients_at_its_own_centre_has_none():
    for geometry in (Sphere(2), Hyperboloid(2)):
        rng = np.random.default_rng(0)
        center = some_center(geometry, rng)
        points = around(geometry, center, 0.5, 10, rng)
        problem = FrechetProblem(GeodesicBall(geometry, center, 0.5), points)
        here, near = problem.gradient_ball(center), problem.gradient_ball(points[0])
        assert here.center is None and near.center is not None
        moved = problem.gradient_ball(
            geometry.exp_coordinates(center, 1e-12 * np.eye(1, geometry.dim)[0])
        )
        assert here.radius == pytest.approx(moved.radius, rel=1e-9)


def test_sums_by_products_are_left_alone_where_they_would_lose_digits():
    center = np.zeros(2)
    assert SPD(2).bounded_log_sum(np.eye(2), np.eye(2)[None], 1.0, np.zeros(3)) is None
    space = Hyperboloid(2)
    base = space.base_point
    points = around(space, base, 0.2, 50, np.random.default_rng(0))
    assert space.bounded_log_sum(base, points, 0.2, center) is not None
    for bad in (np.full(3, np.nan), np.full(3, np.inf), np.full(3, 1e300)):
        spoiled = np.concatenate([points, bad[None]])
        assert space.bounded_log_sum(base, spoiled, 0.2, center) is None
    far = space.exp_coordinates(base, np.array([4.0, 0.0]))
    assert space.bounded_log_sum(far, points, 0.2, center) is None
    assert space.bounded_log_sum(base, points, 5.0, center) is None
    assert space.bounded_log_sum(base, points, 1e-3, center) is None  # records far beyond it
    assert space.bounded_log_sum(base, points, 0.2, np.array([8.0, 0.0])) is None
