"""Frontend IR: the seed's example, every op against NumPy, and what is wrong with a graph that is none."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from eqsat import optimize_and_compile
from eqsat.frontends.ops import supported_ops
from eqsat.model import read_model
from ir.diagnostics import EqsatError, Kind
from ir.dtype import dtype
from ir.frontend import parse_frontend
from ir.tiny.playback import playback
from tests.eqsat import nn_numpy

RNG = np.random.default_rng(0)

SEED_GEMM = """
{
  "signature": {
    "inputs": [
      {"tensor":"A","role":"data","mutability":"immutable"},
      {"tensor":"B","role":"data","mutability":"immutable"},
      {"tensor":"bias","role":"param","mutability":"immutable","storage":"const_pool"}
    ],
    "outputs": [{"tensor":"C2"}]
  },
  "tensors": {
    "A":{"dtype":"fp16","shape":["M","K"]},
    "B":{"dtype":"fp16","shape":["K","N"]},
    "bias":{"dtype":"fp16","shape":["N"]},
    "C2":{"dtype":"fp16","shape":["M","N"]}
  },
  "graph": [
    {"op":"GEMM","name":"gemm","inputs":["A","B"],"outputs":["C0"],"attrs":{"acc_dtype":"fp32"}},
    {"op":"Elementwise","name":"bias_add","fn":"add","inputs":["C0","bias"],"outputs":["C1"]},
    {"op":"Elementwise","name":"relu","fn":"relu","inputs":["C1"],"outputs":["C2"]}
  ]
}
"""  # seed 000 §2.2, as written


def graph(op: str, inputs: Mapping[str, np.ndarray], fn: str | None = None, **attrs: Any) -> dict[str, Any]:
    """A model of one node."""
    return {
        "signature": {"inputs": [{"tensor": name} for name in inputs], "outputs": [{"tensor": "y"}]},
        "tensors": {
            name: {"dtype": str(dtype(buffer.dtype)), "shape": list(buffer.shape)} for name, buffer in inputs.items()
        },
        "graph": [
            {"op": op, "name": "node", "inputs": list(inputs), "outputs": ["y"], "attrs": attrs}
            | ({"fn": fn} if fn else {})
        ],
    }


def play(document: Any, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The first output by NumPy playback."""
    model = read_model(document)
    bound = model.bind(model.infer({name: buffer.shape for name, buffer in inputs.items()}), True)
    return playback(bound.graph, {**inputs, **bound.constants})[0]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


@pytest.mark.slow
def test_the_seeds_example_runs_as_written() -> None:
    program = optimize_and_compile(SEED_GEMM, threads=1)
    a, b, bias = (RNG.standard_normal(shape).astype(np.float16) for shape in ((9, 16), (16, 7), (7,)))
    product = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    result = program(a, b, bias)
    assert result.dtype == np.float16
    np.testing.assert_allclose(result, np.maximum(product + bias, 0), rtol=2e-3, atol=2e-3)
    assert program.arguments == ("A", "B", "bias")
    assert program.output_names == ["C2"]
    assert len(program.kernels) == 1
    bound = optimize_and_compile(SEED_GEMM, dims={"M": 9}, constants={"bias": bias, "B": b}, threads=1)
    assert bound.arguments == ("A",)
    np.testing.assert_array_equal(bound(a), result)


def test_json_and_text_forms() -> None:
    model = parse_frontend(SEED_GEMM)
    assert parse_frontend(model.to_json()) == model
    assert parse_frontend(json.loads(model.to_json())) == model
    assert str(model).splitlines() == [
        "model(A: fp16[M, K], B: fp16[K, N], bias: fp16[N])",
        "  C0 = GEMM(A, B, acc_dtype=fp32)",
        "  C1 = Elementwise.add(C0, bias)",
        "  C2 = Elementwise.relu(C1)",
        "  return C2: fp16[M, N]",
    ]


