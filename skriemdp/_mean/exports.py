"""Exports of released means, by post-processing: synthetic records, and pyRiemann's objects."""

from __future__ import annotations

import math
import secrets
from typing import Any

import numpy as np

from skriemdp._config import check_bytes
from skriemdp._errors import PublicValueError
from skriemdp._random import check_random_state, public_generator
from skriemdp._validation import check_count
from skriemdp.geometry._base import Geometry
from skriemdp.inference._covariances import factor


def pyriemann_metric(geometry: Geometry) -> str:
    """pyRiemann's name for the metric of `geometry`; ValueError where it has none."""
    if geometry.pyriemann_metric is None:
        raise PublicValueError(
            f"pyRiemann has no points of {geometry}; fit on manifold='spd', 'spd-log-euclidean' or "
            "'spd-bures-wasserstein'."
        )
    return geometry.pyriemann_metric


def synthetic_points(
    geometry: Geometry, mean: np.ndarray, covariance: np.ndarray, n: Any, random_state: Any
) -> np.ndarray:
    """Points whose coordinates at `mean` are Gaussian with this covariance, shape (n, *shape)."""
    points, _ = synthetic_classes(geometry, mean[None], [covariance], np.ones(1), n, random_state)
    return points


def synthetic_classes(
    geometry: Geometry,
    means: np.ndarray,
    covariances: Any,
    counts: np.ndarray,
    n: Any,
    random_state: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Points of classes with these means, covariances and relative sizes; and their classes."""
    check_count(n=n)
    check_random_state(random_state)
    each = 2.0 + 3.0 * geometry.dim + 3.0 * math.prod(geometry.shape)
    check_bytes(8.0 * n * each, f"n={n} records", "")
    seed = secrets.randbits(64) if random_state is None else int(random_state)
    rng = public_generator(seed, "synthetic records")
    labels = rng.choice(len(counts), size=int(n), p=counts / counts.sum())
    vectors = rng.standard_normal((int(n), geometry.dim))
    points = np.empty((int(n), *geometry.shape))
    for k in np.unique(labels):
        drawn = vectors[labels == k] @ factor(covariances[k]).T
        points[labels == k] = geometry.exp_coordinates(means[k], drawn)
    return points, labels
