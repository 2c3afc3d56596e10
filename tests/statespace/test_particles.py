"""Particle filters, against one big Gaussian law, finite chains, quadrature and `particles`."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

import kernelmean as km
from kernelmean.adapters.particles import as_particles_model
from kernelmean.chains import markov
from kernelmean.core.checks import NumericalWarning
from kernelmean.embedding.embedding import MeanEmbedding
from kernelmean.statespace.particles import (
    _resampled,
    bootstrap,
    forecast_quantile,
    systematic,
)
from kernelmean.statespace.recovered import RecoveredModel

REPLICATES = 60


def whole(n):
    return [slice(0, n)]


def run(model, Y, sequences=None, n_particles=500, seed=40, **options):
    seen, rng = ~np.isnan(Y).any(axis=1), np.random.default_rng(seed)
    return bootstrap(model, Y, seen, sequences or whole(len(Y)), n_particles, rng, **options)


def replicated(model, Y, n_particles=500, seed=40, **options):
    """Independent filters of the same rows, as sequences side by side: (REPLICATES, n, ...)."""
    n = len(Y)
    sequences = [slice(n * r, n * (r + 1)) for r in range(REPLICATES)]
    many = run(model, np.tile(Y, (REPLICATES, 1)), sequences, n_particles, seed, **options)
    kept = {name: value for name, value in vars(many).items() if value is not None}
    return {name: v.reshape(REPLICATES, n, *v.shape[1:]) for name, v in kept.items()}, many


def assert_mean_is(values, exact, most=4.5):
    """The mean of independent replicates is within Monte Carlo error of what it should be."""
    error = values.std(axis=0, ddof=1) / len(values) ** 0.5
    assert np.all(np.abs(values.mean(axis=0) - exact) <= most * error + 1e-12)


# ------------------------------------------------------------ models


@dataclass(frozen=True)
class Gaussian:
    """x' = A x + noise of covariance Q, y = C x + noise of covariance R."""

    A: np.ndarray
    C: np.ndarray
    Q: np.ndarray
    R: np.ndarray

    @property
    def stationary(self):
        d = len(self.A)
        power = np.eye(d * d) - np.kron(self.A, self.A)
        return np.linalg.solve(power, self.Q.ravel()).reshape(d, d)

    def draw_first(self, n, rng):
        return rng.multivariate_normal(np.zeros(len(self.A)), self.stationary, size=n)

    def draw_next(self, x, rng):
        return x @ self.A.T + rng.multivariate_normal(np.zeros(len(self.A)), self.Q, size=len(x))

    def mean_emission(self, x):
        return x @ self.C.T

    def draw_emission(self, x, rng):
        noise = rng.multivariate_normal(np.zeros(len(self.C)), self.R, size=len(x))
        return self.mean_emission(x) + noise

    def log_emission(self, Y, x):
        off = Y[:, None] - self.mean_emission(x)
        return stats.multivariate_normal(cov=self.R).logpdf(off).reshape(len(Y), len(x))

    def joint(self, n):
        """Covariances of (x_1, ..., x_n), of (y_1, ..., y_n), and between them."""
        S = self.stationary
        blocks = [
            [
                np.linalg.matrix_power(self.A, max(s - t, 0))
                @ S
                @ np.linalg.matrix_power(self.A.T, max(t - s, 0))
                for t in range(n)
            ]
            for s in range(n)
        ]
        xx, C = np.block(blocks), np.kron(np.eye(n), self.C)
        return xx, C @ xx @ C.T + np.kron(np.eye(n), self.R), xx @ C.T

    def exact(self, Y):
        """By conditioning the one Gaussian law of everything: no recursion."""
        n, p = Y.shape
        d = len(self.A)
        xx, yy, xy = self.joint(n)
        y, there = Y.ravel(), ~np.isnan(Y).ravel()
        mean, cov, state, var, loglik = [], [], [], [], []
        for t in range(n):
            now, me = slice(p * t, p * (t + 1)), slice(d * t, d * (t + 1))
            past = np.flatnonzero(there[: p * t])
            upto = np.flatnonzero(there[: p * (t + 1)])
            gain = np.linalg.solve(yy[np.ix_(past, past)], yy[past, now]).T
            mean.append(gain @ y[past])
            cov.append(yy[now, now] - gain @ yy[past, now])
            seen = there[p * t]
            law = stats.multivariate_normal(mean[-1], cov[-1])
            loglik.append(law.logpdf(Y[t]) if seen else 0.0)
            gain = np.linalg.solve(yy[np.ix_(upto, upto)], xy[me, upto].T).T
            state.append(gain @ y[upto])
            var.append(np.diag(xx[me, me] - gain @ xy[me, upto].T))
        return map(np.array, (mean, cov, state, var, loglik))


