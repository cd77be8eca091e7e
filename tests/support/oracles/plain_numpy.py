"""An independent evaluator of Tiny IR, written from the design and the seeds alone.

It shares no code with `ir.uop.playback`, `ir.tiny.playback` or the table of uops, so that their misreadings are found.
Movements gather from the flat source by this file's index arithmetic. Sums run term by term in index order, in the
accumulator. Floats round at every uop, fp16 and bf16 by way of fp32.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import scipy.special

from ir.dtype import TensorType
from ir.tiny.graph import Graph, Imm, Node

Array = np.ndarray[Any, Any]
DTYPES: Mapping[str, Any] = {
    "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64, "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
FLOATS = ("fp16", "bf16", "fp32", "fp64")
NARROW = ("fp16", "bf16")


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """The outputs in order, in their dtypes."""
    values: dict[str, Array] = {}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            result = graph.types[node.id]
            dtypes = [graph.types[ref].dtype.name for ref in node.refs]
            shapes = [graph.types[ref].shape for ref in node.refs]
            operands = [_operand(operand, values, dtypes[-1] if dtypes else result.dtype.name) for operand in node.src]
            if node.uop == "WHERE":
                operands = _branches(node, operands, dtypes, result.dtype.name)
            value = _value(node, operands, dtypes, shapes, result.dtype.name, result.shape, inputs)
            values[node.id] = np.asarray(np.broadcast_to(value, result.shape), DTYPES[result.dtype.name])
    return tuple(values[ref] for ref in graph.outputs)


def _operand(operand: str | Imm, values: Mapping[str, Array], beside: str) -> Array:
    return _rounded(np.asarray(operand.value), beside) if isinstance(operand, Imm) else values[operand]


def _branches(node: Node, operands: list[Array], dtypes: list[str], element: str) -> list[Array]:
    """The operands of a WHERE, whose immediates take the dtype of the other branch."""
    return [
        _rounded(np.asarray(source.value), element if slot else "bool") if isinstance(source, Imm) else operand
        for slot, (source, operand) in enumerate(zip(node.src, operands, strict=True))
    ]


def _value(
    node: Node,
    operands: Sequence[Array],
    dtypes: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    element: str,
    shape: tuple[int, ...],
    inputs: Mapping[str, Array],
) -> Array:
    arg, uop = node.arg, node.uop
    if uop == "INPUT":
        return np.asarray(inputs[arg["tensor_id"]])
    if uop == "IOTA":
        return _rounded(np.indices(shape)[arg["axis"]] if shape else np.zeros(()), element)
    if uop in MOVEMENTS:
        return _moved(operands[0], shape, MOVEMENTS[uop](shapes[0], shape, arg), arg.get("value", 0), element)
    if uop == "GATHER":
        return _gathered(operands[0], operands[1], arg["axis"])
    if uop == "SCATTER":
        return _scattered(operands, arg["op"], arg["axis"], element)
    if uop == "CAST":
        return _rounded(operands[0], element)
    if uop == "BITCAST":
        return operands[0].view(DTYPES[element])
    if uop == "REDUCE":
        return _reduced(operands[0], arg, dtypes[0], element)
    if uop in SCANS:
        return _scanned(operands[0], SCANS[uop], arg["axis"], dtypes[0], element)
    if uop in COMPARISONS:
        return COMPARISONS[uop](operands[0], operands[1])
    if uop == "WHERE":
        return np.where(operands[0].astype(bool), operands[1], operands[2])
    if uop == "RANDOM":
        return _random(operands, arg["word"])
    wide = [_wide(operand, element) for operand in operands]
    if uop not in POINTWISE and node.op.samples:  # known answers test the meaning that the row states
        return node.op.apply(operands, arg, TensorType.of(element, shape))
    return _rounded(POINTWISE[uop](*wide), element)


def _wide(x: Array, element: str) -> Array:
    """An operand in the dtype that its op computes in."""
    return x.astype(np.float32) if element in NARROW else x


def _rounded(x: Array, element: str) -> Array:
    """CAST: floats to the nearest even, bf16 by way of fp32; floats to integers cut off and held within the ends, NaN
    as 0; integers modulo 2^bits; a bool is whether it is not 0."""
    x = np.asarray(x)
    if x.dtype == DTYPES[element]:
        return x
    if element == "bool":
        return np.asarray(x != 0)
    if element in FLOATS:
        return x.astype(np.float32).astype(ml_dtypes.bfloat16) if element == "bf16" else x.astype(DTYPES[element])
    if x.dtype.kind in "biu":
        bits, is_signed = 8 * np.dtype(DTYPES[element]).itemsize, element.startswith("i")
        flat = [int(value) % (1 << bits) for value in x.ravel().tolist()]
        signed = [value - (1 << bits) if is_signed and value >> (bits - 1) else value for value in flat]
        return np.array(signed, DTYPES[element]).reshape(x.shape)
    ends = np.iinfo(DTYPES[element])
    flat = [0 if math.isnan(value) else _held(value, int(ends.min), int(ends.max)) for value in map(float, x.ravel())]
    return np.array(flat, DTYPES[element]).reshape(x.shape)


def _held(x: float, low: int, high: int) -> int:
    return high if x >= high else low if x <= low else int(x)


# movements: result index → source index


def _moved(x: Array, shape: tuple[int, ...], source: Callable[..., Any], value: Any, element: str) -> Array:
    """Element by element of the result; None is the padding's value."""
    result = np.empty(shape, x.dtype)
    fill = _rounded(np.asarray(value), element)
    grid = np.indices(shape, sparse=False).reshape(len(shape), -1) if shape else np.zeros((0, 1), np.int64)
    where, inside = source(grid)
    flat = np.zeros(grid.shape[1], np.int64)
    for at, size in zip(where, x.shape, strict=True):
        flat = flat * size + np.where(inside, at, 0)
    picked = x.ravel()[flat] if x.size else np.full(flat.shape, fill)
    result[...] = np.where(inside, picked, fill).reshape(shape)
    return result


