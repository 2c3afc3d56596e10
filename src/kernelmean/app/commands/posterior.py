"""`kernelmean posterior`: latents given observations, from examples."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from ...bayes.kernel_bayes import KernelBayes
from ...densities.laws import MovedLaws
from ...display import CURVE, PLAIN
from ...display.densities import heights
from ...embedding.embedding import MeanEmbedding
from ...kernels import Gaussian
from .. import words
from ..command import Command, Data, Names, Shared, columns, option
from ..errors import noted
from ..report import Fact, Figure, Grid, Report, account, analysis
from ..series import by_column, with_ends, with_intervals
from ..tables import answered, check_enough, check_sample
from ..words import level_words, names, number

DRAWN = 3  # rows drawn
CORNER = 5  # latents drawn
GRID = 60  # points along each side of a joint density
INSIDE = (0.5, 0.8, 0.95)  # of the mass within each line
SAY = words.Texts("posterior")
FEW = 5  # values of a latent up to which a smooth law is another thing
RuleName = StrEnum("RuleName", ["density", "importance", "squared"])


@dataclass(frozen=True)
class Settings(Shared):
    """Which columns, and how the rule is applied."""

    latent: Annotated[Names, columns("--latent", "Column(s) to infer")]
    observed: Annotated[Names, columns("--observed", "Column(s) observed")]
    rule: Annotated[RuleName, option(SAY, "--rule")] = RuleName.density
    tune: Annotated[bool, option(SAY, "--tune/--no-tune")] = False

    def model(self) -> KernelBayes:
        """The estimator, not fitted."""
        if self.rule == RuleName.density:
            return KernelBayes("density")
        x, z = Gaussian(columnwise=True), Gaussian(columnwise=True)
        return KernelBayes(self.rule.value, kernel_x=x, kernel_z=z, tune_lengthscale=self.tune)


class Posteriors:
    """Posteriors of the latents at new observations.

    Attributes
    ----------
    settings : Settings
    latent : list of str
        Columns inferred.
    pairs : DataFrame
        The examples: latents and observations side by side; of those read in blocks, some.
    every : DataFrame or Rows
        All of them.
    rows : DataFrame
        The observations conditioned on.
    before : DataFrame
        Samples of the prior, which are those of the pairs unless others were `given`.
    given : array of shape (m, d), or None
    model : KernelBayes
    embedding : MeanEmbedding or MovedLaws
        One posterior per row.
    table : DataFrame
        The answers, as from `at`.
    notes : list of str
        Numerical trouble on the way.
    """

    def __init__(
        self,
        settings: Settings,
        pairs: pd.DataFrame,
        rows: pd.DataFrame,
        prior: pd.DataFrame | None = None,
        every: Any = None,
    ):
        """Learn from the pairs, or all of them, and condition on the rows."""
        check_sample(pairs, "pairs")
        if prior is not None:
            check_enough(len(prior), "samples of the prior")
        self.settings, self.latent = settings, settings.latent
        self.pairs, self.every, self.rows = pairs, pairs if every is None else every, rows
        self.before = (pairs if prior is None else prior)[self.latent]
        self.given = None if prior is None else self.before.to_numpy()
        with noted() as self.notes:
            X, Z = self.every[settings.observed], self.every[self.latent]
            self.model = settings.model().fit(X, Z)
            self.embedding = self._posterior(rows)
        self.table = self._told(self.embedding, rows)

    @property
    def few(self) -> list[str]:
        """What to say of latents of few values, between and beyond which laws are too."""
        counts = self.pairs[self.latent].nunique()
        return [SAY("few", name=name, count=k) for name, k in counts.items() if k <= FEW]

    def _posterior(self, rows: pd.DataFrame) -> MeanEmbedding | MovedLaws:
        return self.model.posterior(rows[self.settings.observed], self.given)

    def at(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Mean, standard deviation, median and interval of each latent, one row per observation."""
        return self._told(self._posterior(rows), rows)

    def _told(self, law: Any, rows: pd.DataFrame) -> pd.DataFrame:
        ends = with_ends(law, self.settings.level)
        answers = {"mean": ends["mean"], "sd": law.std(), "median": law.quantile(0.5), **ends}
        return pd.DataFrame(by_column(self.latent, answers), index=rows.index)

    def axis(self, row: int, name: str, n: int) -> np.ndarray:
        """Where a latent lies before anything is observed, and, with its tails, after."""
        low, high = self.before[name].quantile([0.005, 0.995])
        lower, upper = (self.table[f"{name}_{end}"].iloc[row] for end in ("lower", "upper"))
        tail = 0.5 * (upper - lower)
        return np.linspace(min(low, lower - tail), max(high, upper + tail), n)

    def marginal(self, row: int, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A grid of one latent with the densities of its posterior and its prior."""
        grid = self.axis(row, name, 300)
        after = self._law(row, [name]).density(grid[:, None])
        before = MeanEmbedding(self.before[name].to_numpy(), kernel=Gaussian(1.0)).density(grid)
        return grid, _proper(after, grid), _proper(before, grid)

    def joint(self, row: int, pair: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Grids of two latents, and their density together, (len(second), len(first))."""
        across, up = (self.axis(row, name, GRID) for name in pair)
        points = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
        return across, up, self._law(row, pair).density(points).reshape(GRID, GRID)

    def _law(self, row: int, columns: list[str]) -> MeanEmbedding:
        return self.embedding[row].marginal([self.latent.index(name) for name in columns])


def _proper(density: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """A density, of integral one over the grid."""
    area = np.trapezoid(density, grid)
    return density / area if area > 0 else density


def facts(a: Posteriors) -> list[Fact]:
    """Of another prior than that of the pairs, which the model's summary is of."""
    if a.given is None:
        return []
    reg_prior, reg = a.model.regularisers(a.given)  # η, and λ or δ
    values = {
        "Prior": words.amount(a.given, "sample"),
        "Regulariser of the prior, η": "given" if reg_prior is None else number(reg_prior),
        "Regulariser of the posterior": number(reg),
    }
    return SAY.facts(values, chosen=SAY("chosen", a.settings.rule.value))


def headline(a: Posteriors, name: str) -> str:
    """One sentence: where a latent lies in the first row, and what the observation has brought."""
    row, tail = a.table.iloc[0], (1 - a.settings.level) / 2
    before = a.before[name].quantile([tail, 1 - tail])
    ends = [row[f"{name}_{end}"] for end in ("mean", "lower", "upper")]
    texts = words.numbers([*ends, *before])
    told = zip(("mean", "low", "high", "least", "most"), texts, strict=True)
    known = {"row": a.rows.index[0], "name": name, "level": level_words(a.settings.level)}
    return SAY("headline", **known, **dict(told))


def answers(a: Posteriors) -> Grid:
    """Mean and interval of each latent at the first rows."""
    part = a.table.iloc[: words.SHOWN]
    columns: list[tuple[str, Any]] = [("Row", [str(i) for i in part.index])]
    columns += with_intervals(part, a.latent, a.settings.level)
    caption = f"Posterior means and {level_words(a.settings.level)} intervals"
    return Grid.of(columns, f"{caption}{words.first_of(a.table)}")


def corner(a: Posteriors, row: int) -> Figure:
    """The latents at one row: densities on the diagonal, pairs below it."""
    shown = a.latent[:CORNER]
    k = len(shown)

    def plot(panels: Any) -> None:
        panels = np.reshape(panels, (k, k))
        for i, name in enumerate(shown):
            _draw_marginal(panels[i, i], a, row, name)
            panels[-1, i].set_xlabel(name)
            for j, other in enumerate(shown[:i]):
                _draw_pair(panels[i, j], a, row, [other, name])
            if i:
                panels[i, 0].set_ylabel(name)
        panels[0, 0].legend(frameon=False, fontsize=8)

    seen = words.values_words(a.rows[a.settings.observed].iloc[row])
    label, level = f"Row {a.rows.index[row]}", level_words(a.settings.level)
    pairs = SAY("pairs") if k > 1 else ""
    caption = SAY("marginal", which=label, seen=seen, level=level, pairs=pairs)
    size = 5.4 if k == 1 else 6.8
    name = f"posterior-{a.rows.index[row]}"
    return Figure(name, caption, plot, 2.8 if k == 1 else size, size, shape=(k, k))


def _draw_marginal(axes: Any, a: Posteriors, row: int, name: str) -> None:
    grid, after, before = a.marginal(row, name)
    low, high = (a.table[f"{name}_{end}"].iloc[row] for end in ("lower", "upper"))
    axes.plot(grid, after, color=CURVE, lw=2, label="posterior")
    axes.plot(grid, before, "--", color=PLAIN, lw=1.2, label="prior")
    inside = (grid >= low) & (grid <= high)
    axes.fill_between(grid[inside], after[inside], color=CURVE, alpha=0.15)
    axes.set(yticks=[], xlim=grid[[0, -1]])
    axes.set_ylim(bottom=0)


def _draw_pair(axes: Any, a: Posteriors, row: int, pair: list[str]) -> None:
    across, up, density = a.joint(row, pair)
    if not density.any():  # what is observed leaves nothing of the prior's range
        return
    levels = np.unique(heights(density, INSIDE))
    axes.contourf(across, up, density, [*levels, np.inf], colors=CURVE, alpha=0.25)
    axes.contour(across, up, density, levels, colors=CURVE, linewidths=1)
    means = [a.table[f"{name}_mean"].iloc[row] for name in pair]
    axes.plot(*means, "+", color=PLAIN, ms=8)


def report(a: Posteriors, source: str, asked: Any = None) -> Report:
    """The answer; `asked` are rows that are read in blocks, to be answered about."""
    s, shown = a.settings, range(min(DRAWN, len(a.rows)))
    prior = "" if a.given is None else ", prior=samples"
    notes = [*words.of_file(a.notes, a.rows.index), *a.few]
    notes += words.edges(a.before[a.latent], a.table)
    return analysis(
        SAY,
        f"{names(a.latent)} given {names(s.observed)}",
        f"Kernel Bayes' rule · {source} · {words.amount(a.every, 'pair')}",
        [headline(a, name) for name in a.latent[:CORNER]],
        [*words.some_of(a.pairs, a.every), *notes],
        {"The posteriors": [answers(a), *(corner(a, row) for row in shown)]},
        account(SAY, (a.model.density_ or a.model).summary, facts(a)),
        [SAY.code("code", rows=words.some_rows(s.observed), prior=prior, level=s.level)],
        {**answered("posterior", asked, a.at, a.table), words.MODEL: a.model.save},
    )


At = Annotated[Path, option(SAY, "--at", show_default=False)]
Prior = Annotated[Path | None, option(SAY, "--prior")]


def run(settings: Settings, pairs: Data, at: At, prior: Prior = None) -> Report:
    """What is known of LATENT once OBSERVED is seen, learned from examples of both.

    Writes posterior.csv, model.km and report.html into the folder --out.
    """
    s, wanted, seen = settings, {"--latent": settings.latent}, {"--observed": settings.observed}
    frame, every = s.numbers(pairs, {**wanted, **seen})
    rows, asked = s.numbers(at, seen, first=True)
    samples = None if prior is None else s.numbers(prior, wanted)[0]
    with s.stage("Learning from the pairs, and conditioning", bars=every is not frame):
        a = Posteriors(s, frame, rows, samples, every)
    with s.stage("Drawing the posteriors"):
        return report(a, pairs.name, asked)


COMMAND = Command("posterior", Settings, run)