def plane():
    """Two states that turn, two observations of them."""
    A = 0.9 * np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    C = np.array([[1.0, 0.0], [1.0, 1.0]])
    return Gaussian(A, C, np.diag([0.4, 0.2]), np.array([[0.5, 0.1], [0.1, 0.3]]))


def line(rho=0.9, q=0.3, r=0.4):
    return Gaussian(*(np.array([[v]]) for v in (rho, 1.0, q, r)))


def observed(model, n, seed, gaps=()):
    rng = np.random.default_rng(seed)
    x = [model.draw_first(1, rng)]
    for _ in range(n - 1):
        x.append(model.draw_next(x[-1], rng))
    Y = model.draw_emission(np.concatenate(x), rng)
    Y[list(gaps)] = np.nan
    return Y


@dataclass(frozen=True)
class Finite:
    """A chain on 0, ..., K − 1, y normal about the state."""

    chain: markov.Chain
    sd: float = 0.8

    def draw_first(self, n, rng):
        return rng.choice(len(self.chain.startprob), (n, 1), p=self.chain.startprob).astype(float)

    def draw_next(self, x, rng):
        upto = np.cumsum(self.chain.transmat, axis=1)[x[:, 0].astype(int)]
        return (upto[:, :-1] < rng.random((len(x), 1))).sum(axis=1, keepdims=True).astype(float)

    def mean_emission(self, x):
        return 10 * x

    def draw_emission(self, x, rng):
        return 10 * x + 10 * self.sd * rng.standard_normal(x.shape)

    def log_emission(self, Y, x):
        return stats.norm.logpdf(Y, 10 * x[:, 0], 10 * self.sd)


def finite():
    Q = np.array([[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.3, 0.0, 0.7]])
    return Finite(markov.Chain(markov.stationary(Q), Q))


@dataclass(frozen=True)
class Still:
    """A state that stays where it is, seen within `width`; no density (NaN) below `undefined`."""

    width: float = 1.0
    undefined: float = -np.inf

    def draw_first(self, n, rng):
        return rng.random((n, 1))

    def draw_next(self, x, rng):
        return x

    def mean_emission(self, x):
        return x

    def draw_emission(self, x, rng):
        return x

    def log_emission(self, Y, x):
        inside = np.abs(Y - x[:, 0]) < self.width
        logs = np.where(inside, -np.log(2 * self.width), -np.inf)
        return np.where(x[:, 0] < self.undefined, np.nan, logs)


# ------------------------------------------------------------ filtering


@pytest.mark.parametrize("model", [plane(), line()], ids=["plane", "line"])
def test_agrees_with_the_gaussian_law(model):
    Y = observed(model, 12, seed=41, gaps=[4, 5])
    mean, _, state, var, loglik = model.exact(Y)
    found, _ = replicated(model, Y, n_particles=1000)
    assert_mean_is(found["mean"], mean)
    assert_mean_is(found["state_mean"], state)
    assert_mean_is(found["state_variance"], var, most=5.0)
    # the likelihood itself is estimated without bias, its logarithm is not
    assert_mean_is(np.exp(found["loglik"].sum(axis=1) - loglik.sum()), 1.0)
    assert np.all(found["loglik"][:, [4, 5]] == 0)
    assert not found["degenerate"].any()


