"""Lazy tensors with NumPy's conventions, which build Tiny IR.

    x = tensor.input("x", (4, 3))
    w = tensor.constant(numpy_array)
    program = optimize_and_compile((x @ w).relu())

Methods add uops and compute nothing; `eqsat.lazy.tensor_to_tiny` makes the graph. Operands broadcast and are cast as
in NumPy (`eqsat.lazy.promotion`): a Python number takes the dtype of the tensor, a quotient of integers is fp64. An
invalid operation raises an EqsatError at the line that writes it.
"""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np

from eqsat.lazy import promotion, scanning
from eqsat.lazy.argument_checks import STAGE, Axis, Number, Sizes, axes_in, axis_in, flag, integer, refuse, sizes
from eqsat.lazy.broadcasting import broadcast, broadcast_shape
from eqsat.lazy.constant_array import as_array
from eqsat.lazy.movements import Movements
from eqsat.lazy.numpy_calls import TensorFunctions, call_function, call_ufunc
from eqsat.lazy.operators import Operators
from eqsat.lazy.random_numbers import RandomNumbers
from eqsat.lazy.tags import current_tag
from eqsat.lazy.tags import tagged as tagged
from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import DType, DTypeLike, TensorType, i32, i64
from ir.dtype import dtype as as_dtype
from ir.tiny.graph import check_arg, exact_immediate
from ir.uop.table import UOPS

_SERIALS = itertools.count()


