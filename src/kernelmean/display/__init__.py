"""Displays, in scikit-learn's manner: build with `from_estimator`, draw with `plot(ax)`.

Needs matplotlib, which the extra `app` brings.
"""

from .calibration import CalibrationDisplay
from .densities import ConditionalDensityDisplay, DensityContourDisplay, DensityMapDisplay
from .embeddings import EmbeddingDisplay, LeaveOneOutDisplay
from .regimes import (
    EmissionDisplay,
    EmissionImageDisplay,
    HistoryDisplay,
    RegimeDisplay,
    SpectrumDisplay,
)
from .states import ForecastDisplay, ObservationDisplay, TraceDisplay, TransitionDisplay
from .structural import StructuralCurveDisplay
from .style import CURVE, DATA, DRAWN, GAP, PLAIN, TRUTH
from .tracks import SpreadDisplay, TrackDisplay

__all__ = [
    "CURVE",
    "DATA",
    "DRAWN",
    "GAP",
    "PLAIN",
    "TRUTH",
    "CalibrationDisplay",
    "ConditionalDensityDisplay",
    "DensityContourDisplay",
    "DensityMapDisplay",
    "EmbeddingDisplay",
    "EmissionDisplay",
    "EmissionImageDisplay",
    "ForecastDisplay",
    "HistoryDisplay",
    "LeaveOneOutDisplay",
    "ObservationDisplay",
    "RegimeDisplay",
    "SpectrumDisplay",
    "SpreadDisplay",
    "StructuralCurveDisplay",
    "TraceDisplay",
    "TrackDisplay",
    "TransitionDisplay",
]
