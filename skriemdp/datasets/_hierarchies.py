"""Trees and taxonomies in hyperbolic space: embeddings, a synthetic set, a loader of closures."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from skriemdp._errors import PublicValueError
from skriemdp._random import public_generator
from skriemdp._validation import check_count, check_path, check_positive
from skriemdp.geometry import Hyperboloid

if TYPE_CHECKING:
    from skriemdp.geometry._base import Geometry


__all__ = ["embed_taxonomy", "load_closure", "make_tree"]


def make_tree(n: int, *, dim: int = 2, public_seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A synthetic tree laid out in hyperbolic space, and features that follow it.

    Node i hangs on an earlier node, ``i // 3`` give or take a few: three children on average.  It
    lies about 0.8 further from the root, in a direction near its parent's that varies
    less the deeper it is.  Features are the position in the Poincaré ball and three smooth
    functions of it, all with noise of standard deviation 0.05.

    Parameters
    ----------
    n : int
        Nodes; the first is the root, at the origin.
    dim : int, default=2
    public_seed : int, default=0

    Returns
    -------
    X : ndarray of shape (n, dim + 3)
    y : ndarray of shape (n, dim + 1)
        Points of ``Hyperboloid(dim)``.

    Examples
    --------
    >>> from skriemdp.datasets import make_tree
    >>> X, y = make_tree(100)
    >>> X.shape, y.shape
    ((100, 5), (100, 3))
    """
    check_count(n=n, dim=dim)
    rng = public_generator(public_seed, "tree")
    coordinates = np.zeros((n, dim))
    begin, end = 1, min(4, n)
    while begin < n:  # one generation at a time
        children = np.arange(begin, end)
        parents = np.maximum((children - 1) // 3 - rng.integers(0, 2, len(children)), 0)
        parent = coordinates[parents]
        depth = np.linalg.norm(parent, axis=1, keepdims=True)
        spread = np.exp(-0.35 * depth / 0.8)
        direction = rng.standard_normal((len(children), dim)) * spread
        direction += parent / np.maximum(depth, 1e-12)
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        step = 0.8 * (0.75 + 0.5 * rng.random((len(children), 1)))
        coordinates[children] = (depth + step) * direction
        begin, end = end, min(3 * end + 1, n)
    space = Hyperboloid(dim)
    labels = np.asarray(space.exp_coordinates(space.base_point, coordinates))
    position = labels[:, 1:] / (1.0 + labels[:, :1])
    waves = np.sin(position @ rng.standard_normal((dim, 3)) * 3.0)
    X = np.hstack([position, 0.5 * waves])
    return X + 0.05 * rng.standard_normal(X.shape), labels


def load_closure(path: str | Path) -> Any:
    """Read a taxonomy from a file of ``child<TAB>ancestor`` lines, such as the WordNet mammals.

    Further columns are ignored, so are self loops.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    names : list of str
        In alphabetical order.
    edges : ndarray of shape (n_edges, 2)
        Indices (child, ancestor).

    Raises
    ------
    ValueError
        If a line has fewer than two columns.
    """
    check_path(path=path)
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if row]
    if any(len(row) < 2 for row in rows):
        raise PublicValueError("every line must hold a child and an ancestor, separated by a tab.")
    pairs = {(row[0], row[1]) for row in rows}
    names = sorted({name for pair in pairs for name in pair})
    index = {name: i for i, name in enumerate(names)}
    found = sorted((index[child], index[ancestor]) for child, ancestor in pairs)
    edges = np.array([edge for edge in found if edge[0] != edge[1]], dtype=np.int64)
    return names, edges.reshape(-1, 2)


