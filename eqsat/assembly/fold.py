"""Constants fold when the program is built: the compile-time calls of a module are played back, not compiled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ir.dtype import TensorType
from ir.host.memory import memory_for
from ir.module.module import Module
from ir.region.playback import play_region


def folded(module: Module, constants: Mapping[str, np.ndarray], *, ordered: bool = False) -> dict[str, np.ndarray]:
    """The constants, and what the compile-time calls make of them, all in row-major order, as kernels read them.
    `ordered`: their sums are in index order.

    Raises:
        EqsatError: ResourceExceeded, when a constant does not fit in memory.
    """
    values = {name: np.asarray(array, order="C") for name, array in constants.items()}
    for call in module.calls:
        if call.when == "compile":
            made = [TensorType.of(each.memref.dtype, each.memref.shape) for each in call.region.outputs]
            nbytes, types = sum(each.nbytes for each in made), ", ".join(map(str, made))
            inputs = {buffer.name: values[slot] for buffer, slot in zip(call.region.inputs, call.reads, strict=True)}
            with memory_for(nbytes, "fold", "the constant", at=", ".join(call.writes), value=types):
                results = play_region(call.region, inputs, ordered=ordered)
                for buffer, slot in zip(call.region.outputs, call.writes, strict=True):
                    values[slot] = np.asarray(results[buffer.name], order="C")
    return values
