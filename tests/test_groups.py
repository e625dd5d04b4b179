"""People who own several records: averages from own rows only, bounded after averaging."""

import numpy as np
import pytest
from conftest import GEOMETRIES, random_points
from scipy.sparse import csr_array

from skriemdp._groups import Groups
from skriemdp._random import public_generator
from skriemdp.descent.groups import GroupedProblem, local_means
from skriemdp.descent.per_sample import CostProblem, HalfSquaredDistance
from skriemdp.descent.problem import FrechetProblem
from skriemdp.geometry import AffineInvariantSPD, Euclidean, Hyperboloid, Sphere
from skriemdp.geometry.ball import GeodesicBall
from skriemdp.linear_model.glm import GeneralizedLinearLoss, LinearRows
from skriemdp.linear_model.groups import GroupedLinearProblem
from skriemdp.location_scale.grouped_rows import GroupedRows
from skriemdp.mean.class_releases import _by_person
from skriemdp.mean.estimator import frechet_mean
from skriemdp.mechanisms.bounds import matrix_norms
from skriemdp.mechanisms.integer_matrices import IntegerMatrices
from skriemdp.mechanisms.lifted_moments import LiftedMoments
from skriemdp.pca.problem import SubspaceProblem, product_ball
from skriemdp.privacy.sensitivity import (
    ball_sensitivity,
    frame_product_sensitivity,
    interval_sensitivity,
    second_moment_sensitivity,
    sums_and_counts_sensitivity,
    trace_part_sensitivity,
    weighted_sum_sensitivity,
)
from skriemdp.regression.features import FeatureMap
from skriemdp.regression.prediction_releases import KernelWeights
from skriemdp.regression.wrapped_releases import WrappedModel, _people


def people(rng, count, most):
    """Ids of `count` people with 1 to `most` rows each, in no order."""
    ids = np.repeat(np.arange(count), rng.integers(1, most + 1, count))
    return rng.permutation(ids)


def test_groups_are_the_rows_of_equal_ids_in_their_order():
    ids = np.array(["b", "a", "c", "a", "b", "a"])
    groups = Groups.from_ids(ids)
    assert groups.count == 3
    assert groups.sizes.tolist() == [3, 2, 1]
    assert groups.order.tolist() == [1, 3, 5, 0, 4, 2]
    assert groups.owners().tolist() == [0, 0, 0, 1, 1, 2]
    chosen = groups.select(np.array([2, 0]))
    assert chosen.order.tolist() == [2, 1, 3, 5] and chosen.sizes.tolist() == [1, 3]
    assert groups.select(slice(1, 3)).order.tolist() == [0, 4, 2]
    assert groups.select(None) is groups


def test_means_are_of_own_rows_and_not_finite_rows_count_as_zero():
    rng = np.random.default_rng(0)
    ids = people(rng, 20, 6)
    rows = rng.standard_normal((len(ids), 4))
    groups = Groups.from_ids(ids)
    expected = [rows[ids == k].mean(axis=0) for k in range(20)]
    np.testing.assert_allclose(groups.means(rows[groups.order]), expected, atol=1e-15)
    broken = rows.copy()
    broken[3, 1], broken[7, 2] = np.nan, np.inf
    zeroed = rows.copy()
    zeroed[[3, 7]] = 0.0
    np.testing.assert_array_equal(
        groups.means(broken[groups.order]), groups.means(zeroed[groups.order])
    )
    huge = np.full((len(ids), 1), 1e308)
    assert np.isfinite(groups.means(huge)).all()


