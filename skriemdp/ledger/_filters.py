"""Privacy filters: rules by which a ledger with a ceiling stops, however the analyst adapts.

An analyst sees one release and then decides what to fit and at which epsilon.  A filter keeps the
whole interaction (epsilon, delta)-private in that case; composing privacy loss distributions in
order of arrival would not be proved to.  Statements and proofs: docs/theory/filters.md.

Costs are tuples of integers in units of 1e-24 (rounded up; None: unbounded), so sums are exact and
no rounding of a sum can admit one spend too many.
"""

from __future__ import annotations

import decimal
import math
import numbers
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from scipy.optimize import minimize_scalar
from scipy.stats import norm

from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._validation import check_fraction, check_option, check_positive
from skriemdp.ledger._chain import Amounts, Dataset, Standing, add
from skriemdp.ledger._errors import BudgetError
from skriemdp.privacy._calibration import gaussian_epsilon, gaussian_mu
from skriemdp.privacy._lattice import rounding_divergence

if TYPE_CHECKING:
    from skriemdp.privacy._event import Event


__all__ = ["Filter", "Remaining", "make_filter"]

DIGITS = 24
_EXACT = decimal.Context(prec=2000)
# A sum may pass a computed limit by this relative amount, a hundred roundings: k fits, each
# calibrated to a k-th of the budget, may use all of it.  mu* and the Renyi budget are rounded down
# by more (tests hold it), so the ceiling itself is never passed.
SLACK = decimal.Decimal("1e-14")


def _written(value: float) -> decimal.Decimal:
    return decimal.Decimal(repr(float(value)))


def units(
    value: float | decimal.Decimal, rounding: str = decimal.ROUND_CEILING, slack: Any = 0
) -> int:
    """Smallest number of units that covers the number as it is written in decimals."""
    exact = value if isinstance(value, decimal.Decimal) else _written(value)
    scaled = _EXACT.multiply(exact, 1 + slack).scaleb(DIGITS, _EXACT)
    return int(scaled.to_integral_value(rounding))


_limit = partial(units, rounding=decimal.ROUND_FLOOR)


def _square(value: float) -> decimal.Decimal:
    return _EXACT.multiply(_written(value), _written(value))


def number(amount: int) -> float:
    """Largest float whose units the amount covers (for display and for planning)."""
    value = amount / 10**DIGITS
    while units(value) > amount:
        value = math.nextafter(value, -math.inf)
    return value


def renyi_budget(order: float, epsilon: float, delta: float) -> float:
    """Largest Renyi divergence at `order` that is surely (epsilon, delta)-private, rounded down.

    Inverse of Canonne, Kamath and Steinke (2020), Proposition 12.  May be negative: no budget.
    """
    budget = epsilon - math.log1p(-1 / order) + (math.log(delta) + math.log(order)) / (order - 1)
    return budget - 1e-11 * max(abs(budget), epsilon)


def renyi_order(epsilon: float, delta: float) -> float:
    """The order at which a Renyi filter admits the largest Gaussian release."""

    def neg_square_mu(log_order_minus_one: float) -> float:
        order = 1 + math.exp(log_order_minus_one)
        return -renyi_budget(order, epsilon, delta) / order

    # The optimum lies near 1 + sqrt(2 log(1/delta)) / mu*; any order is valid.
    centre = math.log(math.sqrt(2 * math.log(1 / delta)) / gaussian_mu(epsilon, delta))
    found = minimize_scalar(neg_square_mu, bounds=(centre - 3, centre + 3), method="bounded")
    return 1 + math.exp(found.x)


# A total is admitted where it keeps all limits of one of these.
_WAYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "auto": (("mu_squared",), ("rho", "delta"), ("pure", "delta")),
    "sum": (("epsilon", "delta"),),
    "renyi": (("rho", "delta"), ("pure", "delta")),
    "gdp": (("mu_squared",), ("pure",)),
    "gdp-part": (("mu_squared",),),
}
# What each rule adds up, in the order in which a ledger stores it.
AXES = {kind: tuple(dict.fromkeys(chain(*ways))) for kind, ways in _WAYS.items()}
_PLACES = {
    kind: [[AXES[kind].index(axis) for axis in way] for way in ways] for kind, ways in _WAYS.items()
}
_SUMS = {"mu_squared": "mu^2", "pure": "pure epsilons", "epsilon": "epsilons", "delta": "deltas"}
# The rules that a user may choose; a "gdp-part" is made by a division.
KINDS = ("auto", "sum", "renyi", "gdp")
_FIELDS = ("kind", "epsilon", "delta", "order", "limits")


