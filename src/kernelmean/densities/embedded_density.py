"""The density of weighted points, its bandwidth chosen by the leave-one-out score."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from ..core import Array, Block, Labels, Line, Summary, arrays, checks
from ..core.elsewhere import by_blocks, few_of
from ..core.minimise import SEARCH_ROWS, minimise_log10
from ..core.moments import canonical_order, copies, evenly
from ..core.parameters import Estimator, check_parameters, either, share
from ..core.threads import doors
from ..embedding.embedding import MeanEmbedding
from ..embedding.law import names_like
from ..embedding.move import Wide
from ..kernels import CorrelatedGaussian, Kernel, Periodic, fitted_kernel
from ..regression.bandwidth import FIRST, bandwidth_lines, spread_ties, with_bandwidth
from ..regression.pairs import BandwidthScore
from .cells import enough, weighted

ROWS, BLOCK = 2000, 256  # that the search looks at, and at once
PRECISION = 1e-3  # in the logarithm of the bandwidth


@by_blocks("pdf", "score_samples")
@doors()
class EmbeddedDensity(DensityMixin, Estimator):
    """p(x) = (1 − a) max(q, 0)/∫max(q, 0) + a·wide(x), q(x) = Σ_i w_i k̄_γ(x_i, x).

    Kernel density estimation, with a small share of a wide law, so that no density is zero: of a
    single row far out it would be. Weights may be of either sign, as those of an embedding are.
    The bandwidth minimises the leave-one-out score
    M = Σ_ij w_i w_j (k̄_γ ∗ k̄_γ)(x_i, x_j) − 2 Σ_i w_i Σ_{j≠i} w_j/(1 − w_i) k̄_γ(x_i, x_j).

    Parameters
    ----------
    kernel : Kernel or str
        The smoothing kernel; a lengthscale of its own is replaced by the bandwidth. "gaussian"
        leans as several columns do (`CorrelatedGaussian`) where M is less so.
    bandwidth : float or sequence of float, optional
        γ, or one per column. None minimises the score over multiples of Silverman's rule (for rows
        with their weights), on at most 2,000 evenly spaced rows, and follows the rate n^{−1/(d+4)}
        from there. Copies of a row (a join, a bootstrap) are left out together; of one column,
        which may be rounded, only if all values are there equally often.
    wide : "auto" or float in [0, 1)
        Share a of a wide law (Laplace, 1.5 mean deviations of X about its median). "auto" is the
        share under which rows left out are likeliest; 0 if the bandwidth is given, and of angles.
    verbose : bool
        Tell each stage of `fit`, what was tried in it, and how long it took.

    Attributes
    ----------
    bandwidth_ : array of shape (d,)
    wide_ : float
        Share of the wide law.
    loo_score_ : float
        M at that bandwidth, over at most 2,000 evenly spaced rows.
    embedding_ : MeanEmbedding
        The weighted points, with quantiles, intervals, modes and more; without the wide law.

    References
    ----------
    Spiteri (2023), eq. 2.2 and 2.9; Silverman (1986), Density estimation, §3.4.3.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> X = np.random.default_rng(0).standard_normal((1000, 1))
    >>> kde = km.EmbeddedDensity().fit(X)
    >>> kde.pdf([[0.0]]).round(1)
    array([0.4])
    """

    ALLOWED: ClassVar = {"wide": either(share, "auto")}

    # a file of an earlier version has not counted its rows, and has no wide law, nor verbose
    _n: int | None = None
    wide: Any = 0.0
    verbose: bool = False
    _wide: Wide | None = None

    def __init__(self, kernel="gaussian", bandwidth=None, wide="auto", verbose=False):
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.wide = wide
        self.verbose = verbose

    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Take the points, and choose the bandwidth unless it is given.

        Of more than 10,000 rows that are elsewhere (Dask, `Rows`), one column or two, the points
        are nodes a sixteenth of the bandwidth apart, or a quarter, between which all rows are
        shared.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
        y : ignored
        sample_weight : array of shape (n,), optional
            Of either sign, with a sum that is not zero; they are scaled to sum to one.

        Raises
        ------
        ValueError
            On malformed input, or columns without spread when the bandwidth is to be chosen.
        """
        check_parameters(self)
        rows, X, sample_weight = few_of(SEARCH_ROWS, X=X, sample_weight=sample_weight)
        points = checks.frozen(checks.as_points(X, "X", min_rows=2, one_d=False))
        checks.note_columns(self, X)
        weights = _normalised(sample_weight, points)
        rows = enough(rows, points.shape[1], "X", most=2)
        self._n = points.shape[0] if rows is None else rows.n
        plain, shares = arrays.to_numpy(points), _uneven(weights)
        start = with_bandwidth(self.kernel, self.bandwidth, plain, "kernel", shares)
        kernel: Any = fitted_kernel(start, points, names=checks.column_names(X))
        few, different = _thinned(points, weights)
        kernels = [kernel]
        if self.bandwidth is None:
            if self.kernel == "gaussian" and points.shape[1] > 1:
                kernels.append(CorrelatedGaussian.of(plain, kernel.lengthscale, shares))
            kernels = [_searched(*few, different * self._n, kernel) for kernel in kernels]
        judged = (_judged(*few, k) for k in kernels)
        self.loo_score_, left_out, kernel = min(judged, key=lambda told: told[0])
        self._wide = self._widened(*few, kernel, left_out)
        if rows is not None:
            cells = weighted(rows, kernel, points.shape[1])
            points = checks.frozen(cells.points)
            weights = cells.sums[:, 0] / cells.sums.sum()
        self.bandwidth_ = np.broadcast_to(kernel.lengthscale, (points.shape[1],)).copy()
        labels = Labels(Labels.of(X).columns)
        m = MeanEmbedding(points, weights, kernel)
        self.embedding_ = m.carrying(tuple(self.bandwidth_.tolist()), labels)
        return self

    def _widened(self, points, weights, kernel: Kernel, left_out) -> Wide | None:
        """The wide law, its share by the densities of rows left out; None without one."""
        fixed = self.wide != "auto" or self.bandwidth is not None or isinstance(kernel, Periodic)
        given = 0.0 if self.wide == "auto" else float(self.wide)
        if fixed and given == 0:
            return None
        X, w = arrays.to_numpy(points), arrays.to_numpy(weights).clip(0.0)
        if fixed:
            return Wide.of(X, given, w)
        return Wide.of(X, weights=w).chosen(arrays.to_numpy(left_out).clip(0.0), X, w)

    @property
    def wide_(self) -> float:
        return 0.0 if self._wide is None else self._wide.share

    def loo_score(self, bandwidth=None) -> float:
        """M at another bandwidth, over all rows."""
        check_is_fitted(self)
        m = self.embedding_
        kernel = m.kernel
        if bandwidth is not None:
            kernel = with_bandwidth(kernel, bandwidth, arrays.to_numpy(m.points), "kernel")
        return _judged(*_each_once(m.points, m.weights), kernel)[0]

    @property
    def _law(self) -> MeanEmbedding:
        """The weighted points with their share of the wide law."""
        check_is_fitted(self)
        return self.embedding_.carrying(tuple(self.bandwidth_.tolist()), wide=self._wide)

    def pdf(self, X) -> Array:
        """p(x) at each row, (m,)."""
        return self._law.density(checks.as_new_points(self, X))

    def score_samples(self, X) -> Array:
        """log p(x) at each row, (m,); −∞ where the positive part of q is zero and `wide_` too."""
        return self._law.log_density(checks.as_new_points(self, X))

    def score(self, X, y=None) -> float:
        """Σ log p(x): the log-likelihood of all rows together, as scikit-learn's KernelDensity."""
        checks.refuse_far(X, "X")
        scores = self.score_samples(X)
        return float(arrays.namespace(scores).sum(scores))

    def sample(self, n_samples: int = 1, random_state=None) -> Array:
        """Draws from p, (n_samples, d)."""
        return self._law.sample(checks.check_count(n_samples, "n_samples"), random_state)

    def summary(self) -> Summary:
        """The fit in words and numbers: rows, kernel, bandwidth along each column."""
        check_is_fitted(self)
        m = self.embedding_
        names = names_like(self, m.points.shape[1])
        n, kind = self._n or m.points.shape[0], type(m.kernel).__name__
        data = [Line("rows", n, f"{n:,}"), Line("kernel", m.kernel, kind)]
        fit = bandwidth_lines(self.bandwidth_, names, self.bandwidth)
        fit.append(Line.of("share of a wide law", self.wide_))
        fit.append(Line.of("leave-one-out score", self.loo_score_))
        return Summary("Density of " + ", ".join(names), [Block("Data", data), Block("Fit", fit)])


