"""Noisy AdaGrad with a public gradient subspace (Kairouz et al. 2021): its claims, run.

Run:  python examples/reproductions/kairouz2021_adagrad.py [--quick] [--output FOLDER]

The paper has theorems and no experiments.  This script measures what they say, on logistic
regression with records in a known k-dimensional subspace of R^p: the sensitivity of the
preconditioner, the privacy of the stated noise with its constants taken as 1, dependence on p, the
number of iterations, and the decay of gradients that the fast rates assume.  Algorithm 1 runs as
written and corrected, beside DP gradient descent and `PrivateNoisyAdaGrad`, at equal privacy.
"""

import math
import warnings

import numpy as np
from reproduction_tools import heading, parse, save_figure, table
from scipy.optimize import minimize
from scipy.special import expit

from skriemdp import PrivacyAccountant, PrivateNoisyAdaGrad
from skriemdp.privacy import gaussian_epsilon, gaussian_mu

DELTA = 1e-5
RADIUS = 15.0  # of the public ball of the constrained runs


# -- 1. sensitivity of the preconditioner ---------------------------------------------------------


def root(S):
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def preconditioner_change(n, t, replaced):
    """Frobenius norm of the change of ``G_t``, in units of the published bound ``L sqrt(t) / n``.

    All other records have gradient e1 in every step; this one has e2, and -e2 (or nothing, for
    ``replaced=False``) in the neighbouring data set.
    """
    first, second = (np.array([n - 1.0, s]) / n for s in (1.0, -1.0 if replaced else 0.0))
    G, H = (root(t * np.outer(a, a)) for a in (first, second))
    return float(np.linalg.norm(G - H)) * n / math.sqrt(t)


def print_sensitivity():
    heading("Change of the preconditioner over the published bound L sqrt(t) / n")
    rows = [
        (n, t, preconditioner_change(n, t, True), preconditioner_change(n, t, False))
        for n in (10, 100, 10_000)
        for t in (1, 50)
    ]
    table(("n", "t", "one record replaced", "one record removed"), rows)


# -- 2. privacy of the stated noise, constants 1 --------------------------------------------------


def stated_mu(epsilon, delta, steps, root_t):
    """Mu of T noisy gradients and T noisy preconditioners with the noise of section 4.1.

    ``sigma_B(t) = L sqrt(T t log(1/delta)) / (epsilon n)``; for the gradients the text has the same
    (``root_t=True``), the proof of Corollary 4.2 has no ``sqrt(t)``.  A replaced record moves a
    gradient by 2L/n, and G_t by ``2 L sqrt(2 t) / n``, where the ensemble has norm ``sqrt(2)
    sigma_B`` along every unit matrix.
    """
    shares = np.full(steps, 1.0) / (np.arange(1, steps + 1.0) if root_t else 1.0)
    unit = 4.0 * epsilon**2 / math.log(1 / delta)
    return math.sqrt(unit * (shares.mean() + 1.0))


def print_stated_privacy():
    heading(f"True epsilon of the stated noise with constants 1, delta {DELTA}, T = 50")
    rows = []
    for epsilon in (0.1, 0.3, 1.0, 3.0):
        cells = [gaussian_epsilon(stated_mu(epsilon, DELTA, 50, r), DELTA) for r in (False, True)]
        rows.append((epsilon, *cells))
    table(("stated epsilon", "gradient noise of the proof", "of the text"), rows)


# -- 3. excess risk -------------------------------------------------------------------------------


class Task:
    """Logistic regression with n rows of norm at most 1 in a k-dimensional subspace of R^p."""

    def __init__(self, p, k=5, n=5000, seed=0, signal=6.0):
        rng = np.random.default_rng([seed, k])
        self.n, self.p = n, p
        Z = rng.normal(size=(n, k)) / np.arange(1, k + 1)
        norms = np.linalg.norm(Z, axis=1, keepdims=True)
        Z /= np.maximum(norms, np.quantile(norms, 0.9))
        truth = rng.normal(size=k)
        margin = signal * Z @ (truth / np.linalg.norm(truth))
        self.y = np.where(rng.random(n) < expit(margin), 1.0, -1.0)
        # The same problem for every p, seen in another subspace.
        self.basis = np.linalg.qr(np.random.default_rng([seed, p]).normal(size=(p, k)))[0]
        self.Z, self.X = Z, Z @ self.basis.T
        best = minimize(self._inside, np.zeros(k), jac=True, method="BFGS", options={"gtol": 1e-9})
        self.best = self.basis @ best.x
        self.least = float(best.fun)

    def _inside(self, w):
        margin = self.y * (self.Z @ w)
        return float(np.logaddexp(0.0, -margin).mean()), -self.Z.T @ (
            self.y * expit(-margin)
        ) / self.n

    def excess(self, w):
        return float(np.logaddexp(0.0, -self.y * (self.X @ w)).mean()) - self.least

    def gradient(self, w):
        return -self.X.T @ (self.y * expit(-self.y * (self.X @ w))) / self.n

    def largest_gradient(self, w):
        return float((expit(-self.y * (self.X @ w)) * np.linalg.norm(self.X, axis=1)).max())

    def fit(self, epsilon, repeats, **settings):
        """Mean excess risk of repeated fits of our estimator."""
        risks = []
        for repeat in range(repeats):
            model = PrivateNoisyAdaGrad(
                classes=[-1.0, 1.0],
                feature_norm=1.0,
                fit_intercept=False,
                clip_norm=1.0,  # the paper's L; by default it is half of it
                epsilon=epsilon,
                delta=DELTA,
                random_state=repeat,
                **settings,
            )
            risks.append(self.excess(model.fit(self.X, self.y).coef_[0]))
        return float(np.mean(risks))


