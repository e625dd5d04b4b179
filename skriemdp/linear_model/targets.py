"""Targets as the losses want them: class numbers, or reals scaled to [-1, 1]."""

from __future__ import annotations

from typing import Any

import numpy as np

from skriemdp._validation import shown

__all__ = ["scaled_targets", "target_interval"]


def target_interval(target_range: Any) -> tuple[float, float]:
    """The public bounds of a regressor's targets, checked."""
    try:
        low, high = (float(v) for v in target_range)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"target_range must be a pair of numbers, got {shown(target_range)}."
        ) from None
    if not (abs(low) <= 1e100 and abs(high) <= 1e100 and high - low >= 1e-100):
        raise ValueError(
            f"target_range must be increasing numbers up to 1e100, got {(low, high)!r}."
        )
    return low, high


def scaled_targets(
    y: Any, classes: np.ndarray | None, interval: tuple[float, float] | None, name: str
) -> np.ndarray:
    """Class numbers in `classes`, or targets clipped to `interval` and scaled to [-1, 1]."""
    if classes is None:
        assert interval is not None
        low, high = interval
        y = np.clip(np.asarray(y, dtype=float), low, high)
        return (y - 0.5 * (low + high)) / (0.5 * (high - low))
    if not np.isin(y, classes).all():
        raise ValueError(f"{name} has labels that are not in classes; list every label.")
    return np.searchsorted(classes, y).astype(float)
