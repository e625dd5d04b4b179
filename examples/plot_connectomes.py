"""
A group connectome
==================

A functional connectome is a matrix of correlations between regions of one person's brain.  The mean
over a group is published everywhere, and it tells of everybody in the group.  Here it is private,
and a correlation matrix: ``Correlation`` is their manifold.  Nothing about the data has to be
public.

The matrices are made up, of seven networks; each person's are computed from 200 samples.  nilearn's
do as well: what ``ConnectivityMeasure(kind="correlation").fit_transform(series)`` returns goes into
`fit`, and ``sym_matrix_to_vec`` takes what comes out.  (Not ``kind="tangent"``, which learns a mean
of the group without privacy.)  Several sessions of a person?  ``fit(X, groups=person)``.

"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_connectomes.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateFrechetMean
from skriemdp.geometry import Correlation


# %%
# Networks, and what each region shares with others besides; people's networks differ in strength.
def connectomes(n, regions, rng, networks=7, samples=200):
    network = np.arange(regions) * networks // regions
    law = np.where(network[:, None] == network, 0.45, 0.1) + 0.55 * np.eye(regions)
    shared = 0.25 * rng.normal(size=(regions, 10))
    root = np.linalg.cholesky(law + shared @ shared.T)
    own = 0.25 * rng.normal(size=(n, networks, networks)) * networks / regions
    mixing = np.eye(regions) + own[:, network][:, :, network]
    series = mixing @ root @ rng.normal(size=(n, regions, samples))
    series /= np.linalg.norm(series - series.mean(axis=2, keepdims=True), axis=2, keepdims=True)
    series -= series.mean(axis=2, keepdims=True)
    X = series @ series.swapaxes(1, 2)
    X[:, np.arange(regions), np.arange(regions)] = 1.0
    return X


# %%
# The exact mean is the ordinary one of the manifold's coordinates.
def exact_mean(space, X):
    return space.exp_coordinates(
        space.base_point, space.log_coordinates(space.base_point, X).mean(axis=0)
    )


rng = np.random.default_rng(0)
cases = {20: (0.3, 1.0, 3.0), 50: (0.3, 1.0, 3.0), 100: (1.0,)}
errors, shown = {}, {}
for regions, epsilons in cases.items():
    X, space = connectomes(1000, regions, rng), Correlation(regions)
    exact, edges = exact_mean(space, X), np.triu_indices(regions, 1)
    for epsilon in epsilons:
        # Seeded, to draw the same figure every time.
        mean = PrivateFrechetMean(space, epsilon=epsilon, random_state=0).fit(X).mean_
        away = mean[edges] - exact[edges]
        alike = np.corrcoef(mean[edges], exact[edges])[0, 1]
        errors[regions, epsilon] = np.sqrt(np.mean(away**2)), alike
        shown[regions, epsilon] = exact, mean
        print(f"{regions} regions, epsilon {epsilon}: edges correlate {alike:.3f} with exact ones")

# %%
# Left: fifty regions, exact above the diagonal and private below.  Right: edges of private means
# against exact ones.  A public model of networks brings nothing here: what a record varies by, and
# so what bounds the noise, is mostly the noise of its own 200 samples, alike in all coordinates.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
exact, mean = shown[50, 1.0]
both = np.triu(exact) + np.tril(mean, -1)
image = left.imshow(both, vmin=-0.2, vmax=1.0, cmap="viridis")
left.set(title="exact above, epsilon = 1 below", xticks=[], yticks=[])
fig.colorbar(image, ax=left, label="correlation")
for regions, color in zip(cases, ("#4477aa", "#228833", "#ee6677"), strict=True):
    alike = [errors[regions, e][1] for e in cases[regions]]
    right.plot(cases[regions], alike, "o-", color=color, label=f"{regions} regions")
right.set(xscale="log", xlabel="epsilon", ylabel="correlation of edges with exact ones")
right.set_xticks(cases[20], [f"{epsilon:g}" for epsilon in cases[20]], minor=False)
right.set_xticks([], minor=True)
right.set_ylim(0.0, 1.02)
right.legend(loc="lower right")
plt.show()
