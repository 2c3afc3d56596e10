"""The battery: every bad value through every door that takes an array.

The answer is a ValueError that names the argument, or finite numbers; never a LinAlgError, a NaN,
or a leaked
NumPy warning.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from datetime import datetime
from functools import cache

import numpy as np
import pytest
from chain_options import latent
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import kernelmean as km
from kernelmean.core.checks import as_points, column_names

pytestmark = pytest.mark.usefixtures("short_searches")
N, D = 24, 2


def predicted(model, X):
    return model.predict(X)


def good(n: int = N, d: int = D, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def spoiled(value: float) -> np.ndarray:
    X = good()
    X[3, 1] = value
    return X


def _object(rows) -> np.ndarray:
    out = np.empty(len(rows), dtype=object)
    out[:] = rows
    return out


BAD: dict[str, Callable[[], object]] = {
    "NaN": lambda: spoiled(np.nan),
    "all NaN": lambda: np.full((N, D), np.nan),
    "inf": lambda: spoiled(np.inf),
    "-inf": lambda: spoiled(-np.inf),
    "1e200 once": lambda: spoiled(1e200),
    "1e200 everywhere": lambda: 1e200 * good(),
    "1e80 everywhere": lambda: 1e80 * good(),
    "1e-200 everywhere": lambda: 1e-200 * good(),
    "no rows": lambda: np.empty((0, D)),
    "no columns": lambda: np.empty((N, 0)),
    "empty list": list,
    "one row": lambda: good(1),
    "two rows": lambda: good(2),
    "other length": lambda: good(N + 5),
    "other columns": lambda: good(N, D + 1),
    "constant": lambda: np.ones((N, D)),
    "zeros": lambda: np.zeros((N, D)),
    "constant column": lambda: np.column_stack([good()[:, 0], np.ones(N)]),
    "two rows repeated": lambda: np.tile(good(2), (N // 2, 1)),
    "one row but one": lambda: np.concatenate([np.zeros((N - 1, D)), np.ones((1, D))]),
    "text": lambda: np.full((N, D), "fig"),
    "numbers as text": lambda: good().astype(str),
    "one word": lambda: "fig",
    "bytes": lambda: b"fig",
    "dates": lambda: np.full((N, D), datetime(2020, 1, 1)),
    "datetime64": lambda: np.full((N, D), np.datetime64("2020-01-01")),
    "complex": lambda: good() + 1j,
    "3-D": lambda: np.ones((N, D, 2)) * good()[:, :, None],
    "ragged": lambda: [[1.0, 2.0], [3.0]] * (N // 2),
    "None": lambda: None,
    "list of None": lambda: [[None, None]] * N,
    "objects": lambda: _object([object()] * N),
    "dicts": lambda: _object([{"a": 1}] * N),
    "a dict": lambda: {"a": [1.0, 2.0]},
    "a number": lambda: 3.0,
    "a function": lambda: good,
    "a set": lambda: {1.0, 2.0},
    "sparse": lambda: sparse.csr_array(good()),
    "sparse matrix": lambda: sparse.csr_matrix(good()),
}


# --------------------------------------------------------------------------------------- the doors
@cache
def fitted_conditional() -> km.ConditionalEmbedding:
    return km.ConditionalEmbedding().fit(good(), good(seed=1))


@cache
def fitted_density(location: bool = False) -> km.ConditionalDensity:
    return km.ConditionalDensity(location=location).fit(good(), good(seed=1))


@cache
def fitted_line() -> km.ConditionalDensity:
    """Of one column of y."""
    return km.ConditionalDensity(reg=0.1, bandwidth=0.5).fit(good(), good()[:, 0])


@cache
def embedded() -> km.EmbeddedDensity:
    return km.EmbeddedDensity().fit(good())


@cache
def instrumented(c: bool = False) -> km.KernelIV:
    X = good()
    return km.KernelIV().fit(X, X[:, 0], X + good(seed=1), good(N, 1, seed=2) if c else None)


@cache
def mean_embedding() -> km.MeanEmbedding:
    return km.MeanEmbedding(good(), kernel=km.Gaussian(1.0))


def answers(m: km.MeanEmbedding) -> list:
    return [m.mean(), m.cov(), m(m.points), m.mode(), m.herd(3), m.mmd(m), m.total()]


def fit_conditional(X, y, **parameters) -> list:
    c = km.ConditionalEmbedding(**parameters).fit(X, y)
    return [c.predict(c.points_x_), c.weights(c.points_x_), c.reg_, c.loo_score_, c.operator_]


def fit_density(X, y, **parameters) -> list:
    c = km.ConditionalDensity(**parameters).fit(X, y)
    new, y = good(5), c.points_[:5]
    parts = [
        c.predict(new),
        c.weights(new),
        c.pdf(y, new),
        c.cdf(y, new),
        c.predict_quantile(new, 0.5),
    ]
    return [*parts, c.sample(new, 2, 0), c.reg_, c.bandwidth_, c.loo_score_]


def fit_embedded(X, sample_weight=None, **parameters) -> list:
    e = km.EmbeddedDensity(**parameters).fit(X, sample_weight=sample_weight)
    return [e.pdf(e.embedding_.points), e.bandwidth_, e.loo_score_]


@cache
def fitted_ratio() -> km.DensityRatio:
    return km.DensityRatio().fit(good(), good(seed=1))


def fit_ratio(denominator, numerator, **parameters) -> list:
    r = km.DensityRatio(**parameters).fit(denominator, numerator)
    return [r.weights_, r.reg_, r.loo_score_, r.coef_]


def fit_iv(X, y, Z, C=None, **parameters) -> list:
    iv = km.KernelIV(**parameters).fit(X, y, Z, C)
    return [iv.coef_, iv.reg_stage1_, iv.reg_stage2_, iv.loss_stage1_, iv.loss_stage2_]


@cache
def fitted_regimes(inference: str = "kbr", refine: bool = True) -> km.KernelHMM:
    em = km.EM(n_init=1, max_iter=3)
    return km.KernelHMM(2, "gaussian", refine, inference, 0, em=em).fit(good())


def fit_regimes(X, lengths=None, **parameters) -> list:
    quick = {"random_state": 0, "em": km.EM(n_init=1, max_iter=3), "n_components": 2}
    m = km.KernelHMM(**{**quick, **parameters}).fit(X, lengths)
    points = m.emissions_.points[:5]
    parts = [m.filter(points), m.predict_proba(points), m.density(points), m.decode(points)[0]]
    parts += [m.log_predictive(points), m.forecast(points, 2).mean(), m.sample(3, 0)[0]]
    return [*parts, m.transmat_, m.startprob_, m.reg_, m.emissions_.weights]


LATENT = {"random_state": 0, "n_init": 1, "max_iter": 3, "n_nodes": 9, "n_particles": 20}


@cache
def fitted_states(inference: str = "nodes", n_latent: int = 1) -> km.KernelStateSpace:
    return km.KernelStateSpace(n_latent, **latent(inference=inference, **LATENT)).fit(good())


def fit_states(X, lengths=None, **parameters) -> list:
    m = km.KernelStateSpace(**latent(**{**LATENT, **parameters})).fit(X, lengths)
    points = m.emissions_.points[:5]
    parts = [m.filter(points).mean(), m.smooth(points).probabilities, m.predict(points)]
    parts += [m.log_predictive(points), m.forecast(points, 2).mean(), m.sample(3, 0)[0], m.loss_]
    if parameters.get("kernel") != "delta":
        parts.append(m.predict_quantile(points, 0.3))
    return [*parts, m.transmat_, m.startprob_, m.emissions_.weights, m.U_, m.V_]


def tune_states(X, X_val) -> np.ndarray:
    m = km.KernelStateSpace(**latent(**LATENT)).tune(X, X_val, widths=[1], guards=[1])
    return m.predict(m.emissions_.points[:5])


def _of_states(inference: str, verb: str, b) -> list:
    answer = getattr(fitted_states(inference), verb)(b)
    return [answer.mean(), answer.variance()] if verb in ("filter", "smooth") else [answer]


def _with(b, place: int) -> list:
    """X, y, Z with one of them replaced."""
    data = [good(), good()[:, 0], good(seed=1)]
    data[place] = b
    return data


def moved() -> tuple[np.ndarray, np.ndarray]:
    """A short track: observations and states."""
    data = km.datasets.make_rotation(N, random_state=0)
    return data.X, data.Z


@cache
def fitted_filter(rule: str = "importance") -> km.KernelBayesFilter:
    return km.KernelBayesFilter(rule, reg=0.05).fit(*moved())


def fit_filter(X, Z, lengths=None, inference="kbr", **parameters) -> list:
    """By kernel Bayes' rule: to compare both ways, as the default does, takes ten times as long."""
    model = km.KernelBayesFilter(inference=inference, **parameters).fit(X, Z, lengths)
    track, ahead = model.smooth(model.points_x_[:5]), model.forecast(model.points_x_[:5], 3)
    parts = [
        track.mean(),
        track.embedding.weights,
        ahead.mean(),
        ahead.observations.embedding.weights,
    ]
    return [*parts, model.reg_, model.reg_prior_, model.reg_transition_]


