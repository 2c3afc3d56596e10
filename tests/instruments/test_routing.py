"""Z and C through scikit-learn's pipelines and searches, by metadata routing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelmean as km

FAST = {"tune_lengthscale": False, "trend": 1}


@pytest.fixture(autouse=True)
def routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(41)
    Z, taste, C = rng.normal(size=(120, 1)), rng.normal(size=120), rng.normal(size=(120, 2))
    X = 100 + 10 * (Z + taste[:, None] + 0.3 * rng.normal(size=(120, 1)))
    y = -0.2 * X[:, 0] + C[:, 0] + 3 * taste
    return X, y, Z, C


def requesting(**parameters):
    iv = km.KernelIV(**FAST, **parameters).set_fit_request(Z=True, C=True)
    return iv.set_score_request(C=True).set_predict_request(C=True)


def test_pipeline_scales_x_alone(data):
    X, y, Z, C = data
    pipeline = make_pipeline(StandardScaler(), requesting()).fit(X, y, Z=Z, C=C)
    scaled = StandardScaler().fit_transform(X)
    alone = km.KernelIV(**FAST).fit(scaled, y, Z, C)
    assert_allclose(pipeline.predict(X, C=C), alone.predict(scaled, C))
    assert pipeline.score(X, y, C=C) == pytest.approx(alone.score(scaled, y, C))
    assert_allclose(pipeline[-1].kernel_z_.lengthscale, alone.kernel_z_.lengthscale)


def test_scaling_changes_nothing_where_every_column_has_its_lengthscale(data):
    X, y, Z, C = data
    pipeline = make_pipeline(StandardScaler(), requesting()).fit(X, y, Z=Z, C=C)
    raw = km.KernelIV(**FAST).fit(X, y, Z, C)
    assert_allclose(pipeline.predict(X, C=C), raw.predict(X, C), rtol=1e-6)


def test_instruments_follow_their_rows_through_folds(data):
    X, y, Z, C = data
    folds = KFold(3, shuffle=True, random_state=41)
    scores = cross_val_score(requesting(), X, y, cv=folds, params={"Z": Z, "C": C})
    expected = []
    for train, test in folds.split(X):
        iv = km.KernelIV(**FAST).fit(X[train], y[train], Z[train], C[train])
        expected.append(iv.score(X[test], y[test], C[test]))
    assert_allclose(scores, expected)


@pytest.mark.slow
def test_a_search_routes_them_to_fit_and_score(data):
    X, y, Z, C = data
    pipeline = make_pipeline(StandardScaler(), requesting())
    grid = {"kerneliv__reg_stage2": [1e-3, 1.0], "kerneliv__kernel_x": ["gaussian", "matern"]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y, Z=Z, C=C)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_
    assert search.score(X, y, C=C) == pytest.approx(best.score(X, y, C=C))
    again = clone(pipeline).set_params(**search.best_params_).fit(X, y, Z=Z, C=C)
    assert_allclose(best.predict(X, C=C), again.predict(X, C=C))


@pytest.mark.filterwarnings("ignore:X has .* outside the training data")
def test_without_controls_only_z_is_asked_for(data):
    X, y, Z, _ = data
    iv = km.KernelIV(**FAST).set_fit_request(Z=True)
    assert len(cross_val_score(iv, X, y, cv=3, params={"Z": Z})) == 3
    got = cross_val_predict(iv, X, y, cv=3, params={"Z": Z})
    assert got.shape == y.shape


def test_unrequested_instruments_are_an_error_not_a_regression(data):
    X, y, Z, _ = data
    with pytest.raises(UnsetMetadataPassedError, match="Z"):
        make_pipeline(StandardScaler(), km.KernelIV(**FAST)).fit(X, y, Z=Z)
    with pytest.raises(ValueError, match="Z is None; instruments are needed"):
        make_pipeline(StandardScaler(), km.KernelIV(**FAST)).fit(X, y)


def test_clone_keeps_parameters_and_requests():
    iv = requesting(split=5, random_state=3)
    copy = clone(iv)
    assert copy.get_params() == iv.get_params()
    assert copy.get_metadata_routing().fit.requests == {"Z": True, "C": True, "clusters": None}
    assert copy.set_params(split="loo", trend=0).trend == 0
    with pytest.raises(ValueError, match="lengthscale"):
        copy.set_params(lengthscale=1.0)


def test_html_of_the_estimator_and_its_summary(data):
    X, y, Z, C = data
    iv = requesting(reg_stage2=0.5)
    assert "KernelIV" in iv._repr_html_()
    assert "reg_stage2" in iv._repr_html_()
    html = iv.fit(X, y, Z, C).summary()._repr_html_()
    assert html.startswith("<table>")
    assert_array_equal([html.count(f"<{tag}") - html.count(f"</{tag}>") for tag in ("tr", "td")], 0)


def test_without_routing_the_pipeline_takes_prefixed_arguments(data):
    X, y, Z, C = data
    with config_context(enable_metadata_routing=False):
        pipeline = make_pipeline(StandardScaler(), km.KernelIV(**FAST))
        pipeline.fit(X, y, kerneliv__Z=Z, kerneliv__C=C)
        assert_allclose(
            pipeline.predict(X, C=C),
            km.KernelIV(**FAST)
            .fit(StandardScaler().fit_transform(X), y, Z, C)
            .predict(StandardScaler().fit_transform(X), C),
        )
