"""
How many records are enough?
============================

Before a study anybody may ask what a release will cost and how wrong it will be: ``plan`` knows
from the number of records and the shape of a row, and reads no data.  Left: the error that privacy
adds to means of 4 x 4 covariances, in units of their spread, beside the error of sampling.  Right:
from how many records on each kind of result is worth having.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_plans.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import (
    PrivateFrechetMean,
    PrivateMinimumDistanceToMean,
    PrivateNoisyAdaGrad,
    PrivatePrincipalEigenvector,
    PrivateTangentClassifier,
    PrivateTangentPCA,
)

sizes = np.geomspace(200, 50_000, 8).astype(int)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for color, epsilon in enumerate([0.3, 1.0, 3.0]):
    plans = [PrivateFrechetMean("spd", epsilon=epsilon).plan(n, (4, 4)) for n in sizes]
    noise = [plan.error("noise") for plan in plans]
    left.loglog(sizes, noise, "o-", color=f"C{color}", label=f"epsilon = {epsilon:g}")
left.loglog(sizes, [plan.error("sampling") for plan in plans], "k--", label="sampling")
left.set(xlabel="records", ylabel="error / spread", label="thumbnail")
left.legend()

# One page of a study protocol: mechanism, releases, errors and cost, as text, HTML or a dict.

classes = {"manifold": "spd", "classes": [0, 1], "epsilon": 1.0}
asked = {
    "mean": (PrivateFrechetMean("spd"), (4, 4), {}),
    "mean with error bars": (PrivateFrechetMean("spd", uncertainty=True), (4, 4), {}),
    "class means": (PrivateMinimumDistanceToMean(**classes), (4, 4), {"n_classes": 2}),
    "tangent components": (PrivateTangentPCA(manifold="spd"), (4, 4), {}),
    "tangent classifier": (PrivateTangentClassifier(**classes), (4, 4), {"n_classes": 2}),
    "components": (PrivatePrincipalEigenvector(2), 16, {}),
    "linear model": (PrivateNoisyAdaGrad("squared_error"), 16, {}),
}
least = {}
for name, (estimator, shape, more) in asked.items():
    plan = estimator.plan(5000, shape, **more)
    least[name] = plan.smallest_n
print(plan)
right.barh(list(least), [n or 0 for n in least.values()])
right.invert_yaxis()
right.set_xlabel("smallest useful number of records, epsilon = 1")
plt.show()
