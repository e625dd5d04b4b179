"""The Poincare ball: 60 digits, its rim, and the hyperboloid."""

import math

import mpmath
import numpy as np
import pytest
from conftest import random_points
from numpy.testing import assert_allclose

from skriemdp.geometry import Hyperboloid, Poincare


def poincare_dist(x, y):
    x, y = [mpmath.mpf(float(a)) for a in x], [mpmath.mpf(float(a)) for a in y]
    chord = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    gap = (1 - sum(a * a for a in x)) * (1 - sum(b * b for b in y))
    return 2 * mpmath.asinh(mpmath.sqrt(chord / gap))


@pytest.mark.parametrize("far", [1e-12, 1.0, 5.0, 12.0, 18.0])
def test_poincare_dist_and_log_against_mpmath(far, rng):
    mpmath.mp.dps = 60
    disk = Poincare(3)
    for _ in range(5):
        u, w = rng.normal(size=(2, 3))
        x = math.tanh(far / 2) * u / np.linalg.norm(u)
        y = math.tanh(rng.uniform(0, min(far, 3)) / 2) * w / np.linalg.norm(w)
        exact = poincare_dist(x, y)
        # |x| is only known within one ulp, which moves the point by ulp * cosh(r)^2.
        tolerance = 1e-15 + 4e-16 * math.cosh(far / 2) ** 2
        assert abs(disk.dist(x, y) / exact - 1) < tolerance
        assert abs(disk.norm(x, disk.log(x, y)) / exact - 1) < tolerance
        end = disk.exp(x, disk.log(x, y))
        # One ulp of the direction at x moves the end by ulp * sinh(distance).
        assert disk.dist(end, y) < 1e-14 * (math.exp(far) + math.sinh(exact))


def test_poincare_degenerate_input_is_exact():
    disk = Poincare(2)
    zero, x = np.zeros(2), np.array([0.3, -0.4])
    edge = np.array([1.0, 0.0])
    assert np.all(disk.log(zero, zero) == 0) and np.all(disk.log(x, x) == 0)
    assert np.all(disk.transport(x, x, x) == x)
    assert not disk.belongs(edge) and not disk.belongs(2 * edge)
    far = disk.exp(zero, np.array([1e6, 0.0]))
    assert disk.belongs(far) and 34 < disk.dist(zero, far) < 35
    for vector in (np.array([-1e300, 0.0]), np.array([0.0, 1e300]), zero):
        for point in (far, zero, x):
            end = disk.exp(point, vector)
            assert np.all(np.isfinite(end)) and disk.belongs(end)
    assert np.all(np.isfinite(disk.log(far, -far)))
    assert np.all(np.isfinite(disk.transport(far, -far, x)))


@pytest.mark.parametrize("curvature", [-1.0, -0.3])
def test_poincare_and_hyperboloid_are_isometric(curvature, rng):
    ball, sheet = Poincare(3, curvature), Hyperboloid(3, curvature)
    x, y = random_points(ball, rng, 2, 10)
    assert_allclose(ball.from_hyperboloid(ball.to_hyperboloid(x)), x, atol=1e-14)
    images = ball.to_hyperboloid(x), ball.to_hyperboloid(y)
    assert_allclose(sheet.dist(*images), ball.dist(x, y), rtol=1e-12)
    middle = ball.exp(x, 0.3 * ball.log(x, y))
    expected = sheet.exp(images[0], 0.3 * sheet.log(*images))
    assert_allclose(ball.to_hyperboloid(middle), expected, atol=1e-11)
