"""When a ledger with a ceiling must stop: privacy filters that hold whatever the analyst does next.

An analyst sees one release and then decides what to fit and at which epsilon.  A filter keeps the
whole interaction (epsilon, delta)-private in that case; composing privacy loss distributions in
order of arrival would not be proved to.  Statements and proofs: docs/theory/filters.md.

Costs are tuples of integers in units of 1e-24 (rounded up; None: unbounded), so sums are exact and
no rounding of a sum can admit one spend too many.
"""

from __future__ import annotations

import dataclasses
import decimal
import math
import numbers
import sys
from functools import lru_cache

from scipy.optimize import minimize_scalar
from scipy.stats import norm

from skriemdp._validation import check_fraction, check_option, check_positive
from skriemdp.ledger.storage import Amounts, Standing, add
from skriemdp.privacy.calibration import gaussian_epsilon, gaussian_mu

__all__ = ["Filter", "make_filter", "refuse_strange_sizes", "renyi_budget", "renyi_order"]

DIGITS = 24
_EXACT = decimal.Context(prec=2000)
# Part of delta that a Renyi filter keeps for the deltas of approximate events.
APPROXIMATE_SHARE = 0.1
# A sum may pass a computed limit by this relative amount, a hundred roundings: k fits, each
# calibrated to a k-th of the budget, may use all of it.  mu* and the Renyi budget are rounded down
# by more (tests hold it), so the ceiling itself is never passed.
SLACK = decimal.Decimal("1e-14")


def _written(value: float) -> decimal.Decimal:
    return decimal.Decimal(repr(float(value)))


def units(value: float | decimal.Decimal) -> int:
    """Smallest number of units that covers the number as it is written in decimals."""
    exact = value if isinstance(value, decimal.Decimal) else _written(value)
    return int(exact.scaleb(DIGITS, _EXACT).to_integral_value(decimal.ROUND_CEILING))


def _limit(value: float | decimal.Decimal, slack: decimal.Decimal = decimal.Decimal(0)) -> int:
    exact = value if isinstance(value, decimal.Decimal) else _written(value)
    scaled = _EXACT.multiply(exact, 1 + slack).scaleb(DIGITS, _EXACT)
    return int(scaled.to_integral_value(decimal.ROUND_FLOOR))


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

    def neg_square_mu(log_order_minus_one):
        order = 1 + math.exp(log_order_minus_one)
        return -renyi_budget(order, epsilon, delta) / order

    # The optimum lies near 1 + sqrt(2 log(1/delta)) / mu*; any order is valid.
    centre = math.log(math.sqrt(2 * math.log(1 / delta)) / gaussian_mu(epsilon, delta))
    found = minimize_scalar(neg_square_mu, bounds=(centre - 3, centre + 3), method="bounded")
    return 1 + math.exp(found.x)


