"""Densities tuned by their closed-form score: of y given x, and of a sample."""

from .conditional_density import ConditionalDensity
from .embedded_density import EmbeddedDensity

__all__ = ["ConditionalDensity", "EmbeddedDensity"]
