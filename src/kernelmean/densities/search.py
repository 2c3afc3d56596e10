"""Search for the bandwidth, the lengthscales and λ of a conditional density, by its score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ..core.checks import hushed
from ..core.minimise import descend, largest, minimise_log10
from ..features.landmarks import Nystroem
from ..kernels import Kernel
from ..regression.lengthscales import SCALE_DECADES, Scaled, best_tie, tied
from ..regression.smoother import Smoother
from .bandwidth import FIRST, with_bandwidth
from .score import COARSE, MOST, DensityScore, Target, density_loss, held_out_score

ROUNDS = 4  # each chooses landmarks and the bandwidth afresh
STEPS = 20  # of L-BFGS in a round
RANK = 150  # landmarks of the search
REGS = (-7.0, 2.0)  # of log10 λ
START = -3.0
LATER = 0.25  # then around the last one
PRECISION = 3e-3  # in the logarithm of the bandwidth
BANDWIDTH_STEP = 10**0.05  # towards larger bandwidths


@dataclass
class DensitySearch:
    """Scales of the lengthscales of X, λ and the bandwidth in turns.

    Parameters
    ----------
    kernel_x, kernel_y : Kernel
        That of Y at bandwidths proportional to those sought.
    X, Y : arrays of shape (n, d_x), (n, d_y)
        At most a few thousand rows.
    intercept : bool
    free : bool
        Whether the lengthscales move.
    bandwidth : float, optional
        As a multiple of that of `kernel_y`; None is sought.
    reg : float, optional
        None is sought.
    """

    kernel_x: Kernel
    kernel_y: Kernel
    X: np.ndarray
    Y: np.ndarray
    intercept: bool
    free: bool = True
    bandwidth: float | None = None
    reg: float | None = None
    factor: float = field(init=False)  # the bandwidth, as a multiple of that of kernel_y
    tie: float = field(init=False, default=np.inf)  # between the scales of columns

    def __post_init__(self) -> None:
        self._scaled = Scaled(self.kernel_x, self.X, RANK)
        d = self.X.shape[1]
        middle = 0.5 * np.log10(d) if self.free else 0.0
        reach = SCALE_DECADES if self.free else 0.0
        reg = START if self.reg is None else float(np.log10(max(self.reg, 1e-12)))
        self._u = np.append(np.full(d, middle), reg)
        bounds_of_reg = REGS if self.reg is None else (reg, reg)
        self._bounds = [(middle - reach, middle + reach)] * d + [bounds_of_reg]
        self._around = FIRST
        self.factor = 1.0 if self.bandwidth is None else self.bandwidth

    def on(self, X: np.ndarray, Y: np.ndarray) -> DensitySearch:
        """The same search, as far as it has come, on other rows.

        The bandwidth is a multiple of Silverman's, which falls with the number of rows.
        """
        k = with_bandwidth(self.kernel_y, None, Y, "kernel_y") if self.bandwidth is None else None
        other = replace(self, kernel_y=k or self.kernel_y, X=X, Y=Y)
        other._u, other.factor, other._around = self._u, self.factor, self._around
        other.tie = self.tie * len(self.Y) / len(Y)
        return other

    @property
    def idle(self) -> bool:
        """Whether everything is given."""
        return not self.free and self.reg is not None and self.bandwidth is not None

    @property
    def scales(self) -> np.ndarray:
        """Factors of the lengthscales of X."""
        return 10.0 ** self._u[:-1]

    def round(self) -> None:
        """Landmarks for the scales as they stand, the best λ and bandwidth, a descent."""
        self._scaled.choose(self._u[:-1])
        if self.reg is None:
            self._choose_reg()
        if self.bandwidth is None:
            self._choose_bandwidth()
        if self.free or self.reg is None:
            self._descend()

    def score(self) -> float:
        """The score at the parameters as they stand."""
        self._scaled.choose(self._u[:-1])
        return float(self._by_bandwidth()(self.factor).mean())

    def settle(self) -> None:
        """The largest bandwidth whose score is not clearly worse than the best.

        The score is flat, and noisy, towards small bandwidths: its minimum is too small more often
        than too large. Up to half a standard error of the difference is given for a larger one.
        """
        if self.bandwidth is not None:
            return
        self._scaled.choose(self._u[:-1])
        rows = self._by_bandwidth(self._landmarks(self.factor))
        limit = float(np.log10(self.factor)) + FIRST[1]
        self.factor = largest(rows, self.factor, BANDWIDTH_STEP, limit)

    def _by_bandwidth(self, landmarks=None) -> Callable[[float], np.ndarray]:
        """Each row's term of the score, as a function of the bandwidth."""
        smoother = Smoother.of(self._scaled(self._u[:-1]), self.intercept)
        reg = float(10.0 ** self._u[-1])
        return lambda factor: DensityScore.of(smoother, self._target(factor, landmarks)).rows(reg)

    def _landmarks(self, factor: float) -> np.ndarray:
        """Rows of Y that serve this bandwidth and larger ones."""
        with hushed():  # a rank that is used up loses nothing but precision
            features = Nystroem(tol=COARSE, max_rank=MOST)
            return features.fit(self.Y, self.kernel_y.scaled(factor)).landmarks_

    def _choose_reg(self) -> None:
        """λ from all of its range: a descent does not leave the plateau of large ones."""
        smoother = Smoother.of(self._scaled(self._u[:-1]), self.intercept)
        score = DensityScore.of(smoother, self._target(self.factor))
        self._u[-1] = np.log10(minimise_log10(score, *REGS, 10, precision=0.1)[0])

    def _choose_bandwidth(self) -> None:
        first = self._around is FIRST
        low, high = (float(np.log10(self.factor) + u) for u in self._around)
        # over a wide range landmarks for the smallest bandwidth would be too many for the others
        rows = self._by_bandwidth(None if first else self._landmarks(10.0**low))

        def score(factor: float) -> float:
            return float(rows(factor).mean())

        points = 9 if first else 2
        self.factor, _ = minimise_log10(score, low, high, points, precision=PRECISION)
        self._around = (-LATER, LATER)

    def _target(self, factor: float, landmarks: np.ndarray | None = None) -> Target:
        kernel = self.kernel_y.scaled(factor)
        if landmarks is None:
            return Target.of(self.Y, kernel, COARSE)
        return Target.on(landmarks, self.Y, kernel)

    def choose_columns(self) -> None:
        """How strongly the scales of columns are tied from here on, by rows held out."""
        if not self.free or self.X.shape[1] == 1:
            return
        self._scaled.choose(self._u[:-1])
        target = self._target(self.factor)

        def descend_on(rows, u, tie):
            return descend(self._loss(target.take(rows), tie, rows), u, self._bounds, STEPS)

        def held_out(u, some, rest):
            Phi, reg = self._scaled(u[:-1]), float(10.0 ** u[-1])
            smoother = Smoother.of(Phi[some], self.intercept)
            return held_out_score(smoother, target.take(some), Phi[rest], target.take(rest), reg)

        self.tie = best_tie(descend_on, held_out, self._u, self.X.shape[1], len(self.X))

    def _descend(self) -> None:
        loss = self._loss(self._target(self.factor), self.tie)
        self._u = descend(loss, self._u, self._bounds, STEPS)

    def _loss(self, target: Target, tie: float, rows: np.ndarray | None = None) -> Callable:
        """The score of those rows (None: all), a multiple of it, with its slope."""
        size = float((target.wide**2).sum(axis=1).mean())

        def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
            reg, Phi = 10.0 ** u[-1], self._scaled(u[:-1])
            value, on_Phi, on_reg = density_loss(
                Phi if rows is None else Phi[rows], reg, target, self.intercept
            )
            if rows is not None:
                on_all = np.zeros_like(Phi)
                on_all[rows] = on_Phi
                on_Phi = on_all
            price, slope = tied(u[:-1], self._scaled.pullback(on_Phi) / size, tie)
            return value / size + price, np.append(slope, np.log(10) * reg * on_reg / size)

        return loss
