"""A ledger as one page for whoever has to approve it: charges, meaning, conditions.

Read-only, and nothing in it depends on records: a ledger holds events, labels, public parameters
and times.  The command is ``python -m skriemdp report LEDGER``; here is the same for programs.
"""

from skriemdp.page._facts import gather
from skriemdp.page._meaning import found_at_most, guessed_at_most
from skriemdp.page._template import to_data, to_html, to_text

__all__ = ["found_at_most", "gather", "guessed_at_most", "to_data", "to_html", "to_text"]
