"""Learning a hidden chain: moments, EM on some rows and on all, and λ of kernel Bayes' rule."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.stats import rankdata

from ..core import Array, arrays, checks, solves
from ..core.moments import evenly
from ..core.progress import Verbose
from ..core.sequences import check_forward, check_sequences, triples_of
from ..embedding.embedding import MeanEmbedding
from ..features.base import FeatureMap
from ..features.choose import as_feature_map
from ..kernels import Delta, Gaussian, Kernel, Linear, fitted_kernel
from .em import MANY, Climb, Refinement
from .emission import ROUNDING, SignedEmissions, can_smooth, one_or_each, smoothing_kernel
from .markov import Chain
from .model import FittedChain
from .model_bayes import ModelBayes
from .moments import Coordinates, Moments
from .order import Spectrum
from .rows import Rows, observed
from .variates import Variates

COLUMNS = 3  # of data that densities are estimated in as they are
MAX_DIRECTIONS = 6  # of those that densities are estimated in otherwise
RANK = 300  # landmarks of the moments, where no features are given,
RANKED = 100  # and of those of ranks
TUNED = 2_000  # rows that λ is chosen on
POINTS = 20_000  # rows that carry the weights of embeddings from the spectral fit alone
RIDGE = 1e-3  # of the ratio of emission densities to the marginal one, where EM starts
RATIOS = (0.02, 50.0)  # that such a ratio may take
REGS = 10.0 ** np.arange(-4.0, 2.5, 0.5)  # relative to the squared norms of the laws
SCALES = (1.0, 1 / 3)  # of the kernel's lengthscale in kernel Bayes' rule, after EM


@dataclass(frozen=True)
class Draft:
    """Training rows and their moments; `own` if no feature map was given, `names` of columns."""

    rows: Rows
    kernel: Kernel
    coordinates: Coordinates
    moments: Moments
    own: bool = False
    names: list[str] | None = None

    @classmethod
    def of(cls, points, seen: np.ndarray, lengths, kernel, features, names) -> Self:
        """Coordinates of the observations `seen`, and sums over neighbours."""
        sequences = check_sequences(lengths, points.shape[0])
        triples_of(seen, sequences)
        there = points if seen.all() else arrays.take(points, np.flatnonzero(seen), axis=0)
        if bool(arrays.namespace(there).all(there == there[:1, :])):
            raise ValueError("X is constant: there are no states to tell apart")
        # of many columns a large one tells more than a small one more often than not
        kernel = fitted_kernel(kernel, there, names=names, in_units=there.shape[1] <= COLUMNS)
        if features is None:
            found = Coordinates.by_landmarks(there, kernel, RANK)
        else:
            rows = arrays.take(there, evenly(there.shape[0], POINTS), axis=0)
            found = Coordinates.of(as_feature_map(features).fit(rows, kernel), there)
        coordinates = found if seen.all() else Coordinates.of(found.features, points)
        moments = Moments(coordinates, seen, sequences)
        own = features is None
        return cls(Rows.of(points, seen, sequences), kernel, coordinates, moments, own, names)

    @cached_property
    def ranked(self) -> tuple[Moments, ...]:
        """Moments of the ranks of a few columns, by the kernel as wide as their median distance.

        Of a single column also those of its level and spread, together and each alone.
        """
        points = arrays.to_numpy(self.rows.there)
        if not (self.own and hasattr(self.kernel, "lengthscale") and points.shape[1] <= COLUMNS):
            return ()
        ranks = rankdata(points, axis=0) / len(points)
        wide: Any = replace(self.kernel, lengthscale="median")  # type: ignore[type-var]
        found = [self._moments_of(ranks, wide.resolve(ranks))]
        if ranks.shape[1] == 1:
            level = 2 * ranks - 1
            spread = 3 * level**2 - 1
            shapes = np.hstack([level, spread]), level, spread
            found += [self._moments_of(A, Linear()) for A in shapes if A.std() > ROUNDING]
        return tuple(found)

    def _moments_of(self, values: np.ndarray, kernel: Kernel) -> Moments:
        """Of what stands in place of the rows seen."""
        features = Coordinates.by_landmarks(values, kernel, RANKED).features
        every = np.zeros((len(self.rows.seen), values.shape[1]))
        every[self.rows.seen] = values
        found = Coordinates.of(features, every)
        return Moments(found, self.rows.seen, self.rows.sequences)

    def density_ratios(self, embeddings: np.ndarray, points) -> np.ndarray:
        """f_k/f of some rows for laws O: φᵀ(C + λI)⁻¹O, within limits."""
        ratio = solves.ridge(self.moments.second, RIDGE).solve(embeddings)
        found = self.coordinates.features.transform(points) @ arrays.like(ratio, points)
        return np.clip(arrays.to_numpy(found), *RATIOS)

    def weighted_rows(self, embeddings: np.ndarray) -> MeanEmbedding:
        """O as a batch of embeddings on (some) rows, of least norm: Φ(ΦᵀΦ)⁺O."""
        rows = np.flatnonzero(self.rows.seen)
        rows = rows[evenly(len(rows), POINTS)]
        points = arrays.take(self.rows.points, rows, axis=0)
        Phi = self.coordinates.features.transform(points)
        second = arrays.to_numpy(Phi.T @ Phi)
        left = (np.linalg.pinv(second, rcond=1e-12, hermitian=True) @ embeddings).T
        return MeanEmbedding.of_parts(points, arrays.like(left, Phi), Phi, self.kernel)


# ------------------------------------------------------------ what is asked for


@dataclass(frozen=True)
class Plan:
    """What is asked for, whichever kind it is."""

    kernel: Any
    features: Any
    em: Any  # EM, with nothing left open
    refine: bool
    bandwidth: Any
    reg: float | None
    verbose: Verbose

    def draft(self, X, lengths=None, inputs=None) -> Draft:
        """Training rows and their moments: what a fit begins with."""
        points, seen = self.observed(X, lengths, inputs)
        if not seen.any():
            raise ValueError("X has no row without NaN; observations are needed")
        sequences = check_sequences(lengths, len(seen))
        check_forward(X, sequences)
        seen = self.believed(points, seen, sequences)
        return self.drafted(points, seen, lengths, checks.column_names(X))

    def observed(self, X, lengths, inputs) -> tuple[Array, np.ndarray]:
        """The rows, and which of them are whole."""
        return observed(X, "X", min_rows=3)

    def believed(self, points, seen: np.ndarray, sequences: list[slice]) -> np.ndarray:
        """The rows seen that are learned from."""
        return seen

    def drafted(self, points, seen: np.ndarray, lengths, names) -> Draft:
        """Moments of rows that were looked at already."""
        return Draft.of(points, seen, lengths, self.kernel, self.features, names)

    def width(self, draft: Draft, space: Variates | None) -> float | tuple[float, ...] | None:
        """One bandwidth, or one for each of the columns (or variates) that densities are of."""
        if self.bandwidth is None:
            return None
        columns = draft.rows.points if space is None else space.directions
        return one_or_each(checks.as_each(self.bandwidth, columns.shape[1], "bandwidth"))

    def search(self, draft: Draft, space: Variates | None, limit: int, **rules) -> Refinement:
        """EM on some of the rows, not yet begun."""
        rows, kernel = in_space(draft.rows, space), draft.kernel if space is None else Gaussian()
        base, factor = smoothing_kernel(kernel.resolve(rows.there), rows.there), None
        if (width := self.width(draft, space)) is not None:
            base, factor = base.smoothing(width), 1.0
        how = self.em.max_iter, self.em.tol, self.verbose
        return Refinement(rows.stretches(limit)[1], base, factor, *how, **rules)

    def of_moments(self, draft: Draft, space, laws: MeanEmbedding, chain: Chain) -> FittedChain:
        """Laws found by moments alone, with densities of their positive parts."""
        counts = np.maximum(chain.startprob * draft.rows.seen.sum(), 1.0)
        smooth, width = laws, self.width(draft, space)
        if space is not None:
            points = space(laws.points)
            smooth = MeanEmbedding.of_parts(points, *laws.factors, Gaussian().resolve(points))
        signed = SignedEmissions.of(smooth, width, counts)
        return FittedChain(chain, laws, signed, width, space)

    def rule(self, draft: Draft, gamma: np.ndarray, chain: Chain) -> ModelBayes:
        """Kernel Bayes' rule with the λ given, or the best."""
        if self.reg is None:
            return choose_bayes(draft, gamma, chain)
        return ModelBayes(*embedded(draft, gamma, 1.0), float(self.reg))


