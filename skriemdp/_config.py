"""Settings of the whole library: what a fit may ask of the machine, and what it notes."""

from __future__ import annotations

import contextlib
import contextvars
import math
import numbers
from collections.abc import Iterator
from typing import Any

from skriemdp._errors import PublicTypeError, PublicValueError

_LIMITS = {
    "most_bytes": 2**33,
    "most_steps": 10**6,
    "most_operations": 10**14,
    "most_rounds": 10**5,
    "most_runs": 10**5,
    "most_classes": 10**4,
    "most_candidates": 10**4,
}
_OPTIONS = {"sign_charges": (False, True)}
_LISTS = {"local_file_systems": ()}

_process: dict[str, Any] = (
    _LIMITS | {name: options[0] for name, options in _OPTIONS.items()} | _LISTS
)
_context: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar(
    "settings of skriemdp", default=None
)


def get_config() -> dict[str, Any]:
    """The settings in force here, as a new dict; see :func:`config_context` for their meaning.

    Examples
    --------
    >>> from skriemdp import get_config
    >>> get_config()["most_steps"]
    1000000
    """
    return _process | (_context.get() or {})


def set_config(**settings: Any) -> None:
    """Change settings for this process, in all threads; see :func:`config_context`.

    Raises
    ------
    ValueError, TypeError
        For an unknown name or an impossible value; nothing is changed.
    """
    _process.update(_checked(settings))


@contextlib.contextmanager
def config_context(**settings: Any) -> Iterator[None]:
    """Change settings within a ``with`` block.

    Parameters
    ----------
    most_bytes : int, default=2**33
        Memory that a fit may plan to use besides X.
    most_steps : int, default=10**6
        Steps of an iterative fit, and the queries that it answers.
    most_operations : int, default=10**14
        Multiplications and additions that a fit may plan: some hours of one core.
    most_rounds : int, default=10**5
        Rounds of a federated run.
    most_runs : int, default=10**5
        Expected number of runs of a `PrivateGridSearchCV`.
    most_classes : int, default=10**4
        Labels of a classifier.
    most_candidates : int, default=10**4
        Candidates of a `PrivateGridSearchCV`.
    sign_charges : bool, default=False
        Whether each charge notes the names of machine and user in the ledger.
    local_file_systems : sequence of str, default=()
        Types of file systems on which ledgers may lie, besides the usual ones of local disks: what
        you vouch for.  One machine alone writes there, its locks hold, and synced writes last.

    Notes
    -----
    A fit that would pass a limit raises ValueError before anything is charged.  The limits look
    at public numbers only: sizes and parameters.

    The block holds for this thread and for coroutines started in it.  Other threads, joblib's
    among them, see what :func:`set_config` set.

    Examples
    --------
    >>> from skriemdp import config_context, get_config
    >>> with config_context(most_steps=10):
    ...     get_config()["most_steps"]
    10
    """
    token = _context.set((_context.get() or {}) | _checked(settings))
    try:
        yield
    finally:
        _context.reset(token)


def check_bytes(size: float, what: str, why: str) -> None:
    """ValueError if something would need more memory than the setting ``most_bytes`` allows."""
    most = get_config()["most_bytes"]
    if size > most:
        raise PublicValueError(
            f"{what} would need about {float(size) / 2**30:.3g} GiB{why}; the limit is "
            f"{float(most) / 2**30:.3g} GiB. Choose smaller ones, or raise the limit with "
            "skriemdp.config_context(most_bytes=...)."
        )


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    found = dict(settings)
    for name, value in settings.items():
        if name in _LIMITS:
            if not isinstance(value, numbers.Real) or isinstance(value, bool):
                raise PublicTypeError(f"{name} must be a number >= 1, got {type(value).__name__}.")
            if isinstance(value, float) and math.isnan(value) or value < 1:
                raise PublicValueError(f"{name} must be a number >= 1 (inf for no limit).")
        elif name in _OPTIONS:
            if type(value) is not type(_OPTIONS[name][0]) or value not in _OPTIONS[name]:
                listed = ", ".join(map(repr, _OPTIONS[name]))
                raise PublicValueError(f"{name} must be one of {listed}.")
        elif name in _LISTS:
            several = isinstance(value, (list, tuple, set, frozenset))
            if not several or not all(isinstance(one, str) for one in value):
                raise PublicTypeError(f"{name} must be a list of names, for instance ['virtiofs'].")
            found[name] = tuple(value)
        else:
            listed = ", ".join(_process)
            raise PublicTypeError(f"{name!r} is no setting of skriemdp; there are {listed}.")
    return found
