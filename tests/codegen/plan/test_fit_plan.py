"""A plan that does not fit its region is refused before the lowering begins."""

from __future__ import annotations

import msgspec
import pytest

from codegen.plan.cpu.nest_candidates import nest_candidates
from codegen.plan.fit_plan import fit_plan
from codegen.plan.gpu.contraction_candidates import contraction_candidates
from codegen.poly.analyse import analyse
from eqsat.cost.targets import A100
from ir.diagnostics import EqsatError, Kind
from ir.plan.cpu import CpuNestPlan, PlannedLoop
from ir.plan.plan import Plan
from ir.region.region import Region
from tests.support.cpu import nest_kernels
from tests.support.cpu.changed_plan import with_fields
from tests.support.programs import regions
from tests.support.stages.made_plans import nest_plan


def refusal(region: Region, plan: Plan) -> Kind | None:
    with pytest.raises(EqsatError) as caught:
        fit_plan(region, analyse(region).core, plan)
    return caught.value.kind


def test_the_loop_along_a_scan_is_innermost_and_whole() -> None:
    scan = regions.cumsum(40, 50)
    plan: CpuNestPlan = nest_candidates(scan, analyse(scan).core, nest_kernels.target("avx2"))[0][0]
    rows, along = PlannedLoop((0,), 40), PlannedLoop((1,), 50)
    plan = msgspec.structs.replace(plan, loops=(rows, along), lanes=1, width=8, threads=(), tails=("i0", "i1"))
    fit_plan(scan, analyse(scan).core, plan)
    cut = (rows, PlannedLoop((1,), 16))
    for loops, lanes in (((along, rows), 1), (cut, 1), ((PlannedLoop((0, 1), 2000),), 0)):
        assert refusal(scan, with_fields(plan, loops=loops, lanes=lanes)) is Kind.UNSUPPORTED_OP


def test_a_contraction_is_no_nest() -> None:
    plan = nest_plan(40, 30, lanes=1, width=8, arch="avx2")
    assert refusal(regions.matmul((), 40, 30, 20), plan) is Kind.UNSUPPORTED_OP


def test_tiles_of_rows_stand_side_by_side_along_the_axis_of_the_columns() -> None:
    region = regions.matmul((), 2048, 2048, 64, dtype="fp16")
    plan = next(plan for plan, _ in contraction_candidates(region, analyse(region).core, A100) if plan.tile.raster > 1)
    assert refusal(region, with_fields(plan, **{"places.rows": "y"})) is Kind.MALFORMED_GRAPH


def test_an_axis_of_the_grid_has_a_limit() -> None:
    region = regions.matmul((70_000,), 4, 4, 4, dtype="fp16")
    plan, _ = contraction_candidates(region, analyse(region).core, A100)[0]
    assert refusal(region, with_fields(plan, **{"places.batch": "z"})) is Kind.RESOURCE_EXCEEDED
