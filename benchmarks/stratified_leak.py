"""How many other records one replaced label moves between folds, for each splitter.

    python benchmarks/stratified_leak.py

A sum over disjoint folds costs the maximum only if replacing one record changes one fold.  This
counts, for single replaced labels, the records other than the replaced one that change their test
fold: every one of them is a record whose presence in a fold tells about somebody else's label.
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold


def folds(splitter, labels, groups):
    home = np.empty(len(labels), dtype=int)
    groups = groups if "Group" in type(splitter).__name__ else None  # the others warn about them
    for fold, (_, test) in enumerate(splitter.split(np.zeros((len(labels), 1)), labels, groups)):
        home[test] = fold
    return home


def moved(splitter, labels, groups, flip_group, trials, rng):
    """Largest and mean number of other records that change fold when one record is replaced."""
    before, counts = folds(splitter, labels, groups), []
    for record in rng.choice(len(labels), size=trials, replace=False):
        other_labels, other_groups = labels.copy(), groups.copy()
        if flip_group:
            other_groups[record] = rng.choice(np.setdiff1d(groups, groups[record]))
        else:
            other_labels[record] = rng.choice(np.setdiff1d(labels, labels[record]))
        after = folds(splitter, other_labels, other_groups)
        counts.append(np.count_nonzero(np.delete(before != after, record)))
    return max(counts), float(np.mean(counts))


def main():
    rng = np.random.default_rng(0)
    n = 200
    labels, groups = rng.integers(0, 3, n), rng.integers(0, 40, n)
    cases = [
        ("KFold(5)", KFold(5), "label"),
        ("KFold(5, shuffle=True, random_state=0)", KFold(5, shuffle=True, random_state=0), "label"),
        ("StratifiedKFold(5)", StratifiedKFold(5), "label"),
        (
            "StratifiedKFold(5, shuffle=True, random_state=0)",
            StratifiedKFold(5, shuffle=True, random_state=0),
            "label",
        ),
        ("StratifiedGroupKFold(5)", StratifiedGroupKFold(5), "label"),
        ("GroupKFold(5)", GroupKFold(5), "group"),
    ]
    print(f"n = {n} records, 3 classes, 40 groups; {n} single replacements")
    print("| splitter | replaced | other records moved: most | mean |")
    print("|---|---|---|---|")
    for name, splitter, what in cases:
        most, mean = moved(splitter, labels, groups, what == "group", n, rng)
        print(f"| {name} | one {what} | {most} | {mean:.1f} |")


if __name__ == "__main__":
    main()
