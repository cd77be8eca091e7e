"""One operator, by default of onnxruntime's own domain, run by eqsat's playback and by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

from eqsat.model import read_model
from ir.tiny.playback import playback

Arrays = dict[str, np.ndarray]


def run_both(
    op: str, operands: Mapping[str, np.ndarray | None], attrs: dict[str, Any], domain: str = "com.microsoft"
) -> tuple[np.ndarray, np.ndarray]:
    """The result of eqsat's playback, and that of onnxruntime. Scales, zero points and weights are constants. An
    operand that is None is left out."""
    names = [name if array is not None else "" for name, array in operands.items()]
    node = helper.make_node(op, names, ["y"], domain=domain, **attrs)
    given = {name: np.asarray(array) for name, array in operands.items() if array is not None}
    constants = {name: array for name, array in given.items() if name.endswith(("_scale", "_zero", "_weight"))}
    inputs = {name: array for name, array in given.items() if name not in constants}
    described = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "g", described, [helper.make_empty_tensor_value_info("y")], initializers)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    (expected,) = session.run(None, inputs)
    bound = read_model(model).bind({}, True)
    (actual,) = playback(bound.graph, {**inputs, **bound.constants})
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    return actual, expected
