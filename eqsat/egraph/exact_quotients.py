"""Tiny IR → the quotients that a step reads.

floor(x / 49) is 1 for x = 49, but floor(x · (1/49)) is 0: a step turns the smallest error into a whole number, and so
does a uop that reads the bits of a float. So a quotient whose value reaches a step stays a quotient, rounded once,
where others may become products.

ROUND takes a step at halves. A dividend that was scaled, as dequantized tensors are, is rounded itself: halves come up
by chance, and the quotient may become a product.

before   %q = fdiv(%x, 49)    %f = floor(%q)
after    %q
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ir.tiny.graph import Graph, Imm, Node, Ref
from ir.uop.table import UOpKind

_STEPS = frozenset({"FLOOR", "CEIL", "CMPLT", "CMPLE", "CMPGT", "CMPGE", "CMPEQ", "CMPNE"})
_EXACT = frozenset({"ADD", "SUB", "MUL", "FDIV", "QUOTIENT", "NEG", "ABS", "MAX", "MIN", "RELU", "WHERE"})
"""Arithmetic whose result may be a whole number because the operand is one."""
_CHOICES = frozenset({"MAX", "MIN", "WHERE"})
"""Arithmetic whose result may be either operand."""
_LONG = 12
"""Bits of a number: products with a longer number are seldom exact."""


def exact_quotients(graph: Graph) -> frozenset[Ref]:
    """The FDIVs that reach a step through arithmetic, casts between floats, movements, gathers and maxima, without
    FDIVs of scaled dividends that reach no other step than ROUND."""
    stepped = _reaching(graph, lambda node: _is_step(node, graph))
    rounded = _reaching(graph, lambda node: node.uop == "ROUND")
    scaled = _scaled_values(graph)
    divisions = [node for node in graph.nodes if node.uop == "FDIV"]
    return frozenset(
        node.id for node in divisions if node.id in stepped or (node.id in rounded and node.src[0] not in scaled)
    )


def _reaching(graph: Graph, is_step: Callable[[Node], bool]) -> set[Ref]:
    """The floats that reach a step."""
    reaching: set[Ref] = set()
    for node in reversed(graph.nodes):
        if is_step(node) or (node.id in reaching and _passes_on(node)):
            reaching.update(ref for ref in node.refs if graph.types[ref].dtype.is_float)
    return reaching


def _scaled_values(graph: Graph) -> set[Ref]:
    """Products with a long number, and the values that are computed from them."""
    scaled: set[Ref] = set()
    for node in graph.nodes:
        of_floats = [ref in scaled for ref in node.refs if graph.types[ref].dtype.is_float]
        holds = all if node.uop in _CHOICES else any
        if _scales(node) or (of_floats and holds(of_floats) and graph.types[node.id].dtype.is_float):
            scaled.add(node.id)
    return scaled


def _scales(node: Node) -> bool:
    return node.uop == "MUL" and any(isinstance(factor, Imm) and _is_long(factor.value) for factor in node.src)


def _is_long(number: float) -> bool:
    """Whether the number has more than `_LONG` significant bits."""
    if not isinstance(number, float) or not number or not math.isfinite(number):
        return False
    digits = abs(Fraction(number).numerator)
    return (digits // (digits & -digits)).bit_length() > _LONG


def _is_step(node: Node, graph: Graph) -> bool:
    return node.uop in _STEPS or node.op.keeps_bits or (node.uop == "CAST" and not graph.types[node.id].dtype.is_float)


def _passes_on(node: Node) -> bool:
    is_extreme = node.op.kind is UOpKind.REDUCE and node.arg["op"] in ("MAX", "MIN")
    moves = node.op.kind in (UOpKind.MOVEMENT, UOpKind.GATHER, UOpKind.CAST)
    return moves or is_extreme or node.uop in _EXACT or node.uop == "CUMMAX"
