"""The search for centre and scale: its shares, what it finds, what it costs, hard cases."""

from __future__ import annotations

import dataclasses
import math
import types
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateGeodesicRegressor,
    PrivateHyperbolicRegressor,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateTangentClassifier,
)
from skriemdp._groups import Groups
from skriemdp._location_scale.points import (
    PointRecords,
    plan_point_search,
    radii,
    warn_direction,
)
from skriemdp._location_scale.row_releases import RowBounds, RowRecords, plan_row_search, shrunken
from skriemdp._location_scale.rows import Rows
from skriemdp._location_scale.search import (
    LocationScaleSearch,
    Shares,
    james_stein,
    search_shares,
)
from skriemdp._location_scale.start_releases import start_rule
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._mechanisms.quantile import (
    PrivateQuantile,
    log_grid,
    log_normal_weights,
    noisy_quantile,
)
from skriemdp._random import NoiseStreams
from skriemdp.auditing import audit_scores
from skriemdp.datasets import make_cloud
from skriemdp.geometry import (
    SPD,
    AffineInvariantSPD,
    BuresWassersteinSPD,
    Circle,
    Euclidean,
    Grassmann,
    Hyperboloid,
    LogEuclideanSPD,
    PlanarShapes,
    Product,
    Sphere,
    Stiefel,
    as_geometry,
)

SPACES = {
    "affine": (SPD(3), 3.0, 0.3),
    "log-euclidean": (LogEuclideanSPD(2), 3.0, 0.3),
    "bures": (BuresWassersteinSPD(3), 0.5, 0.2),
    "sphere": (Sphere(2), 2.5, 0.3),
    "large sphere": (Sphere(4, radius=100.0), 200.0, 20.0),
    "grassmann": (Grassmann(6, 2), 1.2, 0.2),
    "hyperplanes": (Grassmann(5, 4), 1.2, 0.2),
    "stiefel": (Stiefel(5, 2), 1.5, 0.2),
    "hyperboloid": (Hyperboloid(2, curvature=-4.0), 1.0, 0.2),
    "circle": (Circle(24.0), 10.0, 1.0),
    "euclidean": (Euclidean(3), 100.0, 20.0),
    "product": (Product(Sphere(2), SPD(2)), 1.5, 0.2),
}


