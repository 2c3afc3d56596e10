"""What is refused or warned of, in words that the other tests do not read."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import kernelmean as km

x = np.linspace(-1.0, 1.0, 40)[:, None]
y = x[:, 0] ** 2


def table(*names: str):
    return pytest.importorskip("pandas").DataFrame(dict.fromkeys(names, x[:, 0]))


REFUSED = {
    "complex points": (lambda: km.Gaussian(1.0)(x * 1j), "x is complex|X is complex"),
    "a kernel of names, an array": (
        lambda: km.on_columns({"a": km.Gaussian(1.0)})(x),
        r"columns \['a'\] are names, but the points are a plain array",
    ),
    "a kernel of names that the data lack": (
        lambda: km.ConditionalEmbedding(km.on_columns({"c": "gaussian"})).fit(table("a", "b"), y),
        r"kernel names columns \['c'\], but the data have \['a', 'b'\]",
    ),
    "a Gram matrix by name": (
        lambda: km.ConditionalEmbedding("precomputed").fit(x, y),
        r"kernel_x: for a precomputed Gram matrix pass kernelmean.Precomputed\(gram\)",
    ),
    "a kernel without size": (
        lambda: km.ConditionalEmbedding(km.Linear()).fit(0.0 * x, y),
        r"X gives Linear\(.*\) no size: k\(x, x\) is 0 for every row",
    ),
    "another number of columns": (
        lambda: km.DensityRatio().fit(x, x).predict(np.hstack([x, x])),
        "Z has 2 columns, the denominator 1",
    ),
    "a density along a column that no kernel looks at": (
        lambda: km.MeanEmbedding(
            np.hstack([x, x**2]), kernel=km.on_columns({0: km.Gaussian(1.0)})
        ).density(np.zeros((1, 2))),
        r"looks at none of the columns \[1\], and has no law of them",
    ),
    "a picture without a grid": (
        lambda: km.display.DensityMapDisplay.from_estimator(
            km.ConditionalDensity(reg=0.1).fit(x, y), n_grid=1
        ),
        "n_grid is 1; a whole number of at least 2 is needed",
    ),
    "a state that does not move": (
        lambda: km.KernelBayesFilter(inference="densities").fit(x, 0.0 * x),
        "column 0 of Z is constant; densities need it to vary",
    ),
    "inputs of a model without a line": (
        lambda: km.KernelStateSpace(backbone=None).fit(x, inputs=x),
        "inputs were given, and backbone is None, which takes them",
    ),
    "inputs and moments alone": (
        lambda: km.KernelStateSpace(refine=False).fit(x, inputs=x),
        "refine is False, and a backbone or inputs are given",
    ),
    "an event that is none": (
        lambda: km.MeanEmbedding(x).probability("high"),
        "event is 'high'; a function from points",
    ),
    "an event of numbers": (
        lambda: km.MeanEmbedding(x).probability(lambda at: at[:, 0]),
        "event gives numbers other than 0 and 1",
    ),
    "an event of another shape": (
        lambda: km.MeanEmbedding(x).probability(lambda at: at > 0),
        r"event gives \(40, 1\) at 40 points",
    ),
    "rows of a contrast": (
        lambda: km.KernelIV(tune_lengthscale=False).fit(x, y, Z=x).contrast(x, x * np.nan),
        "X0 contains NaN",
    ),
    "y of a score": (lambda: km.ConditionalDensity().fit(x, y).score(x, y * np.nan), "y contains"),
    "fewer y than X": (
        lambda: km.ConditionalDensity().fit(x, y).score_samples(x, y[:3]),
        "y has 3 rows but X has 40; they must be equal",
    ),
    "x of Bayes' rule": (lambda: km.bayes_rule(x, y, None, [np.nan]), "x contains NaN"),
    "a field of options": (
        lambda: km.KernelHMM(2, em=km.EM(n_init=0)).fit(x),
        r"^em\.n_init is 0; a whole number of at least 1 is needed \(or None\)$",
    ),
    "lengthscales that are to be tuned or not": (
        lambda: km.ConditionalEmbedding(tune_lengthscale="no").fit(x, y),
        "tune_lengthscale is 'no'; True or False is needed",
    ),
    "no rows of a table": (lambda: next(iter(km.Rows([]).few(3))), "^there are no rows; at least"),
    "no rows": (
        lambda: km.ConditionalEmbedding().fit(km.Rows([]), km.Rows([])),
        "^there are no rows; at least",
    ),
    "y without X": (
        lambda: km.display.StructuralCurveDisplay.from_estimator(
            km.KernelIV(tune_lengthscale=False).fit(x, y, Z=x), None, y
        ),
        "X is None; an array of numbers is needed",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    ask, words = REFUSED[what]
    with pytest.raises(ValueError, match=words):
        ask()


FITS = {
    km.ConditionalDensity: lambda model: model.fit(x, y),
    km.ConditionalEmbedding: lambda model: model.fit(x, y),
    km.DensityRatio: lambda model: model.fit(x, x[:9]),
    km.EmbeddedDensity: lambda model: model.fit(x),
    km.KernelBayes: lambda model: model.fit(x, x).posterior(x[:1]),
    km.KernelBayesFilter: lambda model: model.fit(x, x),
    km.KernelHMM: lambda model: model.fit(x),
    km.KernelIV: lambda model: model.fit(x, y, x),
    km.KernelStateSpace: lambda model: model.fit(x),
    km.Nystroem: lambda model: model.fit(x),
    km.RandomFourier: lambda model: model.fit(x),
}


@pytest.mark.parametrize("value", ["no such", object(), np.ones(3)], ids=["word", "thing", "array"])
@pytest.mark.parametrize(
    ("cls", "name"),
    [(cls, name) for cls in FITS for name in inspect.signature(cls).parameters],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_every_parameter_refuses_what_is_no_value_of_it(cls, name, value):
    """Of the wrong kind: in words that name it, before anything is sought."""
    if name == "random_state" and isinstance(value, np.ndarray):
        value = 0.5 * value  # whole numbers are seeds
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        FITS[cls](cls(**{name: value}))


def test_rows_without_a_weight_have_the_marginal_density():
    """Where location and the box of the data are left out: the thesis's estimator, far away."""
    model = km.ConditionalDensity(km.Gaussian(0.05), 0.3, reg=1e-3).fit(
        np.vstack([x, x + 9]), [*y, *y]
    )
    with pytest.warns(km.NumericalWarning, match="weights are zero at 1 row of X, so far from"):
        found = model.pdf([[0.5]], [[4.5]])
    np.testing.assert_allclose(found, km.MeanEmbedding(y).density([[0.5]], 0.3), rtol=1e-6)


