"""
A search over whole pipelines
=============================

Which transformation suits skewed amounts, and which loss?  ``PrivateGridSearchCV`` tries steps,
losses and parameters of a pipeline, and releases the best; all purchases of a person are protected
together.  Steps that learn from records are refused, and yours are tried on made-up tables first.
Left: what the winner predicts.  Right: what the search costs.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_pipelines.png"

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skriemdp import PrivateGridSearchCV, PrivateNoisyAdaGrad, PublicTable, privacy_report

rng = np.random.default_rng(0)
person = np.repeat(np.arange(8000), 2)  # two purchases each
amount, hour = rng.lognormal(3.0, 1.0, 16000), rng.uniform(0.0, 24.0, 16000)
kind = rng.integers(0, 3, 16000)
y = 2.0 * np.log(amount) + 2.0 * np.sin(hour * np.pi / 12) + kind + rng.standard_normal(16000)
X = np.column_stack([amount, hour, kind])


class Squashed(TransformerMixin, BaseEstimator):
    """x / (20 + x), a step of our own."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        X = np.maximum(np.asarray(X), 0.0)
        return X / (20.0 + X)


def clipped_squares(model, X, y):
    return np.minimum((model.predict(X) - y) ** 2, 9.0)


# %%
# Each column has steps of its own: time lies on a circle, and categories are public.

sine = FunctionTransformer(lambda hours: np.sin(hours * (np.pi / 12)))
cosine = FunctionTransformer(lambda hours: np.cos(hours * (np.pi / 12)))
kinds = OneHotEncoder(categories=[[0.0, 1.0, 2.0]], handle_unknown="ignore", sparse_output=False)
clock = FeatureUnion([("sine", sine), ("cosine", cosine)])
given = [("amount", "passthrough", [0]), ("clock", clock, [1]), ("kind", kinds, [2])]
model = PrivateNoisyAdaGrad("squared_error", target_range=(0.0, 15.0), epsilon=0.5)
pipeline = Pipeline([("columns", ColumnTransformer(given, sparse_threshold=0)), ("model", model)])
scales = ["passthrough", FunctionTransformer(np.log1p), Squashed(), PublicTable((0.0, 200.0))]
grid = {"columns__amount": scales, "model__loss": ["squared_error", "huber"]}

search = PrivateGridSearchCV(pipeline, grid, loss=clipped_squares, loss_bound=9.0)
best = search.fit(X, y, groups=person).best_estimator_
print(search.best_params_)
print(privacy_report(best))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
some = np.linspace(1.0, 150.0, 300)
for k in range(3):
    predicted = best.predict(np.column_stack([some, np.full(300, 6.0), np.full(300, k)]))
    left.plot(some, predicted, color=f"C{k}", label=f"kind {k}")
    left.plot(some, 2.0 * np.log(some) + 2.0 + k, "--", color=f"C{k}", linewidth=1)
left.set(xlabel="amount", ylabel="predicted at 6 h (dashed: truth)", label="thumbnail")
left.legend()
costs = {"one fit": 0.5, "the search": search.privacy_spent_.epsilon, "sum of 8 fits": 8 * 0.5}
right.bar(list(costs), list(costs.values()), color=["C0", "C0", "0.7"])
right.set_ylabel("epsilon for a person")
plt.show()
