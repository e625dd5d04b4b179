"""The budget of a data set: a small picklable handle on a durable ledger, shared by all fits."""

from __future__ import annotations

import html
import json
import math
import numbers
import os
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._validation import check_count, check_option, check_positive
from skriemdp.ledger import _current as current
from skriemdp.ledger import _statements as statements
from skriemdp.ledger._chain import CHARGED, Standing
from skriemdp.ledger._errors import BudgetError
from skriemdp.ledger._filters import KINDS, Filter, Remaining, divide, make_filter
from skriemdp.ledger._statements import BudgetExceededError, History, LedgerTotal, Spend
from skriemdp.ledger._storage import Ledger, is_own
from skriemdp.ledger._units import PRESENT, UNITS, check_protects
from skriemdp.privacy._events import Event, SeededEvent

__all__ = [
    "BudgetError",
    "BudgetExceededError",
    "LedgerTotal",
    "PrivacyAccountant",
    "Remaining",
    "Spend",
]

DEFAULT_DATASET = "default"
_LONGEST_LABEL = 1000
_MOST_PARTS = 10_000


class PrivacyAccountant:
    """A privacy budget that survives clone, searches, processes and crashes.

    Every fit of every estimator of this library charges an accountant before it computes anything
    from its records: the one passed as ``accountant=``, else the innermost active ``with`` block,
    else a default without a ceiling.  A fit that would pass the ceiling raises
    :class:`BudgetExceededError` and releases nothing.

    Parameters
    ----------
    epsilon : float, default=inf
        Ceiling of the whole interaction; inf records without refusing.
    delta : float, default=1e-5
        Delta of the ceiling and of every total, in [0, 1).
    path : str or path-like, default=None
        Ledger file.  Made when nothing is there, else opened; its ceiling, delta and filter were
        fixed when it was made: leave the other parameters out, or repeat them exactly.  None: a
        private temporary file that is removed when this process exits; it is not synced, because
        what ends the machine ends the process.
    filter : {"auto", "sum", "renyi", "gdp"}, default="auto"
        The rule that enforces the ceiling under adaptive use (docs/theory/filters.md).  ``"auto"``
        takes every event and lets Gaussian fits reach 94 to 97 % of the ceiling; ``"sum"`` adds
        epsilons and deltas; ``"gdp"`` wastes nothing on Gaussian releases and refuses events
        without a Gaussian bound; ``"renyi"`` is stricter than "auto" for Gaussian releases and
        wider for a few others.
    unit : {"label", "record", "record, present or not", "group", "client"}, optional
        Whom the ceiling protects; stored with the ledger, "record" where nothing else is said.  A
        charge that protects less is refused: with "group", every fit needs ``groups=``.  A charge
        for groups protects records too.  With "record, present or not" the number of records is
        secret: what is released is as likely if a record had other values and if it were missing.
        Some estimators can do that, and release the number with noise (docs/your-budget.md).
    witness : str or path-like, default=None
        A second file, best on another disk, made with the ledger: each charge is noted there too,
        so that an old copy of the ledger is noticed.

    Raises
    ------
    BudgetError
        Missing, foreign, damaged, read-only or network-mounted ledger, or another ceiling than the
        stored one.  Never a silently fresh budget.

    Notes
    -----
    *Guarantee*.  The releases charged to one data set of a ledger with a ceiling are jointly
    (epsilon, delta)-differentially private under replace-one adjacency, even when each was chosen
    after seeing those before it.  Conditions: the data set handed to each fit was chosen
    independently of the records (KFold yes, StratifiedKFold no); only released models are looked
    at, not raw scores or a choice based on them; every fit used system noise
    (``random_state=None``).

    *Edge cases*.  Spends of NaN, negative, subnormal or infinite size are refused.  A crash after
    a charge leaves the charge.  The first spend on untouched records may use the whole ceiling,
    whatever its kind; further spends are then refused.

    The state is a file's path, so copies, clones, pickles, threads and processes charge the same
    file.

    Examples
    --------
    >>> from skriemdp import PrivacyAccountant
    >>> from skriemdp.privacy import PureEvent
    >>> with PrivacyAccountant(epsilon=1.0) as accountant:
    ...     spend = accountant.spend(PureEvent(0.25), label="demo")
    >>> len(accountant.history)
    1
    >>> accountant.remaining(PureEvent(0.25))
    3
    """

    _fixed: tuple[Filter, str] | None = None  # rule and unit, once they were read

    def __init__(
        self,
        epsilon: float = math.inf,
        delta: float = 1e-5,
        path: Path | str | None = None,
        filter: str = "auto",
        witness: Any = None,
        unit: str | None = None,
    ):
        if isinstance(epsilon, (str, Path)):
            raise PublicTypeError(f"epsilon must be a number, and path={str(epsilon)!r} a file's.")
        rule = make_filter(filter, epsilon, delta)
        if unit is not None:
            check_option(UNITS, unit=unit)
        self._dataset, self._partition = DEFAULT_DATASET, ""
        protects = unit or "record"
        first = self._dataset, rule.to_dict(), rule.zero, protects
        if path is None:
            if witness is not None:
                raise PublicValueError("a witness needs a ledger that lasts; give path= as well.")
            self._ledger, self._fixed = Ledger.temporary(first), (rule, protects)
            return
        made = not os.path.lexists(path)
        self._ledger = Ledger.create(path, first, witness) if made else Ledger(path)
        if witness is not None:  # another process may have been first
            self._ledger.check_witness(witness)
        given = made or (float(epsilon), float(delta), filter) != (math.inf, 1e-5, "auto")
        self._open(rule if given else None, unit)

    def _open(self, rule: Filter | None = None, unit: str | None = None) -> tuple[Filter, str]:
        """Rule and unit of the data set; the first that asks for them fixes them."""
        asked = () if rule is None else (rule.to_dict(), rule.zero, unit or "record")
        place = self._ledger.open_dataset(self._dataset, *asked)
        stored, protects = Filter.stored(place), place.made.unit
        differs = ""
        if rule is not None and _terms(rule) != _terms(stored):
            differs = f"has {_terms(stored)}, fixed when it was made; asked for was {_terms(rule)}"
        elif unit not in (None, protects):
            differs = (
                f"protects each {protects}, fixed when it was made; asked for was unit={unit!r}"
            )
        if differs:
            raise BudgetError(
                f"{self._where()} {differs}. Leave these parameters out, or repeat the stored "
                "values."
            )
        self._fixed = stored, protects
        return self._fixed

    @classmethod
    def _handle(cls, ledger: Ledger, dataset: str, partition: str = "") -> Self:
        self = cls.__new__(cls)
        self._ledger, self._dataset, self._partition = ledger, dataset, partition
        return self

    # -- what it stands for --

    @property
    def _filter(self) -> Filter:
        return (self._fixed or self._open())[0]

    @property
    def epsilon(self) -> float:
        """The ceiling, inf when there is none."""
        return self._filter.epsilon

    @property
    def delta(self) -> float:
        """The delta of the ceiling."""
        return self._filter.delta

    @property
    def filter(self) -> str:
        """Kind of the stored filter; ``"gdp-part"`` for a Gaussian part of a division."""
        return self._filter.kind

    @property
    def unit(self) -> str:
        """Whom the ceiling protects, as the parameter `unit` says."""
        return (self._fixed or self._open())[1]

    @property
    def path(self) -> str:
        """The ledger file."""
        return self._ledger.path

    @property
    def lasts(self) -> bool:
        """Whether the ledger outlives this process: it was made with `path`."""
        return not is_own(self.path)

    @property
    def name(self) -> str:
        """Name of the data set charged."""
        return self._dataset

    @property
    def partition_name(self) -> str:
        """Name of the partition charged, ``""`` for the whole data set."""
        return self._partition

    def dataset(
        self,
        name: str,
        epsilon: float | None = None,
        delta: float | None = None,
        filter: str | None = None,
    ) -> PrivacyAccountant:
        """Accountant of another data set (other people's records) in the same ledger.

        Each data set has its own ceiling; new ones take this one's where not given.
        """
        _check_name("data set", name)
        asked = (epsilon, delta, filter) != (None, None, None)
        other = self._handle(self._ledger, name)
        if asked or name not in (place.name for place in self._ledger.datasets()):
            own = self.filter if self.filter in KINDS else "gdp"
            rule = make_filter(
                own if filter is None else filter,
                self.epsilon if epsilon is None else epsilon,
                self.delta if delta is None else delta,
            )
            other._open(rule, self.unit)
        return other

    def partition(self, name: str) -> PrivacyAccountant:
        """Accountant of one part of the records: disjoint parts cost the maximum, not the sum.

        All partitions ever named on a data set must be disjoint, and which record belongs to which
        must have been fixed without looking at the records (sites, shuffled KFold test folds;
        never StratifiedKFold, class labels or clusters).  Charges to the whole data set add to
        every partition's.

        Parts by position (KFold) are disjoint only where the number of records is public: one
        record more moves others to other folds.  A data set whose unit is "record, present or not"
        has no partitions.
        """
        _check_name("partition", name)
        if self.unit == PRESENT:
            raise PublicValueError(
                f"{self._where()} keeps the number of records secret, and one record more may move "
                "others to another part. Where a public key of each record says to which part it "
                "belongs, name a data set for each instead: accountant.dataset(name)."
            )
        if self._partition:
            raise PublicValueError(
                f"this is the partition {self._partition!r}; partitions do not nest. Name each of "
                "the finer disjoint parts on the data set itself."
            )
        return self._handle(self._ledger, self._dataset, name)

    # -- dividing --

    def split(
        self, parts: int | Sequence[float] | Mapping[str, float], gaussian: bool = False
    ) -> list[PrivacyAccountant]:
        """Divide an unused budget into parts with ceilings of their own.

        Parameters
        ----------
        parts : int or sequence of float
            A number of equal parts, or their weights: ``split(3)``, ``split([2, 1, 1])``.
        gaussian : bool, default=False
            Parts that admit Gaussian releases alone, and more of them: they share ``mu**2``, and
            each may use all of delta.

        Returns
        -------
        list of PrivacyAccountant
            The same ones for the same call, so that a script can be run again.

        Raises
        ------
        BudgetError
            If the data set has charges already, or was divided in another way.

        Notes
        -----
        *Guarantee*.  All releases charged to all parts together, in any order and each chosen after
        seeing the others, are jointly private at the divided budget's (epsilon, delta).  Plain
        parts have ``weight * epsilon`` and ``weight * delta``, rounded down, and the same filter;
        a fit with ``**part.whole()`` is admitted whatever its noise.  Interactive mechanisms with
        fixed parameters compose side by side like releases (Lyu 2022; Vadhan and Zhang 2023).
        The pair of a Gaussian part is true of that part alone: such pairs must not be added, and
        need not be, because ``mu**2`` of all parts stays under the divided budget's.

        The divided budget is closed: charge a part.  Parts can be divided again.

        Examples
        --------
        >>> from skriemdp import PrivacyAccountant
        >>> a, b = PrivacyAccountant(epsilon=1.0, delta=1e-6).split([3, 1])
        >>> a.epsilon, b.epsilon, b.delta
        (0.75, 0.25, 2.5e-07)
        """
        weights = _weights(parts)
        rule = self._filter
        if self._partition:
            raise PublicValueError(
                "a partition cannot be split; split the data set, and partition each of its parts."
            )
        if rule.limits is None:
            raise PublicValueError(
                "there is no ceiling to divide; make an accountant with an epsilon."
            )
        if gaussian and rule.delta == 0.0:
            raise PublicValueError("Gaussian parts need delta > 0; leave gaussian=False.")
        if rule.kind == "gdp-part" and not gaussian:
            raise PublicValueError(
                "the pairs of Gaussian parts do not add up, so this part can only be divided into "
                "Gaussian ones; pass gaussian=True."
            )
        rules = divide(rule, weights, bool(gaussian))
        k, division = len(weights), {"weights": list(map(str, weights)), "gaussian": bool(gaussian)}
        made = [
            (f"{self._dataset}: part {number} of {k}", own.to_dict(), own.zero)
            for number, own in enumerate(rules, start=1)
        ]
        names = self._ledger.divide(self._dataset, division, made)
        return [self._handle(self._ledger, name) for name in names]

    @property
    def parts(self) -> list[PrivacyAccountant]:
        """The parts that :meth:`split` made, in order; empty for an undivided budget."""
        return [
            self._handle(self._ledger, place.name)
            for place in self._ledger.datasets()
            if place.terms["parent"] == self._dataset
        ]

    def _undivided(self) -> list[str]:
        """Names of the data sets that hold the charges: itself, or its parts' parts."""
        parts = self.parts
        return [name for part in parts for name in part._undivided()] or [self._dataset]

    def whole(self) -> dict:
        """``{"epsilon": ..., "delta": ..., "accountant": self}``: one fit that takes all of it.

        For ``PrivateFrechetMean("sphere", **part.whole())``.
        """
        if self._filter.limits is None:
            raise PublicValueError(
                "there is no ceiling to take; make an accountant with an epsilon."
            )
        return {"epsilon": self.epsilon, "delta": self.delta, "accountant": self}

    def composes(self, epsilon: float, delta: float) -> bool:
        """Whether a fit at (epsilon, delta) with free choice of noise should be Gaussian here.

        True where the stored rule adds the fit to others and charges Gaussian noise least; the
        estimators' ``"auto"`` choices follow it.  What is spent does not matter.
        """
        return self._filter.composes(float(epsilon), float(delta))

    # -- spending --

    def spend(
        self,
        release: Any,
        *,
        label: str = "release",
        params: dict | None = None,
        facts: dict | None = None,
        at: tuple[float, float] | None = None,
        gaussian: str = "",
        relation: str | None = None,
        d_in: float | None = None,
    ) -> Spend:
        """Charge `release`, durably, before anything is released.

        Parameters
        ----------
        release : Event, opendp Measurement, dp_accounting.dp_event.DpEvent or dict
            What is about to be released; a dict holds ``epsilon`` (and ``delta``) or ``rho``.
        label : str
            Who charges; shown in summaries.  At most 1000 characters.
        params : dict, optional
            Public parameters to note (plain data; nothing computed from records).
        facts : dict, optional
            What has to be public for the release to be private, by name; large arrays are noted
            by their digest.
        at : tuple of float, optional
            The (epsilon, delta) that the release was calibrated to; the event must be private at
            it.  Noted, and under ``filter="sum"`` what is charged at most.
        gaussian : str, default=""
            Parameters with which the caller's release would be Gaussian, for a refusal to name.
        relation, d_in : str and float, optional
            What other releases than an Event need
            (:func:`skriemdp.privacy.as_event`, whose result :meth:`reserve` takes).

        Returns
        -------
        Spend
            The entry written.

        Raises
        ------
        BudgetExceededError
            The ceiling would be passed; nothing was charged.
        BudgetError
            The ledger cannot be written, or it has a ceiling and the event is seeded; nothing may
            be released.
        """
        event, said = _read(release, relation, d_in)
        if relation is not None and self.delta == 0.0 and event.epsilon(0.0) == math.inf:
            raise PublicValueError(
                f"{self._where()} has delta=0, and this release is private at a delta above 0 "
                "only; nothing was charged. Use an accountant with a delta."
            )
        if len(str(label)) > _LONGEST_LABEL:
            raise PublicValueError(
                f"label must have at most {_LONGEST_LABEL} characters; shorten it."
            )
        at = _pair(event, at)
        rule, costs = self._prepare(event, at)
        pair = dict(zip(("epsilon", "delta"), at or (), strict=False))
        params = {**pair, **said, **(params or {})}
        unit, text = str(params.get("unit", "record")), statements.note(params, facts or {})
        # A ledger without a ceiling promises nothing; it lists every charge with its unit.
        if rule.limits is not None or self.unit != "record":
            check_protects(self.unit, unit, self._where(), params.get("clients_per_person") == 1)
        stored = json.dumps(event.to_dict(), sort_keys=True, allow_nan=False)
        with self._ledger.writing() as book:  # no other process can spend in between
            place = book.place(self._dataset)
            standing = book.standing(place, self._partition)
            cost = next((each for each in costs if rule.admits(standing, each, event)), None)
            if cost is not None:
                row = book.append(
                    place, CHARGED, cost=cost, part=self._partition, label=str(label),
                    note=text, event=stored, unit=unit,
                )  # fmt: skip
        if cost is None:
            raise self._refusal(statements.SpendRequest(event, at, 1, unit, gaussian), standing)
        return statements.spend_of(row, self._dataset)

    def check(self, event: Event, *, at: tuple[float, float] | None = None) -> None:
        """Raise what :meth:`spend` would raise for `event`; nothing is written."""
        self.reserve(1, event, at=at)

    def reserve(self, n_fits: int, event: Event, *, at: tuple[float, float] | None = None) -> None:
        """Raise BudgetExceededError unless `n_fits` spends of `event` would be admitted now.

        A check in advance, for a grid times folds; nothing is written and nothing is held back for
        the caller.
        """
        check_count(n_fits=n_fits)
        _read(event)
        at = _pair(event, at)
        if self._count(event, at) < n_fits:
            raise self._refusal(statements.SpendRequest(event, at, n_fits), self._standing())

    def _count(self, event: Event, at: tuple[float, float] | None) -> int | float:
        rule, costs = self._prepare(event, at)
        return rule.count(self._standing(), costs, event)

    def _standing(self) -> Standing:
        with self._ledger.reading() as book:
            return book.standing(book.place(self._dataset), self._partition)

    def _prepare(
        self, event: Event, at: tuple[float, float] | None = None
    ) -> tuple[Filter, tuple[tuple[Any, ...], ...]]:
        rule = self._filter
        if rule.limits is not None and isinstance(event, SeededEvent):
            raise BudgetError(
                f"{self._where()} has a ceiling, and noise that an integer random_state makes "
                "reproducible protects nobody; nothing was charged. For people's data leave "
                "random_state=None. Made-up data? Use a ledger without a ceiling: "
                "accountant=PrivacyAccountant()."
            )
        costs = rule.costs(event, at)
        # Slow profiles are computed (and memoised) here, not inside the write transaction.
        if not rule.admits_total(costs[0]):
            rule.fills(event)
        return rule, costs

    def _refusal(self, request: statements.SpendRequest, standing: Standing) -> BudgetExceededError:
        # An entry that cost nothing is one, too.
        divisible = not self._partition and len(self.history) == 0
        return statements.refusal(self._where(), self._filter, standing, request, divisible)

    def _where(self) -> str:
        part = f", partition {self._partition!r}," if self._partition else ""
        return f"data set {self._dataset!r}{part} of the ledger {self.path!r}"

    # -- looking --

    @property
    def spent(self) -> LedgerTotal:
        """Tight total of the entries, if this list had been fixed in advance.

        Of the whole data set: common charges plus the worst partition's.  Of a partition: common
        charges plus its own.  Of a divided budget: of all charges to its parts.  Infinite where
        one of them was seeded.
        """
        return self._total(alone=False)

    @property
    def spent_alone(self) -> LedgerTotal:
        """:attr:`spent` if all other clients of secure sums work with the server.

        Or if the cryptography of these sums is broken: each then hides its records behind the
        client's own share of the noise only.
        """
        return self._total(alone=True)

    def _total(self, alone: bool) -> LedgerTotal:
        tallies = []
        for name in self._undivided():
            with self._ledger.reading() as book:
                tallies.append(book.tallies(book.place(name), self._partition))
        entries = sum(sum(found.values()) for found in tallies)
        epsilon = statements.total_epsilon(statements.charge_lists(tallies, alone), self.delta)
        return LedgerTotal(epsilon, self.delta if entries else 0.0, entries)

    def remaining(
        self, each: Event | int = 1, *, at: tuple[float, float] | None = None
    ) -> Remaining | int | float:
        """Return what the filter would still admit.

        Parameters
        ----------
        each : Event or int, default=1
            A number of equal fits: what each of them may ask.  An event: how many more spends of
            it would be admitted (inf without a ceiling).
        at : tuple of float, optional
            The (epsilon, delta) of the event, as in :meth:`spend`.

        Returns
        -------
        Remaining, or int or float when `each` is an event
        """
        if isinstance(each, Event):
            return self._count(each, _pair(each, at))
        check_count(each=each)
        return self._filter.remaining(self._standing(), int(each))

    @property
    def history(self) -> History:
        """The charges of the data set (of a partition: common ones and its own), oldest first.

        A sequence that reads the file as it is asked, so that long ones need little memory.
        """
        return History(self._ledger, self._dataset, self._partition)

    @property
    def head(self) -> str:
        """Number and digest of the ledger's last entry, as text.

        Note it elsewhere: :meth:`verify` tells whether a file still holds what it held then.
        """
        with self._ledger.reading() as book:
            return str(book.head)  # there is one: a data set was opened, which is an entry

    def verify(self, head: str | None = None) -> None:
        """Add up the whole file again: every entry, total, count and digest.

        Parameters
        ----------
        head : str, optional
            What :attr:`head` (or the summary, or a line of the witness file) said at some time;
            the file must still hold that entry.

        Raises
        ------
        BudgetError
            Something does not fit; the message says what.
        """
        self._ledger.verify(head)

    def summary(self) -> str:
        """List charges, users, remaining budget and conditions of the guarantee; shows no data."""
        lines = statements.summary_lines(self)
        return "\n".join(f"{name + ':':<12}{value}" for name, value in lines)

    __str__ = summary

    def __repr__(self) -> str:
        part = f", partition={self._partition!r}" if self._partition else ""
        return f"PrivacyAccountant(path={self.path!r}, dataset={self._dataset!r}{part})"

    def _repr_html_(self) -> str:
        return f"<pre class='skriemdp-accountant'>{html.escape(self.summary())}</pre>"

    # -- a handle is its address --

    def _address(self) -> tuple:
        return self._ledger.path, self._ledger.key, self._dataset, self._partition

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivacyAccountant):
            return NotImplemented
        return self._address() == other._address()

    def __hash__(self) -> int:
        return hash(self._address())

    def __sklearn_clone__(self) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> tuple:
        # How far the sender has seen the ledger travels along: the receiver accepts nothing older.
        # But joblib tells whether a cached result may be reused by pickling with protocol 3, and
        # what is seen differs after every charge, so it travels with the newer protocols only.
        seen = self._ledger.seen if protocol > 3 else None
        return _revived, (type(self), *self._address(), seen)

    __copy__ = __sklearn_clone__

    def __deepcopy__(self, memo: dict[str, Any]) -> Self:
        return self

    # -- the active accountant --

    def __enter__(self) -> Self:
        current.enter(self, sys._getframe(1))
        return self

    def __exit__(self, *exception: Any) -> None:
        current.leave(self, sys._getframe(1))


