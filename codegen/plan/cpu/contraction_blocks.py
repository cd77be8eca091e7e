"""The blocks that plans of a contraction may have: a register tile, rows and columns of a task, terms of a block of k.

    outer   tiles whose rows come from panels: as tall as registers allow, for each number of vectors of columns
    even    tiles whose rows lie at equal distances, in memory or in a box
    dot     tiles of dot products, for few rows or columns
    pairs   the same tiles as of outer products, for cells of narrow numbers; quads of bytes where the machine has VNNI
    matrix  tiles in matrix registers, for operands of narrow dtypes

Tasks run from all rows and few columns to few rows and all columns, so that every core has work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codegen.plan.contraction_view import Contraction, lies_by_terms
from codegen.plan.cpu.cache_lines import lines_held, share_pages
from codegen.plan.cpu.cell_operands import (
    bytes_of_term,
    cell_operands,
    has_cells,
    has_terms_in_place,
    multiplies,
    splits_terms,
)
from codegen.plan.cpu.contraction_tiling import block_axis
from codegen.plan.cpu.contraction_work import SMALL_FLOPS, flops_of, registers_per_vector
from codegen.plan.cpu.row_box import boxed_blocks, has_even_rows
from codegen.plan.cpu.unread_terms import lean_heights
from ir.dtype import DTYPES
from ir.kernel.cpu.matrix import ROWS
from ir.plan.cpu import Algorithm, Blocks
from ir.target import LANES, VECTOR_REGISTERS, Target

BLOCK_K = 1024
"""Terms of a block of k, at most."""
_SUM_BYTES = _ROW_BYTES = 1 << 20
"""Bytes of a thread's sums, and of its packed rows, at most: a second-level cache holds them."""
_BOX_BYTES = 3 << 18
"""Bytes of a box, at most; and half of a smaller second-level cache."""
_ROWS = 2048
"""Packed rows of a block, at most. Few terms make rows short, and the sums of a block are then longer than its rows: a
second-level cache has to hold them too, and what the rows are computed from."""
_STREAMED = 1 << 18
"""Elements of an operand of columns from which few rows read it in short blocks of k."""
_FEW_ROWS = 256
"""Rows, at most, that read columns in short blocks of k. More rows share packed columns."""
_FEW_ROWS_OF_CELLS = 64
"""The same where products are of cells: products take less time, so that sums between blocks of k cost more."""
_SHORT_BLOCKS = (16, 64)
"""Terms of a short block of k: as many as there are rows, but not fewer and not more than these. The rows of columns of
a block lie on few pages, which are read from end to end; and sums that are stored after each block take little time."""
_LEAST_SUM_BYTES = 1 << 18
"""Bytes of a thread's sums that are accepted beside any rows."""
_SHORT_SUM_BYTES = 1 << 19
"""Bytes of a thread's sums, at most, where they are stored after short blocks of k."""
_CELL_DEPTHS = (2048, 8192)
"""Terms of a block of k of cells, at most, where a product has more: a panel of the terms of 32 columns then fits into
a second-level cache."""
_PANEL_SHARE = 3
"""A panel of columns for matrix registers may fill this part of the first-level cache: a third. All tiles of rows then
read the panel from there, while the rows pass through."""
_LEAST_SUMS = 8
"""Registers of sums, at least, of a tile that reads its rows where they lie: a core starts two multiply-adds per cycle,
and the sum of each is ready after four cycles."""


