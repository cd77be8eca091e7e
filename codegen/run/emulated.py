"""A GPU program without a GPU: the emulator runs the text that NVRTC compiles, and reports errors in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codegen.run.launch_log import note_launch
from codegen.run.slot_memory import SlotMemory, Space, flat_bytes
from codegen.simt import EmulatedKernel, compile_kernels
from ir.diagnostics import Diagnostic, Kind, fail
from ir.host.memory import memory_for
from ir.kernel.gpu.limits import LIMITS
from ir.kernel.resources import KernelResources
from ir.module.launch import Geometry, Launch, LaunchTable
from ir.module.module import Module

_STAGE = "emulator"
_POISON = 0xFF
"""The byte with which the arena and the workspace are filled: NaN in every float."""


@dataclass(frozen=True)
class EmulatedKernels:
    """Kernels compiled for the emulator. A saved program keeps no machine code of them: the text is enough."""

    arch: str
    kernels: Mapping[str, EmulatedKernel]
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def code(self) -> bytes:
        return b""

    @property
    def resources(self) -> dict[str, KernelResources]:
        """Empty: the resources are those that NVRTC reports."""
        return {}


def emulated_kernels(texts: Mapping[str, str], arch: str) -> EmulatedKernels:
    """Kernels by name, compiled as one text, which is faster than one text per kernel.

    Raises:
        EqsatError: NoCompiler where nothing compiles C++, CompileFailed where the text is rejected.
    """
    return EmulatedKernels(arch, compile_kernels("\n".join(texts.values())) if texts else {})


class EmulatedExecutable:
    """Runs a module in the emulator, one launch after another."""

    def __init__(
        self, module: Module, table: LaunchTable, library: EmulatedKernels, constants: Mapping[str, np.ndarray]
    ) -> None:
        self._memory = SlotMemory(module, table)
        self._arena_bytes, self._workspace = module.arena_bytes, table.workspace
        self._launches = table.launches
        self._library = library
        self._constants = {name: flat_bytes(np.ascontiguousarray(constants[name])) for name in self._memory.constants}

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> None:
        """Reads the inputs, fills the outputs: C-contiguous arrays in the module's order, dtypes and shapes.

        Raises:
            EqsatError: KernelFault with all findings of the first kernel that has any.
        """
        sizes = (self._arena_bytes, self._workspace.shared)
        with memory_for(sum(sizes), _STAGE, "what the program keeps between its kernels"):
            arena, shared = (np.full(size, _POISON, np.uint8) for size in sizes)
        space = Space(arena, shared, np.zeros(self._workspace.counters, np.uint8))
        results = [flat_bytes(output) for output in outputs]
        placed = self._memory.place(
            space.arena, self._constants, _apart([flat_bytes(array) for array in inputs]), results
        )
        for position, held in self._memory.runs(placed):
            launch = self._launches[position]
            self._launch(launch, self._memory.arguments(launch, held, space))
        self._memory.copy_shared(placed, results)

    def profile(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int, repeats: int
    ) -> np.ndarray:
        """Raises EqsatError, NoDevice: the emulator has no times."""
        fail(Kind.NO_DEVICE, _STAGE, "an emulated program has no times", hint="measure it on a GPU")

    def _launch(self, launch: Launch, memory: Sequence[np.ndarray]) -> None:
        kernel, geometry = self._library.kernels[launch.function], _geometry(launch)
        parameters = kernel.signature.parameters
        arguments = [given.view(parameter.dtype) for given, parameter in zip(memory, parameters, strict=True)]
        limit = LIMITS[self._library.arch].shared_bytes
        shared = geometry.shared_bytes
        note_launch(launch.function)
        kernel.launch(geometry.grid, arguments, shared_bytes=shared, shared_limit=limit).require_clean()


def _geometry(launch: Launch) -> Geometry:
    assert launch.geometry is not None, "a GPU's launches have a geometry"
    return launch.geometry


def _apart(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays, copied where they overlap: the emulator tells buffers apart by their addresses."""
    apart: list[np.ndarray] = []
    for array in arrays:
        meets = any(np.may_share_memory(array, other) and not _same(array, other) for other in apart)
        apart.append(array.copy() if meets else array)
    return apart


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.ctypes.data == other.ctypes.data and one.nbytes == other.nbytes
