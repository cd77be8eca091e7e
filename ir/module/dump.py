"""The JSON of a module: its distinct regions in the form of `ir.region.dump`, and calls that name them.

`load_module(dump_module(m)) == m`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ir.diagnostics import Kind, fail
from ir.module.loop import Loop
from ir.module.module import STAGE, KernelCall, Module, Slot
from ir.region.dump import dump_region, load_region
from ir.serde import to_builtins


def dump_module(module: Module, patterns: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, Any]:
    """The module as JSON objects. `patterns`: region → its contractions → "matmul" or "conv"."""
    return {
        "name": module.name,
        "inputs": list(module.inputs),
        "outputs": [list(output) for output in module.outputs],
        "arena_bytes": module.arena_bytes,
        **({"loops": to_builtins(module.loops)} if module.loops else {}),
        "slots": [_dump_slot(slot) for slot in module.slots],
        "calls": [{**to_builtins(call), "region": call.region.name} for call in module.calls],
        "regions": [dump_region(region, (patterns or {}).get(region.name)) for region in module.regions],
    }


def _dump_slot(slot: Slot) -> dict[str, Any]:
    """A row-major slot has no key `order`."""
    return {name: value for name, value in to_builtins(slot).items() if name != "order" or value is not None}


def load_module(record: Mapping[str, Any]) -> Module:
    """The inverse of `dump_module`. Raises EqsatError (MalformedGraph) for objects of another form."""
    try:
        regions = {region["name"]: load_region(region) for region in record["regions"]}
        calls = ({**call, "region": regions[call["region"]]} for call in record["calls"])
        return Module(
            name=record["name"],
            slots=tuple(msgspec.convert(slot, Slot) for slot in record["slots"]),
            calls=tuple(msgspec.convert(call, KernelCall) for call in calls),
            inputs=tuple(record["inputs"]),
            outputs=tuple((name, slot) for name, slot in record["outputs"]),
            arena_bytes=record["arena_bytes"],
            loops=msgspec.convert(record.get("loops", ()), tuple[Loop, ...]),
        )
    except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"not the JSON of a module: {error}")
