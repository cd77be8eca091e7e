"""GPU dialect → CUDA text: what a body may hold, and how it reads."""

from __future__ import annotations

import math
import re

import msgspec
import numpy as np
import pytest

from codegen.simt import compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from ir.index.expr import ZERO, AxisExpr, constant
from ir.kernel.gpu.device_functions import DEVICE_FUNCTIONS
from ir.kernel.gpu.kernel import BLOCK_X, COUNTER, THREAD, GpuKernel, GpuParam, Registers, Shared, id_variables
from ir.kernel.gpu.nodes import (
    At,
    Call,
    CpAsync,
    Element,
    GpuFor,
    GpuIf,
    Index,
    LdGlobalVec,
    LdSharedVec,
    LoadGlobal,
    LoadShared,
    SetElement,
    Shuffle,
    StGlobal,
    StGlobalVec,
    Stmt,
    StShared,
    StSharedVec,
)
from ir.kernel.nodes import Bind, Const, Let, Pick, Reg, Variable, Within
from tests.support.gpu.gemm import gemm_kernel
from tests.support.gpu.rows import softmax_kernel

KERNELS = [
    gemm_kernel(200, 328, 72, bias=True, out="bf16"),
    gemm_kernel(201, 327, 71, dtype="fp16"),
    gemm_kernel(128, 66, 100, stages=4),
    softmax_kernel(3, 1001),
    softmax_kernel(3, 4096, dtype="fp32"),
]
FORBIDDEN = re.compile(
    r"\basm\b|__shared__|__device__|__global__|#\s*include|threadIdx|blockIdx|__\w+sync|\bextern\b(?! \"C\")"
)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_bodies_call_device_functions_and_nothing_else(kernel: GpuKernel) -> None:
    text = cuda_text(kernel)
    assert not FORBIDDEN.findall(text)
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    called = set(re.findall(r"\b(\w+)(?:<\d+>)?\(", code)) - {"for", "if", "EQ_KERNEL", kernel.name}
    assert called <= DEVICE_FUNCTIONS.keys()


def test_variables_beyond_32_bits_are_wide() -> None:
    """A loop, a bound index and a picked one around 2³³, whose distance to their start is stored."""
    base, count = 2**33 - 5, 9
    far, near, at, picked = range(6, 10)

    def axis(number: int) -> AxisExpr:
        return AxisExpr(0, ((number, 1),))

    place = axis(near) - constant(3 * base)
    body = (
        Bind(near, axis(far) * 3, most=(constant(3 * base + 3 * count - 6),)),
        Pick(picked, Const(base + count, "i64")),
        Bind(at, axis(picked) - constant(base)),
        StGlobal("Y", (place,), Index(axis(at), "i32"), (Within(axis(THREAD), 0, 1),)),
    )
    ids = id_variables(32, (1, 1, 1))
    variables = (
        *ids,
        Variable("far", base, base + count - 1),
        Variable("near", 3 * base, 3 * (base + count - 2)),
        Variable("at", -base, count - 3),
        Variable("picked", 0, base + count - 3),
    )
    loop = GpuFor(far, constant(base), constant(base + count), body)
    kernel = GpuKernel("eq_far", "sm80", 32, (1, 1, 1), (GpuParam("Y", "i32", (3 * count,), True),), variables, (loop,))
    text = cuda_text(kernel)
    assert "for (long long far = 8589934587; far < 8589934596; far++) {" in text
    assert "const long long picked = eq_clip_wide(" in text
    y = np.full(3 * count, 77, np.int32)
    compile_kernels(text)["eq_far"].launch((1,), [y]).require_clean()
    np.testing.assert_array_equal(np.flatnonzero(y == count - 3), np.arange(0, 3 * count - 5, 3))


def test_a_kernel_reads_beside_its_plan() -> None:
    text = cuda_text(gemm_kernel(256, 256, 256, out="bf16", min_blocks=2))
    lines = [line.strip() for line in text.splitlines()]
    assert lines[:3] == [
        "/* plan tile 128x128x32 stages 3 warp_tile 64x64",
        "region C[256,256] = A[256,256] · B[256,256] */",
        'extern "C" EQ_KERNEL(128, 2) void eq_gemm_256x256x256_bf16(const eq_bf16 *__restrict__ A, '
        "const eq_bf16 *__restrict__ B, eq_bf16 *__restrict__ C) {",
    ]
    assert "// 49152 bytes of shared memory:" in lines
    assert "float acc[128] = {};" in lines
    assert "if (kb + 2 < 8) {" in lines
    assert (
        "eq_cp_async16(8192 * ((kb + 2) % 3) + 2048 * a_piece + eq_swizzle<2>(64 * (thread / 4) + 16 * (thread % 4)), "
        "A + (256 * (128 * block_y + thread / 4) + 32 * kb + 8 * (thread % 4) + 64) + (8192 * a_piece), 16);"
    ) in lines
    assert "eq_mma_m16n8k16_bf16(acc + 32 * i + 4 * j, a + 16 * step + 4 * i, b + 16 * step + 2 * j);" in lines


def test_what_other_blocks_store_to_is_not_restricted() -> None:
    parts, tickets = GpuParam("parts", "fp32", (4,), written=True), GpuParam("tickets", COUNTER, (1,), written=True)
    text = cuda_text(msgspec.structs.replace(gemm_kernel(1, 1, 1), workspace=(parts, tickets)))
    assert "eq_f32 *__restrict__ C, eq_f32 *parts, eq_counter *tickets) {" in text


