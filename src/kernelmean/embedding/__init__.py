"""Weighted points as distributions: means, densities, quantiles, samples, modes."""

from .embedding import MeanEmbedding

__all__ = ["MeanEmbedding"]
