"""Rows whose noise goes together: sums within clusters stand where rows would."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import f as fisher

import kernelmean as km
from kernelmean.core.checks import NumericalWarning
from kernelmean.instruments import groups
from kernelmean.instruments.clusters import Clusters, error_of_mean
from kernelmean.instruments.second_stage import (
    CONTROL,
    CausalLeaveClustersOut,
    SecondStage,
    without,
)


def village(seed: int, G: int = 40, size: int = 10, slope=lambda x: x):
    """Instruments, confounding and noise that villages share, rows in no order."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.repeat(np.arange(G), size))

    def shared(own: float = 0.3):
        return rng.normal(size=G)[label] + own * rng.normal(size=len(label))

    z, v = shared(), shared()
    x = z + 0.7 * v
    return x[:, None], slope(x) + v + 0.5 * rng.normal(size=len(x)), z[:, None], label


def test_sums_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    names = rng.choice(["a", "b", "c", "d"], 30)
    with pytest.warns(NumericalWarning, match="4 clusters"):
        clusters = Clusters.of(names, 30)
    scores = rng.normal(size=(30, 3))
    direct = [scores[names == name].sum(0) * (4 / 3) ** 0.5 for name in sorted(set(names))]
    assert_allclose(clusters.sums(scores), direct)
    some = clusters.at(names != "b")  # a cluster without rows is still counted
    assert_allclose(some.sums(scores[names != "b"])[[0, 2, 3]], np.array(direct)[[0, 2, 3]])


def test_two_stage_least_squares_has_linearmodels_standard_errors():
    IV2SLS = pytest.importorskip("linearmodels").IV2SLS
    X, y, Z, label = village(1, 100, 5)
    C = np.random.default_rng(2).normal(size=(100, 1))[label] + 1.0
    iv = km.KernelIV("linear", "linear").fit(X, y, Z, C, clusters=label)
    about = {"cov_type": "clustered", "clusters": label}
    theirs = IV2SLS(y, np.column_stack([np.ones(500), C]), X, Z).fit(**about)
    found = [iv.average_derivative(column=j).error for j in (0, 1)]
    factor = (100 / 99) ** 0.5
    assert_allclose(found, factor * theirs.std_errors.iloc[[2, 1]], rtol=0.01)  # ours: ridge 1/n
    rows = km.KernelIV("linear", "linear").fit(X, y, Z, C)
    assert_allclose(iv.coef_, rows.coef_, rtol=1e-10)
    assert found[0] > 1.5 * rows.average_derivative().error


