"""Exact samplers: radius, direction, moments, thresholds; and the mechanisms that draw from them.

Seeds are fixed.  Every Kolmogorov-Smirnov test rejects a right sampler with probability 1e-6 or
less over seeds, every z-test with 1e-6 (5 standard errors).
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from skriemdp.auditing import audit_scores
from skriemdp.geometry import SPD, Euclidean, GeodesicBall, Hyperboloid, Poincare, Sphere
from skriemdp.geometry._circle import Circle
from skriemdp.privacy._sensitivity import ball_logarithms_sensitivity, iterated_mean_sensitivity
from skriemdp.riemannian_laws._distributions import RiemannianGaussian, RiemannianLaplace
from skriemdp.riemannian_laws._distributions_matrix import volume_growth
from skriemdp.riemannian_laws._k_norm_ball import _least_gradients as least_gradients
from skriemdp.riemannian_laws._k_norm_ball import expected_proposals
from skriemdp.riemannian_laws._output import (
    GradientSum,
    KNormGradientMechanism,
    RiemannianGaussianMechanism,
    RiemannianLaplaceMechanism,
    sample_k_norm_gradient,
)
from skriemdp.riemannian_laws._profiles import InfeasibleTarget

LEAST = 1e-6


def moves(distance):
    """Sensitivity of a point that moves by this distance at most."""
    return iterated_mean_sensitivity(distance, stretch=1.0)


LAWS = [
    RiemannianGaussian(Sphere(1), 2.0),
    RiemannianGaussian(Sphere(2), 0.5),
    RiemannianGaussian(Sphere(2, radius=3.0), 4.0),
    RiemannianGaussian(Sphere(50), 1.0),
    RiemannianGaussian(Circle(24.0), 5.0),
    RiemannianGaussian(Euclidean(2, 2), 0.7),
    RiemannianGaussian(Hyperboloid(2), 1.0),
    RiemannianGaussian(Hyperboloid(5, -2.0), 0.6),
    RiemannianGaussian(Poincare(3), 0.8),
    RiemannianLaplace(Sphere(2), 0.3),
    RiemannianLaplace(Sphere(5), 2.0),
    RiemannianLaplace(Euclidean(3), 0.5),
    RiemannianLaplace(Hyperboloid(2), 0.9),
    RiemannianLaplace(Hyperboloid(3, -0.5), 0.5),
]


def radial_density(law):
    """Density of the distance, unnormalised, straight from the definition."""
    form = law.geometry.symmetric_space
    root = math.sqrt(abs(form.curvature))
    volume = {
        "sphere": lambda r: math.sin(root * r),
        "euclidean": lambda r: r,
        "hyperbolic": lambda r: math.sinh(root * r),
    }[form.name]
    if isinstance(law, RiemannianLaplace):
        return lambda r: math.exp(-r / law.scale) * volume(r) ** (form.dim - 1)
    return lambda r: math.exp(-0.5 * (r / law.sigma) ** 2) * volume(r) ** (form.dim - 1)


def radial_cdf(law):
    density = radial_density(law)
    form = law.geometry.symmetric_space
    if form.name == "sphere":
        top = math.pi / math.sqrt(form.curvature)
    else:
        top = 4.0 * law.distance_quantile(1 - 1e-9)
    grid = np.linspace(0.0, min(top, 2.0 * law.distance_quantile(1 - 1e-9)), 400)
    pieces = [integrate.quad(density, a, b)[0] for a, b in zip(grid[:-1], grid[1:], strict=True)]
    total = np.concatenate([[0.0], np.cumsum(pieces)])
    return lambda r: np.interp(r, grid, total / total[-1])


def generic_point(geometry, seed=0):
    rng = np.random.default_rng(seed)
    return geometry.exp_coordinates(geometry.base_point, 0.6 * rng.standard_normal(geometry.dim))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_radius_and_direction(law):
    geometry, center = law.geometry, generic_point(law.geometry)
    points = law.sample(center, 20_000, np.random.default_rng(1))
    assert geometry.belongs(points).all()
    distance = np.asarray(geometry.dist(center, points))
    # The distribution function is interpolated on 400 points: good to 1e-4, KS sees 1e-2.
    assert stats.kstest(distance, radial_cdf(law)).pvalue > LEAST
    if geometry.dim == 1:
        return
    coordinates = np.asarray(geometry.log_coordinates(center, points))
    cosine = coordinates[:, 0] / np.linalg.norm(coordinates, axis=-1)
    half = 0.5 * (geometry.dim - 1)
    assert stats.kstest(0.5 * (1.0 + cosine), stats.beta(half, half).cdf).pvalue > LEAST
    assert abs(np.corrcoef(distance, cosine)[0, 1]) < 5.0 / math.sqrt(len(distance))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_moments_and_table(law):
    density, top = radial_density(law), None
    form = law.geometry.symmetric_space
    top = math.pi / math.sqrt(form.curvature) if form.name == "sphere" else None
    top = top or 1.5 * law.distance_quantile(1.0 - 1e-13)
    middle = law.expected_distance()
    moments = [
        integrate.quad(
            lambda r, k=k: r**k * density(r), 0, top, points=[middle], epsabs=0, limit=400
        )[0]
        for k in range(3)
    ]
    assert_allclose(law.expected_distance(), moments[1] / moments[0], rtol=1e-8)
    assert_allclose(law.mean_squared_distance(), moments[2] / moments[0], rtol=1e-8)
    table = law._table
    u = np.concatenate([np.random.default_rng(0).random(500), [1e-10, 1.0 - 1e-10]])
    assert_allclose(table.cdf(table.ppf(u)), u, atol=1e-13)
    exact = [
        integrate.quad(density, 0, r, epsabs=0, limit=400)[0] / moments[0] for r in table.ppf(u[:5])
    ]
    assert_allclose(exact, u[:5], rtol=1e-9)


@pytest.mark.parametrize("law", [LAWS[1], LAWS[6], LAWS[11], LAWS[13]], ids=str)
def test_log_density_integrates_to_one(law):
    """Importance weights of another exact law average to one."""
    geometry, center = law.geometry, generic_point(law.geometry)
    wider = dict(geometry=geometry, sigma=0.9) if geometry.dim == 2 else None
    proposal = RiemannianGaussian(**wider) if wider else RiemannianGaussian(geometry, 1.6)
    points = proposal.sample(center, 40_000, np.random.default_rng(2))
    weights = np.exp(law.log_density(center, points) - proposal.log_density(center, points))
    assert abs(weights.mean() - 1.0) < 5.0 * weights.std() / math.sqrt(len(weights))
    assert weights.std() < 20.0


def test_gaussian_log_density_in_flat_space():
    law = RiemannianGaussian(Euclidean(3), 0.7)
    points = np.random.default_rng(0).standard_normal((5, 3))
    expected = stats.multivariate_normal(np.zeros(3), 0.49 * np.eye(3)).logpdf(points)
    assert_allclose(law.log_density(np.zeros(3), points), expected, rtol=1e-10)


def test_far_hyperbolic_draws_keep_their_distance():
    law = RiemannianGaussian(Hyperboloid(3), 4.0)
    coordinates = law.sample_coordinates(5000, np.random.default_rng(0))
    assert_allclose(np.linalg.norm(coordinates, axis=-1).mean(), law.expected_distance(), rtol=0.01)
    assert law.expected_distance() > 30.0


# ---- matrices --------------------------------------------------------------------------------


def log_normaliser(size, sigma):
    """de Bruijn's Pfaffian in 60 digits: the volume of ``exp(-|rho|^2 / 2 sigma^2) prod sinh``."""
    import mpmath as mp

    sigma = mp.mpf(sigma)
    even = size + size % 2
    table = mp.matrix(even, even)
    for i in range(size):
        for j in range(size):
            table[i, j] = mp.erf(sigma * (j - i) / 2)
        if size % 2:
            table[i, size], table[size, i] = mp.mpf(1), mp.mpf(-1)
    squares = mp.mpf(size * (size * size - 1)) / 12
    log_pfaffian = mp.log(abs(mp.det(table))) / 2
    return size * mp.log(sigma) + sigma**2 * squares / 2 + log_pfaffian


