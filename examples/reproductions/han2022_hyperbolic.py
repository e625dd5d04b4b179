"""Private hyperbolic structured prediction (Han et al. 2024, Figures 3a and 4).

Run:  python examples/reproductions/han2022_hyperbolic.py [--quick] [--output OUT] [--data FOLDER]

FOLDER (or the environment variable SKRIEMDP_DATA) holds wordnet_mammals.tsv, the transitive closure
of the mammals of WordNet; without it a regular tree takes its place.  The published script needs
a trained embedding that is not published: labels are made here by `embed_taxonomy`, the loss of
Nickel and Kiela, within 5 of the origin, so that the published diameter of 10 holds.  Features and
kernel ridge weights are the published ones: Laplacian eigenmaps to three dimensions, width 0.2,
ridge 1e-5 n.  Numbers are hyperbolic distances between prediction and held-out label.
"""

import math
import warnings

import numpy as np
from reproduction_tools import data_file, heading, parse, save_figure, spread, table
from sklearn.manifold import SpectralEmbedding

from skriemdp import PrivacyAccountant, PrivateFrechetMean, PrivateHyperbolicRegressor
from skriemdp._regression.prediction_releases import KernelRidgeWeights
from skriemdp.datasets import embed_taxonomy, load_closure
from skriemdp.geometry import Hyperboloid
from skriemdp.privacy import gaussian_epsilon, gaussian_mu

EPSILON, DELTA, DIAMETER, WIDTH, RIDGE = 0.1, 1e-3, 10.0, 0.2, 1e-5
SPACE = Hyperboloid(2)


# -- the published method, many runs at once, in Lorentz coordinates ------------------------------


def minkowski(a, b):
    return np.sum(a[..., 1:] * b[..., 1:], axis=-1) - a[..., 0] * b[..., 0]


def pull(W, labels, weights):
    """``sum_i a_i log_w y_i`` at each row of W."""
    signed = labels * np.array([-1.0, 1.0, 1.0])
    cosh = np.maximum(-(W @ signed.T), 1.0)
    sinh = np.sqrt(np.maximum(cosh * cosh - 1.0, 0.0))
    factor = np.where(sinh > 1e-8, np.arccosh(cosh) / np.maximum(sinh, 1e-300), 1.0) * weights
    return factor @ labels - np.sum(factor * cosh, axis=1, keepdims=True) * W


def step(W, V):
    length = np.sqrt(np.maximum(minkowski(V, V), 0.0))[:, None]
    W = (
        np.cosh(length) * W
        + np.where(length > 0, np.sinh(length) / np.maximum(length, 1e-300), 1.0) * V
    )
    W[:, 0] = np.sqrt(1.0 + np.sum(W[:, 1:] ** 2, axis=1))  # rounding must not leave the sheet
    return W


def descend(W, labels, weights, steps, step_size, sigma, rng, truth=None, stop=1e-4):
    """Gradient steps on ``sum a_i d^2``; each run stops, as published, at a small exact gradient.

    Returns the last points and, given the true label, the distances to it after every step.
    """
    live, path = np.ones(len(W), dtype=bool), []
    for _ in range(steps):
        V = 2.0 * pull(W, labels, weights)
        noise = sigma * rng.standard_normal((len(W), 2))
        noise = SPACE.tangent_from_coordinates(W, noise)
        moved = step(W, step_size * (V + noise))
        W = np.where(live[:, None], moved, W)
        live &= np.linalg.norm(V, axis=1) >= stop
        if truth is not None:
            path.append(SPACE.dist(truth, W))
    return W, np.array(path)


def schedule(n, largest):
    """Published number of steps and noise for weights up to `largest`."""
    lipschitz = DIAMETER * largest
    smooth = DIAMETER / math.tanh(DIAMETER)
    steps = int(math.sqrt(smooth) * n * EPSILON / (math.sqrt(2 * math.log(1 / DELTA)) * lipschitz))
    return steps, math.sqrt(steps * math.log(1 / DELTA)) * lipschitz / (n * EPSILON)


def published_mu(n, epsilon=EPSILON, delta=DELTA):
    """Mu for one replaced label, features public, of the published noise.

    The gradient of the SUM moves by ``2 max|a| D``, and the noise has standard deviation
    ``sqrt(T log(1/delta)) max|a| D / (n epsilon)``: only n, epsilon and delta remain.
    """
    return 2.0 * n * epsilon / math.sqrt(math.log(1 / delta))