def tune_filter(X, Z, lengths=None) -> list:
    model = km.KernelBayesFilter(reg=0.05, features=km.Nystroem(tol=1e-2))
    model = model.tune(X, Z, lengths, validation=0.25)
    return [model.predict(model.points_x_[:5]), [row["error"] for row in model.tuning_]]


def track(b=None, rule: str = "importance", verb: str = "filter", **named) -> list:
    result = getattr(fitted_filter(rule), verb)(moved()[0] if b is None else b, **named)
    return [result.mean(), result.embedding.weights, result.interval()]


def told(x_s=None, z_s=None, strength=0.1) -> list:
    X, Z = moved()
    supervision = (X if x_s is None else x_s, Z if z_s is None else z_s, strength)
    return track(supervision=supervision)


SMOOTH = {
    "gaussian": km.Gaussian(1.0),
    "laplace": km.Laplace(1.0, columnwise=True),
    "matern": km.Matern(0.8, 1.0),
}
KERNELS = {
    **SMOOTH,
    "linear": km.Linear(),
    "delta": km.Delta(),
    "sum": km.Gaussian(1.0) + km.Linear(),
    "on columns": km.on_columns({0: km.Gaussian(1.0), 1: km.Delta()}),
    "function": km.as_kernel(lambda A, B: A @ B.T),
}
MAPS = {"nystroem": km.Nystroem, "exact": km.Exact, "fourier": lambda: km.RandomFourier(20)}

# door -> (name of the argument, what to do with the bad value)
DOORS: dict[str, tuple[str, Callable]] = {
    "median_lengthscale": ("X", km.median_lengthscale),
    "median_lengthscale, columnwise": ("X", lambda b: km.median_lengthscale(b, columnwise=True)),
    "Precomputed": ("gram", lambda b: km.Precomputed(b)(range(3))),
    "Precomputed.__call__": ("X", lambda b: km.Precomputed(np.eye(N))(b)),
    "MeanEmbedding points": ("points", lambda b: answers(km.MeanEmbedding(b))),
    "MeanEmbedding points, fixed kernel": (
        "points",
        lambda b: answers(km.MeanEmbedding(b, kernel=km.Gaussian(1.0))),
    ),
    "MeanEmbedding weights": (
        "weights",
        lambda b: answers(km.MeanEmbedding(good(), b, km.Gaussian(1.0))),
    ),
    "MeanEmbedding.__call__": ("Y", lambda b: mean_embedding()(b)),
    "MeanEmbedding.density": ("Y", lambda b: mean_embedding().density(b)),
    "MeanEmbedding.expectation": ("f", lambda b: mean_embedding().expectation(lambda x: b)),
    "MeanEmbedding.inner": ("other", lambda b: mean_embedding().inner(b)),
    "MeanEmbedding.mmd": ("other", lambda b: mean_embedding().mmd(b)),
    "ConditionalEmbedding.fit X": ("X", lambda b: fit_conditional(b, good(seed=1))),
    "ConditionalEmbedding.fit X, tuned": (
        "X",
        lambda b: fit_conditional(b, good(seed=1), tune_lengthscale=True),
    ),
    "ConditionalEmbedding.fit X, linear": (
        "X",
        lambda b: fit_conditional(b, good(seed=1), kernel_x="linear"),
    ),
    "ConditionalEmbedding.fit X, delta": (
        "X",
        lambda b: fit_conditional(b, good(seed=1), kernel_x="delta"),
    ),
    "ConditionalEmbedding.fit X, reg 0": (
        "X",
        lambda b: fit_conditional(b, good(seed=1), kernel_x=km.Gaussian(1.0), reg=0.0),
    ),
    "ConditionalEmbedding.fit X, exact": (
        "X",
        lambda b: fit_conditional(b, good(seed=1), features=km.Exact()),
    ),
    "ConditionalEmbedding.fit y": ("y", lambda b: fit_conditional(good(), b)),
    "ConditionalEmbedding.fit y, linear": (
        "y",
        lambda b: fit_conditional(good(), b, kernel_y="linear"),
    ),
    "ConditionalEmbedding.at": ("X", lambda b: fitted_conditional().at(b).weights),
    "ConditionalEmbedding.predict": ("X", lambda b: fitted_conditional().predict(b)),
    "ConditionalEmbedding.weights": ("X", lambda b: fitted_conditional().weights(b)),
    "ConditionalEmbedding.expectation X": (
        "X",
        lambda b: fitted_conditional().expectation(lambda y: y, b),
    ),
    "ConditionalEmbedding.expectation f": (
        "f",
        lambda b: fitted_conditional().expectation(lambda y: b, good()),
    ),
    "ConditionalEmbedding.apply": ("m", lambda b: fitted_conditional().apply(b).weights),
    "sum_rule": ("m", lambda b: km.sum_rule(fitted_conditional(), b).weights),
    "product_rule": ("m", lambda b: km.product_rule(fitted_conditional(), b).weights),
    "Composition.at": ("X", lambda b: (fitted_conditional() @ fitted_conditional()).at(b).weights),
    "DensityRatio.fit denominator": ("denominator", lambda b: fit_ratio(b, good(seed=1))),
    "DensityRatio.fit denominator, reg 0": (
        "denominator",
        lambda b: fit_ratio(b, good(seed=1), kernel=km.Gaussian(1.0), reg=0.0),
    ),
    "DensityRatio.fit numerator": ("numerator", lambda b: fit_ratio(good(), b)),
    "DensityRatio.predict": ("Z", lambda b: fitted_ratio().predict(b)),
    "KernelIV.fit X": ("X", lambda b: fit_iv(b, good()[:, 0], good(seed=1))),
    "KernelIV.fit X, linear": (
        "X",
        lambda b: fit_iv(b, good()[:, 0], good(seed=1), kernel_x="linear"),
    ),
    "KernelIV.fit y": ("y", lambda b: fit_iv(good(), b, good(seed=1))),
    "KernelIV.fit Z": ("Z", lambda b: fit_iv(good(), good()[:, 0], b)),
    "KernelIV.fit Z, delta": ("Z", lambda b: fit_iv(good(), good()[:, 0], b, kernel_z="delta")),
    "KernelIV.fit C": ("C", lambda b: fit_iv(good(seed=2), good()[:, 0], good(seed=1), b)),
    "KernelIV.fit, no regularisers": (
        "X",
        lambda b: fit_iv(
            b, good()[:, 0], good(seed=1), kernel_x=km.Gaussian(1.0), reg_stage1=0.0, reg_stage2=0.0
        ),
    ),
    **{
        f"KernelIV.fit {name}, {split}": (
            name,
            lambda b, i=i, s=split: fit_iv(*_with(b, i), split=s, trend=1, kernel_x=km.Matern(1.5)),
        )
        for split in (0.5, 3, "samples")
        for i, name in enumerate(["X", "y", "Z"])
    },
    "KernelIV.fit X, exact": (
        "X",
        lambda b: fit_iv(b, good()[:, 0], good(seed=1), features=km.Exact(), trend=2),
    ),
    "KernelIV.predict_interval X": ("X", lambda b: instrumented().predict_interval(b)),
    "KernelIV.predict_interval C": (
        "C",
        lambda b: instrumented(c=True).predict_interval(good(), b, simultaneous=False),
    ),
    "KernelIV.derivative X": ("X", lambda b: instrumented().derivative(b)),
    "KernelIV.derivative_interval X": (
        "X",
        lambda b: instrumented().derivative_interval(b, column=1),
    ),
    "KernelIV.average_derivative X": (
        "X",
        lambda b: [getattr(instrumented().average_derivative(b), a) for a in ("value", "error")],
    ),
    "KernelIV.contrast X1": ("X1?", lambda b: instrumented().contrast(b, good()).value),
    "KernelIV.contrast X0": ("X0?", lambda b: instrumented().contrast(good(), b).error),
    "KernelIV.predict X": ("X", lambda b: instrumented().predict(b)),
    "KernelIV.predict X, with C": ("X", lambda b: instrumented(c=True).predict(b)),
    "KernelIV.predict C": ("C", lambda b: instrumented(c=True).predict(good(), b)),
    "StructuralCurveDisplay": (
        "X",
        lambda b: (
            km.display.StructuralCurveDisplay.from_estimator(
                instrumented(), b, good()[:, 0]
            ).structural
        ),
    ),
}
REFUSE_NONE = object()  # None has a meaning at the door, but not here


