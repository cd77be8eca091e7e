"""Which sums can pay where: what enumeration leaves out without looking at a price.

A plain sum of products reads both factors anew for each of its terms. A contraction keeps tiles of them in registers,
which pays where each element takes part in many products. Such a sum is never better as one accumulator among several,
or finished inside another kernel: its forms there need not be enumerated.

A sum that is moved under padding, as a part of a concatenation is, is computed at all points, those of the padding too.
Where most are, it is better stored without them, and read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from eqsat.extraction.enumeration.kernel_tree import mapped_domain
from ir.dtype import dtype
from ir.index.map import AxisMap
from ir.post_order import post_order

REUSE = 12
"""Operations per element of the factors and of the result. Above it, every sum of products in the benches' programs is
dearer by half or more without its template, by 3 times in the median; below 5 some are cheaper."""

_MAPPED = ("Load", "Gather", "Index", "At")
"""Nodes whose map tells the domain of their value."""
_OPS = ("PUn", "PBin", "PTern")


class _Domain(NamedTuple):
    """The sizes of a domain, and the axes of it that a value depends on."""

    sizes: tuple[int, ...]
    axes: frozenset[int]


_ANY = _Domain((), frozenset())
"""Of a number, which is at home in any domain."""


class _SumCost(NamedTuple):
    """The cost of a sum: `operations`, elements of its `operands`, of its result, and bytes of that."""

    operations: int
    operands: int
    result: int
    nbytes: int


class SumFacts:
    """The facts of the sums of one e-graph.

    Args:
        bound: (flops, bytes) → a time in ns that no plan can beat.
    """

    def __init__(self, view: EGraphView, bound: Callable[[float, float], float]) -> None:
        self._view, self._bound = view, bound
        self._domains: dict[int, _Domain] = {}

    def is_useless_sum(self, node: ENode, others: Sequence[ENode]) -> bool:
        """Whether a node of a class with these is a sum that is better computed as another of them says."""
        if node.ctor == "Reduce":
            products = (other for other in others if other.ctor == "Contract" and _terms(other) == _terms(node))
            return any(map(self._is_reused, products))
        if node.ctor == "Fin":
            return self._is_mostly_padding(node.acc, self._read(others))
        return False

    def _is_reused(self, contraction: ENode) -> bool:
        """Whether its template pays, and computing it takes longer, even at the machine's peak, than to write it and to
        read it again, by a kernel more."""
        cost = self._sum(contraction)
        few = cost.operations < REUSE * (cost.operands + cost.result)
        return not few and self._time(cost.operations) > self._storing(cost.nbytes)

    def _is_mostly_padding(self, accumulator: int, reads: Iterable[AxisMap]) -> bool:
        """Whether a class that holds the result, read under padding, takes longer to sum at the points of the padding
        than to be stored without them and read."""
        for view in reads:
            inside = math.prod(high - low + 1 for low, high in view.interior)
            share = 1 - inside / max(1, math.prod(view.sizes))
            for node in self._view.classes[accumulator]:
                if node.ctor in ("Reduce", "Contract"):
                    cost = self._sum(node)
                    if self._time(share * cost.operations) > self._storing(cost.nbytes):
                        return True
        return False

    def _read(self, nodes: Iterable[ENode]) -> Iterable[AxisMap]:
        """The maps under padding at which the value of a class with these nodes is read."""
        for node in nodes:
            if node.ctor == "Pure":
                loads = (inner for inner in self._view.classes[node.x] if inner.ctor == "Load")
                yield from (load.map for load in loads if load.map.guards)

    def _time(self, operations: float) -> float:
        return self._bound(operations, 0) - self._bound(0, 0)

    def _storing(self, nbytes: int) -> float:
        return self._bound(0, 2 * nbytes)

    def _sum(self, node: ENode) -> _SumCost:
        operands = [self._domain(kid) for kid in node.inline_children]
        sizes = next((operand.sizes for operand in operands if operand.sizes), ())
        kept = len(sizes) - len(node.sizes)

        def points(axes: Iterable[int]) -> int:
            return math.prod([sizes[axis] for axis in axes])

        axes = frozenset().union(*[operand.axes for operand in operands])
        result = points(axis for axis in axes if axis < kept)
        operations = len(operands) * points(axes)
        moved = sum([points(operand.axes) for operand in operands])
        return _SumCost(operations, moved, result, result * dtype(node.dtype).bytes)

    def _domain(self, value: int) -> _Domain:
        """Of a value inside a kernel."""
        if value not in self._domains:
            for below in post_order([value], self._operands):
                self._domains[below] = self._derive_domain(below)
        return self._domains[value]

    def _operands(self, value: int) -> list[int]:
        """The values that must be known first: none where a node knows."""
        nodes = self._view.classes[value]
        if value in self._domains or any(node.ctor in _MAPPED for node in nodes):
            return []
        return [kid for node in nodes if node.ctor in _OPS for kid in node.inline_children]

    def _derive_domain(self, value: int) -> _Domain:
        nodes = self._view.classes[value]
        for node in nodes:
            if node.ctor in _MAPPED:
                sizes, used = mapped_domain(node)
                return _Domain(sizes, frozenset(used))
        for node in nodes:
            if node.ctor in _OPS:
                kids = [self._domains.get(kid, _ANY) for kid in node.inline_children]
                sizes = next((kid.sizes for kid in kids if kid.sizes), ())
                return _Domain(sizes, frozenset().union(*[kid.axes for kid in kids]))
        return _ANY


def _terms(node: ENode) -> int:
    """How many terms it adds up: a sum of fewer than others in its class is one of sums that are computed elsewhere."""
    return math.prod(node.sizes)
