"""ONNX's backend interface: models whose shapes depend on sizes, or on values, that only a call tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from eqsat import onnx_backend, optimize_and_compile
from ir.diagnostics import EqsatError, Kind

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def model_of(nodes: list[Any], *inputs: tuple[str, int, list[Any]]) -> Any:
    described = [helper.make_tensor_value_info(*buffer) for buffer in inputs]
    graph = helper.make_graph(nodes, "g", described, [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


def reshaped() -> Any:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Neg", ["r"], ["y"])]
    return model_of(nodes, ("x", TensorProto.FLOAT, [3, 4]), ("shape", TensorProto.INT64, [2]))


def test_a_shape_among_the_inputs_compiles_per_value() -> None:
    prepared = onnx_backend.prepare(reshaped())
    for shape in ([2, 6], [-1, 3], [2, 6]):
        (y,) = prepared.run([X, np.asarray(shape)])
        np.testing.assert_array_equal(y, -X.reshape(shape))
    assert len(prepared._programs) == 2


def test_without_its_value_the_input_is_named() -> None:
    with pytest.raises(EqsatError) as caught:
        optimize_and_compile(reshaped())
    assert caught.value.kind is Kind.UNSUPPORTED_OP
    assert "depends on the input shape" in str(caught.value)
    assert "constants={'shape': array}" in str(caught.value)
    program = optimize_and_compile(reshaped(), constants={"shape": np.asarray([6, 2])})
    np.testing.assert_array_equal(program(X), -X.reshape(6, 2))


def test_shapes_that_follow_from_free_sizes() -> None:
    """[n, m] → [m, n] by Shape, Slice and Concat, at each size."""
    nodes = [
        helper.make_node("Shape", ["x"], ["rows"], start=0, end=1),
        helper.make_node("Shape", ["x"], ["columns"], start=1),
        helper.make_node("Concat", ["columns", "rows"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    prepared = onnx_backend.prepare(model_of(nodes, ("x", TensorProto.FLOAT, ["n", "m"])))
    for shape in ((3, 4), (2, 6)):
        x = X.reshape(shape)
        np.testing.assert_array_equal(prepared.run({"x": x})[0], x.reshape(shape[::-1]))


def test_a_graph_in_an_attribute_reads_tensors_outside() -> None:
    """Σ over 3 trips of (sum + x · trip), where x belongs to the outer graph."""
    inner = [
        helper.make_node("Cast", ["trip"], ["t"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "t"], ["p"]),
        helper.make_node("Add", ["s", "p"], ["more"]),
        helper.make_node("Identity", ["go"], ["goes"]),
    ]
    kinds = [("trip", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("s", TensorProto.FLOAT, [3, 4])]
    body = helper.make_graph(
        inner,
        "body",
        [helper.make_tensor_value_info(*kind) for kind in kinds],
        [helper.make_empty_tensor_value_info(name) for name in ("goes", "more")],
    )
    nodes = [
        helper.make_node("Constant", [], ["three"], value_int=3),
        helper.make_node("Loop", ["three", "", "x"], ["y"], body=body),
    ]
    (y,) = onnx_backend.run_model(model_of(nodes, ("x", TensorProto.FLOAT, [3, 4])), [X])
    np.testing.assert_allclose(y, X * 4)


def test_what_is_no_device_and_what_is_not_supported() -> None:
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("TPU")
    nodes = [helper.make_node("Unique", ["x"], ["y"])]
    with pytest.raises(EqsatError) as caught:
        onnx_backend.run_model(model_of(nodes, ("x", TensorProto.FLOAT, [3, 4])), [X])
    assert "Unique" in str(caught.value)
