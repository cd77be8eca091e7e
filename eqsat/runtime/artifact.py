"""An optimized program as data, which the disk cache keeps and `Program.save` writes."""

from __future__ import annotations

from typing import Any

import msgspec

from eqsat.extraction.selection import Selection
from eqsat.options import Options
from eqsat.runtime.kernel_term import KernelTerm
from eqsat.runtime.stats import Stats
from ir.module.launch import UNBOUND, LaunchTable
from ir.module.module import Module
from ir.pricer import Price
from ir.serde import digest_of
from ir.target import Target


class Recipe(msgspec.Struct, frozen=True):
    """An optimized program before its texts are written. Names of the model and constants are not part of it.

    tiny: the bound graph's JSON. prices, selections, terms: one per run-time call. parts: for each of these calls, the
    number of the part of the program that it belongs to (`eqsat.looping.parts`).
    """

    target: Target
    options: Options
    tiny: dict[str, Any]
    module: Module
    prices: tuple[Price, ...]
    selections: tuple[Selection, ...]
    terms: tuple[KernelTerm, ...]
    parts: tuple[int, ...]
    stats: Stats


class Artifact(Recipe, frozen=True):
    """An optimized program with its texts, but without names of the model, constants and machine code.

    units: the texts to compile, by name; kernels: the text of each kernel, by function name. contract: the hash from
    `contract_of`; the texts of a CPU program contain it, so the machine code contains it too.
    """

    table: LaunchTable
    units: dict[str, str]
    kernels: dict[str, str]
    contract: str = UNBOUND


def seal(artifact: Artifact) -> Artifact:
    """The artifact with its contract filled in, also in its texts."""
    contract = contract_of(artifact)
    units = {name: text.replace(artifact.contract, contract) for name, text in artifact.units.items()}
    return msgspec.structs.replace(artifact, units=units, contract=contract)


def contract_of(artifact: Artifact) -> str:
    """SHA-256 of all that the machine code relies on: graph, module, launches and texts.

    Parts of an artifact belong to one program if their contracts agree. Prices and times are for people only, so they
    are left out."""
    units = {name: text.replace(artifact.contract, UNBOUND) for name, text in artifact.units.items()}
    arch, exactness = artifact.target.arch, str(artifact.options.exactness)
    parts = (arch, exactness, artifact.tiny, artifact.module, artifact.table, units, artifact.kernels)
    return digest_of(parts)
