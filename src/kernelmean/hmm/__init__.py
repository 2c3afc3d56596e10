"""Hidden Markov models without a family of emissions."""

from .estimate_order import estimate_order
from .kernel_hmm import KernelHMM

__all__ = ["KernelHMM", "estimate_order"]
