"""Mechanisms: noise has the law its event names; sensitivities hold and are attained; audits."""

import dataclasses
import math
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kstest

from skriemdp._mechanisms import noise
from skriemdp._mechanisms.budget import GaussianBudget, PureBudget, Release
from skriemdp._mechanisms.counts import GaussianCount, LaplaceCount
from skriemdp._mechanisms.covariance import SymmetricGaussian
from skriemdp._mechanisms.pure_covariance import PureSymmetric
from skriemdp._mechanisms.pure_sums import PureSumsAndCounts
from skriemdp._mechanisms.quantile import ExponentialQuantile, PrivateQuantile, _prior, log_grid
from skriemdp._mechanisms.vector import GaussianNoise, LaplaceNoise
from skriemdp._random import NoiseGenerator
from skriemdp.auditing import audit_epsilon
from skriemdp.geometry import (
    AffineInvariantSPD,
    BuresWassersteinSPD,
    Euclidean,
    Grassmann,
    Hyperboloid,
    Sphere,
    Stiefel,
)
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._laplace import LaplaceEvent, laplace_law
from skriemdp.privacy._sensitivity import (
    ball_sensitivity,
    interval_sensitivity,
    mean_sensitivity,
    second_moment_sensitivity,
)
from skriemdp.riemannian_laws._output import (
    KNormGradientMechanism,
    RiemannianGaussianMechanism,
    RiemannianLaplaceMechanism,
)

GEOMETRIES = [
    Euclidean(3),
    Sphere(2, radius=2.0),
    Hyperboloid(2, curvature=-0.5),
    AffineInvariantSPD(2),
    BuresWassersteinSPD(2),
    Grassmann(4, 2),
    Stiefel(3, 2),
]
DRAWS = 20_000


def away(geometry, seed=3):
    """A point that is not the base point."""
    coordinates = np.random.default_rng(seed).uniform(-0.4, 0.4, size=geometry.dim)
    return geometry.exp_coordinates(geometry.base_point, coordinates)


def check_isotropic(noise, sigma):
    """Mean zero, covariance sigma^2 I, within 6 standard errors (fixed seeds; else 1e-7 a case)."""
    draws = len(noise)
    flat = noise.reshape(draws, -1) / sigma
    assert np.abs(flat.mean(axis=0)).max() < 6.0 / math.sqrt(draws)
    products = flat[:, :, None] * flat[:, None, :]
    error = products.mean(axis=0) - np.eye(flat.shape[1])
    assert (np.abs(error) < 6.0 * products.std(axis=0) / math.sqrt(draws)).all()


# -- noise on vectors ----------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_noise_in_coordinates_is_isotropic_in_the_metric(geometry, law, rng):
    sensitivity = ball_sensitivity(0.05)
    if law == "gaussian":
        mechanism = GaussianNoise(sensitivity, noise_multiplier=3.0)
        assert mechanism.sigma == pytest.approx(0.3)
        assert mechanism.event.mu == pytest.approx(1.0 / 3.0)
    else:
        mechanism = LaplaceNoise(sensitivity, LaplaceEvent(geometry.dim, 3.0))
        assert mechanism.scale == pytest.approx(0.3)
    point = away(geometry)
    value = np.random.default_rng(4).uniform(-1.0, 1.0, size=geometry.dim)
    noisy = mechanism.release(value, rng, size=DRAWS)
    assert noisy.shape == (DRAWS, geometry.dim)
    check_isotropic(noisy - value, mechanism.sigma)
    tangent = geometry.tangent_from_coordinates(point, noisy - value)
    np.testing.assert_allclose(geometry.projection(point, tangent), tangent, atol=1e-10)
    squares = np.sum((noisy - value) ** 2, axis=1)
    np.testing.assert_allclose(np.asarray(geometry.norm(point, tangent)) ** 2, squares, rtol=1e-8)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_laplace_noise_has_its_law(dim, rng):
    mechanism = LaplaceNoise(ball_sensitivity(0.25), LaplaceEvent(dim, 2.0))
    noisy = mechanism.release(np.zeros(dim), rng, size=DRAWS)
    lengths = np.linalg.norm(noisy, axis=1)  # s = 1
    assert kstest(lengths, "gamma", args=(dim,)).pvalue > 1e-6


def test_every_vector_of_a_batch_gets_noise_of_its_own(rng):
    one = ball_sensitivity(0.5)
    for mechanism in (GaussianNoise(one, 1.0), LaplaceNoise(one, LaplaceEvent(3, 1.0))):
        noisy = mechanism.release(np.zeros((5, 3)), rng)
        assert noisy.shape == (5, 3)
        assert len(np.unique(noisy[:, 0])) == 5
        assert mechanism.release(np.zeros((5, 3)), rng, size=(2, 4)).shape == (2, 4, 5, 3)


