"""What every estimator answers at its defaults and main options: one function per case.

Each returns arrays by name. `test_reference.py` compares them with `data/reference.npz`, which is
recorded anew, when answers are meant to change, by

    PYTHONPATH=src OMP_NUM_THREADS=1 python tests/reference_predictions.py [case ...]

(cases named: only those are replaced, on the kind of machine that recorded the others).
Without an answer here: what needs PyTorch (`Neural`,
`DeepIV`, `MixtureDensityNetwork`). Only what `kernelmean` exports is used, so that the same file
runs wherever things are inside.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  its BLAS is part of the machine
from chain_options import hidden, latent
from threadpoolctl import threadpool_info

import kernelmean as km
from kernelmean.statespace import particles

MACHINE = "machine"  # in the file: whose rounding these are
FILE = Path(__file__).parent / "data" / "reference.npz"
Answers = dict[str, Any]
CASES: dict[str, Callable[[], Answers]] = {}
NEEDS: dict[str, tuple[str, ...]] = {}  # packages of cases


def case(*packages: str):
    def register(function: Callable[[], Answers]) -> Callable[[], Answers]:
        CASES[function.__name__] = function
        NEEDS[function.__name__] = packages
        return function

    return register


def machine() -> str:
    """The kernels of the BLAS libraries of this process, which decide how sums are rounded."""
    found = {lib.get("architecture", "") for lib in threadpool_info() if lib["user_api"] == "blas"}
    return " ".join(sorted(found))


def value(x: Any) -> Any:
    """An attribute, or what the method answers if it has become one."""
    return x() if callable(x) and not isinstance(x, km.MeanEmbedding) else x


def recorded(name: str) -> dict[str, np.ndarray]:
    """The answers of one case, as arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", km.NumericalWarning)
        return {key: np.asarray(told) for key, told in CASES[name]().items()}


def flat(found: list[np.ndarray]) -> np.ndarray:
    """Arrays of several shapes one after the other."""
    return np.concatenate([np.ravel(part) for part in found])


