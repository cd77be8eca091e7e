"""Tiny text: what is printed reads back to the same program, and each mistake is shown at its line and column."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqsat
from bench.programs import programs
from docs.derived_programs import PROGRAMS
from eqsat.model import read_model
from ir.diagnostics import EqsatError, Kind
from ir.dtype import DTYPES
from ir.tiny.bind import bind, load
from ir.tiny.graph import Graph, Imm, Node, verify
from ir.tiny.parse import parse
from ir.tiny.source import Source
from ir.tiny.text_to_source import is_tiny_text, text_to_source
from ir.uop.args import Arg, ArgKind
from ir.uop.table import UOPS
from tests.support.damage.odd_values import WORDS, damage_text
from tests.support.fuzz.idioms.program import written
from tests.support.fuzz.mutate import NAMES
from tests.support.fuzz.strategies import random_graph, tiny_graphs
from tests.support.programs import graphs as models

FOLDER = Path(eqsat.__file__).parent / "programs"


def exact(graph: Graph) -> str:
    """The graph as text that tells −0 from 0, and true and 1.0 from 1."""
    return json.dumps(graph.to_json())


def check_graph(graph: Graph) -> None:
    again, notes = load(str(graph))
    assert again == graph
    assert exact(again) == exact(graph)
    assert not notes
    verify(again)
    assert str(again) == str(graph)


def check_source(source: Source) -> None:
    assert text_to_source(str(source)) == source
    assert str(parse(str(source))) == str(source)
    assert parse(source.to_json()) == source


def bad(text: str) -> dict[str, Any]:
    with pytest.raises(EqsatError) as caught:
        load(text)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.to_json() | {"shown": str(diagnostic)}


# round trips


def test_the_text_of_a_program() -> None:
    text = """\
