"""ONNX in: each operator against onnxruntime, the light models, and what is refused."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from eqsat import optimize_and_compile
from eqsat.frontends.onnx.load_onnx import load_onnx
from eqsat.model import BoundModel, read_model
from eqsat.zoo import light_model
from ir.diagnostics import EqsatError, Kind
from ir.tiny.playback import playback
from tests.support.sampling import first_few

RNG = np.random.default_rng(0)
FLOAT = TensorProto.FLOAT
Arrays = Mapping[str, np.ndarray]


def model_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, Any],
    outputs: Sequence[str] = ("y",),
    constants: Arrays | None = None,
    opset: int = 18,
) -> Any:
    """A ModelProto; `inputs` are arrays, or (element type, sizes)."""
    described = []
    for name, buffer in inputs.items():
        kind, shape = (
            buffer if isinstance(buffer, tuple) else (helper.np_dtype_to_tensor_dtype(buffer.dtype), buffer.shape)
        )
        described.append(helper.make_tensor_value_info(name, kind, shape))
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "g", described, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def by_onnxruntime(model: Any, inputs: Arrays) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    results: list[np.ndarray] = session.run(None, dict(inputs))
    return results


def bind(model: Any, inputs: Arrays | None = None) -> BoundModel:
    read = read_model(model)
    return read.bind(read.infer({name: array.shape for name, array in (inputs or {}).items()}), True)


def by_playback(model: Any, inputs: Arrays) -> tuple[np.ndarray, ...]:
    bound = bind(model, inputs)
    return playback(bound.graph, {**inputs, **bound.constants})


def agree(model: Any, inputs: Arrays) -> None:
    expected, actual = by_onnxruntime(model, inputs), by_playback(model, inputs)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


X = normal(2, 4, 8, 7)
CASES: dict[str, tuple[Any, ...]] = {
    # name: operator, attributes, inputs, constants, opset
    "conv": ("Conv", {}, {"x": X}, {"w": normal(5, 4, 3, 3)}),
    "conv_all": (
        "Conv",
        {"group": 2, "pads": [1, 0, 2, 1], "dilations": [2, 1], "strides": [1, 2], "kernel_shape": [2, 3]},
        {"x": X},
        {"w": normal(6, 2, 2, 3), "b": normal(6)},
    ),
    "conv_depthwise": ("Conv", {"group": 4, "pads": [1, 1, 1, 1]}, {"x": X}, {"w": normal(8, 1, 3, 3)}),
    "conv_1d": (
        "Conv",
        {"strides": [2], "pads": [1, 0], "dilations": [1]},
        {"x": normal(1, 4, 9)},
        {"w": normal(5, 4, 3)},
    ),
    "conv_3d": (
        "Conv",
        {"pads": [1] * 6, "strides": [1] * 3, "dilations": [1] * 3},
        {"x": normal(1, 4, 3, 4, 5)},
        {"w": normal(5, 4, 3, 3, 3)},
    ),
    "average_pool_1d": (
        "AveragePool",
        {"kernel_shape": [3], "strides": [2], "pads": [0, 0], "ceil_mode": 1},
        {"x": normal(1, 4, 10)},
        {},
    ),
    "max_pool_3d": ("MaxPool", {"kernel_shape": [2, 2, 2], "pads": [1] * 6}, {"x": normal(1, 4, 3, 4, 5)}, {}),
    "conv_filters_as_input": ("Conv", {"auto_pad": "VALID"}, {"x": X, "w": normal(5, 4, 1, 1)}, {}),
    "max_pool": (
        "MaxPool",
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [2, 1]},
        {"x": -np.abs(X)},
        {},
    ),
    "average_pool": ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, {"x": X}, {}),
    "average_pool_pad": (
        "AveragePool",
        {"kernel_shape": [3, 2], "pads": [1, 1, 0, 0], "count_include_pad": 1},
        {"x": X},
        {},
    ),
    "global_average_pool": ("GlobalAveragePool", {}, {"x": X}, {}),
    "global_max_pool": ("GlobalMaxPool", {}, {"x": X}, {}),
    "batch_norm": (
        "BatchNormalization",
        {"epsilon": 1e-3},
        {"x": X},
        {"s": normal(4), "b": normal(4), "m": normal(4), "v": np.abs(normal(4)) + 0.5},
    ),
    "lrn": ("LRN", {"size": 3, "alpha": 0.1, "beta": 0.6, "bias": 1.5}, {"x": X}, {}),
    "lrn_wide": ("LRN", {"size": 7, "alpha": 0.3}, {"x": X}, {}),
    "gemm": ("Gemm", {}, {"a": normal(3, 4)}, {"b": normal(4, 5), "c": normal(5)}),
    "gemm_all": (
        "Gemm",
        {"transA": 1, "transB": 1, "alpha": 0.5, "beta": -2.0},
        {"a": normal(4, 3), "b": normal(5, 4), "c": normal(3, 1)},
        {},
    ),
    "gemm_no_c": ("Gemm", {"transB": 1}, {"a": normal(3, 4), "b": normal(5, 4)}, {}),
    "matmul": ("MatMul", {}, {"a": normal(2, 1, 3, 4), "b": normal(5, 4, 2)}, {}),
    "matmul_vector": ("MatMul", {}, {"a": normal(4), "b": normal(2, 4, 3)}, {}),
    "argmax": ("ArgMax", {}, {"x": normal(2, 3, 4)}, {}),
    "argmax_axis": ("ArgMax", {"axis": -2, "keepdims": 0}, {"x": normal(2, 3, 4)}, {}),
    "argmin_first": ("ArgMin", {"axis": 1}, {"x": np.ones((2, 3), np.float32)}, {}),
    "argmin_last": ("ArgMin", {"axis": 1, "select_last_index": 1}, {"x": np.ones((2, 3), np.float32)}, {}),
    "softmax_13": ("Softmax", {}, {"x": normal(2, 3, 4)}, {}, 13),
    "softmax_13_axis": ("Softmax", {"axis": 1}, {"x": normal(2, 3, 4)}, {}, 13),
    "softmax_12_flattens": ("Softmax", {}, {"x": normal(2, 3, 4)}, {}, 12),
    "softmax_12_axis": ("Softmax", {"axis": 2}, {"x": normal(2, 3, 4)}, {}, 12),
    "softmax_12_first": ("Softmax", {"axis": 0}, {"x": normal(2, 3)}, {}, 11),
    "softmax_12_last": ("Softmax", {"axis": -1}, {"x": normal(2, 3, 4)}, {}, 11),
    "reshape": ("Reshape", {}, {"x": X}, {"shape": np.asarray([0, -1, 7])}),
    "reshape_zero": ("Reshape", {"allowzero": 1}, {"x": normal(0, 3)}, {"shape": np.asarray([3, 0])}),
    "flatten": ("Flatten", {}, {"x": X}, {}),
    "flatten_0": ("Flatten", {"axis": 0}, {"x": X}, {}),
    "flatten_-1": ("Flatten", {"axis": -1}, {"x": X}, {}),
    "flatten_4": ("Flatten", {"axis": 4}, {"x": X}, {}),
    "squeeze": ("Squeeze", {}, {"x": normal(1, 3, 1)}, {"axes": np.asarray([-1])}),
    "squeeze_11": ("Squeeze", {"axes": [0]}, {"x": normal(1, 3, 1)}, {}, 11),
    "squeeze_all": ("Squeeze", {}, {"x": normal(1, 3, 1)}, {}),
    "unsqueeze": ("Unsqueeze", {}, {"x": normal(2, 3)}, {"axes": np.asarray([0, -1])}),
    "unsqueeze_11": ("Unsqueeze", {"axes": [1, 3]}, {"x": normal(2, 3)}, {}, 11),
    "concat": ("Concat", {"axis": -2}, {"a": normal(2, 3, 4), "b": normal(2, 1, 4)}, {"c": normal(2, 2, 4)}),
    "transpose": ("Transpose", {"perm": [2, 0, 1]}, {"x": normal(2, 3, 4)}, {}),
    "transpose_reversed": ("Transpose", {}, {"x": normal(2, 3, 4)}, {}),
    "add": ("Add", {}, {"a": normal(2, 1, 4), "b": normal(3, 1)}, {}),
    "sub": ("Sub", {}, {"a": normal(2, 3)}, {"b": normal(1, 3)}),
    "mul": ("Mul", {}, {"a": normal(2, 3), "b": normal()}, {}),
    "mul_i64": ("Mul", {}, {"a": np.arange(6), "b": np.full(1, 3)}, {}),
    "div": ("Div", {}, {"a": normal(2, 3), "b": normal(2, 1) + 5}, {}),
    "sum": ("Sum", {}, {"a": normal(2, 3), "b": normal(3), "c": normal(2, 1)}, {}),
    "sum_of_one": ("Sum", {}, {"a": normal(2, 3)}, {}),
    "max": ("Max", {}, {"a": normal(2, 3), "b": normal(3)}, {"c": normal(2, 1)}),
    "min": ("Min", {}, {"a": normal(2, 3), "b": normal(3)}, {}),
    "where": ("Where", {}, {"c": normal(2, 3) > 0, "a": normal(3), "b": normal(2, 1)}, {}),
    "identity": ("Identity", {}, {"x": normal(3)}, {}),
    "dropout": ("Dropout", {}, {"x": normal(3)}, {}),
    "dropout_7": ("Dropout", {"ratio": 0.3}, {"x": normal(3)}, {}, 7),
    "float16": ("Add", {}, {"a": normal(5).astype(np.float16), "b": normal(5).astype(np.float16)}, {}),
    "float64": ("Add", {}, {"a": normal(5).astype(np.float64), "b": normal(5).astype(np.float64)}, {}),
    **{
        operator.lower(): (
            operator,
            {},
            {"x": np.abs(normal(7)) + 0.1 if operator in ("Log", "Sqrt") else normal(7)},
            {},
        )
        for operator in (
            "Relu",
            "Sigmoid",
            "Tanh",
            "Exp",
            "Log",
            "Sqrt",
            "Neg",
            "Abs",
            "Erf",
            "Floor",
            "Ceil",
            "Reciprocal",
        )
    },
}


@pytest.mark.parametrize("name", CASES)
def test_operators_agree_with_onnxruntime(name: str) -> None:
    op, attrs, inputs, constants, *opset = CASES[name]
    node = helper.make_node(op, [*inputs, *constants], ["y"], **attrs)
    agree(model_of([node], inputs, constants=constants, opset=opset[0] if opset else 18), inputs)


def windows_case(rng: random.Random) -> tuple[str, dict[str, Any], np.ndarray, dict[str, np.ndarray], int]:
    """A convolution or a pool of odd sizes: operator, attributes, x, constants, opset.

    Where the padding is automatic, strides are at most the kernel and nothing is dilated: elsewhere onnxruntime
    refuses, or makes another shape than the specification's.
    """
    op = rng.choice(["MaxPool", "AveragePool", "Conv"])
    kernel = [rng.randint(1, 4), rng.randint(1, 4)]
    padding = rng.choice(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    same = padding.startswith("SAME")
    attrs: dict[str, Any] = {"strides": [rng.randint(1, size if same else 4) for size in kernel]}
    if padding == "NOTSET":
        attrs["pads"] = [rng.randint(0, size - 1) for size in kernel * 2]
    else:
        attrs["auto_pad"] = padding
    if op != "AveragePool":
        attrs["dilations"] = [1 if same else rng.randint(1, 2) for _ in kernel]
    if op != "Conv":
        attrs |= {"kernel_shape": kernel, "ceil_mode": rng.randint(0, 1)}
    if op == "AveragePool":
        attrs["count_include_pad"] = rng.randint(0, 1)
    x = normal(2, 3, rng.randint(7, 12), rng.randint(7, 12)) - 1
    return op, attrs, x, {"w": normal(4, 3, *kernel)} if op == "Conv" else {}, rng.choice([11, 13, 18, 22])


@pytest.mark.parametrize("seed", range(8))
def test_windows_agree_with_onnxruntime(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        op, attrs, x, constants, opset = windows_case(rng)
        agree(one(op, {"x": x}, constants, opset, **attrs), {"x": x})


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dilations", [(2, 1), (3, 2)])
def test_dilated_windows_of_automatic_padding(dilations: tuple[int, int], lower: bool) -> None:
    """Against onnx's own evaluator: onnxruntime has none such."""
    x, w = normal(1, 2, 9, 8), normal(3, 2, 3, 2)
    attrs: dict[str, Any]
    attrs = {"auto_pad": "SAME_LOWER" if lower else "SAME_UPPER", "dilations": dilations, "strides": [2, 1]}
    model = one("Conv", {"x": x}, {"w": w}, **attrs)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(by_playback(model, {"x": x})[0], expected, rtol=1e-4, atol=1e-5)


