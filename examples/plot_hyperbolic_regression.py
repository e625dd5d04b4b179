"""
Private regression with hyperbolic labels
=========================================

Nodes of a tree have a place in the hyperbolic plane; the model predicts it from features.  One
private fit answers any number of queries.  Stars are held-out nodes, ringed dots the prediction of
one fit, small dots those of other fits with fresh noise (each of which costs the budget again), and
the curve between them is the geodesic.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_hyperbolic_regression.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateHyperbolicRegressor
from skriemdp.datasets import make_tree
from skriemdp.plotting import PoincareDiskDisplay

REPEATS = 10
X, y = make_tree(2000)
held_out = np.random.default_rng(1).choice(len(X), size=3, replace=False)
train = np.setdiff1d(np.arange(len(X)), held_out)

figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained")
for epsilon, ax in zip((0.1, 1.0, 10.0), axes, strict=True):
    model = PrivateHyperbolicRegressor(manifold="hyperboloid", epsilon=epsilon)
    clouds = [model.fit(X[train], y[train]).predict(X[held_out]) for _ in range(REPEATS)]
    display = PoincareDiskDisplay(y[held_out], np.swapaxes(clouds, 0, 1), background=y[train])
    display.plot(ax).ax_.set_title(f"epsilon = {epsilon:g}, delta = 1e-5")

# %%
# The other way to fit the same features, and its score: one for perfect predictions.

moments = PrivateHyperbolicRegressor("sufficient-statistics", manifold="hyperboloid", epsilon=10.0)
print(round(moments.fit(X[train], y[train]).score(X[held_out], y[held_out]), 2))
plt.show()
