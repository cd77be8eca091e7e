"""Columns that all threads pack before the tasks: the same results, bit for bit, as columns that every task packs."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from codegen.text.cpu_to_c import c_text
from ir.diagnostics import EqsatError, Kind
from ir.kernel.cpu.verify import verify
from ir.plan.cpu import CpuContractionPlan
from ir.region.region import Region
from tests.codegen.lower.cpu.test_lower_contraction import assert_plays, values_of
from tests.codegen.plan.test_row_box import nhwc
from tests.support.cpu.contraction_runs import Built, pairs_of_places, plans_of, restricted, target_of, with_place
from tests.support.programs import regions
from tests.support.sampling import first_few

AVX512 = msgspec.structs.replace(target_of(None, 2), arch="avx512", lanes=16)
"""The target of tests that make plans and run none."""
REGIONS = {
    "matrix": regions.matmul((), 50, 70, 37),
    "long matrix": regions.matmul((), 28, 40, 1100),
    "blocks of a batch": regions.matmul((3,), 12, 40, 30),
    "transposed columns": regions.matmul((), 28, 40, 50, rhs_t=True),
    "transposed rows": regions.matmul((), 28, 40, 50, lhs_t=True),
    "epilogue": regions.gemm_bias_relu(40, 36, 20),
    "prologue": regions.prologue_gemm(28, 40, 50),
    "convolution": regions.conv(2, 5, 20, (6, 7), 3, 1, 1),
    "convolution of pixels": nhwc(regions.conv(2, 5, 20, (6, 7), 3, 2, 1)),
    "groups": nhwc(regions.conv(1, 8, 40, (6, 6), 3, 1, 1, groups=2)),
    "halves": regions.matmul((), 28, 40, 50, dtype="bf16"),
    "bytes": regions.matmul((), 28, 40, 50, dtype="i8"),
    "halves in whole steps": regions.matmul((2,), 40, 45, 96, dtype="bf16"),
    "bytes in whole steps": regions.matmul((), 28, 45, 128, dtype="i8"),
    "doubles": regions.matmul((), 28, 40, 50, dtype="fp64"),
    "one term": regions.matmul((), 28, 40, 1),
    "no terms": regions.matmul((), 28, 40, 0),
    "no columns": regions.matmul((), 28, 0, 5),
}


def pairs(region: Region, isa: str | None = None) -> list[tuple[CpuContractionPlan, CpuContractionPlan]]:
    """Plans of each kind whose tasks pack columns, each beside the same plan with columns that are packed once."""
    return pairs_of_places(
        region, "packed", "packed_once", lambda blocks: (blocks.algorithm, blocks.bm < 28, blocks.bk < 50), isa
    )


@first_few(1, "isa", [None, "avx2"])
def test_panels_packed_once_give_the_same_bits(isa: str | None) -> None:
    cases = [(name, region, pair) for name, region in REGIONS.items() for pair in pairs(region, isa)]
    assert {name for name, _, _ in cases} >= set(REGIONS) - {"no columns", "no terms"}
    built = Built([(region, plan) for _, region, pair in cases for plan in pair], restricted(isa))
    for kernel in built.kernels():
        verify(kernel)
    for number, (name, region, _) in enumerate(cases):
        values = values_of(region)
        apart, together = (built.call(2 * number + i, values) for i in range(2))
        assert_plays(built, 2 * number + 1, values)
        for output in apart:
            np.testing.assert_array_equal(apart[output], together[output], err_msg=name)


def test_not_a_number_stays_in_its_column() -> None:
    region = REGIONS["matrix"]
    values = values_of(region)
    values["B"][3, 69] = np.nan
    built = Built([(region, plan) for _, plan in pairs(region)])
    for i in range(len(built.lowered)):
        (result,) = built.call(i, values).values()
        assert np.isnan(result[:, 69]).all()
        assert not np.isnan(result[:, :69]).any()


def test_columns_are_packed_in_a_phase_of_their_own() -> None:
    region = REGIONS["matrix"]
    for apart, together in pairs(region):
        first, second = (Built([(region, plan)]).lowered[0].kernel for plan in (apart, together))
        assert len(second.phases) == len(first.phases) + 1
        assert second.shared
        assert "B_packed1" in c_text(second)


def test_rows_are_not_packed_once() -> None:
    region = REGIONS["matrix"]
    plan = next(plan for plan, _ in pairs(region) if plan.places[1 - plan.vector] == "packed")
    with pytest.raises(EqsatError, match="which tasks pack") as caught:
        fit_plan(region, analyse(region).core, with_place(plan, 1 - plan.vector, "packed_once"))
    assert caught.value.kind is Kind.UNSUPPORTED_OP


@pytest.mark.parametrize(
    ("m", "columns", "terms"), [(1024, "packed_once", 768), (128, "packed", 64), (32, "memory", 32), (4, "memory", 16)]
)
def test_the_planner_reads_columns_of_many_rows_once_and_those_of_few_in_short_blocks(
    m: int, columns: str, terms: int
) -> None:
    plan, _ = plans_of(regions.matmul((), m, 3072, 768), AVX512)[0]
    assert (plan.places[plan.vector], plan.blocks.bk) == (columns, terms)
    if terms < 768:
        assert plan.order == "knm"


@pytest.mark.parametrize("region", [regions.matmul((), 16, 1024, 1024, rhs_t=True), regions.matmul((), 16, 64, 64)])
def test_columns_along_the_terms_and_small_ones_are_read_in_long_blocks(region: Region) -> None:
    plan, _ = plans_of(region, AVX512)[0]
    assert plan.blocks.bk >= 64
