"""Rounding to tf32 in a Tiny graph: the operands that tensor cores may round, and the rounding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ir.dtype import fp32
from ir.tiny.graph import Graph, Node, Ref
from ir.uop.playback import Array
from ir.uop.table import UOpKind

_LINEAR_OPERANDS = {"ADD": (0, 1), "SUB": (0, 1), "NEG": (0,), "WHERE": (1, 2), "FDIV": (0,)}
"""Slots of operands: a sum of this uop's results is a sum of these operands, or a multiple of one."""


def to_tf32(x: Array) -> Array:
    """Floats rounded to tf32: the exponents of fp32, 10 bits of mantissa, ties away from 0."""
    with np.errstate(over="ignore"):
        bits = np.asarray(x, np.float32).view(np.uint32)
    kept = np.where(np.isfinite(x), bits + np.uint32(0x1000), bits) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(x), x, kept.view(np.float32)).astype(x.dtype)


def summed_products(graph: Graph) -> frozenset[Ref]:
    """The multiplications of fp32 whose results are summed, and the LOOPs that have such ones. They may become matrix
    products, whose operands tensor cores round. Rewrites that group factors otherwise round as often."""
    products: set[Ref] = set()
    seen: set[Ref] = set()
    left = [ref for node in graph.nodes if node.uop == "REDUCE" and node.arg["op"] == "SUM" for ref in node.refs]
    while left:
        ref = left.pop()
        if ref in seen:
            continue
        seen.add(ref)
        node = graph[ref]
        if node.uop == "MUL" and graph.types[ref].dtype is fp32:
            products.add(ref)
        else:
            left += _addends(node)
    products |= {node.id for node in graph.nodes if node.uop == "LOOP" and summed_products(node.arg["graph"].graph)}
    return frozenset(products)


def _addends(node: Node) -> Iterator[Ref]:
    if node.op.kind in (UOpKind.MOVEMENT, UOpKind.CAST):
        yield from node.refs
    for slot in _LINEAR_OPERANDS.get(node.uop, ()):
        operand = node.src[slot]
        if isinstance(operand, str):
            yield operand
