"""eqsat: an e-graph optimizer for tensor programs that writes its own kernels.

from eqsat import optimize_and_compile

program = optimize_and_compile(tiny_ir)
y = program(A=a, B=b)
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.version import __version__ as __version__

if TYPE_CHECKING:
    from eqsat import nn, tensor
    from eqsat.api import load, optimize_and_compile
    from eqsat.cost.cost_model import CostModel
    from eqsat.frontends.torch.from_torch import from_torch
    from eqsat.options import Budget
    from eqsat.runtime.program import Program
    from eqsat.serving.buckets import Buckets
    from ir.diagnostics import Diagnostic, EqsatError, EqsatWarning

__all__ = [
    "Buckets",
    "Budget",
    "CostModel",
    "Diagnostic",
    "EqsatError",
    "EqsatWarning",
    "Program",
    "from_torch",
    "load",
    "nn",
    "optimize_and_compile",
    "tensor",
]

_HOMES = {
    "optimize_and_compile": "eqsat.api",
    "load": "eqsat.api",
    "from_torch": "eqsat.frontends.torch.from_torch",
    "Program": "eqsat.runtime.program",
    "Buckets": "eqsat.serving.buckets",
    "Budget": "eqsat.options",
    "CostModel": "eqsat.cost.cost_model",
    "EqsatError": "ir.diagnostics",
    "EqsatWarning": "ir.diagnostics",
    "Diagnostic": "ir.diagnostics",
}
_MODULES = ("nn", "tensor")


def _check_packages() -> None:
    """`ir`, `rules` and `codegen` are short names: report another distribution's package that shadows ours."""
    home = Path(__file__).resolve().parent.parent
    for name in ("ir", "rules", "codegen"):
        spec = find_spec(name)  # finds the package without importing it
        file = spec.origin if spec else None
        if file is None or Path(file).resolve().parent.parent != home:
            raise ImportError(
                f"eqsat's package {name!r} is shadowed by {file}; uninstall the distribution that it belongs to, "
                f"or put {home} first on the path"
            )


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"eqsat.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'eqsat' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


_check_packages()
