"""Updates of a tensor at computed positions along one axis."""

from __future__ import annotations

from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import STAGE, Number, axis_in
from eqsat.tensor import Tensor, constant
from ir.diagnostics import Kind, fail

_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


def _scatter(x: Tensor, axis: int, index: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    """The updates beyond the shape of the index count for nothing."""
    if not x.ndim:
        flat = _scatter(x.reshape(1), 0, index.reshape(-1), updates.reshape(-1), reduction)
        return flat.reshape(())
    used = updates.cast(x.dtype)[tuple(slice(0, size) for size in index.shape)]
    return x.scatter(axis_in(axis, x.shape), index, used, reduction)


@aten("scatter.src")
def _scatter_tensor(x: Tensor, axis: int, index: Tensor, updates: Tensor) -> Tensor:
    return _scatter(x, axis, index, updates)


@aten("scatter.value")
def _scatter_number(x: Tensor, axis: int, index: Tensor, value: Number) -> Tensor:
    return _scatter(x, axis, index, constant(value).cast(x.dtype).expand(index.shape))


@aten("scatter_add")
def _scatter_add(x: Tensor, axis: int, index: Tensor, updates: Tensor) -> Tensor:
    return _scatter(x, axis, index, updates, "add")


@aten("scatter.reduce")
def _scatter_reduce_tensor(x: Tensor, axis: int, index: Tensor, updates: Tensor, *, reduce: str) -> Tensor:
    return _scatter(x, axis, index, updates, _REDUCTIONS[reduce])


@aten("scatter_reduce.two")
def _scatter_reduce(
    x: Tensor, axis: int, index: Tensor, updates: Tensor, reduction: str, *, include_self: bool = True
) -> Tensor:
    """include_self: whether the elements of x are among what is combined."""
    if reduction not in _REDUCTIONS:
        fail(Kind.UNSUPPORTED_OP, STAGE, f"the reduction {reduction!r} is not supported", op="scatter_reduce")
    start = x
    if not include_self:
        identity = {"sum": 0, "prod": 1, "amax": x.dtype.lowest, "amin": x.dtype.highest}[reduction]
        start = _scatter_number(x, axis, index, identity)
    return _scatter(start, axis, index, updates, _REDUCTIONS[reduction])


@aten("index_add")
def _index_add(x: Tensor, axis: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """Slices of the source, times alpha, are added to the slices of x at the positions in the index."""
    scaled = source if alpha == 1 else source * alpha
    if not x.ndim:
        return x + scaled.reshape(-1).sum(0, dtype=x.dtype)
    place = axis_in(axis, x.shape)
    wide = index.reshape(*(1,) * place, index.size, *(1,) * (x.ndim - place - 1)).expand(source.shape)
    return x.scatter(place, wide, scaled, "add")


@aten("index_copy")
def _index_copy(x: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor:
    if not x.ndim:
        return source.reshape(())
    place = axis_in(axis, x.shape)
    wide = index.reshape(*(1,) * place, index.size, *(1,) * (x.ndim - place - 1)).expand(source.shape)
    return x.scatter(place, wide, source)
