"""What `explain` says of the candidates that were rejected."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import eqsat
from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.explanation.explain import refusals_text
from eqsat.explanation.price_text import micros, span
from eqsat.extraction.cover import Cover
from eqsat.extraction.covering.pareto import pareto
from eqsat.extraction.covering.problem import Column, Problem, resolve
from eqsat.extraction.covering.rivals import NEAREST
from eqsat.extraction.covering.swaps import Swaps
from eqsat.extraction.extract import extract
from ir.diagnostics import Kind
from ir.region.region import Region
from ir.tiny.graph import Graph
from tests.support.fuzz.strategies import random_graph
from tests.support.programs import graphs
from tests.support.stages.approximate import ApproximatePricer, saturated

CASES: dict[str, Callable[[], Graph]] = {
    "gemm + bias + relu": graphs.gemm_bias_relu,
    "conv + bn + relu": graphs.conv_bn_relu,
    "attention": lambda: graphs.attention(length=16, width=16, heads=2),
}


def covered(graph: Graph, pricer: ApproximatePricer | None = None) -> Cover:
    bound, view = saturated(graph)
    return extract(view, bound.outputs, pricer or ApproximatePricer())


@pytest.fixture(scope="module", params=list(CASES))
def program(request: pytest.FixtureRequest) -> Program:
    return optimize_and_compile(CASES[request.param](), threads=1)


@pytest.mark.slow
def test_every_kernel_tells_its_uops_rules_price_and_rivals(program: Program) -> None:
    said, data = program.explain(), program.explained()
    assert json.loads(json.dumps(data)) == data
    assert data["estimated_ns"] == program.cost
    for kernel, record in zip(program.kernels, data["kernels"], strict=True):
        assert kernel.name in said
        assert record["uops"] == list(kernel.uops)
        assert record["rules"].keys() == set(kernel.rules)
        assert record["estimated_ns"] == kernel.estimated_ns
        assert record["candidates"] == kernel.selection.candidates
        assert min(NEAREST, kernel.selection.candidates - 1) <= len(record["rejected"]) < kernel.selection.candidates
        for rival in record["rejected"]:
            assert rival["name"] in said
            assert span(rival["time_ns"]) in said
            assert f"{span(rival['extra_ns'], '+')} ({rival['percent']:+.2f} %)" in said
            assert rival["percent"] == pytest.approx(100 * rival["extra_ns"] / program.cost)
    assert "runner-up" in said
    assert any(kernel.selection.rivals for kernel in program.kernels)


def test_no_rival_would_have_been_cheaper_and_the_nearest_comes_first(program: Program) -> None:
    for kernel in program.kernels:
        extra = [rival.extra_ns for rival in kernel.selection.rivals if rival.extra_ns is not None]
        assert extra == sorted(extra)
        assert all(ns >= 0 for ns in extra)
        assert kernel.selection.runner_up == (kernel.selection.rivals[0] if extra else None)


def test_explanations_survive_the_cache_and_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "cache"))
    first = optimize_and_compile(graphs.gemm_bias_relu(), threads=1)
    monkeypatch.setattr("eqsat.make_artifact.optimize", lambda *_: pytest.fail("optimized twice"))
    first.save(tmp_path / "f")
    for other in (optimize_and_compile(graphs.gemm_bias_relu(), threads=1), eqsat.load(tmp_path / "f")):
        assert other.explained() == first.explained()
        assert other.explain() == first.explain()


def test_what_the_pricer_refuses_is_told_with_its_reason() -> None:
    def no_contraction(region: Region) -> str:
        return "no such unit" if any(let.op.kind == "contraction" for let in region.body) else ""

    cover = covered(graphs.gemm_bias_relu(), ApproximatePricer(refuse=no_contraction))
    (kernel,) = cover.kernels
    refused = [rival for rival in kernel.selection.rivals if rival.refusal]
    assert refused
    assert {(rival.refusal, rival.reason) for rival in refused} == {(Kind.UNSUPPORTED_OP, "no such unit")}
    assert all(rival.time_ns is None and rival.extra_ns is None for rival in refused)


def test_a_refusal_of_the_code_generator_is_told() -> None:
    x = t.input("x", (8, 16))
    program = optimize_and_compile(x.exp().cumsum(1) + (x * 2).cumsum(0), threads=1)
    (refused,) = (rival for kernel in program.kernels for rival in kernel.selection.rivals if rival.refusal)
    assert refused.refusal is Kind.UNSUPPORTED_OP
    assert "scans along another axis" in refused.reason
    assert refused.reads == ("x",)
    assert "UnsupportedOp: `sum_3` scans along another" in program.explain()


@pytest.mark.slow
def test_refusals_of_one_reason_are_one_line() -> None:
    x = t.input("x", (2, 8, 6, 6))
    grouped = x.reshape(2, 4, 72)
    normed = ((grouped - grouped.mean(-1, keepdims=True)) * (grouped.var(-1, keepdims=True) + 1).rsqrt()).reshape(
        x.shape
    )
    program = optimize_and_compile((normed * t.input("g", (8, 1, 1))).exp(), threads=1, target="cpu")
    rivals = [rival for kernel in program.kernels for rival in kernel.selection.rivals if rival.refusal]
    lines = [line for kernel in program.kernels for line in refusals_text(kernel.selection.rivals)]
    assert len(lines) < len(rivals)
    assert sum(int(line.split()[0]) for line in lines) == len(rivals)
    assert "candidates refused, as " in program.explain()


def test_a_kernel_without_rivals_says_so() -> None:
    program = optimize_and_compile(t.input("x", (4, 5)).max(axis=1), threads=1)
    assert "the only candidate" in program.explain()


def test_names_are_no_markup() -> None:
    program = optimize_and_compile((t.input("[red]x[/]", (4, 5)) @ t.input("[/w]", (5, 6))).relu(), threads=1)
    assert "[red]x[/]" in program.explain()


def cost(problem: Problem, chosen: tuple[int, ...]) -> float:
    return sum(problem.columns[index].cost for index in chosen)


@pytest.mark.parametrize("seed", range(80))
def test_a_swap_costs_what_the_cover_with_it_costs(seed: int) -> None:
    """Each swap against the cover that `resolve` makes of the same columns; none beats the optimum."""
    rng = random.Random(seed)
    columns = []
    for buffer in range(7):
        for _ in range(rng.randint(1, 3)):
            reads = [other for other in rng.sample(range(7), rng.randint(0, 3)) if other != buffer]
            columns.append(Column(buffer, tuple(reads), rng.uniform(1, 9)))
    problem = Problem(tuple(columns), (0, 1))
    result = pareto(problem, sets=64)
    if result is None:
        return
    chosen = result.columns
    swaps = Swaps(problem, chosen)
    written = {columns[index].writes: index for index in chosen}
    for index, column in enumerate(columns):
        if column.writes in written and index not in chosen:
            swap = swaps.with_column(index)
            if swap is not None:
                kept = [place for place in chosen if columns[place].writes != column.writes]
                other = resolve(problem, [*kept, *swap.entering])
                assert other is not None
                assert index in other
                assert swap.extra_ns == pytest.approx(cost(problem, other) - cost(problem, chosen))
                assert swap.extra_ns >= -1e-9


@pytest.mark.parametrize("seed", range(20))
def test_rivals_of_random_programs_are_priced(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), 14)
    for kernel in covered(graph).kernels:
        assert kernel.selection.candidates > len(kernel.selection.rivals) or not kernel.price
        for rival in kernel.selection.rivals:
            assert (rival.time_ns is None) == (rival.refusal is not None)


def test_times_are_told_in_the_unit_that_suits_them() -> None:
    assert [span(ns) for ns in (0.0, 999.9, 1e3, 20_260.8, 1_704_301.9)] == [
        *("0.0 ns", "999.9 ns", "1.00 µs"),
        *("20.26 µs", "1,704.3 µs"),
    ]
    assert [span(ns, "+") for ns in (-40.0, 40.0, -2_867.2)] == ["-40.0 ns", "+40.0 ns", "-2.87 µs"]
    assert micros(-123_456.0) == "-123.5 µs"
