"""A failing call → a Python file that makes the call again, with program, options, target and versions.

The file contains small arrays, to the last bit. A large array is replaced by random values of the same dtype and shape,
between its least and greatest value; a comment at the top says so.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import pprint
import tempfile
import traceback
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from eqsat.version import __version__
from ir.diagnostics import EqsatError, jsonable
from ir.dtype import dtype
from ir.frontend import FrontendGraph
from ir.host.atomic_file import write_atomically
from ir.host.cache_folder import cache_dir, is_open_to_others
from ir.serde import to_builtins
from ir.tiny.graph import Graph

FOLDER = "reproducers"
LEFT_OUT = "Left out"
"""The first words of a note on an argument that the script lacks."""
MOST_BYTES = 1 << 14
"""Bytes of the largest array that is written as it is."""
MOST_FILE_BYTES = 1 << 20
"""Bytes of the largest model or saved program that is written as it is."""
_WIDTH = 110
_PACKAGES = ("numpy", "egglog", "islpy", "msgspec", "onnx", "torch", "cupy-cuda13x", "nvidia-cuda-nvrtc")
_HELPERS = ("array", "drawn", "noun", "data", "stored")


class ScriptCall(NamedTuple):
    """A call in a script: `result` = `function`(…); `function` is `module:name`, or an expression over earlier results.
    args None: no call, but the expression alone, for a property. notes: for the reader of the script."""

    result: str
    function: str
    args: Sequence[Any] | None = ()
    keywords: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()


class Failure(NamedTuple):
    """A failure: its exception, stage, function, and region."""

    error: BaseException
    stage: str
    where: str
    region: str


class StoredFile(NamedTuple):
    """An argument that is the path of a file; the script contains the file's bytes."""

    path: Path


def with_file(value: Any) -> Any:
    """The value; a StoredFile if it is the path of a file, so that the script needs no other file."""
    if isinstance(value, str | os.PathLike):
        with suppress(OSError, ValueError):
            if Path(value).is_file():
                return StoredFile(Path(value))
    return value


def write_reproducer(failure: Failure, calls: Sequence[ScriptCall]) -> Path:
    """Writes a reproducer into the cache folder, or into the folder for temporary files. Returns its path.

    Raises:
        OSError: if neither folder can be written.
    """
    text = reproducer(failure, calls)
    name = f"{failure.stage}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.py".replace("/", "-")
    problem: OSError | None = None
    for folder in _folders():
        try:
            write_atomically(folder / name, text.encode("utf-8", "backslashreplace"))
            return folder / name
        except OSError as error:
            problem = error
    raise problem or OSError("there is no folder for it")


def reproducer(failure: Failure, calls: Sequence[ScriptCall]) -> str:
    """The text of the reproducer."""
    writer = _Writer()
    lines = [line for call in calls for line in writer.lines(call)]
    imports = [f"from {module} import {name}" for module, name in sorted(writer.imports)]
    helpers = [name for name in _HELPERS if name in writer.used]
    if helpers:
        imports.append(f"from eqsat.failure.reproducer_values import {', '.join(helpers)}")
    head = "\n".join(f"# {line}".rstrip() for line in _head(failure, writer.notes))
    return "\n".join([head, "", *sorted(imports), "", *lines]) + "\n"


def _folders() -> Iterable[Path]:
    cache = cache_dir()
    if cache is not None and not (cache.exists() and is_open_to_others(cache)):
        yield cache / FOLDER
    yield Path(tempfile.gettempdir()) / f"eqsat-{FOLDER}-{os.getuid() if hasattr(os, 'getuid') else 'user'}"


def _head(failure: Failure, notes: Sequence[str]) -> list[str]:
    error = failure.error
    exception = "".join(traceback.format_exception_only(error)).strip()
    lines = [f"eqsat failed in stage {failure.stage}: {exception}", ""]
    is_whole = not any(note.startswith(LEFT_OUT) for note in notes)
    lines += ["Run this file with Python to see it again." if is_whole else "The call lacks what is left out.", ""]
    lines += [*_versions(), ""]
    lines += [*notes, ""] if notes else []
    lines += ["The region:", failure.region, ""] if failure.region else []
    lines += traceback.format_tb(error.__traceback__, limit=-40)
    return "\n".join(lines).splitlines()


def _versions() -> list[str]:
    installed = [f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        try:
            installed.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    settings = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name in ("EQSAT_ISA", "EQSAT_CC")]
    machine = f"{platform.platform()}, {platform.machine()}"
    return [f"eqsat {__version__}, {', '.join(installed)}", ", ".join([machine, *settings])]


class _Code(str):
    """Python text that stands for a value."""

    def __repr__(self) -> str:
        return str(self)


