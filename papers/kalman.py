"""The linear Kalman filter whose relations are all learned by least squares."""

from __future__ import annotations

import numpy as np
from sklearn.covariance import LedoitWolf


def linear_kalman(X, Z, tests) -> np.ndarray:
    """Filtered states (m, d_z) for the observations `tests`, learned from one sequence (X, Z).

    z_{t+1} = A z_t + noise and x_t = C z_t + noise after centring, by ordinary least squares; the
    covariances are those of the residuals, shrunk (Ledoit and Wolf) for the many columns of x.

    With noise covariance H, (CᵀH⁻¹C)⁻¹CᵀH⁻¹x_t tells of z_t all that x_t does, with covariance
    (CᵀH⁻¹C)⁻¹ (Jungbacker and Koopman, 2008): the filter then runs in d_z dimensions.
    """
    from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

    middle = Z.mean(axis=0)
    X, Z, tests = X - X.mean(axis=0), Z - middle, tests - X.mean(axis=0)
    step, C = least_squares(Z[:-1], Z[1:]), least_squares(Z, X)
    H = LedoitWolf(assume_centered=True, store_precision=False).fit(X - Z @ C.T).covariance_
    gain = np.linalg.solve(H, C)
    precision = C.T @ gain
    states = Z.shape[1]
    model = KalmanFilter(
        k_endog=states,
        k_states=states,
        design=np.eye(states),
        obs_cov=np.linalg.inv(precision),
        transition=step,
        selection=np.eye(states),
        state_cov=np.cov((Z[1:] - Z[:-1] @ step.T).T),
    )
    model.bind(np.linalg.solve(precision, gain.T @ tests.T).T.copy())
    model.initialize_known(np.zeros(states), np.cov(Z.T))
    return model.filter().filtered_state.T + middle


def least_squares(inputs, outputs) -> np.ndarray:
    """B with outputs ≈ inputs Bᵀ."""
    return np.linalg.lstsq(inputs, outputs, rcond=None)[0].T
