"""What can be gained on GARCH(1,1) by other filters of squared returns, on paper and on series.

r_t = e^{z_t/2} ε_t, z_{t+1} = μ + φ(z_t − μ) + τη_t; ε is Student's t with ν degrees of freedom,
scaled to variance one, or normal (ν = ∞). Derived in docs/guide/volatility.md.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from _harness import Table, arguments
from scipy.optimize import minimize
from scipy.special import digamma, gammaln, polygamma
from scipy.stats import norm

import kernelmean as km
from kernelmean.comparators import Garch

FLOOR = 0.01  # of the spread of returns: log r² of a price that did not move


# ---------------------------------------------------------------- on paper


def linear_noise(df: float) -> float:
    """Var log ε²: the noise of a filter that is linear in log r²."""
    return float(np.pi**2 / 2 + (0 if np.isinf(df) else polygamma(1, df / 2)))


def garch_noise(df: float) -> float:
    """Var ε²: the noise of a filter that is linear in r², as GARCH(1,1) is."""
    if df <= 4:
        return np.inf
    return 2.0 if np.isinf(df) else 2 * (df - 1) / (df - 4)


def least_noise(df: float) -> float:
    """One over the Fisher information of log ε² on its location: no filter's is less."""
    return 2.0 if np.isinf(df) else 2 * (df + 3) / df


def steady(phi: float, tau: float, noise: float) -> float:
    """P = φ²/(1/P + 1/noise) + τ²: the variance of z_{t+1} given the past, as Kalman has it."""
    if np.isinf(noise):
        return tau**2 / (1 - phi**2)
    half = (noise * (1 - phi**2) - tau**2) / 2
    return float(np.sqrt(half**2 + noise * tau**2) - half)


def days_needed(gain: float, variance: float, t: float = 2) -> float:
    """Held-out days after which a gain of QLIKE has on average the paired statistic t.

    variance is that of r² over its forecast.
    """
    return 2 * variance * t**2 / gain


# ---------------------------------------------------------------- the law, and its exact filter


@dataclass(frozen=True)
class Volatility:
    """A law of returns whose log variance is an autoregression of order one."""

    mu: float = 0.0
    phi: float = 0.98
    tau: float = 0.15
    df: float = np.inf

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Returns and log variances, from the stationary law on."""
        z = np.empty(n)
        z[0] = self.spread * rng.standard_normal()
        for t, step in enumerate(self.tau * rng.standard_normal(n - 1)):
            z[t + 1] = self.phi * z[t] + step
        if np.isinf(self.df):
            noise = rng.standard_normal(n)
        else:
            noise = rng.standard_t(self.df, n) * np.sqrt(1 - 2 / self.df)
        return np.exp((z + self.mu) / 2) * noise, z + self.mu

    @property
    def spread(self) -> float:
        return float(self.tau / np.sqrt(1 - self.phi**2))

    def log_density(self, returns: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Of each return (a row) at each log variance (a column)."""
        squares = returns[:, None] ** 2 * np.exp(-z)
        if np.isinf(self.df):
            return -(squares + z + np.log(2 * np.pi)) / 2
        df, free = self.df, self.df - 2
        constant = gammaln((df + 1) / 2) - gammaln(df / 2) - np.log(np.pi * free) / 2
        return constant - z / 2 - (df + 1) / 2 * np.log1p(squares / free)


@dataclass(frozen=True)
class Filtered:
    """What was known of each row from the rows before it."""

    mean: np.ndarray  # of z_t
    variance: np.ndarray  # E[r_t²]
    log_likelihood: float


