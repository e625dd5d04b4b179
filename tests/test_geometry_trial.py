"""The trial of manifolds from outside the package: what breaks a law is refused before a charge."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import GEOMETRIES

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    PrivateRiemannianERM,
)
from skriemdp.geometry import Geometry, Product, PymanoptGeometry, Sphere, as_geometry
from skriemdp.geometry._trial import _broken

TURN = 2.0 * math.pi
RNG = np.random.default_rng(0)
ANGLES = RNG.normal([0.5, 0.2], 0.3, size=(600, 2)) % TURN


@dataclass(frozen=True)
class Torus(Geometry):
    """A product of circles, as somebody would write it who reads the docstrings only."""

    size: int = 2
    separate_rows = True
    curvature_bounds = (0.0, 0.0)
    injectivity_radius = math.pi

    @property
    def shape(self):
        return (self.size,)

    @property
    def dim(self):
        return self.size

    @property
    def base_point(self):
        return np.zeros(self.size)

    def exp(self, point, tangent_vector):
        return (point + tangent_vector) % TURN

    def log(self, point, other):
        return (other - point + math.pi) % TURN - math.pi

    def inner_product(self, point, tangent_vector_a, tangent_vector_b):
        return (tangent_vector_a * tangent_vector_b).sum(-1)

    def projection(self, point, vector):
        return vector

    def transport(self, point, other, tangent_vector):
        return tangent_vector

    def tangent_from_coordinates(self, point, coordinates):
        return coordinates

    def coordinates_from_tangent(self, point, tangent_vector):
        return tangent_vector

    def belongs(self, x, atol=1e-6):
        return np.isfinite(x).all(-1)


class Duck:
    """The same with pymanopt's methods."""

    dim = 2

    def projection(self, point, vector):
        return vector

    def exp(self, point, vector):
        return (point + vector) % TURN

    retraction = exp

    def log(self, point, other):
        return (other - point + math.pi) % TURN - math.pi

    def norm(self, point, vector):
        return np.linalg.norm(vector)

    def random_point(self):
        return np.random.rand(2) * TURN


def fail(*_):
    raise RuntimeError("no such branch")


