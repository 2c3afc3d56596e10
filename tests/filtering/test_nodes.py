"""The filter on densities: a hidden Markov chain on the training states."""

from __future__ import annotations

import filter_oracles as dense
import numpy as np
import pandas as pd
import pytest
from filter_cases import DENSE, quietly, volatility
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

import kernelmean as km
from kernelmean.densities.standard import NormalErrors
from kernelmean.filtering.laws import Laws, StateLaw, correlated
from kernelmean.filtering.nodes import (
    SLANT,
    Sparse,
    chain_of,
    nodes_of,
    share_of_new,
    thinned,
    visited,
)
from kernelmean.regression.lengthscales import evidence_loss


def data() -> tuple[np.ndarray, ...]:
    train = km.datasets.make_rotation(120, random_state=0)
    test = km.datasets.make_rotation(40, random_state=1)
    return train.X, train.Z, test.X, test.Z


@pytest.fixture(scope="module")
def model() -> km.KernelBayesFilter:
    X, Z, *_ = data()
    return km.KernelBayesFilter(**DENSE).fit(X, Z)


def with_gaps(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X[5:8] = np.nan
    return X


def test_transitions_are_densities_times_cells_in_rows():
    rng = np.random.default_rng(0)
    p, sizes = rng.random((6, 6)), rng.random(6)
    expected = p * sizes / (p @ sizes)[:, None]
    assert_allclose(chain_of(np.log(p), sizes), expected, atol=1e-14)
    assert_allclose(chain_of(np.log(p) - 5000.0, sizes), expected, atol=1e-11)


def test_cells_are_those_that_points_are_in(rng):
    points, side = rng.normal(size=(400, 2)), 0.3
    expected = {tuple(np.floor(np.array(SLANT).T @ point / side)) for point in points}
    found = [tuple(cell) for cell in visited(points, side)]
    assert len(found) == len(expected)
    assert set(found) == expected


def test_cells_have_hardly_a_hole():
    """Where beliefs go through, they would be led around: a twentieth were holes once."""
    train = km.datasets.make_rotation(300, "oscillation", "xu", random_state=0)
    machine = km.KernelBayesFilter(**DENSE).fit(train.X, train.Z).machine_
    at = machine._inner(machine.points) @ SLANT
    side = np.diff(np.unique(at[:, 0].round(9))).min()
    cells = {tuple(cell) for cell in np.floor(at / side).astype(int)}

    def beside(i: int, j: int) -> set:
        return {(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)}

    edge = set().union(*(beside(*cell) for cell in cells)) - cells
    holes = [cell for cell in edge if len(beside(*cell) & cells) >= 3]
    assert 450 < len(cells) <= 500
    assert len(holes) < 0.03 * len(cells)


def known(moving: StateLaw, seeing: StateLaw, X: np.ndarray, Z: np.ndarray) -> Laws:
    """Laws that are there already."""
    laws = object.__new__(Laws)
    laws.moving, laws.seeing, laws.X, laws.Z = moving, seeing, X, Z
    return laws


@pytest.fixture(scope="module")
def tables(model) -> dense.Tables:
    """Those of the filter, an observation being a row of the test sequence."""
    emit = np.exp(model.machine_.coordinates(data()[2]).T)
    return dense.Tables(model.machine_.share, model.machine_.transition, emit)


class TestTables:
    """Against the forward and backward pass of a hidden Markov model with the same tables."""

    def symbols(self):
        return [None if 5 <= t < 8 else t for t in range(40)]

    @pytest.mark.slow
    def test_filter(self, model, tables):
        found = model.filter(with_gaps(data()[2]))
        expected = tables.forward(self.symbols())
        assert_allclose(found.embedding.weights, expected, atol=1e-12)
        assert_allclose(found.mean(), expected @ model.points_, atol=1e-12)
        assert_array_equal(np.flatnonzero(found.missing), [5, 6, 7])

    def test_smoother(self, model, tables):
        found = model.smooth(with_gaps(data()[2]))
        expected = tables.forward_backward(self.symbols())
        assert_allclose(found.embedding.weights, expected, atol=1e-12)

    def test_forecast(self, model, tables):
        ahead = model.forecast(data()[2][:3], 2)
        states, _ = tables.forecast([0, 1, 2], 2)
        assert_allclose(ahead.embedding.weights, states, atol=1e-12)
        (n, d), drawn = model.points_x_.shape, ahead.observations.embedding.points
        each = drawn.reshape(n, -1, d).mean(axis=1)
        assert_allclose(ahead.observations.mean(), states @ each, atol=1e-12)

    def test_sequences_start_anew(self, model, tables):
        found = model.filter(data()[2], lengths=[15, 25]).mean()
        second = tables.forward(list(range(15, 40))) @ model.points_
        assert_allclose(found[15:], second, atol=1e-12)

    def test_streaming(self, model, tables):
        belief, X = model.start(), data()[2]
        for t, p in enumerate(tables.forward([0, None, 2])):
            belief = belief if t == 0 else belief.predict()
            belief.update([np.nan, np.nan] if t == 1 else X[t])
            assert_allclose(belief.mean(), p @ model.points_, atol=1e-12)

    def test_prior(self, model, tables):
        """A prior stays where it is: each of its points is the node that is nearest."""
        prior = np.repeat(model.points_[[7]], 5, axis=0)
        assert_allclose(model.start(prior).mean(), model.points_[7])
        several = np.concatenate([prior, model.points_[[3]] + 1e-9])
        expected = (5 * model.points_[7] + model.points_[3]) / 6
        assert_allclose(model.start(several).mean(), expected)
        usual = model.machine_.share @ model.points_
        assert_allclose(model.start(model.machine_.everywhere()).mean(), usual)
        assert_allclose(usual, data()[1].mean(axis=0), atol=0.05)


def test_nothing_seen_later_moves_nothing(model):
    X = data()[2].copy()
    X[25:] = np.nan
    filtered, smoothed = model.filter(X).mean(), model.smooth(X).mean()
    assert_allclose(smoothed[24:], filtered[24:], atol=1e-12)


def test_absurd_rows_collapse(model):
    X, gap = data()[2].copy(), data()[2].copy()
    X[10], gap[10] = 1e6, np.nan
    with pytest.warns(km.NumericalWarning, match="1 of 40"):
        found = model.filter(X)
    assert_array_equal(np.flatnonzero(found.collapsed), [10])
    assert_allclose(found.mean(), model.filter(gap).mean(), atol=1e-12)


def test_save_and_load(model, tmp_path):
    model.save(tmp_path / "filter.km")
    again = km.load(tmp_path / "filter.km")
    X = data()[2]
    assert_allclose(again.smooth(X).mean(), model.smooth(X).mean(), atol=1e-12)


def test_names_and_dates(model):
    X, Z, new, _ = data()
    dates = pd.date_range("2020-01-01", periods=len(new))
    frame = model.filter(pd.DataFrame(new, index=dates)).to_frame()
    assert frame.index.equals(dates)
    assert "two conditional densities" in str(model.summary())


@pytest.mark.slow
def test_fewer_nodes():
    X, Z, new, truth = data()
    few = km.KernelBayesFilter(**DENSE, max_active=40).fit(X, Z)
    assert len(few.points_) == 40
    assert np.mean((few.predict(new) - truth) ** 2) < 0.3 * truth.var()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m, X, Z: m.tune(X, Z), "tune needs inference='kbr'"),
        (lambda m, X, Z: m.with_reg(0.1), "with_reg needs inference='kbr'"),
        (lambda m, X, Z: m.filter(X, supervision=(X, Z, 1.0)), "supervision needs inference='kbr'"),
        (lambda m, X, Z: m.set_params(inference="mcmc").fit(X, Z), "inference is 'mcmc'"),
    ],
)
def test_refused(model, ask, message):
    from sklearn.base import clone

    X, Z, *_ = data()
    target = clone(model) if "mcmc" in message else model
    with pytest.raises(ValueError, match=message):
        ask(target, X, Z)


