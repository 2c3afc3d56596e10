"""What to ask each object of `data/version1`: one function per file, from object to arrays.

Shared by `data/version1/make.py`, which asks before saving, and `test_version1_files.py`, which
asks after loading. Inputs are fixed here. Only the public verbs of `kernelmean` are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kernelmean as km

Answers = dict[str, Any]

LINE = np.linspace(-1.3, 1.4, 6)[:, None]
PLANE = np.column_stack([np.cos(np.arange(6.0)), np.sin(2 * np.arange(6.0))])
NEAR = np.linspace(0.1, 0.9, 6)[:, None]
ANGLES = np.linspace(0.2, 6.1, 6)[:, None]
FIVE = np.column_stack([np.sin((k + 1) * np.arange(8.0)) for k in range(5)])


def value(x: Any) -> Any:
    """An attribute, or what the method answers if it has become one."""
    return x() if callable(x) and not isinstance(x, km.MeanEmbedding) else x


def rotations(angles: np.ndarray) -> np.ndarray:
    """Turns about two axes as 3 x 3 matrices, (n, 9)."""
    c, s, o, i = np.cos(angles), np.sin(angles), 0 * angles, 1 + 0 * angles
    first = np.stack([c, -s, o, s, c, o, o, o, i], axis=-1).reshape(-1, 3, 3)
    second = np.stack([i, o, o, o, c, s, o, -s, c], axis=-1).reshape(-1, 3, 3)
    return (first @ second).reshape(-1, 9)


def of_kernel(points: np.ndarray) -> Callable[[Any], Answers]:
    """The Gram matrix and its diagonal."""
    return lambda k: {"gram": k(points, points[:4]), "diag": k.diag(points)}


def of_features(points: np.ndarray) -> Callable[[Any], Answers]:
    return lambda f: {"transform": f.transform(points)}


def of_embedding(points: np.ndarray, density: bool = True) -> Callable[[Any], Answers]:
    def ask(m) -> Answers:
        told = {
            "at": m(points),
            "mean": value(m.mean),
            "total": value(m.total),
            "weights": value(m.weights),
            "points": value(m.points),
        }
        if density:
            told |= {"density": m.density(points), "cdf": m.cdf(points, bandwidth=0.3)}
        return told

    return ask


def of_conditional(points: np.ndarray) -> Callable[[Any], Answers]:
    def ask(c) -> Answers:
        laws = c.at(points)
        prior = km.MeanEmbedding(points, kernel=laws.kernel)
        return {
            "predict": c.predict(points),
            "weights": c.weights(points),
            "at": laws(points),
            "expectation": c.expectation(lambda y: y**2, points),
            "apply": c.apply(prior).mean(),
            "loo_score": c.loo_score(0.1),
        }

    return ask


def of_named_conditional(c) -> Answers:
    import pandas as pd

    frame = pd.DataFrame(PLANE, columns=["a", "b"])
    return {"predict": c.predict(frame), "weights": c.weights(frame)}


def of_ratio(r) -> Answers:
    return {"predict": r.predict(PLANE)}


def of_bayes(model) -> Answers:
    prior = km.MeanEmbedding(PLANE[:4])
    told = {
        "weights": model.weights(PLANE),
        "predict": model.predict(PLANE, prior),
        "posterior": model.posterior(PLANE).mean(),
    }
    if model.rule == "importance":
        told["supervised"] = model.predict(PLANE, supervision=(PLANE[:2], PLANE[2:4], 0.5))
    return told


def of_filter(points: np.ndarray, prior: np.ndarray) -> Callable[[Any], Answers]:
    def ask(model) -> Answers:
        X = points.copy()
        X[2] = np.nan
        filtered, smoothed, ahead = model.filter(X), model.smooth(X), model.forecast(X, 2)
        belief = model.start(prior).update(points[0]).predict()
        low, high = filtered.interval(0.8)
        return {
            "filter": value(filtered.mean),
            "collapsed": value(filtered.collapsed),
            "weights": value(filtered.embedding).weights,
            "low": low,
            "high": high,
            "smooth": value(smoothed.mean),
            "forecast": value(ahead.mean),
            "observations": value(ahead.observations).mean(),
            "predict": model.predict(points),
            "belief": value(belief.mean),
        }

    return ask


def of_density(x: np.ndarray, y: np.ndarray) -> Callable[[Any], Answers]:
    def ask(model) -> Answers:
        told = {
            "pdf": model.pdf(y, x, paired=False),
            "score_samples": model.score_samples(x, y),
            "cdf": model.cdf(y, x, paired=False),
            "weights": model.weights(x),
            "predict": model.predict(x),
            "quantile": model.predict_quantile(x, [0.1, 0.5]),
            "sample": model.sample(x, 2, random_state=0),
            "loo_score": model.loo_score(bandwidth=0.5, reg=0.2),
        }
        return told | dict(zip(("low", "high"), model.predict_interval(x, 0.8), strict=True))

    return ask


def of_embedded_density(points: np.ndarray) -> Callable[[Any], Answers]:
    return lambda model: {
        "pdf": model.pdf(points),
        "score_samples": model.score_samples(points),
        "sample": model.sample(3, random_state=0),
        "loo_score": model.loo_score(0.3),
    }


def of_hmm(points: np.ndarray) -> Callable[[Any], Answers]:
    def ask(model) -> Answers:
        ahead = model.forecast(points, 2)
        belief = model.start().update(points[0]).predict()
        return {
            "filter": model.filter(points),
            "predict_proba": model.predict_proba(points),
            "predict": model.predict(points),
            "viterbi": model.decode(points)[0],
            "density": model.density(points),
            "score": model.score(points),
            "log_predictive": model.log_predictive(points),
            "forecast": value(ahead.mean),
            "states": value(ahead.states),
            "quantile": ahead.quantile(0.3),
            "belief": value(belief.probabilities),
            "sample": model.sample(4, random_state=0)[0],
            "stationary": model.get_stationary_distribution(),
        }

    return ask


def of_state_space(points: np.ndarray, densities: bool = True) -> Callable[[Any], Answers]:
    def ask(model) -> Answers:
        filtered, smoothed = model.filter(points), model.smooth(points)
        ahead = model.forecast(points, 2)
        low, high = model.predict_interval(points, 0.8)
        belief = model.start().update(points[0]).predict()
        return {
            "filter": value(filtered.mean),
            "variance": value(filtered.variance),
            "probabilities": value(filtered.probabilities),
            "smooth": value(smoothed.mean),
            "predict": model.predict(points),
            "low": low,
            "high": high,
            "quantile": model.predict_quantile(points, [0.2, 0.5]),
            "log_predictive": model.log_predictive(points),
            "forecast": value(ahead.mean),
            "belief": value(belief.probabilities),
            "latent": value(belief.latent),
            "sample": model.sample(4, random_state=0)[0],
        }

    return ask


def of_iv(x: np.ndarray, c: np.ndarray | None = None) -> Callable[[Any], Answers]:
    def ask(model) -> Answers:
        effect = model.average_derivative()
        change = model.contrast(x[:3], x[3:], None if c is None else c[:3])
        strength = model.first_stage()
        return {
            "predict": model.predict(x, c),
            "interval": np.stack(model.predict_interval(x, c), axis=-1),
            "derivative": model.derivative(x, c, column=0),
            "derivative_interval": np.stack(model.derivative_interval(x, c), axis=-1),
            "average_derivative": [effect.value, effect.error, effect.low, effect.high],
            "contrast": [change.value, change.error],
            "first_stage": strength.partial_r2,
            "endogeneity": value(model.endogeneity_test().p_value),
            "summary": str(model.summary()),
        }

    return ask


def of_formula(model) -> Answers:
    import pandas as pd

    table = pd.DataFrame({"p": NEAR[:, 0], "g": ["a", "b", "a", "b", "a", "b"]})
    return {
        "predict": model.predict(table),
        "interval": np.stack(model.predict_interval(table), axis=-1),
        "summary": str(model.summary()),
    }


def of_effect(model) -> Answers:
    low, high = model.effect_interval(T0=0.2, T1=0.7)
    return {
        "effect": model.effect(T0=0.2, T1=0.7),
        "low": low,
        "high": high,
        "ate": model.ate(T0=0.2, T1=0.7),
        "marginal": model.marginal_effect(NEAR),
    }


def of_effect_by_features(model) -> Answers:
    low, high = model.effect_interval(NEAR, T0=0.2, T1=0.7)
    return {
        "effect": model.effect(NEAR, T0=0.2, T1=0.7),
        "low": low,
        "high": high,
        "ate": model.ate(NEAR, T0=0.2, T1=0.7),
    }


def of_estimate(e) -> Answers:
    numbers = {k: value(getattr(e, k)) for k in ("value", "error", "low", "high", "p_value")}
    return numbers | {"name": e.name, "level": e.level}


def of_strength(s) -> Answers:
    return {"r2": s.partial_r2, "f": s.f, "df": s.df, "weak": value(s.weak), "names": s.names}


def of_endogeneity(e) -> Answers:
    return {"distance": e.distance, "p_value": e.p_value}


ROTATED = rotations(np.linspace(0.0, 2.0, 6))
WHOLE = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])

QUESTIONS: dict[str, Callable[[Any], Answers]] = {
    **{
        f"kernel_{name}": of_kernel(PLANE)
        for name in (
            *("gaussian", "gaussian_columns", "gaussian_tuple", "gaussian4", "laplace", "matern"),
            *("matern_08", "linear", "sum", "product", "nested", "on_columns", "sklearn"),
            "sklearn_sum",
        )
    },
    "kernel_gaussian_unresolved": lambda k: {"gram": k.resolve(PLANE)(PLANE)},
    "kernel_periodic": of_kernel(ANGLES),
    "kernel_rotation": of_kernel(ROTATED),
    "kernel_delta": of_kernel(WHOLE),
    "kernel_frobenius": of_kernel(ROTATED),
    "kernel_frobenius_rotations": of_kernel(ROTATED),
    "kernel_precomputed": lambda k: {"gram": k([0, 3], [1, 2, 5])},
    **{
        f"features_{name}": of_features(PLANE)
        for name in ("nystroem", "exact", "fourier", "fourier_matern")
    },
    "features_unfitted": lambda f: {"tol": f.get_params()["tol"]},
    "embedding": of_embedding(PLANE),
    "embedding_batch": of_embedding(LINE),
    "embedding_periodic": of_embedding(ANGLES, density=False),
    "embedding_gaussian4": of_embedding(LINE),
    "embedding_joint": of_embedding(np.hstack([PLANE, LINE]), density=False),
    "conditional": of_conditional(PLANE),
    "conditional_tuned": of_conditional(PLANE),
    "conditional_exact": of_conditional(PLANE),
    "conditional_frame": of_named_conditional,
    "composition": lambda c: {"predict": c.predict(PLANE), "at": c.at(PLANE)(PLANE)},
    "ratio": of_ratio,
    "ratio_relative": of_ratio,
    "bayes_importance": of_bayes,
    "bayes_squared": of_bayes,
    "filter_importance": of_filter(PLANE, PLANE[:2]),
    "filter_squared": of_filter(PLANE, PLANE[:2]),
    "filter_exact": of_filter(PLANE, PLANE[:2]),
    "filter_tuned": of_filter(PLANE, PLANE[:2]),
    "filter_track": of_embedding(PLANE, density=False),
    "density": of_density(LINE, LINE[:, 0]),
    "density_location": of_density(LINE, LINE[:, 0]),
    "density_no_location": of_density(LINE, LINE[:, 0]),
    "density_gaussian4": of_density(LINE, LINE[:, 0]),
    "density_two_columns": of_density(LINE, PLANE),
    "embedded_density": of_embedded_density(PLANE),
    "embedded_density_line": of_embedded_density(LINE),
    "embedded_density_gaussian4": of_embedded_density(LINE),
    "embedded_density_periodic": of_embedded_density(ANGLES),
    "hmm": of_hmm(NEAR),
    "hmm_spectral": of_hmm(NEAR),
    "hmm_forward": of_hmm(NEAR),
    "hmm_spectral_forward": of_hmm(NEAR),
    "hmm_variates": of_hmm(FIVE),
    "hmm_discrete": lambda model: {
        "filter": model.filter(WHOLE[:, :1]),
        "density": model.density(WHOLE[:, :1]),
        "predict": model.predict(WHOLE[:, :1]),
    },
    "state_space": of_state_space(LINE),
    "state_space_kbr": of_state_space(LINE),
    "state_space_particles": lambda model: {
        "predict": model.predict(LINE),
        "filter": value(model.filter(LINE).mean),
        "log_predictive": model.log_predictive(LINE),
    },
    "state_space_moments": of_state_space(LINE),
    "state_space_uniform": of_state_space(PLANE),
    "iv": of_iv(NEAR),
    "iv_split": of_iv(NEAR),
    "iv_folds": of_iv(NEAR),
    "iv_trend": of_iv(NEAR),
    "iv_exogenous": of_iv(NEAR, LINE),
    "iv_fourier": of_iv(NEAR),
    "iv_formula": of_formula,
    "iv_dask": lambda model: {"predict": model.predict(NEAR), "summary": str(model.summary())},
    "iv_effect": of_effect,
    "iv_effect_features": of_effect_by_features,
    "estimate": of_estimate,
    "strength": of_strength,
    "endogeneity": of_endogeneity,
}

# packages without which a file cannot be asked
NEEDS = {"conditional_frame": ["pandas"], "iv_formula": ["pandas", "formulaic"]}


def answers(name: str, thing: Any) -> dict[str, np.ndarray]:
    """The answers of `thing`, which is or was in `<name>.km`, as arrays."""
    return {key: np.asarray(told) for key, told in QUESTIONS[name](thing).items()}