@dataclasses.dataclass(frozen=True)
class Filter:
    """The stored stopping rule of one data set in one ledger.

    Parameters
    ----------
    kind : {"renyi", "gdp"}
    epsilon, delta : float
        The ceiling; ``epsilon=inf`` admits everything.
    order : float or None
        Order of the Renyi divergences (``"renyi"`` with a finite ceiling and delta > 0).
    limits : tuple of int, or None
        Largest admitted total, entry by entry: (rho, delta, pure epsilon) for ``"renyi"``,
        (mu squared, pure epsilon) for ``"gdp"``.  None: no ceiling.

    Notes
    -----
    *Guarantee*.  Everything released by an adaptive sequence of admitted spends, on one data set
    with replace-one adjacency, is jointly (epsilon, delta)-differentially private.  A total is
    admitted when

    * ``"renyi"``: sum of deltas <= limits[1] and (sum of rho(order) <= limits[0] or sum of pure
      epsilons <= epsilon);
    * ``"gdp"``: sum of mu^2 <= mu*(epsilon, delta)^2 or sum of pure epsilons <= epsilon;

    or when nothing was charged to these records before and the one spend is (epsilon, delta)-
    private by its own profile (it then uses the ledger up).  Proofs: docs/theory/filters.md.
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

    def cost(self, event) -> Amounts:
        """What `event` adds to the totals; ValueError where this filter cannot account for it."""
        refuse_strange_sizes(event)
        return _cost(self, event)

    def admits_total(self, total: Amounts) -> bool:
        """Whether the running filter admits a total."""
        if self.limits is None:
            return True
        under = [
            used is not None and used <= top for used, top in zip(total, self.limits, strict=True)
        ]
        if self.kind == "renyi":
            return under[1] and (under[0] or under[2])
        return under[0] or under[1]

    def admits(self, standing: Standing, cost: Amounts, event) -> bool:
        """Whether `event` may be charged on top of `standing`."""
        if self.admits_total(add(standing.total, cost)):
            return True
        return standing.untouched and self.fills(event)

    def fills(self, event) -> bool:
        """Whether `event` alone is (epsilon, delta)-private, and may thus be the only spend."""
        return _fills(self, event)

    def count(self, standing: Standing, cost: Amounts, event) -> int | float:
        """How many more spends of `event` would be admitted; inf without a ceiling."""
        if self.limits is None:
            return math.inf
        room = [
            -1
            if used is None or each is None
            else (math.inf if each == 0 else (top - used) // each)
            for used, each, top in zip(standing.total, cost, self.limits, strict=True)
        ]
        if self.kind == "renyi":
            times = min(room[1], max(room[0], room[2]))
        else:
            times = max(room)
        times = max(times, 0)
        return 1 if times == 0 and standing.untouched and self.fills(event) else times

    def room(self, standing: Standing) -> dict[str, float]:
        """What is left: ``mu`` and ``epsilon`` (Gaussian fit), ``pure``, and by kind more.

        Rounded down.  ``pure`` is an epsilon that is surely admitted: D_alpha <= epsilon holds for
        pure events, and so does mu-GDP with mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)).
        """
        if self.limits is None:
            return {"mu": math.inf, "epsilon": math.inf, "pure": math.inf}
        left = [
            0.0 if used is None else max(number(top - used), 0.0)
            for used, top in zip(standing.total, self.limits, strict=True)
        ]
        if self.kind == "gdp":
            square, pure = left
            mu = math.sqrt(square) * (1 - 1e-11)
            room = {"mu_squared": square}
            pure = max(pure, (norm.logcdf(mu / 2) - norm.logsf(mu / 2)) * (1 - 1e-11))
        else:
            extra = standing.total[1]
            rho, _, pure = left if extra is not None and extra <= self.limits[1] else (0.0,) * 3
            mu = math.sqrt(2 * rho / self.order) * (1 - 1e-11) if self.order else 0.0
            room = {"rho": rho, "delta": left[1]}
            pure = max(pure, rho * (1 - 1e-11))
        if standing.untouched:
            epsilon, pure = self.epsilon, self.epsilon
            mu = gaussian_mu(self.epsilon, self.delta) if self.delta > 0 else 0.0
        else:
            epsilon = gaussian_epsilon(mu, self.delta) * (1 - 1e-9) if mu > 0 else 0.0
        return {"mu": mu, "epsilon": epsilon, "pure": pure, **room}

    def describe(self) -> str:
        """One line for people: the rule and its order."""
        if self.limits is None:
            return f"{self.kind} (no ceiling)"
        if self.kind == "gdp":
            return f"gdp (sum of mu^2 <= {number(self.limits[0]):.6g})"
        if self.order is None:
            return f"pure (sum of epsilons <= {self.epsilon:g})"
        return f"renyi (order {self.order:.4g}, sum of rho <= {number(self.limits[0]):.6g})"

    def to_dict(self) -> dict:
        """What the ledger stores; infinity as a string, limits as decimal strings."""
        return {
            "kind": self.kind,
            "epsilon": repr(self.epsilon),
            "delta": repr(self.delta),
            "order": None if self.order is None else repr(self.order),
            "limits": None if self.limits is None else [str(limit) for limit in self.limits],
        }

    @classmethod
    def from_dict(cls, stored: dict) -> Filter:
        """Inverse of :meth:`to_dict`."""
        order, limits = stored["order"], stored["limits"]
        return cls(
            kind=stored["kind"],
            epsilon=float(stored["epsilon"]),
            delta=float(stored["delta"]),
            order=None if order is None else float(order),
            limits=None if limits is None else tuple(int(limit) for limit in limits),
        )


def make_filter(kind: str, epsilon: float, delta: float) -> Filter:
    """Filter of a new data set: its order and limits are computed once, here, and then stored."""
    check_option(("renyi", "gdp"), filter=kind)
    check_positive(allow_inf=True, epsilon=epsilon)
    check_fraction(open_left=False, delta=delta)
    epsilon, delta = float(epsilon), float(delta)
    if math.isinf(epsilon):
        return Filter(kind, epsilon, delta, None, None)
    if kind == "gdp":
        if delta == 0:
            raise ValueError('filter="gdp" needs delta > 0; for pure privacy use filter="renyi".')
        square = _limit(_square(gaussian_mu(epsilon, delta)), SLACK)
        return Filter(kind, epsilon, delta, None, (square, _limit(epsilon)))
    if delta == 0:
        return Filter(kind, epsilon, delta, None, (-1, 0, _limit(epsilon)))
    approximate = APPROXIMATE_SHARE * delta
    order = renyi_order(epsilon, delta - approximate)
    rho = renyi_budget(order, epsilon, delta - approximate)
    limits = (_limit(rho, SLACK) if rho > 0 else -1, _limit(approximate), _limit(epsilon))
    return Filter(kind, epsilon, delta, order, limits)


@lru_cache(maxsize=4096)
def _fills(rule: Filter, event) -> bool:
    return rule.limits is not None and event.delta(rule.epsilon) <= rule.delta


@lru_cache(maxsize=4096)
def _cost(rule: Filter, event) -> Amounts:
    extra = event.extra_delta
    _check_size("extra_delta", extra)
    if rule.kind == "gdp":
        bound = event.gdp_bound
        if bound is None or not math.isfinite(bound):
            raise ValueError(
                f"filter='gdp' adds up mu^2, and {type(event).__name__} has no finite mu; use an "
                "accountant with filter='renyi' for it."
            )
        _check_size("gdp_bound", bound)
    if rule.limits is None:
        size = event.rough_size
        if size != math.inf:  # some events have no Renyi bound, which is no fault of their size
            _check_size("the size", size)
        return ()
    pure = _pure_epsilon(event)
    pure_units = None if pure is None else units(pure)
    if rule.kind == "gdp":
        return units(_square(bound)), pure_units
    if rule.order is None:
        return None, units(extra), pure_units
    rho = event.renyi(rule.order)
    if rho == math.inf:
        return None, units(extra), pure_units
    _check_size("the Renyi divergence", rho)
    return units(rho), units(extra), pure_units


def _pure_epsilon(event) -> float | None:
    bound = event.renyi(math.inf)
    if bound == math.inf:
        return None
    _check_size("the pure epsilon", bound)
    return bound


def _check_size(name: str, value) -> None:
    if not isinstance(value, numbers.Real):
        raise TypeError(f"a spend must have a real size; {name} is {value!r}.")
    value = float(value)
    if math.isnan(value) or value < 0:
        raise ValueError(f"a spend must have a size >= 0; {name} is {value!r}.")
    if math.isinf(value):
        raise ValueError(f"a spend must have a finite size; {name} is {value!r}.")
    if 0 < value < sys.float_info.min:
        raise ValueError(f"{name} is subnormal ({value!r}): too small to be added up faithfully.")


def refuse_strange_sizes(event) -> None:
    """Raise ValueError where a number of the event is NaN, subnormal or infinite."""
    _walk(event.to_dict(), type(event).__name__)


def _walk(value, name: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _walk(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            _walk(item, name)
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        _check_size(name, abs(value))  # a curvature may be negative