def mean_square(size, sigma):
    import mpmath as mp

    with mp.workdps(60):
        h = mp.mpf(10) ** -15
        rise = log_normaliser(size, mp.mpf(sigma) + h) - log_normaliser(size, mp.mpf(sigma) - h)
        return float(mp.mpf(sigma) ** 3 * rise / (2 * h))


@pytest.mark.mostly_slow(2)
@pytest.mark.parametrize("size", [2, 3, 5, 7, 10])
@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 2.0])
def test_matrix_gaussian_mean_square(size, sigma):
    law = RiemannianGaussian(SPD(size), sigma)
    count = 20_000 if size < 7 else 1_500
    coordinates = law.sample_coordinates(count, np.random.default_rng(size))
    square = (coordinates**2).sum(axis=-1)
    error = 5.0 * square.std() / math.sqrt(count)
    assert abs(square.mean() - mean_square(size, sigma)) < error
    if size == 2:
        assert_allclose(law.mean_squared_distance(), mean_square(2, sigma), rtol=1e-9)


def test_matrix_draws_sit_at_their_centre():
    law, center = RiemannianGaussian(SPD(3), 0.4), generic_point(SPD(3))
    points = law.sample(center, 8_000, np.random.default_rng(0))
    assert SPD(3).belongs(points).all()
    square = SPD(3).dist(center, points) ** 2
    assert abs(square.mean() - mean_square(3, 0.4)) < 5.0 * square.std() / math.sqrt(8_000)
    mean = SPD(3).log_coordinates(center, points).mean(axis=0)
    assert np.abs(mean).max() < 5.0 * 0.45 / math.sqrt(8_000)


