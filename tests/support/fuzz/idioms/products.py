"""Idioms of sums of products: matrix products, convolutions of every kind, attention, perceptrons."""

from __future__ import annotations

import math

from eqsat import nn, tensor
from eqsat.tensor import Tensor
from tests.support.fuzz.idioms.movements import dilated, enlarged, padded, resampled, reversed_axes, tiled, triangle
from tests.support.fuzz.idioms.pool import Idiom, Pool


def product(pool: Pool) -> None:
    """x @ w, with what people put around it."""
    x = pool.floats(1, 3)
    w = pool.fresh(x.shape[-1], pool.size())
    y = x @ w
    match pool.integer(0, 6):
        case 0:
            y = y + pool.fresh(w.shape[1])
        case 1:
            y = (y + pool.fresh(w.shape[1])).relu()
        case 2:
            y = nn.gelu(y, pool.chance(0.5))
        case 3:
            y = y * y.sigmoid()
        case 4:
            y = (y * 0.5).tanh()
    pool.add(y)


def reversed_product(pool: Pool) -> None:
    """Either operand backwards, or every second of its rows."""
    x = pool.floats(2, 3)
    left = reversed_axes(x, pool) if pool.chance(0.6) else x
    w = pool.fresh(left.shape[-1], pool.size())
    if pool.chance(0.6):
        long = pool.fresh(left.shape[-1] * 2, w.shape[1])
        w = pool.pick((w[::-1], w[:, ::-1], w.flip([0, 1]), long[::-2], long[1::2]))
    pool.add(left @ w)


def enlarged_product(pool: Pool) -> None:
    """A repeated, tiled, dilated or resampled operand, padded or not."""
    x = enlarged(pool.matrix(), pool.integer(0, 1), pool)
    if pool.chance(0.5):
        x = padded(x, pool, 0)
    pool.add(x @ pool.fresh(x.shape[-1], pool.size()))


def batched_product(pool: Pool) -> None:
    x = pool.floats(3, 3)
    b, _, k = x.shape
    w = pool.fresh(pool.pick((b, 1)), k, pool.size()) if pool.chance(0.7) else x.swapaxes(-1, -2)
    pool.add(x @ w)


def gram(pool: Pool) -> None:
    """x·xᵀ, scaled or masked."""
    x = pool.matrix()
    y = x @ x.T if pool.chance(0.6) else x.T @ x
    if pool.chance(0.4):
        y = tensor.where(triangle(y.shape, 0, 1), y, 0)
    pool.add(y * 0.5 if pool.chance(0.3) else y)


def dot(pool: Pool) -> None:
    """Vectors: inner and outer products."""
    x = pool.floats(1, 1)
    y = pool.fresh(x.shape[0])
    pool.add(x @ y if pool.chance(0.5) else x.unsqueeze(1) * pool.fresh(pool.size(1, 17)))


def low_rank(pool: Pool) -> None:
    """x·w + (x·a)·b"""
    x = pool.matrix()
    k, n, r = x.shape[1], pool.size(1), pool.pick((1, 2, 4))
    pool.add(x @ pool.fresh(k, n) + (x @ pool.fresh(k, r)) @ pool.fresh(r, n) * 0.5)


def perceptron(pool: Pool) -> None:
    """Two products, an activation between them, a residual."""
    x = pool.floats(2, 3)
    width, hidden = x.shape[-1], pool.size(1)
    h = x @ pool.fresh(width, hidden)
    gate = pool.pick((nn.relu, nn.silu, nn.gelu))
    h = gate(h) * (x @ pool.fresh(width, hidden)) if pool.chance(0.3) else gate(h)
    y = h @ pool.fresh(hidden, width)
    pool.add(h, x + y if pool.chance(0.6) else y)


def attention(pool: Pool) -> None:
    """Heads, shared keys, a mask, a bias; causal or not."""
    x = pool.floats(2, 3)
    d, n, dv = x.shape[-1], pool.size(1, 33), pool.size(1, 17)
    lead = x.shape[:-2] if pool.chance(0.6) else ()
    k, v = pool.fresh(*lead, n, d), pool.fresh(*lead, n, dv)
    mask = None
    if pool.chance(0.4):
        mask = tensor.where(pool.fresh(x.shape[-2], n, dtype="bool"), 0.0, pool.pick((-1.0, -math.inf))).cast(x.dtype)
    pool.add(nn.attention(x, k, v, mask, causal=pool.chance(0.3)))


def grouped_attention(pool: Pool) -> None:
    """Several heads of queries read one of keys."""
    heads, shared, d, n = pool.integer(1, 2), pool.integer(1, 3), pool.pick((2, 4, 8)), pool.size(1, 17)
    q = pool.fresh(heads * shared, pool.size(1, 17), d)
    k, v = pool.fresh(heads, n, d), pool.fresh(heads, n, d)
    k, v = (operand.unsqueeze(1).expand(heads, shared, n, d).reshape(heads * shared, n, d) for operand in (k, v))
    pool.add(nn.attention(q, k, v, causal=pool.chance(0.4)))


