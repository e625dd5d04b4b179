"""Manifolds defined outside the package: they find their ball by what they say themselves."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import skriemdp
from skriemdp import PrivateFrechetMean, PrivateMinimumDistanceToMean
from skriemdp._location_scale.points import PointRecords, plan_point_search, radii
from skriemdp._location_scale.start_releases import start_rule
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._random import NoiseStreams
from skriemdp.geometry import Circle, CoordinateGeometry, Embedding, Product, Reach, Scaling, Sphere


class Flat(CoordinateGeometry):
    """Vectors whose coordinates are their own tangent vectors."""

    separate_rows = True
    curvature_bounds = (0.0, 0.0)

    @property
    def dim(self):
        return self.shape[0]

    @property
    def base_point(self):
        return np.zeros(self.dim)

    def projection(self, point, vector):
        return vector + 0.0 * point

    tangent_from_coordinates = coordinates_from_tangent = projection

    def transport(self, point, other, tangent_vector):
        return tangent_vector + 0.0 * point + 0.0 * other

    def belongs(self, x, atol=1e-6):
        return np.isfinite(x).all(axis=-1)


@dataclass(frozen=True)
class Torus(Flat):
    """Coordinates that wrap around, each after its own length."""

    lengths: tuple[float, ...] = (2.0, 7.0, 0.9)

    @property
    def shape(self):
        return (len(self.lengths),)

    @property
    def injectivity_radius(self):
        return min(self.lengths) / 2.0

    def log_coordinates(self, point, other):
        gap = other - point
        return gap - np.asarray(self.lengths) * np.round(gap / np.asarray(self.lengths))

    def exp_coordinates(self, point, coordinates):
        moved = np.remainder(point + coordinates, self.lengths)
        return np.where(moved >= self.lengths, 0.0, moved)

    @property
    def embedding(self):
        turn = 2.0 * math.pi / np.asarray(self.lengths)

        def give(points):
            return np.concatenate([np.cos(points * turn), np.sin(points * turn)], axis=1)

        def nearest(mean):
            return np.arctan2(mean[self.dim :], mean[: self.dim]) % (2.0 * math.pi) / turn

        return Embedding(give, nearest, 2 * self.dim, math.sqrt(self.dim))


class SilentTorus(Torus):
    """It says nothing about its rows."""

    separate_rows = False


class BoundedTorus(Torus):
    """It knows how far two points can be apart."""

    @property
    def reach(self):
        return Reach(
            unit=min(self.lengths) / (2.0 * math.pi), diameter=math.hypot(*self.lengths) / 2
        )


class Axes(Torus):
    """Lines through the origin of a plane, by their angle modulo pi: projectors of rank one."""

    def __init__(self):
        super().__init__((math.pi,))

    @property
    def embedding(self):
        def give(points):
            return np.stack([np.cos(points), np.sin(points)], axis=2)

        def nearest(mean):
            x, y = np.linalg.eigh(mean)[1][:, 1]
            return np.array([math.atan2(y, x) % math.pi])

        return Embedding(give, nearest, 2, rank=1)


@dataclass(frozen=True)
class Positive(Flat):
    """Positive numbers, one or more, whose ratios count."""

    shape: tuple[int, ...] = (2,)
    injectivity_radius = math.inf

    @property
    def base_point(self):
        return np.ones(self.dim)

    def log_coordinates(self, point, other):
        return np.log(other / point)

    def exp_coordinates(self, point, coordinates):
        return point * np.exp(np.clip(coordinates, -300.0, 300.0))

    def projection(self, point, vector):
        return vector + 0.0 * point

    def tangent_from_coordinates(self, point, coordinates):
        return point * coordinates

    def coordinates_from_tangent(self, point, tangent_vector):
        return tangent_vector / point

    def transport(self, point, other, tangent_vector):
        return other / point * tangent_vector

    def belongs(self, x, atol=1e-6):
        return (np.isfinite(x) & (x > 0.0)).all(axis=-1)

    @property
    def scaling(self):
        def unit(points):
            return np.exp(np.log(points).sum(axis=1) / self.dim)

        return Scaling(unit, unit, lambda unit: np.full(self.dim, unit), lambda unit: 1.0)


# With a place far from the base point.
SPACES = {
    "torus": (Torus(), [0.9, 3.6, 0.4]),
    "torus of silent rows": (SilentTorus((3.0, 4.0)), [1.4, 2.1]),
    "bounded torus": (BoundedTorus(), [1.1, 3.3, 0.5]),
    "axes": (Axes(), [1.5]),
    "ratios": (Positive(), [3e6, 1e6]),
    "product": (Product(Torus((2.0, 5.0)), Circle(24.0), Sphere(2)), [1.0, 2.4, 13.0, -1.0, 0, 0]),
}


def cloud(geometry, middle, n, seed=0):
    """Points around `middle`, spread over a tenth of what the space allows."""
    rng = np.random.default_rng(seed)
    spread = 0.2 * min(geometry.radius_limit, 1.0)
    steps = rng.normal(size=(n, geometry.dim)) * spread / math.sqrt(geometry.dim)
    return np.asarray(geometry.exp_coordinates(np.asarray(middle, float), steps))


def mean_of(geometry, middle, points):
    middle = np.asarray(middle, float)
    for _ in range(50):
        middle = geometry.exp_coordinates(middle, geometry.log_coordinates(middle, points).mean(0))
    return middle


@pytest.mark.parametrize("name", SPACES)
def test_a_search_begins_near_the_data_and_finds_them(name):
    geometry, middle = SPACES[name]
    points = cloud(geometry, middle, 1000)
    truth = mean_of(geometry, middle, points)
    away = geometry.dist(geometry.base_point, truth)
    assert away > 0.3 * min(geometry.radius_limit, 5.0)
    plan = plan_point_search(geometry, 1000, 0.3)
    assert plan.rule is not None and plan.shares.start > 0.0
    found = plan.release(PointRecords(geometry, points), GaussianBudget(0.3), NoiseStreams(1))
    assert geometry.dist(found.center, truth) < 0.3 * min(geometry.radius_limit, 1.0)
    assert found.radius < radii(geometry).grid[-1]


@pytest.mark.parametrize("name", SPACES)
def test_means_plan_and_have_error_bars(name):
    geometry, middle = SPACES[name]
    points = cloud(geometry, middle, 1200)
    truth = mean_of(geometry, middle, points)
    errors = []
    for seed in range(4):
        model = PrivateFrechetMean(geometry, random_state=seed).fit(points)
        errors.append(geometry.dist(truth, model.mean_))
    assert np.sqrt(np.mean(np.square(errors))) <= 0.03
    model = PrivateFrechetMean(geometry, uncertainty=True, random_state=0)
    assert model.plan(1200, *geometry.shape).n == 1200
    region = model.fit(points).confidence_region(0.95)
    assert 0.0 < min(region.semi_axes) and max(region.semi_axes) < 0.2
    assert "private estimate" in str(region)


def test_classes_and_people_of_such_spaces():
    geometry, middle = SPACES["torus"]
    points = cloud(geometry, middle, 1200)
    labels = np.arange(1200) % 2
    points[labels == 1] = geometry.exp_coordinates(points[labels == 1], np.array([0.3, 0.0, 0.0]))
    model = PrivateMinimumDistanceToMean(geometry, classes=[0, 1], random_state=0)
    assert model.fit(points, labels).score(points, labels) > 0.9
    people = PrivateFrechetMean(geometry, random_state=0)
    people.fit(points[labels == 0], groups=np.arange(600) // 2)
    assert geometry.dist(people.mean_, np.array(middle)) < 0.1


def test_a_space_that_says_nothing_begins_at_its_base_point():
    class Nothing(Torus):
        embedding = None

    assert start_rule(Nothing(), 1000, 0.3) is None
    assert plan_point_search(Nothing(), 1000, 0.3).shares.start == 0.0


@pytest.mark.parametrize("say", [True, False], ids=["separate", "silent"])
@pytest.mark.parametrize("kind", ["embedding", "scaling"])
def test_what_rows_give_at_the_start_is_asked_one_by_one_unless_they_are_separate(kind, say):
    seen = []

    class Watched(Torus if kind == "embedding" else Positive):
        separate_rows = say

        @property
        def watched(self):
            known = getattr(super(), kind)
            name = "give" if kind == "embedding" else "unit"
            inner = getattr(known, name)

            def give(points):
                seen.append(len(points))
                return inner(points)

            return known._replace(**{name: give})

    setattr(Watched, kind, Watched.watched)
    geometry = Watched()
    points = cloud(geometry, geometry.base_point, 40)
    rule = start_rule(geometry, 40, 1.0)
    rule.release(PointRecords(geometry, points), GaussianBudget(1.0), NoiseStreams(0))
    assert sum(seen) == 40 and (max(seen) > 1) == say


def test_long_vectors_of_an_embedding_are_shortened():
    """One record may not move the mean by more than the space is wide."""

    class Long(Torus):
        @property
        def embedding(self):
            known = super().embedding
            return known._replace(give=lambda points: 1e6 * known.give(points))

    far = start_rule(Long(), 50, 1.0)
    near = start_rule(Torus(), 50, 1.0)
    points = PointRecords(Torus(), cloud(Torus(), [1.0, 3.0, 0.4], 50))
    a, b = (
        rule.release(points, GaussianBudget(1.0), NoiseStreams(0)).center for rule in (far, near)
    )
    np.testing.assert_allclose(a, b, atol=1e-6)


# -- nothing outside geometry/ asks a manifold for its name ----------------------------------------

PACKAGE = Path(skriemdp.__file__).parent


def manifolds():
    """Names of the classes of geometry/ that are geometries, their common base excepted."""
    trees = [ast.parse(path.read_text()) for path in (PACKAGE / "geometry").rglob("*.py")]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    known = {"Geometry"}
    for _ in classes:
        known |= {c.name for c in classes if known & {ast.unparse(base) for base in c.bases}}
    return known - {"Geometry"}


MANIFOLDS = re.compile(rf"\b({'|'.join(sorted(manifolds()))})\b")
# A class asked for in any other way.
KIND = re.compile(r"type\([\w.]*(geometry|manifold|space)\w*\)|is_one_of\(.*|[\w.]+\.__class__")


def questions(text):
    """What a module asks about the class of a geometry, but for its name in a message."""
    tree = ast.parse(text)
    named = {id(n.value) for n in ast.walk(tree) if getattr(n, "attr", None) == "__name__"}
    for node in ast.walk(tree):
        asked = None
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked = node.args[1]
        elif isinstance(node, ast.match_case):
            asked = node.pattern
        elif isinstance(node, ast.Dict):
            asked = ast.Tuple([key for key in node.keys if key is not None])
        if asked is not None and MANIFOLDS.search(ast.unparse(asked)):
            yield ast.unparse(asked)
        elif isinstance(node, ast.Call | ast.Attribute) and id(node) not in named:
            if KIND.fullmatch(ast.unparse(node)):
                yield ast.unparse(node)


@pytest.mark.parametrize(
    "text",
    [
        "if isinstance(geometry, Sphere): pass",
        "flat = isinstance(space, (geometry.Grassmann, Stiefel))",
        "issubclass(kind, SPDGeometry)",
        "NAMES = {AffineInvariantSPD: 'riemann'}",
        "name = NAMES[type(self.geometry)]",
        "known = type(geometry) in (Circle, Sphere)",
        "if geometry.__class__ is Circle: pass",
        "if is_one_of(geometry, 'Product'): pass",
        "match geometry:\n    case Sphere(): pass",
    ],
)
def test_questions_by_name_are_seen(text):
    assert list(questions(text))


def test_manifolds_are_asked_for_facts_and_not_for_their_names():
    asked = {
        path.relative_to(PACKAGE).as_posix(): found
        for path in PACKAGE.rglob("*.py")
        if not path.is_relative_to(PACKAGE / "geometry")
        and (found := list(questions(path.read_text())))
    }
    assert asked == {}