X4 = normal(2, 4, 7, 6)
CASES: list[tuple[str, dict[str, np.ndarray], str | None, dict[str, Any], Any]] = [
    ("GEMM", {"a": normal(4, 3), "b": normal(5, 4)}, None, {"trans_a": True, "trans_b": True, "alpha": 0.5},
     lambda a, b: 0.5 * (a.T @ b.T)),
    ("GEMM", {"a": normal(3, 4), "b": normal(4, 5), "c": normal(5)}, None, {"beta": 2},
     lambda a, b, c: a @ b + 2 * c),
    ("MatMul", {"a": normal(2, 3, 4), "b": normal(4, 5)}, None, {}, lambda a, b: a @ b),
    ("Conv", {"x": X4, "w": normal(6, 2, 3, 3), "b": normal(6)}, None,
     {"stride": [2, 1], "pad": [[1, 2], [0, 1]], "dilation": 2, "groups": 2},
     lambda x, w, b: nn_numpy.conv2d(x, w, b, (2, 1), [(1, 2), (0, 1)], (2, 2), 2)),
    ("BatchNorm", {"x": X4, "s": normal(4), "b": normal(4), "m": normal(4), "v": normal(4) ** 2}, None, {"eps": 1e-3},
     lambda *arrays: nn_numpy.batch_norm(*arrays, eps=1e-3)),
    ("LayerNorm", {"x": normal(3, 4, 5), "w": normal(4, 5), "b": normal(4, 5)}, None, {"axis": 1},
     lambda x, w, b: nn_numpy.layer_norm(x, w, b, (1, 2))),
    ("LRN", {"x": X4}, None, {"size": 3, "alpha": 0.1, "beta": 0.5, "bias": 2.0},
     lambda x: nn_numpy.local_response_norm(x, 3, 0.1, 0.5, 2.0)),
    ("Attention", {"q": normal(1, 2, 5, 4), "k": normal(1, 2, 5, 4), "v": normal(1, 2, 5, 3)}, None, {"causal": True},
     lambda q, k, v: nn_numpy.attention(q, k, v, nn_numpy.causal(5))),
    ("Attention", {"q": normal(1, 2, 5, 4), "k": normal(1, 2, 6, 4), "v": normal(1, 2, 6, 4), "m": normal(5, 6)}, None,
     {}, lambda *qkvm: nn_numpy.attention(*qkvm)),
    ("Softmax", {"x": normal(3, 4, 5)}, None, {"axis": 1}, lambda x: nn_numpy.softmax(x, 1)),
    ("Softmax", {"x": normal(3, 4, 5)}, None, {"axis": 1, "flatten": True},
     lambda x: nn_numpy.softmax(x.reshape(3, 20)).reshape(3, 4, 5)),
    ("Elementwise", {"a": normal(3, 4), "b": normal(4)}, "add", {}, lambda a, b: a + b),
    ("Elementwise", {"a": normal(3), "b": normal(3), "c": normal(3)}, "max", {}, lambda *x: np.maximum.reduce(x)),
    ("Elementwise", {"a": normal(3, 4), "b": normal(3, 1)}, "div", {}, lambda a, b: a / b),
    ("Elementwise", {"x": normal(9)}, "silu", {}, lambda x: x / (1 + np.exp(-x))),
    ("Elementwise", {"x": normal(9)}, "gelu", {}, nn_numpy.gelu),
    ("Elementwise", {"x": normal(9)}, "cast", {"to": "i32"}, lambda x: x.astype(np.int32)),
    ("Reduce", {"x": normal(3, 4, 5)}, "sum", {"axes": [0, 2]}, lambda x: x.sum((0, 2))),
    ("Reduce", {"x": normal(3, 4, 5)}, "mean", {"axes": -1, "keepdims": True}, lambda x: x.mean(-1, keepdims=True)),
    ("Reduce", {"x": normal(3, 4)}, "max", {}, lambda x: x.max()),
    ("ArgReduce", {"x": normal(3, 4)}, "max", {"axis": 1}, lambda x: x.argmax(1)),
    ("ArgReduce", {"x": normal(3, 4)}, "min", {"keepdims": True}, lambda x: x.argmin(0, keepdims=True)),
    ("Pool", {"x": X4}, "max", {"kernel": [3, 2], "stride": 2, "pad": 1},
     lambda x: nn_numpy.max_pool(x, (3, 2), (2, 2), [(1, 1)] * 2)),
    ("Pool", {"x": X4}, "avg", {"kernel": 3, "stride": [1, 2], "pad": [1, 1]},
     lambda x: nn_numpy.average_pool(x, (3, 3), (1, 2), [(1, 1)] * 2)),
    ("GlobalPool", {"x": X4}, "avg", {}, lambda x: x.mean((2, 3), keepdims=True)),
    ("Reshape", {"x": X4}, None, {"shape": [0, -1, 2]}, lambda x: x.reshape(2, -1, 2)),
    ("Flatten", {"x": X4}, None, {"axis": -2}, lambda x: x.reshape(8, 42)),
    ("Flatten", {"x": X4}, None, {"axis": 4}, lambda x: x.reshape(-1, 1)),
    ("Squeeze", {"x": normal(1, 3, 1)}, None, {}, lambda x: x.reshape(3)),
    ("Squeeze", {"x": normal(1, 3, 1)}, None, {"axes": [-1]}, lambda x: x.reshape(1, 3)),
    ("Unsqueeze", {"x": normal(3, 4)}, None, {"axes": [-1, 0]}, lambda x: x.reshape(1, 3, 4, 1)),
    ("Transpose", {"x": normal(2, 3, 4)}, None, {"perm": [1, 2, 0]}, lambda x: x.transpose(1, 2, 0)),
    ("Transpose", {"x": normal(2, 3, 4)}, None, {}, lambda x: x.T),
    ("Concat", {"a": normal(2, 3), "b": normal(2, 1), "c": normal(2, 2)}, None, {"axis": -1},
     lambda *x: np.concatenate(x, -1)),
    ("Cast", {"x": normal(3)}, None, {"to": "fp16"}, lambda x: x.astype(np.float16)),
    ("Unpack", {"x": np.asarray([0x21, 0x87, 0xFE], np.uint8)}, None, {"bits": 4, "shape": [5]},
     lambda x: np.asarray([1, 2, 7, 8, 14], np.uint8)),
    ("Unpack", {"x": np.asarray([0x21, 0x87, 0xFE], np.uint8)}, None, {"bits": 4, "shape": [2, 3], "signed": True},
     lambda x: np.asarray([[1, 2, 7], [-8, -2, -1]], np.int8)),
    ("Unpack", {"x": np.asarray([0b11_10_01_00], np.uint8)}, None, {"bits": 2, "shape": [4], "signed": True},
     lambda x: np.asarray([0, 1, -2, -1], np.int8)),
    ("Identity", {"x": normal(3)}, None, {}, lambda x: x),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "inputs", "fn", "attrs", "meaning"), CASES, ids=[f"{case[0]}-{case[2]}" for case in CASES]
)
def test_every_op_is_what_it_says(
    op: str, inputs: dict[str, np.ndarray], fn: str | None, attrs: dict[str, Any], meaning: Any
) -> None:
    actual, expected = play(graph(op, inputs, fn, **attrs), inputs), meaning(*inputs.values())
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_every_op_is_tested() -> None:
    assert {case[0] for case in CASES} == set(supported_ops())


