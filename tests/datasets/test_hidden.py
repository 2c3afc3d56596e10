"""Hidden Markov simulators: draws follow the laws of the thesis, and the true filter is exact."""

from __future__ import annotations

from itertools import product
from urllib.error import URLError

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad
from sklearn.datasets import load_digits

from kernelmean import datasets as ds
from kernelmean.datasets import hidden

# π as printed in the thesis, eqs. (3.13)-(3.18)
PRINTED = {
    "separated": [4 / 7, 3 / 7],
    "overlapping": [47 / 120, 11 / 40, 1 / 3],
    "unbounded": [7 / 16, 9 / 16],
}
PRINTED_DIGITS = {2: [0.53, 0.47], 3: [0.32, 0.37, 0.31], 4: [0.27, 0.27, 0.22, 0.24]}
every_design = pytest.mark.parametrize("design", hidden.DESIGNS)
every_number = pytest.mark.parametrize("n_states", hidden.DIGITS)


def beta_laws(design):
    return [stats.beta(a, b) for a, b in hidden.DESIGNS[design][1]]


# ------------------------------------------------------------ Beta laws


@every_design
def test_shapes_seeds_and_the_global_generator(design):
    before = np.random.get_state()[1].copy()
    a, b, c = (ds.make_hmm(design, 50, random_state=seed) for seed in (40, 40, 41))
    assert a.X.shape == (50, 1)
    assert a.states.shape == (50,)
    assert a.images is None
    assert_array_equal(a.X, b.X)
    assert_array_equal(a.states, b.states)
    assert not np.array_equal(a.X, c.X)
    assert_array_equal(np.random.get_state()[1], before)


@every_design
def test_the_stationary_law_is_that_of_the_thesis(design):
    model = ds.make_hmm(design, 1).model
    assert_allclose(model.startprob, PRINTED[design], atol=1e-12)
    assert model.n_states == len(model.transmat) == len(PRINTED[design])


@every_design
def test_states_and_observations_follow_the_law(design):
    data, laws = ds.make_hmm(design, 40_000, random_state=42), beta_laws(design)
    for k, law in enumerate(laws):
        after = data.states[1:][data.states[:-1] == k]
        share = np.bincount(after, minlength=len(laws)) / len(after)
        assert_allclose(share, data.model.transmat[k], atol=4 * 0.5 / len(after) ** 0.5)
        assert stats.kstest(data.X[data.states == k, 0], law.cdf).pvalue > 1e-3
        assert data.model.means[k, 0] == pytest.approx(law.mean())


@every_design
def test_densities_are_scipys_and_integrate_to_one(design):
    model, laws = ds.make_hmm(design, 1).model, beta_laws(design)
    x = np.linspace(0.01, 0.99, 30)
    assert_allclose(model.log_density(x), np.transpose([law.logpdf(x) for law in laws]), rtol=1e-12)
    for k in range(len(laws)):
        total = quad(lambda y, k=k: np.exp(model.log_density([[y]])[0, k]), 0, 1)[0]
        assert total == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("design", "right"), [("separated", 0.81), ("overlapping", 0.69), ("unbounded", 0.74)]
)
def test_the_true_filter_is_as_right_as_the_docstring_says(design, right):
    data = ds.make_hmm(design, 100_000, random_state=43)
    found = data.model.filter(data.X).argmax(axis=1)
    assert np.mean(found == data.states) == pytest.approx(right, abs=0.01)


def test_densities_at_the_ends_outside_and_of_missing_rows():
    model = ds.make_hmm("unbounded", 1).model
    logs = model.log_density([[0.0], [1.0], [-0.1], [1.1], [np.nan]])
    assert np.isfinite(logs[:2]).all()
    assert (logs[:2, 0] > 10).all()
    assert (logs[:2, 1] < -10).all()
    assert (logs[2:4] == -np.inf).all()
    assert (logs[4] == 0).all()


def all_paths(model, laws, x):
    """Every path of states, and log p(path, x)."""
    paths = np.array(list(product(range(len(laws)), repeat=len(x))))
    logs = np.log(model.startprob)[paths[:, 0]]
    for t in range(len(x)):
        logs = logs + np.array([law.logpdf(x[t]) for law in laws])[paths[:, t]]
        if t:
            logs = logs + np.log(model.transmat)[paths[:, t - 1], paths[:, t]]
    return paths, logs


def posterior(model, laws, x, t):
    """P(x_t | all of x) by enumeration."""
    paths, logs = all_paths(model, laws, x)
    shares = np.exp(logs - logs.max())
    return np.bincount(paths[:, t], shares, minlength=len(laws)) / shares.sum()


@every_design
def test_filter_smooth_decode_and_score_by_enumeration(design):
    model, laws = ds.make_hmm(design, 1).model, beta_laws(design)
    X = model.sample(8, 43).X
    lengths = [5, 3]
    filtered, smoothed = model.filter(X, lengths), model.smooth(X, lengths)
    decoded, score = model.decode(X, lengths), 0.0
    for s in (slice(0, 5), slice(5, 8)):
        x = X[s, 0]
        paths, logs = all_paths(model, laws, x)
        assert_array_equal(decoded[s], paths[logs.argmax()])
        score += np.log(np.exp(logs).sum())
        for t in range(len(x)):
            assert_allclose(filtered[s][t], posterior(model, laws, x[: t + 1], t), atol=1e-12)
            assert_allclose(smoothed[s][t], posterior(model, laws, x, t), atol=1e-12)
    assert model.score(X, lengths) == pytest.approx(score)


