"""Scatters on a CPU: every plan of every region gives the bits of region playback, with one thread and with several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from codegen.lower.cpu.lower import lower
from codegen.plan.cpu.candidates import candidates
from codegen.plan.fit_plan import fit_plan
from codegen.plan.scatter_view import scatter_view
from codegen.poly.analyse import checked_core
from ir.diagnostics import EqsatError, Kind
from ir.kernel.cpu.verify import verify
from ir.plan.cpu import CpuScatterPlan, PlannedLoop
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.region.region import Region
from ir.serde import from_json, to_json
from tests.support.cpu.nest_kernels import CpuCase, available, check, library, target
from tests.support.programs.regions import scatter
from tests.support.programs.scatter_regions import sampled, scatter_inputs
from tests.support.stages.plan_class import plan_of

ARCH = next(arch for arch in ("avx512", "avx2", "sse2", "generic") if available(arch) is not None)


def plans_of(region: Region, arch: str = ARCH) -> list[CpuScatterPlan]:
    return [plan_of(plan, CpuScatterPlan) for plan, _ in candidates(region, checked_core(region), target(arch))]


def divided(region: Region, plan: CpuScatterPlan) -> Iterator[CpuScatterPlan]:
    """The plan with tasks along each of its loops, in small blocks."""
    view = scatter_view(region, checked_core(region))
    assert view is not None
    whole = [PlannedLoop(tuple(axes), max(1, view.extent(axes))) for axes in view.groups]
    for position, loop in enumerate(whole):
        tile = 16 if position == plan.lanes else 2
        if loop.tile > tile:
            loops = (*whole[:position], PlannedLoop(loop.axes, tile), *whole[position + 1 :])
            yield msgspec.structs.replace(plan, loops=loops, threads=position)


def case_of(region: Region, plan: CpuScatterPlan, number: int) -> CpuCase:
    lowered = lower(fit_plan(region, checked_core(region), plan), plan, f"eq_k{number}")
    verify(lowered.kernel)
    return CpuCase(region, plan, lowered.kernel)


@pytest.mark.slow
@sampled
def test_every_plan_gives_the_bits_of_a_plain_loop(regions: Sequence[Region]) -> None:
    tried: list[tuple[Region, CpuScatterPlan]] = []
    for region in regions:
        plans = plans_of(region)
        assert plans
        tried += [(region, plan) for plan in dict.fromkeys([plans[0], *divided(region, plans[0])])]
    cases = [case_of(region, plan, number) for number, (region, plan) in enumerate(tried)]
    machine = available(ARCH)
    assert machine is not None
    lib = library(cases, machine)
    for case in cases:
        for nan, threads in ((False, 1), (True, 3)):
            check(lib, case, scatter_inputs(case.region, nan=nan), exact=True, threads=threads)


def test_the_candidates_of_a_large_scatter_divide_every_loop() -> None:
    region = scatter((64, 1000, 96), 1, 5000, along=(0, 1))
    plans = plans_of(region)
    assert {plan.threads for plan in plans} == {None, 0, 1, 2}
    assert {plan.lanes for plan in plans} == {2}
    for plan in plans:
        assert from_json(to_json(plan), CpuScatterPlan) == plan
        assert f"{plan.loops[plan.threads].name}.o" in str(plan_to_schedule(plan)) if plan.threads is not None else True


def test_a_plan_of_another_region_is_refused() -> None:
    region = scatter((6, 64), 0, 9, along=())
    plan = plans_of(region)[0]
    core = checked_core(region)

    def refused(kind: Kind, **changes: object) -> None:
        with pytest.raises(EqsatError) as error:
            fit_plan(region, core, msgspec.structs.replace(plan, **changes))
        assert error.value.diagnostics[0].kind is kind

    rows = plan.loops[0]
    refused(Kind.MALFORMED_GRAPH, loops=(rows,))
    refused(Kind.MALFORMED_GRAPH, loops=(PlannedLoop((0, 1), 384),))
    refused(Kind.MALFORMED_GRAPH, loops=(rows, PlannedLoop((1,), 65)))
    refused(Kind.MALFORMED_GRAPH, lanes=2)
    refused(Kind.MALFORMED_GRAPH, threads=2)
    refused(Kind.MALFORMED_GRAPH, finish=plan.source)
    refused(Kind.MALFORMED_GRAPH, source=plans_of(region, "generic")[0].source)
    refused(Kind.UNSUPPORTED_OP, lanes=0)
    refused(Kind.UNSUPPORTED_OP, loops=(rows, PlannedLoop((1,), 16)))
    refused(Kind.UNSUPPORTED_OP, loops=(PlannedLoop((0,), 2), PlannedLoop((1,), 16)), threads=1)
    refused(Kind.ALIGNMENT_MISMATCH, loops=(rows, PlannedLoop((1,), 3)), threads=1)
    assert plan.source is not None
    with pytest.raises(EqsatError, match="template of its own"):
        fit_plan(region, core, plan.source)
