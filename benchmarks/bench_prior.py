"""Posteriors of KernelBayes under a prior of its own, against the exact ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from _harness import Table, arguments
from sklearn.datasets import load_diabetes, load_iris, load_wine

import kernelmean as km

Draw = Callable[[np.random.Generator, int], np.ndarray]
MANY = 40_000  # draws of the prior, of which posteriors are formed


@dataclass(frozen=True)
class Design:
    """Latents of the pairs, what is seen of them, with normal noise, and the prior."""

    latents: Draw
    see: Callable[[np.ndarray], np.ndarray]
    noise: float
    prior: Draw
    rows: int = 300  # of the prior

    def seen(self, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        X = self.see(Z)
        return X + self.noise * rng.standard_normal(X.shape)

    def exact(self, X: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Posterior means of rows of X, and the variances of the prior."""
        many = self.prior(rng, MANY)
        square = ((X[:, None] - self.see(many)) ** 2).sum(axis=-1) / self.noise**2
        w = np.exp(-0.5 * (square - square.min(axis=1, keepdims=True)))
        return w / w.sum(axis=1, keepdims=True) @ many, many.var(axis=0)


def normal(d: int, size: float = 1.0, first: float = 0.0) -> Draw:
    middle = first * np.eye(d)[0]
    return lambda rng, n: middle + size * rng.standard_normal((n, d))


def box(d: int, low: float, high: float) -> Draw:
    return lambda rng, n: rng.uniform(low, high, (n, d))


def humps(d: int, at: float, size: float) -> Draw:
    return lambda rng, n: rng.choice([-at, at], (n, 1)) + size * rng.standard_normal((n, d))


def leaning(rng: np.random.Generator, n: int) -> np.ndarray:
    a = rng.standard_normal((n, 3))
    return np.column_stack([a[:, 0], 0.8 * a[:, 0] + 0.6 * a[:, 1], 0.7 * a[:, 2]])


def tails(d: int, size: float) -> Draw:
    return lambda rng, n: size * rng.standard_t(3, (n, d))


def same(Z: np.ndarray) -> np.ndarray:
    return Z


def bent(Z: np.ndarray) -> np.ndarray:
    return 2 * np.tanh(Z)


def product(Z: np.ndarray) -> np.ndarray:
    return np.column_stack([Z[:, 0] * Z[:, 1], Z.sum(axis=1)])


def half(Z: np.ndarray) -> np.ndarray:
    return Z[:, : len(Z[0]) // 2]


def table(load: Callable, columns: int) -> Design:
    """Latents are rows of a table, the prior those of them that lean to one side."""
    Z = load().data[:, :columns]
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    share = np.exp(Z[:, 0]) / np.exp(Z[:, 0]).sum()

    def leaning_rows(rng: np.random.Generator, n: int) -> np.ndarray:
        return Z[rng.choice(len(Z), n, p=share)]

    def rows(rng: np.random.Generator, n: int) -> np.ndarray:
        return Z[rng.choice(len(Z), n)]

    return Design(rows, lambda Z: Z.cumsum(axis=1), 0.5, leaning_rows)


DESIGNS: dict[str, Design] = {
    **{f"shifted, {d}": Design(normal(d), same, 0.5, normal(d, 0.5, 0.8)) for d in (1, 2, 5, 8)},
    "narrow, 3": Design(normal(3), same, 0.7, normal(3, 0.5)),
    "sensor": Design(box(1, -3, 3), bent, 0.25, normal(1, 0.7, 1.0)),
    "square": Design(box(1, -2, 2), np.square, 0.3, normal(1, 0.6, 0.4)),
    "humps, 2": Design(normal(2, 1.5), same, 0.6, humps(2, 1.0, 0.4)),
    "product": Design(box(2, -2, 2), product, 0.3, normal(2, 0.7, 0.5)),
    "leaning, 3": Design(normal(3), lambda Z: Z[:, :2], 0.5, leaning),
}
OTHERS: dict[str, Design] = {
    "wide": Design(normal(1), same, 0.5, normal(1, 1.5)),
    "wide, 3": Design(normal(3), same, 0.5, normal(3, 1.5)),
    "tails": Design(tails(1, 1.5), same, 0.5, tails(1, 0.7)),
    "tails, 2": Design(tails(2, 1.5), same, 0.5, tails(2, 0.7)),
    "humps, square": Design(box(1, -3, 3), np.square, 0.5, humps(1, 1.5, 0.3)),
    "box, 2": Design(normal(2), np.tanh, 0.3, box(2, 0.0, 1.0)),
    "half seen, 16": Design(normal(16), half, 0.5, normal(16, 0.7)),
    "half seen, 32": Design(normal(32), half, 0.5, normal(32, 0.7)),
    "few rows": Design(normal(2), same, 0.5, normal(2, 0.5, 0.8), rows=40),
    "wine, 3": table(load_wine, 3),
    "iris, 2": table(load_iris, 2),
    "diabetes, 2": table(load_diabetes, 2),
}


def priors(
    seeds: Iterable[int], designs: dict[str, Design] = DESIGNS, sizes=(200, 1000), **how
) -> None:
    """Squared errors of posterior means, over the variance of the prior; CRPS; intervals hold."""
    headings = "design        ", "pairs", "error", "with KuLSIF", "CRPS", "with KuLSIF", "90% hold"
    title, ratios = "Posteriors under a prior of their own", []
    out = Table(title, *headings)
    for name, design in designs.items():
        for n in sizes:
            rows = []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                Z = design.latents(rng, n)
                X, prior = design.seen(Z, rng), design.prior(rng, design.rows)
                new = design.prior(rng, 100)
                at = design.seen(new, rng)
                exact, variance = design.exact(at, rng)
                model, found = km.KernelBayes(**how).fit(X, Z), []
                kernel_alone = km.DensityRatio(model.kernel_z_)
                for way in (model, km.KernelBayes(**how, ratio=kernel_alone).fit(X, Z)):
                    laws = way.posterior(at, prior=prior)
                    low, high = laws.interval(0.9)
                    found.append(np.mean((laws.mean() - exact) ** 2) / variance.mean())
                    found += [laws.crps(new).mean(), np.mean((low <= new) & (new <= high))]
                rows.append(found)
            a, b, held, c, d, _ = np.mean(rows, axis=0)
            out.row(name, n, a, c, b, d, held)
            ratios.append((a / c, b / d))
    out.row("all, ratios", "", *np.exp(np.mean(np.log(ratios), axis=0)), "", "", "")


if __name__ == "__main__":
    if arguments(__doc__).quick:
        priors([190000], {"sensor": DESIGNS["sensor"]}, [200])
    else:
        priors(range(191000, 191003))
        priors(range(191100, 191103), OTHERS)
