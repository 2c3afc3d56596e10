"""The one noun that estimators answer with: a law, or a batch of m laws, and what may be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.checks import Array
from ..core.interval import Interval
from ..core.labels import Labels
from .embedding import MeanEmbedding


class Law:
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
        return self.embedding.interval(level, self._smoothing, kind)

    def quantile(self, q) -> Array:
        """Quantiles of every column: (m, d) for a number, (m, len(q), d) for a list."""
        return self.embedding.quantile(q, self._smoothing)

    def density(self, Y) -> Array:
        """Density of every law at the rows of `Y`, (m, len(Y))."""
        return self.embedding.density(Y, self.bandwidth or None)

    def log_density(self, Y) -> Array:
        """log of `density`."""
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
        """A pandas DataFrame, a row for each law: mean, std and interval of every column."""
        return law_frame(self, self.labels, level, self.stem)

    @property
    def _smoothing(self) -> float | tuple[float, ...]:
        """Of distribution functions: none unless the law has a bandwidth."""
        return 0.0 if self.bandwidth is None else self.bandwidth


def law_frame(law, labels: Labels, level: float, stem: str = "y"):
    """Mean (the column's own name), `_std`, `_lower` and `_upper` of every column."""
    lower, upper = law.interval(level)
    parts = {"": law.mean(), "_std": law.std(), "_lower": lower, "_upper": upper}
    if parts[""].ndim == 1:  # a single law
        parts = {suffix: part[None, ...] for suffix, part in parts.items()}
    return labels.frame(parts, stem)
