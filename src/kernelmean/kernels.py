"""Kernels: positive definite functions that know their lengthscale and their density normaliser."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from scipy.special import gammaln, kve
from sklearn.gaussian_process import kernels as sk_kernels

from . import linalg
from ._validation import (
    Array,
    as_points,
    check_choice,
    check_columns,
    check_positive,
)
from .persistence import Saveable

MEDIAN_ROWS = 1000  # the median heuristic looks at no more rows than this
Lengthscale = str | float | Sequence[float]


class Kernel(Saveable):
    """A positive definite function k(x, x').

    Kernels are immutable: `resolve` and `scaled` return new ones, `+` and `*` combine them.
    Subclasses write `_gram` (and, where it is not constant, `_diag`); kernels that can smooth a
    density also write `_bandwidth` , `_log_normaliser` and `_self_convolved`.
    """

    def __call__(self, X, Y=None) -> Array:
        """Gram matrix k(x_i, y_j) of shape (n, m); `Y` defaults to `X`."""
        X = self._points(X, "X")
        Y = X if Y is None else self._points(Y, "Y")
        check_columns(Y, X.shape[1], "Y", "X")
        return self._gram(X, Y)

    def diag(self, X) -> Array:
        """k(x_i, x_i), shape (n,)."""
        return self._diag(self._points(X, "X"))

    def resolve(self, X, name: str = "X") -> Kernel:
        """The same kernel with its lengthscale fixed by the data (the median heuristic)."""
        return self

    def scaled(self, factor) -> Kernel:
        """The same kernel with its lengthscales multiplied by `factor` (one, or one per column)."""
        return self

    def density(self, X, Y, bandwidth: Lengthscale | None = None) -> Array:
        """Normalised kernel k̄(x_i, y_j) with ∫ k̄(x, y) dy = 1, shape (n, m).

        Parameters
        ----------
        X, Y : array of shape (n, d), (m, d)
        bandwidth : float or sequence of float, optional
            Replaces the kernel's own lengthscale.

        Raises
        ------
        ValueError
            If the kernel is not integrable (linear kernels, sums, ...).
        """
        X, Y = self._points(X, "X"), self._points(Y, "Y")
        check_columns(Y, X.shape[1], "Y", "X")
        k = self._bandwidth(bandwidth)
        return k._gram(X, Y) * math.exp(-k._log_normaliser(X.shape[1]))

    def self_convolution(self, X, Y, bandwidth: Lengthscale | None = None) -> Array:
        """∫ k̄(x_i, u) k̄(u, y_j) du, shape (n, m): the first term of the score of MATH §8."""
        X, Y = self._points(X, "X"), self._points(Y, "Y")
        return self._bandwidth(bandwidth)._self_convolved(X.shape[1]).density(X, Y)

    def spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        """`n` draws from the kernel's spectral measure on R^d, shape (n, d)."""
        raise ValueError(f"{self!r} has no spectrum to draw random Fourier features from")

    def bind(self, names: Sequence[str] | None) -> Kernel:
        """The same kernel with column names replaced by column numbers."""
        return self

    def __add__(self, other) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other) -> Kernel:
        return Product(self, other) if isinstance(other, Kernel) else NotImplemented

    def _points(self, X, name: str) -> Array:
        return as_points(X, name)

    def _gram(self, X, Y) -> Array:
        raise NotImplementedError

    def _diag(self, X) -> Array:
        return linalg.namespace(X).ones(
            X.shape[0], dtype=X.dtype, device=getattr(X, "device", None)
        )

    def _pull(self, X, Y) -> Array | None:
        """−f'(r)/r up to a constant, the weights of the preimage iteration, if there are any."""
        return None

    def _bandwidth(self, bandwidth) -> Kernel:
        raise ValueError(f"{self!r} is not a smoothing kernel, so it has no density")

    def _log_normaliser(self, d: int) -> float:
        raise ValueError(f"{self!r} is not a smoothing kernel, so it has no density")

    def _self_convolved(self, d: int) -> Kernel:
        raise ValueError(f"{self!r} has no closed-form self-convolution")

    def _noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        """`n` draws from the normalised kernel around zero, shape (n, d)."""
        raise ValueError(f"{self!r} is not a smoothing kernel, so it cannot be drawn from")


