"""Private Fréchet means of 2 x 2 SPD matrices (Han et al. 2022, Figure 1b; 2024, Figures 1a, 2a).

Run:  python examples/reproductions/han2022_spd_mean.py [--quick] [--output FOLDER] [--data FOLDER]

Both metrics, affine-invariant and Bures-Wasserstein: excess risk of DP-RGD, FM-LAP and FM-KNG with
the published noise, what (epsilon, delta) that noise really gives, and the same methods calibrated
to one true guarantee beside `PrivateFrechetMean`.  Risk is ``F(W) = mean d^2(W, X_i)``.

Tangent Gaussian noise and Laplace laws are drawn exactly; the published code walks Markov chains
towards the same laws.  FM-KNG is shown twice: the published walk, which stops after 5000
acceptances (20 runs of it, 200 of the rest), and, where the law exists and is known, exact
draws.
"""

import dataclasses
import math
import warnings

import numpy as np
from reproduction_tools import cell, heading, parse, save_figure, spread, table

from skriemdp import PrivacyAccountant, PrivateFrechetMean
from skriemdp.datasets import make_cloud
from skriemdp.geometry import SPD
from skriemdp.privacy import frechet_mean_sensitivity, gaussian_epsilon, gaussian_mu
from skriemdp.riemannian_laws import RiemannianLaplace

EPSILON, DELTA, STEP = 0.1, 1e-3, 0.01


@dataclasses.dataclass(frozen=True)
class Plan:
    """How much is run: repeats of fast methods, walks and fits, and the numbers of records."""

    repeats: int
    walks: int
    fits: int
    affine: tuple
    bures: tuple
    calibrated: tuple
    off_centre: tuple
    calibrated_bures: tuple


QUICK = Plan(20, 8, 8, (20, 60, 300), (20, 240), (20, 100, 300), (100, 300), (60,))
FULL = Plan(
    repeats=200,
    walks=20,
    fits=60,
    affine=tuple(range(20, 301, 20)),
    bures=tuple(range(20, 241, 20)),
    calibrated=(20, 60, 100, 200, 300),
    off_centre=(100, 300, 1000),
    calibrated_bures=(60, 240),
)
# The affine-invariant Laplace law on 2 x 2 matrices exists for scales below this.
WIDEST = math.sqrt(2.0)


# -- many walks at once, in closed form for 2 x 2 matrices ----------------------------------------


def _determinant(W):
    return W[..., 0, 0] * W[..., 1, 1] - W[..., 0, 1] * W[..., 1, 0]


def _inverse(W):
    adjugate = np.stack(
        [np.stack([W[:, 1, 1], -W[:, 0, 1]], -1), np.stack([-W[:, 1, 0], W[:, 0, 0]], -1)], -2
    )
    return adjugate / _determinant(W)[:, None, None]


@dataclasses.dataclass
class Cloud:
    """Records X, shape (n, 2, 2), seen from R points W at once, shape (R, 2, 2)."""

    X: np.ndarray

    def __post_init__(self):
        self.n = len(self.X)
        self.flat = self.X.reshape(self.n, 4)
        self.determinants = _determinant(self.X)

    def _traces(self, W):
        """``tr(W X_i)``, shape (R, n)."""
        return W.reshape(-1, 4) @ self.flat.T  # both are symmetric

    def gradient_norm(self, W):
        """Norm of the mean logarithm at each W."""
        return np.asarray(self.geometry.norm(W, self.mean_log(W)))

    def mean(self, steps=60):
        W = np.eye(2)[None]
        for _ in range(steps):
            W = self.geometry.exp(W, self.mean_log(W))
        return W[0]

    def excess(self, W):
        """``F(W) - F(mean)``."""
        if not hasattr(self, "_least"):
            self._least = float(self.risk(self.mean()[None])[0])
        return self.risk(W) - self._least


