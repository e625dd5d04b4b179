"""Private regression along geodesics: error and coverage of the curve, and of linear models.

Run:  python benchmarks/geodesic_regression.py [--part errors|coverage|linear|wide]
                     [--cells NAME ...] [--sizes n ...] [--fits N] [--first SEED] [--quick]

Parts "errors" and "coverage": one feature, uniform on [-1, 1]; responses about a geodesic of length
1.2 whose middle lies 0.3 from the public centre, with Gaussian noise of standard deviation 0.1 (or
as a cell says) along every direction; delta = 1e-5.  Columns: root mean square distance of the
fitted curve from the true one, over 21 points between the ends and over all fits.

* non-private: least squares by the same residuals until they no longer change;
* one, two releases: of PrivateGeodesicRegressor with public bounds; and with bounds that it finds;
* K-norm: an imitation, pure epsilon: the non-private fit plus a draw of the K-norm gradient
  mechanism's density ``exp(-epsilon |A h| / (2 Delta))`` in the linearised problem, A the second
  moment of (1, x) and Delta the bound of a record's gradient in the public ball.  No normalising
  constants are compared, so this flatters it;
* constant: the private model that says nothing, the non-private mean.

Coverage: how often the 95 % regions at one end, in the middle and at the other end hold the true
point; the mean of the quadratic form of the error over the dimension (1: the covariance that a fit
reports is that of its error); and the longest mean error, over its standard deviation along that
direction (fits that go on from another seed can be averaged).

Part "linear": excess of the mean squared error on fresh rows over that of the true coefficients,
over the variance of the noise, of linear models with equal privacy.

Part "wide": mean squared distance of the predictions to 1000 new responses, constructor defaults,
n = 3000, delta = 1e-5; of the non-private mean, and at four epsilons.  "clusters r": four clusters
of spread .7 at distance r from one point, of which features tell a part; "slopes s": three standard
normal features that move the response by s each, and residuals of spread 1 (S^3: .5).
"""

import argparse
import functools
import math
import warnings
from unittest import mock

import numpy as np

from skriemdp import PrivateGeodesicRegressor, PrivateNoisyAdaGrad, frechet_mean
from skriemdp._regression import geodesic_releases
from skriemdp._regression.geodesic_model import GeodesicModel
from skriemdp.geometry import AffineInvariantSPD, Euclidean, Hyperboloid, LogEuclideanSPD, Sphere

RADIUS = 1.3
# geometry, standard deviation of the residuals, public radius, n, epsilon
CELLS = {
    "S2": (Sphere(2), 0.1, RADIUS, (1000, 5000), 1.0),
    "H2": (Hyperboloid(2), 0.1, RADIUS, (5000,), 1.0),
    "R3": (Euclidean(3), 0.1, RADIUS, (5000,), 1.0),
    "SPD5-log": (LogEuclideanSPD(5), 0.1, 1.5, (1000, 5000), 1.0),
    "SPD5": (AffineInvariantSPD(5), 0.1, 1.5, (1000, 5000), 1.0),
    "SPD3": (AffineInvariantSPD(3), 0.1, RADIUS, (3000,), 1.0),
    "S2-wide": (Sphere(2), 0.25, 1.5, (2000,), 1.0),
    "SPD3-wide": (AffineInvariantSPD(3), 0.25, 1.8, (3000,), 1.0),
}
GRID = np.linspace(-1.0, 1.0, 21)[:, None]
ENDS = np.array([[-1.0], [0.0], [1.0]])


def truth(geometry):
    """The true curve; the same for every run."""
    rng = np.random.default_rng(5)
    middle, slope = rng.normal(size=(2, geometry.dim))
    base = geometry.exp_coordinates(geometry.base_point, 0.3 * middle / np.linalg.norm(middle))
    return GeodesicModel(geometry, base, 0.6 * slope[None] / np.linalg.norm(slope))


def draw(curve, n, noise, rng):
    X = rng.uniform(-1.0, 1.0, size=(n, 1))
    residuals = noise * rng.normal(size=(n, curve.geometry.dim))
    return X, np.asarray(curve.geometry.exp_coordinates(curve.points(X), residuals))


def least_squares(geometry, X, y):
    """Non-private: where residuals, carried to the base point, no longer depend on the feature."""
    model = GeodesicModel(geometry, geometry.base_point, np.zeros((X.shape[1], geometry.dim)))
    solve = np.linalg.pinv(np.concatenate([np.ones((len(X), 1)), X], axis=1))
    for _ in range(8):
        model = model.moved(solve @ model.residuals(X, y), math.inf)
    return model


