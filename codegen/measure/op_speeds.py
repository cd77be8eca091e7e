"""Measures the cost of elementwise functions on this machine: the vector functions of `prelude/` over arrays in the
first-level cache."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator

import numpy as np

from codegen.compile.library import Library, build, vector_prelude
from codegen.compile.machine import Machine
from codegen.run.aligned_memory import allocate
from ir.uop.philox import WORDS

_C_TYPES = {"f32": "float", "f64": "double", "i32": "int32_t", "i64": "int64_t", "u64": "uint64_t"}
_NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u64": np.uint64}
_NAMES = {"f32": "fp32", "f64": "fp64", "i32": "i32", "i64": "i64"}
_FLOAT1 = ("recip", "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "sigmoid")
_DEAR = {
    "f32": (*((fn, 1) for fn in _FLOAT1), ("fdiv", 2), ("pow", 2)),
    "f64": (*((fn, 1) for fn in _FLOAT1), ("fdiv", 2), ("pow", 2)),
    "i32": (("idiv", 2), ("mod", 2), ("pow", 2)),
    "i64": (("idiv", 2), ("mod", 2), ("pow", 2)),
}
"""Functions that cost more than an addition, with their numbers of operands, by type of the prelude."""
_RANDOM = tuple(f"random_{word}" for word in range(WORDS))
_ROUNDINGS = {"cast fp16": "eq_round_f16", "cast bf16": "eq_round_bf16"}
_POINTS = 1024
"""Elements of an array."""
_PER_CYCLE = 2
"""Vector additions that a core starts per cycle."""
_SAMPLE_NS, _TRIES = 300_000, 5
"""ns of a sample, at least; samples of which the fastest counts."""


def measure_weights(on: Machine, cycle_ns: float) -> dict[str, float]:
    """ "exp fp32" → additions-worth of one point, as in `ir.target.Target.weights`. `cycle_ns`: time of two vector
    operations. Takes about a second, and more the first time.

    A weight is the time that the function adds to a copy of the points. Its latency overlaps with that of neighbouring
    points, as in kernels.
    """
    library = build({"speeds": _source()}, on)
    bare = {kind: _time(library, kind, "copy") for kind in _C_TYPES}
    weights = {}
    for name, kind, fn, _ in _functions():
        more = (_time(library, kind, fn) - bare[kind]) * on.lanes / cycle_ns
        weights[name] = round(max(1.0, _PER_CYCLE * more), 1)
    return weights


def _functions() -> Iterator[tuple[str, str, str, str]]:
    """(name of the weight, type, function, a call of it on v and w)."""
    for kind, functions in _DEAR.items():
        for fn, arity in functions:
            yield f"{fn} {_NAMES[kind]}", kind, fn, f"eq_{fn}_{kind}({'v' if arity == 1 else 'v, w'})"
    for fn in _RANDOM:
        yield f"{fn} u32", "u64", fn, f"eq_cast_u32_u64(eq_{fn}_u64(v, w, w))"
    for name, function in _ROUNDINGS.items():
        yield name, "f32", function.removeprefix("eq_"), f"{function}(v)"


def _source() -> str:
    copies = (_loop(kind, "copy", "v") for kind in _C_TYPES)
    loops = (_loop(kind, fn, call) for _, kind, fn, call in _functions())
    return "".join((vector_prelude(flush=True), *copies, *loops))


def _loop(kind: str, fn: str, call: str) -> str:
    """z[i] = call(x[i], y[i]) for all points, `rounds` times."""
    c = _C_TYPES[kind]
    return f"""
__attribute__((visibility("default"))) void eq_speed_{fn}_{kind}(const {c} *x, const {c} *y, {c} *z,
                                                                 int64_t rounds) {{
  for (int64_t r = 0; r < rounds; r++) {{
    __asm__ volatile("" : : : "memory");
    for (int i = 0; i < {_POINTS}; i += EQ_VL) {{
      eq_{kind} v = eq_load_{kind}(x + i), w = eq_load_{kind}(y + i);
      (void)w;
      eq_store_{kind}(z + i, {call});
    }}
  }}
}}
"""


def _time(library: Library, kind: str, fn: str) -> float:
    """ns per point, the least of several samples."""
    run = library.function(f"eq_speed_{fn}_{kind}", (ctypes.c_void_p,) * 3 + (ctypes.c_int64,))
    points = np.linspace(0.5, 1.5, _POINTS) if kind.startswith("f") else np.arange(_POINTS) % 7 + 1
    arrays = [_align(points, kind) for _ in range(3)]
    addresses = [array.ctypes.data for array in arrays]
    rounds = 1
    while _sample(run, addresses, rounds) < _SAMPLE_NS and rounds < 1 << 20:
        rounds *= 2
    return min(_sample(run, addresses, rounds) for _ in range(_TRIES)) / (rounds * _POINTS)


def _sample(run: Callable[..., object], addresses: list[int], rounds: int) -> int:
    start = time.perf_counter_ns()
    run(*addresses, rounds)
    return time.perf_counter_ns() - start


def _align(values: np.ndarray, kind: str) -> np.ndarray:
    dtype = np.dtype(_NUMPY[kind])
    copy = allocate(values.size * dtype.itemsize).view(dtype)
    copy[:] = values
    return copy
