"""Sums whose terms cancel: kernels may be off by a rounding of the terms, but by no term."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.compile.machine import machine
from ir.region.playback import play_region
from ir.region.region import Number, Region
from tests.support.cpu.absolute_terms import sizes_of_terms
from tests.support.cpu.nest_kernels import cases, check, library
from tests.support.cpu.played import Array, assert_played, numbered
from tests.support.programs import regions

REGIONS = [
    regions.total((30, 40, 50)),
    regions.total((300, 400, 3)),
    regions.row_reduce(1, 6000),
    regions.column_reduce(30000, 3),
]


def cancelling(region: Region) -> dict[str, Array]:
    """Inputs of which half are the negatives of the others, along the longest axis."""
    ((name, shape),) = ((buffer.name, buffer.memref.shape) for buffer in region.inputs)
    axis, random = int(np.argmax(shape)), np.random.default_rng(0)
    half = (random.standard_normal([size // (1 + (place == axis)) for place, size in enumerate(shape)]) * 2).astype(
        "f4"
    )
    return {name: np.concatenate([half, -random.permutation(half, axis=axis)], axis=axis)}


def test_kernels_may_be_off_by_a_rounding_of_the_terms() -> None:
    tried = numbered([case for region in REGIONS for case in cases([region], machine().arch)])
    built = library(tried, machine())
    for case in tried:
        check(built, case, cancelling(case.region))


@pytest.mark.parametrize("region", REGIONS, ids=lambda region: region.name)
def test_a_term_that_is_left_out_is_seen(region: Region) -> None:
    """A term of middling size."""
    inputs = cancelling(region)
    (name,) = inputs
    changed = inputs[name].copy()
    changed.flat[np.argsort(np.abs(changed), axis=None)[changed.size // 2]] = 0
    got, wanted = play_region(region, {name: changed}), play_region(region, inputs)
    assert_played(region, inputs, wanted, wanted, region)
    with pytest.raises(AssertionError, match="of the norm"):
        assert_played(region, inputs, got, wanted, region)


def test_sizes_are_those_of_all_terms() -> None:
    """Of a difference from a sum, and of a product in a sum with padding."""
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    size = np.abs(x).sum(1, keepdims=True)
    np.testing.assert_array_equal(sizes_of_terms(regions.centre_rows(2, 3), {"X": x})["Y"], np.abs(x) + size)
    over = (2, 4)
    body = [
        regions.ewise("P", "mul", (2, 3), regions.same("X", (2, 3)), Number(-2, "fp32")),
        regions.reduction("R", "sum", over, 1, regions.read("P", over, "i0", "i1", pad={1: 3}, fill=-7)),
    ]
    padded = regions.region("padded", [regions.buffer("X", (2, 3))], body, (2,))
    np.testing.assert_array_equal(sizes_of_terms(padded, {"X": x})["Y"], 2 * size[:, 0] + 7)
