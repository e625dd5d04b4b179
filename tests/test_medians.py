"""The private geometric median: what it finds, what it refuses, and what its bars rest on."""

import math

import numpy as np
import pytest

from skriemdp import PrivateFrechetMean, mean_test
from skriemdp._groups import Groups
from skriemdp._location_scale.points import PointRecords
from skriemdp._mean.median_releases import plan_median
from skriemdp._random import NoiseStreams
from skriemdp.geometry import AffineInvariantSPD, Euclidean, Hyperboloid, Sphere
from skriemdp.inference import MedianInference

# What the others lie on, how far out, and the spread of those at the base point.
SPACES = [
    (Euclidean(1), 1.0, 20.0),
    (AffineInvariantSPD(2), 0.4, 6.0),
    (Sphere(2), 0.3, 2.5),
    (Hyperboloid(2), 0.5, 6.0),
]


def contaminated(geometry, spread, far, share, n=3000):
    seen = np.random.default_rng(5).normal(size=(n, geometry.dim)) * spread
    seen[: int(share * n)] = far * np.eye(geometry.dim)[0]
    return np.asarray(geometry.exp_coordinates(geometry.base_point, seen))


def smoothed(geometry, point, points, smooth):
    """Mean of the directions at `point`, shorter where records are near."""
    seen = np.asarray(geometry.log_coordinates(point, points))
    return np.mean(seen / np.maximum(np.linalg.norm(seen, axis=1), smooth)[:, None], axis=0)


@pytest.mark.filterwarnings("ignore:random_state")
@pytest.mark.parametrize(("geometry", "spread", "far"), SPACES, ids=str)
def test_records_far_away_hardly_move_it(geometry, spread, far):
    X = contaminated(geometry, spread, far, 0.2)
    found = {}
    for statistic in ("mean", "median"):
        model = PrivateFrechetMean(geometry, statistic=statistic, random_state=0).fit(X)
        found[statistic] = float(geometry.dist(model.mean_, geometry.base_point))
    assert found["median"] < 0.6 * spread * math.sqrt(geometry.dim)
    assert found["mean"] > 1.2 * found["median"]
    assert np.linalg.norm(smoothed(geometry, model.mean_, X, 0.1 * spread)) < 0.05
    assert model.mechanism_ == "median"
    assert model.clipped_fraction_ == 0.0


def exact(geometry, point, points, smooth, n=None):
    """What would be released without noise."""
    seen = np.asarray(geometry.log_coordinates(point, points))
    lengths = np.linalg.norm(seen, axis=1, keepdims=True)
    ones = np.ones_like(lengths)
    roots = np.sqrt(np.minimum(1.0, smooth / lengths))
    bends = roots * np.concatenate([np.where(lengths > smooth, seen / lengths, 0.0), ones], axis=1)
    lifts = np.concatenate([seen / np.maximum(lengths, smooth), ones], axis=1)
    both = (np.einsum("ni,nj->ij", rows, rows) / len(points) for rows in (bends, lifts))
    second, first = both
    scale, n = float(np.median(lengths)), len(points)
    return MedianInference(geometry, point, scale, smooth, second, 0.0, first, 0.0, n)


@pytest.mark.parametrize(
    ("geometry", "within"),
    [(Euclidean(3), 1e-6), (Hyperboloid(2), 0.05), (Sphere(2), 0.05)],
    ids=str,
)
def test_second_derivatives_are_those_of_the_mean_distance(geometry, within):
    X = contaminated(geometry, 0.5 * np.array([1.0, 0.6, 0.3])[: geometry.dim], 1.0, 0.1)
    point, width = geometry.base_point, 1e-6
    known = exact(geometry, point, X, 0.2)
    for axis in np.eye(geometry.dim):
        ends = []
        for move in (width * axis, -width * axis):
            end = np.asarray(geometry.exp_coordinates(point, move))
            direction = geometry.tangent_from_coordinates(end, smoothed(geometry, end, X, 0.2))
            back = geometry.transport(end, point, direction)
            ends.append(np.asarray(geometry.coordinates_from_tangent(point, back)))
        slope = (ends[1] - ends[0]) / (2.0 * width)
        np.testing.assert_allclose(known.hessian @ axis, slope, atol=within * np.abs(slope).max())


