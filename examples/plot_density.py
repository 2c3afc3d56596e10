"""
A distribution that x pulls in two
==================================

A regression draws one curve through a cloud, and where the cloud has two arms the curve runs
between them, where nobody lives. `ConditionalDensity` learns the whole distribution of y at every
x: its modes, quantiles, intervals and draws all come from one fit.
"""

# %%
# Two arms
# --------
# Model 3 of Spiteri (2023): y is near -2.5 with probability x, otherwise near 2.5. The map is
# the density found from a thousand pairs, dark where it is high, with its quantile curves. Dashed
# are the quantiles of the truth.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import kernelmean as km

data = km.datasets.make_conditional_density("bimodal", 1000, random_state=5000)
X, y = data.X, data.Y[:, 0]
model = km.ConditionalDensity().fit(X, y)
print("bandwidth", model.bandwidth_.round(2), "around a mean:", model.location_ is not None)

map_of = km.display.DensityMapDisplay.from_estimator(model, X, y)
values = np.linspace(-8, 8, 2001)
below = norm.cdf(values + 2.5), norm.cdf(values - 2.5)
truth = [
    [np.interp(level, x * below[0] + (1 - x) * below[1], values) for level in map_of.levels]
    for x in map_of.grid_x
]

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
map_of.plot(axes[0])
axes[0].plot(map_of.grid_x, truth, "k--", lw=1)
axes[0].set(title="density and quantiles, true ones dashed", xlabel="x", ylim=(-6, 6))

grid = np.linspace(-6, 6, 401)
at = [[0.1], [0.5], [0.9]]
for i, (found, exact) in enumerate(
    zip(model.pdf(grid, at, paired=False), data.density(grid, at, paired=False), strict=True)
):
    axes[1].plot(grid, found + 0.45 * (2 - i), color=km.display.CURVE, lw=2)
    axes[1].plot(grid, exact + 0.45 * (2 - i), "k--", lw=1)
axes[1].set(title="estimate, truth dashed", xlabel="y")
axes[1].set_yticks([0.9, 0.45, 0], ["x = 0.1", "x = 0.5", "x = 0.9"])
axes[1].spines[["left", "top", "right"]].set_visible(False)
plt.show()

# %%
# The mean at x = 0.5 is where there are hardly any data. The median is no better: it jumps from one
# arm to the other. The region that holds 80% of the probability says what is there.

print("mean", model.predict([[0.5]]).round(1), "density there", model.pdf([0.0], [[0.5]]).round(2))
print("80% region", model.region([[0.5]], 0.8)[0].round(1).tolist())
print("three draws", model.sample([[0.5]], 3, random_state=0).round(1))

# %%
# Spending on food
# ----------------
# Engel's households: the richer, the more they spend on food, and the more they differ. Here the
# fit takes a *location*: x mostly moves y, so that what is learned is how the residuals around a
# smooth mean spread, and the fan of quantiles opens to the right. (Beyond 1,800 francs there are
# 17 of 235 households; the waves are theirs.) On the right the same fit at three incomes, with
# median, 90% interval, and the nearest thirty households as ticks.

engel = km.datasets.load_engel()
income, food = engel.frame[["income"]], engel.frame["foodexp"]
spending = km.ConditionalDensity().fit(income, food)
print("bandwidth", spending.bandwidth_.round(0), "around a mean:", spending.location_ is not None)

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
km.display.DensityMapDisplay.from_estimator(spending, income, food).plot(axes[0])
few = income.iloc[:3].assign(income=[500.0, 900.0, 1500.0])
km.display.ConditionalDensityDisplay.from_estimator(spending, few, food).plot(axes[1])
plt.show()
