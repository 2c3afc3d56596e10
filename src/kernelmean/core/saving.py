"""Saving without pickle: one zip of NumPy arrays and a JSON header that says what they are.

A file holds `header.json` (format, version, a SHA-256 of the contents, and the object as nested
plain data) and one `.npy` per array. Only classes of this package are built on loading, arrays are
read with pickling off, and a file whose digest does not match is refused.

A class is saved under its own name, not that of its module, so that files outlive moves: version 1
wrote `instrument.KernelIV`, version 2 writes `KernelIV`. `RENAMED` says what became of old names.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import sys
import zipfile
import zlib
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .arrays import to_numpy

FORMAT = "kernelmean"
VERSION = 2
READ = (1, VERSION)
HEADER = "header.json"
SKLEARN = "sklearn.gaussian_process.kernels"
DAMAGE = (zipfile.BadZipFile, KeyError, EOFError, TypeError, AttributeError, zlib.error)


# Classes that are gone or renamed -> what a file that holds them means today.
RENAMED: dict[str, str] = {}

# Rooms that are not imported until something in them is used, and the classes they save.
LAZY = {"Neural": "features.neural", "FeatureKernel": "features.neural"}
ROOMS = (
    *("kernels", "features", "embedding", "regression", "densities", "bayes", "filtering"),
    *("instruments.dask", "chains.model", "hmm", "statespace", "adapters.econml", "comparators"),
)


class Saveable:
    """Gives a class `save`; `kernelmean.load` brings the object back."""

    _classes: ClassVar[dict[str, type[Saveable]]] = {}  # by the name that files use

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = Saveable._classes.setdefault(cls.__name__, cls)
        ours = cls.__module__.startswith("kernelmean.")
        if ours and known.__module__ != cls.__module__:
            raise TypeError(f"two classes are saved as {cls.__name__}: {known.__module__} has one")

    def state(self) -> dict[str, Any]:
        """What a file holds of the object, by name of attribute."""
        return vars(self)

    @classmethod
    def from_version1(cls, state: dict[str, Any]) -> dict[str, Any]:
        """What a file of format version 1 held, as the class holds it today."""
        return state

    def save(self, path) -> None:
        """Write the object to `path`: arrays and JSON in one zip file, no pickle.

        The file appears complete or not at all.

        Raises
        ------
        ValueError
            If the object holds something that cannot be written as data (a Python function).
        """
        arrays: list[np.ndarray] = []
        tree = _encode(self, arrays)
        path = Path(path)
        partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            _write(partial, tree, arrays)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def load(path) -> Any:
    """Read an object written by its `save` method.

    Parameters
    ----------
    path : str or path-like

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not ours, is damaged or was altered, or is of a newer version.

    Examples
    --------
    >>> import os, tempfile, kernelmean as km
    >>> path = os.path.join(tempfile.mkdtemp(), "kernel.km")
    >>> km.Gaussian(2.0).save(path)
    >>> km.load(path)
    Gaussian(lengthscale=2.0, columnwise=False)
    """
    try:
        with zipfile.ZipFile(path) as archive:
            header, arrays = _read(archive)
            return _decode(header["object"], arrays)
    except (*DAMAGE, ValueError) as err:
        raise ValueError(f"{path} is not a kernelmean file, or it is damaged: {err}") from err


def _write(path: Path, tree: Any, arrays: list[np.ndarray]) -> None:
    blobs = [_to_npy(a) for a in arrays]
    header = {
        "format": FORMAT,
        "version": VERSION,
        "sha256": _digest(tree, blobs),
        "object": tree,
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, json.dumps(header))
        for i, blob in enumerate(blobs):
            archive.writestr(f"{i}.npy", blob)


def _read(archive: zipfile.ZipFile) -> tuple[dict, list[np.ndarray]]:
    header = json.loads(archive.read(HEADER))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise KeyError("the header is not kernelmean's")
    if header["version"] not in READ:
        raise ValueError(
            f"the file has format version {header['version']}; this kernelmean reads {READ}"
        )
    count = len(archive.namelist()) - 1
    blobs = [archive.read(f"{i}.npy") for i in range(count)]
    if header["sha256"] != _digest(header["object"], blobs):
        raise ValueError("the file was altered after it was written: its digest does not match")
    return header, [np.load(io.BytesIO(blob), allow_pickle=False) for blob in blobs]


def _to_npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _digest(tree: Any, blobs: list[bytes]) -> str:
    digest = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for blob in blobs:
        digest.update(blob)
    return digest.hexdigest()


def _encode(value: Any, arrays: list[np.ndarray]) -> Any:
    """Nested plain data; arrays are replaced by their number in `arrays`."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int | float):
        return value if np.isfinite(value) else {"float": repr(value)}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(v, arrays) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(k, arrays), _encode(v, arrays)] for k, v in value.items()]}
    if is_sklearn_kernel(value):
        return {"sklearn": type(value).__name__, "state": _encode(value.get_params(False), arrays)}
    if isinstance(value, Saveable) and type(value).__module__.startswith("kernelmean."):
        return {"class": type(value).__name__, "state": _encode(_state(value), arrays)}
    if hasattr(value, "shape"):
        return _encode_array(value, arrays)
    raise ValueError(
        f"a {type(value).__name__} cannot be saved: only data are written, never Python code"
    )


