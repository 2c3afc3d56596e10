"""Whatever was asked of a fitted estimator, it can be saved, loaded, pickled, copied and cloned.

Methods keep what they found (a bandwidth for a prior, a summary, a grid), so a model that could be
saved when it was fitted may not be any more when it has answered. Every public method of every
estimator is called here; one that is new and not in these tables fails `test_all_is_asked`.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, clone

import kernelmean as km

pytestmark = pytest.mark.usefixtures("short_searches")

N, NEW = 60, 4
rng = np.random.default_rng(12)
Z = rng.normal(size=(N, 1))
X = np.column_stack([Z[:, 0] + 0.5 * rng.normal(size=N), rng.normal(size=N)])
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.3 * rng.normal(size=(N, 2))
y = Y[:, 0]
SERIES = np.sin(np.arange(N) / 3)[:, None] + 0.2 * rng.normal(size=(N, 1))
INPUTS = np.cos(np.arange(N) / 5)[:, None]
PRIOR = 0.3 * Z[:20] + 0.2
TOLD = {"supervision": (X[:2], Z[:2], 0.3)}

Question = Callable[[Any], Any]


# ------------------------------------------------------------------- what each class is asked
def given(model: Any, table: np.ndarray) -> Any:
    """Rows as a model wants them: with the names of its columns, if it was told any."""
    names = getattr(model, "feature_names_in_", None)
    return table if names is None else pytest.importorskip("pandas").DataFrame(table, None, names)


def pairs(model: Any) -> dict[str, Question]:
    """Of a conditional law of targets."""
    new = given(model, X[:NEW])
    return {
        "predict": lambda m: m.predict(new),
        "predict_interval": lambda m: m.predict_interval(new),
        "predict_quantile": lambda m: m.predict_quantile(new, [0.1, 0.5]),
        "weights": lambda m: m.weights(new),
        "summary": lambda m: m.summary(),
    }


def conditional(model: km.ConditionalEmbedding) -> dict[str, Question]:
    rows = given(model, X)
    target = Y if model.predict(rows).ndim == 2 and model.target_names_ is None else y
    return pairs(model) | {
        "at": lambda m: m.at(rows[:NEW]),
        "apply": lambda m: m.apply(km.MeanEmbedding(rows, kernel=m.kernel_x_)),
        "expectation": lambda m: m.expectation(np.square, rows[:NEW]),
        "leave_one_out": lambda m: m.leave_one_out(),
        "loo_score": lambda m: m.loo_score(0.1),
        "score": lambda m: m.score(rows, target),
        "display": lambda m: km.display.LeaveOneOutDisplay.from_estimator(m),
    }


def density(model: km.ConditionalDensity) -> dict[str, Question]:
    one = model.predict(X[:2]).ndim == 1
    there = y if one else Y
    shown = km.display.ConditionalDensityDisplay
    asked = pairs(model) | {
        "at": lambda m: m.at(X[:NEW]),
        "cdf": lambda m: m.cdf(there[:3], X[:NEW], paired=False),
        "pdf": lambda m: m.pdf(there[:3], X[:NEW], paired=False),
        "mode": lambda m: m.mode(X[:NEW]),
        "sample": lambda m: m.sample(X[:NEW], 3, random_state=0),
        "loo_score": lambda m: m.loo_score(bandwidth=0.5, reg=0.2),
        "score": lambda m: m.score(X, there),
        "score_samples": lambda m: m.score_samples(X, there),
        "display": lambda m: shown.from_estimator(m, X[:2], there, n_grid=20),
        "map": lambda m: km.display.DensityMapDisplay.from_estimator(m, n_grid=20),
    }
    if one:
        asked |= {
            "region": lambda m: m.region(X[:NEW]),
            "conformalize": lambda m: m.conformalize().predict_interval(X[:NEW]),
        }
    else:
        contours = km.display.DensityContourDisplay
        asked["contours"] = lambda m: contours.from_estimator(m, X[:2], n_grid=10)
    return asked


def points(model: km.EmbeddedDensity) -> dict[str, Question]:
    return {
        "pdf": lambda m: m.pdf(Y[:NEW]),
        "sample": lambda m: m.sample(3, random_state=0),
        "score": lambda m: m.score(Y),
        "score_samples": lambda m: m.score_samples(Y[:NEW]),
        "loo_score": lambda m: m.loo_score(0.3),
        "summary": lambda m: m.summary(),
    }


def ratio(model: km.DensityRatio) -> dict[str, Question]:
    return {"predict": lambda m: m.predict(Z[:NEW]), "summary": lambda m: m.summary()}


def bayes(model: km.KernelBayes) -> dict[str, Question]:
    new = given(model, X[:NEW])
    ways = [{}, {"prior": PRIOR, **(TOLD if model.rule == "importance" else {})}]

    def each(ask: Callable[..., Any]) -> Question:
        return lambda m: [ask(m, **told) for told in ways]

    asked = {
        "posterior": each(lambda m, **told: m.posterior(new, **told)),
        "predict": each(lambda m, **told: m.predict(new, **told)),
        "predict_interval": each(lambda m, **told: m.predict_interval(new, **told)),
        "predict_quantile": each(lambda m, **told: m.predict_quantile(new, [0.2], **told)),
        "weights": each(lambda m, **told: m.weights(new, **told)),
        "score": lambda m: m.score(new, m.posterior(new).mean()),
        "summary": lambda m: m.summary(),
    }
    if model.rule != "density":
        asked["regularisers"] = each(lambda m, **told: m.regularisers(**told))
    return asked


def filtering(model: km.KernelBayesFilter) -> dict[str, Question]:
    gap = X[:8].copy()
    gap[2] = np.nan
    chosen = {"with_reg": lambda m: m.with_reg(0.1)} if model.inference == "kbr" else {}
    return chosen | {
        "predict": lambda m: m.predict(gap),
        "predict_interval": lambda m: m.predict_interval(gap),
        "predict_quantile": lambda m: [m.predict_quantile(gap, q) for q in (0.5, [0.1, 0.9])],
        "filter": lambda m: m.filter(gap),
        "smooth": lambda m: m.smooth(gap),
        "forecast": lambda m: m.forecast(gap, 2),
        "observations": lambda m: m.forecast(gap, 2).observations,
        "start": lambda m: m.start(PRIOR).update(X[0]).predict(),
        "score": lambda m: m.score(X[:8], Z[:8]),
        "summary": lambda m: m.summary(),
        "track": lambda m: km.display.TrackDisplay.from_estimator(m, X[:8], Z[:8]),
        "spread": lambda m: km.display.SpreadDisplay.from_estimator(m, X[:8]),
    }


def chain(model: Any) -> dict[str, Question]:
    """Of regimes and of state spaces."""
    told = {"inputs": INPUTS[:20]} if model.inputs_ else {}
    ahead = told | ({"inputs_ahead": INPUTS[20:23]} if model.inputs_ else {})
    seen = SERIES[:20].copy()
    seen[3] = np.nan
    return {
        "filter": lambda m: m.filter(seen, **told),
        "forecast": lambda m: m.forecast(seen, 3, **ahead),
        "predict": lambda m: m.predict(seen, **told),
        "score": lambda m: m.score(seen, **told),
        "log_predictive": lambda m: m.log_predictive(seen, **told),
        "one_step": lambda m: m.one_step(seen, **told),
        "summary": lambda m: m.summary(),
    }


def regimes(model: km.KernelHMM) -> dict[str, Question]:
    told = {"inputs": INPUTS[:20]} if model.inputs_ else {}
    seen = SERIES[:20]
    asked = chain(model) | {
        "predict_proba": lambda m: m.predict_proba(seen, **told),
        "smooth": lambda m: m.smooth(seen, **told),
        "decode": lambda m: [m.decode(seen, algorithm=a, **told) for a in ("viterbi", "map")],
        "density": lambda m: m.density(seen[:3]),
        "score_samples": lambda m: m.score_samples(seen, **told),
        "sample": lambda m: m.sample(20, random_state=0, **told),
        "emissions": lambda m: km.display.EmissionDisplay.from_estimator(m, SERIES, n_grid=20),
        "regimes": lambda m: km.display.RegimeDisplay.from_estimator(m, seen, **told),
    }
    if not model.inputs_:
        asked |= {
            "start": lambda m: m.start().update(SERIES[0]).predict(),
            "get_stationary_distribution": lambda m: m.get_stationary_distribution(),
            "spectrum": lambda m: km.display.SpectrumDisplay.from_estimator(m),
        }
    else:
        asked["transitions"] = lambda m: m.transitions(INPUTS[:3])
    return asked


def latents(model: km.KernelStateSpace) -> dict[str, Question]:
    told = {"inputs": INPUTS[:20]} if model.inputs_ else {}
    ahead = told | ({"inputs_ahead": INPUTS[20:23]} if model.inputs_ else {})
    seen = SERIES[:20]
    asked = chain(model) | {
        "smooth": lambda m: m.smooth(seen, **told),
        "predict_interval": lambda m: m.predict_interval(seen, **told),
        "predict_quantile": lambda m: m.predict_quantile(seen, [0.1, 0.5], **told),
        "sample": lambda m: m.sample(20, random_state=0, **told),
        "sample_paths": lambda m: m.sample_paths(seen, 3, 5, random_state=0, **ahead),
        "start": lambda m: m.start(**({"inputs": INPUTS[0]} if told else {})).update(SERIES[0]),
        "transition_at": lambda m: m.transition_at(m.nodes_[:2]),
        "emission_at": lambda m: m.emission_at(m.nodes_[:2]),
    }
    return asked


def curve(model: km.KernelIV) -> dict[str, Question]:
    at = X[:NEW, :1]
    with_c = bool(model.roles_.c)
    C, whole = (X[:NEW, 1:], X[:, 1:]) if with_c else (None, None)
    shown = km.display.StructuralCurveDisplay
    return {
        "predict": lambda m: m.predict(at, C),
        "predict_interval": lambda m: [
            m.predict_interval(at, C, simultaneous=simultaneous) for simultaneous in (True, False)
        ],
        "derivative": lambda m: m.derivative(at, C, column=0),
        "derivative_interval": lambda m: m.derivative_interval(at, C),
        "average_derivative": lambda m: m.average_derivative(),
        "contrast": lambda m: m.contrast(at[:2], at[2:], None if C is None else C[:2]),
        "first_stage": lambda m: m.first_stage(),
        "endogeneity_test": lambda m: m.endogeneity_test(),
        "score": lambda m: m.score(X[:, :1], y, whole),
        "to_frame": lambda m: m.to_frame(at, C),
        "summary": lambda m: m.summary(),
        "curve": lambda m: shown.from_estimator(m, X[:, :1], y, C=whole, n_grid=10),
    }


ASKED: dict[type, Callable[[Any], dict[str, Question]]] = {
    km.ConditionalEmbedding: conditional,
    km.ConditionalDensity: density,
    km.EmbeddedDensity: points,
    km.DensityRatio: ratio,
    km.KernelBayes: bayes,
    km.KernelBayesFilter: filtering,
    km.KernelHMM: regimes,
    km.KernelStateSpace: latents,
    km.KernelIV: curve,
}

# -------------------------------------------------------------------------------------- the fits
MAPS = {
    "": None,
    ", exact": km.Exact(),
    ", landmarks": km.Nystroem(tol=1e-3, max_rank=20),
    ", fourier": km.RandomFourier(20, random_state=0),
}


def tables() -> tuple[Any, Any]:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(X, columns=["a", "b$"]), pd.DataFrame(Z, columns=["z^2"])


def blocks(make: Callable, kind: str) -> Callable[[], Any]:
    """A fit whose rows are elsewhere."""

    def there(A: np.ndarray) -> Any:
        if kind == "rows":
            return km.Rows(np.array_split(A, 4))
        da = pytest.importorskip("dask.array")
        return da.from_array(A, chunks=(17, *A.shape[1:]))

    return lambda: make(there)


def fits() -> dict[str, Callable[[], Any]]:
    """What is made, by name; some kernels and regularisers are given, some are chosen."""
    made: dict[str, Callable[[], Any]] = {
        "conditional, tuned": lambda: km.ConditionalEmbedding(tune_lengthscale=True).fit(X, y),
        "conditional, frame": lambda: km.ConditionalEmbedding().fit(*tables()),
        "density, chosen": lambda: km.ConditionalDensity().fit(X, y),
        "density, two columns": lambda: km.ConditionalDensity(reg=0.1, bandwidth=0.4).fit(X, Y),
        "density, bent": lambda: km.ConditionalDensity().fit(X, np.exp(2 * y)),
        "density, atoms": lambda: km.ConditionalDensity().fit(X, np.maximum(y, 0.0)),
        "points": lambda: km.EmbeddedDensity().fit(Y),
        "points, weights": lambda: km.EmbeddedDensity().fit(Y, sample_weight=np.arange(1.0, N + 1)),
        "ratio, relative": lambda: km.DensityRatio(relative=0.3).fit(Z, PRIOR),
        "bayes, squared": lambda: km.KernelBayes("squared").fit(X, Z),
        "bayes, density": lambda: km.KernelBayes("density").fit(X, Z),
        "bayes, frames": lambda: km.KernelBayes(tune_lengthscale=True).fit(*tables()),
        "bayes, balance": lambda: km.KernelBayes(selection="balance").fit(X, Z),
        "filter, densities": lambda: km.KernelBayesFilter(inference="densities").fit(X, Z),
        "filter, squared": lambda: km.KernelBayesFilter("squared", inference="kbr").fit(X, Z),
        "regimes, inputs": lambda: km.KernelHMM(2, random_state=0).fit(SERIES, inputs=INPUTS),
        "regimes, spectral": lambda: km.KernelHMM(2, refine=False, random_state=0).fit(SERIES),
        "regimes, order": lambda: km.KernelHMM(random_state=0).fit(SERIES),
        "states, inputs": lambda: km.KernelStateSpace(random_state=0).fit(SERIES, inputs=INPUTS),
        "states, rule": lambda: km.KernelStateSpace(
            latent=km.Normal(1, nodes=20), inference=km.KernelRule(), backbone=None, random_state=0
        ).fit(SERIES),
        "states, particles": lambda: km.KernelStateSpace(
            latent=km.Normal(1, nodes=20), inference=km.Particles(50), random_state=0
        ).fit(SERIES),
        "curve, controls": lambda: km.KernelIV().fit(X[:, :1], y, Z, X[:, 1:]),
        "curve, line": lambda: km.KernelIV("linear", "linear").fit(X[:, :1], y, Z),
        "curve, halves": lambda: km.KernelIV(split=0.5, random_state=0).fit(X[:, :1], y, Z),
    }
    for name, features in MAPS.items():
        made |= {
            f"conditional{name}": lambda f=features: km.ConditionalEmbedding(features=f).fit(X, Y),
            f"density{name}": lambda f=features: km.ConditionalDensity(
                km.Gaussian(0.8), 0.4, 0.1, f
            ).fit(X, y),
            f"ratio{name}": lambda f=features: km.DensityRatio(features=f).fit(Z, PRIOR),
            f"bayes{name}": lambda f=features: km.KernelBayes(features=f).fit(X, Z),
            f"filter{name}": lambda f=features: km.KernelBayesFilter(
                features=f, inference="kbr"
            ).fit(X, Z),
            f"regimes{name}": lambda f=features: km.KernelHMM(2, features=f, random_state=0).fit(
                SERIES
            ),
            f"curve{name}": lambda f=features: km.KernelIV(features=f).fit(X[:, :1], y, Z),
        }
    for kind in ("rows", "dask"):
        made |= {
            f"conditional, {kind}": blocks(
                lambda of: km.ConditionalEmbedding().fit(of(X), of(Y)), kind
            ),
            f"density, {kind}": blocks(
                lambda of: km.ConditionalDensity(bandwidth=0.4, reg=0.1).fit(of(X), of(y)), kind
            ),
            f"points, {kind}": blocks(lambda of: km.EmbeddedDensity().fit(of(Y)), kind),
            f"bayes, {kind}": blocks(lambda of: km.KernelBayes().fit(of(X), of(Z)), kind),
            f"regimes, {kind}": blocks(
                lambda of: km.KernelHMM(2, refine=False, random_state=0).fit(of(SERIES)), kind
            ),
            f"curve, {kind}": blocks(
                lambda of: km.KernelIV().fit(of(X[:, :1]), of(y), of(Z)), kind
            ),
        }
    return made


FITS = fits()
INNER = {  # steps of a fit that a search or a display takes, and what makes other estimators
    *("before_blocks", "fit", "from_formula", "from_version1", "recovered", "regressors"),
    *("save", "state", "tune"),
}
RULES = {"anderson_rubin", "conf_int"}  # of straight lines
OLD = {"interval", "params", "plot", "quantile"}  # names


# ------------------------------------------------------------------------------------ the answers
def of_law(law: Any) -> None:
    """All verbs; it is a value itself, so it can be copied too."""
    law.mean(), law.std(), law.cov(), law.interval(), law.quantile([0.1, 0.5]), law.mode()
    rows = np.zeros((3, np.shape(law.mean())[-1]))
    law.density(rows), law.log_density(rows), law.probability(lambda P: P[:, 0] > 0)
    law.sample(3, random_state=0)
    law.crps(rows if np.ndim(law.mean()) == 1 else np.zeros_like(law.mean()))


def told(answer: Any) -> list[np.ndarray]:
    """Numbers of an answer; the first of several laws is asked all it answers."""
    if isinstance(answer, list | tuple):
        return [*told(answer[0]), *answer[1:]] if answer else []
    if hasattr(answer, "to_frame") and hasattr(answer, "cov"):
        of_law(answer)
        return [answer.mean(), *answer.interval()]
    return [answer] if isinstance(answer, np.ndarray) else []


@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
@pytest.mark.parametrize("name", FITS)
def test_after_all_was_asked(name, once, tmp_path):
    model = copy.deepcopy(once(("after use", name), FITS[name]))
    questions = ASKED[type(model)](model)
    first = {verb: told(ask(model)) for verb, ask in questions.items()}
    model.save(tmp_path / "model.km")
    kept = ["predict" if "predict" in questions else "pdf", *(["at"] if "at" in questions else [])]
    for again in (
        km.load(tmp_path / "model.km"),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        copy.copy(model),
    ):
        for verb in kept:
            for ours, theirs in zip(told(questions[verb](again)), first[verb], strict=True):
                assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
        again.save(tmp_path / "again.km")
    assert repr(clone(model)) == repr(model)


def test_all_is_asked(once):
    asked: dict[type, set[str]] = {cls: set() for cls in ASKED}
    for name, make in FITS.items():
        if "," not in name or "inputs" in name:
            model = once(("after use", name), make)
            asked[type(model)] |= set(ASKED[type(model)](model))
    for cls, verbs in asked.items():
        public = {v for v in dir(cls) if not v.startswith(("_", "set_")) and not v.endswith("_")}
        parameters = set(cls().get_params()) | {"ALLOWED", "classes", "was"}
        assert public - verbs - INNER - RULES - OLD - parameters - set(dir(BaseEstimator)) == set()
