"""Random numbers as lazy tensors: words of Philox 4x32-10 by element, in PyTorch's habits.

Element i of a tensor, counted in row-major order, has the counter offset + i and the key `seed`, as in the code that
torch.compile generates for CPUs: `at::Philox4_32(seed, 0, offset + i)`. So every element is a function of seed and
place. What reads a random tensor computes the elements that it needs, and nothing needs to be stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, SupportsIndex, TypeVar

import numpy as np

from eqsat.lazy.argument_checks import STAGE, Sizes, integer, number, refuse, sizes
from ir.diagnostics import Kind, fail
from ir.dtype import DTypeLike, fp32, i32, i64, u64
from ir.dtype import dtype as as_dtype

T = TypeVar("T")

_UNIFORM_BITS = 0x7FFFFFFF
"""The bits of a word that count in a uniform number."""
_UNIFORM_SCALE = np.float32(4.6566127342e-10)
"""The fp32 number below 2⁻³¹ that keeps the product with every 31-bit number below 1."""


class RandomNumbers(Generic[T]):
    """The functions of `eqsat.tensor` that give random numbers.

    A seed and an offset are numbers, or tensors of one element that are inputs, so that every call of a program may
    have other random numbers. The numbers are those of torch.compile on CPUs, as far as seed and offset fit in 32 bits;
    torch.compile there cuts off further bits. Kernels that read the numbers compute them; the numbers are stored only
    where that is cheaper.

    Args:
        tensor: makes a lazy tensor of a uop, its operands and its attributes.
        as_tensor: makes a lazy tensor of any value.
    """

    def __init__(self, tensor: Callable[..., T], as_tensor: Callable[[Any], T]) -> None:
        self._tensor: Callable[..., Any] = tensor
        self._as_tensor: Callable[[Any], Any] = as_tensor

    def random_word(self, shape: Sizes, seed: SupportsIndex | T, offset: SupportsIndex | T = 0, word: int = 0) -> T:
        """A word of Philox 4x32-10 for every element, u32: word 0, 1, 2 or 3 for the counter offset + i, where i counts
        the elements in row-major order, and the key `seed`."""
        return self._word(shape, seed, offset, word)  # type: ignore[no-any-return]

    def rand(
        self, shape: Sizes, seed: SupportsIndex | T, offset: SupportsIndex | T = 0, dtype: DTypeLike = "fp32"
    ) -> T:
        """Uniform numbers in [0, 1), which are computed in fp32 from 31 bits of word 0."""
        return _uniform(self._word(shape, seed, offset, 0)).cast(dtype)  # type: ignore[no-any-return]

    def randn(
        self, shape: Sizes, seed: SupportsIndex | T, offset: SupportsIndex | T = 0, dtype: DTypeLike = "fp32"
    ) -> T:
        """Numbers of the standard normal distribution, which are computed in fp32 by the transform of Box and Muller
        from words 0 and 1. The turn is brought to [−½, ½], which rounds nothing."""
        first, second = (1 - _uniform(self._word(shape, seed, offset, place)) for place in (0, 1))
        turn = second - second.round()
        normal = (first.log() * -2.0).sqrt() * (turn * (2 * math.pi)).cos()
        return normal.cast(dtype)  # type: ignore[no-any-return]

    def randint(
        self,
        low: SupportsIndex,
        high: SupportsIndex,
        shape: Sizes,
        seed: SupportsIndex | T,
        offset: SupportsIndex | T = 0,
        dtype: DTypeLike = "i64",
    ) -> T:
        """Whole numbers from `low` to `high` − 1: the 64 bits of words 0 and 1, modulo high − low.

        Raises:
            EqsatError: MalformedGraph unless low < high, both in the range of i64; DtypeMismatch for floats.
        """
        least, end = integer(low, "low"), integer(high, "high")
        if not i64.lowest <= least < end <= i64.highest:
            message = f"randint draws from {least} to below {end}"
            hint = "low < high, both within the range of i64"
            fail(Kind.MALFORMED_GRAPH, STAGE, message, op="randint", hint=hint)
        if not as_dtype(dtype).is_int:
            hint = ".cast(…)"
            fail(Kind.DTYPE_MISMATCH, STAGE, f"randint gives integers, not {as_dtype(dtype)}", op="randint", hint=hint)
        lower, upper = (self._word(shape, seed, offset, place).cast(u64) for place in (0, 1))
        drawn = (lower | upper << 32) % (end - least)
        return (drawn.cast(i64) + least).cast(dtype)  # type: ignore[no-any-return]

    def bernoulli(self, probability: Any, seed: SupportsIndex | T, offset: SupportsIndex | T = 0) -> T:
        """1 where `rand` is below the probability of the element, else 0, in the dtype of the probabilities.

        Raises:
            EqsatError: DtypeMismatch unless the probabilities are floats.
        """
        chance = self._as_tensor(probability)
        if not chance.dtype.is_float:
            hint = '.cast("fp32")'
            fail(Kind.DTYPE_MISMATCH, STAGE, f"a probability is a float, not {chance.dtype}", op="bernoulli", hint=hint)
        is_one = _uniform(self._word(chance.shape, seed, offset, 0)) < chance
        return is_one.cast(chance.dtype)  # type: ignore[no-any-return]

    def dropout_mask(self, shape: Sizes, p: float, seed: SupportsIndex | T, offset: SupportsIndex | T = 0) -> T:
        """The elements that `nn.dropout` keeps: true where `rand` is above p. The integers are compared from which
        `rand` is made, so that no level of exactness changes the mask.

        Raises:
            EqsatError: MalformedGraph unless 0 <= p <= 1.
        """
        chance = number(p, "p")
        if not 0 <= chance <= 1:
            hint = "0 <= p <= 1"
            fail(Kind.MALFORMED_GRAPH, STAGE, f"p is a probability, not {chance}", op="dropout", hint=hint)
        drawn = _integer(self._word(shape, seed, offset, 0))
        return drawn > _last_dropped(chance)  # type: ignore[no-any-return]

    def _word(self, shape: Sizes, seed: Any, offset: Any, word: int) -> Any:
        exact = sizes(shape)
        first, key = self._bits(offset, "an offset"), self._bits(seed, "a seed")
        count = self._tensor("IOTA", (), {"shape": (math.prod(exact),), "axis": 0, "dtype": u64.name})
        counter = (count if isinstance(first, int) and not first else count + first).reshape(exact)
        operands = [counter, 0, key if isinstance(key, int) else key.expand(exact)]
        return self._tensor("RANDOM", operands, {"word": word})

    def _bits(self, value: Any, what: str) -> Any:
        """A seed or an offset as 64 bits: a Python number, or a tensor without axes. −1 stands for 2⁶⁴ − 1."""
        if not isinstance(value, bool) and isinstance(value, int):
            if not i64.lowest <= value <= u64.highest:
                hint = "value % 2**64"
                fail(Kind.MALFORMED_GRAPH, STAGE, f"{what} has 64 bits, not {value.bit_length()}", hint=hint)
            return value % 2**64
        tensor = self._as_tensor(value)
        if tensor.size != 1:
            refuse(Kind.AXIS_SIZE_MISMATCH, "random", f"{what} is one number", tensor.shape, hint="one element: x[0]")
        if not tensor.dtype.is_int:
            hint = 'tensor.input("seed", (), "i64")'
            fail(Kind.DTYPE_MISMATCH, STAGE, f"{what} is a whole number, not {tensor.dtype}", op="random", hint=hint)
        return tensor.reshape(()).cast(u64)


def _integer(words: Any) -> Any:
    """The bits that count in a uniform number, as i32."""
    return (words & _UNIFORM_BITS).cast(i32)


def _uniform(words: Any) -> Any:
    """PyTorch's `uint32_to_uniform_float`: fp32 in [0, 1)."""
    return _integer(words).cast(fp32) * float(_UNIFORM_SCALE)


def _last_dropped(p: float) -> int:
    """The greatest integer whose uniform number is not above p; −1 if there is none."""
    low, high = -1, _UNIFORM_BITS
    while low < high:
        middle = (low + high + 1) // 2
        above = np.float32(middle) * _UNIFORM_SCALE > np.float32(p)
        low, high = (low, middle - 1) if above else (middle, high)
    return low
