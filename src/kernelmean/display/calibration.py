"""Simulation-based calibration: how far ranks are from uniform."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.stats import kstwo

from ..bayes.calibration import Calibration
from .base import Display
from .style import DATA


@dataclass
class CalibrationDisplay(Display):
    """Distribution functions of the ranks of each parameter, less those of uniform ranks.

    Inside the band, which a right posterior leaves with probability 1 − `level`, nothing is seen
    to be wrong. An S that rises first: too narrow; falls first: too wide; a bow: shifted.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> ranks = np.random.default_rng(0).integers(0, 100, size=(200, 2))
    >>> found = km.bayes.Calibration(ranks, 99)
    >>> km.display.CalibrationDisplay.from_calibration(found).excess.shape
    (101, 2)
    """

    shares: np.ndarray
    excess: np.ndarray
    band: float
    names: Sequence[str]

    @classmethod
    def from_calibration(
        cls, found: Calibration, names: Sequence[str] | None = None, level: float = 0.95
    ) -> Self:
        """F(u) − u for shares u of the ranks, and half the width of the band for each parameter."""
        m, p = found.ranks.shape
        shares = np.linspace(0.0, 1.0, found.draws + 2)
        upto = np.arange(found.draws + 2)
        F = [np.searchsorted(np.sort(r), upto) / m for r in found.ranks.T]
        names = [f"theta{j}" for j in range(p)] if names is None else list(names)
        return cls(shares, np.stack(F, axis=1) - shares[:, None], kstwo.ppf(level, m), names)

    def _draw(self, ax) -> None:
        for name, line in zip(self.names, self.excess.T, strict=True):
            ax.plot(self.shares, line, lw=1.5, label=name)
        ax.axhspan(-self.band, self.band, color=DATA, alpha=0.15, lw=0)
        ax.axhline(0, color=DATA, lw=0.5)
        ax.set(xlabel="rank, as a share of the draws", ylabel="too many ranks below")
        ax.legend(frameon=False)
