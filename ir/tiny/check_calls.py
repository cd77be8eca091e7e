"""Checks the calls and loops of a program: every graph exists, takes these operands, and runs no graph in a circle."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import NoReturn

from ir.diagnostics import EqsatError, Kind, fail
from ir.grammar import with_count
from ir.post_order import post_order
from ir.tiny.graph import STAGE, default_outputs
from ir.tiny.node import GraphCall, Node, Ref
from ir.tiny.source import Source, with_places

MAX_DEPTH = 64
"""Most graphs that call each other in a chain."""
MAX_UOPS = 1_000_000
"""Most uops of a program whose calls are replaced by the uops of their graphs."""

MAIN = "main"
"""The name in messages of the program itself."""


def outputs_of(source: Source) -> tuple[Ref, ...]:
    """The outputs that the program states, or else the values that nothing reads, without inputs."""
    return source.outputs if source.outputs is not None else default_outputs(source.uops)


def check_calls(source: Source) -> Source:
    """The program.

    Raises:
        EqsatError: MalformedGraph for the call of an unknown graph, for a wrong number of operands or results, and for
            a graph that calls itself; ResourceExceeded for deeper calls than `MAX_DEPTH`, or for more uops than
            `MAX_UOPS`.
    """
    if MAIN in source.graphs:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"@{MAIN} is the program itself, which nothing calls", at=f"@{MAIN}")
    bodies = {**source.graphs, MAIN: source}
    for body in bodies.values():
        for call in body.calls:
            try:
                _check_call(call, source.graphs)
            except EqsatError as error:
                raise with_places(error.locate(at=call.id, op=call.label), body.places) from None
        for node in body.uops:
            if isinstance(node, Node) and "graph" in node.arg and node.arg["graph"] not in source.graphs:
                try:
                    _refuse_unknown(node.arg["graph"], source.graphs)
                except EqsatError as error:
                    raise with_places(error.locate(at=node.id, op=node.label), body.places) from None
    _check_extent(bodies)
    return source


def _check_call(call: GraphCall, graphs: Mapping[str, Source]) -> None:
    if call.graph not in graphs:
        _refuse_unknown(call.graph, graphs)
    graph = graphs[call.graph]
    takes, returns = list(graph.inputs), outputs_of(graph)
    if len(call.refs) != len(takes):
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"@{call.graph} takes {with_count(len(takes), 'operand')}, found {len(call.refs)}",
            parameters=takes,
        )
    if len(call.results) != len(returns):
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"@{call.graph} returns {with_count(len(returns), 'value')}, the call has {len(call.results)}",
            returns=returns,
        )


def _refuse_unknown(name: str, graphs: Mapping[str, Source]) -> NoReturn:
    close = difflib.get_close_matches(name, graphs, n=1)
    known = f"did you mean @{close[0]}?" if close else "the graphs are: " + (", ".join(graphs) or "none")
    fail(Kind.MALFORMED_GRAPH, STAGE, f"there is no graph @{name}", hint=known)


def _check_extent(bodies: Mapping[str, Source]) -> None:
    """No graph reaches itself, and the inlined program is of a size that can be held."""
    depths: dict[str, int] = {}
    counts: dict[str, int] = {}
    for name in post_order(bodies, lambda name: list(bodies[name].callees)):
        called = [*(call.graph for call in bodies[name].calls), *_looped(bodies[name])]
        if any(graph not in depths for graph in called):
            _refuse_recursion(name, bodies)
        depths[name] = 1 + max((depths[graph] for graph in called), default=-1)
        own = sum(isinstance(uop, Node) for uop in bodies[name].uops)
        counts[name] = min(own + sum(counts[graph] for graph in called), 2 * MAX_UOPS)
    deepest, largest = max(depths, key=depths.__getitem__), max(counts, key=counts.__getitem__)
    if depths[deepest] > MAX_DEPTH:
        fail(Kind.RESOURCE_EXCEEDED, STAGE, f"calls are nested deeper than {MAX_DEPTH} graphs", at=f"@{deepest}")
    if counts[largest] > MAX_UOPS:
        fail(
            Kind.RESOURCE_EXCEEDED,
            STAGE,
            f"the calls expand to more than {MAX_UOPS:,} uops",
            at=f"@{largest}",
            hint="call fewer graphs that call graphs several times",
        )


def _looped(body: Source) -> Iterator[str]:
    """The graph of each loop."""
    return (uop.arg["graph"] for uop in body.uops if isinstance(uop, Node) and "graph" in uop.arg)


def _refuse_recursion(name: str, bodies: Mapping[str, Source]) -> NoReturn:
    """Fails with a chain of calls that leads from `name` back to it: the first that a walk over all callers finds."""
    path: dict[str, str] = {}
    pending = [name]
    while pending:
        caller = pending.pop()
        for graph in bodies[caller].callees:
            if graph not in path:
                path[graph] = caller
                pending.append(graph)
    chain = [name]
    while len(chain) == 1 or chain[-1] != name:
        chain.append(path[chain[-1]])
    fail(
        Kind.MALFORMED_GRAPH,
        STAGE,
        f"the graph @{name} calls itself: calls are replaced by the graph's uops, which would not end",
        at=f"@{name}",
        calls=[f"@{graph}" for graph in reversed(chain)],
        hint="write the steps out; a call cannot depend on values",
    )
