"""
Learning to track
=================

A point runs around a wavy circle, pushed about by noise, and a camera sees it badly. No equation of
motion is written down: the filter learns it from one recording in which the point's true position
was known, and then tracks the point in a new one.
"""

# %%
# The two recordings. In the second, the camera fails for twelve frames: rows of NaN.

import matplotlib.pyplot as plt
import numpy as np

import kernelmean as km


def record(frames, seed):
    return km.datasets.make_rotation(
        frames, "oscillation", state_noise=0.1, noise=0.4, random_state=seed
    )


train, test = record(1500, seed=0), record(90, seed=1)
seen = test.X.copy()
seen[50:62] = np.nan

# %%
# Filtering asks where the point is given the frames so far, smoothing where it was given the whole
# recording. Both answer with a distribution for every frame. Where the camera is as poor as this
# one the smoother may lean on what came later more than it does by default: less `reg_smoother`.
# (`tune` would find that out, and choose the rest too.)

model = km.KernelBayesFilter(reg_smoother=0.03).fit(train.X, train.Z)
filtered = model.filter(seen)
smoothed = model.smooth(seen)

there = ~filtered.missing
for name, mean in [("camera", seen), ("filter", filtered.mean()), ("smoother", smoothed.mean())]:
    print(f"{name:>8}: root mean squared error {np.sqrt(np.mean((mean - test.Z)[there] ** 2)):.2f}")

# %%
# In the gap the filter runs on the dynamics it learned: it keeps turning, and its interval widens.
# The smoother also knows where the point came out, and bridges the gap.

frames = np.arange(len(seen))
fig, axes = plt.subplots(2, 1, figsize=(9, 6), sharex=True, sharey=True, layout="constrained")
for ax, track, color, name in zip(
    axes, (filtered, smoothed), ("C0", "C2"), ("filter", "smoother"), strict=True
):
    lower, upper = (bound[:, 0] for bound in track.interval(0.9))
    ax.axvspan(49.5, 61.5, color="0.93", lw=0)
    ax.fill_between(frames, lower, upper, color=color, alpha=0.25, lw=0, label="90% interval")
    ax.plot(frames, seen[:, 0], ".", color="0.55", label="camera")
    ax.plot(frames, test.Z[:, 0], "k-", lw=1, label="truth")
    ax.plot(frames, track.mean()[:, 0], color=color, lw=2, label=name)
    ax.set(ylabel="first coordinate")
    ax.legend(loc="upper left", ncols=4)
axes[1].set(xlabel="frame", xlim=(20, 89), ylim=(-2.3, 3.2))

for name, track in [("filter", filtered), ("smoother", smoothed)]:
    lower, upper = track.interval(0.9)
    hits = (lower <= test.Z) & (upper >= test.Z)
    print(f"{name}: {hits.mean():.0%} of the truth within the 90% intervals")
plt.show()