@pytest.mark.slow
def test_nearer_to_kalman_than_the_kernel_rule():
    """A damped rotation of which one noisy column is seen: less error, filtered and smoothed."""
    turn = np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
    law = dense.Linear(0.95 * turn, 0.1 * np.eye(2), np.array([[1.0, 0.3]]), np.array([[0.3]]))
    rng = np.random.default_rng(7)
    (X, Z), (new, truth) = law.simulate(300, rng), law.simulate(300, rng)
    filtered, smoothed, *_ = law.kalman(new)
    models = [km.KernelBayesFilter(**of).fit(X, Z) for of in (DENSE, {"inference": "kbr"})]
    for verb, best in (("filter", filtered), ("smooth", smoothed)):
        excess = [
            np.mean((getattr(model, verb)(new).mean() - truth) ** 2) - np.mean((best - truth) ** 2)
            for model in models
        ]
        assert 0 < excess[0] < 0.7 * excess[1]


# ------------------------------------------------------------ laws whose width varies


def fan(n: int, seed: int, varies: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """y = sin z + s(z) ε, s = e^z or 1."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1.5, 1.5, (n, 1))
    return Z, np.sin(Z) + (np.exp(Z) if varies else 1.0) * rng.standard_normal((n, 1))


@pytest.fixture(scope="module")
def law() -> StateLaw:
    return StateLaw.of(*fan(400, 0))


@pytest.mark.slow
def test_width_is_learned_where_it_varies(law):
    Z = np.array([[-1.0], [0.0], [1.0]])
    middle, log_size = law.standard(Z), law.standard.log_size(Z)
    assert_allclose(middle[:2], np.sin(Z[:2]), atol=0.4)  # beyond, the noise is e^z
    assert_allclose(log_size - log_size[1], Z, atol=0.3)
    assert StateLaw.of(*fan(200, 1, varies=False)).standard.size is None


def test_law_of_standardised_values_is_a_density(law):
    Z = np.array([[-1.0], [1.0]])
    y = np.linspace(-30.0, 30.0, 6001)[:, None]
    p = np.exp(law.at(Z).log_density(y))
    assert_allclose(p.sum(axis=1) * 0.01, 1.0, atol=5e-3)
    spread = np.sqrt((p * (y[:, 0] - (p @ y) * 0.01) ** 2).sum(axis=1) * 0.01)
    assert_allclose(spread, np.exp(Z[:, 0]), rtol=0.25)


def test_pairs_draws_and_tables_are_of_one_law(law):
    Z, Y = fan(300, 2)
    laws = law.at(Z)
    assert_allclose(laws.log_density_of_pairs(Y), np.diag(laws.log_density(Y)), atol=2e-3)
    scaled = (laws.sample(np.random.default_rng(0)) - np.sin(Z)) / np.exp(Z)
    assert abs(scaled.mean()) < 0.2
    assert 0.8 < scaled.std() < 1.25


@pytest.mark.slow
def test_nearer_to_the_truth_than_one_bandwidth(law):
    Z, Y = fan(500, 3)
    truth = -0.5 * (((Y - np.sin(Z)) / np.exp(Z)) ** 2 + np.log(2 * np.pi)) - Z
    plain = km.ConditionalDensity(location=True).fit(*fan(400, 0)).score(Z, Y)
    ours = law.at(Z).log_density_of_pairs(Y).mean()
    assert truth.mean() - ours < 0.7 * (truth.mean() - plain)


def test_densities_of_rows_of_its_own():
    """In single precision; rows out of reach of every point count as nothing, which they are."""
    X, Z, new, states = data()
    laws = km.ConditionalDensity(location=True).fit(Z[:60], X[:60]).at(states[:4])
    Y = np.concatenate([new[:6], [[50.0, 0.0]]])
    found = laws.log_density_each(np.broadcast_to(Y, (4, 7, 2)))
    m, by = laws.embedding.normalised(), laws.drawn
    shifts = laws.move.shift + (1 - by) * m.mean()
    K = np.stack([m.kernel.density(m.points * by, Y - shift) for shift in shifts])
    q = np.maximum(np.einsum("bn,bnk->bk", m.weights, K), 0.0) / laws.whole()[:, None]
    assert_allclose(found, laws.wide.log_mixed(q, Y - shifts[:, None]), rtol=0, atol=3e-6)


def test_densities_that_single_precision_does_not_hold(rng):
    X, Y = rng.normal(size=(40, 2)), 1e-12 * rng.normal(size=(40, 6))
    model = km.ConditionalDensity(km.Gaussian(1.0), 3e-13, 0.1, location=False)
    laws = model.fit(X, Y).fit_.laws(X[:3])
    found = laws.log_density_each(np.broadcast_to(Y[:5], (3, 5, 6)))
    assert found.max() > 100
    assert_allclose(found, laws.log_density(Y[:5]), rtol=0, atol=0.02)


@pytest.mark.slow
def test_volatility_is_saved_with_its_width(tmp_path):
    Z, X = volatility(150, 0.9, 0.5, 0)
    model = km.KernelBayesFilter(**DENSE).fit(X, Z)
    assert model.machine_.standard.size is not None
    model.save(tmp_path / "filter.km")
    again = km.load(tmp_path / "filter.km")
    assert_allclose(again.filter(X[:9]).mean(), model.filter(X[:9]).mean(), atol=1e-12)


# ------------------------------------------------------------ normal laws, sparse chains


def test_normal_law_is_scipys():
    E = np.random.default_rng(0).standard_normal((30, 2)) @ np.array([[1.0, 0.5], [0.0, 2.0]])
    law = NormalErrors.of(E)
    expected = multivariate_normal(np.zeros(2), E.T @ E / 30).logpdf(E)
    assert_allclose(law.log_density_each(E), expected, atol=1e-9)
    assert_allclose(law.log_density_each(E.reshape(5, 6, 2)).ravel(), expected, atol=1e-9)
    draws = law.sample(20_000, np.random.default_rng(1))
    assert_allclose(np.cov(draws.T), E.T @ E / 30, rtol=0.1)


def test_standard_is_a_gaussian_process_with_its_doubt():
    """v is the variance of scikit-learn's over that of the noise, in and beyond the data."""
    rng = np.random.default_rng(0)
    Z = rng.uniform(-3, 3, (80, 1))
    standard = StateLaw.of(Z, np.sin(2 * Z) + 0.2 * rng.standard_normal((80, 1))).standard
    where, at = standard.where, np.linspace(-4, 4, 9)[:, None]
    Y = np.sin(2 * Z)  # any other y has the same v
    slope, scale = where.line.factor[0] ** 2, where.features.kernel_.lengthscale
    line = kernels.ConstantKernel(slope, "fixed") * kernels.DotProduct(0.0, "fixed")
    own = kernels.RBF(scale) + line + kernels.ConstantKernel(1e5)  # a free intercept
    noise = 80 * where.reg
    shift = where.line.mean
    gp = GaussianProcessRegressor(own, alpha=noise, optimizer=None).fit(Z - shift, Y)
    _, spread = gp.predict(at - shift, return_std=True)
    found = standard._unknown(at)[:, 0] * noise
    assert_allclose(found, spread**2, rtol=1e-2)  # the kernel is that of a few landmarks


def test_a_line_beside_a_curve_has_a_doubt_of_its_own():
    """As wide as the textbook's prediction of a regression line, whatever the curve's is."""
    rng = np.random.default_rng(0)
    Z, noise = rng.uniform(-3, 3, (80, 1)), rng.standard_normal((80, 2))
    Y = np.hstack([np.sin(3 * Z) + 0.02 * noise[:, :1], Z + noise[:, 1:]])
    law, at = StateLaw.of(Z, Y), np.linspace(-4, 4, 9)[:, None]
    assert law.standard.where.straight.tolist() == [False, True]
    off = Z - Z.mean()
    expected = 1 / 80 + ((at - Z.mean()) ** 2 / (off**2).sum())[:, 0]
    assert_allclose(law.standard._unknown(at)[:, 1], expected, rtol=0.05)
    left = Y[:, 1] - np.polynomial.Polynomial.fit(Z[:, 0], Y[:, 1], 1)(Z[:, 0])
    size = np.exp(law.at(at).log_size[:, 1]) * np.linalg.norm(law.density.root[1])
    assert_allclose(size, left.std() * np.sqrt(1 + expected), rtol=0.03)


def test_states_that_know_no_better_stay():
    """A line of few rows is drawn to no change, not to the mean; the constant step is a step."""
    rng = np.random.default_rng(0)
    Z = np.cumsum(rng.standard_normal((30, 1)), axis=0)
    far = np.array([[Z.max() + 10.0], [Z.min() - 10.0]])
    plain, law = (StateLaw.of(Z[:-1], Z[1:], moving) for moving in (False, True))
    off = [np.abs(of.at(far).middle - far).max() for of in (plain, law)]
    assert off[1] < 0.8 * off[0]
    steps = np.arange(40.0)[:, None]
    assert_allclose(StateLaw.of(steps[:-1], steps[1:], True).at(steps).middle, steps + 1, atol=0.01)


@pytest.mark.slow
def test_counts_are_not_seen_through_a_comb():
    """As near as a particle filter that knows the law: counts are no values of their own."""
    rng = np.random.default_rng(117)
    Z = np.zeros((700, 1))
    for t in range(1, 700):
        Z[t] = 0.9 * Z[t - 1] + 0.5 * rng.standard_normal()
    X = rng.poisson(np.exp(1.0 + Z)).astype(float)
    model = km.KernelBayesFilter(**DENSE).fit(X[:400], Z[:400])
    P, best = np.zeros(2_000), []
    for x in X[400:, 0]:
        P = 0.9 * P + 0.5 * rng.standard_normal(len(P))
        w = np.exp(x * (1.0 + P) - np.exp(1.0 + P))
        P = rng.choice(P, len(P), p=w / w.sum())
        best.append(P.mean())
    off = np.mean((np.array(best) - Z[400:, 0]) ** 2)
    assert np.mean((model.predict(X[400:]) - Z[400:]) ** 2) < 1.1 * off


def test_sparse_chain_is_the_dense_one():
    points = np.linspace(0, 1, 60)
    K = chain_of(-0.5 * ((points[:, None] - points) / 0.005) ** 2, np.ones(60))
    sparse, v = thinned(K), np.random.default_rng(0).random(60)
    assert len(sparse.data) < 0.25 * 60**2
    assert_allclose(v @ sparse, v @ K, atol=1e-7)
    assert_allclose(sparse @ v, K @ v, atol=1e-7)
    assert thinned(np.full((4, 4), 0.25)).shape == (4, 4)


def test_nodes_of_narrow_laws_are_draws(tmp_path):
    """Of two columns; most transitions between them are next to nothing."""
    rng = np.random.default_rng(0)
    Z = rng.uniform(-1, 1, (80, 2))
    law = StateLaw.of(Z, Z[:, ::-1] + 0.03 * rng.standard_normal(Z.shape))
    points, sizes = nodes_of(known(law, law, Z, Z), None, False, rng)
    assert len(points) > 1_000
    assert sizes is None
    assert (np.abs(points) <= 1.5).all()
    chain = thinned(chain_of(law.at(points[:500]).log_density(points[:500]), np.ones(500)))
    assert isinstance(chain, Sparse)
    chain.save(tmp_path / "chain.km")
    assert_array_equal(km.load(tmp_path / "chain.km") @ np.arange(500.0), chain @ np.arange(500.0))


def test_nodes_of_wide_laws_of_the_plane_are_cells():
    """Sums over them are next to integrals, and no two share a coordinate."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((200, 2))
    law = StateLaw.of(Z, 0.7 * Z + 0.4 * rng.standard_normal(Z.shape))
    points, sizes = nodes_of(known(law, law, Z, Z), 500, False, rng)
    assert_array_equal(sizes, sizes[0])  # a square, which its sides fill
    near = np.partition(np.linalg.norm(points[:, None] - points, axis=2), 1)[:, 1]
    assert_allclose(np.median(near), sizes[0] ** 0.5)
    assert 250 < len(points) <= 500
    assert all(len(np.unique(column.round(9))) == len(points) for column in points.T)
    inside = points[np.linalg.norm(points, axis=1) < 0.5]
    laws = law.at(inside)
    assert_allclose(chain_of(laws.log_density(points), sizes) @ points, laws.middle, atol=0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("short_searches")
def test_narrow_laws_of_the_plane_have_more_nodes_unasked():
    """A pendulum: so few draws as one column needs would be too far apart."""
    rng, z = np.random.default_rng(0), np.array([1.0, 0.0])
    Z = np.empty((80, 2))
    for t in range(80):
        faster = 0.97 * z[1] - 0.98 * np.sin(z[0]) + 0.1 * rng.standard_normal()
        Z[t] = z = np.array([z[0] + 0.1 * faster + 0.01 * rng.standard_normal(), faster])
    X = np.sin(Z[:, :1]) + 0.1 * rng.standard_normal((80, 1))
    model = km.KernelBayesFilter().fit(X, Z)
    assert len(model.machine_.points) > 1_000
    dense = km.KernelBayesFilter(**DENSE).fit(X, Z)
    assert_array_equal(model.predict(X[:20]), dense.predict(X[:20]))


def test_distribution_functions_over_cells_go_up_over_a_fifth_of_one(model, tmp_path):
    """Those of normal laws around the nodes; means and a file's answers stay as they are."""
    found, machine = model.filter(data()[2]), model.machine_
    width = np.array(machine.blur)
    near = np.partition(np.linalg.norm(machine.points[:, None] - machine.points, axis=2), 1)[:, 1]
    assert 0.1 * np.median(near) < width.min() <= width.max() < 0.3 * np.median(near)
    for end, level in zip(found.interval(0.9), (0.05, 0.95), strict=True):
        far = (end[:, None] - machine.points) / width
        reached = np.einsum("mn,mnj->mj", found.embedding.weights, norm.cdf(far))
        assert_allclose(reached, level, atol=2e-3)
    belief = model.start().update(data()[2][0])
    assert_allclose(belief.interval(0.9), np.array(found.interval(0.9))[:, 0], atol=1e-9)
    model.save(tmp_path / "model.km")
    again = km.load(tmp_path / "model.km").filter(data()[2])
    assert_array_equal(again.interval(0.9), found.interval(0.9))


@pytest.mark.parametrize("kernel", ["linear", km.Delta(), lambda A, B: A @ B.T + 1.0])
def test_intervals_over_cells_need_no_kernel_that_smooths(model, kernel):
    X, Z, seen, _ = data()
    other = km.KernelBayesFilter(**DENSE, kernel_z=kernel).fit(X, Z)
    found, plain = other.filter(seen[:5]), model.filter(seen[:5])
    assert_allclose(found.interval(0.9), plain.interval(0.9), atol=1e-12)
    assert_allclose(found.quantile(0.3), plain.quantile(0.3), atol=1e-12)


def test_directions_stand_beside_states_that_go_round():
    """The mean is then nearer, where how far off a state is tells nothing; a line needs none."""
    data = km.datasets.make_rotation(200, "oscillation", random_state=0)
    Z, fresh = data.Z, km.datasets.make_rotation(500, "oscillation", random_state=1).Z
    plain, law = (StateLaw.of(Z[:-1], Z[1:], turning) for turning in (False, True))
    assert law.turning
    off = [
        np.mean((of.at(fresh).middle - data.model.transition(fresh)) ** 2) for of in (plain, law)
    ]
    assert off[1] < 0.4 * off[0]
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((200, 2))
    law = StateLaw.of(Z, 0.7 * Z[:, ::-1] + 0.4 * rng.standard_normal(Z.shape), True)
    assert not law.turning


def test_evidence_is_the_density_of_a_gaussian_process():
    """Up to a constant, its variance profiled out; and its slopes are finite differences."""
    rng = np.random.default_rng(0)
    Theta, y, reg = rng.standard_normal((20, 3)), rng.standard_normal((20, 1)), 0.3
    Theta, y = Theta - Theta.mean(axis=0), y - y.mean(axis=0)
    C = np.eye(20) + Theta @ Theta.T / (20 * reg)
    size = (y.T @ np.linalg.solve(C, y)).item() / 20
    expected = -multivariate_normal(np.zeros(20), size * C).logpdf(y[:, 0]) / 20
    value, on_Theta, on_reg = evidence_loss(Theta, y, reg)
    assert_allclose(value + 0.5 + 0.5 * np.log(2 * np.pi), expected, atol=1e-12)
    way, h = rng.standard_normal((20, 3)), 1e-6
    slope = evidence_loss(Theta + h * way, y, reg)[0] - evidence_loss(Theta - h * way, y, reg)[0]
    assert_allclose((on_Theta * way).sum(), slope / (2 * h), rtol=1e-6)
    slope = evidence_loss(Theta, y, reg + h)[0] - evidence_loss(Theta, y, reg - h)[0]
    assert_allclose(on_reg, slope / (2 * h), rtol=1e-6)


def test_evidence_with_weights_is_that_of_unequal_noise():
    """Up to what scales do not change: noise of variance σ²/w, and a mean that is not known."""
    rng = np.random.default_rng(0)
    Theta, y = rng.standard_normal((20, 3)), rng.standard_normal((20, 1))
    w = rng.uniform(0.2, 2, 20)
    w /= w.mean()

    def expected(reg: float) -> float:
        C = np.diag(1 / w) + Theta @ Theta.T / (20 * reg)
        inverse = np.linalg.inv(C)
        middle = (inverse.sum(axis=0) @ y).item() / inverse.sum()
        square = ((y - middle).T @ inverse @ (y - middle)).item()
        volume = np.linalg.slogdet(C)[1] + np.log(inverse.sum())
        return 0.5 * np.log(square) + volume / 40

    for reg in (0.3, 0.01):
        by = evidence_loss(Theta, y, reg, w)[0] - evidence_loss(Theta, y, 1.0, w)[0]
        assert_allclose(by, expected(reg) - expected(1.0), atol=1e-10)


def test_nodes_reach_beyond_the_states():
    """A state that leaves its training range is followed, as far as nodes reach."""
    rng = np.random.default_rng(0)
    Z = np.zeros((200, 1))
    for t in range(1, 200):
        Z[t] = 0.8 * Z[t - 1] + 0.4 * rng.standard_normal()
    X = Z + 0.1 * rng.standard_normal(Z.shape)
    model = km.KernelBayesFilter(**DENSE).fit(X, Z)
    top = Z.max() + 0.2 * np.ptp(Z)
    found = model.predict(np.linspace(Z.max(), top, 12)[:, None])
    assert abs(found[-1] - top) < 0.1
    assert_allclose(model.start().mean(), Z.mean(axis=0), atol=0.1)


def test_a_walk_is_followed_far_beyond_its_training_range():
    """Nodes are wider apart there, and each counts for the size of its cell."""
    rng = np.random.default_rng(2)
    Z = np.cumsum(rng.standard_normal((300, 1)), axis=0)
    X = Z + rng.standard_normal(Z.shape)
    model = km.KernelBayesFilter(**DENSE, max_active=500).fit(X, Z)
    low, high = Z.min(), Z.max()
    far = np.linspace(high, high + 1.5 * (high - low), 60)
    walk = far + rng.standard_normal(60)
    found = model.filter(walk[:, None])
    assert np.mean((found.mean()[:, 0] - far) ** 2) < 1.0  # less than that of what is seen
    assert found.interval(0.9).upper[-1] > far[-1]
    law = StateLaw.of(Z[:-1], Z[1:])
    points, sizes = nodes_of(known(law, law, X, Z), 400, False, rng)
    assert np.sum((points >= low) & (points <= high)) >= 199
    assert_allclose(sizes[5:60], sizes[5])
    assert sizes[5] > 3 * sizes[200]
    assert_allclose(sizes.sum(), points[-1] - points[0], rtol=0.02)


def test_a_sensor_finer_than_the_dynamics_has_finer_nodes():
    """Else observations would leave one node, and intervals have no width."""
    rng = np.random.default_rng(3)
    Z = np.zeros((350, 2))
    for t in range(1, 350):
        Z[t] = 0.8 * Z[t - 1] + 0.6 * rng.standard_normal(2)
    X = Z + 0.1 * rng.standard_normal(Z.shape)
    model = km.KernelBayesFilter(**DENSE).fit(X[:200], Z[:200])
    coarse = km.KernelBayesFilter(**DENSE, max_active=300).fit(X[:200], Z[:200])
    inside = (np.abs(Z[200:]) < np.abs(Z[:200]).max(axis=0)).all(axis=1)
    off, narrow = [], []
    for fitted in (model, coarse):
        found = quietly(fitted.filter, X[200:])
        off.append(np.mean((found.mean() - Z[200:])[inside] ** 2) / 0.1**2)
        nodes = found.embedding.interval(0.9)
        narrow.append(np.mean(np.ptp(nodes, axis=0)[inside] < 1e-9))
        assert (np.ptp(found.interval(0.9), axis=0) > 1e-3).all()  # cells have a width
    assert len(model.points_) > len(coarse.points_)
    assert off[0] < min(1.2, off[1])
    assert narrow[0] < 0.01 < narrow[1]
    # states somewhat beyond those learned from are seen as well
    edge = np.abs(Z[:200]).max(axis=0) + 0.3
    beyond = quietly(model.filter, np.array([[0.0, 0.0], [edge[0], 0.0]]))
    assert not beyond.collapsed.any()
    assert_allclose(beyond.mean()[1], [edge[0], 0.0], atol=0.15)


def test_a_fit_by_densities_has_nothing_of_the_rule_before_it():
    X, Z = np.random.default_rng(0).normal(size=(2, 12))
    model = km.KernelBayesFilter(reg=0.1).fit(X[:, None], Z)
    model.set_params(reg=None, inference="densities").fit(X[:, None], Z)
    assert not hasattr(model, "reg_")
    assert not hasattr(model, "features_x_")


def test_two_rows_are_too_few():
    with pytest.raises(ValueError, match="Z has 1 transition .* needs two"):
        km.KernelBayesFilter(inference="densities").fit([[1.0], [2.0]], [1.0, 2.0])


def test_a_constant_state_is_named():
    X, Z, *_ = data()
    Z = np.column_stack([Z[:, 0], np.ones(len(Z))])
    with pytest.raises(ValueError, match="column 1 of Z is constant"):
        km.KernelBayesFilter(**DENSE).fit(X, Z)


class TestASensorThatIsDead:
    """A constant column of observations once had the rule taken, whose error was twice as large."""

    X, Z, NEW, LATER = data()

    def with_dead(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([X[:, 0], np.full(len(X), 0.1), X[:, 1]])

    def test_answers_are_those_without_it(self, model):
        other = km.KernelBayesFilter(**DENSE).fit(self.with_dead(self.X), self.Z)
        seen = self.with_dead(with_gaps(self.NEW))
        for verb in ("filter", "smooth"):
            told = getattr(model, verb)(with_gaps(self.NEW)).mean()
            assert_allclose(getattr(other, verb)(seen).mean(), told, atol=1e-12)
        ahead = other.forecast(seen, 3).observations.mean()
        assert_allclose(ahead[:, 1], 0.1, rtol=1e-12)
        expected = model.forecast(with_gaps(self.NEW), 3).observations.mean()
        assert_allclose(ahead[:, [0, 2]], expected, atol=1e-12)

    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
    def test_densities_are_compared(self):
        found = km.KernelBayesFilter().fit(self.with_dead(self.X), self.Z)
        expected = km.KernelBayesFilter().fit(self.X, self.Z).held_out_["densities"]
        assert found.held_out_["densities"] == pytest.approx(expected, rel=1e-9)

    @pytest.mark.usefixtures("short_searches")
    def test_dead_in_a_half_alone(self):
        X = self.X.copy()
        X[:60, 1] = 0.1
        model = km.KernelBayesFilter().fit(X, self.Z)
        assert np.isfinite(model.predict(self.NEW)).all()

    def test_all_are_dead(self):
        with pytest.raises(ValueError, match="X is constant"):
            km.KernelBayesFilter(**DENSE).fit(np.ones_like(self.X), self.Z)


def test_evidence_of_what_is_explained_to_the_last_digit():
    theta = np.linspace(-1e8, 1e8, 9)[:, None]
    assert np.isfinite(evidence_loss(theta, theta / 3, 1e-12)[0])


def test_laws_of_observations_are_of_many_draws_at_each_node():
    """Of one draw each their means were off by a tenth of a deviation, other ones for −x."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(200, 1))
    X = Z + 0.5 * rng.normal(size=Z.shape)
    model = km.KernelBayesFilter(**DENSE).fit(X, Z)
    ahead = model.forecast(X[:30], 2)
    laws = StateLaw(model.machine_.observing, model.machine_.standard).at(
        model.machine_._inner(model.points_)
    )
    means = laws.middle * model.machine_.units_x + model.machine_.middle_x
    exact = ahead.embedding.weights @ means
    assert_allclose(ahead.observations.mean(), exact, atol=0.03)


class TestErrorsThatLast:
    @staticmethod
    def drawn(lasting: float, n: int = 400, seed: int = 812900) -> tuple[np.ndarray, np.ndarray]:
        """A state that stays, and what is seen of it, errors .8 wide that last or do not."""
        rng = np.random.default_rng(seed)
        Z, E = np.zeros((n, 1)), np.zeros((n, 1))
        for t in range(1, n):
            Z[t] = 0.95 * Z[t - 1] + 0.31 * rng.standard_normal()
            E[t] = lasting * E[t - 1] + 0.8 * (1 - lasting**2) ** 0.5 * rng.standard_normal()
        return Z + E, Z

    def test_how_long_they_last_is_their_correlation(self):
        """Of pairs that follow each other, so that a column that only grows has 1 and no more."""
        walks = np.cumsum(np.random.default_rng(0).standard_normal((50, 3)), axis=0)
        pairs = np.arange(49), np.arange(1, 50)
        expected = [np.corrcoef(walk[:-1], walk[1:])[0, 1] for walk in walks.T]
        assert correlated(walks, *pairs) == pytest.approx(np.mean(expected), rel=1e-12)
        assert correlated(np.arange(50.0)[:, None], *pairs) <= 1
        assert correlated(np.ones((50, 1)), *pairs) == 0

    def test_new_errors_count_in_full(self):
        for seed in range(812900, 812902):
            X, Z = self.drawn(0.0, 120, seed)
            assert Laws(X, Z, (np.arange(119), np.arange(1, 120))).lasting == 0
        assert km.KernelBayesFilter(**DENSE).fit(X, Z).machine_.power == 1

    @pytest.mark.parametrize("c", [0.3, 0.9])
    def test_a_sum_that_forgets(self, c):
        """Its variance of new errors over that of lasting ones, by sums."""
        r, kept = c**0.4, c**0.6  # kr = c
        ages = np.arange(2000)
        share = kept**ages
        lasting = share @ r ** np.abs(ages[:, None] - ages) @ share
        assert share_of_new(c) == pytest.approx(share @ share / lasting, rel=1e-9)

    def test_beliefs_are_wider_and_nearer(self):
        X, Z = self.drawn(0.9)
        model = km.KernelBayesFilter(**DENSE).fit(X[:250], Z[:250])
        assert 0.05 < model.machine_.power < 0.5
        assert "an observation counts as" in str(model.summary())
        found, smooth = model.filter(X[250:]), model.smooth(X[250:])
        model.machine_.power = 1.0
        before, other = model.filter(X[250:]), model.smooth(X[250:])
        held, least = (
            ((low <= Z[250:]) & (Z[250:] <= high)).mean()
            for low, high in (found.interval(0.9), before.interval(0.9))
        )
        assert held > least + 0.1
        errors = [((law.mean() - Z[250:]) ** 2).mean() for law in (smooth, other)]
        assert errors[0] < errors[1]