class AffineCloud(Cloud):
    geometry = SPD(2)

    def _eigen(self, W):
        """Mean m and half gap s of the eigenvalues of ``W^-1 X_i``, their log gap, log det."""
        m = 0.5 * self._traces(_inverse(W))
        det = self.determinants / _determinant(W)[:, None]
        s = np.sqrt(np.maximum(m * m - det, 0.0))
        ratio = s / m
        near = np.arctanh(np.minimum(ratio, 0.5))
        log_det = np.log(det)
        half_gap = np.where(ratio < 0.5, near, np.log(m + s) - 0.5 * log_det)
        return m, s, half_gap, log_det

    def mean_log(self, W):
        m, s, half_gap, log_det = self._eigen(W)
        slope = np.where(s > 1e-12 * m, half_gap / np.maximum(s, 1e-300), 1.0 / m)
        shift = np.mean(0.5 * log_det - slope * m, axis=1)
        return (slope @ self.flat / self.n).reshape(-1, 2, 2) + shift[:, None, None] * W

    def risk(self, W):
        _, _, half_gap, log_det = self._eigen(W)
        return np.mean(2.0 * half_gap**2 + 0.5 * log_det**2, axis=1)


class BuresCloud(Cloud):
    geometry = SPD(2, metric="bures-wasserstein")

    def _roots(self, W):
        """Trace of ``(W X_i)^(1/2)`` and the square root of its determinant."""
        s = np.sqrt(self.determinants * _determinant(W)[:, None])
        return np.sqrt(self._traces(W) + 2.0 * s), s

    def mean_log(self, W):
        t, s = self._roots(W)
        root = W @ ((1.0 / t) @ self.flat / self.n).reshape(-1, 2, 2)
        root = root + np.mean(s / t, axis=1)[:, None, None] * np.eye(2)
        return root + np.swapaxes(root, -1, -2) - 2.0 * W

    def risk(self, W):
        t, _ = self._roots(W)
        traces = np.trace(W, axis1=-2, axis2=-1)[:, None] + np.trace(self.X, axis1=-2, axis2=-1)
        return np.mean(traces - 2.0 * t, axis=1)


# -- the published data, starts and methods -------------------------------------------------------


def wishart_in_ball(cloud_type, n, radius, rng):
    """``W(I/2, 2)`` matrices, rejected until they lie within `radius` of the identity."""
    kept, have = [], 0
    while have < n:
        factors = rng.normal(scale=math.sqrt(0.5), size=(20_000, 2, 2))
        X = factors @ np.swapaxes(factors, -1, -2)
        X = X[_determinant(X) > 1e-12]
        squares = cloud_type(np.eye(2)[None]).risk(X)
        kept.append(X[squares < radius**2])
        have += len(kept[-1])
    return cloud_type(np.concatenate(kept)[:n])


def random_start(count, rng):
    """The toolbox's random SPD matrix: eigenvalues uniform in [1, 2], any rotation."""
    values, angle = 1.0 + rng.random((count, 2)), 2 * math.pi * rng.random(count)
    c, s = np.cos(angle), np.sin(angle)
    Q = np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)
    return (Q * values[:, None, :]) @ np.swapaxes(Q, -1, -2)


def descend(cloud, W, steps, step_size, sigma, rng):
    """DP-RGD with the same tangent Gaussian noise in every step."""
    for _ in range(steps):
        noise = sigma * rng.standard_normal((len(W), 3))
        noise = cloud.geometry.tangent_from_coordinates(W, noise)
        W = cloud.geometry.exp(W, step_size * (cloud.mean_log(W) + noise))
    return W


def published_sigma(n, radius):
    """``T log(1/delta) L0^2 / (n epsilon)^2`` with T = n."""
    return math.sqrt(n * math.log(1 / DELTA)) * radius / (n * EPSILON)


def published_mu(replaced, radius, epsilon=EPSILON, delta=DELTA):
    """Mu of the published DP-RGD if replacing a record moves its logarithm by `replaced`.

    ``mu^2 = T (replaced / n)^2 / sigma^2``: neither T nor n remain.
    """
    return replaced / radius * epsilon / math.sqrt(math.log(1 / delta))


def laplace(center, scale, repeats, rng):
    """Exact draws of the affine-invariant Laplace law; None where there is none."""
    if scale >= WIDEST:
        return None
    space = SPD(2)
    # Coordinates, because `sample` refuses laws so wide that a draw may not be a matrix in double
    # precision; here that costs accuracy of a rare draw, not privacy.
    coordinates = RiemannianLaplace(space, scale).sample_coordinates((repeats,), rng)
    return space.exp(center, space.tangent_from_coordinates(center, coordinates))