def test_agrees_with_the_forward_algorithm_on_a_finite_chain():
    model = finite()
    Y = observed(model, 25, seed=42, gaps=[0, 7])
    logb = np.where(np.isnan(Y), 0.0, model.log_emission(Y, np.arange(3.0)[:, None]))
    alpha, loglik = markov.filtered(logb, model.chain, whole(25))
    prior = markov.predicted(alpha, model.chain, whole(25))
    found, _ = replicated(model, Y)
    assert_mean_is(found["state_mean"][:, :, 0], alpha @ np.arange(3))
    assert_mean_is(found["mean"][:, :, 0], prior @ np.arange(3) * 10)
    assert_mean_is(np.exp(found["loglik"].sum(axis=1) - loglik.sum()), 1.0)


@pytest.mark.slow
def test_error_falls_with_the_number_of_particles():
    model = line()
    Y = observed(model, 30, seed=43)
    mean = next(iter(model.exact(Y)))
    few, many = (
        np.square(replicated(model, Y, n_particles=n)[0]["mean"] - mean).mean() for n in (50, 800)
    )
    assert 10 < few / many < 25  # 16, for an error of 1/√N


def test_without_noise_weights_are_products_of_likelihoods():
    # the state stays, and 3 flat rows leave enough particles effective for none to be resampled
    model = Gaussian(np.eye(1) * 0.5, np.eye(1), np.eye(1), np.eye(1) * 50.0)
    frozen = Frozen(model)
    Y = np.array([[0.3], [np.nan], [1.0]])
    found = run(frozen, Y, n_particles=300, keep=True)
    x = found.particles[0]
    assert np.array_equal(found.particles, np.broadcast_to(x, (3, 300, 1)))
    weights = np.exp(model.log_emission(Y[[0, 2]], x).sum(axis=0))
    assert found.weights[2] == pytest.approx(weights / weights.sum(), rel=1e-10)
    assert found.loglik.sum() == pytest.approx(np.log(weights.mean()), rel=1e-10)
    assert np.array_equal(found.prior[1:], found.weights[:-1])
    assert found.ess[2] == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-10)
    centre = np.average(x[:, 0], weights=weights)
    assert found.state_mean[2, 0] == pytest.approx(centre, rel=1e-10)
    spread = np.average((x[:, 0] - centre) ** 2, weights=weights)
    assert found.state_variance[2, 0] == pytest.approx(spread, rel=1e-9)


@dataclass(frozen=True)
class Frozen:
    """A model whose states do not move."""

    model: Gaussian

    def draw_next(self, x, rng):
        return x

    def __getattr__(self, name):
        return getattr(self.model, name)


# ------------------------------------------------------------ sequences and gaps


def test_sequences_of_different_lengths_come_back_in_their_rows():
    model, lengths = line(), [3, 9, 1, 5]
    stops = np.cumsum(lengths)
    sequences = [slice(int(b - n), int(b)) for b, n in zip(stops, lengths, strict=True)]
    Y = observed(model, 18, seed=44)
    found = run(model, Y, sequences, n_particles=40_000, keep=True)
    for rows in sequences:
        mean, _, state, _, loglik = model.exact(Y[rows])
        assert found.mean[rows] == pytest.approx(mean, abs=0.03)
        assert found.state_mean[rows] == pytest.approx(state, abs=0.03)
        assert found.loglik[rows] == pytest.approx(loglik, abs=0.03)
    again = np.einsum("ni,nid->nd", found.weights, found.particles)
    assert again == pytest.approx(found.state_mean)


def test_sequences_do_not_touch_each_other():
    model = line()
    Y = observed(model, 20, seed=45)
    other = np.concatenate([Y[:10], 1e3 + Y[10:]])
    halves = [slice(0, 10), slice(10, 20)]
    one, two = (run(model, rows, halves) for rows in (Y, other))
    assert np.array_equal(one.mean[0], two.mean[0])  # drawn in one go: later draws differ
    exact = next(iter(model.exact(Y[:10])))
    assert two.mean[:10] == pytest.approx(exact, abs=0.3)


def test_a_missing_row_is_only_predicted():
    model = line()
    Y = observed(model, 6, seed=46, gaps=[0, 3, 4, 5])
    found = run(model, Y, n_particles=20_000, keep=True)
    assert found.mean[0, 0] == pytest.approx(0, abs=0.05)
    for t in (0, 3, 4, 5):
        assert np.array_equal(found.weights[t], found.prior[t])
        assert found.loglik[t] == 0
        assert not found.degenerate[t]
    decay = found.mean[4:, 0] / found.mean[3:-1, 0]
    assert decay == pytest.approx(0.9, abs=0.15)


