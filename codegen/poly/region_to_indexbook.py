"""Region → IndexBook: axes, domains and access maps of every value (seed 000 §4.4, seed 001 §1).

The region has the maps of all reads, so that one of §4.4's update rules is left: an axis of a value is an operand's
axis where the operand is read at that axis itself and both axes have one size; else it is a new axis. Through a
permutation, an expansion or a slice, exactly the axes that survive keep their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from ir.diagnostics import Kind, fail
from ir.index.map import AxisMap, identity
from ir.poly.indexbook import Axis, IndexBook, IndexInfo, InputAccess, product
from ir.region.region import Definition, Region

STAGE = "indexbook"


def index_book(region: Region) -> IndexBook:
    """The IndexBook of a region.

    Raises:
        EqsatError: AxisAlignmentMismatch where an operand's map does not take the op's domain to the operand.
    """
    ids = count()
    values: dict[str, IndexInfo] = {}
    for buffer in region.inputs:
        values[buffer.name] = IndexInfo(_axes(buffer.memref.shape, {}, ids))
    for let in region.body:
        _add(values, let, ids)
    shapes = {buffer.name: buffer.memref.shape for buffer in region.outputs}
    for end in region.yields:
        access = _access(values, end.buffer, end.value, end.map, shapes[end.buffer])
        axes = _axes(shapes[end.buffer], _survivors(values, (access,)), ids)
        values[end.buffer] = IndexInfo(axes, inputs=(access,))
    return IndexBook(region.name, values)


def _add(values: dict[str, IndexInfo], let: Definition, ids: Iterator[int]) -> None:
    op = let.op
    accesses = tuple(_access(values, let.name, operand.value, operand.map, op.domain) for operand in op.operands)
    axes = _axes(op.domain, _survivors(values, accesses), ids)
    kept = len(op.domain) - op.reduced
    own, reduced = axes[:kept], tuple(_as_reduced(axis, position) for position, axis in enumerate(axes[kept:]))
    if op.kind == "contraction":
        values[product(let.name)] = IndexInfo(axes, inputs=accesses)
        accesses = (InputAccess(product(let.name), identity(op.domain)),)
    values[let.name] = IndexInfo(own, reduced, accesses, non_scop=op.kind == "gather")


def _access(values: dict[str, IndexInfo], reader: str, value: str, view: AxisMap, domain: Sequence[int]) -> InputAccess:
    if value not in values:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"`{reader}` reads `{value}` before it is defined", at=reader)
    operand = values[value]
    if view.sizes != tuple(domain) or len(view.exprs) != len(operand.axes):
        fail(
            Kind.AXIS_ALIGNMENT_MISMATCH,
            STAGE,
            f"`{reader}` reads `{value}` through a map that does not fit",
            at=reader,
            domain=tuple(domain),
            operand_shape=operand.sizes,
            map=str(view),
        )
    return InputAccess(value, view)


def _axes(sizes: Sequence[int], survivors: Mapping[int, int], ids: Iterator[int]) -> tuple[Axis, ...]:
    """One axis per size; `survivors` has the ids of the axes that are an operand's."""
    axes = []
    for position, size in enumerate(sizes):
        id_ = survivors[position] if position in survivors else next(ids)
        axes.append(Axis(id_, f"i{position}", size, "broadcast" if size == 1 else "iter"))
    return tuple(axes)


def _as_reduced(axis: Axis, position: int) -> Axis:
    return Axis(axis.id, f"r{position}", axis.size, "reduce")


def _survivors(values: dict[str, IndexInfo], accesses: Sequence[InputAccess]) -> dict[int, int]:
    """Position in the reader's domain → the id of the operand's axis that survives there. An id is used once; the first
    operand decides."""
    survivors: dict[int, int] = {}
    for access in accesses:
        for coordinate, operand in zip(access.map.exprs, values[access.value_id].axes, strict=True):
            position = coordinate.lone_axis if coordinate.const == 0 else None
            if position is None and operand.size == 1:
                position = _unit_position(access, operand)
            if position is None or position in survivors or operand.id in survivors.values():
                continue
            if access.map.sizes[position] == operand.size:
                survivors[position] = operand.id
    return survivors


def _unit_position(access: InputAccess, operand: Axis) -> int | None:
    """The position of an operand's axis of size 1, if the reader has such an axis there: maps write the only coordinate
    as 0, which names no axis."""
    position = int(operand.name[1:])
    sizes = access.map.sizes
    return position if position < len(sizes) and sizes[position] == 1 else None