def k_norm_walk(cloud, scale, repeats, rng, acceptances=5000, most=50_000):
    """The published walk for FM-KNG; its last proposal is returned, accepted or not.

    Proposals are ``Exp(0.1 scale V)``, V uniform in the cube of matrix entries; there is no
    correction for their asymmetry, so the law is not exactly that of the mechanism.
    """
    W = np.repeat(cloud.mean()[None], repeats, axis=0)
    proposal, level, accepted = W.copy(), cloud.gradient_norm(W), np.zeros(repeats, dtype=int)
    for _ in range(most):
        live = np.flatnonzero(accepted < acceptances)
        if not len(live):
            break
        u = rng.uniform(-0.5, 0.5, (len(live), 3))
        V = np.stack([u[:, [0, 1]], u[:, [1, 2]]], axis=-2)
        proposal[live] = cloud.geometry.exp(W[live], 0.1 * scale * V)
        new = cloud.gradient_norm(proposal[live])
        moved = np.log(rng.random(len(live))) < (level[live] - new) / scale
        chosen = live[moved]
        W[chosen], level[chosen] = proposal[chosen], new[moved]
        accepted[chosen] += 1
    return proposal


def k_norm_exact(cloud, scale, repeats, rng):
    """Exact draws with density ``exp(-|mean log| / scale)``; affine-invariant metric only.

    Half the mean squared distance is 1-strongly convex, so ``|mean log|`` is at least the distance
    to the mean: draws of the Laplace law there are kept with the ratio of the densities.
    """
    if scale >= WIDEST:
        return None
    mean, kept, have = cloud.mean(), [], 0
    while have < repeats:
        W = laplace(mean, scale, 200, rng)
        gap = cloud.gradient_norm(W) - cloud.geometry.dist(mean, W)
        kept.append(W[np.log(rng.random(len(W))) < -gap / scale])
        have += len(kept[-1])
    return np.concatenate(kept)[:repeats]


def bures_scales(cloud, radius):
    """Scales of FM-LAP and FM-KNG: twice the sensitivity over epsilon.

    The published code means to take the largest curvature of the records and takes the last one's.
    """
    curvature = 3.0 / float(np.trace(cloud.X[-1]))
    x = 2.0 * radius * math.sqrt(curvature)
    h = x / math.tan(x)
    gradient = 2.0 * radius * (2.0 - h) / cloud.n
    return 2.0 * gradient / h / EPSILON, 2.0 * gradient / EPSILON


def metric_ratio(radius):
    """Affine-invariant over Bures-Wasserstein length within `radius` of the identity.

    The metrics are ``sum u_ij^2 / (l_i l_j)`` and half of ``sum u_ij^2 / (l_i + l_j)``, and no
    eigenvalue in the ball has a root below ``1 - radius``.
    """
    return 2.0 / (1.0 - radius)


def bures_curvature(radius):
    """Largest curvature, 3 / trace, in the ball of `radius` about the identity."""
    return 3.0 / (2.0 * (1.0 - radius / math.sqrt(2.0)) ** 2)


def bures_mean_sensitivity(radius, n):
    return frechet_mean_sensitivity(radius, n, bures_curvature(radius))


# -- tables ---------------------------------------------------------------------------------------


def risks(cloud, points):
    return "no such law" if points is None else spread(cloud.excess(points))


def published_affine(plan, curves):
    heading("Affine-invariant, as published: excess risk, mean ± standard error [median]")
    repeats, walks = plan.repeats, plan.walks
    header = (
        "n",
        "random start, no data",
        "DP-RGD",
        "FM-LAP, 2/(n epsilon) (code)",
        "FM-LAP, 4/(n epsilon) (text)",
        "FM-KNG, walk",
        "FM-KNG, its law",
        "public centre I, no data",
    )

    def row(n):
        rng = np.random.default_rng([1, n])
        cloud = wishart_in_ball(AffineCloud, n, 1.0, rng)
        start, mean = random_start(repeats, rng), cloud.mean()
        outputs = [
            start,
            descend(cloud, start, n, STEP, published_sigma(n, 1.0), rng),
            laplace(mean, 2 / (n * EPSILON), repeats, rng),
            laplace(mean, 4 / (n * EPSILON), repeats, rng),
            k_norm_walk(cloud, 4 / (n * EPSILON), walks, rng),
            k_norm_exact(cloud, 4 / (n * EPSILON), repeats, rng),
        ]
        centre = float(cloud.excess(np.eye(2)[None])[0])
        curves[n] = [np.nan if W is None else float(cloud.excess(W).mean()) for W in outputs]
        return [n, *(risks(cloud, W) for W in outputs), centre]

    table(header, (row(n) for n in plan.affine))


