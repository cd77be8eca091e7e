"""Playback: rounding at every uop, the same values whole or in slabs, an answer for every valid graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.tiny import playback as tiny_playback
from ir.tiny.graph import Graph, Imm, Node
from ir.tiny.playback import playback, values
from ir.uop.table import Arg
from tests.support.fuzz.strategies import random_graph, random_inputs, tiny_graphs


def product_sum(shape: tuple[int, ...], axes: tuple[int, ...], op: str = "SUM", dtype: str = "fp32") -> Graph:
    return Graph.build(
        [
            Node("a", "INPUT", (), Arg(tensor_id="A", dtype=dtype, shape=shape)),
            Node("m", "MUL", ("a", "a")),
            Node("s", "REDUCE", ("m",), Arg(op=op, axes=axes, dtype="fp32")),
        ]
    )


def equal(a: Any, b: Any) -> None:
    np.testing.assert_array_equal(a.astype(float), b.astype(float))


@settings(max_examples=80, deadline=None)
@given(tiny_graphs(), st.integers(0, 2**31), st.booleans(), st.booleans())
def test_every_value_has_the_type_it_was_given(graph: Graph, seed: int, specials: bool, wide: bool) -> None:
    inputs = random_inputs(graph, np.random.default_rng(seed), specials)
    result = values(graph, inputs, wide)
    assert set(result) == set(graph.types)
    for ref, array in result.items():
        type_ = graph.types[ref]
        assert array.shape == type_.shape
        assert array.dtype == (np.float64 if wide and type_.dtype.is_float else type_.dtype.numpy)
    for ref, output in zip(graph.outputs, playback(graph, inputs, wide), strict=True):
        equal(output, result[ref])


@pytest.mark.parametrize("axes", [(2,), (0,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("op", ["SUM", "MAX"])
def test_slabs_change_nothing(axes: tuple[int, ...], op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = product_sum((5, 7, 9), axes, op, "fp16")
    inputs = random_inputs(graph, np.random.default_rng(0))
    (whole,) = playback(graph, inputs)
    monkeypatch.setattr(tiny_playback, "SLAB", 20)
    (cut,) = playback(graph, inputs)
    np.testing.assert_allclose(cut, whole, rtol=1e-6)


@pytest.mark.slow
def test_random_graphs_play_alike_in_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_playback, "SLAB", 3)
    for seed in range(150):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, 14)
        inputs = random_inputs(graph, rng)
        result = values(graph, inputs)
        for ref, output in zip(graph.outputs, playback(graph, inputs), strict=True):
            np.testing.assert_allclose(
                output.astype(float), result[ref].astype(float), rtol=1e-5, atol=1e-5, err_msg=f"seed {seed}"
            )


def test_a_large_product_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    monkeypatch.setattr(tiny_playback, "SLAB", 2**14)
    n = 96
    graph = Graph.build(
        [
            Node("a", "INPUT", (), Arg(tensor_id="A", dtype="fp32", shape=(n, 1, n))),
            Node("b", "INPUT", (), Arg(tensor_id="B", dtype="fp32", shape=(1, n, n))),
            Node("a1", "EXPAND", ("a",), Arg(result_shape=(n, n, n))),
            Node("b1", "EXPAND", ("b",), Arg(result_shape=(n, n, n))),
            Node("m", "MUL", ("a1", "b1")),
            Node("s", "REDUCE", ("m",), Arg(op="SUM", axes=(2,), dtype="fp32")),
        ]
    )
    inputs = random_inputs(graph, np.random.default_rng(0))
    tracemalloc.start()
    (result,) = playback(graph, inputs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * n * n * 4 / 2
    np.testing.assert_allclose(result, inputs["A"][:, 0] @ inputs["B"][0].T, rtol=1e-4, atol=1e-4)


def test_every_uop_rounds() -> None:
    """1/3 in fp16, times 3: rounded twice it is 1 - 2⁻¹¹ rounded, in fp64 exactly 1."""
    graph = Graph.build(
        [
            Node("a", "INPUT", (), Arg(tensor_id="A", dtype="fp16", shape=(1,))),
            Node("t", "FDIV", ("a", Imm(49.0))),
            Node("y", "MUL", ("t", Imm(49.0))),
        ]
    )
    one = np.ones(1, np.float16)
    third = np.float16(np.float32(1) / np.float32(49))
    assert playback(graph, {"A": one})[0][0] == np.float16(np.float32(third) * np.float32(49))
    assert playback(graph, {"A": one})[0][0] != 1
    assert abs(playback(graph, {"A": one}, wide=True)[0][0] - 1) < 1e-15


def test_immediates_take_the_dtype_beside_them() -> None:
    graph = Graph.build(
        [
            Node("a", "INPUT", (), Arg(tensor_id="A", dtype="fp16", shape=(2,))),
            Node("c", "CMPGT", ("a", Imm(0.1))),
            Node("w", "WHERE", ("c", Imm(1), "a")),
            Node("k", "WHERE", ("c", Imm(7), Imm(-7))),
            Node("s", "CAST", (Imm(0.1),), Arg(to="fp16")),
        ]
    )
    tenth = np.float16(0.1)
    result = values(graph, {"A": np.array([tenth, 0.5], np.float16)})
    assert result["c"].tolist() == [False, True]
    assert result["w"].tolist() == [tenth, 1]
    assert (result["k"].dtype.name, result["k"].tolist()) == ("int32", [-7, 7])
    assert (result["s"].shape, result["s"].dtype.name, result["s"].item()) == ((), "float16", tenth)


def test_a_softmax_row_of_minus_infinity_is_nan() -> None:
    graph = Graph.build(
        [
            Node("x", "INPUT", (), Arg(tensor_id="X", dtype="fp32", shape=(2, 3))),
            Node("m", "REDUCE", ("x",), Arg(op="MAX", axes=(1,), dtype="fp32")),
            Node("m1", "RESHAPE", ("m",), Arg(result_shape=(2, 1))),
            Node("m2", "EXPAND", ("m1",), Arg(result_shape=(2, 3))),
            Node("d", "SUB", ("x", "m2")),
            Node("e", "EXP", ("d",)),
            Node("z", "REDUCE", ("e",), Arg(op="SUM", axes=(1,), dtype="fp32")),
            Node("z1", "RESHAPE", ("z",), Arg(result_shape=(2, 1))),
            Node("z2", "EXPAND", ("z1",), Arg(result_shape=(2, 3))),
            Node("p", "FDIV", ("e", "z2")),
        ]
    )
    (p,) = playback(graph, {"X": np.array([[-np.inf] * 3, [0.0, 0.0, -np.inf]], np.float32)})
    assert np.isnan(p[0]).all()
    np.testing.assert_array_equal(p[1], [0.5, 0.5, 0])


def test_an_output_may_be_an_input_or_repeat() -> None:
    graph = Graph.build([Node("a", "INPUT", (), Arg(tensor_id="A", dtype="fp32", shape=(2,)))], ["a", "a"])
    a = np.ones(2, np.float32)
    for output in playback(graph, {"A": a}):
        np.testing.assert_array_equal(output, a)
