"""
Records larger than memory, block by block
==========================================

A dask array holds its blocks in files and reads one at a time.  ``PrivateRiemannianERM`` adds up
gradients over such blocks, and draws the noise of a step once.  Here a logistic regression gets
rows and labels as dask arrays, with three ways to spend the same budget: all records in every step,
random batches, and batches whose gradients are compared with those at an anchor.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_dask.png"

import tempfile
from pathlib import Path

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from skriemdp import PrivacyAccountant, PrivateRiemannianERM
from skriemdp.geometry import Euclidean

rng = np.random.default_rng(0)
truth = np.array([1.5, -1.0, 0.5, 0.0])
folder = tempfile.TemporaryDirectory()
for part in range(5):  # as a long recording would be stored
    rows = rng.standard_normal((2000, 4))
    answers = rng.uniform(size=2000) < expit(rows @ truth)
    np.save(Path(folder.name, f"rows-{part}.npy"), rows)
    np.save(Path(folder.name, f"answers-{part}.npy"), answers.astype(float))


def stored(kind):
    files = sorted(Path(folder.name).glob(f"{kind}-*.npy"))
    return da.concatenate([da.from_array(np.load(file, mmap_mode="r")) for file in files])


X, y = stored("rows"), stored("answers")


def gradient(point, X, y):
    return (expit(X @ point) - y)[:, None] * X


# %%
# One ledger pays for all.  A callback follows released iterates, which costs nothing more.

ways = {
    "all records": {"n_steps": 20, "step_size": 1.5},
    "batches of 1000": {"n_steps": 40, "step_size": 1.0, "batch_size": 1000},
    "with anchors": {
        "n_steps": 20, "step_size": 1.5, "batch_size": 1000, "solver": "variance-reduced",
        "smoothness": 1.0,
    },
}  # fmt: skip
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
with PrivacyAccountant(epsilon=4.0, delta=1e-5) as budget:
    for name, settings in ways.items():
        path = []
        model = PrivateRiemannianERM(
            Euclidean(4), gradient=gradient, clip_norm=1.5, epsilon=1.0,
            callback=lambda step, point, path=path: path.append(np.linalg.norm(point - truth)),
            **settings,
        ).fit(X, y)  # fmt: skip
        axes.semilogy(np.arange(1, len(path) + 1), path, label=name)
        print(f"{name:16} {model.point_.round(2)}")
print(budget.summary())
axes.set(xlabel="step", ylabel="distance to the true coefficients")
axes.legend()
folder.cleanup()
plt.show()
