"""Filters that are given the law of a `StateSpace`: what the kernel filters are compared with.

EKF and UKF are those of filterpy. The bootstrap particle filter is our own: the package
`particles` does not run on numpy 2, and filterpy has only the resampling step.
"""

from __future__ import annotations

import numpy as np

from kernelmean.datasets import StateSpace


def extended_kalman(model: StateSpace, X: np.ndarray, mean, cov) -> np.ndarray:
    """Filtered means (n, d_z) of the extended Kalman filter; z_1 ~ N(mean, cov) before x_1."""
    from filterpy.kalman import ExtendedKalmanFilter

    class Filter(ExtendedKalmanFilter):
        def predict_x(self, u=0):
            self.F = jacobian(model.transition, self.x)
            self.x = at(model.transition, self.x)

    kalman = started(Filter(*sizes(mean, X)), model, mean, cov)

    def update(x: np.ndarray) -> None:
        kalman.update(x, lambda z: jacobian(model.emission, z), lambda z: at(model.emission, z))

    return track(kalman, update, X)


def unscented_kalman(
    model: StateSpace, X: np.ndarray, mean, cov, spread: float | None = None
) -> np.ndarray:
    """Filtered means (n, d_z) of the unscented Kalman filter.

    Sigma points of Julier and Uhlmann, κ = 3 − d. With `spread` = α, those of Wan and van der
    Merwe, near the mean (β = 2, κ = 0).
    """
    from filterpy.kalman import JulierSigmaPoints, MerweScaledSigmaPoints, UnscentedKalmanFilter

    d = len(mean)
    julier = JulierSigmaPoints(d, kappa=3 - d)
    kalman = UnscentedKalmanFilter(
        *sizes(mean, X),
        dt=1.0,
        fx=lambda z, dt: at(model.transition, z),
        hx=lambda z: at(model.emission, z),
        points=MerweScaledSigmaPoints(d, spread, beta=2, kappa=0) if spread else julier,
    )
    started(kalman, model, mean, cov)
    # filterpy's update takes the sigma points of its last prediction: none has been made before x_1
    kalman.sigmas_f = kalman.points_fn.sigma_points(kalman.x, kalman.P)
    return track(kalman, kalman.update, X)


def sizes(mean, X: np.ndarray) -> tuple[int, int]:
    return len(mean), X.shape[1]


def started(kalman, model: StateSpace, mean, cov):
    """The filter with the law of z_1 and both noises in place."""
    kalman.x, kalman.P = np.array(mean, dtype=float), np.array(cov, dtype=float)
    kalman.Q = model.state_noise**2 * np.eye(len(mean))
    kalman.R = model.noise**2 * np.eye(len(kalman.R))
    return kalman


def track(kalman, update, X: np.ndarray) -> np.ndarray:
    means = np.empty((len(X), len(kalman.x)))
    for t, x in enumerate(X):
        if t:
            kalman.predict()
        update(x)
        means[t] = kalman.x
    return means


def at(function, z: np.ndarray) -> np.ndarray:
    """A function of rows, at one point."""
    return function(z[None])[0]


def jacobian(function, z: np.ndarray, width: float = 1e-5) -> np.ndarray:
    """∂f_i/∂z_j by central differences, whose error of order width² does not matter here."""
    moves = width * np.eye(len(z))
    return ((function(z + moves) - function(z - moves)) / (2 * width)).T


def first_moments(model: StateSpace, draws: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of z_1, for filters that start from a normal law."""
    rng = np.random.default_rng(0)
    Z = model.move(model.first(draws, rng), rng)
    return Z.mean(axis=0), np.atleast_2d(np.cov(Z.T))


# ---------------------------------------------------------------- particles
def particle_filter(
    model: StateSpace, X: np.ndarray, rng: np.random.Generator, count: int = 5000, first=None
) -> tuple[np.ndarray, np.ndarray]:
    """Particles (n, count, d_z) and weights (n, count) of the filtered law at every step.

    The bootstrap filter: move by the model, weight by the likelihood, resample systematically at
    every step. `first` are draws of z_1; None draws them from the model.
    """
    Z = model.move(model.first(count, rng), rng) if first is None else first
    particles, weights = np.empty((len(X), *Z.shape)), np.empty((len(X), len(Z)))
    for t, x in enumerate(X):
        if t:
            Z = model.move(Z[resample(weights[t - 1], rng)], rng)
        distances = np.sum((x - model.emission(Z)) ** 2, axis=1)
        # the nearest particle gets 1, so that an outlying x does not make all weights zero
        likelihood = np.exp((distances.min() - distances) / (2 * model.noise**2))
        particles[t], weights[t] = Z, likelihood / likelihood.sum()
    return particles, weights


def particle_means(
    model: StateSpace, X: np.ndarray, rng: np.random.Generator, count: int = 5000
) -> np.ndarray:
    """Filtered means (n, d_z) of the particle filter."""
    particles, weights = particle_filter(model, X, rng, count)
    return np.einsum("tp,tpd->td", weights, particles)


def resample(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Systematic resampling: rows at evenly spaced quantiles of the weights, one random shift."""
    quantiles = (rng.uniform() + np.arange(len(weights))) / len(weights)
    return np.searchsorted(np.cumsum(weights), quantiles).clip(max=len(weights) - 1)
