"""Compute with probability distributions through kernel mean embeddings.

Kernels
    Gaussian, Laplace, Matern, Periodic, Linear, Delta, Precomputed, on_columns, as_kernel, ...
Feature maps
    Nystroem, Exact, RandomFourier, Neural (needs PyTorch)
Embeddings and rules
    MeanEmbedding, ConditionalEmbedding, DensityRatio, sum_rule, product_rule, bayes_rule
Estimators
    KernelIV, KernelBayes, KernelBayesFilter, simulate_posterior, ConditionalDensity,
    EmbeddedDensity, KernelHMM, estimate_order, KernelStateSpace
Options
    EM, Backbone, Normal, Uniform, Sampled, Particles, KernelRule, Training
And
    load, Rows, Interval, NumericalWarning, datasets, display, econml, metrics, moments, progress
"""

import itertools
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core import moments as moments
from .core import old_names
from .core import progress as progress
from .core.checks import NumericalWarning as NumericalWarning
from .core.interval import Interval as Interval
from .core.lazy import on_first_use
from .core.rows import Rows as Rows
from .core.saving import Saveable, importers
from .core.saving import load as load
from .core.version import __version__ as __version__
from .embedding.embedding import MeanEmbedding as MeanEmbedding
from .features.base import FeatureMap as FeatureMap
from .features.fourier import RandomFourier as RandomFourier
from .features.landmarks import Exact as Exact
from .features.landmarks import Nystroem as Nystroem
from .kernels import *
from .kernels import __all__ as KERNELS
from .regression.conditional import ConditionalEmbedding as ConditionalEmbedding

if TYPE_CHECKING:  # on first use otherwise, as LAZY says
    from .bayes import *
    from .chains.options import EM as EM
    from .densities import *
    from .features.training import Training as Training
    from .filtering import *
    from .hmm import *
    from .instruments import *
    from .statespace import *

LAZY = {
    "adapters.econml": ["econml"],
    "bayes": [
        *("DensityRatio", "KernelBayes", "bayes_rule", "product_rule", "simulate_posterior"),
        *("simulation_based_calibration", "sum_rule"),
    ],
    "chains.options": ["EM"],
    "densities": ["ConditionalDensity", "EmbeddedDensity"],
    "features.training": ["Training"],
    "filtering": ["KernelBayesFilter"],
    "hmm": ["KernelHMM", "estimate_order"],
    "instruments": ["KernelIV"],
    "statespace": [
        *("Backbone", "KernelRule", "KernelStateSpace", "Normal"),
        *("Particles", "Sampled", "Uniform"),
    ],
}
__all__ = [  # not Neural, which needs PyTorch
    *("ConditionalEmbedding", "Exact", "FeatureMap", "Interval", "MeanEmbedding"),
    *("NumericalWarning", "Nystroem", "RandomFourier", "Rows", "load", "moments", "progress"),
    *("comparators", "datasets", "display", "metrics"),
    *itertools.chain(KERNELS, *LAZY.values()),
]
LAZY["features.neural"] = ["Neural"]
PACKAGES = (
    *("adapters", "app", "bayes", "chains", "comparators", "datasets", "densities", "display"),
    *("filtering", "hmm", "instruments", "metrics", "statespace"),
)
_get, __dir__ = on_first_use(__name__, LAZY, PACKAGES)
SAVING = (  # modules by which every class that is saved is known, but for those of LAZY
    *("bayes", "densities", "features.training", "instruments.kernel_iv", "chains.model"),
    *("hmm", "filtering", "statespace", "adapters.econml", "comparators"),
)
old_names.install()


def __getattr__(name: str) -> Any:
    """What takes long to import, or needs an optional package, on first use."""
    if name in old_names.MOVED and name != "econml":
        return old_names.moved(name)
    return _get(name)


def _import_saved(name: str) -> None:
    """Import the module of a class that a file names."""
    modules = ("features.neural",) if name in ("Neural", "FeatureKernel") else SAVING
    for module in modules:
        if name not in Saveable.classes:
            import_module(f"{__name__}.{module}")


importers.append(_import_saved)
