"""Results of an FX graph that are views of its arguments, or of its other results: torch takes these views anew in
every call, so that they share memory as in eager.

    t = slice(view(x, [-1, 4]), 0, 1); return t    a view of the argument x: no kernel computes it
    y = relu(x); t = t(y); return y, t             t is a view of the result y
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable
from typing import Any

from eqsat.frontends.torch.memory_order import is_kept

_MAY_COPY = ("aten::contiguous", "aten::reshape", "aten::to")
"""Operators that return a view of their argument, or a copy."""


def views_among(results: Iterable[Any], symbols: Collection[Any]) -> dict[Any, Any]:
    """Result → the node that it views: an argument of the graph, or a result in eager's order of axes that the graph
    computes. symbols: those whose values a call knows."""
    tensors = dict.fromkeys(node for node in results if hasattr(node, "op"))
    bases = {node: base_of(node, tensors) for node in tensors}
    return {
        node: base
        for node, base in bases.items()
        if base is not node
        and (base.op == "placeholder" or (is_kept(base) and is_kept(node)))
        and all(size.node.expr.free_symbols <= set(symbols) for size in _sizes_of_views(node, base))
    }


def view_again(node: Any, base: Any, tensor: Any, number: Callable[[Any], Any]) -> Any:
    """The view `node` of the value of the node `base`, which is `tensor`. number: the value of a SymInt."""
    if node is base:
        return tensor
    from torch.fx.node import map_arg

    source, *others = node.args
    viewed = view_again(source, base, tensor, number)
    arguments, keywords = map_arg((tuple(others), node.kwargs), lambda size: _number(size.meta["val"], number))
    return node.target(viewed, *arguments, **keywords)


def _number(size: Any, number: Callable[[Any], Any]) -> Any:
    return number(size) if hasattr(size, "node") else size


def base_of(node: Any, results: Collection[Any]) -> Any:
    """The first argument or result of the chain of views that ends in a node: the node itself, if there is no other."""
    base = source = node
    while (source := _viewed(source)) is not None:
        if source in results or source.op == "placeholder":
            base = source
    return base


def _sizes_of_views(node: Any, base: Any) -> list[Any]:
    """The SymInts among the arguments of the views between a node and its base."""
    sizes: list[Any] = []
    while node is not base:
        source = node.args[0]
        sizes += [size.meta["val"] for size in node.all_input_nodes if hasattr(size.meta["val"], "node")]
        node = source
    return sizes


def _viewed(node: Any) -> Any:
    """The node that a view of torch, or an element of a list of views, is taken of; None for another node."""
    if node.op != "call_function" or not node.args or not hasattr(node.args[0], "op"):
        return None
    source = node.args[0]
    if node.target is operator.getitem:
        return source if _viewed(source) is not None else None
    is_view = getattr(node.target, "is_view", False) and node.target.name().split(".")[0] not in _MAY_COPY
    return source if is_view else None
