"""Which nodes of an FX graph eqsat can lower, and what it lacks for the others.

A node can be lowered if its own lowering succeeds on arguments with the types that torch infers. So a lowering that
refuses some of an operator's modes leaves only nodes with these modes to eager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from eqsat.frontends.torch.draws import is_seeds
from eqsat.frontends.torch.element_types import element_type
from eqsat.frontends.torch.lower_node import is_size_function, lower_node
from eqsat.frontends.torch.operator_table import LOWERINGS, name_of
from eqsat.tensor import input
from ir.diagnostics import EqsatError, Kind, fail
from ir.frontend import STAGE


def reason_against(node: Any) -> str | None:
    """Why a node of an FX graph cannot be lowered, as the name of its operator and the obstacle; None if it can."""
    if node.op == "get_attr":
        return _obstacle(node)
    if node.op != "call_function":
        return None if node.op in ("placeholder", "output") else f"{node.op} {node.target}"
    if is_size_function(node.target) or is_seeds(node):
        return None
    if name_of(node.target) not in LOWERINGS:
        return str(node.target)
    obstacle = _obstacle(node) or next(filter(None, map(_obstacle, node.all_input_nodes)), None)
    if obstacle:
        return f"{node.target} of {obstacle}"
    try:
        lower_node(node, {operand: _stand_in(operand.name, operand.meta["val"]) for operand in node.all_input_nodes})
    except EqsatError as error:
        return f"{node.target}: {error.diagnostics[0].message}"
    return None


def missing_operators(nodes: Iterable[Any]) -> Mapping[str, int]:
    """What eqsat lacks for these nodes, with the number of nodes, the most frequent first."""
    return dict(Counter(filter(None, map(reason_against, nodes))).most_common())


def require_operators(nodes: Iterable[Any]) -> None:
    """Raises EqsatError, UnsupportedOp, that names all operators which eqsat lacks for these nodes."""
    missing = missing_operators(nodes)
    if missing:
        hint = 'torch.compile(model, backend="eqsat") leaves such operators to eager'
        message = f"eqsat lacks {listed(missing)}"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, hint=hint, operators=dict(missing))


def listed(missing: Mapping[str, int]) -> str:
    """The operators and their counts for a message."""
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in missing.items())


def _obstacle(node: Any) -> str | None:
    """What stands against the value of a node: a kind of tensor that eqsat has not, or a size that no input tells."""
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
            element_type(item.dtype)
        except EqsatError:
            return f"elements of {item.dtype}"
    return None


def _stand_in(name: str, value: Any) -> Any:
    """An argument of the type that torch infers, with the example's sizes for symbols."""
    import torch

    if isinstance(value, tuple | list):
        return tuple(_stand_in(f"{name}_{place}", item) for place, item in enumerate(value))
    if isinstance(value, torch.Tensor):
        return input(name, tuple(_number(size) for size in value.shape), element_type(value.dtype))
    return _number(value)


def _number(size: Any) -> Any:
    """The example's number of a symbol; anything else as it is."""
    import torch

    return size.node.hint if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool) else size
