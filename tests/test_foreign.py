"""Releases of other libraries: no number below an independent computation, none 1 % above it."""

import json
import math
import sys
import types

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

from skriemdp import PrivacyAccountant
from skriemdp.ledger._accountant import BudgetError
from skriemdp.privacy._calibration import gaussian_epsilon
from skriemdp.privacy._events import GaussianEvent, PureEvent, ZCDPEvent, event_from_dict
from skriemdp.privacy._foreign import RELATIONS, as_event, noisy_sums

de = pytest.importorskip("dp_accounting.dp_event", reason="the extra 'foreign' is not installed")
from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: E402
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant  # noqa: E402
from dp_accounting.privacy_accountant import NeighboringRelation  # noqa: E402
from dp_accounting.rdp import RdpAccountant  # noqa: E402

DELTA = 1e-5
ADDED, REPLACED = RELATIONS


def spent(*releases, relation=REPLACED, delta=DELTA, **more):
    """Epsilon of a ledger that holds the releases."""
    budget = PrivacyAccountant(delta=delta)
    for release in releases:
        entry = budget.spend(release, relation=relation, label="door", **more)
        event = event_from_dict(json.loads(json.dumps(entry.event)))
        assert event == as_event(release, relation, more.get("d_in"))
    return budget.spent.epsilon


def assert_close_above(ours, truth):
    # An independent number is itself rounded, by less than 1e-5 of it.
    assert truth * (1.0 - 1e-5) <= ours <= 1.01 * truth


def randomized_responses(epsilon, count, delta):
    """Epsilon of so many pure releases together: the law of their number of agreeing answers."""
    lies = np.arange(count + 1)
    loss = epsilon * (count - 2 * lies)
    log_choose = gammaln(count + 1) - gammaln(lies + 1) - gammaln(count - lies + 1)
    log_mass = log_choose + epsilon * (count - lies) - count * np.logaddexp(0.0, epsilon)

    def found(at):
        excess = loss > at
        terms = log_mass[excess] + np.log(-np.expm1(at - loss[excess]))
        return math.exp(logsumexp(terms)) if excess.any() else 0.0

    low, high = 0.0, epsilon * count
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if found(middle) > delta else (low, middle)
    return high


# -- dp_accounting ---------------------------------------------------------------------------------


def from_laws(*losses):
    """Epsilon of loss distributions of dp_accounting, that is of noise on a number."""
    total = losses[0]
    for loss in losses[1:]:
        total = total.compose(loss)
    return total.get_epsilon_for_delta(DELTA)


def gaussian(noise):
    return pld.from_gaussian_mechanism(noise, sensitivity=2.0, value_discretization_interval=1e-4)


def laplace(noise):
    return pld.from_laplace_mechanism(noise, sensitivity=2.0, value_discretization_interval=1e-4)


def discrete_laplace(parameter, bound):
    return pld.from_discrete_laplace_mechanism(
        parameter, sensitivity=2 * bound, value_discretization_interval=1e-4
    )


