"""Operators of lazy tensors as methods, by NumPy's names and torch's: `x.add(y)`, `x.eq(y)`, `x.clip(0, 1)`."""

from __future__ import annotations

import math
from typing import Any, Self

from eqsat.lazy.argument_checks import STAGE, is_number, number, one_of
from eqsat.lazy.casts import Casts
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.lazy.operators import Operators
from ir.diagnostics import Kind, fail


class NamedOperators(Operators, Casts):
    """Base class of `Tensor`. Operands broadcast, and are cast to one dtype, as with the operators."""

    __slots__ = ()

    @takes_torchs_names
    def add(self, other: Any, alpha: Any = 1) -> Self:
        """self + alpha · other"""
        return self._apply("ADD", self, self._scaled(other, alpha))

    @takes_torchs_names
    def sub(self, other: Any, alpha: Any = 1) -> Self:
        """self − alpha · other"""
        return self._apply("SUB", self, self._scaled(other, alpha))

    subtract = sub

    @takes_torchs_names
    def mul(self, other: Any) -> Self:
        return self._apply("MUL", self, other)

    multiply = mul

    @takes_torchs_names
    def div(self, other: Any, rounding_mode: str | None = None) -> Self:
        """self / other; rounding_mode: None, "floor", or "trunc", which rounds toward 0."""
        if rounding_mode is None:
            return self._apply("FDIV", self, other)
        if one_of(rounding_mode, ("floor", "trunc"), "rounding_mode") == "floor":
            return self._apply("IDIV", self, other)
        divisor = self._of(other)
        if self.dtype.is_float or divisor.dtype.is_float:
            return self._apply("FDIV", self, other).trunc()
        down = self._apply("IDIV", self, other)
        inexact = (down * divisor).ne(self) & ((self < 0) ^ (divisor < 0))
        return down + inexact

    divide = div
    true_divide = div

    def floor_divide(self, other: Any) -> Self:
        return self._apply("IDIV", self, other)

    def remainder(self, other: Any) -> Self:
        """The remainder of a division that rounds down; it has the sign of `other`."""
        return self._apply("MOD", self, other)

    def pow(self, exponent: Any) -> Self:
        return self._apply("POW", self, exponent)

    power = pow

    def neg(self) -> Self:
        return -self

    negative = neg

    def abs(self) -> Self:
        return self._apply("ABS", self)

    absolute = abs

    def square(self) -> Self:
        return self * self

    def sign(self) -> Self:
        """−1, 0 or 1, in the dtype; NaN stays NaN."""
        signs = self._choose(self > 0, 1, self._choose(self < 0, -1, self) if self.dtype.is_signed else self)
        return signs.cast(self.dtype)

    def trunc(self) -> Self:
        """Rounded toward 0."""
        return self._choose(self < 0, self.ceil(), self.floor()) if self.dtype.is_float else self

    @takes_torchs_names
    def clip(self, min: Any = None, max: Any = None) -> Self:
        """At least `min` and at most `max`; None is no bound."""
        if min is None and max is None:
            fail(Kind.MALFORMED_GRAPH, STAGE, "clip needs a bound", op="clip", hint="clip(min=0), or clip(0, 1)")
        raised = self if min is None else self.maximum(min)
        return raised if max is None else raised.minimum(max)

    clamp = clip

    def clamp_min(self, min: Any) -> Self:
        return self.maximum(min)

    def clamp_max(self, max: Any) -> Self:
        return self.minimum(max)

    def eq(self, other: Any) -> Self:
        return self._apply("CMPEQ", self, other)

    def ne(self, other: Any) -> Self:
        return self._apply("CMPNE", self, other)

    not_equal = ne

    def lt(self, other: Any) -> Self:
        return self._apply("CMPLT", self, other)

    less = lt

    def le(self, other: Any) -> Self:
        return self._apply("CMPLE", self, other)

    less_equal = le

    def gt(self, other: Any) -> Self:
        return self._apply("CMPGT", self, other)

    greater = gt

    def ge(self, other: Any) -> Self:
        return self._apply("CMPGE", self, other)

    greater_equal = ge

    def isnan(self) -> Self:
        return self.ne(self)

    def isinf(self) -> Self:
        return self.abs().eq(math.inf) if self.dtype.is_float else self.ne(self)

    def isfinite(self) -> Self:
        """Whether an element is neither infinite nor NaN."""
        return self.abs() < math.inf if self.dtype.is_float else self.eq(self)

    def logical_and(self, other: Any) -> Self:
        return self.bool() & self._of(other).bool()

    def logical_or(self, other: Any) -> Self:
        return self.bool() | self._of(other).bool()

    def logical_xor(self, other: Any) -> Self:
        return self.bool() ^ self._of(other).bool()

    def logical_not(self) -> Self:
        return ~self.bool()

    def bitwise_and(self, other: Any) -> Self:
        return self._apply("AND", self, other)

    def bitwise_or(self, other: Any) -> Self:
        return self._apply("OR", self, other)

    def bitwise_xor(self, other: Any) -> Self:
        return self._apply("XOR", self, other)

    def bitwise_not(self) -> Self:
        return ~self

    @takes_torchs_names
    def lerp(self, end: Any, weight: Any) -> Self:
        """self + weight · (end − self)"""
        return self._apply("ADD", self, (self._of(end) - self) * weight)

    def _scaled(self, other: Any, alpha: Any) -> Any:
        """alpha · other"""
        factor = number(alpha, "alpha")
        return other if factor == 1 else (other if is_number(other) else self._of(other)) * factor
