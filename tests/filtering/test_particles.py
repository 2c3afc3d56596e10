"""The filter on densities by particles, beside Kalman's filter and sums over all of them."""

from __future__ import annotations

import filter_oracles as dense
import numpy as np
import pytest
from filter_cases import DENSE
from numpy.testing import assert_allclose
from scipy.stats import ks_2samp, multivariate_normal

import kernelmean as km
from kernelmean.densities.standard import NormalErrors
from kernelmean.filtering.laws import LawsAt, StateLaw, Tabled
from kernelmean.filtering.particles import ParticleMachine, along_a_curve

TURN = np.array([[0.9, -0.3, 0.0], [0.3, 0.9, 0.2], [0.0, -0.2, 0.8]])
LAW = dense.Linear(TURN, 0.1 * np.eye(3), np.eye(3)[:2], 0.5 * np.eye(2))


@pytest.fixture(scope="module")
def record() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return *LAW.simulate(300, rng), *LAW.simulate(60, rng)


@pytest.fixture(scope="module")
def model(record) -> km.KernelBayesFilter:
    X, Z, *_ = record
    return km.KernelBayesFilter(**DENSE).fit(X, Z)


@pytest.fixture(scope="module")
def tracks(model, record) -> tuple[km.filtering.results.FilterResult, ...]:
    new = record[2]
    return model.filter(new), model.smooth(new)


def test_next_to_kalman(model, record, tracks):
    """Filter and smoother of three linear states; means are those of particles."""
    assert isinstance(model.machine_, ParticleMachine)
    *_, new, truth = record
    for found, best, spread in zip(tracks, LAW.kalman(new)[:2], LAW.kalman(new)[2:], strict=True):
        assert np.mean((found.mean() - best) ** 2) < 0.15 * spread.mean()
        inside = (truth >= found.interval(0.9).lower) & (truth <= found.interval(0.9).upper)
        assert 0.82 < inside.mean() < 0.97
    errors = [np.mean((found.mean() - truth) ** 2) for found in tracks]
    assert errors[1] < errors[0]


def test_the_summary_counts_them(model):
    facts = [line.split() for line in str(model.summary()).splitlines()]
    assert ["nodes", "4,000"] in facts
    assert ["particles", "1,024"] in facts


def test_answers_stand_on_the_nearest_nodes(model, tracks):
    step, nodes = tracks[0].steps[3], model.machine_.points
    at = step.cloud * model.machine_.units + model.machine_.middle
    unit = model.machine_.units
    near = np.argmin((((at[:, None] - nodes) / unit) ** 2).sum(axis=2), axis=1)
    expected = [step.belief[near == j].sum() for j in range(len(nodes))]
    assert_allclose(tracks[0].embedding.weights[3], expected, atol=1e-12)
    assert_allclose(tracks[0].mean()[3], step.belief @ at, atol=1e-12)


def test_moves_are_draws_that_are_nearer_to_their_law_than_independent_ones(model, tracks):
    """Means and mean squares of a mixture of normal laws, a tenth as far off in twenty steps."""
    machine, off = model.machine_, []
    n, root = machine.count, machine.moving.density.root
    for step in tracks[0].steps[10:30]:
        at = machine.moving.at(step.cloud)
        spread = np.exp(at.log_size)[:, :, None] * root
        mean = step.belief @ at.middle
        square = step.belief @ (at.middle**2 + (spread**2).sum(axis=2))
        drawn = machine.predicted(step).cloud[:n]
        deviation = np.sqrt(square - mean**2)
        of_squares = (drawn**2).std(axis=0)
        off.append((drawn.mean(axis=0) - mean) / deviation * n**0.5)
        off.append(((drawn**2).mean(axis=0) - square) / of_squares * n**0.5)
    assert np.mean(np.square(off)) < 0.1


@pytest.mark.parametrize("d", [1, 2, 5])
def test_points_along_a_curve_are_in_the_order_of_their_bits_in_turn(d, rng):
    points = rng.normal(size=(37, d))
    ranks = [[sorted(column).index(v) for v in column] for column in points.T]

    def place(i: int) -> int:
        each = [f"{column[i]:06b}" for column in ranks]
        return int("".join("".join(bits) for bits in zip(*each, strict=True)), 2)

    assert along_a_curve(points).tolist() == sorted(range(37), key=place)


def test_an_update_is_bayes_rule(model, record):
    machine, x = model.machine_, record[2][:1]
    step = machine.predicted(model.filter(x).steps[0])
    (after,) = machine.updated([step], machine.coordinates(record[2][1:2]))
    laws = StateLaw(machine.observing, machine.standard)
    told = laws.at(step.cloud).log_density_of_pairs(
        np.repeat(machine.coordinates(record[2][1:2]), len(step.belief), axis=0)
    )
    expected = step.belief * np.exp(told - told.max())
    assert_allclose(after.belief, expected / expected.sum(), atol=1e-12)


