"""The one noun that estimators answer with: a law, or a batch of m laws, and what may be asked."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..core import Array, Interval, Labels, checks
from ..core.labels import law_frame
from .embedding import MeanEmbedding
from .scored import Scored


class Law(Scored):
    """Answers by an embedding: a distribution of d columns, or a batch of m of them.

    A subclass has `embedding`, the (batch of) weighted points that it stands on; where its
    densities have a bandwidth of their own, `bandwidth`; and where rows and columns have names,
    `labels`. Shapes below are those of a batch; a single law is without the m in front.
    """

    if TYPE_CHECKING:  # a property, or a field of a dataclass

        @property
        def embedding(self) -> MeanEmbedding:
            """The (batch of) weighted points."""
            ...

    bandwidth: float | tuple[float, ...] | None = None
    labels: Labels = Labels()
    stem = "y"  # of columns without names

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.embedding!r})"

    @property
    def extrapolated(self) -> np.ndarray | None:
        """Which laws were asked for outside the training data, (m,); None is not known."""
        return self.embedding.extrapolated

    def mean(self) -> Array:
        """E y, (m, d)."""
        return self.embedding.mean()

    def std(self) -> Array:
        """Standard deviation of every column, (m, d)."""
        return self.embedding.std()

    def cov(self) -> Array:
        """Covariance of the columns, (m, d, d)."""
        return self.embedding.cov()

    def interval(self, level: float = 0.95, kind: str = "central") -> Interval:
        """`Interval(lower, upper)` of every column, (m, d) each; `kind` as for `MeanEmbedding`."""
        return self.embedding.interval(level, kind, self._smoothing)

    def quantile(self, q) -> Array:
        """Quantiles of every column: (m, d) for a number, (m, len(q), d) for a list."""
        return self.embedding.quantile(q, self._smoothing)

    def density(self, Y) -> Array:
        """Density of every law at the rows of `Y`, (m, len(Y))."""
        checks.check_order(Y, self.labels.columns, "Y", "the law")
        return self.embedding.density(Y, self.bandwidth or None)

    def log_density(self, Y) -> Array:
        """log of `density`."""
        checks.check_order(Y, self.labels.columns, "Y", "the law")
        return self.embedding.log_density(Y, self.bandwidth or None)

    def probability(self, event: Callable) -> Array:
        """P(event), in [0, 1], (m,): `event` maps points (n, d) to booleans (n,)."""
        return self.embedding.probability(event)

    def sample(self, n: int, random_state=None) -> Array:
        """n draws of every law, (m, n, d)."""
        return self.embedding.sample(n, random_state, self.bandwidth or None)

    def mode(self) -> Array:
        """The most typical point, (m, d)."""
        return self.embedding.mode()

    def to_frame(self, level: float = 0.95):
        """A pandas DataFrame, a row for each law: mean, std and interval of every column.

        And `extrapolated`, where it is known which laws are.
        """
        return law_frame(self, self.labels, level, self.stem)

    @property
    def _smoothing(self) -> str | float | tuple[float, ...]:
        """Of distribution functions: none unless the law, or its embedding, has a bandwidth."""
        return "own" if self.bandwidth is None else self.bandwidth


def like_target(values: Array, one_output: bool) -> Array:
    """Values with a last axis of columns, without it where the target y came as a vector."""
    return values[..., 0] if one_output else values


def interval_like_target(law, level: float, one_output: bool) -> Interval:
    """The interval of a law, each end in the shape of predictions of y."""
    return Interval(*(like_target(end, one_output) for end in law.interval(level)))


def names_like(estimator, d: int) -> list[str]:
    """Names of the columns of X that an estimator was fitted to."""
    return Labels.known_to(estimator).named(d, "x")
