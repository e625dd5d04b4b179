"""The mean program on made-up answers: no path takes more than its rehearsal, and none fails."""

import numpy as np
import pytest

from skriemdp import PrivateFrechetMean
from skriemdp.curator.rehearsal import Rehearsal
from skriemdp.geometry import (
    SPD,
    BuresWassersteinSPD,
    Euclidean,
    GeodesicBall,
    Grassmann,
    Hyperboloid,
    LogEuclideanSPD,
    Product,
    Sphere,
    Stiefel,
)
from skriemdp.location_scale.points import plan_point_search
from skriemdp.mean.planning import plan_mean
from skriemdp.mechanisms.sum import Noisy
from skriemdp.privacy.calibration import gaussian_mu

SPACES = [
    Euclidean(1),
    Euclidean(20),
    SPD(3),
    LogEuclideanSPD(2),
    BuresWassersteinSPD(2),
    Sphere(2),
    Hyperboloid(3),
    Grassmann(5, 2),
    Stiefel(4, 2),
    Product(Sphere(2), SPD(2)),
]


class MadeUp(Rehearsal):
    """Answers from zero to a million times their noise; branches go by them, as in a fit."""

    def __init__(self, seed, *asked):
        super().__init__(*asked)
        self.draws = np.random.default_rng(seed)

    def whether(self, condition, dearest):
        return bool(condition)

    def _vector(self, shape, sigma):
        scale = sigma * 10.0 ** self.draws.uniform(-3.0, 6.0) * (self.draws.random() < 0.9)
        value = scale * self.draws.normal(size=shape)
        return Noisy(value if shape else float(value), sigma)

    def _quantile(self, give, quantile, label):
        return float(self.draws.choice(quantile.grid))


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("noise", ["auto", "gaussian"])
@pytest.mark.parametrize("place", ["public", "private"])
def test_no_path_takes_more_than_the_rehearsal(space, noise, place):
    for n in (150, 3000, 200_000):
        ball = GeodesicBall(space, None, min(1.0, 0.5 * space.radius_limit))
        known = {"ball": ball}
        if place == "private":
            known = {"search": plan_point_search(space, n, gaussian_mu(1.0, 1e-5))}
        program = plan_mean(space, n, 1.0, 1e-5, noise=noise, **known)
        most = {release.name: release.share for release in program.releases}
        assert sum(most.values()) <= 1.0 + 1e-12
        for seed in range(8):
            curator = MadeUp(seed, n, program.opening)
            found = program.run(curator)
            assert np.isfinite(found.mean).all() and bool(space.belongs(found.mean))
            taken = {release.name: release.share for release in curator.releases}
            assert taken.keys() <= most.keys()
            before = [name for name in taken if name != "mean"]
            assert all(taken[name] <= most[name] + 1e-12 for name in before)
            if program.law is None:
                assert taken["mean"] >= most["mean"] - 1e-12


def test_a_branch_that_names_its_cheap_side_is_found(monkeypatch):
    """What the test above asserts can fail."""
    monkeypatch.setattr(Rehearsal, "whether", lambda self, condition, dearest: not dearest)
    with pytest.raises(AssertionError):
        test_no_path_takes_more_than_the_rehearsal(Hyperboloid(3), "gaussian", "private")


def test_a_rehearsal_is_the_plan_of_a_fit():
    X = np.random.default_rng(0).normal(size=(500, 3))
    for settings in ({}, {"noise": "gaussian"}, {"center": np.zeros(3), "radius": 4.0}):
        planned = PrivateFrechetMean(**settings).plan(500, 3).releases
        fitted = PrivateFrechetMean(**settings).fit(X).privacy_spent_.public["releases"]
        assert tuple(planned) == tuple(fitted)
