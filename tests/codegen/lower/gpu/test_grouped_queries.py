"""Queries of several heads that share keys and values, as rows of one tile: under the emulator, and as plans."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from codegen.plan.stream_view import StreamView, stream_view, stream_views
from codegen.poly.analyse import checked_core
from codegen.simt import Order
from eqsat import nn, optimize_and_compile, tensor
from eqsat.cost.targets import A100, H100
from ir.index.map import axis_map
from ir.plan.gpu import GpuStreamPlan
from ir.region.region import Operand, Region
from ir.target import Target
from ir.term.rule import Exactness
from tests.support.gpu.emulated import Emulated, lowered
from tests.support.gpu.emulated import stream_plans_of as plans_of
from tests.support.programs.regions import index_map
from tests.support.programs.stream_regions import attention


def interleaved(one: Region, heads: int) -> Region:
    """The region, whose head h of queries takes head h mod `heads` of keys and values."""
    names = {"K", "V"}

    def other(operand: Operand) -> Operand:
        at = index_map(operand.map.sizes, f"i0 - {heads}*(i0 // {heads})")
        return msgspec.structs.replace(operand, map=axis_map(operand.map.sizes, (*at.exprs, *operand.map.exprs[1:])))

    body = []
    for let in one.body:
        inputs = tuple(
            other(buffer) if isinstance(buffer, Operand) and buffer.value in names else buffer
            for buffer in let.op.inputs
        )
        body.append(msgspec.structs.replace(let, op=msgspec.structs.replace(let.op, inputs=inputs)))
    return msgspec.structs.replace(one, body=tuple(body))


REGIONS = [
    attention(6, 1, 40, 16, 24, group=3, dtype="fp16"),
    attention(8, 5, 70, 16, 16, group=4, causal=True, dtype="bf16"),
    attention(4, 3, 33, 16, 16, group=2, bias=True, mask=True, dtype="bf16"),
    attention(6, 1, 50, 8, 8, group=3, mask=True),
    attention(8, 1, 300, 16, 16, group=4, dtype="bf16"),
    attention(8, 9, 30, 16, 16, group=4, keys_first=True, dtype="bf16"),
    attention(4, 2, 40, 8, 8, group=2, key_rows=True, dtype="fp64", acc="fp64"),
]


def together(one: Region, exactness: Exactness = Exactness.ROUNDING) -> list[GpuStreamPlan]:
    return [plan for plan, _ in plans_of(one, exactness=exactness) if plan.together]


def view_of(one: Region, *, heads: bool) -> StreamView:
    view = stream_view(one, checked_core(one), together=heads)
    assert view is not None
    return view


@pytest.mark.slow
def test_rows_of_several_heads_play_as_the_region() -> None:
    cases = []
    for one in REGIONS:
        plans = together(one)
        assert plans, one
        cases += [(one, plans[i]) for i in sorted({0, len(plans) - 1})]
    emulated = Emulated(cases)
    for number in range(len(cases)):
        emulated.assert_plays(number, (Order.RANDOM, Order.REVERSE))


def test_heads_that_are_interleaved() -> None:
    one = interleaved(attention(6, 2, 40, 16, 16, group=3, dtype="bf16"), 2)
    assert (view_of(one, heads=False).m, view_of(one, heads=True).m) == (2, 6)
    Emulated([(one, together(one)[0])]).assert_plays(0)


@pytest.mark.slow
def test_terms_that_no_row_sees_are_skipped() -> None:
    """Of one query, or of as many as a tile has rows: all heads of a tile end alike."""
    cases = [(one, plan) for one in REGIONS[:1] for plan in together(one, Exactness.RANGE)[:1]]
    causal = attention(4, 32, 64, 16, 16, group=2, causal=True, dtype="bf16")
    plan = next(plan for plan in together(causal, Exactness.RANGE) if plan.tile.stops)
    assert 32 % plan.tile.lead.bm == 0
    emulated = Emulated([*cases, (causal, plan)])
    for number in range(len(emulated.kernels)):
        emulated.assert_plays(number)


def test_rows_are_the_heads_that_share_keys() -> None:
    one = attention(12, 5, 9, 8, 8, group=3)
    alone, grouped = (view_of(one, heads=heads) for heads in (False, True))
    assert (alone.repeats, alone.m, grouped.repeats, grouped.m) == (12, 5, 4, 15)
    assert grouped.lead.roles.names_of(grouped.roles.rows) == ("i0%3", "i1")
    assert grouped.lead.roles.names_of(grouped.roles.batch) == ("i0/3",)
    assert str(grouped.lead.roles.out).endswith("-> [3*i0 + i1, i2, i3]")


def test_one_view_where_heads_share_nothing() -> None:
    for one in (attention(4, 5, 9, 8, 8), attention(1, 5, 9, 8, 8), attention(4, 5, 9, 8, 8, mask=True, causal=True)):
        assert len(stream_views(one, checked_core(one))) == 1
        assert not together(one)


@pytest.mark.parametrize("target", [A100, H100], ids=lambda target: target.name)
def test_decode_reads_keys_once(target: Target) -> None:
    """The best plan takes all heads of a group at once, with a quarter of the work of one tile for each."""
    one = attention(32, 1, 8192, 128, 128, group=4, dtype="bf16")
    plans = plans_of(one, target)
    plan, work = plans[0]
    assert plan.together
    others = [result for plan, result in plans if not plan.together]
    assert all(result.flops > 2 * work.flops for result in others)
    assert lowered(one, plan).grid[1] == 8


@pytest.mark.slow
def test_decode_of_grouped_queries_is_one_kernel() -> None:
    queries = tensor.input("q", (1, 32, 1, 64), "bf16")
    keys, values = (
        tensor.input(name, (1, 8, 4096, 64), "bf16").reshape(1, 8, 1, 4096, 64).expand(1, 8, 4, 4096, 64)
        for name in "kv"
    )
    shape = (1, 32, 4096, 64)
    output = nn.attention(queries, keys.reshape(*shape), values.reshape(*shape))
    [kernel] = optimize_and_compile(output, target="sm_80", emulate=True).kernels
    assert kernel.geometry is not None
    assert np.prod(kernel.geometry.grid) > 100
