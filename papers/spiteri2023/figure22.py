"""Figure 2.2: densities of two columns of the Gaussian triangle."""

from __future__ import annotations

import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..reproduce import Experiment
from . import triangle
from .errors import FIRST_SEED, PAPER

NAMES = ("truth", *triangle.SHOWN)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Errors on the square of points, and the highest density on it."""
    return pd.DataFrame(
        [
            {
                "x": x,
                "method": method,
                "MAD": (part[method] - part.truth).abs().groupby(part.seed).max().mean(),
                "MSE": ((part[method] - part.truth) ** 2).mean(),
                "highest": part[method].groupby(part.seed).max().mean(),
                "highest, truth": part.truth.groupby(part.seed).max().mean(),
                "published": "a picture",
            }
            for x, part in rows.groupby("x", sort=False)
            for method in triangle.SHOWN
        ]
    )


def figure(rows: pd.DataFrame) -> Figure:
    """A row for each x, the truth on the left; one scale of colours in each row."""
    one = rows[rows.seed == rows.seed.min()]
    picture = Figure(figsize=(3.2 * len(NAMES), 6.6), layout="constrained")
    panels = picture.subplots(len(triangle.XS), len(NAMES), sharex=True, sharey=True)
    for line, (x, part) in zip(panels, one.groupby("x", sort=False), strict=True):
        norm = Normalize(0, part[list(NAMES)].max().max())
        for ax, name in zip(line, NAMES, strict=True):
            table = part.pivot_table(index="z", columns="y", values=name)
            ax.contourf(table.columns, table.index, table, 12, norm=norm)
            ax.set(title=f"{name}, x = {x:g}", xlabel="y", ylabel="z", aspect="equal")
            ax.label_outer()
        picture.colorbar(ScalarMappable(norm), ax=line)
    return picture


EXPERIMENTS = [
    Experiment(
        name="spiteri2023-figure22",
        paper=PAPER,
        item="Figure 2.2",
        title="True and estimated densities of (Y, Z) given x, Gaussian triangle.",
        run=triangle.given_x,
        summary=summary,
        figure=figure,
        grid=[{}],
        quick=[{"n": 150, "side": 20}],
        runs=1,
        first_seed=FIRST_SEED,
        seconds=15,
        quick_runs=1,
        notes="The picture is of the first seed.",
    )
]
