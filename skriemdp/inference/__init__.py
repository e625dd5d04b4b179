"""Confidence regions and tests for private means, from released numbers alone."""

from __future__ import annotations

from skriemdp.inference._medians import MedianInference
from skriemdp.inference._moments import MeanInference
from skriemdp.inference._regions import ConfidenceRegion
from skriemdp.inference._testing import MeanTestResult, mean_test

__all__ = ["ConfidenceRegion", "MeanInference", "MeanTestResult", "MedianInference", "mean_test"]
