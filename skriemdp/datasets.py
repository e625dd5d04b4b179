"""Real and synthetic manifold-valued data for examples, tests and benchmarks."""

from __future__ import annotations

import numpy as np

from skriemdp._validation import check_count, check_nonnegative, check_positive

__all__ = ["digits_covariances", "make_cloud", "region_covariance"]


def region_covariance(images, *, regularization: float = 1e-3):
    """Region covariance descriptors of grey images: 5 x 5 SPD matrices.

    Each pixel gives the features (row, column, intensity, absolute vertical and horizontal
    gradient), all scaled to [0, 1] by their known ranges; the descriptor is their covariance over
    the image plus `regularization` times the identity (Tuzel, Porikli and Meer 2006).

    Parameters
    ----------
    images : array-like of shape (n, height, width)
        Intensities in [0, 1].
    regularization : float, default=1e-3
        A public floor of the eigenvalues.

    Returns
    -------
    ndarray of shape (n, 5, 5)
    """
    check_positive(regularization=regularization)
    images = np.asarray(images, dtype=float)
    if images.ndim != 3 or min(images.shape) < 2:
        raise ValueError(f"images must have shape (n, height, width), got {images.shape}.")
    n, height, width = images.shape
    vertical, horizontal = np.gradient(images, axis=(1, 2))
    rows, columns = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")
    features = np.stack(
        [
            np.broadcast_to(rows, images.shape),
            np.broadcast_to(columns, images.shape),
            images,
            np.abs(vertical),
            np.abs(horizontal),
        ],
        axis=-1,
    ).reshape(n, -1, 5)
    centred = features - features.mean(axis=1, keepdims=True)
    covariances = centred.transpose(0, 2, 1) @ centred / (height * width)
    return covariances + regularization * np.eye(5)


def digits_covariances(*, regularization: float = 1e-3):
    """Region covariances of scikit-learn's bundled handwritten digits.

    Returns
    -------
    X : ndarray of shape (1797, 5, 5)
    y : ndarray of shape (1797,)
        The digit.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    return region_covariance(digits.images / 16.0, regularization=regularization), digits.target


def make_cloud(geometry, n, *, center=None, radius=1.0, offset=0.0, spread=None, rng=None):
    """Synthetic cloud of points in a ball, for benchmarks.

    Parameters
    ----------
    geometry : Geometry
    n : int
    center : ndarray of shape ``geometry.shape``, optional
        Centre of the ball; the geometry's base point by default.
    radius : float
    offset : float, default=0
        Distance from `center` to the tangent centre of the cloud, as a fraction of `radius`.
    spread : float, optional
        Root mean square distance of the cloud from its centre, as a fraction of `radius`; by
        default the points are uniform in the tangent ball.
    rng : numpy.random.Generator, optional

    Returns
    -------
    ndarray of shape (n, *geometry.shape)
        Every point lies in the ball.
    """
    check_count(n=n)
    check_positive(radius=radius)
    check_nonnegative(offset=offset)
    rng = np.random.default_rng() if rng is None else rng
    center = geometry.base_point if center is None else np.asarray(center, dtype=float)
    direction = rng.standard_normal(geometry.dim)
    shift = offset * radius * direction / np.linalg.norm(direction)
    steps = rng.standard_normal((n, geometry.dim))
    if spread is None:
        lengths = radius * (1.0 - offset) * rng.random((n, 1)) ** (1.0 / geometry.dim)
        steps *= lengths / np.linalg.norm(steps, axis=1, keepdims=True)
    else:
        steps *= spread * radius / np.sqrt(geometry.dim)
    coordinates = shift + steps
    norms = np.linalg.norm(coordinates, axis=1, keepdims=True)
    coordinates *= np.minimum(1.0, radius / np.maximum(norms, 1e-300))
    return geometry.exp(center, geometry.tangent_from_coordinates(center, coordinates))
