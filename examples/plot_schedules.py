"""
How many steps? Published schedules for noisy descent
=====================================================

More steps come closer to a minimiser and bring more noise.  Theorems say where to stop: from public
facts about a cost, ``skriemdp.schedules`` gives the number of steps, their sizes, the iterate to
release, and a bound of the excess risk.  Here the cost is the mean squared distance to directions
near a pole.  The figure has the bounds (dashed) and the risk above the least one (circles), as the
mean of three fits; a bound need not be close.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_schedules.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivateRiemannianERM, frechet_mean
from skriemdp.geometry import Sphere
from skriemdp.privacy import gaussian_mu
from skriemdp.schedules import FunctionClass, schedule

RADIUS = 0.6
sphere = Sphere(2)
pole = np.array([0.0, 0.0, 1.0])

# %%
# Half the squared distance has gradients no longer than the diameter of the ball, where it is
# smooth with constant 1 and strongly convex with the constant ``x / tan(x)``, x the diameter.  So
# it belongs to three classes of functions, and the theorem for the narrowest knows most.

x = 2.0 * RADIUS
convexity = x / np.tan(x)
public = {"dim": 2, "lipschitz": x, "diameter": x}
classes = {
    "convex": FunctionClass("convex", **public),
    "strongly-convex": FunctionClass("strongly-convex", strong_convexity=convexity, **public),
    "pl": FunctionClass("pl", smoothness=1.0, pl_constant=0.5 / convexity, **public),
}


def risk(point, X):
    return 0.5 * np.mean(sphere.dist(point, X) ** 2)


sizes, mu = [300, 1000, 3000], gaussian_mu(1.0, 1e-5)
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for color, (name, facts) in enumerate(classes.items()):
    bounds, excess = [], []
    for n in sizes:
        plan = schedule(facts, n, mu, max_steps=100)
        bounds.append(plan.utility_bound)
        descent = PrivateRiemannianERM(
            sphere,
            clip_norm=x,
            center=pole,
            radius=RADIUS,
            epsilon=1.0,
            n_steps=plan.n_steps,
            step_size=plan.step_size,
            output=plan.output,
        )
        found = []
        for seed in range(3):
            steps = np.random.default_rng(seed).normal([0.2, 0.0], 0.1, (n, 2))
            X = sphere.exp_coordinates(pole, steps)
            found.append(risk(descent.fit(X).point_, X) - risk(frechet_mean(X, sphere), X))
        excess.append(np.mean(found))
        print(f"{name:16} n = {n:5}: {plan.n_steps:3} steps, releases {plan.output!r}")
    axes.loglog(sizes, bounds, "--", color=f"C{color}")
    axes.loglog(sizes, excess, "o-", color=f"C{color}", label=name)
axes.set(xlabel="records", ylabel="excess risk at epsilon = 1")
axes.legend()
plt.show()
