"""The linear backbone of a series: what is a line in its past, its season and its inputs.

A(B) y_t = C(B) ε_t with ε_t = D_t + e_t: an autoregression with one or two decaying memories. D_t
is linear in constants, time, season and inputs; e_t are the innovations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag
from scipy.linalg.blas import dtbsv
from scipy.linalg.lapack import dgesv

from ..core import Saveable, checks
from .options import Backbone

FAR_FROM_ONE = 25.0  # in rows: a root so far from one stays in its range beyond doubt
SETTLED = 0.05  # variance of a forecast, relative to that of an innovation, that is as good as none
OPTIMISM = 8.0  # rows: with n of them innovations to come have 1 + 8/n of the variance left
UNSURE = 4.0  # times the variance of a mean of innovations: forms are chosen by them, too
BELIEVED = 10.0  # times the largest value seen, or its own middle, a law of logarithms ends


@dataclass(frozen=True)
class Form(Saveable):
    """Which line: what is estimated by least squares once these are given.

    u = (1 − B)^d (1 − B^s)^D/((1 − θB)(1 − ΘB^s)) y is regressed on constants and p lags of itself.

    Attributes
    ----------
    order : int
        p.
    trend : {"n", "c", "ct", "drift"}
        Nothing, a constant, a constant and time, or a constant shrunk by its doubt.
    difference : int
        d, 0 or 1.
    memory : float
        θ: with d = 1 the level is an average of the past with weights θ^j.
    season : int
        s, the rows of a season; 0 is none.
    seasonal : {"n", "dummies", "difference"}
        A constant for each row of the season, or D = 1.
    seasonal_memory : float
        Θ, where D = 1.
    loose : bool
        Lags by least squares as they are; else shrunk, the more the longer.
    """

    order: int
    trend: str = "c"
    difference: int = 0
    memory: float = 0.0
    season: int = 0
    seasonal: str = "n"
    seasonal_memory: float = 0.0
    loose: bool = False

    @property
    def ahead(self) -> np.ndarray:
        """Coefficients of (1 − B)^d (1 − B^s)^D."""
        return np.convolve(lag(1, self.difference), lag(self.season, self.by_difference))

    @property
    def behind(self) -> np.ndarray:
        """Coefficients of C(B) = (1 − θB)(1 − ΘB^s)."""
        return np.convolve(lag(1, self.memory), lag(self.season, self.seasonal_memory))

    @property
    def by_difference(self) -> bool:
        """Whether D is 1."""
        return self.seasonal == "difference"

    @property
    def lost(self) -> int:
        """Rows at the start of a sequence without u."""
        return len(self.ahead) - 1

    @property
    def numbers(self) -> int:
        """How many are estimated, beside inputs and what a season has for each of its rows."""
        memories = (self.memory != 0) + (self.seasonal_memory != 0)
        return self.order + {"n": 0, "ct": 2}.get(self.trend, 1) + memories

    def filtered(self, y: np.ndarray) -> np.ndarray:
        """u of one sequence, (n, d); zero where it begins."""
        v = delayed(self.ahead, y - y[:1]) if self.lost else y
        v[: self.lost] = 0.0
        return undelayed(self.behind, v)

    def terms(self, times: np.ndarray) -> np.ndarray:
        """What D_t is linear in besides inputs, (n, k)."""
        one = np.ones(len(times))
        found = {"n": [], "ct": [one, times / 100]}.get(self.trend, [one])
        if self.seasonal == "dummies":
            phase = times.astype(int) % self.season
            found += [(phase == j).astype(float) - 1 / self.season for j in range(1, self.season)]
        return np.stack(found, axis=1) if found else np.empty((len(times), 0))


def lag(k: int, weight: float) -> np.ndarray:
    """Coefficients of 1 − weight B^k."""
    return np.r_[1.0, np.zeros(k - 1), -weight] if weight else np.ones(1)


def times(weights: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Coefficients of c(B)A(B), c of numbers and A of matrices."""
    return np.apply_along_axis(np.convolve, 0, A, weights)


