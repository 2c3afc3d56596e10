"""Rows whose noise may go together: sums of their scores stand where those of rows do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..core import Saveable, checks

FEW = 20  # clusters: normal limits of fewer are too narrow


@dataclass(frozen=True)
class Clusters(Saveable):
    """The cluster of each row, a number below `n`; some clusters may have no row here."""

    codes: np.ndarray
    n: int

    @classmethod
    def of(cls, given: Any, rows: int) -> Clusters:
        """By labels of rows, of any kind."""
        labels = np.asarray(given, dtype=None if hasattr(given, "dtype") else object)
        if labels.shape not in ((rows,), (rows, 1)):
            raise ValueError(
                f"clusters has shape {labels.shape}; one label for each of the {rows} rows of X is "
                "needed"
            )
        labels = labels.ravel()
        if labels.dtype.kind == "O":  # of pandas' NA it is neither true nor false that it is itself
            known = [label is not None and str(label == label) == "True" for label in labels]
            unknown, labels = ~np.array(known), np.array([str(label) for label in labels])
        else:
            unknown = labels != labels
        unknown = unknown | np.ravel(np.ma.getmask(given))
        if unknown.any():
            raise ValueError(
                f"clusters has no label in {unknown.sum()} of {rows} rows; each needs one"
            )
        values, codes = np.unique(labels, return_inverse=True)
        if len(values) < 2:
            raise ValueError("clusters are all the same; at least two are needed")
        if len(values) < FEW:
            checks.warn_numerical(
                f"{len(values)} clusters: limits and p-values are for many, {FEW} or more, and can "
                "be too narrow"
            )
        return cls(codes, len(values))

    def at(self, rows: Any) -> Clusters:
        """Those of some rows."""
        return replace(self, codes=self.codes[rows])

    @property
    def each(self) -> list[np.ndarray]:
        """Rows of the clusters that have some here, an array (clusters, size) for each size."""
        order, counts = np.argsort(self.codes, kind="stable"), np.bincount(self.codes)
        starts, sizes = np.cumsum(counts) - counts, np.unique(counts[counts > 0])
        return [order[starts[counts == size, None] + np.arange(size)] for size in sizes]

    def sums(self, scores: np.ndarray) -> np.ndarray:
        """√(G/(G − 1)) times the sum within each of G clusters, a row for each."""
        ones = np.full(len(self.codes), (self.n / (self.n - 1.0)) ** 0.5)
        places = self.codes, np.arange(len(self.codes))
        return csr_array((ones, places), shape=(self.n, len(self.codes))) @ scores


def labels_in(data: Any, column: str) -> Any:
    """A column of a table."""
    if column not in data:
        raise ValueError(f"clusters is {column!r}, which is no column; the data have {list(data)}")
    return data[column]


def joined(several: list[Clusters | None]) -> Clusters | None:
    """Of the rows of several parts, one after the other."""
    known = [one for one in several if one is not None]
    return replace(known[0], codes=np.concatenate([one.codes for one in known])) if known else None


def summed(scores: np.ndarray, clusters: Clusters | None) -> np.ndarray:
    """Scores of clusters; those of rows, where these are independent."""
    return scores if clusters is None else clusters.sums(scores)


def share_of(rows: int, n: int, clusters: Clusters | None) -> float:
    """What share of all that tells is here: of n rows, or of clusters, by those with rows here."""
    return rows / n if clusters is None else len(np.unique(clusters.codes)) / clusters.n


def error_of_mean(terms: np.ndarray, clusters: Clusters | None) -> float:
    """Standard error of the mean of terms, one a row."""
    return float(np.linalg.norm(summed(terms - terms.mean(), clusters)) / len(terms))
