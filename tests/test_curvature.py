"""Curvature forms against distances, on every geometry."""

import numpy as np
import pytest
from conftest import random_points
from numpy.testing import assert_allclose, assert_array_equal

from skriemdp.geometry import BuresWassersteinSPD, Product, Stiefel

# No closed form there: the form is zero, and statistics leave out what curvature does.
UNKNOWN = (BuresWassersteinSPD, Stiefel)


def length_unit(geometry):
    low, high = geometry.curvature_bounds
    bend = max(abs(low), abs(high))
    own = bend**-0.5 if 0.0 < bend < np.inf else geometry.injectivity_radius / np.pi
    return min(own, 1.0) if bend == 0.0 else own


def by_distances(geometry, point, w, v):
    """``w' K(v v') w`` from ``d(exp w, exp v)^2 = |w - v|^2 - w' K(v v') w / 3 + ...``.

    The next terms are smaller by the square of the size, which two sizes remove.
    """
    unit = min(length_unit(geometry), 1.0)

    def at(size):
        a, b = size * unit * w, size * unit * v
        ends = geometry.exp_coordinates(point, a), geometry.exp_coordinates(point, b)
        gap = np.sum((a - b) ** 2) - geometry.dist(*ends) ** 2
        return 3.0 * gap / (size * unit) ** 4

    return (4.0 * at(0.05) - at(0.1)) / 3.0


def by_form(geometry, point, w, v):
    return w @ geometry.curvature_form(point, np.outer(v, v)) @ w


def directions(geometry, rng):
    w, v = rng.standard_normal((2, geometry.dim))
    return w / np.linalg.norm(w), v / np.linalg.norm(v)


def test_the_form_is_what_distances_say(geometry, rng):
    """Three digits of the largest curvature, sign included."""
    if isinstance(geometry, UNKNOWN):
        pytest.skip("no closed form")
    scale = length_unit(geometry) ** -2
    for point in random_points(geometry, rng, 5):
        w, v = directions(geometry, rng)
        measured = by_distances(geometry, point, w, v)
        assert_allclose(by_form(geometry, point, w, v), measured, rtol=0, atol=1e-3 * scale)


def test_a_wrong_sign_would_be_seen(geometry, rng):
    low, high = geometry.curvature_bounds
    if isinstance(geometry, UNKNOWN) or low == high == 0.0:
        pytest.skip("no curvature")
    point = random_points(geometry, rng)
    seen = []
    for _ in range(20):
        w, v = directions(geometry, rng)
        gap = -by_form(geometry, point, w, v) - by_distances(geometry, point, w, v)
        seen.append(abs(gap))
    assert max(seen) > 0.02 * length_unit(geometry) ** -2


def test_the_form_is_linear_symmetric_and_selfadjoint(geometry, rng):
    point, d = random_points(geometry, rng), geometry.dim
    moments = rng.standard_normal((2, d, d))
    moments = moments + np.swapaxes(moments, 1, 2)
    first, second = moments
    forms = geometry.curvature_form(point, moments)
    assert_allclose(forms, np.swapaxes(forms, 1, 2), atol=1e-12)
    together = geometry.curvature_form(point, 2.0 * first - second)
    assert_allclose(together, 2.0 * forms[0] - forms[1], atol=1e-10)
    assert_allclose(np.sum(forms[0] * second), np.sum(first * forms[1]), atol=1e-10)


def test_sectional_curvatures_are_within_their_bounds(geometry, rng):
    low, high = geometry.curvature_bounds
    if isinstance(geometry, UNKNOWN) or geometry.dim == 1:
        pytest.skip("no closed form, or no planes")
    point = random_points(geometry, rng)
    for _ in range(50):
        x, y = np.linalg.qr(rng.standard_normal((geometry.dim, 2)))[0].T
        assert low - 1e-12 <= by_form(geometry, point, x, y) <= high + 1e-12


def test_a_vector_has_no_curvature_with_itself(geometry, rng):
    _, v = directions(geometry, rng)
    form = geometry.curvature_form(random_points(geometry, rng), np.outer(v, v))
    assert_allclose(form @ v, 0.0, atol=1e-12)


@pytest.mark.parametrize("space", [BuresWassersteinSPD(3), Stiefel(4, 2)], ids=str)
def test_unknown_forms_are_zero(space):
    eye = np.eye(space.dim)
    assert_array_equal(space.curvature_form(space.base_point, eye), 0.0 * eye)


def test_factors_of_a_product_do_not_mix(geometry, rng):
    space = Product(geometry, geometry)
    point, d = random_points(space, rng), geometry.dim
    moment = rng.standard_normal((2 * d, 2 * d))
    moment = moment + moment.T
    form = space.curvature_form(point, moment)
    ours = geometry.curvature_form(space.split(point)[1], moment[d:, d:])
    assert_allclose(form[d:, d:], ours, atol=1e-13)
    assert_array_equal(form[:d, d:], np.zeros((d, d)))