def test_strides_beyond_the_kernel_need_no_automatic_padding() -> None:
    """onnxruntime has negative padding there; convolutions and TensorFlow, whose SAME this is, have none."""
    model = one("AveragePool", {"x": X}, kernel_shape=[1, 2], strides=[3, 2], auto_pad="SAME_UPPER")
    plain = one("AveragePool", {"x": X}, kernel_shape=[1, 2], strides=[3, 2], pads=[0, 0, 0, 1])
    np.testing.assert_array_equal(by_playback(model, {"x": X})[0], by_onnxruntime(plain, {"x": X})[0])


@pytest.mark.parametrize("c", [None, (), (1,), (5,), (1, 5), (3, 1), (3, 5)])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm_agrees_with_onnxruntime(trans_a: int, trans_b: int, c: tuple[int, ...] | None) -> None:
    inputs = {"a": normal(*((4, 3) if trans_a else (3, 4))), "b": normal(*((5, 4) if trans_b else (4, 5)))}
    inputs |= {} if c is None else {"c": normal(*c)}
    for alpha, beta in ((1.0, 1.0), (0.5, -2.0), (0.0, 1.0), (1.0, 0.0)):
        for opset in (9, 13) if c is not None else (13,):
            attrs = {"transA": trans_a, "transB": trans_b, "alpha": alpha, "beta": beta}
            agree(one("Gemm", inputs, None, opset, **attrs), inputs)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.int8])
