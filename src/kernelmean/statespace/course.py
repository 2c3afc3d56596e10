"""Observations beside their backbone: what states are filtered from, and what is added again."""

import numpy as np

from ..chains.model import FittedChain
from ..chains.rows import Rows
from ..core import arrays
from .backbone import FittedBackbone, PastState


class Course:
    """A series along its backbone. What the states say of a missing row is what it is taken for.

    Attributes
    ----------
    rows : Rows
        Of the innovations; not seen where the past is not known well enough for one.
    line : FittedBackbone
    track : Track
    Z : array of shape (n, d)
        The series, transformed; NaN where it is missing.
    """

    def __init__(self, chain: FittedChain, line: FittedBackbone, rows: Rows):
        self.line, seen = line, rows.seen
        Y, gaps = arrays.to_numpy(rows.points), rows.missing
        self.Z = line.transform.along(np.where(gaps, np.nan, Y))
        self.track = line.track(self.Z, seen, rows.sequences, rows.inputs)
        self.rows = self._left(rows)
        if not seen.all():
            gaps = chain.predicted(self.rows) @ arrays.to_numpy(chain.emissions.mean())
            self.track = line.track(self.Z, seen, rows.sequences, rows.inputs, gaps)
            self.rows = self._left(rows)

    def _left(self, rows: Rows) -> Rows:
        """The innovations."""
        gaps = np.isnan(self.Z) | ~self.line.settled(self.track.wide)[:, None]
        points = arrays.like(np.nan_to_num(self.Z - self.track.mean), rows.points)
        return Rows.of(points, ~gaps.any(axis=1), rows.sequences, gaps)

    @property
    def extra(self) -> np.ndarray:
        """Variances of what is not known of the line, (n, d)."""
        return np.diagonal(self.track.wide, axis1=1, axis2=2)

    def ahead(self, chain: FittedChain, states: np.ndarray, inputs=None) -> tuple:
        """Means and variances that a line adds to the laws of innovations in steps to come.

        `states` are probabilities of the K states at each step, (sequences, steps, K).
        """
        count, steps, _ = states.shape
        known = [None] * count if inputs is None else inputs.reshape(count, steps, -1)
        each = zip(self.track.last, states, known, strict=True)
        found = [ahead(self.line, past, chain, p, x) for past, p, x in each]
        return tuple(np.concatenate(part) for part in zip(*found, strict=True))


def ahead(line: FittedBackbone, past: PastState, chain: FittedChain, p, inputs) -> tuple:
    """Shift and extra variance of steps after a state, for the innovations of a chain.

    Both are exact: the covariance of the line's state and the innovation of a step follows from
    E[state − its mean; node], which is carried on beside the covariance of the state.
    """
    steps, d = len(p), len(line.cov)
    means = arrays.to_numpy(chain.emissions.mean())
    expected = p @ means
    known = line.known(past.time + np.arange(steps), inputs)
    shift = line.onward(past.mean[None], (known + expected)[None])[0] - expected
    widths = 0.0 if chain.spread is None else np.asarray(chain.spread)
    own = arrays.to_numpy(chain.mixture(p).cov()) + widths**2 * np.eye(d)
    extra, cov, apart = np.empty((steps, d)), past.cov, np.zeros((len(means), len(past.cov)))
    for h in range(steps):
        off = means - expected[h]
        joint = apart.T @ off
        extra[h] = np.diag(cov)[:d] + 2 * np.diag(joint[:d])
        turned = line.unseen @ joint @ line.gain.T
        cov = line.unseen @ cov @ line.unseen.T + turned + turned.T
        cov += line.gain @ own[h] @ line.gain.T
        moved = apart @ line.unseen.T + p[h, :, None] * off @ line.gain.T
        apart = chain.chain.transmat.T @ moved
    constant = np.zeros((d, steps, d))
    constant[:, 1:] = line.doubt[:, None]  # of the first step innovations left out tell it all
    unsure = line.onward(np.zeros((d, *past.mean.shape)), constant)
    return shift, np.maximum(extra, 0.0) + (unsure**2).sum(axis=0)
