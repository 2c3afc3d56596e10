"""Sums over rows, accumulated block by block: the only place where a fit touches all the data.

Every fit is *choose coordinates → accumulate moments → solve a small problem*. The accumulator
holds sums of outer products of named feature blocks, so the blocks may come from an array in
memory, a memory map, an iterator of chunks, or (merged) from several machines.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace as namespace

from .arrays import slices, take, to_numpy, units
from .checks import Array, check_lengths, frozen, warn_numerical
from .saving import Saveable
from .threads import streamed

FAN = 8  # sums that are merged at a time
DIFFERENT = 0.4  # share of the differences of y that are left at equal x where rows are copies
SHARE = 0.1  # of the rows, that are distinct, and that are copies, and of x that repeat, at least
FEWEST = 5  # rows that differ, at least
DUST = 1e-3  # of a row whose columns are independent
BLOCK_FLOATS = 2**23  # floats per temporary block: 64 MiB


def block_rows(width: int) -> int:
    """Rows of a block that is `width` columns wide and fits in 64 MiB."""
    return max(64, BLOCK_FLOATS // max(width, 1))


def evenly(n: int, limit: int) -> np.ndarray:
    """Numbers of evenly spaced rows, at most `limit` of n."""
    return np.linspace(0, n - 1, min(n, limit)).astype(int)


def shares(nodes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of numbers (m,), in the two of all nodes (k,) beside each, (m, k)."""
    below = np.clip(np.searchsorted(nodes, y, "right") - 1, 0, len(nodes) - 2)
    gap = np.maximum(nodes[below + 1] - nodes[below], np.finfo(float).tiny)
    above = (y - nodes[below]) / gap
    found, rows = np.zeros((len(y), len(nodes))), np.arange(len(y))
    found[rows, below], found[rows, below + 1] = 1.0 - above, above
    return found


def correlations(total: np.ndarray, count: float, known: np.ndarray | None = None) -> np.ndarray:
    """Of sums ZᵀZ over `count` rows of d standardised columns, shrunk as if d rows had those known.

    Without any, a thousandth of d rows is taken to have none, so that none is perfect.
    """
    d = len(total)
    rows, prior = (d * DUST, np.eye(d)) if known is None else (d, known)
    found = (total + rows * prior) / (count + rows)
    np.fill_diagonal(found, 1.0)
    return found


def normal_bandwidth(n, d: int):
    """Silverman's rule for n rows of d normal columns, in standard deviations."""
    return (4.0 / ((d + 2) * n)) ** (1.0 / (d + 4))


def canonical_order(*tables) -> np.ndarray:
    """Rows by their distance from the mean in standard units: whatever order they came in.

    Searches choose rows, halves and landmarks from rows in this order.
    """
    rows = np.hstack([to_numpy(A) for A in tables])
    away = (rows - rows.mean(axis=0)) / units(rows)
    far = (away**2).sum(axis=1).round(9)
    order = np.argsort(far, kind="stable")
    equal = np.diff(far[order]) == 0
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    same = order[tied]  # columns decide where distances are equal
    order[tied] = same[np.lexsort((*rows[same].T, far[same]))]
    return order


@dataclass(frozen=True)
class Order(Saveable):
    """Rows in their canonical order, and the way back to the one they came in.

    Attributes
    ----------
    numbers : array of shape (n,) or None
        Of the rows given, sorted; None is as they came.
    """

    numbers: np.ndarray | None = None

    @classmethod
    def of(cls, *tables) -> Self:
        """That of the first table; where its rows are equal, of the next."""
        order = np.arange(tables[0].shape[0])
        for A in reversed(tables):
            order = order[canonical_order(take(A, order, axis=0))]
        return cls(order)

    def sorted(self, A) -> Array:
        """Rows in this order."""
        return A if self.numbers is None else take(A, self.numbers, axis=0)

    def back(self, A) -> Array:
        """Sorted rows as they came; further ones below stay there."""
        if self.numbers is None:
            return A
        below = np.arange(len(self.numbers), A.shape[0])
        return take(A, np.append(np.argsort(self.numbers), below), axis=0)

    def renumber(self, *maps) -> None:
        """Number the landmarks of feature maps by the rows as they came."""
        for features in maps:
            if self.numbers is not None and getattr(features, "indices_", None) is not None:
                features.indices_ = self.numbers[features.indices_]


def how_often(X, Y) -> np.ndarray | None:
    """How often each row (x, y) is there; None where rows are no copies of each other.

    A row left out says nothing where its copy stays. Rows with few values may also be the same by
    chance: copies are those whose y differs much less among equal x than among all. Each x that is
    there more than once counts once, whether it is there twice or, as in a survey, a hundred times.
    Few different rows are no copies but values, unless each is there as often as the others.
    """
    rows, targets = to_numpy(X), to_numpy(Y)
    n = len(rows)
    if any(len(np.unique(column)) == n for column in (*targets.T, *rows.T)):
        return None
    (of_x, at_x), (_, at_y) = _counted(rows), _counted(targets)
    which, each = _counted(np.hstack([rows, targets]))
    alike = np.bincount(of_x, each[which] - 1.0)  # pairs of rows that are the same, at every x
    pairs, some = at_x * (at_x - 1.0), at_x > 1
    values = len(each) < max(FEWEST, SHARE * n if np.ptp(each) else 0)
    if some.mean() < SHARE or values or len(each) > (1 - SHARE) * n:
        return None
    among_all = 1 - float(at_y @ (at_y - 1)) / (n * (n - 1))
    copied = 1 - float(np.mean(alike[some] / pairs[some])) < DIFFERENT * among_all
    return each[which] if copied else None


