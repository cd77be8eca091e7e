"""Finds the blocks of a graph that repeat one after another, as the layers of a model do whose graph has no calls.

    a b c  a b c  a b c  d        the blocks (a b c), (a b c), (a b c)

Uops are compared by what they compute and by the types of their operands. Whether two blocks compute the same is for
the caller to see: which operand is whose result plays no part here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eqsat.looping.stored import StoredValues
from eqsat.looping.uop_key import uop_key
from ir.tiny.graph import Imm, Node, Ref


class _RepeatedRun(NamedTuple):
    """The uops from `first` on, before `end`, repeat after `period` uops."""

    first: int
    end: int
    period: int

    @property
    def saved(self) -> int:
        """The uops after those of the first block."""
        return (self.end - self.first) // self.period * self.period - self.period


def find_repeats(values: StoredValues, least: int) -> list[list[Ref]]:
    """The uops of each repeated block, of at least `least` uops each, which are not of a call.

    One value is handed from a block to the next. Kernels store it in any case, since several accumulators read it.
    """
    nodes = [node for node in values.nodes if node.uop != "INPUT"]
    if len(nodes) < 2 * least:
        return []
    blocks: list[list[Ref]] = []
    handed = np.array([values.accumulators_after(node.id) > 1 for node in nodes])
    if not handed.any():
        return []
    free = np.array([not node.calls for node in nodes])
    runs = _runs(_labels(values, nodes), least)
    for run in sorted(runs, key=lambda run: (-run.saved, run.period, run.first)):
        if free[run.first : run.end].all() and handed[run.first : run.end].any():
            for start in _BlockEdges(values, nodes, run).starts():
                blocks.append([node.id for node in nodes[start : start + run.period]])
                free[start : start + run.period] = False
    return blocks


def _labels(values: StoredValues, nodes: Sequence[Node]) -> NDArray[np.int64]:
    """A number for each uop: equal for equal uops over operands of equal types."""
    numbers: dict[object, int] = {}
    graph = values.graph
    operand: dict[Ref, int] = {}
    label: dict[Ref, int] = {}
    for node in graph.nodes:
        ref, type_ = node.id, graph.types[node.id]
        own = uop_key(node, (read if isinstance(read, Imm) else operand[read] for read in node.src))
        stored = (type_.dtype, type_.shape, ref in values.known)
        label[ref] = numbers.setdefault(own, len(numbers))
        operand[ref] = label[ref] if ref in values.free else numbers.setdefault(stored, len(numbers))
    return np.array([label[node.id] for node in nodes], np.int64)


def _runs(labels: NDArray[np.int64], least: int) -> Iterator[_RepeatedRun]:
    """The runs of each period with two blocks or more."""
    for period in range(least, len(labels) // 2 + 1):
        position = 0
        for same, several in groupby((labels[:-period] == labels[period:]).tolist()):
            length = sum(1 for _ in several)
            if same and length >= period:
                yield _RepeatedRun(position, position + length + period, period)
            position += length


class _BlockEdges:
    """The places of a run at which a block may begin: place `k` is before the uop `run.first + k`.

    handed: per place, the number of values of the run that uops before it compute and uops of the run after it read.
    which: the sum of the positions of these uops. lost: the number of values of the run that uops after the place read,
    in the run or behind it, and that kernels may compute without storing them.
    """

    def __init__(self, values: StoredValues, nodes: Sequence[Node], run: _RepeatedRun) -> None:
        self.values, self.nodes, self.run = values, nodes, run
        place = {node.id: position for position, node in enumerate(nodes)}
        changes = np.zeros((3, run.end - run.first + 2), np.int64)
        for position in range(run.first, run.end):
            ref = nodes[position].id
            readers = [place.get(reader, run.end) for reader in values.readers[ref]]
            inside = max((reader for reader in readers if reader < run.end), default=position)
            last = min(max(readers, default=position), run.end)
            begin = position + 1 - run.first
            for row, reach, weight in ((0, inside, 1), (1, inside, position), (2, last, not values.is_stored(ref))):
                changes[row, begin] += weight
                changes[row, reach + 1 - run.first] -= weight
        self.handed, self.which, self.lost = np.cumsum(changes, axis=1)[:, :-1]

    def starts(self) -> list[int]:
        """Where the blocks begin: none, or two or more. Of the values that may be handed over, the blocks begin after
        the one that most accumulators read, so that no kernel of statistics is cut; after the last one of several, so
        that elementwise uops stay with the accumulator before them."""
        best: tuple[int, int, list[int]] | None = None
        for first in range(self.run.period):
            edges = self._edges_from(first)
            if len(edges) > 2:
                ref = self.nodes[self.which[edges[1]]].id
                accumulators = self.values.accumulators_after(ref)
                if accumulators > 1 and (best is None or accumulators >= best[0]):
                    best = accumulators, first, edges
        return [] if best is None else [self.run.first + edge for edge in best[2][:-1]]

    def _edges_from(self, first: int) -> list[int]:
        """The edges of the blocks of which the first begins at this place. The last may be the end of the run."""
        edges = np.arange(first, len(self.handed), self.run.period)
        good = ((self.handed[edges] == 1) | (edges == len(self.handed) - 1)) & (self.lost[edges] == 0)
        good[0] = self.lost[first] == 0
        count = len(edges) if good.all() else int(np.argmin(good))
        return [int(edge) for edge in edges[:count]]