class Tensor(Operators, Movements):
    """The result of one uop, which is not computed yet. Its shape is known. serial: grows from tensor to tensor. tag:
    the part of the program that the uop belongs to (`tagged`)."""

    __slots__ = ("arg", "array", "serial", "src", "tag", "type", "uop")

    def __init__(
        self,
        uop: str,
        src: Sequence[Tensor | Number] = (),
        arg: Mapping[str, Any] | None = None,
        array: np.ndarray | None = None,
    ) -> None:
        self.uop, self.src, self.arg, self.array = uop, tuple(src), arg or {}, array
        self.serial = next(_SERIALS)
        self.tag = current_tag()
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

    # elementwise and movement ops; more are in Operators and Movements

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
        """The sum in `dtype`. By default, the sum of bools and of integers that i64 holds is in i64, and the sum of
        floats and of u64 is in their own dtype. fp16 and bf16 are added in fp32, then rounded."""
        return self._reduce_in_dtype("SUM", axis, keepdims, dtype)

    def prod(self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Tensor:
        """The product; dtypes as in `sum`."""
        return self._reduce_in_dtype("PROD", axis, keepdims, dtype)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return self._reduce("MAX", axis, keepdims, self.dtype)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return self._reduce("MIN", axis, keepdims, self.dtype)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """The first position of the maximum along `axis` (None: in the flattened tensor), i64. NaN is the maximum."""
        return extremum_position(self, "max", axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """The first position of the minimum, as in `argmax`. NaN is the minimum."""
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
        """Running sums along `axis` (None: of the flattened tensor); dtypes as in `sum`."""
        return self._scan("CUMSUM", axis)

    def cumprod(self, axis: int | None = None) -> Tensor:
        """Running products; otherwise as `cumsum`."""
        return self._scan("CUMPROD", axis)

    def _reduce_in_dtype(self, op: str, axis: Axis, keepdims: bool, to: DTypeLike | None) -> Tensor:
        wanted = as_dtype(to) if to is not None else promotion.summing(self.dtype)
        if wanted.is_bool:  # in bool, a sum is any(), a product is all()
            return self.cast(wanted)._reduce("MAX" if op == "SUM" else "MIN", axis, keepdims, wanted)
        source = self if wanted.is_float == self.dtype.is_float else self.cast(wanted)
        return source._reduce(op, axis, keepdims, wanted.accumulator).cast(wanted)

    def _scan(self, uop: str, axis: int | None) -> Tensor:
        if axis is None:
            return self.reshape(-1 if self.size else 0)._scan(uop, 0)
        wanted = promotion.summing(self.dtype)
        total = Tensor(uop, [self], {"axis": axis_in(axis, self.shape), "dtype": wanted.accumulator.name})
        return total.cast(wanted)

    def _reduce(self, op: str, axis: Axis, keepdims: bool, to: DType) -> Tensor:
        axes, keep = axes_in(axis, self.shape), flag(keepdims, "keepdims")
        if not axes:
            return self.cast(to)
        result = Tensor("REDUCE", [self], {"op": op, "axes": axes, "dtype": to.name})
        kept = [1 if position in axes else size for position, size in enumerate(self.shape)]
        return result.reshape(kept) if keep else result

    # products and lookups

    def dot(self, other: Any) -> Tensor:
        """The matrix product as a broadcast, a product and a sum in the common dtype; 1-D and batched operands as in
        NumPy's matmul (tinygrad's `dot`, seed 001 §0)."""
        right = as_tensor(other)
        if not self.ndim or not right.ndim or self.shape[-1] != right.shape[-builtins.min(right.ndim, 2)]:
            hint = "[…, M, K] @ […, K, N]; .T or swapaxes(-1, -2) turns a matrix"
            refuse(Kind.AXIS_SIZE_MISMATCH, "matmul", "the contracted sizes differ", self.shape, right.shape, hint=hint)
        if broadcast(self.shape[:-2], right.shape[:-2]) is None:
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
        """As torch.gather: result[i, j] = self[index[i, j], j] for axis 0; an index outside is clamped to the nearest
        end."""
        return Tensor("GATHER", [self, as_tensor(index)], {"axis": axis_in(axis, self.shape)})

    def scatter(self, axis: int, index: Any, updates: Any, reduction: str = "none") -> Tensor:
        """As torch.scatter: the tensor with `updates` put in, result[index[i, j], j] = updates[i, j] for axis 0. Index
        and updates have one shape, which is no larger than the tensor's off the axis; updates may be broadcast to it,
        and may be a number. A position below 0 or beyond the axis changes nothing.

        reduction: "none" keeps the last update of an element; "add", "mul", "max" and "min" combine the element with
        all its updates, one after another in the order of the index, and round each result. So the result has the same
        bits on every machine and with every number of threads. The work grows with the elements and the updates.
        """
        place, at = axis_in(axis, self.shape), as_tensor(index)
        own = [size for position, size in enumerate(self.shape) if position != place]
        theirs = [size for position, size in enumerate(at.shape) if position != place]
        if at.ndim != self.ndim or any(want > have for want, have in zip(theirs, own, strict=True)):
            message = "the index has the tensor's rank, and is no larger off the axis"
            refuse(Kind.AXIS_SIZE_MISMATCH, "scatter", message, self.shape, at.shape, hint="pad or slice the index")
        if reduction not in _COMBINATIONS:
            hint = ", ".join(_COMBINATIONS)
            fail(Kind.MALFORMED_GRAPH, STAGE, f"scatter has no reduction {reduction!r}", at="scatter", hint=hint)
        values = (constant(updates, self.dtype) if is_number(updates) else as_tensor(updates)).expand(at.shape)
        wider = [(0, 0 if k == place else size - at.shape[k]) for k, size in enumerate(self.shape)]
        if any(high for _, high in wider):
            at, values = at.cast("i64").pad(wider, -1), values.pad(wider)
        return Tensor("SCATTER", [self, at, values], {"axis": place, "op": _COMBINATIONS[reduction]})

    def take(self, index: Any, axis: int = 0) -> Tensor:
        """As numpy.take: whole slices along `axis`, in the shape of `index`. Negative positions count from the end.
        Positions outside are an error in a constant; others are clamped to the nearest end at run time."""
        place = axis_in(axis, self.shape)
        where_ = _from_start(as_tensor(index), self.shape[place])
        before, after = self.shape[:place], self.shape[place + 1 :]
        flat = where_.reshape((1,) * len(before) + (where_.size,) + (1,) * len(after))
        picked = self.gather(place, flat.expand(*before, where_.size, *after))
        return picked.reshape(*before, *where_.shape, *after)


def input(name: str, shape: Sizes, dtype: DTypeLike = "fp32") -> Tensor:
    """An argument of the program, called `name`."""
    return Tensor("INPUT", (), {"tensor_id": name, "dtype": as_dtype(dtype).name, "shape": sizes(shape)})


def constant(array: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """A copy of an array that is known at compile time; `name` is for dumps. Without `dtype`, Python numbers and lists
    become fp32, i64 or bool."""
    arg = {} if name is None else {"tensor_id": name}
    return Tensor("INPUT", (), {"storage": "const_pool", **arg}, as_array(array, dtype))


def arange(size: SupportsIndex, dtype: DTypeLike = "i64") -> Tensor:
    """0, 1, … size - 1."""
    return iota((integer(size, "a size"),), 0, dtype)


def iota(shape: Sizes, axis: int, dtype: DTypeLike = "i64") -> Tensor:
    """0, 1, 2, … along `axis`."""
    exact = sizes(shape)
    return Tensor("IOTA", (), {"shape": exact, "axis": axis_in(axis, exact), "dtype": as_dtype(dtype).name})


def full(shape: Sizes, value: Number, dtype: DTypeLike = "fp32") -> Tensor:
    """A tensor with this value everywhere."""
    return constant(value, dtype).expand(sizes(shape))


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """Elementwise choice; the three broadcast together. A condition that is no bool is true where it is not 0."""
    chosen = as_tensor(condition).cast("bool")
    branches = [constant(a) if is_number(a) and is_number(b) else _operand(a), _operand(b)]
    element = promotion.common([_spec(branch) for branch in branches])
    return Tensor("WHERE", _broadcast_operands("WHERE", [chosen, *(_cast(x, element) for x in branches)]))


def concatenate(parts: Sequence[Any], axis: int = 0) -> Tensor:
    """The parts side by side along `axis`, in their common dtype. Each part is padded to the whole size, then `where`
    selects by position."""
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


def stack(parts: Sequence[Any], axis: int = 0) -> Tensor:
    """The parts, which have one shape, side by side along a new axis at the position `axis` of the result."""
    if not isinstance(parts, list | tuple) or not parts:
        fail(Kind.MALFORMED_GRAPH, STAGE, "stack takes a list of at least one tensor")
    tensors = [as_tensor(part) for part in parts]
    if len({part.shape for part in tensors}) > 1:
        shapes = [part.shape for part in tensors]
        refuse(Kind.AXIS_SIZE_MISMATCH, "stack", "the shapes differ", *shapes, hint="parts of one shape")
    return concatenate([part.unsqueeze(axis) for part in tensors], axis)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """As jax.lax.scan: `f(carry, x)` gives the next carry and an output, once for every element of xs along axis 0.

        def step(total, x):
            total = total + x
            return total, total * total

        last, squares = scan(step, tensor.full((4,), 0.0), xs)     # xs [steps, 4], last [4], squares [steps, 4]

    The result is the last carry, and the outputs stacked along axis 0. `f` is called once, to trace it: the program
    does not grow with the number of steps. `f` may use tensors from outside.

    Args:
        init: the first carry: a tensor, None, or a tuple, list or dict of them; the carry that `f` returns has the same
            form, shapes and dtypes.
        xs: what is scanned, in such a form too; all have one size along axis 0. None: nothing, and `x` is None.
        length: the number of steps, needed only if nothing is scanned.
        reverse: from the last element to the first; the outputs keep their places.

    Raises:
        EqsatError: MalformedGraph, AxisSizeMismatch or DtypeMismatch, for other forms, shapes or dtypes than these.
    """
    return scanning.scan(_KIND, f, init, xs, length, reverse)


def extremum_position(
    x: Tensor, extremum: Literal["max", "min"], axis: int | None, keepdims: bool = False, last: bool = False
) -> Tensor:
    """The first position (`last`: the last one) of the extremum along `axis` (None: in the flattened tensor), i64. The
    first NaN comes before any number, as in NumPy.

    best = max x over the axis
    y    = min over the axis of (i where x[i] is best or NaN, else a position beyond all)

    Raises:
        EqsatError: MalformedGraph if the axis has no elements.
    """
    if axis is None:
        position = extremum_position(x.flatten(), extremum, 0, False, last)
        return position.reshape((1,) * x.ndim) if flag(keepdims, "keepdims") else position
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
    """`value` if it is a tensor, else a constant with the array or number."""
    return value if isinstance(value, Tensor) else constant(value)


def is_number(value: Any) -> bool:
    """Whether the value is a Python number; NumPy's scalars are arrays of rank 0."""
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def elementwise(uop: str, *operands: Any, like: np.ufunc | None = None) -> Tensor:
    """A unary or binary uop on operands that are cast and broadcast as for the NumPy function `like` (None: the uop's
    own).

    Cases that NumPy defines and the uop does not are written with other uops: sums of bools, quotients and floors of
    integers, powers of integers by a constant. x // y of floats is ⌊x / y⌋ and x % y is x − (x // y)·y, rounded at each
    op. NumPy's results differ by one rounding of x / y, which matters near whole quotients and for infinite x or y.
    """
    values = [_operand(value) for value in operands]
    if not any(isinstance(value, Tensor) for value in values):
        values[0] = as_tensor(values[0])
    try:
        element = promotion.loop(like or promotion.dtypes_of(uop), [_spec(value) for value in values])
    except EqsatError as error:
        raise error.locate(at=_types(values), op=UOPS[uop].label()) from None
    exact = [_cast(value, element) for value in values]
    if uop == "POW" and type(exact[1]) is int:
        return _power(as_tensor(exact[0]), exact[1])
    if element.is_float and uop in ("IDIV", "MOD"):
        whole = elementwise("FDIV", *exact).floor()
        return whole if uop == "IDIV" else exact[0] - whole * exact[1]
    if (not element.is_float and uop in ("FLOOR", "CEIL", "ROUND")) or (element.is_bool and uop == "ABS"):
        return as_tensor(exact[0])
    return Tensor(_OF_BOOLS.get(uop, uop) if element.is_bool else uop, _broadcast_operands(uop, exact))


_OF_BOOLS = {"ADD": "OR", "MUL": "AND", "MAX": "OR", "MIN": "AND"}
"""Uops that stand for arithmetic on bools."""


def _power(x: Tensor, exponent: int) -> Tensor:
    """x ** exponent: of integers by squaring; of floats by POW, except the square, as in NumPy."""
    if x.dtype.is_float:
        return x * x if exponent == 2 else Tensor("POW", [x, exponent])
    if exponent < 0:
        fail(Kind.DTYPE_MISMATCH, STAGE, "integers to a negative power", at=str(x.type), op="POW", hint="cast to float")
    if exponent == 0:
        return full(x.shape, 1, x.dtype)
    half = _power(x, exponent // 2) if exponent > 1 else x
    return x if exponent == 1 else half * half * x if exponent % 2 else half * half


def _infer(tensor: Tensor) -> TensorType:
    """The type of a tensor, after a check of the uop's operands and attributes."""
    if tensor.array is not None:
        name = tensor.arg.get("tensor_id", "_")
        if not isinstance(name, str) or not name:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"the name of a constant is a text that is not empty, not {name!r:.60}")
        return TensorType.of(as_dtype(tensor.array.dtype), tensor.array.shape)
    op = UOPS.get(tensor.uop) or fail(Kind.UNKNOWN_UOP, STAGE, f"there is no uop {tensor.uop!r}")
    types = [operand.type for operand in tensor.src if isinstance(operand, Tensor)]
    operands = [operand.type if isinstance(operand, Tensor) else types[-1] for operand in tensor.src]
    try:
        arg = check_arg(op, tensor.arg, bound=True)
        result = op.type_of(operands, arg)
        for operand, type_ in zip(tensor.src, operands, strict=True):
            if not isinstance(operand, Tensor):
                exact_immediate(operand, type_.dtype)
        if "value" in arg:
            exact_immediate(arg["value"], result.dtype)
    except EqsatError as error:
        raise error.locate(at=_types(tensor.src), op=op.label(tensor.arg)) from None
    return result


def _from_start(index: Tensor, size: int) -> Tensor:
    """Positions along an axis of `size`, negative ones counted from the end, as positions from the start.

    Raises:
        EqsatError: MalformedGraph for a constant with a position outside.
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
    return ", ".join(str(operand.type) for operand in operands if isinstance(operand, Tensor))


def _operand(value: Any) -> Tensor | Number:
    """A Python number as it is, anything else as a tensor."""
    number: Number = value
    return number if is_number(value) else as_tensor(value)


def _spec(operand: Tensor | Number) -> DType | promotion.Weak:
    return operand.dtype if isinstance(operand, Tensor) else promotion.weak(operand)


def _cast(operand: Tensor | Number, element: DType) -> Tensor | Number:
    if isinstance(operand, Tensor):
        return operand.cast(element)
    return operand if element.is_bool or not isinstance(operand, bool) else int(operand)


def _broadcast_operands(op: str, operands: Sequence[Tensor | Number]) -> list[Tensor | Number]:
    """The operands; tensors among them are broadcast to one shape."""
    shape = broadcast_shape(op, *(operand.shape for operand in operands if isinstance(operand, Tensor)))
    return [operand.expand(shape) if isinstance(operand, Tensor) else operand for operand in operands]


_COMBINATIONS = {"none": "LAST", "add": "SUM", "mul": "PROD", "max": "MAX", "min": "MIN"}
"""The op of a SCATTER for each reduction."""
_KIND = scanning.TensorKind(Tensor, as_tensor, full)
_RANDOM = RandomNumbers(Tensor, as_tensor)
rand, randn, randint, bernoulli = _RANDOM.rand, _RANDOM.randn, _RANDOM.randint, _RANDOM.bernoulli
dropout_mask, random_word = _RANDOM.dropout_mask, _RANDOM.random_word
_FUNCTIONS = TensorFunctions(as_tensor, elementwise, where, concatenate, stack, full)
