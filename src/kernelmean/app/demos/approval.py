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
from ..report import Block, Fact, Figure, Grid, Note, Numbers, Prose, Section
from ..words import Texts, percent
from . import yours

TITLE = "Approval: an average followed through five polls"
SAY = Texts("approval")
Errors = tuple[float, float, float]  # filtered, smoothed, share inside
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

    def errors(self, truth: np.ndarray) -> Errors:
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


def run(quick: bool) -> Section:
    """Follow the average through the polls, beside a Kalman filter."""
    frame = load_approval()
    z, truth = frame[STATE], frame[STATE][TRAINING:].to_numpy()
    found: dict[str, dict[str, Followed]] = {}
    for what in track([TODAY, BEFORE], description="  learning to follow"):
        X = observations(frame, what)
        with one_thread():
            found[what] = {"kernel": by_kernel(X, z, tune=not quick), "Kalman": by_kalman(X, z)}
    errors = {name: followed.errors(truth) for name, followed in found[BEFORE].items()}
    blocks: list[Block] = [
        Prose(SAY("question", training=TRAINING, n=len(truth))),
        _figure(frame, found[BEFORE]),
        _table(frame, found, truth),
        Numbers(_lines(errors, len(truth))),
        Note(_verdict(errors, quick)),
        Prose(SAY("why")),
        Prose(SAY("source")),
        *yours(
            f"filter approval-past.csv approval-now.csv --state {STATE} "
            f"--observe {','.join(POLLS)} --smooth --level {LEVEL}",
            {"approval-past.csv": frame[:TRAINING], "approval-now.csv": frame[TRAINING:]},
        ),
    ]
    return Section(TITLE, blocks)


def _lines(errors: dict[str, Errors], n: int) -> list[Fact]:
    names = {"kernel": "Kernel Bayes filter", "Kalman": "Kalman filter"}
    inside = SAY("inside", n=n, level=percent(LEVEL))
    lines = [
        (f"{names[name]}: error", f"{filtered:.2f}, smoothed {smoothed:.2f}", SAY("error"))
        for name, (filtered, smoothed, _) in errors.items()
    ]
    return lines + [
        (f"{names[name]}: intervals", f"{percent(share)} inside", inside)
        for name, (*_, share) in errors.items()
    ]


def _table(frame: pd.DataFrame, found: dict, truth: np.ndarray) -> Grid:
    polls = frame[list(POLLS)][TRAINING:].mean(axis=1).to_numpy()
    rows = [["Mean of the five polls", f"{rmse(polls, truth):.3f}", "", ""]]
    for what, filters in found.items():
        line = by_line(observations(frame, what), frame[STATE])
        rows.append([f"Straight line, {what}", f"{rmse(line, truth):.3f}", "", ""])
        for name, followed in filters.items():
            filtered, smoothed, share = followed.errors(truth)
            label = f"{name[0].upper()}{name[1:]} filter, {what}"
            rows.append([label, f"{filtered:.3f}", f"{smoothed:.3f}", percent(share)])
    header = ["", "error", "smoothed", f"in {percent(LEVEL)} interval"]
    return Grid(header, rows, "Root mean squared errors in points of approval, days 601 to 1001")


def _verdict(errors: dict[str, Errors], quick: bool) -> str:
    """Who won, whoever it was."""
    words, (ours, theirs) = [], (errors[name] for name in ("kernel", "Kalman"))
    for k, kind in enumerate(("filtering", "smoothing")):
        more = 100 * (ours[k] / theirs[k] - 1)
        side = "above" if more > 0 else "below"
        words.append(SAY("verdict", kind=kind, more=abs(more), side=side))
    shares = {"ours": percent(ours[2]), "theirs": percent(theirs[2])}
    words.append(SAY("intervals", level=percent(LEVEL), **shares))
    return " ".join([*words, SAY("quick")] if quick else words)


def _figure(frame: pd.DataFrame, best: dict[str, Followed]) -> Figure:
    after = frame[TRAINING:]
    display = TrackDisplay.from_result(
        best["kernel"].result,
        after[STATE],
        observations=after[list(POLLS)],
        level=LEVEL,
        times=after.index,
    )

    def plot(axes: Any) -> None:
        kalman = best["Kalman"].filtered
        axes.plot(after.index, kalman, "--", color=PLAIN, lw=1.3, label="Kalman filter")
        display.plot(axes, label="kernel filter")
        axes.set(xlabel="", ylabel="approval, percent", ylim=(36.5, 46.5))

    return Figure("approval", SAY("track", level=percent(LEVEL)), plot, 4.2)