def cloud(geometry, offset, spread, n=1000, seed=0):
    """Points of root-mean-square distance `spread` around one `offset` away from the base point."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=geometry.dim)
    center = geometry.exp_coordinates(geometry.base_point, u * (offset / np.linalg.norm(u)))
    steps = rng.normal(size=(n, geometry.dim)) * (spread / math.sqrt(geometry.dim))
    return np.asarray(center), np.asarray(geometry.exp_coordinates(center, steps))


def search(geometry, points, t, seed=0, **known):
    mu = t / len(points)
    plan = plan_point_search(geometry, len(points), mu, **known)
    budget = GaussianBudget(mu)
    found = plan.release(PointRecords(geometry, points), budget, NoiseStreams(seed))
    assert 1.0 - budget.remaining <= plan.shares.total * (1 + 1e-12)
    return found


# -- what it may spend ----------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(
    log_t=st.floats(-30.0, 30.0),
    name=st.sampled_from(sorted(SPACES)),
    center_known=st.booleans(),
    radius_known=st.booleans(),
)
def test_shares_leave_a_third_for_what_follows(log_t, name, center_known, radius_known):
    geometry = SPACES[name][0]
    n = 1000
    mu = math.exp(log_t) / n
    center = geometry.base_point if center_known else None
    if center_known and radius_known:
        return
    try:
        plan = plan_point_search(geometry, n, mu, center, 1.0 if radius_known else None)
    except ValueError as refusal:
        assert "exact integers" in str(refusal) and not 1e-8 < mu < 1e3
        return
    assert 0.0 < plan.shares.total < 0.67
    assert plan.mu_search <= mu
    assert 0.5 <= plan.level <= 0.997


def test_shares_beyond_the_budget_are_refused():
    with pytest.raises(ValueError, match="add up to 1.1"):
        Shares(start=0.5, radius=0.1, move=0.1, final=0.2, rounds=2)
    with pytest.raises(ValueError, match="add up to 1.1"):
        Shares(start=0.5, radius=0.1, move=0.1, final=0.1, rounds=1, max_far_steps=1, far_step=0.1)


def test_what_is_public_costs_nothing():
    whole = search_shares(100.0, start=0.03)
    assert search_shares(100.0, start=0.03, center_known=True).total == whole.final
    known = search_shares(100.0, start=0.03, radius_known=True)
    assert known.total == pytest.approx(whole.total - whole.final)


# -- what it finds (seeded: these pass always or never) -------------------------------------------


@pytest.mark.parametrize("name", SPACES)
def test_a_cloud_anywhere_is_found(name):
    geometry, offset, spread = SPACES[name]
    center, points = cloud(geometry, offset, spread)
    errors = []
    for seed in range(3):
        found = search(geometry, points, 200.0, seed)
        assert spread < found.radius < 3.0 * spread
        errors.append(float(geometry.dist(found.center, center)) / spread)
    assert np.median(errors) < 0.5


@pytest.mark.parametrize("n_mu", [99.0, 299.0])
def test_data_far_off_in_negative_curvature_are_reached_in_several_steps(n_mu):
    # Geodesics of this length that part by a tenth end eight radii of curvature apart.
    geometry, offset, spread = AffineInvariantSPD(6), 16.0, 0.6
    center, points = cloud(geometry, offset, spread)
    errors, spent, mu = [], [], n_mu / 1000
    plan = plan_point_search(geometry, 1000, mu)
    assert plan.shares.max_far_steps > 2
    assert plan.shares.far_step < plan.shares.move
    for seed in range(3):
        budget = GaussianBudget(mu)
        found = plan.release(PointRecords(geometry, points), budget, NoiseStreams(seed))
        errors.append(float(geometry.dist(found.center, center)) / spread)
        spent.append(1.0 - budget.remaining)
    assert np.median(errors) < 2.0  # it was 25 where every step went as far as noise told it to
    assert max(spent) <= plan.shares.total * (1 + 1e-12)
    # Data at hand need no further steps, and leave their shares.
    budget = GaussianBudget(mu)
    near = cloud(geometry, 0.5, spread)[1]
    plan.release(PointRecords(geometry, near), budget, NoiseStreams(0))
    max_far_steps = plan.shares.max_far_steps * (plan.shares.far_radius + plan.shares.far_step)
    max_far_steps += plan.shares.radius + plan.shares.move
    assert 1.0 - budget.remaining <= plan.shares.total - max_far_steps + 1e-12


@pytest.mark.parametrize("unit", [1e-12, 1e6])
@pytest.mark.parametrize("kind", [AffineInvariantSPD, LogEuclideanSPD, BuresWassersteinSPD])
def test_the_unit_of_matrices_does_not_matter(kind, unit):
    geometry = kind(3)
    center, points = cloud(geometry, 0.5, 0.2)
    length = math.sqrt(unit) if kind is BuresWassersteinSPD else 1.0
    for seed in range(3):
        found = search(geometry, unit * points, 200.0, seed)
        # Cheap rounds of flat spaces leave a centre that is rougher than others.
        most = 0.15 if geometry.is_flat else 0.08
        assert float(geometry.dist(found.center, unit * center)) < most * length
        assert 0.2 < found.radius / length < 0.4


def test_a_public_centre_or_radius_is_kept():
    geometry, points = Hyperboloid(2), cloud(Hyperboloid(2), 1.0, 0.2)[1]
    found = search(geometry, points, 200.0, center=geometry.base_point)
    assert np.array_equal(found.center, geometry.base_point) and 1.0 < found.radius < 2.0
    assert search(geometry, points, 200.0, radius=0.75).radius == 0.75


def test_the_radius_holds_what_it_should():
    """Extrapolated from the median or so, for Gaussian clouds, to the level that was wanted."""
    for dim in (2, 20):
        geometry = Euclidean(dim)
        points = np.random.default_rng(dim).normal(size=(2000, dim))
        for t in (40.0, 150.0):
            bounded_set = []
            for seed in range(12):
                found = search(geometry, points, t, seed, center=geometry.base_point)
                bounded_set.append(
                    np.mean(np.linalg.norm(points, axis=1) <= found.radius) - found.level
                )
            assert abs(np.median(bounded_set)) < 0.1


def test_a_radius_is_as_often_too_small_as_too_large():
    """Over 200 seeds the median ratio to the exact quantile is within three per cent of one."""
    geometry = Euclidean(1)
    values = np.random.default_rng(0).normal(size=(4000, 1))
    exact = np.quantile(np.abs(values), 0.98)
    plan = plan_point_search(geometry, 4000, 1.0, center=np.zeros(1))
    assert plan.level == 0.997 and plan._resolved(plan.shares.final) == 0.98
    ratios = []
    for seed in range(200):
        unit = 1.1 ** (seed / 200.0)  # everywhere between two values of the grid
        found = search(geometry, unit * values, 4000.0, seed, center=np.zeros(1))
        ratios.append(found.radius / (unit * exact))
    assert abs(np.median(ratios) / plan._widened(1.0, 0.98, 0.0) - 1.0) < 0.03


def test_noise_of_the_centre_is_not_widened():
    plan = plan_point_search(Euclidean(4), 100, 0.5)
    assert plan._widened(1.0, 0.5, 0.5) == 1.0  # distances are all noise
    assert plan._widened(1.0, 0.5, 0.0) > plan._widened(1.0, 0.5, 0.3) > 1.0


def wide_directions(n=3000, kappa=1.4, seed=0):
    """Von Mises and Fisher's law around the first axis."""
    rng = np.random.default_rng(seed)
    u = rng.random(n)
    w = 1.0 + np.log(u + (1.0 - u) * math.exp(-2.0 * kappa)) / kappa
    angle = 2.0 * math.pi * rng.random(n)
    r = np.sqrt(1.0 - w * w)
    return np.stack([w, r * np.cos(angle), r * np.sin(angle)], axis=1)


