"""Which open ``with accountant:`` block a fit belongs to, or that nobody can know.

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
import sys
from contextvars import ContextVar
from typing import Any

from skriemdp.ledger import connections
from skriemdp.ledger.errors import BudgetError

__all__ = ["enter", "find", "leave"]


class Block:
    """One open ``with`` block."""

    __slots__ = ("frame", "handle", "outer", "pid")

    def __init__(self, handle: Any, frame: Any, outer: Block | None):
        self.handle, self.frame, self.outer = handle, frame, outer
        self.pid = os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether the block was not left yet."""
        return self.frame is not None

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
    with connections.locked():
        block = Block(handle, frame, _nearest(_open, frame))
        _open.append(block)
    _context.set((*(known for known in _context.get() if known.is_open), block))


def leave(handle: Any, frame: Any) -> None:
    """Close the handle's block: of this frame, else of this context, else the last one."""
    with connections.locked():
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
    pid = os.getpid()
    with connections.locked():
        blocks = [block for block in _open if (block.pid != pid) == inherited]
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
    if not blocks:
        return None
    while frame is not None:
        for block in reversed(blocks):
            if block.frame is frame:
                return block
        frame = frame.f_back
    return None
