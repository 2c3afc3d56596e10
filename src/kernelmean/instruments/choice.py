"""The coordinates in which a structural function is written, and which of several are taken."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import Saveable, arrays
from ..core.moments import evenly
from ..regression.lengthscales import SCALE_DECADES
from .basis import Basis
from .clusters import Clusters, error_of_mean
from .judges import REFUSED, Judged, doubt
from .second_stage import SecondStage

SIZE_DECADES = 0.9  # a single lengthscale of regressors stays within 10**±0.9 of the median's
POINTS = 300  # at which candidates are compared
MOVED = 10.0  # concentration parameter below which instruments tell no shape
# V and D in V + B, B what stands for the squared bias: for h, for its bands, for averages. Set on
# seeds 1000 to 1199 of seven designs; 10 on 22000 to 22159 of three, 2 on 100 to 139 of 44
WIDER = {
    "line": ((1.0, 1.5), (1.0, 10.0), (1.0, 0.25)),
    "balanced": ((5.0, 0.25), (5.0, 0.25), (2.0, 0.25)),
    "beside": ((5.0, 0.25), (5.0, 10.0), (2.0, 0.25)),
    "given": ((1.0, 1.5), (1.0, 1.5), (1.0, 1.5)),
}
TWO = 3.0  # D in bands where no bend is free: on 593000 to 594720 of four designs of treatments
FEW = 0.05  # of the rows: fewer that carry a bend do not tell it from noise of theirs
CURVES = 0.01  # p-value of no curves of exogenous columns below which a line stands beside these
FLOOR = 1e-7  # of the trace: a ridge that keeps what coordinates cannot say out of them

Pair = tuple[Any, Any]  # of regressors (X, C) and of instruments (Z, C)


@dataclass(frozen=True)
class StructuralDraft(Saveable):
    """The coordinates in which h is written; pairs are of the regressors and of the instruments."""

    trend: int | None
    kernels: Pair
    scales: tuple[np.ndarray, np.ndarray]
    bases: tuple[Basis, Basis]
    weak: bool = False  # least squares with Fuller's constant, which have moments

    @property
    def bare(self) -> bool:
        """Whether this is two-stage least squares: not a curve told by instruments in lines."""
        curve = self.kernels[1] is None and self.kernels[0] is not None
        return not curve and not self.bases[1].features.rank_

    @property
    def says(self) -> Any:
        """The same for least squares in the same columns; otherwise what is like no other."""
        terms = (frozenset(basis.polynomial.terms) for basis in self.bases)
        return tuple(terms) if self.bare else id(self)

    def curved(self, side: int) -> bool:
        """Whether a kernel is used on a side."""
        return not self.bare and self.kernels[side] is not None

    @property
    def crossed(self) -> bool:
        """Whether slopes of endogenous columns go with exogenous ones, in products."""
        return bool(self.bases[0].polynomial.crossed)

    @property
    def mixed(self) -> bool:
        """Whether powers of endogenous columns stand in products with those of others."""
        return bool(self.bases[0].polynomial.mixed)

    def straight(self, columns: int) -> bool:
        """Whether h is a line along each of the first so many columns."""
        plane = self.bare and self.trend == 1
        return plane or min(self.bent(0), default=columns) >= columns

    def bent(self, side: int) -> list[int]:
        """Columns of a kernel, which may stand beside what is a line or category; or of powers."""
        if self.bare:
            return self.bases[side].polynomial.bent
        return np.flatnonzero(np.isfinite(self.scales[side])).tolist()

    def at_bound(self, side: int) -> np.ndarray:
        """1 (−1) for each lengthscale that is as long (short) as the search goes, else 0."""
        u = np.log10(self.scales[side])
        bent = np.isfinite(u)
        alone = side == 0 and bent.sum() == 1
        off = u - 0.5 * np.log10(max(bent.sum(), 1))
        reach = SIZE_DECADES if alone else SCALE_DECADES
        return np.where(bent & (abs(off) > reach - 1e-3), np.sign(off), 0.0)

    def with_trend(self, trend: int | None) -> StructuralDraft:
        """The same coordinates of regressors beside another trend."""
        old = self.bases[0]
        basis = Basis(old.polynomial.with_degree(trend), old.features)
        return replace(self, trend=trend, bases=(basis, self.bases[1]))


@dataclass(frozen=True, eq=False)
class Tried:
    """A draft that was judged, at every ξ."""

    draft: StructuralDraft
    moved: float  # the concentration parameter
    stage: SecondStage
    regs: np.ndarray
    judged: Judged
    chance: float = 1.0  # p-value of a plane, by its curves; of no products, by these
    clusters: Clusters | None = None  # of the rows judged by
    curved: np.ndarray | None = None  # of a line: its curves along exogenous columns, at the rows

    def aside(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Curves that a line stands beside, and what holds each in stage 2 at that ξ."""
        assert self.curved is not None
        (n, width), kernel = self.curved.shape, self.draft.bases[0].features.rank_
        return self.curved, np.repeat([1.0 / n, self.regs[i]], [width - kernel, kernel])

    def at(self, points: np.ndarray, i: int) -> np.ndarray:
        """h at points, at the ξ of that number."""
        return self.draft.bases[0].numbers(points) @ self.stage.coefficients(self.regs[i])

    def values(self, points: np.ndarray) -> np.ndarray:
        """h at points, a column for each ξ."""
        coefs = np.column_stack([self.stage.coefficients(reg) for reg in self.regs])
        return self.draft.bases[0].numbers(points) @ coefs