def test_a_missing_row_is_predicted_and_scores_nothing():
    data = ds.make_hmm("overlapping", 6, random_state=44)
    X = data.X.copy()
    X[3] = np.nan
    filtered = data.model.filter(X)
    assert_allclose(filtered[3], filtered[2] @ data.model.transmat)
    # the next row is then two steps after the last one seen
    prior = filtered[2] @ data.model.transmat @ data.model.transmat
    joint = prior * np.exp(data.model.log_density(X[4:5]))[0]
    assert_allclose(filtered[4], joint / joint.sum())
    assert data.model.score(X[:4]) == pytest.approx(data.model.score(X[:3]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ds.make_hmm("mixed"), "design is 'mixed'"),
        (lambda: ds.make_hmm(n=0), "n is 0"),
        (lambda: ds.make_hmm(random_state="one"), "random_state is 'one'"),
        (lambda: ds.make_hmm(n=5).model.filter(np.ones((4, 2))), "X has 2 columns"),
        (lambda: ds.make_hmm(n=5).model.filter([0.5, 0.5], [1]), "lengths sums to 1"),
        (lambda: ds.make_digit_hmm(5), "n_states is 5"),
        (lambda: ds.make_digit_hmm(2, images=np.ones((3, 4))), "labels is None"),
        (lambda: ds.make_digit_hmm(2, labels=[2, 7]), "images is None"),
        (lambda: ds.make_digit_hmm(2, images=np.ones((3, 4)), labels=[2, 7]), "labels has 2 rows"),
        (lambda: ds.make_digit_hmm(2, images=np.ones((1, 4)), labels=[2]), "0 images with label 7"),
        (lambda: ds.make_digit_hmm(share=(0.5, 0.5)), "share is"),
        (lambda: ds.make_digit_hmm(share=(0.5, 1.1)), "share is"),
        (lambda: ds.make_digit_hmm(share=(0.1, 0.1001)), "none of the 177 images with label 2"),
    ],
)
def test_errors_name_the_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# ------------------------------------------------------------ images of digits


@every_number
def test_every_image_shows_its_state(n_states):
    data = ds.make_digit_hmm(n_states, 600, random_state=45)
    images, labels = load_digits(return_X_y=True)
    digits = np.array(hidden.DIGITS[n_states][1])
    assert_array_equal(labels[data.images], digits[data.states])
    assert_allclose(data.X, stats.zscore(images[data.images], axis=1), atol=1e-12)
    assert_allclose(data.model.startprob, PRINTED_DIGITS[n_states], atol=0.006)
    assert_allclose(data.model.transmat.sum(axis=1), 1)
    for k, digit in enumerate(digits):
        mean = stats.zscore(images[labels == digit], axis=1).mean(axis=0)
        assert_allclose(data.model.means[k], mean, atol=1e-12)


def test_images_are_drawn_evenly():
    data = ds.make_digit_hmm(2, 40_000, random_state=46)
    for state in (0, 1):
        counts = np.unique(data.images[data.states == state], return_counts=True)[1]
        assert len(counts) == data.model.emission.counts[state]
        assert stats.chisquare(counts).pvalue > 1e-3


def test_disjoint_shares_have_no_image_in_common():
    shares = [(0, 0.3), (0.3, 0.8), (0.8, 1)]
    seen = [set(ds.make_digit_hmm(3, 8000, share=s, random_state=47).images) for s in shares]
    digits = load_digits().target
    assert sum(map(len, seen)) == len(set.union(*seen)) == np.isin(digits, [2, 4, 7]).sum()


def test_who_sees_the_images_knows_the_states():
    data = ds.make_digit_hmm(4, 300, random_state=48)
    model = data.model
    assert_array_equal(model.filter(data.X).argmax(axis=1), data.states)
    assert_array_equal(model.decode(data.X), data.states)
    steps = model.transmat[data.states[:-1], data.states[1:]]
    path = np.log(model.startprob[data.states[0]]) + np.log(steps).sum()
    assert model.score(data.X) == pytest.approx(
        path - np.log(model.emission.counts[data.states]).sum()
    )
    assert (model.log_density(data.X[:1] + 1) == -np.inf).all()


def test_images_of_ones_own():
    images = np.array([[0.0, 2.0], [5.0, 5.0], [4.0, 0.0], [9.0, 9.5], [0.0, 2.0]])
    kept = images.copy()
    data = ds.make_digit_hmm(2, 200, images=images, labels=[2, 2, 7, 3, 7], random_state=49)
    assert set(data.images) == {0, 1, 2, 4}
    expected = {0: [-1, 1], 1: [0, 0], 2: [1, -1], 4: [-1, 1]}  # a constant image becomes zero
    assert_array_equal(data.X, [expected[i] for i in data.images])
    # the first and the last image are equal: half of what either digit shows
    assert_allclose(np.exp(data.model.log_density([[-1, 1]])), [[0.5, 0.5]])
    assert_array_equal(images, kept)


def test_mnist_says_when_it_is_out_of_reach(monkeypatch):
    def unreachable(*args, **kwargs):
        raise URLError("no network")

    monkeypatch.setattr(hidden, "fetch_openml", unreachable)
    with pytest.raises(OSError, match="MNIST cannot be downloaded.*no network"):
        ds.load_mnist()


def test_mnist_has_numbers_as_labels(monkeypatch):
    def fetched(name, **settings):
        assert name == "mnist_784"
        assert settings == {"version": 1, "as_frame": False, "return_X_y": True}
        return np.eye(4), np.array(["2", "7", "2", "1"], dtype=object)

    monkeypatch.setattr(hidden, "fetch_openml", fetched)
    images, labels = ds.load_mnist()
    assert_array_equal(labels, [2, 7, 2, 1])
    assert ds.make_digit_hmm(2, 5, images=images, labels=labels).X.shape == (5, 4)
