"""Fits to rows that are elsewhere, beyond what is looked at in memory."""

from __future__ import annotations

import pickle
from functools import reduce

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import kernelmean as km
from kernelmean.core.rows import merged

dask = pytest.importorskip("dask", reason="needs the extra `dask`")
da = pytest.importorskip("dask.array")


def normal(n: int, d: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def uneven(A: np.ndarray, seed: int = 0) -> list[np.ndarray]:
    """Blocks of one row, of two, of many."""
    cuts = np.sort(np.random.default_rng(seed).choice(np.arange(5, len(A)), 9, replace=False))
    return np.split(A, [1, 2, 4, 5, *cuts[1:]])


# ------------------------------------------------------------------------- hidden Markov models
@pytest.mark.parametrize("lengths", [None, [3, 200, 1, 2, 394]])
@pytest.mark.parametrize("limit", [10_000, 120])
def test_moments_of_neighbours_go_on_from_block_to_block(lengths, limit, monkeypatch):
    for module in ("chains.draft", "hmm.learn"):
        monkeypatch.setattr(f"kernelmean.{module}.POINTS", limit)
    monkeypatch.setattr("kernelmean.hmm.learn.PIECES", 4)
    Y = km.datasets.make_hmm("separated", 600, random_state=0).X
    features = km.RandomFourier(20, random_state=0)
    model = km.KernelHMM(2, km.Gaussian(0.3), False, features=features, random_state=0)
    whole = model._plan.draft(Y, lengths)
    for rows in (km.Rows(uneven(Y)), da.from_array(Y, chunks=(97, 1))):
        drafted = model._plan.draft(rows, lengths)
        assert len(drafted.rows.points) <= limit
        assert drafted.moments.n_triples == whole.moments.n_triples
        for name in ("mean", "second", "pairs", "skips", "earlier", "later"):
            ours, theirs = (getattr(d.moments, name) for d in (drafted, whole))
            assert_allclose(ours, theirs, atol=1e-14, err_msg=name)
        left, right = normal(2 * 20, 3).reshape(2, 20, 3)
        T, expected = (d.moments.third(d.coordinates, left, right) for d in (drafted, whole))
        assert_allclose(T, expected, atol=1e-12)
    there = clone(model).set_params(features=features).fit(km.Rows(uneven(Y)), lengths)
    assert_allclose(there.transmat_, model.fit(Y, lengths).transmat_, atol=1e-8)


def test_em_along_rows_elsewhere_is_refused():
    with pytest.raises(ValueError, match="refine is True, but EM goes along all rows"):
        km.KernelHMM(2).fit(km.Rows(normal(50), step=20))


# -------------------------------------------------------------------------------- densities
@pytest.fixture
def gathered(monkeypatch):
    """Sums in cells, however few the rows; a function that makes cells narrower."""
    monkeypatch.setattr("kernelmean.densities.cells.SEARCH_ROWS", 10)
    return lambda fine: monkeypatch.setattr("kernelmean.densities.cells.FINE", fine)


def pairs(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    X = normal(n)
    return X, np.sin(2 * X[:, 0]) + (0.2 + 0.2 * (X[:, 1] > 0)) * normal(n, 1, 1)[:, 0]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"kernel_y": "gaussian"}, marks=pytest.mark.slow),
        {"location": False, "bandwidth": 0.3, "tune_lengthscale": False},
        {"location": True, "bandwidth": 0.3, "reg": 1e-3, "tune_lengthscale": False},
        {"bandwidth": 0.3, "reg": 1e-3},
    ],
    ids=["all chosen", "bent", "no location", "location", "no intercept"],
)
@pytest.mark.usefixtures("short_searches")
def test_a_density_of_rows_in_cells_is_that_of_the_rows(given, gathered, tmp_path):
    """All that is chosen is chosen on all rows here, so only sums in cells are others."""
    X, y = pairs()
    skewed = "kernel_y" in given
    y = np.exp(2 * y) if skewed else y
    new, at = normal(5, seed=7), np.linspace(-2, 2, 41)
    theirs = km.ConditionalDensity(**given).fit(X, y)
    assert (theirs.bend_ is not None) == skewed
    ours = km.ConditionalDensity(**given)
    for fine, atol in [(1 / 16, 2e-3), (1e-4, 2e-6)]:
        gathered(fine)
        ours.fit(km.Rows(uneven(X)), km.Rows(uneven(y)))
        assert abs(np.log10(ours.reg_ / theirs.reg_)) < 0.02  # as precisely as it is sought
        assert ours.bandwidth_ == pytest.approx(theirs.bandwidth_, rel=1e-9)
        expected = theirs.pdf(at, new, paired=False)
        assert_allclose(ours.pdf(at, new, paired=False), expected, atol=atol * expected.max())
        assert_allclose(ours.predict(new), theirs.predict(new), atol=atol)
        assert_allclose(ours.predict_interval(new), theirs.predict_interval(new), atol=5 * atol)
        assert_allclose(ours.loo_score(reg=0.1), theirs.loo_score(reg=0.1), atol=atol)
        left_out = (model.conformalize().intervals for model in (ours, theirs))
        assert_allclose(*left_out, atol=5 * atol)
    ours.save(tmp_path / "density.km")
    assert_allclose(km.load(tmp_path / "density.km").predict(new), ours.predict(new))
    assert "200" in str(ours.summary())


