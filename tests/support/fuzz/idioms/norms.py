"""Idioms that reduce and scan: norms, softmaxes, means, running sums, several readers of a reduction."""

from __future__ import annotations

import math
from collections.abc import Callable

from eqsat import nn, tensor
from eqsat.tensor import Tensor
from tests.support.fuzz.idioms.pool import Idiom, Pool

Reader = Callable[[Tensor], Tensor]


def layer_norm(pool: Pool) -> None:
    x = pool.floats(1)
    axes = pool.integer(1, min(2, x.ndim))
    shape = x.shape[x.ndim - axes :]
    weight, bias = (pool.fresh(*shape), pool.fresh(*shape)) if pool.chance(0.5) else (None, None)
    pool.add(nn.layer_norm(x, weight, bias, axes=axes))


def rms_norm(pool: Pool) -> None:
    x = pool.floats(1)
    pool.add(nn.rms_norm(x, pool.fresh(x.shape[-1]) if pool.chance(0.5) else None))


def group_norm(pool: Pool) -> None:
    """Groups of channels, each normalized over its pixels."""
    x = pool.floats(3, 4)
    channels = x.shape[1]
    groups = 2 if channels % 2 == 0 and channels else 1
    rows = x.reshape(x.shape[0], groups, -1 if x.size else 0)
    pool.add(nn.layer_norm(rows).reshape(x.shape) * pool.fresh(channels, *(1,) * (x.ndim - 2)))


def batch_norm(pool: Pool) -> None:
    x = pool.floats(2, 4)
    c = x.shape[1]
    variance = abs(pool.fresh(c))
    pool.add(nn.batch_norm(x, weight=pool.fresh(c), bias=pool.fresh(c), mean=pool.fresh(c), var=variance))


def own_norm(pool: Pool) -> None:
    """x divided by its own L1, L2 or greatest norm along some axes, or all."""
    x = pool.floats(1)
    axes = None if pool.chance(0.3) else pool.axes(x)
    match pool.integer(0, 3):
        case 0:
            pool.add(x / (abs(x).sum(axes, keepdims=True) + 1e-3))
        case 1:
            pool.add(x * ((x * x).sum(axes, keepdims=True) + 1e-6).rsqrt())
        case 2:
            pool.add(x / ((x * x).sum(axes, keepdims=True).sqrt() + 1))
        case _:
            pool.add(x / abs(x).max(axes, keepdims=True).maximum(1))


def softmax(pool: Pool) -> None:
    x = pool.floats(1)
    axes = pool.axes(x) if pool.chance(0.3) else pool.axis(x)
    pool.add(nn.softmax(x, axes) if pool.chance(0.8) else nn.log_softmax(x, axes))


def softmax_of_constants(pool: Pool) -> None:
    """What folds when the program is built, then meets the rest."""
    x = pool.floats(1, 2)
    logits = pool.constant(*x.shape[:-1], x.shape[-1])
    y = pool.pick(
        (nn.softmax(logits), nn.softmax(logits * 2), nn.softmax(logits.sum(0, keepdims=True)).expand(x.shape))
    )
    pool.add(x * y, nn.softmax(y * 0.5) if pool.chance(0.4) else y + 1)


