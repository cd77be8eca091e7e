"""Which values lie in memory between two parts of a program, and which parts compute the other values anew."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cached_property

from eqsat.looping.stored_bytes import stored_bytes
from ir.tiny.graph import Graph, Node, Ref
from ir.uop.table import UOpKind


def free_values(graph: Graph) -> frozenset[Ref]:
    """The values that every part which reads them computes anew: movements, values that read nothing, and bools that
    depend on positions only, as the masks of concatenations do."""
    free: set[Ref] = set()
    read_nothing: set[Ref] = set()
    for node in graph.nodes:
        moves = node.op.kind is UOpKind.MOVEMENT
        chooses = node.op.kind.is_elementwise and graph.types[node.id].dtype.name == "bool"
        if node.uop != "INPUT" and read_nothing.issuperset(node.refs) and (moves or chooses or not node.refs):
            read_nothing.add(node.id)
        if moves or node.id in read_nothing:
            free.add(node.id)
    return frozenset(free)


def live_uops(graph: Graph) -> set[Ref]:
    """The values that the outputs need."""
    live = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.id in live:
            live.update(node.refs)
    return live


def stored_sources(graph: Graph) -> Mapping[Ref, frozenset[Ref]]:
    """Value → the values in memory that a part reads where it reads this value: the value itself, or the values from
    which a free value is computed."""
    sources: dict[Ref, frozenset[Ref]] = {}
    free = free_values(graph)
    for node in graph.nodes:
        below = (sources[ref] for ref in node.refs)
        sources[node.id] = frozenset().union(*below) if node.id in free else frozenset((node.id,))
    return sources


class StoredValues:
    """Which values of a graph lie in memory in almost every choice of kernels.

    known: the values that are known when the program is built. free and sources: see `free_values`, `stored_sources`.
    nodes: the uops that outputs need and that are not free or are outputs, in order.
    """

    def __init__(self, graph: Graph, known: Collection[Ref] = ()) -> None:
        self.graph, self.known, self.free = graph, known, free_values(graph)
        self.sources = stored_sources(graph)
        needed = {*graph.outputs, *(live_uops(graph) - self.free)}
        self.nodes = [node for node in graph.nodes if node.id in needed]

    def is_stored(self, ref: Ref) -> bool:
        """Whether a value lies in memory in almost every choice of kernels: accumulators are not computed again for
        each of several readers. What is computed of stored bytes is, since readers load fewer bytes."""
        node = self.graph[ref]
        if node.uop == "INPUT" or node.op.kind is UOpKind.LOOP or ref in self.written or ref in self.known:
            return True
        if ref in self._bytes:
            return True
        return ref in self._accumulated and len(self.readers[ref]) > 1

    @cached_property
    def readers(self) -> Mapping[Ref, set[Ref]]:
        """The uops that read each value, also through movements; an output that is a movement of it counts as one."""
        readers: dict[Ref, set[Ref]] = defaultdict(set)
        for node in self.nodes:
            for ref in node.refs:
                for source in self.sources[ref]:
                    readers[source].add(node.id)
        for output in self.graph.outputs:
            for source in self.sources[output] - {output}:
                readers[source].add(output)
        return readers

    @cached_property
    def written(self) -> set[Ref]:
        """The values that lie in memory for a reason that no kernel changes: outputs, and operands of loops."""
        looped = (ref for node in self.nodes if node.op.kind is UOpKind.LOOP for ref in node.refs)
        return {*self.graph.outputs, *looped}

    @cached_property
    def _bytes(self) -> frozenset[Ref]:
        return stored_bytes(self.graph)

    @cached_property
    def _accumulated(self) -> set[Ref]:
        """The values that need a sum, a product, a maximum or a scatter of several elements, up to stored bytes."""
        refs: set[Ref] = set()
        for node in self.nodes:
            if node.id in self._bytes:
                continue
            if self._is_accumulator(node) or any(not refs.isdisjoint(self.sources[ref]) for ref in node.refs):
                refs.add(node.id)
        return refs

    def accumulators_after(self, ref: Ref) -> int:
        """The number of accumulators that read a value, by themselves or through uops that accumulate nothing."""
        return self._reached[ref].bit_count()

    @cached_property
    def _reached(self) -> Mapping[Ref, int]:
        """For each value the accumulators that read it, as bits."""
        bit: dict[Ref, int] = {}
        reached: dict[Ref, int] = dict.fromkeys((node.id for node in self.nodes), 0)
        for node in reversed(self.nodes):
            is_accumulator = self._is_accumulator(node)
            own = bit.setdefault(node.id, 1 << len(bit)) if is_accumulator else reached[node.id]
            for ref in node.refs:
                for source in self.sources[ref]:
                    reached[source] |= own
        return reached

    def _is_accumulator(self, node: Node) -> bool:
        if node.op.kind is UOpKind.REDUCE:
            sizes = self.graph.types[node.refs[0]].shape
            return math.prod(sizes[int(axis)] for axis in node.arg["axes"]) > 1
        return node.op.kind in _ACCUMULATING


_ACCUMULATING = (UOpKind.SCAN, UOpKind.SCATTER, UOpKind.LOOP)
