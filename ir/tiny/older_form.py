"""Reads the older form of Tiny IR, {"ops": […]} of seed 000 §3, as {"uops": […]}.

The older form names values instead of nodes, so a `tensors` table must state the dtype and shape of every input. A
reduction states no dtype: it gets the table's dtype of the result, or else fp32 with a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeGuard

from ir.diagnostics import Diagnostic, Kind, fail, note

STAGE = "tiny"

_FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {"div": "FDIV", "lt": "CMPLT", "le": "CMPLE", "gt": "CMPGT", "ge": "CMPGE", "eq": "CMPEQ", "ne": "CMPNE"}
)
_MOVEMENTS: Mapping[str, str] = MappingProxyType({"slice": "SHRINK", "transpose": "PERMUTE"})
_ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {
        "new_shape": "result_shape",
        "dims": "perm",
        "starts": "lo",
        "ends": "hi",
        "steps": "step",
        "pads": "pad",
    }
)


def read_dump(document: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Diagnostic, ...]]:
    """The same program as {"uops": […]}; the name of a value becomes the id of its node."""
    tensors = document.get("tensors")
    if not isinstance(tensors, Mapping):
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            "an {ops} dump does not state the types of its inputs",
            hint='add "tensors": {"Q": {"dtype": "fp16", "shape": [2, 8]}, …}',
        )
    operations = document["ops"]
    if not isinstance(operations, (list, tuple)) or not all(isinstance(operation, Mapping) for operation in operations):
        fail(Kind.MALFORMED_GRAPH, STAGE, "`ops` must be a list of objects")
    notes: list[Diagnostic] = []
    uops = [_uop(operation, tensors, notes) for operation in operations]
    computed = {uop["id"] for uop in uops}
    read = dict.fromkeys(ref for uop in uops for ref in uop["src"] if isinstance(ref, str))
    inputs = [_input(ref, tensors[ref]) for ref in read if ref not in computed and ref in tensors]
    rest = {key: value for key, value in document.items() if key not in ("ops", "tensors")}
    return {**rest, "uops": inputs + uops}, tuple(notes)


def _input(name: str, declared: object) -> dict[str, Any]:
    if not isinstance(declared, Mapping):
        fail(Kind.MALFORMED_GRAPH, STAGE, "a tensor is declared by its dtype and shape", at=name)
    return {"id": name, "uop": "INPUT", "arg": {"tensor_id": name, **declared}}


def _uop(operation: Mapping[str, Any], tensors: Mapping[str, Any], notes: list[Diagnostic]) -> dict[str, Any]:
    outputs, inputs = operation.get("outputs"), operation.get("inputs")
    label = str(operation.get("name", operation.get("op")))
    if not isinstance(inputs, (list, tuple)) or not _is_one_name(outputs):
        fail(Kind.MALFORMED_GRAPH, STAGE, "an op has a list of inputs and one output", at=label)
    attributes = operation.get("attrs") or {}
    if not isinstance(attributes, Mapping):
        fail(Kind.MALFORMED_GRAPH, STAGE, "`attrs` is an object", at=label)
    arg = {_ATTRIBUTES.get(key, key): value for key, value in attributes.items()}
    function = str(operation.get("fn") or operation.get("kind") or "").lower()
    match operation.get("op"):
        case "Movement":
            uop = _MOVEMENTS.get(function, function.upper())
        case "Unary" | "Binary" | "Ternary":
            uop = _FUNCTIONS.get(function, function.upper())
        case "Cast":
            uop = "CAST"
        case "Reduce":
            uop = "REDUCE"
            arg |= {"op": function.upper(), "axes": operation.get("axes", arg.get("axes"))}
            arg.setdefault("dtype", _sum_dtype(outputs[0], tensors, notes))
        case other:
            fail(
                Kind.UNKNOWN_UOP,
                STAGE,
                f"there is no op {other!r}",
                at=label,
                hint="Movement, Unary, Binary, Ternary, Cast, Reduce",
            )
    return {"id": outputs[0], "uop": uop, "src": list(inputs), "arg": arg, "tag": operation.get("name")}


def _is_one_name(outputs: object) -> TypeGuard[Sequence[str]]:
    return isinstance(outputs, (list, tuple)) and len(outputs) == 1 and isinstance(outputs[0], str)


def _sum_dtype(name: object, tensors: Mapping[str, Any], notes: list[Diagnostic]) -> object:
    declared = tensors.get(name) if isinstance(name, str) else None
    if isinstance(declared, Mapping) and "dtype" in declared:
        return declared["dtype"]
    notes.append(note(Kind.ACC_DTYPE_MISSING, STAGE, "the reduction states no dtype: fp32", at=str(name)))
    return "fp32"
