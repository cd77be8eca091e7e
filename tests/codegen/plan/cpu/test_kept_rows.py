"""A value that a reduction's terms compute is kept on chip for its readers, where the plan says so."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import msgspec
import pytest

from codegen.compile.machine import machine
from codegen.lower.cpu.lower_nest import lower_nest
from codegen.plan.cpu.kept_rows import kept_rows
from codegen.plan.fit_plan import fit_plan
from codegen.plan.region_loops import RegionLoops
from codegen.poly.analyse import analyse
from codegen.text.cpu_to_c import c_text
from eqsat import nn, optimize_and_compile, tensor
from ir.diagnostics import EqsatError, Kind
from ir.index.map import identity, parse_map
from ir.plan.cpu import CpuNestPlan, KeptValue
from ir.region.region import Buffer, Definition, MemRef, Op, Operand, Region, Yield
from tests.support.cpu import nest_kernels
from tests.support.cpu.played import random_inputs
from tests.support.programs.regions import softmaxes
from tests.support.sampling import every

SIZES = [(5, 130), (3, 7), (1, 1), (70, 33)]


@cache
def exp_over_sum(rows: int, terms: int, reads: str = "[{0},{1}] -> [i0, i1]", dtype: str = "fp32") -> Region:
    """y[i, j] = e[i, j] / Σₖ e[i, k], e = exp(x); `reads` is where the output reads e."""
    here, row = (parse_map(text.format(rows, terms)) for text in ("[{0},{1}] -> [i0, i1]", "[{0},{1}] -> [i0]"))
    at = parse_map(reads.format(rows, terms))
    return Region(
        "exp_over_sum",
        (Buffer("x", MemRef((rows, terms), dtype)),),
        (Buffer("y", MemRef((rows, terms), dtype)),),
        (
            Definition("e", Op("unary", "exp", dtype, (rows, terms), (Operand("x", here),))),
            Definition("s", Op("reduce", "sum", dtype, (rows, terms), (Operand("e", here),), 1)),
            Definition("q", Op("ewise", "fdiv", dtype, (rows, terms), (Operand("e", at), Operand("s", row)))),
        ),
        (Yield("q", "y", here),),
    )


def kept(plan: CpuNestPlan) -> bool:
    return plan.kept == (KeptValue("e", "y"),)


@every(37)
@pytest.mark.parametrize("arch", ["avx512", "avx2", "sse2"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "fp64"])
def test_plans_are_right_with_and_without_their_rows(arch: str, dtype: str, step: int) -> None:
    where = nest_kernels.required(arch)
    backwards = "[{0},{1}] -> [i0, -i1 + " + "{2}" + "]"
    tried: list[nest_kernels.Case] = []
    for rows, terms in SIZES:
        straight = exp_over_sum(rows, terms, dtype=dtype)
        turned = exp_over_sum(rows, terms, backwards.replace("{2}", str(terms - 1)), dtype)
        for region in (straight, turned):
            for case in nest_kernels.cases([region], arch, step=step):
                for edges in {case.plan.kept, ()}:
                    plan = msgspec.structs.replace(case.plan, kept=edges)
                    core = analyse(region).core
                    tried.append(nest_kernels.case(region, core, plan, f"eq_k{len(tried)}"))
    assert any(kept(case.plan) for case in tried)
    lib = nest_kernels.library(tried, where)
    for case in tried:
        for at_end in (True, False):
            nest_kernels.check(lib, case, random_inputs(case.region, nan=True), at_end=at_end)


def weighted(images: int, rows: int, terms: int, columns: int) -> Region:
    """y[n, i, c] = Σₖ e[n, i, k]·w[n, k, c] / Σₖ e[n, i, k]: of few terms, read at constant places of the row."""
    scores, sums = (images, rows, terms), (images, rows)
    here, row = (
        parse_map(f"[{images},{rows},{terms}] -> [i0, i1, i2]"),
        parse_map(f"[{images},{rows},{terms}] -> [i0, i1]"),
    )
    domain = (images, rows, columns, terms)
    box = ",".join(map(str, domain))
    left, right = parse_map(f"[{box}] -> [i0, i1, i3]"), parse_map(f"[{box}] -> [i0, i3, i2]")
    return Region(
        "weighted",
        (Buffer("x", MemRef(scores, "fp32")), Buffer("w", MemRef((images, terms, columns), "fp32"))),
        (Buffer("y", MemRef((images, rows, columns), "fp32")),),
        (
            Definition("e", Op("unary", "exp", "fp32", scores, (Operand("x", here),))),
            Definition("s", Op("reduce", "sum", "fp32", scores, (Operand("e", here),), 1)),
            Definition("r", Op("unary", "recip", "fp32", sums, (Operand("s", identity(sums)),))),
            Definition("p", Op("ewise", "mul", "fp32", scores, (Operand("e", here), Operand("r", row)))),
            Definition("t", Op("ewise", "mul", "fp32", domain, (Operand("p", left), Operand("w", right)))),
            Definition("y_", Op("reduce", "sum", "fp32", domain, (Operand("t", identity(domain)),), 1)),
        ),
        (Yield("y_", "y", identity((images, rows, columns))),),
    )


@pytest.mark.parametrize("sizes", [(2, 3, 5, 4), (1, 2, 1, 3), (3, 1, 2, 17), (1, 1, 3, 1)])
def test_a_row_is_read_after_it_was_filled_for_this_point(sizes: tuple[int, int, int, int]) -> None:
    cases = nest_kernels.cases([weighted(*sizes)], machine().arch)
    lib = nest_kernels.library(cases, machine())
    for case in cases:
        nest_kernels.check(lib, case, random_inputs(case.region))
    assert sizes != (2, 3, 5, 4) or any(case.plan.kept for case in cases)


def products_and_total(rows: int, terms: int) -> Region:
    """y[i] = Πₖ e[i, k] and z = Σᵢₖ 1/√e[i, k], e = exp(x): the sum goes over all rows of e."""
    here, whole = identity((rows, terms)), parse_map(f"[{rows}] -> []")
    return Region(
        "products_and_total",
        (Buffer("x", MemRef((rows, terms), "fp32")),),
        (Buffer("y", MemRef((rows,), "fp32")), Buffer("z", MemRef((), "fp32"))),
        (
            Definition("e", Op("unary", "exp", "fp32", (rows, terms), (Operand("x", here),))),
            Definition("p", Op("reduce", "prod", "fp32", (rows, terms), (Operand("e", here),), 1)),
            Definition("q", Op("unary", "rsqrt", "fp32", (rows, terms), (Operand("e", here),))),
            Definition("s", Op("reduce", "sum", "fp32", (rows, terms), (Operand("q", here),), 2)),
        ),
        (Yield("p", "y", identity((rows,))), Yield("s", "z", identity(()), whole)),
    )


@pytest.mark.parametrize("sizes", [(2, 1), (40, 1), (1, 1), (1, 7), (5, 3), (3, 40)])
def test_a_sum_over_several_rows_computes_their_values_again(sizes: tuple[int, int]) -> None:
    cases = nest_kernels.cases([products_and_total(*sizes)], machine().arch)
    lib = nest_kernels.library(cases, machine())
    for case in cases:
        assert not case.plan.kept or sizes[0] == 1
        nest_kernels.check(lib, case, random_inputs(case.region))


def test_a_chain_keeps_a_row_of_each_dear_value_until_its_last_reader() -> None:
    region = softmaxes(6, 40, times=3)
    result = kept_rows(RegionLoops(region, analyse(region).core))
    assert [(row.kept.value, row.filler, row.kept.until) for row in result] == [
        ("E0", "S0", "S1"),
        ("E1", "S1", "S2"),
        ("E2", "S2", "Y"),
    ]
    assert [[site.scope for site in row.rereads] for row in result] == [["M1", "S1"], ["M2", "S2"], ["Y"]]


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "dtype"), [("avx512", "fp32"), ("avx512", "fp16"), ("sse2", "fp64")])
def test_chains_are_right_whichever_rows_are_kept(arch: str, dtype: str) -> None:
    where = nest_kernels.required(arch)
    tried: list[nest_kernels.Case] = []
    for sizes in SIZES[:2]:
        region = softmaxes(*sizes, dtype=dtype)
        core = analyse(region).core
        for case in nest_kernels.cases([region], arch):
            for count in range(len(case.plan.kept) + 1):
                for edges in combinations(case.plan.kept, count):
                    plan = msgspec.structs.replace(case.plan, kept=edges)
                    tried.append(nest_kernels.case(region, core, plan, f"eq_k{len(tried)}"))
    assert any(len(case.plan.kept) == 2 for case in tried)
    lib = nest_kernels.library(tried, where)
    for case in tried:
        nest_kernels.check(lib, case, random_inputs(case.region, nan=True))


def test_a_plan_that_keeps_the_row_computes_each_value_once() -> None:
    region = exp_over_sum(64, 1000)
    core = analyse(region).core
    (plan, *_) = [case.plan for case in nest_kernels.cases([region], machine().arch) if kept(case.plan)]
    text = c_text(lower_nest(fit_plan(region, core, plan), plan))
    without = msgspec.structs.replace(plan, kept=())
    rereads = c_text(lower_nest(fit_plan(region, core, without), without))
    assert "eq_load_f32(y " in text
    assert "eq_load_f32(y " not in rereads
    assert text.count("eq_exp_f32(") < rereads.count("eq_exp_f32(")


def cut_rows(plan: CpuNestPlan) -> CpuNestPlan:
    """The plan with two blocks along the rows."""
    loops = [msgspec.structs.replace(loop, tile=64 if loop.axes == (1,) else loop.tile) for loop in plan.loops]
    return msgspec.structs.replace(plan, loops=tuple(loops))


def test_rows_lie_in_an_output_that_reads_each_element_last() -> None:
    """Not where the output is written in parts of a row, or is read backwards, or is of another dtype."""
    region = exp_over_sum(64, 128)
    core = analyse(region).core
    plan = next(
        case.plan
        for case in nest_kernels.cases([region], machine().arch)
        if kept(case.plan) and [loop.axes for loop in case.plan.loops] == [(0,), (1,)] and case.plan.lanes == 1
    )
    assert "e_row" not in c_text(lower_nest(fit_plan(region, core, plan), plan))
    for other, own in ((region, cut_rows(plan)), (exp_over_sum(64, 128, "[{0},{1}] -> [i0, -i1 + 127]"), plan)):
        case = nest_kernels.case(other, analyse(other).core, own)
        assert "e_row" in c_text(case.kernel)
        nest_kernels.check(nest_kernels.library([case], machine()), case, random_inputs(other, nan=True))


def test_one_of_several_rows_lies_in_the_output() -> None:
    """The output reads the weights of both softmaxes."""
    x = tensor.input("x", (3, 17))
    once = nn.softmax(x, -1)
    program = optimize_and_compile(x * once + nn.softmax(once * 3, -1), cache=False)
    assert len(program.kernels) == 1
    program.verify()


def test_what_is_cheap_or_read_once_is_not_kept() -> None:
    region = exp_over_sum(4, 5)
    core = analyse(region).core
    assert [row.value for row in kept_rows(RegionLoops(region, core))] == ["e"]
    negated = {"e": "neg"}
    body = tuple(
        Definition(let.name, msgspec.structs.replace(let.op, fn=negated.get(let.name, let.op.fn)))
        for let in region.body
    )
    cheap = msgspec.structs.replace(region, body=body)
    assert not kept_rows(RegionLoops(cheap, analyse(cheap).core))


@pytest.mark.parametrize(
    "changes",
    [
        {"kept": (KeptValue("q", "y"),)},
        {"kept": (KeptValue("e", "s"),)},
        {"lanes": 0, "width": machine().lanes, "rows": 1},
        {"part": 10, "rows": 1},
    ],
)
def test_a_row_that_cannot_be_kept_is_refused(changes: dict[str, object]) -> None:
    region = exp_over_sum(6, 40)
    (plan, *_) = [case.plan for case in nest_kernels.cases([region], machine().arch) if kept(case.plan)]
    with pytest.raises(EqsatError) as caught:
        fit_plan(region, analyse(region).core, msgspec.structs.replace(plan, **changes))
    assert caught.value.diagnostics[0].kind is Kind.UNSUPPORTED_OP