def exact(law: Volatility, returns: np.ndarray, nodes: int = 150, reach: float = 6.0) -> Filtered:
    """Bayes' rule on evenly spaced values of z: exact but for the spacing."""
    nodes = max(nodes, int(np.ceil(2 * reach * law.spread / law.tau * 2)))
    z = law.mu + law.spread * np.linspace(-reach, reach, nodes)
    moves = norm.pdf(z[None, :], law.mu + law.phi * (z[:, None] - law.mu), law.tau)
    moves /= moves.sum(1, keepdims=True)
    belief = norm.pdf(z, law.mu, law.spread)
    belief /= belief.sum()
    log_density = law.log_density(returns, z)
    top = log_density.max(1)
    densities = np.exp(log_density - top[:, None])
    before = np.empty((len(returns), nodes))
    total = top.sum()
    for t, density in enumerate(densities):
        before[t] = belief
        after = belief * density
        mass = after.sum()
        total += np.log(mass)
        belief = (after / mass) @ moves
    return Filtered(before @ z, before @ np.exp(z), float(total))


def fitted(returns: np.ndarray, tails: bool, nodes: int = 80) -> Volatility:
    """The law of the greatest likelihood; without `tails` the returns are normal given z."""

    def law_of(free: np.ndarray) -> Volatility:
        df = 2.1 + np.exp(free[3]) if tails else np.inf
        return Volatility(free[0], float(np.tanh(free[1])), float(np.exp(free[2])), df)

    def loss(free: np.ndarray) -> float:
        if abs(free[1]) > 3.8 or not -4 < free[2] < 1 or abs(free[-1]) > 6:
            return 1e10
        return -exact(law_of(free), returns, nodes).log_likelihood

    start = [np.log(returns.var()) - 0.3, np.arctanh(0.97), np.log(0.18), np.log(6.0)]
    found = minimize(
        loss,
        start if tails else start[:3],
        method="Nelder-Mead",
        options={"fatol": 0.05, "xatol": 0.01},
    )
    return law_of(found.x)


def linear(law: Volatility, returns: np.ndarray) -> np.ndarray:
    """The mean of z_t before each row, by the Kalman filter of log r²."""
    noise = linear_noise(law.df)
    middle = digamma(0.5) + np.log(2)  # E log ε²
    if not np.isinf(law.df):
        middle += np.log(law.df / 2 - 1) - digamma(law.df / 2)
    mean, variance, means = law.mu, law.spread**2, np.empty(len(returns))
    for t, value in enumerate(np.log(returns**2) - middle):
        means[t] = mean
        gain = variance / (variance + noise)
        after, left = mean + gain * (value - mean), variance * (1 - gain)
        mean, variance = law.mu + law.phi * (after - law.mu), law.phi**2 * left + law.tau**2
    return means


# ---------------------------------------------------------------- what is printed


def losses(variance: np.ndarray, returns: np.ndarray) -> np.ndarray:
    """QLIKE of every row."""
    return np.log(variance) + returns**2 / variance


def above_truth(variance: np.ndarray, z: np.ndarray) -> float:
    """QLIKE above that of the true variance e^z, which it is an expectation given."""
    apart = z - np.log(variance)
    return float(np.mean(np.exp(apart) - apart - 1))


@dataclass(frozen=True)
class Drawn:
    """One law, drawn from: errors of its filters, and what a paired test makes of them."""

    error: tuple[float, float]  # of z: exact, linear in log r²
    above: tuple[float, float, float]  # QLIKE: exact, GARCH(1,1), linear in log r²
    spread: float  # standard deviation of QLIKE less GARCH's
    residual: float  # variance of r² over its exact forecast


def drawn(law: Volatility, n: int, seed: int) -> Drawn:
    """Learn what is free on the first half, and judge on the second."""
    returns, z = law.sample(2 * n, np.random.default_rng(seed))
    best, means = exact(law, returns), linear(law, returns)
    straight = np.exp(means) * np.mean(returns[:n] ** 2 / np.exp(means[:n]))
    garch = Garch("zero").fit(returns[:n]).forecast_variance(returns)
    late = slice(n, None)
    difference = (losses(best.variance, returns) - losses(garch, returns))[late]
    return Drawn(
        (np.mean((best.mean - z)[late] ** 2), np.mean((means - z)[late] ** 2)),
        tuple(above_truth(h[late], z[late]) for h in (best.variance, garch, straight)),
        float(difference.std()),
        float(np.var(returns[late] ** 2 / best.variance[late])),
    )


