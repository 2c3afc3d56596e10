"""Repeated trials on the linear and sigmoid designs: what Figures 2 and 10 are made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from scipy.stats import ttest_ind_from_stats

import kernelmean as km

from .comparators import kernel_reg

PAPER = "Singh, Sahani, Gretton (2019)"
PUBLISHED = pd.read_csv(Path(__file__).with_name("published.csv"))
SIZES = (1000, 5000, 10000)
RUNS = 40
FIRST_SEED = 2019  # the paper's year; no choice in the code was made by looking at these seeds
DESIGNS = {"linear": km.datasets.make_iv_linear, "sigmoid": km.datasets.make_iv_sigmoid}
OURS = ["KernelReg", "KernelIV"]
ORDER = ["KernelReg", "SmoothIV", "SieveIV", "SieveIV_ridge", "DeepIV", "KernelIV"]
LABELS = {"SieveIV_ridge": "SieveIV with ridge"}
COLOURS = ["#E69F00", "#CC79A7", "#56B4E9", "#0072B2", "#009E73", "#D55E00"]  # Okabe and Ito


def run(seed: int, design: str, n: int) -> list[dict]:
    """Log10 MSE on the paper's grid, of KernelIV and KernelReg on the same sample."""
    data = DESIGNS[design](n, random_state=seed)
    iv = km.KernelIV(split=0.5).fit(data.X, data.y, Z=data.Z)
    regression, reg = kernel_reg(data.X, data.y, data.grid)
    truth = data.truth(data.grid)
    return [
        {
            "method": "KernelIV",
            "log10_mse": log10_mse(iv.predict(data.grid), truth),
            "reg_stage1": iv.reg_stage1_,
            "reg_stage2": iv.reg_stage2_,
        },
        {"method": "KernelReg", "log10_mse": log10_mse(regression, truth), "reg_stage2": reg},
    ]


def log10_mse(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.log10(np.mean((estimate - truth) ** 2)))


def settings(designs: list[str], sizes: tuple[int, ...] = SIZES) -> list[dict]:
    return [{"design": design, "n": n} for design in designs for n in sizes]


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Ours, published, and Welch's t for the difference of the means of log10 MSE."""
    groups = rows.groupby(["design", "n", "method"], sort=False)["log10_mse"]
    return pd.DataFrame([compare(*key, values.to_numpy()) for key, values in groups])


def compare(design: str, n: int, method: str, ours: np.ndarray) -> dict:
    theirs = published(design, n, method)
    mean, std = ours.mean(), ours.std(ddof=1) if len(ours) > 1 else np.nan
    q25, median, q75 = np.quantile(ours, [0.25, 0.5, 0.75])
    t, p = ttest_ind_from_stats(
        mean, std, len(ours), theirs.log10_mse_mean, theirs.log10_mse_std, theirs.trials, False
    )
    return {
        "design": design,
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


def published(design: str, n: int, method: str) -> pd.Series:
    """The authors' numbers; missing ones where they have none."""
    key = (PUBLISHED.design == design) & (PUBLISHED.n == n) & (PUBLISHED.algorithm == method)
    return PUBLISHED[key].iloc[0] if key.any() else pd.Series(np.nan, index=PUBLISHED.columns)


def figure(rows: pd.DataFrame) -> Figure:
    """Box plots: ours filled, the published quartiles as empty boxes."""
    designs = list(dict.fromkeys(rows.design))
    picture = Figure(figsize=(9, 4 * len(designs)), layout="constrained")
    panels = picture.subplots(len(designs), 1, squeeze=False)[:, 0]
    for ax, design in zip(panels, designs, strict=True):
        draw_design(ax, design, rows[rows.design == design])
    picture.legend(handles=legend(), loc="outside lower center", ncols=4, frameon=False)
    return picture


def draw_design(ax, design: str, rows: pd.DataFrame) -> None:
    sizes = sorted(set(rows.n))
    for group, n in enumerate(sizes):
        for place, method in enumerate(ORDER):
            x = group + (place - 2.5) * 0.15
            ours = rows[(rows.n == n) & (rows.method == method)].log10_mse
            shift = 0.03 if method in OURS else 0
            box(ax, x - shift, published_box(design, n, method), "none", COLOURS[place])
            if method in OURS:
                box(ax, x + shift, trial_box(ours), COLOURS[place], "black")
    ax.set(title=f"{design} design", ylabel="log10 MSE", xlabel="n + m")
    ax.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
    ax.grid(axis="y", alpha=0.3)


def box(ax, x: float, stats: dict | None, fill: str, edge: str) -> None:
    if stats is None:
        return
    ax.bxp(
        [stats],
        positions=[x],
        widths=0.055,
        patch_artist=True,
        manage_ticks=False,
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": fill},
        boxprops={"facecolor": fill, "edgecolor": edge},
        medianprops={"color": edge, "linewidth": 1.5},
        whiskerprops={"color": edge},
        capprops={"color": edge},
    )


def trial_box(values: pd.Series) -> dict:
    """Quartiles, and whiskers to the last trial within 1.5 interquartile ranges."""
    q1, med, q3 = np.quantile(values, [0.25, 0.5, 0.75])
    reach = 1.5 * (q3 - q1)
    inside = (values >= q1 - reach) & (values <= q3 + reach)
    return {
        "q1": q1,
        "med": med,
        "q3": q3,
        "whislo": values[inside].min(),
        "whishi": values[inside].max(),
        "fliers": values[~inside],
    }


def published_box(design: str, n: int, method: str) -> dict | None:
    """The published quartiles; the whiskers are not known."""
    row = published(design, n, method)
    if np.isnan(row.log10_mse_q25):
        return None
    low, high = row.log10_mse_q25, row.log10_mse_q75
    return {
        "q1": low,
        "med": np.log10(row.mse_median),
        "q3": high,
        "whislo": low,
        "whishi": high,
        "fliers": [],
    }


def legend() -> list[Patch]:
    colours = dict(zip(ORDER, COLOURS, strict=True))
    ours = [Patch(facecolor=colours[m], edgecolor="black", label=f"{m}, ours") for m in OURS]
    theirs = [
        Patch(facecolor="none", edgecolor=colours[m], label=f"{LABELS.get(m, m)}, published")
        for m in ORDER
    ]
    return theirs + ours