def test_a_density_has_sums_of_all_rows_and_choices_of_a_few(gathered, monkeypatch):
    monkeypatch.setattr("kernelmean.densities.conditional_density.SEARCH_ROWS", 60)
    gathered(1e-3)
    X, y = pairs(600)
    model = km.ConditionalDensity(
        km.Gaussian(1.0), 0.2, 1e-2, km.RandomFourier(30, random_state=0), intercept=True
    )
    lazy = da.from_array(X, chunks=(70, 2)), da.from_array(y, chunks=70)
    new, at = normal(5, seed=7), np.linspace(-2, 2, 41)
    ours, theirs = clone(model).fit(*lazy), model.fit(X, y)
    assert ours.points_x_.shape == (60, 2)
    assert_allclose(ours.pdf(at, new, False), theirs.pdf(at, new, False), atol=1e-4)
    with pytest.raises(ValueError, match="lengthscale is for fits whose rows are here"):
        ours.loo_score(lengthscale=1.0)


def test_several_columns_are_not_gathered(gathered):
    rows = km.Rows(normal(100, 3), step=30)
    with pytest.raises(ValueError, match="X has 3 columns and 100 rows, which are elsewhere"):
        km.EmbeddedDensity().fit(rows)
    with pytest.raises(ValueError, match="y has 3 columns and 100 rows, which are elsewhere"):
        km.ConditionalDensity().fit(rows, rows)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 200)], ids=["equal", "weights"])
@pytest.mark.parametrize("d", [1, 2])
def test_a_density_of_points_in_cells(weights, d, gathered):
    y, at = np.column_stack([pairs()[1], pairs()[0][:, 0]])[:, :d], normal(41, d, 7)
    theirs = km.EmbeddedDensity().fit(y, sample_weight=weights)
    for fine, atol in [(1 / 16, 2e-3), (1e-4, 2e-6)]:
        gathered(fine)
        ours = km.EmbeddedDensity().fit(km.Rows(uneven(y)), sample_weight=weights)
        assert_allclose(ours.bandwidth_, theirs.bandwidth_)
        expected = theirs.pdf(at)
        assert_allclose(ours.pdf(at), expected, atol=(8 if d == 2 else 1) * atol * expected.max())
        assert "200" in str(ours.summary())


# ------------------------------------------------------------------------- kernel Bayes' rule
@pytest.fixture
def few(monkeypatch):
    """How many rows are looked at."""
    return lambda n: monkeypatch.setattr("kernelmean.bayes.kernel_bayes.SEARCH_ROWS", n)