def test_directions_too_wide_for_a_ball():
    points = wide_directions()
    found = search(Sphere(2), points, 300.0)
    assert Sphere(2).radius_limit < found.radius <= math.pi
    assert float(Sphere(2).dist(found.center, np.eye(3)[0])) < 0.2
    assert abs(found.length - np.linalg.norm(points.mean(axis=0))) < 0.1
    narrow = search(Sphere(2), cloud(Sphere(2), 1.0, 0.3)[1], 300.0)
    assert narrow.radius < Sphere(2).radius_limit
    assert search(SPD(2), cloud(SPD(2), 1.0, 0.3)[1], 300.0).length is None


def test_subspaces_a_little_wider_than_a_ball_are_kept_in_one():
    geometry = Grassmann(8, 2)
    limit = geometry.radius_limit
    radii_found = [
        search(geometry, cloud(geometry, 0.5, spread)[1], 1000.0).radius / limit
        for spread in (0.2, 0.65, 1.3)
    ]
    assert radii_found[0] < 0.9
    assert radii_found[1] == pytest.approx(0.999)
    assert radii_found[2] > 1.4


def test_antipodal_halves_give_a_point_and_a_warning():
    points = np.tile(np.eye(3)[0], (200, 1))
    points[::2] *= -1.0
    found = search(Sphere(2), points, 100.0)
    assert np.isfinite(found.center).all() and found.direction < 1.5
    with pytest.warns(UserWarning, match="no direction stands out"):
        warn_direction(found)


