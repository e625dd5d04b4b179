"""Coverage of confidence regions and level of tests, on released moments that NumPy makes up.

Run:  python benchmarks/inference_simulated.py regions [--trials 2000] [--only NAME] [--rows 0:5]
      python benchmarks/inference_simulated.py far [--trials 2000]
      python benchmarks/inference_simulated.py tests [--trials 2000] [--only NAME]
      python benchmarks/inference_simulated.py classes [--trials 2000]

No private fit is run: records are drawn, the mean of their coordinates and of the products of these
get the noise that a fit would add, and regions and p-values are computed from that alone.
Coverage is that of the population's mean, nominally 95 %, beside regions that

* know the sampling error only, or the noise only;
* take the chi-square quantile where the threshold is simulated;
* take the released covariance as it comes, without repair (a covariance that is not positive
  definite gives no region, which counts as a miss);
* far from the centre: are centred where one Newton step leads ("OneStep"), take the covariance,
  which bends the mean, for known ("Fixed"), or leave out curvature ("Straight"); in brackets the
  bias of their centre, in standard errors.

"classes" is for means of classes whose numbers of records are released too, in a ball around all of
them: coverage of the regions that are given, share of classes without one, coverage if the released
number is taken for exact, and level of a test of two classes whose means are equal.

"axes" is the region's geometric mean axis over that of the exact covariance.
"""

import argparse
import dataclasses
import functools
import math

import numpy as np
from scipy.stats import chi2, kstest

from skriemdp._mean.joint_releases import LEAST_COUNT
from skriemdp.geometry import (
    SPD,
    Euclidean,
    Geometry,
    Grassmann,
    Hyperboloid,
    LogEuclideanSPD,
    Sphere,
)
from skriemdp.inference import MeanInference, mean_test
from skriemdp.privacy import gaussian_mu

LEVEL, DELTA = 0.95, 1e-5
# Shares of mu**2 of the rough mean, its radius and the moments; what the radius is widened by.
ROUGH, MOMENTS, WIDENED = 0.25, 0.64, 1.3


class Straight(MeanInference):
    """Without curvature."""

    @property
    def step(self):
        return self.first

    def _form(self, moment):
        return np.zeros_like(moment)


class OneStep(MeanInference):
    """The mean is where one Newton step from the centre leads."""

    @property
    def step(self):
        hessian = np.eye(len(self.first)) - self._form(self.second) / 3.0
        return np.linalg.solve(hessian, self.first)


class Fixed(MeanInference):
    """As if the covariance, which bends the mean, were known without error."""

    def score_covariance(self, spread):
        return spread / self.n + self.first_noise**2 * np.eye(len(self.first))


