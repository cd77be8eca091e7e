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
from ir.diagnostics import Diagnostic, Kind, Severity, note
from ir.launch import UNBOUND, LaunchTable
from ir.module import Module
from ir.pricer import Price
from ir.serde import from_json, to_builtins, to_json
from ir.target import Target

PACKAGES = ("ir", "rules", "eqsat", "codegen")


class Recipe(msgspec.Struct, frozen=True):
    """What an optimized program is, before any text of it is written; the model's own names and the constants aside.

    tiny: the bound graph's JSON. prices, selections, terms: one per run-time call.
    """

    target: Target
    options: Options
    tiny: dict[str, Any]
    module: Module
    prices: tuple[Price, ...]
    selections: tuple[Selection, ...]
    terms: tuple[KernelTerm, ...]
    stats: Stats


class Artifact(Recipe, frozen=True):
    """Everything but the model's own names, the constants and the machine code.

    units: the texts to compile by name; kernels: the text of each kernel by function name. contract: `contract_of` all
    this, which the texts of a CPU's program name, and so does the machine code that is made of them.
    """

    table: LaunchTable
    units: dict[str, str]
    kernels: dict[str, str]
    contract: str = UNBOUND


def sealed(found: Artifact) -> Artifact:
    """The artifact with its contract, in its texts too."""
    contract = contract_of(found)
    units = {name: text.replace(found.contract, contract) for name, text in found.units.items()}
    return msgspec.structs.replace(found, units=units, contract=contract)


def contract_of(found: Artifact) -> str:
    """SHA-256 of all that machine code takes for granted, the graph and the texts included.

    It tells whether the parts of an artifact are of one program. Prices and times are for people, and no part of it."""
    units = {name: text.replace(found.contract, UNBOUND) for name, text in found.units.items()}
    arch, exactness = found.target.arch, str(found.options.exactness)
    parts = (arch, exactness, found.tiny, found.module, found.table, units, found.kernels)
    return hashlib.sha256(json.dumps(to_builtins(parts), sort_keys=True).encode()).hexdigest()


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


def recall(path: Path, bound: BoundModel, make: Callable[[], Artifact]) -> tuple[Artifact, tuple[Diagnostic, ...]]:
    """The artifact of a model that is stored at `path`, else what `make` returns, stored there for the next run; and
    what was amiss: a file that was damaged, or one that cannot be written."""
    from eqsat.runtime.artifact_verify import verify

    notes = []
    try:
        found = from_json(read_checked(path), Artifact)
        verify(found, bound)
        return found, ()
    except FileNotFoundError:
        pass
    except Exception as error:  # what is no artifact fails in many ways
        notes.append(_warning(f"a stored program was unusable and has been made again: {error}", path))
    made = make()
    try:
        write_checked(path, to_json(made).encode())
    except OSError as error:
        notes.append(_warning(f"the program cannot be kept for the next run: {error}", path))
    return made, tuple(notes)


def _warning(message: str, path: Path) -> Diagnostic:
    return note(Kind.INPUT_MISMATCH, "cache", message, at=path.name, severity=Severity.WARNING, folder=str(path.parent))