@pytest.mark.parametrize("law", [RiemannianGaussian(SPD(2), 1.3), RiemannianLaplace(SPD(2), 0.7)])
def test_two_by_two_matrices_are_a_line_times_a_plane(law):
    """Log-determinant and eigenvalue gap against the law on R x H^2(-1/2)."""
    coordinates = law.sample_coordinates(20_000, np.random.default_rng(4))
    line = (coordinates[:, 0] + coordinates[:, 1]) / math.sqrt(2.0)
    plane = np.sqrt(np.maximum((coordinates**2).sum(axis=-1) - line**2, 0.0))
    root = math.sqrt(0.5)
    if isinstance(law, RiemannianGaussian):
        other = RiemannianGaussian(Hyperboloid(2, -0.5), law.sigma)
        assert stats.kstest(line, stats.norm(0, law.sigma).cdf).pvalue > LEAST
        assert stats.kstest(plane, radial_cdf(other)).pvalue > LEAST
        return
    # Density of the plane's radius: exp(-sqrt(t^2 + u^2) / b) integrated over the line.
    grid = np.linspace(1e-6, 40.0, 800)
    x, w = np.polynomial.legendre.leggauss(400)
    t = 60.0 * (x + 1.0)
    density = np.sinh(root * grid) * (np.exp(-np.hypot(t, grid[:, None]) / law.scale) @ w)
    cdf = np.concatenate([[0.0], integrate.cumulative_simpson(density, x=grid)])
    assert stats.kstest(plane, lambda u: np.interp(u, grid, cdf / cdf[-1])).pvalue > LEAST


@pytest.mark.parametrize(
    "size, scale",
    [
        (3, 0.5),
        (5, 0.1),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((5, 0.25), (10, 0.05))),
    ],
)
def test_matrix_laplace_mean_square(size, scale):
    import mpmath as mp

    # E d^2 = 2 b^3 d log Z_L / d(b), Z_L(b) = int v^(-1/2) exp(-v / 2 b^2) Z(sqrt v) dv / b.
    v, w = np.polynomial.legendre.leggauss(72)
    rate = 0.5 * (1.0 / scale**2 - volume_growth(size) ** 2)
    log_v = math.log(1e-4 / rate) + 0.5 * (v + 1.0) * math.log(150.0 / 1e-4)
    with mp.workdps(60):
        log_z = np.array([float(log_normaliser(size, math.exp(0.5 * x))) for x in log_v])
    weight = np.log(w) + 0.5 * log_v - np.exp(log_v) / (2.0 * scale**2) + log_z
    weight = np.exp(weight - weight.max())
    squares = np.array([mean_square(size, math.exp(0.5 * x)) for x in log_v])
    expected = float(weight @ squares / weight.sum())
    count = 20_000 if size < 10 else 1_500
    law = RiemannianLaplace(SPD(size), scale)
    square = (law.sample_coordinates(count, np.random.default_rng(size)) ** 2).sum(axis=-1)
    assert abs(square.mean() - expected) < 5.0 * square.std() / math.sqrt(count)


# ---- existence -------------------------------------------------------------------------------

