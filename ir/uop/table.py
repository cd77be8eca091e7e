"""The uops of Tiny IR: ONE table with the kind, arity, attributes, type rule, meaning and cost of every uop.

Every result is rounded to its dtype once; fp16 and bf16 compute in fp32. Integer arithmetic wraps. The `doc` of a uop
says the rest, and its `meaning` is executable.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from ir.dtype import DTYPES, TensorType
from ir.uop import movement as move
from ir.uop import playback as on_arrays
from ir.uop import types
from ir.uop.args import Arg, ArgKind, ArgSpec
from ir.uop.loop import loop
from ir.uop.philox import WORDS
from ir.uop.playback import Array, Meaning
from ir.uop.types import TypeRule
from ir.uop.view import view, view_array

__all__ = [
    "BITCASTS",
    "CHOICES",
    "ELEMENTARY",
    "FUNCTIONS",
    "SCANS",
    "UOPS",
    "Arg",
    "ArgKind",
    "ArgSpec",
    "UOp",
    "UOpKind",
    "total_flops",
]


class UOpKind(enum.StrEnum):
    """How the later stages treat a uop."""

    INPUT = "input"
    INDEX = "index"
    MOVEMENT = "movement"
    UNARY = "unary"
    BINARY = "binary"
    TERNARY = "ternary"
    CAST = "cast"
    REDUCE = "reduce"
    SCAN = "scan"
    GATHER = "gather"
    SCATTER = "scatter"
    LOOP = "loop"

    @property
    def is_elementwise(self) -> bool:
        """Whether element i of the result needs only elements i of the operands."""
        return self in (UOpKind.UNARY, UOpKind.BINARY, UOpKind.TERNARY, UOpKind.CAST)


class UOp(msgspec.Struct, frozen=True):
    """One row of the table.

    arity     the number of operands, or ANY
    flops     the work of one result element in additions; for a REDUCE or SCAN, of one element of the operand; for a
              SCATTER, of one update; for a LOOP, nothing beside the work of its graph

    Of an elementwise uop:

    ufunc     the NumPy function that is the uop, if there is one; two uops cannot be the same function
    like      the NumPy function whose dtypes the uop follows on lazy tensors, if not `ufunc`
    method    the method of lazy tensors, from which `python -m docs.make_operators` writes `eqsat/lazy/operators.py`
    called    the name of the functions that kernels call, where they are those of another uop: "fdiv"
    approximate  every implementation approximates the function, and no two of them have the same bits
    samples   known answers, for the tests: the operands, then the result
    """

    name: str
    kind: UOpKind
    arity: int
    args: Mapping[str, ArgSpec]
    infer: TypeRule
    meaning: Meaning
    flops: int
    doc: str
    ufunc: np.ufunc | None = None
    like: np.ufunc | None = None
    method: str | None = None
    called: str | None = None
    approximate: bool = False
    samples: tuple[tuple[float, ...], ...] = ()

    @property
    def has_condition(self) -> bool:
        """Whether the first operand is a bool that chooses between the others."""
        return self.name == "WHERE"

    @property
    def fn(self) -> str:
        """The name in texts: "add", "relu"."""
        return self.name.lower()

    @property
    def keeps_bits(self) -> bool:
        """Whether a result has the bits of its operand, even those of a NaN or of a denormal."""
        return self.name.startswith("BITCAST")

    @property
    def choice(self) -> str | None:
        """The attribute of which every value is a function of its own; None if there is none."""
        return next((key for key, spec in self.args.items() if spec.kind in CHOICES), None)

    def function(self, arg: Mapping[str, Any]) -> str:
        """The name of the uop with these attributes that regions, rules and kernels use: "add", "random_3"."""
        return self.fn if self.choice is None else f"{self.fn}_{arg[self.choice]}"

    def label(self, arg: Mapping[str, Any] = MappingProxyType({})) -> str:
        """The name in diagnostics: "Binary(add)", "Reduce(sum)" by its `op`, "Cast" if kind and function agree."""
        fn = str(arg.get("op", self.fn)).lower() if self.kind in (UOpKind.REDUCE, UOpKind.SCATTER) else self.fn
        return self.kind.title() if fn == self.kind else f"{self.kind.title()}({fn})"

    def type_of(self, src: Sequence[TensorType], arg: Mapping[str, Any]) -> TensorType:
        """The result's type; raises EqsatError."""
        return self.infer(src, arg)

    def apply(self, xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool = False) -> Array:
        """The result. Operands are in their dtypes (every float fp64 when `wide`); immediates are 0-d arrays."""
        with np.errstate(all="ignore"):
            return self.meaning(xs, arg, out, wide)


