"""Other people's hidden Markov models, and the errors, against oracles that share no code."""

from __future__ import annotations

import sys
from itertools import permutations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import kernelmean as km
from kernelmean.comparators import GaussianHMM, ProjHMM, hidden, matched_accuracy, tmse

every_basis = pytest.mark.parametrize("basis", hidden.BASES)


def forward(startprob, transmat, densities):
    """The forward algorithm, row by row."""
    prior, rows = startprob, []
    for density in densities:
        joint = prior * density
        rows.append(joint / joint.sum())
        prior = rows[-1] @ transmat
    return np.array(rows)


# ------------------------------------------------------------ projection

# chains on which every triple of symbols has a probability that is a multiple of 1/3072:
# (transition matrix, probability of each symbol in each state); both stationary laws are even
TABLES = {
    2: ([[0.75, 0.25], [0.25, 0.75]], [[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]]),
    3: (
        [[0.5, 0.25, 0.25], [0.25, 0.0, 0.75], [0.25, 0.75, 0.0]],
        [[1.0, 0.0, 0.0], [0.25, 0.5, 0.25], [0.0, 0.25, 0.75]],
    ),
}


def exact_sample(Q, E):
    """Sequences of three symbols 0, ½, 1, each as often as its probability says."""
    K = len(Q)
    rows = []
    for symbols in product(range(3), repeat=3):
        alpha = np.full(K, 1 / K)
        for t, symbol in enumerate(symbols):
            alpha = (alpha @ Q if t else alpha) * E[:, symbol]
        times = 4096 * K * alpha.sum()
        assert times == pytest.approx(round(times), abs=1e-9)
        rows += [np.array(symbols) / 2] * round(times)
    return np.concatenate(rows)[:, None], [3] * len(rows)


@every_basis
@pytest.mark.parametrize("K", TABLES)
def test_exact_moments_give_the_exact_chain(basis, K):
    Q, E = (np.array(table) for table in TABLES[K])
    X, lengths = exact_sample(Q, E)
    model = ProjHMM(K, basis, n_basis=3, random_state=40).fit(X, lengths)
    assert tmse(np.full(K, 1 / K), Q, model.startprob_, model.transmat_) < 1e-18
    if basis == "histogram":  # a symbol is a third of [0, 1]
        found = model.density([[0.0], [0.5], [1.0]]).T / 3
        order = [int(np.argmin(np.abs(E - row).sum(axis=1))) for row in found]
        assert sorted(order) == list(range(K))
        assert_allclose(found, np.maximum(E[order], hidden.FLOOR / 3), atol=1e-9)


@every_basis
def test_bases_are_orthonormal(basis):
    def inner(i, j):
        def f(x):
            return np.prod(hidden.BASES[basis](np.array([[x]]), 5)[0, [i, j]])

        return quad(f, 0, 1, points=np.arange(1, 5) / 5)[0]

    gram = [[inner(i, j) for j in range(5)] for i in range(5)]
    assert_allclose(gram, np.eye(5), atol=1e-9)


def test_the_trigonometric_basis_is_that_of_the_authors():
    x = np.array([[0.0], [0.3], [1.0]])
    root2 = np.sqrt(2)
    waves = [np.ones((3, 1)), root2 * np.cos(np.pi * x), root2 * np.cos(2 * np.pi * x)]
    assert_allclose(hidden.BASES["trigonometric"](x, 3), np.hstack(waves))


@pytest.mark.parametrize(("design", "tolerance"), [("separated", 0.03), ("unbounded", 0.05)])
def test_projection_learns_the_designs(design, tolerance):
    data = km.datasets.make_hmm(design, 50_000, random_state=41)
    test = data.model.sample(5000, 42)
    model = ProjHMM(2, n_basis=6, random_state=43).fit(data.X)
    best = matched_accuracy(test.states, data.model.filter(test.X).argmax(axis=1))
    assert matched_accuracy(test.states, model.predict(test.X)) > best - tolerance
    error = tmse(data.model.startprob, data.model.transmat, model.startprob_, model.transmat_)
    assert error < 0.05


@every_basis
def test_filter_is_the_forward_algorithm(basis):
    X = km.datasets.make_hmm("separated", 600, random_state=44).X
    model = ProjHMM(2, basis, n_basis=5, random_state=45).fit(X)
    found = model.filter(X, [400, 200])
    for rows in (slice(0, 400), slice(400, 600)):
        expected = forward(model.startprob_, model.transmat_, model.density(X[rows]))
        assert_allclose(found[rows], expected, atol=1e-10)
    assert_array_equal(model.predict(X, [400, 200]), found.argmax(axis=1))
    assert_allclose(model.transmat_.sum(axis=1), 1)
    assert_allclose(model.startprob_ @ model.transmat_, model.startprob_, atol=1e-12)


