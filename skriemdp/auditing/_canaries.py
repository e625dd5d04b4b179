"""Neighbouring data sets on which a release differs as much as it may, or nearly so."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from skriemdp._arrays import ManifoldLike
from skriemdp._completion.estimator import PrivateMatrixCompletion
from skriemdp._core.manifold_input import public_point
from skriemdp._erm.estimator import PrivateRiemannianERM
from skriemdp._errors import PublicTypeError
from skriemdp._linear_model.estimator import PrivateNoisyAdaGrad
from skriemdp._mean.class_releases import MOMENT, SHORTER
from skriemdp._mean.classifier import PrivateMinimumDistanceToMean
from skriemdp._mean.estimator import PrivateFrechetMean
from skriemdp._mean.tangent_pca import PrivateTangentPCA
from skriemdp._pca.estimator import PrivatePrincipalEigenvector
from skriemdp._pca.problem import STEP_SIZE
from skriemdp._regression.estimator import PrivateHyperbolicRegressor
from skriemdp._regression.geodesic import PrivateGeodesicRegressor
from skriemdp._regression.layouts import label_space, layout
from skriemdp._selection import PrivateGridSearchCV
from skriemdp._tangent.estimator import PrivateTangentClassifier
from skriemdp._validation import check_count
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import as_geometry
from skriemdp.ledger._units import PRESENT

if TYPE_CHECKING:
    from skriemdp._core.estimator import PrivateEstimator
    from skriemdp.geometry._base import Geometry

# Points of a manifold that is given by name.
_SHAPES = {
    "euclidean": (2,),
    "sphere": (3,),
    "hyperboloid": (3,),
    "poincare": (2,),
    "grassmann": (3, 1),
    "stiefel": (3, 2),
}


@dataclass(frozen=True)
class Neighbours:
    """Two data sets that differ in one record, and how to tell which one a model was fitted on.

    Attributes
    ----------
    data, neighbour : tuple
        Arguments of ``fit``: ``(X,)`` or ``(X, y)``, or ``(X, y, groups)``.
    score : callable
        ``score(fitted_estimator)``: a number that tends to be higher after a fit on `neighbour`.
    """

    data: tuple
    neighbour: tuple
    score: Callable[[Any], float]


@functools.singledispatch
def worst_case_neighbours(estimator: Any, n: int = 100) -> Neighbours:
    """A pair of made-up neighbouring data sets that is hard for this estimator to protect.

    The record that changes is extreme and lies outside the public bounds, so that a forgotten
    projection or clip shows too; the other records stay out of its way.  Known for every
    estimator of this package; ``worst_case_neighbours.register(YourClass)`` adds your own.

    Parameters
    ----------
    estimator : estimator
        Its public parameters (bounds, manifold, classes) shape the records.
    n : int, default=100
        Number of records.  The privacy of a release does not depend on n; with few records the
        answers are cut at the public bounds, which hides a part of what was released.

    Returns
    -------
    Neighbours

    Raises
    ------
    TypeError
        For an estimator that nothing is known about, and for a user's cost function.

    Examples
    --------
    >>> from skriemdp import PrivateFrechetMean
    >>> from skriemdp.auditing import worst_case_neighbours
    >>> pair = worst_case_neighbours(PrivateFrechetMean("sphere", radius=0.5))
    >>> (X,), (Z,) = pair.data, pair.neighbour
    >>> X.shape, int((X != Z).any(axis=1).sum())
    ((100, 3), 1)
    """
    raise PublicTypeError(
        f"no worst case is known for {type(estimator).__name__}; pass your own Neighbours, or "
        "register a function with worst_case_neighbours.register."
    )


def _swapped(rows: np.ndarray, record: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two copies of `rows`, the second with another first record."""
    rows = np.asarray(rows)
    other = rows.copy()
    other[0] = record
    return rows, other


# -- records on a manifold ------------------------------------------------------------------------


def _geometry(manifold: ManifoldLike) -> Geometry:
    shape = _SHAPES.get(manifold, (2, 2)) if isinstance(manifold, str) else None
    return as_geometry(manifold, point_shape=shape)


def _given(value: Any, word: str) -> Any:
    """A public parameter that may also be left out, or asked for by a word."""
    return None if value is None or isinstance(value, str) and value == word else value


