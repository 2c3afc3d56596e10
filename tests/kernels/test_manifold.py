"""Angles and rotations: textbook formulas, densities on the circle, preimages on the manifold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, optimize, stats
from scipy.spatial.transform import Rotation as Turn
from sklearn.gaussian_process import kernels as sk

import kernelmean as km
from kernelmean.embedding import recovery
from kernelmean.kernels.manifold import nearest_rotations

TAU = 2 * math.pi
TRACE = km.Frobenius(rotations=True)


def turns(n: int, seed: int = 0) -> np.ndarray:
    """Random rotations of space, (n, 9)."""
    return flat(Turn.random(n, np.random.default_rng(seed)))


def flat(turn: Turn) -> np.ndarray:
    return turn.as_matrix().reshape(-1, 9)


def gap(a, b, period: float = TAU):
    """Distance of two angles around the circle."""
    return np.abs((np.asarray(a) - b + period / 2) % period - period / 2)


def angle_between(A, B) -> np.ndarray:
    A, B = (Turn.from_matrix(np.reshape(M, (-1, 3, 3))) for M in (A, B))
    return (A.inv() * B).magnitude()


def distance(m: km.MeanEmbedding, X: np.ndarray) -> np.ndarray:
    return m.kernel.diag(X) - 2 * m(X)


# ------------------------------------------------------------------------------------------ angles
class TestPeriodic:
    @pytest.mark.parametrize(
        ("lengthscale", "period"),
        [(0.7, TAU), (0.7, 24.0), ((0.5, 2.0), 360.0), (0.7, (1.0, TAU)), ((0.5, 2.0), (1.0, 7.0))],
    )
    def test_equals_a_double_loop(self, rng, lengthscale, period):
        X, Y = rng.normal(scale=5, size=(6, 2)), rng.normal(scale=5, size=(4, 2))
        ell, p = np.broadcast_to(lengthscale, 2), np.broadcast_to(period, 2)
        expected = [
            [math.exp(-2 * sum((np.sin(math.pi * (x - y) / p) / ell) ** 2)) for y in Y] for x in X
        ]
        assert_allclose(km.Periodic(lengthscale, period)(X, Y), expected, rtol=1e-10)

    def test_angles_have_no_other_unit(self, rng):
        """By name distances are of columns over their deviations, which a turn changes."""
        A = rng.vonmises(1.0, 1.0, size=(60, 2)) % TAU
        for X in (A, (A + 2.5) % TAU):
            model = km.ConditionalEmbedding("periodic", reg=0.1).fit(X, np.cos(A[:, 0]))
            own = km.Periodic().resolve(A).lengthscale
            assert_allclose(model.kernel_x_.lengthscale, own)

    def test_equals_scikit_learns_exp_sine_squared(self, rng):
        x, y = rng.normal(size=(6, 1)), rng.normal(size=(5, 1))
        assert_allclose(km.Periodic(0.7, 1.3)(x, y), sk.ExpSineSquared(0.7, 1.3)(x, y), rtol=1e-10)

    def test_whole_turns_change_nothing(self, rng):
        X = rng.uniform(0, 24, size=(5, 2))
        k = km.Periodic(0.5, 24)
        assert_allclose(k(X + np.array([24, -240]), X), k(X), rtol=1e-9)

    def test_is_close_to_gaussian_where_angles_are_small(self, rng):
        X = 1e-3 * rng.normal(size=(5, 1))
        assert_allclose(km.Periodic(1e-3)(X), km.Gaussian(1e-3)(X), rtol=1e-4)

    def test_median_is_that_of_distances_through_the_circle(self, rng):
        X = rng.uniform(0, 360, size=(30, 2))
        i, j = np.triu_indices(30, 1)
        chords = 2 * np.sin(math.pi * np.abs(X[i] - X[j]) / 360)
        assert km.Periodic(period=360).resolve(X).lengthscale == pytest.approx(
            np.median(np.linalg.norm(chords, axis=1))
        )
        each = km.Periodic(period=360, columnwise=True).resolve(X).lengthscale
        assert_allclose(each, np.median(chords, axis=0))

    def test_constant_angles_are_refused(self):
        with pytest.raises(ValueError, match="Z is constant"):
            km.Periodic().resolve(np.ones((5, 1)), "Z")
        with pytest.raises(ValueError, match="column 1 of X is constant"):
            km.Periodic(columnwise=True).resolve(np.column_stack([np.arange(5.0), np.ones(5)]))

    @pytest.mark.parametrize("bad", [0, -1.0, np.nan, "x", None, [1.0, -1.0], [], True])
    def test_bad_periods_are_refused(self, bad):
        with pytest.raises(ValueError, match="period"):
            km.Periodic(1.0, bad)

    def test_a_wrong_number_of_periods_is_refused(self):
        for use in (km.Periodic(1.0, (1.0, 2.0)), km.Periodic(period=(1.0, 2.0)).resolve):
            with pytest.raises(ValueError, match="period has 2 entries but the points have 3"):
                use(np.eye(3))

    def test_a_wrong_number_of_lengthscales_is_refused(self):
        with pytest.raises(ValueError, match="lengthscale has 2 entries but the points have 3"):
            km.Periodic((1.0, 2.0))(np.eye(3))

    def test_by_name(self):
        assert km.as_kernel("periodic") == km.Periodic()
        assert km.as_kernel("periodic", columnwise=True) == km.Periodic(columnwise=True)
        assert km.as_kernel("rotation") == km.Rotation()

    def test_is_a_value(self, tmp_path):
        k = km.Periodic((0.5, 1.0), [24, 360])
        assert eval(repr(k), vars(km.kernels)) == k
        assert hash(k) == hash(km.Periodic([0.5, 1.0], (24.0, 360.0)))
        assert k != km.Periodic((0.5, 1.0), 24)
        assert km.Periodic(1.0) != km.Gaussian(1.0)
        k.save(tmp_path / "k.km")
        assert km.load(tmp_path / "k.km") == k
        assert k.scaled(2.0) == km.Periodic((1.0, 2.0), (24, 360))


class TestVonMises:
    @pytest.mark.parametrize("lengthscale", [0.01, 0.5, 1.0, 30.0])
    def test_density_is_von_mises(self, rng, lengthscale):
        x, y = rng.uniform(0, TAU, size=(5, 1)), rng.uniform(0, TAU, size=(4, 1))
        expected = stats.vonmises.pdf(y.T, 1 / lengthscale**2, loc=x)
        assert_allclose(km.Periodic(lengthscale).density(x, y), expected, rtol=1e-8, atol=1e-12)

    @pytest.mark.parametrize("period", [TAU, 24.0, (1.0, 360.0)])
    @pytest.mark.parametrize("lengthscale", [0.3, (0.5, 2.0)])
    def test_density_integrates_to_one(self, lengthscale, period):
        """The trapezoidal rule over a whole period is exact to rounding."""
        step = np.arange(120) / 120
        grid = np.stack(np.meshgrid(step, step), axis=-1).reshape(-1, 2) * period
        q = km.Periodic(lengthscale, period).density([[0.3, 0.1]], grid)
        assert q.mean() * np.prod(np.broadcast_to(period, 2)) == pytest.approx(1.0, abs=1e-12)

    def test_bandwidth_replaces_the_lengthscale(self, rng):
        X = rng.normal(size=(4, 2))
        expected = km.Periodic(0.4, 3.0).density(X, X)
        assert_allclose(km.Periodic(1.0, 3.0).density(X, X, bandwidth=0.4), expected)
        with pytest.raises(ValueError, match="bandwidth"):
            km.Periodic(1.0).density(X, X, bandwidth=-1.0)

    @pytest.mark.parametrize("period", [TAU, 24.0])
    def test_self_convolution(self, period):
        k = km.Periodic(0.6, period)
        X, Y = np.array([[0.1], [2.0]]), np.array([[0.1], [0.4 * period], [period - 0.2]])
        u = period * np.arange(400)[:, None] / 400
        expected = k.density(X, u) @ k.density(u, Y) * period / 400
        assert_allclose(k.self_convolution(X, Y), expected, rtol=1e-10)

    def test_self_convolution_of_columns_is_a_product(self, rng):
        X = rng.normal(size=(4, 2))
        whole = km.Periodic((0.5, 1.5), (2.0, 3.0)).self_convolution(X, X)
        parts = [
            km.Periodic(s, p).self_convolution(X[:, j], X[:, j])
            for j, (s, p) in enumerate([(0.5, 2.0), (1.5, 3.0)])
        ]
        assert_allclose(whole, parts[0] * parts[1], rtol=1e-10)

    def test_spectrum_gives_the_kernel_back(self, rng):
        k = km.Periodic((0.6, 2.0), (TAU, 5.0))
        W = k.spectrum(40_000, 2, rng)
        assert_allclose(W * [1.0, 5.0 / TAU], np.round(W * [1.0, 5.0 / TAU]), atol=1e-9)
        gaps = rng.uniform(0, 5, size=(8, 2))
        # four standard errors of a mean of 40,000 cosines
        assert_allclose(np.cos(gaps @ W.T).mean(1), k(gaps, [[0.0, 0.0]])[:, 0], atol=0.02)

    @pytest.mark.slow
    def test_samples_follow_the_density(self):
        m = km.MeanEmbedding([0.1, 5.9], [0.7, 0.3], km.Periodic(1.0))
        S = m.sample(20_000, 0, bandwidth=0.5)[:, 0]
        assert (S >= 0).all()
        assert (S < TAU).all()

        nodes = np.linspace(0, TAU, 3901)
        cdf = integrate.cumulative_simpson(m.density(nodes, 0.5), x=nodes, initial=0)
        empirical = np.searchsorted(np.sort(S), nodes[::100]) / len(S)
        # Kolmogorov-Smirnov at the 1% level: 1.63/sqrt(20,000) = 0.0115
        assert_allclose(empirical, cdf[::100], atol=0.0115)

    @pytest.mark.parametrize("period", [TAU, 360.0])
    def test_bandwidth_by_default_is_that_of_the_spread_around_the_circle(self, rng, period):
        """0.2 radians around an angle, wherever it is: Silverman's 1.06 n^{-1/5} 0.2."""
        for centre in (0.0, 2.0):
            X = (centre + 0.2 * rng.normal(size=500)) % TAU * period / TAU
            m = km.MeanEmbedding(X, kernel=km.Periodic(1.0, period))
            (bandwidth,) = recovery.default_bandwidth(m)
            assert bandwidth == pytest.approx(1.06 * 500**-0.2 * 0.2, rel=0.15)

    def test_bandwidth_by_default_on_columns(self, rng):
        X = np.column_stack([(0.2 * rng.normal(size=500)) % 24, 3 * rng.normal(size=500)])
        k = km.on_columns({1: km.Gaussian(1.0), 0: km.Periodic(1.0, 24)})
        got = recovery.default_bandwidth(km.MeanEmbedding(X, kernel=k))
        expected = np.array([0.2 * TAU / 24, 3.0]) * 500 ** (-1 / 6)
        assert_allclose(got, expected, rtol=0.15)

    def test_bandwidth_by_default_of_angles_all_around(self, rng):
        m = km.MeanEmbedding(rng.uniform(0, TAU, 300), kernel=km.Periodic(1.0))
        assert recovery.default_bandwidth(m)[0] < 1
        assert (m.density(np.linspace(0, TAU, 9)) > 0).all()


