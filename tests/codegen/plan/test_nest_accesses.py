"""Accesses of a nest: what is left out beforehand costs nothing under any nest, and those alike are each counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from codegen.plan.cpu.candidates import candidates
from codegen.plan.cpu.nest_access_work import NestAccesses
from codegen.plan.cpu.nest_trips import NestKey, PlannedNest
from codegen.plan.region_loops import RegionLoops
from codegen.poly.analyse import analyse
from eqsat import optimize_and_compile, tensor
from eqsat.cost.targets import nominal_cpu
from eqsat.frontends.complex_tensor import from_interleaved
from ir.plan.cpu import CpuNestPlan
from ir.region.region import Region
from tests.support.programs import regions
from tests.support.programs.regions import buffer, ewise, read, region, same
from tests.support.programs.usual_cpu import usual_cpu

TARGET = nominal_cpu(
    arch="avx512", cores=2, lanes=16, l1_bytes=48 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20, source="test"
)


def nests(tried: Region) -> Iterator[tuple[NestAccesses, PlannedNest]]:
    """The nests of a region's plans."""
    core = analyse(tried).core
    accesses = NestAccesses(RegionLoops(tried, core), TARGET)
    for plan, _ in candidates(tried, core, TARGET) if core.contraction is None and core.streams is None else ():
        if isinstance(plan, CpuNestPlan):
            yield accesses, PlannedNest.of(accesses.loops.shape, NestKey.of(plan), TARGET.lanes)


def wide() -> tuple[Region, ...]:
    """Regions that the nearest cache does not hold, with rows a power of two apart and not."""
    return (
        regions.transpose(1024, 2048),
        regions.transpose(1000, 1300),
        regions.column_reduce(1024, 4096),
        regions.outer_sum(64, 1 << 16),
        regions.normalize(512, 4096),
        regions.maxpool(),
    )


@pytest.mark.parametrize("tried", [*wide(), *regions.corpus()], ids=lambda tried: str(tried.name))
def test_an_access_that_is_left_out_costs_nothing(tried: Region) -> None:
    for accesses, nest in nests(tried):
        for access, may in zip(accesses._distinct, accesses._may_be_lost, strict=True):
            assert may or accesses._refetch_cycles_of(access, nest) == 0
        for access, may in zip(accesses._distinct, accesses._may_collide, strict=True):
            if not access.indirect and 0 not in access.sizes:
                assert may or accesses._collision(access, nest) is None


def test_some_accesses_are_lost_and_some_collide() -> None:
    results = [
        (accesses.refetch_cycles(nest) > 0, bool(accesses.collisions(nest)))
        for region in wide()
        for accesses, nest in nests(region)
    ]
    assert {lost for lost, _ in results} == {meet for _, meet in results} == {False, True}


def test_accesses_alike_are_counted_each() -> None:
    """x + y takes the loads of x and y, which are one access twice, and a store."""
    out = (256, 512)
    two = region(
        "two", [buffer("x", out), buffer("y", out)], [ewise("z", "add", out, same("x", out), same("y", out))], out
    )
    one = region("one", [buffer("x", out)], [ewise("z", "relu", out, same("x", out))], out)
    moved = [next(accesses.moves(nest) for accesses, nest in nests(region)) for region in (two, one)]
    assert moved[0][0] == 1.5 * moved[1][0]


def test_lanes_that_lie_apart_are_lost_cycles() -> None:
    out = (256, 512)
    turned = region("turned", [buffer("x", (512, 256))], [ewise("z", "relu", out, read("x", out, "i1", "i0"))], out)
    assert all(accesses.moves(nest)[1] > 0 for accesses, nest in nests(turned))


def test_one_sum_over_rows_reads_a_kilobyte_of_each() -> None:
    """Where a core has that many registers, and both cores have columns."""

    def width(tried: Region) -> int:
        plan, _ = candidates(tried, analyse(tried).core, TARGET)[0]
        assert isinstance(plan, CpuNestPlan)
        return plan.width

    assert width(regions.column_reduce(4096, 1024)) == 256
    assert width(regions.column_reduce(4096, 256)) == 64


@pytest.mark.parametrize("size", [2048, 8192])
def test_pairs_of_lanes_are_computed_along_rows(size: int) -> None:
    """Complex products, whose parts are neighbours: strips of 8 lanes through all rows would read each line twice."""
    x, y = tensor.input("x", (size, 4, 64, 2)), tensor.input("y", (size, 1, 64, 2))
    product = (from_interleaved(x) * from_interleaved(y)).interleaved().reshape(size, 4, 128)
    program = optimize_and_compile(product, target=usual_cpu())
    for place in range(len(program.kernels)):
        plan = program.plans(place)[0].plan
        assert isinstance(plan, CpuNestPlan)
        assert plan.lanes == len(plan.loops) - 1
        assert plan.loops[-1].tile >= 64
