"""What a charge notes besides its cost: what had to be public, the library, and who charged."""

from __future__ import annotations

import hashlib
import math
import numbers
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

import skriemdp
from skriemdp._config import get_config
from skriemdp.ledger.chain import canonical

__all__ = ["note", "plain_facts"]

# Larger facts are noted by their digest: so many numbers, or so many characters of JSON.
MOST_NUMBERS, MOST_CHARACTERS = 100, 2000


def note(params: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The note of a charge, as canonical JSON.

    Parameters
    ----------
    params : dict
        Of the caller, in plain data.
    facts : dict
        What had to be public, by name; see :func:`plain_facts`.

    Returns
    -------
    str
        With the version of the library; with the names of machine and user under
        ``config_context(sign_charges=True)``.
    """
    found = {"params": dict(params), "facts": plain_facts(facts), "version": skriemdp.__version__}
    if get_config()["sign_charges"]:
        found |= {"host": platform.node(), "user": _user()}
    return canonical(found)


def plain_facts(facts: Mapping[Any, Any]) -> dict[str, Any]:
    """Facts as JSON holds them; the same for arrays and for the lists that they become.

    More than 100 numbers, or 2000 characters of JSON, become their digest: SHA-256 of the numbers
    as little-endian float64 in C order, or of the canonical JSON.
    """
    return {str(name): _plain(value) for name, value in facts.items()}


def _plain(value: Any) -> Any:
    plain: Any
    if value is None or isinstance(value, (bool, str)):
        plain = value
    elif isinstance(value, numbers.Integral):
        plain = int(value)
    elif isinstance(value, numbers.Real):
        plain = float(value) if math.isfinite(value) else str(float(value))
    elif isinstance(value, Mapping):
        plain = plain_facts(value)
    elif isinstance(value, (list, tuple, np.ndarray)):
        table = _table(value)
        if table is not None and table.size > MOST_NUMBERS:
            digest = hashlib.sha256(np.ascontiguousarray(table, dtype="<f8").tobytes())
            return {"sha256": digest.hexdigest(), "shape": list(table.shape)}
        plain = [_plain(item) for item in (value.tolist() if table is value else value)]
    else:
        plain = str(value)
    text = canonical(plain)
    if len(text) > MOST_CHARACTERS:
        digest = hashlib.sha256(text.encode("ascii"))
        return {"sha256": digest.hexdigest(), "characters": len(text)}
    return plain


def _table(value: Any) -> np.ndarray | None:
    """Numbers as one array; None where they are something else."""
    try:
        table = np.asarray(value)
    except ValueError:  # of different lengths
        return None
    return table if table.ndim and table.dtype.kind in "iuf" else None


def _user() -> str:
    try:
        import getpass

        return getpass.getuser()
    except (KeyError, OSError):  # a container may know no name
        return "unknown"
