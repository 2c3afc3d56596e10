"""One vocabulary: every law answers the same verbs with the same shapes, whoever answers with it.

Fitted estimators come from the saved files of `data/version1`: nothing is fitted here.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from version1_questions import LINE, PLANE

import kernelmean as km
from kernelmean.core.interval import Interval
from kernelmean.densities.laws import MovedLaws
from kernelmean.embedding.law import Law
from kernelmean.embedding.move import Bend, Move, Wide
from kernelmean.embedding.scored import Scored
from kernelmean.statespace.backbone import Transform
from kernelmean.statespace.results import LineForecast

pytestmark = pytest.mark.usefixtures("short_searches")

FOLDER = Path(__file__).parents[1] / "data" / "version1"
AT_MOST = 10  # parameters of a constructor


@cache
def loaded(name: str) -> Any:
    return km.load(FOLDER / f"{name}.km")


# name -> (the law or batch of laws, how many laws, columns)
LAWS: dict[str, tuple[Callable[[], Any], int, int]] = {
    "MeanEmbedding": (lambda: loaded("embedding_batch"), 3, 1),
    "ConditionalEmbedding.at": (lambda: loaded("conditional").at(PLANE), 6, 2),
    "ConditionalDensity.at": (lambda: loaded("density").at(LINE), 6, 1),
    "ConditionalDensity.at, location": (lambda: loaded("density_location").at(LINE), 6, 1),
    "ConditionalDensity.at, two columns": (lambda: loaded("density_two_columns").at(LINE), 6, 2),
    "KernelBayes.posterior": (lambda: loaded("bayes_importance").posterior(PLANE), 6, 2),
    "KernelBayesFilter.filter": (lambda: loaded("filter_importance").filter(PLANE), 6, 2),
    "KernelBayesFilter.smooth": (lambda: loaded("filter_importance").smooth(PLANE), 6, 2),
    "KernelBayesFilter.forecast": (lambda: loaded("filter_importance").forecast(PLANE, 4), 4, 2),
    "KernelBayesFilter.forecast, observations": (
        lambda: loaded("filter_importance").forecast(PLANE, 4).observations,
        4,
        2,
    ),
    "KernelHMM.forecast": (lambda: loaded("hmm").forecast(LINE, 4), 4, 1),
    "KernelHMM.forecast, variates": (
        lambda: loaded("hmm_variates").forecast(np.tile(LINE, 5), 4),
        4,
        5,
    ),
    "KernelStateSpace.filter": (lambda: loaded("state_space").filter(LINE), 6, 1),
    "KernelStateSpace.smooth": (lambda: loaded("state_space").smooth(LINE), 6, 1),
    "KernelStateSpace.filter, plane": (lambda: loaded("state_space_uniform").filter(PLANE), 6, 2),
    "KernelStateSpace.forecast": (lambda: loaded("state_space").forecast(LINE, 4), 4, 1),
    "KernelStateSpace.forecast, particles": (
        lambda: loaded("state_space_particles").forecast(LINE, 4),
        4,
        1,
    ),
}


def moved(transform: Transform) -> Any:
    """Forecasts as a backbone makes them: observations are innovations, moved and widened."""
    shift, extra = np.linspace(0, 1, 4)[:, None], np.full((4, 1), 0.1)
    it = loaded("state_space").forecast(LINE, 4)
    parts = {"shift": shift, "extra": extra, "transform": transform}
    return LineForecast(it.chain, it.states, it.labels, **parts)


LAWS |= {
    "KernelStateSpace.forecast, moved": (partial(moved, Transform()), 4, 1),
    "KernelStateSpace.forecast, logarithms": (partial(moved, Transform("log")), 4, 1),
}
SINGLE: dict[str, tuple[Callable[[], Any], int]] = {
    "MeanEmbedding": (lambda: loaded("embedding_batch")[0], 1),
    "KernelBayesFilter.start": (lambda: loaded("filter_importance").start(), 2),
    "KernelHMM.start": (lambda: loaded("hmm").start(), 1),
    "KernelStateSpace.start": (lambda: loaded("state_space").start(), 1),
}


def bent(column: int | None = None) -> Any:
    """Of two columns or one, widened and moved on a bent scale, each with a share of a wide law."""
    of = loaded("density_two_columns").at(LINE).embedding
    shift = np.linspace(0.0, 0.5, 6)[:, None] * [1.0, 2.0]
    bend = Bend(*(np.array(a) for a in ([0.0, -1.0], [0.3, 0.5], [-1.0, -0.5], [2.0, 2.0])))
    laws = MovedLaws(of, Move(shift, 0.8 + shift, bend), Wide.of(of.points, 0.05))
    return laws if column is None else laws.marginal(column)


LAWS |= {
    "MeanEmbedding, of a bandwidth": (lambda: loaded("embedding_batch").carrying(0.4), 3, 1),
    "MovedLaws, bent": (partial(bent, 0), 6, 1),
    "MovedLaws, bent, two columns": (bent, 6, 2),
}
BASES = {"_States", "_Steps", "Batch", "ShiftedLaw", "StatesLaw"}
WITHIN = {"LineBelief"}  # a belief beside a backbone: its law is that of the forecasts

# what is asked of a law, with k rows of its columns at hand, and the shape of the answer of m laws
VERBS: dict[str, tuple[Callable[[Any, np.ndarray], Any], str]] = {
    "mean": (lambda it, Y: it.mean(), "md"),
    "std": (lambda it, Y: it.std(), "md"),
    "cov": (lambda it, Y: it.cov(), "mdd"),
    "mode": (lambda it, Y: it.mode(), "md"),
    "interval": (lambda it, Y: it.interval().upper, "md"),
    "quantile": (lambda it, Y: it.quantile([0.1] * len(Y)), "mkd"),
    "density": (lambda it, Y: it.density(Y), "mk"),
    "log_density": (lambda it, Y: it.log_density(Y), "mk"),
    "probability": (lambda it, Y: it.probability(lambda P: P[:, 0] > 0), "m"),
    "sample": (lambda it, Y: it.sample(len(Y), 0), "mkd"),
    "to_frame": (lambda it, Y: np.empty(len(it.to_frame())), "m"),
}


def asked(verb: str, it: Any, m: int, d: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of an answer, and the one it should have; a single law's is without the m."""
    if verb == "to_frame":
        pytest.importorskip("pandas")
    ask, letters = VERBS[verb]
    Y = np.random.default_rng(0).uniform(0.1, 1.0, size=(7, d))
    return np.shape(ask(it, Y)), tuple({"m": m, "d": d, "k": 7}[c] for c in letters)


