"""Layout of a point made of (nested, complex) arrays as one vector of real numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skriemdp._errors import PublicValueError


@dataclass(frozen=True)
class Layout:
    """A tree of arrays: a leaf has a shape, a branch has children and the type that holds them."""

    array_shape: tuple[int, ...] | None = None
    is_complex: bool = False
    container: type | None = None
    children: tuple[Layout, ...] = ()

    @classmethod
    def of(cls, value: Any) -> Layout:
        """The layout of an example."""
        if isinstance(value, (list, tuple)):
            return cls(container=type(value), children=tuple(cls.of(child) for child in value))
        array = np.asarray(value)
        return cls(array_shape=array.shape, is_complex=np.iscomplexobj(array))

    @property
    def is_real_array(self) -> bool:
        return self.array_shape is not None and not self.is_complex and self.array_shape != ()

    @property
    def size(self) -> int:
        """Number of real numbers."""
        if self.array_shape is None:
            return sum(child.size for child in self.children)
        return math.prod(self.array_shape) * (2 if self.is_complex else 1)

    def pack(self, value: Any) -> np.ndarray:
        """The real numbers of `value`, one flat vector."""
        if self.array_shape is None:
            parts = zip(self.children, value, strict=True)
            return np.concatenate([child.pack(part) for child, part in parts])
        array = np.asarray(value).reshape(self.array_shape).ravel()
        if self.is_complex:
            return np.concatenate([array.real, array.imag]).astype(np.float64)
        return np.asarray(array.real, dtype=np.float64)

    def pack_rows(self, value: Any) -> np.ndarray:
        """The real numbers of a batch of values, ``(..., size)``; ValueError where none fit."""
        if self.array_shape is None:
            if not isinstance(value, (list, tuple)) or len(value) != len(self.children):
                raise PublicValueError(f"{len(self.children)} arrays are asked for.")
            pairs = zip(self.children, value, strict=True)
            return np.concatenate([child.pack_rows(part) for child, part in pairs], axis=-1)
        array, axes = np.asarray(value), len(self.array_shape)
        batch = array.shape[: array.ndim - axes]
        if array.shape[len(batch) :] != self.array_shape:
            raise PublicValueError(f"an array (..., {self.array_shape}) is asked for.")
        array = array.reshape(*batch, math.prod(self.array_shape))
        if self.is_complex:
            array = np.concatenate([array.real, array.imag], axis=-1)
        return np.asarray(array.real, dtype=np.float64)

    def view(self, flat: Any) -> Any:
        """:meth:`unpack` by the slicing of an array of any backend, and without copies."""
        if self.array_shape is None:
            parts, start = [], 0
            for child in self.children:
                parts.append(child.view(flat[start : start + child.size]))
                start += child.size
            named: Any = self.container
            return named(*parts) if hasattr(named, "_fields") else tuple(parts)
        half = math.prod(self.array_shape)
        if self.is_complex:
            real, imaginary = flat[:half], flat[half : 2 * half]
            return real.reshape(self.array_shape) + 1j * imaginary.reshape(self.array_shape)
        return flat[:half].reshape(self.array_shape)

    def unpack(self, flat: np.ndarray) -> Any:
        """Inverse of :meth:`pack`; numbers beyond `size` are ignored."""
        if self.array_shape is None:
            parts, start = [], 0
            for child in self.children:
                parts.append(child.unpack(flat[start : start + child.size]))
                start += child.size
            assert self.container is not None  # a branch has one
            if hasattr(self.container, "_fields"):  # a named tuple takes its fields one by one
                return self.container(*parts)
            return self.container(parts)
        flat = flat[: self.size]
        if self.is_complex:
            flat = flat[: self.size // 2] + 1j * flat[self.size // 2 :]
        return flat.reshape(self.array_shape).copy()
