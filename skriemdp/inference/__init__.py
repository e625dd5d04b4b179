"""Confidence regions and tests for private means, from released numbers alone."""

from __future__ import annotations

from skriemdp.inference.medians import MedianInference
from skriemdp.inference.moments import MeanInference
from skriemdp.inference.regions import ConfidenceRegion
from skriemdp.inference.testing import MeanTestResult, mean_test

__all__ = ["ConfidenceRegion", "MeanInference", "MeanTestResult", "MedianInference", "mean_test"]
