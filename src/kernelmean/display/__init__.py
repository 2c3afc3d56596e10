"""Displays, in scikit-learn's manner: build with `from_estimator`, draw with `plot(ax)`.

Needs matplotlib, which the extra `app` brings. Each is imported on first use, with its estimator.
"""

from ..core.lazy import on_first_use

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
__all__ = sorted(name for names in FILES.values() for name in names)
__getattr__, __dir__ = on_first_use(__name__, FILES)