def algorithm_1(task, mu, steps, step_size, rng, share=0.5):
    """Algorithm 1 as written, at a true mu; returns (average iterate, share of indefinite H_t).

    ``H_t = V V' (G_t + B_t)`` is not symmetric and may have negative eigenvalues; where it cannot
    be inverted its pseudo-inverse is used, as the paper's semi-norm suggests.
    """
    gradient_noise = 2.0 * math.sqrt(steps / (1.0 - share)) / (task.n * mu)
    V = task.basis
    w, total, S, indefinite = np.zeros(task.p), np.zeros(task.p), np.zeros((V.shape[1],) * 2), 0
    for t in range(1, steps + 1):
        total += w
        g = task.gradient(w)
        S += np.outer(V.T @ g, V.T @ g)  # gradients lie in the subspace, and so does their root
        noise = np.triu(rng.standard_normal((task.p, task.p)), 1)
        noise = noise + noise.T + math.sqrt(2.0) * np.diag(rng.standard_normal(task.p))
        noise *= 2.0 * math.sqrt(steps * t / share) / (task.n * mu)
        half = root(S) @ V.T + V.T @ noise  # H_t = V half, and V has orthonormal columns
        indefinite += np.linalg.eigvalsh(half @ V)[0] < 0.0
        noisy = g + gradient_noise * rng.standard_normal(task.p)
        w = w - step_size * np.linalg.pinv(half) @ (V.T @ noisy)
        w *= min(1.0, RADIUS / max(float(np.linalg.norm(w)), 1e-300))
    return total / steps, indefinite / steps


def as_written(task, mu, steps, repeats, rng):
    """Mean excess risk with the best of three step sizes in hindsight, share of indefinite H_t."""
    results = []
    for step_size in (0.1, 0.5, 2.0):
        runs = [algorithm_1(task, mu, steps, step_size, rng) for _ in range(repeats)]
        results.append(
            (
                float(np.mean([task.excess(w) for w, _ in runs])),
                float(np.mean([share for _, share in runs])),
            )
        )
    return min(results)


def plain(task, epsilon, repeats, steps=50, **settings):
    """DP gradient descent with the best of three step sizes in hindsight."""
    return min(
        task.fit(epsilon, repeats, preconditioner="none", step_size=s, n_steps=steps, **settings)
        for s in (8.0, 32.0, 128.0)
    )


