"""Data that share nothing with those of a pair but what is public about them."""

from __future__ import annotations

import functools
import zlib
from typing import Any

import numpy as np
from scipy import sparse


@functools.cache
def unrelated(pair: Any) -> tuple:
    """Other data of the public shape of ``pair.data``.

    Each record is one of the two that differ, or one of the others of the pair, by chance.  Who
    owns how many rows changes with them; how many people there are, and at which clients, does not.
    """
    rng = np.random.default_rng(zlib.crc32(pair.name.encode()))
    if pair.name.startswith("completion ids"):
        return _ratings(pair.data, rng)
    clients, ids = _clients_and_ids(pair)
    columns = [i for i in range(len(pair.data)) if i not in (clients, ids)]
    sizes = [_whole(data[columns[0]]).shape[0] for data in (pair.data, pair.other)]
    if ids is None and sizes == [1, 1]:  # one record, between the two
        pairs = zip(pair.data, pair.other, strict=True)
        return tuple(a if i in pair.public else 0.5 * (a + b) for i, (a, b) in enumerate(pairs))
    if ids is None:
        changed, new = [np.array([pair.changed % n]) for n in sizes], {}
        n = sizes[0]
    else:
        changed = [np.flatnonzero(data[ids] == 0) for data in (pair.data, pair.other)]
        owners = _owners(pair.data, ids, clients)
        rows = rng.permutation(
            np.repeat(np.arange(len(owners)), 1 + rng.integers(4, size=len(owners)))
        )
        new = {ids: owners[rows, -1]} | ({} if clients is None else {clients: owners[rows, 0]})
        n = len(rows)
    own = rng.random(n) < 0.5
    side = rng.integers(2, size=n)
    at = np.array(
        [
            rng.choice(changed[s]) if o else rng.integers(sizes[s])
            for o, s in zip(own, side, strict=True)
        ]
    )
    data = list(pair.data)
    for i in columns:
        if pair.data[i] is not None and i not in pair.public:
            data[i] = _chosen(pair.data[i], pair.other[i], side, at)
    for i, values in new.items():
        data[i] = values
    return tuple(data)


def _ratings(data: tuple, rng: np.random.Generator) -> tuple:
    """One rating in each row: the same users, of other items, in other numbers."""
    users, listed, values = data
    known = sorted({item for item in listed if type(item) is int})
    chosen = [rng.choice(known, rng.integers(1, 9), replace=False) for _ in np.unique(users)]
    owners = np.repeat(np.unique(users), [len(items) for items in chosen])
    items = np.concatenate(chosen).tolist()
    return owners, items, rng.choice(values, len(items))


def _clients_and_ids(pair: Any) -> tuple[int | None, int | None]:
    length = len(pair.data)
    if not pair.name.startswith("federated"):
        return None, 2 if length == 3 else None
    return min(length - 1, 2), 3 if length == 4 else None


def _owners(data: tuple, ids: int, clients: int | None) -> np.ndarray:
    """The people, or for each client its people."""
    columns = [data[ids]] if clients is None else [data[clients], data[ids]]
    return np.unique(np.stack(columns, axis=1), axis=0)


def _whole(column: Any) -> Any:
    """Rows in one piece, where they are streamed in several."""
    return np.concatenate(column) if isinstance(column, list) else column


def _chosen(first: Any, second: Any, side: np.ndarray, at: np.ndarray) -> Any:
    if isinstance(first, list):
        ends = np.cumsum([len(piece) for piece in first])[:-1]
        return np.split(_chosen(_whole(first), _whole(second), side, at), ends)
    if sparse.issparse(first):
        both = sparse.vstack([first, second], format="csr")
        return sparse.csr_array(both[at + side * first.shape[0]])
    return np.concatenate([first, second])[at + side * len(first)]
