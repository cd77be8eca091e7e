"""Idioms whose result jumps: positions of the maximum, equality with it, thresholds, rounding, routing, indices.

Many of them need a value to have the same rounding for all readers: then some element equals the maximum, and so does
the element at the maximum's position. The expected result is known for any such rounding.
"""

from __future__ import annotations

import math

from eqsat import nn, tensor
from eqsat.tensor import Tensor
from tests.support.fuzz.idioms.pool import Idiom, Pool


def scores(pool: Pool) -> Tensor:
    """A value with roundings, which several readers may compute: sums, softmaxes, norms of live values."""
    x = pool.floats(2, 3)
    width = pool.size(1, 33)
    match pool.integer(0, 8):
        case 0:
            return nn.softmax(x @ pool.fresh(x.shape[-1], width))
        case 1:
            return x @ pool.fresh(x.shape[-1], width)
        case 2:
            return nn.softmax(x, pool.pick((-1, -2)))
        case 3:
            return nn.layer_norm(x)
        case 4:
            return (x * pool.fresh(x.shape[-1])).sum(-1, keepdims=True) * pool.fresh(width)
        case 5:
            return x / (x * x).sum(-1, keepdims=True).sqrt().maximum(1e-3)
        case 6:
            return x.cumsum(pool.pick((-1, -2)))
        case 7:
            return x * 0.3 + pool.like(x) * 0.7
        case _:
            return nn.rms_norm(x).sigmoid()


def one_hot(index: Tensor, size: int) -> Tensor:
    """True at the position along a new last axis."""
    same: Tensor = index.unsqueeze(-1) == tensor.iota((*index.shape, size), index.ndim, index.dtype)
    return same


def is_maximum(pool: Pool) -> None:
    """Counts elements of a row that equal the row's maximum: without NaN, the count is known to be positive."""
    p = scores(pool)
    axis = pool.axis(p)
    if not p.shape[axis]:
        return
    hits = p == p.max(axis, keepdims=True)
    pool.add(hits.sum(axis), (hits.sum(axis) >= 1) | (p != p).cast("i32").max(axis=axis).cast("bool"))


def element_at_argmax(pool: Pool) -> None:
    """The element at the position of the greatest is the greatest."""
    p = scores(pool)
    if not p.shape[-1]:
        return
    top, at = p.max(axis=-1), p.argmax(-1)
    there = p.gather(p.ndim - 1, at.unsqueeze(-1)).squeeze(-1)
    pool.add(there - top, at)


def one_hot_sum(pool: Pool) -> None:
    """The one hot row of the greatest sums to 1, and picks it."""
    p = scores(pool)
    if not p.shape[-1]:
        return
    hot = one_hot(p.argmax(-1), p.shape[-1])
    pool.add(hot.sum(-1), tensor.where(hot, p, 0.0).sum(-1))


def gate(pool: Pool) -> None:
    """A threshold of a sum decides; both branches read the sum."""
    x = pool.floats(2, 3)
    s = x @ pool.fresh(x.shape[-1], pool.size(1, 33)) if pool.chance(0.6) else x.sum(-1, keepdims=True)
    limit = pool.pick((0.0, 0.0, 0.5))
    on = s > limit
    off = s <= limit
    pool.add((on & off).cast("i32").sum(-1), tensor.where(on, s, limit) - s.maximum(limit))


def keep_greatest(pool: Pool) -> None:
    """p where it is at least its own greatest, else 0: the sum is not 0."""
    p = nn.softmax(scores(pool))
    if p.shape[-1]:
        kept = tensor.where(p >= p.max(-1, keepdims=True), p, 0.0)
        pool.add(kept.max(axis=-1) - p.max(axis=-1), kept)


def second_greatest(pool: Pool) -> None:
    """The greatest is masked out; the next one is below."""
    p = scores(pool)
    if p.shape[-1] < 2:
        return
    first = p.max(-1, keepdims=True)
    rest = tensor.where(p == first, -math.inf, p)
    pool.add((rest.max(-1, keepdims=True) < first).cast("i32"), tensor.where(p < first, 1, 0).sum(-1))


