"""Optimized programs on disk, as JSON below a checksum (`ir.host.checked_file`); an unusable file is made again."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from eqsat.model import BoundModel
from eqsat.options import Options
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.artifact_verify import verify
from ir.diagnostics import Diagnostic, Kind, Severity, note
from ir.host.checked_file import read_checked, write_checked
from ir.serde import from_json, to_json
from ir.target import Target

PACKAGES = ("ir", "rules", "eqsat", "codegen")


def key_of(bound: BoundModel, target: Target, options: Options, measured: str = "") -> str:
    """Hash of all that an artifact depends on: the graph, the names of the constants, the target, the options, our own
    text, and `measured`, the source of corrections to its plans: a compiler's report, or a device."""
    parts = {
        "eqsat": source_digest(),
        "graph": bound.graph.to_json(),
        "constants": sorted(bound.constants),
        "target": msgspec.to_builtins(target),
        "options": msgspec.to_builtins(options),
        "measured": measured,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@functools.cache
def source_digest() -> str:
    """SHA-256 of the text of eqsat itself, so that a changed rule or emitter never meets an old artifact."""
    home = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for package in PACKAGES:
        for folder, folders, names in os.walk(home / package):  # half the time of Path.rglob and Path.read_bytes
            folders.sort()
            for name in sorted(name for name in names if name.endswith((".py", ".h"))):
                path = os.path.join(folder, name)
                with open(path, "rb", buffering=0) as file:
                    digest.update(os.path.relpath(path, home).encode() + b"\0" + file.read())
    return digest.hexdigest()


def recall(path: Path, bound: BoundModel, make: Callable[[], Artifact]) -> tuple[Artifact, tuple[Diagnostic, ...]]:
    """The artifact stored at `path`; if there is none, or it is unusable, the result of `make`, which is then stored.
    Also warnings about a damaged file, or a file that cannot be written."""
    notes = []
    try:
        artifact = from_json(read_checked(path), Artifact)
        verify(artifact, bound)  # the key covers graph and source, so the parts fit
        return artifact, ()
    except FileNotFoundError:
        pass
    except Exception as error:  # bytes that are no artifact fail in many ways
        notes.append(_warning(f"a stored program was unusable and has been made again: {error}", path))
    artifact = make()
    try:
        write_checked(path, to_json(artifact).encode())
    except OSError as error:
        notes.append(_warning(f"the program cannot be kept for the next run: {error}", path))
    return artifact, tuple(notes)


def _warning(message: str, path: Path) -> Diagnostic:
    return note(Kind.INPUT_MISMATCH, "cache", message, at=path.name, severity=Severity.WARNING, folder=str(path.parent))
