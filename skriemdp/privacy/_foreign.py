"""Releases that other libraries describe, as events: OpenDP, dp_accounting, plain numbers.

Neither library is imported here: an object of theirs can only exist where it is.  Proofs:
docs/theory/accounting.md, section 9.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._validation import (
    check_count,
    check_fraction,
    check_nonnegative,
    check_positive,
    shown,
)
from skriemdp.privacy._event import Event, convex_profile, plain
from skriemdp.privacy._events import (
    ApproximateEvent,
    ComposedEvent,
    FixedSizeSampledGaussianEvent,
    GaussianEvent,
    PoissonSampledGaussianEvent,
    ProfileEvent,
    PureEvent,
    SelectionEvent,
    SelfComposedEvent,
    ZCDPEvent,
    compose,
)
from skriemdp.privacy._laplace import LaplaceEvent
from skriemdp.privacy._loss_distributions import LARGEST_LOSS
from skriemdp.privacy._renyi import renyi_epsilon

__all__ = ["RELATIONS", "as_event", "described", "noisy_sums"]

ADDED, REPLACED = RELATIONS = ("add-or-remove-one", "replace-one")
NOTHING = ComposedEvent(())
# Points of a stored profile, and the delta at which it ends.
_POINTS = 512
_LEAST_DELTA = 1e-20
# Input metrics of OpenDP: between data sets of one size; and those where a replacement counts two.
_SAME_SIZE = ("ChangeOne", "Hamming")
_BY_ROWS = ("Symmetric", "InsertDelete")


def as_event(release: Any, relation: str | None = None, d_in: float | None = None) -> Event:
    """Convert another library's description of a release to an event under replacement of one unit.

    Parameters
    ----------
    release : Event, opendp Measurement, dp_accounting.dp_event.DpEvent or dict
        ``{"epsilon": e}``, ``{"epsilon": e, "delta": d}`` or ``{"rho": r}`` for plain numbers.
    relation : {"add-or-remove-one", "replace-one"}
        Between which neighbours these numbers (and `d_in`) are true; never guessed.  What is said
        of one unit added or removed is converted to one replaced.
    d_in : float
        Of a measurement: how far apart neighbours are in its input metric.

    Returns
    -------
    Event

    Raises
    ------
    TypeError, ValueError
        The release is of no known kind, protects nobody, or is described incompletely.

    Notes
    -----
    *Guarantee*: the event dominates every release of which the description is true
    (docs/theory/accounting.md, section 9).

    Examples
    --------
    >>> from skriemdp.privacy import as_event
    >>> as_event({"rho": 0.02}, relation="add-or-remove-one")
    ZCDPEvent(rho=0.08)
    """
    if isinstance(release, Event):
        if relation is not None or d_in is not None:
            raise PublicTypeError(
                "an Event is complete; relation and d_in describe other releases."
            )
        return release
    opendp, dp_event = sys.modules.get("opendp.mod"), sys.modules.get("dp_accounting.dp_event")
    measured = opendp is not None and isinstance(release, opendp.Measurement)
    if not (measured or isinstance(release, Mapping)) and not (
        dp_event is not None and isinstance(release, dp_event.DpEvent)
    ):
        raise PublicTypeError(
            f"an accountant is charged with an Event, got {type(release).__name__}; see "
            "skriemdp.privacy, or give an OpenDP Measurement, a DpEvent of dp_accounting, "
            "or a dict with epsilon (and delta) or rho."
        )
    if relation is None:
        raise PublicTypeError(
            "say between which neighbours the release is private: pass "
            "relation='replace-one' or 'add-or-remove-one'."
        )
    if not isinstance(relation, str) or relation not in RELATIONS:
        raise PublicValueError(
            f"relation={shown(relation)} is none that a ledger holds, which is of one unit "
            "replaced; pass 'replace-one', or 'add-or-remove-one' to have it converted."
        )
    if measured:
        return _measurement(release, relation, d_in)
    if d_in is not None:
        raise PublicTypeError("d_in describes OpenDP measurements only; leave it out.")
    if isinstance(release, Mapping):
        return _stated(release, relation)
    try:
        return _dp_event(release, relation)
    except RecursionError:
        raise PublicValueError(
            "the tree of DpEvents is too deep; compose its events in one ComposedDpEvent."
        ) from None


def described(release: Any, relation: str | None, d_in: float | None) -> dict[str, Any]:
    """Return the description itself, for the ledger's note; empty for an Event."""
    if isinstance(release, Event):
        return {}
    library = type(release).__module__.partition(".")[0]
    source = "stated" if isinstance(release, Mapping) else library
    noted = {"source": source, "relation": relation}
    return noted if d_in is None else noted | {"d_in": plain(d_in)}