def test_gaps_add_nothing_to_the_likelihood():
    gaps = np.arange(40) % 2 == 1
    found, _ = replicated(line(), np.where(gaps[:, None], np.nan, 0.5), n_particles=37)
    assert np.all(found["loglik"][:, gaps] == 0)  # weights sum to one only up to rounding


def test_what_is_passed_in_stays_and_a_seed_repeats():
    model = line()
    Y = observed(model, 15, seed=47, gaps=[2])
    before = Y.copy()
    one, two = run(model, Y), run(model, Y)
    assert np.array_equal(Y, before, equal_nan=True)
    assert np.array_equal(one.mean, two.mean)
    assert one.particles is None
    state = np.random.get_state()[1].copy()
    run(model, Y)
    assert np.array_equal(np.random.get_state()[1], state)


# ------------------------------------------------------------ steps that go wrong


def test_a_row_that_no_particle_explains_is_flagged_and_says_nothing():
    Y = np.array([[0.5], [30.0], [0.5]])
    found = run(Still(0.25), Y, keep=True)
    assert found.degenerate.tolist() == [False, True, False]
    assert found.loglik[1] == -np.inf
    assert np.array_equal(found.weights[1], found.prior[1])
    for value in (found.mean, found.state_mean, found.state_variance, found.ess, found.weights):
        assert np.isfinite(value).all()
    assert np.abs(found.mean[2] - 0.5) < 0.25


def test_one_sequence_may_degenerate_alone():
    Y = np.array([[0.5], [0.5], [30.0], [0.5]])
    found = run(Still(0.25), Y, [slice(0, 2), slice(2, 4)])
    assert found.degenerate.tolist() == [False, False, True, False]


def test_a_density_that_is_not_a_number_counts_as_none():
    found = run(Still(0.5, undefined=0.4), np.array([[0.5]]), keep=True)
    low = found.particles[0, :, 0] < 0.4
    assert np.all(found.weights[0, low] == 0)
    assert found.loglik[0] == pytest.approx(np.log((~low).mean()))


def test_unlikely_rows_do_not_underflow():
    Y = np.array([[0.0], [400.0]])
    found = run(line(r=1e-3), Y)
    assert found.loglik[1] < -1e6
    assert np.isfinite(found.loglik).all()
    assert not found.degenerate.any()
    assert found.ess[1] >= 1 - 1e-12


@pytest.mark.parametrize("n", [0, 2.5, "many"])
def test_the_number_of_particles_is_checked(n):
    with pytest.raises(ValueError, match="n_particles is .* at least 1"):
        run(line(), np.zeros((3, 1)), n_particles=n)


def test_one_particle_is_a_filter_too():
    found = run(line(), np.zeros((5, 1)), n_particles=1)
    assert np.all(found.ess == 1)
    assert np.isfinite(found.mean).all()


# ------------------------------------------------------------ resampling


def test_systematic_resampling_is_even():
    rng = np.random.default_rng(48)
    weights = rng.dirichlet(np.full(30, 0.3), size=200)
    weights[:, :3] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    taken = systematic(weights, rng.random(200))
    counts = np.stack([np.bincount(row, minlength=30) for row in taken])
    assert np.all(np.abs(counts - 30 * weights) < 1 + 1e-9)
    assert np.all(counts[:, :3] == 0)
    assert np.all(np.diff(taken, axis=1) >= 0)


def test_systematic_resampling_by_its_definition():
    rng = np.random.default_rng(49)
    weights, u = rng.dirichlet(np.ones(17), size=50), rng.random(50)
    for w, start, row in zip(weights, u, systematic(weights, u), strict=True):
        upto = np.cumsum(w)
        points = [(j + start) / 17 for j in range(17)]
        assert row.tolist() == [next(i for i in range(17) if upto[i] > p) for p in points]


def test_systematic_resampling_takes_each_as_often_as_its_weight():
    weights, u = np.array([[0.11, 0.55, 0.34]]), (np.arange(1000) + 0.5) / 1000
    taken = systematic(np.tile(weights, (1000, 1)), u)
    assert np.bincount(taken.ravel()) / 3000 == pytest.approx(weights[0], abs=1e-3)


