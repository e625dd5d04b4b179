"""The budget of a data set: a small picklable handle on a durable ledger, shared by all fits."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import os
import secrets
import threading
from collections import Counter
from functools import lru_cache

from skriemdp._validation import check_count
from skriemdp.ledger.filters import Filter, make_filter
from skriemdp.ledger.statements import (
    BudgetExceededError,
    LedgerTotal,
    Remaining,
    Spend,
    round_up,
)
from skriemdp.ledger.storage import BudgetError, Ledger, Standing
from skriemdp.privacy.events import Event, SelfComposedEvent, compose, event_from_dict

__all__ = [
    "BudgetError",
    "BudgetExceededError",
    "LedgerTotal",
    "PrivacyAccountant",
    "Remaining",
    "Spend",
    "active_accountant_token",
    "current_accountant",
]

DEFAULT_DATASET = "default"


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
        private temporary file that is removed when this process exits.
    filter : {"renyi", "gdp"}, default="renyi"
        The rule that enforces the ceiling under adaptive use.  ``"gdp"`` is exact for Gaussian
        releases and refuses events without a Gaussian bound; ``"renyi"`` takes every event and is
        a few per cent stricter (docs/theory/filters.md).

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
    >>> from skriemdp.ledger.accountant import PrivacyAccountant
    >>> from skriemdp.privacy.events import PureEvent
    >>> with PrivacyAccountant(epsilon=1.0) as accountant:
    ...     spend = accountant.spend(PureEvent(0.25), label="demo")
    >>> len(accountant.history)
    1
    >>> accountant.remaining(PureEvent(0.25))
    3
    """

    def __init__(self, epsilon=math.inf, delta=1e-5, path=None, filter="renyi"):
        rule = make_filter(filter, epsilon, delta)
        self._dataset, self._partition, self._stored = DEFAULT_DATASET, "", None
        if path is None:
            self._ledger = Ledger.temporary()
        elif Ledger.exists(path):
            self._ledger = Ledger(path)
            given = (float(epsilon), float(delta), filter) != (math.inf, 1e-5, "renyi")
            self._stored = self._open(rule if given else None)
            return
        else:
            self._ledger = Ledger.create(path)
        self._stored = self._open(rule)

    def _open(self, rule: Filter | None) -> Filter:
        settings = None if rule is None else rule.to_dict()
        zero = () if rule is None else rule.zero
        stored = Filter.from_dict(self._ledger.open_dataset(self._dataset, settings, zero))
        if rule is not None and (stored.epsilon, stored.delta, stored.kind) != (
            rule.epsilon,
            rule.delta,
            rule.kind,
        ):
            raise BudgetError(
                f"data set {self._dataset!r} of the ledger {self.path!r} has epsilon="
                f"{stored.epsilon:g}, delta={stored.delta:g}, filter={stored.kind!r}, fixed when "
                f"it was made; asked for were epsilon={rule.epsilon:g}, delta={rule.delta:g}, "
                f"filter={rule.kind!r}. Leave these parameters out, or repeat the stored values."
            )
        return stored

    @classmethod
    def _handle(cls, ledger: Ledger, dataset: str, partition: str, stored=None):
        self = cls.__new__(cls)
        self._ledger, self._dataset, self._partition = ledger, dataset, partition
        self._stored = stored
        return self

    # -- what it stands for --

    @property
    def _filter(self) -> Filter:
        if self._stored is None:
            self._stored = self._open(None)
        return self._stored

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
        """Kind of the stored filter, ``"renyi"`` or ``"gdp"``."""
        return self._filter.kind

    @property
    def path(self) -> str:
        """The ledger file."""
        return self._ledger.path

    @property
    def name(self) -> str:
        """Name of the data set charged."""
        return self._dataset

    @property
    def partition_name(self) -> str:
        """Name of the partition charged, ``""`` for the whole data set."""
        return self._partition

    def dataset(self, name: str, epsilon=None, delta=None, filter=None) -> PrivacyAccountant:
        """Accountant of another data set (other people's records) in the same ledger.

        Each data set has its own ceiling; new ones take this one's where not given.
        """
        _check_name("data set", name)
        asked = (epsilon, delta, filter) != (None, None, None)
        other = self._handle(self._ledger, name, "")
        if asked or name not in self._ledger.dataset_names():
            rule = make_filter(
                self.filter if filter is None else filter,
                self.epsilon if epsilon is None else epsilon,
                self.delta if delta is None else delta,
            )
            other._stored = other._open(rule)
        return other

    def partition(self, name: str) -> PrivacyAccountant:
        """Accountant of one part of the records: disjoint parts cost the maximum, not the sum.

        All partitions ever named on a data set must be disjoint, and which record belongs to which
        must have been fixed without looking at the records (sites, shuffled KFold test folds;
        never StratifiedKFold, class labels or clusters).  Charges to the whole data set add to
        every partition's.
        """
        _check_name("partition", name)
        if self._partition:
            raise ValueError(
                f"this is the partition {self._partition!r}; partitions do not nest. Name each of "
                "the finer disjoint parts on the data set itself."
            )
        return self._handle(self._ledger, self._dataset, name, self._stored)

    # -- spending --

    def spend(self, event: Event, *, label: str = "release", params: dict | None = None) -> Spend:
        """Charge `event`, durably, before anything is released.

        Parameters
        ----------
        event : Event
            What is about to be released.
        label : str
            Who charges; shown in summaries.
        params : dict, optional
            Public parameters to note (plain data; nothing computed from records).

        Returns
        -------
        Spend
            The entry written.

        Raises
        ------
        BudgetExceededError
            The ceiling would be passed; nothing was charged.
        BudgetError
            The ledger cannot be written; nothing may be released.
        """
        rule, cost = self._prepare(event)
        params = {} if params is None else dict(params)
        entry, time, standing = self._ledger.charge(
            self._dataset,
            self._partition,
            cost,
            lambda standing: rule.admits(standing, cost, event),
            event=json.dumps(event.to_dict(), sort_keys=True, allow_nan=False),
            label=str(label),
            params=json.dumps(params, sort_keys=True, allow_nan=False),
        )
        if entry is None:
            raise self._refusal(event, 1, standing)
        return Spend(
            entry, time, self._dataset, self._partition, str(label), params, event.to_dict()
        )

    def check(self, event: Event) -> None:
        """Raise what :meth:`spend` would raise for `event`; nothing is written."""
        self.reserve(1, event)

    def reserve(self, n_fits: int, event: Event) -> None:
        """Raise BudgetExceededError unless `n_fits` spends of `event` would be admitted now.

        A check in advance, for a grid times folds; nothing is written and nothing is held back for
        the caller.
        """
        check_count(n_fits=n_fits)
        rule, cost = self._prepare(event)
        standing = self._ledger.standing(self._dataset, self._partition)
        if rule.count(standing, cost, event) < n_fits:
            raise self._refusal(event, n_fits, standing)

    def _prepare(self, event):
        if not isinstance(event, Event):
            raise TypeError(
                f"an accountant is charged with an Event, got {type(event).__name__}; see "
                "skriemdp.privacy.events."
            )
        rule = self._filter
        cost = rule.cost(event)
        # Slow profiles are computed (and memoised) here, not inside the write transaction.
        if not rule.admits_total(cost):
            rule.fills(event)
        return rule, cost

    def _refusal(self, event, n_fits: int, standing: Standing) -> BudgetExceededError:
        rule = self._filter
        remaining = self._remaining(standing)
        asked = f"{n_fits} spends of " if n_fits > 1 else ""
        admitted = rule.count(standing, rule.cost(event), event)
        hint = ""
        if rule.kind == "renyi" and event.mu is not None:
            hint = ' For Gaussian releases alone, filter="gdp" wastes nothing.'
        return BudgetExceededError(
            f"{self._where()} has the ceiling epsilon={rule.epsilon:g}, delta={rule.delta:g} and "
            f"the filter {rule.describe()}. Remaining: {remaining}. Asked: {asked}"
            f"{_describe(event, rule)}; {admitted} of them would be admitted. Nothing was spent or "
            f"released.{hint}",
            remaining,
        )

    def _where(self) -> str:
        part = f", partition {self._partition!r}," if self._partition else ""
        return f"data set {self._dataset!r}{part} of the ledger {self.path!r}"

    # -- looking --

    @property
    def spent(self) -> LedgerTotal:
        """Tight total of the entries, if this list had been fixed in advance.

        Of the whole data set: common charges plus the worst partition's.  Of a partition: common
        charges plus its own.
        """
        common: Counter[str] = Counter()
        parts: dict[str, Counter[str]] = {}
        entries = 0
        for part, _, event, count in self._ledger.tallies(self._dataset):
            if self._partition and part not in ("", self._partition):
                continue
            entries += count
            (parts.setdefault(part, Counter()) if part else common)[event] += count
        lists = {frozenset((common + own).items()) for own in parts.values()}
        lists = lists or {frozenset(common.items())}
        epsilon = max(_total_epsilon(charges, self.delta) for charges in lists)
        return LedgerTotal(epsilon, self.delta if entries else 0.0, entries)

    def remaining(self, event: Event | None = None) -> Remaining | int | float:
        """What the filter would still admit.

        Parameters
        ----------
        event : Event, optional
            Count how many more spends of this event would be admitted (inf without a ceiling).

        Returns
        -------
        Remaining, or int or float when `event` is given
        """
        if event is None:
            return self._remaining(self._ledger.standing(self._dataset, self._partition))
        rule, cost = self._prepare(event)
        standing = self._ledger.standing(self._dataset, self._partition)
        return rule.count(standing, cost, event)

    def _remaining(self, standing: Standing) -> Remaining:
        room = self._filter.room(standing)
        return Remaining(
            self._filter.describe(),
            room.pop("epsilon"),
            room.pop("mu"),
            room.pop("pure"),
            room,
        )

    @property
    def history(self) -> list[Spend]:
        """All entries of the data set (of a partition: common ones and its own), oldest first."""
        part = self._partition or None
        return [
            Spend(
                row.id,
                row.time,
                self._dataset,
                row.part,
                row.label,
                json.loads(row.params),
                json.loads(row.event),
            )
            for row in self._ledger.entries(self._dataset, part)
        ]

    def to_frame(self):
        """:attr:`history` as a pandas DataFrame, one row per entry (needs pandas)."""
        import pandas

        fields = [field.name for field in dataclasses.fields(Spend)]
        rows = [[getattr(spend, name) for name in fields] for spend in self.history]
        return pandas.DataFrame(rows, columns=fields).set_index("entry")

    def summary(self) -> str:
        """What was charged, by whom, what remains, and under which conditions; shows no data."""
        return "\n".join(f"{name + ':':<12}{value}" for name, value in self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        rule, spent = self._filter, self.spent
        ceiling = (
            "none"
            if math.isinf(rule.epsilon)
            else f"epsilon={rule.epsilon:g}, delta={rule.delta:g}, filter {rule.describe()}"
        )
        place = self._dataset + (f", partition {self._partition}" if self._partition else "")
        lines = [
            ("Data set", f"{place} ({self.path})"),
            ("Ceiling", ceiling),
            (
                "Spent",
                f"epsilon={round_up(spent.epsilon)} at delta={rule.delta:g} over {spent.n_entries} "
                f"releases, if this list had been fixed in advance",
            ),
            ("Remaining", f"{self.remaining()}"),
        ]
        for part, label, event, count in self._ledger.tallies(self._dataset):
            if not self._partition or part in ("", self._partition):
                where = f" on partition {part}" if part else ""
                kind = json.loads(event)
                lines.append(("Charge", f"{count} x {label}{where}: {_short(kind)}"))
        lines.append(
            (
                "Valid",
                "for released models only, not for raw scores or a choice based on them; if each "
                "fit's data were chosen independently of the records (KFold yes, StratifiedKFold "
                "no) and its noise came from the system (no integer random_state).",
            )
        )
        return lines

    def __str__(self):
        return self.summary()

    def __repr__(self):
        part = f", partition={self._partition!r}" if self._partition else ""
        return f"PrivacyAccountant(path={self.path!r}, dataset={self._dataset!r}{part})"

    def _repr_html_(self):
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self._lines()
        )
        return f"<table class='skriemdp-accountant'>{rows}</table>"

    # -- a handle is its address --

    def _address(self) -> tuple:
        return self._ledger.path, self._ledger.key, self._dataset, self._partition

    def __eq__(self, other):
        if not isinstance(other, PrivacyAccountant):
            return NotImplemented
        return self._address() == other._address()

    def __hash__(self):
        return hash(self._address())

    def __sklearn_clone__(self):
        return self

    def __getstate__(self):
        path, key, dataset, partition = self._address()
        return {"path": path, "key": key, "dataset": dataset, "partition": partition}

    def __setstate__(self, state):
        self._ledger = Ledger(state["path"], state["key"])
        self._dataset, self._partition = state["dataset"], state["partition"]
        self._stored = None

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    # -- the active accountant --

    def __enter__(self):
        with _stack_lock:
            _stack.append((os.getpid(), threading.get_ident(), self))
        return self

    def __exit__(self, *exception):
        here = os.getpid(), threading.get_ident()
        with _stack_lock:
            for same_thread in (True, False):
                for place in range(len(_stack) - 1, -1, -1):
                    pid, thread, handle = _stack[place]
                    if handle is self and (not same_thread or (pid, thread) == here):
                        del _stack[place]
                        return


