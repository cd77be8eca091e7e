"""Attributes that Tiny text leaves out, because the id or the stated type says them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ir.tiny.node import Node, Ref, StatedType
from ir.uop.args import Arg, ArgKind
from ir.uop.table import UOp

_SHAPES = ("shape", "result_shape")


def fill_arg(op: UOp, arg: Mapping[str, Any], ref: Ref, stated: StatedType | None) -> dict[str, Any]:
    """The attributes with those that may be left out. The shape and the dtype of the result are those of its stated
    type; of a uop without operands, so are the names of its axes. The tensor of an INPUT has the id of the uop."""
    known = dict(arg)
    if "tensor_id" in op.args:
        known.setdefault("tensor_id", ref)
    if stated is None:
        return known
    for key, spec in op.args.items():
        if spec.required and spec.kind is ArgKind.DTYPE:
            known.setdefault(key, stated.dtype)
        elif spec.required and key in _SHAPES:
            known.setdefault(key, stated.shape)
    if op.arity == 0 and "names" in op.args and any(stated.names):
        known.setdefault("names", stated.names)
    return known


def shorten_arg(node: Node, stated: StatedType | None) -> Arg:
    """The attributes that text shows: without those that `fill_arg` finds again."""
    kept = dict(node.arg)
    for key in node.arg:
        fewer = {name: value for name, value in kept.items() if name != key}
        if Arg(fill_arg(node.op, fewer, node.id, stated)) == node.arg:
            kept = fewer
    return Arg(kept)


def type_of_source(node: Node) -> StatedType | None:
    """The type that the attributes of a uop without operands state; None of other uops."""
    if node.op.arity or not {"shape", "dtype"} <= node.arg.keys():
        return None
    shape = node.arg["shape"]
    names = node.arg.get("names", (None,) * len(shape))
    return StatedType(node.arg["dtype"], shape, names) if len(names) == len(shape) else None
