"""State-space models whose law is known: those of Spiteri (2023), section 4.6.1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from ..chains import markov
from ..core import arrays, checks
from ..core.moments import block_rows, row_blocks
from ..core.sequences import check_sequences
from .tables import Dataset

__all__ = ["ScalarStateSpace", "StateSpaceData", "make_state_space"]

DEVIATIONS = 9  # standard deviations on either side that nodes cover
SPACING = 0.7  # of nodes, relative to the narrowest bend that is integrated over
MOST_NODES = 10_000
HALVINGS = 42  # of the bracket of a quantile
SETTLED = 1e-14  # change of the stationary law at which its iteration ends


@dataclass(frozen=True, repr=False)
class StateSpaceData(Dataset):
    """A simulated sequence of latent states and of observations.

    Attributes
    ----------
    X : array of shape (n, 1)
        Observations y.
    states : array of shape (n, 1)
        x.
    model : ScalarStateSpace
        The law they were drawn from.
    """

    X: np.ndarray
    states: np.ndarray
    model: ScalarStateSpace


@dataclass(frozen=True, repr=False)
class ScalarStateSpace(Dataset):
    """x_{t+1} = f(x_t) + σ ε_t, y_t ~ g(· | x_t), both one number; x_1 follows the stationary law.

    Filters are exact up to quadrature (about 1e-9): integrals over x are sums over equally spaced
    nodes, which for smooth densities converge faster than any power of the spacing, and the rest is
    the forward recursion of a finite chain.

    Attributes
    ----------
    drift : callable
        f.
    state_noise : float
        σ.
    emission : object
        g.
    """

    drift: _Drift
    state_noise: float
    emission: _Noisy | _Volatile

    # ---------------------------------------------------------------- drawing

    def draw_first(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n states from the stationary law, (n, 1)."""
        # one step from a node chosen by its probability has the law itself, not a discrete one
        return self.draw_next(rng.choice(self.nodes, size=(n, 1), p=self.chain.startprob), rng)

    def draw_next(self, x, rng: np.random.Generator) -> np.ndarray:
        """The next state of every row of `x`, each with noise of its own."""
        return self.drift(x) + self.state_noise * rng.standard_normal(np.shape(x))

    def draw_emission(self, x, rng: np.random.Generator) -> np.ndarray:
        """One observation of every row of `x`."""
        return self.emission.draw(x, rng)

    def sample(self, n: int = 1000, random_state: Any = None) -> StateSpaceData:
        """A sequence of n steps."""
        n, rng = checks.check_count(n, "n"), checks.generator(random_state)
        states = np.empty((n, 1))
        states[:1] = self.draw_first(1, rng)
        for t in range(1, n):
            states[t] = self.draw_next(states[t - 1], rng)
        return StateSpaceData(self.draw_emission(states, rng), states, self)

    # ---------------------------------------------------------------- densities

    def transition_density(self, x, x_next) -> np.ndarray:
        """p(x′_j | x_i) of rows x and x′, shape (m, N)."""
        centres = self.drift(np.reshape(x, (-1, 1)))
        return stats.norm.pdf(np.ravel(x_next), centres, self.state_noise)

    def log_emission(self, Y, x) -> np.ndarray:
        """log g(y_i | x_j) of rows y and x, shape (m, N)."""
        return self.emission.law(np.ravel(x)).logpdf(np.reshape(Y, (-1, 1)))

    def mean_emission(self, x) -> np.ndarray:
        """E[y | x], one row for each of `x`."""
        return np.broadcast_to(self.emission.law(x).mean(), np.shape(x))

    # ---------------------------------------------------------------- the exact filter

    @cached_property
    def nodes(self) -> np.ndarray:
        """Equally spaced values of x, shape (m,)."""
        reach = self.drift.reach(self.state_noise)
        # x̂ given y and x_{t-1}, and the next density as a function of x: the narrower of the two
        posterior = (self.state_noise**-2 + self.emission.width**-2) ** -0.5
        narrowest = min(posterior, self.state_noise / self.drift.slope)
        count = int(2 * reach / (SPACING * narrowest)) + 1
        if count > MOST_NODES:
            raise ValueError(
                f"the exact filter would take {count} nodes; at most {MOST_NODES} are allowed: "
                "a larger noise or state_noise is needed"
            )
        return np.linspace(-reach, reach, count)

    @cached_property
    def chain(self) -> markov.Chain:
        """The law of the states on `nodes`."""
        transmat = self.transition_density(self.nodes, self.nodes)
        transmat /= transmat.sum(axis=1, keepdims=True)
        return markov.Chain(_stationary(transmat, self.nodes), transmat)

    def filter(self, X, lengths=None) -> np.ndarray:
        """E[x_t | y_1, ..., y_t], shape (n, 1)."""
        return self._filtered(X, lengths)[0] @ self.nodes[:, None]

    def predict(self, X, lengths=None) -> np.ndarray:
        """E[y_t | y_1, ..., y_{t-1}], shape (n, 1); in the first row of a sequence, E[y]."""
        return self._predicted(X, lengths) @ self.mean_emission(self.nodes[:, None])

    def log_predictive(self, X, lengths=None) -> np.ndarray:
        """log p(y_t | y_1, ..., y_{t-1}), shape (n,); 0 where y_t is missing."""
        return self._filtered(X, lengths)[1]

    def forecast_interval(self, X, level: float = 0.95, lengths=None) -> np.ndarray:
        """The (1 − level)/2 and (1 + level)/2 quantiles of y_t given y_1, ..., y_{t-1}, (n, 2)."""
        tail = (1 - checks.check_level(level)) / 2
        weights = self._predicted(X, lengths)
        return np.column_stack([self._quantile(weights, q) for q in (tail, 1 - tail)])

    def _filtered(self, X, lengths) -> tuple[np.ndarray, np.ndarray, list[slice]]:
        points = arrays.as_columns(X, 1, "X", "the model", gaps=True)
        logs, seen = np.zeros((len(points), len(self.nodes))), ~np.isnan(points[:, 0])
        logs[seen] = self.log_emission(points[seen], self.nodes)
        sequences = check_sequences(lengths, len(points))
        return *markov.filtered(logs, self.chain, sequences), sequences

    def _predicted(self, X, lengths) -> np.ndarray:
        """P(x_t = node | y_1, ..., y_{t-1}), shape (n, m)."""
        alpha, _, sequences = self._filtered(X, lengths)
        return markov.predicted(alpha, self.chain, sequences)

    def _quantile(self, weights: np.ndarray, q: float) -> np.ndarray:
        """y with Σ_j w_j G(y | x_j) = q for every row of weights, by bisection."""
        law = self.emission.law(self.nodes)
        ends = law.ppf(q)  # the mixture's quantile lies between those of its parts
        low, high = np.full(len(weights), ends.min()), np.full(len(weights), ends.max())
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = _mixture_cdf(law, weights, middle) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high