def _joined(
    kind: str, each: Sequence, every: Callable[..., Any] = max, some: Callable[..., Any] = min
) -> bool | float:
    """One number for a rule from one number for each of its axes.

    ``every`` joins conditions that must all hold and ``some`` those of which one is enough: with
    the shares that are used (max, min) the rule holds where the result is at most 1; with the
    spends that still fit (min, max) the result counts them.
    """
    return some([every([each[place] for place in way]) for way in _PLACES[kind]])


def round_up(value: float) -> str:
    """Four digits, never below the value."""
    return f"{math.ceil(value * 1e4) / 1e4:.4f}" if math.isfinite(value) else "inf"


def round_down(value: float) -> str:
    """Four digits, never above the value."""
    # The factor keeps an untouched 0.3 from printing as 0.2999.
    return f"{math.floor(value * 1e4 * (1 + 1e-12)) / 1e4:.4f}"


def plain_number(value: float, up: bool = False) -> str:
    """Four significant digits, never above the value (`up`: never below)."""
    if value <= 0.0 or not math.isfinite(value):
        return f"{max(value, 0.0):g}"
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    turn = math.ceil if up else math.floor
    return f"{turn(value / step * (1.0 - 1e-12 if up else 1.0 + 1e-12)) * step:.4g}"


@dataclass(frozen=True)
class Remaining:
    """The budget that a filter would still admit, rounded down.

    Attributes
    ----------
    filter : str
        The stored rule these numbers speak of.
    epsilon, delta : float
        Largest epsilon that one more Gaussian fit (under ``"sum"``: any fit) at this delta may ask;
        with `times` above 1, that each of so many may ask.
    mu : float
        The same as a Gaussian mu.
    pure_epsilon : float
        An epsilon that one more pure (delta = 0) fit, or each of `times`, may surely ask; the
        filter may admit more.
    times : int
        For how many equal fits the numbers hold.
    used : float
        Share of the budget that is used, in [0, 1], by the condition that is closest to its limit.
    """

    filter: str
    epsilon: float
    delta: float
    mu: float
    pure_epsilon: float
    times: int = 1
    used: float = 0.0

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            return f"no ceiling [{self.filter}]"
        fit, each = ("a", "") if self.times == 1 else (f"{self.times}", " each")
        fits = "fit" if self.times == 1 else "fits"
        pure = f"{fit} pure {fits} of epsilon <= {round_down(self.pure_epsilon)}{each}"
        if self.delta == 0.0:  # Gaussian noise needs one
            return pure
        kind = "" if self.filter.startswith("sum") else "Gaussian "
        return (
            f"{fit} {kind}{fits} of epsilon <= {round_down(self.epsilon)} at delta={self.delta:g}"
            f"{each}, or {pure}"
        )


