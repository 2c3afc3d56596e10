"""The spectral method: exact moments give the model back; samples agree with n x n matrices."""

from __future__ import annotations

from types import SimpleNamespace

import hmm_oracles as slow
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group

import kernelmean as km
from kernelmean.chains import moments
from kernelmean.chains.draft import Draft
from kernelmean.chains.moments import Coordinates, Moments
from kernelmean.core import moments as moments_module
from kernelmean.core.sequences import neighbours
from kernelmean.hmm import learn, spectral
from kernelmean.hmm.spectral import (
    SpectralFit,
    diagonaliser,
    off_diagonal,
    slopes_of_off_diagonal,
    unit,
)

SEEDS = range(40, 44)


def exact(model: slow.FiniteHMM) -> tuple:
    """Moments without a sample, in the coordinates of a delta kernel; and the tensor."""
    mean, T = model.law @ model.table, model.triples
    moments = SimpleNamespace(mean=mean, pairs=model.pairs, skips=model.skips)

    def third(left, right):
        return np.einsum("xyz,xa,yb,zc->abc", T, left, right, right)

    return moments, third


def fitted(model: slow.FiniteHMM, K: int):
    return SpectralFit(*exact(model), K)


def assert_recovered(found, model: slow.FiniteHMM, atol: float) -> None:
    order = slow.matching(model.table.T, found.embeddings)
    assert_allclose(found.embeddings[:, order], model.table.T, atol=atol)
    assert_allclose(found.chain.transmat[np.ix_(order, order)], model.Q, atol=atol)
    assert_allclose(found.chain.startprob[order], model.law, atol=atol)


class TestExactMoments:
    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("K", range(1, 6))
    def test_the_model_comes_back(self, K, seed):
        model = slow.FiniteHMM.random(K, K + 2, seed)
        found = fitted(model, K)
        assert_recovered(found, model, 1e-6)
        assert found.mismatch < 1e-12

    def test_as_many_values_as_states(self):
        model = slow.FiniteHMM.random(3, 3, 45)
        assert_recovered(fitted(model, 3), model, 1e-8)

    def test_a_nearly_deterministic_cycle(self):
        """Eigenvalues of Q are complex; those that the method looks at are not."""
        Q = 0.97 * np.roll(np.eye(3), 1, axis=1) + 0.01
        model = slow.FiniteHMM(Q, slow.FiniteHMM.random(3, 5, 46).table)
        assert_recovered(fitted(model, 3), model, 1e-6)

    def test_nearly_equal_laws(self):
        """Two laws 1e-3 apart cost digits (they are divided by that distance), not the answer."""
        table = np.array([[0.5, 0.3, 0.2], [0.501, 0.299, 0.2], [0.1, 0.1, 0.8]])
        Q = np.array([[0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.3, 0.1, 0.6]])
        model = slow.FiniteHMM(Q, table)
        assert_recovered(fitted(model, 3), model, 1e-3)

    def test_a_rare_state(self):
        Q = np.array([[0.995, 0.005], [0.7, 0.3]])
        model = slow.FiniteHMM(Q, np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]))
        assert_recovered(fitted(model, 2), model, 1e-8)

    @pytest.mark.parametrize("K", [3, 4, 7])
    def test_more_states_than_there_are(self, K):
        """The rank tells: 2 states, 6 values."""
        with pytest.raises(ValueError, match=f"n_components is {K}.*only 2 states apart"):
            fitted(slow.FiniteHMM.random(2, 6, 41), K)

    def test_one_state_of_several_is_the_mean(self):
        model = slow.FiniteHMM.random(3, 6, 42)
        found = fitted(model, 1)
        assert_allclose(found.chain.transmat, [[1.0]])
        assert_allclose(found.embeddings[:, 0], model.law @ model.table, atol=0.05)

    def test_a_chain_of_lower_rank_is_refused(self):
        """Two rows of Q alike: the third view cannot tell the states apart (assumption 3.2)."""
        Q = np.array([[0.6, 0.2, 0.2], [0.6, 0.2, 0.2], [0.1, 0.2, 0.7]])
        model = slow.FiniteHMM(Q, slow.FiniteHMM.random(3, 5, 43).table)
        with pytest.raises(ValueError, match="only 2 states apart"):
            fitted(model, 3)


