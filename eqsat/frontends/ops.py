"""The ops of Frontend IR, one function each, in terms of lazy tensors.

Positional parameters are the op's inputs; those with a default may be left out. Keywords are its attributes;
`eqsat.frontends.frontend_to_tiny` checks a node against their annotations. `fn` selects one of an op's functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from eqsat import nn, tensor
from eqsat.frontends.unpacking import unpack
from eqsat.frontends.windows import Padding, Pair
from eqsat.lazy.argument_checks import axis_in
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.tensor import Tensor, extremum_position
from ir.diagnostics import Kind, fail
from ir.dtype import dtype, promote, u8
from ir.frontend import STAGE
from ir.grammar import with_count
from ir.uop.table import FUNCTIONS, UOPS

Lowering = Callable[..., Tensor]
OPS: dict[str, Lowering] = {}

_REDUCTIONS = ("sum", "max", "min", "prod", "mean")
_ACTIVATIONS = {"silu": nn.silu, "gelu": nn.gelu}
_FUNCTIONS = {fn: uop.name for fn, uop in FUNCTIONS.items() if uop.name in UOPS} | {"div": "FDIV"}
"""The elementwise functions: the uops without attributes, and CAST."""


def supported_ops() -> list[str]:
    """The names of all ops with a lowering."""
    return sorted(OPS)


def op(name: str) -> Callable[[Lowering], Lowering]:
    """Registers the lowering of an op."""

    def register(lowering: Lowering) -> Lowering:
        OPS[name] = lowering
        return lowering

    return register


@op("GEMM")
def _gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    alpha: float = 1.0,
    beta: float = 1.0,
    acc_dtype: str | None = None,
) -> Tensor:
    """alpha · op(A) · op(B) + beta · C, rounded to A's dtype. acc_dtype must be the accumulator of A's dtype."""
    if acc_dtype is not None and dtype(acc_dtype) != a.dtype.accumulator:
        fail(Kind.UNSUPPORTED_OP, STAGE, f"a product of {a.dtype} sums in {a.dtype.accumulator}, not in {acc_dtype}")
    product = (a.T if trans_a else a) @ (b.T if trans_b else b)
    if alpha != 1:
        product = product * alpha
    if c is None:
        return product
    return product + (c if beta == 1 else c * beta)


@op("MatMul")
def _matmul(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


@op("Conv")
def _conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Pair = 1,
    pad: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Tensor:
    """x [N, Cin, …] with weight [Cout, Cin / groups, …]."""
    return nn.conv(x, weight, bias, stride=stride, padding=pad, dilation=dilation, groups=groups)


@op("BatchNorm")
def _batch_norm(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *, eps: float = 1e-5) -> Tensor:
    """In the dtype of x; the statistics may have another."""
    return nn.batch_norm(x, mean=mean, var=var, weight=scale, bias=bias, eps=eps).cast(x.dtype)


@op("LayerNorm")
def _layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, axis: int = -1, eps: float = 1e-5
) -> Tensor:
    """Over the axes from `axis` on."""
    over = x.shape[axis_in(axis, x.shape) :]
    scale, shift = (None if row is None else row.expand(over) for row in (weight, bias))
    return nn.layer_norm(x, scale, shift, eps, len(over))


@op("LRN")
def _local_response_norm(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    return nn.local_response_norm(x, size, alpha, beta, bias, before=(size - 1) // 2)


@op("Attention")
def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
    """q, k, v [B, H, M, D]. mask: floats are added to the scores; False hides a position."""
    return nn.attention(q, k, v, mask, causal)


@op("Softmax")
def _softmax(x: Tensor, *, axis: int = -1, flatten: bool = False) -> Tensor:
    """Along `axis`; with `flatten`, over all axes from `axis` on, as if they were one."""
    first = axis_in(axis, x.shape)
    return nn.softmax(x, tuple(range(first, x.ndim)) if flatten else first)


@op("Elementwise")
def _elementwise(x: Tensor, *others: Tensor, fn: str, to: str | None = None) -> Tensor:
    """`fn` is a uop in lower case, div, trunc_div, silu or gelu; associative ones take any number of operands. `to` is
    the dtype of cast."""
    operands = (x, *others)
    if fn == "trunc_div":
        _require_operands(fn, operands, 2)
        return divide_to_zero(*operands)
    if fn in _ACTIVATIONS:
        _require_operands(fn, operands, 1)
        return _ACTIVATIONS[fn](x)
    if fn not in _FUNCTIONS:
        known = sorted({*_FUNCTIONS, *_ACTIVATIONS, "trunc_div"})
        fail(Kind.UNSUPPORTED_OP, STAGE, f"no elementwise function {fn!r}", supported=known)
    uop = _FUNCTIONS[fn]
    if uop == "CAST" and to is not None:
        _require_operands(fn, operands, 1)
        return x.cast(to)
    if to is not None or uop == "CAST":
        fail(Kind.MALFORMED_GRAPH, STAGE, "the attribute 'to' goes with the function cast")
    if fn in ("add", "mul", "max", "min", "and", "or", "xor"):
        return _apply_pairwise(uop, operands)
    _require_operands(fn, operands, UOPS[uop].arity)
    if uop == "WHERE":
        return tensor.where(*operands)
    return _binary(uop, *operands) if UOPS[uop].arity == 2 else Tensor(uop, operands)


@op("Reduce")
def _reduce(x: Tensor, *, fn: str, axes: Pair | None = None, keepdims: bool = False) -> Tensor:
    """`fn` is sum, max, min, prod or mean; without `axes`, over all axes."""
    if fn not in _REDUCTIONS:
        fail(Kind.UNSUPPORTED_OP, STAGE, f"no reduction {fn!r}", supported=list(_REDUCTIONS))
    result: Tensor = getattr(x, fn)(axes, keepdims)
    return result


@op("ArgReduce")
def _arg_reduce(
    x: Tensor, *, fn: Literal["max", "min"], axis: int = 0, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """The position of the extremum along `axis`, i64; of equal ones the first, or the last if asked."""
    return extremum_position(x, fn, axis, keepdims, select_last_index)


@op("Pool")
def _pool(
    x: Tensor,
    *,
    fn: Literal["max", "avg"],
    kernel: Pair,
    stride: Pair | None = None,
    pad: Padding = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Tensor:
    """Windows of [N, C, …]. Only the average has `count_include_pad`: it counts `pad`, but not the elements that
    `ceil_mode` reads beyond `pad`."""
    if fn == "max":
        maxima: Tensor = nn.max_pool(x, kernel, stride, pad, dilation, ceil_mode)
        return maxima
    return nn.avg_pool(x, kernel, stride, pad, ceil_mode, count_include_pad, dilation=dilation)


@op("GlobalPool")
def _global_pool(x: Tensor, *, fn: Literal["max", "avg"]) -> Tensor:
    """Over all axes but the first two; the others remain with size 1."""
    over = tuple(range(2, x.ndim))
    return x.max(over, keepdims=True) if fn == "max" else x.mean(over, keepdims=True)


@op("Reshape")
def reshape(x: Tensor, *, shape: tuple[int, ...], allow_zero: bool = False) -> Tensor:
    """`shape` may hold one -1; a 0 keeps the size of the axis, unless `allow_zero`."""
    return x.reshape([x.shape[place] if size == 0 and not allow_zero else size for place, size in enumerate(shape)])


@op("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """To rank 2: the axes before `axis`, and the others."""
    first = x.ndim if axis == x.ndim else axis_in(axis, x.shape)
    return x.reshape(math.prod(x.shape[:first]), math.prod(x.shape[first:]))


@op("Squeeze")
def squeeze(x: Tensor, *, axes: Pair | None = None) -> Tensor:
    return x.squeeze(axes)


@op("Unsqueeze")
def unsqueeze(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """`axes` are the positions in the result of the new axes of size 1."""
    rank = x.ndim + len(axes)
    places = {axis + rank if axis < 0 else axis for axis in axes}
    if len(places) != len(axes) or not places <= set(range(rank)):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"axes {list(axes)} are no places of a result of rank {rank}")
    sizes = iter(x.shape)
    return x.reshape([1 if place in places else next(sizes) for place in range(rank)])


@op("Transpose")
def _transpose(x: Tensor, *, perm: tuple[int, ...] = ()) -> Tensor:
    """Without `perm`, the axes are reversed."""
    return x.permute(*perm) if perm else x.T


@op("Concat")
def _concat(x: Tensor, *others: Tensor, axis: int) -> Tensor:
    return tensor.concatenate((x, *others), axis)


@op("Cast")
def _cast(x: Tensor, *, to: str) -> Tensor:
    return x.cast(to)


@op("Unpack")
def _unpack(x: Tensor, *, bits: Literal[2, 4], shape: tuple[int, ...], signed: bool = False) -> Tensor:
    """The integers of `bits` bits that the bytes x hold in row-major order, the low bits of a byte first, as u8 or i8.
    Bits after the last integer are left over."""
    count = math.prod(shape)
    if x.dtype != u8 or x.shape != (-(-count * bits // 8),):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{count} integers of {bits} bits in {x.type}", op="Unpack")
    return unpack(x, bits, signed)[:count].reshape(shape)


@op("Identity")
def _identity(x: Tensor) -> Tensor:
    return x


def divide_to_zero(a: Tensor, b: Tensor) -> Tensor:
    """a / b; an integer quotient is rounded to zero, while IDIV rounds down."""
    if a.dtype.is_float:
        return _binary("FDIV", a, b)
    below = _binary("IDIV", a, b)
    rounded = ((a - below * b) != 0) & ((a < 0) != (b < 0))
    return _binary("ADD", below, rounded)


def _apply_pairwise(uop: str, operands: tuple[Tensor, ...]) -> Tensor:
    result = operands[0]
    for operand in operands[1:]:
        result = _binary(uop, result, operand)
    return result


def _binary(uop: str, a: Tensor, b: Tensor) -> Tensor:
    """The uop on operands that broadcast. Two dtypes meet in the promoted one; else floats win over integers, integers
    over bool, then the wider dtype."""
    wider = max(a.dtype, b.dtype, key=lambda element: (element.is_float, element.is_int, element.bits))
    element = promote(a.dtype, b.dtype) or wider
    shape = broadcast_shape(uop, a.shape, b.shape)
    return Tensor(uop, [operand.cast(element).expand(shape) for operand in (a, b)])


def _require_operands(fn: str, operands: tuple[Tensor, ...], wanted: int) -> None:
    if len(operands) != wanted:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{fn} takes {with_count(wanted, 'operand')}, not {len(operands)}")
