"""Radial kernels, with the median heuristic and their density normalisers."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import imul
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.spatial.distance import pdist
from scipy.special import gammaln, kve, ndtr

from ..core import Array, arrays, checks
from .base import Kernel, Lengthscale

__all__ = ["Gaussian", "Laplace", "Matern", "median_lengthscale"]

FAR = 1024.0  # lengthscales from zero, where squares begin to lose digits
MEDIAN_ROWS = 1000  # the median heuristic looks at no more rows than this


def median_lengthscale(X, columnwise: bool = False, name: str = "X") -> float | tuple[float, ...]:
    """Median distance over distinct pairs of rows, or one median per column.

    ℓ = median{‖x_i − x_j‖ : i < j}, on 1,000 rows drawn with a fixed seed when there are more.
    Where ties make the median zero without the data being constant (an indicator column, say),
    the median over the pairs that differ is taken. A column that is constant beside others, as an
    indicator is in some folds of a cross-validation, tells nothing, and has lengthscale one.

    Raises
    ------
    ValueError
        If there is a single row, or every column is constant.
    """
    X = arrays.to_numpy(checks.as_points(X, name, min_rows=2))
    if len(X) > MEDIAN_ROWS:
        X = X[np.random.default_rng(0).choice(len(X), MEDIAN_ROWS, replace=False)]
    found = [_median_of(x) for x in X.T] if columnwise else [_median(X)]
    if not any(found):
        raise ValueError(
            f"{name} is constant, so its median lengthscale is 0: give the kernel a lengthscale "
            f"(or rescale columns that differ by less than {checks.SMALLEST:g})"
        )
    return tuple(median or 1.0 for median in found) if columnwise else found[0]


def _median_of(column: np.ndarray) -> float:
    """The same of one column: an indicator needs no distances."""
    values = np.unique(column)
    if len(values) == 2 and values[1] - values[0] >= checks.SMALLEST:
        return float(values[1] - values[0])
    return _median(column[:, None])


def _median(X: np.ndarray) -> float:
    """Among the pairs that differ where most do not, zero where none does."""
    distances = pdist(X)
    distances[distances < checks.SMALLEST] = 0.0
    median = float(np.median(distances, overwrite_input=True))
    return median or float(np.median(distances[distances > 0])) if distances.any() else 0.0


def check_lengthscale(kernel: Any, allowed: Callable[[Any, str], Any]) -> None:
    """Keep the lengthscale of a kernel, "median" or what is allowed."""
    if isinstance(kernel.lengthscale, str):
        checks.check_choice(kernel.lengthscale, "lengthscale", ["median"])
    else:
        object.__setattr__(kernel, "lengthscale", allowed(kernel.lengthscale, "lengthscale"))


@dataclass(frozen=True)
class _Radial(Kernel):
    """k(x, x') = f(‖(x − x')/ℓ‖), or the product over columns of f(|x_j − x'_j|/ℓ_j)."""

    lengthscale: Lengthscale = "median"
    columnwise: bool = False

    def __post_init__(self) -> None:
        check_lengthscale(self, _positive)

    def resolve(self, X, name: str = "X") -> Kernel:
        if self.lengthscale != "median":
            return self
        return replace(self, lengthscale=median_lengthscale(X, self.columnwise, name))

    def scaled(self, factor) -> Kernel:
        return replace(self, lengthscale=_times(self._resolved("scale"), factor))

    def _profile(self, sq) -> Array:
        """f as a function of the squared scaled distance; may overwrite it."""
        raise NotImplementedError

    def _slope(self, sq) -> Array:
        """−f'(r)/r, likewise."""
        raise ValueError(f"{self!r} has no derivative in closed form")

    def _factors(self, X, Y) -> Iterator[Array]:
        """What f is taken of: squared scaled distances of points, or of each of their columns."""
        scaled = self.in_units(X)
        X, Y = scaled, scaled if Y is X else self.in_units(Y)
        if not (self.columnwise if self._apart is None else self._apart):
            return iter((arrays.sq_dists(X, Y),))
        columns = (slice(j, j + 1) for j in range(X.shape[1]))
        return (arrays.sq_dists(X[:, j], Y[:, j]) for j in columns)

    def gram_of(self, X, Y) -> Array:
        return reduce(imul, map(self._profile, self._factors(X, Y)))

    def derivative_of(self, X, Y, column: int) -> Array:
        # ∂f(r)/∂x_j = −f'(r)/r (y_j − x_j)/ℓ_j²
        squares = dict(enumerate(self._factors(X, Y)))
        K = self._slope(squares.pop(column if len(squares) > 1 else 0))
        for sq in squares.values():
            K *= self._profile(sq)
        scale = float(np.broadcast_to(self._resolved("differentiate"), X.shape[1])[column])
        return K * (Y[:, column][None, :] - X[:, column][:, None]) / scale**2

    def in_units(self, X) -> Array:
        """Points in units of the lengthscale: the kernel is one of their distances."""
        scale = self._resolved("evaluate")
        if isinstance(scale, float):
            return X / scale
        if len(scale) != X.shape[1]:
            raise ValueError(
                f"lengthscale has {len(scale)} entries but the points have {X.shape[1]} columns"
            )
        return X / arrays.like(np.asarray(scale), X)

    def _resolved(self, verb: str) -> Any:
        if self.lengthscale == "median":
            raise ValueError(
                f"lengthscale is 'median', which needs data: {verb} kernel.resolve(X) instead"
            )
        return self.lengthscale

    def scale_gradient(self, X, Y, W, K=None) -> np.ndarray:
        # ∂k/∂log ℓ_j = −f'(r)/r (x_j − y_j)²/ℓ_j²
        pull = self.pull(X, Y) if K is None or not self._gaussian else K
        if pull is None:
            return super().scale_gradient(X, Y, W)
        X, Y, W = self.in_units(X), self.in_units(Y), W * pull
        xp = arrays.namespace(X)
        centre = FAR * xp.round(xp.mean(Y, axis=0) / FAR)  # about which squares keep digits
        X, Y = X - centre, Y - centre
        slopes = xp.sum(W, axis=1) @ (X * X) + xp.sum(W, axis=0) @ (Y * Y)
        return arrays.to_numpy(slopes - 2 * xp.sum(X * (W @ Y), axis=0))

    def smoothing(self, bandwidth) -> Kernel:
        if bandwidth is None:
            return self
        return replace(self, lengthscale=_positive(bandwidth, "bandwidth"))

    def log_normaliser(self, d: int) -> float:
        shape = d * self._log_volume(1) if self.columnwise else self._log_volume(d)
        return float(np.log(np.full(d, self._resolved("normalise"))).sum()) + shape

    # what a kernel writes at ℓ = 1: log ∫ f(‖u‖) du, and draws; the errors are those of any kernel
    _log_volume, _unit_spectrum, _unit_noise = Kernel.log_normaliser, Kernel.spectrum, Kernel.noise

    def distribution(self, X, Y) -> Array:
        X, Y = self.in_units(X), self.in_units(Y)
        return self._below(Y[:, 0][None, :] - X[:, 0][:, None])

    def _below(self, t) -> Array:
        """The distribution function of the density of one column at ℓ = 1, likewise."""
        return Kernel.distribution(self, t, t)

    def reach(self, mass: float) -> float | None:
        if type(self)._below is _Radial._below:
            return None
        unit = brentq(lambda t: float(self._below(np.array([-t]))[0]) - mass / 2, 0.0, 1e4)
        return float(unit * np.max(self._resolved("cut")))

    def is_product(self) -> bool:
        return self.columnwise or self._gaussian

    def on(self, columns: Sequence[int], d: int) -> Kernel:
        return replace(self, lengthscale=_pick(self.lengthscale, columns))

    def spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return self._unit_spectrum(n, d, rng) / np.broadcast_to(self._resolved("draw from"), d)

    def noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return self._unit_noise(n, d, rng) * np.broadcast_to(self._resolved("draw from"), d)


def _times(lengthscale, factor) -> Any:
    """The product, one number or one per column."""
    scaled = np.asarray(lengthscale) * np.asarray(factor, dtype=float)
    return float(scaled) if scaled.ndim == 0 else tuple(scaled.tolist())


def _pick(values: Any, columns: Sequence[int]) -> Any:
    """The entries of some columns, where there is one for each."""
    return tuple(values[c] for c in columns) if isinstance(values, tuple) else values


def _positive(values, name: str) -> float | tuple[float, ...]:
    """One positive number, or one per column."""
    if np.ndim(values) == 0:
        return checks.check_positive(values, name)
    values = np.asarray(values)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"{name} has shape {values.shape}; one number, or one per column, is needed"
        )
    return tuple(checks.check_positive(v, name) for v in values.tolist())


