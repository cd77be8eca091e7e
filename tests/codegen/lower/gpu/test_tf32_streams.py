"""Attention of fp32 whose products tensor cores compute, with operands and weights rounded to tf32: in the emulator
beside playback on rounded inputs; in NVRTC; as plans."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from codegen.compile.nvrtc import build
from codegen.plan.fit_plan import fit_plan
from codegen.plan.gpu.stream_candidates import fitting_streams, stream_plan
from codegen.poly.analyse import checked_core
from codegen.simt import Order
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.targets import A100, H100
from ir.diagnostics import EqsatError, Kind
from ir.plan.gpu import TF32, GpuStreamPlan
from ir.plan.plan import rounds_to_tf32
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.region.playback import play_region
from ir.region.region import Region
from ir.target import Target
from ir.tiny.tf32 import to_tf32
from tests.support.cpu.changed_plan import with_fields
from tests.support.cpu.played import Array
from tests.support.gpu.emulated import Emulated, assert_near, lowered, stream_plans_of, values_of
from tests.support.gpu.nvrtc import ARCHES, needs_nvrtc
from tests.support.programs.regions import buffer, ewise, read, region, same
from tests.support.programs.stream_regions import attention, classifier_log_sum_exp, stream, weighted_rows
from tests.support.sampling import every

ROUNDED_WEIGHTS = 2.0**-11 + 2.0**-13
"""The relative error of a weight: its rounding to tf32, and the shift of its exponent."""


def weighted_columns(m: int, n: int, v: int) -> Region:
    """As `weighted_rows`, where memory holds the values along the terms."""
    over, out = (m, v, n), (m, v)
    body = [
        stream("A", over, 1, read("X", over, "i0", "i2"), read("V", over, "i1", "i2")),
        stream("L", (m, n), 1, same("X", (m, n))),
        ewise("Q", "fdiv", out, same("A", out), read("L", out, "i0")),
    ]
    return region("weighted_columns", [buffer("X", (m, n)), buffer("V", (v, n))], body, out)


SHAPES = [
    *(attention(2, 20, 40, 16, 24), attention(1, 33, 47, 40, 72), attention(1, 1, 50, 32, 32)),
    *(attention(1, 1, 1, 1, 1), attention(3, 7, 9, 5, 3), attention(2, 5, 1, 8, 8), attention(1, 4, 9, 6, 300)),
    attention(1, 70, 130, 64, 64, scale=0.125),
]
MASKED = [
    *(attention(2, 17, 33, 16, 16, causal=True), attention(2, 18, 34, 16, 8, bias=True, mask=True)),
    *(attention(4, 9, 20, 16, 16, group=2, causal=True), attention(2, 12, 24, 16, 16, key_rows=True)),
    *(attention(2, 12, 20, 16, 16, keys_first=True, fn="exp2"), attention(2, 9, 300, 16, 16, scale=None)),
]
OTHERS = [
    *(weighted_rows(9, 21, 12), weighted_rows(40, 70, 32), weighted_columns(9, 21, 12), weighted_columns(33, 64, 40)),
    *(classifier_log_sum_exp(9, 40, 12), classifier_log_sum_exp(1, 7, 1)),
]
GROUPS = {"shapes": SHAPES, "masked": MASKED, "others": OTHERS}


def tf32_plans(one: Region, target: Target = A100) -> list[GpuStreamPlan]:
    """Those that round, whether or not that gains time."""
    result = fitting_streams(one, checked_core(one), target, tf32=True)
    return [stream_plan(candidate, target) for candidate in result if candidate.tile.tf32]


def various(one: Region) -> list[GpuStreamPlan]:
    """The best plan, the last, and one by which blocks share keys, where there is one."""
    plans = tf32_plans(one)
    assert plans, f"no plan for {one}"
    return [plans[0], *plans[1:][-1:], *[plan for plan in plans[1:-1] if plan.tile.split > 1][:1]]


def rounded(one: Region, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Queries, keys and values rounded to tf32."""
    factors = {"Q", "K", "V", "W"} | ({"X"} if one.name == "classifier_log_sum_exp" else set())
    return {name: to_tf32(buffer) if name in factors else buffer for name, buffer in inputs.items()}


def assert_rounded(one: Region, inputs: Mapping[str, Array], got: Mapping[str, Array], what: object) -> None:
    """Results beside playback on rounded operands, within the error of rounded weights."""
    (output,) = one.outputs
    wanted = play_region(one, rounded(one, inputs), wide=True)[output.name].astype(np.float64)
    assert_near(got[output.name].astype(np.float64), wanted, 2 * ROUNDED_WEIGHTS, str(what))


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_operands_and_weights_are_rounded_and_nothing_else(group: str) -> None:
    cases = [(one, plan) for one in GROUPS[group] for plan in various(one)]
    emulated = Emulated(cases)
    for i, (one, plan) in enumerate(cases):
        inputs = values_of(one)
        runs = [emulated.run(i, inputs, order) for order in (Order.RANDOM, Order.REVERSE)]
        for report, outputs in runs:
            report.require_clean()
            assert_rounded(one, inputs, outputs, plan)
        first, second = (outputs for _, outputs in runs)
        assert all(np.array_equal(first[name], second[name], equal_nan=True) for name in first)


@every(23)
@pytest.mark.parametrize("group", GROUPS)
def test_many_candidates_play_as_the_region(group: str, step: int) -> None:
    cases = [(one, plan) for one in GROUPS[group] for plan in tf32_plans(one)][::step]
    emulated = Emulated(cases)
    for i, (one, plan) in enumerate(cases):
        inputs = values_of(one)
        report, outputs = emulated.run(i, inputs, Order.RANDOM)
        report.require_clean()
        assert_rounded(one, inputs, outputs, plan)


