"""How a structural function is fitted: kernels and coordinates chosen, then both stages solved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import chain
from typing import Any

import numpy as np
from sklearn.base import clone

from ..core import Array, arrays, checks
from ..core.progress import Verbose
from ..core.stages import stage
from ..core.threads import side_by_side
from ..features.base import Bare, Beside, FeatureMap
from ..features.choose import as_feature_map
from ..features.landmarks import Nystroem
from ..kernels import on_columns
from ..regression.lengthscales import RANK
from ..regression.support import Support
from .basis import Basis, Polynomial, columns_of, joint
from .bend import SQUARES, Plane, chance_of_plane, chance_of_products, chance_of_squares
from .choice import SIZE_DECADES, Choice, Pair, StructuralDraft, Tried, line_of
from .clusters import joined, share_of
from .columns import Roles
from .first_stage import embed
from .fit import StructuralFit
from .groups import Group, Part, together
from .judges import REFUSED, doubt
from .search import ROWS, Side, seek_scales
from .second_stage import (
    XI,
    CausalLeaveOneOut,
    Equations,
    moment_test,
    noise_of,
    regress,
    residual_sums,
    see_through,
)

FINE = Nystroem(tol=1e-8, max_rank=600)  # where lengthscales are tuned: more changed no curve
RISE = 1.01  # times the causal loss of a draft: above it finer landmarks are not kept
MISSED = 1e-3  # of the trace, of which is told
COARSE = Nystroem(tol=1e-6, max_rank=RANK)  # while they are yet to be judged
SIZES = tuple(np.logspace(-SIZE_DECADES, SIZE_DECADES, 7))  # of one lengthscale
POWERS = (1, 2, 3)  # of the columns, in two-stage least squares
ROWS_PER_COLUMN = 3  # of these, at least
STRAIGHT = 10.0  # lengthscale along which h is nearly a line, as a multiple of the median's
ALIKE = 1e-6  # of the largest: coordinates that do not tell values apart
CLUSTERED = 200  # rows that lengthscales are sought on, where clusters are fewer
HALVINGS = 5  # at most, of the instruments' lengthscales


@dataclass(frozen=True)
class Plan:
    """What is asked for, kernels resolved; sides are the regressors and the instruments."""

    split: str  # the way of sharing rows
    sides: tuple[Side, ...]
    trends: tuple[int | None, ...]  # to choose from
    features: FeatureMap | None
    verbose: Verbose
    roles: Roles
    few: list[Part]  # evenly spaced rows, of which drafts are made
    others: Sequence[Plan] = ()  # the same, with fewer columns that bend
    rounds: Sequence[int] = ROWS  # rows that lengthscales are sought on, one after the other

    def fit(self, parts: list[Part]) -> StructuralFit:
        """Drafts judged on a few rows; then both stages of the one taken, with all rows."""
        if self.sides[0].kernel is None:
            return self.finish(self.unbent(self.trends[-1] or 1), parts)
        makers = list(chain(*side_by_side(Plan.makers, [self, *self.others], worth=0)))
        drafts, own = side_by_side(lambda make: make(), makers, worth=0), len(self.roles.x)
        if len(makers) == len(self.trends) == 1:
            return self.finish(drafts[0], parts)
        seen = {draft.says: draft for draft in reversed(drafts)}  # the first of each
        drafts = list(reversed(seen.values()))
        tried: list[Tried] = []

        def judge(some: Iterable[StructuralDraft]) -> None:  # beside the line that stands so far
            line = line_of(tried, own)
            judged = partial(self.judged, aside=line and Tried.aside(*line))
            tried.extend(chain(*side_by_side(judged, list(some), worth=0)))

        judge(draft for draft in drafts if draft.straight(own) and draft.bare)
        judge(draft for draft in drafts if draft.straight(own) and not draft.bare)
        tried += self.differing(tried)
        bends = [draft for draft in drafts if not draft.straight(own)]
        judge(bends + self.added(line_of(tried, own)))
        if all(one.draft.bare for one in tried):
            return self.finish(self.straight(1), parts)
        X = arrays.to_numpy(together(self.known, "X"))
        return self.widened(Choice(tried, X, own, self.told <= own), parts)

    @property
    def complete(self) -> list[Part]:
        """Rows with regressors and outcomes: all of the few, but for two samples."""
        return [part for part in self.few if part.complete]

    @property
    def known(self) -> list[Part]:
        """The same, or, where no row is complete, those with regressors."""
        return self.complete or [part for part in self.few if part.teaches]

    @property
    def plainer(self) -> bool:
        """Whether two-stage least squares may do as well."""
        return len(self.trends) > 1 and all(side.tuned for side in self.sides)

    def makers(self) -> list[Callable[[], StructuralDraft]]:
        """Of drafts at the scales of a search, a single one of each size, and without kernels."""
        (x, z), own_x = self.scales, self.sides[0]
        sizes = SIZES if own_x.tuned and len(own_x.plain.bent) == 1 else (1.0,)
        smooth = z, self.basis(1, self.trends[-1], z)
        own, columns = len(self.roles.x), max(side.shape[1] for side in self.rows)
        most = max(1, len(self.rows[0]) // (ROWS_PER_COLUMN * columns))
        powers = POWERS[:most] if self.plainer else ()
        told = [power for power in powers if power == 1 or power * own <= self.told]
        beside = powers[1:] if self.roles.c else ()
        return [
            *(partial(self.sized, size * x, smooth) for size in sizes),
            *(partial(self.straight, degree) for degree in told),
            *chain.from_iterable(map(self.multiplied, told[1:])),
            *(partial(self.straight, degree, self.own) for degree in beside),
        ]

    def multiplied(self, degree: int) -> Iterable[Callable[[], StructuralDraft]]:
        """Powers with products of the endogenous columns, where rows and instruments suffice."""
        draft, own = self.straight(degree, mixed=True), {*self.own[0]}
        x, z = (basis.polynomial for basis in draft.bases)
        ends = [term for term in x.terms if term and columns_of(term) <= own]
        enough = ROWS_PER_COLUMN * max(x.width, z.width) <= len(self.rows[0])
        if x.products.size and enough and len(ends) <= self.told:
            yield lambda: draft

    @cached_property
    def points(self) -> list[Array]:
        """Regressors and instruments of the rows that teach stage 1."""
        return [together([part for part in self.few if part.teaches], side) for side in "XZ"]

    @cached_property
    def rows(self) -> list[np.ndarray]:
        """The same in NumPy."""
        return [arrays.to_numpy(side) for side in self.points]

    @cached_property
    def shared(self) -> list[tuple[int, int]]:
        """Columns of the regressors that are columns of the instruments, too."""
        x, z = (side.plain for side in self.sides)
        return [(i, j) for i, j in self.few[0].shared if i in x.bent and j in z.bent]

    @property
    def own(self) -> Pair:
        """Numbers of the endogenous columns, and of the instruments that are not exogenous ones."""
        return range(len(self.roles.x)), range(len(self.roles.z))

    @cached_property
    def told(self) -> int:
        """How many directions of h along endogenous columns the instruments fix, others given.

        E[h(X, c) | z, c] has as many values at each c as the instruments, and a constant takes one.
        """
        return len(np.unique(self.rows[1][:, : len(self.roles.z)], axis=0)) - 1

    def widened(self, choice: Choice, parts: list[Part]) -> StructuralFit:
        """The fit of a choice; its covariance says what else could have been chosen."""
        own, few = len(self.roles.x), parts is self.few
        taken = [choice.taken, choice.plain] if choice.plain else [choice.taken]
        fits: list[StructuralFit] = []
        for draft, share in reversed(taken):
            if few:
                fits.insert(0, self.refined(draft, share))
            else:
                fits.insert(0, self.finish(self.fine(self.halved(draft)), parts, chosen=True))
        draft, line = fits[0].draft, fits[-1].draft
        flat = choice.free and draft.straight(own) and not choice.carrier.straight(own)
        if choice.plain or draft.bare or flat:
            polynomial = joint([fit.basis.polynomial for fit in fits])
            with checks.hushed():  # h has no part in these coordinates
                bends = self.fine(choice.carrier) if draft.bare or flat else draft
            features = bends.bases[0].features
            if line.bases[0].features.rank_:
                features = Beside(line.bases[0].features, features.parts[-1])
            fits = [fit.written(polynomial, features) for fit in fits]
        balanced = self.sides[0].reg is None
        fit, *plain = (replace(fit, **choice.widened(fit, balanced)) for fit in fits)
        fit = plain[0].towards(fit, choice.bent) if plain else fit
        shifts = self.shifts if self.plainer else None
        return self.no_surer(fit, shifts, choice.carrier) if shifts else fit

    def refined(self, draft: StructuralDraft, share: float) -> StructuralFit:
        """In finer landmarks, unless these miss rows that are left out by more than the draft's.

        What is new in them nothing holds where ξ is as small as it goes, and no judge saw it.
        """
        fine = self.fine(draft)
        fit = self.finish(fine, self.few, share, chosen=True)
        own = fit if fine is draft else self.finish(draft, self.few, share, chosen=True)
        return fit if fit.losses[1] <= RISE * own.losses[1] else own

    @property
    def shifts(self) -> Polynomial | None:
        """A shift for each value of endogenous columns of three, if instruments tell them apart.

        Beside lines along the others. Shifts of more values say far less than h that is smooth.
        """
        plain, own = self.sides[0].plain, len(self.roles.x)
        few = [(j, v) for j, v in plain.few if j in plain.bent and j < own and len(v) == 3]
        if not few or self.told < own + len(few):
            return None
        shifts = replace(plain, categories=(*plain.categories, *few))
        return shifts.with_lines(shifts.bent)

    def no_surer(
        self, fit: StructuralFit, shifts: Polynomial, carrier: StructuralDraft
    ) -> StructuralFit:
        """The fit, no surer of what three values do than shifts for each are, in any direction.

        A line stands until it is refuted, and part of the way to a bend is the same bias: what else
        could have been chosen says less of it than the noise of what is not biased.
        """
        bases = Basis(shifts, Bare().fit(self.points[0], "linear")), carrier.bases[1]
        other = self.finish(self.fine(replace(carrier, trend=0, bases=bases)), self.few)
        share = share_of(other.sizes[1], fit.sizes[1], other.clusters)
        spread = share * arrays.to_numpy(other.covariance)
        ends = [along(fit.sample[0], *column) for column in shifts.categories]
        rows, shifted = (
            np.vstack([A - A.mean(0) for A in map(basis.numbers, ends)])
            for basis in (fit.basis, other.basis)
        )
        own = rows @ arrays.to_numpy(fit.covariance) @ rows.T
        values, U = np.linalg.eigh(shifted @ spread @ shifted.T - own)
        say = np.linalg.pinv(rows, rcond=ALIKE) @ (U * np.maximum(values, 0.0) ** 0.5)
        return replace(fit, covariance=fit.covariance + arrays.like(say @ say.T, fit.coef))

    def differing(self, tried: list[Tried]) -> list[Tried]:
        """Least squares with slopes that go with exogenous columns, one more while rows are sure.

        Where lines are all that treatments of two values have, or instruments of few values tell;
        columns that were told to be lines or shifts are no more.
        """
        own, plain = len(self.roles.x), self.sides[0].plain
        two = [j for j, values in plain.few if j < own and len(values) < 3]
        lines = [one for one in tried if one.draft.bare and one.draft.straight(own)]
        left = [j - own for j in plain.bent if j >= own]
        asked = len(plain.bent) - len(left) < own
        if not lines or asked or (self.told > own and len(two) < own):
            return []
        degree = max(lines, key=lambda one: one.judged.evidence[0]).draft.trend or 1
        spare = len(self.rows[0]) // ROWS_PER_COLUMN - degree * max(s.shape[1] for s in self.rows)
        found: list[Tried] = []
        crossed: list[int] = []
        while left and own * (len(crossed) + 1) <= spare:
            drafts = [self.straight(degree, self.own, (*crossed, k)) for k in left]
            more = [one for (one,) in side_by_side(self.judged, drafts, worth=0)]
            k = min(range(len(left)), key=lambda k: more[k].chance)
            found.append(replace(more[k], chance=len(left) ** 2 * more[k].chance))
            if doubt(found[-1].chance) < 1.0:
                break
            crossed.append(left.pop(k))
        return found

    @stage("sizes and trends")
    def judged(self, draft: StructuralDraft, aside: tuple | None = None) -> list[Tried]:
        """Beside every trend, in the coordinates of the largest; least squares as they are.

        What bends speaks against a plane beside curves of exogenous columns that are set `aside`.

        Where a kernel hardly bends along an endogenous column of few values, beside exogenous ones,
        the largest alone: a slope in the kernel would be learned by the λ of curves. None, where
        the instruments tell no more of a kernel than its mean: what then is left in embeddings is
        the row that was left out.
        """
        groups, _, loss_1, _ = self._embedded(draft, self.few, _mean_outcome(self.few))
        equations, found = Equations(groups), []
        if self.plainer and not draft.bare and loss_1 >= equations.untold(groups[0].kinds[1]):
            return []
        moved = equations.concentration if self.split != "samples" else np.inf
        x, kernel = self.sides[0], not draft.bare
        given = x.reg if kernel else 1.0
        polynomial, own_x = draft.bases[0].polynomial, range(len(self.roles.x))
        searched = np.isfinite(draft.scales[0]).sum() if x.tuned and kernel else 1
        if draft.bare and draft.straight(len(own_x)):  # powers of exogenous columns
            searched = draft.trend or 1
        alone = draft.bare or {*polynomial.bent} & {*polynomial.lines}
        for trend in (draft.trend,) if alone else self.trends:
            less = draft.with_trend(trend)
            keep = less.bases[0].trends
            own = equations.less(keep, draft.bases[0].trends)
            stage, loss = own.solved(keep)
            every, chance = XI * stage.size, 1.0
            regs = every if given is None else np.array([given])
            judged = loss.judged(regs, draft.bare, searched)
            if draft.bare:
                chance = chance_of_line(draft, own_x, own, loss, aside)
            elif trend:  # whatever ξ is given
                plane = Plane.of(own.Phi[:, :keep], own.M[:, :keep]).beside(aside)
                first = less.bases[0].first
                R = own.M[:, keep + first :] if first else loss.MR
                chance = chance_of_plane(plane, R, own.y, every)
            curved = None
            if less.straight(len(own_x)):
                powers = enumerate(less.bases[0].polynomial.terms)
                some = [k for k, term in powers if term[1:] and term[1] != 1]
                curved = own.Phi[:, [*some, *range(keep, own.Phi.shape[1])]]
            found.append(Tried(less, moved, stage, regs, judged, chance, own.clusters, curved))
        return found

    def sized(self, x: np.ndarray, smooth: tuple[np.ndarray, Basis]) -> StructuralDraft:
        """The largest trend beside a kernel of these lengthscales.

        `smooth` are those of the instruments as they were found, and their coordinates. Along
        exogenous columns E[φ(x, c) | z, c] bends as φ does: a smoother stage 1 would leave h free.
        (Where only these bend they are known, and stage 1 is no rougher than it has to be.)
        Of an endogenous column of few values along which φ is nearly a line curves tell nothing:
        most of them are of exogenous columns then, which instruments explain whatever λ is.
        """
        trend, (z, basis) = self.trends[-1], smooth
        finer = z.copy()
        for column, other in self.shared if self.blind else ():
            finer[other] = min(z[other], x[column])
        if not np.array_equal(finer, z):
            basis = self.basis(1, trend, finer)
        own, shared = self.basis(0, trend, x), [i for i, _ in self.shared]
        few = {j for j, _ in own.polynomial.few if shared and j not in shared}
        ends = [j for j in own.polynomial.bent if j in few and x[j] > STRAIGHT]
        polynomial = replace(own.polynomial, lines=(*own.polynomial.lines, *ends))
        return self.draft(trend, (x, finer), (replace(own, polynomial=polynomial), basis))

    @property
    def blind(self) -> bool:
        """Whether an endogenous column bends, of which instruments may tell little."""
        return any(j < len(self.roles.x) for j in self.sides[0].plain.bent)

    def added(self, stands: tuple[Tried, int] | None) -> list[StructuralDraft]:
        """Curves along endogenous columns, of a single one of each size, that add up with a line's.

        Those of exogenous ones are the line's own, and known.
        """
        if stands is None or stands[0].draft.bare:
            return []
        line = stands[0].draft
        (x, z), side, trend = self.scales, self.sides[0], self.trends[-1]
        bent = [j for j in side.plain.bent if j < len(self.roles.x)]
        if not bent or self.told <= len(self.roles.x):
            return []
        sizes, x = (SIZES, side.plain.scales) if len(bent) == 1 else ((1.0,), x)
        own, basis_z, drafts = side.at(x).on(bent, len(x)), self.basis(1, trend, z), []
        for size in sizes:
            scales = line.scales[0].copy()
            scales[bent] = size * x[bent]
            alone = self._feature_map(side.tuned, COARSE)
            alone.fit(self.points[0], on_columns({tuple(bent): own.scaled(size)}))
            features = Beside(line.bases[0].features, alone)
            kernels = features.kernel_, self.sides[1].at(z)
            bases = Basis(side.plain.with_degree(trend), features), basis_z
            drafts.append(StructuralDraft(trend, kernels, (scales, z), bases))
        return drafts

    def straight(
        self,
        degree: int,
        lines: Pair = ((), ()),
        crossed: Sequence[int] = (),
        mixed: bool = False,
    ) -> StructuralDraft:
        """Powers of the columns alone on either side, of some no more than lines: least squares.

        Slopes along the first columns may go with some of the exogenous ones; or all their powers
        with each other's and those of the others, unless they have two values.
        """
        plain = [
            replace(
                side.plain.with_lines(some),
                crossed=tuple((i, len(first) + k) for k in crossed for i in first),
                mixed=tuple(side.plain.varied(first)) if mixed else (),
            )
            for side, some, first in zip(self.sides, lines, self.own, strict=True)
        ]
        fitted = (Bare().fit(points, "linear") for points in self.points)
        x, z = map(Basis, (p.with_degree(degree) for p in plain), fitted)
        return self.draft(degree, tuple(side.plain.scales for side in self.sides), (x, z))

    def unbent(self, degree: int) -> StructuralDraft:
        """Powers of the regressors alone, and of the instruments, unless these bend."""
        draft = self.straight(degree)
        if self.sides[1].kernel is None:
            return draft
        x, z = self.scales
        return self.fine(self.draft(degree, (x, z), (draft.bases[0], self.basis(1, degree, z))))

    def draft(self, trend: int | None, scales: tuple, bases: Pair) -> StructuralDraft:
        """Coordinates at these lengthscales."""
        return StructuralDraft(trend, tuple(map(Side.at, self.sides, scales)), scales, bases)

    def basis(self, i: int, trend: int | None, scales) -> Basis:
        """Of one side, coarse where it is yet to be judged."""
        side = self.sides[i]
        own = self._feature_map(side.tuned, COARSE) if side.kernel else Bare()
        with checks.hushed():  # of a rank that is used up the last fit will tell
            own.fit(self.points[i], side.at(scales) or "linear")
        return Basis(side.plain.with_degree(trend), own)

    def fine(self, draft: StructuralDraft) -> StructuralDraft:
        """The draft with landmarks as close together as tuned lengthscales ask for."""
        for i in (0, 1):
            if draft.bases[i].features.rank_ and self.sides[i].tuned and self.features is None:
                with checks.hushed():
                    draft = self._again(draft, i, FINE)
                lost = draft.bases[i].features.lost_trace_
                if lost > MISSED:
                    checks.warn_numerical(
                        f"{FINE.max_rank} landmarks of ({'XZ'[i]}, C) lose {lost:.2g} of the trace "
                        "of the Gram matrix; features=Nystroem(max_rank=1000) has more"
                    )
        return draft

    def halved(self, draft: StructuralDraft) -> StructuralDraft:
        """With lengthscales of the instruments halved while the loss of stage 1 falls.

        They were found on a thousand rows. What is too smooth for an E[φ | z] of very many leaves a
        bias in stage 1, which looks like evidence for a wave in h, the more so the more rows.
        """

        def loss(draft: StructuralDraft) -> float:
            return self._embedded(draft, self.few, 0.0)[2]

        if draft.bare or not self.sides[1].tuned:
            return draft
        least = loss(draft)
        for _ in range(HALVINGS):
            with checks.hushed():  # as in `basis`
                shorter = self._again(draft, 1, COARSE, 0.5)
            if (value := loss(shorter)) >= least:
                break
            draft, least = shorter, value
        return draft

    def _again(
        self, draft: StructuralDraft, i: int, otherwise: FeatureMap, times: float = 1.0
    ) -> StructuralDraft:
        """The draft with coordinates of one side made again, its lengthscales times a number."""
        kernels, scales, bases = map(list, (draft.kernels, draft.scales, draft.bases))
        kernels[i], scales[i] = kernels[i].scaled(times), times * scales[i]
        each = [part.kernel_.scaled(times) for part in bases[i].features.parts]
        made = [self._feature_map(True, otherwise).fit(self.points[i], kernel) for kernel in each]
        features = reduce(Beside, made)
        bases[i] = Basis(bases[i].polynomial, features)
        return replace(draft, kernels=tuple(kernels), scales=tuple(scales), bases=tuple(bases))

    def _embedded(self, draft: StructuralDraft, parts: list[Part], middle: float) -> tuple:
        """The rows in coordinates with their embeddings; λ, the loss of stage 1 and its rows."""
        groups = [Group(part, *draft.bases, middle) for part in parts]
        found = embed(groups, self.sides[1].reg, self.split)
        if draft.bare:  # leaving rows out adds variance, which counts where instruments are weak
            for group in groups:
                group.own = False
        return groups, *found

    @stage("both stages")
    def finish(
        self,
        draft: StructuralDraft,
        parts: list[Part],
        share: float | None = None,
        chosen: bool = False,
    ) -> StructuralFit:
        """Both stages on these rows, in the coordinates of the draft.

        ξ is a share of what it is measured by, where it is known. Where nothing was `chosen` the
        covariance has a guess at the smoothing bias in it.
        """
        few, trends = self.few, draft.bases[0].trends
        # an intercept takes up the mean of y, which then need not pass through stage 1
        middle = _mean_outcome(few) if trends else 0.0
        groups, lam, loss_1, n = self._embedded(draft, parts, middle)
        straight = draft.straight(len(self.roles.x))
        how = self.sides[0].reg, self.split, share, draft.weak, straight
        stage, xi, loss_2 = regress(groups, *how)
        if far := [group for group in groups if group.n > group.looked_at.n]:
            for group in far:
                see_through(group, stage.coefficients(xi), n, stage.m, noise_of(groups))
            stage, xi, loss_2 = regress(groups, *how)
        coef = stage.coefficients(xi)
        omega, moments = residual_sums(groups, coef, n, stage.m, stage.inverse_at(xi))
        bias = 0.0 if chosen and self.sides[0].reg is None else stage.bias_spread(xi, coef)
        covariance = stage.covariance(xi, omega) + bias
        p = np.nan if moments is None else moment_test(moments, lam)
        if trends:
            coef = arrays.namespace(coef).concat([coef[:1] + middle, coef[1:]])
        X, Z, y = (arrays.to_numpy(together(self.known, name)) for name in "XZy")
        y = y if self.complete else np.full_like(y, np.nan)
        told = coef, covariance, (lam, xi), (loss_1, loss_2), (n, stage.m), p, (X, Z, y)
        known = [part.X for part in parts if part.teaches or part.complete]
        box = reduce(Support.merge, map(Support.of, known))
        own = {"reg_lines": groups[-1].stage.own, "support": box, "asked": self.sides[0].kernel}
        own["clusters"] = joined([part.clusters for part in self.known])
        return StructuralFit(draft, self.roles, *told, **own)

    @cached_property
    @stage("lengthscales")
    def scales(self) -> tuple[np.ndarray, ...]:
        """The shape of both kernels, one scale per column, as far as they are searched."""
        if not any(side.tuned for side in self.sides) or not self.complete:
            return tuple(side.plain.scales for side in self.sides)
        data = [arrays.to_numpy(together(self.complete, name)) for name in "XZy"]
        rows = self.rounds
        if clusters := joined([part.clusters for part in self.complete]):  # one row of each
            rows = [min(limit, max(clusters.n, CLUSTERED)) for limit in rows]
        return seek_scales(self.sides, self.trends[-1], data, rows, self.verbose, self.blind)

    def _feature_map(self, tuned: bool, otherwise: FeatureMap) -> FeatureMap:
        """What was asked for, or something else where lengthscales were tuned."""
        fine = self.features is None and tuned
        return clone(otherwise) if fine else as_feature_map(self.features)


def chance_of_line(
    draft: StructuralDraft, columns: range, own: Equations, loss: CausalLeaveOneOut, aside: Any
) -> float:
    """p-value of a line along some columns, by all else that least squares has along these."""
    bends = draft.bases[0].polynomial.bends(columns)
    rest = np.delete(np.arange(own.Phi.shape[1]), bends)
    plane = Plane.of(own.Phi[:, rest], own.M[:, rest]).beside(aside)
    told = plane, own.M[:, bends], own.y
    if not (draft.crossed or draft.mixed):
        return chance_of_squares(*told)
    wald = loss.stage.wald(bends, own.y - own.Phi @ arrays.to_numpy(loss.stage.start))
    if draft.crossed:
        return max(chance_of_squares(*told), SQUARES * wald**2)
    noise = arrays.to_numpy(loss.errors([1.0])[1][0])  # least squares knows no ξ
    return max(chance_of_products(*told, noise, wald), REFUSED)  # the controlled loss is asked


def along(points: np.ndarray, column: int, values: Sequence[float]) -> np.ndarray:
    """Rows with these values in a column, the others at their medians."""
    rows = np.tile(np.quantile(points, 0.5, axis=0, method="lower"), (len(values), 1))
    rows[:, column] = values
    return rows


def _mean_outcome(parts: list[Part]) -> float:
    """Mean of y over the rows where it is known."""
    y = together([part for part in parts if part.outcome] or parts, "y")
    return float(arrays.namespace(y).mean(y))
