"""Hidden Markov models whose law is known: those of Spiteri (2023), section 3.6.1."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import beta
from sklearn.datasets import fetch_openml, load_digits
from sklearn.preprocessing import scale

from ..chains import markov
from ..core import arrays, checks
from ..core.sequences import check_sequences
from .tables import Dataset, read_toml

__all__ = ["HMMData", "HiddenMarkov", "load_mnist", "make_digit_hmm", "make_hmm"]

LAWS = read_toml("hidden")  # transition matrices, and what each state emits
DESIGNS = {name: tuple(law.values()) for name, law in LAWS["designs"].items()}
DIGITS = {int(states): tuple(law.values()) for states, law in LAWS["digits"].items()}


@dataclass(frozen=True, repr=False)
class HMMData(Dataset):
    """A simulated sequence of hidden states and of observations.

    Attributes
    ----------
    X : array of shape (n, d)
        Observations.
    states : array of int of shape (n,)
        From 0 to K − 1.
    model : HiddenMarkov
        The law they were drawn from.
    images : array of int of shape (n,), or None
        Of `make_digit_hmm`: which image of the collection each observation is.
    """

    X: np.ndarray
    states: np.ndarray
    model: HiddenMarkov
    images: np.ndarray | None = None


@dataclass(frozen=True, repr=False)
class HiddenMarkov(Dataset):
    """P(x_{t+1} = j | x_t = i) = q_ij, y_t ~ p(· | x_t), and x_1 follows the stationary law of Q.

    Attributes
    ----------
    transmat : array of shape (K, K)
    emission : object
        The laws p(· | k): draws from them, their log-densities and their means.
    """

    transmat: np.ndarray
    emission: Any

    @property
    def n_states(self) -> int:
        """K."""
        return len(self.transmat)

    @property
    def startprob(self) -> np.ndarray:
        """The stationary law, shape (K,)."""
        return self.chain.startprob

    @property
    def means(self) -> np.ndarray:
        """E[y | x = k], shape (K, d)."""
        return self.emission.means

    @cached_property
    def chain(self) -> markov.Chain:
        """The law of the states."""
        return markov.Chain(markov.stationary(self.transmat), self.transmat)

    def sample(self, n: int = 1000, random_state: Any = None) -> HMMData:
        """A sequence of n steps."""
        n, rng = checks.check_count(n, "n"), checks.generator(random_state)
        states = markov.draw(self.chain, n, rng)
        X, images = self.emission.draw(states, rng)
        return HMMData(X, states, self, images)

    def log_density(self, X) -> np.ndarray:
        """log p(y | k) of every row and state, (n, K); 0 for rows of NaN: they are missing."""
        points = arrays.as_columns(X, self.means.shape[1], "X", "the model", gaps=True)
        missing = np.isnan(points).any(axis=1)
        logs = np.zeros((len(points), self.n_states))
        logs[~missing] = self.emission.log_density(points[~missing])
        return logs

    def filter(self, X, lengths=None) -> np.ndarray:
        """P(x_t = k | y_1, ..., y_t), shape (n, K)."""
        return self._filtered(X, lengths)[0]

    def smooth(self, X, lengths=None) -> np.ndarray:
        """P(x_t = k | all of the sequence), shape (n, K)."""
        alpha, _, sequences = self._filtered(X, lengths)
        return markov.smoothed(alpha, self.chain, sequences)

    def decode(self, X, lengths=None) -> np.ndarray:
        """The likeliest path of states given all observations (Viterbi), shape (n,)."""
        logs = self.log_density(X)
        return markov.viterbi(logs, self.chain, check_sequences(lengths, len(logs)))[1]

    def score(self, X, lengths=None) -> float:
        """log p(y_1, ..., y_n), over all sequences."""
        return float(self._filtered(X, lengths)[1].sum())

    def _filtered(self, X, lengths) -> tuple[np.ndarray, np.ndarray, list[slice]]:
        logs = self.log_density(X)
        sequences = check_sequences(lengths, len(logs))
        return *markov.filtered(logs, self.chain, sequences), sequences


# ---------------------------------------------------------------- Beta laws


def make_hmm(design: str = "separated", n: int = 1000, *, random_state: Any = None) -> HMMData:
    """Draws from a hidden Markov chain with Beta(a, b) observations in [0, 1].

    =============  =====================================  ============================
    design         observations, by state                 transition matrix
    =============  =====================================  ============================
    "separated"    Beta(2, 5), Beta(4, 3)                 .4 .6 / .8 .2
    "overlapping"  Beta(2, 5), Beta(4, 2), Beta(4, 4)     .8 .1 .1 / .2 .7 .1 / .07 .13 .8
    "unbounded"    Beta(½, ½), Beta(2, 2)                 .1 .9 / .7 .3
    =============  =====================================  ============================

    The filter that knows the law names the right state in 81, 69 and 74 of 100 steps. The first
    density of "unbounded" has no bound at 0 and 1.

    Parameters
    ----------
    design : {"separated", "overlapping", "unbounded"}
        Models 12, 13 and 14 of the thesis.
    n : int
        Steps.
    random_state : int, Generator or None

    Returns
    -------
    HMMData

    References
    ----------
    Spiteri (2023), Nonparametric estimation with kernel mean embeddings, eqs. (3.13)-(3.15).

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_hmm("separated", 2000, random_state=0)
    >>> data.X.shape, data.states.shape, data.model.startprob.round(3)  # 4/7, 3/7
    ((2000, 1), (2000,), array([0.571, 0.429]))
    >>> truth = data.model.filter(data.X).argmax(axis=1)
    >>> bool((truth == data.states).mean() > 0.8)
    True
    """
    transmat, shapes = DESIGNS[checks.check_choice(design, "design", DESIGNS)]
    a, b = np.transpose(shapes)
    return HiddenMarkov(np.array(transmat), _Betas(a, b)).sample(n, random_state)


@dataclass(frozen=True)
class _Betas:
    """Beta(a_k, b_k) in state k, one column."""

    a: np.ndarray
    b: np.ndarray

    @property
    def means(self) -> np.ndarray:
        return (self.a / (self.a + self.b))[:, None]

    def draw(self, states: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, None]:
        return rng.beta(self.a[states], self.b[states])[:, None], None

    def log_density(self, X: np.ndarray) -> np.ndarray:
        # a density may be infinite at 0 and at 1: there it is taken next to them
        inside = np.clip(X, np.nextafter(0, 1), np.nextafter(1, 0))
        return np.where(np.clip(X, 0, 1) == X, beta.logpdf(inside, self.a, self.b), -np.inf)


# ---------------------------------------------------------------- images of digits


def make_digit_hmm(
    n_states: int = 2,
    n: int = 5000,
    *,
    images=None,
    labels=None,
    share: tuple[float, float] = (0.0, 1.0),
    random_state: Any = None,
) -> HMMData:
    """A hidden Markov chain of digits; what is observed is an image of each, drawn evenly.

    States are the digits 2 and 7, or 2, 4 and 7, or 1, 2, 4 and 7. Every image is one row, scaled
    to mean 0 and variance 1 of its own.

    Parameters
    ----------
    n_states : {2, 3, 4}
        Models 15, 16 and 17 of the thesis, with their transition matrices.
    n : int
        Steps.
    images : array of shape (m, d), optional
        The collection, such as `load_mnist` returns. None is scikit-learn's of 1,797 images of 8
        by 8 pixels.
    labels : array of int of shape (m,), optional
        Digits on the images.
    share : (float, float)
        Which of each digit's images, in the order of the collection: (0, 0.8) is the first 80 %.
        Sequences for training and for testing have no image in common where shares are disjoint.
    random_state : int, Generator or None

    Returns
    -------
    HMMData
        With `images`, the row of the collection that each observation is.

    References
    ----------
    Spiteri (2023), Nonparametric estimation with kernel mean embeddings, eqs. (3.16)-(3.18).

    Examples
    --------
    >>> import kernelmean as km
    >>> train = km.datasets.make_digit_hmm(3, 2000, share=(0, 0.8), random_state=0)
    >>> test = km.datasets.make_digit_hmm(3, 500, share=(0.8, 1), random_state=1)
    >>> train.X.shape, set(train.images) & set(test.images)
    ((2000, 64), set())
    >>> train.model.means.shape  # the mean image of each digit
    (3, 64)
    """
    if checks.check_count(n_states, "n_states") not in DIGITS:
        raise ValueError(f"n_states is {n_states}; one of {list(DIGITS)} is needed")
    images, labels = _collection(images, labels)
    transmat, digits = DIGITS[n_states]
    members = [_members(labels, digit, share) for digit in digits]
    rows = np.concatenate(members)
    emission = _Pictures(scale(images[rows], axis=1), rows, np.array([len(m) for m in members]))
    return HiddenMarkov(np.array(transmat), emission).sample(n, random_state)


@dataclass(frozen=True)
class _Pictures:
    """In state k one of its images, all of them equally likely.

    `images` has those of all states, one state after the other, `counts` of each; `rows` are their
    numbers in the collection.
    """

    images: np.ndarray
    rows: np.ndarray
    counts: np.ndarray

    @property
    def means(self) -> np.ndarray:
        return np.stack([images.mean(axis=0) for images in self._by_state()])

    def draw(self, states: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        first = np.cumsum(self.counts) - self.counts
        drawn = first[states] + rng.integers(self.counts[states])
        return self.images[drawn], self.rows[drawn]

    def log_density(self, X: np.ndarray) -> np.ndarray:
        """Log probabilities: the laws are discrete."""
        tables = [Counter(image.tobytes() for image in images) for images in self._by_state()]
        found = np.array([[table[x.tobytes()] for table in tables] for x in X])
        return arrays.logs(found.reshape(-1, len(tables)) / self.counts)

    def _by_state(self) -> list[np.ndarray]:
        return np.split(self.images, np.cumsum(self.counts)[:-1])


def _collection(images, labels) -> tuple[np.ndarray, np.ndarray]:
    if images is None and labels is None:
        images, labels = load_digits(return_X_y=True)
    images = checks.as_points(images, "images", one_d=False)
    labels = checks.as_vector(labels, "labels")
    checks.check_lengths(len(images), len(labels), "images", "labels")
    return images, labels


def _members(labels: np.ndarray, digit: int, share: tuple[float, float]) -> np.ndarray:
    """Rows of the images of a digit, of the share that is asked for."""
    edges = checks.as_vector(share, "share")
    if len(edges) != 2 or not 0 <= edges[0] < edges[1] <= 1:
        raise ValueError(f"share is {share!r}; two numbers, 0 <= first < last <= 1, are needed")
    rows = np.flatnonzero(labels == digit)
    first, last = np.round(edges * len(rows)).astype(int)
    if first == last:
        raise ValueError(
            f"share is {share!r}, which has none of the {len(rows)} images with label {digit}; "
            "at least one is needed"
        )
    return rows[first:last]


def load_mnist() -> tuple[np.ndarray, np.ndarray]:
    """The 70,000 images of MNIST, 28 by 28 pixels, and their labels; downloaded from OpenML once.

    Returns
    -------
    images : array of shape (70000, 784)
        Intensities from 0 to 255.
    labels : array of int of shape (70000,)

    Raises
    ------
    OSError
        If the data are neither in scikit-learn's cache nor within reach.

    Examples
    --------
    >>> import kernelmean as km
    >>> images, labels = km.datasets.load_mnist()  # doctest: +SKIP
    >>> data = km.datasets.make_digit_hmm(3, 5000, images=images, labels=labels)  # doctest: +SKIP
    """
    try:
        images, labels = fetch_openml("mnist_784", version=1, as_frame=False, return_X_y=True)
    except OSError as err:
        raise OSError(
            f"MNIST cannot be downloaded from openml.org: {err}; a network is needed once, or use "
            "scikit-learn's digits, the default of make_digit_hmm"
        ) from err
    return images, labels.astype(int)
