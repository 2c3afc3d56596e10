"""States followed over time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ..core.arrays import to_numpy
from ..core.checks import as_points, check_columns, check_lengths
from ..core.sequences import check_sequences
from ..filtering.results import FilterResult
from .base import Display, TimePanels, as_times
from .style import CURVE, DATA, GAP, PLAIN, TRUTH, in_legend, legend_above, time_axis


@dataclass
class _Followed:
    """What was followed: when, where nothing was learned, and what the states are called."""

    times: np.ndarray
    missing: np.ndarray
    collapsed: np.ndarray
    names: list[str]
    level: float
    sequences: list[slice]
    from_result: ClassVar[Callable[..., Any]]

    @classmethod
    def from_estimator(cls, estimator, X, truth=None, *, smooth: bool = False, **options) -> Any:
        """Filter (or smooth) the observations `X`, and show the result.

        Parameters
        ----------
        estimator : fitted KernelBayesFilter
        X : array or DataFrame of shape (n, d_x)
        truth, **options
            As for `from_result`.
        smooth : bool
        """
        result = (estimator.smooth if smooth else estimator.filter)(X, options.get("lengths"))
        return cls.from_result(result, truth, **options)

    @classmethod
    def _of(cls, result: FilterResult, level: float, times, lengths, **own) -> Any:
        n, d = result.mean().shape
        names = result.labels.columns or [f"state {j}" if d > 1 else "state" for j in range(d)]
        followed = as_times(times, n), result.missing, result.collapsed, list(names), level
        return cls(*followed, check_sequences(lengths, n), **own)

    def _shade_gaps(self, axes) -> None:
        """Columns behind the steps at which nothing was learned."""
        for s in self.sequences:
            silent = np.flatnonzero((self.missing | self.collapsed)[s])
            edges = _edges(self.times[s])
            for run in np.split(silent, np.flatnonzero(np.diff(silent) > 1) + 1):
                if len(run):
                    ends = edges[run[0]], edges[run[-1] + 1]
                    axes.axvspan(*ends, color=GAP, lw=0, zorder=0, label="no news")


@dataclass
class TrackDisplay(_Followed, TimePanels):
    """A state followed over time: mean and interval at each step, one panel per state.

    Shaded columns are steps without news: missing observations, and (marked ×) observations
    unlike any seen in training. In both the prediction is shown. `plot(label=…)` says what the
    means are called in the legend.

    Attributes
    ----------
    times : array of shape (n,)
    mean, lower, upper : arrays of shape (n, d_z)
    missing, collapsed : bool arrays of shape (n,)
    truth : array of shape (n, d_z), or None
    observations : array of shape (n, k), or None
    names : list of str
    level : float
    sequences : list of slice
        Rows of each trajectory; no line crosses from one to the next.

    Examples
    --------
    >>> import kernelmean as km
    >>> train, test = (km.datasets.make_rotation(200, random_state=seed) for seed in (0, 1))
    >>> model = km.KernelBayesFilter().fit(train.X, train.Z)
    >>> display = km.display.TrackDisplay.from_estimator(model, test.X, test.Z)
    >>> display.mean.shape, bool((display.lower <= display.upper).all())
    ((200, 2), True)
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    truth: np.ndarray | None = None
    observations: np.ndarray | None = None
    each = "one per state"

    @classmethod
    def from_result(
        cls,
        result: FilterResult,
        truth=None,
        *,
        observations=None,
        level: float = 0.95,
        times=None,
        lengths=None,
    ) -> Self:
        """Show what `KernelBayesFilter.filter` or `smooth` returned.

        Parameters
        ----------
        result : FilterResult
        truth : array of shape (n,) or (n, d_z), optional
            The states themselves; NaN where unknown.
        observations : array of shape (n,) or (n, k), optional
            Drawn as dots: all columns beside a single state, else column j beside state j.
        level : float
            Of the interval.
        times : array of shape (n,), optional
            Numbers or dates for the horizontal axis; None counts the rows.
        lengths : sequence of int, optional
            Rows of each trajectory.
        """
        lower, upper = (to_numpy(end) for end in result.interval(level))
        n, d = lower.shape
        seen = _beside(observations, "observations", n, d if d > 1 else None)
        track = {"mean": to_numpy(result.mean()), "lower": lower, "upper": upper}
        beside = {"truth": _beside(truth, "truth", n, d), "observations": seen}
        return cls._of(result, level, times, lengths, **track, **beside)

    def _draw(self, axes, j: int, label: str = "mean") -> None:
        self._shade_gaps(axes)
        if self.observations is not None:
            columns = self.observations if len(self.names) == 1 else self.observations[:, [j]]
            kept = ~self.collapsed  # a spike of 1e6 would leave the rest of the panel flat
            dots = {"color": DATA, "ms": 3, "alpha": 0.4, "mew": 0, "label": "observed"}
            axes.plot(self.times[kept], columns[kept], ".", **dots)
        inside = {"color": CURVE, "alpha": 0.2, "lw": 0, "label": f"{100 * self.level:g}% interval"}
        for s in self.sequences:
            t = self.times[s]
            axes.fill_between(t, self.lower[s, j], self.upper[s, j], **inside)
            if self.truth is not None:
                axes.plot(t, self.truth[s, j], color=TRUTH, lw=1.2, label="truth")
            axes.plot(t, self.mean[s, j], color=CURVE, lw=1.8, label=label)
        lost = self.collapsed
        if lost.any():
            axes.plot(self.times[lost], self.mean[lost, j], "x", color=PLAIN, label="collapsed")


