"""Nodes of a latent law, the guards around them: moments, loops, quadrature, augmented squares."""

from __future__ import annotations

import re

import numpy as np
import pytest
import state_oracles as slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid
from scipy.stats import norm

from kernelmean.chains.emission import NARROWEST
from kernelmean.chains.markov import Chain, stationary, transitions
from kernelmean.statespace import latent
from kernelmean.statespace.guard import (
    BINS,
    FAR,
    IMAGINED,
    SHAPE_WIDTH,
    SPAN,
    WIDE,
    LinearGuard,
    ShapedGuard,
)
from kernelmean.statespace.latent import Latent, check_draws
from kernelmean.statespace.moves import BEND, NEAR, REGS, SOME, SmoothMoves

WIDTHS = slow.Widths(BEND, NEAR, SOME, REGS)
NAN = float("nan")


def rng(seed: int = 40) -> np.random.Generator:
    return np.random.default_rng(seed)


def normal(d: int = 1, m: int | None = None) -> Latent:
    return Latent.of("normal", d, m, rng())


def moments(law: Latent) -> tuple[np.ndarray, np.ndarray]:
    mean = law.weights @ law.nodes
    off = law.nodes - mean
    return mean, off.T @ (law.weights[:, None] * off)


# ------------------------------------------------------------ the nodes


class TestLatent:
    @pytest.mark.parametrize("m", [11, 41, 200])
    def test_normal_on_the_line_is_a_quadrature(self, m):
        """Equally spaced nodes integrate smooth functions as well as their reach allows."""
        law = normal(1, m)
        x, w = law.nodes[:, 0], law.weights
        assert w.sum() == pytest.approx(1.0)
        assert_allclose(w @ x, 0.0, atol=1e-12)
        assert w @ x**2 == pytest.approx(1.0, abs=1e-2)
        assert w @ np.cos(x) == pytest.approx(np.exp(-0.5), abs=1e-3)
        assert_allclose(np.diff(x), np.diff(x)[0])
        assert x[-1] == -x[0] == latent.REACH

    @pytest.mark.parametrize(("d", "m"), [(2, 120), (2, 400), (3, 1_000)])
    def test_normal_in_several_dimensions(self, d, m):
        law = normal(d, m)
        mean, S = moments(law)
        assert law.nodes.shape == (m, d)
        assert_allclose(mean, 0.0, atol=0.12)
        assert_allclose(S, np.eye(d), atol=0.25)
        assert law.weights.min() > 0

    @pytest.mark.parametrize("d", [1, 2, 3])
    def test_uniform(self, d):
        law = Latent.of("uniform", d, 300, rng())
        mean, S = moments(law)
        assert_allclose(law.weights, 1 / 300)
        assert law.nodes.min() > 0
        assert law.nodes.max() < 1
        assert_allclose(mean, 0.5, atol=0.02)
        assert_allclose(S, np.eye(d) / 12, atol=0.01)

    @pytest.mark.parametrize(("d", "m"), list(enumerate(latent.NODES, start=1)))
    def test_numbers_by_default(self, d, m):
        assert len(normal(d).nodes) == m
        assert len(Latent.of("uniform", d, None, rng()).nodes) == m

    def test_a_sampler_on_the_line_becomes_a_quadrature(self):
        """Evenly spaced nodes that keep the mean of the draws, and nearly all of their law."""
        law = Latent.of(lambda n, r: r.exponential(size=n), 1, 50, rng())
        x = law.nodes[:, 0]
        assert_allclose(np.diff(x), np.diff(x)[0])
        assert x[0] < 0.0 < -np.log(latent.TAIL) * 0.8 < x[-1]
        assert law.weights.sum() == pytest.approx(1.0)
        assert law.weights.min() > 0
        assert law.weights @ x == pytest.approx(1.0, abs=0.03)
        assert law.weights @ np.exp(-x) == pytest.approx(0.5, abs=0.02)

    def test_a_sampler_in_the_plane_gives_draws(self):
        law = Latent.of(lambda n, r: r.normal([3, 0], size=(n, 2)), 2, 800, rng())
        assert_allclose(law.weights @ law.nodes, [3, 0], atol=0.15)

    def test_the_same_generator_gives_the_same_nodes(self):
        def draw(n, r):
            return r.normal(size=(n, 2))

        a, b = (Latent.of(draw, 2, 30, rng(5)) for _ in range(2))
        assert_array_equal(a.nodes, b.nodes)
        assert_array_equal(normal(3).nodes, Latent.of("normal", 3, None, rng(7)).nodes)

    @pytest.mark.parametrize("d", [1, 2, 3])
    def test_standard_coordinates(self, d):
        """Mean zero and covariance I, whatever linear map made the nodes."""
        law = normal(d, 60)
        A = np.eye(d) + 0.5 * rng().normal(size=(d, d))
        moved = Latent(law.nodes @ A.T + 7.0, law.weights)
        z = moved.standard
        assert_allclose(moved.weights @ z, 0.0, atol=1e-10)
        assert_allclose(z.T @ (moved.weights[:, None] * z), np.eye(d), atol=1e-10)

    def test_a_dimension_that_does_not_vary_is_zero(self):
        law = normal(1, 20)
        flat = Latent(np.column_stack([law.nodes, np.ones(20)]), law.weights)
        z = flat.standard
        assert_allclose(z.var(axis=0, ddof=0) > 1e-12, [True, False])
        assert np.isfinite(z).all()

    @pytest.mark.parametrize("d", [1, 2])
    def test_spacing(self, d):
        law = normal(d, 41)  # an odd number: the median of squares is the square of the median
        assert law.spacing == pytest.approx(slow.nearest_distance(law.standard))

    def test_shares_on_the_line_keep_the_mean(self):
        law = normal(1, 15)
        x = rng().uniform(-latent.REACH, latent.REACH, size=(50, 1))
        shares = law.shares(x)
        assert shares.min() >= 0
        assert_allclose(shares.sum(axis=1), 1.0)
        assert_allclose(shares @ law.nodes, x, atol=1e-12)
        assert ((shares > 0).sum(axis=1) <= 2).all()
        assert_allclose(law.shares(law.nodes), np.eye(15), atol=1e-12)
        beyond = law.shares(np.array([[-99.0], [99.0]]))
        assert_allclose(beyond, np.eye(15)[[0, -1]])

    def test_shares_in_the_plane_are_the_nearest_node(self):
        law = normal(2, 30)
        x = rng().normal(size=(20, 2))
        nearest = [np.argmin([np.linalg.norm(a - b) for b in law.nodes]) for a in x]
        assert_array_equal(law.shares(x).argmax(axis=1), nearest)
        assert_array_equal(law.shares(x).sum(axis=1), 1.0)

    def test_shares_among_nodes_of_the_same_value(self):
        law = Latent(np.array([[0.0], [0.0], [1.0], [1.0]]), np.full(4, 0.25))
        shares = law.shares(np.array([[-1.0], [0.0], [0.25], [1.0], [2.0]]))
        assert np.isfinite(shares).all()
        assert_allclose(shares.sum(axis=1), 1.0)
        assert_allclose(shares @ law.nodes, [[0], [0], [0.25], [1], [1]])


