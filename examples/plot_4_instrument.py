"""
A cause, told from what travels with it
=======================================

When something unseen drives both the input and the outcome, regression draws the wrong curve, and
more data make it surer of itself. An instrument, which moves the input and has no other way to
the outcome, identifies the right one.
"""

# %%
# The sigmoid design of Singh, Sahani and Gretton (2019). The noise in the outcome is correlated
# with the input: large inputs come with outcomes that are too large. The instrument is
# independent of it.

import matplotlib.pyplot as plt
import numpy as np

import kernelmean as km

data = km.datasets.make_iv_sigmoid(2000, random_state=0)
grid = data.grid
truth = data.truth(grid)

# %%
# Regression on the input, and kernel instrumental variables, both tuned by leave-one-out losses.

regression = km.ConditionalEmbedding("gaussian", "linear").fit(data.X, data.y)
iv = km.KernelIV().fit(data.X, data.y, Z=data.Z)

curves = {
    "regression": regression.predict(grid),
    "kernel instrumental variables": iv.predict(grid),
}
for name, curve in curves.items():
    print(f"{name}: mean squared error {np.mean((curve - truth) ** 2):.3f}")

# %%
# Regression follows the cloud, which is what it is for. The structural curve is flatter than the
# cloud. Its band is meant to hold the whole curve at once, with 95% confidence.

fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.plot(data.X, data.y, ".", color="0.8", ms=3)
ax.fill_between(grid[:, 0], *iv.predict_interval(grid), color="C1", alpha=0.2, lw=0)
for name, curve in curves.items():
    ax.plot(grid, curve, label=name)
ax.plot(grid, truth, "k--", lw=1, label="truth")
ax.set(xlabel="input", ylabel="outcome")
ax.legend()
plt.show()

# %%
# How far the instrument moves the input, and whether regression would have done.

print(iv.first_stage())
print(iv.endogeneity_test())
