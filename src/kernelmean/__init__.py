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
    from .bayes.calibration import simulation_based_calibration as simulation_based_calibration
    from .bayes.density_ratio import DensityRatio as DensityRatio
    from .bayes.kernel_bayes import KernelBayes as KernelBayes
    from .bayes.kernel_bayes import bayes_rule as bayes_rule
    from .bayes.rules import product_rule as product_rule
    from .bayes.rules import sum_rule as sum_rule
    from .bayes.simulate import simulate_posterior as simulate_posterior
    from .chains.options import EM as EM
    from .densities.conditional_density import ConditionalDensity as ConditionalDensity
    from .densities.embedded_density import EmbeddedDensity as EmbeddedDensity
    from .features.training import Training as Training
    from .filtering.kernel_bayes_filter import KernelBayesFilter as KernelBayesFilter
    from .hmm.estimate_order import estimate_order as estimate_order
    from .hmm.kernel_hmm import KernelHMM as KernelHMM
    from .instruments.kernel_iv import KernelIV as KernelIV
    from .statespace.kernel_state_space import KernelStateSpace as KernelStateSpace
    from .statespace.options import Backbone as Backbone
    from .statespace.options import KernelRule as KernelRule
    from .statespace.options import Normal as Normal
    from .statespace.options import Particles as Particles
    from .statespace.options import Sampled as Sampled
    from .statespace.options import Uniform as Uniform

LAZY = {
    "adapters.econml": ["econml"],
    "bayes.calibration": ["simulation_based_calibration"],
    "bayes.density_ratio": ["DensityRatio"],
    "bayes.kernel_bayes": ["KernelBayes", "bayes_rule"],
    "bayes.rules": ["product_rule", "sum_rule"],
    "bayes.simulate": ["simulate_posterior"],
    "chains.options": ["EM"],
    "densities.conditional_density": ["ConditionalDensity"],
    "densities.embedded_density": ["EmbeddedDensity"],
    "features.training": ["Training"],
    "filtering.kernel_bayes_filter": ["KernelBayesFilter"],
    "hmm.estimate_order": ["estimate_order"],
    "hmm.kernel_hmm": ["KernelHMM"],
    "instruments.kernel_iv": ["KernelIV"],
    "statespace.kernel_state_space": ["KernelStateSpace"],
    "statespace.options": ["Backbone", "KernelRule", "Normal", "Particles", "Sampled", "Uniform"],
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
LAZY |= {name: [name] for name in PACKAGES}
_get, __dir__ = on_first_use(__name__, LAZY)
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