def test_a_seed_repeats_the_fit_and_units_do_not_matter():
    X = km.datasets.make_hmm("separated", 5000, random_state=46).X
    model = ProjHMM(2, n_basis=6, random_state=47).fit(X)
    assert_array_equal(clone(model).fit(X).transmat_, model.transmat_)
    scaled = clone(model).fit(100 * X - 7)
    assert_allclose(scaled.transmat_, model.transmat_, atol=1e-9)
    assert_allclose(scaled.density(100 * X - 7), model.density(X) / 100, atol=1e-9)


def test_densities_keep_above_the_floor_and_to_the_range():
    X = km.datasets.make_hmm("overlapping", 500, random_state=48).X * 10
    model = ProjHMM(3, n_basis=15, random_state=49).fit(X)
    densities = model.density(np.linspace(-5, 15, 400))
    assert densities.min() == pytest.approx(hidden.FLOOR / np.ptp(X))
    assert_allclose(densities[0], model.density([[X.min()]])[0])
    assert_allclose(densities[-1], model.density([[X.max()]])[0])


def test_more_states_than_the_data_have_still_give_a_chain():
    X = np.random.default_rng(50).uniform(size=300)  # one state
    for basis in hidden.BASES:
        model = ProjHMM(5, basis, n_basis=8, random_state=51).fit(X)
        assert_allclose(model.transmat_.sum(axis=1), 1)
        assert (model.transmat_ >= 0).all()
        assert np.isfinite(model.filter(X)).all()
    two_values = np.tile([0.0, 1.0, 1.0], 20)
    model = ProjHMM(4, "histogram", n_basis=6, random_state=52).fit(two_values)
    assert np.isfinite(model.filter(two_values)).all()


def test_one_state_is_allowed():
    X = np.random.default_rng(53).beta(2, 5, 4000)
    model = ProjHMM(1, n_basis=8, random_state=54).fit(X)
    assert_allclose(model.transmat_, [[1]])
    total = quad(lambda y: model.density([[y]])[0, 0], X.min(), X.max(), limit=200)[0]
    assert total == pytest.approx(1, abs=0.01)


# ------------------------------------------------------------ Gaussian laws


@pytest.fixture(scope="module")
def fitted():
    """Two states, N(-2, 1) and N(2, 0.5²) by N(0, 1), two columns."""
    pytest.importorskip("hmmlearn")
    rng = np.random.default_rng(55)
    states = (rng.uniform(size=1200) < 0.5).astype(int)
    centres, scales = np.array([[-2.0, 0.0], [2.0, 0.0]]), np.array([[1.0, 1.0], [0.5, 1.0]])
    X = centres[states] + scales[states] * rng.standard_normal((1200, 2))
    return X, states, {m: GaussianHMM(2, m, random_state=56).fit(X, [700, 500]) for m in (1, 2)}


def test_separated_gaussian_laws_are_found(fitted):
    X, states, models = fitted
    model = models[1]
    order = np.argsort(model.means_[:, 0, 0])
    assert_allclose(model.means_[order, 0], [[-2, 0], [2, 0]], atol=0.15)
    assert_allclose(np.sqrt(model.variances_[order, 0]), [[1, 1], [0.5, 1]], atol=0.1)
    assert tmse([0.5, 0.5], np.full((2, 2), 0.5), model.startprob_, model.transmat_) < 0.01
    for model in models.values():
        assert matched_accuracy(states, model.predict(X, [700, 500])) > 0.98


@pytest.mark.parametrize("n_mix", [1, 2])
def test_densities_are_mixtures_of_scipys(fitted, n_mix):
    X, _, models = fitted
    model = models[n_mix]
    expected = [
        sum(
            model.weights_[k, m]
            * stats.multivariate_normal(model.means_[k, m], model.variances_[k, m]).pdf(X[:50])
            for m in range(n_mix)
        )
        for k in range(2)
    ]
    assert_allclose(model.density(X[:50]), np.transpose(expected), rtol=1e-9)


@pytest.mark.parametrize("n_mix", [1, 2])
def test_filter_is_the_last_posterior_of_hmmlearn(fitted, n_mix):
    X, _, models = fitted
    model = models[n_mix]
    theirs = model._model(0)
    theirs.startprob_, theirs.transmat_ = model.startprob_, model.transmat_
    theirs.n_features = 2
    if n_mix == 1:
        theirs.means_, theirs.covars_ = model.means_[:, 0], model.variances_[:, 0]
    else:
        theirs.weights_, theirs.means_ = model.weights_, model.means_
        theirs.covars_ = model.variances_
    found = model.filter(X[:30])
    for t in (1, 2, 10, 30):
        assert_allclose(found[t - 1], theirs.predict_proba(X[:t])[-1], atol=1e-9)


