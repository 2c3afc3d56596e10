"""Draws of the models, 50 of the observed x in each: what Tables 2.1 and 2.2 are made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .errors import NAMES, ROWS, draw, near_x, observed, on_range, paired, two_samples
from .methods import COLOURS, METHODS

PUBLISHED = pd.read_csv(Path(__file__).with_name("published.csv"), keep_default_na=False)
SCALES = {"gamma": "γ", "sigma": "σ"}  # settings that some designs have
KEYS = ["model", *SCALES, "d_x", "d_y", "grid"]
LEVEL = 0.05  # of the thesis's tests
RATIOS = (0.1, 3.0)  # range of the picture; draws beyond are at its edge


def run(
    seed: int,
    model: str,
    n: int = 1000,
    d: int | None = None,
    gamma: float | None = None,
    sigma: float | None = None,
    rows: int = ROWS,
) -> list[dict]:
    """Mean errors over x, and the thesis's test within this draw."""
    points = pd.DataFrame(of_points(seed, model, n, d, gamma, sigma, rows))
    theirs = points[points.method == "KCDE"].set_index("grid").mad
    keys = ["d_x", "d_y", "grid", "method"]
    return [
        {**dict(zip(keys, key, strict=True)), **means(mine, theirs.loc[[key[2]]])}
        for key, mine in points.groupby(keys, sort=False)
    ]


def means(mine: pd.DataFrame, theirs: pd.Series) -> dict:
    """Means over x, and the two-sample test of the MAD against that of KCDE."""
    t, p = two_samples(mine.mad, theirs)
    return {"mad": mine.mad.mean(), "mse": mine.mse.mean(), "draw t": t, "draw p": p}


def of_points(
    seed: int,
    model: str,
    n: int = 1000,
    d: int | None = None,
    gamma: float | None = None,
    sigma: float | None = None,
    rows: int = ROWS,
) -> list[dict]:
    """Both errors of every method at every one of the x."""
    data = draw(seed, model, n, d=d, gamma=gamma, sigma=sigma)
    at = observed(data.X, rows, seed)
    measures = {"range": on_range} | ({"near x": near_x} if model == "cauchy" else {})
    shape = {"d_x": data.X.shape[1], "d_y": data.Y.shape[1]}
    found = []
    for method, fit in METHODS.items():
        fitted = fit(data.X, data.Y)
        for name, measure in measures.items():
            both = measure(fitted, data, at)
            found += [
                {**shape, "grid": name, "method": method, "row": i, "mad": mad, "mse": mse}
                for i, (mad, mse) in enumerate(zip(both["mad"], both["mse"], strict=True))
            ]
    return found


# ---------------------------------------------------------------- the table
def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Each of our methods beside KCDE, and what the thesis found."""
    rows = with_keys(rows)
    table = []
    for key, part in rows.groupby(KEYS, sort=False, dropna=False):
        design = dict(zip(KEYS, key, strict=True))
        theirs = part[part.method == "KCDE"].set_index("seed")
        for method in ("default", "thesis"):
            ours = part[part.method == method].set_index("seed")
            table.append({**label(design), **compare(method, ours, theirs), **published(design)})
    return pd.DataFrame(table)


def with_keys(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, with columns for the scales that no design among them has."""
    return rows.assign(**{scale: np.nan for scale in SCALES if scale not in rows})


def label(design: dict) -> dict:
    """What the reader sees of a design."""
    name = NAMES[design["model"]]
    for scale, letter in SCALES.items():
        if not pd.isna(design[scale]):
            name += f", {letter} = {design[scale]:g}"
    if design["grid"] != "range":
        name += f", {design['grid']}"
    return {"design": name, "d_x": design["d_x"], "d_y": design["d_y"]}


