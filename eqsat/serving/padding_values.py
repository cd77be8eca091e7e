"""The values behind the ends of padded axes, as far as they are known: what a reduction would combine.

An axis that is longer than the program's own has *padded positions*. The known value of an axis is that of all its
padded positions, wherever they are on the other axes. Arguments are padded with zeros.

A known value may be *soft*: it is the value, or NaN where all elements of the same row that are no padding are NaN,
too, so that their sum is NaN in any case. A row has such elements, as sizes at which an axis has no element are not
padded. The weights of a softmax over scores with -∞ behind their end are softly 0:

    x - max(x)     -∞ - m     NaN if m is NaN or -∞, where the whole row is NaN
    exp(…)         0
    e / Σe         0 / s      NaN if s is NaN or 0: a sum of exponentials is 0 if all are 0, and 0 / 0 is NaN
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ir.dtype import TensorType, is_widening
from ir.tiny.graph import Node, Ref, operand_types
from ir.tiny.graph_by_sizes import Value
from ir.tiny.node import Imm
from ir.uop.table import UOpKind
from ir.uop.types import axis_position


class Known(NamedTuple):
    """A known value of padded positions; soft: or NaN where the whole row is NaN."""

    value: Value
    soft: bool = False


Pads = Sequence[Sequence[int]]
"""Per axis how many elements a PAD puts before and behind."""
Padding = tuple[Known | None, ...]
"""Per axis the value of its padded positions; None where it is not known."""

_KEEPS_NAN = frozenset(["ADD", "SUB", "MUL", "FDIV", "QUOTIENT", "NEG", "EXP", "EXP2"])
"""Elementwise uops whose result is NaN wherever an operand is."""
_EXPONENTIALS = ("EXP", "EXP2")
_ODD = ("SIN", "TANH", "ERF")


class PaddingValues:
    """The known values of the values of a graph. nodes, types: of the graph, which may grow meanwhile."""

    def __init__(self, nodes: Mapping[Ref, Node], types: Mapping[Ref, TensorType]) -> None:
        self._nodes, self._types = nodes, types
        self._of: dict[Ref, Padding] = {}
        self._uniform: dict[Ref, Value] = {}

    def __getitem__(self, ref: Ref) -> Padding:
        return self._of.get(ref) or (None,) * self._types[ref].rank

    def __setitem__(self, ref: Ref, padding: Padding) -> None:
        self._of[ref] = padding

    def put(self, ref: Ref, axis: int, known: Known | None) -> None:
        """Sets the value of the padded positions of one axis."""
        self[ref] = tuple(known if place == axis else other for place, other in enumerate(self[ref]))

    def has(self, ref: Ref, axis: int, value: Value) -> bool:
        """Whether the padded positions of an axis are known to be `value`, which may be soft."""
        known = self[ref][axis]
        return known is not None and known.value == value

    def follow(self, ref: Ref) -> None:
        """Finds the known values of a uop from those of its operands."""
        node = self._nodes[ref]
        uniform = self._uniform_value(node)
        if uniform is not None:
            self._uniform[ref] = uniform
            self._of[ref] = (Known(uniform),) * self._types[ref].rank
            return
        rank = self._types[ref].rank
        match node.op.kind:
            case UOpKind.INPUT:
                self._of[ref] = (Known(0),) * rank
            case UOpKind.MOVEMENT:
                self._of[ref] = self._moved(node)
            case UOpKind.UNARY | UOpKind.BINARY | UOpKind.TERNARY | UOpKind.CAST:
                self._of[ref] = tuple(self._computed(node, axis) for axis in range(rank))
            case UOpKind.REDUCE:
                self._of[ref] = self._reduced(node)

    def _uniform_value(self, node: Node) -> Value | None:
        """The one value of all elements; None if there is none, or if it is not known."""
        if node.uop == "CAST" and isinstance(node.src[0], Imm):
            return node.src[0].value
        if node.uop in ("RESHAPE", "EXPAND", "PERMUTE"):
            return self._uniform.get(node.refs[0])
        return None

    def _moved(self, node: Node) -> Padding:
        (ref,), arg = node.refs, node.arg
        before, old, new = self[ref], self._types[ref].shape, self._types[node.id].shape
        match node.uop:
            case "PERMUTE":
                return tuple(before[axis] for axis in arg["perm"])
            case "EXPAND":
                return tuple(known if a == b else None for known, a, b in zip(before, old, new, strict=True))
            case "RESHAPE":
                return reshaped(before, old, new)
            case "FLIP" | "SHRINK":
                return before
            case "PAD":
                value, pads = arg.get("value", 0), arg["pad"]
                return tuple(_kept_by_pads(known, axis, pads, value) for axis, known in enumerate(before))
        return (None,) * len(new)

    def _reduced(self, node: Node) -> Padding:
        (ref,) = node.refs
        rank = self._types[ref].rank
        axes = {axis_position(axis, rank) for axis in node.arg["axes"]}
        kept = [self[ref][axis] for axis in range(rank) if axis not in axes]
        keeps = node.arg["op"] in ("MAX", "MIN") and "init" not in node.arg
        return tuple(
            known if known is not None and (keeps or (node.arg["op"] == "SUM" and known.value == 0)) else None
            for known in kept
        )

    def _computed(self, node: Node, axis: int) -> Known | None:
        """The value of the padded positions of an axis of an elementwise uop."""
        weight = self._softmax(node, axis)
        if weight is not None:
            return weight
        known = [Known(operand.value) if isinstance(operand, Imm) else self[operand][axis] for operand in node.src]
        if node.op.has_condition and known[0] is not None and not known[0].soft:
            chosen = known[1 if known[0].value else 2]
            return chosen if chosen is not None and not chosen.soft else None
        values = [one for one in known if one is not None]
        result = self._types[node.id]
        if len(values) < len(known):
            absorbs = not result.dtype.is_float and node.uop in ("MUL", "AND")
            return Known(0) if absorbs and any(not one.value for one in values) else None
        if node.op.approximate and not _is_exact(node, values[0].value):
            return None
        is_soft = any(one.soft for one in values)
        if is_soft and not (node.uop in _KEEPS_NAN or (node.uop == "CAST" and result.dtype.is_float)):
            return None
        return Known(_applied(node, [one.value for one in values], self._types), is_soft)

    def _softmax(self, node: Node, axis: int) -> Known | None:
        """The softly known value of x - max(x), where x is -∞, and of e / Σe and e·(1 / Σe), where e = exp(…) is 0."""
        if node.uop not in ("SUB", "FDIV", "MUL") or any(isinstance(operand, Imm) for operand in node.src):
            return None
        for x, row in (node.refs, node.refs[::-1]) if node.uop == "MUL" else (node.refs,):
            op, wanted = ("MAX", -math.inf) if node.uop == "SUB" else ("SUM", 0)
            known = self[x][axis]
            if known is None or known.value != wanted or not self._is_row(row, x, op, axis, node.uop == "MUL"):
                continue
            if op == "MAX" or self._is_exponential(x, axis, node.uop == "MUL"):
                return Known(wanted, soft=True)
        return None

    def _is_exponential(self, x: Ref, axis: int, inverted: bool) -> bool:
        """Whether x is e^…; if its sum is inverted, e^(x - max(x)): 1 / Σ of less than a maximum of 1 may be ∞."""
        node = self._nodes[self._casts(x)[-1]]
        if node.uop not in _EXPONENTIALS:
            return False
        power = self._nodes[node.refs[0]]
        return not inverted or (power.uop == "SUB" and self._softmax(power, axis) is not None)

    def _is_row(self, row: Ref, x: Ref, op: str, axis: int, inverted: bool) -> bool:
        """Whether `row` is the reduction of x along the axis, or its inverse, at all positions of the axis. No cast on
        the way from x to the row makes a number 0 or ∞ that is not."""
        whole = self._types[x].shape
        kept = (*whole[:axis], 1, *whole[axis + 1 :])
        node = self._nodes[row]
        passed = [node.id]
        while node.refs and (node.uop in ("CAST", "RECIP") or self._repeats(node, kept, whole)):
            if node.uop == "RECIP" and not inverted:
                return False
            inverted = inverted and node.uop != "RECIP"
            node = self._nodes[node.refs[0]]
            passed.append(node.id)
        if inverted or node.uop != "REDUCE" or node.arg["op"] != op or "init" in node.arg:
            return False
        (source,) = node.refs
        axes = [axis_position(one, len(whole)) for one in node.arg["axes"]]
        casts, base = self._casts(source), self._casts(x)[-1]
        if axes != [axis] or casts[-1] != base:
            return False
        dtypes = [self._types[ref].dtype for ref in (*passed, *casts)]
        return any(all(is_widening(self._types[ref].dtype, wide) for wide in dtypes) for ref in (x, base))

    def _repeats(self, node: Node, kept: tuple[int, ...], whole: tuple[int, ...]) -> bool:
        """Whether a uop gives a reduction of x its axis back, as an axis of size 1 or repeated."""
        shape = self._types[node.id].shape
        return (node.uop == "RESHAPE" and shape == kept) or (node.uop == "EXPAND" and shape in (kept, whole))

    def _casts(self, ref: Ref) -> list[Ref]:
        """A value, and the values that casts have made it of, the first one last."""
        casts = [ref]
        while (node := self._nodes[casts[-1]]).uop == "CAST" and node.refs:
            casts.append(node.refs[0])
        return casts


def reshaped(before: Padding, old: Sequence[int], new: Sequence[int]) -> Padding:
    """The known values behind a reshape that keeps the order of elements. An axis keeps its value where all axes but
    those of size 1 are the same. Else all axes have the value that all had before."""
    mine = [known for known, size in zip(before, old, strict=True) if size != 1]
    if [size for size in old if size != 1] == [size for size in new if size != 1]:
        rest = iter(mine)
        return tuple(None if size == 1 else next(rest) for size in new)
    common = mine[0] if mine and all(known == mine[0] for known in mine) else None
    return (common,) * len(new)


def _kept_by_pads(known: Known | None, axis: int, pads: Pads, value: Value) -> Known | None:
    """The known value of an axis, unless a PAD puts other numbers beside it."""
    if known is None or (known.soft and any(pads[axis])):
        return None
    is_kept = known.value == value or not any(any(pad) for k, pad in enumerate(pads) if k != axis)
    return known if is_kept else None


def _is_exact(node: Node, value: Value) -> bool:
    """Whether every implementation of an elementary function gives 0 here."""
    return (node.uop in _EXPONENTIALS and value == -math.inf) or (node.uop in _ODD and value == 0)


def _applied(node: Node, values: Sequence[Value], types: Mapping[Ref, TensorType]) -> Value:
    """The uop's result for these operands."""
    result = types[node.id]
    operands = zip(values, operand_types(node, types), strict=True)
    with np.errstate(all="ignore"):
        arrays = [np.asarray(value, type_.dtype.numpy) for value, type_ in operands]
        scalar = TensorType(result.dtype, (), ())
        found: Value = np.asarray(node.op.apply(arrays, node.arg, scalar)).astype(result.dtype.numpy)[()].item()
    return found
