"""What is optional stays optional, and says how to get it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import kernelmean as km


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_neural_without_torch_says_how_to_install_it():
    with pytest.raises(ImportError, match=r"pip install torch==2\.13\.0"):
        km.Neural  # noqa: B018


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        km.nothing  # noqa: B018