def compare(method: str, ours: pd.DataFrame, theirs: pd.DataFrame) -> dict:
    """Means over seeds, tests over seeds, and the thesis's test within each draw."""
    _, p = two_samples(ours.mad, theirs.mad) if len(ours) > 1 else (np.nan, np.nan)
    sure = ours["draw p"] < LEVEL
    return {
        "method": method,
        "runs": len(ours),
        "MAD": ours.mad.mean(),
        "MAD of KCDE": theirs.mad.mean(),
        "paired t": paired(ours.mad, theirs.mad),
        "two-sample p": p,
        "lower": method if ours.mad.mean() < theirs.mad.mean() else "KCDE",
        "draws for ours": (sure & (ours["draw t"] < 0)).mean(),
        "draws for KCDE": (sure & (ours["draw t"] > 0)).mean(),
        "MSE": ours.mse.mean(),
        "MSE of KCDE": theirs.mse.mean(),
        "paired t, MSE": paired(ours.mse, theirs.mse),
    }


def published(design: dict) -> dict:
    """The thesis's p and preferred method."""
    gamma = "" if pd.isna(design["gamma"]) else f"{design['gamma']:g}"
    key = (design["model"] == PUBLISHED.model) & (design["d_x"] == PUBLISHED.d)
    row = PUBLISHED[key & (gamma == PUBLISHED.gamma)]
    p, preferred = row.iloc[0][["p", "preferred"]] if len(row) else ("", "")
    return {"published p": p, "published preferred": preferred}


# ---------------------------------------------------------------- pictures
def ratios(rows: pd.DataFrame) -> Figure:
    """The MAD of each draw relative to that of KCDE, a line for each design."""
    rows = with_keys(rows)
    groups = list(rows.groupby(KEYS, sort=False, dropna=False))
    picture = Figure(figsize=(8, 0.42 * len(groups) + 1.4), layout="constrained")
    ax = picture.subplots()
    for place, (_, part) in enumerate(groups):
        mad = part.pivot_table(index="seed", columns="method", values="mad")
        for shift, method in ((-0.14, "default"), (0.14, "thesis")):
            # on the grid of a Cauchy draw both errors can be next to nothing
            ratio = (mad[method] / mad["KCDE"]).clip(*RATIOS)
            y = np.full(len(ratio), place + shift)
            ax.plot(ratio, y, ".", color=COLOURS[method], alpha=0.35, markersize=5)
            ax.plot(
                mad[method].mean() / mad["KCDE"].mean(),
                y[0],
                "|",
                color=COLOURS[method],
                markersize=11,
                markeredgewidth=2.5,
            )
    ax.axvline(1.0, color=COLOURS["KCDE"], linewidth=1)
    names = [label(dict(zip(KEYS, key, strict=True))) for key, _ in groups]
    ax.set_yticks(range(len(groups)), [f"{one['design']}, d = {one['d_x']}" for one in names])
    ax.invert_yaxis()
    ax.set(
        xscale="log",
        xlim=RATIOS,
        xlabel="MAD relative to that of KCDE (line: of means, dots: draws)",
    )
    ticks = [t for t in (0.25, 0.5, 0.7, 1.0, 1.5, 2.0) if inside(ax, t)]
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks], minor=False)
    ax.set_xticks([], minor=True)
    ax.legend(handles=dots(["default", "thesis"]), frameon=False, loc="best")
    ax.grid(axis="x", alpha=0.3)
    return picture


def inside(ax, value: float) -> bool:
    low, high = ax.get_xlim()
    return bool(low <= value <= high)


def dots(methods: Sequence[str]) -> list:
    """Entries of a legend."""
    return [Line2D([], [], color=COLOURS[m], marker="o", ls="", label=m) for m in methods]


def boxes(ax, rows: pd.DataFrame, value: str, methods: Sequence[str]) -> None:
    """A box for each method."""
    data = [rows[rows.method == m][value] for m in methods]
    drawn = ax.boxplot(data, patch_artist=True, widths=0.6, flierprops={"marker": "."})
    for box, method in zip(drawn["boxes"], methods, strict=True):
        box.set(facecolor=COLOURS[method], alpha=0.8)
    for line in drawn["medians"]:
        line.set(color="black")
    ax.set_xticks(range(1, len(methods) + 1), [m.replace(", ", ",\n") for m in methods])
    ax.grid(axis="y", alpha=0.3)
