"""Saving without pickle: one zip of NumPy arrays and a JSON header that says what they are.

A file holds `header.json` (format, version, a SHA-256 of the contents, and the object as nested
plain data) and one `.npy` per array. Only classes of this package are built on loading, arrays are
read with pickling off, and a file whose digest does not match is refused. Members are stored as
they are, so that none can be larger than the file that holds it: compressed ones are refused.

A class is saved under its own name, not that of its module, so that files outlive moves: version 1
wrote `instrument.KernelIV`, version 2 writes `KernelIV`.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import sys
import zipfile
from collections.abc import Callable
from errno import ENOENT
from functools import cached_property
from math import prod
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.lib import format as npy

from .arrays import to_numpy

FORMAT = "kernelmean"
VERSION = 2
READ = (1, VERSION)
HEADER = "header.json"
SKLEARN = "sklearn.gaussian_process.kernels"

# How to import a class that a file names and nobody has used yet: handed down by the roof.
importers: list[Callable[[str], None]] = []


class Saveable:
    """Gives a class `save`; `kernelmean.load` brings the object back."""

    classes: ClassVar[dict[str, type[Saveable]]] = {}  # by the name that files use
    was: ClassVar[dict[str, Any]] = {}  # values of parameters in files from before these were there

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = Saveable.classes.setdefault(cls.__name__, cls)
        ours = cls.__module__.startswith("kernelmean.")
        if ours and known.__module__ != cls.__module__:
            raise TypeError(f"two classes are saved as {cls.__name__}: {known.__module__} has one")

    def state(self) -> dict[str, Any]:
        """What a file holds of the object, by name: nothing timed, or formed on first use."""
        kinds = {name: getattr(type(self), name, None) for name in vars(self)}
        formed = {name for name, kind in kinds.items() if isinstance(kind, cached_property)}
        return {k: v for k, v in vars(self).items() if k not in {*formed, "fit_time_"}}

    @classmethod
    def from_version1(cls, state: dict[str, Any]) -> dict[str, Any]:
        """What a file of format version 1 held, as the class holds it today."""
        return state

    def save(self, path) -> None:
        """Write the object to `path`: arrays and JSON in one zip file, no pickle.

        The file appears complete or not at all.

        Raises
        ------
        FileNotFoundError
            If there is no folder to write to.
        ValueError
            If the object holds something that cannot be written as data (a Python function).
        """
        arrays: list[np.ndarray] = []
        tree = _encode(self, arrays)
        path = Path(path)
        if not path.parent.is_dir():
            raise FileNotFoundError(ENOENT, "there is no such folder", str(path.parent))
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
        If the file is not ours, is damaged or was altered, is of a newer version, or holds a class
        that needs a package which is missing; nothing else is raised, whatever the file holds.

    Examples
    --------
    >>> import os, tempfile, kernelmean as km
    >>> path = os.path.join(tempfile.mkdtemp(), "kernel.km")
    >>> km.Gaussian(2.0).save(path)
    >>> km.load(path)
    Gaussian(lengthscale=2.0, columnwise=False)
    """
    path = Path(path)
    with path.open("rb") as file:
        try:
            header, arrays = _read(file)
            return _decode(header["object"], arrays)
        except Exception as err:
            reason = str(err) or type(err).__name__
            raise ValueError(
                f"{path} is not a kernelmean file, or it is damaged: {reason}"
            ) from err


def _write(path: Path, tree: Any, arrays: list[np.ndarray]) -> None:
    blobs = [_to_npy(a) for a in arrays]
    header = {"format": FORMAT, "version": VERSION, "sha256": _digest(tree, blobs), "object": tree}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, json.dumps(header))
        for i, blob in enumerate(blobs):
            archive.writestr(f"{i}.npy", blob)


def _read(file: IO[bytes]) -> tuple[dict, list[np.ndarray]]:
    with zipfile.ZipFile(file) as archive:
        _check_sizes(archive, os.fstat(file.fileno()).st_size)
        header = json.loads(archive.read(HEADER))
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise ValueError("the header is not kernelmean's")
        if header["version"] not in READ:
            raise ValueError(
                f"the file has format version {header['version']}; this kernelmean reads {READ}"
            )
        blobs = [archive.read(f"{i}.npy") for i in range(len(archive.namelist()) - 1)]
    if header["sha256"] != _digest(header["object"], blobs):
        raise ValueError("the file was altered after it was written: its digest does not match")
    return header, [_from_npy(blob) for blob in blobs]


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """What is unpacked fits in the file it comes from: a small file cannot fill the memory."""
    members = archive.infolist()
    stored = all(m.compress_type == zipfile.ZIP_STORED for m in members)
    if not stored or sum(m.file_size for m in members) > size:
        raise ValueError("its members are compressed or overlap; `save` stores them as they are")


def _from_npy(blob: bytes) -> np.ndarray:
    """An array; what its header promises is there, before room is made for it."""
    file = io.BytesIO(blob)
    if npy.read_magic(file) != (1, 0):
        raise ValueError("it holds an array of another format than `save` writes")
    shape, _, dtype = npy.read_array_header_1_0(file)
    if prod(shape) * dtype.itemsize != len(blob) - file.tell():
        raise ValueError(f"it holds an array that is not of the shape {shape} it says it has")
    file.seek(0)
    return np.load(file, allow_pickle=False)


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
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": repr(value)}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(v, arrays) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(k, arrays), _encode(v, arrays)] for k, v in value.items()]}
    if is_sklearn_kernel(value):
        return {"sklearn": type(value).__name__, "state": _encode(value.get_params(False), arrays)}
    if isinstance(value, Saveable) and type(value).__module__.startswith("kernelmean."):
        state = {k: v for k, v in value.state().items() if not k.startswith("__")}
        return {"class": type(value).__name__, "state": _encode(state, arrays)}
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
    for importer in importers:
        importer(name)
    if name not in Saveable.classes:
        raise ValueError(f"the file names a class this version does not have: {name}")
    return Saveable.classes[name]


def _rebuild(name: str, state: dict[str, Any]) -> Saveable:
    cls = _class(name)
    if "." in name:  # version 1 put the module in front
        state = cls.from_version1(state)
    state = cls.was | state
    value = cls.__new__(cls)
    vars(value).update(state)
    return value
