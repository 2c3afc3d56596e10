"""State-space models learned from observations alone."""

from .kernel_state_space import KernelStateSpace
from .options import Backbone, KernelRule, Normal, Particles, Sampled, Uniform

__all__ = ["Backbone", "KernelRule", "KernelStateSpace", "Normal"]
__all__ += ["Particles", "Sampled", "Uniform"]
