"""Instrumental-variable problems whose structural function is known."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from ..core.arrays import as_columns
from ..core.checks import check_choice, check_count, generator
from .tables import Dataset

__all__ = ["IVData", "make_iv_demand", "make_iv_linear", "make_iv_sigmoid"]


@dataclass(frozen=True, repr=False)
class IVData(Dataset):
    """A simulated instrumental-variable problem, y = h(x, c) + e with E[e | z, c] = 0.

    Attributes
    ----------
    X : array of shape (n, 1)
        The endogenous column.
    y : array of shape (n,)
    Z : array of shape (n, 1)
        The instrument.
    C : array of shape (n, k) or None
        Exogenous columns, which belong to both stages.
    truth : callable
        h, from rows with the columns (X, C) to an array of shape (m,).
    grid : array of shape (m, 1 + k)
        Where the paper measures the error of an estimate of h.
    names : tuple of str
        Names of the columns of `grid`.
    """

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    C: np.ndarray | None
    truth: Callable[[Any], np.ndarray]
    grid: np.ndarray
    names: tuple[str, ...]


def make_iv_sigmoid(n: int = 1000, random_state: Any = None) -> IVData:
    """h(x) = ln(|16x − 8| + 1) sgn(x − 1/2), confounded (Singh 2019, appendix A.11.1).

    Parameters
    ----------
    n : int
        Rows, both stages together.
    random_state : int, Generator or None

    Returns
    -------
    IVData
        With 1,000 even points of [0, 1] as grid.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_iv_sigmoid(1000, random_state=0)
    >>> data.X.shape, data.Z.shape, data.grid.shape
    ((1000, 1), (1000, 1), (1000, 1))
    >>> data.truth([[0.0], [0.5], [1.0]]).round(3)
    array([-2.197,  0.   ,  2.197])
    """
    return _confounded_uniform(n, _sigmoid, random_state)


def make_iv_linear(n: int = 1000, random_state: Any = None) -> IVData:
    """h(x) = 4x − 2 with the noise and instrument of the sigmoid design (Singh 2019, A.11.1).

    Parameters
    ----------
    n : int
        Rows, both stages together.
    random_state : int, Generator or None

    Returns
    -------
    IVData
        With 1,000 even points of [0, 1] as grid.
    """
    return _confounded_uniform(n, _line, random_state)


def make_iv_demand(
    n: int = 1000, rho: float = 0.5, noise: str = "variance", random_state: Any = None
) -> IVData:
    """h(p, t, s) = 100 + (10 + p) s ψ(t) − 2p: sales at a price (Singh 2019, appendix A.11.1).

    ψ(t) = 2[(t−5)⁴/600 + exp(−4(t−5)²) + t/10 − 2]; P = 25 + (Z+3)ψ(T) + V; e | V has mean ρV.

    Parameters
    ----------
    n : int
        Rows, both stages together.
    rho : float
        Confounding, in [−1, 1]: the correlation of the noise with V.
    noise : {"variance", "std"}
        What 1 − ρ² is: the variance of e given V (the paper's text) or its standard deviation
        (the authors' code; see the errata page).
    random_state : int, Generator or None

    Returns
    -------
    IVData
        `X` is the price p, `C` is (t, s) = time of year and customer sentiment, `Z` the cost
        shifter; the grid is 20 p in [10, 25] × 20 t in [0, 10] × s = 1..7.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_iv_demand(1000, random_state=0)
    >>> data.names, data.grid.shape
    (('p', 't', 's'), (2800, 3))
    >>> data.truth([[15.0, 5.0, 1.0]])
    array([45.])
    """
    n = check_count(n, "n")
    if not -1 <= rho <= 1:
        raise ValueError(f"rho is {rho}; a correlation in [-1, 1] is needed")
    check_choice(noise, "noise", ["variance", "std"])
    rng = generator(random_state)
    s, t = rng.integers(1, 8, n).astype(float), rng.uniform(0, 10, n)
    z, v, unit = rng.standard_normal((3, n))
    spread = 1 - rho**2 if noise == "std" else np.sqrt(1 - rho**2)
    p = 25 + (z + 3) * _season(t) + v
    X, C = p[:, None], np.column_stack([t, s])
    y = _demand(np.hstack([X, C])) + rho * v + spread * unit
    return IVData(X, y, z[:, None], C, _demand, _demand_grid(), ("p", "t", "s"))


def _confounded_uniform(n: int, h: Callable[[Any], np.ndarray], random_state: Any) -> IVData:
    n, rng = check_count(n, "n"), generator(random_state)
    cov = [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    e, v, w = rng.multivariate_normal(np.zeros(3), cov, size=n).T
    X, Z = ndtr((w + v) / np.sqrt(2))[:, None], ndtr(w)[:, None]
    return IVData(X, h(X) + e, Z, None, h, np.linspace(0, 1, 1000)[:, None], ("x",))


def _sigmoid(X: Any) -> np.ndarray:
    x = _columns(X, 1)[:, 0]
    return np.log(np.abs(16 * x - 8) + 1) * np.sign(x - 0.5)


def _line(X: Any) -> np.ndarray:
    return 4 * _columns(X, 1)[:, 0] - 2


def _demand(X: Any) -> np.ndarray:
    p, t, s = _columns(X, 3).T
    return 100 + (10 + p) * s * _season(t) - 2 * p


def _season(t: np.ndarray) -> np.ndarray:
    """ψ(t), the non-linear season of demand (Singh 2019, figure 6)."""
    return 2 * ((t - 5) ** 4 / 600 + np.exp(-4 * (t - 5) ** 2) + t / 10 - 2)


def _demand_grid() -> np.ndarray:
    axes = np.linspace(10, 25, 20), np.linspace(0, 10, 20), np.arange(1.0, 8.0)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def _columns(X: Any, d: int) -> np.ndarray:
    return as_columns(X, d, "X", "the structural function")