GROWTH = [0.70711, 1.41421, 2.23607, 3.16228, 4.18330, 5.29150, 6.48074, 7.74597, 9.08295]


@pytest.mark.parametrize("size, growth", list(enumerate(GROWTH, start=2)))
def test_matrix_laplace_exists_below_the_threshold_only(size, growth):
    assert_allclose(volume_growth(size), growth, atol=5e-6)
    RiemannianLaplace(SPD(size), 0.999 / growth)
    with pytest.raises(ValueError, match=rf"1 / scale must exceed {growth:.3f}"[:-1]):
        RiemannianLaplace(SPD(size), 1.001 / growth)


def test_hyperbolic_laplace_exists_below_the_threshold_only():
    RiemannianLaplace(Hyperboloid(4, -0.25), 0.666)
    with pytest.raises(ValueError, match="1 / scale must exceed 1.5"):
        RiemannianLaplace(Hyperboloid(4, -0.25), 0.667)
    RiemannianLaplace(Hyperboloid(1), 50.0)  # a line


@pytest.mark.parametrize(
    "law",
    [
        RiemannianGaussian(Hyperboloid(2), 30.0),
        RiemannianGaussian(Poincare(2), 5.0),
        RiemannianLaplace(SPD(2), 1.41),
        RiemannianGaussian(SPD(10), 2.0),
    ],
    ids=str,
)
def test_laws_too_wide_for_floats_are_not_drawn_as_points(law):
    with pytest.raises(ValueError, match="too wide"):
        law.sample(law.geometry.base_point, 3, np.random.default_rng(0))
    assert np.isfinite(law.sample_coordinates(3, np.random.default_rng(0))).all()


def test_spaces_without_a_sampler_are_refused():
    from skriemdp.geometry._grassmann import Grassmann

    with pytest.raises(TypeError, match="no exact sampler"):
        RiemannianGaussian(Grassmann(5, 2), 0.1)
    with pytest.raises(ValueError, match="up to 10 x 10"):
        RiemannianGaussian(SPD(11), 0.1)
    with pytest.raises(ValueError, match="tangent space"):
        RiemannianGaussianMechanism(SPD(3), moves(0.1), 0.5)
    with pytest.raises(ValueError, match="Hadamard"):
        KNormGradientMechanism(Sphere(2), moves(0.1), 0.5)
    with pytest.raises(InfeasibleTarget):
        RiemannianGaussianMechanism.calibrated(Hyperboloid(5), moves(1.0), mu=1.0)


# ---- mechanisms ------------------------------------------------------------------------------

MECHANISMS = [
    (Sphere(2), "gaussian"),
    (Hyperboloid(2), "gaussian"),
    (SPD(2), "gaussian"),
    (Sphere(2), "laplace"),
    (Hyperboloid(3), "laplace"),
    (SPD(3), "laplace"),
]


def audited_epsilon(mechanism, sensitivity, delta, factor=1.0, trials=60_000):
    """Lower bound from draws around two centres at the full sensitivity; noise times `factor`."""
    geometry, rng = mechanism.geometry, np.random.default_rng(8)
    name = "sigma" if hasattr(mechanism, "sigma") else "scale"
    law = type(mechanism.law)(geometry, factor * getattr(mechanism, name))
    first = geometry.base_point
    direction = np.zeros(geometry.dim)
    direction[-1] = sensitivity  # off the diagonal for matrices: the worst direction
    second = geometry.exp_coordinates(first, direction)

    def score(center):
        points = law.sample(center, trials, rng)
        return law._potential(geometry.dist(first, points)) - law._potential(
            geometry.dist(second, points)
        )

    return audit_scores(score(first), score(second), delta=delta, confidence=1.0 - 1e-6).epsilon


@pytest.mark.slow
@pytest.mark.parametrize("geometry, law", MECHANISMS, ids=str)
def test_audit(geometry, law):
    """The claim survives (false alarms 1e-6); with half the noise it does not."""
    if law == "gaussian":
        mechanism = RiemannianGaussianMechanism.calibrated(
            geometry, moves(0.4), epsilon=2.0, delta=1e-2
        )
        delta = 1e-2
    else:
        mechanism = RiemannianLaplaceMechanism.calibrated(geometry, moves(0.4), epsilon=1.5)
        delta = 0.0
    claim = mechanism.event.epsilon(delta)
    assert mechanism.event.delta(2.0) <= delta
    assert audited_epsilon(mechanism, 0.4, delta) <= claim
    assert audited_epsilon(mechanism, 0.4, delta, factor=0.5) > claim