def imitation(model, X, radius, epsilon, rng):
    """The K-norm draw around a non-private fit."""
    rows = np.concatenate([np.ones((len(X), 1)), X], axis=1)
    size = (rows.shape[1], model.geometry.dim)
    delta = math.sqrt(2.0) * radius
    direction = rng.normal(size=size)
    length = rng.gamma(math.prod(size), 2.0 * delta / epsilon)
    change = np.linalg.solve(rows.T @ rows, length * direction / np.linalg.norm(direction))
    return model.moved(change, radius)


def one_release():
    return mock.patch.object(geodesic_releases, "_LEAST_FOR_TWO", math.inf)


def error_cell(name, n, seeds):
    """Errors by column."""
    geometry, noise, radius, _, epsilon = CELLS[name]
    curve = truth(geometry)
    aim, squares = curve.points(GRID), {}

    def note(column, points):
        squares.setdefault(column, []).append(np.mean(np.asarray(geometry.dist(points, aim)) ** 2))

    for seed in seeds:
        rng = np.random.default_rng(seed)
        X, y = draw(curve, n, noise, rng)
        bounds = {"center": geometry.base_point, "radius": radius, "feature_scale": 1.0}
        exact = least_squares(geometry, X, y)
        note("non-private", exact.points(GRID))
        note("K-norm", imitation(exact, X, radius, epsilon, rng).points(GRID))
        mean = frechet_mean(y, geometry, tol=1e-6)
        note("constant", np.broadcast_to(mean, aim.shape))
        with one_release():
            model = PrivateGeodesicRegressor(geometry, epsilon=epsilon, **bounds).fit(X, y)
        note("one", model.predict(GRID).reshape(aim.shape))
        for column, settings in (("two", bounds), ("found", {})):
            model = PrivateGeodesicRegressor(geometry, epsilon=epsilon, **settings).fit(X, y)
            note(column, model.predict(GRID).reshape(aim.shape))
    return {column: math.sqrt(np.mean(values)) for column, values in squares.items()}


def coverage_cell(name, n, seeds):
    """Shares of regions that hold, mean quadratic forms, and mean errors over their deviation."""
    geometry, noise, radius, _, epsilon = CELLS[name]
    curve = truth(geometry)
    ends, held, forms, errors = curve.points(ENDS), [], [], []
    for seed in seeds:
        X, y = draw(curve, n, noise, np.random.default_rng(seed))
        bounds = {"center": geometry.base_point, "radius": radius, "feature_scale": 1.0}
        model = PrivateGeodesicRegressor(geometry, epsilon=epsilon, **bounds).fit(X, y)
        regions = model.confidence_region(ENDS)
        held.append([bool(r.contains(p[None])[0]) for r, p in zip(regions, ends, strict=True)])
        points = np.stack([region.center for region in regions])
        away = np.asarray(geometry.log_coordinates(points, ends))
        solved = [np.linalg.solve(r.covariance, v) for r, v in zip(regions, away, strict=True)]
        forms.append(np.einsum("mi,mi->m", away, solved) / geometry.dim)
        errors.append(np.asarray(geometry.log_coordinates(ends, points)))
    mean = np.mean(errors, axis=0)
    along = np.einsum("nmi,mi->nm", errors, mean / np.linalg.norm(mean, axis=1, keepdims=True))
    bias = along.mean(axis=0) / along.std(axis=0)
    return np.mean(held, axis=0), np.mean(forms, axis=0), bias


def errors(cells, sizes, seeds):
    columns = ("non-private", "one", "two", "found", "K-norm", "constant")
    print("| | n | " + " | ".join(columns) + " | two / non-private |")
    print("|---" * (len(columns) + 3) + "|")
    for name in cells:
        for n in sizes or CELLS[name][3]:
            found = error_cell(name, n, seeds)
            row = " | ".join(f"{found[column]:.4f}" for column in columns)
            ratio = found["two"] / found["non-private"]
            print(f"| {name} | {n} | {row} | {ratio:.2f} |", flush=True)


def coverage(cells, sizes, seeds):
    print("| | n | fits | coverage | worst | mean form / dimension | mean error / deviation |")
    print("|---|---|---|---|---|---|---|")
    for name in cells:
        for n in sizes or CELLS[name][3]:
            columns = coverage_cell(name, n, seeds)
            words = [", ".join(f"{value:.3f}" for value in column) for column in columns]
            words.insert(1, f"{columns[0].min():.3f}")
            print(f"| {name} | {n} | {len(seeds)} | {' | '.join(words)} |", flush=True)


