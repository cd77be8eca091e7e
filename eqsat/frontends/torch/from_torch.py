"""`eqsat.from_torch`: a torch module and example inputs → a Program, by torch.export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqsat.api import optimize_and_compile
from eqsat.failure.internal_error import callers_code
from eqsat.runtime.program import Program


def from_torch(
    module: Any,
    example_inputs: Sequence[Any],
    example_keywords: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    **options: Any,
) -> Program:
    """The program of a torch module in inference, with its parameters and buffers as constants.

    The arguments of the program have the names of the parameters of `forward`. The results are the tensors among the
    results of `forward`, in order.

    Args:
        module: a torch.nn.Module; `module.eval()` first turns dropout and batch statistics off.
        example_inputs: the positional arguments of `forward`; their sizes are the program's, unless they are dynamic.
        example_keywords: the keyword arguments of `forward`.
        dynamic_shapes: as in torch.export.export, such as `{"x": {0: torch.export.Dim("batch")}}`. The program compiles
            a variant for each new size.
        options: keywords of `optimize_and_compile`.

    Raises:
        EqsatError: UnsupportedOp that names all operators which eqsat lacks; all errors of `optimize_and_compile`.
        torch's own error for a module that torch.export cannot trace.
    """
    import torch

    with callers_code(), torch.no_grad():
        exported = torch.export.export(
            module, tuple(example_inputs), dict(example_keywords or {}), dynamic_shapes=dynamic_shapes
        )
    return optimize_and_compile(exported, **options)
