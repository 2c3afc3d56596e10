"""What the comparators that are networks share: mixtures of Gaussians, descent.

Nothing here imports PyTorch before it is used.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core import arrays
from ..core.checks import check_count
from ..core.extras import require
from ..features.training import perceptron as perceptron
from ..features.training import seeded as seeded

__all__ = ["mixture_log_density"]


def require_torch(who: str) -> None:
    """An ImportError that says what to install, if PyTorch is missing."""
    require("torch", who, 'pip install "kernelmean[nn]"')


def passes(
    network, loss: Callable[[Any], Any], n: int, settings, epochs: int, decay: float, name: str
) -> Iterator[int]:
    """Adam over n rows in shuffled batches; the number of each pass, after it.

    `settings` has batch_size and learning_rate; `decay` is a ridge on the weights. A ValueError
    about the argument `name` says that weights are no longer finite.
    """
    import torch

    size, named = check_count(settings.batch_size, "batch_size"), list(network.named_parameters())
    groups = [  # weights, with the gradient 2·decay·W of their ridge, and biases, without
        {"params": [p for n, p in named if n.endswith("weight")], "weight_decay": 2 * decay},
        {"params": [p for n, p in named if n.endswith("bias")]},
    ]
    optimiser = torch.optim.Adam(groups, lr=settings.learning_rate, fused=True)
    for epoch in range(1, check_count(epochs, "epochs") + 1):
        network.train()
        for rows in torch.randperm(n).split(size):
            optimiser.zero_grad()
            loss(rows).backward()
            optimiser.step()
        network.eval()
        if not all(p.isfinite().all() for p in network.parameters()):
            raise diverged(name)
        yield epoch


def diverged(name: str) -> ValueError:
    """The error about an argument that training did not fit."""
    return ValueError(f"{name} could not be fitted: training diverged; lower learning_rate")


class Standard:
    """Columns with mean zero and variance one, as a tensor; constant ones only centred."""

    def __init__(self, X: np.ndarray):
        self.centre, self.spread = X.mean(axis=0), arrays.units(X)

    def __call__(self, X: np.ndarray) -> Any:
        import torch

        return torch.as_tensor((X - self.centre) / self.spread, dtype=torch.float32)

    def undo(self, X: np.ndarray) -> np.ndarray:
        """Columns as they were."""
        return self.centre + self.spread * X


def mixture_log_density(parameters, X, components: int) -> Any:
    """log Σ_k p_k Π_j N(x_j; m_kj, s_kj²) of every row, shape (n,).

    Parameters
    ----------
    parameters : tensor of shape (n, k + 2 k d)
        Log weights p (up to a constant), then means m, then log standard deviations s.
    X : tensor of shape (n, d)
    components : int
        k.
    """
    log_p, means, log_s = _mixture(parameters, components, X.shape[1])
    z = (X[:, None, :] - means) / log_s.exp()
    log_normal = -0.5 * z**2 - log_s - 0.5 * np.log(2 * np.pi)
    return (log_p + log_normal.sum(2)).logsumexp(1)


def _mixture(parameters, k: int, d: int) -> tuple:
    """Log weights (n, k), means and log standard deviations (n, k, d)."""
    log_p, means, log_s = parameters.split([k, k * d, k * d], dim=1)
    return log_p.log_softmax(1), means.reshape(-1, k, d), log_s.reshape(-1, k, d).clamp(-10, 10)


def draw(parameters, k: int, d: int) -> Any:
    """One draw from every row's mixture, (n, d)."""
    import torch

    log_p, means, log_s = _mixture(parameters, k, d)
    rows, chosen = torch.arange(len(means)), torch.multinomial(log_p.exp(), 1)[:, 0]
    return means[rows, chosen] + log_s[rows, chosen].exp() * torch.randn(len(means), d)


def evaluate(network, X) -> Any:
    """The network at the rows of X, without gradients."""
    import torch

    with torch.no_grad():
        return network(X)
