"""Foreign forms of points: how files keep them, told by shape, and the line that makes them ours.

Cures are Python: a test runs each on the form that it is named for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["complex_cure", "kind_of", "layout_cure"]

Shape = tuple[int, ...]


def kind_of(manifold: Any) -> str:
    """Return the sort of points that a name or a geometry stands for; "" where it is unknown."""
    if isinstance(manifold, str):
        return "spd" if manifold.startswith("spd") else manifold
    return str(getattr(manifold, "form", ""))


@dataclass(frozen=True)
class Form:
    """A foreign form.

    Parameters
    ----------
    kinds : str
        Of geometries whose points it is a form of; separated by spaces.
    fits : callable
        Whether an array of this shape, records first or not, looks like it.
    cure : str or callable
        What it is and the line that mends it; of the shape.
    """

    kinds: str
    fits: Callable[..., bool]
    cure: str | Callable[..., str]


def _root(count: int, sign: int) -> int | None:
    """The m with ``m (m + sign) / 2 == count``."""
    m = (math.isqrt(8 * count + 1) - sign) // 2
    return m if m * (m + sign) == 2 * count and m > 1 else None


_LAST = "records come first: numpy.moveaxis(X, -1, 0)."
_INDICES = "with i = numpy.arange({m}); j, k = numpy.maximum.outer(i, i), numpy.minimum.outer(i, i)"


def _half(shape: Shape) -> str:
    m = _root(shape[1], 1)
    return (
        f"rows of {shape[1]} numbers are halves of {m} x {m} matrices; fill both halves "
        f"{_INDICES.format(m=m)}: X[:, j * (j + 1) // 2 + k] for lower triangles row by row, "
        f"X[:, k * ({2 * (m or 0) - 1} - k) // 2 + j] for upper ones."
    )


def _half_without_diagonal(shape: Shape) -> str:
    m = _root(shape[1], -1)
    return (
        f"rows of {shape[1]} numbers are halves of {m} x {m} matrices, without their diagonal; "
        f"fill both halves {_INDICES.format(m=m)}: "
        "numpy.where(j == k, 1.0, X[:, numpy.where(j == k, 0, j * (j - 1) // 2 + k)]) for lower "
        "triangles row by row."
    )


def _copies(shape: Shape) -> str:
    b, m = shape[1], shape[2]
    return (
        f"{b} matrices for each record are a point of a product: pass manifold="
        f"skriemdp.geometry.Product(*[skriemdp.geometry.SPD({m})] * {b}, stacked=True)."
    )


def _is_wide(shape: Shape) -> bool:
    return len(shape) == 2 and shape[0] < shape[1]


# Foreign layouts of points by kind; the first that fits the shape is named in the message.
_FORMS = (
    Form("spd correlation rotations", lambda s: len(s) == 3 and s[0] == s[1] != s[2], _LAST),
    Form("shapes", lambda s: len(s) == 3 and s[1] == 2 != s[2] > s[0], _LAST),
    Form(
        "grassmann stiefel",
        lambda s: len(s) == 3 and s[1] < s[2] and s[1] <= s[0] < s[2],
        _LAST,
    ),
    Form(
        "spd correlation rotations shapes grassmann stiefel",
        lambda s: len(s) == 4 and s[3] == 1,
        "an axis of length one comes last: X[..., 0].",
    ),
    Form(
        "spd correlation rotations shapes grassmann stiefel",
        lambda s: len(s) == 4 and s[1] == 1,
        "an axis of length one comes second: X[:, 0].",
    ),
    Form("spd", lambda s: len(s) == 4 and s[2] == s[3], _copies),
    Form(
        "spd",
        lambda s: len(s) == 3 and s[1] != s[2],
        "signals of channels x samples have covariances: numpy.stack([numpy.cov(x) for x in X]), "
        "each from its own record.",
    ),
    Form(
        "correlation",
        lambda s: len(s) == 3 and s[1] != s[2],
        "signals of channels x samples have correlations: "
        "numpy.stack([numpy.corrcoef(x) for x in X]), each from its own record.",
    ),
    Form("spd", lambda s: len(s) == 2 and _root(s[1], 1) is not None, _half),
    Form(
        "correlation",
        lambda s: len(s) == 2 and _root(s[1], -1) is not None,
        _half_without_diagonal,
    ),
    Form("rotations", lambda s: s[1:] == (9,), "flat matrices: X.reshape(-1, 3, 3)."),
    Form(
        "rotations",
        lambda s: s[1:] == (4,),
        "quaternions: scipy.spatial.transform.Rotation.from_quat(X).as_matrix(), where the scalar "
        "comes last; numpy.roll(X, -1, axis=1) puts it there.",
    ),
    Form(
        "rotations",
        lambda s: s[1:] == (3,),
        "rotation vectors: scipy.spatial.transform.Rotation.from_rotvec(X).as_matrix(); Euler "
        "angles: scipy.spatial.transform.Rotation.from_euler('xyz', X).as_matrix().",
    ),
    Form("rotations", lambda s: s[1:] == (4, 4), "poses: X[:, :3, :3] are their rotations."),
    Form(
        "rotations",
        lambda s: s[1:] == (2, 2),
        "turns of the plane are angles: manifold='circle' takes "
        "numpy.arctan2(X[:, 1, 0], X[:, 0, 0])[:, None].",
    ),
    Form(
        "shapes",
        lambda s: len(s) == 3 and s[1] == 2,
        "landmarks come before coordinates: X.swapaxes(1, 2).",
    ),
    Form(
        "shapes",
        lambda s: len(s) == 2 and s[1] % 2 == 0,
        "flat landmarks: X.reshape(len(X), -1, 2).",
    ),
    Form(
        "shapes",
        lambda s: len(s) == 3 and s[2] == 3,
        "landmarks in space have no geometry here; X[..., :2] are their projections on a plane.",
    ),
    Form(
        "grassmann",
        lambda s: len(s) == 3 and s[1] == s[2],
        "projectors on subspaces of dimension p: numpy.linalg.eigh(X)[1][..., -p:].",
    ),
    Form(
        "stiefel",
        lambda s: s[1:] == (3, 3),
        "square orthogonal matrices are rotations: manifold='rotations'.",
    ),
    Form(
        "grassmann stiefel",
        lambda s: len(s) == 3 and s[1] < s[2],
        "vectors are columns: X.swapaxes(1, 2).",
    ),
    Form(
        "grassmann stiefel",
        lambda s: len(s) == 2,
        "vectors are matrices of one column: "
        "(X / numpy.linalg.norm(X, axis=1, keepdims=True))[:, :, None].",
    ),
    Form(
        "circle",
        lambda s: s[1:] == (2,),
        "points of the plane have angles: numpy.arctan2(X[:, 1], X[:, 0])[:, None].",
    ),
    Form(
        "circle",
        lambda s: len(s) == 2 and s[0] == 1 < s[1],
        "records come first: X.T.",
    ),
    Form(
        "circle",
        lambda s: len(s) == 2 and s[1] > 2,
        "several angles for each record are a point of a product: pass manifold="
        "skriemdp.geometry.Product(*[skriemdp.geometry.Circle(2 * numpy.pi)] * X.shape[1]).",
    ),
    Form(
        "sphere",
        lambda s: len(s) == 2 and s[1] == 1,
        "angles are points of manifold='circle'.",
    ),
    Form(
        "sphere hyperboloid poincare",
        lambda s: len(s) == 3 and s[2] == 1,
        "an axis of length one comes last: X[..., 0].",
    ),
    Form("sphere hyperboloid poincare", _is_wide, "records come first: X.T."),
)


def layout_cure(kind: str, shape: Shape) -> str:
    """Say what a whole array of this shape looks like, and the cure; "" if nothing fits."""
    shape = tuple(shape)
    for form in _FORMS:
        if kind in form.kinds.split() and form.fits(shape):
            return form.cure if isinstance(form.cure, str) else form.cure(shape)
    return ""


_DOUBLED = (
    "Hermitian matrices become real ones of twice the size: "
    "numpy.block([[X.real, -X.imag], [X.imag, X.real]])."
)
_SIDE_BY_SIDE = (
    "Real and imaginary parts become columns: numpy.concatenate([X.real, X.imag], axis=-1)."
)
_COMPLEX = {
    "spd": _DOUBLED,
    "correlation": _DOUBLED,
    "grassmann": "Complex subspaces become real ones of twice the size: "
    "numpy.block([[X.real, -X.imag], [X.imag, X.real]]).",
    "circle": "Complex numbers have angles: numpy.angle(X).",
    "shapes": "Complex landmarks have two coordinates: numpy.stack([X.real, X.imag], axis=-1).",
    "sphere": _SIDE_BY_SIDE,
    "poincare": _SIDE_BY_SIDE,
    "euclidean": _SIDE_BY_SIDE,
}


def complex_cure(kind: str) -> str:
    """Say which real points replace complex ones of this kind; "" if there is no rule."""
    return _COMPLEX.get(kind, "")