def line_of(tried: Iterable[Tried], own: int) -> tuple[Tried, int] | None:
    """The line along the first `own` columns that stands, and the number of its ξ.

    Beside curves of exogenous columns if these are surely there, and no slopes that go with
    exogenous columns are found, which have no kernel; otherwise least squares.
    """
    lines = [one for one in tried if one.draft.straight(own)]
    differ = any(one.draft.crossed and doubt(one.chance) > 0.0 for one in lines)
    lines = [one for one in lines if not one.draft.crossed]
    if not lines:
        return None
    judged = Judged.together(one.judged for one in lines)
    owner = [(one, i) for one in lines for i in range(len(one.regs))]
    chance = min((one.chance for one in lines if not one.draft.bare), default=1.0)
    return owner[judged.likeliest(np.arange(len(owner)), chance < CURVES and not differ)]


class Candidates:
    """Drafts that were judged, each at every ξ.

    Attributes
    ----------
    judged : Judged
    owner : list of (Tried, int)
        The draft of each candidate, and the number of its ξ.
    crossed : list of int
        Lines along the first columns, the endogenous ones, whose slopes go with exogenous ones.
    straight : array of bool
        Lines of one slope.
    squares : list of int
        Straight ones by least squares; the first is a line along every column.
    chances : array
        p-values of a line by each.
    clusters : Clusters, optional
    """

    def __init__(self, tried: list[Tried], own: int):
        self.judged, self.clusters = Judged.together(one.judged for one in tried), tried[0].clusters
        self.owner = [(one, i) for one in tried for i in range(len(one.regs))]
        crossed = np.array([one.draft.crossed for one, _ in self.owner])
        self.crossed = np.flatnonzero(crossed).tolist()
        self.straight = np.array([one.draft.straight(own) for one, _ in self.owner]) & ~crossed
        self.squares = np.flatnonzero(self.straight & self.judged.bare).tolist()
        self.chances = np.array([one.chance for one, _ in self.owner])

    def probable(self, some: np.ndarray) -> np.ndarray:
        """Tempered posterior probabilities of some, and zero."""
        weights = self.judged.weights() * some
        return weights / (weights.sum() or 1.0)

    @property
    def least(self) -> float:
        """p-value of a line, the least of its tests."""
        return float(self.chances[~self.straight].min(initial=1.0))

    def taken(
        self, plain: int | None, X: np.ndarray, weak: bool, few: bool
    ) -> tuple[int | None, int, float]:
        """A line, what is taken beside it, and the share of the way there that it goes."""
        if plain is None:
            return None, self.judged.best(), 1.0
        if weak:
            return plain, plain, 1.0
        if few:
            plain, best, share = differing(plain, self.crossed, self.chances)
        else:
            least = self.least if self.clusters is None else max(self.least, REFUSED)
            best, share = self.judged.beside(plain, least, ~self.straight)
        return plain, best, min(share * self.carried(plain, best, X), 1.0)

    def carried(self, plain: int, best: int, X: np.ndarray) -> float:
        """Which share of the way from a line is carried by rows of X.

        Products have long tails, and their test knows them.
        """
        (one, i), (other, j) = self.owner[best], self.owner[plain]
        if best == plain or (one.draft.mixed and doubt(one.chance) >= 1.0):
            return 1.0
        return min(float(rows_of(one.at(X, i) - other.at(X, j))) / (FEW * len(X)), 1.0)

    def gain(self, best: int, share: float) -> tuple[float, float] | None:
        """See `Choice`: at least so much, as squares are convex."""
        if not self.squares:
            return None
        (one, i), projected = self.owner[best], self.judged.projected
        rivals = [projected[self.squares[0]]]
        if len(one.regs) > 1 and one.draft.trend == 1:  # a line, at the largest ξ
            rivals.append(projected[best - i + len(one.regs) - 1])
        line = min(rivals, key=np.mean)
        less = share * (line - projected[best]) / max(line.mean(), np.finfo(float).tiny)
        return float(less.mean()), error_of_mean(less, self.clusters)