def _all(grid: Array) -> Array:
    return np.ones(grid.shape[1], bool)


def _reshape(before: tuple[int, ...], after: tuple[int, ...], arg: Mapping[str, Any]) -> Callable[..., Any]:
    def source(grid: Array) -> Any:
        flat = np.zeros(grid.shape[1], np.int64)
        for at, size in zip(grid, after, strict=True):
            flat = flat * size + at
        results = []
        for size in reversed(before):
            results.append(flat % max(size, 1))
            flat = flat // max(size, 1)
        return results[::-1], _all(grid)

    return source


def _permute(before: tuple[int, ...], after: tuple[int, ...], arg: Mapping[str, Any]) -> Callable[..., Any]:
    order = list(arg["perm"])
    return lambda grid: ([grid[order.index(axis)] for axis in range(len(before))], _all(grid))


def _expand(before: tuple[int, ...], after: tuple[int, ...], arg: Mapping[str, Any]) -> Callable[..., Any]:
    return lambda grid: ([at * (size != 1) for at, size in zip(grid, before, strict=True)], _all(grid))


def _pad(before: tuple[int, ...], after: tuple[int, ...], arg: Mapping[str, Any]) -> Callable[..., Any]:
    def source(grid: Array) -> Any:
        where = [at - low for at, (low, _) in zip(grid, arg["pad"], strict=True)]
        inside = _all(grid)
        for at, size in zip(where, before, strict=True):
            inside &= (at >= 0) & (at < size)
        return where, inside

    return source


def _shrink(before: tuple[int, ...], after: tuple[int, ...], arg: Mapping[str, Any]) -> Callable[..., Any]:
    steps = arg.get("step", (1,) * len(before))
    return lambda grid: (
        [low + step * at for at, low, step in zip(grid, arg["lo"], steps, strict=True)],
        _all(grid),
    )


def _flip(before: tuple[int, ...], after: tuple[int, ...], arg: Mapping[str, Any]) -> Callable[..., Any]:
    return lambda grid: (
        [
            size - 1 - at if axis in arg["axes"] else at
            for axis, (at, size) in enumerate(zip(grid, before, strict=True))
        ],
        _all(grid),
    )


def _pool(before: tuple[int, ...], after: tuple[int, ...], arg: Mapping[str, Any]) -> Callable[..., Any]:
    n = len(arg["kernel"])
    stride, dilation = arg.get("stride", (1,) * n), arg.get("dilation", (1,) * n)
    lead = len(before) - n

    def source(grid: Array) -> Any:
        inner = [grid[lead + k] * stride[k] + grid[lead + n + k] * dilation[k] for k in range(n)]
        return [*grid[:lead], *inner], _all(grid)

    return source


_TEXT = re.compile(r"[\d\s+\-*/()i]*\Z")


def _view(before: tuple[int, ...], after: tuple[int, ...], arg: Mapping[str, Any]) -> Callable[..., Any]:
    def source(grid: Array) -> Any:
        names: dict[str, Any] = {f"i{axis}": at for axis, at in enumerate(grid)}
        results = []
        for text in arg["index_map"]:
            assert _TEXT.match(text), text
            results.append(eval(text, {"__builtins__": {}}, names) + np.zeros(grid.shape[1], np.int64))
        return results, _all(grid)

    return source


