"""How often confidence regions of private means hold the mean, and how good tangent components are.

Run:  OMP_NUM_THREADS=1 python benchmarks/inference.py --part coverage --runs 300

"coverage": every fit draws new records and new noise.  Columns: coverage of the 95 % region;
geometric mean of its axes over those of a chi-square region with the exact covariance (of the
same release, from the law of the records); coverage of the two bars that people draw without a
region, from the sampling covariance alone and from the noise alone; mean radius of the last ball
over that of the law's root mean square; share of fits that warn of a ball that cuts; mean of the
shares of records outside the ball that regions state as the largest possible.  The standard error
of a coverage is .013 for 300 runs.

"resampled": real records as populations; the airports need ``pip install --no-deps vega_datasets``.
Columns: coverage of the mean of the projected population and of its own mean, share of it outside
the last ball, mean of the upper bounds of that share that regions state, share of fits that warn.

"widening": the same for other factors on private radii.  "pca": share of the variance that two
private tangent components capture, over the best two.  "seconds": time of a fit with and without.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import pathlib
import time
import warnings

import numpy as np
from scipy.stats import chi2

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivatePrincipalEigenvector,
    PrivateTangentPCA,
    frechet_mean,
)
from skriemdp._mean import estimator
from skriemdp.datasets import digits_covariances
from skriemdp.geometry import (
    AffineInvariantSPD,
    Euclidean,
    GeodesicBall,
    Grassmann,
    Hyperboloid,
    LogEuclideanSPD,
    Sphere,
)

LEVEL = 0.95


def spectrum(dim, power, rms):
    values = np.arange(1.0, dim + 1.0) ** -power
    return rms**2 * values / values.sum()


def wrapped(geometry, n, rng, *, power=1.0, rms=0.3, offset=0.3, tail="normal"):
    """Records around a mean at distance `offset` of the base point, and that mean."""
    direction = np.ones(geometry.dim) / np.sqrt(geometry.dim)
    mean = np.asarray(geometry.exp_coordinates(geometry.base_point, offset * direction))
    z = rng.standard_normal((n, geometry.dim))
    if tail == "skewed":  # skewness 2
        z = rng.gamma(1.0, size=z.shape) - 1.0
    elif tail == "very skewed":  # skewness 4
        z = 2.0 * (rng.gamma(0.25, size=z.shape) - 0.25)
    elif tail == "cluster":  # 7 % of the records, four standard deviations away
        z = 0.7 * z + 2.8 * ((rng.random((n, 1)) < 0.07) - 0.07)
    z *= np.sqrt(spectrum(geometry.dim, power, rms))
    return np.asarray(geometry.exp_coordinates(mean, z)), mean


# Name, geometry, n, epsilon, keywords of the law (relative to the radius), of the fit.
def cells():
    flat, affine = LogEuclideanSPD(3), AffineInvariantSPD(3)
    public = [
        ("SPD(3) log-Euclidean R=2, tangent", flat, 500, 1.0, {}, {"mechanism": "tangent"}, 2.0),
        ("SPD(3) log-Euclidean R=2, tangent", flat, 500, 0.3, {}, {"mechanism": "tangent"}, 2.0),
        ("SPD(3) log-Euclidean R=2", flat, 2000, 1.0, {}, {}, 2.0),
        ("SPD(3) affine R=2", affine, 500, 1.0, {}, {}, 2.0),
        ("SPD(3) affine R=2", affine, 5000, 1.0, {}, {}, 2.0),
        ("SPD(3) affine R=1", affine, 2000, 3.0, {}, {}, 1.0),
        ("S2 R=1", Sphere(2), 300, 1.0, {}, {}, 1.0),
        ("S2 R=1", Sphere(2), 5000, 3.0, {}, {}, 1.0),
        ("S20 R=1", Sphere(20), 1000, 1.0, {}, {}, 1.0),
        ("S20 R=1, 1/k^2", Sphere(20), 5000, 3.0, {"power": 2.0}, {}, 1.0),
        ("H2 R=2", Hyperboloid(2), 1000, 0.3, {}, {}, 2.0),
        ("H2 R=2", Hyperboloid(2), 5000, 1.0, {}, {}, 2.0),
        ("R5 R=1", Euclidean(5), 300, 3.0, {}, {}, 1.0),
        ("R5 R=1", Euclidean(5), 2000, 1.0, {}, {}, 1.0),
        ("R5 R=1, skewness 2", Euclidean(5), 2000, 1.0, {"tail": "skewed"}, {}, 1.0),
        ("R5 R=1, skewness 4", Euclidean(5), 2000, 1.0, {"tail": "very skewed"}, {}, 1.0),
        ("R5 R=1, far cluster", Euclidean(5), 1000, 1.0, {"tail": "cluster"}, {}, 1.0),
        ("Grassmann(5,2) R=.6", Grassmann(5, 2), 2000, 1.0, {}, {}, 0.6),
        (
            "far centre, H2 R=2, offset 1",
            Hyperboloid(2),
            2000,
            3.0,
            {"offset": 0.5, "rms": 0.15},
            {"mechanism": "tangent"},
            2.0,
        ),
        (
            "far centre, S2 R=1, offset .6",
            Sphere(2),
            2000,
            3.0,
            {"offset": 0.6, "rms": 0.15},
            {"mechanism": "tangent"},
            1.0,
        ),
        (
            "R5, ball that cuts, skewness 2",
            Euclidean(5),
            2000,
            3.0,
            {"tail": "skewed", "offset": 0.0, "rms": 0.55},
            {"mechanism": "tangent"},
            1.0,
        ),
    ]
    for name, geometry, n, epsilon, law, fit, radius in public:
        scaled = {k: v for k, v in law.items() if k not in ("rms", "offset")}
        scaled["rms"] = radius * law.get("rms", 0.3)
        scaled["offset"] = radius * law.get("offset", 0.3)
        ball = {"center": geometry.base_point, "radius": radius}
        yield name, geometry, n, epsilon, scaled, ball | fit
    found = [
        ("R5 found", Euclidean(5), 2000, 1.0, {}),
        ("R5 found", Euclidean(5), 45, 3.0, {}),
        ("R5 found", Euclidean(5), 120, 1.0, {}),
        ("R5 found, skewness 2", Euclidean(5), 2000, 1.0, {"tail": "skewed"}),
        ("R5 found, skewness 4", Euclidean(5), 2000, 1.0, {"tail": "very skewed"}),
        ("R5 found, far cluster", Euclidean(5), 1000, 1.0, {"tail": "cluster"}),
        ("SPD(3) affine found", affine, 2000, 1.0, {"rms": 0.6, "offset": 1.0}),
        ("SPD(3) affine found, rms 1.5", affine, 2000, 1.0, {"rms": 1.5, "offset": 1.0}),
        ("SPD(4) affine found, rms 4", AffineInvariantSPD(4), 2000, 1.0, {"rms": 4.0}),
        ("S2 found", Sphere(2), 2000, 1.0, {}),
        ("S2 found", Sphere(2), 60, 3.0, {}),
        ("H2 found, offset 3", Hyperboloid(2), 2000, 1.0, {"rms": 0.6, "offset": 3.0}),
        ("S20 found", Sphere(20), 5000, 1.0, {}),
        ("R5 found, people of 1 to 20 rows", Euclidean(5), 1000, 1.0, {"tail": "people"}),
    ]
    for name, geometry, n, epsilon, law in found:
        yield name, geometry, n, epsilon, law, {}


def people(geometry, n, rng, **law):
    """Rows of n people, 1 to 20 each, of a flat space; who owns them; and the mean of people.

    Half of a row's variance is the person's.
    """
    X, mean = wrapped(geometry, n, rng, **law)
    owner = np.repeat(np.arange(n), rng.integers(1, 21, size=n))
    noise, _ = wrapped(geometry, len(owner), rng, **(law | {"offset": 0.0}))
    rows = mean + np.sqrt(0.5) * (X[owner] - mean) + np.sqrt(0.5) * noise
    return rows, owner, mean


def mean_in_ball(geometry, X, seed, truth, fit, law):
    """Mean of the law projected on the ball of a fit: what its region covers."""
    ball = GeodesicBall(geometry, fit.center_, fit.radius_)
    if np.mean(ball.distances(X) > fit.radius_) < 2e-3:
        return truth
    X, _ = wrapped(geometry, 10_000, np.random.default_rng([7, seed]), **law)
    # The error of the large sample is nearly the same in both means.
    raw = frechet_mean(X, geometry, center=truth, tol=1e-7)
    cut = frechet_mean(np.asarray(ball.project(X)), geometry, center=truth, tol=1e-7)
    shift = geometry.log_coordinates(truth, cut) - geometry.log_coordinates(truth, raw)
    return np.asarray(geometry.exp_coordinates(truth, shift))


def covered(covariance, truth, center, geometry, threshold):
    u = np.asarray(geometry.log_coordinates(center, truth))
    return bool(u @ np.linalg.solve(covariance + 1e-12 * np.eye(len(u)), u) <= threshold)


def run_cell(geometry, n, epsilon, law, fit, seeds):
    """Coverages, axes over those of the exact covariance, radius, warnings."""
    dim = geometry.dim
    usual = chi2.ppf(LEVEL, dim)
    rows = []
    exact = np.diag(spectrum(dim, law.get("power", 1.0), law.get("rms", 0.3)))
    owned = law.get("tail") == "people"
    if owned:
        exact *= 0.5 + 0.5 * np.mean(1.0 / np.arange(1, 21))
    for seed in seeds:
        rng = np.random.default_rng([seed, n])
        groups = None
        if owned:
            X, groups, truth = people(geometry, n, rng, **law)
        else:
            X, truth = wrapped(geometry, n, rng, **law)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mean = PrivateFrechetMean(
                geometry, uncertainty=True, epsilon=epsilon, random_state=seed, **fit
            ).fit(X, groups=groups)
        region = mean.confidence_region(LEVEL)
        projected = truth if owned else mean_in_ball(geometry, X, seed, truth, mean, law)
        sampling = mean.tangent_covariance_ / n
        noise = mean.noise_scale_**2 * np.eye(dim)
        ideal = np.linalg.eigvalsh(exact / n + noise) * usual
        ratio = np.exp(np.mean(np.log(region.semi_axes)) - 0.5 * np.mean(np.log(ideal)))
        rows.append(
            (
                bool(region.contains(projected)),
                ratio,
                covered(sampling, projected, mean.mean_, geometry, usual),
                covered(noise, projected, mean.mean_, geometry, usual),
                bool(region.contains(truth)),
                mean.radius_ / law.get("rms", 0.3),
                any("lie outside the ball" in str(w.message) for w in caught),
                region.outside,
            )
        )
    return np.array(rows, dtype=float).mean(axis=0)


HEAD = (
    "| cell | n, eps | region | axes | sampling only | noise only | raw mean | radius/rms | warns "
    "| said at most |"
)


def coverage(seeds, only=()):
    print(HEAD)
    print("|---" * 10 + "|")
    chosen = []
    for name, geometry, n, epsilon, law, fit in cells():
        if only and not any(word in name for word in only):
            continue
        result = run_cell(geometry, n, epsilon, law, fit, seeds)
        chosen.append(result[0])
        values = " | ".join(f"{v:.3f}" for v in result)
        print(f"| {name} | {n}, {epsilon:g} | {values} |", flush=True)
    print(f"\nmean {np.mean(chosen):.3f}, least {np.min(chosen):.3f}")


def airports():
    """Airports of the United States on the globe, of vega_datasets; None without it."""
    found = importlib.util.find_spec("vega_datasets")
    if found is None:
        return None
    table = pathlib.Path(found.submodule_search_locations[0], "_data", "airports.csv")
    with table.open() as file:
        rows = [(float(row["longitude"]), float(row["latitude"])) for row in csv.DictReader(file)]
    return on_globe(np.array(rows))


def on_globe(degrees):
    """Points of the sphere at these longitudes and latitudes."""
    longitude, latitude = np.radians(degrees).T
    level = np.cos(latitude)
    return np.stack(
        [level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=1
    )


def populations():
    """Names, geometries, records that are taken for a population, and fits."""
    center = np.diag([0.11, 0.11, 0.08, 0.02, 0.02])
    fits = {"public ball": {"center": center, "radius": 3.0}, "found": {}}
    yield "digits_covariances", AffineInvariantSPD(5), digits_covariances()[0], fits
    X = airports()
    if X is None:
        print("airports: left out, vega_datasets is not installed")
        return
    center = on_globe(np.array([[-100.0, 40.0]]))[0]
    fits = {
        "public ball, 1.3": {"center": center, "radius": 1.3},
        "public ball, 1.3, tangent": {"center": center, "radius": 1.3, "mechanism": "tangent"},
        "found": {},
        "ball that cuts, .5": {"center": center, "radius": 0.5},
    }
    yield "airports", Sphere(2), X, fits


def resampled(seeds, only=()):
    """Real records as a population, 1000 of them drawn with replacement."""
    print(
        "| population, ball | projected mean | mean | clipped | said at most | warns |\n"
        "|---|---|---|---|---|---|"
    )
    for name, geometry, X, fits in populations():
        if only and not any(word in name for word in only):
            continue
        truth = frechet_mean(X, geometry)
        for ball, fit in fits.items():
            rows = [resampled_once(geometry, X, truth, seed, fit) for seed in seeds]
            shares = " | ".join(f"{value:.3f}" for value in np.mean(rows, axis=0))
            print(f"| {name}, {ball} | {shares} |", flush=True)


def resampled_once(geometry, X, truth, seed, fit):
    """What the region of one sample holds, the share of records clipped, and what is said of it."""
    sample = X[np.random.default_rng(seed).integers(len(X), size=1000)]
    mean = PrivateFrechetMean(geometry, uncertainty=True, random_state=seed, **fit)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        region = mean.fit(sample).confidence_region(LEVEL)
    ball = GeodesicBall(geometry, mean.center_, mean.radius_)
    clipped, projected = float(np.mean(ball.distances(X) > mean.radius_)), truth
    if clipped > 0.0:
        projected = frechet_mean(np.asarray(ball.project(X)), geometry, center=truth)
    warned = any("lie outside the ball" in str(w.message) for w in caught)
    holds = bool(region.contains(projected)), bool(region.contains(truth))
    return (*holds, clipped, region.outside, warned)


def widening(seeds, only=()):
    for factor in (1.0, 1.15, 1.3, 1.5):
        estimator.WIDER = factor
        print(f"\nfactor {factor}\n")
        coverage(seeds, only)


def two_fits(X, geometry, epsilon):
    """Components from a mean and the second moment of logarithms there, each for half of mu^2."""
    parts = PrivacyAccountant(epsilon=epsilon, delta=1e-5).split(2, gaussian=True)
    first, second = (part.whole() for part in parts)
    mean = PrivateFrechetMean(
        geometry, center=geometry.base_point, radius=1.0, noise="gaussian", **first
    ).fit(X)
    axes = PrivatePrincipalEigenvector(2, center="assume", **second)
    return axes.fit(mean.transform(X)).components_


def captured(geometry, n, epsilon, seeds):
    """Share of the variance in two private components, over the best two, of one fit and of two."""
    values = spectrum(geometry.dim, 1.5, 0.3)
    shares, errors = [], []
    for seed in seeds:
        X, truth = wrapped(geometry, n, np.random.default_rng([seed, n]), power=1.5)
        fit = PrivateTangentPCA(
            2, geometry, center=geometry.base_point, radius=1.0, epsilon=epsilon, random_state=seed
        )
        fit.fit(X)
        both = fit.components_, two_fits(X, geometry, epsilon)
        shares.append([np.sum(axes**2 @ values) / values[:2].sum() for axes in both])
        errors.append(geometry.dist(fit.mean_, truth) ** 2)
    return *np.mean(shares, axis=0), np.sqrt(np.mean(errors))


def pca(seeds):
    print("| d, n, eps | captured | by two fits | rms error of the mean |\n|---|---|---|---|")
    for dim, n, epsilon in ((6, 500, 1.0), (6, 2000, 0.3), (21, 2000, 1.0), (55, 10_000, 1.0)):
        share, other, error = captured(Euclidean(dim), n, epsilon, seeds)
        print(f"| {dim}, {n}, {epsilon:g} | {share:.3f} | {other:.3f} | {error:.3f} |", flush=True)


def seconds(seeds):
    print("| data | without | with | ratio |\n|---|---|---|---|")
    for name, geometry, n in (
        ("R20, n=20000", Euclidean(20), 20_000),
        ("SPD(5) affine, n=5000", AffineInvariantSPD(5), 5000),
        ("S2, n=20000", Sphere(2), 20_000),
    ):
        X, _ = wrapped(geometry, n, np.random.default_rng(0))
        times = []
        for uncertain in (False, True):
            fits = []
            for seed in [*seeds][:7]:
                begin = time.perf_counter()
                PrivateFrechetMean(geometry, uncertainty=uncertain, random_state=seed).fit(X)
                fits.append(time.perf_counter() - begin)
            times.append(np.median(fits))
        print(f"| {name} | {times[0]:.3f} | {times[1]:.3f} | {times[1] / times[0]:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("coverage", "widening", "resampled", "pca", "seconds"))
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--first", type=int, default=100, help="the first of the seeds")
    parser.add_argument("--only", nargs="*", default=(), help="cells whose names hold a word")
    parser.add_argument("--quick", action="store_true", help="five runs of three cells")
    options = parser.parse_args()
    runs = 5 if options.quick else options.runs
    seeds = range(options.first, options.first + runs)
    only = ("R5 R=1", "S2 found") if options.quick and not options.only else options.only
    warnings.simplefilter("ignore", UserWarning)
    if options.part in (None, "coverage"):
        coverage(seeds, only)
    if options.part == "widening":
        widening(seeds, only)
    if options.part in (None, "resampled"):
        resampled(seeds, options.only)
    if options.part in (None, "pca"):
        pca(seeds)
    if options.part in (None, "seconds"):
        seconds(seeds)


if __name__ == "__main__":
    main()
