"""A caller chooses plans of kernels, among those that the planner makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eqsat import EqsatError, Program, load, nn, optimize_and_compile
from eqsat import tensor as t
from ir.diagnostics import Kind
from ir.plan.schedule import Schedule

GEMM = str(Path(__file__).parents[3] / "eqsat" / "programs" / "gemm.json")


@pytest.fixture(scope="module")
def program() -> Program:
    """A contraction with an epilogue, a softmax, a contraction."""
    x, w = t.input("x", (48, 64)), t.input("w", (64, 64))
    return optimize_and_compile(nn.softmax((x @ w).relu()) @ w, target="cpu", threads=1)


def schedules(program: Program, kernel: int) -> list[Schedule]:
    return [option.schedule for option in program.plans(kernel)]


def present(program: Program, kernel: int) -> Schedule:
    (first,) = [schedule for schedule in schedules(program, kernel) if str(schedule) == program.dump("plan", kernel)]
    return first


def another(program: Program, kernel: int) -> Schedule:
    """A plan with another tile than the present one."""
    return next(schedule for schedule in schedules(program, kernel) if schedule.tile != present(program, kernel).tile)


def test_the_plans_of_a_kernel_are_listed_best_first(program: Program) -> None:
    times = [option.estimated_ns for option in program.plans(0)]
    assert times[0] == program.kernels[0].estimated_ns
    assert times == sorted(times)
    assert str(schedules(program, 0)[0]) == program.dump("plan", 0)


@pytest.mark.parametrize("product", [0, -1])
def test_a_kernel_takes_the_plan_that_is_named(program: Program, product: int) -> None:
    kernel = product % len(program.kernels)
    wanted, source = another(program, kernel), program.source()
    actual = program.replan(kernel, tile=wanted.tile)
    assert present(actual, kernel).tile == wanted.tile
    assert actual.source(kernel) != program.source(kernel)
    assert program.source() == source, "the program itself stays"
    actual.verify()
    for place in range(len(program.kernels)):
        if place != kernel:
            assert actual.dump("plan", place) == program.dump("plan", place)
    assert actual.kernels[kernel].estimated_ns >= program.kernels[kernel].estimated_ns
    (note,) = [diagnostic for diagnostic in actual.diagnostics if diagnostic.kind is Kind.TUNED]
    assert "chosen by hand: " in note.message


def test_sizes_are_written_as_numbers_or_as_text(program: Program) -> None:
    wanted = another(program, 0)
    rows, columns = map(int, wanted.warp_tile.split("x"))
    forms: tuple[dict[str, Any], ...] = (
        {"tile": wanted.tile, "warp_tile": wanted.warp_tile},
        {"tile": list(wanted.tile), "warp_tile": (rows, columns)},
        {"tile": "x".join(map(str, wanted.tile)), "warp_tile": wanted.warp_tile},
    )
    actual = [program.replan("dot_relu", **form).dump("plan", 0) for form in forms]
    assert actual == [str(wanted)] * 3


def test_several_kernels_at_once(program: Program) -> None:
    end = len(program.kernels) - 1
    first, last = another(program, 0).tile, another(program, end).tile
    result = program.replan(plans={0: {"tile": first}, "dot": {"tile": last}})
    assert [present(result, place).tile for place in (0, end)] == [first, last]
    result.verify()


def test_a_chosen_plan_is_saved(program: Program, tmp_path: Path) -> None:
    result = program.replan(0, tile=another(program, 0).tile)
    result.save(tmp_path / "p")
    for recompile in (False, True):
        assert load(tmp_path / "p", recompile=recompile).dump("plan", 0) == result.dump("plan", 0)


@pytest.mark.slow
def test_a_program_of_free_sizes_keeps_them_free() -> None:
    sizes = {"N": 64, "K": 64}
    free = optimize_and_compile(GEMM, target="cpu", threads=1, dims=sizes)
    free.prepare(M=48)
    wanted = another(free, 0)
    actual = free.replan(0, tile=wanted.tile, warp_tile=wanted.warp_tile)
    assert [variant["M"] for variant in actual.variants] == [48]
    actual.verify()
    actual.prepare(M=32)
    assert {variant["M"] for variant in actual.variants} == {32, 48}
    actual.verify()


@pytest.mark.slow
def test_the_plan_of_a_gpu_is_chosen_too() -> None:
    x, w = t.input("x", (32, 32)), t.input("w", (32, 32))
    actual = optimize_and_compile(x @ w, target="sm_80", emulate=True, cache=False)
    wanted = another(actual, 0)
    other = actual.replan(0, tile=wanted.tile, stages=wanted.stages)
    assert present(other, 0).tile == wanted.tile
    other.verify()


@pytest.mark.parametrize(
    ("kernel", "fields", "says"),
    [
        (0, {"tile": (1, 2, 3)}, "the planner makes no plan with tile=(1, 2, 3)"),
        (0, {"tiles": (1, 2, 3)}, "a plan has no field tiles"),
        (0, {}, "no field of a plan is given"),
        ("nobody", {"tile": (1, 2, 3)}, "there is no kernel 'nobody'"),
        (None, {"tile": (1, 2, 3)}, "no kernel is named"),
        (None, {}, "no kernel is named"),
    ],
)
def test_a_choice_that_there_is_not_is_refused(program: Program, kernel: Any, fields: Any, says: str) -> None:
    with pytest.raises(EqsatError) as caught:
        program.replan(kernel, **fields)
    assert caught.value.kind is Kind.INVALID_OPTION
    assert says in str(caught.value)


def test_a_refusal_names_the_values_that_there_are(program: Program) -> None:
    with pytest.raises(EqsatError) as caught:
        program.replan(0, tile=(1, 2, 3))
    assert "x".join(map(str, present(program, 0).tile)) in str(caught.value.diagnostics[0].hint)
    with pytest.raises(EqsatError, match="warp_tile="):
        program.replan(0, tiles=3)