def _center(geometry: Geometry, center: Any) -> np.ndarray:
    center = _given(center, "private")
    return geometry.base_point if center is None else public_point(geometry, center=center)


def _on_axis(geometry: Geometry, center: np.ndarray, steps: list[float] | np.ndarray) -> np.ndarray:
    """Points at signed distances `steps` from `center`, on one geodesic through it."""
    coordinates = np.zeros((len(steps), geometry.dim))
    coordinates[:, 0] = steps
    return np.asarray(geometry.exp_coordinates(center, coordinates))


def _outside(geometry: Geometry, radius: float) -> float:
    """A distance beyond `radius` where logarithms are still exact."""
    far = radius + min(radius, 3.0)
    limit = geometry.injectivity_radius
    return min(far, 0.9 * limit) if limit > 0 else radius


def _resting(geometry: Geometry, center: np.ndarray, radius: float | None, n: int) -> np.ndarray:
    """Points that stay out of the way: at the centre, or spread where a private radius is asked."""
    if radius is not None:
        return np.broadcast_to(center, (n, *geometry.shape)).copy()
    spread = np.random.default_rng(0).uniform(-0.05, 0.05, size=(n, geometry.dim))
    return np.array(geometry.exp_coordinates(center, spread))


def _at_an_end(
    estimator: Any, n: int, others: np.ndarray | None = None, first: float = -1.0
) -> tuple[Geometry, np.ndarray, np.ndarray, np.ndarray]:
    """The first of n records beyond one end of the estimator's ball, and the same at the other end.

    Geometry, centre, records, and the other record; the others rest at `others`, by default at the
    centre.
    """
    geometry = _geometry(estimator.manifold)
    center, radius = _center(geometry, estimator.center), _given(estimator.radius, "private")
    far = first * _outside(geometry, 1.0 if radius is None else float(radius))
    ends = _on_axis(geometry, center, [far, -far])
    points = _resting(geometry, center, radius, n) if others is None else others
    points[0] = ends[0]
    return geometry, center, points, ends[1]


@worst_case_neighbours.register
def _mean(estimator: PrivateFrechetMean, n: int = 100) -> Neighbours:
    public = _given(estimator.radius, "private") is not None
    geometry = _geometry(estimator.manifold)
    if public and getattr(estimator.accountant, "unit", None) == PRESENT:
        return _one_more(estimator, n)
    if estimator.mechanism == "k-norm" and public and not geometry.is_hadamard:
        return _all_at_one_end(estimator, n)
    low, high = geometry.curvature_bounds
    drawn = estimator.mechanism in ("laplace", "gaussian")
    if drawn and public and low == high > 0.0 and geometry.dim > 1:
        return _across_a_sphere(estimator, n)
    return _opposite_ends(estimator, n, _exponent)


@worst_case_neighbours.register
def _tangent_components(estimator: PrivateTangentPCA, n: int = 100) -> Neighbours:
    return _opposite_ends(estimator, n, lambda model: 2.0)


def _opposite_ends(
    estimator: Any,
    n: int,
    exponent: Callable[[Any], float],
    resting: np.ndarray | None = None,
    stretch: float = 1.0,
) -> Neighbours:
    """One record at an end of the ball, or at the other; scored by the mean.

    The others rest at `resting`, by default at the centre; the mean moves by `stretch` times as
    much as in flat space.
    """
    check_count(minimum=2, n=n)
    geometry, center, points, record = _at_an_end(estimator, n, resting)
    rows, other = _swapped(points, record)

    def score(model: Any) -> float:
        # Where the exact means lie, nearly; the noise law weighs the distances to them.
        means = _on_axis(geometry, center, np.array([-stretch, stretch]) * model.radius_ / n)
        away = geometry.dist(means, np.broadcast_to(model.mean_, means.shape)) / model.radius_
        power = exponent(model)
        return float(away[0] ** power - away[1] ** power)

    return Neighbours((rows,), (other,), score)