def print_dimension(quick, epsilon=0.3):
    heading(f"Excess risk at a true epsilon of {epsilon}, n = 5000, k = 5, against the dimension p")
    repeats, sizes = (2, (20, 100)) if quick else (10, (20, 50, 100, 200, 500, 1000))
    mu = gaussian_mu(epsilon, DELTA)
    header = (
        "p",
        "zero, no data",
        "DP-GD, no subspace",
        "DP-GD, no subspace, ball",
        "DP-GD, subspace",
        "Algorithm 1 as written",
        "(indefinite H_t)",
        "Algorithm 1 corrected",
        "ours, subspace",
        "ours, no subspace",
        "non-private",
    )

    def row(p):
        task, rng = Task(p), np.random.default_rng(p)
        inside = {"subspace": task.basis}
        small = p <= 500  # the algorithm as written draws p x p matrices
        written = as_written(task, mu, 50, max(2, repeats // 3), rng) if small else ("-", "-")
        return [
            p,
            task.excess(np.zeros(p)),
            plain(task, epsilon, repeats),
            plain(task, epsilon, repeats, max_norm=RADIUS),
            plain(task, epsilon, repeats, **inside),
            *written,
            task.fit(epsilon, repeats, preconditioner="paper", n_steps=50, **inside),
            task.fit(epsilon, repeats, **inside),
            task.fit(epsilon, repeats),
            0,
        ]

    rows = []
    table(header, (rows.append(row(p)) or rows[-1] for p in sizes))
    return rows


def print_published(quick):
    """Stated noise beside the same algorithm, corrected or not, at the stated epsilon."""
    heading(
        "Excess risk with the stated noise and at true privacy, p = 100, k = 5, n = 5000, T = 50"
    )
    repeats, task, rng = 2 if quick else 10, Task(100), np.random.default_rng(9)
    header = (
        "epsilon",
        "zero, no data",
        "Algorithm 1 as written, stated noise",
        "its true epsilon",
        "as written, true epsilon",
        "corrected, true epsilon",
        "DP-GD, subspace, true epsilon",
        "ours, true epsilon",
        "non-private",
    )

    def row(epsilon):
        # Equal parts of mu^2 for gradients and preconditioners are the stated noise exactly.
        stated, inside = stated_mu(epsilon, DELTA, 50, False), {"subspace": task.basis}
        return [
            epsilon,
            task.excess(np.zeros(task.p)),
            as_written(task, stated, 50, repeats, rng)[0],
            gaussian_epsilon(stated, DELTA),
            as_written(task, gaussian_mu(epsilon, DELTA), 50, repeats, rng)[0],
            task.fit(epsilon, repeats, preconditioner="paper", n_steps=50, **inside),
            plain(task, epsilon, repeats, **inside),
            task.fit(epsilon, repeats, **inside),
            0,
        ]

    table(header, (row(epsilon) for epsilon in ((1.0,) if quick else (0.1, 0.3, 1.0, 3.0))))


def print_steps(quick):
    heading("Excess risk against the number of steps, p = 100, k = 20, n = 5000, subspace known")
    repeats, counts = (2, (5, 20)) if quick else (10, (5, 20, 80, 320))
    task = Task(100, k=20)
    inside = {"subspace": task.basis}
    header = ("epsilon", "T", "DP-GD", "Algorithm 1 corrected", "ours", "zero, no data")

    def row(epsilon, steps):
        return [
            epsilon,
            steps,
            plain(task, epsilon, repeats, steps=steps, **inside),
            task.fit(epsilon, repeats, preconditioner="paper", n_steps=steps, **inside),
            task.fit(epsilon, repeats, n_steps=steps, **inside),
            task.excess(np.zeros(task.p)),
        ]

    epsilons = (1.0,) if quick else (0.3, 1.0, 3.0)
    table(header, (row(e, t) for e in epsilons for t in counts))


# -- 4. the assumptions behind the fast rates -----------------------------------------------------


def clean_run(task, steps, step_size=2.0):
    """AdaGrad without noise; per step: norm of the mean gradient, largest norm, tr(G), risk."""
    w, S = np.zeros(task.p), np.zeros((task.p, task.p))
    rows = []
    for _ in range(steps):
        g = task.gradient(w)
        S += np.outer(g, g)
        values, vectors = np.linalg.eigh(S)
        values = np.sqrt(np.maximum(values, 0.0))
        mean = float(np.linalg.norm(g))
        rows.append((mean, task.largest_gradient(w), float(values.sum()), task.excess(w)))
        keep = values > 1e-9 * values[-1]
        w = w - step_size * vectors[:, keep] @ ((vectors[:, keep].T @ g) / values[keep])
    return np.array(rows).T


def slope(values):
    """Exponent of t fitted to the last nine tenths of a run."""
    t = np.arange(1, len(values) + 1)
    late = t > len(values) // 10
    return float(np.polyfit(np.log(t[late]), np.log(values[late]), 1)[0])


def print_decay(quick):
    steps = 100 if quick else 1000
    heading(f"Gradients along a clean run of AdaGrad, step 1 and step {steps}")

    def row(name, signal):
        means, largest, traces, risks = clean_run(Task(20, signal=signal), steps)
        t = np.arange(1, steps + 1)
        regret = np.cumsum(risks) / t
        return [
            name,
            *(means[0], means[-1], largest[0], largest[-1], slope(largest)),
            *(slope(regret), slope(traces / t)),
        ]

    header = (
        "data",
        "mean gradient, first",
        "... last",
        "largest gradient of a record, first",
        "... last",
        "... exponent of t",
        "average regret, exponent of t",
        "tr(G_T)/T, exponent of T",
    )
    cases = (("noisy labels", 6.0), ("separable classes", 1e4))
    table(header, (row(*case) for case in cases))


def figure(rows):
    def draw(pyplot):
        chart, axis = pyplot.subplots(figsize=(6, 4))
        names = {
            2: "DP-GD, no subspace",
            4: "DP-GD, subspace",
            5: "Algorithm 1 as written",
            7: "Algorithm 1 corrected",
            8: "ours, subspace",
            9: "ours, no subspace",
        }
        for column, name in names.items():
            points = [(row[0], row[column]) for row in rows if row[column] != "-"]
            axis.loglog(*zip(*points, strict=True), "o-", label=name)
        axis.axhline(rows[0][1], color="k", linestyle=":", label="zero, no data")
        axis.set(xlabel="dimension p", ylabel="excess risk")
        axis.legend(fontsize=7)
        return chart

    return draw


def main(arguments=None):
    options = parse(__doc__, arguments)
    warnings.simplefilter("ignore", UserWarning)
    print_sensitivity()
    print_stated_privacy()
    with PrivacyAccountant(epsilon=math.inf):
        print_published(options.quick)
        rows = print_dimension(options.quick)
        print_steps(options.quick)
    print_decay(options.quick)
    save_figure(options, "kairouz2021_adagrad", figure(rows))


if __name__ == "__main__":
    main()