def _given(b):
    return REFUSE_NONE if b is None else b


def _unusable(b):
    """As supervision: three letters would be three arrays, and a function would be called."""
    if isinstance(b, str | bytes):
        return [b]
    return (lambda t, x, belief: b) if callable(b) else _given(b)


for _rule in ("importance", "squared"):
    DOORS[f"KernelBayesFilter.fit X, {_rule}"] = (
        "X",
        lambda b, r=_rule: fit_filter(b, moved()[1], rule=r),
    )
    DOORS[f"KernelBayesFilter.fit Z, {_rule}"] = (
        "Z",
        lambda b, r=_rule: fit_filter(moved()[0], b, rule=r),
    )
    DOORS[f"KernelBayesFilter.fit X, {_rule}, no regularisers"] = (
        "X",
        lambda b, r=_rule: fit_filter(
            b, moved()[1], rule=r, reg=0.0, reg_prior=0.0, reg_transition=0.0, reg_smoother=0.0
        ),
    )
    for _verb in ("filter", "smooth"):
        DOORS[f"KernelBayesFilter.{_verb} X, {_rule}"] = (
            "X",
            lambda b, r=_rule, v=_verb: track(_given(b), r, v),
        )
    DOORS[f"KernelBayesFilter.filter prior, {_rule}"] = (
        "prior",
        lambda b, r=_rule: track(rule=r, prior=b),
    )
    DOORS[f"KernelBayesFilter.forecast X, {_rule}"] = (
        "X",
        lambda b, r=_rule: fitted_filter(r).forecast(b, 3).mean(),
    )
    DOORS[f"Belief.update x, {_rule}"] = (
        "x",
        lambda b, r=_rule: fitted_filter(r).start().update(b).predict().mean(),
    )
DOORS |= {
    "KernelBayesFilter.fit X": ("X", lambda b: fit_filter(b, moved()[1], inference=None)),
    "KernelBayesFilter.fit Z": ("Z", lambda b: fit_filter(moved()[0], b, inference=None)),
    "KernelBayesFilter.fit X, delta": (
        "X",
        lambda b: fit_filter(b, moved()[1], kernel_x="delta"),
    ),
    "KernelBayesFilter.fit X, exact": (
        "X",
        lambda b: fit_filter(b, moved()[1], features=km.Exact()),
    ),
    "KernelBayesFilter.fit Z, periodic": (
        "Z",
        lambda b: fit_filter(moved()[0], b, kernel_z="periodic"),
    ),
    "KernelBayesFilter.fit Z, linear": (
        "Z",
        lambda b: fit_filter(moved()[0], b, kernel_z="linear"),
    ),
    "KernelBayesFilter.fit lengths": (
        "lengths",
        lambda b: fit_filter(*moved(), REFUSE_NONE if b is None else b),
    ),
    "KernelBayesFilter.tune X": ("X", lambda b: tune_filter(b, moved()[1])),
    "KernelBayesFilter.tune Z": ("Z", lambda b: tune_filter(moved()[0], b)),
    "KernelBayesFilter.tune lengths": ("lengths", lambda b: tune_filter(*moved(), _given(b))),
    "KernelBayesFilter.filter lengths": ("lengths", lambda b: track(lengths=_given(b))),
    "KernelBayesFilter.filter x_s": ("x_s", lambda b: told(x_s=_given(b))),
    "KernelBayesFilter.filter z_s": ("z_s", lambda b: told(z_s=_given(b))),
    "KernelBayesFilter.filter strength": ("strength", lambda b: told(strength=b)),
    "KernelBayesFilter.filter supervision": (
        "supervision",
        lambda b: track(supervision=_unusable(b)),
    ),
    "KernelBayesFilter.predict": ("X", lambda b: fitted_filter().predict(b)),
    "KernelBayesFilter.predict, mode": ("X", lambda b: fitted_filter().predict(b, point="mode")),
    "ConditionalDensity.fit X": ("X", lambda b: fit_density(b, good(seed=1))),
    "ConditionalDensity.fit X, location": (
        "X",
        lambda b: fit_density(b, good(seed=1), location=True),
    ),
    "ConditionalDensity.fit X, given": (
        "X",
        lambda b: fit_density(b, good(seed=1), reg=0.1, bandwidth=0.5),
    ),
    "ConditionalDensity.fit X, delta": (
        "X",
        lambda b: fit_density(b, good(seed=1), kernel_x="delta", location=False),
    ),
    "ConditionalDensity.fit y": ("y|bandwidth", lambda b: fit_density(good(seed=1), b)),
    "ConditionalDensity.fit y, given": (
        "y|bandwidth",
        lambda b: fit_density(good(), b, reg=0.1, bandwidth=0.5),
    ),
    "ConditionalDensity.pdf Y": ("Y", lambda b: fitted_density().pdf(b, good())),
    "ConditionalDensity.pdf Y, located": ("Y", lambda b: fitted_density(True).pdf(b, good())),
    "ConditionalDensity.pdf Y, table": ("Y", lambda b: fitted_density().pdf(b, good(), False)),
    "ConditionalDensity.pdf X": ("X", lambda b: fitted_density().pdf(good()[:3], b, paired=False)),
    "ConditionalDensity.cdf Y": ("Y", lambda b: fitted_density().cdf(b, good())),
    "ConditionalDensity.cdf X": ("X", lambda b: fitted_density().cdf(good()[:3], b, paired=False)),
    "ConditionalDensity.score X": ("X", lambda b: fitted_density().score(b, good())),
    "ConditionalDensity.score y": ("y", lambda b: fitted_density().score(good(), b)),
    "ConditionalDensity.at": ("X", lambda b: fitted_density().at(b).weights),
    "ConditionalDensity.weights": ("X", lambda b: fitted_density().weights(b)),
    "ConditionalDensity.predict": ("X", lambda b: fitted_density(True).predict(b)),
    "ConditionalDensity.predict_quantile": (
        "X",
        lambda b: fitted_density(True).predict_quantile(b, 0.4),
    ),
    "ConditionalDensity.predict_interval": (
        "X",
        lambda b: [*fitted_density().predict_interval(b, 0.5)],
    ),
    "ConditionalDensity.region": ("X", lambda b: np.concatenate(fitted_line().region(b))),
    "ConditionalDensity.mode": ("X", lambda b: fitted_density(True).mode(b)),
    "ConditionalDensity.sample": ("X", lambda b: fitted_density().sample(b, 2, 0)),
    "EmbeddedDensity.fit X": ("X|bandwidth", fit_embedded),
    "EmbeddedDensity.fit X, given": ("X|bandwidth", lambda b: fit_embedded(b, bandwidth=0.5)),
    "EmbeddedDensity.fit sample_weight": ("sample_weight", lambda b: fit_embedded(good(), b)),
    "EmbeddedDensity.pdf": ("X", lambda b: embedded().pdf(b)),
    "EmbeddedDensity.score_samples": ("X", lambda b: np.exp(embedded().score_samples(b))),
    "KernelBayesFilter.score X": ("X", lambda b: fitted_filter().score(b, moved()[1])),
    "KernelBayesFilter.score Z": ("Z", lambda b: fitted_filter().score(moved()[0], b)),
    "KernelBayesFilter.start": ("prior", lambda b: fitted_filter().start(b).mean()),
}
DOORS |= {
    "KernelHMM.fit X": ("X|n_components", fit_regimes),
    "KernelHMM.fit X, spectral": ("X|n_components", lambda b: fit_regimes(b, refine=False)),
    "KernelHMM.fit X, forward": ("X|n_components", lambda b: fit_regimes(b, inference="forward")),
    "KernelHMM.fit X, fixed": (
        "X|n_components",
        lambda b: fit_regimes(b, kernel=km.Gaussian(1.0), bandwidth=0.3, reg=0.1),
    ),
    "KernelHMM.fit X, delta": ("X|n_components", lambda b: fit_regimes(b, kernel="delta")),
    "KernelHMM.fit X, linear": ("X|n_components", lambda b: fit_regimes(b, kernel="linear")),
    "KernelHMM.fit X, one state": ("X", lambda b: fit_regimes(b, n_components=1)),
    "KernelHMM.fit lengths": ("lengths|three", lambda b: fit_regimes(good(), _given(b))),
    "KernelHMM.filter lengths": (
        "lengths",
        lambda b: fitted_regimes().filter(good(), _given(b)),
    ),
    "KernelHMM.start": ("prior", lambda b: fitted_regimes().start(b).predict().probabilities),
    "KernelHMM.density": ("Y", lambda b: fitted_regimes().density(b)),
    "estimate_order": ("X", lambda b: int(km.estimate_order(b))),
}
for _inference in ("kbr", "forward"):
    for _verb in ("filter", "predict_proba", "predict", "log_predictive", "score"):
        DOORS[f"KernelHMM.{_verb} X, {_inference}"] = (
            "X",
            lambda b, i=_inference, v=_verb: getattr(fitted_regimes(i), v)(b),
        )
    DOORS[f"KernelHMM.forecast X, {_inference}"] = (
        "X",
        lambda b, i=_inference: fitted_regimes(i).forecast(b, 2).mean(),
    )
    DOORS[f"RegimeBelief.update x, {_inference}"] = (
        "x",
        lambda b, i=_inference: fitted_regimes(i).start().update(b).predict().mean(),
    )
