"""Programs as people write them: the seeds' own, names and numbers as axes, sizes left to be inferred."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from ir.diagnostics import EqsatError, Kind, Severity
from ir.tiny.bind import bind, free_dims, infer_dims, load
from ir.tiny.graph import Graph, Imm, verify
from ir.tiny.parse import parse
from ir.tiny.playback import playback
from tests.support.fuzz.strategies import tiny_graphs

PROGRAMS = Path(__file__).parents[3] / "eqsat" / "programs"
CONV = {"Kh": 3, "Kw": 3, "pt": 1, "pb": 1, "pl": 1, "pr": 1, "Sh": 2, "Sw": 2, "Dh": 1, "Dw": 1}


def x(*shape: Any, name: str = "x", dtype: str = "fp32") -> dict[str, Any]:
    return {"id": name, "uop": "INPUT", "arg": {"tensor_id": name, "dtype": dtype, "shape": list(shape)}}


def u(uop: str, *src: Any, id: str = "y", **arg: Any) -> dict[str, Any]:
    return {"id": id, "uop": uop, "src": list(src), "arg": arg}


def normal(*shape: int, dtype: Any = np.float16) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(("m", "n", "k"), [(4, 5, 6), (1, 1, 1), (5, 5, 5), (3, 0, 2), (3, 2, 0)])
def test_gemm_of_the_seed(m: int, n: int, k: int) -> None:
    graph, notes = load(PROGRAMS / "gemm.json", {"M": m, "N": n, "K": k})
    a, b = normal(m, k), normal(k, n)
    (c,) = playback(graph, {"A": a, "B": b})
    assert not notes
    assert c.dtype == np.float16
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=4e-3, atol=4e-3)
    assert graph.types["n7"].names == ("M", "N", "K")


@pytest.mark.parametrize("groups", [1, 2])
def test_conv_of_the_seed(groups: int) -> None:
    torch = pytest.importorskip("torch")
    sizes = {"N": 2, "Cin_total": 4, "H": 9, "W": 7, "Cout": 6, "Cin": 4 // groups, **CONV}
    graph, notes = load((PROGRAMS / "conv2d.json").read_text(), sizes)
    image, weight, bias = normal(2, 4, 9, 7), normal(6, 4 // groups, 3, 3), normal(6)
    (y,) = playback(graph, {"X": image, "W": weight, "bias": bias}, wide=True)
    expected = torch.nn.functional.conv2d(
        *(torch.tensor(array.astype(float)) for array in (image, weight, bias)), stride=2, padding=1, groups=groups
    )
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-9, atol=1e-9)
    assert [note.severity for note in notes] == [Severity.NOTE] * 2
    assert graph.types["x1"].names == ("N", "G", "Cin", None, "Oy", "Ox", "Kh", "Kw")


def test_conv_names_what_it_cannot_infer() -> None:
    sizes = {"N": 1, "Cin_total": 4, "H": 9, "W": 7, "Cout": 6, "Cin": 4, **CONV}
    del sizes["Sh"]
    with pytest.raises(EqsatError) as caught:
        load(PROGRAMS / "conv2d.json", sizes)
    assert caught.value.kind is Kind.UNBOUND_DIM
    assert caught.value.diagnostics[0].details["missing"][0] == "Sh"


@pytest.mark.parametrize("m", [3, 4, 1])
def test_attention_of_the_seed_aligns_by_name(m: int) -> None:
    """B = H = M = N = 4 would broadcast wrongly from the right; names keep the row maximum on its rows."""
    graph, notes = load(PROGRAMS / "attention.json", {"B": 4, "H": 4, "M": m, "N": 4, "D": 8})
    q, k = normal(4, 4, m, 8), normal(4, 4, 4, 8)
    (p,) = playback(graph, {"Q": q, "K": k}, wide=True)
    mixed = k.astype(float).transpose(0, 1, 3, 2).reshape(4, 4, 4, 8)  # row-major, as the program says it
    scores = np.einsum("bhmd,bhnd->bhmn", q.astype(float), mixed)
    expected = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(p, expected / expected.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6)
    assert len(notes) == 4


def test_the_older_dump() -> None:
    document = json.loads((PROGRAMS / "attention_dump.json").read_text())
    with pytest.raises(EqsatError, match="tensors"):
        load(document)
    document["tensors"] = {
        name: {"dtype": "fp16", "shape": ["B", "H", rows, "D"]} for name, rows in (("Q", "M"), ("K", "N"), ("V", "N"))
    }
    graph, notes = load(document, {"B": 2, "H": 3, "M": 4, "N": 5, "D": 6})
    q, k, v = normal(2, 3, 4, 6), normal(2, 3, 5, 6), normal(2, 3, 5, 6)
    (o,) = playback(graph, {"Q": q, "K": k, "V": v}, wide=True)
    scores = np.einsum("bhmd,bhnd->bhmn", q.astype(float), k.astype(float))
    p = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("bhmn,bhnd->bhmd", p / p.sum(-1, keepdims=True), v.astype(float))
    np.testing.assert_allclose(o, expected, rtol=1e-9)
    assert {note.kind for note in notes} >= {Kind.ACC_DTYPE_MISSING, Kind.BROADCAST_MISMATCH}


@settings(max_examples=60, deadline=None)
@given(tiny_graphs())
def test_json_comes_back_equal(graph: Graph) -> None:
    verify(graph)
    again, notes = load(json.dumps(graph.to_json()))
    assert again == graph
    assert again.types == graph.types
    assert not notes
    assert load(graph) == (graph, ())


def test_comments_and_immediates() -> None:
    text = """{ // not "here"
      "uops": [
        {"id": "a // b", "uop": "INPUT", "arg": {"tensor_id": "A", "dtype": "float32", "shape": [3]}},
        {"id": "y", "uop": "MAX", "src": ["a // b", "-inf"], "tag": "http://x"},  // last
        {"id": "z", "uop": "ADD", "src": ["y", "nan"]}
      ]}"""
    graph, _ = load(text)
    assert graph["y"].src == ("a // b", Imm(-math.inf))
    assert graph["y"].tag == "http://x"
    assert np.isnan(playback(graph, {"A": np.ones(3, np.float32)})[0]).all()
    assert load(graph.to_json())[0] == graph


def test_readers_may_stand_before_what_they_read() -> None:
    graph, _ = load({"uops": [u("NEG", "a"), u("ABS", "x", id="a"), x(2)]})
    assert [node.id for node in graph.nodes] == ["x", "a", "y"]


def test_deep_programs_load() -> None:
    chain = [u("NEG", f"n{i - 1}" if i else "x", id=f"n{i}") for i in range(3000)]
    graph, _ = load({"uops": [*reversed(chain), x(2)]})
    assert len(graph.nodes) == 3001


def test_outputs_by_default_and_by_list() -> None:
    uops = [x(2), x(3, name="unused"), u("NEG", "x", id="a"), u("ABS", "a", id="b"), u("SQRT", "a", id="c")]
    assert load({"uops": uops})[0].outputs == ("b", "c")
    assert load({"uops": uops, "outputs": ["c", "a", "x", "c"]})[0].outputs == ("c", "a", "x", "c")


@pytest.mark.parametrize(
    ("lhs", "rhs", "expected"),
    [
        ((4, 1), (1, 6), (4, 6)),
        ((2, 4, 6), (6,), (2, 4, 6)),
        ((2, 4, 6), (4, 1), (2, 4, 6)),
        ((2, 4, 6), (), (2, 4, 6)),
        (("M", "N"), ("M",), (4, 4)),
        (("M", "N"), ("N",), (4, 4)),
        (("M", "K", "N"), ("M", "N"), (4, 4, 4)),
        (("M", 6), (6,), (4, 6)),
        ((0, 1), (3,), (0, 3)),
        ((4, 6), ("F",), (4, 6)),
    ],
)
def test_broadcasting(lhs: Any, rhs: Any, expected: tuple[int, ...]) -> None:
    source = {"uops": [x(*lhs), x(*rhs, name="z"), u("SUB", "x", "z")]}
    dims = {"M": 4, "N": 4, "K": 4, "F": 6}
    used = {symbol: dims[symbol] for symbol in (*lhs, *rhs) if isinstance(symbol, str)}
    graph, _ = load(source, used)
    assert graph.types["y"].shape == expected
    a = normal(*(dims.get(size, size) for size in lhs), dtype=np.float32)
    b = normal(*(dims.get(size, size) for size in rhs), dtype=np.float32)
    letters = [size for size in lhs if isinstance(size, str)]
    if len(letters) == len(lhs) and rhs:  # the NumPy way to put named axes in their place
        aligned = b.reshape([dims[size] if size in rhs else 1 for size in lhs])
    else:
        aligned = b
    np.testing.assert_array_equal(playback(graph, {"x": a, "z": b})[0], a - aligned)


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [(("M", "N"), ("K",)), (("M", "M"), ("M",)), (("M", "N", "K"), ("N", "M")), ((4, 6), (4,)), (("M", 6), ("M", 7))],
)
def test_ambiguous_alignments_are_refused(lhs: Any, rhs: Any) -> None:
    with pytest.raises(EqsatError, match="BroadcastMismatch"):
        load(
            {"uops": [x(*lhs), x(*rhs, name="z"), u("SUB", "x", "z")]},
            {symbol: 4 for symbol in (*lhs, *rhs) if isinstance(symbol, str)},
        )


def test_expand_adds_axes_by_right_end_by_list_and_by_name() -> None:
    a = normal(4, 6, dtype=np.float32)
    cases: tuple[tuple[dict[str, Any], np.ndarray], ...] = (
        ({"result_shape": [3, 4, 6]}, np.broadcast_to(a, (3, 4, 6))),
        (
            {"result_shape": [4, 3, 6], "broadcast_dimensions": [0, 2]},
            np.broadcast_to(a[:, None], (4, 3, 6)),
        ),
    )
    for arg, expected in cases:
        graph, notes = load({"uops": [x(4, 6), u("EXPAND", "x", **arg)]})
        np.testing.assert_array_equal(playback(graph, {"x": a})[0], expected)
        assert len(notes) == 1
    graph, _ = load({"uops": [x("M", "K"), u("EXPAND", "x", result_shape=["M", "N", "K"])]}, {"M": 4, "N": 3, "K": 6})
    np.testing.assert_array_equal(playback(graph, {"x": a})[0], np.broadcast_to(a[:, None], (4, 3, 6)))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((4, 6), [4, "A"], (4, 6)),
        ((4, 6), ["A", 2], (12, 2)),
        ((4, 6), [-1], (24,)),
        ((4, 6), ["A", "B"], (4, 6)),
        ((4, 6), ["A", 1, "B", 1], (4, 1, 6, 1)),
        ((4, 6), ["A", 4, "B"], (1, 4, 6)),
        ((1, 1), ["A", "B", "C"], (1, 1, 1)),
        ((2, 64, 5, 7), [2, "G", 64, 1, "Oy", "Ox"], (2, 1, 64, 1, 5, 7)),
    ],
)
def test_sizes_that_follow(old: Any, new: Any, expected: tuple[int, ...]) -> None:
    graph, _ = load({"uops": [x(*old), u("RESHAPE", "x", result_shape=new)]})
    assert graph.types["y"].shape == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [((4, 64), ["A", "B", 64]), ((1, 64), [1, "A", "B"]), ((24,), ["A", "B"]), ((0, 4), ["A", 0]), ((4, 6), [5, "A"])],
)
def test_sizes_that_do_not_follow(old: Any, new: Any) -> None:
    with pytest.raises(EqsatError, match="UnboundDim"):
        load({"uops": [x(*old), u("RESHAPE", "x", result_shape=new)]})


def test_a_size_learned_late_serves_what_stands_before() -> None:
    uops = [
        x(3, 1),
        u("EXPAND", "x", result_shape=[3, "N"], id="e"),
        x(5, 2, name="w"),
        u("RESHAPE", "w", result_shape=["N"], id="r"),
    ]
    graph, _ = load({"uops": uops})
    assert graph.types["e"].shape == (3, 10)


def test_axes_by_symbol_position_and_from_the_end() -> None:
    for axes in (["K"], [1], [-2]):
        graph, _ = load(
            {"uops": [x("M", "K", "N"), u("REDUCE", "x", op="max", axes=axes, dtype="fp32")]}, {"M": 2, "K": 3, "N": 4}
        )
        assert graph["y"].arg["axes"] == (1,)
        assert graph.types["y"].names == ("M", "N")


def test_names_travel_with_their_axes() -> None:
    graph, _ = load(
        {
            "uops": [
                x("M", "N", "K"),
                u("PERMUTE", "x", perm=[2, 0, 1], id="p"),
                u("RESHAPE", "p", result_shape=["K", -1], id="r"),
                u("PAD", "x", pad=[[0, 0], [1, 0], [0, 0]], id="d"),
                u("SHRINK", "x", lo=[0, 0, 1], hi=[2, 3, 4], id="s"),
            ]
        },
        {"M": 2, "N": 3, "K": 4},
    )
    assert graph.types["p"].names == ("K", "M", "N")
    assert graph.types["r"].names == ("K", None)
    assert graph.types["d"].names == ("M", None, "K")
    assert graph.types["s"].names == ("M", "N", None)
    assert "%p: fp32[K=4, M=2, N=3] = permute(%x, perm=[2, 0, 1])" in str(graph)


def test_symbols_in_index_maps() -> None:
    graph, _ = load(
        {"uops": [x("L"), u("VIEW", "x", result_shape=["W", "Kw"], index_map=["S*i0 + i1"])]},
        {"L": 9, "W": 4, "Kw": 3, "S": 2},
    )
    row = np.arange(9, dtype=np.float32)
    expected = np.lib.stride_tricks.sliding_window_view(row, 3)[::2]
    np.testing.assert_array_equal(playback(graph, {"x": row})[0], expected)


def test_dims_come_from_the_program_the_call_and_the_inputs() -> None:
    source = parse({"uops": [x("M", "K"), u("NEG", "x")], "dims": {"M": 2}})
    assert free_dims(source) == ("K",)
    assert free_dims(source, {"K": 3}) == ()
    assert bind(source, {"K": 3})[0].types["y"].shape == (2, 3)
    assert bind(source, infer_dims(source, {"x": (2, 5)}))[0].types["y"].shape == (2, 5)
    _, notes = bind(source, {"K": 3, "Q": 4})
    assert [note.severity for note in notes] == [Severity.WARNING]


def test_equal_insertions_are_made_once() -> None:
    graph, notes = load({"uops": [x(4, 6), x(6, name="z"), u("ADD", "x", "z", id="a"), u("MUL", "x", "z", id="b")]})
    assert sum(node.uop == "EXPAND" for node in graph.nodes) == 1
    assert len(notes) == 2