def total_flops(uop: UOp, src: Sequence[TensorType], out: TensorType) -> int:
    """The work of the whole result, in additions."""
    match uop.kind:
        case UOpKind.REDUCE | UOpKind.SCAN:
            counted = src[0].size
        case UOpKind.SCATTER:
            counted = src[2].size
        case _:
            counted = out.size
    return counted * uop.flops


CHOICES: Mapping[ArgKind, Sequence[Any]] = MappingProxyType(
    {
        ArgKind.WORD: range(WORDS),
        ArgKind.OPERAND: tuple(name for name, element in DTYPES.items() if not element.is_bool),
    }
)
"""The values of an attribute of which every value is a function of its own."""
ANY = -1
"""The arity of a uop that takes any number of operands."""
CHEAP = 1
"""Cost of an arithmetic op, in additions. Higher weights in the table are times of this project's own vector code
(`codegen/text/prelude/c`) for fp32 (of integer ops: i32) divided by the time of an addition, on a Zen 5 core with 16
lanes, rounded; `codegen.measure.op_speeds` measures them. Those of SHL and SHR are from a Zen 4 core.
`ir.target.Target.weights` has the deviations of machines and dtypes."""

RANDOM_FLOPS = 130
"""Cost of a RANDOM: in each of 10 rounds 2 products of 32-bit words, in 64-bit lanes, with shifts and exclusive ors.
Measured beside exp, log and sin on a Zen 4 core."""

SCANS: Mapping[str, str] = MappingProxyType({"sum": "CUMSUM", "prod": "CUMPROD", "max": "CUMMAX"})
"""The uop of every scan function."""


def _args(**specs: ArgKind | tuple[ArgKind]) -> Mapping[str, ArgSpec]:
    """Attributes by name; a kind in a 1-tuple is optional."""
    return MappingProxyType(
        {name: ArgSpec(spec[0], False) if isinstance(spec, tuple) else ArgSpec(spec) for name, spec in specs.items()}
    )


def _movement(name: str, infer: TypeRule, meaning: Meaning, doc: str, **specs: Any) -> UOp:
    return UOp(name, UOpKind.MOVEMENT, 1, _args(**specs), infer, meaning, 0, doc)


def _unary(
    name: str, allowed: types.Allowed, fn: Callable[..., Array], flops: int, doc: str, *, method: str = "", **more: Any
) -> UOp:
    """An op of one operand. `fn` is its meaning; a NumPy function is also its `ufunc`."""
    infer, meaning = types.elementwise(allowed), on_arrays.elementwise(fn)
    facts = {"ufunc": _ufunc(fn), "method": method or name.lower(), **more}
    return UOp(name, UOpKind.UNARY, 1, _args(), infer, meaning, flops, doc, **facts)


def _binary(
    name: str, allowed: types.Allowed, fn: Callable[..., Array], flops: int, doc: str, method: str, **more: Any
) -> UOp:
    infer, meaning = types.elementwise(allowed), on_arrays.elementwise(fn)
    facts = {"ufunc": _ufunc(fn), "method": method, **more}
    return UOp(name, UOpKind.BINARY, 2, _args(), infer, meaning, flops, doc, **facts)


def _compare(name: str, fn: np.ufunc, doc: str, method: str) -> UOp:
    meaning = on_arrays.comparison(fn)
    return UOp(name, UOpKind.BINARY, 2, _args(), types.comparison, meaning, CHEAP, doc, ufunc=fn, method=method)


def _ufunc(fn: Callable[..., Array]) -> np.ufunc | None:
    return fn if isinstance(fn, np.ufunc) else None


def _scan(name: str, op: str, doc: str) -> UOp:
    specs = _args(axis=ArgKind.AXIS, dtype=ArgKind.DTYPE)
    return UOp(name, UOpKind.SCAN, 1, specs, types.scan(boolean=op == "MAX"), on_arrays.scan(op), CHEAP, doc)