def known_by_the_rules(pool: Pool) -> None:
    """A value that is a constant only once rules have looked at it, where a value is expected."""
    x = pool.floats(1, 2)
    place, other = tensor.iota(x.shape, pool.axis(x), "i32"), pool.fresh(*x.shape, dtype="i32")
    flat = pool.pick(
        (tensor.where(place >= 0, 2.0, x), (other * 0).cast(x.dtype), (other - other + 1).cast(x.dtype),
         (place // max(1, x.shape[-1], x.shape[0])).cast(x.dtype), tensor.where(place < 0, x, 0.5))
    )  # fmt: skip
    readers: tuple[Reader, ...] = (nn.softmax, nn.layer_norm, nn.log_softmax, nn.rms_norm, nn.silu, abs)
    reader = pool.pick(readers)
    pool.add(reader(flat) + x if pool.chance(0.6) else reader(flat) @ pool.fresh(x.shape[-1], pool.size()))


def log_sum_exp(pool: Pool) -> None:
    x = pool.floats(1)
    axis = pool.axis(x)
    top = x.max(axis, keepdims=True) if pool.chance(0.7) else x.mean(axis, keepdims=True)
    pool.add((x - top).exp().sum(axis, keepdims=True).log() + top)


def temperature(pool: Pool) -> None:
    """A softmax of a softmax's logarithm; entropy."""
    x = pool.floats(1)
    p = nn.softmax(x)
    pool.add(p, -(p * (p + 1e-6).log()).sum(-1))


def centre(pool: Pool) -> None:
    x = pool.floats(1)
    axes = pool.axes(x)
    centred = x - x.mean(axes, keepdims=True)
    pool.add(pool.pick((centred, x.var(axis=axes), (centred * centred).sum(axes), centred.relu())))


def centre_pooled(pool: Pool) -> None:
    """Centring over windows, of a constant or of a value."""
    x = pool.constant(pool.size(2, 9), pool.size(3, 17)) if pool.chance(0.5) else pool.floats(2, 2)
    if not x.shape[-1]:
        return
    kernel = pool.integer(1, min(3, x.shape[-1]))
    seen = Tensor("POOL", [x], {"kernel": (kernel,), "stride": (1,), "dilation": (1,)})
    centred = seen - seen.mean(-1, keepdims=True)
    pool.add(centred * pool.fresh(*centred.shape) if pool.chance(0.5) else centred.sum(1))


def scan(pool: Pool) -> None:
    """A running sum, product or maximum, along any axis, forwards or backwards, perhaps with a new axis around."""
    x = pool.floats(1)
    axis = pool.axis(x)
    backwards = pool.chance(0.3)
    if backwards:
        x = x.flip(axis)
    y = running(x, axis, pool)
    if backwards:
        y = y.flip(axis)
    pool.add(y[None] if pool.chance(0.4) else y)


def running(x: Tensor, axis: int, pool: Pool) -> Tensor:
    match pool.integer(0, 3):
        case 0:
            return Tensor("CUMMAX", [x], {"axis": axis, "dtype": x.dtype.name})
        case 1 if pool.whole is False:
            return (x * 0.5 + 1).cumprod(axis)
        case _:
            return x.cumsum(axis)


def scan_and_extremum(pool: Pool) -> None:
    """A scan with a new axis, its greatest along an axis that is kept, and several readers of both."""
    x = pool.floats(1, 3)
    y = running(x, pool.axis(x), pool)
    if pool.chance(0.7):
        y = y.unsqueeze(pool.integer(0, y.ndim))
    axis = pool.axis(y)
    m = pool.pick((y.amax, y.amin, y.sum, y.mean))(axis, keepdims=True)
    pool.add(y - m, without(m, axis, pool) + 1)


def without(m: Tensor, axis: int, pool: Pool) -> Tensor:
    """`m` without an axis of size 1: squeezed, or its only element taken."""
    return m.squeeze(axis) if pool.chance(0.5) else m[(*(slice(None),) * axis, 0)]


def extremum_readers(pool: Pool) -> None:
    """A reduction that keeps its axes, read with and without them."""
    x = pool.floats(1)
    axis = pool.axis(x)
    m = pool.pick((x.amax, x.amin, x.sum, x.mean))(axis, keepdims=True)
    readers = (
        x - m,
        without(m, axis, pool) * 2,
        m[None],
        (x * m).sum(axis),
        (x == m).cast(x.dtype),
        m.expand(x.shape).relu(),
    )
    pool.add(*(readers[at] for at in pool.rng.permutation(len(readers))[: pool.integer(2, 3)]))


def masked_mean(pool: Pool) -> None:
    """A mean over the positions that a mask keeps, along any axis."""
    x = pool.floats(1)
    axis = pool.axis(x)
    keep = pool.fresh(*(size if at == axis or pool.chance(0.5) else 1 for at, size in enumerate(x.shape)), dtype="bool")
    kept = tensor.where(keep, x, 0.0)
    count = keep.cast(x.dtype).sum(axis, keepdims=True)
    pool.add((kept.sum(axis, keepdims=True) / count.maximum(1)).expand(x.shape) + x)


def masked_softmax(pool: Pool) -> None:
    """A mask over any axis before a softmax over any axis."""
    x = pool.floats(1)
    axis, other = pool.axis(x), pool.axis(x)
    keep = tensor.iota(x.shape, other, "i32") < pool.integer(1, max(1, x.shape[other]))
    pool.add(nn.softmax(tensor.where(keep, x, pool.pick((-1e4, -math.inf))), axis))


def residual(pool: Pool) -> None:
    x = pool.floats(1)
    y = pool.pick((nn.silu(x), nn.gelu(x), x.tanh(), nn.layer_norm(x), x * x.sigmoid()))
    pool.add(x + y)


def elementwise(pool: Pool) -> None:
    x = pool.floats()
    y = pool.like(x)
    result = pool.pick((x + y, x - y, x * y, x.maximum(y), x * 2 + y, (x + y) * (x - y), tensor.where(x > y, x, y)))
    pool.add(result)


def curve(pool: Pool) -> None:
    """Functions of one value."""
    x = pool.floats()
    result = pool.pick(
        (x.exp(), abs(x).sqrt(), (abs(x) + 1).log(), x.sin(), x.cos(), x.erf(), x.tanh(), x.sigmoid(), -x, x * x * x,
         (abs(x) + 0.5).recip(), (x * x + 1).rsqrt(), (abs(x) + 0.25) ** 1.5, x.exp2(), x / 3, 1 / (x * x + 1))
    )  # fmt: skip
    pool.add(result)


def sum_axes(pool: Pool) -> None:
    x = pool.floats(1)
    pool.add(pool.pick((x.sum, x.amax, x.amin, x.mean))(pool.axes(x), keepdims=pool.chance(0.5)))


def chain_of_norms(pool: Pool) -> None:
    """Norms, masks, shifts and pools in a row, over small axes, some of size 1; of a value or of a constant."""
    shape = [pool.size(1, 8) for _ in range(4)]
    shape[pool.integer(0, 3)] = 1
    x = pool.constant(*shape) if pool.chance(0.5) else pool.fresh(*shape)
    for _ in range(pool.integer(3, 6)):
        x = _linked(x, pool)
    pool.add(x)


def _linked(x: Tensor, pool: Pool) -> Tensor:
    """The next link: a value of four axes, as `x` is."""
    axes = pool.pick((None, (0,), (1,), (2,), (3,), (1, 2, 3), (2, 3)))
    match pool.integer(0, 8):
        case 0:
            return x / (abs(x).sum(axes, keepdims=True) + 1e-3)
        case 1:
            return x - x.mean(axes, keepdims=True)
        case 2:
            centred = x - x.mean(axes, keepdims=True)
            return centred * ((centred * centred).mean(axes, keepdims=True) + 1e-5).rsqrt()
        case 3:
            return nn.layer_norm(x, pool.fresh(x.shape[-1]), pool.fresh(x.shape[-1]))
        case 4:
            return tensor.where(tensor.iota(x.shape, 2) >= tensor.iota(x.shape, 3), x, 0.0)
        case 5:
            return x.pad([(0, 0), (0, 0), (0, 0), (1, 0)])[..., : x.shape[-1]]
        case 6:
            return x.permute(0, 1, 3, 2)
        case 7:
            return nn.avg_pool2d(x, (min(2, x.shape[2]), min(2, x.shape[3])))
        case _:
            return x.sum(axes, keepdims=True) + x


def local_response(pool: Pool) -> None:
    x = pool.floats(2, 4)
    if x.shape[1]:
        pool.add(nn.local_response_norm(x, pool.integer(1, min(3, x.shape[1]))))


NORMS: tuple[Idiom, ...] = (
    layer_norm, layer_norm, rms_norm, group_norm, batch_norm, own_norm, own_norm, softmax, softmax,
    softmax_of_constants, known_by_the_rules, log_sum_exp, temperature, centre, centre_pooled, scan, scan_and_extremum,
    extremum_readers, masked_mean, masked_softmax, residual, elementwise, elementwise, curve, curve, sum_axes,
    local_response, chain_of_norms, chain_of_norms,
)  # fmt: skip
