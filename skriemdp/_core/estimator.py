"""The one order of work of every estimator: validate, plan, charge, release, report."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, get_tags

from skriemdp._core.arithmetic import INTEGERS, PLAIN
from skriemdp._core.charge import charge
from skriemdp._core.count_releases import count_before
from skriemdp._core.forecast import Expected, ExpectedError, Forecast, forecast, per_group
from skriemdp._core.model_ledger import ledger_of
from skriemdp._core.parameters import check_parameters, check_target, warn_large_delta
from skriemdp._core.spent import ChargedEntry, PrivacySpent
from skriemdp._core.work import Work
from skriemdp._errors import PublicRuntimeError, PublicValueError
from skriemdp._fingerprint import fingerprint
from skriemdp._groups import Groups, check_order, read_groups
from skriemdp._mechanisms.budget import Release
from skriemdp._mechanisms.units import Units
from skriemdp._quiet import Charged, QuietQueries, quietly
from skriemdp._random import NoiseStreams, check_random_state, data_digest
from skriemdp._warnings import unwarned, warn_user, words_of_a_fit
from skriemdp.ledger._current import DetachedAccountant, active_accountant_token
from skriemdp.ledger._units import PRESENT, RELEASED
from skriemdp.privacy._event import Event
from skriemdp.privacy._events import as_drawn


@dataclass(frozen=True)
class Data:
    """Validated input of a fit.

    Attributes
    ----------
    arrays : tuple
        The records: validated arrays (or None), seen by `_release` only.
    facts : Any
        Public facts about them (numbers of records and columns, point shape), seen by `_plan`.
    groups : Groups or None
        Which rows belong to whom, where the records are groups of rows; seen by `_release` only.
    """

    arrays: tuple
    facts: Any
    groups: Groups | None = None

    @property
    def units(self) -> Units:
        """The arrays, and whose rows they hold."""
        return Units(self.arrays, self.groups)

    def by_group(self, groups: Groups) -> Data:
        """The same rows, of which each group is one record."""
        facts = self.facts | {"n": groups.count, "grouped": True}
        return dataclasses.replace(self, facts=facts, groups=groups)


@dataclass(frozen=True)
class Terms:
    """The terms of a fit: its budget, and whether the ledger composes it with other fits.

    Attributes
    ----------
    epsilon, delta : float
        Of this fit.
    composes : bool, default=False
        Whether "auto" choices should consider Gaussian releases only: they are what the ledger
        charges least.  By the ledger's stored rule, never by what it has spent.
    secret_n : bool, default=False
        Whether the number of records that a plan is made for was released with noise: every sum is
        then of integers, no release divides by what it counts itself, and what a plan costs does
        not depend on that number.
    """

    epsilon: float
    delta: float
    composes: bool = False
    secret_n: bool = False


S = TypeVar("S")


@dataclass(frozen=True)
class Plan(Generic[S]):
    """Everything decided before the records are looked at.

    ``Plan[S]`` is a plan whose settings are of type `S`: an estimator's `_plan` returns it and its
    `_release` takes it.

    Attributes
    ----------
    event : Event
        What the release will cost; charged before `_release` runs.
    settings : S
        Calibrated mechanisms and solvers, in whatever form the estimator likes.
    public : dict
        What must be public for the guarantee, by name.
    unit, guarantee : str
        As in :class:`skriemdp.PrivacySpent`.
    work : Work
        Memory besides the records, and steps; refused above the limits of the configuration.
    arithmetic : str
        What is added and drawn, in words: "exact integers", where the guarantee is about the
        program as it runs, or what of it is in floating point (docs/theory/lattice.md).
    releases : tuple of Release
        What the fit may release, by name, with its share of the event.
    """

    event: Event
    settings: S
    public: dict = dataclasses.field(default_factory=dict)
    unit: str = "record"
    guarantee: str = "exact"
    work: Work = Work()
    arithmetic: str = INTEGERS
    releases: tuple[Release, ...] = ()

    @property
    def stated(self) -> dict:
        """The public facts that ledger and statement hold."""
        return {"arithmetic": self.arithmetic, "releases": self.releases} | self.public


def tags_of(tags: Tags, estimator: Any) -> Tags:
    """`tags` of a meta-estimator that does what `estimator` does."""
    inner = get_tags(estimator)
    for kind in ("classifier", "regressor", "transformer", "input", "target"):
        setattr(tags, f"{kind}_tags", getattr(inner, f"{kind}_tags"))
    tags.estimator_type = inner.estimator_type
    return tags


def validated(estimator: Any, X: Any, y: Any = None, groups: Any = None, **least: int) -> Data:
    """``estimator._validate(X, y)``, whose errors show no record; with `groups` for records."""
    # What scikit-learn says was repeated on stand-ins within; the rest gets a fixed sentence.
    data = quietly(functools.partial(estimator._validate, **least), X, y, labels=True)
    if groups is not None:
        check_order(groups, X)
        data = data.by_group(read_groups(groups, data.facts["n"]))
    return estimator._with_tried_functions(data)


# Fits that have not ended, by the id of the estimator: the thread, and what a `fit` that the
# outermost one called has learned so far.
_running: dict[int, tuple[int, set[str]]] = {}


def _forget_other_threads() -> None:
    for key, (thread, _) in list(_running.items()):
        if thread != threading.get_ident():
            del _running[key]


if hasattr(os, "register_at_fork"):  # a child has the thread that forked, and no other
    os.register_at_fork(after_in_child=_forget_other_threads)


def _whole(fit: Callable[..., Any]) -> Callable[..., Any]:
    """`fit` that begins with nothing learned, and leaves all as it was where it does not end.

    What it has to tell after its charge is told when all is learned.  A fit of a base class that
    `fit` calls is a part of it, and keeps what the subclass has stored.  Parameters are those of
    the plan until the end: what a callback changes would be stated, or used, and was not charged.
    """

    @functools.wraps(fit)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        mine = threading.get_ident(), set[str]()
        running = _running.setdefault(id(self), mine)
        if running[0] != mine[0]:
            raise PublicRuntimeError(
                "another thread is fitting this estimator, so this fit was refused and nothing was "
                "charged for it; give each thread an estimator of its own: sklearn.base.clone."
            )
        if running is not mine:
            for name in running[1]:
                vars(self).pop(name, None)
            own = set(vars(self))
            fit(self, *args, **kwargs)
            running[1].clear()
            running[1].update(vars(self).keys() - own)
            return self
        before = vars(self)
        learned = before.get("_learned", ())
        given = {k: v for k, v in before.items() if not k.endswith("_") and k not in learned}
        given.pop("_released", None)
        try:
            self.__dict__ = dict(given)
            # Not numpy's decorator: its frame would be the line that warnings point at.
            with words_of_a_fit() as words, np.errstate(all="ignore"):
                fit(self, *args, **kwargs)
            _check_unchanged(self, given)
            self._learned = tuple(sorted(vars(self).keys() - given.keys()))
            # So that a file of the model can be compared with what was released.
            self._released = {name: fingerprint(vars(self)[name]) for name in self._learned}
        except BaseException:  # an interrupt too; one assignment, which no other can divide
            self.__dict__ = before
            raise
        finally:
            del _running[id(self)]
        words.tell()
        return self

    return whole


def _check_unchanged(estimator: Any, given: dict[str, Any]) -> None:
    names = estimator.get_params(deep=False)
    changed = [name for name in names if vars(estimator).get(name) is not given.get(name)]
    if changed:
        raise PublicRuntimeError(
            f"{', '.join(changed)} changed while this estimator was fitted (a callback or another "
            "thread set it), so nothing was learned, the old value is back, and what was charged "
            "is spent; fit again with the new one."
        )


class CarriesLedger:
    """Base of all estimators that charge: fitted by a fit that ended, or as they were before.

    *A fit is whole*: one that is refused, fails or is interrupted leaves neither its own numbers
    beside an older statement of privacy nor those of an older fit beside its own.  Floating-point
    warnings are off meanwhile: numpy's "overflow encountered", or the error that ``np.seterr`` can
    make of it, would tell that some record is huge.  One thread at a time fits an estimator.

    *The ledger* is taken along when an unfitted estimator is pickled, and left when a fitted is.
    An estimator that names no accountant charges the active one.  In a worker process that is the
    caller's: the address of its ledger travels with the unfitted estimator and with its clones.
    Fitted models are published, so no address travels with them, nor with the estimators that they
    were made of: a named accountant is :class:`skriemdp.ledger._current.DetachedAccountant` in the
    copy.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "fit" in vars(cls):
            cls.fit = _whole(vars(cls)["fit"])  # type: ignore[attr-defined]

    def _accountant(self) -> Any:
        return ledger_of(self)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())  # type: ignore[call-overload]
        token = state.pop("_ledger_token", None)
        if any(name.endswith("_") for name in state):
            return state | _without_ledger(self)
        if getattr(self, "accountant", None) is None:
            state["_ledger_token"] = token if token == {} else active_accountant_token(token)
        return state

    def __sklearn_clone__(self) -> Any:
        copy = super().__sklearn_clone__()  # type: ignore[misc]
        if hasattr(self, "_ledger_token"):
            copy._ledger_token = self._ledger_token
        return copy