def _table(rows: Iterable[UOp]) -> Mapping[str, UOp]:
    return MappingProxyType({row.name: row for row in rows})


_K = ArgKind
_SOURCES = (
    UOp(
        "INPUT",
        UOpKind.INPUT,
        0,
        _args(
            tensor_id=_K.NAME, dtype=_K.DTYPE, shape=_K.DIMS, storage=(_K.TEXT,), names=(_K.NAMES,)
        ),
        types.input_,
        lambda xs, arg, out, wide: xs[0],
        0,
        "the tensor that the caller passes as tensor_id; storage is a hint such as const_pool",
    ),
    UOp(
        "IOTA",
        UOpKind.INDEX,
        0,
        _args(shape=_K.DIMS, axis=_K.AXIS, dtype=_K.DTYPE, names=(_K.NAMES,)),
        types.iota,
        on_arrays.iota,
        0,
        "0, 1, 2, … along axis, the same along every other",
    ),
)  # fmt: skip
_MOVEMENTS = (
    _movement(
        "RESHAPE", move.reshape, on_arrays.reshape, "row-major; the number of elements stays",
        result_shape=_K.DIMS, names=(_K.NAMES,),
    ),
    _movement("PERMUTE", move.permute, on_arrays.permute, "result axis i is source axis perm[i]", perm=_K.AXES),
    _movement(
        "EXPAND", move.expand, on_arrays.expand,
        "axes of size 1 repeat; broadcast_dimensions lists the result axes that do not (the loader checks it)",
        result_shape=_K.DIMS, broadcast_dimensions=(_K.AXES,), names=(_K.NAMES,),
    ),
    _movement(
        "PAD", move.pad, on_arrays.pad, "each axis grows by [low, high] elements that hold value (0)",
        pad=_K.PAIRS, value=(_K.NUMBER,),
    ),
    _movement(
        "SHRINK", move.shrink, on_arrays.shrink, "per axis the elements lo, lo + step, … below hi",
        lo=_K.DIMS, hi=_K.DIMS, step=(_K.DIMS,),
    ),
    _movement("FLIP", move.flip, on_arrays.flip, "the listed axes run backwards", axes=_K.AXES),
    _movement(
        "VIEW", view, view_array,
        "result[i0, i1, …] = source[x0, x1, …], each x an expression over the i: + - * and // by constants",
        result_shape=_K.DIMS, index_map=_K.INDEX_MAP, names=(_K.NAMES,),
    ),
    _movement(
        "POOL", move.pool, on_arrays.pool,
        "windows over the last len(kernel) axes: result[…, o…, k…] = source[…, o·stride + k·dilation…]",
        kernel=_K.DIMS, stride=(_K.DIMS,), dilation=(_K.DIMS,), names=(_K.NAMES,),
    ),
)  # fmt: skip
_UNARIES = (
    _unary("NEG", types.numbers, np.negative, CHEAP, "−x; integers wrap", method="__neg__"),
    _unary("ABS", types.numbers, np.abs, CHEAP, "|x|; the least integer wraps to itself", method="__abs__"),
    _unary("RECIP", types.floats, np.reciprocal, 3, "1 / x"),
    _unary("SQRT", types.floats, np.sqrt, 7, "√x; NaN below 0"),
    _unary("RSQRT", types.floats, lambda x: 1 / np.sqrt(x), 12, "1 / √x", like=np.sqrt),
    _unary("EXP", types.floats, np.exp, 12, "eˣ", approximate=True),
    _unary("EXP2", types.floats, np.exp2, 10, "2ˣ", approximate=True),
    _unary("LOG", types.floats, np.log, 29, "ln x", approximate=True),
    _unary("LOG2", types.floats, np.log2, 31, "log₂ x", approximate=True),
    _unary("SIN", types.floats, np.sin, 51, "sin x, radians", approximate=True),
    _unary("COS", types.floats, np.cos, 48, "cos x, radians", approximate=True),
    _unary("TANH", types.floats, np.tanh, 29, "tanh x", approximate=True),
    _unary("ERF", types.floats, on_arrays.erf, 43, "2/√π ∫₀ˣ exp(−t²) dt", like=np.exp, approximate=True),
    _unary("SIGMOID", types.floats, on_arrays.sigmoid, 20, "1 / (1 + e⁻ˣ)", like=np.exp, approximate=True),
    _unary("RELU", types.numbers, on_arrays.relu, CHEAP, "0 where x ≤ 0, else x; NaN stays", like=np.positive),
    _unary("FLOOR", types.floats, np.floor, CHEAP, "the greatest whole number ≤ x"),
    _unary("CEIL", types.floats, np.ceil, CHEAP, "the least whole number ≥ x"),
    _unary("ROUND", types.floats, np.rint, CHEAP, "the nearest whole number, half to even", like=np.floor),
    _unary("NOT", types.logical, np.invert, CHEAP, "¬x; every bit of an integer", method="__invert__"),
)
_BINARIES = (
    _binary("ADD", types.numbers, np.add, CHEAP, "x + y", "__add__"),
    _binary("SUB", types.numbers, np.subtract, CHEAP, "x − y", "__sub__"),
    _binary("MUL", types.numbers, np.multiply, CHEAP, "x · y", "__mul__"),
    _binary("FDIV", types.floats, np.true_divide, 3, "x / y", "__truediv__"),
    UOp(
        "QUOTIENT", UOpKind.BINARY, 2, _args(), types.elementwise(types.floats), on_arrays.elementwise(np.true_divide),
        3, "x / y, rounded once at every level of exactness", called="fdiv",
    ),
    _binary(
        "IDIV", types.integers, on_arrays.integer_division, 34, "⌊x / y⌋; 0 where y = 0", "__floordiv__",
        ufunc=np.floor_divide,
    ),
    _binary(
        "MOD", types.integers, on_arrays.integer_remainder, 38, "x − y·⌊x / y⌋; 0 where y = 0", "__mod__",
        ufunc=np.remainder,
    ),
    _binary("MAX", types.numbers, np.maximum, 2, "the greater; NaN if either is", "maximum"),
    _binary("MIN", types.numbers, np.minimum, 2, "the lesser; NaN if either is", "minimum"),
    _binary("POW", types.floats, on_arrays.power, 418, "xʸ as C's pow", "__pow__", ufunc=np.power, approximate=True),
    _compare("CMPLT", np.less, "x < y", "__lt__"),
    _compare("CMPLE", np.less_equal, "x ≤ y", "__le__"),
    _compare("CMPGT", np.greater, "x > y", "__gt__"),
    _compare("CMPGE", np.greater_equal, "x ≥ y", "__ge__"),
    _compare("CMPEQ", np.equal, "x = y; false if either is NaN", "__eq__"),
    _compare("CMPNE", np.not_equal, "x ≠ y; true if either is NaN", "__ne__"),
    _binary("AND", types.logical, np.bitwise_and, CHEAP, "x ∧ y, bit by bit", "__and__"),
    _binary("OR", types.logical, np.bitwise_or, CHEAP, "x ∨ y, bit by bit", "__or__"),
    _binary("XOR", types.logical, np.bitwise_xor, CHEAP, "x ⊕ y, bit by bit", "__xor__"),
    _binary(
        "SHL", types.integers, np.left_shift, 2,
        "x·2^y, wrapped; 0 where y is negative or not below the width", "__lshift__",
    ),
    _binary(
        "SHR", types.integers, np.right_shift, 2,
        "⌊x / 2^y⌋; where y is negative or not below the width, 0 for x ≥ 0 and −1 for x < 0", "__rshift__",
    ),
)  # fmt: skip
_OTHERS = (
    UOp(
        "WHERE", UOpKind.TERNARY, 3, _args(), types.where, on_arrays.where, CHEAP,
        "the second operand where the first is true, else the third",
    ),
    UOp(
        "RANDOM", UOpKind.TERNARY, 3, _args(word=_K.WORD), types.random, on_arrays.random, RANDOM_FLOPS,
        "a word (0, 1, 2 or 3) of what Philox 4x32-10 gives for a counter; the operands are the counter's low 64 bits "
        "(the offset), its high 64 bits (the subsequence), and the key (the seed)",
    ),
    UOp(
        "CAST", UOpKind.CAST, 1, _args(to=_K.DTYPE), types.cast, on_arrays.cast, CHEAP,
        "to floats rounds to nearest even (integers to bf16 by way of fp32); float to integer truncates, saturates, "
        "NaN gives 0; integer to integer wraps; to bool is x ≠ 0",
    ),
    UOp(
        "BITCAST", UOpKind.UNARY, 1, _args(to=_K.DTYPE, of=(_K.OPERAND,)), types.bitcast, on_arrays.bitcast, CHEAP,
        "the bits of a number of dtype `of` read as the dtype `to`, which is as wide; of a NaN and a denormal too",
    ),
    UOp(
        "REDUCE", UOpKind.REDUCE, 1,
        _args(op=_K.REDUCTION, axes=_K.AXES, dtype=_K.DTYPE, init=(_K.NUMBER,)),
        types.reduce, on_arrays.reduction, CHEAP,
        "SUM, MAX, MIN or PROD over axes, which vanish; over no elements it is 0, the lowest, the highest, or 1; init "
        "is one more element; floats accumulate at least in fp32 and in the source's precision, integers in dtype; "
        "MAX and MIN give NaN if any element is",
    ),
    _scan("CUMSUM", "SUM", "the sum of the elements up to and including this one along axis"),
    _scan("CUMPROD", "PROD", "the product of the elements up to and including this one along axis"),
    _scan("CUMMAX", "MAX", "the greatest of the elements up to and including this one along axis"),
    UOp(
        "GATHER", UOpKind.GATHER, 2, _args(axis=_K.AXIS), types.gather, on_arrays.gather, 0,
        "result[i, j, k] = source[i, index[i, j, k], k] for axis 1; an index outside is clamped to the nearest end",
    ),
    UOp(
        "SCATTER", UOpKind.SCATTER, 3, _args(axis=_K.AXIS, op=_K.COMBINATION), types.scatter, on_arrays.scatter, CHEAP,
        "source, then for j = 0, 1, …: result[i, index[i, j, k], k] is combined with updates[i, j, k] for axis 1; an "
        "index below 0 or beyond the axis changes nothing; op LAST keeps the last update of an element, SUM, PROD, MAX "
        "and MIN combine the element with all its updates in their order, each result rounded",
    ),
    UOp(
        "LOOP", UOpKind.LOOP, ANY,
        _args(
            graph=_K.GRAPH, states=_K.COUNT, scanned=_K.COUNT, result=_K.COUNT, trips=(_K.SIZE,), reverse=(_K.FLAG,)
        ),
        loop, on_arrays.loop, 0,
        "graph runs once per trip on the states, one element of each scanned operand, and the other operands; `result` "
        "is the number of one of its values: first the last states, then its other results, stacked along axis 0",
    ),
)  # fmt: skip