def test_noise_follows_the_array(rng):
    torch = pytest.importorskip("torch")
    mechanism = GaussianNoise(ball_sensitivity(0.1), 1.0)
    noisy = mechanism.release(torch.zeros(3, dtype=torch.float64), rng)
    assert isinstance(noisy, torch.Tensor)
    assert noisy.dtype == torch.float64
    assert (noisy != 0.0).all()


def test_a_law_of_another_dimension_is_refused(rng):
    mechanism = LaplaceNoise(ball_sensitivity(1.0), LaplaceEvent(3, 1.0))
    with pytest.raises(ValueError, match="2 coordinates"):
        mechanism.release(np.zeros(2), rng)


@pytest.mark.parametrize("number", [0.2, np.float64(0.2), 1, None, "0.2"])
def test_bare_numbers_are_no_sensitivities(number):
    for make in (
        lambda: GaussianNoise(number, 3.0),
        lambda: LaplaceNoise(number, LaplaceEvent(2, 1.0)),
        lambda: SymmetricGaussian(2, number, 3.0),
    ):
        with pytest.raises(TypeError, match="sensitivity must be a Sensitivity.*ball_sensitivity"):
            make()
    assert GaussianNoise(ball_sensitivity(0.1), 3.0).sigma == pytest.approx(0.6)  # the cure


# -- sensitivities -------------------------------------------------------------------------------


def unit_rows(rng, *shape):
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def in_ball(rng, *shape):
    """Half on the unit sphere, half inside."""
    return (
        unit_rows(rng, *shape) * np.maximum(rng.uniform(0.0, 2.0, size=(*shape[:-1], 1)), 1.0) ** -1
    )


def outer(a, b):
    return a[..., :, None] * b[..., None, :]


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_second_moments_and_hollow_ones_move_by_their_sensitivity(dim, rng):
    z, y = in_ball(rng, 50_000, dim), in_ball(rng, 50_000, dim)
    change = outer(z, z) - outer(y, y)
    hollow = change * (1.0 - np.eye(dim))
    bound = second_moment_sensitivity(1.0).value
    assert np.linalg.norm(change, axis=(-2, -1)).max() <= bound
    assert np.linalg.norm(hollow, axis=(-2, -1)).max() <= bound
    z, y = np.zeros(dim), np.zeros(dim)
    z[:2], y[:2] = math.sqrt(0.5), (math.sqrt(0.5), -math.sqrt(0.5))
    worst = (outer(z, z) - outer(y, y)) * (1.0 - np.eye(dim))
    assert np.linalg.norm(worst) == pytest.approx(bound, rel=1e-12)
    third = mean_sensitivity(second_moment_sensitivity(3.0), 10)
    assert third.value == pytest.approx(0.9 * bound)


# -- symmetric noise -----------------------------------------------------------------------------


def symmetric_coordinates(matrices):
    """Orthonormal coordinates of symmetric matrices, off-diagonal ones after the diagonal."""
    upper = np.triu_indices(matrices.shape[-1], 1)
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    return np.concatenate([diagonal, math.sqrt(2.0) * matrices[..., upper[0], upper[1]]], axis=-1)


@pytest.mark.parametrize("hollow", [False, True])
def test_symmetric_noise_is_isotropic_in_frobenius_norm(hollow, rng):
    mechanism = SymmetricGaussian(3, interval_sensitivity(0.2), noise_multiplier=2.0, hollow=hollow)
    matrix = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]])
    noisy = mechanism.release(matrix, rng, size=DRAWS)
    np.testing.assert_array_equal(noisy, np.swapaxes(noisy, -1, -2))
    coordinates = symmetric_coordinates(noisy - matrix)
    check_isotropic(coordinates[:, 3:] if hollow else coordinates, mechanism.sigma)
    if hollow:
        assert (coordinates[:, :3] == 0.0).all()
    assert mechanism.release(matrix, rng).shape == (3, 3)


# -- counts and quantiles ------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [GaussianCount(3.0), LaplaceCount(0.5)])
def test_counts_have_their_noise(mechanism, rng):
    noisy = mechanism.release(10, rng, size=DRAWS)
    check_isotropic(noisy - 10, mechanism.sigma)
    assert isinstance(mechanism.release(10, rng), float)


GRID = log_grid(1e-3, 1e3, 1.1)


