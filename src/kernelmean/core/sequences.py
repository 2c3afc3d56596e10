"""Rows of sequences: their lengths, neighbours within one, statistics spread over rows."""

from typing import Any

import numpy as np

from . import arrays
from .checks import Array, as_vector, counted
from .labels import Labels, as_dates


def check_sequences(lengths, n: int) -> list[slice]:
    """Rows of each sequence; None is a single one."""
    if lengths is None:
        return [slice(0, n)]
    counts = arrays.to_numpy(as_vector(lengths, "lengths"))
    if counts.size == 0 or np.any(counts < 1) or np.any(counts % 1):
        raise ValueError(f"lengths is {lengths!r}; a list of whole numbers, 1 or more, is needed")
    if counts.sum() != n:
        raise ValueError(f"lengths sums to {int(counts.sum())} but X has {counted(n, 'row')}")
    stops = np.cumsum(counts).astype(int)
    return [slice(int(stop - count), int(stop)) for stop, count in zip(stops, counts, strict=True)]


def check_forward(X, sequences: list[slice], name: str = "X") -> None:
    """Refuse tables whose dates go back within a sequence, or whose numbers fall all along it.

    Of rows in another order, the newest first or shuffled, no transition means anything. Numbers
    that only jump may be those of a file.
    """
    index: Any = as_dates(Labels.of(X).index)
    dated = hasattr(index, "freq")
    if not dated and getattr(getattr(index, "dtype", None), "kind", "O") not in "iuf":
        return
    for s in sequences:
        times = index[s].dropna()
        falls = np.asarray(times[1:] < times[:-1])
        if falls.any() if dated else falls.size and falls.all():
            at = int(falls.argmax())
            raise ValueError(
                f"the index of {name} goes back, from {times[at]} to {times[at + 1]}; rows in the "
                f"order of time are needed, as {name}.sort_index() has them, or reset_index(drop="
                "True) where it is no time"
            )


def consecutive(sequences: list[slice]) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of the earlier and the later state of each transition."""
    earlier = np.concatenate([np.arange(s.start, s.stop - 1) for s in sequences])
    return earlier, earlier + 1


def spread(rows, numbers: np.ndarray, like) -> Array:
    """`rows` at their row numbers of an array like `like`, zeros elsewhere."""
    everywhere = np.zeros(tuple(like.shape))
    everywhere[numbers] = arrays.to_numpy(rows)
    return arrays.like(everywhere, like)


def parted(seen: np.ndarray, sequences: list[slice]) -> list[slice]:
    """Sequences of the rows seen, numbered anew: one ends at each that is not."""
    rows = (np.arange(s.start, s.stop) for s in sequences)
    parts = (part[seen[part]] for own in rows for part in np.split(own, np.flatnonzero(~seen[own])))
    return check_sequences([len(part) for part in parts if len(part)], int(seen.sum()))


def firsts(sequences, n: int, backward: bool = False) -> np.ndarray:
    """Whether each row is the first that is met in its sequence."""
    first = np.zeros(n, dtype=bool)
    first[[s.stop - 1 if backward else s.start for s in sequences]] = True
    return first


def links(seen: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether rows t and t+1, and t+2 as well, are observed, and none later is a `first` one."""
    linked = seen[:-1] & seen[1:] & ~first[1:]
    return linked, linked[:-1] & linked[1:]


def neighbours(seen: np.ndarray, sequences) -> np.ndarray:
    """Whether rows t and t+1 are of one sequence, and observed both."""
    return links(seen, firsts(sequences, len(seen)))[0]


def triples_of(seen: np.ndarray, sequences) -> np.ndarray:
    """Whether rows t, t+1 and t+2 are of one sequence, and observed all three.

    Raises
    ------
    ValueError
        If there are no such rows.
    """
    triples = links(seen, firsts(sequences, len(seen)))[1]
    if not triples.any():
        raise ValueError(
            "X has no three rows in a row, of one sequence and without NaN; the model is learned "
            "from such triples"
        )
    return triples
