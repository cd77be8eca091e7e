"""A loaded library and the memory it works in: constants, packed constants, arenas, and the table of addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from codegen.library import Library
from ir.dtype import dtype
from ir.launch import LaunchTable
from ir.module import Module

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""


class Executable:
    """Runs a module. Calls may come from many threads: each has an arena of its own while it lasts."""

    def __init__(
        self, module: Module, table: LaunchTable, library: Library, constants: Mapping[str, np.ndarray], threads: int
    ) -> None:
        self._module = module
        self._program = library.function("eq_program", (ctypes.c_void_p, ctypes.c_int32))
        self._timed = library.function("eq_program_timed", (ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p))
        self._launches = len(table.launches)
        self._library = library
        self._arenas: list[np.ndarray] = []
        packed = _pack(table, library, constants, threads)
        self._plan_addresses(table, {**constants, **packed})

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> None:
        """Reads the inputs, fills the outputs: C-contiguous arrays in the module's order, dtypes and shapes."""
        arena, table = self._bound(inputs, outputs)
        self._program(table.ctypes.data, threads)
        self._arenas.append(arena)
        self._copy_shared(inputs, outputs)

    def profile(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int, repeats: int
    ) -> np.ndarray:
        """ns per launch, [repeats, launches], after one run that warms up."""
        arena, table = self._bound(inputs, outputs)
        ns = np.zeros((repeats + 1, self._launches), np.uint64)
        for row in ns:
            self._timed(table.ctypes.data, threads, row.ctypes.data)
        self._arenas.append(arena)
        self._copy_shared(inputs, outputs)
        return ns[1:]

    def _plan_addresses(self, table: LaunchTable, constants: Mapping[str, np.ndarray]) -> None:
        """Every slot gets a number; the table of a call is its addresses, taken in the order of the launches."""
        module = self._module
        used = {name for launch in table.launches for name in launch.args}
        self._constants = {name: array for name, array in constants.items() if name in used or self._is_output(name)}
        names = dict.fromkeys([*(slot.name for slot in module.slots), *self._constants])
        numbers = {name: number for number, name in enumerate(names)}
        self._base = np.zeros(len(numbers), np.uint64)
        for name, array in self._constants.items():
            self._base[numbers[name]] = _address(array)
        arena = [slot for slot in module.slots if slot.role == "arena"]
        self._arena_slots = np.array([numbers[slot.name] for slot in arena], np.intp)
        self._arena_offsets = np.array([slot.offset for slot in arena], np.uint64)
        self._input_slots = np.array([numbers[name] for name in module.inputs], np.intp)
        written = {name for launch in table.launches for name in launch.args} - set(module.inputs) - set(constants)
        first: dict[str, int] = {}
        self._shared: list[tuple[int, str]] = []
        for position, (_, slot) in enumerate(module.outputs):
            if slot in written and slot not in first:
                first[slot] = position
            else:
                self._shared.append((position, slot))
        self._first = first
        self._output_slots = np.array([numbers[slot] for slot in first], np.intp)
        self._output_positions = list(first.values())
        self._order = np.array([numbers[name] for launch in table.launches for name in launch.args], np.intp)

    def _is_output(self, name: str) -> bool:
        return any(slot == name for _, slot in self._module.outputs)

    def _bound(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """An arena of this call's own, and the table of addresses."""
        arena = self._arenas.pop() if self._arenas else aligned(self._module.arena_bytes)
        addresses = self._base.copy()
        addresses[self._arena_slots] = self._arena_offsets + np.uint64(_address(arena))
        addresses[self._input_slots] = [_address(array) for array in inputs]
        addresses[self._output_slots] = [_address(outputs[position]) for position in self._output_positions]
        return arena, addresses[self._order]

    def _copy_shared(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Outputs that no kernel writes for themselves: inputs, constants, and second names of another output."""
        given = dict(zip(self._module.inputs, inputs, strict=True))
        for position, slot in self._shared:
            source = outputs[self._first[slot]] if slot in self._first else given.get(slot, self._constants.get(slot))
            np.copyto(outputs[position], source)  # type: ignore[arg-type]


def aligned(nbytes: int) -> np.ndarray:
    """`nbytes` of memory, not initialised, from a 64-byte boundary on."""
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -_address(memory) % ALIGNMENT
    return memory[start : start + nbytes]


def _pack(
    table: LaunchTable, library: Library, constants: Mapping[str, np.ndarray], threads: int
) -> dict[str, np.ndarray]:
    packed = {
        each.slot: aligned(each.elements * dtype(each.dtype).bytes).view(dtype(each.dtype).numpy)
        for each in table.packings
    }
    arrays = {**constants, **packed}
    addresses = [_address(arrays[name]) for each in table.packings for name in (*each.sources, each.slot)]
    slots = np.array(addresses or [0], np.uint64)
    library.function("eq_pack", (ctypes.c_void_p, ctypes.c_int32))(slots.ctypes.data, threads)
    return packed


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