def _one_more(estimator: PrivateFrechetMean, n: int) -> Neighbours:
    """Records at the centre, and one more at the edge; scored by their number and by the mean."""
    check_count(minimum=2, n=n)
    geometry, radius = _geometry(estimator.manifold), float(estimator.radius)
    center = _center(geometry, estimator.center)
    rows = _resting(geometry, center, radius, n)
    edge = _on_axis(geometry, center, [_outside(geometry, radius)])

    def score(model: Any) -> float:
        told = model.privacy_spent_.public
        moved = float(geometry.log_coordinates(center, model.mean_)[0])
        # What the record adds to each release, times the release, over the variance of its noise.
        of_sum = radius * moved / (told["n released"] * model.noise_scale_**2)
        return float(told["n released"] / told["noise of n"] ** 2 + of_sum)

    return Neighbours((rows,), (np.concatenate([edge, rows]),), score)


def _across_a_sphere(estimator: PrivateFrechetMean, n: int) -> Neighbours:
    """Others at the rim, across the record's way, where curvature lets the mean move farthest."""
    geometry = _geometry(estimator.manifold)
    angle = math.sqrt(geometry.curvature_bounds[1]) * float(estimator.radius)
    # As many on either side, and one at the centre if the number is odd.
    steps = np.zeros((n, geometry.dim))
    steps[1:, -1] = np.resize([0.999, -0.999], n - 1) * float(estimator.radius)
    steps[-1] *= n % 2
    resting = geometry.exp_coordinates(_center(geometry, estimator.center), steps)
    return _opposite_ends(estimator, n, _exponent, resting, math.tan(angle) / angle)


def _all_at_one_end(estimator: PrivateFrechetMean, n: int) -> Neighbours:
    """The K-norm law in a ball: with all records at the rim it has half the room of other data."""
    check_count(minimum=2, n=n)
    geometry, radius = _geometry(estimator.manifold), float(estimator.radius)
    center, far = _center(geometry, estimator.center), _outside(geometry, radius)
    beyond = _on_axis(geometry, center, [-far, far])
    rim = _on_axis(geometry, center, [-radius, radius])
    rows, other = _swapped(np.broadcast_to(beyond[0], (n, *geometry.shape)), beyond[1])

    def score(model: PrivateFrechetMean) -> float:
        # Log-likelihood ratio up to the scale and a constant: lengths of the sums of logarithms.
        here, there = geometry.log_coordinates(np.stack([model.mean_] * 2), rim) / radius
        return float(np.linalg.norm(n * here) - np.linalg.norm((n - 1) * here + there))

    return Neighbours((rows,), (other,), score)


def _exponent(model: PrivateFrechetMean) -> float:
    """Exponent of the noise law's density."""
    if model.mechanism_ in ("laplace", "k-norm"):
        return 1.0
    event: Any = model.privacy_spent_.planned_event
    laplace = any(part.kind == "laplace" for part in getattr(event, "events", (event,)))
    return 1.0 if laplace else 2.0


@worst_case_neighbours.register
def _class_means(estimator: PrivateMinimumDistanceToMean, n: int = 100) -> Neighbours:
    check_count(minimum=4, n=n)
    geometry, center, points, _ = _at_an_end(estimator, n, first=1.0)
    pair = _class_sums(estimator, n)
    if not _shows_moment(estimator, geometry, n):
        return pair
    turned = np.eye(2, geometry.dim)[1] * geometry.dist(center, points[0])
    pair.neighbour[0][0] = geometry.exp_coordinates(center, turned)
    return dataclasses.replace(pair, score=_turned_score)


def _class_sums(estimator: PrivateMinimumDistanceToMean, n: int) -> Neighbours:
    """A record that changes its class and its end of the ball; of sums and counts by class."""
    geometry, _, points, record = _at_an_end(estimator, n, first=1.0)
    classes = np.unique([0, 1] if estimator.classes is None else np.asarray(estimator.classes))
    X, Z = _swapped(points, record)
    y, z = _swapped(np.resize(classes[:2], n), classes[1])
    others = np.array([np.count_nonzero(y[1:] == label) for label in classes[:2]])

    def score(model: PrivateMinimumDistanceToMean) -> float:
        if estimator.uncertainty:
            return _lifted_score(model)
        counts = model.class_counts_[:2]
        sums = geometry.log_coordinates(model.center_, model.means_[:2]) * counts[:, None]
        sums = sums / model.radius_
        if estimator.delta > 0:
            return float(counts[1] - counts[0] - sums[:, 0].sum())
        # Log-likelihood ratio of the pure noise: the record is in one class, or in the other.
        counts = counts - others
        noise = []
        for index, end in ((0, 1.0), (1, -1.0)):
            rest = sums.copy()
            rest[index, 0] -= end
            sizes = np.abs(counts - np.eye(2)[index])
            noise.append(np.maximum(np.linalg.norm(rest, axis=1), sizes).sum())
        return float(noise[0] - noise[1])

    return Neighbours((X, y), (Z, z), score)


