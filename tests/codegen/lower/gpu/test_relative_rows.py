"""Long rows over the whole chip: sums of exponentials relative to the maxima of parts, joined by the last block; and
programs of few long rows, none of which is left to one block."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from codegen.compile.nvrtc import build
from codegen.plan.relative_sums import Relative, relative_sums
from codegen.plan.stream_sums import without_streams
from codegen.simt import FindingKind, Order, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat import nn, optimize_and_compile, tensor
from eqsat.cost.targets import A100, H100
from ir.kernel.gpu.meeting import workspace_hazards
from ir.kernel.gpu.nodes import Fence
from ir.kernel.gpu.verify import verify
from ir.plan.gpu_nest import GpuRowsPlan
from ir.plan.plan import Plan
from ir.region.playback import play_region
from ir.region.region import Op, Operand, Region, Yield
from ir.term.rule import Exactness
from tests.support.cpu.changed_plan import with_fields
from tests.support.gpu.edit import without
from tests.support.gpu.emulated import Emulated, assert_near, lowered, plans_of, values_of
from tests.support.gpu.nvrtc import needs_nvrtc
from tests.support.gpu.workspace import workspace_of
from tests.support.programs.regions import buffer, ewise, read, reduction, region, same
from tests.support.programs.stream_regions import log_softmax, log_sum_exp, weighted_mean, weighted_mean_2d
from tests.support.sampling import first_few
from tests.support.stages.plan_class import plan_of


def statistics(rows: int, columns: int, dtype: str = "fp32", scale: float = 1.0) -> Region:
    """Of each row the greatest element, Σ exp(x - max), and the plain sum beside them."""
    over = (rows, columns)
    body = [
        reduction("M", "max", over, 1, same("X", over), dtype=dtype),
        ewise("D", "sub", over, same("X", over), read("M", over, "i0"), dtype=dtype),
        ewise("E", "exp", over, same("D", over), dtype=dtype),
        reduction("S", "sum", over, 1, same("E", over), dtype=dtype),
        reduction("T", "sum", over, 1, same("X", over), dtype=dtype),
    ]
    one = region("statistics", [buffer("X", over, dtype)], body, (rows,), value="S", dtype=dtype)
    more = [Yield(name, f"{name}_out", one.yields[0].map) for name in ("M", "T")]
    outputs = (*one.outputs, *(buffer(result.buffer, (rows,), dtype) for result in more))
    return msgspec.structs.replace(one, outputs=outputs, yields=(*one.yields, *more))


REGIONS = [
    log_sum_exp(1, 20011),
    log_sum_exp(3, 5003, dtype="fp16"),
    log_sum_exp(2, 9000, fn="exp2", dtype="bf16"),
    log_sum_exp(2, 5000, dtype="fp64"),
    log_sum_exp(3, 4001, transposed=True),
    weighted_mean(2, 7001, scale=0.5),
    weighted_mean(5, 3001, transposed=True),
    weighted_mean_2d(2, 70, 50),
    statistics(3, 5000),
    statistics(2, 6002, "fp64"),
]


def split_of(plan: Plan) -> int:
    return plan.rows.split if isinstance(plan, GpuRowsPlan) else 1


def split_plans(one: Region) -> list[GpuRowsPlan]:
    return [plan_of(plan, GpuRowsPlan) for plan, _ in plans_of(one) if split_of(plan) > 1]


@pytest.mark.slow
def test_parts_relative_to_their_own_maxima_are_playback() -> None:
    cases = []
    for one in REGIONS:
        plans = split_plans(one)
        assert plans, one
        cases += [(one, plans[i]) for i in sorted({0, len(plans) - 1})]
        cases.append((one, with_fields(plans[0], **{"rows.keep": "none", "rows.dear": ()})))
    assert {plan.rows.near for _, plan in cases} == {True, False}
    assert {plan.rows.keep for _, plan in cases} == {"reg", "none"}
    emulated = Emulated(cases)
    for number in range(len(cases)):
        emulated.assert_plays(number, tuple(Order) if number % 3 == 0 else (Order.RANDOM,))


@pytest.mark.slow
def test_rows_without_a_finite_score_are_what_playback_gives() -> None:
    """A part that is all -∞ weighs nothing, a row of them is NaN, as is one with ∞ or NaN in a part."""
    one = weighted_mean(5, 5000)
    inputs = values_of(one)
    inputs["X"][0] = -np.inf
    inputs["X"][1, 4990] = np.inf
    inputs["X"][2, 7] = np.nan
    inputs["X"][3, :4000] = -np.inf
    inputs["X"][4, 4000:] = -np.inf
    wanted = play_region(one, inputs, wide=True)["Y"]
    assert np.isnan(wanted).tolist() == [True, True, True, False, False]
    plans = split_plans(one)[::3]
    emulated = Emulated([(one, plan) for plan in plans])
    for number in range(len(plans)):
        for order in Order:
            report, outputs = emulated.run(number, inputs, order)
            report.require_clean()
            assert_near(outputs["Y"].astype(np.float64), wanted, 1e-5, str(one))


def test_numbers_far_apart() -> None:
    """Maxima of parts that differ by more than exponentials of one another can hold."""
    one = statistics(1, 4096)
    inputs = {"X": np.linspace(-3e4, 3e4, 4096, dtype=np.float32)[None]}
    wanted = play_region(one, inputs, wide=True)
    report, outputs = Emulated([(one, split_plans(one)[0])]).run(0, inputs)
    report.require_clean()
    for name in ("Y", "M_out"):
        np.testing.assert_allclose(outputs[name], wanted[name], rtol=1e-5)


# --- what is relative -----------------------------------------------------------------------------


def test_streams_are_relative_to_their_maximum() -> None:
    assert relative_sums(without_streams(log_sum_exp(4, 9))) == {"L": Relative("M", "exp")}
    assert relative_sums(without_streams(log_sum_exp(4, 9, fn="exp2", dtype="fp16"))) == {"L": Relative("M", "exp2")}
    assert relative_sums(without_streams(weighted_mean(4, 9))).keys() == {"A", "L"}
    assert relative_sums(statistics(4, 9)) == {"S": Relative("M", "exp")}


def changed(one: Region, name: str, *inputs: Operand, fn: str | None = None) -> Region:
    """The region with other inputs, or another function, of a value."""

    def other(op: Op) -> Op:
        return msgspec.structs.replace(op, inputs=inputs or op.inputs, fn=fn or op.fn)

    body = tuple(msgspec.structs.replace(let, op=other(let.op)) if let.name == name else let for let in one.body)
    return msgspec.structs.replace(one, body=body)


def test_other_sums_are_not() -> None:
    """Of other scores than the maximum is of, of another function, of a value that needs the maximum."""
    one, over = statistics(4, 9), (4, 9)
    halves = msgspec.structs.replace(one, inputs=(*one.inputs, buffer("Z", over)))
    squared = ewise("P", "mul", over, same("E", over), same("D", over))
    weighed = msgspec.structs.replace(one, body=(*one.body[:3], squared, *one.body[3:]))
    for other in (
        changed(halves, "D", same("Z", over), read("M", over, "i0")),
        changed(one, "E", fn="sin"),
        changed(one, "M", fn="min"),
        changed(one, "D", read("M", over, "i0"), same("X", over)),
        changed(weighed, "S", same("P", over)),
        log_sum_exp(3, 0),
    ):
        assert relative_sums(other) == {}, other


def test_a_maximum_that_is_rounded_is_no_base() -> None:
    """fp16 of a maximum of fp32 is not what scores of a part are less than."""
    one = statistics(4, 9)
    narrow = msgspec.structs.replace(one.body[0].op, dtype="fp16")
    rounded = (msgspec.structs.replace(one.body[0], op=narrow), *one.body[1:])
    assert relative_sums(msgspec.structs.replace(one, body=rounded)) == {}


def test_only_where_results_may_round_otherwise() -> None:
    def splits(one: Region, exactness: Exactness) -> set[int]:
        return {split_of(plan) for plan, _ in plans_of(one, exactness=exactness)}

    assert splits(statistics(2, 1 << 16), Exactness.REASSOCIATE) == {1}
    assert max(splits(statistics(2, 1 << 16), Exactness.ROUNDING)) > 1
    assert splits(log_softmax(2, 1 << 16), Exactness.ROUNDING) == {1}, "its rows are outputs"
    assert splits(log_sum_exp(4096, 4096), Exactness.ROUNDING) == {1}


# --- the whole chip -------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_long_row_is_left_to_one_block() -> None:
    """Softmax, layer norm and argmax are reductions that take the whole chip, and points."""
    one, eight = (tensor.input("x", (rows, 1 << 20)) for rows in (1, 8))
    outputs = {
        "softmax": (nn.softmax(one, -1), 2),
        "softmax of eight": (nn.softmax(eight, -1), 2),
        "layer norm": (nn.layer_norm(one), 3),
        "argmax of eight": (eight.argmax(-1), 2),
    }
    for name, (output, most) in outputs.items():
        program = optimize_and_compile(output, target="sm_80", emulate=True)
        assert len(program.kernels) <= most, name
        for kernel in program.kernels:
            assert kernel.geometry is not None
            assert np.prod(kernel.geometry.grid) >= 100, (name, kernel.name)


def test_log_sum_exp_of_a_long_row_is_one_kernel() -> None:
    for one in (log_sum_exp(1, 1 << 20), weighted_mean(4, 1 << 18), statistics(2, 1 << 20)):
        for target in (A100, H100):
            plan, work = plans_of(one, target)[0]
            assert split_of(plan) > 1
            assert work.occupancy > 0.75


def test_nothing_of_the_meeting_is_spare() -> None:
    one = statistics(2, 3000)
    kernel = lowered(one, split_plans(one)[0])
    broken = [msgspec.structs.replace(without(kernel, Fence, i), name=f"eq_b{i}") for i in (0, 1)]
    runs = compile_kernels("\n".join(map(cuda_text, broken)))
    for mutant in broken:
        assert workspace_hazards(mutant)
        for order in Order:
            arrays = [*values_of(one).values(), *(np.zeros(2, np.float32) for _ in one.outputs), *workspace_of(mutant)]
            report = runs[mutant.name].launch(mutant.grid, arrays, shared_bytes=mutant.shared_bytes, order=order)
            assert FindingKind.BLOCK_RACE in report.kinds


@needs_nvrtc
@first_few(1, "arch", ["sm_80", "sm_90"])
def test_parts_compile_without_spills(arch: str) -> None:
    large = [
        log_sum_exp(1, 1 << 20),
        weighted_mean(4, 1 << 18),
        statistics(8, 1 << 20),
        log_sum_exp(2, 1 << 20, fn="exp2", dtype="bf16"),
    ]
    target = A100 if arch == "sm_80" else H100
    kernels = [lowered(one, plans_of(one, target)[0][0], f"eq_k{i}") for i, one in enumerate(large)]
    for kernel in kernels:
        verify(kernel)
        assert kernel.workspace
    for resources in build("\n".join(map(cuda_text, kernels)), arch).kernels:
        assert (resources.spills, resources.stack, resources.lints) == (False, 0, ()), resources.name
