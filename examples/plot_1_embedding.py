"""
A sample as a point, and a few points for a sample
==================================================

A mean embedding keeps a distribution as a weighted average of kernel functions. Two embeddings
have a distance, so one can ask for the twenty points whose embedding is nearest to that of two
thousand. *Herding* finds them, one after the other.
"""

# %%
# Two thousand points on two arcs, one of them with three quarters of the points; and their
# embedding.

import matplotlib.pyplot as plt
import numpy as np

import kernelmean as km

rng = np.random.default_rng(0)
angle = rng.uniform(0, np.pi, size=2000)
upper = rng.random(2000) < 0.75
x = np.where(upper, np.cos(angle), 1 - np.cos(angle))
y = np.where(upper, np.sin(angle), 0.5 - np.sin(angle))
points = np.column_stack([x, y]) + 0.08 * rng.normal(size=(2000, 2))

m = km.MeanEmbedding(points, kernel=km.Gaussian(0.3))

# %%
# Twenty points by herding, and twenty of the sample taken at random.

herded = m.herd(20)
drawn = points[rng.choice(2000, size=20, replace=False)]

# %%
# The distance from each to the whole sample. A hundred random choices show that the herded points
# are not merely a lucky draw.


def distance(chosen):
    return m.mmd(km.MeanEmbedding(chosen, kernel=m.kernel))


random_distances = [distance(rng.choice(points, size=20, replace=False)) for _ in range(100)]
print(f"herded {distance(herded):.3f}, best of 100 random choices {min(random_distances):.3f}")

# %%
# Herded points keep their distance from one another and share the two arcs fifteen to five;
# random ones clump.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.1), sharex=True, sharey=True, layout="constrained")
for ax, chosen, name in zip(axes, (drawn, herded), ("at random", "herded"), strict=True):
    ax.plot(*points.T, ".", color="0.8", ms=3)
    ax.plot(*chosen.T, "o", color="C3", mec="white", ms=8)
    ax.set_aspect("equal")
    ax.set_title(f"20 points {name}: distance {distance(chosen):.3f}")
    ax.set_xlabel("first column")
axes[0].set_ylabel("second column")
plt.show()
