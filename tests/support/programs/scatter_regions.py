"""Scatters of every shape, and inputs whose positions meet, repeat, and lie outside of the axis."""

from __future__ import annotations

import numpy as np
import pytest

from ir.dtype import DTYPES
from ir.region.region import Region
from tests.support.cpu.played import Array, random_inputs
from tests.support.programs.regions import scatter

SHAPES = [
    *(scatter((7,), 0, 5), scatter((1,), 0, 1), scatter((40,), 0, 1), scatter((3,), 0, 60)),
    *(scatter((5, 37), 0, 9), scatter((5, 37), 1, 40), scatter((33, 40), 0, 50, along=(0,))),
    *(scatter((6, 70), 0, 9, along=()), scatter((3, 9, 20), 1, 6, along=(0, 1)), scatter((3, 9, 20), 1, 6, along=(2,))),
    *(scatter((2, 3, 4, 5), 2, 7, "last"), scatter((4, 5, 33), 0, 7, along=(1,)), scatter((1, 1), 1, 3)),
    *(scatter((6, 40), 0, 9, "sum", along=(), prologue=True), scatter((5, 6), 1, 9, "prod", prologue=True)),
    *(scatter((6, 40), 0, 9, along=(), epilogue=True), scatter((50, 7), 1, 9, prologue=True, epilogue=True)),
    *(scatter((70,), 0, 9, dtype="fp16", epilogue=True), scatter((5, 2, 3), 1, 4, dtype="i8", epilogue=True)),
    *(scatter((5, 6), 1, 9, index=index) for index in ("i8", "u8", "i16", "u16", "i32", "u32", "u64")),
]
DTYPED = [
    scatter((5, 21), axis, 9, fn, dtype=dtype, along=(axis,) if axis == 0 else (0, 1))
    for fn in ("last", "sum", "prod", "max", "min")
    for dtype in DTYPES
    for axis in (0, 1)
    if dtype != "bool" or fn not in ("sum", "prod")
]
sampled = pytest.mark.parametrize(
    "regions",
    [
        SHAPES,
        pytest.param(DTYPED[::3], marks=pytest.mark.slow),
        pytest.param(DTYPED, marks=pytest.mark.exhaustive),
    ],
    ids=["shapes", "some dtypes", "dtypes"],
)
"""Gives a test the argument `regions`: all shapes, a sample of the dtypes, all dtypes."""


def scatter_inputs(region: Region, seed: int = 0, *, nan: bool = False) -> dict[str, Array]:
    """Random inputs; the positions lie in and around the axis, a few at the ends of their dtype."""
    inputs = random_inputs(region, seed, nan=nan)
    op = next(let.op for let in region.body if let.op.kind == "scatter")
    kind = DTYPES[next(buffer.memref.dtype for buffer in region.inputs if buffer.name == "I")]
    slots, random = op.domain[op.axis or 0], np.random.default_rng(seed)
    index = random.integers(-2 if kind.is_signed else 0, slots + 2, inputs["I"].shape).astype(kind.numpy)
    index.reshape(-1)[6::7] = kind.highest
    index.reshape(-1)[5::11] = kind.lowest
    return {**inputs, "I": index}