def test_all_that_laws_are_asked_is_above():
    public = {verb for kind in (Law, Scored) for verb in vars(kind) if not verb.startswith("_")}
    values, scores = (
        {"embedding", "bandwidth", "labels", "stem", "extrapolated"},
        {"pinball", "crps"},
    )
    assert public - values - scores == set(VERBS)


def test_all_laws_are_above():
    modules()  # imports all of them
    found, todo = set(), [Law]
    while todo:
        todo += (more := todo.pop().__subclasses__())
        found |= {c.__name__ for c in more if c.__module__.startswith("kernelmean.")}
    there = [make() for make, *_ in [*LAWS.values(), *SINGLE.values()]]
    kinds = {type(it).__name__ for it in there if not isinstance(it, km.MeanEmbedding)}
    assert found - BASES - WITHIN == kinds


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", SINGLE)
def test_a_single_law_answers_without_the_axis_of_a_batch(name, verb):
    make, d = SINGLE[name]
    found, expected = asked(verb, make(), 1, d)
    assert found == (expected if verb == "to_frame" else expected[1:])


@pytest.fixture(params=LAWS)
def law(request) -> tuple[Any, int, int]:
    make, m, d = LAWS[request.param]
    return make(), m, d


class TestLaws:
    def test_moments(self, law):
        it, m, d = law
        assert it.mean().shape == it.std().shape == (m, d)
        assert it.cov().shape == (m, d, d)
        variances, told = np.diagonal(it.cov(), axis1=1, axis2=2), it.std()
        some = variances > 0  # weights of both signs may leave none, where a law is wide
        assert_allclose(told[some] ** 2, variances[some], rtol=1e-6, atol=1e-9)
        low, high = it.quantile(0.159), it.quantile(0.841)
        assert_allclose(told[~some], (high - low)[~some] / 2, rtol=1e-6, atol=1e-9)

    @pytest.mark.parametrize("index", [slice(1, 1), [], "none"], ids=str)
    def test_none_of_them_are_refused(self, law, index):
        it, m, _ = law
        index = np.zeros(m, dtype=bool) if index == "none" else index
        with pytest.raises(ValueError, match=f"the index picks none of the {m} laws; one at least"):
            it[index]
        assert len(it[1:2]) == len(it[np.arange(m) == 1]) == 1

    def test_interval(self, law):
        it, m, d = law
        found = it.interval(0.9)
        assert isinstance(found, Interval)
        assert found.lower.shape == found.upper.shape == (m, d)
        assert (found.lower <= found.upper).all()
        for ours, named in zip(it.interval(), it.interval(level=0.95), strict=True):
            assert_allclose(ours, named)

    def test_quantile(self, law):
        it, m, d = law
        assert it.quantile(0.3).shape == (m, d)
        several = it.quantile([0.1, 0.3, 0.9])
        assert several.shape == (m, 3, d)
        assert (np.diff(several, axis=1) >= 0).all()
        assert_allclose(several[:, 1], it.quantile(0.3))

    def test_density(self, law):
        it, m, d = law
        Y = np.random.default_rng(0).normal(size=(7, d))
        found = it.density(Y)
        assert found.shape == (m, 7)
        assert (found >= 0).all()
        with np.errstate(divide="ignore"):
            assert_allclose(np.exp(it.log_density(Y)), found, rtol=1e-6, atol=1e-300)

    def test_probability(self, law):
        it, m, _ = law
        found = it.probability(lambda Y: Y[:, 0] > 0)
        assert found.shape == (m,)
        assert ((found >= 0) & (found <= 1)).all()
        assert_allclose(it.probability(lambda Y: Y[:, 0] > -np.inf), 1.0)

    def test_sample(self, law):
        it, m, d = law
        found = it.sample(5, random_state=0)
        assert found.shape == (m, 5, d)
        assert_allclose(it.sample(5, random_state=0), found)

    @pytest.mark.parametrize("verb", VERBS)
    def test_shape(self, law, verb):
        found, expected = asked(verb, *law)
        assert found == expected

    def test_settings_of_numpy_change_nothing(self, law):
        """Far away densities vanish: an underflow, which the caller may have made an error."""
        it, m, d = law
        Y = np.random.default_rng(0).uniform(5.0, 50.0, size=(m, d))
        for ask in [*(ask for ask, _ in VERBS.values()), lambda law, Y: law.crps(Y)]:
            expected = ask(it, Y)
            with np.errstate(all="raise"):
                found = ask(it, Y)
            assert_array_equal(found, expected)

    def test_to_frame(self, law):
        pd = pytest.importorskip("pandas")
        it, m, d = law
        frame = it.to_frame()
        assert isinstance(frame, pd.DataFrame)
        assert len(frame) == m
        for end in ("_std", "_lower", "_upper"):
            assert sum(name.endswith(end) for name in frame.columns) == d

    def test_nothing_of_it_is_an_estimator(self, law):
        parts = vars(law[0]).values() if hasattr(law[0], "__dict__") else ()
        assert not [part for part in parts if hasattr(part, "fit") and hasattr(part, "get_params")]


