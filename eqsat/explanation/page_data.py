"""The data of a run's page, JSON-ready: both graphs with their layouts, kernels, choices, chains, rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqsat.explanation.chain import Chain, Step
from eqsat.explanation.chain_states import ChainStates, chain_with_states
from eqsat.explanation.explain import parts_text, plan_text, remark
from eqsat.explanation.explored_run import ExploredRun
from eqsat.explanation.fold_uops import FoldedLayer, fold_uops
from eqsat.explanation.layered_layout import Layout
from eqsat.explanation.layout import layout
from eqsat.explanation.price_text import micros, price_text
from eqsat.explanation.why_not import Pairs
from eqsat.extraction.selection import Selection
from ir.diagnostics import EqsatError, jsonable
from ir.module.module import KernelCall, writers_of
from ir.module.tag_text import tag_text
from ir.region.order import order_text
from ir.region.region import MemRef
from ir.serde import to_builtins
from ir.term.rule import Rule
from ir.tiny.graph import Graph, Node
from rules.certificates import certificate

LETTER, LINE = 6.6, 15.0
"""Pixels: width of a letter and height of a line in a node of a drawing."""
SMALL_LETTER = 6.3
"""Pixels: width of a letter in the second line of a node."""


def page_data(
    run: ExploredRun, with_dot: bool = True, texts: Sequence[str] = (), measured: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """All data of the page.

    with_dot: lay out the graphs with Graphviz if it is installed. texts: of the kernels, launch by launch. measured:
    the time of each kernel in ns, by a buffer that it writes.
    """
    chains = [_chains(run, place) for place in range(len(run.kernels))]
    distinct = list(dict.fromkeys(texts))
    return {
        "summary": _summary(run),
        "uops": _uop_graph(run, with_dot),
        "program": _kernel_graph(run, with_dot, measured or {}),
        "kernels": [
            {
                **_kernel(run, place, kernel_chains),
                "measured": (measured or {}).get(run.kernels[place].writes[0]),
                "text": distinct.index(texts[place]) if texts else None,
            }
            for place, kernel_chains in enumerate(chains)
        ],
        "texts": distinct,
        "rules": _rules(run),
        "phases": [
            {
                "joined": list(phase.joined),
                "stop": str(phase.stop).replace("_", " "),
                "iterations": phase.iterations,
                "matches": sum(phase.matches.values()),
                "nodes": phase.nodes,
                "classes": phase.classes,
                "ms": phase.seconds * 1e3,
            }
            for phase in run.phases
        ],
        "growth": [
            {"phase": step.phase, "nodes": step.nodes, "classes": step.classes, "matches": step.matches}
            for step in run.iterations
        ],
    }


def _summary(run: ExploredRun) -> dict[str, Any]:
    return {
        "target": run.setting.target.name,
        "language": "CUDA" if run.setting.target.is_gpu else "C",
        "uops": run.uops,
        "kernels_before": run.kernels_before,
        "kernels_after": len(run.kernels),
        "nodes": run.nodes,
        "classes": run.classes,
        "candidates": run.candidates,
        "before_ns": run.estimated_before_ns,
        "after_ns": run.estimated_ns,
        "seconds": {name: round(value, 3) for name, value in run.seconds.items()},
    }


def _uop_graph(run: ExploredRun, with_dot: bool) -> dict[str, Any]:
    """The program as written: uops, and the kernels that compute them."""
    graph = run.setting.bound.graph
    kernels_of: dict[str, list[int]] = {}
    for place, kernel in enumerate(run.kernels):
        for uop in kernel.uops:
            kernels_of.setdefault(uop, []).append(place)
    nodes = {
        node.id: {
            "label": _label(node),
            "op": node.uop,
            "type": str(graph.types[node.id]),
            "arg": {name: str(value) for name, value in node.arg.items()},
            "kernels": kernels_of.get(node.id, []),
            "output": node.id in graph.outputs,
        }
        for node in graph.nodes
    }
    edges = [(ref, node.id) for node in graph.nodes for ref in node.refs]
    drawn = _drawing(nodes, edges, with_dot)
    first = {uop: run.kernels[places[0]].name for uop, places in kernels_of.items()}
    return drawn | {"folded": _folded_graph(graph, fold_uops(graph, first), nodes, edges, with_dot)}


def _folded_graph(
    graph: Graph,
    layers: Sequence[FoldedLayer],
    nodes: Mapping[str, dict[str, Any]],
    edges: Sequence[tuple[str, str]],
    with_dot: bool,
) -> dict[str, Any] | None:
    """The program by layers, and the drawing of the uops in each; None where there are no layers."""
    if not layers:
        return None
    home = {uop: f"layer{place}" for place, layer in enumerate(layers) for uop in layer.uops}
    boxes = {name: node for name, node in nodes.items() if name not in home}
    for place, layer in enumerate(layers):
        inside = [nodes[uop] for uop in layer.uops]
        boxes[f"layer{place}"] = {
            "label": layer.name,
            "sub": f"{len(layer.uops)} uops",
            "uops": list(layer.uops),
            "kernels": list(dict.fromkeys(kernel for node in inside for kernel in node["kernels"])),
            "output": any(node["output"] for node in inside),
            "inner": _drawing(*_inside(layer, nodes, edges), with_dot=False),
        }
    between: dict[tuple[str, str], list[str]] = {}
    for source, reader in edges:
        ends = home.get(source, source), home.get(reader, reader)
        if ends[0] != ends[1] and str(graph.types[source]) not in between.setdefault(ends, []):
            between[ends].append(str(graph.types[source]))
    drawn = _drawing(boxes, list(between), with_dot)
    for edge in drawn["edges"]:
        first, *more = between[edge["from"], edge["to"]]
        edge["type"] = f"{first} +{len(more)}" if more else first
    return drawn


def _inside(
    layer: FoldedLayer, nodes: Mapping[str, dict[str, Any]], edges: Sequence[tuple[str, str]]
) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str]]]:
    """The uops of a layer, with those outside that it reads and that read it, and the edges between them."""
    mine = set(layer.uops)
    near = [edge for edge in edges if mine.intersection(edge)]
    shown = mine.union(*near)
    chosen = {name: {"label": node["label"]} for name, node in nodes.items() if name in shown}
    return chosen, near


def _label(node: Node) -> str:
    """A uop's name and operation; only the name of an input."""
    if node.uop == "INPUT":
        return str(node.arg["tensor_id"])
    operation = f"{node.uop.lower()} {str(node.arg['op']).lower()}" if node.uop == "REDUCE" else node.uop.lower()
    return f"{node.id} {operation}"


