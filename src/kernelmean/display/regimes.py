"""Hidden Markov models: how many states, what they emit, and when each of them held."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..chains.emission import can_smooth
from ..chains.estimator import ChainEstimator
from ..chains.order import Order
from ..core.arrays import like, to_numpy
from ..core.checks import as_points, check_column
from ..core.labels import Labels
from ..core.sequences import check_sequences
from ..hmm.kernel_hmm import KernelHMM
from .base import Display, PanelDisplay, TimePanels, as_times, grid_between, panels
from .style import CURVE, DATA, DRAWN, PLAIN, TRUTH, in_legend, legend_above, literal

STATES = (CURVE, "#e69138", "#6aa84f", "#a61c00", "#8e7cc3", "#45818e", "#f1c232", "#741b47")
NUMBERS = 15  # singular values or correlations in a picture
COLUMNS = 4  # of the observations above the probabilities; more are left out
TAILS = (0.002, 0.998)  # quantiles of the observations between which densities are drawn
MARGIN = 0.1  # of that range, on either side
BINS = 60  # of a histogram, at most
MANY = 5  # states with a legend among their densities; that of more stands above them


@dataclass
class SpectrumDisplay(Display):
    """What speaks for a number of hidden states, and the number chosen.

    Singular values of the cross-covariance of consecutive observations (K states leave K of
    them), their canonical correlations (K states leave K − 1), or held-out log-likelihoods:
    whatever the rule looked at.

    Attributes
    ----------
    numbers : int array of shape (m,)
        Numbers of states.
    values : array of shape (m,)
        What speaks for at least that many states, or (held-out likelihood) for that many.
    order : int
        The number chosen.
    threshold : float or None
        What the values were compared with.
    name : str
        Of the values.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_hmm("separated", 5000, random_state=0)
    >>> display = km.display.SpectrumDisplay.from_order(km.estimate_order(data.X))
    >>> display.name, display.order
    ('canonical correlation', 2)
    """

    numbers: np.ndarray
    values: np.ndarray
    order: int
    threshold: float | None
    name: str

    @classmethod
    def from_estimator(cls, estimator: KernelHMM) -> Self:
        """Show how the estimator chose its number of states, or the one that it was given."""
        order, K = estimator.order_, estimator.n_components_
        return cls.from_order(order or Order(K, "given", estimator.singular_values_))

    @classmethod
    def from_order(cls, order: Order) -> Self:
        """Show what `estimate_order` found."""
        if order.scores:
            numbers, values = (np.array(part) for part in zip(*order.scores.items(), strict=True))
            return cls(numbers, values, int(order), None, "held-out log-likelihood of a row")
        if len(order.correlations):
            least, values, name = 2, order.correlations[: NUMBERS - 1], "canonical correlation"
        else:
            least, values, name = 1, np.asarray(order.singular_values)[:NUMBERS], "singular value"
        numbers = np.arange(least, least + len(values))
        return cls(numbers, values, int(order), order.threshold, name)

    def _draw(self, ax) -> None:
        likelihood = self.name.startswith("held-out")
        chosen = self.numbers == self.order if likelihood else self.numbers <= self.order
        ax.plot(self.numbers, self.values, color=DATA, lw=0.8, zorder=1)
        ax.plot(self.numbers[~chosen], self.values[~chosen], "o", color=DATA, mfc="white")
        states = f"{self.order} state{'s' if self.order > 1 else ''}"
        ax.plot(self.numbers[chosen], self.values[chosen], "o", color=CURVE, label=states)
        if self.threshold is not None:
            ax.axhline(self.threshold, color=PLAIN, lw=1.2, ls="--", label="threshold")
        if self.name == "singular value":
            ax.set_yscale("log")
        ax.set(xlabel="number of states", ylabel=self.name)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False, fontsize=8)


@dataclass
class RegimeDisplay(TimePanels):
    """Probabilities of the hidden states over time, with the observations above.

    Each observation has the colour of its most probable state.

    Attributes
    ----------
    times : array of shape (n,)
    probabilities : array of shape (n, K)
    series : array of shape (n, d)
        The observations, NaN where missing; without columns where there are more than four.
    names : list of str
        Of the columns of `series`.
    labels : list of str
        Of the states.
    sequences : list of slice
        No line crosses from one to the next.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_hmm("separated", 500, random_state=0)
    >>> model = km.KernelHMM(2, refine=False, random_state=0).fit(data.X)
    >>> display = km.display.RegimeDisplay.from_estimator(model, data.X)
    >>> display.probabilities.shape, display.labels
    ((500, 2), ['state 0', 'state 1'])
    """

    times: np.ndarray
    probabilities: np.ndarray
    series: np.ndarray
    names: list[str]
    labels: list[str]
    sequences: list[slice]
    each, more = "one per column and one for the probabilities", 1

    @classmethod
    def from_estimator(
        cls,
        estimator: KernelHMM,
        X,
        *,
        smooth: bool = True,
        times=None,
        lengths=None,
        inputs=None,
        labels: Sequence[str] | None = None,
    ) -> Self:
        """Probabilities of the states at the rows of `X`.

        Parameters
        ----------
        estimator : fitted KernelHMM
        X : array or DataFrame of shape (n, d)
            A row with NaN is a missing observation.
        smooth : bool
            Given all of the sequence; False: given the observations up to each row.
        times : array of shape (n,), optional
            Numbers or dates for the horizontal axis; None counts the rows.
        lengths : sequence of int, optional
            Rows of each sequence.
        inputs : array or DataFrame of shape (n, p), optional
            As in `fit`, and if there.
        labels : sequence of str, optional
            What the states are called.
        """
        run = estimator.predict_proba if smooth else estimator.filter
        probabilities = to_numpy(run(X, lengths, inputs))
        series = to_numpy(as_points(X, "X", one_d=False, gaps=True))
        n, names = len(series), Labels.known_to(estimator).named(estimator.n_features_in_)
        if len(names) > COLUMNS:
            series, names = series[:, :0], []
        times, sequences = as_times(times, n), check_sequences(lengths, n)
        return cls(times, probabilities, series, names, state_names(estimator, labels), sequences)

    def _draw(self, axes, j: int) -> None:
        axes.margins(x=0)
        if j == len(self.names):
            self._draw_probabilities(axes)
            return
        many = len(self.times) > DRAWN  # as a picture, or the file would be large
        for s in self.sequences:
            line = {"color": DATA, "lw": 0.5, "alpha": 0.6, "rasterized": many}
            axes.plot(self.times[s], self.series[s, j], **line)
        likely = self.probabilities.argmax(axis=1)
        dots = {"ms": 3 if many else 5, "mew": 0, "alpha": 0.8, "rasterized": many}
        for k, label in enumerate(self.labels):
            here = likely == k
            axes.plot(self.times[here], self.series[here, j], ".", color=_colour(k), **dots)
            # large enough for the legend
            axes.plot([], [], color=_colour(k), marker="s", ls="", label=in_legend(label))

    def _draw_probabilities(self, axes) -> None:
        colours = [_colour(k) for k in range(len(self.labels))]
        for s in self.sequences:
            shares = self.probabilities[s].T
            axes.stackplot(self.times[s], shares, colors=colours, labels=self.labels, lw=0)
        axes.set(ylim=(0, 1), ylabel="probability")


@dataclass
class EmissionDisplay(Display):
    """What each hidden state emits: the density of one column of the observations.

    Attributes
    ----------
    grid : array of shape (m,)
    densities : array of shape (K, m)
    shares : array of shape (K,)
        How often each state holds: in the rows shown, or in the long run where there are none.
    observed : array of shape (n,), or None
        Shown as a histogram behind Σ_k share_k f_k.
    name : str
        Of the column.
    labels : list of str
        Of the states.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_hmm("separated", 500, random_state=0)
    >>> model = km.KernelHMM(2, refine=False, random_state=0).fit(data.X)
    >>> display = km.display.EmissionDisplay.from_estimator(model, data.X)
    >>> display.densities.shape, display.mixture.shape
    ((2, 400), (400,))
    """

    grid: np.ndarray
    densities: np.ndarray
    shares: np.ndarray
    observed: np.ndarray | None
    name: str
    labels: list[str]

    @property
    def mixture(self) -> np.ndarray:
        """Σ_k share_k f_k: the density of an observation when nothing is known, (m,)."""
        return self.shares @ self.densities

    @classmethod
    def from_estimator(
        cls,
        estimator: KernelHMM,
        X=None,
        *,
        column: int | str = 0,
        labels: Sequence[str] | None = None,
        n_grid: int = 400,
        lengths=None,
        inputs=None,
    ) -> Self:
        """Densities of one column in each state.

        Parameters
        ----------
        estimator : fitted KernelHMM
        X : array or DataFrame of shape (n, d), optional
            Observations to show behind the densities.
        column : int or str
            Number or name.
        labels : sequence of str, optional
            What the states are called.
        n_grid : int
        lengths, inputs
            Of `X`, as for `RegimeDisplay.from_estimator`. A model with inputs shows the states'
            shares in the long run where `X` comes without them.
        """
        check_is_fitted(estimator)
        names = Labels.known_to(estimator).named(estimator.n_features_in_)
        j = check_column(column, names)
        low, high = np.quantile(to_numpy(estimator.emissions_.points)[:, j], TAILS)
        margin = MARGIN * (high - low) or 1.0
        grid = grid_between(low - margin, high + margin, n_grid)
        observed, shares = None, estimator.startprob_
        if X is not None:
            observed = to_numpy(as_points(X, "X", one_d=False, gaps=True))[:, j]
            there = np.isfinite(observed)
            if there.any() and not (estimator.inputs_ and inputs is None):
                shares = to_numpy(estimator.predict_proba(X, lengths, inputs))[there].mean(axis=0)
        densities, states = densities_along(estimator, j, grid), state_names(estimator, labels)
        return cls(grid, densities, shares, observed, names[j], states)

    def _draw(self, ax) -> None:
        if self.observed is not None:
            many = int(min(BINS, 2 * len(self.observed) ** 0.5))
            bins = np.linspace(self.grid[0], self.grid[-1], many + 1)
            ax.hist(self.observed, bins, density=True, color=DATA, alpha=0.25, lw=0)
        for k, density in enumerate(self.densities):
            label = f"{in_legend(literal(self.labels[k]))} ({100 * self.shares[k]:.0f}%)"
            ax.fill_between(self.grid, density, color=_colour(k), alpha=0.12, lw=0)
            ax.plot(self.grid, density, color=_colour(k), lw=1.8, label=label)
        ax.plot(self.grid, self.mixture, "--", color=TRUTH, lw=1.2, label="all states")
        ax.set(xlabel=literal(self.name), ylabel="density", xlim=self.grid[[0, -1]])
        ax.set_ylim(bottom=0)
        if len(self.shares) > MANY:
            legend_above(ax)
        else:
            ax.legend(frameon=False, fontsize=8)


@dataclass
class EmissionImageDisplay(PanelDisplay):
    """The mean of what each hidden state emits, as images.

    Attributes
    ----------
    images : array of shape (K, height, width)
    labels : list of str
        Of the states.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_digit_hmm(2, 500, random_state=0)
    >>> model = km.KernelHMM(2, refine=False, random_state=0).fit(data.X)
    >>> display = km.display.EmissionImageDisplay.from_estimator(model, (8, 8))
    >>> display.images.shape
    (2, 8, 8)
    """

    images: np.ndarray
    labels: list[str]

    @classmethod
    def from_estimator(
        cls, estimator: KernelHMM, shape: tuple[int, int], *, labels: Sequence[str] | None = None
    ) -> Self:
        """Means of the emission laws.

        Parameters
        ----------
        estimator : fitted KernelHMM
        shape : (height, width)
            Of the image that each observation is, row by row.
        labels : sequence of str, optional
            What the states are called.
        """
        check_is_fitted(estimator)
        means = to_numpy(estimator.emissions_.mean())
        if len(shape) != 2 or np.prod(shape) != means.shape[1]:
            raise ValueError(
                f"shape is {shape}; a height and a width with a product of {means.shape[1]}, the "
                "number of columns, are needed"
            )
        return cls(means.reshape(-1, *shape), state_names(estimator, labels))

    def plot(self, ax=None) -> Self:
        """Draw one panel per state; returns self, with `axes_` set.

        Parameters
        ----------
        ax : array of Axes, optional
            As many as there are states; new ones when left out.
        """
        count = len(self.images)
        self.axes_ = panels(ax, count, "one per state", across=count, size=(1.8 * count, 2.2))
        low, high = self.images.min(), self.images.max()  # the same greys in all panels
        for axes, image, label in zip(self.axes_, self.images, self.labels, strict=True):
            axes.imshow(image, cmap="gray_r", vmin=low, vmax=high)
            axes.set(title=literal(label), xticks=[], yticks=[])
        return self


@dataclass
class HistoryDisplay(Display):
    """How EM climbed: the mean log-likelihood of a row by iteration.

    Attributes
    ----------
    values : array
    converged : bool
        Whether the climb ended by itself.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_hmm("separated", 500, random_state=0)
    >>> model = km.KernelHMM(2, em=km.EM(n_init=2), random_state=0).fit(data.X)
    >>> display = km.display.HistoryDisplay.from_estimator(model)
    >>> len(display.values) == len(model.history_)
    True
    """

    values: np.ndarray
    converged: bool

    @classmethod
    def from_estimator(cls, estimator: KernelHMM) -> Self:
        """Show how the estimator was learned."""
        check_is_fitted(estimator)
        if not len(estimator.history_):
            raise ValueError("estimator was fitted with refine=False; a history of EM is needed")
        return cls(estimator.history_, estimator.converged_)

    def _draw(self, ax) -> None:
        steps = np.arange(1, len(self.values) + 1)
        ax.plot(steps, self.values, color=CURVE, lw=1.5, marker=".", ms=4)
        end = "converged" if self.converged else "stopped at max_iter"
        ax.plot(steps[-1:], self.values[-1:], "o", color=PLAIN, label=end)
        ax.set(xlabel="iteration", ylabel="mean log-likelihood of a row")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False, loc="lower right")


def state_names(estimator: KernelHMM, labels: Sequence[str] | None = None) -> list[str]:
    """What the states are called: as given, or by number."""
    K = estimator.n_components_
    if labels is None:
        return [f"state {k}" for k in range(K)]
    if len(labels) != K:
        raise ValueError(f"labels has {len(labels)} names; {K} are needed, one per state")
    return list(labels)


def densities_along(estimator: ChainEstimator, j: int, grid: np.ndarray) -> np.ndarray:
    """f_k along the grid, of the whole observation or of one of its columns: (K, m)."""
    laws, width, plain = estimator.emissions_, estimator.bandwidth_, estimator.variates_ is None
    Y = like(grid[:, None], laws.points)
    if laws.points.shape[1] == 1 and (plain or not can_smooth(estimator.kernel_, laws.points)):
        return np.exp(estimator.chain_.log_densities(Y)).T
    if estimator.chain_.marginals:
        return np.exp(estimator.chain_.marginal([j]).log_density(Y)).T
    one = width[j] if isinstance(width, tuple) else width
    return to_numpy(laws.marginal(j).density(Y, one if plain else None))


def _colour(k: int) -> str:
    return STATES[k % len(STATES)]
