"""Private principal eigenvectors (Han et al. 2022, Figure 1a; 2024, Figures 2b and 2c).

Run:  python examples/reproductions/han2022_pca.py [--quick] [--output FOLDER] [--data FOLDER]

FOLDER (or the environment variable SKRIEMDP_DATA) holds data_ijcnn.mat and data_satimage.mat, as in
the data folder of github.com/andyjm3/DP-RiemOpt.  Risk is ``1 - w' A w`` with A scaled to largest
eigenvalue 1.  The published methods run twice: with the published noise, and with noise calibrated
to the stated (epsilon, 0.001) for replacing a record, beside `PrivatePrincipalEigenvector`.

Columns are standardised and divided by the spectral norm, and the largest row norm is taken as
known, as in the papers: all three are statistics of the records, and count as public here for every
method alike (ours does not use the norm).
"""

import math
import warnings

import numpy as np
from reproduction_tools import data_file, heading, parse, save_figure, table

from skriemdp import PrivacyAccountant, PrivatePrincipalEigenvector
from skriemdp.privacy import gaussian_epsilon, gaussian_mu, second_moment_sensitivity

DELTA = 1e-3
EPSILONS = (0.01, 0.05, 0.1, 0.3, 0.7, 1.0, 3.0)
SETS = {"ijcnn1": ("data_ijcnn.mat", "ijcnn_data"), "satimage": ("data_satimage.mat", "satimage")}


class Task:
    """Records with the second-moment sum A (largest eigenvalue 1) and the largest row norm."""

    def __init__(self, X):
        self.X, (self.n, self.d) = X, X.shape
        self.A = X.T @ X
        self.R = float(np.linalg.norm(X, axis=1).max())

    def risk(self, W):
        W = np.atleast_2d(W)
        return 1.0 - np.einsum("ri,ij,rj->r", W, self.A, W)


def standardised(X):
    """z-scores (constant columns become 0) over the spectral norm."""
    scale = X.std(axis=0, ddof=1)
    X = np.where(scale > 0, (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0), 0.0)
    return X / np.linalg.norm(X, 2)


def synthetic(n, rng, d=50, gap=1e-3):
    """Spectrum 1, 1 - gap, ..., 1 - 1.4 gap, then small: six nearly equal leading directions."""
    values = np.r_[1.0, 1.0 - gap * np.array([1.0, 1.1, 1.2, 1.3, 1.4])]
    values = np.r_[values, np.abs(rng.normal(size=d - 6)) / d]
    left = np.linalg.qr(rng.normal(size=(n, d)))[0]
    right = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (left * values) @ right


# -- methods; W holds one start, and one output, per row ------------------------------------------


def unit(W):
    return W / np.linalg.norm(W, axis=-1, keepdims=True)


def published_steps(task, epsilon, bound):
    """``ceil log(n^2 epsilon^2 / (d L0^2 log(1/delta)))``; none at all for few records."""
    ratio = task.n**2 * epsilon**2 / (task.d * bound**2 * math.log(1 / DELTA))
    return max(0, math.ceil(math.log(ratio)))


def published_sigma(task, epsilon, bound, steps):
    """Noise of the published code: ``epsilon * 2`` where the paper has ``epsilon^2``."""
    return math.sqrt(steps * math.log(1 / DELTA) * bound**2 / (task.n**2 * 2 * epsilon))


def riemannian(task, W, steps, step_size, sigma, rng):
    """DP-RGD for the sum ``-w' A w``."""
    for _ in range(steps):
        V = 2.0 * W @ task.A + sigma * rng.standard_normal(W.shape)
        V = step_size * (V - np.sum(V * W, axis=1, keepdims=True) * W)
        length = np.linalg.norm(V, axis=1, keepdims=True)
        W = unit(np.cos(length) * W + np.sinc(length / math.pi) * V)
    return W


def projected(task, W, steps, step_size, sigma, rng):
    """DP-PGD: noise in the ambient space, then normalised."""
    for _ in range(steps):
        W = unit(W + step_size * (2.0 * W @ task.A + sigma * rng.standard_normal(W.shape)))
    return W


def perturbed(task, diagonal, above, repeats, rng):
    """GMIP: leading eigenvectors of A plus symmetric Gaussian noise."""
    noise = np.triu(rng.standard_normal((repeats, task.d, task.d)), 1)
    noise = above * (noise + np.swapaxes(noise, -1, -2))
    noise[:, range(task.d), range(task.d)] = diagonal * rng.standard_normal((repeats, task.d))
    return np.linalg.eigh(task.A + noise)[1][:, :, -1]


