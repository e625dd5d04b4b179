"""Whom a budget protects: a label, a record, a group of records (a person), or a whole client.

A record may be protected together with its presence: then the number of records is secret too.
"""

from __future__ import annotations

from skriemdp.ledger._errors import BudgetError

# A record may have other values, and it may be missing: the number of records is secret.
PRESENT = "record, present or not"
# Public facts of a fit with secret n that its ledger lacks, because they come after the charge.
RELEASED = ("n released", "noise of n", "releases")
UNITS = ("label", "record", PRESENT, "group", "client")
# What a charge for one unit also protects.  Ids must be public slots under the smaller unit too: a
# replaced row stays with its group.  A client is smaller than a person who is in two of them, so it
# covers groups only on the declaration that nobody is.
_COVERED = {
    "label": {"label"},
    "record": {"label", "record"},
    PRESENT: {"label", "record", PRESENT},
    "group": {"label", "record", "group"},
    "user": {"label", "record", "group"},
    "client": {"label", "record", "client"},
}
_CURES = {
    "record": "leave privacy_unit='record', or make an accountant with unit='label'",
    PRESENT: "fit one of the estimators that release the number of records with noise "
    "(docs/your-budget.md), or make an accountant with unit='record', under which it is public",
    "group": "pass groups= to fit, and in searches and cross-validation enable metadata routing, "
    "without which scikit-learn keeps groups from fit",
    "client": "use a federated fit with unit='client'",
}


def check_protects(stored: str, requested: str, where: str, disjoint: bool = False) -> None:
    """Refuse a charge that protects less than the ledger says it does.

    Parameters
    ----------
    stored, requested : str
        Unit of the ledger and of the charge.
    where : str
        The ledger, for the message.
    disjoint : bool, default=False
        Whether the charge declares that no person is in two clients.

    Raises
    ------
    BudgetError
        The charge does not protect the ledger's unit.
    """
    covered = _COVERED.get(requested, {requested})
    if requested == "client" and disjoint:
        covered = covered | {"group"}
    if stored not in covered:
        cure = _CURES.get(stored, "use another accountant")
        if (stored, requested) == ("group", "client"):
            cure = (
                "pass clients_per_person=1 if nobody is in two clients, which declares it, or "
                "groups= with unit='record'"
            )
        raise BudgetError(
            f"{where} protects each {stored}, and this charge each {requested} only; nothing was "
            f"charged. Instead {cure}."
        )
