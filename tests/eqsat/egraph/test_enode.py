"""Nodes of e-graphs have the fields of `ir.term.language`, by name and parsed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from eqsat.egraph.enode import ENode, _Field
from ir.dtype import TensorType
from ir.index.map import parse_map
from ir.term.language import CTORS, GIVEN, Ctor, Imm, Load, Sort, Var
from rules.primitives import reads_all

TEXTS = {"map": "[4] -> [-i0 + 3]", "sizes": "[2,3]", "domain": "[4,2]", "type": "fp32[4]", "numbers": "1 -2 1/3"}
PARSED = {
    "map": parse_map(TEXTS["map"]),
    "sizes": (2, 3),
    "domain": (4, 2),
    "type": TensorType.of("fp32", (4,)),
    "numbers": [Fraction(1), Fraction(-2), Fraction(1, 3)],
}


def _node(ctor: Ctor) -> ENode:
    """A node whose k-th argument is k, or a text."""
    fields = enumerate(ctor.fields)
    return ENode(ctor.name, tuple([TEXTS.get(name, name) if sort is Sort.STR else k for k, (name, sort) in fields]))


@pytest.mark.parametrize("ctor", [*CTORS.values(), GIVEN], ids=lambda ctor: ctor.name)
def test_every_field_is_an_attribute(ctor: Ctor) -> None:
    node = _node(ctor)
    for place, (name, sort) in enumerate(ctor.fields):
        wanted = PARSED.get(name, name) if sort is Sort.STR else place
        assert getattr(node, "number" if ctor is Imm and name == "value" else name) == wanted


@pytest.mark.parametrize("ctor", [*CTORS.values(), GIVEN], ids=lambda ctor: ctor.name)
def test_children_and_texts_are_all_that_a_node_holds(ctor: Ctor) -> None:
    node = _node(ctor)
    assert sorted(map(str, (*node.children, *node.texts))) == sorted(map(str, node.args))
    assert node.source == (node.buffer if ctor.name in ("Load", "Gather") else None)
    assert (*(() if node.source is None else (node.source,)), *node.inline_children) == node.children
    moved = node.over([child + 10 for child in node.children])
    assert moved.texts == node.texts
    assert moved.children == tuple(child + 10 for child in node.children)


def test_a_field_that_a_constructor_lacks_is_named() -> None:
    with pytest.raises(AttributeError, match=r"^Load has no sizes, but buffer, map$"):
        _ = _node(Load).sizes
    with pytest.raises(AttributeError, match=r"^Imm has no value, but dtype, number, sizes$"):
        _ = _node(Imm).value
    with pytest.raises(TypeError, match=r"^Load has no sizes, but buffer, map$"):
        Load(Var("b", Sort.BUF), Var("m", Sort.STR)).field("sizes")
    with pytest.raises(TypeError, match=r"^reads_all has no map, but view, type$"):
        reads_all(Var("m", Sort.STR), Var("t", Sort.STR)).argument("map")


def test_an_attribute_that_no_constructor_has_fails_when_the_module_is_imported() -> None:
    with pytest.raises(TypeError, match="no constructor has a field mask of sort String"):
        _Field("mask", str, Sort.STR)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no constructor has a field map of sort i64"):
        _Field("map", int, Sort.I64)
