"""Lattice arithmetic: exact law, proved calibration, integer sensitivity, and what it defends."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from conftest import GEOMETRIES
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import check_estimator

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    frechet_mean,
)
from skriemdp._descent.problem import FrechetProblem
from skriemdp._descent.queries import GradientQuery, Query
from skriemdp._descent.releases import FullBatch, exact_mean
from skriemdp._mechanisms.bounded_sets import ball, labelled
from skriemdp._mechanisms.bounds import Ball
from skriemdp._mechanisms.budget import Steps
from skriemdp._mechanisms.counts import GaussianCount, LaplaceCount
from skriemdp._mechanisms.discrete_gaussian import (
    LARGEST_SCALE,
    _cells,
    _undecided,
    discrete_gaussian,
    running_sums,
)
from skriemdp._mechanisms.noise import NOISE_SCALE
from skriemdp._mechanisms.quantile import PrivateQuantile, log_grid
from skriemdp._mechanisms.sum import ExactTotal, private_sum
from skriemdp._mechanisms.units import Units
from skriemdp.auditing import audit_epsilon, audit_scores
from skriemdp.datasets import make_cloud
from skriemdp.geometry import SPD, Euclidean, GeodesicBall, Hyperboloid, Sphere
from skriemdp.privacy._calibration import gaussian_delta, gaussian_mu
from skriemdp.privacy._events import GaussianEvent, ZCDPEvent
from skriemdp.privacy._lattice import (
    largest_shift,
    lattice_scale,
    lattice_step,
    rounding_distance,
    rounding_divergence,
    share_scale,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Rows(Query):
    """Rows of R^k in a ball about zero, cut into `blocks`."""

    def __init__(self, rows, radius, blocks=1):
        self._blocks, self.bound = np.array_split(np.asarray(rows), blocks), Ball(radius)
        self.n, self.dim = np.shape(rows)

    def blocks(self, indices=None):
        assert indices is None
        yield from self._blocks


# -- the law of the noise ------------------------------------------------------------------------


def masses(scale, reach):
    """Probabilities of -reach..reach and of everything beyond, from the definition."""
    x = np.arange(-60 * scale, 60 * scale + 1)
    p = np.exp(-0.5 * (x / scale) ** 2)
    p /= p.sum()
    inside = p[np.abs(x) <= reach]
    return np.append(inside, 1.0 - inside.sum())


def chi_square(draws, scale):
    reach = min(3 * scale, 100)
    expected = masses(scale, reach) * draws.size
    seen = np.array([(draws == k).sum() for k in range(-reach, reach + 1)])
    seen = np.append(seen, draws.size - seen.sum())
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), expected.size - 1))


@pytest.mark.parametrize("scale", [1, 2, 3, 7, 64, 128, 192])
def test_draws_follow_the_definition(scale):
    """One false alarm in ten million."""
    draws = discrete_gaussian(scale, np.random.default_rng(scale), 60_000)
    assert chi_square(draws, scale) > 1e-7


def test_rounded_normal_draws_are_told_apart():
    rounded = np.rint(np.random.default_rng(0).standard_normal(60_000)).astype(int)
    assert chi_square(rounded, 1) < 1e-7


@pytest.mark.parametrize("per_scale", [1, 5, 64])
@pytest.mark.parametrize("bits", [3, 63, 127])
def test_running_sums_are_those_of_sixty_digits(per_scale, bits):
    with mpmath.workdps(60):
        weights = [mpmath.exp(-mpmath.mpf(k * k) / (2 * per_scale**2)) for k in range(2000)]
        whole, running = mpmath.fsum(weights), mpmath.mpf(0)
        low, high = running_sums(per_scale, bits)
        for k, (least, most) in enumerate(zip(low, high, strict=True)):
            running += weights[k]
            assert least == most == int(mpmath.floor(running / whole * 2**bits))
        assert (1 - running / whole) * 2**bits < 1


@pytest.mark.parametrize(("per_scale", "bits"), [(2, 0), (2, 3), (5, 2), (64, 4)])
def test_cells_that_few_bits_leave_open_follow_the_law(per_scale, bits):
    """One false alarm in ten million."""
    rng = np.random.default_rng(per_scale + bits)
    firsts = rng.integers(2**bits, size=4000).tolist()
    cells = np.array([_undecided(first, per_scale, bits, rng) for first in firsts])
    weights = np.exp(-0.5 * (np.arange(40 * per_scale) / per_scale) ** 2)
    seen = np.bincount(cells, minlength=weights.size)
    parts = np.array_split(np.arange(3 * per_scale), min(3 * per_scale, 24))
    expected = np.array([weights[part].sum() for part in parts]) / weights.sum() * cells.size
    counts = np.array([seen[part].sum() for part in parts])
    expected, counts = (np.append(v, cells.size - v.sum()) for v in (expected, counts))
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), expected.size - 1) > 1e-7


def test_uniform_numbers_that_agree_with_a_sum_are_decided_by_more_bits():
    """The first 63 bits of a sum stand for the cells on both sides of it, and for no others."""
    low, _ = running_sums(64, 63)
    rng = np.random.default_rng(0)
    for k in (0, 40, 200):
        found = _cells(np.full(60, low[k]), 64, rng)
        assert set(found.tolist()) == {k, k + 1}
        assert _cells(np.array([low[k] - 1, low[k] + 1]), 64, rng).tolist() == [k, k + 1]


@pytest.mark.parametrize("scale", [2**20 + 64, 2**40 + 64 * 193, LARGEST_SCALE])
def test_large_scales_are_gaussian_down_to_the_last_bits(scale):
    draws = discrete_gaussian(scale, np.random.default_rng(3), 40_000)
    cells = np.histogram(norm.cdf(draws / scale), np.linspace(0.0, 1.0, 101))[0]
    assert chi2.sf(((cells - 400.0) ** 2 / 400.0).sum(), 99) > 1e-7
    residues = np.bincount(draws % 16, minlength=16)
    assert chi2.sf(((residues - 2500.0) ** 2 / 2500.0).sum(), 15) > 1e-7


class IntegersOnly:
    """A generator that can do nothing but draw uniform integers."""

    def __init__(self, seed):
        self.integers = np.random.default_rng(seed).integers


def test_only_integers_are_drawn():
    rng = IntegersOnly(0)
    assert discrete_gaussian(10**6, rng, (2, 3)).shape == (2, 3)
    Rows(np.ones((4, 2)), 1.0).noisy(1.0, rng)
    rows = np.ones((4, 2)), np.array([0, 1, 1, 0])
    private_sum(Units(rows), lambda *given: given, labelled(1.0, 2, 2), 0.3, rng)
    GaussianCount(3.0).release(4, rng)
    PrivateQuantile(log_grid(1.0, 9.0, 1.5), 0.5, 1.0).release([1.0, 2.0], rng)
    with pytest.raises(AttributeError):
        LaplaceCount(3.0).release(4, rng)


def test_scales_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"2\*\*56"):
        discrete_gaussian(LARGEST_SCALE + 1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="scale"):
        discrete_gaussian(0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="multiple of 64"):
        discrete_gaussian(65, np.random.default_rng(0))
    assert discrete_gaussian(5, np.random.default_rng(0)).shape == ()
    assert discrete_gaussian(5, np.random.default_rng(0), 0).shape == (0,)


# -- the theorem ---------------------------------------------------------------------------------


def weights(scale, last):
    """Those of a discrete Gaussian at 0, 1, 2, ... below `last`, in 60 digits."""
    with mpmath.workdps(60):
        s = mpmath.mpf(scale)
        return [mpmath.exp(-(mpmath.mpf(t) ** 2) / (2 * s * s)) for t in range(last)]


def quantile_gaps(p, last):
    """Gaps of the normal quantiles of P(X >= t), t = 1, 2, ...; and across t = 0, 1."""
    with mpmath.workdps(60):
        total = p[0] + 2 * mpmath.fsum(p[1:])
        tails, tail = [], mpmath.mpf(0)
        for t in range(len(p) - 1, 0, -1):
            tail += p[t]
            tails.append(tail / total)
        quantiles = []
        for q in tails[::-1][:last]:
            start = mpmath.sqrt(-2 * mpmath.log(q)) if q < 0.2 else mpmath.mpf("0.3")
            quantiles.append(
                mpmath.findroot(
                    lambda z, q=q: mpmath.log(mpmath.erfc(z / mpmath.sqrt(2)) / 2) - mpmath.log(q),
                    start,
                )
            )
        gaps = [2 * quantiles[0]]
        gaps += [b - a for a, b in zip(quantiles[:-1], quantiles[1:], strict=True)]
        return gaps


@pytest.mark.parametrize("scale", [2, 3, 5])
def test_quantile_gaps_stay_below_the_step(scale):
    largest = float(max(quantile_gaps(weights(scale, 42 * scale), 12 * scale)))
    assert 1.0 / scale < largest <= lattice_step(scale)
    # The proved step overstates the gap by about 1 / (12 scale^2), no more.
    assert lattice_step(scale) <= largest * (1.0 + 0.11 / scale**2)


def sum_weights(scale, shares, last=60):
    """Those of the sum of so many shares at 0, 1, 2, ..., unnormalised."""
    one = weights(scale, last)
    with mpmath.workdps(60):
        p = whole = one[:0:-1] + one
        for _ in range(shares - 1):
            p = [
                mpmath.fsum(p[i - j] * w for j, w in enumerate(whole) if 0 <= i - j < len(p))
                for i in range(len(p) + len(whole) - 1)
            ]
        return p[len(p) // 2 :]


def distance_of_shares(scale, shares):
    """The lemma's tau."""
    squares = [scale**2 * j / (j + 1.0) for j in range(1, shares)]
    return 3.1 * 2.0 * sum(math.exp(-2.0 * (math.pi * k) ** 2 * r) for r in squares for k in (1, 2))