def delayed(weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Σ_l c_l y_{t−l}, (n, d), nothing being before the first row."""
    return times(weights, y)[: len(y)]


def undelayed(weights: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The y with Σ_l c_l y_{t−l} = v_t, c_0 = 1: a banded system."""
    if not weights[1:].any():
        return v
    band = np.tile(weights[:, None], len(v))
    columns = [dtbsv(len(weights) - 1, band, column, lower=1, diag=1) for column in v.T]
    return np.stack(columns, axis=1)


# ------------------------------------------------------------ other units


@dataclass(frozen=True)
class Transform(Saveable):
    """z = y, log y, or √(y + c): what is a line may be another scale of the series.

    Attributes
    ----------
    name : {"log", "sqrt"} or None
    shift : array of shape (d,)
        c, 3/8 of the least positive value of a column where it has zeros: for counts Anscombe's.
    top : array of shape (d,)
        The largest z of each column, where it is a logarithm.
    least : array of shape (d,) or None
        m, the least row of training in each column, where nobody asked for the transform: rows
        below its range are taken for −√−(y + c), and for log m²/(m − y).
    """

    name: str | None = None
    shift: np.ndarray | float = 0.0
    top: np.ndarray | float = np.inf
    least: np.ndarray | None = None

    @classmethod
    def of(cls, name: str | None, Y: np.ndarray) -> Transform:
        """For values; those that have no logarithm or root are refused."""
        if name is None:
            return cls()
        least, needed = Y.min(), "positive" if name == "log" else "non-negative"
        if least < 0 or (name == "log" and least == 0):
            raise ValueError(f"X has the value {least:g}; transform={name!r} needs {needed} ones")
        if name == "log":
            return cls(name, top=np.log(Y.max(axis=0)))
        shift = 0.375 * np.where(Y > 0, Y, np.inf).min(axis=0)
        shift = np.where(np.isfinite(shift), shift, 1.0)
        return cls(name, np.where(Y.min(axis=0) == 0, shift, 0.0))

    def __call__(self, Y: np.ndarray) -> np.ndarray:
        """z; -inf where y is out of range."""
        if self.name is None:
            return Y
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.log(Y) if self.name == "log" else np.sqrt(Y + self.shift)
        return np.where(np.isnan(z) & ~np.isnan(Y), -np.inf, z)

    def along(self, Y: np.ndarray) -> np.ndarray:
        """z of new rows; those out of range are refused, where the transform was asked for."""
        Z = self(Y)
        within = np.isfinite(Z) | np.isnan(Y)
        if within.all():
            return Z
        found = (
            f"X has the value {np.nanmin(Y):g}; the backbone was fitted to {self.name} X, which "
            "has none of it"
        )
        if self.least is None:
            raise ValueError(found)
        checks.warn_numerical(
            f"{found}: forecasts stay above zero, unlike those with transform=None"
        )
        if self.name == "log":
            below = 2 * np.log(self.least) - np.log(self.least + abs(Y))
        else:
            below = -np.sqrt(abs(Y + self.shift))
        return np.where(within, Z, below)

    def back(self, Z: np.ndarray) -> np.ndarray:
        """y."""
        if self.name is None:
            return Z
        if self.name == "log":
            return np.exp(Z)
        return np.maximum(np.maximum(Z, 0.0) ** 2 - self.shift, 0.0)

    def limit(self, middle: np.ndarray) -> np.ndarray:
        """The largest z that is believed of laws around `middle`.

        The mean of a law whose logarithm has a wide and hardly known variance is all tail.
        """
        return np.maximum(self.top, middle) + np.log(BELIEVED)

    def mean(self, Z: np.ndarray, cov: np.ndarray) -> np.ndarray:
        """E y where z is normal around the rows of `Z`."""
        if self.name is None:
            return Z
        if self.name == "log":
            return np.exp(np.minimum(Z + np.diag(cov) / 2, self.limit(Z)))
        return Z**2 + np.diag(cov) - self.shift

    def slope(self, Z: np.ndarray) -> np.ndarray:
        """log |dz/dy|, summed over the columns that are there, (n,)."""
        if self.name is None:
            return np.zeros(len(Z))
        if self.name == "log":
            return -np.nansum(Z, axis=1)
        return -np.nansum(np.log(2 * np.maximum(abs(Z), np.finfo(float).tiny)), axis=1)


AS_IT_IS = Transform()


# ------------------------------------------------------------ a line that is known


@dataclass(frozen=True)
class Track:
    """What a line says of every row, from the rows before.

    Attributes
    ----------
    mean : array of shape (n, d)
        E y_t, were the innovations of mean zero.
    wide : array of shape (n, d, d)
        Covariance of what is not known of it: where a sequence begins, and after missing rows.
    last : list of PastState
        After each sequence.
    """

    mean: np.ndarray
    wide: np.ndarray
    last: list[PastState]


@dataclass(frozen=True)
class PastState(Saveable):
    """What the past says about the rows to come: row t + i has mean[i], before D and its past.

    Attributes
    ----------
    time : int
        Number of the next row.
    mean : array of shape (r, d)
    cov : array of shape (r d, r d)
    """

    time: int
    mean: np.ndarray
    cov: np.ndarray


@dataclass(frozen=True)
class FittedBackbone(Saveable):
    """A line with its coefficients, as a filter: exact for normal innovations, gaps included.

    Attributes
    ----------
    form : Form
    coef : array of shape (r, d, d)
        A_1, ..., A_r of A(B) = I − Σ A_l B^l, with C's order at least.
    memory : array of shape (r,)
        C_1, ..., C_r of C(B) = 1 + Σ C_l B^l.
    terms : array of shape (k, d)
        Of D: constants, time, season, then inputs.
    cov : array of shape (d, d)
        Of the innovations.
    first : PastState
        The law of the state where a sequence begins.
    transform : Transform
        Of the series, before all else.
    centre : array of shape (k,)
        That inputs count from; files from before have none.
    rows : float
        That it was learned from; files from before do not say.
    """

    form: Form
    coef: np.ndarray
    memory: np.ndarray
    terms: np.ndarray
    cov: np.ndarray
    first: PastState
    transform: Transform
    centre: np.ndarray | float = 0.0
    rows: float = np.inf

    @property
    def options(self) -> Backbone:
        """Those that a line of this kind is asked for by."""
        form = self.form
        season = form.season or None
        return Backbone(form.order, form.trend, form.difference, season, self.transform.name)

    @property
    def n_inputs(self) -> int:
        """Inputs that D is linear in."""
        return len(self.terms) - self.form.terms(np.zeros(1)).shape[1]

    def known(self, times: np.ndarray, inputs: np.ndarray | None) -> np.ndarray:
        """D_t, (n, d)."""
        X = self.form.terms(times)
        return (X if inputs is None else np.c_[X, inputs - self.centre]) @ self.terms

    def with_drift(self, more: np.ndarray) -> FittedBackbone:
        """With so much more of a constant, (d,)."""
        if self.form.trend != "n":
            return replace(self, terms=np.concatenate([self.terms[:1] + more, self.terms[1:]]))
        form = replace(self.form, trend="drift")
        return replace(self, form=form, terms=np.concatenate([more[None], self.terms]))

    def centred(self, mean: np.ndarray) -> FittedBackbone:
        """Beside innovations of this mean, far ahead, which go on where the line has a level.

        Levels without a constant have that of the innovations, and differences, asked for without
        one, their drift; no parabola comes of seasonal ones.
        """
        free = self.form.trend == "n" and self.form.lost < 2
        return self if free else self.with_drift(-mean)

    @property
    def few(self) -> float:
        """1/n of the rows learned from; 0 of logarithms, whose mean grows with every doubt."""
        return 0.0 if self.transform.name == "log" else 1.0 / self.rows

    @property
    def spread(self) -> float:
        """What innovations are drawn apart by: a line was chosen among many by so few of them."""
        return (1.0 + OPTIMISM * self.few) ** 0.5

    @property
    def doubt(self) -> np.ndarray:
        """A root of the covariance of what is not known of its constant, UNSURE Σ/n: (d, d).

        None of a parabola, which a constant would be beside two differences: that there is none is
        not learned.
        """
        twice = self.form.difference and self.form.by_difference
        return (not twice) * (UNSURE * self.few) ** 0.5 * np.linalg.cholesky(self.cov).T

    def stays(self, n: int) -> bool:
        """Whether it stays in the range of n rows: no real root is near one."""
        roots = np.linalg.eigvals(self.unseen)
        root = roots.real[abs(roots.imag) < 1e-6].max(initial=0.0)
        return bool(root < 1 - FAR_FROM_ONE / n) and self.form.trend != "ct"

    def in_units(self, units: np.ndarray) -> FittedBackbone:
        """The line of a series whose columns are so many times as large."""
        wide, r = np.outer(units, units), len(self.coef)
        first = replace(self.first, mean=self.first.mean * units)
        first = replace(first, cov=first.cov * np.tile(wide, (r, r)))
        coef, terms = self.coef * (units[:, None] / units), self.terms * units
        return replace(self, coef=coef, terms=terms, cov=self.cov * wide, first=first)

    def with_inputs(self, centre: np.ndarray, units: np.ndarray) -> FittedBackbone:
        """The line of inputs that count from elsewhere, in other units."""
        first = len(self.terms) - len(units)
        terms = np.concatenate([self.terms[:first], self.terms[first:] / units[:, None]])
        return replace(self, terms=terms, centre=centre)

    def unknown(self, wide: np.ndarray) -> np.ndarray:
        """Variances beyond those of an innovation, relative to these: `wide` of a track."""
        d = self.cov.shape[0]
        return (np.diagonal(wide.reshape(-1, d, d), axis1=1, axis2=2) / self._own).mean(axis=1)

    def settled(self, wide: np.ndarray) -> np.ndarray:
        """Rows whose forecast is as if the whole past were known: `wide` of a track."""
        return self.unknown(wide) <= SETTLED

    def track(self, Y, seen, sequences, inputs=None, gaps=None) -> Track:
        """Along observations; `gaps` are the means of the innovations of rows not seen.

        Rows that are there in part hold NaN in their gaps.
        """
        mean, parts = np.empty_like(Y), []
        for s in sequences:
            known, means, *rest = self.along(Y, seen, s, inputs, gaps)
            mean[s] = known + means[:-1, 0]
            parts.append(rest)
        wide, last = zip(*parts, strict=True)
        return Track(mean, np.concatenate(wide), list(last))

    def along(self, Y, seen, s: slice, inputs=None, gaps=None) -> tuple:
        """D of the rows of a sequence; means of the states before these, and after the last.

        (n, d) and (n + 1, r, d); then how `wide` these are, (n, d, d), and the last state.
        """
        seen, n, d = seen[s], s.stop - s.start, Y.shape[1]
        told = seen | np.isnan(Y[s]).any(axis=1)
        Y = np.where(told[:, None], Y[s], np.nan)
        known = self.known(np.arange(n), None if inputs is None else inputs[s])
        own = known if gaps is None else known + gaps[s]
        means, wide = np.empty((n + 1, *self.first.mean.shape)), np.zeros((n, d, d))
        gone, state, t = np.append(np.flatnonzero(~seen), n), self.first, 0
        while t < n:
            if seen[t] and state.cov[0, 0] == 0 and not state.cov.any():
                stop = gone[np.searchsorted(gone, t)]
                means[t : stop + 1] = self.settled_means(state.mean, Y[t:stop])
                state = PastState(state.time + int(stop) - t, means[stop], state.cov)
                t = int(stop)
                continue
            means[t], wide[t] = state.mean, state.cov[:d, :d]
            state = self.moved(state, Y[t], known[t] if seen[t] else own[t])
            t += 1
        means[n] = state.mean
        return known, means, wide, state

    def settled_means(self, first: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Means of the states before each of some rows and after them, where nothing is unknown.

        With ε_t = y_t − mean_t[0] they are mean_{t+1}[i] = mean_t[i+1] + A_{i+1} y_t + C_{i+1} ε_t.
        """
        n, (r, d) = len(Y), first.shape
        late = np.concatenate([first, np.zeros((max(n - r, 0), d))])[:n]
        past = np.zeros_like(Y)
        for lag, A in enumerate(self.coef, start=1):
            past[lag:] += Y[:-lag] @ A.T
        off = undelayed(np.append(1.0, self.memory), Y - late - past)
        means = np.zeros((n + 1, r + 1, d))
        means[0, :r] = first
        for i in range(r - 1, -1, -1):
            means[1:, i] = means[:-1, i + 1] + Y @ self.coef[i].T + self.memory[i] * off
        return means[:, :r]

    def begun(self, Y, seen, sequences, inputs=None) -> FittedBackbone:
        """With a sequence beginning in the law that the states of these rows have."""
        enough, found = min(len(self.coef), max(seen[s].sum() for s in sequences) // 2), []
        for s in sequences:  # states that so many rows have told of, not those that were assumed
            before = np.cumsum(seen[s]) - seen[s]
            kept = (before >= enough) & (before < seen[s].sum())
            found.append(self.along(Y, seen, s, inputs)[1][:-1][kept])
        states = np.concatenate(found).reshape(-1, self.first.mean.size)
        off = states - states.mean(axis=0)
        mean = states.mean(axis=0).reshape(self.first.mean.shape)
        return replace(self, first=PastState(0, mean, off.T @ off / len(off)))

    def moved(self, state: PastState, y: np.ndarray, known: np.ndarray) -> PastState:
        """One row on: y was seen, or it is NaN, in part perhaps; its own part has mean `known`."""
        mean, cov, d, there = state.mean.ravel(), state.cov, len(known), ~np.isnan(y)
        if not there.any():
            mean = self.unseen @ mean + self.gain @ known
            cov = self.unseen @ cov @ self.unseen.T + self.gain @ self.cov @ self.gain.T
        elif not there.all():
            mean, cov = self._moved_by(y, there, mean, cov, known)
        else:
            all_of_y = cov[:d, :d] + self.cov
            told = cov[:, :d] / all_of_y if d == 1 else dgesv(all_of_y, cov[:d])[2].T
            mean = self._seen @ (mean + told @ (y - mean[:d] - known)) + self.gain @ y
            cov = self._seen @ (cov - told @ cov[:d]) @ self._seen.T
            if cov[0, 0] <= 1e-9 * d * self._own[0]:
                left = cov.diagonal().reshape(-1, d) / self._own
                if left[0].sum() <= 1e-9 * d and left.sum() <= 1e-8 * d:
                    cov = np.zeros_like(cov)
        return PastState(state.time + 1, mean.reshape(state.mean.shape), cov)

    def _moved_by(self, y, there: np.ndarray, mean, cov, own: np.ndarray) -> tuple:
        """Mean and covariance after a row that is there in part.

        y is the first part of the state and the row's own: what is there tells of both, together.
        """
        means, both, d = np.r_[mean, own], block_diag(cov, self.cov), len(own)
        of = (np.eye(d, len(both)) + np.eye(d, len(both), len(mean)))[there]
        told = np.linalg.solve(of @ both @ of.T, of @ both).T
        means = means + told @ (y[there] - of @ means)
        move = np.c_[self.unseen, self.gain]
        return move @ means, move @ (both - told @ of @ both) @ move.T

    @cached_property
    def gain(self) -> np.ndarray:
        """What is added to the state by a row, (r d, d): A + C."""
        return (self.unseen - self._seen)[:, : len(self.cov)]

    @cached_property
    def unseen(self) -> np.ndarray:
        """Of the state where y is not seen."""
        return _shift(self.coef)

    @cached_property
    def _own(self) -> np.ndarray:
        """Variances of an innovation, (d,)."""
        return np.maximum(np.diag(self.cov), np.finfo(float).tiny)

    @cached_property
    def _seen(self) -> np.ndarray:
        """Of the state where y is."""
        return _shift(-self.memory[:, None, None] * np.eye(len(self.cov)))

    def paths(self, past: PastState, e: np.ndarray, inputs, rng) -> np.ndarray:
        """Series with the innovations `e`, (n, steps, d), from draws of a state on."""
        n, steps, _ = e.shape
        mean = np.tile(past.mean, (n, 1, 1))
        if past.cov.any():
            wide = np.sqrt(np.maximum(np.diag(past.cov), np.finfo(float).tiny))
            alike = past.cov / np.outer(wide, wide)
            off = rng.multivariate_normal(np.zeros(len(wide)), alike, n, method="eigh") * wide
            mean = mean + off.reshape(mean.shape)
        known = self.known(past.time + np.arange(steps), inputs)
        most = self.transform.limit(self.onward(past.mean[None], known[None]))
        return self.transform.back(np.minimum(self.onward(mean, known + e), most))

    def onward(self, mean: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Rows from means of states on, (n, r, d), with parts of their `own`: (n, steps, d)."""
        found, mean = np.empty_like(own), mean.reshape(len(mean), -1)
        for t in range(own.shape[1]):
            found[:, t] = mean[:, : own.shape[2]] + own[:, t]
            mean = mean @ self.unseen.T + own[:, t] @ self.gain.T
        return found


def _shift(first: np.ndarray) -> np.ndarray:
    """The matrix that moves blocks up by one, and adds `first` times the block that leaves."""
    r, d, _ = first.shape
    found = np.eye(r * d, k=d)
    found[:, :d] += first.reshape(-1, d)
    return found


def mean_of(
    lines: list[FittedBackbone], shares: np.ndarray
) -> tuple[Form, np.ndarray, np.ndarray, np.ndarray]:
    """Form, A_l, C_l and terms of the line whose forecasts are the mean of those of several.

    Σ w_k (A_k/C_k)(B) y = Σ w_k D_k, where every C_k is one or C. The lines are of one season and
    transform; the form is that of the first, with a constant where any has one.
    """
    d, C = len(lines[0].cov), max((line.form.behind for line in lines), key=len)
    if any(line.form.trend != "n" for line in lines):
        lines = [line.with_drift(np.zeros(d)) for line in lines]
    parts = []
    for line, share in zip(lines, shares, strict=True):
        left = np.concatenate([np.eye(d)[None], -line.coef])
        parts.append(share * (times(C, left) if len(line.form.behind) == 1 else left))
    A = np.zeros((max(map(len, parts)), d, d))
    for part in parts:
        A[: len(part)] += part
    terms = np.tensordot(shares, [line.terms for line in lines], 1)
    return lines[0].form, *lags(A, C), terms


def lags(A: np.ndarray, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A_1, ..., A_r of A(B) = I − Σ A_l B^l, and C_1, ..., C_r."""
    r = max(len(A), len(C), 2) - 1
    coef, memory = np.zeros((r, *A.shape[1:])), np.zeros(r)
    coef[: len(A) - 1], memory[: len(C) - 1] = -A[1:], C[1:]
    return coef, memory
