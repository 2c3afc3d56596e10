"""Points with weights, one set or a batch of them: what a mean embedding is made of."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Self

import numpy as np

from ..core import Array, Saveable, arrays, checks
from ..core.moments import block_rows, row_blocks
from ..kernels import Kernel


class WeightedPoints(Saveable):
    """Σ_i w_i k(x_i, ·), once or for a batch of weights, which may be a product W = left rightᵀ.

    Parameters
    ----------
    points : array of shape (n, d)
    left : array of shape (n,) or (batch, n); (r,) or (batch, r) beside `right`
    right : array of shape (n, r) or None
    kernel : Kernel
        Its lengthscale fixed.
    """

    def __init__(self, points, left, right, kernel: Kernel):
        self._points, self._left, self._right, self._kernel = points, left, right, kernel

    @classmethod
    def of_parts(cls, points, left, right, kernel: Kernel) -> Self:
        """Trusted parts, not checked."""
        m = cls.__new__(cls)
        WeightedPoints.__init__(m, points, left, right, kernel)
        return m

    def reweighted(self, left) -> Self:
        """Another left factor of the weights, on the same points."""
        return self.altered(_left=left)

    def altered(self, **parts) -> Self:
        """A copy with other attributes."""
        m = copy.copy(self)
        vars(m).update(parts)
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
    def factors(self) -> tuple[Array, Array | None]:
        """The weights as left rightᵀ; right is None where left is all."""
        return self._left, self._right

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

    def __getitem__(self, index) -> Self:
        """One member of a batch, or a smaller batch."""
        if self.batch is None:
            raise TypeError("a single embedding cannot be indexed; only batches can")
        if not isinstance(index, list | np.ndarray):
            return self.reweighted(self._left[index, ...])
        chosen = np.arange(self.batch)[index]  # what other libraries do not index by
        return self.reweighted(arrays.take(self._left, chosen, axis=0))

    def members(self) -> WeightedPoints:
        """The same as a batch (of one, where it is a single one) of NumPy arrays."""
        left, points = arrays.to_numpy(self._left), arrays.to_numpy(self._points)
        right = None if self._right is None else arrays.to_numpy(self._right)
        return WeightedPoints(points, np.atleast_2d(left), right, self._kernel)

    def weight_blocks(self) -> Iterator[Array]:
        """Weights of a batch, so many members at a time as fit in memory."""
        for (left,) in row_blocks(self._left, rows=block_rows(self._points.shape[0])):
            yield left if self._right is None else left @ self._right.T

    def is_signed(self) -> bool:
        """Whether a density may be negative somewhere: by the weights, or by the kernel."""
        return self._kernel.dips or any((w < 0).any() for w in self.members().weight_blocks())

    def marginal(self, columns) -> Self:
        """The embedding of some columns of the points, in the order asked for.

        Parameters
        ----------
        columns : int or sequence of int

        Returns
        -------
        A law of the same kind
            With the kernel of those columns: the same family, with their lengthscales.

        Raises
        ------
        ValueError
            If the kernel is neither radial nor made by `on_columns`.
        """
        d = self._points.shape[1]
        asked = [columns] if np.ndim(columns) == 0 else list(columns)
        chosen = [checks.check_column(c, d, "columns") for c in asked]
        if not chosen or len(set(chosen)) != len(chosen):
            raise ValueError(f"columns is {columns!r}; different column numbers are needed")
        points = arrays.take(self._points, chosen, axis=1)
        return self.altered(_points=points, _kernel=self._kernel.on(chosen, d))

    # ------------------------------------------------------------ sums over the points

    def apply_weights(self, values) -> Array:
        """Σ_i w_i values_i for values of shape (n, ...): the one sum everything else is made of."""
        if self._right is None:
            return arrays.weigh(self._left, values)
        n, rank = self._right.shape
        columns = math.prod(values.shape[1:])
        if 1 / max(columns, 1) + 1 / rank < 1 / (self.batch or 1) + 1 / n:  # fewer products
            return arrays.weigh(self._left @ self._right.T, values)
        return arrays.weigh(self._left, arrays.weigh(self._right.T, values))

    def total(self) -> Array:
        """Σ_i w_i, near one for a probability: () or (batch,)."""
        return self.apply_weights(arrays.like(np.ones(self._points.shape[0]), self._points))

    def normalised(self) -> Self:
        """The same direction with weights that sum to one.

        A total too near zero to divide by is left as it is, with a `NumericalWarning`.
        """
        return self.reweighted(self._left / divisor(self.total())[..., None])

    def __call__(self, Y) -> Array:
        """μ(y_j) = Σ_i w_i k(x_i, y_j), shape (m,) or (batch, m)."""
        return self.smooth(Y, self._kernel.gram_of)

    def smooth(self, Y, gram: Callable) -> Array:
        """Σ_i w_i gram(x_i, y_j) with the n×m matrix in blocks, shape (m,) or (batch, m)."""
        Y = self.checked(Y)
        blocks = row_blocks(Y, rows=block_rows(self._points.shape[0]))
        parts = [self.apply_weights(gram(self._points, block)) for (block,) in blocks]
        xp = arrays.namespace(self._points)
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-1)

    def checked(self, Y) -> Array:
        """Rows that may stand beside the points."""
        Y = self._kernel.checked(Y, "Y")
        checks.check_columns(Y, self._points.shape[1], "Y", "the embedding")
        checks.check_library(Y, self._points, "Y", "the points of the embedding")
        return Y


def divisor(total) -> Array:
    """Sums of weights, with one for those too near zero to divide by; and a word about these."""
    xp = arrays.namespace(total)
    lost = xp.abs(total) < 1e-12
    if bool(xp.any(lost)):
        checks.warn_numerical(
            "an embedding has weights that sum to zero, so it cannot be normalised; it is left as "
            "it is",
        )
    return xp.where(lost, 1.0, total)