def test_names_of_clusters_choose_nothing():
    """Numbers in a list stand in the order of texts, in an array in that of numbers."""
    X, y, Z, label = village(3, 24, 3, np.abs)
    fits = [km.KernelIV().fit(X, y, Z, clusters=names) for names in (label, -label, label.tolist())]
    for other in fits[1:]:
        assert_allclose(other.predict(X), fits[0].predict(X), rtol=1e-8, atol=1e-8)
        limits, known = (fit.predict_interval(X) for fit in (other, fits[0]))
        assert_allclose(limits, known, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("split", ["loo", 3, 0.5, "samples"])
def test_a_row_each_is_no_cluster(split, monkeypatch):
    X, y, Z, _ = village(3, 30, 4, np.abs)
    if split == "samples":
        some = np.arange(120) % 3
        X, y = np.where(some[:, None] == 1, np.nan, X), np.where(some == 2, np.nan, y)
    iv, own = (
        km.KernelIV(split=split, random_state=0, trend=1, tune_lengthscale=False).fit(
            X, y, Z, clusters=clusters
        )
        for clusters in (None, np.arange(120))
    )
    factor = 120 / 119
    at = np.linspace(-1, 1, 5)[:, None]
    assert_allclose(own.predict(at), iv.predict(at), atol=1e-5)  # other landmarks
    spread = km.KernelIV("linear", "linear", split=split, random_state=0)
    V = spread.fit(X, y, Z).covariance_
    V_own = spread.fit(X, y, Z, clusters=np.arange(120)).covariance_
    assert_allclose(V_own, factor * V, rtol=1e-8, atol=1e-12)
    assert own.specification_p_ == pytest.approx(iv.specification_p_, abs=0.01)
    if split == "loo":
        assert own.endogeneity_test().p_value == pytest.approx(
            iv.endogeneity_test().p_value, abs=0.01
        )
        monkeypatch.setattr(groups, "KEPT", 1)  # coordinates are made again in blocks
        monkeypatch.setattr(groups, "LOOKED_AT", 50)
        again = km.KernelIV("linear", "linear").fit(X, y, Z, clusters=np.arange(120))
        assert_allclose(again.covariance_, V_own, rtol=0.05)


def test_copies_in_clusters_of_their_own_say_nothing_more():
    X, y, Z, _ = village(4, 900, 1)
    once = km.KernelIV("linear", "linear").fit(X, y, Z, clusters=np.arange(900))
    thrice = km.KernelIV("linear", "linear").fit(
        *(np.repeat(part, 3, axis=0) for part in (X, y, Z)), clusters=np.repeat(np.arange(900), 3)
    )
    found, same = thrice.average_derivative(), once.average_derivative()
    assert found.value == pytest.approx(same.value, rel=2e-3)  # the ridge is 1/n
    assert found.error == pytest.approx(same.error, rel=0.01)
    assert thrice.first_stage().linear == pytest.approx(once.first_stage().linear, rel=1e-6)
    assert_allclose(thrice.anderson_rubin().intervals, once.anderson_rubin().intervals, rtol=1e-6)


def test_anderson_rubin_is_the_set_of_clustered_tests_that_do_not_refuse():
    X, y, Z, label = village(5)
    iv = km.KernelIV("linear", "linear").fit(X, y, Z, clusters=label)
    (found,) = iv.anderson_rubin(level=0.9).intervals

    def refused(theta: float) -> bool:
        u, w = y - theta * X[:, 0], Z[:, 0] - Z.mean()
        sums = np.array([(w * (u - u.mean()))[label == g].sum() for g in range(40)])
        return sums.sum() ** 2 / (40 / 39 * sums @ sums) > fisher.ppf(0.9, 1, 39)

    for end, inwards in zip(found, (1e-6, -1e-6), strict=True):
        assert refused(end - inwards)
        assert not refused(end + inwards)
    two = km.KernelIV("linear", "linear").fit(X, y, np.hstack([Z, Z**2]), clusters=label)
    with pytest.raises(ValueError, match="clusters needs one instrument; here are 2"):
        two.anderson_rubin()
    assert "slope of a line, robust" not in str(two.summary())


@pytest.mark.parametrize("size", [2, 25])  # fewer rows than columns, and more
def test_clusters_left_out_are_refits_without_them(size):
    rng = np.random.default_rng(9)
    n, p, xis = 5 * size, 2, np.array([1e-2, 1.0])
    clusters = Clusters(rng.permutation(np.repeat(np.arange(5), size)), 5)
    M, Phi = rng.normal(size=(2, n, 8))
    y, V = rng.normal(size=n), rng.normal(size=(n, 3))
    stage = SecondStage(M.T @ M / n, M.T @ y / n, p, n, y @ y / n)
    loss = CausalLeaveClustersOut(stage, Phi, M, y, V, clusters)
    projected, causal = loss.errors(xis)
    controlled = without(V, causal, clusters)
    say = np.linalg.inv(V.T @ V / n + CONTROL * np.eye(3))
    for k, xi in enumerate(xis):
        A = n * np.linalg.inv(stage.inverse_at(xi))
        for own in (clusters.codes == g for g in range(5)):
            b = np.linalg.solve(A - M[own].T @ M[own], M[~own].T @ y[~own])
            assert_allclose(projected[k, own], y[own] - M[own] @ b, rtol=1e-7)
            assert_allclose(causal[k, own], y[own] - Phi[own] @ b, rtol=1e-7)
            square = n * np.linalg.inv(say) - V[own].T @ V[own]
            slopes = np.linalg.solve(square, V[~own].T @ causal[k, ~own])
            assert_allclose(controlled[k, own], causal[k, own] - V[own] @ slopes, rtol=1e-6)


def test_rows_looked_at_stand_for_all_of_their_cluster():
    rng = np.random.default_rng(11)
    some = Clusters(np.arange(60) % 5, 5)
    M, Phi = rng.normal(size=(2, 60, 6))
    y, V = rng.normal(size=60), rng.normal(size=(60, 2))
    stage = SecondStage(M.T @ M / 60, M.T @ y / 60, 2, 240, y @ y / 60)
    M4, Phi4, y4, V4 = (np.tile(part, (4, *np.ones(part.ndim - 1, int))) for part in (M, Phi, y, V))
    every = Clusters(np.tile(some.codes, 4), 5)
    whole = CausalLeaveClustersOut(stage, Phi4, M4, y4, V4, every).errors([1e-3, 1.0])
    for few, all_rows in zip(
        CausalLeaveClustersOut(stage, Phi, M, y, V, some).errors([1e-3, 1.0]), whole, strict=True
    ):
        assert_allclose(few, all_rows[:, :60], rtol=1e-8)


@pytest.mark.slow
def test_more_rows_of_the_same_clusters_make_nothing_surer():
    """Of more than 10,000 rows some are looked at, of as many clusters."""
    IV2SLS = pytest.importorskip("linearmodels").IV2SLS
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(100), 250)

    def shared():
        return rng.normal(size=100)[label] + 0.3 * rng.normal(size=25_000)

    z, v = shared(), shared()
    iv = km.KernelIV("gaussian", trend=1, tune_lengthscale=False)
    x = 0.3 * z + v
    theirs = IV2SLS(v, np.ones((25_000, 1)), x, z).fit(cov_type="clustered", clusters=label)
    strength = iv.fit(x[:, None], v, z[:, None], clusters=label).first_stage()
    assert strength.linear == pytest.approx(theirs.first_stage.diagnostics["f.stat"], rel=0.05)
    assert strength.f < 1.5 * strength.linear
    x = z + 0.1 * v
    iv.fit(x[:, None], 5.0 * np.abs(x) + 0.1 * v, z[:, None], clusters=label)
    spread = error_of_mean(iv.derivative(x[:, None]), Clusters(label, 100))
    assert iv.average_derivative().error == pytest.approx(spread, rel=0.1)