@dataclass
class SpreadDisplay(_Followed, Display):
    """How much is known of each state at each step: the width of its interval.

    Drawn as a share of the width of the same interval over all training states, so that states
    in different units share a panel: near 0 the state is known, at 1 the observations so far
    have told nothing. `plot(label=…)` puts a word before the names of the states in the legend;
    other keywords are passed on to `Axes.plot`.

    Attributes
    ----------
    times : array of shape (n,)
    width : array of shape (n, d_z)
    reference : array of shape (d_z,)
        The width of the interval over the training states.
    missed : bool array of shape (n, d_z), or None
        Where the truth is outside of the interval; drawn as ×.
    missing, collapsed : bool arrays of shape (n,)
    names : list of str
    level : float
    sequences : list of slice

    Examples
    --------
    >>> import kernelmean as km
    >>> train, test = (km.datasets.make_rotation(200, random_state=seed) for seed in (0, 1))
    >>> result = km.KernelBayesFilter().fit(train.X, train.Z).filter(test.X)
    >>> display = km.display.SpreadDisplay.from_result(result)
    >>> bool((display.width < display.reference).all())
    True
    """

    width: np.ndarray
    reference: np.ndarray
    missed: np.ndarray | None = None

    @classmethod
    def from_result(
        cls, result: FilterResult, truth=None, *, level: float = 0.95, times=None, lengths=None
    ) -> Self:
        """Show the spread of what `KernelBayesFilter.filter` or `smooth` returned.

        Parameters
        ----------
        result : FilterResult
        truth, level, times, lengths
            As for `TrackDisplay.from_result`.
        """
        lower, upper = (to_numpy(end) for end in result.interval(level))
        low, high = (to_numpy(end) for end in result.machine.everywhere().interval(level))
        truth = _beside(truth, "truth", *lower.shape)
        missed = None if truth is None else (truth < lower) | (truth > upper)
        spread = {"width": upper - lower, "reference": high - low, "missed": missed}
        return cls._of(result, level, times, lengths, **spread)

    def _draw(self, ax, label: str | None = None, **line) -> None:
        self._shade_gaps(ax)
        # a constant state has no width to compare with
        shares = self.width / np.where(self.reference > 0, self.reference, 1.0)
        for j, name in enumerate(self.names):
            style = {"color": f"C{j}" if len(self.names) > 1 else CURVE, "lw": 1.5, **line}
            shown = name if label is None else f"{label}, {name}"
            for s in self.sequences:
                ax.plot(self.times[s], shares[s, j], label=in_legend(shown), **style)
            if self.missed is not None:
                lost = self.missed[:, j]
                ax.plot(self.times[lost], shares[lost, j], "x", color=TRUTH, label="truth outside")
        ax.axhline(1.0, color=DATA, lw=0.8, ls=":")
        ax.set_ylabel(f"relative width of the {100 * self.level:g}% interval")
        time_axis(ax, self.times)
        ax.set_ylim(bottom=0)
        legend_above(ax)


def _edges(times: np.ndarray) -> np.ndarray:
    """Where the column of each step begins, and where the last one ends."""
    half = np.diff(times) / 2 if len(times) > 1 else np.diff(times, prepend=times[:1])
    between = times[:-1] + half[: len(times) - 1]
    return np.concatenate([times[:1] - half[:1], between, times[-1:] + half[-1:]])


def _beside(values, name: str, n: int, columns: int | None) -> np.ndarray | None:
    """Optional values at each step, as (n, columns); NaN means unknown."""
    if values is None:
        return None
    values = to_numpy(as_points(values, name, gaps=True))
    check_lengths(n, len(values), "the track", name)
    if columns is not None:
        check_columns(values, columns, name, "the track")
    return values
