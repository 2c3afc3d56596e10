"""Which bent scale of y, if any: by the density of what a plain regression leaves."""

from collections.abc import Sequence

import numpy as np

from ..core.minimise import mean_and_error
from ..core.summary import Line
from ..embedding.move import Bend, Wide
from ..features.landmarks import Nystroem
from ..kernels import Kernel
from ..regression.bandwidth import silverman
from .location import RANK, Design, Location

SCALES = (0.03, 0.1, 0.3, 1.0, 3.0)  # of a bend, in spreads of the column
STRAIGHT = 1e6  # the same of what is no bend
WIDE = 0.1  # share of a wide law in the densities that are compared
FEWEST = 50  # rows, of which this is asked
WORTH, CLEAR = 0.05, 3.0  # least gain in log density a row, and that in standard errors


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
    design = Design.of(X, kernel, Nystroem(max_rank=RANK), 1.0)
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
    ends = (many.centre[at], many.scale[at], many.low[at], many.high[at])
    return Bend(*ends, mean_and_error(gain))


def lines(bend: Bend, names: Sequence[str]) -> list[Line]:
    """For summaries: the bend of each column, and what it gains."""
    parts = zip(names, bend.centre.tolist(), bend.scale.tolist(), bend.bent, strict=True)
    found = [
        Line(name, (c, s), f"s arsinh((y − c)/s), c = {c:.4g}, s = {s:.4g}")
        for name, c, s, bent in parts
        if bent
    ]
    by, error = bend.gain
    text = f"log densities of rows left out are higher by {by:.2g} ± {error:.1g} a row"
    return [*found, Line("beside a straight one", by, text)]


def _candidates(y: np.ndarray) -> np.ndarray:
    """Centres and scales (2, k); the first is straight."""
    low, middle, high = np.quantile(y, [0.159, 0.5, 0.841])
    spread = 0.5 * (high - low) or y.std()
    centres = {0.0 if y.min() > 0 else y.min(), y.min(), middle, y.max()}
    bends = [(c, spread * s) for c in sorted(centres) for s in SCALES]
    bends += bends[: len(SCALES)] * (4 - len(centres))  # as many for every column
    return np.array([(middle, spread * STRAIGHT), *bends]).T


def _log_density(e: np.ndarray) -> np.ndarray:
    """Of each number by a kernel density of the others, and a share of a wide law."""
    width, n = float(silverman(e[:, None])[0]), len(e)
    short = (e * (0.5**0.5 / width)).astype(np.float32)  # six digits will do
    near = np.subtract.outer(short, short)
    near *= near
    np.exp(np.negative(near, out=near), out=near)
    np.fill_diagonal(near, 0.0)
    p = near.sum(axis=1, dtype=float) / ((n - 1) * width * (2 * np.pi) ** 0.5)
    return Wide.of(e[:, None], WIDE).log_mixed(p, e[:, None])
