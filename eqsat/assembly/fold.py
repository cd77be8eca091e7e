"""Folds constants when the program is built: the compile-time calls of a module are played back, not compiled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ir.dtype import TensorType
from ir.host.memory import memory_for
from ir.module.module import Module
from ir.region.playback import play_region


def fold(module: Module, constants: Mapping[str, np.ndarray], *, ordered: bool = False) -> dict[str, np.ndarray]:
    """The constants and the results of the compile-time calls, all row-major, as kernels read them. ordered: sums are
    taken in index order.

    Raises:
        EqsatError: ResourceExceeded if a constant does not fit in memory.
    """
    values = {name: np.asarray(array, order="C") for name, array in constants.items()}
    for call in module.calls:
        if call.when == "compile":
            types = [TensorType.of(output.memref.dtype, output.memref.shape) for output in call.region.outputs]
            nbytes, value = sum(type_.nbytes for type_ in types), ", ".join(map(str, types))
            inputs = {buffer.name: values[slot] for buffer, slot in zip(call.region.inputs, call.reads, strict=True)}
            with memory_for(nbytes, "fold", "the constant", at=", ".join(call.writes), value=value):
                results = play_region(call.region, inputs, ordered=ordered)
                for buffer, slot in zip(call.region.outputs, call.writes, strict=True):
                    values[slot] = np.asarray(results[buffer.name], order="C")
    return values
