"""Plans that are `ordered`: whatever the candidate, one order of the terms, that of their indices."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from codegen.plan.cpu.candidates import candidates
from codegen.plan.cpu.contraction_candidates import contraction_candidates
from codegen.plan.cpu.nest_candidates import nest_candidates
from codegen.poly.analyse import analyse
from ir.diagnostics import EqsatError, Kind
from ir.plan.cpu import CpuContractionPlan, CpuNestPlan
from ir.region.playback import play_region
from ir.region.region import Region
from ir.term.rule import Exactness
from tests.support.cpu.contraction_runs import Built, target_of
from tests.support.cpu.nest_kernels import Case, available, case, cases, library, run, target
from tests.support.cpu.played import random_inputs
from tests.support.programs import regions as r
from tests.support.stages.plan_class import plan_of

ARCH = next(arch for arch in ("avx512", "avx2", "sse2") if available(arch))
NESTS = [
    *(r.row_reduce(5, 700), r.row_reduce(40, 90), r.column_reduce(700, 40), r.total((30, 40, 5)), r.total((70000,))),
    *(r.row_reduce(6, 300, "prod"), r.normalize(5, 70), r.centre_rows(4, 90), r.sum_of_exp(5, 70)),
    *(r.cumsum(20, 33, 1), r.cumsum(20, 33, 0), r.cumsum(3, 700, 1)),
]


@pytest.fixture(scope="module")
def compiled() -> tuple[Any, list[Case]]:
    where = available(ARCH)
    assert where is not None
    tried = cases(NESTS, ARCH, ordered=True)
    return library(tried, where), tried


@pytest.mark.parametrize("region", NESTS, ids=lambda region: region.name)
def test_every_candidate_of_a_nest_has_the_same_bits(compiled: tuple[Any, list[Case]], region: Region) -> None:
    lib, tried = compiled
    inputs = random_inputs(region, 1)
    mine = [case for case in tried if case.region == region]
    assert all(case.plan.ordered for case in mine)
    results = [{name: array.tobytes() for name, array in run(lib, case, inputs).items()} for case in mine]
    assert all(case == results[0] for case in results), [str(case) for case in mine]


def test_rows_and_columns_are_summed_term_by_term(compiled: tuple[Any, list[Case]]) -> None:
    lib, tried = compiled
    for region, axis in ((NESTS[0], 1), (NESTS[2], 0)):
        mine = next(case for case in tried if case.region == region)
        inputs = random_inputs(region, 2)
        (array,), (got,) = inputs.values(), run(lib, mine, inputs).values()
        assert got.tobytes() == np.add.accumulate(array, axis).take(-1, axis).tobytes()


CONTRACTIONS = [
    r.matmul(m=13, n=21, k=40),
    r.matmul(m=1, n=5, k=300, rhs_t=True),
    r.matmul(m=40, n=3, k=2100),
    r.conv(c_in=5),
]


@pytest.mark.slow
@pytest.mark.parametrize("region", CONTRACTIONS, ids=lambda region: region.name)
def test_every_candidate_of_a_contraction_sums_in_index_order(region: Region) -> None:
    """Products of numbers of 11 bits are exact in fp32, so that the sums alone tell."""
    actual = candidates(region, analyse(region).core, target_of(), Exactness.EXACT)
    plans = [plan_of(plan, CpuContractionPlan) for plan, _ in actual]
    assert plans
    assert all(plan.ordered and plan.blocks.algorithm != "dot" for plan in plans)
    rng = np.random.default_rng(0)
    inputs = {
        buffer.name: np.ldexp(rng.integers(-1024, 1024, buffer.memref.shape), rng.integers(-8, 8, buffer.memref.shape))
        .astype(np.float32)
        for buffer in region.inputs
    }  # fmt: skip
    wanted = summed_in_order(region, inputs)
    built = Built([(region, plan) for plan in plans])
    for number, plan in enumerate(plans):
        (got,) = built.call(number, inputs).values()
        np.testing.assert_array_equal(got, wanted, err_msg=str(plan))


def summed_in_order(region: Region, inputs: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The sums of the region's contraction, its only op, in index order: its products by playback, then one by one."""
    ((_, op),) = ((let.name, let.op) for let in region.body)
    products = r.region("products", region.inputs, [r.ewise("P", "mul", op.domain, *op.inputs)], op.domain)
    (terms,) = play_region(products, inputs).values()
    return np.add.accumulate(terms.reshape(*op.shape, -1), -1)[..., -1]


def test_dot_products_are_refused() -> None:
    region = r.matmul(m=1, n=5, k=300, rhs_t=True)
    core = analyse(region).core
    dot = next(plan for plan, _ in contraction_candidates(region, core, target_of()) if plan.blocks.algorithm == "dot")
    with pytest.raises(EqsatError) as caught:
        Built([(region, msgspec.structs.replace(dot, ordered=True))])
    assert caught.value.diagnostics[0].kind is Kind.UNSUPPORTED_OP


def test_parts_are_refused() -> None:
    region = r.total((70000,))
    core = analyse(region).core
    plans = [plan for plan, _ in nest_candidates(region, core, target(ARCH))]
    split = next(plan for plan in plans if plan.part is not None)
    with pytest.raises(EqsatError) as caught:
        case(region, core, msgspec.structs.replace(split, ordered=True))
    assert caught.value.diagnostics[0].kind is Kind.UNSUPPORTED_OP


def test_an_extremum_is_split_all_the_same() -> None:
    region = r.total((70000,), "max")
    plans = [plan for plan, _ in candidates(region, analyse(region).core, target(ARCH), Exactness.EXACT)]
    assert any(plan_of(plan, CpuNestPlan).part is not None for plan in plans)
