"""Plans for CPUs: how a region runs by the template of contractions, of streams in tiles, of nests, or of scatters."""

from __future__ import annotations

from typing import Literal

import msgspec

Algorithm = Literal["outer", "dot", "pairs", "quads", "matrix"]
"""How a contraction's register tile multiplies: lanes along the columns, and one term at a time; lanes along k; or by
cells of narrow numbers (`ir.kernel.cpu.cells`)."""


class Blocks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The blocks of a contraction, sizes in elements. mr × nr: register tile. bm, bn: rows and columns of a task,
    multiples of the register tile. bk: terms per block of k, in whole steps of one reduced digit with all digits
    inside it. lanes: of a vector register."""

    mr: int
    nr: int
    bm: int
    bn: int
    bk: int
    lanes: int
    algorithm: Algorithm = "outer"


Place = Literal["memory", "box", "packed", "packed_once", "const_pool", "const_parts"]
"""The place from which a kernel reads an operand: memory as it is, a copy of all elements that a block of rows reads
and of the padding around them ("box"), panels that every task packs for itself, panels that all threads pack before the
tasks ("packed_once"), panels that were packed when the program was built ("const_pool"), or such panels of the smaller
values from which a register tile computes the operand ("const_parts")."""
PACKED_BEFORE: frozenset[Place] = frozenset({"packed_once", "const_pool"})
"""The places of panels of an operand that are packed before the tasks of a call."""
PACKED_AT_BUILD: frozenset[Place] = frozenset({"const_pool", "const_parts"})
"""The places of panels, of an operand or of its parts, that are packed when the program is built."""


class OperandPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operand, and the place from which the kernel reads it."""

    tensor: str
    place: Place = "memory"


LoopOrder = Literal["knm", "nkm", "mnk"]
"""The loops of a task around a register tile, outermost first: over blocks of k, panels of columns, tiles of rows."""


class CpuContractionPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="cpu contraction"):
    """How a contraction runs on a CPU.

    pattern   for people, as are `tails` and `epilogue`; all must be those of the region's contraction
    vector    the operand (0 or 1) with the columns; lanes run along columns unless products are dot products
    operands  the places of the first and the second operand; only the operand with the rows may be in a box, and only
              that with the columns may be packed once
    order     the order of a task's loops. Rows are packed by knm before each block of k is read, else for all blocks of
              k at once; columns can not be packed by mnk
    prefetch  whether a tile asks for its share of the next panel of columns, which were packed before the tasks
    held      whether the epilogue takes a tile's sums from the registers; else from the workspace
    parallel  whether every block is a task; else one task has all blocks
    tails     the axes whose last register tile (of k: block) is cut; blocks divide the others
    epilogue  the functions applied to the sums, in order
    ordered   whether the terms of floating-point sums are added one by one in index order
    """

    arch: str
    pattern: Literal["matmul", "conv"]
    vector: Literal[0, 1]
    blocks: Blocks
    operands: tuple[OperandPlace, OperandPlace]
    order: LoopOrder = "knm"
    prefetch: bool = False
    held: bool = False
    parallel: bool = False
    tails: tuple[str, ...] = ()
    epilogue: tuple[str, ...] = ()
    ordered: bool = False
    notes: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[Place, Place]:
        """The places of the operands."""
        return self.operands[0].place, self.operands[1].place

    @property
    def vectors(self) -> int:
        """Neighbouring elements in one register."""
        return self.blocks.lanes


