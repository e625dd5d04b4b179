"""Noise for pure privacy: laws against independent computations, sensitivities, audits.

Statistical tests allow deviations of 5.5 standard errors: a false alarm below 1e-6 per test.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from skriemdp import PrivateMinimumDistanceToMean, PrivatePrincipalEigenvector
from skriemdp._mechanisms import pure_covariance, pure_spectrum
from skriemdp._mechanisms.pure_covariance import PureSymmetric
from skriemdp._mechanisms.pure_spectrum import eigenvalue_law
from skriemdp._mechanisms.pure_sums import PureSumsAndCounts
from skriemdp.auditing import audit_epsilon
from skriemdp.privacy._calibration import gaussian_mu
from skriemdp.privacy._events import PureEvent
from skriemdp.privacy._sensitivity import (
    grouped_sum_sensitivity,
    interval_sensitivity,
    trace_part_sensitivity,
)


def trace_part(values):
    """max(tr N+, tr N-) from eigenvalues along the last axis."""
    return np.maximum(np.maximum(values, 0).sum(-1), np.maximum(-values, 0).sum(-1))


def assert_means(samples, expected, bias=0.0):
    """Means over the first axis, within 5.5 standard errors and a stated relative bias."""
    samples = np.asarray(samples)
    error = 5.5 * samples.std(axis=0) / math.sqrt(len(samples)) + bias * np.abs(expected)
    np.testing.assert_array_less(np.abs(samples.mean(axis=0) - expected), error)


# -- the tables of the walk ----------------------------------------------------------------------


def test_masses_by_hand():
    masses = eigenvalue_law(3).masses
    # Sets {}, {0}, {1}, {0,1}, {2}, {0,2}, {1,2}; a single x^k / k! integrates to one.
    np.testing.assert_allclose(masses[:7], [1, 1, 1, 1 / 2, 1, 3 / 4, 3 / 8], rtol=1e-15)


def test_masses_of_whole_vandermonde_determinants_are_selbergs():
    masses = eigenvalue_law(pure_spectrum.LARGEST_SIZE).masses
    for p in range(1, pure_spectrum.LARGEST_SIZE + 1):
        j = np.arange(p)
        laguerre = np.sum(gammaln(1 + j / 2) + gammaln((3 + j) / 2) - gammaln(1.5))
        expected = laguerre - gammaln(p + 1) - np.sum(gammaln(j + 1))
        assert math.log(masses[2**p - 1]) == pytest.approx(expected, rel=1e-12)


def test_no_move_of_the_walk_is_rare():
    """The bound on rounding needs probabilities of at least 2 / (d (d - 1))."""
    for d in (5, pure_spectrum.LARGEST_SIZE):
        masses, sets = eigenvalue_law(d).masses, np.arange(1, 1 << d)
        smallest = np.full(len(sets), np.inf)
        for bit, step in enumerate(pure_spectrum._steps(d)):
            free = sets & 1 == 1 if bit == 0 else sets >> (bit - 1) & 3 == 2
            smallest[free] = np.minimum(smallest[free], masses[sets[free] - step])
        numbers = sum(sets >> k & 1 for k in range(d))
        least = (smallest / (numbers * masses[1:])).min()
        assert least == pytest.approx(2 / (d * (d - 1)), rel=1e-9)


def test_masses_are_integrals_of_determinants(rng):
    """Two and three points, exponents out of 0..5, against products of increasing Gamma draws."""
    masses = eigenvalue_law(6).masses
    for exponents in [(0, 3), (2, 4), (1, 2, 5)]:
        # Uniform order statistics of exponential draws are the chamber, p! times too heavy.
        x = np.sort(rng.standard_exponential((400_000, len(exponents))), axis=1)
        powers = [x**k / math.factorial(k) for k in exponents]
        determinants = np.linalg.det(np.stack(powers, axis=-1))
        mask = sum(1 << k for k in exponents)
        assert_means(determinants / math.factorial(len(exponents)), masses[mask])


# -- eigenvalues ---------------------------------------------------------------------------------


def grid_law(d, step, end=24.0):
    """Density of the eigenvalues on the midpoints of a grid: points and weights, by summation."""
    line = np.arange(-end + step / 2, end, step)
    points = np.stack(np.meshgrid(*[line] * d, indexing="ij"), axis=-1).reshape(-1, d)
    weights = np.exp(-trace_part(points))
    for i, j in itertools.combinations(range(d), 2):
        weights *= np.abs(points[:, i] - points[:, j])
    return points, weights / weights.sum()


@pytest.mark.parametrize("d", [2, 3])
def test_eigenvalues_have_the_law_of_a_quadrature(d, rng):
    points, weights = grid_law(d, step=0.05 if d == 2 else 0.32)
    values = eigenvalue_law(d).sample(rng, 100_000)
    for statistic in (
        lambda x: x.max(-1),
        lambda x: x.max(-1) ** 2,
        lambda x: trace_part(x),
        lambda x: x.sum(-1) ** 2,
        lambda x: np.abs(x).sum(-1),
        lambda x: np.prod(x, axis=-1),
        lambda x: ((x > 0).sum(-1) == d).astype(float),
        lambda x: ((x > 0).sum(-1) == 1).astype(float),
    ):
        # The grid's own error is about (step / 3)^2 / 12.
        assert_means(statistic(values), weights @ statistic(points), bias=3e-3)
    largest = points.max(-1)
    # Between the grid's points, where its sums are integrals over whole cells.
    edges = (np.unique(largest)[:-1] + np.unique(largest)[1:]) / 2
    order = np.argsort(largest)
    below = np.concatenate([[0.0], np.cumsum(weights[order])])
    exact = below[np.searchsorted(largest[order], edges)]
    empirical = np.searchsorted(np.sort(values.max(-1)), edges) / len(values)
    # Dvoretzky, Kiefer and Wolfowitz: above this with probability 1e-7; and the grid's error.
    assert np.abs(empirical - exact).max() < math.sqrt(math.log(2e7) / (2 * len(values))) + 3e-3


@pytest.mark.slow
def test_eigenvalues_have_the_law_of_a_long_markov_chain():
    """d = 10; means over independent chains, started far out, so that their errors are known.

    Eight statistics within 5.5 standard errors: a false alarm below 4e-7.
    """
    d, chains, sweeps, burn = 10, 300, 1800, 600
    rng = np.random.default_rng(11)

    def statistics(x):
        x = np.sort(x, axis=-1)
        columns = [x[..., -1], x[..., 0] ** 2, trace_part(x), x.sum(-1) ** 2, (x**2).sum(-1)]
        columns += [(x > 0).sum(-1) ** 2.0, np.abs(x).min(-1), np.diff(x).min(-1)]
        return np.stack(columns, axis=-1)

    def log_density(x):
        gaps = np.abs(x[:, :, None] - x[:, None, :])[:, *np.triu_indices(d, 1)]
        return np.log(np.maximum(gaps, 1e-300)).sum(-1) - trace_part(x)

    x = rng.normal(scale=8.0, size=(chains, d)) * rng.uniform(0.3, 3.0, size=(chains, 1))
    height, total = log_density(x), 0.0
    for sweep in range(sweeps):
        for site in range(d + 1):
            proposal = x.copy()
            if site < d:
                proposal[:, site] += 2.0 * rng.standard_normal(chains)
                extra = 0.0
            else:
                factor = np.exp(0.15 * rng.standard_normal(chains))
                proposal *= factor[:, None]
                extra = d * np.log(factor)
            new = log_density(proposal)
            accept = np.log(rng.random(chains)) < new - height + extra
            x[accept], height[accept] = proposal[accept], new[accept]
        if sweep >= burn:
            total = total + statistics(x)
    chain = total / (sweeps - burn)
    exact = statistics(eigenvalue_law(d).sample(rng, 40_000))
    error = np.hypot(chain.std(axis=0) / chains**0.5, exact.std(axis=0) / len(exact) ** 0.5)
    z = (chain.mean(axis=0) - exact.mean(axis=0)) / error
    assert np.abs(z).max() < 5.5, z
    # So the comparison shows differences of 2 %.
    assert (error / np.abs(exact.mean(axis=0)))[[0, 2, 4]].max() < 0.004


@pytest.mark.parametrize("d", [1, 2, 5, 12])
def test_the_norm_of_the_noise_has_a_gamma_law(d, rng):
    values = eigenvalue_law(d).sample(rng, 20_000)
    assert values.shape == (20_000, d) and (values != 0).all()
    law = stats.gamma(d * (d + 1) / 2)
    assert stats.kstest(trace_part(values), law.cdf).pvalue > 1e-7


def test_sizes_beyond_the_tables_are_refused():
    with pytest.raises(ValueError, match="size must be at most 20"):
        eigenvalue_law(21)


# -- symmetric noise -----------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 4, 10, 25])
def test_entries_have_the_stated_variance_in_every_frame(d, rng):
    mechanism = PureSymmetric(d, sensitivity=interval_sensitivity(0.5), epsilon=2.0)
    noise = mechanism.release(np.zeros((d, d)), rng, 20_000 if d < 20 else 4000)
    assert (noise == np.swapaxes(noise, -1, -2)).all()
    if d == 1:
        assert_means(np.abs(noise[:, 0, 0]), 0.25)
        assert_means(noise[:, 0, 0] ** 2, mechanism.entry_scale**2)
        return
    frame = np.linalg.qr(rng.standard_normal((d, 2)))[0]
    for u, v in (np.eye(d)[:2], frame.T):
        entry = np.einsum("i,sij,j->s", u, noise, v)
        assert_means(entry**2, mechanism.entry_scale**2)
        assert_means(entry, 0.0)


def test_scales_in_numbers(rng):
    """Not from the mechanism's own statement, so that a wrong scale shows."""
    # The norm of the noise has mean d (d + 1) / 2 times sensitivity over epsilon.
    mechanism = PureSymmetric(6, sensitivity=interval_sensitivity(0.1), epsilon=0.5)
    noise = mechanism.release(np.zeros((6, 6)), rng, 20_000)
    assert_means(trace_part(np.linalg.eigvalsh(noise)), 21 * 0.2)
    # Wishart matrices of 23 degrees of freedom, each with trace of mean 22 * 23 / 0.5 * 0.1.
    noise = PureSymmetric(22, sensitivity=interval_sensitivity(0.1), epsilon=0.5).release(
        np.zeros((22, 22)), rng, 4000
    )
    assert_means(noise[:, 0, 1] ** 2, 2 * 23 * 0.2**2)
    assert_means(noise[:, 0, 0] ** 2, 4 * 23 * 0.2**2)
    mechanism = PureSumsAndCounts(3, bound=0.5, epsilon=0.25)
    sums, counts = mechanism.release((np.zeros((1, 3)), np.zeros(1)), rng, 50_000)
    norm = np.maximum(np.linalg.norm(sums[:, 0], axis=1) / 0.5, np.abs(counts[:, 0]))
    assert_means(norm, 4 * 2 / 0.25)