def noisy_sums(
    noise_multiplier: float,
    count: int,
    *,
    probability: float | None = None,
    sizes: tuple[int, int] | None = None,
) -> Event:
    """Charge of `count` sums with Gaussian noise, which is counted against one contribution's norm.

    A replacement moves a sum twice as far.  The terms of each are drawn with `probability`, or as
    many as `sizes` says: (of how many, how many).
    """
    check_positive(noise_multiplier=noise_multiplier)
    check_count(minimum=0, count=count)
    noise = 0.5 * float(noise_multiplier)
    one: Event = GaussianEvent(noise)
    if probability is not None:
        one = PoissonSampledGaussianEvent(probability, noise)
    elif sizes is not None:
        one = FixedSizeSampledGaussianEvent(*sizes, noise)
    return compose([SelfComposedEvent(one, count)]) if count else NOTHING


# -- claims: all that is known of a release -------------------------------------------------------


def _pure(epsilon: float) -> Event:
    check_nonnegative(epsilon=epsilon)
    return PureEvent(epsilon) if epsilon > 0.0 else NOTHING


def _approximate(epsilon: float, delta: float) -> Event:
    check_nonnegative(epsilon=epsilon)
    check_fraction(open_left=False, delta=delta)
    if delta == 0.0:
        return _pure(epsilon)
    return ApproximateEvent(epsilon, delta) if epsilon > 0.0 else ProfileEvent((0.0,), (delta,))


def _concentrated(rho: float, delta: float = 0.0) -> Event:
    check_nonnegative(rho=rho)
    check_fraction(open_left=False, delta=delta)
    parts = [ZCDPEvent(rho)] if rho > 0.0 else []
    return compose([*parts, *([_approximate(0.0, delta)] if delta > 0.0 else [])])


def _stated(numbers_of: Mapping, relation: str) -> Event:
    """Plain numbers, twice in a row where a unit was added or removed."""
    names = set(numbers_of)
    twice = relation == ADDED
    if names == {"rho"}:
        check_positive(rho=numbers_of["rho"])
        return _concentrated((4.0 if twice else 1.0) * float(numbers_of["rho"]))
    if "epsilon" not in names or names - {"epsilon", "delta"}:
        raise PublicValueError(
            f"a release in plain numbers has 'epsilon' (and 'delta') or 'rho', got "
            f"{shown(sorted(map(str, names)))}."
        )
    epsilon, delta = numbers_of["epsilon"], numbers_of.get("delta", 0.0)
    check_positive(epsilon=epsilon)
    check_fraction(open_left=False, delta=delta)
    epsilon, delta = float(epsilon), float(delta)
    if twice and delta > 0.0:
        growth = math.exp(epsilon) if epsilon < 700.0 else math.inf
        delta = min((1.0 + growth) * delta * (1.0 + 1e-15), 1.0)
        if delta == 1.0:
            raise PublicValueError(
                "delta is so large that nothing is left where a unit is replaced, which is one "
                "removed and one added; state the release under relation='replace-one'."
            )
    return _approximate((2.0 if twice else 1.0) * epsilon, delta)


