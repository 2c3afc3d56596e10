"""Box plots of the trials: ours filled, the published quartiles as empty boxes."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from .comparators import METHODS
from .trials import PUBLISHED, published, with_rho

LABELS = {"SieveIV_ridge": "SieveIV with ridge"}
# Okabe and Ito; each of the last two is a darker kin of what it varies
COLOURS = dict(
    zip(
        METHODS,
        ["#E69F00", "#CC79A7", "#56B4E9", "#0072B2", "#009E73", "#D55E00", "#8E3B6B", "#7F2B00"],
        strict=True,
    )
)
STEP = 0.11  # between the boxes of two methods
HIGHEST = 1.0  # of the frame, above the largest published quartile: sieves may go far beyond


def figure(rows: pd.DataFrame) -> Figure:
    """One panel for each design and confounding."""
    rows = with_rho(rows)
    panels = list(rows.groupby(["design", "rho"], sort=False, dropna=False))
    picture = Figure(figsize=(9, 3.8 * len(panels) + 0.8), layout="constrained")
    axes = picture.subplots(len(panels), 1, squeeze=False)[:, 0]
    for ax, ((design, rho), part) in zip(axes, panels, strict=True):
        draw_panel(ax, design, rho, part)
    picture.legend(
        handles=legend(set(rows.method)), loc="outside lower center", ncols=4, frameon=False
    )
    return picture


def draw_panel(ax, design: str, rho: float, rows: pd.DataFrame) -> None:
    sizes = sorted(set(rows.n))
    for group, n in enumerate(sizes):
        for place, method in enumerate(METHODS):
            x = group + (place - (len(METHODS) - 1) / 2) * STEP
            ours = rows[(rows.n == n) & (rows.method == method)].log10_mse
            box(ax, x - 0.02, published_box(published(design, rho, n, method)), "none", method)
            box(ax, x + 0.02, trial_box(ours), COLOURS[method], method)
    limit_height(ax, design, rho, sizes)
    confounding = "" if np.isnan(rho) else f", rho = {rho:g}"
    ax.set(title=f"{design} design{confounding}", ylabel="log10 MSE", xlabel="n + m")
    ax.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
    ax.grid(axis="y", alpha=0.3)


def limit_height(ax, design: str, rho: float, sizes: list[int]) -> None:
    tops = [published(design, rho, n, method).log10_mse_q75 for n in sizes for method in METHODS]
    if not np.isnan(tops).all():
        ax.set_ylim(top=min(np.nanmax(tops) + HIGHEST, ax.get_ylim()[1]))


def box(ax, x: float, stats: dict | None, fill: str, method: str) -> None:
    if stats is None:
        return
    edge = COLOURS[method] if fill == "none" else "black"
    ax.bxp(
        [stats],
        positions=[x],
        widths=0.04,
        patch_artist=True,
        manage_ticks=False,
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": fill},
        boxprops={"facecolor": fill, "edgecolor": edge},
        medianprops={"color": edge, "linewidth": 1.5},
        whiskerprops={"color": edge},
        capprops={"color": edge},
    )


def trial_box(values: pd.Series) -> dict | None:
    """Quartiles, and whiskers to the last trial within 1.5 interquartile ranges."""
    if values.empty:
        return None
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


def published_box(row: pd.Series) -> dict | None:
    """The published quartiles; the whiskers are not known."""
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


def legend(methods: set[str]) -> list[Patch]:
    shown = methods | set(PUBLISHED.algorithm)
    colours = [
        Patch(facecolor=COLOURS[m], edgecolor="black", label=LABELS.get(m, m))
        for m in METHODS
        if m in shown
    ]
    kinds = {"filled: ours": "#bbbbbb", "empty: published": "none"}
    return colours + [Patch(facecolor=f, edgecolor="black", label=k) for k, f in kinds.items()]