DOORS |= {
    "KernelStateSpace.fit X": ("X", fit_states),
    "KernelStateSpace.fit X, moments": ("X", lambda b: fit_states(b, refine=False)),
    "KernelStateSpace.fit X, kbr": ("X", lambda b: fit_states(b, inference="kbr")),
    "KernelStateSpace.fit X, plane": ("X", lambda b: fit_states(b, n_latent=2)),
    "KernelStateSpace.fit X, fixed": (
        "X|bandwidth",
        lambda b: fit_states(b, kernel=km.Gaussian(1.0), bandwidth=0.3),
    ),
    "KernelStateSpace.fit X, delta": ("X", lambda b: fit_states(b, kernel="delta")),
    "KernelStateSpace.fit X, linear": ("X", lambda b: fit_states(b, kernel="linear")),
    "KernelStateSpace.fit lengths": ("lengths|three", lambda b: fit_states(good(), _given(b))),
    "KernelStateSpace.fit latent()": (
        "latent",
        lambda b: fit_states(good(), latent=lambda n, rng: b),
    ),
    "KernelStateSpace.fit transition()": (
        "transition",
        lambda b: fit_states(good(), transition=lambda x, rng: b),
    ),
    "KernelStateSpace.predict lengths": (
        "lengths",
        lambda b: fitted_states().predict(good(), _given(b)),
    ),
    "KernelStateSpace.start": (
        "prior",
        lambda b: fitted_states().start(b).predict().probabilities,
    ),
    "KernelStateSpace.emission_at": ("x", lambda b: fitted_states().emission_at(b).mean()),
    "KernelStateSpace.transition_at": ("x", lambda b: fitted_states().transition_at(b).mean()),
    "KernelStateSpace.emission_at, plane": (
        "x",
        lambda b: fitted_states(n_latent=2).emission_at(b).mean(),
    ),
    "KernelStateSpace.tune X": ("X", lambda b: tune_states(b, good(seed=1))),
    "KernelStateSpace.tune X_val": ("X_val|X", lambda b: tune_states(good(), b)),
    "LatentBelief.update x": (
        "x",
        lambda b: fitted_states().start().update(b).predict().mean(),
    ),
}
for _inference in ("nodes", "kbr", "particles"):
    for _verb in ("filter", "smooth", "predict", "predict_interval", "log_predictive"):
        DOORS[f"KernelStateSpace.{_verb} X, {_inference}"] = (
            "X",
            lambda b, i=_inference, v=_verb: _of_states(i, v, b),
        )
    DOORS[f"KernelStateSpace.forecast X, {_inference}"] = (
        "X",
        lambda b, i=_inference: fitted_states(i).forecast(b, 2).mean(),
    )
for _name, _kernel in KERNELS.items():
    DOORS[f"{_name} X"] = ("X", lambda b, k=_kernel: k(b, good()))
    DOORS[f"{_name} Y"] = ("Y", lambda b, k=_kernel: k(good(), b))
    DOORS[f"{_name}.diag"] = ("X", _kernel.diag)
for _name, _kernel in SMOOTH.items():
    DOORS[f"{_name}.resolve"] = ("X", lambda b, k=_kernel: type(k)().resolve(b).lengthscale)
    DOORS[f"{_name}.density"] = ("Y", lambda b, k=_kernel: k.density(good(), b))
    DOORS[f"{_name}.self_convolution"] = ("X", lambda b, k=_kernel: k.self_convolution(b, good()))
for _name, _make in MAPS.items():
    DOORS[f"{_name}.fit"] = ("X", lambda b, m=_make: m().fit_transform(b, "gaussian"))
    DOORS[f"{_name}.fit, fixed kernel"] = (
        "X",
        lambda b, m=_make: m().fit_transform(b, km.Gaussian(1.0)),
    )
    DOORS[f"{_name}.transform"] = ("X", lambda b, m=_make: m().fit(good(), "gaussian").transform(b))
for _name in ("nystroem", "exact"):
    for _kind in ("linear", "delta", "frobenius"):
        DOORS[f"{_name}.fit, {_kind}"] = (
            "X",
            lambda b, m=MAPS[_name], k=_kind: m().fit_transform(b, k),
        )


def finite(answer) -> bool:
    parts = answer if isinstance(answer, list) else [answer]
    return all(np.isfinite(np.asarray(p, float)).all() for p in parts)


def problem(door: str, bad: str) -> str | None:
    """What is wrong with the answer of a door to a bad value, if anything."""
    name, use = DOORS[door]
    try:
        answer = use(BAD[bad]())
    except np.linalg.LinAlgError as error:  # a ValueError by descent, not by manners
        return f"LinAlgError: {error}"
    except ValueError as refusal:
        named = re.search(rf"\b({name})\b", str(refusal))
        return None if named else f"does not name {name}: {refusal}"
    except Exception as error:  # noqa: BLE001 - whatever else comes out is what this test is looking for
        return f"{type(error).__name__}: {error}"
    if not finite(answer):
        return "not finite"
    return f"{bad} was taken" if bad in HOPELESS - SPARED.get(door, set()) else None


# Values that must be refused, not survived.
HOPELESS = set(BAD) & {
    "NaN", "all NaN", "inf", "-inf", "1e200 once", "1e200 everywhere", "no rows", "no columns",
    "empty list",
    "text", "numbers as text", "one word", "bytes", "dates", "datetime64", "complex", "ragged",
    "None",
    "list of None", "objects", "dicts", "a dict", "a function", "a set", "sparse", "sparse matrix",
}  # fmt: skip
# ... except where they have a meaning: None as a default, nothing to evaluate, a function with
# large values.
NOTHING, VALUES = {"no rows", "empty list"}, {"1e200 once", "1e200 everywhere", "no columns"}
SPARED: dict[str, set[str]] = {
    **{
        door: {"None", *NOTHING} for door in DOORS if door.endswith((" Y", ", with C", "predict C"))
    },
    **{
        door: NOTHING
        for door in DOORS
        if door.endswith((".diag", ".density", ".transform", ".__call__"))
    },
    **{
        door: NOTHING
        for door in DOORS
        if door.endswith((" X", ".self_convolution")) and "fit" not in door
    },
    **{door: VALUES for door in DOORS if door.endswith(("expectation", "expectation f"))},
    "MeanEmbedding weights": {"None", "1e200 once", "1e200 everywhere"},
    "KernelIV.fit C": {"None"},
}
for _door in ("at", "predict", "weights", "apply"):
    SPARED[f"ConditionalEmbedding.{_door}"] = NOTHING
