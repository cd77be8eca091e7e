"""Evaluates a whole module on NumPy arrays: region after region, by region playback."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ir.module.module import Module
from ir.region.playback import play_region
from ir.uop.playback import Array


def play_module(module: Module, inputs: Mapping[str, Array], wide: bool = False) -> tuple[Array, ...]:
    """The program's outputs in order; `inputs` holds the inputs and the constants by slot name.

    Arena slots are arrays of their own here: that the arena's offsets do not overlap is the verifier's to show.
    """
    held = {name: inputs[name] for name in (*module.inputs, *module.constants)}
    for call in module.calls:
        region = call.region
        formal = {buffer.name: held[arg] for buffer, arg in zip(region.inputs, call.reads, strict=True)}
        results = play_region(region, formal, wide)
        held |= {arg: results[buffer.name] for buffer, arg in zip(region.outputs, call.writes, strict=True)}
        for outer in call.fills:
            _fill(module, outer, held)
    return tuple(held[slot] for _, slot in module.outputs)


def _fill(module: Module, outer: str, held: dict[str, Array]) -> None:
    """The array of a slot that others fill, if all of those have values."""
    parts = {slot.inside.first: slot for slot in module.slots if slot.inside is not None and slot.inside.slot == outer}
    if all(slot.name in held for slot in parts.values()):
        whole = next(slot for slot in module.slots if slot.name == outer)
        axis = next(slot.inside.axis for slot in parts.values() if slot.inside is not None)
        shape = (*whole.memref.shape[:axis], -1, *whole.memref.shape[axis + 1 :])
        held[outer] = np.concatenate([held[parts[first].name].reshape(shape) for first in sorted(parts)], axis)
