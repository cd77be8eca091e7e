"""Which outputs of regions may be written over which inputs."""

from __future__ import annotations

import pytest
from msgspec import structs

from ir.region.overwrite import may_overwrite
from ir.region.region import Definition, Number, Op, Operand, Region, Yield
from tests.support.programs.regions import buffer, ewise, index_map, read, reduction, region

SIZES = (4, 6)


def pointwise(*reads: Operand | Number) -> Region:
    return region("pointwise", [buffer("x", SIZES), buffer("g", SIZES)], [ewise("v", "add", SIZES, *reads)], SIZES)


HERE = read("x", SIZES, "i0", "i1")
OTHER = read("g", SIZES, "i0", "i1")


@pytest.mark.parametrize(
    ("reads", "fits"),
    [
        ((HERE, OTHER), True),
        ((HERE, HERE), True),
        ((OTHER, Number(1.0, "fp32")), True),
        ((HERE, read("x", SIZES, "i0", "5 - i1")), False),
        ((HERE, read("x", SIZES, "i0", "0")), False),
        ((read("x", SIZES, "i0", "i1 - 1", pad={1: 6}), OTHER), False),
    ],
)
def test_elements_must_be_read_where_they_are_written(reads: tuple[Operand | Number, ...], fits: bool) -> None:
    assert may_overwrite(pointwise(*reads), "Y", "x") == fits


def test_the_way_through_values_counts() -> None:
    flip: list[Operand | Number] = [read("a", SIZES, "i0", "5 - i1"), Number(2.0, "fp32")]
    body = [ewise("a", "mul", SIZES, read("x", SIZES, "i0", "5 - i1"), OTHER), ewise("v", "add", SIZES, *flip)]
    twice = region("twice", [buffer("x", SIZES), buffer("g", SIZES)], body, SIZES)
    assert may_overwrite(twice, "Y", "x")
    assert not may_overwrite(twice, "Y", "g")


def test_other_dtypes_and_sums_do_not_fit() -> None:
    cast = Definition("v", Op("cast", "cast", "fp16", SIZES, (HERE,)))
    assert not may_overwrite(region("cast", [buffer("x", SIZES)], [cast], SIZES, dtype="fp16"), "Y", "x")
    body = [reduction("s", "sum", SIZES, 1, HERE), ewise("v", "sub", SIZES, HERE, read("s", SIZES, "i0"))]
    assert not may_overwrite(region("centred", [buffer("x", SIZES)], body, SIZES), "Y", "x")


def test_every_result_of_a_kernel_counts() -> None:
    """The second result reads x elsewhere, after the first one was written."""
    one = pointwise(HERE, OTHER)
    second = ewise("w", "mul", SIZES, read("x", SIZES, "3 - i0", "i1"), OTHER)
    yields = (*one.yields, Yield("w", "other", index_map(SIZES, "i0", "i1")))
    both = Region(one.name, one.inputs, (*one.outputs, buffer("other", SIZES)), (*one.body, second), yields)
    assert may_overwrite(one, "Y", "x")
    assert not may_overwrite(both, "Y", "x")


@pytest.mark.parametrize(
    ("source", "updates", "fits"),
    [
        (read("x", (4, 6, 3), "i0", "i1"), read("u", (4, 6, 3), "i0", "i2"), True),
        (read("x", (4, 6, 3), "3 - i0", "i1"), read("u", (4, 6, 3), "i0", "i2"), False),
        (read("x", (4, 6, 3), "i0", "i1"), read("x", (4, 6, 3), "i0", "i2"), False),
    ],
)
def test_updates_of_a_scatter_read_other_memory(source: Operand, updates: Operand, fits: bool) -> None:
    inputs = (source, read("at", (4, 6, 3), "i2"), updates)
    op = Op("scatter", "last", "fp32", (4, 6, 3), inputs, reduced=1, axis=1)
    buffers = [buffer("x", SIZES), buffer("at", (3,), "i64"), buffer("u", (4, 3))]
    scatter = region("scatter", buffers, [Definition("v", op)], SIZES)
    assert may_overwrite(scatter, "Y", "x") == fits
    doubled = ewise("a", "mul", SIZES, HERE, Number(2.0, "fp32"))
    of_doubled = Definition("v", structs.replace(op, inputs=(read("a", (4, 6, 3), "i0", "i1"), *inputs[1:])))
    assert not may_overwrite(region("scatter", buffers, [doubled, of_doubled], SIZES), "Y", "x")
