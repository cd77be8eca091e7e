"""NumPy's functions on lazy tensors: `np.exp(x)` and `np.sum(x, axis=1)` build uops; other functions are refused."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from eqsat.lazy.argument_checks import STAGE, Axis, pair
from eqsat.lazy.promotion import UOP_OF
from ir.diagnostics import Kind, fail

Tensor = Any
"""`eqsat.tensor.Tensor`, whose file imports this one."""


class TensorFunctions(NamedTuple):
    """The functions of `eqsat.tensor` that NumPy functions are built from, besides the methods of tensors."""

    as_tensor: Callable[[Any], Tensor]
    elementwise: Callable[..., Tensor]
    where: Callable[[Any, Any, Any], Tensor]
    concatenate: Callable[[Sequence[Any], int], Tensor]
    stack: Callable[[Sequence[Any], int], Tensor]
    full: Callable[..., Tensor]
    einsum: Callable[..., Tensor]


def call_ufunc(
    t: TensorFunctions, ufunc: np.ufunc, method: str, inputs: Sequence[Any], keywords: Mapping[str, Any]
) -> Tensor:
    """The value of `ufunc(*inputs)`. Raises EqsatError, UnsupportedOp, for other functions, methods and keywords."""
    name = f"np.{ufunc.__name__}"
    if method != "__call__":
        _fail_unsupported(f"{name}.{method}")
    if keywords:
        _fail_unsupported(f"{name} with {', '.join(keywords)}=")
    if ufunc in _COMPOSED:
        return _COMPOSED[ufunc](*map(t.as_tensor, inputs))
    if ufunc not in UOP_OF:
        _fail_unsupported(name)
    return t.elementwise(UOP_OF[ufunc], *inputs, like=ufunc)


def call_function(
    t: TensorFunctions, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> Any:
    """The value of `function(*args, **keywords)`. Raises EqsatError, UnsupportedOp, for others."""
    name = f"np.{getattr(function, '__name__', function)}"
    if function not in _FUNCTIONS:
        _fail_unsupported(name)
    ours = partial(_FUNCTIONS[function], t)
    try:
        inspect.signature(ours).bind(*args, **keywords)
    except TypeError as error:
        _fail_unsupported(name, f"takes {inspect.signature(ours)}: {error}")
    return ours(*args, **keywords)


def _fail_unsupported(what: str, why: str = "is not defined for lazy tensors") -> NoReturn:
    fail(Kind.UNSUPPORTED_OP, STAGE, f"{what} {why}", hint="write it in the methods of eqsat.tensor.Tensor")


def _logical(join: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *operands: join(*(operand.cast("bool") for operand in operands))


def _reduction(name: str) -> Callable[..., Tensor]:
    def reduce(t: TensorFunctions, a: Any, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        return getattr(t.as_tensor(a), name)(axis, keepdims)

    return reduce


def _reduction_with_dtype(name: str) -> Callable[..., Tensor]:
    def reduce(t: TensorFunctions, a: Any, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Tensor:
        return getattr(t.as_tensor(a), name)(axis, keepdims, dtype)

    return reduce


def _spread(name: str) -> Callable[..., Tensor]:
    def reduce(t: TensorFunctions, a: Any, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> Tensor:
        return getattr(t.as_tensor(a), name)(axis=axis, keepdims=keepdims, correction=ddof)

    return reduce


def _pad(t: TensorFunctions, array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Tensor:
    if mode != "constant":
        _fail_unsupported(f"np.pad with mode={mode!r}")
    x = t.as_tensor(array)
    many = isinstance(pad_width, list | tuple) and any(isinstance(width, list | tuple) for width in pad_width)
    return x.pad(pad_width if many else [pair(pad_width, "pad_width")] * x.ndim, constant_values)


def _take(t: TensorFunctions, a: Any, indices: Any, axis: int | None = None) -> Tensor:
    return t.as_tensor(a).take(indices, axis)


def _dot(t: TensorFunctions, a: Any, b: Any) -> Tensor:
    x, y = t.as_tensor(a), t.as_tensor(b)
    return x.dot(y) if x.ndim and y.ndim else x * y


def _clip(t: TensorFunctions, a: Any, a_min: Any = None, a_max: Any = None) -> Tensor:
    return t.as_tensor(a).clip(a_min, a_max)


_COMPOSED: Mapping[np.ufunc, Callable[..., Tensor]] = {
    np.matmul: lambda a, b: a @ b,
    np.square: lambda x: x * x,
    np.isnan: lambda x: x.isnan(),
    np.isinf: lambda x: x.isinf(),
    np.isfinite: lambda x: x.isfinite(),
    np.sign: lambda x: x.sign(),
    np.trunc: lambda x: x.trunc(),
    np.logical_and: _logical(operator.and_),
    np.logical_or: _logical(operator.or_),
    np.logical_xor: _logical(operator.xor),
    np.logical_not: _logical(operator.invert),
}
_FUNCTIONS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    np.sum: _reduction_with_dtype("sum"),
    np.prod: _reduction_with_dtype("prod"),
    np.max: _reduction("amax"),
    np.min: _reduction("amin"),
    np.amax: _reduction("amax"),
    np.amin: _reduction("amin"),
    np.any: _reduction("any"),
    np.all: _reduction("all"),
    np.count_nonzero: _reduction("count_nonzero"),
    np.argmax: _reduction("argmax"),
    np.argmin: _reduction("argmin"),
    np.mean: _reduction("mean"),
    np.var: _spread("var"),
    np.std: _spread("std"),
    np.cumsum: lambda t, a, axis=None: t.as_tensor(a).cumsum(axis),
    np.cumprod: lambda t, a, axis=None: t.as_tensor(a).cumprod(axis),
    np.shape: lambda t, a: a.shape,
    np.ndim: lambda t, a: a.ndim,
    np.size: lambda t, a: a.size,
    np.reshape: lambda t, a, shape: a.reshape(shape),
    np.ravel: lambda t, a: a.flatten(),
    np.transpose: lambda t, a, axes=None: a.T if axes is None else a.permute(axes),
    np.swapaxes: lambda t, a, axis1, axis2: a.swapaxes(axis1, axis2),
    np.squeeze: lambda t, a, axis=None: a.squeeze(axis),
    np.expand_dims: lambda t, a, axis: a.unsqueeze(axis),
    np.broadcast_to: lambda t, array, shape: array.expand(shape),
    np.flip: lambda t, m, axis=None: m.flip(axis),
    np.roll: lambda t, a, shift, axis=None: a.roll(shift, axis),
    np.tile: lambda t, A, reps: t.as_tensor(A).tile(reps),  # noqa: N803 - NumPy's name
    np.repeat: lambda t, a, repeats, axis=None: a.repeat_interleave(repeats, axis),
    np.split: lambda t, ary, indices_or_sections, axis=0: ary.split(indices_or_sections, axis=axis),
    np.moveaxis: lambda t, a, source, destination: a.moveaxis(source, destination),
    np.diff: lambda t, a, n=1, axis=-1: a.diff(n, axis),
    np.tril: lambda t, m, k=0: m.tril(k),
    np.triu: lambda t, m, k=0: m.triu(k),
    np.sort: lambda t, a, axis=-1: a.flatten().sort(axis=0) if axis is None else a.sort(axis=axis),
    np.argsort: lambda t, a, axis=-1: a.flatten().argsort(0) if axis is None else a.argsort(axis),
    np.take_along_axis: lambda t, arr, indices, axis=-1: t.as_tensor(arr).take_along_dim(indices, axis),
    np.einsum: lambda t, subscripts, *operands: t.einsum(subscripts, *operands),
    np.outer: lambda t, a, b: t.as_tensor(a).flatten().outer(t.as_tensor(b).flatten()),
    np.pad: _pad,
    np.where: lambda t, condition, x, y: t.where(condition, x, y),
    np.concatenate: lambda t, arrays, axis=0: t.concatenate(arrays, axis),
    np.stack: lambda t, arrays, axis=0: t.stack(arrays, axis),
    np.take: _take,
    np.dot: _dot,
    np.clip: _clip,
    np.round: lambda t, a: a.round(),
    np.zeros_like: lambda t, a, dtype=None: t.full(a.shape, 0, dtype or a.dtype),
    np.ones_like: lambda t, a, dtype=None: t.full(a.shape, 1, dtype or a.dtype),
    np.full_like: lambda t, a, fill_value, dtype=None: t.full(a.shape, fill_value, dtype or a.dtype),
}