TREES = [
    (de.GaussianDpEvent(1.0), lambda: from_laws(gaussian(1.0))),
    (de.LaplaceDpEvent(4.0), lambda: from_laws(laplace(4.0))),
    (
        de.SelfComposedDpEvent(de.LaplaceDpEvent(10.0), 20),
        lambda: from_laws(laplace(10.0).self_compose(20)),
    ),
    (de.DiscreteLaplaceDpEvent(0.25, 3), lambda: from_laws(discrete_laplace(0.25, 3))),
    (
        de.SelfComposedDpEvent(de.DiscreteLaplaceDpEvent(0.01, 5), 30),
        lambda: from_laws(discrete_laplace(0.01, 5).self_compose(30)),
    ),
    (
        de.ComposedDpEvent(
            [
                de.GaussianDpEvent(5.0),
                de.LaplaceDpEvent(8.0),
                de.NoOpDpEvent(),
                de.SelfComposedDpEvent(de.DiscreteLaplaceDpEvent(0.1, 1), 4),
            ]
        ),
        lambda: from_laws(gaussian(5.0), laplace(8.0), discrete_laplace(0.1, 1).self_compose(4)),
    ),
]


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize(("tree", "truth"), TREES, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("relation", RELATIONS)
def test_noise_on_sums(tree, truth, relation):
    """Under both relations one unit replaced moves the sum by two contributions."""
    assert_close_above(spent(tree, relation=relation), truth())


@pytest.mark.parametrize("count", [0, 1, 7])
def test_noisy_sums_are_the_trees_that_describe_them(count):
    gaussian = de.GaussianDpEvent(3.0)
    for settings, tree in (
        ({}, gaussian),
        ({"probability": 0.02}, de.PoissonSampledDpEvent(0.02, gaussian)),
        ({"sizes": (90, 9)}, de.SampledWithoutReplacementDpEvent(90, 9, gaussian)),
    ):
        tree = de.SelfComposedDpEvent(tree, count)
        assert noisy_sums(3.0, count, **settings) == as_event(tree, ADDED)


@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.slow), 200])
def test_poisson_sampling(steps):
    tree = de.SelfComposedDpEvent(de.PoissonSampledDpEvent(0.01, de.GaussianDpEvent(1.0)), steps)
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    assert_close_above(spent(tree), accountant.compose(tree).get_epsilon(DELTA))


def test_sampling_without_replacement():
    """One step against the mixture that attains it, integrated."""
    share, noise = 0.2, 1.5
    tree = de.SampledWithoutReplacementDpEvent(50, 10, de.GaussianDpEvent(noise))
    x = np.linspace(-30.0, 30.0, 600_001)
    absent, present = stats.norm.pdf(x, 0, noise / 2), stats.norm.pdf(x, 1, noise / 2)
    mixed = share * present + (1 - share) * absent
    for delta in (1e-3, 1e-6):
        epsilon = spent(tree, delta=delta)
        found = [
            np.trapezoid(np.maximum(mixed - math.exp(at) * absent, 0.0), x)
            for at in (epsilon, epsilon / 1.01)
        ]
        assert found[0] <= delta * (1.0 + 1e-6) and found[1] > delta


@pytest.mark.parametrize(
    "tree",
    [
        de.GaussianDpEvent(1.0),
        de.SampledWithoutReplacementDpEvent(100, 100, de.GaussianDpEvent(1.0)),
    ],
    ids=["plain", "whole-batches"],
)
def test_replaced_contributions_are_twice_their_norm(tree):
    """google/differential-privacy#378: the accountant of Renyi divergences forgets it."""
    forgets = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE).compose(tree)
    assert 4.7 < forgets.get_epsilon(DELTA) < 4.75
    assert_close_above(spent(tree), gaussian_epsilon(2.0, DELTA))
    assert 9.99 < spent(tree) < 10.0


def test_randomized_response():
    noise, buckets = 0.3, 4
    tree = de.RandomizedResponseDpEvent(noise, buckets)
    kept, other = 1 - noise + noise / buckets, noise / buckets
    assert_close_above(spent(tree, delta=1e-9), math.log(kept / other))
    delta = 0.2
    assert_close_above(spent(tree, delta=delta), math.log((kept - delta) / other))
    binary = de.SelfComposedDpEvent(de.RandomizedResponseDpEvent(0.5, 2), 9)
    assert_close_above(spent(binary), randomized_responses(math.log(3.0), 9, DELTA))


def test_selection_and_concentrated_claims():
    tree = de.RepeatAndSelectDpEvent(de.GaussianDpEvent(20.0), mean=10, shape=1)
    half = de.RepeatAndSelectDpEvent(de.GaussianDpEvent(10.0), mean=10, shape=1)
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    # Its orders are a coarse grid, so its number is the larger one, by little.
    theirs = accountant.compose(half).get_epsilon(DELTA)
    assert 0.98 * theirs < spent(tree) <= theirs * (1 + 1e-9)
    assert as_event(de.ZCDpEvent(0.1), REPLACED) == ZCDPEvent(0.1)
    assert as_event(de.ZCDpEvent(0.1), ADDED) == ZCDPEvent(0.4)
    # Attained: a Gaussian release with rho = 0.1 has rho = 0.4 twice as far away.
    assert spent({"rho": 0.1}, relation=ADDED) >= gaussian_epsilon(2 * math.sqrt(0.2), DELTA)


