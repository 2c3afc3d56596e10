"""The conditional density operator: a density from the embedding, by a reference measure."""

import numpy as np
from scipy.special import ndtr

from ..core.checks import check_count, generator
from ..core.solves import ridge
from ..kernels import median_lengthscale
from .densities import LARGEST, Expansion, check_varying, exponents, gaussian, given

__all__ = ["ConditionalDensityOperator"]


class ConditionalDensityOperator(Expansion):
    """p(y | x) = Σ_j a_j(x) k(z_j, y), a(x) = (m/V)(K_ρ + mαI)⁻²K_ρY (K_X + nλI)⁻¹l(x), on a box.

    The embedding of Y given x, of which (C_ρ + αI)⁻²C_ρ makes the density with respect to ρ. The
    reference measure ρ is uniform on the box of volume V that Y has ranged over, and z_1, ..., z_m
    are drawn from it; (K_ρ)_ij = k(z_i, z_j), (K_ρY)_ij = k(z_i, y_j). Kernels are Gaussian, with
    the median distance of X and of z. The density is zero outside the box, and where the sum is
    negative, which may leave its integral a little above one.

    Parameters
    ----------
    reg, reg_reference : float, optional
        λ and α, per sample. None takes λ = 1/√m and mα = 1/√m, as the authors' program does in its
        experiments.
    reference : int, optional
        m; None is n.
    normalise : bool
        Whether the weights are scaled so that the integral of the sum over the box is one, which
        regularisation keeps it from. (The authors' program does so over the whole space.)
    random_state : int, Generator or None

    Attributes
    ----------
    reg_, reg_reference_ : float
    reference_ : array of shape (m, d_y)
        z.
    lengthscale_x_, lengthscale_y_ : float

    Raises
    ------
    ValueError
        On `fit`, for more than 5,000 rows or reference points.

    References
    ----------
    Schuster, Mollenhauer, Klus, Muandet (2020), Kernel conditional density operators; the defaults
    are those of its program (https://github.com/AnonymousPaperCode/
    Kernel_conditional_density_operators, `regul` with c → 1, added to K_ρ without a factor m).

    Examples
    --------
    >>> import kernelmean as km
    >>> from kernelmean.comparators import ConditionalDensityOperator
    >>> data = km.datasets.make_conditional_density("bimodal", 400, random_state=0)
    >>> model = ConditionalDensityOperator().fit(data.X, data.Y)
    >>> model.pdf([[-2.5], [0.0], [2.5]], [[0.5]], paired=False).shape
    (1, 3)
    """

    def __init__(
        self, reg=None, reg_reference=None, reference=None, normalise=True, random_state=0
    ):
        self.reg = reg
        self.reg_reference = reg_reference
        self.reference = reference
        self.normalise = normalise
        self.random_state = random_state

    def _fit(self, X, Y) -> None:
        n = len(X)
        m = n if self.reference is None else check_count(self.reference, "reference", minimum=2)
        if max(n, m) > LARGEST:
            raise ValueError(
                f"X has {n} rows and reference is {m}; ConditionalDensityOperator solves systems "
                f"of that size and takes at most {LARGEST}: thin the rows"
            )
        self.reg_ = given(self.reg, "reg", m**-0.5)
        self.reg_reference_ = given(self.reg_reference, "reg_reference", m**-1.5)
        self._low, self._high = Y.min(axis=0), Y.max(axis=0)
        check_varying(Y, "Y", "density")
        self.reference_ = generator(self.random_state).uniform(self._low, self._high, (m, len(Y.T)))
        self.lengthscale_x_ = median_lengthscale(X)
        self.lengthscale_y_ = median_lengthscale(self.reference_, name="reference")
        self._x, self._operator = X, self._solve(X, Y)

    def _solve(self, X, Y) -> np.ndarray:
        """(m/V)(K_ρ + mαI)⁻²K_ρY (K_X + nλI)⁻¹."""
        m, ell = len(self.reference_), self.lengthscale_y_
        inner = ridge(gaussian(self.reference_, self.reference_, ell), m * self.reg_reference_)
        density = inner.solve(inner.solve(gaussian(self.reference_, Y, ell)))
        outer = ridge(gaussian(X, X, self.lengthscale_x_), len(X) * self.reg_)
        return m / np.prod(self._high - self._low) * outer.solve_rows(density)

    def _coefficients(self, X) -> np.ndarray:
        E = exponents(X, self._x, self.lengthscale_x_)
        if not self.normalise:
            return np.exp(E) @ self._operator.T
        # far from all rows every l(x) underflows, but what they have in common cancels
        A = np.exp(E - E.max(axis=1, keepdims=True)) @ self._operator.T
        mass = A @ self._masses()
        return A / np.where(mass > 0, mass, 1)[:, None]

    def _masses(self) -> np.ndarray:
        """Integrals of k(z_j, ·) over the box."""
        ell = self.lengthscale_y_
        upper, lower = ((edge - self.reference_) / ell for edge in (self._high, self._low))
        return np.prod(np.sqrt(2 * np.pi) * ell * (ndtr(upper) - ndtr(lower)), axis=1)

    def _functions(self, Y) -> np.ndarray:
        inside = np.all((self._low <= Y) & (self._high >= Y), axis=1)
        return inside[:, None] * gaussian(Y, self.reference_, self.lengthscale_y_)