# -- data -----------------------------------------------------------------------------------------


def eigenmaps_and_labels(edges, n, quick):
    """Features and labels from the closure of a taxonomy; nothing here is private."""
    adjacency = np.eye(n)
    adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = 1.0
    X = SpectralEmbedding(3, affinity="precomputed", random_state=0).fit_transform(adjacency)
    return X, embed_taxonomy(edges, radius=DIAMETER / 2, n_epochs=20 if quick else 100)


def regular_tree(depth=6, children=3):
    """Closure of a regular tree, for machines without the data: not a reproduction."""
    n = (children**depth - 1) // (children - 1)
    edges = []
    for node in range(1, n):
        ancestor = node
        while ancestor:
            ancestor = (ancestor - 1) // children
            edges.append((node, ancestor))
    return [f"node {i}" for i in range(n)], np.array(edges)


class Query:
    """One held-out word and the records that predict it."""

    def __init__(self, X, Y, word, held_out):
        keep = np.ones(len(X), dtype=bool)
        keep[held_out] = False
        self.X, self.Y, self.x, self.y = X[keep], Y[keep], X[word], Y[word]
        self.n = len(self.X)
        self.weights, self.largest = KernelRidgeWeights(self.X, WIDTH, RIDGE * self.n)(self.x)

    def distance(self, W):
        return np.atleast_1d(SPACE.dist(self.y, W))


# -- methods: each maps (query, repeats, rng) to points -------------------------------------------


def random_label(query, repeats, rng):
    return query.Y[rng.integers(0, query.n, repeats)]


def non_private(query, repeats, rng):
    start = random_label(query, repeats, rng)
    return descend(start, query.Y, query.weights, 1500, 0.003, 0.0, rng)[0]


def published(query, repeats, rng):
    steps, sigma = schedule(query.n, query.largest)
    start = random_label(query, repeats, rng)
    return descend(start, query.Y, query.weights, steps, 0.001, sigma, rng)[0]


def calibrated(query, repeats, rng):
    """Published steps and step size; noise for one label; public start, no early stop."""
    steps, _ = schedule(query.n, query.largest)
    sigma = math.sqrt(steps) * 2.0 * query.largest * DIAMETER / gaussian_mu(EPSILON, DELTA)
    start = np.repeat(SPACE.base_point[None], repeats, axis=0)
    return descend(start, query.Y, query.weights, steps, 0.001, sigma, rng, stop=0.0)[0]


def regressor(query, repeats, **settings):
    outputs = []
    for repeat in range(repeats):
        model = PrivateHyperbolicRegressor(
            manifold="hyperboloid",
            radius=DIAMETER / 2,
            epsilon=EPSILON,
            delta=DELTA,
            random_state=repeat,
            **settings,
        )
        outputs.append(model.fit(query.X, query.Y).predict(query.x[None])[0])
    return np.stack(outputs)


def one_query(query, repeats, rng):
    return regressor(
        query,
        repeats,
        mechanism="per-query",
        privacy_unit="label",
        n_queries=1,
        feature_scale=1.0,  # the published width is in units of the eigenmaps
        length_scale=WIDTH,
        ridge=RIDGE * query.n,
    )


def one_model(query, repeats, rng):
    # The eigenmaps' own spread: public with the features, which only this row treats as records.
    return regressor(query, repeats, feature_scale=query.X.std(axis=0))


def private_mean(query, repeats, rng):
    settings = {"radius": DIAMETER / 2, "epsilon": EPSILON, "delta": DELTA}
    fits = [PrivateFrechetMean(SPACE, random_state=r, **settings) for r in range(repeats)]
    return np.stack([fit.fit(query.Y).mean_ for fit in fits])


METHODS = {
    "public origin, no data": lambda q, r, rng: np.repeat(SPACE.base_point[None], r, axis=0),
    "a random training label (the published start)": random_label,
    "RGD, non-private": non_private,
    "DP-RGD, published": published,
    "DP-RGD, calibrated, labels": calibrated,
    "`PrivateHyperbolicRegressor`, one query, labels": one_query,
    "`PrivateHyperbolicRegressor`, any number of queries, records": one_model,
    "`PrivateFrechetMean` of the labels, records": private_mean,
}