def test_integers_divide_as_onnxruntime_has_them(dtype: type[np.integer]) -> None:
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = np.array([-7, 7, -8, 8, 0, 7, 9, least, most, least + 1]).astype(dtype)
    b = np.array([2, -2, 3, -3, 5, 7, 100, 3, 2, most]).astype(dtype)
    agree(one("Div", {"a": a, "b": b}), {"a": a, "b": b})


@pytest.mark.parametrize("slope", [[0.25], [0.5, -1, 2]])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_slopes_of_early_opsets_are_by_channel(slope: list[float], rank: int) -> None:
    x, factor = RNG.standard_normal((2, 3, 4, 5)[:rank]).astype("f"), np.array(slope, "f")
    model = model_of([helper.make_node("PRelu", ["x", "s"], ["y"])], {"x": x}, constants={"s": factor}, opset=6)
    bound = bind(model)
    (result,) = playback(bound.graph, {"x": x, **bound.constants})
    np.testing.assert_array_equal(result, np.where(x < 0, np.moveaxis(np.moveaxis(x, 1, -1) * factor, -1, 1), x))


def test_batch_normalization_keeps_the_dtype_of_x() -> None:
    x, constants = normal(1, 2, 3, 3).astype(np.float16), {name: np.abs(normal(2)) for name in "sbmv"}
    model = one("BatchNormalization", {"x": x}, constants)
    actual, expected = by_playback(model, {"x": x})[0], by_onnxruntime(model, {"x": x})[0]
    assert actual.dtype == expected.dtype == np.float16
    np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("opset", [7, 9, 14, 15, 18])
