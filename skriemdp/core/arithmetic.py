"""Whether a release adds exact integers: one public rule for all estimators."""

from __future__ import annotations

from collections.abc import Iterable

from skriemdp._config import get_config
from skriemdp.mechanisms.integers import check_integers

__all__ = ["adds_integers", "check_arithmetic"]


def check_arithmetic(exact: bool, what: str) -> None:
    """Refuse `what`, which adds noise to floats, where exact integers were asked for."""
    if not exact and get_config()["arithmetic"] == "lattice":
        raise ValueError(
            f"arithmetic='lattice' asks for exact integers, and {what} adds noise in floating "
            "point; use skriemdp.config_context(arithmetic='auto')."
        )


def adds_integers(
    separate_rows: bool, dim: int, noise_multipliers: Iterable[float], reason: str
) -> bool:
    """Whether Gaussian sums of `dim` coordinates are added in exact integers.

    Parameters
    ----------
    separate_rows : bool
        Whether what a record adds is the same, to the last bit, in any company.
    dim : int
    noise_multipliers : iterable of float
        Of the releases.
    reason : str
        Why not, where `separate_rows` is False; for the message.

    Returns
    -------
    bool
        By ``config_context(arithmetic=...)``: never for "float"; wherever it can be done for
        "auto", the default; always for "lattice".

    Raises
    ------
    ValueError
        With "lattice", where it cannot be done.
    """
    arithmetic = get_config()["arithmetic"]
    if arithmetic == "float":
        return False
    try:
        if not separate_rows:
            raise ValueError(
                f"arithmetic='lattice' needs {reason}; use "
                "skriemdp.config_context(arithmetic='float')."
            )
        for noise_multiplier in noise_multipliers:
            check_integers(dim, noise_multiplier)
    except ValueError:
        if arithmetic == "lattice":
            raise
        return False
    return True