# A module global, not a ContextVar: joblib's threads do not inherit context variables.
_stack: list[tuple[int, int, PrivacyAccountant]] = []
_stack_lock = threading.RLock()
_default: PrivacyAccountant | None = None
_nonce = secrets.token_hex(8)  # with the pid, tells this process from all others


def current_accountant(token: dict | None = None) -> PrivacyAccountant:
    """The accountant that a fit without ``accountant=`` charges.

    In this order: the innermost ``with`` block of this thread; of other threads of this process;
    the ledger named by `token`, which came from another process with the estimator; a block
    inherited by fork; the process's default, a temporary ledger without a ceiling.

    Parameters
    ----------
    token : dict, optional
        What :func:`active_accountant_token` returned in the process where the estimator was
        pickled.  Ignored in that process itself.

    Raises
    ------
    BudgetError
        When several other threads have different blocks open and this one has none: a charge to
        the wrong ledger would void a guarantee.
    """
    pid, thread = os.getpid(), threading.get_ident()
    with _stack_lock:
        entries = list(_stack)
    mine = [entry for entry in entries if entry[0] == pid]
    for _, owner, handle in reversed(mine):
        if owner == thread:
            return handle
    innermost = {owner: handle for _, owner, handle in mine}
    if len(set(innermost.values())) > 1:
        raise BudgetError(
            "several threads have different accountants active and this thread has none of its "
            "own; pass accountant= to the estimator, or enter the `with` block in this thread. "
            "Nothing was released."
        )
    if mine:
        return mine[-1][2]
    if token is not None and token["process"] != [pid, _nonce]:
        return _resolve(token)
    if entries:
        return entries[-1][2]
    return _default_accountant()


