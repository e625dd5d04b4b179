"""Products are made of their factors."""

import math

import numpy as np
import pytest
from conftest import random_points
from numpy.testing import assert_allclose

from skriemdp.geometry import (
    AffineInvariantSPD,
    Circle,
    Euclidean,
    Hyperboloid,
    Poincare,
    Product,
    Sphere,
)


def test_product_is_made_of_its_factors(rng):
    geometry = Product(Sphere(2), Circle(1.0), AffineInvariantSPD(2))
    assert geometry.shape == (8,) and geometry.dim == 6
    assert geometry.curvature_bounds == (-0.5, 1.0)
    assert geometry.injectivity_radius == 0.5 and geometry.radius_limit == 0.25
    parts = [random_points(factor, rng, 5) for factor in geometry.factors]
    others = [random_points(factor, rng, 5) for factor in geometry.factors]
    x, y = geometry.join(*parts), geometry.join(*others)
    for part, back in zip(parts, geometry.split(x), strict=True):
        assert_allclose(back, part)
    squares = [f.dist(a, b) ** 2 for f, a, b in zip(geometry.factors, parts, others, strict=True)]
    assert_allclose(geometry.dist(x, y) ** 2, sum(squares))
    hadamard = Product(Euclidean(2), Hyperboloid(2), Poincare(2))
    assert hadamard.is_hadamard and hadamard.radius_limit == math.inf
    assert Product(Sphere(2)).curvature_bounds == (1.0, 1.0)


def test_product_refuses_what_it_cannot_hold():
    with pytest.raises(ValueError, match="at least one"):
        Product()
    with pytest.raises(TypeError, match="as_geometry"):
        Product(Sphere(2), "sphere")
    with pytest.raises(ValueError, match="one per factor"):
        Product(Sphere(2)).join(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        Product(Sphere(2), Circle(1.0)).join(np.zeros(2), np.zeros(1))
