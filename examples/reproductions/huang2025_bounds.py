"""Section 5 of PriRFed beside measurements; a part of huang2025_prirfed.py."""

import math

import huang2025_theory as bound
import numpy as np
from reproduction_tools import heading, table

from skriemdp import frechet_mean, schedules
from skriemdp.federated import _theory as theory
from skriemdp.geometry import SPD, GeodesicBall


def wishart(rng, n=5000):
    factor = rng.normal(size=(n, 2, 2)) / math.sqrt(2.0)
    return factor @ factor.transpose(0, 2, 1)


class Cloud:
    """Fréchet mean of 2x2 matrices in a ball of radius 1/2 by many simultaneous runs.

    Constants of the theorems: zeta = L_g of the ball, L_f = 1, strong convexity 1.
    """

    def __init__(self, n_clients, seed=0, size=50):
        self.ball = GeodesicBall(SPD(2), None, 0.5)
        self.space, rng = self.ball.geometry, np.random.default_rng(seed)
        self.records = self.ball.project(wishart(rng, n_clients * size))
        self.parts = self.records.reshape(n_clients, size, 2, 2)
        self.mean = frechet_mean(self.records, self.space)
        self.zeta = self.smoothness = theory.ball_constant(self.ball)
        self.dim, self.lipschitz = self.space.dim, 2 * self.ball.radius

    def gradient(self, points, records):
        """Mean gradients of half squared distances at points (r, 2, 2); records (r or 1, n, ..)."""
        return -np.asarray(self.space.log(points[:, None], records)).mean(axis=1)

    def moved(self, points, gradient, step, sigma, rng):
        noise = sigma * rng.standard_normal((len(points), self.dim))
        noise = self.space.tangent_from_coordinates(points, noise)
        return self.ball.project(self.space.exp(points, -step * (gradient + noise)))

    def start(self, runs):
        return np.repeat(self.ball.center[None], runs, axis=0)

    def gap(self, points):
        squares = np.asarray(self.space.dist(points[:, None], self.records[None])) ** 2
        least = np.mean(np.asarray(self.space.dist(self.mean, self.records)) ** 2)
        return float(0.5 * (squares.mean() - least))

    def squared_gradient(self, points):
        vectors = self.gradient(points, self.records[None])
        return np.asarray(self.space.norm(points, vectors)) ** 2


