"""What the tables of Figure 2, here and in Xu et al. (2022), have in common."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

BEST = "KDE+IW, best bandwidth"


def with_best_bandwidth(rows: pd.DataFrame) -> pd.DataFrame:
    """Of the rows of KDE+IW keep, for each d, the bandwidth with the lowest mean error over runs.

    "Best mean performance": chosen with the truth in sight, as no other method's settings are.
    """
    grid = rows[rows.method == "KDE+IW"]
    best = set(grid.groupby(["d", "bandwidth"]).mse.mean().groupby("d").idxmin())
    kept = grid[[key in best for key in zip(grid.d, grid.bandwidth, strict=True)]]
    return pd.concat([rows[rows.method != "KDE+IW"], kept.assign(method=BEST)])


def lower(first: pd.Series, second: pd.Series) -> float:
    """One-sided p of Wilcoxon's signed-rank test that `first` has the lower errors."""
    same = np.array_equal(first, second)
    return np.nan if same else float(wilcoxon(first, second, alternative="less").pvalue)
