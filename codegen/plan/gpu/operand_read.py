"""How an operand of a contraction moves to shared memory: its dtype, the direction, how many elements at once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from codegen.plan.contraction_view import Contraction, fused_step, lanes_along_k
from ir.dtype import DTYPES, HALVES
from ir.index.facts import offset
from ir.index.map import AxisMap
from ir.kernel.gpu.kernel import WARP_LANES
from ir.plan.gpu import COPIED_BYTES, Staging
from ir.poly.core import OperandRead
from ir.region.region import Op, Operand

MATRIX_DTYPES = ("fp16", "bf16")
"""Dtypes whose products tensor cores compute exactly, with sums in fp32."""
Shape = tuple[int, ...]


@lru_cache(maxsize=64)
def on_tensor_cores(view: Contraction) -> bool:
    """Whether tensor cores compute the products exactly, and the contraction sums in fp32 in any order."""
    narrow = {exact_dtype(view, side) for side in (0, 1)}
    return len(narrow) == 1 and narrow < {*MATRIX_DTYPES} and view.accumulator == "fp32" and not view.ordered


@lru_cache(maxsize=64)
def fits_tf32(view: Contraction) -> bool:
    """Whether tensor cores can multiply the operands rounded to tf32: sums are in fp32 and in any order, and tensor
    cores do not compute the products exactly."""
    return view.accumulator == "fp32" and not view.ordered and not on_tensor_cores(view)


def exact_dtype(view: Contraction, side: int) -> str:
    """The narrowest known dtype that holds all values of an operand: the dtype before widening casts."""
    ops, value = _ops(view), view.operand(side).value
    while (source := _source_of_cast(ops, value, view)) is not None:
        value = source
    return _dtype(view, ops, value)


@lru_cache(maxsize=64)
def staging(view: Contraction, side: int, narrow: bool) -> Staging:
    """The best way for an operand: along the direction in which most elements move at once. `narrow`: in the dtype of
    `exact_dtype`, else in the dtype of the sums."""
    group = own_digits(view, side)
    dtype = exact_dtype(view, side) if narrow else view.accumulator
    read = _unchanged_read(view, side, dtype)
    size = DTYPES[dtype].bytes
    across = lanes_along_k(view, side, group, WARP_LANES) if group and view.k else bool(view.k)
    if read is None:
        return Staging(side, dtype, across, 1, False)
    shape, once = view.buffer(read).memref.shape, _is_read_once(view, read.buffer)
    runs = [_run(read.map, shape, digits, view.sizes, size, together=once) for digits in (group, view.k)]
    along_k = runs[1].width > runs[0].width or (runs[1].width == runs[0].width and across)
    width, digits, axes = runs[along_k]
    if width * size not in COPIED_BYTES:
        return Staging(side, dtype, along_k, 1, False)
    return Staging(side, dtype, along_k, width, True, digits, axes)


def own_digits(view: Contraction, side: int) -> tuple[int, ...]:
    """The positions of an operand's own digits: rows or columns."""
    return (*view.outer, *view.columns) if side == view.vector else view.rows


def copied_read(view: Contraction, staged: Staging) -> OperandRead | None:
    """The read of the buffer that is copied; None where elements are computed."""
    return uncomputed_read(view, staged.side) if staged.copied else None


def bits_read(view: Contraction, staged: Staging) -> OperandRead | None:
    """The read of the buffer whose 16-bit floats are moved one by one, as bits; None where elements are copied in
    vectors, converted or computed."""
    if staged.copied or staged.dtype not in HALVES:
        return None
    return _unchanged_read(view, staged.side, staged.dtype)


def copied_axes(view: Contraction, stagings: Iterable[Staging]) -> dict[str, int]:
    """Buffer that is copied → how many of its last axes the copies take as one axis."""
    reads = ((copied_read(view, operand), operand.axes) for operand in stagings)
    return {read.buffer: axes for read, axes in reads if read is not None}


