"""A Python function of torch tensors → the FX graph of ATen operators that `torch.compile` would give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqsat.frontends.torch.decompositions import decompositions


def trace(function: Callable[..., Any], *arguments: Any) -> Any:
    """The FX graph of the function at these arguments, in eqsat's choice of operators: without mutations, and with the
    sizes as numbers. The graph takes the tensors among the arguments."""
    import torch
    from torch._functorch.aot_autograd import aot_function

    graphs: list[Any] = []

    def keep(module: Any, _: Any) -> Any:
        graphs.append(module)
        return module.forward

    with torch.no_grad():
        aot_function(function, fw_compiler=keep, decompositions=decompositions())(*arguments)
    return graphs[0]
