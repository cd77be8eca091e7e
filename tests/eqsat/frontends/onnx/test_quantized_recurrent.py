"""DynamicQuantizeLSTM, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from eqsat import optimize_and_compile
from ir.diagnostics import EqsatError, Kind
from tests.eqsat.frontends.onnx.test_onnx import Arrays, bind, by_onnxruntime, by_playback, model_of

RNG = np.random.default_rng(0)
NAMES = ("x", "w", "r", "b", "lengths", "h", "c", "p", "w_scale", "w_zero", "r_scale", "r_zero")


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32) / 2


def lstm(
    optional: str = "", dtype: str = "int8", directions: int = 1, by_gate: bool = False, **attrs: Any
) -> tuple[Any, Arrays]:
    """A model of 5 steps of 3 sequences with 5 inputs and 4 hidden units, and its arguments. Weights have 7 bits, since
    onnxruntime's sums of products saturate without VNNI. `optional` names the optional inputs by a letter each."""
    middle = 0 if dtype == "int8" else 128
    sizes = (directions, 16) if by_gate else (directions,)
    constants: dict[str, np.ndarray] = {}
    for name, depth in (("w", 5), ("r", 4)):
        constants[name] = RNG.integers(middle - 64, middle + 64, (directions, depth, 16)).astype(dtype)
        constants[f"{name}_scale"] = RNG.uniform(0.005, 0.015, sizes).astype(np.float32)
        constants[f"{name}_zero"] = np.full(sizes, middle).astype(dtype)
    given = {
        "b": normal(directions, 32),
        "lengths": np.asarray([5, 2, 4], np.int32),
        "h": normal(directions, 3, 4),
        "c": normal(directions, 3, 4),
        "p": normal(directions, 12),
    }
    inputs = {"x": normal(5, 3, 5), **{name: array for name, array in given.items() if name[0] in optional}}
    names = [name if name in constants or name in inputs else "" for name in NAMES]
    outputs = ("y", "last", "memory")
    node = helper.make_node("DynamicQuantizeLSTM", names, outputs, domain="com.microsoft", hidden_size=4, **attrs)
    model = model_of([node], inputs, outputs, constants)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model, inputs


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "unsigned, with states": {"optional": "bhc", "dtype": "uint8"},
    "scales by gate": {"optional": "b", "by_gate": True},
    "both directions, peepholes": {"optional": "bhcp", "directions": 2, "by_gate": True, "direction": "bidirectional"},
    "backwards": {"optional": "bp", "direction": "reverse"},
    "clipped": {"optional": "b", "clip": 0.4, "input_forget": 1},
    "other activations": {"optional": "b", "activations": ["Sigmoid", "Relu", "Tanh"]},
}


@pytest.mark.parametrize("name", CASES)
def test_steps_agree_with_onnxruntime(name: str) -> None:
    model, inputs = lstm(**CASES[name])
    for actual, expected in zip(by_playback(model, inputs), by_onnxruntime(model, inputs), strict=True):
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_sequences_of_several_lengths_agree_within_a_level() -> None:
    """onnxruntime leaves the states of sequences that have ended out of the range; here they count."""
    model, inputs = lstm("bl", directions=2, direction="bidirectional")
    for actual, expected in zip(by_playback(model, inputs), by_onnxruntime(model, inputs), strict=True):
        np.testing.assert_allclose(actual, expected, atol=5e-3)


@pytest.mark.slow
def test_a_compiled_lstm_agrees() -> None:
    model, inputs = lstm("bh")
    for actual, expected in zip(optimize_and_compile(model)(inputs), by_playback(model, inputs), strict=True):
        np.testing.assert_allclose(actual, expected, atol=5e-3)


def test_scales_of_another_number_are_refused_with_the_shapes() -> None:
    model, _ = lstm()
    scale = next(tensor for tensor in model.graph.initializer if tensor.name == "w_scale")
    scale.CopyFrom(helper.make_tensor("w_scale", 1, [3], [1.0, 1.0, 1.0]))
    with pytest.raises(EqsatError) as caught:
        bind(model)
    assert caught.value.kind is Kind.MALFORMED_GRAPH
    assert "scales [3] and zero points [1] of weights [1, 5, 16]" in str(caught.value)