for _door in (
    "sum_rule",
    "product_rule",
    "Composition.at",
    "DensityRatio.predict",
    "KernelIV.predict X",
    "KernelIV.predict_interval X",
    "KernelIV.derivative X",
    "KernelIV.derivative_interval X",
    "StructuralCurveDisplay",
):
    SPARED[_door] = NOTHING
for _door in ("at", "weights", "predict", "quantile", "interval", "region", "mode", "sample"):
    SPARED[f"ConditionalDensity.{_door}"] = NOTHING
SPARED["EmbeddedDensity.fit sample_weight"] = {"None"}
SPARED["KernelIV.predict_interval C"] = {"None", *NOTHING}
SPARED["KernelIV.average_derivative X"] = {"None"}  # the training rows
# a row without y serves stage 1, a row without X stage 2
SPARED["KernelIV.fit X, samples"] = SPARED["KernelIV.fit y, samples"] = {"NaN"}
SPARED["ConditionalEmbedding.expectation X"] = NOTHING
# a row with NaN is a missing observation, and no prior is the law of the training states
UNSEEN = {"NaN", "all NaN", "list of None"}
for _door in DOORS:
    if re.match("KernelBayesFilter[.](filter X|smooth X|forecast X|predict|score X)", _door):
        SPARED[_door] = UNSEEN
    if re.match("KernelBayesFilter[.](filter prior|start)", _door) or _door == "KernelHMM.start":
        SPARED[_door] = {"None"}
    if re.match("KernelHMM[.].* X|RegimeBelief|estimate_order", _door):
        SPARED[_door] = UNSEEN - ({"all NaN", "list of None"} if "fit" in _door else set())
    if re.match("KernelStateSpace[.].* X|LatentBelief", _door):
        SPARED[_door] = UNSEEN - ({"all NaN", "list of None"} if "fit" in _door else set())
SPARED["estimate_order"] = {"NaN"}
SPARED["KernelStateSpace.start"] = {"None"}
SPARED["KernelStateSpace.tune X"] = SPARED["KernelStateSpace.tune X_val"] = {"NaN"}


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_a_value_error_that_names_the_argument_or_finite_numbers(door):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter(
            "error", RuntimeWarning
        )  # NumPy's and SciPy's, LinAlgWarning included
        problems = {bad: problem(door, bad) for bad in BAD}
    problems = {bad: what for bad, what in problems.items() if what}
    assert not problems, "\n".join(f"{bad}: {what}" for bad, what in problems.items())


def test_the_battery_is_as_long_as_it_says():
    assert len(BAD) >= 35
    assert len(DOORS) >= 80
    assert sum("Filter" in door for door in DOORS) >= 25


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([N - 1], "lengths.*23.*24"),
        ([0, N], "lengths.*whole"),
        ([-1, N + 1], "lengths.*whole"),
        ([N / 2, N / 2 + 0.5], "lengths"),
        ([[N / 2, N / 2]], "lengths"),
        ([], "lengths"),
        (N, "lengths"),
        ([np.inf], "lengths"),
        ([np.nan, N], "lengths"),
        ([10**400], "lengths"),
        ([1e300], "lengths"),
        ("24", "lengths"),
        ({"a": N}, "lengths"),
    ],
    ids=repr,
)
def test_lengths_that_do_not_fit(bad, words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for use in (
            lambda: fitted_filter().filter(moved()[0], bad),
            lambda: fitted_filter().smooth(moved()[0], bad),
            lambda: fitted_filter().forecast(moved()[0], 2, bad),
            lambda: fitted_filter().predict(moved()[0], bad),
            lambda: fitted_filter().score(*moved(), bad),
            lambda: km.KernelBayesFilter(reg=0.1).fit(*moved(), bad),
            lambda: km.KernelBayesFilter(reg=0.1).tune(*moved(), bad),
        ):
            with pytest.raises(ValueError, match=words):
                use()


@pytest.mark.parametrize("good_lengths", [[10, 14], (24,), np.array([1, 23]), [12.0, 12.0]])
def test_lengths_of_any_kind(good_lengths):
    assert finite(track(lengths=good_lengths))


def test_trajectories_without_a_transition():
    with pytest.raises(ValueError, match="lengths.*two"):
        km.KernelBayesFilter().fit(*moved(), [1] * N)


def test_what_a_filter_says_of_other_mistakes():
    X, Z = moved()
    model, squared = fitted_filter(), fitted_filter("squared")
    batch = model.filter(X).embedding
    for use, words in (
        (lambda: model.filter(X, prior=batch), "prior is a batch of 24"),
        (lambda: model.filter(X, prior=Z[:, :1]), "prior has 1 column"),
        (lambda: model.start(km.MeanEmbedding([0.0, 1.0])), "prior has 1 column"),
        (lambda: model.filter(X[:, :1]), "X has 1 features, but KernelBayesFilter"),
        (lambda: model.start().update([1.0]), "x has 1 column"),
        (lambda: model.start().update(X), "x has shape"),
        (lambda: model.score(X, Z[:5]), "Z has 5 rows but X has 24"),
        (lambda: model.score(X, Z[:, :1]), "Z"),
        (lambda: model.predict(X, point="median"), "point.*mean.*mode"),
        (lambda: km.KernelBayesFilter("iw").fit(X, Z), "rule.*importance.*squared"),
        (lambda: squared.filter(X, supervision=(X, Z, 1.0)), "supervision.*importance"),
        (lambda: squared.smooth(X, supervision=lambda *_: None), "supervision.*importance"),
        (lambda: squared.start().update(X[0], (X[:1], Z[:1], 1.0)), "supervision.*importance"),
        (lambda: model.filter(X, supervision=(X[:3], Z[:3], 1.0)), "X_s has 3 rows"),
        (lambda: model.filter(X, supervision=(X, Z[:3], 1.0)), "z_s has 3 rows"),
        (lambda: model.filter(X, supervision=(X, Z[:, :1], 1.0)), "z_s has 1 column"),
        (lambda: model.filter(X, supervision=(X[:, :1], Z, 1.0)), "x_s has 1 column"),
        (lambda: model.filter(X, supervision=(X, Z, [1.0, 2.0])), "strength has 2 values"),
        (lambda: model.filter(X, supervision=lambda t, x, m: 3), "supervision must be a tuple"),
        (lambda: model.filter(X, supervision=lambda t, x, m: (x, m.mean())), "supervision must be"),
        (lambda: model.start().update(X[0], (X[:1], Z[:1], -1.0)), "strength is -1"),
    ):
        with pytest.raises(ValueError, match=words):
            use()


@pytest.mark.parametrize(
    "verb",
    [
        lambda m: m.filter(moved()[0]),
        lambda m: m.smooth(moved()[0]),
        lambda m: m.forecast(moved()[0], 2),
        lambda m: m.predict(moved()[0]),
        lambda m: m.score(*moved()),
        lambda m: m.start(),
    ],
)
def test_a_filter_that_was_not_fitted_says_so(verb):
    with pytest.raises(ValueError, match="not fitted"):
        verb(km.KernelBayesFilter())


def test_other_column_names_are_refused_by_a_filter():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(moved()[0], columns=["a", "b"])
    model = km.KernelBayesFilter(reg=0.1).fit(X, moved()[1])
    for other in (X[["b", "a"]], X.rename(columns={"a": "c"}), X[["a"]], X.assign(c=1.0)):
        for verb in (model.filter, model.smooth, model.predict, lambda A: model.forecast(A, 2)):
            with pytest.raises(ValueError, match="(?i)feature names|columns|features"):
                verb(other)


# ----------------------------------------------------------- messages say what was found and needed
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("NaN", "NaN"),
        ("inf", "inf"),
        ("no rows", "0 sample"),
        ("no columns", "0 feature|no column"),
        ("text", "text|dtype"),
        ("complex", "(?i)complex"),
        ("3-D", "(?i)2D|2-D|dimension"),
        ("ragged", "ragged"),
        ("other length", "29.*24|24.*29"),
        ("None", "None"),
        ("sparse", "sparse"),
        ("1e200 once", "(?i)large|overflow|beyond"),
        ("constant", "constant"),
        ("one row", "1 sample|row"),
    ],
)
@pytest.mark.parametrize(
    "door",
    [
        "ConditionalEmbedding.fit X",
        "KernelIV.fit X",
        "DensityRatio.fit denominator",
        "KernelIV.fit Z",
        "ConditionalDensity.fit X",
        "ConditionalDensity.fit y",
    ],
)
def test_messages_say_what_was_found(door, bad, words):
    if bad == "other length" and door.startswith("DensityRatio"):
        pytest.skip("two samples may differ in length")
    with pytest.raises(ValueError, match=words):
        DOORS[door][1](BAD[bad]())


