"""Names for the types that annotations use again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

if TYPE_CHECKING:
    import torch

__all__ = ["Array", "Size"]

# What a kernel takes and gives back: an array of NumPy, or of torch where that is installed.
Array: TypeAlias = Union[np.ndarray, "torch.Tensor"]
# The `size` of a draw, as NumPy's generators take it.
Size: TypeAlias = int | tuple[int, ...]