def others_replaced(rng, ids, kept):
    """New ids in which everybody but `kept` has another number of rows, elsewhere in the table."""
    others = people(rng, len(np.unique(ids)), 9)
    others = others[others != kept]
    missing = np.setdiff1d(np.unique(ids), [*np.unique(others), kept])
    pool = rng.permutation(np.concatenate([others, missing]))
    where = np.sort(rng.integers(0, len(pool) + 1, np.count_nonzero(ids == kept)))
    return np.insert(pool, where, kept)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_a_persons_mean_is_the_same_to_the_last_bit_in_any_company(geometry):
    rng = np.random.default_rng(1)
    count = 30 if geometry.separate_rows else 6  # which are slow: one person at a time
    ids = people(rng, count, 6)
    points = np.asarray(random_points(geometry, rng, len(ids)))
    point = np.asarray(random_points(geometry, rng, 1))[0]
    groups = Groups.from_ids(ids)
    means = local_means(geometry, points, groups)
    problem = GroupedProblem(CostProblem(HalfSquaredDistance(geometry), points), groups)
    gradients = problem.gradient_coordinates(point)
    for kept in rng.integers(0, count, 4 if geometry.separate_rows else 2):
        own = points[ids == kept]
        new_ids = others_replaced(rng, ids, kept)
        new_points = np.asarray(random_points(geometry, rng, len(new_ids)))
        new_points[new_ids == kept] = own
        new_groups = Groups.from_ids(new_ids)
        assert new_groups.count == count
        found = local_means(geometry, new_points, new_groups)
        np.testing.assert_array_equal(found[kept], means[kept])
        if not geometry.separate_rows:  # gradients are rounded together, as those of rows are
            continue
        problem = GroupedProblem(CostProblem(HalfSquaredDistance(geometry), new_points), new_groups)
        np.testing.assert_array_equal(problem.gradient_coordinates(point)[kept], gradients[kept])
        chosen = np.array([kept, (kept + 1) % count])
        np.testing.assert_array_equal(
            problem.gradient_coordinates(point, chosen)[0], gradients[kept]
        )


@pytest.mark.parametrize(
    "geometry", [Euclidean(3), Sphere(2), Hyperboloid(2), AffineInvariantSPD(3)], ids=str
)
def test_ten_steps_reach_the_local_mean(geometry):
    rng = np.random.default_rng(2)
    ids = np.repeat(np.arange(5), 8)
    coordinates = 0.4 * rng.standard_normal((40, geometry.dim)) / np.sqrt(geometry.dim)
    points = np.asarray(geometry.exp_coordinates(geometry.base_point, coordinates))
    means = local_means(geometry, points, Groups.from_ids(ids))
    for k in range(5):
        best = frechet_mean(points[ids == k], geometry, center=means[k])
        assert float(geometry.dist(best, means[k])) < 1e-8


def test_one_row_each_is_the_row_itself():
    rng = np.random.default_rng(3)
    points = np.asarray(random_points(Sphere(2), rng, 10))
    ids = rng.permutation(10)
    found = local_means(Sphere(2), points, Groups.from_ids(ids))
    np.testing.assert_allclose(found[ids], points, atol=1e-15)


@pytest.mark.parametrize("geometry", [Euclidean(2), Hyperboloid(2), Sphere(2)], ids=str)
def test_replacing_all_rows_of_a_person_moves_the_sum_by_no_more_than_a_row_could(geometry):
    # Search over persons with any rows of the ball; attained by persons whose rows are all equal.
    rng = np.random.default_rng(4)
    ball = GeodesicBall(geometry, geometry.base_point, 0.5)
    ids = np.repeat(np.arange(4), [3, 1, 7, 2])
    worst = 0.0
    direction = np.zeros(geometry.dim)
    direction[0] = 0.5
    for trial in range(60):
        coordinates = rng.standard_normal((13, geometry.dim))
        coordinates *= 2.0 * rng.uniform(size=(13, 1))
        other = coordinates.copy()
        if trial == 0:
            coordinates[ids == 2], other[ids == 2] = direction, -direction
        else:
            other[ids == 2] = 2.0 * rng.standard_normal((7, geometry.dim))
        point = np.asarray(
            geometry.exp_coordinates(ball.center, 0.3 * rng.standard_normal(geometry.dim))
        )
        point = ball.center if trial == 0 else point
        sums, bound = [], None
        for moved in (coordinates, other):
            records = np.asarray(geometry.exp_coordinates(ball.center, moved))
            problem, _ = FrechetProblem.from_records(ball, records)
            grouped = GroupedProblem(problem, Groups.from_ids(ids))
            bound = grouped.gradient_ball(point)
            sums.append(grouped.gradient_sum(point, bound))
        ratio = np.linalg.norm(sums[0] - sums[1]) / (2.0 * bound.radius)
        worst = max(worst, ratio)
    # On the sphere the proved ball is 4 % wider than the gradients at its centre are long.
    assert 0.95 <= worst <= 1.0 + 1e-9