class TestModeOfAngles:
    def test_across_the_cut(self):
        """The mean of 0.1 and 2π − 0.1 is π, their mode 0."""
        m = km.MeanEmbedding([0.1, TAU - 0.1], kernel=km.Periodic(1.0))
        assert m.mean() == pytest.approx(math.pi)
        assert gap(m.mode(), 0.0) < 1e-9

    @pytest.mark.parametrize("signed", [False, True])
    @pytest.mark.parametrize("period", [TAU, 24.0])
    def test_is_the_best_of_a_grid_and_inside_the_period(self, signed, period):
        rng = np.random.default_rng(0)
        grid = np.linspace(0, period, 20_001)[:-1, None]
        for seed in range(8):
            X = rng.uniform(-2 * period, 2 * period, size=(12, 1))
            w = rng.normal(size=12) if signed else rng.uniform(size=12)
            m = km.MeanEmbedding(X, w / w.sum(), km.Periodic(0.6, period))
            x = m.mode()
            assert 0 <= x[0] < period
            assert distance(m, x[None])[0] <= distance(m, grid).min() + 1e-9, seed
            assert gap(x, grid[np.argmin(distance(m, grid))], period) < 2 * period / 20_000

    def test_two_angles(self, rng):
        X = rng.uniform(0, TAU, size=(10, 2)) * [1, 24 / TAU]
        m = km.MeanEmbedding(X, kernel=km.Periodic((0.8, 0.6), (TAU, 24.0)))
        step = np.arange(300) / 300
        grid = np.stack(np.meshgrid(step, step), axis=-1).reshape(-1, 2) * [TAU, 24.0]
        assert distance(m, m.mode()[None])[0] <= distance(m, grid).min() + 1e-9

    def test_an_angle_beside_a_place(self, rng):
        """on_columns: a heading with its position, and a column that the kernel does not see."""
        X = np.column_stack([rng.normal(size=20), np.ones(20), rng.uniform(0, 9, size=20)])
        m = km.MeanEmbedding(X, kernel=km.on_columns({2: km.Periodic(0.7, 9), 0: km.Gaussian(0.5)}))
        x = m.mode()
        assert x[1] == 1
        assert 0 <= x[2] < 9
        grid = np.stack(np.meshgrid(np.linspace(-3, 3, 400), np.linspace(0, 9, 400)), axis=-1)
        grid = np.insert(grid.reshape(-1, 2), 1, 1.0, axis=1)
        assert distance(m, x[None])[0] <= distance(m, grid).min() + 1e-9

    def test_an_angle_that_is_a_hair_below_zero(self):
        x = km.MeanEmbedding([-1e-20], kernel=km.Periodic(1.0)).mode()
        assert_array_equal(x, [0.0])


