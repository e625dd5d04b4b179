"""Private regression along geodesics: error and coverage of the curve, and of linear models.

Run:  python benchmarks/geodesic_regression.py [--part errors|coverage|linear] [--cells NAME ...]
                                               [--fits N] [--first SEED] [--quick]

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

Coverage: how often the 95 % regions at the two ends and in the middle hold the true point.

Part "linear": excess of the mean squared error on fresh rows over that of the true coefficients,
over the variance of the noise, of linear models with equal privacy.
"""

import argparse
import math
import warnings
from unittest import mock

import numpy as np

from skriemdp import PrivateGeodesicRegressor, PrivateNoisyAdaGrad, frechet_mean
from skriemdp.geometry import AffineInvariantSPD, Euclidean, Hyperboloid, LogEuclideanSPD, Sphere
from skriemdp.regression import geodesic_release
from skriemdp.regression.geodesic_model import GeodesicModel

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
    return mock.patch.object(geodesic_release, "_LEAST_FOR_TWO", math.inf)


def curve_cell(name, n, seeds, part):
    """Errors by column, and coverage by point and column."""
    geometry, noise, radius, _, epsilon = CELLS[name]
    curve = truth(geometry)
    aim, ends = curve.points(GRID), curve.points(ENDS)
    squares, held = {}, {}

    def note(column, points):
        squares.setdefault(column, []).append(np.mean(np.asarray(geometry.dist(points, aim)) ** 2))

    for seed in seeds:
        rng = np.random.default_rng(seed)
        X, y = draw(curve, n, noise, rng)
        bounds = {"center": None, "radius": radius, "feature_scale": 1.0}
        if part == "errors":
            exact = least_squares(geometry, X, y)
            note("non-private", exact.points(GRID))
            note("K-norm", imitation(exact, X, radius, epsilon, rng).points(GRID))
            mean = frechet_mean(y, geometry, tol=1e-6)
            note("constant", np.broadcast_to(mean, aim.shape))
            with one_release():
                model = PrivateGeodesicRegressor(geometry, epsilon=epsilon, **bounds).fit(X, y)
            note("one", model.predict(GRID).reshape(aim.shape))
        for column, settings in (("two", bounds), ("found", {})):
            if column == "found" and part != "errors":
                continue
            model = PrivateGeodesicRegressor(geometry, epsilon=epsilon, **settings).fit(X, y)
            note(column, model.predict(GRID).reshape(aim.shape))
            regions = model.confidence_region(ENDS)
            hits = [bool(r.contains(p[None])[0]) for r, p in zip(regions, ends, strict=True)]
            held.setdefault(column, []).append(hits)
    errors = {column: math.sqrt(np.mean(values)) for column, values in squares.items()}
    return errors, {column: np.mean(hits, axis=0) for column, hits in held.items()}


def curves(cells, seeds, part):
    if part == "errors":
        columns = ("non-private", "one", "two", "found", "K-norm", "constant")
        print("| | n | " + " | ".join(columns) + " | two / non-private |")
        print("|---" * (len(columns) + 3) + "|")
    else:
        print("| | n | fits | coverage at the ends and the middle | worst |\n|---|---|---|---|---|")
    for name in cells:
        for n in CELLS[name][3]:
            errors, held = curve_cell(name, n, seeds, part)
            if part == "errors":
                row = " | ".join(f"{errors[column]:.4f}" for column in columns)
                print(f"| {name} | {n} | {row} | {errors['two'] / errors['non-private']:.2f} |")
            else:
                hits = held["two"]
                words = ", ".join(f"{share:.3f}" for share in hits)
                print(f"| {name} | {n} | {len(seeds)} | {words} | {hits.min():.3f} |", flush=True)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=("errors", "coverage", "linear"))
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=CELLS)
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
        curves(cells, seeds, "errors")
    if arguments.part in (None, "coverage"):
        curves(cells, seeds, "coverage")
    if arguments.part in (None, "linear"):
        linear(fits, arguments.quick)


if __name__ == "__main__":
    main()