# -- plain numbers ---------------------------------------------------------------------------------


def test_plain_numbers():
    assert_close_above(spent({"epsilon": 0.5}, delta=0.0), 0.5)
    assert_close_above(spent({"epsilon": 0.5}, delta=0.0, relation=ADDED), 1.0)
    assert_close_above(spent(*[{"epsilon": 0.1}] * 30), randomized_responses(0.1, 30, DELTA))
    assert_close_above(spent({"epsilon": 0.5, "delta": DELTA}), 0.5)
    far = {"epsilon": 0.5, "delta": DELTA / (1 + math.exp(0.5)) * (1 - 1e-9)}
    assert_close_above(spent(far, relation=ADDED), 1.0)
    # Where e^epsilon is no float any more, a tiny delta still grows beyond 1.
    with pytest.raises(ValueError, match="delta is so large"):
        spent({"epsilon": 800.0, "delta": 1e-310}, relation=ADDED)
    with pytest.raises(ValueError, match="has delta=0.*nothing was charged"):
        spent({"epsilon": 0.5, "delta": DELTA}, delta=0.0)
    entry = PrivacyAccountant().spend({"rho": 0.1}, label="census", relation=ADDED)
    assert entry.label == "census"
    assert entry.params == {"source": "stated", "relation": ADDED}


# -- OpenDP ----------------------------------------------------------------------------------------


@pytest.fixture
def dp():
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed (make test-doors)")
    dp.enable_features("contrib", "honest-but-curious")
    return dp


def numbers(dp):
    return dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)


@pytest.mark.parametrize("relation", RELATIONS)
def test_gaussian_measurements_are_renyi_lines(dp, relation):
    one = dp.m.make_gaussian(*numbers(dp), scale=3.0)
    several = dp.c.make_composition([one, dp.m.make_gaussian(*numbers(dp), scale=4.0)])
    far = 2.0 if relation == ADDED else 1.0
    for measurement in (one, several):
        truth = dp.c.make_zCDP_to_approxDP(measurement).map(far).epsilon(DELTA)
        assert_close_above(spent(measurement, relation=relation, d_in=1.0), truth)
    # No Gaussian privacy: all that the map says is a divergence of every order.
    assert as_event(one, relation, 1.0).gdp_bound is None
    both = spent(one, one, relation=relation, d_in=1.0)
    twice = dp.c.make_zCDP_to_approxDP(dp.c.make_composition([one, one]))
    assert_close_above(both, twice.map(far).epsilon(DELTA))


def test_laplace_measurements_are_pure(dp):
    one = dp.m.make_laplace(*numbers(dp), scale=4.0)
    for measurement, relation, pure in (
        (one, REPLACED, 0.25),
        (one, ADDED, 0.5),
        (dp.c.make_composition([one] * 3), REPLACED, 0.75),
    ):
        found = spent(measurement, d_in=1.0, relation=relation)
        assert_close_above(found, randomized_responses(pure, 1, DELTA))
        assert_close_above(spent(measurement, d_in=1.0, relation=relation, delta=0.0), pure)
    assert_close_above(spent(*[one] * 30, d_in=1.0), randomized_responses(0.25, 30, DELTA))


def test_approximate_measurements_and_profiles(dp):
    one = dp.m.make_gaussian(*numbers(dp), scale=3.0)
    profile = dp.c.make_zCDP_to_approxDP(one)
    fixed = dp.c.make_fix_delta(profile, DELTA)
    assert_close_above(spent(fixed, d_in=1.0), fixed.map(1.0)[0])
    assert_close_above(spent(profile, d_in=1.0), profile.map(1.0).epsilon(DELTA))
    # Profiles compose as loss distributions, better than their pairs add up.
    together = spent(*[profile] * 5, d_in=1.0)
    exact = gaussian_epsilon(math.sqrt(5) / 3, DELTA)
    assert exact <= together < 5 * profile.map(1.0).epsilon(DELTA / 5)
    rough = dp.c.make_composition([dp.c.make_approximate(one), dp.c.make_approximate(one)])
    truth = dp.c.make_zCDP_to_approxDP(dp.c.make_composition([one, one])).map(1.0).epsilon(DELTA)
    assert_close_above(spent(rough, d_in=1.0), truth)