# ---------------------------------------------------------------- radial kernels


def median_lengthscale(X, columnwise: bool = False, name: str = "X") -> float | tuple[float, ...]:
    """Median distance over distinct pairs of rows, or one median per column.

    ℓ = median{‖x_i − x_j‖ : i < j}, on 1,000 rows drawn with a fixed seed when there are more.
    Where ties make the median zero without the data being constant (an indicator column, say),
    the median over the pairs that differ is taken.

    Raises
    ------
    ValueError
        If there is a single row, or a column (all columns, when not columnwise) is constant.
    """
    X = linalg.to_numpy(as_points(X, name, min_rows=2))
    if len(X) > MEDIAN_ROWS:
        X = X[np.random.default_rng(0).choice(len(X), MEDIAN_ROWS, replace=False)]
    if not columnwise:
        return _median(X, f"{name} is constant")
    return tuple(_median(X[:, [j]], f"column {j} of {name} is constant") for j in range(X.shape[1]))


def _median(X: np.ndarray, complaint: str) -> float:
    distances = pdist(X)
    median = float(np.median(distances))
    if median == 0.0 and distances.any():
        median = float(np.median(distances[distances > 0]))
    if median == 0.0:
        raise ValueError(
            f"{complaint}, so its median lengthscale is 0: drop it or give the kernel a lengthscale"
        )
    return median


@dataclass(frozen=True)
class _Radial(Kernel):
    """k(x, x') = f(‖(x − x')/ℓ‖), or the product over columns of f(|x_j − x'_j|/ℓ_j)."""

    lengthscale: Lengthscale = "median"
    columnwise: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.lengthscale, str):
            check_choice(self.lengthscale, "lengthscale", ["median"])
        elif np.ndim(self.lengthscale) == 0:
            object.__setattr__(self, "lengthscale", check_positive(self.lengthscale, "lengthscale"))
        else:
            object.__setattr__(self, "lengthscale", _each_positive(self.lengthscale, "lengthscale"))

    def resolve(self, X, name: str = "X") -> Kernel:
        if self.lengthscale != "median":
            return self
        return replace(self, lengthscale=median_lengthscale(X, self.columnwise, name))

    def scaled(self, factor) -> Kernel:
        scaled = np.asarray(self._resolved("scale")) * np.asarray(factor, dtype=float)
        return replace(self, lengthscale=float(scaled) if scaled.ndim == 0 else tuple(scaled))

    def _profile(self, sq) -> Array:
        """f as a function of the squared scaled distance; may overwrite it."""
        raise NotImplementedError

    def _gram(self, X, Y) -> Array:
        X, Y = self._shrink(X), self._shrink(Y)
        if not self._by_columns():
            return self._profile(linalg.sq_dists(X, Y))
        K = self._profile(linalg.sq_dists(X[:, :1], Y[:, :1]))
        for j in range(1, X.shape[1]):
            K *= self._profile(linalg.sq_dists(X[:, j : j + 1], Y[:, j : j + 1]))
        return K

    def _by_columns(self) -> bool:
        return self.columnwise

    def _shrink(self, X) -> Array:
        scale = self._resolved("evaluate")
        if isinstance(scale, float):
            return X / scale
        if len(scale) != X.shape[1]:
            raise ValueError(
                f"lengthscale has {len(scale)} entries but the points have {X.shape[1]} columns"
            )
        return X / linalg.like(np.asarray(scale), X)

    def _resolved(self, verb: str) -> Any:
        if self.lengthscale == "median":
            raise ValueError(
                f"lengthscale is 'median', which needs data: {verb} kernel.resolve(X) instead"
            )
        return self.lengthscale

    def _bandwidth(self, bandwidth) -> Kernel:
        if bandwidth is None:
            return self
        if np.ndim(bandwidth) == 0:
            return replace(self, lengthscale=check_positive(bandwidth, "bandwidth"))
        return replace(self, lengthscale=_each_positive(bandwidth, "bandwidth"))

    def _log_normaliser(self, d: int) -> float:
        scale = np.broadcast_to(self._resolved("normalise"), d)
        shape = d * self._log_volume(1) if self.columnwise else self._log_volume(d)
        return float(np.log(scale).sum()) + shape

    def _log_volume(self, d: int) -> float:
        """log ∫ f(‖u‖) du over R^d."""
        raise NotImplementedError

    def spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return self._unit_spectrum(n, d, rng) / np.broadcast_to(self._resolved("draw from"), d)

    def _unit_spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError

    def _noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return self._unit_noise(n, d, rng) * np.broadcast_to(self._resolved("draw from"), d)

    def _unit_noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError


def _each_positive(values, name: str) -> tuple[float, ...]:
    values = np.asarray(values)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"{name} has shape {values.shape}; one number, or one per column, is needed"
        )
    return tuple(check_positive(v.item(), name) for v in values)


@dataclass(frozen=True)
class Gaussian(_Radial):
    """k(x, x') = exp(−‖x − x'‖² / (2ℓ²)).

    Parameters
    ----------
    lengthscale : "median", float or sequence of float
        ℓ, in the units of the data; a sequence gives one per column.
    columnwise : bool
        Whether "median" means one median per column.

    Examples
    --------
    >>> import kernelmean as km
    >>> km.Gaussian(lengthscale=1.0)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    def _profile(self, sq) -> Array:
        sq *= -0.5
        return linalg.exp_in_place(sq)

    def _by_columns(self) -> bool:
        return False  # the product over columns is the same function

    def _pull(self, X, Y) -> Array | None:
        return self._gram(X, Y)

    def _log_volume(self, d: int) -> float:
        return 0.5 * d * math.log(2 * math.pi)

    def _self_convolved(self, d: int) -> Kernel:
        return self.scaled(math.sqrt(2.0))

    def _unit_spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((n, d))

    def _unit_noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((n, d))


class _MaternFamily(_Radial):
    """What Laplace and Matérn kernels share: everything, at smoothness ν."""

    @property
    def _nu(self) -> float:
        raise NotImplementedError

    def _profile(self, sq) -> Array:
        return _matern(linalg.namespace(sq).sqrt(sq * (2 * self._nu)), self._nu)

    def _pull(self, X, Y) -> Array | None:
        # d/dt t^ν K_ν(t) = −t^ν K_{ν−1}(t): the profile of order ν − 1 at the same t
        if self.columnwise or self._nu <= 1:
            return None
        sq = linalg.sq_dists(self._shrink(X), self._shrink(Y))
        return _matern(linalg.namespace(sq).sqrt(sq * (2 * self._nu)), self._nu - 1)

    def _log_volume(self, d: int) -> float:
        # the spectral density at frequency zero (Rasmussen & Williams 2006, eq. 4.15)
        nu = self._nu
        power = d * math.log(2) + 0.5 * d * math.log(math.pi / (2 * nu))
        return power + float(gammaln(nu + 0.5 * d) - gammaln(nu))

    def _self_convolved(self, d: int) -> Kernel:
        # squaring the spectrum (2ν/ℓ² + ω²)^{−(ν+d/2)} gives that of a Matérn with 2ν + d/2
        nu = 2 * self._nu + 0.5 * (1 if self.columnwise else d)
        wider = np.asarray(self._resolved("convolve")) * math.sqrt(nu / self._nu)
        return Matern(nu, float(wider) if wider.ndim == 0 else tuple(wider), self.columnwise)

    def _unit_spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        # multivariate Student t with 2ν degrees of freedom
        dof = 2 * self._nu
        chi2 = rng.chisquare(dof, size=(n, d if self.columnwise else 1))
        return rng.standard_normal((n, d)) * np.sqrt(dof / chi2)

    def _unit_noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        # the characteristic function of a Gaussian whose variance is Gamma(ν + d/2) distributed
        # is (1 + ω²/2ν)^{−(ν+d/2)}, the spectrum of the kernel
        shape = self._nu + 0.5 * (1 if self.columnwise else d)
        variance = rng.gamma(shape, size=(n, d if self.columnwise else 1)) / self._nu
        return rng.standard_normal((n, d)) * np.sqrt(variance)


@dataclass(frozen=True)
class Laplace(_MaternFamily):
    """k(x, x') = exp(−‖x − x'‖₂ / ℓ) (Spiteri 2023, eq. 1.2).

    Parameters
    ----------
    lengthscale : "median", float or sequence of float
        ℓ; a sequence gives one per column.
    columnwise : bool
        The product over columns, exp(−Σ_j |x_j − x'_j| / ℓ_j), in place of the Euclidean norm.

    Examples
    --------
    >>> import kernelmean as km
    >>> km.Laplace(lengthscale=2.0)([[0.0], [2.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    @property
    def _nu(self) -> float:
        return 0.5


@dataclass(frozen=True)
class Matern(_MaternFamily):
    """k(x, x') = 2^{1−ν}/Γ(ν) t^ν K_ν(t), t = √(2ν) ‖x − x'‖ / ℓ (Spiteri 2023, eq. 1.3).

    Closed forms at half-integer ν; Bessel functions elsewhere.

    Parameters
    ----------
    nu : float
        Smoothness: functions of the RKHS have ν + d/2 derivatives.
    lengthscale : "median", float or sequence of float
    columnwise : bool
        The product over columns of one-dimensional kernels.

    Examples
    --------
    >>> import kernelmean as km
    >>> km.Matern(nu=1.5, lengthscale=1.0)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.4834],
           [0.4834, 1.    ]])
    """

    # dataclass fields of the base come first; nu leads the signature
    def __init__(
        self, nu: float = 1.5, lengthscale: Lengthscale = "median", columnwise: bool = False
    ):
        object.__setattr__(self, "nu", check_positive(nu, "nu"))
        object.__setattr__(self, "lengthscale", lengthscale)
        object.__setattr__(self, "columnwise", columnwise)
        self.__post_init__()

    nu: float = 1.5

    @property
    def _nu(self) -> float:
        return self.nu


def _matern(t, nu: float) -> Array:
    """2^{1−ν}/Γ(ν) t^ν K_ν(t)."""
    order = nu - 0.5
    if order == int(order) and order <= 20:
        return _half_integer_matern(t, int(order))
    return linalg.like(_bessel_matern(linalg.to_numpy(t), nu), t)


def _half_integer_matern(t, p: int) -> Array:
    """exp(−t) p!/(2p)! Σ_i (p+i)!/(i!(p−i)!) (2t)^{p−i}, by Horner's rule in t."""
    total = math.factorial(2 * p)
    f = math.factorial
    coefficients = [
        f(p) / total * f(p + i) / (f(i) * f(p - i)) * 2 ** (p - i) for i in range(p + 1)
    ]
    K = linalg.exp_in_place(-t)
    if p:
        poly = t * coefficients[0] + coefficients[1]
        for c in coefficients[2:]:
            poly = poly * t + c
        K *= poly
    return K


def _bessel_matern(t: np.ndarray, nu: float) -> np.ndarray:
    K = np.ones_like(t)
    # below this the kernel is 1 to rounding, while t^ν and K_ν leave the range of floats
    inside = t > 1e-10
    s = t[inside]
    with np.errstate(over="ignore"):
        bessel = kve(nu, s)
    log_k = (1 - nu) * math.log(2) - gammaln(nu) + nu * np.log(s) - s
    limit = np.where(s < 1, 1.0, 0.0)  # where K_ν leaves the range of floats
    K[inside] = np.where(np.isfinite(bessel), np.exp(log_k) * bessel, limit)
    return K


# ---------------------------------------------------------------- other kernels


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, x') = xᵀx' + offset; the offset plays the part of an intercept.

    Examples
    --------
    >>> import kernelmean as km
    >>> km.Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    offset: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", check_positive(self.offset, "offset", zero=True))

    def _gram(self, X, Y) -> Array:
        return X @ Y.T + self.offset

    def _diag(self, X) -> Array:
        return linalg.namespace(X).sum(X * X, axis=-1) + self.offset


@dataclass(frozen=True)
class Frobenius(Kernel):
    """k(A, B) = tr(A Bᵀ), for matrices such as rotations.

    Points are matrices, shape (n, p, q), or their rows laid end to end, shape (n, pq), which is
    what estimators take.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> km.Frobenius()(np.eye(3)[None])
    array([[3.]])
    """

    def _points(self, X, name: str) -> Array:
        if getattr(X, "ndim", 2) == 3:
            X = X.reshape(X.shape[0], X.shape[1] * X.shape[2])
        return as_points(X, name)

    def _gram(self, X, Y) -> Array:
        return X @ Y.T

    def _diag(self, X) -> Array:
        return linalg.namespace(X).sum(X * X, axis=-1)


@dataclass(frozen=True)
class Delta(Kernel):
    """k(x, x') = 1 if x = x' in every column, else 0: probability tables.

    Its density is taken against counting measure, so it is a probability mass function.

    Examples
    --------
    >>> import kernelmean as km
    >>> km.Delta()([[0], [1]])
    array([[1., 0.],
           [0., 1.]])
    """

    def _gram(self, X, Y) -> Array:
        xp = linalg.namespace(X)
        equal = X[:, 0, None] == Y[None, :, 0]
        for j in range(1, X.shape[1]):
            equal = equal & (X[:, j, None] == Y[None, :, j])
        return xp.astype(equal, X.dtype)

    def _bandwidth(self, bandwidth) -> Kernel:
        return self

    def _log_normaliser(self, d: int) -> float:
        return 0.0

    def _self_convolved(self, d: int) -> Kernel:
        return self

    def _noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return np.zeros((n, d))


class Precomputed(Kernel):
    """k(i, j) = gram[i, j], for objects with no columns (strings, graphs).

    Points are row numbers of `gram`, shape (n,) or (n, 1): training points and new points alike
    must have a row there.

    Parameters
    ----------
    gram : array of shape (N, N)
        A symmetric positive semidefinite matrix over all objects.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> k = km.Precomputed(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> k([0, 1], [1])
    array([[1.],
           [2.]])
    """

    def __init__(self, gram):
        self.gram = as_points(gram, "gram")
        if self.gram.shape[0] != self.gram.shape[1]:
            raise ValueError(f"gram has shape {tuple(self.gram.shape)}; a square one is needed")
        G = linalg.to_numpy(self.gram)
        if not np.allclose(G, G.T, rtol=1e-8, atol=1e-8 * np.abs(G).max()):
            raise ValueError("gram is not symmetric, so it is not the Gram matrix of a kernel")

    def __repr__(self) -> str:
        return f"Precomputed(<{self.gram.shape[0]} x {self.gram.shape[0]} gram>)"

    def _points(self, X, name: str) -> Array:
        X = as_points(X, name)
        self._rows(X, name)
        return X

    def _rows(self, X, name: str = "X") -> Array:
        xp = linalg.namespace(X)
        rows = xp.astype(xp.clip(X[:, 0], -1.0, float(self.gram.shape[0])), xp.int64)
        whole = X[:, 0] == xp.astype(rows, X.dtype)
        fits = whole & (rows >= 0) & (rows < self.gram.shape[0])
        if X.shape[1] != 1 or not bool(xp.all(fits)):
            raise ValueError(
                f"{name} must hold row numbers of the precomputed Gram matrix, one column of whole "
                f"numbers from 0 to {self.gram.shape[0] - 1}"
            )
        return rows

    def _gram(self, X, Y) -> Array:
        xp = linalg.namespace(self.gram)
        return xp.take(xp.take(self.gram, self._rows(X), axis=0), self._rows(Y), axis=1)

    def _diag(self, X) -> Array:
        xp = linalg.namespace(self.gram)
        return xp.take(xp.linalg.diagonal(self.gram), self._rows(X), axis=0)


@dataclass(frozen=True)
class FromFunction(Kernel):
    """A callable returning the Gram matrix, f(X, Y) -> (n, m), as a kernel."""

    function: Callable

    def _gram(self, X, Y) -> Array:
        return _check_gram(self.function(X, Y), X, Y, "the kernel function")

    def _diag(self, X) -> Array:
        # a Gram matrix of each small block holds the diagonal; 32 keeps the waste small
        xp = linalg.namespace(X)
        starts = range(0, X.shape[0], 32)
        parts = (X[i : min(i + 32, X.shape[0]), :] for i in starts)
        blocks = (self._gram(part, part) for part in parts)
        return xp.concat([xp.linalg.diagonal(block) for block in blocks])


@dataclass(frozen=True)
class FromSklearn(Kernel):
    """A scikit-learn kernel object (sklearn.gaussian_process.kernels) as a kernel."""

    kernel: sk_kernels.Kernel

    def _gram(self, X, Y) -> Array:
        K = self.kernel(linalg.to_numpy(X), linalg.to_numpy(Y))
        return linalg.like(_check_gram(K, X, Y, type(self.kernel).__name__), X)

    def _diag(self, X) -> Array:
        return linalg.like(self.kernel.diag(linalg.to_numpy(X)), X)


def _check_gram(K, X, Y, who: str) -> Array:
    """Somebody else's Gram matrix: of the right shape, and finite."""
    if tuple(getattr(K, "shape", ())) != (X.shape[0], Y.shape[0]):
        raise ValueError(
            f"{who} returned shape {getattr(K, 'shape', None)} for {X.shape[0]} and {Y.shape[0]} "
            "points; their Gram matrix is needed"
        )
    xp = linalg.namespace(K)
    if not bool(xp.all(xp.isfinite(K))):
        raise ValueError(f"{who} returned NaN or inf; a finite Gram matrix is needed")
    return K


# ---------------------------------------------------------------- combinations


@dataclass(frozen=True)
class _Pair(Kernel):
    left: Kernel
    right: Kernel

    def resolve(self, X, name: str = "X") -> Kernel:
        return replace(self, left=self.left.resolve(X, name), right=self.right.resolve(X, name))

    def scaled(self, factor) -> Kernel:
        return replace(self, left=self.left.scaled(factor), right=self.right.scaled(factor))

    def bind(self, names) -> Kernel:
        return replace(self, left=self.left.bind(names), right=self.right.bind(names))


class Sum(_Pair):
    """k₁ + k₂."""

    def _gram(self, X, Y) -> Array:
        return self.left._gram(X, Y) + self.right._gram(X, Y)

    def _diag(self, X) -> Array:
        return self.left._diag(X) + self.right._diag(X)

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


class Product(_Pair):
    """k₁ · k₂ on the same columns."""

    def _gram(self, X, Y) -> Array:
        return self.left._gram(X, Y) * self.right._gram(X, Y)

    def _diag(self, X) -> Array:
        return self.left._diag(X) * self.right._diag(X)

    def spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        # the spectral measure of a product is the convolution of the two
        return self.left.spectrum(n, d, rng) + self.right.spectrum(n, d, rng)

    def __repr__(self) -> str:
        factors = (f"({k!r})" if isinstance(k, Sum) else repr(k) for k in (self.left, self.right))
        return " * ".join(factors)


@dataclass(frozen=True)
class OnColumns(Kernel):
    """The product of kernels that each look at columns of their own; made by `on_columns`."""

    parts: tuple[tuple[tuple, Kernel], ...]

    def resolve(self, X, name: str = "X") -> Kernel:
        return self._map(lambda cols, k: k.resolve(self._take(X, cols), name))

    def scaled(self, factor) -> Kernel:
        factor = np.asarray(factor, dtype=float)
        if factor.ndim == 0:
            return self._map(lambda cols, k: k.scaled(factor))
        return self._map(lambda cols, k: k.scaled(factor[list(cols)]))

    def bind(self, names) -> Kernel:
        return OnColumns(tuple((_bind(cols, names), k) for cols, k in self.parts))

    def spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        frequencies = np.zeros((n, d))
        for cols, k in self.parts:
            frequencies[:, list(cols)] = k.spectrum(n, len(cols), rng)
        return frequencies

    def _gram(self, X, Y) -> Array:
        (cols, k), *rest = self.parts
        K = k._gram(self._take(X, cols), self._take(Y, cols))
        for cols, k in rest:
            K = K * k._gram(self._take(X, cols), self._take(Y, cols))
        return K

    def _diag(self, X) -> Array:
        diagonals = [k._diag(self._take(X, cols)) for cols, k in self.parts]
        return math.prod(diagonals[1:], start=diagonals[0])

    def _bandwidth(self, bandwidth) -> Kernel:
        if bandwidth is None or np.ndim(bandwidth) == 0:
            return self._map(lambda cols, k: k._bandwidth(bandwidth))
        return self._map(lambda cols, k: k._bandwidth(tuple(bandwidth[c] for c in cols)))

    def _log_normaliser(self, d: int) -> float:
        return sum(k._log_normaliser(len(cols)) for cols, k in self.parts)

    def _self_convolved(self, d: int) -> Kernel:
        return self._map(lambda cols, k: k._self_convolved(len(cols)))

    def _noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        noise = np.zeros((n, d))
        for cols, k in self.parts:
            noise[:, list(cols)] = k._noise(n, len(cols), rng)
        return noise

    def _map(self, change: Callable[[tuple, Kernel], Kernel]) -> OnColumns:
        return OnColumns(tuple((cols, change(cols, k)) for cols, k in self.parts))

    def _take(self, X, cols: tuple) -> Array:
        named = [c for c in cols if isinstance(c, str)]
        if named:
            raise ValueError(f"columns {named} are names, but the points are a plain array")
        if max(cols) >= X.shape[1]:
            raise ValueError(f"column {max(cols)} is asked for, but the points have {X.shape[1]}")
        if len(cols) == 1:
            return X[:, cols[0] : cols[0] + 1]
        xp = linalg.namespace(X)
        return xp.stack([X[:, c] for c in cols], axis=1)


def on_columns(parts: Mapping[Any, Any]) -> OnColumns:
    """Product kernel whose factors each look at their own columns.

    Parameters
    ----------
    parts : mapping from columns to kernel
        A key is a column number, a column name (for estimators fitted on DataFrames), or a tuple
        of these; a value is anything `as_kernel` takes.

    Examples
    --------
    >>> import kernelmean as km
    >>> k = km.on_columns({0: km.Gaussian(1.0), 1: km.Delta()})
    >>> k([[0.0, 1.0]], [[0.0, 1.0], [0.0, 2.0]])
    array([[1., 0.]])
    """
    if not isinstance(parts, Mapping) or not parts:
        raise ValueError(f"parts is {parts!r}; a mapping from columns to kernels is needed")
    listed = tuple(
        (cols if isinstance(cols, tuple) else (cols,), as_kernel(k)) for cols, k in parts.items()
    )
    used = [c for cols, _ in listed for c in cols]
    if not all(cols for cols, _ in listed):
        raise ValueError("parts has an empty tuple among its keys; each kernel needs a column")
    if len(set(used)) != len(used):
        raise ValueError(f"parts uses a column more than once: {used}")
    bad = [c for c in used if isinstance(c, bool) or not isinstance(c, int | np.integer | str)]
    bad += [c for c in used if isinstance(c, int | np.integer) and c < 0]
    if bad:
        raise ValueError(f"parts has keys {bad}; column numbers from 0, or names, are needed")
    return OnColumns(listed)


def _bind(cols: tuple, names: Sequence[str] | None) -> tuple:
    if names is None:
        return cols
    missing = [c for c in cols if isinstance(c, str) and c not in names]
    if missing:
        raise ValueError(f"kernel names columns {missing}, but the data have {list(names)}")
    return tuple(names.index(c) if isinstance(c, str) else c for c in cols)


BY_NAME: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "matern": Matern,
    "linear": Linear,
    "delta": Delta,
    "frobenius": Frobenius,
}


def as_kernel(kernel, *, name: str = "kernel", columnwise: bool = False) -> Kernel:
    """A `Kernel` from a Kernel, a name, a scikit-learn kernel object or a Gram-matrix callable.

    Parameters
    ----------
    kernel : Kernel, str, scikit-learn kernel or callable
        Names: "gaussian", "laplace", "matern", "linear", "delta", "frobenius". A callable takes
        two arrays of points and returns their Gram matrix.
    name : str
        The argument's name, for messages.
    columnwise : bool
        Whether a kernel given by name has one lengthscale per column.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        return _named(kernel, name, columnwise)
    if isinstance(kernel, sk_kernels.Kernel):
        return _from_sklearn(kernel)
    if callable(kernel) and not isinstance(kernel, type):
        return FromFunction(kernel)
    raise ValueError(
        f"{name} is {kernel!r}; a kernelmean Kernel, one of {list(BY_NAME)}, a scikit-learn kernel "
        "or a function returning the Gram matrix is needed"
    )


def _named(kernel: str, name: str, columnwise: bool) -> Kernel:
    if kernel == "precomputed":
        raise ValueError(f"{name}: for a precomputed Gram matrix pass kernelmean.Precomputed(gram)")
    kind = BY_NAME[check_choice(kernel, name, BY_NAME)]
    return kind(columnwise=columnwise) if issubclass(kind, _Radial) else kind()


def _from_sklearn(kernel: sk_kernels.Kernel) -> Kernel:
    """RBF and Matérn become ours, with their densities and spectra; others are wrapped."""
    if type(kernel) is sk_kernels.RBF or getattr(kernel, "nu", None) == np.inf:
        return Gaussian(kernel.length_scale)
    if type(kernel) is sk_kernels.Matern:
        return Matern(kernel.nu, kernel.length_scale)
    return FromSklearn(kernel)


def fitted_kernel(
    kernel,
    X,
    *,
    names: Sequence[str] | None = None,
    name: str = "kernel",
    columnwise: bool = False,
    argument: str = "X",
) -> Kernel:
    """The kernel an estimator uses: column names bound to numbers, lengthscale fixed by `X`."""
    kernel = as_kernel(kernel, name=name, columnwise=columnwise).bind(names).resolve(X, argument)
    check_size(kernel, X, argument)
    return kernel


def check_size(kernel: Kernel, X, name: str = "X") -> None:
    """A kernel that is zero on every row (a linear one on zeros, say) can learn nothing."""
    if float(linalg.namespace(X).max(kernel._diag(X))) <= 0:
        raise ValueError(f"{name} gives {kernel!r} no size: k(x, x) is 0 for every row")