def _ledgers(params: dict[str, Any]) -> list[str]:
    """Names of the parameters that are accountants."""
    named = [name for name, value in params.items() if value is not None]
    return [name for name in named if name.split("__")[-1] == "accountant"]


def _without_ledger(model: Any) -> dict[str, Any]:
    """The parameters of a fitted model as they are published."""
    params = model.get_params(deep=False)
    own = "accountant" in params  # else the stand-ins are those of the estimators within
    if own and _ledgers(model.get_params()):
        params["accountant"] = DetachedAccountant()
    for name, value in params.items():
        if hasattr(value, "get_params") and not isinstance(value, type):
            params[name] = made = clone(value)
            made.set_params(
                **{at: None if own else DetachedAccountant() for at in _ledgers(made.get_params())}
            )
            for part in (made, *made.get_params().values()):
                if isinstance(part, CarriesLedger):
                    vars(part)["_ledger_token"] = {}  # of nowhere
    return params


# A fit whose number of records is secret is first planned for this public number, to refuse what
# cannot run; and for the released number, or this one if that is less.
_NOMINAL_N, _LEAST_N = 1000, 2


def check_noise(event: Event) -> None:
    """Refuse a Gaussian event whose noise no release can draw; before the charge."""
    # Below this mu a share of it would ask for more noise than integers of the usual scale have.
    if event.mu is not None and 0.0 < event.mu < 1e-8:
        raise PublicValueError(
            "epsilon and delta are so small that the noise could not be drawn, and would leave "
            f"nothing of the data (mu={event.mu:.3g}); use a larger epsilon or delta."
        )


