"""Programs on disk: one zip file with the model's inputs and, per variant, artifact, names, constants and machine code.

`read` checks each part against its SHA-256 in the manifest before use, and all parts against each other. The checksums
are no signature: trust a file as you trust a program, because its machine code runs.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec
import numpy as np

from eqsat.model import BoundModel, Constants, Length, Model, read_model
from eqsat.options import ON_TARGET, Running
from eqsat.runtime.artifact import Artifact, Recipe
from eqsat.runtime.artifact_verify import verify, verify_recipe
from eqsat.runtime.compiled import Compiled
from eqsat.serving.buckets import Buckets
from eqsat.serving.variants import Key, key_of
from eqsat.serving.when_missing import Serving
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.dtype import dtype
from ir.frontend import FrontendGraph, TensorInfo
from ir.host.output_file import write_output
from ir.serde import from_json, to_json
from ir.tiny.bind import load
from ir.tiny.dims import match_shapes
from ir.tiny.size_expr import SizeExpr

FORMAT = 10
"""Version of the file's layout. A file of another version is refused."""
SIGNATURE = b"PK\x03\x04"
"""The first bytes of a zip file that is not empty."""

_AGAIN = "save the program again"
MANIFEST, MODEL = "manifest.json", "model.json"


class StoredConstant(msgspec.Struct, frozen=True):
    """The constant `tensor`: its bytes are in `part`."""

    tensor: str
    dtype: str
    shape: tuple[int, ...]
    part: str


class StoredVariant(msgspec.Struct, frozen=True):
    """One variant. dims: the sizes that were free. results, notes, lengths: of the bound model. artifact, code: the
    names of the parts that hold its artifact and its machine code."""

    dims: dict[str, int]
    results: tuple[str, ...]
    notes: tuple[Diagnostic, ...]
    constants: tuple[StoredConstant, ...]
    artifact: str
    code: str
    lengths: dict[str, Length] = {}


class StoredServing(msgspec.Struct, frozen=True):
    """buckets: of the free dims that have some. pads: the dims that may be padded. adapts: those that adapt. document,
    constants: the program that tells the types of a padded call; None if no dim may be padded, or if the model has no
    program of its own."""

    buckets: dict[str, tuple[int, ...]] = {}
    pads: tuple[str, ...] = ()
    adapts: tuple[str, ...] = ()
    document: dict[str, Any] | None = None
    constants: tuple[StoredConstant, ...] = ()


class StoredModel(msgspec.Struct, frozen=True):
    """inputs: the arguments, in order. dims: the sizes that the model fixes. free: the sizes that calls fix.
    variants: the least recently used first. running: emulated or not. related: sizes that follow from others."""

    inputs: dict[str, TensorInfo]
    dims: dict[str, int]
    free: tuple[str, ...]
    frontend: FrontendGraph | None
    variants: tuple[StoredVariant, ...]
    running: Running = ON_TARGET
    serving: StoredServing = StoredServing()
    related: dict[str, SizeExpr] = {}


class Manifest(msgspec.Struct, frozen=True):
    """The first part of a file: its format, instruction sets that its code uses, and checksums of the other parts."""

    format: int
    features: tuple[str, ...]
    sha256: dict[str, str]


class LoadedVariant(NamedTuple):
    """One variant read from a file. code: the machine code, empty if only the recipe was read."""

    recipe: Recipe
    bound: BoundModel
    code: bytes


class StoredProgram(NamedTuple):
    """The content of a file. features: the instruction sets that its code uses. running: emulated or not. serving: what
    answers calls of other sizes."""

    model: SavedModel
    free: tuple[str, ...]
    variants: dict[Key, LoadedVariant]
    features: tuple[str, ...]
    running: Running
    serving: Serving


@dataclass(frozen=True, kw_only=True)
class SavedModel(Model):
    """The model of a saved program: its arguments, the sizes that there is code for, and the program if calls may be
    padded."""

    inputs: Mapping[str, TensorInfo]
    sizes: tuple[Mapping[str, int], ...]
    program: Model | None = None

    @property
    def declared(self) -> Mapping[str, TensorInfo]:
        return self.inputs

    def bind(self, dims: Mapping[str, int], strict: bool) -> BoundModel:
        """The program at sizes that there may be no code for, if the file has it."""
        return self.refuse(dims) if self.program is None else self.program.bind(dims, strict)

    def refuse(self, dims: Mapping[str, int]) -> NoReturn:
        """Fails: there is code for the saved sizes only."""
        wanted = {name: size for name, size in dims.items() if any(saved.get(name) != size for saved in self.sizes)}
        fail(
            Kind.UNBOUND_DIM,
            "load",
            f"the saved program has no variant for {_sizes(wanted)}",
            hint="call it with arrays of a saved size; or compile its model again, call that at this size, and save it",
            saved="; ".join(map(_sizes, self.sizes)),
        )


