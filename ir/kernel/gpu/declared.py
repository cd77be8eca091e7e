"""Verifies the declarations of a GPU kernel: its size, its names, its buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ir.diagnostics import Kind
from ir.kernel.gpu.device_functions import REGISTER_C
from ir.kernel.gpu.kernel import WARP_LANES, GpuKernel, Shared, id_variables
from ir.kernel.gpu.limits import LIMITS, MAX_GRID, MAX_THREADS

_WRONG, _TOO_MUCH = Kind.MALFORMED_GRAPH, Kind.RESOURCE_EXCEEDED
_WIDE = 2**63  # variables are C ints, or long longs where their range asks for it


def problems(kernel: GpuKernel) -> Iterator[tuple[Kind, str]]:
    """Faults of the declarations: kind and message."""
    yield from _size(kernel)
    names = [*(buffer.name for buffer in kernel.memory), *(buffer.name for buffer in kernel.shared)]
    names += [array.name for array in kernel.registers]
    for name, times in Counter(names).items():
        if times > 1:
            yield _WRONG, f"{times} buffers or registers are called {name}"
    ids = id_variables(kernel.threads, kernel.grid)
    if kernel.variables[: len(ids)] != ids:
        yield _WRONG, f"the first variables are not {', '.join(variable.name for variable in ids)} with their ranges"
    for variable in kernel.variables:
        if not -_WIDE <= variable.low <= variable.high < _WIDE:
            yield _TOO_MUCH, f"{variable.name} goes from {variable.low} to {variable.high}, which 64 bits do not hold"
    for array in kernel.registers:
        if array.dtype not in REGISTER_C or array.count < 1:
            yield _WRONG, f"{array.name} is no array of registers"
    for shared in kernel.shared:
        yield from _check_shared(shared)


def _size(kernel: GpuKernel) -> Iterator[tuple[Kind, str]]:
    limits = LIMITS.get(kernel.arch)
    if limits is None:
        yield _WRONG, f"the architecture {kernel.arch} is none of {', '.join(LIMITS)}"
    elif kernel.shared_bytes > limits.shared_bytes:
        yield _TOO_MUCH, f"{kernel.shared_bytes} bytes of shared memory; a block may have {limits.shared_bytes}"
    if kernel.threads % WARP_LANES or not WARP_LANES <= kernel.threads <= MAX_THREADS:
        yield _TOO_MUCH, f"{kernel.threads} threads per block: whole warps are needed, {MAX_THREADS} threads at most"
    if any(not 1 <= size <= most for size, most in zip(kernel.grid, MAX_GRID, strict=True)):
        yield _TOO_MUCH, f"a grid of {kernel.grid} blocks; {MAX_GRID} at most, and none may be empty"


def _check_shared(shared: Shared) -> Iterator[tuple[Kind, str]]:
    if shared.start % shared.period:
        yield _WRONG, f"{shared.name} starts at {shared.start}, no multiple of {shared.period}"
    if shared.stages < 1 or any(size < 1 for size in shared.shape):
        yield _WRONG, f"{shared.name} is empty"
    if shared.pitch is not None and shared.pitch < shared.shape[-1]:
        yield _WRONG, f"the rows of {shared.name} overlap"
    if shared.swizzle not in range(4):
        yield _WRONG, f"{shared.name} has no swizzle {shared.swizzle}"
