"""Finds the values into which a program itself writes no infinity and no NaN.

The inputs may hold infinities and NaN, and a value may overflow or be divided by 0. A user who asks for exactness
`range` assumes that the values found here are numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ir.tiny.graph import Graph, Imm, Node, Ref
from ir.uop.table import UOpKind


def find_finite(graph: Graph) -> tuple[Ref, ...]:
    """The uops whose values hold no infinity or NaN that the program itself wrote: as a number operand, as the fill of
    a PAD, as the start of a REDUCE, or as the bits of a float. A maximum or minimum is assumed to pick a finite
    element."""
    infinite: set[Ref] = set()
    for node in graph.nodes:
        inherits = infinite.intersection(node.refs) and not _picks_an_element(node, graph)
        if inherits or _reads_bits(node, graph) or not all(map(math.isfinite, _numbers(node))):
            infinite.add(node.id)
    return tuple(node.id for node in graph.nodes if node.id not in infinite)


def _reads_bits(node: Node, graph: Graph) -> bool:
    """Whether the value is made of bits, which may be those of an infinity or NaN."""
    return node.op.keeps_bits and graph.types[node.id].dtype.is_float


def _numbers(node: Node) -> Iterator[float]:
    yield from (operand.value for operand in node.src if isinstance(operand, Imm))
    if not _is_extremum(node):
        yield from (node.arg[key] for key in ("value", "init") if node.arg.get(key) is not None)


def _picks_an_element(node: Node, graph: Graph) -> bool:
    """Whether the node is a maximum or minimum of at least one element."""
    return _is_extremum(node) and graph.types[node.refs[0]].size > 0


def _is_extremum(node: Node) -> bool:
    return node.op.kind is UOpKind.REDUCE and str(node.arg["op"]).upper() in ("MAX", "MIN")