def test_the_likeliest_start_is_kept(fitted):
    X, _, models = fitted
    seeds = np.random.default_rng(56).integers(2**31, size=hidden.STARTS)
    fits = [models[1]._model(int(seed)).fit(X, [700, 500]) for seed in seeds]
    scores = [fit.score(X, [700, 500]) for fit in fits]
    best = fits[int(np.argmax(scores))]
    assert_allclose(models[1].means_[:, 0], best.means_)


def test_hmmlearn_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "hmmlearn.hmm", None)
    with pytest.raises(ImportError, match=r"GaussianHMM needs hmmlearn: pip install"):
        GaussianHMM(2).fit(np.arange(9.0))


# ------------------------------------------------------------ arguments

X9 = np.arange(9.0)


@pytest.mark.parametrize(
    ("model", "X", "lengths", "message"),
    [
        (ProjHMM(0), X9, None, "n_components is 0"),
        (ProjHMM(2, "wavelets"), X9, None, "basis is 'wavelets'"),
        (ProjHMM(4, n_basis=3), X9, None, "n_basis is 3; a whole number of at least 4"),
        (ProjHMM(2), np.ones((9, 2)), None, "X has 2 columns but the data of ProjHMM has 1"),
        (ProjHMM(2), np.ones(9), None, "X is constant"),
        (ProjHMM(2), X9[:2], None, "X is too short"),
        (ProjHMM(2), X9, [2, 2, 2, 2, 1], "X has no three rows in a row"),
        (ProjHMM(2), X9, [4, 4], "lengths sums to 8 but X has 9 rows"),
        (ProjHMM(2), [*X9, np.nan], None, "X contains NaN"),
        (ProjHMM(2, random_state="one"), X9, None, "random_state is 'one'"),
    ],
)
def test_errors_name_the_argument(model, X, lengths, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, lengths)


def test_errors_after_the_fit():
    model = ProjHMM(2, n_basis=4, random_state=57)
    with pytest.raises(NotFittedError):
        model.predict(X9)
    model.fit(X9)
    with pytest.raises(ValueError, match="X has 2 columns but the model has 1"):
        model.filter(np.ones((3, 2)))
    with pytest.raises(ValueError, match="Y has 2 columns but the model has 1"):
        model.density(np.ones((3, 2)))


# ------------------------------------------------------------ errors


def random_chain(K, rng):
    return rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K)


@pytest.mark.parametrize("K", [1, 2, 4])
def test_tmse_by_permutation_matrices(K):
    rng = np.random.default_rng(58)
    (pi, Q), (pi_hat, Q_hat) = random_chain(K, rng), random_chain(K, rng)
    by_hand = [
        np.linalg.norm(pi - P @ pi_hat) ** 2 + np.linalg.norm(Q - P @ Q_hat @ P.T, "fro") ** 2
        for P in (np.eye(K)[list(order)] for order in permutations(range(K)))
    ]
    assert tmse(pi, Q, pi_hat, Q_hat) == pytest.approx(min(by_hand))


def test_tmse_does_not_see_the_numbering():
    rng = np.random.default_rng(59)
    pi, Q = random_chain(5, rng)
    order = rng.permutation(5)
    assert tmse(pi, Q, pi[order], Q[np.ix_(order, order)]) == pytest.approx(0, abs=1e-30)
    assert tmse(pi, Q, pi, np.eye(5)) > 0.1


@pytest.mark.parametrize(("K", "L"), [(2, 2), (3, 3), (4, 2), (2, 4)])
def test_accuracy_by_enumeration(K, L):
    rng = np.random.default_rng(60)
    states = rng.integers(K, size=60)
    predicted = np.where(rng.uniform(size=60) < 0.5, (states + 1) % L, rng.integers(L, size=60))
    top = max(K, L)
    by_hand = max(
        np.mean(np.array(order)[predicted] == states) for order in permutations(range(top))
    )
    assert matched_accuracy(states, predicted) == pytest.approx(by_hand)
    assert matched_accuracy(states, 10 - states) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tmse([1], [[1]], [0.5, 0.5], np.eye(2)), "startprob_hat has 2 rows"),
        (lambda: tmse([0.5, 0.5], [[1]], [1], [[1]]), r"transmat has shape \(1, 1\)"),
        (lambda: tmse([1 / 9] * 9, np.eye(9), [1], [[1]]), "startprob has 9 states; at most 8"),
        (lambda: matched_accuracy([0, 1], [0]), "predicted has 1 row but states has 2"),
        (lambda: matched_accuracy(["a"], [0]), "states holds text"),
    ],
)
def test_errors_of_the_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