def test_a_profile_with_a_step(dp):
    pure = dp.c.make_approximate(dp.m.make_laplace(*numbers(dp), scale=4.0))
    profile = dp.c.make_fixed_approxDP_to_approxDP(pure)
    assert_close_above(spent(profile, d_in=1.0), randomized_responses(0.25, 1, DELTA))
    budget = PrivacyAccountant(3.0, DELTA)
    budget.spend(profile, d_in=1.0, relation=REPLACED)
    nothing = dp.m.make_laplace(*numbers(dp), scale=0.0)
    refuse(lambda b: b.spend(nothing, d_in=1.0, relation=REPLACED), "epsilon")


def test_renyi_measurements(dp):
    curve = dp.m.make_user_measurement(
        *numbers(dp), dp.renyi_divergence(), lambda x: x, lambda d: lambda order: 0.02 * d * order
    )
    assert_close_above(spent(curve, d_in=1.0), ZCDPEvent(0.02).epsilon(DELTA))


def test_rows_replaced_are_two_steps(dp):
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    count = space >> dp.t.then_count() >> dp.m.then_laplace(scale=2.0)
    assert as_event(count, ADDED, 1) == as_event(count, REPLACED, 2) == PureEvent(1.0)
    sized = dp.vector_domain(dp.atom_domain(T=int), size=9), dp.change_one_distance()
    for relation, d_in, hint in ((REPLACED, 1, "distance 2"), (ADDED, 1.5, "number type")):
        refuse(lambda b, r=relation, d=d_in: b.spend(count, relation=r, d_in=d), hint)
    kept = dp.m.make_user_measurement(*sized, dp.max_divergence(), lambda x: 0, lambda d: 1.0 * d)
    assert as_event(kept, REPLACED, 1) == PureEvent(1.0)
    refuse(lambda b: b.spend(kept, relation=ADDED, d_in=1), "one size")
    refuse(lambda b: b.spend(kept, relation=REPLACED), "d_in")
    refuse(lambda b: b.spend(kept, d_in=1), "relation")


class StandIn:
    """What the conversion asks of a measurement, whatever is installed."""

    def __init__(self, metric, measure, privacy_map):
        self.input_metric = types.SimpleNamespace(type=metric)
        self.output_measure = types.SimpleNamespace(type=measure)
        self.map = privacy_map


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.mod", types.SimpleNamespace(Measurement=StandIn))
    return StandIn