class TestSimulators:
    @staticmethod
    def move(x, r):
        return 0.8 * x + 0.6 * r.standard_normal(x.shape)

    def test_the_stationary_law(self):
        """x' = .8 x + .6 e has a standard normal one; the start is forgotten."""
        law = Latent.simulated(self.move, np.full((2_000, 1), 5.0), 41, rng())
        x, w = law.nodes[:, 0], law.weights
        assert w @ x == pytest.approx(0.0, abs=0.05)
        assert w @ x**2 == pytest.approx(1.0, abs=0.06)
        assert w @ np.cos(2 * x) == pytest.approx(np.exp(-2.0), abs=0.04)
        steps = norm.cdf((x[:-1] + x[1:]) / 2)
        assert_allclose(np.cumsum(w)[:-1], steps, atol=0.03)

    def test_the_chain_on_the_nodes(self):
        """Conditional means and variances of the simulator, and its stationary law."""
        law = normal(1, 41)
        chain = law.chain_of(self.move, rng())
        x, Q = law.nodes[:, 0], chain.transmat
        assert_allclose(Q.sum(axis=1), 1.0)
        assert_allclose(chain.startprob @ Q, chain.startprob, atol=1e-9)
        inner = np.abs(x) < 2
        mean = Q @ x
        assert_allclose(mean[inner], 0.8 * x[inner], atol=4.5 * 0.6 / latent.FOLLOWED**0.5)
        spread = (Q @ x**2 - mean**2)[inner]
        cell = np.diff(x)[0] ** 2 / 6  # what two neighbours add to the variance, on average
        assert_allclose(spread, 0.36 + cell, atol=4.5 * 0.36 * (2 / latent.FOLLOWED) ** 0.5)
        mass, second = chain.startprob, chain.startprob @ x**2
        assert mass @ x == pytest.approx(0.0, abs=0.1)
        assert second == pytest.approx(1.0, abs=0.15)

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            (np.zeros((3, 1)), r"shape \(3, 1\); \(4, 1\)"),
            (np.zeros((4, 2)), r"shape \(4, 2\)"),
            (np.array([[0.0], [NAN], [1.0], [2.0]]), "NaN.*infinity"),
            (np.full((4, 1), np.inf), "NaN.*infinity"),
            (None, "."),
            ("text", "."),
            (np.full((4, 1), "fig"), "."),
            ([[1.0], [2.0, 3.0], [1.0], [1.0]], "."),
            (1j * np.ones((4, 1)), "."),
            ({"a": 1}, "."),
        ],
        ids=["short", "wide", "NaN", "inf", "None", "word", "words", "ragged", "complex", "dict"],
    )
    @pytest.mark.parametrize("name", ["latent", "transition"])
    def test_what_a_function_may_not_return(self, value, words, name):
        with pytest.raises(ValueError, match=rf"\b{name}\b.*{words}"):
            check_draws(value, (4, 1), name)

    def test_a_flat_array_is_one_column(self):
        assert check_draws([1, 2, 3], (3, 1), "latent").shape == (3, 1)
        with pytest.raises(ValueError, match=re.escape("(2,)")):
            check_draws([1, 2], (2, 2), "latent")


