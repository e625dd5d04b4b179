"""How many other records one replaced label moves between folds, for each splitter.

    python benchmarks/stratified_leak.py

A sum over disjoint folds costs the maximum only if replacing one record changes one fold.  This
counts, for single replaced labels, the records other than the replaced one that change their test
fold: every one of them is a record whose presence in a fold tells about somebody else's label.
A second table replaces all rows of one of 40 groups by another number of rows, and counts the
other groups that change their test fold.
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
    StratifiedKFold,
)


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


def homes(splitter, labels, groups):
    """Folds in which each group is tested."""
    tested = [set() for _ in range(40)]
    for fold, (_, test) in enumerate(splitter.split(np.zeros((len(labels), 1)), labels, groups)):
        for group in np.unique(groups[test]):
            tested[group].add(fold)
    return tested


def moved_groups(splitter, trials, rng):
    """Largest number of other groups that change fold when one has other rows."""
    sizes, most = rng.integers(1, 9, 40), 0
    groups = np.repeat(np.arange(40), sizes)
    labels = rng.integers(0, 3, len(groups))
    before = homes(splitter, labels, groups)
    for group in rng.integers(0, 40, trials):
        others = groups != group
        rows = np.repeat(group, rng.integers(1, 30))
        new = np.concatenate([groups[others], rows])
        new_labels = np.concatenate([labels[others], rng.integers(0, 3, len(rows))])
        after = homes(splitter, new_labels, new)
        moves = [before[k] != after[k] for k in range(40) if k != group]
        most = max(most, sum(moves))
    return most


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
    print("\n40 groups; all rows of one are replaced by another number of rows, 100 times")
    print("| splitter | other groups moved: most |\n|---|---|")
    for name, splitter in (
        ("GroupKFold(5)", GroupKFold(5)),
        ("StratifiedGroupKFold(5)", StratifiedGroupKFold(5)),
        (
            "GroupKFold(5, shuffle=True, random_state=0)",
            GroupKFold(5, shuffle=True, random_state=0),
        ),
        ("GroupShuffleSplit(5, random_state=0)", GroupShuffleSplit(5, random_state=0)),
        ("LeaveOneGroupOut()", LeaveOneGroupOut()),
    ):
        print(f"| {name} | {moved_groups(splitter, 100, rng)} |")


if __name__ == "__main__":
    main()
