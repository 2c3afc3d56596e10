"""Feature maps: points to rows of a few coordinates."""

from .base import FeatureMap
from .fourier import RandomFourier
from .landmarks import Exact, Nystroem

__all__ = ["Exact", "FeatureMap", "Nystroem", "RandomFourier"]