@pytest.mark.parametrize(
    "mechanism", [PrivateQuantile(GRID, 0.9, 0.5), ExponentialQuantile(GRID, 0.9, 0.8)], ids=type
)
@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
def test_quantile_has_a_small_rank_error_at_any_scale(mechanism, scale, rng):
    values = scale * rng.lognormal(size=2000)
    found = mechanism.release(values, rng, size=500)
    assert np.isin(found, GRID).all()
    ranks = np.searchsorted(np.sort(values), found)
    # 25 ranks of noise, and the grid is coarse: a step of 1.1 is about 35 ranks here.
    assert np.abs(ranks - 1800).max() < 120
    assert abs(np.mean(ranks) - 1800) < 40
    assert isinstance(mechanism.release(values, rng), float)


@pytest.mark.parametrize(
    "mechanism", [PrivateQuantile(GRID, 0.9, 0.5), ExponentialQuantile(GRID, 0.9, 0.8)], ids=type
)
def test_quantile_depends_on_counts_only(mechanism):
    values = np.random.default_rng(0).lognormal(size=300)
    huge = values.copy()
    huge[np.argmax(values)] = 1e300
    a, b = (mechanism.release(x, np.random.default_rng(1), size=50) for x in (values, huge))
    counts = np.count_nonzero(values[:, None] <= np.asarray(GRID), axis=0)
    c = mechanism.release_counts(counts, 300, np.random.default_rng(1), size=50)
    np.testing.assert_array_equal(a, c)
    assert (a == b).mean() > 0.8  # they share noise, and one count near the top differs


def test_quantile_at_the_ends_of_the_grid(rng):
    quantile = PrivateQuantile((1.0, 2.0, 4.0), 0.5, 5.0)
    assert quantile.release(np.full(1000, 0.1), rng) == 1.0
    assert quantile.release(np.full(1000, 1.5), rng) == 2.0
    assert quantile.release(np.full(1000, 99.0), rng) == 4.0
    with mock.patch.object(noise, "draw", side_effect=AssertionError("nothing was asked")):
        assert PrivateQuantile((3.0,), 0.5, 1.0).release(np.ones(10), rng) == 3.0


def test_quantile_costs_what_it_says():
    quantile = PrivateQuantile(GRID, 0.9, 0.5)
    assert quantile.event.mu == pytest.approx(0.5, rel=1e-14)
    assert quantile.event.count == quantile.counts
    for grid in ((), (2.0, 1.0), (1.0, 1.0)):
        with pytest.raises(ValueError, match="grid"):
            PrivateQuantile(grid, 0.5, 1.0)


@pytest.mark.parametrize("level", [0.2, 0.5, 0.9])
def test_one_value_more_moves_a_centred_count_by_its_presence(level):
    """And nothing else: whoever is told the answer learns no number of values."""
    seen = []

    def tell(exact, *args, sensitivity, **kwargs):
        seen.append(Fraction(exact, sensitivity))
        return exact

    with mock.patch("skriemdp._mechanisms.counts.noise.draw", tell):
        for below, n in ((30, 100), (31, 101), (30, 101)):
            mechanism = GaussianCount(4.0, level, n)
            mechanism.release(below, None)
    added = max(abs(seen[i] - seen[0]) for i in (1, 2))  # at or below, and above
    assert added <= mechanism.presence <= added * (1 + 1e-15)
    assert seen[1] - seen[2] == 1  # another value
    assert PrivateQuantile(GRID, level, 0.5).presence == pytest.approx(max(level, 1 - level))


def test_exponential_quantile_never_exceeds_epsilon(rng):
    """Exact output probabilities of neighbouring counts, from the law of the Gumbel maximum."""
    epsilon = 1.3
    mechanism = ExponentialQuantile((1.0, 2.0, 3.0, 4.0), 0.5, epsilon)

    def frequencies(counts):
        found = mechanism.release_counts(np.asarray(counts), 6, rng, size=200_000)
        return np.array([(found == g).mean() for g in mechanism.grid])

    # One value moves from below 1 to above 3: three counts fall by one.
    p, q = frequencies([3, 3, 4, 6]), frequencies([2, 2, 3, 6])
    ratio = np.abs(np.log(p / q))
    error = 6.0 * np.sqrt((1 / p + 1 / q) / 200_000)
    assert (ratio <= epsilon + error).all()
    assert ratio.max() > 0.5 * epsilon


# -- audits --------------------------------------------------------------------------------------
# Each runs on neighbours that attain the sensitivity, with a bound that is wrong with probability
# 1e-6; it must come close to the claim, and must refute the claim when the noise is halved.

