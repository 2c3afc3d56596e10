"""The ground floor: arrays, solves, sums over rows, checks, files; no estimator is known here."""

from .checks import Array

__all__ = ["Array"]
