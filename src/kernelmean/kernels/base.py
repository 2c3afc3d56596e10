"""What every kernel can do."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..core import Array, arrays, checks
from ..core.parameters import Value

__all__ = ["Kernel"]

Lengthscale = str | float | Sequence[float]
NAMED: dict[str, type[Kernel]] = {}  # kernels that a name stands for, which is theirs in lower case
TUNED: list[str] = []  # names of those with a lengthscale that estimators search


class Kernel(Value):
    """A positive definite function k(x, x').

    Kernels are immutable: `resolve` and `scaled` return new ones, `+` and `*` combine them.
    Subclasses write `gram_of` (and, where it is not constant, `diag_of`); kernels that can smooth a
    density also write `smoothing`, `log_normaliser`, `self_convolved` and, for one column,
    `distribution` and `reach`. Kernels on manifolds write `lift`, `land` and `project`.

    `class Cauchy(Kernel, named=True)` is what "cauchy" means wherever a kernel is asked for, and
    with `tuned=True` its lengthscales are searched where it is asked for by name.
    """

    gram_of: Callable[[Any, Any], Array]  # of points that were checked
    boxed = True  # angles, categories, row numbers and lines know no box
    lined = True  # whether what depends on points may go along a line
    dips = False  # whether the density is negative somewhere
    _apart: bool | None = None  # whether it is a product over columns; None is as `columnwise` says
    _gaussian = False  # exp(−‖lift(x) − lift(x')‖²/2) in units of ℓ: its own `pull`

    def __init_subclass__(cls, named: bool = False, tuned: bool = False, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        if named:
            NAMED[cls.__name__.lower()] = cls
        if tuned:
            TUNED.append(cls.__name__.lower())

    def __call__(self, X, Y=None) -> Array:
        """Gram matrix k(x_i, y_j) of shape (n, m); `Y` defaults to `X`."""
        return self.gram_of(*self._pair(X, X if Y is None else Y))

    def _pair(self, X, Y) -> tuple[Array, Array]:
        """Both checked, of as many columns."""
        X, Y = self.checked(X, "X"), self.checked(Y, "Y")
        checks.check_columns(Y, X.shape[1], "Y", "X")
        return X, Y

    def diag(self, X) -> Array:
        """k(x_i, x_i), shape (n,)."""
        return self.diag_of(self.checked(X, "X"))

    def resolve(self, X, name: str = "X") -> Kernel:
        """The same kernel with its lengthscale fixed by the data (the median heuristic)."""
        return self

    def scaled(self, factor) -> Kernel:
        """The same kernel with its lengthscales multiplied by `factor` (one, or one per column)."""
        return self

    def scale_gradient(self, X, Y, W, K=None) -> np.ndarray:
        """∂/∂log s_j of Σ_{il} W_il k(x_i, y_l) at s = 1, lengthscales being multiplied by s, (d,).

        `K` is their Gram matrix, where it is at hand.
        By central differences of the Gram matrix; 0 for a column without a lengthscale.
        """
        xp, step = arrays.namespace(X), 1e-4
        slopes = np.zeros(X.shape[1])
        for j in range(X.shape[1]):
            up = np.ones(X.shape[1])
            up[j] = math.exp(step)
            wider, narrower = self.scaled(up), self.scaled(1.0 / up)
            change = wider.gram_of(X, Y) - narrower.gram_of(X, Y)
            slopes[j] = float(xp.sum(W * change)) / (2 * step)
        return slopes

    def derivative(self, X, Y, column: int) -> Array:
        """∂k(x_i, y_l)/∂x_{i,column}, shape (n, m).

        Raises
        ------
        ValueError
            If the kernel has no derivative (Laplace, Delta, a function of the user's).
        """
        X, Y = self._pair(X, Y)
        return self.derivative_of(X, Y, checks.check_column(column, X.shape[1]))

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
        X, Y = self._pair(X, Y)
        return self.smoothing(bandwidth).density_of(X, Y)

    def cdf(self, X, Y, bandwidth: Lengthscale | None = None) -> Array:
        """Distribution functions ∫_{−∞}^{y_j} k̄(x_i, u) du of one column, shape (n, m).

        Parameters
        ----------
        X, Y : array of shape (n,) or (n, 1), (m,) or (m, 1)
        bandwidth : float or sequence of float, optional
            Replaces the kernel's own lengthscale.

        Raises
        ------
        ValueError
            If there is more than one column, or the kernel has no distribution function (all but
            Gaussian, Laplace, Matérn).

        Examples
        --------
        >>> import kernelmean as km
        >>> km.Laplace(1.0).cdf([0.0], [-1.0, 0.0, 1.0]).round(4)
        array([[0.1839, 0.5   , 0.8161]])
        """
        X, Y = self._pair(X, Y)
        if X.shape[1] != 1:
            raise ValueError(
                f"X has {X.shape[1]} columns; a distribution function is that of one column"
            )
        return self.smoothing(bandwidth).on([0], 1).distribution(X, Y)

    def self_convolution(self, X, Y, bandwidth: Lengthscale | None = None) -> Array:
        """∫ k̄(x_i, u) k̄(u, y_j) du, shape (n, m): the first term of the score of MATH §8."""
        X, Y = self._pair(X, Y)
        return self.smoothing(bandwidth).self_convolved(X.shape[1]).density_of(X, Y)

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

    def checked(self, X, name: str) -> Array:
        return checks.as_points(X, name)

    def derivative_of(self, X, Y, column: int) -> Array:
        raise ValueError(f"{self!r} has no derivative in closed form")

    def diag_of(self, X) -> Array:
        return arrays.like(np.ones(X.shape[0]), X)

    def pull(self, X, Y) -> Array | None:
        """−f'(r)/r in units of ℓ, the weights of the preimage iteration, if there are any."""
        return self.gram_of(X, Y) if self._gaussian else None

    def lift(self, X) -> Array:
        """Coordinates in which the kernel is a function of the distance, shape (n, D)."""
        return X

    def land(self, U, total, X) -> Array:
        """The points that the sums U = Σ g_i lift(x_i) stand for, given total = Σ g_i.

        `X` is where the iteration was, and stays where the sums say nothing.
        """
        xp = arrays.namespace(X)
        stuck = xp.abs(total) < 1e-12
        return xp.where(stuck, X, U / xp.where(stuck, 1.0, total))

    def project(self, X) -> Array:
        """The nearest points of the space that the kernel is for."""
        return X

    @property
    def roams(self) -> bool:
        """Whether a point that is moved is one: not an angle, a category or a rotation."""
        return self.boxed

    def lines(self, d: int) -> list[bool]:
        """`lined`, of each of d columns."""
        return [self.lined] * d

    def clipped(self, X, low, high) -> Array:
        """The nearest points of a box, for a kernel that knows one."""
        return arrays.namespace(X).clip(X, low, high) if self.boxed else X

    def spread_of(self, spread: np.ndarray, lifted: np.ndarray) -> np.ndarray:
        """Standard deviation per column in units of ℓ, given that of the numbers and mean lifts."""
        return spread

    def smoothing(self, bandwidth) -> Kernel:
        raise ValueError(f"{self!r} is not a smoothing kernel, so it has no density")

    def density_of(self, X, Y) -> Array:
        return self.gram_of(X, Y) * self.height(X.shape[1])

    def height(self, d: int) -> float:
        """Of the density of d columns, over the kernel."""
        log_height = -self.log_normaliser(d)
        if log_height > 700:
            raise ValueError(
                f"the density of {self!r} in {d} columns is beyond the range of floats; a "
                "larger bandwidth is needed"
            )
        return math.exp(log_height)

    def log_normaliser(self, d: int) -> float:
        raise ValueError(f"{self!r} is not a smoothing kernel, so it has no density")

    def distribution(self, X, Y) -> Array:
        """∫_{−∞}^{y_j} k̄(x_i, u) du for points of one column."""
        raise ValueError(f"{self!r} has no distribution function on the line")

    def reach(self, mass: float) -> float | None:
        """Distance beyond which k̄ of one column holds `mass`; None without `distribution`."""
        return None

    def is_product(self) -> bool:
        """Whether k̄ is the product over columns of those of `_on`."""
        return False

    def turn(self) -> float | None:
        """The period of a kernel of one angle; None for others."""
        return None

    def on(self, columns: Sequence[int], d: int) -> Kernel:
        """The kernel of some of `d` columns, in the order of `columns`."""
        if list(columns) == list(range(d)):
            return self
        raise ValueError(
            f"{self!r} cannot be taken apart by columns: a radial kernel, or one made by "
            "on_columns, is needed"
        )

    def self_convolved(self, d: int) -> Kernel:
        raise ValueError(f"{self!r} has no closed-form self-convolution")

    def noise(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        """`n` draws from the normalised kernel around zero, shape (n, d)."""
        raise ValueError(f"{self!r} is not a smoothing kernel, so it cannot be drawn from")


@dataclass(frozen=True)
class _Pair(Kernel):
    left: Kernel
    right: Kernel
    _join: ClassVar[Callable]  # of the values of both

    def resolve(self, X, name: str = "X") -> Kernel:
        return replace(self, left=self.left.resolve(X, name), right=self.right.resolve(X, name))

    def scaled(self, factor) -> Kernel:
        return replace(self, left=self.left.scaled(factor), right=self.right.scaled(factor))

    def bind(self, names) -> Kernel:
        return replace(self, left=self.left.bind(names), right=self.right.bind(names))

    @property
    def boxed(self) -> bool:  # type: ignore[override]
        return self.left.boxed or self.right.boxed

    @property
    def roams(self) -> bool:
        return self.left.roams or self.right.roams

    @property
    def lined(self) -> bool:  # type: ignore[override]
        return any(self.lines(1))

    def lines(self, d: int) -> list[bool]:
        return [*map(operator.or_, self.left.lines(d), self.right.lines(d))]

    def clipped(self, X, low, high) -> Array:
        return self.right.clipped(self.left.clipped(X, low, high), low, high)

    def gram_of(self, X, Y) -> Array:
        return self._join(self.left.gram_of(X, Y), self.right.gram_of(X, Y))

    def diag_of(self, X) -> Array:
        return self._join(self.left.diag_of(X), self.right.diag_of(X))


class Sum(_Pair):
    """k₁ + k₂."""

    _join = operator.add

    def derivative_of(self, X, Y, column: int) -> Array:
        return self.left.derivative_of(X, Y, column) + self.right.derivative_of(X, Y, column)

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


class Product(_Pair):
    """k₁ · k₂ on the same columns."""

    _join = operator.mul

    def derivative_of(self, X, Y, column: int) -> Array:
        slope = self.left.derivative_of(X, Y, column) * self.right.gram_of(X, Y)
        return slope + self.left.gram_of(X, Y) * self.right.derivative_of(X, Y, column)

    def spectrum(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        # the spectral measure of a product is the convolution of the two
        return self.left.spectrum(n, d, rng) + self.right.spectrum(n, d, rng)

    def __repr__(self) -> str:
        factors = (f"({k!r})" if isinstance(k, Sum) else repr(k) for k in (self.left, self.right))
        return " * ".join(factors)
