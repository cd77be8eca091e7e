"""A plan changed by hand changes the text and not the result, or is refused: no field of it is passed over."""

from __future__ import annotations

import pytest

from codegen.compile.machine import machine
from codegen.lower.cpu.lower import lower
from codegen.lower.cpu.lower_contraction import lower_contraction
from codegen.plan.cpu.candidates import candidates
from codegen.plan.cpu.contraction_candidates import contraction_candidates
from codegen.plan.cpu.nest_candidates import nest_candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from codegen.text.cpu_to_c import c_text
from ir.diagnostics import EqsatError, Kind
from ir.kernel.cpu.verify import verify
from ir.plan.cpu import Blocks, CpuContractionPlan, CpuNestPlan, KeptValue, OperandPlace, PlannedLoop
from ir.plan.plan import CpuPlan
from ir.region.region import Region
from tests.codegen.lower.cpu.test_lower_contraction import assert_plays, values_of
from tests.support.cpu import nest_kernels
from tests.support.cpu.changed_plan import tiled, with_fields
from tests.support.cpu.contraction_runs import Built, target_of
from tests.support.cpu.played import random_inputs
from tests.support.programs import regions, stream_regions
from tests.support.stages.made_plans import nest_plan

LANES = machine().lanes
PLAIN = OperandPlace("A"), OperandPlace("B")
PACKED = OperandPlace("A", "packed"), OperandPlace("B", "packed")
TAILS = ("m", "n", "k")
GEMM = regions.gemm_bias_relu(96, 4 * LANES, 64)
ODD = regions.gemm_bias_relu(50, 2 * LANES + 3, 37)
ROWS = regions.outer_sum(40, 8 * LANES)


def by_hand(**changes: object) -> CpuContractionPlan:
    """A plan of a matrix product whose tiles divide `GEMM`, changed."""
    plan = CpuContractionPlan(
        arch=machine().arch,
        pattern="matmul",
        vector=1,
        blocks=Blocks(6, 2 * LANES, 24, 2 * LANES, 32, LANES),
        operands=PACKED,
        parallel=True,
        epilogue=("add", "relu"),
    )
    return with_fields(plan, **changes)


def dot(**changes: object) -> CpuContractionPlan:
    """A plan of the same product with lanes along k."""
    return by_hand(**{"blocks": Blocks(4, 2, 24, 4, 64, LANES, "dot"), "operands": PLAIN, **changes})


def refused(plan: CpuContractionPlan, region: Region = GEMM) -> EqsatError:
    with pytest.raises(EqsatError) as caught:
        fit_plan(region, analyse(region).core, plan)
    return caught.value


def assert_all_play(region: Region, plans: list[CpuContractionPlan], *, proved: bool = True) -> None:
    """All plans give the region's result, each by a text of its own; `proved`: the ranges of the variables tell that
    no access leaves its buffer."""
    built = Built([(region, plan) for plan in plans])
    texts = [c_text(lowered.kernel).replace(f"k{i}", "k") for i, lowered in enumerate(built.lowered)]
    assert len(set(texts)) == len(texts)
    for i, lowered in enumerate(built.lowered):
        if proved:
            verify(lowered.kernel)
        assert_plays(built, i, values_of(region))


# --- contractions ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_choice_of_a_contraction_changes_its_text_only() -> None:
    assert_all_play(
        GEMM,
        [
            by_hand(),
            by_hand(**{"blocks.bm": 48, "blocks.bn": 4 * LANES, "blocks.bk": 64}),
            by_hand(**{"blocks.mr": 3, "blocks.nr": LANES}),
            by_hand(parallel=False),
            by_hand(operands=PLAIN),
            by_hand(operands=(PACKED[0], PLAIN[1])),
            by_hand(operands=(PLAIN[0], PACKED[1])),
            by_hand(operands=(PACKED[0], OperandPlace("B", "const_pool"))),
            by_hand(vector=0, blocks=Blocks(8, 2 * LANES, 32, 2 * LANES, 64, LANES), operands=PLAIN),
            dot(),
            dot(**{"blocks.mr": 3, "blocks.nr": 1}),
        ],
    )


