"""Finds the GPU of this machine, without starting libraries that hang on a machine without one."""

from __future__ import annotations

import ctypes
import functools
import re

import msgspec

from codegen.compile.nvrtc import nvrtc_version
from ir.diagnostics import EqsatError, Kind, fail

_STAGE = "device"
_LIBRARIES = ("libcuda.so.1", "nvcuda.dll")
_HINT = 'emulate=True runs the same kernels without a GPU; target="cpu" compiles for the CPU'


class Device(msgspec.Struct, frozen=True):
    """A GPU. capability: "80" of an A100, "90" of an H100. units: SMs. memory: bytes. driver: the newest CUDA that its
    driver runs, as 13000."""

    name: str
    capability: str
    units: int
    memory: int
    driver: int

    @property
    def arch(self) -> str:
        """As targets name it: "sm80"."""
        return f"sm{self.capability}"


def has_driver() -> bool:
    """Whether the driver is installed and sees a GPU. This asks libcuda itself, since libraries above it may deadlock
    without a driver."""
    for name in _LIBRARIES:
        try:
            driver = ctypes.CDLL(name)
        except OSError:
            continue
        count = ctypes.c_int(0)
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    return False


@functools.cache
def find_device() -> Device | None:
    """The current device, where there is one and CuPy and NVRTC can be loaded; else None."""
    if not has_driver():
        return None
    try:
        import cupy

        nvrtc_version()
        current = cupy.cuda.Device()
        facts = cupy.cuda.runtime.getDeviceProperties(current.id)
        return Device(
            name=facts["name"].decode(),
            capability=current.compute_capability,
            units=int(facts["multiProcessorCount"]),
            memory=int(facts["totalGlobalMem"]),
            driver=int(cupy.cuda.runtime.driverGetVersion()),
        )
    except (ImportError, RuntimeError, EqsatError):
        return None


def device_for(arch: str) -> Device:
    """The device, if it runs cubins for `arch`: it has the same generation and is not older.

    Raises:
        EqsatError: NoDevice where there is no such device.
    """
    found = find_device()
    if found is None:
        fail(Kind.NO_DEVICE, _STAGE, f"the program is for {arch}, and there is no CUDA device here", hint=_HINT)
    if not _runs(found.capability, arch):
        fail(
            Kind.NO_DEVICE,
            _STAGE,
            f"the program is for {arch}, and {found.name} is {found.arch}",
            hint=f'compile the model for target="{found.arch}"',
        )
    return found


def _runs(capability: str, arch: str) -> bool:
    """Cubins run on devices of their major version from their minor version on (CUDA programming guide, binary
    compatibility)."""
    wanted = re.sub(r"\D", "", arch)
    return capability[:-1] == wanted[:-1] and int(capability[-1]) >= int(wanted[-1])
