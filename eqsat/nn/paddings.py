"""Padding around a tensor: with a number, reflections, edges or repetitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from eqsat.lazy.argument_checks import STAGE, Number, integers, one_of
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import Operand, tensor_of
from eqsat.tensor import Tensor, concatenate, constant
from ir.diagnostics import Kind, fail
from ir.grammar import with_count

_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""NumPy's names of torch's modes."""

MOST_SLICES = 4
"""Slices from which on a gather reads known positions: the time of slices side by side grows with their number."""


@takes_torchs_names
def pad(x: Operand, pad: Sequence[int], mode: str = "constant", value: Number | None = None) -> Tensor:
    """torch's padding: `pad` has two numbers per axis, before and after, from the LAST axis on; a negative number cuts
    elements away. `Tensor.pad` takes NumPy's (before, after) of every axis from the first on.

    mode: "constant" (`value`, None is 0), "reflect", "replicate" or "circular".

    Raises:
        EqsatError: MalformedGraph for pairs, as NumPy has them; AxisSizeMismatch for more than the axis can give.
    """
    source = tensor_of("pad", "x", x)
    if isinstance(pad, list | tuple) and any(isinstance(item, list | tuple) for item in pad):
        hint = "x.pad(pairs) takes one (before, after) per axis, from the first axis on"
        fail(Kind.MALFORMED_GRAPH, STAGE, "nn.pad takes plain numbers, as torch's pad", op="pad", hint=hint)
    widths = integers(pad, "pad")
    if len(widths) % 2 or len(widths) > 2 * source.ndim:
        message = f"{with_count(len(widths), 'number')} for a tensor of rank {source.ndim}"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, op="pad", hint="before and after, from the last axis on")
    pairs = from_first_axis(widths, source.ndim)
    if one_of(mode, ("constant", *_MODES), "mode") == "constant":
        return _pad_with_number(source, pairs, 0 if value is None else value)
    if value is not None:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"mode={mode!r} has no value", op="pad", hint='mode="constant"')
    for size, (before, after) in zip(source.shape, pairs, strict=True):
        most = size - 1 if mode == "reflect" else size
        if (before or after) and (not size or (mode != "replicate" and max(before, after) > most)):
            message = f"an axis of {size} elements gives no {max(before, after)} elements of padding"
            fail(Kind.AXIS_SIZE_MISMATCH, STAGE, message, op="pad", hint=f"{most} at most", shape=source.shape)
    return pad_with_elements(source, pairs, _MODES[mode])


def from_first_axis(widths: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """torch's numbers before and after, from the last axis on, as a pair for every axis from the first one on."""
    pairs = list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    return [(0, 0)] * (rank - len(pairs)) + pairs


def pad_with_elements(x: Tensor, widths: Sequence[tuple[int, int]], mode: str) -> Tensor:
    """x with elements of its own before and after every axis, as numpy.pad with this mode: reflect, edge or wrap. A
    negative number of elements cuts them away: after reflecting, and before wrapping, as in torch and onnxruntime."""
    for axis, (before, after) in reversed([*enumerate(widths)]):
        if before or after:
            x = take_known(x, _places(x.shape[axis], before, after, mode), axis)
    return x


def _places(size: int, before: int, after: int, mode: str) -> np.ndarray:
    """The positions along an axis of `size` elements of those along the padded axis."""
    added, low, high = (max(before, 0), max(after, 0)), max(-before, 0), max(-after, 0)
    if mode == "wrap":
        return np.pad(np.arange(low, size - high), added, mode="wrap")
    around: np.ndarray = np.pad(np.arange(size), added, mode=mode)  # type: ignore[call-overload]
    return around[low : max(len(around) - high, low)]


def take_known(x: Tensor, positions: np.ndarray, axis: int) -> Tensor:
    """x at known positions along an axis, each inside of it: slices side by side, if a few slices are enough. A slice
    goes up or down, or repeats one element."""
    runs = [*islice(_runs(positions.tolist()), MOST_SLICES + 1)]
    if not 0 < len(runs) <= MOST_SLICES:
        return x.take(constant(positions), axis)
    return concatenate([_slice(x, axis, *run) for run in runs], axis)


def _runs(positions: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The positions as runs that are as long as possible: first position, count and step."""
    start = 0
    while start < len(positions):
        step = positions[start + 1] - positions[start] if start + 1 < len(positions) else 1
        end = start + 1
        while abs(step) <= 1 and end < len(positions) and positions[end] - positions[end - 1] == step:
            end += 1
        yield positions[start], end - start, step if end - start > 1 else 1
        start = end


def _slice(x: Tensor, axis: int, first: int, count: int, step: int) -> Tensor:
    low = first if step >= 0 else first - count + 1
    part = x[(*[slice(None)] * axis, slice(low, low + (count if step else 1)))]
    if step < 0:
        return part.flip(axis)
    return part if step else part.expand((*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _pad_with_number(x: Tensor, widths: Sequence[tuple[int, int]], value: Number) -> Tensor:
    cut = tuple(slice(max(-a, 0), size - max(-b, 0)) for size, (a, b) in zip(x.shape, widths, strict=True))
    kept = x[cut] if x.ndim else x
    return kept.pad([(max(a, 0), max(b, 0)) for a, b in widths], value)
