"""Experiments of Fukumizu 2013 and Xu 2022: each in small, and what cannot fail by luck."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from scipy import integrate, stats
from scipy.spatial.distance import cdist, pdist
from sklearn.neighbors import KernelDensity
from statsmodels.nonparametric.kernel_density import KDEMultivariate

import kernelmean as km
from papers import reproduce

PAPERS = Path(__file__).parents[2] / "papers"
gaussian, kde, settings, tables, figure2, figure3, sanity = (
    reproduce.import_from(PAPERS, f"fukumizu2013.{script}")
    for script in ("gaussian", "kde", "settings", "tables", "figure2", "figure3", "sanity")
)
xu = reproduce.import_from(PAPERS, "xu2022.figure1")

SMALL = {
    "fukumizu2013-figure2": [{"d": 2, "n": 20, "tests": 5}],
    "fukumizu2013-figure3": [{"d": 2, "n": 20}, {"d": 2, "n": 40}],
    "fukumizu2013-sanity": [{"model": "table", "n": 40}, {"model": "line", "n": 40}],
    "xu2022-figure1": [{"d": 2, "n": 20, "tests": 5}, {"d": 3, "n": 20, "tests": 5}],
}
TUNED_ON = {*range(1000, 1008), *range(3000, 3008)}  # seeds by which defaults were chosen


@cache
def rows_of(name: str) -> pd.DataFrame:
    return pd.concat([run_small(name, seed) for seed in (1, 2)])


def run_small(name: str, seed: int) -> pd.DataFrame:
    run = reproduce.load_registry(PAPERS)[name].run
    return pd.DataFrame(
        {"seed": seed, **setting, **row} for setting in SMALL[name] for row in run(seed, **setting)
    )


def small_sample(d: int, n: int, seed: int = 0) -> tuple:
    rng = np.random.default_rng(seed)
    model = gaussian.GaussianModel.draw(d, rng)
    return model, *model.pairs(n, rng), model.prior(n, rng), model.observations(4, rng)


def grams(X, Y) -> np.ndarray:
    """Gaussian kernel with the median lengthscale of X."""
    return np.exp(-cdist(X, Y, "sqeuclidean") / (2 * np.median(pdist(X)) ** 2))


# ---------------------------------------------------------------- every experiment in small
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("seeds", [(1,), (1, 2)])
def test_every_experiment_gives_a_table_and_a_picture(name, seeds):
    experiment, rows = reproduce.load_registry(PAPERS)[name], rows_of(name)
    rows = rows[rows.seed.isin(seeds)]
    table = experiment.summary(rows)
    assert "published" in table
    error = table["error" if "error" in table else "mse"]
    assert np.isfinite(error).all()
    assert (error >= 0).all()
    assert (table.runs == len(seeds)).all()
    assert len(reproduce.png(experiment.figure(rows))) > 5000


@pytest.mark.parametrize("name", SMALL)
def test_a_seed_gives_the_same_numbers_again(name):
    kept = rows_of(name)
    first, second = kept[kept.seed == 2], run_small(name, 2)
    assert_frame_equal(*(f.drop(columns="seconds", errors="ignore") for f in (first, second)))


@pytest.mark.parametrize("name", SMALL)
def test_no_seed_is_one_that_defaults_were_chosen_by(name):
    assert not TUNED_ON & set(reproduce.load_registry(PAPERS)[name].seeds(False, 300))


def test_every_method_is_in_the_table():
    assert set(figure2.summary(rows_of("fukumizu2013-figure2")).method) == set(figure2.METHODS)
    assert set(figure3.summary(rows_of("fukumizu2013-figure3")).method) == set(figure3.METHODS)
    assert set(xu.summary(rows_of("xu2022-figure1")).method) == set(xu.METHODS)


# ---------------------------------------------------------------- the Gaussian model
def test_the_likelihood_and_the_marginal_give_back_the_joint_law():
    model, *_ = small_sample(3, 4)
    V_zz, V_xz, V_xx = model.blocks
    H, R = model.likelihood
    np.testing.assert_allclose(H @ V_zz, V_xz, atol=1e-12)
    np.testing.assert_allclose(H @ V_zz @ H.T + R, V_xx, atol=1e-12)


@pytest.mark.parametrize("x", [-2.0, 0.3, 4.0])
def test_the_posterior_is_the_integral_over_prior_and_likelihood(x):
    model, *_ = small_sample(1, 4)
    V_zz, V_xz, V_xx = (block[0, 0] for block in model.blocks)
    joint = stats.multivariate_normal([0, 1], [[V_zz, V_xz], [V_xz, V_xx]])

    def moment(power: int) -> float:
        def density(z: float) -> float:
            likelihood = joint.pdf([z, x]) / stats.norm.pdf(z, scale=np.sqrt(V_zz))
            return z**power * likelihood * stats.norm.pdf(z, scale=np.sqrt(V_zz / 2))

        return integrate.quad(density, -30, 30, points=[0], epsabs=1e-14)[0]

    mean = moment(1) / moment(0)
    assert model.posterior_mean(np.array([[x]]))[0, 0] == pytest.approx(mean, abs=1e-8)
    variance = moment(2) / moment(0) - mean**2
    assert model.posterior[1][0, 0] == pytest.approx(variance, abs=1e-8)


def test_the_true_ratio_is_that_of_the_densities():
    model, _, Z, *_ = small_sample(3, 5)
    V = model.blocks[0]
    expected = stats.multivariate_normal(cov=V / 2).pdf(Z) / stats.multivariate_normal(cov=V).pdf(Z)
    np.testing.assert_allclose(model.ratio(Z), expected)


def test_squared_error_is_of_the_whole_vector():
    assert gaussian.squared_error(np.array([[3.0, 4.0], [0.0, 0.0]]), np.zeros((2, 2))) == 12.5


# ---------------------------------------------------------------- KDE + importance weighting
@pytest.mark.parametrize("h", [0.5, 2.0, 20.0])
def test_kde_with_importance_weighting_is_the_double_loop(h):
    _, X, Z, prior, observed = small_sample(2, 5)

    def kernel(a, b) -> float:
        return float(np.prod([stats.norm.pdf(s, t, h) for s, t in zip(a, b, strict=True)]))

    expected = []
    for y in observed:
        conditional = []
        for u in prior:
            joint = sum(kernel(u, z) * kernel(y, x) for z, x in zip(Z, X, strict=True))
            conditional.append(joint / sum(kernel(u, z) for z in Z))
        expected.append(
            sum(c * u for c, u in zip(conditional, prior, strict=True)) / sum(conditional)
        )
    found = kde.posterior_mean(X, Z, prior, observed, h)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_kde_is_that_of_scikit_learn():
    _, X, Z, prior, observed = small_sample(2, 30)
    joint = KernelDensity(bandwidth=1.3, rtol=0, atol=0).fit(np.hstack([Z, X]))
    marginal = KernelDensity(bandwidth=1.3, rtol=0, atol=0).fit(Z)
    means = kde.posterior_mean(X, Z, prior, observed, 1.3)
    for y, found in zip(observed, means, strict=True):
        pairs = np.hstack([prior, np.tile(y, (len(prior), 1))])
        weights = np.exp(joint.score_samples(pairs) - marginal.score_samples(prior))
        np.testing.assert_allclose(found, weights @ prior / weights.sum(), rtol=1e-9)


def test_kde_does_not_underflow():
    _, X, Z, prior, observed = small_sample(32, 20)
    means = kde.posterior_mean(X, Z, prior, observed, 0.01)
    assert (means >= prior.min(axis=0)).all()
    assert (means <= prior.max(axis=0)).all()


@pytest.mark.parametrize("h", [0.4, 2.0, 6.0])
def test_least_squares_cross_validation_is_that_of_statsmodels(h):
    points = np.random.default_rng(0).standard_normal((25, 3))
    other = KDEMultivariate(points, "ccc", bw=[h] * 3, rng=np.random.default_rng(0))
    assert kde.least_squares_score(points, h) == pytest.approx(other.imse(np.full(3, h)))


def test_the_bandwidth_chosen_has_the_least_score():
    points, grid = np.random.default_rng(0).standard_normal((25, 3)), np.array([0.1, 0.7, 5.0])
    scores = [kde.least_squares_score(points, h) for h in grid]
    assert kde.choose_bandwidth(points, grid) == grid[np.argmin(scores)]


# ---------------------------------------------------------------- kernel Bayes' rule
def test_the_literal_settings_are_proposition_3_3():
    _, X, Z, prior, observed = small_sample(2, 25)
    n, eps, delta = 25, 0.01 / 25, 0.02 / 25
    mu = np.linalg.solve(grams(Z, Z) / n + eps * np.eye(n), grams(Z, prior).mean(axis=1))
    LG = mu[:, None] * grams(X, X)
    k = mu[:, None] * grams(X, observed)
    expected = (LG @ np.linalg.solve(LG @ LG + delta * np.eye(n), k)).T
    rule = settings.kbr(km.Exact(), **settings.printed_literally(n)).fit(X, Z)
    found = rule.weights(observed, prior)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_the_fold_losses_are_those_of_the_formula():
    _, X, Z, *_ = small_sample(2, 20)
    factor, n = 1.5, 20
    scales = factor * np.median(pdist(X)), factor * np.median(pdist(Z)), np.median(pdist(Z))

    def gram(A, B, scale) -> np.ndarray:
        return np.exp(-cdist(A, B, "sqeuclidean") / (2 * scale**2))

    expected = np.zeros(2)
    for a in range(10):
        rest, held = np.arange(n) % 10 != a, np.arange(n) % 10 == a
        m, eps = rest.sum(), 0.01 / rest.sum()
        K = gram(Z[rest], Z[rest], scales[1])
        beta = np.linalg.solve(K + m * eps * np.eye(m), K.mean(axis=1))
        LG = beta[:, None] * gram(X[rest], X[rest], scales[0])
        k = beta[:, None] * gram(X[rest], X[held], scales[0])
        w = (LG @ np.linalg.solve(LG @ LG + 2 * eps * np.eye(m), k)).mean(axis=1)
        signed = np.where(held, -1 / held.sum(), 0.0)
        signed[rest] = w
        expected += [signed @ gram(Z, Z, scale) @ signed for scale in scales[1:]]
    np.testing.assert_allclose(figure2.fold_losses(factor, X, Z), expected, rtol=1e-4)


def test_iw_and_original_are_the_dense_formulas_of_xu():
    model, X, Z, prior, observed = small_sample(2, 30)
    found = {name: mean for name, _, mean in xu.estimates(model, X, Z, prior, observed)}
    n = len(X)
    beta = np.linalg.solve(grams(Z, Z) + 0.2 * n * np.eye(n), grams(Z, prior).mean(axis=1))
    for name, D in {"IW": np.maximum(beta, 0), "IW-TrueRatio": model.ratio(Z) / n}.items():
        root = np.sqrt(D)[:, None]
        A = root * grams(X, X) * root.T + 0.2 * np.eye(n)
        expected = (root * np.linalg.solve(A, root * grams(X, observed))).T @ Z
        np.testing.assert_allclose(found[name], expected, atol=1e-4)
    LG = beta[:, None] * grams(X, X)
    w = LG @ np.linalg.solve(LG @ LG + 0.2 * np.eye(n), beta[:, None] * grams(X, observed))
    np.testing.assert_allclose(found["Original"], w.T @ Z, atol=1e-4)


def test_on_a_table_kernel_bayes_rule_is_bayes_rule():
    table = sanity.summary(rows_of("fukumizu2013-sanity"))
    assert (table.error[table.what == "probability, of the table"] < 1e-6).all()


def test_bayes_table_by_hand():
    found = sanity.bayes_table(np.array([[0.5, 0.5, 0], [0.1, 0.9, 0]]), np.array([0.2, 0.8]))
    np.testing.assert_allclose(found, [[10 / 18, 8 / 18], [10 / 82, 72 / 82], [0, 0]])


# ---------------------------------------------------------------- rejection ABC, tables
def test_rejection_accepts_the_nearest_simulations():
    model, *_, observed = small_sample(2, 4)
    truth = model.posterior_mean(observed)
    rows = list(figure3.rejection(model, 40, observed, truth, np.random.default_rng(5)))
    assert [row["share"] for row in rows] == [0.03, 0.1, 0.3]  # 0.01 would accept none
    rng = np.random.default_rng(5)
    Z = model.prior(40, rng)
    distances = np.linalg.norm(observed[:, None] - model.simulate(Z, rng), axis=2)
    for row, accepted in zip(rows, [1, 4, 12], strict=True):
        tolerance = np.sort(distances, axis=1)[:, accepted - 1]
        means = [Z[d <= t].mean(axis=0) for d, t in zip(distances, tolerance, strict=True)]
        assert row["mse"] == pytest.approx(gaussian.squared_error(np.array(means), truth))
        assert row["tolerance"] == pytest.approx(tolerance.mean())


def test_abc_is_compared_at_equal_simulations_and_equal_time():
    ours = "simulate_posterior()"
    columns = ["seed", "d", "n", "method", "share", "mse", "seconds"]
    rows = pd.DataFrame(
        [
            (0, 2, 10, "rejection ABC", 0.1, 5.0, 1.0),
            (0, 2, 10, "rejection ABC", 0.3, 4.0, 1.0),
            (0, 2, 99, "rejection ABC", 0.1, 1.0, 2.0),
            (0, 2, 999, "rejection ABC", 0.1, 0.1, 9.0),
            (0, 2, 10, ours, np.nan, 0.5, 2.5),
            (0, 2, 99, ours, np.nan, 0.2, 9.5),  # slower than ABC ever was
        ],
        columns=columns,
    )
    table = figure3.summary(rows).set_index(["method", "n"])
    assert table.loc[(ours, 10), "ABC mse / mse, equal n"] == 8
    assert table.loc[(ours, 10), "ABC mse / mse, equal time"] == 2
    assert table.loc[(ours, 99), "ABC mse / mse, equal n"] == 5
    assert np.isnan(table.loc[(ours, 99), "ABC mse / mse, equal time"])
    assert table.loc[(figure3.ABC, 10), "accepted"] == 0.3


def test_the_best_bandwidth_is_that_of_the_lowest_mean_error_at_each_d():
    grid = [
        (d, h, seed, mse)
        for d, h, errors in [(2, 1.0, (1, 9)), (2, 2.0, (4, 4)), (4, 1.0, (1, 1)), (4, 2.0, (0, 3))]
        for seed, mse in enumerate(errors)
    ]
    rows = pd.DataFrame(grid, columns=["d", "bandwidth", "seed", "mse"]).assign(method="KDE+IW")
    kept = tables.with_best_bandwidth(rows)
    assert set(zip(kept.d, kept.bandwidth, strict=True)) == {(2, 2.0), (4, 1.0)}
    assert (kept.method == tables.BEST).all()


def test_the_p_value_is_small_where_the_first_is_lower():
    first = pd.Series(np.arange(1.0, 11.0))
    assert tables.lower(first, 2 * first) == pytest.approx(2**-10)
    assert tables.lower(2 * first, first) == 1
    assert np.isnan(tables.lower(first, first))
