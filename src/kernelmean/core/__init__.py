"""The ground floor: arrays, solves, sums over rows, checks, files; no estimator is known here.

Its nouns are at this door, its verbs in their files.
"""

from .checks import Array
from .interval import Interval
from .labels import Labels
from .moments import Moments
from .rows import Rows
from .saving import Saveable
from .summary import Block, Line, Summary

__all__ = ["Array", "Block", "Interval", "Labels", "Line", "Moments", "Rows", "Saveable", "Summary"]
