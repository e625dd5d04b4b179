"""Table 1 of the PriRFed paper: what it prints, what its formula gives, and what is true.

    python benchmarks/federated_table1.py

For every cell: the printed (epsilon', delta'); whether the formula of Theorem 4.2 reproduces it;
the true delta at the printed epsilon' for a worst-case (0.15, 1e-4) local algorithm; and the true
epsilon at the printed delta', for that algorithm and for a Gaussian one with the same pair.
"""

from __future__ import annotations

import math

from skriemdp.federated import Participation
from skriemdp.federated._theory import published_table_bound
from skriemdp.privacy import ApproximateEvent, GaussianEvent, gaussian_mu

EPSILON, DELTA, SLACK = 0.15, 1e-4, 1e-3
ROUNDS = (50, 100, 200, 300, 400, 500)

# (N, s) -> the printed pairs for each number of rounds, three digits as in the paper.
PRINTED = {
    (100, 1): [
        (4.26e-2, 1.05e-3),
        (6.04e-2, 1.10e-3),
        (8.55e-2, 1.20e-3),
        (1.05e-1, 1.30e-3),
        (1.21e-1, 1.40e-3),
        (1.36e-1, 1.50e-3),
    ],
    (100, 5): [
        (1.58, 2.25e-3),
        (2.32, 3.50e-3),
        (3.46, 6.00e-3),
        (4.41, 8.50e-3),
        (5.25, 1.10e-2),
        (6.03, 1.35e-2),
    ],
    (200, 1): [
        (2.13e-2, 1.03e-3),
        (3.01e-2, 1.05e-3),
        (4.26e-2, 1.10e-3),
        (5.23e-2, 1.15e-3),
        (6.04e-2, 1.20e-3),
        (6.76e-2, 1.25e-3),
    ],
    (500, 5): [
        (2.98e-1, 1.25e-3),
        (4.25e-1, 1.50e-3),
        (6.09e-1, 2.00e-3),
        (7.52e-1, 2.50e-3),
        (8.75e-1, 3.00e-3),
        (9.85e-1, 3.50e-3),
    ],
    (300, 5): [
        (5.02e-1, 1.42e-3),
        (7.20e-1, 1.83e-3),
        (1.04, 2.67e-3),
        (1.29, 3.50e-3),
        (1.51, 4.33e-3),
        (1.70, 5.17e-3),
    ],
    (300, 10): [
        (3.52, 2.67e-3),
        (5.36, 4.33e-3),
        (8.32, 7.67e-3),
        (10.9, 1.10e-2),
        (13.3, 1.43e-2),
        (15.5, 1.77e-2),
    ],
    (400, 5): [
        (3.74e-1, 1.31e-3),
        (5.35e-1, 1.63e-3),
        (7.68e-1, 2.25e-3),
        (9.51e-1, 2.88e-3),
        (1.11, 3.50e-3),
        (1.25, 4.13e-3),
    ],
    (400, 10): [
        (2.56, 2.25e-3),
        (3.83, 3.50e-3),
        (5.84, 6.00e-3),
        (7.55, 8.50e-3),
        (9.11, 1.10e-2),
        (10.6, 1.35e-2),
    ],
}


def reproduced(printed, computed):
    """Whether a computed pair rounds to the printed one, to a unit of its last digit."""
    return all(
        abs(value - shown) <= 10.0 ** (math.floor(math.log10(shown)) - 2) * 1.01
        for shown, value in zip(printed, computed, strict=True)
    )


def cells(every=1):
    """Cells of the table, each `every`-th one, as tuples in the order of the printed columns."""
    black_box = ApproximateEvent(EPSILON, DELTA)
    gaussian = GaussianEvent(1.0 / gaussian_mu(EPSILON, DELTA))
    for index, (n, s) in enumerate(PRINTED):
        for place, (rounds, printed) in enumerate(zip(ROUNDS, PRINTED[n, s], strict=True)):
            if (index * len(ROUNDS) + place) % every:
                continue
            formula = published_table_bound(n, s, rounds, EPSILON, DELTA, SLACK)
            part = Participation(n, rounds, s, "uniform")
            worst = part.record_event(black_box)
            true_delta = worst.delta(formula[0])
            yield (
                n,
                s,
                rounds,
                printed,
                reproduced(printed, formula),
                true_delta,
                true_delta <= formula[1],
                worst.epsilon(formula[1]),
                part.record_event(gaussian).epsilon(formula[1]),
            )


def main():
    print("| N | s | T | printed | formula | true delta at eps' | holds | black box | Gaussian |")
    print("|---|---|---|---|---|---|---|---|---|")
    same = held = total = 0
    for n, s, rounds, printed, equal, delta, holds, black_box, gaussian in cells():
        total, same, held = total + 1, same + equal, held + holds
        print(
            f"| {n} | {s} | {rounds} | {printed[0]:.3g}, {printed[1]:.2e} "
            f"| {'same' if equal else 'DIFFERS'} | {delta:.2e} | {'yes' if holds else 'NO'} "
            f"| {black_box:.4f} | {gaussian:.4f} |"
        )
    print(f"\n{same} of {total} printed cells reproduced; {held} of {total} hold for records.")


if __name__ == "__main__":
    main()