def test_mechanisms_cost_their_event():
    mechanism = RiemannianGaussianMechanism.calibrated(
        Sphere(2), moves(0.1), epsilon=1.0, delta=1e-5
    )
    assert mechanism.event.scale == mechanism.sigma
    assert mechanism.event.delta(1.0) <= 1e-5
    draw = mechanism.release(Sphere(2).base_point, np.random.default_rng(0), size=7)
    assert draw.shape == (7, 3)
    again = mechanism.release(Sphere(2).base_point, np.random.default_rng(0), size=7)
    assert (draw == again).all()
    circle = RiemannianGaussianMechanism(Circle(24.0), moves(1.0), 2.0)
    sphere = RiemannianGaussianMechanism(Sphere(1, radius=24.0 / (2 * math.pi)), moves(1.0), 2.0)
    assert_allclose(circle.event.delta(0.2), sphere.event.delta(0.2))
    assert RiemannianLaplaceMechanism(SPD(3), moves(0.1), 0.2).event.epsilon(0.0) == pytest.approx(
        0.5
    )
    norm_gradient = KNormGradientMechanism(SPD(3), moves(2.0), scale=8.0)
    assert norm_gradient.event.epsilon(0.0) == pytest.approx(0.5)  # 2 sensitivity / scale
    assert KNormGradientMechanism.calibrated(
        SPD(3), moves(2.0), epsilon=0.5
    ).scale == pytest.approx(8.0)
    with pytest.raises(TypeError, match="must be a Sensitivity"):
        KNormGradientMechanism(SPD(3), 2.0, 8.0)
    with pytest.raises(ValueError, match="epsilon must exceed 0.4"):
        RiemannianLaplaceMechanism.calibrated(Hyperboloid(5), moves(0.1), epsilon=0.3)


def gradient_norm(geometry, data):
    def norms(points):
        return np.linalg.norm(geometry.log_coordinates(points[:, None], data).sum(axis=1), axis=-1)

    return norms


def test_k_norm_gradient_law():
    """Against the density on a polar grid of the hyperbolic plane, centre off the mean."""
    space, scale = Hyperboloid(2), 1.0
    data = space.exp_coordinates(space.base_point, np.array([[2.0, 0.0], [-0.8, 1.9], [0.1, -1.5]]))
    norms = gradient_norm(space, data)
    center = space.exp_coordinates(space.base_point, np.array([0.3, 0.2]))
    rng = np.random.default_rng(11)
    points = sample_k_norm_gradient(space, norms, 3, center, scale, rng, 40_000)
    x, w = np.polynomial.legendre.leggauss(120)
    r, w = 10.0 * (x + 1.0), 10.0 * w
    phi = np.arange(96) * (2 * math.pi / 96)
    coordinates = np.stack([r[:, None] * np.cos(phi), r[:, None] * np.sin(phi)], axis=-1)
    grid = space.exp_coordinates(center, coordinates)
    density = np.exp(-norms(grid.reshape(-1, 3)).reshape(grid.shape[:2]) / scale)
    density = density * (w * np.sinh(r))[:, None]
    for statistic in (
        lambda c: np.linalg.norm(c, axis=-1),
        lambda c: c[..., 0],
        lambda c: c[..., 1] ** 2,
    ):
        drawn = statistic(space.log_coordinates(center, points))
        expected = (density * statistic(coordinates)).sum() / density.sum()
        assert abs(drawn.mean() - expected) < 5.0 * drawn.std() / math.sqrt(len(drawn))


def test_k_norm_gradient_is_laplace_for_one_record():
    space = SPD(2)
    data = generic_point(space)[None]
    rng = np.random.default_rng(3)
    points = KNormGradientMechanism(space, moves(2.0), 0.4).release(
        GradientSum(gradient_norm(space, data), 1, space.base_point), rng, 6_000
    )
    other = RiemannianLaplace(space, 0.4).sample_coordinates(6_000, rng)
    distance = space.dist(data[0], points)
    assert stats.ks_2samp(distance, np.linalg.norm(other, axis=-1)).pvalue > LEAST


