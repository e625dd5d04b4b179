"""Reference values and costs of the accounting: the tables of docs/theory/accounting.md.

Run:  python benchmarks/accounting_tables.py [--only sampling|releases|selection|published|cost]

Prints Markdown.  Values are deterministic; seconds are processor time of this process, best of
three, after a warm-up.
"""

import argparse
import math
import time

import numpy as np

from skriemdp.privacy import (
    ApproximateEvent,
    ComposedEvent,
    FixedSizeSampledGaussianEvent,
    GaussianEvent,
    MixtureEvent,
    PoissonSampledGaussianEvent,
    PureEvent,
    SelectionEvent,
    calibrate,
    compose,
    gaussian_mu,
)
from skriemdp.privacy import _calibration as calibration
from skriemdp.privacy import _event as event
from skriemdp.privacy._renyi import renyi_epsilon

SETTINGS = (
    (0.01, 1.0, 1000, 1e-5),
    (0.01, 2.0, 1000, 1e-5),
    (0.001, 0.5, 1000, 1e-6),
    (0.05, 2.0, 200, 1e-5),
    (0.1, 3.0, 100, 1e-5),
    (0.5, 5.0, 50, 1e-5),
)


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print()


def sampling():
    rows = []
    for q, s, count, delta in SETTINGS:
        fixed = FixedSizeSampledGaussianEvent(10_000, round(10_000 * q), s, count)
        poisson = PoissonSampledGaussianEvent(q, s, count)
        rows.append(
            (
                q,
                s,
                count,
                f"{delta:g}",
                f"{fixed.epsilon(delta):.3f}",
                f"{renyi_epsilon(fixed.renyi, delta):.3f}",
                f"{poisson.epsilon(delta):.3f}",
                f"{renyi_epsilon(poisson.renyi, delta):.3f}",
                f"{GaussianEvent(s, count).epsilon(delta):.3f}",
            )
        )
    header = ["q", "s", "steps", "delta", "fixed size (PLD*)", "its Renyi", "Poisson"]
    table([*header, "its Renyi", "no sampling"], rows)


def binomial(rounds, rate):
    log_choose = [
        math.lgamma(rounds + 1) - math.lgamma(k + 1) - math.lgamma(rounds - k + 1)
        for k in range(rounds + 1)
    ]
    k = np.arange(rounds + 1)
    weights = np.exp(log_choose + k * math.log(rate) + (rounds - k) * math.log1p(-rate))
    return tuple(weights / weights.sum())


def releases():
    anchors = GaussianEvent(5.0, count=3)
    participation = [ComposedEvent(())]
    participation += [compose([ApproximateEvent(0.15, 1e-4)] * k) for k in range(1, 51)]
    gaussian = [ComposedEvent(())]
    gaussian += [GaussianEvent(1 / gaussian_mu(0.15, 1e-4), k) for k in range(1, 51)]
    rows = [
        (
            "variance reduction, 3 anchors, 60 fixed-size steps",
            compose([anchors, FixedSizeSampledGaussianEvent(1200, 60, 2.0, 60)]),
            1e-5,
        ),
        (
            "variance reduction, 3 anchors, 60 Poisson steps",
            compose([anchors, PoissonSampledGaussianEvent(0.05, 2.0, 60)]),
            1e-5,
        ),
        (
            "cohorts of 5 out of 100, 50 rounds",
            FixedSizeSampledGaussianEvent(100, 5, 1.0, 50),
            1e-3,
        ),
        (
            "1 client of 100 in each of 50 rounds, (0.15, 1e-4) locally",
            MixtureEvent(binomial(50, 0.01), tuple(participation)),
            1.05e-3,
        ),
        (
            "the same, Gaussian locally",
            MixtureEvent(binomial(50, 0.01), tuple(gaussian)),
            1.05e-3,
        ),
    ]
    table(
        ["release", "delta", "epsilon"],
        [(what, f"{delta:g}", f"{e.epsilon(delta):.4f}") for what, e, delta in rows],
    )


