"""Which files are collected. A test module that cannot be imported is an error, never a skip."""

from importlib.util import find_spec

TORCH = find_spec("torch") is not None
collect_ignore = [] if TORCH else ["src/kernelmean/features/neural.py"]


def pytest_report_header() -> list[str]:
    """Say what is left out."""
    return [] if TORCH else ["PyTorch is not installed: the examples of km.Neural are left out"]
