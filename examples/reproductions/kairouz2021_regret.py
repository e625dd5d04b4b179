"""Online regret of noisy AdaGrad over new people, beside its theorem (Kairouz et al. 2021).

Run:  python examples/reproductions/kairouz2021_regret.py [--quick] [--output FOLDER]

A batch of new people comes in every round, after the round's vector is fixed.  A person is in one
batch, and all that depends on it is (1, 1e-5)-DP: a noisy gradient, and in the paper's algorithm
all later matrices too.  Regret is the mean loss of the rounds' vectors on their batches, less that
of the best fixed vector on all batches; its bound is Theorem 3.1 with the constants of its proof.
"""

import math

import numpy as np
from kairouz2021_adagrad import DELTA, Task, root
from reproduction_tools import heading, parse, table
from scipy.special import expit

from skriemdp import PrivacyAccountant, PrivateNoisyAdaGrad
from skriemdp._descent.releases import FullBatch
from skriemdp._linear_model.adagrad import NoisyAdaGrad
from skriemdp._linear_model.glm import GeneralizedLinearLoss, LinearProblem
from skriemdp._linear_model.preconditioners import Metric, Noised
from skriemdp._linear_model.releases import RootMoments
from skriemdp._random import NoiseStreams
from skriemdp.privacy import gaussian_mu

BATCH, K, RADIUS, MU = 500, 5, 8.0, gaussian_mu(1.0, DELTA)
LOSS = GeneralizedLinearLoss("log_loss")
ONE_STEP = NoisyAdaGrad(FullBatch(), 1, 1.0, 1.0, [1.0], "none")  # its size and its clip norm are 1


def problem(task, start, stop):
    """Records of these batches, in coordinates of the public subspace."""
    rows = slice(start * BATCH, stop * BATCH)
    return LinearProblem(task.Z[rows], (task.y[rows] + 1.0) / 2.0, LOSS)


def released(batch, w, mu, streams):
    """Mean gradient of a batch as the library releases it, and its standard deviation."""
    moved = ONE_STEP.with_mu(mu).solve(batch, 0.0, w, streams)
    return w - moved.weights, moved.noise


def online(task, steps, kind, step_size, seed):
    """Mean loss, bound of the regret, share of matrices with as little noise as assumed."""
    streams, w, losses, squares = NoiseStreams(seed), np.zeros((K, 1)), [], np.zeros((K, K))
    own, half, of_noise, admitted = Noised(steps / 4.0), MU / math.sqrt(2.0), 0.0, 0
    # Half of mu^2 is for the gradient, half for all matrices.
    matrix = RootMoments(math.sqrt(steps) / half).mechanism(K, BATCH, [1.0])
    for t in range(steps):
        batch, sigma, floor = problem(task, t, t + 1), 0.0, 1e-9
        losses.append(batch.risk(w))
        clean = batch.rows.T @ (expit(batch.rows @ w) - batch.targets[:, None]) / BATCH
        squares, gradient = squares + clean @ clean.T, clean
        G = root(squares)
        values = np.linalg.eigvalsh(G)
        values = values[values > 1e-6 * values[-1]]
        if kind == "corrected":
            gradient, sigma = released(batch, w, half, streams.repeatable(t))
            noise = matrix.release(np.zeros((K, K)), streams("matrix", t))
            admitted += 2.0 * np.linalg.norm(noise, 2) <= values[0]
            G, floor = G + noise, matrix.sigma * math.sqrt(K / 2.0)
        if kind == "ours":
            gradient, sigma = released(batch, w, MU, streams.repeatable(t))
            metric = own.update(gradient, sigma, None)
        else:
            eigenvalues, vectors = np.linalg.eigh(G)
            metric = Metric(np.maximum(eigenvalues, floor)[:, None], vectors)
        of_noise += sigma**2 * float(np.sum(1.0 / values))
        w = metric.project(w - step_size * metric.solve(gradient), RADIUS)
    trace = float(np.trace(root(squares)))
    bound = (2.0 * RADIUS**2 / step_size + 4.0 / 3.0 * step_size) * trace  # of a ball's diameter
    return np.mean(losses), (bound + 2.0 / 3.0 * step_size * of_noise) / steps, admitted / steps


def averaged(task, steps, seed):
    """Losses of the mean of the fits so far with constructor defaults, one a batch."""
    total, losses = np.zeros((K, 1)), []
    for t in range(steps):
        batch = problem(task, t, t + 1)
        losses.append(batch.risk(total / max(t, 1)))
        model = PrivateNoisyAdaGrad(
            classes=[0, 1],
            feature_norm=1.0,
            fit_intercept=False,
            delta=DELTA,
            random_state=1_000_000 * seed + t,
        )
        total += model.fit(batch.rows, batch.targets.astype(int)).coef_.T
    return losses


def print_regret(name, step_size, counts, tasks, fits):
    """Means over tasks of other people, and slopes on logarithmic axes."""
    heading(f"Regret after T batches of {BATCH}, {K} dimensions, epsilon 1, step size {name}")
    header = (
        "T",
        "zero, no data",
        "AdaGrad, not private",
        "its bound",
        "Algorithm 1 corrected",
        "its bound",
        "(matrices with as little noise as assumed)",
        "ours",
        "a fit a batch, averaged",
    )

    def row(steps):
        cells = []
        for seed, task in enumerate(tasks):
            people = problem(task, 0, steps)
            least = people.risk(people.minimize(0.0))
            clean, corrected, ours = (
                online(task, steps, kind, step_size, seed)
                for kind in ("clean", "corrected", "ours")
            )
            zero = people.risk(np.zeros((K, 1))) - least
            regrets = clean[0] - least, clean[1], corrected[0] - least, *corrected[1:]
            cells.append((zero, *regrets, ours[0] - least, np.mean(fits[seed][:steps]) - least))
        return [steps, *np.mean(cells, axis=0)]

    rows = []
    table(header, (rows.append(row(steps)) or rows[-1] for steps in counts))
    T, *columns = np.transpose(rows)
    slopes = (np.polyfit(np.log(T), np.log(columns[i]), 1)[0] for i in (1, 2, 3, 4, 6, 7))
    names = (header[i] for i in (2, 3, 4, 5, 7, 8))
    print("exponents of T:", ", ".join(f"{n} {s:.2f}" for n, s in zip(names, slopes, strict=True)))


def main(arguments=None):
    options = parse(__doc__, arguments)
    counts, repeats = ((4, 16), 2) if options.quick else ((4, 16, 64, 256, 1024), 8)
    best = 2.0 * RADIUS * math.sqrt(3.0 / 8.0)  # of the bound without noise
    tasks = [Task(K, k=K, n=counts[-1] * BATCH, seed=seed) for seed in range(repeats)]
    with PrivacyAccountant(epsilon=math.inf):
        fits = [averaged(task, counts[-1], seed) for seed, task in enumerate(tasks)]
        print_regret("of the theorem", best, counts, tasks, fits)
        print_regret("2", 2.0, counts, tasks, fits)


if __name__ == "__main__":
    main()
