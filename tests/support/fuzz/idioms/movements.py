"""Idioms that move elements: flips, steps, repeats, zero insertion, windows, masks by position, round trips."""

from __future__ import annotations

import math

from eqsat import tensor
from eqsat.tensor import Tensor
from tests.support.fuzz.idioms.pool import Idiom, Pool


def reversed_axes(x: Tensor, pool: Pool) -> Tensor:
    """`x` backwards along some axes, by FLIP or by a negative step, which may skip elements."""
    if pool.chance(0.4):
        return x.flip(pool.axes(x))
    steps = tuple(slice(None, None, pool.pick((1, -1, -1, -2, -3, 2))) for _ in x.shape)
    return x[steps]


def repeated(x: Tensor, axis: int, times: int) -> Tensor:
    """numpy.repeat: every element `times` times along `axis`."""
    shape = x.shape
    wide = x.unsqueeze(axis + 1).expand(*shape[: axis + 1], times, *shape[axis + 1 :])
    return wide.reshape(*shape[:axis], shape[axis] * times, *shape[axis + 1 :])


def tiled(x: Tensor, axis: int, times: int) -> Tensor:
    """numpy.tile: the axis `times` times over."""
    shape = x.shape
    wide = x.unsqueeze(axis).expand(*shape[:axis], times, *shape[axis:])
    return wide.reshape(*shape[:axis], shape[axis] * times, *shape[axis + 1 :])


def dilated(x: Tensor, axis: int, step: int) -> Tensor:
    """Zeros between neighbours along `axis`: their distance becomes `step`."""
    shape = x.shape
    if not shape[axis]:
        return x
    widths = [(0, 0)] * (x.ndim + 1)
    widths[axis + 1] = (0, step - 1)
    spread = x.unsqueeze(axis + 1).pad(widths).reshape(*shape[:axis], shape[axis] * step, *shape[axis + 1 :])
    lo, hi = [0] * x.ndim, list(spread.shape)
    hi[axis] -= step - 1
    return spread.shrink(lo, hi)


def resampled(x: Tensor, axis: int, up: int, down: int) -> Tensor:
    """The nearest element: result i is element (i·down)//up."""
    size = x.shape[axis] * up // down
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    index = [f"({down}*i{k})//{up}" if k == axis else f"i{k}" for k in range(x.ndim)]
    return Tensor("VIEW", [x], {"result_shape": shape, "index_map": index})


def enlarged(x: Tensor, axis: int, pool: Pool) -> Tensor:
    """Some kind of a longer axis."""
    times = pool.integer(2, 3)
    match pool.integer(0, 3):
        case 0:
            return repeated(x, axis, times)
        case 1:
            return tiled(x, axis, times)
        case 2:
            return dilated(x, axis, times)
        case _:
            up = pool.integer(2, 5)
            return resampled(x, axis, up, pool.integer(1, up))


def padded(x: Tensor, pool: Pool, value: float | None = None) -> Tensor:
    """A few elements around some axes."""
    widths = [(pool.integer(0, 2), pool.integer(0, 2)) if pool.chance(0.6) else (0, 0) for _ in x.shape]
    if value is None:
        value = pool.pick((0, 0, 0, 1, -1, -math.inf)) if x.dtype.is_float else pool.pick((0, 1))
    return x.pad(widths, value)


def shifted(x: Tensor, axis: int, by: int) -> Tensor:
    """The elements `by` places later (earlier if negative), zeros behind them."""
    widths = [(0, 0)] * x.ndim
    widths[axis] = (max(by, 0), max(-by, 0))
    lo, hi = [0] * x.ndim, list(x.shape)
    lo[axis], hi[axis] = max(-by, 0), x.shape[axis] + max(-by, 0)
    return x.pad(widths).shrink(lo, hi)


def rolled(x: Tensor, axis: int, by: int) -> Tensor:
    """numpy.roll"""
    if not x.shape[axis]:
        return x
    by %= x.shape[axis]
    cut = x.shape[axis] - by
    front = (slice(None),) * axis
    return tensor.concatenate([x[(*front, slice(cut, None))], x[(*front, slice(None, cut))]], axis)


def windows(x: Tensor, kernel: int, stride: int = 1, dilation: int = 1) -> Tensor:
    """Windows over the last axis, as a new last axis."""
    return Tensor("POOL", [x], {"kernel": (kernel,), "stride": (stride,), "dilation": (dilation,)})


def triangle(shape: tuple[int, ...], rows: int, columns: int, offset: int = 0) -> Tensor:
    """True where the position along `columns` is at most that along `rows`, plus `offset`."""
    return tensor.iota(shape, columns, "i32") <= tensor.iota(shape, rows, "i32") + offset


