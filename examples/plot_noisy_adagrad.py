"""
A private classifier that nobody tuned
======================================

Even against odd digits, at four budgets, with the defaults of `PrivateNoisyAdaGrad`: from nothing,
in a public subspace, and from a public solution.  On the right the excess risk over the non-private
optimum; on the left the spectrum of the preconditioner in the public subspace, which comes from
gradients that were noised anyway and costs no budget: one direction stands out of the noise.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_noisy_adagrad.png"

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skriemdp import PrivateNoisyAdaGrad
from skriemdp.plotting import AdaGradDisplay

X, y = load_digits(return_X_y=True)
y = (y % 2 == 0).astype(int)  # pixels as they are: centre and scale are found, or public
X_public, y_public = X[:180], y[:180]
X, y = X[180:], y[180:]

# Without privacy, for comparison: unpenalised logistic regression.
best = LogisticRegression(C=1e4, max_iter=5000).fit(X, y)
optimum = log_loss(y, best.predict_proba(X))

settings = {
    "default": {},
    "public subspace": {"subspace": 20, "public_X": X_public},
    "public start": {"subspace": 20, "public_X": X_public, "public_y": y_public},
}
epsilons, repeats = [0.1, 0.3, 1.0, 3.0], 3
excess, models = {}, {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for name, parameters in settings.items():
        excess[name] = np.empty((len(epsilons), repeats))
        for i, epsilon in enumerate(epsilons):
            for j in range(repeats):
                model = PrivateNoisyAdaGrad(classes=[0, 1], epsilon=epsilon, **parameters)
                model.fit(X, y)
                excess[name][i, j] = log_loss(y, model.predict_proba(X)) - optimum
        models[name] = model

# %%
# The public solution needs no budget.  Look at it first: here it beats every model that starts from
# nothing at small epsilon.
baseline = models["public start"].public_baseline_
public = log_loss(y, baseline.predict_proba(X)) - optimum
display = AdaGradDisplay.from_estimator(
    models["public subspace"],
    epsilons=epsilons,
    excess_risks=excess,
    no_data={"public rows alone": public},
)
display.figure_.tight_layout()
plt.show()