def pairs(n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Two columns each: y is a noisy curve in x."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.2 * rng.normal(size=(n, 2))
    return X, Y


# ------------------------------------------------------------------------------------ instruments


def iv_answers(model, x, C=None) -> Answers:
    effect, change = (
        model.average_derivative(),
        model.contrast(x[:4], x[4:], None if C is None else C[:4]),
    )
    strength, confounded = model.first_stage(), model.endogeneity_test()
    return {
        "predict": model.predict(x, C),
        "interval": np.stack(model.predict_interval(x, C), axis=-1),
        "pointwise": np.stack(model.predict_interval(x, C, level=0.8, simultaneous=False), axis=-1),
        "derivative": model.derivative(x, C),
        "derivative_interval": np.stack(model.derivative_interval(x, C), axis=-1),
        "average_derivative": [effect.value, effect.error, effect.low, effect.high],
        "average_derivative_p": value(effect.p_value),
        "contrast": [change.value, change.error, change.low, change.high],
        "first_stage": np.array([strength.partial_r2, strength.f]),
        "weak": value(strength.weak),
        "endogeneity": [value(confounded.distance), value(confounded.p_value)],
        "regs": [model.reg_stage1_, model.reg_stage2_],
        "summary": str(model.summary()),
    }


def iv_case(**parameters) -> Answers:
    data = km.datasets.make_iv_sigmoid(150, random_state=0)
    model = km.KernelIV(**parameters).fit(data.X, data.y, data.Z)
    return iv_answers(model, data.grid[::125]) | {"score": model.score(data.X, data.y)}


@case()
def iv_default() -> Answers:
    return iv_case()


@case()
def iv_split() -> Answers:
    return iv_case(split=0.5, random_state=0)


@case()
def iv_folds() -> Answers:
    return iv_case(split=3, random_state=0)


@case()
def iv_trend() -> Answers:
    return iv_case(trend=1)


@case()
def iv_no_trend_matern() -> Answers:
    return iv_case(trend=0, kernel_x=km.Matern(), tune_lengthscale=False)


@case()
def iv_fourier() -> Answers:
    return iv_case(features=km.RandomFourier(60))


@case()
def iv_exact_regs() -> Answers:
    return iv_case(features=km.Exact(), reg_stage1=1e-3, reg_stage2=1e-3)


@case()
def iv_exogenous() -> Answers:
    data = km.datasets.make_iv_demand(80, random_state=0)
    model = km.KernelIV().fit(data.X, data.y, data.Z, data.C)
    rows = data.grid[::400]
    return {
        "predict": model.predict(rows[:, :1], rows[:, 1:]),
        "interval": np.stack(model.predict_interval(rows[:, :1], rows[:, 1:]), axis=-1),
        "derivative": model.derivative(rows[:, :1], rows[:, 1:]),
        "summary": str(model.summary()),
    }


@case("pandas", "formulaic")
def iv_formula() -> Answers:
    import pandas as pd

    data = km.datasets.make_iv_demand(80, random_state=0)
    columns = {"sales": data.y, "p": data.X[:, 0], "z": data.Z[:, 0], "t": data.C[:, 0]}
    table = pd.DataFrame(columns | {"s": data.C[:, 1].astype(int)})
    model = km.KernelIV.from_formula("sales ~ t + C(s) + [p ~ z]", table)
    return {
        "predict": model.predict(table[:20]),
        "interval": np.stack(model.predict_interval(table[:20]), axis=-1),
        "summary": str(model.summary()),
    }


@case("dask")
def iv_dask() -> Answers:
    import dask.array as da

    data = km.datasets.make_iv_sigmoid(150, random_state=0)
    model = km.KernelIV().fit(*(da.from_array(a, chunks=50) for a in (data.X, data.y, data.Z)))
    return {"predict": model.predict(data.grid[::125])}


@case()
def iv_effect() -> Answers:
    data = km.datasets.make_iv_sigmoid(120, random_state=1)
    W = np.random.default_rng(0).normal(size=(120, 2))
    told: Answers = {}
    for name, parts in {"plain": {}, "controls": {"W": W[:, 1:]}}.items():
        model = km.econml.KernelIVEffect().fit(data.y, data.X, Z=data.Z, **parts)
        told |= {
            f"{name} effect": model.effect(T0=0.2, T1=0.7),
            f"{name} effect_interval": np.array(model.effect_interval(T0=0.2, T1=0.7)),
            f"{name} ate": model.ate(T0=0.2, T1=0.7),
            f"{name} ate_interval": np.array(model.ate_interval(T0=0.2, T1=0.7)),
            f"{name} marginal": model.marginal_effect(data.grid[::200]),
        }
    return told


# ------------------------------------------------------------------------- embeddings and rules


def conditional_answers(**parameters) -> Answers:
    X, Y = pairs()
    c = km.ConditionalEmbedding(**parameters).fit(X, Y)
    prior = km.MeanEmbedding(X[:30] / 2, kernel=c.kernel_x_)
    return {
        "predict": c.predict(X[:20]),
        "expectation": c.expectation(lambda y: y**2, X[:20]),
        "mean": value(c.at(X[:20]).mean),
        "weights": c.weights(X[:5]),
        "loo_score": [c.loo_score(0.1), c.reg_, c.loo_score_],
        "sum_rule": km.sum_rule(c, prior).mean(),
        "sum_rule_samples": km.sum_rule(c, X[:30] / 2)(Y[:10]),
        "product_rule": km.product_rule(c, prior)(np.hstack([X, Y])[:10]),
    }


@case()
def conditional_default() -> Answers:
    return conditional_answers()


@case()
def conditional_tuned() -> Answers:
    return conditional_answers(tune_lengthscale=True)


@case()
def conditional_exact() -> Answers:
    return conditional_answers(features=km.Exact(), kernel_x="laplace", reg=0.01)


@case()
def composition() -> Answers:
    X, Y = pairs()
    both = km.ConditionalEmbedding().fit(Y, X) @ km.ConditionalEmbedding().fit(X, Y)
    return {"predict": both.predict(X[:20]), "at": both.at(X[:5])(X[:10])}


@case()
def density_ratio() -> Answers:
    X, Y = pairs()
    settings = {"default": {}, "relative": {"relative": 0.3}, "reg": {"reg": 0.1}}
    return {k: km.DensityRatio(**s).fit(X, Y).predict(X[:20]) for k, s in settings.items()}


def bayes_answers(rule: str, **parameters) -> Answers:
    X, Z = pairs()
    model = km.KernelBayes(rule, **parameters).fit(X, Z)
    prior = km.MeanEmbedding(Z[:40] / 2)
    told = {
        "predict": model.predict(X[:10]),
        "with_prior": model.predict(X[:10], Z[:40] / 2),
        "weights": model.weights(X[:4], prior),
        "posterior": model.posterior(X[:4], prior).cov(),
        "regularisers": [r or 0.0 for r in model.regularisers(prior)],
        "bayes_rule": km.bayes_rule(X, Z, prior, X[0], rule=rule, **parameters).mean(),
    }
    if rule == "importance":
        told["supervised"] = model.predict(X[:10], supervision=(X[:3], Z[3:6], 0.5))
    return told


@case()
def bayes_importance() -> Answers:
    return bayes_answers("importance")


@case()
def bayes_squared() -> Answers:
    return bayes_answers("squared")


@case()
def bayes_tuned() -> Answers:
    return bayes_answers("importance", tune_lengthscale=True)


@case()
def bayes_balance() -> Answers:
    return bayes_answers("importance", selection="balance")


@case()
def simulate_posterior() -> Answers:
    told: Answers = {}
    for method in ("conditional", "bayes"):
        posterior = km.simulate_posterior(
            lambda n, rng: rng.normal(0, 1, n),
            lambda mean, rng: rng.normal(mean[0], 1, 10)[:2],
            observed=[1.0, 0.5],
            n=150,
            method=method,
            random_state=0,
        )
        told |= {method: posterior.mean(), f"{method} weights": posterior.weights}
    return told


def signed() -> km.MeanEmbedding:
    rng = np.random.default_rng(5)
    return km.MeanEmbedding(rng.normal(size=(60, 1)), rng.normal(1, 1, 60) / 60, km.Gaussian(0.5))


def embedding_answers(m, points) -> Answers:
    return {
        "call": m(points),
        "mean": value(m.mean),
        "total": value(m.total),
        "covariance": value(m.cov),
        "expectation": m.expectation(lambda y: y**3),
        "normalised": m.normalised().weights,
        "density": m.density(points),
        "density_bandwidth": m.density(points, 0.4),
        "signed": m.density(points, signed=True),
        "log_density": m.log_density(points),
        "negative_mass": np.array(m.negative_mass()),
        "cdf": m.cdf(points, 0.3),
        "steps": m.cdf(points),
        "quantile": m.quantile([0.1, 0.5]),
        "quantile_smooth": m.quantile([0.1, 0.5], 0.3),
        "interval": np.array(m.interval(0.8)),
        "interval_smooth": np.array(m.interval(0.8, bandwidth=0.3)),
        "sample": m.sample(10, random_state=0),
        "mode": m.mode(),
        "herd": m.herd(6),
    }


@case()
def embedding_line() -> Answers:
    m = signed()
    points = np.linspace(-2, 2, 15)[:, None]
    other = km.MeanEmbedding(points, kernel=km.Gaussian(0.5))
    told = embedding_answers(m, points)
    return told | {
        "shortest": np.array(m.interval(0.8, "shortest", 0.3)),
        "region": m.region(0.8),
        "inner": m.inner(other),
        "mmd": m.mmd(other),
    }


@case()
def embedding_plane() -> Answers:
    X, Y = pairs(60)
    m = km.MeanEmbedding(X)
    return embedding_answers(m, Y[:15]) | {"marginal": m.marginal([1]).cdf(Y[:9, :1], 0.3)}


@case()
def embedding_batch() -> Answers:
    X, _ = pairs(60)
    weights = np.random.default_rng(2).dirichlet(np.ones(60), 3)
    m = km.MeanEmbedding(X[:, :1], weights, "laplace")
    points = np.linspace(-2, 2, 9)[:, None]
    return embedding_answers(m, points) | {"region": flat(m.region(0.7))}


@case()
def embedding_circle() -> Answers:
    angles = np.random.default_rng(3).vonmises(1.0, 2.0, (60, 1)) % (2 * np.pi)
    m = km.MeanEmbedding(angles, kernel=km.Periodic())
    return {"call": m(angles[:9]), "density": m.density(angles[:9]), "mode": m.mode()}


# --------------------------------------------------------------------------------- densities


def density_answers(model, x, y) -> Answers:
    return {
        "pdf": model.pdf(y, x, paired=False),
        "score_samples": model.score_samples(x, y),
        "score": model.score(x, y),
        "predict": model.predict(x),
        "quantile": model.predict_quantile(x, [0.1, 0.5, 0.9]),
        "interval": np.array(model.predict_interval(x, 0.8)),
        "cdf": model.cdf(y, x, paired=False),
        "sample": model.sample(x, 3, random_state=0),
        "mode": model.mode(x[:4]),
        "loo_score": [model.loo_score(), model.loo_score(bandwidth=0.5, reg=0.2)],
        "at": model.at(x[:1])(y[:, None] if y.ndim == 1 else y),
        "settings": flat([model.reg_, model.bandwidth_, model.scales_]),
    }


def density_case(**parameters) -> Answers:
    data = km.datasets.make_conditional_density("bimodal", 100, random_state=0)
    model = km.ConditionalDensity(**parameters).fit(data.X, data.Y)
    told = density_answers(model, data.X[:12], data.Y[:12])
    told["region"] = flat(model.region(data.X[:12], 0.8))
    return told | {"shortest": np.array(model.predict_interval(data.X[:5], 0.8, kind="shortest"))}


@case()
def density_default() -> Answers:
    return density_case()


@case()
def density_location() -> Answers:
    return density_case(location=True)


@case()
def density_laplace() -> Answers:
    return density_case(kernel_y="laplace", location=False, tune_lengthscale=False)


@case()
def density_gaussian4() -> Answers:
    return density_case(kernel_y=km.Gaussian4(), location=False)


@case()
def density_exact() -> Answers:
    return density_case(features=km.Exact(), bandwidth=0.4, reg=0.05)


@case()
def density_two_columns() -> Answers:
    X, Y = pairs(60)
    return density_answers(km.ConditionalDensity().fit(X, Y), X[:8], Y[:8])


@case()
def embedded_density() -> Answers:
    X, Y = pairs()
    settings = {"default": {}, "laplace": {"kernel": "laplace"}, "width": {"bandwidth": 0.3}}
    told: Answers = {}
    for name, parameters in settings.items():
        for d in (1, 2):
            model = km.EmbeddedDensity(**parameters).fit(X[:, :d])
            told |= {
                f"{name} {d} pdf": model.pdf(Y[:10, :d]),
                f"{name} {d} score_samples": model.score_samples(Y[:10, :d]),
                f"{name} {d} sample": model.sample(4, random_state=0),
                f"{name} {d} loo": [model.loo_score(), *np.ravel(model.bandwidth_)],
            }
    return told


# ------------------------------------------------------------------------------ filters


def filter_answers(model, X, Z) -> Answers:
    gaps = X.copy()
    gaps[3] = np.nan
    told: Answers = {}
    for name in ("filter", "smooth"):
        found = getattr(model, name)(gaps, [10, len(X) - 10])
        told |= {
            f"{name} mean": value(found.mean),
            f"{name} weights": value(found.embedding).weights,
            f"{name} interval": np.array(found.interval(0.8)),
            f"{name} collapsed": value(found.collapsed),
            f"{name} missing": value(found.missing),
        }
    ahead = model.forecast(X, 3)
    belief = model.start(Z[:3]).update(X[0]).predict().update(X[1])
    return told | {
        "forecast": value(ahead.mean),
        "observations": value(ahead.observations).mean(),
        "forecast_interval": np.array(ahead.interval(0.8)),
        "predict": model.predict(X),
        "mode": model.predict(X[:4], point="mode"),
        "score": model.score(X, Z),
        "belief": value(belief.mean),
        "prior": value(model.filter(X[:5], prior=Z[:3]).mean),
    }


def filter_case(rule: str, tuned: bool = False, **parameters) -> Answers:
    train, test = (km.datasets.make_rotation(n, random_state=n) for n in (100, 30))
    model = km.KernelBayesFilter(rule, inference="kbr", **parameters)
    if tuned:
        model = model.tune(train.X, train.Z, validation=0.3)
    else:
        model.fit(train.X, train.Z)
    told = filter_answers(model, test.X, test.Z)
    if rule == "importance":
        supervision = (test.X[5:10], test.Z[5:10], 0.5)
        told["supervised"] = value(model.filter(test.X[:5], supervision=supervision).mean)
    return told


@case()
def filter_importance() -> Answers:
    return filter_case("importance")


@case()
def filter_squared() -> Answers:
    return filter_case("squared")


@case()
def filter_exact() -> Answers:
    return filter_case("importance", features=km.Exact(), max_active=60)


@case()
def filter_importance_tuned() -> Answers:
    return filter_case("importance", tuned=True, reg=1e-2, features=km.Nystroem(tol=1e-2))


@case()
def filter_squared_tuned() -> Answers:
    return filter_case("squared", tuned=True, reg=1e-2, features=km.Nystroem(tol=1e-2))


@case()
def filter_angle() -> Answers:
    data = km.datasets.make_hidden_angle(80, random_state=0)
    model = km.KernelBayesFilter(kernel_z="periodic").fit(data.X, data.theta)
    return {"mode": model.predict(data.X[:10], point="mode")}


# ------------------------------------------------------------------------- hidden Markov models


def hmm_answers(model, X) -> Answers:
    gaps = X.copy()
    gaps[4] = np.nan
    ahead = model.forecast(X, 3)
    belief = model.start().update(X[0]).predict()
    return {
        "startprob": model.startprob_,
        "transmat": model.transmat_,
        "filter": model.filter(gaps),
        "predict_proba": model.predict_proba(gaps, [10, len(X) - 10]),
        "predict": model.predict(X),
        "viterbi": model.decode(X)[0],
        "path": model.decode(X)[1],
        "map": model.decode(X, algorithm="map")[1],
        "density": model.density(X[:9]),
        "score": model.score(X),
        "score_samples": model.score_samples(X)[1],
        "log_predictive": model.log_predictive(X),
        "forecast": value(ahead.mean),
        "states": value(ahead.states),
        "quantile": ahead.quantile([0.1, 0.5]),
        "belief": value(belief.probabilities),
        "belief_mean": value(belief.mean),
        "sample": model.sample(6, random_state=0)[0],
        "stationary": model.get_stationary_distribution(),
    }


def hmm_case(n_components: int | None = 2, **parameters) -> Answers:
    train, test = (km.datasets.make_hmm("separated", n, random_state=n) for n in (150, 40))
    parameters = {"n_init": 2, "random_state": 0} | parameters
    return hmm_answers(km.KernelHMM(n_components, **hidden(**parameters)).fit(train.X), test.X)


@case()
def hmm_default() -> Answers:
    return hmm_case()


@case()
def hmm_spectral() -> Answers:
    return hmm_case(refine=False)


@case()
def hmm_forward() -> Answers:
    return hmm_case(inference="forward")


@case()
def hmm_spectral_forward() -> Answers:
    return hmm_case(refine=False, inference="forward")


@case()
def hmm_estimated() -> Answers:
    return hmm_case(None, refine=False)


def wide(n: int) -> np.ndarray:
    data = km.datasets.make_hmm("overlapping", n, random_state=1)
    rng = np.random.default_rng(n)
    return np.eye(3)[data.states] @ rng.normal(size=(3, 5)) + 0.5 * rng.normal(size=(n, 5))


@case()
def hmm_variates() -> Answers:
    X = wide(150)
    return hmm_answers(km.KernelHMM(3, em=km.EM(n_init=2), random_state=0).fit(X), X[:30])


@case()
def hmm_discrete() -> Answers:
    X = np.round(3 * km.datasets.make_hmm("separated", 200, random_state=0).X)
    model = km.KernelHMM(2, km.Delta(), em=km.EM(n_init=2), random_state=0).fit(X)
    return {"filter": model.filter(X[:20]), "density": model.density(X[:9])}


@case()
def hmm_tuned() -> Answers:
    data = km.datasets.make_hmm("separated", 160, random_state=2)
    parts = {"states": data.states[120:], "scales": (0.5, 1.0), "n_fits": 1}
    model = km.KernelHMM(2, refine=False, random_state=0)
    model = model.tune(data.X[:120], data.X[120:], **parts)
    return {"filter": model.filter(data.X[120:]), "transmat": model.transmat_}


@case()
def order() -> Answers:
    X = km.datasets.make_hmm("overlapping", 200, random_state=0).X
    told: Answers = {}
    for method in ("correlations", "threshold", "elbow", "ratio"):
        found = km.estimate_order(X, method=method, random_state=0)
        told |= {method: int(found), f"{method} values": found.singular_values}
    return told | {"wide": int(km.estimate_order(wide(150)))}


@case()
def order_likelihood() -> Answers:
    X = km.datasets.make_hmm("separated", 100, random_state=0).X
    parts = {"method": "likelihood", "max_components": 2, "random_state": 0}
    found = km.estimate_order(X, **parts)
    return {"order": int(found), "scores": list(found.scores.values())}


# --------------------------------------------------------------------------- state spaces


def state_answers(model, X) -> Answers:
    gaps = X.copy()
    gaps[4] = np.nan
    filtered, smoothed, ahead = model.filter(gaps), model.smooth(gaps), model.forecast(X, 3)
    belief = model.start().update(X[0]).predict()
    return {
        "transmat": model.transmat_,
        "filter": value(filtered.mean),
        "variance": value(filtered.variance),
        "probabilities": value(filtered.probabilities),
        "interval": np.array(filtered.interval(0.8)),
        "smooth": value(smoothed.mean),
        "predict": model.predict(gaps, [10, len(X) - 10]),
        "predict_interval": np.array(model.predict_interval(X, 0.8)),
        "predict_quantile": model.predict_quantile(X, [0.1, 0.5]),
        "log_predictive": model.log_predictive(X),
        "forecast": value(ahead.mean),
        "forecast_interval": np.array(ahead.interval(0.8)),
        "belief": value(belief.probabilities),
        "latent": value(belief.latent),
        "emission_at": model.emission_at(model.nodes_[3:5]).mean(),
        "transition_at": model.transition_at(model.nodes_[3:5]).mean(),
        "sample": model.sample(6, random_state=0)[0],
    }


def state_case(design: str = "linear", **parameters) -> Answers:
    train, test = (km.datasets.make_state_space(design, n, random_state=n) for n in (120, 30))
    parameters = {"n_nodes": 15, "n_init": 2, "max_iter": 15, "random_state": 0} | parameters
    return state_answers(km.KernelStateSpace(**latent(**parameters)).fit(train.X), test.X)


@case()
def state_default() -> Answers:
    return state_case()


@case()
def state_moments() -> Answers:
    return state_case(refine=False)


@case()
def state_kbr() -> Answers:
    return state_case(inference="kbr")


@case()
def state_uniform() -> Answers:
    return state_case("volatility", latent="uniform", bandwidth=1.0)


@case()
def state_known_transition() -> Answers:
    return state_case(transition=lambda x, rng: 0.9 * x + 0.4 * rng.normal(size=x.shape))


@case()
def state_two() -> Answers:
    X = km.datasets.make_state_space("linear", 100, random_state=4).X
    both = np.hstack([X, np.roll(X, 1)])
    parts = {"n_nodes": 20, "n_init": 1, "max_iter": 5, "random_state": 0}
    return state_answers(km.KernelStateSpace(2, **latent(**parts)).fit(both), both[:25])


@case()
def state_particles() -> Answers:
    train, test = (km.datasets.make_state_space("linear", n, random_state=n) for n in (100, 20))
    parts = {"n_nodes": 15, "n_init": 1, "max_iter": 8, "random_state": 0, "n_particles": 50}
    model = km.KernelStateSpace(**latent(inference="particles", **parts)).fit(train.X)
    return {
        "filter": value(model.filter(test.X).mean),
        "predict": model.predict(test.X),
        "log_predictive": model.log_predictive(test.X),
        "predict_interval": np.array(model.predict_interval(test.X, 0.8)),
        "forecast": value(model.forecast(test.X, 2).mean),
    }


@case()
def particle_filter() -> Answers:
    data = km.datasets.make_state_space("linear", 40, random_state=0)
    seen = np.arange(40) % 7 != 3
    sequences = [slice(0, 15), slice(15, 40)]
    rng = np.random.default_rng(0)
    found = particles.bootstrap(data.model, data.X, seen, sequences, 100, rng, keep=True)
    parts = ("mean", "loglik", "ess", "state_mean", "state_variance", "degenerate", "weights")
    return {name: value(getattr(found, name)) for name in parts} | {
        "quantile": particles.forecast_quantile(data.model, found, [0.1, 0.5], rng)
    }


# ------------------------------------------------------------------- feature maps and kernels


@case()
def feature_maps() -> Answers:
    X, Y = pairs()
    maps = {
        "nystroem": km.Nystroem(),
        "nystroem_low": km.Nystroem(tol=1e-2, random_state=1),
        "exact": km.Exact(),
        "fourier": km.RandomFourier(30),
    }
    told: Answers = {}
    for name, features in maps.items():
        for kernel in (km.Gaussian(1.0), km.Laplace(1.5), km.Matern(2.5, 1.0)):
            at = f"{name} {type(kernel).__name__}"
            features.fit(X, kernel)
            Phi = features.transform(Y[:10])
            told |= {at: Phi @ Phi.T, f"{at} rank": features.rank_}
        features.fit(X, "gaussian")
        told[f"{name} derivative"] = features.derivative(Y[:10], 1) @ features.transform(Y).T
    return told


def rotations(n: int) -> np.ndarray:
    """Turns about an axis that moves, (n, 9)."""
    a = np.linspace(0, 2, n)
    c, s, o, i = np.cos(a), np.sin(a), 0 * a, 1 + 0 * a
    first = np.stack([c, -s, o, s, c, o, o, o, i], axis=-1).reshape(-1, 3, 3)
    second = np.stack([i, o, o, o, c, s, o, -s, c], axis=-1).reshape(-1, 3, 3)
    return (first @ second).reshape(-1, 9)


@case()
def kernels() -> Answers:
    from sklearn.gaussian_process import kernels as sk

    X, Y = pairs(40)
    angles = np.linspace(0.1, 6.2, 12)[:, None]
    whole = np.round(X[:12])
    A = np.random.default_rng(0).normal(size=(6, 6))
    plane = {
        "gaussian": km.Gaussian(),
        "gaussian columns": km.Gaussian(columnwise=True),
        "gaussian4": km.Gaussian4(),
        "laplace": km.Laplace(),
        "laplace columns": km.Laplace((0.5, 2.0)),
        "matern half": km.Matern(0.5),
        "matern": km.Matern(),
        "matern 2.5": km.Matern(2.5),
        "matern 0.8": km.Matern(0.8, 0.7),
        "linear": km.Linear(offset=1.0),
        "sum": km.Gaussian(0.5) + km.Linear(),
        "product": km.Gaussian(0.5) * km.Laplace(2.0),
        "on_columns": km.on_columns({0: km.Gaussian(), 1: "laplace"}),
        "sklearn": km.as_kernel(sk.RationalQuadratic()),
        "function": km.as_kernel(lambda a, b: (a @ b.T + 1) ** 2),
    }
    told: Answers = {}
    for name, kernel in plane.items():
        known = kernel.resolve(X)
        told |= {name: known(X[:12], Y[:9]), f"{name} diag": known.diag(X[:5])}
    for name in ("gaussian", "gaussian4", "laplace", "matern", "matern 2.5"):
        known = plane[name].resolve(X)
        told[f"{name} density"] = known.density(X[:9, :1], Y[:9, :1])
        told[f"{name} scaled"] = known.scaled(0.5)(X[:9], Y[:9])
    told["gaussian derivative"] = km.Gaussian(0.8).derivative(X[:9], Y[:9], 1)
    told["gaussian cdf"] = km.Gaussian(0.8).cdf(X[:9, :1], Y[:9, :1])
    told["laplace cdf"] = km.Laplace(0.8).cdf(X[:9, :1], Y[:9, :1])
    for name in ("gaussian", "laplace"):
        told[f"{name} self_convolution"] = plane[name].resolve(X).self_convolution(X[:9], Y[:9])
    told["gaussian4 self_convolution"] = km.Gaussian4(0.8).self_convolution(X[:9, :1], Y[:9, :1])
    told["median_lengthscale"] = km.median_lengthscale(X)
    turned = rotations(8)
    return told | {
        "periodic": km.Periodic().resolve(angles)(angles),
        "periodic day": km.Periodic(0.7, period=24.0)(3 * angles),
        "rotation": km.Rotation().resolve(turned)(turned),
        "frobenius": km.Frobenius()(turned),
        "frobenius rotations": km.Frobenius(rotations=True)(turned),
        "delta": km.Delta()(whole),
        "precomputed": km.Precomputed(A @ A.T)([0, 3], [1, 2]),
    }


# -------------------------------------------------------------------------------- comparators


@case()
def comparators_of_instruments() -> Answers:
    data = km.datasets.make_iv_sigmoid(120, random_state=0)
    models = {
        "KernelReg": km.comparators.KernelReg(),
        "TwoStageLeastSquares": km.comparators.TwoStageLeastSquares(),
        "SieveIV": km.comparators.SieveIV(random_state=0),
        "SieveIV ridge": km.comparators.SieveIV(ridge=True, random_state=0),
        "SmoothIV": km.comparators.SmoothIV(),
    }
    x = data.grid[::100]
    return {k: m.fit(data.X, data.y, data.Z).predict(x) for k, m in models.items()}


@case()
def comparators_of_densities() -> Answers:
    data = km.datasets.make_conditional_density("bimodal", 100, random_state=0)
    models = {
        "KCDE": km.comparators.KCDE(),
        "KCDE columnwise": km.comparators.KCDE(columnwise=True),
        "LeastSquaresCDE": km.comparators.LeastSquaresCDE(centres=30),
        "ConditionalDensityOperator": km.comparators.ConditionalDensityOperator(reference=60),
    }
    told: Answers = {}
    for name, model in models.items():
        model.fit(data.X, data.Y)
        told[name] = model.pdf(data.Y[:10], data.X[:8], paired=False)
        told[f"{name} score"] = model.score(data.X[:30], data.Y[:30])
    return told


@case()
def comparators_of_states() -> Answers:
    data = km.datasets.make_hmm("separated", 300, random_state=0)
    model = km.comparators.ProjHMM(2, random_state=0).fit(data.X)
    return {
        "filter": model.filter(data.X[:20]),
        "predict": model.predict(data.X[:20]),
        "density": model.density(data.X[:9]),
        "accuracy": km.comparators.matched_accuracy(data.states, model.predict(data.X)),
    }


@case("hmmlearn")
def comparators_gaussian_hmm() -> Answers:
    data = km.datasets.make_hmm("separated", 120, random_state=0)
    model = km.comparators.GaussianHMM(2, random_state=0).fit(data.X)
    return {"filter": model.filter(data.X[:20]), "density": model.density(data.X[:9])}


@case("statsmodels")
def comparators_autoregression() -> Answers:
    X = km.datasets.make_state_space("linear", 120, random_state=0).X
    return {
        "AutoRegression": km.comparators.AutoRegression(2).fit(X).predict(X),
        "LaggedRidge": km.comparators.LaggedRidge().fit(X).predict(X),
    }


@case("arch")
def comparators_garch() -> Answers:
    plain = {"log_squared": False, "random_state": 0}
    r = km.datasets.make_state_space("volatility", 150, **plain).X[:, 0]
    variance = km.comparators.Garch().fit(r).forecast_variance(r)
    return {
        "variance": variance,
        "qlike": km.comparators.qlike(variance, r**2),
        "mse": km.comparators.mse_log_variance(variance, r**2),
    }


def record(names: list[str]) -> None:
    """Write the answers of these cases, keeping those of others, if they are this machine's."""
    told: dict[str, np.ndarray] = {}
    if FILE.exists():
        with np.load(FILE) as archive:
            told = {key: archive[key] for key in archive.files if key.split("/")[0] in CASES}
            if names != list(CASES) and archive[MACHINE].item() != machine():
                raise SystemExit(
                    "recorded on another kind of machine: record all cases, on main first"
                )
    for name in names:
        told = {key: a for key, a in told.items() if key.split("/")[0] != name}
        told |= {f"{name}/{key}": a for key, a in recorded(name).items()}
    np.savez_compressed(FILE, **told, **{MACHINE: np.array(machine())})


if __name__ == "__main__":
    record(sys.argv[1:] or list(CASES))
