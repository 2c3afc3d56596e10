"""Least-squares conditional density estimation."""

import numpy as np
from scipy.special import softmax
from sklearn.preprocessing import StandardScaler

from ..core.checks import check_count, generator
from ..core.solves import EigenGrid
from .densities import Expansion, blocks, check_varying, exponents, gaussian, given, normal

__all__ = ["LeastSquaresCDE"]

BANDWIDTHS = np.logspace(-3, 1, 17)  # candidates, in standardised columns,
REGS = np.logspace(-4, 1, 11)  # and of λ,
FOLDS = 5  # compared on so many folds


class LeastSquaresCDE(Expansion):
    """p(y | x) ∝ Σ_l α_l exp(−‖x − u_l‖²/2σ²) exp(−‖y − v_l‖²/2σ²), α = max((H + λI)⁻¹h, 0).

    The sum s is fitted to the ratio p(x, y)/p(x) by least squares: ½∫ŝ²p(x)dx dy − ∫ŝ dP(x, y) is
    ½αᵀHα − hᵀα, with H the mean over rows of ∫φ(x_i, y)φ(x_i, y)ᵀdy and h that of φ(x_i, y_i).
    Centres (u_l, v_l) are rows of the data. σ and λ minimise this, with the integral in closed
    form, on five folds that were left out. Columns are standardised.

    Parameters
    ----------
    centres : int
        Most basis functions; fewer where there are fewer rows.
    bandwidth, reg : float, optional
        σ, in standardised columns, and λ. None chooses σ in [1e-3, 10] and λ in [1e-4, 10].
    random_state : int, Generator or None
        Draws the centres and the folds.

    Attributes
    ----------
    bandwidth_, reg_ : float
    coef_ : array of shape (centres,)
        α.

    References
    ----------
    Sugiyama, Takeuchi, Suzuki, Kanamori, Hachiya, Okanohara (2010), Least-squares conditional
    density estimation.

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.comparators import LeastSquaresCDE
    >>> data = km.datasets.make_conditional_density("bimodal", 400, random_state=0)
    >>> model = LeastSquaresCDE().fit(data.X, data.Y)
    >>> model.pdf([[-2.5], [0.0], [2.5]], [[0.5]], paired=False).shape
    (1, 3)
    """

    def __init__(self, centres=100, bandwidth=None, reg=None, random_state=0):
        self.centres = centres
        self.bandwidth = bandwidth
        self.reg = reg
        self.random_state = random_state

    def _fit(self, X, Y) -> None:
        rng = generator(self.random_state)
        check_varying(X, "X", "bandwidth")
        check_varying(Y, "Y", "bandwidth")
        self._scale_x, self._scale_y = StandardScaler().fit(X), StandardScaler().fit(Y)
        X, Y = self._scale_x.transform(X), self._scale_y.transform(Y)
        count = min(check_count(self.centres, "centres"), len(X))
        rows = rng.choice(len(X), count, replace=False)
        self._u, self._v = X[rows], Y[rows]
        self.bandwidth_, self.reg_ = self._choose(X, Y, rng.permutation(len(X)))
        H, h = self._sums(X, Y, self.bandwidth_)
        self.coef_ = _positive_solutions(H / len(X), h / len(X), np.array([self.reg_]))[0]

    def _choose(self, X, Y, order: np.ndarray) -> tuple[float, float]:
        """σ and λ of the least criterion on folds that were left out."""
        sigmas = np.atleast_1d(given(self.bandwidth, "bandwidth", BANDWIDTHS))
        regs = np.atleast_1d(given(self.reg, "reg", REGS))
        folds = np.array_split(order, min(FOLDS, len(X)))
        losses = np.array([self._left_out(X, Y, folds, sigma, regs) for sigma in sigmas])
        i, j = np.unravel_index(np.argmin(losses), losses.shape)
        return float(sigmas[i]), float(regs[j])

    def _left_out(self, X, Y, folds, sigma: float, regs: np.ndarray) -> np.ndarray:
        """The criterion of every λ, summed over the rows of all folds."""
        parts = [self._sums(X[fold], Y[fold], sigma) for fold in folds]
        H_all, h_all = (sum(part) for part in zip(*parts, strict=True))
        loss = np.zeros(len(regs))
        for fold, (H, h) in zip(folds, parts, strict=True):
            rest = len(X) - len(fold)
            A = _positive_solutions((H_all - H) / rest, (h_all - h) / rest, regs)
            loss += 0.5 * np.sum((A @ H) * A, axis=1) - A @ h
        return loss

    def _sums(self, X, Y, sigma: float) -> tuple[np.ndarray, np.ndarray]:
        """Sums over rows of ∫φ(x_i, y)φ(x_i, y)ᵀdy and of φ(x_i, y_i)."""
        width, r = np.array(sigma), len(self._u)
        gram, h = np.zeros((r, r)), np.zeros(r)
        for rows in blocks(len(X), r):
            K = gaussian(X[rows], self._u, width)
            gram += K.T @ K
            h += np.sum(K * gaussian(Y[rows], self._v, width), axis=0)
        overlap = gaussian(self._v, self._v, np.sqrt(2) * width)
        return (np.sqrt(np.pi) * sigma) ** Y.shape[1] * overlap * gram, h

    def _coefficients(self, X) -> np.ndarray:
        with np.errstate(divide="ignore"):
            logs = np.log(self.coef_)
        E = exponents(self._scale_x.transform(X), self._u, np.array(self.bandwidth_))
        return softmax(logs + E, axis=1)

    def _functions(self, Y) -> np.ndarray:
        width = np.full(self._v.shape[1], self.bandwidth_)
        return normal(self._scale_y.transform(Y), self._v, width) / np.prod(self._scale_y.scale_)


def _positive_solutions(H: np.ndarray, h: np.ndarray, regs: np.ndarray) -> np.ndarray:
    """max((H + λI)⁻¹h, 0) of every λ, one a row."""
    return np.maximum(EigenGrid.of(H).path(h, regs), 0)
