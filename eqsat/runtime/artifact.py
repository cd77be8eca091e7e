"""An optimized program as data, which the disk cache keeps and `Program.save` writes.

A cached file is JSON below its checksum (`ir.checked_file`); whatever does not match is made again.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from eqsat.extraction.kernel_term import KernelTerm
from eqsat.extraction.selection import Selection
from eqsat.model import BoundModel
from eqsat.options import Options
from eqsat.runtime.stats import Stats
from ir.checked_file import read_checked, write_checked
from ir.diagnostics import Diagnostic, EqsatError, Kind, Severity, note
from ir.launch import LaunchTable
from ir.module import Module
from ir.pricer import Price
from ir.serde import from_json, to_json
from ir.target import Target

PACKAGES = ("ir", "rules", "eqsat", "codegen")


class Artifact(msgspec.Struct, frozen=True):
    """Everything but the model's own names, the constants and the machine code.

    tiny: the bound graph's JSON. prices, selections, terms: one per run-time call. units: the texts to compile by name;
    kernels: the text of each kernel by function name.
    """

    target: Target
    options: Options
    tiny: dict[str, Any]
    module: Module
    prices: tuple[Price, ...]
    selections: tuple[Selection, ...]
    terms: tuple[KernelTerm, ...]
    table: LaunchTable
    units: dict[str, str]
    kernels: dict[str, str]
    stats: Stats


def key_of(bound: BoundModel, target: Target, options: Options, measured: str = "") -> str:
    """What an artifact depends on: the graph, which inputs are constants, the target, the options, our own text, and
    what its plans were corrected by (`measured`: a compiler's report, or a device)."""
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
        for path in sorted((home / package).rglob("*.[ph]*")):
            if path.suffix in (".py", ".h"):
                digest.update(f"{path.relative_to(home)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def recall(path: Path, make: Callable[[], Artifact]) -> tuple[Artifact, tuple[Diagnostic, ...]]:
    """The artifact stored at `path`, else what `make` returns, stored there for the next run; and what was amiss: a
    file that was damaged, or one that cannot be written."""
    notes = []
    try:
        return from_json(read_checked(path), Artifact), ()
    except FileNotFoundError:
        pass
    except (OSError, ValueError, EqsatError) as error:
        notes.append(_warning(f"a stored program was unusable and has been made again: {error}", path))
    made = make()
    try:
        write_checked(path, to_json(made).encode())
    except OSError as error:
        notes.append(_warning(f"the program cannot be kept for the next run: {error}", path))
    return made, tuple(notes)


def _warning(message: str, path: Path) -> Diagnostic:
    return note(Kind.INPUT_MISMATCH, "cache", message, at=path.name, severity=Severity.WARNING, folder=str(path.parent))
