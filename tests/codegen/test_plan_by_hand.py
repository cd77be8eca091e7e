"""A plan changed by hand changes the text and not the result, or is refused: no field of it is passed over."""

from __future__ import annotations

import msgspec
import pytest

from codegen.compile.machine import machine
from codegen.lower.cpu.lower_contraction import lower_contraction
from codegen.lower.cpu.lower_nest import lower_nest
from codegen.plan.cpu.contraction_candidates import contraction_candidates
from codegen.plan.cpu.nest_candidates import nest_candidates
from codegen.text.cpu_to_c import c_text
from codegen.where.region_facts import region_facts
from ir.cpu_verify import verify
from ir.diagnostics import EqsatError, Kind
from ir.plan import Cached, LocalEdge, Plan, Vectorize
from ir.region import Region
from tests.codegen import nest_kernels
from tests.codegen.contraction_runs import Built, target_of
from tests.codegen.played import random_inputs
from tests.codegen.test_lower_contraction import assert_plays, values_of
from tests.support import regions

LANES = machine().lanes
PACKED = (Cached("A", "packed", "k.o"), Cached("B", "packed", "n.i"))
THREADS = dict.fromkeys(("batch", "m.o", "n.o"), "thread")
TAILS = ("m", "n", "k")
GEMM = regions.gemm_bias_relu(96, 4 * LANES, 64)
ODD = regions.gemm_bias_relu(50, 2 * LANES + 3, 37)
ROWS = regions.outer_sum(40, 8 * LANES)


def by_hand(**changes: object) -> Plan:
    """A plan of a matrix product whose tiles divide `GEMM`, changed."""
    plan = Plan(
        arch=machine().arch,
        algo_choice={"matmul": "outer"},
        tile=(24, 2 * LANES, 32),
        bind=THREADS,
        vectorize=Vectorize("n", LANES),
        warp_tile=f"6x{2 * LANES}",
        cache=PACKED,
        epilogue=("add", "relu"),
        layout_hints={"vector": "rhs"},
    )
    return msgspec.structs.replace(plan, **changes)


def dot(**changes: object) -> Plan:
    """A plan of the same product with lanes along k."""
    alone = {"algo_choice": {"matmul": "dot"}, "vectorize": Vectorize("k", LANES), "cache": (), "warp_tile": "4x2"}
    return by_hand(**{**alone, "tile": (24, 4, 64), **changes})


def refused(plan: Plan, region: Region = GEMM) -> EqsatError:
    with pytest.raises(EqsatError) as caught:
        lower_contraction(region, region_facts(region).core, plan)
    return caught.value


def assert_all_play(region: Region, plans: list[Plan], *, proved: bool = True) -> None:
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


def test_every_choice_of_a_contraction_changes_its_text_only() -> None:
    assert_all_play(
        GEMM,
        [
            by_hand(),
            by_hand(tile=(48, 4 * LANES, 64)),
            by_hand(warp_tile=f"3x{LANES}"),
            by_hand(bind={}),
            by_hand(bind={"m.o": "thread"}),
            by_hand(bind={"m.o": "serial", "n.o": "thread"}),
            by_hand(cache=()),
            by_hand(cache=PACKED[:1]),
            by_hand(cache=PACKED[1:]),
            by_hand(cache=(PACKED[0], Cached("B", "const_pool", "build"))),
            by_hand(
                layout_hints={"vector": "lhs"},
                warp_tile=f"8x{2 * LANES}",
                tile=(32, 2 * LANES, 64),
                cache=(),
            ),
            dot(),
            dot(warp_tile="3x1"),
        ],
    )


def test_tails_are_right_without_panels_too() -> None:
    odd = {"predicate_tail": TAILS}
    plans = [by_hand(**odd), by_hand(**odd, cache=()), by_hand(**odd, cache=PACKED[1:], bind={})]
    plans += [dot(**odd, tile=(24, 4, 37)), dot(**odd, tile=(24, 4, 37), warp_tile="6x4")]
    assert_all_play(ODD, plans)


def test_threads_run_what_they_are_bound_to() -> None:
    def tasks(**bind: str) -> int:
        core = region_facts(GEMM).core
        return lower_contraction(GEMM, core, by_hand(bind=bind)).kernel.phases[0].tasks

    assert tasks() == 1
    assert tasks(**{"m.o": "thread"}) == 4
    assert tasks(**{"n.o": "thread"}) == 2
    assert tasks(**THREADS) == 8