MU = gaussian_mu(8.0, 1e-5)
TRIALS = 2000


def vector_gaussian(nu, rng):
    direction, r = np.array([2.0, 1.0, -2.0]) / 3.0, 0.5
    mechanism = GaussianNoise(mean_sensitivity(ball_sensitivity(r), 10), nu)

    def release(sign, trials):
        return mechanism.release(sign * r / 10 * direction, rng, trials)

    return release, 1.0, -1.0


def symmetric(hollow):
    def make(nu, rng):
        n, d = 5, 4
        sensitivity = mean_sensitivity(second_moment_sensitivity(2.0), n)
        mechanism = SymmetricGaussian(d, sensitivity, nu, hollow)
        first, second = np.zeros((2, d))
        first[:2] = math.sqrt(2.0)
        second[:2] = math.sqrt(2.0), -math.sqrt(2.0)

        def release(row, trials):
            return symmetric_coordinates(mechanism.release(np.outer(row, row) / n, rng, trials))

        return release, first, second

    return make


def count(nu, rng):
    mechanism = GaussianCount(nu)
    return (lambda value, trials: mechanism.release(value, rng, trials)), 3, 4


def quantile(nu, rng):
    # Two grid values: the answer is the sign of one (pooled) count plus 2.81 standard deviations,
    # the preference for small answers; its two error rates give mu away.
    mechanism = PrivateQuantile((1.0, 2.0), (48.5 + 2.81 * nu) / 100.0, 1.0 / nu)
    data, neighbour = (np.repeat([0.5, 1.5], [low, 100 - low]) for low in (49, 48))
    return (lambda x, trials: mechanism.release(x, rng, trials)), data, neighbour


GAUSSIAN = {
    "vector": vector_gaussian,
    "second moment": symmetric(False),
    "hollow": symmetric(True),
    "count": count,
    "quantile": quantile,
}


@pytest.mark.parametrize("name", GAUSSIAN)
def test_audit_of_gaussian_mechanisms(name, rng):
    def bound(nu):
        release, data, neighbour = GAUSSIAN[name](nu, rng)
        return audit_epsilon(release, data, neighbour, trials=TRIALS, confidence=1 - 1e-6).mu

    assert 0.6 * MU < bound(1.0 / MU) <= MU
    assert bound(0.5 / MU) > MU


def laplace_count(law, rng):
    mechanism = LaplaceCount(law.epsilon(0.0))
    return (
        (lambda value, trials: mechanism.release(value, rng, trials)),
        3,
        4,
        lambda out: out[:, 0],
    )


def vector_laplace(law, rng):
    mechanism = LaplaceNoise(ball_sensitivity(0.5), law)
    direction = np.array([0.6, 0.8])

    def release(shift, trials):
        return mechanism.release(shift * direction, rng, trials)

    def loss(out):
        here, there = (np.linalg.norm(out - shift * direction, axis=1) for shift in (0.0, 1.0))
        return here - there

    return release, 0.0, 1.0, loss


@pytest.mark.parametrize("make", [vector_laplace, laplace_count])
def test_audit_of_laplace_noise(make, rng):
    dim, delta = (2, 1e-3) if make is vector_laplace else (1, 0.0)
    law = laplace_law(dim, 1.5, delta)

    def bound(law):
        release, data, neighbour, score = make(law, rng)
        return audit_epsilon(
            release,
            data,
            neighbour,
            trials=10_000,
            delta=delta,
            confidence=1 - 1e-6,
            statistic=score,
        ).epsilon

    assert 0.4 * 1.5 < bound(law) <= 1.5
    assert bound(LaplaceEvent(dim, 0.5 * law.scale_over_sensitivity)) > 1.5


def test_a_budget_lists_what_was_taken():
    """By name, in the order of the first releases; what is not paid from it comes last."""
    budget = GaussianBudget(0.5)
    budget.take(0.36, "mean", 3)
    budget.count(0.04)
    budget.take(0.1, "mean", 3)
    assert budget.releases == (
        Release("mean", pytest.approx(0.46), "gaussian", 3),
        Release("clipped fraction", 0.04, "gaussian", 1),
    )
    budget.rest("mean", 4)
    assert budget.releases[0] == Release("mean", pytest.approx(0.96), "gaussian", None)
    last = Release("law", 0.75, "laplace", 2)
    mean, count, end = budget.before(last)
    assert (mean.share, count.share, end) == (pytest.approx(0.24), pytest.approx(0.01), last)
    pure = PureBudget(0.5)
    pure.quantile(0.25, (1.0, 2.0), 0.5, "radius")
    pure.rest("mean", 3)
    assert [release.law for release in pure.releases] == ["exponential", "laplace"]