def test_smoothing_sums_over_all_pairs(model, record):
    """With few particles, pair by pair."""
    X, Z, new, _ = record
    machine = km.KernelBayesFilter(**DENSE, max_active=40).fit(X, Z).machine_
    steps = machine.track(new[:2], [slice(0, 2)])
    found = machine.smoothed(*steps).belief
    w, ahead, later = steps[0].belief, machine.predicted(steps[0]), steps[1].belief
    at = machine.moving.at(steps[0].cloud)
    law = machine.moving.density.root @ machine.moving.density.root.T
    drawn = ahead.cloud[:40] / np.exp(at.log_size.mean(axis=0))  # laws reach half of Silverman's
    law = law + (0.5 * (4 / (5 * 40)) ** (1 / 7)) ** 2 * np.cov(drawn.T, bias=True)
    P = np.empty((len(w), len(later)))
    for i in range(len(w)):
        size = np.diag(np.exp(at.log_size[i]))
        P[i] = multivariate_normal(at.middle[i], size @ law @ size).pdf(ahead.cloud)
    S = P / (w @ P)
    expected = w * (S @ later) / (S @ ahead.belief)
    assert_allclose(found, expected / expected.sum(), atol=1e-3 / len(w))


@pytest.mark.slow
def test_a_smoother_of_what_follows_exactly():
    """A place from its speed, a speed from its acceleration: all came to be children of one.

    The error was 1.36 times that of the exact smoother, and 90% intervals held 65%.
    """
    rng, Z = np.random.default_rng(0), np.zeros((400, 3))
    A = np.array([[0.9, 0.8, 0.8], [0.0, 0.8, 0.8], [0.0, 0.0, 0.8]])
    G = np.full(3, 0.3)
    for t in range(1, 400):
        Z[t] = A @ Z[t - 1] + G * rng.standard_normal()
    X = Z[:, :1] + rng.standard_normal((400, 1))
    found = km.KernelBayesFilter(**DENSE).fit(X[:300], Z[:300]).smooth(X[300:])
    best = exactly_smoothed(A, np.outer(G, G), X[300:], Z[:300])
    off = [np.mean((means - Z[300:]) ** 2 / Z.var(axis=0)) for means in (found.mean(), best)]
    assert off[0] < 1.15 * off[1]
    lower, upper = found.interval(0.9)
    assert ((lower <= Z[300:]) & (Z[300:] <= upper)).mean() > 0.85


def exactly_smoothed(A, Q, X, known) -> np.ndarray:
    """Means given all of one column, seen with noise 1: as one normal law of all states."""
    n, d = len(X), len(A)
    prior = np.zeros((n * d, n * d))  # covariance of (z_1, ..., z_n)
    cov = np.cov(known.T)
    for t in range(n):
        block = cov
        for u in range(t, n):
            prior[u * d : (u + 1) * d, t * d : (t + 1) * d] = block
            prior[t * d : (t + 1) * d, u * d : (u + 1) * d] = block.T
            block = A @ block
        cov = A @ cov @ A.T + Q
    seen = slice(0, n * d, d)
    gain = np.linalg.solve(prior[seen, seen] + np.eye(n), prior[seen])
    return (X[:, 0] @ gain).reshape(n, d)


def test_normal_densities_of_all_pairs_are_scipys(rng):
    root = np.linalg.cholesky(np.cov(rng.standard_normal((3, 20))))
    middle, log_size, Y = (rng.standard_normal((n, 3)) for n in (5, 5, 7))
    found = LawsAt(NormalErrors(root), middle, log_size).log_density(Y)
    for i in range(5):
        size = np.diag(np.exp(log_size[i]))
        law = multivariate_normal(middle[i], size @ root @ root.T @ size)
        assert_allclose(found[i], law.logpdf(Y), atol=1e-9)


def test_nothing_seen_later_moves_nothing(model, record):
    X = record[2][:30].copy()
    X[20:] = np.nan
    assert_allclose(model.smooth(X).mean()[19:], model.filter(X).mean()[19:], atol=1e-12)


def test_streaming_sequences_and_files(model, record, tracks, tmp_path):
    """The same draws, wherever a belief is carried on."""
    new, found = record[2], tracks[0].mean()
    belief = model.start()
    for t in range(4):
        belief = (belief.predict() if t else belief).update(new[t])
    assert_allclose(belief.mean(), found[3], atol=1e-12)
    again = model.filter(np.concatenate([new[:9], new[:5]]), lengths=[9, 5])
    assert_allclose(again.mean(), np.concatenate([found[:9], found[:5]]), atol=1e-12)
    model.save(tmp_path / "filter.km")
    loaded = km.load(tmp_path / "filter.km")
    assert_allclose(loaded.smooth(new[:9]).mean(), model.smooth(new[:9]).mean(), atol=1e-12)


def test_a_forecast_goes_back_to_the_law_of_the_states(model, record):
    X, Z, new, _ = record
    ahead = model.forecast(new, 60)
    filtered, *_ = LAW.kalman(new)
    assert_allclose(ahead.mean()[0], TURN @ filtered[-1], atol=0.25)
    assert_allclose(ahead.mean()[-1], Z.mean(axis=0), atol=0.3)
    assert_allclose(ahead.observations.mean()[0], ahead.mean()[0, :2], atol=0.1)


