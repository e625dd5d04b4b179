"""
Principal components of word counts, read in pieces
===================================================

Letters to an office are too many for one table, so they come as sparse tables of word counts, one
for each month.  ``PrivatePrincipalEigenvector`` reads such a stream as often as it has to, and
never makes a dense table of it.  Left: the words of the first two components, three topics apart.
Right: released eigenvalues, and what noise may have done to them.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_words.png"

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from skriemdp import PrivatePrincipalEigenvector

TOPICS = {
    "rent": ["flat", "rent", "landlord", "deposit", "heating", "noise", "lease"],
    "tax": ["income", "refund", "form", "deadline", "invoice", "rate", "receipt"],
    "street": ["bin", "tree", "parking", "lamp", "snow", "bicycle", "crossing"],
}
WORDS = [word for words in TOPICS.values() for word in words]
COMMON = np.tile(np.linspace(2.0, 0.2, 7), 3)  # some words are rare


class Letters:
    """Twelve months of letters, which are made anew whenever somebody iterates."""

    def __iter__(self):
        for month in range(12):
            rng = np.random.default_rng(month)
            topic = rng.integers(0, 3, 1000)
            rates = np.where(np.arange(21) // 7 == topic[:, None], 1.2, 0.1) * COMMON
            yield sparse.csr_array(np.minimum(rng.poisson(rates), 4).astype(float))


# %%
# The mechanism "covariance" releases a whole matrix, so bounds on its errors are known.

pca = PrivatePrincipalEigenvector(2, mechanism="covariance", epsilon=1.0).fit(Letters())
months = [pca.transform(letters) for letters in Letters()]
print(pca.explained_variance_ratio_.round(2), "of the variance")
print("components turned by a sine of at most", round(pca.sine_bound(0.95), 2))
rough = pca.inverse_transform(months[0][:1])[0]
print("first letter is about", [WORDS[k] for k in np.argsort(-rough)[:3]])

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for place, words in enumerate(TOPICS.values()):
    axes = pca.components_[:, [WORDS.index(word) for word in words]]
    left.plot(*axes, f"C{place}.")
    for word, spot in zip(words, axes.T, strict=True):
        left.annotate(word, spot, color=f"C{place}", fontsize=8)
left.set(xlabel="first component", ylabel="second component", label="thumbnail")
order, radius = np.arange(1, 22), pca.noise_radius(0.95)
right.errorbar(order, pca.spectrum_, yerr=radius, fmt="o", capsize=2, label="released, 95 %")
right.set(xlabel="number", ylabel="eigenvalue")
right.legend()
plt.show()
