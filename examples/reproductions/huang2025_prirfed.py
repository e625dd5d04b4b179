"""Federated learning on manifolds: PriRFed (Huang, Huang, Jawanpuria and Mishra 2025).

Run:  python examples/reproductions/huang2025_prirfed.py [--quick] [--output OUT] [--data FOLDER]
      python examples/reproductions/huang2025_prirfed.py --quick --only MNIST --data FOLDER

Table 1, the three problems of section 6, and the bounds of section 5.  Each problem is run with the
published noise, whose true epsilon is computed (for DP-RSVRG, the least that can be proved), and
with noise calibrated to the (epsilon, delta) that Theorem 4.2 states for the whole run; clients
take turns, one per round.  The full form takes five minutes of processor time.

FOLDER (or SKRIEMDP_DATA) may hold wordnet_mammals.tsv (closure of the mammals of WordNet),
mnist.npz (array x_train) and pathmnist.npz (array train_images); parts without data are skipped.
"""

import dataclasses
import math
import sys
import warnings
from pathlib import Path

import numpy as np
from huang2025_bounds import bounds, draw_bounds, drift, wishart
from published_svrg import PublishedRSVRG, split_noise
from reproduction_tools import cell, data_file, heading, parse, save_figure, table
from sklearn.datasets import load_digits
from sklearn.manifold import SpectralEmbedding

from skriemdp import frechet_mean
from skriemdp._descent.per_sample import CostProblem, make_gradient
from skriemdp._descent.problem import FrechetProblem
from skriemdp._descent.queries import GradientQuery
from skriemdp._descent.releases import FullBatch, PoissonSampler
from skriemdp._descent.stochastic import RiemannianSGD
from skriemdp._descent.trajectory import Moves
from skriemdp._descent.variance_reduction import RiemannianSVRG
from skriemdp._location_scale.rows import Rows
from skriemdp._pca.problem import SubspaceProblem
from skriemdp.datasets import digits_covariances, embed_taxonomy, load_closure, make_tree
from skriemdp.federated import KernelQuery, LabelQuery, Participation, ridge_weights
from skriemdp.federated import _theory as theory
from skriemdp.federated._theory import published_table_bound
from skriemdp.geometry import SPD, GeodesicBall, Hyperboloid, Sphere
from skriemdp.privacy import calibrate

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import federated_table1  # noqa: E402

EPSILON, DELTA, SLACK = 0.15, 1e-4, 1e-3  # per local training; slack of composition
BRACKET = (0.05, 1e5)  # of noise multipliers


# -- the problems of section 6 --------------------------------------------------------------------


@dataclasses.dataclass
class Case:
    """One problem, cut into clients of equal size.

    Squared distances are halved, so are their clip norms and gradients; steps are twice as long.
    """

    name: str
    problems: list
    start: np.ndarray
    risk: object
    clip: float
    smoothness: float
    step: float
    svrg_step: float
    local_steps: int = 3
    epoch: int = 10
    domain: object = None
    measure: str = "excess risk"

    @property
    def n(self):
        return self.problems[0].n


def shares(records, n_clients, rng):
    size = len(records) // n_clients
    order = rng.permutation(len(records))[: size * n_clients]
    return [records[rows] for rows in np.split(order, n_clients)]


def eigenvector(name, rows, n_clients, row_norm, rng, **settings):
    parts = shares(rows, n_clients, rng)
    space, d = Sphere(rows.shape[1] - 1), rows.shape[1]
    pooled = np.concatenate(parts)
    moment = pooled.T @ pooled / len(pooled)
    best = np.linalg.eigvalsh(moment)[-1]
    problems = [SubspaceProblem(space, Rows(p, *p.shape), np.zeros(d), row_norm) for p in parts]
    smooth = 2.0 * row_norm**2
    start = space.random_point(np.random.default_rng(1))
    return Case(
        name,
        problems,
        start,
        lambda w: float(best - w @ moment @ w),
        clip=smooth,
        smoothness=smooth,
        **{"step": 1.0 / smooth, "svrg_step": 0.5 / smooth, **settings},
    )


def synthetic_rows(rng, n=5000, d=25, gap=1e-3):
    """Rows whose second moment has the published spectrum; one eigenbasis for all clients."""
    spectrum = np.r_[1.0, 1.0 - gap * np.arange(1.1, 1.5, 0.1), np.abs(rng.normal(size=d)) / d][:d]
    left = np.linalg.qr(rng.normal(size=(n, d)))[0]
    right = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (left * spectrum) @ right * math.sqrt(n / d)