def gmip_scales(task, epsilon):
    """Noise on and above the diagonal of the SUM: as published, and the least certified.

    Replacing a record moves A by at most ``sqrt(2) R^2`` in Frobenius norm, in any direction; noise
    of equal size in all directions has ``1 / sqrt(2)`` of its diagonal size above the diagonal.
    """
    published = 2.0 * task.R**2 * math.sqrt(2.0 * math.log(1.25 / DELTA)) / epsilon
    least = second_moment_sensitivity(task.R).value / gaussian_mu(epsilon, DELTA)
    return (published, published), (least, least / math.sqrt(2.0))


# -- true epsilons: closed forms, without data ----------------------------------------------------


def descent_mu(n, epsilon, replaced_over_bound=1.0):
    """Mu of the published DP-RGD and DP-PGD.

    A step releases the SUM of gradients, which a replaced record moves by ``2 R^2``; the noise
    variance is ``T L0^2 log(1/delta) / (2 n^2 epsilon)``.  With ``L0 = 2 R^2`` neither T nor R
    remain; the synthetic script has ``L0 = R^2``, a factor 2 more.
    """
    return replaced_over_bound * n * math.sqrt(2.0 * epsilon / math.log(1 / DELTA))


def stated_mu(epsilon):
    """Mu if the code did what the paper states: mean gradients, epsilon squared, ``L0 = 2 R^2``."""
    return epsilon / math.sqrt(math.log(1 / DELTA))


def gmip_mu(epsilon):
    return epsilon / (math.sqrt(2.0) * math.sqrt(2.0 * math.log(1.25 / DELTA)))


# -- tables ---------------------------------------------------------------------------------------


def tuned(task, method, epsilon, rng, repeats=40):
    """Least mean risk over a grid of schedules at the true budget: an oracle, not private."""
    mu, best = gaussian_mu(epsilon, DELTA), None
    for steps in (1, 2, 3, 5, 8, 15, 30, 60):
        for step_size in (0.05, 0.15, 0.5, 1.5, 5.0, 20.0):
            sigma = math.sqrt(steps) * 2.0 * task.R**2 / mu
            start = unit(rng.standard_normal((repeats, task.d)))
            risk = task.risk(method(task, start, steps, step_size, sigma, rng)).mean()
            if best is None or risk < best[0]:
                best = risk, steps, step_size
    _, steps, step_size = best
    start = unit(rng.standard_normal((100, task.d)))
    sigma = math.sqrt(steps) * 2.0 * task.R**2 / mu
    return float(task.risk(method(task, start, steps, step_size, sigma, rng)).mean())


def ours(task, epsilon, repeats, **settings):
    outputs = [
        PrivatePrincipalEigenvector(epsilon=epsilon, delta=DELTA, random_state=r, **settings)
        .fit(task.X)
        .components_[0]
        for r in range(repeats)
    ]
    return float(task.risk(np.stack(outputs)).mean())


def real(options, name, curves):
    file, key = SETS[name]
    path = data_file(options, file, f"the panel on {name}")
    if path is None:
        return
    from scipy.io import loadmat

    task = Task(standardised(loadmat(path)[key].astype(float)))
    repeats = 10 if options.quick else 100
    bound, no_data = 2.0 * task.R**2, float(1.0 - np.trace(task.A) / task.d)
    heading(f"{name} (n = {task.n}, d = {task.d}), as published: excess risk")
    rng = np.random.default_rng(5)
    published, calibrated, rows = {}, {}, []
    for epsilon in EPSILONS:
        steps, mu = published_steps(task, epsilon, bound), gaussian_mu(epsilon, DELTA)
        noise = published_sigma(task, epsilon, bound, steps), math.sqrt(steps) * bound / mu
        gmip = gmip_scales(task, epsilon)
        for sigma, width, results in zip(noise, gmip, (published, calibrated), strict=True):
            start = unit(rng.standard_normal((repeats, task.d)))
            outputs = [
                riemannian(task, start, steps, 0.9, sigma, rng),
                projected(task, start, steps, 10.0, sigma, rng),
                perturbed(task, *width, repeats, rng),
            ]
            results[epsilon] = [float(task.risk(W).mean()) for W in outputs]
    header = ("epsilon", "DP-RGD", "DP-PGD", "GMIP", "true epsilon, DP-RGD and DP-PGD", "... GMIP")
    epsilons = {
        e: (
            gaussian_epsilon(descent_mu(task.n, e), DELTA),
            gaussian_epsilon(gmip_mu(e), DELTA),
        )
        for e in EPSILONS
    }
    table(header, ([e, *published[e], *epsilons[e]] for e in EPSILONS))
    heading(f"{name}, every method at the true (epsilon, {DELTA}): excess risk")
    search = () if options.quick else (riemannian, projected)
    header = [
        "epsilon",
        "random direction, no data",
        "DP-RGD",
        "DP-PGD",
        "GMIP",
        *("DP-RGD, tuned in hindsight", "DP-PGD, tuned in hindsight")[: len(search)],
        "ours, centring assumed",
        "ours, default",
        "non-private",
    ]

    def row(e):
        fits = 3 if options.quick else 20
        cells = [e, no_data, *calibrated[e]]
        cells += [tuned(task, method, e, rng) for method in search]
        cells += [ours(task, e, fits, center="assume"), ours(task, e, fits), 0]
        rows.append(cells)
        return cells

    table(header, (row(e) for e in EPSILONS))
    curves[name] = (published, {row[0]: row for row in rows}, header)


