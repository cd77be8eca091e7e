"""The values that a random program has computed so far; and the sizes, dtypes and arrays that its idioms draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from eqsat import tensor
from eqsat.tensor import Tensor
from ir.dtype import dtype as as_dtype

T = TypeVar("T")

SMALL = (0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 6, 7, 7, 8, 8, 9)
MIDDLE = (*SMALL, 8, 9, 11, 12, 13, 15, 16, 16, 17, 20, 24)
LARGE = (*MIDDLE, 16, 31, 32, 32, 33, 40, 48, 63, 64, 64, 65, 72, 80, 96)
SCALES = (SMALL, MIDDLE, LARGE)
"""Sizes of axes by the scale of the program: around vectors and tiles, and their neighbours."""

FLOATS = ("fp32", "fp16", "bf16", "fp64")
INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")


class Pool:
    """Grows a program. Idioms take values from it and add theirs; the same for the same generator state.

    scale: of the sizes, 0 to 2. dtype: of the floats. whole: constants hold small whole numbers.
    """

    def __init__(self, rng: np.random.Generator, scale: int, largest: int) -> None:
        self.rng = rng
        self.sizes = SCALES[scale]
        self.largest = largest
        self.dtype = FLOATS[int(rng.choice(4, p=(0.7, 0.1, 0.12, 0.08)))]
        self.whole = bool(rng.random() < 0.5)
        self.constant_share = float(rng.choice((0.0, 0.15, 0.5, 0.9)))
        self.values: list[Tensor] = []
        self._inputs = 0

    # choices

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """From low to high, both inclusive."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.rng.integers(len(items)))]

    def size(self, least: int = 0, most: int = 96) -> int:
        """A frequent size within the bounds."""
        fit = [size for size in self.sizes if least <= size <= most]
        return self.pick(fit) if fit else least

    def axis(self, x: Tensor) -> int:
        return self.integer(0, x.ndim - 1)

    def axes(self, x: Tensor) -> tuple[int, ...]:
        """One or more axes, in order."""
        result = tuple(axis for axis in range(x.ndim) if self.chance(0.5))
        return result or (self.axis(x),)

    # arrays

    def array(self, shape: Sequence[int], dtype: str | None = None) -> np.ndarray:
        """The elements of a constant."""
        element = as_dtype(dtype or self.dtype)
        if element.is_bool:
            return np.asarray(self.rng.integers(0, 2, shape), bool)
        if not element.is_float:
            return np.asarray(self.rng.integers(0 if not element.is_signed else -4, 5, shape)).astype(element.numpy)
        drawn = self.rng.integers(-2, 3, shape) if self.whole else self.rng.standard_normal(shape)
        return np.asarray(drawn).astype(element.numpy)

    def fresh(self, *shape: int, dtype: str | None = None) -> Tensor:
        """An input, or a constant."""
        if self.chance(self.constant_share):
            return self.constant(*shape, dtype=dtype)
        self._inputs += 1
        return tensor.input(f"x{self._inputs - 1}", shape, dtype or self.dtype)

    def constant(self, *shape: int, dtype: str | None = None) -> Tensor:
        element = dtype or self.dtype
        return tensor.constant(self.array(shape, element), element)

    # live values

    def add(self, *values: Tensor) -> None:
        """Values that later idioms, or the caller, may read."""
        for value in values:
            if value.size <= self.largest:
                self.values.append(value)

    def live(self, suits: Callable[[Tensor], bool]) -> Tensor | None:
        """A value so far, of late ones rather than early; None where none suits."""
        fit = [value for value in self.values if suits(value)]
        return fit[-1 - min(int(self.rng.geometric(0.4)) - 1, len(fit) - 1)] if fit else None

    def floats(self, least: int = 0, most: int = 4) -> Tensor:
        """A value of floats of a rank within the bounds, its axes none but in one of ten cases empty."""
        x = self.live(lambda value: value.ndim <= most + 1 and value.size > 0) if self.chance(0.85) else None
        if x is None:
            rank = self.integer(max(least, 1), max(least, min(most, 3)))
            x = self._sized(rank)
            self.add(x)
        x = x if x.dtype.is_float else x.cast(self.dtype)
        return self._ranked(x, least, most)

    def matrix(self) -> Tensor:
        return self.floats(2, 2)

    def image(self) -> Tensor:
        """[N, C, H, W]"""
        return self.floats(4, 4)

    def integers(self, least: int = 0, most: int = 3) -> Tensor:
        x = self.live(lambda value: value.dtype.is_int and value.size > 0) if self.chance(0.6) else None
        if x is None:
            rank = self.integer(max(least, 1), max(least, 2))
            x = self.fresh(*(self.size(1) for _ in range(rank)), dtype=self.pick(INTEGERS))
        return self._ranked(x, least, most)

    def like(self, x: Tensor) -> Tensor:
        """A value that broadcasts against `x`: a live one of the same shape, or a fresh one of some of its axes."""
        result = self.live(lambda value: value.shape == x.shape and value.dtype == x.dtype)
        if result is not None and self.chance(0.5):
            return result
        shape = tuple(size if self.chance(0.7) else 1 for size in x.shape)
        drop = self.integer(0, x.ndim) if self.chance(0.3) else 0
        return self.fresh(*shape[drop:], dtype=x.dtype.name)

    def _sized(self, rank: int) -> Tensor:
        """A fresh value that is not larger than a program may hold."""
        least = 0 if self.chance(0.08) else 1
        most = 96
        while True:
            shape = [self.size(least, most) for _ in range(rank)]
            if math.prod(shape) <= self.largest // 8:
                return self.fresh(*shape)
            most = max(most // 2, 2)

    def _ranked(self, x: Tensor, least: int, most: int) -> Tensor:
        """`x` with axes of size 1 inserted, or neighbours merged, until its rank is within the bounds."""
        while x.ndim < least:
            big = [axis for axis, size in enumerate(x.shape) if size % 2 == 0 and size > 2]
            if big and self.chance(0.4):
                at = self.pick(big)
                x = x.reshape(*x.shape[:at], 2, x.shape[at] // 2, *x.shape[at + 1 :])
            else:
                x = x.unsqueeze(self.integer(0, x.ndim))
        while x.ndim > most:
            at = self.integer(0, x.ndim - 2)
            x = x[self.integer(0, x.shape[0] - 1)] if x.shape[0] and self.chance(0.3) else x.flatten(at, at + 1)
        return x


Idiom = Callable[[Pool], Any]
"""A piece of a program as people write it; adds its values to the pool."""
