"""Approval of a president: an average of many polls, followed through five of them."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd

from ...core.extras import require
from ..report import Block, Grid
from ..series import rmse
from ..words import Texts, percent
from .job import Job, Tables

SAY = Texts("approval")
STATE = "average"
POLLS = ["gallup", "ipsos", "morning_consult", "rasmussen", "you_gov"]
SEEN = [*POLLS, *(f"{poll}_before" for poll in POLLS)]
TRAINING = 600  # days, of 1001
WEEK = 7
WIDE = 1.96  # standard deviations on either side


def tables() -> Tables:
    """One row a day: the average, five polls, and the five of a week before."""
    how = 'pip install "kernelmean[app]"'
    river = require("river.datasets", "the approval series", how)
    frame = pd.read_csv(river.TrumpApproval().path)
    days = [date.fromordinal(int(d)) for d in frame["ordinal_date"]]
    polls = frame[POLLS].join(frame[POLLS].shift(WEEK).bfill().add_suffix("_before"))
    polls.insert(0, "day", days)
    polls.insert(1, STATE, frame["five_thirty_eight"])
    return {"polls-past.csv": polls[:TRAINING], "polls-new.csv": polls[TRAINING:]}


def beside(made: Tables) -> list[Block]:
    """The mean of the polls, a straight line from them, and a Kalman filter."""
    past, now = made.values()
    truth = now[STATE].to_numpy()
    centre, middle = past[SEEN].mean(), past[STATE].mean()
    slopes = np.linalg.lstsq(past[SEEN] - centre, past[STATE] - middle, rcond=None)[0]
    line = middle + (now[SEEN] - centre).to_numpy() @ slopes
    filtered, smoothed, sd = kalman(past, now)
    inside = percent((np.abs(filtered - truth) <= WIDE * sd).mean())
    rows = [
        ["Mean of the five polls", _error(now[POLLS].mean(axis=1), truth), "", ""],
        ["Straight line", _error(line, truth), "", ""],
        ["Kalman filter", _error(filtered, truth), _error(smoothed, truth), inside],
    ]
    header = ["RMSE", "filtered", "smoothed", "filtered in 95%"]
    return [Grid(header, rows, SAY("rivals", n=len(now)))]


def _error(found: pd.Series | np.ndarray, truth: np.ndarray) -> str:
    return f"{rmse(np.asarray(found), truth):.3f}"


def kalman(past: pd.DataFrame, now: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, float]:
    """z' = a z + noise, x = c z + noise by least squares: filtered, smoothed, deviation."""
    from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

    middle, centre = past[STATE].mean(), past[SEEN].mean()
    X, z = (past[SEEN] - centre).to_numpy(), past[STATE].to_numpy() - middle
    a = z[:-1] @ z[1:] / (z[:-1] @ z[:-1])
    c = X.T @ z / (z @ z)
    model = KalmanSmoother(
        k_endog=len(c),
        k_states=1,
        design=c[:, None],
        obs_cov=np.atleast_2d(np.cov((X - np.outer(z, c)).T)),
        transition=[[a]],
        selection=[[1.0]],
        state_cov=[[np.var(z[1:] - a * z[:-1])]],
    )
    model.bind(np.ascontiguousarray((now[SEEN] - centre).to_numpy()))
    model.initialize_known(np.zeros(1), np.array([[z.var()]]))
    found = model.smooth()
    mean, last = found.filtered_state[0] + middle, found.filtered_state_cov[0, 0, -1]
    return mean, found.smoothed_state[0] + middle, float(last**0.5)


JOB = Job(
    "approval",
    "Approval: an average followed through five polls",
    tables,
    f"filter polls-past.csv polls-new.csv --state {STATE} --observe {','.join(SEEN)} --smooth",
    ["track-0", "How far from the truth"],
    beside,
)
