"""Padding around a tensor: with a number, reflections, edges or repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.lazy.argument_checks import STAGE, Number, integers, one_of
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import Operand, tensor_of
from eqsat.tensor import Tensor, constant
from ir.diagnostics import Kind, fail
from ir.grammar import with_count

_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""NumPy's names of torch's modes."""


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
    pairs = [(0, 0)] * source.ndim
    for place in range(len(widths) // 2):
        pairs[source.ndim - 1 - place] = (widths[2 * place], widths[2 * place + 1])
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


def pad_with_elements(x: Tensor, widths: Sequence[tuple[int, int]], mode: str) -> Tensor:
    """x with elements of its own before and after every axis, as numpy.pad with this mode: reflect, edge or wrap. A
    negative number of elements cuts them away."""
    for axis, (before, after) in enumerate(widths):
        if before or after:
            places = np.arange(max(-before, 0), x.shape[axis] - max(-after, 0))
            around: Any = np.pad(places, (max(before, 0), max(after, 0)), mode=mode)  # type: ignore[call-overload]
            x = x.take(constant(around), axis)
    return x


def _pad_with_number(x: Tensor, widths: Sequence[tuple[int, int]], value: Number) -> Tensor:
    cut = tuple(slice(max(-a, 0), size - max(-b, 0)) for size, (a, b) in zip(x.shape, widths, strict=True))
    kept = x[cut] if x.ndim else x
    return kept.pad([(max(a, 0), max(b, 0)) for a, b in widths], value)