class Choice:
    """What is taken, and how far apart the candidates are that it was taken from.

    Attributes
    ----------
    taken : pair of StructuralDraft and float
        With its ξ by the size that this is measured by.
    carrier : StructuralDraft
        The likeliest draft with a kernel, of endogenous columns if there is one: in its coordinates
        a band can bend.
    points : array of shape (k, d)
    apart : array of shape (k, candidates)
        How far from it the candidates with a kernel are that do not explode, at the points,
        times the roots of their tempered posterior probabilities.
    plain : pair of StructuralDraft and float, optional
        A straight line that goes only a share `bent` of the way to what is taken: to what bends, or
        to a line whose slope goes with exogenous columns.
    bent : float
    free : bool
        Whether something that bends along the endogenous columns may be true.
    two : bool
        Whether the endogenous columns have two values each.
    sure : bool
        Whether products are taken, all the way: they are judged beside all else that bends.
    gain : pair of float, optional
        Share by which projected squared errors on rows left out are below those of a line, and its
        standard error: two-stage least squares, or a line that the same stage 1 predicts, if these
        are less.
    refused : float
        p-value of a line, the least of its tests; 1 of rows in clusters, which they take for more.
    """

    plain: tuple[StructuralDraft, float] | None = None

    def __init__(self, tried: list[Tried], X: np.ndarray, own: int, few: bool):
        """By the judges; X are rows.

        The line along the first `own` columns, the endogenous ones, that stands does so unless a
        judge objects. Only lines along these are taken where instruments are weak in the likeliest
        draft with a kernel, for no judge sees a shape then, and where they have too `few` values
        for a bend; these tell of slopes that go with exogenous columns.
        """
        every = Candidates(tried, own)
        self.free = not few and not every.straight.all()
        self.two = all(len(np.unique(column)) == 2 for column in X[:, :own].T)
        kernels = ~every.judged.bare
        curves = kernels & ~(every.straight & self.free)
        weights = every.probable(curves if curves.any() else kernels)
        likeliest = every.owner[weights.argmax()][0]
        weak = likeliest.moved < MOVED
        stand = [one for one in tried if one.draft.bare or not (weak and every.squares)]
        stands = line_of(stand, own)
        number = every.owner.index(stands) if stands else None
        plain, best, self.bent = every.taken(number, X, weak, few)
        one, i = every.owner[best]
        self.sure = one.draft.mixed and self.bent >= 1.0
        if self.sure:  # kernels that are far less likely say nothing of it
            weights = every.probable(~every.straight)
        self.points = X[evenly(len(X), POINTS)]
        values = np.hstack([each.values(self.points) for each in tried])
        taken = values[:, best]
        if plain is not None and self.bent < 1.0:
            other, j = every.owner[plain]
            self.plain = other.draft, other.regs[j] / other.stage.size
            taken = self.bent * taken + (1.0 - self.bent) * values[:, plain]
        self.apart = (values - taken[:, None]) * weights**0.5
        self.gain = every.gain(best, self.bent)
        self.refused = every.least if every.clusters is None else 1.0  # tests count rows
        draft = replace(one.draft, weak=weak and one.draft.bare)
        self.taken, self.carrier = (draft, one.regs[i] / one.stage.size), likeliest.draft

    def widened(self, fit: Any, balanced: bool) -> dict[str, Any]:
        """V + B of coefficients of a fit that knows their V: for h, for its bands, for averages.

        D is the mean of (h − taken)² over the candidates. A ξ chosen (`balanced`) makes the squared
        bias about as large as the variance, which does not know of the choice: B = 4V + ¼D;
        otherwise 1½D. A line stands where no judge objects, though what bends may be as likely: its
        slope is safe, its band is not, and has 10D, `beside` curves of exogenous columns, too. In
        averages of slopes most of the bias is gone: V + ¼D about a line, 2V + ¼D about what bends.
        Of endogenous columns of two values a line is all there is, and its band has 3D. Products
        that are `sure` have 1½D.
        """
        Phi = fit.basis.numbers(self.points)
        second = Phi.T @ Phi
        second[np.diag_indices_from(second)] += FLOOR * np.trace(second)
        say = np.linalg.solve(second, Phi.T @ self.apart)
        V, D = arrays.to_numpy(fit.covariance), say @ say.T
        line = self.free and fit.draft.straight(len(fit.roles.x))
        kind = "given" if not balanced else "beside" if line else "balanced"
        kind = "line" if fit.draft.bare else kind
        whole, (noise, apart), mean = WIDER[kind]
        if self.two:
            apart = min(apart, TWO)
        if self.sure:
            apart = min(apart, whole[1])
        covariance, band, mean = (
            arrays.like(v * V + d * D, fit.coef) for v, d in (whole, (noise, apart), mean)
        )
        told = {"gain": self.gain, "refused": self.refused}
        return {"covariance": covariance, "band": band, "mean": mean, **told}


def differing(plain: int, crossed: list[int], chances: np.ndarray) -> tuple[int, int, float]:
    """A line, one with more slopes that go with exogenous columns, and the share of the way to it.

    Each in `crossed` but the last is surely better than the one before.
    """
    *sure, last = plain, *crossed
    share = doubt(chances[last]) if sure else 1.0
    if share <= 0.0:
        return plain, sure[-1], 1.0
    return (sure[-1] if share < 1.0 else plain), last, share


def rows_of(terms: np.ndarray) -> np.ndarray:
    """How many rows carry Σt², (Σt²)²/Σt⁴, of each column: all of them where terms are alike."""
    squares = terms**2
    return squares.sum(0) ** 2 / np.maximum((squares**2).sum(0), np.finfo(float).tiny)
