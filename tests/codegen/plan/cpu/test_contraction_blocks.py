"""Blocks of products: all cores have work to the end, and a block stays in a core's second-level cache."""

from __future__ import annotations

from msgspec import structs

from eqsat import nn, tensor
from eqsat.explanation.explore import explore
from ir.plan.cpu import CpuContractionPlan
from ir.region.region import Region
from tests.codegen.plan.test_row_box import nhwc
from tests.support.cpu.contraction_runs import plans_of, target_of
from tests.support.cpu.nest_kernels import target
from tests.support.programs import regions
from tests.support.programs.narrow_regions import with_constant


def best(region: Region) -> CpuContractionPlan:
    return plans_of(region, target_of(units=2))[0][0]


def test_few_terms_make_short_blocks() -> None:
    plans = [plan for plan, _ in plans_of(regions.matmul((), 25088, 64, 16), target_of(units=2))]
    packed = [plan.blocks.bm for plan in plans if plan.places[1 - plan.vector] == "packed"]
    assert packed
    assert max(packed) <= 2048


def test_some_plan_with_all_columns_has_blocks_for_all_cores() -> None:
    """Seven blocks of rows would leave one of two cores idle, unless each takes a half of the columns."""
    m, n = 6272, 64
    plans = [plan for plan, _ in plans_of(regions.matmul((), m, n, 256), target("avx512"))]
    assert any(plan.blocks.bn >= n and -(-m // plan.blocks.bm) % 2 == 0 for plan in plans if plan.blocks.mr == 14)


def test_several_tiles_share_a_panel_that_lies_far() -> None:
    """All panels, 9 MB, come from beyond the second-level cache for every block of rows. Blocks of 14 rows took 27 ms,
    such of 196 rows take 21."""
    plan = plans_of(nhwc(regions.conv(2, 512, 512, (28, 28), 3, 1, 4, 4)), target("avx512"))[0][0]
    assert plan.blocks.bm >= 4 * plan.blocks.mr


def test_rows_whose_terms_lie_apart_are_packed() -> None:
    """As those of a gradient of weights, Xᵀ·D: tiles would load one number of every cache line."""
    plan = best(regions.matmul((), 3072, 768, 384, lhs_t=True))
    assert plan.places[1 - plan.vector] == "packed"


def test_few_rows_are_one_block_so_that_no_weight_is_read_by_two_cores() -> None:
    """Two blocks of 64 rows took 1.75 ms, four blocks of columns take 1.60."""
    plan = plans_of(with_constant(regions.matmul((), 128, 3072, 768), "B"), target("avx512"))[0][0]
    assert plan.blocks.bm == 128
    assert plan.prefetch


def test_dot_products_read_as_many_columns_as_one_set_of_the_first_cache_holds() -> None:
    """The lines of 16 columns, 4 KiB apart, evicted each other from 8 or 12 ways: 1024 x 1024 took 71 us on a Zen 4, by
    8 columns it takes 33."""
    assert columns_of_dots(1, 1024, ways=8) == columns_of_dots(1, 1024, ways=12) == 8
    assert columns_of_dots(4, 1024, ways=8) == 4
    assert columns_of_dots(1, 768, ways=8) == 16


def test_a_tile_has_as_many_rows_as_one_set_of_the_first_cache_holds() -> None:
    """The lines of 16 rows, 4 KiB apart, evicted each other from 8 ways: 256 x 16 x 1024 took 94 us on two cores of a
    Zen 4, by 8 rows it takes 55."""
    few = structs.replace(target("avx512"), l1_bytes=8 * 4096)
    assert plans_of(regions.matmul((), 256, 16, 1024), few)[0][0].blocks.mr == 8
    assert plans_of(regions.matmul((), 256, 16, 1000), few)[0][0].blocks.mr == 16


def test_few_rows_share_the_columns_that_dot_products_load() -> None:
    """One row at a time loads all columns again: 8 x 768 x 3072 took 403 us on a Zen 4, four rows take 201."""
    tall = best(regions.matmul((), 8, 3072, 768, rhs_t=True)).blocks
    assert (tall.algorithm, tall.mr) == ("dot", 4)


def test_few_rows_take_panels_of_constants_that_only_the_last_cache_holds() -> None:
    """With AVX2, dot products waited for their columns: 8 x 1024 x 1024 took 118 us on a Zen 4, panels take 81."""
    plans = plans_of(with_constant(regions.matmul((), 8, 1024, 1024, rhs_t=True), "B"), target("avx2"))
    assert plans[0][0].blocks.algorithm == "outer"


def test_one_row_has_eight_vectors_of_columns_on_every_machine() -> None:
    """Four sums of one row wait for each other: a core starts two multiply-adds per cycle, which take four cycles."""
    for arch in ("avx2", "avx512"):
        plans = plans_of(regions.matmul((), 1, 2304, 768), target(arch))
        assert any(plan.blocks.nr == 8 * plan.blocks.lanes for plan, _ in plans)


def test_dot_products_read_columns_in_the_order_of_memory_where_no_cache_holds_them() -> None:
    """Prefetchers do not follow several runs of one page: 1 x 256 x 32768 took 900 us on two cores of a Zen 4 with 16
    columns in turns, with one it takes 430. A cache gives columns in turns faster."""
    assert columns_of_dots(1, 256, columns=32768) == columns_of_dots(4, 512, columns=16384) == 1
    assert columns_of_dots(1, 256, columns=4096) == 16
    assert columns_of_dots(1, 64, columns=1 << 17) == 16  # of a few cache lines
    assert columns_of_dots(1, 2048, columns=4096) > 1  # on pages of their own


def columns_of_dots(rows: int, terms: int, ways: int = 12, columns: int = 1024) -> int:
    """The columns of a tile of dot products with as many rows as there are, of so many columns and terms."""
    region = regions.matmul((), rows, columns, terms, rhs_t=True)
    plans = plans_of(region, structs.replace(target("avx512"), l1_bytes=ways * 4096))
    return next(plan.blocks.nr for plan, _ in plans if plan.blocks.algorithm == "dot" and plan.blocks.mr == rows)


def test_short_runs_of_terms_fill_few_lanes_of_a_dot_product() -> None:
    """The mean of a convolution by one dot product, in runs of three taps, took 10.6 ms, by two kernels .55."""
    x, w = tensor.input("x", (2, 64, 32, 32)), tensor.input("w", (64, 64, 3, 3))
    plans = [price.plan for price in explore(nn.conv2d(x, w, padding=1).mean((2, 3)), target="cpu").prices]
    assert not any(isinstance(plan, CpuContractionPlan) and plan.blocks.algorithm == "dot" for plan in plans)
