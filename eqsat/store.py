"""Programs on disk: one zip file with the artifact, the constants that it reads, and the machine code.

`load` checks every part against the SHA-256 in the manifest before it uses any.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np

from eqsat.artifact import Artifact
from eqsat.compiled import Compiled
from ir.atomic_file import write_atomically
from ir.diagnostics import Kind, fail
from ir.dtype import dtype
from ir.serde import from_json, to_json

FORMAT = 1
MANIFEST, ARTIFACT, CODE = "manifest.json", "artifact.json", "kernels.so"
CONSTANTS = "constants/"


class Stored(msgspec.Struct, frozen=True):
    """What a file holds: the artifact, the constants by tensor_id, the shared object's bytes, and the instruction
    sets that it uses."""

    artifact: Artifact
    constants: dict[str, np.ndarray]
    code: bytes
    features: tuple[str, ...]


def save(compiled: Compiled, path: Path) -> None:
    """Write the program to `path`, atomically."""
    constants = compiled.bound.constants
    parts = {ARTIFACT: to_json(compiled.artifact).encode(), CODE: compiled.library.path.read_bytes()}
    parts |= {
        f"{CONSTANTS}{number}": np.ascontiguousarray(each).tobytes() for number, each in enumerate(constants.values())
    }
    manifest = {
        "format": FORMAT,
        "features": compiled.features,
        "constants": [[name, str(dtype(each.dtype)), each.shape] for name, each in constants.items()],
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()},
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest, indent=2))
        for name, data in parts.items():
            archive.writestr(name, data)
    write_atomically(path, file.getvalue())


def read(path: Path) -> Stored:
    """The program in the file.

    Raises:
        EqsatError: MalformedGraph for a file that is missing, damaged, or of another version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read(MANIFEST))
            parts = {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        _damaged(path, f"is no saved program: {error}")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        _damaged(path, "was saved by another version of eqsat")
    try:
        return _checked(path, manifest, parts)
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
        _damaged(path, f"is damaged: {error}")


def _checked(path: Path, manifest: dict[str, Any], parts: dict[str, bytes]) -> Stored:
    for name, digest in manifest["sha256"].items():
        if hashlib.sha256(parts[name]).hexdigest() != digest:
            _damaged(path, f"is damaged: {name} does not match its checksum")
    constants = {
        name: np.frombuffer(parts[f"{CONSTANTS}{number}"], dtype(element).numpy).reshape(shape)
        for number, (name, element, shape) in enumerate(manifest["constants"])
    }
    return Stored(from_json(parts[ARTIFACT], Artifact), constants, parts[CODE], tuple(manifest["features"]))


def _damaged(path: Path, message: str) -> NoReturn:
    fail(Kind.MALFORMED_GRAPH, "load", f"the file {message}", at=str(path), hint="save the program again")
