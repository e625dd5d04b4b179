"""PriRFed: private Riemannian federated learning."""

from typing import TYPE_CHECKING, Any

from skriemdp.federated._agent import Agent, AnswerBook, SumsAgent
from skriemdp.federated._attendance import reply
from skriemdp.federated._cohort import Cohort, Identity
from skriemdp.federated._cohort_loop import CohortLoop
from skriemdp.federated._estimator import FederatedEstimator
from skriemdp.federated._local_agent import LocalAgent
from skriemdp.federated._loop import Checkpoint, InProcessTransport, ServerLoop
from skriemdp.federated._messages import LocalTask, LocalUpdate, RefusedUpdate
from skriemdp.federated._queries import KernelQuery, LabelQuery, ridge_weights
from skriemdp.federated._releases import Participation
from skriemdp.federated._sums import (
    AggregatorLoop,
    SumsLoop,
    learn_from_sums,
    sums_agent,
    sums_agreement,
)
from skriemdp.federated._theory import theory_settings
from skriemdp.federated._training import LocalSettings

if TYPE_CHECKING:
    from skriemdp.federated.flower import FlowerAccountant

__all__ = [
    "Agent",
    "AggregatorLoop",
    "AnswerBook",
    "Checkpoint",
    "Cohort",
    "CohortLoop",
    "FederatedEstimator",
    "Identity",
    "InProcessTransport",
    "KernelQuery",
    "LabelQuery",
    "LocalAgent",
    "LocalSettings",
    "LocalTask",
    "LocalUpdate",
    "Participation",
    "RefusedUpdate",
    "ServerLoop",
    "SumsAgent",
    "SumsLoop",
    "learn_from_sums",
    "reply",
    "ridge_weights",
    "sums_agent",
    "sums_agreement",
    "theory_settings",
]


def __getattr__(name: str) -> Any:
    if name == "FlowerAccountant":  # needs Flower, which nothing else here does
        from skriemdp.federated import flower

        return flower.FlowerAccountant
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
