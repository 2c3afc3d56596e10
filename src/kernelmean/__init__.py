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
from itertools import chain
from typing import TYPE_CHECKING, Any

from .core import old_names
from .core.lazy import importers, on_first_use
from .core.version import __version__ as __version__

if TYPE_CHECKING:  # on first use otherwise, as LAZY says: the command line imports no NumPy early
    from .bayes.calibration import simulation_based_calibration as simulation_based_calibration
    from .bayes.density_ratio import DensityRatio as DensityRatio
    from .bayes.kernel_bayes import KernelBayes as KernelBayes
    from .bayes.kernel_bayes import bayes_rule as bayes_rule
    from .bayes.rules import product_rule as product_rule
    from .bayes.rules import sum_rule as sum_rule
    from .bayes.simulate import simulate_posterior as simulate_posterior
    from .chains.options import EM as EM
    from .core import moments as moments
    from .core import progress as progress
    from .core.checks import NumericalWarning as NumericalWarning
    from .core.interval import Interval as Interval
    from .core.rows import Rows as Rows
    from .core.saving import load as load
    from .densities.conditional_density import ConditionalDensity as ConditionalDensity
    from .densities.embedded_density import EmbeddedDensity as EmbeddedDensity
    from .embedding.embedding import MeanEmbedding as MeanEmbedding
    from .features.base import FeatureMap as FeatureMap
    from .features.fourier import RandomFourier as RandomFourier
    from .features.landmarks import Exact as Exact
    from .features.landmarks import Nystroem as Nystroem
    from .features.training import Training as Training
    from .filtering.kernel_bayes_filter import KernelBayesFilter as KernelBayesFilter
    from .hmm.estimate_order import estimate_order as estimate_order
    from .hmm.kernel_hmm import KernelHMM as KernelHMM
    from .instruments.kernel_iv import KernelIV as KernelIV
    from .kernels import *
    from .regression.conditional import ConditionalEmbedding as ConditionalEmbedding
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
    "core.checks": ["NumericalWarning"],
    "core.interval": ["Interval"],
    "core.moments": ["moments"],
    "core.progress": ["progress"],
    "core.rows": ["Rows"],
    "core.saving": ["load"],
    "densities.conditional_density": ["ConditionalDensity"],
    "densities.embedded_density": ["EmbeddedDensity"],
    "embedding.embedding": ["MeanEmbedding"],
    "features.base": ["FeatureMap"],
    "features.fourier": ["RandomFourier"],
    "features.landmarks": ["Exact", "Nystroem"],
    "features.training": ["Training"],
    "filtering.kernel_bayes_filter": ["KernelBayesFilter"],
    "hmm.estimate_order": ["estimate_order"],
    "hmm.kernel_hmm": ["KernelHMM"],
    "instruments.kernel_iv": ["KernelIV"],
    "regression.conditional": ["ConditionalEmbedding"],
    "statespace.kernel_state_space": ["KernelStateSpace"],
    "statespace.options": ["Backbone", "KernelRule", "Normal", "Particles", "Sampled", "Uniform"],
}
PUBLIC = ["comparators", "datasets", "display", "metrics", *chain(*LAZY.values())]
LAZY["features.neural"] = ["Neural"]  # not public: it needs PyTorch
PACKAGES = (
    *("adapters", "app", "bayes", "chains", "comparators", "datasets", "densities", "display"),
    *("embedding", "features", "filtering", "hmm", "instruments", "kernels", "metrics"),
    *("regression", "statespace"),
)
LAZY |= {name: [name] for name in PACKAGES}
_get, _dir = on_first_use(__name__, LAZY)
SAVING = (  # modules by which every class that is saved is known
    *("bayes", "densities", "features.training", "instruments.kernel_iv", "chains.model"),
    *("hmm", "filtering", "statespace", "adapters.econml", "comparators"),
)
old_names.install()
old_names.HANDED_DOWN["KernelIV.plot"] = lambda *given, **options: import_module(
    f"{__name__}.display"
).StructuralCurveDisplay.from_estimator(*given, **options)


def __getattr__(name: str) -> Any:
    """What is imported on first use; kernels are found by their own list."""
    if name in old_names.MOVED and name not in PUBLIC:
        return old_names.moved(name)
    if name == "__all__":
        return [*PUBLIC, *_get("kernels").__all__]
    try:
        return _get(name)
    except AttributeError:
        if name.startswith("_") or name not in _get("kernels").__all__:
            raise
        return getattr(_get("kernels"), name)


def __dir__() -> list[str]:
    return sorted({*_dir(), *_get("kernels").__all__})


def _import_saved(name: str) -> None:
    """Import the modules that may have the class a file names."""
    for module in ("features.neural",) if name in ("Neural", "FeatureKernel") else SAVING:
        import_module(f"{__name__}.{module}")


importers.append(_import_saved)
