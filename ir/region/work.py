"""The work of a region, independent of the plan: operations, and the bytes that must move at least."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from functools import lru_cache

from ir.dtype import dtype
from ir.index.expr import AxisExpr, Box, interval
from ir.index.facts import index_divisions
from ir.index.map import AxisMap, project, support
from ir.region.overwrite import is_over_an_input
from ir.region.region import Op, Operand, Region
from ir.uop.table import FUNCTIONS, UOPS

MULTIPLY_ADD = 2
"""Additions-worth of one term of a contraction or stream."""


def region_flops(region: Region) -> int:
    """Additions-worth of a region's work. A value is computed once, and so are the exponentials that streams of one
    score share. `ir.uop.table` has the weights."""
    own = sum(op_flops(let.op) for let in region.body)
    return own + sum(_exponentials(region).values()) + sum(_index_divisions(region))


def op_flops(op: Op) -> int:
    """Additions-worth of one op, without the exponentials of a stream, which several streams may share."""
    points = _points_of_updates(op) if op.kind == "scatter" else math.prod(op.domain)
    return points * flops_per_point(op.kind, op.fn)


def _points_of_updates(op: Op) -> int:
    """Elements of the updates of a scatter."""
    return math.prod(size for axis, size in enumerate(op.domain) if axis != op.axis)


def score_points(op: Op) -> int:
    """The number of points of a stream's score, over the axes that the score depends on."""
    score = op.inputs[0]
    used = support(score.map) if isinstance(score, Operand) else frozenset()
    return math.prod(size for axis, size in enumerate(op.domain) if axis in used)


def _exponentials(region: Region) -> dict[tuple[str, str, AxisMap | None], int]:
    """Additions-worth of maxima, differences and exponentials, by function, score and map of the score."""
    work: dict[tuple[str, str, AxisMap | None], int] = {}
    for let in region.body:
        score = let.op.inputs[0] if let.op.kind == "stream" else None
        if isinstance(score, Operand):
            own = project(score.map, sorted(support(score.map)))
            work[let.op.fn, score.value, own] = score_points(let.op) * (2 + FUNCTIONS[let.op.fn].flops)
    return work


def _index_divisions(region: Region) -> Iterator[int]:
    """Additions-worth of the divisions of the indices of gathers, once per index."""
    shapes = {buffer.name: buffer.memref.shape for buffer in region.inputs}
    for let in region.body:
        if let.op.kind == "gather":
            source, index = let.op.inputs
            assert isinstance(source, Operand)
            used = support(index.map) if isinstance(index, Operand) else frozenset()
            points = math.prod(size for axis, size in enumerate(let.op.domain) if axis in used)
            yield points * index_divisions(source.map, shapes[source.value]) * UOPS["IDIV"].flops


def flops_per_point(kind: str, fn: str) -> int:
    """Additions-worth of an op at one point of its domain; for a stream of its sum only."""
    match kind:
        case "contraction" | "stream":
            return MULTIPLY_ADD
        case "reduce" | "scan" | "scatter":
            return 1
        case "copy" | "index" | "gather":
            return 0
        case _:
            return FUNCTIONS[fn].flops


def region_bytes(region: Region) -> int:
    """Compulsory traffic in bytes: every element of an input that is read counts once, and so does every output."""
    return sum(read_bytes(region).values()) + _written_bytes(region)


def _written_bytes(region: Region) -> int:
    """Bytes of the outputs. A scatter over its source writes only the elements that have an update."""
    outputs = sum(output.memref.nbytes for output in region.outputs)
    for let in region.body:
        if _lies_over_its_source(region, let.op):
            element = dtype(let.op.dtype).bytes
            outputs = min(outputs, _points_of_updates(let.op) * element)
    return outputs


def _lies_over_its_source(region: Region, op: Op) -> bool:
    return op.kind == "scatter" and is_over_an_input(region)


def cold_bytes(region: Region) -> int:
    """The part of `region_bytes` that no cache can hold before the kernel runs: reads of cold inputs."""
    return _bytes_of(region, {buffer.name for buffer in region.inputs if buffer.cold})


def uncached_bytes(region: Region) -> int:
    """Bytes of cold arguments and cold results. Plans of a CPU treat constants by themselves."""
    names = {buffer.name for buffer in region.inputs if buffer.cold and not buffer.constant}
    return _bytes_of(region, names) + sum(output.memref.nbytes for output in region.outputs if output.cold)


def _bytes_of(region: Region, names: Collection[str]) -> int:
    return sum(size for name, size in read_bytes(region).items() if name in names) if names else 0


def read_bytes(region: Region) -> dict[str, int]:
    """Bytes of every input that the region reads, each element once; an upper bound if several reads overlap."""
    elements = {buffer.name: 0 for buffer in region.inputs}
    sizes = {buffer.name: math.prod(buffer.memref.shape) for buffer in region.inputs}
    for let in region.body:
        for slot, operand in enumerate(let.op.inputs):
            if slot == 0 and _lies_over_its_source(region, let.op):
                continue
            if isinstance(operand, Operand) and operand.value in elements:
                if let.op.is_computed_place(slot):
                    read = min(math.prod(let.op.domain), footprint(operand.map))
                else:
                    read = footprint(operand.map)
                elements[operand.value] = min(elements[operand.value] + read, sizes[operand.value])
    return {buffer.name: elements[buffer.name] * dtype(buffer.memref.dtype).bytes for buffer in region.inputs}


@lru_cache(maxsize=1 << 16)
def footprint(view: AxisMap) -> int:
    """The number of elements of its operand that a map reads: an upper bound, exact if every coordinate is affine in
    axes of its own."""
    if view.is_empty or view.fill is not None:
        return 0
    points = math.prod(high - low + 1 for axis, (low, high) in enumerate(view.interior) if axis in support(view))
    return min(points, math.prod(_count_values(expr, view.interior) for expr in view.exprs))


def _count_values(expr: AxisExpr, box: Box) -> int:
    """The most values that an index can take."""
    low, high = interval(expr, box)
    step = math.gcd(*(coefficient for _, coefficient in expr.terms)) or 1
    return (high - low) // step + 1
