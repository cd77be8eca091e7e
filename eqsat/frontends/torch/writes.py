"""Writes of an FX graph into its arguments (`aten.copy_`) → results, which are copied there after the graph has run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.frontends.torch.operator_table import name_of


def is_write(node: Any) -> bool:
    """Whether a node copies its second operand into an argument of the graph."""
    if node.op != "call_function" or name_of(node.target) != "copy_.default":
        return False
    return bool(node.args[0].op == "placeholder")


def written_values(module: Any) -> list[Any]:
    """The nodes whose values a GraphModule writes into arguments."""
    return [node.args[1] for node in module.graph.nodes if is_write(node)]


def take_writes(module: Any) -> list[int]:
    """Makes the values that a GraphModule writes its last results. Returns the places of the arguments to write."""
    writes = [node for node in module.graph.nodes if is_write(node)]
    if not writes:
        return []
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    arguments = [node for node in module.graph.nodes if node.op == "placeholder"]
    places = [arguments.index(node.args[0]) for node in writes]
    for node in writes:
        node.replace_all_uses_with(node.args[1])
    output.args = (type(output.args[0])([*output.args[0], *(node.args[1] for node in writes)]), *output.args[1:])
    for node in writes:
        module.graph.erase_node(node)
    module.recompile()
    return places


def write(arguments: Sequence[Any], places: Sequence[int], values: Sequence[Any]) -> None:
    """Copies values into the arguments at these places."""
    for place, value in zip(places, values, strict=True):
        arguments[place].copy_(value)