def spd_mean(name, points, n_clients, radius, rng, step, center=None):
    space = SPD(points.shape[-1])
    ball = GeodesicBall(space, np.eye(space.shape[0]) if center is None else center, radius)
    parts = [ball.project(part) for part in shares(points, n_clients, rng)]
    pooled = np.concatenate(parts)
    mean = frechet_mean(pooled, space)
    least = np.mean(np.asarray(space.dist(mean, pooled)) ** 2)
    return Case(
        name,
        [FrechetProblem(ball, part) for part in parts],
        ball.center,
        lambda x: float(np.mean(np.asarray(space.dist(x, pooled)) ** 2) - least),
        clip=0.5,
        smoothness=theory.ball_constant(ball),
        step=2.0 * step,
        svrg_step=2.0 * step,
        domain=ball,
    )


def colour_covariances(images):
    """Region covariances of colour images: place, three colours, four derivatives; 9 x 9."""
    images = images / 255.0
    n, height, width, _ = images.shape
    grey = images.mean(axis=3)
    places = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")
    first = np.gradient(grey, axis=(1, 2))
    second = [np.gradient(slope, axis=axis) for slope, axis in zip(first, (1, 2), strict=True)]
    channels = [np.broadcast_to(grid, grey.shape) for grid in places]
    channels += [*np.moveaxis(images, 3, 0), *map(np.abs, first), *map(np.abs, second)]
    features = np.stack(channels, axis=1).reshape(n, 9, -1)
    features = features - features.mean(axis=2, keepdims=True)
    return features @ features.transpose(0, 2, 1) / (height * width) + 1e-3 * np.eye(9)


def prediction(name, X, Y, word, n_clients, radius, rng, gradient, width=0.3):
    """Hyperbolic structured prediction of the label of `word` from all others."""
    space = Hyperboloid(Y.shape[1] - 1)
    ball = GeodesicBall(space, None, radius)
    others = np.delete(np.arange(len(X)), word)
    size = len(others) // n_clients
    rows = rng.permutation(others)[: size * n_clients]
    clients = np.arange(len(rows)) % n_clients
    scale = math.sqrt(2.0) * width  # the paper's kernel divides by (2 width)^2
    if gradient == "labels":
        weights = ridge_weights(X[rows], X[word], scale, 1e-5, clients)
        largest, step = float(np.abs(weights).max()), 0.6
        query = LabelQuery(space)
    else:
        weights, largest, query = X[rows], 1.0, KernelQuery(space, X[word], scale)
        kernel = np.exp(-np.sum((X[rows] - X[word]) ** 2, axis=1) / (2 * scale**2))
        step = 0.5 / kernel.mean()
    function = make_gradient(space, None, "numpy", query)
    problems = [
        CostProblem(function, weights[clients == c], Y[rows][clients == c])
        for c in range(n_clients)
    ]
    clip = 2.0 * radius * largest / (1.0 if gradient == "labels" else 2.0)
    return Case(
        name,
        problems,
        ball.center,
        lambda x: float(space.dist(x, Y[word])),
        clip=clip,
        smoothness=largest * theory.ball_constant(ball),
        step=step,
        svrg_step=min(step, 0.6),  # one record's weight, not the mean weight
        epoch=5,
        domain=ball,
        measure="distance to the label",
    )


def cases(options):
    quick = options.quick
    rng = np.random.default_rng(0)
    n_clients = 20
    yield eigenvector(
        f"eigenvector, synthetic 5000 x 25, N = {n_clients}",
        synthetic_rows(rng),
        n_clients,
        0.8,
        rng,
        epoch=10 if quick else 66,
        local_steps=2,
    )
    grey = load_digits().data / 16.0 - 0.3
    yield eigenvector("eigenvector, digits 1797 x 64, N = 10", grey, 10, 4.0, rng, step=0.1)
    path = data_file(options, "mnist.npz", "eigenvector of MNIST")
    if path is not None:
        images = np.load(path)["x_train"].reshape(-1, 784) / 255.0 - 0.13
        yield eigenvector("eigenvector, MNIST, N = 50", images, 50, 10.0, rng, epoch=166)
    for n_clients in (20,) if quick else (20, 50):
        name = f"mean of 5000 2x2 Wishart, N = {n_clients}"
        yield spd_mean(name, wishart(rng), n_clients, 0.5, rng, 0.05)
    points = digits_covariances()[0] / 0.05
    yield spd_mean("mean of digits' 5x5 covariances, N = 10", points, 10, 3.0, rng, 0.3)
    path = data_file(options, "pathmnist.npz", "mean of PATHMNIST's covariances")
    if path is not None:
        points = colour_covariances(np.load(path)["train_images"][:20_000])
        yield spd_mean("mean of PATHMNIST's 9x9 covariances, N = 50", points, 50, 3.0, rng, 0.3)
    X, Y = make_tree(910)
    yield prediction("tree, one of 9 clients, labels", X, Y, 30, 9, 4.0, rng, "labels")
    yield prediction("tree, one of 9 clients, records", X, Y, 30, 9, 4.0, rng, "records")
    path = data_file(options, "wordnet_mammals.tsv", "prediction of WordNet mammals")
    if path is not None:
        names, edges = load_closure(path)
        adjacency = np.eye(len(names))
        adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = 1.0
        X = SpectralEmbedding(3, affinity="precomputed", random_state=0).fit_transform(adjacency)
        Y = embed_taxonomy(edges, radius=4.0, n_epochs=20 if quick else 100)
        word = names.index("primate.n.02")
        for kind in ("labels", "records"):
            yield prediction(f"WordNet, 'primate', N = 9, {kind}", X, Y, word, 9, 4.0, rng, kind)


