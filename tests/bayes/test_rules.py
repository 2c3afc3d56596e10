"""Sum and product rules: on finite sets they are probability tables; elsewhere, dense formulas."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import kernelmean as km

X4, Y3 = np.arange(4.0)[:, None], np.arange(3.0)[:, None]
PRIOR = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.fixture(scope="module")
def pairs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.integers(4, size=500)
    y = (x + rng.choice(3, p=[0.6, 0.3, 0.1], size=500)) % 3
    return x.astype(float)[:, None], y.astype(float)


@pytest.fixture(scope="module")
def table(pairs) -> np.ndarray:
    """P(y | x) by counting."""
    return oracles.conditional_table(oracles.joint_table(pairs[0][:, 0], pairs[1], 4, 3))


@pytest.fixture(scope="module")
def c(pairs) -> km.ConditionalEmbedding:
    return km.ConditionalEmbedding("delta", "delta", reg=1e-10).fit(*pairs)


@pytest.fixture(scope="module")
def prior() -> km.MeanEmbedding:
    return km.MeanEmbedding(X4, PRIOR, "delta")


class TestHandWorked:
    """A coin: P(heads | fair) = 1/2, P(heads | two-headed) = 1; prior 1/2 each."""

    c = km.ConditionalEmbedding("delta", "delta", reg=1e-10).fit([[0], [0], [1], [1]], [0, 1, 1, 1])
    m = km.MeanEmbedding([0, 1], [0.5, 0.5], "delta")

    def test_law_of_total_probability(self):
        assert_allclose(km.sum_rule(self.c, self.m)([0, 1]), [0.25, 0.75], atol=1e-6)

    def test_joint(self):
        pairs = [[0, 0], [0, 1], [1, 0], [1, 1]]
        assert_allclose(km.product_rule(self.c, self.m)(pairs), [0.25, 0.25, 0.0, 0.5], atol=1e-6)


# --------------------------------------------------------------------------------------- sum rule
def test_sum_rule_is_the_law_of_total_probability(c, prior, table):
    assert_allclose(km.sum_rule(c, prior)(Y3), PRIOR @ table, atol=1e-3)


def test_sum_rule_of_the_training_marginal_is_the_marginal_of_y(pairs, c):
    m = km.MeanEmbedding(pairs[0], kernel="delta")
    expected = oracles.joint_table(pairs[0][:, 0], pairs[1], 4, 3).sum(axis=0)
    assert_allclose(km.sum_rule(c, m)(Y3), expected, atol=1e-3)


def test_sum_rule_accepts_samples(pairs, c):
    m = km.MeanEmbedding(pairs[0], kernel="delta")
    assert_allclose(km.sum_rule(c, pairs[0])(Y3), km.sum_rule(c, m)(Y3), atol=1e-12)


def test_sum_rule_and_apply_are_one(c, prior):
    assert_allclose(km.sum_rule(c, prior).weights, c.apply(prior).weights)


def test_sum_rule_of_a_batch(c, table, rng):
    P = rng.dirichlet(np.ones(4), size=6)
    many = km.sum_rule(c, km.MeanEmbedding(X4, P, "delta"))
    assert len(many) == 6
    assert_allclose(many(Y3), P @ table, atol=1e-3)


def test_sum_rule_with_negative_weights(c, table):
    signed = np.array([1.5, -0.5, 0.3, -0.3])
    assert_allclose(
        km.sum_rule(c, km.MeanEmbedding(X4, signed, "delta"))(Y3), signed @ table, atol=1e-3
    )


def test_sum_rule_dense(xy, rng):
    """w = (K + n lam I)^-1 K_XU alpha."""
    X, Y = xy
    U, alpha = rng.normal(size=(8, 2)), rng.normal(size=8)
    K = oracles.gram(oracles.gaussian, X, lengthscale=0.8)
    k = oracles.gram(oracles.gaussian, X, U, lengthscale=0.8) @ alpha
    fitted = km.ConditionalEmbedding(km.Gaussian(0.8), reg=1e-3, features=km.Exact()).fit(X, Y)
    got = km.sum_rule(fitted, km.MeanEmbedding(U, alpha, km.Gaussian(0.8)))
    assert_allclose(got.weights, oracles.cme_weights(K, k, 1e-3), atol=1e-6)


def test_sum_rule_through_a_composition(c, prior, table):
    shift = km.ConditionalEmbedding("delta", "delta", reg=1e-10).fit(
        np.tile(Y3, (4, 1)), np.tile((Y3[:, 0] + 1) % 3, 4)
    )
    got = km.sum_rule(shift @ c, prior)(Y3)
    assert_allclose(got, np.roll(PRIOR @ table, 1), atol=1e-3)


# ----------------------------------------------------------------------------------- product rule
def test_product_rule_is_the_joint_table(c, prior, table):
    joint = km.product_rule(c, prior)
    pairs = np.array([[x, y] for x in range(4) for y in range(3)], float)
    assert_allclose(joint(pairs).reshape(4, 3), PRIOR[:, None] * table, atol=1e-3)


def test_expectations_under_the_joint(c, prior, table):
    joint = km.product_rule(c, prior)
    expected = sum(PRIOR[x] * table[x, y] * x * y for x in range(4) for y in range(3))
    assert_allclose(joint.expectation(lambda xy: xy[:, 0] * xy[:, 1]), expected, atol=1e-3)


def test_its_margins_are_the_prior_and_the_sum_rule(c, prior):
    joint = km.product_rule(c, prior)
    one_hot_x = lambda xy: (xy[:, [0]] == np.arange(4.0)).astype(float)  # noqa: E731
    one_hot_y = lambda xy: (xy[:, [1]] == np.arange(3.0)).astype(float)  # noqa: E731
    assert_allclose(joint.expectation(one_hot_x), PRIOR, atol=1e-3)
    assert_allclose(joint.expectation(one_hot_y), km.sum_rule(c, prior)(Y3), atol=1e-9)


def test_product_rule_on_several_columns(xy, rng):
    X, Y = xy
    kx, ky = km.Gaussian(0.8), km.Gaussian(0.6)
    fitted = km.ConditionalEmbedding(kx, ky, reg=1e-3, features=km.Exact()).fit(X, Y)
    m = km.MeanEmbedding(rng.normal(size=(8, 2)), kernel=kx)
    joint = km.product_rule(fitted, m)
    assert joint.points.shape == (30, 4)
    T = rng.normal(size=(5, 4))
    expected = (kx(T[:, :2], X) * ky(T[:, 2:], Y)) @ fitted.apply(m).weights
    assert_allclose(joint(T), expected, atol=1e-8)


def test_product_rule_of_a_batch(c, table, rng):
    P = rng.dirichlet(np.ones(4), size=6)
    joint = km.product_rule(c, km.MeanEmbedding(X4, P, "delta"))
    assert len(joint) == 6
    assert_allclose(joint([[2.0, 1.0]])[:, 0], P[:, 2] * table[2, 1], atol=1e-3)


def test_conditioning_the_joint_gives_bayes_table(c, prior, table):
    """Joint / margin = posterior: what Bayes' rule will have to reproduce."""
    joint = km.product_rule(c, prior)
    for y in range(3):
        column = joint(np.column_stack([X4[:, 0], np.full(4, y)]))
        assert_allclose(column / column.sum(), oracles.bayes_table(table, PRIOR, y), atol=1e-3)


