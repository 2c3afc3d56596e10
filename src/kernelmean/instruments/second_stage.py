"""Stage two: regression of outcomes on embeddings, its regulariser, covariance and test."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy.stats import chi2

from ..core import Array, Moments, arrays, solves
from ..core.minimise import SEARCH_ROWS
from ..core.moments import accumulate
from ..core.rows import put_together
from .basis import TOLD, trend_penalty
from .bend import weighted_chi2
from .clusters import Clusters, joined
from .first_stage import FirstStage, choose, quadratic
from .groups import Group, as_they_are, merged
from .judges import OPTIMISM, Judged

XI = np.logspace(-10, 1, 23)  # of the trace: what is chosen from
NEARLY = 1e-10  # of one: a cluster that decides what is fitted to it
CONTROL = 1e-3  # of a column's variance: what instruments explain wholly controls for nothing
FREE = 10.0  # rows up to which exogenous columns are held by δ: others would take what it leaves
LOUD = 4.0  # times the noise of y: the square of slopes beyond which δ is less
CAUTION = 2.0  # in τ²: so that bands of the sigmoid design cover, on seeds 5000 to 5099


class SecondStage:
    """Ridge of y on M for every ξ, the trend's columns apart (they are not penalised).

    With the trend first, A = MᵀM/m in blocks: B = A_tt⁻¹A_tk, S = A_kk − A_ktB = R diag(s) Rᵀ. In
    the directions G = [I, −BR; 0, R] the penalised A is block diagonal, (A_tt, s + ξ), so that one
    eigendecomposition serves every ξ. (A_tt has δ = 1/m, times `held`, added beyond the constant.)
    """

    def __init__(
        self, second, target, trends: int, m: int, power: float = np.nan, held=None, free=()
    ):
        """From MᵀM/m, Mᵀy/m, the number of trend columns, and yᵀy/m for the evidence.

        `held` is the identity if not given; columns that are `free` are held by 10/m of it.
        """
        xp = arrays.namespace(second)
        self.held = np.eye(trends) if held is None else held
        own = arrays.to_numpy(second[:trends, :trends]) + trend_ridge(self.held, m, free)
        self.inverse = arrays.like(np.linalg.inv(own), second)  # A_tt⁻¹
        B = self.inverse @ second[:trends, trends:]
        S = second[trends:, trends:] - second[trends:, :trends] @ B
        self.grid = solves.EigenGrid.of(0.5 * (S + S.T))
        R = self.grid.vectors
        top = xp.concat([arrays.like(np.eye(trends), second), -B @ R], axis=1)
        low = xp.concat([arrays.like(np.zeros((R.shape[0], trends)), second), R], axis=1)
        self.G, self.trends, self.m = xp.concat([top, low]), trends, m
        self.start = self.inverse @ target[:trends]  # coefficients of the trend's directions
        self.c = R.T @ (target[trends:] - B.T @ target[:trends])  # right-hand side in the others
        # what ξ is measured by, the trace of A_kk: S may be no more than its rounding
        self.size = max(float(xp.sum(xp.linalg.diagonal(second)[trends:])), arrays.EPS)
        self.rest = power - float(self.start @ target[:trends])  # of y², beyond the trend

    def shrink(self, regs) -> Array:
        """1/(s + ξ), a row for each ξ."""
        return self.grid.shrink(arrays.like(np.asarray(regs)[:, None], self.c))

    def along(self, reg: float) -> Array:
        """Coefficients in the directions G."""
        return arrays.namespace(self.c).concat([self.start, self.grid.shrink(reg) * self.c])

    def coefficients(self, reg: float) -> Array:
        return self.G @ self.along(reg)

    def covariance(self, reg: float, scores) -> Array:
        """A⁻¹ΩA⁻¹ for Ω given in the original coordinates."""
        left = self.inverse_at(reg)
        return left @ scores @ left.T

    def bias_spread(self, reg: float, coef) -> Array:
        """B = ξ²A⁻²τ² over the penalised coordinates, τ² = 2‖b‖²/df."""
        own = coef[self.trends :]
        df = float(self.grid.values @ self.grid.shrink(reg))
        pull = reg * self.inverse_at(reg)[:, self.trends :]
        return CAUTION * float(own @ own) / max(df, 1.0) * (pull @ pull.T)

    def wald(self, columns: list[int], e: np.ndarray) -> float:
        """p-value of no coefficients of some columns of least squares with residuals e.

        Where instruments hardly move these columns it is large, whatever a test without them says.
        """
        if not e.any():
            return 1.0
        b, V = arrays.to_numpy(self.start), arrays.to_numpy(self.inverse) * np.mean(e**2) / self.m
        own = b[columns] @ np.linalg.solve(V[np.ix_(columns, columns)], b[columns])
        return float(chi2.sf(own, len(columns)))

    def evidence(self, regs: np.ndarray) -> np.ndarray:
        """log p(y | Z) for h ~ N(0, σ²/(mξ) k), slopes of variance σ², any constant, the best σ².

        −½[(m−1) log q + log|I + S/ξ| + log|mA_tt|] up to a constant; without a constant m log q.
        Nearly the likeliest σ² is q = yᵀy/m − tᵀA_tt⁻¹t − cᵀ(s + ξ)⁻¹c, t = Tᵀy/m.
        """
        s, inverse = arrays.to_numpy(self.grid.values), arrays.to_numpy(self.inverse)
        # at ξ = 0 the prior has no limit: one that rounding sets stands for it
        regs = np.maximum(regs, arrays.EPS * self.size)
        slopes = np.linalg.slogdet(self.held @ inverse / self.m)[1]
        explained = np.log1p(s / regs[:, None]).sum(1) - slopes
        c, parts = arrays.to_numpy(self.c), arrays.to_numpy(self.c * self.shrink(regs))
        q = self.rest - np.array([float(c @ part) for part in parts])
        noise = np.maximum(q, max(1e-14 * self.rest, np.finfo(float).tiny))
        return -0.5 * ((self.m - min(self.trends, 1)) * np.log(noise) + explained)

    def inverse_at(self, reg: float) -> Array:
        """A⁻¹ = G diag(A_tt⁻¹, 1/(s + ξ)) Gᵀ."""
        p = self.trends
        head, tail = self.G[:, :p], self.G[:, p:]
        return head @ self.inverse @ head.T + (tail * self.grid.shrink(reg)) @ tail.T


def trend_ridge(held: np.ndarray, m: int, free) -> np.ndarray:
    """δ of the trend's columns, those that are `free` held by 10/m of it."""
    share = np.ones(len(held))
    share[list(free)] = min(FREE / m, 1.0) ** 0.5
    return share[:, None] * held * share * trend_penalty(len(held), m)


