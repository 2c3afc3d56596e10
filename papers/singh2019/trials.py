"""Repeated trials on the three designs: what Figures 2, 3 and 10 are made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import ttest_ind_from_stats

import kernelmean as km

from .comparators import METHODS, chosen

PAPER = "Singh, Sahani, Gretton (2019)"
PUBLISHED = pd.read_csv(Path(__file__).with_name("published.csv"))
SIZES = (1000, 5000, 10000)
RUNS = 40
FIRST_SEED = 2019  # the paper's year; no choice in the code was made by looking at these seeds
DESIGNS = {
    "linear": km.datasets.make_iv_linear,
    "sigmoid": km.datasets.make_iv_sigmoid,
    "demand": km.datasets.make_iv_demand,
}
RHOS = (0.9, 0.75, 0.5, 0.25, 0.1)
REGS = ("reg", "reg_stage1", "reg_stage2")


def run(seed: int, design: str, n: int, method: str, rho: float | None = None) -> dict:
    """Log10 MSE on the paper's grid, and the regularisers."""
    data = sample(seed, design, n, rho)
    model = METHODS[method](seed).fit(data.X, data.y, data.Z, data.C)
    regs = {name: getattr(model, f"{name}_", None) for name in REGS}
    return {"log10_mse": log10_mse(model.predict(data.grid), data.truth(data.grid)), **regs}


def sample(seed: int, design: str, n: int, rho: float | None) -> km.datasets.IVData:
    """One draw; the noise of the demand design is that of the authors' program."""
    special: dict[str, Any] = {} if rho is None else {"rho": rho, "noise": "std"}
    return DESIGNS[design](n, random_state=seed, **special)


def log10_mse(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.log10(np.mean((estimate - truth) ** 2)))


def settings(
    designs: Sequence[str],
    sizes: Sequence[int] = SIZES,
    methods: Sequence[str] = tuple(METHODS),
    rhos: Sequence[float] = RHOS,
) -> list[dict]:
    """Every method on every design, size and confounding; what is cheap comes first."""
    return [
        {"design": design, "n": n, "method": method, **confounding}
        for n in sizes
        for method in chosen(list(methods), n)
        for design in designs
        for confounding in ([{"rho": rho} for rho in rhos] if design == "demand" else [{}])
    ]


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Ours, published, and Welch's t for the difference of the means of log10 MSE."""
    keys = ["design", "rho", "n", "method"]
    groups = with_rho(rows).groupby(keys, sort=False, dropna=False)["log10_mse"]
    table = pd.DataFrame([compare(*key, values.to_numpy()) for key, values in groups])
    order = {"design": list(DESIGNS).index, "method": list(METHODS).index}
    return table.sort_values(
        keys, key=lambda c: c.map(order[c.name]) if c.name in order else c, ignore_index=True
    )


def with_rho(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, with a column for the confounding where no design has any."""
    return rows if "rho" in rows else rows.assign(rho=np.nan)


def compare(design: str, rho: float, n: int, method: str, ours: np.ndarray) -> dict:
    theirs = published(design, rho, n, method)
    mean, std = ours.mean(), ours.std(ddof=1) if len(ours) > 1 else np.nan
    q25, median, q75 = np.quantile(ours, [0.25, 0.5, 0.75])
    t, p = ttest_ind_from_stats(
        mean, std, len(ours), theirs.log10_mse_mean, theirs.log10_mse_std, theirs.trials, False
    )
    return {
        "design": design,
        "rho": rho,
        "n": n,
        "method": method,
        "runs": len(ours),
        "mean": mean,
        "published mean": theirs.log10_mse_mean,
        "difference": mean - theirs.log10_mse_mean,
        "Welch t": t,
        "p": p,
        "std": std,
        "published std": theirs.log10_mse_std,
        "q25": q25,
        "published q25": theirs.log10_mse_q25,
        "median": median,
        "published median": np.log10(theirs.mse_median),
        "q75": q75,
        "published q75": theirs.log10_mse_q75,
    }


def published(design: str, rho: float, n: int, method: str) -> pd.Series:
    """The authors' numbers; missing ones where they have none."""
    key = (PUBLISHED.design == design) & (PUBLISHED.n == n) & (PUBLISHED.algorithm == method)
    key &= PUBLISHED.rho.isna() if np.isnan(rho) else rho == PUBLISHED.rho
    return PUBLISHED[key].iloc[0] if key.any() else pd.Series(np.nan, index=PUBLISHED.columns)