@pytest.mark.parametrize("epsilon", [None, 1e-5, 1e-1, 3.0])
@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 5), (2, 4, 3, 3), (1, 4, 2, 2, 2)])
def test_batch_normalization_agrees_with_onnxruntime(shape: tuple[int, ...], epsilon: float | None, opset: int) -> None:
    x, attrs = normal(*shape), {} if epsilon is None else {"epsilon": epsilon}
    constants = {"s": normal(4), "b": normal(4), "m": normal(4), "v": np.abs(normal(4))}
    agree(one("BatchNormalization", {"x": x}, constants, opset, **attrs), {"x": x})


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({"value": numpy_helper.from_array(np.asarray([2.0, 3.0], np.float64))}, np.asarray([2.0, 3.0])),
        ({"value_float": 0.5}, np.float32(0.5)),
        ({"value_floats": [0.5, 1]}, np.asarray([0.5, 1], np.float32)),
        ({"value_int": 7}, np.asarray(7)),
        ({"value_ints": [7, 8]}, np.asarray([7, 8])),
    ],
)
def test_constants_keep_their_dtype(attrs: dict[str, Any], expected: np.ndarray) -> None:
    x = np.ones(2, np.asarray(expected).dtype)
    nodes = [helper.make_node("Constant", [], ["c"], **attrs), helper.make_node("Add", ["x", "c"], ["y"])]
    agree(model_of(nodes, {"x": x}), {"x": x})


