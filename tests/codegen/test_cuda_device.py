"""On a real GPU: the kernels that are emulated elsewhere give the same numbers, and so does every device function."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from codegen.compile.nvrtc import build
from codegen.simt import compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from ir.device_functions import DEVICE_FUNCTIONS
from ir.dtype import DTYPES
from ir.gpu import Kernel
from tests.codegen.simt.test_simt_functions import GROUPS, computed, kernel_name, kernel_text, parts, samples
from tests.support.gpu_gemm import gemm_kernel
from tests.support.gpu_rows import softmax_kernel

ULPS = {"exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "sigmoid", "rsqrt", "pow"}
"""Functions that the emulator and a GPU approximate each in its own way."""


@functools.cache
def _arch() -> str | None:
    """That of the device here, such as sm_90; None where there is none."""
    try:
        import cupy

        return f"sm_{cupy.cuda.Device(0).compute_capability}" if cupy.cuda.runtime.getDeviceCount() else None
    except (ImportError, RuntimeError):
        return None


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(_arch() is None, reason="there is no CUDA device here")]


def launched(
    text: str, name: str, grid: Sequence[int], threads: int, arguments: Sequence[Any], shared_bytes: int = 0
) -> None:
    """Runs a kernel; arrays are copied to the device and back."""
    import cupy

    kernel = cupy.RawModule(path=str(build(text, str(_arch())).path)).get_function(name)
    kernel.max_dynamic_shared_size_bytes = shared_bytes
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    there = {id(each): cupy.asarray(each.view(np.uint8).reshape(-1)) for each in arrays}
    passed = tuple(there[id(each)] if isinstance(each, np.ndarray) else np.int32(each) for each in arguments)
    kernel((*grid, 1, 1)[:3], (threads, 1, 1), passed, shared_mem=shared_bytes)
    for each in arrays:
        each.view(np.uint8).reshape(-1)[:] = there[id(each)].get()


def run(kernel: Kernel, arrays: Sequence[np.ndarray]) -> None:
    launched(cuda_text(kernel), kernel.name, kernel.grid, kernel.threads, arrays, kernel.shared_bytes)


@pytest.mark.parametrize(
    "kernel",
    [
        gemm_kernel(200, 328, 72, bias=True, out="bf16", min_blocks=2),
        gemm_kernel(201, 327, 71, dtype="fp16", bias=True),
        gemm_kernel(1024, 1024, 1024, stages=4, tile=(128, 256, 32), warps=(2, 4)),
        gemm_kernel(1, 1, 1),
    ],
    ids=lambda each: each.name,
)
def test_products(kernel: Kernel) -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(each.shape).astype(DTYPES[each.dtype].numpy) for each in kernel.params]
    run(kernel, arrays)
    a, b, *bias = (each.astype(np.float64) for each in arrays[:-1])
    expected = np.maximum(a @ b + bias[0], 0) if bias else a @ b
    error = np.abs(arrays[-1].astype(np.float64) - expected).max() / np.abs(expected).max()
    assert error < (1e-2 if kernel.params[-1].dtype == "bf16" else 1e-5)


@pytest.mark.parametrize(("rows", "columns", "dtype"), [(3, 1001, "fp16"), (2, 4096, "fp32"), (2, 8, "bf16")])
def test_softmax(rows: int, columns: int, dtype: str) -> None:
    x = np.random.default_rng(2).standard_normal((rows, columns)).astype(DTYPES[dtype].numpy)
    y = np.zeros_like(x)
    run(softmax_kernel(rows, columns, dtype=dtype), [x, y])
    wide = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    tolerance = {"fp16": 1e-3, "fp32": 1e-5, "bf16": 1e-2}[dtype]
    np.testing.assert_allclose(y.astype(np.float64), wide / wide.sum(1, keepdims=True), rtol=tolerance, atol=1e-7)


@pytest.mark.parametrize("group", GROUPS, ids=kernel_name)
def test_functions_agree_with_the_emulator(group: tuple[str, tuple[str, ...]]) -> None:
    names = GROUPS[group]
    text = kernel_text(group, names)
    emulated = compile_kernels(text)
    for place, name in enumerate(names):
        expected, _ = computed(emulated, name)
        found = np.zeros_like(expected)
        arguments = [samples(each, number) for number, each in enumerate(parts(DEVICE_FUNCTIONS[name])[1])]  # type: ignore[index]
        launched(text, kernel_name(group), (1,), 32, [*arguments, found, place, found.size])
        if name.split("_")[1] in ULPS:
            np.testing.assert_array_max_ulp(np.nan_to_num(found), np.nan_to_num(expected), 4)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=name)
