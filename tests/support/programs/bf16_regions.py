"""Contractions of operands of bf16 with sums of fp32."""

from __future__ import annotations

from ir.region.region import Region
from tests.support.programs import regions
from tests.support.programs.narrow_regions import narrow, with_constant


def widened_operand(fill: float = 0.5) -> Region:
    """relu(A · cast(B)): B is widened in the kernel, and read beyond its edge, where it is `fill`."""
    m, n, k = 24, 40, 50
    over = (m, n, k)
    body = [
        regions.ewise("wide", "cast", (k - 2, n), regions.same("B", (k - 2, n))),
        regions.contraction(
            "C",
            over,
            1,
            regions.read("A", over, "i0", "i2"),
            regions.read("wide", over, "i2 - 1", "i1", pad={0: k - 2}, fill=fill),
        ),
        regions.ewise("R", "relu", (m, n), regions.same("C", (m, n))),
    ]
    inputs = [regions.buffer("A", (m, k), "bf16"), regions.buffer("B", (k - 2, n), "bf16")]
    return regions.region("widened", inputs, body, (m, n))


BF16_REGIONS = {
    "whole": regions.matmul((), 128, 96, 256, dtype="bf16"),
    "odd": regions.matmul((), 37, 129, 65, dtype="bf16"),
    "rows of one register": regions.matmul((), 16, 100, 64, dtype="bf16"),
    "few rows": regions.matmul((), 5, 100, 70, dtype="bf16"),
    "one row": regions.matmul((), 1, 300, 90, dtype="bf16"),
    "one column": regions.matmul((), 50, 1, 90, dtype="bf16"),
    "one of all": regions.matmul((), 1, 1, 1, dtype="bf16"),
    "two terms": regions.matmul((), 20, 20, 2, dtype="bf16"),
    "no terms": regions.matmul((), 20, 20, 0, dtype="bf16"),
    "batch": regions.matmul((2, 3), 17, 18, 19, dtype="bf16"),
    "transposed columns": regions.matmul((2,), 33, 34, 64, rhs_t=True, dtype="bf16"),
    "transposed rows": regions.matmul((2,), 33, 34, 64, lhs_t=True, dtype="bf16"),
    "transposed rows of many": regions.matmul((), 100, 70, 77, lhs_t=True, dtype="bf16"),
    "constant rows": with_constant(regions.matmul((), 100, 70, 77, dtype="bf16"), "A"),
    "constant transposed rows": with_constant(regions.matmul((2,), 37, 50, 130, lhs_t=True, dtype="bf16"), "A"),
    "transposed output": regions.matmul((2,), 33, 34, 64, rhs_t=True, out_t=True, dtype="bf16"),
    "shared columns": regions.matmul((3,), 20, 40, 60, share_rhs=True, dtype="bf16"),
    "long": regions.matmul((), 40, 40, 5000, dtype="bf16"),
    "several blocks of terms": regions.matmul((), 70, 50, 601, dtype="bf16"),
    "epilogue": regions.gemm_bias_relu(70, 90, 100, "bf16"),
    "convolution": narrow(regions.conv(1, 20, 40, (14, 14), 3, 1, 1, epilogue=True), "bf16"),
    "strided convolution": narrow(regions.conv(2, 8, 24, (9, 11), 3, 2, 1), "bf16"),
    "groups": narrow(regions.conv(2, 8, 48, (9, 11), 3, 1, 2, 2, groups=2), "bf16"),
    "one by one": narrow(regions.conv(2, 40, 33, (10, 10), 1, 1, 0), "bf16"),
    "widened": widened_operand(),
}
