"""State-space models learned from observations alone."""

from .kernel_state_space import KernelStateSpace

__all__ = ["KernelStateSpace"]
