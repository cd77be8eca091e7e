"""The work that a region asks for, whatever the plan: operations, and the bytes that must move at least."""

from __future__ import annotations

import math
from functools import lru_cache

from ir.dtype import dtype
from ir.index.expr import AxisExpr, Box, interval
from ir.index.map import AxisMap, project, support
from ir.region.region import Op, Operand, Region
from ir.uop.table import UOPS

MULTIPLY_ADD = 2


def region_flops(region: Region) -> int:
    """Additions-worth of work, each value computed once, and once the exponentials of streams of one score; see
    `ir.uop.table` for the weights."""
    return sum(op_flops(let.op) for let in region.body) + sum(_exponentials(region).values())


def op_flops(op: Op) -> int:
    """Of one op by itself, without the exponentials of a stream, which others may share."""
    return math.prod(op.domain) * flops_per_point(op.kind, op.fn)


def score_points(op: Op) -> int:
    """At how many points a stream's score is: those of the axes that move it."""
    score = op.inputs[0]
    used = support(score.map) if isinstance(score, Operand) else frozenset()
    return math.prod(size for axis, size in enumerate(op.domain) if axis in used)


def _exponentials(region: Region) -> dict[tuple[str, str, AxisMap | None], int]:
    """Additions-worth of maxima, differences and exponentials, by function and score over its own axes."""
    found: dict[tuple[str, str, AxisMap | None], int] = {}
    for let in region.body:
        score = let.op.inputs[0] if let.op.kind == "stream" else None
        if isinstance(score, Operand):
            own = project(score.map, sorted(support(score.map)))
            found[let.op.fn, score.value, own] = score_points(let.op) * (2 + UOPS[let.op.fn.upper()].flops)
    return found


def flops_per_point(kind: str, fn: str) -> int:
    """Additions-worth of one op at one point of its domain; of a stream that of its sum."""
    match kind:
        case "contraction" | "stream":
            return MULTIPLY_ADD
        case "reduce" | "scan":
            return 1
        case "copy" | "index" | "gather":
            return 0
        case _:
            return UOPS[fn.upper()].flops


def region_bytes(region: Region) -> int:
    """Compulsory traffic: of each input once what is read of it, and each output once."""
    return sum(read_bytes(region).values()) + sum(each.memref.nbytes for each in region.outputs)


def read_bytes(region: Region) -> dict[str, int]:
    """Bytes of each input that the region reads, each element once; a bound where several reads overlap."""
    elements = {each.name: 0 for each in region.inputs}
    sizes = {each.name: math.prod(each.memref.shape) for each in region.inputs}
    for let in region.body:
        for slot, each in enumerate(let.op.inputs):
            if isinstance(each, Operand) and each.value in elements:
                if let.op.kind == "gather" and slot == 0:
                    read = math.prod(let.op.domain)
                else:
                    read = footprint(each.map)
                elements[each.value] = min(elements[each.value] + read, sizes[each.value])
    return {each.name: elements[each.name] * dtype(each.memref.dtype).bytes for each in region.inputs}


@lru_cache(maxsize=1 << 16)
def footprint(view: AxisMap) -> int:
    """How many elements of its operand a map reads; an upper bound, exact where each coordinate is affine in axes
    of its own."""
    if view.is_empty or view.fill is not None:
        return 0
    points = math.prod(high - low + 1 for axis, (low, high) in enumerate(view.interior) if axis in support(view))
    return min(points, math.prod(_values(expr, view.interior) for expr in view.exprs))


def _values(expr: AxisExpr, box: Box) -> int:
    """How many values an index takes at most."""
    low, high = interval(expr, box)
    step = math.gcd(*(coefficient for _, coefficient in expr.terms)) or 1
    return (high - low) // step + 1