SAVED = [name for name, (make, *_) in LAWS.items() if hasattr(make(), "save")]


def batch_of(name: str) -> Any:
    it = LAWS[name][0]()
    # without a bandwidth a batch has one for all members, from all of them
    return it.carrying(0.4) if isinstance(it, km.MeanEmbedding) and not it.bandwidth else it


class TestSome:
    """Some of a batch answer what the batch answers for them."""

    @pytest.fixture(params=LAWS)
    def batch(self, request):
        return batch_of(request.param)

    @pytest.fixture(params=SAVED)
    def saved(self, request):
        return batch_of(request.param)

    @pytest.mark.parametrize("verb", VERBS)
    def test_as_the_batch(self, batch, verb):
        Y = np.random.default_rng(0).uniform(0.1, 1.0, size=(7, batch.mean().shape[1]))

        def answer(it, one: bool = False) -> np.ndarray:
            if verb != "to_frame":
                return VERBS[verb][0](it, Y)
            frame = it.to_frame().to_numpy(dtype=float)
            return frame[0] if one else frame

        if verb.endswith("density") and not (batch.bandwidth or hasattr(batch, "move")):
            return
        whole = answer(batch)
        if verb == "sample":  # what is drawn depends on how many draw
            whole = np.concatenate([answer(batch[[b]]) for b in range(len(batch))])
        else:
            for some in ([2, 0], slice(1, 3), np.arange(len(batch)) > 0):
                assert_allclose(answer(batch[some]), whole[some], rtol=1e-7, atol=1e-12)
        for b in (0, -1, np.int64(1)):
            assert_allclose(answer(batch[b], one=True), whole[b], rtol=1e-7, atol=1e-12)

    def test_one_after_the_other(self, batch):
        assert_allclose([it.quantile(0.2) for it in batch], batch.quantile(0.2))
        with pytest.raises(IndexError):
            batch[len(batch)]

    def test_saved(self, saved, tmp_path):
        batch = saved
        batch[1].save(tmp_path / "one.km")
        one = km.load(tmp_path / "one.km")
        assert_allclose(one.quantile([0.2, 0.8]), batch.quantile([0.2, 0.8])[1])

    def test_columns(self, saved):
        batch = saved
        Y = np.linspace(0.1, 1.0, 5)
        whole, one = batch.marginal(0), batch[1].marginal(0)
        assert_allclose(one.density(Y), whole.density(Y)[1], rtol=1e-9, atol=1e-12)
        assert_allclose(one.interval().upper, whole.interval().upper[1], rtol=1e-9)


