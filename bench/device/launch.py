"""Launches kernel text on a GPU through CuPy, or on the emulator, with which everything but the launch is tested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from codegen.compile.nvrtc import build
from codegen.run.device import Device as Gpu
from codegen.run.device import find_device
from codegen.run.launch_log import note_launch
from codegen.simt import EmulatedKernel, compile_kernels
from codegen.simt.compile import Kernels
from ir.diagnostics import Kind, fail
from ir.kernel.gpu.limits import LIMITS, own_arch

Arguments = Sequence[np.ndarray | int]
"""Arrays in the order of a kernel's pointers, and its integers."""


class Prepared(Protocol):
    """A kernel with its arguments on the device."""

    def __call__(self) -> None:
        """Launches the kernel once; may return before it has run."""
        ...

    def fetch(self) -> None:
        """Waits, and copies the device's arrays into the caller's."""
        ...


class Device(Protocol):
    """A device that runs kernel text. `name`: of the hardware, or "emulator"."""

    @property
    def name(self) -> str: ...

    @property
    def has_warpgroups(self) -> bool:
        """Whether four warps multiply together (wgmma)."""
        ...

    def prepare(
        self, text: str, kernel: str, grid: Sequence[int], threads: int, arguments: Arguments, shared_bytes: int = 0
    ) -> Prepared:
        """The kernel of a text, compiled. `shared_bytes`: dynamic shared memory per block."""
        ...


def launch(
    device: Device,
    text: str,
    kernel: str,
    grid: Sequence[int],
    threads: int,
    arguments: Arguments,
    shared_bytes: int = 0,
) -> None:
    """Runs a kernel once; the arrays then hold its results."""
    prepared = device.prepare(text, kernel, grid, threads, arguments, shared_bytes)
    prepared()
    prepared.fetch()


class CudaDevice:
    """The current GPU.

    Raises:
        EqsatError: NoDevice if there is none.
    """

    def __init__(self) -> None:
        device = find_device()
        if device is None:
            fail(Kind.NO_DEVICE, "device", "there is no CUDA device here that CuPy and NVRTC can use")
        self.gpu: Gpu = device
        self._modules: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return self.gpu.name

    @property
    def has_warpgroups(self) -> bool:
        limits = LIMITS.get(own_arch(self.gpu.arch))
        return limits is not None and bool(limits.warpgroup_columns)

    def prepare(
        self, text: str, kernel: str, grid: Sequence[int], threads: int, arguments: Arguments, shared_bytes: int = 0
    ) -> Prepared:
        import cupy

        if text not in self._modules:
            self._modules[text] = cupy.RawModule(path=str(build(text, own_arch(self.gpu.arch)).path))
        function = self._modules[text].get_function(kernel)
        if shared_bytes > 48 * 1024:
            function.max_dynamic_shared_size_bytes = shared_bytes
        return _OnCuda(kernel, function, (*grid, 1, 1)[:3], threads, arguments, shared_bytes)


class _OnCuda:
    def __init__(
        self, name: str, function: Any, grid: tuple[int, ...], threads: int, arguments: Arguments, shared_bytes: int
    ) -> None:
        import cupy

        self._name = name
        self._function, self._grid, self._threads, self._shared = function, grid, threads, shared_bytes
        self._pairs = [
            (array, cupy.asarray(array.view(np.uint8).reshape(-1)))
            for array in arguments
            if isinstance(array, np.ndarray)
        ]
        there = {id(host): memory for host, memory in self._pairs}
        self._passed = tuple(there[id(arg)] if isinstance(arg, np.ndarray) else np.int32(arg) for arg in arguments)

    def __call__(self) -> None:
        note_launch(self._name)
        self._function(self._grid, (self._threads, 1, 1), self._passed, shared_mem=self._shared)

    def fetch(self) -> None:
        for host, memory in self._pairs:
            host.view(np.uint8).reshape(-1)[:] = memory.get()


class EmulatedDevice:
    """The emulator; it raises the errors that it detects in a kernel."""

    name = "emulator"
    has_warpgroups = True

    def __init__(self) -> None:
        self._compiled: dict[str, Kernels] = {}

    def prepare(
        self, text: str, kernel: str, grid: Sequence[int], threads: int, arguments: Arguments, shared_bytes: int = 0
    ) -> Prepared:
        if text not in self._compiled:
            self._compiled[text] = compile_kernels(text)
        compiled = self._compiled[text][kernel]
        assert compiled.signature.threads == threads
        return _OnHost(compiled, grid, arguments, shared_bytes)


class _OnHost:
    def __init__(self, kernel: EmulatedKernel, grid: Sequence[int], arguments: Arguments, shared_bytes: int) -> None:
        self._kernel, self._grid, self._arguments, self._shared = kernel, grid, arguments, shared_bytes

    def __call__(self) -> None:
        self._kernel.launch(self._grid, self._arguments, shared_bytes=self._shared).require_clean()

    def fetch(self) -> None: ...
