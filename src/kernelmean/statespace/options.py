"""Options of a state-space model: the law of its latent states, and how they are filtered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.parameters import Options, as_options, called, choice, count, either, optional, positive

# ------------------------------------------------------------ the latent law


@dataclass(frozen=True, repr=False)
class Normal(Options):
    """π* of the latent states is standard normal; some nodes stand for it.

    Parameters
    ----------
    d : int, optional
        Dimension of the states; None is the estimator's `n_latent`.
    nodes : int, optional
        Their number; None is 51, 120, 200 in one, two, more dimensions.
    kernel : Kernel or str
        Embeds the states.
    transition : callable, optional
        A known M: a simulator (x, rng) -> x', with x and x' of shape (N, d). Only O is learned, and
        π* is the stationary law of M, which is simulated from draws of this one.

    Examples
    --------
    >>> import kernelmean as km
    >>> X = km.datasets.make_state_space("linear", 200, random_state=0).X
    >>> latent, em = km.Normal(2, nodes=30), km.EM(n_init=1, max_iter=3)
    >>> km.KernelStateSpace(latent=latent, em=em).fit(X).nodes_.shape
    (30, 2)
    """

    d: int | None = None
    nodes: int | None = None
    kernel: Any = "gaussian"
    transition: Callable | None = None

    ALLOWED: ClassVar = {
        "d": optional(count()),
        "nodes": optional(count(3)),
        "transition": optional(called),
    }
    law: ClassVar = "normal"


@dataclass(frozen=True, repr=False)
class Uniform(Normal):
    """π* of the latent states is uniform on the unit cube; parameters as for `Normal`."""

    law: ClassVar = "uniform"


@dataclass(frozen=True, repr=False)
class Sampled(Normal):
    """π* of the latent states is that of draws; parameters as for `Normal`, and

    Parameters
    ----------
    law : callable
        A sampler (n, rng) -> array (n, d).
    """

    law: Callable | None = None  # type: ignore[assignment,misc]

    ALLOWED: ClassVar = Normal.ALLOWED | {"law": called}


LAWS = {"normal": Normal, "uniform": Uniform}


def as_latent(latent: Any) -> Normal:
    """Options of a latent law given by its name, a sampler or options."""
    if callable(latent):
        return Sampled(law=latent)
    return as_options(latent, "latent", LAWS)


# ------------------------------------------------------------ what is a line in the past


@dataclass(frozen=True, repr=False)
class Backbone(Options):
    """A linear model of the series, whose innovations the states are then learned from.

    u_t = D_t + Σ_l Φ_l u_{t−l} + e_t by least squares, where u is the series, its differences, or
    what these leave beyond an average of the past that decays. What is "auto" is judged by
    forecasts of the later half of the rows, stretch by stretch, from lines fitted to the rows
    before it. Forms near the likeliest, of one season, memory and transform, are averaged, the
    likelier having more of the mean, which is a line again. Lags are shrunk towards no change, the
    longer the more (Litterman 1986), or not at all.

    Parameters
    ----------
    order : int or "auto"
        Lags; "auto" is AIC's choice.
    trend : {"auto", "n", "c", "ct", "drift"}
        Of u: nothing, a constant, a constant and time, which counts from where a sequence begins.
        A constant in a difference is a drift;
        "drift" shrinks it to what is beyond doubt, as "auto" does.
    difference : {"auto", 0, 1}
        Whether the level wanders.
    season : int, optional
        Rows of a season: a constant for each row of it, or seasonal differences. Every sequence,
        new ones too, begins in the same row of it as those that were learned from.
    transform : {"auto", "log", "sqrt"} or None
        Of positive series, or counts. Forecasts are in the units of the series.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> rng = np.random.default_rng(0)
    >>> X = np.cumsum(rng.standard_normal((200, 1)), axis=0)
    >>> model = km.KernelStateSpace(backbone=km.Backbone(difference=1, order=0)).fit(X)
    >>> bool(abs(model.predict(X)[1:] - X[:-1]).max() < 0.5)  # tomorrow is today
    True
    """

    order: int | str = "auto"
    trend: str = "auto"
    difference: int | str = "auto"
    season: int | None = None
    transform: str | None = "auto"

    ALLOWED: ClassVar = {
        "order": either(count(0), "auto"),
        "trend": choice("auto", "n", "c", "ct", "drift"),
        "difference": either(choice("auto"), 0, 1),
        "season": optional(count(2)),
        "transform": optional(choice("auto", "log", "sqrt")),
    }


# ------------------------------------------------------------ filters


@dataclass(frozen=True, repr=False)
class Nodes(Options):
    """States are filtered by Bayes' rule with the recovered densities on the nodes: exactly."""


@dataclass(frozen=True, repr=False)
class Particles(Options):
    """States are filtered by a bootstrap particle filter over the recovered densities.

    Parameters
    ----------
    n : int
        Number of particles.
    """

    n: int = 500

    ALLOWED: ClassVar = {"n": count()}


@dataclass(frozen=True, repr=False)
class KernelRule(Options):
    """States are filtered by kernel Bayes' rule from the embedded laws, without densities.

    Parameters
    ----------
    reg : float, optional
        λ; None takes the one whose filter is nearest to the smoother.
    """

    reg: float | None = None

    ALLOWED: ClassVar = {"reg": optional(positive())}


FILTERS = {"nodes": Nodes, "particles": Particles, "kbr": KernelRule}


def as_filter(inference: Any) -> Any:
    """Options of a filter given by its name or by options."""
    return as_options(inference, "inference", FILTERS)
