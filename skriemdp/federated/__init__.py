"""PriRFed: private Riemannian federated learning."""

from typing import TYPE_CHECKING, Any

from skriemdp.federated.agent import Agent, AnswerBook, SumsAgent
from skriemdp.federated.attendance import reply
from skriemdp.federated.cohort import Cohort, Identity
from skriemdp.federated.cohort_loop import CohortLoop
from skriemdp.federated.estimator import FederatedEstimator
from skriemdp.federated.local_agent import LocalAgent
from skriemdp.federated.loop import Checkpoint, InProcessTransport, ServerLoop
from skriemdp.federated.messages import LocalTask, LocalUpdate, RefusedUpdate
from skriemdp.federated.queries import KernelQuery, LabelQuery, ridge_weights
from skriemdp.federated.releases import Participation
from skriemdp.federated.sums import (
    AggregatorLoop,
    SumsLoop,
    learn_from_sums,
    sums_agent,
    sums_agreement,
)
from skriemdp.federated.theory import theory_settings
from skriemdp.federated.training import LocalSettings

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