def on_paper(laws: list[Volatility], n: int) -> None:
    paper = Table(
        "On paper: noise of a filter, and half of the variance that it leaves (P/2)",
        *("phi", "tau", "df", "least", "GARCH", "linear", "P/2", "P/2", "P/2"),
    )
    for law in laws:
        noises = [f(law.df) for f in (least_noise, garch_noise, linear_noise)]
        left = [steady(law.phi, law.tau, noise) / 2 for noise in noises]
        paper.row(law.phi, law.tau, law.df, *noises, *left)
    found = Table(
        f"Drawn, {n:,} days held out: error/2 of z; QLIKE above the truth's; days for t = 2",
        *("phi", "tau", "df", "exact", "linear", "exact", "GARCH", "linear", "sd", "days"),
    )
    for law in laws:
        d = drawn(law, n, 146900)
        gain = d.above[1] - d.above[0]
        halves = [e / 2 for e in d.error]
        found.row(
            *(law.phi, law.tau, law.df, *halves, *d.above, d.spread),
            days_needed(gain, d.residual) if gain > 0 else None,
        )


def through_logarithms(returns: np.ndarray, n: int, **options) -> np.ndarray:
    """Variances by KernelStateSpace on log r², learned from the first n rows."""
    least = FLOOR * returns[:n].std()
    y = np.log(np.maximum(returns**2, least**2))[:, None]
    model = km.KernelStateSpace(random_state=146000, **options).fit(y[:n])
    rough = np.exp(model.predict(y)[:, 0])
    return rough * np.mean(returns[:n] ** 2 / rough[:n])


def on_series(series: dict[str, np.ndarray], share: float = 0.7) -> None:
    """QLIKE less GARCH(1,1)'s on the last rows, by the likeliest laws and by ours."""
    table = Table(
        "Series, learned from the first 70%: QLIKE on the rest less GARCH(1,1)'s",
        *("series", "days", "by", "phi", "tau", "df", "found", "t"),
    )
    for name, returns in series.items():
        n = int(share * len(returns))
        returns = returns - returns[:n].mean()
        garch = losses(Garch("zero").fit(returns[:n]).forecast_variance(returns), returns)
        laws = {"normal": fitted(returns[:n], False), "t": fitted(returns[:n], True)}
        forecasts = {by: exact(law, returns).variance for by, law in laws.items()}
        forecasts["states"] = through_logarithms(returns, n, backbone=None)
        forecasts["default"] = through_logarithms(returns, n)
        for by, h in forecasts.items():
            law = laws.get(by)
            d = (losses(h, returns) - garch)[n:]
            t = d.mean() / d.std() * len(d) ** 0.5
            shown = (law.phi, law.tau, law.df) if law else (None,) * 3
            table.row(name, len(d), by, *shown, d.mean(), t)


def returns_of_arch() -> dict[str, np.ndarray]:
    """Daily log returns of two indices and of oil, in percent, from the package arch."""
    from arch.data import nasdaq, sp500, wti

    prices = {
        "S&P 500": sp500.load()["Adj Close"],
        "Nasdaq": nasdaq.load()["Adj Close"],
        "oil": wti.load().iloc[:, 0].dropna(),
    }
    return {name: 100 * np.diff(np.log(p.to_numpy()))[-5000:] for name, p in prices.items()}


LAWS = [
    Volatility(phi=0.98, tau=0.2),
    Volatility(phi=0.95, tau=0.35),
    Volatility(phi=0.98, tau=0.15, df=8),
    Volatility(phi=0.98, tau=0.15, df=6),
    Volatility(phi=0.99, tau=0.1, df=5),
]

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if arguments(__doc__).quick:
        on_paper(LAWS[:3], 2_000)
    else:
        on_paper(LAWS, 50_000)
        on_series(returns_of_arch())
