"""The law of y given x as a regression in coordinates, chosen by closed-form leave-one-out."""

from .conditional import ConditionalEmbedding

__all__ = ["ConditionalEmbedding"]
