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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, Unpack, overload

import numpy as np

from eqsat.lazy import promotion, scanning
from eqsat.lazy.argument_checks import (
    STAGE,
    Number,
    Sizes,
    axis_in,
    integer,
    is_number,
    number,
    refuse,
    shape_and_dtype,
    sizes,
)
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.lazy.constant_array import as_array
from eqsat.lazy.einsum import einsum as einsum_of
from eqsat.lazy.element_count import ElementCount
from eqsat.lazy.function_forms import function_form
from eqsat.lazy.infer_type import infer_type, types_text
from eqsat.lazy.keyword_names import Dim, End, takes_torchs_names
from eqsat.lazy.missing_names import missing, public_names
from eqsat.lazy.numpy_calls import TensorFunctions, call_function, call_ufunc
from eqsat.lazy.open_inputs import OpenInput, TracedFunction, inputs_of, open_sizes
from eqsat.lazy.orders import Orders
from eqsat.lazy.powers import power
from eqsat.lazy.products import Products
from eqsat.lazy.random_numbers import RandomNumbers
from eqsat.lazy.tags import current_tag
from eqsat.lazy.tags import tagged as tagged
from eqsat.lazy.torch_calls import refuse_torch
from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import DType, DTypeLike
from ir.dtype import dtype as as_dtype
from ir.frontend import TensorInfo
from ir.uop.table import UOPS

_SERIALS = itertools.count()


