"""Riemannian Gaussian and Laplace laws: samplers, events, output perturbation.

Each name is loaded on first use.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "GradientSum": "skriemdp.riemannian_laws._output",
    "InfeasibleTarget": "skriemdp.riemannian_laws._profiles",
    "KNormGradientMechanism": "skriemdp.riemannian_laws._output",
    "RiemannianEvent": "skriemdp.riemannian_laws._profiles",
    "RiemannianGaussian": "skriemdp.riemannian_laws._distributions",
    "RiemannianGaussianMechanism": "skriemdp.riemannian_laws._output",
    "RiemannianLaplace": "skriemdp.riemannian_laws._distributions",
    "RiemannianLaplaceMechanism": "skriemdp.riemannian_laws._output",
    "calibrated_riemannian_event": "skriemdp.riemannian_laws._profiles",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:  # so that type checkers know what the names of `_HOME` are
    from skriemdp.riemannian_laws._distributions import RiemannianGaussian as RiemannianGaussian
    from skriemdp.riemannian_laws._distributions import RiemannianLaplace as RiemannianLaplace
    from skriemdp.riemannian_laws._output import GradientSum as GradientSum
    from skriemdp.riemannian_laws._output import KNormGradientMechanism as KNormGradientMechanism
    from skriemdp.riemannian_laws._output import (
        RiemannianGaussianMechanism as RiemannianGaussianMechanism,
    )
    from skriemdp.riemannian_laws._output import (
        RiemannianLaplaceMechanism as RiemannianLaplaceMechanism,
    )
    from skriemdp.riemannian_laws._profiles import InfeasibleTarget as InfeasibleTarget
    from skriemdp.riemannian_laws._profiles import RiemannianEvent as RiemannianEvent
    from skriemdp.riemannian_laws._profiles import (
        calibrated_riemannian_event as calibrated_riemannian_event,
    )
else:

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(_import_module(_HOME[name]), name)
        raise AttributeError(f"module 'skriemdp.riemannian_laws' has no attribute {name!r}")
