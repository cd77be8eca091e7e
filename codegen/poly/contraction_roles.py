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
    """The roles of an output's axes, when `lhs` and `rhs` are those along which the operands move."""
    found: dict[str, list[int]] = {"batch": [], "m": [], "n": []}
    for each in axes:
        found["m" if each not in rhs else "batch" if each in lhs else "n"].append(each)
    return Groups(**{role: tuple(group) for role, group in found.items()})


def op_groups(op: Op) -> Groups:
    """The roles of a contraction's own axes, as they stand."""
    lhs, rhs = (support(each.map) if isinstance(each, Operand) else frozenset() for each in op.inputs)
    return groups_of(range(len(op.domain) - op.reduced), lhs, rhs)


def roles_of(region: Region, contraction: Definition, place: AxisMap) -> Roles:
    """The roles of the loops of a contraction that the outputs read at `place`."""
    op, shape = contraction.op, region.outputs[0].memref.shape
    reduced = op.domain[len(op.domain) - op.reduced :]
    at_loops = lift(place, reduced)
    loops, rank = (*shape, *reduced), len(shape)
    names = (*(f"i{axis}" for axis in range(rank)), *(f"r{axis}" for axis in range(len(reduced))))
    maps = [*_operand_maps(op, at_loops), *(each.map for side in _reads(region, op, at_loops) for each in side)]
    cut = [cut_of(position, size, maps) for position, size in enumerate(loops)]
    sizes = tuple(size for digits in cut for size in digits)
    kept = sum(map(len, cut[:rank]))
    found_digits = in_digits(cut)
    point = compose(at_loops, axis_map(sizes, found_digits))
    sides = [support(each) for each in _operand_maps(op, point)]
    lhs, rhs = sides if len(sides) == 2 else (frozenset[int](), frozenset[int]())
    found = groups_of((each for each in range(kept) if sizes[each] != 1), lhs, rhs)
    return Roles(
        names=names_of(names, cut),
        sizes=sizes,
        rank=kept,
        batch=found.batch,
        m=found.m,
        n=found.n,
        k=tuple(each for each in range(kept, len(sizes)) if sizes[each] != 1),
        out=axis_map(sizes[:kept], found_digits[:rank]),
        point=point,
        reads=_reads(region, op, point),
    )


def _operand_maps(op: Op, at: AxisMap) -> list[AxisMap]:
    return [compose(each.map, at) for each in op.operands]


def _reads(region: Region, op: Op, at: AxisMap) -> tuple[tuple[OperandRead, ...], tuple[OperandRead, ...]]:
    lhs, rhs = (tuple(buffer_reads(region, each, at)) if isinstance(each, Operand) else () for each in op.inputs)
    return lhs, rhs


def buffer_reads(region: Region, operand: Operand, at: AxisMap) -> Iterator[OperandRead]:
    """The buffers that an operand is computed from, at `at` of its op's domain, each place once."""
    ops = {let.name: let.op for let in region.body}

    def below(read: tuple[str, AxisMap]) -> list[tuple[str, AxisMap]]:
        value, place = read
        operands = ops[value].operands if value in ops else ()
        return [(each.value, compose(each.map, place)) for each in operands]

    for value, place in post_order([(operand.value, compose(operand.map, at))], below):
        if value not in ops:
            yield OperandRead(value, place)


# --- digits ---


def cut_of(position: int, size: int, maps: Iterable[AxisMap]) -> list[int]:
    """The sizes of the digits into which loop `position` falls where maps divide it, outermost first."""
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
    found, start = [], 0
    for digits in cut:
        found.append(flat((axis(start + n, box) for n in range(len(digits))), row_major(digits)))
        start += len(digits)
    return found


def names_of(loops: Iterable[str], cut: Iterable[Sequence[int]]) -> tuple[str, ...]:
    """The digits' names, by those of the loops."""
    return tuple(name for loop, digits in zip(loops, cut, strict=True) for name in _named(loop, digits))


def _named(axis_name: str, digits: Sequence[int]) -> list[str]:
    """i1 of one digit; i1/64 and i1%64, or i1/64, i1/8%8 and i1%8, of several."""
    names = []
    for position, (size, weight) in enumerate(zip(digits, row_major(digits), strict=True)):
        place = f"/{weight}" if weight > 1 else ""
        names.append(f"{axis_name}{place}" + (f"%{size}" if position else ""))
    return names
