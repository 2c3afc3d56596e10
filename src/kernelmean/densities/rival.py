"""The simple model that a conditional density is compared with: a line and normal errors."""

import math

import numpy as np

from ..core import Line
from ..core.minimise import CLEAR
from ..regression.leave_one_out import standardised
from ..regression.smoother import with_ones

SMALLEST, TINY = 1e-12, 1e-100  # variance of the errors, in those of Y or of these; and of those


def linear_normal(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """log N(y_i; m⁻ⁱ(x_i), S), (n,): each row from the least-squares line of the other rows.

    S is the second moment of those errors, r_i = e_i/(1 − h_i).
    """
    n = len(Y)
    U, s, _ = np.linalg.svd(with_ones(standardised(X)), full_matrices=False)
    U = U[:, s > 1e-10 * s[0]]
    left = np.clip(1.0 - (U * U).sum(axis=1), 1e-6, None)
    R = (Y - U @ (U.T @ Y)) / left[:, None]
    S = R.T @ R / n
    least = np.maximum(Y.var(axis=0), S.diagonal())  # a line may fit exactly, columns be alike
    S += np.diag(SMALLEST * np.maximum(least, TINY))
    _, size = np.linalg.slogdet(2 * math.pi * S)
    return -0.5 * (size + (R @ np.linalg.pinv(S) * R).sum(axis=1))


def line(found: tuple[float, float]) -> Line:
    """For summaries: the mean difference of log densities of the same rows, and its error."""
    by, error = found
    amount = f"{abs(by):.2g} ± {error:.1g} a row"
    if by > CLEAR * error:
        text = f"better: log densities of rows left out are higher by {amount}"
    elif by < -CLEAR * error:
        text = f"worse: log densities of rows left out are lower by {amount}"
    else:
        text = f"which would do as well: log densities of rows left out differ by {amount}"
    return Line("beside a line with normal errors", by, text)
