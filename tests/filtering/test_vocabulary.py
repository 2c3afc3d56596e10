"""What every law answers, asked of a filter's results; names and dates that go in and come out."""

from __future__ import annotations

import pandas as pd
import pytest
from filter_cases import TEST, TRAIN, tracker
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.core import Labels
from kernelmean.embedding.law import Law

X = TEST.X[:6]
BATCHES = {
    "filter": lambda m: m.filter(X),
    "smooth": lambda m: m.smooth(X),
    "forecast": lambda m: m.forecast(X, 6),
    "observations": lambda m: m.forecast(X, 6).observations,
}


@pytest.mark.parametrize("law", BATCHES.values(), ids=BATCHES)
def test_a_batch_of_laws(law):
    law = law(tracker())
    assert isinstance(law, Law)
    points = TRAIN.Z[:3]
    assert law.mean().shape == law.std().shape == law.mode().shape == (6, 2)
    assert law.cov().shape == (6, 2, 2)
    assert law.quantile(0.5).shape == (6, 2)
    assert law.quantile([0.1, 0.5, 0.9]).shape == (6, 3, 2)
    assert law.density(points).shape == law.log_density(points).shape == (6, 3)
    assert law.probability(lambda z: z[:, 0] > 0).shape == (6,)
    assert law.sample(4, random_state=0).shape == (6, 4, 2)
    assert law.interval().lower.shape == law.interval().upper.shape == (6, 2)
    assert_allclose(law.mean(), law.embedding.mean(), atol=1e-8)
    assert law.to_frame().shape == (6, 8)


def test_a_belief_is_a_single_law():
    belief = tracker().start().update(X[0])
    assert isinstance(belief, Law)
    assert belief.mean().shape == belief.std().shape == belief.interval().lower.shape == (2,)
    assert belief.cov().shape == (2, 2)
    assert belief.sample(3, random_state=0).shape == (3, 2)
    assert list(belief.to_frame().columns[:2]) == ["z0", "z0_std"]


def test_means_do_not_form_the_embeddings():
    result, ahead = tracker().filter(X), tracker().forecast(X, 2)
    result.mean(), ahead.mean(), repr(result), repr(ahead)
    assert "embedding" not in vars(result)
    assert "embedding" not in vars(ahead)


def test_the_old_name_of_the_embedding():
    result = tracker().filter(X)
    with pytest.warns(FutureWarning, match="embeddings is now embedding"):
        assert result.embeddings is result.embedding


def test_a_law_is_no_prior_but_its_embedding_is():
    track = tracker().filter(X)
    with pytest.raises(ValueError, match="prior is a Belief; its `embedding` is needed"):
        tracker().filter(X, prior=track[3])
    assert len(tracker().filter(X, prior=track[3].embedding)) == len(X)


def test_names_and_dates_come_out():
    days = pd.date_range("2026-01-01", periods=200)
    states = pd.DataFrame(TRAIN.Z, columns=["east", "north"])
    seen = pd.DataFrame(TRAIN.X, index=days, columns=["a", "b"])
    model = km.KernelBayesFilter(reg=1e-2).fit(seen, states)
    track = model.filter(seen[:10]).to_frame(0.8)
    assert list(track.columns[:4]) == ["east", "east_std", "east_lower", "east_upper"]
    assert_array_equal(track.index, days[:10])
    ahead = model.forecast(seen[:10], 3)
    assert_array_equal(ahead.to_frame().index, days[10:13])
    assert list(ahead.observations.to_frame().columns[::4]) == ["a", "b"]
    assert_array_equal(ahead.observations.to_frame().index, days[10:13])
    two = model.forecast(seen[:10], 3, [4, 6]).to_frame()
    assert_array_equal(two.index, range(6))


NIGHTS = pd.date_range("2024-03-01 02:30", periods=30, freq="D", tz="Europe/Berlin")


@pytest.mark.parametrize(
    ("index", "later"),
    [
        (pd.RangeIndex(0, 60, 2, name="row"), pd.Index([60, 62], name="row")),
        (pd.Index([*range(1990, 2019), 2040]), pd.Index([2041, 2042])),
        (pd.Index(["a", *range(29)]), pd.Index([29, 30])),
        (
            pd.RangeIndex(1700, 1730, name="YEAR").astype(float),
            pd.Index([1730.0, 1731.0], name="YEAR"),
        ),
        (pd.Index([*range(29), 40.5]), None),
        (NIGHTS, None),  # 31 March has no half past two
    ],
)
def test_what_follows_numbers_and_odd_dates(index, later):
    found = Labels(None, index).ahead(2).index
    assert found is None if later is None else found.equals(later)
    assert getattr(found, "name", None) == getattr(later, "name", None)


def test_intervals_are_shaped_like_the_states():
    lower, upper = tracker().predict_interval(X, 0.8)
    assert_array_equal((lower, upper), tracker().filter(X).interval(0.8))
    one = km.KernelBayesFilter(reg=1e-2).fit(TRAIN.X, TRAIN.Z[:, 0])
    interval = one.predict_interval(X, lengths=[2, 4])
    assert interval.lower.shape == interval.upper.shape == (6,)
    assert (interval.lower <= one.predict(X, [2, 4])).all()


def test_the_summary_says_what_was_chosen():
    states = pd.DataFrame(TRAIN.Z, columns=["east", "north"])
    text = km.KernelBayesFilter("squared", reg=1e-2).fit(TRAIN.X, states).summary()
    for words in ("squared rule", "east, north", "0.01 (given)", "(chosen)", "Gaussian"):
        assert words in text
    assert text.table.loc[("Training", "rows"), "value"] == 200
    with pytest.raises(ValueError, match="not fitted"):
        km.KernelBayesFilter().summary()


def test_other_regularisers_of_the_same_fit():
    model = tracker()
    other = model.with_reg(0.5, reg_smoother=0.7)
    assert (other.reg_, other.reg_smoother_) == (0.5, 0.7)
    assert model.reg_ != 0.5
    fitted = km.KernelBayesFilter(reg=0.5, reg_smoother=0.7).fit(TRAIN.X, TRAIN.Z)
    assert_allclose(other.smooth(X).mean(), fitted.smooth(X).mean(), atol=1e-10)
    for asked in ((-1.0,), (0.1, "small")):
        with pytest.raises(ValueError, match="a non-negative number is needed|finite number"):
            model.with_reg(*asked)


class TestLibraries:
    @pytest.fixture
    def xp(self):
        return pytest.importorskip("array_api_strict")

    def test_a_filter_fitted_on_numpy(self, xp):
        model, theirs = tracker(), xp.asarray(X)
        for use, name in (
            (lambda: model.filter(theirs), "X"),
            (lambda: model.predict(theirs), "X"),
            (lambda: model.start().update(theirs[0, :]), "x"),
            (lambda: model.start(xp.asarray(TEST.Z)), "prior"),
            (lambda: model.filter(X, supervision=(theirs, TEST.Z[:6], 1.0)), "x_s"),
        ):
            with pytest.raises(ValueError, match=f"^{name} is of array_api_strict .* numpy"):
                use()

    def test_a_filter_fitted_on_other_arrays(self, xp):
        train = [xp.asarray(A[:50]) for A in (TRAIN.X, TRAIN.Z)]
        model = km.KernelBayesFilter(reg=1e-2).fit(*train)
        with pytest.raises(ValueError, match="X is of numpy .* array_api_strict"):
            model.filter(X)
        with pytest.raises(ValueError, match="Z is of numpy .* array_api_strict"):
            km.KernelBayesFilter().fit(train[0], TRAIN.Z[:50])
