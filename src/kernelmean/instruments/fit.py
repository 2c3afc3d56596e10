"""How a structural function is fitted: kernels and coordinates chosen, then both stages solved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from ..core import arrays
from ..core.checks import Array
from ..core.minimise import SEARCH_ROWS
from ..core.progress import Verbose
from ..core.saving import Saveable
from ..core.threads import side_by_side
from ..features.base import FeatureMap
from ..features.choose import as_feature_map
from ..features.landmarks import Nystroem
from .basis import Basis, Polynomial
from .first_stage import embed
from .groups import Part
from .moment_test import moment_test
from .roles import Roles
from .rows import complete, thinned_parts, together
from .search import Pair, seek_scales
from .second_stage import influence, regress

LEVEL = 0.05  # of the tests that nothing contradicts a fit with an intercept
FINE = 1e-8  # of the trace: landmarks where lengthscales are tuned


@dataclass(frozen=True)
class StructuralDraft(Saveable):
    """The coordinates in which h is written; pairs are of the regressors and of the instruments."""

    trend: int | None
    kernels: Pair
    scales: tuple[np.ndarray, np.ndarray]
    bases: tuple[Basis, Basis]


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

    @property
    def basis(self) -> Basis:
        """The coordinates of h."""
        return self.draft.bases[0]

    def __call__(self, points) -> Array:
        """h at rows of (X, C)."""
        return self.basis.by_blocks(lambda block: self.basis.transform(block) @ self.coef, points)

    def numbers(self, basis: Basis, points: np.ndarray) -> np.ndarray:
        """Coordinates, as NumPy's array, of points that are one."""
        return arrays.to_numpy(basis.transform(arrays.like(points, self.coef)))


@dataclass(frozen=True)
class Plan:
    """What is asked for, kernels resolved; pairs are of the regressors and of the instruments."""

    split: str  # the way of sharing rows
    kernels: Pair  # at the lengthscales that the search starts from
    trends: tuple[int | None, ...]  # to choose from
    tunes: tuple[bool, bool]  # whether lengthscales are searched
    regs: tuple[float | None, float | None]  # of stage 1 and stage 2
    features: FeatureMap | None
    verbose: Verbose
    roles: Roles

    def fit(self, parts: list[Part]) -> StructuralFit:
        """Drafts from a few rows, the better of them, then both stages with all rows."""
        few = thinned_parts(parts, SEARCH_ROWS)
        drafts = self.drafts(few)
        if len(drafts) == 1:
            return self.finish(drafts[0], parts)
        level, plane = (self.finish(draft, few) for draft in drafts)
        best = better(level, plane)
        return best if few is parts else self.finish(best.draft, parts)

    def drafts(self, few: list[Part]) -> list[StructuralDraft]:
        """One for each trend; coordinates that are not tuned are the same in all."""
        if all(self.tunes) and not self.verbose:  # progress is told of one at a time
            return side_by_side(lambda trend: self.draft(trend, few, None), self.trends)
        drafts: list[StructuralDraft] = []
        for trend in self.trends:
            drafts.append(self.draft(trend, few, drafts[0] if drafts else None))
        return drafts

    def draft(
        self, trend: int | None, few: list[Part], like: StructuralDraft | None
    ) -> StructuralDraft:
        """Lengthscales searched beside this trend, and landmarks among the rows of stage 1."""
        powers = 0 if trend is None else trend + 1
        scales = self._scales(few, powers)
        starts = zip(self.kernels, scales, self.tunes, strict=True)
        kernels = tuple(k.scaled(s) if tuned else k for k, s, tuned in starts)
        teachers = [part for part in few if part.teaches]

        def basis(i: int) -> Basis:
            points = together(teachers, "XZ"[i])
            if like is not None and not self.tunes[i]:
                features = like.bases[i].features
            else:
                features = self._feature_map(self.tunes[i]).fit(points, kernels[i])
            return Basis(Polynomial.of(points, powers), features)

        return StructuralDraft(trend, kernels, scales, (basis(0), basis(1)))

    def finish(self, draft: StructuralDraft, parts: list[Part]) -> StructuralFit:
        """Both stages on these rows, in the coordinates of the draft."""
        few, trends = thinned_parts(parts, SEARCH_ROWS), draft.bases[0].trends
        # an intercept takes up the mean of y, which then need not pass through stage 1
        middle = _mean_outcome(few) if trends else 0.0
        groups = [part.group(*draft.bases, middle) for part in parts]
        lam, loss_1, n = embed(groups, self.regs[0], self.split)
        stage, xi, loss_2, m = regress(groups, self.regs[1], trends, self.split)
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

    def _scales(self, few: list[Part], powers: int) -> tuple[np.ndarray, np.ndarray]:
        known = complete(few, self.split)
        if not any(self.tunes) or not known:
            return np.ones(few[0].X.shape[1]), np.ones(few[0].Z.shape[1])
        points, y = (together(known, "X"), together(known, "Z")), together(known, "y")
        return seek_scales(self.kernels, points, y, powers, self.tunes, self.regs, self.verbose)

    def _feature_map(self, tuned: bool) -> FeatureMap:
        """What was asked for; landmarks are closer together where lengthscales were tuned."""
        fine = self.features is None and tuned
        return Nystroem(tol=FINE) if fine else as_feature_map(self.features)


def better(level: StructuralFit, plane: StructuralFit) -> StructuralFit:
    """With an intercept, or a plane: the smaller causal loss that the instruments allow."""
    differ = slopes_differ(plane, level, len(plane.roles.x))
    contradicted = level.specification_p < LEVEL or differ < LEVEL
    return level if level.losses[1] <= plane.losses[1] and not contradicted else plane


def slopes_differ(sure: StructuralFit, other: StructuralFit, d: int) -> float:
    """p-value of equal slopes in the first d columns, judged by the covariance of the first fit.

    Slopes are those of the least-squares planes through h over the rows. Regularisation and
    confounding bend those of a fit without a free plane; a fit with one has them unbiased
    (Hausman 1978).
    """
    X = sure.sample[0]
    centred = (X - X.mean(0)) / np.maximum(X.std(0), np.finfo(float).tiny)
    plane = np.linalg.pinv(centred)[:d]
    rows = plane @ sure.numbers(sure.basis, X)
    gap = rows @ arrays.to_numpy(sure.coef)
    gap -= plane @ other.numbers(other.basis, X) @ arrays.to_numpy(other.coef)
    covariance = rows @ arrays.to_numpy(sure.covariance) @ rows.T
    return float(chi2.sf(gap @ np.linalg.pinv(covariance) @ gap, d))


def _mean_outcome(parts: list[Part]) -> float:
    """Mean of y over the rows where it is known."""
    y = together([part for part in parts if part.outcome] or parts, "y")
    return float(arrays.namespace(y).mean(y))
