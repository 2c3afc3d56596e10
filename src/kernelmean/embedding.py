"""Mean embeddings: distributions as weighted points and a kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from . import linalg, recovery
from ._validation import (
    Array,
    NumericalWarning,
    as_floats,
    as_points,
    check_columns,
    check_finite,
    check_lengths,
    column_names,
    frozen,
)
from .kernels import Kernel, fitted_kernel
from .moments import block_rows, row_blocks
from .persistence import Saveable


class MeanEmbedding(Saveable):
    """μ = Σ_i w_i k(x_i, ·): one distribution, or a batch of them on the same points.

    ⟨f, μ⟩ = Σ_i w_i f(x_i) estimates E f. Weights may be negative; those of a probability sum to
    about one. Embeddings are immutable: operations return new ones.

    Parameters
    ----------
    points : array of shape (n, d) or (n,)
    weights : array of shape (n,) or (batch, n), optional
        Equal weights 1/n when left out.
    kernel : Kernel, str, scikit-learn kernel or callable
        Its median lengthscale, if any, is taken over `points`.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> m = km.MeanEmbedding([[0.0], [1.0]], weights=[0.25, 0.75], kernel=km.Gaussian(1.0))
    >>> m.mean()
    array([0.75])
    >>> m([[0.0]]).round(4)
    array([0.7049])
    """

    def __init__(self, points, weights=None, kernel="gaussian"):
        self._points = frozen(as_points(points, "points"))
        self._kernel = fitted_kernel(
            kernel, self._points, names=column_names(points), argument="points"
        )
        xp = linalg.namespace(self._points)
        n = self._points.shape[0]
        if weights is None:
            device = getattr(self._points, "device", None)
            weights = xp.full((n,), 1.0 / n, dtype=xp.float64, device=device)
        self._left, self._right = _check_weights(weights, n), None

    @classmethod
    def _of(cls, points, left, right, kernel: Kernel) -> MeanEmbedding:
        """Trusted parts; weights are `left`, or left rightᵀ when they have low rank."""
        m = cls.__new__(cls)
        m._points, m._left, m._right, m._kernel = points, left, right, kernel
        return m

    # ------------------------------------------------------------ what it is made of

    @property
    def points(self) -> Array:
        """The points x_i, shape (n, d)."""
        return self._points

    @property
    def weights(self) -> Array:
        """The weights, shape (n,) or (batch, n); formed on asking when they have low rank."""
        return self._left if self._right is None else self._left @ self._right.T

    @property
    def kernel(self) -> Kernel:
        """The kernel, its lengthscale fixed."""
        return self._kernel

    @property
    def batch(self) -> int | None:
        """Number of distributions, or None for a single one."""
        return None if self._left.ndim == 1 else int(self._left.shape[0])

    def __len__(self) -> int:
        if self.batch is None:
            raise TypeError("a single embedding has no length; only batches do")
        return self.batch

    def __getitem__(self, index) -> MeanEmbedding:
        """One member of a batch, or a smaller batch."""
        if self.batch is None:
            raise TypeError("a single embedding cannot be indexed; only batches can")
        return self._of(self._points, self._left[index, ...], self._right, self._kernel)

    def __repr__(self) -> str:
        n, d = self._points.shape
        many = "" if self.batch is None else f"batch of {self.batch}, "
        return f"MeanEmbedding({many}{n} points in {d} dimension(s), {self._kernel!r})"

    def apply_weights(self, values) -> Array:
        """Σ_i w_i values_i for values of shape (n, ...): the one sum everything else is made of."""
        if self._right is None:
            return linalg.weigh(self._left, values)
        return linalg.weigh(self._left, linalg.weigh(self._right.T, values))

    # ------------------------------------------------------------ answers

    def __call__(self, Y) -> Array:
        """μ(y_j) = Σ_i w_i k(x_i, y_j), shape (m,) or (batch, m)."""
        return self._smooth(Y, self._kernel._gram)

    def total(self) -> Array:
        """Σ_i w_i, near one for a probability: () or (batch,)."""
        xp = linalg.namespace(self._points)
        n = self._points.shape[0]
        device = getattr(self._points, "device", None)
        return self.apply_weights(xp.ones((n,), dtype=xp.float64, device=device))

    def expectation(self, f: Callable) -> Array:
        """Σ_i w_i f(x_i), not normalised.

        Parameters
        ----------
        f : callable
            Maps points (n, d) to (n,) or (n, k).

        Returns
        -------
        array of shape () or (k,); for a batch (batch,) or (batch, k)
        """
        values = as_floats(f(self._points), "f(points)")
        n = self._points.shape[0]
        if values.ndim not in (1, 2) or values.shape[0] != n:
            raise ValueError(
                f"f returned shape {tuple(values.shape)} for {n} points; (n,) or (n, k) is needed"
            )
        check_finite(values, "f(points)")
        return self.apply_weights(values)

    def mean(self) -> Array:
        """Σ_i w_i x_i / Σ_i w_i, shape (d,) or (batch, d)."""
        m = self.normalised()
        return m.apply_weights(m._points)

    def covariance(self) -> Array:
        """Σ_i w_i (x_i − m)(x_i − m)ᵀ / Σ_i w_i, negative eigenvalues set to zero.

        Shape (d, d) or (batch, d, d).
        """
        return recovery.covariance(self.normalised())

    def normalised(self) -> MeanEmbedding:
        """The same direction with weights that sum to one.

        A total too near zero to divide by is left as it is, with a `NumericalWarning`.
        """
        xp = linalg.namespace(self._points)
        total = self.total()
        lost = xp.abs(total) < 1e-12
        if bool(xp.any(lost)):
            warnings.warn(
                "an embedding has weights that sum to zero, so it cannot be normalised; it is "
                "left as it is",
                NumericalWarning,
                stacklevel=2,
            )
        total = xp.where(lost, 1.0, total)
        left = self._left / (total if self.batch is None else total[:, None])
        return self._of(self._points, left, self._right, self._kernel)

    def density(self, Y, bandwidth=None) -> Array:
        """q(y_j) = Σ_i w_i k̄_γ(x_i, y_j) / Σ_i w_i, shape (m,) or (batch, m).

        With weights of both signs it may dip below zero.

        Parameters
        ----------
        Y : array of shape (m, d)
        bandwidth : float or sequence of float, optional
            γ, apart from the lengthscale that the embedding lives on. None follows Silverman's
            rule, per column: γ_j = (4/(d + 2))^{1/(d+4)} n_e^{−1/(d+4)} σ_j, with σ_j half the
            distance between the embedding's 16% and 84% quantiles, and n_e = (Σw)²/Σw² its
            effective number of points; for a batch, the median over its members.

        References
        ----------
        Spiteri (2023), eq. 2.1.
        """
        bandwidth = recovery.default_bandwidth(self) if bandwidth is None else bandwidth
        return self.normalised()._smooth(Y, lambda X, Z: self._kernel.density(X, Z, bandwidth))

    def quantile(self, q) -> Array:
        """Quantiles of each column: where the distribution function reaches `q`.

        F_j(t) = Σ_i w_i 1{x_ij ≤ t} / Σ_i w_i, made increasing by rearrangement (sorting its
        values) where weights of both signs make it wiggle.

        Parameters
        ----------
        q : float or sequence of float in [0, 1]

        Returns
        -------
        array of shape (d,) for a number, (k, d) for a sequence; a batch goes in front

        References
        ----------
        Chernozhukov, Fernández-Val, Galichon (2010), Quantile and probability curves without
        crossing.
        """
        return recovery.quantile(self.normalised(), q)

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central interval of each column: quantiles (1 − level)/2 and (1 + level)/2.

        Returns
        -------
        lower, upper : arrays of shape (d,) or (batch, d)
        """
        return recovery.interval(self.normalised(), level)

    def sample(self, n: int, random_state=None, bandwidth=None) -> Array:
        """Draws from the positive part of the density, by rejection.

        A point is proposed from the positive weights, smoothed by the kernel with bandwidth γ, and
        kept with probability max(q, 0)/q⁺, q⁺ being the density of the positive weights alone.

        Parameters
        ----------
        n : int
        random_state : int, Generator, RandomState or None
        bandwidth : float or sequence of float, optional
            As for `density`.

        Returns
        -------
        array of shape (n, d) or (batch, n, d)

        References
        ----------
        Spiteri (2023), Lemma 4.7, corrected (MATH §12).
        """
        return recovery.sample(self.normalised(), n, random_state, bandwidth)

    def mode(self, n_starts: int = 10) -> Array:
        """Preimage: the point x whose k(x, ·) is nearest to μ, shape (d,) or (batch, d).

        For radial kernels by the fixed point x ← Σ w_i g_i x_i / Σ w_i g_i from several starts
        (Mika et al. 1999; g = k for the Gaussian kernel); otherwise the best of the points. For
        `Periodic`, `Rotation` and `Frobenius(rotations=True)` it stays on the circle or among
        rotations.
        """
        return recovery.mode(self, n_starts)

    def herd(self, n: int) -> Array:
        """`n` of the points, chosen greedily so that their plain average is close to μ.

        x_{t+1} = argmax_x μ(x) − (1/(t+1)) Σ_{s≤t} k(x_s, x) over the embedding's own points.

        Returns
        -------
        array of shape (n, d) or (batch, n, d)

        References
        ----------
        Chen, Welling, Smola (2010), Super-samples from kernel herding.
        """
        return recovery.herd(self, n)

    # ------------------------------------------------------------ geometry

    def inner(self, other: MeanEmbedding) -> Array:
        """⟨μ, ν⟩ = wᵀ K w': a number; (batch,) for one batch; (batch, batch') for two.

        The Gram matrix between the two sets of points is formed in blocks only.
        """
        self._check_same_space(other)
        values = other(self._points)  # (n,) or (batch', n)
        return self.apply_weights(values.T if values.ndim == 2 else values)

    def mmd(self, other: MeanEmbedding) -> Array:
        """Maximum mean discrepancy ‖μ − ν‖; shapes as for `inner`.

        References
        ----------
        Gretton et al. (2012), A kernel two-sample test.
        """
        self._check_same_space(other)
        xp = linalg.namespace(self._points)
        mine, theirs = self._sq_norm(), other._sq_norm()
        if self.batch is not None and other.batch is not None:
            mine = mine[:, None]
        return xp.sqrt(xp.clip(mine - 2 * self.inner(other) + theirs, 0.0, None))

    # ------------------------------------------------------------ inside

    def _sq_norm(self) -> Array:
        xp = linalg.namespace(self._points)
        values = self(self._points)
        if self.batch is None:
            return self.apply_weights(values)
        return xp.sum(values * self.weights, axis=-1)

    def _smooth(self, Y, gram: Callable) -> Array:
        """Σ_i w_i gram(x_i, y_j) with the n×m matrix in blocks."""
        Y = self._kernel._points(Y, "Y")
        check_columns(Y, self._points.shape[1], "Y", "the embedding")
        xp = linalg.namespace(self._points)
        blocks = row_blocks(Y, rows=block_rows(self._points.shape[0]))
        parts = [self.apply_weights(gram(self._points, block)) for (block,) in blocks]
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-1)

    def _check_same_space(self, other: MeanEmbedding) -> None:
        if not isinstance(other, MeanEmbedding):
            raise ValueError(f"other is {type(other).__name__}; a MeanEmbedding is needed")
        if self._kernel != other._kernel:
            raise ValueError(
                f"other has kernel {other._kernel!r}, this embedding {self._kernel!r}; distances "
                "need one kernel: build both with the same resolved kernel"
            )


def _check_weights(weights, n: int) -> Array:
    weights = as_floats(weights, "weights")
    if weights.ndim not in (1, 2):
        raise ValueError(f"weights has shape {tuple(weights.shape)}; (n,) or (batch, n) is needed")
    check_lengths(n, weights.shape[-1], "points", "weights")
    check_finite(weights, "weights")
    return frozen(weights)


def as_embedding(m, kernel: Kernel, name: str, d: int, where: str) -> MeanEmbedding:
    """An embedding as it is, or samples as one with equal weights; in `d` columns like `where`."""
    if not isinstance(m, MeanEmbedding):
        m = MeanEmbedding(as_points(m, name), kernel=kernel)
    check_columns(m.points, d, name, where)
    return m
