"""
Private principal components of handwritten digits
==================================================

PCA of the 1797 digits bundled with scikit-learn, with a private mean, a private clipping norm and a
private spectrum.  Nothing about the data is needed beforehand.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_private_pca.png"

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from skriemdp import PrivatePrincipalEigenvector
from skriemdp.plotting import CapturedVarianceDisplay, SpectrumDisplay

X = load_digits().data / 16.0

# %%
# One fit releases any number of components: they all come from one noisy matrix.

model = PrivatePrincipalEigenvector(4, epsilon=3.0).fit(X)
epsilon, delta = model.privacy_spent_
print(f"({epsilon}, {delta})-private; rows scaled to norm {model.row_norm_:.2f}")
print("released shares of the variance:", model.explained_variance_ratio_.round(3))

# %%
# The band shows which eigenvalues the noise alone could have produced.  The black marks are the
# non-private eigenvalues; private ones are those of clipped rows, a little smaller.

figure, axis = plt.subplots(figsize=(6, 4))
SpectrumDisplay.from_estimator(model, axis)
truth = np.linalg.eigvalsh(np.cov(X.T))[::-1]
axis.plot(1 + np.arange(len(truth)), truth, "k_", label="not private")
axis.legend()
figure.tight_layout()

# %%
# What the first two components capture, against epsilon.  At the small end the estimator warns by
# itself that its components are noise, from released numbers.

fits = []
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for budget in (0.1, 0.3, 1.0, 3.0, 10.0):
        fits += [PrivatePrincipalEigenvector(2, epsilon=budget).fit(X) for _ in range(8)]
best = PCA(2).fit(X).explained_variance_ratio_.sum()
figure, axis = plt.subplots(figsize=(6, 4))
CapturedVarianceDisplay.from_estimators(fits, X, axis, non_private=best)
figure.tight_layout()

# %%
# The same by each mechanism; the last has no delta, and pays for it.

mechanisms = [{"mechanism": name} for name in ("covariance", "refine", "power", "gradient")]
for settings in (*mechanisms, {"delta": 0.0}):
    fit = PrivatePrincipalEigenvector(2, epsilon=10.0, **settings).fit(X)
    share = np.cov(fit.transform(X).T).trace() / np.cov(X.T).trace()
    print(f"{settings}: {share:.3f} of {best:.3f}")

# %%
# The four components as images, private above, non-private below.

figure, axes = plt.subplots(2, 4, figsize=(8, 4))
reference = PCA(4).fit(X).components_
signs = np.sign(np.sum(reference * model.components_, axis=1))
for k in range(4):
    for row, component in enumerate((model.components_[k], signs[k] * reference[k])):
        axes[row, k].imshow(component.reshape(8, 8), cmap="RdBu", vmin=-0.4, vmax=0.4)
        axes[row, k].axis("off")
figure.tight_layout()
plt.show()
