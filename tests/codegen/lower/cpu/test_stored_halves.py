"""Stores of values rounded to a 16-bit float take the bits, where nothing else reads the rounded value."""

from typing import Any

import ml_dtypes
import msgspec
import numpy as np
import pytest

from codegen.lower.cpu.stored_halves import round_in_stores
from eqsat import optimize_and_compile, tensor
from ir.index.expr import constant
from ir.kernel.cpu.kernel import CpuParam, Phase
from ir.kernel.cpu.nodes import CpuCall, CpuFor, CpuIf, Load, Stmt, Store
from ir.kernel.nodes import BITS_OF_HALF, Assign, Let, Reg

X, V, OTHER = Reg("x", "fp32"), Reg("v", "fp32"), Reg("other", "fp32")
ROUNDED = Let("v", CpuCall("round_bf16", (X,), "fp32"))
STORED = Store("y", constant(0), V)
BITS = Store("y", constant(0), CpuCall("bits_of_nearest_bf16", (X,), BITS_OF_HALF))
HALVES: dict[str, Any] = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}
BUFFERS = [CpuParam("y", "bf16", 16, written=True), CpuParam("z", "fp32", 16, written=True)]


def rounded_in_stores(*body: Stmt) -> tuple[Stmt, ...]:
    (phase,) = round_in_stores([Phase(0, 1, body)], BUFFERS)
    return phase.body


def test_a_store_rounds_the_value() -> None:
    other = (Let("other", X), Store("z", constant(0), OTHER))
    assert rounded_in_stores(ROUNDED, STORED) == (BITS,)
    assert rounded_in_stores(ROUNDED, *other, STORED) == (*other, BITS)
    loop = CpuFor(1, constant(0), constant(4), (ROUNDED, STORED))
    assert rounded_in_stores(loop) == (msgspec.structs.replace(loop, body=(BITS,)),)
    branch = CpuIf((), (), (ROUNDED, STORED))
    assert rounded_in_stores(branch) == (CpuIf((), (), (BITS,)),)


KEPT: dict[str, tuple[Stmt, ...]] = {
    "a value that is not rounded": (Let("v", Load("y", constant(0), "fp32")), STORED),
    "an element of fp32": (ROUNDED, Store("z", constant(0), V)),
    "a value with another reader": (ROUNDED, STORED, Let("other", V)),
    "two stores": (ROUNDED, STORED, STORED),
    "a value from an outer block": (ROUNDED, CpuFor(1, constant(0), constant(4), (STORED,))),
    "a register that is set again": (ROUNDED, Assign("x", OTHER), STORED),
    "a register that may be set again": (ROUNDED, CpuIf((), (Assign("x", OTHER),)), STORED),
    "an element that may be stored again": (
        Let("v", CpuCall("round_bf16", (Load("z", constant(0), "fp32"),), "fp32")),
        Store("z", constant(0), OTHER),
        STORED,
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_other_statements_stay(case: str) -> None:
    assert rounded_in_stores(*KEPT[case]) == KEPT[case]


def bits_of_floats() -> np.ndarray[Any, Any]:
    """Words with each upper half beside the lower halves at which rounding turns; their number is odd."""
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x1FFF, 0x2000, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    return (upper[:, None] | lower).reshape(-1)[:-3]


@pytest.mark.slow
@pytest.mark.parametrize("level", ["exact", "reassociate"])
@pytest.mark.parametrize("name", HALVES)
def test_all_upper_halves_round_to_the_nearest(name: str, level: str) -> None:
    x = bits_of_floats().view(np.float32)
    result = optimize_and_compile(tensor.input("x", x.shape).cast(name), exactness=level)(x)
    with np.errstate(all="ignore"):
        expected = x.astype(HALVES[name])
    flushed = (np.abs(x) < np.finfo(np.float32).tiny) & (level != "exact")
    nan = np.isnan(x)
    got, wanted = np.asarray(result).view(np.uint16), expected.view(np.uint16)
    assert np.isnan(np.asarray(result)[nan].astype(np.float32)).all()
    assert np.array_equal(got[~nan & ~flushed], wanted[~nan & ~flushed])
    assert np.isin(got[flushed & (got != wanted)], [0, 0x8000]).all()
