"""Target → its backend."""

from __future__ import annotations

from codegen.backends.cpu import CpuBackend
from codegen.backends.gpu import EmulatedBackend, GpuBackend
from ir.backend import Backend
from ir.target import Target


def backend_of(target: Target, emulate: bool = False) -> Backend:
    """The family of a target; `emulate`: of a GPU that is not there."""
    if not target.is_gpu:
        return CpuBackend()
    return EmulatedBackend() if emulate else GpuBackend()