def published_bures(plan, curves):
    heading("Bures-Wasserstein, as published: excess risk, mean ± standard error [median]")
    repeats, walks = plan.repeats, plan.walks
    header = (
        "n",
        "random start, no data",
        "DP-RGD",
        "FM-LAP",
        "FM-KNG, walk",
        "public centre I, no data",
        "true epsilon of FM-LAP, at most",
    )

    def row(n):
        rng = np.random.default_rng([2, n])
        cloud = wishart_in_ball(BuresCloud, n, 0.3, rng)
        start = random_start(repeats, rng)
        wide, narrow = bures_scales(cloud, 0.3)
        outputs = [
            start,
            descend(cloud, start, n, STEP, published_sigma(n, 0.3), rng),
            laplace(cloud.mean(), wide, repeats, rng),
            k_norm_walk(cloud, narrow, walks, rng),
        ]
        curves[n] = [np.nan if W is None else float(cloud.excess(W).mean()) for W in outputs]
        epsilon = metric_ratio(0.3) * bures_mean_sensitivity(0.3, n) / wide
        centre = float(cloud.excess(np.eye(2)[None])[0])
        return [n, *(risks(cloud, W) for W in outputs), centre, epsilon]

    table(header, (row(n) for n in plan.bures))


def true_epsilons():
    """Rows (curve, stated, true epsilon, delta, condition)."""
    affine = published_mu(2.0, 1.0)
    near = published_mu(2.0 * 0.3, 0.3)
    anywhere = published_mu(2.0 * (math.sqrt(2.0) + 0.3), 0.3)
    return [
        (
            "DP-RGD, affine-invariant",
            gaussian_epsilon(affine, DELTA),
            DELTA,
            "for every n, T and start",
        ),
        ("FM-LAP, 2/(n epsilon), affine-invariant", EPSILON, 0.0, "exact"),
        ("FM-LAP, 4/(n epsilon), affine-invariant", EPSILON / 2, 0.0, "exact; no law for n <= 28"),
        ("FM-KNG, affine-invariant", EPSILON, 0.0, "at most, for its law; the walk is narrower"),
        (
            "DP-RGD, Bures-Wasserstein",
            gaussian_epsilon(near, DELTA),
            DELTA,
            "if logarithms differ by at most 2 L0, which nothing ensures",
        ),
        ("DP-RGD, Bures-Wasserstein", gaussian_epsilon(anywhere, DELTA), DELTA, "proved, at most"),
        ("FM-KNG, Bures-Wasserstein", "not known", "", "the logarithm is not Lipschitz far away"),
    ]


def print_true_epsilons():
    heading("What the published noise guarantees (stated: epsilon 0.1, delta 0.001)")
    table(("curve", "true epsilon", "delta", "condition"), true_epsilons())


def fitted(cloud, repeats, **settings):
    """Means of repeated fits of `PrivateFrechetMean` at (EPSILON, DELTA)."""
    starts = settings.pop("starts", None)
    settings = {"center": cloud.geometry.base_point, "radius": 1.0} | settings
    outputs = []
    for repeat in range(repeats):
        if starts is not None:
            settings["start"] = starts[repeat]
        model = PrivateFrechetMean(
            cloud.geometry, epsilon=EPSILON, delta=DELTA, random_state=repeat, **settings
        )
        outputs.append(model.fit(cloud.X).mean_)
    return np.stack(outputs)


def calibrated_affine(cloud, repeats, rng):
    """Outputs of every method at a true (EPSILON, DELTA), or a pure EPSILON."""
    n, mu = cloud.n, gaussian_mu(EPSILON, DELTA)
    one_step = 2.0 / (n * mu)
    walk = math.sqrt(n) * one_step
    start, centre = random_start(repeats, rng), np.repeat(np.eye(2)[None], repeats, axis=0)
    return {
        "public centre I, no data": centre[:1],
        "random start, no data": start,
        "DP-RGD, T = n, step 0.01, random start": descend(cloud, start, n, STEP, walk, rng),
        "the same from the centre": descend(cloud, centre, n, STEP, walk, rng),
        "DP-RGD, one full step from the centre": descend(cloud, centre, 1, 1.0, one_step, rng),
        "FM-LAP, pure epsilon": laplace(cloud.mean(), 2 / (n * EPSILON), repeats, rng),
        "FM-KNG, pure epsilon, exact draws": k_norm_exact(cloud, 4 / (n * EPSILON), repeats, rng),
        "`PrivateFrechetMean(radius=1)`": fitted(cloud, repeats),
        '`PrivateFrechetMean(radius=1, mechanism="tangent")`': fitted(
            cloud, repeats, mechanism="tangent"
        ),
        "non-private": cloud.mean()[None],
    }


