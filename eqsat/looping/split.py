"""Tiny graph → parts: what comes before, inside and after loops, each a graph without loops.

A uop goes to the latest part that may compute it, where its readers are. Movements, and uops without operands, are
computed anew in every part that reads them. All other values that two parts share are buffers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from eqsat.looping.hoist import hoist
from eqsat.looping.parts import LoopElement, Part, PartLoop, State, Steps
from ir.tiny.graph import Graph, Imm, Node, Ref
from ir.uop.args import Arg
from ir.uop.loop import loop_shape
from ir.uop.table import UOpKind


def has_loops(graph: Graph) -> bool:
    """Whether any uop is a LOOP."""
    return any(node.op.kind is UOpKind.LOOP for node in graph.nodes)


def split(graph: Graph, constants: Collection[str]) -> Steps:
    """The steps of a graph; `constants` are the inputs that are known when the program is built."""
    if not has_loops(graph):
        own = tuple(name for name in graph.inputs if name in constants)
        return (Part(graph, {name: node.id for name, node in graph.inputs.items()}, own),)
    graph = hoist(graph)
    tensors = {node.id: name for name, node in graph.inputs.items()}
    names = _Names(set(graph.types) | set(graph.inputs), tensors)
    known = {graph.inputs[name].id for name in constants if name in graph.inputs}
    same = {node.id: graph.inputs[node.arg["tensor_id"]].id for node in graph.nodes if node.uop == "INPUT"}
    return _Scope(graph, {**{ref: ref for ref in graph.types}, **same}, names, known).steps()


@dataclass
class _Names:
    """Ids of the whole program, and of its tensors. tensors: the tensor_id of each value that is an input."""

    taken: set[str]
    tensors: dict[Ref, str]

    def fresh(self, wish: str) -> str:
        name = wish
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def tensor(self, value: Ref) -> str:
        """The tensor_id of an input that is this value: unlike that of any other value."""
        if value not in self.tensors:
            self.tensors[value] = self.fresh(value) if value in self.tensors.values() else value
        return self.tensors[value]


@dataclass
class _Group:
    """The LOOPs that are one loop. level: the number of loops that run before it, one after another, and itself."""

    nodes: list[Node]
    level: int

    @property
    def first(self) -> Node:
        return self.nodes[0]


class _Scope:
    """The program itself, or the graph of a loop. value: the program's id of each of the graph's ids. known: the values
    that are known when the program is built."""

    def __init__(self, graph: Graph, value: dict[Ref, Ref], names: _Names, known: set[Ref]) -> None:
        self.graph, self.value, self.names, self.known = graph, value, names, known
        live = _live(graph)
        self.nodes = [node for node in graph.nodes if node.id in live]
        self.loops = self._group_loops()
        self.level = self._levels()
        self.last = max((group.level for group in self.loops.values()), default=0)
        operands = {ref for group in self.loops.values() for ref in group.first.refs}
        self.kept = {ref for ref in operands | set(graph.outputs) if self._is_computed(graph[ref])}
        for node in self.nodes:
            if self._is_computed(node) and all(self.value[ref] in known for ref in node.refs):
                known.add(self.value[node.id])

    def steps(self) -> Steps:
        """The loops of each level, then the part after them."""
        parts = [_LevelCone(self, level) for level in range(self.last + 1)]
        stored = self.kept.union(*(part.leaves for part in parts))
        steps: list[Part | PartLoop] = []
        for part in parts:
            groups = {id(group): group for group in self.loops.values() if group.level == part.level}
            steps += [self._loop(group) for group in groups.values()]
            outputs = [ref for ref in part.own if ref in stored]
            steps += [self._part(part, outputs)] if outputs else []
        return tuple(steps)

    def _group_loops(self) -> dict[Ref, _Group]:
        """The loop that each LOOP belongs to."""
        depth: dict[Ref, int] = {}
        by_loop: dict[object, _Group] = {}
        groups: dict[Ref, _Group] = {}
        for node in self.nodes:
            depth[node.id] = max((depth[ref] for ref in node.refs), default=0)
            if node.op.kind is UOpKind.LOOP:
                depth[node.id] += 1
                group = by_loop.setdefault((node.src, node.arg.with_(result=0)), _Group([], depth[node.id]))
                group.nodes.append(node)
                groups[node.id] = group
        self.depth = depth
        return groups

    def _levels(self) -> dict[Ref, int]:
        """The number of the part that computes each value: the last one that its readers allow."""
        latest: dict[Ref, int] = {}
        level: dict[Ref, int] = {}
        for node in reversed(self.nodes):
            level[node.id] = latest.get(node.id, self.depth[node.id])
            at = self.loops[node.id].level - 1 if node.id in self.loops else level[node.id]
            for ref in node.refs:
                latest[ref] = min(latest.get(ref, at), at)
        return level

    def _is_computed(self, node: Node) -> bool:
        return node.op.kind not in (UOpKind.INPUT, UOpKind.LOOP)

    def is_stored_by(self, ref: Ref, level: int) -> bool:
        """Whether the part of this level computes a value as a buffer or between its own uops."""
        node = self.graph[ref]
        is_own = self._is_computed(node) and self.level[ref] == level
        return is_own and (ref in self.kept or not is_free(node))

    def _part(self, cone: _LevelCone, outputs: Sequence[Ref]) -> Part:
        nodes = {self.value[ref]: self._input(ref) for ref in cone.leaves}
        for node in self.nodes:
            if node.id in cone.inside:
                src = tuple(operand if isinstance(operand, Imm) else self.value[operand] for operand in node.src)
                nodes[self.value[node.id]] = msgspec.structs.replace(node, id=self.value[node.id], src=src)
        graph = Graph.build(nodes.values(), list(dict.fromkeys(self.value[ref] for ref in outputs)))
        reads = {node.arg["tensor_id"]: node.id for node in graph.nodes if node.uop == "INPUT"}
        return Part(graph, reads, tuple(name for name, value in reads.items() if value in self.known))

    def _input(self, ref: Ref) -> Node:
        """A value that another part computes, as an input."""
        value, type_ = self.value[ref], self.graph.types[ref]
        arg = Arg(tensor_id=self.names.tensor(value), dtype=type_.dtype.name, shape=type_.shape)
        return Node(value, "INPUT", (), arg)

    # loops

    def _loop(self, group: _Group) -> PartLoop:
        node = group.first
        body: Graph = node.arg["graph"].graph
        operands = [self.value[ref] for ref in node.refs]
        shape = loop_shape(self.graph.operand_types(node), node.arg)
        end = shape.states + shape.scanned
        name = self.value[node.id]
        value: dict[Ref, Ref] = {}
        for place, parameter in enumerate(body.inputs.values()):
            value[parameter.id] = operands[place] if place >= end else self.names.fresh(f"{name}/{parameter.id}")
        parameters = [value[parameter.id] for parameter in body.inputs.values()]
        for inner in body.nodes:
            if inner.uop == "INPUT":
                value[inner.id] = value[body.inputs[inner.arg["tensor_id"]].id]
            else:
                value[inner.id] = self.names.fresh(f"{name}/{inner.id}")
        scope = _Scope(body, value, self.names, self.known)
        after = [value[output] for output in body.outputs]
        results = {each.arg["result"]: self.value[each.id] for each in group.nodes}
        types = [body.types[output] for output in body.outputs]
        states = tuple(
            State(operands[k], parameters[k], after[k], results.get(k) or self.names.fresh(f"{name}.{k}"), types[k])
            for k in range(shape.states)
        )
        scanned = tuple(
            LoopElement(operands[k], parameters[k], body.types[[*body.inputs.values()][k].id])
            for k in range(shape.states, end)
        )
        stacked = tuple(LoopElement(results[k], after[k], types[k]) for k in sorted(results) if k >= shape.states)
        reverse = bool(node.arg.get("reverse"))
        return PartLoop(name, shape.trips, reverse, states, scanned, stacked, scope.steps())


class _LevelCone:
    """What the part of a level consists of. own: the values that only this part computes. inside: also the movements
    between them that other parts compute as well. leaves: the values that it reads."""

    def __init__(self, scope: _Scope, level: int) -> None:
        self.level = level
        self.own = [node.id for node in scope.nodes if scope.is_stored_by(node.id, level)]
        self.inside: set[Ref] = set()
        self.leaves: dict[Ref, None] = {}
        waiting = list(self.own)
        while waiting:
            ref = waiting.pop()
            if ref in self.inside or ref in self.leaves:
                continue
            node = scope.graph[ref]
            if scope.is_stored_by(ref, level) or is_free(node):
                self.inside.add(ref)
                waiting += node.refs
            else:
                self.leaves[ref] = None


def is_free(node: Node) -> bool:
    """Whether every part that reads a value computes it anew: a movement, or a value that reads nothing."""
    return node.op.kind is UOpKind.MOVEMENT or (not node.refs and node.uop != "INPUT")


def _live(graph: Graph) -> set[Ref]:
    """The values that the outputs need."""
    live = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.id in live:
            live.update(node.refs)
    return live
