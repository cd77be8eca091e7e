"""Calls of named graphs, in Tiny JSON and text: what they compute, how their uops are named, and every mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat import optimize_and_compile
from eqsat.extraction.extract import extract
from eqsat.model import read_model
from ir.diagnostics import EqsatError, Kind
from ir.tiny.bind import bind, load
from ir.tiny.check_calls import MAX_DEPTH
from ir.tiny.graph import verify
from ir.tiny.parse import parse
from ir.tiny.playback import playback
from tests.support.programs.calls import LINEAR, TWO_LAYERS
from tests.support.stages.approximate import ApproximatePricer, saturated

JSON: dict[str, Any] = {
    "graphs": {
        "twice": {
            "uops": [
                {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": ["n"]}},
                {"id": "y", "uop": "ADD", "src": ["x", "x"]},
                {"id": "z", "uop": "MUL", "src": ["y", "x"]},
            ],
            "outputs": ["y", "z"],
        }
    },
    "uops": [
        {"id": "v", "uop": "INPUT", "arg": {"tensor_id": "v", "dtype": "fp32", "shape": [4]}},
        {"id": ["a", "b"], "uop": "CALL", "src": ["v"], "arg": {"graph": "twice"}, "tag": "a remark"},
        {"id": "c", "uop": "SUB", "src": ["b", "a"]},
    ],
}


def bad(program: Any, **dims: int) -> str:
    with pytest.raises(EqsatError) as caught:
        load(program, dims)
    return str(caught.value)


def test_calls_compute_what_their_graphs_do() -> None:
    graph, _ = load(TWO_LAYERS, {"batch": 4})
    verify(graph)
    rng = np.random.default_rng(0)
    x, w, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 3), (3, 3), (3, 5)))
    two, before = playback(graph, {"x": x, "w": w, "v": v})
    np.testing.assert_allclose(before, x @ w, rtol=1e-5)
    np.testing.assert_allclose(two, np.maximum(x @ w, 0) @ v, rtol=1e-5)
    assert load(str(graph))[0] == graph


def test_uops_are_named_below_their_call() -> None:
    graph, _ = load(TWO_LAYERS, {"batch": 4})
    ids = [node.id for node in graph.nodes]
    assert ids[3:11] == [*(f"one/h/{name}" for name in "alt"), "one/h/b", "one/h/r", "one/h/p", "before", "one"]
    assert ids[11:] == ["two/a", "two/l", "two/t", "two/b", "two/r", "two/p", "two"]
    assert graph.outputs == ("two", "before")


def test_names_of_axes_are_the_graph_s_own() -> None:
    graph, _ = load(TWO_LAYERS, {"batch": 4})
    assert str(graph.types["two"]) == "fp32[batch=4, 5]"
    assert not any("names" in node.arg for node in graph.nodes if "/" in node.id)


def test_programs_with_calls_read_back() -> None:
    for source in (parse(TWO_LAYERS), parse(JSON)):
        assert parse(str(source)) == source
        assert parse(source.to_json()) == source
        assert str(parse(str(source))) == str(source)
    assert bind(parse(str(parse(JSON))))[0] == load(JSON)[0]


def test_calls_in_json() -> None:
    graph, _ = load(JSON)
    assert [node.id for node in graph.nodes] == ["v", "a", "b", "c"]
    v = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(playback(graph, {"v": v})[0], 2 * v * v - 2 * v)


def test_graphs_are_for_operands_of_any_size() -> None:
    text = "graph @f(%x: fp32[n]) {\n %y: fp32[] = reduce(%x, axes=[n], op=SUM)\n return %y\n}\n"
    text += "%u: fp32[2] = input()\n%v: fp32[3] = input()\n%a = call @f(%u)\n%b = call @f(%v)\n%c = add(%a, %b)"
    (result,) = playback(load(text)[0], {"u": np.ones(2, np.float32), "v": np.ones(3, np.float32)})
    assert result == 5


def test_other_symbols_are_the_program_s() -> None:
    text = "graph @f(%x: fp32[n]) { %y = reshape(%x, result_shape=[heads, width]) return %y }\n"
    text += "%x: fp32[12] = input()\n%y = call @f(%x)\nreturn %y"
    assert parse(text).symbols == ("heads", "width")
    assert load(text, {"heads": 3, "width": 4})[0].types["y"].shape == (3, 4)
    assert load(f"dims heads=2\n{text}")[0].types["y"].shape == (2, 6)
    assert "no size is given for heads" in bad(text)
    program = optimize_and_compile(text, dims={"heads": 3}, threads=1)
    assert program(np.zeros(12, np.float32)).shape == (3, 4)


def test_sizes_of_calls_may_wait_for_the_sizes_of_the_program() -> None:
    text = "graph @f(%x: fp32[n, m]) { %y = neg(%x) return %y }\n"
    text += "%x: fp32[6] = input()\n%r = reshape(%x, result_shape=[p, 2])\n%y: fp32[q, 2] = call @f(%r)\n"
    text += "%z = reshape(%y, result_shape=[2, q])"
    assert load(text)[0].types["z"].shape == (2, 3)


def test_results_may_be_operands_or_one_value() -> None:
    text = "graph @f(%x: fp32[n]) { %y = neg(%x) return %y, %x, %y }\n%x: fp32[2] = input()\n"
    text += "%a, %b, %c = call @f(%x)\n%d = add(%b, %c)\nreturn %a, %b, %c, %d"
    graph, _ = load(text)
    assert graph.outputs == ("a", "x", "a", "d")
    assert [name for name, _ in read_model(text).bind({}, strict=False).outputs] == ["a", "b", "c", "d"]
    program = optimize_and_compile(text, threads=1)
    assert list(program.output_names) == ["a", "b", "c", "d"]
    a, b, c, d = program(np.ones(2, np.float32))
    assert (a[0], b[0], c[0], d[0]) == (-1, 1, -1, 0)


def test_ids_that_are_taken_are_not_taken_again() -> None:
    text = 'graph @f(%x: fp32[n]) { %h = neg(%x) %y = abs(%h) return %y }\n%x: fp32[2] = input()\n%"a/h" = exp(%x)\n'
    graph, _ = load(text + "%a = call @f(%a/h)\nreturn %a")
    assert [node.id for node in graph.nodes] == ["x", "a/h", "a/h_2", "a"]


def test_main_may_be_a_graph() -> None:
    text = "graph @f(%x: fp32[n]) { %y = neg(%x) return %y }\n"
    text += "graph @main(%x: fp32[n, 2]) {\n  dims n=3\n  %y = neg(%x)\n  return %y\n}"
    assert load(text)[0].types["y"].shape == (3, 2)


def test_notes_on_a_graph_come_once() -> None:
    text = "graph @f(%x: fp32[n, 3], %b: fp32[3]) { %y = add(%x, %b) return %y }\n"
    text += "%x: fp32[2, 3] = input()\n%b: fp32[3] = input()\n%a = call @f(%x, %b)\n%c = call @f(%a, %b)"
    graph, notes = load(text)
    assert {note.at for note in notes} == {"a/y"}
    assert {"a/b.reshape", "c/b.reshape"} <= graph.types.keys()
    with pytest.raises(EqsatError, match="`a/y`"):
        load(text, strict=True)


X = "%x: fp32[4, 3] = input()\n"
F = "graph @f(%x: fp32[n, 3]) { %y = neg(%x) return %y }\n"
MISTAKES: dict[str, tuple[str, str]] = {
    "an unknown graph": (F + X + "%y = call @ff(%x)", "did you mean @f?"),
    "no graph": (X + "%y = call @f(%x)", "the graphs are: none"),
    "too few operands": (F + X + "%y = call @f()", "@f takes 1 operand, found 0"),
    "too many operands": (F + X + "%y = call @f(%x, %x)", "@f takes 1 operand, found 2"),
    "too many results": (F + X + "%y, %z = call @f(%x)", "@f returns 1 value, the call has 2"),
    "an immediate": (F + X + "%y = call @f(1.0)", "make a scalar first"),
    "an attribute": (F + X + "%y = call @f(%x, axis=0)", "expected a value"),
    "another dtype": (F + X + "%h: fp16[4, 3] = cast(%x)\n%y = call @f(%h)", "takes fp32, found fp16"),
    "another rank": (F + "%x: fp32[3] = input()\n%y = call @f(%x)", "the parameter 'x' has another shape"),
    "another size": (F + "%x: fp32[4, 5] = input()\n%y = call @f(%x)", "expected = [n, 3]"),
    "two sizes of a symbol": (
        "graph @f(%x: fp32[n], %y: fp32[n]) { %z = add(%x, %y) return %z }\n%x: fp32[2] = input()\n"
        "%y: fp32[3] = input()\n%z = call @f(%x, %y)",
        "n is 2 and 3",
    ),
    "a graph that calls itself": ("graph @f(%x: fp32[n]) { %y = call @f(%x) return %y }\n" + X, "calls = [@f, @f]"),
    "graphs that call each other": (
        "graph @f(%x: fp32[n]) { %y = call @g(%x) return %y }\ngraph @g(%x: fp32[n]) { %y = call @h(%x) return %y }\n"
        "graph @h(%x: fp32[n]) { %y = call @g(%x) return %y }\n" + X + "%y = call @f(%x)",
        "calls = [@h, @g, @h]",
    ),
    "a call of the program": ("graph @main(%x: fp32[4]) { %y = call @main(%x) return %y }", "no graph @main"),
    "two graphs of one name": (F + F + X, "there are two graphs @f"),
    "graphs without a program": (F, "there are graphs, but no program that calls them"),
    "uops beside main": ("graph @main(%x: fp32[4]) { %y = neg(%x) return %y }\n" + X, "in `graph @main`"),
    "main beside uops": (X + "graph @main(%x: fp32[4]) { %y = neg(%x) return %y }", "uops outside of graphs"),
    "a graph without return": ("graph @f(%x: fp32[n]) { %y = neg(%x) }\n" + X, "expected `return` at the end of @f"),
    "a graph that is not closed": ("graph @f(%x: fp32[n]) { %y = neg(%x) return %y", "expected `}` at the end of @f"),
    "a graph without a name": ("graph (%x: fp32[n]) { %y = neg(%x) return %y }", "expected the graph's name"),
    "a parameter without a type": ("graph @f(%x) { %y = neg(%x) return %y }", "`:` and the parameter's type"),
    "a value of the caller": ("graph @f(%x: fp32[n]) { %y = add(%x, %z) return %y }\n" + X, "no uop defines %z"),
    "a mistake in a graph": (
        "graph @f(%x: fp32[n]) {\n %y: fp32[2] = reshape(%x)\n return %y\n}\n%x: fp32[4] = input()\n%z = call @f(%x)",
        "line = 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str) -> None:
    text, says = MISTAKES[mistake]
    said = bad(text)
    assert says in said, said
    assert "calls" in said or "line = " in said, said


def test_a_mistake_in_a_graph_names_the_call_and_the_uop() -> None:
    said = bad(MISTAKES["a mistake in a graph"][0])
    assert "at Movement(reshape) `z/y`" in said
    assert "calls = [@f]" in said


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"graphs": [1]}, "`graphs` is an object"),
        ({"graphs": {"twice": 3}}, "a graph is an object"),
        ({"graphs": {"twice": {"uops": [], "graphs": {}}}}, "a graph has no key 'graphs'"),
        ({"graphs": {"main": {"uops": []}}}, "@main is the program itself"),
        ({"uops": [{"id": "a", "uop": "CALL", "src": []}]}, "a CALL has one attribute"),
        ({"uops": [{"id": [], "uop": "CALL", "arg": {"graph": "twice"}}]}, "[] is no id"),
        ({"uops": [{"id": "a", "uop": "CALL", "src": [1.0], "arg": {"graph": "twice"}}]}, "1.0 is no id"),
        ({"uops": [{**JSON["uops"][0], "type": {"dtype": "fp32"}}]}, "`type` states no type"),
        ({"uops": [{**JSON["uops"][0], "type": []}]}, "another number of types"),
    ],
)
def test_mistakes_in_json(change: dict[str, Any], says: str) -> None:
    assert says in bad({**JSON, **change})


def test_calls_do_not_explode() -> None:
    """A chain of graphs, each of which calls the one before twice."""
    text = "graph @f0(%x: fp32[n]) { %y = neg(%x) return %y }\n"
    for level in range(1, 60):
        text += (
            f"graph @f{level}(%x: fp32[n]) {{ %h = call @f{level - 1}(%x) %y = call @f{level - 1}(%h) return %y }}\n"
        )
    with pytest.raises(EqsatError) as caught:
        load(text + "%x: fp32[2] = input()\n%y = call @f59(%x)")
    assert caught.value.kind is Kind.RESOURCE_EXCEEDED
    assert "1,000,000 uops" in str(caught.value)


@pytest.mark.slow
def test_calls_may_be_deep_but_not_too_deep() -> None:
    def chain(levels: int) -> str:
        text = "graph @f0(%x: fp32[n]) { %y = neg(%x) return %y }\n"
        for level in range(1, levels):
            text += f"graph @f{level}(%x: fp32[n]) {{ %y = call @f{level - 1}(%x) return %y }}\n"
        return text + f"%x: fp32[2] = input()\n%y = call @f{levels - 1}(%x)"

    assert len(load(chain(MAX_DEPTH))[0].nodes) == 2
    assert "nested deeper than 64" in bad(chain(MAX_DEPTH + 1))
    assert "nested deeper than 64" in bad(chain(3000))


def test_reports_name_the_call() -> None:
    text = (
        "graph @f(%x: fp32[n, m]) { %e = exp(%x) %s: fp32[n] = reduce(%e, axes=[m], op=SUM) %y = log(%s) return %y }\n"
    )
    program = optimize_and_compile(text + "%x: fp32[4, 8] = input()\n%layer1 = call @f(%x)", threads=1)
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_allclose(program(x), np.log(np.exp(x).sum(1)), rtol=1e-5)
    (kernel,) = program.kernels
    assert set(kernel.uops) == {"layer1/e", "layer1/s", "layer1"}
    assert "layer1/e" in str(program.explain())


def test_twelve_calls_are_priced_as_one() -> None:
    """The pricer is asked about the block's kernels once, and one region serves all calls."""

    def layers(count: int) -> str:
        text = LINEAR + "%x0: fp32[16, 16] = input()\n"
        for layer in range(count):
            text += f"%w{layer}: fp32[16, 16] = input()\n"
            text += f"%x{layer + 1}, %h{layer} = call @block(%x{layer}, %w{layer})\n"
        return text + f"return %x{count}"

    asked = {}
    for count in (1, 2, 12):
        graph, view = saturated(layers(count))
        pricer = ApproximatePricer()
        cover = extract(view, graph.outputs, pricer)
        assert len(cover.kernels) == count
        assert len({id(kernel.region) for kernel in cover.kernels}) == 1
        asked[count] = pricer.calls
    assert asked[12] <= asked[2] + 2 <= asked[1] + 4, asked


def test_twelve_calls_are_compiled_once() -> None:
    text = LINEAR + "%x0: fp32[16, 16] = input()\n"
    for layer in range(12):
        text += f"%w{layer}: fp32[16, 16] = input()\n%x{layer + 1}, %h{layer} = call @block(%x{layer}, %w{layer})\n"
    program = optimize_and_compile(text + "return %x12", threads=1, cache=False)
    assert len(program.kernels) == 12
    assert len(program.dump("region", as_json=True)) == 1
    assert len(program.dump("cpu", as_json=True)) == 1
