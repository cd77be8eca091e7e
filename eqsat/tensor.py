"""Lazy tensors: NumPy's habits in Python, Tiny IR underneath.

    x = tensor.input("x", (4, 3))
    w = tensor.constant(numpy_array)
    program = optimize_and_compile((x @ w).relu())

Every method adds uops and computes nothing; `eqsat.lazy.tensor_to_tiny` makes the graph. Operands broadcast and meet in
the dtype that NumPy gives them (`eqsat.lazy.promotion`): a Python number takes that of the tensor beside it, integers
divide into fp64. What cannot be is an EqsatError at its own line.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np

from eqsat.lazy import promotion
from eqsat.lazy.argument_checks import STAGE, Axis, Number, Sizes, axes_in, axis_in, flag, integer, refuse, sizes
from eqsat.lazy.movements import Movements
from eqsat.lazy.numpy_calls import TensorFunctions, call_function, call_ufunc
from eqsat.lazy.operators import Operators
from eqsat.runtime.arrays import as_numpy
from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import DType, DTypeLike, TensorType, fp32, i32, i64
from ir.dtype import dtype as as_dtype
from ir.host.memory import memory_for
from ir.tiny.graph import check_arg, exact_immediate
from ir.uop.table import UOPS


class Tensor(Operators, Movements):
    """The result of one uop that is still to be computed. Shapes are known; errors name them."""

    __slots__ = ("arg", "array", "src", "type", "uop")

    def __init__(
        self,
        uop: str,
        src: Sequence[Tensor | Number] = (),
        arg: Mapping[str, Any] | None = None,
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
        fail(Kind.UNSUPPORTED_OP, STAGE, "a lazy tensor has no truth value", hint="where(condition, a, b)")

    # NumPy's protocols

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        fail(Kind.UNSUPPORTED_OP, STAGE, "a lazy tensor has no values", hint="optimize_and_compile(tensor) computes it")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Tensor:
        result: Tensor = call_ufunc(_FUNCTIONS, ufunc, method, inputs, keywords)
        return result

    def __array_function__(
        self, function: Callable[..., Any], types: Iterable[type], args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        return call_function(_FUNCTIONS, function, args, keywords)

    # elementwise and movement: the rest is in Operators and Movements

    def cast(self, to: DTypeLike) -> Tensor:
        wanted = as_dtype(to)
        return self if self.dtype == wanted else Tensor("CAST", [self], {"to": wanted.name})

    astype = cast

    def _apply(self, uop: str, *operands: Any) -> Tensor:
        return elementwise(uop, *operands)

    def _move(self, uop: str, still: bool, /, **arg: Any) -> Tensor:
        return self if still else Tensor(uop, [self], arg)

    # reductions

    def sum(self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Tensor:
        """In `dtype`, by default the tensor's own; integers and bool add up in i64, fp16 and bf16 in fp32, then
        rounded."""
        return self._folded("SUM", axis, keepdims, dtype)

    def prod(self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Tensor:
        """As `sum`, multiplied."""
        return self._folded("PROD", axis, keepdims, dtype)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return self._reduce("MAX", axis, keepdims, self.dtype)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return self._reduce("MIN", axis, keepdims, self.dtype)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """The first position of the greatest along `axis`, None: in the flattened tensor; i64. NaN is the greatest."""
        return extremum_position(self, "max", axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """As `argmax`, of the least. NaN is the least."""
        return extremum_position(self, "min", axis, keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """fp16 and bf16 are summed and divided in fp32, then rounded; integers and bool give fp64."""
        floats = self.cast(promotion.floating(self.dtype))
        wide = floats.cast(floats.dtype.accumulator)
        count = math.prod(self.shape[position] for position in axes_in(axis, self.shape))
        return (wide.sum(axis, keepdims) * (1.0 / count if count else math.nan)).cast(floats.dtype)

    def var(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The mean squared distance from the mean (NumPy's ddof=0)."""
        centred = self - self.mean(axis, keepdims=True)
        return (centred * centred).mean(axis, keepdims)

    def cumsum(self, axis: int | None = None) -> Tensor:
        """Along `axis`, None of the flattened tensor; the dtype is that of `sum`."""
        return self._scanned("CUMSUM", axis)

    def cumprod(self, axis: int | None = None) -> Tensor:
        """As `cumsum`, multiplied."""
        return self._scanned("CUMPROD", axis)

    def _folded(self, op: str, axis: Axis, keepdims: bool, to: DTypeLike | None) -> Tensor:
        wanted = as_dtype(to) if to is not None else self.dtype if self.dtype.is_float else i64
        if wanted.is_bool:  # a sum of bools in bool is whether any is true, a product whether all are
            return self.cast(wanted)._reduce("MAX" if op == "SUM" else "MIN", axis, keepdims, wanted)
        source = self if wanted.is_float == self.dtype.is_float else self.cast(wanted)
        return source._reduce(op, axis, keepdims, wanted.accumulator).cast(wanted)

    def _scanned(self, uop: str, axis: int | None) -> Tensor:
        if axis is None:
            return self.reshape(-1 if self.size else 0)._scanned(uop, 0)
        wide = self.dtype.accumulator if self.dtype.is_float else i64
        total = Tensor(uop, [self], {"axis": axis_in(axis, self.shape), "dtype": wide.name})
        return total.cast(self.dtype) if self.dtype.is_float else total

    def _reduce(self, op: str, axis: Axis, keepdims: bool, to: DType) -> Tensor:
        axes, keep = axes_in(axis, self.shape), flag(keepdims, "keepdims")
        if not axes:
            return self.cast(to)
        result = Tensor("REDUCE", [self], {"op": op, "axes": axes, "dtype": to.name})
        kept = [1 if position in axes else size for position, size in enumerate(self.shape)]
        return result.reshape(kept) if keep else result

    # products and lookups

    def dot(self, other: Any) -> Tensor:
        """The matrix product as a broadcast, a product and a sum in their common dtype: 1-D and batched operands as in
        NumPy's matmul (tinygrad's `dot`, seed 001 §0)."""
        right = as_tensor(other)
        if not self.ndim or not right.ndim or self.shape[-1] != right.shape[-builtins.min(right.ndim, 2)]:
            hint = "[…, M, K] @ […, K, N]; .T or swapaxes(-1, -2) turns a matrix"
            refuse(Kind.AXIS_SIZE_MISMATCH, "matmul", "the contracted sizes differ", self.shape, right.shape, hint=hint)
        if _broadcast(self.shape[:-2], right.shape[:-2]) is None:
            hint = "batches that agree from the right, or are 1"
            refuse(Kind.BROADCAST_MISMATCH, "matmul", "the batches differ", self.shape, right.shape, hint=hint)
        ones = (1,) * builtins.min(self.ndim - 1, right.ndim - 1, 1)
        rows = self.reshape(*self.shape[:-1], *ones, self.shape[-1])
        split = right.ndim - builtins.min(right.ndim, 2)
        columns = right.reshape(*right.shape[:split], *ones, *right.shape[split:])
        products = rows * columns.swapaxes(-1, -builtins.min(right.ndim, 2))
        return products.sum(-1, dtype=products.dtype)

    def __matmul__(self, other: Any) -> Tensor:
        return self.dot(other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return as_tensor(other).dot(self)

    matmul = dot

    def gather(self, axis: int, index: Any) -> Tensor:
        """torch.gather: result[i, j] = self[index[i, j], j] for axis 0; an index outside is clamped to the nearest
        end."""
        return Tensor("GATHER", [self, as_tensor(index)], {"axis": axis_in(axis, self.shape)})

    def take(self, index: Any, axis: int = 0) -> Tensor:
        """numpy.take: whole slices along `axis`, in the shape of `index`. Negative positions count from the end; those
        outside are an error in a constant, and clamped to the nearest end in what is known only at run time."""
        place = axis_in(axis, self.shape)
        where_ = _wrapped(as_tensor(index), self.shape[place])
        before, after = self.shape[:place], self.shape[place + 1 :]
        flat = where_.reshape((1,) * len(before) + (where_.size,) + (1,) * len(after))
        picked = self.gather(place, flat.expand(*before, where_.size, *after))
        return picked.reshape(*before, *where_.shape, *after)


def input(name: str, shape: Sizes, dtype: DTypeLike = "fp32") -> Tensor:
    """What the caller passes as `name`."""
    return Tensor("INPUT", (), {"tensor_id": name, "dtype": as_dtype(dtype).name, "shape": sizes(shape)})


def constant(array: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """A copy of an array that is known at compile time; `name` is for dumps. Python numbers and lists are fp32, i64
    or bool unless `dtype` says else."""
    named = {} if name is None else {"tensor_id": name}
    return Tensor("INPUT", (), {"storage": "const_pool", **named}, _as_array(array, dtype))


def arange(size: SupportsIndex, dtype: DTypeLike = "i64") -> Tensor:
    """0, 1, … size - 1."""
    return iota((integer(size, "a size"),), 0, dtype)


def iota(shape: Sizes, axis: int, dtype: DTypeLike = "i64") -> Tensor:
    """0, 1, 2, … along `axis`."""
    exact = sizes(shape)
    return Tensor("IOTA", (), {"shape": exact, "axis": axis_in(axis, exact), "dtype": as_dtype(dtype).name})


def full(shape: Sizes, value: Number, dtype: DTypeLike = "fp32") -> Tensor:
    """`value` everywhere."""
    return constant(value, dtype).expand(sizes(shape))


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """Elementwise choice; the three broadcast together. A condition that is no bool is true where it is not 0."""
    chosen = as_tensor(condition).cast("bool")
    branches = [constant(a) if is_number(a) and is_number(b) else _operand(a), _operand(b)]
    element = promotion.common([_spec(each) for each in branches])
    return Tensor("WHERE", _together("WHERE", [chosen, *(_cast(each, element) for each in branches)]))


def concatenate(parts: Sequence[Any], axis: int = 0) -> Tensor:
    """The parts side by side along `axis`, in their common dtype: each padded to the whole, and chosen by position."""
    if not isinstance(parts, list | tuple) or not parts:
        fail(Kind.MALFORMED_GRAPH, STAGE, "concatenate takes a list of at least one tensor")
    tensors = [as_tensor(part) for part in parts]
    place = axis_in(axis, tensors[0].shape)
    if len({(*part.shape[:place], *part.shape[place + 1 :], part.ndim) for part in tensors}) > 1:
        hint = f"sizes that agree along every axis but {place}"
        shapes = [part.shape for part in tensors]
        refuse(Kind.AXIS_SIZE_MISMATCH, "concatenate", "other axes differ", *shapes, hint=hint)
    total = builtins.sum(part.shape[place] for part in tensors)
    element = promotion.common([part.dtype for part in tensors])
    whole: list[Tensor] = []
    start = 0
    for part in tensors:
        widths = [(0, 0)] * part.ndim
        widths[place] = (start, total - start - part.shape[place])
        padded = part.cast(element).pad(widths)
        whole = [where(iota(padded.shape, place) < start, whole[0], padded) if whole else padded]
        start += part.shape[place]
    return whole[0]


def extremum_position(
    x: Tensor, extremum: Literal["max", "min"], axis: int | None, keepdims: bool = False, last: bool = False
) -> Tensor:
    """The first position (`last`: the last one) of the extremum along `axis`, None: in the flattened tensor; i64. The
    first NaN comes before any number, as in NumPy.

    best = max x over the axis
    y    = min over the axis of (i where x[i] is best or no number, else a position beyond all)

    Raises:
        EqsatError: MalformedGraph where the axis has no elements.
    """
    if axis is None:
        found = extremum_position(x.flatten(), extremum, 0, False, last)
        return found.reshape((1,) * x.ndim) if flag(keepdims, "keepdims") else found
    size = x.shape[axis_in(axis, x.shape)]
    if not size:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"no element along axis {axis}", op=f"arg{extremum}", shape=x.shape)
    best = x.max(axis, keepdims=True) if extremum == "max" else x.min(axis, keepdims=True)
    is_best = (x == best) | (x != x) if x.dtype.is_float else x == best
    places = iota(x.shape, axis, i32 if size <= 2**31 - 1 else i64)
    if last:
        return where(is_best, places, -1).max(axis, keepdims).cast(i64)
    return where(is_best, places, size).min(axis, keepdims).cast(i64)


def as_tensor(value: Any) -> Tensor:
    """`value` if it is a tensor, else the constant of an array or a number."""
    return value if isinstance(value, Tensor) else constant(value)


def is_number(value: Any) -> bool:
    """Whether it is a Python number; NumPy's scalars are arrays of rank 0."""
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def elementwise(uop: str, *operands: Any, like: np.ufunc | None = None) -> Tensor:
    """A unary or binary uop on operands that meet in dtype and shape, in the dtype of the NumPy function `like`
    (None: the uop's own).

    What NumPy defines where the uop does not is written in others: sums of bools, quotients of integers, floors of
    integers, powers of integers by a constant. x // y of floats is ⌊x / y⌋ and x % y is x − (x // y)·y, each op
    rounded: NumPy's differ by a rounding of x / y, which counts near whole quotients, and where x or y is infinite.
    """
    values = [_operand(each) for each in operands]
    if not any(isinstance(each, Tensor) for each in values):
        values[0] = as_tensor(values[0])
    try:
        element = promotion.loop(like or promotion.dtypes_of(uop), [_spec(each) for each in values])
    except EqsatError as error:
        raise error.located(at=_types(values), op=UOPS[uop].label()) from None
    exact = [_cast(each, element) for each in values]
    if uop == "POW" and type(exact[1]) is int:
        return _power(as_tensor(exact[0]), exact[1])
    if element.is_float and uop in ("IDIV", "MOD"):
        whole = elementwise("FDIV", *exact).floor()
        return whole if uop == "IDIV" else exact[0] - whole * exact[1]
    if (not element.is_float and uop in ("FLOOR", "CEIL", "ROUND")) or (element.is_bool and uop == "ABS"):
        return as_tensor(exact[0])
    return Tensor(_OF_BOOLS.get(uop, uop) if element.is_bool else uop, _together(uop, exact))


_OF_BOOLS = {"ADD": "OR", "MUL": "AND", "MAX": "OR", "MIN": "AND"}


def _power(x: Tensor, exponent: int) -> Tensor:
    """x ** exponent; of integers by squaring, of floats by POW except the square, as NumPy has it."""
    if x.dtype.is_float:
        return x * x if exponent == 2 else Tensor("POW", [x, exponent])
    if exponent < 0:
        fail(Kind.DTYPE_MISMATCH, STAGE, "integers to a negative power", at=str(x.type), op="POW", hint="cast to float")
    if exponent == 0:
        return full(x.shape, 1, x.dtype)
    half = _power(x, exponent // 2) if exponent > 1 else x
    return x if exponent == 1 else half * half * x if exponent % 2 else half * half


def broadcast_shape(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's: right-aligned, sizes equal or 1."""
    found = _broadcast(*shapes)
    if found is None:
        hint = "sizes that agree from the right, or are 1; unsqueeze(axis) inserts an axis of size 1"
        refuse(Kind.BROADCAST_MISMATCH, op, "sizes differ and neither is 1", *shapes, hint=hint)
    return found


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape to which these broadcast, if they do."""
    rank = builtins.max(map(len, shapes), default=0)
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    wanted = [{*along} - {1} or {1} for along in zip(*aligned, strict=True)]
    return None if any(len(sizes_) > 1 for sizes_ in wanted) else tuple(size for (size,) in wanted)


def _infer(tensor: Tensor) -> TensorType:
    """The type of a tensor's result, once all that its uop asks for is known to hold."""
    if tensor.array is not None:
        name = tensor.arg.get("tensor_id", "_")
        if not isinstance(name, str) or not name:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"the name of a constant is a text that is not empty, not {name!r:.60}")
        return TensorType.of(as_dtype(tensor.array.dtype), tensor.array.shape)
    op = UOPS.get(tensor.uop) or fail(Kind.UNKNOWN_UOP, STAGE, f"there is no uop {tensor.uop!r}")
    types = [each.type for each in tensor.src if isinstance(each, Tensor)]
    operands = [each.type if isinstance(each, Tensor) else types[-1] for each in tensor.src]
    try:
        arg = check_arg(op, tensor.arg, bound=True)
        result = op.type_of(operands, arg)
        for each, type_ in zip(tensor.src, operands, strict=True):
            if not isinstance(each, Tensor):
                exact_immediate(each, type_.dtype)
        if "value" in arg:
            exact_immediate(arg["value"], result.dtype)
    except EqsatError as error:
        raise error.located(at=_types(tensor.src), op=op.label(tensor.arg)) from None
    return result


def _wrapped(index: Tensor, size: int) -> Tensor:
    """An index of positions along an axis of `size`, of which the negative count from the end, as one of positions from
    the start.

    Raises:
        EqsatError: MalformedGraph for a constant that lies outside.
    """
    if not index.dtype.is_int or (index.array is None and not index.dtype.is_signed):
        return index
    if index.array is None:
        wide = index if size <= index.dtype.highest else index.cast("i64")
        return where(wide < 0, wide + size, wide)
    outside = index.array[(index.array < -size) | (index.array >= size)]
    if outside.size:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"index {outside[0]} is out of bounds for an axis of {size} elements")
    return constant(index.array.astype("i8") % size, name=index.arg.get("tensor_id")) if index.size else index


def _types(operands: Iterable[Tensor | Number]) -> str:
    return ", ".join(str(each.type) for each in operands if isinstance(each, Tensor))


def _operand(value: Any) -> Tensor | Number:
    """A Python number as it is, all else as a tensor."""
    number: Number = value
    return number if is_number(value) else as_tensor(value)


def _spec(operand: Tensor | Number) -> DType | promotion.Weak:
    return operand.dtype if isinstance(operand, Tensor) else promotion.weak(operand)


def _cast(operand: Tensor | Number, element: DType) -> Tensor | Number:
    if isinstance(operand, Tensor):
        return operand.cast(element)
    return operand if element.is_bool or not isinstance(operand, bool) else int(operand)


def _together(op: str, operands: Sequence[Tensor | Number]) -> list[Tensor | Number]:
    """The operands, the tensors among them broadcast to one shape."""
    shape = broadcast_shape(op, *(each.shape for each in operands if isinstance(each, Tensor)))
    return [each.expand(shape) if isinstance(each, Tensor) else each for each in operands]


def _as_array(value: Any, wanted: DTypeLike | None) -> np.ndarray:
    """A copy of the value as an array of `wanted`, or of the dtype that it has."""
    given = as_numpy(None, value, STAGE)
    with memory_for(given.nbytes, STAGE, "the constant", shape=given.shape):
        array = np.array(given)
    natural = array.dtype
    if isinstance(value, bool | int | float | list | tuple) and not isinstance(value, np.generic):
        natural = fp32.numpy if natural == np.float64 else natural
    element = as_dtype(natural) if wanted is None or natural.kind not in "biufV" else as_dtype(wanted)
    with np.errstate(all="ignore"):
        return array.astype(element.numpy, copy=False)


_FUNCTIONS = TensorFunctions(as_tensor, elementwise, where, concatenate, full)