def test_constants_of_a_shape() -> None:
    fill = numpy_helper.from_array(np.asarray([3], np.float32))
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["ones"], value=fill),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Sum", ["x", "ones", "zeros"], ["y"]),
    ]
    agree(model_of(nodes, {"x": normal(2, 3)}, constants={"shape": np.asarray([2, 3])}), {"x": normal(2, 3)})


def test_outputs_that_are_inputs_and_constants() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = model_of(nodes, {"x": normal(3)}, ("y", "x", "c"), {"c": np.arange(4)})
    # onnxruntime wants no graph whose outputs are inputs
    x = normal(3)
    y, same, constant = by_playback(model, {"x": x})
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(constant, np.arange(4))


def test_initialisers_among_the_inputs_are_constants() -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    model = model_of(nodes, {"x": normal(3), "w": normal(3)}, constants={"w": normal(3)})
    assert read_model(model).arguments == ("x",)


def test_a_symbolic_batch() -> None:
    w = normal(4, 5)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    model = model_of(nodes, {"x": (FLOAT, ["batch size", 4])}, constants={"w": w})
    program = optimize_and_compile(model, threads=1)
    assert "batch_size" in repr(program)
    for batch in (2, 5):
        x = normal(batch, 4)
        np.testing.assert_allclose(program(x), np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)
    assert [variant["batch_size"] for variant in program.variants] == [2, 5]
    assert optimize_and_compile(model, dims={"batch_size": 3}, threads=1).random_inputs()["x"].shape == (3, 4)