# -- the methods ----------------------------------------------------------------------------------


def plain(case, noise):
    moves = Moves(case.local_steps, case.step, domain=case.domain)
    return RiemannianSGD(FullBatch(), noise, moves, case.clip)


def published_plain(case):
    """DP-RSGD with the published noise ``K log(1/delta) tau^2 / (N_i epsilon)^2``."""
    sigma = math.sqrt(case.local_steps * math.log(1 / DELTA)) * case.clip / (case.n * EPSILON)
    bound = GradientQuery(case.problems[0], case.start, case.clip).bound
    return plain(case, sigma * case.n / (2.0 * bound.radius))


def published_reduced(case, sigma=None):
    """DP-RSVRG with the published noise ``m K log(1/delta) tau^2 / (N_i epsilon)^2``."""
    steps = case.local_steps * case.epoch
    if sigma is None:
        sigma = math.sqrt(steps * math.log(1 / DELTA)) * case.clip / (case.n * EPSILON)
    moves = Moves(steps, case.svrg_step, domain=case.domain)
    return PublishedRSVRG(sigma, case.clip, case.clip, case.local_steps, case.epoch, moves)


def reduced(case, noise):
    """DP-RSVRG with noisy anchors and differences clipped by the distance from the anchor."""
    moves = Moves(case.local_steps * (1 + case.epoch), case.svrg_step, domain=case.domain)
    return RiemannianSVRG(
        PoissonSampler(0.3 * case.n, case.problems[0].geometry.dim),
        noise,
        noise,
        case.local_steps,
        case.epoch,
        moves,
        clip_norm=case.clip,
        smoothness=case.smoothness,
    )


def total_event(case, solver, rounds):
    """What a run costs a record of the client that trains most often; clients take turns."""
    part = Participation(len(case.problems), rounds, 1)
    return part.record_event(solver.event(case.n))


def calibrated(case, make, rounds, target):
    return make(
        case, calibrate(lambda s: total_event(case, make(case, s), rounds), *target, BRACKET)
    )


def trajectory(case, solver, rounds, seed, marks):
    """Risks at `marks`; with one client per round its upload is the next point."""
    rng = np.random.default_rng(seed)
    turns = Participation(len(case.problems), rounds, 1).draw(rng)[:, 0]
    point, risks = case.start, []
    for t, client in enumerate(turns.tolist(), 1):
        point = solver.solve(case.problems[client], point, rng)
        if t in marks:
            risks.append(case.risk(point))
    return risks


def methods(case, rounds, target):
    """Label, solver and true epsilon of each method."""
    delta = target[1]
    first = published_plain(case)
    yield "DP-RSGD, published noise", first, total_event(case, first, rounds).epsilon(delta)
    second = split_noise(published_reduced(case), case.n, DELTA)
    yield "DP-RSVRG, published noise", second, total_event(case, second, rounds).epsilon(delta)
    yield "DP-RSGD, calibrated", calibrated(case, plain, rounds, target), target[0]
    yield "DP-RSVRG, calibrated", calibrated(case, reduced, rounds, target), target[0]
    # Sums of exact integers have this noise at least.
    yield "RSGD, not private", plain(case, 1e-3), math.inf
    yield "RSVRG, not private", published_reduced(case, 1e-9), math.inf


