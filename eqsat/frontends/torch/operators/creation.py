"""Tensors made of numbers. A tensor without values (`empty`) has zeros."""

from __future__ import annotations

import math

import numpy as np

from eqsat.frontends.torch.operator_table import aten
from eqsat.frontends.torch.promotion import wrapped
from eqsat.lazy.argument_checks import Number
from eqsat.tensor import Tensor, constant, full, iota
from ir.dtype import DType, fp64


def _fill(shape: list[int] | tuple[int, ...], value: Number, element: DType) -> Tensor:
    if element.is_int:
        return full(tuple(shape), wrapped(int(value), element), element)
    return full(tuple(shape), bool(value) if element.is_bool else float(value), element)


@aten("full")
def _full(shape: list[int], value: Number, *, dtype: DType | None = None, result: DType) -> Tensor:
    return _fill(shape, value, result)


@aten("full_like")
def _full_like(x: Tensor, value: Number, *, dtype: DType | None = None, result: DType) -> Tensor:
    return _fill(x.shape, value, result)


@aten("new_full")
def _new_full(x: Tensor, shape: list[int], value: Number, *, dtype: DType | None = None, result: DType) -> Tensor:
    return _fill(shape, value, result)


@aten("zeros", "empty.memory_format")
def _zeros(shape: list[int], *, dtype: DType | None = None, result: DType) -> Tensor:
    return _fill(shape, 0, result)


@aten("ones")
def _ones(shape: list[int], *, dtype: DType | None = None, result: DType) -> Tensor:
    return _fill(shape, 1, result)


@aten("zeros_like", "empty_like")
def _zeros_like(x: Tensor, *, dtype: DType | None = None, result: DType) -> Tensor:
    return _fill(x.shape, 0, result)


@aten("ones_like")
def _ones_like(x: Tensor, *, dtype: DType | None = None, result: DType) -> Tensor:
    return _fill(x.shape, 1, result)


@aten("new_zeros", "new_empty")
def _new_zeros(x: Tensor, shape: list[int], *, dtype: DType | None = None, result: DType) -> Tensor:
    return _fill(shape, 0, result)


@aten("new_ones")
def _new_ones(x: Tensor, shape: list[int], *, dtype: DType | None = None, result: DType) -> Tensor:
    return _fill(shape, 1, result)


@aten("new_empty_strided")
def _new_strided(
    x: Tensor, shape: list[int], strides: list[int], *, dtype: DType | None = None, result: DType
) -> Tensor:
    return _fill(shape, 0, result)


@aten("empty_strided")
def _strided(shape: list[int], strides: list[int], *, dtype: DType | None = None, result: DType) -> Tensor:
    return _fill(shape, 0, result)


@aten("scalar_tensor")
def _scalar(value: Number, *, dtype: DType | None = None, result: DType) -> Tensor:
    return _fill((), value, result)


@aten("fill.Scalar")
def _filled(x: Tensor, value: Number) -> Tensor:
    return _fill(x.shape, value, x.dtype)


@aten("fill.Tensor")
def _filled_with_tensor(x: Tensor, value: Tensor) -> Tensor:
    return value.cast(x.dtype).expand(x.shape)


@aten("arange.start_step")
def _range(start: Number, end: Number, step: Number, *, dtype: DType | None = None, result: DType) -> Tensor:
    """start, start + step, … before `end`; computed in fp64 where a number is no integer. Where the result has
    integers, the numbers lose what is behind the point first."""
    if not result.is_float:
        start, end, step = int(start), int(end), int(step)
    count = max(math.ceil((end - start) / step), 0)
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return _whole_numbers(count, start, step).cast(result)
    return (iota((count,), 0, "i64").cast(fp64) * constant(step, fp64) + constant(start, fp64)).cast(result)


@aten("prims.iota.default")
def _iota(length: int, *, start: int, step: int, dtype: DType, requires_grad: bool = False) -> Tensor:
    return _whole_numbers(length, start, step).cast(dtype)


def _whole_numbers(count: int, start: int, step: int) -> Tensor:
    """start, start + step, …: so many i64."""
    places = iota((count,), 0, "i64")
    scaled = places if step == 1 else places * step
    return scaled if start == 0 else scaled + start


@aten("tril_indices")
def _lower_indices(rows: int, columns: int, offset: int = 0, *, dtype: DType | None = None, result: DType) -> Tensor:
    """The rows and the columns of the elements of a lower triangle, as two rows."""
    return constant(np.stack(np.tril_indices(rows, offset, columns))).cast(result)


@aten("triu_indices")
def _upper_indices(rows: int, columns: int, offset: int = 0, *, dtype: DType | None = None, result: DType) -> Tensor:
    return constant(np.stack(np.triu_indices(rows, offset, columns))).cast(result)
