"""Sums over rows that are elsewhere, of their coordinates."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.checks import Array, as_points
from ..core.moments import Moments, accumulate, block_rows, row_blocks
from ..core.rows import Rows
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
    return rows.reduce(_of_block, names, features, rows.names)


def _of_block(block: tuple, names, features: dict, tables: tuple[str, ...]) -> Moments:
    checked = [as_points(table, name) for table, name in zip(block, tables, strict=True)]

    def coordinates(*points) -> dict[str, Array]:
        return {
            letter: points[i] if map_ is None else map_.transform(points[i])
            for letter, (i, map_) in features.items()
        }

    width = sum(map_.rank_ for _, map_ in features.values() if map_ is not None)
    return accumulate(row_blocks(*checked, rows=block_rows(width)), names, coordinates)