METRICS = ("AbsoluteDistance<f64>", "L2Distance<f64>", "SymmetricDistance", "InsertDeleteDistance")
SIZED = ("ChangeOneDistance", "HammingDistance")
# Measures, what a map says at a distance, and the epsilon at `DELTA` of what it says.
MEASURES = {
    "MaxDivergence": (lambda d: 0.1 * d, lambda d: randomized_responses(0.1 * d, 1, DELTA)),
    "ZeroConcentratedDivergence": (
        lambda d: 0.01 * d * d,
        lambda d: ZCDPEvent(0.01 * d * d).epsilon(DELTA),
    ),
    "Approximate<MaxDivergence>": (lambda d: (0.1 * d, DELTA), lambda d: 0.1 * d),
    "Approximate<ZeroConcentratedDivergence>": (
        lambda d: (0.01 * d * d, 0.0),
        lambda d: ZCDPEvent(0.01 * d * d).epsilon(DELTA),
    ),
    "RenyiDivergence": (
        lambda d: lambda order: 0.01 * d * d * order,
        lambda d: ZCDPEvent(0.01 * d * d).epsilon(DELTA),
    ),
    "SmoothedMaxDivergence": (
        lambda d: types.SimpleNamespace(delta=GaussianEvent(10.0 / d).delta),
        lambda d: gaussian_epsilon(0.1 * d, DELTA),
    ),
}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("metric", [*METRICS, *SIZED])
def test_a_measurement_is_charged_at_the_distance_of_a_replacement(stand_in, metric, measure):
    """A unit added and one removed are two steps; rows replaced are two rows apart."""
    asked, (privacy_map, truth) = [], MEASURES[measure]

    def noted(distance):
        asked.append(distance)
        return privacy_map(distance)

    release = stand_in(metric, measure, noted)
    by_rows = metric in ("SymmetricDistance", "InsertDeleteDistance")
    charged = {(REPLACED, 3): 3, (REPLACED, 2): 2, (ADDED, 1): 2, (ADDED, 2): 4, (REPLACED, 1): 1}
    for (relation, d_in), distance in charged.items():
        refused = (
            metric in SIZED and relation == ADDED or by_rows and (relation, d_in) == (REPLACED, 1)
        )
        if refused:
            words = "one size" if metric in SIZED else "distance 2"
            refuse(lambda b, r=relation, d=d_in: b.spend(release, relation=r, d_in=d), words)
            continue
        asked.clear()
        assert_close_above(spent(release, relation=relation, d_in=d_in), truth(distance))
        assert set(asked) == {distance}
    refuse(lambda b: b.spend(release, relation=REPLACED), "d_in")
    refuse(lambda b: b.spend(release, d_in=2), "relation")
    refuse(lambda b: b.spend(release, relation=REPLACED, d_in=-2.0), "d_in")


def test_an_unknown_measure_or_map_is_refused(stand_in):
    def fails(distance):
        raise OverflowError("a trace of machine code")

    strange = stand_in("AbsoluteDistance<f64>", "FancyDivergence", lambda d: d)
    refuse(lambda b: b.spend(strange, relation=REPLACED, d_in=1.0), "has no conversion")
    broken = stand_in("AbsoluteDistance<f64>", "MaxDivergence", fails)
    refuse(lambda b: b.spend(broken, relation=REPLACED, d_in=1.0), "fails at a distance of 1.0")
    for value in (-1.0, math.nan, math.inf):
        odd = stand_in("AbsoluteDistance<f64>", "MaxDivergence", lambda d, v=value: v)
        refuse(lambda b, r=odd: b.spend(r, relation=REPLACED, d_in=1.0), "epsilon")


# -- nothing is spent ------------------------------------------------------------------------------


def refuse(call, hint, epsilon=3.0, delta=DELTA):
    budget = PrivacyAccountant(epsilon, delta)
    with pytest.raises((TypeError, ValueError, BudgetError), match=hint) as caught:
        call(budget)
    message = str(caught.value)
    assert len(message) < 500 and "\n" not in message and message.endswith(".")
    assert len(budget.history) == 0


class UnheardOfDpEvent(de.DpEvent):
    pass


class GaussianDpEvent(de.DpEvent):
    """Another's, which may mean anything."""

    noise_multiplier = 100.0


def deep(levels=5000):
    tree = de.GaussianDpEvent(9.0)
    for _ in range(levels):
        tree = de.ComposedDpEvent([tree])
    return tree


GOOD = de.GaussianDpEvent(9.0)


