"""Which contractions matrix registers multiply, and where a register tile finds their operands.

A matrix register multiplies operands of narrow dtypes. The sums are of the dtype in which the contraction accumulates,
so that an operand that was widened before the product is narrowed again without loss.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from codegen.plan.contraction_view import Contraction, lanes_along_k
from codegen.plan.cpu.row_box import has_even_rows
from ir.dtype import DTYPES
from ir.kernel.cpu.matrix import CELL_TERMS, ROWS, padded_terms
from ir.plan.cpu import Blocks
from ir.poly.core import OperandRead
from ir.target import LANES


@lru_cache(maxsize=256)
def matrix_dtypes(view: Contraction) -> tuple[str, str] | None:
    """The dtypes of the two operands, if matrix registers multiply and sum them as the contraction does; else None.
    Products of bf16 are summed in an order of the register's own."""
    first, second = (_narrow_dtype(view, side) for side in (0, 1))
    cells = CELL_TERMS.get(first), CELL_TERMS.get(second)
    if view.ordered or not view.k or not view.rows or None in cells or cells[0] != cells[1]:
        return None
    return (first, second) if view.accumulator == ("fp32" if first == "bf16" else "i32") else None


def cell_terms(view: Contraction) -> int:
    """Terms of a cell of the contraction's operands, which matrix registers multiply."""
    dtypes = matrix_dtypes(view)
    assert dtypes is not None
    return CELL_TERMS[dtypes[0]]


def padded_depth(view: Contraction, depth: int) -> int:
    """`depth` terms of the contraction rounded up to whole rows of a matrix register."""
    dtypes = matrix_dtypes(view)
    assert dtypes is not None
    return padded_terms(depth, dtypes[0])


def grid_of(blocks: Blocks) -> tuple[int, int, int]:
    """The matrix registers of a register tile's sums, along rows and columns, and the rows of one of them."""
    down = -(-blocks.mr // ROWS)
    return down, blocks.nr // ROWS, blocks.mr // down


def rows_in_memory(view: Contraction, blocks: Blocks) -> tuple[OperandRead, int] | None:
    """The read of the operand with the rows and the elements between its rows, if matrix registers can load the rows
    from memory: whole registers of neighbouring terms, rows at equal distances, no padding. Else None."""
    side = 1 - view.vector
    dtypes, reads = matrix_dtypes(view), view.roles.reads[side]
    run, step = view.run(side, view.k)
    if dtypes is None or len(reads) != 1 or run != view.k or step != 1 or reads[0].map.guards:
        return None
    buffer = view.buffer(reads[0])
    direct = view.operand(side).value == buffer.name and buffer.memref.dtype == dtypes[side]
    whole = view.depth == padded_depth(view, view.depth) and view.m % blocks.mr == 0
    if not direct or not whole or not has_even_rows(view, blocks.mr):
        return None
    stride = view.offset(reads[0]).coeff(view.rows[-1])
    return None if stride is None else (reads[0], stride)


def can_pack_rows(view: Contraction) -> bool:
    """Whether the rows can be packed: all but those of a padded constant, whose lanes run along the rows."""
    side = 1 - view.vector
    padded = any(read.map.guards for read in view.roles.reads[side])
    return not (view.is_constant(side) and padded) or lanes_along_k(view, side, view.rows, LANES["amx"])


def turns_rows(view: Contraction) -> bool:
    """Whether the kernel packs rows with lanes along the rows, and turns the cells of their terms."""
    side = 1 - view.vector
    return not view.is_constant(side) and not lanes_along_k(view, side, view.rows, LANES["amx"])


def splits_terms(view: Contraction, bk: int) -> bool:
    """Whether blocks of `bk` terms start at whole rows of a matrix register."""
    if bk >= view.depth:
        return True
    lone = [position for position in view.k if view.sizes[position] > 1]
    return len(lone) == 1 and bk == padded_depth(view, bk)


def _narrow_dtype(view: Contraction, side: int) -> str:
    """The dtype of an operand before it was widened."""
    operand = view.operand(side)
    op = view.ops.get(operand.value)
    if op is None or op.fn != "cast":
        return _dtype_of(view, operand.value)
    (source,) = op.operands
    narrow = _dtype_of(view, source.value)
    is_widening = op.dtype == ("fp32" if narrow == "bf16" else "i32") and narrow in CELL_TERMS
    return narrow if is_widening and all(_has(narrow, guard.fill) for guard in operand.map.guards) else op.dtype


def _has(dtype: str, number: float | str) -> bool:
    """Whether the dtype has this number, the value of padding."""
    kind = DTYPES[dtype]
    if kind.is_float:
        return float(kind.numpy.type(float(number))) == float(number)
    limits = np.iinfo(kind.numpy)
    return int(limits.min) <= float(number) <= int(limits.max)


def _dtype_of(view: Contraction, name: str) -> str:
    """The dtype of a value or of an input of the region."""
    if name in view.ops:
        return view.ops[name].dtype
    return next(buffer.memref.dtype for buffer in view.region.inputs if buffer.name == name)