def rounding(pool: Pool) -> None:
    """floor(s) ≤ s ≤ ceil(s), and the distance, of a scaled sum."""
    s = scores(pool) * pool.pick((1, 4, 8, 100))
    low = s.floor()
    pool.add((low <= s).cast("i32"), (low - s.ceil()), s - low)


def quantize(pool: Pool) -> None:
    """To i8 and back, by the greatest of each row; a product of the whole numbers."""
    x = pool.matrix()
    scale = abs(x).max(-1, keepdims=True).maximum(1e-3) / 127
    q = (x / scale).round().maximum(-127).minimum(127).cast("i8")
    if pool.chance(0.5):
        w = pool.fresh(x.shape[-1], pool.size(1, 33), dtype="i8")
        pool.add((q.cast("i32") @ w.cast("i32")).cast(x.dtype) * scale)
    else:
        pool.add(q.cast(x.dtype) * scale - x)


def route(pool: Pool) -> None:
    """Each row takes the weights of its best expert, times how good that is."""
    t, d = pool.pick((1, 3, 7, 8, 8, 9, 16, 17)), pool.pick((4, 8, 16, 16, 32))
    e, f = pool.pick((1, 2, 3, 4, 4, 4, 8)), pool.pick((8, 16, 32, 32, 33, 64))
    x = pool.fresh(t, d)
    p = nn.softmax(x @ pool.fresh(d, e))
    at = p.argmax(-1)
    y = x[:, None, :] @ pool.fresh(e, d, f).take(at, 0)
    if pool.chance(0.6):
        y = y.relu() @ pool.fresh(e, f, d).take(at, 0)
    pool.add(y[:, 0] * p.max(axis=-1)[:, None])


def mixture(pool: Pool) -> None:
    """All experts, weighted: those below a threshold count nothing."""
    x = pool.matrix()
    e, n = pool.integer(1, 4), pool.size(1, 17)
    p = nn.softmax(x @ pool.fresh(x.shape[1], e))
    weights = tensor.where(p >= p.max(-1, keepdims=True) if pool.chance(0.6) else p > 1 / e, p, 0.0)
    products = x[None] @ pool.fresh(e, x.shape[1], n)
    pool.add((products * weights.T.unsqueeze(-1)).sum(0))


def nucleus(pool: Pool) -> None:
    """The positions before which the running sum of probabilities is below a limit."""
    p = nn.softmax(pool.floats(1, 3))
    below = p.cumsum(-1) - p < 0.7
    pool.add(tensor.where(below, p, 0.0), below.cast("i32").sum(-1))


def embedding(pool: Pool) -> None:
    """Rows of a table by indices of data, perhaps computed."""
    table = pool.floats(2, 2)
    if not table.shape[0]:
        return
    index = pool.integers(1, 2).cast("i64")
    match pool.integer(0, 2):
        case 0:
            index = index % table.shape[0]
        case 1:
            index = (index * 3 + 1) % max(1, table.shape[0])
    pool.add(table.take(index, 0) if table.size * index.size < pool.largest else table.take(index.flatten()[:1], 0))


def take_at_argmax(pool: Pool) -> None:
    """A lookup by the position of the greatest."""
    p = scores(pool)
    if p.shape[-1]:
        pool.add(pool.fresh(p.shape[-1], pool.size(1, 17)).take(p.argmax(-1), 0))


