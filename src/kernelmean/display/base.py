"""How displays take or make their axes, and what times they show."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..core.arrays import to_numpy
from ..core.checks import check_count
from ..core.labels import Labels, pandas
from .style import legend_above, literal, time_axis


class Display:
    """A picture of values on one pair of axes, which a subclass draws."""

    ax_: Any = None
    _draw: Callable[..., Any]

    def plot(self, ax=None, **how) -> Self:
        """Draw on `ax` (a new one when left out); returns self, with `ax_` set.

        Parameters
        ----------
        ax : Axes, optional
        **how
            What the class says of `plot`.
        """
        self.ax_ = panels(None, 1, "", size=(6, 4))[0] if ax is None else ax
        self._draw(self.ax_, **how)
        return self


class PanelDisplay:
    """A picture of values on several pairs of axes, `axes_` once drawn."""

    axes_: Any = None
    _draw: Callable[..., Any]


class TimePanels(PanelDisplay):
    """Panels below each other over the same times: `each` of `names` has one, and perhaps more."""

    times: np.ndarray
    names: list[str]
    each, more = "one per column", 0

    def plot(self, ax=None, **how) -> Self:
        """Draw one panel below the other; returns self, with `axes_` set.

        Parameters
        ----------
        ax : Axes or array of Axes, optional
            As many as `axes_` then has; new ones when left out.
        **how
            What the class says of `plot`.
        """
        self.axes_ = axes = panels(ax, len(self.names) + self.more, self.each)
        for j, panel in enumerate(axes):
            self._draw(panel, j, **how)
        for panel, name in zip(axes, self.names, strict=False):
            panel.set_ylabel(literal(name))
        time_axis(axes[-1], self.times)
        legend_above(axes[0])
        return self


def panels(
    ax, count: int, why: str, *, across: int = 1, size=None, spare: bool = False, sharey=False
) -> np.ndarray:
    """The axes given, `count` of them (or more if `spare`), or those of a new picture.

    In a new picture `across` are beside each other; the others are below.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        down = -(-count // across)
        place = {"sharex": "col", "sharey": sharey, "layout": "constrained"}
        ax = plt.subplots(down, across, figsize=size or (7.0, 1.0 + 2.2 * down), **place)[1]
    axes = np.ravel(ax)
    if len(axes) < count or (len(axes) > count and not spare):
        raise ValueError(f"ax has {len(axes)} axes; {count} are needed, {why}")
    for unused in axes[count:]:
        unused.set_axis_off()
    return axes[:count]


def medians(points: np.ndarray) -> np.ndarray:
    """The median of each column, among its own values: an indicator stays 0 or 1."""
    return np.quantile(points, 0.5, axis=0, method="inverted_cdf")


def grid_between(low: float, high: float, n_grid: int) -> np.ndarray:
    """Evenly spaced values, at least two."""
    return np.linspace(low, high, check_count(n_grid, "n_grid", minimum=2))


def along(points: np.ndarray, column: int, n_grid: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of a column between its 2.5% and 97.5% quantiles; rows with the others' medians."""
    low, high = np.quantile(points[:, column], [0.025, 0.975])
    grid = grid_between(low, high, n_grid)
    path = np.tile(medians(points), (n_grid, 1))
    path[:, column] = grid
    return grid, path


def as_times(times, n: int) -> np.ndarray:
    """Numbers or dates of n rows; None counts them.

    Dates with a zone are told in UTC, and periods by their beginning.
    """
    if times is None:
        return np.arange(n)
    own = getattr(times, "array", times)  # of pandas
    own = own.to_timestamp() if hasattr(own, "to_timestamp") else own
    own = own if getattr(own, "tz", None) is None else own.tz_convert(None)
    times = np.asarray(own)
    if times.shape != (n,):
        raise ValueError(f"times has shape {times.shape}; ({n},) is needed")
    if times.dtype.kind not in "MOSU":
        return times
    try:  # nanoseconds would end in 1677
        return times.astype("datetime64[us]")
    except (TypeError, ValueError) as err:
        needed = "numbers or dates are needed"
        raise ValueError(f"times begins with {times[0]!r}; {needed}") from err


def fan(found: Any, level: float) -> np.ndarray:
    """Ends of an interval and of the central half, and between them the means, (5, rows, d)."""
    (low, high), (inner_low, inner_high) = (found.interval(width) for width in (level, 0.5))
    return np.stack([*map(to_numpy, (low, inner_low, found.mean(), inner_high, high))])


def times_ahead(times: np.ndarray, steps: int) -> np.ndarray:
    """The dates or numbers that follow: by the calendar where it is kept, else equally far apart.

    Weeks of days without a weekend go on without them, whatever holidays there were, and months
    as months, though some be missing. A single date says nothing of the next.
    """
    if times.dtype.kind == "M" and len(times) == 1:
        return np.full(steps, "NaT", times.dtype)
    if times.dtype.kind == "M":
        regular = Labels(None, pandas().DatetimeIndex(times)).ahead(steps).index
        if regular is not None:
            return regular.to_numpy()
        days = times.astype("datetime64[D]")
        week = days[-1] - days[0] >= np.timedelta64(7, "D")
        if week and np.is_busday(days).all() and np.median(np.diff(days).astype(int)) == 1:
            return np.busday_offset(days[-1], np.arange(1, steps + 1)).astype(times.dtype)
        for shift in np.array([0, 1], "timedelta64[D]"):  # a day of the month, or the last one
            months = (times + shift).astype("datetime64[M]")
            if len(within := np.unique(times + shift - months)) == 1:
                gap = np.sort(np.diff(months))[(len(times) - 1) // 2]
                later = months[-1] + gap * np.arange(1, steps + 1)
                return later.astype(times.dtype) + within - shift
    gaps = np.sort(np.diff(times))
    gap = gaps[len(gaps) // 2] if len(gaps) else 1
    return times[-1] + gap * np.arange(1, steps + 1)
