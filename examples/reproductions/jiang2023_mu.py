"""Numbers of "Gaussian differential privacy on Riemannian manifolds" (Jiang et al., NeurIPS 2023).

Run:  python examples/reproductions/jiang2023_mu.py [--runs 5] [--figure jiang2023.png]

Prints mu on the circle and the sphere by the paper's Algorithm 1 and Algorithm 2 beside the exact
value, and the table behind the third panel of its Figure 1: the error of a private Fréchet mean on
the sphere with Gaussian and with Laplace noise, at the paper's conversion and at equal true mu.

Both algorithms are here as what they are.  Algorithm 1 works on the set that the paper's proof
names, which is too small for every epsilon > 0 (its mu, found next to epsilon = 0, is right).
Algorithm 2 is a Monte Carlo estimate of a supremum over epsilon: biased upwards, and in single runs
too small, so it proves nothing.  It gets exact independent draws here, better than the Markov chain
of the paper.
"""

import argparse
import math

import numpy as np
from scipy.special import ndtr

from skriemdp.geometry import Euclidean, Hyperboloid, Sphere
from skriemdp.geometry.distributions import RiemannianGaussian, RiemannianLaplace, space_form
from skriemdp.privacy.profiles import RiemannianEvent, calibrated_riemannian_event


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
    delta = (first - np.exp(epsilon) * second) / total
    return float(mu_from_deltas(epsilon, delta).max())


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
    form = space_form(geometry)
    return RiemannianEvent(law, form.name, form.dim, form.curvature, distance, sigma).mu_estimate


def mu_table(runs):
    print("| space | sigma | exact mu | Delta/sigma | Algorithm 1 | Algorithm 2: mean (min, max) |")
    print("|---|---|---|---|---|---|")
    spaces = {"S^1": Sphere(1), "S^2": Sphere(2), "R": Euclidean(1), "H^2": Hyperboloid(2)}
    for name, geometry in spaces.items():
        for k in (1, 2, 4, 8, 12, 16):
            sigma = k / 4
            rng = np.random.default_rng(k)
            found = [algorithm_2(geometry, 1.0, sigma, rng) for _ in range(runs)]
            first = f"{algorithm_1(1.0, sigma):.4f}" if geometry == Sphere(1) else "-"
            print(
                f"| {name} | {sigma} | {exact_mu(geometry, 1.0, sigma):.6f} | {1 / sigma:.4f} "
                f"| {first} | {np.mean(found):.4f} ({min(found):.4f}, {max(found):.4f}) |"
            )


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
    print(
        f"\nPrivate Fréchet mean on S^2, n = 10, r = pi/8, Delta = {distance:.5f}: mean distance\n"
    )
    print(
        "| k (sigma = k Delta / 4) | mu | Gaussian | Laplace, paper's conversion | its true mu "
        "| Laplace at equal true mu | ratio: paper -> true |"
    )
    print("|---|---|---|---|---|---|---|")
    for k, mu, gauss, published, true_mu, equal in rows:
        print(
            f"| {k} | {mu:.3f} | {gauss:.3f} | {published:.3f} | {true_mu:.2f} "
            f"| {equal:.3f} | {published / gauss:.2f} -> {equal / gauss:.2f} |"
        )
    return rows


def draw(rows, path):
    import matplotlib.pyplot as plt

    _, mu, gauss, published, _, equal = map(np.array, zip(*rows, strict=True))
    figure, axes = plt.subplots(figsize=(5, 4))
    axes.plot(mu, gauss, "o-", label="Gaussian")
    axes.plot(mu, published, "^--", label="Laplace, paper's conversion")
    axes.plot(mu, equal, "s-", label="Laplace, equal true mu")
    axes.set(xlabel="mu", ylabel="mean distance to the mean", xscale="log", yscale="log")
    axes.legend()
    figure.savefig(path, dpi=150, bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="of Algorithm 2 per row")
    parser.add_argument("--figure", help="file to draw the third panel to")
    options = parser.parse_args()
    mu_table(options.runs)
    rows = print_third_panel()
    if options.figure:
        draw(rows, options.figure)


if __name__ == "__main__":
    main()
