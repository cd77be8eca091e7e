"""Activations of recurrent networks, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat import EqsatError, optimize_and_compile

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402 - after importorskip

STEPS, BATCH, INPUT, HIDDEN = 3, 2, 4, 5
X = np.random.default_rng(1).standard_normal((STEPS, BATCH, INPUT), dtype=np.float32)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def network(op: str, direction: str, **attributes: Any) -> Any:
    """A recurrent network with constant weights."""
    rng, directions = np.random.default_rng(0), 1 + (direction == "bidirectional")
    shapes = {"w": (directions, GATES[op] * HIDDEN, INPUT), "r": (directions, GATES[op] * HIDDEN, HIDDEN)}
    constants = [
        numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32), name) for name, shape in shapes.items()
    ]
    node = helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=HIDDEN, direction=direction, **attributes)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


CASES: list[tuple[str, str, list[str], list[float], list[float]]] = [
    ("RNN", "forward", ["Elu"], [0.5], []),
    ("RNN", "bidirectional", ["LeakyRelu", "Softplus"], [0.3], []),
    ("GRU", "forward", ["HardSigmoid", "ScaledTanh"], [0.3, 0.7], [0.4, 1.5]),
    ("LSTM", "reverse", ["HardSigmoid", "Softsign", "Tanh"], [], []),
    ("LSTM", "bidirectional", ["Sigmoid", "Tanh", "Affine", "HardSigmoid", "Relu", "Tanh"], [0.6, 0.25], [0.1, 0.6]),
]
"""Operator, direction, activations, and their numbers alpha and beta."""


@pytest.mark.parametrize(("op", "direction", "names", "alphas", "betas"), CASES)
def test_activations_are_onnxruntimes(
    op: str, direction: str, names: list[str], alphas: list[float], betas: list[float]
) -> None:
    lists = {"activations": names, "activation_alpha": alphas, "activation_beta": betas}
    model = network(op, direction, **{name: given for name, given in lists.items() if given})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(optimize_and_compile(model)(x=X), session.run(None, {"x": X})[0], 1e-4, 1e-5)


def test_an_unknown_activation_is_refused_by_name() -> None:
    with pytest.raises(EqsatError, match="the activation Swoosh is not supported"):
        optimize_and_compile(network("RNN", "forward", activations=["Swoosh"]))
