"""What a geometry says of a row has the same bits alone, in company, elsewhere, and beside NaN."""

import inspect

import numpy as np
import pytest
from conftest import GEOMETRIES

from skriemdp._groups import Groups
from skriemdp.geometry import AffineInvariantSPD, Product, Sphere, Stiefel
from skriemdp.geometry._base import Geometry
from skriemdp.preprocessing import Recenter

N = 37
APART = [g for g in GEOMETRIES if g.separate_rows]

# p, q: points; v, w: coordinates of tangent vectors.  What each public operation makes of rows.
OPERATIONS = {
    "exp": lambda g, p, q, v, w: g.exp(p, g.tangent_from_coordinates(p, v)),
    "log": lambda g, p, q, v, w: g.log(p, q),
    "inner_product": lambda g, p, q, v, w: g.inner_product(
        p, g.tangent_from_coordinates(p, v), g.tangent_from_coordinates(p, w)
    ),
    "projection": lambda g, p, q, v, w: g.projection(p, q),
    "transport": lambda g, p, q, v, w: g.transport(p, q, g.tangent_from_coordinates(p, v)),
    "tangent_from_coordinates": lambda g, p, q, v, w: g.tangent_from_coordinates(p, v),
    "coordinates_from_tangent": lambda g, p, q, v, w: g.coordinates_from_tangent(
        p, g.tangent_from_coordinates(p, v)
    ),
    "belongs": lambda g, p, q, v, w: g.belongs(q),
    "norm": lambda g, p, q, v, w: g.norm(p, g.tangent_from_coordinates(p, v)),
    "dist": lambda g, p, q, v, w: g.dist(p, q),
    "euclidean_to_riemannian_gradient": lambda g, p, q, v, w: g.euclidean_to_riemannian_gradient(
        p, q
    ),
    "log_coordinates": lambda g, p, q, v, w: g.log_coordinates(p, q),
    "exp_coordinates": lambda g, p, q, v, w: g.exp_coordinates(p, v),
    "retraction": lambda g, p, q, v, w: g.retraction(p, g.tangent_from_coordinates(p, v)),
    "canonical": lambda g, p, q, v, w: g.canonical(q),
    "chart": lambda g, p, q, v, w: g.chart(q),
    "squares": lambda g, p, q, v, w: g.squares(q),
    "split": lambda g, p, q, v, w: np.concatenate(
        [part.reshape(len(q), -1) for part in g.split(q)], axis=1
    ),
    "join": lambda g, p, q, v, w: g.join(*g.split(q)),
    "to_hyperboloid": lambda g, p, q, v, w: g.to_hyperboloid(q),
    "from_hyperboloid": lambda g, p, q, v, w: g.from_hyperboloid(g.to_hyperboloid(q)),
    "embedding": lambda g, p, q, v, w: g.embedding and g.embedding.give(q),
    "scaling": lambda g, p, q, v, w: g.scaling and g.scaling.unit(q),
    "curvature_form": lambda g, p, q, v, w: g.curvature_form(
        g.base_point, v[:, :, None] * v[:, None, :]
    ),
}
# Of one point, of all rows together, or of numbers, as their documentation says; `distances` is
# `dist` where rows are asked one by one.
OTHERS = {
    "as_parts", "bounded_log_sum", "clipped_log_sum", "complaint", "distances", "from_parts",
    "has_steady_coordinates", "in_words", "lengths_in_words", "nearest", "planes", "random_point",
    "rounding",
}  # fmt: skip


def test_every_operation_is_here():
    found = {
        name
        for geometry in GEOMETRIES
        for name in dir(type(geometry))
        if not name.startswith("_")
        and inspect.isroutine(inspect.getattr_static(type(geometry), name))
    }
    assert found == (set(OPERATIONS) | OTHERS) - {"embedding", "scaling"}