def outer_blocks(view: Contraction, target: Target) -> Iterator[Blocks]:
    """Blocks whose rows come from panels: the tallest register tiles for each number of vectors of columns."""
    wide = registers_per_vector(view)
    budget = VECTOR_REGISTERS[target.arch]
    lanes = target.lanes
    cuts = _cuts(_useful_units(view, target), view.repeats)
    for vectors in (1, 2, 3, 4, 8):
        most = (budget // wide - 1 - vectors) // vectors
        if most < 1 and vectors + 2 <= budget // wide:
            most = 1  # a row uses each vector of columns once, which needs no register
        if most < 1 or (vectors > 1 and (vectors - 1) * lanes >= view.n):
            continue
        if vectors > 4 and view.m > most:  # the first-level cache does not hold so wide a panel, which is read again
            continue
        lean = lean_heights(view, _even_heights(view, most, vectors * wide))
        for rows in dict.fromkeys((*_even_rows(view.m, min(most, 16)), *lean)):
            yield from _grids(view, rows, vectors * lanes, cuts, target)


def _even_rows(m: int, most: int) -> Iterator[int]:
    """Heights of the register tile that split `m` evenly: the tallest, and the height with the least padding."""
    tallest = _even(max(m, 1), most)
    yield tallest
    leanest = min(range(most, 0, -1), key=lambda rows: -(-m // rows) * (rows + 1))
    if leanest != tallest:
        yield leanest


def _grids(view: Contraction, mr: int, nr: int, cuts: Sequence[tuple[int, int]], target: Target) -> Iterator[Blocks]:
    """Blocks of a task, from all rows and few columns to few rows and all columns, so that every core has work."""
    item = DTYPES[view.accumulator].bytes
    tiles_m, tiles_n = max(1, -(-view.m // mr)), max(1, -(-view.n // nr))
    seen = set()
    short = _reads_short_blocks(view, target)
    for bk in [_short_block(view)] if short else _depths(view):
        tall = _tall(bk * item, mr, target)
        rows = min(tall, tiles_m) * mr
        sums = _SHORT_SUM_BYTES if short else _sum_bytes(rows * bk * item, target)
        wide = tiles_n if bk >= view.depth else max(1, sums // (rows * item * nr))
        for cuts_m, cuts_n in cuts:
            bm = _piece(tiles_m, tall, cuts_m) * mr
            bn = _piece(tiles_n, wide, cuts_n) * nr
            if (bm, bn, bk) not in seen:
                seen.add((bm, bn, bk))
                yield Blocks(mr, nr, bm, bn, bk, target.lanes)


def _sum_bytes(row_bytes: int, target: Target) -> int:
    """Bytes of sums, at most, that stay in the second-level cache beside the packed rows of a block."""
    return max(_LEAST_SUM_BYTES, min(_SUM_BYTES, 3 * target.l2_bytes // 4 - row_bytes))


def _tall(row_bytes: int, mr: int, target: Target) -> int:
    """Tiles of `mr` rows of a block whose packed rows stay in the second-level cache, at most."""
    return max(1, min(min(target.l2_bytes, _ROW_BYTES) // row_bytes, _ROWS) // mr)


def even_tiles(view: Contraction, target: Target) -> Iterator[tuple[int, int]]:
    """Register tiles whose rows lie at equal distances: the tallest for each number of vectors. AVX-512 multiplies by a
    number in memory, which takes no register."""
    wide, lanes = registers_per_vector(view), target.lanes
    budget = VECTOR_REGISTERS[target.arch] - (lanes != LANES["avx512"])
    for vectors in (1, 2, 3, 4):
        most = (budget // wide - vectors) // vectors
        rows = _even_heights(view, most, vectors * wide)
        if rows and (vectors - 1) * lanes < view.n:
            for mr in dict.fromkeys((rows[-1], *lean_heights(view, rows), *_held_heights(view, rows, target))):
                yield mr, vectors * lanes


def _held_heights(view: Contraction, heights: Sequence[int], target: Target) -> list[int]:
    """Of these heights of a tile, the greatest of which the first-level cache holds a line of every row."""
    side = 1 - view.vector
    _, distance = view.run(side, view.rows)
    if not distance:
        return []
    held = lines_held(abs(distance) * view.item_bytes[side], target)
    return [mr for mr in heights if mr <= held][-1:]


def _even_heights(view: Contraction, most: int, registers: int) -> list[int]:
    """Heights up to `most`, in rising order, whose rows lie at equal distances, of tiles with enough sums in so many
    `registers` a row."""
    return [mr for mr in range(1, most + 1) if mr * registers >= _LEAST_SUMS and has_even_rows(view, mr)]


def even_grids(view: Contraction, mr: int, nr: int, target: Target, *, boxed: bool) -> Iterator[Blocks]:
    """Blocks of such tiles, whose rows or whose box stay in the second-level cache."""
    item = DTYPES[view.accumulator].bytes
    elements = min(target.l2_bytes, _ROW_BYTES) // item
    tiles_m, tiles_n = -(-view.m // mr), max(1, -(-view.n // nr))
    seen = set()
    for bk in _depths(view):
        for cuts_m, cuts_n in _cuts(_useful_units(view, target), view.repeats):
            most = -(-tiles_m // cuts_m) * mr
            if boxed:
                boxes = (bm for bm, size in boxed_blocks(view) if size * item <= min(target.l2_bytes // 2, _BOX_BYTES))
                bm = next((bm for bm in boxes if bm <= most and bm % mr == 0), 0)
            else:
                bm = _piece(tiles_m, max(1, elements // max(view.depth, 1) // mr), cuts_m) * mr
            bn = _piece(tiles_n, tiles_n, cuts_n) * nr
            if bm and (bm, bn, bk) not in seen:
                seen.add((bm, bn, bk))
                yield Blocks(mr, nr, bm, bn, bk, target.lanes)


def dot_blocks(view: Contraction, target: Target) -> Iterator[Blocks]:
    """Blocks of dot products, for few rows or columns and neighbours along k: packing does not pay without reuse."""
    few = min(view.m, view.n)
    if view.ordered or not view.k or view.m * view.n == 0 or few > 8 or not can_dot(view):
        return
    for mr in sorted({1, _even(max(view.m, 1), 4)}):
        nr = _dot_columns(view, mr, target)
        units = _useful_units(view, target)
        tiles = -(-view.n // nr)
        for cuts in sorted({1, units, 4 * units}):
            bm, bn = -(-view.m // mr) * mr, -(-tiles // min(cuts, tiles)) * nr
            yield Blocks(mr, nr, bm, bn, view.depth, target.lanes, "dot")


def _dot_columns(view: Contraction, mr: int, target: Target) -> int:
    """Columns of a tile of dot products of `mr` rows. Registers hold the sums, the shorter side of the tile, and one
    vector of the other side. Where the first-level cache does not hold a line of every row and column, since lines a
    multiple of 4 KiB apart share one set, the columns are a power of two of which that cache holds the lines."""
    registers, side = VECTOR_REGISTERS[target.arch] // registers_per_vector(view) - 1, view.vector
    most = min(target.lanes, max(1, registers // mr - 1, registers // (mr + 1)), view.n)
    _, step = view.run(side, view.columns)
    if not step:
        return most
    if 2 * view.bytes_read[side] > target.last_level_bytes and share_pages(view):
        return 1
    held = lines_held(abs(step) * view.item_bytes[side], target)
    return most if mr + most <= held else 1 << (max(1, min(most, held)).bit_length() - 1)


def matrix_blocks(view: Contraction, target: Target) -> Iterator[Blocks]:
    """Blocks of tiles in matrix registers: sums of 2 × 2 registers, or of one row of registers for few rows."""
    if has_cells(view, "matrix") and multiplies(target.arch, view, "matrix") and view.m * view.n:
        for mr, nr in _matrix_tiles(view):
            yield from _cell_grids(view, mr, nr, "matrix", target)


def cell_blocks(view: Contraction, target: Target) -> Iterator[Blocks]:
    """Blocks of tiles of cells in vector registers: the tallest for each number of vectors of columns, and the tallest
    whose rows lie at equal distances."""
    algorithms: tuple[Algorithm, ...] = ("quads", "pairs")
    algorithm = next((fit for fit in algorithms if has_cells(view, fit) and multiplies(target.arch, view, fit)), None)
    if algorithm is None or view.m * view.n == 0:
        return
    biased, lanes = bool(cell_operands(view, algorithm).bias), target.lanes
    for vectors in (1, 2, 3, 4):
        most = (VECTOR_REGISTERS[target.arch] - 2 - vectors) // vectors - biased
        if most < 1 or (vectors > 1 and (vectors - 1) * lanes >= view.n):
            continue
        even = [mr for mr in range(most, 0, -1) if has_even_rows(view, mr)]
        for mr in dict.fromkeys((*_even_rows(view.m, min(most, 16)), *even[:1])):
            yield from _cell_grids(view, mr, vectors * lanes, algorithm, target)


def _cell_grids(view: Contraction, mr: int, nr: int, algorithm: Algorithm, target: Target) -> Iterator[Blocks]:
    """Blocks of a task of tiles of cells, from all rows and few columns to few rows and all columns."""
    operands = cell_operands(view, algorithm)
    item = bytes_of_term(view, algorithm)
    lengths = {view.depth, *(operands.padded(most) for most in _CELL_DEPTHS if most < view.depth)}
    held = target.l1_bytes // (_PANEL_SHARE * nr * item)
    if algorithm == "matrix" and view.m > mr and view.depth > held:
        lengths.add(operands.padded(_even(view.depth, held)))
    tiles_m, tiles_n = -(-view.m // mr), -(-view.n // nr)
    few = view.m <= _FEW_ROWS_OF_CELLS and _reads_short_blocks(view, target)
    short = few and has_terms_in_place(view, algorithm, target.lanes)
    sums = _SHORT_SUM_BYTES if short else _SUM_BYTES
    if short:
        lengths = {min(view.depth, operands.padded(_SHORT_BLOCKS[1]))}
    cuts = _cuts(_useful_units(view, target), view.repeats)
    for bk in sorted(length for length in lengths if splits_terms(view, algorithm, length)):
        grids = set()
        for terms in {bk, view.depth} if algorithm == "matrix" else {bk}:
            tall = _tall(max(terms, 1) * item, mr, target)
            for cuts_m, cuts_n in cuts:
                bm = _piece(tiles_m, tall, cuts_m) * mr
                wide = tiles_n if bk >= view.depth else max(1, sums // (4 * bm * nr))
                grids.add((bm, _piece(tiles_n, wide, cuts_n) * nr))
        for bm, bn in sorted(grids):
            yield Blocks(mr, nr, bm, bn, max(bk, 1), target.lanes, algorithm)


def _matrix_tiles(view: Contraction) -> Iterator[tuple[int, int]]:
    """Tiles of matrix registers: up to two registers of rows that split the rows evenly, or that divide the innermost
    rows, which are then read from memory."""
    columns = 1 if view.n <= ROWS else 2
    if view.m <= ROWS:
        yield from ((view.m, ROWS * across) for across in {columns, 2 * columns})
        return
    half = -(-_even(view.m, 2 * ROWS) // 2)
    divisors = [mr for mr in (*range(2 * ROWS, ROWS, -2), *range(ROWS, 7, -1)) if has_even_rows(view, mr)]
    yield from ((mr, ROWS * columns) for mr in dict.fromkeys((2 * half, *divisors[:1])))


def can_dot(view: Contraction) -> bool:
    """Whether both operands have neighbours in memory along the same digits of k."""
    runs = [view.run(side, view.k) for side in (0, 1)]
    return all(run == runs[0][0] for run, _ in runs) and all(step == 1 for _, step in runs)


def _depths(view: Contraction) -> list[int]:
    """Lengths of a block of k. Blocks are long, since sums are stored after each."""
    return sorted({block_k(view, BLOCK_K), block_k(view, BLOCK_K // 2)})


def _reads_short_blocks(view: Contraction, target: Target) -> bool:
    """Whether few rows read large columns term by term, for which blocks of k are short."""
    large = view.n * view.depth > _STREAMED and not view.is_constant(view.vector)
    return large and view.m <= _FEW_ROWS and lies_by_terms(view, view.vector, view.columns, target.lanes)


def _short_block(view: Contraction) -> int:
    least, most = _SHORT_BLOCKS
    return block_k(view, min(max(view.m, least), most))


def is_short(view: Contraction, blocks: Blocks) -> bool:
    """Whether a block of k is short, and one of several."""
    return blocks.algorithm != "dot" and blocks.bk <= _SHORT_BLOCKS[1] and blocks.bk < view.depth


def block_k(view: Contraction, most: int) -> int:
    """Terms per block, about `most`: a whole number of steps of one reduced digit, over all of the digits inside."""
    if view.depth <= most:
        return max(view.depth, 1)
    position, inner = block_axis(view, most)
    return _even(view.sizes[position], max(1, most // inner)) * inner


def _cuts(units: int, repeats: int) -> list[tuple[int, int]]:
    """Pairs: into how many pieces rows and columns are cut."""
    if units == 1 or repeats >= 4 * units:
        return [(1, 1)]
    return [(1, 1), (units, 1), (1, units), (2 * units, 1), (1, 2 * units), (units, 2), (2, 2 * units)]


def _useful_units(view: Contraction, target: Target) -> int:
    """The cores that a kernel of this size uses."""
    return target.units if flops_of(view) >= SMALL_FLOPS else 1


def _piece(tiles: int, most: int, cuts: int) -> int:
    """Tiles of a piece, `most` at most, where they are cut into a multiple of `cuts` even pieces."""
    pieces = -(-tiles // most)
    return -(-tiles // (-(-pieces // cuts) * cuts))


def _even(size: int, most: int) -> int:
    """The length of a piece when `size` is cut into the fewest even pieces of at most `most`."""
    return -(-size // -(-size // most)) if size else 1
