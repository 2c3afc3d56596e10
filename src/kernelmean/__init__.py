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
Options
    EM, Normal, Uniform, Sampled, Particles, KernelRule
And
    load, NumericalWarning, datasets, display, econml, metrics, moments, progress
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .bayes.density_ratio import DensityRatio
from .bayes.kernel_bayes import KernelBayes, bayes_rule
from .bayes.rules import product_rule, sum_rule
from .bayes.simulate import simulate_posterior
from .chains.options import EM
from .core import moments, old_names, progress
from .core.checks import NumericalWarning
from .core.saving import load
from .densities.conditional_density import ConditionalDensity
from .densities.embedded_density import EmbeddedDensity
from .embedding.embedding import MeanEmbedding
from .features.base import FeatureMap
from .features.fourier import RandomFourier
from .features.landmarks import Exact, Nystroem
from .filtering.kernel_bayes_filter import KernelBayesFilter
from .hmm.estimate_order import estimate_order
from .hmm.kernel_hmm import KernelHMM
from .instruments.kernel_iv import KernelIV
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
from .regression.conditional import ConditionalEmbedding
from .statespace.kernel_state_space import KernelStateSpace
from .statespace.options import KernelRule, Normal, Particles, Sampled, Uniform

__version__ = "0.1.0"

__all__ = [
    "EM",
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
    "KernelRule",
    "KernelStateSpace",
    "Laplace",
    "Linear",
    "Matern",
    "MeanEmbedding",
    "Normal",
    "NumericalWarning",
    "Nystroem",
    "Particles",
    "Periodic",
    "Precomputed",
    "RandomFourier",
    "Rotation",
    "Sampled",
    "Uniform",
    "as_kernel",
    "bayes_rule",
    "comparators",
    "datasets",
    "display",
    "econml",
    "estimate_order",
    "load",
    "median_lengthscale",
    "metrics",
    "moments",
    "on_columns",
    "product_rule",
    "progress",
    "simulate_posterior",
    "sum_rule",
]


LAZY = {
    "comparators": "comparators",
    "datasets": "datasets",
    "display": "display",
    "econml": "adapters.econml",
    "metrics": "metrics",
    "Neural": "features.neural",
}
old_names.install()
old_names.HANDED_DOWN["KernelIV.plot"] = lambda *given, **options: import_module(
    f"{__name__}.display"
).StructuralCurveDisplay.from_estimator(*given, **options)


def __getattr__(name: str) -> Any:
    """What takes long to import, or needs an optional package, on first use."""
    if name in old_names.MOVED and name not in LAZY:
        return old_names.moved(name)
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Neural" and find_spec("torch") is None:
        raise ImportError('Neural needs PyTorch: pip install "kernelmean[nn]"')
    module = import_module(f"{__name__}.{LAZY[name]}")
    return getattr(module, name) if name[0].isupper() else module


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