def test_some_particles_begin_anew(model, record):
    """They would find a track that was lost, and hardly count until they do."""
    machine = model.machine_
    step = machine.predicted(model.filter(record[2][:1]).steps[0])
    nodes = machine._inner(machine.points)
    anew = (step.cloud[:, None, 0] == nodes[:, 0]).any(axis=1)
    assert anew.sum() == 51  # of 1,075
    assert_allclose(step.belief[anew].sum(), 1e-3 / 1.001)


def lagged(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A column and its past."""
    rng, z = np.random.default_rng(seed), np.zeros(n)
    for t in range(2, n):
        z[t] = 1.6 * z[t - 1] - 0.7 * z[t - 2] + 0.3 * rng.standard_normal()
    Z = np.column_stack([z, np.append(0.0, z[:-1])])
    return Z[:, :1] + rng.normal(size=(n, 1)), Z


@pytest.mark.slow
def test_states_that_follow_each_other_exactly_are_followed():
    """Intervals hold what they should."""
    X, Z = lagged(150, 0)
    later, truth = lagged(150, 1)
    model = km.KernelBayesFilter(**DENSE).fit(X, Z)
    found = model.filter(later)
    assert isinstance(model.machine_, ParticleMachine)
    assert np.mean((found.mean() - truth) ** 2) < 0.25 * Z.var()
    inside = (truth >= found.interval(0.9).lower) & (truth <= found.interval(0.9).upper)
    assert (inside.mean(axis=0) > 0.85).all()


@pytest.mark.parametrize("columns", [1, 2])
def test_a_table_of_laws_says_what_they_do(columns):
    """Between its nodes, and beyond them, at the states it is of."""
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(120, 3))
    E = rng.exponential(size=(120, columns)) * (1.0 + 0.5 * (Z[:, :1] > 0)) - 1.0
    density = km.ConditionalDensity(location=False).fit(Z, E).fit_
    table = Tabled(density, Z)
    assert len(table.tree.data) == len(Z)
    new = np.r_[E, 3.0 * E[:40], np.full((1, columns), -30.0)]
    at = np.r_[Z, Z[:40], Z[:1]]
    exact = np.asarray(density.laws(at).log_density_of_pairs(new))
    off = np.abs(table.at(at).log_density_each(new[:, None])[:, 0] - exact)
    inside = ((table.low < new) & (new < table.high)).all(axis=1)
    assert off[inside & (exact > -5)].max() < 0.07  # two columns of (h/γ)²/8, h half of γ
    assert off[inside].max() < 0.2  # where the wide law takes over
    assert off[~inside].max() < 0.5
    assert off[-1] < 0.05

    draws = table.at(Z[:3]).sample(4000, rng)
    laws = density.laws(Z[:3])
    drawn = [np.asarray(law.sample(4000, rng)) for law in laws]
    for mine, theirs in zip(draws, drawn, strict=True):
        for j in range(columns):
            assert ks_2samp(mine[:, j], theirs[:, j]).pvalue > 1e-3
        assert_allclose(np.cov(mine.T), np.cov(theirs.T), rtol=0.25, atol=0.1)


def test_no_table_is_wider_apart_than_laws_are_narrow():
    """Humps would be lost between its nodes: such laws are formed for each particle."""
    rng = np.random.default_rng(7)
    Z = rng.normal(size=(150, 3))
    E = rng.choice([-1.0, 1.0], size=(150, 2)) + 0.001 * rng.normal(size=(150, 2))
    law = StateLaw(km.ConditionalDensity(location=False).fit(Z, E).fit_)
    assert law.tabled(Z) is law
    E = rng.choice([-1.0, 1.0], size=(150, 2)) + 0.2 * rng.normal(size=(150, 2))
    law = StateLaw(km.ConditionalDensity(location=False).fit(Z, E).fit_)
    assert isinstance(law.tabled(Z).density, Tabled)


@pytest.mark.slow
def test_particles_are_weighed_by_the_laws_of_the_states_nearest():
    """Errors that are far from normal: by a table nearly what the laws of all particles say."""
    rng = np.random.default_rng(5)
    X, Z = LAW.simulate(300, rng)
    X = Z[:, :2] + rng.choice([-0.8, 0.8], size=X.shape) + 0.1 * rng.normal(size=X.shape)
    machine = km.KernelBayesFilter(**DENSE).fit(X, Z).machine_
    assert isinstance(machine._tables[1].density, Tabled)
    steps = machine.track(X[:10], [slice(0, 10)])
    for i in (3, 8):
        ahead = machine.predicted(steps[i])
        laws = StateLaw(machine.observing, machine.standard).at(ahead.cloud)
        told = laws.log_density(machine.coordinates(X[i + 1 : i + 2]))[:, 0]
        w = ahead.belief * np.exp(told - told.max())
        exact = w @ ahead.cloud / w.sum()
        found = machine._one(ahead, machine.coordinates(X[i + 1 : i + 2])[0])
        assert_allclose(found.belief @ found.cloud, exact, atol=0.03)
