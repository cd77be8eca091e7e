"""The results of an FX graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def outputs_of(module: Any) -> list[Any]:
    """The nodes that a GraphModule returns, in order; None stays None."""
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    results = output.args[0]
    return list(results) if isinstance(results, tuple | list) else [results]


def return_instead(module: Any, nodes: Iterable[Any], values: Iterable[Any]) -> None:
    """Takes nodes, which nothing reads, out of a GraphModule; these values become its last results."""
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    output.args = (type(output.args[0])([*output.args[0], *values]), *output.args[1:])
    for node in nodes:
        module.graph.erase_node(node)
    module.recompile()
