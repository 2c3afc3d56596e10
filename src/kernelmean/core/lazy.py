"""Names of a package that are imported from their files on first use."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def on_first_use(
    package: str, files: Mapping[str, Sequence[str]], packages: Sequence[str] = ()
) -> tuple[Callable, Callable]:
    """The `__getattr__` and the `__dir__` of a package, given the public names in each file."""
    file_of = {name: file for file, names in files.items() for name in names}
    file_of |= dict(zip(packages, packages, strict=True))

    def get(name: str) -> Any:
        if name not in file_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{file_of[name]}")
        found = getattr(module, name, module)  # a package, or what its file is there for
        setattr(sys.modules[package], name, found)
        return found

    return get, lambda: sorted({*sys.modules[package].__all__, *file_of})
