"""Which values are numbers, neither infinite nor NaN, as far as a program is concerned: what its inputs hold, and what
overflows or is divided by 0, it cannot tell, and who asks for exactness `range` takes these for numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ir.tiny.graph import Graph, Imm, Node, Ref
from ir.uop.table import UOpKind


def finite(graph: Graph) -> tuple[Ref, ...]:
    """The uops whose values hold no infinity or NaN that the program itself wrote: as a number beside an operand, as a
    PAD's fill or a REDUCE's start. The greatest or least of several takes none over: it is there for those that are."""
    infinite: set[Ref] = set()
    for node in graph.nodes:
        takes = infinite.intersection(node.refs) and not _picks(node, graph)
        if takes or not all(map(math.isfinite, _numbers(node))):
            infinite.add(node.id)
    return tuple(node.id for node in graph.nodes if node.id not in infinite)


def _numbers(node: Node) -> Iterator[float]:
    yield from (each.value for each in node.src if isinstance(each, Imm))
    if not _is_extremum(node):
        yield from (node.arg[key] for key in ("value", "init") if node.arg.get(key) is not None)


def _picks(node: Node, graph: Graph) -> bool:
    """Whether it is one of the elements that it reduces, and there are some."""
    return _is_extremum(node) and graph.types[node.refs[0]].size > 0


def _is_extremum(node: Node) -> bool:
    return node.op.kind is UOpKind.REDUCE and str(node.arg["op"]).upper() in ("MAX", "MIN")