MOVEMENTS: Mapping[str, Callable[..., Callable[..., Any]]] = {
    "RESHAPE": _reshape, "PERMUTE": _permute, "EXPAND": _expand, "PAD": _pad, "SHRINK": _shrink, "FLIP": _flip,
    "POOL": _pool, "VIEW": _view,
}  # fmt: skip


def _gathered(x: Array, index: Array, axis: int) -> Array:
    result = np.empty(index.shape, x.dtype)
    for at in itertools.product(*map(range, index.shape)):
        place = min(max(int(index[at]), 0), x.shape[axis] - 1)
        result[at] = x[(*at[:axis], place, *at[axis + 1 :])]
    return result


COMBINING: Mapping[str, np.ufunc] = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}


def _scattered(operands: Sequence[Array], op: str, axis: int, element: str) -> Array:
    source, index, updates = operands
    result = source.copy()
    for at in itertools.product(*map(range, index.shape)):
        place = int(index[at])
        if 0 <= place < source.shape[axis]:
            to = (*at[:axis], place, *at[axis + 1 :])
            old, new = (_wide(np.asarray(value), element) for value in (result[to], updates[at]))
            combined = new if op == "LAST" else COMBINING[op](old, new)
            result[to] = _rounded(np.asarray(combined), element)
    return result


# reductions and scans


def _accumulator(source: str, result: str) -> str:
    """The wider of fp32, the source and the result; integers in the result's dtype."""
    if result not in FLOATS:
        return result
    return "fp64" if "fp64" in (source, result) else "fp32"


def _combined(op: str, a: Array, b: Array) -> Array:
    if a.dtype == bool:
        return (a | b) if op in ("SUM", "MAX") else (a & b)
    if op == "SUM":
        return a + b
    if op == "PROD":
        return a * b
    chosen = np.where(a > b, a, b) if op == "MAX" else np.where(a < b, a, b)
    return np.where(a != a, a, np.where(b != b, b, chosen)) if a.dtype.kind not in "biu" else chosen


def _first(op: str, element: str) -> Array:
    if op in ("SUM", "PROD"):
        return np.asarray(op == "PROD").astype(DTYPES[element])
    if element in FLOATS:
        return np.asarray(-math.inf if op == "MAX" else math.inf, DTYPES[element])
    if element == "bool":
        return np.asarray(op == "MIN")
    ends = np.iinfo(DTYPES[element])
    return np.asarray(ends.min if op == "MAX" else ends.max, DTYPES[element])


def _reduced(x: Array, arg: Mapping[str, Any], source: str, result: str) -> Array:
    accumulator, axes = _accumulator(source, result), tuple(arg["axes"])
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    reduced = [axis for axis in range(x.ndim) if axis in axes]
    terms = _rounded(x, accumulator).transpose([*reduced, *kept])
    terms = terms.reshape(math.prod(x.shape[axis] for axis in reduced), *(x.shape[axis] for axis in kept))
    start = _rounded(np.asarray(arg["init"]), accumulator) if "init" in arg else _first(arg["op"], accumulator)
    total = np.full(terms.shape[1:], start)
    for term in terms:
        total = _combined(arg["op"], total, term)
    return _rounded(total, result)


SCANS: Mapping[str, str] = {"CUMSUM": "SUM", "CUMPROD": "PROD", "CUMMAX": "MAX"}


def _scanned(x: Array, op: str, axis: int, source: str, result: str) -> Array:
    accumulator = _accumulator(source, result)
    terms = np.moveaxis(_rounded(x, accumulator), axis, 0)
    total, actual = None, []
    for term in terms:
        total = term if total is None else _combined(op, total, term)
        actual.append(total)
    return _rounded(np.moveaxis(np.array(actual).reshape(terms.shape), 0, axis), result) if actual else x


# elementwise


def _random(operands: Sequence[Array], word: int) -> Array:
    """Random123's philox4x32-10, one counter at a time, on Python's integers."""
    together = np.broadcast(*operands)
    results = [philox_words(int(low) | int(high) << 64, int(seed))[word] for low, high, seed in together]
    return np.array(results, np.uint32).reshape(together.shape)