def image_of(pool: Pool) -> Tensor:
    """A small image, live or fresh, with at least one channel."""
    if pool.chance(0.5):
        x = pool.image()
        if x.size and x.size <= pool.largest // 8:
            return x
    return pool.fresh(pool.integer(1, 2), pool.integer(1, 4), pool.size(1, 33), pool.size(1, 33))


def convolved(x: Tensor, pool: Pool, stride: int | None = None) -> Tensor:
    """A convolution that fits `x`: kernels of 1 to 3, strides, dilation, groups, one-sided padding."""
    channels = x.shape[1]
    groups = channels if pool.chance(0.2) else 2 if channels % 2 == 0 and pool.chance(0.3) else 1
    groups = max(groups, 1)
    kernel = (pool.integer(1, 3), pool.integer(1, 3))
    paddings: tuple[nn.Padding, ...] = (0, 0, 1, 1, [(1, 0), (0, 1)], [(2, 1), (1, 2)])
    padding = pool.pick(paddings)
    dilation = pool.pick((1, 1, 1, 2))
    least = [(size - 1) * dilation + 1 for size in kernel]
    if any(size + 0 < need for size, need in zip(x.shape[2:], least, strict=True)):
        kernel, dilation = (1, 1), 1
    w = pool.fresh(groups * pool.integer(1, 3), channels // groups, *kernel)
    bias = pool.fresh(w.shape[0]) if pool.chance(0.3) else None
    stride = pool.pick((1, 1, 2, 2, 3)) if stride is None else stride
    y = nn.conv2d(x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return y.relu() if pool.chance(0.3) else y


def convolution(pool: Pool) -> None:
    pool.add(convolved(image_of(pool), pool))


def reversed_convolution(pool: Pool) -> None:
    """A flipped image, or a flipped filter."""
    x = image_of(pool)
    if pool.chance(0.6):
        pool.add(convolved(x.flip(pool.pick(([2, 3], [2], [3], [1], [1, 3]))), pool))
        return
    kernel = pool.integer(1, min(3, *x.shape[2:]))
    w = pool.fresh(pool.integer(1, 4), x.shape[1], kernel, kernel)
    pool.add(
        nn.conv2d(x, w.flip(pool.pick(([2, 3], [0], [1, 2]))), padding=pool.pick((0, 1)), stride=pool.integer(1, 2))
    )


def enlarged_convolution(pool: Pool) -> None:
    """Upsampling, tiling or zero insertion, then a convolution."""
    x = image_of(pool)
    kind = pool.integer(0, 3)
    for axis in (2, 3) if pool.chance(0.7) else (3,):
        match kind:
            case 0:
                x = resampled(x, axis, 4, 3) if pool.chance(0.3) else enlarged(x, axis, pool)
            case 1:
                x = tiled(x, axis, 2)
            case 2:
                x = dilated(x, axis, 2)
            case _:
                shape = x.shape
                x = x.unsqueeze(axis + 1).expand(*shape[: axis + 1], 2, *shape[axis + 1 :])
                x = x.reshape(*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
    pool.add(convolved(x, pool, stride=1 if pool.chance(0.6) else None))


def transposed_convolution(pool: Pool) -> None:
    """Zeros between the pixels, a border, the filter turned: the gradient of a convolution by its image."""
    x = image_of(pool)
    stride, kernel = pool.integer(1, 3), pool.integer(1, 3)
    for axis in (2, 3):
        x = dilated(x, axis, stride)
    w = pool.fresh(x.shape[1], pool.integer(1, 4), kernel, kernel)
    turned = w.swapaxes(0, 1).flip([2, 3])
    pool.add(nn.conv2d(x, turned, padding=kernel - 1 if pool.chance(0.8) else kernel))


def convolution_of_rows(pool: Pool) -> None:
    """One dimension: windows times a filter, summed."""
    x = pool.floats(1, 3)
    if not x.shape[-1]:
        return
    kernel = pool.integer(1, min(4, x.shape[-1]))
    seen = Tensor("POOL", [x], {"kernel": (kernel,), "stride": (pool.integer(1, 2),), "dilation": (1,)})
    pool.add((seen * pool.fresh(kernel)).sum(-1))


def pooled_image(pool: Pool) -> None:
    """Max or average pooling, with a border."""
    x = image_of(pool)
    kernel = pool.integer(1, min(3, *x.shape[2:]))
    border = pool.integer(0, kernel // 2)
    if pool.chance(0.5):
        pool.add(nn.max_pool2d(x, kernel, pool.integer(1, 2), border))
    else:
        pool.add(nn.avg_pool2d(x, kernel, pool.integer(1, 2), border, count_include_pad=pool.chance(0.5)))


PRODUCTS: tuple[Idiom, ...] = (
    product, product, product, reversed_product, reversed_product, enlarged_product, batched_product, gram, dot,
    low_rank, perceptron, attention, attention, grouped_attention, convolution, convolution, reversed_convolution,
    enlarged_convolution, enlarged_convolution, transposed_convolution, convolution_of_rows, pooled_image,
)  # fmt: skip
