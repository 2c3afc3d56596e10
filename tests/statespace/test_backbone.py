"""The linear backbone: as a filter against dense normal laws, as a fit against least squares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.signal import lfilter
from scipy.stats import norm

import kernelmean as km
from kernelmean.chains.markov import Chain
from kernelmean.chains.model import FittedChain
from kernelmean.densities.standard import clearly
from kernelmean.statespace import backbone, lines
from kernelmean.statespace.backbone import (
    AS_IT_IS,
    UNSURE,
    FittedBackbone,
    Form,
    PastState,
    Transform,
    delayed,
    mean_of,
    undelayed,
)
from kernelmean.statespace.course import ahead
from kernelmean.statespace.lines import Design, Nested, Series

pytestmark = pytest.mark.usefixtures("short_searches")  # of EM: the line is searched
QUICK = km.EM(n_init=1, max_iter=5)


def line(d: int = 2, seed: int = 0) -> FittedBackbone:
    """A(B)y = C(B)ε of order two with a constant, some columns, and a law to begin with."""
    rng = np.random.default_rng(seed)
    coef = 0.3 * rng.standard_normal((2, d, d))
    memory = np.array([-0.4, 0.2])
    root = rng.standard_normal((2 * d, 2 * d))
    half = rng.standard_normal((d, d))
    first = PastState(0, rng.standard_normal((2, d)), root @ root.T)
    terms = rng.standard_normal((1, d))
    return FittedBackbone(Form(2), coef, memory, terms, half @ half.T + np.eye(d), first, AS_IT_IS)


def dense(m: FittedBackbone, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of (y_1, ..., y_n), by the difference equation itself, lag by lag.

    y_t = D + s_t + e_t, with s_1, s_2 what the state before the first row says and
    y_t = Σ A_l y_{t−l} + ε_t + Σ C_l ε_{t−l} for what comes from rows from the first one on.
    """
    d = len(m.cov)
    width = 2 * d + n * d  # of z = (state, e_1, ..., e_n)
    known = m.terms[0]
    Y, E = np.zeros((n, d, width)), np.zeros((n, d, width))
    y, e = np.zeros((n, d)), np.zeros((n, d))
    for t in range(n):
        E[t, :, 2 * d + t * d : 2 * d + (t + 1) * d] = np.eye(d)
        e[t] = known
        Y[t], y[t] = E[t], e[t].copy()
        if t < 2:
            Y[t, :, t * d : (t + 1) * d] += np.eye(d)
            y[t] += m.first.mean[t]
        for lag in (1, 2):
            if t >= lag:
                Y[t] += m.coef[lag - 1] @ Y[t - lag] + m.memory[lag - 1] * E[t - lag]
                y[t] += m.coef[lag - 1] @ y[t - lag] + m.memory[lag - 1] * e[t - lag]
    cov = np.zeros((width, width))
    cov[: 2 * d, : 2 * d] = m.first.cov
    cov[2 * d :, 2 * d :] = np.kron(np.eye(n), m.cov)
    L = Y.reshape(n * d, width)
    return y.ravel(), L @ cov @ L.T


def given(mean, cov, known: np.ndarray, values, wanted: np.ndarray):
    """The normal law of some entries given others."""
    S = cov[np.ix_(wanted, known)] @ np.linalg.pinv(cov[np.ix_(known, known)], rcond=1e-13)
    law = mean[wanted] + S @ (values - mean[known])
    return law, cov[np.ix_(wanted, wanted)] - S @ cov[np.ix_(known, wanted)]


@pytest.mark.parametrize("sure", [False, True], ids=["state unknown", "state known"])
@pytest.mark.parametrize("d", [1, 2])
def test_forecasts_are_those_of_the_joint_normal_law(d, sure):
    """Gaps and the beginning included: a filter is conditioning, row by row.

    From a state that is known on, rows are solved for together until one is missing.
    """
    m, n = line(d), 8
    if sure:
        m = replace(m, first=replace(m.first, cov=np.zeros_like(m.first.cov)))
    mean, cov = dense(m, n)
    rng = np.random.default_rng(1)
    Y = rng.multivariate_normal(mean, cov).reshape(n, d)
    seen = np.array([1, 1, 1, 1, 0, 0, 1, 1], dtype=bool)
    if not sure:
        seen[2] = False
    track = m.track(Y, seen, [slice(0, n)])
    for t in range(n):
        known = np.flatnonzero(np.repeat(seen[:t], d))
        wanted = np.arange(t * d, (t + 1) * d)
        law, spread = given(mean, cov, known, Y.ravel()[known], wanted)
        assert_allclose(track.mean[t], law, atol=1e-8)
        assert_allclose(track.wide[t] + m.cov, spread, atol=1e-7)


def test_what_is_undelayed_is_the_recursion():
    v = np.random.default_rng(4).standard_normal((30, 2))
    weights = Form(0, season=4, seasonal="difference", memory=0.6, seasonal_memory=0.5).behind
    y = undelayed(weights, v)
    assert_allclose(y, lfilter([1.0], weights, v, axis=0), atol=1e-14)
    assert_allclose(delayed(weights, y), v, atol=1e-14)


def test_variances_ahead_are_those_of_sums_of_innovations():
    """Of Σ_j R_{h−j}e_j, R_k by how paths differ k rows after an innovation, pair by pair."""
    m, steps, rng = line(2), 5, np.random.default_rng(6)
    start = replace(m.first, cov=np.zeros_like(m.first.cov))
    e = np.zeros((3, steps, 2))
    e[1, 0, 0] = e[2, 0, 1] = 1.0
    paths = m.paths(start, e, None, rng)
    R = np.stack([paths[1] - paths[0], paths[2] - paths[0]], axis=2)
    assert_allclose(R[1], m.gain[:2])

    Q, points = rng.dirichlet(np.ones(3), size=3), 4.0 * rng.standard_normal((5, 2))
    laws = km.MeanEmbedding(points).reweighted(rng.dirichlet(np.ones(5), size=3))
    chain = FittedChain(Chain(np.ones(3) / 3, Q), laws, None, 0.3)
    p = np.stack([np.array([1.0, 0.0, 0.0]) @ np.linalg.matrix_power(Q, h) for h in range(steps)])
    means = laws.mean()

    def joint(i: int, j: int) -> np.ndarray:
        if i > j:
            return joint(j, i).T
        if i == j:
            return chain.mixture(p[[i]]).cov()[0] + 0.09 * np.eye(2)
        later = np.linalg.matrix_power(Q, j - i) @ means
        return means.T @ (p[i][:, None] * later) - np.outer(p[i] @ means, p[j] @ means)

    extra = ahead(m, m.first, chain, p, None)[1]
    for h in range(steps):
        upto, A = range(h + 1), np.linalg.matrix_power(m.unseen, h)
        total = sum(R[h - i] @ joint(i, j) @ R[h - j].T for i in upto for j in upto)
        begun = (A @ m.first.cov @ A.T)[:2, :2]
        assert_allclose(extra[h], np.maximum(np.diag(total + begun - joint(h, h)), 0.0))


