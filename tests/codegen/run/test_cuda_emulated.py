"""The text of dialect kernels runs: numbers, no race, no bank conflict; and what the verifier accepts, the emulator
finds nothing in."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from codegen.simt import Order, Report, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from ir.diagnostics import EqsatError
from ir.dtype import DTYPES
from ir.index.expr import mod
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.nodes import Barrier, CommitGroup, CpAsync, LdMatrix, LdSharedVec, Stmt, StSharedVec, WaitGroup
from ir.kernel.gpu.verify import verify
from ir.kernel.nodes import walk
from tests.support.gpu.edit import changed, edited, without
from tests.support.gpu.gemm import gemm_kernel
from tests.support.gpu.rows import softmax_kernel

SMALL = (64, 64, 32)


def run(kernel: GpuKernel, arrays: Sequence[np.ndarray], order: Order = Order.FORWARD) -> Report:
    compiled = compile_kernels(cuda_text(kernel))[kernel.name]
    return compiled.launch(kernel.grid, arrays, shared_bytes=kernel.shared_bytes, order=order, seed=3)


def product(kernel: GpuKernel, order: Order) -> tuple[Report, float]:
    """The report, and the greatest error relative to the greatest element."""
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(param.shape).astype(DTYPES[param.dtype].numpy) for param in kernel.params]
    a, b, *bias = (array.astype(np.float64) for array in arrays[:-1])
    expected = np.maximum(a @ b + bias[0], 0) if bias else a @ b
    report = run(kernel, arrays, order)
    return report, float(np.abs(arrays[-1].astype(np.float64) - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize(
    "kernel",
    [
        gemm_kernel(65, 72, 104, tile=SMALL, bias=True, out="bf16"),
        gemm_kernel(33, 71, 37, tile=SMALL, dtype="fp16", bias=True),
        gemm_kernel(70, 66, 34, tile=SMALL, stages=2, out="bf16"),
        gemm_kernel(1, 1, 1, tile=SMALL),
        gemm_kernel(66, 68, 64, tile=SMALL),
        gemm_kernel(130, 136, 200, stages=4, warps=(2, 4), out="bf16"),
    ],
    ids=lambda kernel: kernel.name,
)
def test_products(kernel: GpuKernel) -> None:
    for order in Order:
        report, error = product(kernel, order)
        report.require_clean()
        assert error < (1e-2 if kernel.params[-1].dtype == "bf16" else 1e-5)
    turns = -(-kernel.params[0].shape[1] // 32)
    blocks = kernel.grid[0] * kernel.grid[1]
    tile = next(buffer for buffer in kernel.shared if buffer.name == "As").shape[0]
    assert report.counters.mma == blocks * turns * 2 * (tile // 16) * (tile // 8)
    assert report.counters.matrix_bank_conflicts == 0
    assert report.counters.copy_bank_conflicts == 0
    if kernel.params[0].shape[1] % 2 == kernel.params[1].shape[1] % 2 == 0:  # single elements fill tiles as they come
        assert report.counters.shared_bank_conflicts == 0


def test_without_a_swizzle_the_numbers_stay_and_banks_conflict() -> None:
    report, error = product(gemm_kernel(64, 64, 64, tile=SMALL, swizzled=False), Order.FORWARD)
    report.require_clean()
    assert error < 1e-5
    assert report.counters.matrix_bank_conflicts > 0


@pytest.mark.parametrize(("rows", "columns", "dtype"), [(3, 1001, "fp16"), (2, 4096, "fp32"), (2, 8, "bf16")])
def test_softmax(rows: int, columns: int, dtype: str) -> None:
    x = np.random.default_rng(2).standard_normal((rows, columns)).astype(DTYPES[dtype].numpy)
    y = np.zeros_like(x)
    run(softmax_kernel(rows, columns, dtype=dtype), [x, y], Order.RANDOM).require_clean()
    wide = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    tolerance = {"fp16": 1e-3, "fp32": 1e-6, "bf16": 1e-2}[dtype]
    np.testing.assert_allclose(y.astype(np.float64), wide / wide.sum(1, keepdims=True), rtol=tolerance, atol=1e-7)


# --- the verifier against the emulator ---


_EDITED = (WaitGroup, CommitGroup, Barrier, CpAsync, LdMatrix, StSharedVec, LdSharedVec)


def _edit(kernel: GpuKernel, rng: random.Random) -> GpuKernel:
    """One random change to what orders the kernel's threads."""
    there = [type(stmt) for stmt in walk(kernel.body) if isinstance(stmt, _EDITED)]
    kind = rng.choice(list(dict.fromkeys(there)))
    number = rng.randrange(there.count(kind))
    if kind in (CpAsync, LdMatrix):
        field = "to" if kind is CpAsync else "source"
        by = rng.choice([1, 2])

        def moved(stmt: Stmt) -> object:
            place = getattr(stmt, field)
            stages = next(buffer.stages for buffer in kernel.shared if buffer.name == place.shared)
            return msgspec.structs.replace(place, stage=mod(place.stage.shift(by), stages, kernel.box))

        return changed(kernel, kind, number, **{field: moved})
    if kind is WaitGroup and rng.random() < 0.7:
        return changed(kernel, kind, number, pending=rng.randrange(4))
    if kind in (StSharedVec, LdSharedVec) or rng.random() < 0.5:
        return without(kernel, kind, number)
    chosen = [stmt for stmt in walk(kernel.body) if isinstance(stmt, kind)][number]
    return edited(kernel, lambda stmt: (stmt, stmt) if stmt is chosen else (stmt,))


@pytest.mark.slow
def test_what_the_verifier_accepts_runs_clean() -> None:
    rng = random.Random(5)
    accepted: list[GpuKernel] = []
    refused = 0
    while len(accepted) < 12:
        kernel = gemm_kernel(64, 64, 32 * rng.randint(1, 7), tile=SMALL, stages=rng.choice([2, 3, 4]))
        for _ in range(rng.choice([1, 1, 2, 3])):
            kernel = _edit(kernel, rng)
        try:
            verify(kernel)
        except EqsatError:
            refused += 1
        else:
            accepted.append(msgspec.structs.replace(kernel, name=f"eq_edited_{len(accepted)}"))
    assert refused > len(accepted)
    compiled = compile_kernels("\n".join(map(cuda_text, accepted)))
    for kernel in accepted:
        arrays = [np.ones(param.shape, DTYPES[param.dtype].numpy) for param in kernel.params]
        for order in (Order.REVERSE, Order.RANDOM):
            report = compiled[kernel.name].launch(
                kernel.grid, arrays, shared_bytes=kernel.shared_bytes, order=order, seed=1
            )
            report.require_clean()
