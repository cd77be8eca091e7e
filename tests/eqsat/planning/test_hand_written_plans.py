"""Plans that a caller writes: right results by any that are taken, and a refusal that names what does not fit."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pytest

from eqsat import EqsatError, Program, nn, optimize_and_compile
from eqsat import tensor as t
from ir.diagnostics import Kind
from ir.plan.cpu import CpuContractionPlan, CpuNestPlan, CpuScatterPlan, CpuStreamPlan
from ir.plan.plan import Plan


def attention() -> t.Tensor:
    x, w = t.input("x", (24, 40)), t.input("w", (40, 40))
    return nn.softmax((x @ w).relu()).exp() @ w


@pytest.fixture(scope="module")
def program() -> Program:
    """A contraction with an epilogue, rows, a contraction."""
    return optimize_and_compile(attention(), target="cpu", threads=2)


@pytest.fixture(scope="module")
def gemm(program: Program) -> CpuContractionPlan:
    plan = program.plans(0)[0].plan
    assert isinstance(plan, CpuContractionPlan)
    return plan


def changed(plan: CpuContractionPlan, **sizes: Any) -> CpuContractionPlan:
    """The plan with other blocks, every axis with a tail."""
    blocks = msgspec.structs.replace(plan.blocks, **sizes)
    return msgspec.structs.replace(plan, blocks=blocks, tails=("m", "n", "k"))


def replanned(program: Program, plan: Plan) -> Program | None:
    """The program with a plan of its first kernel; None where the plan is refused, by no failure of eqsat."""
    try:
        return program.replan(0, plan)
    except EqsatError as error:
        if error.kind is Kind.INTERNAL_ERROR:
            raise
        return None


def refused(program: Program, kernel: int, plan: Any) -> EqsatError:
    with pytest.raises(EqsatError) as caught:
        program.replan(kernel, plan)
    return caught.value


@pytest.mark.slow
def test_a_plan_that_the_planner_does_not_make_is_lowered(program: Program, gemm: CpuContractionPlan) -> None:
    mine = changed(gemm, mr=2, bm=10, bk=13)
    assert mine not in [option.plan for option in program.plans(0)]
    result = program.replan(0, mine)
    assert result.dump("plan", 0) != program.dump("plan", 0)
    assert result.kernels[0].estimated_ns > 0
    assert "chosen by hand" in result.diagnostics[-1].message
    result.verify()


@pytest.mark.slow
def test_plans_are_given_when_a_program_is_made(program: Program, gemm: CpuContractionPlan) -> None:
    mine = changed(gemm, mr=2, bm=6)
    name = program.kernels[0].name
    result = optimize_and_compile(attention(), target="cpu", threads=2, plans={name: mine})
    assert result.dump("plan", 0) == program.replan(0, mine).dump("plan", 0)
    fields = program.plans(0)[-1].schedule
    result = optimize_and_compile(attention(), target="cpu", plans={0: {"tile": fields.tile}}, threads=2)
    result.verify()
    for plans, said in ({"nobody": mine}, "no kernel 'nobody'"), ([mine], "plans= is a mapping"):
        with pytest.raises(EqsatError, match=said):
            optimize_and_compile(attention(), target="cpu", plans=plans)  # type: ignore[arg-type]


@pytest.mark.slow
def test_random_blocks_compute_the_same_or_are_refused(program: Program, gemm: CpuContractionPlan) -> None:
    """Wrong sizes never reach a kernel: every plan is refused with a message, or right."""
    rng, taken = random.Random(0), 0
    x = program.random_inputs(1)
    expected = np.asarray(program(x))
    for _ in range(40):
        sizes = {
            name: rng.choice((0, -1, 1, 2, 3, 5, 8, 16, 24, 40, 41, 1000)) for name in ("mr", "nr", "bm", "bn", "bk")
        }
        chosen = rng.sample(sorted(sizes), 2)
        mine = changed(gemm, **{name: sizes[name] for name in chosen})
        actual = replanned(program, mine)
        if actual is not None:
            taken += 1
            np.testing.assert_allclose(actual(x), expected, rtol=2e-4, atol=1e-5)
    assert taken >= 2


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"mr": 5, "bm": 7}, Kind.ALIGNMENT_MISMATCH, "no whole number of register tiles of 5"),
        ({"mr": 1000, "bm": 1000}, Kind.RESOURCE_EXCEEDED, "registers"),
        ({"bk": 41}, Kind.ALIGNMENT_MISMATCH, "do not take 41 of 40 terms"),
        ({"mr": 0}, Kind.MALFORMED_GRAPH, "not sizes in elements"),
        ({"mr": "6"}, Kind.INVALID_OPTION, "another type"),
        ({"bm": None}, Kind.INVALID_OPTION, "another type"),
        ({"lanes": 3}, Kind.ALIGNMENT_MISMATCH, "no register"),
    ],
)
def test_what_does_not_fit_is_named(
    program: Program, gemm: CpuContractionPlan, changes: dict[str, Any], kind: Kind, said: str
) -> None:
    error = refused(program, 0, changed(gemm, **changes))
    assert error.kind is kind
    assert said in str(error)


def test_a_plan_of_another_kernel_machine_or_order_is_refused(program: Program, gemm: CpuContractionPlan) -> None:
    assert "runs by a CpuNestPlan" in str(refused(program, 1, gemm))
    other = "sse2" if gemm.arch != "sse2" else "avx2"
    assert refused(program, 0, msgspec.structs.replace(gemm, arch=other)).kind is Kind.UNKNOWN_TARGET
    assert "exactness decides" in str(refused(program, 0, msgspec.structs.replace(gemm, ordered=True)))
    assert "is a value of a class of ir.plan" in str(refused(program, 0, 3))


@pytest.mark.slow
def test_nests_and_streams_are_written_by_hand_too() -> None:
    q, k, v = (t.input(name, (2, 40, 16)) for name in "qkv")
    stream = optimize_and_compile(nn.attention(q, k, v), target="cpu", threads=1)
    rows = optimize_and_compile(nn.softmax(t.input("x", (40, 24))), target="cpu", threads=1)
    kinds: list[type[Plan]] = []
    for program in (stream, rows):
        plan = program.plans(0)[0].plan
        kinds.append(type(plan))
        if isinstance(plan, CpuStreamPlan):
            blocks = plan.blocks
            mine: Plan = msgspec.structs.replace(plan, blocks=msgspec.structs.replace(blocks, bm=2 * blocks.bm))
        else:
            assert isinstance(plan, CpuNestPlan)
            mine = msgspec.structs.replace(plan, loops=(msgspec.structs.replace(plan.loops[0], tile=8), plan.loops[1]))
        result = replanned(program, mine)
        assert result is not None
        result.verify()
    assert kinds == [CpuStreamPlan, CpuNestPlan]


def test_a_scatter_has_the_planners_plans_only() -> None:
    x, index = t.input("x", (8, 4)), t.input("i", (6,), "i32")
    program = optimize_and_compile(x[index] + 1, target="cpu")
    assert CpuScatterPlan not in {type(option.plan) for option in program.plans(0)}
