"""Decompositions of the operators over lists of tensors (`_foreach_add`, …), which optimizers of torch call: one
operator for each tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

_PREFIX = "aten::_foreach_"


def foreach_decompositions() -> Mapping[Any, Any]:
    """The decompositions by overload."""
    return {overload: partial(_for_each, overload._schema, function) for overload, function in _overloads()}


def _overloads() -> Iterator[tuple[Any, Callable[..., Any]]]:
    """The overloads that return new tensors, with the function of torch for one tensor."""
    import torch

    for name in torch._C._dispatch_get_all_op_names():
        operator, _, overload = name.partition(".")
        if not operator.startswith(_PREFIX) or operator.endswith("_") or overload.endswith("out"):
            continue
        function = _function(operator.removeprefix(_PREFIX), overload)
        if function is not None:
            packet = getattr(torch.ops.aten, operator.removeprefix("aten::"))
            yield getattr(packet, overload or "default"), function


def _function(name: str, overload: str) -> Callable[..., Any] | None:
    """The function for one tensor, of the operands of `_foreach_…` in their order; None if there is none."""
    import torch

    is_number = overload.startswith("Scalar")
    own: dict[str, Callable[..., Any]] = {
        "copy": lambda x, source, non_blocking=False: source.expand_as(x).to(x.dtype, copy=True),
        "zero": torch.zeros_like,
        "norm": lambda x, order=2, dtype=None: torch.linalg.vector_norm(x, order, dtype=dtype),
        "maximum": torch.clamp_min if is_number else torch.maximum,
        "minimum": torch.clamp_max if is_number else torch.minimum,
        "clamp_min": torch.clamp_min if is_number else torch.maximum,
        "clamp_max": torch.clamp_max if is_number else torch.minimum,
    }
    if name.startswith("addc"):
        combine = getattr(torch, name)
        return (lambda x, a, b, value=1: combine(x, a, b, value=value)) if is_number else None
    return own.get(name, getattr(torch, name, None))


def _for_each(schema: Any, function: Callable[..., Any], *operands: Any, **named: Any) -> list[Any]:
    """The function of each tensor. Operands that are lists have an element for each; others are for all."""
    given = {argument.name: value for argument, value in zip(schema.arguments, operands, strict=False)} | named
    lists = {name for name in given if isinstance(given[name], list | tuple)}
    positional = [argument.name for argument in schema.arguments if argument.name in given and not argument.kwarg_only]
    keywords = [argument.name for argument in schema.arguments if argument.name in given and argument.kwarg_only]

    def operand(name: str, place: int) -> Any:
        return given[name][place] if name in lists else given[name]

    return [
        function(*(operand(name, place) for name in positional), **{name: operand(name, place) for name in keywords})
        for place in range(len(next(given[name] for name in lists)))
    ]
