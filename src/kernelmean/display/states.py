"""State-space models: their forecasts, the laws they have learned, and how they learned them."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.arrays import to_numpy
from ..core.checks import as_points, check_column, check_count
from ..core.labels import Labels
from ..core.sequences import check_sequences
from ..embedding.embedding import MeanEmbedding
from ..statespace.kernel_state_space import KernelStateSpace
from ..statespace.results import latent_names
from .base import (
    Display,
    PanelDisplay,
    TimePanels,
    as_times,
    fan,
    grid_between,
    panels,
    times_ahead,
)
from .regimes import TAILS, HistoryDisplay, densities_along
from .style import CURVE, DATA, PLAIN, literal, shade

RANGE = (0.005, 0.995)  # quantiles of the latent law between which laws are drawn
MARGIN = 0.05  # of that range, on either side
TERMS = ("pairs of rows", "mean of y", "mean of x")  # of the loss


@dataclass
class ForecastDisplay(TimePanels):
    """A series with its one-step forecasts, and what comes after its end.

    One panel per column. Each row has the mean and the central interval that the rows before it
    say; after the end, a fan of two intervals. `plot(label=…)` says what the means are called.

    Attributes
    ----------
    times : array of shape (n,)
    series : array of shape (n, d)
        NaN where missing.
    mean, lower, upper : arrays of shape (n, d)
    ahead_times : array of shape (steps,)
    ahead : array of shape (5, steps, d)
        Lower ends of the interval and of the one of level 1/2, mean, upper ends of the two.
    names : list of str
    level : float
        Of the intervals.
    sequences : list of slice
        No line crosses from one to the next; the fan follows the last one.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_state_space("linear", 300, random_state=0)
    >>> model = km.KernelStateSpace(em=km.EM(n_init=1)).fit(data.X)
    >>> display = km.display.ForecastDisplay.from_estimator(model, data.X, steps=10)
    >>> display.mean.shape, display.ahead.shape
    ((300, 1), (5, 10, 1))
    """

    times: np.ndarray
    series: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    ahead_times: np.ndarray
    ahead: np.ndarray
    names: list[str]
    level: float
    sequences: list[slice]

    @classmethod
    def from_estimator(
        cls,
        estimator: KernelStateSpace,
        X,
        *,
        steps: int = 0,
        level: float = 0.95,
        times=None,
        lengths=None,
    ) -> Self:
        """Forecast every row of `X` from those before it, and the rows that follow.

        Parameters
        ----------
        estimator : fitted KernelStateSpace
        X : array or DataFrame of shape (n, d)
            A row with NaN is a missing observation.
        steps : int
            Rows after the last one.
        level : float
            Of the intervals.
        times : array of shape (n,), optional
            Numbers or dates for the horizontal axis; None counts the rows. What follows goes on
            by the calendar, or by their median distance.
        lengths : sequence of int, optional
            Rows of each sequence.
        """
        check_count(steps, "steps", minimum=0)
        series = to_numpy(as_points(X, "X", one_d=False, gaps=True))
        n, d = series.shape
        times, sequences = as_times(times, n), check_sequences(lengths, n)
        told = estimator.predict(X, lengths), *estimator.predict_interval(X, level, lengths)
        later, ahead = times_ahead(times, steps), np.empty((5, 0, d))
        if steps:
            ahead = fan(estimator.forecast(X, steps, lengths), level)[:, -steps:]
        names = Labels.known_to(estimator).named(d)
        mean, lower, upper = map(to_numpy, told)
        return cls(times, series, mean, lower, upper, later, ahead, names, level, sequences)

    def _draw(self, axes, j: int, label: str = "forecast one row ahead") -> None:
        band = {"color": CURVE, "alpha": 0.15, "lw": 0, "label": f"{100 * self.level:g}% interval"}
        dots = {"color": DATA, "ms": 3.5, "mew": 0, "lw": 0.8, "label": "observed"}
        for s in self.sequences:
            t, seen, mean = self.times[s], self.series[s, j], self.mean[s, j]
            alone = np.isnan(mean).all()
            if not np.isnan(seen).all():
                axes.plot(t, seen, ".-" if alone else ".", **dots)
            if not alone:
                axes.fill_between(t, self.lower[s, j], self.upper[s, j], **band)
                axes.plot(t, mean, color=CURVE, lw=1.2, label=label)
        if len(self.ahead_times):
            self._draw_ahead(axes, j)

    def _draw_ahead(self, axes, j: int) -> None:
        low, inner_low, mean, inner_high, high = self.ahead[:, :, j]
        for lower, upper in ((low, high), (inner_low, inner_high)):
            axes.fill_between(self.ahead_times, lower, upper, color=PLAIN, alpha=0.18, lw=0)
        line = {"color": PLAIN, "lw": 1.8, "marker": "." if len(mean) == 1 else None}
        axes.plot(self.ahead_times, mean, label="what comes next", **line)


# ---------------------------------------------------------------- laws


@dataclass
class TransitionDisplay(Display):
    """p(x_{t+1} | x_t) of one latent coordinate, as a map, with E[x_{t+1} | x_t].

    The line on which x would stay is dashed. In several latent dimensions, the other coordinates
    have their stationary law given this one.

    Attributes
    ----------
    grid : array of shape (m,)
        Values of x_t, and of x_{t+1}.
    density : array of shape (m, m)
        One row for each x_t.
    mean : array of shape (m,)
    name : str
        Of the coordinate.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_state_space("linear", 300, random_state=0)
    >>> model = km.KernelStateSpace(em=km.EM(n_init=1)).fit(data.X)
    >>> display = km.display.TransitionDisplay.from_estimator(model)
    >>> bool(display.mean[-1] > display.mean[0])
    True
    """

    grid: np.ndarray
    density: np.ndarray
    mean: np.ndarray
    name: str

    @classmethod
    def from_estimator(
        cls, estimator: KernelStateSpace, *, latent: int = 0, n_grid: int = 120
    ) -> Self:
        """The learned transition.

        Parameters
        ----------
        estimator : fitted KernelStateSpace
        latent : int
            Number of the coordinate.
        n_grid : int
        """
        name, line, grid, shares = _along_latent(estimator, latent, n_grid)
        p = shares @ estimator.transmat_
        density = MeanEmbedding(line, p).density(grid[:, None], estimator.latent_bandwidth_)
        return cls(grid, density, (p @ line)[:, 0], name)

    def _draw(self, ax) -> None:
        shade(ax, self.grid, self.grid, self.density)
        ax.plot(self.grid, self.grid, "--", color=DATA, lw=1)
        ax.plot(self.grid, self.mean, color=PLAIN, lw=1.8)
        name = literal(self.name)
        ax.set(xlabel=f"{name} now", ylabel=f"{name} one row later")


@dataclass
class ObservationDisplay(Display):
    """p(y | x) of one column along one latent coordinate, as a map, with E[y | x].

    Where the model has a backbone, y is its innovation.

    Attributes
    ----------
    grid_x : array of shape (m,)
    grid_y : array of shape (k,)
    density : array of shape (m, k)
        One row for each x.
    mean : array of shape (m,)
    latent_name, name : str
        Of the coordinate and of the column, or "innovation of" it.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_state_space("linear", 300, random_state=0)
    >>> model = km.KernelStateSpace(em=km.EM(n_init=1)).fit(data.X)
    >>> display = km.display.ObservationDisplay.from_estimator(model)
    >>> display.density.shape, display.name
    ((120, 180), 'y')
    """

    grid_x: np.ndarray
    grid_y: np.ndarray
    density: np.ndarray
    mean: np.ndarray
    latent_name: str
    name: str

    @classmethod
    def from_estimator(
        cls,
        estimator: KernelStateSpace,
        *,
        column: int | str = 0,
        latent: int = 0,
        n_grid: int = 120,
    ) -> Self:
        """The learned law of an observation.

        Parameters
        ----------
        estimator : fitted KernelStateSpace
        column : int or str
            Of the observations: number or name.
        latent : int
            Number of the coordinate.
        n_grid : int
            Of values of x; half as many again of y.
        """
        latent_name, _, grid, shares = _along_latent(estimator, latent, n_grid)
        names = Labels.known_to(estimator).named(estimator.n_features_in_)
        j = check_column(column, names)
        name = names[j] if estimator.backbone_ is None else f"innovation of {names[j]}"
        law = estimator.chain_.mixture(shares).marginal(j)
        low, high = np.moveaxis(to_numpy(law.quantile(TAILS)), 1, 0)
        margin = MARGIN * (high.max() - low.min())
        grid_y = np.linspace(low.min() - margin, high.max() + margin, 3 * n_grid // 2)
        density, mean = shares @ densities_along(estimator, j, grid_y), to_numpy(law.mean())[:, 0]
        return cls(grid, grid_y, density, mean, latent_name, name)

    def _draw(self, ax) -> None:
        shade(ax, self.grid_x, self.grid_y, self.density)
        ax.plot(self.grid_x, self.mean, color=PLAIN, lw=1.8)
        name = literal(self.name)
        name = name if len(name) < 30 else name.replace("innovation of ", "innovation of\n")
        ax.set(xlabel=literal(self.latent_name), ylabel=name)


def _along_latent(
    estimator: KernelStateSpace, latent: int, n_grid: int
) -> tuple[str, np.ndarray, np.ndarray, np.ndarray]:
    """Name and nodes of a coordinate; a grid of it, and P(x = node | x_k) there, (m, nodes)."""
    check_is_fitted(estimator)
    names, prior = latent_names(estimator.nodes_.shape[1]), estimator.startprob_
    k = check_column(latent, names, "latent")
    line = np.ascontiguousarray(estimator.nodes_[:, [k]])
    low, high = MeanEmbedding(line, prior).quantile(RANGE)[:, 0]
    grid = grid_between(low, high, n_grid)
    if len(names) == 1:
        return names[k], line, grid, estimator.space_.shares(grid)
    width = line.std() * len(line) ** -0.2
    shares = prior * np.exp(-0.5 * ((grid[:, None] - line[:, 0]) / width) ** 2)
    return names[k], line, grid, shares / shares.sum(axis=1, keepdims=True)


# ---------------------------------------------------------------- learning


@dataclass
class TraceDisplay(PanelDisplay):
    """How a state-space model was learned: the loss of the moments, and how EM climbed from there.

    Attributes
    ----------
    terms : array of shape (iterations, 3)
        Of the loss: moments of pairs, λ₁ and λ₂.
    values : array
        Mean log-likelihood of a row by iteration of EM; empty with `refine=False`.
    converged : bool

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_state_space("linear", 300, random_state=0)
    >>> model = km.KernelStateSpace(em=km.EM(n_init=1)).fit(data.X)
    >>> display = km.display.TraceDisplay.from_estimator(model)
    >>> len(display.values) == len(model.history_)
    True
    """

    terms: np.ndarray
    values: np.ndarray
    converged: bool

    @classmethod
    def from_estimator(cls, estimator: KernelStateSpace) -> Self:
        """Show how the estimator was learned."""
        check_is_fitted(estimator)
        return cls(estimator.loss_history_, estimator.history_, estimator.converged_)

    def plot(self, ax=None) -> Self:
        """Draw the loss and, beside it, the climb; returns self, with `axes_` set.

        Parameters
        ----------
        ax : Axes or array of Axes, optional
            Two, or one where there was no EM; new ones when left out.
        """
        count = 1 + bool(len(self.values))
        size = (2.0 + 3.0 * count, 3.2)
        self.axes_ = panels(ax, count, "the loss, and EM if any", across=count, size=size)
        self._draw_loss(self.axes_[0])
        for axes in self.axes_[1:]:
            HistoryDisplay(self.values, self.converged).plot(axes)
        return self

    def _draw_loss(self, axes) -> None:
        steps = np.arange(len(self.terms))
        axes.plot(steps, self.terms.sum(axis=1), color=CURVE, lw=1.8, marker=".", label="loss")
        for term, name, style in zip(self.terms.T, TERMS, ("-", "--", ":"), strict=True):
            if term.any():
                axes.plot(steps, term, style, color=DATA, lw=1.2, label=name)
        axes.set_yscale("log")
        axes.set(xlabel="iteration of L-BFGS", ylabel="loss of the moments")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(frameon=False, fontsize=8)