def index_arithmetic(pool: Pool) -> None:
    """Divisions and remainders of integers and positions."""
    x = pool.integers(1, 2)
    k = pool.pick((1, 2, 3, 7))
    place = tensor.iota(x.shape, pool.axis(x), x.dtype)
    result = pool.pick(
        (x // k, x % k, (x // k) * k + x % k - x, x * 2 + place, place // k * k, place % k == x % k, x & 3)
    )
    pool.add(result if result.dtype.is_int else result.cast("i32"))


def divide_by_data(pool: Pool) -> None:
    """Quotients and remainders by integers that may be 0 or negative."""
    x = pool.integers(1, 2)
    y = pool.fresh(*x.shape, dtype=x.dtype.name)
    pool.add(x // y, x % y, (x // y) * y + x % y - x)


def checkerboard(pool: Pool) -> None:
    """A mask of positions by division and remainder."""
    x = pool.floats(2)
    a, b = tensor.iota(x.shape, x.ndim - 2, "i32"), tensor.iota(x.shape, x.ndim - 1, "i32")
    mask = pool.pick(((a + b) % 2 == 0, a // 2 == b // 2, (a * 3 + b) % 4 < 2, a % 3 == b % 3))
    masked = tensor.where(mask, x, 0.0)
    pool.add(masked if pool.chance(0.5) else masked.sum(pool.axis(x)))


def integer_sums(pool: Pool) -> None:
    x = pool.integers(1, 3)
    axis = pool.axis(x)
    results = [x.sum(axis), x.cumsum(axis), x.max(axis=axis), (x * x).sum(axis), x.cast("i32").prod(axis)]
    pool.add(pool.pick([*results, x.argmax(axis)] if x.shape[axis] else results))


def histogram(pool: Pool) -> None:
    """How many elements equal each of a few numbers."""
    x = pool.integers(1, 1)
    bins = tensor.arange(pool.integer(1, 6)).cast(x.dtype)
    pool.add((x[:, None] == bins[None]).sum(0))


def cast_chain(pool: Pool) -> None:
    x = pool.floats(1)
    names = [pool.pick(("fp16", "bf16", "fp32", "fp64", "i32", "i8", "bool")) for _ in range(pool.integer(1, 2))]
    y = x
    for name in names:
        y = y.cast(name)
    pool.add(y)


def twice_computed(pool: Pool) -> None:
    """One expression written twice: its difference is 0."""
    x = pool.floats(2, 3)
    w = pool.fresh(x.shape[-1], pool.size(1, 17))
    one, other = nn.softmax(x @ w), nn.softmax(x @ w)
    pool.add(one - other, (one >= other).cast("i32").sum(-1))


def sign_parts(pool: Pool) -> None:
    """|s| is the sum of its two halves, of a value with a rounding in it."""
    s = scores(pool)
    pool.add(abs(s) - s.relu() - (-s).relu(), (s.sum(-1, keepdims=True) > 0) == (s.sum(-1, keepdims=True) <= 0))


def greatest_of_scan(pool: Pool) -> None:
    """The last of a running maximum is the maximum; the last of a running sum is near the sum."""
    s = scores(pool)
    axis = pool.axis(s)
    if s.shape[axis]:
        highest = Tensor("CUMMAX", [s], {"axis": axis, "dtype": s.dtype.name})
        last = highest[(*[slice(None)] * axis, -1)]
        pool.add(last - s.max(axis=axis), (highest >= s).cast("i32").min(axis=axis))


def put_at_positions(pool: Pool) -> None:
    """Updates at positions that are data, some equal and some outside, as in the gradient of an embedding."""
    x = pool.floats(1, 3)
    axis, count = pool.axis(x), pool.size(0, 33)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    rows = pool.chance(0.5)
    index = pool.fresh(*((count,) if rows else shape), dtype=pool.pick(("i32", "i64", "u8")))
    if rows:
        index = index.reshape(*(count if position == axis else 1 for position in range(x.ndim))).expand(shape)
    updates = pool.fresh(*shape, dtype=x.dtype.name)
    put = x.scatter(axis, index, updates * 2 + 1, pool.pick(("none", "add", "add", "mul", "max", "min")))
    pool.add(put, x - put * 0.5, put.max(axis=axis) if put.shape[axis] else put)


CHOICES: tuple[Idiom, ...] = (
    is_maximum, is_maximum, element_at_argmax, element_at_argmax, one_hot_sum, gate, gate, keep_greatest,
    second_greatest, rounding, quantize, route, route, mixture, nucleus, embedding, take_at_argmax, index_arithmetic,
    index_arithmetic, divide_by_data, checkerboard, integer_sums, histogram, cast_chain, twice_computed, sign_parts,
    greatest_of_scan, put_at_positions,
)  # fmt: skip