def test_pure_noise_is_at_most_two_and_a_half_times_gaussian_noise():
    """Variance of the entries off the diagonal, epsilon = 1, delta = 1e-5."""
    gaussian = 1.0 / gaussian_mu(1.0, 1e-5) ** 2
    ratios = [
        PureSymmetric(d, interval_sensitivity(1.0), 1.0).entry_scale ** 2 / gaussian
        for d in (2, 10, 20)
    ]
    assert ratios == pytest.approx([0.2386, 1.2866, 2.4883], abs=1e-4)
    # Noise of density exp(-epsilon |N|_F / sensitivity), d (d + 1) / 2 + 1 in these units.
    for d in (2, 3, 5, 10, 20, 21):
        assert (
            PureSymmetric(d, interval_sensitivity(1.0), 1.0).entry_scale ** 2 < d * (d + 1) / 2 + 1
        )


def test_a_tiny_epsilon_needs_no_tables(rng):
    assert PureSymmetric(3, interval_sensitivity(1.0), 2e-6).scale == pytest.approx(
        5e5 * (1 + 5e-4), rel=1e-9
    )
    mechanism = PureSymmetric(3, interval_sensitivity(1.0), 5e-7)
    assert mechanism.scale == pytest.approx(2e6, rel=1e-12)
    noise = mechanism.release(np.zeros((3, 3)), rng, 4000)
    assert_means(noise[:, 0, 1] ** 2, 8 * 2e6**2)


