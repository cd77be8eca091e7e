"""Every kind of error that a Tiny program can cause, each from bad input as a person might write it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ir.diagnostics import EqsatError, Kind
from ir.tiny.bind import infer_dims, load
from ir.tiny.graph import Graph, Imm, Node, verify
from ir.tiny.parse import document_of, parse
from ir.tiny.playback import playback
from ir.uop.table import Arg
from tests.support.fuzz.strategies import random_graph


def x(dtype: str = "fp32", shape: tuple[Any, ...] = (4, 6), name: str = "x") -> dict[str, Any]:
    return {"id": name, "uop": "INPUT", "arg": {"tensor_id": name, "dtype": dtype, "shape": list(shape)}}


def u(uop: str, *src: Any, **arg: Any) -> dict[str, Any]:
    return {"id": "y", "uop": uop, "src": list(src), "arg": arg}


def program(*uops: Any, **more: Any) -> dict[str, Any]:
    return {"uops": list(uops), **more}


M = Kind.MALFORMED_GRAPH
CASES: Mapping[str, tuple[Kind, Any]] = {
    "truncated": (M, '{"uops": [{"id": "x", "uop": "INP'),
    "empty text": (M, ""),
    "a list": (M, "[1, 2]\n"),
    "no such file": (M, "/nowhere/program.json"),
    "a folder": (M, "/tmp"),
    "key twice": (M, '{"uops": [], "uops": []}'),
    "nested too deep": (M, '{"uops": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    "no uops": (M, {}),
    "nothing": (M, program()),
    "only inputs": (M, program(x())),
    "unknown key": (M, program(x(), {**u("NEG", "x"), "out": "C"})),
    "uops no list": (M, {"uops": 3}),
    "uop no object": (M, program(7)),
    "no id": (M, program({"uop": "NEG", "src": []})),
    "reserved id": (M, program({**x(), "id": "inf"})),
    "id half a character": (M, program({**x(), "id": "\ud800"})),
    "tag half a character": (M, program(x(), {**u("NEG", "x"), "tag": "\ud800"})),
    "tensor without a name": (M, program({**x(name=""), "id": "x"}, u("NEG", "x"))),
    "tensor half a character": (M, program({**x(name="\ud800"), "id": "x"}, u("NEG", "x"))),
    "id no string": (M, program({**x(), "id": ["x"]})),
    "uop no name": (M, program({"id": "a", "uop": 3})),
    "unknown uop": (Kind.UNKNOWN_UOP, program(x(), u("REDUCES", "x"))),
    "arg no object": (M, program(x(), {**u("NEG", "x"), "arg": [1]})),
    "tag no string": (M, program(x(), {**u("NEG", "x"), "tag": 1})),
    "src no list": (M, program(x(), {**u("NEG"), "src": "x"})),
    "operand no id": (M, program(x(), u("NEG", {"id": "x"}))),
    "dangling id": (M, program(x(), u("NEG", "z"))),
    "duplicate ids": (M, program(x(), x(), u("NEG", "x"))),
    "cycle": (M, program(u("ADD", "z", 1), {**u("NEG", "y"), "id": "z"})),
    "self": (M, program(u("NEG", "y"))),
    "dangling output": (M, program(x(), u("NEG", "x"), outputs=["z"])),
    "outputs no list": (M, program(x(), u("NEG", "x"), outputs="y")),
    "no output": (M, program(x(), u("NEG", "x"), outputs=[])),
    "dims no object": (M, program(x(), u("NEG", "x"), dims=[1])),
    "dim negative": (M, program(x(), u("NEG", "x"), dims={"M": -1})),
    "dim no integer": (M, program(x(), u("NEG", "x"), dims={"M": 2.5})),
    "too few operands": (M, program(x(), u("ADD", "x"))),
    "too many operands": (M, program(x(), u("NEG", "x", "x"))),
    "immediate moved": (M, program(x(), u("RESHAPE", 1.0, result_shape=[1]))),
    "immediate reduced": (M, program(x(), u("REDUCE", 1.0, op="SUM", axes=["M"], dtype="fp32"))),
    "immediates alone": (M, program(x(), u("ADD", 1, 2))),
    "immediate of another dtype": (Kind.DTYPE_MISMATCH, program(x("i32"), u("ADD", "x", 0.5))),
    "immediate too large": (Kind.DTYPE_MISMATCH, program(x("u8"), u("ADD", "x", 256))),
    "immediate NaN integer": (Kind.DTYPE_MISMATCH, program(x("i32"), u("MAX", "x", "nan"))),
    "immediate not bool": (Kind.DTYPE_MISMATCH, program(x("bool"), u("AND", "x", 2))),
    "missing attribute": (M, program(x(), u("PERMUTE", "x"))),
    "unknown attribute": (M, program(x(), u("NEG", "x", axis=0))),
    "attribute of another kind": (M, program(x(), u("PERMUTE", "x", perm="10"))),
    "size no integer": (M, program(x(), u("RESHAPE", "x", result_shape=[2.5, 2]))),
    "size huge": (M, program(x(shape=(10**30,)), u("NEG", "x"))),
    "elements huge": (Kind.RESOURCE_EXCEEDED, program(x(shape=(2**40, 2**40)), u("NEG", "x"))),
    "size negative": (Kind.AXIS_SIZE_MISMATCH, program(x(shape=(-3,)), u("NEG", "x"))),
    "symbol an expression": (M, program(x(shape=("2*M",)), u("NEG", "x"))),
    "dtype unknown": (Kind.DTYPE_MISMATCH, program(x("fp8"), u("NEG", "x"))),
    "reduction unknown": (M, program(x(), u("REDUCE", "x", op="MEAN", axes=[0], dtype="fp32"))),
    "axis outside": (M, program(x(), u("REDUCE", "x", op="SUM", axes=[2], dtype="fp32"))),
    "axis twice": (M, program(x(), u("REDUCE", "x", op="SUM", axes=[1, -1], dtype="fp32"))),
    "no axis": (M, program(x(), u("REDUCE", "x", op="SUM", axes=[], dtype="fp32"))),
    "axis name unknown": (M, program(x(), u("REDUCE", "x", op="SUM", axes=["K"], dtype="fp32"))),
    "axis name on two axes": (
        M,
        program(x(shape=("M", "M")), u("REDUCE", "x", op="SUM", axes=["M"], dtype="fp32"), dims={"M": 2}),
    ),
    "no accumulator": (Kind.ACC_DTYPE_MISSING, program(x(), u("REDUCE", "x", op="SUM", axes=[0]))),
    "no scan accumulator": (Kind.ACC_DTYPE_MISSING, program(x(), u("CUMSUM", "x", axis=0))),
    "float sum in integers": (
        Kind.DTYPE_MISMATCH,
        program(x(), u("REDUCE", "x", op="SUM", axes=[0], dtype="i32")),
    ),
    "reshape of the wrong size": (Kind.AXIS_SIZE_MISMATCH, program(x(), u("RESHAPE", "x", result_shape=[5, 5]))),
    "reshape not whole": (Kind.AXIS_SIZE_MISMATCH, program(x(), u("RESHAPE", "x", result_shape=[-1, 5]))),
    "perm twice": (Kind.INVALID_PERMUTATION, program(x(), u("PERMUTE", "x", perm=[0, 0]))),
    "perm short": (Kind.INVALID_PERMUTATION, program(x(), u("PERMUTE", "x", perm=[0]))),
    "expand of 4": (Kind.BROADCAST_MISMATCH, program(x(), u("EXPAND", "x", result_shape=[8, 6]))),
    "expand to fewer axes": (Kind.BROADCAST_MISMATCH, program(x(), u("EXPAND", "x", result_shape=[6]))),
    "expand listed wrongly": (
        Kind.BROADCAST_MISMATCH,
        program(x(shape=(4, 1)), u("EXPAND", "x", result_shape=[4, 3], broadcast_dimensions=[1])),
    ),
    "operands differ": (Kind.BROADCAST_MISMATCH, program(x(), x(shape=(4, 5), name="z"), u("MUL", "x", "z"))),
    "operands misaligned": (Kind.BROADCAST_MISMATCH, program(x(), x(shape=(4,), name="z"), u("MUL", "x", "z"))),
    "operands differ in dtype": (
        Kind.DTYPE_MISMATCH,
        program(x(), x("i32", name="z"), u("MUL", "x", "z")),
    ),
    "condition no bool": (Kind.DTYPE_MISMATCH, program(x(), u("WHERE", "x", "x", 0))),
    "root of an integer": (Kind.DTYPE_MISMATCH, program(x("i32"), u("SQRT", "x"))),
    "division of floats by IDIV": (Kind.DTYPE_MISMATCH, program(x(), u("IDIV", "x", 2))),
    "sum of bool": (Kind.DTYPE_MISMATCH, program(x("bool"), u("ADD", "x", True))),
    "pad short": (M, program(x(), u("PAD", "x", pad=[[0, 1]]))),
    "pad no pair": (M, program(x(), u("PAD", "x", pad=[[0], [1]]))),
    "pad negative": (Kind.AXIS_SIZE_MISMATCH, program(x(), u("PAD", "x", pad=[[0, 0], [-1, 0]]))),
    "pad value of another dtype": (
        Kind.DTYPE_MISMATCH,
        program(x("i32"), u("PAD", "x", pad=[[0, 0], [1, 0]], value=0.5)),
    ),
    "shrink outside": (Kind.AXIS_SIZE_MISMATCH, program(x(), u("SHRINK", "x", lo=[0, 0], hi=[4, 7]))),
    "shrink backwards": (
        Kind.NEGATIVE_STRIDE_UNSUPPORTED,
        program(x(), u("SHRINK", "x", lo=[0, 0], hi=[4, 6], step=[1, -1])),
    ),
    "shrink standing": (M, program(x(), u("SHRINK", "x", lo=[0, 0], hi=[4, 6], step=[0, 1]))),
    "flip twice": (M, program(x(), u("FLIP", "x", axes=[0, 0]))),
    "window too large": (Kind.AXIS_SIZE_MISMATCH, program(x(), u("POOL", "x", kernel=[7]))),
    "window empty": (Kind.AXIS_SIZE_MISMATCH, program(x(), u("POOL", "x", kernel=[0]))),
    "stride short": (M, program(x(), u("POOL", "x", kernel=[2, 2], stride=[1]))),
    "view backwards": (
        Kind.NEGATIVE_STRIDE_UNSUPPORTED,
        program(x(), u("VIEW", "x", result_shape=[4, 6], index_map={"x0": "3 - i0", "x1": "i1"})),
    ),
    "view out of bounds": (
        Kind.AXIS_SIZE_MISMATCH,
        program(x(), u("VIEW", "x", result_shape=[4, 6], index_map=["i0 + 1", "i1"])),
    ),
    "view of an empty axis": (
        Kind.AXIS_SIZE_MISMATCH,
        program(x(shape=(0,)), u("VIEW", "x", result_shape=[2], index_map=["i0"])),
    ),
    "view by products beyond 64 bits": (
        Kind.RESOURCE_EXCEEDED,
        program(x(shape=(16,)), u("VIEW", "x", result_shape=[16], index_map=[f"({2**61 + 1}*i0)//{2**62}"])),
    ),
    "view by sums beyond 64 bits": (
        Kind.RESOURCE_EXCEEDED,
        program(x(shape=(2,)), u("VIEW", "x", result_shape=[2, 2], index_map=[f"{2**62}*i0 - {2**62}*(i1//2)"])),
    ),
    "view by a huge divisor": (
        Kind.RESOURCE_EXCEEDED,
        program(x(shape=(1,)), u("VIEW", "x", result_shape=[2], index_map=[f"(5*i0)//{2**63}"])),
    ),
    "view of two axes by one": (M, program(x(), u("VIEW", "x", result_shape=[4], index_map=["i0"]))),
    "view not affine": (M, program(x(), u("VIEW", "x", result_shape=[2, 2], index_map=["i0*i1", "i1"]))),
    "view by a gap": (M, program(x(), u("VIEW", "x", result_shape=[4], index_map={"x0": "i0", "x2": "0"}))),
    "gather by floats": (Kind.DTYPE_MISMATCH, program(x(), u("GATHER", "x", "x", axis=0))),
    "gather of another rank": (
        Kind.AXIS_SIZE_MISMATCH,
        program(x(), x("i32", (4,), "z"), u("GATHER", "x", "z", axis=0)),
    ),
    "gather beyond": (
        Kind.AXIS_SIZE_MISMATCH,
        program(x(), x("i32", (2, 7), "z"), u("GATHER", "x", "z", axis=0)),
    ),
    "gather of nothing": (
        Kind.AXIS_SIZE_MISMATCH,
        program(x(shape=(0, 6)), x("i32", (2, 6), "z"), u("GATHER", "x", "z", axis=0)),
    ),
    "scatter by floats": (Kind.DTYPE_MISMATCH, program(x(), u("SCATTER", "x", "x", "x", axis=0, op="SUM"))),
    "scatter of another dtype": (
        Kind.DTYPE_MISMATCH,
        program(x(), x("i32", (2, 6), "z"), u("SCATTER", "x", "z", "z", axis=0, op="SUM")),
    ),
    "scatter of a smaller index": (
        Kind.AXIS_SIZE_MISMATCH,
        program(x(), x("i32", (4, 5), "z"), x("fp32", (4, 5), "w"), u("SCATTER", "x", "z", "w", axis=0, op="SUM")),
    ),
    "scatter of other updates": (
        Kind.AXIS_SIZE_MISMATCH,
        program(x(), x("i32", (3, 6), "z"), u("SCATTER", "x", "z", "x", axis=0, op="SUM")),
    ),
    "scatter by no combination": (
        M,
        program(x(), x("i32", (4, 6), "z"), u("SCATTER", "x", "z", "x", axis=0, op="MEAN")),
    ),
    "unbound": (Kind.UNBOUND_DIM, program(x(shape=("M", 6)), u("NEG", "x"))),
    "unbound pad": (Kind.UNBOUND_DIM, program(x(), u("PAD", "x", pad=[["p", 0], [0, 0]]))),
    "one tensor, two shapes": (
        M,
        program(x(), {**x(shape=(6, 4)), "id": "z"}, u("NEG", "x"), {**u("NEG", "z"), "id": "w"}),
    ),
    "dump without tensors": (M, {"ops": []}),
    "dump with an unknown op": (
        Kind.UNKNOWN_UOP,
        {"tensors": {}, "ops": [{"op": "Conv", "name": "c", "inputs": [], "outputs": ["C"]}]},
    ),
    "dump with two outputs": (M, {"tensors": {}, "ops": [{"op": "Unary", "inputs": [], "outputs": ["a", "b"]}]}),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_program(name: str) -> None:
    kind, source = CASES[name]
    with pytest.raises(EqsatError) as caught:
        load(source)
    assert caught.value.kind is kind, str(caught.value)
    result = caught.value.to_json()["diagnostics"][0]
    assert result["kind"] == kind.value
    assert result["at"]
    json.dumps(result)


def test_strict_refuses_what_the_loader_would_insert() -> None:
    shapes = program(x(), x(shape=(6,), name="z"), u("MUL", "x", "z"))
    widths = program(x(), x("fp16", name="z"), u("MUL", "x", "z"))
    assert [note.kind for note in load(shapes)[1]] == [Kind.BROADCAST_MISMATCH] * 2
    assert [note.kind for note in load(widths)[1]] == [Kind.DTYPE_MISMATCH]
    for source, kind in ((shapes, Kind.BROADCAST_MISMATCH), (widths, Kind.DTYPE_MISMATCH)):
        with pytest.raises(EqsatError) as caught:
            load(source, strict=True)
        assert caught.value.kind is kind


def test_no_cast_but_the_widening_one() -> None:
    for a, b in (("fp16", "bf16"), ("fp32", "fp64"), ("fp16", "fp64"), ("i32", "i64"), ("i32", "fp32")):
        with pytest.raises(EqsatError, match="DtypeMismatch"):
            load(program(x(a), x(b, name="z"), u("MUL", "x", "z")))


def test_the_message_says_where_and_what() -> None:
    with pytest.raises(EqsatError) as caught:
        load(program(x(shape=("M", "K")), x(shape=("M", "N"), name="z"), u("MUL", "x", "z")), {"M": 2, "K": 3, "N": 4})
    text, record = str(caught.value), caught.value.to_json()["diagnostics"][0]
    assert "Binary(mul) `y`" in text
    assert "lhs_shape = [M, K]" in text
    assert record["at_op"] == "Binary(mul)"
    assert (record["lhs_shape"], record["rhs_shape"]) == (["M", "K"], ["M", "N"])


def test_hints_name_what_was_meant() -> None:
    with pytest.raises(EqsatError, match="did you mean REDUCE"):
        load(program(x(), u("reduce", "x")))
    with pytest.raises(EqsatError, match="did you mean 'xs1'"):
        load(program(x(name="xs1"), u("NEG", "xs2")))
    with pytest.raises(EqsatError, match="line 3, column 5"):
        parse('{"uops": [ // a comment\n  {"id": "x",\n    oops}]}')
    with pytest.raises(EqsatError, match=r"missing = \[M, K\]"):
        load(program(x(shape=("M", "K", 2)), u("NEG", "x")))
    with pytest.raises(EqsatError, match=r"cycle = \[y, z\]"):
        load(CASES["cycle"][1])


def test_messages_name_the_operation_and_what_is_wrong_only() -> None:
    wrong = CASES["float sum in integers"][1], CASES["view of an empty axis"][1], program(x(), u("CAST", "x", to="fp8"))
    for source, words in zip(wrong, ("Reduce(sum) `y`", "reads an empty axis", "Cast `y`"), strict=True):
        with pytest.raises(EqsatError) as caught:
            load(source)
        assert words in str(caught.value)
    with pytest.raises(EqsatError, match="inputs are unknown") as caught:
        infer_dims(parse(program(x(), u("NEG", "x"))), {"x": (4, 6), "z": ()})
    assert "missing" not in str(caught.value)
    with pytest.raises(EqsatError) as caught:
        load(CASES["tensor half a character"][1])
    str(caught.value).encode()


def test_the_greatest_bool_so_far_is_a_bool() -> None:
    graph, _ = load(program(x("bool"), u("CUMMAX", "x", axis=1, dtype="bool")))
    array = np.random.default_rng(0).integers(0, 2, (4, 6)).astype(bool)
    np.testing.assert_array_equal(playback(graph, {"x": array})[0], np.maximum.accumulate(array, 1))
    for uop in ("CUMSUM", "CUMPROD"):
        with pytest.raises(EqsatError, match="integers and bool in integers"):
            load(program(x("bool"), u(uop, "x", axis=1, dtype="bool")))


def test_inputs_at_a_call() -> None:
    graph, _ = load(program(x(), u("NEG", "x")))
    good = np.zeros((4, 6), np.float32)
    for bad in ({}, {"x": good, "z": good}, {"x": good[:3]}, {"x": good.astype(np.float64)}, {"x": good[0]}):
        with pytest.raises(EqsatError, match="InputMismatch"):
            playback(graph, bad)
    playback(graph, {"x": good.astype(np.float64)}, wide=True)


def test_shapes_at_a_call() -> None:
    source = parse(program(x(shape=("M", "K")), x(shape=("K", 2), name="z"), u("NEG", "x")))
    assert infer_dims(source, {"x": (3, 5), "z": (5, 2)}) == {"M": 3, "K": 5}
    bad: list[tuple[Kind, dict[str, tuple[int, ...]]]] = [
        (Kind.AXIS_SIZE_MISMATCH, {"x": (3, 5), "z": (4, 2)}),
        (Kind.INPUT_MISMATCH, {"x": (3, 5), "z": (5, 3)}),
        (Kind.INPUT_MISMATCH, {"x": (3, 5, 1), "z": (5, 2)}),
        (Kind.INPUT_MISMATCH, {"x": (3, 5)}),
        (Kind.INPUT_MISMATCH, {"x": (3, 5), "z": (5, 2), "w": ()}),
    ]
    for kind, shapes in bad:
        with pytest.raises(EqsatError) as caught:
            infer_dims(source, shapes)
        assert caught.value.kind is kind


def test_graphs_built_by_hand_are_checked() -> None:
    a = Node("a", "INPUT", (), Arg(tensor_id="A", dtype="fp32", shape=(2,)))
    bad = (
        [a, Node("b", "NEGATE", ("a",))],
        [a, Node("b", "NEG", ("c",))],
        [Node("b", "NEG", ("a",)), a],
        [a, a],
        [a, Node("b", "RESHAPE", ("a",), Arg(result_shape=("M",)))],
        [a, Node("b", "ADD", ("a", Imm(10**400)))],
    )
    for nodes in bad:
        with pytest.raises(EqsatError):
            Graph.build(nodes)
    good = Graph.build([a, Node("b", "NEG", ("a",))])
    verify(good)
    with pytest.raises(EqsatError, match="types"):
        verify(Graph(good.nodes, good.outputs, {**good.types, "b": good.types["b"].of("fp16", (2,))}))


JUNK: Sequence[Any] = (
    *(None, -1, 0, 1, 7, 2.5, True, "", "x", "M", "inf", "fp16", [], {}, [0], [[0, 1]], [-1], {"x0": "i0"}, 10**40),
)


PROGRAMS = Path(__file__).parents[3] / "eqsat" / "programs"


def sizes(document: dict[str, Any]) -> dict[str, int]:
    """1 for every symbol; padding by 1 makes the convolution's rows and columns 3, which is left to be inferred."""
    return {symbol: 1 for symbol in parse(document).symbols if symbol not in ("Oy", "Ox")}


