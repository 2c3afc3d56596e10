"""Figures 4.4 to 4.7: learned observation and transition densities beside the true ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import norm

import kernelmean as km
from kernelmean.datasets import ScalarStateSpace

from ..reproduce import Experiment
from . import algorithm3
from .dynamics import COLOURS, DEFAULT, FIRST_SEED, MODELS, PAPER, ROWS, THESIS, draw

TRUTH = "true law"
LAWS = {TRUTH: "black", DEFAULT: COLOURS[DEFAULT], THESIS: COLOURS[THESIS]}
SLICES = {"emission": (-1.0, -0.25, 0.0, 0.25, 1.0), "transition": (-2.0, -1.0, 0.0, 1.0, 2.0)}
NAMES = {"emission": ("y", "ĝ(y | x)"), "transition": ("x'", "f̂(x' | x)")}
HEIGHTS = 80  # values of y
REACH = 2.5  # of the x of the heat maps
FINE = 10_001  # values of the true x among which quantiles are looked for


def run(seed: int, design: str, n: int) -> list[dict]:
    """Densities on a grid, for every law: those given a few x, and those given many."""
    data = draw(seed, design, n)
    X = data.X[:n]
    model = km.KernelStateSpace(random_state=seed).fit(X)
    laws = algorithm3.tuned(X, seed)
    y, nodes = np.linspace(X.min(), X.max(), HEIGHTS), model.nodes_[:, 0]
    wide = nodes[np.abs(nodes) <= REACH]
    rows = []
    for kind, some in SLICES.items():
        at = y if kind == "emission" else nodes
        for whole, x in ((False, np.array(some)), (True, wide)):
            for law, values in densities(kind, x, at, data.model, model, laws):
                shared = {"law": law, "kind": kind, "whole": whole}
                rows += [
                    {**shared, "x": x[i], "at": at[j], "density": values[i, j]}
                    for i in range(len(x))
                    for j in range(len(at))
                ]
    return rows


def densities(
    kind: str,
    x: np.ndarray,
    at: np.ndarray,
    law: ScalarStateSpace,
    model: km.KernelStateSpace,
    laws: algorithm3.Laws,
) -> Iterator[tuple[str, np.ndarray]]:
    """Of y or of the next state given x, (number of x, number of points)."""
    if kind == "emission":
        yield TRUTH, np.exp(law.log_emission(at, in_own_units(law, x)[0])).T
        yield DEFAULT, np.asarray(model.emission_at(x).density(at[:, None], model.bandwidth_))
        yield THESIS, laws.emission(at, x).T
    else:
        here, (there, slope) = in_own_units(law, x)[0], in_own_units(law, at)
        yield TRUTH, law.transition_density(here, there) * slope
        yield DEFAULT, np.asarray(model.transition_at(x).weights) / (at[1] - at[0])
        yield THESIS, laws.transition(x, at)


def in_own_units(law: ScalarStateSpace, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x with F_π(x) = Φ(z), and dx/dz: states of N(0, 1) as those of the true model (Lemma 4.1)."""
    nodes, mass = law.nodes, law.chain.startprob
    fine = np.linspace(nodes[0], nodes[-1], FINE)
    below = mass @ norm.cdf(fine, law.drift(nodes)[:, None], law.state_noise)
    x = np.interp(norm.cdf(z), below, fine)
    return x, norm.pdf(z) / (mass @ law.transition_density(nodes, x))


# ---------------------------------------------------------------- table and picture
def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """½ ∫ |p̂ − p|, a mean over x ~ N(0, 1): 0 for the same law, 1 for laws that share nothing."""
    rows = rows[rows.seed == rows.seed.min()]
    return pd.DataFrame(
        [
            {
                "model": MODELS[design],
                "density": NAMES[kind][1],
                **{f"distance of {law}": distance(part, law) for law in LAWS if law != TRUTH},
                "published": "pictures",
            }
            for design in MODELS
            for kind in SLICES
            if len(part := rows[(rows.design == design) & (rows.kind == kind)])
        ]
    )


def distance(part: pd.DataFrame, law: str) -> float:
    one, other = heat(part, law), heat(part, TRUTH)
    step = one.columns[1] - one.columns[0]
    weights = norm.pdf(one.index)
    return float(weights @ (one - other).abs().sum(axis=1) * step / 2 / weights.sum())


def heat(part: pd.DataFrame, law: str) -> pd.DataFrame:
    """A line for each x."""
    some = part[part.whole & (part.law == law)]
    return some.pivot_table(index="x", columns="at", values="density")


def figure(rows: pd.DataFrame) -> Figure:
    """For each model a line of observation and one of transition densities."""
    rows = rows[rows.seed == rows.seed.min()]
    lines = [(d, kind) for d in MODELS if d in set(rows.design) for kind in SLICES]
    picture = Figure(figsize=(17, 2.5 * len(lines)), layout="constrained")
    panels = picture.subplots(len(lines), 5 + len(LAWS), squeeze=False)
    for line, (design, kind) in zip(panels, lines, strict=True):
        part = rows[(rows.design == design) & (rows.kind == kind)]
        for ax, x in zip(line, SLICES[kind], strict=False):
            draw_slice(ax, part[~part.whole & (part.x == x)], kind, x)
        for ax, law in zip(line[5:], LAWS, strict=True):
            draw_heat(ax, heat(part, law), kind, law)
        line[0].set_ylabel(f"{MODELS[design]}\n{NAMES[kind][1]}")
    handles, names = panels[0, 0].get_legend_handles_labels()
    picture.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    return picture


def draw_slice(ax, part: pd.DataFrame, kind: str, x: float) -> None:
    for law, colour in LAWS.items():
        style = "--" if law == TRUTH else "-"
        some = part[part.law == law]
        ax.plot(some["at"], some.density, style, color=colour, lw=1.2, label=law)
    ax.set_title(f"x = {x:g}", fontsize=9)
    ax.set_xlabel(NAMES[kind][0])


def draw_heat(ax, values: pd.DataFrame, kind: str, law: str) -> None:
    top = np.quantile(values, 0.99)
    ax.pcolormesh(values.index, values.columns, values.T, cmap="viridis", vmin=0, vmax=top)
    ax.set(xlabel="x", ylabel=NAMES[kind][0])
    ax.set_title(law, fontsize=9)


EXPERIMENTS = [
    Experiment(
        name="spiteri2023-figure44",
        paper=PAPER,
        item="Figures 4.4 to 4.7",
        title="Learned observation and transition densities, and the true ones.",
        run=run,
        summary=summary,
        figure=figure,
        grid=[{"design": design, "n": ROWS} for design in ("bimodal", "linear")],
        quick=[{"design": "linear", "n": 150}],
        runs=1,
        first_seed=FIRST_SEED,
        seconds=20,
        quick_runs=1,
        notes="The true law has latent states whose stationary law is N(0, 1) too, by the "
        "increasing map (Lemma 4.1; thesis: the model's own units). Other representations have "
        "the same law of the observations, so a distance need not be an error.",
    )
]
