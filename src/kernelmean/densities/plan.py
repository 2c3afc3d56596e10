"""How a conditional density is fitted: parameters sought on some rows, then learned from all."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ..core import Array, Rows, arrays, checks
from ..core.minimise import largest, mean_and_error, minimise_log10
from ..core.moments import evenly
from ..core.stages import stage
from ..embedding.move import MOST, Bend, Wide
from ..features.base import FeatureMap
from ..features.choose import as_feature_map, fit_pairs, learns_from_pairs
from ..features.landmarks import Exact, Nystroem, quietly
from ..kernels import CorrelatedGaussian, Gaussian, Kernel, fitted_kernel
from ..regression.bandwidth import spread_ties, with_bandwidth
from ..regression.lengthscales import ROWS_PER_SCALE
from ..regression.smoother import Smoother
from ..regression.support import Support
from .bending import Bent, bent_columns, chosen_bend
from .cells import Sums
from .embedded_density import EmbeddedDensity
from .fit import TINY, Fit, longest
from .location import TUNED_RANK, Location, LocationSearch, Weights
from .outliers import MeanSearch
from .rival import linear_normal
from .search import DRAFT_RANK, ROUGH_MASS, DensityScore, DensitySearch
from .standard import Forms, Standard, clearly, log_sizes, searched

FEW, ROWS = 500, 1500  # rows that the search looks at, in its first rounds and in the last
SPARE = 6  # rows beyond the columns, below which where laws lie is not learned apart
REGS = (-9.0, 2.0)  # of log10 λ
UNSURE = 1.0  # −log(1 − h)/2 of a row, h the leverage, of which others say little
WIDE_ROWS = 500  # whose densities choose the share of the wide law
REG_STEP = 10**0.25  # towards larger λ
REG_ROWS = 4_000  # whose score chooses λ
WEIGHED = 4_000  # whose residuals choose weights of the rows of a location


@dataclass(frozen=True)
class Draft:
    """Parameters sought on some of the rows."""

    search: DensitySearch
    line: MeanSearch | None = None  # that of the location, if there is one
    wider: bool = False  # where the mean is less known, or where x says so
    sizes: LocationSearch | None = None  # that of how wide laws are, if x says so
    weights: Weights | None = None  # under which the location was sought
    log_size: np.ndarray | float = 0.0  # of the rows of the search, summed over columns
    location: Location | Standard | None = None  # learned from the rows of the search

    @cached_property
    def log_densities(self) -> np.ndarray:
        """Of rows left out, as the search stands when first asked."""
        return self.search.log_densities() - self.log_size

    def bandwidth(self, n: int) -> tuple[float, ...]:
        """For n rows: the one found falls at the rate n^{−1/(d+4)}; one given stays."""
        rows, d = self.search.Y.shape
        factor = self.search.factor
        if self.search.sought:
            factor *= (rows / n) ** (1.0 / (d + 4))
        return tuple((factor * np.broadcast_to(self.search.kernel_y.lengthscale, (d,))).tolist())


@dataclass(frozen=True)
class Plan:
    """What is asked for, kernels resolved."""

    kernel_x: Kernel
    kernel_y: Kernel
    bandwidth: Any
    reg: float | None
    features: Any
    intercept: bool
    tune: bool
    location: bool | None  # None leaves to the rows where laws lie, and how wide they are there
    wide: Any  # share of the wide law; None is sought
    leans: bool  # whether the kernel of y may lean
    bend: Bend | None = None  # what follows is on its scale

    def bent(self, X, Y) -> tuple[Self, Array]:
        """With a bent scale for Y, if rows left out are clearly more likely on it; and Y on it."""
        d, whole = X.shape[1], arrays.to_numpy(Y)
        kernel = self.kernel_x.scaled(np.full(d, d**0.5)) if self.tune else self.kernel_x
        found = chosen_bend(*self._few(FEW, X, Y), kernel) if self.location is None else None
        if found is None:
            return self, Y
        bend = replace(found, low=whole.min(axis=0), high=whole.max(axis=0))
        return replace(self, bend=bend), bend(Y)

    @stage("scales on few rows")
    def draft(self, X, Y) -> Draft:
        """Scales and bandwidth, sought on a few hundred rows.

        Those around a mean that explains y, unless rows left out are clearly likelier without.
        """
        X, Y = self._few(FEW, X, Y)
        plain = None if self.location else Draft(self._searched(X, Y, self.kernel_x))
        around = None if self.location is False else self._around(X, Y)
        if plain is None or around is None:
            return plain or around  # type: ignore[return-value]
        by, error = mean_and_error(around.log_densities - plain.log_densities)
        return around if by > -error else plain

    def _around(self, X: np.ndarray, Y: np.ndarray) -> Draft | None:
        """Around a mean, and as wide as x says if rows left out are clearly likelier so.

        None where that is up for choice and the mean explains nothing, or rows are too few to say.
        """
        if not self.location and len(X) < X.shape[1] + SPARE:
            return None
        line = self._line(X, Y)
        location = self._mean(X, Y, line)
        if not self.location and not location.explains:
            return None
        draft = Draft(self._searched(X, arrays.to_numpy(location.points), line.kernel), line)
        told = log_sizes(arrays.to_numpy(location.residuals))
        vary = Location.on(line.design(X, self._feature_map()), told).explains
        sure = float(arrays.to_numpy(location.doubt).max()) < UNSURE
        if self.location or (sure and not vary):
            return draft
        sizes = self._sizes(X, told) if vary else None
        standard, log_s = self._standard(X, Y, line, sizes)
        if not standard.varies:
            return draft
        search = draft.search.further(X, arrays.to_numpy(standard.points))
        wider = Draft(search, line, True, sizes, standard.where.weights, log_s.sum(axis=1))
        return wider if clearly(wider.log_densities - draft.log_densities) else draft

    def _line(self, X: np.ndarray, Y: np.ndarray) -> MeanSearch:
        """That of a mean; its kernel bends columns with long tails if Y is likelier so."""
        plain = best = MeanSearch(self.kernel_x, X, Y, free=self.tune)
        kernels = self._bent(X)
        least = plain.loss if kernels else 0.0
        for kernel, doubted in kernels:
            bent = MeanSearch(kernel, X, Y)
            same = np.array_equal(bent.Y, plain.Y)  # outliers of y, if any, lie where both had them
            loss = (bent if same else LocationSearch(kernel, X, plain.Y)).loss
            if loss < least - doubted / len(X):
                best, least = bent, loss
        return best

    def _bent(self, X: np.ndarray) -> list[tuple[Bent, float]]:
        """Kernels that bend columns with long tails, where that is up for choice."""
        asked = self.location is None and self.tune and self.features is None
        return bent_columns(X, self.kernel_x) if asked else []

    def _sizes(self, X: np.ndarray, told: np.ndarray) -> LocationSearch:
        """That of how wide laws are, on the scales of X on which it is likeliest."""
        best = searched(X, told, like=self.kernel_x)
        for kernel, doubted in self._bent(X):
            bent = searched(X, told, like=self.kernel_x, bend=kernel.bend)
            best = bent if bent.loss < best.loss - doubted / len(X) else best
        return best

    def _learned(self, X, Y, line, draft: Draft, rows: Rows | None = None) -> Any:
        """Where laws lie, and how wide they are there, with the parameters found."""
        if not draft.wider:
            return line and self._mean(X, Y, line, rows)
        return self._standard(X, Y, line, draft.sizes, rows)[0]

    def _standard(
        self, X, Y, line: MeanSearch, sizes: LocationSearch | None, rows: Rows | None = None
    ) -> tuple[Standard, np.ndarray]:
        """m and s; what weights rows have is decided on some of them."""
        whole, outcomes = arrays.to_numpy(X), arrays.to_numpy(Y)
        some = evenly(len(whole), WEIGHED)
        design = line.design(arrays.take(X, some, axis=0), self._feature_map())
        those = arrays.take(Y, some, axis=0)

        def learn(weights: Weights | None) -> Location:
            return line.mean(design, those, self.bend, weights=weights)

        forms = Forms(whole[some], sizes) if sizes else None
        found = Standard.weighed(learn, whole[some], outcomes[some], forms)
        if rows is None and len(some) == len(whole):
            return found
        location = self._mean(X, Y, line, rows, found[0].where.weights)
        return Standard.of(location, whole, outcomes, Forms(whole, sizes) if sizes else None)

    def _searched(self, X: np.ndarray, Y: np.ndarray, kernel_x: Kernel) -> DensitySearch:
        """With a kernel of Y that leans if that scores better."""
        how = self.intercept, self.tune, self.bandwidth is None, self.reg, DRAFT_RANK
        kernel_y = with_bandwidth(self.kernel_y, self.bandwidth, Y, "kernel_y")
        plain = DensitySearch(kernel_x, kernel_y, X, Y, *how).draft()
        leaning = EmbeddedDensity(wide=0.0).fit(Y).embedding_.kernel if self.leans else None
        if not isinstance(leaning, CorrelatedGaussian):
            return plain
        kernel_y = with_bandwidth(leaning, self.bandwidth, Y, "kernel_y")
        other = DensitySearch(kernel_x, kernel_y, X, Y, *how).draft()
        return min(plain, other, key=lambda found: found.score())

    @stage("scales")
    def refined(self, draft: Draft, X, Y) -> Draft:
        """The draft taken further, on at most `ROWS` rows."""
        X, Y = self._few(ROWS, X, Y)
        line = draft.line and draft.line.further(X, Y, draft.weights)
        location = self._learned(X, Y, line, draft)
        points = Y if location is None else arrays.to_numpy(location.points)
        return replace(draft, search=draft.search.further(X, points), line=line, location=location)

    @staticmethod
    def _few(rows: int, X, Y) -> tuple[np.ndarray, np.ndarray]:
        """At most so many evenly spaced rows, and ten to each column, ties of Y drawn apart."""
        X, Y = arrays.to_numpy(X), arrays.to_numpy(Y)
        some = evenly(len(X), max(rows, 2 * ROWS_PER_SCALE * X.shape[1]))
        return X[some], spread_ties(Y[some])

    @stage("all rows")
    def finish(self, draft: Draft, X, Y, rows: Rows | None = None) -> Fit:
        """With the parameters of the draft and all rows: X and Y, or `rows` that have them."""
        location: Any = draft.location
        searched = arrays.to_numpy(Y) is Y and np.array_equal(self._few(ROWS, X, Y)[1], Y)
        if location is None or rows is not None or not searched:  # of these rows as they are
            location = self._learned(X, Y, draft.line, draft, rows)
        points = Y if location is None else checks.frozen(location.points)
        scales, kernel_x = draft.search.scales, draft.search.kernel_x
        kernel_x = kernel_x.scaled(scales) if self.tune else kernel_x
        kernel_y: Any = draft.search.kernel_y
        kernel_y = kernel_y.smoothing(draft.bandwidth(rows.n if rows else Y.shape[0]))
        features, Phi = self._coordinates(X, kernel_x, Y)
        exact, support, cells = isinstance(features, Exact), Support.of(X), None
        if rows is None:
            smoother = Smoother.of(Phi, self.intercept)
        else:
            sums = Sums.of(rows, kernel_y, features, location, self.bend)
            smoother, support = Smoother.among(Phi, self.intercept, sums.moments), sums.support
            cells = sums.along(smoother)
            location = location and location.within(support)

        def scored(at) -> DensityScore:
            return DensityScore.on(smoother, at, kernel_y, cells, exact)

        score, reg = scored(points), self.reg
        if reg is None:
            nudges = spread_ties(arrays.to_numpy(Y)) - arrays.to_numpy(Y)  # as in the search
            apart = points + arrays.like(nudges, points)
            reg = self._choose_reg(scored(apart) if nudges.any() else score)
        location = location and location.bare()
        chosen = location is not None and self.reg is None and self.bandwidth is None
        fit = Fit(
            X, points, kernel_x, kernel_y, features, smoother, reg, score(reg),
            scales, self.intercept, location, exact, arrays.namespace(Y).std(Y, axis=0),
            support, longest(smoother, reg) if self.intercept else math.inf, bend=self.bend,
            drawn=drawn_together(arrays.to_numpy(points), kernel_y) if chosen else None,
        )  # fmt: skip
        if cells is not None:
            nodes, gathered = map(checks.frozen, cells)
            fit = replace(fit, points=nodes, gathered=gathered, outcomes=checks.frozen(points))
        if self.wide == 0:
            return fit
        return self._widened(fit, score.thinned(WIDE_ROWS), *map(arrays.to_numpy, (points, Y)))

    def _widened(self, fit: Fit, score: DensityScore, points: np.ndarray, Y: np.ndarray) -> Fit:
        """With a wide law, its share by the densities of rows left out, and what these gain."""
        rows = evenly(len(Y), WIDE_ROWS)
        laws = fit.laws(arrays.take(fit.X, rows, axis=0))
        left_out = np.maximum(arrays.to_numpy(score.own(fit.reg)), 0.0) / laws.whole(ROUGH_MASS)
        wide = Wide.of(points, self.wide or MOST)
        if self.wide is None:
            wide = wide.chosen(left_out, points[rows])
        Y = Y if fit.bend is None else fit.bend.back(Y)
        ours = wide.log_mixed(left_out, points[rows])
        ours += laws.move.steepness(Y[rows]).sum(axis=1)
        ours -= linear_normal(arrays.to_numpy(fit.X), Y)[rows]
        return replace(fit, wide=wide, gain=mean_and_error(ours))

    @staticmethod
    def _choose_reg(score: DensityScore) -> float:
        """λ by the score; of those that score alike the largest.

        With short lengthscales any λ gives rows left out the marginal density, and a small one
        gives each row its own.
        """
        few = score.thinned(REG_ROWS)
        reg, _ = minimise_log10(few, *REGS, 12, precision=1e-2)
        return largest(lambda r: arrays.to_numpy(few.rows(r)), reg, REG_STEP, REGS[1])

    def _mean(
        self, X, Y, line: MeanSearch, rows: Rows | None = None, weights: Weights | None = None
    ) -> Location:
        return line.mean(line.design(X, self._feature_map()), Y, self.bend, rows, weights)

    def _feature_map(self) -> FeatureMap:
        if self.features is None or learns_from_pairs(self.features):
            return Nystroem(max_rank=TUNED_RANK)
        return as_feature_map(self.features)

    def _coordinates(self, X, kernel: Kernel, Y) -> tuple[FeatureMap, Array]:
        if self.features is not None:
            return fit_pairs(self.features, X, kernel, Y, fitted_kernel("gaussian", Y))
        features = self._feature_map()
        return features, quietly(features, X, kernel)  # the search did with fewer


def drawn_together(e: np.ndarray, kernel: Any) -> np.ndarray | None:
    """By what residuals come nearer to their mean, so that Gaussian kernels there are no wider.

    A kernel adds γ² to their variance σ²: (1 − γ²/σ²)^½ (Silverman 1986, §6.4.1).
    """
    if not isinstance(kernel, Gaussian):
        return None
    share = np.asarray(kernel.lengthscale) ** 2 / np.maximum(e.var(axis=0), TINY)
    return np.sqrt(np.clip(1.0 - share, 0.5, None))
