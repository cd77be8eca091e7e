"""The meaning of regions on NumPy arrays: the oracle for covers and kernels.

Every op rounds its result to its dtype. With `wide`, floats are computed in fp64 and nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ir.diagnostics import Kind, fail
from ir.dtype import DType, TensorType, dtype, fp64, promote
from ir.host.memory import memory_for
from ir.index.map import AxisMap, apply, support
from ir.region.region import MemRef, Number, Op, Operand, Region, Yield
from ir.uop.playback import Array, convert, gather_at, storage
from ir.uop.table import FUNCTIONS, SCANS, UOPS


def play_region(
    region: Region, inputs: Mapping[str, Array], wide: bool = False, *, ordered: bool = False
) -> dict[str, Array]:
    """The outputs by name, in their dtypes (floats as fp64 when `wide`). `ordered`: reductions take their terms in
    index order instead of NumPy's.

    Raises:
        EqsatError: InputMismatch, when an input is missing or has another shape; ResourceExceeded, when a value does
            not fit in memory.
    """
    values = {
        buffer.name: _check_input(region.name, buffer.name, inputs, buffer.memref, wide) for buffer in region.inputs
    }
    dtypes = {buffer.name: dtype(buffer.memref.dtype) for buffer in region.inputs}
    last = {name: index for index, let in enumerate(region.body) for name in let.op.reads}
    yielded = {end.value for end in region.yields}
    for index, let in enumerate(region.body):
        memory = memory_for(_held_bytes(let.op, wide), "region", "the value", at=let.name, shape=let.op.shape)
        with np.errstate(all="ignore"), memory:
            values[let.name] = _evaluate(let.op, values, dtypes, wide, ordered)
        dtypes[let.name] = dtype(let.op.dtype)
        for name in let.op.reads:
            if last[name] == index and name not in yielded:
                values.pop(name, None)
    return {end.buffer: _write_output(region, end, values, wide) for end in region.yields}


def _check_input(owner: str, name: str, inputs: Mapping[str, Array], memref: MemRef, wide: bool) -> Array:
    if name not in inputs or np.shape(inputs[name]) != memref.shape:
        shape = np.shape(inputs[name]) if name in inputs else None
        fail(Kind.INPUT_MISMATCH, "region", f"{owner} needs {name}: {memref}", at=name, found_shape=shape)
    return np.asarray(inputs[name]).astype(storage(dtype(memref.dtype), wide), copy=False)


def _write_output(region: Region, end: Yield, values: Mapping[str, Array], wide: bool) -> Array:
    memref = next(buffer.memref for buffer in region.outputs if buffer.name == end.buffer)
    return convert(_read(end.map, values[end.value]), dtype(memref.dtype), wide)


def _evaluate(op: Op, values: Mapping[str, Array], dtypes: Mapping[str, DType], wide: bool, ordered: bool) -> Array:
    match op.kind:
        case "contraction":
            return _contract(op, values, dtypes, wide)
        case "stream":
            return _stream(op, values, dtypes, wide)
        case "index":
            assert op.index_map is not None
            result = _index(op, op.index_map, wide)
        case "table":
            result = np.stack([_number(number, wide) for number in op.inputs if isinstance(number, Number)])
            result = result.reshape(op.domain)
        case "gather":
            result = _gather(op, values)
        case "scatter":
            result = _scatter(op, values, wide)
        case _:
            operands = [_operand(operand, op, values, wide) for operand in op.inputs]
            result = _apply(op, operands, wide, ordered)
    return np.broadcast_to(result, op.shape)


def _held_bytes(op: Op, wide: bool) -> int:
    """Bytes of an op's result. An index takes memory only along the axes that it depends on."""
    size = math.prod(op.shape)
    if op.kind == "index" and op.index_map is not None and not op.index_map.is_empty:
        size = math.prod(op.index_map.sizes[axis] for axis in support(op.index_map))
    return size * storage(dtype(op.dtype), wide).itemsize


