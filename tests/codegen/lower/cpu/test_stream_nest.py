"""Streams in nests: every candidate plan against region playback, between guard pages, on every instruction set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from codegen.compile.library import Library
from codegen.plan.cpu.candidates import candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from ir.diagnostics import EqsatError
from ir.plan.cpu import CpuNestPlan
from ir.region.region import Region
from ir.term.rule import Exactness
from tests.support.cpu import nest_kernels as kernels
from tests.support.cpu.played import random_inputs
from tests.support.programs import stream_regions as streams
from tests.support.stages.plan_class import plan_of

REGIONS = (
    *streams.SMALL,
    streams.weighted_mean(2, 80000),
    streams.weighted_mean_2d(3, 5, 40),
    streams.weighted_rows(5, 70, 9),
    streams.weighted_rows(3, 20, 40),
)


@dataclass(frozen=True)
class Tried:
    """All cases of one instruction set, compiled."""

    cases: list[kernels.Case]
    library: Library


@pytest.fixture(scope="module", params=["avx512", "avx2", "sse2"])
def tried(request: pytest.FixtureRequest) -> Tried:
    where = kernels.required(request.param)
    cases = kernels.cases(REGIONS, request.param)
    return Tried(cases, kernels.library(cases, where))


@pytest.mark.slow
@pytest.mark.parametrize(("nan", "at_end"), [(False, True), (True, False)])
def test_every_plan_is_playback(tried: Tried, nan: bool, at_end: bool) -> None:
    for case in tried.cases:
        inputs = random_inputs(case.region, 1, nan=nan)
        kernels.check(tried.library, case, inputs, at_end=at_end, threads=1 + at_end)


@pytest.mark.slow
def test_scores_that_are_infinite(tried: Tried) -> None:
    for case in tried.cases:
        inputs = random_inputs(case.region, 2)
        kernels.check(tried.library, case, {**inputs, "X": infinite(inputs["X"])})


def infinite(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows and columns whose scores are all -inf, start so, or reach inf."""
    x = x.copy()
    if x.ndim == 2 and x.size:
        x[:, : x.shape[1] // 2] = -np.inf
        x[: x.shape[0] // 2 or 1] = -np.inf
        x[-1, -1] = np.inf
    return x


@pytest.mark.slow
def test_large_scores_do_not_overflow(tried: Tried) -> None:
    for case in tried.cases:
        inputs = random_inputs(case.region, 3)
        kernels.check(tried.library, case, {**inputs, "X": (inputs["X"] * 500).astype(inputs["X"].dtype)})


@pytest.mark.parametrize("region", [streams.log_sum_exp(), streams.attention()], ids=lambda region: region.name)
def test_sums_in_index_order_are_no_streams(region: Region) -> None:
    core = analyse(region).core
    assert candidates(region, core, kernels.target("avx2"), Exactness.EXACT) == []


def test_an_ordered_plan_by_hand_is_refused() -> None:
    region = streams.log_sum_exp()
    core = analyse(region).core
    plan = plan_of(candidates(region, core, kernels.target("avx2"))[0][0], CpuNestPlan)
    with pytest.raises(EqsatError, match="not in index order"):
        fit_plan(region, core, msgspec.structs.replace(plan, ordered=True))
