"""Series that forecasts are compared on: of statsmodels, two classics, and three drawn ones."""

from __future__ import annotations

import numpy as np

# Airline passengers by month, 1949 to 1960, in thousands (Box, Jenkins 1976, series G)
# fmt: off
AIRLINE = [
    112, 118, 132, 129, 121, 135, 148, 148, 136, 119, 104, 118, 115, 126, 141, 135, 125, 149,
    170, 170, 158, 133, 114, 140, 145, 150, 178, 163, 172, 178, 199, 199, 184, 162, 146, 166,
    171, 180, 193, 181, 183, 218, 230, 242, 209, 191, 172, 194, 196, 196, 236, 235, 229, 243,
    264, 272, 237, 211, 180, 201, 204, 188, 235, 227, 234, 264, 302, 293, 259, 229, 203, 229,
    242, 233, 267, 269, 270, 315, 364, 347, 312, 274, 237, 278, 284, 277, 317, 313, 318, 374,
    413, 405, 355, 306, 271, 306, 315, 301, 356, 348, 355, 422, 465, 467, 404, 347, 305, 336,
    340, 318, 362, 348, 363, 435, 491, 505, 404, 359, 310, 337, 360, 342, 406, 396, 420, 472,
    548, 559, 463, 407, 362, 405, 417, 391, 419, 461, 472, 535, 622, 606, 508, 461, 390, 432,
]
# fmt: on

# Lynx trapped by year, 1821 to 1934 (Elton, Nicholson 1942)
# fmt: off
LYNX = [
    269, 321, 585, 871, 1475, 2821, 3928, 5943, 4950, 2577, 523, 98, 184, 279, 409, 2285,
    2685, 3409, 1824, 409, 151, 45, 68, 213, 546, 1033, 2129, 2536, 957, 361, 377, 225, 360,
    731, 1638, 2725, 2871, 2119, 684, 299, 236, 245, 552, 1623, 3311, 6721, 4254, 687, 255,
    473, 358, 784, 1594, 1676, 2251, 1426, 756, 299, 201, 229, 469, 736, 2042, 2811, 4431,
    2511, 389, 73, 39, 49, 59, 188, 377, 1292, 4031, 3495, 587, 105, 153, 387, 758, 1307,
    3465, 6991, 6313, 3794, 1836, 345, 382, 808, 1388, 2713, 3800, 3091, 2985, 3790, 374, 81,
    80, 108, 229, 399, 1132, 2432, 3574, 2935, 1537, 529, 485, 662, 1000, 1590, 2657, 3396,
]
# fmt: on


def known() -> dict[str, tuple[np.ndarray, int]]:
    """Series by name, each with the rows of its season."""
    import statsmodels.api as sm

    macro = sm.datasets.macrodata.load_pandas().data
    co2 = sm.datasets.co2.load_pandas().data["co2"].resample("MS").mean().interpolate()
    return {
        "sunspots": (sm.datasets.sunspots.load_pandas().data["SUNACTIVITY"].to_numpy(), 0),
        "unemployment": (macro["unemp"].to_numpy(), 0),
        "inflation": (macro["infl"].to_numpy(), 0),
        "Nile": (sm.datasets.nile.load_pandas().data["volume"].to_numpy(), 0),
        "T-bill changes": (np.diff(macro["tbilrate"].to_numpy()), 0),
        "lynx": (np.array(LYNX, float), 0),
        "airline": (np.array(AIRLINE, float), 12),
        "log airline": (np.log(AIRLINE), 12),
        "CO2": (co2.to_numpy()[-300:], 12),
    }


def others() -> dict[str, tuple[np.ndarray, int]]:
    """Series that no choice was made on."""
    import statsmodels.api as sm

    macro = sm.datasets.macrodata.load_pandas().data
    warm = sm.datasets.elnino.load_pandas().data.iloc[:, 1:].to_numpy().ravel()
    return {
        "El Niño": (warm[-300:], 12),
        "GDP growth": (100 * np.diff(np.log(macro["realgdp"].to_numpy())), 0),
        "consumer prices": (macro["cpi"].to_numpy(), 0),
        "real interest": (macro["realint"].to_numpy(), 0),
        "money": (macro["m1"].to_numpy(), 0),
        "investment": (macro["realinv"].to_numpy(), 0),
    }


def drawn(seed: int, n: int = 400) -> dict[str, tuple[np.ndarray, int]]:
    """A level that wanders, a drift, an autoregression."""
    rng = np.random.default_rng(seed)
    e, x = rng.standard_normal(n + 50), np.zeros(n + 50)
    for t in range(2, n + 50):
        x[t] = 1.5 * x[t - 1] - 0.75 * x[t - 2] + e[t]
    return {
        f"local level {seed}": (
            0.5 * np.cumsum(rng.standard_normal(n)) + rng.standard_normal(n),
            0,
        ),
        f"drift {seed}": (0.01 * np.arange(n) + 0.3 * rng.standard_normal(n), 0),
        f"AR(2) {seed}": (x[50:], 0),
    }
