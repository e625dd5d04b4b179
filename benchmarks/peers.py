"""Side by side with other libraries, in one process: means, principal component, logistic model.

    OMP_NUM_THREADS=1 python benchmarks/peers.py [--only means components ...] [--full]
    make peers          # the same in an environment that holds every library

Peers that do not import here are named at the end with the reason.  Time is processor time, best of
several in turns, over a yardstick on the same rows: a batched eigendecomposition of matrices, one
gradient in plain NumPy for points of spheres and hyperboloids, else scikit-learn.  Error is what is
left of the error of knowing only what is public (centre of the ball, a random direction, the zero
model), where 0 is the non-private optimum: squared distance for means, captured variance, log loss.
Private errors are means over seeds, with their standard error; guarantees stand beside them.
``--json FILE`` keeps time ratios and errors of what is ours for ``run_all.py --compare``.
"""

import argparse
import importlib
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.base import clone

from skriemdp import (
    PrivacyAccountant,
    PrivateFrechetMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    frechet_mean,
)
from skriemdp.datasets import make_cloud
from skriemdp.geometry import SPD, Hyperboloid, Sphere
from skriemdp.privacy import (
    FixedSizeSampledGaussianEvent,
    GaussianEvent,
    PoissonSampledGaussianEvent,
    SelectionEvent,
    gaussian_mu,
    laplace_law,
)

EPSILON, DELTA = 1.0, 1e-5
APPROXIMATE = f"({EPSILON:g}, {DELTA:g}), replace one"
PURE = f"{EPSILON:g}, replace one"
THEIRS = f"{EPSILON:g}, add or remove one"  # diffprivlib, its own statement
TOLERANCE = 1e-6
SLOW = 4.0  # seconds after which a method is not tried on more records

PEERS = ("pyriemann", "pymanopt", "geomstats", "diffprivlib")
LEFT_OUT = "left out"
MISSING = {}


def module(name):
    """A peer, or None where it does not import."""
    if name.split(".")[0] in MISSING:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except Exception as error:  # a peer may fail in any way on versions that it does not know
        MISSING[name.split(".")[0]] = f"{type(error).__name__}: {error}"
        return None


class Table:
    """Methods side by side; keeps records of ours for the baseline."""

    def __init__(self, title, repeats):
        self.title, self.repeats = title, repeats
        self.records = {}
        self.stopped = set()
        print(f"\n## {title}\n")
        print("| size | n | method | guarantee | time | error | s.e. |\n|" + "---|" * 7, flush=True)

    def rows(self, size, n, yardstick, methods):
        """`methods`: name, guarantee, run (returns a fitted thing), error of that thing.

        `yardstick`: one of them by its name, or such a name and a function.
        """
        methods = [m for m in methods if m is not None and (self.title, m[0]) not in self.stopped]
        if not isinstance(yardstick, str):
            methods.insert(0, (yardstick[0], "", yardstick[1], lambda _: np.nan))
            yardstick = yardstick[0]
        best = {m[0]: np.inf for m in methods}
        errors = {m[0]: [] for m in methods}
        for turn in range(-1, self.repeats):
            for name, _, run, error in methods:
                if errors[name] and best[name] > 0.25 * SLOW:
                    continue
                seconds, result = _time(run)
                # The first turn warms up: calibrations are remembered by public numbers.
                if turn >= 0 or seconds > SLOW:
                    best[name] = min(best[name], seconds)
                    errors[name].append(error(result))
        for name, guarantee, run, error in methods:
            if best[name] > SLOW:
                self.stopped.add((self.title, name))
            elif guarantee and (best[name] < 0.25 or name.startswith("skriemdp")):
                # More draws of the noise; eight are the fewest that tell a standard error.
                wanted = max(8, 4 * self.repeats) if best[name] < 0.25 else 8
                errors[name] += [error(run()) for _ in range(wanted - len(errors[name]))]
            ratio = best[name] / best[yardstick]
            label = f"{name} ({1e3 * best[name]:.3g} ms)" if name == yardstick else name
            mean, spread = np.mean(errors[name]), np.std(errors[name]) / len(errors[name]) ** 0.5
            shown = f"{spread:.1g}" if guarantee and len(errors[name]) >= 8 else ""
            cells = ["" if np.isnan(mean) else f"{mean:.2g}", shown]
            print(
                f"| {size} | {n:g} | {label} | {guarantee or 'none'} | {ratio:.3g} | "
                f"{' | '.join(cells)} |",
                flush=True,
            )
            if name.startswith("skriemdp"):
                key = f"{self.title}, {size}, n={n:g}, {name}"
                self.records[f"{key}: time"] = {"kind": "time", "value": float(ratio)}
                if shown:
                    self.records[f"{key}: error"] = {
                        "kind": "error",
                        "value": float(mean),
                        "standard_error": float(spread),
                    }


