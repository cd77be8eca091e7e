"""What tests of GPU kernels run on: the emulator everywhere, and the GPU where there is one."""

from __future__ import annotations

import pytest

from bench.device.launch import CudaDevice, EmulatedDevice
from codegen.run.device import find_device

NEEDS_CUDA = (
    pytest.mark.gpu,
    pytest.mark.skipif(find_device() is None, reason="there is no CUDA device here"),
)
DEVICES = [pytest.param(EmulatedDevice, id="emulator"), pytest.param(CudaDevice, id="cuda", marks=NEEDS_CUDA)]
