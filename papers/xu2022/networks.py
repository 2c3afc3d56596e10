"""What Figures 5 and 6 need PyTorch for, beside `km.Neural`: an LSTM over the last pictures."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from kernelmean.features.neural import convolutions

from .film import RUN_IN, Film

FEATURES, HIDDEN = 64, 64
BATCH = 128  # states
HELD_OUT = 0.1  # share of the training film, at its end, that says when to stop
LEARNING_RATE = 1e-3


class Tracker(nn.Module):
    """z_t from the pictures t − 10, ..., t: the features of `km.Neural`, an LSTM, a linear map."""

    def __init__(self, shape: tuple[int, int, int], d: int):
        super().__init__()
        self.features = convolutions(shape, FEATURES)
        self.lstm = nn.LSTM(FEATURES, HIDDEN, batch_first=True)
        self.state = nn.Linear(HIDDEN, d)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """States of consecutive pictures from the eleventh on; each picture is read once."""
        windows = self.features(pictures).unfold(0, RUN_IN + 1, 1).transpose(1, 2)
        return self.state(self.lstm(windows)[0][:, -1])


def lstm(train: Film, test: Film, epochs: int, patience: int, seed: int) -> np.ndarray:
    """States of the test film by an LSTM; those of the run-in are NaN."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        pictures, states = standardised(train.X, train), torch.tensor(train.Z).float()
        tracker = trained(
            Tracker(train.shape, states.shape[1]), pictures, states, epochs, patience, seed
        )
        found = tracker(standardised(test.X, train)).double().numpy()
    return np.vstack([np.full((RUN_IN, found.shape[1]), np.nan), found])


def standardised(X: np.ndarray, train: Film) -> torch.Tensor:
    """Pictures with the mean and standard deviation that each channel has in training."""
    known, pictures = (rows.reshape(-1, *train.shape) for rows in (train.X, X))
    centre, width = (f(axis=(0, 2, 3), keepdims=True) for f in (known.mean, known.std))
    return torch.tensor((pictures - centre) / width, dtype=torch.float32)


def trained(tracker, pictures, states, epochs: int, patience: int, seed: int) -> Tracker:
    """The tracker after the epoch of least squared error on the end of the film."""
    rng, last = np.random.default_rng(seed), len(states) - round(HELD_OUT * len(states))
    optimiser = torch.optim.Adam(tracker.parameters(), lr=LEARNING_RATE)
    best, least, age = tracker, np.inf, 0
    for _ in range(epochs):
        for part in stretches(last, rng):
            with torch.enable_grad():
                optimiser.zero_grad()
                loss(tracker, pictures[part], states[part]).backward()
            optimiser.step()
        tail = slice(last - RUN_IN, None)
        error, age = float(loss(tracker, pictures[tail], states[tail])), age + 1
        if error < least:
            best, least, age = copy.deepcopy(tracker), error, 0
        if age >= patience:
            break
    return best


def stretches(n: int, rng: np.random.Generator) -> Iterator[slice]:
    """Consecutive pictures in random order: together they have every state from the eleventh on."""
    states = n - RUN_IN
    cuts = np.linspace(0, states, max(1, round(states / BATCH)) + 1).astype(int)
    for i in rng.permutation(len(cuts) - 1):
        yield slice(int(cuts[i]), int(cuts[i + 1]) + RUN_IN)


def loss(tracker: Tracker, pictures: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """Mean squared error of the states from the eleventh picture on."""
    return ((tracker(pictures) - states[RUN_IN:]) ** 2).sum(1).mean()


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch limited to one thread inside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
