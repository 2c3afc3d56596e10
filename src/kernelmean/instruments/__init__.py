"""Kernel instrumental variables."""

from .kernel_iv import KernelIV

__all__ = ["KernelIV"]
