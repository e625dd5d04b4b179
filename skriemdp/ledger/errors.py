"""The error of a ledger that cannot be used."""

from __future__ import annotations


class BudgetError(RuntimeError):
    """The ledger cannot be used, so nothing was released; the message says why and what to do."""
