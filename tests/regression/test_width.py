"""Bandwidths of posteriors by weighted pairs: real refits, and the tops of exact densities."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelmean as km
from kernelmean.regression import width
from kernelmean.regression.width import told

REG = 1e-2


@pytest.fixture
def local(monkeypatch):
    """Whatever modes by the kernel of latents are worth."""
    monkeypatch.setattr(width, "CLEAR", np.inf)


def gaussian(U, V, width) -> np.ndarray:
    return oracles.gram(oracles.gaussian, U, V, lengthscale=width)


@pytest.fixture
def folded(rng):
    """z with a sign that x = |z| + noise does not tell."""
    Z = rng.uniform(-2, 2, size=(400, 1))
    return np.abs(Z) + 0.2 * rng.normal(size=Z.shape), Z


def score_by_refits(X, Z, beta, width, reg=REG) -> float:
    """Σ_i β_i [∫ q⁻ⁱ(z|x_i)² dz − 2 q⁻ⁱ(z_i|x_i)], every pair left out of a fit of its own."""
    K, d, total = gaussian(X, X, 0.8), Z.shape[1], 0.0
    narrow = gaussian(Z, Z, width) / (2 * np.pi * width**2) ** (d / 2)
    wide = gaussian(Z, Z, 2**0.5 * width) / (4 * np.pi * width**2) ** (d / 2)
    for i in range(len(X)):
        rest = np.flatnonzero((np.arange(len(X)) != i) & (beta > 0))
        # D(KD + λI)⁻¹k = (K + λD⁻¹)⁻¹k
        system = K[np.ix_(rest, rest)] + reg * np.diag(1 / beta[rest])
        w = np.linalg.solve(system, K[rest, i])
        total += beta[i] * (w @ wide[np.ix_(rest, rest)] @ w - 2 * w @ narrow[rest, i])
    return total


@pytest.mark.parametrize("d", [1, 2])
def test_it_minimises_the_score_of_real_refits(d, rng, local):
    n = 60
    Z = rng.normal(size=(n, d))
    X = Z + 0.3 * rng.normal(size=Z.shape)
    beta = np.maximum(rng.uniform(-0.5, 2.0, size=n), 0.0)
    beta /= beta.sum()
    Phi = np.linalg.cholesky(gaussian(X, X, 0.8) + 1e-12 * np.eye(n))
    count = int((beta > 0).sum())
    kernel = km.Gaussian(1.0)
    found = told(kernel, Z, None, Phi, beta, REG).width
    found = np.array(found) / count ** (2 / ((d + 4) * (d + 6)))
    score = [score_by_refits(X, Z / found, beta, c) for c in (0.8, 0.9, 1.0, 1.1, 1.25)]
    assert np.argmin(score) == 2


def test_weights_of_laws_minimise_it_too(rng, local, monkeypatch):
    """Two humps, beside a λ too large for them: a smaller one, and the bandwidth at that."""
    monkeypatch.setattr(width, "MANY", 0)
    n, wide = 80, 3.0
    Z = rng.uniform(-2, 2, size=(n, 1))
    X = np.abs(Z) + 0.2 * rng.normal(size=Z.shape)
    Phi, beta = np.linalg.cholesky(gaussian(X, X, 0.8) + 1e-12 * np.eye(n)), np.full(n, 1 / n)
    kept, found = (told(km.Gaussian(1.0), Z, None, Phi, beta, wide, free=f) for f in (False, True))
    assert kept.reg is None
    assert found.reg < wide
    before, own = (t.width[0] / n ** (2 / 35) for t in (kept, found))
    least = score_by_refits(X, Z, beta, own, found.reg)
    assert least < 1.1 * score_by_refits(X, Z, beta, before, wide)
    for factor in (0.8, 0.9, 1.1, 1.25):
        assert least < score_by_refits(X, Z, beta, factor * own, found.reg)


def test_few_pairs_keep_the_weights_of_means(folded):
    """Of fewer than 200, or where λ is given."""
    X, Z = folded
    assert km.KernelBayes().fit(X, Z)._pairs(None, None).told.reg is not None
    assert km.KernelBayes().fit(X[:150], Z[:150])._pairs(None, None).told.reg is None
    assert km.KernelBayes(reg=0.01).fit(X, Z)._pairs(None, None).told.reg is None


def test_more_pairs_than_are_left_out(rng, local):
    """The search on some, at the rate of all."""
    Z = rng.normal(size=(4000, 1))
    X = Z + 0.5 * rng.normal(size=Z.shape)
    law, few = (km.KernelBayes(reg=REG).fit(X[:n], Z[:n]).posterior([[0.0]]) for n in (4000, 500))
    assert law.bandwidth[0] < few.bandwidth[0]


def test_many_columns_with_one_hump_keep_the_scale_of_the_prior(rng):
    """There tops of densities are noise: about the mean is nearer to latents left out."""
    Z = rng.normal(size=(400, 6))
    X = Z + 0.7 * rng.normal(size=Z.shape)
    law = km.KernelBayes().fit(X, Z).posterior(X[:20])
    assert np.abs(law.mode() - law.mean()).max() < 0.25


class TestPosterior:
    @pytest.mark.parametrize("rule", ["importance", "squared"])
    def test_modes_are_at_the_posteriors_own_scale(self, folded, rule):
        new = np.array([[0.8], [1.2], [1.5]])
        mode = km.KernelBayes(rule).fit(*folded).posterior(new).mode()
        assert_allclose(np.abs(mode), new, atol=0.2)  # the noise is .2; between them, it is 0

    @pytest.mark.parametrize("d", [1, 2])
    def test_the_mode_is_the_top_of_the_density(self, folded, d, rng):
        X, Z = (np.hstack([A, rng.normal(size=A.shape)])[:, :d] for A in folded)
        law = km.KernelBayes().fit(X, Z).posterior(np.full((2, d), 1.2))
        line = np.linspace(-2.5, 2.5, 201)
        grid = np.stack(np.meshgrid(*[line] * d), axis=-1).reshape(-1, d)
        top = law.density(grid).max(axis=1)
        assert_array_equal(np.diag(law.density(law.mode())) > 0.999 * top, True)

    def test_densities_of_one_column_are_of_order_four(self, folded, rng):
        X, Z = folded
        model = km.KernelBayes().fit(X, Z)
        law, y = model.posterior([[0.7], [1.3]]), np.linspace(-2, 2, 9)
        rows = model._pairs(None, None)
        known = rows.points, None, rows.Phi, rows.beta, model.regularisers()[1]
        own = told(model.kernel_z_, *known, free=True).width[0]
        assert law.bandwidth[0] == pytest.approx(width.FLAT * own)
        around = law._residuals  # by weights of laws
        same = km.MeanEmbedding(law.points, around.weights, km.Gaussian4(law.bandwidth[0]))
        same = same.carrying(law.bandwidth, steps=True, wide=around._wide)
        assert_allclose(law.density(y), same.density(y))
        assert_allclose(law.mode(), same.mode())
        assert law.kernel == model.kernel_z_
        both = km.KernelBayes().fit(X, np.hstack([Z, rng.normal(size=Z.shape)])).posterior([[1.2]])
        plain = km.MeanEmbedding(both.points, both._residuals.weights, both.kernel)
        plain = plain.carrying(steps=True, wide=both._wide)
        some = rng.normal(size=(5, 2))
        assert_allclose(both.density(some), plain.density(some, both.bandwidth))

    def test_quantiles_stay_those_of_the_weights(self, folded):
        model = km.KernelBayes().fit(*folded)
        law = model.posterior([[0.7], [1.3]])
        assert law.bandwidth is not None
        assert_array_equal(law.quantile([0.05, 0.9]), law.quantile([0.05, 0.9], bandwidth=0.0))
        assert np.isin(law.quantile(0.3), folded[1]).all()
        assert_array_equal(law.interval(0.9), np.stack(model.predict_interval([[0.7], [1.3]], 0.9)))

    def test_each_prior_has_its_own(self, folded, rng):
        model = km.KernelBayes().fit(*folded)
        one, other = (model.posterior([[1.0]], U).bandwidth for U in (None, rng.uniform(0, 1, 50)))
        assert one != other

    def test_units_of_z(self, folded):
        X, Z = folded
        one, other = (km.KernelBayes().fit(X, a * Z).posterior([[1.0]]) for a in (1.0, 100.0))
        assert_allclose(other.bandwidth, 100 * np.array(one.bandwidth), rtol=0.03)

    @pytest.mark.parametrize("kernel", ["delta", "linear", km.Periodic(1.0)])
    def test_kernels_that_smooth_no_line_have_none(self, folded, kernel):
        X, Z = folded
        assert km.KernelBayes(kernel_z=kernel).fit(X, Z.round()).posterior(X[:2]).bandwidth is None

    def test_a_column_without_spread(self, folded):
        X, Z = folded
        model = km.KernelBayes(kernel_z=km.Gaussian(1.0))
        law = model.fit(X, np.hstack([Z, np.ones_like(Z)])).posterior(X[:2])
        assert law.bandwidth is None
        assert np.isfinite(law.mode()).all()
