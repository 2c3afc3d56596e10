"""Mean embeddings: distributions as weighted points and a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core import Array, Interval, Labels, arrays, checks
from ..core.labels import law_frame
from ..core.old_names import attribute
from ..kernels import Kernel, as_kernel, fitted_kernel
from . import positive_part, recovery
from .line import Line, ends, quantiles
from .move import Wide
from .scored import Scored
from .weighted import WeightedPoints

Width = float | Sequence[float] | None
UNNAMED = Labels()
ROUGHEST = 0.5  # error of the mass of a law that is drawn from once
TAIL = 0.159  # of a normal law, beyond a standard deviation
ROUNDING = 1e-14  # of the variance of the points, which a column that goes with another may keep


class MeanEmbedding(Scored, WeightedPoints):
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

    # a file of version 1 has none of these
    _bandwidth: Width = None
    _labels = UNNAMED
    _extrapolated: np.ndarray | None = None
    _steps = False
    _smooth: Kernel | None = None  # of densities, where it is of another kind than the kernel
    _broad = False  # whether modes are by the kernel itself, whatever the bandwidth
    _wide: Wide | None = None
    _asked: Kernel | None = None  # the kernel before its lengthscale was chosen from the points

    def __init__(self, points, weights=None, kernel="gaussian"):
        rows, names = checks.frozen(checks.as_points(points, "points")), checks.column_names(points)
        asked = as_kernel(kernel).bind(names)
        kernel = fitted_kernel(asked, rows, argument="points")
        n = rows.shape[0]
        if weights is None:
            weights = arrays.like(np.full(n, 1.0 / n), rows)
        weights = _check_weights(weights, n)
        checks.check_library(weights, rows, "weights", "the points")
        super().__init__(rows, weights, None, kernel)
        self._labels = Labels.of(None, names)
        self._asked = None if asked == kernel else asked

    def carrying(
        self,
        bandwidth: Width = None,
        labels: Labels = UNNAMED,
        extrapolated: np.ndarray | None = None,
        steps: bool = False,
        smooth: Kernel | None = None,
        broad: bool = False,
        wide: Wide | None = None,
    ) -> MeanEmbedding:
        """The same with what an estimator knows of it.

        The bandwidth chosen, names of columns and rows, which laws were asked for outside the
        training data, whether weights are those of a mean learned by squares (distribution
        functions then stay steps beside the bandwidth, and densities are the nearest to q), of
        which kind the kernel of densities is, if not as that of the embedding, whether modes are by
        the latter, not at the bandwidth, and which wide law whatever has a bandwidth takes a share
        of: moments and probabilities are those of the weighted points alone.
        """
        known = {"_bandwidth": bandwidth, "_labels": labels, "_extrapolated": extrapolated}
        return self.altered(**known, _steps=steps, _smooth=smooth, _broad=broad, _wide=wide)

    def moved(self, shift, widths: np.ndarray | None = None) -> MeanEmbedding:
        """All points moved by `shift`, of shape (d,) or (1, d), or each by its own, (n, d).

        Columns are made so much wider before, `widths` (d,): points, kernel and bandwidth.
        """
        wide = self._wide and self._wide.moved(arrays.to_numpy(shift), widths)
        if widths is None:
            return self.altered(_points=self._points + shift, _wide=wide)
        points = self._points * arrays.like(widths, self._points) + shift
        width: Width = self._bandwidth
        if width is not None:
            width = tuple((np.asarray(width) * widths).tolist())
        kernel = self._kernel.scaled(widths)
        return self.altered(_points=points, _kernel=kernel, _bandwidth=width, _wide=wide)

    def tilted(self, factor: Callable) -> MeanEmbedding:
        """The law whose density is `factor` times this one's: weights w_i f(x_i), of sum one.

        That of another prior, for a posterior: the factor is prior over prior. Where the factor is
        large only at points whose weights cancel (a sum below half of that of the positive ones),
        the negative weights are left out, as there would be nothing left to divide by. So is a
        wide law: what is beyond all points, the factor may rule out.

        Parameters
        ----------
        factor : callable
            Maps points (n, d) to numbers (n,), none negative; a constant in it does not matter.

        Raises
        ------
        ValueError
            If a factor is negative or not finite, or zero at all points.

        Examples
        --------
        >>> import kernelmean as km
        >>> m = km.MeanEmbedding([0.0, 1.0], [0.5, 0.5], km.Gaussian(0.1))
        >>> m.tilted(lambda x: 1.0 + 2.0 * x[:, 0]).weights
        array([0.25, 0.75])
        """
        return self.tilted_by(tilts(factor, self._points))

    def tilted_by(self, tilt) -> MeanEmbedding:
        """`tilted` by its values at the points, (n,), or (batch, n) where members differ."""
        xp = arrays.namespace(self._points)
        weights = self.weights * tilt
        above = xp.clip(weights, 0.0, None)
        whole, most = xp.sum(weights, axis=-1), xp.sum(above, axis=-1)
        if not bool(xp.all(most > 0)):
            raise ValueError("factor is zero wherever a law has weight: nothing is left of it")
        kept = xp.where((whole >= 0.5 * most)[..., None], weights, above)
        kept = kept / xp.sum(kept, axis=-1)[..., None]
        return self.altered(_left=kept, _right=None, _wide=None)

    @property
    def bandwidth(self) -> Width:
        """γ of densities, modes, draws (and quantiles) where an estimator chose it, or None."""
        return self._bandwidth

    @property
    def labels(self) -> Labels:
        """Names of the columns of the points, and the index of the laws."""
        return self._labels

    @property
    def extrapolated(self) -> np.ndarray | None:
        """Which laws were asked for outside the training data, (batch,); None is not known."""
        return self._extrapolated

    def __getitem__(self, index) -> MeanEmbedding:
        m = super().__getitem__(index)
        m._labels = self._labels.at(index, len(self))
        m._extrapolated = None if self._extrapolated is None else self._extrapolated[index]
        return m

    def marginal(self, columns) -> MeanEmbedding:
        m, chosen = super().marginal(columns), np.atleast_1d(columns).tolist()
        m._labels, m._asked = self._labels.of_columns(chosen), None
        if isinstance(m._bandwidth, tuple):
            m._bandwidth = tuple(m._bandwidth[j] for j in chosen)
        m._wide = m._wide and m._wide.on(chosen)
        return m

    def __repr__(self) -> str:
        n, d = self._points.shape
        many = "" if self.batch is None else f"batch of {self.batch}, "
        return f"MeanEmbedding({many}{n} points in {d} dimension(s), {self._kernel!r})"

    # ------------------------------------------------------------ answers

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
        values = checks.as_floats(f(self._points), "f(points)")
        n = self._points.shape[0]
        if values.ndim not in (1, 2) or values.shape[0] != n:
            raise ValueError(
                f"f returned shape {tuple(values.shape)} for {n} points; (n,) or (n, k) is needed"
            )
        checks.check_finite(values, "f(points)")
        return self.apply_weights(values)

    def mean(self) -> Array:
        """Σ_i w_i x_i / Σ_i w_i, shape (d,) or (batch, d)."""
        m = self.normalised()
        return m.apply_weights(m._points)

    def cov(self) -> Array:
        """Σ_i w_i (x_i − m)(x_i − m)ᵀ / Σ_i w_i, negative eigenvalues set to zero.

        Weights of both signs can leave a column a variance of zero, or less, where the law is wide:
        then it is that of half the distance between the 16% and 84% quantiles. And where quantiles
        are not smoothed it is at least .32 of that: no law with these has a smaller one.

        Shape (d, d) or (batch, d, d).
        """
        xp, C = arrays.namespace(self._points), recovery.covariance(self.normalised())
        variance = xp.linalg.diagonal(C)
        varies = variance > ROUNDING * arrays.units(self._points) ** 2
        steps = self._width("own") == 0.0 and self.is_signed()
        share = 2 * TAIL if steps else 0.0
        if share == 0.0 and bool(xp.all(varies)):
            return C
        # of one table: a pass for each would be twice. Those of the points, whatever is beside them
        ends = MeanEmbedding.quantile(self, [TAIL, 1 - TAIL])
        square = (0.5 * (ends[..., 1, :] - ends[..., 0, :])) ** 2
        least = xp.where(varies, share * square, square)
        more = arrays.at_least(least - variance, 0.0)
        return C + more[..., None] * arrays.like(np.eye(more.shape[-1]), C)

    covariance = attribute("covariance", "cov")

    def std(self) -> Array:
        """Standard deviation of every column, √diag(cov), shape (d,) or (batch, d)."""
        xp = arrays.namespace(self._points)
        return xp.sqrt(xp.linalg.diagonal(self.cov()))

    def probability(self, event: Callable) -> Array:
        """P(event) = Σ_i w_i 1{x_i in the event} / Σ_i w_i, kept within [0, 1].

        Parameters
        ----------
        event : callable
            Maps points (n, d) to booleans (n,).

        Returns
        -------
        array of shape () or (batch,)

        Examples
        --------
        >>> import kernelmean as km
        >>> m = km.MeanEmbedding([0.0, 1.0, 2.0], [0.5, 0.75, -0.25], km.Gaussian(1.0))
        >>> float(m.probability(lambda x: x[:, 0] < 1.5))
        1.0
        """
        found = self.normalised().apply_weights(checks.happens(event, self._points))
        return arrays.namespace(found).clip(found, 0.0, 1.0)

    def density(self, Y, bandwidth=None, signed: bool = False) -> Array:
        """p(y_j) = max(q(y_j), 0)/∫ max(q, 0), q(y) = Σ_i w_i k̄_γ(x_i, y)/Σ_i w_i.

        With weights of both signs q may dip below zero; its positive part integrates to 1 + N,
        and `negative_mass` is N. Without negative weights N = 0 and p = q.

        For laws of `ConditionalEmbedding`, and of `KernelBayes` by weighted pairs, p is
        max(q − c, 0), with c so high that this integrates to one: of all densities the nearest to
        q in mean square, which is what their weights are learned by, and no farther than q from
        the truth. The positive part keeps all that noise of both signs left where the law is not;
        it is of laws that are judged by their log densities, which it loses least of.

        Learned from ten pairs or more, with any kernel of columns on the line, those laws are
        .99 p + .01 g, with g a product of Laplace laws around the median of the points (of
        residuals, where laws are of these), 1.5 times their mean distance from it wide. So are
        `log_density`, draws, regions, and whatever else is asked for with a bandwidth.

        Parameters
        ----------
        Y : array of shape (m, d)
        bandwidth : float or sequence of float, optional
            γ, apart from the lengthscale that the embedding lives on. None is the one carried
            (`bandwidth`), or else follows Silverman's rule, per column:
            γ_j = (4/(d + 2))^{1/(d+4)} n_e^{−1/(d+4)} σ_j, with σ_j half the
            distance between the embedding's 16% and 84% quantiles, and n_e = (Σw)²/Σw² its
            effective number of points; for a batch, the median over its members.
        signed : bool
            Return q itself.

        Returns
        -------
        array of shape (m,) or (batch, m)

        References
        ----------
        Spiteri (2023), eqs. 2.1 and 2.7. Glad, Hjort, Ushakov (2003), Correction of
        density estimators that are not densities.

        Examples
        --------
        >>> import numpy as np, kernelmean as km
        >>> m = km.MeanEmbedding([0.0, 1.0], [1.5, -0.5], km.Gaussian(1.0))
        >>> m.density([-1.0, 3.0], bandwidth=0.5, signed=True).round(4)
        array([ 0.1618, -0.0001])
        >>> m.density([-1.0, 3.0], bandwidth=0.5).round(4)
        array([0.1299, 0.    ])
        """
        m, width = self._smoothed(bandwidth)
        q = m.smooth(Y, lambda X, Z: m.kernel.density(X, Z, width))
        return q if signed else self.proper(q, self.checked(Y), bandwidth)

    def proper(self, q, Y, bandwidth=None) -> Array:
        """Densities from signed ones, (m,) or (batch, m), at rows Y, or of each law's own.

        Where the law is moved, its level is the same.
        """
        m, width = self._smoothed(bandwidth)
        p = positive_part.level(m.members(), width, m._steps).proper(q) if m.is_signed() else q
        if self._wide is None:
            return p
        return arrays.like(self._wide.mixed(arrays.to_numpy(p), arrays.to_numpy(Y)), p)

    def log_density(self, Y, bandwidth=None) -> Array:
        """log p(y_j), −inf where the density is zero, shape (m,) or (batch, m).

        With a share of a wide law (see `density`) it is finite wherever floats are: no density is
        smaller than that of the share.

        Parameters
        ----------
        Y, bandwidth
            As for `density`.
        """
        p, least = self.density(Y, bandwidth), self._log_least(self.checked(Y))
        found, xp = arrays.logs(p), arrays.namespace(p)
        return found if least is None else xp.maximum(found, arrays.like(least, p))

    def negative_mass(self, bandwidth=None, error: float = 3e-4) -> tuple[Array, Array]:
        """N = ∫ max(−q, 0): how far weights of both signs are from a density.

        Exact (0) without negative weights. On the line it is a sum over the cells of a grid, to
        1e-6 or so; on the circle, by the trapezoidal rule; in the plane, for a kernel that is a
        product over columns, a sum over two grids, up to 7e10 products of points, features and
        nodes. Elsewhere it is an average over draws from all points, a few thousand and then as
        many as its standard error asks for; they are evenly spread and always the same.

        Parameters
        ----------
        bandwidth : float or sequence of float, optional
            As for `density`.
        error : float
            Standard error, by 1 + N, that is small enough.

        Returns
        -------
        mass, error : floats, or arrays of shape (batch,)
            `error` is the standard error of the draws, or the distance of either grid from the
            mean of both; otherwise 0.

        Warns
        -----
        NumericalWarning
            If 131,072 draws (fewer for more than 8,192 points, up to four times as many for fewer
            than 128) leave an error over 1e-3 (1 + N), or over what is asked.
        """
        m, width = self._smoothed(bandwidth)
        mass, rough = map(self._like, positive_part.negative_mass(m.members(), width, error))
        return mass, rough

    def cdf(self, Y, bandwidth="own") -> Array:
        """Distribution function of each column at the rows of Y.

        F_j(y) = Σ_i w_i 1{x_ij ≤ y}/Σ_i w_i, rearranged like `quantile`, or with a bandwidth the
        integral of that column's `density`.

        Parameters
        ----------
        Y : array of shape (m, d)
        bandwidth : float or sequence of float, optional
            As for `quantile`.

        Returns
        -------
        array of shape (m, d) or (batch, m, d)

        Examples
        --------
        >>> import numpy as np, kernelmean as km
        >>> m = km.MeanEmbedding([0.0, 1.0], [0.25, 0.75], km.Gaussian(1.0))
        >>> m.cdf([0.0, 0.5, 1.0])[:, 0]
        array([0.25, 0.25, 1.  ])
        >>> m.cdf([0.0, 0.5, 1.0], bandwidth=0.5)[:, 0].round(4)
        array([0.1421, 0.3292, 0.6193])
        """
        Y = arrays.to_numpy(self.checked(Y))
        found = [line.cdf(y) for line, y in zip(self._lines(bandwidth), Y.T, strict=True)]
        return self._like(np.stack(found, axis=-1))

    def quantile(self, q, bandwidth="own") -> Array:
        """Quantiles of each column: where the distribution function reaches `q`.

        F_j(t) = Σ_i w_i 1{x_ij ≤ t} / Σ_i w_i, made increasing by rearrangement (sorting its
        values) where weights of both signs make it wiggle.

        Parameters
        ----------
        q : float or sequence of float in [0, 1]
        bandwidth : "own", float or sequence of float, optional
            γ, one for all columns or one each. 0 is no smoothing. Otherwise F_j is that of
            `marginal(j).density`, made proper column by column; None is the default bandwidth of
            each. "own" is the bandwidth carried (`bandwidth`), or else 0; it is also 0 for laws of
            `ConditionalEmbedding` and `KernelBayes` by weighted pairs.

        Returns
        -------
        array of shape (d,) for a number, (k, d) for a sequence; a batch goes in front

        References
        ----------
        Chernozhukov, Fernández-Val, Galichon (2010), Quantile and probability curves without
        crossing.
        """
        return self._like(quantiles(self._lines(bandwidth), q))

    def interval(self, level: float = 0.95, kind: str = "central", bandwidth="own") -> Interval:
        """Interval of each column that holds the probability `level`.

        Parameters
        ----------
        level : float in (0, 1)
        kind : "central" or "shortest"
            Between the quantiles (1 − level)/2 and (1 + level)/2, or the narrowest of all, which
            is that of the `density`.
        bandwidth : float or sequence of float, optional
            As for `quantile`.

        Returns
        -------
        Interval
            `lower` and `upper`, arrays of shape (d,) or (batch, d).
        """
        if not isinstance(kind, str) or kind == "own":  # before kind, for one version
            checks.warn_caller("interval(level, bandwidth) is now bandwidth=", FutureWarning)
            kind, bandwidth = "central" if bandwidth == "own" else bandwidth, kind
        if isinstance(bandwidth, str) and bandwidth == "own" and kind == "shortest":
            bandwidth = None
        return Interval.between(self._like(ends(self._lines(bandwidth), level, kind)))

    def region(self, level: float = 0.95, bandwidth=None) -> Array | list[Array]:
        """Highest-density region {y : p(y) ≥ c} of probability `level`, of a single column.

        Parameters
        ----------
        level : float in (0, 1)
        bandwidth : float, optional
            As for `density`.

        Returns
        -------
        array of shape (k, 2), or a list of one for each member of a batch
            Disjoint intervals from left to right.

        References
        ----------
        Hyndman (1996), Computing and graphing highest density regions.

        Examples
        --------
        >>> import kernelmean as km
        >>> m = km.MeanEmbedding([0.0, 5.0], [0.5, 0.5], km.Gaussian(1.0))
        >>> m.region(0.8, bandwidth=0.5).round(3)
        array([[-0.641,  0.641],
               [ 4.359,  5.641]])
        """
        checks.check_level(level)
        d = self._points.shape[1]
        if d != 1:
            raise ValueError(f"the embedding has {d} columns; one is needed: take marginal(column)")
        (line,) = self._lines(bandwidth)
        found = [arrays.like(pieces, self._points) for pieces in line.regions(level)]
        return found if self.batch is not None else found[0]

    def sample(self, n: int, random_state=None, bandwidth=None) -> Array:
        """Draws from the `density`.

        On the line weights of both signs are drawn from by the inverse distribution function.
        Otherwise by rejection: a point is proposed from the positive weights, smoothed by the
        kernel with bandwidth γ, and kept with probability max(q, 0)/q⁺, or
        max(q − c, 0)/q⁺, q⁺ being the density of the positive weights alone.

        Parameters
        ----------
        n : int
        random_state : int, Generator, RandomState or None
        bandwidth : float or sequence of float, optional
            As for `density`.

        Returns
        -------
        array of shape (n, d) or (batch, n, d)

        Warns
        -----
        NumericalWarning
            If fewer than one proposal in a hundred is kept: the rest of the draws are then from the
            positive weights.

        References
        ----------
        Spiteri (2023), Lemma 4.7, corrected (MATH §12).
        """
        checks.check_count(n, "n")
        rng, (m, width) = checks.generator(random_state), self._smoothed(bandwidth)
        every = m.members()
        height, signed = np.zeros(len(every)), every.is_signed()
        if signed and positive_part.has_line(every):
            line = Line(every, width, wide=self._wide, nearest=m._steps)
            return self._like(line.sample(n, rng)[:, :, None])
        if signed and m._steps:
            rough = ROUGHEST / n**0.5  # shares among n draws are not known any better
            height = positive_part.level(every, width, True, rough).height
        draws = positive_part.rejection(every, m.kernel.smoothing(width), height, n, rng)
        return self._like(self._wide.replace_some(draws, rng) if self._wide else draws)

    def mode(self, n_starts: int = 10) -> Array:
        """Preimage: the point x whose k(x, ·) is nearest to μ, shape (d,) or (batch, d).

        With the bandwidth carried for the lengthscale of k, if there is one: where the density is
        highest. Not so for laws by weighted pairs whose modes by k are clearly nearer to pairs
        left out: in many columns tops of densities are noise.

        For radial kernels by the fixed point x ← Σ w_i g_i x_i / Σ w_i g_i from several starts
        (Mika et al. 1999; g = k for the Gaussian kernel); otherwise the best of the points. For
        `Periodic`, `Rotation` and `Frobenius(rotations=True)` it stays on the circle or among
        rotations.
        """
        checks.check_count(n_starts, "n_starts")
        if self._bandwidth is None or self._broad:
            return recovery.preimage(self, n_starts)
        m = self._proper()
        if positive_part.has_line(m):
            (line,) = self._lines(self._bandwidth)
            return self._like(line.mode()[:, None])
        return recovery.preimage(m.altered(_kernel=m.kernel.smoothing(m.bandwidth)), n_starts)

    def to_frame(self, level: float = 0.95):
        """A pandas DataFrame, a row for each law: mean, std and interval of every column.

        Columns have the names of the table that the points, or the training targets, came as; rows
        the index of the table asked about.
        """
        return law_frame(self, self._labels, level)

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

        Both live in the RKHS of one kernel. Where each has chosen its lengthscale from its own
        points, for a kernel that was asked for alike, the one chosen from the points of both takes
        the place of the two. The Gram matrix between the points is formed in blocks only.

        Raises
        ------
        ValueError
            If the kernels differ otherwise.
        """
        one, another = self._in_one_space(other)
        values = another(one.points)  # (n,) or (batch', n)
        return one.apply_weights(values.T if values.ndim == 2 else values)

    def mmd(self, other: MeanEmbedding) -> Array:
        """Maximum mean discrepancy ‖μ − ν‖; shapes, and the kernel, as for `inner`.

        References
        ----------
        Gretton et al. (2012), A kernel two-sample test.

        Examples
        --------
        >>> import kernelmean as km
        >>> near, far = km.MeanEmbedding([0.0, 1.0]), km.MeanEmbedding([5.0, 6.0])
        >>> near.mmd(far).round(2)  # at the median distance of the four points
        np.float64(1.27)
        """
        one, another = self._in_one_space(other)
        xp = arrays.namespace(self._points)
        mine, theirs = one._sq_norm(), another._sq_norm()
        if self.batch is not None and other.batch is not None:
            mine = mine[:, None]
        return xp.sqrt(xp.clip(mine - 2 * one.inner(another) + theirs, 0.0, None))

    # ------------------------------------------------------------ inside

    def checked(self, Y) -> Array:
        """Rows that may stand beside the points."""
        checks.check_order(Y, self._labels.columns, "Y", "the embedding")
        return super().checked(Y)

    def _width(self, bandwidth) -> Width:
        """The bandwidth meant: None and "own" are the one carried, if there is one."""
        if isinstance(bandwidth, str):
            checks.check_choice(bandwidth, "bandwidth", ["own"])
            return 0.0 if self._bandwidth is None or self._steps else self._bandwidth
        return self._bandwidth if bandwidth is None else bandwidth

    def _smoothed(self, bandwidth) -> tuple[MeanEmbedding, Any]:
        """Of sum one, with the kernel of densities; and the bandwidth of these."""
        m, width = self._proper(), self._width(bandwidth)
        if width is None:
            return m, recovery.default_bandwidth(m)
        checks.as_each(width, self._points.shape[1], "bandwidth")
        return m, width

    def _lines(self, bandwidth, moves: np.ndarray | None = None) -> Iterator[Any]:
        """The distributions of each column; of each law moved by its own, (batch, d)."""
        known = self._width(bandwidth), self._steps, self._wide
        return recovery.lines(self._proper(), *known, moves=moves)

    def _log_least(self, Y) -> np.ndarray | None:
        """Of the share of the wide law at rows: floats have no density as small as some."""
        return None if self._wide is None else self._wide.log_least(arrays.to_numpy(Y))

    def _like(self, values: np.ndarray) -> Array:
        """Answers of a batch as this one's, in its library."""
        return arrays.like(values if self.batch is not None else values[0], self._points)

    def _proper(self) -> MeanEmbedding:
        """Of sum one, with the kernel of densities."""
        m = self.normalised()
        return m if self._smooth is None else m.altered(_kernel=self._smooth)

    def _sq_norm(self) -> Array:
        return arrays.namespace(self._points).sum(self(self._points) * self.weights, axis=-1)

    def _in_one_space(self, other: MeanEmbedding) -> tuple[MeanEmbedding, MeanEmbedding]:
        """Both with the kernel of either, or, if they asked for the same, with that of both."""
        if not isinstance(other, MeanEmbedding):
            raise ValueError(f"other is {type(other).__name__}; a MeanEmbedding is needed")
        checks.check_order(other, self._labels.columns, "other", "this embedding")
        checks.check_columns(other.points, self._points.shape[1], "other", "this embedding")
        checks.check_library(other.points, self._points, "other", "the points of this embedding")
        if self._kernel == other._kernel:
            return self, other
        if self._asked is None or self._asked != other._asked:
            raise ValueError(
                f"other has kernel {other._kernel!r}, this embedding {self._kernel!r}; distances "
                "need one kernel: build both with the same resolved kernel"
            )
        rows = arrays.namespace(self._points).concat([self._points, other.points])
        order = np.lexsort(arrays.to_numpy(rows).T)  # for both orders of the two the same
        kernel = self._asked.resolve(arrays.take(rows, order, axis=0))
        return self.altered(_kernel=kernel), other.altered(_kernel=kernel)


