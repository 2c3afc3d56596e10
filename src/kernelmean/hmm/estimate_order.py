"""How many hidden states a sequence has."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from ..chains.order import MAX_COMPONENTS, METHODS, Order, Spectrum, choose_order
from ..core import arrays
from ..core.checks import as_points, check_choice, check_count
from ..core.sequences import check_sequences
from .kernel_hmm import KernelHMM

TRAINING = 0.7  # share of every sequence that models are fitted on, the rest held out
PATIENCE = 2  # numbers of states tried beyond the best
SLACK = 0.5  # standard errors of the held-out log-likelihood that fewer states may cost


def estimate_order(
    X,
    lengths=None,
    *,
    method: str = "correlations",
    kernel="gaussian",
    features=None,
    max_components: int = MAX_COMPONENTS,
    constant: float = 0.3,
    random_state=None,
) -> Order:
    """The number K of hidden states behind a sequence of observations.

    The cross-covariance of consecutive observations has rank K. Rules to read it off an estimate:

    - "correlations": one more than the canonical correlations beyond what chance explains;
    - "threshold": singular values larger than C √(log n/n), C = `constant`;
    - "elbow": the point of the largest curvature of the singular values (needs kneed);
    - "ratio": the largest ratio of a singular value to the next;
    - "likelihood": the number whose model, fitted on the first 70% of every sequence, gives the
      rest the largest log-likelihood, or the smallest number within half a standard error of it.

    Parameters
    ----------
    X : array or DataFrame of shape (n, d)
        Observations; rows with NaN are missing.
    lengths : sequence of int, optional
        Rows of each sequence.
    method : str
    kernel : Kernel, str, scikit-learn kernel or callable
    features : FeatureMap, optional
    max_components : int
        Largest number considered.
    constant : float
        C of the threshold.
    random_state : int, Generator or None
        For the models of "likelihood".

    Returns
    -------
    Order
        A whole number; `singular_values`, `correlations`, `threshold` and `scores` tell how it
        was found.

    References
    ----------
    Spiteri (2023), section 3.5; Satopää et al. (2011), Kneedle; Johnstone (2001), On the
    distribution of the largest eigenvalue; MATH §9.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_hmm("separated", 5000, random_state=0)
    >>> km.estimate_order(data.X)
    2
    """
    check_choice(method, "method", METHODS)
    limit = check_count(max_components, "max_components")
    model = KernelHMM(kernel=kernel, features=features, random_state=random_state)
    spectrum = Spectrum(model.draft(X, lengths).moments, limit)
    if method == "likelihood":
        return by_likelihood(model, X, lengths, spectrum)
    return choose_order(spectrum, method, constant)


def by_likelihood(model, X, lengths, spectrum: Spectrum) -> Order:
    """The smallest number whose held-out log-likelihood is within half a standard error."""
    sequences = check_sequences(lengths, len(X))
    cuts = [s.start + max(1, round(TRAINING * (s.stop - s.start))) for s in sequences]
    early = [slice(s.start, cut) for s, cut in zip(sequences, cuts, strict=True)]
    late = [slice(cut, s.stop) for s, cut in zip(sequences, cuts, strict=True) if cut < s.stop]
    past, future = _rows(X, early), _rows(X, late)
    rows = {}
    for K in range(1, spectrum.limit + 1):
        fitted = clone(model).set_params(n_components=K)
        fitted.fit(past, [s.stop - s.start for s in early])
        rows[K] = fitted.log_predictive(future, [s.stop - s.start for s in late])
        best = max(rows, key=lambda k: np.mean(rows[k]))
        if K - best >= PATIENCE:
            break
    enough = [K for K in rows if not _worse(rows[K], rows[best])]
    scores = {K: float(np.mean(values)) for K, values in rows.items()}
    return Order(min(enough), "likelihood", spectrum.singular_values, scores=scores)


def _rows(X, parts: list[slice]):
    """Rows of a table or an array."""
    numbers = np.concatenate([np.arange(s.start, s.stop) for s in parts] or [np.arange(0)])
    if hasattr(X, "iloc"):
        return X.iloc[numbers]
    return arrays.take(as_points(X, "X", gaps=True), numbers, axis=0)


def _worse(rows: np.ndarray, best: np.ndarray) -> bool:
    loss = best - rows
    return bool(loss.mean() > SLACK * loss.std() / len(loss) ** 0.5)
