"""Real and synthetic manifold-valued data, hierarchies and ratings."""

from skriemdp.datasets.hierarchies import embed_taxonomy, load_closure, make_tree
from skriemdp.datasets.ratings import from_frame, load_movielens, observed_matrix
from skriemdp.datasets.recordings import fetch_eeg
from skriemdp.datasets.sets import digits_covariances, make_cloud, make_people, region_covariance

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
