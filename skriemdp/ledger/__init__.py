"""Budgets of data sets: accountants, the rules that admit charges, and the file that keeps them."""

from skriemdp.ledger._accountant import (
    LedgerTotal,
    Remaining,
    Spend,
)
from skriemdp.ledger._current import active_accountant_token, current_accountant
from skriemdp.ledger._storage import matches

__all__ = [
    "LedgerTotal",
    "Remaining",
    "Spend",
    "active_accountant_token",
    "current_accountant",
    "matches",
]
