"""What a charge costs, how it grows, and what a filter admits.

    python benchmarks/ledger.py              milliseconds per charge at 10 and 10,000 entries
    python benchmarks/ledger.py --filters    share of a ceiling that each filter admits

A charge is one synced transaction, so the disk's own sync is measured beside it, in turns.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import time

from skriemdp.ledger.accountant import PrivacyAccountant
from skriemdp.ledger.filters import make_filter, number
from skriemdp.privacy.calibration import gaussian_epsilon, gaussian_mu
from skriemdp.privacy.events import GaussianEvent

ROUNDS, BATCH = 30, 20


def sync_time(file):
    """Seconds for one 4 kB write and sync, the least that a durable charge can cost."""
    start = time.perf_counter()
    for _ in range(BATCH):
        os.pwrite(file.fileno(), os.urandom(4096), 0)
        os.fsync(file.fileno())
    return (time.perf_counter() - start) / BATCH


def spend_time(accountant, events):
    start = time.perf_counter()
    for event in events:
        accountant.spend(event, label="PrivateFrechetMean", params={"epsilon": 1.0, "delta": 1e-5})
    return (time.perf_counter() - start) / len(events)


def charges(folder):
    """Small and large ledger take turns, so that both see the same neighbours on the machine."""
    accountants = {}
    for kind in ("renyi", "gdp"):
        for size in (10, 10_000):
            path = os.path.join(folder, f"{kind}-{size}.ledger")
            accountants[kind, size] = PrivacyAccountant(1e6, 1e-5, path, kind)
            for index in range(size):
                accountants[kind, size].spend(GaussianEvent(1e3 + index), label="warm-up")
    times = {key: [] for key in [*accountants, "sync"]}
    fresh = 2e4
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(ROUNDS):
            times["sync"].append(sync_time(file))
            for key, accountant in accountants.items():
                events = [GaussianEvent(fresh + index) for index in range(BATCH)]
                fresh += BATCH
                times[key].append(spend_time(accountant, events))
    floor = statistics.median(times["sync"])
    print("| filter | entries | ms per charge (median) | best | over one disk sync |")
    print("|---|---|---|---|---|")
    for (kind, size), accountant in accountants.items():
        middle, best = statistics.median(times[kind, size]), min(times[kind, size])
        print(
            f"| {kind} | {size} | {middle * 1e3:.2f} | {best * 1e3:.2f} | {middle / floor:.1f} x |"
        )
        assert len(accountant.history) == size + ROUNDS * BATCH
    for kind in ("renyi", "gdp"):
        growth = statistics.median(
            large / small for small, large in zip(times[kind, 10], times[kind, 10_000], strict=True)
        )
        print(f"\n{kind}: a charge at 10,000 entries costs {growth:.2f} x one at 10", end="")
    print(f"\n\none disk sync: {floor * 1e3:.2f} ms")


def admitted():
    """Epsilon of the largest Gaussian total over the ceiling's, by each rule."""
    print("| ceiling epsilon | delta | auto | auto, Renyi side | renyi, order | renyi |")
    print("|---|---|---|---|---|---|")
    for epsilon in (0.1, 0.5, 1.0, 3.0, 10.0):
        for delta in (1e-5, 1e-6):

            def share(square, epsilon=epsilon, delta=delta):
                return gaussian_epsilon(math.sqrt(square), delta) / epsilon

            auto = make_filter("auto", epsilon, delta)
            renyi = make_filter("renyi", epsilon, delta)
            exact = make_filter("gdp", epsilon, delta)
            assert math.sqrt(number(exact.limits[0])) >= gaussian_mu(epsilon, delta) * (1 - 1e-12)
            print(
                f"| {epsilon:g} | {delta:g} | {share(number(auto.limits[0])):.3f} | "
                f"{share(2 * number(auto.limits[1]) / auto.order):.3f} | {renyi.order:.2f} | "
                f"{share(2 * number(renyi.limits[0]) / renyi.order):.3f} |"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filters", action="store_true")
    parser.add_argument("--folder", help="where ledgers are made (default: the temporary folder)")
    options = parser.parse_args()
    if options.filters:
        admitted()
    else:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            charges(folder)
