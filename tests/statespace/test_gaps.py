"""Rows that are there in part, and series of which hardly three rows in a row are whole."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.kernels import Delta
from kernelmean.statespace.gaps import drawn, given

NAN = float("nan")
QUICK = km.EM(n_init=1, max_iter=5)
A = np.array([[0.6, 0.3], [-0.2, 0.7]])
SIZE = np.linalg.cholesky([[1.0, 0.6], [0.6, 1.0]])


def pair(n: int, seed: int = 0) -> np.ndarray:
    """Two columns, each of which tells of the other."""
    rng, Y = np.random.default_rng(seed), np.zeros((n, 2))
    for t in range(1, n):
        Y[t] = A @ Y[t - 1] + SIZE @ rng.standard_normal(2)
    return Y


def with_holes(Y, share: float = 0.3, seed: int = 1) -> np.ndarray:
    gaps = np.random.default_rng(seed).random(Y.shape) < share
    gaps[:3] = False
    return np.where(gaps, NAN, Y)


@pytest.fixture(scope="module")
def fitted():
    line = km.Backbone(order=2, difference=0, transform=None)
    return km.KernelStateSpace(backbone=line, em=QUICK).fit(pair(200))


def joint_law(line, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the n first rows of a line, below each other."""
    d, K = len(line.cov), line.first.mean.size
    of_state, mean = np.eye(K, K + n * d), line.first.mean.ravel()
    rows, means, own = [], [], line.known(np.arange(n), None)
    for t in range(n):
        e = np.eye(d, K + n * d, k=K + t * d)
        rows.append(of_state[:d] + e)
        means.append(mean[:d] + own[t])
        of_state = line.unseen @ of_state + line.gain @ e
        mean = line.unseen @ mean + line.gain @ own[t]
    law = np.zeros((K + n * d, K + n * d))
    law[:K, :K], law[K:, K:] = line.first.cov, np.kron(np.eye(n), line.cov)
    H = np.concatenate(rows)
    return np.concatenate(means), H @ law @ H.T


def conditional(mean, cov, y, wanted, there) -> tuple[np.ndarray, np.ndarray]:
    told = np.linalg.solve(cov[np.ix_(there, there)], cov[np.ix_(there, wanted)]).T
    left = cov[np.ix_(wanted, wanted)] - told @ cov[np.ix_(there, wanted)]
    return mean[wanted] + told @ (y[there] - mean[there]), left


def test_a_line_takes_what_is_there_of_a_row(fitted):
    """As the normal law of all rows has it, given all entries before."""
    line, n = fitted.backbone_, 25
    Y = with_holes(pair(n, 5), 0.4)
    Y[12] = NAN
    track = line.track(Y, ~np.isnan(Y).any(axis=1), [slice(0, n)])
    mean, cov = joint_law(line, n)
    y = Y.ravel()
    for t in range(n):
        there = np.flatnonzero(~np.isnan(y[: 2 * t]))
        m, left = conditional(mean, cov, y, np.arange(2 * t, 2 * t + 2), there)
        assert_allclose(track.mean[t], m, atol=1e-7)
        assert_allclose(track.wide[t], left - line.cov, atol=1e-7)


@pytest.mark.parametrize("backbone", [km.Backbone(), None])
@pytest.mark.slow
def test_one_row_at_a_time(backbone):
    Y = pair(200) if backbone is None else np.cumsum(pair(200), axis=0)
    m = km.KernelStateSpace(backbone=backbone, em=QUICK).fit(Y)
    new = with_holes(Y[:40], 0.4)
    new[20] = NAN
    belief, states, forecasts = m.start(), m.filter(new), m.predict(new)
    for t, y in enumerate(new):
        if t:
            belief.predict()
        assert_allclose(belief.mean(), forecasts[t], atol=1e-4)  # rows beside a line in two turns
        assert_allclose(belief.update(y).probabilities, states.probabilities[t], atol=1e-4)


@pytest.mark.parametrize("transform", [None, "log"])
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")  # the grid goes far out
def test_the_density_of_what_is_there_is_an_integral(transform):
    """Where the past is known (row 5), and where it is not (row 9, after a gap)."""
    Y = np.exp(pair(150) / 4)
    line = km.Backbone(difference=0, transform=transform)
    m = km.KernelStateSpace(backbone=line, em=QUICK).fit(Y)
    grid = np.linspace(0.01 if transform else -3.0, 7.0, 150)
    for t in (5, 9):
        X = Y[: t + 1].copy()
        X[8:9] = NAN
        each = np.tile(X, (len(grid), 1))
        each[t :: t + 1, 1] = grid
        logs = m.log_predictive(each, lengths=[t + 1] * len(grid))[t :: t + 1]
        X[t, 1] = NAN
        want = np.log(np.trapezoid(np.exp(logs), grid))
        assert m.log_predictive(X)[t] == pytest.approx(want, abs=5e-3)


def test_variates_of_a_row_in_part_are_unknown():
    """The line takes what is there; a density there is none."""
    Y = np.random.default_rng(0).normal(size=(80, 4)).cumsum(axis=0)
    m = km.KernelStateSpace(backbone=km.Backbone(), em=QUICK).fit(Y)
    X, none = Y[:20].copy(), Y[:20].copy()
    X[7, 0], none[7] = NAN, NAN
    assert m.variates_ is not None
    assert m.log_predictive(X)[7] == pytest.approx(0.0, abs=1e-12)
    assert abs(m.predict(X)[8] - m.predict(none)[8]).max() > 0.1