@pytest.mark.parametrize(
    ("scale", "radius"),
    [(0.3, math.pi / 4), (3.0, 1.3)],
)
def test_k_norm_law_on_a_ball_of_a_sphere(scale, radius):
    """Against the density on a grid of the ball; the narrow and the uniform envelope."""
    space = Sphere(2, radius=2.0)
    ball = GeodesicBall(space, None, 2.0 * radius)
    data = space.exp_coordinates(
        space.base_point, 2.0 * radius * np.array([[0.9, 0.3], [-0.5, 0.8], [0.9, -0.4]])
    )
    norms = gradient_norm(space, data)
    center = space.exp_coordinates(space.base_point, np.array([0.3, 0.2]))
    mechanism = KNormGradientMechanism(space, moves(1.0), scale, ball)
    points = mechanism.release(
        GradientSum(norms, 3, center, space.dist(center, data)), np.random.default_rng(5), 30_000
    )
    assert (space.dist(ball.center, points) <= ball.radius).all()
    x, w = np.polynomial.legendre.leggauss(120)
    r, w = radius * (x + 1.0), radius * w
    phi = np.arange(96) * (2 * math.pi / 96)
    coordinates = np.stack([r[:, None] * np.cos(phi), r[:, None] * np.sin(phi)], axis=-1)
    grid = space.exp_coordinates(ball.center, coordinates)
    density = np.exp(-norms(grid.reshape(-1, 3)).reshape(grid.shape[:2]) / scale)
    density = density * (w * np.sin(r / 2.0))[:, None]
    for statistic in (
        lambda c: np.linalg.norm(c, axis=-1),
        lambda c: c[..., 0],
        lambda c: c[..., 1] ** 2,
    ):
        drawn = statistic(space.log_coordinates(ball.center, points))
        expected = (density * statistic(coordinates)).sum() / density.sum()
        assert abs(drawn.mean() - expected) < 5.0 * drawn.std() / math.sqrt(len(drawn))


@pytest.mark.parametrize("space, radius", [(Circle(4.0), 0.9), (Sphere(1), 1.4)], ids=str)
def test_k_norm_law_on_an_arc_is_laplace_cut_off(space, radius):
    ball = GeodesicBall(space, None, radius)
    data = space.exp_coordinates(ball.center, np.array([[0.5], [-0.1]]))
    center = space.exp_coordinates(ball.center, np.array([0.2]))
    mechanism = KNormGradientMechanism(space, moves(1.0), 0.8, ball)
    points = mechanism.release(
        GradientSum(gradient_norm(space, data), 2, center, space.dist(center, data)),
        np.random.default_rng(2),
        20_000,
    )
    place = space.log_coordinates(ball.center, points)[:, 0]
    cut = stats.laplace(0.2, 0.4)
    low, high = cut.cdf(-radius), cut.cdf(radius)
    uniform = (cut.cdf(place) - low) / (high - low)
    assert stats.kstest(uniform, "uniform").pvalue > LEAST
    # No proposal's envelope is below the density.
    assert expected_proposals(ball, 2, 0.8) < 20.0


def test_records_cannot_leave_the_envelope():
    """Clusters and rims, every n: the shells' bound is above the density on a grid."""
    rng = np.random.default_rng(9)
    for radius in (0.5, math.pi / 4, 1.3, 1.5):
        for n in (3, 40, 1000):
            space = Sphere(2)
            ball = GeodesicBall(space, None, radius)
            aims = rng.standard_normal((3, 2))
            aims *= (
                radius
                * rng.choice([1.0, 0.5], size=(3, 1))
                / np.linalg.norm(aims, axis=1, keepdims=True)
            )
            data = space.exp_coordinates(ball.center, aims[rng.integers(0, 3, n)])
            norms = gradient_norm(space, data)
            center = space.exp_coordinates(ball.center, aims.mean(axis=0))
            for _ in range(5):
                center = space.exp_coordinates(
                    center, space.log_coordinates(center, data).mean(axis=0)
                )
            residual = norms(center[None])[0] / n
            reach = radius + float(space.dist(ball.center, center))
            bound = least_gradients(ball, space.dist(center, data), residual, reach)
            place = rng.standard_normal((2000, 2))
            place *= radius * rng.random((2000, 1)) / np.linalg.norm(place, axis=1, keepdims=True)
            points = space.exp_coordinates(ball.center, place)
            edges = np.linspace(0.0, reach * (1.0 + 1e-12), 300)
            shell = np.searchsorted(edges, space.dist(center, points), side="right") - 1
            assert (norms(points) / n >= bound(edges)[shell] * (1.0 - 1e-9) - 1e-12).all()