def active_accountant_token(token: dict | None = None) -> dict:
    """The address of :func:`current_accountant` as plain data, to travel in an estimator's pickle.

    Parameters
    ----------
    token : dict, optional
        The token that the estimator itself arrived with, if it did.
    """
    handle = current_accountant(token)
    return {
        **handle.__getstate__(),
        "process": [os.getpid(), _nonce],
        "default": handle is _default,
    }


def _resolve(token: dict) -> PrivacyAccountant:
    # The default ledger of a process that has ended had no ceiling to protect.
    if token["default"] and not Ledger.exists(token["path"]):
        return _default_accountant()
    state = {name: token[name] for name in ("path", "key", "dataset", "partition")}
    handle = PrivacyAccountant.__new__(PrivacyAccountant)
    handle.__setstate__(state)
    return handle


def _default_accountant() -> PrivacyAccountant:
    global _default
    with _stack_lock:
        if _default is None:
            _default = PrivacyAccountant()
        return _default


def _after_fork_in_child() -> None:
    global _stack_lock
    _stack_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


@lru_cache(maxsize=256)
def _total_epsilon(charges: frozenset, delta: float) -> float:
    if not charges:
        return 0.0
    total = compose([_repeat(json.loads(event), count) for event, count in sorted(charges)])
    pure = total.renyi(math.inf) if total.extra_delta == 0 else math.inf
    return min(float(total.epsilon(delta)), pure) if delta > 0 or pure == math.inf else pure


def _repeat(event: dict, count: int) -> Event:
    single = event_from_dict(event)
    return single if count == 1 else SelfComposedEvent(single, count)


def _check_name(what: str, name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a {what} must be a str, got {type(name).__name__}.")
    if not name:
        raise ValueError(f"the name of a {what} must not be empty.")


def _describe(event: Event, rule: Filter) -> str:
    text = _short(event.to_dict())
    if event.mu is not None:
        return f"{text} (mu={event.mu:.6g})"
    return text


def _short(event: dict) -> str:
    inside = ", ".join(
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in event.items()
        if name != "kind" and isinstance(value, (int, float, str))
    )
    return f"{event.get('kind', 'event')}({inside})"
