"""Idioms that draw random numbers: dropout forward and backward, noise, random positions. Kernels that read the same
numbers must agree on all bits."""

from __future__ import annotations

from eqsat import nn, tensor
from eqsat.tensor import Tensor
from tests.support.fuzz.idioms.pool import Idiom, Pool

OFFSETS = (0, 0, 3, 2**31 - 5, 2**32 - 5, 2**63 - 5, 2**64 - 5)


def seed(pool: Pool) -> Tensor | int:
    """A number, or an input of one element."""
    return pool.integer(0, 2**62) if pool.chance(0.3) else pool.fresh(dtype=pool.pick(("i64", "u64", "i32")))


def offset(pool: Pool) -> Tensor | int:
    return pool.pick(OFFSETS) if pool.chance(0.7) else pool.fresh(1, dtype="i64")


def dropout(pool: Pool) -> None:
    """Values with some elements dropped, and a gradient by the same mask: what is dropped in one is 0 in the other."""
    x = pool.floats(0, 3)
    key, first, p = seed(pool), offset(pool), pool.pick((0.1, 0.5, 0.9))
    y = nn.dropout(x, p, key, first)
    grad = y.sum(-1, keepdims=True) if y.ndim and pool.chance(0.5) else pool.like(x)
    back = nn.dropout((x * 0 + 1) * grad, p, key, first)
    mask = tensor.dropout_mask(x.shape, p, key, first)
    pool.add(y, back, tensor.where(mask, 0.0, back), mask)


def noise(pool: Pool) -> None:
    """Uniform noise of one number for some of the axes."""
    x = pool.floats(1, 3)
    shape = [size if pool.chance(0.7) else 1 for size in x.shape]
    drawn = tensor.rand(shape, seed(pool), offset(pool), x.dtype)
    pool.add(x + drawn, drawn < 0.5)


def words(pool: Pool) -> None:
    """Words of counters that are data, with a window of a random tensor."""
    size = pool.size(1, 33)
    key, first = seed(pool), offset(pool)
    whole = tensor.random_word((size, 3), key, first, pool.integer(0, 3))
    pool.add(whole.pad([(0, 1), (1, 0)], 1), whole[::2, 1], (whole >> 28).sum(0), whole.max(axis=0))


def random_positions(pool: Pool) -> None:
    """Rows at random positions, some of them twice."""
    x = pool.floats(1, 3)
    if x.shape[0]:
        at = tensor.randint(0, x.shape[0], (pool.size(1, 17),), seed(pool), offset(pool))
        pool.add(x.take(at, 0), at)


RANDOM_NUMBERS: tuple[Idiom, ...] = (dropout, dropout, dropout, noise, words, random_positions)