def _time(run):
    # Short runs are repeated, so that the clock's grain does not show.
    start, count = time.process_time(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while count == 0 or time.process_time() - start < 0.003:
            result = run()
            count += 1
    return (time.process_time() - start) / count, result


def fitted(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(model).set_params(accountant=PrivacyAccountant()).fit(*data)


# -- Frechet means ----------------------------------------------------------------------------


def pymanopt_mean(manifold, X):
    """As pymanopt's users write it: its manifolds take one pair of points at a time."""
    import pymanopt

    @pymanopt.function.numpy(manifold)
    def cost(p):
        return sum(manifold.dist(p, x) ** 2 for x in X) / (2 * len(X))

    @pymanopt.function.numpy(manifold)
    def gradient(p):
        return -sum(manifold.log(p, x) for x in X) / len(X)

    optimizer = pymanopt.optimizers.SteepestDescent(min_gradient_norm=TOLERANCE, verbosity=0)
    problem = pymanopt.Problem(manifold, cost, riemannian_gradient=gradient)
    return optimizer.run(problem, initial_point=X[0]).point


def mean_peers(geometry, X):
    """(name, run) of non-private peers on this manifold."""
    peers = []
    family = _family(geometry)
    if family == "SPD" and (module_ := module("pyriemann.geometry.mean")):
        peers.append(("pyRiemann", lambda: module_.mean_riemann(X, tol=TOLERANCE)))
    if pymanopt := module("pymanopt"):
        import pymanopt.optimizers

        manifolds = pymanopt.manifolds
        manifold = {
            "SPD": lambda: manifolds.SymmetricPositiveDefinite(X.shape[-1]),
            "Sphere": lambda: manifolds.Sphere(X.shape[-1]),
        }.get(family)
        if manifold is not None and len(X) <= 1000:
            peers.append(("pymanopt", lambda: pymanopt_mean(manifold(), X)))
    if frechet := module("geomstats.learning.frechet_mean"):
        name, space, size = {
            "SPD": ("spd_matrices", "SPDMatrices", X.shape[-1]),
            "Sphere": ("hypersphere", "Hypersphere", X.shape[-1] - 1),
            "Hyperboloid": ("hyperboloid", "Hyperboloid", X.shape[-1] - 1),
        }[family]
        space = getattr(module(f"geomstats.geometry.{name}"), space)(size)

        def geomstats():
            estimator = frechet.FrechetMean(space)
            estimator.set(max_iter=200, epsilon=TOLERANCE**2 / space.dim)
            return estimator.fit(X).estimate_

        peers.append(("geomstats", geomstats))
    return peers


def _gradient(p, X):
    """Mean logarithm on the sphere, as the shortest NumPy has it; a yardstick for hyperboloids."""
    cosine = np.clip(X @ p, -1.0, 1.0)
    return (np.arccos(cosine) / np.sqrt(1.0 - cosine**2 + 1e-300)) @ (X - cosine[:, None] * p)


def _family(geometry):
    return next(n for n in ("Sphere", "Hyperboloid", "SPD") if n in str(type(geometry)))


def means(full, repeats):
    table = Table("Frechet means", repeats)
    counts = (1000, 10_000, 100_000) if full else (1000, 10_000)
    spaces = [SPD(3), SPD(10), Sphere(2), Sphere(20), Hyperboloid(2), Hyperboloid(10)]
    for geometry in spaces:
        name = {"SPD": "spd", "Sphere": "sphere", "Hyperboloid": "hyperboloid"}[_family(geometry)]
        for n in counts:
            X = make_cloud(geometry, n, offset=0.5, rng=np.random.default_rng(0))
            center = geometry.base_point
            target = frechet_mean(X, name, center=center, tol=1e-9)
            start = float(geometry.dist(center, target)) ** 2

            def left(point, geometry=geometry, target=target, start=start):
                return float(geometry.dist(np.asarray(point), target)) ** 2 / start

            def private(guarantee, label, name=name, X=X, left=left, center=center, **settings):
                model = PrivateFrechetMean(name, center, 1.0, epsilon=EPSILON, **settings)
                return label, guarantee, lambda: fitted(model, X), lambda m: left(m.mean_)

            methods = [
                (
                    "skriemdp, not private",
                    "",
                    lambda X=X, name=name, c=center: frechet_mean(X, name, center=c, tol=TOLERANCE),
                    left,
                ),
                private(APPROXIMATE, "skriemdp", delta=DELTA),
                private(PURE, "skriemdp, pure", delta=0.0),
                # Published descent, at this guarantee: its schedule takes n steps of size 0.01.
                private(
                    APPROXIMATE,
                    "DP-RGD, published schedule (in skriemdp)",
                    delta=DELTA,
                    mechanism="gradient",
                    n_steps=n,
                    step_size=0.01,
                )
                if n <= 1000 and MISSING.get("pymanopt") != LEFT_OUT
                else None,
            ]
            methods[1:1] = [(peer, "", run, left) for peer, run in mean_peers(geometry, X)]
            if X.ndim == 3:
                yardstick = "numpy.linalg.eigh", lambda X=X: np.linalg.eigh(X)
            else:
                yardstick = "a gradient in NumPy", lambda X=X, c=center: _gradient(c, X)
            table.rows(f"{name}, dim {geometry.dim}", n, yardstick, methods)
    return table.records


# -- first principal component ----------------------------------------------------------------


def component_data(n, d):
    """Rows of norm at most 1 with spectrum 1/k."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1))
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)


def pymanopt_component(X):
    import pymanopt
    import pymanopt.optimizers

    manifold = pymanopt.manifolds.Sphere(X.shape[1])
    A = X.T @ X / len(X)
    decorate = pymanopt.function.numpy(manifold)
    problem = pymanopt.Problem(
        manifold,
        decorate(lambda v: -v @ A @ v),
        euclidean_gradient=decorate(lambda v: -2 * A @ v),
        euclidean_hessian=decorate(lambda v, u: -2 * A @ u),
    )
    return pymanopt.optimizers.TrustRegions(verbosity=0).run(problem).point


def components(full, repeats):
    from sklearn.decomposition import PCA

    table = Table("first principal component", repeats)
    theirs = module("diffprivlib.models")
    sizes = [(10, 1000), (10, 10_000), (100, 10_000)] + [(10, 10**6), (300, 10**5)] * full
    for d, n in sizes:
        X = component_data(n, d)
        A = X.T @ X / n
        top, share = np.linalg.eigvalsh(A)[-1], np.trace(A) / d

        def left(v, A=A, top=top, share=share):
            v = np.ravel(v)
            return (top - v @ A @ v) / (top - share)

        def private(label, guarantee, X=X, left=left, **settings):
            model = PrivatePrincipalEigenvector(
                1, 1.0, center="assume", epsilon=EPSILON, **settings
            )
            return label, guarantee, lambda: fitted(model, X), lambda m: left(m.components_)

        methods = [
            (
                "scikit-learn PCA",
                "",
                lambda X=X: PCA(1, svd_solver="covariance_eigh").fit(X).components_,
                left,
            ),
            ("pymanopt", "", lambda X=X: pymanopt_component(X), left)
            if module("pymanopt")
            else None,
            private("skriemdp", APPROXIMATE, delta=DELTA),
            private("skriemdp, pure", PURE, delta=0.0),
            private("DP-RGD (in skriemdp)", APPROXIMATE, delta=DELTA, mechanism="gradient"),
            (
                "diffprivlib PCA",
                THEIRS,
                lambda X=X: theirs.PCA(1, epsilon=EPSILON, data_norm=1.0, centered=True).fit(X),
                lambda m, left=left: left(m.components_),
            )
            if theirs
            else None,
        ]
        table.rows(f"d={d}", n, "scikit-learn PCA", methods)
    return table.records


# -- logistic model ---------------------------------------------------------------------------


def logistic_data(n, d):
    """Rows of norm at most 1, five of the features matter."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    w = np.zeros(d)
    w[:5] = 3.0 * np.sqrt(d / 5.0)
    return X, (rng.random(n) < expit(X @ w)).astype(int)


def logistic(full, repeats):
    from sklearn.linear_model import LogisticRegression

    table = Table("logistic model", repeats)
    theirs = module("diffprivlib.models")
    sizes = [(5, 1000), (5, 10_000), (50, 10_000)] + [(50, 10**5), (500, 10**5)] * full
    for d, n in sizes:
        X, y = logistic_data(n, d)

        def risk(model, X=X, y=y):
            signs = 2.0 * y - 1.0
            margin = X @ np.ravel(model.coef_) + np.ravel(model.intercept_)
            return float(np.mean(np.logaddexp(0.0, -signs * margin)))

        least = risk(LogisticRegression(C=1e6, tol=1e-8, max_iter=1000).fit(X, y))

        def left(model, risk=risk, least=least):
            return (risk(model) - least) / (np.log(2.0) - least)

        model = PrivateNoisyAdaGrad(classes=[0, 1], epsilon=EPSILON, delta=DELTA)
        told = clone(model).set_params(feature_norm=1.0)
        methods = [
            (
                "scikit-learn LogisticRegression",
                "",
                lambda X=X, y=y: LogisticRegression(C=1e4).fit(X, y),
                left,
            ),
            ("skriemdp", APPROXIMATE, lambda X=X, y=y, m=model: fitted(m, X, y), left),
            (
                "skriemdp, feature_norm=1",  # what the next one is told
                APPROXIMATE,
                lambda X=X, y=y, m=told: fitted(m, X, y),
                left,
            ),
            (
                "diffprivlib LogisticRegression",
                THEIRS,
                lambda X=X, y=y: theirs.LogisticRegression(epsilon=EPSILON, data_norm=1.0).fit(
                    X, y
                ),
                left,
            )
            if theirs
            else None,
        ]
        table.rows(f"d={d}", n, "scikit-learn LogisticRegression", methods)
    return table.records


# -- what settings cost: exact figures, for the baseline --------------------------------------


def accounting(full, repeats):
    laws = {
        "mu of (1, 1e-5)": gaussian_mu(EPSILON, DELTA),
        "1000 Poisson steps, q = 0.01, s = 1": epsilon(
            PoissonSampledGaussianEvent(0.01, 1.0, 1000)
        ),
        "1000 fixed-size steps, q = 0.01, s = 1": epsilon(
            FixedSizeSampledGaussianEvent(1000, 10, 1.0, 1000)
        ),
        "Laplace noise in 3 dimensions, mean square": laplace_law(
            3, EPSILON, DELTA
        ).mean_square_over_sensitivity,
        "a search of 8 runs at epsilon 0.5, Gaussian": epsilon(
            SelectionEvent(GaussianEvent(1.0 / gaussian_mu(0.5, DELTA)), 8.0, shape=0.0)
        ),
        "a search of 8 runs at epsilon 0.5, Laplace, plane": epsilon(
            SelectionEvent(laplace_law(2, 0.5, DELTA), 8.0, shape=0.0)
        ),
    }
    print("\n## accounting\n\n| release | epsilon, mu or mean square |\n|---|---|")
    for name, value in laws.items():
        print(f"| {name} | {value:.6g} |")
    return {f"accounting, {name}": {"kind": "exact", "value": v} for name, v in laws.items()}


def epsilon(event):
    return event.epsilon(DELTA)


PARTS = {
    "means": means,
    "components": components,
    "logistic": logistic,
    "accounting": accounting,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--full", action="store_true", help="more records and features (minutes)")
    parser.add_argument("--repeats", type=int, default=5, help="turns; noise is drawn 4 times each")
    parser.add_argument("--ours", action="store_true", help="leave out the other libraries")
    parser.add_argument("--json", type=Path, help="where to keep the figures that are ours")
    options = parser.parse_args()
    records = {}
    if options.ours:
        MISSING.update(dict.fromkeys(PEERS, LEFT_OUT))
    for part in options.only:
        records |= PARTS[part](options.full, options.repeats)
    print()
    for name, reason in MISSING.items():
        print(f"not here: {name} ({reason})")
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
