"""Probes of loads and stores. A kernel makes one kind of access in memory and in shared memory, with and without a
predicate."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from bench.device.samples import Probe, cell_of, draw_numbers, numpy_of
from ir.dtype import DTYPES
from ir.kernel.gpu.device_functions import CELLS, DEVICE_FUNCTIONS, parameters

THREADS = 64
_CELLS = {cell: dtype for dtype, cell in CELLS.items()}
_POISON = 0x5A


def memory_probes() -> Iterator[Probe]:
    """A probe for every T, TxN and width of raw words."""
    for name in DEVICE_FUNCTIONS:
        match = re.fullmatch(r"eq_ld_shared_(\w+)", name)
        if match:
            yield _probe(match[1])


def _probe(access: str) -> Probe:
    function = DEVICE_FUNCTIONS[f"eq_ld_shared_{access}"]
    nbytes = function.nbytes
    result, types = parameters(function)
    single = result != "void"
    register = result if single else types[0].partition("*")[0].strip()
    memory = "u8" if access.isdigit() else access.partition("x")[0]
    size = DTYPES[_CELLS[memory]].bytes
    step, count = nbytes // size, 1 if single else (nbytes // 4 if access.isdigit() else nbytes // size)
    rng = np.random.default_rng(len(access) + nbytes)
    words = draw_numbers(rng, DTYPES[_CELLS[memory]].numpy, THREADS * step)
    values = draw_numbers(rng, numpy_of(register), THREADS * count)
    wanted = draw_numbers(rng, np.dtype(np.bool_), THREADS)
    out = np.full(THREADS * count, _POISON, numpy_of(register))
    stored = np.full(THREADS * nbytes, _POISON, np.uint8).view(words.dtype)
    patterns = ("ld_global_{}", "ld_global_{}_if", "st_global_{}", "st_global_{}_if", "ld_shared_{}", "st_shared_{}")
    names = [f"eq_{name.format(access)}" for name in patterns]
    arrays = [out, out, stored, stored, out, np.zeros(THREADS * nbytes, np.uint8)]
    return Probe(
        f"eq_memory_{access}",
        _text(access, memory, register, step, count, nbytes, single),
        (words, words.view(np.uint8).copy(), values, wanted),
        dict(zip(names, arrays, strict=True)),
        threads=THREADS,
        shared_bytes=THREADS * nbytes,
    )


def _text(access: str, memory: str, register: str, step: int, count: int, nbytes: int, single: bool) -> str:
    carried = cell_of(register)
    cast = "(int)" if register == "unsigned" else ""

    def load(call: str, place: str, to: str, wanted: str = "") -> str:
        call_text = f"r[0] = {call}({wanted}{place})" if single else f"{call}({wanted}r, {place})"
        store = f"eq_st_global_{carried}({to} + {count} * i + j, {cast}r[j]);"
        return f"{call_text};\n  for (int j = 0; j < {count}; j++) {store}"

    value = "v[0]" if single else "v"
    return f"""
extern "C" EQ_KERNEL({THREADS}, 1) void eq_memory_{access}(const eq_{memory} *x, const eq_u8 *bytes,
    const eq_{carried} *values, const eq_bool *wanted, eq_{carried} *a, eq_{carried} *b,
    eq_{memory} *c, eq_{memory} *d, eq_{carried} *e, eq_u8 *f) {{
  const int i = eq_thread();
  const bool p = eq_ld_global_bool(wanted + i);
  {register} r[{count}], v[{count}];
  for (int j = 0; j < {count}; j++) v[j] = ({register})eq_ld_global_{carried}(values + {count} * i + j);
  {load(f"eq_ld_global_{access}", f"x + {step} * i", "a")}
  {load(f"eq_ld_global_{access}_if", f"x + {step} * i", "b", "p, ")}
  eq_st_global_{access}(c + {step} * i, {value});
  eq_st_global_{access}_if(p, d + {step} * i, {value});
  for (int j = 0; j < {nbytes}; j++) eq_st_shared_u8({nbytes} * i + j, eq_ld_global_u8(bytes + {nbytes} * i + j));
  eq_barrier();
  {load(f"eq_ld_shared_{access}", f"{nbytes} * ({THREADS - 1} - i)", "e")}
  eq_barrier();
  eq_st_shared_{access}({nbytes} * i, {value});
  eq_barrier();
  for (int j = 0; j < {nbytes}; j++) eq_st_global_u8(f + {nbytes} * i + j, eq_ld_shared_u8({nbytes} * i + j));
}}"""