def calibrated_bures(cloud, repeats, rng):
    n, start = cloud.n, random_start(repeats, rng)
    wide = metric_ratio(0.3) * bures_mean_sensitivity(0.3, n) / EPSILON
    schedule = {"mechanism": "gradient", "n_steps": n, "step_size": STEP}
    return {
        "public centre I, no data": np.eye(2)[None],
        "random start, no data": start,
        "DP-RGD, T = n, step 0.01, clipped, random start": fitted(
            cloud, repeats, radius=0.3, starts=start, **schedule
        ),
        "the same from the centre": fitted(cloud, repeats, radius=0.3, **schedule),
        "FM-LAP, pure epsilon": laplace(cloud.mean(), wide, repeats, rng),
        "`PrivateFrechetMean(radius=0.3)`": fitted(cloud, repeats, radius=0.3),
        '`PrivateFrechetMean(radius=0.3, mechanism="tangent")`': fitted(
            cloud, repeats, radius=0.3, mechanism="tangent"
        ),
        "non-private": cloud.mean()[None],
    }


def print_calibrated(title, make, methods, sizes, repeats):
    heading(f"{title}: excess risk at a true ({EPSILON}, {DELTA}), mean [median]")
    columns = []
    for n in sizes:
        rng = np.random.default_rng([3, n])
        cloud = make(n, rng)
        outputs = methods(cloud, repeats, rng)
        columns.append(
            {
                name: "no such law" if W is None else _mean_median(cloud.excess(W))
                for name, W in outputs.items()
            }
        )
    table(
        ("method", *(f"n = {n}" for n in sizes)),
        ([name, *(column[name] for column in columns)] for name in columns[0]),
    )


def _mean_median(values):
    mean = float(np.mean(values))
    if len(values) == 1:
        return cell(mean if abs(mean) > 1e-12 else 0.0)
    return f"{cell(mean)} [{cell(float(np.median(values)))}]"


def off_centre(n, rng):
    """Records about 0.7 from the public centre, spread 0.2: the centre is no answer here."""
    return AffineCloud(np.asarray(make_cloud(SPD(2), n, offset=0.7, spread=0.2, rng=rng)))


def figure(affine, bures):
    def draw(pyplot):
        names = ("random start, no data", "DP-RGD", "FM-LAP", "FM-LAP (text)", "FM-KNG")
        chart, axes = pyplot.subplots(1, 2, figsize=(11, 4))
        panels = ((affine, (0, 1, 2, 3, 4)), (bures, (0, 1, 2, None, 3)))
        for axis, (curves, places) in zip(axes, panels, strict=True):
            sizes = sorted(curves)
            for name, place in zip(names, places, strict=True):
                if place is not None:
                    axis.semilogy(sizes, [curves[n][place] for n in sizes], label=name)
            axis.set(xlabel="n", ylabel="excess risk")
        axes[0].set_title("affine-invariant, as published")
        axes[1].set_title("Bures-Wasserstein, as published")
        axes[0].legend()
        return chart

    return draw


def main(arguments=None):
    options = parse(__doc__, arguments)
    plan = QUICK if options.quick else FULL
    warnings.simplefilter("ignore", UserWarning)  # little information: shown on purpose
    affine, bures = {}, {}
    with PrivacyAccountant(epsilon=math.inf):
        print_true_epsilons()
        with np.errstate(all="ignore"):  # the widest draws are no matrices in double precision
            published_affine(plan, affine)
        published_bures(plan, bures)
        print_calibrated(
            "Affine-invariant",
            lambda n, rng: wishart_in_ball(AffineCloud, n, 1.0, rng),
            calibrated_affine,
            plan.calibrated,
            plan.fits,
        )
        print_calibrated(
            "Records away from the centre, affine-invariant",
            off_centre,
            calibrated_affine,
            plan.off_centre,
            plan.fits,
        )
        print_calibrated(
            "Bures-Wasserstein",
            lambda n, rng: wishart_in_ball(BuresCloud, n, 0.3, rng),
            calibrated_bures,
            plan.calibrated_bures,
            max(2, plan.fits // 3),
        )
    save_figure(options, "han2022_spd_mean", figure(affine, bures))


if __name__ == "__main__":
    main()