@pytest.mark.parametrize("op", ["Conv", "LayerNorm", "Attention"])
def test_some_ops_compiled(op: str) -> None:
    _, inputs, fn, attrs, meaning = next(case for case in CASES if case[0] == op)
    program = optimize_and_compile(graph(op, inputs, fn, **attrs), threads=1)
    np.testing.assert_allclose(program(**inputs), meaning(*inputs.values()), rtol=1e-4, atol=1e-5)


# what is wrong


def broken(change: Any) -> EqsatError:
    """The error of the seed's example after a change."""
    document = json.loads(SEED_GEMM)
    change(document)
    with pytest.raises(EqsatError) as caught:
        read_model(document).bind({"M": 2, "N": 3, "K": 4}, False)
    return caught.value


def node(document: dict[str, Any], position: int = 0) -> dict[str, Any]:
    results: dict[str, Any] = document["graph"][position]
    return results


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.pop("signature"), "signature"),
        (lambda d: d["signature"].update(outputs=[]), "no outputs"),
        (lambda d: d["signature"].update(outputs=[{"tensor": "nope"}]), "no node computes"),
        (lambda d: d["signature"].update(outputs=[{"tensor": ""}]), "no node computes"),
        (lambda d: d["signature"]["inputs"].append({"tensor": "A"}), "twice"),
        (lambda d: d["signature"]["inputs"].append({"tensor": "Z"}), "no entry in tensors"),
        (lambda d: d["signature"]["inputs"][0].update(role="king"), "role"),
        (lambda d: d["tensors"]["A"].update(shape=[-1, "K"]), "-1"),
        (lambda d: d["tensors"]["A"].update(shape=[2**70, "K"]), "neither a size"),
        (lambda d: d["tensors"]["A"].update(shape=["", "K"]), "symbol"),
        (lambda d: d["tensors"]["A"].update(shape=[1.5, "K"]), "shape"),
        (lambda d: d["tensors"]["A"].update(shape="MK"), "shape"),
        (lambda d: node(d).update(inputs=["A", "D"]), "'D', which no node computes"),
        (lambda d: node(d).update(inputs=["A", "C1"]), "before it is computed"),
        (lambda d: node(d).update(inputs=["A", "C0"]), "before it is computed"),
        (lambda d: node(d).update(outputs=["A"]), "twice"),
        (lambda d: node(d, 1).update(outputs=["C0"]), "twice"),
        (lambda d: node(d).update(outputs=[]), "has no output"),
        (lambda d: node(d).update(inputs=["A"]), "'b' is missing"),
        (lambda d: node(d).update(inputs=["A", ""]), "'b' is missing"),
        (lambda d: node(d).update(inputs=["A", "B", "bias", "bias"]), "takes 2 to 3 inputs"),
        (lambda d: node(d).update(attrs={"transA": 1}), "'transA'"),
        (lambda d: node(d).update(attrs={"trans_a": "yes"}), "trans_a"),
        (lambda d: node(d).update(attrs={"alpha": None}), "alpha"),
        (lambda d: node(d).update(fn="add"), "'fn'"),
        (lambda d: node(d, 1).pop("fn"), "'fn'"),
        (lambda d: node(d, 2).update(inputs=["C1", "C1"]), "1 operand,"),
        (lambda d: node(d).pop("name"), "name"),
        (lambda d: d.update(graph={}), "graph"),
        (lambda d: node(d).update(op="Identity", inputs=["A", "B"]), "takes 1"),
    ],
)
def test_a_malformed_graph_says_what_is_wrong(change: Any, says: str) -> None:
    error = broken(change)
    assert error.kind is Kind.MALFORMED_GRAPH
    assert says in str(error)


