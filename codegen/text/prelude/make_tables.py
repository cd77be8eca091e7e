"""Writes c/tables.h, the coefficients of functions that differ from one interval of the argument to the next.

    python -m codegen.text.prelude.make_tables

A register of AVX-512 holds one coefficient for each of 16 intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

INTERVALS = 16
HEADER = Path(__file__).parent / "c" / "tables.h"

Floats = NDArray[np.float64]
Function = Callable[[float], float]

_TOP = """\
/* Coefficients by interval of the argument, for registers of 16 lanes. `python -m codegen.text.prelude.make_tables`
   writes this file and says how they are found. */
#define EQ_TABLES (EQ_X86 == 512 && EQ_FLUSH)
#if EQ_TABLES
#define EQ_TABLE static const __attribute__((unused)) eq_f32
"""


def text() -> str:
    """The text of c/tables.h."""
    powers = 2.0 ** (np.arange(INTERVALS) / INTERVALS)
    inverses = inverse_mantissas()
    tables = {
        "EQ_POWERS": powers,
        "EQ_INVERSES": inverses,
        "EQ_LOGS": -np.log(inverses) + 0,
        "EQ_LOGS2": -np.log2(inverses) + 0,
        **{f"EQ_ERF_{k}": column for k, column in enumerate(odd_function(math.erf, 0.25, 5, 3.87).T)},
        **{f"EQ_TANH_{k}": column for k, column in enumerate(odd_function(math.tanh, 0.58, 7, 8.98).T)},
    }
    return _TOP + "".join(_table(name, values) for name, values in tables.items()) + "#endif\n"


def inverse_mantissas() -> Floats:
    """For each of the four upper bits of a mantissa, an fp32 near the inverse of the numbers in [3/4, 3/2) with these
    bits; 1 on both sides of 1, where the logarithm has no other error than that of its own polynomial."""
    low = 1 + np.arange(INTERVALS) / INTERVALS
    middle = (low + 0.5 / INTERVALS) * np.where(low < 1.5, 1, 0.5)
    inverses = (1 / middle).astype(np.float32).astype(np.float64)
    inverses[[0, -1]] = 1
    return inverses


def odd_function(f: Function, spacing: float, degree: int, top: float) -> Floats:
    """Coefficients of f around the multiples of `spacing`: row i holds those of x - i·spacing, the lowest first.

    The polynomials interpolate f at Chebyshev nodes. The first is odd, so that its relative error stays small
    beside 0. The last one rises to 1 at `top`, where the distance of f from 1 is below half an ulp of fp32.
    """
    half = spacing / 2
    last = (INTERVALS - 1) * spacing
    rise = (1 - f(top)) / (top - last + half)
    rows = [_odd_around_0(f, half, degree)]
    for i in range(1, INTERVALS - 1):
        rows.append(_interpolation(f, i * spacing, half, degree))
    rows.append(_interpolation(lambda x: f(x) + rise * (x - last + half), last, half, degree))
    return np.array(rows)


def _odd_around_0(f: Function, half: float, degree: int) -> Floats:
    """x·q(x²), with q(x²) = f(x)/x at nodes of x² in (0, half²)."""
    ratio = _of_all(lambda z: f(math.sqrt(z)) / math.sqrt(z))
    inner = Chebyshev.interpolate(ratio, (degree - 1) // 2, [0, half * half]).convert(kind=Polynomial).coef
    row = np.zeros(degree + 1)
    row[1::2] = inner
    return row


def _interpolation(f: Function, middle: float, half: float, degree: int) -> Floats:
    moved = _of_all(lambda d: f(middle + d))
    coefficients = Chebyshev.interpolate(moved, degree, [-half, half]).convert(kind=Polynomial).coef
    return np.pad(coefficients, (0, degree + 1 - len(coefficients)))


def _of_all(f: Function) -> Callable[[Floats], Floats]:
    return lambda values: np.array([f(value) for value in values])


def _table(name: str, values: Floats) -> str:
    rows = [", ".join(f"{value:#.9g}f" for value in part.astype(np.float32)) for part in np.split(values, 4)]
    return f"EQ_TABLE {name} = {{\n" + ",\n".join(f"  {row}" for row in rows) + "};\n"


if __name__ == "__main__":
    HEADER.write_text(text())
