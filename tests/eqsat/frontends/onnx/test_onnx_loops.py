"""Recurrent networks and loops of many steps: one loop each, with the results of onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from eqsat import optimize_and_compile
from eqsat.model import read_model
from ir.diagnostics import EqsatError, Kind
from ir.tiny.graph import Graph
from ir.tiny.playback import playback

RNG = np.random.default_rng(5)
STEPS, BATCH, WIDTH, HIDDEN = 20, 3, 4, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LENGTHS = np.array([STEPS, 1, 7], np.int32)
Arrays = dict[str, np.ndarray]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def model_of(nodes: Sequence[Any], inputs: Arrays, outputs: dict[str, int], constants: Sequence[str] = ()) -> bytes:
    """A model of these nodes. outputs: their dtypes. constants: the inputs that are initializers."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
        if name not in constants
    ]
    results = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()]
    held = [
        helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(inputs[name].dtype), inputs[name].shape, inputs[name])
        for name in constants
    ]
    graph = helper.make_graph(list(nodes), "model", infos, results, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


def both(model: bytes, inputs: Arrays) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray], Graph]:
    """The results of the playback and of onnxruntime, and the graph."""
    loaded = read_model(model)
    bound = loaded.bind(loaded.infer({}), strict=False)
    outputs = playback(bound.graph, {**{name: inputs[name] for name in bound.signature}, **bound.constants})
    session = onnxruntime.InferenceSession(model)
    given = {buffer.name: inputs[buffer.name] for buffer in session.get_inputs()}
    return outputs, session.run(None, given), bound.graph


def count_loops(graph: Graph) -> int:
    return len({(node.src, node.arg.with_(result=0)) for node in graph.nodes if node.uop == "LOOP"})


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("operator", "extra", "attributes"),
    [
        ("RNN", ("b", "h"), {}),
        ("RNN", ("lengths",), {"clip": 0.3}),
        ("GRU", ("b", "lengths", "h"), {}),
        ("GRU", ("b",), {"linear_before_reset": 1}),
        ("LSTM", (), {}),
        ("LSTM", ("b", "lengths", "h", "c", "p"), {}),
        ("LSTM", ("b", "p"), {"clip": 0.5, "input_forget": 1}),
    ],
)
def test_recurrent_networks_are_loops(
    operator: str, extra: tuple[str, ...], attributes: dict[str, Any], direction: str
) -> None:
    ways, gates = 2 if direction == "bidirectional" else 1, GATES[operator]
    arrays = {
        "x": normal(STEPS, BATCH, WIDTH),
        "w": normal(ways, gates * HIDDEN, WIDTH) / 2,
        "r": normal(ways, gates * HIDDEN, HIDDEN) / 2,
        "b": normal(ways, 2 * gates * HIDDEN),
        "lengths": LENGTHS,
        "h": normal(ways, BATCH, HIDDEN),
        "c": normal(ways, BATCH, HIDDEN),
        "p": normal(ways, 3 * HIDDEN),
    }
    known = ["x", "w", "r", "b", "lengths", "h", *(["c", "p"] if operator == "LSTM" else [])]
    used = {name: arrays[name] for name in known if name in ("x", "w", "r", *extra)}
    outputs = dict.fromkeys(["y", "yh", *(["yc"] if operator == "LSTM" else [])], TensorProto.FLOAT)
    names = [name if name in used else "" for name in known]
    node = helper.make_node(operator, names, list(outputs), hidden_size=HIDDEN, direction=direction, **attributes)
    actual, wanted, graph = both(model_of([node], used, outputs, ("w", "r")), used)
    for got, value in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)
    assert count_loops(graph) == ways


F, N, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def body_of(nodes: Sequence[Any], inputs: dict[str, int], outputs: dict[str, int]) -> Any:
    infos = [
        [helper.make_tensor_value_info(name, dtype, () if dtype in (N, B) else None) for name, dtype in names.items()]
        for names in (inputs, outputs)
    ]
    return helper.make_graph(list(nodes), "body", *infos)


def node(op: str, inputs: list[str], *outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs, outputs, **attributes)


def loop_model(nodes: Sequence[Any], trips: int, state: np.ndarray) -> tuple[bytes, Arrays]:
    """A Loop with one state `s` → `t`, a stacked output `o`, and the matrix `w` from outside."""
    body = body_of(nodes, {"i": N, "c": B, "s": F}, {"d": B, "t": F, "o": F})
    inputs = {"m": np.array(trips), "k": np.array(True), "s0": state, "w": normal(4, 4) / 3}
    whole = [node("Loop", ["m", "k", "s0"], "last", "all", body=body)]
    return model_of(whole, inputs, {"last": F, "all": F}, ("m", "k")), inputs


STEADY = [node("Identity", ["c"], "d")]


@pytest.mark.slow
def test_long_loops_are_loops() -> None:
    nodes = [
        *STEADY,
        node("MatMul", ["s", "w"], "p"),
        node("Cast", ["i"], "n", to=F),
        node("Add", ["p", "n"], "q"),
        node("Tanh", ["q"], "t"),
        node("Relu", ["t"], "o"),
    ]
    model, inputs = loop_model(nodes, 300, normal(2, 4))
    actual, wanted, graph = both(model, inputs)
    for got, value in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)
    assert count_loops(graph) == 1
    assert len(graph.nodes) < 40
    program = optimize_and_compile(model, threads=1, cache=False)
    program.verify()


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Constant", [], "four", value_int=4), node("Less", ["i", "four"], "d"), node("Relu", ["s"], "t")],
        [*STEADY, node("Concat", ["s", "s"], "t", axis=0)],
    ],
    ids=["condition", "shape"],
)
def test_loops_whose_trips_differ_are_unrolled(nodes: list[Any]) -> None:
    """The condition depends on the number of the trip; a state grows."""
    model, inputs = loop_model([*nodes, node("ReduceSum", ["t"], "o", keepdims=0)], 6, normal(2, 4))
    actual, wanted, graph = both(model, inputs)
    for got, value in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-4)
    assert count_loops(graph) == 0


def test_a_long_loop_whose_condition_is_not_known_is_refused() -> None:
    nodes = [
        node("ReduceSum", ["s"], "z", keepdims=0),
        node("Less", ["z", "z"], "d"),
        node("Relu", ["s"], "t"),
        node("Relu", ["s"], "o"),
    ]
    model, _ = loop_model(nodes, 3, normal(2, 4))
    with pytest.raises(EqsatError, match="condition of the loop") as caught:
        read_model(model).bind({}, strict=False)
    assert caught.value.kind is Kind.UNSUPPORTED_OP


@pytest.mark.parametrize("directions", [(0, 0), (1, 1), (0, 1)])
@pytest.mark.parametrize("backwards", [0, 1])
def test_scans_run_along_any_axis_in_any_direction(directions: tuple[int, int], backwards: int) -> None:
    body = body_of(
        [
            node("Add", ["a", "b"], "e"),
            node("Mul", ["s", "e"], "p"),
            node("Tanh", ["p"], "t"),
            node("Relu", ["t"], "o"),
        ],
        {"s": F, "a": F, "b": F},
        {"t": F, "o": F},
    )
    inputs = {"s0": normal(4), "x": normal(9, 4), "y": normal(4, 9)}
    scan = node(
        *("Scan", ["s0", "x", "y"], "last", "all"),
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[0, 1],
        scan_input_directions=list(directions),
        scan_output_axes=[-1],
        scan_output_directions=[backwards],
    )
    actual, wanted, graph = both(model_of([scan], inputs, {"last": F, "all": F}), inputs)
    for got, value in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-6)
    assert count_loops(graph) == 1