def _revived(cls: Any, path: str, key: str, dataset: str, partition: str, seen: Any) -> Any:
    ledger = Ledger(path, key)
    ledger.remember(seen)
    return cls._handle(ledger, dataset, partition)


def _terms(rule: Filter) -> str:
    return f"epsilon={rule.epsilon!r}, delta={rule.delta!r}, filter={rule.kind!r}"


def _check_name(what: str, name: str) -> None:
    if not isinstance(name, str):
        raise PublicTypeError(f"the name of a {what} must be a str, got {type(name).__name__}.")
    if not name:
        raise PublicValueError(f"the name of a {what} must not be empty.")


def _read(
    release: Any, relation: str | None = None, d_in: float | None = None
) -> tuple[Event, dict[str, Any]]:
    """The event of a release, and what a ledger notes of another library's description."""
    if isinstance(release, Event) and relation is None and d_in is None:
        return release, {}
    from skriemdp.privacy._foreign import as_event, described

    return as_event(release, relation, d_in), described(release, relation, d_in)


def _pair(event: Event, at: tuple[float, float] | None) -> tuple[float, float] | None:
    """The pair that an event was calibrated to, checked against it."""
    if at is None:
        return None
    try:
        epsilon, delta = map(float, at)
    except (TypeError, ValueError):
        raise PublicTypeError(f"at must be a pair (epsilon, delta), got {at!r}.") from None
    if not (0.0 <= epsilon < math.inf and 0.0 <= delta < 1.0):
        raise PublicValueError(f"at must hold an epsilon >= 0 and a delta in [0, 1), got {at!r}.")
    if not event.delta(epsilon) <= delta:
        raise PublicValueError(
            f"the event is not ({epsilon:g}, {delta:g})-private, as at= says; its delta at that "
            f"epsilon is {event.delta(epsilon):.6g}. Give a pair that it satisfies, or none."
        )
    return epsilon, delta


def _check_parts(count: int) -> None:
    if count > _MOST_PARTS:
        raise PublicValueError(
            f"parts={count} is more than {_MOST_PARTS}, and each is a data set of the ledger; "
            "divide into fewer, and divide these again."
        )


def _weights(parts: Any) -> list[Fraction]:
    """Exact shares that add up to one, from a number of parts or from their weights."""
    if isinstance(parts, numbers.Integral) and not isinstance(parts, bool):
        check_count(minimum=2, parts=parts)
        _check_parts(int(parts))
        return [Fraction(1, int(parts))] * int(parts)
    try:
        given = list(parts)
    except TypeError:
        raise PublicTypeError(
            f"parts must be a number of parts or their weights, got {parts!r}."
        ) from None
    if len(given) < 2:
        raise PublicValueError(f"parts must name at least two parts, got {given!r}.")
    _check_parts(len(given))
    for weight in given:
        check_positive(**{"a weight in parts": weight})
    weights = [Fraction(repr(float(weight))) for weight in given]
    return [weight / sum(weights) for weight in weights]
