"""The number of elements of a tensor, which is NumPy's `x.size` and answers torch's `x.size()` and `x.size(0)` too."""

from __future__ import annotations

from typing import SupportsIndex, overload

from eqsat.lazy.argument_checks import axis_in


class ElementCount(int):
    """A number of elements. Called, it is the shape, or the size along an axis."""

    shape: tuple[int, ...]

    def __new__(cls, count: int, shape: tuple[int, ...]) -> ElementCount:
        self = super().__new__(cls, count)
        self.shape = shape
        return self

    @overload
    def __call__(self, dim: None = None) -> tuple[int, ...]: ...

    @overload
    def __call__(self, dim: SupportsIndex) -> int: ...

    def __call__(self, dim: SupportsIndex | None = None) -> int | tuple[int, ...]:
        return self.shape if dim is None else self.shape[axis_in(dim, self.shape)]

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        """Stored, it is a plain number."""
        return int, (int(self),)
