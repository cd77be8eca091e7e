"""Python's operators and elementwise functions on lazy tensors. Each is one uop, besides casts for promotion.

Written by `python -m docs.make_operators` from the rows of `ir/uop/table.py`.
"""

from __future__ import annotations

from typing import Any, Self

from eqsat.lazy.base import LazyTensor


class Operators(LazyTensor):
    """Base class of `Tensor`. Operands broadcast, and are cast to one dtype by `Tensor._apply`."""

    __slots__ = ()

    __hash__ = object.__hash__

    def __neg__(self) -> Self:
        return self._apply("NEG", self)

    def __abs__(self) -> Self:
        return self._apply("ABS", self)

    def recip(self) -> Self:
        return self._apply("RECIP", self)

    reciprocal = recip

    def sqrt(self) -> Self:
        return self._apply("SQRT", self)

    def rsqrt(self) -> Self:
        return self._apply("RSQRT", self)

    def exp(self) -> Self:
        return self._apply("EXP", self)

    def exp2(self) -> Self:
        return self._apply("EXP2", self)

    def log(self) -> Self:
        return self._apply("LOG", self)

    def log2(self) -> Self:
        return self._apply("LOG2", self)

    def sin(self) -> Self:
        return self._apply("SIN", self)

    def cos(self) -> Self:
        return self._apply("COS", self)

    def tanh(self) -> Self:
        return self._apply("TANH", self)

    def erf(self) -> Self:
        return self._apply("ERF", self)

    def sigmoid(self) -> Self:
        return self._apply("SIGMOID", self)

    def relu(self) -> Self:
        return self._apply("RELU", self)

    def floor(self) -> Self:
        return self._apply("FLOOR", self)

    def ceil(self) -> Self:
        return self._apply("CEIL", self)

    def round(self) -> Self:
        return self._apply("ROUND", self)

    def __invert__(self) -> Self:
        return self._apply("NOT", self)

    def __add__(self, other: Any) -> Self:
        return self._apply("ADD", self, other)

    def __radd__(self, other: Any) -> Self:
        return self._apply("ADD", other, self)

    def __sub__(self, other: Any) -> Self:
        return self._apply("SUB", self, other)

    def __rsub__(self, other: Any) -> Self:
        return self._apply("SUB", other, self)

    def __mul__(self, other: Any) -> Self:
        return self._apply("MUL", self, other)

    def __rmul__(self, other: Any) -> Self:
        return self._apply("MUL", other, self)

    def __truediv__(self, other: Any) -> Self:
        return self._apply("FDIV", self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._apply("FDIV", other, self)

    def __floordiv__(self, other: Any) -> Self:
        return self._apply("IDIV", self, other)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._apply("IDIV", other, self)

    def __mod__(self, other: Any) -> Self:
        return self._apply("MOD", self, other)

    def __rmod__(self, other: Any) -> Self:
        return self._apply("MOD", other, self)

    def maximum(self, other: Any) -> Self:
        return self._apply("MAX", self, other)

    def minimum(self, other: Any) -> Self:
        return self._apply("MIN", self, other)

    def __pow__(self, other: Any) -> Self:
        return self._apply("POW", self, other)

    def __rpow__(self, other: Any) -> Self:
        return self._apply("POW", other, self)

    def __lt__(self, other: Any) -> Self:
        return self._apply("CMPLT", self, other)

    def __le__(self, other: Any) -> Self:
        return self._apply("CMPLE", self, other)

    def __gt__(self, other: Any) -> Self:
        return self._apply("CMPGT", self, other)

    def __ge__(self, other: Any) -> Self:
        return self._apply("CMPGE", self, other)

    def __eq__(self, other: object) -> Any:
        return self._apply("CMPEQ", self, other)

    def __ne__(self, other: object) -> Any:
        return self._apply("CMPNE", self, other)

    def __and__(self, other: Any) -> Self:
        return self._apply("AND", self, other)

    def __rand__(self, other: Any) -> Self:
        return self._apply("AND", other, self)

    def __or__(self, other: Any) -> Self:
        return self._apply("OR", self, other)

    def __ror__(self, other: Any) -> Self:
        return self._apply("OR", other, self)

    def __xor__(self, other: Any) -> Self:
        return self._apply("XOR", self, other)

    def __rxor__(self, other: Any) -> Self:
        return self._apply("XOR", other, self)

    def __lshift__(self, other: Any) -> Self:
        return self._apply("SHL", self, other)

    def __rlshift__(self, other: Any) -> Self:
        return self._apply("SHL", other, self)

    def __rshift__(self, other: Any) -> Self:
        return self._apply("SHR", self, other)

    def __rrshift__(self, other: Any) -> Self:
        return self._apply("SHR", other, self)
