"""
One budget for releases of several libraries
============================================

A clinic fits means with skriemdp, trains a network elsewhere, and publishes counts and a survey.
What an attacker learns adds up over all of them, so one ledger should pay for all.  It takes
events, descriptions by dp_accounting, measurements by OpenDP, and plain numbers, each with the
neighbours that it is about.  The figure shows how the total grows, beside the sum of the epsilons.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_other_releases.png"

import matplotlib.pyplot as plt
import numpy as np
from dp_accounting import dp_event

from skriemdp import BudgetExceededError, PrivacyAccountant, PrivateFrechetMean
from skriemdp.privacy import GaussianEvent, as_event

# %%
# The same record trains in all of them.  Steps of training are described under addition or removal
# of a record, and converted: a replacement is one of each.

batch = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(4.0))
training = dp_event.ComposedDpEvent(
    [dp_event.SelfComposedDpEvent(batch, 500), dp_event.GaussianDpEvent(20.0)]
)
releases = {
    "a network": (training, "add-or-remove-one"),
    "counts": (dp_event.DiscreteLaplaceDpEvent(0.1, sensitivity=1), "replace-one"),
    "a histogram": (dp_event.LaplaceDpEvent(16.0), "add-or-remove-one"),
    "a survey": (dp_event.RandomizedResponseDpEvent(0.8, num_buckets=4), "replace-one"),
    "a fixed subsample": (
        dp_event.SampledWithoutReplacementDpEvent(5000, 50, dp_event.GaussianDpEvent(4.0)),
        "replace-one",
    ),
    "best of several": (
        dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(40.0), mean=8, shape=np.inf),
        "replace-one",
    ),
    "a census table": ({"rho": 0.002}, "replace-one"),
    "ages": ({"epsilon": 0.1, "delta": 1e-9}, "add-or-remove-one"),
}

budget = PrivacyAccountant(epsilon=4.0, delta=1e-5)
totals = []
for name, (release, relation) in releases.items():
    budget.spend(release, relation=relation, label=name)
    totals.append(budget.spent.epsilon)
X = np.random.default_rng(0).normal(size=(5000, 2))
PrivateFrechetMean(epsilon=0.5, accountant=budget).fit(X)
totals.append(budget.spent.epsilon)
names = [*releases, "a mean by skriemdp"]
print(budget.summary())

# %%
# What does not fit is refused, and nothing is charged.  ``remaining`` says what fits.

print("noise multipliers of 20 fit", budget.remaining(GaussianEvent(20.0)), "times")
try:
    budget.spend(GaussianEvent(0.5), label="an exact table")
except BudgetExceededError as refusal:
    print(refusal)

alone = [as_event(*release).epsilon(1e-5) for release in releases.values()]
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(names, totals, "o-", label="total of the ledger")
axes.plot(names, np.cumsum([*alone, 0.5]), "s--", color="0.6", label="sum of the epsilons")
axes.axhline(4.0, color="k", linewidth=1, label="ceiling")
axes.tick_params("x", rotation=30)
axes.set(ylabel="epsilon, delta = 1e-5", ylim=(0, None))
axes.legend()
plt.show()