@dataclass(frozen=True)
class Gaussian(_Radial, named=True, tuned=True):
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
        return arrays.exp_in_place(sq)

    _gaussian = True
    _apart = False  # the product over columns is the same function
    _slope = _profile

    def _log_volume(self, d: int) -> float:
        return 0.5 * d * math.log(2 * math.pi)

    def _below(self, t) -> Array:
        return arrays.like(ndtr(arrays.to_numpy(t)), t)

    def self_convolved(self, d: int) -> Kernel:
        return self.scaled(math.sqrt(2.0))

    def _unit_spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((n, d))

    _unit_noise = _unit_spectrum


class _MaternFamily(_Radial):
    """What Laplace and Matérn kernels share: everything, at smoothness ν."""

    nu: float

    def _profile(self, sq) -> Array:
        return _matern(arrays.namespace(sq).sqrt(sq * (2 * self.nu)), self.nu)

    def _slope(self, sq) -> Array:
        # d/dt t^ν K_ν(t) = −t^ν K_{ν−1}(t): the profile of order ν − 1 at the same t
        nu = self.nu
        if nu <= 1:
            raise ValueError(f"{self!r} has no derivative at zero distance: nu above 1 is needed")
        return _matern(arrays.namespace(sq).sqrt(sq * (2 * nu)), nu - 1) * (nu / (nu - 1))

    def pull(self, X, Y) -> Array | None:
        smooth = self.nu > 1 and not self.columnwise
        return self._slope(next(self._factors(X, Y))) if smooth else None

    def _log_volume(self, d: int) -> float:
        # the spectral density at frequency zero (Rasmussen & Williams 2006, eq. 4.15)
        nu = self.nu
        power = d * math.log(2) + 0.5 * d * math.log(math.pi / (2 * nu))
        return power + float(gammaln(nu + 0.5 * d) - gammaln(nu))

    def _below(self, t) -> Array:
        beyond = _tail(np.abs(arrays.to_numpy(t)) * math.sqrt(2 * self.nu), self.nu)
        beyond = arrays.like(beyond, t)
        return arrays.namespace(t).where(t < 0, beyond, 1.0 - beyond)

    def self_convolved(self, d: int) -> Kernel:
        # squaring the spectrum (2ν/ℓ² + ω²)^{−(ν+d/2)} gives that of a Matérn with 2ν + d/2
        nu = 2 * self.nu + 0.5 * (1 if self.columnwise else d)
        wider = _times(self._resolved("convolve"), math.sqrt(nu / self.nu))
        return Matern(nu, wider, self.columnwise)

    def _unit_spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        # multivariate Student t with 2ν degrees of freedom
        dof = 2 * self.nu
        chi2 = rng.chisquare(dof, size=(n, d if self.columnwise else 1))
        return rng.standard_normal((n, d)) * np.sqrt(dof / chi2)

    def _unit_noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        # the characteristic function of a Gaussian whose variance is Gamma(ν + d/2) distributed
        # is (1 + ω²/2ν)^{−(ν+d/2)}, the spectrum of the kernel
        shape = self.nu + 0.5 * (1 if self.columnwise else d)
        variance = rng.gamma(shape, size=(n, d if self.columnwise else 1)) / self.nu
        return rng.standard_normal((n, d)) * np.sqrt(variance)


