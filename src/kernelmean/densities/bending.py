"""Bent scales. Of y, if any, by the density of what a plain regression leaves; of x, for kernels.

Columns of x with long tails: far out, distances on a straight scale say that no two rows are near
each other, and lengthscales that suit them see no difference in the middle.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..core import Array, Block, Line
from ..core.minimise import mean_and_error
from ..embedding.move import Bend, Wide
from ..features.landmarks import Nystroem
from ..kernels import Gaussian, Kernel
from ..regression.bandwidth import silverman
from .embedded_density import by_others
from .location import RANK, Design, Location

SCALES = (0.03, 0.1, 0.3, 1.0, 3.0)  # of a bend, in spreads of the column
STRAIGHT = 1e6  # the same of what is no bend
WIDE = 0.1  # share of a wide law in the densities that are compared
FEWEST = 50  # rows, of which this is asked
WORTH, CLEAR = 0.05, 3.0  # least gain in log density a row, and that in standard errors
DOUBTED = 3.0  # twenty to one
SIXTH = 0.159  # of the rows
LONG = 4.5  # spreads from the median, beyond which a column has a long tail


@dataclass(frozen=True)
class Bent(Kernel):
    """k(B(x), B(x')), B bent in columns with long tails."""

    kernel: Any
    bend: Bend

    @property
    def lengthscale(self) -> Any:
        """At the centre of the bend, where B is as steep as a line."""
        return self.kernel.lengthscale

    def scaled(self, factor) -> Self:
        return replace(self, kernel=self.kernel.scaled(factor))

    def lift(self, X) -> Array:
        return self.kernel.lift(self.bend(X))

    def gram_of(self, X, Y) -> Array:
        return self.kernel.gram_of(self.bend(X), self.bend(Y))

    def scale_gradient(self, X, Y, W, K=None) -> np.ndarray:
        return self.kernel.scale_gradient(self.bend(X), self.bend(Y), W, K)


def resized(kernel: Any, lengthscale) -> Any:
    """The kernel at another lengthscale, bent or not."""
    if isinstance(kernel, Bent):
        return replace(kernel, kernel=resized(kernel.kernel, lengthscale))
    return replace(kernel, lengthscale=lengthscale)


def bent_columns(X: np.ndarray, kernel: Kernel) -> list[tuple[Bent, float]]:
    """The kernel on scales that bend where columns have long tails; none where none has.

    Nor for angles, of which a bent scale would not be one. Where tails are on one side, such as
    those of sizes over several decades, a second scale is a logarithm from the other end on. Beside
    each is by what log p(Y) has to be higher with it.
    """
    middle = long_tails(X) if kernel.boxed else None
    if middle is None:
        return []
    ends = from_ends(X, middle)
    if ends is None:
        return [(Bent(kernel, middle), 0.0)]
    before, after = (_middle(A)[1] for A in (X, ends(X)))
    shorter = np.divide(after, before, out=np.ones(len(before)), where=before > 0)
    return [(Bent(kernel, middle), 0.0), (Bent(kernel.scaled(shorter), ends), DOUBTED)]


def long_tails(X: np.ndarray) -> Bend | None:
    """A bend of the columns with long tails; None where none has."""
    middle, spread = _middle(X)
    long = np.abs(X - middle).max(axis=0) > LONG * spread
    if not long.any():
        return None
    scale = np.where(long, spread, STRAIGHT * np.where(spread > 0, spread, 1.0))  # 0: one value
    return Bend(middle, scale, X.min(axis=0), X.max(axis=0))


def from_ends(X: np.ndarray, other: Bend) -> Bend | None:
    """Columns with one long tail on scales that bend from the other end; None where none has one.

    They are as steep as a line up to where a sixth of the rows that are not at the end are.
    """
    (middle, spread), low, high = _middle(X), X.min(axis=0), X.max(axis=0)
    above = high - middle > LONG * spread
    one = np.flatnonzero(above != (middle - low > LONG * spread))
    if not len(one):
        return None
    centre, scale = other.centre.copy(), other.scale.copy()
    for j in one:
        centre[j] = low[j] if above[j] else high[j]
        off = np.abs(X[:, j] - centre[j])
        scale[j] = np.quantile(off[off > 0], SIXTH)
    return Bend(centre, scale, low, high)


def chosen_bend(X: np.ndarray, Y: np.ndarray, kernel: Kernel) -> Bend | None:
    """The bend under which rows left out of a regression are most likely, if clearly so.

    For each candidate B a line and a kernel part are fitted to B(y), all with the one λ that suits
    them best together, and log p(e_i) + log B′(y_i) is taken, p the kernel density of the others'
    leave-one-out residuals e. Candidates bend around zero (where y is positive), the median and
    either end.
    """
    if len(Y) < FEWEST or (silverman(Y) <= 0).any():
        return None
    columns = [_candidates(y) for y in Y.T]
    which = np.repeat(np.arange(Y.shape[1]), columns[0].shape[1])
    centre, scale = np.hstack(columns)
    many = Bend(centre, scale, Y.min(axis=0)[which], Y.max(axis=0)[which])
    design = Design(X, kernel, Nystroem(max_rank=RANK), 1.0)
    left = Location.on(design, many(Y[:, which])).residuals
    found = np.stack([_log_density(e) for e in left.T], axis=1)
    found += many.log_steepness(Y[:, which])
    found = found.reshape(len(Y), Y.shape[1], -1)
    gains = found - found[:, :, :1]  # over a straight scale
    best = np.argmax(gains.mean(axis=0), axis=1)
    error = gains.std(axis=0) / len(Y) ** 0.5
    clear = gains.mean(axis=0) > np.maximum(WORTH, CLEAR * error)
    best = np.where(clear[np.arange(len(best)), best], best, 0)
    if not best.any():
        return None
    gain = np.take_along_axis(gains, best[None, :, None], axis=2).sum(axis=(1, 2))
    at = best + np.arange(len(best)) * gains.shape[2]
    return replace(many.on(at), gain=mean_and_error(gain))


def column_lines(bend: Bend, names: Sequence[str], of: str) -> list[Line]:
    """For summaries: the bend of each column that is bent."""
    parts = zip(names, bend.centre.tolist(), bend.scale.tolist(), bend.bent, strict=True)
    return [
        Line(name, (c, s), f"s arsinh(({of} − c)/s), c = {c:.4g}, s = {s:.4g}")
        for name, c, s, bent in parts
        if bent
    ]


def bends_block(kernel: Any, names: Sequence[str]) -> list[Block]:
    """For summaries: which columns of x a kernel bends, if any."""
    if not isinstance(kernel, Bent):
        return []
    return [Block("Bent scale of X in that kernel", column_lines(kernel.bend, names, "x"))]


def lines(bend: Bend, names: Sequence[str]) -> list[Line]:
    """For summaries: the bend of each column of y, and what it gains."""
    by, error = bend.gain
    text = f"log densities of rows left out are higher by {by:.2g} ± {error:.1g} a row"
    return [*column_lines(bend, names, "y"), Line("beside a straight one", by, text)]


def _candidates(y: np.ndarray) -> np.ndarray:
    """Centres and scales (2, k); the first is straight."""
    middle, spread = _middle(y)
    centres = {0.0 if y.min() > 0 else y.min(), y.min(), middle, y.max()}
    bends = [(c, spread * s) for c in sorted(centres) for s in SCALES]
    bends += bends[: len(SCALES)] * (4 - len(centres))  # as many for every column
    return np.array([(middle, spread * STRAIGHT), *bends]).T


def _middle(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The median, and half of what two thirds of the rows span, of each column."""
    low, middle, high = np.quantile(A, [SIXTH, 0.5, 1 - SIXTH], axis=0)
    spread = 0.5 * (high - low)
    return middle, np.where(spread > 0, spread, A.std(axis=0))


def _log_density(e: np.ndarray) -> np.ndarray:
    """Of each number by a kernel density of the others, and a share of a wide law."""
    rows, even = e[:, None], np.full(len(e), 1.0 / len(e))
    p = by_others(rows, even, Gaussian(float(silverman(rows)[0])))
    return Wide.of(rows, WIDE).log_mixed(np.maximum(p, 0.0), rows)