def test_particles_are_resampled_at_random_and_only_where_few_are_effective():
    weights = np.tile([[0.06, 0.92, 0.02], [0.5, 0.3, 0.2]], (2000, 1))
    x = np.tile(np.arange(3.0)[:, None], (4000, 1, 1))
    found, equal = _resampled(x, weights, np.random.default_rng(67))
    assert np.array_equal(found[1::2], x[1::2])
    assert np.array_equal(equal[1::2], weights[1::2])
    assert np.all(equal[::2] == 1 / 3)
    shares = np.bincount(found[::2].ravel().astype(int)) / 6000
    assert shares == pytest.approx(weights[0], abs=0.01)


@pytest.mark.parametrize("u", [0.0, 1 - 2**-53], ids=["zero", "nearly one"])
def test_systematic_resampling_at_the_ends(u):
    weights = np.array([[0.0, 0.25, 0.75] + [0.0] * 997])
    taken = systematic(weights, np.array([u]))
    assert taken.shape == (1, 1000)
    assert set(taken[0]) == {1, 2}


# ------------------------------------------------------------ forecasts


def test_quantiles_of_forecasts():
    model = plane()
    Y = observed(model, 6, seed=50, gaps=[2])
    mean, cov, *_ = model.exact(Y)
    found, many = replicated(model, Y, n_particles=1000, keep=True)
    q = forecast_quantile(model, many, [0.1, 0.5, 0.9], np.random.default_rng(51))
    exact = [mean + stats.norm.ppf(p) * np.sqrt(np.diagonal(cov, 0, 1, 2)) for p in (0.1, 0.5, 0.9)]
    assert_mean_is(q.reshape(REPLICATES, 6, 3, 2), np.stack(exact, axis=1))


def test_one_level_leaves_no_axis():
    model = line()
    found = run(model, np.zeros((4, 1)), keep=True)
    rng = np.random.default_rng
    both = forecast_quantile(model, found, [0.5, 0.9], rng(52))
    assert np.array_equal(forecast_quantile(model, found, 0.9, rng(52)), both[:, 1])


def test_quantiles_need_particles():
    with pytest.raises(ValueError, match="result has no particles; .*keep=True"):
        forecast_quantile(line(), run(line(), np.zeros((2, 1))), 0.5, np.random.default_rng(0))


# ------------------------------------------------------------ recovered models

WIDE = 0.3


def normal_batch(points, centres, variance, kernel):
    """Embeddings whose density at bandwidth WIDE is N(centre, variance), by the smoothing of it."""
    weights = stats.norm.pdf(points[:, 0], centres[:, None], (variance - WIDE**2) ** 0.5)
    return MeanEmbedding(points, weights * (points[1, 0] - points[0, 0]), kernel)


def recovered_line(rho=0.9, q=0.3, r=0.4):
    """`line` in the form of embeddings on a fine grid."""
    grid, kernel = np.arange(-8, 8.01, 0.2)[:, None], km.Gaussian(1.0)
    law = np.exp(-0.5 * grid[:, 0] ** 2 * (1 - rho**2) / q)
    return RecoveredModel(
        MeanEmbedding(grid, law / law.sum(), kernel),
        lambda x: normal_batch(grid, rho * x[:, 0], q, kernel),
        lambda x: normal_batch(grid, x[:, 0], r, kernel),
        (WIDE, WIDE),
    )


def test_a_recovered_model_equals_the_model_that_it_was_made_of():
    exact, model = line(), recovered_line()
    x, Y = np.linspace(-2, 2, 7)[:, None], np.array([[-1.0], [0.4]])
    assert model.log_emission(Y, x) == pytest.approx(exact.log_emission(Y, x), abs=1e-6)
    assert model.mean_emission(x) == pytest.approx(x, abs=1e-8)
    rng = np.random.default_rng(54)
    many = np.repeat(x[:2], 2000, axis=0)
    centred = [
        (model.draw_next(many, rng) - 0.9 * many) / 0.3**0.5,
        (model.draw_emission(many, rng) - many) / 0.4**0.5,
        model.draw_first(4000, rng) / (0.3 / 0.19) ** 0.5,
    ]
    for drawn in centred:
        assert stats.kstest(drawn[:, 0], "norm").pvalue > 1e-3