def test_clipping_is_of_the_mean_and_not_of_the_rows():
    ids = np.repeat([0, 1], [2, 1])
    records = np.array([[6.0, 0.0], [-5.0, 0.0], [0.0, 3.0]])
    problem = CostProblem(HalfSquaredDistance(Euclidean(2)), records)
    grouped = GroupedProblem(problem, Groups.from_ids(ids))
    bound = grouped.gradient_ball(np.zeros(2)).clipped(1.0)
    np.testing.assert_allclose(grouped.gradient_sum(np.zeros(2), bound), [-0.5, -1.0])


# -- second moments, and other statistics of tables ------------------------------------------------


def by_person(rows, center, values):
    """Per-person values of `GroupedRows`, from tiles that come in the order of its factors."""
    found = [None] * rows.n
    tiles = list(values)
    for (chosen, _), tile in zip(rows._factors(center), tiles, strict=True):
        for k, value in zip(chosen, tile, strict=True):
            found[k] = value
    return found


@pytest.mark.parametrize("d", [1, 3, 20, 33])
def test_a_persons_matrix_is_the_same_to_the_last_bit_in_any_company(d):
    rng = np.random.default_rng(5)
    count, k = 40, min(2, d)
    ids = people(rng, count, 9)
    table, center = rng.standard_normal((len(ids), d)), rng.standard_normal(d)
    frame = np.linalg.qr(rng.standard_normal((d, k)))[0]
    lattice = IntegerMatrices(1.0, d, 2.0)

    def answers(table, ids):
        groups = Groups.from_ids(ids)
        rows, traces = GroupedRows(table, groups), GroupedRows(table, groups, by_trace=True)
        factors = by_person(rows, center, (f for _, f in rows._factors(center)))
        return {
            "norms": next(rows.squared_norms(center)),
            "traces": next(traces.squared_norms(center)),
            "means": rows.points.chunks,
            "factors": factors,
            "clipped": by_person(rows, center, rows.clipped(center, 1.0)),
            "products": by_person(rows, center, rows.products(center, 1.0, frame)),
            "integers": [lattice.integers(f[None]) for f in factors],
            "sparse": next(GroupedRows(csr_array(table), groups).squared_norms(center)),
        }

    first = answers(table, ids)
    for kept in rng.integers(0, count, 4):
        new_ids = others_replaced(rng, ids, kept)
        new_table = 3.0 * rng.standard_normal((len(new_ids), d))
        new_table[new_ids == kept] = table[ids == kept]
        for name, values in answers(new_table, new_ids).items():
            np.testing.assert_array_equal(values[kept], first[name][kept], err_msg=name)
        np.testing.assert_allclose(first["sparse"][kept], first["norms"][kept], rtol=1e-12)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_persons_gradient_and_weight_are_the_same_to_the_last_bit_in_any_company(n_outputs):
    rng = np.random.default_rng(6)
    count, p = 40, 7
    ids = people(rng, count, 9)
    table, dim = rng.standard_normal((len(ids), p)), 2
    weights, basis = rng.standard_normal((p + 1, n_outputs)), np.eye(p + 1)[:, :3]
    features = FeatureMap(p, 8, 1.0, 2.0, 10.0, 0)
    coef, query = rng.standard_normal((16, dim)), rng.standard_normal(p)
    model = WrappedModel(count, (16, dim), 1.0, 1, 1.0, 1.0, grouped=True)
    moments = LiftedMoments((16, dim), (1.0, 2.0), count, 1.0, grouped=True)

    def answers(table, ids):
        groups = Groups.from_ids(ids)
        # Labels are functions of the rows.
        y, labels = np.abs(np.floor(table[:, 0])) % max(n_outputs, 2), table[:, :dim] + 0.1
        rows = LinearRows(table, 1.0, intercept=True)
        loss = GeneralizedLinearLoss("log_loss", n_outputs)
        problem = GroupedLinearProblem(rows, y, loss, groups)
        inside = GroupedLinearProblem(rows.in_basis(basis, apart=True), y, loss, groups)
        phi = features(table, apart=True)
        lengths = np.linalg.norm(labels, axis=1)
        blocks = _people(phi, (labels / lengths[:, None]).T, lengths, groups)
        order = np.argsort(np.concatenate([c for c, _, _ in groups.blocks(4096)]))
        lifted = np.argsort(np.concatenate([c for c, _, _ in groups.blocks((1 << 20) // 18**2)]))
        kernel = KernelWeights(table, 1.0)(query)[0]
        factors = [f for block in moments.factors(phi, labels, groups) for f in block]
        return {
            "linear": np.concatenate(list(problem.gradients(weights))),
            "in a basis": np.concatenate(list(problem.gradients(weights, None, basis))),
            "in coordinates": np.concatenate(list(inside.gradients(weights[:3]))),
            "hyperbolic": np.concatenate(list(model.people_gradients(coef, blocks)))[order],
            "moments": [factors[k] for k in lifted],
            "kernel": [kernel[groups.select(np.array([k])).order] for k in range(count)],
        }

    first = answers(table, ids)
    for kept in rng.integers(0, count, 4):
        new_ids = others_replaced(rng, ids, kept)
        new_table = 3.0 * rng.standard_normal((len(new_ids), p))
        new_table[new_ids == kept] = table[ids == kept]
        for name, values in answers(new_table, new_ids).items():
            np.testing.assert_array_equal(values[kept], first[name][kept], err_msg=name)


def test_matrices_are_means_over_own_rows():
    rng = np.random.default_rng(7)
    ids, d, center = people(rng, 12, 30), 5, np.arange(5.0)
    table = center + rng.standard_normal((len(ids), d))
    rows = GroupedRows(table, Groups.from_ids(ids))
    frame = np.linalg.qr(rng.standard_normal((d, 2)))[0]
    z = [table[ids == k] - center for k in range(12)]
    matrices = np.stack([own.T @ own / len(own) for own in z])
    norms = np.linalg.norm(matrices, axis=(1, 2))
    np.testing.assert_allclose(next(rows.squared_norms(center)), norms, rtol=1e-12)
    traces = GroupedRows(table, Groups.from_ids(ids), by_trace=True)
    means = np.trace(matrices, axis1=1, axis2=2)
    np.testing.assert_allclose(next(traces.squared_norms(center)), means, rtol=1e-12)
    radius = np.median(norms) ** 0.5
    shortened = matrices * np.minimum(1.0, radius**2 / norms)[:, None, None]
    total = shortened.sum(axis=0)
    np.testing.assert_allclose(rows.clipped_gram(center, radius), total, atol=1e-12)
    gram, trace = rows.clipped_projected_gram(center, radius, frame, 1.5)
    np.testing.assert_allclose(gram, frame.T @ total @ frame, atol=1e-12)
    own = np.trace(shortened, axis1=1, axis2=2)
    assert trace == pytest.approx(np.minimum(own, 1.5).sum()) and own.max() > 1.5
    # Pairs of people: half the mean square of the differences of their rows.
    pairs = rows.pairs(0)
    order = public_generator(0, "pairs of records", 12).permutation(12)
    for value, one, two in zip(
        next(pairs.squared_norms(np.zeros(d))), order[:6], order[6:], strict=True
    ):
        gaps = (z[one][:, None] - z[two][None]).reshape(-1, d)
        assert value == pytest.approx(np.linalg.norm(gaps.T @ gaps / len(gaps) / 2))
    # Cosines of people k and k + 6.
    unit = matrices / norms[:, None, None]
    expected = [np.sum(unit[k] * unit[k + 6]) for k in range(6)]
    np.testing.assert_allclose(next(rows.squared_cosines(center, 6)), expected, rtol=1e-9)


def test_integer_matrices_keep_their_bound_whatever_the_rows_are():
    rng = np.random.default_rng(8)
    lattice = IntegerMatrices(1.0, 4, 30.0)
    for size in (1, 2, 3, 4, 9, 50):
        for scale in (1e-3, 1.0, 1e3, 1e80, 1e200):
            blocks = scale * rng.standard_normal((30, size, 4))
            blocks[0] = scale  # rows all alike
            rows = lattice.integers(blocks)
            for own in rows.reshape(30, -1, 4):
                matrix = own.T.astype(object) @ own.astype(object)
                matrix = [int(v) for v in np.ravel(matrix)]
                assert sum(v * v for v in matrix) <= lattice.longest**4
            if scale == 1e3:  # shortened to the radius, and not far below it
                norms = matrix_norms(rows.reshape(30, -1, 4)) * lattice.spacing**2
                np.testing.assert_allclose(norms, 1.0, atol=2e-5)
    # A factor that is too long counts for nothing, however it came about.
    lattice.__dict__["spacing"] = lattice.spacing / 1.1
    assert not lattice.integers(1e3 * rng.standard_normal((5, 3, 4))).any()


# -- searches for persons that move a sum as far as they can ---------------------------------------

SEARCHED = 400


def persons_of(rng, d, radius):
    """Rows of a person: from one to six, along few or many directions, short or long."""
    rows = rng.standard_normal((rng.integers(1, 7), d)) * rng.uniform(0.0, 1.0, d) ** 4
    if rng.random() < 0.3:
        rows = np.eye(d)[rng.integers(0, d, len(rows))]
    if rng.random() < 0.2:
        rows = rows[:1]
    return radius * rows * 10.0 ** rng.uniform(-1.0, 2.0)


def largest_move(statistic, d, radius, ends, seed=9):
    """Largest distance of the statistics of two persons, found by chance or at the `ends`."""
    rng = np.random.default_rng(seed)
    values = [statistic(persons_of(rng, d, radius)) for _ in range(SEARCHED)]
    values += [statistic(np.atleast_2d(end)) for end in ends]
    values = np.stack([np.ravel(v) for v in values])
    squares = np.sum(values**2, axis=1)
    return float(np.sqrt(np.max(squares[:, None] + squares[None] - 2.0 * values @ values.T)))


def alone(rows, by_trace=False):
    return GroupedRows(rows, Groups.from_ids(np.zeros(len(rows), dtype=int)), by_trace)


RADIUS, D = 0.7, 4
ORIGIN = np.zeros(D)
AXES = RADIUS * np.eye(D)
BOTH = [(AXES[0] + AXES[1]) / np.sqrt(2.0), (AXES[0] - AXES[1]) / np.sqrt(2.0)]
ALONG = np.array([1.0, 0.0, 0.0, 0.0])[:, None]


def residual_gradient(rows):
    problem = SubspaceProblem(Sphere(D - 1), alone(rows), ORIGIN, RADIUS)
    return problem.gradient_sum(ALONG[:, 0], problem.gradient_ball(ALONG[:, 0]))


def ambient_gradient(frame):
    def gradient(rows):
        problem = SubspaceProblem(Euclidean(*frame.shape), alone(rows), ORIGIN, RADIUS)
        ball = problem.gradient_ball(frame)
        total = problem.gradient_sum(frame, ball)
        bare = np.concatenate([problem.gradient_coordinates(frame, f) for f in problem.pieces()])
        np.testing.assert_allclose(total + ball.center, bare[0], atol=1e-12)  # nothing was cut
        return total

    return gradient


def product(frame):
    return lambda rows: next(alone(rows).products(ORIGIN, RADIUS, frame))


def lifted(rows):
    moments = LiftedMoments((2, 2), (RADIUS, RADIUS), 1, 1.0, scale=1.0, grouped=True)
    groups = Groups.from_ids(np.zeros(len(rows), dtype=int))
    return next(moments.averages(rows[:, :2], rows[:, 2:], groups))[0]


def queried(rows):
    """Density and products of a person in a weighted mean; the first number is the weight."""
    weights = np.exp(-(rows[:, 0] ** 2))
    vectors = rows[:, 1:]
    vectors = vectors * RADIUS / np.maximum(np.linalg.norm(vectors, axis=1), RADIUS)[:, None]
    return np.array([3**0.5 * RADIUS * weights.mean(), *(weights @ vectors / len(rows))])


PLANES = np.eye(D)[:, :2]
SUMS = {
    # name: (statistic, its bound, rows that attain it)
    "second moment": (
        lambda rows: alone(rows).clipped_gram(ORIGIN, RADIUS),
        second_moment_sensitivity(RADIUS),
        AXES[:2],
    ),
    "product with a vector": (
        product(ALONG),
        frame_product_sensitivity(RADIUS, 1),
        [AXES[0], AXES[1]],
    ),
    "product with a frame": (product(PLANES), frame_product_sensitivity(RADIUS, 2), AXES[:2]),
    "ball of products": (
        ambient_gradient(PLANES),
        ball_sensitivity(2.0 * product_ball(RADIUS, PLANES).radius),
        AXES[:2],
    ),
    "ambient gradient": (ambient_gradient(ALONG), ball_sensitivity(RADIUS**2), AXES[:2]),
    "gradient of a subspace": (residual_gradient, ball_sensitivity(RADIUS**2), BOTH),
    "trace, by trace": (
        lambda rows: sum(t.sum() for t in alone(rows, True).clipped_squares(ORIGIN, RADIUS)),
        interval_sensitivity(RADIUS**2),
        [AXES[0], ORIGIN],
    ),
    "trace": (
        lambda rows: sum(t.sum() for t in alone(rows).clipped_squares(ORIGIN, RADIUS)),
        interval_sensitivity(D**0.5 * RADIUS**2),
        [10.0 * AXES, ORIGIN],
    ),
    "moments and products": (
        lifted,
        second_moment_sensitivity(RADIUS * 2**0.5),
        [[RADIUS, 0, RADIUS, 0], [0, RADIUS, 0, RADIUS]],
    ),
    "weighted mean": (
        queried,
        weighted_sum_sensitivity(RADIUS),
        [[0, RADIUS, 0, 0], [0, -RADIUS, 0, 0]],
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_no_person_moves_a_sum_further_than_its_bound_and_some_do_as_far(name):
    statistic, bound, ends = SUMS[name]
    most = largest_move(statistic, D, RADIUS, ends)
    assert 0.98 * bound.value <= most <= bound.value * (1.0 + 1e-9)


def test_pure_noise_hides_every_person():
    # The parts above and below zero of the change of a matrix that the trace bounds.
    rng, bound = np.random.default_rng(10), trace_part_sensitivity(RADIUS, 1).value
    people = [persons_of(rng, D, RADIUS) for _ in range(60)] + [AXES[:1], AXES[1:2], AXES]
    matrices = [alone(rows, by_trace=True).clipped_gram(ORIGIN, RADIUS) for rows in people]
    parts = []
    for one in matrices:
        values = np.linalg.eigvalsh(np.stack(matrices) - one)
        parts.append(
            max(values.clip(0.0).sum(axis=1).max(), -values.clip(None, 0.0).sum(axis=1).min())
        )
    assert 0.98 * bound <= max(parts) <= bound * (1.0 + 1e-9)


def test_a_trace_without_its_own_bound_is_found():
    # As if the Frobenius norm bounded the trace: found by the same search.
    statistic, _, ends = SUMS["trace"]
    assert largest_move(statistic, D, RADIUS, ends) > 1.9 * RADIUS**2


CLASSES = 3


def class_rows(clip, weight):
    """Joint sums and counts of a person's classes, in units of the counts."""

    def statistic(person):
        rows, labels = person
        found = np.zeros((CLASSES, 3))
        weighted = _by_person(Groups.from_ids(np.zeros(len(rows), int)), rows, labels, CLASSES)
        vectors = clip(weighted.vectors / RADIUS)
        weights = weight(weighted.weights)
        found[weighted.labels] = (
            np.column_stack([vectors, np.ones(len(vectors))]) * weights[:, None]
        )
        return found

    return statistic


def apart(vectors):
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1), 1.0)[:, None]


def jointly(vectors):
    return vectors / max(np.linalg.norm(vectors) / len(vectors) ** 0.5, 1.0)


def most_of_classes(statistic):
    rng = np.random.default_rng(11)
    people = []
    for _ in range(SEARCHED):
        shown = rng.integers(1, CLASSES + 1)
        labels = rng.permutation(CLASSES)[:shown]
        rows = rng.choice([-1.0, 1.0], (shown, 1)) * [1.0, 0.0] if rng.random() < 0.5 else None
        rows = rng.standard_normal((shown, 2)) if rows is None else rows
        rows *= 10.0 ** rng.uniform(-2.0, 2.0, (shown, 1) if rng.random() < 0.5 else ())
        again = rng.integers(0, shown, 8)
        people.append(
            (np.concatenate([rows, rows[again]]), np.concatenate([labels, labels[again]]))
        )
    values = np.stack([np.ravel(statistic(person)) for person in people])
    squares = np.sum(values**2, axis=1)
    return float(np.sqrt(np.max(squares[:, None] + squares[None] - 2.0 * values @ values.T)))


def test_class_means_of_people_keep_their_bound_and_two_mutants_do_not():
    bound = sums_and_counts_sensitivity(1.0).value
    assert 0.98 * bound <= most_of_classes(class_rows(apart, lambda q: q)) <= bound
    # One clip for all classes together; and weight one in every class.
    assert most_of_classes(class_rows(jointly, lambda q: q)) > 1.05 * bound
    assert most_of_classes(class_rows(apart, np.ones_like)) > 1.5 * bound
