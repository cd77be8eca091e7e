"""Tiny IR → the quotients that a step reads.

floor(x / 49) is 1 for x = 49, but floor(x · (1/49)) is 0: a step turns the smallest error into a whole number, and so
does a uop that reads the bits of a float. So a quotient whose value reaches a step stays a quotient, rounded once,
where others may become products.

before   %q = fdiv(%x, 49)    %f = floor(%q)
after    %q
"""

from __future__ import annotations

from ir.tiny.graph import Graph, Node, Ref
from ir.uop.table import UOpKind

_STEPS = frozenset({"FLOOR", "CEIL", "ROUND", "CMPLT", "CMPLE", "CMPGT", "CMPGE", "CMPEQ", "CMPNE"})
_EXACT = frozenset({"ADD", "SUB", "MUL", "FDIV", "QUOTIENT", "NEG", "ABS", "MAX", "MIN", "RELU", "WHERE"})
"""Arithmetic whose result may be a whole number because the operand is one."""


def exact_quotients(graph: Graph) -> frozenset[Ref]:
    """The FDIVs that reach a step through arithmetic, casts between floats, movements, gathers and maxima."""
    reaching: set[Ref] = set()
    for node in reversed(graph.nodes):
        if _is_step(node, graph) or (node.id in reaching and _passes_on(node)):
            reaching.update(ref for ref in node.refs if graph.types[ref].dtype.is_float)
    return frozenset(node.id for node in graph.nodes if node.uop == "FDIV" and node.id in reaching)


def _is_step(node: Node, graph: Graph) -> bool:
    return node.uop in _STEPS or node.op.keeps_bits or (node.uop == "CAST" and not graph.types[node.id].dtype.is_float)


def _passes_on(node: Node) -> bool:
    is_extreme = node.op.kind is UOpKind.REDUCE and node.arg["op"] in ("MAX", "MIN")
    moves = node.op.kind in (UOpKind.MOVEMENT, UOpKind.GATHER, UOpKind.CAST)
    return moves or is_extreme or node.uop in _EXACT or node.uop == "CUMMAX"
