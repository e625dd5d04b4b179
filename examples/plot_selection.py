"""
What a private search costs
===========================

``PrivateGridSearchCV`` releases the best of a random number of runs, and hides the others.  The
figure compares its epsilon (at delta = 1e-5) with that of one run and of releasing all runs, for a
run of epsilon = 1 with Gaussian noise and different mean numbers of runs.  No data are used.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_selection.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp.privacy import GaussianEvent, SelectionEvent, compose, gaussian_mu

DELTA = 1e-5
run = GaussianEvent(1 / gaussian_mu(1.0, DELTA))
means = np.array([2, 4, 8, 16, 32, 64])
searches = [SelectionEvent(run, mean=float(mean), shape=0.0).epsilon(DELTA) for mean in means]
released = [compose([run] * int(mean)).epsilon(DELTA) for mean in means]

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.plot(means, released, "s-", color="C1", label="all runs released")
axes.plot(means, searches, "o-", color="C0", label="the search")
axes.axhline(1.0, color="0.5", linestyle="--", label="one run")
axes.set_xscale("log", base=2)
axes.set_xticks(means, [str(mean) for mean in means])
axes.set(xlabel="mean number of runs", ylabel="epsilon, delta = 1e-5", ylim=(0, None))
axes.legend()
plt.show()
