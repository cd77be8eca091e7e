"""NumPy definitions of the elementwise functions of both preludes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.special

from ir.dtype import TensorType
from ir.uop.table import FUNCTIONS, UOp
from tests.support.oracles.plain_numpy import philox_words

Array = np.ndarray[Any, Any]


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.power(a, b)
    bits = 8 * a.itemsize
    modulus = 1 << bits

    def one(x: int, y: int) -> int:
        if y < 0:
            return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
        return pow(x, y, modulus)

    exact = [one(int(x), int(y)) % modulus for x, y in zip(a, b, strict=True)]
    return np.array(exact, np.uint64).astype(a.dtype)


def _guarded(fn: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def meaning(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return fn(a, b)
        return np.where(b == 0, 0, fn(a, np.where(b == 0, 1, b))).astype(a.dtype)

    return meaning


def _shift_left(a: Array, b: Array) -> Array:
    width = 8 * a.itemsize
    exact = [int(x) << int(y) if 0 <= y < width else 0 for x, y in zip(a.flat, b.flat, strict=True)]
    return np.array([x % (1 << width) for x in exact], np.uint64).astype(a.dtype).reshape(a.shape)


def _shift_right(a: Array, b: Array) -> Array:
    width = 8 * a.itemsize
    exact = [int(x) >> (int(y) if 0 <= y < width else width) for x, y in zip(a.flat, b.flat, strict=True)]
    return np.array(exact, a.dtype).reshape(a.shape)


def _random(word: int, offset: Array, subsequence: Array, key: Array) -> Array:
    counters = zip(offset.tolist(), subsequence.tolist(), key.tolist(), strict=True)
    return np.array([philox_words(low | high << 64, seed)[word] for low, high, seed in counters], np.uint32)


def _of_row(row: UOp, *operands: Array) -> Array:
    """The meaning that the row of a uop states, which its samples test."""
    types = [TensorType.of(operand.dtype, operand.shape) for operand in operands]
    return row.apply(operands, {}, row.type_of(types, {}))


MEANINGS: dict[str, Callable[..., Array]] = {
    **{fn: partial(_of_row, row) for fn, row in FUNCTIONS.items() if row.samples},
    "neg": np.negative,
    "abs": np.abs,
    "recip": lambda x: 1 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": scipy.special.erf,
    "sigmoid": scipy.special.expit,
    "relu": lambda x: np.where(x <= 0, x.dtype.type(0), x),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "not": np.invert,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fdiv": np.divide,
    "quotient": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "pow": _power,
    "mod": _guarded(np.mod),
    "idiv": _guarded(np.floor_divide),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shift_left,
    "shr": _shift_right,
    "cmplt": np.less,
    "cmple": np.less_equal,
    "cmpgt": np.greater,
    "cmpge": np.greater_equal,
    "cmpeq": np.equal,
    "cmpne": np.not_equal,
    "where": np.where,
    **{f"random_{word}": partial(_random, word) for word in range(4)},
}
"""Of arrays of one dtype; integers divided by 0 are 0."""
