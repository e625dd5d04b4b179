"""
Ten digits by their private class means
=======================================

Each image of a digit becomes one covariance matrix of its pixels, and a matrix gets the label of
the nearest private class mean.  Accuracy on held-out images, five fits at each epsilon, with
nothing public but the list of labels; dashed lines are nearest class means without privacy.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_class_means.png"

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateMinimumDistanceToMean, frechet_mean
from skriemdp.datasets import digits_covariances
from skriemdp.geometry import SPD

X, y = digits_covariances()
train = np.random.default_rng(0).random(len(X)) < 0.75
epsilons = np.array([0.1, 0.3, 1.0, 3.0, 10.0])

warnings.simplefilter("ignore")  # about small budgets, which the figure is to show

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for number, classes in enumerate((10, 6)):
    seen, new = train & (y < classes), ~train & (y < classes)
    accuracy = []
    for epsilon in epsilons:
        model = PrivateMinimumDistanceToMean("spd", classes=range(classes), epsilon=epsilon)
        accuracy.append([model.fit(X[seen], y[seen]).score(X[new], y[new]) for _ in range(5)])
    axes.semilogx(
        epsilons, np.mean(accuracy, axis=1), "o-", color=f"C{number}", label=f"{classes} classes"
    )
    axes.semilogx(np.repeat(epsilons, 5), np.ravel(accuracy), ".", color=f"C{number}", alpha=0.4)
    means = np.stack([frechet_mean(X[seen & (y == k)], "spd") for k in range(classes)])
    nearest = SPD(5).dist(X[new, None], means).argmin(axis=1)
    axes.axhline(np.mean(nearest == y[new]), color=f"C{number}", linestyle="--", linewidth=1)
axes.set(xlabel="epsilon, delta = 1e-5", ylabel="accuracy on held-out images", ylim=(0, 1))
axes.legend()
plt.show()
