"""The laws that a conditional density answers with: weighted points moved to where each x is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, wraps
from inspect import signature
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..core import Array, Interval, Saveable, arrays, checks
from ..core.interval import ends as parts_of
from ..core.interval import of_ends
from ..core.moments import row_blocks
from ..embedding.embedding import MeanEmbedding, tilts
from ..embedding.law import Law
from ..embedding.line import NEGLIGIBLE, STILL, Line, ends, quantiles
from ..embedding.move import Move, Wide

ROUGH_MASS = 0.01  # relative error of the mass of a law where that will do
BLOCK = 2**18  # numbers that stay in cache
EVALUATIONS = 2**28  # of the kernel, beyond which densities of pairs are interpolated


class MovedLaws(Saveable, Law):
    """A batch of m laws Σ_j w_bj k̄_γ(e_j, ·) of e, the points e_j common, each moved in its way.

    Parameters
    ----------
    embedding : MeanEmbedding
        A batch on the points e_j, with the bandwidth γ.
    move : Move, optional
        y = B⁻¹(shift + width e). On a bent scale in one column all is exact or as precise as
        without; the mode of several is where that before the move comes to.
    wide : Wide, optional
        A law that each takes a share of, before it is moved: whatever has a bandwidth (densities,
        quantiles, intervals, regions, the mode of one column, draws). Moments and probabilities
        are those of the weighted points alone.
    drawn : array of shape (d,), optional
        Factors of the distances of points from their mean: what has a bandwidth stands there.
    """

    embedding: MeanEmbedding

    def __init__(
        self, embedding: MeanEmbedding, move: Move = STILL,
        wide: Wide | None = None, drawn: np.ndarray | None = None,
    ):  # fmt: skip
        self.embedding, self.labels = embedding, embedding.labels
        self.move, self.wide, self.drawn = move, wide, drawn

    def carrying(self, *known) -> MovedLaws:
        """The same with what an estimator knows of them, as `MeanEmbedding.carrying`."""
        return MovedLaws(self.embedding.carrying(*known), self.move, self.wide, self.drawn)

    @property
    def weights(self) -> Array:
        """w_bj, shape (m, n)."""
        return self.embedding.weights

    def __len__(self) -> int:
        return len(self.embedding)

    def __repr__(self) -> str:
        n, d = self.embedding.points.shape
        return f"MovedLaws({len(self)} laws on {n} points in {d} dimension(s))"

    def __getitem__(self, index) -> Any:
        """One of the laws, a `MovedLaw` on points of its own; or a smaller batch."""
        chosen = np.arange(len(self))[index].tolist()
        if isinstance(chosen, int):
            return MovedLaw.of(self[[chosen]])
        return MovedLaws(self.embedding[chosen], self.move.of(chosen), self.wide, self.drawn)

    def marginal(self, columns) -> MovedLaws:
        """The laws of some columns, in the order asked for."""
        wide = None if self.wide is None else self.wide.on(columns)
        drawn = None if self.drawn is None else self.drawn[np.atleast_1d(columns)]
        return MovedLaws(self.embedding.marginal(columns), self.move.on(columns), wide, drawn)

    def __call__(self, Y) -> Array:
        """The embeddings as functions at rows of Y, as `MeanEmbedding`: without the wide law."""
        m = self.embedding
        return m(Y) if self.move.idle else self._of_each(lambda one: one(Y))

    def tilted(self, factor: Callable) -> MovedLaws:
        """The laws whose densities are `factor` times these, as `MeanEmbedding.tilted`.

        Without the wide law: what is beyond all points, the factor may rule out.
        """
        m = self.embedding
        if self.move.idle:
            return MovedLaws(m.tilted(factor))
        tilted = m.tilted_by(self._of_each(lambda one: tilts(factor, one.points)))
        return MovedLaws(tilted, self.move, drawn=self.drawn)

    def smoothed(self, kernel: Any, wide: Wide | None) -> MovedLaws:
        """With densities by another kernel, of this lengthscale, and another wide law."""
        width = tuple(np.broadcast_to(kernel.lengthscale, self._d).tolist())
        return MovedLaws(self.embedding.altered(_kernel=kernel, _bandwidth=width), self.move, wide)

    # ------------------------------------------------------------ answers

    def mean(self) -> Array:
        if self.move.bend is None:
            return self._like(self.move(arrays.to_numpy(self.embedding.mean())))
        return self._of_each(lambda m: m.mean())

    def std(self) -> Array:
        xp, cov = arrays.namespace(self.embedding.points), self.cov()
        return xp.sqrt(xp.linalg.diagonal(cov))

    def cov(self) -> Array:
        if self.move.bend is not None:
            return self._of_each(lambda m: m.cov())
        cov, widths = self.embedding.cov(), self.move.widths
        return cov if widths is None else cov * self._like(widths[:, :, None] * widths[:, None, :])

    def quantile(self, q) -> Array:
        return self._like(quantiles(self._lines(), q))

    def interval(self, level: float = 0.95, kind: str = "central") -> Interval:
        return Interval.between(self._like(ends(self._lines(), level, kind)))

    def region(self, level: float = 0.95) -> list[np.ndarray]:
        """Highest-density regions of one column: disjoint intervals (k, 2) of each law."""
        if self._d > 1:
            raise ValueError(f"y has {self._d} columns; regions are for one column")
        (line,) = self._lines()
        return line.regions(checks.check_level(level))

    def mode(self) -> Array:
        if self._d > 1:
            return self._like(self._kernel_move(arrays.to_numpy(self._kernels.mode())))
        (line,) = self._lines()
        return self._like(line.mode()[:, None])

    def sample(self, n: int, random_state=None) -> Array:
        """n draws of every law, (m, n, d): by inversion in one column, otherwise by rejection."""
        checks.check_count(n, "n")
        rng = checks.generator(random_state)
        if self._d > 1:
            draws = arrays.to_numpy(self._kernels.sample(n, rng))
            draws = draws if self.wide is None else self.wide.replace_some(draws, rng)
            return self._like(self._kernel_move(draws))
        (line,) = self._lines()
        return self._like(line.sample(n, rng)[..., None])

    def probability(self, event: Callable) -> Array:
        if self.move.idle:
            return self.embedding.probability(event)
        return self._of_each(lambda m: m.probability(event))

    def density(self, Y) -> Array:
        return self._like(np.exp(arrays.to_numpy(self.log_density(Y))))

    def log_density(self, Y) -> Array:
        """log of `density`: −∞ where that is zero, and finite where there is a wide law."""
        Y = self.rows(Y)
        return self._like(self._log_density(Y[None], *self._table(Y)))

    def log_bound(self, Y) -> np.ndarray:
        """What `log_density` of several columns is below: positive parts before they sum to one.

        At a fraction of the cost, and equal where no weight is negative, (m, k).
        """
        Y = self.rows(Y)
        moved = np.broadcast_to(self._kernel_move.back(Y[None]), (len(self), *Y.shape))
        return self._log_density(Y[None], self._positive(moved), moved)

    def log_density_each(self, Y: np.ndarray) -> np.ndarray:
        """log of the density of law b at rows of its own, Y[b] of shape (k, d): (m, k).

        Of several columns in single precision, with an integral that is one but for a hundredth.
        """
        moved = self._kernel_move.back(Y)
        p = self._positive(moved, np.float32)
        return self._log_density(Y, p if self._d == 1 else p / self._roughly[:, None], moved)

    def density_of_pairs(self, Y) -> Array:
        """Density of law b at row b of Y, (m,)."""
        return self._like(np.exp(arrays.to_numpy(self.log_density_of_pairs(Y))))

    def log_density_of_pairs(self, Y) -> Array:
        """Its logarithm."""
        Y = self.rows(Y)
        return self._like(self._log_density(Y, *self._pairs(Y)))

    def cdf(self, Y, paired: bool = False) -> Array:
        """Distribution functions per column: of law b at row b, (m, d), or at all, (m, k, d)."""
        Y = self.rows(Y)
        columns = [
            line.cdf(Y[:, [j]])[:, 0] if paired else line.cdf(Y[:, j])
            for j, line in enumerate(self._lines())
        ]
        return self._like(np.stack(columns, axis=-1))

    def mass_above(self, Y) -> np.ndarray:
        """P(p_b(Y) > p_b(y_b)) of one column: the level of the region that just holds row b."""
        (line,) = self._lines()
        return line.mass_above(self.rows(Y))

    # ------------------------------------------------------------ inside

    @property
    def _d(self) -> int:
        return self.embedding.points.shape[1]

    def rows(self, Y, name: str = "Y") -> np.ndarray:
        """Rows of finite numbers with as many columns as the points, as NumPy array."""
        return arrays.as_columns(Y, self._d, name, "the training y", self.labels.columns)

    def _like(self, values: np.ndarray) -> Array:
        return arrays.like(values, self.embedding.points)

    @cached_property
    def _kernels(self) -> MeanEmbedding:
        """The batch of points that kernels stand at, before any move."""
        m = self.embedding
        if self.drawn is None:
            return m
        return m.moved(m.points * arrays.like(self.drawn - 1.0, m.points))

    @cached_property
    def _kernel_move(self) -> Move:
        """How these are moved, so that means are those of the weighted points."""
        if self.drawn is None:
            return self.move
        back = (1.0 - self.drawn) * arrays.to_numpy(self.embedding.mean())
        return replace(self.move, shift=self.move.straight(back))

    def _of_each(self, answer: Callable) -> Array:
        return self._like(np.stack([arrays.to_numpy(answer(self[b])) for b in range(len(self))]))

    def _lines(self) -> Iterator[Line]:
        """The densities of each column, at the kernel's own lengthscale, which is γ."""
        m = self._kernels
        for j in range(self._d):
            yield Line(m.marginal(j), None, self._kernel_move.on(j), self.wide and self.wide.on(j))

    def _log_density(self, Y: np.ndarray, p: np.ndarray, e: np.ndarray) -> np.ndarray:
        found = arrays.logs(p) if self.wide is None else self.wide.log_mixed(p, e)
        return found + self.move.steepness(Y).sum(axis=-1)

    def _table(self, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positive parts (m, k) of every law at all rows of Y, and the rows before any move."""
        moved = self._kernel_move.back(Y[None, :, :])
        if not self._kernel_move.common:
            p = self._positive(moved)
            return p if self._d == 1 else p / self._whole[:, None], moved
        if self._d == 1:
            return self._line.pdf(moved[0, :, 0]), moved
        p = self._kernels.density(self._like(moved[0]))
        return arrays.to_numpy(p), moved

    def dense(self) -> MovedLaws:
        """The same with all weights formed, for laws that are asked many times."""
        whole = self.embedding.altered(_left=self.weights, _right=None)
        return MovedLaws(whole, self.move, self.wide, self.drawn)

    def _positive(self, moved: np.ndarray, kind: type = float) -> np.ndarray:
        """Of every law at rows of its own, (m, k, d): (m, k), before several columns sum to one."""
        if self._d == 1:
            return self._line.pdf(moved[..., 0])
        near, q = self._near(moved), np.zeros(moved.shape[:2])
        if near.any():
            q[near] = self._smooth(moved[near], np.nonzero(near)[0], kind)
        return np.maximum(q, 0.0)

    def _near(self, moved: np.ndarray) -> np.ndarray:
        """Whether rows (..., d) are within reach of any point, in each column."""
        points, kernel = arrays.to_numpy(self._kernels.points), self._kernels.kernel
        far: list[Any] = [kernel.on([j], self._d).reach(NEGLIGIBLE) for j in range(self._d)]
        if None in far:
            return np.ones(moved.shape[:-1], dtype=bool)
        points, moved = points / far, moved / far
        near = ((points.min(axis=0) - 1.0 <= moved) & (moved <= points.max(axis=0) + 1.0)).all(-1)
        nearest = cKDTree(points).query(moved[near], p=np.inf, distance_upper_bound=1.0)[0]
        near[near] = nearest <= 1.0
        return near

    def _pairs(self, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The positive part of law b at row b of Y, (m,), and the rows before any move."""
        moved = self._kernel_move.back(Y)
        if self._d == 1 and len(Y) * self._kernels.points.shape[0] > EVALUATIONS:
            return self._line.pdf(moved)[:, 0], moved
        q = self._smooth(moved, np.arange(len(Y)))
        return np.maximum(q, 0.0) / self._whole, moved

    def _smooth(self, Y: np.ndarray, member: np.ndarray, kind: type = float) -> np.ndarray:
        """q of the member's weights at each row of Y, normalised to Σw = 1, in this precision."""
        m = self._kernels.normalised().members()
        left, right = m.factors
        points, left, parts = m.points.astype(kind), left.astype(kind), []
        for rows, who in row_blocks(Y.astype(kind), member, rows=BLOCK // len(points) + 1):
            K = m.kernel.gram_of(rows, points)
            K = K if right is None else K @ right
            parts.append(np.einsum("ir,ir->i", left[who], K))
        return np.concatenate(parts) * m.kernel.height(self._d)

    @cached_property
    def _line(self) -> Line:
        """The densities of one column, before any move."""
        return Line(self._kernels)

    @cached_property
    def _whole(self) -> np.ndarray:
        return self.whole()

    @cached_property
    def _roughly(self) -> np.ndarray:
        return self.whole(ROUGH_MASS)

    def whole(self, error: float = 3e-4) -> np.ndarray:
        """∫ max(q, 0) of each law, (m,); of several columns with this relative error."""
        if self._d == 1:
            return self._line.level.mass
        mass, _ = self._kernels.negative_mass(error=error)
        return 1.0 + arrays.to_numpy(mass)


class MovedLaw(MeanEmbedding):
    """One of `MovedLaws`: weighted points where these were moved to, with all that it answers.

    From a bent scale B every point has a kernel of its own there. What has a bandwidth is that of
    the batch, unless another bandwidth is asked for; `bandwidth` is γ/Σ_i w_i B′(y_i), which keeps
    Σ_i w_i k̄_i(y_i), what kernels add at the points. With other weights or points it is a
    `MeanEmbedding` of that bandwidth.
    """

    _laws: MovedLaws  # a batch of one

    @classmethod
    def of(cls, laws: MovedLaws) -> MeanEmbedding:
        """Of a batch of one; where nothing is moved or mixed, its embedding."""
        m, move = laws.embedding[0], laws.move
        if move.idle and laws.wide is None and laws.drawn is None:
            return m
        widths = None if move.widths is None else move.widths[0]
        points = arrays.to_numpy(m.points)
        to = move(points[None])[0]
        shift = to - (points if widths is None else points * widths)
        m = m.moved(arrays.like(shift, m.points), widths)
        if move.bend is not None and m.bandwidth is not None:
            above = np.maximum(arrays.to_numpy(m.weights), 0.0)
            steep = np.average(np.exp(move.bend.log_steepness(to)), axis=0, weights=above)
            m = m.altered(_bandwidth=tuple((np.asarray(m.bandwidth) / steep).tolist()))
        one = cls.__new__(cls)
        vars(one).update(vars(m), _laws=laws)
        return one

    def altered(self, **parts) -> MeanEmbedding:  # type: ignore[override]
        m = MeanEmbedding.__new__(MeanEmbedding)
        vars(m).update({k: v for k, v in vars(self).items() if k != "_laws"}, **parts)
        return m

    def marginal(self, columns) -> MeanEmbedding:  # type: ignore[override]
        return self._laws.marginal(columns)[0]

    def tilted(self, factor: Callable) -> MeanEmbedding:
        return self._laws.tilted(factor)[0]

    def mode(self, n_starts: int = 10) -> Array:
        return self._laws.mode()[0, ...]


def _of_batch(verb: Callable) -> Callable:
    """A verb of an embedding that its batch answers, unless it is of another bandwidth."""

    @wraps(verb)
    def answer(self, *args, **kwargs):
        given = signature(verb).bind(self, *args, **kwargs).arguments
        signed, width = given.pop("signed", False), given.pop("bandwidth", None)
        if signed or not (width is None or isinstance(width, str)):
            return verb(self, *args, **kwargs)
        checks.check_choice("own" if width is None else width, "bandwidth", ["own"])
        found = parts_of(getattr(given.pop("self")._laws, verb.__name__)(**given))
        return of_ends([part[0] if isinstance(part, list) else part[0, ...] for part in found])

    return answer


for verb in ("density", "log_density", "cdf", "quantile", "interval", "region", "sample"):
    setattr(MovedLaw, verb, _of_batch(getattr(MeanEmbedding, verb)))
