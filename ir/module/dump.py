"""The JSON of a module: its regions once each, in the form of `ir.region.dump`, and calls that name them.

`load_module(dump_module(m)) == m`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ir.diagnostics import Kind, fail
from ir.module.module import STAGE, KernelCall, Module, Slot
from ir.region.dump import dump_region, load_region
from ir.serde import to_builtins


def dump_module(module: Module, patterns: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, Any]:
    """The module as JSON objects. `patterns`: region → what each of its contractions is."""
    return {
        "name": module.name,
        "inputs": list(module.inputs),
        "outputs": [list(each) for each in module.outputs],
        "arena_bytes": module.arena_bytes,
        "slots": [_dump_slot(each) for each in module.slots],
        "calls": [{**to_builtins(each), "region": each.region.name} for each in module.calls],
        "regions": [dump_region(each, (patterns or {}).get(each.name)) for each in module.regions],
    }


def _dump_slot(slot: Slot) -> dict[str, Any]:
    """Its order stands there only where it is not row-major."""
    return {name: value for name, value in to_builtins(slot).items() if name != "order" or value is not None}


def load_module(record: Mapping[str, Any]) -> Module:
    """The module of such objects. Raises EqsatError (MalformedGraph) where they are none."""
    try:
        regions = {each["name"]: load_region(each) for each in record["regions"]}
        calls = ({**each, "region": regions[each["region"]]} for each in record["calls"])
        return Module(
            name=record["name"],
            slots=tuple(msgspec.convert(each, Slot) for each in record["slots"]),
            calls=tuple(msgspec.convert(each, KernelCall) for each in calls),
            inputs=tuple(record["inputs"]),
            outputs=tuple((name, slot) for name, slot in record["outputs"]),
            arena_bytes=record["arena_bytes"],
        )
    except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"not the JSON of a module: {error}")
