"""Which nodes of an FX graph eqsat can lower, and what it lacks for the others; nothing is lowered."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from eqsat.frontends.torch import operators as operators  # registers the lowerings
from eqsat.frontends.torch.element_types import element_type
from eqsat.frontends.torch.operator_table import LOWERINGS, name_of
from ir.diagnostics import EqsatError, Kind, fail
from ir.frontend import STAGE

_SIZE_MODULES = frozenset({operator.__name__, "_operator", math.__name__, "builtins"})
"""Where the functions live that compute with sizes; Dynamo writes Python's own functions into its graphs."""
_SIZE_FUNCTIONS = frozenset({"sym_max", "sym_min", "sym_not", "sym_float", "sym_int", "sym_ite", "sym_sum"})
_SYMBOLIC_MODULES = ("torch.fx.experimental", "torch.utils._sympy")


def is_size_function(target: Any) -> bool:
    """Whether the target of a node computes with Python numbers, such as a product of two sizes."""
    module, name = getattr(target, "__module__", "") or "", getattr(target, "__name__", "")
    if name.startswith("_sym_") or (module == "torch" and name in _SIZE_FUNCTIONS):
        return True
    return module in _SIZE_MODULES or module.startswith(_SYMBOLIC_MODULES)


def reason_against(node: Any) -> str | None:
    """Why a node of an FX graph cannot be lowered, as the name of its operator and the obstacle; None if it can."""
    if node.op == "get_attr":
        return _value_against(node)
    if node.op != "call_function":
        return None if node.op in ("placeholder", "output") else f"{node.op} {node.target}"
    if is_size_function(node.target):
        return None
    name = name_of(node.target)
    if name not in LOWERINGS:
        return str(node.target)
    obstacle = _value_against(node) or next(filter(None, map(_value_against, node.all_input_nodes)), None)
    return f"{node.target} of {obstacle}" if obstacle else None


def missing_operators(nodes: Iterable[Any]) -> Mapping[str, int]:
    """What eqsat lacks for these nodes, with the number of nodes, the most frequent first."""
    return dict(Counter(filter(None, map(reason_against, nodes))).most_common())


def require_operators(nodes: Iterable[Any]) -> None:
    """Raises EqsatError, UnsupportedOp, that names all operators which eqsat lacks for these nodes."""
    missing = missing_operators(nodes)
    if missing:
        listed = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in missing.items())
        hint = 'torch.compile(model, backend="eqsat") leaves such operators to eager'
        fail(Kind.UNSUPPORTED_OP, STAGE, f"eqsat lacks {listed}", hint=hint, operators=dict(missing))


def _value_against(node: Any) -> str | None:
    """The obstacle in the value of a node: a kind of tensor that eqsat has not."""
    import torch

    value = node.meta.get("val")
    for tensor in value if isinstance(value, tuple | list) else (value,):
        if not isinstance(tensor, torch.Tensor):
            continue
        if tensor.layout is not torch.strided:
            return f"a tensor of layout {tensor.layout}"
        if tensor.device.type != "cpu":
            return f"a tensor on the device {tensor.device}"
        if tensor.is_quantized:
            return "a quantized tensor"
        try:
            element_type(tensor.dtype)
        except EqsatError:
            return f"elements of {tensor.dtype}"
    return None
