"""Gaps that are filled before anything is learned: by draws, given all that is there."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

from ..core.sequences import firsts, links
from .backbone import FittedBackbone
from .lines import FEWEST, Form, Series, filled, standard

WHOLE = 0.2  # triples of rows in a row that are whole, of all, below which gaps are filled
TURNS = 16  # of a line fitted to what was drawn, and draws by it


def hardly_whole(seen: np.ndarray, sequences) -> bool:
    """Whether few triples of rows in a row are there."""
    first = firsts(sequences, len(seen))
    whole, every = (links(rows, first)[1].sum() for rows in (seen, np.ones_like(seen)))
    return bool(whole < WHOLE * every)


def tells(Y: np.ndarray) -> bool:
    """Whether every column has some values, and one of them varies."""
    return bool((~np.isnan(Y)).sum(axis=0).min() >= FEWEST and np.nanstd(Y, axis=0).any())


def drawn(Y, sequences, inputs, season: int, rng: np.random.Generator) -> np.ndarray:
    """Y, (n, d), with a draw in place of each NaN: of an autoregression and gaps in turn.

    Draws, not means: laws of rows filled by means would be too narrow. They stay within a range of
    the column's, or, where it is nowhere negative, at or above its least value: few rows may teach
    a line that explodes.
    """
    least, most = np.nanmin(Y, axis=0), np.nanmax(Y, axis=0)
    low, high = np.where(least < 0, 2 * least - most, least), 2 * most - least
    gaps, seen, known = np.isnan(Y), np.ones(len(Y), dtype=bool), standard(inputs)[0]
    found, seasonal = filled(Y, ~gaps), "dummies" if season else "n"
    for _ in range(TURNS):
        series = Series(found, seen, sequences, known, None)
        form = Form(series.longest(season), season=season, seasonal=seasonal)
        line = series.fitted(form)[0]
        for s in sequences:
            own = line.known(np.arange(s.stop - s.start), None if known is None else known[s])
            found[s] = given(line, Y[s] / series.units, own, rng) * series.units
        found = np.where(gaps, np.clip(found, low, high), Y)
    return found


def given(line: FittedBackbone, Y, own, rng: np.random.Generator) -> np.ndarray:
    """A draw of what is NaN in one sequence, (n, d), given the rest; `own` is D.

    With e = y − Σ_l A_l y_{t−l} − D normal, of covariance S, it is the y of least
    ‖S^{−1/2}e − w‖², w drawn of a standard normal law (Papandreou, Yuille 2010). In the first rows
    e has what is not known of the past, too.
    """
    (n, d), y, gaps = Y.shape, np.nan_to_num(Y).ravel(), np.isnan(Y).ravel()
    r = min(n, len(line.coef))
    mean, left = own + np.r_[line.first.mean[:r], np.zeros((n - r, d))], sp.identity(n * d)
    for lag, A in enumerate(line.coef[: n - 1], start=1):
        left = left - sp.kron(sp.eye(n, k=-lag), A)
    first = line.first.cov[: r * d, : r * d] + np.kron(np.eye(r), line.cov)
    start, later = (np.linalg.inv(np.linalg.cholesky(cov)) for cov in (first, line.cov))
    white = sp.block_diag([start, sp.kron(sp.eye(n - r), later)])
    left = (white @ left).tocsc()
    off = white @ mean.ravel() + rng.standard_normal(n * d) - left @ y
    left = left[:, gaps]
    y[gaps] = spsolve((left.T @ left).tocsc(), left.T @ off)
    return y.reshape(n, d)
