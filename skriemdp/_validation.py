"""Keyword validators: messages name the argument, the finding and the cure."""

from __future__ import annotations

import math
import numbers


def _is_real(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_positive(*, allow_inf: bool = False, **values) -> None:
    """Raise unless each keyword argument is a positive real number (finite, unless `allow_inf`)."""
    for name, value in values.items():
        if not _is_real(value):
            raise TypeError(f"{name} must be a positive real number, got {value!r}.")
        if math.isnan(value) or value <= 0 or (math.isinf(value) and not allow_inf):
            raise ValueError(f"{name} must be a positive finite number, got {value!r}.")


def check_scale(*, allow_inf: bool = False, **values) -> None:
    """Raise unless each keyword argument is a positive real number whose square is safe.

    Bounds of norms are compared through squares, and products of them through fourth powers; where
    these underflow or overflow, a vector could escape its bound.
    """
    check_positive(allow_inf=allow_inf, **values)
    for name, value in values.items():
        if not 1e-60 <= float(value) <= 1e60 and not math.isinf(value):
            raise ValueError(
                f"{name} must lie between 1e-60 and 1e60, got {value!r}; change the unit of "
                "measurement."
            )


def check_nonnegative(**values) -> None:
    """Raise unless each keyword argument is a finite real number >= 0."""
    for name, value in values.items():
        if not _is_real(value):
            raise TypeError(f"{name} must be a real number >= 0, got {value!r}.")
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"{name} must be a finite number >= 0, got {value!r}.")


def check_fraction(*, open_left: bool = True, open_right: bool = True, **values) -> None:
    """Raise unless each keyword argument lies between 0 and 1 (ends excluded where `open_*`)."""
    for name, value in values.items():
        if not _is_real(value):
            raise TypeError(f"{name} must be a real number in (0, 1), got {value!r}.")
        low = value > 0 if open_left else value >= 0
        high = value < 1 if open_right else value <= 1
        if not (low and high):
            left, right = "(" if open_left else "[", ")" if open_right else "]"
            raise ValueError(f"{name} must lie in {left}0, 1{right}, got {value!r}.")


def check_count(*, minimum: int = 1, **values) -> None:
    """Raise unless each keyword argument is an integer >= `minimum`."""
    for name, value in values.items():
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            raise TypeError(f"{name} must be an integer >= {minimum}, got {value!r}.")
        if value < minimum:
            raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}.")


def check_option(options, **values) -> None:
    """Raise unless each keyword argument is one of `options`."""
    for name, value in values.items():
        if not any(value is option or value == option for option in options):
            listed = ", ".join(repr(option) for option in options)
            raise ValueError(f"{name}={value!r} is not one of {listed}.")


def check_privacy(epsilon, delta) -> None:
    """Raise unless (epsilon, delta) is a privacy target that a private release can have."""
    if not _is_real(epsilon):
        raise TypeError(f"epsilon must be a positive real number, got {epsilon!r}.")
    if epsilon == math.inf:
        raise ValueError(
            "epsilon=inf asks for no privacy; use the non-private function instead "
            "(for a mean: skriemdp.mean.estimator.frechet_mean)."
        )
    check_positive(epsilon=epsilon)
    check_fraction(open_left=False, delta=delta)
