"""Where a conditional distribution lies: a smooth mean m(x), a line and a kernel part together."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..core import Array, Moments, Rows, Saveable, arrays
from ..core.minimise import SLACK, descend, heaviest_within, mean_and_error, minimise_log10
from ..embedding.move import Bend
from ..features.base import FeatureMap
from ..features.landmarks import quietly
from ..kernels import Kernel
from ..regression.lengthscales import REG_DECADES, SCALE_DECADES, Scaled, evidence_loss, tied
from ..regression.smoother import Smoother, weighed
from ..regression.support import Support

STEPS, TOL = 30, 1e-8  # of L-BFGS in a round; the evidence is flat
RANK = 100  # landmarks of the search
TUNED_RANK = 500  # the same afterwards
START = -3.0  # log10 of λ
CROWDED = 0.5  # mean leverage, from which on a larger one is preferred
REGS = (-7.0, 1.0)  # of the same in the search: below, rounding errors decide where it goes
DIGITS = 4  # of logarithms: beyond what data say, rounding errors would be carried on
HARDLY = 0.03  # of the largest singular value of standardised rows: no slope along such directions
TIE = 10.0  # between scales, times the number of rows
LINE_DECADES = (-3.0, 2.0)  # of the size of the line beside the kernel


class Slopes(Saveable):
    """Columns of X standardised, and scaled so that their squared norm has mean `size`².

    What a kernel takes for angles or row numbers is zero: no line goes along these.
    """

    def __init__(self, X: np.ndarray, size: float = 1.0, kernel: Kernel | None = None):
        d = X.shape[1]
        lines = np.ones(d) if kernel is None else np.array(kernel.lines(d))
        self.mean, self.factor = X.mean(axis=0), lines * (size / (arrays.units(X) * d**0.5))

    def __call__(self, X) -> Array:
        return (X - arrays.like(self.mean, X)) * arrays.like(self.factor, X)


class Beyond(Saveable):
    """What keeps m(x) near the least-squares line ℓ through its values at the training rows X.

    With x̄ the nearest point of the box of the data and d the range of m − ℓ at the training rows,
    m(x) is ℓ(x) + clip(m(x̄) − ℓ(x̄), d): as learned at the training rows, continuous, and outside
    the data a line: on the scale of y, if m is on a bent one.
    """

    bend: Bend | None = None  # a file of an earlier version may have none

    def __init__(self, X, kernel: Kernel, fitted, bend: Bend | None):
        rows, m = arrays.to_numpy(X), arrays.to_numpy(fitted)
        m = m if bend is None else bend.back(m)
        line, centre = Slopes(rows, kernel=kernel), rows.mean(axis=0)
        slope = np.linalg.lstsq(line(rows), m - m.mean(axis=0), rcond=HARDLY)[0]
        slope = line.factor[:, None] * slope
        off = m - (rows - centre) @ slope
        self.support, self.kernel, self.bend = Support.of(X), kernel, bend
        told = centre, slope, off.min(axis=0), off.max(axis=0)
        self.centre, self.slope, self.low, self.high = (arrays.like(A, X) for A in told)

    def __call__(self, learned: Callable, X) -> Array:
        """m(x) for the rows of X, where `learned` is m in the box."""
        near = self.support.nearest(X, self.kernel)
        m = learned(near) if self.bend is None else self.bend.back(learned(near))
        off = m - (near - self.centre) @ self.slope
        off = arrays.namespace(X).clip(off, self.low, self.high)
        m = off + (X - self.centre) @ self.slope
        return m if self.bend is None else self.bend(m)


class Weights(Saveable):
    """w(x) = exp(level − 2g(x)): of squared errors that are as large as exp(2g(x)).

    g is the mean over the columns of y, and counts as far as it went at some rows X, where w has
    mean one.
    """

    def __init__(self, log_size: Location, X: np.ndarray):
        g = arrays.to_numpy(log_size(X)).mean(axis=1)
        self.log_size, self.low, self.high = log_size, g.min(), g.max()
        self.level = float(np.log(len(g)) - logsumexp(-2.0 * g))

    def __call__(self, X) -> Array:
        """(n,)."""
        g = np.clip(self.log_size(arrays.to_numpy(X)).mean(axis=1), self.low, self.high)
        return arrays.like(np.exp(self.level - 2.0 * g), X)


class Design:
    """Rows in the coordinates (line(x), φ(x)), in which whatever depends on x is learned.

    The line is of the size given.
    """

    def __init__(self, X, kernel: Kernel, features: FeatureMap, size: float):
        self.X, self.line, self.features = X, Slopes(arrays.to_numpy(X), size, kernel), features
        Phi = quietly(features, X, kernel)
        self.Phi = arrays.namespace(X).concat([self.line(X), Phi], axis=1)

    @cached_property
    def smoother(self) -> Smoother:
        """With rows that weigh alike."""
        return Smoother.of(self.Phi, True)


@dataclass(frozen=True)
class Location(Saveable):
    """m(x) = a + coefᵀ(line(x), φ(x)), by ridge regression with a free intercept a.

    Attributes
    ----------
    weights : Weights or None
        Of squared errors, a function of rows of X; None is one for all.
    beyond : Beyond or None
        What it goes over to outside the data; a file of an earlier version has none.
    residuals : array of shape (n, d_y)
        y_i − m⁻ⁱ(x_i), each from the fit without its own row: while fitting.
    loss : float
        Their mean square, in variances of the columns of Y.
    explains : bool
        Whether their squares are smaller than those around the mean of the other rows, by more
        than a standard error. The score of their density cannot say: m(x) may be anywhere as long
        as the residuals are where the data are.
    """

    line: Slopes
    features: FeatureMap
    intercept: Array
    coef: Array
    reg: float
    loss: float
    residuals: Array
    explains: bool
    beyond: Beyond | None = None
    smoother: Smoother | None = None  # without its rows: while fitting
    doubt: Array | None = None  # −log(1 − h)/2, h the leverage, (n, 1) or (n, d_y): while fitting
    weights: Weights | None = None
    excess: Array | None = None  # of outcomes over those learned from, outliers nearer: the same
    straight: Any = None  # columns of y that are lines, as in
    simple: Location | None = None  # this one; None without any

    @classmethod
    def on(
        cls,
        design: Design,
        Y,
        reg: float | None = None,
        bend: Bend | None = None,
        rows: Rows | None = None,
        weights: Weights | None = None,
    ) -> Location:
        """In given coordinates.

        λ, if it is not given, leaves the least squares in rows left out. Where m would be as good
        as free at half of the rows, and know its values there without noise, these hardly depend on
        it: it is the largest that leaves no more than half a standard error above the least. X and
        Y may be some of `rows`; Y is on the bent scale, `rows` are as they came.
        """
        X, Phi, line, features = design.X, design.Phi, design.line, design.features
        w = None if weights is None else weights(X)
        if rows is None:
            smoother = design.smoother if w is None else Smoother.of(Phi, True, w)
            means = smoother.P.T @ weighed(Y, w) / smoother.n
        else:
            every = rows.in_slices(_moments, Phi.shape[1], line, features, bend, weights)
            smoother = Smoother.among(Phi, True, every)
            means = smoother.projected(every.mean("xy"), every.mean("y"))
        xp, n, own = arrays.namespace(Y), Y.shape[0], weighed(smoother.P**2, w)
        scale = arrays.units(Y)

        def left_out(reg: float) -> tuple[Array, Array, Array]:
            """m at the rows, what it leaves of each without its own, and the leverages."""
            shrink = smoother.shrink(reg)
            fitted, h = smoother.P @ (shrink[:, None] * means), own @ shrink / smoother.n
            return fitted, (Y - fitted) / arrays.at_least(1.0 - h, 1e-10)[:, None], h

        def squares(reg: float) -> Array:
            return weighed((left_out(reg)[1] / scale) ** 2, w)

        def loss(reg: float) -> float:
            return float(xp.mean(squares(reg)))

        if reg is None:
            reg, _ = minimise_log10(loss, *REG_DECADES)
            if float(xp.mean(left_out(reg)[2])) > CROWDED:
                least, error = mean_and_error(arrays.to_numpy(xp.mean(squares(reg), axis=1)))
                reg = heaviest_within(loss, reg, least + SLACK * error, REG_DECADES[1])
        solved = smoother.shrink(reg)[:, None] * means
        coef = smoother.grid.vectors @ solved[1:, :]
        intercept = solved[0, :] - smoother.centre @ coef
        fitted, left, h = left_out(reg)
        around = (Y - xp.mean(Y, axis=0)) * (n / (n - 1))
        explains = clearly(xp.sum((around / scale) ** 2 - (left / scale) ** 2, axis=1))
        return cls(
            line, features, intercept, coef, reg, loss(reg), left, explains,
            Beyond(X, features.kernel_, fitted, bend), smoother.alone(), doubt(h)[:, None], weights,
        )  # fmt: skip

    def along(self, line: Location, straight: np.ndarray) -> Location:
        """With some columns of m as a line through the same rows has them: in NumPy, in fitting."""
        d, coef, beyond = len(line.line.mean), self.coef.copy(), copy(self.beyond)
        own, other = line.line.factor, self.line.factor
        ratio = np.divide(own, other, out=np.zeros(d), where=other > 0)
        coef[d:, straight], coef[:d, straight] = 0.0, (ratio[:, None] * line.coef[:d])[:, straight]
        for name in ("slope", "low", "high"):
            values = np.where(straight, getattr(line.beyond, name), getattr(beyond, name))
            setattr(beyond, name, values)
        parts = {
            name: np.where(straight, getattr(line, name), getattr(self, name))
            for name in ("intercept", "residuals", "doubt")
        }
        simple = replace(line.bare(), smoother=line.smoother)
        return replace(self, coef=coef, beyond=beyond, straight=straight, simple=simple, **parts)

    @property
    def rank(self) -> int:
        """Coordinates of a row that are formed together to say where it lies."""
        return int(self.features.rank_) + len(self.line.mean)

    def bare(self) -> Location:
        """What answers need."""
        return replace(self, residuals=None, smoother=None, doubt=None, excess=None)

    @property
    def points(self) -> Array:
        """Residuals of the outcomes as they came."""
        return self.residuals if self.excess is None else self.residuals + self.excess

    def within(self, support: Support) -> Location:
        """The same where data are elsewhere too."""
        beyond: Any = copy(self.beyond)
        beyond.support = support
        return replace(self, beyond=beyond)

    def __call__(self, X) -> Array:
        """m(x) for the rows of X, (m, d_y)."""
        return self._learned(X) if self.beyond is None else self.beyond(self._learned, X)

    def widths(self, X) -> None:
        """Laws around it are equally wide."""

    def left_out(self, X, Y) -> Array:
        """The residuals of any rows among those elsewhere that it was learned from."""
        return self.apart(X, Y)[0]

    def apart(self, X, Y) -> tuple[Array, Array]:
        """The same, and −log(1 − h)/2 of each."""
        assert self.smoother is not None
        Phi = self.coordinates(X)
        h = self.smoother.leverage_at(Phi, self.reg)
        z = doubt(h if self.weights is None else self.weights(X) * h)
        return (Y - self.intercept - Phi @ self.coef) * arrays.namespace(z).exp(2 * z)[:, None], z

    def unknown(self, X) -> np.ndarray:
        """v(x) of `standard.Standard`, (m, 1), or (m, d_y) where some columns are lines."""
        if self.smoother is None:
            return np.zeros((len(X), 1))
        Phi, features = self.coordinates(X), self.features
        own = arrays.to_numpy(features.kernel_.diag_of(X)) if features.rank_ else np.zeros(len(X))
        h = arrays.to_numpy(self.smoother.leverage_at(Phi, self.reg))
        kept = (arrays.to_numpy(Phi[:, X.shape[1] :]) ** 2).sum(axis=1)
        v = h + np.maximum(own - kept, 0.0) / (self.smoother.n * self.reg)
        v = (v if self.weights is None else arrays.to_numpy(self.weights(X)) * v)[:, None]
        return v if self.simple is None else np.where(self.straight, self.simple.unknown(X), v)

    def coordinates(self, X) -> Array:
        """(line(x), φ(x)), (m, r)."""
        return beside(self.line, self.features, X)

    def _learned(self, X) -> Array:
        d = len(self.line.mean)
        curve = self.features.times(X, self.coef[d:, :])
        return self.intercept + self.line(X) @ self.coef[:d, :] + curve


def beside(line: Slopes, features: FeatureMap, X) -> Array:
    """(line(x), φ(x)), (m, r)."""
    return arrays.namespace(X).concat([line(X), features.transform(X)], axis=1)


def _moments(X, Y, line: Slopes, features: FeatureMap, bend: Bend | None, weights) -> Moments:
    """Of coordinates and outcomes of rows; their number is the sum of the weights."""
    Phi, Y = beside(line, features, X), Y if bend is None else bend(Y)
    xp = arrays.namespace(Phi)
    w = xp.ones_like(Phi[:, 0]) if weights is None else weights(X)
    half, outcomes = weighed(Phi, w, 0.5), weighed(Y, w, 0.5)
    sums = {"x": w @ Phi, "xx": half.T @ half, "xy": half.T @ outcomes, "y": w @ Y}
    return Moments.of(float(xp.sum(w)), sums)


def doubt(leverage: Array) -> Array:
    """−log(1 − h)/2."""
    return -0.5 * arrays.namespace(leverage).log(arrays.at_least(1.0 - leverage, 1e-10))


def clearly(gain, errors: float = 1.0) -> bool:
    """Whether a mean is above zero by more than its standard error, or than so many."""
    mean, error = mean_and_error(arrays.to_numpy(gain))
    return mean > errors * error


class LocationSearch:
    """Scales of the columns of X, the size of the line and λ, by the evidence.

    It does not take luck with the rows left out for smoothness, as a search of several scales by
    leave-one-out does. Those of `start`, a search on other rows, are where it begins; without one
    the scales of all columns keep in step for a round. Then they part, however few the rows, for
    the evidence pays for each. Without `free` they stay as they are. `weights` are those of the
    rows; `tie` says how strongly the scales of columns are tied when they part.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: np.ndarray,
        Y: np.ndarray,
        start: LocationSearch | None = None,
        free: bool = True,
        weights: Weights | None = None,
        tie: float | None = None,
    ):
        self.weights = None if weights is None else weights(X)
        self.Y, self.line, self.d = Y / Y.std(axis=0), Slopes(X, kernel=kernel)(X), X.shape[1]
        self.kernel, self.free, self.scaled = kernel, free, Scaled(kernel, X, RANK)
        tie = TIE / len(Y) if tie is None else tie
        middle = 0.5 * np.log10(self.d) if free else 0.0
        around = (middle - SCALE_DECADES, middle + SCALE_DECADES)
        self._bounds = [around] * self.d + [LINE_DECADES, REGS]
        begin = np.append(np.full(self.d, middle), [0.0, START])
        self._u: np.ndarray = start._u if start else begin
        if not free:
            return
        in_step = start is None and self.d > 1
        if in_step:
            self._descend(begin, np.inf)
        self._descend(self._u, tie)
        # still in step where no row is near another, so that nothing parts them
        if in_step and np.isfinite(self._tie) and np.ptp(self._u[: self.d]) == 0:
            there, loss = self._u, self.loss
            self._descend(begin, tie)
            self._u = self._u if self.loss < loss else there

    def _descend(self, u: np.ndarray, tie: float) -> None:
        self._tie = tie
        self.scaled.choose(u[: self.d])
        found = descend(self._loss, u, self._bounds, STEPS, TOL)
        self._u = found.round(DIGITS - 1)  # its loss is flatter still

    @property
    def reg(self) -> float:
        """λ, where the search ended."""
        return float(10.0 ** self._u[-1])

    @property
    def loss(self) -> float:
        """−log p(Y)/n, up to a constant, where the search ended."""
        self.scaled.choose(self._u[: self.d])
        return self._loss(self._u)[0]

    def design(self, X, features: FeatureMap) -> Design:
        """Rows in coordinates of this map, at the scales and the size found."""
        scales, size = 10.0 ** self._u[: self.d], float(10.0 ** self._u[self.d])
        kernel = self.kernel.scaled(scales) if self.free else self.kernel
        return Design(X, kernel, features, size)

    def _loss(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        d, reg, size = self.d, 10.0 ** u[-1], 10.0 ** u[self.d]
        Theta = np.hstack([size * self.line, self.scaled(u[:d])])
        value, on_Theta, on_reg = evidence_loss(Theta, self.Y, reg, self.weights)
        price, on_scales = tied(u[:d], self.scaled.pullback(on_Theta[:, d:]), self._tie)
        on_line = size * float((on_Theta[:, :d] * self.line).sum())
        rest = np.log(10) * np.array([on_line, reg * on_reg])
        return value + price, np.append(on_scales, rest)
