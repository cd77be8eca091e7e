"""A loaded library and its memory: constants, packed constants, arenas, and the table of addresses."""

from __future__ import annotations

import ctypes
import itertools
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from codegen.compile.library import POOL_THREADS, Library
from codegen.run.aligned_memory import allocate
from codegen.run.slot_memory import SlotMemory
from ir.dtype import dtype
from ir.host.address import address
from ir.kernel.workspace import Workspace
from ir.module.launch import LaunchTable
from ir.module.loop import slots_of_loops
from ir.module.module import Module

PAGE = 4096
"""Bytes: threads' workspaces share no page."""
MOST_ARENAS = 8
"""Arenas that are kept between calls. Further simultaneous calls allocate arenas, of which the oldest are freed."""


class Arena(NamedTuple):
    """The memory that one call writes: the module's intermediate values, the workspace of `threads` threads, and the
    table of addresses, which is complete but for arguments and results."""

    values: np.ndarray
    space: WorkspaceMemory
    threads: int
    table: array[int]
    at: int
    """The address of the table."""


class CpuExecutable:
    """Runs a module. Calls may come from many threads: a call has an arena of its own, and up to `MOST_ARENAS` arenas
    are kept for later calls."""

    def __init__(
        self, module: Module, table: LaunchTable, library: Library, constants: Mapping[str, np.ndarray], threads: int
    ) -> None:
        self._module = module
        self._slots = SlotMemory(module, table)
        self._program = library.function("eq_program", (ctypes.c_void_p, ctypes.c_int32))
        self._timed = library.function("eq_program_timed", (ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p))
        pointers = (ctypes.py_object, ctypes.py_object, *(ctypes.c_void_p,) * 3)
        self._take_arrays = library.python_function("eq_take_arrays", pointers, ctypes.c_int32)
        self._launches = len(table.launches)
        self._workspace = table.workspace
        self._arenas: deque[Arena] = deque(maxlen=MOST_ARENAS)
        self._plan_addresses(table, {**constants, **_pack(table, library, constants, threads)})

    @cached_property
    def takes_objects(self) -> bool:
        """Whether kernels write every output; else some outputs are copies of inputs, constants or other outputs."""
        return len(self._slots.owner) == len(self._module.outputs)

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> None:
        """Reads the inputs, fills the outputs: C-contiguous arrays in the module's order, dtypes and shapes."""
        threads = min(threads, POOL_THREADS)
        arena = self._take_arena(threads)
        try:
            self._fill_table(arena.table, inputs, outputs)
            self._program(arena.at, threads)
        finally:
            self._arenas.append(arena)
        self._copy_shared(inputs, outputs)

    def run_if_direct(
        self, arguments: tuple[Any, ...], results: tuple[np.ndarray, ...], pattern: array[int], threads: int
    ) -> bool:
        """Runs the program on the objects of a caller, if they are the arrays of the pattern."""
        threads = min(threads, POOL_THREADS)
        arena = self._take_arena(threads)
        try:
            if not self._take_arrays(arguments, results, pattern.buffer_info()[0], self._places_at, arena.at):
                return False
            self._program(arena.at, threads)
            return True
        finally:
            self._arenas.append(arena)

    def bind(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> Callable[[], None]:
        """A function that runs the program on these arrays, in an arena of its own."""
        arena = self._new_arena(min(threads, POOL_THREADS))
        self._fill_table(arena.table, inputs, outputs)
        return partial(self._run_bound, arena, inputs, outputs)

    def _run_bound(self, arena: Arena, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        self._program(arena.at, arena.threads)
        if not self.takes_objects:
            self._copy_shared(inputs, outputs)

    def profile(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int, repeats: int
    ) -> np.ndarray:
        """ns per launch, over all its runs in a call: [repeats, launches], after one call that warms up."""
        ns = np.zeros((repeats + 1, self._launches), np.uint64)
        threads = min(threads, POOL_THREADS)
        arena = self._take_arena(threads)
        try:
            self._fill_table(arena.table, inputs, outputs)
            for row in ns:
                self._timed(arena.at, threads, row.ctypes.data)
        finally:
            self._arenas.append(arena)
        self._copy_shared(inputs, outputs)
        return ns[1:]

    def _plan_addresses(self, table: LaunchTable, constants: Mapping[str, np.ndarray]) -> None:
        """Numbers all slots. The table of a call holds addresses of slots in the order of the launches' arguments, then
        those of the loops' slots; the entry of a window is 0."""
        module = self._module
        self._constants = {name: constants[name] for name in self._slots.constants}
        names = dict.fromkeys([*(slot.name for slot in module.slots), *self._constants])
        number = {name: position for position, name in enumerate(names)}
        workspace = len(number)
        self._base = np.zeros(len(number) + 1, np.uint64)
        for name, constant in self._constants.items():
            self._base[number[name]] = address(constant)
        arena = [slot for slot in module.slots if slot.role == "arena"]
        self._arena_slots = np.array([number[slot.name] for slot in arena], np.intp)
        self._arena_offsets = np.array([slot.offset for slot in arena], np.uint64)
        order = [[*(number[name] for name in launch.args), workspace] for launch in table.launches]
        order.append([number[name] for name in slots_of_loops(table.loops)])
        flat = [*itertools.chain.from_iterable(order)]
        self._order = np.array(flat, np.intp)
        inputs = {number[name]: position for position, name in enumerate(module.inputs)}
        outputs = {number[slot]: position for slot, position in self._slots.owner.items()}
        own = {**{slot: len(module.inputs) + position for slot, position in outputs.items()}, **inputs}
        own |= {number[slot.name]: inputs[number[slot.over]] for slot in module.slots if slot.over is not None}
        self._pairs = [(place, own[slot]) for place, slot in enumerate(flat) if slot in own]
        self._places = array("q", [len(self._pairs), *itertools.chain.from_iterable(self._pairs)])
        self._places_at = self._places.buffer_info()[0]

    def _take_arena(self, threads: int) -> Arena:
        """An arena that no other call uses at the same time."""
        try:
            arena = self._arenas.pop()  # one step: another thread may take the last one
        except IndexError:
            return self._new_arena(threads)
        return arena if arena.threads >= threads else self._new_arena(threads)

    def _new_arena(self, threads: int) -> Arena:
        values, space = allocate(self._module.arena_bytes), WorkspaceMemory(self._workspace, threads)
        addresses = self._base.copy()
        addresses[self._arena_slots] = self._arena_offsets + np.uint64(address(values))
        addresses[-1] = space.address
        table = array("Q", addresses[self._order].tolist())
        return Arena(values, space, threads, table, table.buffer_info()[0])

    def _fill_table(self, table: array[int], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Writes the addresses of one call into the table of its arena."""
        addresses = [*map(address, inputs), *map(address, outputs)]
        for place, number in self._pairs:
            table[place] = addresses[number]

    def _copy_shared(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        self._slots.copy_shared(self._slots.outside(self._constants, inputs, outputs), outputs)


class WorkspaceMemory:
    """A workspace for `threads` threads: a table of addresses, of the shared bytes and of each thread's own."""

    def __init__(self, workspace: Workspace, threads: int) -> None:
        shared, private = (-(-buffer // PAGE) * PAGE for buffer in (workspace.shared, workspace.private))
        self._memory = allocate(shared + threads * private)
        start = address(self._memory)
        self._table = np.array([start, *(start + shared + thread * private for thread in range(threads))], np.uint64)
        self.address = address(self._table)


def _pack(
    table: LaunchTable, library: Library, constants: Mapping[str, np.ndarray], threads: int
) -> dict[str, np.ndarray]:
    """The packed constants, filled by the library."""
    packed = {
        packing.slot: allocate(packing.elements * dtype(packing.dtype).bytes).view(dtype(packing.dtype).numpy)
        for packing in table.packings
    }
    arrays = {**constants, **packed}
    threads = min(threads, POOL_THREADS)
    space = WorkspaceMemory(table.workspace, threads)
    addresses = [
        at
        for packing in table.packings
        for at in (*(address(arrays[name]) for name in (*packing.sources, packing.slot)), space.address)
    ]
    slots = np.array(addresses or [0], np.uint64)
    library.function("eq_pack", (ctypes.c_void_p, ctypes.c_int32))(slots.ctypes.data, threads)
    return packed
