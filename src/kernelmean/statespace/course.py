"""Observations beside their backbone: what states are filtered from, and what is added again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..chains.model import FittedChain
from ..chains.rows import Rows
from ..core import arrays
from .backbone import FittedBackbone, PastState, Track


@dataclass(frozen=True)
class Course:
    """A series along its backbone.

    Attributes
    ----------
    rows : Rows
        Of the innovations; not seen where the past is not known well enough for one.
    line : FittedBackbone
    track : Track
    Z : array of shape (n, d)
        The series, transformed.
    seen : bool array of shape (n,)
        Rows of the series that are there.
    """

    rows: Rows
    line: FittedBackbone
    track: Track
    Z: np.ndarray
    seen: np.ndarray

    @classmethod
    def of(cls, chain: FittedChain, line: FittedBackbone, rows: Rows, inputs=None) -> Course:
        """Along observations. What the states say of a missing row is what it is taken for."""
        Y, seen = arrays.to_numpy(rows.points), rows.seen
        Z = np.zeros_like(Y)
        if seen.any():
            Z[seen] = line.transform.along(Y[seen])
        track = line.track(Z, seen, rows.sequences, inputs)
        if not seen.all():
            before = chain.predicted(left(line, track, Z, rows))
            gaps = before @ arrays.to_numpy(chain.emissions.mean())
            track = line.track(Z, seen, rows.sequences, inputs, gaps)
        return cls(left(line, track, Z, rows), line, track, Z, seen)

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


def left(line: FittedBackbone, track: Track, Z: np.ndarray, rows: Rows) -> Rows:
    """The innovations."""
    usable = rows.seen & line.settled(track.wide)
    return Rows.of(arrays.like(Z - track.mean, rows.points), usable, rows.sequences)


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
    return shift, np.maximum(extra, 0.0)
