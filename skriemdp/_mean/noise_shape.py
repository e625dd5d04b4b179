"""Noise of a public shape: more along directions in which the data vary, less along others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._core.manifold_input import public_array
from skriemdp._errors import PublicValueError
from skriemdp._location_scale.rows import row_products
from skriemdp._validation import shown

# Relative asymmetry and negative eigenvalues that count as rounding.
_ROUNDING = 1e-8


@dataclass(frozen=True, eq=False)
class NoiseShape:
    """A public linear map: records are shortened behind its inverse, noise comes out through it.

    Parameters
    ----------
    root : ndarray of shape (dim, dim)
        A, symmetric and positive definite.
    inverse : ndarray of shape (dim, dim)
        Its inverse.

    Notes
    -----
    With S the second moments that are given, ``s = tr S / d`` and the blend ``S' = (S + s I) / 2``,
    ``A = S'^(1/4) (tr S'^(1/2) / tr S')^(1/2)``: at equal radius the noise is never larger than
    round noise (``tr A^2 <= d``), no record is lengthened by more than ``sqrt(2)`` (``|A^-1|^2 <=
    2``), and whatever the second moments of the records are, the noise at which equally many of
    them are shortened has at most ``sqrt(2)`` times the mean square of round noise
    (docs/theory/sensitivity.md, section 11).  Privacy does not depend on A: what bounds a record is
    its length behind the inverse.
    """

    root: np.ndarray
    inverse: np.ndarray

    @classmethod
    def of(cls, moments: np.ndarray) -> NoiseShape:
        """The shape for second moments, a symmetric positive semidefinite matrix."""
        size = len(moments)
        moments = moments / np.trace(moments)
        values, vectors = np.linalg.eigh(0.5 * (moments + np.eye(size) / size))
        values = np.maximum(values, 0.5 / size)
        scale = np.sqrt(np.sum(np.sqrt(values)) / np.sum(values))
        roots = scale * values**0.25
        return cls((vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T)

    @property
    def noise(self) -> float:
        """Root mean square of the noise's scales along the axes, over that of round noise."""
        return float(np.sqrt(np.sum(self.root**2) / len(self.root)))

    def enter(self, rows: np.ndarray) -> np.ndarray:
        """Rows behind the inverse, each from its own numbers alone."""
        with np.errstate(all="ignore"):
            return row_products(rows, self.inverse)

    def leave(self, vectors: np.ndarray) -> np.ndarray:
        """Released vectors as they were before :meth:`enter`."""
        return vectors @ self.root


def read_shape(shape: Any, dim: int) -> NoiseShape | None:
    """The noise shape of a public parameter; None for round noise.

    Raises
    ------
    ValueError
        Unless it is a symmetric positive semidefinite (dim, dim) matrix with positive trace, or its
        diagonal.
    """
    if shape is None:
        return None
    found = public_array("shape", shape)
    if found.shape not in ((dim, dim), (dim,)):
        raise PublicValueError(
            f"shape must hold second moments of the {dim} tangent coordinates at the center, "
            f"({dim}, {dim}), or their diagonal, ({dim},); got shape {found.shape}."
        )
    if found.ndim == 1:
        found = np.diag(found)
    largest = float(np.abs(found).max())
    if not np.isfinite(largest) or not 1e-100 < float(np.trace(found)) < 1e100:
        raise PublicValueError(f"shape must be finite with a positive trace, got {shown(shape)}.")
    if np.abs(found - found.T).max() > _ROUNDING * largest:
        raise PublicValueError("shape must be symmetric; pass (shape + shape.T) / 2.")
    found = 0.5 * (found + found.T)
    if np.linalg.eigvalsh(found)[0] < -_ROUNDING * largest:
        raise PublicValueError(
            "shape must be positive semidefinite, as a mean of outer products v v' is."
        )
    return NoiseShape.of(found)
