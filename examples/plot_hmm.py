"""
Regimes that differ in shape alone
==================================

A hidden Markov model with normal laws tells regimes apart by their means and spreads. `KernelHMM`
names no family: whatever differs between the states, and lasts or alternates in time, it can use.
"""

# %%
# Same mean, same spread
# ----------------------
# A series has two regimes of 25 steps on average. In both it has mean 0 and variance 1; in one
# large values go up, in the other down. How many states there are is read off the correlations of
# consecutive values (left): one stands out from the noise, which makes two states. It does in 39 of
# 40 such series of 4,000 values, and in 24 of 40 of half the length: there name the number, or ask
# `KernelHMM("likelihood")`. On the right are the densities found, with the true ones dotted.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import gamma

import kernelmean as km


def draw(turns, seed):
    """Two states in turn, with geometric durations: a Markov chain."""
    rng = np.random.default_rng(seed)
    states = np.repeat(np.arange(turns) % 2, rng.geometric(0.04, turns))
    tail = (rng.gamma(2.0, size=len(states)) - 2) / 2**0.5
    return np.where(states == 0, tail, -tail)[:, None], states


X, _ = draw(160, seed=5000)
model = km.KernelHMM(random_state=0).fit(X)
print("states:", model.n_components_)
print("stay with probability", model.transmat_.diagonal().round(2), "in truth 0.96")

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
km.display.SpectrumDisplay.from_estimator(model).plot(axes[0])
km.display.EmissionDisplay.from_estimator(model, X).plot(axes[1])
grid = np.linspace(-5, 5, 401)
for sign in (1, -1):
    axes[1].plot(grid, 2**0.5 * gamma.pdf(2 + sign * grid * 2**0.5, 2), "k:", lw=1.5)
axes[1].set(title="densities, true ones dotted", xlim=(-5, 5), ylim=(0, 0.56))
axes[0].set_title("canonical correlations of consecutive values")
plt.show()

# %%
# Some 300 values of a fresh series, each in the colour of its most probable state, and the
# probabilities of the states given the whole of it. The black line is the truth, high where the
# blue state is right.

new, states = draw(60, seed=5001)
likely = model.predict(new)
right = km.comparators.matched_accuracy
print(f"right by filtering {right(states, model.filter(new).argmax(1)):.2f}")
print(f"right by smoothing {right(states, likely):.2f}")

part = slice(600, 900)
times = np.arange(600, 900)
regimes = km.display.RegimeDisplay.from_estimator(model, new[part], times=times).plot()
swapped = np.mean(likely == states) < 0.5  # states have no names: which of ours is which of theirs
blue = states if swapped else 1 - states
regimes.axes_[-1].step(times, 0.05 + 0.9 * blue[part], "k", lw=1.5, where="mid")
plt.show()

# %%
# Images
# ------
# Now an observation is a picture of 8 by 8 pixels: a chain of the digits 2, 4 and 7, of which only
# handwritten samples are seen, never their labels. Densities of 64 columns would be hopeless; the
# model takes them of a few functions of the picture, those that tell most of the next picture.
# What each state emits, on average:

train = km.datasets.make_digit_hmm(3, 1000, share=(0, 0.8), random_state=5000)
test = km.datasets.make_digit_hmm(3, 500, share=(0.8, 1), random_state=5001)  # other pictures
reader = km.KernelHMM(3, random_state=0).fit(train.X)
found = reader.filter(test.X).argmax(axis=1)
print(f"right {right(test.states, found):.2f}")

km.display.EmissionImageDisplay.from_estimator(reader, (8, 8)).plot()
plt.show()
