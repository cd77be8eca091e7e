"""The C prelude as NumPy functions: a library of loops over arrays, for one instruction set."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from codegen.compile.library import Library, vector_prelude
from codegen.compile.machine import Machine, arches_of, machine
from ir.kernel.elementwise import elementwise_functions
from ir.uop.table import FUNCTIONS

Array = NDArray[Any]

REGISTERS: dict[str, type[Any]] = {
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "u16": np.uint16,
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
    "bool": np.bool_,
}
STORAGE = REGISTERS | {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
FLOATS, INTS = ("f32", "f64"), ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
CELLS = {"f32": "float", "f64": "double", "bool": "uint8_t"}
CELLS |= {t: f"{'u' * t.startswith('u')}int{t[1:]}_t" for t in INTS}

_ASKED = [(function.fn, function.operands[-1].replace("fp", "f"), function.row) for function in elementwise_functions()]
COMPARE = sorted({fn for fn, _, row in _ASKED if row.name.startswith("CMP")})
RANDOM = [fn for fn in FUNCTIONS if fn.startswith("random")]
FOLDS = ["hsum", "hprod", "hmax", "hmin"]

UNARY = [(fn, t) for fn, t, row in _ASKED if row.arity == 1]
BINARY = [(fn, t) for fn, t, row in _ASKED if row.arity == 2 and fn not in COMPARE]
BINARY += [("mod", t) for t in FLOATS] + [("pow", t) for t in INTS]
BINARY += [(op, "bool") for op in ("max", "min", "add", "mul")]
"""Those that the table of uops asks for, and a few more."""


def _wrap(name: str, *steps: str) -> str:
    """An exported loop over n elements (a multiple of EQ_VL) of the arrays p[0], p[1], …"""
    head = f'__attribute__((visibility("default"))) void {name}(char **p, int64_t n, int64_t k) {{'
    return "\n".join([head, "for (int64_t i = 0; i < n; i += EQ_VL) {", *steps, "}}"])


def _at(index: int, t: str) -> str:
    return f"p[{index}] + i * {np.dtype(STORAGE[t]).itemsize}"


FLUSHED = ("exp", "exp2", "log", "log2", "sigmoid", "tanh", "erf")
"""Functions of f32 whose text depends on `EQ_FLUSH`. With it, they are `flushed_<op>_f32` in the test library."""


def units() -> dict[str, str]:
    """The test library in units of about the same size."""
    ops, moves, casts, flushed = [], [], [], []
    for op in FLUSHED:
        value = f"eq_{op}_f32(eq_load_f32({_at(0, 'f32')}))"
        flushed.append(_wrap(f"flushed_{op}_f32", f"eq_store_f32({_at(1, 'f32')}, {value});"))
    for op, t in UNARY:
        ops.append(_wrap(f"{op}_{t}", f"eq_store_{t}({_at(1, t)}, eq_{op}_{t}(eq_load_{t}({_at(0, t)})));"))
    for op, t in BINARY:
        pair = f"eq_load_{t}({_at(0, t)}), eq_load_{t}({_at(1, t)})"
        ops.append(_wrap(f"{op}_{t}", f"eq_store_{t}({_at(2, t)}, eq_{op}_{t}({pair}));"))
    ops.append(_wrap("shr_by_u8", f"eq_store_u8({_at(1, 'u8')}, eq_shr_by_u8(eq_load_u8({_at(0, 'u8')}), k));"))
    three = ", ".join(f"eq_load_u64({_at(place, 'u64')})" for place in range(3))
    for fn in RANDOM:
        ops.append(_wrap(f"{fn}_u64", f"eq_store_u32({_at(3, 'u32')}, eq_{fn}_u64({three}));"))
    cells = ", ".join(f"eq_load_i32({_at(place, 'i32')})" for place in range(3))
    for dot in ("dot_pairs", "dot_quads"):
        ops.append(_wrap(f"{dot}_i32", f"eq_store_i32({_at(3, 'i32')}, eq_{dot}_i32({cells}));"))
    sums = cells.replace(f"eq_load_i32({_at(2, 'i32')})", f"eq_load_f32({_at(2, 'f32')})")
    ops.append(_wrap("dot_pairs_f32", f"eq_store_f32({_at(3, 'f32')}, eq_dot_pairs_f32({sums}));"))
    for t in REGISTERS:
        pair = f"eq_load_{t}({_at(0, t)}), eq_load_{t}({_at(1, t)})"
        for op in COMPARE:
            moves.append(_wrap(f"{op}_{t}", f"eq_store_bool({_at(2, 'bool')}, eq_{op}_{t}({pair}));"))
        mask = f"eq_load_bool({_at(2, 'bool')})"
        moves.append(_wrap(f"where_{t}", f"eq_store_{t}({_at(3, t)}, eq_where_{t}({mask}, {pair}));"))
        if t != "bool":
            c = f"eq_load_{t}({_at(2, t)})"
            moves.append(_wrap(f"fma_{t}", f"eq_store_{t}({_at(3, t)}, eq_fma_{t}({pair}, {c}));"))
        for op in FOLDS if t != "bool" else ("hmax", "hmin"):
            moves.append(
                _wrap(f"{op}_{t}", f"(({CELLS[t]} *)p[1])[i / EQ_VL] = eq_{op}_{t}(eq_load_{t}({_at(0, t)}));")
            )
        for to in REGISTERS:
            casts.append(
                _wrap(
                    f"cast_{t}_{to}",
                    f"eq_store_{to}({_at(1, to)}, eq_cast_{t}_{to}(eq_load_{t}({_at(0, t)})));",
                )
            )
    for t in STORAGE:
        size = np.dtype(STORAGE[t]).itemsize
        casts += [
            _wrap(f"tail_{t}", f"eq_store_n_{t}(p[1], eq_load_n_{t}(p[0], k), k);"),
            _wrap(f"loadn_{t}", f"eq_store_{t}(p[1], eq_load_n_{t}(p[0], k));"),
            _wrap(f"splat_{t}", f"eq_store_{t}({_at(1, t)}, eq_splat_{t}(p[0] + i / EQ_VL * {size}));"),
            *(_wrap(f"strided{step}_{t}", f"eq_store_{t}(p[1], eq_strided_{t}(p[0], {step}, k));") for step in (2, 3)),
            _wrap(f"back_{t}", f"eq_store_{t}(p[1], eq_strided_{t}(p[0] + (EQ_VL - 1) * {size}, -1, EQ_VL));"),
            _wrap(f"scatter_{t}", f"eq_store_strided_{t}(p[1], 3, eq_load_{t}(p[0]), k);"),
            _wrap(
                f"gather_{t}",
                f"eq_i64 at = eq_load_i64({_at(1, 'i64')}); eq_mask m = eq_load_bool({_at(2, 'bool')});",
                f"eq_store_{t}({_at(3, t)}, eq_gather_{t}(p[0], at, m));",
            ),
            _wrap(
                f"loadm_{t}",
                f"eq_mask m = eq_load_bool({_at(1, 'bool')});",
                f"eq_store_{t}({_at(2, t)}, eq_load_m_{t}(p[0], m));",
            ),
            _wrap(
                f"backm_{t}",
                f"eq_mask m = eq_load_bool({_at(1, 'bool')});",
                f"eq_store_{t}({_at(2, t)}, eq_back_m_{t}(p[0] + (k - 1) * {size}, m));",
            ),
        ]
    for t in ("i8", "u8"):
        held = ", ".join(f"eq_load_f32({_at(place, 'f32')})" for place in range(3))
        casts.append(_wrap(f"hold_{t}_f32", f"eq_store_{t}({_at(3, t)}, eq_hold_{t}_f32({held}));"))
        shifted = f"{held}, eq_load_i32({_at(3, 'i32')})"
        casts.append(_wrap(f"nearest_{t}_i32", f"eq_store_{t}({_at(4, t)}, eq_nearest_{t}_i32({shifted}));"))
    for t, word in (("f16", "u16"), ("bf16", "u16"), ("f32", "u32"), ("f64", "u64")):
        held = t if t in REGISTERS else "f32"
        read, bits = f"eq_load_{held}({_at(0, held)})", f"eq_load_{word}({_at(0, word)})"
        casts.append(_wrap(f"bits_{t}", f"eq_store_{word}({_at(1, word)}, eq_bits_{t}({read}));"))
        casts.append(_wrap(f"from_bits_{t}", f"eq_store_{held}({_at(1, held)}, eq_from_bits_{t}({bits}));"))
    for t in ("f16", "bf16"):
        casts.append(_wrap(f"round_{t}", f"eq_store_f32({_at(1, 'f32')}, eq_round_{t}(eq_load_f32({_at(0, 'f32')})));"))
        casts.append(_wrap(f"decode_{t}", f"eq_store_f32({_at(1, 'f32')}, eq_load_{t}({_at(0, t)}));"))
    casts.append(
        _wrap("cast_f64_f16", f"eq_store_f16({_at(1, 'f16')}, eq_cast_f64_f16(eq_load_f64({_at(0, 'f64')})));")
    )
    casts.append(_wrap("iota_i64", f"eq_store_i64({_at(0, 'i64')}, eq_iota_i64(i * k, k));"))
    casts.append(_wrap("iota_i32", f"eq_store_i32({_at(0, 'i32')}, eq_iota_i32(i * k, k));"))
    casts.append(_wrap("first", f"eq_store_bool({_at(0, 'bool')}, eq_first(k));"))
    top = vector_prelude()
    texts = {name: top + "\n".join(text) for name, text in (("ops", ops), ("moves", moves), ("casts", casts))}
    return {**texts, "flushed": vector_prelude(flush=True) + "\n".join(flushed)}


def arches() -> list[str]:
    """The instruction sets of this machine for which the functions differ in more than products of cells of bytes."""
    return [arch for arch in arches_of(machine()) if not arch.endswith("_vnni") and arch != "amx"]


class Lanes:
    """The test library for one instruction set."""

    def __init__(self, on: Machine, library: Library) -> None:
        self.vl = on.lanes
        self._library = library

    def __call__(self, name: str, arrays: list[Array | int], n: int, k: int = 0) -> None:
        addresses = [array if isinstance(array, int) else array.ctypes.data for array in arrays]
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        self._library.function(name, (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64))(table, n, k)

    def map(self, name: str, result: Any, *arrays: Array) -> Array:
        """`name` over the elements of `arrays`, padded with ones to whole registers."""
        n = arrays[0].size
        whole = -(-n // self.vl) * self.vl
        padded = [np.concatenate([array, np.ones(whole - n, array.dtype)]) for array in arrays]
        out = np.zeros(whole, result)
        self(name, [*padded, out], whole)
        return out[:n]


def floats(t: str, seed: int = 0) -> Array:
    """Specials, every exponent, and random numbers of all magnitudes."""
    rng = np.random.default_rng(seed)
    real = REGISTERS[t]
    info = np.finfo(real)
    special = [0.0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, 3, math.inf, -math.inf, math.nan, info.max, -info.max]
    special += [
        info.tiny,
        -info.tiny,
        info.smallest_subnormal,
        -info.smallest_subnormal,
        1 / 3,
        0.49999997,
        8388609,
    ]
    powers = np.ldexp(np.ones(200, real), np.linspace(info.minexp - 20, info.maxexp - 1, 200).astype(int))
    bits = (
        rng.integers(0, 1 << 62, 3000).view(np.float64)
        if t == "f64"
        else rng.integers(0, 1 << 31, 3000, np.int32).view(np.float32)
    )
    with np.errstate(all="ignore"):
        parts = [
            np.array(special, real),
            powers,
            -powers,
            bits,
            -bits,
            rng.normal(0, 3, 5000),
            rng.normal(0, 40, 2000),
        ]
        return np.concatenate([part.astype(real) for part in parts])


def assert_same(got: Array, want: Array, op: str) -> None:
    """Equal, NaN with NaN; zeros need not agree in sign."""
    same = (got == want) | ((got != got) & (want != want))
    assert same.all(), (op, np.flatnonzero(~same)[:5], got[~same][:5], want[~same][:5])