class CausalLeaveOneOut:
    """(1/n) Σ(y_i − h⁻ⁱ(x_i))² for every ξ, from rows in the directions G (MATH §7).

    V is what controls for confounding, see `Equations`. With M for Φ, regressors are not known
    beside outcomes. F are the embeddings that h was learned from, if these are not M: leaving out
    a row takes A⁻¹F_i(y_i − F_iᵀb)/(m − F_iᵀA⁻¹F_i) from b.
    """

    clusters: Clusters | None = None

    def __init__(self, stage: SecondStage, Phi, M, y, V=None, F=None):
        xp, p, m = arrays.namespace(M), stage.trends, stage.m
        MG = M @ stage.G
        XG = MG if Phi is M else Phi @ stage.G
        FG = MG if F is None else F @ stage.G
        T, X, S = MG[:, :p], XG[:, :p], FG[:, :p]
        pull = S @ stage.inverse
        self.stage, self.V, self.known = stage, V, Phi is not M
        self.g0, self.x0, self.m0 = (xp.sum(pull * part, axis=1) / m for part in (S, X, T))
        self.e, self.w, self.u = (y - part @ stage.start for part in (S, X, T))
        self.FR, self.XR, self.MR = (part[:, p:] for part in (FG, XG, MG))
        self.FF, self.XF, self.same = self.FR * self.FR, self.XR * self.FR, F is None

    def __call__(self, reg: float) -> float:
        errors = self.errors([reg])[1]
        return float(arrays.namespace(errors).mean(errors * errors))

    def errors(self, regs) -> tuple[Array, Array]:
        """y_i − M_iᵀb⁻ⁱ and y_i − h⁻ⁱ(x_i), a row for each ξ."""
        xp = arrays.namespace(self.u)
        D = self.stage.shrink(regs)
        b = self.stage.c * D
        left = (1.0 - self.g0) - D @ self.FF.T / self.stage.m
        moved = projected = (self.e - b @ self.FR.T) / xp.clip(left, 1e-10, None)
        if not self.same:
            pull = self.m0 + D @ (self.MR * self.FR).T / self.stage.m
            projected = self.u - b @ self.MR.T + pull * moved
        pull = self.x0 + D @ self.XF.T / self.stage.m
        return projected, self.w - b @ self.XR.T + pull * moved

    def judged(self, regs, bare: bool = False, searched: int = 1) -> Judged:
        """What the judges say of h at each ξ, so many scales having been searched."""
        projected, causal = map(arrays.to_numpy, self.errors(regs))
        controlled = without(self.V, causal, self.clusters) if self.known else projected
        evidence = self.stage.evidence(regs) - OPTIMISM * (searched - 1)
        alike = np.full(len(evidence), bare)
        means = self.known * (causal**2).mean(1), (controlled**2).mean(1)
        return Judged(*means, projected**2, evidence, alike)


