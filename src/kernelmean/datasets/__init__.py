"""Simulators that return the truth with the data, and loaders for real data."""

from .densities import DensityData, make_conditional_density, make_triangle
from .epidemic import Outbreak, load_influenza, simulate_sir
from .hidden import HiddenMarkov, HMMData, load_mnist, make_digit_hmm, make_hmm
from .instruments import IVData, make_iv_demand, make_iv_linear, make_iv_sigmoid
from .statespace import ScalarStateSpace, StateSpaceData, make_state_space
from .tables import (
    IVTable,
    OutcomeTable,
    load_engel,
    load_fulton_fish,
    load_savings,
    load_schooling,
    load_wages,
)
from .trajectories import DYNAMICS, StateSpace, Trajectory, make_hidden_angle, make_rotation

__all__ = [
    "DYNAMICS",
    "DensityData",
    "HMMData",
    "HiddenMarkov",
    "IVData",
    "IVTable",
    "Outbreak",
    "OutcomeTable",
    "ScalarStateSpace",
    "StateSpace",
    "StateSpaceData",
    "Trajectory",
    "load_engel",
    "load_fulton_fish",
    "load_influenza",
    "load_mnist",
    "load_savings",
    "load_schooling",
    "load_wages",
    "make_conditional_density",
    "make_digit_hmm",
    "make_hidden_angle",
    "make_hmm",
    "make_iv_demand",
    "make_iv_linear",
    "make_iv_sigmoid",
    "make_rotation",
    "make_state_space",
    "make_triangle",
    "simulate_sir",
]
