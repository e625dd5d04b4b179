"""Symmetric positive definite matrices: one name for the three metrics."""

from __future__ import annotations

from skriemdp._errors import PublicValueError
from skriemdp._validation import check_option
from skriemdp.geometry._spd.affine import AffineInvariantSPD
from skriemdp.geometry._spd.base import SPDGeometry
from skriemdp.geometry._spd.bures import BuresWassersteinSPD
from skriemdp.geometry._spd.log_euclidean import LogEuclideanSPD

_METRICS: dict[str, type[SPDGeometry]] = {
    "affine-invariant": AffineInvariantSPD,
    "log-euclidean": LogEuclideanSPD,
    "bures-wasserstein": BuresWassersteinSPD,
}


def SPD(size: int, metric: str = "affine-invariant") -> SPDGeometry:
    """The geometry of ``size x size`` symmetric positive definite matrices under a metric.

    Parameters
    ----------
    size : int
        Number of rows.
    metric : {"affine-invariant", "log-euclidean", "bures-wasserstein"}
        Riemannian metric.

    Returns
    -------
    AffineInvariantSPD, LogEuclideanSPD or BuresWassersteinSPD

    Examples
    --------
    >>> from skriemdp.geometry import SPD
    >>> SPD(3)
    AffineInvariantSPD(size=3)
    """
    for ours, kind in _METRICS.items():
        if metric == kind.pyriemann_metric:
            raise PublicValueError(f"metric={metric!r} of pyRiemann is metric={ours!r} here.")
    check_option(tuple(_METRICS), metric=metric)
    return _METRICS[metric](size)