@dataclasses.dataclass(frozen=True)
class Cell:
    """A population in a public ball, and how it is asked for."""

    name: str
    geometry: Geometry
    radius: float
    n: int
    epsilon: float
    mode: str = "adaptive"
    offset: float = 0.3  # over the radius
    rms: float = 0.3  # over the radius
    decay: float = 1.0  # of the spectrum, k**-decay
    skewness: float = 0.0
    spectrum: tuple = ()

    @functools.cached_property
    def mu(self):
        return gaussian_mu(self.epsilon, DELTA)

    @functools.cached_property
    def center(self):
        return self.geometry.base_point

    @functools.cached_property
    def middle(self):
        """The point that records scatter around."""
        rng = np.random.default_rng(7)
        direction = rng.standard_normal(self.geometry.dim)
        direction *= self.offset * self.radius / np.linalg.norm(direction)
        return np.asarray(self.geometry.exp_coordinates(self.center, direction))

    @functools.cached_property
    def scales(self):
        d = self.geometry.dim
        powers = np.array(self.spectrum or np.arange(1.0, d + 1) ** -self.decay)
        return self.rms * self.radius * np.sqrt(powers / powers.sum())

    def scatter(self, n, rng):
        """Coordinates of records around `middle`."""
        d = self.geometry.dim
        if self.skewness:
            shape = 4.0 / self.skewness**2  # of a gamma law with that skewness
            z = (rng.gamma(shape, size=(n, d)) - shape) / math.sqrt(shape)
        else:
            z = rng.standard_normal((n, d))
        return z * self.scales

    def shortened(self, center, radius, scattered):
        """Coordinates at `center`, shortened, of records with coordinates `scattered`."""
        points = self.geometry.exp_coordinates(self.middle, scattered)
        v = np.asarray(self.geometry.log_coordinates(center, points))
        return v * np.minimum(1.0, radius / np.linalg.norm(v, axis=1))[:, None]

    @functools.cached_property
    def truth(self):
        """Mean of the population projected on the ball, from 400 000 records."""
        rng = np.random.default_rng(11)
        half = self.scatter(200_000, rng)
        scattered = half if self.skewness else np.concatenate([half, -half])
        v = self.shortened(self.center, self.radius, scattered)
        points = self.geometry.exp_coordinates(self.center, v)
        mean = self.middle
        for _ in range(30):
            step = np.asarray(self.geometry.log_coordinates(mean, points)).mean(axis=0)
            mean = np.asarray(self.geometry.exp_coordinates(mean, step))
            if np.linalg.norm(step) < 1e-9:
                break
        return mean

    def release_class(self, rng):
        """The released moments of one class of `n` records, or None."""
        v = self.shortened(self.center, self.radius, self.scatter(self.n, rng))
        d, mu = v.shape[1], self.mu * math.sqrt(0.99)
        square = 2.0 * math.sqrt(2.0) / mu * rng.standard_normal((d + 1, d + 1))
        lifts = np.concatenate([v / self.radius, np.ones((self.n, 1))], axis=1)
        noisy = lifts.T @ lifts + (square + square.T) / 2.0
        count, s, t = noisy[d, d], 2.0 * self.radius / mu, 2.0 * math.sqrt(2.0) / mu
        if count < LEAST_COUNT:
            return None
        first, second = noisy[d, :d] * self.radius / count, noisy[:d, :d] * self.radius**2 / count
        noises = s / count, t * self.radius**2 / count, t / count
        return MeanInference(self.geometry, self.center, self.radius, first, second, count, *noises)

    def release(self, rng):
        """The released moments of one sample."""
        scattered = self.scatter(self.n, rng)
        center, radius, mu = self.center, self.radius, self.mu * math.sqrt(0.99)
        if self.mode == "adaptive":
            v = self.shortened(center, radius, scattered)
            noise = 2.0 * radius / (self.n * self.mu * math.sqrt(ROUGH))
            rough = v.mean(axis=0) + noise * rng.standard_normal(v.shape[1])
            rough *= min(1.0, radius / np.linalg.norm(rough))
            center = np.asarray(self.geometry.exp_coordinates(center, rough))
            v = self.shortened(center, np.inf, scattered)
            level = np.clip(1.0 - 3.0 / (self.n * self.mu), 0.6, 0.999)
            found = np.quantile(np.linalg.norm(v, axis=1), level)
            radius = min(radius, WIDENED * found * 1.15 ** rng.uniform(-0.5, 0.5))
            mu = self.mu * math.sqrt(MOMENTS)
        v = self.shortened(center, radius, scattered)
        s = 2.0 * radius / (self.n * mu)
        t = 2.0 * math.sqrt(2.0) * radius**2 / (self.n * mu)
        d = v.shape[1]
        square = rng.standard_normal((d, d))
        first = v.mean(axis=0) + s * rng.standard_normal(d)
        second = v.T @ v / self.n + t * (square + square.T) / 2.0
        return MeanInference(self.geometry, center, radius, first, second, self.n, s, t)


