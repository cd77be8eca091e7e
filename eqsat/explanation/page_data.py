"""The data of a run's page, JSON-ready: both graphs with their layouts, kernels, choices, chains, rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqsat.explanation.chain import Chain, Step, chains_at
from eqsat.explanation.explain import parts_text, plan_text, remark
from eqsat.explanation.explored_run import ExploredRun
from eqsat.explanation.layout import Layout, layout
from eqsat.explanation.price_text import price_text
from eqsat.explanation.why_not import Pairs
from eqsat.extraction.selection import Selection
from ir.diagnostics import EqsatError, jsonable
from ir.module.module import KernelCall
from ir.module.tag_text import tag_text
from ir.region.order import order_text
from ir.term.rule import Rule
from ir.tiny.graph import Node
from rules.certificates import certificate

LETTER, LINE = 6.6, 15.0
"""Pixels: width of a letter and height of a line in a node of a drawing."""
KERNEL_WIDTH = 140.0
"""Pixels: width of a time and its share, as 99,999.9 µs · 100.0 %."""


def page_data(run: ExploredRun, with_dot: bool = True) -> dict[str, Any]:
    """All data of the page. with_dot: lay out the graphs with Graphviz if it is installed."""
    chains = [_chains(run, place) for place in range(len(run.kernels))]
    return {
        "summary": _summary(run),
        "uops": _uop_graph(run, with_dot),
        "program": _kernel_graph(run, with_dot),
        "kernels": [_kernel(run, place, kernel_chains) for place, kernel_chains in enumerate(chains)],
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
    sizes = {name: (LETTER * len(str(node["label"])) + 18, 24.0) for name, node in nodes.items()}
    edges = [(ref, node.id) for node in graph.nodes for ref in node.refs]
    return _drawing(nodes, layout(sizes, edges, with_dot), sizes)


def _label(node: Node) -> str:
    """A uop's name and operation; only the name of an input."""
    if node.uop == "INPUT":
        return str(node.arg["tensor_id"])
    operation = f"{node.uop.lower()} {str(node.arg['op']).lower()}" if node.uop == "REDUCE" else node.uop.lower()
    return f"{node.id} {operation}"


def _kernel_graph(run: ExploredRun, with_dot: bool) -> dict[str, Any]:
    """The program as it runs: kernels, inputs, and outputs."""
    written = {name: place for place, call in enumerate(run.calls) for name in call.writes}
    sizes_of = {name: memref.nbytes for call in run.calls for name, memref in _memrefs(call).items()}
    nodes: dict[str, dict[str, Any]] = {}
    edges: dict[tuple[str, str], str] = {}
    for place, call in enumerate(run.calls):
        for name in call.reads:
            if name not in written:
                nodes.setdefault(f"in:{name}", {"label": name, "kind": "input", "bytes": sizes_of[name]})
            source = f"k{written[name]}" if name in written else f"in:{name}"
            edges[source, f"k{place}"] = name
        label = f"{', '.join(call.writes)} = {call.name}"
        nodes[f"k{place}"] = {"label": label, "kind": "kernel", "kernel": place}
    graph, view = run.setting.bound.graph, run.history.view
    for output in graph.outputs:
        name = run.history.names[view.tiny[output]]
        if name in written:
            nodes[f"out:{output}"] = {"label": output, "kind": "output", "bytes": sizes_of[name]}
            edges[f"k{written[name]}", f"out:{output}"] = name
    sizes = {name: _size(node) for name, node in nodes.items()}
    data = _drawing(nodes, layout(sizes, list(edges), with_dot), sizes)
    pairs = Pairs(run)
    for edge in data["edges"]:
        if edge["from"][0] == edge["to"][0] == "k":
            answer = pairs.why_not(int(edge["from"][1:]), int(edge["to"][1:]))
            edge["why"] = {"verdict": answer.verdict, "reasons": list(answer.reasons)}
        edge["buffer"] = edges[edge["from"], edge["to"]]
        edge["bytes"] = sizes_of[edge["buffer"]]
        edge["order"] = order_text(run.orders.get(edge["buffer"]))
    return data


def _memrefs(call: KernelCall) -> Mapping[str, Any]:
    return {name: buffer.memref for name, buffer in zip(call.args, call.region.buffers, strict=True)}


def _size(node: Mapping[str, Any]) -> tuple[float, float]:
    lines = 2 if node["kind"] == "kernel" else 1
    return max(LETTER * len(str(node["label"])) + 24, KERNEL_WIDTH if lines == 2 else 0.0), 10 + LINE * lines


def _drawing(nodes: Mapping[str, Any], drawing: Layout, sizes: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """Nodes and edges with their positions in whole pixels."""
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
    edges = [
        {"from": a, "to": b, "route": [round(value) for point in points for value in point]}
        for (a, b), points in drawing.routes.items()
    ]
    return {"nodes": placed, "edges": edges, "width": round(drawing.width), "height": round(drawing.height)}


def _kernel(run: ExploredRun, place: int, chains: list[dict[str, Any]]) -> dict[str, Any]:
    kernel, price = run.kernels[place], run.prices[place]
    data = {
        "name": kernel.name,
        "reads": list(kernel.reads),
        "writes": list(kernel.writes),
        "uops": list(kernel.uops),
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
    """The chains of a kernel's outputs; none if they can no longer be found."""
    try:
        return list(map(_chain, chains_at(run, place)))
    except EqsatError:
        return []


def _chain(chain: Chain) -> dict[str, Any]:
    birth = [] if chain.birth is None else [_step(chain.birth)]
    steps = list(map(_step, chain.steps))
    return {"output": chain.output, "start": chain.start, "end": chain.end, "birth": birth, "steps": steps}


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
