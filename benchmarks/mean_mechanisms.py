"""Error of every mechanism of the private mean at equal certified privacy: Markdown tables.

Run:  python benchmarks/mean_mechanisms.py [--fits 60] [--part PART]

* wishart: SPD(2), Wishart matrices rejected to the unit ball, the papers' setting; E d^2;
* spaces: E d^2 over the limit d (Delta/mu)^2 on other manifolds;
* spread: data that fill a part of the ball (rms .3 and .1 of its radius), as ratios;
* spheres: the output perturbations beside one shot at epsilon = 1 and delta = 0 on S^2 and S^20, by
  radius, E d^2 over the limit;
* auto: the default mechanism in a public ball, and with nothing given, beside one shot: the same
  ratios for data that fill the ball, and for clouds of rms .3, .1 and .03 of its radius;
* step: one step in small found balls of negative curvature: root mean squares over those of means
  that are always iterated, for round, skewed and clustered data, at epsilon = 1;
* secret-n: the price of a secret number of records: E d^2 over that of the default with a public
  number, n = 1000 records of a Euclidean ball at 0, .3 and .9 of its radius, one release.

Each entry averages `--fits` fits over 6 data sets; differences below 15 % are noise at 60 fits.
"Paper's DP-RGD" is T = n steps of 0.01 from a random public start, with calibrated noise.
"""

import argparse
import itertools
import math
import warnings
from unittest import mock

import numpy as np

from skriemdp import PrivacyAccountant, PrivateFrechetMean, frechet_mean
from skriemdp._mean import planning
from skriemdp.datasets import make_cloud
from skriemdp.geometry import SPD, Hyperboloid, Sphere
from skriemdp.privacy import gaussian_mu

BUDGETS = ((0.1, 1e-3), (1.0, 1e-5))
PARTS = ("wishart", "spaces", "spread", "auto", "spheres", "step", "secret-n")
DATA_SETS = 6
OURS = {
    "tangent, Gaussian": {"mechanism": "tangent", "noise": "gaussian", "shrink": None},
    "tangent, Laplace": {"mechanism": "tangent", "noise": "laplace", "shrink": None},
    "tangent, Laplace, shrunken": {"mechanism": "tangent", "noise": "laplace"},
    "tangent, pure Laplace": {"mechanism": "tangent", "noise": "laplace", "delta": 0.0},
    "gradient": {"mechanism": "gradient"},
    "auto": {},
}


def wishart(n, rng):
    """SPD(2) Wishart matrices (3 degrees of freedom, mean identity) within distance 1 of I."""
    geometry, found = SPD(2), []
    while sum(map(len, found)) < n:
        factors = rng.standard_normal((4 * n, 2, 3)) / math.sqrt(3.0)
        matrices = factors @ np.swapaxes(factors, 1, 2)
        found.append(matrices[geometry.dist(np.eye(2), matrices) <= 1.0])
    return np.concatenate(found)[:n]


