"""`kernelmean info`: what runs here, and what would make it run better."""

import os
import platform
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated, Any

from joblib import cpu_count

from ..command import OUT, Command, Talk
from ..report import Note, Numbers, Report, Section
from ..words import Texts

CORE = ("kernelmean", "numpy", "scipy", "scikit-learn")
SAY = Texts("info")


@dataclass(frozen=True)
class Settings(Talk):
    """Where to write it, if at all."""

    out: Annotated[Path | None, OUT] = None


def versions() -> dict[str, str]:
    """Python and the packages of the core."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return {"python": python, **{name: version(name) for name in CORE}}


def extras() -> dict[str, dict[str, str | None]]:
    """For each extra its packages, with their version, or None where missing."""
    found: dict[str, dict[str, str | None]] = {extra: {} for extra in SAY.content["extras"]}
    for line in requires("kernelmean") or ():
        asked = re.match(r"([\w.-]+).*extra == ['\"](\w+)['\"]", line)
        known = {package for packages in found.values() for package in packages}
        if asked and asked[2] in found and asked[1] not in {"kernelmean", *known}:
            found[asked[2]][asked[1]] = _version(asked[1])
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def blas() -> list[dict[str, Any]]:
    """The BLAS libraries loaded by NumPy and SciPy: name, version, kernel, threads."""
    import scipy.linalg  # noqa: F401  (loads SciPy's own BLAS)
    from threadpoolctl import threadpool_info

    return [lib for lib in threadpool_info() if lib["user_api"] == "blas"]


def memory() -> int | None:
    """Bytes of memory this process may use, where the system tells."""
    total = re.findall(r"MemTotal:\s+(\d+) kB", _read("/proc/meminfo"))
    limit = re.findall(r"^\d+", _read("/sys/fs/cgroup/memory.max"))
    return min([*(1024 * int(size) for size in total), *map(int, limit)], default=None)


def instructions() -> frozenset[str]:
    """The instruction sets of the processor, where the system tells."""
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return frozenset(flags[1].split()) if flags else frozenset()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def machine(libraries: list[dict[str, Any]], available: int) -> list[tuple[str, str]]:
    """Cores, memory, and each BLAS library with its kernel and threads."""
    size = memory()
    rows = [
        ("cores", f"{available} for this process, {os.cpu_count()} in the machine"),
        ("memory", f"{size / 2**30:.1f} GiB" if size else "unknown"),
    ]
    for lib in libraries:
        told = {"architecture": "unknown", **lib, "version": lib["version"] or ""}
        rows.append((f"BLAS in {Path(lib['filepath']).parent.name}", SAY("blas", **told)))
    return rows


def advice(
    libraries: list[dict[str, Any]], flags: frozenset[str], found: dict[str, dict[str, str | None]]
) -> list[str]:
    """What to change, one sentence each; not threads, of which a fit uses what it needs.

    Parameters
    ----------
    libraries : as from `blas`
    flags : as from `instructions`
    found : as from `extras`
    """
    hints = [] if libraries else [SAY("no_blas")]
    taken = [str(lib.get("architecture", "")) for lib in libraries]  # by OpenBLAS
    old = [kernel for kernel in taken if kernel.lower() in SAY.content["old_kernels"]]
    if old and "avx2" in flags:
        better = "SkylakeX" if {"avx512f", "avx512dq", "avx512vl"} <= flags else "Haswell"
        hints.append(SAY("old_kernel", chosen=old[0], better=better))
    for extra, packages in found.items():
        missing = ", ".join(name for name, present in packages.items() if present is None)
        if missing:
            hints.append(SAY("missing", missing=missing, extra=extra, gives=SAY("extras", extra)))
    return hints


def run(options: Settings) -> Report:
    """Versions, linear algebra, cores and memory, and what would make it faster."""
    found, libraries, available = extras(), blas(), cpu_count()
    packages = [pair for extra in found.values() for pair in extra.items()]
    shown = {
        "Versions": list(versions().items()),
        "Optional packages": [(name, present or "not installed") for name, present in packages],
        "Machine": machine(libraries, available),
    }
    hints = advice(libraries, instructions(), found) or [SAY("nothing")]
    sections = [Section(t, [Numbers([(*p, "") for p in pairs])]) for t, pairs in shown.items()]
    advised = Section("Advice", [Note(hint) for hint in hints])
    return Report("What runs here", sections=[*sections, advised])


COMMAND = Command("info", Settings, run)