# --------------------------------------------------------------------------- every module and class
@cache
def modules() -> tuple[Any, ...]:
    """All modules of the package but those that need a library which is not installed."""
    found = []
    for info in pkgutil.walk_packages(km.__path__, "kernelmean."):
        try:
            found.append(importlib.import_module(info.name))
        except ImportError as missing:  # an extra, never a module of our own
            if (missing.name or "").startswith("kernelmean"):
                raise
    return tuple(found)


def functions() -> Iterator[tuple[str, Callable]]:
    """All functions and methods, by name, private ones too."""
    for module in modules():
        for name, thing in vars(module).items():
            if getattr(thing, "__module__", None) != module.__name__:
                continue
            if inspect.isfunction(thing):
                yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing):
                for verb, method in vars(thing).items():
                    method = getattr(method, "__func__", method)
                    if inspect.isfunction(method):
                        yield f"{module.__name__}.{name}.{verb}", method


def classes() -> dict[str, type]:
    """All estimators and all public classes."""
    found = {name: getattr(km, name) for name in km.__all__}
    for module in modules():
        found |= {name: cls for name, cls in vars(module).items() if hasattr(cls, "get_params")}
    return {
        name: cls
        for name, cls in sorted(found.items())
        if inspect.isclass(cls) and cls.__module__.startswith("kernelmean")
    }