@dataclass(frozen=True)
class Filter:
    """The stored stopping rule of one data set in one ledger.

    Parameters
    ----------
    kind : {"auto", "sum", "renyi", "gdp", "gdp-part"}
    epsilon, delta : float
        The ceiling; ``epsilon=inf`` admits everything.
    order : float or None
        Order of the Renyi divergences (``"auto"`` and ``"renyi"`` with a finite ceiling and
        delta > 0).
    limits : tuple of int, or None
        Largest admitted total of each quantity in ``AXES[kind]``.  None: no ceiling.

    Notes
    -----
    *Guarantee*.  Everything released by an adaptive sequence of admitted spends, on one data set
    with replace-one adjacency, is jointly (epsilon, delta)-differentially private.  A total is
    admitted when

    * ``"auto"``: sum of mu^2 <= mu*(epsilon, delta / 2)^2, or sum of deltas <= delta / 10 and
      (sum of rho(order) <= the Renyi budget of 0.4 delta or sum of pure epsilons <= epsilon);
    * ``"sum"``: sum of epsilons <= epsilon and sum of deltas <= delta;
    * ``"renyi"``: sum of deltas <= delta / 10 and (sum of rho(order) <= the Renyi budget of
      0.9 delta or sum of pure epsilons <= epsilon);
    * ``"gdp"``: sum of mu^2 <= mu*(epsilon, delta)^2 or sum of pure epsilons <= epsilon;
    * ``"gdp-part"``: sum of mu^2 <= the part's share of a divided ledger's mu*^2;

    or, under ``"auto"``, ``"renyi"`` and ``"gdp"``, when nothing was charged to these records
    before and the one spend is (epsilon, delta)-private by its own profile (it then uses the
    ledger up).  Proofs: docs/theory/filters.md.
    """

    kind: str
    epsilon: float
    delta: float
    order: float | None
    limits: tuple | None

    @property
    def zero(self) -> Amounts:
        """The cost of nothing."""
        return () if self.limits is None else (0,) * len(self.limits)

    def costs(self, event: Event, at: tuple[float, float] | None = None) -> tuple[Amounts, ...]:
        """Return amounts that `event` may add to the totals, cheapest first; each is a valid bound.

        More than one under ``"sum"`` only, where the release pays the first that fits.  `at` is the
        pair (epsilon, delta) that the event was calibrated to, if there is one.  ValueError where
        this filter cannot account for the event.
        """
        return _costs(self, event, at if self.kind == "sum" else None)

    def cost(self, event: Event, at: tuple[float, float] | None = None) -> Amounts:
        """The first of :meth:`costs`."""
        return self.costs(event, at)[0]

    def composes(self, epsilon: float, delta: float) -> bool:
        """Whether a fit at (epsilon, delta) that is free to choose its noise should be Gaussian.

        True where this rule charges Gaussian releases least and the fit may be one of several.
        It depends on the stored rule alone, never on what is spent, so the noise of a fit does not
        move with the ledger's history.
        """
        if self.limits is None or self.kind == "sum" or delta == 0.0:
            return False
        if self.kind == "gdp-part":
            return True
        return not (epsilon >= self.epsilon and delta >= self.delta)

    def admits_total(self, total: Amounts) -> bool:
        """Whether the running filter admits a total."""
        if self.limits is None:
            return True
        over = [used is None or used > top for used, top in zip(total, self.limits, strict=True)]
        return not _joined(self.kind, over)

    def used(self, total: Amounts) -> float:
        """Share of the ceiling that a total uses, by the condition that is closest to its limit.

        Above 1 for a total that the running filter does not admit, such as that of one release
        that took the whole ledger.
        """
        if self.limits is None:
            return 0.0
        shares = [
            0.0 if used == 0 else math.inf if used is None or top <= 0 else used / top
            for used, top in zip(total, self.limits, strict=True)
        ]
        return _joined(self.kind, shares)

    def admits(self, standing: Standing, cost: Amounts, event: Event) -> bool:
        """Whether `event` may be charged on top of `standing`."""
        if self.admits_total(add(standing.total, cost)):
            return True
        return standing.untouched and self.fills(event)

    def fills(self, event: Event) -> bool:
        """Whether `event` alone is (epsilon, delta)-private, and may thus be the only spend.

        Never true under ``"sum"``, whose costs show it already, nor of a ``"gdp-part"``: pairs of
        the parts, each of them true, do not add up to the divided ledger's pair.
        """
        return self.kind in ("auto", "renyi", "gdp") and _fills(self, event)

    def count(self, standing: Standing, costs: tuple[Amounts, ...], event: Event) -> int | float:
        """Number of further spends of `event`, each at one cost, that would be admitted; or inf."""
        return max(self._times(standing, cost, event) for cost in costs)

    def _times(self, standing: Standing, cost: Amounts, event: Event) -> int | float:
        if self.limits is None:
            return math.inf
        room = [
            -1
            if used is None or each is None
            else (math.inf if each == 0 and used <= top else (top - used) // max(each, 1))
            for used, each, top in zip(standing.total, cost, self.limits, strict=True)
        ]
        times = max(_joined(self.kind, room, every=min, some=max), 0)
        return 1 if times == 0 and standing.untouched and self.fills(event) else times

    def remaining(self, standing: Standing, times: int = 1) -> Remaining:
        """Return what remains for each of `times` equal spends."""
        used = min(self.used(standing.total), 1.0)
        return Remaining(self.describe(), *self._room(standing, times), times, used)

    def _room(self, standing: Standing, times: int) -> tuple[float, float, float, float]:
        # Epsilon and delta of a Gaussian fit, its mu, and an epsilon that is surely admitted:
        # D_alpha <= epsilon holds for pure events, and so does mu-GDP with
        # mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)).  Only a single spend may fill untouched
        # records.
        if self.limits is None:
            return math.inf, self.delta, math.inf, math.inf
        left = {
            name: number(max(top - used, 0) // times if used is not None else 0)
            for name, used, top in zip(AXES[self.kind], standing.total, self.limits, strict=True)
        }
        if self.kind == "sum":
            epsilon, delta = left["epsilon"], left["delta"]
            mu = gaussian_mu(epsilon, delta) if epsilon > 0.0 and delta > 0.0 else 0.0
            return epsilon, delta, mu, epsilon
        if times == 1 and standing.untouched and self.kind != "gdp-part":
            mu = gaussian_mu(self.epsilon, self.delta) if self.delta > 0 else 0.0
            return self.epsilon, self.delta, mu, self.epsilon
        if "delta" in left:
            place = AXES[self.kind].index("delta")
            extra = standing.total[place]
            if extra is None or extra > self.limits[place]:
                left["rho"] = left["pure"] = 0.0
        square, rho = left.get("mu_squared", 0.0), left.get("rho", 0.0)
        mu, pure = math.sqrt(square) * (1 - 1e-11), 0.0
        if "pure" in left or square > 0.0:
            by_gauss = (norm.logcdf(mu / 2) - norm.logsf(mu / 2)) * (1 - 1e-11)
            pure = max(left.get("pure", 0.0), rho * (1 - 1e-11), by_gauss)
        if self.order:
            mu = max(mu, math.sqrt(2 * rho / self.order) * (1 - 1e-11))
        epsilon = gaussian_epsilon(mu, self.delta) * (1 - 1e-9) if mu > 0 else 0.0
        return epsilon, self.delta, mu, pure

    def describe(self) -> str:
        """One line for people: the rule and its limits."""
        if self.limits is None:
            return f"{self.kind} (no ceiling)"
        limit = dict(zip(AXES[self.kind], self.limits, strict=True))
        said = {
            axis: f"sum of {_SUMS.get(axis, axis)} <= {number(max(top, 0)):.6g}"
            + (f" at order {self.order:.4g}" if axis == "rho" and self.order else "")
            for axis, top in limit.items()
        }
        ways = [
            " and ".join(said[axis] for axis in way)
            for way in _WAYS[self.kind]
            if min(limit[axis] for axis in way) >= 0
        ]
        return f"{self.kind} ({', or '.join(ways)})"

    def to_dict(self) -> dict:
        """Return the stored form: infinity as a string, limits as decimal strings."""
        limits = None if self.limits is None else list(map(str, self.limits))
        found = self.kind, repr(self.epsilon), repr(self.delta), self.order and repr(self.order)
        return dict(zip(_FIELDS, (*found, limits), strict=True))

    @classmethod
    def stored(cls, place: Dataset) -> Filter:
        """The rule of a data set, from what :meth:`to_dict` gave."""
        try:
            kind, epsilon, delta, order, limits = map(place.terms["filter"].__getitem__, _FIELDS)
            limits = None if limits is None else tuple(map(int, limits))
            if len(limits or AXES[kind]) != len(AXES[kind]):
                raise PublicValueError("limits of another rule")
            order = None if order is None else float(order)
            return cls(kind, float(epsilon), float(delta), order, limits)
        except (KeyError, TypeError, ValueError):
            raise BudgetError(
                f"data set {place.name!r} has a rule that this version cannot read; the file was "
                "changed, or a newer version made it. Restore the file, or use that version."
            ) from None


def make_filter(kind: str, epsilon: float, delta: float) -> Filter:
    """Filter of a new data set: its order and limits are computed once, here, and then stored."""
    check_option(KINDS, filter=kind)
    check_positive(allow_inf=True, epsilon=epsilon)
    check_fraction(open_left=False, delta=delta)
    epsilon, delta = float(epsilon), float(delta)
    if math.isinf(epsilon):
        return Filter(kind, epsilon, delta, None, None)
    if kind == "gdp" and delta == 0:
        raise PublicValueError(
            'filter="gdp" needs delta > 0; for pure privacy leave filter="auto", its default.'
        )
    order, limit = None, {"mu_squared": -1, "rho": -1, "delta": 0, "pure": _limit(epsilon)}
    limit["epsilon"] = limit["pure"]
    if delta > 0:
        gaussian, renyi, approximate = _SHARES[kind]
        limit["delta"] = _limit(approximate * delta)
        if gaussian:
            limit["mu_squared"] = _limit(
                _square(gaussian_mu(epsilon, gaussian * delta)), slack=SLACK
            )
        if renyi:
            order = renyi_order(epsilon, renyi * delta)
            rho = renyi_budget(order, epsilon, renyi * delta)
            limit["rho"] = _limit(rho, slack=SLACK) if rho > 0 else -1
    return Filter(kind, epsilon, delta, order, tuple(limit[name] for name in AXES[kind]))


# Parts of delta that pay for the Gaussian side, the Renyi side and approximate events.
_SHARES = {
    "auto": (0.5, 0.4, 0.1), "sum": (0.0, 0.0, 1.0),
    "renyi": (0.0, 0.9, 0.1), "gdp": (1.0, 0.0, 0.0),
}  # fmt: skip


# -- dividing ------------------------------------------------------------------------------------


def divide(rule: Filter, weights: Sequence[Fraction], gaussian: bool) -> list[Filter]:
    """Filters of the parts of a ledger; `weights` are positive and add up to at most 1.

    Plain parts share epsilon and delta, in decimals and rounded down, and keep the rule's kind.
    Gaussian parts share mu^2: everything charged to all of them stays under mu*(epsilon, delta)^2,
    so the divided ledger's (epsilon, delta) holds for them together; the pair of a part is true of
    that part alone.
    """
    if not gaussian:
        return [
            make_filter(rule.kind, _floor(rule.epsilon, weight), _floor(rule.delta, weight))
            for weight in weights
        ]
    if rule.kind == "gdp-part" and rule.limits is not None:
        whole = decimal.Decimal(rule.limits[0]).scaleb(-DIGITS, _EXACT)
    else:
        whole = _square(gaussian_mu(rule.epsilon, rule.delta))
    return [_gaussian_part(whole, weight, rule.delta) for weight in weights]


def _gaussian_part(whole: decimal.Decimal, weight: Fraction, delta: float) -> Filter:
    top = int(Fraction(whole) * weight * 10**DIGITS)
    epsilon = gaussian_epsilon(math.sqrt(number(top)), delta) if top else 0.0
    step = 1e-13
    while epsilon > 0.0:
        limit = _limit(_square(gaussian_mu(epsilon, delta)), slack=SLACK)
        if limit <= top:  # else rounding made the pair a little too large for its share
            return Filter("gdp-part", epsilon, delta, None, (limit,))
        epsilon *= 1.0 - step
        step *= 2.0
    raise PublicValueError(
        f"a share of {float(weight):.3g} of this ledger is below what its delta={delta:g} gives "
        "away for nothing; divide it into fewer or larger parts."
    )


def _floor(value: float, weight: Fraction) -> float:
    """Largest float whose decimal digits are at most `weight` of those of `value`."""
    exact = Fraction(_written(value)) * weight
    share = float(exact)
    while Fraction(_written(share)) > exact:
        share = math.nextafter(share, 0.0)
    return share


# -- costs ---------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _fills(rule: Filter, event: Event) -> bool:
    if rule.limits is None:
        return False
    if rule.delta == 0.0:  # a matter of what the event is; its delta might underflow
        return event.epsilon(0.0) <= rule.epsilon
    return event.delta(rule.epsilon) <= rule.delta


@lru_cache(maxsize=4096)
def _costs(rule: Filter, event: Event, at: tuple[float, float] | None) -> tuple[Amounts, ...]:
    refuse_strange_sizes(event)
    extra = event.extra_delta
    _check_size("extra_delta", extra)
    if event.renyi_tv:
        # Integers on random batches: their Renyi bound leaves out less than this, a unit of cost.
        extra += 1e-24
    bound = event.gdp_bound if "mu_squared" in AXES[rule.kind] else None
    if bound is not None and math.isfinite(bound):
        _check_size("gdp_bound", bound)
    elif rule.kind in ("gdp", "gdp-part"):
        part = rule.kind == "gdp-part"
        other = "a division without gaussian=True" if part else "an accountant with filter='auto'"
        raise PublicValueError(
            f"this ledger adds up mu^2, and {type(event).__name__} has no finite mu; use {other} "
            "for it."
        )
    else:
        bound = None
    if rule.limits is None:
        # Some events have no Renyi bound, which is no fault of their size.
        if (size := event.rough_size) != math.inf:
            _check_size("the size", size)
        return ((),)
    pure: float | None = event.renyi(math.inf)
    if pure == math.inf:
        pure = None
    else:
        _check_size("the pure epsilon", pure)
    if rule.kind == "sum":
        return _pairs(rule, event, at, pure)
    rho = math.inf if rule.order is None else event.renyi(rule.order)
    if event.renyi_tv and rho != math.inf:
        assert rule.order is not None
        rho += rounding_divergence(event.renyi_tv, rule.order)
    if rho != math.inf:
        _check_size("the Renyi divergence", rho)
    costs = {
        "mu_squared": None if bound is None else units(_square(bound)),
        "rho": None if rho == math.inf else units(rho),
        "delta": units(extra),
        "pure": None if pure is None else units(pure),
    }
    return (tuple(costs[name] for name in AXES[rule.kind]),)


def _pairs(rule: Filter, event: Event, at: Any, pure: float | None) -> tuple[Amounts, ...]:
    """Pairs (epsilon, delta) of the event, under plain addition; None where none ever fits.

    One is `at`, or of a pure event without it the pure epsilon and no delta.  Another is that of a
    share w of the ceiling, the smallest found for which the event is (w epsilon, w delta)-private.
    The second comes first where it saves 1 %.
    """
    if at is None and pure is not None and event.extra_delta == 0.0:
        at = pure, 0.0
    start = 1.0
    pairs: list[Amounts] = []
    if at is not None:
        shares = [at[0] / rule.epsilon]
        if at[1] > 0.0:
            shares.append(at[1] / rule.delta if rule.delta > 0.0 else math.inf)
        start, pairs = max(shares), [(units(at[0]), units(at[1]))]
    share = _smallest_share(rule, event, min(start, 1.0)) if rule.delta > 0.0 else math.inf
    if share < start or (at is None and share <= start):
        # The next floats, so that the decimals charged are not below the binary numbers tested.
        smaller = (math.nextafter(share * x, math.inf) for x in (rule.epsilon, rule.delta))
        pairs.insert(0 if share < 0.99 * start else len(pairs), tuple(map(units, smaller)))
    return tuple(pairs) or ((None, None),)


def _smallest_share(rule: Filter, event: Event, high: float) -> float:
    """Smallest w found with event.delta(w epsilon) <= w delta; inf if not even `high` holds."""

    def holds(share: float) -> bool:
        return event.delta(share * rule.epsilon) <= share * rule.delta

    if not holds(high):
        return math.inf
    low = 0.0
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _check_size(name: str, value: Any) -> None:
    if not isinstance(value, numbers.Real):
        raise PublicTypeError(f"a spend must have a real size; {name} is {value!r}.")
    value = float(value)
    if not 0.0 <= value < math.inf:
        wanted = "finite size" if value > 0.0 else "size >= 0"
        raise PublicValueError(f"a spend must have a {wanted}; {name} is {value!r}.")
    if 0.0 < value < sys.float_info.min:
        raise PublicValueError(
            f"{name} is subnormal ({value!r}): too small to be added up faithfully."
        )


def refuse_strange_sizes(event: Event) -> None:
    """Raise ValueError where a number of the event is NaN, subnormal or infinite."""
    _walk(event.to_dict(), type(event).__name__)


def _walk(value: Any, name: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _walk(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            _walk(item, name)
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        _check_size(name, abs(value))  # a curvature may be negative