def _kernel_graph(run: ExploredRun, with_dot: bool, measured: Mapping[str, float]) -> dict[str, Any]:
    """The program as it runs: kernels, inputs, and outputs."""
    total = run.estimated_ns
    written = {name: [f"k{place}" for place in places] for name, places in writers_of(run.calls).items()}
    memrefs = {name: memref for call in run.calls for name, memref in _memrefs(call).items()}
    nodes: dict[str, dict[str, Any]] = {}
    edges: dict[tuple[str, str], str] = {}
    for place, call in enumerate(run.calls):
        for name in call.reads:
            if name not in written:
                nodes.setdefault(f"in:{name}", _buffer_node(name, "input", memrefs[name]))
            edges |= dict.fromkeys(((source, f"k{place}") for source in written.get(name, [f"in:{name}"])), name)
        label = f"{', '.join(call.writes)} = {call.name}"
        ns, real = run.kernels[place].estimated_ns, measured.get(call.writes[0])
        beside = f"measured {micros(real)}" if real else f"{100 * ns / total if total else 0:.1f} %"
        nodes[f"k{place}"] = {"label": label, "kind": "kernel", "kernel": place, "sub": f"{micros(ns)} · {beside}"}
    graph, view = run.setting.bound.graph, run.history.view
    for output in graph.outputs:
        name = run.history.names[view.tiny[output]]
        if name in written:
            nodes[f"out:{output}"] = _buffer_node(output, "output", memrefs[name])
            edges |= dict.fromkeys(((source, f"out:{output}") for source in written[name]), name)
    data = _drawing(nodes, list(edges), with_dot)
    pairs = Pairs(run)
    for edge in data["edges"]:
        if edge["from"][0] == edge["to"][0] == "k":
            answer = pairs.why_not(int(edge["from"][1:]), int(edge["to"][1:]))
            edge["why"] = {"verdict": answer.verdict, "reasons": list(answer.reasons)}
        edge["buffer"] = edges[edge["from"], edge["to"]]
        edge["bytes"] = memrefs[edge["buffer"]].nbytes
        edge["type"] = str(memrefs[edge["buffer"]])
        edge["order"] = order_text(run.orders.get(edge["buffer"]))
    return data


def _memrefs(call: KernelCall) -> Mapping[str, MemRef]:
    return {name: buffer.memref for name, buffer in zip(call.args, call.region.buffers, strict=True)}


