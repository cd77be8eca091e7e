"""Which inputs multiply the same operand in the same way: groups that the merging rules cannot see from one match.

A rule sees two products at a time. That all of a group become one product, and each only once, takes an order of its
members: the order in which the program reads them. Inputs that are alone may form a group where the windows of some are
enlarged to that of another, as long as that does not make much more work of it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from eqsat.egraph.inlining import Sources
from eqsat.egraph.tiny_to_term import reduced_map
from ir.index.map import AxisMap, compose
from ir.tiny.graph import Graph, Node, Ref
from ir.uop.table import UOpKind
from rules.concatenation import InputPlace, can_merge
from rules.windows import enlarge

MORE = 2.0
"""A product of windows that are enlarged sums at most so many times the terms of the products apart."""


class _Product(NamedTuple):
    """The sum of products of an operand and an input, both read over the result's axes and then the reduced ones."""

    operand: Ref
    read: AxisMap
    weights: Ref
    weights_read: AxisMap
    side: int
    reduced: int

    def is_beside(self, other: _Product) -> bool:
        """Whether both products are parts of one."""
        alike = (self.operand, self.side, self.reduced) == (other.operand, other.side, other.reduced)
        return alike and can_merge(self.read, self.weights_read, other.read, other.weights_read, self.reduced)

    @property
    def outputs(self) -> int:
        """How many sums there are."""
        return math.prod(self.read.sizes[: len(self.read.sizes) - self.reduced])

    @property
    def terms(self) -> int:
        """How many terms each has."""
        return math.prod(self.read.sizes[len(self.read.sizes) - self.reduced :])

    def within(self, other: _Product) -> _Product | None:
        """The same product with the window of another of the same operand, if that is a larger one."""
        if (self.operand, self.side, self.reduced) != (other.operand, other.side, other.reduced):
            return None
        found = enlarge(self.read, self.weights_read, other.read, self.reduced)
        return None if found is None else self._replace(read=found.read, weights_read=found.weights)


def places(graph: Graph, known: Sources, constants: Collection[str], enlarging: bool = False) -> dict[Ref, str]:
    """The place of every input that is one of several: of those that are known when the program is built, since others
    would have to be put together whenever it runs. `enlarging`: also of those that are when windows are enlarged."""
    groups: list[list[_Product]] = []
    by_operand: dict[Ref, list[list[_Product]]] = {}
    taken: set[Ref] = set()
    for node in graph.nodes:
        for found in _products(node, graph, known):
            if found.weights not in taken and graph.by_id[found.weights].arg["tensor_id"] in constants:
                own = by_operand.setdefault(found.operand, [])
                group = next((each for each in own if each[0].is_beside(found)), None)
                if group is None:
                    group = []
                    own.append(group)
                    groups.append(group)
                group.append(found)
                taken.add(found.weights)
    several = [group for group in groups if len(group) > 1]
    if enlarging:
        several += _enlarging([group[0] for group in groups if len(group) == 1])
    return {
        product.weights: str(InputPlace(number, len(group), place, place))
        for number, group in enumerate(several)
        for place, product in enumerate(group)
    }


def _enlarging(products: Sequence[_Product]) -> list[list[_Product]]:
    """The products, each of a group of its own, that become one with the largest window among them."""
    groups: list[list[_Product]] = []
    for found in products:
        group = next((each for each in groups if _is_worth([*each, found])), None)
        if group is None:
            groups.append([found])
        else:
            group.append(found)
    return [group for group in groups if len(group) > 1]


def _is_worth(products: Sequence[_Product]) -> bool:
    """Whether products with windows as large as the largest are parts of one that sums not many more terms."""
    largest = max(products, key=lambda each: each.terms)
    wide = [each if each is largest else each.within(largest) for each in products]
    apart = sum(each.outputs * each.terms for each in products)
    together = sum(each.outputs for each in products) * largest.terms
    return together <= MORE * apart and all(each is not None and each.is_beside(largest) for each in wide)


def _products(node: Node, graph: Graph, known: Sources) -> list[_Product]:
    """The one or two ways to take a sum of products for that of an operand and an input."""
    if node.op.kind is not UOpKind.REDUCE or str(node.arg["op"]).upper() != "SUM":
        return []
    at = reduced_map(node, graph)
    product = graph.by_id[node.refs[0]]
    if product.uop == "CAST":
        product = graph.by_id[product.refs[0]]
    if product.uop != "MUL" or len(product.refs) != 2:
        return []
    (left, left_map), (right, right_map) = (known[ref] for ref in product.refs)
    maps = compose(left_map, at), compose(right_map, at)
    reduced = len(node.arg["axes"])
    found = []
    if graph.by_id[right].uop == "INPUT":
        found.append(_Product(left, maps[0], right, maps[1], 1, reduced))
    if graph.by_id[left].uop == "INPUT":
        found.append(_Product(right, maps[1], left, maps[0], 0, reduced))
    return found