WRONG = {
    "a shape that is a number": ({"shape": 2}, "shape, a tuple of whole numbers"),
    "a dimension that is a float": ({"dim": 2.0}, "a whole number dim"),
    "one bound": ({"curvature_bounds": (0.0,)}, "two numbers"),
    "bounds the wrong way round": ({"curvature_bounds": (1.0, 0.0)}, "two numbers"),
    "a radius that is no number": ({"injectivity_radius": None}, "injectivity_radius"),
    "a base point of another shape": ({"base_point": np.zeros(3)}, "base_point has shape"),
    "a base point outside": ({"belongs": lambda s, x, atol=1e-6: (x > 0).all(-1)}, "is no point"),
    "belongs for all at once": ({"belongs": lambda s, x, atol=1e-6: True}, "belongs of an array"),
    "a frame of other lengths": (
        {
            "tangent_from_coordinates": lambda s, p, c: 2.0 * c,
            "coordinates_from_tangent": lambda s, p, v: v / 2.0,
            "exp": lambda s, p, v: (p + v / 2.0) % TURN,
        },
        "no isometry",
    ),
    "a frame and its inverse that differ": (
        {"coordinates_from_tangent": lambda s, p, v: 2.0 * v},
        "does not undo tangent_from_coordinates",
    ),
    "a frame that is bent": (
        {
            "tangent_from_coordinates": lambda s, p, c: c**3,
            "coordinates_from_tangent": lambda s, p, v: np.cbrt(v),
        },
        "not linear",
    ),
    "a logarithm without the turn": ({"log": lambda s, p, q: (q - p) % TURN}, "log does not undo"),
    "a logarithm of the first row": (
        {"log": lambda s, p, q: (q[0] - p + math.pi) % TURN - math.pi},
        "of 6 rows gives shape",
    ),
    "rows that mix": (
        {"log": lambda s, p, q: Torus.log(s, p, q) + 1e-7 * (len(np.atleast_2d(q)) == 1)},
        "rounding in a row",
    ),
    "rows that mix more": (
        {"dist": lambda s, p, q: s.norm(p, s.log(p, q)) * (1.0 + 0.1 * (q.shape[0] == 1))},
        "a row of dist changes",
    ),
    "distances without the root": (
        {"dist": lambda s, p, q: (s.log(p, q) ** 2).sum(-1)},
        "the distance from a point",
    ),
    "an error": ({"log": fail}, "log_coordinates raised RuntimeError: no such branch"),
    "NaN": ({"exp": lambda s, p, v: p + v * math.nan}, "not finite"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_breaks_a_law_is_refused_and_nothing_is_charged(name):
    changed, words = WRONG[name]
    geometry = type("Wrong", (Torus,), changed)()
    budget = PrivacyAccountant(epsilon=1)
    with pytest.raises((ValueError, TypeError), match=words):
        as_geometry(geometry)
    with pytest.raises((ValueError, TypeError), match=words):
        PrivateFrechetMean(geometry, accountant=budget).fit(ANGLES)
    assert not budget.history


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"log": lambda s, p, q: (q - p) % TURN}, "log does not undo exp"),
        ({"exp": lambda s, p, v: p - v}, "log does not undo exp"),
        ({"dist": lambda s, p, q: abs(q - p).sum()}, "the distance from a point"),
        ({"log": fail}, "no such branch"),
    ],
)
def test_so_is_an_object_with_methods_of_pymanopt(changed, words):
    facts = {"curvature_bounds": (0.0, 0.0), "injectivity_radius": math.pi}
    wrong = PymanoptGeometry(type("Wrong", (Duck,), changed)(), **facts)
    with pytest.raises(ValueError, match=words):
        PrivateFrechetMean(wrong).fit(ANGLES)
    lawful = as_geometry(PymanoptGeometry(Duck(), **facts))
    ball = {"center": np.zeros(2), "radius": 1.5}
    assert PrivateFrechetMean(lawful, **ball, random_state=0).fit(ANGLES).mean_.shape == (2,)


def test_a_factor_is_tried_as_well():
    wrong = type("Wrong", (Torus,), {"log": lambda s, p, q: (q - p) % TURN})()
    with pytest.raises(ValueError, match="Wrong was tried"):
        PrivateFrechetMean(Product(wrong, Sphere(2))).plan(600, 5)
    assert as_geometry(Product(Torus(), Sphere(2))).dim == 4


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_no_geometry_of_the_package_breaks_a_law(geometry):
    assert list(_broken(geometry)) == []


def test_a_lawful_one_serves_means_classes_and_costs():
    torus, labels = Torus(), RNG.integers(2, size=600)
    shifted = (ANGLES + 1.2 * labels[:, None]) % TURN
    assert torus.dist(PrivateFrechetMean(torus, random_state=0).fit(ANGLES).mean_, [0.5, 0.2]) < 0.3
    classes = PrivateMinimumDistanceToMean(torus, classes=[0, 1], random_state=0)
    assert classes.fit(shifted, labels).score(shifted, labels) > 0.8
    own = PrivateRiemannianERM(
        torus, gradient=lambda point, X, y: -torus.log(point, X), clip_norm=1.0, random_state=0
    )
    assert torus.dist(own.fit(ANGLES).point_, [0.5, 0.2]) < 0.3


def test_equal_geometries_are_tried_once():
    asked = []

    class Watched(Torus):
        def belongs(self, x, atol=1e-6):
            asked.append(len(x))
            return super().belongs(x, atol)

    as_geometry(Watched())
    first = len(asked)
    as_geometry(Watched())
    assert first == len(asked) > 0
