"""The accountant of a fit that names none: of a ``with`` block, of a pickle, or the default."""

from __future__ import annotations

import os
import secrets
from typing import Any, NoReturn

from skriemdp._validation import shown
from skriemdp.ledger import active, connections
from skriemdp.ledger.accountant import PrivacyAccountant
from skriemdp.ledger.errors import BudgetError

__all__ = ["LeftBehind", "active_accountant_token", "chosen_accountant", "current_accountant"]

_default: PrivacyAccountant | None = None
_nonce = secrets.token_hex(8)  # with the pid, tells this process from all others


class LeftBehind:
    """Stands for the accountant of a model that was pickled or copied after its fit.

    Raises
    ------
    BudgetError
        Whatever it is asked: a fit of the copy would be charged to no ledger that anybody chose.
    """

    def __sklearn_clone__(self) -> LeftBehind:
        return self

    def __repr__(self) -> str:
        return "LeftBehind()"

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise BudgetError(
            "this model was pickled or copied after its fit, and its ledger stayed behind; nothing "
            "was charged. To fit the copy pass set_params(accountant=...): a PrivacyAccountant, or "
            "None for the active one."
        )

    composes = spend = _refuse


def current_accountant(token: dict | None = None) -> PrivacyAccountant:
    """The accountant that a fit without ``accountant=`` charges.

    In this order: the innermost ``with`` block around the fit, in its chain of calls; the block
    of its task or context; that of this process; the ledger named by `token`, which came from
    another process with the estimator; a block inherited by fork; the process's default, a
    temporary ledger without a ceiling.

    Parameters
    ----------
    token : dict, optional
        What :func:`active_accountant_token` returned in the process where the estimator was
        pickled.  Ignored in that process itself, and where it is empty.

    Raises
    ------
    BudgetError
        When several blocks are open and it cannot be seen which one is meant: a charge to the
        wrong ledger would void a guarantee.
    """
    handle = active.find()
    if handle is not None:
        return handle
    if token and token["process"] != [os.getpid(), _nonce]:
        return _resolve(token)
    handle = active.find(inherited=True)
    return _default_accountant() if handle is None else handle


def chosen_accountant(accountant: Any, token: dict | None = None) -> Any:
    """The parameter `accountant` of a fit, or :func:`current_accountant` where it is None."""
    if accountant is None:
        return current_accountant(token)
    if isinstance(accountant, type) or not callable(getattr(accountant, "spend", None)):
        raise TypeError(
            "accountant must be a skriemdp.PrivacyAccountant, or None for the active one, got "
            f"{shown(accountant)}; write accountant=PrivacyAccountant(epsilon=...)."
        )
    return accountant


def active_accountant_token(token: dict | None = None) -> dict:
    """The address of :func:`current_accountant` as plain data, to travel in an estimator's pickle.

    Where it cannot be seen which accountant is meant, the refusal travels: whoever pickles may be
    a thread in the service of a pool, and the caller would not hear it.

    Parameters
    ----------
    token : dict, optional
        The token that the estimator itself arrived with, if it did.
    """
    process = [os.getpid(), _nonce]
    try:
        handle = current_accountant(token)
    except BudgetError as error:
        return {"refused": str(error), "process": process}
    return {"handle": handle, "process": process, "default": handle is _default}


def _resolve(token: dict) -> PrivacyAccountant:
    if "refused" in token:
        raise BudgetError(token["refused"])
    # The default ledger of a process that has ended had no ceiling to protect.
    if token["default"] and not os.path.lexists(token["handle"].path):
        return _default_accountant()
    return token["handle"]


def _default_accountant() -> PrivacyAccountant:
    global _default
    with connections.locked():
        if _default is None:
            _default = PrivacyAccountant()
        return _default