def _shows_moment(estimator: PrivateMinimumDistanceToMean, geometry: Geometry, n: int) -> bool:
    """Whether a fit in a public ball releases a second moment of all classes together."""
    if _given(estimator.radius, "private") is None or geometry.dim < 2:
        return False
    return any(release.name == MOMENT for release in estimator.plan(n, geometry.shape).releases)


def _turned_score(model: PrivateMinimumDistanceToMean) -> float:
    """Log-likelihood of the record along the second axis, less that along the first one."""
    linear = model._rule.linear
    assert linear is not None
    found = linear.found
    sums = np.diff(np.diag(found.sums[:2, :2]))[0] + found.counts[1] - found.counts[0]
    second = SHORTER**2 * np.diff(np.diag(found.second)[:2])[0]
    return float(sums / found.sum_sigma**2 + second / found.second_sigma**2)


def _lifted_score(model: PrivateMinimumDistanceToMean) -> float:
    """Released second moments, sums and counts of two classes, along what the record changes."""
    scores = []
    for known, turn in zip(model.inference_[:2], (1.0, -1.0), strict=True):
        if known is None:
            scores.append(0.0)
            continue
        along = known.first[0] / known.radius, known.second[0, 0] / known.radius**2
        scores.append(float(known.n * (1.0 + 2.0 * turn * along[0] + along[1])))
    return scores[1] - scores[0]


# -- principal components -------------------------------------------------------------------------


@worst_case_neighbours.register
def _components(estimator: PrivatePrincipalEigenvector, n: int = 100) -> Neighbours:
    check_count(minimum=4, n=n)
    d = int(estimator.n_components) + 1
    public = _given(estimator.row_norm, "private") is not None
    length = 10.0 * float(estimator.row_norm) if public else 1.0
    if estimator.delta == 0:
        return _first_or_second(n, d, length)
    if estimator.mechanism == "gradient" and public:
        # Short enough for one step to come close to the leading direction, and not to overshoot.
        length = float(estimator.row_norm) * min(1.0, (2.0 * STEP_SIZE) ** -0.5)
    # The others lie on the first axis, about zero.  The record that changes lies between the first
    # two axes, on either side: its two products with the first axis differ as much as they may.
    rows = np.zeros((n, d))
    rows[:, 0] = np.resize([length, -length], n)
    rows[0, :2] = 30.0 * length
    record = rows[0].copy()
    record[1] *= -1.0
    X, Z = _swapped(rows, record)

    def score(model: PrivatePrincipalEigenvector) -> float:
        frame = model.components_
        if model.mechanism_ != "covariance":
            return -float(frame[0, 0] * frame[0, 1])
        # All eigenvalues are released, and one direction is left: this is the noisy matrix.
        values = model.spectrum_[: len(frame)] - model.spectrum_[-1]
        return -float((frame.T * values)[0] @ frame[:, 1]) / model.row_norm_**2

    return Neighbours((X,), (Z,), score)


def _first_or_second(n: int, d: int, length: float) -> Neighbours:
    """One record that is not zero, on the first axis or the second; for pure privacy."""
    X, Z = _swapped(length * np.eye(n, d) * np.eye(n, 1), length * np.eye(d)[1])

    def score(model: PrivatePrincipalEigenvector) -> float:
        frame = model.components_
        # One direction is left: this is the noisy matrix.  Its log-likelihood ratio, up to d = 20.
        last = model.spectrum_[-1]
        matrix = (frame.T * (model.spectrum_[:-1] - last)) @ frame + last * np.eye(d)
        step = model.row_norm_**2 / n
        sides = [matrix - step * np.diag(np.eye(d)[axis]) for axis in (0, 1)]
        first, second = (_largest_trace_part(side) for side in sides)
        return (first - second) / step

    return Neighbours((X,), (Z,), score)


def _largest_trace_part(matrix: np.ndarray) -> float:
    values = np.linalg.eigvalsh(matrix)
    return float(max(values[values > 0].sum(), -values[values < 0].sum()))


# -- supervised models ----------------------------------------------------------------------------