SHARES = [(1, 5), (1, 8), (1.5, 3), (2, 4)]


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize("scale, shares", [(1, 2), *SHARES])
def test_a_sum_of_shares_is_nearly_one_discrete_gaussian(scale, shares):
    p, one = sum_weights(scale, shares), weights(scale * math.sqrt(shares), 60)
    with mpmath.workdps(60):
        total = [q[0] + 2 * mpmath.fsum(q[1:]) for q in (p, one)]
        worst = max(
            abs(mpmath.log(p[t] / total[0]) - mpmath.log(one[t] / total[1])) for t in range(30)
        )
    bound = distance_of_shares(scale, shares)
    assert float(worst) <= bound
    assert shares > 2 or float(worst) > 0.3 * bound  # more of them average out


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize("scale, shares", SHARES)
def test_gaps_of_a_sum_of_shares_stay_below_the_step(scale, shares):
    square = 1.0 / (shares * scale**2) + 4.0 * distance_of_shares(scale, shares)
    assert square <= 0.25  # the theorem's s is at least 2
    step = math.sqrt(2.0 * (1.0 - math.sqrt(1.0 - square)))
    last = round(9 * scale * math.sqrt(shares))
    largest = float(max(quantile_gaps(sum_weights(scale, shares), last)))
    assert 1.0 / (scale * math.sqrt(shares)) < largest <= step  # without the step it is false


