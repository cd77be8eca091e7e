"""Initializers of 2 and 4 bits: their values against onnxruntime, and what becomes of them elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from eqsat import optimize_and_compile
from eqsat.frontends.onnx.load_onnx import load_onnx
from eqsat.frontends.onnx.survey import survey_onnx
from eqsat.model import read_model
from ir.diagnostics import EqsatError, Kind
from ir.tiny.playback import playback
from tests.eqsat.frontends.onnx.test_onnx import by_onnxruntime, model_of, refused
from tests.support.oracles.runtime_operator import run_both

RNG = np.random.default_rng(0)
ENDS = {ml_dtypes.int4: (-8, 7), ml_dtypes.uint4: (0, 15)}


def integers(kind: Any, *shape: int) -> np.ndarray:
    low, high = ENDS[kind]
    return RNG.integers(low, high + 1, shape).astype(kind)


def scales(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def play(model: Any, **inputs: np.ndarray) -> np.ndarray:
    bound = read_model(model).bind({}, True)
    (result,) = playback(bound.graph, {**inputs, **bound.constants})
    return result


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("shape", [(3, 7, 5), (1,), (4, 8), (0, 3)])
def test_dequantize_linear_agrees_with_onnxruntime(shape: tuple[int, ...], kind: Any, domain: str) -> None:
    x, size = integers(kind, *shape), shape[-1]
    ends = RNG.choice([*ENDS[kind], 1], size).astype(kind)
    for zero in (ends, None):
        operands = {"x_weight": x, "x_scale": scales(size), "x_zero": zero}
        actual, expected = run_both("DequantizeLinear", operands, {"axis": len(shape) - 1}, domain)
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize(("axis", "size"), [(0, 2), (1, 4), (1, 16), (2, 2)])
def test_blocks_agree_with_onnxruntime(axis: int, size: int, kind: Any) -> None:
    shape = [3, 7, 5]
    shape[axis] = -(-shape[axis] // size)
    operands = {
        "x_weight": integers(kind, 3, 7, 5),
        "x_scale": scales(*shape),
        "x_zero": integers(kind, *shape),
    }
    actual, expected = run_both("DequantizeLinear", operands, {"axis": axis, "block_size": size}, "")
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("by_zero_point", [True, False])
@pytest.mark.parametrize("kind", ENDS)
def test_quantize_linear_saturates_at_the_ends_of_four_bits(kind: Any, by_zero_point: bool) -> None:
    high = ENDS[kind][1]
    zero = np.asarray(high - 2 if by_zero_point else 0).astype(kind)
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    more = ["z"] if by_zero_point else []
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", *more], ["q"], **({} if more else {"output_dtype": number})),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    x = scales(50) * 8
    model = model_of(nodes, {"x": x}, constants={"s": np.asarray(0.7, np.float32), "z": zero}, opset=21)
    model.ir_version = 10
    np.testing.assert_array_equal(play(model, x=x), by_onnxruntime(model, {"x": x})[0])


def test_two_bits_agree_with_onnx() -> None:
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["y"])]
    for kind, low in ((ml_dtypes.int2, -2), (ml_dtypes.uint2, 0)):
        w = RNG.integers(low, low + 4, (3, 3)).astype(kind)
        model = model_of(nodes, {}, constants={"w": w, "s": np.asarray(-0.3, np.float32)}, opset=25)
        (expected,) = ReferenceEvaluator(model).run(None, {})
        np.testing.assert_array_equal(play(model), expected)


def test_constant_nodes_and_numbers_without_raw_data() -> None:
    w = helper.make_tensor("w", TensorProto.INT4, [3], [-8, 7, -1])
    assert not w.raw_data
    nodes = [
        helper.make_node("Constant", [], ["w"], value=w),
        helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT),
    ]
    np.testing.assert_array_equal(play(model_of(nodes, {}, opset=21)), np.asarray([-8, 7, -1], np.float32))


def weight_only(tmp_path: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    """A file of a model that multiplies by 96 × 200 weights of 4 bits in blocks, an argument, and the result."""
    w, s = integers(ml_dtypes.int4, 96, 200), scales(3, 200)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    x = scales(2, 96)
    onnx.save(model_of(nodes, {"x": x}, constants={"w": w, "s": s}, opset=21), str(tmp_path / "m.onnx"))
    return tmp_path / "m.onnx", x, x @ (w.astype(np.float32) * np.repeat(s, 32, 0))


def test_weights_stay_packed_in_constants(tmp_path: Path) -> None:
    """The bytes are above the size from which weights are lifted past protobuf."""
    path, x, expected = weight_only(tmp_path)
    frontend, constants = load_onnx(path)
    assert constants["w/packed_bytes"].shape == (96 * 200 // 2,)
    assert [node.op for node in frontend.graph] == ["Unpack", "onnx.DequantizeLinear-10", "onnx.MatMul"]
    np.testing.assert_allclose(play(path, x=x), expected, rtol=1e-4, atol=1e-4)
    assert survey_onnx(path).types == {}


@pytest.mark.slow
def test_a_compiled_product_agrees(tmp_path: Path) -> None:
    path, x, expected = weight_only(tmp_path)
    program = optimize_and_compile(path, threads=1)
    np.testing.assert_allclose(program(x=x), expected, rtol=1e-4, atol=1e-4)


def test_weights_of_a_body_are_unpacked_in_it() -> None:
    w = integers(ml_dtypes.uint4, 5)
    cast = helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT)
    add = helper.make_node("Add", ["x", "f"], ["y"])
    described = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5])]
    body = helper.make_graph([cast, add], "then", [], described, [numpy_helper.from_array(w, "w")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "else", [], described)
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other)]
    x = scales(5)
    model = model_of(nodes, {"x": x, "c": np.asarray(True)}, opset=21)
    np.testing.assert_array_equal(play(model, x=x, c=np.asarray(True)), x + w.astype(np.float32))


def test_arguments_and_results_of_four_bits_are_refused_with_a_way_out() -> None:
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    text = refused(model_of([cast], {"x": (TensorProto.INT4, [3])}, opset=21))
    assert "an argument of 4-bit integers is not supported" in text
    assert "a Cast between it and int8" in text
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])]
    constants = {"s": np.asarray(1, np.float32), "z": np.asarray(0).astype(ml_dtypes.uint4)}
    model = model_of(nodes, {"x": scales(3)}, constants=constants, opset=21)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.UINT4
    assert "a result of 4-bit integers is not supported" in refused(model)


def test_a_damaged_initializer_is_malformed() -> None:
    w = TensorProto(name="w", data_type=TensorProto.INT4, dims=[3], raw_data=b"\x00")
    model = model_of([helper.make_node("DequantizeLinear", ["w", "s"], ["y"])], {"s": scales()}, opset=21)
    model.graph.initializer.append(w)
    with pytest.raises(EqsatError) as caught:
        load_onnx(model)
    assert caught.value.kind is Kind.MALFORMED_GRAPH
    assert "[3] integers of 4 bits in 1 bytes" in str(caught.value)
