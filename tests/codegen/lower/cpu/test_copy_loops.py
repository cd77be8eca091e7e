"""Loops that copy bytes become copies; other loops stay."""

import msgspec
import numpy as np
import pytest

from codegen.lower.cpu.copy_loops import as_copy
from eqsat import nn, optimize_and_compile, tensor
from ir.index.expr import AxisExpr, axis, constant
from ir.kernel.cpu.nodes import CopyElements, CpuFor, CpuIf, Load, Stmt, Store
from ir.kernel.nodes import Assign, Const, Let, Reg, Within

LANES = 16
K, ROW = 0, 1
AT = axis(K, ((0, 63), (0, 9)))
LOAD = Load("x", AT.shift(5), "u8")
TAKEN = Reg("taken", "u8")
STORE = Store("rows", AT, TAKEN)
COPY = CopyElements("rows", constant(0), "x", constant(5), 64)


def loop(*body: Stmt, **changes: object) -> CpuFor:
    made = CpuFor(K, constant(0), constant(64), body, LANES)
    return msgspec.structs.replace(made, **changes)


def guarded(condition: Within) -> CpuFor:
    inside = CpuIf((condition,), (Let("read", LOAD), Assign("taken", Reg("read", "u8"))))
    return loop(Let("taken", Const(7, "u8"), mutable=True), inside, STORE)


def test_a_loop_that_copies_bytes_is_a_copy() -> None:
    assert as_copy(loop(Let("taken", LOAD), STORE), LANES) == COPY


def test_a_condition_of_the_whole_loop_chooses_the_copy_or_the_fill() -> None:
    condition = Within(AxisExpr(0, ((ROW, 1),)), 1, 5)
    filled = loop(Store("rows", AT, Const(7, "u8")))
    assert as_copy(guarded(condition), LANES) == CpuIf((condition,), (COPY,), (filled,))


OTHERS = {
    "a loop of single elements": loop(Let("taken", LOAD), STORE, step=1),
    "a loop with a limit": loop(Let("taken", LOAD), STORE, limit=60),
    "half a vector at the end": loop(Let("taken", LOAD), STORE, stop=constant(56)),
    "no turn": loop(Let("taken", LOAD), STORE, stop=constant(0)),
    "an unknown length": loop(Let("taken", LOAD), STORE, stop=AxisExpr(0, ((ROW, 16),))),
    "floats": loop(Let("taken", Load("x", AT, "fp32")), Store("rows", AT, Reg("taken", "fp32"))),
    "a part of a vector": loop(Let("taken", Load("x", AT, "u8", count=3)), STORE),
    "every other byte": loop(Let("taken", Load("x", AT * 2, "u8", "strided", step=2)), STORE),
    "a store of every other byte": loop(Let("taken", LOAD), Store("rows", AT * 2, TAKEN, step=2)),
    "a buffer onto itself": loop(Let("taken", LOAD), Store("x", AT, TAKEN)),
    "the same byte": loop(Let("taken", Load("x", constant(3), "u8", "splat")), STORE),
    "another register": loop(Let("taken", LOAD), Store("rows", AT, Reg("other", "u8"))),
    "a condition of each vector": guarded(Within(AT, 0, 32)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_loops_stay(case: str) -> None:
    assert as_copy(OTHERS[case], LANES) is OTHERS[case]


@pytest.mark.parametrize(("channels", "kernel", "stride"), [(32, 1, 1), (16, 3, 1), (48, 3, 2), (24, 3, 1), (64, 1, 2)])
def test_images_of_bytes_are_packed_right(channels: int, kernel: int, stride: int) -> None:
    """Channels innermost; padding of 9 around them."""
    rng = np.random.default_rng(channels)
    x = tensor.input("x", (2, 7, 5, channels), "u8")
    image = x.permute(0, 3, 1, 2).cast("i32") - 9
    weights = rng.integers(-128, 128, (20, channels, kernel, kernel)).astype(np.int8)
    result = nn.conv2d(image, tensor.constant(weights).cast("i32"), padding=kernel // 2, stride=stride)
    program = optimize_and_compile(result.permute(0, 2, 3, 1), target="cpu", verify=True)
    program(rng.integers(0, 256, (2, 7, 5, channels)).astype(np.uint8))