def save(model: Model, free: Sequence[str], variants: Mapping[Key, Compiled], serving: Serving, path: Path) -> None:
    """Write a program of at least one variant to `path`, atomically.

    Raises:
        EqsatError: InvalidOption where the file cannot be written.
    """
    write_output(path, pack(model, free, variants, serving), "save")


def pack(model: Model, free: Sequence[str], variants: Mapping[Key, Compiled], serving: Serving) -> bytes:
    """The bytes of the file of a program with at least one variant. Parts that variants share are stored once."""
    parts: dict[str, bytes] = {}
    stored_variants = tuple(_store_variant(dict(key), compiled, parts) for key, compiled in variants.items())
    all_compiled = list(variants.values())
    inputs = {name: model.declared[name] for name in model.arguments}
    stored_model = StoredModel(
        inputs,
        model.infer({}),
        tuple(free),
        all_compiled[-1].bound.frontend,
        stored_variants,
        all_compiled[-1].running,
        _store_serving(model, serving, parts),
        dict(model.related),
    )
    parts[MODEL] = to_json(stored_model).encode()
    manifest = {
        "format": FORMAT,
        "features": sorted({feature for compiled in all_compiled for feature in compiled.features}),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()},
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest, indent=2))
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()


def is_saved(path: Path) -> bool:
    """Whether the file begins as a file written by `save`; its name does not matter."""
    try:
        with path.open("rb") as file:
            return file.read(len(SIGNATURE)) == SIGNATURE
    except OSError:
        return False


def read(source: Path | bytes, only_recipes: bool = False) -> StoredProgram:
    """The program in a file, or in the bytes of a file. With `only_recipes`, texts and machine code are not read, so
    they may be missing or damaged.

    Raises:
        EqsatError: MalformedGraph for a file that is missing, damaged, or of another version.
    """
    path = source if isinstance(source, Path) else Path("a pickled program")
    try:
        with zipfile.ZipFile(source if isinstance(source, Path) else io.BytesIO(source)) as archive:
            return _read(FileParts(archive), only_recipes)
    except EqsatError as error:
        diagnostic = error.diagnostics[0]
        _refuse(path, f"is damaged or of another version: {diagnostic.message}", diagnostic)
    except OSError as error:
        _refuse(path, f"cannot be read: {error}")
    except MemoryError:
        raise
    except Exception as error:  # a damaged zip file, JSON text or noun fails in many ways
        _refuse(path, f"is no saved program: {type(error).__name__} {error}")