def test_second_moments_move_by_their_sensitivity(rng):
    """In the norm of the noise, and one-sidedly: what the two laws need."""
    row_norm, n = 1.7, 9
    bound = trace_part_sensitivity(row_norm, n).value
    rows = rng.standard_normal((2, 20_000, 4))
    rows *= row_norm * rng.random((2, 20_000, 1)) ** 0.2 / np.linalg.norm(rows, axis=-1)[..., None]
    z, y = rows
    change = (z[:, :, None] * z[:, None] - y[:, :, None] * y[:, None]) / n
    assert trace_part(np.linalg.eigvalsh(change)).max() <= bound
    z, y = row_norm * np.eye(4)[:2]
    attained = trace_part(np.linalg.eigvalsh(np.outer(z, z) - np.outer(y, y))) / n
    assert attained == pytest.approx(bound, rel=1e-12) and attained <= bound


def test_group_sums_move_by_their_sensitivity(rng):
    bound = 0.6
    ball = rng.standard_normal((2, 20_000, 3))
    ball *= bound * rng.random((2, 20_000, 1)) ** 0.2 / np.linalg.norm(ball, axis=-1)[..., None]
    same = np.linalg.norm(ball[0] - ball[1], axis=1) / bound
    lengths = np.linalg.norm(ball, axis=-1) / bound
    across = np.maximum(lengths, 1.0).sum(axis=0)
    assert max(same.max(), across.max()) <= grouped_sum_sensitivity().value < 2.0 * (1.0 + 1e-12)
    assert across.min() == 2.0


