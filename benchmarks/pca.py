"""Private principal components against published methods at equal true privacy; Markdown tables.

Run:  python benchmarks/pca.py [--only TABLE ...] [--data DIR] [--draws 30]

DIR (or the environment variable SKRIEMDP_DATA) holds data_ijcnn.mat and data_satimage.mat, the
LIBSVM sets in the form of github.com/andyjm3/DP-RiemOpt; without them their rows are skipped.
Their columns are standardised, and digits are centred, beforehand: public here, as in the papers.
Risk is ``(lambda_1 - w' A w) / lambda_1``, A the second moment of the (uncut) data.
"""

import argparse
import dataclasses
import math
import os
import time
import warnings
from pathlib import Path

import numpy as np

from skriemdp import PrivacyAccountant, PrivatePrincipalEigenvector
from skriemdp._location_scale.rows import Rows
from skriemdp._mechanisms.budget import GaussianBudget
from skriemdp._mechanisms.covariance import SymmetricGaussian
from skriemdp._mechanisms.pure_covariance import PureSymmetric
from skriemdp._pca.problem import GradientRelease
from skriemdp._pca.releases import CovarianceRelease, PowerRelease, RefineRelease
from skriemdp._pca.search_releases import BoundsSearch, pairs_are_better
from skriemdp.privacy import (
    gaussian_epsilon,
    gaussian_mu,
    interval_sensitivity,
    mean_sensitivity,
    second_moment_sensitivity,
)

EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
DELTAS = (1e-3, 1e-5)
QUANTILES = (0.01, 0.05, *np.arange(0.1, 1.0, 0.1), 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999, 1.0)


# -- data -------------------------------------------------------------------------------------


def standardised(X):
    scale = X.std(axis=0)
    return np.where(scale > 0, (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0), 0.0)


def libsvm(folder, name, key):
    path = Path(folder or ".") / name
    if not path.exists():
        return None
    from scipy.io import loadmat

    return standardised(loadmat(path)[key])


def digits():
    from sklearn.datasets import load_digits

    X = load_digits().data / 16.0
    return X - X.mean(axis=0)


def published_matrix(n=100_000, d=50, gap=1e-3, seed=0):
    """The synthetic matrix of Han et al. (2022), section 5.1: five nearly equal leading values."""
    rng = np.random.default_rng(seed)
    tail = np.abs(rng.normal(size=d - 5)) / d
    values = np.r_[1.0, 1.0 - gap * np.array([1.1, 1.2, 1.3, 1.4]), tail]
    left = np.linalg.qr(rng.normal(size=(n, d)))[0]
    right = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (left * values) @ right


