"""
Decoding the trials of people never seen
========================================

Each of 109 people was recorded in 40 trials of two kinds.  People differ from each other more than
the kinds do (left), so nothing learned from some of them helps with others.  Moved by their own
means, trials of all people lie at one place, and the kinds come apart (middle, where the lines are
the means of the kinds).  ``PerGroup`` does
this for each person by own rows alone, and fits with the *person* as the unit of privacy: all 40
trials of anybody may be replaced.  Right: accuracy on 60 new people; the dashed lines are without
privacy.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_people.png"

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateMinimumDistanceToMean
from skriemdp.datasets import make_people
from skriemdp.geometry import AffineInvariantSPD
from skriemdp.preprocessing import PerGroup, Recenter

X, y, person = make_people(169, 40, 6, rng=np.random.default_rng(0))
train, new = person < 109, person >= 109


def decoder(radius, epsilon):
    center = np.eye(6)  # where everybody's mean lies after recentring
    return PrivateMinimumDistanceToMean(
        "spd", center=center, radius=radius, classes=[0, 1], epsilon=epsilon
    )


def accuracy(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about clipped rows: a small radius is meant to do that
        model.fit(X[train], y[train], groups=person[train])
    asked = {"groups": person[new]} if isinstance(model, PerGroup) else {}
    return model.score(X[new], y[new], **asked)


epsilons = np.array([0.3, 1.0, 3.0, 10.0])
ways = {
    "recentred by person": lambda radius, eps: PerGroup(Recenter("spd"), decoder(radius, eps)),
    "as recorded": lambda radius, eps: decoder(10.0 * radius, eps),
}
figure, axes = plt.subplots(1, 3, figsize=(12.5, 4))
for color, (name, make) in zip(("C0", "C1"), ways.items(), strict=True):
    private = [accuracy(make(0.3, epsilon)) for epsilon in epsilons]
    axes[2].semilogx(epsilons, private, "o-", color=color, label=name)
    axes[2].axhline(accuracy(make(30.0, 1e5)), color=color, linestyle="--", linewidth=1)
axes[2].axhline(0.5, color="0.7", linewidth=1)
axes[2].set(title="60 new people", xlabel="epsilon, for a whole person", ylabel="accuracy")
axes[2].legend()

# Two directions: between the kinds after recentring, and the widest one across it.
geometry = AffineInvariantSPD(6)
some = (person >= 109) & (person < 121)
recentred = np.concatenate([Recenter().fit_transform(X[person == k]) for k in range(109, 121)])
rows = [np.asarray(geometry.log_coordinates(np.eye(6), Z)) for Z in (X[some], recentred)]
apart = rows[1][y[some] == 1].mean(axis=0) - rows[1][y[some] == 0].mean(axis=0)
apart /= np.linalg.norm(apart)
for ax, shown, title in zip(axes, rows, ("as recorded", "recentred by person"), strict=False):
    across = np.linalg.svd(shown - shown.mean(axis=0) - np.outer(shown @ apart, apart))[2][0]
    for kind, marker in ((0, "o"), (1, "x")):
        chosen = y[some] == kind
        # People have colours on the left; in the middle it is the kinds that differ.
        colors = (
            {"c": person[some][chosen], "cmap": "tab20"} if ax is axes[0] else {"c": f"C{2 + kind}"}
        )
        place = shown[chosen] @ apart
        ax.scatter(place, shown[chosen] @ across, marker=marker, s=14, linewidths=1, **colors)
        if ax is axes[1]:
            ax.axvline(place.mean(), color=f"C{2 + kind}", label=f"mean of kind {kind}")
    ax.set(title=title, xlabel="between the kinds", ylabel="across")
axes[1].legend()
figure.tight_layout()
plt.show()