@pytest.mark.slow
class TestInputs:
    @pytest.fixture(scope="class")
    @staticmethod
    def series():
        rng = np.random.default_rng(0)
        U = rng.normal(size=(80, 1))
        return np.cumsum(0.3 * rng.normal(size=80))[:, None] + U, U

    @pytest.fixture(scope="class")
    @staticmethod
    def driven(series):
        X, U = series
        return km.KernelStateSpace(random_state=0).fit(X, inputs=U)

    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            (None, "inputs is None; the model was fitted with 1 of them"),
            (3, "inputs has 3 rows; 80 are needed"),
        ],
    )
    def test_of_other_rows(self, series, driven, rows, words):
        X, U = series
        with pytest.raises(ValueError, match=words):
            driven.predict(X, inputs=None if rows is None else U[:rows])

    def test_of_other_columns(self, series, driven):
        X, U = series
        with pytest.raises(ValueError, match="inputs has 2 columns"):
            driven.predict(X, inputs=np.hstack([U, U]))

    def test_where_there_were_none(self, series):
        X, U = series
        alone = km.KernelStateSpace(random_state=0, refine=False).fit(X)
        with pytest.raises(ValueError, match="inputs were given, and none in fitting"):
            alone.predict(X, inputs=U)

    def test_paths_go_on_from_one_sequence(self, series, driven):
        X, U = series
        with pytest.raises(ValueError, match="lengths has 2 entries; one sequence is needed"):
            driven.sample_paths(X, 3, 2, lengths=[40, 40], inputs=U, inputs_ahead=U[:3])

    def test_a_line_is_not_drawn_from_as_states(self, driven):
        with pytest.raises(ValueError, match="has a backbone, beside which states are"):
            driven.recovered()


def series(seed: int = 0, n: int = 120):
    """Two columns that two inputs drive, as tables."""
    pd, rng = pytest.importorskip("pandas"), np.random.default_rng(seed)
    U = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    X = pd.DataFrame(U.to_numpy() + 0.3 * rng.normal(size=(n, 2)), columns=["y", "z"])
    return X, U


BELIEFS = {
    "states beside a line": lambda X, U: km.KernelStateSpace(em=km.EM(n_init=1)).fit(X, inputs=U),
    "states": lambda X, U: km.KernelStateSpace(em=km.EM(n_init=1), backbone=None).fit(X),
    "regimes": lambda X, U: km.KernelHMM(2, random_state=0).fit(X, inputs=U),
    "filter": lambda X, U: km.KernelBayesFilter().fit(X, U),
}


@pytest.mark.usefixtures("short_searches")
@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
@pytest.mark.parametrize("name", BELIEFS)
def test_beliefs_read_the_names_of_a_row(name):
    """A row of a table is what its numbers are, in the order of training; others are refused."""
    X, U = series()
    model = BELIEFS[name](X, U)
    row, told = X.iloc[3], U.iloc[4]
    driven = getattr(model, "inputs_", 0) > 0
    first = {"inputs": U[:1]} if name == "states beside a line" else {}
    begun = model.start(**first)
    numbers, named = (begun.copy().update(r) for r in (row.to_numpy(), row))
    np.testing.assert_array_equal(named.mean(), numbers.mean())
    with pytest.raises(ValueError, match=r"x has columns \['z', 'y'\] but the training data has"):
        begun.update(row[["z", "y"]])
    if driven:
        expected = numbers.predict(told.to_numpy()).mean()
        for given in (told, U[4:5]):
            found = named.copy().predict(given).mean()
            np.testing.assert_array_equal(found, expected)
        for given in (told[["b", "a"]], U[["b", "a"]][4:5]):
            with pytest.raises(ValueError, match=r"inputs has the columns \['b', 'a'\]; those of"):
                begun.predict(given)