THREAD_AT = (AxisExpr(0, ((THREAD, 1),)),)
FOURS = AxisExpr(0, ((THREAD, 4),))
X0 = Element("x", ZERO, "fp32")


def small(*body: Stmt, **fields: object) -> GpuKernel:
    """A kernel of 128 threads with registers x (fp32), w (words), shared s and t, and one more variable."""
    kernel = softmax_kernel(4, 64)
    plain: dict[str, object] = {
        "body": body,
        "params": (GpuParam("given", "fp16", (512,)), GpuParam("out", "fp32", (512,), written=True)),
        "registers": (Registers("x", "fp32", 4, zero=True), Registers("w", "word", 4)),
        "shared": (Shared("s", "fp32", (512,), 0), Shared("t", "fp16", (4, 128), 2048, pitch=136)),
        "variables": (*kernel.variables[:6], Variable("i", 0, 511)),
        "comment": "",
    }
    return msgspec.structs.replace(kernel, **{**plain, **fields})


def line(*body: Stmt, **fields: object) -> str:
    """The last statement's text."""
    return cuda_text(small(*body, **fields)).splitlines()[-2].strip()


INSIDE = (Within(FOURS, 0, 500),)


@pytest.mark.parametrize(
    ("stmt", "text"),
    [
        (LdGlobalVec("x", ZERO, 4, "given", (FOURS,)), "eq_ld_global_f16x4(x, given + 4 * thread);"),
        (
            LdGlobalVec("x", ZERO, 4, "given", (FOURS,), INSIDE),
            "eq_ld_global_f16x4_if(4 * thread < 500, x, given + 4 * thread);",
        ),
        (LdGlobalVec("w", constant(2), 2, "given", (FOURS,)), "eq_ld_global_8(w + 2, given + 4 * thread);"),
        (StGlobalVec("out", (FOURS,), "x", ZERO, 4), "eq_st_global_f32x4(out + 4 * thread, x);"),
        (StGlobal("out", THREAD_AT, X0, (Within(THREAD_AT[0], 1, 99),)),
         "eq_st_global_f32_if(1 <= thread && thread < 99, out + thread, x[0]);"),
        (StShared(At("t", (constant(1), THREAD_AT[0])), X0), "eq_st_shared_f16(2 * thread + 2320, x[0]);"),
        (StSharedVec(At("s", (FOURS,)), "x", ZERO, 4), "eq_st_shared_f32x4(16 * thread, x);"),
        (LdSharedVec("w", ZERO, 1, At("s", THREAD_AT)), "eq_ld_shared_4(w, 4 * thread);"),
        (SetElement("x", ZERO, LoadShared(At("s", THREAD_AT), "fp32")), "x[0] = eq_ld_shared_f32(4 * thread);"),
        (SetElement("x", ZERO, LoadGlobal("given", THREAD_AT, "fp32")), "x[0] = eq_ld_global_f16(given + thread);"),
        (
            CpAsync(At("t", (ZERO, FOURS)), "given", (FOURS,), 8),
            "eq_cp_async8(8 * thread + 2048, given + 4 * thread, 8);",
        ),
        (
            CpAsync(At("t", (ZERO, FOURS)), "given", (FOURS,), 8, INSIDE, constant(511) - FOURS),
            "eq_cp_async8(8 * thread + 2048, given + 4 * thread, "
            "4 * thread < 500 ? 2 * eq_clip(-4 * thread + 511, 4) : 0);",
        ),
        (Pick(6, Const(7, "i64")), "const int i = eq_clip(7ll, 511);"),
        (Bind(6, FOURS, (constant(100),), (ZERO,)), "const int i = eq_min_i32(4 * thread, 100);"),
        (Let("y", Index(THREAD_AT[0], "fp32")), "const float y = (float)(thread);"),
        (Let("y", Shuffle("down", X0, constant(4), "fp32"), mutable=True), "float y = eq_shfl_down_f32(x[0], 4);"),
        (Let("y", Call("pack_bf16", (X0, X0), "word")), "const unsigned y = eq_pack_bf16(x[0], x[0]);"),
        (Let("y", Call("cast", (X0,), "i8")), "const signed char y = eq_cast_f32_i8(x[0]);"),
        (Let("y", Call("round_f16", (X0,), "fp32")), "const float y = eq_round_f16(x[0]);"),
        (Let("template", X0), "const float template_ = x[0];"),
        (Let("y", Const("-inf", "fp32")), "const float y = -eq_inf_f32();"),
        (Let("y", Const("nan", "fp64")), "const double y = eq_nan_f64();"),
        (Let("y", Const(-(2**63), "i64")), "const long long y = (-9223372036854775807ll - 1);"),
        (Let("y", Const(-math.pi, "fp32")), "const float y = -3.141592653589793f;"),
        (GpuIf((), ()), "}"),
    ],
)  # fmt: skip
def test_statements(stmt: Stmt, text: str) -> None:
    assert line(stmt) == text


def test_large_buffers_are_indexed_in_64_bits() -> None:
    at = (AxisExpr(0, ((BLOCK_X, 1),)), THREAD_AT[0])
    large = (GpuParam("given", "fp32", (4, 2**30)), GpuParam("out", "fp32", (512,), written=True))
    assert line(Let("y", LoadGlobal("given", at, "fp32")), params=large).endswith(
        "given + 1073741824ll * block_x + thread);"
    )


def test_what_is_not_used_is_not_declared() -> None:
    text = cuda_text(small(StGlobal("out", (ZERO,), Reg("y", "fp32"))))
    assert "eq_thread()" not in text
    assert "eq_block_x()" not in text
