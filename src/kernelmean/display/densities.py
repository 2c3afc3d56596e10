"""Conditional densities: at a few x, along one column of x, and of two outcomes together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import Labels
from ..core.arrays import as_columns, to_numpy, units
from ..core.checks import as_points, check_column, check_count, check_lengths, column_names
from ..densities.conditional_density import ConditionalDensity
from ..embedding.law import names_like
from .base import Display, PanelDisplay, along, grid_between, panels
from .style import CURVE, DATA, DRAWN, PLAIN, TRUTH, literal, shade

TAILS = (0.005, 0.995)  # quantiles between which densities are drawn
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
REGIONS = (0.5, 0.8, 0.95)  # probabilities of the regions of two outcomes
NEAR = 30  # observations shown beside a density
RIDGE = 0.84  # height of the tallest ridge, in distances between ridges
VISIBLE = 8e-3  # of the tallest ridge: what a line can show
LETTER = 0.04  # height of a line of text, in heights of a picture
PANEL = 2.9  # inches
ROUNDED = 20  # values that a rounded column has in the range drawn, at least


@dataclass
class ConditionalDensityDisplay(Display):
    """p(y | x) at a few x, one below the other, each of area one.

    Each ridge carries its median (line) and its central interval (dark), with the observations of
    the most similar rows as ticks beneath: what the density rests on.

    Attributes
    ----------
    grid : array of shape (m,)
        Values of y.
    densities : array of shape (k, m)
        One row for each x; means over the cells around the grid.
    median, lower, upper : arrays of shape (k,)
    near : list of arrays, or None
        Observations of y whose x are nearest, in standard units of the columns.
    labels : list of str
    y_name : str
    level : float
        Of the intervals.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_conditional_density("bimodal", 200, random_state=0)
    >>> model = km.ConditionalDensity().fit(data.X, data.Y)
    >>> display = km.display.ConditionalDensityDisplay.from_estimator(model, [[0.0], [1.0]])
    >>> display.densities.shape, display.labels
    ((2, 400), ['x = 0', 'x = 1'])
    """

    grid: np.ndarray
    densities: np.ndarray
    median: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    near: list[np.ndarray] | None
    labels: list[str]
    y_name: str = "y"
    level: float = 0.95

    @classmethod
    def from_estimator(
        cls,
        estimator: ConditionalDensity,
        X,
        y=None,
        *,
        output: int | str = 0,
        level: float = 0.95,
        labels: Sequence[str] | None = None,
        near: int = NEAR,
        n_grid: int = 400,
    ) -> Self:
        """Densities of one column of y at the rows of X.

        Parameters
        ----------
        estimator : fitted ConditionalDensity
        X : array or DataFrame of shape (k, d_x)
        y : array or DataFrame, optional
            As given to `fit`: observations near each x are then shown, and y has its name.
        output : int or str
            Column of y: number or name.
        level : float
            Of the intervals.
        labels : sequence of str, optional
            One for each row of X; by default the columns in which they differ.
        near : int
            Observations to show with each x.
        n_grid : int
        """
        model = Outcomes(estimator, y)
        j = check_column(output, model.names, "output")
        rows = to_numpy(as_points(X, "X", one_d=False))
        tails = [(1 - level) / 2, 0.5, (1 + level) / 2]
        lower, median, upper = model.quantiles(X, tails)[..., j]
        grid, densities = model.densities(X, j, n_grid)
        beside = model.near(rows, near, j)
        names = _labels(labels, rows, estimator)
        return cls(grid, densities, median, lower, upper, beside, names, model.names[j], level)

    def _draw(self, ax) -> None:
        height, k = RIDGE / self.densities.max(), len(self.densities)
        for i in range(k):
            self._draw_ridge(ax, i, k - 1 - i, height)
        ax.set(xlabel=literal(self.y_name), xlim=(self.grid[0], self.grid[-1]))
        ax.set_yticks(range(k - 1, -1, -1), [*map(literal, self.labels)])
        ax.set_ylim(-0.3, k - 0.9 + height * self.densities[0].max())
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)

    def _draw_ridge(self, ax, i: int, base: float, height: float) -> None:
        y, p = self.grid, height * self.densities[i]
        seen = np.convolve(p > VISIBLE, [1, 1, 1], "same") > 0  # an atom is a single point
        shown = np.where(seen, base + p, np.nan)
        inside = (y >= self.lower[i]) & (y <= self.upper[i])
        ax.axhline(base, color=DATA, lw=0.5)
        ax.fill_between(y, base, shown, color=CURVE, alpha=0.12, lw=0)
        ax.fill_between(y, base, shown, where=inside, color=CURVE, alpha=0.3, lw=0)
        ax.plot(y, shown, color=CURVE, lw=1.5)
        ax.vlines(self.median[i], base, base + np.interp(self.median[i], y, p), color=CURVE, lw=1.5)
        if self.near is not None:
            ax.vlines(self.near[i], base - 0.15, base - 0.04, color=TRUTH, alpha=0.6, lw=0.8)


@dataclass
class DensityMapDisplay(Display):
    """p(y | x) along one column of x, with quantile curves and the data.

    `plot(data=False)` leaves the data out.

    Attributes
    ----------
    grid_x : array of shape (a,)
        Values of the column.
    grid_y : array of shape (b,)
    density : array of shape (a, b)
        p(y | x), means over the cells around `grid_y`.
    levels : tuple of float
    curves : array of shape (a, k)
        The quantiles of these levels.
    x, y : arrays of shape (n,), or None
        The data.
    held : dict
        The other columns and their values.
    x_name, y_name : str

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_conditional_density("bimodal", 200, random_state=0)
    >>> model = km.ConditionalDensity().fit(data.X, data.Y)
    >>> display = km.display.DensityMapDisplay.from_estimator(model, data.X, data.Y)
    >>> display.density.shape, display.curves.shape
    ((160, 240), (160, 5))
    """

    grid_x: np.ndarray
    grid_y: np.ndarray
    density: np.ndarray
    levels: tuple[float, ...]
    curves: np.ndarray
    x: np.ndarray | None
    y: np.ndarray | None
    held: dict[str, float]
    x_name: str = "x"
    y_name: str = "y"

    @classmethod
    def from_estimator(
        cls,
        estimator: ConditionalDensity,
        X=None,
        y=None,
        *,
        column: int | str = 0,
        output: int | str = 0,
        levels: Sequence[float] = QUANTILES,
        n_grid: int = 160,
    ) -> Self:
        """The density along one column of X, the others held at their medians.

        Parameters
        ----------
        estimator : fitted ConditionalDensity
        X : array or DataFrame of shape (n, d_x), optional
            The data, as given to `fit`; None is what the estimator keeps.
        y : array or DataFrame, optional
            The same: shown as dots, and y has its name.
        column, output : int or str
            Column of X to move, between its 2.5% and 97.5% quantiles, and column of y.
        levels : sequence of float
            Of the quantile curves.
        n_grid : int
        """
        model = Outcomes(estimator, y)
        names = names_like(estimator, estimator.n_features_in_)
        c, j = check_column(column, names), check_column(output, model.names, "output")
        rows = estimator.points_x_ if X is None else X
        points = as_columns(rows, len(names), "X", "the training X", one_d=False)
        shown = model.own if X is None else model.observed
        if shown is not None:
            check_lengths(len(points), len(shown), "X", "y")
        grid, path = along(points, c, n_grid)
        held = {name: float(path[0, i]) for i, name in enumerate(names) if i != c}
        if hasattr(estimator, "feature_names_in_"):
            path = Labels(tuple(names)).frame({"": path})
        grid_y, density = model.densities(path, j, 3 * n_grid // 2)
        levels = tuple(map(float, levels))
        curves = model.quantiles(path, levels)[..., j].T
        x, y = (None, None) if shown is None else (points[:, c], shown[:, j])
        return cls(grid, grid_y, density, levels, curves, x, y, held, names[c], model.names[j])

    def _draw(self, ax, data: bool = True) -> None:
        shade(ax, self.grid_x, self.grid_y, self.density)
        if data and self.x is not None and self.y is not None:
            keep = np.arange(0, len(self.x), len(self.x) // DRAWN + 1)
            ax.plot(self.x[keep], self.y[keep], ".", color=TRUTH, ms=4, alpha=0.4, mew=0)
        for level, curve in zip(self.levels, self.curves.T, strict=True):
            ax.plot(self.grid_x, curve, color=PLAIN, lw=2.0 if level == 0.5 else 1.0)
        self._name_curves(ax)
        ax.set(xlabel=literal(self.x_name), ylabel=literal(self.y_name))

    def _name_curves(self, ax) -> None:
        """The level of each curve at its right end, moved up where it would touch another."""
        lowest = -np.inf
        for k in np.argsort(self.curves[-1], kind="stable"):
            lowest = max(self.curves[-1, k], lowest + LETTER * np.ptp(self.grid_y[[0, -1]]))
            text = {"color": PLAIN, "fontsize": 8, "va": "center", "annotation_clip": False}
            spot = {"xytext": (4, 0), "textcoords": "offset points"}
            ax.annotate(f"{100 * self.levels[k]:g}%", (self.grid_x[-1], lowest), **spot, **text)


@dataclass
class DensityContourDisplay(PanelDisplay):
    """p(y₁, y₂ | x) at a few x, a panel each: smallest regions of given probabilities.

    Attributes
    ----------
    grid_1, grid_2 : arrays of shape (a,), (b,)
        Values of the two columns of y.
    densities : array of shape (k, a, b)
    levels : tuple of float
        Probabilities of the regions, from the innermost.
    heights : array of shape (k, number of levels)
        Of the densities on the edges of the regions.
    near : list of arrays (m, 2), or None
        Observations of y whose x are nearest, in standard units of the columns.
    labels : list of str
    y_names : tuple of two str

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> Y = X + 0.2 * rng.normal(size=(200, 2))
    >>> model = km.ConditionalDensity(reg=1e-2, bandwidth=0.1).fit(X, Y)
    >>> display = km.display.DensityContourDisplay.from_estimator(model, [[0.2], [0.8]], Y)
    >>> display.densities.shape, display.heights.shape
    ((2, 80, 80), (2, 3))
    """

    grid_1: np.ndarray
    grid_2: np.ndarray
    densities: np.ndarray
    levels: tuple[float, ...]
    heights: np.ndarray
    near: list[np.ndarray] | None
    labels: list[str]
    y_names: tuple[str, str] = ("y0", "y1")

    @classmethod
    def from_estimator(
        cls,
        estimator: ConditionalDensity,
        X,
        y=None,
        *,
        outputs: tuple[int | str, int | str] = (0, 1),
        levels: Sequence[float] = REGIONS,
        labels: Sequence[str] | None = None,
        near: int = NEAR,
        n_grid: int = 80,
    ) -> Self:
        """Densities of two columns of y at the rows of X.

        Parameters
        ----------
        estimator : fitted ConditionalDensity
            Of at least two columns of y.
        X : array or DataFrame of shape (k, d_x)
        y : array or DataFrame, optional
            As given to `fit`: observations near each x are then shown, and y has its names.
        outputs : pair of int or str
            Columns of y: numbers or names.
        levels : sequence of float
            Probabilities of the regions.
        labels : sequence of str, optional
            One for each row of X; by default the columns in which they differ.
        near : int
            Observations to show with each x.
        n_grid : int
            Along either side.
        """
        model = Outcomes(estimator, y)
        if len(model.names) < 2:
            raise ValueError("estimator was fitted to one column of y; contours need two")
        pair = [check_column(j, model.names, "outputs") for j in outputs]
        rows = to_numpy(as_points(X, "X", one_d=False))
        first, second = (grid_between(a, b, n_grid) for a, b in model.ends(X)[:, pair].T)
        densities = model.joint(X, pair, first, second)
        levels = tuple(sorted(map(float, levels)))
        edges = np.array([heights(p, levels) for p in densities])
        beside = model.near(rows, near, pair)
        names = _labels(labels, rows, estimator)
        y_names = model.names[pair[0]], model.names[pair[1]]
        return cls(first, second, densities, levels, edges, beside, names, y_names)

    def plot(self, ax=None) -> Self:
        """Draw one panel for each x; returns self, with `axes_` set.

        Parameters
        ----------
        ax : Axes or array of Axes, optional
            At least as many as there are x; new ones when left out.
        """
        k = len(self.densities)
        across = min(k, 3)
        size = (PANEL * across, PANEL * -(-k // across))
        self.axes_ = panels(
            ax, k, "one per row of X", across=across, size=size, spare=True, sharey=True
        )
        regions = [self._draw(axes, i) for i, axes in enumerate(self.axes_)]
        patches = regions[0].legend_elements()[0][::-1]
        names = [f"{100 * level:g}%" for level in self.levels]
        self.axes_[0].legend(patches, names, frameon=False, fontsize=8, handlelength=1.2)
        return self

    def _draw(self, axes, i: int) -> Any:
        """One panel; its filled regions, from the outermost to the innermost."""
        p, heights = self.densities[i].T, self.heights[i][::-1]
        heights = heights + 1e-9 * p.max() * np.arange(len(heights))  # apart, as contours must be
        shades = [(CURVE, alpha) for alpha in np.linspace(0.15, 0.6, len(heights))]
        grid = self.grid_1, self.grid_2
        filled = axes.contourf(*grid, p, levels=[*heights, np.inf], colors=shades)
        axes.contour(*grid, p, levels=heights, colors=CURVE, linewidths=0.7)
        if self.near is not None:
            axes.plot(*self.near[i].T, ".", color=TRUTH, ms=3.5, alpha=0.6, mew=0)
        axes.set_title(literal(self.labels[i]), fontsize=9)
        spec = axes.get_subplotspec()
        if spec is None or i + spec.get_gridspec().ncols >= len(self.densities):
            axes.set_xlabel(literal(self.y_names[0]))
            axes.tick_params(labelbottom=True)
        if spec is None or spec.is_first_col():
            axes.set_ylabel(literal(self.y_names[1]))
        return filled


# ---------------------------------------------------------------- what they share


class Outcomes:
    """A fitted model with the names and, where given, the observations of y."""

    def __init__(self, model: ConditionalDensity, y):
        if not isinstance(model, ConditionalDensity):
            raise ValueError(f"estimator is {model!r}; a ConditionalDensity is needed")
        check_is_fitted(model)
        n, d = len(model.points_x_), model.points_.shape[1]
        names = column_names(y) or model.target_names_
        self.model, self.names, self.observed = model, Labels.of(None, names).named(d), None
        if y is not None:
            self.observed = observed = as_columns(y, d, "y", "the training y")
            copies = len(np.unique(observed, axis=0)) <= n < len(observed)  # which count once
            if len(observed) != model.fit_.smoother.n and not copies:
                check_lengths(n, len(observed), "the training y", "y")

    @property
    def own(self) -> np.ndarray | None:
        """Observations of the rows of `points_x_`, which may be some of all."""
        fit, observed = self.model.fit_, self.observed
        if observed is None:
            return None
        if fit.kept is None:
            return None if len(observed) > len(fit.points) else observed  # which rows are copies?
        whole = len(observed) == fit.smoother.n
        return observed[fit.kept if whole else np.argsort(np.argsort(fit.kept))]

    def quantiles(self, X, levels) -> np.ndarray:
        """(k, batch, d)."""
        found = to_numpy(self.model.predict_quantile(X, levels))
        return np.swapaxes(found.reshape(len(found), len(levels), -1), 0, 1)

    def ends(self, X) -> np.ndarray:
        """Between which values each column is drawn, (2, d)."""
        low, high = self.quantiles(X, TAILS)
        return np.stack([low.min(axis=0), high.max(axis=0)])

    def densities(self, X, j: int, n_grid: int) -> tuple[np.ndarray, np.ndarray]:
        """Density of column j on a grid, (batch, n_grid): slopes of its distribution function.

        Of a column that was rounded, whose values are atoms, on these values: on a finer grid it is
        spikes.
        """
        check_count(n_grid, "n_grid", minimum=2)
        low, high = self.ends(X)[:, j]
        atoms = self.model.atoms_
        values = np.empty(0) if atoms is None else atoms.values[atoms.columns == j]
        if len(values) > 1:
            step = np.diff(values).min()
            count = int(np.ceil((high - low) / step)) + 1
            if ROUNDED <= count < n_grid:
                low, n_grid = values[0] + step * np.round((low - values[0]) / step), count
                high = low + step * (count - 1)
        half = 0.5 * (high - low) / (n_grid - 1)
        edges = np.linspace(low - half, high + half, n_grid + 1)
        Y = np.tile(edges[:, None], len(self.names))
        F = to_numpy(self.model.cdf(Y, X, paired=False))
        F = F.reshape(len(F), n_grid + 1, -1)[..., j]
        rise = np.maximum(np.diff(F, axis=1), 0.0)  # −1e-14 by rounding
        return 0.5 * (edges[1:] + edges[:-1]), rise / (2 * half)

    def joint(self, X, pair: list[int], first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Density of two columns on a grid, (batch, a, b)."""
        a, b = np.meshgrid(first, second, indexing="ij")
        grid = np.column_stack([a.ravel(), b.ravel()])
        return to_numpy(self.model.at(X).marginal(pair).density(grid)).reshape(-1, *a.shape)

    def near(self, rows: np.ndarray, count: int, columns) -> list[np.ndarray] | None:
        """Where x is most like each row, in standard units of its columns, the columns of y."""
        check_count(count, "near")
        observed = self.own
        if observed is None:
            return None
        points = to_numpy(self.model.points_x_)
        gaps = (rows[:, None, :] - points[None, :, :]) / units(points)
        order = np.argsort((gaps**2).sum(axis=-1), axis=1, kind="stable")
        return [observed[i][:, columns] for i in order[:, :count]]


def _labels(labels, rows: np.ndarray, estimator: ConditionalDensity) -> list[str]:
    """As given, or the columns in which the rows differ."""
    if labels is not None:
        check_lengths(len(rows), len(labels), "X", "labels")
        return list(labels)
    names = names_like(estimator, rows.shape[1])
    differ = [j for j in range(len(names)) if np.ptp(rows[:, j]) > 0] or range(len(names))
    return [", ".join(f"{names[j]} = {row[j]:.4g}" for j in differ) for row in rows]


def heights(p: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """At which height the region above holds each probability, from the outermost region."""
    sorted_p = np.sort(p.ravel())[::-1]
    mass = np.cumsum(sorted_p) / sorted_p.sum()
    return sorted_p[np.searchsorted(mass, levels).clip(max=p.size - 1)]
