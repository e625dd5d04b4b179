"""The accountant of a fit that names none: of a ``with`` block, of a pickle, or the default.

A block remembers the frame that entered it, the block around it in that call chain, and, through
a context variable, the task or thread that it belongs to.  A fit is charged to

1. the block whose frame is nearest in the fit's own chain of calls;
2. else the block of this context: of the task, of the caller of ``asyncio.to_thread``, of whoever
   entered it through an ``ExitStack``, a helper or a fixture;
3. else the block of this process: joblib's threads and executors know no context.

Blocks around the candidate do not count against it, others do: where two remain, a charge to
either might void the other's guarantee, so both are refused.  The same holds when the candidate
of rule 1 has a block inside that a helper opened in this context: whether the fit belongs to the
helper's block (a context manager) or not (a paused generator) cannot be seen.
"""

from __future__ import annotations

import os
import secrets
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

from skriemdp._errors import PublicTypeError
from skriemdp._process import this_process
from skriemdp._validation import shown
from skriemdp.ledger._errors import BudgetError
from skriemdp.ledger._storage import LOCK

if TYPE_CHECKING:
    from skriemdp.ledger._accountant import PrivacyAccountant

_default: PrivacyAccountant | None = None
_nonce = secrets.token_hex(8)  # with its forks, tells this process from all others


class DetachedAccountant:
    """Stands for the accountant of a model that was pickled or copied after its fit.

    Raises
    ------
    BudgetError
        Whatever it is asked: a fit of the copy would be charged to no ledger that anybody chose.
    """

    def __sklearn_clone__(self) -> DetachedAccountant:
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
    return find() or _sent(token) or find(inherited=True) or _default_accountant()


def chosen_accountant(accountant: Any, token: dict | None = None) -> Any:
    """The parameter `accountant` of a fit, or :func:`current_accountant` where it is None.

    Raises
    ------
    BudgetError
        Where a block around the fit names another part or data set of the same ledger: one of the
        two would be left out.
    """
    if accountant is None:
        return current_accountant(token)
    if isinstance(accountant, type) or not callable(getattr(accountant, "spend", None)):
        raise PublicTypeError(
            "accountant must be a skriemdp.PrivacyAccountant, or None for the active one, got "
            f"{shown(accountant)}; write accountant=PrivacyAccountant(epsilon=..., path=...)."
        )
    _check_block(accountant)
    return accountant


def _check_block(accountant: Any) -> None:
    """Refuse a named accountant inside a block of another part of its ledger.

    Inside a block of the whole, a part may be named: its charges count for the whole too.
    """
    try:
        block = find() or find(inherited=True)
    except BudgetError:
        return  # among several blocks the name decides
    here, there = (getattr(handle, "path", None) for handle in (accountant, block))
    if None in (here, there) or here != there or accountant == block:
        return
    if (accountant.name, "") != (block.name, block.partition_name):
        raise BudgetError(
            f"the fit names {accountant!r}, inside a block of {block!r}; nothing was charged. "
            "Leave out accountant=, name that of the block, or fit outside the block."
        )


def active_accountant_token(token: dict | None = None) -> dict:
    """The address of :func:`current_accountant` as plain data, to travel in an estimator's pickle.

    Where it cannot be seen which accountant is meant, the refusal travels: whoever pickles may be
    a thread in the service of a pool, and the caller would not hear it.

    Parameters
    ----------
    token : dict, optional
        The token that the estimator itself arrived with, if it did.
    """
    process = [*this_process(), _nonce]
    try:
        handle = current_accountant(token)
    except BudgetError as error:
        return {"refused": str(error), "process": process}
    return {"handle": handle, "process": process, "default": handle is _default}


def _checked(token: Any) -> dict:
    known = isinstance(token, dict) and {"handle", "refused"} & set(token)
    if not known or "process" not in token or ("handle" in token and "default" not in token):
        raise PublicTypeError(
            "token must be what active_accountant_token() returned, or None, got "
            f"{type(token).__name__}."
        )
    return token


def _sent(token: dict | None) -> PrivacyAccountant | None:
    """Return the accountant that a token of another process names."""
    if not token or _checked(token)["process"] == [*this_process(), _nonce]:
        return None
    if "refused" in token:
        raise BudgetError(token["refused"])
    # The default ledger of a process that has ended had no ceiling to protect.
    if token["default"] and not os.path.lexists(token["handle"].path):
        return _default_accountant()
    return token["handle"]


def _default_accountant() -> PrivacyAccountant:
    from skriemdp.ledger._accountant import PrivacyAccountant

    global _default
    with LOCK:
        if _default is None:
            made = PrivacyAccountant()
            _default = _default or made  # of a signal handler, meanwhile
        return _default


# -- open `with` blocks ---------------------------------------------------------------------------


class Block:
    """One open ``with`` block; without a frame, one that was left."""

    __slots__ = ("frame", "handle", "outer", "process")

    def __init__(self, handle: Any, frame: Any, outer: Block | None):
        self.handle, self.frame, self.outer = handle, frame, outer
        self.process = this_process()

    def inside(self, other: Block) -> bool:
        """Whether `other` is one of the blocks around this one."""
        block = self.outer
        while block is not None and block is not other:
            block = block.outer
        return block is not None


_open: list[Block] = []
_context: ContextVar[tuple[Block, ...]] = ContextVar("skriemdp_blocks", default=())


def enter(handle: Any, frame: Any) -> None:
    """Open a block for the frame that entered it."""
    with LOCK:
        block = Block(handle, frame, _nearest(_open, frame))
        _open.append(block)
    _context.set((*(known for known in _context.get() if known.frame), block))


def leave(handle: Any, frame: Any) -> None:
    """Close the handle's block: of this frame, else of this context, else the last one."""
    with LOCK:
        here, mine = _context.get(), (b for b in reversed(_open) if b.handle is handle)
        block = max(mine, key=lambda b: (b.frame is frame, b in here), default=None)
        if block is not None:
            _open.remove(block)
            block.frame = None


def find(*, inherited: bool = False) -> Any:
    """The handle that a fit made here is charged to; None where no block is open.

    Parameters
    ----------
    inherited : bool
        Look at the blocks that were open when this process was forked, not at its own.

    Raises
    ------
    BudgetError
        Several blocks are open and none of them is surely meant.
    """
    if not _open:
        return None
    process = this_process()
    with LOCK:
        blocks = [block for block in _open if (block.process != process) == inherited]
    here = [block for block in blocks if block in _context.get()]
    nearest = _nearest(blocks, sys._getframe(1))
    if nearest is not None:
        hidden = [block for block in here if block.inside(nearest)]
        if any(block.handle != nearest.handle for block in hidden):
            raise BudgetError(_AMBIGUOUS)
        return nearest.handle
    for candidates in (here, blocks):
        innermost = [
            block for block in candidates if not any(other.inside(block) for other in candidates)
        ]
        if len({block.handle for block in innermost}) > 1:
            raise BudgetError(_AMBIGUOUS)
        if innermost:
            return innermost[-1].handle
    return None


_AMBIGUOUS = (
    "several `with` blocks of different accountants are open (tasks, threads or helpers), and it "
    "cannot be seen which of them this fit belongs to; pass accountant= to the estimator, or open "
    "the block directly around the fit. Nothing was released."
)


def _nearest(blocks: list[Block], frame: Any) -> Block | None:
    """The innermost block of the nearest frame of this call chain that entered one."""
    while frame is not None:
        for block in reversed(blocks):
            if block.frame is frame:
                return block
        frame = frame.f_back
    return None
