"""The meaning of the uops on NumPy arrays.

A meaning is `(operands, arg, result type, wide) -> array`. The result is rounded once, to its dtype; fp16 and bf16 are
computed in fp32. With `wide`, every float array is fp64 and nothing is rounded. Integers wrap. The caller silences
NumPy's floating-point warnings (`np.errstate`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ir.dtype import DType, TensorType, dtype, fp64, promote
from ir.index.map import AxisMap, apply_at
from ir.uop.philox import philox

Array = NDArray[Any]
Meaning = Callable[[Sequence[Array], Mapping[str, Any], TensorType, bool], Array]


def storage(element: DType, wide: bool) -> np.dtype[Any]:
    """The NumPy dtype that holds values of `element`: fp64 for every float when `wide`."""
    return fp64.numpy if wide and element.is_float else element.numpy


def convert(x: Array, element: DType, wide: bool) -> Array:
    """CAST: to bool is != 0; floats to integers truncate, saturate, and NaN gives 0; integers wrap; floats round
    to nearest even (bf16 by way of fp32)."""
    to = storage(element, wide)
    if x.dtype == to:
        return x
    if element.is_bool:
        return np.asarray(x != 0)
    from_float = x.dtype.kind not in "biu"
    if element.is_int and from_float:
        return _saturate(x.astype(np.float64), element)
    if element.name == "bf16" and not wide:
        x = x.astype(np.float32)
    return x.astype(to)


def elementwise(fn: Callable[..., Array]) -> Meaning:
    """`fn` in the computing precision of the result's dtype, then rounded to that dtype."""

    def meaning(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
        compute = storage(out.dtype.accumulator, wide)
        operands = [_convert(x, compute) if out.dtype.is_float else x for x in xs]
        return np.asarray(fn(*operands)).astype(storage(out.dtype, wide), copy=False)

    return meaning


def comparison(fn: Callable[..., Array]) -> Meaning:
    def meaning(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
        return np.asarray(fn(*xs)).astype(np.bool_, copy=False)

    return meaning


def where(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    return np.where(*xs)


def random(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    return np.broadcast_to(philox(xs[0], xs[1], xs[2], arg["word"]), out.shape)


def cast(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    return convert(xs[0], out.dtype, wide)


def bitcast(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    """The bits of an array of dtype `of`; if `wide`, of its numbers rounded to `of`."""
    exact = convert(np.asarray(xs[0]), dtype(arg["of"]), False)
    return convert(exact.view(out.dtype.numpy), out.dtype, wide)


def reduction(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    """REDUCE. Floats accumulate in the wider accumulator of source and result, integers in the result's dtype. Without
    elements the result is the identity. `init` is one more element, the first. Elements are taken in NumPy's order and
    groups, or one by one in index order if `in_order` is set."""
    accumulator = _accumulator(xs[0], out.dtype, wide)
    values = convert(xs[0], accumulator, wide)
    op = arg["op"]
    ufunc = _REDUCERS[op]
    start = np.asarray(arg.get("init", identity(op, accumulator)), values.dtype)[()]
    if arg.get("in_order"):
        total = _one_by_one(ufunc, values, tuple(arg["axes"]), start)
    else:
        total = ufunc.reduce(values, axis=tuple(arg["axes"]), dtype=values.dtype, initial=start)
    return convert(np.asarray(total), out.dtype, wide)


def _one_by_one(ufunc: np.ufunc, values: Array, axes: tuple[int, ...], start: Any) -> Array:
    """The reduction over `axes` in index order; `ufunc.reduce` would add in pairs."""
    terms = np.moveaxis(values, axes, range(len(axes)))
    reduced, kept = terms.shape[: len(axes)], terms.shape[len(axes) :]
    first = np.full((1, *kept), start, values.dtype)
    in_order = np.concatenate([first, terms.reshape(math.prod(reduced), *kept)])
    running = ufunc.accumulate(in_order, axis=0, dtype=values.dtype)
    return np.asarray(running[-1])


def identity(op: str, element: DType) -> float | int:
    """The result of an empty reduction: 0, 1, the lowest or the highest value."""
    return {"SUM": 0, "PROD": 1, "MAX": element.lowest, "MIN": element.highest}[op]


def scan(op: str) -> Meaning:
    """The running reduction along `axis`, the current element included."""

    def meaning(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
        values = convert(xs[0], _accumulator(xs[0], out.dtype, wide), wide)
        running = _REDUCERS[op].accumulate(values, axis=arg["axis"], dtype=values.dtype)
        return convert(running, out.dtype, wide)

    return meaning


def iota(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    axis = arg["axis"]
    column = [1] * out.rank
    column[axis] = out.shape[axis]
    steps = convert(np.arange(out.shape[axis], dtype=np.int64), out.dtype, wide)
    return np.broadcast_to(steps.reshape(column), out.shape)


def gather(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    """out[i,j,k] = src[i, index[i,j,k], k] for axis 1; an index outside the axis is clamped to its nearest end."""
    src, index = xs
    axis = arg["axis"]
    if out.size == 0:
        return np.empty(out.shape, src.dtype)
    inside = clamp_index(index, src.shape[axis])
    box = tuple(slice(None) if k == axis else slice(size) for k, size in enumerate(out.shape))
    return np.take_along_axis(src[box], inside, axis=axis)


def gather_at(view: AxisMap, source: Array, index: Array) -> Array:
    """The elements of `source` at view(point, index), where the map's last axis is the index, clamped into the axis."""
    if view.is_empty:
        return np.empty(view.sizes[:-1], source.dtype)
    grid = np.meshgrid(*map(np.arange, view.sizes[:-1]), indexing="ij", sparse=True)
    return apply_at(view, source, [*grid, clamp_index(index, view.sizes[-1])])


def clamp_index(index: Array, size: int) -> NDArray[np.int64]:
    """An index of integers as positions within an axis of `size` > 0: what is outside is at the nearest end."""
    held = np.minimum(index, np.uint64(size - 1)) if index.dtype == np.uint64 else index  # i64 does not hold every u64
    return np.clip(held.astype(np.int64), 0, size - 1)


def scatter(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    """out[i, index[i,j,k], k] combined with updates[i,j,k] for axis 1, in the order of j; an index outside the axis
    changes nothing. Every combination is rounded to the dtype of the result."""
    src, index, updates = xs
    axis, result = arg["axis"], src.copy()
    inside = (index >= 0) & (index < out.shape[axis])
    at = list(np.nonzero(inside))  # in row-major order, so that j rises at every element
    at[axis] = index[inside].astype(np.int64)
    if arg["op"] == "LAST":
        result[tuple(at)] = updates[inside]
    else:
        _REDUCERS[arg["op"]].at(result, tuple(at), updates[inside])
    return result


def loop(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    """One result of a loop; `arg["run"]` plays the loop's graph back on arrays."""
    result: Array = loop_results(xs, arg, arg["run"])[arg["result"]]
    return result


def loop_results(
    xs: Sequence[Array], arg: Mapping[str, Any], run: Callable[[Sequence[Array]], Sequence[Array]]
) -> list[Array]:
    """All results of a loop, whose graph `run` plays back: the last states, then the other results, stacked."""
    first = arg["states"]
    states, scanned, captured = list(xs[:first]), xs[first : first + arg["scanned"]], xs[first + arg["scanned"] :]
    trips = len(scanned[0]) if scanned else arg["trips"]
    stacked: list[list[Array]] = []
    for trip in reversed(range(trips)) if arg.get("reverse") else range(trips):
        results = run([*states, *(x[trip] for x in scanned), *captured])
        states = list(results[:first])
        stacked.append(list(results[first:]))
    in_order = stacked[::-1] if arg.get("reverse") else stacked
    return [*states, *(np.stack(elements) for elements in zip(*in_order, strict=True))]


def reshape(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    return xs[0].reshape(out.shape)


def permute(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    return xs[0].transpose(arg["perm"])


def expand(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    return np.broadcast_to(xs[0], out.shape)


def pad(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    value = np.asarray(arg.get("value", 0)).astype(np.float64 if out.dtype.is_float else out.dtype.numpy)
    padded = np.full(out.shape, convert(value, out.dtype, wide)[()], storage(out.dtype, wide))
    inner = tuple(slice(low, low + size) for (low, _), size in zip(arg["pad"], xs[0].shape, strict=True))
    padded[inner] = xs[0]
    return padded


def shrink(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    steps = arg.get("step", (1,) * out.rank)
    return xs[0][tuple(slice(*bounds) for bounds in zip(arg["lo"], arg["hi"], steps, strict=True))]


def flip(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    return np.flip(xs[0], axis=tuple(arg["axes"]))


def pool(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
    """out[…, o…, k…] = src[…, o·stride + k·dilation…]"""
    kernel = arg["kernel"]
    n = len(kernel)
    stride, dilation = arg.get("stride", (1,) * n), arg.get("dilation", (1,) * n)
    windows = out.shape[-2 * n : -n]
    at: list[Array] = []
    for axis in range(n):
        positions = np.arange(windows[axis]) * stride[axis]
        offsets = np.arange(kernel[axis]) * dilation[axis]
        column = [1] * (2 * n)
        column[axis], column[n + axis] = windows[axis], kernel[axis]
        at.append((positions[:, None] + offsets).reshape(column))
    index: tuple[Any, ...] = (..., *at)
    return np.asarray(xs[0][index])


def integer_division(x: Array, y: Array) -> Array:
    """Floor division; 0 for a divisor of 0."""
    zero = y == 0
    return np.where(zero, 0, np.floor_divide(x, np.where(zero, 1, y)))


def integer_remainder(x: Array, y: Array) -> Array:
    """x − y·⌊x/y⌋, with the sign of y; 0 for y = 0."""
    zero = y == 0
    return np.where(zero, 0, np.mod(x, np.where(zero, 1, y)))


def power(x: Array, y: Array) -> Array:
    """C's pow. NumPy computes a repeated exponent as a square or a root, which differ at −inf and −0. Here every
    element gets an exponent of its own."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    flat = np.power(np.broadcast_to(x, shape).flatten(), np.broadcast_to(y, shape).flatten())
    return np.asarray(flat.reshape(shape))


def relu(x: Array) -> Array:
    """0 where x ≤ 0 (so −0 gives +0), else x; NaN stays."""
    return np.where(x <= 0, np.zeros((), x.dtype), x)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def erf(x: Array) -> Array:
    """The error function, computed in fp64 for every dtype: NumPy has none."""
    return np.asarray(_erf(x.astype(np.float64)), np.float64)


def _convert(x: Array, to: np.dtype[Any]) -> Array:
    """`x` in another dtype; a repeated axis (stride 0) is converted once."""
    if x.dtype == to:
        return x
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.strides)
    return np.broadcast_to(x[once].astype(to), x.shape)


_erf = np.vectorize(math.erf, otypes=[np.float64])
_REDUCERS: Mapping[str, np.ufunc] = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}


def _accumulator(x: Array, result: DType, wide: bool) -> DType:
    if not result.is_float:
        return result
    return fp64 if wide else promote(dtype(x.dtype).accumulator, result.accumulator) or result


def _saturate(x: Array, element: DType) -> Array:
    """fp64 to an integer dtype. The largest i64 is not an fp64 number, so the upper end is compared, not clipped."""
    whole = np.trunc(np.where(np.isnan(x), 0, x))
    above, below = whole >= float(element.highest), whole <= float(element.lowest)
    inside = np.where(above | below, 0, whole).astype(element.numpy)
    top, bottom = (element.numpy.type(end) for end in (element.highest, element.lowest))
    return np.where(above, top, np.where(below, bottom, inside))
