"""The matrix registers of a CPU, Intel's AMX: eight, of 16 rows of 64 bytes.

    sums[i][j] += Σ_k rows[i][k] · columns[k][j]        16 × 16 sums of fp32 or i32

A row of the operand with the rows holds terms that are neighbours along k. A row of the operand with the columns holds
the cells (`ir.kernel.cpu.cells`) of 16 columns. (Intel, Architecture Instruction Set Extensions Programming Reference,
chapter 3.)
"""

from __future__ import annotations

REGISTERS = 8
"""Matrix registers of a core."""
ROWS = 16
"""Rows of a register, and cells of a row."""
