"""
A taxonomy in the Poincaré disk
===============================

Visitors of a zoo name the animal that they liked best: a node of a tree, which hyperbolic space
holds with little distortion.  The disk shows all of it, with the root in the middle.  For children
and adults the private mean is a place in the tree, between a general term and a special one, and a
new answer goes to the group whose mean is nearer (shaded).
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_disk.png"

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateMinimumDistanceToMean
from skriemdp.datasets import embed_taxonomy, load_closure
from skriemdp.geometry import Hyperboloid, Poincare

# %%
# A file with a line for each animal and each kind that it belongs to.

KINDS = {
    "mammal": {"cat": ["lion", "tiger", "lynx"], "ape": ["gorilla", "orang-utan", "gibbon"]},
    "bird": {"parrot": ["macaw", "kea"], "raptor": ["eagle", "owl", "kite"]},
    "reptile": {"snake": ["python", "cobra"], "lizard": ["gecko", "iguana"]},
}
lines = []
for group, families in KINDS.items():
    lines.append((group, "animal"))
    for family, members in families.items():
        lines += [(family, group), (family, "animal")]
        for member in members:
            lines += [(member, family), (member, group), (member, "animal")]
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "zoo.tsv")
    file.write_text("\n".join("\t".join(line) for line in lines))
    names, edges = load_closure(file)
plane, disk = Hyperboloid(2), Poincare(2)
tree = disk.from_hyperboloid(embed_taxonomy(edges, radius=4.0))

# %%
# Children prefer cats and apes, adults birds.

rng = np.random.default_rng(0)
y = rng.integers(0, 2, 4000)
weights = np.ones((2, len(names)))
for name, favours in [("cat", 0), ("ape", 0), ("parrot", 1), ("raptor", 1)]:
    below = [child for child, parent in lines if parent == name]
    weights[favours, [names.index(child) for child in below]] = 8.0
answers = [rng.choice(len(names), p=row / row.sum(), size=4000) for row in weights]
X = tree[np.where(y == 0, *answers)]
model = PrivateMinimumDistanceToMean("poincare", classes=[0, 1], epsilon=1.0).fit(X, y)
print("accuracy", round(model.score(X, y), 2), tuple(model.privacy_spent_))

side = np.linspace(-0.99, 0.99, 150)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
grid = grid[np.linalg.norm(grid, axis=1) < 0.99]
figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
axes.scatter(*grid.T, c=model.predict(grid), cmap="coolwarm", s=6, alpha=0.15, linewidths=0)
axes.plot(*tree.T, "k.", markersize=4)
for name, place in zip(names, tree, strict=True):
    axes.annotate(name, place, fontsize=8)
for k, group in enumerate(["children", "adults"]):
    axes.plot(*model.means_[k], "*", markersize=16, label=f"mean of {group}")
axes.set(aspect="equal", xticks=[], yticks=[])
axes.legend()
plt.show()
