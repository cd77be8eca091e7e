"""An FX graph of ATen operators and its arguments → its results, as lazy tensors.

Sizes are Python numbers here: a graph whose sizes are symbols is lowered again for other sizes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from eqsat.frontends.torch.element_types import element_type
from eqsat.frontends.torch.operator_table import LOWERINGS, name_of
from eqsat.frontends.torch.schema_arguments import schema_arguments
from eqsat.frontends.torch.survey import is_size_function, require_operators
from eqsat.tensor import Tensor, constant
from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import DType
from ir.frontend import STAGE

Value = Any
"""A lazy tensor, a number, a text, None, or a list or tuple of them."""

RESULT = "result"
"""The keyword of a lowering that receives the dtype of the result."""


def lower_graph(module: Any, arguments: Sequence[Value]) -> list[Value]:
    """The results of a torch.fx.GraphModule for these arguments, one per placeholder: lazy tensors, and numbers for
    sizes.

    Raises:
        EqsatError: UnsupportedOp that names all operators which eqsat lacks; errors of the uops' type rules, which name
            the node.
    """
    require_operators(module.graph.nodes)
    values: dict[Any, Value] = {}
    given = iter(arguments)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "get_attr":
            values[node] = _attribute(module, node)
        elif node.op == "call_function":
            values[node] = _call(node, values)
        else:
            results = _map_nodes(node.args[0], values)
            return list(results) if isinstance(results, tuple | list) else [results]
    return []


def _attribute(module: Any, node: Any) -> Tensor:
    """A tensor that the module holds, as a constant."""
    owner = module
    for name in str(node.target).split("."):
        owner = getattr(owner, name)
    return constant(owner.detach(), name=str(node.target))


def _call(node: Any, values: dict[Any, Value]) -> Value:
    """The result of one node. Errors name the node, its operator and the types of its operands."""
    given, by_name = _map_nodes(node.args, values), _map_nodes(node.kwargs, values)
    if is_size_function(node.target):
        return node.target(*given, **by_name)
    positional, keywords = schema_arguments(node.target, given, by_name)
    lowering = LOWERINGS[name_of(node.target)]
    if _takes_result(lowering):
        keywords[RESULT] = _dtypes(node.meta["val"])
    try:
        found = lowering(*positional, **keywords)
        _check_result(node, found)
    except EqsatError as error:
        raise _locate(error, node, [*positional, *keywords.values()]) from None
    return found


@cache
def _takes_result(lowering: Callable[..., Any]) -> bool:
    return RESULT in inspect.signature(lowering).parameters


def _map_nodes(argument: Any, values: dict[Any, Value]) -> Any:
    """An argument with the values of nodes in place of the nodes, and a DType in place of each torch.dtype."""
    import torch

    if isinstance(argument, torch.fx.Node):
        return values[argument]
    if isinstance(argument, dict):
        return {name: _map_nodes(item, values) for name, item in argument.items()}
    if isinstance(argument, tuple | list):
        items = [_map_nodes(item, values) for item in argument]
        return items if isinstance(argument, list) else tuple(items)
    return element_type(argument) if isinstance(argument, torch.dtype) else argument


def _dtypes(value: Any) -> DType | tuple[DType, ...] | None:
    """The dtype of a fake tensor, or of each of several."""
    import torch

    if isinstance(value, tuple | list):
        return tuple(_dtypes(item) for item in value)  # type: ignore[misc]
    return element_type(value.dtype) if isinstance(value, torch.Tensor) else None


def _check_result(node: Any, found: Value) -> None:
    """Raises unless the result has the dtype and the sizes that torch infers; sizes that are symbols there fit any."""
    import torch

    inferred = node.meta.get("val")
    together = isinstance(inferred, tuple | list)
    results = found if isinstance(found, tuple | list) else (found,)
    for expected, result in zip(inferred if together else (inferred,), results, strict=False):
        if not isinstance(expected, torch.Tensor) or result is None:
            continue
        fits = isinstance(result, Tensor) and result.ndim == expected.ndim and result.dtype == _dtypes(expected)
        if not fits or any(
            isinstance(size, int) and size != actual for size, actual in zip(expected.shape, result.shape, strict=True)
        ):
            declared = f"{element_type(expected.dtype)}{list(expected.shape)}"
            kind, message = Kind.DTYPE_MISMATCH, "the lowering makes another tensor than torch"
            fail(kind, STAGE, message, torch=declared, eqsat=str(getattr(result, "type", result)))


def _locate(error: EqsatError, node: Any, operands: Sequence[Any]) -> EqsatError:
    types = [str(operand.type) for operand in operands if isinstance(operand, Tensor)]
    return EqsatError(
        msgspec.structs.replace(
            diagnostic, at=node.name, op=str(node.target), details={**diagnostic.details, "operands": types}
        )
        for diagnostic in error.diagnostics
    )
