"""Programs on disk: one zip file with the model's inputs, and of each variant its artifact, its names, its constants
and its machine code.

`read` checks each part against the SHA-256 in the manifest before it uses it, and all parts against each other. None of
this is a signature: a file is to be trusted as a program is, for the machine code in it runs.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec
import numpy as np

from eqsat.model import BoundModel, Model
from eqsat.options import ON_TARGET, Running
from eqsat.runtime.artifact import Artifact, Recipe
from eqsat.runtime.artifact_verify import verify, verify_recipe
from eqsat.runtime.compiled import Compiled
from eqsat.runtime.variants import Key, key_of
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.dtype import dtype
from ir.frontend import FrontendGraph, TensorInfo
from ir.host.atomic_file import write_atomically
from ir.serde import from_json, to_json
from ir.tiny.bind import load
from ir.tiny.dims import match_shapes

FORMAT = 5
SIGNATURE = b"PK\x03\x04"
"""How a zip file with something in it begins."""

_AGAIN = "save the program again"
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


class Manifest(msgspec.Struct, frozen=True):
    """The first part of a file: its format, the instruction sets that its code uses, the checksums of the others."""

    format: int
    features: tuple[str, ...]
    sha256: dict[str, str]


class LoadedVariant(NamedTuple):
    """What a file holds of one variant: `code` is its machine code, empty where only the recipe was asked for."""

    recipe: Recipe
    bound: BoundModel
    code: bytes


class StoredProgram(NamedTuple):
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
        if path.exists() and not path.is_file():  # a device or a pipe is not to be replaced by a file
            raise OSError(errno.EINVAL, "not a regular file", str(path))
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


def read(source: Path | bytes, only_recipes: bool = False) -> StoredProgram:
    """The program in a file, or in the bytes of one. `only_recipes`: without texts and machine code, which may then be
    missing or damaged.

    Raises:
        EqsatError: MalformedGraph for a file that is missing, damaged, or of another version.
    """
    path = source if isinstance(source, Path) else Path("a pickled program")
    try:
        with zipfile.ZipFile(source if isinstance(source, Path) else io.BytesIO(source)) as archive:
            return _read(FileParts(archive), only_recipes)
    except EqsatError as error:
        found = error.diagnostics[0]
        _refuse(path, f"is damaged or of another version: {found.message}", found)
    except OSError as error:
        _refuse(path, f"cannot be read: {error}")
    except MemoryError:
        raise
    except Exception as error:  # a damaged zip file, JSON text or noun fails in many ways
        _refuse(path, f"is no saved program: {type(error).__name__} {error}")


class FileParts:
    """The parts of an open file, each as its checksum in the manifest says."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.manifest = msgspec.json.decode(self._bytes(MANIFEST), type=Manifest)

    def __getitem__(self, name: str) -> bytes:
        data = self._bytes(name)
        if hashlib.sha256(data).hexdigest() != self.manifest.sha256.get(name):
            _require(False, name, "does not match its checksum")
        return data

    def _bytes(self, name: str) -> bytes:
        _require(self._archive.namelist().count(name) == 1, name, "is not there, or more than once")
        stored_as_it_is = self._archive.getinfo(name).compress_type == zipfile.ZIP_STORED
        _require(stored_as_it_is, name, "is compressed, which no part is")
        return self._archive.read(name)


def _read(parts: FileParts, only_recipes: bool) -> StoredProgram:
    manifest = parts.manifest
    _require(manifest.format == FORMAT, "format", f"{manifest.format}, where this eqsat reads format {FORMAT}")
    known = from_json(parts[MODEL], StoredModel)
    _require(bool(known.variants), MODEL, "holds no variant")
    sizes = tuple(each.dims for each in known.variants)
    variants = {key_of(each.dims): _loaded(each, known, parts, only_recipes) for each in known.variants}
    _require(len(variants) == len(sizes), MODEL, "holds two variants of the same sizes")
    targets = {(each.recipe.target.arch, each.recipe.target.is_gpu) for each in variants.values()}
    _require(len(targets) == 1, MODEL, "holds variants for several machines")
    model = SavedModel(inputs=known.inputs, dims=known.dims, sizes=sizes)
    return StoredProgram(model, known.free, variants, tuple(manifest.features), known.running)


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


def _loaded(stored: StoredVariant, model: StoredModel, parts: FileParts, only_recipe: bool) -> LoadedVariant:
    """A variant whose parts agree with each other."""
    recipe = from_json(parts[stored.artifact], Recipe if only_recipe else Artifact)
    graph, _ = load(recipe.tiny)
    bound = BoundModel(
        graph,
        {each.tensor: _array(each, parts) for each in stored.constants},
        stored.results,
        stored.notes,
        model.frontend,
    )
    _require(len(bound.constants) == len(stored.constants), MODEL, "holds two constants of one name")
    verify_signature(model, stored.dims, bound)
    if isinstance(recipe, Artifact):
        verify(recipe, bound)
        return LoadedVariant(recipe, bound, parts[stored.code])
    verify_recipe(recipe, bound)
    return LoadedVariant(recipe, bound, b"")


def _array(stored: StoredConstant, parts: FileParts) -> np.ndarray:
    data, kind = parts[stored.part], dtype(stored.dtype)
    fits = all(size >= 0 for size in stored.shape) and math.prod(stored.shape) * kind.bytes == len(data)
    _require(fits, stored.tensor, f"{len(data)} bytes for a constant {kind}{list(stored.shape)}")
    return np.frombuffer(data, kind.numpy).reshape(stored.shape)


def verify_signature(model: StoredModel, dims: Mapping[str, int], bound: BoundModel) -> None:
    """Raises EqsatError, MalformedGraph, unless the arguments of the model are, at these sizes, those of the graph."""
    _require(model.inputs.keys() == bound.signature.keys(), MODEL, "has other arguments than the graph")
    _require(set(model.free) <= dims.keys(), MODEL, "says no value of a size that is free")
    for name, info in model.inputs.items():
        found = bound.signature[name]
        _require(dtype(info.dtype) == found.dtype, name, f"is {info.dtype} in the model, {found} in the graph")
    wanted = {name: info.shape for name, info in model.inputs.items()}
    match_shapes(wanted, {name: type_.shape for name, type_ in bound.signature.items()}, dims)


def _sizes(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in dims.items())


def _require(holds: bool, at: str, message: str) -> None:
    if not holds:
        fail(Kind.MALFORMED_GRAPH, "load", f"{at} {message}", at=at)


def _refuse(path: Path, message: str, found: Diagnostic | None = None) -> NoReturn:
    details = {"part": found.at} if found is not None and found.at else {}
    fail(Kind.MALFORMED_GRAPH, "load", f"the file {message}", at=str(path), hint=_AGAIN, **details)