class StreamBlocks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The blocks of streams whose scores are tiles, sizes in elements. mr × nr: register tile of scores. mr × nv:
    register tile of products; without a product, registers along the terms. bm: rows of a task. br × bc: rows and terms
    of a tile of scores. dot: scores are dot products of queries and keys read in place, lanes along the depth. stops:
    tiles whose terms no row of theirs sees are left out where all values are finite."""

    mr: int
    nr: int
    nv: int
    bm: int
    br: int
    bc: int
    lanes: int
    dot: bool = False
    stops: bool = False

    @property
    def width(self) -> int:
        """Terms of a tile of scores, rounded up to whole register tiles."""
        return -(-self.bc // self.nr) * self.nr

    @property
    def score_stride(self) -> int:
        """Elements between rows of a tile of scores; not a power of two, so that rows use different cache sets."""
        return -(-self.width // self.lanes) * self.lanes + self.lanes

    def sum_stride(self, columns: int) -> int:
        """Elements between rows of a product's sums, which have `columns` columns."""
        return -(-columns // self.nv) * self.nv


class PackedTensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor that the kernel packs: queries once per block of rows ("m.o"), keys and values once per block of terms
    ("k.o")."""

    tensor: str
    at: Literal["m.o", "k.o"]


class CpuStreamPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="cpu stream"):
    """How streams whose scores are tiles run on a CPU.

    together  whether points of the batch that share keys and values, as heads of grouped queries do, are rows
    products  whether a stream has columns; lanes then run along them, else along the terms. For people, as are `tails`
              and `epilogue`; all must be those of the region's streams
    packed    the tensors that are read from panels; all others are read in place
    parallel  whether every block is a task; else one task has all blocks
    tails     the axes whose last register tile (of k: block) is cut; blocks divide the others
    epilogue  the functions applied to the sums, in order
    """

    arch: str
    blocks: StreamBlocks
    products: bool
    together: bool = False
    packed: tuple[PackedTensor, ...] = ()
    parallel: bool = False
    tails: tuple[str, ...] = ()
    epilogue: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> int:
        """Neighbouring columns of a register tile, in whole registers; without a product, terms in one register."""
        return self.blocks.nv if self.products else self.blocks.lanes


class PlannedLoop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A loop over neighbouring axes of the outputs, in blocks of `tile` points."""

    axes: tuple[int, ...]
    tile: int

    @property
    def name(self) -> str:
        return "".join([f"i{axis}" for axis in self.axes])


class KeptValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value of which a thread keeps a row, from the reduction that computes the value to its last reader's scope."""

    value: str
    until: str


class CpuNestPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="cpu nest"):
    """How a region without a contraction runs on a CPU: as loops over its outputs.

    loops     outermost first
    lanes     the position of the loop that lanes run along; None if they run along the terms of reductions, and
              outputs are written one by one
    width     elements of a step of that loop, in whole registers
    rescaled  terms, or registers of terms, between two rescalings of the sums of streams, 2 at least. The scores of one
              pass share the number; every score has 2 at least
    rows      points of the row loop (`row_loop`) that run together, so that one can go on while the lanes of another
              are summed
    threads   the positions of the loops whose blocks are tasks
    part      terms of a part, if reductions are cut into parts that are tasks
    kept      the values of which rows are kept
    tails     the loops whose last step is cut; steps divide the others
    ordered   whether the terms of floating-point sums and products are taken one by one in index order
    """

    arch: str
    loops: tuple[PlannedLoop, ...]
    lanes: int | None
    width: int
    rescaled: int
    rows: int = 1
    threads: tuple[int, ...] = ()
    part: int | None = None
    kept: tuple[KeptValue, ...] = ()
    tails: tuple[str, ...] = ()
    ordered: bool = False
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> int:
        """Neighbouring elements of a step: a register, or several."""
        return self.width

    @property
    def row_loop(self) -> int | None:
        """The position of the loop whose points are rows: the innermost loop that lanes do not run along."""
        return next((k for k in reversed(range(len(self.loops))) if k != self.lanes), None)


class CpuScatterPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="cpu scatter"):
    """How a scatter runs on a CPU: a nest writes the source to the result, then updates are combined in their order,
    then a nest applies the region's functions to the result.

    source  how the first nest runs; None where the result lies over the source
    loops   over the axes of the result, in row-major order. The axis of the scatter has a loop of its own, which the
            updates take the place of
    lanes   the position of the loop that lanes run along; None where updates are combined one element at a time
    threads the position of the loop whose blocks are tasks; the tiles of all other loops are whole
    finish  how the last nest runs; None if the region applies no functions to the scatter
    """

    arch: str
    source: CpuNestPlan | None
    loops: tuple[PlannedLoop, ...]
    lanes: int | None = None
    threads: int | None = None
    finish: CpuNestPlan | None = None
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> int:
        """Neighbouring elements of a step of the first nest."""
        return 1 if self.source is None else self.source.vectors