def test_mechanism_and_event_come_from_one_object():
    law = laplace_law(3, 1.0, 1e-5)
    assert LaplaceNoise(ball_sensitivity(1.0), law).event is law
    assert GaussianNoise(ball_sensitivity(1.0), 4.0).event.mu == 0.25
    assert GaussianCount(2.0).event.mu == 0.5
    assert LaplaceCount(0.25).event.epsilon_0 == 0.25
    assert SymmetricGaussian(2, interval_sensitivity(1.0), 4.0).event.mu == 0.25
    assert ExponentialQuantile((1.0, 2.0), 0.5, 0.7).event.epsilon_0 == 0.7


# -- parameters ------------------------------------------------------------------------------------

MECHANISMS = [
    GaussianCount(2.0),
    LaplaceCount(0.5),
    SymmetricGaussian(2, interval_sensitivity(0.2), 3.0),
    PureSymmetric(2, interval_sensitivity(0.2), 3.0),
    PureSumsAndCounts(2, 0.2, 3.0),
    GaussianNoise(ball_sensitivity(0.2), 3.0),
    PrivateQuantile((1.0, 2.0), 0.5, 1.0),
    ExponentialQuantile((1.0, 2.0), 0.5, 1.0),
    RiemannianGaussianMechanism(Sphere(2), ball_sensitivity(0.1), 0.5),
    RiemannianLaplaceMechanism(Hyperboloid(2), ball_sensitivity(0.05), 0.2),
    KNormGradientMechanism(Hyperboloid(2), ball_sensitivity(0.05), 0.2),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_every_number_of_a_mechanism_is_checked(mechanism):
    numbers = [
        field.name
        for field in dataclasses.fields(mechanism)
        if isinstance(getattr(mechanism, field.name), float)
    ]
    assert numbers
    for name in numbers:
        for bad in (0.0, -1.0, math.nan, math.inf, "1"):
            with pytest.raises((ValueError, TypeError), match=name):
                dataclasses.replace(mechanism, **{name: bad})


def test_laplace_noise_on_matrices_is_calibrated_to_pure_epsilon_only():
    for target in ({"epsilon": 1.0, "delta": 1e-5}, {"mu": 1.0}):
        with pytest.raises(ValueError, match="pass epsilon alone"):
            RiemannianLaplaceMechanism.calibrated(
                AffineInvariantSPD(3), ball_sensitivity(0.05), **target
            )


def test_the_preference_for_small_quantiles_is_six_nats_at_any_size():
    for size in (2, 3, 640):
        prior = _prior(size)
        assert prior[0] == 0.0 and prior[-1] == -6.0
        assert np.ptp(np.diff(prior)) < 1e-12
    assert _prior(1) == [0.0]


@pytest.mark.parametrize("epsilon", [0.25, 4.0])
def test_exponential_quantile_has_the_law_of_its_theorem(epsilon, rng):
    mechanism = ExponentialQuantile((1.0, 2.0), 0.5, epsilon)
    # Ranks 10 of 20 wanted; 4 values lie at or below 1: six ranks too few.
    found = mechanism.release_counts(np.array([4, 20]), 20, rng, size=100_000)
    odds = math.exp(-6.0 + 0.5 * epsilon * 6.0)
    share = odds / (1.0 + odds)
    error = 5.5 * math.sqrt(share * (1.0 - share) / 100_000)
    assert abs((found == 2.0).mean() - share) < error


def test_one_noisy_count_moves_a_private_quantile_by_its_own_noise():
    """Against the median of prior times likelihood: one answer, in units of its own noise."""

    class Once(PrivateQuantile):
        counts = 1

    mechanism = Once(log_grid(1.0, 2.0, 1.02), 0.5, 1.0)
    size = len(mechanism.grid)
    for seed in range(40):
        asked = []

        def count(at, asked=asked):
            asked.append(at)
            return 50

        streams = [NoiseGenerator(np.random.default_rng(seed).bit_generator) for _ in "ab"]
        found = mechanism._search_once(count, 100, streams[0])
        noise = GaussianCount(1.0).release(50, streams[1]) - 50.0
        here_or_below = np.arange(size) <= asked[0]
        likelihood = np.where(here_or_below, ndtr(noise), ndtr(-noise))
        below = np.cumsum(np.exp(_prior(size)) * likelihood)
        assert len(asked) == 1 and found == np.argmax(below >= 0.5 * below[-1])
