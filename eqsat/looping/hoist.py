"""Takes out of loops what does not depend on their states, so that it is computed once, or for all trips at once.

before   for t: h = tanh(x[t] · w + h · r)
after    y = x · w, a product of all trips; for t: h = tanh(y[t] + h · r)

What depends on scanned operands is taken out if a sum, a product or a maximum over an axis is in it; elementwise uops
and movements are cheap inside of kernels that read states.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from eqsat.looping.batch import batched_arg, can_batch
from ir.names import new_name
from ir.tiny.graph import Graph, Imm, Node, Ref
from ir.uop.args import Arg
from ir.uop.loop import loop_shape
from ir.uop.table import UOpKind

MOST_BYTES = 2**30
"""A value of all trips that is taken out of a loop has at most so many bytes."""


def hoist(graph: Graph) -> Graph:
    """The graph with equal outputs, of the same names."""
    if not any(node.op.kind is UOpKind.LOOP for node in graph.nodes):
        return graph
    taken = set(graph.types)
    hoisted: dict[object, _Hoisted] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op.kind is not UOpKind.LOOP:
            nodes.append(node)
            continue
        key = (node.src, node.arg.with_(result=0))
        if key not in hoisted:
            hoisted[key] = _Hoisted(graph, node, taken)
            nodes += hoisted[key].outside
        nodes.append(hoisted[key].result(node))
    return Graph.build(nodes, graph.outputs)


class _Hoisted:
    """A loop without what it computes outside. outside: these uops."""

    def __init__(self, graph: Graph, loop: Node, taken: set[Ref]) -> None:
        self.loop, self.taken = loop, taken
        self.body = hoist(loop.arg["graph"].graph)
        self.shape = loop_shape(graph.operand_types(loop), loop.arg)
        self.outside: list[Node] = []
        inputs = list(self.body.inputs.values())
        end = self.shape.states + self.shape.scanned
        self.operand = {inputs[k].id: ref for k, ref in enumerate(loop.refs)}
        self.states = [node.id for node in inputs[: self.shape.states]]
        self.varying = {node.id for node in inputs[self.shape.states : end]}
        self.fixed = {node.id for node in inputs[end:]}
        self.heavy: set[Ref] = set()
        self.given: set[Ref] = set()
        self._classify()
        self.outer: dict[Ref, Ref] = dict(self.operand)
        self.body, self.src, self.scanned = self._rebuild()

    def _classify(self) -> None:
        """Values that no state reaches: `fixed` in all trips, or `varying`. heavy: those with a reduction in them.
        given: those that depend on an input of the graph; masks of positions do not, and belong into kernels."""
        first = {node.arg["tensor_id"]: node.id for node in self.body.inputs.values()}
        for node in self.body.nodes:
            if node.uop == "INPUT":
                for group in (self.varying, self.fixed):
                    if first[node.arg["tensor_id"]] in group:
                        group.add(node.id)
                self.given.add(node.id)
                continue
            if any(ref in self.given for ref in node.refs):
                self.given.add(node.id)
            if all(ref in self.fixed for ref in node.refs):
                self.fixed.add(node.id)
            elif can_batch(node) and all(ref in self.fixed or ref in self.varying for ref in node.refs):
                self.varying.add(node.id)
            else:
                continue
            sums = node.op.kind in (UOpKind.REDUCE, UOpKind.SCAN)
            if sums or any(ref in self.heavy for ref in node.refs):
                self.heavy.add(node.id)

    def _is_worth(self, ref: Ref) -> bool:
        """Whether a value is computed outside, where the loop reads it."""
        node = self.body[ref]
        if node.uop == "INPUT" or node.op.kind is UOpKind.MOVEMENT or not node.refs:
            return False
        if ref in self.fixed:
            return ref in self.given
        return ref in self.varying and ref in self.heavy and self._fits(ref)

    def _fits(self, ref: Ref) -> bool:
        return self.body.types[ref].nbytes * self.shape.trips <= MOST_BYTES

    def _rebuild(self) -> tuple[Graph, tuple[Ref, ...], int]:
        """The graph of the loop that remains, its operands, and how many of them are scanned."""
        inside: set[Ref] = set()
        read: dict[Ref, None] = {}
        waiting = list(self.body.outputs)
        while waiting:
            ref = waiting.pop()
            if self.body[ref].uop == "INPUT" or self._is_worth(ref):
                read[ref] = None
            elif ref not in inside:
                inside.add(ref)
                waiting += self.body[ref].refs
        in_order = [node.id for node in self.body.nodes if node.id in read and node.id not in self.states]
        scanned = [ref for ref in in_order if ref in self.varying]
        captured = [ref for ref in in_order if ref in self.fixed]
        nodes = [self._input(ref) for ref in (*self.states, *scanned, *captured)]
        nodes += [node for node in self.body.nodes if node.id in inside]
        operands = [self._outside(ref) for ref in (*scanned, *captured)]
        src = (*self.loop.refs[: self.shape.states], *operands)
        return Graph.build(nodes, self.body.outputs), src, len(scanned)

    def _input(self, ref: Ref) -> Node:
        type_ = self.body.types[ref]
        return Node(ref, "INPUT", (), Arg(tensor_id=ref, dtype=type_.dtype.name, shape=type_.shape))

    def _outside(self, ref: Ref) -> Ref:
        """The value outside: of all trips, if it varies."""
        for inner in self._cone(ref):
            if inner not in self.outer:
                self._move_out(self.body[inner])
        return self.outer[ref]

    def _cone(self, ref: Ref) -> Iterator[Ref]:
        """The value and all that it needs, sources first."""
        needed = {ref}
        for node in reversed(self.body.nodes):
            if node.id in needed:
                needed.update(node.refs)
        return (node.id for node in self.body.nodes if node.id in needed)

    def _move_out(self, node: Node) -> None:
        """Adds the uop outside. A tensor that the graph declares twice is one operand."""
        if node.uop == "INPUT":
            self.outer[node.id] = self.operand[self.body.inputs[node.arg["tensor_id"]].id]
            return
        varies = node.id in self.varying
        repeated = self.fixed if varies else set()
        src = tuple(
            ref if isinstance(ref, Imm) else self._repeated(ref) if ref in repeated else self.outer[ref]
            for ref in node.src
        )
        arg = batched_arg(node, self.shape.trips) if varies else node.arg
        self.outer[node.id] = self._fresh(f"{self.loop.id}/{node.id}")
        moved = msgspec.structs.replace(node, id=self.outer[node.id], src=src, arg=arg, calls=self.loop.calls)
        self.outside.append(moved)

    def _repeated(self, ref: Ref) -> Ref:
        """A fixed value once per trip."""
        shape, source = self.body.types[ref].shape, self.outer[ref]
        row, all_ = self._fresh(f"{source}.trip"), self._fresh(f"{source}.trips")
        self.outside.append(Node(row, "RESHAPE", (source,), Arg(result_shape=(1, *shape))))
        self.outside.append(Node(all_, "EXPAND", (row,), Arg(result_shape=(self.shape.trips, *shape))))
        return all_

    def _fresh(self, wish: str) -> Ref:
        name = new_name(wish, self.taken)
        self.taken.add(name)
        return name

    def result(self, node: Node) -> Node:
        """One result of the loop that remains."""
        body = self.body.named(self.loop.arg["graph"].name)
        arg = node.arg.with_(graph=body, scanned=self.scanned, trips=self.shape.trips)
        return msgspec.structs.replace(node, src=self.src, arg=arg)
