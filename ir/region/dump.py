"""The JSON of a region, with the names of seed 000 §6: `let`, `op`, `pattern`, `lhs`, `rhs`, `acc_dtype`, `yield`.

A read is {"value", "map"}; the seeds write the value alone. The maps hold broadcast and padding, and their text is
canonical. `load_region(dump_region(r)) == r`, with or without patterns, since patterns follow from the maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ir.diagnostics import Kind, fail
from ir.index.map import AxisMap, parse_map
from ir.region.region import STAGE, Buffer, Definition, Number, Op, Operand, Region, Yield
from ir.serde import to_builtins

Json = dict[str, Any]
MATERIALIZE = "gmem"
"""Where every output of a region goes, in seed 000 §6's word: a reader in another kernel takes it from memory."""


def dump_region(region: Region, patterns: Mapping[str, str] | None = None) -> Json:
    """The region as JSON objects. `patterns`: contraction → "matmul" or "conv", as Poly-View classifies it."""
    places = [None if written.at is None else str(written.at) for written in region.yields]
    return {
        "name": region.name,
        "inputs": [_dump_buffer(buffer) for buffer in region.inputs],
        "outputs": [{**_dump_buffer(buffer), "materialize": MATERIALIZE} for buffer in region.outputs],
        "body": [
            *({"let": let.name, "op": _dump_op(let.op, (patterns or {}).get(let.name))} for let in region.body),
            {"yield": [f"{written.value} -> {written.buffer}" for written in region.yields]},
        ],
        "yield_maps": [str(written.map) for written in region.yields],
        **({"yield_places": places} if any(places) else {}),
    }


def load_region(record: Mapping[str, Any]) -> Region:
    """The inverse of `dump_region`. Raises EqsatError (MalformedGraph) for objects of another form."""
    try:
        *lets, ends = record["body"]
        maps = list(map(parse_map, record["yield_maps"]))
        places = record.get("yield_places") or [None] * len(maps)
        return Region(
            name=record["name"],
            inputs=tuple(msgspec.convert(buffer, Buffer) for buffer in record["inputs"]),
            outputs=tuple(msgspec.convert(buffer, Buffer) for buffer in record["outputs"]),
            body=tuple(Definition(let["let"], _load_op(let["op"])) for let in lets),
            yields=tuple(_load_yield(*parts) for parts in zip(ends["yield"], maps, places, strict=True)),
        )
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError) as error:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"not the JSON of a region: {error}")


def _dump_buffer(buffer: Buffer) -> Json:
    record: Json = {"name": buffer.name, "memref": to_builtins(buffer.memref)}
    return record | {mark: True for mark in ("constant", "cold") if getattr(buffer, mark)}


def _load_yield(text: str, view: AxisMap, at: str | None) -> Yield:
    value, _, buffer = text.partition(" -> ")
    return Yield(value, buffer, view, None if at is None else parse_map(at))


def _dump_op(op: Op, pattern: str | None) -> Json:
    if op.kind == "contraction":
        lhs, rhs = map(_dump_operand, op.inputs)
        head: Json = {"kind": op.kind, "pattern": pattern, "fn": op.fn, "lhs": lhs, "rhs": rhs, "acc_dtype": op.dtype}
    else:
        inputs = [_dump_operand(operand) for operand in op.inputs]
        head = {"kind": op.kind, "fn": op.fn, "inputs": inputs, "dtype": op.dtype}
    optional = {
        "domain": list(op.domain),
        "reduced": op.reduced or None,
        "axis": op.axis,
        "index_map": None if op.index_map is None else str(op.index_map),
    }
    return {key: value for key, value in {**head, **optional}.items() if value is not None}


def _load_op(record: Json) -> Op:
    contraction = record["kind"] == "contraction"
    operands = [record["lhs"], record["rhs"]] if contraction else record["inputs"]
    index_map = record.get("index_map")
    return Op(
        kind=record["kind"],
        fn=record["fn"],
        dtype=record["acc_dtype" if contraction else "dtype"],
        domain=tuple(record["domain"]),
        inputs=tuple(map(_load_operand, operands)),
        reduced=record.get("reduced", 0),
        axis=record.get("axis"),
        index_map=None if index_map is None else parse_map(index_map),
    )


def _dump_operand(operand: Operand | Number) -> Json:
    if isinstance(operand, Operand):
        return {"value": operand.value, "map": str(operand.map)}
    return {"number": operand.number, "dtype": operand.dtype}


def _load_operand(record: Json) -> Operand | Number:
    if "value" in record:
        view: AxisMap = parse_map(record["map"])
        return Operand(record["value"], view)
    return Number(record["number"], record["dtype"])