def slope(x, y):
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def bounds(options):
    runs = 10 if options.quick else 50
    rounds, sigma, shown = 20, 0.5, []
    rng = np.random.default_rng(3)

    heading("Theorems 5.1 and 5.3: all N clients, one full step, sigma = 0.5 per client")
    rows, counts = [], (5, 10, 20, 40)
    for n in counts:
        cloud = Cloud(n)
        step = 0.5 / cloud.smoothness
        points, squares = cloud.start(runs), []
        gap, far = cloud.gap(points[:1]), float(cloud.space.dist(points[0], cloud.mean))
        for _ in range(rounds):
            squares.append(cloud.squared_gradient(points).mean())
            gradient = cloud.gradient(points, cloud.records[None])
            points = cloud.moved(points, gradient, step, sigma / math.sqrt(n), rng)
        common = (rounds, step, cloud.smoothness)
        rows.append(
            (
                n,
                min(squares),
                bound.gradient_bound(gap, *common, cloud.dim, sigma**2 / n),
                cloud.gap(points),
                bound.convex_gap_bound(far, *common, cloud.zeta, cloud.dim, sigma**2 / n),
            )
        )
    columns = list(zip(*rows, strict=True))
    rows.append(("slope in N", *(slope(counts, column) for column in columns[1:])))
    table(["N", "min E grad^2", "bound 5.1", "E gap", "bound 5.3"], rows)
    shown.append(("5.1, least squared gradient", "N", *columns[:3]))
    shown.append(("5.3, excess risk", "N", columns[0], *columns[3:]))

    heading("Theorem 5.4: s of 40 clients, one full step, sigma = 0.5 per client")
    cloud, rows, counts = Cloud(40), [], (2, 5, 10, 20, 39)
    center = np.repeat(cloud.mean[None], 40, axis=0)
    local = cloud.gradient(center, cloud.parts)
    spread = float(np.mean(np.asarray(cloud.space.norm(cloud.mean, local)) ** 2))
    step = 1.0 / cloud.smoothness
    for s in counts:
        points = cloud.start(runs)
        gap = cloud.gap(points[:1])
        for _ in range(rounds):
            chosen = np.argsort(rng.random((runs, 40)), axis=1)[:, :s]
            records = cloud.parts[chosen].reshape(runs, -1, 2, 2)
            gradient = cloud.gradient(points, records)
            points = cloud.moved(points, gradient, step, sigma / math.sqrt(s), rng)
        allowed = bound.rpl_gap_bound(
            gap, rounds, step, cloud.smoothness, 1.0, cloud.dim, sigma**2, 40, s, spread
        )
        rows.append((s, cloud.gap(points), allowed))
    rows.append(("slope in s", *(slope(counts, [r[i] for r in rows]) for i in (1, 2))))
    table(["s", "E gap", "bound 5.4 (without the paper's d)"], rows)
    shown.append(("5.4, excess risk", "s", *zip(*rows[:-1], strict=True)))

    heading("Theorem 5.5: one of 10 clients, K full steps, sigma = 0.2")
    cloud, rows, counts = Cloud(10), [], (2, 4, 8, 16)
    for k in counts:
        step = 0.5 * schedules.several_steps_limit(k)
        local, server = path(cloud, runs, 40, k, step, 0.2, rng)
        shared = (cloud.gap(cloud.start(1)), 40, k, step, cloud.smoothness, 1.0, cloud.dim, 0.04)
        printed = bound.published_several_steps_bound(*shared, zeta=cloud.zeta)
        rows.append((k, step, local, printed, server, bound.several_steps_bound(*shared)))
    columns = list(zip(*rows, strict=True))
    rows.append(("slope in K", "", *(slope(counts, column) for column in columns[2:])))
    header = ["K", "step", "E grad^2, local points", "bound 5.5 as printed"]
    table([*header, "E grad^2, server's points", "bound that allows for drift"], rows)
    shown.append(("5.5, squared gradient", "K", columns[0], *columns[2:4]))

    heading("Theorem 5.6: one of N clients, K = 2 epochs of m steps, sigma = 0.2")
    rows, counts = [], (3, 6) if options.quick else (3, 6, 12, 24)
    for n in counts:
        cloud = Cloud(n)
        m, step = schedules.svrg_settings(n, cloud.smoothness, cloud.zeta)
        local, server = path(cloud, runs // 2, 10, 2 * m, step, 0.2, rng)
        gap = cloud.gap(cloud.start(1))
        shared = (gap, 10, 2, n, cloud.smoothness, cloud.dim, 0.04, cloud.zeta)
        printed = bound.published_svrg_bound(*shared)
        allowed = bound.several_steps_bound(
            gap, 10, 2 * m, step, cloud.smoothness, 1.0, cloud.dim, 0.04, reduced=True
        )
        rows.append((n, m, step, local, printed, server, allowed))
    columns = list(zip(*rows, strict=True))
    rows.append(("slope in N", "", "", *(slope(counts, column) for column in columns[3:])))
    header = ["N", "m", "step", "E grad^2, local points", "bound 5.6 as printed"]
    table([*header, "E grad^2, server's points", "bound that allows for drift"], rows)
    shown.append(("5.6, squared gradient", "N", columns[0], *columns[3:5]))
    return shown


def draw_bounds(pyplot, shown):
    figure, axes = pyplot.subplots(1, len(shown), figsize=(3.6 * len(shown), 3.4))
    for ax, (title, name, counts, measured, limit) in zip(axes, shown, strict=True):
        ax.loglog(counts, limit, "k--", label="bound")
        ax.loglog(counts, measured, "C0o-", label="measured")
        ax.set(title=title, xlabel=name)
        ax.legend(fontsize=7)
    figure.tight_layout()
    return figure


def path(cloud, runs, rounds, steps, step, sigma, rng):
    """Mean squared gradients over local points and over the server's; one client per round.

    Full local gradients: variance-reduced ones without their variance.
    """
    points, local, server = cloud.start(runs), [], []
    for _ in range(rounds):
        records = cloud.parts[rng.integers(len(cloud.parts), size=runs)]
        for k in range(steps):
            if k % max(1, steps // 8) == 0:  # some of the points suffice
                local.append(cloud.squared_gradient(points).mean())
            if k == 0:
                server.append(local[-1])
            points = cloud.moved(points, cloud.gradient(points, records), step, sigma, rng)
    return float(np.mean(local)), float(np.mean(server))


def drift():
    """Two clients that pull to +1 and -1 on a line, no noise, infinitely many rounds; exact."""
    heading("Clients that differ: (x - 1)^2 / 2 and (x + 1)^2 / 2, one per round, no noise")
    rows = []
    for k in (20, 50, 100, 200):
        step = 0.5 * schedules.several_steps_limit(k)
        pull = 1.0 - (1.0 - step) ** k
        left = (1.0 - step) ** np.arange(k)
        server = pull / (2.0 - pull)
        local = float(np.mean(left**2 * server + (1.0 - left) ** 2))
        shared = (0.5, 10**12, k, step, 1.0, 2.0, 1, 0.0)
        printed = bound.published_several_steps_bound(*shared)
        broken = "yes" if local <= printed else "NO"
        rows.append((k, step, local, printed, broken, server, bound.several_steps_bound(*shared)))
    header = ["K", "step", "E grad^2, local points", "bound 5.5 as printed", "holds"]
    table([*header, "E grad^2, server's points", "bound that allows for drift"], rows)

    heading("One risk x^2 / 2 for all clients, noise of variance 1, infinitely many rounds")
    rows = []
    for n in (2, 10, 100):
        m, step = schedules.svrg_settings(n, 1.0, 1.0)
        exact = step / (2.0 - step)
        printed = bound.published_svrg_bound(0.5, 10**12, 2, n, 1.0, 1, 1.0)
        ours = bound.several_steps_bound(0.5, 10**12, 2 * m, step, 1.0, 1.0, 1, 1.0, reduced=True)
        rows.append((n, m, step, exact, printed, "yes" if exact <= printed else "NO", ours))
    header = ["N", "m", "step", "E grad^2", "bound 5.6 as printed", "holds"]
    table([*header, "bound that allows for drift"], rows)
