"""Approval of a president: an average of many polls, followed through five of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from ...core.progress import track
from ...core.threads import one_thread
from ...display import PLAIN, TrackDisplay
from ...features.landmarks import Nystroem
from ...filtering.kernel_bayes_filter import KernelBayesFilter
from ..page import Figure, Grid, Note, Numbers, Prose, Section, canvas
from .job import Job, Result

STATE = "five_thirty_eight"
POLLS = {
    "gallup": "Gallup",
    "ipsos": "Ipsos",
    "morning_consult": "Morning Consult",
    "rasmussen": "Rasmussen",
    "you_gov": "YouGov",
}
TRAINING = 600  # days, of 1001
WEEK = 7
LEVEL, NORMAL = 0.9, 1.645  # of the intervals; half their width in standard deviations
TODAY, BEFORE = "the polls of the day", "those of a week before too"


def load_approval() -> pd.DataFrame:
    """Approval of Donald Trump in percent, day by day: FiveThirtyEight's average and five polls."""
    try:
        from river.datasets import TrumpApproval
    except ImportError as err:
        raise ImportError(
            'the approval series comes with the package river: pip install "kernelmean[app]"'
        ) from err
    frame = pd.read_csv(TrumpApproval().path)
    days = pd.DatetimeIndex([date.fromordinal(int(d)) for d in frame["ordinal_date"]], name="day")
    return frame.set_index(days)[[STATE, *POLLS]]


@dataclass(frozen=True)
class Followed:
    """A state followed through the days after training.

    Attributes
    ----------
    filtered, smoothed : array of shape (n,)
    lower, upper : array of shape (n,)
        Interval of the filtered state.
    result : FilterResult, optional
        Of the kernel Bayes filter.
    """

    filtered: np.ndarray
    smoothed: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    result: Any = None

    def errors(self, truth: np.ndarray) -> tuple[float, float, float]:
        """RMSE filtered and smoothed, and the share of the truth inside the intervals."""
        inside = (self.lower <= truth) & (truth <= self.upper)
        return rmse(self.filtered, truth), rmse(self.smoothed, truth), float(inside.mean())


def rmse(found: np.ndarray, truth: np.ndarray) -> float:
    """Root mean squared error."""
    return float(np.sqrt(np.mean((found - truth) ** 2)))


