"""Claims about a region, decided by isl: the oracle for what is derived from AxisMaps alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codegen.where.isl_text import tuple_name
from ir.poly_view import Block, PolyView

if TYPE_CHECKING:
    import islpy


def pattern_holds(block: Block) -> bool:
    """Whether a contraction's pattern says what its accesses do: the two reads, the write, and that exactly the
    reduced axes are the ones that the write forgets."""
    import islpy

    pattern = block.attrs
    if pattern is None:
        return False
    domain = islpy.Set(block.domain)
    point = ", ".join((*pattern.out_idx, *pattern.reduce_idx))
    lhs, rhs, write = block.accesses[:3]
    operands = [
        [pattern.affine_offsets.get(index, index) for index in side] for side in (pattern.lhs_idx, pattern.rhs_idx)
    ]
    for access, indices in ((lhs, operands[0]), (rhs, operands[1]), (write, pattern.out_idx)):
        coordinates = ", ".join(map(_isl, indices))
        said = islpy.Map(f"{{ [{point}] -> {tuple_name(access.tensor)}[{coordinates}] }}").intersect_domain(domain)
        done = islpy.Map(access.map).intersect_domain(domain)
        if not (done.is_subset(said) and done.is_single_valued()):
            return False
    return True


def flow(view: PolyView) -> dict[tuple[str, str], islpy.Map]:
    """(source, reader) → the dependence from the source's last write of an element to the reader's point, by isl's
    dataflow analysis on the order of the body; the source's points are those of the value it writes."""
    import islpy

    reads, writes, schedule = (islpy.UnionMap("{ }") for _ in range(3))
    to_value = islpy.UnionMap("{ }")
    widest = max((islpy.Set(block.domain).n_dim() for block in view.blocks), default=0)
    for position, block in enumerate(view.blocks):
        domain = islpy.Set(block.domain).set_tuple_name(tuple_name(block.name))
        for access in block.accesses:
            at = islpy.Map(access.map).set_tuple_name(islpy.dim_type.in_, tuple_name(block.name))
            at = at.intersect_domain(domain)
            if access.mode == "read":
                reads = reads.union(at.to_union_map())
            else:
                writes = writes.union(at.to_union_map())
            if access.tensor == block.name:
                to_value = to_value.union(at.to_union_map())
        schedule = schedule.union(_ordered(domain, position, widest).to_union_map())
    found = (
        islpy.UnionAccessInfo.from_sink(reads)
        .set_must_source(writes)
        .set_schedule_map(schedule)
        .compute_flow()
        .get_must_dependence()
    )
    return {(_in(each), _out(each)): each for each in _maps(found.apply_domain(to_value))}


def written_once(view: PolyView, output: str, shape: tuple[int, ...]) -> bool:
    """Whether every element of an output of this shape is written, each from one point of one value."""
    import islpy

    axes = [f"i{axis}" for axis in range(len(shape))]
    bounds = " and ".join(f"0 <= {axis} < {size}" for axis, size in zip(axes, shape, strict=True)) or "1 = 1"
    everything = islpy.Set(f"{{ {tuple_name(output)}[{', '.join(axes)}] : {bounds} }}")
    written = []
    for block in view.blocks:
        own = next(access for access in block.accesses if access.tensor == block.name)
        for access in block.accesses:
            if access.mode == "write" and access.tensor == output:
                domain = islpy.Set(block.domain)
                values = islpy.Map(own.map).intersect_domain(domain)
                written.append(values.reverse().apply_range(islpy.Map(access.map).intersect_domain(domain)))
    if len(written) != 1:
        return False
    return bool(written[0].range().is_equal(everything) and written[0].is_injective())


def _ordered(domain: islpy.Set, position: int, widest: int) -> islpy.Map:
    """Point → time: the block's place in the body, then the point, padded to one length."""
    import islpy

    rank = domain.n_dim()
    axes = ", ".join(f"x{axis}" for axis in range(rank))
    time = ", ".join([str(position), *(f"x{axis}" for axis in range(rank)), *["0"] * (widest - rank)])
    return islpy.Map(f"{{ {domain.get_tuple_name()}[{axes}] -> [{time}] }}").intersect_domain(domain)


def _maps(union: islpy.UnionMap) -> list[islpy.Map]:
    found: list[islpy.Map] = []
    union.foreach_map(found.append)
    return found


def _in(relation: islpy.Map) -> str:
    import islpy

    return str(relation.get_tuple_name(islpy.dim_type.in_))


def _out(relation: islpy.Map) -> str:
    import islpy

    return str(relation.get_tuple_name(islpy.dim_type.out))


def _isl(expression: str) -> str:
    """IndexBook text as isl reads it: x//4 is floor((x)/4)."""
    return _written(ast.parse(expression, mode="eval").body)


def _written(node: ast.expr) -> str:
    match node:
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return f"floor(({_written(left)})/{_written(right)})"
        case ast.BinOp(left=left, op=op, right=right):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}[type(op)]
            return f"({_written(left)} {sign} {_written(right)})"
        case ast.UnaryOp(operand=operand):
            return f"(-{_written(operand)})"
        case _:
            return ast.unparse(node)
