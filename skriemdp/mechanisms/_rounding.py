"""Noisy floats on a public grid: hides what floating-point addition tells of the exact value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skriemdp._arrays import array_namespace

__all__ = ["on_public_grid"]

# Spacing of the grid, at most this many powers of two below the noise: fine enough to add nothing
# to the error (a relative 2**-43 of the variance), and 30 bits above the last bit of the sum.
_BITS_BELOW_NOISE = 20


def on_public_grid(noisy: Any, sigma: float) -> Any:
    """Round a noisy float, or an array, to multiples of a power of two that only `sigma` decides.

    The floating-point sum ``value + noise`` is a multiple of the last bit of the larger of the two,
    so its low bits say which values it can have come from: a sum close to zero with bits below
    those of a candidate value excludes that candidate (docs/sharp-edges.md).  On the grid every
    candidate reaches every point.  This is post-processing and costs no budget; it closes that
    channel, and proves nothing about the others (docs/theory/lattice.md).
    """
    spacing = math.ldexp(1.0, max(math.frexp(sigma)[1] - 1 - _BITS_BELOW_NOISE, -1000))
    if isinstance(noisy, float):
        return round(noisy / spacing) * spacing if math.isfinite(noisy / spacing) else noisy
    if type(noisy) is np.ndarray:
        return np.rint(noisy / spacing) * spacing
    return array_namespace(noisy).round(noisy / spacing) * spacing
