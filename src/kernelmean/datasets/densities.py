"""Conditional distributions with a known density: the models of Spiteri (2023), section 2.4."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from scipy.linalg import toeplitz
from scipy.special import log_ndtr, logsumexp
from scipy.stats import multivariate_normal

from ..core import checks
from ..core.arrays import as_columns
from .tables import Dataset

__all__ = ["DensityData", "make_conditional_density", "make_triangle"]

TRIANGLE = ((-1.0, -1.0, 0.0), (-1.0, 1.0, 0.0), (1.0, 0.0, 0.0))


@dataclass(frozen=True, repr=False)
class DensityData(Dataset):
    """A simulated pair of variables, and the density of one given the other.

    Attributes
    ----------
    X : array of shape (n, d_x)
    Y : array of shape (n, d_y)
    density : callable
        density(Y, X, paired=None) is p(y | x): for pairs of rows, shape (n,), where Y and X have
        equally many; else a table of shape (len(X), len(Y)). `paired` says which.
    name : str
        Of the model.
    """

    X: np.ndarray
    Y: np.ndarray
    density: Callable[..., np.ndarray]
    name: str


def make_conditional_density(
    model: str, n: int = 1000, d: int | None = None, random_state: Any = None, **settings
) -> DensityData:
    """Draws from one of the models on which conditional densities are compared, with p(y | x).

    ============  ======================================================  =======================
    model         X                                                       Y given X = x
    ============  ======================================================  =======================
    "triangle"    first column of points near the edges of a triangle     the other two columns
    "beta"        Beta(alpha, beta), 0.1 both                             N(x, 0.1²)
    "bimodal"     U(0, 1)                                                 N(−2.5, 1) with
                                                                          probability x, else
                                                                          N(2.5, 1)
    "dirichlet"   Dirichlet(alpha, ..., alpha), 0.1, in d columns         N(j, 0.1²) with
                                                                          probability x_j
    "linear"      N(0, sigma² I), sigma = 1, in d columns                 N(mean of x, 0.1²)
    "toeplitz"    N(0, T) in d columns                                    N(mean of x, 0.5²)
    "mixture"     0.4 N(−4, 2²) + 0.2 N(0, 0.2²) + 0.4 N(4, 1)            N(x, 1)
    "mvn"         the last of three normal columns                        the first two of them
    "nonlinear1"  N(0, T) in 10 columns                                   N(cos πx₁x₂ + sin 2πx₃x₄
                                                                          + x₅ + ⋯ + x₈ + x₉² +
                                                                          x₁₀², 0.5²)
    "nonlinear2"  N(0, T) in 10 columns                                   N(x₁ + ⋯ + x₅ + x₆² +
                                                                          x₇², 0.5²)
    "cauchy"      Cauchy(0, gamma), gamma = 0.5                           N(x, 1)
    ============  ======================================================  =======================

    Parameters
    ----------
    model : str
        One of the names above: models 1 to 11 of the thesis, in its order.
    n : int
        Rows.
    d : int, optional
        Columns of X, of "dirichlet" (4 by default), "linear" (1) and "toeplitz" (3).
    random_state : int, Generator or None
    **settings
        `alpha`, `beta`, `sigma`, `gamma` where the table has them; of "triangle", those of
        `make_triangle`.

    Returns
    -------
    DensityData

    Notes
    -----
    T is the Toeplitz matrix with first column 1, ..., 0.1, evenly spaced: t_jk = 1 − 0.9|j − k|/
    (d − 1). Of "toeplitz" the thesis says "between 0.1 and 1"; from 0.1 up to 1 the diagonal
    would be 0.1 and the matrix no covariance, and at d = 1, where it says Σ = 1, it would be 0.1.

    References
    ----------
    Spiteri (2023), Nonparametric estimation with kernel mean embeddings, 2.4.1.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_conditional_density("dirichlet", 500, d=3, random_state=0)
    >>> data.X.shape, data.Y.shape
    ((500, 3), (500, 1))
    >>> data.density([[2.0], [2.1]], [[0.0, 1.0, 0.0]]).round(3)  # N(2, 0.1²)
    array([[3.989, 2.42 ]])
    >>> data.density(data.Y, data.X).shape
    (500,)
    """
    checks.check_choice(model, "model", MODELS)
    law = _law(model, {**settings} if d is None else {**settings, "d": d})
    X, Y = law.draw(checks.check_count(n, "n"), checks.generator(random_state))
    return DensityData(X, Y, partial(_density, law, X.shape[1], Y.shape[1]), model)


def make_triangle(
    n: int = 1000,
    vertices=TRIANGLE,
    sigma: float = 0.2,
    given: Sequence[str] = ("x",),
    random_state: Any = None,
) -> DensityData:
    """Points (x, y, z) of the edges of a triangle, all equally likely, plus N(0, σ²I).

    On an edge from a to b, of length ℓ and direction u, the noise makes the density
    N(v; the line, σ²) [Φ(((b − v)ᵀu)/σ) − Φ(((a − v)ᵀu)/σ)]/ℓ; edges are weighted by their length.
    The density of some of the columns is that of the triangle's shadow.

    Parameters
    ----------
    n : int
        Rows.
    vertices : array of shape (3, 3)
        The corners; the thesis does not print its own.
    sigma : float
        σ.
    given : sequence of {"x", "y", "z"}
        The columns of X, one or two; the others are Y. ("x",) and ("x", "z") are the thesis's.
    random_state : int, Generator or None

    Returns
    -------
    DensityData

    References
    ----------
    Spiteri (2023), Nonparametric estimation with kernel mean embeddings, model 1.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_triangle(1500, given=("x", "z"), random_state=0)
    >>> data.density([[-1.0], [0.0], [1.0]], [[-1.0, 0.0], [1.0, 0.0]]).round(3)
    array([[0.391, 0.391, 0.391],
           [0.   , 1.784, 0.   ]])
    """
    settings = {"vertices": vertices, "sigma": sigma, "given": given}
    return make_conditional_density("triangle", n, random_state=random_state, **settings)


def _density(law: Any, d_x: int, d_y: int, Y, X, paired: bool | None = None) -> np.ndarray:
    """p(y | x) with its arguments checked, for pairs of rows or as a table."""
    Y, X = as_columns(Y, d_y, "Y", "the model"), as_columns(X, d_x, "X", "the model")
    paired = len(Y) == len(X) if paired is None else paired
    if paired:
        checks.check_lengths(len(X), len(Y), "X", "Y")
        return np.exp(law.log_density(Y, X))
    repeated = (np.broadcast_to(x, (len(Y), d_x)) for x in X)
    return np.exp([law.log_density(Y, rows) for rows in repeated])


# ---------------------------------------------------------------- mixtures of normal variables


@dataclass(frozen=True)
class _NormalMixture:
    """Y | X = x ~ Σ_k w_k(x) N(m_k(x), C), where a function draws X."""

    draw_x: Callable[[int, np.random.Generator], np.ndarray]
    means: Callable[[np.ndarray], np.ndarray]  # (n, d_x) -> (n, k, d_y)
    cov: np.ndarray
    weights: Callable[[np.ndarray], np.ndarray] = lambda X: np.ones((len(X), 1))

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = self.draw_x(n, rng)
        levels = np.cumsum(self.weights(X), axis=1)
        chosen = (rng.uniform(size=(n, 1)) * levels[:, -1:] > levels).sum(axis=1)
        means = self.means(X)[np.arange(n), chosen]
        return X, means + rng.standard_normal(means.shape) @ np.linalg.cholesky(self.cov).T

    def log_density(self, Y: np.ndarray, X: np.ndarray) -> np.ndarray:
        logs = multivariate_normal(cov=self.cov).logpdf(Y[:, None] - self.means(X))
        return logsumexp(logs.reshape(len(Y), -1), axis=1, b=self.weights(X))


def _probabilities(W: np.ndarray) -> np.ndarray:
    if (W < 0).any():
        raise ValueError("X has values outside [0, 1]; the probabilities of the model are needed")
    return W


def _regression(draw_x, mean: Callable[[np.ndarray], np.ndarray], std: float) -> _NormalMixture:
    """Y | X = x ~ N(mean(x), std²), one column."""
    return _NormalMixture(draw_x, lambda X: mean(X)[:, None, None], np.array([[std**2]]))


def _beta(alpha: float = 0.1, beta: float = 0.1) -> _NormalMixture:
    a, b = checks.check_positive(alpha, "alpha"), checks.check_positive(beta, "beta")
    return _regression(lambda n, rng: rng.beta(a, b, (n, 1)), _row_mean, 0.1)


def _bimodal() -> _NormalMixture:
    return _NormalMixture(
        lambda n, rng: rng.uniform(size=(n, 1)),
        lambda X: np.tile([[[-2.5], [2.5]]], (len(X), 1, 1)),
        np.eye(1),
        lambda X: _probabilities(np.hstack([X, 1 - X])),
    )


def _dirichlet(d: int = 4, alpha: float = 0.1) -> _NormalMixture:
    concentrations = np.full(checks.check_count(d, "d"), checks.check_positive(alpha, "alpha"))
    return _NormalMixture(
        lambda n, rng: rng.dirichlet(concentrations, n),
        lambda X: np.tile(np.arange(1.0, d + 1)[:, None], (len(X), 1, 1)),
        np.array([[0.1**2]]),
        _probabilities,
    )


def _linear(d: int = 1, sigma: float = 1.0) -> _NormalMixture:
    cov = checks.check_positive(sigma, "sigma") ** 2 * np.eye(checks.check_count(d, "d"))
    return _regression(_normal(cov), _row_mean, 0.1)


def _mixture() -> _NormalMixture:
    centres, stds = np.array([-4.0, 0.0, 4.0]), np.array([2.0, 0.2, 1.0])

    def draw_x(n: int, rng: np.random.Generator) -> np.ndarray:
        chosen = rng.choice(3, size=(n, 1), p=[0.4, 0.2, 0.4])
        return centres[chosen] + stds[chosen] * rng.standard_normal((n, 1))

    return _regression(draw_x, _row_mean, 1.0)


def _mvn() -> _NormalMixture:
    """(Y, X) is normal, with the covariances 0.9 in Y and 0.3 of Y with X."""
    slope = np.full((1, 2), 0.3)
    cov = np.array([[1, 0.9], [0.9, 1]]) - slope.T @ slope
    return _NormalMixture(_normal(np.eye(1)), lambda X: (X @ slope)[:, None], cov)


def _waves(X: np.ndarray) -> np.ndarray:
    waves = np.cos(np.pi * X[:, 0] * X[:, 1]) + np.sin(2 * np.pi * X[:, 2] * X[:, 3])
    return waves + X[:, 4:8].sum(axis=1) + X[:, 8] ** 2 + X[:, 9] ** 2


def _squares(X: np.ndarray) -> np.ndarray:
    return X[:, :5].sum(axis=1) + X[:, 5] ** 2 + X[:, 6] ** 2


def _cauchy(gamma: float = 0.5) -> _NormalMixture:
    scale = checks.check_positive(gamma, "gamma")
    return _regression(lambda n, rng: scale * rng.standard_cauchy((n, 1)), _row_mean, 1.0)


def _normal(cov: np.ndarray) -> Callable[[int, np.random.Generator], np.ndarray]:
    root = np.linalg.cholesky(cov)
    return lambda n, rng: rng.standard_normal((n, len(cov))) @ root.T


def _on_toeplitz(d: int, mean: Callable[[np.ndarray], np.ndarray]) -> _NormalMixture:
    return _regression(_normal(toeplitz(np.linspace(1, 0.1, d))), mean, 0.5)


def _row_mean(X: np.ndarray) -> np.ndarray:
    return X.mean(axis=1)


# ---------------------------------------------------------------- the triangle


@dataclass(frozen=True)
class _Triangle:
    """p(y | x) = p(x, y)/p(x), both the density of the edges of a triangle plus N(0, σ²I)."""

    vertices: np.ndarray
    sigma: float
    given: list[int]

    @property
    def rest(self) -> list[int]:
        return [j for j in range(3) if j not in self.given]

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        starts, ends = self._edges()
        edge = rng.choice(3, size=n, p=self._shares())
        along = rng.uniform(size=(n, 1))
        points = starts[edge] + along * (ends - starts)[edge]
        points += self.sigma * rng.standard_normal((n, 3))
        return points[:, self.given], points[:, self.rest]

    def log_density(self, Y: np.ndarray, X: np.ndarray) -> np.ndarray:
        columns = [*self.given, *self.rest]
        return self._log_joint(np.hstack([X, Y]), columns) - self._log_joint(X, self.given)

    def _log_joint(self, V: np.ndarray, columns: list[int]) -> np.ndarray:
        """Log density of some of the columns, at the rows of V."""
        edges = zip(*(ends[:, columns] for ends in self._edges()), strict=True)
        logs = [_log_segment(V, start, end, self.sigma) for start, end in edges]
        return logsumexp(logs, axis=0, b=self._shares()[:, None])

    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        return self.vertices, np.roll(self.vertices, -1, axis=0)

    def _shares(self) -> np.ndarray:
        """How likely each edge is: longer ones more."""
        starts, ends = self._edges()
        lengths = np.linalg.norm(ends - starts, axis=1)
        return lengths / lengths.sum()


def _log_segment(V: np.ndarray, a: np.ndarray, b: np.ndarray, sigma: float) -> np.ndarray:
    """log ∫₀¹ N(v; a + t(b − a), σ²I) dt of every row v."""
    V, length = (V - a) / sigma, float(np.linalg.norm(b - a)) / sigma
    constant = -0.5 * V.shape[1] * np.log(2 * np.pi * sigma**2)
    if length == 0:  # seen end on
        return constant - 0.5 * np.sum(V**2, axis=1)
    u = (b - a) / (sigma * length)
    along = V @ u
    off = np.sum((V - along[:, None] * u) ** 2, axis=1)
    # the line's factor of the density, N(along; 0, 1), is integrated over the segment
    return constant + 0.5 * np.log(2 * np.pi) - 0.5 * off + _log_between(along, length)


def _log_between(along: np.ndarray, length: float) -> np.ndarray:
    """log of (Φ(s) − Φ(s − ℓ))/ℓ; reflected about the middle, so that the tail keeps its digits."""
    s = np.minimum(along, length - along)
    upper, lower = log_ndtr(s), log_ndtr(s - length)
    return upper + np.log1p(-np.exp(lower - upper)) - np.log(length)


def _triangle(vertices=TRIANGLE, sigma: float = 0.2, given: Sequence[str] = ("x",)) -> _Triangle:
    vertices = checks.as_points(vertices, "vertices", one_d=False)
    if vertices.shape != (3, 3):
        raise ValueError(f"vertices has shape {vertices.shape}; three rows (x, y, z) are needed")
    if (vertices == vertices[0]).all():
        raise ValueError("vertices are one point; a triangle with edges is needed")
    for name in given:
        checks.check_choice(name, "given", ["x", "y", "z"])
    columns = ["xyz".index(name) for name in given]
    if len(columns) not in (1, 2) or len(set(columns)) < len(columns):
        raise ValueError(f"given is {given!r}; one or two of 'x', 'y', 'z' are needed")
    return _Triangle(vertices, checks.check_positive(sigma, "sigma"), columns)


# ---------------------------------------------------------------- by name

MODELS: dict[str, Callable[..., Any]] = {
    "triangle": _triangle,
    "beta": _beta,
    "bimodal": _bimodal,
    "dirichlet": _dirichlet,
    "linear": _linear,
    "toeplitz": lambda d=3: _on_toeplitz(checks.check_count(d, "d"), _row_mean),
    "mixture": _mixture,
    "mvn": _mvn,
    "nonlinear1": lambda: _on_toeplitz(10, _waves),
    "nonlinear2": lambda: _on_toeplitz(10, _squares),
    "cauchy": _cauchy,
}


def _law(model: str, settings: dict[str, Any]) -> Any:
    known = list(signature(MODELS[model]).parameters)
    unknown = [name for name in settings if name not in known]
    if unknown:
        takes = f"takes {known}" if known else "has no settings"
        raise ValueError(f"{unknown[0]} is {settings[unknown[0]]!r}, but model {model!r} {takes}")
    return MODELS[model](**settings)
