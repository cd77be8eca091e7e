"""Writes of an FX graph into its arguments (`aten.copy_`) → results, which are copied there after the graph has run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.frontends.torch.graph_results import outputs_of, return_instead
from eqsat.frontends.torch.memory_order import keep_orders
from eqsat.frontends.torch.operator_table import name_of
from eqsat.frontends.torch.result_views import base_of


def is_write(node: Any) -> bool:
    """Whether a node copies its second operand into an argument of the graph."""
    if node.op != "call_function" or name_of(node.target) != "copy_.default":
        return False
    return bool(node.args[0].op == "placeholder")


def written_values(module: Any) -> list[Any]:
    """The nodes whose values a GraphModule writes into arguments."""
    return [node.args[1] for node in module.graph.nodes if is_write(node)]


def take_writes(module: Any) -> list[int]:
    """Makes the values that a GraphModule writes its last results. Returns the places of the arguments to write.

    A result that is an argument to write, or a view of one, becomes a copy: a backward graph needs the old value. So
    does such a value that is written.
    """
    writes = [node for node in module.graph.nodes if is_write(node)]
    if not writes:
        return []
    arguments = [node for node in module.graph.nodes if node.op == "placeholder"]
    written = [node.args[0] for node in writes]
    for node in writes:
        node.replace_all_uses_with(node.args[1])
    values = written_values(module)
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    old = [node for node in (*outputs_of(module), *values) if hasattr(node, "op") and base_of(node, ()) in written]
    copies = {node: _copy(output, node) for node in dict.fromkeys(old)}
    for node, copy in copies.items():
        output.replace_input_with(node, copy)
    return_instead(module, writes, [copies.get(value, value) for value in values])
    return [arguments.index(node) for node in written]


def _copy(output: Any, node: Any) -> Any:
    """A node that copies another one, before the output of its graph."""
    import torch

    with output.graph.inserting_before(output):
        copy = output.graph.call_function(torch.ops.aten.clone.default, (node,))
    copy.meta = dict(node.meta)
    keep_orders([copy])
    return copy


def write(arguments: Sequence[Any], places: Sequence[int], values: Sequence[Any]) -> None:
    """Copies values into the arguments at these places, unless a program has written them there."""
    for place, value in zip(places, values, strict=True):
        if value.data_ptr() != arguments[place].data_ptr():
            arguments[place].copy_(value)