# ------------------------------------------------------------------- values that are fine after all
FINE: dict[str, Callable[[], object]] = {
    "integers": lambda: np.arange(N * D).reshape(N, D),
    "booleans and numbers": lambda: np.column_stack([np.arange(N), np.arange(N) % 2]),
    "float32": lambda: good().astype(np.float32),
    "lists": lambda: good().tolist(),
    "object array of numbers": lambda: good().astype(object),
    "Fortran order": lambda: np.asfortranarray(good()),
    "every other row": lambda: good(2 * N)[::2],
    "read only": lambda: _read_only(good()),
    "far from zero": lambda: 1e7 + good(),
    "tiny": lambda: 1e-12 * good(),
    "huge": lambda: 1e12 * good(),
    "rows in pairs": lambda: np.repeat(good(N // 2), 2, axis=0),
    "outlier": lambda: spoiled(1e6),
}


def _read_only(X: np.ndarray) -> np.ndarray:
    X.setflags(write=False)
    return X


@pytest.mark.slow
@pytest.mark.parametrize("value", FINE)
@pytest.mark.parametrize(
    "door",
    [
        "ConditionalEmbedding.fit X",
        "ConditionalEmbedding.fit y",
        "ConditionalDensity.fit X",
        "ConditionalDensity.fit y",
        "ConditionalDensity.pdf Y",
        "ConditionalDensity.pdf X",
        "ConditionalDensity.predict_quantile",
        "EmbeddedDensity.fit X",
        "EmbeddedDensity.pdf",
        "KernelIV.fit X",
        "KernelIV.fit Z",
        "KernelIV.fit C",
        "DensityRatio.fit denominator",
        "DensityRatio.fit numerator",
        "KernelBayesFilter.fit X, importance",
        "KernelBayesFilter.fit Z, importance",
        "KernelBayesFilter.fit X, squared",
        "KernelBayesFilter.fit Z, squared",
        "KernelBayesFilter.filter X, importance",
        "KernelBayesFilter.smooth X, squared",
        "KernelBayesFilter.filter z_s",
        "MeanEmbedding points",
        "nystroem.fit",
        "exact.fit",
        "fourier.fit",
    ],
)
def test_unusual_but_sound_values_are_taken(door, value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        assert finite(DOORS[door][1](FINE[value]()))


@pytest.mark.parametrize("kind", ["Int64", "Float64", "boolean"])
def test_nullable_pandas_columns(kind):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": np.arange(N) % 5, "b": np.arange(N) % 2}).astype({"b": kind})
    c = km.ConditionalEmbedding().fit(frame, good(seed=1))
    assert finite(c.predict(frame))
    frame.loc[3, "b"] = pd.NA
    with pytest.raises(ValueError, match="X"):
        km.ConditionalEmbedding().fit(frame, good(seed=1))


@pytest.mark.parametrize(
    "door",
    [
        "ConditionalEmbedding.fit X",
        "ConditionalDensity.fit y",
        "ConditionalDensity.pdf Y",
        "EmbeddedDensity.fit X",
        "KernelIV.fit Z",
        "KernelBayesFilter.fit Z, importance",
        "KernelBayesFilter.filter X, importance",
        "gaussian X",
    ],
)
def test_masked_values_are_missing_values(door):
    """Reading through the mask would use the numbers somebody marked as wrong."""
    with pytest.raises(ValueError, match="mask|NaN"):
        DOORS[door][1](np.ma.masked_array(good(), good() > 1))
    with pytest.raises(ValueError, match="mask|NaN"):
        DOORS[door][1]([*np.ma.masked_array(good(), good() > 1)])


def test_text_columns_of_a_data_frame_are_named():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(good(), columns=["a", "b"]).assign(fruit="fig", town="Ur")
    for door in (
        "ConditionalEmbedding.fit X",
        "ConditionalDensity.fit X",
        "ConditionalDensity.fit y",
        "EmbeddedDensity.fit X",
        "KernelIV.fit X",
        "KernelIV.fit Z",
        "KernelIV.fit C",
        "KernelBayesFilter.fit X, importance",
        "KernelBayesFilter.fit Z, importance",
        "KernelBayesFilter.filter X, importance",
        "MeanEmbedding points",
    ):
        with pytest.raises(ValueError, match="fruit.*town"):
            DOORS[door][1](frame)


def test_columns_of_dates_and_names_that_are_there_twice_are_named():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(good(), columns=["a", "b"])
    days = pd.date_range("2020-01-31", periods=N, tz="Europe/Berlin")
    for when in (days, days - days[0], days.tz_localize(None).to_period("M")):
        with pytest.raises(ValueError, match=r"X has columns of dates \['when'\]"):
            km.ConditionalEmbedding().fit(frame.assign(when=when), frame["a"])
    with pytest.raises(ValueError, match="X has more than one column named b; rename"):
        km.ConditionalEmbedding().fit(pd.concat([frame, frame[["b"]]], axis=1), frame["a"])


# -------------------------------------------------------------------------------------- parameters
@pytest.mark.parametrize("bad", ["gausian", "", 3, None, ["gaussian"], km.Gaussian])
@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("kernel_x", lambda b: km.ConditionalEmbedding(kernel_x=b).fit(good(), good())),
        ("kernel_y", lambda b: km.ConditionalEmbedding(kernel_y=b).fit(good(), good())),
        ("kernel", lambda b: km.DensityRatio(kernel=b).fit(good(), good())),
        ("kernel", lambda b: km.MeanEmbedding(good(), kernel=b)),
        ("kernel", lambda b: km.Nystroem().fit(good(), kernel=b)),
        ("kernel_x", lambda b: km.KernelIV(kernel_x=b).fit(good(), good()[:, 0], good())),
        ("kernel_z", lambda b: km.KernelIV(kernel_z=b).fit(good(), good()[:, 0], good())),
        ("kernel_x", lambda b: fit_filter(*moved(), kernel_x=b)),
        ("kernel_z", lambda b: fit_filter(*moved(), kernel_z=[] if b is None else b)),
        ("kernel_x", lambda b: km.ConditionalDensity(kernel_x=b).fit(good(), good())),
        ("kernel_y", lambda b: km.ConditionalDensity(kernel_y=b).fit(good(), good())),
        ("kernel", lambda b: km.EmbeddedDensity(b).fit(good())),
        ("kernel", km.as_kernel),
    ],
    ids=[
        "CE.kernel_x",
        "CE.kernel_y",
        "DensityRatio",
        "MeanEmbedding",
        "Nystroem",
        "IV.kernel_x",
        "IV.kernel_z",
        "Filter.kernel_x",
        "Filter.kernel_z",
        "Density.kernel_x",
        "Density.kernel_y",
        "EmbeddedDensity",
        "as_kernel",
    ],
)
def test_unknown_kernels_are_refused_by_argument_and_the_choices_listed(name, use, bad):
    with pytest.raises(ValueError, match=rf"\b{name}\b") as refusal:
        use(bad)
    assert "laplace" in str(refusal.value)


@pytest.mark.parametrize("bad", [-1.0, -1e-12, np.nan, np.inf, "1", True, [0.1], 1j])
@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("reg", lambda b: km.ConditionalEmbedding(reg=b).fit(good(), good())),
        ("reg", lambda b: km.ConditionalEmbedding().fit(good(), good()).loo_score([0.1, b])),
        ("reg", lambda b: km.DensityRatio(reg=b).fit(good(), good())),
        ("reg_stage1", lambda b: km.KernelIV(reg_stage1=b).fit(good(), good()[:, 0], good())),
        ("reg_stage2", lambda b: km.KernelIV(reg_stage2=b).fit(good(), good()[:, 0], good())),
        ("reg", lambda b: fit_filter(*moved(), reg=b)),
        ("reg_prior", lambda b: fit_filter(*moved(), reg_prior=b)),
        ("reg_transition", lambda b: fit_filter(*moved(), reg_transition=b, rule="squared")),
        ("reg_smoother", lambda b: fit_filter(*moved(), reg_smoother=b)),
        ("max_active", lambda b: fit_filter(*moved(), max_active=b)),
        ("steps", lambda b: fitted_filter().forecast(moved()[0], b)),
        ("validation", lambda b: km.KernelBayesFilter().tune(*moved(), validation=b)),
        ("level", lambda b: fitted_filter().filter(moved()[0]).interval(b)),
        ("level", lambda b: instrumented().predict_interval(good(), level=b)),
        ("level", lambda b: instrumented().average_derivative(level=b)),
        ("level", lambda b: instrumented().contrast(good(), good(), level=b)),
        ("column", lambda b: instrumented().derivative(good(), column=b)),
        ("column", lambda b: instrumented().average_derivative(column=b)),
        ("reg", lambda b: km.ConditionalDensity(reg=b).fit(good(), good())),
        ("reg", lambda b: fitted_line().loo_score(reg=b)),
        ("level", lambda b: fitted_line().predict_interval(good(), b)),
        ("level", lambda b: fitted_line().predict_interval(good(), b, "shortest")),
        ("level", lambda b: fitted_line().region(good(), b)),
    ],
    ids=[
        "ConditionalEmbedding",
        "loo_score",
        "DensityRatio",
        "stage1",
        "stage2",
        "Filter.reg",
        "Filter.reg_prior",
        "Filter.reg_transition",
        "Filter.reg_smoother",
        "Filter.max_active",
        "Filter.steps",
        "Filter.validation",
        "Filter.level",
        "IV.level",
        "IV.average level",
        "IV.contrast level",
        "IV.column",
        "IV.average column",
        "Density.reg",
        "Density.loo_score",
        "Density.interval",
        "Density.shortest",
        "Density.region",
    ],
)
def test_bad_regularisers_are_refused(name, use, bad):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        use(bad)


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["nystroem", 5, km.Nystroem, [], km.Gaussian()])
def test_bad_feature_maps_are_refused(bad):
    for make in (
        km.ConditionalEmbedding,
        km.ConditionalDensity,
        km.DensityRatio,
        km.KernelBayesFilter,
    ):
        with pytest.raises(ValueError, match="features"):
            make(features=bad).fit(good(), good())
    with pytest.raises(ValueError, match="features"):
        km.KernelIV(features=bad).fit(good(), good()[:, 0], good())


