"""Which line a series gets as its backbone: least squares, and rows held out."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np

from ..core import arrays
from ..densities.standard import NormalErrors, clearly
from .backbone import FittedBackbone, Form, PastState, Track, Transform, lags, mean_of, times

LEVELS = (0.0, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)  # θ beside a difference,
SEASONS = (0.0, 0.3, 0.5, 0.7, 0.85)  # and Θ
FEWEST = 8  # rows of a series that a line is looked for in unasked
LEFT = 5  # rows of the first half of a sequence beside its first season and an order
COMPARED = 5000  # rows that forms are compared on
SPLITS = 6  # stretches of the later half, each forecast by lines from all rows before it
LEAST = 1e-8  # variance of an innovation, relative to that of the series
MOST = 0.9  # leverage of a row
BLANK = 1e4  # variance of a state of which nothing is known, relative to the series
CLEAR = 1.5  # standard errors by which a model must beat a simpler one
CHARGE = 0.5  # of a form, for each of its numbers, in nats
TEMPER = 0.4  # of a log-likelihood: rows held out are few, and of one course of things
FAINT = 3.0  # of scores: forms whose mean is taken, with shares in e^score, are no further apart
ROUNDING = 1e-13  # of the largest value of a column: what is left of a constant one


# ------------------------------------------------------------ a line from data


class Design:
    """Regressors of u for one form at its largest order, over the rows of all sequences.

    `burn` more rows are left out at the start of each sequence.

    Attributes
    ----------
    X : array of shape (n, k + p d)
        Terms, then lags.
    U : array of shape (n, d)
    k : int
        Number of terms.
    usable : bool array of shape (n,)
        Rows with all their lags, and seen.
    walks, loose : bool
        Whether lags are shrunk towards a random walk, else towards draws; or not at all.
    """

    def __init__(self, form: Form, Y, seen, sequences, inputs=None, burn: int = 0):
        p, d, known = form.order, Y.shape[1], []
        lags, self.U, usable = np.zeros((len(Y), p, d)), np.zeros_like(Y), np.zeros_like(seen)
        for s in sequences:
            u = self.U[s] = form.filtered(Y[s].copy())
            for j in range(min(p, len(u))):
                lags[s][j + 1 :, j] = u[: len(u) - 1 - j]
            known.append(form.terms(np.arange(len(u))))
            usable[s.start + max(burn, form.lost + p) : s.stop] = True
        terms = np.concatenate(known)
        terms = terms if inputs is None else np.c_[terms, inputs]
        self.X, self.k = np.c_[terms, lags.reshape(len(Y), p * d)], terms.shape[1]
        self.usable, self.loose = usable & seen, form.loose
        self.walks = not (form.difference or form.by_difference)

    def prior(self, rows: np.ndarray) -> np.ndarray:
        """Rows of X and U that shrink lag l as l² rows do whose only regressor is an innovation's
        size: long memories are seldom what they were (Litterman's prior, 1986).
        """
        d, width = self.U.shape[1], self.X.shape[1]
        found = np.zeros((width - self.k, width + d))
        if width == self.k or not len(rows) or self.loose:
            return found
        size = self.X[rows, self.k : self.k + d] - self.U[rows] if self.walks else self.U[rows]
        column = np.arange(width - self.k)
        found[column, self.k + column] = size.std(axis=0)[column % d] * (1 + column // d)
        if self.walks:
            found[:d, width:] = found[:d, self.k : self.k + d]
        return found

    @property
    def least_squares(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients, and the leverages of the usable rows, (m, 1), kept away from one."""
        rows, k = np.flatnonzero(self.usable), self.X.shape[1]
        nested = Nested(self, rows, 0)
        size, R = nested.in_sizes(k)
        spread = (self.X[rows] / size) @ np.linalg.pinv(R, rcond=1e-11)
        return nested.coef(k), np.minimum((spread**2).sum(axis=1), MOST)[:, None]


class Nested:
    """Least squares on some rows of a design, and those of another, for all orders at once.

    On the first columns of a matrix, so many as `widths` says, by the R of its QR decomposition.
    """

    def __init__(self, design: Design, rows: np.ndarray, orders: int, before: Nested | None = None):
        X, U = design.X[rows], design.U[rows]
        known = design.prior(rows) if before is None else before.R
        self.R: np.ndarray = np.linalg.qr(np.r_[known, np.c_[X, U]], mode="r")  # type: ignore
        self.d: int = U.shape[1]
        self.n: int = len(rows) + (0 if before is None else before.n)
        self.widths = design.k + self.d * np.arange(orders + 1)

    def criteria(self, floor: float) -> np.ndarray:
        """AIC with its correction for small samples, of each width; inf where there is no room."""
        room = self.n - self.widths - self.d - 1
        some = room > 0
        tail, k = self.R[:, -self.d :], self.widths[some]
        left = np.cumsum((tail[:, :, None] * tail[:, None])[::-1], axis=0)[::-1][k] / self.n
        logdet = np.linalg.slogdet(left + floor * np.eye(self.d))[1]
        found = np.full(len(room), np.inf)
        found[some] = self.n * logdet + 2 * self.d * self.n * (k + 1) / room[some]
        return found

    def width(self, floor: float, fixed: bool) -> int | None:
        """The best width, or the largest; None where there are too few rows."""
        criteria = self.criteria(floor)
        best = len(criteria) - 1 if fixed else int(criteria.argmin())
        return int(self.widths[best]) if np.isfinite(criteria[best]) else None

    def coef(self, k: int) -> np.ndarray:
        """Coefficients of the first k columns."""
        size, R = self.in_sizes(k)
        return np.linalg.lstsq(R, self.R[:k, -self.d :], rcond=1e-11)[0] / size[:, None]

    def in_sizes(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Sizes of the first k columns, (k,), and R in these: a level may be a million spreads."""
        R = self.R[:k, :k]
        size = np.linalg.norm(R, axis=0)
        size = np.where(size > 0, size, 1.0)
        return size, R / size


# ------------------------------------------------------------ which line


def forms(order: int, options: Any) -> Iterator[Form]:
    """All that are compared, at their largest order; the plain autoregression comes first."""
    season, seasonal = options.season or 0, [("n", 0.0)]
    if season:
        seasonal = [("dummies", 0.0), *(("difference", m) for m in SEASONS)]
    differences = (0, 1) if options.difference == "auto" else (options.difference,)
    for d, (kind, memory) in product(differences, seasonal):
        # without a constant levels are zero, but one in a difference goes on for ever: a drift is
        # looked for in what is left; a line in time is drawn where it is asked for
        usual = "n" if d or kind == "difference" else "c"
        trend = {"auto": usual, "drift": "n"}.get(options.trend, options.trend)
        for theta in LEVELS if d else LEVELS[:1]:
            yield Form(order, trend, d, theta, season, kind, memory)
            if not theta:
                yield Form(order, trend, d, theta, season, kind, memory, loose=True)


@dataclass(frozen=True)
class Judged:
    """A form, at the order that all rows choose, and how well it did on rows held out.

    Attributes
    ----------
    form : Form
    transform : str or None
    loglik : array of shape (m,)
        Normal log-likelihood of the rows held out, in the units of the series.
    """

    form: Form
    transform: str | None
    loglik: np.ndarray

    def like(self, other: Judged) -> bool:
        """Whether the mean of both is a line that remembers no longer than they do."""
        C, D = self.form.behind, other.form.behind
        kinds = {(j.transform, j.form.seasonal) for j in (self, other)}
        return len(kinds) == 1 and (min(len(C), len(D)) == 1 or np.array_equal(C, D))

    @property
    def score(self) -> float:
        """Log-likelihood, tempered, less what numbers that are estimated are charged."""
        numbers = self.form.numbers + (self.transform is not None)
        return TEMPER * float(self.loglik.sum()) - CHARGE * numbers


class Series:
    """Observations as lines see them: gaps filled, and perhaps transformed.

    Attributes
    ----------
    Y : array of shape (n, d)
        In `units`, powers of two near the spreads of the columns.
    seen : bool array of shape (n,)
    sequences : list of slice
    inputs : array of shape (n, k) or None
    transform : Transform
    whole : bool
        Whether gaps hold the forecasts of a line, else what is straight between their ends.
    """

    def __init__(self, Y, seen, sequences: list[slice], inputs, name: str | None):
        self.seen, self.sequences, self.inputs, self.whole = seen, sequences, inputs, False
        self.transform = Transform.of(name, Y[seen])
        Z = self.transform(np.where(seen[:, None], Y, Y[seen][0]))
        Y = filled(np.where(seen[:, None], Z, 0.0), seen[:, None])
        self.units = spreads(Y)
        self.Y = Y / self.units

    def longest(self, season: int) -> int:
        """The largest order that is looked at; the first half has rows left beside a season."""
        n, typical = self.seen.sum(), np.median([s.stop - s.start for s in self.sequences])
        room = typical / 2 - season - LEFT if season else np.inf
        several = n / (6 * self.Y.shape[1])
        return int(max(0, min(12 * (n / 100) ** 0.25, several, typical / 4, room)))

    def fitted(self, form: Form) -> tuple[FittedBackbone, np.ndarray, np.ndarray]:
        """By least squares, gaps filled by a first fit.

        And what it leaves of each row, which is left out of the least squares; `usable` rows.
        """
        design = Design(form, self.Y, self.seen, self.sequences, self.inputs)
        rows, d = np.flatnonzero(design.usable), self.Y.shape[1]
        coef, share = design.least_squares
        loo = (design.U[rows] - design.X[rows] @ coef) / (1 - share)
        phi = coef[design.k :].reshape(form.order, d, d).transpose(0, 2, 1)
        A = times(form.ahead, np.concatenate([np.eye(d)[None], -phi]))
        line = self.begun(form, *lags(A, form.behind), coef[: design.k], loo)
        track = self.track(line)
        if not (self.seen.all() or self.whole):
            other = copy(self)
            other.Y, other.whole = np.where(self.seen[:, None], self.Y, track.mean), True
            return other.fitted(form)
        off = self.Y - track.mean
        off[rows] /= 1 - share
        return line, off, self.usable(line, track)

    def begun(self, form: Form, coef, memory, terms, off: np.ndarray) -> FittedBackbone:
        """A line, with what it leaves of some rows, and the law of states that rows begin in."""
        cov = off.T @ off / len(off) + LEAST * np.var(self.Y) * np.eye(self.Y.shape[1])
        size, shape = BLANK * max(np.var(self.Y), np.mean(self.Y**2)), coef.shape[:2]
        first = PastState(0, np.zeros(shape), size * np.eye(shape[0] * shape[1]))
        line = FittedBackbone(form, coef, memory, terms, cov, first, self.transform, rows=len(off))
        return line.begun(self.Y, self.seen, self.sequences, self.inputs)

    def track(self, line: FittedBackbone) -> Track:
        """Of a line, along these rows."""
        return line.track(self.Y, self.seen, self.sequences, self.inputs)

    def usable(self, line: FittedBackbone, track: Track) -> np.ndarray:
        """Rows seen whose past is as good as known; the better half of them, where fewer are."""
        sizes = line.unknown(track.wide)
        return self.seen & (line.settled(track.wide) | (sizes <= np.median(sizes[self.seen])))

    def averaged(self, chosen: list[Judged], drifts: bool) -> tuple[FittedBackbone, np.ndarray]:
        """The mean of lines, those that are likelier having more of it; and what it leaves."""
        fits = [self.fitted(judged.form) for judged in chosen]
        found = [drifting(*fit) if drifts else fit[:2] for fit in fits]
        shares = np.exp([judged.score - chosen[0].score for judged in chosen])
        shares /= shares.sum()
        off, rows = np.tensordot(shares, [off for _, off in found], 1), fits[0][2]
        centre = off[rows].mean(axis=0)
        off = centre + fits[0][0].spread * (off - centre)
        mean = mean_of([line for line, _ in found], shares)
        return self.begun(*mean, off[rows]), off

    def judged(self, form: Form, burn: int, fixed: bool) -> Judged | None:
        """By forecasts of stretches of the later half, from lines fitted to the rows before."""
        design = Design(form, self.Y, self.seen, self.sequences, self.inputs, burn)
        place = np.concatenate([np.linspace(0, 1, s.stop - s.start) for s in self.sequences])
        floor, edges = LEAST * np.var(self.Y), np.linspace(0.5, 1, SPLITS + 1)
        off, numbers = [], []
        nested = Nested(design, np.flatnonzero(design.usable & (place < 0.5)), form.order)
        for low, high in pairwise([*edges[:-1], 2.0]):
            rows = np.flatnonzero(design.usable & (place >= low) & (place < high))
            k = nested.width(floor, fixed)
            if k is None:
                return None
            off.append(design.U[rows] - design.X[rows, :k] @ nested.coef(k))
            numbers.append(rows)
            nested = Nested(design, rows, form.order, nested)
        k = nested.width(floor, fixed)
        errors, rows = np.concatenate(off), np.concatenate(numbers)
        if k is None or not len(rows):
            return None
        form = replace(form, order=(k - design.k) // self.Y.shape[1])
        loglik = normal(errors, floor) + self.transform.slope(self.Y[rows] * self.units)
        loglik -= np.log(self.units).sum()
        return Judged(form, self.transform.name, loglik)


def normal(errors: np.ndarray, floor: float) -> np.ndarray:
    """Log-density of each of some errors, by the normal law of their own mean square."""
    return NormalErrors.of(errors, floor).log_density_each(errors)


def spreads(Y: np.ndarray) -> np.ndarray:
    """The power of two nearest to the standard deviation of each column; 1 where it is zero."""
    return np.exp2(np.round(np.log2(arrays.units(Y))))


def filled(Y: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Straight lines through gaps."""
    at, columns = np.arange(len(Y)), zip(Y.T, np.broadcast_to(there, Y.shape).T, strict=True)
    return np.stack([np.interp(at, at[seen], column[seen]) for column, seen in columns], axis=1)


def standard(inputs: np.ndarray | None) -> tuple:
    """Inputs from their means in units near their spreads; and these means and units."""
    if inputs is None:
        return None, None, None
    centre, units = inputs.mean(axis=0), spreads(inputs)
    return (inputs - centre) / units, centre, units


class Found:
    """A line, the mean of the forms that are kept, what it leaves, and how a plain one did.

    Attributes
    ----------
    line : FittedBackbone
    innovations : array of shape (n, d)
        Each row left out of the least squares that it is judged by, all of them drawn apart.
    usable : bool array of shape (n,)
        Rows whose innovation is known.
    plain : array of shape (n, d)
        What the autoregression by AIC leaves of the series as it is.
    mean : array of shape (n, d)
        Forecasts of the rows, of its transform.
    stays : bool
        Whether the series stays in its range, by the roots of that autoregression.
    """

    def __init__(self, plain: Judged, kept: list[Judged], drifts: bool, Y, seen, sequences, inputs):
        series = Series(Y, seen, sequences, inputs, kept[0].transform)
        line, left = series.averaged(kept, drifts)
        track = series.track(line)
        self.usable, self.mean = series.usable(line, track), track.mean * series.units
        self.line = line.in_units(series.units)
        left = np.where(abs(left).max(axis=0) > ROUNDING * abs(series.Y).max(axis=0), left, 0.0)
        self.innovations = left * series.units
        usual = Series(Y, seen, sequences, inputs, plain.transform)
        simple, left, _ = usual.fitted(plain.form)
        self.plain = Y - usual.transform.back((usual.Y - left) * usual.units)
        self.stays = simple.stays(int(seen.sum()))


def search(options: Any, Y, seen, sequences, inputs=None, asked: bool = True) -> Found | None:
    """The mean of the lines that rows held out like best.

    Unasked, of rows too few for any to be judged (a dozen of three columns, say), no change. Inputs
    count from their means, in units near their spreads: lines without a constant would see where
    else they count from, and least squares take what is tiny beside the rest for nothing.
    """
    known, centre, units = standard(inputs)
    rows = Y, seen, sequences, known
    walk = Judged(Form(0, "n", 1), None, np.zeros(1))
    names = transforms(options, Y[seen])
    chosen = compared(options, names, *recent(*rows)) or (None if asked else (walk, [walk]))
    found = chosen and Found(*chosen, options.trend != "n", *rows)
    if found and known is not None:
        found.line = found.line.with_inputs(centre, units)
    if found and options.transform == "auto":
        going_on = replace(found.line.transform, least=Y[seen].min(axis=0))
        found.line = replace(found.line, transform=going_on)
    return found


def recent(Y, seen, sequences, inputs) -> tuple:
    """The last rows, as many as forms are compared on: a form of few numbers needs no more."""
    start = np.flatnonzero(seen)[-min(COMPARED, seen.sum())]
    left = [slice(max(s.start - start, 0), s.stop - start) for s in sequences if s.stop > start]
    return Y[start:], seen[start:], left, None if inputs is None else inputs[start:]


def compared(options: Any, names, Y, seen, sequences, inputs) -> tuple[Judged, list[Judged]] | None:
    """The autoregression, and the forms that are taken."""
    every = [Series(Y, seen, sequences, inputs, name) for name in names]
    fixed = options.order != "auto"
    p = options.order if fixed else every[0].longest(options.season or 0)
    burn = p + 1 + (options.season or 0)
    found = [series.judged(form, burn, fixed) for series in every for form in forms(p, options)]
    tried = [judged for judged in found if judged is not None]
    return (tried[0], alike(believed(tried))) if tried else None


def drifting(line: FittedBackbone, off: np.ndarray, rows) -> tuple[FittedBackbone, np.ndarray]:
    """A line without a constant, and innovations, with their mean times max(0, 1 − 1/t²) in it.

    A drift goes on for ever: what of it may be chance has no place in forecasts far ahead. Other
    lines, without one difference or with a constant, are as they were.
    """
    if line.form.lost != 1 or line.form.trend != "n":
        return line, off
    mean, own = off[rows].mean(axis=0), off[rows].var(axis=0) / rows.sum()
    kept = mean * np.maximum(1 - own / np.maximum(mean**2, np.finfo(float).tiny), 0.0)
    return line.with_drift(kept), off - kept


def alike(likely: list[Judged]) -> list[Judged]:
    """The likeliest, and those next to it whose mean with it is a line of one kind."""
    kept = likely[:1]
    for j in likely[1:]:
        if likely[0].score - j.score <= FAINT and all(j.like(other) for other in kept):
            kept.append(j)
    return kept


def believed(tried: list[Judged]) -> list[Judged]:
    """The likeliest forms first, without those of a transform that is not clearly likelier.

    A mean far ahead in logarithms is above the middle by all that is not known of a variance.
    Beside a season no such proof is asked for: seasons mostly grow with the level.
    """
    likely = sorted(tried, key=lambda j: -j.score)
    best = {j.transform: j for j in reversed(likely)}
    plain = best[tried[0].transform]
    doubted = {name for name, j in best.items() if not clearly(j.loglik - plain.loglik, CLEAR)}
    return [j for j in likely if j.form.season or j.transform not in doubted - {plain.transform}]


def transforms(options: Any, Y: np.ndarray) -> list[str | None]:
    """Those that are compared: for "auto" all that the values allow."""
    if options.transform != "auto":
        return [options.transform]
    least = Y.min()
    return [None, *(["log"] if least > 0 else []), *(["sqrt"] if least >= 0 else [])]
