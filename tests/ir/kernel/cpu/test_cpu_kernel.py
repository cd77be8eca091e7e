"""The CPU dialect by itself: its printed form, its JSON, its verifier, and the C text of what regions seldom need."""

from __future__ import annotations

import msgspec
import pytest

from codegen.lower.cpu.lower_nest import lower_nest
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from codegen.text.cpu_to_c import c_text
from ir.diagnostics import EqsatError, Kind
from ir.index.expr import AxisExpr
from ir.kernel.cpu.kernel import CpuKernel, CpuParam, Phase
from ir.kernel.cpu.nodes import CpuCall, CpuFor, Load, Stmt, Store
from ir.kernel.cpu.verify import verify
from ir.kernel.nodes import Assign, Const, Let, Reg, Variable
from tests.support.programs import regions as r
from tests.support.stages.made_plans import nest_plan

I = AxisExpr(0, ((1, 1),))  # noqa: E741
PLAN = nest_plan(3, 20, lanes=1, width=16, tails=("i1",))
TEXT = """\
kernel eq_k lanes=16 (a: fp32[3], b: fp32[20], Y: fp32[60] out)
  phase t in 0 .. 1
    for i0 in 0 .. 3
      a_2: fp32 = a[i0 : splat]
      for i1 in 0 .. 16 step 16
        b_2: fp32 = b[i1 : unit]
        A: fp32 = add(a_2, b_2)
        Y[20*i0 + i1 : unit] := A
      for i1_2 in 16 .. 20 step 16
        b_3: fp32 = b[i1_2 : unit first 4]
        A_2: fp32 = add(a_2, b_3)
        Y[20*i0 + i1_2 : unit first 4] := A_2"""


def outer_sum() -> CpuKernel:
    region = r.outer_sum(3, 20)
    return lower_nest(fit_plan(region, analyse(region).core, PLAN), PLAN)


def kernel(*body: Stmt) -> CpuKernel:
    """A loop of 16 steps over a kernel with an input `x` and an output `y` of 16 elements."""
    loop = CpuFor(1, AxisExpr(), AxisExpr(16), body)
    params = (CpuParam("x", "fp32", 16), CpuParam("y", "fp32", 16, written=True))
    return CpuKernel("k", 16, params, (Variable("t", 0, 0), Variable("i", 0, 15)), (Phase(0, 1, (loop,)),))


def load(offset: AxisExpr = I) -> Load:
    return Load("x", offset, "fp32", "splat")


def test_a_kernel_reads_like_its_plan() -> None:
    assert str(outer_sum()) == TEXT


def test_c_text_is_headed_by_region_and_plan() -> None:
    text = c_text(outer_sum())
    head = text[: text.index("*/")]
    assert all(line in head for line in str(r.outer_sum(3, 20)).splitlines())
    assert "plan avx512: nest i0 i1" in head


def test_comments_do_not_end_early() -> None:
    region = msgspec.structs.replace(r.outer_sum(3, 20), name="evil */ int x; /*")
    text = c_text(lower_nest(fit_plan(region, analyse(region).core, PLAN), PLAN))
    assert text.count("*/") == 1


@pytest.mark.parametrize("name", ["double", "buf", "a*b", "3x", "größe", "eq_add_f32"])
def test_any_buffer_name_becomes_a_c_name(name: str) -> None:
    region = r.region("named", [r.buffer(name, (4,))], [r.ewise("int", "neg", (4,), r.same(name, (4,)))], (4,))
    plan = nest_plan(4, lanes=0, width=16, tails=("i0",))
    text = c_text(lower_nest(fit_plan(region, analyse(region).core, plan), plan))
    body = text[text.index("*/") :]
    assert " double =" not in body
    assert "*a*b" not in body
    assert body.isascii()
    assert " int =" not in body


def test_a_well_formed_kernel_passes() -> None:
    verify(kernel(Let("v", load()), Store("y", I, Reg("v", "fp32"), 1)))
    verify(outer_sum())


@pytest.mark.parametrize(
    "body",
    [
        (Store("y", I, Reg("v", "fp32"), 1),),  # never defined
        (Let("v", load()), Store("y", I, Reg("v", "i32"), 1)),  # another dtype
        (Let("v", load()), Store("x", I, Reg("v", "fp32"), 1)),  # an input
        (Let("v", load()), Store("z", I, Reg("v", "fp32"), 1)),  # no such buffer
        (Let("v", load()), Assign("v", Const(1, "fp32"))),  # not mutable
        (Let("v", load(), True), Assign("v", Const(1, "i32"))),  # another dtype
        (Let("v", load(I.shift(1))),),  # beyond the end
        (Let("v", load(I.shift(-1))),),  # before the start
        (Let("v", load(AxisExpr(0, ((2, 1),)))),),  # a variable that is not bound
        (Let("v", Load("x", I, "i32", "splat")),),  # another dtype
    ],
)
def test_the_verifier_rejects(body: tuple[Stmt, ...]) -> None:
    wrong = kernel(*body)
    wrong = msgspec.structs.replace(wrong, variables=(*wrong.variables, Variable("free", 0, 0)))
    with pytest.raises(EqsatError) as caught:
        verify(wrong)
    assert caught.value.kind == Kind.MALFORMED_GRAPH


def test_c_of_floors_conditions_and_casts() -> None:
    floor = analyse(region := r.move((5, 9), (45,), "i0 - 5*(i0 // 5)", "i0 // 5")).core
    plan = nest_plan(45, lanes=0, width=16, tails=("i0",))
    text = c_text(lower_nest(fit_plan(region, floor, plan), plan))
    assert "EQ_EACH_LANE(int64_t, i64, 9 * ((int)i0 + l) - 44 * (((int)i0 + l) / 5))" in text
    large = analyse(region := r.move((5, 9 << 28), (45 << 28,), "i0 - 5*(i0 // 5)", "i0 // 5")).core
    plan = nest_plan(45 << 28, lanes=0, width=16)
    assert " * ((i0 + l) / 5))" in c_text(lower_nest(fit_plan(region, large, plan), plan))
    cast = c_text(kernel(Let("v", CpuCall("cast", (load(),), "i8"))))
    assert "eq_cast_f32_i8(eq_splat_f32(x + i))" in cast