def flip(pool: Pool) -> None:
    pool.add(reversed_axes(pool.floats(1), pool))


def step(pool: Pool) -> None:
    x = pool.floats(1)
    low = [pool.integer(0, min(size, 3)) for size in x.shape]
    pool.add(x[tuple(slice(at, None, pool.integer(1, 3)) for at in low)])


def enlarge(pool: Pool) -> None:
    x = pool.floats(1, 3)
    pool.add(enlarged(x, pool.axis(x), pool))


def pad(pool: Pool) -> None:
    pool.add(padded(pool.floats(1), pool))


def shift(pool: Pool) -> None:
    """Differences of neighbours, and their sum."""
    x = pool.floats(1)
    axis = pool.axis(x)
    other = shifted(x, axis, pool.integer(-2, 2))
    pool.add(pool.pick((other, x - other, x + other, x * other)))


def roll(pool: Pool) -> None:
    x = pool.floats(1, 3)
    axis = pool.axis(x)
    pool.add(x + rolled(x, axis, pool.integer(1, 5)) if pool.chance(0.5) else rolled(x, axis, 1))


def permute(pool: Pool) -> None:
    x = pool.floats(2)
    order = list(range(x.ndim))
    pool.rng.shuffle(order)
    pool.add(x.permute(order))


def round_trip(pool: Pool) -> None:
    """A reshape or a new axis, some op, and back."""
    x = pool.floats(1)
    axis = pool.integer(0, x.ndim)
    inner = x.unsqueeze(axis)
    again = (inner * 2 if pool.chance(0.5) else inner.relu()).squeeze(axis)
    flat = again.flatten() + 1 if pool.chance(0.5) else again.flatten()
    pool.add(flat.reshape(x.shape))


def concatenate(pool: Pool) -> None:
    x = pool.floats(1, 3)
    axis = pool.axis(x)
    parts = [x, pool.like(x).expand(x.shape), reversed_axes_of(x, axis)][: pool.integer(2, 3)]
    pool.add(tensor.concatenate(parts, axis))


def reversed_axes_of(x: Tensor, axis: int) -> Tensor:
    return x.flip(axis)


def sliding(pool: Pool) -> None:
    """A reduction of each window of the last axis: a moving average, a pooled maximum."""
    x = pool.floats(1, 3)
    if not x.shape[-1]:
        return
    if pool.chance(0.5):
        x = x.pad([(0, 0)] * (x.ndim - 1) + [(pool.integer(0, 2), pool.integer(0, 2))])
    kernel = pool.integer(1, min(4, x.shape[-1]))
    dilation = 2 if 2 * (kernel - 1) < x.shape[-1] and pool.chance(0.3) else 1
    seen = windows(x, kernel, pool.integer(1, 3), dilation)
    pool.add(pool.pick((seen.sum(-1), seen.max(axis=-1), seen.mean(-1), seen.min(axis=-1) + 1, seen)))


def triangular(pool: Pool) -> None:
    """A mask by the positions along any two axes."""
    x = pool.floats(2)
    rows, columns = pool.rng.permutation(x.ndim)[:2].tolist()
    hidden = pool.pick((0.0, 0.0, 1.0, -math.inf))
    masked = tensor.where(triangle(x.shape, rows, columns, pool.integer(-1, 1)), x, hidden)
    pool.add(pool.pick((masked, masked.sum(columns), masked.max(axis=rows))))


def diagonal(pool: Pool) -> None:
    x = pool.floats(2, 3)
    size = min(x.shape[-2:])
    lead = [f"i{axis}" for axis in range(x.ndim - 2)]
    last = f"i{x.ndim - 2}"
    pool.add(Tensor("VIEW", [x], {"result_shape": (*x.shape[:-2], size), "index_map": [*lead, last, last]}))


def blocks(pool: Pool) -> None:
    """Space to depth: an axis split in two, and the parts exchanged."""
    x = pool.floats(1, 3)
    even = [axis for axis, size in enumerate(x.shape) if size % 2 == 0]
    if not even:
        return
    axis = pool.pick(even)
    split = x.reshape(*x.shape[:axis], x.shape[axis] // 2, 2, *x.shape[axis + 1 :])
    pool.add(split.swapaxes(axis, axis + 1).reshape(x.shape) if pool.chance(0.5) else split.sum(axis + 1))


MOVEMENTS: tuple[Idiom, ...] = (
    flip, flip, step, enlarge, enlarge, pad, shift, shift, roll, permute, round_trip, concatenate, sliding, sliding,
    triangular, triangular, diagonal, blocks,
)  # fmt: skip