@pytest.mark.slow
def test_tails_are_right_without_panels_too() -> None:
    plans = [by_hand(tails=TAILS), by_hand(tails=TAILS, operands=PLAIN)]
    plans.append(by_hand(tails=TAILS, operands=(PLAIN[0], PACKED[1]), parallel=False))
    plans += [dot(tails=TAILS, blocks=Blocks(*sizes, 24, 4, 37, LANES, "dot")) for sizes in ((4, 2), (6, 4))]
    assert_all_play(ODD, plans)


def test_blocks_are_tasks_if_the_plan_says_so() -> None:
    for parallel, tasks in ((False, 1), (True, 8)):
        plan = by_hand(parallel=parallel)
        assert lower_contraction(fit_plan(GEMM, analyse(GEMM).core, plan), plan).kernel.phases[0].tasks == tasks


def test_a_tail_may_be_left_out_where_tiles_divide() -> None:
    text = c_text(lower_contraction(fit_plan(GEMM, analyse(GEMM).core, by_hand()), by_hand()).kernel)
    assert "_n_f32" not in text
    for axis in TAILS:
        left = tuple(tail for tail in TAILS if tail != axis)
        error = refused(by_hand(tails=left), ODD)
        assert error.kind is Kind.ALIGNMENT_MISMATCH
        assert f"along {axis}" in str(error)
    assert refused(dot(tails=("m", "n"), **{"blocks.bk": 37}), ODD).kind is Kind.ALIGNMENT_MISMATCH


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"blocks.lanes": LANES // 2}, Kind.ALIGNMENT_MISMATCH),
        ({"blocks.nr": LANES + 1, "blocks.bn": LANES + 1}, Kind.ALIGNMENT_MISMATCH),
        ({"blocks.bm": 25}, Kind.ALIGNMENT_MISMATCH),
        ({"blocks.bn": 3 * LANES}, Kind.ALIGNMENT_MISMATCH),
        ({"blocks.bk": 65}, Kind.ALIGNMENT_MISMATCH),
        ({"blocks.mr": 0}, Kind.MALFORMED_GRAPH),
        ({"blocks.bk": 0}, Kind.MALFORMED_GRAPH),
        ({"epilogue": ("relu", "add")}, Kind.MALFORMED_GRAPH),
        ({"epilogue": ()}, Kind.MALFORMED_GRAPH),
        ({"operands": (OperandPlace("bias", "packed"), PACKED[1])}, Kind.MALFORMED_GRAPH),
        ({"operands": PACKED[::-1]}, Kind.MALFORMED_GRAPH),
        ({"operands": (OperandPlace("A", "const_pool"), PACKED[1])}, Kind.UNSUPPORTED_OP),
        ({"pattern": "conv"}, Kind.MALFORMED_GRAPH),
        ({"arch": "sm80"}, Kind.UNKNOWN_TARGET),
    ],
)
def test_a_contraction_s_plan_that_makes_no_sense_is_refused(changes: dict[str, object], kind: Kind) -> None:
    assert refused(by_hand(**changes)).kind is kind


def test_a_dot_product_takes_all_terms_and_packs_none() -> None:
    assert refused(dot(**{"blocks.bk": 32})).kind is Kind.ALIGNMENT_MISMATCH
    assert refused(dot(operands=PACKED)).kind is Kind.UNSUPPORTED_OP


def test_blocks_of_k_are_whole_steps_of_a_digit() -> None:
    region = regions.conv(1, 8, 2 * LANES, (9, 11), 3, 1, 1)
    plan = contraction_candidates(region, analyse(region).core, target_of())[0][0]
    plan = with_fields(plan, tails=TAILS)
    cut = [with_fields(plan, **{"blocks.bk": bk}) for bk in (72, 27, 18, 6, 2)]
    assert_all_play(region, cut, proved=False)
    odd = with_fields(plan, **{"blocks.bk": 10})
    assert refused(odd, region).kind is Kind.ALIGNMENT_MISMATCH


# --- nests ----------------------------------------------------------------------------------------


def nest(**changes: object) -> CpuNestPlan:
    """A plan of `ROWS` whose tiles divide it, changed."""
    plan = nest_plan(10, 8 * LANES, lanes=1, width=LANES, arch=machine().arch, threads=(0,))
    return with_fields(plan, **changes)