class CausalLeaveClustersOut(CausalLeaveOneOut):
    """The same of h⁻ᵍ: rows of the cluster of row i are left out together.

    b⁻ᵍ = b − v, v = A⁻¹M_gᵀ(I − M_gA⁻¹M_gᵀ/m)⁻¹e_g/m = (A − M_gᵀM_g/m)⁻¹M_gᵀe_g/m, e = y − Mb.
    Of m rows looked at: these stand for all of their cluster.
    """

    def __init__(self, stage: SecondStage, Phi, M, y, V, clusters: Clusters):
        super().__init__(stage, Phi, M, y, V)
        told = self.u, self.w, self.MR, self.XR
        self.u, self.w, self.MR, self.XR = map(arrays.to_numpy, told)
        G, self.start, Phi, M = map(arrays.to_numpy, (stage.G, stage.inverse, Phi, M))
        self.clusters, self.each, self.MG, self.XG = clusters, clusters.each, M @ G, Phi @ G

    def errors(self, regs) -> tuple[Array, Array]:
        """y_i − M_iᵀb⁻ᵍ and y_i − h⁻ᵍ(x_i), a row for each ξ."""
        D, m, p = arrays.to_numpy(self.stage.shrink(regs)), len(self.u), len(self.start)
        b = arrays.to_numpy(self.stage.c) * D
        projected, causal = self.u - b @ self.MR.T, self.w - b @ self.XR.T
        held = np.linalg.inv(self.start)
        for rows in self.each:
            M, X = self.MG[rows], self.XG[rows]
            MT = np.swapaxes(M, 1, 2)
            few = M.shape[1] <= M.shape[2]
            square = None if few else MT @ M / m
            for k, shrink in enumerate(D):
                e = projected[k, rows]
                if few:
                    MA = np.concatenate([M[..., :p] @ self.start, M[..., p:] * shrink], axis=2) / m
                    own = (1.0 + NEARLY) * np.eye(M.shape[1])
                    v = np.swapaxes(MA, 1, 2) @ np.linalg.solve(own - MA @ MT, e[..., None])
                else:
                    A = np.diag(np.append(np.zeros(p), 1.0 / shrink))
                    A[:p, :p] = held
                    v = np.linalg.solve(A - square, MT @ e[..., None] / m)
                projected[k, rows] += (M @ v)[..., 0]
                causal[k, rows] += (X @ v)[..., 0]
        return projected, causal


