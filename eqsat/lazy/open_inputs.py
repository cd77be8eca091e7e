"""Inputs whose sizes are symbols, and functions of lazy tensors that are traced anew for each set of sizes.

    x = tensor.input("x", ("B", 8))
    program = optimize_and_compile(tensor.program(lambda x: nn.softmax(x @ w), x), dims={"B": 4})

Within the function, sizes are plain numbers: whatever is written with lazy tensors and Python holds for every size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from eqsat.lazy.argument_checks import STAGE, integer
from eqsat.lazy.base import LazyTensor
from ir.diagnostics import Kind, fail
from ir.frontend import TensorInfo
from ir.grammar import with_article
from ir.tiny.dims import Size
from ir.tiny.source import IDENTIFIER


class OpenInput:
    """An argument of a program whose sizes are symbols. It has no operations: they are written in the function of
    `tensor.program`."""

    __slots__ = ("info", "name")

    def __init__(self, name: str, info: TensorInfo) -> None:
        self.name, self.info = name, info

    @property
    def shape(self) -> tuple[Size, ...]:
        """A number or a symbol per axis."""
        return self.info.shape

    @property
    def ndim(self) -> int:
        return len(self.info.shape)

    def __repr__(self) -> str:
        return f"OpenInput({self.name}: {self.info.dtype}[{', '.join(map(str, self.shape))}])"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        symbols = ", ".join(size for size in self.shape if isinstance(size, str))
        hint = f"optimize_and_compile(tensor.program(lambda {self.name}: …, {self.name}), dims=…)"
        message = f"the sizes {symbols} of the input {self.name!r} are not known here, but within a function they are"
        fail(Kind.UNBOUND_DIM, STAGE, message, at=self.name, hint=hint)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        self._refuse()

    __array__ = __getitem__ = __len__ = __iter__ = __bool__ = _refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _refuse
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = __rand__ = __ror__ = __rxor__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = __invert__ = _refuse
    __array_ufunc__ = __array_function__ = _refuse


@dataclass(frozen=True)
class TracedFunction:
    """A function of lazy tensors, and its inputs: dtype and sizes (or symbols) by name, in the order of its parameters.
    `eqsat.lazy.trace` calls it for each set of sizes."""

    function: Callable[..., Any]
    inputs: Mapping[str, TensorInfo]


def open_sizes(shape: Any) -> tuple[Size, ...] | None:
    """A shape that has symbols; None if it has none.

    Raises:
        EqsatError: MalformedGraph for a symbol that is no identifier.
    """
    items = shape if isinstance(shape, Sequence) and not isinstance(shape, str | bytes) else (shape,)
    if not any(isinstance(item, str) for item in items):
        return None
    for item in items:
        if isinstance(item, str) and not IDENTIFIER.fullmatch(item):
            hint = "letters, digits and underscores, no digit first"
            fail(Kind.MALFORMED_GRAPH, STAGE, f"{item!r} is no symbol of a size", hint=hint)
    return tuple(item if isinstance(item, str) else integer(item, "an element of a shape") for item in items)


def inputs_of(given: Sequence[Any]) -> dict[str, TensorInfo]:
    """The inputs of a traced function by name.

    Raises:
        EqsatError: MalformedGraph for what is no input, or for two of one name.
    """
    inputs: dict[str, TensorInfo] = {}
    for tensor in given:
        if isinstance(tensor, OpenInput):
            name, info = tensor.name, tensor.info
        elif isinstance(tensor, LazyTensor) and tensor.uop == "INPUT" and tensor.array is None:
            name, info = str(tensor.arg["tensor_id"]), TensorInfo(tensor.dtype.name, tensor.shape)
        else:
            message = f"an input of tensor.program is a tensor.input(…), not {with_article(type(tensor).__name__)}"
            fail(Kind.MALFORMED_GRAPH, STAGE, message, hint='tensor.program(f, tensor.input("x", ("B", 8)))')
        if name in inputs:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"two inputs have the name {name!r}", hint="a name per input")
        inputs[name] = info
    return inputs