# --------------------------------------------------------------------------------------- rotations
class TestRotation:
    def test_equals_a_double_loop(self):
        A, B = turns(5), turns(4, seed=1)
        expected = [[math.exp(-((a - b) ** 2).sum() / (2 * 0.7**2)) for b in B] for a in A]
        assert_allclose(km.Rotation(0.7)(A, B), expected, rtol=1e-10)
        assert_allclose(km.Rotation(0.7)(A.reshape(5, 3, 3), B.reshape(4, 3, 3)), expected)

    def test_is_a_function_of_the_angle_between(self):
        A, B = turns(5), turns(5, seed=1)
        chord = 2 * math.sqrt(2) * np.sin(angle_between(A, B) / 2)
        assert_allclose(km.Rotation(0.7)(A, B).diagonal(), np.exp(-(chord**2) / (2 * 0.7**2)))

    def test_median_is_that_of_chordal_distances(self):
        A = turns(30)
        assert km.Rotation().resolve(A) == km.Rotation(km.median_lengthscale(A))
        assert km.Rotation().resolve(A.reshape(30, 3, 3)) == km.Rotation().resolve(A)

    def test_spectrum_gives_the_kernel_back(self, rng):
        A, k = turns(6), km.Rotation(1.5)
        W = k.spectrum(40_000, 9, rng)
        assert_allclose(np.cos((A - A[0]) @ W.T).mean(1), k(A, A[:1])[:, 0], atol=0.02)

    def test_is_a_value(self, tmp_path):
        k = km.Rotation(0.5)
        assert eval(repr(k), vars(km.kernels)) == k
        assert k.scaled(2.0) == km.Rotation(1.0)
        k.save(tmp_path / "k.km")
        assert km.load(tmp_path / "k.km") == k
        for bad in (0.0, "x", None, [1.0] * 9):
            with pytest.raises(ValueError, match="lengthscale"):
                km.Rotation(bad)

    def test_has_no_density(self):
        for ask in (km.Rotation(1.0).density, km.Rotation(1.0).self_convolution):
            with pytest.raises(ValueError, match="density"):
                ask(turns(3), turns(3))
        with pytest.raises(ValueError, match="density"):
            km.MeanEmbedding(turns(3), kernel=km.Rotation(1.0)).sample(2)


