"""Kernels of nests for GPUs: every candidate of a region lowered and verified, run in the emulator beside playback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from codegen.lower.gpu.lower_nest import lower_gpu_nest
from codegen.plan.fit_plan import fit_plan
from codegen.plan.gpu.nest_candidates import nest_candidates
from codegen.plan.gpu.nest_tiling import GpuNestPlan
from codegen.poly.analyse import analyse
from codegen.simt import Order, Report, compile_kernels
from codegen.simt.compile import Kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.targets import gpu_target
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.verify import verify
from ir.region.playback import play_region
from ir.region.region import Region
from tests.support.cpu import played
from tests.support.cpu.played import Arrays, assert_played
from tests.support.gpu.emulated import launched, order_matters

GpuCase: TypeAlias = played.Case[GpuKernel, GpuNestPlan]


def gpu_cases(
    regions: Iterable[Region], *, arch: str = "sm_80", ordered: bool = False, step: int = 1, most: int = 99
) -> list[GpuCase]:
    """Every `step`-th of the candidates of all regions (`most` of each), lowered and verified."""
    result, count = [], 0
    for region in regions:
        core = analyse(region).core
        plans = nest_candidates(region, core, gpu_target(arch), ordered=ordered, most=most)
        assert plans, f"{region.name} has no plan: {core.reason}"
        for plan, _ in plans:
            count += 1
            if count % step == 0:
                kernel = lower_gpu_nest(fit_plan(region, core, plan), plan, f"eq_k{count}")
                verify(kernel)
                result.append(GpuCase(region, plan, kernel))
    return result


def compiled(cases: Sequence[GpuCase]) -> Kernels:
    """All kernels in one text, ready to run in the emulator."""
    return compile_kernels("\n".join(cuda_text(case.kernel) for case in cases))


def check(
    kernels: Kernels, case: GpuCase, inputs: Arrays, *, exact: bool = False, orders: Sequence[Order] = (Order.RANDOM,)
) -> Report:
    """A kernel's outputs against playback, as `assert_played` has it; nothing found in any order."""
    wanted = play_region(case.region, inputs)
    for order in orders:
        report, got = launched(kernels, case.region, case.kernel, inputs, order)
        assert not report.findings, f"{case}: {report.findings[0]}\n{cuda_text(case.kernel)}"
        assert_played(case.region, inputs, got, wanted, case, exact=exact)
        if not order_matters(report):
            break
    return report
