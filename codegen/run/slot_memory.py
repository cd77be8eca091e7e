"""The memory of a module's tensors during one call. In GPU programs it is flat arrays of bytes, of NumPy or CuPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ir.module.launch import Launch, LaunchTable
from ir.module.loop import Loop, LoopWindow, slots_of_loops, steps
from ir.module.module import Module

Bytes = Any
"""A one-dimensional uint8 array of NumPy or CuPy."""


def flat_bytes(array: np.ndarray) -> np.ndarray:
    """The memory of a C-contiguous array."""
    return array.reshape(-1).view(np.uint8)


class Space(NamedTuple):
    """The memory that a call writes besides its outputs: intermediate values, and the workspace of its launches.
    Counters are 0 before and after a call; no other call may use them at the same time."""

    arena: Bytes
    shared: Bytes
    counters: Bytes


class SlotMemory:
    """The tensors of a module by slot. constants: the constants that kernels read, including packed ones. owner: slot
    that kernels write for the caller → the first output in that slot."""

    def __init__(self, module: Module, table: LaunchTable) -> None:
        self._module = module
        self._nbytes = {slot.name: slot.memref.nbytes for slot in module.slots}
        args = {name for launch in table.launches for name in launch.args}
        args |= set(slots_of_loops(module.loops))
        used = args | {slot for _, slot in module.outputs}
        constants = [slot.name for slot in module.slots if slot.role == "constant"]
        packed = [packing.slot for packing in table.packings]
        self.constants = tuple(name for name in (*constants, *packed) if name in used)
        written = args - set(module.inputs) - set(self.constants)
        self.owner: dict[str, int] = {}
        for position, (_, slot) in enumerate(module.outputs):
            if slot in written:
                self.owner.setdefault(slot, position)

    def place(
        self, arena: Bytes, constants: Mapping[str, Bytes], inputs: Sequence[Bytes], outputs: Sequence[Bytes]
    ) -> dict[str, Bytes]:
        """Every slot of one call: `inputs` and `outputs` are the caller's, in the module's order."""
        held = {
            slot.name: arena[slot.offset : slot.offset + slot.memref.nbytes]
            for slot in self._module.slots
            if slot.role == "arena"
        }
        return held | self.outside(constants, inputs, outputs)

    def outside(
        self, constants: Mapping[str, Bytes], inputs: Sequence[Bytes], outputs: Sequence[Bytes]
    ) -> dict[str, Bytes]:
        """The slots of one call that do not lie in the arena."""
        held = {**constants, **dict(zip(self._module.inputs, inputs, strict=True))}
        return held | {slot: outputs[position] for slot, position in self.owner.items()}

    def runs(self, placed: Mapping[str, Bytes]) -> Iterator[tuple[int, Mapping[str, Bytes]]]:
        """The runs of launches in order, each with its place in the table and the memory of all slots at that time.
        Copies of loops are made on the way."""
        yield from self._between(self._module.loops, 0, len(self._module.running), placed)

    def _between(
        self, loops: Sequence[Loop], first: int, end: int, placed: Mapping[str, Bytes]
    ) -> Iterator[tuple[int, Mapping[str, Bytes]]]:
        for step in steps(loops, first, end):
            if not isinstance(step, Loop):
                yield step, placed
                continue
            for trip in range(step.trips):
                held = {**placed, **{window.slot: self._window(window, trip, placed) for window in step.windows}}
                for copy in step.loads:
                    held[copy.target][...] = held[copy.source]
                yield from self._between(step.loops, step.first, step.end, held)
                for copy in step.copies:
                    held[copy.target][...] = held[copy.source]

    def _window(self, window: LoopWindow, trip: int, placed: Mapping[str, Bytes]) -> Bytes:
        """The memory of a window in a trip."""
        if trip == 0 and window.initial is not None:
            return placed[window.initial]
        start = window.start + trip * window.step
        whole = placed[window.tensors[trip % len(window.tensors)]]
        return whole[start : start + self._nbytes[window.slot]]

    def arguments(self, launch: Launch, placed: Mapping[str, Bytes], space: Space) -> tuple[Bytes, ...]:
        """The arguments of the launch's kernel, in the order of its parameters."""
        memory = ((space.counters if piece.counts else space.shared, piece) for piece in launch.pieces)
        pieces = (whole[piece.start : piece.start + piece.nbytes] for whole, piece in memory)
        return (*(placed[name] for name in launch.args), *pieces)

    def copy_shared(self, placed: Mapping[str, Bytes], outputs: Sequence[Bytes]) -> None:
        """Outputs that no kernel writes for themselves: inputs, constants, and second names of another output."""
        for position, (_, slot) in enumerate(self._module.outputs):
            if placed[slot] is not outputs[position]:
                outputs[position][...] = placed[slot]