def synthetic_panel(options):
    """Figure 1a of the first version: risk against n at epsilon = 0.1."""
    epsilon, repeats = 0.1, 10 if options.quick else 100
    sizes = (500, 2000) if options.quick else (100, 200, 500, 1000, 1500, 2000)
    heading("Synthetic (d = 50, gap 0.001), epsilon 0.1: excess risk against n")
    header = (
        "n",
        "random direction, no data",
        "DP-RGD, published",
        "DP-PGD, published",
        "their true epsilon",
        "... if the code did what the paper states",
        "DP-RGD, calibrated",
        "GMIP, calibrated",
        "ours, centring assumed",
    )

    def row(n):
        rng = np.random.default_rng([6, n])
        task = Task(synthetic(n, rng))
        bound = task.R**2
        steps = published_steps(task, epsilon, bound)
        sigma = published_sigma(task, epsilon, bound, steps)
        once = max(steps, 1)
        honest = math.sqrt(once) * 2.0 * task.R**2 / gaussian_mu(epsilon, DELTA)
        start = unit(rng.standard_normal((repeats, task.d)))
        outputs = [
            start,
            riemannian(task, start, steps, 0.2, sigma, rng),
            projected(task, start, steps, 0.2, sigma, rng),
            riemannian(task, start, once, 0.2, honest, rng),
            perturbed(task, *gmip_scales(task, epsilon)[1], repeats, rng),
        ]
        none, rgd, pgd, calibrated, gmip = (float(task.risk(W).mean()) for W in outputs)
        epsilons = (
            gaussian_epsilon(descent_mu(n, epsilon, 2.0), DELTA) if steps else 0.0,
            gaussian_epsilon(2.0 * stated_mu(epsilon), DELTA) if steps else 0.0,
        )
        fit = ours(task, epsilon, 3 if options.quick else 20, center="assume")
        return [n, none, rgd, pgd, *epsilons, calibrated, gmip, fit]

    table(header, (row(n) for n in sizes))


def figure(curves):
    def draw(pyplot):
        chart, axes = pyplot.subplots(1, len(curves), figsize=(5.5 * len(curves), 4), squeeze=False)
        for axis, (name, (published, equal, header)) in zip(axes[0], curves.items(), strict=True):
            for column, method in enumerate(("DP-RGD", "DP-PGD", "GMIP")):
                values = [published[e][column] for e in EPSILONS]
                axis.loglog(
                    EPSILONS, values, "--", color=f"C{column}", label=f"{method}, published"
                )
                values = [equal[e][2 + column] for e in EPSILONS]
                axis.loglog(EPSILONS, values, color=f"C{column}", label=f"{method}, true epsilon")
            values = [equal[e][header.index("ours, default")] for e in EPSILONS]
            axis.loglog(EPSILONS, values, "k-o", label="ours")
            axis.set(title=name, xlabel="stated epsilon", ylabel="excess risk")
        axes[0, 0].legend(fontsize=7)
        return chart

    return draw


def main(arguments=None):
    options = parse(__doc__, arguments)
    warnings.simplefilter("ignore", UserWarning)
    curves = {}
    with PrivacyAccountant(epsilon=math.inf):
        synthetic_panel(options)
        for name in SETS:
            real(options, name, curves)
    if curves:
        save_figure(options, "han2022_pca", figure(curves))


if __name__ == "__main__":
    main()