def observations(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    """The columns observed, in units of their standard deviation over the days of training."""
    polls = frame[list(POLLS)]
    if what == BEFORE:
        polls = polls.join(polls.shift(WEEK).bfill().add_suffix(", a week before"))
    return polls / polls[:TRAINING].std()


def by_kernel(X: pd.DataFrame, z: pd.Series, tune: bool) -> Followed:
    """The kernel Bayes filter, tuned by following the last 120 days of training."""
    past, now, known = X[:TRAINING], X[TRAINING:], z[:TRAINING]
    model = KernelBayesFilter(features=Nystroem(tol=1e-2))  # the coarse map makes tuning quick
    model = model.tune(past, known) if tune else model.fit(past, known)
    filtered, smoothed = model.filter(now), model.smooth(now)
    lower, upper = (end[:, 0] for end in filtered.interval(LEVEL))
    return Followed(filtered.mean()[:, 0], smoothed.mean()[:, 0], lower, upper, filtered)


def by_kalman(X: pd.DataFrame, z: pd.Series) -> Followed:
    """The linear filter z' = a z + noise, x = c z + noise, by least squares on the same days."""
    from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

    middle, centre = float(z[:TRAINING].mean()), X[:TRAINING].mean()
    past, known = (X[:TRAINING] - centre).to_numpy(), z[:TRAINING].to_numpy() - middle
    a = known[:-1] @ known[1:] / (known[:-1] @ known[:-1])
    c = past.T @ known / (known @ known)
    model = KalmanSmoother(
        k_endog=len(c),
        k_states=1,
        design=c[:, None],
        obs_cov=np.atleast_2d(np.cov((past - np.outer(known, c)).T)),
        transition=[[a]],
        selection=[[1.0]],
        state_cov=[[np.var(known[1:] - a * known[:-1])]],
    )
    model.bind(np.ascontiguousarray((X[TRAINING:] - centre).to_numpy()))
    model.initialize_known(np.zeros(1), np.array([[known.var()]]))
    found = model.smooth()
    mean, half = found.filtered_state[0] + middle, NORMAL * np.sqrt(found.filtered_state_cov[0, 0])
    return Followed(mean, found.smoothed_state[0] + middle, mean - half, mean + half)


def by_line(X: pd.DataFrame, z: pd.Series) -> np.ndarray:
    """Least squares from the observations of the day alone."""
    centre, middle = X[:TRAINING].mean(), z[:TRAINING].mean()
    past, known = X[:TRAINING] - centre, z[:TRAINING] - middle
    slopes = np.linalg.lstsq(past.to_numpy(), known.to_numpy(), rcond=None)[0]
    return middle + (X[TRAINING:] - centre).to_numpy() @ slopes


# ---------------------------------------------------------------- the job


def run(quick: bool) -> Result:
    """Follow the average through the polls, beside a Kalman filter."""
    frame = load_approval()
    z, truth = frame[STATE], frame[STATE][TRAINING:].to_numpy()
    found: dict[str, dict[str, Followed]] = {}
    for what in track([TODAY, BEFORE], description="  learning to follow"):
        X = observations(frame, what)
        with one_thread():
            found[what] = {"Kalman": by_kalman(X, z), "kernel": by_kernel(X, z, tune=not quick)}
    lines = _lines(found[BEFORE], truth)
    pairs = [(name, value) for name, value, _ in lines]
    return Result(pairs, _section(frame, found, truth, lines, quick))


def _lines(best: dict[str, Followed], truth: np.ndarray) -> list[tuple[str, str, str]]:
    names = {"kernel": "Kernel Bayes filter", "Kalman": "Kalman filter"}
    errors = {name: best[key].errors(truth) for key, name in names.items()}
    of = "Filtered, then smoothed: root mean squared error in points of approval"
    inside = f"Share of the {len(truth)} days inside the filter's {100 * LEVEL:.0f}% intervals"
    return [
        *(
            (f"{name}: error", f"{filtered:.2f}, smoothed {smoothed:.2f}", f"{of}, with {BEFORE}.")
            for name, (filtered, smoothed, _) in errors.items()
        ),
        *(
            (f"{name}: intervals", f"{100 * share:.0f}% inside", f"{inside}.")
            for name, (*_, share) in errors.items()
        ),
    ]


def _section(
    frame: pd.DataFrame, found: dict, truth: np.ndarray, lines: list, quick: bool
) -> Section:
    return Section(
        "Approval: an average followed through five polls",
        [
            Prose(
                "FiveThirtyEight's average of the polls on a president weighs hundreds of them. "
                f"How much of it can be had from five? For the first {TRAINING} days both are in "
                "sight, and a filter learns how the average moves and what the polls look like at "
                f"each of its values; on the {len(truth)} days after, it sees the polls alone."
            ),
            _figure(frame, found[BEFORE]),
            _table(frame, found, truth),
            Numbers(lines),
            Note(_verdict(found, truth, quick)),
            Prose(
                "Pollsters repeat a number until they have a new one, so yesterday's error is "
                "today's. Neither filter knows that: both take every day's error for a new one, "
                "and believe too much. With the polls of a week before beside today's they can see "
                "that a number is old, and both gain. (A Kalman filter made for lasting errors, "
                "with one per poll among its states, filters better still, 0.61 from the polls of "
                "the day, and smooths to 0.67.) The number of days, the week and the settings of "
                "the kernels were chosen on the days of training alone; the tolerance of the "
                "landmarks was made coarser, for speed, after the days that follow had been seen."
            ),
            Prose(
                "Daily figures from 1 March 2017 to 26 November 2019, put together from "
                "FiveThirtyEight's file by the package river (`river.datasets.TrumpApproval`)."
            ),
        ],
    )


def _table(frame: pd.DataFrame, found: dict, truth: np.ndarray) -> Grid:
    polls = frame[list(POLLS)][TRAINING:].mean(axis=1).to_numpy()
    rows = [["Mean of the five polls", f"{rmse(polls, truth):.3f}", "", ""]]
    for what, filters in found.items():
        line = by_line(observations(frame, what), frame[STATE])
        rows.append([f"Straight line, {what}", f"{rmse(line, truth):.3f}", "", ""])
        for name, followed in filters.items():
            filtered, smoothed, share = followed.errors(truth)
            label = f"{name[0].upper()}{name[1:]} filter, {what}"
            rows.append([label, f"{filtered:.3f}", f"{smoothed:.3f}", f"{100 * share:.0f}%"])
    header = ["", "error", "smoothed", f"in {100 * LEVEL:.0f}% interval"]
    return Grid(header, rows, "Root mean squared errors in points of approval, days 601 to 1001")


def _verdict(found: dict, truth: np.ndarray, quick: bool) -> str:
    """Who won, whoever it was."""
    words = []
    for k, kind in enumerate(("filtering", "smoothing")):
        ours, theirs = (found[BEFORE][name].errors(truth)[k] for name in ("kernel", "Kalman"))
        more = 100 * (ours / theirs - 1)
        words.append(
            f"In {kind}, the error of the kernel filter is {abs(more):.0f}% "
            f"{'above' if more > 0 else 'below'} that of the Kalman filter."
        )
    shares = (found[BEFORE][name].errors(truth)[2] for name in ("kernel", "Kalman"))
    ours, theirs = (f"{100 * share:.0f}%" for share in shares)
    words.append(
        f"Its {100 * LEVEL:.0f}% intervals hold {ours} of the days, the Kalman filter's {theirs}. "
        "Polls and approval are nearly linear in each other, which is the Kalman filter's home."
    )
    if quick:
        words.append("This was a quick run: the kernel filter has not been tuned.")
    return " ".join(words)


def _figure(frame: pd.DataFrame, best: dict[str, Followed]) -> Figure:
    drawing, axes = canvas(height=4.2)
    after = frame[TRAINING:]
    axes.plot(
        after.index, best["Kalman"].filtered, "--", color=PLAIN, lw=1.3, label="Kalman filter"
    )
    display = TrackDisplay.from_result(
        best["kernel"].result,
        after[STATE],
        observations=after[list(POLLS)],
        level=LEVEL,
        times=after.index,
    )
    display.plot(axes, label="kernel filter")
    axes.set(xlabel="", ylabel="approval, percent", ylim=(36.5, 46.5))
    caption = (
        "The average of the polls (black) on the days that were not learned from, what the filters "
        f"made of five polls and their values a week before, and the kernel filter's "
        f"{100 * LEVEL:.0f}% interval. Dots: the five polls; a few lie outside the frame."
    )
    return Figure(drawing, caption, "approval")


JOB = Job("Approval: an average followed through five polls", run)
