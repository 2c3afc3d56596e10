"""Simulation-based calibration: exact posteriors pass, posteriors that are off are seen."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import kernelmean as km
from kernelmean.bayes import Calibration

DRAWS = 99


def normal_ranks(width: float, shift: float, m: int = 400, seed: int = 0) -> np.ndarray:
    """θ ~ N(0, 1), x ~ N(θ, 1); draws of N(x/2 + shift, width²/2): right for width 1, shift 0."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=m)
    x = theta + rng.normal(size=m)
    draws = x[:, None] / 2 + shift + width * np.sqrt(0.5) * rng.normal(size=(m, DRAWS))
    return (draws < theta[:, None]).sum(axis=1)[:, None]


def check(**settings) -> Calibration:
    """θ ~ N(0, 1), the mean of ten N(θ, 1)."""
    return km.simulation_based_calibration(
        lambda n, rng: rng.normal(0, 1, n),
        lambda theta, rng: theta + rng.normal(size=theta.shape) / np.sqrt(10),
        **{"n": 600, "datasets": 200, "batch_size": 500, "random_state": 3, **settings},
    )


class TestCalibration:
    def test_exact_posteriors_are_rejected_as_often_as_the_level(self):
        found = [Calibration(normal_ranks(1, 0, 200, seed), DRAWS) for seed in range(300)]
        for values in ([c.ecdf_pvalue[0] for c in found], [c.chi2_pvalue[0] for c in found]):
            # binomial: .05 ± .0126
            assert np.mean(np.array(values) < 0.05) == pytest.approx(0.05, abs=0.04)
        assert np.mean([c.coverage(0.9) for c in found]) == pytest.approx(0.9, abs=0.005)

    @pytest.mark.parametrize(("width", "shift"), [(0.6, 0.0), (1.6, 0.0), (1.0, 0.3)])
    def test_wrong_ones_are_seen(self, width, shift):
        found = Calibration(normal_ranks(width, shift), DRAWS)
        assert found.pvalue < 1e-3
        assert found.chi2_pvalue[0] < 1e-3
        inside = stats.norm.cdf(width * stats.norm.ppf(0.95)) * 2 - 1
        if shift == 0:
            assert found.coverage(0.9)[0] == pytest.approx(inside, abs=0.05)

    def test_coverage_counts_ranks(self):
        """Of 0 … 99 the central ninety are 5 … 94."""
        found = Calibration(np.arange(100)[:, None], 99)
        assert_allclose([found.coverage(level)[0] for level in (0.5, 0.9, 0.98)], [0.5, 0.9, 0.98])

    def test_a_level_between_ranks(self):
        """Of a hundred even ranks 95% hold 95, of ten 90% hold nine: they held 94 and eight."""
        assert Calibration(np.arange(100)[:, None], 99).coverage(0.95)[0] == pytest.approx(0.95)
        assert Calibration(np.arange(10)[:, None], 9).coverage(0.9)[0] == pytest.approx(0.9)

    def test_few_draws_are_no_fault(self):
        """Ranks among nine draws go in steps of a tenth: 77% of exact ones were refused."""
        even = np.repeat(np.arange(10), 30)[:, None]
        assert Calibration(even, 9).pvalue == pytest.approx(1.0)
        found = [np.random.default_rng(s).integers(0, 10, size=(300, 1)) for s in range(200)]
        assert np.mean([Calibration(ranks, 9).pvalue < 0.05 for ranks in found]) < 0.06

    def test_bins_of_unequal_width(self):
        """Three values in two bins: expected 2/3 and 1/3."""
        found = Calibration(np.repeat([0, 1, 2], [10, 9, 5])[:, None], 2)
        expected = stats.chisquare([19, 5], [16, 8]).pvalue
        assert found.chi2_pvalue[0] == pytest.approx(expected)

    def test_table(self):
        ranks = np.random.default_rng(0).integers(0, 100, size=(300, 2))
        frame = Calibration(ranks, 99).to_frame([0.5, 0.975])
        assert list(frame.columns) == ["chi2_pvalue", "ecdf_pvalue", "coverage_50", "coverage_97.5"]
        assert list(frame.index) == ["theta0", "theta1"]

    def test_display(self):
        """The excess is that of the empirical distribution function, the band Kolmogorov's."""
        pytest.importorskip("matplotlib").use("Agg")
        found = Calibration(normal_ranks(0.6, 0.0), DRAWS)
        shown = km.display.CalibrationDisplay.from_calibration(found, ["mean"]).plot()
        below = [(found.ranks[:, 0] < r).mean() - r / 100 for r in range(101)]
        assert_allclose(shown.excess[:, 0], below, atol=1e-12)
        assert np.abs(shown.excess).max() > shown.band
        assert stats.kstwo.cdf(shown.band, 400) == pytest.approx(0.95)
        assert shown.ax_.get_legend().texts[0].get_text() == "mean"


class TestOneCall:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", [3, 4])
    def test_the_default_passes(self, seed):
        found = check(random_state=seed)
        assert found.pvalue > 0.005
        assert 0.84 <= found.coverage(0.9)[0] <= 0.96  # binomial: .021

    def test_a_density_smoothed_far_too_much_does_not(self):
        found = check(model=km.ConditionalDensity(km.Gaussian(0.3), bandwidth=1.0, reg=1e-3))
        assert found.pvalue < 1e-4
        assert found.coverage(0.5)[0] > 0.8

    def test_a_seed_repeats(self):
        model = km.ConditionalDensity(km.Gaussian(0.3), bandwidth=0.1, reg=1e-3)
        one, other = (check(model=model, random_state=5).ranks for _ in range(2))
        assert_array_equal(one, other)
        assert one.shape == (200, 1)
        assert np.ptp(one) > 90

    @pytest.mark.parametrize("bad", [{"datasets": 3}, {"draws": 0}, {"method": "none"}])
    def test_refusals(self, bad):
        with pytest.raises(ValueError, match=next(iter(bad))):
            check(**bad)