def copies(X) -> np.ndarray | None:
    """How often each row is there, where rows of one table are copies; None where they are not.

    Of one column, which may be rounded, only if all values are there equally often.
    """
    rows = to_numpy(X)
    which, each = _counted(rows)
    if len(each) > each.max() == each.min() > 1:
        return each[which]
    return how_often(rows[:, :-1], rows[:, -1:])


def numbered(copies: np.ndarray) -> np.ndarray:
    """Rows that follow their copies, how often each is there: as many numbers as are different."""
    return np.floor(np.cumsum(1.0 / copies) - 0.5 / copies).astype(int)


def once(*parts, whole: bool = False) -> tuple[Array, ...]:
    """The parts of rows, targets last, without copies: one left out would leave its copy.

    If `whole`, only where a table was copied as a whole: some rows may be drawn so, or few values.
    """
    rows = [to_numpy(part).reshape(part.shape[0], -1) for part in parts]
    each = how_often(np.hstack(rows[:-1]), rows[-1])
    if each is None or (whole and np.ptp(each)):
        return parts
    first = np.sort(np.unique(np.hstack(rows), axis=0, return_index=True)[1])
    n, copies = len(each), len(each) - len(first)
    warn_numerical(f"{copies:,} of {n:,} rows are copies of others; each row counts once")
    return tuple(frozen(take(part, first, axis=0)) for part in parts)


def _counted(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    which, each = np.unique(rows, axis=0, return_inverse=True, return_counts=True)[1:]
    return which.ravel(), each


def row_blocks(*arrays, rows: int) -> Iterator[tuple]:
    """Aligned slices of at most `rows` rows of each array (in memory or memory-mapped)."""
    n = arrays[0].shape[0]
    for other in arrays[1:]:
        check_lengths(n, other.shape[0], "the first array", "another array")
    for some in slices(n, rows):
        yield tuple(a[some, ...] for a in arrays)


class Moments:
    """Sums over rows of named feature blocks and of their outer products.

    `Moments("x", "xx", "yx")` accumulates Σφ_x, Σφ_xφ_xᵀ and Σφ_yφ_xᵀ: a one-letter name is a sum
    of rows, a two-letter name a product matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelmean.core.moments import Moments
    >>> m = Moments("x", "xx")
    >>> for block in (np.ones((2, 1)), 2 * np.ones((1, 1))):
    ...     m = m.add(x=block)
    >>> m.n, m.mean("x"), m.mean("xx")
    (3, array([1.33333333]), array([[2.]]))
    """

    def __init__(self, *names: str):
        self.names = names
        self.n: Any = 0
        self.sums: dict[str, Any] = {}

    @classmethod
    def of(cls, n: float, sums: dict[str, Array]) -> Self:
        """Known sums over n rows, or over rows that weigh n."""
        moments = cls(*sums)
        moments.n, moments.sums = n, sums
        return moments

    def add(self, **blocks: Array) -> Self:
        """With one more block of rows: arrays (rows, r) under the letters used in the names."""
        rows = {key: block.shape[0] for key, block in blocks.items()}
        if len(set(rows.values())) != 1:
            raise ValueError(f"blocks have different numbers of rows: {rows}")
        self.n += next(iter(rows.values()))
        for name in self.names:
            value = _sum(*(blocks[letter] for letter in name))
            self.sums[name] = self.sums[name] + value if name in self.sums else value
        return self

    def merge(self, other: Self) -> Self:
        """The moments of both sets of rows together (for a tree reduction)."""
        if self.names != other.names:
            raise ValueError(f"moments of {other.names} cannot be merged into {self.names}")
        both = {name: self.sums[name] + other.sums[name] for name in self.names}
        return self.of(self.n + other.n, both)

    def scaled_to(self, n: int) -> Self:
        """What those of n rows like these are expected to be."""
        return self.of(n, {name: n / self.n * value for name, value in self.sums.items()})

    def mean(self, name: str) -> Array:
        """The sum divided by the number of rows."""
        return self.sums[name] / self.n


def _sum(left: Array, right: Array | None = None) -> Array:
    # left.T @ left is recognised by NumPy as a symmetric rank-k update
    return namespace(left).sum(left, axis=0) if right is None else left.T @ right


def accumulate(
    blocks: Iterable[tuple], names: Iterable[str], features: Callable[..., dict[str, Array]]
) -> Moments:
    """Moments of `features(*block)` over an iterable of blocks (tuples of aligned arrays)."""
    names = tuple(names)
    parts = streamed(lambda block: Moments(*names).add(**features(*block)), blocks)
    some = (part for part in parts if part.n)
    if (first := next(some, None)) is None:
        raise ValueError("blocks is empty; at least one block of rows is needed")
    return reduce(Moments.merge, some, first)