@pytest.mark.parametrize("rule", [km.sum_rule, km.product_rule])
class TestRefusals:
    def test_not_fitted(self, rule, prior):
        with pytest.raises(ValueError, match="fit"):
            rule(km.ConditionalEmbedding(), prior)

    @pytest.mark.parametrize("bad", [None, 3, "c"])
    def test_no_operator(self, rule, prior, bad):
        with pytest.raises(ValueError, match="c"):
            rule(bad, prior)

    @pytest.mark.parametrize("bad", [None, "m", [[np.nan]], np.empty((0, 1)), np.ones((2, 3))])
    def test_no_prior(self, rule, c, bad):
        with pytest.raises(ValueError, match="m|X"):
            rule(c, bad)


def test_a_filter_is_a_loop_of_rules():
    """Sum rule for the move, product rule for the sight, condition: the HMM's forward pass."""
    rng = np.random.default_rng(1)
    z = np.zeros(2000, dtype=int)
    for t in range(1, 2000):
        z[t] = (z[t - 1] + rng.choice(3, p=[0.7, 0.2, 0.1])) % 3
    x = (z + rng.choice(2, p=[0.8, 0.2], size=2000)) % 3
    transition = oracles.conditional_table(oracles.joint_table(z[:-1], z[1:], 3, 3))
    emission = oracles.conditional_table(oracles.joint_table(z, x, 3, 3))
    expected = oracles.hmm_forward(np.full(3, 1 / 3), transition, emission, x[:30])

    tables = km.ConditionalEmbedding("delta", "delta", reg=1e-10)
    move = clone(tables).fit(z[:-1, None], z[1:])
    see = clone(tables).fit(z[:, None], x)
    belief, beliefs = km.MeanEmbedding(Y3, kernel="delta"), []
    for t, observed in enumerate(x[:30]):
        predicted = belief if t == 0 else km.sum_rule(move, belief)
        joint = km.product_rule(see, predicted)
        column = joint(np.column_stack([Y3[:, 0], np.full(3, observed)]))
        belief = km.MeanEmbedding(Y3, column / column.sum(), "delta")
        beliefs.append(belief.weights)
    assert_allclose(beliefs, expected, atol=1e-3)


def test_names_and_rows_go_through_the_rules(rng):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"], index=pd.RangeIndex(5, 25))
    Y, Z = X[["a"]].rename(columns={"a": "u"}), X[["b"]].rename(columns={"b": "w"})
    c = km.ConditionalEmbedding(reg=0.1).fit(X, Y)
    laws = (km.ConditionalEmbedding(reg=0.1).fit(Y, Z) @ c).at(X.head(2))
    assert laws.to_frame().index.tolist() == [5, 6]
    assert laws.to_frame().columns.tolist() == ["w", "w_std", "w_lower", "w_upper", "extrapolated"]
    assert km.product_rule(c, X).to_frame().columns[::4].tolist() == ["a", "b", "u"]
