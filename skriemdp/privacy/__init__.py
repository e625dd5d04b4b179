"""Events, calibration and sensitivities: the cost of releases, in numbers only.

Each name is loaded on first use.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "ApproximateEvent": "skriemdp.privacy._events",
    "ComposedEvent": "skriemdp.privacy._events",
    "Event": "skriemdp.privacy._events",
    "FixedSizeSampledGaussianEvent": "skriemdp.privacy._events",
    "GaussianEvent": "skriemdp.privacy._events",
    "LaplaceEvent": "skriemdp.privacy._laplace",
    "MixtureEvent": "skriemdp.privacy._events",
    "ParallelEvent": "skriemdp.privacy._events",
    "PoissonSampledGaussianEvent": "skriemdp.privacy._events",
    "ProfileEvent": "skriemdp.privacy._events",
    "PureEvent": "skriemdp.privacy._events",
    "SeededEvent": "skriemdp.privacy._events",
    "SelectionEvent": "skriemdp.privacy._events",
    "SelfComposedEvent": "skriemdp.privacy._events",
    "Sensitivity": "skriemdp.privacy._sensitivity",
    "ZCDPEvent": "skriemdp.privacy._events",
    "answers_sensitivity": "skriemdp.privacy._sensitivity",
    "as_drawn": "skriemdp.privacy._events",
    "as_event": "skriemdp.privacy._foreign",
    "ball_logarithms_sensitivity": "skriemdp.privacy._sensitivity",
    "ball_sensitivity": "skriemdp.privacy._sensitivity",
    "calibrate": "skriemdp.privacy._calibration",
    "check_sensitivity": "skriemdp.privacy._sensitivity",
    "class_moments_sensitivity": "skriemdp.privacy._sensitivity",
    "compose": "skriemdp.privacy._events",
    "event_from_dict": "skriemdp.privacy._events",
    "exact_moment_norm": "skriemdp.privacy._sensitivity",
    "exact_total_sensitivity": "skriemdp.privacy._sensitivity",
    "frame_product_sensitivity": "skriemdp.privacy._sensitivity",
    "frechet_mean_sensitivity": "skriemdp.privacy._sensitivity",
    "gaussian_delta": "skriemdp.privacy._calibration",
    "gaussian_epsilon": "skriemdp.privacy._calibration",
    "gaussian_mu": "skriemdp.privacy._calibration",
    "gradient_root_sensitivity": "skriemdp.privacy._sensitivity",
    "grouped_sum_sensitivity": "skriemdp.privacy._sensitivity",
    "interval_sensitivity": "skriemdp.privacy._sensitivity",
    "iterated_mean_sensitivity": "skriemdp.privacy._sensitivity",
    "laplace_law": "skriemdp.privacy._laplace",
    "leading_eigenvalues_sensitivity": "skriemdp.privacy._sensitivity",
    "log_gaussian_delta": "skriemdp.privacy._calibration",
    "log_lipschitz": "skriemdp.privacy._sensitivity",
    "mean_sensitivity": "skriemdp.privacy._sensitivity",
    "second_moment_sensitivity": "skriemdp.privacy._sensitivity",
    "semidefinite_sum_sensitivity": "skriemdp.privacy._sensitivity",
    "sums_and_counts_sensitivity": "skriemdp.privacy._sensitivity",
    "trace_part_sensitivity": "skriemdp.privacy._sensitivity",
    "weighted_sum_sensitivity": "skriemdp.privacy._sensitivity",
    "with_tolerance": "skriemdp.privacy._sensitivity",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:  # so that type checkers know what the names of `_HOME` are
    from skriemdp.privacy._calibration import calibrate as calibrate
    from skriemdp.privacy._calibration import gaussian_delta as gaussian_delta
    from skriemdp.privacy._calibration import gaussian_epsilon as gaussian_epsilon
    from skriemdp.privacy._calibration import gaussian_mu as gaussian_mu
    from skriemdp.privacy._calibration import log_gaussian_delta as log_gaussian_delta
    from skriemdp.privacy._events import ApproximateEvent as ApproximateEvent
    from skriemdp.privacy._events import ComposedEvent as ComposedEvent
    from skriemdp.privacy._events import Event as Event
    from skriemdp.privacy._events import (
        FixedSizeSampledGaussianEvent as FixedSizeSampledGaussianEvent,
    )
    from skriemdp.privacy._events import GaussianEvent as GaussianEvent
    from skriemdp.privacy._events import MixtureEvent as MixtureEvent
    from skriemdp.privacy._events import ParallelEvent as ParallelEvent
    from skriemdp.privacy._events import PoissonSampledGaussianEvent as PoissonSampledGaussianEvent
    from skriemdp.privacy._events import ProfileEvent as ProfileEvent
    from skriemdp.privacy._events import PureEvent as PureEvent
    from skriemdp.privacy._events import SeededEvent as SeededEvent
    from skriemdp.privacy._events import SelectionEvent as SelectionEvent
    from skriemdp.privacy._events import SelfComposedEvent as SelfComposedEvent
    from skriemdp.privacy._events import ZCDPEvent as ZCDPEvent
    from skriemdp.privacy._events import as_drawn as as_drawn
    from skriemdp.privacy._events import compose as compose
    from skriemdp.privacy._events import event_from_dict as event_from_dict
    from skriemdp.privacy._foreign import as_event as as_event
    from skriemdp.privacy._laplace import LaplaceEvent as LaplaceEvent
    from skriemdp.privacy._laplace import laplace_law as laplace_law
    from skriemdp.privacy._sensitivity import Sensitivity as Sensitivity
    from skriemdp.privacy._sensitivity import answers_sensitivity as answers_sensitivity
    from skriemdp.privacy._sensitivity import (
        ball_logarithms_sensitivity as ball_logarithms_sensitivity,
    )
    from skriemdp.privacy._sensitivity import ball_sensitivity as ball_sensitivity
    from skriemdp.privacy._sensitivity import check_sensitivity as check_sensitivity
    from skriemdp.privacy._sensitivity import class_moments_sensitivity as class_moments_sensitivity
    from skriemdp.privacy._sensitivity import exact_moment_norm as exact_moment_norm
    from skriemdp.privacy._sensitivity import exact_total_sensitivity as exact_total_sensitivity
    from skriemdp.privacy._sensitivity import frame_product_sensitivity as frame_product_sensitivity
    from skriemdp.privacy._sensitivity import frechet_mean_sensitivity as frechet_mean_sensitivity
    from skriemdp.privacy._sensitivity import gradient_root_sensitivity as gradient_root_sensitivity
    from skriemdp.privacy._sensitivity import grouped_sum_sensitivity as grouped_sum_sensitivity
    from skriemdp.privacy._sensitivity import interval_sensitivity as interval_sensitivity
    from skriemdp.privacy._sensitivity import iterated_mean_sensitivity as iterated_mean_sensitivity
    from skriemdp.privacy._sensitivity import (
        leading_eigenvalues_sensitivity as leading_eigenvalues_sensitivity,
    )
    from skriemdp.privacy._sensitivity import log_lipschitz as log_lipschitz
    from skriemdp.privacy._sensitivity import mean_sensitivity as mean_sensitivity
    from skriemdp.privacy._sensitivity import second_moment_sensitivity as second_moment_sensitivity
    from skriemdp.privacy._sensitivity import (
        semidefinite_sum_sensitivity as semidefinite_sum_sensitivity,
    )
    from skriemdp.privacy._sensitivity import (
        sums_and_counts_sensitivity as sums_and_counts_sensitivity,
    )
    from skriemdp.privacy._sensitivity import trace_part_sensitivity as trace_part_sensitivity
    from skriemdp.privacy._sensitivity import weighted_sum_sensitivity as weighted_sum_sensitivity
    from skriemdp.privacy._sensitivity import with_tolerance as with_tolerance
else:

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(_import_module(_HOME[name]), name)
        raise AttributeError(f"module 'skriemdp.privacy' has no attribute {name!r}")