SPD3, FLAT3 = SPD(3), LogEuclideanSPD(3)
CELLS = (
    Cell("SPD(3) log-Euclidean R=2, tangent", FLAT3, 2.0, 500, 1.0, "tangent"),
    Cell("same", FLAT3, 2.0, 500, 0.3, "tangent"),
    Cell("same, adaptive", FLAT3, 2.0, 2000, 1.0),
    Cell("SPD(3) affine R=2", SPD3, 2.0, 500, 1.0),
    Cell("same", SPD3, 2.0, 5000, 1.0),
    Cell("same, R=1", SPD3, 1.0, 2000, 3.0),
    Cell("S^2 R=1", Sphere(2), 1.0, 300, 1.0),
    Cell("same", Sphere(2), 1.0, 5000, 3.0),
    Cell("S^20 R=1", Sphere(20), 1.0, 1000, 1.0),
    Cell("same", Sphere(20), 1.0, 5000, 1.0),
    Cell("same, 1/k^2", Sphere(20), 1.0, 5000, 3.0, decay=2.0),
    Cell("H^2 R=2", Hyperboloid(2), 2.0, 1000, 0.3),
    Cell("same", Hyperboloid(2), 2.0, 5000, 1.0),
    Cell("R^5 R=1", Euclidean(5), 1.0, 300, 3.0),
    Cell("same", Euclidean(5), 1.0, 2000, 1.0),
    Cell("same, skewness 2", Euclidean(5), 1.0, 2000, 1.0, rms=0.2, skewness=2.0),
    Cell("R^20, one large eigenvalue", Euclidean(20), 1.0, 2000, 3.0, spectrum=(20.0, *[1.0] * 19)),
    Cell("R^20, tangent", Euclidean(20), 1.0, 1000, 3.0, "tangent"),
    Cell("R^20, tangent, few", Euclidean(20), 1.0, 300, 1.0, "tangent"),
    Cell("Grassmann(5,2) R=.6", Grassmann(5, 2), 0.6, 2000, 1.0),
    Cell("R^20, tangent, large epsilon", Euclidean(20), 1.0, 300, 10.0, "tangent"),
    Cell("R^5, tangent, few", Euclidean(5), 1.0, 60, 10.0, "tangent"),
    Cell("same", Euclidean(5), 1.0, 45, 3.0, "tangent"),
)
FAR = (
    Cell("S^2 R=1, offset .6", Sphere(2), 1.0, 2000, 1.0, "tangent", offset=0.6, rms=0.3),
    Cell("H^2 R=2, offset 1", Hyperboloid(2), 2.0, 2000, 1.0, "tangent", offset=0.5, rms=0.3),
    Cell("H^2 R=2, offset 1, rms .3", Hyperboloid(2), 2.0, 2000, 1.0, "tangent", 0.5, rms=0.15),
    Cell("S^20 R=1, offset .6", Sphere(20), 1.0, 2000, 1.0, "tangent", offset=0.6, rms=0.3),
    Cell("SPD(3) affine R=2, offset 1", SPD3, 2.0, 2000, 1.0, "tangent", offset=0.5, rms=0.3),
    Cell("Grassmann(5,2) R=.7", Grassmann(5, 2), 0.7, 2000, 1.0, "tangent", offset=0.6, rms=0.3),
)

CLASSES = (
    Cell("R^5 R=1", Euclidean(5), 1.0, 300, 1.0),
    Cell("same", Euclidean(5), 1.0, 30, 1.0),
    Cell("same", Euclidean(5), 1.0, 10, 1.0),
    Cell("same, far from the centre", Euclidean(5), 1.0, 300, 1.0, offset=0.7, rms=0.15),
    Cell("same", Euclidean(5), 1.0, 60, 3.0, offset=0.7, rms=0.15),
    Cell("same", Euclidean(5), 1.0, 10, 1.0, offset=0.7, rms=0.15),
    Cell("S^2 R=1", Sphere(2), 1.0, 500, 1.0, offset=0.5),
    Cell("H^2 R=2", Hyperboloid(2), 2.0, 500, 1.0, offset=0.5, rms=0.2),
    Cell("SPD(3) affine R=2", SPD3, 2.0, 100, 3.0, offset=0.5, rms=0.2),
)


def tested(name, d, n, epsilon, spectrum, k, geometry=None):
    space = Euclidean(d) if geometry is None else geometry
    decay = {"flat": 0.0, "1/k": 1.0, "1/k^2": 2.0}[spectrum]
    return k, Cell(name, space, 1.0, n, epsilon, decay=decay)