def _apply(op: Op, operands: list[Array], wide: bool, ordered: bool) -> Array:
    out = TensorType.of(op.dtype, op.shape)
    match op.kind:
        case "reduce":
            axes = tuple(range(len(op.shape), len(op.domain)))
            arg = {"op": op.fn.upper(), "axes": axes, "in_order": ordered}
            return UOPS["REDUCE"].apply(operands, arg, out, wide)
        case "scan":
            return UOPS[SCANS[op.fn]].apply(operands, {"axis": op.axis}, out, wide)
        case "copy":
            return convert(operands[0], out.dtype, wide)
        case _:
            return FUNCTIONS[op.fn].apply(operands, {"to": op.dtype}, out, wide)


def _operand(operand: Operand | Number, op: Op, values: Mapping[str, Array], wide: bool) -> Array:
    """The operand over the op's whole domain."""
    if isinstance(operand, Operand):
        return _read(operand.map, values[operand.value])
    return np.broadcast_to(_number(operand, wide), op.domain)


def _number(immediate: Number, wide: bool) -> Array:
    element = dtype(immediate.dtype)
    carrier = np.float64 if element.is_float else element.numpy
    return convert(
        np.asarray(float(immediate.number) if element.is_float else immediate.number, carrier), element, wide
    )


def _read(view: AxisMap, array: Array) -> Array:
    """The elements that the map reads, over its domain; axes that it does not depend on take no memory."""
    if view.is_empty:
        return np.empty(view.sizes, array.dtype)
    used = support(view)
    thin = tuple(size if axis in used else 1 for axis, size in enumerate(view.sizes))
    return np.broadcast_to(apply(_with_sizes(view, thin), array), view.sizes)


def _with_sizes(view: AxisMap, sizes: tuple[int, ...]) -> AxisMap:
    """The map over a domain of other sizes, which differ in unused axes only."""
    return AxisMap(sizes, view.exprs, view.guards, view.interior)


def _index(op: Op, view: AxisMap, wide: bool) -> Array:
    if view.is_empty:
        return np.empty(op.shape, storage(dtype(op.dtype), wide))
    grid = np.meshgrid(*map(np.arange, view.sizes), indexing="ij", sparse=True)
    return convert(np.asarray(view.exprs[0].eval(grid), np.int64), dtype(op.dtype), wide)


def _gather(op: Op, values: Mapping[str, Array]) -> Array:
    source, index = op.inputs
    assert isinstance(source, Operand)
    assert isinstance(index, Operand | Number)
    return gather_at(source.map, values[source.value], _operand(index, op, values, wide=False))


def _scatter(op: Op, values: Mapping[str, Array], wide: bool) -> Array:
    source, index, updates = (_operand(operand, op, values, wide) for operand in op.inputs)
    assert op.axis is not None
    at_updates = [np.moveaxis(np.take(operand, 0, op.axis), -1, op.axis) for operand in (index, updates)]
    arg = {"op": op.fn.upper(), "axis": op.axis}
    return UOPS["SCATTER"].apply([source[..., 0], *at_updates], arg, TensorType.of(op.dtype, op.shape), wide)


def _contract(op: Op, values: Mapping[str, Array], dtypes: Mapping[str, DType], wide: bool) -> Array:
    """Σ lhs·rhs in the accumulator's precision."""
    accumulator = _accumulator(op, dtypes, wide)
    lhs, rhs = (_convert_operand(operand, op, values, accumulator, wide) for operand in op.inputs)
    return convert(_product(op, lhs, rhs), dtype(op.dtype), wide)


