"""Constants fold when the program is built: the compile-time calls of a module are played back, not compiled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ir.module import Module
from ir.region_playback import play_region


def folded(module: Module, constants: Mapping[str, np.ndarray], *, ordered: bool = False) -> dict[str, np.ndarray]:
    """The constants, and what the compile-time calls make of them. `ordered`: their sums are in index order."""
    values = dict(constants)
    for call in module.calls:
        if call.when == "compile":
            inputs = {buffer.name: values[slot] for buffer, slot in zip(call.region.inputs, call.reads, strict=True)}
            results = play_region(call.region, inputs, ordered=ordered)
            for buffer, slot in zip(call.region.outputs, call.writes, strict=True):
                values[slot] = np.asarray(results[buffer.name], order="C")
    return values
