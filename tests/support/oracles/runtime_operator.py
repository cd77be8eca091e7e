"""One operator of onnxruntime's own domain, run by eqsat's playback and by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

from eqsat.model import read_model
from ir.tiny.playback import playback

Arrays = dict[str, np.ndarray]


def run_both(op: str, inputs: Arrays, attrs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The result of eqsat's playback, and that of onnxruntime. Scales and zero points are constants."""
    node = helper.make_node(op, list(inputs), ["y"], domain="com.microsoft", **attrs)
    constants = {name: np.asarray(array) for name, array in inputs.items() if name.endswith(("_scale", "_zero"))}
    inputs = {name: array for name, array in inputs.items() if name not in constants}
    described = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "g", described, [helper.make_empty_tensor_value_info("y")], initializers)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, inputs)
    bound = read_model(model).bind({}, True)
    (actual,) = playback(bound.graph, {**inputs, **bound.constants})
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    return actual, expected
