"""Modules that moved: their old paths work for one version, with a `FutureWarning`."""

import importlib
import sys
import warnings
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from operator import attrgetter

PACKAGE = __name__.partition(".")[0]
MOVED = {
    "econml": "adapters.econml",
    "formula": "instruments.formula",
    "inference": "instruments.inference",
    "instrument": "instruments.kernel_iv",
    "linalg": "core.solves",
    "markov": "chains.markov",
    "moments": "core.moments",
    "order": "hmm.estimate_order",
    "pairing": "statespace.pairing",
    "pairmoments": "statespace.operators",
    "particlefilter": "statespace.particles",
    "progress": "core.progress",
    "regimes": "chains.results",
    "states": "statespace.results",
    "summary": "instruments.summary",
    "tracking": "filtering.results",
    "variates": "chains.variates",
}


def moved(name: str):
    """The module that `kernelmean.name` was, with a warning that names its new place."""
    new = f"{PACKAGE}.{MOVED[name]}"
    warnings.warn(f"{PACKAGE}.{name} is now {new}", FutureWarning, stacklevel=3)
    return importlib.import_module(new)


def method(name: str, room: str, path: str) -> Callable:
    """What the method `name` became, with a warning that names its new place."""
    warnings.warn(f"{name} is now {PACKAGE}.{room}.{path}", FutureWarning, stacklevel=3)
    return attrgetter(path)(importlib.import_module(f"{PACKAGE}.{room}"))


class _Moved(MetaPathFinder, Loader):
    """Finds a module under its old path."""

    def find_spec(self, fullname, path, target=None) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == PACKAGE and name in MOVED else None

    def create_module(self, spec: ModuleSpec):
        return moved(spec.name.partition(".")[2])

    def exec_module(self, module) -> None:
        """The module has been executed under its new name."""


def install() -> None:
    """Let old paths be imported."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())


def attribute(old: str, new: str) -> property:
    """An attribute by its old name, with a warning that names the new one."""

    def get(self):
        warnings.warn(f"{old} is now {new}", FutureWarning, stacklevel=2)
        return getattr(self, new)

    return property(get, doc=f"The old name of `{new}`.")