def test_a_person_counts_as_much_as_a_record():
    geometry = Hyperboloid(2)
    X = contaminated(geometry, 0.5, 6.0, 0.1, n=200)
    plan = plan_median(geometry, 200, 0.5, None, "private")
    alone = plan.release(PointRecords(geometry, X), NoiseStreams(0, b"x"))[-1]
    groups = Groups.from_ids(np.repeat(np.arange(200), 3))
    thrice = PointRecords(geometry, np.repeat(X, 3, axis=0), groups=groups)
    owned = plan.release(thrice, NoiseStreams(0, b"x"))[-1]
    # Factors of people have a coarser lattice.
    np.testing.assert_allclose(owned.directions, alone.directions, atol=0.02)
    np.testing.assert_allclose(owned.mean, alone.mean, atol=0.1)


@pytest.mark.filterwarnings("ignore:random_state", "ignore:n=")
def test_it_stays_within_the_public_radius():
    globe = Sphere(2)
    X = contaminated(globe, 0.2, 2.0, 0.45, n=400)
    settings = {"statistic": "median", "center": -globe.base_point, "random_state": 0}
    for radius, most in ((0.2, 0.2), ("private", math.pi / 4)):
        model = PrivateFrechetMean(globe, radius=radius, **settings).fit(X)
        assert float(globe.dist(model.center_, model.mean_)) <= most + 1e-9
        assert model.privacy_spent_.public["n"] == 400


@pytest.mark.filterwarnings("ignore:random_state")
def test_bars_say_what_they_are_of():
    X = contaminated(Euclidean(2), 1.0, 9.0, 0.05)
    fits = [
        PrivateFrechetMean(statistic=s, uncertainty=True, random_state=0).fit(X[i::2])
        for i, s in enumerate(("median", "median"))
    ]
    text = str(fits[0].confidence_region())
    assert "geometric median of the population" in text
    assert "outside" not in text
    assert mean_test(*fits).pvalue > 1e-3
    assert mean_test(fits[0], popmean=[3.0, 0.0]).pvalue < 1e-3
    mean = PrivateFrechetMean(uncertainty=True, random_state=0).fit(X)
    with pytest.raises(ValueError, match="one statistic"):
        mean_test(mean, fits[0])
    with pytest.raises(AttributeError, match="noise_radius"):
        fits[0].noise_radius()


@pytest.mark.slow
def test_bars_hold_the_median():
    """At .95 fewer than 165 of 200 has a probability below 1e-9."""
    bounded_set = 0
    for run in range(200):
        X = np.random.default_rng(run).exponential(size=(1500, 2))
        model = PrivateFrechetMean(statistic="median", uncertainty=True).fit(X)
        bounded_set += bool(model.confidence_region().contains(MEDIAN_OF_EXPONENTIALS))
    assert bounded_set >= 165


# Of two independent exponentials: where the mean direction is zero, to four digits.
MEDIAN_OF_EXPONENTIALS = np.array([0.7687, 0.7687])


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"mechanism": "gradient"}, "leave mechanism='auto'"),
        ({"noise": "laplace"}, "noise='auto'"),
        ({"delta": 0.0}, "delta > 0"),
        ({"manifold": "spd-bures-wasserstein"}, "bounds the curvature"),
        ({"statistic": "mode"}, "'mean', 'median'"),
        ({"radius": -1.0}, "radius"),
    ],
)
def test_what_has_no_median_is_refused_before_the_charge(settings, match, recording_accountant):
    settings = {"manifold": "spd", "statistic": "median"} | settings
    X = np.tile(np.eye(2), (200, 1, 1))
    with pytest.raises(ValueError, match=match):
        PrivateFrechetMean(**settings, accountant=recording_accountant).fit(X)
    assert not recording_accountant.spends
