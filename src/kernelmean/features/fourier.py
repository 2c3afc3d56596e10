"""Random Fourier features."""

import math

from ..core import Array, arrays, checks
from ..core.moments import block_rows
from .base import FeatureMap


def even(value, name: str) -> int:
    """A number of features, half of them cosines and half of them sines."""
    if checks.check_count(value, name, minimum=2) % 2:
        raise ValueError(f"{name} is {value}; an even number (cos, sin) is needed")
    return int(value)


class RandomFourier(FeatureMap):
    """φ(x) = √(2/r) [cos ωᵀx, sin ωᵀx], frequencies ω drawn from the kernel's spectrum.

    For Gaussian, Laplace and Matérn kernels, their products, and `on_columns` of these. The error
    of an inner product is of order 1/√r, whatever the dimension of the points.

    Parameters
    ----------
    n_features : int
        r, an even number.
    random_state : int, Generator, RandomState or None

    References
    ----------
    Rahimi and Recht (2007), Random features for large-scale kernel machines.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> X = np.array([[0.0], [1.0]])
    >>> Phi = km.RandomFourier(4000).fit_transform(X, km.Gaussian(1.0))
    >>> bool(np.abs(Phi @ Phi.T - km.Gaussian(1.0)(X)).max() < 0.05)
    True
    """

    def __init__(self, n_features=500, random_state=0):
        self.n_features = n_features
        self.random_state = random_state

    def _fit_transform(self, X) -> Array:
        self.rank_ = even(self.n_features, "n_features")
        rng = checks.generator(self.random_state)
        self.frequencies_ = arrays.like(self.kernel_.spectrum(self.rank_ // 2, X.shape[1], rng), X)
        return self._transform(X)

    def _transform(self, X) -> Array:
        checks.check_library(X, self.frequencies_, "X")
        xp = arrays.namespace(X)
        shape, half = (X.shape[0], self.rank_), self.rank_ // 2
        Phi = xp.empty(shape, dtype=X.dtype, device=getattr(X, "device", None))
        for some in arrays.slices(X.shape[0], block_rows(self.rank_)):
            phase = X[some, :] @ self.frequencies_.T
            Phi[some, :half], Phi[some, half:] = xp.cos(phase), xp.sin(phase)
        Phi *= math.sqrt(2.0 / self.rank_)
        return Phi

    def derivative_of(self, X, column: int) -> Array:
        half = self.rank_ // 2
        Phi, speed = self._transform(X), self.frequencies_[:, column]
        return arrays.namespace(X).concat([-Phi[:, half:] * speed, Phi[:, :half] * speed], axis=1)