@dataclass(frozen=True)
class Fit:
    """What a fit of a hidden chain consists of, whichever kind it is."""

    chain: FittedChain
    draft: Draft
    history: np.ndarray
    converged: bool


# ------------------------------------------------------------ EM


@dataclass(frozen=True)
class Found:
    """EM on some rows, and what rows held out chose: bandwidth, one for each state, guards."""

    space: Variates | None
    search: Refinement
    climb: Climb
    factor: float
    held: Any = None  # HeldOut, where rows held out chose

    @cached_property
    def whole(self) -> Climb:
        """EM on the same rows carried on, at what was chosen."""
        smoothing = self.search.smoothing(self.search.narrowed(self.factor))
        return self.search.resumed(smoothing, self.climb)


def row_laws(points, weights: np.ndarray, kernel: Kernel) -> MeanEmbedding:
    """Laws of rows whose weights, (K, n), are made to sum to one."""
    points, weights = checks.frozen(points), weights / weights.sum(axis=1, keepdims=True)
    return MeanEmbedding.of_parts(points, arrays.like(weights, points), None, kernel)


def in_space(rows: Rows, space: Variates | None) -> Rows:
    """The rows where densities are; the variates of a row that is there in part are unknown."""
    return rows if space is None else replace(rows, points=space(rows.points), gaps=None)


