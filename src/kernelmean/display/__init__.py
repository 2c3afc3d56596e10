"""Displays, in scikit-learn's manner: build with `from_estimator`, draw with `plot(ax)`.

Needs matplotlib, which the extra `app` brings. Each is imported on first use, with its estimator.
"""

from importlib import import_module
from typing import Any

FILES = {
    "calibration": ["CalibrationDisplay"],
    "densities": ["ConditionalDensityDisplay", "DensityContourDisplay", "DensityMapDisplay"],
    "embeddings": ["EmbeddingDisplay", "LeaveOneOutDisplay"],
    "regimes": [
        *("EmissionDisplay", "EmissionImageDisplay", "HistoryDisplay", "RegimeDisplay"),
        "SpectrumDisplay",
    ],
    "states": ["ForecastDisplay", "ObservationDisplay", "TraceDisplay", "TransitionDisplay"],
    "structural": ["StructuralCurveDisplay"],
    "style": ["CURVE", "DATA", "DRAWN", "GAP", "PLAIN", "TRUTH"],
    "tracks": ["SpreadDisplay", "TrackDisplay"],
}
FILE_OF = {name: file for file, names in FILES.items() for name in names}
__all__ = sorted(FILE_OF)


def __getattr__(name: str) -> Any:
    if name not in FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{FILE_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *FILE_OF})