TESTS = (
    tested("d=6, n=1000, eps=1, flat", 6, 1000, 1.0, "flat", 2),
    tested("same", 6, 1000, 1.0, "flat", 3),
    tested("d=6, n=1000, eps=1, 1/k^2", 6, 1000, 1.0, "1/k^2", 2),
    tested("d=6, n=300, eps=3, 1/k", 6, 300, 3.0, "1/k", 2),
    tested("d=20, n=1000, eps=3, 1/k", 20, 1000, 3.0, "1/k", 2),
    tested("S^2, n=1000, eps=1, 1/k", 2, 1000, 1.0, "1/k", 3, Sphere(2)),
    tested("SPD(3) affine, n=1000, eps=1, 1/k", 6, 1000, 1.0, "1/k", 2, SPD3),
    tested("d=6, n=1000, eps=1, 1/k, popmean", 6, 1000, 1.0, "1/k", 1),
    tested("H^2, n=1000, eps=1, 1/k, popmean", 2, 1000, 1.0, "1/k", 1, Hyperboloid(2)),
)


def holds(covariance, threshold, error):
    """Whether an ellipsoid holds an error; none does that is not positive definite."""
    values = np.linalg.eigvalsh(covariance)
    if values[0] <= 1e-12 * values[-1]:
        return False
    return float(error @ np.linalg.solve(covariance, error)) <= threshold


def naive(cell, fit):
    """Covariances and thresholds of the regions that are wrong."""
    d, quantile = len(fit.first), chi2.ppf(LEVEL, len(fit.first))
    unit, moved = np.eye(d), fit.score_to_mean
    noise = fit.first_noise**2 * unit
    raw = fit.second - np.outer(fit.first, fit.first) + noise
    return {
        "sampling": (fit.spread / fit.n, quantile),
        "noise": (noise, quantile),
        "chi-square": (fit.score_covariance(fit.spread), quantile),
        "no repair": (raw / fit.n + noise, quantile),
    }, moved


def table_regions(cells, trials, seed):
    print(f"| cell | n, eps | region [axes] | {' | '.join(naive_names())} |")
    print("|---|---|---|---|---|---|---|")
    covered = []
    for cell in cells:
        rng = np.random.default_rng((seed, cell.n, cell.geometry.dim))
        hits, axes = dict.fromkeys(["region", *naive_names()], 0), []
        for _ in range(trials):
            fit = cell.release(rng)
            region = fit.region(LEVEL)
            error = np.asarray(cell.geometry.log_coordinates(fit.mean, cell.truth))
            hits["region"] += bool(region.contains(cell.truth))
            wrong, moved = naive(cell, fit)
            back = np.linalg.solve(moved, error)
            for name, (covariance, threshold) in wrong.items():
                hits[name] += holds(covariance, threshold, back)
            exact = np.diag(cell.scales**2) / cell.n + fit.first_noise**2 * np.eye(len(error))
            d = len(error)
            size = chi2.ppf(LEVEL, d) ** d * np.prod(np.linalg.eigvalsh(exact))
            volume = np.sum(np.log(region.semi_axes)) - 0.5 * math.log(size)
            axes.append(math.exp(volume / d))
        shares = [hits[name] / trials for name in ("region", *naive_names())]
        covered.append(shares[0])
        wrong = " | ".join(f"{share:.3f}" for share in shares[1:])
        print(
            f"| {cell.name} | {cell.n}, {cell.epsilon:g} | {shares[0]:.3f} [{np.mean(axes):.2f}] "
            f"| {wrong} |",
            flush=True,
        )
    error = math.sqrt(0.95 * 0.05 / trials)
    print(f"\nmean {np.mean(covered):.4f}, worst {min(covered):.3f}, standard error {error:.4f}")


def naive_names():
    return "sampling", "noise", "chi-square", "no repair"