def _check_weights(weights, n: int) -> Array:
    weights = checks.as_floats(weights, "weights")
    if weights.ndim not in (1, 2):
        raise ValueError(f"weights has shape {tuple(weights.shape)}; (n,) or (batch, n) is needed")
    checks.check_lengths(n, weights.shape[-1], "points", "weights")
    checks.check_finite(weights, "weights")
    return checks.frozen(weights)


def tilts(factor: Callable, points) -> Array:
    """Checked values of a factor at the rows of points."""
    values = checks.as_vector(factor(points), "factor(points)", n=points.shape[0])
    if bool(arrays.namespace(values).any(values < 0)):
        raise ValueError("factor(points) has negative numbers; a density has none")
    return values


def as_embedding(m, kernel: Kernel, name: str, d: int, where: str, names=None) -> MeanEmbedding:
    """An embedding as it is, or samples as one with equal weights; in `d` columns like `where`."""
    checks.check_order(m, names, name, where)
    if not isinstance(m, MeanEmbedding):
        if isinstance(m, Scored):
            raise ValueError(f"{name} is {m!r}; a MeanEmbedding, such as one of them, is needed")
        m = MeanEmbedding(checks.as_points(m, name), kernel=kernel)
    checks.check_columns(m.points, d, name, where)
    return m


def as_one_embedding(m, kernel: Kernel, name: str, d: int, where: str, names=None) -> MeanEmbedding:
    """The same, of one law and no batch of them."""
    one = as_embedding(m, kernel, name, d, where, names)
    if one.batch is not None:
        raise ValueError(f"{name} is a batch of {one.batch} embeddings; a single one is needed")
    return one
