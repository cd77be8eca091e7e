"""An optimized program as data, which the disk cache keeps and `Program.save` writes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from eqsat.extraction.kernel_term import KernelTerm
from eqsat.extraction.selection import Selection
from eqsat.options import Options
from eqsat.runtime.stats import Stats
from ir.module.launch import UNBOUND, LaunchTable
from ir.module.module import Module
from ir.pricer import Price
from ir.serde import to_builtins
from ir.target import Target


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
