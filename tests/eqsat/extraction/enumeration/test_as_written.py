"""A program as written is always a cover: whatever the rules found, budget, level, extractor and limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest

import eqsat.cover_part
from eqsat import optimize_and_compile
from eqsat import tensor as t
from eqsat.egraph.saturate import saturate
from eqsat.egraph.view import EGraphView
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.covering.extractors import EXTRACTORS
from eqsat.extraction.enumeration.as_written import as_written
from eqsat.extraction.enumeration.kernel_tree import subtrees
from eqsat.extraction.enumeration.limits import EnumerationLimits
from eqsat.extraction.extract import extract, extract_several
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.options import Budget
from eqsat.tensor import Tensor
from ir.tiny.bind import load
from ir.tiny.graph import Graph
from rules import select
from tests.support.damage.odd_values import odd_inputs
from tests.support.stages.approximate import ApproximatePricer, check

BUDGETS = (None, Budget(nodes=0), Budget(nodes=1), Budget(iterations=0), Budget(iterations=1), Budget(seconds=0))


def x(*shape: int) -> Tensor:
    return t.input("x", shape)


def copied_scan() -> tuple[Tensor, ...]:
    """A scan, a view of the scan, a maximum of the view, and a copy of the maximum: the maximum and the copy are each
    the cheapest way to compute the other."""
    y = x(9, 6, 8).cumsum(0)[None]
    m = y.max(2, keepdims=True)
    return m[:, :, 0] + 1, y - m


def round_trips() -> tuple[Tensor, ...]:
    y = x(4, 6).sum(1, keepdims=True)[None]
    z = y[0, :, 0][:, None].cumsum(0)
    return z, z[:, 0], z[None], y.permute(2, 1, 0) + 1


def repeated_outputs() -> tuple[Tensor, ...]:
    a = x(3, 5)
    s = a.cumsum(1)
    return a, a[None], s, s, s[None][0], s.flip([0]).flip([0]), a.max(0, keepdims=True), a.max(axis=0)


def constants_alone() -> tuple[Tensor, ...]:
    c = t.constant(np.arange(12, dtype=np.float32).reshape(3, 4)).cumsum(0)[None]
    return c.max(2, keepdims=True)[:, :, 0], c - c.max(2, keepdims=True), c[0]


PROGRAMS = (copied_scan, round_trips, repeated_outputs, constants_alone)


def loaded(build: Callable[[], tuple[Tensor, ...]]) -> tuple[Graph, tuple[str, ...], dict[str, np.ndarray]]:
    """The graph, the names of its constants, and the values of all inputs."""
    document, constants = tensor_to_tiny(list(build()))
    graph = load(document)[0]
    types = {name: graph.types[node.id] for name, node in graph.inputs.items() if name not in constants}
    return graph, tuple(constants), {**odd_inputs(types, np.random.default_rng(0)), **constants}


@cache
def views(build: Callable[[], tuple[Tensor, ...]]) -> list[EGraphView]:
    """The e-graphs of a program within each budget, with all rules and with none."""
    graph, constants, _ = loaded(build)
    return [
        saturate(graph, select(rules), budget=budget, constants=constants)[0]
        for budget in BUDGETS
        for rules in (None, ())
    ]


@pytest.mark.slow
@pytest.mark.parametrize("build", PROGRAMS)
@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_there_is_a_cover_within_any_limits(build: Callable[[], tuple[Tensor, ...]], extractor: str) -> None:
    graph, constants, values = loaded(build)
    for view in views(build):
        for limits in (EnumerationLimits(), EnumerationLimits(alternatives=1, candidates=1)):
            cover = extract(
                view, graph.outputs, ApproximatePricer(), constants=constants, extractor=extractor, limits=limits
            )
            check(cover, view, graph, values, constants)


@pytest.mark.parametrize("build", PROGRAMS)
def test_kernels_as_written_read_what_earlier_uops_wrote(build: Callable[[], tuple[Tensor, ...]]) -> None:
    graph, constants, _ = loaded(build)
    view, _ = saturate(graph, select(None), constants=constants)
    forest = Candidates(view, graph.outputs, ApproximatePricer(), constants).forest
    place = {buffer: number for number, buffer in enumerate(dict.fromkeys(view.tiny.values()))}
    inputs = {view.tiny[node.id] for node in graph.inputs.values()}
    for buffer in place.keys() - inputs:
        written = as_written(forest, buffer)
        assert written is not None
        reads = {read for subtree in subtrees(written) if (read := subtree.node.source) is not None}
        assert all(place[read] < place[buffer] for read in reads)


@pytest.mark.parametrize("exactness", ["exact", "range"])
def test_copies_of_one_another_compile(exactness: str) -> None:
    optimize_and_compile(list(copied_scan()), target="cpu", threads=2, exactness=exactness).verify()


@pytest.mark.slow
def test_a_gpu_program_is_covered_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    few = partial(extract_several, limits=EnumerationLimits(alternatives=1, candidates=1))
    for extraction in (extract_several, few):
        monkeypatch.setattr(eqsat.cover_part, "extract_several", extraction)
        assert optimize_and_compile(list(copied_scan()), target="sm_80", emulate=True, cache=False).kernels
