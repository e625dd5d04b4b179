"""
When people fall asleep: times of day
=====================================

Half past eleven and half past one are two hours apart, and their mean is half past midnight, not
half past twelve.  On a circle of 24 hours a private mean knows that.  Everybody has kept a diary
for some nights, and the unit of privacy is a *person* with the whole diary.  Left: the nights, and
the private mean with its error bar.  Right: how the hour depends on age.
"""

# sphinx_gallery_thumbnail_path = "gallery/panels/plot_times_of_day.png"

import matplotlib.pyplot as plt
import numpy as np

from skriemdp import PrivacyAccountant, PrivateFrechetMean, PrivateGeodesicRegressor
from skriemdp.geometry import Circle

rng = np.random.default_rng(0)
people = [f"diary {number}" for number in range(800)]
age, nights = rng.uniform(15.0, 80.0, 800), rng.integers(1, 15, 800)
own = 25.5 - 0.04 * age + rng.normal(0.0, 0.7, 800)  # around midnight
person = [name for name, count in zip(people, nights, strict=True) for _ in range(count)]
X = np.repeat(age, nights)[:, None]
hours = (np.repeat(own, nights) + rng.normal(0.0, 0.6, nights.sum()))[:, None] % 24.0

# %%
# One budget pays for both fits.  Ids may be text; the number of nights of a person stays private.

day = Circle(24.0)
with PrivacyAccountant(epsilon=2.0, delta=1e-5, unit="group") as budget:
    mean = PrivateFrechetMean(day, epsilon=1.0, uncertainty=True).fit(hours, groups=person)
    trend = PrivateGeodesicRegressor(day, epsilon=1.0).fit(X, hours, groups=person)
region = mean.confidence_region(0.95)
print(region)
print(budget.summary())

figure, (clock, line) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
clock.remove()
clock = figure.add_subplot(1, 2, 1, projection="polar", label="thumbnail")
clock.set(theta_zero_location="N", theta_direction=-1, yticks=[])
clock.set_xticks(np.arange(0, 24, 3) * np.pi / 12, [f"{hour} h" for hour in range(0, 24, 3)])
clock.hist(hours[:, 0] * np.pi / 12, bins=np.arange(97) * np.pi / 48, color="0.8")
middle, half = float(mean.mean_[0]) * np.pi / 12, region.semi_axes[0] * np.pi / 12
clock.errorbar(middle, 300.0, xerr=half, fmt="o", capsize=3, label="private mean, 95 %")
clock.legend(loc="lower center")

ages = np.arange(15.0, 81.0)
late = (trend.predict(ages[:, None])[:, 0] + 12.0) % 24.0 - 12.0  # hours from midnight
line.plot(X[::5, 0], (hours[::5, 0] + 12.0) % 24.0 - 12.0, ".", color="0.8", markersize=3)
line.plot(ages, late, linewidth=2, label="private curve")
line.plot(ages, 1.5 - 0.04 * ages, "k--", label="truth")
line.set(xlabel="age", ylabel="hours from midnight")
line.legend()
plt.show()
