"""Linear classifiers of points of a manifold, on coordinates at a private mean."""