@dataclass(frozen=True)
class Laplace(_MaternFamily, named=True, tuned=True):
    """k(x, x') = exp(−‖x − x'‖₂ / ℓ) (Spiteri 2023, 1.2).

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

    nu = 0.5


@dataclass(frozen=True)
class Matern(_MaternFamily, named=True, tuned=True):
    """k(x, x') = 2^{1−ν}/Γ(ν) t^ν K_ν(t), t = √(2ν) ‖x − x'‖ / ℓ (Spiteri 2023, 1.3).

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
        super().__init__(lengthscale, columnwise)
        object.__setattr__(self, "nu", checks.check_positive(nu, "nu"))
        if self.nu > 100:
            raise ValueError(f"nu is {nu}; above 100 use Gaussian, from which it hardly differs")

    nu: float = 1.5


def _matern(t, nu: float) -> Array:
    """2^{1−ν}/Γ(ν) t^ν K_ν(t)."""
    if not _closed(nu):
        return arrays.like(_bessel_matern(arrays.to_numpy(t), nu), t)
    return _damped(t, _half_integer_coefficients(int(nu)))


def _damped(t, coefficients: Sequence[float]) -> Array:
    """exp(−t) times a polynomial, highest power first, by Horner's rule."""
    return arrays.exp_in_place(-t) * reduce(lambda poly, c: poly * t + c, coefficients)


def _closed(nu: float) -> bool:
    """Whether it is exp(−t) times a polynomial, without large factorials: at half-integer ν."""
    return nu % 1 == 0.5 and nu < 21


def _half_integer_coefficients(p: int) -> list[float]:
    """Of t^p, ..., t, 1 in p!/(2p)! Σ_i (p+i)!/(i!(p−i)!) (2t)^{p−i}."""
    f, total = math.factorial, math.factorial(2 * p)
    return [f(p) / total * f(p + i) / (f(i) * f(p - i)) * 2 ** (p - i) for i in range(p + 1)]


def _tail(t: np.ndarray, nu: float) -> np.ndarray:
    """∫_t^∞ u^ν K_ν(u) du over twice the same from zero."""
    if _closed(nu):
        # ∫_t^∞ u^j exp(−u) du = exp(−t) Σ_{i≤j} j!/i! t^i, the incomplete gamma function
        p, f = int(nu), math.factorial
        falling = enumerate(_half_integer_coefficients(p))
        above = np.cumsum([c * f(p - i) for i, c in falling])  # Σ_{j≥i} c_j j!, for i = p, ..., 0
        return _damped(t, [s / (2 * above[-1] * f(p - i)) for i, s in enumerate(above)])
    # E Φ(−t/√(2V)), V ~ Gamma(ν + 1/2): a Matérn density is a mixture of normal ones. Summed over
    # even steps of log V, which for such integrands is exact to rounding
    shape = nu + 0.5
    steps, reach = min(0.12, 0.6 / math.sqrt(shape)), 9 / math.sqrt(shape)
    log_v = math.log(shape) + np.arange(-reach - 40 / shape, reach + 4, steps)
    weight = np.exp(shape * (log_v - math.log(shape) + 1) - np.exp(log_v))
    mixed = zip(np.exp(log_v), weight / weight.sum(), strict=True)
    return sum(w * ndtr(-t / math.sqrt(2 * v)) for v, w in mixed)


def _bessel_matern(t: np.ndarray, nu: float) -> np.ndarray:
    K = np.ones_like(t)
    # below this the kernel is 1 to rounding, while t^ν and K_ν leave the range of floats
    inside = t > 1e-10
    s = t[inside]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        bessel = kve(nu, s)
        log_k = (1 - nu) * math.log(2) - gammaln(nu) + nu * np.log(s) - s + np.log(bessel)
        # where K_ν leaves the range of floats: near zero k = exp(−t²/4(ν−1)), far away it is 0
        limit = np.where(s < nu, np.exp(-s * s / (4 * max(nu - 1, 1.0))), 0.0)
        K[inside] = np.where(np.isfinite(bessel), np.exp(np.minimum(log_k, 0.0)), limit)
    return K