def k_norm_audit(radius, factor, trials):
    """Certified epsilon of the law on a ball of S^2, all records at one end or one at the other.

    The gradient differs by ``2 radius`` at the first end, where most draws are, and the law of
    records that all lie at the rim has half the room of the other: no other pair that we know
    shows as much of the bound.
    """
    space, n = Sphere(2), 3
    ball = GeodesicBall(space, None, radius)
    move = ball_logarithms_sensitivity(radius, 1.0)
    claimed = KNormGradientMechanism.calibrated(space, move, epsilon=2.0, ball=ball)
    mechanism = KNormGradientMechanism(space, move, factor * claimed.scale, ball)
    near, far = space.exp_coordinates(ball.center, np.array([[radius, 0.0], [-radius, 0.0]]))

    def gradients(points):
        """Of both data sets."""
        own, other = (space.log_coordinates(points, end) for end in (near, far))
        return [np.linalg.norm(sums, axis=-1) for sums in (n * own, (n - 1) * own + other)]

    scores = []
    for side, ends in enumerate(([near] * n, [near] * (n - 1) + [far])):
        center = space.exp_coordinates(near, side / n * space.log_coordinates(near, far))
        points = mechanism.release(
            GradientSum(
                lambda points, side=side: gradients(points)[side],
                n,
                center,
                space.dist(center, np.stack(ends)),
            ),
            np.random.default_rng(side),
            trials,
        )
        own, other = gradients(points)
        scores.append(other - own)
    settings = {"delta": 0.0, "confidence": 1.0 - 1e-7, "tuning_share": 0.2}
    return audit_scores(scores[1], scores[0], **settings).epsilon, claimed.event.epsilon(0.0)


@pytest.mark.parametrize(("radius", "shares"), [(math.pi / 4, (0.72, 0.64)), (1.2, (0.65, 0.59))])
def test_how_much_of_the_k_norm_bound_that_pair_uses(radius, shares):
    """Its largest log ratio over epsilon, by quadrature in polar coordinates about the first end.

    At epsilon 1 and 4.  The rest is slack of the proof, which no audit of this pair can find; half
    the scale is beyond what is claimed.
    """
    space, n = Sphere(2), 3
    ball = GeodesicBall(space, None, radius)
    near, far = space.exp_coordinates(ball.center, np.array([[radius, 0.0], [-radius, 0.0]]))
    length = np.geomspace(1e-4, 2.0 * radius, 600)
    angle = (np.arange(180) + 0.5) * (2.0 * math.pi / 180)
    aims = length[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    points = space.exp_coordinates(near, aims)
    area = (np.sin(length) * np.gradient(length))[:, None] * np.ones(len(angle))
    area *= space.dist(ball.center, points) <= radius
    own, other = (space.log_coordinates(points, end) for end in (near, far))
    all_near, one_far = (np.linalg.norm(sums, axis=-1) for sums in (n * own, (n - 1) * own + other))
    for epsilon, share in zip((1.0, 4.0), shares, strict=True):
        move = ball_logarithms_sensitivity(radius, 1.0)
        scale = KNormGradientMechanism.calibrated(space, move, epsilon=epsilon, ball=ball).scale
        for factor in (1.0, 0.5):
            totals = [
                (area * np.exp(-norm / (factor * scale))).sum() for norm in (one_far, all_near)
            ]
            loss = (one_far - all_near)[area > 0.0].max() / (factor * scale)
            loss += math.log(totals[0] / totals[1])
            if factor == 1.0:
                assert loss / epsilon == pytest.approx(share, abs=0.01)
            else:
                assert loss > 1.04 * epsilon


@pytest.mark.slow
@pytest.mark.parametrize(
    ("radius", "fault", "trials"), [(math.pi / 4, 0.5, 1_500_000), (1.2, 0.45, 1_000_000)]
)
def test_audit_of_the_k_norm_law_on_a_sphere(radius, fault, trials):
    """The claim of 2 survives (false alarms 1e-7); with half the scale, or .45 of it, not."""
    found, claim = k_norm_audit(radius, 1.0, 50_000)
    assert 0.25 * claim < found <= claim
    assert k_norm_audit(radius, fault, trials)[0] > claim
