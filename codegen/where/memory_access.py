"""How every read and write moves through memory: strides, runs and unguarded ranges, per axis of its scope."""

from __future__ import annotations

import math
from functools import lru_cache

from codegen.where.guards import interior, is_guarded
from codegen.where.sites import Read, Sites, scope_axes
from ir.axis_expr import AxisExpr, FloorDiv
from ir.axis_facts import offset
from ir.axis_map import AxisMap, identity
from ir.poly_core import MemoryAccess, Stride
from ir.region import Op, Region


def memory_accesses(region: Region, found: Sites) -> tuple[MemoryAccess, ...]:
    """Every read of an input buffer and every write of an output, writes first; a read that is padding everywhere
    touches no memory and is none."""
    ops = {let.name: let.op for let in region.body}
    shapes = {buffer.name: buffer.memref.shape for buffer in (*region.inputs, *region.outputs)}
    accesses = []
    for read in found.reads:
        if read.input < 0:
            accesses.append(_write(read, shapes[read.value]))
        elif read.source in shapes and read.map.fill is None:
            accesses.append(_read(read, shapes[read.source], ops))
    return tuple(accesses)


def _read(read: Read, shape: tuple[int, ...], ops: dict[str, Op]) -> MemoryAccess:
    op = ops[read.value]
    names = scope_axes(read.map.sizes, ops[read.scope].reduced if read.scope in ops else 0)
    strides, base = strides_of(read.map, shape, names)
    indirect = op.axis if op.kind == "gather" and read.input == 0 else None
    return MemoryAccess(read.value, read.input, read.source, read.scope, read.map, strides, base, indirect)


def _write(read: Read, shape: tuple[int, ...]) -> MemoryAccess:
    itself = identity(shape)
    strides, base = strides_of(itself, shape, scope_axes(shape, 0))
    return MemoryAccess(read.source, -1, read.value, read.scope, itself, strides, base)


@lru_cache(maxsize=1 << 14)
def strides_of(view: AxisMap, shape: tuple[int, ...], names: tuple[str, ...]) -> tuple[tuple[Stride, ...], int | None]:
    """The strides of an access to a row-major buffer of `shape`, one per axis of the map's domain, and the offset
    at the origin where all are constant."""
    if view.is_empty:
        still = (
            Stride(name, size, 0, size, 0, guarded=False, interior=(0, size))
            for name, size in zip(names, view.sizes, strict=True)
        )
        return tuple(still), 0
    linear = offset(view, shape)
    strides = tuple(_stride(view, linear, axis, name) for axis, name in enumerate(names))
    return strides, linear.const if linear.is_affine else None


def _stride(view: AxisMap, linear: AxisExpr, axis: int, name: str) -> Stride:
    size, step = view.sizes[axis], linear.coeff(axis)
    run = size if step is not None else aligned_run(linear, axis)
    run_step = step if step is not None else dict(linear.terms).get(axis, 0)
    guarded = is_guarded(view, axis)
    return Stride(name, size, step, run, run_step, guarded, interior(view, axis) if guarded else (0, size))


def aligned_run(expr: AxisExpr, axis: int) -> int:
    """The greatest known length L such that, along `axis`, every floor is constant from each multiple of L to the
    next: floor((c·x + g·y)/q) is, for L = gcd(g, q)/c when that is whole."""
    run = 0
    for term, _ in expr.terms:
        if isinstance(term, FloorDiv) and axis in term.expr.axes:
            run = math.gcd(run, _floor_run(term, axis))
    return run or 1


def _floor_run(floor: FloorDiv, axis: int) -> int:
    parts = floor.expr.split(axis)
    if parts is None:
        return 1
    c, rest = parts
    whole = math.gcd(floor.divisor, rest.const, *(each for _, each in rest.terms))
    return whole // c if c > 0 and whole % c == 0 else 1
