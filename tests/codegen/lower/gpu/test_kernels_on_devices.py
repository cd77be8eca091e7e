"""Small kernels of every template beside playback: in the emulator, and on a GPU where there is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bench.device.launch import Device
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.runtime.verify import TOLERANCE, relative_error
from ir.dtype import DTYPES
from ir.plan.plan import rounds_to_tf32
from ir.region.playback import play_region
from tests.support.cpu.played import Array
from tests.support.gpu.devices import DEVICES
from tests.support.gpu.kernels import Small, small_kernels

LAUNCHES = 3
"""Of each kernel with the same arguments: a race shows in bits that change."""


@pytest.mark.slow
@pytest.mark.parametrize("make", DEVICES)
def test_kernels_compute_what_their_regions_do(make: Callable[[], Device]) -> None:
    device = make()
    text = "\n".join(cuda_text(kernel.kernel) for kernel in small_kernels())
    for kernel in small_kernels():
        results = [launched(device, text, kernel) for _ in range(LAUNCHES)]
        for name, got in results[0].items():
            for other in results[1:]:
                np.testing.assert_array_equal(other[name].view(np.uint8), got.view(np.uint8), err_msg=kernel.name)
        assert_plays(kernel, results[0])


TF32 = 2.0**-11
"""Half a unit in the last of tf32's ten bits, relative."""


def launched(device: Device, text: str, small: Small) -> dict[str, Array]:
    """The outputs by name."""
    kernel = small.kernel
    arguments, outputs = small.arguments()
    prepared = device.prepare(text, kernel.name, kernel.grid, kernel.threads, arguments, kernel.shared_bytes)
    prepared()
    prepared.fetch()
    return outputs


def assert_plays(small: Small, outputs: dict[str, Array]) -> None:
    """Floats as far from playback in fp64 as their dtype allows, or as four times the playback that rounds, or as one
    rounding to tf32: of the weights of attention, which the kernel computes."""
    exact, rounded = (play_region(small.region, small.inputs(), wide=wide) for wide in (True, False))
    for output in small.region.outputs:
        kind, got = output.memref.dtype, outputs[output.name]
        if DTYPES[kind].is_float:
            allowed = 4 * relative_error(rounded[output.name], exact[output.name])
            narrowed = TF32 if rounds_to_tf32(small.plan) else 0.0
            assert relative_error(got, exact[output.name]) <= max(TOLERANCE[kind], allowed, narrowed), small.name
        else:
            np.testing.assert_array_equal(got, rounded[output.name], err_msg=small.name)