def philox_words(counter: int, key: int) -> tuple[int, int, int, int]:
    """The four words for a counter of 128 bits and a key of 64 bits."""
    x0, x1, x2, x3 = ((counter >> 32 * word) % 2**32 for word in range(4))
    for number in range(10):
        keys = [(part + number * step) % 2**32 for part, step in ((key, 0x9E3779B9), (key >> 32, 0xBB67AE85))]
        p0, p2 = x0 * 0xD2511F53, x2 * 0xCD9E8D57
        x0, x1, x2, x3 = p2 // 2**32 ^ x1 ^ keys[0], p2 % 2**32, p0 // 2**32 ^ x3 ^ keys[1], p0 % 2**32
    return x0, x1, x2, x3


def _divided(a: Array, b: Array) -> Array:
    """⌊a / b⌋, 0 where b = 0; the least integer over −1 wraps."""
    safe = np.where(b == 0, 1, b)
    flat = [int(p) // int(q) if r else 0 for p, q, r in np.broadcast(a, safe, b)]
    return np.array(flat, object).reshape(np.broadcast_shapes(np.shape(a), np.shape(b)))


def _remainder(a: Array, b: Array) -> Array:
    safe = np.where(b == 0, 1, b)
    flat = [int(p) % int(q) if r else 0 for p, q, r in np.broadcast(a, safe, b)]
    return np.array(flat, object).reshape(np.broadcast_shapes(np.shape(a), np.shape(b)))


def _shifted_left(a: Array, b: Array) -> Array:
    width = 8 * a.itemsize
    flat = [int(p) * 2 ** int(q) if 0 <= q < width else 0 for p, q in np.broadcast(a, b)]
    return np.array(flat, object).reshape(np.broadcast_shapes(np.shape(a), np.shape(b)))


def _shifted_right(a: Array, b: Array) -> Array:
    width = 8 * a.itemsize
    flat = [int(p) // 2 ** (int(q) if 0 <= q < width else width) for p, q in np.broadcast(a, b)]
    return np.array(flat, object).reshape(np.broadcast_shapes(np.shape(a), np.shape(b)))


def _wrapped(fn: Callable[..., Array]) -> Callable[..., Array]:
    """An integer op on Python's integers, which do not wrap, then modulo 2^bits of its operands."""

    def apply(a: Array, b: Array) -> Array:
        bits, signed = 8 * a.itemsize, a.dtype.kind == "i"
        flat = [int(value) % (1 << bits) for value in fn(a, b).ravel()]
        held = [value - (1 << bits) if signed and value >> (bits - 1) else value for value in flat]
        return np.array(held, a.dtype).reshape(np.broadcast_shapes(np.shape(a), np.shape(b)))

    return apply


def _relu(x: Array) -> Array:
    return np.where(x <= 0, np.zeros((), x.dtype), x)


def _most(a: Array, b: Array) -> Array:
    return _combined("MAX", *np.broadcast_arrays(a, b))


def _least(a: Array, b: Array) -> Array:
    return _combined("MIN", *np.broadcast_arrays(a, b))


POINTWISE: Mapping[str, Callable[..., Array]] = {
    "NEG": lambda x: -x, "ABS": np.abs, "RECIP": lambda x: 1 / x, "SQRT": np.sqrt, "RSQRT": lambda x: 1 / np.sqrt(x),
    "EXP": np.exp, "EXP2": np.exp2, "LOG": np.log, "LOG2": np.log2, "SIN": np.sin, "COS": np.cos, "TANH": np.tanh,
    "ERF": scipy.special.erf, "SIGMOID": lambda x: scipy.special.expit(x.astype(np.float64)),
    "RELU": _relu, "FLOOR": np.floor, "CEIL": np.ceil, "ROUND": np.round,
    "NOT": lambda x: ~x, "ADD": lambda a, b: a + b, "SUB": lambda a, b: a - b, "MUL": lambda a, b: a * b,
    "FDIV": lambda a, b: a / b, "QUOTIENT": lambda a, b: a / b,
    "IDIV": _wrapped(_divided), "MOD": _wrapped(_remainder), "MAX": _most, "MIN": _least,
    "POW": np.power, "AND": lambda a, b: a & b, "OR": lambda a, b: a | b, "XOR": lambda a, b: a ^ b,
    "SHL": _wrapped(_shifted_left), "SHR": _wrapped(_shifted_right),
}  # fmt: skip
COMPARISONS: Mapping[str, Callable[..., Array]] = {
    "CMPLT": lambda a, b: a < b, "CMPLE": lambda a, b: a <= b, "CMPGT": lambda a, b: a > b,
    "CMPGE": lambda a, b: a >= b, "CMPEQ": lambda a, b: a == b, "CMPNE": lambda a, b: a != b,
}  # fmt: skip