# -- audits: as shipped, and with halved noise -----------------------------------------------------


def matrix_sides(d):
    """A record on the first axis or on the second, the others zero; and the likelihood ratio."""
    sides = np.eye(d)[:2, :, None] * np.eye(d)[:2, None, :]

    def loss(out):
        out = out.reshape(-1, d, d)
        here, there = (trace_part(np.linalg.eigvalsh(out - side)) for side in sides)
        return here - there

    return (*sides, loss)


def symmetric(d):
    mechanism = PureSymmetric(d, trace_part_sensitivity(1.0, 1), 4.0)
    first, second, loss = matrix_sides(d)
    rng = np.random.default_rng(3)
    return lambda value, trials: mechanism.release(value, rng, trials), first, second, loss


def wishart(monkeypatch):
    monkeypatch.setattr(pure_covariance, "LARGEST_SIZE", 0)
    return symmetric(2)


def grouped(monkeypatch):
    mechanism = PureSumsAndCounts(1, 1.0, 4.0)
    rng = np.random.default_rng(3)

    def release(group, trials):
        sums, counts = np.zeros((2, 1)), np.zeros(2)
        sums[group], counts[group] = (1.0, -1.0)[group], 1.0
        sums, counts = mechanism.release((sums, counts), rng, trials)
        return np.concatenate([sums[..., 0], counts], axis=1)

    def loss(out):
        noise = []
        for group in (0, 1):
            rest = out.copy()
            rest[:, group] -= (1.0, -1.0)[group]
            rest[:, 2 + group] -= 1.0
            noise.append(np.maximum(np.abs(rest[:, :2]), np.abs(rest[:, 2:])).sum(axis=1))
        return noise[0] - noise[1]

    return release, 0, 1, loss