@pytest.mark.parametrize(
    ("release", "more", "hint"),
    [
        (UnheardOfDpEvent(), {}, "UnheardOfDpEvent has no conversion"),
        (GaussianDpEvent(), {}, "has no conversion"),
        (de.NonPrivateDpEvent(), {}, "protects nobody"),
        (de.UnsupportedDpEvent(), {}, "has no conversion"),
        (de.ComposedDpEvent([GOOD, de.NonPrivateDpEvent()]), {}, "protects nobody"),
        (de.PoissonSampledDpEvent(0.1, de.LaplaceDpEvent(1.0)), {}, "without the sampling"),
        (de.PoissonSampledDpEvent(1.5, GOOD), {}, "sampling_probability"),
        (de.SampledWithReplacementDpEvent(10, 5, GOOD), {}, "has no conversion"),
        (de.SampledWithoutReplacementDpEvent(5, 10, GOOD), {}, "batch_size"),
        (de.GaussianDpEvent(0.0), {}, "noise_multiplier"),
        (de.GaussianDpEvent("1"), {}, "noise_multiplier"),
        (de.SelfComposedDpEvent(GOOD, -1), {}, "count"),
        (de.ZCDpEvent(-0.1), {}, "rho"),
        (de.ZCDpEvent(0.1, xi=0.5), {}, "xi=0"),
        (de.RandomizedResponseDpEvent(0.0, 3), {}, "noise_parameter"),
        (de.RandomizedResponseDpEvent(0.5, 3), {"relation": ADDED}, "RandomizedResponse"),
        (deep(), {}, "too deep"),
        (GOOD, {"relation": None}, "between which neighbours"),
        (GOOD, {"relation": "replace-special"}, "none that a ledger holds"),
        (GOOD, {"relation": np.ones(3)}, "none that a ledger holds"),
        (GOOD, {"relation": NeighboringRelation.REPLACE_SPECIAL}, "none that a ledger holds"),
        (GOOD, {"d_in": 1.0}, "d_in"),
        (GOOD, {"label": "x" * 10**6}, "label"),
        (PureEvent(0.1), {}, "complete"),
        ("epsilon=1", {}, "charged with an Event"),
        ((1.0, 1e-6), {}, "charged with an Event"),
        (GOOD.to_named_tuple(), {}, "charged with an Event"),
        ({"rho": -1.0}, {}, "rho"),
        ({"rho": math.inf}, {}, "rho"),
        ({"rho": math.nan}, {}, "rho"),
        ({"rho": 1.0, "epsilon": 1.0}, {}, "plain numbers"),
        ({"delta": 1e-6}, {}, "plain numbers"),
        ({}, {}, "plain numbers"),
        ({"epsilon": -1.0}, {}, "epsilon"),
        ({"epsilon": math.inf, "delta": 1e-6}, {}, "epsilon"),
        ({"epsilon": 1.0, "delta": 2.0}, {}, "delta"),
        ({"epsilon": 1.0, "delta": 0.5}, {"relation": ADDED}, "nothing is left"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_refused(release, more, hint):
    refuse(lambda budget: budget.spend(release, **({"relation": REPLACED} | more)), hint)


@pytest.mark.parametrize("release", [{"rho": 0.1}, {"epsilon": 0.1, "delta": 1e-9}, GOOD], ids=str)
def test_a_delta_is_needed(release):
    refuse(lambda budget: budget.spend(release, relation=REPLACED), "delta=0", delta=0.0)


def test_a_renyi_line_is_no_gaussian_bound():
    """Randomised response of a small epsilon: rho = epsilon^2 / 2, and mu = 1.25 epsilon."""
    budget = PrivacyAccountant(3.0, DELTA, filter="gdp")
    with pytest.raises(ValueError, match="no finite mu"):
        budget.spend({"rho": 0.005}, relation=REPLACED)
    assert len(budget.history) == 0
    assert PureEvent(0.1).renyi(50.0) <= 50.0 * 0.005 and PureEvent(0.1).gdp_bound > 0.125


def test_a_measurement_that_needs_a_delta(dp):
    one = dp.m.make_gaussian(*numbers(dp), scale=3.0)
    for measurement in (one, dp.c.make_zCDP_to_approxDP(one)):
        refuse(lambda b, m=measurement: b.spend(m, relation=REPLACED, d_in=1.0), "delta=0", 3.0, 0)
    odometer = dp.c.make_fully_adaptive_composition(*numbers(dp), dp.max_divergence())
    refuse(lambda b: b.spend(odometer, relation=REPLACED, d_in=1.0), "got Odometer")
    for d_in in (0.0, -1.0, math.inf, math.nan, "1", None):
        refuse(lambda b, d=d_in: b.spend(one, relation=REPLACED, d_in=d), "d_in")


def test_a_folder_is_no_ledger(tmp_path):
    with pytest.raises(BudgetError) as caught:
        PrivacyAccountant(3.0, path=tmp_path).spend({"rho": 0.1}, relation=REPLACED)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)
    assert "is a folder" in str(caught.value)