def _stationary(transmat: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """π = πQ by iteration from an even law: what is left of the start dies out geometrically."""
    law = np.exp(-0.5 * (nodes / nodes[-1] * DEVIATIONS) ** 2)
    law /= law.sum()
    while True:
        new = law @ transmat
        if np.abs(new - law).max() < SETTLED:
            return new / new.sum()
        law = new


def _mixture_cdf(law: Any, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Σ_j w_ij G(y_i | x_j), a few rows at a time."""
    blocks = row_blocks(weights, y[:, None], rows=block_rows(weights.shape[1]))
    return np.concatenate([np.sum(w * law.cdf(some), axis=1) for w, some in blocks])


# ---------------------------------------------------------------- the models of the thesis


@dataclass(frozen=True)
class _Drift:
    """a x + b x/(1 + x²): with a = ½ and b = 25 at rest at ±7, and at 0, which it leaves."""

    a: float
    b: float = 0.0

    @property
    def slope(self) -> float:
        """The steepest."""
        return abs(self.a + self.b) or 1.0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.a * x + self.b * x / (1 + x**2)

    def reach(self, noise: float) -> float:
        """Largest |x| with any probability to speak of."""
        if self.b:
            return 13.1 + DEVIATIONS * noise  # |f| is largest about 1 of all |x| < 24
        return DEVIATIONS * noise / (1 - self.a**2) ** 0.5


@dataclass(frozen=True)
class _Noisy:
    """y = x + σ v; `width` is how narrow p(y | x) is as a function of x."""

    width: float

    def law(self, x) -> Any:
        """The law of y, as scipy has them."""
        return stats.norm(x, self.width)

    def draw(self, x, rng: np.random.Generator) -> np.ndarray:
        return x + self.width * rng.standard_normal(np.shape(x))


@dataclass(frozen=True)
class _Volatile:
    """r = σ (e^x/2)^½ v, or log r² = x + log σ² + log(v²/2), where v²/2 is a Gamma(½) number."""

    noise: float
    log_squared: bool
    width: float = 0.5

    def law(self, x) -> Any:
        """The law of y, as scipy has them."""
        if self.log_squared:
            return stats.loggamma(0.5, loc=x + 2 * np.log(self.noise))
        return stats.norm(0, self._scale(x))

    def draw(self, x, rng: np.random.Generator) -> np.ndarray:
        r = self._scale(x) * rng.standard_normal(np.shape(x))
        return np.log(r**2) if self.log_squared else r

    def _scale(self, x):
        return self.noise * np.exp(x / 2) / 2**0.5


# defaults of the parameters: models 18, 19 and 20
DESIGNS: dict[str, dict[str, Any]] = {
    "linear": {"persistence": 0.95, "state_noise": 0.6, "noise": 0.6},
    "bimodal": {"state_noise": 10**0.5, "noise": 1.0},
    "volatility": {"persistence": 0.95, "state_noise": 1.0, "noise": 1.0, "log_squared": True},
}


def make_state_space(
    design: str = "linear", n: int = 1000, *, random_state: Any = None, **parameters: Any
) -> StateSpaceData:
    """Draws from x_{t+1} = f(x_t) + σ_x u_t, y_t ~ g(· | x_t), with x_1 from the stationary law.

    ============  ======================  ==================================  ===========
    design        f(x)                    y                                   σ_x, σ_y
    ============  ======================  ==================================  ===========
    "linear"      ρx                      x + σ_y v                           0.6, 0.6
    "bimodal"     x/2 + 25x/(1 + x²)      x + σ_y v                           √10, 1
    "volatility"  ρx                      log of the square of σ_y(eˣ/2)^½ v  1, 1
    ============  ======================  ==================================  ===========

    u and v are standard normal, and ρ = 0.95.

    Parameters
    ----------
    design : {"linear", "bimodal", "volatility"}
        Models 18, 19 and 20 of the thesis.
    n : int
        Steps.
    random_state : int, Generator or None
    **parameters : float
        Others than these: `persistence` ρ (not of "bimodal"), `state_noise` σ_x, `noise` σ_y; and
        of "volatility", `log_squared=False` for σ_y(eˣ/2)^½ v itself, which the same seed draws.

    Returns
    -------
    StateSpaceData

    References
    ----------
    Spiteri (2023), Nonparametric estimation with kernel mean embeddings, models 18-20; the second
    follows Kitagawa (1987), Non-Gaussian state-space modeling of nonstationary time series.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_state_space("linear", 500, random_state=0)
    >>> data.X.shape, data.states.shape
    ((500, 1), (500, 1))
    >>> forecasts = data.model.predict(data.X)  # by the exact filter
    >>> bool(abs(((data.X - forecasts) ** 2).mean() - 0.94) < 0.1)  # Kalman: 0.94
    True
    """
    defaults = DESIGNS[checks.check_choice(design, "design", DESIGNS)]
    for name in parameters:
        checks.check_choice(name, f'a parameter of "{design}"', defaults)
    return _model(design, defaults | parameters).sample(n, random_state)


def _model(design: str, parameters: dict[str, Any]) -> ScalarStateSpace:
    state_noise = checks.check_positive(parameters["state_noise"], "state_noise")
    noise = checks.check_positive(parameters["noise"], "noise")
    drift = _Drift(0.5, 25.0) if design == "bimodal" else _Drift(_persistence(parameters))
    if design != "volatility":
        return ScalarStateSpace(drift, state_noise, _Noisy(noise))
    logs = parameters["log_squared"]
    if not isinstance(logs, bool | np.bool_):
        raise ValueError(f"log_squared is {logs!r}; True or False is needed")
    return ScalarStateSpace(drift, state_noise, _Volatile(noise, bool(logs)))


def _persistence(parameters: dict[str, Any]) -> float:
    rho = parameters["persistence"]
    if not isinstance(rho, int | float) or not -1 < rho < 1:
        raise ValueError(f"persistence is {rho!r}; a number between -1 and 1 is needed")
    return float(rho)
