"""What a structural function is written in: coordinates beside an intercept or a plane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations, product

import numpy as np

from ..core import Array, Saveable, arrays
from ..core.moments import block_rows, row_blocks
from ..features.base import FeatureMap

APART = 0.1  # of the identity, beside covariances of powers
TOLD = 1e-6  # of a variance: columns that others tell wholly keep it
LEVELS = 10  # different values of a column, and rows for each, that are few


def trend_penalty(columns: int, n: int) -> np.ndarray:
    """δ = 1/n for every column of unit variance and none for the constant.

    Without it a trend that the instruments do not move at all would be estimated from rounding.
    """
    return np.r_[0.0, np.full(columns, 1.0 / n)][:columns]


def few_values(column: np.ndarray) -> tuple[float, ...]:
    """The different values of a column, where they are few; otherwise none."""
    values = np.unique(column)
    few = len(values) <= max(2, min(LEVELS, len(column) // LEVELS))
    return tuple(map(float, values)) if few else ()


def columns_of(term: tuple) -> set[int]:
    """Numbers of the columns that a term of a polynomial is made of."""
    parts = term if term and isinstance(term[0], tuple) else (term,)
    return {part[0] for part in parts if part}


@dataclass(frozen=True)
class Polynomial(Saveable):
    """Columns [1, v, u, u², …, products]: what enters in a straight line, powers, interactions.

    u are the standardised columns; v those of them that are `straight`, and indicators of every
    level but the first of `categories`. `powers` is 0 for no columns at all, 1 for the constant
    and v, 2 for a plane, …. Products are of slopes of the two columns of each pair of `crossed`;
    and, of columns that are `mixed`, of powers with those of every other, none above the highest.
    `few` are the columns of few values, and these; `lines` those whose slopes no kernel tells of.
    """

    powers: int
    middle: Array
    spread: Array
    straight: tuple[int, ...] = ()
    categories: tuple[tuple[int, tuple[float, ...]], ...] = ()  # a column and its levels
    few: tuple[tuple[int, tuple[float, ...]], ...] = ()
    lines: tuple[int, ...] = ()
    crossed: tuple[tuple[int, int], ...] = ()
    mixed: tuple[int, ...] = ()

    @classmethod
    def of(cls, points, powers: int, straight=(), categories=()) -> Polynomial:
        """Standardised by the mean and deviation of `points`."""
        xp = arrays.namespace(points)
        spread = arrays.units(points)
        each = enumerate(map(few_values, arrays.to_numpy(points).T))
        few = tuple((j, values) for j, values in each if values)
        middle = xp.mean(points, axis=0)
        return cls(powers, middle, spread, tuple(straight), tuple(categories), few)

    def with_degree(self, degree: int | None) -> Polynomial:
        """The same columns up to another power."""
        return replace(self, powers=0 if degree is None else degree + 1)

    def with_lines(self, columns: Sequence[int]) -> Polynomial:
        """The same with no powers of these columns."""
        more = [j for j in self.bent if j in columns]
        return replace(self, straight=(*self.straight, *more))

    @property
    def bent(self) -> list[int]:
        """Columns of which there are powers."""
        plain = {*self.straight, *(j for j, _ in self.categories)}
        return [j for j in range(self.middle.shape[0]) if j not in plain]

    @property
    def width(self) -> int:
        return len(self.terms)

    @property
    def slopes(self) -> int:
        """Number of columns before the squares."""
        return min(self.width, replace(self.with_degree(1), crossed=()).width)

    @cached_property
    def terms(self) -> list[tuple]:
        """What each column is made of, and its power or level; of products, two of these."""
        once: list[tuple] = [(j, 1) for j in self.straight]
        once += [(j, "is", level) for j, levels in self.categories for level in levels[1:]]
        powers = [(j, k) for k in range(1, self.powers) for j in self.bent]
        slopes = [*once, *powers[: len(self.bent)]]
        sides = [[[t for t in slopes if t[0] == j] for j in pair] for pair in self.crossed]
        products = chain.from_iterable(product(*pair) for pair in sides)
        pairs = (
            (a, b) for a, b in combinations(powers, 2) if a[0] != b[0] and a[1] + b[1] < self.powers
        )
        mixed = (pair for pair in pairs if columns_of(pair) & {*self.mixed})
        return [(), *once, *powers, *products, *mixed] if self.powers else []

    def saying(self, term: tuple) -> np.ndarray:
        """Coefficients by which these columns are a term of another; zeros if they cannot be it.

        Of a category they are differences between its levels.
        """
        found = np.array([own == term for own in self.terms], float)
        if not found.any() and term[0] in dict(self.categories):
            (j, k), levels = term, np.array(dict(self.categories)[term[0]])
            values = ((levels - float(self.middle[j])) / float(self.spread[j])) ** k
            own = [self.terms.index((j, "is", level)) for level in levels[1:]]
            found[[0, *own]] = values[0], *(values[1:] - values[0])
        return found

    @property
    def products(self) -> np.ndarray:
        """Numbers of the two columns that each product is of, (2, products)."""
        terms = self.terms
        pairs = [[*map(terms.index, term)] for term in terms if term and term[0] in terms]
        return np.array(pairs, int).reshape(-1, 2).T

    def varied(self, columns: Sequence[int]) -> list[int]:
        """Those of the columns that have more than two values."""
        two = {j for j, values in self.few if len(values) < 3}
        return [j for j in columns if j not in two]

    def bends(self, columns: Sequence[int]) -> list[int]:
        """Numbers of the last column's products; else of squares of columns of many values.

        Of squares if no power is higher; where columns are `mixed`, of all that these are in.
        """
        if self.mixed:
            own = [bool(columns_of(term) & {*columns}) for term in self.terms]
            return [k for k in range(self.slopes, self.width) if own[k]]
        if self.crossed:
            last, terms, (_, others) = self.crossed[-1][1], self.terms, self.products
            numbers = range(len(terms) - len(others), len(terms))
            return [k for k, j in zip(numbers, others, strict=True) if terms[j][0] == last]
        squares = [(j, 2) for j in self.varied(columns)]
        return [k for k, term in enumerate(self.terms) if term in squares and self.powers == 3]

    @property
    def scales(self) -> np.ndarray:
        """1 for columns that may have a kernel beside this, ∞ for the others."""
        scales = np.full(self.middle.shape[0], np.inf)
        scales[self.bent] = 1.0
        return scales

    def __call__(self, points) -> Array:
        # searches are NumPy's, whatever the rows of the fit are
        middle, spread = (
            arrays.like(arrays.to_numpy(a), points) for a in (self.middle, self.spread)
        )
        u = (points - middle) / spread
        xp = arrays.namespace(u)
        bent, straight = (
            arrays.take(u, np.array(c, int), axis=1) for c in (self.bent, self.straight)
        )
        columns = [xp.ones_like(u[:, :1]), straight]
        for j, levels in self.categories:
            apart = xp.abs(points[:, j : j + 1] - arrays.like(np.array(levels), u)[None, :])
            nearest = xp.argmin(apart, axis=1)[:, None]  # of a level that was not there in fitting
            alike = [nearest == k for k in range(1, len(levels))]
            columns.append(xp.astype(xp.concat(alike, axis=1), u.dtype))
        columns += [bent**k for k in range(1, self.powers)]
        if len(self.products[0]):
            every = xp.concat(columns, axis=1)
            one, other = (arrays.take(every, side, axis=1) for side in self.products)
            columns = [every, one * other]
        return xp.concat(columns, axis=1)[:, : self.width]

    def derivative(self, points, column: int) -> Array:
        """∂/∂x_column of every column, (n, width)."""
        u = (points[:, column] - self.middle[column]) / self.spread[column]
        slopes = 0.0 * self(points)
        for place, term in enumerate(self.terms):
            match term:
                case (j, int(k)) if j == column:
                    slopes[:, place] = k * u ** (k - 1) / self.spread[column]
        if len(self.products[0]):
            (da, db), (a, b) = (
                [arrays.take(columns, side, axis=1) for side in self.products]
                for columns in (slopes, self(points))
            )
            slopes[:, -da.shape[1] :] = da * b + a * db
        return slopes

    def check(self, points, names: Sequence[str]) -> None:
        """Refuse levels that were not there in fitting."""
        for j, levels in self.categories:
            new = np.setdiff1d(arrays.to_numpy(points[:, j]), levels)
            if len(new):
                raise ValueError(
                    f"column {names[j]!r} has {new[0]:g}, a category that the model was not "
                    f"fitted on; it knows {[f'{level:g}' for level in sorted(levels)]}"
                )


def joint(several: list[Polynomial]) -> Polynomial:
    """The first of these, or of all their powers and categories, that say what each does."""
    terms = {term for one in several for term in one.terms}
    apart = max((one.categories for one in several), key=len)
    lines = sorted(set.intersection(*({*one.straight} for one in several)) - {*dict(apart)})
    powers = max(one.powers for one in several)
    crossed = max((one.crossed for one in several), key=len)
    widest = max(several, key=lambda one: len(one.bent))
    mixed = max((one.mixed for one in several), key=len)
    every = replace(widest, straight=tuple(lines), categories=apart, powers=powers)
    every = replace(every, crossed=crossed, mixed=mixed)
    return next(one for one in (*several, every) if all(one.saying(t).any() for t in terms))


@dataclass(frozen=True, eq=False)  # a key by what it is, not by its arrays
class Basis(Saveable):
    """Coordinates [trend, φ(x)]: a polynomial, then a feature map."""

    polynomial: Polynomial
    features: FeatureMap

    @property
    def trends(self) -> int:
        """Number of columns before those of the feature map."""
        return self.polynomial.width

    @property
    def first(self) -> int:
        """Number of coordinates of exogenous columns that stand before all others of the map."""
        return sum(part.rank_ for part in self.features.parts[:-1])

    @property
    def curves(self) -> slice:
        """Columns that λ of stage 1 is chosen for: the kernel's, or the slopes of a plane alone."""
        return slice(self.trends if self.features.rank_ else 1, None)

    @property
    def lines(self) -> list[int]:
        """Columns that have a λ of their own in stage 1, beside that of the kernel's."""
        terms, own = enumerate(self.polynomial.terms), self.polynomial.lines
        return [k for k, term in terms if term and term[0] in own] if self.features.rank_ else []

    @property
    def width(self) -> int:
        return self.trends + self.features.rank_

    def held(self, columns, trends: int | None = None, known: bool = True) -> np.ndarray:
        """What δ multiplies: of powers alone, and of levels, the covariance of each column's.

        Powers are nearly collinear, and coefficients large where curves are not. A tenth of the
        identity keeps those of few values apart. Levels of few rows vary little, whichever is the
        first. Of slopes it is what the other columns do not tell of a column, 1/(S⁻¹)_jj: beside
        the shifts of units, say, which tell nearly all of it. (One, where these are not `known`,
        but embeddings stand for them.)
        """
        terms = self.polynomial.terms[:trends]
        one = np.eye(len(terms))
        slopes = range(1, min(len(terms), self.polynomial.slopes))
        if known and len(slopes) > 1:
            told = np.cov(columns[:, slopes], rowvar=False, bias=True) + TOLD * np.eye(len(slopes))
            one[slopes, slopes] = 1.0 / np.linalg.inv(told).diagonal()
        bare = not self.features.rank_ and self.trends > self.polynomial.slopes
        sizes = (4, 6) if bare else (6,)  # of two powers, and of two levels
        alike = [[a[:1] == b[:1] and len(a + b) in sizes for b in terms] for a in terms]
        if not np.any(alike):
            return one
        shared = np.cov(columns[:, : len(terms)], rowvar=False, bias=True)
        return np.where(alike, (shared + APART * np.eye(len(terms))) / (1.0 + APART), one)

    def by_blocks(self, function: Callable, points) -> Array:
        """`function` of blocks of the points, whose coordinates fit in memory, put together."""
        blocks = row_blocks(points, rows=block_rows(self.width))
        return arrays.namespace(points).concat([function(block) for (block,) in blocks])

    def numbers(self, points: np.ndarray) -> np.ndarray:
        """Coordinates, as NumPy's array, of points that are one, whatever the basis was made of."""
        return arrays.to_numpy(self.transform(arrays.like(points, self.polynomial.middle)))

    def transform(self, points) -> Array:
        Phi = self.features.transform(points)
        if not self.trends:
            return Phi
        return arrays.namespace(Phi).concat([self.polynomial(points), Phi], axis=1)

    def derivative(self, points, column: int) -> Array:
        """∂/∂x_column of every coordinate, (n, width).

        Of few values that of the line between the neighbours of each: what a curve does in between
        they do not tell.
        """
        values = np.array(dict(self.polynomial.few).get(column, ()))
        if len(values) > 1:
            return self._between(points, column, values)
        slopes = [part.derivative(points, column) for part in (self.polynomial, self.features)]
        return arrays.namespace(points).concat(slopes, axis=1)

    def _between(self, points, column: int, values: np.ndarray) -> Array:
        rows, last = arrays.to_numpy(points), len(values) - 1
        below = np.searchsorted(values, rows[:, column], "left") - 1
        above = np.searchsorted(values, rows[:, column], "right")
        ends = values[np.clip(below, 0, last - 1)], values[np.clip(above, 1, last)]
        own = np.arange(rows.shape[1]) == column
        moved = (np.where(own, end[:, None], rows).astype(rows.dtype) for end in ends)
        zero, one = (self.transform(arrays.like(part, points)) for part in moved)
        return (one - zero) / arrays.like((ends[1] - ends[0]).astype(rows.dtype), points)[:, None]