@pytest.mark.slow
def test_automatic_padding_of_symbolic_sizes() -> None:
    """The padding follows from the sizes of each call; a name that stands twice is one size."""
    w = normal(3, 2, 3, 3)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], auto_pad="SAME_UPPER", strides=[2, 2]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("Add", ["p", "z"], ["y"]),
    ]
    inputs = {"x": (FLOAT, ["n", 2, "side", "side"]), "z": (FLOAT, ["n", 1, 1, 1])}
    model = model_of(nodes, inputs, constants={"w": w})
    program = optimize_and_compile(model, threads=1)
    for n, side in ((1, 9), (2, 11), (1, 12)):
        given = {"x": normal(n, 2, side, side), "z": normal(n, 1, 1, 1)}
        np.testing.assert_allclose(program(**given), by_onnxruntime(model, given)[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(EqsatError) as caught:
        program(normal(1, 2, 9, 8), normal(1, 1, 1, 1))
    assert "side" in str(caught.value)
    fixed = optimize_and_compile(model, dims={"n": 1, "side": 9}, threads=1)
    assert {name: buffer.shape for name, buffer in fixed.random_inputs().items()} == {
        "x": (1, 2, 9, 9),
        "z": (1, 1, 1, 1),
    }


def test_sizes_without_a_name_are_free_and_apart() -> None:
    nodes = [helper.make_node("MatMul", ["a/0", "b"], ["y"])]
    model = read_model(model_of(nodes, {"a/0": (FLOAT, [None, "k"]), "b": (FLOAT, ["k", None])}))
    assert model.infer({"a/0": (2, 3), "b": (3, 4)}) == {"a_0_0": 2, "k": 3, "b_1": 4}
    clash = read_model(
        model_of([helper.make_node("Add", ["a", "b"], ["y"])], {"a": (FLOAT, ["m n"]), "b": (FLOAT, ["m_n"])})
    )
    assert len(clash.infer({"a": (2,), "b": (2,)})) == 2


# what is refused


def refused(model: Any, kind: Kind = Kind.UNSUPPORTED_OP) -> str:
    with pytest.raises(EqsatError) as caught:
        bind(model)
    assert caught.value.kind is kind, caught.value
    return str(caught.value)


def one(op: str, inputs: Mapping[str, Any], constants: Arrays | None = None, opset: int = 18, **attrs: Any) -> Any:
    node = helper.make_node(op, [*inputs, *(constants or {})], ["y"], name="here", **attrs)
    return model_of([node], inputs, constants=constants, opset=opset)


def test_an_unsupported_operator_is_named_with_a_way_out() -> None:
    text = refused(one("NonMaxSuppression", {"x": X}))
    assert "NonMaxSuppression" in text
    assert "`here`" in text
    assert "`eqsat doctor` says" in text
    near = helper.make_node("LeakyReLU", ["x"], ["y"])
    assert "LeakyRelu, which is supported" in refused(model_of([near], {"x": X}))
    custom = helper.make_node("Relu", ["x"], ["y"], domain="com.acme")
    assert "com.acme.Relu" in refused(model_of([custom], {"x": X}))
    nodes = [
        helper.make_node(op, ["x"], [f"y{place}"])
        for place, op in enumerate(["NonMaxSuppression", "Relu", "Unique", "NonMaxSuppression"])
    ]
    text = refused(model_of([*nodes, custom], {"x": X}))
    assert "operators NonMaxSuppression, Unique, com.acme.Relu are not supported" in text
    assert "`y0`" in text


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (one("Conv", {"x": X}, {"w": normal(5, 4, 3, 3)}, auto_pad="SAME"), "auto_pad=SAME"),
        (one("Reshape", {"x": X, "shape": np.asarray([-1])}), "depends on the input shape"),
        (one("BatchNormalization", {"x": X}, {n: normal(4) for n in "sbmv"}, opset=6), "training"),
        (one("Dropout", {"x": X}, {"r": np.array(0.5, np.float32), "t": np.array(True)}), "training"),
        (one("Relu", {"x": (FLOAT, None)}), "rank"),
        (one("Relu", {"x": (TensorProto.STRING, [2])}), "string"),
        (one("Relu", {"x": (TensorProto.FLOAT8E4M3FN, [2])}), "float8e4m3fn"),
    ],
)
def test_what_is_not_supported_says_so(model: Any, says: str) -> None:
    assert says in refused(model)


def test_a_further_output_that_is_read() -> None:
    pool = helper.make_node("MaxPool", ["x"], ["y", "indices"], kernel_shape=[2, 2])
    best, places = by_playback(model_of([pool], {"x": X}, ("y", "indices")), {"x": X})
    np.testing.assert_array_equal(X.ravel()[places], best)
    relu = helper.make_node("Relu", ["x"], ["y", "more"])
    assert "'more' is not computed" in refused(model_of([relu], {"x": X}, ("y", "more")))


@pytest.mark.parametrize(
    "model",
    [
        one("MaxPool", {"x": X}),
        one("Concat", {"x": X}),
        one("Conv", {"x": X}),
        one("Conv", {"x": X}, {"w": normal(5, 4, 3, 3)}, strides="ab"),
        one("Conv", {"x": X}, {"w": normal(5, 4, 3, 3)}, pads=[1]),
        one("Reshape", {"x": X}),
        one("Reshape", {"x": X}, {"shape": np.asarray([0, 0, 0, 0, 0])}),
        one("Transpose", {"x": X}, perm="hwc"),
        one("Unsqueeze", {"x": X}, {"axes": np.asarray([9])}),
        one("Unsqueeze", {"x": X}, {"axes": np.asarray([0, 0])}),
        one("Tile", {"x": X}, {"repeats": np.asarray([2])}),
        one("Relu", {"x": X, "z": X}),
        model_of([helper.make_node("Constant", [], ["y"])], {}),
        model_of([helper.make_node("Relu", ["x"], [])], {"x": X}, ("x",)),
        model_of([helper.make_node("Relu", ["z"], ["y"])], {"x": X}),
        model_of([helper.make_node("Relu", ["x"], ["y"])] * 2, {"x": X}),
        model_of([helper.make_node("Relu", ["x"], ["z"])], {"x": X}),
        model_of([], {"x": X}, ()),
    ],
)
def test_malformed_models_are_malformed(model: Any) -> None:
    with pytest.raises(EqsatError) as caught:
        bind(model)
    assert caught.value.kind in (Kind.MALFORMED_GRAPH, Kind.UNSUPPORTED_OP, Kind.INVALID_PERMUTATION)


