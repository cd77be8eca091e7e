"""Streams whose scores are no tiles, on a GPU: the reductions that they stand for, in nests."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from codegen.plan.stream_sums import without_streams
from codegen.simt import Order
from ir.plan.gpu_nest import GpuPointsPlan, GpuRowsPlan
from ir.region.playback import play_region
from ir.region.region import Number, Region, verify
from ir.term.rule import Exactness
from tests.support.gpu.emulated import Emulated, assert_near, plans_of, values_of
from tests.support.programs import stream_regions as streams
from tests.support.programs.regions import ewise, read, same

REGIONS = [*streams.SMALL, streams.log_sum_exp(1, 3000)]


def other_value(m: int, n: int) -> Region:
    """Of a number that is not 1, and a maximum of the narrow dtype beside scores that are summed in a wider one."""
    one = streams.log_sum_exp(m, n, dtype="fp16")
    body = list(one.body)
    inputs = (body[1].op.inputs[0], Number(3.0, "fp16"))
    body[1] = msgspec.structs.replace(body[1], op=msgspec.structs.replace(body[1].op, inputs=inputs))
    return msgspec.structs.replace(one, body=tuple(body))


@pytest.mark.parametrize("one", [*REGIONS, other_value(4, 9)], ids=lambda one: f"{one.name}{one.inputs[0].memref}")
def test_reductions_say_what_streams_say(one: Region) -> None:
    plain = without_streams(one)
    verify(plain)
    assert not any(let.op.kind == "stream" for let in plain.body)
    assert (plain.inputs, plain.outputs, plain.yields) == (one.inputs, one.outputs, one.yields)
    inputs = values_of(one)
    for name, value in play_region(one, inputs, wide=True).items():
        np.testing.assert_allclose(play_region(plain, inputs, wide=True)[name], value, rtol=1e-12)


def test_streams_of_one_score_share_its_maximum_and_its_exponentials() -> None:
    for one in (streams.weighted_mean(4, 9), streams.log_softmax(4, 9), other_value(4, 9)):
        fns = [let.op.fn for let in without_streams(one).body]
        assert (fns.count("max"), fns.count("exp")) == (1, 1)


@pytest.mark.slow
def test_kernels_play_as_the_region() -> None:
    cases = []
    for one in REGIONS:
        plans = [plan for plan, _ in plans_of(one)]
        assert plans, one
        cases += [(one, plans[i]) for i in sorted({0, len(plans) // 2})]
    emulated = Emulated(cases)
    for i in range(len(cases)):
        emulated.assert_plays(i, (Order.RANDOM, Order.REVERSE) if i % 4 == 0 else (Order.RANDOM,))


def test_rows_without_a_finite_score_are_what_playback_gives() -> None:
    one = streams.weighted_mean(4, 40)
    inputs = values_of(one)
    inputs["X"][0] = -np.inf
    inputs["X"][1, 3] = np.inf
    inputs["X"][2, 5] = np.nan
    inputs["X"][3, :20] = -np.inf
    wanted = play_region(one, inputs, wide=True)["Y"]
    assert np.isnan(wanted).tolist() == [True, True, True, False]
    report, outputs = Emulated([(one, plans_of(one)[0][0])]).run(0, inputs)
    report.require_clean()
    assert_near(outputs["Y"].astype(np.float64), wanted, 1e-5, str(one))


def test_terms_in_index_order_have_no_plan() -> None:
    assert plans_of(streams.log_sum_exp(), exactness=Exactness.EXACT) == []


def test_streams_of_several_dtypes_are_no_tiles_and_run_in_a_nest() -> None:
    """Σ e^x·V in fp32 beside Σ e^x in fp64, of scores that lie in memory."""
    one = streams.weighted_rows(4, 7, 5)
    wide = streams.stream("L", (4, 7), 1, read("X", (4, 7), "i0", "i1"), dtype="fp64")
    narrow = ewise("N", "cast", (4,), same("L", (4,)))
    quotient = ewise("Q", "fdiv", (4, 5), same("A", (4, 5)), read("N", (4, 5), "i0"))
    one = msgspec.structs.replace(one, body=(one.body[0], wide, narrow, quotient))
    plans = plans_of(one)
    assert {type(plan) for plan, _ in plans} == {GpuPointsPlan, GpuRowsPlan}
    cases = [(one, plans[i][0]) for i in (0, len(plans) - 1)]
    emulated = Emulated(cases)
    for i in range(len(cases)):
        emulated.assert_plays(i)
