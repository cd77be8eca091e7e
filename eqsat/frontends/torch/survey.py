"""Which nodes of an FX graph eqsat can lower, and which operators and types eqsat lacks for the other nodes.

A node can be lowered if its own lowering succeeds on arguments with the types that torch infers. So a lowering that
refuses some of an operator's modes leaves only nodes with these modes to eager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from eqsat.frontends.complex_tensor import ComplexTensor
from eqsat.frontends.torch.draws import is_seeds
from eqsat.frontends.torch.element_types import part_type
from eqsat.frontends.torch.lower_node import (
    MEMORY,
    is_size_function,
    lower_node,
    lowering_of,
    memory_of_operand,
    takes,
)
from eqsat.frontends.torch.operator_table import LOWERINGS, name_of
from eqsat.tensor import input
from ir.diagnostics import EqsatError, Kind, fail
from ir.frontend import STAGE


class TorchSurvey:
    """The obstacles of nodes. Nodes of one operator with operands of the same types and the same other arguments have
    the same obstacle, so that only the first of them is lowered: layers repeat, and a forward and a backward graph
    repeat the nodes of their joint graph.

    left: the names of operators that eager runs although eqsat can lower them.
    """

    def __init__(self, left: Collection[str] = ()) -> None:
        self._left = left
        self._reasons: dict[str, str | None] = {}

    def is_left(self, node: Any) -> bool:
        """Whether eager runs a node although eqsat can lower the operator."""
        return name_of(node.target) in self._left

    def reason_against(self, node: Any) -> str | None:
        """Why a node of an FX graph cannot be lowered, as the name of its operator and the obstacle; None if it can.

        Raises:
            EqsatError: an error of the lowering that says nothing about the operator and its arguments, such as
                InternalError.
        """
        if node.op == "get_attr":
            return _obstacle(node)
        if node.op != "call_function":
            return None if node.op in ("placeholder", "output") else f"{node.op} {node.target}"
        if is_size_function(node.target) or is_seeds(node):
            return None
        if self.is_left(node):
            return f"{node.target}, which eager computes faster"
        if lowering_of(node) is None:
            return _name_of_missing(node)
        key = _signature(node)
        if key not in self._reasons:
            self._reasons[key] = _reason_by_lowering(node)
        return self._reasons[key]

    def missing_operators(self, nodes: Iterable[Any]) -> Mapping[str, int]:
        """The operators and types that eqsat lacks for these nodes, with the number of nodes, the most frequent
        first."""
        return dict(Counter(filter(None, map(self.reason_against, nodes))).most_common())

    def require_operators(self, nodes: Iterable[Any]) -> None:
        """Raises EqsatError, UnsupportedOp, that names all operators which eqsat lacks for these nodes."""
        missing = self.missing_operators(nodes)
        if missing:
            hint = 'torch.compile(model, backend="eqsat") leaves such operators to eager'
            message = f"eqsat lacks {listed(missing)}"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, hint=hint, operators=dict(missing))


def listed(missing: Mapping[str, int]) -> str:
    """The operators and their counts for a message."""
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in missing.items())


_REFUSALS = frozenset(
    {
        Kind.UNSUPPORTED_OP,
        Kind.MALFORMED_GRAPH,
        Kind.BROADCAST_MISMATCH,
        Kind.AXIS_SIZE_MISMATCH,
        Kind.AXIS_ALIGNMENT_MISMATCH,
        Kind.INVALID_PERMUTATION,
        Kind.DTYPE_MISMATCH,
        Kind.NEGATIVE_STRIDE_UNSUPPORTED,
        Kind.UNBOUND_DIM,
        Kind.RESOURCE_EXCEEDED,
    }
)
"""Errors by which a lowering refuses an operator with these arguments."""


def _name_of_missing(node: Any) -> str:
    """The name of an operator without a lowering, with the elements that it lacks the lowering for."""
    return f"{node.target} of complex numbers" if name_of(node.target) in LOWERINGS else str(node.target)


def _reason_by_lowering(node: Any) -> str | None:
    """The obstacle of a node whose operator has a lowering, by lowering it."""
    obstacle = _obstacle(node) or next(filter(None, map(_obstacle, node.all_input_nodes)), None)
    if obstacle:
        return f"{node.target} of {obstacle}"
    try:
        lower_node(node, {operand: _stand_in(operand.name, operand.meta["val"]) for operand in node.all_input_nodes})
    except EqsatError as error:
        if error.kind not in _REFUSALS:
            raise
        return f"{node.target}: {error.diagnostics[0].message}"
    return None


def _signature(node: Any) -> str:
    """All that the obstacle of a node depends on: the operator, its arguments, the types of its operands and of its
    result. Equal operands differ from operands of equal types."""
    from torch.fx import map_arg

    places = {operand: place for place, operand in enumerate(node.all_input_nodes)}
    arguments = map_arg((node.args, node.kwargs), lambda operand: f"operand {places[operand]}")
    types = [_type_text(value.meta.get("val")) for value in (node, *places)]
    lowering = lowering_of(node)
    memory = memory_of_operand(node) if lowering and takes(lowering, MEMORY) else ""
    return f"{node.target} {arguments} {types} {memory}"


def _type_text(value: Any) -> str:
    """The dtype, sizes, layout and device of a tensor, or of each of several; a symbol with the example's number."""
    import torch

    if isinstance(value, tuple | list):
        return f"({', '.join(map(_type_text, value))})"
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(map(_type_text, value.shape))
        return f"{value.dtype}[{sizes}] {value.layout} {value.device} {value.is_quantized}"
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return f"symbol {value.node.hint}"
    return repr(value)


def _obstacle(node: Any) -> str | None:
    """The obstacle to the value of a node: a kind of tensor that eqsat has not, or a size that no input gives."""
    import torch

    value = node.meta.get("val")
    for item in value if isinstance(value, tuple | list) else (value,):
        if isinstance(item, torch.SymInt | torch.SymFloat | torch.SymBool) and item.node.hint is None:
            return "a size that depends on data"
        if not isinstance(item, torch.Tensor):
            continue
        if item.layout is not torch.strided:
            return f"a tensor of layout {item.layout}"
        if item.device.type != "cpu":
            return f"a tensor on the device {item.device}"
        if item.is_quantized:
            return "a quantized tensor"
        if any(isinstance(size, torch.SymInt) and size.node.hint is None for size in item.shape):
            return "a tensor whose size depends on data"
        try:
            part_type(item.dtype)
        except EqsatError:
            return f"elements of {item.dtype}"
    return None


def _stand_in(name: str, value: Any) -> Any:
    """An argument of the type that torch infers, with the example's sizes for symbols."""
    import torch

    if isinstance(value, tuple | list):
        return tuple(_stand_in(f"{name}_{place}", item) for place, item in enumerate(value))
    if isinstance(value, torch.Tensor):
        parts = [f"{name}_real", f"{name}_imag"] if value.is_complex() else [name]
        sizes = tuple(_number(size) for size in value.shape)
        tensors = [input(part, sizes, part_type(value.dtype)) for part in parts]
        return ComplexTensor(*tensors) if value.is_complex() else tensors[0]
    return _number(value)


def _number(size: Any) -> Any:
    """The example's number of a symbol; anything else as it is."""
    import torch

    return size.node.hint if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool) else size
