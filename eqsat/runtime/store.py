"""Programs on disk: one zip file with the model's inputs, and of each variant its artifact, its names, its constants
and its machine code.

`read` checks every part against the SHA-256 in the manifest before it uses any.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec
import numpy as np

from eqsat.model import BoundModel, Model
from eqsat.options import ON_TARGET, Running
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.compiled import Compiled
from eqsat.runtime.variants import Key, key_of
from ir.atomic_file import write_atomically
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.dtype import dtype
from ir.frontend import FrontendGraph, TensorInfo
from ir.serde import from_json, to_json
from ir.tiny_bind import load

FORMAT = 3
SIGNATURE = b"PK\x03\x04"
"""How a zip file with something in it begins."""

MANIFEST, MODEL = "manifest.json", "model.json"


class StoredConstant(msgspec.Struct, frozen=True):
    """The constant `tensor`: its bytes are in `part`."""

    tensor: str
    dtype: str
    shape: tuple[int, ...]
    part: str


class StoredVariant(msgspec.Struct, frozen=True):
    """One variant: the sizes that were free, what its bound model says beyond its graph, and the names of the parts
    that hold its artifact and its machine code."""

    dims: dict[str, int]
    results: tuple[str, ...]
    notes: tuple[Diagnostic, ...]
    constants: tuple[StoredConstant, ...]
    artifact: str
    code: str


class StoredModel(msgspec.Struct, frozen=True):
    """The arguments in order, the sizes that are known without them, those that are free, the Frontend graph, and the
    variants, the least recently used first; how it ran."""

    inputs: dict[str, TensorInfo]
    dims: dict[str, int]
    free: tuple[str, ...]
    frontend: FrontendGraph | None
    variants: tuple[StoredVariant, ...]
    running: Running = ON_TARGET


class LoadedVariant(NamedTuple):
    """What a file holds of one variant: `code` is its machine code."""

    artifact: Artifact
    bound: BoundModel
    code: bytes


class Stored(NamedTuple):
    """What a file holds, the instruction sets that its code uses, and how it ran."""

    model: SavedModel
    free: tuple[str, ...]
    variants: dict[Key, LoadedVariant]
    features: tuple[str, ...]
    running: Running


@dataclass(frozen=True, kw_only=True)
class SavedModel(Model):
    """What a saved program knows of its model: its arguments, and the sizes for which there is code."""

    inputs: Mapping[str, TensorInfo]
    sizes: tuple[Mapping[str, int], ...]

    @property
    def declared(self) -> Mapping[str, TensorInfo]:
        return self.inputs

    def bind(self, dims: Mapping[str, int], strict: bool) -> NoReturn:
        """Fails: there is code for the saved sizes only."""
        wanted = {name: size for name, size in dims.items() if any(each.get(name) != size for each in self.sizes)}
        fail(
            Kind.UNBOUND_DIM,
            "load",
            f"the saved program has no variant for {_sizes(wanted)}",
            hint="call it with arrays of a saved size; or compile its model again, call that at this size, and save it",
            saved="; ".join(map(_sizes, self.sizes)),
        )


def save(model: Model, free: Sequence[str], variants: Mapping[Key, Compiled], path: Path) -> None:
    """Write a program of at least one variant to `path`, atomically.

    Raises:
        EqsatError: InvalidOption where the file cannot be written.
    """
    try:
        write_atomically(path, packed(model, free, variants))
    except OSError as error:
        fail(Kind.INVALID_OPTION, "save", f"cannot write the file: {error.strerror or error}", at=str(path))


def packed(model: Model, free: Sequence[str], variants: Mapping[Key, Compiled]) -> bytes:
    """A program of at least one variant as the bytes of its file. What variants share is stored once."""
    parts: dict[str, bytes] = {}
    stored = tuple(_stored(dict(key), compiled, parts) for key, compiled in variants.items())
    several = list(variants.values())
    inputs = {name: model.declared[name] for name in model.arguments}
    known = StoredModel(inputs, model.infer({}), tuple(free), several[-1].bound.frontend, stored, several[-1].running)
    parts[MODEL] = to_json(known).encode()
    manifest = {
        "format": FORMAT,
        "features": sorted({feature for compiled in several for feature in compiled.features}),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()},
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest, indent=2))
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()


def is_saved(path: Path) -> bool:
    """Whether the file looks like one that `save` wrote, whatever it is called."""
    try:
        with path.open("rb") as file:
            return file.read(len(SIGNATURE)) == SIGNATURE
    except OSError:
        return False


def read(source: Path | bytes) -> Stored:
    """The program in a file, or in the bytes of one.

    Raises:
        EqsatError: MalformedGraph for a file that is missing, damaged, or of another version.
    """
    path = source if isinstance(source, Path) else Path("a pickled program")
    try:
        with zipfile.ZipFile(source if isinstance(source, Path) else io.BytesIO(source)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        manifest = json.loads(parts[MANIFEST])
        if manifest["format"] != FORMAT:
            _refuse(path, f"has format {manifest['format']!r}, this version of eqsat reads format {FORMAT}")
        for name, digest in manifest["sha256"].items():
            if hashlib.sha256(parts[name]).hexdigest() != digest:
                _refuse(path, f"is damaged: {name} does not match its checksum")
        known = from_json(parts[MODEL], StoredModel)
        if not known.variants:
            _refuse(path, "holds no variant")
        model = SavedModel(inputs=known.inputs, dims=known.dims, sizes=tuple(each.dims for each in known.variants))
        variants = {key_of(each.dims): _loaded(each, known.frontend, parts) for each in known.variants}
        return Stored(model, known.free, variants, tuple(manifest["features"]), known.running)
    except EqsatError:
        raise
    except OSError as error:
        _refuse(path, f"cannot be read: {error}")
    except Exception as error:  # a damaged zip file, JSON text or noun fails in many ways
        _refuse(path, f"is no saved program: {type(error).__name__} {error}")


def _stored(dims: dict[str, int], compiled: Compiled, parts: dict[str, bytes]) -> StoredVariant:
    """The variant, its bytes added to `parts`."""
    bound = compiled.bound
    constants = tuple(
        StoredConstant(name, str(dtype(each.dtype)), each.shape, _part(np.ascontiguousarray(each).tobytes(), parts))
        for name, each in bound.constants.items()
    )
    artifact = _part(to_json(compiled.artifact).encode(), parts)
    code = _part(compiled.code.code, parts)
    return StoredVariant(dims, bound.results, bound.notes, constants, artifact, code)


def _part(data: bytes, parts: dict[str, bytes]) -> str:
    """The name under which the bytes are stored: that of their content."""
    name = f"parts/{hashlib.sha256(data).hexdigest()}"
    parts[name] = data
    return name


def _loaded(stored: StoredVariant, frontend: FrontendGraph | None, parts: Mapping[str, bytes]) -> LoadedVariant:
    artifact = from_json(parts[stored.artifact], Artifact)
    graph, _ = load(artifact.tiny)
    constants = {
        each.tensor: np.frombuffer(parts[each.part], dtype(each.dtype).numpy).reshape(each.shape)
        for each in stored.constants
    }
    bound = BoundModel(graph, constants, stored.results, stored.notes, frontend)
    return LoadedVariant(artifact, bound, parts[stored.code])


def _sizes(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in dims.items())


def _refuse(path: Path, message: str) -> NoReturn:
    fail(Kind.MALFORMED_GRAPH, "load", f"the file {message}", at=str(path), hint="save the program again")