def _unchanged_read(view: Contraction, side: int, dtype: str) -> OperandRead | None:
    """The read of the buffer whose elements the operand has as `dtype` without a conversion, padded with 0 at most."""
    read = uncomputed_read(view, side)
    if read is None or view.buffer(read).memref.dtype != dtype or any(guard.fill != 0 for guard in read.map.guards):
        return None
    return read


def uncomputed_read(view: Contraction, side: int) -> OperandRead | None:
    """The read of the buffer whose elements the operand has, but for widening casts; None where it is computed."""
    ops, value = _ops(view), view.operand(side).value
    while (source := _source_of_cast(ops, value, view)) is not None:
        value = source
    reads = view.roles.reads[side]
    return reads[0] if value not in ops and len(reads) == 1 else None


@lru_cache(maxsize=64)
def neighbours(at: AxisMap, shape: Shape, group: tuple[int, ...], sizes: Shape, size: int) -> int:
    """How many elements of `size` bytes of a buffer are aligned neighbours, padded together or not at all, wherever the
    last digit of `group` is a multiple of that number. At most 16 bytes."""
    return _run(at, shape, group, sizes, size, together=False).width


class _Neighbours(NamedTuple):
    """`width` neighbours along the last `digits` digits, taken as one digit, in the last `axes` axes of a buffer."""

    width: int = 1
    digits: int = 1
    axes: int = 1


def _run(at: AxisMap, shape: Shape, group: tuple[int, ...], sizes: Shape, size: int, *, together: bool) -> _Neighbours:
    """The widest run along the end of a group; over several digits or axes only if `together`."""
    best = _Neighbours()
    if 0 in shape or at.is_empty:
        return best
    linear = offset(at, shape)
    for digits in range(1, len(group) + 1 if together else min(len(group), 1) + 1):
        last = group[len(group) - digits :]
        axes = _axes_along(at, last)
        if axes is None or (axes > 1 and not together) or fused_step(linear, last, sizes) != 1:
            continue
        extent = math.prod(sizes[position] for position in last)
        apart = [extent, linear.const, *(c for term, c in linear.terms if term not in last)]
        widths = (width for width in (16 // size, 8 // size, 4 // size) if width > best.width)
        width = next((width for width in widths if all(c % width == 0 for c in apart)), 0)
        best = _Neighbours(width, digits, axes) if width else best
    return best


def _axes_along(at: AxisMap, digits: tuple[int, ...]) -> int | None:
    """How many of a buffer's last axes these digits move along, if they move along no other axis and are never padded;
    else None. Along several axes nothing else may move."""
    if any(set(digits) & bound.expr.axes for guard in at.guards for bound in guard.bounds):
        return None
    moved = [axis for axis, expr in enumerate(at.exprs) if expr.axes & set(digits)]
    if not moved:
        return None
    inner = at.exprs[moved[0] :]
    alone = all(expr.is_affine and expr.axes <= set(digits) for expr in inner)
    return len(inner) if alone or (len(digits) == 1 and len(inner) == 1) else None


def _is_read_once(view: Contraction, buffer: str) -> bool:
    return sum(let.op.reads.count(buffer) for let in view.region.body) == 1


def _source_of_cast(ops: dict[str, Op], value: str, view: Contraction) -> str | None:
    """The operand of a copy or of a widening cast; None of any other value."""
    op = ops.get(value)
    if op is None or op.kind not in ("cast", "copy") or not isinstance(op.inputs[0], Operand):
        return None
    source = op.inputs[0].value
    before = _dtype(view, ops, source)
    widens = before in MATRIX_DTYPES and op.dtype in ("fp32", "fp64")
    return source if before == op.dtype or widens else None


def _dtype(view: Contraction, ops: dict[str, Op], value: str) -> str:
    if value in ops:
        return ops[value].dtype
    return next(buffer.memref.dtype for buffer in view.region.inputs if buffer.name == value)


def _ops(view: Contraction) -> dict[str, Op]:
    return {let.name: let.op for let in view.region.body}