REFUSED = {
    "a reflection": (np.diag([1.0, 1.0, -1.0]).reshape(1, 9), "det A = 1"),
    "numbers": (np.ones((2, 9)), "2 row.* row 0"),
    "a stretched matrix": (1.1 * turns(2), "A Aᵀ = I"),
    "eight columns": (np.ones((2, 8)), "8 columns"),
    "one column": (np.ones(4), "1 column"),
    "not a number": (np.full((1, 9), np.nan), "NaN"),
}


@pytest.mark.parametrize("k", [km.Rotation(1.0), km.Rotation(), TRACE], ids=repr)
class TestWhatIsNoRotation:
    @pytest.mark.parametrize("bad", REFUSED)
    def test_is_refused_at_every_door(self, k, bad):
        X, message = REFUSED[bad]
        fixed = k.resolve(turns(9))
        doors = {
            "X": [fixed, fixed.diag, k.resolve],
            "Y": [lambda Z: fixed(turns(3), Z), km.MeanEmbedding(turns(3), kernel=fixed)],
            "points": [lambda Z: km.MeanEmbedding(Z, kernel=k)],
        }
        for name, uses in doors.items():
            for use in uses:
                with pytest.raises(ValueError, match=rf"(?s){name}\b.*{message}"):
                    use(X)

    def test_is_refused_where_estimators_are_fitted(self, k):
        x = np.arange(6.0)[:, None]
        with pytest.raises(ValueError, match="y has 6 row.* no rotation"):
            km.ConditionalEmbedding("linear", k).fit(x, np.ones((6, 9)))
        c = km.ConditionalEmbedding(k, "linear", reg=0.1).fit(turns(6), x)
        with pytest.raises(ValueError, match="X has 1 row.* no rotation"):
            c.predict(np.ones((1, 9)))

    def test_rounded_matrices_pass(self, k):
        A = turns(20)
        assert_allclose(k.resolve(A)(A.round(3), A), k.resolve(A)(A), atol=0.02)


