"""Scatters on a GPU: every plan, in the emulator, gives the bits of region playback, in any order of threads."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import checked_core
from codegen.simt import Order, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from ir.diagnostics import EqsatError, Kind
from ir.kernel.gpu.kernel import GpuKernel
from ir.plan.gpu_nest import GpuScatterPlan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.region.playback import play_region
from ir.region.region import Region
from ir.serde import from_json, to_json
from tests.support.cpu.played import assert_played
from tests.support.gpu.emulated import launched, lowered, plans_of
from tests.support.programs.regions import scatter
from tests.support.programs.scatter_regions import sampled, scatter_inputs
from tests.support.stages.plan_class import plan_of


@pytest.mark.slow
@sampled
def test_every_plan_gives_the_bits_of_a_plain_loop(regions: Sequence[Region]) -> None:
    cases: list[tuple[Region, GpuKernel]] = []
    for region in regions:
        best = plan_of(plans_of(region)[0][0], GpuScatterPlan)
        op = next(let.op for let in region.body if let.op.kind == "scatter")
        slots = op.domain[op.axis or 0]
        for parts in sorted({1, min(2, slots), slots}):
            plan = msgspec.structs.replace(best, parts=parts, threads=32)
            cases.append((region, lowered(region, plan, f"eq_k{len(cases)}")))
    kernels = compile_kernels("\n".join(cuda_text(kernel) for _, kernel in cases))
    for region, kernel in cases:
        for nan, order in ((False, Order.FORWARD), (True, Order.RANDOM)):
            inputs = scatter_inputs(region, nan=nan)
            report, result = launched(kernels, region, kernel, inputs, order)
            assert not report.findings, f"{kernel.comment}: {report.findings[0]}"
            assert_played(region, inputs, result, play_region(region, inputs), kernel.comment, exact=True)


def test_candidates_are_few_and_fit() -> None:
    region = scatter((1000000,), 0, 100000)
    plans = [plan_of(plan, GpuScatterPlan) for plan, _ in plans_of(region)]
    assert len(plans) > 1
    for plan in plans:
        fit_plan(region, checked_core(region), plan)
        assert from_json(to_json(plan), GpuScatterPlan) == plan
        assert plan_to_schedule(plan).tile == (plan.threads, plan.parts)


def test_a_plan_of_another_region_is_refused() -> None:
    region = scatter((6, 64), 0, 9)
    plan = plan_of(plans_of(region)[0][0], GpuScatterPlan)
    for change in ({"parts": 7}, {"parts": 0}, {"threads": 33}, {"threads": 2048}):
        with pytest.raises(EqsatError) as error:
            fit_plan(region, checked_core(region), msgspec.structs.replace(plan, **change))
        assert error.value.diagnostics[0].kind is Kind.MALFORMED_GRAPH