def _encode_array(value: Any, arrays: list[np.ndarray]) -> Any:
    array = to_numpy(value)
    if array.dtype.kind == "O":
        if not all(isinstance(v, str) for v in array.ravel()):
            raise ValueError("an array of Python objects cannot be saved")
        return {"names": array.tolist()}
    for i, known in enumerate(arrays):  # one copy of an array shared by several parts
        if known is array:
            return {"array": i}
    arrays.append(array)
    return {"array": len(arrays) - 1}


def _state(value: Saveable) -> dict[str, Any]:
    return {k: v for k, v in value.state().items() if not k.startswith("__")}


def _decode(tree: Any, arrays: list[np.ndarray]) -> Any:
    if not isinstance(tree, dict):
        return tree
    (tag, body), *_ = tree.items()
    match tag:
        case "float":
            return float(body)
        case "list":
            return [_decode(v, arrays) for v in body]
        case "tuple":
            return tuple(_decode(v, arrays) for v in body)
        case "dict":
            return {_decode(k, arrays): _decode(v, arrays) for k, v in body}
        case "array":
            return arrays[body]
        case "names":
            return np.asarray(body, dtype=object)
        case "sklearn":
            return _sklearn_kernel(body)(**_decode(tree["state"], arrays))
        case "class":
            return _rebuild(body, _decode(tree["state"], arrays))
    raise ValueError(f"the file holds an unknown kind of value, {tag!r}")


def is_sklearn_kernel(value: Any) -> bool:
    """Whether it is of a module that takes long to import, and that made it."""
    module = sys.modules.get(SKLEARN)
    return module is not None and isinstance(value, module.Kernel)


def _sklearn_kernel(name: str) -> type:
    module = importlib.import_module(SKLEARN)
    cls = getattr(module, name, None)
    if not (isinstance(cls, type) and issubclass(cls, module.Kernel)):
        raise ValueError(f"{name!r} is not a scikit-learn kernel")
    return cls


def _class(name: str) -> type[Saveable]:
    """The class that a file names, by its own name; version 1 put its module in front."""
    name = name.rpartition(".")[2]
    name = RENAMED.get(name, name)
    rooms = iter((LAZY[name],) if name in LAZY else ROOMS)
    while name not in Saveable._classes:
        room = next(rooms, None)
        if room is None:
            raise ValueError(f"the file names a class this version does not have: {name}")
        importlib.import_module(f"kernelmean.{room}")
    return Saveable._classes[name]


def _rebuild(name: str, state: dict[str, Any]) -> Saveable:
    cls = _class(name)
    if "." in name:  # version 1 put the module in front
        state = cls.from_version1(state)
    value = cls.__new__(cls)
    if is_dataclass(cls):
        for key, item in state.items():
            object.__setattr__(value, key, item)
    else:
        vars(value).update(state)
    return value
