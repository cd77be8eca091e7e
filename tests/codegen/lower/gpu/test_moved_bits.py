"""16-bit operands that no vector holds: their elements reach shared memory as bits, unless something converts them."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.simt import Order
from codegen.text.gpu_to_cuda import cuda_text
from ir.diagnostics import EqsatError
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.nodes import CpAsync, StShared
from ir.kernel.gpu.verify import verify
from ir.kernel.nodes import BITS_OF_HALF, Const, walk
from ir.region.region import Region
from tests.codegen.lower.gpu.test_contraction import matmul, nhwc, prologue
from tests.support.gpu.edit import changed
from tests.support.gpu.emulated import Emulated, lowered, plans_of, values_of
from tests.support.programs.regions import buffer, contraction, ewise, read, region, same
from tests.support.programs.stream_regions import attention


def stored(kernel: GpuKernel) -> set[str]:
    """The dtypes of registers from which operands are stored to shared memory."""
    return {stmt.value.dtype for stmt in walk(kernel.body) if isinstance(stmt, StShared)}


def padded_with(fill: float) -> Region:
    """Y[i, j] = Σₖ X[i, k - 1]·B[k, j], where X is `fill` beside its columns."""
    over = (20, 24, 19)
    x = read("X", over, "i0", "i2 - 1", pad={1: 17}, fill=fill)
    body = [
        contraction("C", over, 1, x, read("B", over, "i2", "i1"), "fp32"),
        ewise("R", "relu", (20, 24), same("C", (20, 24))),
    ]
    inputs = [buffer("X", (20, 17), "fp16"), buffer("B", (19, 24), "fp16")]
    return region(f"padded {fill}", inputs, body, (20, 24))


BITS = [
    *(matmul((), 33, 35, 37, dtype=dtype) for dtype in ("fp16", "bf16")),
    *(matmul((2,), 1, 1, 1, dtype="fp16"), matmul((), 19, 23, 300, lhs_t=True, dtype="bf16")),
    *(nhwc(1, 5, 7, 6, dtype="fp16"), padded_with(0), attention(2, 9, 21, 5, 7, dtype="bf16")),
]
COMPUTED = [prologue(30, 35, 50), padded_with(0.5), matmul((), 33, 35, 37)]


@pytest.mark.parametrize("one", BITS, ids=lambda one: one.name)
def test_elements_that_nothing_computes_move_as_bits(one: Region) -> None:
    plans = [plan for plan, _ in plans_of(one)]
    emulated = Emulated([(one, plan) for plan in (plans[0], plans[-1])])
    assert stored(emulated.kernels[0]) == {BITS_OF_HALF}
    text = cuda_text(emulated.kernels[0])
    assert "eq_ld_global_u16" in text
    assert "eq_st_shared_u16" in text
    emulated.assert_all_play((Order.RANDOM, Order.REVERSE))


@pytest.mark.parametrize("one", COMPUTED, ids=lambda one: one.name)
def test_elements_that_something_computes_do_not(one: Region) -> None:
    kernel = lowered(one, plans_of(one)[0][0])
    copied = any(isinstance(stmt, CpAsync) for stmt in walk(kernel.body))
    assert "fp32" in stored(kernel) or copied
    assert one.name != "padded 0.5" or "fp32" in stored(kernel)


def test_bits_of_what_is_no_number_stay() -> None:
    """NaN, ∞ and -0 reach the products; beyond the last term are zeros, not what memory holds there."""
    one = matmul((), 5, 7, 9, dtype="fp16")
    inputs = values_of(one)
    inputs["A"][:4, 8] = [np.nan, np.inf, -np.inf, -0.0]
    inputs["B"][8] = 1
    plans = [plan for plan, _ in plans_of(one)]
    emulated = Emulated([(one, plan) for plan in plans[:3]])
    for i in range(len(emulated.kernels)):
        report, outputs = emulated.run(i, inputs)
        report.require_clean()
        got = outputs[one.outputs[0].name].astype(np.float32)
        assert np.isnan(got[0]).all()
        assert np.isposinf(got[1]).all()
        assert np.isneginf(got[2]).all()
        assert np.isfinite(got[3:]).all()


def test_bits_go_to_16_bit_floats_alone() -> None:
    for one, dtype in ((BITS[0], "i32"), (prologue(30, 35, 50, "fp32"), BITS_OF_HALF)):
        kernel = lowered(one, plans_of(one)[0][0])
        with pytest.raises(EqsatError, match="does not go with registers"):
            verify(changed(kernel, StShared, value=Const(0, dtype)))
