"""torch's functions called on lazy tensors: refused, by the names of the functions to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqsat.lazy.missing_names import NETWORKS
from eqsat.lazy.promotion import STAGE
from ir.diagnostics import Kind, fail

_OPERATORS = (None, "torch._tensor")
"""Modules of the methods of torch.Tensor."""


def refuse_torch(function: Callable[..., Any], methods: set[str], functions: set[str]) -> Any:
    """NotImplemented for a method of torch.Tensor, so that `x + lazy` becomes a method of the lazy tensor. Raises
    EqsatError, UnsupportedOp, for other functions.

    methods, functions: the names of lazy tensors' methods, and of the functions of `eqsat.tensor`.
    """
    if getattr(function, "__module__", None) in _OPERATORS:
        return NotImplemented
    name = function.__name__
    if name in functions:
        hint = f"eqsat.tensor.{name}(…) takes them"
    elif name in NETWORKS:
        hint = f"eqsat.nn.{name}(…) takes them"
    elif name in methods:
        hint = f"write x.{name}(…)"
    else:
        hint = "torch.compile(function, backend='eqsat') compiles torch's functions"
    fail(Kind.UNSUPPORTED_OP, STAGE, f"torch's {name} takes no lazy tensors", hint=hint)