def table_far(cells, trials, seed):
    kinds = (MeanInference, OneStep, Fixed, Straight)
    print(f"| cell, n=2000, eps=1 | {' | '.join(kind.__name__ for kind in kinds)} |")
    print("|---|---|---|---|---|")
    for cell in cells:
        rng = np.random.default_rng((seed, cell.geometry.dim))
        hits, errors = np.zeros(len(kinds)), tuple([] for _ in kinds)
        for _ in range(trials):
            fit = cell.release(rng)
            values = [getattr(fit, field.name) for field in dataclasses.fields(fit)]
            for number, kind in enumerate(kinds):
                part = kind(*values)
                hits[number] += bool(part.region(LEVEL).contains(cell.truth))
                errors[number].append(cell.geometry.log_coordinates(cell.truth, part.mean))
        bias = [
            np.linalg.norm(np.mean(e, axis=0)) / math.sqrt(np.var(e, axis=0).mean()) for e in errors
        ]
        shown = (f"{hit / trials:.3f} [{b:.2f}]" for hit, b in zip(hits, bias, strict=True))
        print(f"| {cell.name} | {' | '.join(shown)} |", flush=True)


def table_tests(cells, trials, seed):
    print("| cell | k | level | level, noise only | sup distance from uniform |")
    print("|---|---|---|---|---|")
    for k, cell in cells:
        rng = np.random.default_rng((seed, cell.n, cell.geometry.dim, k))
        pvalues, naive_rejections = [], 0
        for _ in range(trials):
            fits = [cell.release(rng) for _ in range(k)]
            popmean = cell.truth if k == 1 else None
            result = mean_test(*fits, popmean=popmean)
            pvalues.append(result.pvalue)
            naive_rejections += noise_only(cell, fits, popmean, result.df)
        level = np.mean(np.array(pvalues) <= 0.05)
        distance = kstest(pvalues, "uniform").statistic
        print(
            f"| {cell.name} | {k} | {level:.3f} | {naive_rejections / trials:.3f} "
            f"| {distance:.3f} |",
            flush=True,
        )


def table_classes(cells, trials, seed):
    print("| class | n, eps | region | no region | number exact | level of a test |")
    print("|---|---|---|---|---|---|")
    for cell in cells:
        rng = np.random.default_rng((seed, cell.n, cell.geometry.dim))
        hits, wrong, none, pvalues = [], [], 0, []
        for _ in range(trials):
            fits = [fit for fit in (cell.release_class(rng) for _ in range(2)) if fit is not None]
            none += 2 - len(fits)
            for fit in fits:
                exact = dataclasses.replace(fit, count_noise=0.0)
                hits.append(bool(fit.region(LEVEL).contains(cell.truth)))
                wrong.append(bool(exact.region(LEVEL).contains(cell.truth)))
            if len(fits) == 2:
                pvalues.append(mean_test(*fits).pvalue)
        level = np.mean(np.array(pvalues) <= 0.05)
        shares = f"{np.mean(hits):.3f} | {none / (2 * trials):.3f} | {np.mean(wrong):.3f}"
        print(f"| {cell.name} | {cell.n}, {cell.epsilon:g} | {shares} | {level:.3f} |", flush=True)


def noise_only(cell, fits, popmean, df):
    """Whether a chi-square test that knows the noise only rejects."""
    base = fits[0].mean if popmean is None else popmean
    steps = np.stack([cell.geometry.log_coordinates(base, fit.mean) for fit in fits])
    weights = np.array([1.0 / fit.first_noise**2 for fit in fits])
    if popmean is None:
        steps = steps - weights @ steps / weights.sum()
    return float(weights @ np.sum(steps**2, axis=1)) > chi2.ppf(0.95, df)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=("regions", "far", "tests", "classes"))
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="cells on spaces, or names, with these words")
    parser.add_argument("--rows", default=":", help="rows of the table, such as 0:5")
    options = parser.parse_args()
    rows = slice(*(int(part) if part else None for part in options.rows.split(":")))
    if options.table == "tests":
        tests = [(k, c) for k, c in TESTS[rows] if options.only in f"{c.name} {c.geometry}"]
        table_tests(tests, options.trials, options.seed)
        return
    table, cells = {
        "regions": (table_regions, CELLS),
        "far": (table_far, FAR),
        "classes": (table_classes, CLASSES),
    }[options.table]
    cells = [c for c in cells[rows] if options.only in f"{c.name} {c.geometry}"]
    table(cells, options.trials, options.seed)


if __name__ == "__main__":
    main()