def written_programs() -> list[dict[str, Any]]:
    """The seeds' programs and their older dump, with sizes for all symbols."""
    results = [document_of((PROGRAMS / f"{name}.json").read_text()) for name in ("gemm", "conv2d", "attention")]
    dump = json.loads((PROGRAMS / "attention_dump.json").read_text())
    rows = {"Q": "M", "K": "N", "V": "N"}
    dump["tensors"] = {name: {"dtype": "fp16", "shape": ["B", "H", row, "D"]} for name, row in rows.items()}
    return [{**document, "dims": sizes(document)} for document in (*results, dump)]


@pytest.mark.slow
def test_mutated_programs_give_a_graph_or_an_eqsat_error() -> None:
    """Junk at any place of a valid program's JSON never ends in another exception."""
    refused = accepted = 0
    written = written_programs()
    for document in written:
        load(document)
    for seed in range(2000):
        rng = np.random.default_rng(seed)
        document = copy.deepcopy(written[seed % 4] if seed % 3 == 0 else random_graph(rng, 6).to_json())
        places: list[Callable[[Any], None]] = []
        _collect(document, places)
        for _ in range(int(rng.integers(1, 3))):
            places[int(rng.integers(len(places)))](JUNK[int(rng.integers(len(JUNK)))])
        try:
            graph, _ = load(document)
            verify(graph)
            accepted += 1
        except EqsatError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {document}") from error
    assert refused > 300
    assert accepted > 20


def _collect(value: Any, places: list[Callable[[Any], None]]) -> None:
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in keys:
        places.append(partial(value.__setitem__, key))
        if isinstance(value, dict):
            places.append(partial(_drop, value, key))
        _collect(value[key], places)


def _drop(holder: dict[Any, Any], key: object, _: object) -> None:
    holder.pop(key, None)


def test_a_value_has_at_most_64_axes() -> None:
    def of_rank(rank: int) -> dict[str, object]:
        x = {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": [1] * rank}}
        return {"uops": [x, {"id": "y", "uop": "NEG", "src": ["x"]}]}

    load(of_rank(64))
    with pytest.raises(EqsatError, match="65 axes") as caught:
        load(of_rank(65))
    assert caught.value.kind is Kind.MALFORMED_GRAPH
