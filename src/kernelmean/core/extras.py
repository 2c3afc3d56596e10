"""Packages that are needed by some, and asked for when they are."""

from importlib import import_module
from typing import Any


def require(module: str, who: str, how: str) -> Any:
    """A module of an optional package; where it is missing, the error says what to install.

    >>> require("nowhere.at_all", "this example", "pip install nowhere")
    Traceback (most recent call last):
    ImportError: this example needs nowhere: pip install nowhere
    """
    try:
        return import_module(module)
    except ImportError as err:
        raise ImportError(f"{who} needs {module.partition('.')[0]}: {how}") from err
