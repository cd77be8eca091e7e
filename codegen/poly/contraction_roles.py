"""Which loop of a contraction is batch, m, n or k: by the operands that move along it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ir.index.expr import AxisExpr, FloorDiv, axis, box_of
from ir.index.map import AxisMap, axis_map, compose, lift, support
from ir.index.strides import flat, row_major
from ir.poly.core import OperandRead, Roles
from ir.post_order import post_order
from ir.region.region import Definition, Op, Operand, Region


class Groups(NamedTuple):
    """Axes by role."""

    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]


def groups_of(axes: Iterable[int], lhs: Collection[int], rhs: Collection[int]) -> Groups:
    """The roles of an output's axes. lhs, rhs: the axes along which the left and the right operand move."""
    groups: dict[str, list[int]] = {"batch": [], "m": [], "n": []}
    for axis_ in axes:
        groups["m" if axis_ not in rhs else "batch" if axis_ in lhs else "n"].append(axis_)
    return Groups(**{role: tuple(group) for role, group in groups.items()})


def op_groups(op: Op) -> Groups:
    """The roles of a contraction's own axes, not cut into digits."""
    lhs, rhs = (support(operand.map) if isinstance(operand, Operand) else frozenset() for operand in op.inputs)
    return groups_of(range(len(op.domain) - op.reduced), lhs, rhs)


def roles_of(region: Region, contraction: Definition, place: AxisMap) -> Roles:
    """The roles of the loops of a contraction that the outputs read at `place`."""
    op, shape = contraction.op, region.outputs[0].memref.shape
    reduced = op.domain[len(op.domain) - op.reduced :]
    at_loops = lift(place, reduced)
    loops, rank = (*shape, *reduced), len(shape)
    names = (*(f"i{axis}" for axis in range(rank)), *(f"r{axis}" for axis in range(len(reduced))))
    maps = [*_operand_maps(op, at_loops), *(read.map for side in _reads(region, op, at_loops) for read in side)]
    cut = [cut_of(position, size, maps) for position, size in enumerate(loops)]
    sizes = tuple(size for digits in cut for size in digits)
    kept = sum(map(len, cut[:rank]))
    loops_in_digits = in_digits(cut)
    point = compose(at_loops, axis_map(sizes, loops_in_digits))
    sides = [support(view) for view in _operand_maps(op, point)]
    lhs, rhs = sides if len(sides) == 2 else (frozenset[int](), frozenset[int]())
    groups = groups_of((digit for digit in range(kept) if sizes[digit] != 1), lhs, rhs)
    return Roles(
        names=names_of(names, cut),
        sizes=sizes,
        rank=kept,
        batch=groups.batch,
        m=groups.m,
        n=groups.n,
        k=tuple(digit for digit in range(kept, len(sizes)) if sizes[digit] != 1),
        out=axis_map(sizes[:kept], loops_in_digits[:rank]),
        point=point,
        reads=_reads(region, op, point),
    )


def _operand_maps(op: Op, at: AxisMap) -> list[AxisMap]:
    return [compose(operand.map, at) for operand in op.operands]


def _reads(region: Region, op: Op, at: AxisMap) -> tuple[tuple[OperandRead, ...], tuple[OperandRead, ...]]:
    lhs, rhs = (
        tuple(buffer_reads(region, operand, at)) if isinstance(operand, Operand) else () for operand in op.inputs
    )
    return lhs, rhs


def buffer_reads(region: Region, operand: Operand, at: AxisMap) -> Iterator[OperandRead]:
    """The reads of buffers from which an operand is computed, at `at` of its op's domain; equal reads once."""
    ops = {let.name: let.op for let in region.body}

    def below(read: tuple[str, AxisMap]) -> list[tuple[str, AxisMap]]:
        value, place = read
        operands = ops[value].operands if value in ops else ()
        return [(operand.value, compose(operand.map, place)) for operand in operands]

    for value, place in post_order([(operand.value, compose(operand.map, at))], below):
        if value not in ops:
            yield OperandRead(value, place)


# --- digits ---


def cut_of(position: int, size: int, maps: Iterable[AxisMap]) -> list[int]:
    """The sizes of the digits, outermost first, into which loop `position` is cut, because maps divide it."""
    exprs = [e for m in maps for e in (*m.exprs, *(b.expr for guard in m.guards for b in guard.bounds))]
    places = sorted(place for place in set(_divisions(position, exprs)) if 1 < place < size and size % place == 0)
    kept = [1]
    for place in places:
        if place % kept[-1] == 0:
            kept.append(place)
    return [outer // inner for outer, inner in zip([*kept[1:], size], kept, strict=True)][::-1]


def _divisions(position: int, exprs: Iterable[AxisExpr]) -> Iterator[int]:
    for expr in exprs:
        for term, _ in expr.terms:
            if isinstance(term, FloorDiv):
                step = term.expr.coeff(position)
                if step and term.divisor % step == 0:
                    yield abs(term.divisor // step)
                yield from _divisions(position, (term.expr,))


def in_digits(cut: Sequence[Sequence[int]]) -> list[AxisExpr]:
    """The loops in terms of their digits."""
    box = box_of([max(size, 1) for digits in cut for size in digits])
    loops, start = [], 0
    for digits in cut:
        loops.append(flat((axis(start + n, box) for n in range(len(digits))), row_major(digits)))
        start += len(digits)
    return loops


def names_of(loops: Iterable[str], cut: Iterable[Sequence[int]]) -> tuple[str, ...]:
    """The names of the digits. loops: the names of the loops."""
    return tuple(name for loop, digits in zip(loops, cut, strict=True) for name in _digit_names(loop, digits))


def _digit_names(axis_name: str, digits: Sequence[int]) -> list[str]:
    """i1 of one digit; i1/64 and i1%64, or i1/64, i1/8%8 and i1%8, of several."""
    names = []
    for position, (size, weight) in enumerate(zip(digits, row_major(digits), strict=True)):
        place = f"/{weight}" if weight > 1 else ""
        names.append(f"{axis_name}{place}" + (f"%{size}" if position else ""))
    return names