def test_a_constant_that_is_not_known_moves_all_steps_but_the_first():
    """By paths that differ by a constant; of two differences none is looked for."""
    m, rng = replace(line(2), rows=25.0), np.random.default_rng(0)
    laws = km.MeanEmbedding([[0.5, -1.0], [0.0, 2.0]]).reweighted(np.array([[0.4, 0.6]]))
    chain, p = FittedChain(Chain(np.ones(1), np.ones((1, 1))), laws, None, 0.3), np.ones((6, 1))
    e = np.zeros((3, 6, 2))
    e[1, 1:, 0] = e[2, 1:, 1] = 1.0
    paths = m.paths(replace(m.first, cov=0 * m.first.cov), e, None, rng)
    R = np.stack([paths[1] - paths[0], paths[2] - paths[0]], axis=2)
    more = UNSURE / 25 * np.einsum("hij,jk,hik->hi", R, m.cov, R)
    of_line, told = (ahead(one, m.first, chain, p, None)[1] for one in (line(2), m))
    assert_allclose(told - of_line, more, atol=1e-12)
    twice = replace(m, form=Form(2, difference=1, season=4, seasonal="difference"))
    logs = replace(m, transform=Transform.of("log", np.ones((1, 2))))
    assert not twice.doubt.any()
    assert not logs.doubt.any()


def test_innovations_of_few_rows_are_drawn_apart_and_judged_as_they_were():
    """By 1 + 8/n of their variance about their mean; no model of logarithms, where means grow."""
    rng = np.random.default_rng(2)
    y = np.cumsum(rng.standard_normal((20, 1)), axis=0) + 30.0
    series = Series(y, np.ones(20, bool), [slice(0, 20)], None, None)
    form = Form(0, "n", 1)
    plain, off, rows = series.fitted(form)
    judged = lines.Judged(form, None, np.zeros(1))
    line, apart = series.averaged([judged], False)
    assert plain.rows == rows.sum() == 19
    assert apart[rows].mean() == pytest.approx(off[rows].mean())
    assert apart[rows].var() == pytest.approx((1 + 8 / 19) * off[rows].var())
    assert line.cov[0, 0] == pytest.approx((apart[rows] ** 2).mean(), rel=1e-6)
    logs = Series(y, np.ones(20, bool), [slice(0, 20)], None, "log")
    off = logs.fitted(form)[1]
    assert_allclose(logs.averaged([judged], False)[1], off)


# ------------------------------------------------------------ least squares