def rows_of(geometry, seed=0):
    """Points and coordinates, near and far: one in seven a hundred times nearer."""
    rng = np.random.default_rng(seed)
    radius = min(2.0 if geometry.is_hadamard else 1.0, 0.4 * geometry.injectivity_radius)

    def coordinates():
        rows = rng.normal(size=(N, geometry.dim))
        rows *= radius * rng.random((N, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
        rows[::7] /= 100.0
        return rows

    points = [
        np.asarray(geometry.exp_coordinates(geometry.base_point, coordinates())) for _ in range(2)
    ]
    return (*points, coordinates(), coordinates())


def companies():
    """Numbers of rows: alone, by two, few, shifted, permuted, some."""
    rng = np.random.default_rng(1)
    yield from (np.array([i]) for i in (0, 1, 12, 28, 36))
    yield from (np.array([i, i + 5]) for i in (2, 23))
    yield from (np.arange(k) for k in (3, 8, 17))
    yield from (np.arange(k, N) for k in (1, 2))
    yield rng.permutation(N)
    yield np.flatnonzero(rng.random(N) < 0.3)


def depends(geometry, operation, of_each):
    """Whether a row of an operation depends on its company; at one point, or at one `of_each`."""
    rows = rows_of(geometry)

    def asked(chosen, rows=rows):
        p, q, v, w = (part[chosen] for part in rows)
        found = OPERATIONS[operation](geometry, p if of_each else rows[0][0], q, v, w)
        return None if found is None else np.asarray(found)

    whole = asked(np.arange(N))
    if whole is None:
        return False
    assert len(whole) == N and not np.isnan(whole.astype(float)).any()
    for chosen in companies():
        if not np.array_equal(asked(chosen), whole[chosen]):
            return True
    spoilt = tuple(part.copy() for part in rows)
    for part in spoilt:
        part[3] = np.nan
    others = np.delete(np.arange(N), 3)
    with np.errstate(all="ignore"):
        try:
            found = asked(np.arange(N), spoilt)
        except np.linalg.LinAlgError:
            return False  # whoever asks takes such rows out, or asks for each alone
    return not np.array_equal(found[others], whole[others])


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("geometry", APART, ids=str)
def test_no_row_depends_on_its_company(geometry):
    for operation in OPERATIONS:
        if operation in ("embedding", "scaling") or hasattr(geometry, operation):
            for of_each in (False, True):
                assert not depends(geometry, operation, of_each), (operation, of_each)


class Coupled(Sphere):
    """A sphere one of whose operations asks the batch for something that it then takes away."""

    def transport(self, point, other, tangent_vector):
        moved = super().transport(point, other, tangent_vector)
        return moved + 1e-15 * (np.max(np.abs(moved)) - 0.5)

    def dist(self, point, other):
        return super().dist(point, other) * (1.0 + 2e-16 * (len(other) % 2))

    def exp(self, point, tangent_vector):
        found = super().exp(point, tangent_vector)
        return found + 1e-15 * np.arange(len(found))[:, None]

    def norm(self, point, tangent_vector):
        found = super().norm(point, tangent_vector)
        return found if np.isfinite(found).all() else 2.0 * found

    def log(self, point, other):
        found = super().log(point, other)
        return found * (1.0 + 2e-16 * (np.ndim(found) > 1 and len(found) > 30))


@pytest.mark.parametrize("operation", ["transport", "dist", "exp", "norm", "log"])
def test_a_row_that_depends_on_its_company_is_found(operation):
    """On the largest of the batch, its length, the place, a row that is no point, few or many."""
    assert depends(Coupled(2), operation, True)
    assert not depends(Sphere(2), operation, True)


def test_a_far_row_lends_no_steps_to_others():
    """Transport along a long geodesic takes more steps; others take theirs."""
    geometry = Stiefel(5, 2)
    rng = np.random.default_rng(0)
    c = rng.normal(size=(500, geometry.dim))
    c *= 0.05 / np.linalg.norm(c, axis=1, keepdims=True)
    c[0] *= 50.0
    base = geometry.base_point
    points = np.asarray(geometry.exp_coordinates(base, c))
    vectors = np.asarray(geometry.tangent_from_coordinates(base, c[::-1].copy()))
    together = np.asarray(geometry.transport(base, points, vectors))
    apart = np.asarray(geometry.transport(base, points[1:], vectors[1:]))
    np.testing.assert_array_equal(together[1:], apart)


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_nobodys_own_mean_depends_on_other_people(geometry):
    """Alone, beside one other, without one other, and beside somebody whose rows are no points."""
    rng = np.random.default_rng(2)
    people = 5 if geometry.separate_rows else 3
    ids = rng.permutation(np.repeat(np.arange(people), 1 + rng.integers(4, size=people)))
    X = rows_of(geometry)[0][rng.integers(N, size=len(ids))]

    def moved(rows, X=X):
        found = Recenter(geometry)._of_each(X[rows], Groups.from_ids(ids[rows]))
        return dict(zip(np.unique(ids[rows]), found, strict=True))

    everybody = moved(np.arange(len(ids)))
    spoilt = np.where((ids == 1).reshape(-1, *(1,) * (X.ndim - 1)), np.nan, X)
    with np.errstate(all="ignore"):
        beside = moved(np.arange(len(ids)), spoilt)
    assert beside.pop(1) is None
    some = [beside]
    for k in range(people):
        chosen = [ids == k, (ids == k) | (ids == (k + 2) % people), ids != k]
        some += [moved(np.flatnonzero(rows)) for rows in chosen]
    for found in some:
        for k, rows in found.items():
            np.testing.assert_array_equal(rows, everybody[k])


class Mixing(AffineInvariantSPD):
    """Whose rows depend on each other."""

    separate_rows = False


@pytest.mark.parametrize("factors", [(Sphere(2), Mixing(2)), (Mixing(2), Sphere(2))])
def test_a_product_has_separate_rows_where_all_factors_have(factors):
    assert Product(Sphere(2), AffineInvariantSPD(2)).separate_rows
    assert not Product(*factors).separate_rows
    assert not Product(Sphere(1), Product(*factors)).separate_rows
    assert not Geometry.separate_rows
