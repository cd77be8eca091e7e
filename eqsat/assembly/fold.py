"""Folds constants when the program is built: the compile-time calls of a module are played back, not compiled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ir.dtype import TensorType
from ir.host.memory import memory_for
from ir.module.loop import slots_of_loops
from ir.module.module import Module
from ir.region.playback import play_region


def fold(module: Module, constants: Mapping[str, np.ndarray], *, ordered: bool = False) -> dict[str, np.ndarray]:
    """The arrays that a run reads: constants, and results of the compile-time calls, all row-major. Other arrays are
    freed after the last call that reads them. ordered: sums are taken in index order.

    Raises:
        EqsatError: ResourceExceeded if a constant does not fit in memory.
    """
    calls = [call for call in module.calls if call.when == "compile"]
    last_reader = {name: call.name for call in calls for name in call.reads}
    read_by_runs = _names_read_by_runs(module)
    values = {name: np.asarray(constants[name], order="C") for name in module.constants}
    for call in calls:
        types = [TensorType.of(output.memref.dtype, output.memref.shape) for output in call.region.outputs]
        nbytes, value = sum(type_.nbytes for type_ in types), ", ".join(map(str, types))
        inputs = {buffer.name: values[slot] for buffer, slot in zip(call.region.inputs, call.reads, strict=True)}
        with memory_for(nbytes, "fold", "the constant", at=", ".join(call.writes), value=value):
            results = play_region(call.region, inputs, ordered=ordered)
            for buffer, slot in zip(call.region.outputs, call.writes, strict=True):
                values[slot] = np.asarray(results[buffer.name], order="C")
        for name in {*call.reads} - read_by_runs:
            if last_reader[name] == call.name:
                del values[name]
    return values


def _names_read_by_runs(module: Module) -> set[str]:
    """The slots that running calls, loops and outputs read."""
    reads = {name for call in module.running for name in call.reads}
    return {*reads, *slots_of_loops(module.loops), *(slot for _, slot in module.outputs)}
