"""The maps of the movement uops: `AxisMap`s from the points of a result to the coordinates of its source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from ir.diagnostics import Kind, fail
from ir.index.expr import ZERO, AxisExpr, axis, box_of, floordiv, interval, mod, simplify
from ir.index.guard import Bound, Guard, canonical_fill
from ir.index.map import AxisMap, axis_map, identity
from ir.index.strides import flat, row_major

_ENUMERATED = 1 << 20
"""The bounds of a VIEW of at most this many points are checked point by point; isl checks larger ones."""

Shape = Sequence[int]


def permute(shape: Shape, perm: Sequence[int]) -> AxisMap:
    """Result axis k is source axis perm[k].

    Raises:
        EqsatError: InvalidPermutation.
    """
    if sorted(perm) != list(range(len(shape))):
        fail(
            Kind.INVALID_PERMUTATION,
            "tiny",
            f"perm must name each of the {len(shape)} axes once",
            perm=tuple(perm),
            src_shape=tuple(shape),
        )
    sizes = tuple(shape[k] for k in perm)
    if 0 in sizes:
        return identity(sizes)
    box = box_of(sizes)
    return axis_map(sizes, [axis(k, box) for k in np.argsort(perm).tolist()])


def reshape(shape: Shape, new_shape: Shape) -> AxisMap:
    """Row-major: the number of the result's element, split into coordinates of the source's shape.

    Raises:
        EqsatError: AxisSizeMismatch, when the numbers of elements differ.
    """
    if math.prod(shape) != math.prod(new_shape):
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            "tiny",
            f"RESHAPE from {math.prod(shape)} to {math.prod(new_shape)} elements",
            src_shape=tuple(shape),
            result_shape=tuple(new_shape),
        )
    return _reshape(tuple(shape), tuple(new_shape))


@lru_cache(maxsize=1 << 15)
def _reshape(shape: tuple[int, ...], new_shape: tuple[int, ...]) -> AxisMap:
    if 0 in new_shape:
        return axis_map(new_shape, (ZERO,) * len(shape))
    box = box_of(new_shape)
    number = flat((axis(k, box) for k in range(len(new_shape))), row_major(new_shape))
    exprs = [
        mod(floordiv(number, stride, box), size, box) for size, stride in zip(shape, row_major(shape), strict=True)
    ]
    return axis_map(new_shape, exprs)


def expand(shape: Shape, new_shape: Shape) -> AxisMap:
    """Axes of size 1 repeat; ranks agree.

    Raises:
        EqsatError: AxisSizeMismatch, when an axis of another size would change.
    """
    if len(shape) != len(new_shape) or any(a not in (1, b) for a, b in zip(shape, new_shape, strict=True)):
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            "tiny",
            "EXPAND repeats axes of size 1 and no others",
            src_shape=tuple(shape),
            result_shape=tuple(new_shape),
        )
    return broadcast(shape, new_shape)


def broadcast(shape: Shape, new_shape: Shape) -> AxisMap:
    """NumPy's broadcast: aligned right, missing axes and axes of size 1 repeat.

    Raises:
        EqsatError: BroadcastMismatch.
    """
    lead = len(new_shape) - len(shape)
    if lead < 0 or any(a not in (1, b) for a, b in zip(shape, new_shape[lead:], strict=True)):
        fail(
            Kind.BROADCAST_MISMATCH,
            "tiny",
            f"a value of shape {tuple(shape)} does not broadcast to {tuple(new_shape)}",
            src_shape=tuple(shape),
            result_shape=tuple(new_shape),
        )
    if 0 in new_shape:
        return axis_map(new_shape, (ZERO,) * len(shape))
    box = box_of(new_shape)
    return axis_map(new_shape, [ZERO if size == 1 else axis(lead + k, box) for k, size in enumerate(shape)])


def pad(shape: Shape, pads: Sequence[tuple[int, int]], fill: float = 0) -> AxisMap:
    """Pads every axis by low + high elements that hold `fill`.

    Raises:
        EqsatError: AxisSizeMismatch for a negative pad; MalformedGraph unless there is one pad per axis.
    """
    _check_length("pad", pads, shape)
    if any(low < 0 or high < 0 for low, high in pads):
        fail(Kind.AXIS_SIZE_MISMATCH, "tiny", "a pad is negative", hint="use SHRINK to cut", pad=tuple(pads))
    sizes = tuple(low + size + high for size, (low, high) in zip(shape, pads, strict=True))
    if 0 in sizes:
        return axis_map(sizes, (ZERO,) * len(shape))
    box = box_of(sizes)
    axes = [axis(k, box) for k in range(len(shape))]
    bounds = tuple(Bound(at, low, low + size) for at, size, (low, _) in zip(axes, shape, pads, strict=True))
    exprs = [at.shift(-low) for at, (low, _) in zip(axes, pads, strict=True)]
    return axis_map(sizes, exprs, (Guard(bounds, canonical_fill(fill)),))


def shrink(shape: Shape, lo: Sequence[int], hi: Sequence[int], step: Sequence[int] | None = None) -> AxisMap:
    """The elements lo, lo + step, … below hi of every axis.

    Raises:
        EqsatError: AxisSizeMismatch, unless 0 ≤ lo ≤ hi ≤ size; NegativeStrideUnsupported for a step < 0;
            MalformedGraph for a step of 0 or a list of another length.
    """
    step = (1,) * len(shape) if step is None else step
    for name, values in (("lo", lo), ("hi", hi), ("step", step)):
        _check_length(name, values, shape)
    _check_steps("SHRINK", step)
    if any(not 0 <= a <= b <= size for a, b, size in zip(lo, hi, shape, strict=True)):
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            "tiny",
            "SHRINK needs 0 ≤ lo ≤ hi ≤ size on every axis",
            lo=tuple(lo),
            hi=tuple(hi),
            src_shape=tuple(shape),
        )
    sizes = tuple(-(-(b - a) // s) for a, b, s in zip(lo, hi, step, strict=True))
    if 0 in sizes:
        return axis_map(sizes, (ZERO,) * len(shape))
    box = box_of(sizes)
    return axis_map(sizes, [(axis(k, box) * s).shift(a) for k, (a, s) in enumerate(zip(lo, step, strict=True))])


def flip(shape: Shape, axes: Iterable[int]) -> AxisMap:
    """The source with `axes` reversed.

    Raises:
        EqsatError: MalformedGraph, when an axis does not exist or is named twice.
    """
    axes = list(axes)
    flipped = {k % len(shape) for k in axes if -len(shape) <= k < len(shape)}
    if len(flipped) != len(axes):
        fail(Kind.MALFORMED_GRAPH, "tiny", "FLIP needs distinct axes", axes=tuple(axes), src_shape=tuple(shape))
    if 0 in shape:
        return identity(shape)
    box = box_of(shape)
    every = [axis(k, box) for k in range(len(shape))]
    exprs = [(at * -1).shift(shape[k] - 1) if k in flipped else at for k, at in enumerate(every)]
    return axis_map(shape, exprs)


def pool(
    shape: Shape, kernel: Sequence[int], stride: Sequence[int] | None = None, dilation: Sequence[int] | None = None
) -> AxisMap:
    """The last n axes become n window positions and n window offsets, n = len(kernel): stride·o + dilation·k.

    Raises:
        EqsatError: AxisSizeMismatch, when a window is empty or does not fit; NegativeStrideUnsupported,
            MalformedGraph for bad strides and dilations.
    """
    n = len(kernel)
    lead = len(shape) - n
    stride = (1,) * n if stride is None else stride
    dilation = (1,) * n if dilation is None else dilation
    for name, steps in (("stride", stride), ("dilation", dilation)):
        _check_length(name, steps, kernel)
        _check_steps("POOL", steps)
    spatial = shape[lead:] if lead >= 0 else ()
    room = [size - d * (k - 1) - 1 for size, k, d in zip(spatial, kernel, dilation, strict=False)]
    if lead < 0 or any(k < 1 for k in kernel) or any(size < 0 for size in room):
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            "tiny",
            "POOL's window must hold an element and fit its axis",
            kernel=tuple(kernel),
            dilation=tuple(dilation),
            src_shape=tuple(shape),
        )
    sizes = (*shape[:lead], *(size // s + 1 for size, s in zip(room, stride, strict=True)), *kernel)
    if 0 in sizes:
        return axis_map(sizes, (ZERO,) * len(shape))
    box = box_of(sizes)
    windows = [axis(lead + k, box) * stride[k] + axis(lead + n + k, box) * dilation[k] for k in range(n)]
    return axis_map(sizes, [*(axis(k, box) for k in range(lead)), *windows])


def view(shape: Shape, new_shape: Shape, index_map: Sequence[AxisExpr]) -> AxisMap:
    """Reads source axis k at `index_map[k]`, an expression over the result's axes (`ir.index.expr.parse_expr`).

    Raises:
        EqsatError: MalformedGraph for a read out of bounds or other ranks; NegativeStrideUnsupported for a source
            axis that on average runs backwards along a result axis.
    """
    _check_length("index_map", index_map, shape)
    sizes = tuple(new_shape)
    if any(position >= len(sizes) for expr in index_map for position in expr.axes):
        fail(Kind.MALFORMED_GRAPH, "tiny", "VIEW names an axis that its result does not have", result_shape=sizes)
    if 0 in sizes:
        return axis_map(sizes, (ZERO,) * len(shape))
    box = box_of(sizes)
    exprs = [simplify(expr, box) for expr in index_map]
    for k, (expr, size) in enumerate(zip(exprs, shape, strict=True)):
        if any(expr.slope(position) < 0 for position in expr.axes):
            fail(
                Kind.NEGATIVE_STRIDE_UNSUPPORTED,
                "tiny",
                f"VIEW reads x{k} backwards, at {expr}",
                hint="reverse by FLIP",
            )
        low, high = interval(expr, box)
        if low < 0 or high >= size:
            low, high = _exact_range(expr, sizes)
        if low < 0 or high >= size:
            fail(
                Kind.MALFORMED_GRAPH,
                "tiny",
                f"VIEW reads x{k} out of bounds: {expr} runs over {low} … {high}",
                src_shape=tuple(shape),
                result_shape=sizes,
            )
    return axis_map(sizes, exprs)


def _exact_range(expr: AxisExpr, sizes: tuple[int, ...]) -> tuple[int, int]:
    used = [size if k in expr.axes else 1 for k, size in enumerate(sizes)]
    if expr.is_affine:
        return interval(expr, box_of(sizes))
    if math.prod(used) <= _ENUMERATED:
        values = expr.eval(np.meshgrid(*map(np.arange, used), indexing="ij", sparse=True))
        return int(values.min()), int(values.max())
    from ir.index.isl import exact_range

    return exact_range(expr, box_of(sizes))


def _check_length(key: str, values: Sequence[object], shape: Shape) -> None:
    if len(values) != len(shape):
        fail(
            Kind.MALFORMED_GRAPH,
            "tiny",
            f"`{key}` has {len(values)} entries for {len(shape)} axes",
            src_shape=tuple(shape),
        )


def _check_steps(uop: str, steps: Sequence[int]) -> None:
    if any(step < 0 for step in steps):
        fail(
            Kind.NEGATIVE_STRIDE_UNSUPPORTED,
            "tiny",
            f"{uop} steps forward only",
            hint="reverse by FLIP",
            step=tuple(steps),
        )
    if any(step == 0 for step in steps):
        fail(Kind.MALFORMED_GRAPH, "tiny", f"{uop} has a step of 0", step=tuple(steps))