def selection():
    rows = []
    for run, text in (
        (GaussianEvent(1 / gaussian_mu(1.0, 1e-5)), "Gaussian, epsilon 1"),
        (PureEvent(0.5), "pure, epsilon 0.5"),
    ):
        for settings in (
            {"mean": 10.0, "shape": 1.0},
            {"mean": 10.0, "shape": 0.0},
            {"mean": 10.0, "law": "poisson"},
            {"mean": 100.0, "shape": 1.0},
            {"mean": 100.0, "law": "poisson"},
        ):
            chosen = SelectionEvent(run, **settings)
            ten = compose([run] * round(settings["mean"]))
            law = settings.get("law", f"negative binomial, shape {settings.get('shape')}")
            rows.append(
                (
                    text,
                    law,
                    settings["mean"],
                    f"{run.epsilon(1e-5):.3f}",
                    f"{chosen.epsilon(1e-5):.3f}",
                    f"{ten.epsilon(1e-5):.3f}",
                )
            )
    table(["one run", "number of runs", "mean", "one run", "selection", "all released"], rows)


def published():
    rows = []
    for epsilon, delta in (
        (0.1, 1e-3),
        (0.15, 1e-4),
        (0.5, 1e-5),
        (1.0, 1e-5),
        (2.0, 1e-6),
        (8.0, 1e-3),
    ):
        true = GaussianEvent(math.sqrt(math.log(1 / delta)) / (2 * epsilon))
        needed = (true.mu / gaussian_mu(epsilon, delta)) ** 2
        rows.append(
            (
                epsilon,
                f"{delta:g}",
                f"{true.delta(epsilon):.3g}",
                f"{true.epsilon(delta):.4g}",
                f"{needed:.3f}",
            )
        )
    table(["stated epsilon", "delta", "true delta", "true epsilon", "least c"], rows)


def forget():
    calibration._CALIBRATED.clear()
    event._loss.cache_clear()
    event._epsilon.cache_clear()
    event._delta.cache_clear()


def seconds(work):
    work()
    best = math.inf
    for _ in range(3):
        forget()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return f"{best:.2f}"


def cost():
    rng = np.random.default_rng(0)

    def poisson(s):
        return PoissonSampledGaussianEvent(0.01, s, 1000)

    def rare(s):
        return PoissonSampledGaussianEvent(0.001, s, 1000)

    def fixed(s):
        return FixedSizeSampledGaussianEvent(10_000, 100, s, 1000)

    few = [
        GaussianEvent(20.0),
        PureEvent(0.003),
        ApproximateEvent(0.01, 1e-9),
        PoissonSampledGaussianEvent(0.02, 3.0, 10),
        FixedSizeSampledGaussianEvent(1000, 12, 2.0, 10),
    ]
    repeated = [few[k] for k in rng.integers(len(few), size=1000)]
    different = [PureEvent(0.01 * (1 + u)) for u in rng.random(400)]
    different += [PoissonSampledGaussianEvent(0.01, 3 * (1 + u)) for u in rng.random(400)]
    different += [GaussianEvent(30 * (1 + u)) for u in rng.random(200)]
    bracket = (0.05, 1e4)
    rows = [
        ("calibrate 1000 Poisson steps, q = .01", lambda: calibrate(poisson, 1.0, 1e-5, bracket)),
        ("calibrate 1000 Poisson steps, q = .001", lambda: calibrate(rare, 1.0, 1e-5, bracket)),
        ("calibrate 1000 fixed-size steps, q = .01", lambda: calibrate(fixed, 1.0, 1e-5, bracket)),
        ("total of 1000 releases of 5 kinds", lambda: compose(repeated).epsilon(1e-5)),
        ("total of 1000 different releases", lambda: compose(different).epsilon(1e-5)),
    ]
    table(["work", "seconds"], [(what, seconds(work)) for what, work in rows])


TABLES = {
    "sampling": sampling,
    "releases": releases,
    "selection": selection,
    "published": published,
    "cost": cost,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=TABLES)
    chosen = parser.parse_args().only
    for title, make in TABLES.items():
        if chosen in (None, title):
            print(f"### {title}\n")
            make()
