"""Which files are collected. A test module that cannot be imported is an error, never a skip."""

from importlib.util import find_spec

NEEDS = {"torch": "features/neural.py"}
NEEDS |= {name: f"adapters/{name}.py" for name in ("skada", "skpro", "sktime")}
MISSING = [name for name in NEEDS if find_spec(name) is None]
collect_ignore = [f"src/kernelmean/{NEEDS[name]}" for name in MISSING]


def pytest_report_header() -> list[str]:
    """Say what is left out."""
    return [f"not installed, so that no examples of it are run: {name}" for name in MISSING]