def spiked(n, d, seed=0, heavy=False):
    """Spectrum 5, 2.5, 1, ..., 1; Gaussian rows, or elliptical ones (t, 3 degrees)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.sqrt(np.r_[5.0, 2.5, np.ones(d - 2)])
    return X / np.sqrt(rng.chisquare(3, size=(n, 1)) / 3.0) if heavy else X


def data_sets(folder):
    return {
        "ijcnn1": lambda: libsvm(folder, "data_ijcnn.mat", "ijcnn_data"),
        "satimage": lambda: libsvm(folder, "data_satimage.mat", "satimage"),
        "digits": digits,
        "synthetic of the paper": published_matrix,
        "heavy tails (t3)": lambda: spiked(20_000, 50, heavy=True),
    }


# -- methods: each maps (problem, mu or epsilon, rng) to a unit vector ------------------------


class Task:
    """A table with what is reused across draws; exact statistics serve methods without clipping."""

    def __init__(self, X):
        self.n, self.d = X.shape
        self.rows, self.X = Rows(X, *X.shape), X
        self.centred = X - X.mean(axis=0)
        self.moment = self.centred.T @ self.centred / self.n
        self.norms = np.linalg.norm(self.centred, axis=1)
        self.largest = float(self.norms.max())
        self.top = np.linalg.eigvalsh(self.moment)[::-1]
        self.clipped = {}

    def risk(self, components):
        W = np.atleast_2d(components)
        best = self.top[: len(W)].sum()
        return 1.0 - float(np.trace(W @ self.moment @ W.T)) / best

    def clipped_moment(self, quantile):
        if quantile not in self.clipped:
            R = float(np.quantile(self.norms, quantile))
            Z = self.centred * np.minimum(1.0, R / np.maximum(self.norms, 1e-300))[:, None]
            self.clipped[quantile] = R, Z.T @ Z / self.n
        return self.clipped[quantile]


def leading(matrix, k=1):
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :k].T


def unit(v):
    return v / np.linalg.norm(v)


def noisy_moment(moment, R, n, mu, rng, k=1):
    sensitivity = mean_sensitivity(second_moment_sensitivity(R), n)
    mechanism = SymmetricGaussian(len(moment), sensitivity, 1.0 / mu)
    return leading(mechanism.release(moment, rng), k)


def ours(task, mu, rng, center=True, release=None):
    budget, streams = GaussianBudget(mu), (lambda *label: rng)
    search = BoundsSearch(task.n, task.d, mu, center, None)
    rows = task.rows if center else task.centred_rows
    if center and pairs_are_better(task.n, task.d, task.n * mu):
        search = dataclasses.replace(search, pair_seed=int(rng.integers(2**32)))
    found = search.release(rows, budget, streams)
    release = release or CovarianceRelease(1)
    return release.release(found, budget, streams).components


def textbook_gauss(task, mu, rng):
    """Analyze Gauss as written: equal noise in the upper triangle, largest norm taken as known."""
    s = second_moment_sensitivity(task.largest).value / task.n / mu
    upper = np.triu(rng.normal(size=(task.d, task.d)) * s)
    return leading(task.moment + upper + np.triu(upper, 1).T)


def gmip(task, mu, rng, epsilon, delta):
    """The papers' baseline: sensitivity 2 R^2 / n and the classical Gaussian formula."""
    s = 2 * task.largest**2 / task.n * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    upper = np.triu(rng.normal(size=(task.d, task.d)) * s)
    return leading(task.moment + upper + np.triu(upper, 1).T)


def published_steps(task, epsilon, delta):
    """T of Han et al. (2022), for data scaled to spectral norm one as in their script."""
    bound = 2 * task.largest**2 / task.top[0]
    ratio = task.n**2 * epsilon**2 / (task.d * bound**2 * math.log(1 / delta))
    return max(1, math.ceil(math.log(max(ratio, math.e))))


def descent(task, mu, rng, steps, step=0.2, ambient=False):
    """DP-RGD (or DP-PGD) with the exact noise scale; `step` is in units of 1 / lambda_1."""
    sigma = math.sqrt(steps) * 2 * task.largest**2 / (task.n * mu)
    w = unit(rng.normal(size=task.d))
    for _ in range(steps):
        v = -2 * task.moment @ w + sigma * rng.normal(size=task.d)
        v *= -step / task.top[0]
        if ambient:
            w = unit(w + v)
            continue
        v -= (v @ w) * w
        length = np.linalg.norm(v)
        w = unit(math.cos(length) * w + math.sin(length) * v / length)
    return w


def tuned_descent_risk(task, epsilon, delta, draws):
    """DP-RGD with the best of 12 schedules, chosen by its risk: an oracle, like the best clip."""
    mu, rng = gaussian_mu(epsilon, delta), np.random.default_rng(11)
    return min(
        np.mean([task.risk(descent(task, mu, rng, steps, step)) for _ in range(draws)])
        for steps in (3, 8, 20, 60)
        for step in (0.2, 0.5, 1.5)
    )


