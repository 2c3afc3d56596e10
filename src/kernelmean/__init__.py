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

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core import moments, old_names, progress
from .core.checks import NumericalWarning
from .core.interval import Interval
from .core.lazy import on_first_use
from .core.rows import Rows
from .core.saving import Saveable, importers, load
from .core.version import __version__ as __version__
from .embedding.embedding import MeanEmbedding
from .features.base import FeatureMap
from .features.fourier import RandomFourier
from .features.landmarks import Exact, Nystroem
from .kernels import *
from .kernels import __all__ as KERNELS
from .regression.conditional import ConditionalEmbedding

if TYPE_CHECKING:  # on first use otherwise, as LAZY says
    from .bayes.calibration import simulation_based_calibration
    from .bayes.density_ratio import DensityRatio
    from .bayes.kernel_bayes import KernelBayes, bayes_rule
    from .bayes.rules import product_rule, sum_rule
    from .bayes.simulate import simulate_posterior
    from .chains.options import EM
    from .densities.conditional_density import ConditionalDensity
    from .densities.embedded_density import EmbeddedDensity
    from .features.training import Training
    from .filtering.kernel_bayes_filter import KernelBayesFilter
    from .hmm.estimate_order import estimate_order
    from .hmm.kernel_hmm import KernelHMM
    from .instruments.kernel_iv import KernelIV
    from .statespace.kernel_state_space import KernelStateSpace
    from .statespace.options import Backbone, KernelRule, Normal, Particles, Sampled, Uniform

__all__ = [
    "EM",
    "Backbone",
    "ConditionalDensity",
    "ConditionalEmbedding",
    "DensityRatio",
    "EmbeddedDensity",
    "Exact",
    "FeatureMap",
    "Interval",
    "KernelBayes",
    "KernelBayesFilter",
    "KernelHMM",
    "KernelIV",
    "KernelRule",
    "KernelStateSpace",
    "MeanEmbedding",
    "Normal",
    "NumericalWarning",
    "Nystroem",
    "Particles",
    "RandomFourier",
    "Rows",
    "Sampled",
    "Training",
    "Uniform",
    "bayes_rule",
    "comparators",
    "datasets",
    "display",
    "econml",
    "estimate_order",
    "load",
    "metrics",
    "moments",
    "product_rule",
    "progress",
    "simulate_posterior",
    "simulation_based_calibration",
    "sum_rule",
    *KERNELS,
]

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
    "features.neural": ["Neural"],
}
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
old_names.HANDED_DOWN["KernelIV.plot"] = lambda *given, **options: import_module(
    f"{__name__}.display"
).StructuralCurveDisplay.from_estimator(*given, **options)


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
