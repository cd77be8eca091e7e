"""The memory of `out=`: the arrays into which a call writes its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.runtime.arrays import STAGE, writable
from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.grammar import with_count


def targets_of(wanted: int, out: Any) -> list[Any]:
    """The arrays of `out=`, one for each of the `wanted` outputs."""
    targets = list(out) if isinstance(out, tuple | list) else [out]
    if len(targets) != wanted:
        arrays, outputs = with_count(len(targets), "array"), with_count(wanted, "output")
        fail(Kind.INPUT_MISMATCH, STAGE, f"out= has {arrays} for {outputs}")
    return targets


def memory_of(
    types: Sequence[tuple[str, TensorType]], inputs: list[np.ndarray], out: Any
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The memory of the arrays of `out=`, and the inputs, of which those that share memory with it are copies."""
    outputs = [
        writable(name, target, type_.dtype, type_.shape)
        for target, (name, type_) in zip(targets_of(len(types), out), types, strict=True)
    ]
    if any(np.may_share_memory(one, other) for place, one in enumerate(outputs) for other in outputs[:place]):
        fail(Kind.INPUT_MISMATCH, STAGE, "two arrays of out= share memory")
    return outputs, [a.copy() if any(np.may_share_memory(a, other) for other in outputs) else a for a in inputs]