def noisy_power(task, mu, rng, steps=5):
    sigma = math.sqrt(steps) * task.largest**2 / (task.n * mu)
    w = unit(rng.normal(size=task.d))
    for _ in range(steps):
        w = unit(task.moment @ w + sigma * rng.normal(size=task.d))
    return w


METHODS = {
    "random direction, no data": lambda t, mu, e, d, rng: unit(rng.normal(size=t.d)),
    "DP-RGD of the paper, calibrated noise": lambda t, mu, e, d, rng: descent(
        t, mu, rng, published_steps(t, e, d)
    ),
    "DP-PGD, calibrated noise": lambda t, mu, e, d, rng: descent(
        t, mu, rng, published_steps(t, e, d), ambient=True
    ),
    "GMIP of the paper": lambda t, mu, e, d, rng: gmip(t, mu, rng, e, d),
    "Analyze Gauss, exact mu": lambda t, mu, e, d, rng: textbook_gauss(t, mu, rng),
    "noisy power, 5 steps": lambda t, mu, e, d, rng: noisy_power(t, mu, rng),
    "isotropic noise, largest norm": lambda t, mu, e, d, rng: noisy_moment(
        t.moment, t.largest, t.n, mu, rng
    ),
    "**ours**": lambda t, mu, e, d, rng: ours(t, mu, rng),
    "ours, centring assumed": lambda t, mu, e, d, rng: ours(t, mu, rng, center=False),
}


def mean_risk(task, method, epsilon, delta, draws, seed=0):
    mu = gaussian_mu(epsilon, delta)
    rng = np.random.default_rng([seed, int(1e4 * epsilon), int(-math.log10(delta))])
    return float(np.mean([task.risk(method(task, mu, epsilon, delta, rng)) for _ in range(draws)]))


def oracle_risk(task, epsilon, delta, draws, k=1):
    """Best clip in hindsight: exact centring, whole budget for the matrix, norm chosen by risk."""
    mu, rng = gaussian_mu(epsilon, delta), np.random.default_rng(7)
    risks = []
    for quantile in QUANTILES:
        R, moment = task.clipped_moment(quantile)
        outputs = [noisy_moment(moment, R, task.n, mu, rng, k) for _ in range(draws)]
        risks.append(np.mean([task.risk(w) for w in outputs]))
    return float(min(risks))


# -- tables -----------------------------------------------------------------------------------


def cells(values):
    return " | ".join(f"{v:.2g}" for v in values)