def _normalised(weights, points) -> Array:
    xp, n = arrays.namespace(points), points.shape[0]
    if weights is None:
        return arrays.like(np.full(n, 1.0 / n), points)
    weights = checks.as_vector(weights, "sample_weight", n=n)
    total = float(xp.sum(weights))
    if abs(total) <= 1e-12 * float(xp.sum(xp.abs(weights))):
        raise ValueError("sample_weight sums to zero; weights with a sum that is not are needed")
    return weights / total


def _uneven(weights) -> np.ndarray | None:
    """Those of a sample, none below zero; None where all are equal."""
    shares = arrays.to_numpy(weights).clip(0.0)
    return shares if np.ptp(shares) > 0 else None


def _judged(points, weights, kernel: Any) -> tuple[float, Array, Any]:
    """M, the densities of rows by the others, and the kernel that they are of."""
    left_out = by_others(points, weights, kernel)
    square = weights @ _smoothed(points, weights, kernel.self_convolved(points.shape[1]))
    return float(square - 2 * weights @ left_out), left_out, kernel


def by_others(points, weights, kernel: Kernel) -> Array:
    """Σ_{j≠i} w_j/(1 − w_i) k̄(x_i, x_j) of each row i."""
    own = kernel.density(points[:1, :], points[:1, :])[0, 0]
    left, others = 1.0 - weights, _smoothed(points, weights, kernel) - weights * own
    return others / arrays.namespace(points).where(left == 0, 1.0, left)


