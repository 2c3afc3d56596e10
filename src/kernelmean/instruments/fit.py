"""How a structural function is fitted: kernels and coordinates chosen, then both stages solved."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from ..core import arrays
from ..core.checks import Array, hushed
from ..core.minimise import SEARCH_ROWS
from ..core.progress import Verbose
from ..core.saving import Saveable
from ..core.stages import stage
from ..core.threads import side_by_side
from ..features.base import FeatureMap
from ..features.choose import as_feature_map
from ..features.landmarks import Nystroem
from ..regression.lengthscales import RANK
from .basis import Bare, Basis, Polynomial
from .choice import Choice, Pair, StructuralDraft, Tried
from .first_stage import embed
from .groups import Part
from .moment_test import moment_test
from .roles import Roles
from .rows import complete, thinned_parts, together
from .search import seek_scales
from .second_stage import influence, judge, regress

FINE = 1e-8  # of the trace: landmarks where lengthscales are tuned
COARSE = Nystroem(tol=1e-6, max_rank=RANK)  # while they are yet to be judged
SIZES = tuple(np.logspace(-0.9, 0.9, 7))  # of one lengthscale, as multiples of the median's
POWERS = (1, 2, 3)  # of the columns, in two-stage least squares
LIMIT = 1.0 / arrays.EPS  # ξ that leaves no more than rounding of what it penalises
AROUND = (0.5, 1.0, 2.0)  # of several, as multiples of the shape found


@dataclass(frozen=True)
class StructuralFit(Saveable):
    """What a fitted structural function consists of; pairs are of stage 1 and stage 2."""

    draft: StructuralDraft
    roles: Roles
    coef: Array
    covariance: Array
    regs: tuple[float, float]
    losses: tuple[float, float]
    sizes: tuple[int, int]  # numbers of rows
    specification_p: float
    sample: tuple[np.ndarray, np.ndarray, np.ndarray]  # rows (X, Z, y), for averages and tests
    gain: tuple[float, float] | None = None  # over two-stage least squares, see `Choice`

    @property
    def basis(self) -> Basis:
        """The coordinates of h."""
        return self.draft.bases[0]

    def __call__(self, points) -> Array:
        """h at rows of (X, C)."""
        return self.basis.by_blocks(lambda block: self.basis.transform(block) @ self.coef, points)

    def carried(self, features: FeatureMap) -> StructuralFit:
        """Least squares as the limit of large ξ beside coordinates in which bands can bend."""
        basis, p = Basis(self.basis.polynomial, features), self.basis.trends
        coef, covariance = np.zeros(basis.width), np.zeros((basis.width, basis.width))
        coef[:p], covariance[:p, :p] = map(arrays.to_numpy, (self.coef, self.covariance))
        coef, covariance = (arrays.like(part, self.coef) for part in (coef, covariance))
        draft = replace(self.draft, bases=(basis, self.draft.bases[1]))
        regs = self.regs[0], LIMIT
        return replace(self, draft=draft, coef=coef, covariance=covariance, regs=regs)


@dataclass(frozen=True)
class Plan:
    """What is asked for, kernels resolved; pairs are of the regressors and of the instruments."""

    split: str  # the way of sharing rows
    kernels: Pair  # at the lengthscales that the search starts from; None where all is straight
    plain: tuple[Polynomial, Polynomial]  # what stands beside them, of degree 0
    trends: tuple[int | None, ...]  # to choose from
    tunes: tuple[bool, bool]  # whether lengthscales are searched
    regs: tuple[float | None, float | None]  # of stage 1 and stage 2
    features: FeatureMap | None
    verbose: Verbose
    roles: Roles

    def fit(self, parts: list[Part]) -> StructuralFit:
        """Drafts judged on a few rows; then both stages of the one taken, with all rows."""
        few = thinned_parts(parts, SEARCH_ROWS)
        plain = len(self.trends) > 1 and all(self.tunes)
        if None in self.kernels or (plain and self._tell_no_more_than_a_line(few)):
            return self.finish(self.straight(self.trends[-1] or 1, few), parts)
        scales = self._scales(few)
        z = self.basis(1, self.trends[-1], scales[1], few)
        smooth = (scales[1], z)
        makers = [partial(self.sized, size * scales[0], smooth, few) for size in self.sizes]
        if len(makers) == len(self.trends) == 1:
            return self.finish(makers[0](), parts)
        if plain:
            makers += [partial(self.straight, degree, few) for degree in POWERS]
        tried = side_by_side(lambda make: self.judged(make(), few), makers)
        known = complete(few, self.split) or few
        X = arrays.to_numpy(together(known, "X"))
        columns = max(X.shape[1], few[0].Z.shape[1])
        choice = Choice.of(list(itertools.chain(*tried)), X, columns)
        return self.widened(choice, parts, few)

    def _tell_no_more_than_a_line(self, few: list[Part]) -> bool:
        """Whether regressors, or instruments, have as few different rows as fix a plane."""
        rows = (arrays.to_numpy(together(few, name)) for name in "XZ")
        bent = (side[:, plain.bent] for side, plain in zip(rows, self.plain, strict=True))
        return any(len(np.unique(side, axis=0)) <= side.shape[1] + 1 for side in bent)

    def widened(self, choice: Choice, parts: list[Part], few: list[Part]) -> StructuralFit:
        """The fit of a choice; its covariance says what else could have been chosen."""
        fit = self.finish(self.fine(choice.draft, few), parts, choice.share)
        if choice.draft.bare:
            fit = fit.carried(self.fine(choice.carrier, few).bases[0].features)
        own, more = arrays.to_numpy(fit.covariance), choice.spread(fit.basis)
        Phi = fit.basis.numbers(choice.points)
        wider = np.sum((Phi @ more) * Phi) > np.sum((Phi @ own) * Phi)
        covariance = arrays.like(more, fit.coef) if wider else fit.covariance
        return replace(fit, covariance=covariance, gain=choice.gain)

    @property
    def sizes(self) -> tuple[float, ...]:
        """Factors of all lengthscales of the regressors."""
        if not self.tunes[0]:
            return (1.0,)
        return AROUND if len(self.plain[0].bent) > 1 else SIZES

    @stage("sizes and trends")
    def judged(self, draft: StructuralDraft, few: list[Part]) -> list[Tried]:
        """Beside every trend, in the coordinates of the largest; least squares as they are."""
        groups, *_ = self._embedded(draft, few, _mean_outcome(few))
        whole, found = draft.bases[0].trends, []
        for trend in (draft.trend,) if draft.bare else self.trends:
            less = draft.with_trend(trend)
            reg = 1.0 if draft.bare else self.regs[1]
            told = judge(groups, whole, less.bases[0].trends, reg, draft.bare)
            found.append(Tried(less, *told))
        return found

    def sized(
        self, x: np.ndarray, smooth: tuple[np.ndarray, Basis], few: list[Part]
    ) -> StructuralDraft:
        """The largest trend beside a kernel of these lengthscales.

        `smooth` are those of the instruments as they were found, and their coordinates.
        """
        trend, (z, basis) = self.trends[-1], smooth
        finer = self._passed(x, z, few)
        if not np.array_equal(finer, z):
            basis = self.basis(1, trend, finer, few)
        return self.draft(trend, (x, finer), (self.basis(0, trend, x, few), basis))

    def _passed(self, x: np.ndarray, z: np.ndarray, few: list[Part]) -> np.ndarray:
        """Scales of the instruments' kernel through which what h says of exogenous columns passes.

        E[φ(x, c) | z, c] bends along c as φ does: a smoother stage 1 would leave h free there.
        """
        teachers, finer = [part for part in few if part.teaches], z.copy()
        X, Z = (arrays.to_numpy(together(teachers, side)) for side in "XZ")
        for column, other in itertools.product(self.plain[0].bent, self.plain[1].bent):
            if np.array_equal(X[:, column], Z[:, other]):
                finer[other] = min(z[other], x[column])
        return finer

    def straight(self, degree: int, few: list[Part]) -> StructuralDraft:
        """Powers of the columns alone on either side: two-stage least squares."""
        scales = self.plain[0].scales, self.plain[1].scales
        x, z = (self.basis(i, degree, scales[i], few, Bare()) for i in (0, 1))
        return self.draft(degree, scales, (x, z))

    def draft(self, trend: int | None, scales: Pair, bases: Pair) -> StructuralDraft:
        """Coordinates at these lengthscales."""
        return StructuralDraft(trend, tuple(map(self._kernel, (0, 1), scales)), scales, bases)

    def basis(
        self, i: int, trend: int | None, scales, few: list[Part], features: FeatureMap | None = None
    ) -> Basis:
        """Of one side, coarse where it is yet to be judged."""
        points = together([part for part in few if part.teaches], "XZ"[i])
        own = self._feature_map(self.tunes[i], COARSE) if features is None else clone(features)
        with hushed():  # of a rank that is used up the last fit will tell
            own.fit(points, self._kernel(i, scales) or "linear")
        return Basis(self.plain[i].with_degree(trend), own)

    def _kernel(self, i: int, scales: np.ndarray) -> Any:
        """At these lengthscales, where they are searched; None where nothing bends."""
        kernel = self.kernels[i]
        return kernel.scaled(scales) if kernel and self.tunes[i] else kernel

    def fine(self, draft: StructuralDraft, few: list[Part]) -> StructuralDraft:
        """The draft with landmarks as close together as tuned lengthscales ask for."""
        teachers = [part for part in few if part.teaches]

        def basis(i: int) -> Basis:
            old = draft.bases[i]
            if not old.features.rank_ or not self.tunes[i] or self.features is not None:
                return old
            features = self._feature_map(True, Nystroem(tol=FINE))
            points = together(teachers, "XZ"[i])
            return Basis(old.polynomial, features.fit(points, draft.kernels[i]))

        return replace(draft, bases=(basis(0), basis(1)))

    def _embedded(self, draft: StructuralDraft, parts: list[Part], middle: float) -> tuple:
        """The rows in coordinates with their embeddings; λ, the loss of stage 1 and its rows."""
        groups = [part.group(*draft.bases, middle) for part in parts]
        return groups, *embed(groups, self.regs[0], self.split)

    @stage("both stages")
    def finish(
        self, draft: StructuralDraft, parts: list[Part], share: float | None = None
    ) -> StructuralFit:
        """Both stages on these rows, in the coordinates of the draft.

        `share` is ξ, by the size it is measured by, where the rows that it was chosen on are all.
        """
        few, trends = thinned_parts(parts, SEARCH_ROWS), draft.bases[0].trends
        # an intercept takes up the mean of y, which then need not pass through stage 1
        middle = _mean_outcome(few) if trends else 0.0
        groups, lam, loss_1, n = self._embedded(draft, parts, middle)
        if draft.bare:  # leaving rows out adds variance, which counts where instruments are weak
            for group in groups:
                group.own = False
        share = share if few is parts else None
        stage, xi, loss_2, m = regress(groups, self.regs[1], trends, self.split, share)
        coef = stage.coefficients(xi)
        covariance = stage.covariance(xi, influence(groups, coef, n, m), coef)
        known = complete(groups, self.split)
        p = moment_test(known, coef, lam) if known else np.nan
        if trends:
            coef = arrays.namespace(coef).concat([coef[:1] + middle, coef[1:]])
        kept = complete(few, self.split) or [part for part in few if part.teaches]
        X, Z, y = (arrays.to_numpy(together(kept, name)) for name in ("X", "Z", "y"))
        told = coef, covariance, (lam, xi), (loss_1, loss_2), (n, m), p, (X, Z, y)
        return StructuralFit(draft, self.roles, *told)

    @stage("lengthscales")
    def _scales(self, few: list[Part]) -> Pair:
        """The shape of both kernels: one scale per column, as far as they are searched."""
        known = complete(few, self.split)
        if not any(self.tunes) or not known:
            return self.plain[0].scales, self.plain[1].scales
        x, z = (part.with_degree(self.trends[-1]) for part in self.plain)
        points, y = (together(known, "X"), together(known, "Z")), together(known, "y")
        regs = self.regs[::-1]
        return seek_scales(self.kernels, points, y, (x, z), self.tunes, regs, self.verbose)

    def _feature_map(self, tuned: bool, otherwise: FeatureMap) -> FeatureMap:
        """What was asked for, or something else where lengthscales were tuned."""
        fine = self.features is None and tuned
        return clone(otherwise) if fine else as_feature_map(self.features)


def _mean_outcome(parts: list[Part]) -> float:
    """Mean of y over the rows where it is known."""
    y = together([part for part in parts if part.outcome] or parts, "y")
    return float(arrays.namespace(y).mean(y))
