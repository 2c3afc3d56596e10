"""
Parameters of a simulator, without its likelihood
=================================================

A program turns parameters into data, and the question runs the other way. Draw parameters from
their prior, run the program on each, and condition the pairs on what was observed: all that is
asked of the program is that it can be run.
"""

# %%
# A detector counts the decays of a short-lived source in eight successive minutes. Unknown are the
# rate at the start and the half-life. This likelihood happens to be known, so that the answer can
# be checked.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import poisson

import kernelmean as km

MINUTES = np.arange(8)


def expected(start, half_life):
    return start * 0.5 ** (MINUTES / half_life)


def summary(counts):
    """The total, and the average minute in which a decay was seen."""
    total = counts.sum(axis=-1)
    return np.stack([total, counts @ MINUTES / np.maximum(total, 1)], axis=-1)


def simulate(theta, rng):
    """Summaries of the counts of a batch of parameters."""
    start, half_life = theta.T[:, :, None]
    return summary(rng.poisson(expected(start, half_life)))


def between(low, high):
    return lambda n, rng: rng.uniform(low, high, size=(n, 2))


truth = 60.0, 2.5
counts = np.random.default_rng(5).poisson(expected(*truth))
print("counts", counts, "summary", summary(counts).round(2))

# %%
# Conditioning on a few good summaries is easier than on raw data; these two are sufficient for
# counts that decay exponentially, so nothing is lost. By default a thousand runs go in four rounds:
# after each the prior is cut to a box around where the posterior is so far, since most runs of a
# wide prior are far from the data. With `rounds=1` all are drawn from the prior.

low, high = np.array([20.0, 1.0]), np.array([100.0, 6.0])
settings = {"observed": summary(counts), "n": 1000, "batch_size": 500, "random_state": 0}
found = {
    "four rounds": km.simulate_posterior(between(low, high), simulate, **settings),
    "one round": km.simulate_posterior(between(low, high), simulate, rounds=1, **settings),
}
for rounds, law in found.items():
    for name, m, p, q in zip(("start", "half-life"), law.mean(), *law.interval(0.9), strict=True):
        print(f"{rounds}, {name}: {m:.1f}, with 90% between {p:.1f} and {q:.1f}")

# %%
# The exact posterior on a grid, and the density of each parameter by the two. Here both are near;
# the narrower a posterior is within its prior, the more rounds bring.

axes = np.linspace(20, 100, 201), np.linspace(1, 6, 201)
start, half_life = np.meshgrid(*axes, indexing="ij")
rates = expected(start[..., None], half_life[..., None])
exact = np.exp(poisson.logpmf(counts, rates).sum(axis=-1))

names = "decays expected in the first minute", "half-life in minutes"
fig, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for j, (ax, name) in enumerate(zip(panels, names, strict=True)):
    table = exact.sum(axis=1 - j)
    ax.plot(axes[j], table / np.trapezoid(table, axes[j]), "k--", lw=1.2, label="exact posterior")
    for (rounds, law), colour in zip(found.items(), ("C0", "C1"), strict=True):
        ax.plot(axes[j], law.marginal(j).density(axes[j]), color=colour, label=rounds)
    lower, upper = found["four rounds"].interval(0.9)
    ax.axvspan(lower[j], upper[j], color="C0", alpha=0.12, lw=0, label="90% interval, four rounds")
    ax.plot(truth[j], 0, "^", color="C3", clip_on=False, zorder=3, label="true value")
    ax.axhline(0, color="0.8", lw=0.8, zorder=0)
    ax.set(xlabel=name, yticks=[])
panels[1].legend()
plt.show()