def linear(fits, quick):
    """Linear regression beside the library's linear models; noise variance one half of all."""
    print("| n | features | found bounds | public bounds | AdaGrad, squared | AdaGrad, huber |")
    print("|---|---|---|---|---|---|")
    for n, p in ((1000, 3), (5000, 3), (5000, 20), (20000, 20), (20000, 100)):
        if quick and n * p > 50_000:
            continue
        rows = []
        for fit in range(fits):
            rng = np.random.default_rng(fit)
            slopes = rng.normal(size=p)
            slopes *= 0.2 / np.linalg.norm(slopes)
            X, fresh = rng.normal(size=(n, p)), rng.normal(size=(2000, p))
            y = np.clip(X @ slopes + 0.2 * rng.normal(size=n), -1.0, 1.0)
            public = {"feature_scale": 1.3 * math.sqrt(p + 2.0), "radius": 1.0}
            models = (
                PrivateGeodesicRegressor(),
                PrivateGeodesicRegressor(**public),
                PrivateNoisyAdaGrad("squared_error", target_range=(-1.0, 1.0)),
                PrivateNoisyAdaGrad("huber", target_range=(-1.0, 1.0)),
            )
            gaps = [m.fit(X, y).predict(fresh) - fresh @ slopes for m in models]
            rows.append([np.mean(gap**2) / 0.04 for gap in gaps])
        words = " | ".join(f"{value:.4f}" for value in np.mean(rows, axis=0))
        print(f"| {n} | {p} | {words} |", flush=True)


def clusters(geometry, distance, rng, n):
    angles = 0.5 * np.pi * np.arange(4)
    centers, label = np.zeros((4, geometry.dim)), rng.integers(4, size=n)
    centers[:, 0], centers[:, 1] = distance * np.cos(angles), distance * np.sin(angles)
    X = np.eye(4)[label][:, :3] + 0.7 * rng.normal(size=(n, 3))
    middles = np.asarray(geometry.exp_coordinates(geometry.base_point, centers))[label]
    steps = 0.5 * rng.normal(size=(n, geometry.dim))
    return X, np.asarray(geometry.exp_coordinates(middles, steps))


def sloping(geometry, slope, rng, n):
    slopes = np.random.default_rng(5).normal(size=(3, geometry.dim))
    slopes *= slope / np.linalg.norm(slopes, axis=1, keepdims=True)
    X, spread = rng.normal(size=(n, 3)), 0.5 if geometry == Sphere(3) else 1.0
    steps = spread * rng.normal(size=(n, geometry.dim)) / math.sqrt(geometry.dim)
    model = GeodesicModel(geometry, geometry.base_point, slopes)
    return X, np.asarray(geometry.exp_coordinates(model.points(X), steps))


WIDE = {
    **{
        f"H2, clusters {r:g}": (Hyperboloid(2), functools.partial(clusters, Hyperboloid(2), r))
        for r in (1.0, 2.0, 3.5)
    },
    **{
        f"{name}, slopes {s:g}": (geometry, functools.partial(sloping, geometry, s))
        for name, geometry in (
            ("R4", Euclidean(4)),
            ("S3", Sphere(3)),
            ("H2", Hyperboloid(2)),
            ("SPD4", AffineInvariantSPD(4)),
        )
        for s in (0.0, 0.15, 0.5 if name != "S3" else 0.3)
    },
}


def wide(seeds, quick):
    epsilons = (0.3, 1.0, 3.0, 30.0)
    print("| | constant | " + " | ".join(f"epsilon = {e:g}" for e in epsilons) + " |")
    print("|---" * (len(epsilons) + 2) + "|")
    for name, (geometry, draw) in WIDE.items():
        if quick and name.startswith("SPD"):
            continue
        found = []
        for seed in seeds:
            rng = np.random.default_rng([11, seed])
            (X, y), (Z, aim) = draw(rng, 3000), draw(rng, 1000)
            guesses = [frechet_mean(y, geometry, tol=1e-6)]
            for epsilon in epsilons:
                model = PrivateGeodesicRegressor(geometry, epsilon=epsilon, random_state=seed)
                guesses.append(model.fit(X, y).predict(Z).reshape(aim.shape))
            found.append([np.mean(np.asarray(geometry.dist(g, aim)) ** 2) for g in guesses])
        words = " | ".join(f"{value:.3f}" for value in np.mean(found, axis=0))
        print(f"| {name} | {words} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=("errors", "coverage", "linear", "wide"))
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=CELLS)
    parser.add_argument("--sizes", nargs="+", type=int, help="numbers of records, for all cells")
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    cells, fits = arguments.cells, arguments.fits
    if arguments.quick:
        cells, fits = ["S2"], 3
    seeds = range(arguments.first, arguments.first + fits)
    if arguments.part in (None, "errors"):
        errors(cells, arguments.sizes, seeds)
    if arguments.part in (None, "coverage"):
        coverage(cells, arguments.sizes, seeds)
    if arguments.part in (None, "linear"):
        linear(fits, arguments.quick)
    if arguments.part in (None, "wide"):
        wide(seeds, arguments.quick)


if __name__ == "__main__":
    main()