class Tensor(Products, Orders):
    """The result of one uop, which is not computed yet. Its shape is known. serial: grows from tensor to tensor. tag:
    the part of the program that the uop belongs to (`tagged`). barrier: no kernel that reads the tensor computes it."""

    __slots__ = ("arg", "array", "barrier", "serial", "src", "tag", "type", "uop")

    def __init__(
        self,
        uop: str,
        src: Sequence[Tensor | Number] = (),
        arg: Mapping[str, Any] | None = None,
        array: np.ndarray | None = None,
    ) -> None:
        self.uop, self.src, self.arg, self.array = uop, tuple(src), arg or {}, array
        self.barrier = False
        self.serial = next(_SERIALS)
        self.tag = current_tag()
        self.type = infer_type(self)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def ndim(self) -> int:
        return self.type.rank

    @property
    def size(self) -> ElementCount:
        """The number of elements. Called, as torch's method, it is the shape, or the size along an axis."""
        return ElementCount(self.type.size, self.shape)

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"Tensor({self.type}, by {self.uop})"

    def __bool__(self) -> bool:
        fail(Kind.UNSUPPORTED_OP, STAGE, "a lazy tensor has no truth value", hint="where(condition, a, b)")

    def __float__(self) -> float:
        fail(Kind.UNSUPPORTED_OP, STAGE, "a lazy tensor has no values", hint="optimize_and_compile(tensor) computes it")

    __int__ = __float__

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            missing("a lazy tensor", name, public_names(dir(Tensor)), functions=public_names(globals()))

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

    @classmethod
    def __torch_function__(cls, function: Callable[..., Any], *_: Any) -> Any:
        """Refuses torch's functions by the names of ours; operators go on to the methods of this class."""
        return refuse_torch(function, public_names(dir(Tensor)), public_names(globals()))

    # the methods in which the families of methods are written

    @classmethod
    def _make(cls, uop: str, src: Sequence[Any] = (), arg: Mapping[str, Any] | None = None) -> Tensor:
        return cls(uop, src, arg)

    @classmethod
    def _of(cls, value: Any) -> Tensor:
        return as_tensor(value)

    @classmethod
    def _constant(cls, value: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
        return constant(value, dtype, name)

    @classmethod
    def _choose(cls, condition: Any, a: Any, b: Any) -> Tensor:
        return where(condition, a, b)

    @classmethod
    def _loop(
        cls, step: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None
    ) -> tuple[Any, Any]:
        return scan(step, init, xs, length)

    def _apply(self, uop: str, *operands: Any) -> Tensor:
        return elementwise(uop, *operands)


@overload
def input(name: str, shape: Sizes, dtype: DTypeLike = "fp32") -> Tensor: ...  # type: ignore[overload-overlap]


@overload
def input(name: str, shape: str | Sequence[SupportsIndex | str], dtype: DTypeLike = "fp32") -> OpenInput: ...


def input(
    name: str, shape: Sizes | str | Sequence[SupportsIndex | str], dtype: DTypeLike = "fp32"
) -> Tensor | OpenInput:
    """An argument of the program, called `name`. A size may be a symbol, as in `("B", 8)`: the result is then an input
    of `program`, and no tensor yet."""
    symbolic = open_sizes(shape)
    if symbolic is not None:
        bare = input(name, (), dtype)
        return OpenInput(name, TensorInfo(bare.dtype.name, symbolic))
    return Tensor("INPUT", (), {"tensor_id": name, "dtype": as_dtype(dtype).name, "shape": sizes(shape)})


def program(function: Callable[..., Any], *inputs: OpenInput | Tensor) -> TracedFunction:
    """A program whose sizes are symbols: `function(*inputs)`, which returns a lazy tensor, a list of them, or a dict of
    named ones. `optimize_and_compile` takes it.

    The function is called again for each set of sizes, with inputs of these sizes; so a size, `x.shape[0]`, is a plain
    number there. `dims=` and the shapes of arguments give the sizes, as for Tiny programs with symbols.

        x = tensor.input("x", ("B", 8))
        program = optimize_and_compile(tensor.program(lambda x: nn.softmax(x), x), dims={"B": 4})

    Raises:
        EqsatError: MalformedGraph for an object that is no function, and for an input that is no `tensor.input`.
    """
    if not callable(function):
        hint = 'tensor.program(f, tensor.input("x", ("B", 8)))'
        fail(Kind.MALFORMED_GRAPH, STAGE, "the first argument of tensor.program is a function", hint=hint)
    return TracedFunction(function, inputs_of(inputs))


def constant(array: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """A copy of an array that is known at compile time; `name` is for dumps. Without `dtype`, Python numbers and lists
    become fp32, i64 or bool."""
    arg = {} if name is None else {"tensor_id": name}
    return Tensor("INPUT", (), {"storage": "const_pool", **arg}, as_array(array, dtype))


@takes_torchs_names
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None, **torch: Unpack[End]) -> Tensor:
    """start, start + step, … below `stop`, or 0, 1, … below the only number: i64, or fp32 if a number is a float."""
    first, beyond = (0, start) if stop is None else (start, stop)
    given = [number(value, "a bound or step of arange") for value in (first, beyond, step)]
    if not given[2]:
        fail(Kind.MALFORMED_GRAPH, STAGE, "the step of arange is 0")
    if builtins.any(isinstance(value, float) for value in given):
        return constant(np.arange(*given), "fp32" if dtype is None else dtype)
    low, high, by = (int(value) for value in given)
    whole = iota((len(range(low, high, by)),), 0, "i64" if dtype is None or (low, by) != (0, 1) else dtype)
    scaled = whole if by == 1 else whole * by
    shifted = scaled if low == 0 else scaled + low
    return shifted if dtype is None else shifted.cast(dtype)


def iota(shape: Sizes, axis: int, dtype: DTypeLike = "i64") -> Tensor:
    """0, 1, 2, … along `axis`."""
    exact = sizes(shape)
    return Tensor("IOTA", (), {"shape": exact, "axis": axis_in(axis, exact), "dtype": as_dtype(dtype).name})


@takes_torchs_names
def full(shape: Sizes, value: Number, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor with this value everywhere. Without `dtype`, a float is fp32, a whole number i64, True or False bool."""
    return constant(value, dtype).expand(sizes(shape))


@takes_torchs_names
def zeros(*shape: Any, dtype: DTypeLike = "fp32") -> Tensor:
    """Zeros; the sizes are passed one by one, or as one list, which a dtype may follow."""
    exact, element = shape_and_dtype(shape, dtype)
    return full(exact, 0, element)


@takes_torchs_names
def ones(*shape: Any, dtype: DTypeLike = "fp32") -> Tensor:
    """Ones; the sizes as in `zeros`."""
    exact, element = shape_and_dtype(shape, dtype)
    return full(exact, 1, element)


@takes_torchs_names
def full_like(x: Any, value: Number, dtype: DTypeLike | None = None) -> Tensor:
    """This value everywhere, in the shape of x, and in its dtype if no other is stated."""
    like = as_tensor(x)
    return full(like.shape, value, like.dtype if dtype is None else dtype)


@takes_torchs_names
def zeros_like(x: Any, dtype: DTypeLike | None = None) -> Tensor:
    return full_like(x, 0, dtype)


@takes_torchs_names
def ones_like(x: Any, dtype: DTypeLike | None = None) -> Tensor:
    return full_like(x, 1, dtype)


@takes_torchs_names
def eye(n: SupportsIndex, m: SupportsIndex | None = None, dtype: DTypeLike = "fp32") -> Tensor:
    """The matrix [n, m] (None: [n, n]) with ones on the diagonal."""
    grid = (integer(n, "a size"), integer(n if m is None else m, "a size"))
    return (iota(grid, 0) == iota(grid, 1)).cast(dtype)  # type: ignore[no-any-return]


@takes_torchs_names
def linspace(start: Number, stop: Number, num: SupportsIndex = 50, dtype: DTypeLike = "fp32") -> Tensor:
    """`num` numbers from `start` to `stop`, both included."""
    first, last = number(start, "start"), number(stop, "stop")
    return constant(np.linspace(first, last, integer(num, "num")), dtype)


def where(condition: Any, a: Any = None, b: Any = None) -> Tensor:
    """Elementwise choice; the three broadcast together. A condition that is no bool is true where it is not 0."""
    hint = "where(condition, a, b)"
    if a is None or b is None:
        fail(Kind.MALFORMED_GRAPH, STAGE, "the number of True elements is not known", op="where", hint=hint)
    chosen = as_tensor(condition)
    if chosen.dtype.is_float and as_dtype("bool") in (getattr(a, "dtype", None), getattr(b, "dtype", None)):
        fail(Kind.DTYPE_MISMATCH, STAGE, f"a condition of {chosen.dtype} chooses among bools", op="where", hint=hint)
    chosen = chosen.cast("bool")
    branches = [constant(a) if is_number(a) and is_number(b) else _operand(a), _operand(b)]
    element = promotion.common([_spec(branch) for branch in branches])
    return Tensor("WHERE", _broadcast_operands("WHERE", [chosen, *(_cast(x, element) for x in branches)]))


@takes_torchs_names
def concatenate(parts: Sequence[Any], axis: SupportsIndex = 0, **torch: Unpack[Dim]) -> Tensor:
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


cat = concat = concatenate


@takes_torchs_names
def stack(parts: Sequence[Any], axis: SupportsIndex = 0, **torch: Unpack[Dim]) -> Tensor:
    """The parts, which have one shape, side by side along a new axis at the position `axis` of the result."""
    if not isinstance(parts, list | tuple) or not parts:
        fail(Kind.MALFORMED_GRAPH, STAGE, "stack takes a list of at least one tensor")
    tensors = [as_tensor(part) for part in parts]
    if len({part.shape for part in tensors}) > 1:
        shapes = [part.shape for part in tensors]
        refuse(Kind.AXIS_SIZE_MISMATCH, "stack", "the shapes differ", *shapes, hint="parts of one shape")
    return concatenate([part.unsqueeze(axis) for part in tensors], axis)


def einsum(equation: str, *operands: Any) -> Tensor:
    """As numpy.einsum: a product of all operands over all letters, and a sum over the letters that the result lacks."""
    return einsum_of(equation, [as_tensor(operand) for operand in operands])


def barrier(x: Tensor) -> Tensor:
    """The same tensor, stored in memory: no kernel that reads the result computes `x`, or a part of `x`, itself.

    Inputs and constants are in memory in any case. Where `x` is read elsewhere too, it is stored for all readers.
    """
    x = Tensor._of(x)
    if x.uop == "INPUT":
        return x
    stored = Tensor(x.uop, x.src, x.arg, x.array)
    stored.barrier, stored.tag = True, x.tag
    return stored


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


extremum_position = Tensor._extremum_position


def as_tensor(value: Any) -> Tensor:
    """`value` if it is a tensor, else a constant with the array or number."""
    return value if isinstance(value, Tensor) else constant(value)


def elementwise(uop: str, *operands: Any, like: np.ufunc | None = None) -> Tensor:
    """A unary or binary uop on operands that are cast and broadcast as for the NumPy function `like` (None: the uop's
    own).

    Cases that NumPy defines and the uop does not are written with other uops: sums of bools, quotients and floors of
    integers, powers of integers by a constant. x // y of floats is ⌊x / y⌋ and x % y is x − (x // y)·y, rounded at each
    op. NumPy's results differ by one rounding of x / y, which matters near whole quotients and for infinite x or y.
    """
    values = [_operand(value) for value in operands]
    if not builtins.any(isinstance(value, Tensor) for value in values):
        values[0] = as_tensor(values[0])
    try:
        element = promotion.loop(like or promotion.dtypes_of(uop), [_spec(value) for value in values])
    except EqsatError as error:
        raise error.locate(at=types_text(values), op=UOPS[uop].label()) from None
    exact = [_cast(value, element) for value in values]
    if uop == "POW" and type(exact[1]) is int:
        raised: Tensor = power(as_tensor(exact[0]), exact[1])
        return raised
    if element.is_float and uop in ("IDIV", "MOD"):
        whole = elementwise("FDIV", *exact).floor()
        return whole if uop == "IDIV" else exact[0] - whole * exact[1]
    if (not element.is_float and uop in ("FLOOR", "CEIL", "ROUND")) or (element.is_bool and uop == "ABS"):
        return as_tensor(exact[0])
    return Tensor(_OF_BOOLS.get(uop, uop) if element.is_bool else uop, _broadcast_operands(uop, exact))


_OF_BOOLS = {"ADD": "OR", "MUL": "AND", "MAX": "OR", "MIN": "AND"}
"""Uops that stand for arithmetic on bools."""


def _operand(value: Any) -> Tensor | Number:
    """A Python number as it is, anything else as a tensor."""
    if not is_number(value):
        return as_tensor(value)
    number: Number = value
    return int(number) if isinstance(number, ElementCount) else number


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


_KIND = scanning.TensorKind(Tensor, as_tensor, full)
_RANDOM = RandomNumbers(Tensor, as_tensor)
rand, randn, randint, bernoulli = _RANDOM.rand, _RANDOM.randn, _RANDOM.randint, _RANDOM.bernoulli
dropout_mask, random_word = _RANDOM.dropout_mask, _RANDOM.random_word
_FUNCTIONS = TensorFunctions(as_tensor, elementwise, where, concatenate, stack, full, einsum)


def _form(name: str) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(Tensor, name)
    return function_form(as_tensor, method)


def _forms(names: str) -> Iterator[Callable[..., Tensor]]:
    """Methods as functions of a tensor, an array or a number: `tensor.sum(x, axis=1)` is `x.sum(axis=1)`."""
    return map(_form, names.split())


abs, neg, exp, exp2, log, log2, sqrt, rsqrt, reciprocal = _forms("abs neg exp exp2 log log2 sqrt rsqrt reciprocal")
sin, cos, tanh, erf, sigmoid, relu, square, floor, ceil = _forms("sin cos tanh erf sigmoid relu square floor ceil")
round, trunc, isnan, isinf, isfinite, sign, logical_not = _forms("round trunc isnan isinf isfinite sign logical_not")
bitwise_not, t, ravel, maximum, minimum, pow = _forms("bitwise_not t ravel maximum minimum pow")
logical_and, logical_or, logical_xor, bitwise_and = _forms("logical_and logical_or logical_xor bitwise_and")
bitwise_or, bitwise_xor, add, sub, subtract, mul = _forms("bitwise_or bitwise_xor add sub subtract mul")
multiply, div, divide, true_divide, floor_divide = _forms("multiply div divide true_divide floor_divide")
remainder, eq, ne, not_equal, lt, le, less, less_equal = _forms("remainder eq ne not_equal lt le less less_equal")
gt, ge, greater, greater_equal, clip, clamp, lerp, sum = _forms("gt ge greater greater_equal clip clamp lerp sum")
prod, mean, amax, amin, any, all, count_nonzero, argmax = _forms("prod mean amax amin any all count_nonzero argmax")
argmin, var, std, logsumexp, norm, cumsum, cumprod = _forms("argmin var std logsumexp norm cumsum cumprod")
softmax, log_softmax, matmul, dot, mm, bmm, mv, outer = _forms("softmax log_softmax matmul dot mm bmm mv outer")
addmm, baddbmm, reshape, permute, transpose, tile = _forms("addmm baddbmm reshape permute transpose tile")
swapaxes, swapdims, moveaxis, movedim, squeeze = _forms("swapaxes swapdims moveaxis movedim squeeze")
unsqueeze, flatten, unflatten, flip, roll = _forms("unsqueeze flatten unflatten flip roll")
repeat_interleave, select, narrow, diff, tril, triu = _forms("repeat_interleave select narrow diff tril triu")
gather, scatter, take, take_along_dim, take_along_axis = _forms("gather scatter take take_along_dim take_along_axis")
index_select, masked_fill, argsort = _forms("index_select masked_fill argsort")
broadcast_to: Callable[..., Tensor] = _form("expand")
split, chunk, unbind = (_form(name) for name in ("split", "chunk", "unbind"))
max, min, topk, sort = (_form(name) for name in ("max", "min", "topk", "sort"))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        missing("eqsat.tensor", name, public_names(globals()), methods=public_names(dir(Tensor)))