def on_all(search: Refinement, rows: Rows, found: Climb, factor: float) -> tuple[Climb, Any]:
    """EM on all rows from where it came on some; of very many, a step after EM on `MANY`."""
    climbed = found
    for limit in (MANY, len(rows.seen)):
        few, (_, more) = search.rows, rows.stretches(limit)
        if len(more.seen) <= len(few.seen):
            continue
        laws = search.smoothing(factor).emissions(climbed.gamma[few.seen])
        if search.bandwidth is None:  # the rate at which the best bandwidth falls
            factor *= (len(few.seen) / len(more.seen)) ** (1 / (rows.points.shape[1] + 4))
        search = search.on(more)
        climbed = search.carried_on(laws, climbed, search.smoothing(factor))
    return replace(climbed, history=found.history), search.smoothing(factor)


def space_of(draft: Draft, directions: int | str, some: bool = False) -> Variates | None:
    """The variates that the densities are of, or None for the columns themselves.

    Of `some` of a few columns, those that tell more than others do, if asked for.
    """
    if directions == "auto":
        points, kernel = draft.rows.there, draft.kernel
        xp = arrays.namespace(points)
        varies = bool(xp.all(xp.any(points != points[:1, :], axis=0)))
        whole = isinstance(kernel, Delta) or points.shape[1] == 1
        if some and not whole and points.shape[1] <= COLUMNS and can_smooth(kernel, points):
            return Variates.of_columns(arrays.to_numpy(points))
        if can_smooth(kernel, points) and (whole or (points.shape[1] <= COLUMNS and varies)):
            return None
        found = int(Spectrum(draft.moments, MAX_DIRECTIONS + 1).by_correlations()) - 1
        directions = max(found, COLUMNS)
    elif directions == 0:
        return None
    return Variates.of(draft.coordinates.features, draft.moments, int(directions))


# ------------------------------------------------------------ kernel Bayes' rule


def embedded(draft: Draft, gamma: np.ndarray, scale: float) -> tuple[FeatureMap, np.ndarray]:
    """Coordinates at a multiple of the lengthscale, and those of the laws with weights γ."""
    coordinates = draft.coordinates
    if scale != 1.0:
        found = Coordinates.by_landmarks(draft.rows.there, draft.kernel.scaled(scale), RANK)
        coordinates = Coordinates.of(found.features, draft.rows.points)
    weights = np.where(draft.rows.seen[:, None], gamma, 0.0)
    weights = weights / np.maximum(weights.sum(axis=0), np.finfo(float).tiny)
    return coordinates.features, arrays.to_numpy(coordinates.gather(weights))


def choose_bayes(draft: Draft, gamma: np.ndarray, chain: Chain) -> ModelBayes:
    """The lengthscale and the λ whose filtered probabilities are nearest to smoothed ones.

    γ_t is E[1{x_t = k} | all y]; of all functions of y_1, ..., y_t the filter's probabilities are
    nearest to it in mean square, so the distance compares lengthscales too.
    """
    numbers, few = draft.rows.stretches(TUNED)
    target = gamma[numbers]
    scales = SCALES if draft.kernel.scaled(0.5) != draft.kernel else SCALES[:1]

    def off(alpha: np.ndarray) -> float:
        return ((alpha - target)[few.seen] ** 2).sum()

    rules = (ModelBayes(*embedded(draft, gamma, scale), 1.0) for scale in scales)
    found = [best_rule(rule, few, chain, off) for rule in rules]
    return min(found, key=lambda pair: pair[0])[1]


def best_rule(rule: ModelBayes, few: Rows, chain: Chain, loss: Callable) -> tuple[float, Any]:
    """What the filtered probabilities of some rows lose at the least, and the rule with that λ."""
    regs, shares = rule.size * REGS, rule.shares_of(few.points, few.seen)
    found = rule.compared(regs, shares, chain.along(few.inputs), few.sequences)
    losses = [loss(alpha) for alpha in found]
    best = int(np.argmin(losses))
    return losses[best], replace(rule, reg=float(regs[best]))
