"""
A mean over hospitals that share no record
==========================================

Twenty hospitals hold covariance matrices of their own.  In each round some of them take a private
step from the server's point and send back where they arrived; the server averages these points on
the manifold.  Epsilon is the total of the whole run for every single record, against everybody who
sees all messages.

Taking turns matters: with few enough rounds each hospital trains once, and nothing composes.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_federated_mean.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateFrechetMean, frechet_mean
from skriemdp.federated import FederatedEstimator
from skriemdp.geometry import SPD

rng = np.random.default_rng(0)
factor = rng.normal(size=(4000, 2, 10))
X = factor @ factor.transpose(0, 2, 1) / 10
hospitals = np.arange(4000) % 20
space = SPD(2)
mean = frechet_mean(X, space)

# %%
# Excess risk (half the squared distance to the mean of all records) after T rounds, at a total of
# epsilon = 1 however many rounds there are.  "Central" holds all records in one place.


def excess(model, **fit):
    model.fit(X, **fit)
    point = model.point_ if hasattr(model, "point_") else model.mean_
    return 0.5 * space.dist(point, mean) ** 2


rounds = [1, 2, 4, 8]
inner = PrivateFrechetMean("spd", center=np.eye(2), radius=2.0, epsilon=1.0)
designs = {
    "one step, taking turns": {},
    "one step, random subsets": {"participation": "uniform"},
    "variance-reduced": {"local": "rsvrg", "local_steps": 3, "batch_fraction": 0.3},
}
for label, settings in designs.items():
    risks = []
    for n_rounds in rounds:
        runs = [
            excess(FederatedEstimator(inner, n_rounds, 10, **settings), clients=hospitals)
            for _ in range(3)
        ]
        risks.append(np.median(runs))
    plt.loglog(rounds, risks, "o-", label=label)

central = np.median(
    [excess(PrivateFrechetMean("spd", center=np.eye(2), radius=2.0, epsilon=1.0)) for _ in range(3)]
)
start = 0.5 * space.dist(np.eye(2), mean) ** 2
plt.axhline(central, color="gray", linestyle="--", label="central, private")
plt.axhline(start, color="black", linestyle=":", label="public start, no data")
plt.xticks(rounds, [str(number) for number in rounds])
plt.minorticks_off()
plt.xlabel("rounds")
plt.ylabel("excess risk at a total of epsilon = 1")
plt.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
plt.tight_layout()

# %%
# What did every hospital pay?  Clients that took turns pay for their own rounds.

model = FederatedEstimator(inner, 3, 10).fit(X, clients=hospitals)
paid = sorted({round(spent.epsilon, 3) for spent in model.privacy_spent_by_client_.values()})
print(model.privacy_spent_)
print("epsilon of a client:", paid)
plt.show()

# %%
# One round of sums, at the same epsilon for every record.  Whoever trusts nobody adds all the noise
# that its own sum needs, and the noise of the total grows with the number of hospitals.  Shares of
# one noise, under masks that cancel (``trust="cohort"``), have nearly the error of one table; then
# epsilon holds against the server and any one hospital, as long as the cryptography does.


def sums(n_clients, **settings):
    ball = PrivateFrechetMean("spd", center=np.eye(2), radius=2.0, epsilon=1.0, delta=1e-5)
    model = FederatedEstimator(ball, n_rounds=1, local="statistic", **settings)
    model.fit(X, clients=np.arange(4000) % n_clients)
    return space.dist(model.estimator_.mean_, mean)


plt.figure()
numbers = [2, 5, 10, 20, 50, 100]
for trust in ("nobody", "cohort", "aggregator"):
    errors = [
        np.sqrt(np.mean([sums(n_clients, trust=trust) ** 2 for _ in range(8)]))
        for n_clients in numbers
    ]
    plt.loglog(numbers, errors, "o-", label=f'trust="{trust}"')
plt.axhline(
    space.dist(np.eye(2), mean), color="black", linestyle=":", label="public start, no data"
)
plt.xticks(numbers, [str(number) for number in numbers])
plt.minorticks_off()
plt.xlabel("hospitals")
plt.ylabel("distance to the mean of all records")
plt.legend()
plt.show()
