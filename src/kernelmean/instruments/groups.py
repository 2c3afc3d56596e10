"""Rows by the stages that they serve, and the same in coordinates, kept or made again in blocks.

A part knows whether its rows taught the first stage (then their embeddings leave the row itself
out) and whether they have a share in the second. The ways of sharing rows differ in nothing else:

- the jackknife: one part, in both stages;
- a share: one part in stage 1, another in stage 2;
- K folds: K parts, each with a first stage learned from the others;
- two samples: rows in both stages, in the first only and in the second only, by what they lack.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from numbers import Integral
from typing import Any

import numpy as np

from ..core import Array, Moments, Rows, arrays, checks
from ..core.minimise import SEARCH_ROWS
from ..core.moments import accumulate, block_rows, canonical_order, evenly, row_blocks
from ..core.rows import put_together
from ..core.threads import streamed
from .basis import Basis
from .clusters import Clusters, summed

KEPT = 2**26  # floats of coordinates that are kept: 512 MiB
COPIES = 8  # of a block's coordinates that fit in 64 MiB, where there is no device to keep busy
LOOKED_AT = 5 * (SEARCH_ROWS - 1) + 1  # rows of very many, whose every fifth are the few


ALIKE = 2_000  # rows that say what exogenous regressors tell
ROUNDING = 1e-8  # of the largest singular value


@dataclass(frozen=True)
class Part:
    """Rows that play the same part.

    Of `rows` that are elsewhere, blocks of (X, y, Z, C) as they were given, X, Z and y are evenly
    spaced ones, here.
    """

    X: Array
    Z: Array
    y: Array
    own: bool = True  # the stage 1 that embeds the rows was learned from them, among others
    teaches: bool = True  # some stage 1 is learned from them
    outcome: bool = True  # stage 2 is learned from them
    complete: bool = True  # regressors and outcomes are known
    rows: Rows | None = None
    improved: bool = True  # False in files from before exogenous columns were told apart
    clusters: Clusters | None = None

    @property
    def n(self) -> int:
        return self.y.shape[0] if self.rows is None else self.rows.n

    def at(self, some: np.ndarray, **roles: bool) -> Part:
        """Some of the rows that are here."""
        X, Z, y = (arrays.take(column, some, axis=0) for column in (self.X, self.Z, self.y))
        clusters = self.clusters and self.clusters.at(some)
        return replace(self, X=X, Z=Z, y=y, rows=None, clusters=clusters, **roles)

    @property
    def unordered(self) -> Part:
        """The same rows in an order that has nothing to do with the one they came in.

        Searches and landmarks take evenly spaced rows. Of very many, these are alike anyway.
        """
        if self.n > LOOKED_AT:
            return self
        order = canonical_order(self.X, self.Z, self.y[:, None])
        order = np.random.default_rng(0).permutation(order)
        if self.clusters is not None:  # evenly spaced rows are of different clusters, whatever
            codes = self.clusters.codes[order]  # their names
            _, first, found = np.unique(codes, return_index=True, return_inverse=True)
            order = order[np.argsort(first[found], kind="stable")]
        return replace(self.at(order), rows=self.rows)

    def few(self, limit: int) -> Part:
        """Evenly spaced rows, at most `limit`, of those looked at."""
        looked_at = evenly(self.y.shape[0], LOOKED_AT)
        return self.at(looked_at[evenly(len(looked_at), limit)])

    def thinned(self, limit: int) -> Part:
        """The same part with evenly spaced rows only, at most `limit`."""
        return self if self.n <= limit else self.few(limit)

    @cached_property
    def shared(self) -> list[tuple[int, int]]:
        """Columns of the regressors that are columns of the instruments, too: exogenous ones."""
        few = self.few(ALIKE)
        sides = arrays.to_numpy(few.X), arrays.to_numpy(few.Z)
        return equal_columns(*sides) if self.improved else []

    @cached_property
    def exogenous(self) -> Callable[[Basis], Array | None]:
        """B of Bᵀθ, which is nearly θ with the other instruments at their mean: once per basis."""
        shared, given = self.shared, self.few(ALIKE).Z
        own = sorted({*range(given.shape[1])} - {j for _, j in shared})
        Z = arrays.to_numpy(given)
        frozen = Z.copy()
        frozen[:, own] = frozen[:, own].mean(0)

        @cache
        def told(basis: Basis) -> Array | None:
            if not shared or not own:
                return None
            whole, still = basis.numbers(Z), basis.numbers(frozen)
            return arrays.like(np.linalg.lstsq(whole, still, rcond=ROUNDING)[0], given)

        return told


def equal_columns(A: np.ndarray, B: np.ndarray) -> list[tuple[int, int]]:
    """Numbers of columns of A and of B that are the same."""
    pairs = itertools.product(range(A.shape[1]), range(B.shape[1]))
    return [(i, j) for i, j in pairs if np.array_equal(A[:, i], B[:, j])]


def kind_of(split) -> str:
    """The way of sharing rows: "loo", "samples", "folds" or "share"."""
    if isinstance(split, str):
        if split not in ("loo", "samples"):
            raise ValueError(
                f'split is {split!r}; "loo", "samples", a share of the rows in (0, 1) or a number '
                "of folds is needed"
            )
        return split
    if isinstance(split, Integral) and not isinstance(split, bool):
        return "folds"
    return "share"


def share(split, random_state, every: Part) -> list[Part]:
    """The rows in groups that play the same part."""
    kind, n = kind_of(split), every.n
    rng = None if random_state is None else checks.generator(random_state)
    if kind == "loo":
        return [every.unordered]
    if kind == "samples":
        return _samples(every)
    order = np.arange(n) if rng is None else rng.permutation(n)
    if kind == "folds":
        return [every.at(order[i:j], own=False) for i, j in itertools.pairwise(_folds(split, n))]
    first = _first_of_halves(split, n)
    return [
        every.at(order[:first], outcome=False),
        every.at(order[first:], own=False, teaches=False),
    ]


def _folds(split, n: int) -> list[int]:
    folds = checks.check_count(split, "split", minimum=2)
    if folds > n // 2:
        raise ValueError(f"split is {folds} folds, but {n} rows allow {n // 2} at most")
    return [round(n * a / folds) for a in range(folds + 1)]


def _first_of_halves(split, n: int) -> int:
    portion = checks.check_positive(split, "split")
    first = round(portion * n)
    if min(first, n - first) < 2:
        raise ValueError(
            f"split is {portion}, which leaves {first} and {n - first} of {n} rows to the two "
            "stages; each needs at least 2 (a share between 0 and 1)"
        )
    return first


def _samples(every: Part) -> list[Part]:
    """Rows in both stages, in the first only, and in the second only, by what they lack."""
    X, y, xp = every.X, every.y, arrays.namespace(every.X)
    lacks_x, lacks_y = xp.any(xp.isnan(X), axis=1), xp.isnan(y)
    known_x, known_y = ~arrays.to_numpy(lacks_x), ~arrays.to_numpy(lacks_y)
    for name, known in [("X", known_x), ("y", known_y)]:
        if known.sum() < 4:
            raise ValueError(f"{name} is known in {known.sum()} rows; at least 4 are needed")
    # what a row lacks is never read: any number will do
    X = xp.where(lacks_x[:, None], arrays.take(X, [int(known_x.argmax())], axis=0), X)
    y = xp.where(lacks_y, xp.zeros_like(y), y)
    whole, parts = replace(every, X=X, y=y), []
    for a, b in [(True, True), (True, False), (False, True)]:
        some = np.flatnonzero((known_x == a) & (known_y == b))
        if len(some):
            roles = {"own": a, "teaches": a, "outcome": b, "complete": a and b}
            parts.append(whole.at(some, **roles).unordered)
    return parts


def together(parts: list[Part], name: str) -> Array:
    """One array of all the parts' rows."""
    return put_together([getattr(part, name) for part in parts])