@worst_case_neighbours.register
def _hyperbolic(estimator: PrivateHyperbolicRegressor, n: int = 100) -> Neighbours:
    check_count(minimum=4, n=n)
    # Labels have two dimensions unless `manifold` has more or fewer.
    manifold = None if estimator.manifold is None else _geometry(estimator.manifold)
    geometry, space = label_space(manifold, 2 if manifold is None else manifold.shape[0])
    # Records on both sides, as far as they go, pull equally at whatever the model becomes.
    far = 1.2 * float(estimator.radius)
    labels = np.zeros((n, geometry.dim))
    labels[:, 0] = np.resize([-far, far], n)
    labels = layout(labels, space, False)
    column = labels.shape[1] - geometry.dim  # what comes before the first space coordinate
    X = np.zeros((n, 2))
    y, z = _swapped(labels, labels[1])
    queries = X[:1]
    if estimator.mechanism == "per-query":
        # Distinct rows, all as good as the same.
        queries = 1e-15 * np.arange(estimator.n_queries)[:, None] * np.ones((1, 2))

    def score(model: PrivateHyperbolicRegressor) -> float:
        return float(model.predict(queries)[:, column].sum())

    return Neighbours((X, y), (X, z), score)


@worst_case_neighbours.register
def _geodesic(estimator: PrivateGeodesicRegressor, n: int = 100) -> Neighbours:
    check_count(minimum=4, n=n)
    geometry, center, points, record = _at_an_end(estimator, n)
    y, z = _swapped(points, record)
    # Features as long as they may be: their products with the response differ most.
    X = np.zeros((n, 2))
    scale = _given(estimator.feature_scale, "private")
    if scale is None:
        X[:] = np.random.default_rng(1).uniform(-0.05, 0.05, size=(n, 2))
    X[0, 0] = 3.0 * (1.0 if scale is None else float(np.max(scale)))

    def score(model: PrivateGeodesicRegressor) -> float:
        found = np.reshape(model.predict(X[:1]), (1, *geometry.shape))
        return float(geometry.log_coordinates(center, found)[0, 0])

    return Neighbours((X, y), (X, z), score)


@worst_case_neighbours.register
def _linear(estimator: PrivateNoisyAdaGrad, n: int = 100) -> Neighbours:
    check_count(minimum=4, n=n)
    X = np.zeros((n, 2))
    norm = estimator.feature_norm
    if isinstance(norm, str):  # what is found is about the length of these rows
        X[:, 1], norm = np.resize([1.0, -1.0], n), 1.0
    X[0] = [10.0 * norm, 0.0]
    if estimator.loss in ("squared_error", "huber"):
        found = isinstance(estimator.target_range, str)
        ends = np.asarray((-1.0, 1.0) if found else estimator.target_range, dtype=float)
    else:
        ends = np.unique([0, 1] if estimator.classes is None else np.asarray(estimator.classes))
    y, z = _swapped(np.resize(ends[:2], n), ends[1])

    def score(model: PrivateNoisyAdaGrad) -> float:
        if getattr(model, "is_constant_", False):
            return float(model.intercept_)
        coef = np.atleast_2d(model.coef_)
        slope = coef[0, 0] if len(coef) == 1 else coef[1, 0] - coef[0, 0]
        return float(slope * model.feature_norm_)

    return Neighbours((X, y), (X, z), score)


@worst_case_neighbours.register
def _tangent_model(estimator: PrivateTangentClassifier, n: int = 100) -> Neighbours:
    check_count(minimum=4, n=n)
    _, _, points, _ = _at_an_end(estimator, n, first=1.0)
    classes = np.unique([0, 1] if estimator.classes is None else np.asarray(estimator.classes))
    y, z = _swapped(np.resize(classes[:2], n), classes[1])

    def score(model: PrivateTangentClassifier) -> float:
        coef = model.coef_
        slope = coef[0, 0] if len(coef) == 1 else coef[1, 0] - coef[0, 0]
        return float(slope * model.radius_)

    return Neighbours((points, y), (points, z), score)