def _table(profile: Callable[[float], float]) -> Event:
    """A profile at equally spaced epsilons, up to where it ends or stays as it is."""
    last = max(float(profile(LARGEST_LOSS)), _LEAST_DELTA)
    if not last < 1.0:
        raise PublicValueError(
            "the release has a delta of 1 at every epsilon, so it protects nobody."
        )
    low, high = 0.0, LARGEST_LOSS
    while high - low > 1e-3 * high and high > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if profile(middle) <= last else (middle, high)
    grid = np.linspace(0.0, high, _POINTS)
    # Deltas far below would be too small for a ledger to add up.
    return ProfileEvent(tuple(grid), tuple(max(float(profile(at)), _LEAST_DELTA) for at in grid))


# -- OpenDP ----------------------------------------------------------------------------------------


def _measurement(release: Any, relation: str, d_in: float | None) -> Event:
    """Evaluate the privacy map of a measurement at the distance of a replacement."""
    if d_in is None:
        raise PublicTypeError(
            "an OpenDP measurement is charged at a distance: pass d_in=, how far apart neighbours "
            "are in its input metric."
        )
    check_positive(d_in=d_in)
    metric, measure = str(release.input_metric.type), str(release.output_measure.type)
    if relation == ADDED:
        if any(name in metric for name in _SAME_SIZE):
            raise PublicValueError(
                f"{metric} compares data sets of one size, where nothing is added or removed; pass "
                "relation='replace-one'."
            )
        d_in = 2 * d_in
    elif any(name in metric for name in _BY_ROWS) and d_in < 2:
        raise PublicValueError(
            f"d_in={shown(d_in)} in {metric} is a row added or removed, and a row replaced is at "
            "distance 2; pass d_in=2, or relation='add-or-remove-one'."
        )
    if measure == "RenyiDivergence" or measure == "SmoothedMaxDivergence":
        curve = _mapped(release, d_in)
        if measure == "SmoothedMaxDivergence":
            return _table(curve.delta)
        return _table_of_renyi(curve)
    kinds: dict[str, Callable[..., Event]] = {
        "MaxDivergence": _pure,
        "ZeroConcentratedDivergence": _concentrated,
        "Approximate<MaxDivergence>": _approximate,
        "Approximate<ZeroConcentratedDivergence>": _concentrated,
    }
    if measure not in kinds:
        raise PublicValueError(
            f"the output measure {shown(measure)} has no conversion; cast the measurement to one "
            f"of {', '.join(kinds)} or SmoothedMaxDivergence."
        )
    d_out = _mapped(release, d_in)
    return kinds[measure](*(d_out if isinstance(d_out, tuple) else (d_out,)))


def _mapped(release: Any, d_in: float) -> Any:
    try:
        return release.map(d_in)
    except Exception:  # OpenDP's own errors carry a trace of its machine code
        raise PublicValueError(
            f"OpenDP's map of this measurement fails at a distance of {shown(d_in)}; look at "
            "measurement.map, and give d_in in the number type of its metric."
        ) from None


def _table_of_renyi(curve: Callable[[float], float]) -> Event:
    def divergence(order: float) -> float:
        return float(curve(order)) if order < math.inf else math.inf

    step = min(renyi_epsilon(divergence, _LEAST_DELTA), LARGEST_LOSS) / _POINTS
    if not step > 0.0:
        return NOTHING
    deltas = np.minimum(convex_profile(divergence, step)[: _POINTS + 1], 1.0 - 1e-16)
    return ProfileEvent(
        tuple(step * np.arange(deltas.size)), tuple(np.minimum(deltas, 1.0 - 1e-16))
    )


# -- dp_accounting ---------------------------------------------------------------------------------


