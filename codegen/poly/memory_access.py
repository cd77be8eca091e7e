"""How every read and write moves through memory: strides and unguarded ranges, per axis of its scope."""

from __future__ import annotations

from functools import lru_cache

from codegen.poly.unpadded_range import interior, is_guarded
from codegen.poly.value_sites import Read, Sites
from ir.index.facts import offset
from ir.index.map import AxisMap, identity
from ir.poly.core import MemoryAccess, Stride
from ir.region.region import MemRef, Op, Operand, Region


def memory_accesses(region: Region, sites: Sites) -> tuple[MemoryAccess, ...]:
    """Every write of an output, then every read of an input buffer. A read that is padding everywhere touches no
    memory and is left out."""
    ops = {let.name: let.op for let in region.body}
    places = {end.buffer: end.at for end in region.yields}
    memrefs = {buffer.name: buffer.memref for buffer in (*region.inputs, *region.outputs)}
    accesses = []
    for read in sites.reads:
        if read.input < 0:
            accesses.append(_write(read, memrefs[read.value], places[read.value]))
        elif read.source in memrefs and read.map.fill is None:
            accesses.append(_read(read, memrefs[read.source].frame, ops[read.value]))
    return tuple(accesses)


def _read(read: Read, shape: tuple[int, ...], op: Op) -> MemoryAccess:
    strides = strides_of(read.map, shape, read.data)
    indirect, data = _computed(read, op), tuple(sorted(read.data))
    return MemoryAccess(read.value, read.input, read.source, read.scope, read.map, strides, indirect, data)


def _computed(read: Read, op: Op) -> tuple[int, ...]:
    """The coordinates that data decides: those of a gather's source that depend on the index."""
    source = op.inputs[0] if op.is_computed_place(read.input) else None
    if not isinstance(source, Operand):
        return ()
    index = len(source.map.sizes) - 1
    return tuple(place for place, expr in enumerate(source.map.exprs) if index in expr.axes)


def _write(read: Read, memref: MemRef, at: AxisMap | None) -> MemoryAccess:
    place = at or identity(memref.shape)
    return MemoryAccess(read.source, -1, read.value, read.scope, place, strides_of(place, memref.frame))


@lru_cache(maxsize=1 << 14)
def strides_of(view: AxisMap, shape: tuple[int, ...], data: frozenset[int] = frozenset()) -> tuple[Stride, ...]:
    """The strides of an access to a row-major buffer of `shape`, one per axis of the map's domain. Along the axes of
    `data`, data moves the access."""
    if view.is_empty:
        return tuple(Stride(size, 0, guarded=False, interior=(0, size)) for size in view.sizes)
    linear = offset(view, shape)
    return tuple(_stride(view, None if axis in data else linear.coeff(axis), axis) for axis in range(len(view.sizes)))


def _stride(view: AxisMap, step: int | None, axis: int) -> Stride:
    size = view.sizes[axis]
    guarded = is_guarded(view, axis)
    return Stride(size, step, guarded, interior(view, axis) if guarded else (0, size))