class TestNearestRotation:
    def test_of_a_rotation_is_itself(self):
        assert_allclose(nearest_rotations(turns(50)), turns(50), atol=1e-12)

    def test_maximises_the_trace(self, rng):
        M, R = rng.normal(size=(20, 9)), turns(100_000)
        got = nearest_rotations(M)
        assert_allclose(np.linalg.det(got.reshape(-1, 3, 3)), 1.0)
        assert ((got * M).sum(1) >= (M @ R.T).max(1)).all()
        # the best of 100,000 is a few degrees away
        assert_allclose((got * M).sum(1), (M @ R.T).max(1), rtol=0.01)

    def test_of_nothing_is_some_rotation(self):
        assert np.linalg.det(nearest_rotations(np.zeros((1, 9))).reshape(3, 3)) == pytest.approx(1)


class TestModeOfRotations:
    def test_of_the_trace_kernel_is_scipys_mean(self, rng):
        R, w = turns(30), rng.dirichlet(np.ones(30))
        expected = flat(Turn.from_matrix(R.reshape(-1, 3, 3)).mean(w))[0]
        assert_allclose(km.MeanEmbedding(R, w, TRACE).mode(), expected, atol=1e-10)

    @pytest.mark.parametrize("total", [1.0, -2.0, 0.0])
    def test_of_the_trace_kernel_with_signed_weights(self, rng, total):
        """argmax_R tr(R M') for the sum M itself, whatever the sign of the weights' sum."""
        R, w = turns(30), rng.normal(size=30)
        m = km.MeanEmbedding(R, w + (total - w.sum()) / 30, TRACE)
        assert_allclose(m.mode(), nearest_rotations(m.weights[None] @ R)[0], atol=1e-10)

    @pytest.mark.slow
    @pytest.mark.parametrize("signed", [False, True])
    def test_of_the_gaussian_kernel_is_the_best_there_is(self, rng, signed):
        for seed in range(4):
            w = rng.normal(size=8) if signed else rng.uniform(size=8)
            m = km.MeanEmbedding(turns(8, seed), w / w.sum(), km.Rotation(1.0))
            x = m.mode()
            assert_allclose(x.reshape(3, 3) @ x.reshape(3, 3).T, np.eye(3), atol=1e-12)

            def loss(v: np.ndarray, m=m) -> float:
                return distance(m, flat(Turn.from_rotvec(v[None])))[0]

            starts = Turn.from_matrix(m.points.reshape(-1, 3, 3)).as_rotvec()
            best = min(optimize.minimize(loss, v).fun for v in starts)
            assert distance(m, x[None])[0] <= best + 1e-9

    def test_of_a_cluster_is_its_centre(self, rng):
        centre = Turn.from_rotvec([0.5, -1.0, 2.0])
        cloud = centre * Turn.from_rotvec(0.3 * rng.normal(size=(2000, 3)))
        for k in (km.Rotation(), TRACE):
            x = km.MeanEmbedding(flat(cloud), kernel=k).mode()
            # 0.3/sqrt(2000) = 0.007 on each axis
            assert angle_between(x, flat(centre)) < 0.04

    def test_cleans_rounded_matrices(self):
        x = km.MeanEmbedding(turns(1).round(2), kernel=km.Rotation(1.0)).mode().reshape(3, 3)
        assert_allclose(x @ x.T, np.eye(3), atol=1e-12)

    def test_rotations_of_the_plane_are_angles(self, rng):
        """‖A − B‖_F is √2 times the chord of the circle."""
        a, w = rng.uniform(0, TAU, size=12), rng.normal(size=12)
        R = np.column_stack([np.cos(a), -np.sin(a), np.sin(a), np.cos(a)])
        x = km.MeanEmbedding(R, w, km.Rotation(0.9 * math.sqrt(2))).mode()
        angle = km.MeanEmbedding(a, w, km.Periodic(0.9)).mode()
        assert gap(np.arctan2(x[2], x[0]), angle) < 1e-6

    def test_a_posterior_is_a_batch_of_rotations(self, rng):
        R = turns(200)
        X = R + 0.1 * rng.normal(size=R.shape)
        for k in ("rotation", TRACE):
            m = km.KernelBayes(kernel_z=k).fit(X, R).posterior(X[:40])
            x = m.mode()
            assert_allclose(np.linalg.det(x.reshape(-1, 3, 3)), 1.0)
            # noise of 0.1 in 9 numbers for 3 angles: a few degrees; on 200 rows, more
            assert np.median(angle_between(x, R[:40])) < np.radians(20)