# ------------------------------------------------------------ the guard of the emissions

GRID = np.linspace(-40, 40, 16_001)


@pytest.fixture
def weighted():
    """60 rows, 5 nodes on the line; memberships of any kind."""
    r = rng(41)
    z = normal(1, 5).standard
    gamma = r.dirichlet(0.5 * np.ones(5), size=60)
    x = gamma @ z
    Y = np.column_stack([2.0 * x[:, 0] + r.gumbel(size=60), 100 - 0.1 * r.normal(size=60)])
    return z, Y, gamma


class TestLinearGuard:
    def guard(self, z, Y, gamma, strength=4.0) -> ShapedGuard:
        return LinearGuard(z, strength)(Y, gamma, Y.var(axis=0), False)

    def test_means_and_variances_are_weighted_least_squares(self, weighted):
        z, Y, gamma = weighted
        got, want = self.guard(*weighted), slow.LinearNoise.of(z, Y, gamma, SHAPE_WIDTH)
        assert_allclose(got.means, want.means, atol=1e-9)
        assert_allclose(got.variances, np.tile(want.scale**2, (5, 1)), rtol=1e-9)
        assert_allclose(got.counts, gamma.sum(axis=0))
        assert got.strength == 4.0

    def test_density_is_that_of_all_residuals(self, weighted):
        """A kernel estimate by loops: the table is a histogram, smoothed."""
        z, Y, gamma = weighted
        want = slow.LinearNoise.of(z, Y, gamma, SHAPE_WIDTH).density(Y[:9], FAR, WIDE)
        got = np.exp(self.guard(*weighted).log_density(Y[:9]))
        scale = np.prod(np.sqrt(self.guard(*weighted).variances[0]))
        assert_allclose(got * scale, want * scale, atol=1e-3)

    def test_it_integrates_to_one(self, weighted):
        z, Y, gamma = weighted
        guard = LinearGuard(z, 1.0)(Y[:, :1], gamma, Y[:, :1].var(axis=0), False)
        p = np.exp(guard.log_density(GRID[:, None]))
        assert_allclose(trapezoid(p, GRID, axis=0), 1.0, atol=2e-4)
        assert_allclose(trapezoid(p * GRID[:, None], GRID, axis=0), guard.means[:, 0], atol=1e-2)

    @pytest.mark.parametrize("y", [1e2, 1e5, 1e12, -1e12])
    def test_never_zero_however_far(self, weighted, y):
        z, Y, gamma = weighted
        guard = LinearGuard(z, 1.0)(Y[:, :1], gamma, Y[:, :1].var(axis=0), False)
        with np.errstate(all="raise"):
            far = guard.log_density(np.array([[y]]))
        assert np.isfinite(far).all()
        assert far.max() < np.log(FAR)

    def test_densities_fall_without_a_jump_to_the_far_tail(self, weighted):
        z, Y, gamma = weighted
        guard = LinearGuard(z, 1.0)(Y[:, :1], gamma, Y[:, :1].var(axis=0), False)
        s = guard.variances[0, 0] ** 0.5
        y = guard.means[0, 0] + s * SPAN * np.linspace(0.9, 1.1, 2_001)
        assert np.abs(np.diff(guard.log_density(y[:, None])[:, 0])).max() < 0.02

    @pytest.mark.parametrize("shift", [1e3, 1e6])
    def test_shift_and_scale(self, weighted, shift):
        z, Y, gamma = weighted
        a, b = self.guard(z, Y, gamma), self.guard(z, 2.0 * Y + shift, gamma)
        here = Y[:7]
        got = b.log_density(2.0 * here + shift) + 2 * np.log(2.0)
        assert_allclose(got, a.log_density(here), atol=1e-4)

    def test_points_stand_for_the_law(self, weighted):
        """Equal weights: its means and variances, column by column."""
        guard = self.guard(*weighted)
        points = guard.points()
        assert points.shape == (5, IMAGINED, 2)
        assert_allclose(points.mean(axis=1), guard.means, atol=1e-9)
        assert_allclose(points.var(axis=1), guard.variances, rtol=1e-9)
        assert_array_equal(points, guard.points())

    def test_an_exact_line_keeps_some_width(self):
        """NARROWEST of the column's variance."""
        z = normal(1, 5).standard
        Y = 3.0 * z + 1.0
        guard = LinearGuard(z, 1.0)(Y, np.eye(5), Y.var(axis=0), False)
        assert_allclose(guard.means, Y, atol=1e-9)
        assert_allclose(guard.variances, NARROWEST * Y.var(axis=0)[0])
        assert np.isfinite(guard.log_density(Y)).all()

    def test_a_column_that_does_not_vary_says_nothing(self, weighted):
        z, Y, gamma = weighted
        flat = np.column_stack([Y[:, 0], np.full(60, 3.0)])
        with_flat = LinearGuard(z, 1.0)(flat, gamma, flat.var(axis=0), False)
        alone = LinearGuard(z, 1.0)(Y[:, :1], gamma, Y[:, :1].var(axis=0), False)
        assert_allclose(with_flat.log_density(flat[:5]), alone.log_density(Y[:5, :1]), atol=1e-9)
        assert np.isfinite(with_flat.points()).all()

    def test_nodes_without_rows(self, weighted):
        """The line goes on to them."""
        z, Y, gamma = weighted
        few = np.zeros_like(gamma)
        few[:, 1:3] = gamma[:, 1:3] + 1e-3
        guard = self.guard(z, Y, few)
        assert_allclose(
            np.diff(guard.means, axis=0), np.diff(guard.means, axis=0)[[0]].repeat(4, 0)
        )
        assert np.isfinite(guard.log_density(Y)).all()

    def test_no_rows_at_all(self, weighted):
        z, Y, gamma = weighted
        guard = self.guard(z, Y, 0.0 * gamma)
        assert np.isfinite(guard.log_density(Y)).all()
        assert np.isfinite(guard.points()).all()

    def test_discrete_data_have_equal_chances(self, weighted):
        z, Y, gamma = weighted
        guard = LinearGuard(z, 2.5)(Y, gamma, Y.var(axis=0), True)
        assert_allclose(np.exp(guard.log_density(Y)), 1 / 60)
        assert guard.strength == 2.5

    def test_bins(self):
        """The table is a density on an even grid."""
        r, z = rng(42), normal(1, 3).standard
        Y, gamma = r.normal(size=(400, 1)), r.dirichlet(np.ones(3), size=400)
        guard = LinearGuard(z, 1.0)(Y, gamma, Y.var(axis=0), False)
        assert guard.shape.shape == (1, BINS)
        assert guard.shape.sum() * 2 * SPAN / BINS == pytest.approx(1.0, abs=1e-6)


