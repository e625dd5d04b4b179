"""Base class of contributions of rows, on which no row can stop a fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skriemdp._errors import PublicTypeError, PublicValueError


class Give:
    """Contribution of a row: bitwise a function of that row alone and of public fields.

    *A give is total.*  A row on which it fails, or for which it says anything but one finite answer
    of the right shape, counts as zero in a sum and as beyond every bound in a count.

    Attributes
    ----------
    shape : tuple of int
        Of what one row gives; empty for a number.
    inner : Give or None
        Of whose answers these are made, so that both take one pass.
    beside : Give or None
        Numbers of the rows that stay the same from answer to answer, such as their squares.
    kept : bool
        Whether a table keeps the last answers for all rows, where it has room.
    always : bool
        Whether it keeps them however many there are.
    of_people : bool
        Whether a table of people keeps theirs: one answer for each, made of their own rows' mean.
    of : callable
        ``of(*rows)`` is what rows give, entries of every array of the table;
        ``of(*rows, beside=known)`` the same, where what :attr:`beside` gives of them is known.
    after : callable
        ``after(known, *rest)`` is the same from what :attr:`inner` gives of them, and from the
        arrays behind the first.
    """

    shape: Any
    inner: Any = None
    beside: Any = None
    kept: Any = False
    always: Any = False
    of_people: Any = False
    of: Callable[..., Any]
    after: Callable[..., Any]

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return int(np.prod(self.shape))

    def key(self) -> Hashable:
        """Key that equal gives share."""
        return self

    def nothing(self, count: int) -> Any:
        """Return the contribution of rows on which a give fails."""
        return np.full((count, *self.shape), np.nan)


def whole(give: Give, call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, whose answers are those of `give`, made total.

    Where one fails for a tile of rows it is asked row by row: a row's answer is the same either
    way, so nothing but time tells that another row failed.
    """
    pattern = give.nothing(1)

    def answer(*rows: Any) -> Any:
        count = rows[0].shape[0]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the words may quote a record
                return _checked(call(*rows), pattern, count)
        except Exception:
            return _row_by_row(give, call, pattern, rows)

    return answer


def _row_by_row(give: Give, call: Callable[..., Any], pattern: Any, rows: tuple[Any, ...]) -> Any:
    answers = []
    for i in range(rows[0].shape[0]):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                one = _checked(call(*(part[i : i + 1] for part in rows)), pattern, 1)
        except Exception:
            one = give.nothing(1)
        answers.append(one)
    if not answers:
        return give.nothing(0)
    if not isinstance(pattern, tuple):
        return np.concatenate(answers)
    return tuple(np.concatenate(parts) for parts in zip(*answers, strict=True))


def _checked(answer: Any, pattern: Any, count: int) -> Any:
    """`answer`, if it holds one entry of the shape of `pattern` for each of so many rows."""
    if isinstance(pattern, tuple):
        if type(answer) is not tuple or len(answer) != len(pattern):
            raise PublicTypeError
        return tuple(_checked(*pair, count) for pair in zip(answer, pattern, strict=True))
    if not issparse(answer) and not hasattr(answer, "lattice"):
        answer = np.asarray(answer)
        if answer.dtype.kind not in "fiub":
            raise PublicTypeError
        if answer.dtype.kind == "f" and pattern.dtype.kind == "i":
            raise PublicTypeError
    if answer.shape != (count, *pattern.shape[1:]):
        raise PublicValueError
    return answer
