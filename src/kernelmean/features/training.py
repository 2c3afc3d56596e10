"""How networks are made and trained: layers, options, seeds; nothing imports PyTorch before use."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from ..core.checks import check_count
from ..core.parameters import Options, count, positive, probability


@dataclass(frozen=True, repr=False)
class Training(Options):
    """How the features of `Neural` are trained.

    Parameters
    ----------
    max_epochs : int
        Most passes over the pairs.
    batch_size : int
        Rows per step; to be several times r, for the linear map is solved on each batch.
    learning_rate, weight_decay : float
        Of AdamW: each step shrinks the weights by the share learning_rate · weight_decay.
    validation_fraction : float
        Share of the pairs, drawn at random, on which the held-out loss is measured.
    patience : int
        Training stops after this many epochs without a lower held-out loss.

    Examples
    --------
    >>> import kernelmean as km
    >>> km.Training(max_epochs=20, batch_size=256)
    Training(max_epochs=20, batch_size=256)
    """

    max_epochs: int = 200
    batch_size: int = 128
    learning_rate: float = 3e-3
    weight_decay: float = 1.0
    validation_fraction: float = 0.1
    patience: int = 50

    ALLOWED: ClassVar = {
        **dict.fromkeys(("max_epochs", "patience"), count()),
        "batch_size": count(2),
        "learning_rate": positive(),
        "weight_decay": positive(zero=True),
        "validation_fraction": probability,
    }


def as_training(training: Any) -> Any:
    """Options of training; None is the defaults."""
    return Training() if training is None else training


def perceptron(widths: Sequence[int], outputs: int, dropout: float = 0.0) -> Any:
    """Fully connected, rectified, perhaps with dropout after every hidden layer."""
    from torch import nn

    widths = [widths[0], *(check_count(w, "hidden") for w in widths[1:])]
    layers: list[Any] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


@contextmanager
def seeded(seed: int, device: Any = None) -> Iterator[None]:
    """Torch's generators seeded inside, those of a CUDA device too, and as they were outside."""
    import torch

    cuda = device is not None and device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if cuda else []):
        # not torch.manual_seed, which would seed every CUDA device, for good
        torch.default_generator.manual_seed(seed)
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