def without(V: np.ndarray, errors: np.ndarray, clusters: Clusters | None = None) -> np.ndarray:
    """What a ridge regression on V, (n, k), leaves of errors, (candidates, n), in rows left out."""
    n = len(V)
    square = V.T @ V / n + CONTROL * np.eye(V.shape[1])
    say = np.linalg.solve(square, V.T / n)
    left = errors - (errors @ say.T) @ V.T
    if clusters is None:
        return left / (1.0 - (V * say.T).sum(1))
    for rows in clusters.each:
        own = V[rows]
        turned = np.swapaxes(own, 1, 2)
        moved = np.linalg.solve(square - turned @ own / n, turned @ left[:, rows][..., None] / n)
        left[:, rows] += (own @ moved)[..., 0]
    return left


class Equations:
    """The normal equations of stage 2, and a few complete rows, by which errors are judged.

    Of v = x − u, u = E[x | z], of a plane's columns, V has v, v u/(1 + |u|) and v u²/(1 + u²); W
    has v with the share of exogenous regressors left out as well; `told` are slopes of these.
    `weak` instruments have Fuller's constant.
    """

    def __init__(self, groups: list[Group], weak: bool = False):
        learners = [g for g in groups if g.outcome]
        moments = merged(map(embedded_moments, learners))
        self.second, self.target = moments.mean("mm"), moments.mean("my")[:, 0]
        self.power, self.m = float(moments.mean("yy")[0, 0]), moments.n
        if weak:
            self._steady(learners)
        self.Phi, self.M, self.y, wholly, self.F = complete_rows(learners)
        self.clusters = clusters_of(learners)
        self.basis = learners[0].basis_x
        slopes, exogenous = slice(1, self.basis.polynomial.slopes), dict(learners[0].part.shared)
        terms = self.basis.polynomial.terms[slopes]
        self.told = np.array([j in exogenous for j, *_ in terms], bool)
        moved = arrays.to_numpy(self.M[:, slopes])
        V, self.W = (
            arrays.to_numpy(self.Phi[:, slopes] - left[:, slopes]) for left in (self.M, wholly)
        )
        self.V = np.hstack([V, V * moved / (1.0 + abs(moved)), V * moved**2 / (1.0 + moved**2)])

    @property
    def concentration(self) -> float:
        """m R²/(1 − R²) of the regressor that the instruments move most, each row left out.

        What the exogenous ones tell of it, which the instruments explain wholly, does not count.
        """
        left = (self.W**2).mean(0)
        slopes = arrays.to_numpy(self.Phi)[:, 1 : 1 + len(left)]
        own = (left > CONTROL) & ~self.told
        rest = (without(slopes[:, ~own], slopes[:, own].T) ** 2).mean(1)
        return self.m * np.max(rest / left[own] - 1.0, initial=0.0) if own.any() else np.inf

    def untold(self, columns: slice) -> float:
        """Loss of stage 1 where instruments tell nothing: about the other rows' mean, or zero."""
        Phi = arrays.to_numpy(self.Phi)[:, columns]
        left = 1.0 - 1.0 / len(Phi)
        return float(min(Phi.var(axis=0).sum() / left**2, (Phi**2).sum(1).mean()))

    def _steady(self, learners: list[Group]) -> None:
        """Add 1/(m − q) of the moments of v = φ − M, q instruments: Fuller's constant (1977).

        Two-stage least squares with as many instruments as regressors have no mean; these have, and
        are drawn to least squares as far as instruments are weak.
        """

        def columns(Phi, Theta, y, M) -> dict:
            return {"v": Phi - M, "y": y[:, None]}

        more = merged(g.estimated(["vv", "vy"], columns) for g in learners)
        spare = max(self.m - learners[0].basis_z.width, 1)
        self.second = self.second + more.mean("vv") / spare
        self.target = self.target + more.mean("vy")[:, 0] / spare

    def solved(self, trends: int) -> tuple[SecondStage, CausalLeaveOneOut]:
        """Stage 2, for every ξ, and its causal loss."""
        known = self.Phi is not self.M
        held = self.basis.held(arrays.to_numpy(self.Phi), trends, known)
        free = [k for k, told in enumerate(self.told[: max(trends - 1, 0)], 1) if told]
        held = self.lighter(held, free)
        stage = SecondStage(self.second, self.target, trends, self.m, self.power, held, free)
        rows = self.Phi, self.M, self.y, self.V
        if self.clusters is None:
            return stage, CausalLeaveOneOut(stage, *rows, self.F)
        return stage, CausalLeaveClustersOut(stage, *rows, self.clusters)

    def lighter(self, held: np.ndarray, free: list[int]) -> np.ndarray:
        """What δ multiplies, less where slopes are larger than the noise of y about them.

        δ expects slopes of the size of the noise. Of what is nearly without, 1/n of a slope is more
        than its error. Where instruments are weak and a slope is large by chance, noise is so, too.
        """
        p = len(held)
        second, target = (arrays.to_numpy(part)[:p] for part in (self.second, self.target))
        b = np.linalg.solve(second[:, :p] + trend_ridge(held, self.m, free), target)
        e = arrays.to_numpy(self.y - self.Phi[:, :p] @ arrays.like(b, self.y))
        own = 1 + np.flatnonzero(~self.told[: max(p - 1, 0)])
        slopes = held[np.ix_(own, own)]
        signal = float(b[own] @ slopes @ b[own])
        if not signal > 0:
            return held
        least = TOLD / slopes.diagonal().min()  # no less than what copies of columns keep
        return held * min(1.0, max(LOUD * e.var() / signal, least))

    def less(self, keep: int, leave: int) -> Equations:
        """In NumPy, without the columns `keep` to `leave`."""
        own, gone = copy(self), slice(keep, leave)
        given = self.second, self.target, self.Phi, self.M, self.y
        second, target, Phi, M, own.y = map(arrays.to_numpy, given)
        own.M = np.delete(M, gone, 1)
        own.F = None if self.F is None else np.delete(arrays.to_numpy(self.F), gone, 1)
        own.Phi = own.M if self.Phi is self.M else np.delete(Phi, gone, 1)
        own.second = np.delete(np.delete(second, gone, 0), gone, 1)
        own.target = np.delete(target, gone)
        return own


