"""Which model forecasts rows held out best: of the series, of what a line leaves, or the line."""

from dataclasses import dataclass

import numpy as np

from ..chains.em import HeldOut
from ..chains.rows import Rows
from ..core import Saveable, arrays
from ..core.sequences import firsts
from ..densities.standard import clearly
from .lines import CLEAR, Found, normal

SEARCHED = 2000  # rows that starts, bandwidths, guards and models are compared on
DOUBT = 4.0  # standard errors by which states must be better that end where the rows did
STATES, BOTH, ALONE = "states of the series", "states beside the backbone", "the backbone alone"
SAME = 1e-12  # of the mean square of a series: errors are no smaller
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

    At first by the line without states, the plain autoregression, and the row before. All of rows
    that were held out.

    Attributes
    ----------
    found : Found
        The line.
    at : int array of shape (m,)
        Where the rows are among those held out.
    Y, mean : arrays of shape (m, d)
        The series there, and what the line says of it.
    few, left : Rows
        The series, and what the line leaves of it, where states are searched.
    by_errors : bool
        Whether log-likelihoods are those of normal errors, independent between columns: where
        densities are of variates, which are not the same of the series and of what a line leaves.
    entries : dict
        By name: log-likelihoods, (m,), and squared errors, (m, d).
    """

    def __init__(self, rows: Rows, left: Rows, found: Found, alone: HeldOut, by_errors: bool):
        (numbers, self.few), (_, self.left) = (every.stretches(SEARCHED) for every in (rows, left))
        Y, first = arrays.to_numpy(rows.points), firsts(rows.sequences, len(rows.seen))
        self.at = np.flatnonzero((found.usable & rows.seen & ~first)[numbers])
        judged = numbers[self.at]
        self.found, self.Y, self.mean = found, Y[judged], found.mean[judged]
        self.by_errors, self.entries = by_errors, dict[str, tuple[np.ndarray, np.ndarray]]()
        self._enter_left(ALONE, alone)
        for name, off in ((PLAIN, found.plain), (NAIVE, np.diff(Y, axis=0, prepend=Y[:1]))):
            self._enter(name, normal(off[judged], 0.0), off[judged])

    def _enter(self, name: str, loglik: np.ndarray, off: np.ndarray) -> None:
        if self.by_errors:
            least = SAME * float(np.mean(self.Y**2)) + np.finfo(float).tiny
            loglik = np.sum([normal(column[:, None], least) for column in off.T], axis=0)
        self.entries[name] = loglik, off**2

    def _enter_left(self, name: str, held: HeldOut) -> None:
        """A model of the innovations: its rows, as those of the series."""
        line, mean = self.found.line, self.mean + held.mean(self.left)[self.at]
        loglik = held.loglik[self.at] + line.transform.slope(line.transform(self.Y))
        loglik += self.Y.shape[1] * np.log(line.spread)  # of innovations as they were
        self._enter(name, loglik, self.Y - line.transform.mean(mean, line.cov))

    def with_states(self, held: HeldOut) -> bool:
        """Whether states of the series are taken.

        They must be clearly better; where the series does not stay in its range, beyond doubt: they
        end where the rows did.
        """
        self._enter(STATES, held.loglik[self.at], self.Y - held.mean(self.few)[self.at])
        return self._better(STATES, CLEAR if self.found.stays else DOUBT)

    def with_both(self, held: HeldOut) -> bool:
        """Whether states of the innovations help, beyond chance."""
        self._enter_left(BOTH, held)
        return self._better(BOTH, CLEAR)

    def _better(self, name: str, errors: float) -> bool:
        """Whether rows are likelier than by the line alone, by so many standard errors."""
        return clearly(self.entries[name][0] - self.entries[ALONE][0], errors)

    @property
    def rivals(self) -> dict[str, Rival]:
        """What came of it."""
        return {
            name: Rival(float(loglik.mean()), (squares.mean(axis=0) ** 0.5).squeeze().tolist())
            for name, (loglik, squares) in self.entries.items()
        }
