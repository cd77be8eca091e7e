"""Methods of lazy tensors that change the dtype, by NumPy's names and torch's."""

from __future__ import annotations

from typing import Any, Self

from eqsat.lazy.argument_checks import STAGE
from eqsat.lazy.base import LazyTensor
from eqsat.lazy.keyword_names import takes_torchs_names
from ir.diagnostics import Kind, fail
from ir.dtype import DTypeLike
from ir.dtype import dtype as as_dtype

_DEVICES = ("cpu", "cuda", "mps", "xpu", "meta")


class Casts(LazyTensor):
    """Base class of `Tensor`."""

    __slots__ = ()

    def cast(self, to: DTypeLike) -> Self:
        """The elements in the dtype `to`: a dtype of eqsat, NumPy or torch, or its name."""
        wanted = as_dtype(to)
        return self if self.dtype == wanted else self._make("CAST", [self], {"to": wanted.name})

    @takes_torchs_names
    def astype(self, dtype: DTypeLike) -> Self:
        return self.cast(dtype)

    @takes_torchs_names
    def to(self, dtype: Any, copy: Any = False) -> Self:
        """As torch's `to` with a dtype, or with a tensor whose dtype is taken. A program's device is chosen by
        `optimize_and_compile(target=…)`."""
        if isinstance(dtype, LazyTensor):
            return self.cast(dtype.dtype)
        if type(dtype).__name__ == "device" or str(dtype).partition(":")[0] in _DEVICES:
            hint = 'optimize_and_compile(tensor, target="cpu") or "sm_90"'
            fail(Kind.UNSUPPORTED_OP, STAGE, f"a lazy tensor lies on no device, not on {dtype}", op="to", hint=hint)
        return self.cast(dtype)

    def type_as(self, other: Any) -> Self:
        return self.cast(self._of(other).dtype)

    def half(self) -> Self:
        return self.cast("fp16")

    def bfloat16(self) -> Self:
        return self.cast("bf16")

    def float(self) -> Self:
        return self.cast("fp32")

    def double(self) -> Self:
        return self.cast("fp64")

    def bool(self) -> Self:
        return self.cast("bool")

    def byte(self) -> Self:
        return self.cast("u8")

    def char(self) -> Self:
        return self.cast("i8")

    def short(self) -> Self:
        return self.cast("i16")

    def int(self) -> Self:
        return self.cast("i32")

    def long(self) -> Self:
        return self.cast("i64")