def errors(geometry, radius, draw, n, budget, fits, rng, paper=True):
    """Mean squared distance of every mechanism, and of the public centre."""
    total = {}
    for _ in range(DATA_SETS):
        X = draw(n, rng)
        target = frechet_mean(X, geometry)
        total.setdefault("public centre, no data", []).append(
            float(geometry.dist(target, geometry.base_point)) ** 2
        )
        settings = dict(OURS)
        if paper:
            coordinates = rng.standard_normal(geometry.dim)
            start = geometry.exp_coordinates(geometry.base_point, 0.5 * radius * coordinates)
            settings["paper's DP-RGD"] = {
                "mechanism": "gradient",
                "n_steps": n,
                "step_size": 0.01,
                "start": start,
            }
        for name, parameters in settings.items():
            epsilon, delta = budget
            for _ in range(max(1, fits // DATA_SETS)):
                model = PrivateFrechetMean(
                    geometry,
                    center=geometry.base_point,
                    radius=radius,
                    **{"epsilon": epsilon, "delta": delta, **parameters},
                ).fit(X)
                distance = float(geometry.dist(target, model.mean_))
                total.setdefault(name, []).append(distance**2)
    return {name: float(np.mean(values)) for name, values in total.items()}


def show(head, rows, names):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name in names:
        print(f"| {name} | " + " | ".join(f"{row[name]:.3g}" for row in rows) + " |")
    print()


def part_wishart(fits):
    for budget in BUDGETS:
        print(f"SPD(2), Wishart in the unit ball, (epsilon, delta) = {budget}: E d^2\n")
        rows, sizes = [], (20, 50, 100, 300, 1000)
        for n in sizes:
            row = errors(
                SPD(2), 1.0, wishart, n, budget, fits, np.random.default_rng(n), paper=n <= 300
            )
            row["limit d(Delta/mu)^2"] = 3 * (2 / n / gaussian_mu(*budget)) ** 2
            row.setdefault("paper's DP-RGD", math.nan)
            rows.append(row)
        show(
            ["n", *map(str, sizes)],
            rows,
            ["limit d(Delta/mu)^2", *rows[0].keys() - {"limit d(Delta/mu)^2"}],
        )


SPACES = (
    ("SPD(2)", SPD(2), 1.0),
    ("SPD(5)", SPD(5), 1.0),
    ("SPD(10)", SPD(10), 1.0),
    ("H^2", Hyperboloid(2), 1.0),
    ("H^10", Hyperboloid(10), 1.0),
    ("S^2", Sphere(2), math.pi / 8),
    ("S^20", Sphere(20), math.pi / 8),
    ("BW(2)", SPD(2, metric="bures-wasserstein"), 0.3),
)
SHAPES = (("fill", None, 0.1), ("rms .3", 0.3, 0.5), ("rms .1", 0.1, 0.3), ("rms .03", 0.03, 0.3))


def part_auto(fits, n, only=()):
    """One data set for each fit; all methods see the same ones."""
    for epsilon, delta in BUDGETS[::-1]:
        print(f"n = {n}, (epsilon, delta) = {(epsilon, delta)}: E d^2 / limit")
        print("in the public ball (one shot; with nothing given)\n")
        print("| | " + " | ".join(name for name, _, _ in SHAPES) + " |\n|---|---|---|---|---|")
        for name, geometry, radius in SPACES:
            if only and name not in only:
                continue
            limit = geometry.dim * (2 * radius / n / gaussian_mu(epsilon, delta)) ** 2
            ball = {"center": geometry.base_point, "radius": radius}
            ways = ball, ball | {"mechanism": "tangent"}, {}
            cells = []
            for _, spread, offset in SHAPES:
                found = np.zeros((len(ways), fits))
                for k in range(fits):
                    rng = np.random.default_rng(90_000 + k)
                    X = make_cloud(
                        geometry, n, radius=radius, offset=offset, spread=spread, rng=rng
                    )
                    target = frechet_mean(X, geometry)
                    for way, parameters in enumerate(ways):
                        model = PrivateFrechetMean(
                            geometry, epsilon=epsilon, delta=delta, **parameters
                        ).fit(X)
                        found[way, k] = float(geometry.dist(target, model.mean_)) ** 2 / limit
                auto, one, searched = found.mean(axis=1)
                cells.append(f"{auto:.2g} ({one:.2g}; {searched:.2g})")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        print()


def part_spheres(fits, n=1000, epsilon=1.0):
    """One data set for each fit; all mechanisms see the same ones."""
    radii = (math.pi / 8, 0.5, math.pi / 4, 1.0, 1.2, 1.4)
    print(f"n = {n}, epsilon = {epsilon:g}, delta = 0: E d^2 / (d (2 radius / (n mu))^2) at 1e-5\n")
    print("| | " + " | ".join(f"{r:.2f}" for r in radii) + " |\n|" + "---|" * (len(radii) + 1))
    for dim in (2, 20):
        geometry, rows = Sphere(dim), {}
        for radius in radii:
            limit = dim * (2 * radius / n / gaussian_mu(epsilon, 1e-5)) ** 2
            found = {"public centre, no data": []}
            for k in range(fits):
                rng = np.random.default_rng(70_000 + k)
                X = make_cloud(geometry, n, radius=radius, offset=0.1, spread=None, rng=rng)
                target = frechet_mean(X, geometry)
                away = float(geometry.dist(target, geometry.base_point))
                found["public centre, no data"].append(away**2 / limit)
                for name in ("tangent", "laplace", "k-norm"):
                    shrink = {"shrink": None} if name == "tangent" else {}
                    model = PrivateFrechetMean(
                        geometry, None, radius, name, epsilon=epsilon, delta=0.0, **shrink
                    )
                    try:
                        model.fit(X)
                    except ValueError:  # refused, by public numbers
                        found.setdefault(name, []).append(math.nan)
                        continue
                    error = float(geometry.dist(target, model.mean_)) ** 2
                    found.setdefault(name, []).append(error / limit)
            for name, values in found.items():
                rows.setdefault(name, []).append(float(np.mean(values)))
        for name, values in rows.items():
            cells = ("refused" if math.isnan(v) else f"{v:.3g}" for v in values)
            print(f"| S^{dim}, {name} | " + " | ".join(cells) + " |", flush=True)


def part_spaces(fits, spread=None, offset=0.1):
    spaces = SPACES[1:]
    for budget in BUDGETS:
        print(f"n = 1000, (epsilon, delta) = {budget}: E d^2 / limit\n")
        rows = []
        for _, geometry, radius in spaces:

            def draw(n, rng, geometry=geometry, radius=radius):
                return make_cloud(geometry, n, radius=radius, offset=offset, spread=spread, rng=rng)

            limit = geometry.dim * (2 * radius / 1000 / gaussian_mu(*budget)) ** 2
            row = errors(
                geometry, radius, draw, 1000, budget, fits, np.random.default_rng(1), paper=False
            )
            rows.append({name: value / limit for name, value in row.items()})
        show(["mechanism", *(name for name, _, _ in spaces)], rows, rows[0])


def shaped(geometry, n, spread, shape, rng):
    """Records of this root mean square distance from a point .5 off the base point."""
    dim = geometry.dim
    away, line = (v / np.linalg.norm(v) for v in rng.standard_normal((2, dim)))
    steps = rng.standard_normal((n, dim))
    if shape == "skewed":
        steps = rng.exponential(size=(n, dim)) - 1.0
    steps *= spread / math.sqrt(dim)
    if shape == "clusters":
        ends = np.where(rng.random((n, 1)) < 0.8, -0.5, 2.0)
        steps = 0.2 * steps + spread * ends * line
    center = geometry.exp_coordinates(geometry.base_point, 0.5 * away)
    return np.asarray(geometry.exp_coordinates(center, steps))


def part_step(fits):
    print("| | n | spread | round | skewed | clusters |\n|---|---|---|---|---|---|")
    for geometry in (SPD(3), SPD(5), Hyperboloid(2), Hyperboloid(5)):
        for n, spread in itertools.product((300, 2000, 20_000), (0.15, 0.3, 0.6, 0.9)):
            cells = []
            for shape in ("round", "skewed", "clusters"):
                found = np.zeros((2, fits))
                for k in range(fits):
                    X = shaped(geometry, n, spread, shape, np.random.default_rng(60_000 + k))
                    target = frechet_mean(X, geometry)
                    for way, bent in enumerate((planning._BENT, 0.0)):
                        with mock.patch.object(planning, "_BENT", bent):
                            model = PrivateFrechetMean(geometry, "private", random_state=k).fit(X)
                        found[way, k] = float(geometry.dist(target, model.mean_)) ** 2
                cells.append(math.sqrt(found[0].mean() / found[1].mean()))
            numbers = " | ".join(f"{cell:.3f}" for cell in cells)
            print(f"| {geometry} | {n} | {spread} | {numbers} |", flush=True)


def secret_n():
    """Mean squared error with a secret number of records over that of the default: a table.

    From the noise that the fits state, of the sum and of the number.
    """
    print("| d | 0 | .3 | .9 |\n|---|---|---|---|")
    for d in (1, 2, 3, 6, 10):
        ratios = []
        for offset in (0.0, 0.3, 0.9):
            X = np.zeros((1000, d))
            X[:, 0] = offset
            found, draws = [], np.random.default_rng(0).normal(size=10**6)
            for unit in ("record", "record, present or not"):
                model = PrivateFrechetMean(
                    center=np.zeros(d), radius=1.0, mechanism="tangent", shrink=None
                ).set_params(accountant=PrivacyAccountant(unit=unit))
                public = model.fit(X).privacy_spent_.public
                of_sum = model.noise_scale_ * max(2, round(public.get("n released", 1000)))
                n = 1000 + public.get("noise of n", 0.0) * draws
                found.append(np.mean(d * (of_sum / n) ** 2 + (offset * (1000 / n - 1)) ** 2))
            ratios.append(found[1] / found[0])
        print(f"| {d} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=60)
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--n", type=int, default=1000, help="records, of --part auto")
    parser.add_argument("--only", nargs="*", default=(), help="spaces of --part auto")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.part in (None, "secret-n"):
        secret_n()
    if options.part in (None, "wishart"):
        part_wishart(options.fits)
    if options.part in (None, "spaces"):
        part_spaces(options.fits)
    if options.part in (None, "spheres"):
        part_spheres(options.fits, options.n)
    if options.part in (None, "step"):
        part_step(options.fits)
    if options.part in (None, "auto"):
        part_auto(options.fits, options.n, options.only)
    if options.part in (None, "spread"):
        for spread, offset in ((0.3, 0.5), (0.1, 0.3)):
            print(f"rms {spread} of the radius, cloud {offset} of it off the centre")
            part_spaces(options.fits, spread, offset)


if __name__ == "__main__":
    main()
