"""Inputs for which a program has exactly one right result: whole numbers and short binary fractions.

They are so small that no op rounds: a value, its operands, its result and every partial sum fit in the dtype with bits
to spare. So the order of sums, fused products, and wider or narrower arithmetic do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from ir.dtype import DType, promote
from ir.tiny.graph import Graph, Imm, Node, Ref
from ir.tiny.playback import values
from ir.uop.playback import Array
from ir.uop.table import ELEMENTARY, UOpKind

FRACTION_BITS = 6
"""Values are multiples of 2^-6 at the finest."""
SPARE_BITS = 1
"""Of the significand, unused: rules may exchange a sum with a product."""


def exact_values(graph: Graph, inputs: Mapping[str, Array]) -> set[Ref]:
    """The nodes whose values have one answer on these inputs."""
    results: set[Ref] = set()
    wide = values(graph, inputs, wide=True)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if all(ref in results for ref in node.refs) and _is_exact(node, graph, wide):
                results.add(node.id)
    return results


def _is_exact(node: Node, graph: Graph, wide: Mapping[Ref, Array]) -> bool:
    """Whether the node adds no rounding, its operands having none."""
    result = graph.types[node.id].dtype
    if not all(_fits(_of(operand, wide), result) for operand in node.src if isinstance(operand, Imm)):
        return False
    if node.uop in ELEMENTARY or node.uop in ("RECIP", "SQRT", "RSQRT"):
        return False
    if node.uop in ("FDIV", "QUOTIENT") and not _are_powers_of_two(_of(node.src[1], wide)):
        return False
    if node.op.kind in (UOpKind.REDUCE, UOpKind.SCAN):
        return _sums_fit(node, wide[node.refs[0]], graph.types[node.refs[0]].dtype, result)
    if node.op.kind is UOpKind.SCATTER and not _scattered_fit(node, graph, wide):
        return False
    return _fits(wide[node.id], result)


def _scattered_fit(node: Node, graph: Graph, wide: Mapping[Ref, Array]) -> bool:
    """Whether sums or products of any of the terms fit, as those of their magnitudes do."""
    source, index, updates = (wide[ref] for ref in node.refs)
    if node.arg["op"] not in ("SUM", "PROD") or not graph.types[node.id].dtype.is_float:
        return True
    least = 0 if node.arg["op"] == "SUM" else 1
    largest = [np.maximum(np.abs(source), least), index, np.maximum(np.abs(updates), least)]
    return _fits(node.op.apply(largest, node.arg, graph.types[node.id], True), graph.types[node.id].dtype)


def _of(operand: Ref | Imm, wide: Mapping[Ref, Array]) -> Array:
    return np.asarray(operand.value if isinstance(operand, Imm) else wide[operand])


def _sums_fit(node: Node, x: Array, source: DType, result: DType) -> bool:
    op = node.arg["op"] if node.uop == "REDUCE" else {"CUMSUM": "SUM", "CUMPROD": "PROD"}.get(node.uop, "MAX")
    if op in ("MAX", "MIN") or not result.is_float:
        return True
    axes = tuple(node.arg["axes"]) if node.uop == "REDUCE" else (node.arg["axis"],)
    accumulator = promote(source.accumulator, result.accumulator) or result
    first = np.asarray(node.arg.get("init", 0.0 if op == "SUM" else 1.0), np.float64)
    terms = np.abs(np.asarray(x, np.float64))
    if op == "PROD":
        return _fraction_bits(x) == 0 and _fits((np.maximum(terms, 1).prod(axes) * first), accumulator)
    bits = _fraction_bits(np.append(terms.ravel(), first))
    return bits is not None and _fits(terms.sum(axes) + abs(first), accumulator, bits)


def _fits(x: Array, element: DType, fraction: int | None = None) -> bool:
    """Whether `element` holds these numbers, and all multiples of 2^-`fraction` below them, with bits to spare;
    infinities and NaN are held by every float."""
    if not element.is_float:
        return True
    x = np.asarray(x, np.float64)
    bits = _fraction_bits(x) if fraction is None else fraction
    if bits is None:
        return False
    significand = min(ml_dtypes.finfo(element.numpy).nmant + 1 - SPARE_BITS, 40)
    return bool((np.abs(x[np.isfinite(x)]) * 2.0**bits <= 2.0**significand).all())


def _fraction_bits(x: Array) -> int | None:
    """The fewest binary digits behind the point that all finite numbers have; None for more than FRACTION_BITS."""
    x = x[np.isfinite(x)]
    return next((bits for bits in range(FRACTION_BITS + 1) if (x * 2.0**bits == np.rint(x * 2.0**bits)).all()), None)


def _are_powers_of_two(x: Array) -> bool:
    mantissa, _ = np.frexp(np.asarray(x, np.float64))
    return bool((np.abs(mantissa) == 0.5).all())