@pytest.mark.slow
def test_weights_of_whole_numbers_meet_their_values() -> None:
    """Equal scores have weight 1, which tf32 holds: the sums of whole values are exact, so that every weight must meet
    the value of its own term."""
    one = weighted_rows(20, 45, 24)
    rng = np.random.default_rng(2)
    x = np.where(rng.random((20, 45)) < 0.4, 0, -np.inf).astype(np.float32)
    x[:, 7] = 0
    inputs = {"X": x, "V": rng.integers(-9, 9, (45, 24)).astype(np.float32)}
    weights = np.exp(x)
    wanted = (weights @ inputs["V"]) / weights.sum(1, keepdims=True)
    plans = various(one)
    emulated = Emulated([(one, plan) for plan in plans])
    for i in range(len(plans)):
        np.testing.assert_allclose(emulated.run(i, inputs)[1]["Y"], wanted, rtol=1e-6, atol=1e-6)


def test_what_is_no_number_stays_none() -> None:
    """A row whose scores are all -∞ is NaN, as is a row with a NaN or ∞ among its scores; others are not."""
    one = weighted_rows(20, 45, 24)
    inputs = values_of(one)
    inputs["X"][3], inputs["X"][5, 44], inputs["X"][8, 0], inputs["X"][9, 1:] = -np.inf, np.nan, np.inf, -np.inf
    plans = various(one)
    emulated = Emulated([(one, plan) for plan in plans])
    for i, plan in enumerate(plans):
        got = emulated.run(i, inputs)[1]
        assert_rounded(one, inputs, got, plan)
        assert sorted(np.flatnonzero(np.isnan(got["Y"]).any(1))) == [3, 5, 8]


@pytest.mark.slow
@pytest.mark.parametrize("one", [attention(1, 64, 64, 64, 64), weighted_rows(32, 64, 32)], ids=lambda one: one.name)
def test_no_bank_conflicts(one: Region) -> None:
    plans = tf32_plans(one)[::5]
    emulated = Emulated([(one, plan) for plan in plans])
    for i, plan in enumerate(plans):
        count = emulated.run(i, values_of(one))[0].counters
        assert count.copy_bank_conflicts == count.matrix_bank_conflicts == 0, plan
        assert plan.tile.split > 1 or count.shared_bank_conflicts == 0, plan


@pytest.mark.exhaustive
@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHES)
def test_the_best_plans_compile_without_spills(arch: str) -> None:
    """Heads of 32 to 128, and decoding; registers are about as many as estimated."""
    ones = [
        *(attention(16, 1024, 1024, head, head, causal=causal) for head in (32, 64, 128) for causal in (False, True)),
        attention(8, 16, 8192, 64, 64),
    ]
    cases = [(one, *stream_plans_of(one, tf32=True)[0]) for one in ones]
    kernels = [lowered(one, plan, f"eq_k{i}") for i, (one, plan, _) in enumerate(cases)]
    results = {kernel.name: kernel for kernel in build("\n".join(map(cuda_text, kernels)), arch).kernels}
    for kernel, (_, plan, work) in zip(kernels, cases, strict=True):
        result = results[kernel.name]
        assert rounds_to_tf32(plan)
        assert (result.spills, result.stack, result.lints) == (False, 0, ()), plan
        assert abs(work.thread_registers - result.registers) <= 60, (plan, work.thread_registers, result.registers)


# --- plans ----------------------------------------------------------------------------------------


def _algorithms(one: Region, *, tf32: bool = True) -> list[str]:
    plans = [plan_to_schedule(plan) for plan, _ in stream_plans_of(one, tf32=tf32)]
    return [plan.algo_choice["attention"] for plan in plans]


@pytest.mark.parametrize("target", [A100, H100], ids=lambda target: target.name)
def test_tensor_cores_are_taken_where_they_gain(target: Target) -> None:
    one = attention(16, 1024, 1024, 64, 64)
    (best, work), (plain, exact) = (stream_plans_of(one, target, tf32=asked)[0] for asked in (True, False))
    assert best.tile.algorithm == TF32
    assert plain.tile.algorithm == "fma"
    assert work.compute_dtype == "tf32"
    assert 0.05 < work.efficiency <= 1 < exact.efficiency * 20


def test_only_floats_are_rounded_and_only_where_asked() -> None:
    one = attention(16, 1024, 1024, 64, 64)
    assert set(_algorithms(one, tf32=False)) == {"fma"}
    assert _algorithms(one)[0] == TF32
    assert set(_algorithms(attention(16, 1024, 1024, 64, 64, dtype="bf16"))) == {"mma"}
    assert set(_algorithms(attention(2, 64, 64, 16, 16, dtype="fp64", acc="fp64"))) == {"fma"}
    assert set(_algorithms(attention(1, 9, 17, 8, 8))) == {"fma"}, "nothing to gain"


def test_a_plan_that_does_not_fit_is_refused() -> None:
    one, narrow = attention(2, 64, 64, 16, 16), attention(2, 64, 64, 16, 16, dtype="bf16")
    plan = tf32_plans(one)[0]
    with pytest.raises(EqsatError) as refused:
        fit_plan(narrow, checked_core(narrow), plan)
    assert refused.value.diagnostics[0].kind is Kind.MALFORMED_GRAPH
    assert "tf32 needs operands" in str(refused.value)
    with pytest.raises(EqsatError) as refused:
        fit_plan(one, checked_core(one), with_fields(plan, **{"tile.terms": 24}))
    assert refused.value.diagnostics[0].kind is Kind.ALIGNMENT_MISMATCH
