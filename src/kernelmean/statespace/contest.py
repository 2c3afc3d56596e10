"""Which model forecasts rows held out best: of the series, of what a line leaves, or the line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..chains.em import HeldOut
from ..chains.rows import Rows
from ..core import arrays
from ..core.saving import Saveable
from .lines import CLEAR, Found, clear, normal

AWAY = 0.1  # nats a row by which EM's starts may be behind, and still win
DOUBT = 4.0  # standard errors by which states must be better that end where the rows did
STATES, BOTH, ALONE = "states of the series", "states beside the backbone", "the backbone alone"
PLAIN, NAIVE = "autoregression by AIC", "no change"


@dataclass(frozen=True)
class Rival(Saveable):
    """How well a model forecasts rows that it has not seen.

    Attributes
    ----------
    loglik : float
        Mean log-likelihood of a row.
    rmse : float
        Root mean square of its errors, over all columns.
    """

    loglik: float
    rmse: float


@dataclass(frozen=True)
class Contest:
    """Log-likelihoods of the rows that all can be judged by, and forecasts of them.

    Attributes
    ----------
    found : Found
        The line.
    Y : array of shape (n, d)
        The series.
    judged : int array
        The rows.
    at : int array
        Where these are among those held out.
    entries : dict
        By name: log-likelihoods, (m,), and squared errors, (m, d).
    """

    found: Found
    Y: np.ndarray
    judged: np.ndarray
    at: np.ndarray
    entries: dict[str, tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, rows: Rows, found: Found, numbers: np.ndarray, alone: HeldOut) -> Contest:
        """The line without states, the plain autoregression, and the row before.

        Of the rows of these `numbers`, which were held out.
        """
        Y = arrays.to_numpy(rows.points)
        inner = np.ones(len(Y), dtype=bool)
        inner[[s.start for s in rows.sequences]] = False
        at = np.flatnonzero((found.usable & rows.seen & inner)[numbers])
        contest = cls(found, Y, numbers[at], at, {})
        contest._enter_left(ALONE, alone)
        for name, off in ((PLAIN, found.plain), (NAIVE, np.diff(Y, axis=0, prepend=Y[:1]))):
            off = off[contest.judged]
            contest.entries[name] = normal(off, 0.0), off**2
        return contest

    def _enter_left(self, name: str, held: HeldOut) -> None:
        """A model of the innovations: its rows, as those of the series."""
        line, Y, mean = self.found.line, self.Y[self.judged], self.found.track.mean[self.judged]
        change = line.transform
        loglik = held.loglik[self.at] + change.slope(change(Y))
        self.entries[name] = loglik, (Y - change.mean(mean + held.mean[self.at], line.cov)) ** 2

    @property
    def hopeless(self) -> float:
        """Mean log-likelihood of a start of EM that will not be better than the line alone."""
        return float(self.entries[ALONE][0].mean()) - AWAY

    def with_states(self, held: HeldOut) -> bool:
        """Whether states of the series are taken.

        They must be clearly better; where the series does not stay in its range, beyond doubt: they
        end where the rows did.
        """
        squares = (self.Y[self.judged] - held.mean[self.at]) ** 2
        self.entries[STATES] = held.loglik[self.at], squares
        return self._better(STATES, CLEAR if self.found.stays else DOUBT)

    def with_both(self, held: HeldOut) -> bool:
        """Whether states of the innovations help, beyond chance."""
        self._enter_left(BOTH, held)
        return self._better(BOTH, CLEAR)

    def _better(self, name: str, errors: float) -> bool:
        """Whether rows are likelier than by the line alone, by so many standard errors."""
        return clear(self.entries[name][0] - self.entries[ALONE][0], errors)

    @property
    def rivals(self) -> dict[str, Rival]:
        """What came of it."""
        return {
            name: Rival(float(loglik.mean()), float(squares.mean() ** 0.5))
            for name, (loglik, squares) in self.entries.items()
        }
