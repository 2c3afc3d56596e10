"""How many hidden states a sequence has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from . import linalg
from ._validation import as_points, check_choice, check_count, check_positive
from .filtering import check_sequences
from .spectral import Moments, numerical_rank

METHODS = ("correlations", "threshold", "elbow", "ratio", "likelihood")
MAX_COMPONENTS = 10
RANKS = (3, 6, 12, 24)  # numbers of coordinates that are tried
EXTREME = 3.2724  # 99.9% quantile of the Tracy-Widom law of order one
TRAINING = 0.7  # share of every sequence that models are fitted on, the rest held out
PATIENCE = 2  # numbers of states tried beyond the best
SLACK = 0.5  # standard errors of the held-out log-likelihood that fewer states may cost
# least variance of a coordinate, as a share of the largest: small ones are of a few extreme rows
FLOORS = (1e-2, 1e-3, 1e-4, 1e-5)


class Order(int):
    """A number of hidden states that remembers how it was found.

    Attributes
    ----------
    method : str
    singular_values : array
        Those of the cross-covariance of consecutive observations, in descending order.
    correlations : array
        Canonical correlations of consecutive observations ("correlations").
    threshold : float or None
        What singular values or correlations were compared with.
    scores : dict
        Held-out log-likelihood of a row, by number of states ("likelihood").
    """

    method: str
    singular_values: np.ndarray
    correlations: np.ndarray
    threshold: float | None
    scores: dict[int, float]

    def __new__(cls, value: int, method: str, singular_values, **more: Any) -> Order:
        order = super().__new__(cls, value)
        order.method, order.singular_values = method, singular_values
        order.correlations = more.get("correlations", np.empty(0))
        order.threshold, order.scores = more.get("threshold"), more.get("scores", {})
        return order

    def __getnewargs_ex__(self) -> tuple[tuple, dict]:
        """What `copy` and `pickle` make it from again."""
        state = dict(vars(self))
        return (int(self), state.pop("method"), state.pop("singular_values")), state


@dataclass(frozen=True)
class Spectrum:
    """What the rules look at.

    Attributes
    ----------
    moments : Moments
    most : int
        Most states that are looked for.
    """

    moments: Moments
    most: int

    @property
    def limit(self) -> int:
        """The same, but for the numerical rank of what the spectral method takes apart."""
        return min(self.most, numerical_rank(np.linalg.svd(self.moments.skips, compute_uv=False)))

    @property
    def n(self) -> int:
        """Pairs of consecutive observations."""
        return self.moments.n_pairs

    @property
    def singular_values(self) -> np.ndarray:
        """Of C₁₂, descending."""
        return np.linalg.svd(self.moments.pairs, compute_uv=False)

    def by_threshold(self, constant: float) -> Order:
        """#{i : σ_i(C₁₂) > C √(log n/n)} (thesis, Theorem 3.2)."""
        sigma = self.singular_values
        bound = float(constant * (np.log(self.n) / self.n) ** 0.5)
        count = int((sigma > bound).sum())
        return Order(min(max(count, 1), self.limit), "threshold", sigma, threshold=bound)

    def by_elbow(self) -> Order:
        """The point of the largest curvature of the singular values (Kneedle; thesis, §3.5)."""
        try:
            from kneed import KneeLocator
        except ImportError as err:
            raise ImportError(
                'method="elbow" needs kneed: pip install "kernelmean[app]" or pip install kneed'
            ) from err
        sigma = self.singular_values
        few = sigma[: max(2 * self.limit, 3)]
        found = KneeLocator(
            np.arange(1, len(few) + 1), few, curve="convex", direction="decreasing"
        ).knee
        return Order(min(int(found or 1), self.limit), "elbow", sigma)

    def by_ratio(self) -> Order:
        """argmax_i σ_i/σ_{i+1}, over singular values that are not rounding."""
        sigma = self.singular_values
        real = sigma[: numerical_rank(sigma)][: self.limit + 1]
        count = 1 + int(np.argmax(real[:-1] / real[1:])) if len(real) > 1 else 1
        return Order(count, "ratio", sigma)

    def by_correlations(self) -> Order:
        """One more than the canonical correlations that chance does not explain.

        Consecutive observations of K states have at most K − 1 canonical correlations other than
        zero: C₁₂ less the product of the means has rank K − 1, whatever it is multiplied with.
        Taken in the leading r coordinates of the data (r = 3, 6, 12, 24) they have all the same
        noise, which singular values have not: the largest squared correlation of m coordinates
        that have nothing to do with each other is, times n, like the largest eigenvalue of a
        Wishart matrix (m, m), with the Tracy-Widom law (Johnstone 2001). Correlations are counted
        as long as they are beyond its 99.9% quantile, for each r, and the largest count is taken.
        Coordinates of less than one percent of the largest variance are left out, for they are
        those of a few extreme rows, unless all others are correlated.
        """
        for floor in FLOORS:
            found = [self._counted(r, floor) for r in RANKS]
            count, correlations, bound = max(found, key=lambda each: each[0])
            if count <= len(correlations):
                break  # or else every one of the coordinates is correlated: there may be more
        return Order(
            min(count, self.limit),
            "correlations",
            self.singular_values,
            correlations=correlations,
            threshold=bound,
        )

    def _counted(self, r: int, floor: float) -> tuple[int, np.ndarray, float]:
        """The order by r coordinates, their correlations, and the first bound not exceeded."""
        correlations = self.correlations(r, floor)
        bounds = noise_bound(len(correlations) - np.arange(len(correlations)), self.n)
        above = correlations > bounds
        count = len(above) if above.all() else int(np.argmin(above))
        return count + 1, correlations, float(bounds[min(count, len(bounds) - 1)])

    def correlations(self, r: int, floor: float) -> np.ndarray:
        """Canonical correlations of consecutive observations in r leading coordinates."""
        return np.linalg.svd(whitened(self.moments, r, floor)[1], compute_uv=False)


