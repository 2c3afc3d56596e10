"""Compute with probability distributions through kernel mean embeddings.

Kernels
    Gaussian, Gaussian4, Laplace, Matern, Periodic, Rotation, Linear, Delta, Frobenius, Precomputed,
    on_columns, as_kernel, median_lengthscale
Feature maps
    Nystroem, Exact, RandomFourier, Neural (needs PyTorch)
Embeddings and rules
    MeanEmbedding, ConditionalEmbedding, DensityRatio, sum_rule, product_rule, bayes_rule
Estimators
    KernelIV, KernelBayes, KernelBayesFilter, simulate_posterior, ConditionalDensity,
    EmbeddedDensity, KernelHMM, estimate_order, KernelStateSpace
And
    load, NumericalWarning, datasets, display, econml, moments, progress
"""

from importlib.util import find_spec
from typing import Any

from . import comparators, datasets, display, econml, moments, progress
from ._validation import NumericalWarning
from .bayes import KernelBayes, bayes_rule
from .conditional import ConditionalEmbedding
from .density import ConditionalDensity
from .embedded import EmbeddedDensity
from .embedding import MeanEmbedding
from .features import Exact, FeatureMap, Nystroem, RandomFourier
from .filtering import KernelBayesFilter
from .hmm import KernelHMM
from .instrument import KernelIV
from .kernels import (
    Delta,
    Frobenius,
    Gaussian,
    Gaussian4,
    Kernel,
    Laplace,
    Linear,
    Matern,
    Periodic,
    Precomputed,
    Rotation,
    as_kernel,
    median_lengthscale,
    on_columns,
)
from .order import estimate_order
from .persistence import load
from .ratio import DensityRatio
from .rules import product_rule, sum_rule
from .simulate import simulate_posterior
from .statespace import KernelStateSpace

__version__ = "0.1.0"

__all__ = [
    "ConditionalDensity",
    "ConditionalEmbedding",
    "Delta",
    "DensityRatio",
    "EmbeddedDensity",
    "Exact",
    "FeatureMap",
    "Frobenius",
    "Gaussian",
    "Gaussian4",
    "Kernel",
    "KernelBayes",
    "KernelBayesFilter",
    "KernelHMM",
    "KernelIV",
    "KernelStateSpace",
    "Laplace",
    "Linear",
    "Matern",
    "MeanEmbedding",
    "NumericalWarning",
    "Nystroem",
    "Periodic",
    "Precomputed",
    "RandomFourier",
    "Rotation",
    "as_kernel",
    "bayes_rule",
    "comparators",
    "datasets",
    "display",
    "econml",
    "estimate_order",
    "load",
    "median_lengthscale",
    "moments",
    "on_columns",
    "product_rule",
    "progress",
    "simulate_posterior",
    "sum_rule",
]


def __getattr__(name: str) -> Any:
    """`Neural` on first use: PyTorch is optional, and takes seconds to import."""
    if name == "Neural":
        if find_spec("torch") is None:
            raise ImportError(
                'Neural needs PyTorch: pip install torch==2.13.0, then pip install "kernelmean[nn]"'
            )
        from .neural import Neural

        return Neural
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