def test_a_tail_may_be_left_out_where_tiles_divide() -> None:
    text = c_text(lower_contraction(GEMM, region_facts(GEMM).core, by_hand()).kernel)
    assert "_n_f32" not in text
    for axis in TAILS:
        left = tuple(each for each in TAILS if each != axis)
        error = refused(by_hand(predicate_tail=left), ODD)
        assert error.kind is Kind.ALIGNMENT_MISMATCH
        assert f"along {axis}" in str(error)
    assert refused(dot(tile=(24, 4, 37), predicate_tail=("m", "n")), ODD).kind is Kind.ALIGNMENT_MISMATCH


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"vectorize": Vectorize("n", LANES // 2)}, Kind.ALIGNMENT_MISMATCH),
        ({"warp_tile": f"6x{LANES + 1}", "tile": (24, LANES + 1, 32)}, Kind.ALIGNMENT_MISMATCH),
        ({"tile": (25, 2 * LANES, 32)}, Kind.ALIGNMENT_MISMATCH),
        ({"tile": (24, 3 * LANES, 32)}, Kind.ALIGNMENT_MISMATCH),
        ({"vectorize": Vectorize("k", LANES)}, Kind.MALFORMED_GRAPH),
        ({"vectorize": None}, Kind.MALFORMED_GRAPH),
        ({"warp_tile": "6"}, Kind.MALFORMED_GRAPH),
        ({"warp_tile": f"0x{LANES}"}, Kind.MALFORMED_GRAPH),
        ({"tile": (24, 2 * LANES)}, Kind.MALFORMED_GRAPH),
        ({"tile": (24, 2 * LANES, 0)}, Kind.MALFORMED_GRAPH),
        ({"epilogue": ("relu", "add")}, Kind.MALFORMED_GRAPH),
        ({"epilogue": ()}, Kind.MALFORMED_GRAPH),
        ({"cache": (Cached("bias", "packed", "n.i"),)}, Kind.MALFORMED_GRAPH),
        ({"cache": (Cached("A", "packed", "n.i"),)}, Kind.UNSUPPORTED_OP),
        ({"cache": (Cached("A", "smem", "k.o"),)}, Kind.UNSUPPORTED_OP),
        ({"cache": (Cached("A", "const_pool", "build"),)}, Kind.UNSUPPORTED_OP),
        ({"cache": (Cached("A", "packed", "k.o", pingpong=True),)}, Kind.UNSUPPORTED_OP),
        ({"bind": {"m.o": "block.y"}}, Kind.UNSUPPORTED_OP),
        ({"bind": {"k.o": "thread"}}, Kind.UNSUPPORTED_OP),
        ({"layout_hints": {"A_swizzle": True}}, Kind.UNSUPPORTED_OP),
        ({"algo_choice": {"matmul": "wgmma"}}, Kind.UNSUPPORTED_OP),
        ({"stages": 2}, Kind.UNSUPPORTED_OP),
        ({"local_edges": (LocalEdge("C0", "C1"),)}, Kind.UNSUPPORTED_OP),
        ({"arch": "sm80"}, Kind.UNKNOWN_TARGET),
    ],
)
def test_a_contraction_s_plan_that_makes_no_sense_is_refused(changes: dict[str, object], kind: Kind) -> None:
    assert refused(by_hand(**changes)).kind is kind


def test_a_dot_product_takes_all_terms_and_packs_none() -> None:
    assert refused(dot(tile=(24, 4, 32))).kind is Kind.ALIGNMENT_MISMATCH
    assert refused(dot(cache=PACKED)).kind is Kind.UNSUPPORTED_OP


def test_blocks_of_k_are_whole_steps_of_a_digit() -> None:
    region = regions.conv(1, 8, 2 * LANES, (9, 11), 3, 1, 1)
    plan = contraction_candidates(region, region_facts(region).core, target_of())[0][0]
    plan = msgspec.structs.replace(plan, predicate_tail=TAILS)
    cut = [msgspec.structs.replace(plan, tile=(*plan.tile[:2], bk)) for bk in (72, 27, 18, 6, 2)]
    assert_all_play(region, cut, proved=False)
    odd = msgspec.structs.replace(plan, tile=(*plan.tile[:2], 10))
    assert refused(odd, region).kind is Kind.ALIGNMENT_MISMATCH


# --- nests ----------------------------------------------------------------------------------------


