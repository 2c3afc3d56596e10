"""What a fitted structural function consists of, as a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..core import Array, Saveable, arrays
from ..features.base import FeatureMap
from ..kernels import Linear
from ..regression.support import Support
from .basis import Basis, Polynomial, columns_of
from .choice import StructuralDraft
from .clusters import Clusters
from .columns import Roles

LIMIT = 1.0 / arrays.EPS  # ξ that leaves no more than rounding of what it penalises
OUTSIDE = "a curve goes back to its trend there, and powers go on as they are"


@dataclass(frozen=True)
class StructuralFit(Saveable):
    """What a fitted structural function consists of; pairs are of stage 1 and stage 2."""

    was: ClassVar = {"improved": False, "bent": 1.0}

    draft: StructuralDraft
    roles: Roles
    coef: Array
    covariance: Array
    regs: tuple[float, float]
    losses: tuple[float, float]
    sizes: tuple[int, int]  # numbers of rows
    specification_p: float
    sample: tuple[np.ndarray, np.ndarray, np.ndarray]  # rows (X, Z, y), for averages and tests
    gain: tuple[float, float] | None = None  # over a line, see `Choice`
    band: Array | None = None  # the covariance for bands of h, where something was chosen,
    mean: Array | None = None  # and for averages of its slopes
    reg_lines: float | None = None  # λ of lines in stage 1, where it is another
    bent: float = 1.0  # how far a straight line went towards what bends
    support: Support | None = None  # the box of the regressors learned from
    improved: bool = True  # what controls tell of a row is not left out of its embedding
    asked: Any = None  # the regressors' kernel, before columns were found to be straight
    clusters: Clusters | None = None  # of the sample
    refused: float = 1.0  # p-value of a line, see `Choice`

    @property
    def basis(self) -> Basis:
        """The coordinates of h."""
        return self.draft.bases[0]

    @property
    def differs_along(self) -> list[str]:
        """Exogenous columns that slopes along the endogenous ones go with."""
        products = [c for c in map(columns_of, self.basis.polynomial.terms) if len(c) > 1]
        own = range(len(self.roles.x))
        columns = dict.fromkeys(j for some in products for j in sorted(some - {*own}))
        return [self.roles.regressors[j] for j in columns]

    def __call__(self, points) -> Array:
        """h at rows of (X, C)."""
        return self.basis.by_blocks(lambda block: self.basis.transform(block) @ self.coef, points)

    def outside(self, points) -> np.ndarray:
        """Which rows are outside the box learned from, with a warning where they are far outside.

        Columns that were asked to be lines know no box.
        """
        # a file of an earlier version has the rows it kept only
        support = self.support or Support.of(arrays.like(self.sample[0], self.coef))
        kernel = self.asked or self.draft.kernels[0] or Linear()
        return support.outside(points, kernel, OUTSIDE)

    def written(self, polynomial: Polynomial, features: FeatureMap) -> StructuralFit:
        """The same in coordinates with more columns; of least squares ξ is as good as infinite."""
        basis, old = Basis(polynomial, features), self.basis
        into, width = np.zeros((basis.width, old.width)), polynomial.width
        into[:width, : old.trends] = np.transpose([*map(polynomial.saying, old.polynomial.terms)])
        column = old.trends
        starts = np.cumsum([width, *(part.rank_ for part in features.parts)])
        kernels = [part.kernel_ for part in features.parts]  # which decide the coordinates
        for part in old.features.parts if old.features.rank_ else ():
            row, rank = starts[kernels.index(part.kernel_)], part.rank_
            into[row : row + rank, column : column + rank] = np.eye(rank)
            column += rank
        into = arrays.like(into, self.coef)
        coef, V = into @ self.coef, into @ self.covariance @ into.T
        draft = replace(self.draft, trend=polynomial.powers - 1, bases=(basis, self.draft.bases[1]))
        regs = self.regs[0], LIMIT if self.draft.bare else self.regs[1]
        return replace(self, draft=draft, coef=coef, covariance=V, regs=regs)

    def towards(self, other: StructuralFit, share: float) -> StructuralFit:
        """The other less 1 − share of its way from here, with covariances that are not less.

        It keeps what else is known of the other: λ, ξ, losses and the test of its specification.
        Slopes that go with exogenous columns are there with the share as a probability.
        """
        names = "coef", "covariance", "band", "mean"
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        between = {name: (1.0 - share) * a + share * b for name, (a, b) in pairs.items()}
        if other.draft.crossed:
            d = other.coef - self.coef
            two = share * (1.0 - share) * d[:, None] * d[None, :]
            between |= {name: between[name] + two for name in names[1:]}
        return replace(other, bent=share, **between)
