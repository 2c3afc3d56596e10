"""Sums over rows that are elsewhere, of their coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ..core.checks import as_points
from ..core.moments import Moments, block_rows, row_blocks
from ..core.rows import Rows, merged
from ..core.threads import streamed
from .base import FeatureMap


def sums(rows: Rows, names: Sequence[str], **features: tuple[int, FeatureMap | None]) -> Moments:
    """Sums over all rows, as in `Moments`, of coordinates and of their products.

    Parameters
    ----------
    rows : Rows
        Of aligned tables.
    names : sequence of str
        "x", "xx", "yx", … .
    **features
        For each letter the number of a table, and the map of its rows; None is the rows themselves.
    """
    width = sum(map_.rank_ for _, map_ in features.values() if map_ is not None)
    return rows.reduce(in_slices, rows.names, width, _sums, names, features)


def in_slices(block: tuple, names: Sequence[str], width: int, of: Callable, *given) -> Any:
    """`of(*tables, *given)` of a block's tables as points, slice by slice, merged.

    Slices have so many rows as fit in memory `width` columns wide.
    """
    tables = (as_points(A, name) for A, name in zip(block, names, strict=True))
    parts = streamed(lambda some: of(*some, *given), row_blocks(*tables, rows=block_rows(width)))
    return reduce(merged, parts)


def _sums(*points_names_features) -> Moments:
    *points, names, features = points_names_features
    moments = Moments(*names)
    moments.add(
        **{
            letter: points[i] if map_ is None else map_.transform(points[i])
            for letter, (i, map_) in features.items()
        }
    )
    return moments
