"""Finds the GPU of this machine, without starting libraries that hang on a machine without one."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from codegen.compile.nvrtc import nvrtc_version
from ir.diagnostics import EqsatError, Kind, fail

_STAGE = "device"
_LIBRARIES = ("libcuda.so.1", "nvcuda.dll")
_HINT = 'emulate=True runs the same kernels without a GPU; target="cpu" compiles for the CPU'


class Device(msgspec.Struct, frozen=True):
    """A GPU, as its driver reports it.

    capability  "80" of an A100, "90" of an H100
    units       SMs
    memory      bytes
    driver      the newest CUDA that the driver runs, as 13000
    clock_hz    the highest clock of the SMs per second; 0 if the driver does not tell
    bandwidth   bytes per second to and from memory; 0 if the driver does not tell
    l2_bytes    of the second-level cache; 0 if the driver does not tell
    """

    name: str
    capability: str
    units: int
    memory: int
    driver: int
    clock_hz: float = 0.0
    bandwidth: float = 0.0
    l2_bytes: int = 0

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
            **_speeds(partial(_attribute, cupy.cuda.runtime, current.id)),
        )
    except (ImportError, RuntimeError, EqsatError):
        return None


_CLOCK_RATE, _MEMORY_CLOCK_RATE, _MEMORY_BUS_WIDTH, _L2_CACHE_SIZE = 13, 36, 37, 38
"""Attributes of a device (`cudaDeviceAttr`): clocks in kHz, the width in bits, the size in bytes."""
_TRANSFERS_PER_CLOCK = 2
"""Memory transfers on both edges of its clock."""


def _speeds(attribute: Callable[[int], int]) -> dict[str, Any]:
    """The fields of a `Device` that its attributes tell."""
    bytes_per_clock = _TRANSFERS_PER_CLOCK * attribute(_MEMORY_BUS_WIDTH) / 8
    return {
        "clock_hz": 1e3 * attribute(_CLOCK_RATE),
        "bandwidth": 1e3 * attribute(_MEMORY_CLOCK_RATE) * bytes_per_clock,
        "l2_bytes": attribute(_L2_CACHE_SIZE),
    }


def _attribute(runtime: Any, device: int, number: int) -> int:
    """An attribute of a device; 0 if the driver refuses to tell."""
    try:
        return int(runtime.deviceGetAttribute(number, device))
    except RuntimeError:
        return 0


def device_for(arch: str) -> Device:
    """The device, if it runs kernels for `arch`: their cubins, or, on a newer device, their PTX.

    Raises:
        EqsatError: NoDevice where there is no such device.
    """
    device = find_device()
    if device is None:
        fail(Kind.NO_DEVICE, _STAGE, f"the program is for {arch}, and there is no CUDA device here", hint=_HINT)
    if not (runs_cubins(device.capability, arch) or _runs_ptx(device.capability, arch)):
        fail(
            Kind.NO_DEVICE,
            _STAGE,
            f"the program is for {arch}, and {device.name} is {device.arch}",
            hint=f'compile the model for target="{device.arch}"',
        )
    return device


def runs_cubins(capability: str, arch: str) -> bool:
    """Whether a device runs the cubins for `arch`: one of their major version from their minor version on (CUDA
    programming guide, binary compatibility); those with features of one architecture, such as sm_90a, run on devices of
    exactly that version."""
    wanted, specific = _version_of(arch)
    if specific:
        return capability == wanted
    return capability[:-1] == wanted[:-1] and int(capability[-1]) >= int(wanted[-1])


def _runs_ptx(capability: str, arch: str) -> bool:
    """Whether the driver of a device compiles PTX for `arch`: any version from that one on does, unless the PTX has
    features of one architecture (CUDA programming guide, PTX compatibility)."""
    wanted, specific = _version_of(arch)
    return int(capability) >= int(wanted) if not specific else capability == wanted


def _version_of(arch: str) -> tuple[str, bool]:
    """ "sm_90a" → "90", and whether it is of one architecture alone."""
    wanted, specific = re.fullmatch(r"sm_?(\d+)(a?)", arch).groups()  # type: ignore[union-attr]
    return wanted, bool(specific)
