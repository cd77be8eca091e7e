"""The type rules of the movement uops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.grammar import with_count
from ir.uop.types import STAGE, Names, Types, axis_position, given_names, sizes


def reshape(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """Row-major; the number of elements stays."""
    (value,) = src
    shape = sizes(arg["result_shape"])
    if math.prod(shape) != value.size:
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            f"RESHAPE from {value.size} to {math.prod(shape)} elements",
            src_shape=value.shape,
            result_shape=shape,
        )
    return TensorType(value.dtype, shape, given_names(arg, _kept_names(value, shape)))


def permute(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """Result axis i is source axis perm[i]."""
    (value,) = src
    perm = arg["perm"]
    if sorted(perm) != list(range(value.rank)):
        fail(
            Kind.INVALID_PERMUTATION,
            STAGE,
            f"perm must name each of the {value.rank} axes once",
            perm=perm,
            src_shape=value.shape,
        )
    return TensorType(value.dtype, tuple(value.shape[axis] for axis in perm), tuple(value.names[axis] for axis in perm))


def expand(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """Axes of size 1 repeat; ranks agree (the loader adds the missing axes by a RESHAPE)."""
    (value,) = src
    shape = sizes(arg["result_shape"])
    if len(shape) != value.rank or any(old not in (1, size) for old, size in zip(value.shape, shape, strict=True)):
        fail(
            Kind.BROADCAST_MISMATCH,
            STAGE,
            "EXPAND repeats axes of size 1 and no others",
            src_shape=value.shape,
            result_shape=shape,
        )
    kept = tuple(name if old == size else None for name, old, size in zip(value.names, value.shape, shape, strict=True))
    return TensorType(value.dtype, shape, given_names(arg, kept))


def pad(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """Pads every axis by low + high elements that hold `value`."""
    (value,) = src
    pads = arg["pad"]
    _check_length("pad", pads, value)
    if any(low < 0 or high < 0 for low, high in pads):
        fail(Kind.AXIS_SIZE_MISMATCH, STAGE, "a pad is negative", hint="use SHRINK to cut", pad=pads)
    shape = tuple(low + size + high for size, (low, high) in zip(value.shape, pads, strict=True))
    return TensorType(value.dtype, shape, _unchanged_names(value, shape))


def shrink(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """The elements lo, lo + step, … below hi of every axis."""
    (value,) = src
    low, high, step = arg["lo"], arg["hi"], arg.get("step", (1,) * value.rank)
    for key, entries in (("lo", low), ("hi", high), ("step", step)):
        _check_length(key, entries, value)
    positive_steps("SHRINK", step)
    if any(not 0 <= a <= b <= size for a, b, size in zip(low, high, value.shape, strict=True)):
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            "SHRINK needs 0 ≤ lo ≤ hi ≤ size on every axis",
            lo=low,
            hi=high,
            src_shape=value.shape,
        )
    shape = tuple(-(-(b - a) // s) for a, b, s in zip(low, high, step, strict=True))
    return TensorType(value.dtype, shape, _unchanged_names(value, shape))


def flip(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """The listed axes run backwards."""
    (value,) = src
    axes = [axis_position(axis, value.rank) for axis in arg["axes"]]
    if len(set(axes)) != len(axes):
        fail(Kind.MALFORMED_GRAPH, STAGE, "FLIP names an axis twice", axes=axes)
    return value


def pool(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """The last n axes become n window positions and n window offsets, n = len(kernel)."""
    (value,) = src
    kernel = arg["kernel"]
    n = len(kernel)
    if not 0 < n <= value.rank:
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            f"POOL over {n} axes of a value of rank {value.rank}",
            kernel=kernel,
        )
    stride, dilation = arg.get("stride", (1,) * n), arg.get("dilation", (1,) * n)
    for key, steps in (("stride", stride), ("dilation", dilation)):
        if len(steps) != n:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"POOL's {key} must have {n} entries", **{key: steps})
        positive_steps("POOL", steps)
    spatial = value.shape[-n:]
    room = [size - d * (k - 1) - 1 for size, k, d in zip(spatial, kernel, dilation, strict=True)]
    if any(k < 1 for k in kernel) or any(size < 0 for size in room):
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            "POOL's window must hold an element and fit its axis",
            hint="PAD before it, or a smaller kernel or dilation",
            kernel=kernel,
            dilation=dilation,
            src_shape=value.shape,
        )
    windows = tuple(size // s + 1 for size, s in zip(room, stride, strict=True))
    names = given_names(arg, value.names[:-n] + (None,) * (2 * n))
    return TensorType(value.dtype, value.shape[:-n] + windows + tuple(kernel), names)


def positive_steps(uop: str, steps: Sequence[int]) -> None:
    if any(step < 0 for step in steps):
        fail(
            Kind.NEGATIVE_STRIDE_UNSUPPORTED,
            STAGE,
            f"{uop} steps forward only",
            hint="reverse by FLIP",
            step=steps,
        )
    if any(step == 0 for step in steps):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{uop} has a step of 0", step=steps)


def _check_length(key: str, values: Sequence[Any], value: TensorType) -> None:
    if len(values) != value.rank:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"`{key}` has {with_count(len(values), 'entry', 'entries')} for {with_count(value.rank, 'axis', 'axes')}",
            src_shape=value.shape,
        )


def _unchanged_names(value: TensorType, shape: tuple[int, ...]) -> Names:
    return tuple(name if old == size else None for name, old, size in zip(value.names, value.shape, shape, strict=True))


def _kept_names(value: TensorType, shape: tuple[int, ...]) -> Names:
    """The names of the axes that a row-major reshape leaves unchanged: both shapes are walked together."""
    old = [axis for axis, size in enumerate(value.shape) if size != 1]
    new = [axis for axis, size in enumerate(shape) if size != 1]
    names: list[str | None] = [None] * len(shape)
    if 0 in shape:
        return tuple(names)
    i = j = 0
    while i < len(old):
        first_i, first_j = i, j
        before, after = value.shape[old[i]], shape[new[j]]
        while before != after:
            if before < after:
                i += 1
                before *= value.shape[old[i]]
            else:
                j += 1
                after *= shape[new[j]]
        if (i, j) == (first_i, first_j):
            names[new[j]] = value.names[old[i]]
        i, j = i + 1, j + 1
    return tuple(names)