def _stream(op: Op, values: Mapping[str, Array], dtypes: Mapping[str, DType], wide: bool) -> Array:
    """Σ fn(score - max score)·value in the accumulator's precision; the maximum of NaN is NaN."""
    accumulator = _accumulator(op, dtypes, wide)
    score, value = (_convert_operand(operand, op, values, accumulator, wide) for operand in op.inputs)
    thin = _thin(op.inputs[0], score)
    axes = tuple(range(len(op.shape), len(op.domain)))
    maximum = np.max(thin, axis=axes, keepdims=True, initial=-np.inf)
    weight = {"exp": np.exp, "exp2": np.exp2}[op.fn](thin - maximum)
    return convert(_product(op, np.broadcast_to(weight, op.domain), value), dtype(op.dtype), wide)


def _convert_operand(
    operand: Operand | Number, op: Op, values: Mapping[str, Array], element: DType, wide: bool
) -> Array:
    """The operand over the op's whole domain as `element`; axes that it does not depend on take no memory."""
    thin = _thin(operand, _operand(operand, op, values, wide))
    return np.broadcast_to(convert(thin, element, wide), op.domain)


def _thin(operand: Operand | Number, array: Array) -> Array:
    """An operand over its op's domain, cut to one point along the axes that it does not depend on."""
    used = _axes_used(operand)
    return array[tuple(slice(None) if axis in used else slice(0, 1) for axis in range(array.ndim))]


def _product(op: Op, left: Array, right: Array) -> Array:
    """Σ left·right over the reduced axes, as one matrix product per point of the axes that both operands share."""
    if 0 in op.shape:
        return np.empty(op.shape, left.dtype)
    rank = len(op.domain)
    kept = range(len(op.shape))
    reduced = range(len(op.shape), rank)
    used = [_axes_used(operand) for operand in op.inputs]
    batch = [axis for axis in kept if axis in used[0] and axis in used[1]]
    rows = [axis for axis in kept if axis not in batch and axis not in used[1]]
    columns = [axis for axis in kept if axis not in batch and axis not in rows]
    lhs = _matrix(left, op.domain, batch, rows, list(reduced), drop=columns)
    rhs = _matrix(right, op.domain, batch, list(reduced), columns, drop=rows)
    grouped = [*batch, *rows, *columns]
    product = _matmul(lhs, rhs).reshape([op.domain[axis] for axis in grouped])
    return np.asarray(product.transpose([grouped.index(axis) for axis in kept]))


def _matmul(left: Array, right: Array) -> Array:
    """Products of matrices. NumPy's BLAS is slow where the left matrix is tall and the right one narrow: their
    transposes are multiplied then."""
    if left.shape[-2] <= right.shape[-1]:
        return np.asarray(np.matmul(left, right))
    return np.asarray(np.matmul(right.swapaxes(-1, -2), left.swapaxes(-1, -2)).swapaxes(-1, -2))


def _axes_used(operand: Operand | Number) -> frozenset[int]:
    if isinstance(operand, Number):
        return frozenset()
    return frozenset(range(len(operand.map.sizes))) if operand.map.is_empty else support(operand.map)


def _matrix(
    array: Array, domain: Sequence[int], batch: list[int], rows: list[int], columns: list[int], drop: list[int]
) -> Array:
    """The operand as [batch, rows, columns], without the axes `drop`, which it does not depend on."""
    thin = array[tuple(slice(0, 1) if axis in drop else slice(None) for axis in range(len(domain)))]
    ordered = thin.transpose([*batch, *rows, *columns, *drop])
    sizes = [math.prod(domain[axis] for axis in group) for group in (batch, rows, columns)]
    return ordered.reshape(sizes)


def _accumulator(op: Op, dtypes: Mapping[str, DType], wide: bool) -> DType:
    """The dtype in which a contraction or stream is summed: the widest accumulator of its operands and its result.
    Integers wrap in their dtype."""
    result = dtype(op.dtype)
    if not result.is_float:
        return result
    if wide:
        return fp64
    widest = result.accumulator
    for operand in op.inputs:
        element = dtypes[operand.value] if isinstance(operand, Operand) else dtype(operand.dtype)
        widest = promote(widest, element.accumulator) or widest
    return widest