def embedded_moments(group: Group) -> Moments:
    """MᵀM, Mᵀy and yᵀy over the rows of a group.

    Where rows are not all looked at they are known once `seen_through`. Before that those of
    F = ΘE, which products of coordinates tell, stand for them, and, where rows are left out, what
    that changes at the rows looked at: MᵀM − FᵀF = SᵀD + DᵀS, S = M + F and D = (M − F)/2.
    """
    names, (E, sums) = ["mm", "my", "yy"], (group.stage.E, group.moments.sums)
    if group.looked_at.n == group.n:
        return group.estimated(names)
    if group.through:
        return Moments.of(group.n, {name: group.through.sums[name] for name in names})
    columns = partial(left_out, group.stage, group.n / group.looked_at.n)
    rest = accumulate(group.blocks(), ["sd", "dy"], columns).sums
    mm = E.T @ sums["zz"] @ E + rest["sd"] + rest["sd"].T
    return Moments.of(
        group.n, {"mm": mm, "my": E.T @ sums["zy"] + 2.0 * rest["dy"], "yy": sums["yy"]}
    )


def left_out(stage: FirstStage, scale: float, Phi, Theta, y, M) -> dict[str, Array]:
    """S and D of rows that stand for so many each: one that would count for half a row, for one."""
    xp, F = arrays.namespace(M), Theta @ stage.E
    hat = reduce(xp.maximum, stage.hats(Phi, Theta))
    weights = xp.where(hat * scale < 0.5, scale * xp.ones_like(hat), xp.ones_like(hat))
    return {"s": M + F, "d": 0.5 * weights[:, None] * (M - F), "y": y[:, None]}


def noise_of(groups: list[Group]) -> list[str]:
    """Products of `residuals` that are needed: "ro" where rows serve one stage only."""
    return ["oo", "rr"] + ["ro"] * (not all(g.teaches and g.outcome for g in groups))