%x: fp32[rows=4, 8] = input()
%h: fp32[rows=4, 8] = mul(%x, 0.5)
%s: fp32[rows=4] = reduce(%h, axes=[1], op=SUM)
return %s, %h"""
    uops = [
        {
            "id": "x",
            "uop": "INPUT",
            "arg": {"tensor_id": "x", "dtype": "fp32", "shape": [4, 8], "names": ["rows", None]},
        },
        {"id": "h", "uop": "MUL", "src": ["x", 0.5]},
        {"id": "s", "uop": "REDUCE", "src": ["h"], "arg": {"op": "SUM", "axes": [1], "dtype": "fp32"}},
    ]
    graph, _ = load({"uops": uops, "outputs": ["s", "h"]})
    assert str(graph) == text
    check_graph(graph)


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs(seed: int) -> None:
    check_graph(random_graph(np.random.default_rng(seed), 20, loops=seed % 3 == 0))


@settings(max_examples=50, deadline=None)
@given(tiny_graphs())
def test_any_graph(graph: Graph) -> None:
    check_graph(graph)


@pytest.mark.parametrize("index", range(40))
def test_programs_in_the_idioms_of_people(index: int) -> None:
    check_graph(written(5, index, emulated=True).graph)


@pytest.mark.parametrize("name", programs())
def test_programs_of_the_benches(name: str) -> None:
    check_graph(read_model(programs()[name]()).bind({}, strict=False).graph)


@pytest.mark.parametrize("name", PROGRAMS)
def test_derived_programs(name: str) -> None:
    check_graph(read_model(PROGRAMS[name]()).bind({}, strict=False).graph)


@pytest.mark.parametrize(
    "name", ["squeezenet", *(pytest.param(name, marks=pytest.mark.slow) for name in ("resnet50", "shufflenet"))]
)
def test_models_of_the_zoo(name: str) -> None:
    from eqsat.zoo import light_model

    check_graph(read_model(light_model(name)).bind({}, strict=False).graph)


def test_models() -> None:
    for graph in (
        models.gemm_bias_relu(),
        models.conv_bn_relu(5),
        models.attention(3, 4, 1),
        models.encoder(2, 8, 16, 2),
    ):
        check_graph(graph)


@pytest.mark.parametrize("name", ["gemm", "conv2d", "attention"])
def test_programs_with_symbols(name: str) -> None:
    source = parse(FOLDER / f"{name}.json")
    check_source(source)
    sizes = dict.fromkeys(source.symbols, 4) | {"Oy": 1, "Ox": 1, "pt": 0, "pb": 0, "pl": 0, "pr": 0}
    if name in ("gemm", "attention"):
        assert exact(bind(text_to_source(str(source)), sizes)[0]) == exact(bind(source, sizes)[0])


@pytest.mark.slow
def test_every_uop_and_attribute_is_in_some_round_trip() -> None:
    """The generators above reach every row of the table, and here is every attribute, in odd forms."""
    seen: set[tuple[str, str]] = set()
    for seed in range(150):
        for node in random_graph(np.random.default_rng(seed), 20, loops=True).nodes:
            seen |= {(node.uop, key) for key in node.arg} | {(node.uop, "")}
    assert {name for name, _ in seen} == set(UOPS)
    values: dict[ArgKind, tuple[Any, ...]] = {
        ArgKind.DIMS: ((), (3,), ("n", -1, 2**62), ("nan", "_", "true", "i0", "é'", "inf'")),
        ArgKind.PAIRS: ((), ((0, "low"), (-(2**63), 2**63 - 1))),
        ArgKind.AXIS: (0, -1, "n", "nan"),
        ArgKind.AXES: ((), (1, 0), ("n", -1)),
        ArgKind.NUMBER: (0, -0.0, 0.0, 1, 1.0, True, False, math.inf, -math.inf, math.nan, 1e-310, 10**40, -(2**63)),
        ArgKind.DTYPE: tuple(DTYPES),
        ArgKind.OPERAND: tuple(DTYPES),
        ArgKind.NAME: tuple(name for name in (*NAMES, "nan", "true", "_", "1", "-1.5", "x y", "a/b", "//") if name),
        ArgKind.TEXT: ("", "const_pool", *NAMES),
        ArgKind.REDUCTION: ("SUM", "MAX", "MIN", "PROD"),
        ArgKind.COMBINATION: ("LAST", "SUM", "MAX", "MIN", "PROD"),
        ArgKind.NAMES: ((), (None,), (None, "n", "_", "nan", "é'")),
        ArgKind.INDEX_MAP: ((), ("0", "S*i0 + i1"), ('"', "\\", "")),
        ArgKind.SIZE: (0, "n", "nan", 2**62),
        ArgKind.COUNT: (0, 3),
        ArgKind.WORD: (0, 3),
        ArgKind.FLAG: (True, False),
        ArgKind.GRAPH: ("step", "a/b", "nan", "1", "x y"),
    }
    assert set(values) == set(ArgKind)
    for op in UOPS.values():
        first = {key: values[spec.kind][0] for key, spec in op.args.items() if spec.required}
        inputs = [Node(f"x{k}", "INPUT", (), Arg(tensor_id="x", dtype="fp32", shape=())) for k in range(op.arity)]
        for key, spec in op.args.items():
            for value in values[spec.kind]:
                arg = Arg({**first, key: value})
                node = Node("y", op.name, tuple(x.id for x in inputs), arg)
                source = Source((*inputs, node))
                again = text_to_source(str(source))
                assert again == source, str(source)
                assert repr(again.uops[-1]) == repr(node)


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.0, 1, True, False, math.inf, -math.inf, math.nan, 5e-324, 0.1, 2**63 - 1]
)
def test_immediates_keep_their_kind_and_sign(value: float) -> None:
    x = Node("x", "INPUT", (), Arg(tensor_id="x", dtype="fp64", shape=()))
    source = Source((x, Node("y", "ADD", ("x", Imm(value)))))
    assert repr(text_to_source(str(source))) == repr(text_to_source(str(source)))
    assert repr(text_to_source(str(source)).uops) == repr(source.uops)


@pytest.mark.parametrize(
    "name", [*(name for name in NAMES if name not in ("", "inf")), "return", "layer1/n3", "x.expand", "a:b", "%", "@"]
)
def test_ids_and_tensors_of_any_name(name: str) -> None:
    nodes = (
        Node(name, "INPUT", (), Arg(tensor_id=name, dtype="fp32", shape=(2,))),
        Node(name + "'", "NEG", (name,), tag=name),
        Node("z", "ADD", (name, name + "'"), tag=""),
    )
    check_graph(Graph.build(nodes, [name + "'", "z", name, "z"]))
    check_source(Source(nodes, (name,), {"n": 3}))


def test_programs_may_be_written_by_hand() -> None:
    graph, _ = load(
        """
        // the types say the shapes and dtypes of results
        dims n=4
        %x: f32[rows=n, 8] = INPUT()      // names of axes, dtypes under any name
        %w: fp32[8]        = Input(tensor_id="the weight")
        %h = Mul(%x,
                 %w)                      // operands are aligned as in JSON
        %m: i32[n, 8] = cast(%h, tag="a remark")
        return %m
        """
    )
    assert list(graph.inputs) == ["x", "the weight"]
    assert str(graph.types["m"]) == "i32[rows=4, 8]"
    assert graph["m"].tag == "a remark"


def test_uops_may_stand_in_any_order_and_outputs_may_be_left_out() -> None:
    assert load("%y = neg(%x)\n%x: fp32[2] = input()")[0].outputs == ("y",)


def test_stated_types_bind_symbols() -> None:
    text = (
        "%x: fp32[6, n] = input()\n%y: fp32[m] = reshape(%x, result_shape=[-1])\n%z = reshape(%y, result_shape=[m, 1])"
    )
    assert load(text, {"n": 2})[0].types["z"].shape == (12, 1)
    assert load(parse(text).to_json(), {"n": 2})[0].types["z"].shape == (12, 1)


# text, files and JSON


def test_text_is_told_from_json_and_from_paths(tmp_path: Path) -> None:
    text = "%x: fp32[2] = input()\n%y = neg(%x)\nreturn %y"
    graph, _ = load(text)
    for name, content in (("a.tiny", text), ("b.txt", text), ("c.tiny", f"// a remark: {{\n{text}")):
        (tmp_path / name).write_text(content)
        assert load(tmp_path / name)[0] == load(str(tmp_path / name))[0] == graph
    assert load("%x: fp32[2] = input() %y = neg(%x) return %y")[0] == graph
    assert not is_tiny_text(json.dumps(graph.to_json()))
    assert load(f"// a remark\n{json.dumps(graph.to_json())}")[0] == graph
    assert "neither a program's text nor a readable file" in bad("graph.tiny")["message"]
    (tmp_path / "empty.tiny").write_text("")
    assert "no output" in bad(str(tmp_path / "empty.tiny"))["message"]
    (tmp_path / "wrong.tiny").write_text("%x: fp32[2] = input()\nadd(%x, 1)")
    assert bad(str(tmp_path / "wrong.tiny"))["file"] == str(tmp_path / "wrong.tiny")


# errors

X = "%x: fp32[4, 8] = input()\n"
MISTAKES: dict[str, tuple[Kind, str, int, int, str]] = {
    "a character": (Kind.MALFORMED_GRAPH, X + "%y = neg(%x) ?", 2, 14, "unexpected '?'"),
    "a comment of another language": (Kind.MALFORMED_GRAPH, X + "# neg", 2, 1, "begins with //"),
    "an open string": (Kind.MALFORMED_GRAPH, X + '%y = neg(%x, tag="a)\n', 2, 18, "does not end"),
    "a wrong escape": (Kind.MALFORMED_GRAPH, X + r'%y = neg(%x, tag="\q")', 2, 18, "escape"),
    "half a character": (Kind.MALFORMED_GRAPH, X + r'%y = neg(%x, tag="\ud800")', 2, 18, "no text"),
    "no id": (Kind.MALFORMED_GRAPH, X + "% = neg(%x)", 2, 1, "% without an id"),
    "an empty id": (Kind.MALFORMED_GRAPH, X + '%"" = neg(%x)', 2, 1, "at least one character"),
    "an id that is a number's name": (Kind.MALFORMED_GRAPH, X + "%nan = neg(%x)", 2, 1, "'nan' is no id"),
    "no sign of an id": (Kind.MALFORMED_GRAPH, X + "y = neg(%x)", 2, 1, "expected a uop"),
    "no =": (Kind.MALFORMED_GRAPH, X + "%y neg(%x)", 2, 4, "expected `=`"),
    "no uop": (Kind.MALFORMED_GRAPH, X + "%y = (%x)", 2, 6, "expected the name of a uop"),
    "an unknown uop": (Kind.UNKNOWN_UOP, X + "%y = reduces(%x)", 2, 6, "did you mean reduce?"),
    "no bracket": (Kind.MALFORMED_GRAPH, X + "%y = neg %x", 2, 10, "expected `(`"),
    "an open bracket": (Kind.MALFORMED_GRAPH, X + "%y = neg(%x", 2, 12, "found the end of the text"),
    "no comma": (Kind.MALFORMED_GRAPH, X + "%y = add(%x %x)", 2, 13, "expected `,` or `)`"),
    "two commas": (Kind.MALFORMED_GRAPH, X + "%y = add(%x,, %x)", 2, 13, "expected an operand"),
    "an operand without its sign": (Kind.MALFORMED_GRAPH, X + "%y = neg(x)", 2, 11, "an operand is %x or a number"),
    "too many operands": (Kind.MALFORMED_GRAPH, X + "%y = neg(%x, %x)", 2, 1, "NEG takes 1 operand, found 2"),
    "an immediate that a uop does not read": (Kind.MALFORMED_GRAPH, X + "%y = neg(1)", 2, 1, "reads no immediate"),
    "an undefined value": (Kind.MALFORMED_GRAPH, X + "%y = neg(%xx)", 2, 10, "did you mean 'x'?"),
    "an undefined output": (Kind.MALFORMED_GRAPH, X + "%y = neg(%x)\nreturn %y, %z", 3, 12, "no uop defines %z"),
    "two uops of one id": (Kind.MALFORMED_GRAPH, X + "%y = neg(%x)\n  %y = abs(%x)", 3, 3, "defined in line 2"),
    "a circle": (Kind.MALFORMED_GRAPH, X + "%y = add(%x, %z)\n%z = neg(%y)", 2, 1, "form a cycle"),
    "two results": (Kind.MALFORMED_GRAPH, X + "%y, %z = neg(%x)", 2, 5, "NEG has one result"),
    "an unknown attribute": (Kind.MALFORMED_GRAPH, X + "%y = flip(%x, axis=[0])", 2, 15, "known: axes"),
    "an attribute twice": (Kind.MALFORMED_GRAPH, X + "%y = flip(%x, axes=[0], axes=[1])", 2, 25, "stands twice"),
    "a missing attribute": (Kind.MALFORMED_GRAPH, X + "%y = flip(%x)", 2, 1, "needs the attribute 'axes'"),
    "no dtype of a sum": (Kind.ACC_DTYPE_MISSING, X + "%y = reduce(%x, op=SUM, axes=[0])", 2, 1, "'dtype'"),
    "a value of another kind": (Kind.MALFORMED_GRAPH, X + "%y = flip(%x, axes=0)", 2, 20, "must be a list of axes"),
    "an unknown dtype": (Kind.DTYPE_MISMATCH, X + "%y = cast(%x, to=fp33)", 2, 18, "'to' must be"),
    "no value": (Kind.MALFORMED_GRAPH, X + "%y = flip(%x, axes=)", 2, 20, "expected a number, a name"),
    "an open list": (Kind.MALFORMED_GRAPH, X + "%y = flip(%x, axes=[0", 2, 22, "expected `,` or `]`"),
    "lists too deep": (Kind.MALFORMED_GRAPH, X + f"%y = flip(%x, axes={'[' * 99_999}", 2, 28, "nested too deeply"),
    "a tag without quotes": (Kind.MALFORMED_GRAPH, X + "%y = neg(%x, tag=a)", 2, 18, "a text in quotes"),
    "a number too long": (Kind.MALFORMED_GRAPH, X + f"%y = add(%x, {'9' * 9_999})", 2, 14, "no number"),
    "a type without sizes": (Kind.MALFORMED_GRAPH, "%x: fp32 = input()", 1, 10, "fp32[] of a scalar"),
    "a type of no dtype": (Kind.DTYPE_MISMATCH, "%x: fp33[4] = input()", 1, 5, "'fp33' is no dtype"),
    "a size that is none": (Kind.MALFORMED_GRAPH, "%x: fp32[4.5] = input()", 1, 10, "a size is an integer"),
    "a size too large": (Kind.MALFORMED_GRAPH, f"%x: fp32[{2**63}] = input()", 1, 10, "a size is an integer"),
    "a symbol that is none": (Kind.MALFORMED_GRAPH, '%x: fp32["a b"] = input()', 1, 10, "no name of letters"),
    "a name without a size": (Kind.MALFORMED_GRAPH, "%x: fp32[rows=] = input()", 1, 15, "expected a size"),
    "a size of dims": (Kind.MALFORMED_GRAPH, "dims n=-1\n" + X, 1, 8, "integer ≥ 0"),
    "dims twice": (Kind.MALFORMED_GRAPH, "dims n=1, n=2\n" + X, 1, 11, "n has two sizes"),
    "a uop after return": (Kind.MALFORMED_GRAPH, X + "%y = neg(%x)\nreturn %y\n%z = abs(%x)", 4, 1, "nothing after"),
    "return of a number": (Kind.MALFORMED_GRAPH, X + "return 1", 2, 8, "expected a value"),
    "a stated type that is wrong": (Kind.AXIS_SIZE_MISMATCH, X + "%y: fp32[4, 9] = neg(%x)", 2, 1, "another type"),
    "a stated rank that is wrong": (Kind.AXIS_SIZE_MISMATCH, X + "%y: fp32[4] = neg(%x)", 2, 1, "fp32[4, 8]"),
    "a stated dtype that is wrong": (Kind.DTYPE_MISMATCH, X + "%y: fp16[4, 8] = neg(%x)", 2, 1, "found = fp32[4, 8]"),
    "a stated name that is wrong": (Kind.AXIS_SIZE_MISMATCH, X + "%y: fp32[n=4, 8] = neg(%x)", 2, 1, "stated = fp32[n"),
    "a stated type of an input": (Kind.AXIS_SIZE_MISMATCH, "%x: fp32[4] = input(shape=[5])", 1, 1, "another type"),
    "shapes that do not suit": (Kind.AXIS_SIZE_MISMATCH, X + "%y: fp32[3] = reshape(%x)", 2, 1, "RESHAPE from 32"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_shown_where_they_are(mistake: str) -> None:
    kind, text, line, column, says = MISTAKES[mistake]
    result = bad(text)
    assert says in result["shown"], result["shown"]
    assert (result["kind"], result["line"], result["column"]) == (kind, line, column), result["shown"]
    shown = result["shown"].splitlines()
    excerpt = next(row for row in shown if row.startswith("    text = "))
    caret = next(row for row in shown if row.startswith("    here = ")).index("^")
    rest = text.splitlines()[line - 1][column - 1 :]
    assert excerpt[caret:][:20] == rest[:20]


@pytest.mark.parametrize("seed", range(8))
def test_damaged_text_ends_in_an_error_or_a_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    block = "graph @f(%x: fp32[n]) { %y = neg(%x) return %y }\n%x: fp32[2] = input()\n%z = call @f(%x)\nreturn %z"
    for _ in range(60):
        base = [str(random_graph(rng, 6)), block][int(rng.integers(4)) == 0]
        text = damage_text(base, rng, WORDS)
        with suppress(EqsatError):
            source = text_to_source(text)
            check_source(source)
            bind(parse(source), {"n": 2})


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([*WORDS, "%y", "%y = ", "neg", "(", ",", ":", "fp32[2]", "{", "\n", "1", "//", "input()"]))
)
def test_any_words_end_in_an_error_or_a_program(words: list[str]) -> None:
    with suppress(EqsatError):
        check_source(text_to_source(" ".join(words)))
