"""Where views may go: what the movement rules cannot know from one read, decided on the whole graph before they run.

A producer that is inlined is computed again at every distinct map by which it is read, and so is all that was
inlined into it: a stencil of four neighbours, k times over, reads its source at 4^k places. So a producer that would
stand at more than `copies` places is inlined only where it is read as it lies; elsewhere it is stored and read. The
e-graph's size is then linear in the graph's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from eqsat.egraph.tiny_to_term import movement_map, reduced_map
from ir.index.facts import is_injective
from ir.index.map import AxisMap, compose, floors, identity, lift
from ir.tiny.graph import Graph, Ref
from ir.uop.table import UOpKind
from rules.primitives import PIECEWISE

Sources = Mapping[Ref, tuple[Ref, AxisMap]]


class Inlining(NamedTuple):
    """computed: buffers down to which views are composed. inlined: producers that may be computed at their readers'
    maps. piecewise: movements that are stored, because their map is too long. sources: for each uop the computed one
    that it reads through movements alone, at which map: itself, if it is computed."""

    computed: tuple[Ref, ...]
    inlined: tuple[Ref, ...]
    piecewise: tuple[Ref, ...]
    sources: Sources


def inlining(graph: Graph, copies: int) -> Inlining:
    """The decisions for a graph."""
    known, piecewise = _sources(graph)
    computed = tuple(node.id for node in graph.nodes if known[node.id][0] == node.id)
    stored = _stored(graph, known, copies)
    inlined = tuple(node.id for node in graph.nodes if node.id not in stored)
    return Inlining(computed, inlined, tuple(piecewise), known)


def _sources(graph: Graph) -> tuple[Sources, list[Ref]]:
    """What each uop reads through movements alone, and the movements whose maps are too long to be composed."""
    sources: dict[Ref, tuple[Ref, AxisMap]] = {}
    piecewise: list[Ref] = []
    for node in graph.nodes:
        here = identity(graph.types[node.id].shape)
        sources[node.id] = node.id, here
        if node.op.kind is UOpKind.MOVEMENT:
            source, read = sources[node.refs[0]]
            moved = compose(read, movement_map(node, graph))
            if floors(moved) <= PIECEWISE:
                sources[node.id] = source, moved
            else:
                piecewise.append(node.id)
    return sources, piecewise


def _stored(graph: Graph, sources: Sources, copies: int) -> set[Ref]:
    """The computed producers that would stand at more than `copies` places."""
    places: dict[Ref, dict[AxisMap, None]] = {node.id: {} for node in graph.nodes}
    stored: set[Ref] = set()

    def read(ref: Ref, at: AxisMap | None = None) -> None:
        source, below = sources[ref]
        if len(places[source]) <= copies:
            places[source][below if at is None else compose(below, at)] = None

    wanted_as_it_lies = _in_memory(graph)
    for node in reversed(graph.nodes):
        if sources[node.id][0] != node.id:
            if node.id in wanted_as_it_lies:
                read(node.id)
            continue
        wanted = places.pop(node.id)
        if len(wanted) > copies:
            stored.add(node.id)
            wanted = {}
        match node.op.kind:
            case UOpKind.REDUCE:
                at = reduced_map(node, graph)
                read(node.refs[0], at)
                for place in filter(is_injective, wanted):
                    read(node.refs[0], compose(at, lift(place, at.sizes[len(place.exprs) :])))
            case UOpKind.SCAN | UOpKind.MOVEMENT:
                read(node.refs[0])
            case UOpKind.UNARY | UOpKind.BINARY | UOpKind.TERNARY | UOpKind.CAST | UOpKind.GATHER:
                for ref in node.refs[1:] if node.op.kind is UOpKind.GATHER else node.refs:
                    read(ref)
                    for place in wanted:
                        read(ref, place)
    return stored


def _in_memory(graph: Graph) -> set[Ref]:
    """The uops whose results somebody needs in memory as they stand."""
    gathered = {node.refs[0] for node in graph.nodes if node.op.kind is UOpKind.GATHER}
    return gathered.union(graph.outputs)
