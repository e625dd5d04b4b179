"""The error of a ledger that cannot be used."""

from __future__ import annotations

from skriemdp._errors import PublicRuntimeError


class BudgetError(PublicRuntimeError):
    """The ledger cannot be used, so nothing was released; the message says why and what to do."""
