"""The Gaussian triangle: Figures 2.2 to 2.4."""

from __future__ import annotations

import numpy as np

from .errors import draw, errors, grid
from .methods import TRIANGLE_METHODS

XS = (-1.0, -0.3, 0.3, 1.0)
ROWS = 1500
SIDE = 40  # of the pictures of two columns
SHOWN = ("default", "thesis, λ = 0.1")  # methods in Figure 2.2


def given_xz(seed: int, n: int = ROWS) -> list[dict]:
    """Both errors of p(y | x, z = 0) at the four x."""
    data = draw(seed, "triangle", n, given=("x", "z"))
    at = np.array([[x, 0.0] for x in XS])
    Y = grid(data.Y)
    truth = data.density(Y, at, paired=False)
    found = []
    for method, fit in TRIANGLE_METHODS.items():
        both = errors(fit(data.X, data.Y).pdf(Y, at, paired=False), truth)
        found += [
            {"method": method, "x": x, "mad": mad, "mse": mse}
            for x, mad, mse in zip(XS, both["mad"], both["mse"], strict=True)
        ]
    return found


def given_x(seed: int, n: int = ROWS, side: int = SIDE) -> list[dict]:
    """The densities of (y, z) at the four x, true and estimated, on a square of points."""
    data = draw(seed, "triangle", n)
    at, Y = np.array(XS)[:, None], grid(data.Y, side=side)
    tables = {"truth": data.density(Y, at, paired=False)} | {
        method: TRIANGLE_METHODS[method](data.X, data.Y).pdf(Y, at, paired=False)
        for method in SHOWN
    }
    return [
        {"x": x, "y": y, "z": z, **{name: table[i, j] for name, table in tables.items()}}
        for i, x in enumerate(XS)
        for j, (y, z) in enumerate(Y.round(6).tolist())
    ]
