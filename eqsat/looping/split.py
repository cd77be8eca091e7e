"""Tiny graph → parts: calls that are cut out, and what comes before, inside, between and after calls and loops.

A uop outside of calls goes to the latest part that may compute it, where its readers are. Movements, and uops without
operands, are computed anew in every part that reads them. All other values that two parts share are buffers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from eqsat.looping.cut_calls import CalledPart, cut_calls, units_in_order
from eqsat.looping.hoist import hoist
from eqsat.looping.merge_equal import merge_equal
from eqsat.looping.parts import MAIN, LoopElement, Part, PartLoop, State, Steps
from eqsat.looping.stored import free_values, live_uops, stored_sources
from ir.names import new_name
from ir.tiny.graph import Graph, Imm, Node, Ref
from ir.uop.args import Arg
from ir.uop.loop import loop_shape
from ir.uop.table import UOpKind


def split(graph: Graph, constants: Collection[str]) -> Steps:
    """The steps of a graph; `constants` are the inputs that are known when the program is built. A graph without loops,
    of which no call is cut out, is one part, unchanged."""
    own = tuple(name for name in graph.inputs if name in constants)
    whole = Part(MAIN, graph, {name: node.id for name, node in graph.inputs.items()}, own, tuple(graph.inputs))
    graph = merge_equal(hoist(graph))
    tensors = {node.id: name for name, node in graph.inputs.items()}
    names = _Names(set(graph.types) | set(graph.inputs), tensors, set(), frozenset(tensors))
    known = {graph.inputs[name].id for name in own}
    same = {node.id: graph.inputs[node.arg["tensor_id"]].id for node in graph.nodes if node.uop == "INPUT"}
    scope = _Scope(graph, {**{ref: ref for ref in graph.types}, **same}, names, known, MAIN)
    return scope.steps() if scope.units else (whole,)


@dataclass
class _Names:
    """Ids of the whole program, of its tensors, and names of its parts. tensors: the tensor_id of each value that is an
    input. given: the inputs of the whole program."""

    taken: set[str]
    tensors: dict[Ref, str]
    parts: set[str]
    given: frozenset[Ref]

    def fresh(self, wish: str) -> str:
        name = new_name(wish, self.taken)
        self.taken.add(name)
        return name

    def tensor(self, value: Ref) -> str:
        """The tensor_id of an input that is this value: unlike that of any other value."""
        if value not in self.tensors:
            self.tensors[value] = self.fresh(value) if value in self.tensors.values() else value
        return self.tensors[value]

    def part(self, wish: str) -> str:
        """A name for a part that no other part has: `main`, `main.2`, …."""
        name = new_name(wish, self.parts, ".")
        self.parts.add(name)
        return name


@dataclass(eq=False)
class _LoopOrCall:
    """The LOOPs that are one loop, or a call that is cut out. level: the number of units that run before it, one after
    another, and itself."""

    level: int
    loops: list[Node]
    called: CalledPart | None = None


_Place = int | _LoopOrCall
"""The part that computes a value: that of a level, or that of a call."""


class _Scope:
    """The program itself, or the graph of a loop. value: the program's id of each of the graph's ids. known: the values
    that are known when the program is built. home: the name of its parts outside of calls. units: by the uops that
    belong to them. depth: the number of units that must run before a value is known."""

    def __init__(self, graph: Graph, value: dict[Ref, Ref], names: _Names, known: set[Ref], home: str) -> None:
        self.graph, self.value, self.names, self.known, self.home = graph, value, names, known, home
        self.free = free_values(graph)
        live = live_uops(graph)
        self.nodes = [node for node in graph.nodes if node.id in live]
        for node in self.nodes:
            if self._is_computed(node) and all(self.value[ref] in known for ref in node.refs):
                known.add(self.value[node.id])
        self.units: dict[Ref, _LoopOrCall] = {}
        self.depth = self._find_units()
        self.level = self._levels()
        self.last = max((unit.level for unit in self.units.values()), default=0)
        operands = {ref for unit in self.units.values() for loop in unit.loops for ref in loop.refs}
        self.kept = {ref for ref in operands | set(graph.outputs) if self._is_computed(graph[ref])}

    def steps(self) -> Steps:
        """The loops and the calls of each level, then the part after them."""
        cones = {place: _Cone(self, place) for place in self._places()}
        stored = self.kept.union(*(cone.leaves for cone in cones.values()))
        steps: list[Part | PartLoop] = []
        for place, cone in cones.items():
            if isinstance(place, _LoopOrCall) and place.loops:
                steps.append(self._loop(place))
            elif outputs := [ref for ref in cone.own if ref in stored]:
                steps.append(self._part(cone, outputs, self._name(place)))
        return tuple(steps)

    def _places(self) -> Iterator[_Place]:
        """The units of each level, then the part after them."""
        units = dict.fromkeys(self.units[node.id] for node in self.nodes if node.id in self.units)
        for level in range(self.last + 1):
            yield from (unit for unit in units if unit.level == level)
            yield level

    def _name(self, place: _Place) -> str:
        if isinstance(place, int) or place.called is None:
            return self.names.part(self.home)
        call = "/".join(place.called.path)
        return self.names.part(call if self.home == MAIN else f"{self.home}/{call}")

    def _find_units(self) -> dict[Ref, int]:
        """Finds the units; returns the depth of every value."""
        depth: dict[Ref, int] = {}
        known = {ref for ref in self.graph.types if self.value[ref] in self.known}
        called = cut_calls(self.graph, known)
        for item, reads in units_in_order(self.graph, called):
            before = max((depth[ref] for ref in reads), default=0)
            if isinstance(item, CalledPart):
                depth |= dict.fromkeys(item.uops, before + 1)
            else:
                depth[item] = before + (self.graph[item].op.kind is UOpKind.LOOP)
        part_of = {uop: part for part in called for uop in part.uops}
        calls: dict[object, _LoopOrCall] = {}
        for node in self.nodes:
            is_loop = node.op.kind is UOpKind.LOOP
            if is_loop or node.id in part_of:
                key = (node.src, node.arg.with_(result=0)) if is_loop else part_of[node.id]
                unit = calls.setdefault(key, _LoopOrCall(depth[node.id], [], part_of.get(node.id)))
                unit.loops += [node] if is_loop else []
                self.units[node.id] = unit
        sources = stored_sources(self.graph)
        return {ref: max((depth[source] for source in sources[ref]), default=0) for ref in self.graph.types}

    def _levels(self) -> dict[Ref, int]:
        """The number of the part that computes each value: the last one that its readers allow."""
        latest: dict[Ref, int] = {}
        level: dict[Ref, int] = {}
        for node in reversed(self.nodes):
            unit, depth = self.units.get(node.id), self.depth[node.id]
            level[node.id] = max(depth, latest.get(node.id, depth)) if unit is None else unit.level
            at = level[node.id] if unit is None else unit.level - 1
            for ref in node.refs:
                latest[ref] = min(latest.get(ref, at), at)
        return level

    def _is_computed(self, node: Node) -> bool:
        return node.op.kind not in (UOpKind.INPUT, UOpKind.LOOP)

    def is_stored_by(self, ref: Ref, place: _Place) -> bool:
        """Whether the part at this place computes a value as a buffer or between its own uops."""
        node = self.graph[ref]
        own = self.units.get(ref, self.level.get(ref))
        return self._is_computed(node) and own == place and (ref in self.kept or ref not in self.free)

    def _part(self, cone: _Cone, outputs: Sequence[Ref], name: str) -> Part:
        nodes = {self.value[ref]: self._input(ref) for ref in cone.leaves}
        for node in self.nodes:
            if node.id in cone.inside:
                src = tuple(operand if isinstance(operand, Imm) else self.value[operand] for operand in node.src)
                nodes[self.value[node.id]] = msgspec.structs.replace(node, id=self.value[node.id], src=src)
        graph = Graph.build(nodes.values(), list(dict.fromkeys(self.value[ref] for ref in outputs)))
        reads = {node.arg["tensor_id"]: node.id for node in graph.nodes if node.uop == "INPUT"}
        constants = tuple(tensor for tensor, value in reads.items() if value in self.known)
        given = tuple(tensor for tensor, value in reads.items() if value in self.names.given)
        return Part(name, graph, reads, constants, given if self.home == MAIN else ())

    def _input(self, ref: Ref) -> Node:
        """A value that another part computes, as an input."""
        value, type_ = self.value[ref], self.graph.types[ref]
        arg = Arg(tensor_id=self.names.tensor(value), dtype=type_.dtype.name, shape=type_.shape)
        return Node(value, "INPUT", (), arg)

    # loops

    def _loop(self, unit: _LoopOrCall) -> PartLoop:
        node = unit.loops[0]
        body = merge_equal(node.arg["graph"].graph)
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
        scope = _Scope(body, value, self.names, self.known, name)
        after = [value[output] for output in body.outputs]
        results = {loop.arg["result"]: self.value[loop.id] for loop in unit.loops}
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


class _Cone:
    """The members of a part. own: the values that only this part computes. inside: also the movements between them
    that other parts compute as well. leaves: the values that it reads."""

    def __init__(self, scope: _Scope, place: _Place) -> None:
        self.own = [node.id for node in scope.nodes if scope.is_stored_by(node.id, place)]
        self.inside: set[Ref] = set()
        self.leaves: dict[Ref, None] = {}
        waiting = list(self.own)
        while waiting:
            ref = waiting.pop()
            if ref in self.inside or ref in self.leaves:
                continue
            node = scope.graph[ref]
            if scope.is_stored_by(ref, place) or ref in scope.free:
                self.inside.add(ref)
                waiting += node.refs
            else:
                self.leaves[ref] = None