class _Writer:
    """Writes values as Python text. notes: what the text cannot say. used: the helpers that the text calls."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.used: set[str] = set()
        self.imports: set[tuple[str, str]] = set()

    def lines(self, call: ScriptCall) -> list[str]:
        self.notes += call.notes
        module, colon, name = call.function.partition(":")
        function = name if colon else call.function
        if colon:
            self.imports.add((module, name))
        head = f"{call.result} = {function}" if call.result else function
        if call.args is None:
            return [head]
        values = [("", value) for value in call.args] + [(f"{key}=", value) for key, value in call.keywords.items()]
        return [f"{head}(", *(self._argument(key, value) for key, value in values), ")"]

    def _argument(self, head: str, value: Any) -> str:
        """One argument on its own lines; every keyword is assumed to be a valid Python name."""
        text = pprint.pformat(self._value(value, head.rstrip("=")), width=_WIDTH, sort_dicts=False)
        return f"    {head}" + text.replace("\n", "\n    ") + ","

    def _value(self, value: Any, at: str) -> Any:
        match value:
            case None | bool() | str():
                return str(value) if isinstance(value, str) else value
            case int():
                return int(value)
            case float():
                return float(value) if np.isfinite(value) else _Code(f'float("{value}")')
            case bytes():
                return self._data(value, at)
            case np.generic():
                return self._array(np.asarray(value), at)
            case np.ndarray():
                return self._array(value, at)
            case StoredFile():
                return self._stored_file(value.path)
            case Path():
                return str(value)
            case Graph():
                return value.to_json()
            case FrontendGraph():
                return self._noun(value)
            case Mapping():
                return {self._value(key, at): self._value(item, f"{at} {key}".strip()) for key, item in value.items()}
            case tuple():
                return tuple(self._value(item, at) for item in value)
            case list() | set() | frozenset():
                return [self._value(item, at) for item in value]
            case msgspec.Struct():
                return self._noun(value)
        return self._foreign(value, at)

    def _foreign(self, value: Any, at: str) -> Any:
        from eqsat.runtime.arrays import as_numpy

        if hasattr(value, "SerializeToString"):  # a ModelProto of onnx
            return self._data(value.SerializeToString(), at)
        try:
            return self._array(as_numpy(at, value), at)
        except EqsatError:
            self.notes.append(f"{LEFT_OUT}: {at or 'an argument'}, {type(value).__name__}, which no text stands for.")
            return None

    def _array(self, value: np.ndarray, at: str) -> _Code:
        try:
            name = str(dtype(value.dtype))
        except EqsatError:
            name = value.dtype.str
        shape = tuple(map(int, value.shape))
        if value.nbytes <= MOST_BYTES:
            self.used.add("array")
            return _Code(f'array("{name}", {shape}, "{np.ascontiguousarray(value).tobytes().hex()}")')
        self.used.add("drawn")
        finite = value[np.isfinite(value)] if value.dtype.kind not in "biu" else value
        low, high = (jsonable(bound.item()) for bound in (finite.min(), finite.max())) if finite.size else (0, 1)
        self.notes.append(
            f"Drawn anew, between the least and the greatest of its values: {at or 'an array'}, {name}{list(shape)}."
        )
        seed = int(hashlib.sha256(f"{at} {shape}".encode()).hexdigest()[:6], 16)
        return _Code(f'drawn("{name}", {shape}, {low!r}, {high!r}, seed={seed})')

    def _noun(self, value: msgspec.Struct) -> _Code:
        self.used.add("noun")
        kind = type(value)
        fields = pprint.pformat(to_builtins(value), width=_WIDTH - 8, sort_dicts=False).replace("\n", "\n    ")
        return _Code(f'noun("{kind.__module__}", "{kind.__qualname__}", {fields})')

    def _data(self, value: bytes, at: str) -> Any:
        if len(value) > MOST_FILE_BYTES:
            self.notes.append(f"{LEFT_OUT}: {at or 'an argument'}, {len(value)} bytes.")
            return None
        self.used.add("data")
        return _Code(f"data({_pack(value)})")

    def _stored_file(self, path: Path) -> Any:
        try:
            whole = path.read_bytes() if path.stat().st_size <= MOST_FILE_BYTES else None
        except OSError:
            whole = None
        if whole is None:
            self.notes.append(f"The file {path} is needed besides.")
            return str(path)
        self.used.add("stored")
        return _Code(f"stored({path.name!r}, {_pack(whole)})")


def _pack(value: bytes) -> str:
    """A literal of the compressed bytes, which `eqsat.failure.reproducer_values` can read."""
    return repr(base64.b85encode(zlib.compress(value, 9)).decode())
