"""Slices whose starts and ends lie beyond the axis, against onnxruntime."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from eqsat.frontends.onnx.operators.movements import slice_axes
from tests.eqsat.lazy.test_tensor import run

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper  # noqa: E402 - after importorskip

X = np.arange(6, dtype=np.float32).reshape(3, 2)
OPERANDS = ("start", "end", "axis", "step")


def test_slices_are_onnxruntimes() -> None:
    described = [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)]
    described += [helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in OPERANDS]
    node = helper.make_node("Slice", ["x", *OPERANDS], ["y"])
    graph = helper.make_graph([node], "g", described, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for start, end, step in itertools.product((-9, -3, -1, 0, 2, 9), (-9, -3, -1, 0, 2, 9), (-2, -1, 1, 2)):
        given = dict(zip(OPERANDS, ([start], [end], [0], [step]), strict=True))
        (expected,) = session.run(None, {"x": X, **{name: np.array(value) for name, value in given.items()}})
        got = run(lambda x, s=start, e=end, by=step: slice_axes(x, [s], [e], [0], [by]), X)
        np.testing.assert_array_equal(got, expected)
