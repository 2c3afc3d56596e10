"""The algorithms of appendix A.11.2, and what came of them since, by the names in the figures."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import kernelmean as km
from kernelmean.comparators import DeepIV, KernelReg, SieveIV, SmoothIV

TORCH = find_spec("torch") is not None
LARGEST = {"SmoothIV": 1000, "SmoothIV (lines)": 1000}  # n + m beyond which it is not run

METHODS: dict[str, Callable[[int], Any]] = {
    "KernelReg": lambda seed: KernelReg(),
    "SmoothIV": lambda seed: SmoothIV(),
    "SieveIV": lambda seed: SieveIV(),
    "SieveIV_ridge": lambda seed: SieveIV(ridge=True),
    "DeepIV": lambda seed: DeepIV(random_state=seed),
    "KernelIV": lambda seed: km.KernelIV(split=0.5),
    "SmoothIV (lines)": lambda seed: SmoothIV(degree=1),  # npregiv's default
    "KernelIV (loo)": lambda seed: km.KernelIV(split="loo"),  # the library's default
}
SLOW = ["SmoothIV", "SmoothIV (lines)", "DeepIV", "KernelIV (loo)"]
FAST = [method for method in METHODS if method not in SLOW]


def chosen(methods: list[str], n: int) -> list[str]:
    """Those that run at this size, on this machine."""
    return [m for m in methods if n <= LARGEST.get(m, n) and (m != "DeepIV" or TORCH)]
