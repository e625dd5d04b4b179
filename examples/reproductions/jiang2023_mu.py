"""Numbers of "Gaussian differential privacy on Riemannian manifolds" (Jiang et al., NeurIPS 2023).

Run:  python examples/reproductions/jiang2023_mu.py [--quick] [--output FOLDER]

Prints mu on the circle, the line, the sphere and the hyperbolic plane by the paper's Algorithm 1
and Algorithm 2 beside the exact value (first two panels of its Figure 1), the privacy profile of
Algorithm 1 beside the true one, and the table behind the third panel: the error of a private
Fréchet mean on the sphere with Gaussian and with Laplace noise, at the paper's conversion and at
equal true mu.

Both algorithms are here as what they are.  Algorithm 1 works on the set that the paper's proof
names, which is too small for every epsilon > 0 (its mu, found next to epsilon = 0, is right).
Algorithm 2 is a Monte Carlo estimate of a supremum over epsilon: biased upwards, and in single runs
too small, so it proves nothing.  It gets exact independent draws here, better than the Markov chain
of the paper.
"""

import math

import numpy as np
from reproduction_tools import heading, parse, save_figure, table
from scipy.special import ndtr

from skriemdp.geometry import Euclidean, Hyperboloid, Sphere
from skriemdp.riemannian_laws import (
    RiemannianEvent,
    RiemannianGaussian,
    RiemannianLaplace,
    calibrated_riemannian_event,
)


def mu_from_deltas(epsilon, delta):
    """The mu of the Gaussian profile through each (epsilon, delta), by bisection as published."""
    low, high = np.full(epsilon.shape, 1e-6), np.full(epsilon.shape, 100.0)
    for _ in range(50):
        mu = np.sqrt(low * high)
        value = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        less = value < delta
        low, high = np.where(less, mu, low), np.where(less, high, mu)
    return np.where(delta > 0, low, 0.0)


def algorithm_1(distance, sigma, n_epsilon=1000):
    """Algorithm 1: mu on the unit circle from closed-form integrals, on the paper's set."""
    epsilon = np.arange(1, n_epsilon + 1) * math.pi * distance / (2 * sigma**2) / n_epsilon
    return float(mu_from_deltas(epsilon, algorithm_1_delta(distance, sigma, epsilon)).max())


def algorithm_1_delta(distance, sigma, epsilon):
    """delta(epsilon) on the circle as Algorithm 1 computes it: too small for epsilon > 0."""
    # Angles from the first centre; the second lies at `distance`.  The loss exceeds epsilon from
    # distance/2 - sigma^2 epsilon/distance down to -pi + distance/2 + sigma^2 epsilon/(2 pi -
    # distance); the paper puts `distance` in place of 2 pi - distance.
    shift = sigma**2 * epsilon / distance
    low, high = -math.pi + distance / 2 + shift, distance / 2 - shift
    total = ndtr(math.pi / sigma) - ndtr(-math.pi / sigma)
    wrap = distance - math.pi  # beyond it the second centre is nearer the other way round

    def mass(a, b, centre):
        return np.maximum(ndtr((b - centre) / sigma) - ndtr((a - centre) / sigma), 0.0)

    first = mass(low, high, 0.0)
    second = mass(np.maximum(low, wrap), high, distance)
    second = second + mass(low, np.minimum(high, wrap), distance - 2 * math.pi)
    return (first - np.exp(epsilon) * second) / total


def paper_epsilon_max(geometry, distance, sigma):
    if geometry == Sphere(1):
        return math.pi * distance / (2 * sigma**2)
    return max(10.0, 5.0 / sigma + 1.0 / (2 * sigma**2))


def algorithm_2(geometry, distance, sigma, rng, n=1000, m=100, n_epsilon=1000, clipped=False):
    """Algorithm 2: Monte Carlo mu.  ``clipped=True`` clips every replicate at 0, as published code.

    Draws are exact, and indicators are counted from sorted differences.
    """
    law = RiemannianGaussian(geometry, sigma)
    centre = geometry.base_point
    direction = np.zeros(geometry.dim)
    direction[0] = distance
    other = geometry.exp_coordinates(centre, direction)
    top = paper_epsilon_max(geometry, distance, sigma)
    epsilon = np.arange(1, n_epsilon + 1) * top / n_epsilon

    def exceedances(point):
        """Share of draws around `point` with loss >= epsilon, per replicate."""
        draws = law.sample(point, (m, n), rng)
        loss = geometry.dist(other, draws) ** 2 - geometry.dist(centre, draws) ** 2
        loss = np.sort(loss / (2 * sigma**2), axis=1)
        return np.stack([n - np.searchsorted(row, epsilon) for row in loss]) / n

    delta = exceedances(centre) - np.exp(epsilon) * exceedances(other)
    if clipped:
        delta = np.maximum(delta, 0.0)
    return float(mu_from_deltas(epsilon, delta.mean(axis=0)).max())


def exact_mu(geometry, distance, sigma, law="gaussian"):
    form = geometry.symmetric_space
    return RiemannianEvent(law, form.name, form.dim, form.curvature, distance, sigma).mu_estimate


SPACES = {"S^1": Sphere(1), "R": Euclidean(1), "S^2": Sphere(2), "H^2": Hyperboloid(2)}