@pytest.mark.slow
def test_particles_take_rows_as_they_are_whole():
    Y = pair(120)
    m = km.KernelStateSpace(backbone=None, em=QUICK, inference="particles", random_state=0).fit(Y)
    X, none = Y[:20].copy(), Y[:20].copy()
    X[7, 0], none[7] = NAN, NAN
    assert_array_equal(m.predict(X), m.predict(none))


# ------------------------------------------------------------ gaps that are filled


class Still:
    """Draws nothing."""

    def standard_normal(self, n):
        return np.zeros(n)


def test_draws_are_given_all_that_is_there(fitted):
    """Their mean, and their spread, by the normal law of all rows."""
    line, Y = fitted.backbone_, with_holes(pair(12, 3), 0.4)
    gaps, own = np.isnan(Y), line.known(np.arange(12), None)
    there, wanted = np.flatnonzero(~gaps.ravel()), np.flatnonzero(gaps.ravel())
    want, spread = conditional(*joint_law(line, 12), Y.ravel(), wanted, there)
    assert_allclose(given(line, Y, own, Still())[gaps], want, atol=1e-9)
    rng = np.random.default_rng(0)
    draws = np.array([given(line, Y, own, rng)[gaps] for _ in range(300)])
    assert_allclose(np.cov(draws.T), spread, atol=0.3)
    assert_allclose(given(line, np.full((1, 2), NAN), own[:1], Still())[0], joint_law(line, 1)[0])


@pytest.mark.slow
def test_filled_rows_are_as_others():
    """What is there stays; spreads and what neighbours say of each other are as they were."""
    Y = pair(1500)
    X = with_holes(Y, 0.4)
    found = drawn(X, [slice(0, 700), slice(700, 1500)], None, 0, np.random.default_rng(0))
    assert_array_equal(found[~np.isnan(X)], X[~np.isnan(X)])
    assert_allclose(np.cov(found.T), np.cov(Y.T), rtol=0.1, atol=0.1)
    assert_allclose(np.linalg.lstsq(found[:-1], found[1:])[0].T, A, atol=0.08)


def test_filled_rows_go_with_seasons_and_inputs_and_stay_positive():
    rng, t = np.random.default_rng(0), np.arange(240)
    u, season = 1e4 + rng.normal(size=(240, 1)), np.tile(np.arange(12.0), 20)
    Y = 20 + 2.0 * u - 2e4 + season[:, None] + 0.1 * rng.normal(size=(240, 1))
    X = np.where(t[:, None] % 5 == 4, NAN, Y)
    found = drawn(X, [slice(0, 240)], u, 12, np.random.default_rng(1))
    assert (found - Y)[t % 5 == 4].std() < 0.25
    least = drawn(np.maximum(X - 28, 0.5), [slice(0, 240)], None, 0, np.random.default_rng(1))
    assert least.min() == 0.5


def test_filled_rows_do_not_explode():
    """Of twelve rows of three columns an autoregression had 1e40 in a gap."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        Y = 20.0 + 1e-7 * np.cumsum(rng.normal(size=(12, 3)), axis=0)
        X = with_holes(Y, 0.3, seed)
        found = drawn(X, [slice(0, 12)], None, 0, rng)
        least, most = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
        assert (found >= least).all()
        assert (found <= 2 * most - least + 1e-12).all()


def third(Y, of: int = 3) -> np.ndarray:
    return np.where(np.arange(len(Y))[:, None] % of == of - 1, NAN, Y)


@pytest.mark.slow
@pytest.mark.parametrize("refine", [True, False])
def test_every_third_row_missing(refine):
    Y = pair(500)[:, :1]
    how = {"refine": refine} if refine else {"refine": False, "backbone": None}
    with pytest.warns(km.NumericalWarning, match="20% of three rows.*filled"):
        m = km.KernelStateSpace(em=QUICK, **how).fit(third(Y[:300]))
    whole = km.KernelStateSpace(em=QUICK, **how).fit(Y[:300])
    errors = [((model.predict(Y) - Y)[300:] ** 2).mean() for model in (m, whole)]
    assert errors[0] < 1.1 * errors[1]


@pytest.mark.slow
def test_no_row_is_whole():
    """Two columns by turns."""
    Y = pair(500)
    X = np.where(np.arange(500)[:, None] % 2 == [0, 1], NAN, Y)
    with pytest.warns(km.NumericalWarning, match="filled"):
        m = km.KernelStateSpace(em=QUICK).fit(X[:300])
    whole = km.KernelStateSpace(em=QUICK).fit(Y[:300])
    errors = [((model.predict(X) - Y)[300:] ** 2).mean() for model in (m, whole)]
    assert errors[0] < 1.1 * errors[1]
    assert np.isfinite(m.log_predictive(X)[300:]).all()


def test_many_whole_rows_are_learned_from_as_they_are(recwarn):
    Y = pair(150)
    X = Y.copy()
    X[::7, 0] = NAN
    km.KernelStateSpace(em=QUICK).fit(X)
    assert not [w for w in recwarn if "filled" in str(w.message)]


@pytest.mark.parametrize(
    "X",
    [
        np.where(np.arange(30) % 3, np.arange(30) % 4 * 1.0, NAN)[:, None],
        np.where(np.arange(30) % 3, 1.0, NAN)[:, None],
    ],
    ids=["values of a table", "constant"],
)
def test_what_no_line_fills_is_refused(X):
    kernel = Delta() if np.nanstd(X) else "gaussian"
    with pytest.raises(ValueError, match="no three rows"):
        km.KernelStateSpace(kernel=kernel, em=QUICK).fit(X)