def test_first_states_are_a_step_from_a_node():
    law = recovered_line()
    at_one = MeanEmbedding([[1.0]], None, km.Gaussian(1.0))
    model = RecoveredModel(at_one, law.transition, law.emission, law.bandwidths)
    drawn = model.draw_first(4000, np.random.default_rng(68))
    assert stats.kstest((drawn[:, 0] - 0.9) / 0.3**0.5, "norm").pvalue > 1e-3


@pytest.mark.slow
def test_a_recovered_model_filters_like_the_exact_law():
    Y = observed(line(), 8, seed=55)
    mean, _, state, _, loglik = line().exact(Y)
    found, _ = replicated(recovered_line(), Y, n_particles=200)
    assert_mean_is(found["mean"], mean)
    assert_mean_is(found["state_mean"], state)
    assert_mean_is(np.exp(found["loglik"].sum(axis=1) - loglik.sum()), 1.0)


SIGNED = np.array([[1.3, -0.9, 0.6], [0.2, 1.0, -0.2]])


def signed_model(points):
    """Two laws with weights of both signs, for states below and above zero."""
    kernel = km.Gaussian(1.0)

    def law(x):
        return MeanEmbedding(points, SIGNED[(x[:, 0] > 0).astype(int)], kernel)

    return RecoveredModel(MeanEmbedding(points, None, kernel), law, law, (0.5, 0.5))


def signed_density(points, weights, y):
    """Written out: positive part, before it is made to integrate to one."""
    k = [np.prod(stats.norm.pdf(y - point, scale=0.5), axis=1) for point in points]
    return np.maximum(weights @ np.array(k), 0.0)


@pytest.mark.parametrize("which", [0, 1])
def test_draws_follow_the_positive_part(which):
    points = np.array([[-0.4], [0.3], [1.0]])
    model, x = signed_model(points), np.full((8000, 1), which - 0.5)
    grid = np.linspace(-6, 6, 4001)
    upto = np.cumsum(signed_density(points, SIGNED[which], grid[:, None]))
    drawn = model.draw_next(x, np.random.default_rng(56))[:, 0]

    def cdf(y):
        return np.interp(y, grid, upto / upto[-1])

    assert stats.kstest(drawn, cdf).pvalue > 1e-3


def test_a_draw_for_each_row_has_the_law_of_its_row():
    model = signed_model(np.array([[-0.4], [0.3], [1.0]]))
    x = np.tile([[-0.5], [0.5]], (4000, 1))
    drawn = model.draw_emission(x, np.random.default_rng(57))[:, 0]
    apart = [
        model.draw_emission(np.full((4000, 1), v), np.random.default_rng(58))[:, 0]
        for v in (-0.5, 0.5)
    ]
    for which in (0, 1):
        assert stats.ks_2samp(drawn[which::2], apart[which]).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "points",
    [np.array([[-0.4], [0.3], [1.0]]), np.array([[-0.4, 0.0], [0.3, 0.2], [1.0, -0.5]])],
    ids=["line", "plane"],
)
def test_emission_densities_are_positive_parts_that_integrate_to_one(points):
    model, d = signed_model(points), points.shape[1]
    axis = np.linspace(-4, 4, 161)
    grid = np.stack(np.meshgrid(*[axis] * d), axis=-1).reshape(-1, d)
    found = np.exp(model.log_emission(grid, np.array([[-0.5], [0.5]])))
    cell = (axis[1] - axis[0]) ** d
    assert found.sum(axis=0) * cell == pytest.approx(1, abs=2e-4)
    for which in (0, 1):
        raw = signed_density(points, SIGNED[which], grid)
        assert found[:, which] == pytest.approx(raw / (raw.sum() * cell), abs=2e-4)