def one_round(case, target):
    """All clients take one full step each, averaged: the same budget in a single release.

    For means the step is one and nothing is clipped: the ball bounds the gradients.
    """
    mean = isinstance(case.problems[0], FrechetProblem)
    moves = Moves(1, 1.0 if mean else 1.0 / case.smoothness, domain=case.domain)
    clip = math.inf if mean else case.clip

    def single(noise):
        return RiemannianSGD(FullBatch(), noise, moves, clip)

    noise = calibrate(lambda s: single(s).event(case.n), *target, BRACKET)
    solver, risks = single(noise), []
    geometry = case.problems[0].geometry
    for seed in range(5):
        rng = np.random.default_rng(seed)
        ends = np.stack([solver.solve(p, case.start, rng) for p in case.problems])
        move = geometry.log(case.start, ends).mean(axis=0)
        risks.append(case.risk(geometry.exp(case.start, move)))
    return float(np.median(risks))


def compare(options):
    rounds = 12 if options.quick else 60
    repeats = 1 if options.quick else 3
    marks = sorted({max(1, round(rounds * f)) for f in (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)})
    curves = {}
    for case in cases(options):
        if options.only and not any(word in case.name for word in options.only):
            continue
        target = published_table_bound(len(case.problems), 1, rounds, EPSILON, DELTA, SLACK)
        heading(f"{case.name}: {case.measure}")
        print(
            f"{rounds} rounds, one client of {case.n} records each; Theorem 4.2 states "
            f"({target[0]:.3g}, {target[1]:.1e}).  Start {cell(case.risk(case.start))}; all "
            f"clients in one round at that budget {cell(one_round(case, target))}.\n"
        )
        rows = []
        curves[case.name] = case.risk(case.start), {}
        for label, solver, epsilon in methods(case, rounds, target):
            runs = [trajectory(case, solver, rounds, seed, marks) for seed in range(repeats)]
            middle = np.median(runs, axis=0)
            curves[case.name][1][label] = (marks, middle, epsilon)
            shown = "inf" if math.isinf(epsilon) else cell(epsilon)
            if isinstance(solver, PublishedRSVRG) and not math.isinf(epsilon):
                shown = f"at most {shown}"
            rows.append([label, shown, *middle])
        table(["method", "epsilon", *(f"round {mark}" for mark in marks)], rows)
    return curves


def draw_curves(pyplot, curves):
    columns = 3
    lines = math.ceil(len(curves) / columns)
    figure, axes = pyplot.subplots(lines, columns, figsize=(5 * columns, 3.8 * lines))
    styles = ["C3-", "C1-", "C0-", "C2-", "k:", "k--"]
    for ax, (name, (start, runs)) in zip(axes.flat, curves.items(), strict=False):
        ax.axhline(start, color="0.8", label="public start")
        for style, (label, (marks, risks, epsilon)) in zip(styles, runs.items(), strict=True):
            shown = "" if math.isinf(epsilon) else f" ({cell(epsilon)})"
            ax.plot(marks, risks, style, label=label + shown)
        ax.set(title=name, xlabel="rounds", yscale="log")
        ax.legend(fontsize=6)
    for ax in list(axes.flat)[len(curves) :]:
        ax.axis("off")
    figure.tight_layout()
    return figure


# -- Table 1 --------------------------------------------------------------------------------------


def table_1(options):
    heading(
        "Table 1: printed, true delta at the printed epsilon, true epsilon at the printed delta"
    )
    rows, same, held = [], 0, 0
    for found in federated_table1.cells(every=12 if options.quick else 1):
        n, s, t, (epsilon, delta), equal, true_delta, holds, black_box, gaussian = found
        same, held = same + equal, held + holds
        printed = f"{epsilon:.3g}, {delta:.2e}"
        verdict = "yes" if holds else "NO"
        rows.append((n, s, t, printed, true_delta, verdict, black_box, gaussian))
    table(["N", "s", "T", "printed", "true delta", "holds", "black box", "Gaussian"], rows)
    print(f"{same} of {len(rows)} cells reproduced by the formula; {held} hold for records.")


def main(arguments=None):
    options = parse(__doc__, arguments, only=True)
    warnings.simplefilter("ignore")
    if not options.only:
        table_1(options)
        drift()
        shown = bounds(options)
        save_figure(options, "huang2025_prirfed-bounds", lambda pyplot: draw_bounds(pyplot, shown))
    curves = compare(options)
    save_figure(options, "huang2025_prirfed-risk", lambda pyplot: draw_curves(pyplot, curves))


if __name__ == "__main__":
    main()