@pytest.mark.slow
def test_a_line_of_three_values_is_no_surer_than_shifts_of_all_rows():
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(60), 400)
    shared = rng.normal(size=60)[label] + 0.3 * rng.normal(size=24_000)
    v = rng.normal(size=60)[label]
    x = np.digitize(shared + 0.5 * v + 0.3 * rng.normal(size=24_000), [-0.7, 0.7]).astype(float)
    rows = x[:, None], x + v + 0.5 * rng.normal(size=24_000), shared[:, None]
    line, shifts = (
        km.KernelIV(kernel).fit(*rows, clusters=label).contrast([[1.0], [2.0]], [[0.0], [0.0]])
        for kernel in ("gaussian", {"x0": "category"})
    )
    assert np.all(line.error >= shifts.error)


@pytest.mark.slow
def test_units_are_not_learned_by_heart():
    """A control of villages, and noise that they share: a curve along it is noise."""
    off = []
    for seed in range(2):
        rng = np.random.default_rng(30_000 + seed)
        label = np.repeat(np.arange(30), 12)
        c, a = rng.normal(size=(2, 30))[:, label]
        z, u, e = rng.normal(size=(3, 360))
        x = z + 0.5 * c + 0.7 * u
        y = x + 0.5 * c + a + 0.7 * u + 0.5 * e
        one = x[:, None], y, z[:, None], c[:, None]
        at = np.column_stack([0 * c, c])[::12]
        each = [km.KernelIV().fit(*one, clusters=k).predict(at) for k in (None, label)]
        off.append([np.var(h - 0.5 * at[:, 1]) for h in each])
    rows, clusters = np.mean(off, axis=0)
    assert clusters < 0.6 * rows


