"""On a real GPU: kernels written by hand give the numbers that they give elsewhere, and so does every device function;
the kernels of ours that measure a GPU's ceilings, and the clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from bench.device.ceilings import check as check_ceilings
from bench.device.clock import EventClock
from bench.device.fixtures import differences
from bench.device.launch import Device, EmulatedDevice, launch
from bench.device.probes import run as run_probes
from codegen.text.gpu_to_cuda import cuda_text
from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import GpuKernel
from tests.support.gpu.devices import DEVICES
from tests.support.gpu.gemm import gemm_kernel
from tests.support.gpu.rows import softmax_kernel

PRODUCTS = [
    gemm_kernel(200, 328, 72, bias=True, out="bf16", min_blocks=2),
    gemm_kernel(201, 327, 71, dtype="fp16", bias=True),
    gemm_kernel(1, 1, 1),
]


def run(device: Device, kernel: GpuKernel, arrays: Sequence[np.ndarray]) -> None:
    launch(device, cuda_text(kernel), kernel.name, kernel.grid, kernel.threads, arrays, kernel.shared_bytes)


def assert_product(device: Device, kernel: GpuKernel) -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(param.shape).astype(DTYPES[param.dtype].numpy) for param in kernel.params]
    run(device, kernel, arrays)
    a, b, *bias = (array.astype(np.float64) for array in arrays[:-1])
    expected = np.maximum(a @ b + bias[0], 0) if bias else a @ b
    error = np.abs(arrays[-1].astype(np.float64) - expected).max() / np.abs(expected).max()
    assert error < (1e-2 if kernel.params[-1].dtype == "bf16" else 1e-5)


@pytest.mark.parametrize("make", DEVICES)
@pytest.mark.parametrize("kernel", PRODUCTS, ids=lambda kernel: kernel.name)
def test_products(kernel: GpuKernel, make: Callable[[], Device]) -> None:
    assert_product(make(), kernel)


@pytest.mark.parametrize("make", [DEVICES[1]])
def test_a_large_product(make: Callable[[], Device]) -> None:
    assert_product(make(), gemm_kernel(1024, 1024, 1024, stages=4, tile=(128, 256, 32), warps=(2, 4)))


@pytest.mark.parametrize("make", DEVICES)
@pytest.mark.parametrize(("rows", "columns", "dtype"), [(3, 1001, "fp16"), (2, 4096, "fp32"), (2, 8, "bf16")])
def test_softmax(rows: int, columns: int, dtype: str, make: Callable[[], Device]) -> None:
    x = np.random.default_rng(2).standard_normal((rows, columns)).astype(DTYPES[dtype].numpy)
    y = np.zeros_like(x)
    run(make(), softmax_kernel(rows, columns, dtype=dtype), [x, y])
    wide = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    tolerance = {"fp16": 1e-3, "fp32": 1e-5, "bf16": 1e-2}[dtype]
    np.testing.assert_allclose(y.astype(np.float64), wide / wide.sum(1, keepdims=True), rtol=tolerance, atol=1e-7)


@pytest.mark.parametrize("make", [DEVICES[1]])
def test_functions_agree_with_the_emulator(make: Callable[[], Device]) -> None:
    assert not differences(run_probes(EmulatedDevice()), run_probes(make()))


@pytest.mark.parametrize("make", DEVICES)
def test_ceilings_are_of_right_kernels(make: Callable[[], Device]) -> None:
    check_ceilings(make())


@pytest.mark.parametrize("make", [DEVICES[1]])
def test_the_clock_tells_more_work_from_less(make: Callable[[], Device]) -> None:
    import cupy

    assert make().name
    arrays = {name: cupy.zeros(size, cupy.uint8) for name, size in (("short", 1 << 24), ("long", 1 << 27))}
    times = EventClock().measure({name: array.copy for name, array in arrays.items()}, 0.2)
    assert 1e-6 < times["short"].median < times["long"].median < 1e-1
    assert all(time.low <= time.median <= time.high for time in times.values())