def test_files_bytes_and_what_is_neither(tmp_path: Path) -> None:
    model = one("Relu", {"x": X})
    onnx.save(model, str(tmp_path / "m.onnx"))
    for source in (tmp_path / "m.onnx", str(tmp_path / "m.onnx"), model.SerializeToString(), model):
        assert [node.op for node in load_onnx(source)[0].graph] == ["onnx.Relu"]
    (tmp_path / "text.onnx").write_text("this is no model")
    for source in (tmp_path / "text.onnx", tmp_path / "missing.onnx", tmp_path, b"this is no model", b"", b"\xff" * 99):
        with pytest.raises(EqsatError) as caught:
            load_onnx(source)
        assert caught.value.kind is Kind.MALFORMED_GRAPH


def test_external_data_is_read_or_named(tmp_path: Path) -> None:
    path, w = tmp_path / "m.onnx", normal(4, 3)
    onnx.save(
        one("MatMul", {"x": normal(2, 4)}, {"w": w}), path, save_as_external_data=True, location="w", size_threshold=0
    )
    np.testing.assert_array_equal(load_onnx(path)[1]["w"], w)
    whole = (tmp_path / "w").read_bytes()
    for damage in (lambda: (tmp_path / "w").write_bytes(whole[:7]), (tmp_path / "w").unlink):
        damage()
        with pytest.raises(EqsatError) as caught:
            load_onnx(path)
        assert caught.value.kind is Kind.MALFORMED_GRAPH
        assert "external data" in str(caught.value)


@pytest.mark.slow
def test_damaged_bytes_raise_nothing_else() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "shape"], ["y"]),
    ]
    constants = {"w": normal(2, 4, 1, 1), "shape": np.asarray([0, -1])}
    whole = model_of(nodes, {"x": X}, constants=constants).SerializeToString()
    rng = random.Random(0)
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with contextlib.suppress(EqsatError):
            bind(bytes(data))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["squeezenet", "shufflenet", "densenet121", "inception_v1", "inception_v2", "resnet50"]
)
def test_light_models_import(name: str) -> None:
    bound = bind(light_model(name))
    assert [type_.shape for type_ in bound.signature.values()] == [(1, 3, 224, 224)]
    assert bound.graph.types[bound.graph.outputs[0]].size == 1000


@first_few(2, "name", ["squeezenet", "shufflenet", "zfnet512", "bvlc_alexnet", "inception_v2"])
def test_light_models_agree_with_onnxruntime(name: str) -> None:
    model = light_model(name)
    inputs = {read_model(model).arguments[0]: normal(1, 3, 224, 224)}
    (actual,), (expected,) = by_playback(model, inputs), by_onnxruntime(model, inputs)
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4 * float(np.abs(expected).max()))


def test_zoo_knows_its_models() -> None:
    with pytest.raises(EqsatError) as caught:
        light_model("gpt5")
    assert "squeezenet" in str(caught.value)
    one_, other = light_model("squeezenet", 1), light_model("squeezenet", 1)
    assert one_.SerializeToString() == other.SerializeToString()
    assert one_.SerializeToString() != light_model("squeezenet", 2).SerializeToString()


@pytest.mark.slow
def test_a_small_network_compiled() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "g"], ["y"]),
    ]
    constants = {"w": normal(6, 4, 3, 3), "g": normal(6, 5), "v": np.abs(normal(6)) + 0.5} | {
        n: normal(6) for n in "sbm"
    }
    model = model_of(nodes, {"x": X}, constants=constants)
    program = optimize_and_compile(model, threads=1)
    assert program.output_names == ["y"]
    np.testing.assert_allclose(program(X), by_onnxruntime(model, {"x": X})[0], rtol=1e-4, atol=1e-5)