def test_a_level_is_95_percent_unless_said_otherwise():
    other = {}
    for name, function in functions():
        level = inspect.signature(function).parameters.get("level")
        if level is None or level.default is inspect.Parameter.empty:
            continue
        default = getattr(level.default, "default", level.default)  # of an option of the command
        if default != 0.95:
            other[name] = default
    assert not other


@pytest.mark.parametrize("name", classes())
def test_constructors_are_short(name):
    kinds = inspect.Parameter
    parameters = inspect.signature(classes()[name].__init__).parameters.values()
    named = [p.name for p in parameters if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    assert len(named) - 1 <= AT_MOST, named


FITTED = [
    *("conditional", "ratio", "bayes_importance", "filter_importance", "density"),
    *("embedded_density", "hmm", "hmm_spectral", "state_space", "state_space_moments", "iv"),
    *("iv_formula", "iv_effect"),
]


@pytest.mark.parametrize("name", FITTED)
def test_every_fitted_estimator_has_a_summary(name):
    text = str(loaded(name).summary())
    assert text.strip()
    assert "object at 0x" not in text


def test_every_estimator_is_asked_for_a_summary():
    """Not of ours that are compared with, nor feature maps."""
    ours = [c for n, c in classes().items() if hasattr(c, "fit") and n in km.__all__]
    estimators = {c for c in ours if not issubclass(c, km.FeatureMap)}
    assert estimators <= {type(loaded(name)) for name in FITTED}


@pytest.mark.parametrize("names", [["a", "a_std"], ["b", "extrapolated"]])
def test_no_two_columns_of_a_table_have_one_name(names):
    """The mean of the column a_std stood where the spread of a is looked for."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    Y = pandas.DataFrame(X + rng.normal(size=(60, 2)), columns=names)
    laws = km.ConditionalEmbedding().fit(X, Y).at(X[:2])
    with pytest.raises(ValueError, match=f"two columns .* would be called '{names[1]}'"):
        laws.to_frame()


@pytest.mark.slow
def test_names_in_another_order_are_refused_wherever_a_table_or_its_row_is_taken():
    """Where they were not looked at, the one column was taken for the other."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    U = pandas.DataFrame(rng.normal(size=(60, 2)), columns=["u", "v"])
    X = pandas.DataFrame(U.to_numpy() + 0.3 * rng.normal(size=(60, 2)), columns=["a", "b"])
    row, turned, U_turned = X.iloc[3], X.iloc[3][["b", "a"]], U[["v", "u"]]
    bayes = km.KernelBayes().fit(X, U)
    quick = km.EM(n_init=1, max_iter=2)
    driven = km.KernelStateSpace(em=quick).fit(X, inputs=U)
    regimes = km.KernelHMM(2, random_state=0, em=quick).fit(X, inputs=U)
    starts = [
        km.KernelBayesFilter(inference="kbr").fit(X, U).start,
        regimes.start,
        km.KernelStateSpace(backbone=None, em=quick).fit(X).start,
        lambda: driven.start(inputs=U[:1]),
    ]
    for start in starts:
        given = start().update(row).mean()
        np.testing.assert_array_equal(given, start().update(row.to_numpy()).mean())
        with pytest.raises(ValueError, match="x has columns .* the same order is needed"):
            start().update(turned)
    for start in (starts[1], starts[3]):
        start().predict(U.iloc[1])
        with pytest.raises(ValueError, match="inputs has the columns .*; those of fitting are"):
            start().predict(U_turned.iloc[1])
    with pytest.raises(ValueError, match="y has columns .* the same order is needed"):
        km.ConditionalEmbedding().fit(X, U).score(X, U_turned)
    for told, message in (((X[["b", "a"]], U, 1.0), "x_s has"), ((X, U_turned, 1.0), "z_s has")):
        with pytest.raises(ValueError, match=message):
            bayes.predict(X[:2], supervision=told)
