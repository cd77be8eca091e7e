"""Region → IndexBook: axes, domains and access maps of every value (seed 000 §4.4, seed 001 §1).

An op's reads come from the region ready made, so what is left of §4.4's update rules is one: an axis of a value is
an operand's axis where the operand is read at that axis itself and both have one size; otherwise it is new.
Through a permutation, an expansion, a slice and so on, exactly the axes that survive keep their ids.
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
    for each in region.yields:
        access = _access(values, each.buffer, each.value, each.map, shapes[each.buffer])
        axes = _axes(shapes[each.buffer], _survivors(values, (access,)), ids)
        values[each.buffer] = IndexInfo(axes, inputs=(access,))
    return IndexBook(region.name, values)


def _add(values: dict[str, IndexInfo], let: Definition, ids: Iterator[int]) -> None:
    op = let.op
    accesses = tuple(_access(values, let.name, each.value, each.map, op.domain) for each in op.operands)
    axes = _axes(op.domain, _survivors(values, accesses), ids)
    kept = len(op.domain) - op.reduced
    own, reduced = axes[:kept], tuple(_reduced(axis, position) for position, axis in enumerate(axes[kept:]))
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
    """One axis per size; `survivors` gives the ids of those that are an operand's."""
    found = []
    for position, size in enumerate(sizes):
        name = survivors[position] if position in survivors else next(ids)
        found.append(Axis(name, f"i{position}", size, "broadcast" if size == 1 else "iter"))
    return tuple(found)


def _reduced(axis: Axis, position: int) -> Axis:
    return Axis(axis.id, f"r{position}", axis.size, "reduce")


def _survivors(values: dict[str, IndexInfo], accesses: Sequence[InputAccess]) -> dict[int, int]:
    """Position in the reader's domain → id of the operand's axis that it is; an id is used once, and the first
    operand decides."""
    found: dict[int, int] = {}
    for access in accesses:
        for coordinate, operand in zip(access.map.exprs, values[access.value_id].axes, strict=True):
            position = coordinate.lone_axis if coordinate.const == 0 else None
            if position is None and operand.size == 1:
                position = _unit_position(access, operand)
            if position is None or position in found or operand.id in found.values():
                continue
            if access.map.sizes[position] == operand.size:
                found[position] = operand.id
    return found


def _unit_position(access: InputAccess, operand: Axis) -> int | None:
    """The position at which an axis of size 1 stays where it was; maps write its only coordinate as 0."""
    position = int(operand.name[1:])
    sizes = access.map.sizes
    return position if position < len(sizes) and sizes[position] == 1 else None
