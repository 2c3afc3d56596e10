"""Filters learned from example trajectories."""

from .kernel_bayes_filter import KernelBayesFilter

__all__ = ["KernelBayesFilter"]
