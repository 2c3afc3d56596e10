"""Kernel Bayes' rule: priors and examples to posteriors."""

from .density_ratio import DensityRatio
from .kernel_bayes import KernelBayes, bayes_rule
from .rules import product_rule, sum_rule
from .simulate import simulate_posterior

__all__ = [
    "DensityRatio",
    "KernelBayes",
    "bayes_rule",
    "product_rule",
    "simulate_posterior",
    "sum_rule",
]
