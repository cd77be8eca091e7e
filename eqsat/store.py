"""Programs on disk: one zip file with the artifact, the model's names and constants, and the machine code.

`read` checks every part against the SHA-256 in the manifest before it uses any.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import msgspec
import numpy as np

from eqsat.artifact import Artifact
from eqsat.compiled import Compiled
from eqsat.model import BoundModel
from ir.atomic_file import write_atomically
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.dtype import dtype
from ir.frontend import FrontendGraph
from ir.serde import from_json, to_json
from ir.tiny_bind import load

FORMAT = 1
SIGNATURE = b"PK\x03\x04"
"""How a zip file with something in it begins."""

MANIFEST, MODEL, ARTIFACT, CODE = "manifest.json", "model.json", "artifact.json", "kernels.so"
CONSTANT = "constants/{}"


class Names(msgspec.Struct, frozen=True):
    """What a bound model says beyond its graph: the results' names, the notes, the Frontend graph, and of each
    constant the tensor_id, dtype and shape."""

    results: tuple[str, ...]
    notes: tuple[Diagnostic, ...]
    frontend: FrontendGraph | None
    constants: tuple[tuple[str, str, tuple[int, ...]], ...]


class Stored(msgspec.Struct, frozen=True):
    """What a file holds: the artifact, the model, the shared object's bytes, and the instruction sets it uses."""

    artifact: Artifact
    bound: BoundModel
    code: bytes
    features: tuple[str, ...]


def save(compiled: Compiled, path: Path) -> None:
    """Write the program to `path`, atomically.

    Raises:
        EqsatError: InputMismatch where the file cannot be written.
    """
    bound = compiled.bound
    described = tuple((name, str(dtype(each.dtype)), each.shape) for name, each in bound.constants.items())
    parts = {
        MODEL: to_json(Names(bound.results, compiled.notes, bound.frontend, described)).encode(),
        ARTIFACT: to_json(compiled.artifact).encode(),
        CODE: compiled.library.path.read_bytes(),
    }
    for number, each in enumerate(bound.constants.values()):
        parts[CONSTANT.format(number)] = np.ascontiguousarray(each).tobytes()
    manifest = {
        "format": FORMAT,
        "features": compiled.features,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()},
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest, indent=2))
        for name, data in parts.items():
            archive.writestr(name, data)
    try:
        write_atomically(path, file.getvalue())
    except OSError as error:
        fail(Kind.INPUT_MISMATCH, "save", f"cannot write the file: {error}", at=str(path))


def is_saved(path: Path) -> bool:
    """Whether the file looks like one that `save` wrote, whatever it is called."""
    try:
        with path.open("rb") as file:
            return file.read(len(SIGNATURE)) == SIGNATURE
    except OSError:
        return False


def read(path: Path) -> Stored:
    """The program in the file.

    Raises:
        EqsatError: MalformedGraph for a file that is missing, damaged, or of another version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        manifest = json.loads(parts[MANIFEST])
        if manifest["format"] != FORMAT:
            _refuse(path, f"has format {manifest['format']!r}, this version of eqsat reads format {FORMAT}")
        for name, digest in manifest["sha256"].items():
            if hashlib.sha256(parts[name]).hexdigest() != digest:
                _refuse(path, f"is damaged: {name} does not match its checksum")
        artifact = from_json(parts[ARTIFACT], Artifact)
        return Stored(artifact, _bound(artifact, parts), parts[CODE], tuple(manifest["features"]))
    except EqsatError:
        raise
    except OSError as error:
        _refuse(path, f"cannot be read: {error}")
    except Exception as error:  # a damaged zip file, JSON text or noun fails in many ways
        _refuse(path, f"is no saved program: {type(error).__name__} {error}")


def _bound(artifact: Artifact, parts: Mapping[str, bytes]) -> BoundModel:
    names = from_json(parts[MODEL], Names)
    graph, _ = load(artifact.tiny)
    constants = {
        name: np.frombuffer(parts[CONSTANT.format(number)], dtype(element).numpy).reshape(shape)
        for number, (name, element, shape) in enumerate(names.constants)
    }
    return BoundModel(graph, constants, names.results, names.notes, names.frontend)


def _refuse(path: Path, message: str) -> NoReturn:
    fail(Kind.MALFORMED_GRAPH, "load", f"the file {message}", at=str(path), hint="save the program again")