def header(first, columns):
    print(f"| {first} | " + " | ".join(str(c) for c in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")


def prepared(X):
    task = Task(X)
    task.centred_rows = Rows(task.centred, *X.shape)
    return task


def utility(options):
    ratios = {"**ours**": [], "ours, centring assumed": []}
    for name, load in data_sets(options.data).items():
        X = load()
        if X is None:
            print(f"\n{name}: skipped, no file; give its folder with --data or SKRIEMDP_DATA.")
            continue
        task = prepared(X)
        for delta in DELTAS:
            print(f"\n**{name}**, n = {task.n}, d = {task.d}, delta = {delta:g}\n")
            header("relative excess risk, epsilon =", EPSILONS)
            best = [oracle_risk(task, e, delta, options.draws) for e in EPSILONS]
            for label, method in METHODS.items():
                row = [mean_risk(task, method, e, delta, options.draws) for e in EPSILONS]
                print(f"| {label} | {cells(row)} |", flush=True)
                if label in ratios:
                    ratios[label] += list(np.divide(row, best))
            row = [tuned_descent_risk(task, e, delta, options.draws) for e in EPSILONS]
            print(f"| DP-RGD, schedule chosen in hindsight | {cells(row)} |", flush=True)
            print(f"| best clip in hindsight | {cells(best)} |", flush=True)
            print("| non-private |" + " 0 |" * len(EPSILONS))
    print()
    for label, values in ratios.items():
        print(
            f"Risk over that of the best clip, {label.strip('*')}, {len(values)} cells: geometric "
            f" mean {np.exp(np.mean(np.log(values))):.2f}, largest {max(values):.2f}."
        )


def centring(options):
    """What centring costs for data shifted by multiples of their spread."""
    header(
        "risk over the best clip in hindsight, geometric mean [largest]; shift =", (0, 0.5, 2, 100)
    )
    for name, load in data_sets(options.data).items():
        X = load()
        if X is None:
            continue
        row = []
        direction = unit(np.random.default_rng(9).normal(size=X.shape[1]))
        best = None
        for shift in (0, 0.5, 2, 100):
            task = prepared(X + shift * math.sqrt((X**2).sum(axis=1).mean()) * direction)
            cases = [(e, 1e-3) for e in EPSILONS]
            best = best or [oracle_risk(task, e, d, options.draws) for e, d in cases]
            risks = [mean_risk(task, METHODS["**ours**"], e, d, options.draws) for e, d in cases]
            r = np.divide(risks, best)
            row.append(f"{np.exp(np.mean(np.log(r))):.2f} [{r.max():.2f}]")
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)


def raw_tables():
    """Raw tables of scikit-learn, and made ones whose mean lies away from zero."""
    from sklearn.datasets import (
        load_breast_cancer,
        load_diabetes,
        load_digits,
        load_iris,
        load_wine,
    )

    def power(n, d, decay, shift):
        rng = np.random.default_rng(0)
        scales = np.arange(1, d + 1) ** (-decay / 2.0)
        X = rng.normal(size=(n, d)) * scales @ np.linalg.qr(rng.normal(size=(d, d)))[0]
        return X + shift * math.sqrt((scales**2).sum()) * unit(rng.normal(size=d))

    cancer, pixels = load_breast_cancer().data, load_digits().data
    rng = np.random.default_rng(3)
    rates = 4.0 * rng.gamma(0.5, size=(2500, 8)) @ rng.gamma(0.3, size=(8, 60))
    return {
        "breast cancer": cancer,
        "breast cancer, log(1 + x)": np.log1p(cancer),
        "digits": pixels,
        "wine": load_wine().data,
        "iris": load_iris().data,
        "diabetes, unscaled": load_diabetes(scaled=False).data,
        "spectrum 1/k^2, d = 100, mean one spread away": power(3000, 100, 2.0, 1.0),
        "counts of topics": rng.poisson(rates).astype(float),
    }


def pairs(options):
    """Rows about a private mean, and differences of pairs, through the window between them."""
    places = (4.0, 6.7, 8.0, 10.0, 12.0, 15.0, 20.0)
    header("share of the best direction's variance: rows; pairs, at n mu / sqrt(d) =", places)
    for name, X in raw_tables().items():
        (n, d), row, task = X.shape, [], Task(X)
        for place in places:
            mu, found = place * math.sqrt(d) / n, []
            for seed in (None, 0):
                search = BoundsSearch(n, d, mu, True, None, pair_seed=seed)
                rng, risks = np.random.default_rng(int(10 * place)), []
                for _ in range(options.draws):
                    budget, streams = GaussianBudget(mu), (lambda *label, rng=rng: rng)
                    at = search.release(task.rows, budget, streams)
                    w = CovarianceRelease(1).release(at, budget, streams).components
                    risks.append(task.risk(w))
                found.append(f"{1.0 - np.mean(risks):.2f}")
            row.append("; ".join(found))
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)


def samples(options):
    """Figure 1a of Han et al. (2022): the synthetic matrix against n at (0.1, 1e-3)."""
    sizes = (1000, 3000, 10_000, 30_000, 100_000)
    names = ("DP-RGD of the paper, calibrated noise", "DP-PGD, calibrated noise", "**ours**")
    tasks = [prepared(published_matrix(n)) for n in sizes]
    header("relative excess risk at (0.1, 1e-3), n =", sizes)
    for name in ("random direction, no data", *names):
        row = [mean_risk(t, METHODS[name], 0.1, 1e-3, options.draws) for t in tasks]
        print(f"| {name} | {cells(row)} |", flush=True)
    row = [oracle_risk(t, 0.1, 1e-3, options.draws) for t in tasks]
    print(f"| best clip in hindsight | {cells(row)} |")


