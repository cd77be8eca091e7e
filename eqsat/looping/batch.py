"""A uop in a loop → the uop over all trips at once: its values get a first axis of trips.

before   %y = reduce(%p, axes=[1], op=SUM)           %p: fp32[8, 4] in every trip
after    %y = reduce(%p, axes=[2], op=SUM)           %p: fp32[trips, 8, 4]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ir.tiny.graph import Node
from ir.uop.args import Arg
from ir.uop.table import UOpKind

_AXIS = re.compile(r"\bi(\d+)\b")


def can_batch(node: Node) -> bool:
    """Whether the uop exists over all trips at once. A lookup does not: its table would be repeated."""
    return node.op.kind not in (UOpKind.GATHER, UOpKind.LOOP)


def batched_arg(node: Node, trips: int) -> Arg:
    """The attributes of the uop over all trips."""
    change = _CHANGES.get(node.uop) or _BY_KIND.get(node.op.kind)
    return node.arg if change is None else node.arg.with_(names=None, **change(node.arg, trips))


def _more_axes(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis + 1 for axis in axes)


def _shape(arg: Arg, trips: int) -> dict[str, Any]:
    return {"result_shape": (trips, *arg["result_shape"])}


def _expand(arg: Arg, trips: int) -> dict[str, Any]:
    return {**_shape(arg, trips), "broadcast_dimensions": None}


def _shrink(arg: Arg, trips: int) -> dict[str, Any]:
    step = {"step": (1, *arg["step"])} if "step" in arg else {}
    return {"lo": (0, *arg["lo"]), "hi": (trips, *arg["hi"]), **step}


def _view(arg: Arg, trips: int) -> dict[str, Any]:
    moved = (_AXIS.sub(lambda match: f"i{int(match[1]) + 1}", text) for text in arg["index_map"])
    return {**_shape(arg, trips), "index_map": ("i0", *moved)}


_CHANGES: Mapping[str, Callable[[Arg, int], dict[str, Any]]] = {
    "RESHAPE": _shape,
    "EXPAND": _expand,
    "PERMUTE": lambda arg, trips: {"perm": (0, *_more_axes(arg["perm"]))},
    "PAD": lambda arg, trips: {"pad": ((0, 0), *arg["pad"])},
    "SHRINK": _shrink,
    "FLIP": lambda arg, trips: {"axes": _more_axes(arg["axes"])},
    "VIEW": _view,
    "REDUCE": lambda arg, trips: {"axes": _more_axes(arg["axes"])},
}
_BY_KIND: Mapping[UOpKind, Callable[[Arg, int], dict[str, Any]]] = dict.fromkeys(
    (UOpKind.SCAN, UOpKind.SCATTER), lambda arg, trips: {"axis": arg["axis"] + 1}
)
