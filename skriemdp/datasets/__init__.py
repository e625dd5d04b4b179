"""Real and synthetic manifold-valued data, hierarchies and ratings."""

from skriemdp.datasets._hierarchies import embed_taxonomy, load_closure, make_tree
from skriemdp.datasets._ratings import from_frame, load_movielens, observed_matrix
from skriemdp.datasets._recordings import fetch_eeg
from skriemdp.datasets._sets import digits_covariances, make_cloud, make_people, region_covariance

__all__ = [
    "digits_covariances",
    "embed_taxonomy",
    "fetch_eeg",
    "from_frame",
    "load_closure",
    "load_movielens",
    "make_cloud",
    "make_people",
    "make_tree",
    "observed_matrix",
    "region_covariance",
]