class PrivateEstimator(CarriesLedger, QuietQueries, BaseEstimator):
    """Base of all estimators: fixes the order in which a fit touches public and private things.

    A subclass has the parameters ``epsilon, delta, accountant, random_state``.  It writes

    * ``_validate(X, y) -> Data``: shapes, dtypes, NaN, membership; no statistic of the records;
    * ``_plan(facts, terms) -> Plan``: parameters checked, noise calibrated, from public facts and
      the :class:`Terms` only;
    * ``_release(data, plan, streams)``: computes noisy answers and sets the learned attributes;
      ``streams("label")`` gives the noise generator of each release.

    and calls ``self._fit(X, y)`` in its public ``fit``.  The budget is charged between `_plan` and
    `_release`, so no error can come after noise without a charge and no
    statistic of the records is computed before one.
    """

    # Whether the fitted model stores what `predict` is asked, for whoever gets the model to see.
    _remembers_queries = False
    if TYPE_CHECKING:  # what a subclass has
        epsilon: Any
        delta: Any
        accountant: Any
        random_state: Any

        def _validate(self, X: Any, y: Any = None) -> Data: ...
        def _plan(self, facts: Any, terms: Terms) -> Plan[Any]: ...
        def _release(self, data: Data, plan: Plan[Any], streams: NoiseStreams) -> None: ...

    def plan(
        self,
        n: int,
        shape: int | tuple[int, ...],
        *,
        y_shape: int | tuple[int, ...] = (),
        n_classes: int = 2,
        grouped: bool = False,
        spread: Any = None,
    ) -> Forecast:
        """Return what a fit of n records will release, cost and need, before any data are seen.

        It is the plan that `fit` would charge, made from the same public numbers.  Nothing is
        charged, and no data are asked for.

        Parameters
        ----------
        n : int
            Number of records; of groups, with `grouped`.
        shape : int or tuple of int
            Of a row of X: the number of features, or the shape of a point.
        y_shape : int or tuple of int, default=()
            Of a row of y, where responses are points.
        n_classes : int, default=2
            Of a classifier without a list of `classes`.
        grouped : bool, default=False
            Whether `fit` will get `groups`.
        spread : float or array-like, optional
            What is believed of the data, not computed from them: the root mean square distance of
            records to their mean; for principal components the standard deviations along the
            principal axes.  Without it errors are told in units of the spread, or of the ball.

        Returns
        -------
        skriemdp._core.forecast.Forecast
            With the expected error, where theory has it, and the smallest number of records at
            which the result is worth having.

        Raises
        ------
        ValueError, TypeError
            Where such a fit would be refused.
        """
        check_target(self.epsilon, self.delta)
        check_parameters(self)
        return forecast(self, n, shape, y_shape, n_classes, grouped, spread)

    def _stand_in(self, shape: tuple[int, ...], y_shape: tuple[int, ...]) -> tuple[Any, Any]:
        """A row of X and one of y that a fit takes, for a plan; made up."""
        return np.zeros(shape), np.zeros(y_shape)

    def _expected(self, plan: Plan[Any], facts: Any, spread: Any) -> Expected:
        """Predict the result of a planned fit; by default, the noise of its last release."""
        last = plan.releases[-1]
        mechanism = f"{last.name}, {last.law} noise"
        if plan.event.mu is None:
            return Expected(mechanism)
        noise = 1.0 / (plan.event.mu * math.sqrt(last.share))
        return Expected(
            mechanism, (ExpectedError("noise", noise, f"sensitivities of {last.name}"),)
        )

    def _planned(self, facts: dict[str, Any], terms: Terms) -> Plan[Any]:
        """The plan of a fit, which says what its delta allows."""
        plan = self._plan(facts, terms)
        warn_large_delta(self.delta, facts["n"])
        return plan

    def _fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        check_target(self.epsilon, self.delta)
        check_random_state(self.random_state)
        check_parameters(self)
        accountant = self._accountant()
        if getattr(accountant, "unit", None) == PRESENT:
            return self._fit_secret_n(X, y, groups, accountant)
        data = validated(self, X, y, groups)
        plan = self._planned(data.facts, self._terms(accountant))
        if data.groups is not None:
            plan = per_group(plan)
        plan.work.begin()
        check_noise(plan.event)
        streams = NoiseStreams(self.random_state, self._noise_context(data, plan))
        entry = self._charge(accountant, plan)
        # A function of a user may change parameters from here on; stated is what was charged.
        spent = self._spent(plan, entry)
        watched = getattr(self, "callback", None) is not None
        with (charged := Charged(entry, watched)):
            self._release(data, plan, streams)
        charged.raise_failure()
        self.privacy_spent_ = spent
        return self

    def _fit_secret_n(self, X: Any, y: Any, groups: Any, accountant: Any) -> Self:
        """A fit whose number of records is released, before everything else.

        *Guarantee*: that of the event, under replacement, addition and removal of one record
        (docs/theory/presence.md).  Behind the charge nothing is refused that the released number
        could bring about.
        """
        left, refusal = self._share_after_presence, self._needs_public_n(groups)
        if left is None or refusal:
            raise PublicValueError(
                f"the accountant keeps the number of records secret, and {refusal}"
            )
        data = validated(self, X, y, least=0)
        terms = dataclasses.replace(self._terms(accountant), secret_n=True)

        def planned(n: int) -> Plan:
            plan = self._planned(data.facts | {"n": n}, terms)
            stated = {name: fact for name, fact in plan.public.items() if name != "n"}
            if cost not in (None, plan.event) or plan.arithmetic not in (INTEGERS, PLAIN):
                raise PublicRuntimeError("this plan is not for a secret number of records.")
            return dataclasses.replace(plan, unit=PRESENT, public=stated)

        cost = None
        with unwarned():
            plan = planned(_NOMINAL_N)
        cost = plan.event
        plan.work.begin()
        check_noise(plan.event)
        count, event = count_before(plan.event, left, terms.epsilon, terms.delta)
        streams = NoiseStreams(self.random_state, self._noise_context(data, plan))
        plan = dataclasses.replace(plan, event=event)
        entry = self._charge(accountant, plan)
        spent = self._spent(plan, entry, "replace-one or add/remove-one")
        with (charged := Charged(entry)):
            found = count.release(data.facts["n"], streams("number of records"))
            n = max(_LEAST_N, round(found))
            if found < 4.0 * count.sigma:
                warn_user(
                    f"the released number of records is {found:.3g}, with noise of standard "
                    f"deviation {count.sigma:.3g}: what is divided by it says next to nothing. Use "
                    "more records or a larger epsilon."
                )
            plan = planned(n)
            told = {"n released": found, "noise of n": count.sigma}
            data = dataclasses.replace(data, facts=data.facts | told | {"n": n})
            self._release(data, plan, streams)
        charged.raise_failure()
        self.privacy_spent_ = dataclasses.replace(spent, public=plan.stated | told)
        return self

    @property
    def _share_after_presence(self) -> float | None:
        """The part of mu**2 that is left where a record is added or removed, whatever was planned.

        None where the number of records must be public (docs/theory/presence.md).
        """
        return None

    def _needs_public_n(self, groups: Any) -> str:
        """Why the number of records cannot be secret, and the cure; empty where it can."""
        cure = "make an accountant with unit='record', under which their number is public."
        if self._share_after_presence is None:
            return f"{type(self).__name__} needs it: {cure}"
        if groups is not None:
            return f"groups= asks for the number of people: {cure}"
        if self.delta == 0.0:
            return "is released with Gaussian noise, which needs delta > 0: pass one."
        return ""

    def _spent(
        self, plan: Plan[Any], entry: ChargedEntry | None, neighboring: str = "replace-one"
    ) -> PrivacySpent:
        return PrivacySpent(
            float(self.epsilon),
            float(self.delta),
            as_drawn(plan.event, self.random_state),
            plan.unit,
            plan.guarantee,
            plan.stated,
            neighboring,
            entry,
        )

    def _with_tried_functions(self, data: Data) -> Data:
        """`data`, after what can be refused only where the number of records is known."""
        return data

    def _terms(self, accountant: Any) -> Terms:
        epsilon, delta = float(self.epsilon), float(self.delta)
        return Terms(epsilon, delta, accountant.composes(epsilon, delta))

    def _gaussian_choice(self) -> str:
        """Parameters that make a fit like this one Gaussian; a refused fit is told of them."""
        return ""

    def _charge(self, accountant: Any, plan: Plan[Any]) -> ChargedEntry | None:
        return charge(
            accountant,
            plan.event,
            self,
            random_state=self.random_state,
            params={"unit": plan.unit, "guarantee": plan.guarantee},
            facts={
                name: fact
                for name, fact in plan.stated.items()
                if plan.unit != PRESENT or name not in RELEASED
            },
            at=(float(self.epsilon), float(self.delta)),
            gaussian=self._gaussian_choice(),
        )

    def _noise_context(self, data: Data, plan: Plan[Any]) -> bytes:
        if self.random_state is None:
            return b""
        head = [type(self).__name__, json.dumps(plan.event.to_dict(), sort_keys=True)]
        return repr(head).encode() + data_digest(*data.arrays)