def test_order_of_rows_decides_nothing():
    X, y, Z, label = village(13, slope=np.abs)
    order = np.random.default_rng(0).permutation(len(y))
    one = km.KernelIV().fit(X, y, Z, clusters=label)
    other = km.KernelIV().fit(X[order], y[order], Z[order], clusters=label[order])
    assert_allclose(one.predict(X[:20]), other.predict(X[:20]), atol=1e-6)
    for found in (one, other):
        assert found.predict_interval(X[:5]).upper == pytest.approx(
            one.predict_interval(X[:5]).upper, abs=1e-5
        )


@pytest.mark.slow
def test_limits_hold_where_villages_share_their_noise():
    held = np.zeros((200, 2))
    for seed in range(200):
        X, y, Z, label = village(10_000 + seed)
        for k, clusters in enumerate((None, label)):
            iv = km.KernelIV("linear", "linear").fit(X, y, Z, clusters=clusters)
            found = iv.average_derivative(level=0.9)
            held[seed, k] = found.low <= 1.0 <= found.high
    rows, clusters = held.mean(0)
    assert rows < 0.75
    assert abs(clusters - 0.9) <= 0.065  # three standard errors


@pytest.mark.slow
def test_anderson_rubin_of_one_instrument_holds_where_noise_grows_with_it():
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(20_000 + seed)
        z, v = rng.normal(size=(2, 100))
        x = 0.3 * z + v
        y = x + (0.2 + z**2) * (v + rng.normal(size=100))
        iv = km.KernelIV("linear", "linear").fit(x[:, None], y, z[:, None])
        held += any(low <= 1 <= high for low, high in iv.anderson_rubin(level=0.9).intervals)
    assert abs(held / 200 - 0.9) <= 0.065


def test_what_clusters_change_is_kept_in_files(tmp_path):
    X, y, Z, label = village(6, slope=np.abs)
    rows, iv = (km.KernelIV().fit(X, y, Z, clusters=c) for c in (None, label))
    widths = [m.predict_interval(X[:5]).upper - m.predict_interval(X[:5]).lower for m in (rows, iv)]
    assert np.mean(widths[1]) > np.mean(widths[0])
    assert iv.first_stage().f < rows.first_stage().f
    iv.save(tmp_path / "iv.km")
    again = km.load(tmp_path / "iv.km")
    assert again.endogeneity_test() == iv.endogeneity_test()
    assert again.first_stage().linear == iv.first_stage().linear
    assert "40, within which noise may go together" in str(iv.summary())