def components(options):
    """Several components: one matrix serves them all."""
    header(
        "lost share of the captured variance at delta = 1e-3", ("covariance", "power", "Grassmann")
    )
    for name, k, epsilon in (("ijcnn1", 2, 0.1), ("satimage", 5, 0.1), ("digits", 2, 1.0)):
        X = data_sets(options.data)[name]()
        if X is None:
            continue
        task, row = prepared(X), []
        for release in (
            CovarianceRelease(k),
            PowerRelease(k, 8, 0),
            GradientRelease(k, "auto", 20, 0),
        ):
            method = lambda t, mu, e, d, rng, r=release: ours(t, mu, rng, release=r)  # noqa: E731
            row.append(mean_risk(task, method, epsilon, 1e-3, options.draws))
        print(f"| {name}, k = {k}, epsilon = {epsilon} | {cells(row)} |", flush=True)


def dimension(options):
    """Flat spectra in high dimension: one clipped product after a rough matrix."""
    releases = {
        "covariance": CovarianceRelease(1),
        "refine": RefineRelease(1),
        "power, 6 steps": PowerRelease(1, 6, 0),
    }
    header(
        "relative excess risk, spectrum 5, 2.5, 1, ..., 1",
        (*releases, "isotropic noise, largest norm", "auto takes"),
    )
    for d, n, epsilon, delta in (
        (50, 50_000, 1.0, 1e-5),
        (200, 50_000, 0.1, 1e-3),
        (200, 50_000, 1.0, 1e-5),
        (500, 40_000, 0.3, 1e-3),
        (500, 40_000, 1.0, 1e-5),
        (500, 40_000, 3.0, 1e-5),
    ):
        task = prepared(spiked(n, d))
        row = []
        for release in releases.values():
            method = lambda t, mu, e, dl, rng, r=release: ours(t, mu, rng, release=r)  # noqa: E731
            row.append(mean_risk(task, method, epsilon, delta, max(3, options.draws // 8)))
        fixed = METHODS["isotropic noise, largest norm"]
        row.append(mean_risk(task, fixed, epsilon, delta, max(3, options.draws // 8)))
        auto = PrivatePrincipalEigenvector()._choose(d)
        print(f"| d = {d}, n = {n}, ({epsilon}, {delta:g}) | {cells(row)} | {auto} |", flush=True)


def spectra(options):
    """What "auto" takes from d = 150 on, beside a matrix and beside products, by spectrum."""
    places = (3.0, 6.0, 10.0, 16.0)
    first = "lost share of the gain over random directions: covariance; power; refine"
    header(f"{first}, at n mu / d =", places)
    for d, k in ((200, 1), (500, 1), (500, 3)):
        n, number = 10 * d, np.arange(1.0, d + 1)
        for name, values in {
            "5, 2.5, 1, ..., 1": np.r_[5.0, 2.5, np.ones(d - 2)],
            "3, 1, ..., 1": np.r_[3.0, np.ones(d - 1)],
            "20, 15, 10, 8, 6, 1, ..., 1": np.r_[20.0, 15.0, 10.0, 8.0, 6.0, np.ones(d - 5)],
            "1/k": 1.0 / number,
            "1/k^.75": number**-0.75,
            "1/k^.5": number**-0.5,
            "exp(-k/20) + .01": np.exp(-number / 20.0) + 0.01,
            "falling evenly": 2.0 * (1.0 - number / d) + 0.01,
        }.items():
            rng = np.random.default_rng([11, d])
            task, row = prepared(rng.normal(size=(n, d)) * np.sqrt(values)), []
            random = 1.0 - k * task.top.mean() / task.top[:k].sum()
            for place in places:
                found = []
                for release in (CovarianceRelease(k), PowerRelease(k, 8, 0), RefineRelease(k)):
                    rng = np.random.default_rng([12, int(10 * place)])
                    mu, draws = place * d / n, max(3, options.draws // 4)
                    lost = [task.risk(ours(task, mu, rng, release=release)) for _ in range(draws)]
                    found.append(f"{np.mean(lost) / random:.2g}")
                row.append("; ".join(found))
            print(f"| d = {d}, k = {k}: {name} | " + " | ".join(row) + " |", flush=True)


PURE = {
    "pure": {"delta": 0},
    "delta = 1e-5": {"delta": 1e-5},
}


def fits(X, draws, **settings):
    """First components of this many private fits."""
    model = PrivatePrincipalEigenvector(accountant=PrivacyAccountant(), **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [model.fit(X).components_[0] for _ in range(draws)]


def decaying(n, d):
    """Rows of norm at most 1 with spectrum 1/k."""
    X = np.random.default_rng(0).standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1))
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)


def pure(options):
    """delta = 0: noise in the right norm, and Gaussian noise."""
    header("share of the gain over a random direction that is lost, epsilon = 1", PURE)
    for d, n in (
        (3, 1000),
        (10, 1000),
        (10, 3000),
        (20, 3000),
        (20, 10_000),
        (50, 10_000),
        (100, 1000),
    ):
        X = decaying(n, d)
        A = X.T @ X / n
        top, mean = np.linalg.eigvalsh(A)[-1], np.trace(A) / d
        row = []
        for settings in PURE.values():
            found = fits(X, 10 * options.draws, row_norm=1.0, center="assume", **settings)
            row.append(np.mean([top - w @ A @ w for w in found]) / (top - mean))
        print(f"| spectrum 1/k, norm 1, d = {d}, n = {n} | {cells(row)} |", flush=True)
    print()
    header("relative excess risk, nothing public", PURE)
    for name, load in data_sets(options.data).items():
        X = load()
        if X is None:
            continue
        task = prepared(X)
        for epsilon in (0.3, 1.0, 3.0):
            row = []
            for settings in PURE.values():
                found = fits(X, options.draws, epsilon=epsilon, **settings)
                row.append(np.mean([task.risk(w) for w in found]))
            print(f"| {name}, epsilon = {epsilon} | {cells(row)} |", flush=True)
    print()
    sizes = (2, 5, 10, 20, 21, 100, 1000)
    header("ms for one draw of the noise, d =", sizes)
    rng, row = np.random.default_rng(0), []
    for d in sizes:
        mechanism, zero = PureSymmetric(d, interval_sensitivity(1.0), 1.0), np.zeros((d, d))
        mechanism.release(zero, rng)  # makes the tables
        row.append(best_time(lambda m=mechanism, z=zero: m.release(z, rng), 20))
    print(f"| |{cells(row)} |")


def pure_norms(options):
    """delta = 0, nothing public: how often the norm is found, and what is lost."""
    columns = "norm above 3 x", "below 1/30", "risk, median (mean)", "bounds known"
    header("d, n, spreads from the origin, epsilon", columns)
    for d, n, offset in ((3, 500, 0), (3, 500, 30), (3, 5000, 30), (10, 500, 0), (10, 5000, 30)):
        spread = 1.0 / np.arange(1, d + 1) ** 0.75
        X = np.random.default_rng(d * n).normal(size=(n, d)) * spread
        task, longest = prepared(X), np.linalg.norm(X - X.mean(axis=0), axis=1).max()
        for epsilon in (0.5, 1.0, 3.0):
            models = [
                PrivatePrincipalEigenvector(epsilon=epsilon, delta=0.0).fit(X + offset)
                for _ in range(2 * options.draws)
            ]
            norms = np.array([model.row_norm_ for model in models]) / longest
            risks = [task.risk(model.components_[0]) for model in models]
            known = {"epsilon": epsilon, "delta": 0.0, "center": "assume", "row_norm": longest}
            floor = np.mean([task.risk(w) for w in fits(task.centred, 2 * options.draws, **known)])
            print(
                f"| {d}, {n}, {offset}, {epsilon} | {(norms > 3).mean():.2f} "
                f"| {(norms < 1 / 30).mean():.2f} | {np.median(risks):.3f} ({np.mean(risks):.3f}) "
                f"| {floor:.4f} |",
                flush=True,
            )


def ratio(options):
    """Risk with pure noise over that with Gaussian noise, 100 times as many draws as elsewhere."""
    header("risk at epsilon = 1, pure over delta = 1e-5", ("ratio", "its standard error"))
    for d, n in ((10, 3000), (10, 10_000), (20, 3000), (20, 10_000)):
        X = decaying(n, d)
        A = X.T @ X / n
        top, means, errors = np.linalg.eigvalsh(A)[-1], [], []
        for settings in ({"delta": 0}, {"delta": 1e-5}):
            found = fits(X, 100 * options.draws, row_norm=1.0, center="assume", **settings)
            risks = np.array([top - w @ A @ w for w in found])
            means.append(risks.mean())
            errors.append(risks.std() / risks.mean() / math.sqrt(len(risks)))
        quotient = means[0] / means[1]
        row = quotient, quotient * math.hypot(*errors)
        print(f"| spectrum 1/k, norm 1, d = {d}, n = {n} | {cells(row)} |", flush=True)


def best_time(function, repeats):
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return 1e3 * min(times)


def speed(options):
    """Processor time of one fit beside scikit-learn's PCA, one thread, interleaved."""
    from sklearn.decomposition import PCA

    header(
        "ms per fit (ratio to PCA)", ("PCA(1)", "ours", "ours, centring assumed", "row_norm given")
    )
    for n, d in ((49_990, 14), (10_000, 50), (100_000, 50), (1_000_000, 20), (100_000, 200)):
        X = np.random.default_rng(0).normal(size=(n, d)) * np.linspace(2, 1, d)
        models = [
            PCA(1),
            PrivatePrincipalEigenvector(),
            PrivatePrincipalEigenvector(center="assume"),
            PrivatePrincipalEigenvector(center="assume", row_norm=2.5 * math.sqrt(d)),
        ]
        if d >= 150:
            models[1:] = [m.set_params(mechanism="covariance") for m in models[1:]]
        rounds = [[best_time(lambda m=m, data=X: m.fit(data), 3) for m in models] for _ in range(5)]
        row = np.min(rounds, axis=0)
        print(
            f"| n = {n}, d = {d} | {row[0]:.3g} | "
            + " | ".join(f"{t:.3g} ({t / row[0]:.2f})" for t in row[1:])
            + " |",
            flush=True,
        )


def published(options):
    """True epsilon of the published noise, 1/n of what the released sums need."""
    header("true epsilon at delta = 1e-3 of what the script releases; epsilon =", EPSILONS)
    for name, n in (("ijcnn1", 49_990), ("satimage", 6430)):
        row = [gaussian_epsilon(n * math.sqrt(2 * e / math.log(1e3)), 1e-3) for e in EPSILONS]
        print(f"| {name}, DP-RGD and DP-PGD | {cells(row)} |")


TABLES = (
    utility,
    centring,
    pairs,
    samples,
    components,
    dimension,
    spectra,
    pure,
    pure_norms,
    ratio,
    speed,
    published,
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [table.__name__ for table in TABLES]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--data", default=os.environ.get("SKRIEMDP_DATA"))
    parser.add_argument("--draws", type=int, default=30)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for table in TABLES:
        if table.__name__ in options.only:
            print(f"\n### {table.__name__}\n")
            table(options)


if __name__ == "__main__":
    main()