def _dp_event(release: Any, relation: str) -> Event:
    """A tree of DpEvents: what its mechanisms cost where one unit is replaced.

    Their noise is counted against the norm of one contribution, so a replacement moves a sum twice
    as far.
    """
    name = _kind(release)
    if name in _ONE_KIND:
        return _ONE_KIND[name](release)
    if name == "Composed":
        return compose([_dp_event(event, relation) for event in release.events])
    if name == "SelfComposed":
        check_count(minimum=0, count=release.count)
        one = _dp_event(release.event, relation)
        return compose([SelfComposedEvent(one, release.count)]) if release.count else NOTHING
    if name == "RepeatAndSelect":
        one = _dp_event(release.event, relation)
        if release.shape == math.inf:
            return SelectionEvent(one, release.mean, law="poisson")
        return SelectionEvent(one, release.mean, shape=release.shape)
    if name == "ZC" and not release.xi:
        return _stated({"rho": release.rho}, relation)
    if name == "RandomizedResponse" and relation == REPLACED:
        return _randomized_response(release.noise_parameter, release.num_buckets)
    known = (*_ONE_KIND, "Composed", "SelfComposed", "RepeatAndSelect")
    raise PublicValueError(
        f"{type(release).__name__} has no conversion under {relation!r}; {_OTHER.get(name, '')}the "
        f"kinds that have one are {', '.join(known)}, ZC with xi=0, and RandomizedResponse under "
        "'replace-one'."
    )


def _kind(release: Any) -> str:
    """Name of a class of dp_accounting's own; others may mean anything."""
    own = type(release).__module__ == "dp_accounting.dp_event"
    return type(release).__name__.removesuffix("DpEvent") if own else ""


_OTHER = {"NonPrivate": "it protects nobody, and "}


def _laplace_noise(release: Any) -> float:
    check_positive(noise_multiplier=release.noise_multiplier)
    return 0.5 * float(release.noise_multiplier)


def _sampled_noise(release: Any) -> float:
    if _kind(release.event) != "Gaussian":
        raise PublicValueError(
            f"{type(release).__name__} of {type(release.event).__name__} has no conversion, only "
            "of GaussianDpEvent; the event inside, without the sampling, is never too little."
        )
    return release.event.noise_multiplier


def _discrete_laplace(release: Any) -> Event:
    check_positive(noise_parameter=release.noise_parameter)
    check_count(sensitivity=release.sensitivity)
    parameter, bound = float(release.noise_parameter), int(release.sensitivity)
    largest = math.nextafter(2.0 * bound * parameter, math.inf)
    if largest > LARGEST_LOSS:
        return PureEvent(largest)
    # Chords of the profile between any of its corners are above it.
    missing = np.linspace(bound, 0, min(bound + 1, _POINTS)).round()
    epsilons = np.append((2.0 * parameter * (bound - missing) * (1.0 + 1e-15))[:-1], largest)
    return ProfileEvent(
        tuple(epsilons), tuple(np.abs(np.expm1(-parameter * missing)) * (1.0 + 1e-14))
    )


def _randomized_response(noise: Any, buckets: Any) -> Event:
    check_fraction(open_right=False, noise_parameter=noise)
    check_count(num_buckets=buckets)
    noise, buckets = float(noise), int(buckets)
    if noise == 1.0 or buckets == 1:
        return NOTHING
    largest = math.log1p((1.0 - noise) * buckets / noise) * (1.0 + 1e-15)
    if largest > LARGEST_LOSS:
        return PureEvent(largest)
    return ProfileEvent((0.0, largest), ((1.0 - noise) * (1.0 + 1e-15), 0.0))


_ONE_KIND: dict[str, Callable[[Any], Event]] = {
    "NoOp": lambda release: NOTHING,
    "Gaussian": lambda release: noisy_sums(release.noise_multiplier, 1),
    "Laplace": lambda release: LaplaceEvent(1, _laplace_noise(release)),
    "DiscreteLaplace": _discrete_laplace,
    "PoissonSampled": lambda release: noisy_sums(
        _sampled_noise(release), 1, probability=release.sampling_probability
    ),
    "SampledWithoutReplacement": lambda release: noisy_sums(
        _sampled_noise(release), 1, sizes=(release.source_dataset_size, release.sample_size)
    ),
}
