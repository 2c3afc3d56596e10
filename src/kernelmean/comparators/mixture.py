"""Mixture density networks."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.checks import check_count, generator
from . import networks
from .densities import DensityComparator

__all__ = ["MixtureDensityNetwork"]

DECAY = 1e-4  # ridge on the weights


@dataclass(eq=False, repr=False)
class MixtureDensityNetwork(DensityComparator):
    """p(y | x) = Σ_k p_k(x) Π_j N(y_j; m_kj(x), s_kj(x)²), with p, m and s from one network.

    The mean log density of four fifths of the rows is maximised by Adam until that of the other
    fifth has not risen for `patience` passes; the weights of its highest value are kept. Columns
    are standardised.

    Parameters
    ----------
    components : int
        Gaussians in the mixture.
    hidden : tuple of int
        Widths of the hidden layers, with rectified units.
    dropout : float
        Share of the hidden units left out in a step.
    epochs : int
        Most passes over the rows.
    patience : int
        Passes without improvement.
    batch_size : int
    learning_rate : float
        Of Adam.
    random_state : int, Generator or None

    Attributes
    ----------
    network_ : torch.nn.Sequential
        On standardised columns.
    epochs_ : int
        The pass whose weights were kept.

    Raises
    ------
    ImportError
        On `fit`, if PyTorch is missing (extra `nn`).
    ValueError
        On `fit`, if the training diverges.

    References
    ----------
    Bishop (1994), Mixture density networks.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import kernelmean as km
    >>> from kernelmean.comparators import MixtureDensityNetwork
    >>> data = km.datasets.make_conditional_density("bimodal", 200, random_state=0)
    >>> if find_spec("torch"):
    ...     model = MixtureDensityNetwork(epochs=2).fit(data.X, data.Y)
    ...     assert model.pdf([[-2.5], [0.0], [2.5]], [[0.5]], paired=False).shape == (1, 3)
    """

    components: int = 10
    hidden: Sequence[int] = (64, 64)
    dropout: float = 0.0
    epochs: int = 1000
    patience: int = 50
    batch_size: int = 100
    learning_rate: float = 1e-3
    random_state: Any = 0

    def _fit(self, X, Y) -> None:
        networks.require_torch("MixtureDensityNetwork")
        rng = generator(self.random_state)
        self._scale_x, self._scale_y = networks.Standard(X), networks.Standard(Y)
        order = rng.permutation(len(X))
        inputs, outputs = self._scale_x(X[order]), self._scale_y(Y[order])
        held = -(-len(X) // 5)
        with networks.seeded(int(rng.integers(2**31))):
            self._train(inputs[held:], outputs[held:], inputs[:held], outputs[:held])

    def _train(self, X, Y, X_held, Y_held) -> None:
        """Adam with early stopping."""
        k, d = check_count(self.components, "components"), Y.shape[1]
        widths = [X.shape[1], *self.hidden]
        self.network_ = networks.perceptron(widths, k * (1 + 2 * d), self.dropout)
        patience, best, self.epochs_ = check_count(self.patience, "patience"), np.inf, 0

        def loss(rows):
            return -networks.mixture_log_density(self.network_(X[rows]), Y[rows], k).mean()

        for epoch in networks.passes(self.network_, loss, len(X), self, self.epochs, DECAY, "Y"):
            parameters = networks.evaluate(self.network_, X_held)
            held = -networks.mixture_log_density(parameters, Y_held, k).mean()
            if held < best:
                best, self.epochs_, kept = held, epoch, deepcopy(self.network_.state_dict())
            elif epoch - self.epochs_ >= patience:
                break
        if not self.epochs_:  # no pass had a finite density on the rows held out
            raise networks.diverged("Y")
        self.network_.load_state_dict(kept)

    def _log_pairs(self, Y, X) -> np.ndarray:
        parameters = networks.evaluate(self.network_, self._scale_x(X)).double()
        logs = networks.mixture_log_density(parameters, self._scale_y(Y).double(), self.components)
        return logs.numpy() - np.log(self._scale_y.spread).sum()
