"""Large weights go from an ONNX file to arrays once, and the model is the one that protobuf reads."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

from eqsat.frontends.onnx.lift_weights import LARGE, WireError, lift_weights
from eqsat.frontends.onnx.load_onnx import load_onnx
from ir.diagnostics import EqsatError, Kind

RNG = np.random.default_rng(0)
DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8, np.bool_)


def summed(*initializers: Any, then: Any = None, output: str = "y") -> bytes:
    """A model that returns its initializers, one after the other."""
    names = [tensor.name for tensor in initializers]
    graph = helper.make_graph(
        [then] if then else [helper.make_node("Identity", [name], [f"{output}_{name}"]) for name in names],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_empty_tensor_value_info(output if then else f"{output}_{name}") for name in names],
        initializers,
    )
    opsets = [helper.make_opsetid("", 18)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def large(dtype: Any, name: str) -> np.ndarray:
    return RNG.integers(0, 2, (3, LARGE)).astype(dtype)


def test_the_model_is_as_written_but_for_large_raw_data() -> None:
    arrays = {f"w{index}": large(dtype, f"w{index}") for index, dtype in enumerate(DTYPES)}
    text = summed(*(numpy_helper.from_array(array, name) for name, array in arrays.items()))
    stripped, weights = lift_weights(io.BytesIO(text))
    assert len(stripped) < LARGE
    assert set(weights) == set(arrays)
    model = onnx.load_model_from_string(stripped)
    for tensor in model.graph.initializer:
        assert not tensor.HasField("raw_data")
        tensor.raw_data = weights[tensor.name].tobytes()
    assert model == onnx.load_model_from_string(text)


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_of_every_type_and_size(dtype: Any, tmp_path: Path) -> None:
    arrays = {"large": large(dtype, "large"), "small": np.asarray([1, 0, 1], dtype), "none": np.zeros((0, 5), dtype)}
    text = summed(*(numpy_helper.from_array(array, name) for name, array in arrays.items()))
    (tmp_path / "m.onnx").write_bytes(text)
    for source in (tmp_path / "m.onnx", text, onnx.load_model_from_string(text)):
        read = load_onnx(source)[1]
        for name, array in arrays.items():
            assert read[name].dtype == array.dtype
            np.testing.assert_array_equal(read[name], array)


def test_a_weight_of_another_size_than_its_shape_is_damaged() -> None:
    tensor = numpy_helper.from_array(np.zeros(LARGE, np.float32), "w")
    tensor.dims[0] += 1
    with pytest.raises(EqsatError) as caught:
        load_onnx(summed(tensor))
    assert caught.value.kind is Kind.MALFORMED_GRAPH
    assert caught.value.diagnostics[0].at == "w"


def test_a_branch_with_a_weight_of_the_same_name_has_its_own() -> None:
    outer, inner = np.full(LARGE, 2, np.float32), np.full(LARGE, 3, np.float32)
    body = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["z"])],
        "branch",
        [],
        [helper.make_empty_tensor_value_info("z")],
        [helper.make_tensor("w", TensorProto.FLOAT, inner.shape, inner)],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["z"])], "other", [], [helper.make_empty_tensor_value_info("z")]
    )
    branches = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other)
    condition = numpy_helper.from_array(np.asarray(True), "c")
    constants = load_onnx(summed(numpy_helper.from_array(outer, "w"), condition, then=branches))[1]
    held = sorted(array[0] for array in constants.values() if array.shape == outer.shape)
    assert held == [2, 3]


def test_initializers_of_one_name_are_left_to_protobuf() -> None:
    large_, others = np.full(LARGE, 1, np.float32), (np.full(LARGE, 2, np.float32), np.full(1, 2, np.float32))
    for other in (numpy_helper.from_array(others[0], "w"), numpy_helper.from_array(others[1], "w"),
                  helper.make_tensor("w", TensorProto.FLOAT, [LARGE], others[0])):  # fmt: skip
        for order in ((numpy_helper.from_array(large_, "w"), other), (other, numpy_helper.from_array(large_, "w"))):
            text = summed(*order, then=helper.make_node("Identity", ["w"], ["y"]))
            with pytest.raises(WireError):
                lift_weights(io.BytesIO(text))
            assert outcome(text) == outcome(onnx.load_model_from_string(text))


def test_negative_sizes_are_malformed() -> None:
    tensor = numpy_helper.from_array(np.zeros((64, 64), np.float32), "w")
    tensor.dims[:] = [-64, -64]
    assert outcome(summed(tensor)) == Kind.MALFORMED_GRAPH


def test_models_as_text(tmp_path: Path) -> None:
    model = onnx.load_model_from_string(summed(numpy_helper.from_array(np.zeros(LARGE, np.float32), "w")))
    for name in ("m.json", "m.textproto", "m.pb"):
        onnx.save(model, str(tmp_path / name))
        assert outcome(tmp_path / name) == outcome(model)


def outcome(source: Any) -> Any:
    """The graph and the first numbers of the constants, or the kind of the error."""
    try:
        graph, constants = load_onnx(source)
    except EqsatError as error:
        return error.kind
    return graph, {name: (array.dtype, array.shape, array.ravel()[:9].tobytes()) for name, array in constants.items()}


def test_bytes_that_end_early_or_are_damaged_mean_what_protobuf_reads() -> None:
    whole = summed(numpy_helper.from_array(RNG.normal(size=LARGE).astype(np.float32), "w"))
    lengths = (*range(1, 40), *range(len(whole) - 200, len(whole)))
    texts = [whole[:length] for length in lengths]
    for place in (*range(60), *range(len(whole) - 80, len(whole))):
        texts += [whole[:place] + bytes([byte]) + whole[place + 1 :] for byte in (0, 0x0B, 0x32, 0x7F, 0xFF)]
    kinds = set()
    for text in texts:
        try:
            read = outcome(onnx.load_model_from_string(text))
        except DecodeError:
            read = Kind.MALFORMED_GRAPH
        kinds.add(read if isinstance(read, Kind) else None)
        assert outcome(text) == read
    assert {None, Kind.MALFORMED_GRAPH} <= kinds
