"""Facts of a Poly-View as isl computes them: dataflow between blocks, and whether outputs are written once."""

from __future__ import annotations

import islpy

from ir.index.isl_text import tuple_name
from ir.poly.view import PolyView
from ir.poly.view_isl import domain, own_write, relation


def flow(view: PolyView) -> dict[tuple[str, str], islpy.Map]:
    """(source, reader) → the dependence from the source's last write of an element to the reader's point, by isl's
    dataflow analysis on the order of the body; the source's points are those of the value it writes."""
    reads, writes, schedule = (islpy.UnionMap("{ }") for _ in range(3))
    to_value = islpy.UnionMap("{ }")
    widest = max((len(block.axes) for block in view.blocks), default=0)
    for position, block in enumerate(view.blocks):
        points = domain(block).set_tuple_name(tuple_name(block.name))

        def named(at: islpy.Map, points: islpy.Set = points) -> islpy.UnionMap:
            at = at.set_tuple_name(islpy.dim_type.in_, points.get_tuple_name())
            return at.intersect_domain(points).to_union_map()

        for access in block.accesses:
            if access.mode == "read":
                reads = reads.union(named(relation(block, access)))
            else:
                writes = writes.union(named(relation(block, access)))
        writes = writes.union(named(own_write(block)))
        to_value = to_value.union(named(own_write(block)))
        schedule = schedule.union(_ordered(points, position, widest).to_union_map())
    result = (
        islpy.UnionAccessInfo.from_sink(reads)
        .set_must_source(writes)
        .set_schedule_map(schedule)
        .compute_flow()
        .get_must_dependence()
    )
    return {(_in(map_), _out(map_)): map_ for map_ in _maps(result.apply_domain(to_value))}


def written_once(view: PolyView, output: str, shape: tuple[int, ...]) -> bool:
    """Whether every element of an output of this shape is written by exactly one point of one value."""
    axes = [f"i{axis}" for axis in range(len(shape))]
    bounds = " and ".join(f"0 <= {axis} < {size}" for axis, size in zip(axes, shape, strict=True)) or "1 = 1"
    everything = islpy.Set(f"{{ {tuple_name(output)}[{', '.join(axes)}] : {bounds} }}")
    written = []
    for block in view.blocks:
        for access in block.accesses:
            if access.mode == "write" and access.tensor == output:
                points = domain(block)
                values = own_write(block).intersect_domain(points)
                written.append(values.reverse().apply_range(relation(block, access).intersect_domain(points)))
    if len(written) != 1:
        return False
    return bool(written[0].range().is_equal(everything) and written[0].is_injective())


def _ordered(domain: islpy.Set, position: int, widest: int) -> islpy.Map:
    """Point → time: the block's place in the body, then the point, padded to one length."""
    rank = domain.n_dim()
    axes = ", ".join(f"x{axis}" for axis in range(rank))
    time = ", ".join([str(position), *(f"x{axis}" for axis in range(rank)), *["0"] * (widest - rank)])
    return islpy.Map(f"{{ {domain.get_tuple_name()}[{axes}] -> [{time}] }}").intersect_domain(domain)


def _maps(union: islpy.UnionMap) -> list[islpy.Map]:
    results: list[islpy.Map] = []
    union.foreach_map(results.append)
    return results


def _in(relation: islpy.Map) -> str:
    return str(relation.get_tuple_name(islpy.dim_type.in_))


def _out(relation: islpy.Map) -> str:
    return str(relation.get_tuple_name(islpy.dim_type.out))