def test_labels_of_any_kind():
    import pandas as pd

    X, y, Z, label = village(7)
    names = np.array([f"v{k}" for k in range(40)])
    frame = pd.DataFrame({"x": X[:, 0], "y": y, "z": Z[:, 0], "village": names[label]})
    found = [
        km.KernelIV("linear", "linear").fit(X, y, Z, clusters=c).covariance_
        for c in (
            *(label, label.astype(float), frame.village, frame[["village"]], list(names[label])),
            *(pd.Series(label, dtype="Int64"), frame.village.astype("category")),
            pd.MultiIndex.from_arrays([label // 7, label % 7]),
            pd.Timestamp("2020-01-31") + pd.to_timedelta(label, unit="D"),
        )
    ]
    by_name = km.KernelIV.from_formula(
        "y ~ [x ~ z]", frame, "village", kernel_x="linear", kernel_z="linear"
    )
    for V in [*found, by_name.covariance_]:
        assert_allclose(V, found[0], rtol=1e-9)
    with pytest.raises(ValueError, match="clusters is 'town', which is no column"):
        km.KernelIV.from_formula("y ~ [x ~ z]", frame, "town")


def test_refused_labels():
    X, y, Z, label = village(8)
    iv = km.KernelIV("linear", "linear")
    with pytest.raises(ValueError, match=r"clusters has shape \(399,\); one label for each of the"):
        iv.fit(X, y, Z, clusters=label[:-1])
    pd = pytest.importorskip("pandas")
    names = [f"v{k}" for k in label]
    lacking = [
        *(np.array([gone, *label[1:]], dtype=object) for gone in (np.nan, None, pd.NA, pd.NaT)),
        *([gone, *names[1:]] for gone in (np.nan, None, pd.NA)),
        *(pd.Series([None, *names[1:]], dtype=kind) for kind in ("string", "category", object)),
        pd.Series([None, *label[1:]], dtype="Int64").to_frame(),
        np.ma.masked_array(label, np.arange(400) == 0),
    ]
    for labels in lacking:
        with pytest.raises(ValueError, match="clusters has no label in 1 of 400 rows"):
            iv.fit(X, y, Z, clusters=labels)
    with pytest.raises(ValueError, match="clusters are all the same"):
        iv.fit(X, y, Z, clusters=np.zeros(400))
    with pytest.warns(NumericalWarning, match="10 clusters: limits and p-values are for many"):
        iv.fit(X, y, Z, clusters=label % 10)
    da = pytest.importorskip("dask.array", reason="needs the extra `dask`")
    with pytest.raises(ValueError, match="clusters are given, but these rows are elsewhere"):
        iv.fit(da.from_array(X), da.from_array(y), da.from_array(Z), clusters=label)


def test_shifts_of_units_leave_the_slope_of_least_squares():
    """Held by the whole variance of x, of which units tell nearly all, the slope was half of it."""
    rng = np.random.default_rng(14)
    unit = np.repeat(np.arange(8), 40)
    level = 10 * rng.normal(size=8)[unit]
    z, u, e = rng.normal(size=(3, 320))
    x = level + z + u
    y = x - 2 * level + u + e
    shifts = (unit[:, None] == np.arange(1, 8)).astype(float)
    within = [v - np.bincount(unit, v)[unit] / 40 for v in (x, y, z)]
    slope = within[2] @ within[1] / (within[2] @ within[0])
    for form, C in (("linear", shifts), ({"*": "linear", 1: "category"}, unit[:, None])):
        iv = km.KernelIV(form).fit(x[:, None], y, z[:, None], C)
        assert iv.average_derivative(column=0).value == pytest.approx(slope, rel=0.1)


@pytest.mark.slow
def test_arrays_of_another_library_say_the_same():
    torch = pytest.importorskip("torch")
    X, y, Z, label = village(15, slope=np.abs)
    one = km.KernelIV().fit(X, y, Z, clusters=label)
    other = km.KernelIV().fit(*map(torch.as_tensor, (X, y, Z)), clusters=torch.as_tensor(label))
    assert_allclose(other.predict(torch.as_tensor(X[:9])), one.predict(X[:9]), atol=1e-6)
    assert other.average_derivative().error == pytest.approx(one.average_derivative().error, 1e-4)
    assert other.endogeneity_test().p_value == pytest.approx(one.endogeneity_test().p_value, 1e-4)
    assert_allclose(other.anderson_rubin().intervals, one.anderson_rubin().intervals, rtol=1e-6)


def test_arrays_of_strict_libraries_say_the_same():
    xp = pytest.importorskip("array_api_strict")
    X, y, Z, label = village(15, 20, slope=np.abs)
    one = km.KernelIV().fit(X, y, Z, clusters=label)
    other = km.KernelIV().fit(*map(xp.asarray, (X, y, Z)), clusters=label)
    assert other.average_derivative().error == pytest.approx(one.average_derivative().error, 1e-4)