def _smoothed(points, weights, kernel: Kernel) -> Array:
    """Σ_j w_j k̄(x_i, x_j) of each row i: a block of rows meets those from it on, for k̄ is even."""
    sums = arrays.namespace(points).zeros_like(weights)
    for some in arrays.slices(points.shape[0], BLOCK):
        K = kernel.density(points[some, :], points[some.start :, :])
        sums[some.start :] += weights[some] @ K
        sums[some] += K[:, some.stop - some.start :] @ weights[some.stop :]
    return sums


def _searched(points, weights, n: float, kernel: Kernel) -> Kernel:
    """With the bandwidth for n rows, by the score."""
    (rows, d), X = points.shape, spread_ties(arrays.to_numpy(points))
    score = BandwidthScore.of_points(X, arrays.to_numpy(weights), kernel)
    factor, _ = minimise_log10(score, *FIRST, 9, precision=PRECISION)
    return kernel.scaled(factor * (rows / n) ** (1.0 / (d + 4)))


def _thinned(points, weights) -> tuple[tuple[Array, Array], float]:
    """At most `ROWS` of them, evenly spaced in their canonical order; the share without copies."""
    rows = canonical_order(points, weights[:, None])[evenly(points.shape[0], ROWS)]
    few = arrays.take(weights, rows, axis=0)
    found = _each_once(arrays.take(points, rows, axis=0), few / arrays.namespace(few).sum(few))
    return found, found[0].shape[0] / len(rows)


def _each_once(points, weights) -> tuple[Array, Array]:
    """Copies of a row as one, with their weights: one left out would leave the others.

    Equal values of a single column are copies only where each is there as often as all others.
    """
    if copies(points) is None:
        return points, weights
    _, first, which = np.unique(arrays.to_numpy(points), True, True, axis=0)
    total = np.bincount(which.ravel(), arrays.to_numpy(weights))
    return arrays.take(points, first, axis=0), arrays.like(total, points)
