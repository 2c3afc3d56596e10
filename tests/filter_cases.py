"""What the tests of tracks and of faults share: a sequence, filters that learned it, checks."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np

import kernelmean as km
from kernelmean.datasets import make_rotation

RULES = ("importance", "squared")
DENSE = {"inference": "densities", "reg": 0.1}  # of a λ that is given nothing is held out
TRAIN, TEST = make_rotation(200, random_state=1000), make_rotation(40, random_state=1001)


def tracker(rule: str = "importance") -> km.KernelBayesFilter:
    return _tracker(rule)  # `cache` takes `f()` and `f("importance")` for two calls


@cache
def _tracker(rule: str) -> km.KernelBayesFilter:
    return km.KernelBayesFilter(rule, inference="kbr").fit(TRAIN.X, TRAIN.Z)


def quietly(f, *arguments, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", km.NumericalWarning)
        return f(*arguments, **named)


def check_sound(result) -> None:
    """Numbers everywhere: means, flags, weights."""
    assert np.isfinite(result.mean()).all()
    assert np.isfinite(result.embedding.weights).all()
    assert result.collapsed.dtype == result.missing.dtype == bool
    assert len(result) == len(result.mean()) == len(result.embedding)


def volatility(n: int, phi: float, tau: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-variances z_t = φz_{t−1} + τε and what is seen of them, e^{z/2}ε: (n, 1) each."""
    rng, Z = np.random.default_rng(seed), np.zeros((n, 1))
    for t in range(1, n):
        Z[t] = phi * Z[t - 1] + tau * rng.standard_normal()
    return Z, np.exp(Z / 2) * rng.standard_normal(Z.shape)