@pytest.mark.parametrize(
    "bad",
    [
        {},
        [],
        None,
        "x",
        {0: "gausian"},
        {-1: "linear"},
        {0.5: "linear"},
        {(0, 0): "linear"},
        {0: "linear", (0, 1): "delta"},
        {(): "linear"},
    ],
)
def test_bad_column_maps_are_refused(bad):
    with pytest.raises(ValueError):
        km.on_columns(bad)


@pytest.mark.parametrize("bad", ["seed", -1, 1.5, [1.5]])
def test_bad_random_states_are_refused(bad):
    for use in (
        lambda: km.Nystroem(random_state=bad).fit(good(), "gaussian"),
        lambda: km.RandomFourier(10, random_state=bad).fit(good(), "gaussian"),
        lambda: km.KernelIV(random_state=bad).fit(good(), good()[:, 0], good()),
        lambda: fitted_line().sample(good(), 2, random_state=bad),
        lambda: embedded().sample(2, random_state=bad),
    ):
        with pytest.raises(ValueError, match="random_state"):
            use()


# --------------------------------------------------------------------------------------- densities
@pytest.mark.parametrize(
    "bad", [0, -1.0, np.nan, np.inf, "1", True, 1j, [0.1, 0.2, 0.3], [0.1, -1.0], [], [[0.1, 0.2]]]
)
@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("bandwidth", lambda b: km.ConditionalDensity(bandwidth=b).fit(good(), good())),
        ("bandwidth", lambda b: fitted_density().loo_score(bandwidth=b)),
        ("lengthscale", lambda b: fitted_density().loo_score(lengthscale=b)),
        ("bandwidth", lambda b: km.EmbeddedDensity(bandwidth=b).fit(good())),
        ("bandwidth", lambda b: embedded().loo_score(b)),
    ],
    ids=["fit", "loo_score", "lengthscale", "embedded", "embedded loo_score"],
)
def test_bad_bandwidths_are_refused(name, use, bad):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        use(bad)


@pytest.mark.parametrize("kernel", ["linear", "delta", "periodic", km.on_columns({0: "linear"})])
def test_kernels_that_do_not_smooth_are_refused(kernel):
    with pytest.raises(ValueError, match=r"kernel_y.*Gaussian, Laplace or Matern kernel"):
        km.ConditionalDensity(kernel_y=kernel).fit(good(), good()[:, 0])
    if kernel != "periodic":  # smooths angles
        with pytest.raises(ValueError, match=r"\bkernel\b"):
            km.EmbeddedDensity(kernel).fit(good(d=1))


def test_what_densities_say_of_other_mistakes():
    X, y = good(), good()[:, 0]
    line, plane = fitted_line(), fitted_density()
    for use, words in (
        (lambda: km.ConditionalDensity(intercept="yes").fit(X, y), "intercept is 'yes'.*True"),
        (lambda: km.ConditionalDensity(intercept=None).fit(X, y), "intercept is None.*auto"),
        (lambda: km.ConditionalDensity(location=2).fit(X, y), "location is 2.*auto"),
        (lambda: km.ConditionalDensity(tune_lengthscale=1.0).fit(X, y), "tune_lengthscale is 1.0"),
        (lambda: km.ConditionalDensity().fit(X, None), "y is missing|y.*None"),
        (lambda: km.ConditionalDensity().fit(X, y[:5]), "y has 5 rows but X has 24"),
        (lambda: km.ConditionalDensity().fit(X[:4], y[:4]), "found 4 sample.*minimum of 5"),
        (lambda: line.pdf(y[:3], X, paired=True), "3.*24"),
        (lambda: line.pdf(y, X, paired="no"), "paired"),
        (lambda: line.pdf(y, X, paired=3), "paired"),
        (lambda: line.cdf(y, X, paired=3), "paired"),
        (lambda: line.score_samples(X, y[:3]), "3.*24"),
        (lambda: line.pdf(X, X), "Y has 2 columns.*1"),
        (lambda: plane.pdf(y, X), "Y has 1 column.*2"),
        (lambda: line.pdf(y, X[:, :1]), "X has 1 features, but ConditionalDensity"),
        (lambda: line.predict_quantile(X, 1.5), "q is 1.5.*between 0 and 1"),
        (lambda: line.predict_quantile(X, -0.1), "q is -0.1"),
        (lambda: line.predict_quantile(X, [0.1, np.nan]), r"\bq\b"),
        (lambda: line.predict_quantile(X, [[0.1]]), r"\bq\b"),
        (lambda: line.predict_quantile(X, "half"), r"\bq\b"),
        (lambda: line.predict_quantile(X, None), r"\bq\b"),
        (lambda: line.predict_interval(X, 1.0), "level is 1.0"),
        (lambda: line.predict_interval(X, 0.5, "hdr"), "kind is 'hdr'.*central.*shortest"),
        (lambda: plane.region(X), "2 columns"),
        (lambda: line.sample(X, 0), r"\bn\b is 0"),
        (lambda: line.sample(X, 1.5), r"\bn\b is 1.5"),
        (lambda: embedded().sample(0), "n_samples is 0"),
        (lambda: embedded().pdf(X[:, :1]), "X has 1 features, but EmbeddedDensity"),
        (lambda: km.EmbeddedDensity().fit(X, sample_weight=np.ones(3)), "sample_weight has 3"),
        (
            lambda: km.EmbeddedDensity().fit(X, sample_weight=np.resize([1.0, -1.0], N)),
            "sample_weight sums to zero",
        ),
        (lambda: km.EmbeddedDensity().fit(np.ones((9, 2))), "constant.*bandwidth"),
        (lambda: km.EmbeddedDensity().fit([[1.0]]), "1 sample.*minimum of 2"),
        (
            lambda: km.ConditionalDensity(km.Linear(), 0.5, 0.1).fit(X, y).loo_score(lengthscale=1),
            "lengthscale",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            use()


@pytest.mark.parametrize("kind", [int, float, bool, "Int64", "Float64", "boolean"])
def test_tables_of_every_kind_of_number_are_read(kind):
    """pandas 3.0 does not let whole numbers be asked for with NaN in place of what is missing."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 0, 1], "b": [0, 1, 1]}).astype(kind)
    assert_array_equal(as_points(frame), [[1, 0], [0, 1], [1, 1]])
    assert_array_equal(as_points(frame["a"]), [[1], [0], [1]])
    if isinstance(kind, str):
        frame.loc[1, "b"] = pd.NA
        assert_array_equal(as_points(frame, gaps=True), [[1, 0], [0, np.nan], [1, 1]])


@pytest.mark.parametrize(
    "odd",
    [
        np.array([[1.0, np.datetime64("2020-01-01", "D")]] * 3, dtype=object),
        np.array([[1.0, np.timedelta64(3, "D")]] * 3, dtype=object),
        np.array([["1", "2"]] * 3, dtype=np.dtypes.StringDType()),
    ],
)
def test_what_numpy_would_count_or_read_is_no_number(odd):
    with pytest.raises(ValueError, match="points holds text or dates"):
        km.MeanEmbedding(odd)


class Table:
    """Of some library: an array with other attributes."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def __array__(self, dtype=None, copy=None):
        return good()


def test_tables_of_other_libraries_are_read_by_name_or_refused():
    """xarray's have a method of Dask's, and rows along any dimension; a lazy frame has no rows."""
    labelled = Table(dims=("time", "place"), __dask_graph__=lambda: None)
    for fit in (km.ConditionalDensity().fit, km.KernelIV().fit):  # one takes rows of Dask
        with pytest.raises(ValueError, match=r"X is a Table of xarray.*X.to_pandas\(\)"):
            fit(labelled, good()[:, 0])
        with pytest.raises(ValueError, match=r"X is a Table, which holds no rows.*X.collect\(\)"):
            fit(Table(collect=good), good()[:, 0])
    assert_array_equal(as_points(Table(dims=(), shape=(N, D))), good())  # of h5py
    column = Table(name="height", to_frame=good)  # a Series of Polars
    assert column_names(column) == ["height"]
    assert column_names(Table(name="", to_frame=good)) is None


def test_a_table_of_arrow_has_names():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [1.0, 2.0, 4.0], "b": [3.0, 0.0, 1.0]})
    for rows in (table, table.to_batches()[0]):
        assert column_names(rows) == ["a", "b"]
        assert_array_equal(as_points(rows), [[1, 3], [2, 0], [4, 1]])
    law = km.ConditionalEmbedding().fit([[0.0], [1.0], [2.0]], table).at([[1.0]])
    assert [*law.to_frame().columns[:8:4]] == ["a", "b"]


