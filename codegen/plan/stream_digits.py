"""The loops of streams as their template runs them: the loops of the outputs, or digits of them where neighbours share
keys and values.

    Q[i0, i1, d], K[i0 // 4, k, d], V[i0 // 4, k, j]      batch i0, rows i1
    i0 = 4*h + g: Q[4*h + g, i1, d], K[h, k, d], …        batch h, rows (g, i1): a tile of keys serves all of them
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from codegen.poly.contraction_roles import buffer_reads, cut_of, groups_of, in_digits, names_of
from ir.index.map import AxisMap, axis_map, compose, lift, support
from ir.poly.core import Site, StreamRoles
from ir.region.region import Op, Operand, Region


class StreamDigits(msgspec.Struct, frozen=True):
    """`roles` in terms of digits.

    names  of the digits; the first `rank` are digits of the outputs' axes
    loops  map: digits → loops
    out    map: digits of the outputs → coordinates of the outputs
    """

    roles: StreamRoles
    names: tuple[str, ...]
    rank: int
    loops: AxisMap
    out: AxisMap

    def at(self, place: AxisMap) -> AxisMap:
        """A map over loops as a map over digits."""
        return compose(place, self.loops)


def stream_digits(
    region: Region, roles: StreamRoles, streams: Sequence[tuple[Op, Site]], *, together: bool
) -> StreamDigits:
    """The loops of `streams`. `together`: loops are cut into digits where neighbours share keys and values."""
    outer = len(streams[0][1].map.sizes)
    maps = list(_shared_reads(region, roles, streams)) if together else []
    cut = [
        cut_of(position, size, maps) if position in roles.batch else [size] for position, size in enumerate(roles.sizes)
    ]
    sizes, exprs = tuple(size for digits in cut for size in digits), in_digits(cut)
    loops, rank = axis_map(sizes, exprs), sum(map(len, cut[:outer]))
    names = names_of((f"i{axis}" if axis < outer else f"r{axis - outer}" for axis in range(len(cut))), cut)
    starts = [sum(map(len, cut[:position])) for position in range(len(cut))]

    def digits_of(group: Sequence[int]) -> tuple[int, ...]:
        return tuple(starts[position] + number for position in group for number in range(len(cut[position])))

    scored, beside = digits_of(sorted((*roles.batch, *roles.rows))), set(digits_of(roles.batch))
    if together:
        beside = {axis for place in maps for axis in support(compose(place, lift(loops, place.sizes[len(cut) :])))}
    batch, rows, _ = groups_of(scored, scored, beside)
    digit_roles = msgspec.structs.replace(
        roles,
        read=compose(roles.read, loops),
        place=None if roles.place is None else compose(roles.place, loops),
        batch=batch,
        rows=rows,
        columns=digits_of(roles.columns),
        terms=digits_of(roles.terms),
        sizes=sizes,
    )
    return StreamDigits(digit_roles, names, rank, loops, axis_map(sizes[:rank], exprs[:outer]))


def _shared_reads(region: Region, roles: StreamRoles, streams: Sequence[tuple[Op, Site]]) -> Iterator[AxisMap]:
    """The maps by which keys and values are read, over the loops."""
    for op, site in streams:
        if isinstance(op.inputs[1], Operand):
            yield from _reads(region, op.inputs[1], lift(site.map, op.domain[len(op.shape) :]))
    for let in region.body:
        if let.name == roles.contraction and roles.place is not None:
            keys = let.op.inputs[roles.keys]
            if isinstance(keys, Operand):
                yield from _reads(region, keys, lift(roles.place, let.op.domain[len(let.op.shape) :]))


def _reads(region: Region, operand: Operand, at: AxisMap) -> Iterator[AxisMap]:
    return (read.map for read in buffer_reads(region, operand, at))
