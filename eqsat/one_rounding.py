"""One value, one rounding: a cover that computes a sum of products in several kernels rounds the products in all of
them or in none.

A contraction does not round its products (`rules.contraction`), so the e-graph holds a narrow sum of products both
ways. The two differ by about that rounding; where one is subtracted from the other, as a softmax does with scores and
their maximum, the difference is all that is left of scores near 2e4, and an exponential makes it the result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import cached_property, reduce
from operator import or_

from eqsat.cover import Extractor, Problem
from eqsat.egraph_view import EGraphView
from eqsat.kernel_tree import Tree, buffer_of, class_arguments
from ir.dtype import TensorType
from ir.term import Sort

Mark = tuple[int, bool]
"""The inputs of a sum, as bits, and whether its products are rounded."""


class Roundings:
    """How the kernels of one e-graph round the products in their sums."""

    def __init__(self, view: EGraphView, type_of: Callable[[int], TensorType]) -> None:
        self._view, self._type_of = view, type_of
        sums = (nodes for each, nodes in view.classes.items() if view.sorts[each] is Sort.ACC)
        both = (nodes for nodes in sums if {"Reduce", "Contract"} <= {node.ctor for node in nodes})
        self._both = frozenset(node for nodes in both for node in nodes)

    def marks(self, tree: Tree) -> list[Mark]:
        """Of every sum in the kernel that can be computed both ways. Those of the same inputs count as one: a copy
        under another view is in another class, and may read what another kernel stored."""
        sums = sorted((each for each in tree.accumulators if each.node in self._both), key=lambda each: each.serial)
        return [(self._inputs_behind(each), self._rounds(each)) for each in sums]

    def _inputs_behind(self, accumulator: Tree) -> int:
        return reduce(or_, (self._inputs.get(buffer, 0) for buffer in accumulator.reads), 0)

    @cached_property
    def _inputs(self) -> dict[int, int]:
        """Class → the inputs that it is computed from as the program was written, one bit each."""
        view = self._view
        readers: dict[int, dict[int, None]] = {}
        found: dict[int, int] = {}
        for each, nodes in view.classes.items():
            for node in nodes:
                if node.ctor == "Input":
                    found[each] = 1 << len(found)
                elif node not in view.rules:
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


def consistent(
    problem: Problem, extractor: Extractor, marks: Callable[[int], Iterable[Mark]]
) -> tuple[int, ...] | None:
    """The extractor's cover, made again without the dearer of two roundings as long as a value has both.

    Args:
        marks: of the kernel of a column.
    """
    kept = tuple(range(len(problem.columns)))
    chosen = extractor(problem)
    while chosen is not None and (value := _rounded_both_ways(chosen, marks)) is not None:
        found: list[tuple[float, tuple[int, ...], tuple[int, ...]]] = []
        for rounded in (False, True):
            fewer = tuple(index for index in kept if (value, rounded) not in marks(index))
            cover = extractor(Problem(tuple(problem.columns[index] for index in fewer), problem.roots))
            if cover is not None:
                picked = tuple(fewer[index] for index in cover)
                found.append((sum(problem.columns[index].cost for index in picked), fewer, picked))
        if not found:
            return chosen
        _, kept, chosen = min(found, key=lambda each: each[0])
    return chosen


def _rounded_both_ways(chosen: Iterable[int], marks: Callable[[int], Iterable[Mark]]) -> int | None:
    """The inputs of the first sum that has both roundings."""
    seen = dict.fromkeys(mark for index in chosen for mark in marks(index))
    return next((value for value, rounded in seen if (value, not rounded) in seen), None)
