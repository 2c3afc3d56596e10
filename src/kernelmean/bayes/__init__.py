"""Kernel Bayes' rule: priors and examples to posteriors."""

from .calibration import Calibration, simulation_based_calibration
from .density_ratio import DensityRatio
from .kernel_bayes import KernelBayes, bayes_rule
from .rules import product_rule, sum_rule
from .simulate import simulate_posterior

__all__ = [
    "Calibration",
    "DensityRatio",
    "KernelBayes",
    "bayes_rule",
    "product_rule",
    "simulate_posterior",
    "simulation_based_calibration",
    "sum_rule",
]
