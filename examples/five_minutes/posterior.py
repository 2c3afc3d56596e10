"""A modeller: four parameters of a simulator without a likelihood, given a hundred numbers.

The g-and-k law has a location, a scale, a skewness and a weight of its tails. Its quantile function
is a formula; its density is not.
"""

import numpy as np
from scipy.special import ndtri

import kernelmean as km

NAMES = ("location", "scale", "skewness", "tails")
LEVELS = np.arange(1, 8) / 8


def prior(n, rng):
    return rng.uniform([0, 0.5, 0, 0], [6, 3, 4, 1], (n, 4))


def simulate(theta, rng):
    """Octiles of a hundred draws: the data, summarised."""
    a, b, g, k = theta
    z = ndtri(rng.uniform(size=100))
    return np.quantile(a + b * (1 + 0.8 * np.tanh(g * z / 2)) * (1 + z**2) ** k * z, LEVELS)


truth = np.array([3.0, 1.0, 2.0, 0.5])
observed = simulate(truth, np.random.default_rng(1))
posterior = km.simulate_posterior(prior, simulate, observed, n=2000, random_state=0)
lower, upper = posterior.interval(0.9)
for name, mean, low, high, true in zip(NAMES, posterior.mean(), lower, upper, truth, strict=True):
    print(f"{name:9} {mean:5.2f}, from {low:5.2f} to {high:5.2f}; truth {true}")
print("P(skewed to the right) =", posterior.probability(lambda t: t[:, 2] > 0.5).round(2))