def observed(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    Z = normal(n)
    return Z + 0.5 * normal(n, 2, 1), Z


@pytest.mark.parametrize(
    ("rule", "told"), [("importance", False), ("importance", True), ("squared", False)]
)
def test_posteriors_of_all_rows(rule, told, few, tmp_path):
    few(60)
    X, Z = observed()
    kernels = dict.fromkeys(["kernel_x", "kernel_z"], km.Gaussian(1.0))
    features = km.RandomFourier(30, random_state=0)
    model = km.KernelBayes(rule, **kernels, reg=1e-2, reg_prior=1e-2, features=features)
    theirs = clone(model).fit(X, Z)
    prior, new = 0.3 * normal(50, seed=3) + 0.4, normal(7, seed=7)
    more = (X[:3], Z[:3] + 0.1, 0.2) if told else None
    lazy = da.from_array(X, chunks=(70, 2)), da.from_array(Z, chunks=(70, 2))
    for rows in ((km.Rows(uneven(X)), km.Rows(uneven(Z))), lazy):
        ours = clone(model).fit(*rows)
        assert ours.points_.shape == (60, 2)
        expected = theirs.predict(new, prior, more)
        assert_allclose(ours.predict(new, prior, more), expected, atol=1e-9)
        in_blocks = ours.predict(da.from_array(new, chunks=(3, 2)), prior, more)
        assert_allclose(in_blocks.compute(), expected, atol=1e-9)
        law = ours.posterior(new, prior, more)  # on sixty of the latents
        assert np.abs(law.mean() - expected).mean() < 0.3
    ours.save(tmp_path / "bayes.km")
    again = km.load(tmp_path / "bayes.km")
    assert_allclose(again.predict(new, prior, more), expected, atol=1e-9)
    with pytest.raises(ValueError, match="prior is another one than before this model was saved"):
        again.predict(new, prior + 1)


def test_means_of_all_rows_stay_among_the_latents(few):
    """Between observations and beyond them weights of both signs go astray."""
    few(60)
    X, Z = observed()
    given = {"reg": 1e-8, "reg_prior": 1e-2, "features": km.RandomFourier(30, random_state=0)}
    model = km.KernelBayes(kernel_x=km.Gaussian(1.0), **given).fit(km.Rows(X, 100), Z)
    found = model.predict(1.4 * X)
    assert (found == model.points_.max(axis=0)).any()
    assert (found >= model.points_.min(axis=0)).all()
    assert (found <= model.points_.max(axis=0)).all()


def test_a_regulariser_for_all_rows_is_chosen_on_a_few(few):
    """At every row looked at, leaving it out of all rows: dense, by hand."""
    few(200)
    X, Z = observed(1000)
    features = km.RandomFourier(30, random_state=0)
    given = {"kernel_x": km.Gaussian(1.0), "kernel_z": km.Gaussian(1.0), "features": features}
    ours = km.KernelBayes(**given, reg_prior=1e-2, selection="loo_min").fit(km.Rows(X, 300), Z)
    Phi, Psi = ours.features_x_.transform(X), ours.features_z_.transform(Z)
    second = Psi.T @ Psi / 1000
    U = Psi[np.linspace(0, 999, 200).astype(int)]  # the prior: that of the latents looked at
    r = np.maximum(Psi @ np.linalg.solve(second + 1e-2 * np.eye(30), U.mean(0)), 0.0)

    def loss(reg: float) -> float:
        A = Phi.T @ (r[:, None] * Phi) / 1000 + reg * np.eye(30)
        H = Phi @ np.linalg.solve(A, Phi.T * r / 1000)
        left_out = ((Psi - H @ Psi) ** 2).sum(1) / (1 - H.diagonal()) ** 2
        return float((r * left_out)[np.linspace(0, 999, 200).astype(int)].sum())

    found = ours.regularisers()[1]
    assert min(map(loss, 10.0 ** np.arange(-7, 1, 0.5))) > loss(found) * (1 - 1e-4)


def test_what_leaving_out_changes_is_in_proportion():
    """λ of ten thousand rows out of many is that of the loss, not of its value in the sample."""
    from kernelmean.core.solves import EigenGrid
    from kernelmean.regression.leave_one_out import LeaveOneOut

    X = normal(3000, 40)
    Psi = X[:, :3] + normal(3000, 3, 1)
    some = np.arange(0, 3000, 10)
    grid = EigenGrid.of(X.T @ X / 3000)
    C = grid.vectors.T @ (X.T @ Psi) / 3000
    loss = LeaveOneOut(X[some], Psi[some], grid, n=3000, C=C)
    for reg in (1e-3, 1e-1, 1.0):
        assert loss.estimate(100)(reg) == pytest.approx(loss(reg), rel=0.2)


# ------------------------------------------------------------------ machines that share nothing
def test_an_operator_of_machines_that_share_nothing():
    """Coordinates are sent, sums come back and are merged: the operator of all rows."""
    X = normal(900)
    y = X[:, 0] ** 2 + 0.1 * normal(900, 1, 1)[:, 0]
    whole = km.ConditionalEmbedding(reg=1e-2).fit(X, y)
    sent = pickle.dumps((whole.features_x_, whole.features_y_))
    found = []
    for mine in np.array_split(np.arange(900), 3):
        map_x, map_y = pickle.loads(sent)
        rows = km.Rows([(X[i], y[i]) for i in np.array_split(mine, 4)])
        found.append(pickle.dumps(rows.partial("xx", "yx", x=map_x, y=(1, map_y))))
    moments = reduce(merged, map(pickle.loads, found))
    r = len(moments.mean("xx"))
    operator = moments.mean("yx") @ np.linalg.inv(moments.mean("xx") + 1e-2 * np.eye(r))
    assert moments.n == 900
    assert_allclose(operator, whole.operator_, atol=1e-8)


# ----------------------------------------------------------------------------- what is read
def test_columns_of_one_dask_array_are_made_together():
    """Blocks that several tables are columns of are made once a pass, not once a table."""
    made: list[int] = []

    def counted(block):
        made.append(len(block))
        return block

    table = da.from_array(normal(400, 4), chunks=(100, 4))
    table = table.map_blocks(counted, dtype=float, meta=np.empty((0, 4)))
    model = km.KernelIV(km.Linear(), km.Linear(), 1e-2, 1e-2, trend=0)
    with dask.config.set(scheduler="synchronous"):
        model.fit(table[:, :1], table[:, 1], table[:, 2:])
    assert made == [100] * 8  # four blocks; a few rows, and the sums of both stages


@pytest.mark.parametrize("all_rows", [True, False], ids=["all", "the few"])
def test_pictures_show_observations_of_the_rows_looked_at(all_rows, gathered, monkeypatch):
    """Where sums are of all rows, points are nodes, and the rows that are kept are sorted."""
    monkeypatch.setattr("kernelmean.densities.conditional_density.SEARCH_ROWS", 60)
    X, y = pairs(600)
    model = km.ConditionalDensity(reg=0.1, bandwidth=0.3, tune_lengthscale=False)
    model.fit(km.Rows(X, step=70), km.Rows(y, step=70))
    few = np.linspace(0, 599, 60).astype(int)
    at, given = np.array([[1.0, 0.5], [-1.0, 0.0]]), y if all_rows else y[few]
    near = km.display.ConditionalDensityDisplay.from_estimator(model, at, given, near=5).near
    gaps = ((X[few] - at[:, None]) / X[few].std(axis=0)) ** 2
    expected = y[few][np.argsort(gaps.sum(axis=-1), axis=1)[:, :5]]
    assert_allclose(np.sort(np.reshape(near, (2, 5))), np.sort(expected))
    shown = km.display.DensityMapDisplay.from_estimator(model, None, given)
    assert_allclose(
        sorted(zip(shown.x, shown.y, strict=True)), sorted(zip(X[few, 0], y[few], strict=True))
    )
    with pytest.raises(ValueError, match="y has 59 rows but the training y has 60"):
        km.display.ConditionalDensityDisplay.from_estimator(model, at, y[:59])