def whitened(moments: Moments, r: int, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """Directions (r', q) that whiten the q ≤ r leading ones, and the C₁₂ of these, centred.

    Centred exactly, on the means of the first and of the second of two neighbours: where the
    variance is small, what a row more or less does to the mean would count as a correlation.
    """
    values, vectors = np.linalg.eigh(moments.second - np.outer(moments.mean, moments.mean))
    lead = np.argsort(values)[::-1][:r]
    lead = lead[values[lead] > floor * values.max()]
    white = vectors[:, lead] / values[lead] ** 0.5
    centred = moments.pairs - np.outer(moments.earlier, moments.later)
    return white, white.T @ centred @ white


def noise_bound(m, n: int):
    """99.9% quantile of the largest canonical correlation of m and m coordinates of pure noise."""
    side = (m - 0.5) ** 0.5
    centre, scale = 4 * side**2, 2 * side * (2 / side) ** (1 / 3)
    return ((centre + EXTREME * scale) / n) ** 0.5


def choose_order(spectrum: Spectrum, method: str, constant: float) -> Order:
    """By any rule but held-out likelihood."""
    check_choice(method, "method", METHODS)
    if method == "threshold":
        return spectrum.by_threshold(check_positive(constant, "constant"))
    return {
        "elbow": spectrum.by_elbow,
        "ratio": spectrum.by_ratio,
        "correlations": spectrum.by_correlations,
    }[method]()


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
    from .hmm import KernelHMM

    check_choice(method, "method", METHODS)
    limit = check_count(max_components, "max_components")
    model = KernelHMM(kernel=kernel, features=features, random_state=random_state)
    spectrum = Spectrum(model._moments_of(X, lengths), limit)
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
    return linalg.take(as_points(X, "X", gaps=True), numbers, axis=0)


def _worse(rows: np.ndarray, best: np.ndarray) -> bool:
    loss = best - rows
    return bool(loss.mean() > SLACK * loss.std() / len(loss) ** 0.5)
