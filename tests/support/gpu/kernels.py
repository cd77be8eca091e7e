"""Small kernels of every GPU template: what is counted, what is broken on purpose, and what hardware runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from codegen.backends.gpu import GpuBackend
from codegen.poly.analyse import checked_core
from eqsat.cost.targets import A100
from ir.kernel.gpu.kernel import GpuKernel
from ir.plan.plan import Plan, rounds_to_tf32
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.region.region import Region
from ir.term.rule import Exactness
from ir.tiny.tf32 import to_tf32
from tests.codegen.lower.cpu.test_lower_nest import softmax
from tests.codegen.lower.gpu.test_contraction import nhwc, prologue, residual
from tests.codegen.lower.gpu.test_gpu_nests import layer_norm, permuted
from tests.support.cpu.played import Array
from tests.support.gpu.emulated import arguments_of, values_of
from tests.support.programs import regions as r
from tests.support.programs import stream_regions


@dataclass(frozen=True)
class Small:
    """`name` says the region and which kind of plan it is."""

    name: str
    region: Region
    plan: Plan
    kernel: GpuKernel

    def arguments(self) -> tuple[list[Array], dict[str, Array]]:
        """What a launch is given, and the outputs among it."""
        return arguments_of(self.region, self.kernel, self.inputs())

    def inputs(self) -> dict[str, Array]:
        """Random ones, which rounding to tf32 does not change where the kernel rounds."""
        values = values_of(self.region)
        return {name: to_tf32(array) for name, array in values.items()} if rounds_to_tf32(self.plan) else values


REGIONS: Mapping[str, Region] = {
    "gemm bf16": r.gemm_bias_relu(72, 80, 96, "bf16"),
    "gemm odd fp16": r.matmul((), 33, 35, 37, dtype="fp16"),
    "gemm transposed bf16": r.matmul((2,), 64, 48, 64, lhs_t=True, rhs_t=True, dtype="bf16"),
    "gemm long bf16": r.matmul((), 64, 72, 1000, dtype="bf16"),
    "gemm fp32": r.matmul((), 40, 44, 52),
    "gemm i8": r.matmul((), 20, 24, 40, dtype="i8"),
    "row times matrix": r.matmul((), 1, 40, 130, rhs_t=True, dtype="fp16"),
    "prologue fp16": prologue(30, 40, 50),
    "residual bf16": residual(40, 48, 24),
    "conv NHWC": nhwc(2, 16, 24, 9),
    "conv NCHW": r.conv(2, 8, 24, (9, 11), 3, 2, 1),
    "attention bf16": stream_regions.attention(2, 33, 40, 16, 16, dtype="bf16"),
    "attention causal fp16": stream_regions.attention(2, 40, 40, 32, 32, causal=True, dtype="fp16"),
    "attention fp32": stream_regions.attention(1, 9, 17, 8, 8),
    "decode bf16": stream_regions.attention(2, 3, 300, 16, 16, group=2, dtype="bf16"),
    "decode fp32": stream_regions.attention(1, 1, 300, 8, 8),
    "softmax fp16": softmax(5, 264, "fp16"),
    "softmax vectors": softmax(5, 1000, "fp16"),
    "softmax long": softmax(2, 9001),
    "log-sum-exp long": stream_regions.log_sum_exp(2, 9001),
    "layer norm bf16": layer_norm(4, 264, "bf16"),
    "pointwise": r.pointwise((7, 130), "fp16"),
    "transpose": permuted((40, 50), (1, 0)),
    "cumsum": r.cumsum(2, 700),
    "cumsum long": r.cumsum(2, 9001),
    "sum of columns": r.column_reduce(70, 40),
    "max pool": r.maxpool(),
    "gemm tf32": r.matmul((), 72, 104, 200),
    "conv tf32": nhwc(2, 16, 24, 9, dtype="fp32"),
    "attention tf32": stream_regions.attention(8, 64, 128, 32, 32),
}
"""Those named so may round to tf32, and are taken by the plans that do."""


@cache
def small_kernels() -> tuple[Small, ...]:
    """Of each region the best plan of each kind, under names of their own."""
    results: list[Small] = []
    backend = GpuBackend()
    for name, region in REGIONS.items():
        core = checked_core(region)
        kinds: dict[str, Plan] = {}
        asked = "tf32" in name
        for plan, _ in backend.candidates(region, core, A100, Exactness.ROUNDING, tf32=asked):
            if rounds_to_tf32(plan) == asked:
                kinds.setdefault(kind_of(plan), plan)
        if any(kind.startswith("rows") for kind in kinds):  # beside which points go over a row for each of its elements
            kinds.pop("points", None)
        for kind, plan in kinds.items():
            kernel = backend.lower(region, core, plan, f"eq_k{len(results)}")
            results.append(Small(f"{name}: {kind}", region, plan, kernel))
    return tuple(results)


def kind_of(plan: Plan) -> str:
    """Which template, and how it is bent: "matmul mma split", "rows near reg"."""
    schedule = plan_to_schedule(plan)
    words = [value for name, value in schedule.algo_choice.items() if name != "loops"]
    kinds = [name for name in schedule.algo_choice if name not in ("nest", "loops", "team", "keep")]
    ring = ["ring"] if schedule.stages > 1 else []
    parts = ["split"] if {"split_k", "split_scan"} & {*schedule.layout_hints} else []
    return " ".join([*kinds, *words, *ring, *parts])
