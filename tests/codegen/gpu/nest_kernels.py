"""Kernels of nests for GPUs: every candidate of a region lowered and verified, run in the emulator beside playback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codegen.lower.gpu.lower_nest import lower_gpu_nest
from codegen.plan.gpu.nest_candidates import gpu_nest_candidates
from codegen.simt import Order, Report, compile_kernels
from codegen.simt.compile import Kernels
from codegen.text.gpu_to_cuda import cuda_text
from codegen.where.region_facts import region_facts
from eqsat.cost.targets import gpu_target
from ir.dtype import dtype
from ir.gpu import Kernel
from ir.gpu_verify import verify
from ir.plan import Plan
from ir.region import Region
from ir.region_playback import play_region
from tests.support.gpu_workspace import workspace_of

Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class GpuCase:
    """One kernel to try: `region` as `plan` says."""

    region: Region
    plan: Plan
    kernel: Kernel

    def __str__(self) -> str:
        shapes = [each.memref.shape for each in self.region.inputs]
        return f"{self.region.name}{shapes} {self.plan.algo_choice} {self.plan.tile} {self.plan.vectorize}"


def gpu_cases(
    regions: Iterable[Region], *, arch: str = "sm_80", ordered: bool = False, step: int = 1, most: int = 99
) -> list[GpuCase]:
    """Every `step`-th of the candidates of all regions (`most` of each), lowered and verified."""
    found, count = [], 0
    for region in regions:
        core = region_facts(region).core
        plans = gpu_nest_candidates(region, core, gpu_target(arch), ordered=ordered, most=most)
        assert plans, f"{region.name} has no plan: {core.reason}"
        for plan, _ in plans:
            count += 1
            if count % step == 0:
                kernel = lower_gpu_nest(region, core, plan, f"eq_k{count}")
                verify(kernel)
                found.append(GpuCase(region, plan, kernel))
    return found


def compiled(cases: Sequence[GpuCase]) -> Kernels:
    """All kernels in one text, ready to run in the emulator."""
    return compile_kernels("\n".join(cuda_text(each.kernel) for each in cases))


def run(kernels: Kernels, case: GpuCase, inputs: Arrays, order: Order, seed: int = 1) -> tuple[Report, Arrays]:
    """What was found, and the outputs."""
    outputs = {
        each.name: np.full(each.memref.shape, 77).astype(dtype(each.memref.dtype).numpy) for each in case.region.outputs
    }
    kernel = case.kernel
    arrays = [np.ascontiguousarray(inputs[each.name]) for each in case.region.inputs]
    arrays += [*outputs.values(), *workspace_of(kernel)]
    report = kernels[kernel.name].launch(kernel.grid, arrays, shared_bytes=kernel.shared_bytes, order=order, seed=seed)
    return report, outputs


def check(
    kernels: Kernels, case: GpuCase, inputs: Arrays, *, exact: bool = False, orders: Sequence[Order] = (Order.RANDOM,)
) -> Report:
    """A kernel's outputs against playback: equal bits where `exact` or not of floats, else by DESIGN's norms; nothing
    found in any order."""
    wanted = play_region(case.region, inputs)
    for order in orders:
        report, got = run(kernels, case, inputs, order)
        assert not report.findings, f"{case}: {report.findings[0]}\n{cuda_text(case.kernel)}"
        for each in case.region.outputs:
            _compare(case, each.memref.dtype, got[each.name], wanted[each.name], exact=exact)
    return report


def _compare(case: GpuCase, name: str, result: np.ndarray, reference: np.ndarray, *, exact: bool) -> None:
    kind = dtype(name)
    assert result.shape == reference.shape
    if exact or not kind.is_float:
        compute = kind.accumulator.numpy
        np.testing.assert_array_equal(result.astype(compute), reference.astype(compute), err_msg=str(case))
        return
    a, b = result.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(b)
    np.testing.assert_array_equal(np.isfinite(a), finite, err_msg=str(case))
    np.testing.assert_array_equal(a[~finite], b[~finite], err_msg=str(case))
    tolerance = {"fp16": 1e-3, "bf16": 1e-2}.get(name, 1e-5)
    error, size = np.linalg.norm(a[finite] - b[finite]), np.linalg.norm(b[finite])
    assert error <= tolerance * max(size, 1e-6), f"{case}: off by {error / max(size, 1e-30):.2e} of the norm"