def _buffer_node(name: str, kind: str, memref: MemRef) -> dict[str, Any]:
    return {"label": name, "kind": kind, "sub": str(memref), "bytes": memref.nbytes}


def _size(node: Mapping[str, Any]) -> tuple[float, float]:
    """Width and height of a node in pixels."""
    below = str(node.get("sub", ""))
    width = max(LETTER * len(str(node["label"])), SMALL_LETTER * len(below))
    return width + 18, 10 + LINE * (2 if below else 1)


def _drawing(nodes: Mapping[str, Any], edges: Sequence[tuple[str, str]], with_dot: bool) -> dict[str, Any]:
    """Nodes and edges with their positions in whole pixels."""
    sizes = {name: _size(node) for name, node in nodes.items()}
    drawing: Layout = layout(sizes, edges, with_dot)
    placed = [
        {
            "id": name,
            **node,
            "x": round(drawing.centres[name][0]),
            "y": round(drawing.centres[name][1]),
            "w": round(sizes[name][0]),
            "h": round(sizes[name][1]),
        }
        for name, node in nodes.items()
    ]
    routes = [
        {"from": a, "to": b, "route": [round(value) for point in points for value in point]}
        for (a, b), points in drawing.routes.items()
    ]
    return {"nodes": placed, "edges": routes, "width": round(drawing.width), "height": round(drawing.height)}


def _kernel(run: ExploredRun, place: int, chains: list[dict[str, Any]]) -> dict[str, Any]:
    kernel, price = run.kernels[place], run.prices[place]
    data = {
        "name": kernel.name,
        "reads": list(kernel.reads),
        "writes": list(kernel.writes),
        "uops": list(kernel.uops),
        "function": run.module.running[place].region.name,
        "computes": tag_text(kernel.tags),
        "flops": kernel.flops,
        "bytes": kernel.bytes,
        "occupancy": kernel.occupancy,
        "efficiency": kernel.efficiency,
        "bound": kernel.bound,
        "ns": kernel.estimated_ns,
        "plan": plan_text(price.plan),
        "price": price_text(price),
        "candidates": kernel.selection.candidates,
        "joined": parts_text(kernel.selection.parts, price.time_ns) if kernel.selection.parts else "",
        "rejected": _list_rejected(kernel.selection),
        "chains": chains,
    }
    return {name: jsonable(value) for name, value in data.items()}


def _list_rejected(selection: Selection) -> list[dict[str, Any]]:
    return [
        {
            "name": rival.name,
            "reads": list(rival.reads),
            "ns": rival.time_ns,
            "extra": rival.extra_ns,
            "remark": remark(rival, selection),
        }
        for rival in selection.rivals
    ]


def _chains(run: ExploredRun, place: int) -> list[dict[str, Any]]:
    """The chains of a kernel's outputs; none if they can no longer be found, or of a copy."""
    call, term = run.calls[place], run.terms[place]
    if term.is_copy:
        return []
    try:
        outputs = range(len(call.writes))
        return [_chain(*chain_with_states(run.history, call, term, output)) for output in outputs]
    except EqsatError:
        return []


def _chain(chain: Chain, states: ChainStates | None) -> dict[str, Any]:
    birth = [] if chain.birth is None else [_step(chain.birth)]
    steps = list(map(_step, chain.steps))
    drawn = None if states is None else to_builtins(states)
    ends = {"output": chain.output, "start": chain.start, "end": chain.end}
    return {**ends, "birth": birth, "steps": steps, "states": drawn}


def _step(step: Step) -> dict[str, Any]:
    data: dict[str, Any] = {"rule": step.rule, "before": step.before, "after": step.after}
    return data | ({"backwards": True} if step.backwards else {}) | ({"times": step.times} if step.times > 1 else {})


def _rules(run: ExploredRun) -> dict[str, Any]:
    """The rules that matched, the most frequent first."""
    matches = run.matches
    known: Sequence[Rule] = [rule for rule in run.rules if rule.name in matches]
    return {
        rule.name: {
            "family": rule.family,
            "equation": rule.equation,
            "exactness": str(rule.exactness),
            "certificate": str(certificate(rule)),
            "from": str(rule.lhs),
            "to": str(rule.rhs),
            "when": [str(condition) for condition in rule.when],
            "matches": matches[rule.name],
            "by_phase": [phase.matches.get(rule.name, 0) for phase in run.phases],
        }
        for rule in sorted(known, key=lambda rule: (-matches[rule.name], rule.name))
    }