PATHS = {
    "eigenvalues, d = 2": lambda monkeypatch: symmetric(2),
    "eigenvalues, d = 4": lambda monkeypatch: symmetric(4),
    "Wishart difference": wishart,
    "sums and counts": grouped,
}


@pytest.mark.parametrize("halved", [False, True], ids=["as shipped", "halved noise"])
@pytest.mark.parametrize("path", PATHS)
def test_audit_at_epsilon_four(path, halved, monkeypatch):
    """False alarm below 1e-6."""
    release, first, second, loss = PATHS[path](monkeypatch)
    if halved:
        for mechanism in (PureSymmetric, PureSumsAndCounts):
            scale = mechanism.scale.fget
            half = property(lambda self, scale=scale: scale(self) / 2)
            monkeypatch.setattr(mechanism, "scale", half)
    audit = audit_epsilon(
        release, first, second, trials=20_000, confidence=1 - 1e-7, statistic=loss
    )
    assert (audit.epsilon > 4.0) == halved
    assert audit.epsilon > 2.0


# -- estimators ----------------------------------------------------------------------------------


def rows(n=3000, d=6):
    scale = np.array([3.0, 2.0, *[0.5] * (d - 2)])
    return np.random.default_rng(0).standard_normal((n, d)) * scale


@pytest.mark.parametrize("d", [6, 24])
def test_pure_components_with_a_spectrum(d):
    X = rows(20_000, d)
    model = PrivatePrincipalEigenvector(
        2, row_norm=15.0, center="assume", epsilon=3.0, delta=0, random_state=0
    ).fit(X)
    assert (model.mechanism_, model.privacy_spent_.planned_event) == ("covariance", PureEvent(3.0))
    assert model.privacy_spent_.planned_delta == 0.0
    exact = np.linalg.eigvalsh(X.T @ X / len(X))[::-1]
    assert np.abs(model.components_[[0, 1], [0, 1]]).min() > 0.99
    # Noise alone has eigenvalues up to 2.45 sqrt(d) times the scale of its entries.
    reach = 2.6 * math.sqrt(d) * model.spectrum_noise_scale_
    assert np.abs(model.spectrum_ - exact).max() < reach < 0.1 * exact[0]


def test_a_component_of_noise_is_told():
    X = np.random.default_rng(0).standard_normal((300, 8))
    model = PrivatePrincipalEigenvector(row_norm=6.0, delta=0, epsilon=0.5, random_state=0)
    with pytest.warns(UserWarning, match="close to a random direction"):
        model.fit(X)


@pytest.mark.filterwarnings("ignore:the largest released eigenvalue")
@pytest.mark.parametrize("mechanism", ["gradient", "power", "refine"])
def test_what_needs_gaussian_noise_refuses_pure_privacy(mechanism, recording_accountant):
    model = PrivatePrincipalEigenvector(
        mechanism=mechanism, delta=0, accountant=recording_accountant
    )
    with pytest.raises(ValueError, match="use mechanism='covariance', or delta > 0"):
        model.fit(rows())
    assert recording_accountant.spends == []
    assert model.set_params(mechanism="covariance").fit(rows()).privacy_spent_.delta == 0.0


def test_pure_class_means():
    rng = np.random.default_rng(1)
    y = rng.integers(4, size=4000)
    X = 0.2 * rng.standard_normal((4000, 3)) + 0.5 * np.eye(4, 3)[y]
    model = PrivateMinimumDistanceToMean(radius=1.0, classes=range(4), delta=0).fit(X, y)
    assert model.privacy_spent_.event == PureEvent(1.0)
    assert tuple(model.privacy_spent_) == (1.0, 0.0)
    assert np.abs(model.means_ - 0.5 * np.eye(4, 3)).max() < 10 * model.noise_scale_ < 0.1
    assert np.abs(model.class_counts_ - np.bincount(y)).max() < 60
    assert model.score(X, y) > 0.7
