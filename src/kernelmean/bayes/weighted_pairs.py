"""Pairs with their shares under a prior: the regression that posteriors are weights of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core import Array, Labels, arrays, checks
from ..embedding.adjusted import in_box
from ..embedding.weighted import divisor
from ..features.landmarks import Further, Landmarks
from ..regression.support import Support
from ..regression.width import Told, has_few_values, told
from .every import Every
from .fit import PairsFit
from .folds import choose_reg
from .prior import Ratio
from .reach import HALF, NOTHING, gone_over, thinness
from .rules import bayes_factors
from .straight import Straight, left_out, room, scales
from .supervision import each_strength, targets, unpack_supervision

OUTSIDE = "posteriors are those at the nearest point of its box, made twice as wide, but for a line"
BEYOND = 2.0  # widths of that box, further out: as far as a line goes
SILENT = 1e-20  # of k(x, x) in coordinates: they are rounding


@dataclass(frozen=True)
class WeightedPairs:
    """Rows of the regression behind a posterior: the pairs, and any supervision below them.

    `asked` has the settings: rule, reg, selection, tune_lengthscale.
    """

    fit: PairsFit
    asked: Any
    ratio: Ratio
    beta: Array  # shares
    Phi: Array  # coordinates of observations
    Psi: Array  # coordinates of latents
    points: Array  # latents
    support: Support | None  # of the observations
    every: Every | None  # sums, where the pairs here are some of them
    A: Array | None = None  # weights of the supervision's targets on their points
    further: Further | None = None  # coordinates that the supervision adds
    pairs: WeightedPairs | None = None  # without the supervision

    @classmethod
    def under(cls, ratio: Ratio, fit: PairsFit, asked: Any) -> WeightedPairs:
        """The pairs alone."""
        m, every = ratio.prior, None

        def sums() -> Every:
            if fit.rows is None:
                raise ValueError(
                    "prior is another one than before this model was saved, and its rows are "
                    "elsewhere; a prior is needed that `posterior` was asked for last, or a new fit"
                )
            at = ratio.floored if asked.rule == "importance" else ratio.at
            return Every.of(fit.rows, (fit.features_x, fit.features_z), at)

        if fit.of_some:
            every = Every(*fit.once("every", (m.points, m.weights), sums))  # of a file, a tuple
        known = fit.Phi, fit.Q, fit.latents, fit.support, every
        return cls(fit, asked, ratio, ratio.shares, *known)

    def beside(self, supervision) -> WeightedPairs:
        """With further rows, whose shares are their strengths."""
        x_s, z_s, strength = unpack_supervision(supervision, self.asked.rule)
        checks.check_order(z_s, self.asked.latent_names_, "z_s", "the training latents")
        Phi, further, features = self.Phi, None, self.fit.features_x
        names = Labels.known_to(self.asked).columns
        x_s = checks.as_rows(x_s, features.n_features_in_, "x_s", "X", names)
        Phi_s = features.transform(x_s)
        if isinstance(features, Landmarks):
            further = Further(features, x_s, Phi_s)
            Phi, Phi_s = further.padded(Phi), further.Phi_s
        points, A = targets(z_s, Phi_s.shape[0])
        checks.check_columns(points, self.points.shape[1], "z_s", "the training latents")
        Psi_s, xp = self.fit.features_z.transform(points), arrays.namespace(Phi_s)
        shares = arrays.like(each_strength(strength, Phi_s.shape[0]), Phi_s)
        every = self.every
        if every is not None:
            told = xp.concat([points, xp.ones_like(points[:, :1])], axis=1)
            every = every.beside(Phi_s, shares, A @ told, further)
        return replace(
            self,
            every=every,
            Phi=xp.concat([Phi, Phi_s], axis=0),
            beta=xp.concat([xp.clip(self.beta, 0.0, None), shares]),
            Psi=xp.concat([self.Psi, A @ Psi_s], axis=0),
            points=xp.concat([self.points, points], axis=0),
            A=A,
            further=further,
            pairs=self,
            support=self.support and self.support.merge(Support.of(x_s)),
        )

    # ------------------------------------------------------------ the regression

    @cached_property
    def shares(self) -> Array:
        """As the rule takes them."""
        floored = self.asked.rule == "importance"
        return arrays.namespace(self.beta).clip(self.beta, 0.0, None) if floored else self.beta

    @cached_property
    def second(self) -> Array:
        """ΦᵀDΦ, or C."""
        if self.every is not None:
            return self.every.second
        return self.Phi.T @ (self.shares[:, None] * self.Phi)

    @cached_property
    def reg(self) -> float:
        """λ or δ; beside supervision nothing is kept, and of rows elsewhere it is as without."""
        if self.asked.reg is not None:
            return float(self.asked.reg)
        if self.pairs is not None:
            return choose_reg(self) if self.every is None else self.pairs.reg
        key = self.beta, self.asked.selection, self.asked.tune_lengthscale
        return self.fit.once("reg", key, lambda: choose_reg(self))

    @cached_property
    def told(self) -> Told:
        """What pairs left out tell of laws, once for each prior; beside supervision of latents."""
        name, pairs = ("told", self) if self.pairs is None else ("told of pairs", self.pairs)
        # c/(c² + δ) and 1/(c + √δ) turn at c
        reg = pairs.reg**0.5 if self.asked.rule == "squared" else pairs.reg

        def search() -> Told:
            residuals = pairs.left[0] if pairs is self else None
            kernel, known = self.fit.features_z.kernel_, (pairs.Phi, pairs.beta, reg)
            free, copies = self.asked.reg is None and pairs is self, self.fit.copies
            if self.line is None:
                return told(kernel, pairs.points, residuals, *known, free=free, copies=copies)
            alone = told(kernel, residuals, None, *known, copies=copies)
            return alone._replace(residuals=residuals)

        found = self.fit.once(name, (pairs.beta, np.array(reg)), search)
        return Told(*found)  # of a file, a tuple

    @cached_property
    def left(self) -> tuple[Array, Straight | None]:
        """Latents less means without their own pairs, and the line in these means."""
        seen, lifts = self.fit.seen, []
        if self._may_be_lines:
            seen, lifts = self.fit.order.sorted(seen), scales(self.fit.features_x.kernel_)
        known = self.points, self._factors(self.Phi), self.beta, seen, lifts
        return left_out(*known, self.fit.copies)

    @cached_property
    def line(self) -> Straight | None:
        """That means are told with, once for each prior."""
        if not self._may_be_lines:
            return None
        return self.fit.once("line", (self.beta, np.array(self.reg)), lambda: self.left[1])

    @cached_property
    def apart(self) -> Array:
        """Latents less the line at their observations."""
        if self.line is None:
            return self.points
        return self.points - self.line(self.fit.order.sorted(self.fit.seen))

    @property
    def _may_be_lines(self) -> bool:
        """Whether means may: who gives λ asks for the weights of the formula."""
        alone = self.fit.seen is not None and self.every is None and self.pairs is None
        return alone and self.asked.reg is None and self.fit.features_x.kernel_.boxed and self._free

    def _factors(self, coordinates, reg: float | None = None) -> tuple[Array, Array]:
        known, reg = (self.Phi, self.shares, coordinates), self.reg if reg is None else reg
        return bayes_factors(*known, reg, self.asked.rule, self.second)

    # ------------------------------------------------------------ posteriors

    def at(self, X, laws=True) -> tuple[Array, Array, Array, Array, bool, np.ndarray | None]:
        """Posteriors given each row of X, but for the line the nearest one that is not far.

        Their weights, left rightᵀ, between these factors the left one of what says how laws lie
        around their means; sums [Σwz, Σw] of means; whether laws have another mean than the
        weights; and which rows are outside.
        """
        fit, kernel, outside, asked = self.fit, self.fit.features_x.kernel_, None, X
        if self.support is not None:
            outside = self.support.outside(X, kernel, OUTSIDE)
            X = self.support.nearest(X, kernel)
        coordinates = fit.features_x.transform(X)
        if self.further is not None:
            coordinates = self.further.widened(X, coordinates)
        left, right = self._factors(coordinates)
        law, reg = left, self.told.reg if laws else None
        moved = reg is not None
        if reg is not None:
            law, _ = self._factors(coordinates, reg**2 if self.asked.rule == "squared" else reg)
        told = self._sums(right) if self.every is None else self.every.told
        sums, t = left @ told, np.zeros(X.shape[0])
        if fit.seen is not None and kernel.boxed:  # of categories none is nearest
            lost = self._unreached(X, coordinates)
            outside, t = lost if outside is None else lost | outside, 1.0 * lost
            if self.asked.reg is None:  # who gives λ asks for the weights of the formula
                own = self.beta[: fit.seen.shape[0]]
                t = np.maximum(t, thinness(coordinates, left, right, self.second, own))
        if t.any():
            moved = self._free
            left, law, right, sums = self._gone_over(t, X, left, law, right, sums)
        if self.line is not None:
            if self.support is not None:
                asked = self.support.widened(BEYOND).nearest(asked, kernel)
            xp, whole, moved = arrays.namespace(sums), sums[:, -1:], True
            sums = xp.concat([sums[:, :-1] + whole * self.line(asked), whole], axis=1)
        return left, law, right, sums, moved, outside

    def _gone_over(self, t, X, left, law, right, sums) -> tuple[Array, Array, Array, Array]:
        """The same factors and sums, by a share t those of the nearest pairs (`reach`)."""
        kernel, rows = self.fit.features_x.kernel_, (X, self.fit.order.sorted(self.fit.seen))
        near, those = (arrays.to_numpy(kernel.lift(A)) for A in rows)
        few, those = gone_over(t, near, those, self.beta)
        beside, stays = self._sums(those), arrays.like(1.0 - t, left)[:, None]
        xp = arrays.namespace(left)
        if self._free:
            w = arrays.take(left, np.flatnonzero(t), axis=0) @ right.T
            b = HALF * xp.sum(w**2, axis=1) + NOTHING**2
            sums = sums[:, -1:] * sums + few @ (b[:, None] * beside)
        else:
            sums = stays * sums + few @ beside
        left, law = (xp.concat([stays * A, few], axis=1) for A in (left, law))
        return left, law, xp.concat([right, those], axis=1), sums

    def means(self, sums) -> Array:
        """Σwz/Σw, as of laws whose weights are normalised, in the latents' box or a line's room."""
        found = sums[:, :-1] / divisor(sums[:, -1:])
        return in_box(found, self.points if self.line is None else room(self.points))

    @cached_property
    def _free(self) -> bool:
        """Whether latents may be elsewhere than at those of the pairs."""
        return self.fit.features_z.kernel_.roams and not has_few_values(self.points)

    def _sums(self, right) -> Array:
        """Σw[z, 1] of weights w on rows, a column each, (r, d + 1)."""
        xp = arrays.namespace(self.points)
        told = xp.concat([self.apart, xp.ones_like(self.points[:, :1])], axis=1)
        return self.spread(right).T @ told

    def _unreached(self, X, coordinates) -> np.ndarray:
        """Which rows are in no kernel's reach, with a warning: a gap between far observations."""
        told = arrays.to_numpy(arrays.namespace(coordinates).sum(coordinates**2, axis=1))
        lost = told < SILENT * arrays.to_numpy(self.fit.features_x.kernel_.diag_of(X))
        if lost.any():
            checks.warn_numerical(
                f"X has {lost.sum()} row(s) where no kernel reaches, row {np.flatnonzero(lost)[0]} "
                "first: posteriors are those of the nearest pairs"
            )
        return lost

    def spread(self, right) -> Array:
        """Weights on rows turned into weights on points."""
        if self.A is None:
            return right
        n = right.shape[0] - self.A.shape[0]
        xp = arrays.namespace(right)
        return xp.concat([right[:n, :], self.A.T @ right[n:, :]], axis=0)
