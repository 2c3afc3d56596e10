"""Simulators that return the truth with the data, and loaders for real data."""

from .densities import *
from .epidemic import *
from .hidden import *
from .instruments import *
from .statespace import *
from .tables import *
from .trajectories import *