def test_errors_have_kinds_and_places() -> None:
    unknown = broken(lambda d: node(d).update(op="Gem"))
    assert unknown.kind is Kind.UNSUPPORTED_OP
    assert unknown.diagnostics[0].at == "gemm"
    assert "did you mean 'GEMM'" in str(unknown)
    assert "LayerNorm" in str(unknown)
    function = broken(lambda d: node(d, 2).update(fn="rely"))
    assert function.kind is Kind.UNSUPPORTED_OP
    assert "gelu" in str(function)
    assert broken(lambda d: d["tensors"]["A"].update(dtype="fp7")).kind is Kind.DTYPE_MISMATCH
    assert broken(lambda d: node(d).update(attrs={"acc_dtype": "fp16"})).kind is Kind.UNSUPPORTED_OP
    assert broken(lambda d: d["tensors"]["C2"].update(dtype="fp32")).kind is Kind.DTYPE_MISMATCH
    assert broken(lambda d: d["tensors"]["C2"].update(shape=["N", "M"])).kind is Kind.AXIS_SIZE_MISMATCH
    contracted = broken(lambda d: d["tensors"]["B"].update(shape=["M", "N"]))
    assert contracted.kind is Kind.AXIS_SIZE_MISMATCH
    assert contracted.diagnostics[0].at == "gemm"
    second = broken(lambda d: (node(d).update(outputs=["C0", "aux"]), node(d, 2).update(inputs=["aux"])))
    assert second.kind is Kind.UNSUPPORTED_OP
    assert "not computed" in str(second)


@pytest.mark.parametrize(
    "text", ["", "{", '{"signature": }', '{"signature": 1}', '{"graph": []}', "[]", '{"signature":{},"signature":{}}']
)
def test_broken_json_is_malformed(text: str) -> None:
    with pytest.raises(EqsatError) as caught:
        parse_frontend(text)
    assert caught.value.kind is Kind.MALFORMED_GRAPH


VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2, 7, 2**31, 2**80, 1.5, "", "A", "M", "fp16", "relu", "add", "GEMM", "Conv", "Softmax",
    "Reshape", "Concat", [], [1], [0, 1], ["A", "B"], ["M", "K"], [[1, 1], [0, 0]], {}, {"axis": 3}, {"to": "fp32"},
)  # fmt: skip


def mutate(document: Any, rng: random.Random) -> None:
    """Replace, drop or duplicate something at a random place."""
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(place[key], dict | list) and rng.random() < 0.95:
            place = place[key]
            continue
        match rng.randrange(4):
            case 0:
                del place[key]
            case 1 if isinstance(place, list):
                place.append(copy.deepcopy(place[key]))
            case _:
                place[key] = copy.deepcopy(rng.choice(VALUES))
        return


@pytest.mark.slow
def test_only_eqsat_errors_come_out_of_mutated_graphs() -> None:
    sources = [json.loads(SEED_GEMM)] + [graph(op, inputs, fn, **attrs) for op, inputs, fn, attrs, _ in CASES]
    bound = 0
    for seed in range(6000):
        rng = random.Random(seed)
        document = copy.deepcopy(rng.choice(sources))
        for _ in range(rng.choice((1, 1, 2))):
            mutate(document, rng)
        try:
            read_model(document).bind({"M": 2, "N": 3, "K": 4}, False)
            bound += 1
        except EqsatError as error:
            json.dumps(error.to_json())
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__} {error}: {json.dumps(document)}")
    assert bound > 400, "some mutants are still programs"