def mu_table(multiples, runs):
    """Print mu for ``sigma = k / 4``; returns the rows."""
    heading(f"mu at Delta = 1; Algorithm 2: {runs} runs with exact draws")
    rows = []

    def row(name, k):
        geometry, sigma = SPACES[name], k / 4
        rng = np.random.default_rng(k)
        found = [algorithm_2(geometry, 1.0, sigma, rng) for _ in range(runs)]
        first = f"{algorithm_1(1.0, sigma):.4f}" if name == "S^1" else "-"
        exact = exact_mu(geometry, 1.0, sigma)
        rows.append((name, sigma, exact, np.mean(found), min(found), max(found)))
        estimate = f"{np.mean(found):.4f} ({min(found):.4f}, {max(found):.4f})"
        return [name, sigma, f"{exact:.6f}", f"{1 / sigma:.4f}", first, estimate]

    header = (
        "space",
        "sigma",
        "exact mu",
        "1/sigma",
        "Algorithm 1",
        "Algorithm 2: mean (min, max)",
    )
    table(header, (row(name, k) for name in SPACES for k in multiples))
    return rows


def profile_table():
    """The set of Algorithm 1 against the true profile, Delta = sigma = 1 on the circle."""
    heading("delta(epsilon) on the circle, Delta = sigma = 1")
    event = RiemannianEvent("gaussian", "sphere", 1, 1.0, 1.0, 1.0)
    rows = [
        (e, f"{float(algorithm_1_delta(1.0, 1.0, np.array([e]))[0]):.3g}", f"{event.delta(e):.3g}")
        for e in (0.01, 0.5, 1.0, 1.57, 2.0, 2.5)
    ]
    table(("epsilon", "Algorithm 1", "true"), rows)


def sphere_sensitivity(radius, n):
    """The bound of Reimherr et al. that the paper uses (this library proves a smaller one)."""
    h = 2 * radius / math.tan(2 * radius)
    return 2 * radius * (2 - h) / (n * h)


def third_panel():
    """Rows (k, mu, Gaussian error, Laplace at the paper's epsilon, its mu, Laplace at equal mu).

    ``sigma = k Delta / 4``: the values of mu in the published plot say so (the text omits Delta).
    """
    globe, distance = Sphere(2), sphere_sensitivity(math.pi / 8, 10)
    rows = []
    for k in (1, 2, 4, 8, 12, 16):
        sigma = k * distance / 4
        mu = exact_mu(globe, distance, sigma)
        epsilon = math.log(ndtr(mu / 2) / ndtr(-mu / 2))
        published = distance / epsilon
        true_mu = exact_mu(globe, distance, published, "laplace")
        equal = calibrated_riemannian_event("laplace", "sphere", 2, 1.0, distance, mu=mu).scale
        rows.append(
            (
                k,
                mu,
                RiemannianGaussian(globe, sigma).expected_distance(),
                RiemannianLaplace(globe, published).expected_distance(),
                true_mu,
                RiemannianLaplace(globe, equal).expected_distance(),
            )
        )
    return distance, rows


def print_third_panel():
    distance, rows = third_panel()
    heading(f"Private Fréchet mean on S^2, n = 10, r = pi/8, Delta = {distance:.5f}: mean distance")
    header = (
        "k (sigma = k Delta / 4)",
        "mu",
        "Gaussian",
        "Laplace, paper's conversion",
        "its true mu",
        "Laplace at equal true mu",
        "ratio: paper -> true",
    )
    table(
        header,
        (
            (k, mu, gauss, laplace, true_mu, equal, f"{laplace / gauss:.2f} -> {equal / gauss:.2f}")
            for k, mu, gauss, laplace, true_mu, equal in rows
        ),
    )
    return rows


def figure(mu_rows, rows):
    def draw(pyplot):
        chart, axes = pyplot.subplots(1, 3, figsize=(15, 4))
        for axis, name in zip(axes, ("S^1", "R"), strict=False):
            chosen = np.array([row[1:] for row in mu_rows if row[0] == name])
            sigma, exact, mean, low, high = chosen.T
            axis.errorbar(sigma, mean, (mean - low, high - mean), fmt="s", label="Algorithm 2")
            axis.plot(sigma, exact, "o-", label="exact")
            axis.plot(sigma, 1 / sigma, ":", label="1/sigma")
            axis.set(xlabel="sigma", ylabel="mu", title=name, yscale="log")
        _, mu, gauss, published, _, equal = map(np.array, zip(*rows, strict=True))
        axes[2].plot(mu, gauss, "o-", label="Gaussian")
        axes[2].plot(mu, published, "^--", label="Laplace, paper's conversion")
        axes[2].plot(mu, equal, "s-", label="Laplace, equal true mu")
        axes[2].set(xlabel="mu", ylabel="mean distance to the mean", xscale="log", yscale="log")
        axes[0].legend()
        axes[2].legend()
        return chart

    return draw


def main(arguments=None):
    options = parse(__doc__, arguments)
    multiples, runs = ((1, 4, 16), 2) if options.quick else (range(1, 17), 20)
    mu_rows = mu_table(multiples, runs)
    profile_table()
    rows = print_third_panel()
    save_figure(options, "jiang2023_mu", figure(mu_rows, rows))


if __name__ == "__main__":
    main()