class FileParts:
    """The parts of an open file; each is checked against the manifest when it is read."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.manifest = from_json(self._bytes(MANIFEST), Manifest)

    def __getitem__(self, name: str) -> bytes:
        data = self._bytes(name)
        if hashlib.sha256(data).hexdigest() != self.manifest.sha256.get(name):
            _require(False, name, "does not match its checksum")
        return data

    def _bytes(self, name: str) -> bytes:
        _require(self._archive.namelist().count(name) == 1, name, "is not there, or more than once")
        is_uncompressed = self._archive.getinfo(name).compress_type == zipfile.ZIP_STORED
        _require(is_uncompressed, name, "is compressed, but parts are stored uncompressed")
        return self._archive.read(name)


def _read(parts: FileParts, only_recipes: bool) -> StoredProgram:
    manifest = parts.manifest
    _require(manifest.format == FORMAT, "format", f"{manifest.format}, where this eqsat reads format {FORMAT}")
    stored = from_json(parts[MODEL], StoredModel)
    _require(bool(stored.variants), MODEL, "holds no variant")
    sizes = tuple(variant.dims for variant in stored.variants)
    variants = {
        key_of(variant.dims): _load_variant(variant, stored, parts, only_recipes) for variant in stored.variants
    }
    _require(len(variants) == len(sizes), MODEL, "holds two variants of the same sizes")
    targets = {(variant.recipe.target.arch, variant.recipe.target.is_gpu) for variant in variants.values()}
    _require(len(targets) == 1, MODEL, "holds variants for several machines")
    program = _load_program(stored, parts)
    model = SavedModel(
        inputs=stored.inputs,
        dims=stored.dims,
        related=stored.related,
        updates=dict(next(iter(variants.values())).recipe.options.updates),
        sizes=sizes,
        program=program,
    )
    serving = _load_serving(stored, can_pad=program is not None)
    return StoredProgram(model, stored.free, variants, tuple(manifest.features), stored.running, serving)


def _store_variant(dims: dict[str, int], compiled: Compiled, parts: dict[str, bytes]) -> StoredVariant:
    """Describes the variant, and adds its bytes to `parts`."""
    bound = compiled.bound
    constants = _store_constants(bound.constants, parts)
    artifact = _part(to_json(compiled.artifact).encode(), parts)
    code = _part(compiled.code.code, parts)
    return StoredVariant(dims, bound.results, bound.notes, constants, artifact, code, dict(bound.lengths))


def _store_serving(model: Model, serving: Serving, parts: dict[str, bytes]) -> StoredServing:
    """Describes how calls of other sizes are answered, and adds the constants that they need to `parts`."""
    buckets, pads = {name: tuple(sizes) for name, sizes in serving.buckets.items()}, tuple(sorted(serving.pads))
    adapts = tuple(sorted(serving.adapts))
    program = model.program if isinstance(model, SavedModel) else model
    document = program.document if pads and program is not None else None
    if program is None or document is None:
        return StoredServing(buckets, pads, adapts)
    return StoredServing(buckets, pads, adapts, document, _store_constants(program.constants, parts))


def _load_program(stored: StoredModel, parts: FileParts) -> Model | None:
    """The program that tells the types of padded calls, if the file has it."""
    serving = stored.serving
    if serving.document is None:
        return None
    constants = {constant.tensor: _array(constant, parts) for constant in serving.constants}
    program = read_model(serving.document, constants)
    inputs = {name: program.declared[name] for name in program.arguments}
    _require(inputs == stored.inputs, MODEL, "has another program than its code")
    return program


def _load_serving(stored: StoredModel, can_pad: bool) -> Serving:
    known = {*stored.serving.buckets, *stored.serving.pads} <= set(stored.free)
    _require(known, MODEL, "serves sizes that are not free")
    buckets = {name: Buckets(*sizes) for name, sizes in stored.serving.buckets.items()}
    pads = frozenset(stored.serving.pads) if can_pad else frozenset[str]()
    return Serving(buckets, pads, pads.intersection(stored.serving.adapts), builds=False)


def _store_constants(constants: Constants, parts: dict[str, bytes]) -> tuple[StoredConstant, ...]:
    """Describes the constants, and adds their bytes to `parts`."""
    return tuple(
        StoredConstant(name, str(dtype(array.dtype)), array.shape, _part(np.ascontiguousarray(array).tobytes(), parts))
        for name, array in constants.items()
    )


def _part(data: bytes, parts: dict[str, bytes]) -> str:
    """Adds the bytes to `parts` under a name made from their hash, and returns the name."""
    name = f"parts/{hashlib.sha256(data).hexdigest()}"
    parts[name] = data
    return name


def _load_variant(stored: StoredVariant, model: StoredModel, parts: FileParts, only_recipe: bool) -> LoadedVariant:
    """A variant read from the parts of a file, after checks that the parts agree with each other."""
    recipe = from_json(parts[stored.artifact], Recipe if only_recipe else Artifact)
    graph, _ = load(recipe.tiny)
    bound = BoundModel(
        graph,
        {constant.tensor: _array(constant, parts) for constant in stored.constants},
        stored.results,
        stored.notes,
        model.frontend,
        stored.lengths,
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
    """Raises EqsatError, MalformedGraph, unless the model's arguments agree with the graph's at these sizes."""
    _require(model.inputs.keys() == bound.arguments.keys(), MODEL, "has other arguments than the graph")
    own = {name: Length(one.symbol, dims.get(one.symbol, -1)) for name, one in bound.lengths.items()}
    _require(own == dict(bound.lengths), MODEL, "has lengths of other sizes")
    _require(bound.signature.keys() == {*bound.arguments, *own}, MODEL, "has lengths that the graph lacks")
    _require(set(model.free) <= dims.keys(), MODEL, "lacks the value of a free size")
    for name, info in model.inputs.items():
        type_ = bound.signature[name]
        _require(dtype(info.dtype) == type_.dtype, name, f"is {info.dtype} in the model, {type_.dtype} in the graph")
    wanted = {name: info.shape for name, info in model.inputs.items()}
    match_shapes(wanted, {name: type_.shape for name, type_ in bound.arguments.items()}, dims)


def _sizes(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in dims.items())


def _require(holds: bool, at: str, message: str) -> None:
    if not holds:
        fail(Kind.MALFORMED_GRAPH, "load", f"{at} {message}", at=at)


def _refuse(path: Path, message: str, diagnostic: Diagnostic | None = None) -> NoReturn:
    details = {"part": diagnostic.at} if diagnostic is not None and diagnostic.at else {}
    fail(Kind.MALFORMED_GRAPH, "load", f"the file {message}", at=str(path), hint=_AGAIN, **details)
