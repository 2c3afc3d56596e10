"""The order of rows decides nothing: choices and answers of permuted rows are the same.

Of estimators whose rows have no order; those of series are about it. Draws are seeded, but by
the numbers of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km


class Found(NamedTuple):
    chosen: Any  # positive numbers
    answers: list


def pairs(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Latents of two columns where observations have more than one, some seen in part only."""
    rng = np.random.default_rng(90)
    Z = rng.normal(size=(n, min(d, 2)))
    X = np.abs(Z) + 0.3 * rng.normal(size=Z.shape)
    return np.hstack([X, rng.normal(size=(n, d - Z.shape[1]))]), Z


NEW, PRIOR = 0.8 * pairs(15, 3)[0], np.random.default_rng(91).normal(0.3, 0.8, (200, 2))


def of_laws(laws) -> list:
    return [laws.mean(), laws.std(), *laws.interval(0.9), laws.quantile([0.3]), laws.mode()]


def bayes(**parameters) -> Callable[..., Found]:
    def found(X, Z, order) -> Found:
        prior = PRIOR[:, : Z.shape[1]][order[order < len(PRIOR)]]
        model = km.KernelBayes(**parameters).fit(X, Z)
        chosen = [reg for reg in model.regularisers(prior) if reg is not None]
        new = NEW[:, : X.shape[1]]
        return Found(chosen, [model.predict(new, prior), *of_laws(model.posterior(new, prior))])

    return found


def conditional(**parameters) -> Callable[..., Found]:
    def found(X, Z, order) -> Found:
        model = km.ConditionalEmbedding(**parameters).fit(X, Z)
        new = NEW[:, : X.shape[1]]
        moved = model.apply(X[np.argsort(order)][:20]).expectation(np.sin)
        return Found(
            [model.reg_, model.loo_score_], [model.predict(new), moved, *of_laws(model.at(new))]
        )

    return found


def density(X, Z, order) -> Found:
    model = km.ConditionalDensity().fit(X, Z)
    new = NEW[:, : X.shape[1]]
    return Found([model.reg_, *model.bandwidth_], [model.predict(new), *of_laws(model.at(new))])


def embedded(X, Z, order) -> Found:
    model = km.EmbeddedDensity().fit(X)
    return Found(model.bandwidth_, [model.pdf(NEW[:, : X.shape[1]])])


def ratio(X, Z, order) -> Found:
    numerator = (0.5 * X + 0.2)[np.random.default_rng(0).permutation(len(X))]
    model = km.DensityRatio(features=km.Nystroem(tol=1e-3)).fit(X, numerator)
    back = model.weights_[np.argsort(order)]
    return Found(model.reg_, [back, model.predict(NEW[:, : X.shape[1]])])


CASES = {
    "bayes": bayes(),
    "bayes, tuned": bayes(tune_lengthscale=True),
    "bayes, squared": bayes(rule="squared"),
    "bayes, balance": bayes(selection="balance"),
    "bayes, density": bayes(rule="density"),
    "bayes, ratio": bayes(ratio=km.DensityRatio(relative=0.1)),
    "conditional": conditional(),
    "conditional, tuned": conditional(tune_lengthscale=True),
    "density": density,
    "embedded": embedded,
    "ratio": ratio,
}


THINNED = (  # how many rows searches and scores look at
    "bayes.density_ratio.SCALE_ROWS",
    "bayes.left_out.SCORE_ROWS",
    "densities.embedded_density.ROWS",
    "densities.plan.FEW",
    "densities.plan.ROWS",
    "densities.plan.WIDE_ROWS",
    "kernels.named.MEDIAN_ROWS",
    "kernels.radial.MEDIAN_ROWS",
    "regression.leave_one_out.ROWS",
    "regression.leave_one_out.SCALE_ROWS",
    "regression.width.ROWS",
)


@pytest.fixture
def thinned(monkeypatch):
    """Of 150 rows searches look at 125 or fewer; a ratio's score, of 500, at 416."""
    for limit in map("kernelmean.{}".format, THINNED):
        module, name = limit.rsplit(".", 1)
        monkeypatch.setattr(limit, getattr(import_module(module), name) // 12)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("n", [60, 150])
@pytest.mark.parametrize("name", CASES)
def test_permuted_rows(name, n, d, thinned):
    X, Z = pairs(n, d)
    order = np.random.default_rng(92).permutation(n)
    before = CASES[name](X, Z, np.arange(n))
    after = CASES[name](X[order], Z[order], order)
    assert_allclose(after.chosen, before.chosen, rtol=1e-2)
    for ours, theirs in zip(after.answers, before.answers, strict=True):
        assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_permuted_rows_of_a_large_ratio(thinned):
    """Its score leaves out the same number of rows of either sample."""
    X, Z = pairs(500, 1)
    order = np.random.default_rng(93).permutation(len(X))
    before, after = ratio(X, Z, np.arange(len(X))), ratio(X[order], Z[order], order)
    assert_allclose(after.chosen, before.chosen, rtol=1e-2)
    for ours, theirs in zip(after.answers, before.answers, strict=True):
        assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rule", ["importance", "squared"])
def test_weights_are_of_rows_as_they_came(rule):
    """And what is told of rows, points and landmarks."""
    X, Z = pairs(80, 1)
    told = 1.0 + 0.2 * np.sin(Z[:, 0])
    order = np.random.default_rng(94).permutation(80)
    one = km.KernelBayes(rule, ratio=told).fit(X, Z)
    other = km.KernelBayes(rule, ratio=told[order]).fit(X[order], Z[order])
    assert_array_equal(other.points_, Z[order])
    assert_array_equal(other.features_x_.landmarks_, X[order][other.features_x_.indices_])
    assert_allclose(other.weights(NEW[:, :1]), one.weights(NEW[:, :1])[:, order], atol=1e-10)
    assert_allclose(one.weights(NEW[:, :1]) @ Z, one.posterior(NEW[:, :1]).expectation(lambda z: z))


def test_weights_of_a_conditional_embedding_are_of_rows_as_they_came():
    X, Z = pairs(80, 1)
    order = np.random.default_rng(95).permutation(80)
    one = km.ConditionalEmbedding().fit(X, Z)
    other = km.ConditionalEmbedding().fit(X[order], Z[order])
    assert_array_equal(other.points_x_, X[order])
    assert_array_equal(other.features_y_.landmarks_, Z[order][other.features_y_.indices_])
    assert_allclose(other.weights(NEW[:, :1]), one.weights(NEW[:, :1])[:, order], atol=1e-10)
    assert_allclose(one.weights(NEW[:, :1]) @ Z, one.predict(NEW[:, :1]), atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["importance", "squared", "conditional"])
def test_units_of_columns(name):
    """Nor do these, where kernels are by name."""
    X, Z = pairs(150, 3)
    units, of_z = np.array([1e3, 7.0, 0.01]), np.array([30.0, 0.002])

    def laws(X, Z, new):
        if name == "conditional":
            return km.ConditionalEmbedding().fit(X, Z).at(new)
        return km.KernelBayes(name).fit(X, Z).posterior(new)

    one, other = laws(X, Z, NEW), laws(X * units, Z * of_z, NEW * units)
    for asked in ("mean", "mode"):
        ours, theirs = (getattr(law, asked)() for law in (one, other))
        assert_allclose(theirs / of_z, ours, rtol=1e-6, atol=1e-6)
