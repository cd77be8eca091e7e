"""Which contractions multiply cells of narrow numbers, and where a register tile finds the cells.

Products of cells (`ir.kernel.cpu.cells`) multiply operands of narrow dtypes. The sums are of the dtype in which the
contraction accumulates, so that an operand that was widened before the product is narrowed again without loss.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from codegen.plan.contraction_view import Contraction, lanes_along_k, lies_by_terms
from codegen.plan.cpu.row_box import has_even_rows
from ir.dtype import DTYPES
from ir.kernel.cpu.cells import CELL_TERMS
from ir.kernel.cpu.matrix import ROWS
from ir.plan.cpu import Algorithm, Blocks
from ir.poly.core import OperandRead
from ir.target import LANES, PAIRS_OF_BF16, VNNI

CELL_ALGORITHMS: tuple[Algorithm, ...] = ("pairs", "quads", "matrix")
"""The algorithms that multiply cells."""
_NARROW_DTYPES = ("bf16", "i8", "u8")
_BYTES = ("i8", "u8")


class CellOperands(NamedTuple):
    """The two operands of a contraction as cells.

    dtypes  the dtypes of the operands' numbers
    stored  the dtypes of the terms in cells
    terms   terms of a cell
    step    the terms of a row of a register; zeros stand behind the last term, up to a whole number of steps
    bias    added to the numbers of the rows in their cells, so that one operand is unsigned and the other one signed
    """

    dtypes: tuple[str, str]
    stored: tuple[str, str]
    terms: int
    step: int
    bias: int = 0

    def padded(self, depth: int) -> int:
        """`depth` terms, rounded up to whole steps."""
        return -(-depth // self.step) * self.step


def cell_operands(view: Contraction, algorithm: Algorithm) -> CellOperands:
    """The operands of a contraction that `has_cells`."""
    operands = find_cell_operands(view, algorithm)
    assert operands is not None
    return operands


def bytes_of_term(view: Contraction, algorithm: Algorithm) -> int:
    """Bytes of a term of a packed operand: a part of a cell, or a number of the sums' dtype."""
    by_cells = algorithm in CELL_ALGORITHMS
    return 4 // cell_operands(view, algorithm).terms if by_cells else DTYPES[view.accumulator].bytes


def has_terms_in_place(view: Contraction, algorithm: Algorithm, lanes: int) -> bool:
    """Whether cells of columns are made from neighbouring terms where these lie: whole steps of one digit, each term a
    row of memory."""
    by_terms = len(view.k) == 1 and lies_by_terms(view, view.vector, view.columns, lanes)
    return by_terms and view.depth % cell_operands(view, algorithm).step == 0


def has_cells(view: Contraction, algorithm: Algorithm) -> bool:
    """Whether the algorithm multiplies the operands as cells, and sums the products as the contraction does."""
    return find_cell_operands(view, algorithm) is not None


def multiplies(arch: str, view: Contraction, algorithm: Algorithm) -> bool:
    """Whether machines of `arch` have an instruction that multiplies the operands of a contraction that `has_cells`."""
    if algorithm == "pairs":
        return arch in PAIRS_OF_BF16 or cell_operands(view, algorithm).stored[0] != "bf16"
    return arch in VNNI if algorithm == "quads" else arch == "amx"


@lru_cache(maxsize=256)
def find_cell_operands(view: Contraction, algorithm: Algorithm) -> CellOperands | None:
    """The operands as cells of an algorithm; None if the algorithm does not multiply them. Products of bf16 are summed
    in an order of the instruction's own."""
    dtypes = _narrow_dtype(view, 0), _narrow_dtype(view, 1)
    known = _BYTES if algorithm == "quads" else _NARROW_DTYPES
    if view.ordered or not view.k or not view.rows or not set(dtypes) <= set(known):
        return None
    if CELL_TERMS[dtypes[0]] != CELL_TERMS[dtypes[1]] or view.accumulator != _sum_dtype(dtypes[0]):
        return None
    match algorithm:
        case "matrix":
            terms = CELL_TERMS[dtypes[0]]
            return CellOperands(dtypes, dtypes, terms, ROWS * terms)
        case "quads":
            return _quads(dtypes, 1 - view.vector)
        case "pairs":
            stored = "bf16" if dtypes[0] == "bf16" else "i16"
            return CellOperands(dtypes, (stored, stored), CELL_TERMS[stored], CELL_TERMS[stored])
    return None


