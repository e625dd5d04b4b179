"""What a charge costs, how it grows, and what a filter admits.

    python benchmarks/ledger.py              milliseconds per charge at 10 and 10,000 entries
    python benchmarks/ledger.py --filters    share of a ceiling that each filter admits
    python benchmarks/ledger.py --long       a ledger of a million entries: time and memory to read

A charge is one synced transaction, so the disk's own sync is measured beside it, in turns.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

from skriemdp import PrivacyAccountant
from skriemdp.ledger import _chain as chain
from skriemdp.ledger._filters import make_filter, number
from skriemdp.ledger._statements import note
from skriemdp.privacy import GaussianEvent, gaussian_epsilon, gaussian_mu

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


def grown(folder, entries):
    """A ledger with so many charges of 50 kinds, written in one transaction."""
    budget = PrivacyAccountant(1e9, 1e-5, os.path.join(folder, "long.ledger"))
    rule, ledger = budget._filter, budget._ledger
    events = [GaussianEvent(1e3 + kind) for kind in range(50)]
    texts = [json.dumps(event.to_dict(), sort_keys=True) for event in events]
    costs = [rule.cost(event) for event in events]
    text = note({"delta": 1e-5, "epsilon": 1.0, "unit": "record"}, {"n": 10_000, "radius": 1.0})
    with ledger.writing() as book:
        for turn in range(entries):
            place, kind = book.place("default"), turn % 50
            book.append(
                place, chain.CHARGED, cost=costs[kind], label="PrivateFrechetMean",
                note=text, event=texts[kind], unit="record",
            )  # fmt: skip
    return ledger.path


READ = """
import resource, sys, time
from skriemdp import PrivacyAccountant
from skriemdp.privacy import GaussianEvent

def timed(what, call):
    start = time.perf_counter()
    call()
    print(f"| {what} | {time.perf_counter() - start:.3f} |", flush=True)

def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

PrivacyAccountant(epsilon=1.0).spend(GaussianEvent(9.0))
print("| seconds | |\\n|---|---|")
start = time.perf_counter()
budget = PrivacyAccountant(path=sys.argv[1])
print(f"| first open of a process | {time.perf_counter() - start:.3f} |")
timed("what remains", budget.remaining)
timed("charge", lambda: budget.spend(GaussianEvent(1e3)))
timed("summary", budget.summary)
before = memory()
timed("whole history", lambda: sum(1 for spend in budget.history))
print(f"| MiB more for it | {memory() - before:.0f} |")
timed("verify", budget.verify)
print(f"| MiB at most, all told | {memory():.0f} |")
"""


def long_ledger(folder, entries):
    path = grown(folder, entries)
    size = os.path.getsize(path) / 2**20
    print(f"{entries} entries, {size:.0f} MiB\n", flush=True)
    subprocess.run([sys.executable, "-c", READ, path], check=True)


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
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--entries", type=int, default=10**6, help="entries of --long")
    options = parser.parse_args()
    if options.filters:
        admitted()
    else:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            if options.long:
                long_ledger(folder, options.entries)
            else:
                charges(folder)
