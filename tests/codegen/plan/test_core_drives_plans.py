"""Poly Core decides: plans keep to what it reports, and no price waits for isl."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from codegen.plan.cpu.candidates import candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from eqsat.cost.targets import cpu_target
from ir.diagnostics import EqsatError, Kind
from ir.plan.cpu import CpuContractionPlan, CpuNestPlan
from ir.plan.plan import CpuPlan
from ir.region.region import Region
from tests.support.cpu.changed_plan import nest, tiled, with_fields
from tests.support.programs import regions
from tests.support.programs.regions import buffer, ewise, read, reduction, region, same
from tests.support.stages.plan_class import plan_of

TARGET = cpu_target(arch="avx2", cores=2, lanes=8, clock_hz=3e9, source="assumed")


def plans(given: Region) -> list[CpuPlan]:
    return [plan for plan, _ in candidates(given, analyse(given).core, TARGET)]


def nests(given: Region) -> list[CpuNestPlan]:
    return [plan_of(plan, CpuNestPlan) for plan in plans(given)]


def centred_columns(rows: int, columns: int) -> Region:
    """x less the sums of its columns: the sums depend on the second axis of the output only."""
    over, turned = (rows, columns), (columns, rows)
    body = [
        reduction("R", "sum", turned, 1, read("X", turned, "i1", "i0")),
        ewise("D", "sub", over, same("X", over), read("R", over, "i1")),
    ]
    return region("centre_columns", [buffer("X", over)], body, over)


@pytest.mark.parametrize("given", [centred_columns(300, 70), centred_columns(3, 5), regions.centre_rows()], ids=str)
def test_accumulators_are_finished_before_other_loops_begin(given: Region) -> None:
    core = analyse(given).core
    (needed,) = core.finished.values()
    orders = [[axis for loop in plan.loops for axis in loop.axes] for plan in nests(given)]
    assert orders
    assert all(order[: len(needed)] == list(needed) for order in orders)


def test_threads_share_parallel_axes_only() -> None:
    given = regions.cumsum(64, 2000, axis=1)
    core = analyse(given).core
    assert core.parallel_axes == ("i0",)
    result = nests(given)
    assert {plan.loops[position].name for plan in result for position in plan.threads} == {"i0"}
    whole = next(plan for plan in result if nest(plan) == "i0 i1")
    wrong = with_fields(tiled(whole, 64, 400), threads=(1,), tails=("i0", "i1"))
    with pytest.raises(EqsatError, match="carries its value along i1") as caught:
        fit_plan(given, core, wrong)
    assert caught.value.kind is Kind.UNSUPPORTED_OP


@pytest.mark.parametrize(("given", "pattern"), [(regions.conv(), "conv"), (regions.matmul((), 40, 30, 20), "matmul")])
def test_the_choice_of_a_plan_is_of_the_regions_pattern(given: Region, pattern: str) -> None:
    core = analyse(given).core
    assert core.pattern == pattern
    results = [plan_of(plan, CpuContractionPlan) for plan in plans(given)]
    assert all(plan.pattern == pattern for plan in results)
    other = {"conv": "matmul", "matmul": "conv"}[pattern]
    with pytest.raises(EqsatError, match=f"is a {pattern}") as caught:
        fit_plan(given, core, msgspec.structs.replace(results[0], pattern=other))
    assert caught.value.kind is Kind.MALFORMED_GRAPH


@pytest.mark.slow
def test_no_price_waits_for_isl() -> None:
    code = (
        "import sys; from tests.codegen.plan.test_core_drives_plans import *\n"
        "for given in (regions.conv(stride=1, pad=1), regions.attention_scores(), centred_columns(30, 7)):\n"
        "    assert plans(given)\n"
        "print('islpy' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    assert done.stdout.strip() == "False", done.stderr