@given(shares=st.integers(1, 10**6))
@settings(max_examples=200, deadline=None)
def test_shares_add_up_to_the_usual_scale_and_no_more(shares):
    scale = share_scale(shares)
    assert scale % 64 == 0
    # What Theorem 4 asks for, with room for tau, in integers; and one step less is too little.
    assert shares * (scale // 64) ** 2 >= 2**68 + 1 > shares * (scale // 64 - 1) ** 2
    assert 10**9 <= scale <= LARGEST_SCALE
    if shares <= 1000:
        assert shares * scale**2 <= NOISE_SCALE**2 * (1.0 + 4e-9)


def test_who_knows_other_shares_faces_the_root_of_what_is_left():
    for shares, left in ((2, 1), (20, 3), (10**4, 1)):
        with mpmath.workdps(60):
            square = 1 / (left * mpmath.mpf(share_scale(shares)) ** 2)
            step = mpmath.sqrt(2 * (1 - mpmath.sqrt(1 - square)))
            one = mpmath.sqrt(2 * (1 - mpmath.sqrt(1 - mpmath.mpf(NOISE_SCALE) ** -2)))
            assert step / one <= mpmath.sqrt(mpmath.mpf(shares) / left) * (1 + mpmath.mpf(2) ** -60)


def test_bad_numbers_of_shares_are_refused():
    for bad in (0, 10**6 + 1, 2.5):
        with pytest.raises((TypeError, ValueError), match="shares"):
            share_scale(bad)


@pytest.mark.slow
@pytest.mark.parametrize("shares", [1, 2, 19, 99])
def test_law_of_a_sum_of_shares_at_the_working_scale(shares):
    """Pearson's statistic of 200 cells of equal mass; fails once in 10^7 runs."""
    draws, rng = 40_000, np.random.default_rng(shares)
    total = sum(discrete_gaussian(share_scale(shares), rng, draws) for _ in range(shares))
    cells = np.floor(200 * norm.cdf(total / NOISE_SCALE)).astype(int).clip(0, 199)
    expected = draws / 200
    statistic = float(np.sum((np.bincount(cells, minlength=200) - expected) ** 2) / expected)
    assert statistic < chi2.isf(2.5e-8, 199)


def exact_delta(scale, shift, epsilon):
    """Profile of N_Z(0, s^2) to the power len(shift) against its translate: direct sums."""
    x = np.arange(-40 * scale, 40 * scale + 1)
    loss, mass = np.zeros(1), np.ones(1)
    for k in shift:
        p = np.exp(-0.5 * (x / scale) ** 2)
        p /= p.sum()
        one = (k * k - 2.0 * k * x) / (2.0 * scale**2)
        loss = np.add.outer(loss, one).ravel()
        mass = np.multiply.outer(mass, p).ravel()
        keep = mass > 1e-18
        loss, mass = loss[keep], mass[keep]
    return float(np.sum(mass * np.maximum(-np.expm1(epsilon - loss), 0.0)))


EPSILONS = [0.0, 0.1, 0.3, 1.0, 2.0, 4.0]


@pytest.mark.parametrize("scale", [2, 3, 8])
@pytest.mark.parametrize("shift", [(1,), (3,), (7,), (1, 1), (2, 3), (4, 1)], ids=str)
def test_profile_is_below_the_gaussian_one(scale, shift):
    mu = math.hypot(*shift) * lattice_step(scale)
    for epsilon in EPSILONS:
        delta = exact_delta(scale, shift, epsilon)
        assert delta <= gaussian_delta(mu, epsilon) + 1e-13


def test_without_the_correction_the_claim_is_false():
    """A discrete Gaussian is not exactly |shift| / scale-GDP, on a coarse lattice visibly so."""
    excess = [
        exact_delta(2, (k,), e) / gaussian_delta(k / 2.0, e)
        for k in (1, 2, 3, 4, 7)
        for e in np.linspace(0.0, 4.0, 81)
    ]
    assert max(excess) > 1.005


@pytest.mark.parametrize("scale, shift", [(4, 4), (20, 5), (50, 100)])
def test_agrees_with_dp_accounting(scale, shift):
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld.privacy_loss_distribution import from_discrete_gaussian_mechanism

    exact = from_discrete_gaussian_mechanism(
        scale, shift, value_discretization_interval=1e-4, use_connect_dots=True
    )
    epsilon = GaussianEvent(1.0 / (shift * lattice_step(scale))).epsilon(1e-5)
    assert exact.get_epsilon_for_delta(1e-5) <= epsilon + 1e-3
    assert epsilon <= 1.02 * exact.get_epsilon_for_delta(1e-5)
    # Zero-concentrated privacy is true of the same release, and costs more.
    assert ZCDPEvent(shift**2 / (2.0 * scale**2)).epsilon(1e-5) > 1.02 * epsilon


@given(
    shift=st.integers(1, 2**50),
    noise=st.floats(1e-3, 1e9, allow_nan=False),
)
@settings(max_examples=60, deadline=None)
def test_scale_is_the_smallest_private_integer(shift, noise):
    def allowed(scale):
        # lattice_step(scale) * shift * noise <= 1, without roots
        w = 1 / (Fraction(noise) * shift)
        return w * w >= 2 or Fraction(scale) ** 2 * w * w * (1 - w * w / 4) >= 1

    scale = lattice_scale(shift, noise)
    assert scale >= 2 and allowed(scale)
    assert scale == 2 or not allowed(scale - 1)
    if scale <= 2**62:
        assert lattice_step(scale) * shift * noise <= 1.0 + 4e-15


def test_steps_of_tiny_scales_are_refused():
    with pytest.raises(ValueError, match="scale"):
        lattice_step(1)
    assert lattice_scale(1, 1e-3) == 2
    assert lattice_step(2**30) == pytest.approx(2.0**-30, rel=1e-12)


# -- integer sums --------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [2.0**-8, 0.05, 1.0, 3.7, 1e3, 1e6])
@pytest.mark.parametrize("dim", [1, 55])
def test_the_lattice_costs_less_than_one_percent(noise, dim):
    bounded_set = ball(Ball(0.37), dim)
    assert 1.0 <= bounded_set.sigma(bounded_set.check(1.0 / noise)) / (2 * 0.37 * noise) < 1.01
    assert 1.0 <= GaussianCount(noise).sigma / noise < 1.0 + 1e-5
    assert largest_shift(NOISE_SCALE, noise) * lattice_step(NOISE_SCALE) <= 1.0 / noise


def test_sums_are_exact_whatever_their_order_and_blocks():
    x = np.random.default_rng(0).normal(size=(5000, 2))
    bounded_set = ball(Ball(1.0), 2)
    steps = bounded_set.check(1.0)
    order = np.random.default_rng(1).permutation(5000)

    def release(rows, blocks=1):
        return Rows(rows, 1.0, blocks).noisy(1.0, np.random.default_rng(7)).value

    whole = release(x)
    np.testing.assert_array_equal(whole, release(x[order]))
    np.testing.assert_array_equal(whole, release(x[order], 13))
    exact = sum(int(k) for k in np.rint(bounded_set.hold(x, bounded_set.spacing(steps)))[:, 0])
    noise = discrete_gaussian(NOISE_SCALE, np.random.default_rng(7), (2,))
    assert whole[0] == float(exact + int(noise[0])) * bounded_set.spacing(steps)


def test_sums_beyond_63_bits():
    query = Rows(np.ones((40_000, 1)), 1.0)
    assert query.bounded_set.check(2.0**9) // 2 * 40_000 > 2**63
    total = query.noisy(2.0**9, np.random.default_rng(0)).value[0]
    assert abs(total - 40_000) < 1.0


@pytest.mark.parametrize("largest", [3, 2**40, 2**47, 2**49, 2**61])
def test_totals_are_those_of_python_integers(largest):
    """Whichever way the rows are added: as floats, in pieces, as machine or Python integers."""
    rows = np.rint(np.random.default_rng(largest % 97).uniform(-1, 1, size=(300, 2)) * largest)
    total = ExactTotal((2,), largest)
    for part in np.array_split(rows, 3):
        for piece in total.pieces(len(part)):
            total.floats += part[piece].sum(axis=0)
    assert total.value().tolist() == [sum(int(k) for k in column) for column in rows.T]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dim", [1, 3, 21])
def test_sums_up_to_the_last_exact_float_lose_nothing(dim, order):
    """As many rows as partial sums below 2^53 allow, all of one sign, and odd."""
    count = 4096
    rows = np.full((count, dim), 2.0**41 - 1.0, order=order)
    total = ExactTotal((dim,), 2**41)
    for piece in total.pieces(count):
        total.floats += np.ones(piece.stop - piece.start) @ rows[piece]
    assert total.value().tolist() == [count * (2**41 - 1)] * dim


def test_a_lattice_that_is_too_coarse_is_refused():
    with pytest.raises(ValueError, match="radius"):
        Ball(1e-300)
    with pytest.raises(ValueError, match="noise_multiplier"):
        GaussianCount(2.0**41)


# Each bound may be wrong with probability 1e-8.
CONFIDENCE = 1 - 1e-8
# A fifth chooses the threshold; what is left shows more than 0.7 of the claim.
TRIALS = 1900


def audited(scores, others):
    scores, others = np.array(scores), np.array(others)
    return audit_scores(scores, others, delta=1e-5, confidence=CONFIDENCE, tuning_share=0.2)


def test_audit_of_a_sum():
    mu = gaussian_mu(8.0, 1e-5)
    rng = np.random.default_rng(5)
    x = np.zeros((20, 2))
    x[0, 0] = 1.0

    def audit(multiplier):
        def scores(rows):
            query = Rows(rows, 1.0)
            return [query.noisy(1.0 / multiplier, rng).value[0] for _ in range(TRIALS)]

        return audited(scores(-x), scores(x))

    honest = audit(1.0 / mu)
    assert 0.7 * mu < honest.mu <= mu
    assert honest.epsilon <= 8.0
    assert audit(0.5 / mu).mu > mu


@pytest.mark.slow
def test_audit_of_sums_and_counts():
    """One record moves from one group to the other, and turns round."""
    mu, rng = gaussian_mu(8.0, 1e-5), np.random.default_rng(5)

    def audit(multiplier):
        def scores(record):
            units = Units((np.array([[record]]), np.array([int(record > 0)])))
            bounded_set, give, mu = labelled(1.0, 1, 2), lambda *rows: rows, 1.0 / multiplier
            draws = [private_sum(units, give, bounded_set, mu, rng).value for _ in range(TRIALS)]
            return [np.ravel(sums) @ direction for sums in draws]

        direction = np.array([1.0, -1.0, 1.0, 1.0]) / 2.0
        return audited(scores(-1.0), scores(1.0))

    honest = audit(1.0 / mu)
    assert 0.7 * mu < honest.mu <= mu
    assert audit(0.5 / mu).mu > mu


def test_audit_of_a_count():
    mu = gaussian_mu(8.0, 1e-5)
    mechanism = GaussianCount(1.0 / mu)
    rng = np.random.default_rng(6)
    result = audit_epsilon(
        lambda x, trials: mechanism.release(int(x), rng, trials),
        10,
        11,
        trials=6000,
        confidence=CONFIDENCE,
    )
    assert 0.75 * mu < result.mu <= mu


# -- records do not meet before they are integers ------------------------------------------------


def starting_kernels(geometry):
    """What a search asks of each row before it knows a centre; called like the other kernels."""
    known = []
    if geometry.embedding is not None:
        known.append(geometry.embedding.give)
    if geometry.scaling is not None:
        known.append(geometry.scaling.unit)
        if geometry.chart(geometry.base_point[None]) is not None:
            charted, chart = geometry.scaling.charted, geometry.chart
            known.append(lambda rows: charted(chart(rows)))
    return [lambda here, rows, give=give: give(rows) for give in known]


def rows_influence_each_other(geometry):
    rng = np.random.default_rng(0)
    radius = min(0.8, 0.4 * geometry.radius_limit)
    base = geometry.base_point
    point = geometry.exp_coordinates(base, np.full(geometry.dim, 0.3 * radius / geometry.dim**0.5))
    for trial in range(4):
        c = rng.normal(size=(2, 23, geometry.dim))
        c *= radius / np.linalg.norm(c, axis=-1, keepdims=True)
        c[0] *= rng.random((23, 1))
        i = 5 * trial
        c[1, i] = c[0, i]
        x = np.stack([geometry.exp_coordinates(base, block) for block in c])
        x[1, i] = x[0, i]
        for here in (base, point):
            for kernel, values in [
                (geometry.log_coordinates, x),
                (geometry.dist, x),
                (geometry.exp_coordinates, c),
                *((kernel, x) for kernel in starting_kernels(geometry)),
            ]:
                if not np.array_equal(kernel(here, values[0])[i], kernel(here, values[1])[i]):
                    return True
    return False


@pytest.mark.parametrize(
    "geometry", [g for g in GEOMETRIES if g.separate_rows], ids=lambda g: str(g)
)
def test_rows_are_computed_apart(geometry):
    assert not rows_influence_each_other(geometry)


@pytest.mark.parametrize(
    "geometry", [g for g in GEOMETRIES if g.separate_rows], ids=lambda g: str(g)
)
def test_rows_do_not_depend_on_their_place_or_number(geometry):
    rng = np.random.default_rng(1)
    radius = min(0.8, 0.4 * geometry.radius_limit)
    base, n = geometry.base_point, 501
    c = rng.normal(size=(n, geometry.dim))
    c *= radius * rng.random((n, 1)) / np.linalg.norm(c, axis=1, keepdims=True)
    x = np.asarray(geometry.exp_coordinates(base, c))
    some = np.flatnonzero(rng.random(n) < 0.1)
    for here in (base, x[0].copy()):
        for kernel, values in [
            (geometry.log_coordinates, x),
            (geometry.dist, x),
            (geometry.exp_coordinates, c),
            *((kernel, x) for kernel in starting_kernels(geometry)),
        ]:
            whole = np.asarray(kernel(here, values))
            for rows in (np.arange(1, n), rng.permutation(n), some, np.array([n - 1])):
                np.testing.assert_array_equal(np.asarray(kernel(here, values[rows])), whole[rows])


# -- the estimator -------------------------------------------------------------------------------

SPACES = [SPD(2), SPD(2, metric="bures-wasserstein"), Sphere(4), Hyperboloid(3), Euclidean(3)]
WAYS = [
    {},
    {"mechanism": "tangent"},
    {"mechanism": "tangent", "shrink": None},
    {"mechanism": "gradient"},
    {"mechanism": "gradient", "clip_norm": 0.2, "n_steps": 2},
    {"radius": "private"},
    {"center": "private", "radius": "private"},
]


def cloud(geometry, n=3000, radius=0.5, seed=0):
    return make_cloud(geometry, n, radius=radius, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("geometry", SPACES, ids=str)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_means(geometry, way, recording_accountant):
    X = cloud(geometry)
    model = PrivateFrechetMean(
        geometry,
        epsilon=30.0,
        accountant=recording_accountant,
        **{"center": geometry.base_point, "radius": 0.5, "noise": "gaussian"} | way,
    ).fit(X)
    assert geometry.dist(model.mean_, frechet_mean(X, geometry)) < 0.05
    assert bool(geometry.belongs(model.mean_))
    (event,) = recording_accountant.spends
    assert isinstance(event, GaussianEvent)
    assert event.epsilon(1e-5) <= 30.0
    assert model.privacy_spent_.guarantee == "exact"


def test_each_step_of_a_descent_has_its_noise():
    """Noise of one step: variance of the released gradient, in units of its promise."""
    ball = GeodesicBall(Hyperboloid(2), None, 0.5)
    problem, _ = FrechetProblem.from_records(ball, cloud(ball.geometry, 200))
    point = ball.geometry.exp_coordinates(ball.center, np.array([0.3, 0.1]))
    query = GradientQuery(problem, point)
    rng = np.random.default_rng(0)
    draws = np.array([FullBatch().noisy_mean(query, 2.0, Steps(1), rng) for _ in range(400)])
    sigma = 2.0 * 2.0 * 0.5 / 200
    exact = exact_mean(query)
    z = (draws - exact) / sigma
    assert abs(z.mean()) < 5.5 / math.sqrt(800)
    assert 0.75 < (z**2).mean() < 1.29


@pytest.mark.parametrize("geometry", [Sphere(3), Hyperboloid(2)], ids=str)
def test_adaptive_means_do_not_repeat_the_bias_of_logarithms(geometry):
    """Data that fill the ball: repeating stage 1 cost 80 times the noise on the sphere."""
    rng = np.random.default_rng(0)
    X = make_cloud(geometry, 3000, radius=1.0, offset=0.5, spread=0.6, rng=rng)
    model = PrivateFrechetMean(geometry, center=geometry.base_point, noise="gaussian", radius=1.0)
    inside = GeodesicBall(geometry, None, 1.0).project(X)
    target = frechet_mean(inside, geometry)
    errors = [float(geometry.dist(target, model.fit(X).mean_)) ** 2 for _ in range(8)]
    limit = geometry.dim * (2.0 / (3000 * gaussian_mu(1.0, 1e-5))) ** 2
    assert np.mean(errors) < 20.0 * limit


class Together(Sphere):
    """A geometry of a user, that says nothing of its rows."""

    separate_rows = False


@pytest.mark.parametrize("ball", [{"center": np.eye(4)[0], "radius": 1.0}, {}], ids=str)
def test_logarithms_of_a_users_geometry_are_computed_one_by_one(ball):
    X = cloud(Sphere(3), 50, radius=0.3)
    model = PrivateFrechetMean(Together(3), mechanism="gradient", random_state=0, **ball).fit(X)
    assert model.privacy_spent_.public["arithmetic"] == "exact integers"


@pytest.mark.parametrize("way", [{}, {"mechanism": "gradient"}, {"center": "private"}], ids=str)
def test_one_extreme_record_changes_no_outcome(way):
    X = np.random.default_rng(0).normal(size=(40, 4)) * 0.2
    for value in (1e300, -1e154, 5e-324):
        X[3] = value
        model = PrivateFrechetMean(**{"radius": 1.0} | way).fit(X)
        assert np.isfinite(model.mean_).all()
    space = SPD(2)
    points = cloud(space, 50)
    points[0] = space.exp_coordinates(space.base_point, np.array([15.0, 0.0, 0.0]))
    model = PrivateFrechetMean(space, **{"center": space.base_point, "radius": 0.5} | way).fit(
        points
    )
    assert space.belongs(model.mean_)


def test_check_estimator():
    results = check_estimator(PrivateFrechetMean(radius=1.0), on_fail=None, on_skip=None)
    failed = [(r["check_name"], repr(r["exception"])) for r in results if r["status"] == "failed"]
    assert failed == []
    assert sum(r["status"] == "passed" for r in results) > 30


@pytest.mark.parametrize("kind", ["gdp", "renyi"])
def test_searches_and_filters(kind):
    X = np.random.default_rng(0).normal(size=(400, 2)) * 0.2
    accountant = PrivacyAccountant(epsilon=20.0, filter=kind)
    GridSearchCV(
        PrivateFrechetMean(accountant=accountant, radius=1.0),
        {"epsilon": [0.1, 0.2]},
        cv=KFold(3),
        error_score="raise",
    ).fit(X)
    assert len(accountant.history) == 7
    assert 0.0 < accountant.spent.epsilon < 20.0


def test_seeds_repeat_and_say_so():
    X = cloud(SPD(2), 100)
    fits = [
        PrivateFrechetMean("spd", random_state=3, center=np.eye(2), radius=1.0).fit(X) for _ in "ab"
    ]
    np.testing.assert_array_equal(fits[0].mean_, fits[1].mean_)
    assert fits[0].privacy_spent_.guarantee == "none (seeded)"


# -- an attack on floating-point addition --------------------------------------------------------


def has_bits_below(values, unit):
    return np.fmod(values, unit) != 0.0


def test_naive_addition_of_noise_tells_data_sets_apart():
    """Value 0 against 1 at mu = 1/4: some outputs exclude the 1, with certainty."""
    noise = 4.0 * np.random.default_rng(0).standard_normal(20_000)
    unit = 2.0**-53  # half the last place of numbers in [1/2, 1): what 1 + z is a multiple of
    certain = has_bits_below(0.0 + noise, unit)
    assert not has_bits_below(1.0 + noise, unit).any()
    # delta >= 0.06 at every epsilon; the ideal mechanism has delta(1) = 2.9e-6.
    assert certain.mean() > 0.06
    assert gaussian_delta(0.25, 1.0) < 3e-6


def float_releases(value, trials):
    """What our float path releases of one number, next to nine zeros."""
    X = np.zeros((10, 1))
    X[0] = value
    # The rim is fifteen standard deviations away: nothing is projected on it.
    model = PrivateFrechetMean(mechanism="tangent", delta=0.0, radius=100.0, epsilon=20.0)
    return np.array([model.fit(X).mean_[0] for _ in range(trials)]), model.noise_scale_


def test_the_float_path_releases_points_of_a_public_grid():
    # The sum gets the noise; dividing it by ten is post-processing.
    for value in (0.0, 100.0):
        released, sigma = float_releases(value, 40)
        grid = 2.0 ** (math.floor(math.log2(10 * sigma)) - 20)
        np.testing.assert_array_equal(released, np.rint(10 * released / grid) * grid / 10)


def test_lattice_releases_have_one_support():
    bounded_set = ball(Ball(1.0), 1)
    spacing = bounded_set.spacing(bounded_set.check(0.25))
    rng = np.random.default_rng(0)
    for value in (-1.0, 0.0, 1 / 3, 1.0):
        query = Rows(np.full((1, 1), value), 1.0)
        released = np.array([query.noisy(0.25, rng).value[0] for _ in range(1000)])
        units = np.rint(released / spacing)
        np.testing.assert_array_equal(released, units * spacing)
        odd = np.mod(units, 2.0).mean()
        assert 0.4 < odd < 0.6  # both residues, whatever the value


@pytest.mark.parametrize("order", [1.5, 8.0, 1e6])
def test_the_divergence_of_rounding_is_what_the_farthest_outcome_adds(order):
    """There a rounded Gaussian is likelier by ``E exp(-t U / s^2 - U^2 / (2 s^2))``."""
    tv = rounding_distance(1)
    with mpmath.workdps(80):
        s, t = mpmath.mpf(NOISE_SCALE), mpmath.mpf(2) ** 12 * NOISE_SCALE
        whole = mpmath.quad(
            lambda u: mpmath.exp(-t * u / s**2 - u**2 / (2 * s**2)), [-0.5, 0.0, 0.5]
        )
        farthest = float(mpmath.log(whole))
    claimed = rounding_divergence(tv, order)
    assert farthest + tv * order / (order - 1.0) <= claimed
    assert farthest >= 0.999 * claimed
