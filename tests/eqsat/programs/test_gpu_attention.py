"""Attention programs for a GPU, as people write them: one kernel each, which never holds the matrix of scores."""

from __future__ import annotations

import pytest

from eqsat import optimize_and_compile
from tests.support.programs.attention import ATTENTION, MEANS, Program, graph_of
from tests.support.sampling import first_few

FEW = ("causal", "hidden_by_infinity", "grouped_queries", "brain", "half_throughout", "as_the_seed_writes_it_in_half")


def check(program: Program) -> None:
    result = optimize_and_compile(graph_of(program), target="sm_80", emulate=True)
    assert len(result.kernels) == 1
    result.verify(seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_attention_is_one_kernel(name: str) -> None:
    check(ATTENTION[name])


@pytest.mark.slow
@first_few(6, "name", [name for name in ATTENTION if name not in FEW])
def test_all_attention_is_one_kernel(name: str) -> None:
    check(ATTENTION[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MEANS)
def test_other_streams_are_one_kernel(name: str) -> None:
    check(MEANS[name])
