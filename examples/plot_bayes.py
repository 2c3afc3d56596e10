"""
A posterior from examples and a prior
=====================================

A sensor was calibrated in the laboratory: a position was set, anywhere in the range, and the
reading noted. In the field positions are not anywhere in the range. Kernel Bayes' rule takes the
likelihood from the calibration pairs and the prior from earlier field positions; neither has to be
written down as a formula.
"""

# %%
# The reading saturates: beyond a position of one or two it says little. Eight hundred calibration
# pairs, at positions spread evenly.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import kernelmean as km

rng = np.random.default_rng(0)
NOISE = 0.25


def respond(position):
    return 2 * np.tanh(position)


positions = rng.uniform(-3, 3, size=(800, 1))
readings = respond(positions) + NOISE * rng.normal(size=positions.shape)

# %%
# In the field the position is around 1, give or take 0.7: two hundred positions from earlier days
# are the prior. Without a prior the posterior is the one under the laboratory's positions. The
# noise is small and the curve bends, so the lengthscale is worth tuning.

field = rng.normal(1.0, 0.7, size=(200, 1))
model = km.KernelBayes(tune_lengthscale=True).fit(readings, positions)

reading = np.linspace(-1.2, 2.3, 150)[:, None]
in_field = model.posterior(reading, prior=field)
in_laboratory = model.posterior(reading)

# %%
# Every posterior is an embedding, which has a mean, quantiles and all the rest. The exact posterior
# takes the formulas that made the data and a fine grid of positions.

grid = np.linspace(-4, 4, 2001)
joint = norm.pdf(reading, respond(grid), NOISE) * norm.pdf(grid, 1.0, 0.7)
posterior = joint / joint.sum(axis=1, keepdims=True)
exact = posterior @ grid
exact_bounds = [grid[np.argmax(np.cumsum(posterior, axis=1) >= q, axis=1)] for q in (0.05, 0.95)]

mean = in_field.mean()[:, 0]
lower, upper = (bound[:, 0] for bound in in_field.interval(0.9))
inside = (lower[:, None] <= grid) & (grid <= upper[:, None])
held = np.sum(posterior * inside, axis=1).mean()
print(f"error of the posterior mean: {np.sqrt(np.mean((mean - exact) ** 2)):.2f}")
print(f"exact probability of the 90% intervals, on average: {held:.2f}")

# %%
# Where the reading is sharp the two priors hardly matter. Where it saturates the field's prior
# decides: a reading of 2 means a position of 2.1 in the laboratory, and of 1.7 in the field.

x = reading[:, 0]
fig, ax = plt.subplots(figsize=(8, 4.8), layout="constrained")
ax.plot(readings, positions, ".", color="0.8", ms=4, label="calibration")
ax.fill_between(x, lower, upper, color="C0", alpha=0.25, lw=0, label="field: 90% interval")
ax.plot(x, mean, color="C0", lw=2, label="field: mean")
ax.plot(x, in_laboratory.mean(), color="C1", label="laboratory: mean")
ax.plot(x, exact, "k--", lw=1, label="field: exact mean and interval")
for bound in exact_bounds:
    ax.plot(x, bound, "k--", lw=1)
ax.set(xlabel="reading", ylabel="position", xlim=(-1.3, 2.4), ylim=(-2, 3.1))
ax.legend(loc="upper left")
plt.show()
