"""Lazy tensors: NumPy's habits in Python, Tiny IR underneath.

    x = tensor.input("x", (4, 3))
    w = tensor.constant(numpy_array)
    program = optimize_and_compile((x @ w).relu())

Every method adds uops and computes nothing; `eqsat.tensor_to_tiny` makes the graph. Operands broadcast, and numbers
take the dtype of the tensor beside them. Two tensors of different dtypes meet in the wider float, an integer or bool
tensor takes the other's dtype.
"""

from __future__ import annotations

import builtins
import math
import operator
import typing
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NoReturn

import numpy as np

from eqsat import indexing
from eqsat.operators import Operators
from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import DType, TensorType, dtype, i64, promote
from ir.uop import UOPS

STAGE = "tensor"

Number = bool | int | float
Axis = int | Sequence[int] | None
Key = int | slice | EllipsisType | None


class Tensor(Operators):
    """The result of one uop that is still to be computed. Shapes are known; errors name them."""

    __slots__ = ("arg", "array", "src", "type", "uop")
    __array_priority__ = 1000  # numpy_array + tensor asks the tensor

    def __init__(
        self,
        uop: str,
        src: Sequence[Tensor | Number] = (),
        arg: dict[str, Any] | None = None,
        array: np.ndarray | None = None,
    ) -> None:
        self.uop, self.src, self.arg, self.array = uop, tuple(src), arg or {}, array
        self.type = _infer(self)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def ndim(self) -> int:
        return self.type.rank

    @property
    def size(self) -> int:
        return self.type.size

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"Tensor({self.type}, by {self.uop})"

    def __bool__(self) -> bool:
        raise TypeError("a lazy tensor has no truth value; use where(condition, a, b)")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor of rank 0 has no length")
        return self.shape[0]

    # movement

    def reshape(self, *shape: Any) -> Tensor:
        """Row-major; one size may be -1."""
        wanted = _sizes(shape)
        if -1 in wanted:
            known = math.prod(size for size in wanted if size != -1)
            if wanted.count(-1) > 1 or known == 0 or self.size % known:
                _refuse(Kind.AXIS_SIZE_MISMATCH, "RESHAPE", "-1 has no one meaning", self.shape, wanted)
            wanted = tuple(self.size // known if size == -1 else size for size in wanted)
        return self if wanted == self.shape else Tensor("RESHAPE", [self], {"result_shape": wanted})

    def permute(self, *axes: Any) -> Tensor:
        order = tuple(axis_of(axis, self) for axis in _sizes(axes))
        return self if order == tuple(range(self.ndim)) else Tensor("PERMUTE", [self], {"perm": order})

    def transpose(self, *axes: Any) -> Tensor:
        """NumPy's: without axes the order is reversed."""
        return self.permute(*(axes or reversed(range(self.ndim))))

    def swapaxes(self, a: int, b: int) -> Tensor:
        order = list(range(self.ndim))
        a, b = axis_of(a, self), axis_of(b, self)
        order[a], order[b] = order[b], order[a]
        return self.permute(*order)

    @property
    def T(self) -> Tensor:  # noqa: N802 - NumPy's name
        return self.transpose()

    def expand(self, *shape: Any) -> Tensor:
        """Broadcast to `shape` (right-aligned); -1 keeps a size."""
        wanted = _sizes(shape)
        lead = len(wanted) - self.ndim
        if lead < 0:
            _refuse(Kind.BROADCAST_MISMATCH, "EXPAND", "cannot drop axes", self.shape, wanted)
        aligned = self.reshape((1,) * lead + self.shape)
        wanted = tuple(have if want == -1 else want for want, have in zip(wanted, aligned.shape, strict=True))
        return aligned if wanted == aligned.shape else Tensor("EXPAND", [aligned], {"result_shape": wanted})

    def pad(self, widths: Sequence[Sequence[int]], value: Number = 0) -> Tensor:
        """`widths` is one (before, after) per axis, in elements."""
        pairs = tuple((int(before), int(after)) for before, after in widths)
        if all(pair == (0, 0) for pair in pairs) and len(pairs) == self.ndim:
            return self
        return Tensor("PAD", [self], {"pad": pairs, "value": value})

    def flip(self, axis: Axis = None) -> Tensor:
        axes = _axes(axis, self)
        return Tensor("FLIP", [self], {"axes": axes}) if axes else self

    def shrink(self, lo: Sequence[int], hi: Sequence[int], step: Sequence[int] | None = None) -> Tensor:
        """Per axis the elements lo, lo + step, … below hi."""
        arg = {"lo": tuple(lo), "hi": tuple(hi)} | ({"step": tuple(step)} if step else {})
        return Tensor("SHRINK", [self], arg)

    def __getitem__(self, key: Key | tuple[Key, ...]) -> Tensor:
        """NumPy's basic indexing: integers, slices with any step, `...` and None."""
        return indexing.basic(self, key if isinstance(key, tuple) else (key,))

    def squeeze(self, axis: Axis = None) -> Tensor:
        ones = tuple(position for position, size in enumerate(self.shape) if size == 1)
        drop = ones if axis is None else _axes(axis, self)
        return self.reshape([size for position, size in enumerate(self.shape) if position not in drop])

    def unsqueeze(self, axis: int) -> Tensor:
        """A new axis of size 1, which is axis `axis` of the result."""
        if not -self.ndim <= axis + 1 <= self.ndim + 1:
            _refuse(Kind.MALFORMED_GRAPH, "unsqueeze", f"axis {axis} is no place for a new axis", self.shape)
        place = axis % (self.ndim + 1)
        return self.reshape(*self.shape[:place], 1, *self.shape[place:])

    def flatten(self, start: int = 0, end: int = -1) -> Tensor:
        """The axes from `start` to `end`, both inclusive, as one."""
        if not self.shape:
            return self.reshape(1)
        first, last = axis_of(start, self), axis_of(end, self)
        fused = math.prod(self.shape[first : last + 1])
        return self.reshape((*self.shape[:first], fused, *self.shape[last + 1 :]))

    # elementwise: the rest is in Operators

    def cast(self, to: str | DType) -> Tensor:
        return self if self.dtype == dtype(to) else Tensor("CAST", [self], {"to": str(dtype(to))})

    astype = cast

    @staticmethod
    def _apply(uop: str, *operands: Any) -> Tensor:
        return binary(uop, *operands) if UOPS[uop].arity == 2 else Tensor(uop, operands)

    # reductions

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Integers and bool add up in i64, as NumPy does; fp16 and bf16 in fp32, then rounded."""
        wide = self.dtype.accumulator if self.dtype.is_float else i64
        total = self._reduce("SUM", axis, keepdims, wide)
        return total.cast(self.dtype) if self.dtype.is_float else total

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return self._reduce("MAX", axis, keepdims, self.dtype)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return self._reduce("MIN", axis, keepdims, self.dtype)

    def prod(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        wide = self.dtype.accumulator if self.dtype.is_float else i64
        total = self._reduce("PROD", axis, keepdims, wide)
        return total.cast(self.dtype) if self.dtype.is_float else total

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """fp16 and bf16 are summed and divided in fp32, then rounded; integers give fp32."""
        floats = self if self.dtype.is_float else self.cast("fp32")
        wide = floats.cast(floats.dtype.accumulator)
        count = math.prod(self.shape[position] for position in _axes(axis, self))
        return (wide.sum(axis, keepdims) * (1.0 / count if count else math.nan)).cast(floats.dtype)

    def var(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The mean squared distance from the mean (NumPy's ddof=0)."""
        centred = self - self.mean(axis, keepdims=True)
        return (centred * centred).mean(axis, keepdims)

    def cumsum(self, axis: int) -> Tensor:
        wide = self.dtype.accumulator if self.dtype.is_float else i64
        total = Tensor("CUMSUM", [self], {"axis": axis_of(axis, self), "dtype": str(wide)})
        return total.cast(self.dtype) if self.dtype.is_float else total

    def _reduce(self, op: str, axis: Axis, keepdims: bool, to: DType) -> Tensor:
        axes = _axes(axis, self)
        if not axes:
            return self.cast(to)
        result = Tensor("REDUCE", [self], {"op": op, "axes": axes, "dtype": str(to)})
        kept = [1 if position in axes else size for position, size in enumerate(self.shape)]
        return result.reshape(kept) if keepdims else result

    # products and lookups

    def dot(self, other: Tensor) -> Tensor:
        """The matrix product as a broadcast, a product and a sum: 1-D and batched operands as in NumPy's matmul
        (tinygrad's `dot`, seed 001 §0)."""
        if not self.ndim or not other.ndim or self.shape[-1] != other.shape[-builtins.min(other.ndim, 2)]:
            _refuse(Kind.AXIS_SIZE_MISMATCH, "matmul", "the contracted sizes differ", self.shape, other.shape)
        ones = (1,) * builtins.min(self.ndim - 1, other.ndim - 1, 1)
        rows = self.reshape(*self.shape[:-1], *ones, self.shape[-1])
        split = other.ndim - builtins.min(other.ndim, 2)
        columns = other.reshape(*other.shape[:split], *ones, *other.shape[split:])
        return (rows * columns.swapaxes(-1, -builtins.min(other.ndim, 2))).sum(-1)

    def __matmul__(self, other: Any) -> Tensor:
        return self.dot(as_tensor(other))

    def __rmatmul__(self, other: Any) -> Tensor:
        return as_tensor(other).dot(self)

    matmul = dot

    def gather(self, axis: int, index: Tensor) -> Tensor:
        """torch.gather: result[i, j] = self[index[i, j], j] for axis 0."""
        return Tensor("GATHER", [self, index], {"axis": axis_of(axis, self)})

    def take(self, index: Tensor, axis: int = 0) -> Tensor:
        """numpy.take: whole slices along `axis`, in the shape of `index`."""
        place = axis_of(axis, self)
        before, after = self.shape[:place], self.shape[place + 1 :]
        flat = index.reshape((1,) * len(before) + (index.size,) + (1,) * len(after))
        picked = self.gather(place, flat.expand(*before, index.size, *after))
        return picked.reshape(*before, *index.shape, *after)


def input(name: str, shape: Sequence[int], dtype: str | DType = "fp32") -> Tensor:
    """What the caller passes as `name`."""
    return Tensor("INPUT", (), {"tensor_id": name, "dtype": str(dtype), "shape": tuple(shape)})


def constant(array: Any, dtype: str | DType | None = None, name: str | None = None) -> Tensor:
    """A copy of an array that is known at compile time; `name` is for dumps. Python numbers and lists are fp32, i64
    or bool unless `dtype` says else."""
    named = {"tensor_id": name} if name else {}
    return Tensor("INPUT", (), {"storage": "const_pool", **named}, _as_array(array, dtype))


def arange(size: int, dtype: str | DType = "i64") -> Tensor:
    return iota((size,), 0, dtype)


def iota(shape: Sequence[int], axis: int, dtype: str | DType = "i64") -> Tensor:
    """0, 1, 2, … along `axis`."""
    return Tensor("IOTA", (), {"shape": tuple(shape), "axis": axis, "dtype": str(dtype)})


def full(shape: Sequence[int], value: Number, dtype: str | DType = "fp32") -> Tensor:
    return constant(value, dtype).expand(*shape)


def where(condition: Tensor, a: Any, b: Any) -> Tensor:
    """Elementwise choice; the three broadcast together."""
    left, right = _meet(a, b)
    shape = broadcast_shape("WHERE", *(each.shape for each in (condition, left, right) if isinstance(each, Tensor)))
    spread = [each.expand(*shape) if isinstance(each, Tensor) else each for each in (condition, left, right)]
    return Tensor("WHERE", spread)


def concatenate(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The parts side by side along `axis`: each padded to the whole, and chosen by position."""
    if not parts:
        fail(Kind.MALFORMED_GRAPH, STAGE, "nothing to concatenate")
    place = axis_of(axis, parts[0])
    if len({(*part.shape[:place], *part.shape[place + 1 :], part.ndim) for part in parts}) > 1:
        _refuse(Kind.AXIS_SIZE_MISMATCH, "concatenate", "other axes differ", *(part.shape for part in parts))
    total = builtins.sum(part.shape[place] for part in parts)
    result, start = None, 0
    for part in parts:
        widths = [(0, 0)] * part.ndim
        widths[place] = (start, total - start - part.shape[place])
        padded = part.pad(widths)
        result = padded if result is None else where(iota(padded.shape, place) < start, result, padded)
        start += part.shape[place]
    return typing.cast(Tensor, result)


def as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else constant(value)


def binary(uop: str, a: Any, b: Any) -> Tensor:
    """A binary uop after dtypes and shapes have met."""
    left, right = _meet(a, b)
    shapes = [each.shape for each in (left, right) if isinstance(each, Tensor)]
    shape = broadcast_shape(uop, *shapes)
    return Tensor(uop, [each.expand(*shape) if isinstance(each, Tensor) else each for each in (left, right)])


def broadcast_shape(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's: right-aligned, sizes equal or 1."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        _refuse(Kind.BROADCAST_MISMATCH, op, "sizes differ and neither is 1", *shapes)


def _infer(tensor: Tensor) -> TensorType:
    if tensor.array is not None:
        return TensorType.of(dtype(tensor.array.dtype), tensor.array.shape)
    types = [each.type for each in tensor.src if isinstance(each, Tensor)]
    operands = [each.type if isinstance(each, Tensor) else types[-1] for each in tensor.src]
    try:
        return UOPS[tensor.uop].type_of(operands, tensor.arg)
    except EqsatError as error:
        raise error.located(at=", ".join(map(str, types)), op=UOPS[tensor.uop].label) from None


def _meet(a: Any, b: Any) -> tuple[Tensor | Number, Tensor | Number]:
    """Both operands in one dtype; a number stays a number beside a tensor."""
    if _is_number(a) and _is_number(b):
        return constant(a), b
    if _is_number(a) or _is_number(b):
        return (a, as_tensor(b)) if _is_number(a) else (as_tensor(a), b)
    left, right = as_tensor(a), as_tensor(b)
    common = _common(left.dtype, right.dtype)
    return left.cast(common), right.cast(common)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def _common(a: DType, b: DType) -> DType:
    rank = {"bool": 0}
    if a.is_float or b.is_float:
        return promote(a, b) or (a if a.is_float else b)
    return builtins.max(a, b, key=lambda each: rank.get(each.name, each.bits))


def _as_array(value: Any, wanted: str | DType | None) -> np.ndarray:
    array = np.array(value)
    if wanted is not None:
        return array.astype(dtype(wanted).numpy, copy=False)
    if not isinstance(value, np.ndarray | np.generic) and array.dtype == np.float64:
        return array.astype(np.float32)
    return array


def _sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    flat = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return tuple(operator.index(size) for size in flat)


def axis_of(axis: int, tensor: Tensor) -> int:
    """The axis counted from the front. Raises EqsatError, MalformedGraph, where the tensor has none such."""
    place = operator.index(axis)
    if not -tensor.ndim <= place < tensor.ndim:
        rank = f"axis {axis} is out of range for a tensor of rank {tensor.ndim}"
        fail(Kind.MALFORMED_GRAPH, STAGE, rank, shape=tensor.shape)
    return place % tensor.ndim


def _axes(axis: Axis, tensor: Tensor) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(tensor.ndim))
    return tuple(sorted(axis_of(each, tensor) for each in (axis if isinstance(axis, Sequence) else [axis])))


def _refuse(kind: Kind, op: str, message: str, *shapes: tuple[int, ...]) -> NoReturn:
    fail(kind, STAGE, message, op=op, shapes=[list(shape) for shape in shapes])