@worst_case_neighbours.register
def _completion(estimator: PrivateMatrixCompletion, n: int = 100) -> Neighbours:
    check_count(minimum=4, n=n)
    low, high = estimator.bounds
    d = 12
    rows = np.full((n, d), 0.5 * (low + high))
    signs = np.resize([1.0, -1.0], d)
    # Beyond the bounds, but no zeros, which would be no ratings.
    least, most = 1.5 * low - 0.5 * high - 1e-3, 1.5 * high - 0.5 * low + 1e-3
    rows[0] = np.where(signs > 0, least, most)
    X, Z = _swapped(rows, np.where(signs > 0, most, least))

    def score(model: PrivateMatrixCompletion) -> float:
        return float(model.item_effects_ @ signs)

    return Neighbours((X,), (Z,), score)


@worst_case_neighbours.register
def _minimiser(estimator: PrivateRiemannianERM, n: int = 100) -> Neighbours:
    check_count(minimum=4, n=n)
    if not estimator._is_mean:
        raise PublicTypeError(
            "no worst case is known for a cost of your own; pass Neighbours of two data sets whose "
            "changed record has gradients longer than clip_norm, in opposite directions."
        )
    geometry = _geometry(estimator.manifold)
    center = _center(geometry, estimator.center)
    limit = geometry.injectivity_radius
    far = 10.0 * float(estimator.clip_norm)
    if math.isfinite(limit):
        far = min(far, 0.45 * limit)
    # Half of the records on either side, each with the longest gradient wherever the iterate is; in
    # small batches the choice of these would be as loud as the noise, so there they keep silent.
    places = np.resize([-far, far], n)
    if estimator.batch_size is not None:
        places[1:] = 0.0
    X, Z = _swapped(
        _on_axis(geometry, center, places), _on_axis(geometry, center, np.array([far]))[0]
    )

    def score(model: PrivateRiemannianERM) -> float:
        return float(np.asarray(geometry.log_coordinates(center, model.point_))[..., 0])

    return Neighbours((X,), (Z,), score)


# -- estimators around estimators -----------------------------------------------------------------


@worst_case_neighbours.register
def _federation(estimator: FederatedEstimator, n: int = 100) -> Neighbours:
    model = estimator.estimator
    # Clients give no second moment of all classes.
    by_class = isinstance(model, PrivateMinimumDistanceToMean)
    inner = _class_sums(model, n) if by_class else worst_case_neighbours(model, n)
    clients = int(estimator.clients_per_round)

    def federated(
        sides: Iterable[tuple[int, Any]],
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        # The first client holds the pair; the others hold the records that do not change.
        arrays = [np.concatenate([a, *[inner.data[i]] * (clients - 1)]) for i, a in sides]
        owners = np.repeat(np.arange(clients), n)
        return (arrays[0], arrays[1] if len(arrays) > 1 else None, owners)

    changed = inner.neighbour
    if estimator.unit == "client":
        # All records of one client at one end, or at the other.
        sides = [tuple(np.repeat(a[:1], n, axis=0) for a in d) for d in (inner.data, changed)]
        inner, changed = dataclasses.replace(inner, data=sides[0]), sides[1]

    def score(model: FederatedEstimator) -> float:
        return inner.score(_as_fitted(model))

    return Neighbours(federated(enumerate(inner.data)), federated(enumerate(changed)), score)


def _as_fitted(model: FederatedEstimator) -> PrivateEstimator:
    """Set on the inner estimator of a federated model the attributes that its score reads."""
    inner = model.estimator_
    if isinstance(inner, PrivateFrechetMean) and model.local != "statistic":
        geometry = _geometry(inner.manifold)
        inner.center_, inner.radius_ = _center(geometry, inner.center), float(inner.radius)
        inner.mechanism_ = "gradient"
    return inner


@worst_case_neighbours.register
def _search(estimator: PrivateGridSearchCV, n: int = 100) -> Neighbours:
    inner = clone(estimator.estimator)
    inner = inner.set_params(**next(iter(ParameterGrid(estimator.param_grid))))
    pair = worst_case_neighbours(inner, n)
    # The record that changes has to train; who trains is public.
    (trains, _), _ = estimator._split(np.arange(n), None)
    order = np.arange(n)
    order[[0, trains[0]]] = order[[trains[0], 0]]
    data, neighbour = (tuple(a[order] for a in side) for side in (pair.data, pair.neighbour))

    def score(model: PrivateGridSearchCV) -> float:
        # A search of no run tells nothing.
        return pair.score(model.best_estimator_) if model.best_estimator_ is not None else 0.0

    return Neighbours(data, neighbour, score)
