"""Which model forecasts rows held out best: of the series, of what a line leaves, or the line."""

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
    rmse : float, or list of float
        Root mean square of its errors; of several columns that of each.
    """

    loglik: float
    rmse: float | list[float]


class Contest:
    """Log-likelihoods of the rows that all can be judged by, and forecasts of them.

    At first by the line without states, the plain autoregression, and the row before. All of the
    rows of these `numbers`, which were held out.

    Attributes
    ----------
    found : Found
        The line.
    at : int array of shape (m,)
        Where the rows are among those held out.
    Y, mean : arrays of shape (m, d)
        The series there, and what the line says of it.
    entries : dict
        By name: log-likelihoods, (m,), and squared errors, (m, d).
    """

    def __init__(self, rows: Rows, found: Found, numbers: np.ndarray, alone: HeldOut):
        Y, inner = arrays.to_numpy(rows.points), np.ones(len(rows.seen), dtype=bool)
        inner[[s.start for s in rows.sequences]] = False
        self.at = np.flatnonzero((found.usable & rows.seen & inner)[numbers])
        judged = numbers[self.at]
        self.found, self.Y, self.mean = found, Y[judged], found.mean[judged]
        self.entries: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._enter_left(ALONE, alone)
        for name, off in ((PLAIN, found.plain), (NAIVE, np.diff(Y, axis=0, prepend=Y[:1]))):
            self.entries[name] = normal(off[judged], 0.0), off[judged] ** 2

    def _enter_left(self, name: str, held: HeldOut) -> None:
        """A model of the innovations: its rows, as those of the series."""
        line, mean = self.found.line, self.mean + held.mean[self.at]
        loglik = held.loglik[self.at] + line.transform.slope(line.transform(self.Y))
        self.entries[name] = loglik, (self.Y - line.transform.mean(mean, line.cov)) ** 2

    @property
    def hopeless(self) -> float:
        """Mean log-likelihood of a start of EM that will not be better than the line alone."""
        return float(self.entries[ALONE][0].mean()) - AWAY

    def with_states(self, held: HeldOut) -> bool:
        """Whether states of the series are taken.

        They must be clearly better; where the series does not stay in its range, beyond doubt: they
        end where the rows did.
        """
        self.entries[STATES] = held.loglik[self.at], (self.Y - held.mean[self.at]) ** 2
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
            name: Rival(float(loglik.mean()), (squares.mean(axis=0) ** 0.5).squeeze().tolist())
            for name, (loglik, squares) in self.entries.items()
        }
