"""
Completing half-seen digits privately
=====================================

Every image is a user, every pixel an item; half of the pixels of each image are unobserved.  Item
effects and a subspace are released with differential privacy for whole images; what an image looks
like is then computed from its own pixels alone.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_matrix_completion.png"

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skriemdp import PrivateMatrixCompletion
from skriemdp.plotting import CompletionDisplay

images = load_digits().data / 16.0
seen = np.random.default_rng(0).random(images.shape) < 0.5
train, hidden = np.where(seen, images, np.nan), np.where(seen, np.nan, images)

# %%
# The estimator measures privately whether a subspace is worth its share of the budget, and says so.

model = PrivateMatrixCompletion(bounds=(0, 1), epsilon=3.0).fit(train)
print(f"{model.mechanism_}, rank {model.rank_}: {model.subspace_reason_}")
print(f"error on hidden pixels {-model.score(train, hidden):.3f}")

# %%
# Released singular values against the reach of the noise, and the error over epsilon.

epsilons = [0.3, 1.0, 3.0, 10.0]
errors = {"item effects only": [], "default": [], "gradient steps": []}
ways = {"rank": 0}, {}, {"rank": 3, "mechanism": "gradient"}
for epsilon in epsilons:
    for values, way in zip(errors.values(), ways, strict=True):
        fit = PrivateMatrixCompletion(bounds=(0, 1), epsilon=epsilon, **way)
        values.append(-fit.fit(train).score(train, hidden))
display = CompletionDisplay.from_estimator(model, epsilons=epsilons, errors=errors)

# %%
# Six images: what was seen, what each completes to, and the truth.

completed = model.predict(train[:6])
figure, axes = plt.subplots(3, 6, figsize=(9, 4.5))
for rows, label, axis in zip(
    (train[:6], completed, images[:6]), ("seen", "completed", "true"), axes, strict=True
):
    for image, ax in zip(rows, axis, strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
    axis[0].set_ylabel(label)
figure.tight_layout()
