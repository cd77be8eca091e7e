"""Groups of inputs that multiply the same operand in the same way, which merging rules cannot find from one match.

A rule sees two products at a time. To merge a whole group into one product, and to merge each pair once, the rules need
an order of the group's members: the order in which the program reads them. Products that are in no group may still
form one if the windows of some are enlarged to the largest, as long as this adds little work.
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
"""Products with enlarged windows may sum at most this many times the terms of the separate products."""


class _Product(NamedTuple):
    """A sum of products of an operand and an input; both maps go from the result's axes and the reduced axes."""

    operand: Ref
    read: AxisMap
    weights: Ref
    weights_read: AxisMap
    side: int
    reduced: int

    def is_beside(self, other: _Product) -> bool:
        """Whether both products can be parts of one product."""
        alike = (self.operand, self.side, self.reduced) == (other.operand, other.side, other.reduced)
        return alike and can_merge(self.read, self.weights_read, other.read, other.weights_read, self.reduced)

    @property
    def outputs(self) -> int:
        """The number of sums."""
        return math.prod(self.read.sizes[: len(self.read.sizes) - self.reduced])

    @property
    def terms(self) -> int:
        """The number of terms of each sum."""
        return math.prod(self.read.sizes[len(self.read.sizes) - self.reduced :])

    def within(self, other: _Product) -> _Product | None:
        """The same product with the window of another one; None if that one has another operand or no larger window."""
        if (self.operand, self.side, self.reduced) != (other.operand, other.side, other.reduced):
            return None
        enlarged = enlarge(self.read, self.weights_read, other.read, self.reduced)
        return None if enlarged is None else self._replace(read=enlarged.read, weights_read=enlarged.weights)


def find_places(graph: Graph, known: Sources, constants: Collection[str], enlarging: bool = False) -> dict[Ref, str]:
    """The place of every input that belongs to a group. Only constants are grouped, because other inputs would have to
    be concatenated at every call. enlarging: also form groups by enlarging windows."""
    groups: list[list[_Product]] = []
    by_operand: dict[Ref, list[list[_Product]]] = {}
    taken: set[Ref] = set()
    for node in graph.nodes:
        for product in _products(node, graph, known):
            if product.weights not in taken and graph.by_id[product.weights].arg["tensor_id"] in constants:
                groups_of_operand = by_operand.setdefault(product.operand, [])
                group = next((group for group in groups_of_operand if group[0].is_beside(product)), None)
                if group is None:
                    group = []
                    groups_of_operand.append(group)
                    groups.append(group)
                group.append(product)
                taken.add(product.weights)
    shared_groups = [group for group in groups if len(group) > 1]
    if enlarging:
        shared_groups += _groups_by_enlarging([group[0] for group in groups if len(group) == 1])
    return {
        product.weights: str(InputPlace(number, len(group), place, place))
        for number, group in enumerate(shared_groups)
        for place, product in enumerate(group)
    }


def _groups_by_enlarging(products: Sequence[_Product]) -> list[list[_Product]]:
    """Groups of products that become one product with the largest window among them."""
    groups: list[list[_Product]] = []
    for product in products:
        group = next((group for group in groups if _is_worth_merging([*group, product])), None)
        if group is None:
            groups.append([product])
        else:
            group.append(product)
    return [group for group in groups if len(group) > 1]


def _is_worth_merging(products: Sequence[_Product]) -> bool:
    """Whether the products, with windows as large as the largest, are parts of one product without much more work."""
    largest = max(products, key=lambda product: product.terms)
    wide = [product if product is largest else product.within(largest) for product in products]
    separate = sum(product.outputs * product.terms for product in products)
    merged = sum(product.outputs for product in products) * largest.terms
    return merged <= MORE * separate and all(product is not None and product.is_beside(largest) for product in wide)


def _products(node: Node, graph: Graph, known: Sources) -> list[_Product]:
    """The sums of products, none to two, that a node is if one factor is taken for the operand and one for an input."""
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
    products = []
    if graph.by_id[right].uop == "INPUT":
        products.append(_Product(left, maps[0], right, maps[1], 1, reduced))
    if graph.by_id[left].uop == "INPUT":
        products.append(_Product(right, maps[1], left, maps[0], 0, reduced))
    return products