@pytest.mark.parametrize("model", ["ConditionalEmbedding", "KernelIV"])
def test_a_score_takes_no_dates(model):
    """scikit-learn's counts them, in nanoseconds or microseconds."""
    pd = pytest.importorskip("pandas")
    days = pd.DataFrame({"y": pd.date_range("2020", periods=N)})
    fitted = SIDES[model][0](good(), good(seed=1))
    with pytest.raises(ValueError, match=r"y has columns of dates \['y'\]"):
        fitted.score(good(), days)


def test_a_text_among_numbers_is_named_with_its_row():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": np.arange(20.0), "b": [*map(float, range(19)), "n/a"]})
    with pytest.raises(ValueError, match=r"text columns \['b'\] \('n/a' in row 19, counted from 0"):
        km.ConditionalDensity().fit(table, np.arange(20.0))


def test_a_series_is_a_table_of_one_column_in_fit_and_after():
    pd = pytest.importorskip("pandas")
    x = pd.Series(np.linspace(0, 1, 60) ** 2, name="age")
    y, frame = np.sin(3 * x.to_numpy()), x.to_frame()
    fits: list = [km.ConditionalEmbedding(reg=1e-3).fit(A, y) for A in (x, frame)]
    fits += [km.KernelIV("linear", "linear").fit(A, y, frame) for A in (x, frame)]
    for model in fits:
        assert list(model.feature_names_in_) == ["age"]
        np.testing.assert_array_equal(model.predict(x[:3]), model.predict(frame[:3]))
    with pytest.raises(ValueError, match="height"):
        fits[0].predict(x.rename("height")[:3])


# name -> what is fitted to rows of two columns, and what is asked of it
SIDES: dict[str, tuple[Callable, Callable]] = {
    "ConditionalEmbedding": (lambda X, Z: km.ConditionalEmbedding().fit(X, Z), predicted),
    "ConditionalDensity": (lambda X, Z: km.ConditionalDensity().fit(X, Z), predicted),
    "KernelIV": (lambda X, Z: km.KernelIV().fit(X, good(d=1)[:, 0], Z=Z), predicted),
    "KernelBayes": (lambda X, Z: km.KernelBayes().fit(X, Z), predicted),
    "KernelBayesFilter": (lambda X, Z: km.KernelBayesFilter(inference="kbr").fit(X, Z), predicted),
    "EmbeddedDensity": (lambda X, Z: km.EmbeddedDensity().fit(X), lambda m, X: m.score_samples(X)),
    "DensityRatio": (lambda X, Z: km.DensityRatio().fit(X, Z), predicted),
    "KernelHMM": (lambda X, Z: km.KernelHMM(2, random_state=0).fit(X), predicted),
    "KernelStateSpace": (lambda X, Z: km.KernelStateSpace(random_state=0).fit(X), predicted),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIDES)
def test_a_series_is_a_column(name):
    pd = pytest.importorskip("pandas")
    fit, ask = SIDES[name]
    x, z = good(d=1), good(d=1) + 0.3 * good(d=1, seed=1)
    frame = pd.DataFrame({"x": x[:, 0], "z": z[:, 0]})
    theirs, ours = fit(frame["x"], frame["z"]), fit(frame[["x"]], frame["z"])
    assert_allclose(ask(theirs, frame["x"]), ask(ours, frame[["x"]]))
    assert theirs.summary() == ours.summary()


@pytest.mark.parametrize("name", SIDES)
def test_columns_whose_squares_vanish(name):
    x, z = good(d=1), good(d=1) + 0.3 * good(d=1, seed=1)
    with pytest.raises(ValueError, match="constant"):
        SIDES[name][0](1e-160 * x, 1e-160 * z)


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("prior", lambda Z, W: km.KernelBayes(reg=0.1, reg_prior=0.1).fit(Z, Z).posterior(Z, W)),
        ("Z", lambda Z, W: km.KernelBayes(reg=0.1, reg_prior=0.1).fit(Z, Z).score(Z, W)),
        ("m", lambda Z, W: km.ConditionalEmbedding(reg=0.1).fit(Z, Z).apply(W)),
        ("numerator", lambda Z, W: km.DensityRatio(reg=0.1).fit(Z, W)),
        ("Z", lambda Z, W: km.DensityRatio(reg=0.1).fit(Z, Z).predict(W)),
        ("y", lambda Z, W: km.ConditionalDensity(bandwidth=1.0, reg=0.1).fit(Z, Z).score(Z, W)),
        ("Y", lambda Z, W: km.MeanEmbedding(Z).density(W)),
        ("other", lambda Z, W: km.MeanEmbedding(Z).mmd(km.MeanEmbedding(W))),
        ("m", lambda Z, W: km.ConditionalEmbedding(reg=0.1).fit(Z, Z).apply(km.MeanEmbedding(W))),
    ],
)
def test_columns_in_another_order_are_not_taken_by_their_place(name, ask):
    pd = pytest.importorskip("pandas")
    Z = pd.DataFrame(good(d=2), columns=["a", "b"])
    with pytest.raises(ValueError, match=rf"^{name} has columns \['b', 'a'\] .* \['a', 'b'\]"):
        ask(Z, Z[["b", "a"]])


def test_laws_that_share_no_points_are_no_prior():
    model = km.KernelBayes("density").fit(good(d=1), good(d=1, seed=1))
    with pytest.raises(ValueError, match=r"^prior is MovedLaws\(.*one of them"):
        model.posterior(good(d=1), model.posterior(good(d=1)))