@pytest.mark.parametrize("design", ["linear", "bimodal"])
def test_emission_densities_are_positive_parts_of_those_of_the_embeddings(design):
    data = km.datasets.make_state_space(design, 400, random_state=66)
    emission = km.ConditionalEmbedding(reg=1e-5).fit(data.states, data.X)
    width = 0.3 * data.X.std()
    model = RecoveredModel(km.MeanEmbedding(data.states), emission.at, emission.at, (1.0, width))
    laws = emission.at(data.states[:100])
    assert laws.negative_mass(width)[0].max() > 0.01
    q = laws.density(data.X[:50], width, signed=True).T
    exact = np.maximum(q, 0.0) / (1.0 + laws.negative_mass(width)[0])
    found = np.exp(model.log_emission(data.X[:50], data.states[:100]))
    assert found == pytest.approx(exact, rel=1e-3)


def test_almost_all_cancellation_is_said():
    points = np.array([[0.0], [1e-4]])
    batch = np.array([[1.0 + 1e6, -1e6]])
    law = MeanEmbedding(points, batch, km.Gaussian(1.0))
    model = RecoveredModel(law[0], lambda x: law, lambda x: law, (50.0, 50.0))
    with pytest.warns(NumericalWarning, match="gave up"):
        drawn = model.draw_next(np.zeros((1, 1)), np.random.default_rng(59))
    assert np.isfinite(drawn).all()


@pytest.mark.parametrize("widths", [(0.0, 1.0), (1.0, -1.0)])
def test_bandwidths_are_checked(widths):
    law = recovered_line()
    with pytest.raises(ValueError, match="bandwidths, of .* positive"):
        RecoveredModel(law.stationary, law.transition, law.emission, widths)


# ------------------------------------------------------------ the package `particles`


@pytest.mark.parametrize("model", [plane(), line()], ids=["plane", "line"])
def test_runs_in_the_package_particles(model):
    particles = pytest.importorskip("particles")
    from particles.state_space_models import Bootstrap

    Y = observed(model, 10, seed=60, gaps=[3])
    *_, loglik = model.exact(Y)
    law, found = as_particles_model(model, 61), []
    for _ in range(REPLICATES):
        smc = particles.SMC(fk=Bootstrap(ssm=law, data=Y), N=500)
        smc.run()
        found.append(smc.logLt)
    assert_mean_is(np.exp(np.array(found) - loglik.sum()), 1.0)


def test_the_package_smooths_by_genealogies():
    particles = pytest.importorskip("particles")
    from particles.state_space_models import Bootstrap

    model = line()
    Y = observed(model, 3, seed=62)
    xx, yy, xy = model.joint(3)
    exact = xy @ np.linalg.solve(yy, Y[:, 0])
    law, found = as_particles_model(model, 63), []
    for _ in range(REPLICATES):
        smc = particles.SMC(fk=Bootstrap(ssm=law, data=Y), N=500, store_history=True)
        smc.run()
        paths = np.array(smc.hist.extract_one_trajectory())
        found.append(paths)
    assert_mean_is(np.array(found), exact)


@pytest.mark.parametrize(("model", "d"), [(plane(), 2), (line(), 1)], ids=["plane", "line"])
def test_the_package_simulates(model, d):
    pytest.importorskip("particles")
    states, observations = as_particles_model(model, 64).simulate(5)
    assert len(states) == len(observations) == 5
    assert np.shape(states[2]) == np.shape(observations[2]) == ((1,) if d == 1 else (1, d))
    again = as_particles_model(model, 64).simulate(5)[0]
    assert np.array_equal(states, again)


def test_many_draws_of_one_state():
    pytest.importorskip("particles")
    drawn = as_particles_model(line(), 65).PX(1, np.array([2.0])).rvs(size=5000)
    assert drawn.shape == (5000,)
    assert stats.kstest((drawn - 1.8) / 0.3**0.5, "norm").pvalue > 1e-3


def test_a_transition_density_is_not_made_up():
    pytest.importorskip("particles")
    with pytest.raises(NotImplementedError):
        as_particles_model(line()).PX(1, np.zeros(2)).logpdf(np.zeros(2))


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "particles.distributions", None)
    with pytest.raises(ImportError, match="pip install --no-deps particles"):
        as_particles_model(line())


def test_the_package_that_is_missing_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "particles", None)
    with pytest.raises(ImportError, match="as_particles_model needs particles: pip install"):
        as_particles_model(line())
