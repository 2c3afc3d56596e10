"""Parameters of kernels by the names that scikit-learn has for what an estimator holds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process import kernels as theirs
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelmean as km

LENGTHSCALES = [0.05, 0.5, 5.0]
PARTS = km.on_columns({"age": km.Gaussian(1.0), ("u", "v"): km.Delta()})
MIXED = km.Linear(2.0) * km.Matern(2.5, 0.3) + PARTS


@pytest.fixture(scope="module")
def wave():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (90, 1))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(90)


@pytest.mark.parametrize("estimator", [km.ConditionalEmbedding, km.ConditionalDensity])
def test_a_search_over_lengthscales_is_that_over_kernels(estimator, wave):
    folds = KFold(3)
    short = estimator(kernel_x=km.Gaussian(1.0), reg=1e-3)
    if estimator is km.ConditionalDensity:
        short.set_params(bandwidth=0.2)
    search = GridSearchCV(short, {"kernel_x__lengthscale": LENGTHSCALES}, cv=folds).fit(*wave)
    scores = [
        cross_val_score(clone(short).set_params(kernel_x=km.Gaussian(size)), *wave, cv=folds).mean()
        for size in LENGTHSCALES
    ]
    assert_allclose(search.cv_results_["mean_test_score"], scores, rtol=1e-12)
    assert np.ptp(scores) > 0.1
    assert search.best_estimator_.kernel_x_.lengthscale == LENGTHSCALES[np.argmax(scores)]
    assert short.kernel_x == km.Gaussian(1.0)


def test_names_are_those_of_scikit_learns_kernels():
    ours = km.Gaussian(2.0) * km.Gaussian(3.0) + km.Linear()
    scikit = theirs.RBF(2.0) * theirs.RBF(3.0) + theirs.DotProduct()
    words = {"k1": "left", "k2": "right", "length_scale": "lengthscale"}
    found = ours.get_params()
    for name, value in scikit.get_params().items():
        parts = name.split("__")
        if parts[-1] == "length_scale":
            assert found["__".join(words[part] for part in parts)] == value
    assert {*ours.get_params(deep=False)} == {"left", "right"}


def test_parts_of_sums_products_and_columns_are_named():
    found = km.ConditionalEmbedding(kernel_x=MIXED).get_params()
    assert found["kernel_x__left__left__offset"] == 2.0
    assert found["kernel_x__left__right__nu"] == 2.5
    assert found["kernel_x__right__age__lengthscale"] == 1.0
    assert found["kernel_x__right__u,v"] == km.Delta()
    changed = km.ConditionalEmbedding(kernel_x=MIXED).set_params(
        **{"kernel_x__left__right__lengthscale": 7, "kernel_x__right__u,v": "linear"}
    )
    new = km.on_columns({"age": km.Gaussian(1.0), ("u", "v"): km.Linear()})
    assert changed.kernel_x == km.Linear(2.0) * km.Matern(2.5, 7.0) + new


ALL = [PARTS, MIXED, km.Periodic(1.0, period=24), km.Rotation(1.0), km.Frobenius()]
ALL += [km.Gaussian4([1.0, 2.0]), km.CorrelatedGaussian(1.0, correlation=((1.0, 0.9), (0.9, 1.0)))]


@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: type(kernel).__name__)
def test_every_kernel_is_made_again_of_its_parameters(kernel):
    assert kernel.with_params(**kernel.get_params(deep=False)) == kernel
    assert kernel.with_params(**kernel.get_params()) == kernel
    assert clone(kernel) is kernel


def test_a_kernel_that_others_hold_stays_as_it_is(wave):
    kernel = km.Gaussian(1.0)
    first, second = (km.ConditionalEmbedding(kernel_x=kernel, reg=0.1) for _ in range(2))
    before = first.fit(*wave).predict([[0.5]])
    first.set_params(kernel_x__lengthscale=2.0)
    assert first.kernel_x == km.Gaussian(2.0)
    assert second.kernel_x is kernel
    assert kernel == km.Gaussian(1.0)
    assert_allclose(first.predict([[0.5]]), before, rtol=0)  # fitted with what it was


def test_a_new_kernel_comes_before_what_it_holds():
    model = km.ConditionalEmbedding()
    model.set_params(kernel_x__lengthscale=2.0, kernel_x__nu=2.5, kernel_x=km.Matern(0.5, 1.0))
    assert model.kernel_x == km.Matern(2.5, 2.0)


def test_through_pipelines_ratios_and_feature_maps():
    model = km.KernelBayes(
        ratio=km.DensityRatio(kernel=km.Gaussian(1.0)), features=km.Nystroem(tol=1e-3)
    )
    pipe = make_pipeline(StandardScaler(), model)
    pipe.set_params(kernelbayes__ratio__kernel__lengthscale=2.0, kernelbayes__features__max_rank=9)
    assert model.ratio.kernel == km.Gaussian(2.0)
    assert (model.features.max_rank, model.features.tol) == (9, 1e-3)


def test_options_have_names_too():
    options = km.EM(n_init=2)
    model = km.KernelHMM(2, em=options)
    assert model.get_params()["em__n_init"] == 2
    assert clone(model).set_params(em__tol=0.1).em == km.EM(n_init=2, tol=0.1)
    assert options == km.EM(n_init=2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope", r"the parameter of ConditionalEmbedding\(.*\) is 'nope'; .*'kernel_x'"),
        ("nope__lengthscale", r"the parameter of ConditionalEmbedding\(.*\) is 'nope'"),
        ("kernel_x__nope", r"the parameter of Gaussian\(.*\) is 'nope'; .*'lengthscale'"),
        ("kernel_x__nope__lengthscale", r"the parameter of Gaussian\(.*\) is 'nope'"),
        ("kernel_x__lengthscale__nope", "lengthscale is 1.0; what has a nope is needed"),
        ("kernel_y__lengthscale", "kernel_y is 'gaussian'; what has a lengthscale is needed"),
        ("features__tol", "features is None; what has a tol is needed for features__tol"),
    ],
)
def test_unknown_names_are_refused(name, message):
    model = km.ConditionalEmbedding(kernel_x=km.Gaussian(1.0))
    with pytest.raises(ValueError, match=message):
        model.set_params(**{name: 2.0})
    assert model.kernel_x == km.Gaussian(1.0)


def test_bad_values_are_refused():
    kernel = km.Gaussian(1.0) + km.on_columns({0: km.Delta()})
    model = km.ConditionalEmbedding(kernel_x=kernel)
    with pytest.raises(ValueError, match="lengthscale is -1"):
        model.set_params(kernel_x__left__lengthscale=-1)
    with pytest.raises(ValueError, match="kernel is 'nope'; it must be one of"):
        model.set_params(kernel_x__right__0="nope")
    assert model.kernel_x is kernel


def test_a_gram_matrix_is_not_copied():
    kernel = km.Precomputed(np.eye(3))
    assert kernel.get_params() == {}
    assert clone(km.ConditionalEmbedding(kernel_x=kernel)).kernel_x is kernel
