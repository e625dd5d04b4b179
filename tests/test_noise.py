"""Every law that ``noise.draw`` can draw, held by a test in which half of the noise shows.

The replays put a tape in the place of ``noise.draw``, so they say nothing of what it draws.
"""

import ast
import inspect
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, gamma, laplace, norm

import skriemdp
from skriemdp._mechanisms import noise
from skriemdp._mechanisms.noise import NOISE_SCALE
from skriemdp._mechanisms.pure_covariance import PureSymmetric
from skriemdp._mechanisms.pure_sums import PureSumsAndCounts
from skriemdp._random import NoiseStreams
from skriemdp.geometry import Euclidean, Hyperboloid
from skriemdp.privacy._sensitivity import ball_sensitivity, interval_sensitivity
from skriemdp.riemannian_laws._output import (
    GradientSum,
    KNormGradientMechanism,
    RiemannianGaussianMechanism,
    RiemannianLaplaceMechanism,
)

DRAWS, BINS = 20_000, 20
LEAST = 1e-8  # of a p-value: one false alarm in two million runs of the file
PACKAGE = Path(skriemdp.__file__).parent


def drawn(law, exact=0.0, scale=1.0, **facts):
    """``draw(factor)``: noise alone, `factor` times as large, in units of `scale`."""
    base = np.zeros(3) if law == "gaussian" else exact

    def draw(factor, rng):
        used = scale * factor if isinstance(scale, float) else round(scale * factor)
        noisy = noise.draw(base, used, law, rng, DRAWS, sensitivity=1.0, **facts)
        return np.asarray(noisy - base).astype(float) / scale

    return draw


def released(release):
    """The same of ``release(rng)``, which gives noise alone."""
    return lambda factor, rng: factor * release(rng)


def lengths(vectors):
    return np.linalg.norm(vectors, axis=-1)


def normal(spread=1.0):
    """Uniform numbers of vectors whose entries are independent and Gaussian."""
    return lambda x: [norm.cdf(x[:, 0] / spread), chi2.cdf((x**2).sum(axis=1) / spread**2, 3)]


def radial(dim):
    """Of lengths, which have a Gamma law; in three dimensions of directions, too."""

    def numbers(x):
        return [gamma.cdf(lengths(x), dim)] + (
            [0.5 + 0.5 * x[:, 0] / lengths(x)] if dim == 3 else []
        )

    return numbers


def symmetric(x):
    assert (x == np.swapaxes(x, 1, 2)).all()
    return [norm.cdf(x[:, 0, 0]), norm.cdf(x[:, 1, 1]), norm.cdf(x[:, 0, 1] * np.sqrt(2.0))]


INTEGERS = np.zeros(3, dtype=np.int64)
SCORES = np.array([0.0, 1.0, 2.5])
GRAM = np.diag([3.0, 0.0])
PLANE, SPACE = Euclidean(2), Hyperboloid(2)
NUMBER, BALL = interval_sensitivity(1.0), ball_sensitivity(0.5)


def one_count(rng):
    """Counts of a search, drawn one by one."""
    ask = {"sensitivity": 2**40, "rng": rng}
    return np.array(
        [noise.draw(0, NOISE_SCALE, "discrete-gaussian", **ask) for _ in range(DRAWS)], float
    )[:, None].repeat(3, axis=1)


def pure_sums(rng):
    mechanism = PureSumsAndCounts(dim=2, bound=0.5, epsilon=1.0)
    sums, counts = mechanism.release((np.zeros((1, 2)), np.zeros(1)), rng, DRAWS)
    # The longer of the two, in units of the scale, is the radius of the norm in three dimensions.
    return np.maximum(lengths(sums[:, 0]) / 0.5, np.abs(counts[:, 0]))[:, None] / mechanism.scale


def pure_symmetric(size, epsilon):
    mechanism = PureSymmetric(size, NUMBER, epsilon)
    entry = mechanism.entry_scale

    def release(rng):
        return mechanism.release(np.zeros((size, size)), rng, DRAWS)[:, 0, -1:] / entry

    return released(release)


def k_norm(rng):
    """Of one record at zero: the norm of the gradient is the distance."""
    mechanism = KNormGradientMechanism(PLANE, BALL, 2.0)
    return mechanism.release(GradientSum(lengths, 1, np.zeros(2)), rng, DRAWS) / 2.0


def of_the_plane(mechanism):
    return released(lambda rng: mechanism.release(np.zeros(2), rng, DRAWS))


def hyperbolic(rng):
    mechanism = RiemannianLaplaceMechanism(SPACE, BALL, 0.4)
    points = mechanism.release(SPACE.base_point, rng, DRAWS)
    return np.asarray(SPACE.dist(SPACE.base_point, points))[:, None]


def hyperbolic_lengths(x, scale=0.4):
    """The density of a distance is ``sinh(r) exp(-r / scale)``."""
    a, b = 1.0 / scale - 1.0, 1.0 / scale + 1.0
    rest = (np.exp(-a * x) / a - np.exp(-b * x) / b) / (1.0 / a - 1.0 / b)
    return [1.0 - rest[:, 0]]


