"""The matrix registers of a CPU, Intel's AMX: eight, of 16 rows of 64 bytes.

    sums[i][j] += Σ_k rows[i][k] · columns[k][j]        16 × 16 sums of fp32 or i32

A row of the operand with the rows holds terms that are neighbours along k. The operand with the columns is stored by
cells: a cell of 32 bits holds the terms of one column that are neighbours along k, and a row holds the cells of 16
columns. (Intel, Architecture Instruction Set Extensions Programming Reference, chapter 3.)
"""

from __future__ import annotations

REGISTERS = 8
"""Matrix registers of a core."""
ROWS = 16
"""Rows of a register, and cells of a row."""
CELL_TERMS = {"bf16": 2, "i8": 4, "u8": 4}
"""The dtypes of operands, with the terms of a cell."""


def padded_terms(depth: int, dtype: str) -> int:
    """`depth` terms rounded up to whole rows of a register."""
    row = ROWS * CELL_TERMS[dtype]
    return -(-depth // row) * row
