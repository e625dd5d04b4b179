"""Budgets of data sets: accountants, the rules that admit charges, and the file that keeps them."""

from skriemdp.ledger._accountant import (
    BudgetError,
    BudgetExceededError,
    LedgerTotal,
    PrivacyAccountant,
    Remaining,
    Spend,
)
from skriemdp.ledger._current import active_accountant_token, current_accountant
from skriemdp.ledger._storage import matches

__all__ = [
    "BudgetError",
    "BudgetExceededError",
    "LedgerTotal",
    "PrivacyAccountant",
    "Remaining",
    "Spend",
    "active_accountant_token",
    "current_accountant",
    "matches",
]