def protects(name, n):
    """What a row's number is worth: (epsilon, whom)."""
    if name == "DP-RGD, published":
        return gaussian_epsilon(published_mu(n), DELTA), "labels, at most these"
    if "labels" in name and "records" not in name:
        return EPSILON, "labels; features public"
    if "records" in name:
        return EPSILON, "records"
    return ("0", "-") if "origin" in name else ("infinite", "nobody")


def print_settings(query, word):
    steps, sigma = schedule(query.n, query.largest)
    honest = math.sqrt(steps) * 2.0 * query.largest * DIAMETER / gaussian_mu(EPSILON, DELTA)
    heading(f"Published settings, {word!r} held out (stated: epsilon {EPSILON}, delta {DELTA})")
    mu = published_mu(query.n)
    stated = 2.0 * EPSILON / math.sqrt(math.log(1 / DELTA))
    rows = [
        ("training pairs n", query.n),
        ("largest weight", query.largest),
        ("steps T", steps),
        ("noise per step", sigma),
        ("mu of the code (sum of gradients)", mu),
        ("true epsilon of the code, for labels", gaussian_epsilon(mu, DELTA)),
        ("true epsilon with the paper's 1/n", gaussian_epsilon(stated, DELTA)),
        ("noise per step that is needed", honest),
        ("needed over published", honest / sigma),
    ]
    table(("quantity", "value"), rows)


def figure(query, word, repeats, rng):
    def draw(pyplot):
        steps, sigma = schedule(query.n, query.largest)
        honest = math.sqrt(steps) * 2.0 * query.largest * DIAMETER / gaussian_mu(EPSILON, DELTA)
        start = random_label(query, repeats, rng)
        origin = np.repeat(SPACE.base_point[None], repeats, axis=0)
        runs = {
            "RGD": descend(start, query.Y, query.weights, 1500, 0.003, 0.0, rng, query.y),
            "published": descend(start, query.Y, query.weights, steps, 0.001, sigma, rng, query.y),
            "calibrated": descend(
                origin, query.Y, query.weights, steps, 0.001, honest, rng, query.y, 0.0
            ),
        }
        chart, (left, right) = pyplot.subplots(1, 2, figsize=(11, 5))
        disk = query.Y[:, 1:] / (1.0 + query.Y[:, :1])
        right.plot(*disk.T, ".", color="0.8", markersize=3)
        for name, (points, path) in runs.items():
            left.semilogy(path.mean(axis=1), label=name)
            points = points[:3]
            right.plot(*(points[:, 1:] / (1.0 + points[:, :1])).T, "o", label=name)
        right.plot(*(query.y[1:] / (1.0 + query.y[0])), "k*", markersize=12, label=word)
        left.set(xlabel="step", ylabel="distance to the held-out label")
        right.set(aspect="equal", xlim=(-1, 1), ylim=(-1, 1), xticks=[], yticks=[])
        right.legend()
        return chart

    return draw


def main(arguments=None):
    options = parse(__doc__, arguments)
    warnings.simplefilter("ignore", UserWarning)
    path = data_file(options, "wordnet_mammals.tsv", "the mammals of WordNet; a regular tree runs;")
    names, edges = regular_tree(5 if options.quick else 6) if path is None else load_closure(path)
    X, Y = eigenmaps_and_labels(edges, len(names), options.quick)
    word = names.index("horse.n.01") if "horse.n.01" in names else 20
    rng = np.random.default_rng(8)
    repeats, n_words = (5, 3) if options.quick else (20, 30)
    words = rng.choice(len(names), n_words, replace=False)
    alone = Query(X, Y, word, [word])
    print_settings(alone, names[word])
    queries = [Query(X, Y, w, words) for w in words]
    heading(f"Distance to the held-out label, mean ± standard error [median]; delta {DELTA}")
    header = (
        "method",
        "true epsilon",
        "protects",
        f"{names[word].split('.')[0]}, {repeats} runs",
        f"{n_words} words, {max(1, repeats // 10)} runs each",
    )

    def row(name):
        method = METHODS[name]
        few = max(1, repeats // 10)
        here = alone.distance(method(alone, repeats, rng))
        there = np.concatenate([q.distance(method(q, few, rng)) for q in queries])
        return [name, *protects(name, alone.n), spread(here), spread(there)]

    with PrivacyAccountant(epsilon=math.inf):
        table(header, (row(name) for name in METHODS))
    save_figure(options, "han2022_hyperbolic", figure(alone, names[word], repeats, rng))


if __name__ == "__main__":
    main()