def _quads(dtypes: tuple[str, str], rows: int) -> CellOperands:
    """Cells of four bytes. Rows of the same sign as the columns are stored with the other sign: 128 is added to a
    signed number, and subtracted from an unsigned one."""
    terms = CELL_TERMS["i8"]
    if dtypes[0] != dtypes[1]:
        return CellOperands(dtypes, dtypes, terms, terms)
    other, bias = ("u8", 128) if dtypes[0] == "i8" else ("i8", -128)
    stored = (other, dtypes[1]) if rows == 0 else (dtypes[0], other)
    return CellOperands(dtypes, stored, terms, terms, bias)


def grid_of(blocks: Blocks) -> tuple[int, int, int]:
    """The matrix registers of a register tile's sums, along rows and columns, and the rows of one of them."""
    down = -(-blocks.mr // ROWS)
    return down, blocks.nr // ROWS, blocks.mr // down


def rows_in_memory(view: Contraction, blocks: Blocks) -> tuple[OperandRead, int] | None:
    """The read of the operand with the rows and the elements between its rows, if the cells of the rows can be loaded
    from memory: whole steps of neighbouring terms, rows at equal distances, no padding. Else None."""
    side = 1 - view.vector
    operands, reads = find_cell_operands(view, blocks.algorithm), view.roles.reads[side]
    run, step = view.run(side, view.k)
    if operands is None or len(reads) != 1 or run != view.k or step != 1 or reads[0].map.guards:
        return None
    buffer = view.buffer(reads[0])
    direct = holds_terms(view, side) and buffer.memref.dtype == operands.stored[side]
    whole = view.depth == operands.padded(view.depth) and view.m % blocks.mr == 0
    if not direct or operands.bias or not whole or not has_even_rows(view, blocks.mr):
        return None
    stride = view.offset(reads[0]).coeff(view.rows[-1])
    return None if stride is None else (reads[0], stride)


def holds_terms(view: Contraction, side: int) -> bool:
    """Whether a buffer holds the terms of an operand, which is read as it is or widened."""
    value = view.operand(side).value
    op = view.ops.get(value)
    if op is not None and op.fn == "cast" and _narrow_dtype(view, side) != op.dtype:
        value = op.operands[0].value
    return value in {buffer.name for buffer in view.region.inputs}


def can_pack_rows(view: Contraction, blocks: Blocks) -> bool:
    """Whether the rows can be packed: not those of a padded image whose lanes run along the rows, unless squares of
    cells are turned."""
    side = 1 - view.vector
    padded = any(read.map.guards for read in view.roles.reads[side])
    return not padded or turns_rows(view, blocks.algorithm) or lanes_along_k(view, side, view.rows, blocks.lanes)


def copies_rows(view: Contraction, algorithm: Algorithm, lanes: int) -> bool:
    """Whether rows are packed as runs of whole vectors of bytes, as a buffer holds them."""
    side = 1 - view.vector
    operands = find_cell_operands(view, algorithm)
    if operands is None or operands.bias or operands.stored[side] not in _BYTES or not holds_terms(view, side):
        return False
    run, step = view.run(side, view.k)
    is_along = lanes_along_k(view, side, view.rows, lanes) and not turns_rows(view, algorithm)
    return is_along and step == 1 and view.extent(run) % lanes == 0


def turns_rows(view: Contraction, algorithm: Algorithm) -> bool:
    """Whether the kernel packs rows with lanes along the rows, and turns the cells of their terms."""
    side = 1 - view.vector
    along_rows = not view.is_constant(side) and not lanes_along_k(view, side, view.rows, LANES["amx"])
    return algorithm == "matrix" and along_rows


def splits_terms(view: Contraction, algorithm: Algorithm, bk: int) -> bool:
    """Whether blocks of `bk` terms start at whole steps."""
    if bk >= view.depth:
        return True
    lone = [position for position in view.k if view.sizes[position] > 1]
    return len(lone) == 1 and bk == cell_operands(view, algorithm).padded(bk)


def _sum_dtype(narrow: str) -> str:
    """The dtype of sums of products of a narrow dtype."""
    return "fp32" if narrow == "bf16" else "i32"


def _narrow_dtype(view: Contraction, side: int) -> str:
    """The dtype of an operand before it was widened."""
    operand = view.operand(side)
    op = view.ops.get(operand.value)
    if op is None or op.fn != "cast":
        return _dtype_of(view, operand.value)
    (source,) = op.operands
    narrow = _dtype_of(view, source.value)
    is_widening = narrow in _NARROW_DTYPES and op.dtype == _sum_dtype(narrow)
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
