"""LOOP in Tiny IR: its types, its meaning, its text and JSON, and mistakes in it."""

from typing import Any

import numpy as np
import pytest

from ir.diagnostics import EqsatError, Kind
from ir.tiny.bind import load
from ir.tiny.parse import parse
from ir.tiny.playback import playback
from ir.tiny.tf32 import summed_products, to_tf32

STEP = """
graph @step(%h: fp32[n], %x: fp32[n], %w: fp32[n]) {
  %a = mul(%h, %w)
  %b = add(%a, %x)
  return %b, %a
}
"""
MAIN = """
%h: fp32[4] = input()
%xs: fp32[5, 4] = input()
%w: fp32[4] = input()
"""
LOOPS = """
%last = loop(%h, %xs, %w, graph=step, states=1, scanned=1, result=0{more})
%all: fp32[5, 4] = loop(%h, %xs, %w, graph=step, states=1, scanned=1, result=1{more})
return %last, %all
"""
RNG = np.random.default_rng(3)
INPUTS = {name: RNG.standard_normal(shape).astype("f") for name, shape in (("h", 4), ("xs", (5, 4)), ("w", 4))}


def program(main: str, step: str = STEP) -> str:
    return step + MAIN + main


def expected(reverse: bool) -> tuple[Any, Any]:
    h, actual = INPUTS["h"], np.empty((5, 4), np.float32)
    for trip in range(4, -1, -1) if reverse else range(5):
        actual[trip] = h * INPUTS["w"]
        h = actual[trip] + INPUTS["xs"][trip]
    return h, actual


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_is_its_steps(reverse: bool) -> None:
    graph, _ = load(program(LOOPS.format(more=", reverse=true" if reverse else "")))
    for got, wanted in zip(playback(graph, INPUTS), expected(reverse), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_text_and_json_read_back_to_an_equal_program() -> None:
    graph, _ = load(program(LOOPS.format(more=", trips=5")))
    assert load(str(graph))[0] == graph
    assert load(graph.to_json())[0] == graph
    source = parse(program(LOOPS.format(more="")))
    assert parse(str(source)) == source
    assert parse(source.to_json()) == source


def test_one_graph_is_bound_at_the_sizes_of_each_loop() -> None:
    text = """
    graph @grow(%h: fp32[n]) {
      %a = add(%h, %h)
      return %a
    }
    %x: fp32[2] = input()
    %y: fp32[3] = input()
    %a = loop(%x, graph=grow, states=1, scanned=0, result=0, trips=steps)
    %b = loop(%y, graph=grow, states=1, scanned=0, result=0, trips=3)
    return %a, %b
    """
    graph, _ = load(text, {"steps": 2})
    assert "graph @grow_2(" in str(graph)
    assert load(str(graph))[0] == graph
    a, b = playback(graph, {"x": np.ones(2, "f"), "y": np.ones(3, "f")})
    assert (a.tolist(), b.tolist()) == ([4, 4], [8, 8, 8])


def test_loops_are_inside_each_other_and_calls_reach_them() -> None:
    text = """
    graph @double(%h: i32[]) {
      %a = add(%h, %h)
      return %a
    }
    graph @outer(%h: i32[]) {
      %a = loop(%h, graph=double, states=1, scanned=0, result=0, trips=3)
      %b = add(%a, 1)
      return %b
    }
    graph @whole(%h: i32[]) {
      %a = loop(%h, graph=outer, states=1, scanned=0, result=0, trips=2)
      return %a
    }
    %x: i32[] = input()
    %y = call @whole(%x)
    """
    graph, _ = load(text)
    assert load(str(graph))[0] == graph
    assert playback(graph, {"x": np.array(1, "i4")})[0] == (8 + 1) * 8 + 1


@pytest.mark.parametrize(
    ("operands", "attributes", "kind", "part"),
    [
        ("%h, %xs, %w", "graph=steps, states=1, scanned=1", Kind.MALFORMED_GRAPH, "did you mean @step"),
        ("%h, %xs", "graph=step, states=1, scanned=1", Kind.MALFORMED_GRAPH, "takes 3 operands"),
        ("%h, %xs, %w", "graph=step, states=3, scanned=1", Kind.MALFORMED_GRAPH, "3 states and 1"),
        ("%h, %w, %w", "graph=step, states=1, scanned=0", Kind.MALFORMED_GRAPH, "how often"),
        ("%h, %xs, %w", "graph=step, states=1, scanned=1, trips=6", Kind.AXIS_SIZE_MISMATCH, "one first size"),
        ("%h, %w, %w", "graph=step, states=1, scanned=0, trips=0", Kind.MALFORMED_GRAPH, "at least one trip"),
        ("%h, %xs, 1.0", "graph=step, states=1, scanned=1", Kind.MALFORMED_GRAPH, "no immediate"),
        ("%h, %xs, %w", "graph=step, states=-1, scanned=1", Kind.MALFORMED_GRAPH, "number of values"),
        ("%h, %xs, %w", "graph=step, states=1, scanned=1, reverse=2", Kind.MALFORMED_GRAPH, "true or false"),
    ],
)
def test_mistakes_are_told(operands: str, attributes: str, kind: Kind, part: str) -> None:
    with pytest.raises(EqsatError) as caught:
        load(program(f"%y = loop({operands}, {attributes}, result=0)"))
    assert (caught.value.kind, part in str(caught.value)) == (kind, True), str(caught.value)
    assert "line" in caught.value.diagnostics[0].details


def test_a_result_that_is_not_there_is_told() -> None:
    with pytest.raises(EqsatError, match="no result 2"):
        load(program("%y = loop(%h, %xs, %w, graph=step, states=1, scanned=1, result=2)"))


def test_a_state_keeps_its_type() -> None:
    step = "graph @step(%h: fp32[n], %x: fp32[n], %w: fp32[n]) {\n %a = cast(%h, to=fp64)\n return %a, %x\n}\n"
    with pytest.raises(EqsatError, match="state 0 is fp32") as caught:
        load(program(LOOPS.format(more=""), step))
    assert caught.value.kind is Kind.DTYPE_MISMATCH


def test_a_graph_that_loops_over_itself_is_refused() -> None:
    loop = "loop(%h, graph=step, states=1, scanned=0, result=0, trips=2)"
    step = f"graph @step(%h: fp32[4]) {{\n %a = {loop}\n return %a\n}}\n"
    with pytest.raises(EqsatError, match="calls itself"):
        load(program(f"%y = {loop}", step))


def test_an_unknown_size_of_a_graph_is_named() -> None:
    step = "graph @step(%h: fp32[4]) {\n %a = iota(shape=[m], axis=0, dtype=fp32)\n return %h, %a\n}\n"
    with pytest.raises(EqsatError) as caught:
        load(program("%y = loop(%h, graph=step, states=1, scanned=0, result=1, trips=2)", step))
    assert caught.value.kind is Kind.UNBOUND_DIM
    assert caught.value.diagnostics[0].details["missing"] == ("m",)


def test_products_in_loops_round_to_tf32_where_tensor_cores_do() -> None:
    text = """
    graph @step(%h: fp32[n], %w: fp32[n, n]) {
      %a = reshape(%h, result_shape=[1, n])
      %b: fp32[n, n] = expand(%a)
      %c = mul(%b, %w)
      %d: fp32[n] = reduce(%c, axes=[1], op=SUM)
      return %d
    }
    %h: fp32[4] = input()
    %w: fp32[4, 4] = input()
    %y = loop(%h, %w, graph=step, states=1, scanned=0, result=0, trips=2)
    """
    graph, _ = load(text)
    inputs = {"h": RNG.standard_normal(4).astype("f"), "w": RNG.standard_normal((4, 4)).astype("f")}
    state = inputs["h"]
    for _ in range(2):
        state = (to_tf32(state) * to_tf32(inputs["w"])).sum(1)
    assert summed_products(graph) == {"y"}
    np.testing.assert_allclose(playback(graph, inputs, tf32=summed_products(graph))[0], state, rtol=1e-6)
    assert not np.array_equal(playback(graph, inputs)[0], state)
