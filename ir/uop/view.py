"""VIEW: result[i0, i1, …] = source[x0, x1, …], where the x are expressions over the result's axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.index.expr import AxisExpr, FloorDiv, axis_names, box_of, interval, parse_expr
from ir.uop.playback import Array
from ir.uop.types import STAGE, Types, given_names, sizes

_EMPTY = (0, -1)
_LARGEST = 2**62
_MAX_POINTS = 2**24
"""An expression over at most this many points is evaluated at all of them, if its interval is out of bounds."""


def view(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """A VIEW reads every source axis in bounds and forward."""
    (value,) = src
    shape = sizes(arg["result_shape"])
    expressions = index_map(arg, len(shape))
    if len(expressions) != value.rank:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"`index_map` has {len(expressions)} expressions for {value.rank} axes",
            index_map=arg["index_map"],
            src_shape=value.shape,
        )
    for text, expr, size in zip(arg["index_map"], expressions, value.shape, strict=True):
        _check_magnitude(text, expr, shape)
        if any(_mean_stride(expr, axis, len(shape)) < 0 for axis in expr.axes):
            fail(
                Kind.NEGATIVE_STRIDE_UNSUPPORTED,
                STAGE,
                f"{text!r} runs backwards",
                hint="reverse by FLIP",
                index=text,
            )
        low, high = _range(expr, shape)
        if (low, high) != _EMPTY and not 0 <= low <= high < size:
            read = f"reads from {low} to {high} on an axis of size {size}" if size else "reads an empty axis"
            fail(
                Kind.AXIS_SIZE_MISMATCH,
                STAGE,
                f"{text!r} {read}",
                index=text,
                src_shape=value.shape,
                result_shape=shape,
            )
    return TensorType(value.dtype, shape, given_names(arg, (None,) * len(shape)))


def view_array(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    """Evaluates the index expressions on a grid, then gathers."""
    grid = _axis_grid(out.shape)
    index = tuple(np.broadcast_to(expr.eval(grid), out.shape) for expr in index_map(arg, out.rank))
    return np.broadcast_to(xs[0][index], out.shape)


def index_map(arg: Mapping[str, Any], rank: int) -> tuple[AxisExpr, ...]:
    """The expressions of a VIEW, one per source axis, over the axes i0 … of a result of this rank."""
    return tuple(parse_expr(text, axis_names(rank)) for text in arg["index_map"])


def _axis_grid(shape: Sequence[int]) -> tuple[Array, ...]:
    return tuple(np.ogrid[tuple(slice(size) for size in shape)]) if shape else ()


def _mean_stride(expr: AxisExpr, axis: int, rank: int) -> int:
    """The growth over one period of all floors along `axis`. Its sign is the direction of reading."""
    point = [0] * rank
    start: int = expr.eval(point)
    point[axis] = math.prod(_divisors(expr))
    end: int = expr.eval(point)
    return end - start


def _divisors(expr: AxisExpr) -> Iterator[int]:
    for term, _ in expr.terms:
        if isinstance(term, FloorDiv):
            yield term.divisor
            yield from _divisors(term.expr)


def _check_magnitude(text: str, expr: AxisExpr, shape: Sequence[int]) -> None:
    """ResourceExceeded unless the expression and all its summands fit a signed 64-bit integer."""
    if max(_magnitude(expr, shape), *_divisors(expr), 0) > _LARGEST:
        fail(Kind.RESOURCE_EXCEEDED, STAGE, f"{text!r} computes numbers beyond {_LARGEST}", largest=_LARGEST)


def _magnitude(expr: AxisExpr, shape: Sequence[int]) -> int:
    """A bound on the absolute value of every number in an evaluation over this shape."""
    total = abs(expr.const)
    below = 0
    for term, coefficient in expr.terms:
        if isinstance(term, FloorDiv):
            inner = _magnitude(term.expr, shape)
            below = max(below, inner)
            largest = inner // term.divisor + 1
        else:
            largest = max(shape[term] - 1, 0)
        total += abs(coefficient) * max(largest, 1)
    return max(total, below)


def _range(expr: AxisExpr, shape: Sequence[int]) -> tuple[int, int]:
    """The least and the greatest value over a box of this shape; (0, -1) when the box is empty."""
    if 0 in shape:
        return _EMPTY
    used = [size if axis in expr.axes else 1 for axis, size in enumerate(shape)]
    if expr.is_affine or math.prod(used) > _MAX_POINTS:
        return interval(expr, box_of(shape))
    values = np.asarray(expr.eval(_axis_grid(used)))
    return int(values.min()), int(values.max())
