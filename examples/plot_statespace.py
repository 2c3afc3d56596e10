"""
A hidden state that moves continuously
======================================

A state moves by a law that nobody knows, and is seen through noise, by a law that nobody knows
either. `KernelStateSpace` learns both from the observations alone, and forecasts what comes next.
"""

# %%
# Forecasts
# ---------
# The state of this series stays near 7 or near -7 for a while, and then goes over to the other
# side. How it moves is far from a straight line, so that an autoregression is of little use. The
# model learns from 2,000 rows, and never sees the state. It is judged on the rows that follow: the
# band is meant to hold nine of ten values. Black dots are the forecasts of the law that the series
# was drawn from; the fan is what the model expects after the last row.

import matplotlib.pyplot as plt
import numpy as np

import kernelmean as km

data = km.datasets.make_state_space("bimodal", 2300, random_state=5000)
X, truth = data.X, data.model
model = km.KernelStateSpace().fit(X[:2000])

slope, shift = np.polyfit(X[:1999, 0], X[1:2000, 0], 1)
forecasts = {
    "an autoregression": shift + slope * np.roll(X, 1, axis=0),
    "KernelStateSpace": model.predict(X),
    "the true law": truth.predict(X),
}
for name, forecast in forecasts.items():
    print(f"{name:20} mean squared error {((X - forecast)[2000:] ** 2).mean():5.1f}")
lower, upper = model.predict_interval(X)
print("in the 90% band", ((lower <= X) & (upper >= X))[2000:].mean().round(2))

fig, ax = plt.subplots(figsize=(9.5, 4), layout="constrained")
km.display.ForecastDisplay.from_estimator(model, X, steps=20).plot(ax)
ax.plot(forecasts["the true law"], "k.", ms=3)
ax.set(xlim=(2150, 2320), ylim=(-25, 25))
plt.show()

# %%
# The laws
# --------
# The law of the state is a choice: every series has a model whose state is standard normal, and
# its states are a function of the true ones. So the maps of what was learned have no truth to
# compare with, until states are named by something that can be seen: by the mean of y that belongs
# to them. On the right is the mean of the next y against that of y. The dotted line is the truth.

fig, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
km.display.TransitionDisplay.from_estimator(model).plot(axes[0])
km.display.ObservationDisplay.from_estimator(model).plot(axes[1])
axes[0].set_title("the next state")
axes[1].set_title("the observation")

now = model.emissions_.mean()[:, 0]  # at every node
later = model.transmat_ @ now
usual = np.abs(now) < 15
grid = np.linspace(-15, 15, 301)
axes[2].plot(now[usual], later[usual], ".-")
axes[2].plot(grid, grid / 2 + 25 * grid / (1 + grid**2), "k:")
axes[2].set(title="means", xlabel="y now", ylabel="y one row later")
plt.show()

# %%
# A forecast is a law
# -------------------
# Near zero the state may go either way, and a mean would say that it stays between. `forecast`
# returns embedded laws. Here a single value has been seen, 0, and then nothing more: densities of
# the next row and of later ones, the true ones dotted.

first = np.zeros((1, 1))
ahead = model.forecast(first, steps=30)
grid = np.linspace(-25, 25, 301)[:, None]
densities = ahead.density(grid)

chain, x = truth.chain, truth.nodes
belief = chain.startprob * np.exp(truth.log_emission(first, x)[0])  # Bayes' rule
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
for ax, step in zip(axes, (1, 2, 30), strict=True):
    law = np.linalg.matrix_power(chain.transmat, step).T @ belief / belief.sum()
    ax.plot(grid, densities[step - 1])
    ax.plot(grid, np.exp(truth.log_emission(grid, x)) @ law, "k:")
    ax.set(title=f"{step} row{'s' * (step > 1)} ahead", xlabel="y")
plt.show()
