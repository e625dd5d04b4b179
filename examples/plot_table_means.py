"""
Means of a table whose columns come in unlike units
===================================================

Prices in the hundreds of thousands stand beside rooms, years and shares.  One norm for whole rows
gives every column the noise of the widest.  The default finds a place and a scale for each column,
from n mu = 64 sqrt(columns) on (mu is the budget), and says which columns it could not see.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_table_means.png"

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateFrechetMean

# %%
# Flats, as a file would have them: no column is scaled, and nothing is known of any.

COLUMNS = ["price", "rooms", "area", "year", "latitude", "rented"]


def flats(n, seed):
    rng = np.random.default_rng(seed)
    return np.stack(
        [
            np.exp(rng.normal(12.5, 0.6, n)),
            rng.integers(1, 9, n),
            np.exp(rng.normal(4.6, 0.4, n)),
            rng.integers(1900, 2020, n),
            rng.uniform(47.0, 49.0, n),
            rng.random(n) < 0.3,
        ],
        axis=1,
    ).astype(float)


mean = PrivateFrechetMean(epsilon=1.0).fit(flats(5000, 0))
for name, value, noise in zip(COLUMNS, mean.mean_, mean.noise_scale_, strict=True):
    print(f"{name:9} {value:12.2f} +- {noise:.2g}")

# %%
# Errors of twenty fits in the standard deviations of each column.  Error bars come with one scale
# for all columns, which a warning says.

errors = {"a scale for each": [], "one scale for all": []}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    for seed in range(20):
        X = flats(5000, seed)
        for name, bars in zip(errors, (False, True), strict=True):
            model = PrivateFrechetMean(epsilon=1.0, uncertainty=bars).fit(X)
            errors[name].append(np.abs(model.mean_ - X.mean(axis=0)) / X.std(axis=0))

figure, axes = plt.subplots(figsize=(6, 4))
for name, marker in zip(errors, "os", strict=True):
    axes.plot(COLUMNS, np.median(errors[name], axis=0), marker, label=name)
axes.axhline(1.0, color="0.7", linestyle="--")
axes.annotate("one standard deviation: nothing is known", (0, 1.2), color="0.4")
axes.set_yscale("log")
axes.set_ylabel("median error, standard deviations")
axes.legend(title="private mean with")
plt.show()
