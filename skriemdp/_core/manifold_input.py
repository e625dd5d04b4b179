"""Input whose records are points of a manifold: layout, membership, the public ball."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from skriemdp._containers import COMPLEX, plain
from skriemdp._errors import PublicValueError
from skriemdp._mechanisms.counts import noisy_clip_fraction
from skriemdp._quiet import quietly, read_records
from skriemdp._validation import check_scale
from skriemdp._warnings import warn_user
from skriemdp.geometry._ball import GeodesicBall, descent_reach, within_center_reach
from skriemdp.geometry._base import Geometry
from skriemdp.geometry._convert import as_geometry
from skriemdp.geometry._foreign import complex_cure, kind_of, layout_cure
from skriemdp.geometry._tiles import map_tiles

# Keywords of scikit-learn's validate_data for point-valued records.
CHECKS: dict[str, Any] = {"allow_nd": True, "dtype": np.float64, "ensure_all_finite": True}


def geometry_of(X: Any, manifold: Any) -> Geometry:
    """Geometry of `manifold` for records X; flat rows of square matrices count as matrices."""
    shape = X.shape[1:]
    if X.ndim == 2 and isinstance(manifold, str) and manifold.startswith("spd"):
        size = math.isqrt(X.shape[1])
        if size * size == X.shape[1]:
            shape = (size, size)
    try:
        return as_geometry(manifold, point_shape=shape)
    except ValueError as error:
        problem, hint = str(error), layout_cure(kind_of(manifold), X.shape)
    raise PublicValueError(f"{problem} {hint}".rstrip())


def read_points(estimator: Any, X: Any, *y: Any, manifold: Any, **checks: Any) -> Any:
    """:func:`skriemdp._quiet.read_records` of points, whose foreign forms are told by name."""
    quietly(lambda X: refuse_foreign(manifold, X), X)
    return read_records(estimator, X, *y, **(CHECKS | checks))


def refuse_foreign(manifold: Any, X: Any, name: str = "X") -> None:
    """Refuse complex points, and lists of the parts of points, with what becomes of them."""
    kind = kind_of(manifold)
    if getattr(getattr(X, "dtype", None), "kind", "") == "c" and complex_cure(kind):
        raise PublicValueError(
            f"{name} holds complex numbers. Complex data not supported. {complex_cure(kind)}"
        )
    if kind != "product" or not isinstance(X, (list, tuple)):
        return
    shapes, lengths = [np.shape(part)[1:] for part in X], {np.shape(part)[:1] for part in X}
    if shapes == [factor.shape for factor in manifold.factors] and len(lengths) == 1:
        raise PublicValueError(
            f"{name} is a list of the parts of all points; make one array of them: "
            "manifold.join(*X)."
        )


def checked_points(X: Any, manifold: Any, name: str = "X") -> tuple[Geometry, Any]:
    """The geometry of `X`, called `name`, and its rows as points, all of which lie on it."""
    geometry = geometry_of(X, manifold)
    points = as_points(geometry, X, name)
    check_membership(geometry, points, name)
    return geometry, points


def as_points(geometry: Geometry, X: Any, name: str = "X") -> Any:
    """`X`, called `name`, as points: flat rows reshaped, SPD matrices made symmetric.

    Every record is then one point, whichever entries a computation reads; the other checks come
    after, but what is not symmetric beyond rounding is refused here, before it is made so.
    """
    flat = X.ndim == 2 or bool(geometry.factors)  # copies of a manifold may keep their axis
    if X.shape[1:] == geometry.shape or (
        flat and math.prod(X.shape[1:]) == math.prod(geometry.shape)
    ):
        points = X.reshape(len(X), *geometry.shape)
        canonical = geometry.canonical(points)
        if canonical is not points and asymmetric(geometry, points).any():
            _refuse(geometry, "symmetric", name)
        return canonical
    hint = layout_cure(kind_of(geometry), X.shape)
    if not hint and geometry.symmetric_matrices:
        hint = "Every row must be one matrix of that size, or its entries in a flat row."
    problem = (
        f"{name} has rows of shape {X.shape[1:]}, but points of {geometry} have shape "
        f"{geometry.shape}. {hint}"
    )
    raise PublicValueError(problem.rstrip())


# What cures matrices that are not what their geometry asks for.
_CURES = {
    "finite": "Replace what is missing by public numbers, record by record. Do not leave such "
    "records out: their number is public, and would tell of one of them.",
    "symmetric": "Check the layout; (X + X.swapaxes(1, 2)) / 2 mends rounding (tolerance 1e-6 of "
    "the largest entry), and X @ X.swapaxes(1, 2) multiplies triangular factors.",
    "positive definite": "Covariances are singular after an average reference, with a constant or "
    "repeated channel, or with fewer samples than channels: shrink each by itself, "
    "sklearn.covariance.shrunk_covariance(X, 0.01), drop a channel, or project to full rank. "
    "What changes each record on its own costs no privacy.",
}


def asymmetric(geometry: Geometry, points: Any) -> np.ndarray:
    """Return a mask of the rows that should be symmetric matrices and are not, beyond rounding."""
    if not geometry.symmetric_matrices:
        return np.zeros(len(points), dtype=bool)
    from skriemdp.geometry._spd.base import differ_from_transposes  # which such a geometry loaded

    wrong = differ_from_transposes(points)
    different = points[wrong]
    with np.errstate(all="ignore"):
        gaps = np.abs(different - np.swapaxes(different, -1, -2)).max(axis=(-2, -1))
        wrong[wrong] = gaps > 1e-6 * np.abs(different).max(axis=(-2, -1))
    return wrong


def _refuse(geometry: Geometry, word: str, name: str) -> None:
    raise PublicValueError(
        f"some matrices of {name} are not points of {geometry}: they are not {word}. {_CURES[word]}"
    )


def check_membership(geometry: Any, points: Any, name: str = "X") -> None:
    """Raise unless every row is a point; says that some are not, never how many, which or what."""
    belongs = np.asarray(map_tiles(geometry.belongs, points))
    if belongs.all():
        _check_turns(geometry, points, name)
        return
    word = geometry.complaint(points[~belongs])
    if word in _CURES:
        _refuse(geometry, word, name)
    cure = f"{geometry.remedy} {layout_cure(kind_of(geometry), points.shape)}".rstrip()
    raise PublicValueError(
        f"some rows of {name} are not points of {geometry} (tolerance 1e-6); {cure}"
    )


def _check_turns(geometry: Any, points: Any, name: str) -> None:
    """Raise where a number cannot be an angle in the unit of its circle: beyond one turn of zero.

    Read in another unit than its own, an angle would go round many times, without a word.
    """
    if geometry.factors:
        for factor, part in zip(geometry.factors, geometry.split(points), strict=True):
            _check_turns(factor, part, name)
    elif (np.abs(points) > geometry.turn * (1 + 1e-6)).any():
        raise PublicValueError(
            f"some angles of {name} are more than one turn of {geometry} from zero, so they may be "
            "in another unit. In degrees: numpy.deg2rad(X) for manifold='circle', or "
            "manifold=skriemdp.geometry.Circle(360.0); else Circle(length) with the length of a "
            f"turn in their unit. In this unit: numpy.mod(X, {geometry.turn!r})."
        )


def public_array(name: str, value: Any) -> np.ndarray:
    """A public parameter as an array of floats; ValueError if it is no such thing."""
    value = plain(value, name)
    if np.iscomplexobj(value):
        raise PublicValueError(f"{name} {COMPLEX}")
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise PublicValueError(
            f"{name} must hold real numbers that fit into floats, and no text."
        ) from None


def public_point(geometry: Geometry, **values: Any) -> Any:
    """A public point given by the user, checked; the keyword names the parameter."""
    ((name, value),) = values.items()
    if isinstance(value, (list, tuple)):  # of the parts of a point, perhaps
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            value = geometry.from_parts(value)
    value = public_array(name, value)
    if value.size == math.prod(geometry.shape):
        value = value.reshape(geometry.shape)
    if value.shape != geometry.shape:
        raise PublicValueError(f"{name} must have shape {geometry.shape}, got shape {value.shape}.")
    if not np.isfinite(value).all():
        raise PublicValueError(
            f"{name} must be finite, but holds NaN or infinity, or a missing or masked entry."
        )
    if not bool(np.all(geometry.belongs(value))):
        word = geometry.complaint(value[None])
        cure = f"it is not {word}." if word else f"for X = numpy.array([{name}]): {geometry.remedy}"
        raise PublicValueError(f"{name} is not a point of {geometry} (tolerance 1e-6); {cure}")
    _check_turns(geometry, value, name)
    return geometry.canonical(value)


def check_reach(geometry: Geometry, **values: Any) -> None:
    """Raise unless a public point lies where coordinates keep their digits."""
    ((name, point),) = values.items()
    if not within_center_reach(geometry, point):
        distance = float(geometry.dist(geometry.base_point, point))
        raise PublicValueError(
            f"{name} lies {distance:.3g} from the base point of {geometry}, where coordinates have "
            "lost their digits (at most 17 curvature radii); move the data by an isometry that "
            "brings it to the base point."
        )


def check_descent_radius(
    geometry: Geometry, radius: float, cure: str = "pass a smaller one"
) -> None:
    """Raise where a ball is too wide for sums away from its centre."""
    limit = descent_reach(geometry)
    if radius > limit:
        raise PublicValueError(
            f"radius={radius:g} is above {limit:.4g}, where sums of logarithms away from the "
            f"center lose their digits on {geometry}; {cure}."
        )


def descent_domain(
    geometry: Geometry, center: Any, radius: float | None, start: Any
) -> tuple[GeodesicBall | None, Any]:
    """Public ball in which a descent stays (None: everywhere), and where it starts.

    On negatively curved manifolds a descent needs one: far from the base point no float can hold
    what it computes.  Without a `radius` it is the widest ball that is allowed, about the start.

    Parameters
    ----------
    geometry : Geometry
    center, start : array-like or None
        Public points; the base point, and the centre, by default.
    radius : float or None

    Raises
    ------
    ValueError
        If a point lies too far out or the ball is too wide; nothing has been charged.
    """
    middle = geometry.base_point if center is None else public_point(geometry, center=center)
    point = middle if start is None else public_point(geometry, start=start)
    limit = descent_reach(geometry)
    if radius is not None:
        check_scale(radius=radius)
        check_descent_radius(geometry, float(radius))
        check_reach(geometry, center=middle)
        domain = GeodesicBall(geometry, middle, float(radius))
        return domain, np.asarray(domain.project(point))
    if limit == math.inf:
        return None, point
    if limit >= geometry.radius_limit:
        raise PublicValueError(
            f"radius is required on {geometry}: one of its factors is negatively curved, where a "
            "descent needs a public ball, and another one is curved upwards, where a ball must be "
            f"smaller than {geometry.radius_limit:.4g}; pass such a radius."
        )
    check_reach(geometry, **{"center" if start is None else "start": point})
    return GeodesicBall(geometry, point, limit), point


def check_descent_domain(geometry: Geometry, domain: GeodesicBall | None) -> None:
    """Raise where a descent could leave the range of floats, or its domain is of another space."""
    limit = descent_reach(geometry)
    if domain is None:
        if limit < math.inf:
            raise PublicValueError(
                f"domain is required on {geometry}, which is negatively curved: far out no float "
                "can hold a descent. Pass a public GeodesicBall(geometry, center, radius) with a "
                f"radius of at most {limit:.4g}."
            )
        return
    if domain.geometry != geometry:
        raise PublicValueError(
            f"domain is a ball of {domain.geometry}, but points are of {geometry}."
        )
    check_descent_radius(geometry, domain.radius)
    check_reach(geometry, **{"center of the domain": domain.center})


def _has_units(geometry: Any) -> bool:
    """Whether points are measured in some unit, so that no base point is near them by itself."""
    return geometry.scaling is not None or any(map(_has_units, geometry.factors))


def public_ball(geometry: Geometry, center: Any, radius: float) -> GeodesicBall:
    """The public ball of the parameters `center` and `radius`.

    None stands for the base point, where that is a place that data of this kind are near: zero of
    a Euclidean space, the root of a hyperbolic one, a pole, the first axes.
    """
    check_scale(radius=radius)
    if isinstance(center, str):
        raise PublicValueError(f"center={center!r} is not a point of {geometry} nor 'private'.")
    if center is None and _has_units(geometry):
        raise PublicValueError(
            f"radius={radius:g} needs a center on {geometry}: how far the data are from the "
            "identity depends on their unit of measurement. Pass a public center=, of the data's "
            "size (the identity, np.eye(m), for rows that were recentred or whitened), or "
            "radius='private', which finds both privately."
        )
    point = geometry.base_point if center is None else public_point(geometry, center=center)
    check_reach(geometry, center=point)
    return GeodesicBall(geometry, point, float(radius))


def warn_published_labels(classes: Any) -> None:
    """Warn, whatever the labels are, when the list of classes is read off them."""
    if classes is None:
        warn_user(
            "classes=None publishes which labels occur in y, without noise; pass classes=, the "
            "public list of all possible labels."
        )


def bounds_cure(**requested: str | None) -> str:
    """Say which bounds to change where they clip the data; private ones are not mentioned.

    Parameters
    ----------
    **requested : str or None
        For each parameter that bounds the data: what asks for a private one instead of the public
        one in use, "" where none can be had; None where it was found privately.

    Examples
    --------
    >>> bounds_cure(center=None, radius="radius='private'")
    "choose radius from public knowledge of the data's range, or pass radius='private'."
    """
    public = {name: way for name, way in requested.items() if way is not None}
    if not public:
        names = " and ".join(requested)
        return (
            f"use more records or a larger epsilon, or pass a public {names} that the data's range "
            "is known to be within."
        )
    cure = f"choose {' and '.join(public)} from public knowledge of the data's range"
    ways = [way for way in public.values() if way]
    return cure + (f", or pass {' and '.join(ways)}." if len(ways) == len(public) else ".")


def ball_cure(center: Any, radius: Any, searchable: bool) -> str:
    """:func:`bounds_cure` of the parameters `center` and `radius` of a ball."""
    at, within = ("center='private'", "radius='private'") if searchable else ("", "")
    if not isinstance(radius, str):
        return bounds_cure(center=None if isinstance(center, str) else at, radius=within)
    if center is None or isinstance(center, str):
        return bounds_cure(center=None, radius=None)
    return bounds_cure(radius=None)


def warn_small_search(n: int, mu: float, cure: str = "a public center and radius") -> None:
    """Warn, from public numbers, when a private ball says little; `mu` is that of the whole fit.

    `cure` is what may be passed instead of the search.
    """
    if n * mu < 40.0:
        warn_user(
            f"n={n} is few for a private ball at this epsilon: n mu = {n * mu:.3g}. "
            "Below 20 the result says next to nothing, from 35 to 60 it is off by .1 to .5 times "
            f"the spread of the data, at 100 by about .1, at 300 by .05. Pass {cure}, or use more "
            "records or a larger epsilon."
        )


# Smallest n mu / sqrt(number of parameters) without a warning (benchmarks/adagrad.py --warned).
LEAST_SIGNAL = 20.0


def warn_small_model(n: int, signal: float) -> None:
    """Warn, from public numbers, when a model says little: n mu over the root of its parameters."""
    if signal < LEAST_SIGNAL:
        warn_user(
            f"n={n} is few for so many parameters at this epsilon: n mu over their root "
            f"is {signal:.3g}. Below 10 a model is hardly better than one answer for all rows. Use "
            "more records, a larger epsilon, fewer features or a public subspace."
        )


def warn_constant(signal: float, least: float, public: str) -> None:
    """Warn, from public numbers, that a regressor is one constant.

    Parameters
    ----------
    signal, least : float
        n mu, and what a model needs.
    public : str
        Which parameters would say where the targets lie.
    """
    warn_user(
        f"n mu is {signal:.3g}, below {least:g}, and it has to be found where y lies: this fit is "
        "one constant, the mean of y, because a model would be noise (is_constant_). Use more "
        f"records or a larger epsilon, or pass a public {public}."
    )


def clipped_share(
    noisy: float, sigma: float, expected: float, radius: float, cure: str, pure: bool = False
) -> float:
    """A released fraction within [0, 1]; warns when far more rows were clipped than planned.

    Parameters
    ----------
    noisy, sigma : float
        Released fraction of clipped rows, and the standard deviation of its noise.
    expected : float
        Fraction that the radius was meant to clip.
    radius : float
        Public, or released.
    cure : str
        Of :func:`ball_cure`.
    pure : bool, default=False
        Whether the noise is Laplace.
    """
    advice = f"lie outside the ball of radius {radius:g} and were projected on it; {cure}"
    return noisy_clip_fraction(noisy, sigma, expected, advice, pure)
