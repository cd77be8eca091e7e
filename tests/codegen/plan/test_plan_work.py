"""The work of plans: each of §11's terms is something that a plan of some region does."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec
import pytest

from codegen.lower.cpu.lower_contraction import lower_contraction
from codegen.plan.cpu.cache_lines import waiting_for_constants
from codegen.plan.cpu.candidates import candidates
from codegen.plan.cpu.contraction_work import CpuContractionWork
from codegen.plan.cpu.cpu_contraction import cpu_contraction_of
from codegen.plan.fit_plan import fit_plan
from codegen.plan.op_weights import weight
from codegen.poly.analyse import analyse
from eqsat.cost.roofline import Roofline
from eqsat.cost.targets import nominal_cpu
from ir.plan.cpu import CpuContractionPlan, CpuNestPlan
from ir.plan.plan import CpuPlan
from ir.pricer import Work
from ir.region.region import Number, Op, Region
from ir.target import CACHE_LINE_BYTES, Target
from tests.support.cpu.changed_plan import along, nest
from tests.support.cpu.contraction_runs import all_candidates
from tests.support.programs import regions
from tests.support.programs.narrow_regions import with_constant
from tests.support.programs.regions import buffer, contraction, ewise, read, reduction, region, same
from tests.support.stages.plan_class import plan_of

TARGET = nominal_cpu(
    arch="avx512", cores=2, lanes=16, l1_bytes=48 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20, source="test"
)
EXP = TARGET.weights["exp fp32"]
"""Additions-worth of an exponential."""


def plans(tried: Region, target: Target = TARGET) -> Sequence[tuple[CpuPlan, Work]]:
    return candidates(tried, analyse(tried).core, target)


def nests(tried: Region) -> list[tuple[CpuNestPlan, Work]]:
    return [(plan_of(plan, CpuNestPlan), work) for plan, work in plans(tried)]


def contractions(tried: Region, target: Target = TARGET) -> list[tuple[CpuContractionPlan, Work]]:
    return [(plan_of(plan, CpuContractionPlan), work) for plan, work in plans(tried, target)]


def chosen(tried: Region) -> Work:
    """The work of the plan that §11 prefers."""
    model = Roofline(TARGET)
    return min((work for _, work in plans(tried)), key=lambda work: model.estimate(work).time)


def over(outer: str, inner: str, priced: list[tuple[CpuNestPlan, Work]]) -> Work:
    return next(work for plan, work in priced if nest(plan) == f"{outer} {inner}")


def broadcast_exp() -> Region:
    """Y[i, j] = exp(b[j]) · x[i, j]."""
    out = (256, 512)
    body = [ewise("e", "exp", (512,), same("b", (512,))), ewise("y", "mul", out, read("e", out, "i1"), same("x", out))]
    return region("broadcast_exp", [buffer("b", (512,)), buffer("x", out)], body, out)


def test_a_value_is_computed_again_under_a_broadcast() -> None:
    """In every row with j inside; once for each column with j outside."""
    result = nests(broadcast_exp())
    rows = over("i0", "i1", result)
    assert rows.recomputed == EXP * 512 * 255
    assert rows.flops == EXP * 512 + 256 * 512
    (columns,) = [work for plan, work in result if (nest(plan), along(plan)) == ("i1 i0", "i1")]
    assert columns.recomputed == 0


def test_lanes_across_memory_are_a_layout_penalty() -> None:
    def copied(shape: tuple[int, int], *at: str) -> Region:
        body = [ewise("y", "copy", (256, 512), read("x", (256, 512), *at))]
        return region("copied", [buffer("x", shape)], body, (256, 512))

    straight, turned = copied((256, 512), "i0", "i1"), copied((512, 256), "i1", "i0")
    assert chosen(straight).layout == 0
    assert chosen(turned).layout >= 0.5 * TARGET.lane_cycles * 256 * 512


def test_registers_partly_filled_are_a_layout_penalty() -> None:
    def rows_of(size: int) -> Region:
        out = (4096, size)
        body = [ewise("y", "mul", out, same("x", out), read("s", out, "i0"))]
        return region("rows", [buffer("x", out), buffer("s", (4096,))], body, out)

    whole, partly = (min(work.layout for _, work in plans(rows_of(size))) / size for size in (32, 17))
    assert partly > whole


def softmax_row() -> Region:
    """Y = e / Σ e of rows, e = exp(x)."""
    out = (64, 512)
    body = [
        ewise("e", "exp", out, same("x", out)),
        reduction("s", "sum", out, 1, same("e", out)),
        ewise("y", "fdiv", out, same("e", out), read("s", out, "i0")),
    ]
    return region("softmax_row", [buffer("x", out)], body, out)


def test_a_row_kept_for_its_readers_is_a_fanout_penalty() -> None:
    work = chosen(softmax_row())
    assert work.fanout == pytest.approx(2 * TARGET.vector_cycles * 64 * 512 / 16)
    assert work.recomputed == 0
    assert work.scratch == 4 * 512 * 4  # of the rows that run together
    apart = [work for plan, work in nests(softmax_row()) if not plan.kept]
    assert all(work.fanout == 0 and work.recomputed >= EXP * 64 * 512 for work in apart)


def test_a_matrix_that_the_nearest_cache_does_not_hold_is_read_again() -> None:
    def product(k: int) -> Region:
        """Y[i, j] = Σ x[i, k]·w[k, j] as a product and a sum."""
        over_terms, out = (64, 100, k), (64, 100)
        body = [
            ewise("p", "mul", over_terms, read("x", over_terms, "i0", "i2"), read("w", over_terms, "i2", "i1")),
            reduction("s", "sum", over_terms, 1, same("p", over_terms)),
        ]
        return region("product", [buffer("x", (64, k)), buffer("w", (k, 100))], body, out)

    assert all(work.reread == 0 for _, work in plans(product(8)))
    assert chosen(product(512)).reread > fetched(64 * 100)


def fetched(stored: int) -> float:
    """Cycles of fetching the lines that so many numbers fill, which the nearest cache does not hold."""
    return stored * 4 * TARGET.refetch_cycles(TARGET.l2_bytes)


def column_sums(rows: int, columns: int) -> Region:
    """Y = x · Σ x over the rows."""
    out = (rows, columns)
    body = [
        reduction("s", "sum", (columns, rows), 1, read("x", (columns, rows), "i1", "i0")),
        ewise("y", "mul", out, same("x", out), read("s", out, "i1")),
    ]
    return region("column_sums", [buffer("x", out)], body, out)


def test_columns_of_rows_a_power_of_two_apart_conflict() -> None:
    def in_columns(columns: int) -> dict[int, Work]:
        return {plan.width: work for plan, work in nests(column_sums(512, columns)) if along(plan) == "i1"}

    conflicting, others = in_columns(1024), in_columns(1000)
    assert all(work.reread == pytest.approx(fetched(512 * 1000)) for work in others.values())
    waits = {width: work.reread - fetched(512 * 1024) for width, work in conflicting.items()}
    assert waits[16] == pytest.approx(4 * waits[64])
    assert waits[64] > 0


def test_a_number_for_all_lanes_is_loaded_once_for_them() -> None:
    out = (64, 1024)
    body = [ewise("y", "mul", out, same("x", out), read("s", out, "i0"))]
    scaled = region("scaled", [buffer("x", out), buffer("s", (64,))], body, out)
    assert all(work.layout <= 2 * 64 * 1024 / 16 for plan, work in nests(scaled) if along(plan) == "i1")


def test_short_rows_run_while_those_before_wait() -> None:
    """A row of 16 waits less than one of 1024, and neither is free."""

    def cycles(size: int) -> float:
        works = [work for plan, work in nests(row_sums(4096, size)) if along(plan) == "i1"]
        return min(work.flops / (64 * work.efficiency) for work in works) / 4096

    short, longer = cycles(16), cycles(1024)
    assert short < 25
    assert longer > 50 + 1024 / 16


def row_sums(rows: int, columns: int) -> Region:
    """Y = x · Σ x of rows."""
    out = (rows, columns)
    body = [
        reduction("s", "sum", out, 1, same("x", out)),
        ewise("y", "mul", out, same("x", out), read("s", out, "i0")),
    ]
    return region("row_sums", [buffer("x", out)], body, out)


def test_what_changes_along_rows_only_is_computed_once_a_row() -> None:
    def biased(axis: str, size: int) -> float:
        over_terms, out = (128, 128, 16), (128, 128)
        body = [
            contraction("c", over_terms, 1, read("A", over_terms, "i0", "i2"), read("B", over_terms, "i2", "i1")),
            ewise("e", "exp", (size,), same("b", (size,))),
            ewise("y", "add", out, same("c", out), read("e", out, axis)),
        ]
        inputs = [buffer("A", (128, 16)), buffer("B", (16, 128)), buffer("b", (size,))]
        return Roofline(TARGET).estimate(chosen(region("biased", inputs, body, out))).time

    assert biased("i0", 128) < biased("i1", 128)


def test_an_operand_beyond_the_last_cache_is_read_again_for_each_block_of_the_other() -> None:
    alone = msgspec.structs.replace(TARGET, units=1)
    small, large = (contractions(regions.matmul((), 2048, n, 2048), alone) for n in (256, 4096))
    assert all(work.reread == 0 for _, work in small)
    assert any(work.reread > 0 for plan, work in large if plan.blocks.bm < 2048)


def test_cores_that_divide_columns_exchange_the_rows_and_the_results() -> None:
    known = with_constant(regions.matmul((), 256, 512, 128), "B")
    by_rows: set[float] = set()
    by_columns: set[float] = set()
    for plan, work in all_candidates(known, TARGET):
        whole = plan.blocks.bm >= 256, plan.blocks.bn >= 512
        if plan.vector == 1 and whole[0] != whole[1]:
            (by_columns if whole[0] else by_rows).add(work.reread)
    lines = 256 * 128 * 4 / CACHE_LINE_BYTES, 256 * 512 * 4 / CACHE_LINE_BYTES
    assert by_rows == {0}
    assert by_columns == {14 * lines[0] + 28 * lines[1] / 2}


def test_columns_that_both_cores_read_from_the_last_cache_cost_more_than_those_of_one() -> None:
    def rereads(constant_bytes: int) -> set[float]:
        target = msgspec.structs.replace(TARGET, constant_bytes=constant_bytes)
        plans = contractions(with_constant(regions.matmul((), 256, 512, 128), "B"), target)
        return {work.reread for plan, work in plans if plan.vector == 1 and plan.blocks.bm < 256 <= plan.blocks.bn}

    lines = 512 * 128 * 4 / CACHE_LINE_BYTES
    assert [rereads(size) for size in (0, 4 << 20, 1 << 30)] == [{0}, {3 * lines}, {0}]


def test_constants_that_memory_gives_in_strips_of_columns_cost_waiting() -> None:
    """A product of one row as a nest; where memory gives the constants, products of the contraction template read them
    in order."""
    over, k, n = (2304, 768), 768, 2304
    body = [
        ewise("p", "mul", over, read("x", over, "i1"), read("W", over, "i1", "i0")),
        reduction("s", "sum", over, 1, same("p", over)),
    ]
    known = with_constant(region("product", [buffer("x", (k,)), buffer("W", (k, n))], body, (n,)), "W")

    def layout(constant_bytes: int) -> float:
        priced = plans(known, msgspec.structs.replace(TARGET, constant_bytes=constant_bytes))
        return next(work.layout for plan, work in priced if along(plan_of(plan, CpuNestPlan)) == "i0")

    strips = 12 * k * n * 4 / CACHE_LINE_BYTES
    memory = waiting_for_constants(k * n * 4, 0, TARGET)
    assert strips < layout(1 << 30) - layout(1 << 20) < strips + memory


def test_kernels_wait_for_constants_that_memory_gives_later_than_they_multiply() -> None:
    cold = 1 << 20
    cycles = TARGET.cycles_in(cold / TARGET.bandwidth)
    waits = [waiting_for_constants(cold, busy, TARGET) for busy in (0, cycles / 2, cycles, 2 * cycles)]
    assert waits == pytest.approx([0.7 * cycles, 0.35 * cycles, 0, 0])


def test_the_wait_of_one_tile_of_rows_for_constants_has_no_jump() -> None:
    """From constants that memory gives far sooner than a core multiplies to those that memory gives far later."""
    known = with_constant(regions.matmul((), 8, 768, 768), "B")
    plan = next(plan for plan, _ in contractions(known) if plan.blocks.bm == plan.blocks.mr)
    view = cpu_contraction_of(known, analyse(known).core, vector=plan.vector)
    assert view is not None

    def wait(bandwidth: float) -> float:
        target = msgspec.structs.replace(TARGET, constant_bytes=1 << 30, bandwidth=bandwidth)
        return CpuContractionWork(view, target).of(plan.blocks, plan.places, plan.order, held=plan.held).layout

    waits = [wait(1e9 * 1.02**step) for step in range(500)]
    assert waits[0] > 1e3 * waits[-1]
    assert all(0.94 < after / before < 1.06 for before, after in itertools.pairwise(waits))


def test_rows_in_memory_that_no_cache_holds_are_read_again_for_each_product() -> None:
    def per_row(rows: int) -> float:
        over, out = (50, rows, 2, 3072), (50, rows, 2)
        shared, own = read("A", over, "i1", "i3"), read("B", over, "i2", "i0", "i3")
        inputs = [buffer("A", (rows, 3072)), buffer("B", (2, 50, 3072))]
        plans = all_candidates(region("shared", inputs, [contraction("c", over, 1, shared, own)], out), TARGET)
        return min(work.layout for plan, work in plans if plan.blocks.algorithm == "dot") / rows

    near, nearer, far = map(per_row, (32, 16, 768))
    assert near == nearer
    assert far > near + 49 * 3072 * 4 / CACHE_LINE_BYTES


@pytest.mark.parametrize("reader", ["columns alone", "rows", "epilogue"])
def test_panels_stand_for_their_sources_where_nothing_else_reads_these(reader: str) -> None:
    """Y = x · Q, where also the rows or the epilogue may read Q, a constant of bytes."""
    over, out = (64, 64, 64), (64, 64)
    body = [
        ewise("w", "cast", out, same("Q", out)),
        ewise("a", "mul", out, same("x", out), same("w" if reader == "rows" else "x", out)),
        contraction("c", over, 1, read("a", over, "i0", "i2"), read("w", over, "i2", "i1")),
        ewise("y", "add", out, same("c", out), same("w" if reader == "epilogue" else "c", out)),
    ]
    shared = region("shared", [buffer("x", out), buffer("Q", out, "i8", constant=True)], body, out)
    source = 64 * 64
    others = 2 * 4 * source + (source if reader != "columns alone" else 0)
    plans = {plan.places[1]: (plan, work) for plan, work in all_candidates(shared, TARGET)}
    assert {place: work.bytes for place, (_, work) in plans.items()} == {
        "const_pool": others + 4 * source,
        "const_parts": others + source,
    }
    for plan, _ in plans.values():
        kernel = lower_contraction(fit_plan(shared, analyse(shared).core, plan), plan)
        assert ("Q" in kernel.args) == (reader != "columns alone")


def test_packing_is_a_layout_penalty_and_its_panels_are_on_chip() -> None:
    for plan, work in contractions(regions.matmul((), 128, 128, 128)):
        packed = [operand for operand in plan.operands if operand.place in ("packed", "packed_once")]
        assert bool(packed) == (work.layout > 0)
    blocked = [work for plan, work in contractions(regions.matmul((), 512, 512, 2048)) if plan.blocks.bk < 2048]
    assert all(work.scratch > 0 for work in blocked)


@pytest.mark.parametrize(("fn", "least"), [("exp", 1.2), ("pow", 4)])
def test_what_follows_a_contraction_costs_its_weight(fn: str, least: float) -> None:
    """Against an addition; a power computes in fp64."""

    def with_epilogue(name: str) -> Work:
        over_terms, out = (128, 128, 16), (128, 128)
        operands = [same("c", out)] if name == "exp" else [same("c", out), Number(1.5, "fp32")]
        body = [
            contraction("c", over_terms, 1, read("A", over_terms, "i0", "i2"), read("B", over_terms, "i2", "i1")),
            ewise("y", name, out, *operands),
        ]
        return chosen(region("epilogue", [buffer("A", (128, 16)), buffer("B", (16, 128))], body, out))

    plain, dear = (Roofline(TARGET).estimate(with_epilogue(name)).time for name in ("add", fn))
    assert dear > least * plain


def test_what_computes_an_operand_is_computed_again_per_tile() -> None:
    over_terms, out = (256, 256, 64), (256, 256)
    body = [
        ewise("e", "exp", (256, 64), same("A", (256, 64))),
        contraction("c", over_terms, 1, read("e", over_terms, "i0", "i2"), read("B", over_terms, "i2", "i1")),
    ]
    result = plans(region("prologue", [buffer("A", (256, 64)), buffer("B", (64, 256))], body, out))
    assert any(work.recomputed >= 12 * 256 * 64 for _, work in result)
    assert any(work.recomputed == 0 for _, work in result)


def test_weights() -> None:
    def point(fn: str, dtype: str, kind: str = "ewise") -> float:
        return weight(Op(kind, fn, dtype, (4,)), TARGET)  # type: ignore[arg-type]

    assert point("add", "fp32") == 1
    assert point("add", "fp64") == 2
    assert point("add", "fp16") == 1 + TARGET.weights["cast fp16"]
    assert point("pow", "fp64") == TARGET.weights["pow fp64"] > 400
    assert point("exp", "fp64") > 4 * point("exp", "fp32")
    assert point("max", "fp32", "reduce") == 2 * point("sum", "fp32", "reduce")
    assert weight(Op("copy", "copy", "fp32", (4,)), TARGET) == 0
    measured = msgspec.structs.replace(TARGET, weights={"exp fp32": 7.5})
    assert weight(Op("unary", "exp", "fp32", (4,)), measured) == 7.5


@pytest.mark.parametrize(
    "tried",
    [regions.matmul((), 256, 256, 256), regions.conv(1, 16, 16, (14, 14), 3, 1, 1), softmax_row(), broadcast_exp()],
    ids=["matmul", "conv", "softmax", "broadcast"],
)
def test_the_search_space_is_small(tried: Region) -> None:
    """§11: 10 to 20 plans a region; a nest has fewer that differ."""
    assert 1 <= len(plans(tried)) <= 20
    assert tried.body[-1].op.kind != "contraction" or len(plans(tried)) >= 10


def chained(*fns: str, points: int = 4096) -> Region:
    """Functions of one point, each of the result of the one before."""
    out, names = (points,), [f"v{number}" for number in range(len(fns))]
    reads = ("x", *names)
    body = [ewise(name, fn, out, same(read_, out)) for name, fn, read_ in zip(names, fns, reads, strict=False)]
    return region("chained", [buffer("x", out)], body, out)


def test_functions_that_wait_for_each_other_cost_more_than_their_work() -> None:
    def time(tried: Region) -> float:
        return Roofline(TARGET).estimate(chosen(tried)).compute

    out = (4096,)
    several = [ewise(f"e{number}", "exp", out, same(f"x{number}", out)) for number in range(3)]
    several += [
        ewise("s", "add", out, same("e0", out), same("e1", out)),
        ewise("t", "add", out, same("s", out), same("e2", out)),
    ]
    apart = region("apart", [buffer(f"x{number}", out) for number in range(3)], several, out)
    one, three = time(chained("exp")), time(chained("exp", "exp", "exp"))
    assert three > 1.4 * time(apart)
    assert three > 4.5 * one
    assert time(chained("neg", "abs", "relu")) < one


def test_an_epilogue_of_functions_that_wait_for_each_other_costs_more() -> None:
    def time(*fns: str) -> float:
        over_terms, out = (64, 64, 16), (64, 64)
        body = [contraction("c", over_terms, 1, read("A", over_terms, "i0", "i2"), read("B", over_terms, "i2", "i1"))]
        for number, fn in enumerate(fns):
            body.append(ewise(f"v{number}", fn, out, same(f"v{number - 1}" if number else "c", out)))
        inputs = [buffer("A", (64, 16)), buffer("B", (16, 64))]
        return Roofline(TARGET).estimate(chosen(region("product", inputs, body, out))).compute

    assert time("exp", "exp", "exp") - time() > 3.5 * (time("exp") - time())


def test_padding_by_infinities_is_tested_lane_by_lane() -> None:
    over_terms = (16, 14, 14, 16, 3, 3)
    padded, within = {2: 14, 3: 14}, ("0", "i3", "i1 + i4 - 1", "i2 + i5 - 1")

    def packing(fill: float) -> float:
        image, weights = (
            read("X", over_terms, *within, pad=padded, fill=fill),
            read("W", over_terms, "i0", "i3", "i4", "i5"),
        )
        inputs = [buffer("X", (1, 16, 14, 14)), buffer("W", (16, 16, 3, 3), constant=True)]
        tried = region("conv", inputs, [contraction("c", over_terms, 3, image, weights)], (16, 14, 14))
        return min(work.layout for _, work in plans(tried))

    assert packing(math.inf) > 1.5 * packing(0.0)
    assert packing(1.0) == packing(0.0)
