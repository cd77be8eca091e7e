"""The arrays of `out=`, into which a call writes its results."""

from __future__ import annotations

from typing import Any

from eqsat.runtime.arrays import STAGE
from ir.diagnostics import Kind, fail
from ir.grammar import with_count


def targets_of(wanted: int, out: Any) -> list[Any]:
    """The arrays of `out=`, one for each of the `wanted` outputs."""
    targets = list(out) if isinstance(out, tuple | list) else [out]
    if len(targets) != wanted:
        arrays, outputs = with_count(len(targets), "array"), with_count(wanted, "output")
        fail(Kind.INPUT_MISMATCH, STAGE, f"out= has {arrays} for {outputs}")
    return targets