def series(n: int = 120, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = np.zeros(n)
    for t in range(2, n):
        y[t] = 0.5 + 0.6 * y[t - 1] - 0.3 * y[t - 2] + rng.standard_normal()
    return y[:, None]


def as_series(Y, **changed) -> Series:
    n = len(Y)
    return Series(Y, np.ones(n, bool), [slice(0, n)], changed.get("inputs"), changed.get("name"))


def test_an_autoregression_is_that_of_statsmodels():
    ar = pytest.importorskip("statsmodels.tsa.ar_model")
    Y = series()
    m = as_series(Y).fitted(Form(2, loose=True))[0]
    want = ar.AutoReg(Y[:, 0], 2).fit()
    assert_allclose(np.r_[m.terms[0], m.coef[:, 0, 0]], want.params, rtol=1e-8)
    track = m.track(Y, np.ones(len(Y), bool), [slice(0, len(Y))])
    assert_allclose(track.mean[2:, 0], want.fittedvalues, rtol=1e-6, atol=1e-6)


def test_the_order_is_that_of_aic():
    ar = pytest.importorskip("statsmodels.tsa.ar_model")
    Y = series(400)
    s = as_series(Y)
    want = ar.ar_select_order(Y[:, 0], 8, ic="aic").ar_lags
    design = Design(Form(8, loose=True), s.Y, s.seen, s.sequences)
    found = Nested(design, np.flatnonzero(design.usable), 8).width(0.0, False)
    assert found - 1 == len(want)


def test_innovations_leave_their_row_out():
    Y = series(40)
    m, off, _ = as_series(Y).fitted(Form(1, loose=True))
    t = 17
    rows = np.array([i for i in range(1, 40) if i != t])
    X = np.c_[np.ones(39), Y[:-1]]
    coef = np.linalg.lstsq(X[rows - 1], Y[rows], rcond=None)[0]
    assert_allclose(off[t], Y[t] - X[t - 1] @ coef, rtol=1e-7)
    assert m.form.order == 1


def test_a_memory_with_a_difference_is_exponential_smoothing():
    Y = np.cumsum(np.random.default_rng(0).standard_normal((60, 1)), axis=0)
    m = as_series(Y).fitted(Form(0, "n", 1, 0.7))[0]
    track = m.track(Y, np.ones(60, bool), [slice(0, 60)])
    for t in range(1, 60):  # from some level on: what is left of the first ones is known
        weights = 0.3 * 0.7 ** np.arange(t)
        level = weights @ Y[t - 1 :: -1, 0]
        if t > 50:
            assert track.mean[t, 0] == pytest.approx(level, abs=1e-5)


def test_seasonal_forms_follow_the_season():
    t = np.arange(80)
    Y = (np.sin(np.pi * t / 2) + 0.02 * t)[:, None]
    for form in (
        Form(0, "ct", season=4, seasonal="dummies"),
        Form(0, "n", 1, 0.0, 4, "difference"),
    ):
        m = as_series(Y).fitted(form)[0]
        off = Y - m.track(Y, np.ones(80, bool), [slice(0, 80)]).mean
        assert_allclose(off[10:], 0, atol=1e-6)


def test_a_gap_is_no_news():
    """A missing row changes coefficients by about one row's worth."""
    Y = series(200)
    seen = np.ones(200, bool)
    seen[[50, 120, 121]] = False
    whole = as_series(Y).fitted(Form(2))[0]
    part = Series(np.where(seen[:, None], Y, 1e9), seen, [slice(0, 200)], None, None)
    assert_allclose(part.fitted(Form(2))[0].coef, whole.coef, atol=0.05)


# ------------------------------------------------------------ transforms


@pytest.mark.parametrize("name", ["log", "sqrt"])
def test_transforms_undo_themselves_and_have_slopes(name):
    Y = np.array([[0.5], [2.0], [7.0]])
    change = Transform.of(name, Y)
    assert_allclose(change.back(change(Y)), Y)
    step = 1e-6
    slope = (change(Y + step) - change(Y - step))[:, 0] / (2 * step)
    assert_allclose(np.exp(change.slope(change(Y))), slope, rtol=1e-8)


def test_roots_of_counts_with_zeros_do_not_see_other_columns():
    Y, units = np.array([[0.0, 3.0, 0.0], [2.0, 1.0, 0.0], [1.0, 5.0, 0.0]]), np.array([1e3, 2, 1])
    change, other = Transform.of("sqrt", Y), Transform.of("sqrt", Y * units)
    assert_allclose(other(Y * units), change(Y) * units**0.5)
    assert_allclose(change.shift, [0.375, 0, 1])


@pytest.mark.parametrize("name", [None, "log", "sqrt"])
def test_means_of_transformed_normal_laws(name):
    change, cov = Transform(name), np.array([[0.04]])
    draws = 2.0 + 0.2 * np.random.default_rng(0).standard_normal(400_000)
    assert change.mean(np.array([[2.0]]), cov)[0, 0] == pytest.approx(
        change.back(draws).mean(), rel=1e-3
    )


def test_values_that_have_no_logarithm_are_refused():
    with pytest.raises(ValueError, match="value -1; transform='log' needs positive"):
        Transform.of("log", np.array([[-1.0], [2.0]]))


@pytest.mark.parametrize(("name", "edge"), [("log", np.log(0.5)), ("sqrt", 0.0)])
def test_what_is_below_the_range_goes_on_below_it(name, edge):
    """Logarithms from that of the least row, roots from zero; the more below, the less."""
    change = replace(Transform.of(name, np.array([[0.5], [2.0]])), least=np.array([0.5]))
    Y = -np.linspace(0.0, 9.0, 50)[:, None]
    with pytest.warns(km.NumericalWarning, match="forecasts stay above zero"):
        Z = change.along(np.concatenate([[[1.7]], Y]))
    assert Z[0] == change(np.array([[1.7]]))
    assert Z[1] == pytest.approx(edge)
    assert (np.diff(Z[1:, 0]) < 0).all()


# ------------------------------------------------------------ the estimator


@pytest.fixture(scope="module")
def walk() -> np.ndarray:
    return np.cumsum(np.random.default_rng(0).standard_normal((150, 1)), axis=0)


@pytest.fixture(scope="module")
def fitted(walk) -> km.KernelStateSpace:
    return km.KernelStateSpace(backbone=km.Backbone(), em=QUICK).fit(walk)


def with_gaps(X) -> np.ndarray:
    X = X.copy()
    X[40:44] = X[-1] = np.nan
    return X


@pytest.mark.slow
def test_a_belief_streams_what_predict_says(fitted, walk):
    X, belief, found = with_gaps(walk), fitted.start(), []
    for x in X:
        found.append(belief.mean())
        belief.update(x).predict()
    assert_allclose(found, fitted.predict(X), atol=1e-9)
    assert_allclose(belief.mean(), fitted.forecast(X, 1).mean()[0], atol=1e-9)


@pytest.mark.slow
def test_the_level_may_be_millions_of_spreads(walk):
    """Heights in metres, frequencies: the constant was taken for a lag, and left out."""
    options = km.Backbone(difference=0, transform=None)
    far = walk + 2.0**24
    near = far - 2.0**24  # as they are there, to the bit
    model, here = (
        km.KernelStateSpace(backbone=options, em=QUICK).fit(X).forecast(X, 5) for X in (far, near)
    )
    assert_allclose(model.mean() - 2.0**24, here.mean(), atol=1e-5)
    assert_allclose(model.std(), here.std(), rtol=1e-4)


@pytest.mark.slow
def test_rows_of_a_stream_may_come_in_one_array_that_is_filled_anew(fitted, walk):
    kept, filled, row = fitted.start(), fitted.start(), np.empty(1)
    for x in walk[:10]:
        row[:] = x
        filled.update(row)
        row[:] = 99.0
        assert_array_equal(filled.predict().mean(), kept.update(x.copy()).predict().mean())


@pytest.mark.slow
def test_a_belief_refuses_what_a_series_would_be_refused_for(fitted, walk):
    for x, message in (
        (np.zeros((2, 1)), "one observation"),
        (np.zeros(3), "x has 3 columns"),
        ([np.inf], "x"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.start().update(x)
    options = km.Backbone(order=1, trend="c", difference=0, transform="log")
    m = km.KernelStateSpace(backbone=options, em=QUICK).fit(np.exp(walk[:60] / 9))
    for make in (lambda: m.start().update([-1.0]), lambda: m.predict([[1.0], [-1.0]])):
        with pytest.raises(ValueError, match="X has the value -1; the backbone was fitted to log"):
            make()
    assert np.isfinite(m.start().update([np.nan]).predict().mean()).all()


def test_forecasts_have_the_moments_of_paths(fitted, walk):
    ahead = fitted.forecast(with_gaps(walk), 6)
    paths = fitted.sample_paths(with_gaps(walk), 6, 20_000, random_state=1)
    assert_allclose(ahead.mean(), paths.mean(axis=0), atol=0.06)
    lower, upper = ahead.interval(0.9)
    want = np.quantile(paths, [0.05, 0.95], axis=0)
    assert_allclose([lower, upper], want, atol=0.12)


@pytest.mark.slow
def test_variances_count_how_innovations_go_together(walk):
    """The chain made sticky: what a forecast adds up is not independent."""
    m = km.KernelStateSpace(backbone=km.Backbone(order=0, difference=1), em=QUICK).fit(walk)
    K = len(m.startprob_)
    m.transmat_ = 0.1 * np.tile(m.startprob_, (K, 1)) + 0.9 * np.eye(K)
    centres = np.linspace(-2, 2, K)[:, None]
    laws = km.MeanEmbedding(centres, kernel=m.emissions_.kernel).reweighted(np.eye(K))
    m.emissions_ = laws
    ahead = m.forecast(walk, 5)
    paths = m.sample_paths(walk, 5, 20_000, random_state=1)
    width = float(m.bandwidth_)
    spread = np.sqrt(ahead.std() ** 2 + width**2)  # points of the last innovation have no width
    assert_allclose(spread, paths.std(axis=0), rtol=0.03)


def test_a_missing_row_widens_what_follows(fitted, walk):
    lower, upper = fitted.predict_interval(with_gaps(walk))
    width = (upper - lower)[:, 0]
    assert (np.diff(width[40:45]) > 0).all()
    assert width[46] == pytest.approx(width[39], rel=0.01)


def test_save_and_load(fitted, walk, tmp_path):
    fitted.save(tmp_path / "m.km")
    again = km.load(tmp_path / "m.km")
    assert_allclose(again.predict(walk), fitted.predict(walk), rtol=1e-12)
    assert again.summary() == fitted.summary()


def test_the_summary_says_how_rivals_did(fitted):
    table = fitted.summary().table
    held = table.loc["Rows held out, one step ahead", "value"]
    assert {"autoregression by AIC", "no change", "the backbone alone"} <= set(held.index)
    assert "Backbone" in fitted.summary()


def test_few_normal_innovations_are_judged_by_nearly_a_normal_law():
    """A walk of 32 rows: the line is "no change", and its law not much worse than a normal one."""
    X = np.cumsum(np.random.default_rng(0).standard_normal(32))[:, None]
    options = km.Backbone(order=0, difference=1, trend="n", transform=None)
    held = km.KernelStateSpace(backbone=options, em=QUICK).fit(X).rivals_
    line, same = held["the backbone alone"], held["no change"]
    assert line.rmse == pytest.approx(same.rmse, rel=0.05)
    assert line.loglik > same.loglik - 0.1


@pytest.mark.slow
def test_units_and_shifts_do_not_decide(walk):
    m = km.KernelStateSpace(em=QUICK).fit(walk)
    other = km.KernelStateSpace(em=QUICK).fit(3 + 1000 * walk)
    assert_allclose(other.predict(3 + 1000 * walk), 3 + 1000 * m.predict(walk), rtol=1e-3, atol=5)


GAPS = [([1, 3], [60]), ([], [55, 3, 1, 1]), ([59], [59, 1])]


@pytest.mark.parametrize(("gaps", "lengths"), GAPS)
def test_a_sequence_begins_where_others_have_been(rng, gaps, lengths):
    """In states that rows have told of, not in what was assumed before any: a level of zero."""
    Y, seen = np.cumsum(rng.standard_normal((60, 1)), axis=0), np.full(60, True)
    seen[gaps] = False
    stops = np.cumsum(lengths)
    sequences = [slice(stop - n, stop) for n, stop in zip(lengths, stops, strict=True)]
    form = Form(2, "n", 1, 0.8)
    every = [Series(A, seen, sequences, None, None) for A in (Y, Y + 1000)]
    near, far = (series.fitted(form)[0].in_units(series.units) for series in every)
    assert_allclose(far.first.mean[0], near.first.mean[0] + 1000, atol=0.1)
    assert_allclose(far.first.cov[0, 0], near.first.cov[0, 0], rtol=0.01)


@pytest.mark.parametrize("unit", [1e-12, 1e13])
def test_units_far_from_those_of_a_constant_do_not_decide(rng, unit):
    """Money in cents, beside a constant; inputs in other units than each other."""
    inputs, units = rng.standard_normal((60, 2)), np.array([1e-7, 1e7])
    Y, seen, whole = 5 + inputs @ np.ones((2, 1)), np.full(60, True), [slice(0, 60)]
    Y[1:] += 0.5 * Y[:-1] + 0.3 * rng.standard_normal((59, 1))
    options = km.Backbone(order=1, trend="c", difference=0, transform=None)
    near = lines.search(options, Y, seen, whole, inputs).line
    far = lines.search(options, unit * Y, seen, whole, inputs * units + 3).line
    assert_allclose(far.coef, near.coef, rtol=1e-6)
    scales = unit / np.r_[1, units][:, None]
    assert_allclose(far.terms / scales, near.terms, rtol=1e-6)


@pytest.mark.slow
def test_units_of_columns_do_not_decide():
    """A rate beside a national product: which line, its steps, its likelihood, and its draws."""
    rng, units = np.random.default_rng(3), np.array([2.0**-20, 2.0**20])
    X = np.cumsum(rng.normal(size=(80, 2)), axis=0) @ [[0.6, 0.2], [0.0, 0.6]]
    one, other = (km.KernelStateSpace(em=QUICK).fit(Y) for Y in (X, X * units))
    assert one.backbone_.form == other.backbone_.form
    for name, rival in one.rivals_.items():
        assert other.rivals_[name].loglik == pytest.approx(rival.loglik, abs=1e-4)
        assert_allclose(other.rivals_[name].rmse / units, rival.rmse, rtol=1e-4)
    assert_allclose(one.rivals_["no change"].rmse, np.diff(X, axis=0).std(axis=0), rtol=0.1)
    spreads = np.linalg.cholesky(one.backbone_.cov).T  # columns' standard deviations are norms
    said = ", ".join(f"{size:.4g}" for size in np.linalg.norm(spreads, axis=0))
    assert said in str(one.summary())
    assert_allclose(other.predict(X * units) / units, one.predict(X), atol=1e-4)
    gone = np.vstack([X, np.full((3, 2), np.nan)])  # whose line is not known to the end
    paths = [
        m.sample_paths(Y, 2, 50, random_state=0) for m, Y in ((one, gone), (other, gone * units))
    ]
    assert_allclose(paths[1] / units, paths[0], atol=1e-3)


@pytest.mark.slow
def test_a_random_walk_is_followed_out_of_the_range(walk):
    """States of the series itself end where the training rows did."""
    X = np.cumsum(np.random.default_rng(5).standard_normal((300, 1)), axis=0)
    m = km.KernelStateSpace(em=QUICK).fit(X[:150])
    far = X + 40.0
    off = (far - m.predict(far))[1:]
    assert (off**2).mean() < 1.2
    lower, upper = m.predict_interval(far, 0.9)
    assert 0.8 < ((lower <= far) & (far <= upper))[1:].mean() < 0.97


def test_kernels_that_cannot_smooth_have_no_backbone(walk):
    few = walk[:60]
    model = km.KernelStateSpace(kernel=km.Linear(), em=QUICK).fit(few)
    assert model.backbone_ is None
    assert np.isfinite(model.forecast(few, 2).interval()).all()
    with pytest.raises(ValueError, match="kernel is Linear.*, and a backbone or inputs are given"):
        km.KernelStateSpace(kernel=km.Linear(), backbone=km.Backbone()).fit(few)


def test_where_inputs_count_from_does_not_decide(walk):
    """Differences without a constant saw a mean of the inputs as a drift: prices are far from 0."""
    u = np.random.default_rng(1).standard_normal((80, 1))
    X, options = walk[:80] + u, km.Backbone(order=0, difference=1, trend="n")
    near, far, more = (
        km.KernelStateSpace(em=QUICK, backbone=options)
        .fit(X, inputs=inputs)
        .predict(X, None, inputs)
        for inputs in (u, u + 1000.0, np.c_[u, np.ones(80)])
    )
    assert_allclose(far, near, atol=1e-6)
    assert_allclose(more, near, atol=1e-6)


@pytest.mark.slow
def test_inputs_are_used_and_asked_for(walk):
    rng = np.random.default_rng(1)
    u = rng.standard_normal((150, 1))
    X = 2.0 * u + 0.1 * rng.standard_normal((150, 1))
    m = km.KernelStateSpace(em=QUICK).fit(X, inputs=u)
    assert ((X - m.predict(X, inputs=u)) ** 2).mean() < 0.02
    ahead = m.forecast(X, 2, inputs=u, inputs_ahead=[[1.0], [-1.0]])
    assert_allclose(ahead.mean()[:, 0], [2.0, -2.0], atol=0.15)
    assert m.sample_paths(X, 2, 3, inputs=u, inputs_ahead=[[0.0], [0.0]]).shape == (3, 2, 1)
    steps = np.ones((150, 1)) * (np.arange(150)[:, None] > 75)
    stream = np.random.default_rng(0)  # the line's start is not drawn from the chain's numbers
    assert_array_equal(m.sample(150, stream, inputs=steps)[0], m.sample(150, 0, inputs=steps)[0])
    drawn, _ = m.sample(150, 0, inputs=steps)
    assert drawn[90:].mean() > drawn[:60].mean()
    with pytest.raises(ValueError, match="inputs is None; the model was fitted with 1"):
        m.sample(3)
    with pytest.raises(ValueError, match="inputs were given, and backbone is None"):
        km.KernelStateSpace(em=QUICK, backbone=None).fit(X, inputs=u)
    with pytest.raises(ValueError, match="inputs is None; the model was fitted with 1"):
        m.predict(X)
    with pytest.raises(ValueError, match="inputs has 3 rows; 150 are needed"):
        m.predict(X, inputs=u[:3])
    belief = m.start(inputs=u[:1]).update(X[0])
    odd = {"is None": None, "2 columns": [1.0, 2.0], "NaN": [np.nan], "text": ["a"]}
    for why, given in odd.items():
        with pytest.raises(ValueError, match=f"inputs .*{why}"):
            belief.predict(given)
    assert_allclose(belief.predict(u[1]).mean(), m.predict(X[:2], inputs=u[:2])[1])


@pytest.mark.slow
def test_tables_of_inputs_are_compared_by_name_and_date():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    months = pd.period_range("2001-01", periods=80, freq="M")
    U = pd.DataFrame(rng.standard_normal((80, 2)), months, ["price", "rain"])
    X = (2.0 * U["price"] - U["rain"] + 0.1 * rng.standard_normal(80)).rename("sales")
    m = km.KernelStateSpace(em=QUICK).fit(X, inputs=U)
    ahead = pd.DataFrame({"price": [1.0], "rain": [1.0]})
    assert_allclose(m.forecast(X, 1, inputs=U, inputs_ahead=ahead).mean(), [[1.0]], atol=0.15)
    assert_allclose(m.predict(X, inputs=U), m.predict(X, inputs=U.to_numpy()))
    with pytest.raises(ValueError, match="inputs has the columns .*'rain', 'price'"):
        m.predict(X, inputs=U[["rain", "price"]])
    with pytest.raises(ValueError, match="inputs_ahead has the columns"):
        m.forecast(X, 1, inputs=U, inputs_ahead=ahead[["rain", "price"]])
    for learn in (m.fit, m.predict):
        with pytest.raises(ValueError, match="inputs has another index than X"):
            learn(X, inputs=U.iloc[::-1])


@pytest.mark.parametrize("drift", [0.02, 0.3, 1.0])
def test_a_drift_is_shrunk_by_its_doubt(drift):
    """The mean of the innovations of a line without one, times max(0, 1 − 1/t²)."""
    y = np.cumsum(drift + np.random.default_rng(5).standard_normal((60, 1)), axis=0)
    line, off, _ = as_series(y).fitted(Form(0, "n", 1, 0.35))
    moved, left = lines.drifting(line, off, np.arange(60) > 0)
    e = off[1:]
    kept = e.mean() * max(0.0, 1 - e.var() / len(e) / e.mean() ** 2)
    assert moved.form.trend == "drift"
    assert_allclose(moved.terms, [[kept]], rtol=1e-12, atol=1e-15)
    assert_allclose(left, off - kept, atol=1e-12)


def test_the_mean_of_lines_forecasts_the_mean_of_their_forecasts():
    y = np.cumsum(0.1 + np.random.default_rng(8).standard_normal((150, 2)), axis=0)
    series, whole = as_series(y), (np.ones(150, dtype=bool), [slice(0, 150)])
    forms = [
        Form(2),
        Form(1, "c", 1, 0.5),
        Form(0, "n", 1, 0.5),
        Form(0, "n", 1, 0.0, 4, "difference"),
    ]
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    found = [series.fitted(form)[0] for form in forms]
    several = sum(w * m.track(y, *whole).mean for w, m in zip(shares, found, strict=True))
    off = y - several
    one = series.begun(*mean_of(found, shares), off)
    assert_allclose(one.track(y, *whole).mean[100:], several[100:], atol=1e-5)
    assert_allclose(one.cov, off.T @ off / 150, rtol=1e-6)


def test_a_law_of_innovations_adds_no_drift():
    """Far ahead differences have the line's mean, whatever mean the law of innovations has."""
    X = np.cumsum(np.random.default_rng(3).standard_normal((80, 1)) ** 3, axis=0)
    options = km.Backbone(order=0, difference=1, trend="drift", transform=None)
    m = km.KernelStateSpace(backbone=options, em=QUICK).fit(X)
    found = lines.search(options, X, np.ones(80, dtype=bool), [slice(0, 80)])
    assert abs(m.startprob_ @ m.emissions_.mean())[0] > 1e-4
    means = m.forecast(X, 40).mean()[:, 0]
    assert np.diff(means)[-1] == pytest.approx(found.line.terms[0, 0], abs=1e-6)


def test_what_was_differenced_twice_ends_in_a_line():
    """Its forecasts are a season and a line, whatever mean the law of innovations has."""
    y = np.tile([0.0, 3.0, -1.0, 2.0], 20) + np.random.default_rng(4).standard_normal(80) ** 3
    X = np.cumsum(y)[:, None]
    options = km.Backbone(order=0, difference=1, season=4, transform=None)
    assert {form.trend for form in lines.forms(0, options) if form.lost == 5} == {"n"}
    free = lines.forms(0, km.Backbone(season=4))
    assert {form.trend for form in free if form.by_difference} == {"n"}
    line = as_series(X).fitted(Form(0, "n", 1, 0.35, 4, "difference", 0.5))[0]
    moved, whole = line.centred(np.array([0.7])), (np.ones(80, dtype=bool), [slice(0, 80)])
    past = moved.track(X, *whole).last[0]
    e = np.full((1, 40, 1), 0.7)
    ahead = moved.paths(past, e, None, np.random.default_rng(0))[0, :, 0]
    assert_allclose(np.diff(ahead[4:] - ahead[:-4]), 0.0, atol=1e-8)
    bent = line.paths(past, e, None, np.random.default_rng(0))[0, :, 0]
    assert abs(np.diff(bent[4:] - bent[:-4])).min() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("n", [36, 50, 60])
def test_few_years_of_months_have_a_season(rng, n):
    """However long the memory of it: the past of no row is then known."""
    season = 3 * np.sin(np.arange(n + 12) * np.pi / 6) ** 3 + np.arange(n + 12) / 20
    X = (season + 0.3 * rng.standard_normal(n + 12))[:, None]
    m = km.KernelStateSpace(backbone=km.Backbone(season=12), em=QUICK).fit(X[:n])
    naive = np.mean((X[n:] - X[n - 12 : -12]) ** 2)
    assert np.mean((m.predict(X) - X)[n:] ** 2) < 0.8 * naive


def test_the_better_half_of_rows_is_used_where_no_past_is_known(rng):
    form = Form(0, "n", 1, 0.95, 12, "difference", 0.85)
    months = np.arange(60)[:, None] * np.pi / 6
    Y = 5 * np.sin(months) + 0.3 * rng.standard_normal((60, 1))
    series = Series(Y, np.ones(60, bool), [slice(0, 60)], None, None)
    line, _, usable = series.fitted(form)
    assert line.settled(series.track(line).wide).sum() < 30
    assert usable.sum() == 30
    assert usable[32:].all()


def test_a_season_is_forecast_in_the_units_of_the_series():
    rng = np.random.default_rng(2)
    t = np.arange(132)
    X = np.exp(4 + 0.01 * t + 0.3 * np.sin(np.pi * t / 6) + 0.03 * rng.standard_normal(132))[
        :, None
    ]
    m = km.KernelStateSpace(backbone=km.Backbone(season=12), em=QUICK).fit(X[:120])
    assert m.backbone_.transform.name == "log"
    ahead = m.forecast(X[:120], 12)
    assert (abs(ahead.mean() - X[120:]) / X[120:]).mean() < 0.06
    assert (ahead.sample(50, 0) > 0).all()
    # the density is one of X, not of its logarithm
    grid = np.linspace(1, 400, 1000)[:, None]
    first = ahead[[0]].density(grid)[0]
    assert np.trapezoid(first, grid[:, 0]) == pytest.approx(1, abs=0.02)
    with pytest.raises(ValueError, match="Y has 2 columns"):
        ahead.density(np.ones((3, 2)))


@pytest.fixture
def of_many_rows(monkeypatch):
    """Lines as if learned from so many rows that laws of logarithms and of others are alike."""
    for name in ("OPTIMISM", "UNSURE"):
        monkeypatch.setattr(backbone, name, 0.0)


@pytest.mark.slow
def test_logarithms_of_a_model_of_logarithms(of_many_rows):
    rng = np.random.default_rng(4)
    z = 0.1 * np.cumsum(rng.standard_normal((120, 1)), axis=0)
    options = km.Backbone(order=1, trend="c", difference=0, transform="log")
    m = km.KernelStateSpace(backbone=options, em=QUICK).fit(np.exp(z))
    plain = km.KernelStateSpace(backbone=replace(options, transform=None), em=QUICK).fit(z)
    assert_allclose(m.log_predictive(np.exp(z)), plain.log_predictive(z) - z[:, 0], atol=1e-6)
    median = m.predict_quantile(np.exp(z), 0.5)
    assert_allclose(median, np.exp(plain.predict_quantile(z, 0.5)), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log", "sqrt"])
def test_rows_below_zero_are_answered_where_nobody_asked_for_a_transform(
    name, tmp_path, of_many_rows
):
    """As a model of z answers for what they are taken for; asked for, they are refused."""
    z = 0.6 * lfilter(
        [1.0], [1.0, -0.8], np.random.default_rng(4).standard_normal((200, 1)), axis=0
    )
    z, back = (z, np.exp) if name == "log" else (abs(z + 2), lambda z: np.maximum(z, 0.0) ** 2)
    options = km.Backbone(order=1, trend="c", difference=0)
    X = back(z)
    m = km.KernelStateSpace(backbone=options, em=QUICK).fit(X)
    assert m.backbone_.transform.name == name
    plain = km.KernelStateSpace(backbone=replace(options, transform=None), em=QUICK).fit(z)
    Y, least = X.copy(), X.min()
    Y[120], Y[150], z[150] = -3.0, np.nan, np.nan
    Y[151] = -0.2  # after a gap
    for t in (120, 151):
        z[t] = np.log(least**2 / (least - Y[t])) if name == "log" else -np.sqrt(-Y[t])
    m.save(tmp_path / "m")
    with pytest.warns(km.NumericalWarning, match="X has the value -3; the backbone was fitted to"):
        median, logs = m.predict_quantile(Y, 0.5), km.load(tmp_path / "m").log_predictive(Y)
    assert_allclose(median, back(plain.predict_quantile(z, 0.5)), rtol=1e-6)
    slopes = -z if name == "log" else -np.log(2 * abs(z))
    assert_allclose(logs, plain.log_predictive(z) + np.nan_to_num(slopes[:, 0]), atol=1e-6)
    asked = km.KernelStateSpace(backbone=replace(options, transform=name), em=QUICK).fit(X)
    with pytest.raises(ValueError, match="X has the value -3; the backbone was fitted to"):
        asked.predict(Y)


def test_rows_below_zero_before_those_that_forms_are_compared_on(monkeypatch):
    """A logarithm was taken for the last rows, and then refused those before."""
    monkeypatch.setattr(lines, "COMPARED", 200)
    shocks = np.random.default_rng(0).standard_normal((250, 1))
    X = np.exp(lfilter([1.0], [1.0, -0.8], shocks, axis=0))
    rows = np.ones(250, bool), [slice(0, 250)]
    assert lines.search(km.Backbone(), X, *rows).line.transform.name == "log"
    X[3] = -1.0
    assert lines.search(km.Backbone(), X, *rows).line.transform.name is None


def test_laws_of_two_logarithms_do_not_depend_on_those_beside():
    """Means were of draws that went on from law to law; what widens is of each column alone."""
    shock = np.random.default_rng(0).standard_normal((100, 2)) @ [[1.0, 0.9], [0.0, 0.4]]
    X = np.exp(0.1 * np.cumsum(shock, axis=0))
    options = km.Backbone(order=0, trend="n", difference=1, transform="log")
    ahead = km.KernelStateSpace(backbone=options, em=QUICK).fit(X).forecast(X, 4)
    last = ahead[3]
    assert_allclose(ahead.mean()[3], last.mean(), rtol=1e-3)
    assert_allclose(ahead.std()[3], last.std(), rtol=1e-2)
    assert ahead.probability(lambda Y: Y[:, 0] > Y[:, 1])[3] == last.probability(
        lambda Y: Y[:, 0] > Y[:, 1]
    )
    for level in (0.001, 0.999):
        lower, upper = last.interval(level, "shortest")
        assert (lower < upper).all()
    with pytest.raises(ValueError, match="level is 95"):
        last.interval(95, "shortest")
    drawn = np.corrcoef(last.sample(4000, 0).T)[0, 1]
    assert last.cov()[0, 1] / np.prod(last.std()) == pytest.approx(drawn, abs=0.05)


def test_the_mode_beside_logarithms_is_the_top_of_their_density():
    """It was where the density of the logarithm is highest: e^m, not e^(m − s²)."""
    z = np.random.default_rng(3).normal(1.0, 0.6, size=(200, 1))
    options = km.Backbone(order=0, trend="c", difference=0, transform="log")
    ahead = km.KernelStateSpace(backbone=options, em=QUICK).fit(np.exp(z)).forecast(np.exp(z), 2)
    grid = np.linspace(0.05, 8.0, 2000)[:, None]
    top = grid[ahead.density(grid).argmax(axis=1)]
    assert_allclose(ahead.mode(), top, rtol=0.02)
    assert_allclose(ahead[1].mode(), ahead.mode()[1])
    assert (ahead.mode() < 0.9 * ahead.quantile(0.5)).all()


@pytest.mark.parametrize("far", [50.0, 1e4])
def test_no_row_is_impossible_where_a_sequence_begins(fitted, walk, far):
    """Nor is one whose density is less than the least number: its logarithm was −∞."""
    X, Y = walk[:20].copy(), walk[:20].copy()
    X[0] += far * walk.std()
    Y[0] += 2 * far * walk.std()
    with pytest.warns(km.NumericalWarning, match="outside the range"):
        near, farther = fitted.log_predictive(X), fitted.log_predictive(Y)
    assert np.isfinite(near).all()
    assert farther[0] < near[0]


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2])
def test_rows_after_gaps_have_the_density_of_their_mixture(rng, d):
    """Normal laws around all rows, in widths of each row's own; and a little of a wide one."""
    X = np.cumsum(rng.standard_normal((150, d)), axis=0)
    X[40:43] = X[60] = X[100] = np.nan
    m = km.KernelStateSpace(backbone=km.Backbone(), kernel=km.Gaussian(), em=QUICK).fit(X)
    rows, course = m._course(X)
    chain, unsure = m.chain_, np.flatnonzero(~np.isnan(course.Z[:, 0]) & ~rows.seen)
    laws = chain.predicted(rows) @ chain.emissions.weights
    points, found = chain.emissions.points, m.log_predictive(X)
    assert len(unsure) >= 3
    for t in unsure:
        off, width = X[t] - course.track.mean[t], np.square(chain.bandwidth) + course.extra[t]
        near = laws[t] @ norm.pdf(off, points, np.sqrt(width)).prod(axis=1)
        spread = laws[t] @ points**2 - (laws[t] @ points) ** 2
        far = norm.pdf(off, laws[t] @ points, 4.0 * np.sqrt(spread + width)).prod()
        assert found[t] == pytest.approx(np.log((1 - 1e-4) * near + 1e-4 * far), abs=1e-10)


@pytest.mark.slow
def test_counts_with_zeros():
    X = np.random.default_rng(0).poisson(3.0, (150, 1)).astype(float)
    m = km.KernelStateSpace(backbone=km.Backbone(transform="sqrt"), em=QUICK).fit(X)
    lower, upper = m.predict_interval(X, 0.9)
    assert lower.min() >= 0
    assert m.predict(X).mean() == pytest.approx(3.0, abs=0.4)
    assert upper.max() < 9


@pytest.mark.slow
def test_dates_come_out():
    pd = pytest.importorskip("pandas")
    index = pd.date_range("2000-01-31", periods=100, freq="ME")
    X = pd.Series(np.cumsum(np.random.default_rng(0).standard_normal(100)), index, name="level")
    m = km.KernelStateSpace(backbone=km.Backbone(), em=QUICK).fit(X)
    frame = m.forecast(X, 3).to_frame()
    pd.testing.assert_index_equal(frame.index, pd.date_range("2008-05-31", periods=3, freq="ME"))
    assert frame.index.freq == index.freq
    quarters = X.set_axis(pd.period_range("1990Q1", periods=100, freq="Q", name="quarter"))
    again = m.forecast(quarters, 3).to_frame()
    want = pd.period_range("2015Q1", periods=3, freq="Q", name="quarter")
    pd.testing.assert_index_equal(again.index, want)
    assert_allclose(again, frame)
    assert frame.columns[0] == "level"


@pytest.mark.slow
def test_quantiles_are_found_block_by_block(fitted, walk, monkeypatch):
    """Memory is that of a block; laws are quantiles of their own rows, whatever comes with them."""
    gone = walk.copy()
    gone[40] = np.nan  # what follows is wider
    plain = km.KernelStateSpace(backbone=None, em=QUICK).fit(walk)
    for model in (fitted, plain):
        whole = model.predict_quantile(gone, [0.1, 0.9])
        monkeypatch.setattr("kernelmean.chains.results.block_rows", lambda width: 60)
        assert_allclose(model.predict_quantile(gone, [0.1, 0.9]), whole, rtol=1e-3, atol=1e-3)
        assert_allclose(
            model.predict_quantile(gone, 0.5), model.predict_quantile(gone, [0.5])[:, 0]
        )
        monkeypatch.undo()


@pytest.mark.slow
def test_tune_keeps_the_line(walk):
    m = km.KernelStateSpace(em=QUICK).tune(walk[:110], walk[110:], widths=[1], guards=[1])
    assert m.backbone == m.backbone_.options
    assert m.n_latent == 1
    plain = km.KernelStateSpace(backbone=None, em=QUICK).fit(walk[:110])
    assert plain._near(1, 1, 1, None).backbone is None


@pytest.mark.slow
def test_several_sequences(walk):
    X = np.concatenate([walk[:70], walk[70:]])
    m = km.KernelStateSpace(backbone=km.Backbone(), em=QUICK).fit(X, lengths=[70, 80])
    both = m.predict(X, lengths=[70, 80])
    assert_allclose(both[70:], m.predict(X[70:]), atol=1e-8)
    ahead = m.forecast(X, 2, lengths=[70, 80])
    assert_allclose(ahead.mean()[2:], m.forecast(X[70:], 2).mean(), atol=1e-8)


@pytest.mark.slow
def test_what_moves_together_is_a_vector_autoregression():
    rng = np.random.default_rng(0)
    Y = np.zeros((200, 2))
    A = np.array([[0.5, 0.4], [-0.3, 0.6]])
    for t in range(1, 200):
        Y[t] = A @ Y[t - 1] + rng.standard_normal(2)
    options = km.Backbone(order=1, trend="c", difference=0, transform=None)
    m = km.KernelStateSpace(backbone=options, em=QUICK).fit(Y)
    assert_allclose(m.backbone_.gain[:2], A, atol=0.15)
    assert m.predict_interval(Y)[0].shape == (200, 2)
    assert m.forecast(Y, 3).cov().shape == (3, 2, 2)
    swapped = km.KernelStateSpace(backbone=options, em=QUICK).fit(Y[:, ::-1])
    assert_allclose(swapped.predict(Y[:, ::-1])[:, ::-1], m.predict(Y), atol=0.02)


def test_a_column_that_never_changes_is_not_beyond_what_was_learned():
    """Rounding left it innovations of 1e-14, and all rows were told to lie outside."""
    rng = np.random.default_rng(0)
    y = np.convolve(rng.standard_normal(160), 0.7 ** np.arange(10))[:150]
    Y = np.column_stack([y, np.full(150, 3.0)])
    model = km.KernelStateSpace(em=QUICK).fit(Y[:100])
    assert_allclose(model.predict(Y)[:, 1], 3.0, rtol=1e-10)  # a warning would be an error
    with pytest.warns(km.NumericalWarning, match="lie outside the range"):
        model.predict(Y + np.array([0.0, 1e-6]))


def test_too_few_rows_for_a_line():
    with pytest.raises(ValueError, match="too few rows"):
        km.KernelStateSpace(backbone=km.Backbone(order=10)).fit(np.arange(20.0)[:, None] ** 0.5)


@pytest.mark.parametrize(
    ("season", "order", "inputs"), [(4, "auto", 0), (12, "auto", 0), (12, 2, 0), (4, 1, 2)]
)
def test_as_few_rows_as_the_error_says(season, order, inputs):
    """It said three seasons, and six rows for a lag: twelve quarters were refused."""
    n = 2 * season + 8 + 4 * (order if order != "auto" else 0) + 2 * inputs
    rng = np.random.default_rng(0)
    Y, U = rng.standard_normal((n, 1)), rng.standard_normal((n, inputs)) if inputs else None
    options, everything = km.Backbone(order=order, season=season), np.ones(n, dtype=bool)
    assert lines.search(options, Y, everything, [slice(0, n)], U)
    fewer = None if U is None else U[1:]
    assert lines.search(options, Y[1:], everything[1:], [slice(0, n - 1)], fewer) is None
    with pytest.raises(ValueError, match="two seasons and eight rows"):
        km.KernelStateSpace(backbone=options).fit(Y[1:], inputs=fewer)


@pytest.mark.parametrize(
    ("field", "value"), [("order", -1), ("trend", "ctt"), ("difference", 2), ("season", 1)]
)
def test_bad_options(field, value):
    with pytest.raises(ValueError, match=f"backbone.{field} is"):
        km.KernelStateSpace(backbone=km.Backbone(**{field: value})).fit(np.ones((9, 1)))


def test_the_simplest_of_the_best():
    """Numbers are charged; the first form stays unless another is clearly better."""
    noise = np.random.default_rng(0).standard_normal(100)
    near, best = (lines.Judged(Form(p), None, noise + gain) for p, gain in ((1, 0.099), (5, 0.1)))
    assert near.score > best.score
    assert near.score > replace(near, transform="log").score
    assert clearly(best.loglik - noise, lines.CLEAR)
    assert not clearly(0.3 * np.random.default_rng(1).standard_normal(100), lines.CLEAR)


@pytest.mark.parametrize(("gain", "season", "kept"), [(0.5, 0, 1), (0.5, 12, 2), (50.0, 0, 2)])
def test_a_transform_is_believed_where_it_is_clearly_likelier(gain, season, kept):
    """Beside a season that is not asked for."""
    wave = 4 * np.sin(np.arange(100.0))
    plain = lines.Judged(Form(1, season=season), None, np.zeros(100))
    log = replace(plain, transform="log", loglik=wave - wave.mean() + gain / 100)
    found = lines.believed([plain, log])
    assert found == (sorted([plain, log], key=lambda j: -j.score) if kept == 2 else [plain])


@pytest.mark.parametrize("form", [Form(3), Form(3, "n", 1)])
def test_lags_are_shrunk_as_dense_ridge_regression(form):
    """By the normal equations, lag l's precision l² times the mean square of an innovation."""
    Y = np.cumsum(np.random.default_rng(3).standard_normal((60, 2)), axis=0) * [1.0, 7.0]
    m = as_series(Y).fitted(form)[0].in_units(as_series(Y).units)
    u = np.diff(Y, axis=0) if form.difference else Y
    X = np.hstack([u[3 - lag : -lag] for lag in (1, 2, 3)])
    size = (u[3:] if form.difference else u[2:-1] - u[3:]).var(axis=0)
    precision = np.kron([1.0, 4.0, 9.0], size)
    start = np.zeros((6, 2)) if form.difference else np.eye(6, 2)  # no change, of y or of u
    X = X if form.difference else np.c_[np.ones(len(X)), X]
    k = X.shape[1] - 6
    P = np.diag(np.r_[np.zeros(k), precision])
    want = np.linalg.solve(X.T @ X + P, X.T @ u[3:] + P[:, k:] @ start)
    found = as_series(Y)
    assert_allclose(Design(form, Y, found.seen, found.sequences).least_squares[0], want)
    if not form.difference:
        assert_allclose(m.coef.transpose(0, 2, 1).reshape(6, 2), want[1:])


def test_shrunk_innovations_leave_their_row_out():
    s = as_series(series(40))
    design = Design(Form(2), s.Y, s.seen, s.sequences)
    rows = np.flatnonzero(design.usable)
    both = np.r_[design.prior(rows), np.c_[design.X, design.U][rows]]
    less = np.delete(both, 2 + 10, axis=0)
    coef = np.linalg.lstsq(less[:, :3], less[:, 3:], rcond=None)[0]
    want = design.U[rows[10]] - design.X[rows[10]] @ coef
    assert_allclose(s.fitted(Form(2))[1][rows[10]], want, rtol=1e-7)


def test_no_constant_of_a_difference_is_taken_unasked():
    """It would go on for ever as it is; what is left of a line is shrunk by its doubt."""
    found = [form for form in lines.forms(4, km.Backbone()) if form.difference]
    assert {form.trend for form in found} == {"n"}
    assert {form.order for form in found if form.memory} == {4}
    asked = lines.forms(4, km.Backbone(trend="c", difference=1))
    assert {form.trend for form in asked} == {"c"}


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_a_dozen_rows_have_a_line(unit):
    """The population of the United States, 1790 to 1910; without one 1920 was below 1910."""
    past = [3.93, 5.31, 7.24, 9.64, 12.9, 17.1, 23.2, 31.4, 39.8, 50.2, 62.9, 76.0, 92.0]
    past = unit * np.array(past)[:, None]
    ahead = km.KernelStateSpace(random_state=0).fit(past).forecast(past, 2).mean()[:, 0] / unit
    assert_allclose(ahead, [105.7, 122.8], rtol=0.1)


def test_columns_that_are_copies():
    """The covariance of their errors is singular: they ended in a LinAlgError.

    Lags of a column's own are shrunk otherwise than those of others, so that forecasts of a copy
    are no exact copies: they are within a tenth of their standard deviation.
    """
    y = 50 + 0.3 * np.arange(80) + np.random.default_rng(0).standard_normal(80)
    Y = np.column_stack([y, 2 * y + 1])
    model = km.KernelStateSpace(em=QUICK).fit(Y)
    ahead = model.forecast(Y, 2)
    off = ahead.mean()[:, 1] - 2 * ahead.mean()[:, 0] - 1
    assert (abs(off) < 0.1 * ahead.std()[:, 1]).all()
    assert np.isfinite(model.log_predictive(Y)).all()


@pytest.mark.filterwarnings("ignore::kernelmean.NumericalWarning")
def test_a_series_that_jumps_once():
    """All innovations but one are rounding, of a median distance of 1e-17: no answer came of it."""
    y = np.where(np.arange(108) < 96, 1.0, 5.0)[:, None]
    model = km.KernelStateSpace(em=QUICK).fit(y)
    assert_allclose(model.predict(y)[-1], 5.0, atol=1.0)
    lower, upper = model.forecast(y, 3).interval(0.9)
    assert (lower < 5.0).all()
    assert (upper > 5.0).all()


def test_the_mean_of_a_law_of_logarithms_is_not_all_tail():
    """Twelve rows over eight decades: it was 47 times their range, for a normal law's is."""
    y = np.exp(np.random.default_rng(2).uniform(-9.0, 9.0, 12))[:, None]
    model = km.KernelStateSpace(backbone=km.Backbone(transform="log"), em=QUICK).fit(y)
    ahead, most = model.forecast(y, 12), 10 * y.max()
    assert (ahead.mean() < 0.5 * most).all()
    assert ahead.extrapolated[-1]
    paths = model.sample_paths(y, 12, 50, random_state=0)
    for values in (ahead.quantile([0.01, 0.99]), ahead.sample(50, 0), paths, model.predict(y)):
        assert values.max() <= most * (1 + 1e-12)
    calm = np.exp(0.1 * np.random.default_rng(2).standard_normal((40, 1)))
    model = km.KernelStateSpace(backbone=km.Backbone(transform="log"), em=QUICK).fit(calm)
    assert model.forecast(calm, 12).extrapolated is None


def test_rivals_are_judged_in_the_units_of_the_series():
    """Errors of the autoregression of logarithms were told as they are: of logarithms."""
    y = 1000 * np.exp(0.3 * np.random.default_rng(0).standard_normal((60, 1)))
    rivals = [
        km.KernelStateSpace(backbone=km.Backbone(transform=name), em=QUICK).fit(y).rivals_
        for name in (None, "log")
    ]
    plain, logs = (found["autoregression by AIC"] for found in rivals)
    assert logs.rmse == pytest.approx(plain.rmse, rel=0.1)
    assert logs.loglik == pytest.approx(plain.loglik, abs=0.1)


@pytest.mark.filterwarnings("ignore:.*lie outside the range")
@pytest.mark.parametrize("shape", [(40, 4), (11, 3)], ids=["many columns", "few rows"])
def test_walks_in_several_columns_are_about_no_change(shape):
    """With more than three columns, and where rows are too few for any form to be judged."""
    n, d = shape
    X = np.random.default_rng(117400).normal(size=(n + 20, d)).cumsum(axis=0)
    model = km.KernelStateSpace().fit(X[:n])
    off, still = (model.predict(X) - X)[n:], np.diff(X, axis=0)[n - 1 :]
    assert model.backbone_.form.difference == 1
    assert (off**2).mean() < 1.3 * (still**2).mean()
    low, high = model.forecast(X, 12).interval(0.9)
    wide = high - low
    assert (wide[-1] > 1.5 * wide[0]).all()


def test_numbers_of_numpy_are_numbers():
    """A grid's np.int64(1) was refused as none of 0 and 1."""
    y = np.cumsum(np.random.default_rng(0).standard_normal((30, 1)), axis=0)
    m = km.KernelStateSpace(backbone=km.Backbone(0, difference=np.int64(1)), em=QUICK).fit(y)
    assert m.backbone_.form.difference == 1


def test_constant_columns_have_quantiles():
    """What rounding leaves of them, 5e-15, had a bandwidth too small for its own values."""
    Y = np.full((40, 3), 19.6647265)
    Y[:, 2] += np.random.default_rng(0).standard_normal(40).cumsum() / 10
    ahead = km.KernelStateSpace(em=QUICK, random_state=0).fit(Y).forecast(Y, 5)
    assert_allclose(ahead.quantile(0.5)[:, :2], 19.6647265, rtol=1e-6)
