"""One value, one rounding: a cover that computes a sum of products in several kernels rounds the products in all of
them or in none.

A contraction does not round its products (`rules.contraction`), so the e-graph holds a narrow sum of products both
ways. The two differ by about that rounding; where one is subtracted from the other, as a softmax does with scores and
their maximum, the difference is all that is left of scores near 2e4, and an exponential makes it the result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cached_property, reduce
from operator import or_

from eqsat.egraph.view import EGraphView
from eqsat.extraction.extractors.problem import Mark
from eqsat.extraction.kernel_tree import Tree, buffer_of, class_arguments
from ir.dtype import TensorType
from ir.term import Sort


class Roundings:
    """How the kernels of one e-graph round the products in their sums."""

    def __init__(self, view: EGraphView, type_of: Callable[[int], TensorType]) -> None:
        self._view, self._type_of = view, type_of
        sums = (nodes for each, nodes in view.classes.items() if view.sorts[each] is Sort.ACC)
        both = (nodes for nodes in sums if {"Reduce", "Contract"} <= {node.ctor for node in nodes})
        self._both = frozenset(node for nodes in both for node in nodes)
        self._marks: dict[Tree, tuple[Mark, ...]] = {}

    def is_rounding(self, tree: Tree) -> bool:
        """Whether the kernel rounds the products of a sum that can be computed both ways."""
        return any(each.node in self._both and self._rounds(each) for each in tree.accumulators)

    def marks(self, tree: Tree) -> tuple[Mark, ...]:
        """Of every sum in the kernel that can be computed both ways: its inputs, as bits, and whether its products are
        rounded. Those of the same inputs count as one: a copy
        under another view is in another class, and may read what another kernel stored."""
        if tree not in self._marks:
            sums = sorted((each for each in tree.accumulators if each.node in self._both), key=lambda each: each.serial)
            self._marks[tree] = tuple((self._inputs_behind(each), self._rounds(each)) for each in sums)
        return self._marks[tree]

    def _inputs_behind(self, accumulator: Tree) -> int:
        return reduce(or_, (self._inputs.get(buffer, 0) for buffer in accumulator.reads), 0)

    @cached_property
    def _inputs(self) -> dict[int, int]:
        """Class → the inputs that it is computed from as the program was written, or as a rule introduced it, one bit
        each."""
        view = self._view
        readers: dict[int, dict[int, None]] = {}
        found: dict[int, int] = {}
        for each, nodes in view.classes.items():
            introduced = all(node in view.rules for node in nodes)
            for node in nodes:
                if node.ctor == "Input":
                    found[each] = 1 << len(found)
                elif introduced or node not in view.rules:
                    for operand in class_arguments(view, node):
                        readers.setdefault(operand, {})[each] = None
        waiting = deque(found)
        while waiting:
            each = waiting.popleft()
            for reader in readers.get(each, ()):
                before = found.get(reader, 0)
                found[reader] = before | found[each]
                if found[reader] != before:
                    waiting.append(reader)
        return found

    def _rounds(self, accumulator: Tree) -> bool:
        """Whether what it sums has another dtype than its own: there are products of that dtype, computed in the
        kernel or read."""
        if accumulator.node.ctor != "Reduce":
            return False
        summand = accumulator.kids[0]
        while summand.node.ctor == "PUn" and summand.node.args[0] == "cast":
            summand = summand.kids[0]
        buffer = buffer_of(summand.node)
        found = summand.node.args[1] if buffer is None else self._type_of(buffer).dtype.name
        return found != accumulator.node.args[1]