def nest(**changes: object) -> Plan:
    """A plan of `ROWS` whose tiles divide it, changed."""
    plan = Plan(
        arch=machine().arch,
        algo_choice={"nest": "i0 i1"},
        tile=(10, 8 * LANES),
        bind={"i0.o": "thread"},
        vectorize=Vectorize("i1", LANES),
    )
    return msgspec.structs.replace(plan, **changes)


@pytest.mark.parametrize("width", [1, 3, LANES // 2, LANES, 2 * LANES])
def test_a_nest_runs_at_any_width_up_to_a_register_and_in_whole_ones(width: int) -> None:
    plans = [nest(vectorize=Vectorize(axis, width), predicate_tail=("i0", "i1")) for axis in ("i0", "i1")]
    plans = [msgspec.structs.replace(each, tile=(40, 8 * LANES), bind={}) for each in plans]
    core = region_facts(ROWS).core
    tried = [nest_kernels.case(ROWS, core, plan, f"eq_k{n}") for n, plan in enumerate(plans)]
    assert f"i1 += {width})" in c_text(tried[1].kernel).replace("i1++", "i1 += 1")
    lib = nest_kernels.library(tried, machine())
    for each in tried:
        nest_kernels.check(lib, each, random_inputs(ROWS), exact=True)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"tile": (9, 8 * LANES)}, Kind.ALIGNMENT_MISMATCH),
        ({"vectorize": Vectorize("i1", 3)}, Kind.ALIGNMENT_MISMATCH),
        ({"vectorize": Vectorize("i1", LANES + 1)}, Kind.ALIGNMENT_MISMATCH),
        ({"vectorize": Vectorize("r0", LANES // 2)}, Kind.ALIGNMENT_MISMATCH),
        ({"vectorize": Vectorize("i2", LANES)}, Kind.MALFORMED_GRAPH),
        ({"tile": (10,)}, Kind.MALFORMED_GRAPH),
        ({"bind": {"i2.o": "thread"}}, Kind.UNSUPPORTED_OP),
        ({"bind": {"i0.o": "warp"}}, Kind.UNSUPPORTED_OP),
        ({"cache": (Cached("X", "packed", "i0"),)}, Kind.UNSUPPORTED_OP),
        ({"warp_tile": "4x4"}, Kind.MALFORMED_GRAPH),
        ({"warp_tile": f"0x{LANES}"}, Kind.MALFORMED_GRAPH),
        ({"warp_tile": f"3x{LANES}"}, Kind.ALIGNMENT_MISMATCH),
        ({"epilogue": ("relu",)}, Kind.UNSUPPORTED_OP),
        ({"algo_choice": {"nest": "i0 i1", "matmul": "dot"}}, Kind.UNSUPPORTED_OP),
        ({"layout_hints": {"vector": "rhs"}}, Kind.UNSUPPORTED_OP),
        ({"stages": 3}, Kind.UNSUPPORTED_OP),
    ],
)
def test_a_nest_s_plan_that_makes_no_sense_is_refused(changes: dict[str, object], kind: Kind) -> None:
    with pytest.raises(EqsatError) as caught:
        lower_nest(ROWS, region_facts(ROWS).core, nest(**changes))
    assert caught.value.kind is kind


def test_a_split_reduction_s_parts_and_binding_are_the_plan_s() -> None:
    region = regions.total((300, 1000))
    core = region_facts(region).core
    split = next(plan for plan, _ in nest_candidates(region, core, target_of()) if "reduce" in plan.algo_choice)
    plans = [
        split,
        msgspec.structs.replace(split, bind={}),
        msgspec.structs.replace(split, tile=(*split.tile[:-1], 7 * LANES)),
    ]
    tried = [nest_kernels.case(region, core, plan, f"eq_k{n}") for n, plan in enumerate(plans)]
    parts = -(-300_000 // split.tile[-1])
    assert [each.kernel.phases[0].tasks for each in tried] == [parts, 1, -(-300_000 // (7 * LANES))]
    lib = nest_kernels.library(tried, machine())
    for each in tried:
        nest_kernels.check(lib, each, random_inputs(region))


def test_what_planners_make_is_accepted() -> None:
    """Every candidate of every region is one that the lowering takes."""
    for region in regions.corpus():
        core = region_facts(region).core
        for plan, _ in contraction_candidates(region, core, target_of()):
            lower_contraction(region, core, plan)
        for plan, _ in nest_candidates(region, core, target_of()):
            lower_nest(region, core, plan)