def embed_taxonomy(edges: np.ndarray, *, radius: float = 6.0, n_epochs: int = 100) -> Any:
    """Embed a tree or the closure of a taxonomy in hyperbolic space, to make public labels.

    Riemannian stochastic gradient descent on the hyperboloid for the softmax loss of Nickel and
    Kiela (2017, 2018): the ancestor of each edge is to be nearer to the child than ten
    random nodes.

    Parameters
    ----------
    edges : array-like of int, shape (n_edges, 2)
        (child, ancestor).  All nodes 0, 1, ... up to the largest index are embedded.
    radius : float, default=6.0
        Points are kept within this distance of the origin.
    n_epochs : int, default=100
        With steps of size 0.3; the first tenth of them with a tenth of that.

    Returns
    -------
    ndarray of shape (n_nodes, 3)
        Points of ``Hyperboloid(2)``.

    Raises
    ------
    ValueError
        If nodes are ancestors of each other.

    Notes
    -----
    Not private: every point depends on every edge.  Use it on public taxonomies.

    References
    ----------
    Nickel and Kiela (2017), arXiv:1705.08039; (2018), arXiv:1806.03417.

    Examples
    --------
    >>> import numpy as np
    >>> from skriemdp.datasets import embed_taxonomy
    >>> edges = np.array([[1, 0], [2, 0], [3, 1], [4, 1]])
    >>> embed_taxonomy(edges, n_epochs=5).shape
    (5, 3)
    """
    check_count(n_epochs=n_epochs)
    check_positive(radius=radius)
    edges = np.asarray(edges)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu" or not len(edges):
        raise PublicValueError("edges must be a non-empty integer array of shape (n_edges, 2).")
    if edges.min() < 0:
        raise PublicValueError("edges must hold node indices >= 0.")
    space, n_nodes = Hyperboloid(2), int(edges.max()) + 1
    if _has_loop(edges, n_nodes):
        raise PublicValueError(
            "edges hold a loop, so some nodes are their own ancestors, by way of others; leave out "
            "an edge of each loop. A root that is its own parent is read as a root."
        )
    edges = edges[edges[:, 0] != edges[:, 1]]
    if not len(edges):
        raise PublicValueError(
            "edges must join different nodes; each here is from a node to itself."
        )
    rng = public_generator(0, "embedding")
    points = space.exp_coordinates(space.base_point, 1e-3 * rng.standard_normal((n_nodes, 2)))
    batch = max(1, min(256, len(edges) // 8))
    for epoch in range(n_epochs):
        size = 0.3 * (0.1 if epoch < n_epochs // 10 else 1.0)
        order = rng.permutation(len(edges))
        for begin in range(0, len(edges), batch):
            chosen = edges[order[begin : begin + batch]]
            negatives = rng.integers(0, n_nodes, size=(len(chosen), 10))
            points = _embedding_step(space, points, chosen, negatives, size, radius)
    return np.asarray(points)


def _has_loop(edges: np.ndarray, n_nodes: int) -> bool:
    """Whether two nodes are ancestors of each other."""
    graph = sparse.csr_array((np.ones(len(edges)), edges.T), shape=(n_nodes, n_nodes))
    return connected_components(graph, connection="strong", return_labels=False) < n_nodes


def _embedding_step(
    space: Geometry,
    points: np.ndarray,
    edges: np.ndarray,
    negatives: np.ndarray,
    step_size: float,
    radius: float,
) -> np.ndarray:
    """One step of every node that the batch touches, along the sum of its edges' gradients."""
    child = points[edges[:, 0]][:, None]
    others = np.concatenate([edges[:, 1:], negatives], axis=1)
    at_child = space.log_coordinates(child, points[others])  # (b, 11, dim)
    distances = np.linalg.norm(at_child, axis=-1, keepdims=True)
    weights = np.exp(-distances + distances.min(axis=1, keepdims=True))
    weights = -weights / weights.sum(axis=1, keepdims=True)
    weights[:, 0] += 1.0
    # Descent directions: towards the ancestor, away from the negatives, at both ends.
    towards = weights * at_child / np.maximum(distances, 1e-9)
    at_other = space.log_coordinates(points[others], child)
    back = weights * at_other / np.maximum(distances, 1e-9)
    moves = np.zeros((len(points), points.shape[1] - 1))
    np.add.at(moves, edges[:, 0], towards.sum(axis=1))
    np.add.at(moves, others.ravel(), back.reshape(-1, moves.shape[1]))
    moves *= step_size
    norms = np.linalg.norm(moves, axis=1, keepdims=True)
    moves *= np.minimum(1.0, 1.0 / np.maximum(norms, 1e-300))
    touched = np.flatnonzero(norms[:, 0])
    moved = space.exp_coordinates(points[touched], moves[touched])
    coordinates = space.log_coordinates(space.base_point, moved)
    norms = np.linalg.norm(coordinates, axis=1, keepdims=True)
    coordinates *= np.minimum(1.0, radius / np.maximum(norms, 1e-300))
    points = points.copy()
    points[touched] = space.exp_coordinates(space.base_point, coordinates)
    return points
