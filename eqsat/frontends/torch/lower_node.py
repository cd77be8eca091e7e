"""One node of an FX graph and its arguments → its result, as lazy tensors. Errors name the node."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from eqsat.frontends.complex_tensor import ComplexTensor
from eqsat.frontends.torch import operators as operators  # registers the lowerings
from eqsat.frontends.torch.element_types import part_type
from eqsat.frontends.torch.operator_table import COMPLEX_LOWERINGS, LOWERINGS, Lowering, OperandMemory, name_of
from eqsat.frontends.torch.schema_arguments import schema_arguments
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import DType
from ir.frontend import STAGE

Value = Any
"""A lazy tensor, a complex one, a number, a text, None, or a list or tuple of them."""

RESULT = "result"
"""The keyword of a lowering that receives the dtype of the result."""

IS_COMPLEX = "is_complex"
"""The keyword of a lowering that receives whether the result is complex."""

MEMORY = "memory"
"""The keyword of a lowering that receives the `OperandMemory` of the first operand."""

_SIZE_MODULES = frozenset({operator.__name__, "_operator", math.__name__, "builtins"})
"""Where the functions live that compute with sizes; Dynamo writes Python's own functions into its graphs."""
_SIZE_FUNCTIONS = frozenset({"sym_max", "sym_min", "sym_not", "sym_float", "sym_int", "sym_ite", "sym_sum"})
_SYMBOLIC_MODULES = ("torch.fx.experimental", "torch.utils._sympy")


def lower_node(node: Any, values: Mapping[Any, Value]) -> Value:
    """The result of a node that calls a function, from the values of the nodes that it reads.

    Raises:
        EqsatError: UnsupportedOp for an operator or arguments without a lowering, errors of the uops' type rules,
            DtypeMismatch where the lowering makes another tensor than torch infers; all name the node.
    """
    given, by_name = _map_nodes(node.args, values), _map_nodes(node.kwargs, values)
    if is_size_function(node.target):
        return node.target(*given, **by_name)
    lowering = lowering_of(node)
    if lowering is None:
        fail(Kind.UNSUPPORTED_OP, STAGE, "the operator has no lowering", at=node.name, op=str(node.target))
    positional, keywords = schema_arguments(node.target, given, by_name)
    if takes(lowering, RESULT):
        keywords[RESULT] = _dtypes(node.meta["val"])
    if takes(lowering, IS_COMPLEX):
        keywords[IS_COMPLEX] = _is_complex(node.meta["val"])
    if takes(lowering, MEMORY):
        keywords[MEMORY] = memory_of_operand(node)
    try:
        result = lowering(*positional, **keywords)
        _check_result(node, result)
    except EqsatError as error:
        raise _locate(error, node, [*positional, *keywords.values()]) from None
    return result


def lowering_of(node: Any) -> Lowering | None:
    """The function that lowers the operator of a node for its operands, if there is one."""
    values = (value.meta.get("val") for value in (node, *node.all_input_nodes))
    table = COMPLEX_LOWERINGS if any(map(_is_complex, values)) else LOWERINGS
    return table.get(name_of(node.target))


def _is_complex(value: Any) -> bool:
    """Whether a value is a complex tensor, or a list with one."""
    if isinstance(value, tuple | list):
        return any(map(_is_complex, value))
    return getattr(getattr(value, "dtype", None), "is_complex", False)


def is_size_function(target: Any) -> bool:
    """Whether the target of a node computes with Python numbers, such as a product of two sizes, or takes one item of
    a tuple."""
    module, name = getattr(target, "__module__", "") or "", getattr(target, "__name__", "")
    if name.startswith("_sym_") or (module == "torch" and name in _SIZE_FUNCTIONS):
        return True
    return module in _SIZE_MODULES or module.startswith(_SYMBOLIC_MODULES)


@cache
def takes(lowering: Callable[..., Any], keyword: str) -> bool:
    """Whether a lowering has this keyword: RESULT, IS_COMPLEX or MEMORY."""
    return keyword in inspect.signature(lowering).parameters


def memory_of_operand(node: Any) -> OperandMemory:
    """Where the elements of a node's first operand lie."""
    value = node.args[0].meta["val"]
    return OperandMemory(tuple(value.stride()), value.storage_offset())


def _map_nodes(argument: Any, values: Mapping[Any, Value]) -> Any:
    """An argument with the values of nodes in place of the nodes, and a DType in place of each torch.dtype: of complex
    numbers, that of a part."""
    import torch

    if isinstance(argument, torch.fx.Node):
        return values[argument]
    if isinstance(argument, dict):
        return {name: _map_nodes(item, values) for name, item in argument.items()}
    if isinstance(argument, tuple | list):
        items = [_map_nodes(item, values) for item in argument]
        return items if isinstance(argument, list) else tuple(items)
    return part_type(argument) if isinstance(argument, torch.dtype) else argument


def _dtypes(value: Any) -> DType | tuple[DType, ...] | None:
    """The dtype of a fake tensor, of its parts if it is complex, or of each of several tensors."""
    import torch

    if isinstance(value, tuple | list):
        return tuple(_dtypes(item) for item in value)  # type: ignore[misc]
    return part_type(value.dtype) if isinstance(value, torch.Tensor) else None


def _check_result(node: Any, lowered: Value) -> None:
    """Raises unless the result has the dtype and the sizes that torch infers; sizes that are symbols there fit any."""
    import torch

    inferred = node.meta.get("val")
    together = isinstance(inferred, tuple | list)
    results = lowered if isinstance(lowered, tuple | list) else (lowered,)
    for expected, result in zip(inferred if together else (inferred,), results, strict=False):
        if not isinstance(expected, torch.Tensor) or result is None:
            continue
        kind_of_tensor = ComplexTensor if expected.is_complex() else Tensor
        fits = isinstance(result, kind_of_tensor) and result.ndim == expected.ndim
        if not (fits and result.dtype == _dtypes(expected)) or any(
            isinstance(size, int) and size != actual for size, actual in zip(expected.shape, result.shape, strict=True)
        ):
            declared = f"{expected.dtype}{list(expected.shape)}"
            kind, message = Kind.DTYPE_MISMATCH, "the lowering makes another tensor than torch"
            fail(kind, STAGE, message, torch=declared, eqsat=str(getattr(result, "type", result)))


def _locate(error: EqsatError, node: Any, operands: Sequence[Any]) -> EqsatError:
    types = [str(operand.type) for operand in operands if isinstance(operand, Tensor | ComplexTensor)]
    return EqsatError(
        msgspec.structs.replace(
            diagnostic, at=node.name, op=str(node.target), details={**diagnostic.details, "operands": types}
        )
        for diagnostic in error.diagnostics
    )
