"""Assertions of an FX graph (`torch._assert_async`) → results that are looked at after the graph has run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.frontends.torch.graph_results import return_instead
from eqsat.frontends.torch.operator_table import name_of


def is_assertion(node: Any) -> bool:
    """Whether a node raises an error where its operand is zero. (aot_autograd drops assertions without a message.)"""
    return node.op == "call_function" and name_of(node.target) == "_assert_async.msg"


def take_assertions(module: Any) -> list[str]:
    """Makes the operands of a GraphModule's assertions its last results. Returns the messages of the assertions."""
    assertions = [node for node in module.graph.nodes if is_assertion(node)]
    if not assertions:
        return []
    messages = [node.args[1] for node in assertions]
    return_instead(module, assertions, [node.args[0] for node in assertions])
    return messages


def require(operands: Sequence[Any], messages: Sequence[str]) -> None:
    """Raises RuntimeError, as torch does, with the message of the first operand that is zero."""
    for operand, message in zip(operands, messages, strict=True):
        if not operand:
            raise RuntimeError(message)
