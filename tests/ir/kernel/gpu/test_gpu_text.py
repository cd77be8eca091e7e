"""The GPU dialect as text and as JSON."""

from __future__ import annotations

import json

import pytest

from ir.kernel.gpu.dump import kernel_dump
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.nodes import walk
from ir.serde import from_json, to_builtins, to_json
from tests.support.gpu.gemm import gemm_kernel
from tests.support.gpu.rows import softmax_kernel

KERNELS = [gemm_kernel(200, 328, 72, bias=True, out="bf16"), gemm_kernel(3, 5, 7), softmax_kernel(3, 1001)]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_json_reads_back(kernel: GpuKernel) -> None:
    assert from_json(to_json(kernel), GpuKernel) == kernel
    assert json.loads(json.dumps(to_builtins(kernel))) == to_builtins(kernel)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_the_dump_has_the_seeds_shape(kernel: GpuKernel) -> None:
    dump = kernel_dump(kernel)["gpu_ir"]
    assert json.loads(json.dumps(dump)) == dump
    assert dump["arch"] == "sm80"

    def names(stmts: list[dict[str, dict[str, object]]]) -> list[str]:
        results: list[str] = []
        for stmt in stmts:
            [(name, fields)] = stmt.items()
            results.append(name)
            for block in ("body", "then", "orelse"):
                results += names(fields.get(block, []))  # type: ignore[arg-type]
        return results

    assert names(dump["stmts"]) == [type(stmt).__name__.removeprefix("Gpu") for stmt in walk(kernel.body)]


def test_a_statement_of_the_dump() -> None:
    loop = kernel_dump(gemm_kernel(256, 256, 256))["gpu_ir"]["stmts"][2]["For"]
    copies = loop["body"][3]["If"]["then"][0]["For"]
    assert copies["variable"] == "a_piece"
    assert copies["body"][0]["CpAsync"] == {
        "to": "As[(kb + 2) % 3][32*a_piece + thread//4, 8*(thread % 4)]",
        "buffer": "A",
        "at": ["128*block_y + 32*a_piece + thread//4", "32*kb + 8*(thread % 4) + 64"],
        "nbytes": 16,
        "where": ["0 <= 128*block_y + 32*a_piece + thread//4 < 256", "0 <= 32*kb + 8*(thread % 4) + 64 < 256"],
    }


def test_the_printed_form() -> None:
    text = str(softmax_kernel(3, 1001))
    assert text.splitlines()[:4] == [
        "kernel eq_softmax_3x1001_fp16 sm80 threads=128 grid=(3, 1, 1) (x: fp16[3, 1001], y: fp16[3, 1001] out)",
        "  shared m_warps: fp32[4] at 0",
        "  shared s_warps: fp32[4] at 128",
        "  registers row: fp32[8]",
    ]
    assert "  m_own := max(m_own, shfl_xor(m_own, 16))" in text.splitlines()
    gemm = str(gemm_kernel(256, 256, 256))
    assert "  shared As: bf16[3 stages of 128, 32] swizzle 2 at 0" in gemm.splitlines()
    products = [line.strip() for line in gemm.splitlines() if "mma" in line and "kernel" not in line]
    assert products == ["mma m16n8k16 bf16 acc[32*i + 4*j] += a[16*step + 4*i] · b[16*step + 2*j]"]