def thinned_parts(parts: list[Part], limit: int) -> list[Part]:
    """The same parts with evenly spaced rows only, at most `limit` in all."""
    n = sum(part.n for part in parts)
    if n <= limit:
        return parts
    return [part.thinned(max(2, limit * part.n // n)) for part in parts]


def as_they_are(Phi, Theta, y, M) -> dict[str, Array]:
    """The columns of rows in coordinates, by letters; M where it is known."""
    known = {"x": Phi, "z": Theta, "y": y[:, None], "m": M}
    return {letter: columns for letter, columns in known.items() if columns is not None}


class Group:
    """A part in coordinates: Φ, Θ, outcomes y less `middle`, and embeddings M by a first stage.

    A pass over all rows gives `moments`. What is no product of coordinates is of the rows
    `looked_at`. Where these are not all, they tell what coefficients a second pass is to be made
    with. Their coordinates are kept where they fit in memory; their M are None until `stage` is
    there.
    """

    def __init__(self, part: Part, basis_x: Basis, basis_z: Basis, middle: float = 0.0):
        self.part, self.basis_x, self.basis_z, self.middle = part, basis_x, basis_z, middle
        self.own, self.teaches, self.outcome, self.n = part.own, part.teaches, part.outcome, part.n
        self.width = basis_x.width + basis_z.width
        self.stage: Any = None  # the FirstStage that embeds the rows
        self.through: Moments | None = None  # of the second pass
        self.nearly: Any = None  # the coefficients that it was made with
        self._kept: list | None = None

    @property
    def kinds(self) -> tuple[Any, Any, list[int]]:
        """Columns of Φ with a λ of their own, those that λ is chosen for, and those of exogenous.

        The last are known where no kernel is of endogenous columns, too: all there is, or what
        stands first.
        """
        basis, told = self.basis_x, {i for i, _ in self.part.shared}
        if basis.first:
            curves = basis.trends + basis.first
            known = [k for k, t in enumerate(basis.polynomial.terms) if not t or t[0] in told]
            return basis.lines, slice(curves, None), [*known, *range(basis.trends, curves)]
        if not basis.lines or {*basis.polynomial.bent} - told:
            return basis.lines, basis.curves, []
        return [], basis.lines, [k for k in range(basis.width) if k not in basis.lines]

    @cached_property
    def looked_at(self) -> Part:
        """All rows, where they are here and can be kept in coordinates, or evenly spaced ones."""
        fits = self.part.rows is None and self.n * self.width <= KEPT
        return self.part if fits else self.part.thinned(LOOKED_AT)

    def blocks(self) -> Iterator[tuple]:
        """(Φ, Θ, y, M) of the rows looked at."""
        kept, keep = [], self.looked_at.n * self.width <= KEPT
        for Phi, Theta, y, M in self._kept or self._coordinates(self.looked_at):
            block = Phi, Theta, y, self._embedded(Phi, Theta) if M is None else M
            if keep:
                kept.append(block)
            yield block
        self._kept = kept if keep else None

    def _coordinates(self, part: Part) -> Iterator[tuple]:
        wide = COPIES * self.width if isinstance(part.X, np.ndarray) else self.width
        pieces = row_blocks(part.X, part.Z, part.y, rows=block_rows(wide))
        return streamed(lambda piece: self._transformed(*piece), pieces)

    def _transformed(self, X, Z, y) -> tuple:
        return self.basis_x.transform(X), self.basis_z.transform(Z), y - self.middle, None

    def _embedded(self, Phi, Theta) -> Array | None:
        return None if self.stage is None else self.stage.rows(Phi, Theta, self.own)

    @cached_property
    def moments(self) -> Moments:
        """ΘᵀΘ, ΘᵀΦ, Θᵀy and yᵀy of all rows."""
        return self.total(["zz", "zx", "zy", "yy"])

    def total(self, names: list[str], columns: Callable[..., dict] = as_they_are) -> Moments:
        """Sums over all rows of products of the columns that `columns(Φ, Θ, y, None)` gives."""
        whole, rows = self.looked_at is self.part, self.part.rows
        if rows is not None:
            given = self.basis_x, self.basis_z, self.middle
            return rows.reduce(_sums, given, names, columns)
        return accumulate(self.blocks() if whole else self._coordinates(self.part), names, columns)

    def estimated(self, names: list[str], columns: Callable[..., dict] = as_they_are) -> Moments:
        """The same of columns of (Φ, Θ, y, M), as the rows looked at tell them."""
        return accumulate(self.blocks(), names, columns).scaled_to(self.n)

    def clustered(self, columns: Callable[..., dict]) -> dict[str, np.ndarray]:
        """Sums within clusters of columns of (Φ, Θ, y, M) of all rows."""
        whole, clusters, start = self.looked_at is self.part, self.part.clusters, 0
        sums: dict[str, Any] = {}
        for Phi, Theta, y, M in self.blocks() if whole else self._coordinates(self.part):
            own = clusters and clusters.at(slice(start, start + y.shape[0]))
            M = self._embedded(Phi, Theta) if M is None else M
            for letter, rows in columns(Phi, Theta, y, M).items():
                sums[letter] = sums.get(letter, 0.0) + summed(arrays.to_numpy(rows), own)
            start += y.shape[0]
        return sums

    def mean_norm(self, columns) -> float:
        """Mean square of these coordinates, k(x, x) of the kernel's: part of the stage-1 loss."""
        basis, xp = self.basis_x, arrays.namespace(self.part.X)
        if isinstance(columns, slice) and columns.start >= basis.trends:
            return float(xp.mean(basis.features.kernel_.diag_of(self.part.X)))
        lines = arrays.to_numpy(basis.polynomial(self.part.X))[:, columns]
        return float((lines**2).sum(axis=1).mean())

    def few(self, limit: int) -> tuple:
        """(Φ, Θ, y, M) at evenly spaced rows, at most `limit`."""
        if self.looked_at.n <= limit and self._kept is not None:
            return put_together(list(self.blocks()))
        few = self.part.few(limit)
        Phi, Theta, y, _ = self._transformed(few.X, few.Z, few.y)
        return Phi, Theta, y, self._embedded(Phi, Theta)


def _sums(block: tuple, given: tuple, names: list[str], columns) -> Moments:
    X, Z, y = _checked(*block)
    here = Group(Part(X, Z, y), *given)
    return accumulate(here._coordinates(here.part), names, columns)


def _checked(X, y, Z, C) -> tuple:
    """Regressors, instruments and outcomes of a block, all finite."""
    exogenous = [] if C is None else [checks.as_points(C, "C")]
    X, y, Z = checks.as_points(X, "X"), checks.as_vector(y, "y"), checks.as_points(Z, "Z")
    join = arrays.namespace(X).concat
    return join([X, *exogenous], axis=1), join([Z, *exogenous], axis=1), y


def merged(parts: Iterable[Moments]) -> Moments:
    """The moments of all rows together."""
    return reduce(Moments.merge, parts)
