"""Audits: lower bounds on the epsilon of any release, worst-case neighbours, whole fits."""

from skriemdp.auditing._bounds import AuditResult, audit_epsilon, audit_scores
from skriemdp.auditing._canaries import Neighbours, worst_case_neighbours
from skriemdp.auditing._refits import EstimatorAudit, audit_estimator

__all__ = [
    "AuditResult",
    "EstimatorAudit",
    "Neighbours",
    "audit_epsilon",
    "audit_estimator",
    "audit_scores",
    "worst_case_neighbours",
]