# ------------------------------------------------------------ the guard of the transitions


def counted(z: np.ndarray, n: int, seed: int, f, s: float) -> np.ndarray:
    """Transitions of x' = f(x) + s e, each end at its nearest node."""
    r = rng(seed)
    x = z[r.integers(0, len(z), n)]
    new = f(x) + s * r.normal(size=x.shape)
    ends = [((a[:, None] - z) ** 2).sum(axis=2).argmin(axis=1) for a in (x, new)]
    counts = np.zeros((len(z), len(z)))
    np.add.at(counts, tuple(ends), 1.0)
    return counts


class TestSmoothMoves:
    @pytest.mark.parametrize(("d", "m"), [(1, 9), (2, 12)])
    @pytest.mark.parametrize("kind", ["counts", "fractions"])
    def test_against_loops(self, d, m, kind):
        law = normal(d, m)
        moves = SmoothMoves(law, 3.0)
        counts = counted(law.standard, 300, 43, np.sin, 0.4)
        if kind == "fractions":
            counts = 0.3 * counts + rng().dirichlet(np.ones(m), size=m)
        want = slow.smooth_transition(law.standard, counts, WIDTHS)
        assert_allclose(moves.smooth(counts), want, atol=2e-5)
        mixed = counts + 3.0 * want
        chain = moves.from_counts(counts)
        assert_allclose(chain.transmat, mixed / mixed.sum(axis=1, keepdims=True), atol=2e-5)
        assert_allclose(chain.startprob @ chain.transmat, chain.startprob, atol=1e-9)

    @pytest.mark.parametrize("f", [np.sin, np.tanh, np.abs])
    def test_regression_is_augmented_least_squares(self, f):
        """λ too: the same values of generalised cross-validation."""
        law = normal(1, 12)
        z, counts = law.standard, counted(law.standard, 400, 44, f, 0.3)
        mass = counts.sum(axis=1)
        means = counts @ z / np.maximum(mass, 1e-300)[:, None]
        inside = (counts @ z**2 - mass[:, None] * means**2).sum()
        got = SmoothMoves(law, 1.0).regression(mass, means, inside)
        assert np.abs(got - got.mean()).max() > 0.1
        want, _ = slow.smooth_regression(z, counts, BEND, REGS)
        assert_allclose(got, want, atol=1e-4)

    def test_a_line_is_found_and_goes_on(self):
        """x' = .8 x + .5 e seen in the middle only: slope and spread there, the line outside."""
        law = normal(1, 41)
        z = law.standard
        counts = counted(z, 20_000, 45, lambda x: 0.8 * x, 0.5)
        counts[np.abs(z[:, 0]) > 1.5] = 0.0
        g = SmoothMoves(law, 1.0).smooth(counts)
        mean = g @ z[:, 0]
        inner = np.abs(z[:, 0]) < 1.5
        assert_allclose(mean[inner], 0.8 * z[inner, 0], atol=0.08)
        sd = np.sqrt(g @ z[:, 0] ** 2 - mean**2)
        assert_allclose(sd[inner], 0.5, atol=0.08)
        assert_allclose(mean, 0.8 * z[:, 0], atol=0.35)

    @pytest.mark.parametrize("strength", [1e-12, 1e12])
    def test_weak_and_strong(self, strength):
        law = normal(1, 15)
        counts = counted(law.standard, 3_000, 46, np.sin, 0.5) + 1e-3
        moves = SmoothMoves(law, strength)
        transmat = moves.from_counts(counts).transmat
        limit = counts / counts.sum(axis=1, keepdims=True) if strength < 1 else moves.smooth(counts)
        assert_allclose(transmat, limit, atol=1e-8)

    @pytest.mark.parametrize("d", [1, 2])
    def test_a_single_transition(self, d):
        law, counts = normal(d, 12), np.zeros((12, 12))
        counts[3, 5] = 1.0
        chain = SmoothMoves(law, 1.0).from_counts(counts)
        assert np.isfinite(chain.transmat).all()
        assert_allclose(chain.transmat.sum(axis=1), 1.0)

    def test_called_as_the_m_step(self):
        law, r = normal(1, 6), rng(47)
        alpha, gamma = r.dirichlet(np.ones(6), size=20), r.dirichlet(np.ones(6), size=20)
        Q = r.dirichlet(np.ones(6), size=6)
        chain, sequences = Chain(stationary(Q), Q), [slice(0, 8), slice(8, 20)]
        moves = SmoothMoves(law, 2.0)
        got = moves(alpha, gamma, chain, sequences)
        want = moves.from_counts(transitions(alpha, gamma, chain, sequences))
        assert_array_equal(got.transmat, want.transmat)
