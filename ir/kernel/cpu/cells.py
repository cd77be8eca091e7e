"""Cells: 32 bits with the neighbouring terms of one row or one column of narrow numbers.

    sums[i][j] += Σ_t rows[i].cell[t] · columns[j].cell[t]

Products of cells, by the algorithm of a plan (`ir.plan.cpu.Algorithm`):

    pairs    two terms of 16 bits, in vector registers: integers (SSE2's `pmaddwd` and its wider forms), or bf16
             (AVX-512's `vdpbf16ps`)
    quads    four terms of 8 bits, unsigned ones by signed ones, in vector registers (VNNI's `vpdpbusd`)
    matrix   all terms of 64 bytes, in matrix registers (AMX, `ir.kernel.cpu.matrix`)

Sums of integers are i32 and wrap, sums of bf16 are fp32. (Intel 64 and IA-32 Architectures Software Developer's Manual,
volume 2.)
"""

from __future__ import annotations

CELL_TERMS = {"bf16": 2, "i16": 2, "i8": 4, "u8": 4}
"""The dtypes that cells hold, with the terms of a cell."""
PEAK_DTYPES = frozenset({"bf16", "i8", "u8"})
"""Dtypes of operands whose products may have a peak of their own, beyond that of the dtype of their sums."""
