"""Replace-one sensitivities, from public numbers."""

from __future__ import annotations

import math

__all__ = ["frechet_mean_sensitivity", "log_lipschitz"]


def log_lipschitz(kappa: float, distance: float) -> float:
    """Lipschitz constant of log_w on the ball of radius `distance` about w, curvature <= kappa."""
    x = math.sqrt(kappa) * distance if kappa > 0 else 0.0
    return 1.0 if x < 1e-9 else x / math.sin(x)


def frechet_mean_sensitivity(radius: float, n: int, kappa: float) -> float:
    """Largest move of the Frechet mean of n points of a ball when one is replaced."""
    if kappa <= 0:
        return 2.0 * radius / n
    return 2.0 * radius / (n * math.cos(math.sqrt(kappa) * radius) ** 2)
