"""Writes `eqsat/lazy/operators.py`: the methods of lazy tensors that the rows of `ir/uop/table.py` name.

python -m docs.make_operators
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ir.uop.table import UOPS, UOp, UOpKind

FILE = Path(__file__).parent.parent / "eqsat" / "lazy" / "operators.py"
HEAD = '''"""Python's operators and elementwise functions on lazy tensors. Each is one uop, besides casts for promotion.

Written by `python -m docs.make_operators` from the rows of `ir/uop/table.py`.
"""

from __future__ import annotations

from typing import Any, Self

from eqsat.lazy.base import LazyTensor


class Operators(LazyTensor):
    """Base class of `Tensor`. Operands broadcast, and are cast to one dtype by `Tensor._apply`."""

    __slots__ = ()

    __hash__ = object.__hash__
'''
ALIASES = {"recip": ("reciprocal",)}
"""Further names of methods."""


def text() -> str:
    """The whole file."""
    return HEAD + "".join(part for uop in UOPS.values() if uop.method for part in _methods(uop, uop.method))


def _methods(uop: UOp, name: str) -> Iterator[str]:
    """The method of a uop; of an operator for two numbers, also with the tensor on the right."""
    if uop.kind is UOpKind.UNARY:
        yield _method(name, "self", "Self", f'"{uop.name}", self')
    elif name in ("__eq__", "__ne__"):  # object says what these take
        yield _method(name, "self, other: object", "Any", f'"{uop.name}", self, other')
    else:
        yield _method(name, "self, other: Any", "Self", f'"{uop.name}", self, other')
    if name.startswith("__") and uop.kind is UOpKind.BINARY and not uop.name.startswith("CMP"):
        yield _method(f"__r{name[2:]}", "self, other: Any", "Self", f'"{uop.name}", other, self')
    for alias in ALIASES.get(name, ()):
        yield f"\n    {alias} = {name}\n"


def _method(name: str, parameters: str, result: str, arguments: str) -> str:
    return f"\n    def {name}({parameters}) -> {result}:\n        return self._apply({arguments})\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
