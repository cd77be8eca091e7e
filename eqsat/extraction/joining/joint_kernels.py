"""Kernels of several outputs, each made and priced once: covers that differ in few kernels join the same ones."""

from __future__ import annotations

import math
from collections.abc import Mapping

from eqsat.egraph.enode import ENode
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.cover import CoverKernel
from eqsat.extraction.enumeration.enumeration import can_share_kernel
from eqsat.extraction.enumeration.kernel_tree import Tree, subtrees
from eqsat.extraction.joining.placing import Placing, stored_shape
from ir.pricer import Price

Stores = Mapping[int, Tree]
"""Buf class → the Store tree that computes it."""


class JointKernels:
    """The joint kernels over the candidates of one e-graph."""

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self._placing = Placing()
        self._known: dict[tuple[tuple[int, Tree], ...], CoverKernel | str] = {}
        self._stored: dict[int, dict[ENode, list[tuple[ENode, ENode | None]]]] = {}

    def of(self, stores: Stores) -> CoverKernel | str:
        """The kernel that stores all of these, or why there is none."""
        key = tuple(stores.items())
        if key not in self._known:
            self._known[key] = self._make(stores)
        return self._known[key]

    def _make(self, stores: Stores) -> CoverKernel | str:
        ordered = sorted(stores.items(), key=lambda store: -math.prod(stored_shape(store[1])))
        buffers, trees = zip(*ordered, strict=True)
        if not can_share_kernel(frozenset[Tree]().union(*(tree.accumulators for tree in trees))):
            return "one kernel may not hold the accumulators of both"
        try:
            places = [None, *(self._placing.at(trees[0], tree) for tree in trees[1:])]
        except LookupError as error:
            return str(error)
        priced = self.candidates.prices.of(ordered, places)
        if not isinstance(priced.price, Price):
            return priced.price.reason if priced.price else ""
        return CoverKernel(buffers, trees, priced.reads, priced.region, priced.price)

    def store_within(self, trees: Stores, buffer: int) -> Tree | None:
        """The Store of a buffer over its value as these trees compute it anyway; None where they do not."""
        forest, stores_of = self.candidates.forest, self._stores_of(buffer)
        for tree in subtrees(*trees.values()):
            for store, mark in stores_of.get(tree.node, ()):
                return forest.make(store, (tree if mark is None else forest.make(mark, (tree,)),))
        return None

    def _stores_of(self, buffer: int) -> dict[ENode, list[tuple[ENode, ENode | None]]]:
        """Node of a value inside a kernel → the Store by which a buffer holds the value, and the Pure node between the
        two, where there is one."""
        if buffer not in self._stored:
            view = self.candidates.forest.view
            stores_of: dict[ENode, list[tuple[ENode, ENode | None]]] = {}
            for store in view.stores(buffer):
                for value in view.classes[store.value]:
                    stores_of.setdefault(value, []).append((store, None))
                    if value.ctor == "Pure":
                        for inner in view.classes[value.x]:
                            stores_of.setdefault(inner, []).append((store, value))
            self._stored[buffer] = stores_of
        return self._stored[buffer]
