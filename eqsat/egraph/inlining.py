"""Decides which producers may be inlined, on the whole graph and before rules run: a rule sees one read only.

An inlined producer is computed again at every distinct map by which it is read, and so is everything inlined into it:
a stencil of four neighbours, applied k times, reads its source at 4^k places. So a producer that would be computed at
more than `copies` places is inlined only where it is read by the identity map; other readers load the stored result.
This keeps the e-graph's size linear in the graph's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from eqsat.egraph.tiny_to_term import gathered_map, movement_map, reduced_map
from ir.index.injective import is_injective
from ir.index.map import AxisMap, compose, floors, identity, lift
from ir.tiny.graph import Graph, Ref
from ir.uop.table import UOpKind
from rules.primitives import PIECEWISE

Sources = Mapping[Ref, tuple[Ref, AxisMap]]


class Inlining(NamedTuple):
    """computed: the uops that are more than a movement of another one. inlined: producers that may be computed at their
    readers' maps. piecewise: movements that are stored because their map is too long. sources: for each uop, the
    computed uop that it reads through movements alone, and the map; a computed uop is its own source."""

    computed: tuple[Ref, ...]
    inlined: tuple[Ref, ...]
    piecewise: tuple[Ref, ...]
    sources: Sources


def decide_inlining(graph: Graph, copies: int) -> Inlining:
    """Decide which producers of a graph may be inlined. copies: the most places at which a producer is computed."""
    sources, piecewise = _sources(graph)
    computed = tuple(node.id for node in graph.nodes if sources[node.id][0] == node.id)
    stored = _stored_producers(graph, sources, copies)
    inlined = tuple(node.id for node in graph.nodes if node.id not in stored)
    return Inlining(computed, inlined, tuple(piecewise), sources)


def _sources(graph: Graph) -> tuple[Sources, list[Ref]]:
    """The source and map of each uop, and the movements whose maps are too long to be composed."""
    sources: dict[Ref, tuple[Ref, AxisMap]] = {}
    piecewise: list[Ref] = []
    for node in graph.nodes:
        here = identity(graph.types[node.id].shape)
        sources[node.id] = node.id, here
        if node.op.kind is UOpKind.MOVEMENT and not node.barrier:
            source, read = sources[node.refs[0]]
            moved = compose(read, movement_map(node, graph))
            if floors(moved) <= PIECEWISE:
                sources[node.id] = source, moved
            else:
                piecewise.append(node.id)
    return sources, piecewise


def _stored_producers(graph: Graph, sources: Sources, copies: int) -> set[Ref]:
    """The computed producers that would be computed at more than `copies` places."""
    places: dict[Ref, dict[AxisMap, None]] = {node.id: {} for node in graph.nodes}
    stored: set[Ref] = set()

    def read(ref: Ref, at: AxisMap | None = None) -> None:
        source, below = sources[ref]
        if len(places[source]) <= copies:
            places[source][below if at is None else compose(below, at)] = None

    in_memory = _in_memory(graph)
    for node in reversed(graph.nodes):
        if sources[node.id][0] != node.id:
            if node.id in in_memory:
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
            case UOpKind.SCAN | UOpKind.MOVEMENT | UOpKind.SCATTER:
                for ref in node.refs:
                    read(ref)
            case UOpKind.UNARY | UOpKind.BINARY | UOpKind.TERNARY | UOpKind.CAST:
                for ref in node.refs:
                    read(ref)
                    for place in wanted:
                        read(ref, place)
            case UOpKind.GATHER:
                source, *index = node.refs
                at = gathered_map(node, graph)
                read(source, at)
                for place in wanted:
                    read(source, compose(at, lift(place, at.sizes[-1:])))
                for ref in index:
                    read(ref)
                    for place in wanted:
                        read(ref, place)
    return stored


def _in_memory(graph: Graph) -> set[Ref]:
    """The uops whose results are needed in memory: outputs, and the sources of gathers."""
    gathered = {node.refs[0] for node in graph.nodes if node.op.kind is UOpKind.GATHER}
    return gathered.union(graph.outputs)