# --------------------------------------------------------------------------------- other libraries
@pytest.mark.slow
@pytest.mark.parametrize(
    "k",
    [
        km.Periodic((0.8, 2.0), period=(1.0, TAU)),
        km.on_columns({1: km.Gaussian(0.8), 0: km.Periodic(0.9)}),
        km.Rotation(0.8),
        TRACE,
    ],
    ids=repr,
)
def test_other_array_libraries(k, rng):
    strict = pytest.importorskip("array_api_strict")
    X = turns(5) if isinstance(k, km.Rotation | km.Frobenius) else rng.normal(size=(5, 2))
    w = rng.normal(size=(2, 5))  # fewer points than a mode is sought from
    theirs, ours = strict.asarray(X), km.MeanEmbedding(X, w, k)
    m = km.MeanEmbedding(theirs, strict.asarray(w), k)
    pairs = [(verb(m), verb(ours)) for verb in (km.MeanEmbedding.mode, lambda m: m(m.points))]
    pairs.append((m[0].mode(), ours[0].mode()))
    if isinstance(k, km.Periodic):
        pairs += [(verb(theirs, theirs), verb(X, X)) for verb in (k.density, k.self_convolution)]
    for got, expected in pairs:
        assert isinstance(got, type(theirs))
        assert_allclose(np.from_dlpack(got), expected, atol=1e-8)
