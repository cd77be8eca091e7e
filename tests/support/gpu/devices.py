"""Devices for tests of GPU kernels: the emulator everywhere, and the GPU if there is one."""

from __future__ import annotations

import os

import pytest

from bench.device.launch import CudaDevice, EmulatedDevice
from codegen.run.device import find_device

NEEDS_CUDA = (
    pytest.mark.gpu,
    pytest.mark.skipif(find_device() is None, reason="there is no CUDA device here"),
)
DEVICES = [pytest.param(EmulatedDevice, id="emulator"), pytest.param(CudaDevice, id="cuda", marks=NEEDS_CUDA)]


def end_where_lost() -> None:
    """Ends the process where a kernel's fault has left it no device, as all further tests would fail for that alone;
    under pytest-xdist another process goes on with them."""
    import cupy

    try:
        cupy.cuda.Device().synchronize()
    except RuntimeError as error:
        if "PYTEST_XDIST_WORKER" in os.environ:
            os._exit(1)
        pytest.exit(f"the device is lost: {error}", returncode=1)
