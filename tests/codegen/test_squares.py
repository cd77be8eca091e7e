"""Reads across memory, turned in squares: all dtypes, edges that fill no square, scratch or straight to the output."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from codegen.plan.candidates import candidates
from codegen.where.region_facts import region_facts
from ir.diagnostics import EqsatError, Kind
from ir.plan import Plan, Vectorize
from ir.region import Region
from ir.target import LANES
from tests.codegen.nest_kernels import available, case, check, library, random_inputs, target
from tests.support import regions as r

ARCHES = ("avx512", "avx2", "sse2")
ARCH = next(arch for arch in ARCHES if available(arch))
SIZES = [(16, 16), (17, 16), (16, 33), (50, 40), (70, 531)]


def turned(m: int, n: int, kind: str = "fp32") -> Region:
    """Y[j, i] = max(X[i, j], Z[j, i])."""
    out = (n, m)
    body = [r.ewise("A", "max", out, r.read("X", out, "i1", "i0"), r.same("Z", out), dtype=kind)]
    return r.region("turned", [r.buffer("X", (m, n), kind), r.buffer("Z", out, kind)], body, out, dtype=kind)


def copied(m: int, n: int, kind: str = "fp32") -> Region:
    out = (n, m)
    body = [r.ewise("M", "copy", out, r.read("X", out, "i1", "i0"), dtype=kind)]
    return r.region("copied", [r.buffer("X", (m, n), kind)], body, out, dtype=kind)


def both_turned(m: int, n: int) -> Region:
    """Two operands across memory, one of them of another dtype."""
    out = (n, m)
    body = [
        r.ewise("W", "cast", out, r.read("Z", out, "i1", "i0")),
        r.ewise("A", "max", out, r.read("X", out, "i1", "i0"), r.same("W", out)),
    ]
    return r.region("both", [r.buffer("X", (m, n)), r.buffer("Z", (m, n), "i32")], body, out)


def permuted(a: int, b: int, c: int) -> Region:
    """Images to channels last: the pixels are one loop."""
    return r.move((2, a, b, c), (2, b, c, a), "i0", "i3", "i1", "i2")


def plans(region: Region, arch: str = ARCH) -> list[Plan]:
    """The candidates that read in squares."""
    found = candidates(region, region_facts(region).core, target(arch))
    return [plan for plan, _ in found if "turn" in plan.layout_hints]


REGIONS = [
    *(build(m, n) for m, n in SIZES for build in (turned, copied)),
    *(build(37, 41, kind) for kind in ("fp64", "i32", "i64") for build in (turned, copied)),
    *(both_turned(37, 41), permuted(20, 5, 7), permuted(64, 28, 28), r.transpose(2, 300)),
]


@pytest.mark.parametrize("arch", ARCHES)
def test_squares_are_playback(arch: str) -> None:
    where = available(arch)
    if where is None:
        pytest.skip(f"no {arch} here")
    tried = []
    for region in REGIONS:
        core = region_facts(region).core
        tried += [case(region, core, plan, f"eq_s{len(tried) + n}") for n, plan in enumerate(plans(region, arch))]
    assert len(tried) >= len(REGIONS) - 1
    lib = library(tried, where)
    for number, each in enumerate(tried):
        for at_end in (True, False):
            check(lib, each, random_inputs(each.region, number), exact=True, at_end=at_end)


def test_a_transpose_is_read_in_squares() -> None:
    region = r.transpose(300, 410)
    best, _ = candidates(region, region_facts(region).core, target(ARCH))[0]
    assert best.layout_hints == {"turn": "i0"}


def test_narrow_elements_and_padding_are_not() -> None:
    assert not plans(copied(37, 41, "fp16"))
    padded = r.move((40, 50), (52, 42), "i1 - 1", "i0 - 1", pad={0: 40, 1: 50})
    assert not plans(padded)


CHANGES: list[dict[str, Any]] = [
    {"layout_hints": {"turn": "i1"}},
    {"vectorize": Vectorize("i1", 2 * LANES[ARCH])},
    {"vectorize": Vectorize("i0", LANES[ARCH])},
    {"vectorize": None},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_plan_that_turns_something_else_is_refused(changes: dict[str, Any]) -> None:
    region = copied(50, 40)
    plan = msgspec.structs.replace(plans(region)[0], **changes)
    with pytest.raises(EqsatError) as caught:
        case(region, region_facts(region).core, plan)
    assert caught.value.diagnostics[0].kind is Kind.UNSUPPORTED_OP


def test_blocks_are_whole_squares() -> None:
    region = copied(50, 40)
    plan = msgspec.structs.replace(plans(region)[0], tile=(50, LANES[ARCH] + 1), predicate_tail=("i0", "i1"))
    with pytest.raises(EqsatError) as caught:
        case(region, region_facts(region).core, plan)
    assert caught.value.diagnostics[0].kind is Kind.ALIGNMENT_MISMATCH


def test_other_tiles_give_the_same_numbers() -> None:
    region, lanes = turned(50, 70), LANES[ARCH]
    where = available(ARCH)
    assert where is not None
    plan = plans(region)[0]
    core = region_facts(region).core
    tiles = [(50, lanes), (lanes, 70), (2 * lanes, 2 * lanes)]
    changed = [
        msgspec.structs.replace(plan, tile=tile, predicate_tail=("i0", "i1"), bind=bind)
        for tile in tiles
        for bind in ({}, {"i0.o": "thread", "i1.o": "thread"})
    ]
    tried = [case(region, core, each, f"eq_t{n}") for n, each in enumerate(changed)]
    lib = library(tried, where)
    for each in tried:
        check(lib, each, random_inputs(region, 3), exact=True)