def see_through(group: Group, coef, n: int, m: int, noise: list[str]) -> None:
    """A second pass over rows that are not all looked at: what is no product of coordinates.

    Residuals are those of coefficients that are nearly the last ones.
    """
    stage, own, about = group.stage, group.own, residuals(group, coef, n, m)

    def columns(Phi, Theta, y, M) -> dict:
        row = Phi, Theta, y, stage.rows(Phi, Theta, own)
        return about(*row) | as_they_are(*row)

    group.through, group.nearly = group.total(["mm", "my", "yy", *noise], columns), coef


def held_out_loss(stage: SecondStage, group: Group) -> Callable[[float], float]:
    """(1/n) Σ(y − h(x))² on a group of rows, for every ξ: a quadratic in the coefficients."""
    moments = group.total(["xx", "xy", "yy"])
    inner = stage.G.T @ moments.mean("xx") @ stage.G
    target = stage.G.T @ moments.mean("xy")[:, 0]
    return quadratic(float(moments.mean("yy")[0, 0]), target, inner, stage.along)


def regress(
    groups: list[Group],
    reg: float | None,
    split: str,
    share: float | None,
    weak: bool = False,
    line: bool = False,
) -> tuple[SecondStage, float, float]:
    """Stage 2 of the rows with outcomes, ξ and its loss.

    ξ is given, or the share known of the size that it is measured by, or chosen: of a line along
    endogenous columns by evidence.
    """
    stage, loss = Equations(groups, weak).solved(groups[0].basis_x.trends)
    if split == "share":
        return stage, *choose(reg, held_out_loss(stage, groups[0]), stage.size)
    if reg is None and share is not None:
        reg = share * stage.size
    if reg is None:
        regs = XI * stage.size
        judged = loss.judged(regs)
        reg = float(regs[judged.likeliest(np.arange(len(regs))) if line else judged.best()])
    return stage, float(reg), loss(reg)