def test_a_clear_direction_gives_no_warning():
    found = search(Sphere(2), cloud(Sphere(2), 1.0, 0.3)[1], 200.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_direction(found)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("n", [2, 50])
def test_equal_records_and_few_records_are_no_errors(name, n):
    geometry, offset, spread = SPACES[name]
    center, _ = cloud(geometry, offset, spread, n=1)
    points = np.broadcast_to(center, (n, *geometry.shape)).copy()
    for t in (1e-3, 5.0, 1000.0):
        found = search(geometry, points, t)
        assert bool(geometry.belongs(found.center)) and 0.0 < found.radius < math.inf


@pytest.mark.parametrize("geometry", [SPD(2), LogEuclideanSPD(2), Hyperboloid(2), Euclidean(2)])
def test_a_few_records_far_away_do_not_spoil_a_search(geometry):
    far = {Hyperboloid(2): 30.0, Euclidean(2): 1e9}.get(geometry, 100.0)
    center, points = cloud(geometry, 1.0, 0.3)
    steps = np.zeros((30, geometry.dim))
    steps[:, 0] = far
    points[:30] = geometry.exp_coordinates(center, steps)
    errors = [
        float(geometry.dist(search(geometry, points, 200.0, s).center, center)) for s in range(5)
    ]
    assert np.median(errors) < 0.15


def test_a_logarithm_that_is_not_finite_counts_as_zero():
    points = cloud(Euclidean(2), 0.0, 1.0, n=400)[1]
    spoiled = points.copy()
    spoiled[0] = np.nan
    found = search(Euclidean(2), spoiled, 200.0)
    assert np.isfinite(found.center).all() and found.radius < 4.0


def test_rotations_start_from_the_nearest_rotation():
    manifolds = pytest.importorskip("pymanopt.manifolds")
    geometry = as_geometry(manifolds.SpecialOrthogonalGroup(3))
    rng = np.random.default_rng(0)
    middle = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    middle *= np.sign(np.linalg.det(middle))
    steps = 0.1 * rng.normal(size=(60, 3))
    points = np.stack([geometry.exp_coordinates(middle, step) for step in steps])
    rule = start_rule(geometry, len(points), 10.0 / len(points))
    assert rule.share == 0.25 and start_rule(geometry, len(points), 1e3).share == 0.03
    start = rule.release(PointRecords(geometry, points), GaussianBudget(8.0), NoiseStreams(0))
    assert np.linalg.det(start.center) == pytest.approx(1.0)
    assert np.linalg.norm(start.center - middle) < 0.5
    # As many reflections: the mean's polar factor is no rotation, and its nearest rotation is.
    start = rule.release(PointRecords(geometry, -points), GaussianBudget(8.0), NoiseStreams(0))
    assert np.linalg.det(start.center) == pytest.approx(1.0)


@pytest.mark.parametrize("geometry", [space[0] for space in SPACES.values()], ids=list(SPACES))
def test_radii_are_public_and_below_the_limit(geometry):
    public = radii(geometry)
    compact = isinstance(geometry, Sphere | Circle | Grassmann)
    assert compact or public.limit < geometry.radius_limit or geometry.radius_limit == math.inf
    if compact:  # no two points are farther from each other than the limit
        steps = 9.0 * np.random.default_rng(0).standard_normal((200, geometry.dim))
        steps *= public.limit / 3.0
        points = np.asarray(geometry.exp_coordinates(geometry.base_point, steps))
        farthest = max(np.asarray(geometry.dist(point, points)).max() for point in points)
        assert 0.5 * public.limit < farthest <= public.limit * (1.0 + 1e-9)
    assert public.median is None or public.grid[0] < public.median < public.grid[-1]


# -- priors of a quantile -------------------------------------------------------------------------


def test_a_prior_decides_where_counts_say_nothing():
    grid = log_grid(1e-3, 1e3, 1.1)
    prior = log_normal_weights(grid, 5.0, 0.5)
    quantile = PrivateQuantile(grid, 0.5, 1e-6, prior)
    found = quantile.release(np.full(100, 1e-2), np.random.default_rng(0), 20)
    # Five standard deviations of the prior.
    assert (np.abs(np.log(found / 5.0)) < 2.5).all()


@pytest.mark.parametrize("prior", [(0.0,), (0.0, math.nan), (0.0, -math.inf)])
def test_a_prior_must_fit_the_grid(prior):
    with pytest.raises(ValueError, match="log_normal_weights"):
        PrivateQuantile((1.0, 2.0), 0.5, 1.0, prior)


# -- starts from projectors -----------------------------------------------------------------------


@pytest.mark.parametrize("geometry", [Grassmann(5, 2), Grassmann(5, 4)], ids=str)
def test_a_start_is_the_leading_subspace_of_a_noisy_mean_of_projectors(geometry):
    """Noise of a thousandth, far below what a wrong weight of a diagonal would turn."""
    rng = np.random.default_rng(0)
    around = np.linalg.qr(rng.normal(size=(5, geometry.p)))[0]
    points = np.linalg.qr(around + 0.5 * rng.normal(size=(40, 5, geometry.p)))[0]
    people = Groups.from_ids(np.repeat(np.arange(14), [3] * 13 + [1]))
    shares = 1.0 / np.repeat(people.sizes, people.sizes)
    for groups, weights in ((None, np.ones(40)), (people, shares)):
        n = len(points) if groups is None else groups.count
        rule = dataclasses.replace(start_rule(geometry, n, 500.0), share=1.0)
        records = PointRecords(geometry, points, groups=groups)
        start = rule.release(records, GaussianBudget(500.0), NoiseStreams(0))
        mean = np.average(points @ points.transpose(0, 2, 1), axis=0, weights=weights)
        leading = np.linalg.eigh(mean)[1][:, 5 - geometry.p :]
        assert float(geometry.dist(start.center, leading)) < 0.01
        assert start.direction > 100.0


@pytest.mark.parametrize(
    "geometry",
    [Sphere(2), Circle(1.0), Grassmann(5, 2), PlanarShapes(4), Product(Sphere(2), Circle(1.0))],
    ids=str,
)
def test_a_start_is_refused_where_integers_are_too_coarse(geometry):
    rule = start_rule(geometry, 100, 1.0)
    rule.check(1e-5)
    with pytest.raises(ValueError, match="use a larger epsilon"):
        rule.check(1e-12)


# -- audits: 1 - 1e-8 confidence, so a false alarm once in 1e8 runs -------------------------------

MU = 2.0


def start_scores(geometry, points, direction, trials=500):
    rule = dataclasses.replace(start_rule(geometry, len(points), MU), share=1.0)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        draw = noise.draw

        def watched(exact, *arguments, **settings):
            noisy = draw(exact, *arguments, **settings)
            seen.append(float(np.ravel(np.asarray(noisy, dtype=float)) @ direction))
            return noisy

        patch.setattr(noise, "draw", watched)
        for _ in range(trials):
            rule.release(PointRecords(geometry, points), GaussianBudget(MU), NoiseStreams())
    return np.array(seen)


def packed(matrix):
    rows, columns = np.tril_indices(len(matrix))
    return (matrix * np.where(np.eye(len(matrix)), 1.0, math.sqrt(2.0)))[rows, columns]


STARTS = {
    "sphere": (Sphere(2), np.eye(3)[0], -np.eye(3)[0], np.eye(3)[0]),
    "stiefel": (Stiefel(3, 2), np.eye(3, 2), -np.eye(3, 2), np.eye(3, 2).ravel()),
    "grassmann": (
        Grassmann(4, 2),
        np.eye(4)[:, :2],
        np.eye(4)[:, 2:],
        packed(np.diag([1.0, 1.0, -1.0, -1.0])),
    ),
}


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("halved", [False, True], ids=["as shipped", "halved noise"])
@pytest.mark.parametrize("name", STARTS)
def test_audit_of_a_start_at_opposite_records(name, halved, monkeypatch):
    geometry, one, other, direction = STARTS[name]
    if halved:
        integers = noise._integers
        monkeypatch.setattr(noise, "_integers", lambda *args: integers(*args) // 2)
    points = np.stack([one] * 6)
    neighbour = points.copy()
    neighbour[0] = other
    sides = (
        -start_scores(geometry, points, direction),
        -start_scores(geometry, neighbour, direction),
    )
    audit = audit_scores(*sides, delta=1e-3, confidence=1 - 1e-8, tuning_share=0.2)
    assert (audit.mu > MU) == halved
    assert audit.mu > 0.4 * MU


@pytest.mark.slow
@pytest.mark.parametrize("name", ["affine", "sphere", "grassmann", "hyperboloid"])
def test_audit_of_a_whole_search(name):
    """One record at either end of the data: centre and radius tell less than mu."""
    geometry, _, spread = SPACES[name]
    ends = np.zeros((2, geometry.dim))
    ends[:, 0] = [3.0 * spread, -3.0 * spread]
    ends = np.asarray(geometry.exp_coordinates(geometry.base_point, ends))
    rest = cloud(geometry, 1e-3, 0.3 * spread, n=11)[1]
    scores = []
    for end in ends:
        points = np.concatenate([end[None], rest])
        plan = plan_point_search(geometry, 12, MU)
        side = []
        for _ in range(100):
            records = PointRecords(geometry, points)
            found = plan.release(records, GaussianBudget(MU), NoiseStreams())
            side.append(-float(geometry.log_coordinates(geometry.base_point, found.center)[0]))
        scores.append(np.array(side))
    audit = audit_scores(*scores, delta=1e-3, confidence=1 - 1e-8, tuning_share=0.2)
    assert audit.mu <= plan.mu_search


# -- class means in a ball of their own -----------------------------------------------------------


def labelled(geometry, n=900, seed=0):
    center, points = cloud(geometry, 2.0, 0.3, n=n, seed=seed)
    y = np.arange(n) % 3
    steps = np.zeros((n, geometry.dim))
    steps[:, 0] = 0.6 * (y - 1)
    steps += 0.15 * np.random.default_rng(seed).normal(size=steps.shape)
    return np.asarray(geometry.exp_coordinates(center, steps)), y


@pytest.mark.parametrize("unit", [1e-12, 1.0])
def test_class_means_need_no_ball(unit):
    X, y = labelled(SPD(2))
    model = PrivateMinimumDistanceToMean("spd", classes=range(4), epsilon=3.0, random_state=0)
    model.fit(unit * X, y)
    assert model.score(unit * X, y) > 0.9
    assert 0.5 < model.radius_ < 2.0 and model.clipped_fraction_ < 0.2
    assert model.means_.shape == (4, 2, 2)  # a class without records, too
    assert np.isfinite(model.means_).all() and model.class_counts_[3] < 50
    assert "center" not in model.privacy_spent_.public
    assert "radius" not in model.privacy_spent_.public


def test_class_means_of_wide_directions():
    X = wide_directions(3000)
    y = (X[:, 1] > 0).astype(int)
    model = PrivateMinimumDistanceToMean("sphere", classes=[0, 1], epsilon=5.0, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.9
    assert Sphere(2).radius_limit < model.radius_ <= math.pi


def test_labels_do_not_enter_the_search():
    X, y = labelled(SPD(2))
    centers = set()
    for labels in (y, np.zeros_like(y)):
        plan = PrivateMinimumDistanceToMean("spd", classes=range(3))
        data = plan._validate(X, labels)
        settings_ = plan._plan(data.facts, plan._terms(plan._accountant())).settings
        found = settings_.search.release(
            PointRecords(settings_.geometry, data.arrays[0]),
            GaussianBudget(settings_.search.mu),
            NoiseStreams(0),
        )
        centers.add(found.center.tobytes())
    assert len(centers) == 1


def test_a_number_still_means_a_public_ball():
    X, y = labelled(SPD(2))
    model = PrivateMinimumDistanceToMean("spd", center=np.eye(2), radius=4.0, classes=range(3)).fit(
        X, y
    )
    assert np.array_equal(model.center_, np.eye(2)) and model.radius_ == 4.0
    assert model.privacy_spent_.public["radius"] == 4.0


def test_a_ball_beside_the_data_is_reported():
    X, y = labelled(SPD(2))
    model = PrivateMinimumDistanceToMean(
        "spd", center=np.eye(2), radius=0.1, classes=range(3), epsilon=5.0
    )
    with pytest.warns(UserWarning, match="lie outside the ball"):
        model.fit(X, y)
    assert model.clipped_fraction_ > 0.9


@pytest.mark.parametrize("ball", [{}, {"center": "private", "radius": 1.0}, {"center": np.eye(2)}])
def test_pure_class_means_name_what_is_missing(ball, recording_accountant):
    X, y = labelled(SPD(2))
    model = PrivateMinimumDistanceToMean(
        "spd", classes=range(3), delta=0.0, accountant=recording_accountant, **ball
    )
    with pytest.raises(ValueError, match="center= and radius="):
        model.fit(X, y)
    assert recording_accountant.spends == []
    model.set_params(center=np.eye(2), radius=4.0).fit(X, y)
    assert 0.0 <= model.clipped_fraction_ <= 1.0


def test_few_records_for_a_private_ball_are_warned_of():
    X, y = labelled(SPD(2), n=30)
    model = PrivateMinimumDistanceToMean("spd", classes=range(3))
    with pytest.warns(UserWarning, match=r"n mu = 8\.\d"):
        model.fit(X, y)


def test_make_cloud_is_found_on_a_sphere():
    points = make_cloud(Sphere(2), 500, radius=0.3, rng=np.random.default_rng(0))
    assert search(Sphere(2), points, 200.0).radius < 0.6


# -- what a search leaves ------------------------------------------------------------------------


HUGE = np.geomspace(4e5, 1.2e7, 12)
LABELLED = np.random.default_rng(0).normal(size=(60, 3))
SEARCHING = {
    "covariance": (PrivatePrincipalEigenvector(mechanism="covariance"), None),
    "centred": (PrivatePrincipalEigenvector(mechanism="covariance", center="assume"), None),
    "refine": (PrivatePrincipalEigenvector(mechanism="refine", n_components=2), None),
    "linear": (PrivateNoisyAdaGrad(n_steps=3), (LABELLED[:, 0] > 0) * 1),
    "parametric": (PrivateHyperbolicRegressor(n_steps=3), 0.3 * LABELLED[:, :2]),
    "moments": (PrivateHyperbolicRegressor("sufficient-statistics"), 0.3 * LABELLED[:, :2]),
    "mean": (PrivateFrechetMean(), None),
    "classes": (PrivateMinimumDistanceToMean(), (LABELLED[:, 0] > 0) * 1),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", SEARCHING)
def test_integers_are_checked_with_all_that_a_search_may_leave(name):
    """At epsilons so large that a record needs more bits than integers have, nothing is charged."""
    model, y = SEARCHING[name]
    refused = 0
    for epsilon in HUGE:
        budget = PrivacyAccountant()
        fit = clone(model).set_params(epsilon=float(epsilon), accountant=budget)
        try:
            fit.fit(LABELLED, y)
        except ValueError as error:
            assert "exact integers" in str(error)
            assert len(budget.history) == 0
            refused += 1
    assert refused > 0


def test_how_a_mean_is_shrunk_is_planned():
    plain = plan_row_search(500, 4, 1.0)
    table = RowBounds(500, 4, 1.0).search
    assert plain.shrink is james_stein and table.shrink is shrunken
    assert type(plain) is type(table) is LocationScaleSearch
    rng = np.random.default_rng(0)
    X = np.zeros((500, 4)) + [5.0, 0.0, 0.0, 0.0] + 0.01 * rng.normal(size=(500, 4))
    found = {}
    for shrink in (james_stein, shrunken, lambda mean, sigma: (0.0 * mean, 0.0)):
        search = dataclasses.replace(plain, shrink=shrink)
        budget, streams = GaussianBudget(1.0), NoiseStreams(0)
        found[shrink] = search.release(RowRecords(Rows(X, 500, 4)), budget, streams).center
    one, two, none = found.values()
    assert not np.array_equal(one, two) and not none.any()


def test_james_and_stein_keep_what_noise_does_not_explain():
    mean = np.array([3.0, 0.0, 4.0])
    kept, noise = james_stein(mean, 1.0)
    np.testing.assert_allclose(kept, (1.0 - 1.0 / 25.0) * mean)
    assert noise == pytest.approx(math.sqrt(24.0 / 25.0))
    assert james_stein(mean, 10.0)[1] == 0.0 and not james_stein(mean, 10.0)[0].any()
    for same in (np.array([1.0, 2.0]), np.zeros(5)):
        assert james_stein(same, 3.0)[0] is same and james_stein(same, 3.0)[1] == 3.0


@pytest.mark.parametrize("ends", [(), (1,), (3, 4), (0, 2, 5), (1, 2, 3, 4, 5, 6)])
def test_distances_are_counted_the_same_in_one_tile_or_several(ends):
    """Also those at a value of the grid, beyond all of them, none, zero, and no number."""
    distances = np.array([0.5, 3.0, 0.0, 4.0, np.inf, 1.0, 1.5, np.nan])
    asked = types.SimpleNamespace(release_counts=lambda counts, n, rng: counts)
    budget = types.SimpleNamespace(quantile=lambda *_: asked)
    grid = np.array([0.5, 1.0, 2.0, 4.0])
    found = noisy_quantile(budget, 0.1, "", grid, 0.5, np.split(distances, ends), 8, None)
    assert (found * math.sqrt(2.0)).tolist() == pytest.approx([2, 3, 4, 6])


def test_distances_that_are_not_kept_are_asked_of_each_record_alone(monkeypatch):
    """On a geometry whose rows may depend, in their last bits, on the rows beside them."""
    geometry, asked = Sphere(2), []
    points = make_cloud(geometry, 7, radius=0.3, rng=np.random.default_rng(0))
    monkeypatch.setattr(Sphere, "separate_rows", False)
    dist = type(geometry).dist

    def recorded(self, point, others):
        asked.append(len(others))
        return dist(self, point, others)

    monkeypatch.setattr("skriemdp._location_scale.points._KEPT_BYTES", 0)
    monkeypatch.setattr(type(geometry), "dist", recorded)
    (found,) = PointRecords(geometry, points).distances(geometry.base_point)
    assert found.shape == (7,) and asked == [1] * 7


def test_logarithms_of_log_euclidean_matrices_are_taken_once(monkeypatch):
    geometry, seen = LogEuclideanSPD(3), []
    points = make_cloud(geometry, 50, radius=1.0, rng=np.random.default_rng(0))
    centers = geometry.base_point, points[0]
    expected = [np.asarray(geometry.log_coordinates(center, points)) for center in centers]
    eigh = np.linalg.eigh

    def counted(matrices):
        seen.extend([0] * len(matrices) if matrices.ndim == 3 else [])
        return eigh(matrices)

    monkeypatch.setattr(np.linalg, "eigh", counted)
    records = PointRecords(geometry, points)
    for center, rows in zip(centers, expected, strict=True):
        (lengths,) = records.distances(center)
        np.testing.assert_array_equal(records.coordinates(center), rows)
        np.testing.assert_allclose(lengths, np.linalg.norm(rows, axis=1))
    assert len(seen) == len(points)


def test_lengths_are_distances_and_keep_nothing():
    geometry = SPD(3)
    points = np.stack([np.diag([1.0, 2.0, 3.0 + k]) for k in range(5)])
    records = PointRecords(geometry, points)
    (near,) = records.distances(geometry.base_point)
    found, kept = records.lengths(points[1]), records.coordinates(geometry.base_point)
    assert kept is not None and records.lengths(geometry.base_point) is near
    np.testing.assert_allclose(found, next(records.distances(points[1])), rtol=1e-12, atol=1e-12)


# -- far from the origin --------------------------------------------------------------------------

FAR = {
    "mean": PrivateFrechetMean("euclidean", random_state=0),
    "mean, Gaussian noise": PrivateFrechetMean("euclidean", noise="gaussian", random_state=0),
    "bars": PrivateFrechetMean("euclidean", uncertainty=True, random_state=0),
    "median": PrivateFrechetMean("euclidean", statistic="median", random_state=0),
    "people": PrivateFrechetMean("euclidean", random_state=0),
    "class means": PrivateMinimumDistanceToMean(classes=[0, 1], random_state=0),
    "log loss": PrivateNoisyAdaGrad(classes=[0, 1], random_state=0),
    "huber": PrivateNoisyAdaGrad("huber", random_state=0),
    "geodesic": PrivateGeodesicRegressor("euclidean", random_state=0),
    "tangent classifier": PrivateTangentClassifier("euclidean", classes=[0, 1], random_state=0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("offset", [10.0, -1e3, 1e5, -1e7])
@pytest.mark.parametrize("name", FAR)
def test_results_depend_on_no_offset(name, offset):
    """Seeded noise: nothing is left to chance."""
    rng = np.random.default_rng(3)
    Z, model = rng.normal(size=(2000, 3)), clone(FAR[name])
    X, target = Z + offset * np.array([1.0, -0.5, 0.25]), Z[:, 0] + 0.1 * rng.normal(size=2000)
    if name in ("class means", "log loss", "tangent classifier"):
        assert model.fit(X, target > 0.0).score(X, target > 0.0) > 0.92
    elif name in ("huber", "geodesic"):
        y = (target + offset)[:, None] if name == "geodesic" else target + offset
        assert np.mean((model.fit(X, y).predict(X) - y) ** 2) < 0.1
    else:
        groups = np.arange(2000) // 2 if name == "people" else None
        assert np.linalg.norm(model.fit(X, groups=groups).mean_ - X.mean(axis=0)) < 0.2
