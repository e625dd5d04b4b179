"""Keyword validators: messages name the argument, the finding and the cure."""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from skriemdp._errors import PublicTypeError, PublicValueError


def shown(value: object) -> str:
    """`value` as a message shows it: its repr, if that is short and can be written at all."""
    try:
        text = repr(value)
    except Exception:  # a huge int has no repr, and an object may have any
        return f"one of type {type(value).__name__}"
    return text if len(text) <= 200 else text[:100] + "..."


def _real(name: str, value: Any, wanted: str) -> float:
    """`value` as a float; TypeError if it is no number, ValueError if no float can hold it."""
    # The abstract class is asked last: that takes a microsecond, and a step checks several numbers.
    real = type(value) in (float, int) or isinstance(value, numbers.Real)
    if not real or isinstance(value, bool):
        raise PublicTypeError(f"{name} must be {wanted}, got {shown(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number) and not isinstance(value, float) and value not in (math.inf, -math.inf):
        raise PublicValueError(f"{name} must be {wanted}, got a number too large for a float.")
    return number


def plain_number(value: Any) -> Any:
    """A number as Python's own float or int; anything else as it is.

    Arithmetic takes the precision of a narrow type, ``numpy.float32(0.1)`` for instance: bounds and
    spacings would be rounded towards the public, and products of short integers overflow.
    """
    if type(value) in (float, int, bool) or not isinstance(value, numbers.Real):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def plain_numbers(settings: Any) -> None:
    """Apply :func:`plain_number` to the fields of a frozen dataclass, from its `__post_init__`."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if (made := plain_number(value)) is not value:
            object.__setattr__(settings, field.name, made)


def check_positive(*, allow_inf: bool = False, **values: Any) -> None:
    """Raise unless each keyword argument is a positive real number (finite, unless `allow_inf`)."""
    for name, value in values.items():
        if type(value) is float and 0.0 < value < math.inf:
            continue
        number = _real(name, value, "a positive real number")
        if math.isnan(number) or number <= 0 or (math.isinf(number) and not allow_inf):
            raise PublicValueError(f"{name} must be a positive finite number, got {shown(value)}.")


def check_scale(*, allow_inf: bool = False, **values: Any) -> None:
    """Raise unless each keyword argument is a positive real number whose square is safe.

    Bounds of norms are compared through squares, and products of them through fourth powers; where
    these underflow or overflow, a vector could escape its bound.
    """
    check_positive(allow_inf=allow_inf, **values)
    _check_range(1e-60, 1e60, values)


def check_factor(**values: Any) -> None:
    """Raise unless each keyword argument is a positive real number whose square is a normal float.

    For lengths, penalties and step sizes, which multiply and divide but bound nothing.
    """
    check_positive(**values)
    _check_range(1e-100, 1e100, values)


def _check_range(least: float, most: float, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if not least <= float(value) <= most and not math.isinf(value):
            raise PublicValueError(
                f"{name} must lie between {least:g} and {most:g}, got {value!r}; change the unit "
                "of measurement."
            )


def check_nonnegative(**values: Any) -> None:
    """Raise unless each keyword argument is a finite real number >= 0."""
    for name, value in values.items():
        number = _real(name, value, "a real number >= 0")
        if not math.isfinite(number) or number < 0:
            raise PublicValueError(f"{name} must be a finite number >= 0, got {shown(value)}.")


def check_fraction(*, open_left: bool = True, open_right: bool = True, **values: Any) -> None:
    """Raise unless each keyword argument lies between 0 and 1 (ends excluded where `open_*`)."""
    for name, value in values.items():
        number = _real(name, value, "a real number in (0, 1)")
        low = number > 0 if open_left else number >= 0
        high = number < 1 if open_right else number <= 1
        if not (low and high):
            left, right = "(" if open_left else "[", ")" if open_right else "]"
            raise PublicValueError(f"{name} must lie in {left}0, 1{right}, got {shown(value)}.")


def check_count(*, minimum: int = 1, **values: Any) -> None:
    """Raise unless each keyword argument is an integer >= `minimum`."""
    for name, value in values.items():
        whole = type(value) is int or isinstance(value, numbers.Integral)
        if not whole or isinstance(value, bool):
            raise PublicTypeError(f"{name} must be an integer >= {minimum}, got {shown(value)}.")
        if int(value) < minimum:
            raise PublicValueError(f"{name} must be an integer >= {minimum}, got {shown(value)}.")
        # Larger counts fit into no array index.
        if int(value) > 2**62:
            raise PublicValueError(f"{name} must be at most 2**62, got {shown(value)}.")


def check_order(order: Any) -> None:
    """Raise unless `order` is one of a Renyi divergence: a number above 1, or infinity."""
    if not _real("order", order, "a number above 1") > 1.0:
        raise PublicValueError(f"order must be a number above 1, got {shown(order)}.")


# More worker processes than this fail on any machine, and a fit is charged before they start.
_MOST_JOBS = 1024


def check_jobs(n_jobs: Any) -> None:
    """Raise unless `n_jobs` is None, -1 for one worker per processor, or a sane number of them."""
    if n_jobs is None or (isinstance(n_jobs, numbers.Integral) and n_jobs == -1):
        return
    check_count(n_jobs=n_jobs)
    if n_jobs > _MOST_JOBS:
        raise PublicValueError(
            f"n_jobs must be at most {_MOST_JOBS}, got {shown(n_jobs)}; pass -1 for one per "
            "processor."
        )


def check_instance(kind: type, cure: str, **values: Any) -> None:
    """TypeError unless each keyword argument is an object of this class; `cure` says how to get it.

    What was passed is told by its type alone: it may be records, in the place of something else.
    """
    for name, value in values.items():
        if not isinstance(value, kind):
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            raise PublicTypeError(
                f"{name} must be {article} {kind.__name__}, got {type(value).__name__}; {cure}."
            )


def check_path(**values: Any) -> None:
    """TypeError unless each keyword argument is a path: a number would be that of an open file."""
    for name, value in values.items():
        if not isinstance(value, (str, bytes, os.PathLike)):
            raise PublicTypeError(f"{name} must be a path, got {type(value).__name__}.")


def check_generator(rng: Any) -> None:
    """TypeError unless `rng` is a generator of random numbers of NumPy."""
    check_instance(np.random.Generator, "pass numpy.random.default_rng()", rng=rng)


def check_methods(wanted: str, *methods: str, **values: Any) -> None:
    """TypeError unless each keyword argument is an object with these methods, in words `wanted`."""
    for name, value in values.items():
        if isinstance(value, type) or not all(callable(getattr(value, m, None)) for m in methods):
            raise PublicTypeError(f"{name} must be {wanted}, got {type(value).__name__}.")


def check_function(name: str, value: Any, *arguments: str) -> None:
    """Raise unless `value` is a function that can be called with these arguments.

    A class is none, nor a built-in function that does not say what it takes: one that was passed by
    mistake would fail after a charge.
    """
    try:
        takes = callable(value) and not isinstance(value, type)
        inspect.signature(value).bind(*arguments) if takes else None
    except (TypeError, ValueError):
        takes = False
    if not takes:
        raise PublicTypeError(
            f"{name} must be a function ({', '.join(arguments)}), got {shown(value)}; pass "
            f"lambda {', '.join(arguments)}: ..., or leave it out."
        )


def _equal(value: Any, option: Any) -> bool:
    try:
        return bool(value == option)
    except Exception:  # an array has no single answer
        return False


def check_option(options: Iterable[Any], **values: Any) -> None:
    """Raise unless each keyword argument is one of `options`."""
    for name, value in values.items():
        if not any(value is option or _equal(value, option) for option in options):
            listed = ", ".join(repr(option) for option in options)
            raise PublicValueError(f"{name}={shown(value)} is not one of {listed}.")


# Noise scales are in proportion to 1 / epsilon, and their squares must stay ordinary floats.
_LEAST_EPSILON = 1e-30
# Above this epsilon a guarantee is void, and samplers and exponentials leave the range of floats.
_MOST_EPSILON = 1e12
# Below this delta, calibration of noise leaves the range of floats.
_LEAST_DELTA = 1e-100


def check_privacy(epsilon: Any, delta: Any) -> None:
    """Raise unless (epsilon, delta) is a privacy target that a private release can have."""
    if _real("epsilon", epsilon, "a positive real number") == math.inf:
        raise PublicValueError(
            "epsilon=inf asks for no privacy; use the non-private function instead (for a mean: "
            "skriemdp.frechet_mean)."
        )
    check_positive(epsilon=epsilon)
    if float(epsilon) < _LEAST_EPSILON:
        raise PublicValueError(
            f"epsilon={shown(epsilon)} is below {_LEAST_EPSILON:g}: the noise would leave the "
            "range of floats; use a larger epsilon."
        )
    if float(epsilon) > _MOST_EPSILON:
        raise PublicValueError(
            f"epsilon={shown(epsilon)} is above {_MOST_EPSILON:g} and protects nobody; use a "
            "smaller epsilon, or a method that is not private."
        )
    check_fraction(open_left=False, delta=delta)
    if 0.0 < float(delta) < _LEAST_DELTA:
        raise PublicValueError(
            f"delta={shown(delta)} is below {_LEAST_DELTA:g}, where noise cannot be calibrated; "
            "use a larger delta, or 0 where a method offers pure privacy."
        )
