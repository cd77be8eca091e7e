"""Step-by-step runs: what is counted is what happened, and comparisons tell what rules are worth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from eqsat import EqsatError, optimize_and_compile
from eqsat import tensor as t
from eqsat.explanation.exploration_text import bars
from eqsat.explanation.explore import Exploration, Explorer, explore
from eqsat.explanation.layered_layout import lay_out
from eqsat.explanation.layout import layout
from ir.diagnostics import Kind
from tests.support.programs import graphs


@pytest.fixture(scope="module")
def run() -> Exploration:
    return explore(graphs.attention(length=16, width=16), target="cpu")


@pytest.mark.slow
def test_a_run_is_what_the_compiler_does(run: Exploration) -> None:
    program = optimize_and_compile(graphs.attention(length=16, width=16), target="cpu", threads=1)
    stats = program.stats.saturation
    assert [kernel.writes for kernel in run.kernels] == [kernel.writes for kernel in program.kernels]
    assert run.estimated_ns == pytest.approx(program.cost)
    assert (run.nodes, run.classes) == (stats.nodes, stats.classes)
    assert run.matches == {rule: count for rule, count in stats.matches.items() if count}
    assert run.matches_by_family == {family: count for family, count in stats.families.items() if count}
    assert [phase.iterations for phase in run.phases] == [phase.iterations for phase in stats.phases]
    again = program.explore()
    assert [kernel.selection for kernel in again.kernels] == [kernel.selection for kernel in program.kernels]


def test_phases_add_up_and_classes_are_counted(run: Exploration) -> None:
    assert sum(phase.iterations for phase in run.phases) == len(run.iterations)
    assert (run.phases[-1].nodes, run.phases[-1].classes) == (run.nodes, run.classes)
    assert run.iterations[-1].nodes == run.nodes
    joined = [family for phase in run.phases for family in phase.joined]
    assert len(joined) == len(set(joined))
    for place, phase in enumerate(run.phases):
        mine = [growth for growth in run.iterations if growth.phase == place]
        assert [growth.iteration for growth in mine] == list(range(phase.iterations))
        assert sum(sum(growth.matches.values()) for growth in mine) == sum(phase.matches.values())


def test_runs_are_plain_data_and_tables(run: Exploration) -> None:
    data = run.data()
    assert json.loads(json.dumps(data)) == data
    assert data["estimated_ns"] == pytest.approx(run.estimated_ns)
    said = str(run)
    for rule, count in run.matches.items():
        assert rule in said
        assert f"{count:,}" in said
    assert all(kernel.name in said for kernel in run.kernels)


def test_tables_name_every_family_however_long_the_phases_took(run: Exploration) -> None:
    """Phases of many seconds widen their column, so that the families' column may wrap."""
    slow = tuple(msgspec.structs.replace(phase, seconds=phase.seconds + 1e6) for phase in run.phases)
    for shown in (run, replace(run, phases=slow)):
        said = str(shown)
        assert all(family in said for phase in shown.phases for family in phase.joined)


@pytest.mark.slow
def test_without_fusion_there_are_more_kernels(run: Exploration) -> None:
    other = run.without("fusion", "streams")
    assert len(other.kernels) > len(run.kernels)
    assert not any(rule.family in ("fusion", "streams") for rule in other.rules)
    result = run.compare(other)
    assert result["kernels"].right == len(other.kernels)
    assert result["predicted µs"].factor == pytest.approx(other.estimated_ns / run.estimated_ns)
    assert result.only_left
    assert result.only_right
    assert all(line.partition(" = ")[0] in {k.writes[0] for k in run.kernels} for line in result.only_left)
    assert result.matches["fuse_epilogue_in_place"][1] == 0
    assert result.names == ("with", "without fusion, streams")
    assert "kernels only without fusion, streams" in str(result)
    same = run.compare(run)
    assert (same.names, same.only_left, same.only_right, same.matches) == (("left", "right"), (), (), {})


@pytest.mark.slow
def test_without_nothing_is_the_same_run(run: Exploration) -> None:
    assert [kernel.name for kernel in run.without().kernels] == [kernel.name for kernel in run.kernels]
    bare = explore(graphs.gemm_bias_relu(), target="cpu", rules=[])
    assert bare.without("fusion").rules == bare.rules == ()


def test_a_family_that_is_none_is_refused(run: Exploration) -> None:
    with pytest.raises(EqsatError) as error:
        run.without("fusions")
    assert error.value.kind is Kind.INVALID_OPTION


def test_an_explorer_is_stepped_by_hand() -> None:
    explorer = Explorer(graphs.gemm_bias_relu(), target="cpu")
    assert explorer.alternatives("n8") == ["Σ[i2<8] n7   (as it was loaded)"]
    first = explorer.step(2)
    assert [(iteration.phase, iteration.iteration) for iteration in first] == [(0, 0), (0, 1)]
    rest = explorer.phase()
    assert {iteration.phase for iteration in rest} == {0}
    assert {iteration.phase for iteration in explorer.phase()} == {1}
    run = explorer.finish()
    assert list(run.iterations[: len(first) + len(rest)]) == first + rest
    assert any("sum_of_products" in line for line in explorer.alternatives("n8"))
    assert explorer.step() == []
    assert explorer.phase() == []
    with pytest.raises(EqsatError, match="no uop 'q'"):
        explorer.alternatives("q")


def test_constants_and_dims_are_those_of_the_compiler() -> None:
    x, w = t.input("x", (8, 40)), t.constant(np.ones((40, 24), np.float32))
    run = explore((x @ w).relu())
    assert len(run.kernels) == 1
    assert "contract" in run.chain(0).end
    with pytest.raises(EqsatError, match="M"):
        explore({"uops": [{"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": ["M"]}}]})


def test_a_program_that_computes_nothing() -> None:
    tiny = graphs.Tiny()
    run = explore(tiny.graph(tiny.input("x", 3)))
    assert run.kernels == ()
    assert "0 after" in str(run)


def test_curves_are_scaled_and_thinned() -> None:
    assert bars([0, 4, 8]) == " ▄█"
    assert len(bars(list(range(1000)))) <= 60
    assert bars([0, 0]) == "  "


@pytest.mark.parametrize("with_dot", [True, False])
def test_layouts_put_readers_below_and_nothing_over_another(with_dot: bool) -> None:
    graph = graphs.encoder(1, length=4, width=8, heads=2)
    sizes = {node.id: (60.0 + 7 * (place % 5), 24.0) for place, node in enumerate(graph.nodes)}
    edges = [(ref, node.id) for node in graph.nodes for ref in node.refs]
    result = layout(sizes, edges, with_dot)
    for a, b in edges:
        assert result.centres[a][1] < result.centres[b][1]
        if a != b:
            assert (a, b) in result.routes
    nodes = list(sizes)
    for place, one in enumerate(nodes):
        x, y = result.centres[one]
        assert x - sizes[one][0] / 2 >= -1
        assert x + sizes[one][0] / 2 <= result.width + 1
        assert 0 <= y <= result.height
        for other in nodes[:place]:
            u, v = result.centres[other]
            apart = abs(x - u) * 2 >= sizes[one][0] + sizes[other][0] - 1 or abs(y - v) >= 23
            assert apart, (one, other)


def test_layouts_are_the_same_again() -> None:
    sizes = dict.fromkeys("abcd", (10.0, 10.0))
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "b")]
    assert lay_out(sizes, edges) == lay_out(sizes, edges)
    assert lay_out({}, []).width > 0


def test_the_page_cannot_be_written_everywhere(run: Exploration, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EqsatError, match="cannot write"):
        run.html(tmp_path / "file" / "page.html")