UOPS: Mapping[str, UOp] = _table((*_SOURCES, *_MOVEMENTS, *_UNARIES, *_BINARIES, *_OTHERS))
"""Every uop by its name."""
ELEMENTARY = frozenset(name for name, uop in UOPS.items() if uop.approximate)
"""Functions that every implementation approximates."""


def _elementwise_functions() -> Iterator[UOp]:
    for uop in UOPS.values():
        if uop.kind.is_elementwise:
            key = uop.choice
            yield from (_fixed(uop, key, value) for value in CHOICES[uop.args[key].kind]) if key else (uop,)


def _fixed(uop: UOp, key: str, value: Any) -> UOp:
    """The uop with the value of its attribute `key` fixed."""

    def infer(src: Sequence[TensorType], arg: Mapping[str, Any]) -> TensorType:
        return uop.infer(src, {**arg, key: value})

    def meaning(xs: Sequence[Array], arg: Mapping[str, Any], out: TensorType, wide: bool) -> Array:
        return uop.meaning(xs, {**arg, key: value}, out, wide)

    name = uop.function({key: value}).upper()
    args = MappingProxyType({other: spec for other, spec in uop.args.items() if other != key})
    return msgspec.structs.replace(uop, name=name, args=args, infer=infer, meaning=meaning)


FUNCTIONS: Mapping[str, UOp] = MappingProxyType({uop.fn: uop for uop in _elementwise_functions()})
"""Every elementwise uop by the name that regions, rules and kernels use. RANDOM is four functions, one for a word, and
BITCAST is one for every dtype of its operand."""
BITCASTS = frozenset(fn for fn, uop in FUNCTIONS.items() if uop.keeps_bits)
"""The functions of BITCAST."""