# ------------------------------------------------------------ moments of samples


def rough_rows(n: int = 23, d: int = 2) -> np.ndarray:
    return np.random.default_rng(47).normal(size=(n, d))


GAPS = {
    "whole": np.ones(23, dtype=bool),
    "gaps": np.isin(np.arange(23), [3, 4, 11, 21], invert=True),
}
PARTS = {"one": [23], "several": [5, 1, 2, 3, 12]}


def loops(Phi: np.ndarray, seen: np.ndarray, lengths: list[int]) -> dict[str, np.ndarray]:
    """Means over rows, pairs and triples, one by one."""
    ends = np.cumsum(lengths)
    parts = [range(end - length, end) for end, length in zip(ends, lengths, strict=True)]

    def whole(size):
        runs = [part[i : i + size] for part in parts for i in range(len(part) - size + 1)]
        return [run for run in runs if seen[list(run)].all()]

    return {
        "mean": np.mean([Phi[t] for (t,) in whole(1)], axis=0),
        "second": np.mean([np.outer(Phi[t], Phi[t]) for (t,) in whole(1)], axis=0),
        "pairs": np.mean([np.outer(Phi[s], Phi[t]) for s, t in whole(2)], axis=0),
        "skips": np.mean([np.outer(Phi[s], Phi[u]) for s, _, u in whole(3)], axis=0),
        "earlier": np.mean([Phi[s] for s, _ in whole(2)], axis=0),
        "later": np.mean([Phi[t] for _, t in whole(2)], axis=0),
        "third": np.mean([np.einsum("a,b,c", *Phi[list(run)]) for run in whole(3)], axis=0),
    }


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "made anew"])
@pytest.mark.parametrize("step", [4, 7, 21, 1000])
@pytest.mark.parametrize("lengths", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("seen", GAPS.values(), ids=GAPS)
def test_moments_are_sums_over_neighbours(seen, lengths, step, kept, monkeypatch):
    """Whatever the blocks, the gaps and the sequences."""
    monkeypatch.setattr(moments, "block_rows", lambda r: step)
    if not kept:
        monkeypatch.setattr(moments, "KEPT", 0)
    X = rough_rows()
    features = km.Exact().fit(X[:6], km.Gaussian(1.0))
    coordinates = Coordinates.of(features, X)
    stops = np.cumsum(lengths)
    sequences = [slice(b - a, b) for a, b in zip(lengths, stops, strict=True)]
    got = Moments(coordinates, seen, sequences)
    Phi = features.transform(X)
    want = loops(Phi, seen, lengths)
    for name in ("mean", "second", "pairs", "skips", "earlier", "later"):
        assert_allclose(getattr(got, name), want[name], atol=1e-14, err_msg=name)
    left, right = np.random.default_rng(0).normal(size=(2, 6, 3))
    T = np.einsum("xyz,xa,yb,zc->abc", want["third"], left, right, right)
    assert_allclose(got.third(coordinates, left, right), T, atol=1e-13)
    assert_allclose(coordinates.project(left), Phi @ left, atol=1e-14)
    assert got.n_pairs == neighbours(seen, sequences).sum()


def test_blocks_are_as_long_as_elsewhere():
    assert moments.block_rows is moments_module.block_rows


# ------------------------------------------------------------ thesis, Algorithm 1


def gaussian(lengthscale: float) -> slow.Gram:
    return lambda A, B: np.exp(-cdist(A, B, "sqeuclidean") / (2 * lengthscale**2))


def noisy_states(K: int, n: int, seed: int) -> np.ndarray:
    """States three standard deviations apart."""
    _, states = slow.FiniteHMM.random(K, K, seed).draw(n, seed)
    return 3.0 * states[:, None] + np.random.default_rng(seed).normal(size=(n, 1))


@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("seed", [40, 41])
def test_algorithm_1_with_n_by_n_matrices(K, seed, monkeypatch):
    """Coordinates of full rank against kernel matrices: chain, laws, singular values.

    R is scipy's in both, from any Theta (which drops out): `TestDiagonaliser` has ours.
    """

    def least_squares(B):
        return slow.jointly_diagonal(B), 0.0

    monkeypatch.setattr(spectral, "diagonaliser", least_squares)
    X, scale = noisy_states(max(K, 2), 400, seed), 1.5
    ones = np.ones(len(X), dtype=bool)
    draft = Draft.of(X, ones, None, km.Gaussian(scale), km.Exact(), None)
    found = learn.spectral(draft, K)
    Theta = ortho_group.rvs(K, random_state=seed) if K > 1 else np.eye(1)
    dense = slow.DenseSpectral.of(X, gaussian(scale), K, Theta)
    Y = np.linspace(X.min(), X.max(), 40)[:, None]
    want = dense.law_at(gaussian(scale), Y)
    laws = draft.coordinates.features.transform(Y) @ found.embeddings
    order = slow.matching(want, laws)
    assert_allclose(laws[:, order], want, atol=1e-8)
    assert_allclose(found.chain.transmat[np.ix_(order, order)], dense.Q, atol=1e-8)
    assert_allclose(found.chain.startprob[order], dense.law, atol=1e-8)
    assert_allclose(found.singular_values[:K], dense.values, atol=1e-10)
    assert_allclose(draft.weighted_rows(found.embeddings)(Y).T[:, order], want, atol=1e-6)


def errors_on_samples(n: int) -> list[float]:
    """Of the laws, in four draws of n rows."""
    model = slow.FiniteHMM.random(3, 5, 48)
    errors = []
    for seed in SEEDS:
        values = model.draw(n, seed)[0][:, None].astype(float)
        draft = Draft.of(values, np.ones(n, dtype=bool), None, km.Delta(), None, None)
        found = learn.spectral(draft, 3)
        table = draft.coordinates.features.transform(np.arange(5.0)[:, None]) @ found.embeddings
        order = slow.matching(model.table.T, table)
        errors.append(float(np.linalg.norm(table[:, order] - model.table.T)))
    return errors


@pytest.mark.slow
def test_errors_fall_as_one_over_the_root_of_n():
    """Sixteen times the rows, about a quarter of the error."""
    few, many = np.mean(errors_on_samples(2_000)), np.mean(errors_on_samples(32_000))
    assert 2 < few / many < 8


# ------------------------------------------------------------ the joint diagonaliser


def family(K: int, seed: int, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Matrices R diag(lambda_b) R^-1 (plus noise), R and lambda (K, K)."""
    rng = np.random.default_rng(seed)
    R = np.eye(K) + 0.4 * rng.normal(size=(K, K))
    R = R / np.linalg.norm(R, axis=0)
    values = rng.normal(size=(K, K))
    B = np.array([R @ np.diag(v) @ np.linalg.inv(R) for v in values])
    return B + noise * rng.normal(size=B.shape), R, values


def off_squares(R: np.ndarray, B: np.ndarray) -> float:
    D = np.linalg.inv(R) @ B @ R
    return float((D[:, ~np.eye(len(R), dtype=bool)] ** 2).sum())


class TestDiagonaliser:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("K", [1, 2, 3, 5])
    def test_exact_families(self, K, seed):
        B, R, values = family(K, seed)
        found, left = diagonaliser(B)
        assert left < 1e-20
        order = slow.matching(np.abs(R), np.abs(found))
        assert_allclose(np.abs(found[:, order]), np.abs(R), atol=1e-8)
        assert_allclose(spectral.eigenvalues(found, B)[:, order], values, atol=1e-8)

    @pytest.mark.parametrize("K", [2, 4])
    def test_slopes(self, K):
        rng = np.random.default_rng(K)
        B, basis, S = rng.normal(size=(3, K, K)), rng.normal(size=(K, K)), rng.normal(size=(K, K))

        def off(S: np.ndarray) -> np.ndarray:
            return off_diagonal(unit(basis @ S), B)

        steps = 1e-6 * np.eye(K * K).reshape(-1, K, K)
        expected = np.stack([(off(S + E) - off(S - E)) / 2e-6 for E in steps], axis=1)
        found = slopes_of_off_diagonal(basis @ S, basis, B)
        assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())

    @pytest.mark.parametrize("seed", SEEDS)
    def test_noise_is_shared_among_all(self, seed):
        """A local minimum of the squares, no worse than any one matrix's eigenvectors."""
        B, _, _ = family(3, seed, noise=0.03)
        R, left = diagonaliser(B)
        total = (B**2).sum()
        assert left == pytest.approx(off_squares(R, B) / total)
        alone = [V for V in map(slow.real_eigenvectors, B) if V is not None]
        assert off_squares(R, B) <= min(off_squares(V, B) for V in alone) + 1e-12
        best = slow.jointly_diagonal(B)
        assert off_squares(R, B) <= off_squares(best, B) * (1 + 1e-6)

    @pytest.mark.slow
    def test_error_goes_down_with_the_noise(self):
        errors = []
        for noise in (1e-2, 1e-4, 1e-6):
            B, R, _ = family(4, 42, noise)
            found, _ = diagonaliser(B)
            errors.append(
                np.abs(np.abs(found[:, slow.matching(abs(R), abs(found))]) - abs(R)).max()
            )
        assert errors[1] < 2e-2 * errors[0]
        assert errors[2] < 2e-2 * errors[1]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_complex_eigenvalues_give_a_real_answer(self, seed):
        """Rotations have no real eigenvectors at all."""
        rng = np.random.default_rng(seed)
        turn = np.array([[0.0, -1.0], [1.0, 0.0]])
        B = np.array([turn, 0.5 * turn + 0.01 * rng.normal(size=(2, 2))])
        R, left = diagonaliser(B)
        assert R.dtype == float
        assert np.isfinite(R).all()
        assert np.isfinite(left)
        assert np.linalg.cond(R) < 1e8

    def test_a_defective_matrix_gives_a_finite_answer(self):
        """One eigenvector for two columns."""
        B = np.array([[[1.0, 1.0], [0.0, 1.0]], [[2.0, 1.0], [0.0, 2.0]]])
        R, left = diagonaliser(B)
        assert np.isfinite(R).all()
        assert np.isfinite(left)
        assert np.linalg.cond(R) < 1e12


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 3, 5, 8])
def test_noise_alone_gives_a_chain(K):
    """No states to be found: still a transition matrix, its law, and finite coordinates."""
    X = np.random.default_rng(49).normal(size=(200, 1))
    ones = np.ones(200, dtype=bool)
    draft = Draft.of(X, ones, None, km.Gaussian(0.5), None, None)
    found = learn.spectral(draft, K)
    chain = found.chain
    assert chain.transmat.min() >= 0
    assert_allclose(chain.transmat.sum(axis=1), 1.0)
    assert_allclose(chain.startprob @ chain.transmat, chain.startprob, atol=1e-10)
    assert np.isfinite(found.embeddings).all()
    assert 0 <= found.mismatch < np.inf


@pytest.mark.parametrize("columns", [1, 2])
def test_a_linear_kernel_tells_as_many_states_as_columns(columns):
    X = np.random.default_rng(40).normal(size=(60, columns))
    draft = Draft.of(X, np.ones(60, dtype=bool), None, km.Linear(), None, None)
    learn.spectral(draft, columns)
    with pytest.raises(ValueError, match=f"only {columns} states apart"):
        learn.spectral(draft, columns + 1)