# Law to how it is drawn, and to numbers of the draws that are uniform on [0, 1].
LAWS = {
    "gaussian": (drawn("gaussian"), normal()),
    "gaussian, averaged": (drawn("gaussian", averaged=4), normal(0.5)),
    "symmetric": (drawn("symmetric", np.zeros((2, 2)), 2.0), symmetric),
    "laplace": (drawn("laplace", np.zeros(1), 3.0), lambda x: [laplace.cdf(x[:, 0])]),
    "radial": (drawn("radial", np.zeros(3), 2.0), radial(3)),
    "discrete-gaussian": (drawn("discrete-gaussian", INTEGERS, NOISE_SCALE), normal()),
    "discrete-gaussian, objects": (
        drawn("discrete-gaussian", INTEGERS.astype(object), NOISE_SCALE),
        normal(),
    ),
    "discrete-gaussian, 2^34": (drawn("discrete-gaussian", INTEGERS, 2**34), normal()),
    "discrete-gaussian, averaged": (
        drawn("discrete-gaussian", INTEGERS, NOISE_SCALE, averaged=4),
        normal(0.5),
    ),
    "discrete-gaussian, one by one": (
        released(lambda rng: one_count(rng) / NOISE_SCALE),
        lambda x: [norm.cdf(x[:, 0])],
    ),
    "pure sums": (released(pure_sums), lambda x: [gamma.cdf(x[:, 0], 3)]),
    "pure symmetric": (pure_symmetric(1, 1.0), lambda x: [laplace.cdf(x[:, 0] * np.sqrt(2.0))]),
    "k-norm": (released(k_norm), radial(2)),
    "riemannian-gaussian": (
        of_the_plane(RiemannianGaussianMechanism(PLANE, BALL, 1.0)),
        lambda x: [norm.cdf(x[:, 0]), chi2.cdf((x**2).sum(axis=1), 2)],
    ),
    "riemannian-laplace": (of_the_plane(RiemannianLaplaceMechanism(PLANE, BALL, 1.0)), radial(2)),
    "riemannian-laplace, curved": (released(hyperbolic), hyperbolic_lengths),
    # ``exp(x'Ax)``: the doubled angle has the law of von Mises.
}


def p_value(numbers):
    """Of the chi-square test that numbers are uniform on [0, 1]."""
    seen = np.histogram(numbers, BINS, (0.0, 1.0))[0]
    expected = len(numbers) / BINS
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), BINS - 1))


def least_p_value(law, factor):
    draw, uniform = LAWS[law]
    rng = NoiseStreams(0)(law)
    return min(map(p_value, uniform(draw(factor, rng))))


# What takes longest; a quick run holds its draws, one by one and by themselves.
LONG = ("discrete-gaussian, averaged",)


@pytest.mark.parametrize(
    "law", [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in LAWS]
)
def test_noise_has_its_law_and_half_of_it_has_not(law):
    assert least_p_value(law, 1.0) > LEAST
    assert least_p_value(law, 0.5) < LEAST


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_an_index_has_its_law(scale):
    rng = NoiseStreams(0)("index")
    chosen = noise.draw(SCORES, scale, "exponential", rng, DRAWS, sensitivity=1.0)
    expected = np.exp(SCORES) / np.exp(SCORES).sum() * DRAWS
    p = chi2.sf(((np.bincount(chosen, minlength=3) - expected) ** 2 / expected).sum(), 2)
    assert (p > LEAST) == (scale == 1.0)


@pytest.mark.parametrize(("size", "epsilon"), [(3, 1.0), (3, 1e-8)])
def test_symmetric_pure_noise_has_its_variance(size, epsilon):
    """Entries off the diagonal; tables of eigenvalues, and the law beyond them."""
    draws = pure_symmetric(size, epsilon)
    for factor, right in ((1.0, True), (0.5, False)):
        squares = draws(factor, NoiseStreams(0)("symmetric", factor))[:, 0] ** 2
        error = (squares.mean() - 1.0) / (squares.std() / np.sqrt(DRAWS))
        assert (abs(error) < 6.0) == right


def test_averages_are_those_of_so_many_draws():
    """Of integers they are fractions, with the variance of an average."""
    rng = NoiseStreams(0)("fractions")
    ask = {"sensitivity": 2**40, "averaged": 3}
    found = noise.draw(INTEGERS, NOISE_SCALE, "discrete-gaussian", rng, **ask)
    assert all(isinstance(x, Fraction) and x.denominator in (1, 3) for x in found)


def test_integers_near_the_ends_of_64_bits_do_not_overflow():
    top = 2**63 - 1
    rng = NoiseStreams(0)("overflow")
    found = noise.draw(np.full(99, top), NOISE_SCALE, "discrete-gaussian", rng, sensitivity=1)
    assert all(0 < abs(x - top) < 64 * NOISE_SCALE for x in found.tolist())


def test_no_law_is_left_out():
    """Laws that the source names, and calls that bring a sampler of their own."""
    tree = ast.parse(inspect.getsource(noise._noisy))
    named = {
        node.comparators[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and ast.unparse(node.left) == "law"
        and isinstance(node.comparators[0], ast.Constant)
    }
    assert named - {"exponential"} <= {name.split(",")[0] for name in LAWS}
    own = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "noise.draw":
                if any(word.arg == "sampler" for word in node.keywords):
                    own[path.name] = own.get(path.name, 0) + 1
    assert own == {"pure_covariance.py": 1, "pure_sums.py": 1, "_output.py": 1}


@pytest.mark.parametrize("shares", [1, 2, 19, 99])
def test_shares_add_up_to_one_draw(shares):
    """False alarm: 1e-6 for each number; a share too many or too few of nineteen shows."""
    exact, count = np.arange(-20_000, 20_000), 40_000
    draws = [
        noise.draw(exact, NOISE_SCALE, "discrete-gaussian", rng, sensitivity=1, shares=shares)
        for rng in (NoiseStreams()("share") for _ in range(shares))
    ]
    assert {draw.dtype for draw in draws} == {np.dtype(np.int64)}
    total = (np.sum(draws, axis=0) - shares * exact) / NOISE_SCALE
    low, high = chi2.ppf([5e-7, 1.0 - 5e-7], count) / count
    assert low < np.mean(total**2) < high
