"""The part of a lazy tensor that the families of methods know, which `eqsat.tensor.Tensor` defines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np

    from eqsat.lazy.element_count import ElementCount
    from ir.dtype import DType, DTypeLike, TensorType


class LazyTensor:
    """Base class of the families; the families are base classes of `Tensor`."""

    __slots__ = ()

    if TYPE_CHECKING:
        array: np.ndarray | None
        uop: str
        arg: Mapping[str, Any]
        type: TensorType

        @property
        def shape(self) -> tuple[int, ...]: ...

        @property
        def ndim(self) -> int: ...

        @property
        def size(self) -> ElementCount: ...

        @property
        def dtype(self) -> DType: ...

        def cast(self, to: DTypeLike) -> Self: ...

        @classmethod
        def _make(cls, uop: str, src: Sequence[Any] = (), arg: Mapping[str, Any] | None = None) -> Self:
            """The result of a uop."""
            ...

        @classmethod
        def _of(cls, value: Any) -> Self:
            """The value as a tensor."""
            ...

        @classmethod
        def _constant(cls, value: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Self:
            """`eqsat.tensor.constant`."""
            ...

        @classmethod
        def _choose(cls, condition: Any, a: Any, b: Any) -> Self:
            """`eqsat.tensor.where`."""
            ...

        @classmethod
        def _loop(
            cls, step: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None
        ) -> tuple[Any, Any]:
            """`eqsat.tensor.scan`."""
            ...

        def _apply(self, uop: str, *operands: Any) -> Self:
            """The uop on operands, at least one of which is a tensor. Operands broadcast, and are cast to one dtype."""
            ...

    def _move(self, uop: str, still: bool, /, **arg: Any) -> Self:
        """The uop applied to this tensor; the tensor itself if `still`, that is, if nothing moves."""
        return self if still else self._make(uop, [self], arg)

    @classmethod
    def _positions(cls, shape: Sequence[int], axis: int, dtype: DTypeLike = "i64") -> Self:
        """0, 1, 2, … along `axis`."""
        return cls._make("IOTA", (), {"shape": tuple(shape), "axis": axis, "dtype": str(dtype)})
