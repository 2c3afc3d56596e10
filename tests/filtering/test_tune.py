"""Search for the settings of the kernel Bayes filter, and the ones that it takes without it."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from filter_cases import DENSE, volatility
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import kernelmean as km
from kernelmean.datasets import make_rotation

RULES = ("importance", "squared")
TRAIN, TEST = make_rotation(120, random_state=1002), make_rotation(300, random_state=1003)
SMOOTH = {"kernel_x": km.Gaussian(8.0), "kernel_z": km.Gaussian(8.0)}  # far too smooth


QUICK = {"reg": 0.01, "features": km.Nystroem(tol=1e-2)}


def quick(**parameters) -> km.KernelBayesFilter:
    """Few candidates, coarse coordinates."""
    return km.KernelBayesFilter(**{**QUICK, **parameters})


def error(model) -> float:
    return float(np.mean((model.predict(TEST.X) - TEST.Z) ** 2))


def chosen(model) -> list:
    return [model.kernel_x, model.kernel_z, model.reg, model.reg_smoother]


@cache
def tuned(rule: str) -> km.KernelBayesFilter:
    return km.KernelBayesFilter(rule, **SMOOTH).tune(TRAIN.X, TRAIN.Z, validation=0.3)


@cache
def untuned(rule: str) -> km.KernelBayesFilter:
    return km.KernelBayesFilter(rule).fit(TRAIN.X, TRAIN.Z)


class TestTune:
    @pytest.mark.slow
    def test_a_new_fitted_filter_that_can_be_cloned(self):
        model = km.KernelBayesFilter(inference="kbr")
        best = model.tune(TRAIN.X[:30], TRAIN.Z[:30], validation=0.2)
        assert isinstance(best, km.KernelBayesFilter)
        assert best is not model
        assert not [name for name in vars(model) if name.endswith("_")]
        assert model.get_params() == km.KernelBayesFilter(inference="kbr").get_params()
        assert_array_equal(best.points_, TRAIN.Z[:30])
        again = clone(best).fit(TRAIN.X[:30], TRAIN.Z[:30])
        assert_array_equal(again.predict(TEST.X), best.predict(TEST.X))
        assert_array_equal(again.smooth(TEST.X).mean(), best.smooth(TEST.X).mean())
        assert not hasattr(clone(best), "tuning_")

    @pytest.mark.slow
    @pytest.mark.parametrize("rule", RULES)
    def test_beats_lengthscales_that_are_wrong(self, rule):
        untuned = km.KernelBayesFilter(rule, **SMOOTH).fit(TRAIN.X, TRAIN.Z)
        assert error(tuned(rule)) < 0.9 * error(untuned)
        assert tuned(rule).kernel_z_.lengthscale < 8.0

    @pytest.mark.slow
    def test_for_smoothing_the_errors_are_those_of_smoothed_means(self):
        settings = {"validation": 0.3, "objective": "smooth"}
        best = km.KernelBayesFilter(reg_smoother=0.1, **SMOOTH).tune(TRAIN.X, TRAIN.Z, **settings)
        least = min(best.tuning_, key=lambda row: row["error"])
        held = slice(len(TRAIN.X) - int(0.3 * len(TRAIN.X)), len(TRAIN.X))
        early = clone(best).set_params(features=km.Nystroem(tol=1e-4, max_rank=300))
        early.fit(TRAIN.X[: held.start], TRAIN.Z[: held.start])
        off = (early.smooth(TRAIN.X[held]).mean() - TRAIN.Z[held]) / TRAIN.Z[: held.start].std(
            axis=0
        )
        assert np.mean(off**2) == pytest.approx(least["error"], rel=1e-6)
        with pytest.raises(ValueError, match="objective"):
            km.KernelBayesFilter().tune(TRAIN.X, TRAIN.Z, objective="both")

    @pytest.mark.parametrize("rule", RULES)
    def test_what_was_tried_is_told(self, rule):
        rows, model = tuned(rule).tuning_, tuned(rule)
        assert all(set(row) == {"scale_x", "scale_z", "reg", "error"} for row in rows)
        assert np.isfinite([row["error"] for row in rows]).all()
        assert len(rows) == 13  # two steps of three settings, twice
        best = min(rows, key=lambda row: row["error"])
        assert model.reg == model.reg_ == best["reg"]
        assert model.kernel_x == km.Gaussian(8.0).scaled(best["scale_x"])
        assert model.kernel_z == km.Gaussian(8.0).scaled(best["scale_z"])
        assert model.reg_smoother > 0
        assert all(type(value) is float for row in rows for value in row.values())

    @pytest.mark.slow
    def test_the_errors_are_those_of_filters_fitted_without_the_stretch(self):
        """One row of `tuning_` by hand: the last fifth is tracked by a filter of the rest."""
        rule = km.KernelBayesFilter(inference="kbr")
        best = rule.tune(TRAIN.X, TRAIN.Z, validation=0.2)
        untuned = clone(rule).fit(TRAIN.X, TRAIN.Z)
        kernels = untuned.kernel_x_, untuned.kernel_z_
        for row in best.tuning_[::4]:
            model = km.KernelBayesFilter(
                kernel_x=kernels[0].scaled(row["scale_x"]),
                kernel_z=kernels[1].scaled(row["scale_z"]),
                reg=row["reg"],
            ).fit(TRAIN.X[:96], TRAIN.Z[:96])
            found = model.predict(TRAIN.X[96:])
            by_hand = np.mean((found - TRAIN.Z[96:]) ** 2 / TRAIN.Z[:96].var(axis=0))
            assert row["error"] == pytest.approx(by_hand, rel=0.05)  # at a coarser tolerance

    @pytest.mark.slow
    def test_the_same_twice_and_in_two_processes(self):
        runs = [
            quick().tune(TRAIN.X[:40], TRAIN.Z[:40], n_jobs=jobs, validation=0.2)
            for jobs in (None, 2)
        ]
        for other in runs[1:]:
            assert chosen(other) == chosen(runs[0])
            assert [r["error"] for r in other.tuning_] == pytest.approx(
                [r["error"] for r in runs[0].tuning_], rel=1e-9
            )

    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
    def test_nothing_is_changed(self):
        X, Z, lengths = TRAIN.X[:30].copy(), TRAIN.Z[:30].copy(), [10, 20]
        for a in (X, Z):
            a.setflags(write=False)
        quick().tune(X, Z, lengths)
        assert lengths == [10, 20]
        assert_array_equal(X, TRAIN.X[:30])

    @pytest.mark.slow
    @pytest.mark.parametrize("validation", [0.1, 0.5, 2, 4, np.int64(3), np.float64(0.3)])
    @pytest.mark.usefixtures("short_searches")
    def test_shares_and_folds(self, validation):
        best = quick().tune(TRAIN.X[:60], TRAIN.Z[:60], validation=validation)
        assert error(best) < 0.1

    @pytest.mark.slow
    @pytest.mark.parametrize("validation", [0.2, 3])
    @pytest.mark.usefixtures("short_searches")
    def test_several_trajectories(self, validation):
        X, Z, lengths = TRAIN.X[:70], TRAIN.Z[:70], [30, 3, 1, 36]
        best = quick().tune(X, Z, lengths, validation=validation)
        assert error(best) < 0.1
        plain = km.KernelBayesFilter(**best.get_params(deep=False))
        plain.fit(X, Z, lengths)
        assert_array_equal(plain.predict(TEST.X), best.predict(TEST.X))

    def test_progress_is_told(self):
        calls = []
        quick().tune(
            TRAIN.X[:60],
            TRAIN.Z[:60],
            validation=0.2,
            verbose=lambda done, total: calls.append((done, total)),
        )
        assert calls
        assert all(1 <= done <= total for done, total in calls)
        ends = [done for done, total in calls if done == total]
        starts = [done for done, _ in calls if done == 1]
        assert len(ends) == len(starts)
        assert calls[-1][0] == calls[-1][1]

    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
    def test_progress_is_shown(self, capsys):
        quick().tune(TRAIN.X[:60], TRAIN.Z[:60], validation=0.2, verbose=True)
        assert "tuning" in capsys.readouterr().err
        quick().tune(TRAIN.X[:60], TRAIN.Z[:60], validation=0.2)
        assert capsys.readouterr() == ("", "")

    def test_what_is_given_stays(self):
        given = {"reg": 0.02, "reg_prior": 0.003, "reg_transition": 0.004, "reg_smoother": 0.05}
        best = km.KernelBayesFilter(**given, max_active=50).tune(
            TRAIN.X[:60], TRAIN.Z[:60], validation=0.2
        )
        assert {name: getattr(best, f"{name}_") for name in given} == given
        assert {row["reg"] for row in best.tuning_} == {0.02}
        assert best.max_active == 50

    def test_kernels_without_a_lengthscale_are_tried_once(self):
        rng = np.random.default_rng(0)
        z = np.cumsum(rng.integers(0, 2, size=80)) % 3
        model = km.KernelBayesFilter(kernel_x="delta", kernel_z="delta", reg=1e-6)
        best = model.tune(z[:, None], z)
        assert {(row["scale_x"], row["scale_z"]) for row in best.tuning_} == {(1.0, 1.0)}
        assert_allclose(best.predict(z[:, None]), z, atol=0.05)

    def test_frames_and_kernels_by_name(self):
        X, Z = (pd.DataFrame(a[:60], columns=["a", "b"]) for a in (TRAIN.X, TRAIN.Z))
        kernel = km.on_columns({"a": "gaussian", "b": "laplace"})
        best = quick(kernel_x=kernel).tune(X, Z, validation=0.2)
        assert_array_equal(best.feature_names_in_, ["a", "b"])
        new = pd.DataFrame(TEST.X, columns=["a", "b"])
        assert np.mean((best.predict(new) - TEST.Z) ** 2) < 0.1

    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
    def test_one_state_as_a_vector(self):
        best = quick().tune(TRAIN.X[:30], TRAIN.Z[:30, 0])
        assert best.predict(TEST.X).shape == (300,)

    @pytest.mark.slow
    def test_a_constant_state_beside_others_has_no_say(self):
        """Its rounding errors, in units of no variance at all, must not choose the settings."""
        Z = np.column_stack([TRAIN.Z, np.full(120, 0.1)])
        kernel = km.on_columns({(0, 1): km.Gaussian(0.6)})
        model = quick(kernel_z=kernel)
        with_it = model.tune(TRAIN.X, Z, validation=0.2)
        without = model.tune(TRAIN.X, TRAIN.Z, validation=0.2)
        errors = [[row["error"] for row in m.tuning_] for m in (with_it, without)]
        assert max(errors[0]) < 2
        assert chosen(with_it) == chosen(without)

    @pytest.mark.slow
    @pytest.mark.parametrize("unit", [1e-6, 1e6])
    def test_units_do_not_matter(self, unit):
        """Columns of the state in different units weigh the same in the choice."""
        kernels = [km.on_columns({0: km.Gaussian(0.6), 1: km.Gaussian(s * 0.6)}) for s in (1, unit)]
        a, b = (
            quick(kernel_z=k).tune(TRAIN.X[:40], TRAIN.Z[:40] * [1, s], validation=0.2)
            for k, s in zip(kernels, (1, unit), strict=True)
        )
        assert [r["error"] for r in a.tuning_] == pytest.approx([r["error"] for r in b.tuning_])

    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
    def test_random_fourier_and_other_features(self):
        features = km.RandomFourier(40)
        best = quick(features=features).tune(TRAIN.X, TRAIN.Z, validation=0.2)
        assert best.features.n_features == 40
        assert error(best) < 0.1

    @pytest.mark.usefixtures("short_searches")
    def test_observations_that_no_candidate_likes_are_not_warned_about(self):
        X = TRAIN.X.copy()
        X[100:] += 50.0  # a jump in the stretch that is held out
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            best = quick().tune(X, TRAIN.Z, validation=0.2)
        assert np.isfinite([row["error"] for row in best.tuning_]).all()


def sensor(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise beside states that it does not know of."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 1)), np.cumsum(rng.standard_normal((n, 1)), axis=0) % 3.0


class TestHeldOut:
    """What was compared on rows held out, and what follows."""

    @pytest.mark.slow
    @pytest.mark.parametrize("validation", [0.3, 3])
    @pytest.mark.usefixtures("short_searches")
    def test_no_worse_than_where_it_began(self, validation):
        best = quick().tune(TRAIN.X, TRAIN.Z, validation=validation)
        held = best.held_out_
        assert held["tuned"] <= held["untuned"] < held["mean"]
        untuned = [r for r in best.tuning_ if r["scale_x"] == r["scale_z"] == 1.0]
        assert held["untuned"] in [r["error"] for r in untuned]
        assert "rows held out" in best.summary()

    @pytest.mark.slow
    def test_what_is_not_clearly_better_is_left_alone(self):
        """Noise alone has no better settings."""
        X, Z = sensor(100, 1)
        with pytest.warns(km.NumericalWarning, match="cannot follow these states"):
            best = quick(reg=None).tune(X, Z)
        untuned = quick(reg=None).fit(X, Z)
        assert best.held_out_["tuned"] == best.held_out_["untuned"]
        assert best.reg_ == untuned.reg_
        assert best.kernel_z_ == untuned.kernel_z_

    @pytest.mark.slow
    def test_the_nearer_inference(self):
        """Log-volatility: the two laws are nearer than the rule."""
        Z, X = volatility(300, 0.95, 0.25, 31)
        model = km.KernelBayesFilter(inference="auto").fit(X, Z)
        held = model.held_out_
        assert set(held) == {"kbr", "densities", "ridge", "mean"}
        nodes = not hasattr(model, "reg_")
        assert nodes or held["kbr"] < held["densities"]  # the rule has to be clearly nearer
        how = "densities" if nodes else "kbr"
        plain = km.KernelBayesFilter(inference=how).fit(X, Z)
        assert_array_equal(model.predict(X[:20]), plain.predict(X[:20]))

    @pytest.mark.slow
    def test_short_or_wide_records_have_the_rule(self):
        short = km.KernelBayesFilter(inference="auto").fit(TRAIN.X[:11], TRAIN.Z[:11])
        assert short.held_out_ == {}
        wide = np.random.default_rng(0).standard_normal((120, 101))
        assert "densities" not in (
            km.KernelBayesFilter(inference="auto").fit(TRAIN.X @ wide[:2], TRAIN.Z).held_out_
        )

    @pytest.mark.slow
    def test_with_nothing_said_tuning_takes_what_fitting_does(self):
        """Densities have nothing to tune; the rule by name has."""
        Z, X = volatility(150, 0.95, 0.25, 31)
        plain, best = km.KernelBayesFilter().fit(X, Z), km.KernelBayesFilter().tune(X, Z)
        assert len(plain.machine_.points) == 500  # nodes
        assert best.tuning_ == []
        assert best.held_out_ == plain.held_out_
        assert_array_equal(best.predict(X), plain.predict(X))
        assert_array_equal(clone(best).fit(X, Z).predict(X), plain.predict(X))
        ruled = km.KernelBayesFilter(inference="kbr").tune(X, Z, validation=0.3)
        assert ruled.inference == "kbr"
        assert len(ruled.tuning_) == 13

    @pytest.mark.slow
    @pytest.mark.usefixtures("short_searches")
    def test_auto_tunes_the_rule_where_fitting_takes_it(self, monkeypatch):
        model = quick(inference="auto")
        plain, best = model.fit(TRAIN.X, TRAIN.Z), model.tune(TRAIN.X, TRAIN.Z, validation=2)
        assert best.tuning_ == []
        assert_array_equal(best.predict(TEST.X), plain.predict(TEST.X))
        monkeypatch.setattr("kernelmean.filtering.held_out.AHEAD", -np.inf)
        best = model.tune(TRAIN.X, TRAIN.Z, validation=2)
        assert best.inference == "kbr"
        assert set(best.held_out_) == {"tuned", "untuned", "ridge", "mean"}


class TestRefusals:
    @pytest.mark.parametrize(
        "bad", [None, "x", [0.2], np.nan, 0, 1, 0.0, 1.0, True, -1, -0.2, 1.5, np.inf, 1000]
    )
    def test_validation(self, bad):
        with pytest.raises(ValueError, match=r"\bvalidation\b"):
            km.KernelBayesFilter(reg=0.1).tune(TRAIN.X, TRAIN.Z, validation=bad)

    @pytest.mark.parametrize("validation", [0.001, 0.999, 61])
    def test_nothing_left(self, validation):
        with pytest.raises(ValueError, match="validation"):
            km.KernelBayesFilter().tune(TRAIN.X[:30], TRAIN.Z[:30], validation=validation)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("rule", "mean"),
            ("rule", None),
            ("reg", -1.0),
            ("reg_prior", np.nan),
            ("reg_transition", "small"),
            ("reg_smoother", -1.0),
            ("max_active", 1),
            ("kernel_x", "gauss"),
            ("kernel_z", 3),
            ("features", "nystroem"),
        ],
    )
    def test_settings(self, name, value):
        with pytest.raises(ValueError, match=rf"\b{name}\b"):
            km.KernelBayesFilter(**{name: value}).tune(TRAIN.X, TRAIN.Z)

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("X", {"X": None}),
            ("Z", {"Z": None}),
            ("Z", {"Z": TRAIN.Z[:5]}),
            ("X", {"X": np.where(TRAIN.X > 1, np.nan, TRAIN.X)}),
            ("Z", {"Z": np.where(TRAIN.Z > 1, np.inf, TRAIN.Z)}),
            ("X", {"X": TRAIN.X[:, 0]}),
            ("X", {"X": TRAIN.X[:1], "Z": TRAIN.Z[:1]}),
            ("Z", {"Z": np.ones(120)}),
            ("lengths", {"lengths": [100, 10]}),
            ("lengths", {"lengths": [0, 120]}),
        ],
    )
    def test_data(self, name, change):
        with pytest.raises(ValueError, match=rf"\b{name}\b"):
            km.KernelBayesFilter().tune(**{"X": TRAIN.X, "Z": TRAIN.Z, **change})

    @pytest.mark.parametrize("bad", [0, 1.5, "many"])
    def test_jobs(self, bad):
        with pytest.raises(ValueError, match="n_jobs"):
            km.KernelBayesFilter(reg=0.1).tune(TRAIN.X[:30], TRAIN.Z[:30], n_jobs=bad)


class TestDefaults:
    """What is chosen without a search."""

    @pytest.mark.parametrize("rule", RULES)
    def test_states_are_seen_at_half_the_median(self, rule):
        model = untuned(rule)
        spread = TRAIN.Z.std(axis=0)
        half = 0.5 * km.median_lengthscale(TRAIN.Z / spread) * spread
        assert model.kernel_z_.lengthscale == pytest.approx(half)
        for name in ("reg_", "reg_prior_", "reg_transition_", "reg_smoother_"):
            assert 0 < getattr(model, name) < 1
        assert model.reg_smoother_ == 0.2

    @pytest.mark.slow
    @pytest.mark.parametrize("asked", [{"inference": "kbr"}, DENSE], ids=["kbr", "densities"])
    def test_units_are_not_heard(self, asked):
        """A column of states and one of observations, a million times larger or smaller."""
        x, z = np.array([1.0, 1e-6]), np.array([1e6, 1.0])
        one, other = (
            km.KernelBayesFilter(**asked).fit(TRAIN.X * by_x, TRAIN.Z * by_z)
            for by_x, by_z in ((1.0, 1.0), (x, z))
        )
        tolerance = 1e-6 if asked["inference"] == "kbr" else 1e-4
        assert_allclose(other.predict(TEST.X * x) / z, one.predict(TEST.X), atol=tolerance)

    def test_columns_that_states_do_not_move_count_less(self):
        noise = np.random.default_rng(0).standard_normal((len(TRAIN.X), 30))
        X = np.hstack([TRAIN.X, noise])
        lengthscale = np.array(km.KernelBayesFilter().fit(X, TRAIN.Z).kernel_x_.lengthscale)
        in_sd = lengthscale / X.std(axis=0)
        assert in_sd[:2] == pytest.approx(in_sd[0])
        assert (in_sd[2:] > 1.5 * in_sd[0]).all()
        assert in_sd[2:].max() < 3.2 * in_sd[0]

    def test_kernels_given_are_as_given(self):
        model = km.KernelBayesFilter(kernel_x=km.Gaussian(), kernel_z=km.Gaussian())
        model.fit(TRAIN.X * [1.0, 9.0], TRAIN.Z)
        assert model.kernel_x_ == km.Gaussian().resolve(TRAIN.X * [1.0, 9.0])
        assert model.kernel_z_ == km.Gaussian().resolve(TRAIN.Z)

    @pytest.mark.parametrize("rule", RULES)
    def test_what_is_chosen_given_changes_nothing(self, rule):
        model = km.KernelBayesFilter(rule, inference="kbr").fit(TRAIN.X, TRAIN.Z)
        names = ("reg", "reg_prior", "reg_transition", "reg_smoother")
        given = km.KernelBayesFilter(rule, **{name: getattr(model, f"{name}_") for name in names})
        found = given.fit(TRAIN.X, TRAIN.Z).smooth(TEST.X).mean()
        assert_allclose(found, model.smooth(TEST.X).mean(), atol=1e-9)

    def test_the_squared_rule_takes_the_square(self):
        a, b = (untuned(rule) for rule in RULES)
        assert b.reg_ == pytest.approx(a.reg_**2)

    def test_the_transition_has_the_least_leave_one_out_loss(self):
        """Against n real refits of one state on the one before."""
        model = km.KernelBayesFilter(features=km.Exact(), kernel_z=km.Gaussian(0.6))
        model.fit(TRAIN.X[:40], TRAIN.Z[:40])
        K = km.Gaussian(0.6)(TRAIN.Z[:40])
        before, after = np.arange(39), np.arange(1, 40)

        def loss(reg: float) -> float:
            total = 0.0
            for i in range(39):
                rest = np.delete(np.arange(39), i)
                A = K[np.ix_(before[rest], before[rest])] + 39 * reg * np.eye(38)
                w = np.linalg.solve(A, K[before[rest], before[i]])
                G = K[np.ix_(after[rest], after[rest])]
                total += 1 - 2 * w @ K[after[rest], after[i]] + w @ G @ w
            return total

        found = loss(model.reg_transition_)
        assert found <= min(loss(reg) for reg in 10.0 ** np.linspace(-7, 1, 17)) * (1 + 1e-6)

    @pytest.mark.parametrize("rule", RULES)
    def test_close_to_the_tuned(self, rule):
        assert error(untuned(rule)) < 1.15 * error(tuned(rule))

    @pytest.mark.slow
    @pytest.mark.parametrize("rule", RULES)
    def test_smoothing_lowers_the_error(self, rule):
        train = make_rotation(500, random_state=1004)
        model = km.KernelBayesFilter(rule).fit(train.X, train.Z)
        smoothed = np.mean((model.smooth(TEST.X).mean() - TEST.Z) ** 2)
        assert smoothed < error(model)
