"""
One fit, every question
=======================

Regression learns one number per input. A conditional embedding learns the whole distribution of
the response at each input: one fit, and then its mean, its spread, or the probability of any
event, from the same weights.
"""

# %%
# A response whose spread depends on the input: the mean alone would hide half of the story.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import kernelmean as km


def mean(x):
    return np.sin(2 * x)


def spread(x):
    return 0.1 + 0.35 * np.abs(x)


rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(1500, 1))
Y = mean(X) + spread(X) * rng.normal(size=X.shape)

# %%
# The regulariser, and here the lengthscale too, are chosen by the closed-form leave-one-out error
# of the embedding.

c = km.ConditionalEmbedding(tune_lengthscale=True).fit(X, Y)
print(f"regulariser {c.reg_:.1e}, lengthscale {c.kernel_x_.lengthscale:.2f}")

# %%
# At each point of a grid the answer is an embedding; together they are a batch, and each question
# gets two hundred answers. Weights may be negative, so a probability can leave the unit interval
# by a little.

grid = np.linspace(-2, 2, 200)[:, None]
law = c.at(grid).normalised()

center = law.mean()[:, 0]
sd = np.sqrt(law.cov()[:, 0, 0])
exceeds = law.expectation(lambda y: y[:, 0] > 0.5)

# %%
# Dashed: the truth.

x = grid[:, 0]
fig, (top, bottom) = plt.subplots(2, 1, figsize=(8, 6), sharex=True, layout="constrained")
top.plot(X, Y, ".", color="0.8", ms=3)
top.fill_between(x, center - sd, center + sd, color="C0", alpha=0.25, lw=0, label="mean ± spread")
top.plot(x, center, color="C0", label="mean")
top.plot(x, mean(x), "k--", lw=1)
top.plot(x, mean(x) - spread(x), "k--", lw=0.7)
top.plot(x, mean(x) + spread(x), "k--", lw=0.7)
top.set_ylabel("response")
top.legend(loc="lower right")
bottom.plot(x, exceeds, color="C1", label="P(response > 0.5)")
bottom.plot(x, norm.sf((0.5 - mean(x)) / spread(x)), "k--", lw=1, label="truth")
bottom.set(xlabel="input", ylabel="probability", ylim=(-0.1, 1.1))
bottom.legend(loc="upper left")
plt.show()