def clusters_of(learners: list[Group]) -> Clusters | None:
    """Those of the `complete_rows`."""
    if learners[0].part.clusters is None:
        return None
    complete = [g for g in learners if g.teaches] or learners
    return joined([g.part.few(SEARCH_ROWS // len(complete)).clusters for g in complete])


def complete_rows(learners: list[Group]) -> tuple[Array, Array, Array, Array, Array]:
    """Φ, M and y of a few of the complete rows, M with each row wholly left out; M as learned from.

    Rows that judge are left out of their own embeddings, also those that least squares is fitted to
    as they are. Where no row is complete (two samples), regressors are not known beside outcomes,
    and the embedding has to stand for them. The last is None where it is M.
    """
    complete = [g for g in learners if g.teaches] or learners
    few = [group.few(SEARCH_ROWS // len(complete)) for group in complete]
    judging = [
        M if g.own == g.part.own else g.stage.rows(Phi, Theta, g.part.own)
        for g, (Phi, Theta, _, M) in zip(complete, few, strict=True)
    ]
    same = all(g.own == g.part.own for g in complete)
    whole = [
        g.stage.rows(Phi, Theta, g.part.own, wholly=True) if g.stage.exogenous else M
        for g, (Phi, Theta, *_), M in zip(complete, few, judging, strict=True)
    ]
    (Phi, _, y, F), M = put_together(few), put_together(judging)
    return (Phi if complete[0].teaches else M), M, y, put_together(whole), None if same else F


def residual_sums(
    groups: list[Group], coef, n: int, m: int, inverse
) -> tuple[Array, Moments | None]:
    """Ω, and what `moment_test` is of, over the complete rows, if there are any.

    Ω = Σ s_i² M_iM_iᵀ: what the rows' multipliers do to the normal equations of stage 2. Where
    rows serve one stage only "tt" is of t_i = r_iθ_i − CA⁻¹s_iM_i, C = Σθ_iφ_iᵀ: what they do to
    the moments Σr_iθ_i of the fit, its coefficients moving with them. Of rows in clusters products
    are of sums within these.
    """
    noise = (noise_of_rows if groups[0].part.clusters is None else noise_of_clusters)(
        groups, coef, n, m
    )
    omega, whole = noise["oo"], [g for g in groups if g.part.complete]
    if not whole:
        return omega, None
    told = merged(g.moments for g in whole)
    r = told.sums["zy"][:, 0] - told.sums["zx"] @ coef
    told = Moments.of(told.n, {**told.sums, **noise, "r": r})
    if "ro" in noise:
        moved = told.sums["zx"] @ inverse
        shared = told.sums["ro"] @ moved.T
        told.sums["tt"] = told.sums["rr"] - shared - shared.T + moved @ omega @ moved.T
    return omega, told


def noise_of_rows(groups: list[Group], coef, n: int, m: int) -> dict[str, Array]:
    """Products of `residuals`, those with r of complete rows.

    Sums of a second pass, at other coefficients, are corrected by what the rows looked at say of
    both.
    """
    names, noise = noise_of(groups), dict[str, Any]()
    for g in groups:
        found = g.estimated(names, residuals(g, coef, n, m)).sums
        if g.through:
            other = g.estimated(names, residuals(g, g.nearly, n, m)).sums
            found = {name: g.through.sums[name] + found[name] - other[name] for name in names}
        for name in names if g.part.complete else ["oo"]:
            noise[name] = noise.get(name, 0.0) + found[name]
    return noise


def noise_of_clusters(groups: list[Group], coef, n: int, m: int) -> dict[str, Array]:
    """The same of their sums within clusters, which may have rows in several groups."""
    each = [g.clustered(residuals(g, coef, n, m)) for g in groups]
    whole = [sums["r"] for g, sums in zip(groups, each, strict=True) if g.part.complete]
    o = np.add.reduce([sums["o"] for sums in each])
    columns = {"o": o, "r": np.add.reduce(whole) if whole else o[:, :0]}
    products = {name: columns[name[0]].T @ columns[name[1]] for name in noise_of(groups)}
    return {name: arrays.like(product, coef) for name, product in products.items()}


def residuals(group: Group, coef, n: int, m: int) -> Callable[..., dict[str, Array]]:
    """Columns s_iM_i and r_iθ_i, r = y − h(x).

    s_i = (y_i − M_iᵀb)/m for a row of stage 2, less (φ_i − M_i)ᵀb/n for one that teaches stage 1:
    for a row in both, with n = m, the structural residual (y_i − φ_iᵀb)/n.
    """
    outcome, teaches = group.outcome, group.teaches  # the group itself does not travel

    def columns(Phi, Theta, y, M) -> dict:
        h, fitted = Phi @ coef, M @ coef
        s = (y - fitted) / m if outcome else 0.0 * y
        if teaches:
            s = s - (h - fitted) / n
        return {"o": M * s[:, None], "r": Theta * (y - h)[:, None]}

    return columns


def moment_test(moments: Moments, reg: float) -> float:
    """p-value of E[y − h(X) | Z] = 0 for the h that was fitted.

    With residuals r_i and instruments whitened by stage 1, w_i = (ΘᵀΘ/n + λI)^{-1/2}θ_i, the
    statistic ‖n^{-1/2} Σ r_iw_i‖² is under the hypothesis a sum of χ²₁ weighted by the eigenvalues
    of V = (1/n) Σ r_i²w_iw_iᵀ. A multiple of χ² with the same mean tr V and variance 2 tr V² gives
    the p-value. The fit has minimised such moments on the same rows, which makes the test
    conservative, except where regularisation has biased the fit: that it sees. Where rows serve
    one stage only V is that of t_i, if it is larger. `moments` are those of `residual_sums`: of
    θ_i, as "z", of r_iθ_i, as "r", and of t_i.
    """
    grid = solves.EigenGrid.of(moments.mean("zz"))
    floor = max(reg, 1e-6 * float(arrays.namespace(grid.values).sum(grid.values)))
    whiten = grid.vectors * grid.shrink(floor) ** 0.5
    g = arrays.to_numpy(moments.sums["r"] @ whiten)
    spreads = (moments.mean(name) for name in ("rr", "tt") if name in moments.sums)
    V = max((arrays.to_numpy(whiten.T @ S @ whiten) for S in spreads), key=np.trace)
    return float(weighted_chi2(g @ g / moments.n, np.trace(V), (V * V).sum()))
