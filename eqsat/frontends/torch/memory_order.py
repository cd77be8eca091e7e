"""The order in which the axes of a graph's results lie in memory, as in eager: code after the graph views results by
their strides. Values that only a backward graph reads lie in the order of their axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_KEPT = "eqsat_order"
"""The key in `meta` of nodes that lie in memory as torch says, or, if it is False, in the order of their axes."""


def keep_orders(results: Iterable[Any]) -> None:
    """Asks for eager's order of axes for these nodes."""
    for node in results:
        if hasattr(node, "meta"):
            node.meta[_KEPT] = True


def is_kept(node: Any) -> bool:
    """Whether a node lies in memory as torch says."""
    return bool(node.meta.get(_KEPT))


def kept_order(node: Any) -> tuple[int, ...] | None:
    """The axes of a node's value from the outermost in memory to the innermost; None if that is their own order."""
    return order_of(node.meta["val"]) if is_kept(node) else None


def pass_orders_to_backward(forward: Iterable[Any], backward: Iterable[Any]) -> None:
    """Tells the arguments of a backward graph which of them a forward graph returns in the order of their axes."""
    computed = {node.name: is_kept(node) for node in forward if getattr(node, "op", None) == "call_function"}
    for node in backward:
        if node.op == "placeholder" and node.name in computed:
            node.meta[_KEPT] = computed[node.name]


def given_order(node: Any) -> tuple[int, ...] | None:
    """The axes of an argument from the outermost in memory to the innermost; None if that is their own order."""
    return order_of(node.meta["val"]) if node.meta.get(_KEPT, True) else None


def order_of(tensor: Any) -> tuple[int, ...] | None:
    """The axes of a tensor from the outermost in memory to the innermost. None if that is their own order, if the
    tensor has gaps or repeats elements, or if its sizes depend on data."""
    sizes, strides = ([_number(value) for value in values] for values in (tensor.shape, tensor.stride()))
    if None in (*sizes, *strides):
        return None
    order = tuple(sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis)))
    long = [axis for axis in order if sizes[axis] != 1]
    step = 1
    for axis in reversed(long):
        if strides[axis] != step:
            return None
        step *= sizes[axis]
    return None if long == sorted(long) else order


def lay_in_order(tensor: Any, order: Sequence[int]) -> None:
    """Makes a tensor whose axes are those of `order` one with the axes 0, 1, …, in the same memory and no view."""
    places = sorted(range(len(order)), key=order.__getitem__)
    sizes, strides = tensor.shape, tensor.stride()
    tensor.as_strided_([sizes[place] for place in places], [strides[place] for place in places])


def laid_as(tensor: Any, like: Any) -> Any:
    """A tensor with the order of axes of `like`: itself, or a copy."""
    order = order_of(like)
    if order == order_of(tensor):
        return tensor
    axes = order or range(tensor.ndim)
    copy = tensor.permute(*axes).contiguous()
    lay_in_order(copy, axes)
    return copy


def _number(size: Any) -> Any:
    """A size, or the example's number of a symbol; None if the symbol depends on data."""
    return size.node.hint if hasattr(size, "node") else size