@pytest.mark.parametrize("width", [LANES, 2 * LANES])
def test_a_nest_runs_at_any_width_of_whole_registers(width: int) -> None:
    plans = [nest(lanes=lanes, width=width, threads=(), tails=("i0", "i1")) for lanes in (0, 1)]
    plans = [tiled(plan, 40, 8 * LANES) for plan in plans]
    core = analyse(ROWS).core
    tried = [nest_kernels.case(ROWS, core, plan, f"eq_k{n}") for n, plan in enumerate(plans)]
    assert f"i1 += {width})" in c_text(tried[1].kernel)
    lib = nest_kernels.library(tried, machine())
    for case in tried:
        nest_kernels.check(lib, case, random_inputs(ROWS), exact=True)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"loops": (PlannedLoop((0,), 9), PlannedLoop((1,), 8 * LANES))}, Kind.ALIGNMENT_MISMATCH),
        ({"width": LANES // 2}, Kind.ALIGNMENT_MISMATCH),
        ({"width": LANES + 1}, Kind.ALIGNMENT_MISMATCH),
        ({"width": 0}, Kind.ALIGNMENT_MISMATCH),
        ({"lanes": None, "width": LANES // 2}, Kind.ALIGNMENT_MISMATCH),
        ({"lanes": 2}, Kind.MALFORMED_GRAPH),
        ({"loops": (PlannedLoop((0,), 10),)}, Kind.MALFORMED_GRAPH),
        ({"loops": (PlannedLoop((0,), 10), PlannedLoop((7,), LANES))}, Kind.MALFORMED_GRAPH),
        ({"loops": (PlannedLoop((0,), 0), PlannedLoop((1,), LANES))}, Kind.MALFORMED_GRAPH),
        ({"loops": (PlannedLoop((0,), 41), PlannedLoop((1,), LANES))}, Kind.MALFORMED_GRAPH),
        ({"threads": (2,)}, Kind.MALFORMED_GRAPH),
        ({"rows": 0}, Kind.MALFORMED_GRAPH),
        ({"rows": 3}, Kind.ALIGNMENT_MISMATCH),
        ({"rescaled": 1}, Kind.MALFORMED_GRAPH),
        ({"part": 10}, Kind.UNSUPPORTED_OP),
        ({"kept": (KeptValue("Y", "Z"),)}, Kind.UNSUPPORTED_OP),
        ({"arch": "sm80"}, Kind.UNKNOWN_TARGET),
    ],
)
def test_a_nest_s_plan_that_makes_no_sense_is_refused(changes: dict[str, object], kind: Kind) -> None:
    with pytest.raises(EqsatError) as caught:
        fit_plan(ROWS, analyse(ROWS).core, nest(**changes))
    assert caught.value.kind is kind


def test_a_split_reduction_s_parts_are_the_plan_s() -> None:
    region = regions.total((300, 1000))
    core = analyse(region).core
    split = next(plan for plan, _ in nest_candidates(region, core, target_of()) if plan.part is not None)
    plans = [split, with_fields(split, part=7 * LANES)]
    tried = [nest_kernels.case(region, core, plan, f"eq_k{n}") for n, plan in enumerate(plans)]
    assert split.part is not None
    parts = -(-300_000 // split.part)
    assert [case.kernel.phases[0].tasks for case in tried] == [parts, -(-300_000 // (7 * LANES))]
    lib = nest_kernels.library(tried, machine())
    for case in tried:
        nest_kernels.check(lib, case, random_inputs(region))


def test_sums_of_a_stream_are_rescaled_as_often_as_the_plan_says() -> None:
    region = stream_regions.log_sum_exp(4, 40 * LANES)
    core = analyse(region).core
    plan = nest_candidates(region, core, target_of())[0][0]
    plans = [with_fields(plan, rescaled=rescaled) for rescaled in (2, plan.rescaled, 16)]
    tried = [nest_kernels.case(region, core, plan, f"eq_k{n}") for n, plan in enumerate(plans)]
    assert len({c_text(case.kernel).partition("{")[2] for case in tried}) == len(plans)
    lib = nest_kernels.library(tried, machine())
    for case in tried:
        nest_kernels.check(lib, case, random_inputs(region))


def test_what_planners_make_is_accepted() -> None:
    """Every candidate of every region is one that the lowering takes."""
    for region in regions.corpus():
        core = analyse(region).core
        plans: list[CpuPlan] = [plan for plan, _ in candidates(region, core, target_of())]
        if core.contraction is not None:
            plans += [plan for plan, _ in nest_candidates(region, core, target_of())]
        for plan in plans:
            lower(fit_plan(region, core, plan), plan, "eq_k")
