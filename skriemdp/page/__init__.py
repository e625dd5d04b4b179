"""A ledger as one page for whoever has to sign it: what was charged, what it means, what to check.

Read-only, and nothing in it depends on records: a ledger holds events, labels, public parameters
and times.  The command is ``python -m skriemdp report LEDGER``; here is the same for programs.
"""

from skriemdp.page.facts import Account, Charge, Facts, Group, gather
from skriemdp.page.markup import to_html
from skriemdp.page.meaning import found_at_most, guessed_at_most
from skriemdp.page.plain import to_data, to_text

__all__ = [
    "Account",
    "Charge",
    "Facts",
    "Group",
    "found_at_most",
    "gather",
    "guessed_at_most",
    "to_data",
    "to_html",
    "to_text",
]
