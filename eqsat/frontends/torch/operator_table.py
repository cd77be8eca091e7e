"""The table of ATen operators: the name of an overload, and the function that lowers the overload to lazy tensors.

    @aten("add.Tensor", "add.Scalar")
    def _add(x: Tensor, y: Tensor | Number, alpha: Number = 1) -> Tensor: ...

The parameters of the function are those of ATen's schema, in order; the names of positional parameters are free. All
positional parameters are passed, with the schema's defaults where the graph has none. A keyword-only parameter of the
schema is passed by its name if the graph gives it; `layout`, `device`, `pin_memory`, `non_blocking` and `memory_format`
never are, because they say where and how a tensor lies and not its values.

A tensor is a lazy tensor (`eqsat.tensor.Tensor`), a dtype is a `DType`; numbers, texts, lists and None are Python's.
A keyword parameter `result` receives the dtype of the result as torch infers it, or a tuple of dtypes where the
operator has several results. A keyword parameter `memory` receives the
`OperandMemory` of the first operand. The function returns a lazy tensor or a number, or a tuple or a list of them.

An operator in the table is never decomposed (`eqsat.frontends.torch.decompositions`).

Nodes with complex operands or results have a table of their own, `COMPLEX_LOWERINGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

Lowering = Callable[..., Any]
L = TypeVar("L", bound=Lowering)

LOWERINGS: dict[str, Lowering] = {}
"""The function of each overload by its name without the namespace `aten`: "add.Tensor", "prims.iota.default"."""

COMPLEX_LOWERINGS: dict[str, Lowering] = {}
"""The functions of overloads whose operands or results are complex; a complex tensor is a `ComplexTensor`."""

_NAMESPACE = "aten."


class OperandMemory(NamedTuple):
    """Where the elements of a tensor lie, in elements from the start of its memory; symbols stay symbols."""

    strides: tuple[Any, ...]
    offset: Any


def aten(*names: str) -> Callable[[L], L]:
    """Registers a function as the lowering of these overloads. A name without an overload means `default`."""
    return _registration(LOWERINGS, names)


def complex_aten(*names: str) -> Callable[[L], L]:
    """Registers a function as the lowering of these overloads where an operand or a result is complex."""
    return _registration(COMPLEX_LOWERINGS, names)


def _registration(table: dict[str, Lowering], names: tuple[str, ...]) -> Callable[[L], L]:
    def register(lowering: L) -> L:
        for name in names:
            table[name if "." in name else f"{name}.default"] = lowering
        return lowering

    return register


def name_of(target: Any) -> str:
    """The name of an FX node's target: "add.Tensor" for an overload of ATen; other namespaces stay in the name."""
    return str(target).removeprefix(_NAMESPACE)
