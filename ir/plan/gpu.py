"""Plans for GPUs: how a region runs by the template of contractions or of streams in tiles."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import msgspec

from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import WARP_LANES

MMA_BYTES = 32
"""Bytes of a row of an mma's operand: 16 halves, or 8 floats."""
TF32 = "mma_tf32"
"""The algorithm of products on tensor cores whose operands are floats, rounded to tf32."""
STREAM_ARCH = "sm80"
"""The architecture whose instructions and limits kernels of streams keep, on later architectures too."""
MMA_ROWS = 16
"""Rows of the sums that a warp has of one product on tensor cores."""
MMA_LANES = 4
"""Neighbouring lanes of a warp that have the same rows of an mma's sums."""
Store = Literal["staged", "vectors", "elements"]
"""How results are stored: in rows of 16 bytes collected in shared memory, in vectors of neighbours that a thread has in
registers, or one by one."""
COPIED_BYTES = (16, 8, 4)
"""Sizes of a cp.async."""


class Staging(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an operand gets into shared memory.

    side      the input of the contraction: 0 or 1
    dtype     of the elements in shared memory
    along_k   whether neighbours in shared memory are terms of a sum, as in memory; else they are rows or columns
    width     elements moved at once
    copied    whether the elements are copied unchanged (cp.async) from the buffer that the operand is a copy of; else
              every element is computed and stored
    digits    number of last digits in the direction of neighbours that are fused to one number; `axes` is the number
              of last axes of the buffer that are fused
    """

    side: int
    dtype: str
    along_k: bool
    width: int
    copied: bool
    digits: int = 1
    axes: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes moved at once."""
        return self.width * DTYPES[self.dtype].bytes

    def fit(self, extent: int, terms: int) -> Staging:
        """The staging for a tile of `extent` rows or columns and `terms` terms, whose lines may be shorter."""
        width = math.gcd(self.width, terms if self.along_k else extent)
        if width == self.width:
            return self
        copied = self.copied and width * DTYPES[self.dtype].bytes in COPIED_BYTES
        return msgspec.structs.replace(self, width=width if copied else 1, copied=copied)


class ContractionTile(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """The tiles of a contraction in elements: bm × bn of a block, bk terms of a stage, warp_m × warp_n of a warp.

    stages   depth of the ring of tiles of the operands
    lhs      the staging of the operand with the rows; `rhs` is that of the operand with the columns
    store    how results are stored, `store_width` at once
    thread   rows and columns of a thread on CUDA cores; None on tensor cores
    raster   number of tiles of rows that are neighbours in the order of blocks, so that they share columns in the
             second-level cache
    split    number of blocks that share a tile of the result; every block sums a part of the terms
    warpgroups
             whether four warps multiply together, from shared memory; a warp has 16 rows and all columns
    """

    bm: int
    bn: int
    bk: int
    warp_m: int
    warp_n: int
    stages: int
    lhs: Staging
    rhs: Staging
    store: Store
    store_width: int
    thread: tuple[int, int] | None = None
    raster: int = 1
    split: int = 1
    warpgroups: bool = False

    @property
    def tensor_cores(self) -> bool:
        return self.thread is None

    @property
    def tf32(self) -> bool:
        """Whether tensor cores multiply floats, rounded to tf32."""
        return self.tensor_cores and self.rhs.dtype == "fp32"

    @property
    def multiplied(self) -> str:
        """The dtype that tensor cores multiply: "fp16", "bf16" or "tf32"."""
        return "tf32" if self.tf32 else self.rhs.dtype

    @property
    def algorithm(self) -> str:
        """On tensor cores "mma", "mma_tf32" or "wgmma", on CUDA cores "fma"."""
        if not self.tensor_cores:
            return "fma"
        if self.warpgroups:
            return "wgmma"
        return TF32 if self.tf32 else "mma"

    @property
    def steps(self) -> int:
        """Steps of a stage on tensor cores; the terms of a step are those of one mma."""
        return self.bk * DTYPES[self.rhs.dtype].bytes // MMA_BYTES

    @property
    def loads_across_turns(self) -> bool:
        """Whether the fragments of a turn's first step are loaded while products of the turn before run: two sets of
        registers take turns. On an H100 turns of four steps gain by it (8192³: 2.72 → 2.39 ms); turns of two steps
        lose, and so does tf32, whose rounded words need the registers."""
        steps = self.steps
        return (
            self.tensor_cores
            and not self.warpgroups
            and not self.tf32
            and steps > 2
            and steps % 2 == 0
            and all(staging.copied for staging in self.stagings)
        )

    @property
    def lag(self) -> int:
        """Turns whose products may still run when those of the next turn are started."""
        return 1 if self.warpgroups else 0

    @property
    def warps(self) -> tuple[int, int]:
        """Warps of a block, along rows and columns."""
        return self.bm // self.warp_m, self.bn // self.warp_n

    @property
    def threads(self) -> int:
        return WARP_LANES * math.prod(self.warps)

    @cached_property
    def stagings(self) -> tuple[Staging, Staging]:
        """The staging of the operand with the rows, then of the operand with the columns."""
        return self.lhs, self.rhs

    def extent(self, staged: Staging) -> int:
        """Rows or columns of an operand's tile."""
        return self.bm if staged is self.lhs else self.bn

    def is_swizzled(self, staged: Staging) -> bool:
        """Whether the lines of an operand's tile are swizzled, as `ldmatrix` reads them. The instruction transposes
        16-bit elements only."""
        return self.tensor_cores and (staged.along_k or not self.tf32)

    @property
    def lanes(self) -> tuple[int, int]:
        """Lanes of a warp on CUDA cores, along rows and columns."""
        assert self.thread is not None
        return self.warp_m // self.thread[0], self.warp_n // self.thread[1]


GridAxis = Literal["x", "y", "z"]


class BlockPlaces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The axes of the grid that number the points of the batch, the tiles of rows, the tiles of columns, and the parts
    of the terms."""

    batch: GridAxis
    rows: GridAxis
    columns: GridAxis
    parts: GridAxis = "x"


class GpuContractionPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gpu contraction"):
    """How a contraction runs on a GPU.

    pattern        for people, as are `operands`, `sums`, `result` and `epilogue`; all must be those of the region
    kernel_arch    the least architecture that runs the kernel
    operands       the tensors with the rows and with the columns; each has a ring of tiles in shared memory
    sums, result   the region's value of the sums, and the value that the epilogue turns them into
    tails          the axes whose last tile is cut; tiles divide the others
    epilogue       the functions applied to the sums, in order
    ordered        whether the terms of floating-point sums are added one by one in index order
    approximate    whether functions whose results have 16 bits are the hardware's approximations
    """

    arch: str
    pattern: Literal["matmul", "conv"]
    tile: ContractionTile
    places: BlockPlaces
    kernel_arch: str
    operands: tuple[str, str]
    sums: str
    result: str
    tails: tuple[str, ...] = ()
    epilogue: tuple[str, ...] = ()
    ordered: bool = False
    approximate: bool = False
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> int:
        """Columns stored at once."""
        return self.tile.store_width


class StreamTile(msgspec.Struct, frozen=True, kw_only=True, dict=True, forbid_unknown_fields=True):
    """The tiles of streams in tiles, sizes in elements: `scores` over terms, and `sums` over the columns of a product.

    bm, bn       rows of a block, and columns of every product; without a product, one column per lane that shares a row
    terms        of a stage
    depth        terms of a score
    warp_m       rows of a warp, which has whole rows and computes their maxima and sums alone
    thread_m     rows of a thread on CUDA cores; None on tensor cores
    stages       depth of the ring of keys and values
    split        number of blocks that share the terms of a tile's rows
    kind         the dtype of weights and sums
    queries, keys
                 how queries and keys get into shared memory; None where scores are no products
    values       how the values of every product do
    store        how results are stored, `store_width` at once
    held         on tensor cores: whether the fragments of the queries stay in registers
    ahead        on tensor cores: whether fragments of keys and values are loaded a step before their use
    stops        whether a tile ends with the last term that one of its rows sees
    """

    bm: int
    bn: int
    terms: int
    depth: int
    warp_m: int
    thread_m: int | None
    stages: int
    split: int = 1
    kind: str
    queries: Staging | None
    keys: Staging | None
    values: tuple[Staging, ...]
    store: Store
    store_width: int
    held: bool = False
    ahead: bool = False
    stops: bool = False

    @cached_property
    def scores(self) -> ContractionTile:
        """The tile of scores: bm rows × the terms of a stage, over the whole depth."""
        rows, columns = self.queries or self._weights, self.keys or self._weights
        sizes = (self.bm, self.terms, self.depth, self.warp_m, self.terms, self.stages)
        return ContractionTile(*sizes, rows, columns, "elements", 1, self._thread(self.terms))

    @cached_property
    def sums(self) -> tuple[ContractionTile, ...]:
        """The tiles of the products: bm rows × bn columns, over the terms of a stage. Without a product, one tile for
        the sums along rows."""
        thread = self._thread(self.bn)
        if thread is not None and not self.values:
            thread = 1, 1
        sizes = (self.bm, self.bn, self.terms, self.warp_m, self.bn, self.stages)
        return tuple(
            ContractionTile(
                *sizes, self._weights, values, self.store, self.store_width, thread=thread, split=self.split
            )
            for values in self.values or (self._weights,)
        )

    def _thread(self, columns: int) -> tuple[int, int] | None:
        """Rows and columns of a thread of so many columns, on CUDA cores."""
        return None if self.thread_m is None else (self.thread_m, columns // self.across)

    @cached_property
    def _weights(self) -> Staging:
        """The weights, which come from registers and are not moved."""
        return Staging(0, self.kind, along_k=True, width=1, copied=False)

    @property
    def lead(self) -> ContractionTile:
        return self.sums[0]

    @property
    def tensor_cores(self) -> bool:
        return self.thread_m is None

    @property
    def tf32(self) -> bool:
        """Whether tensor cores multiply floats, rounded to tf32."""
        return self.tensor_cores and any(staged.dtype == "fp32" for staged in (self.keys, *self.values) if staged)

    @property
    def algorithm(self) -> str:
        """As `ContractionTile.algorithm`, of all products."""
        if not self.tensor_cores:
            return "fma"
        return TF32 if self.tf32 else "mma"

    @property
    def threads(self) -> int:
        return WARP_LANES * (self.bm // self.warp_m)

    @property
    def across(self) -> int:
        """Lanes that share a row."""
        return MMA_LANES if self.thread_m is None else WARP_LANES * self.thread_m // self.warp_m


class StreamParts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parts that blocks leave where they share the terms of a tile: `rows` × `columns` sums per product.

    vectors   vectors of `width` sums per product that a thread of the last block has
    together  parts that a thread reads at one time
    members   parts that one block joins; if these are not all parts, the joined groups are joined again
    """

    rows: int
    columns: int
    width: int
    vectors: int
    together: int
    members: int


class GpuStreamPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gpu stream"):
    """How streams whose scores are tiles run on a GPU.

    together  whether points of the batch that share keys and values are rows of one tile; else every point has tiles
              of its own
    scored    the tensors of queries and keys, if scores are products of these. For people, as are `values` and
              `epilogue`; all must be those of the region
    values    the tensors of values, one for every product
    tails     the axes whose last tile is cut; tiles divide the others
    epilogue  the functions applied to the sums, in order
    parts     how the parts of several blocks are joined; None where a block has all terms of its tile
    approximate  as in GpuContractionPlan
    """

    arch: str
    tile: StreamTile
    places: BlockPlaces
    parts: StreamParts | None = None
    together: bool = False
    scored: tuple[str, str] | None = None
    values: tuple[str, ...] = ()
    tails: tuple[str, ...] = ()
    epilogue: tuple[str, ...] = ()
    approximate: bool = False
    notes: tuple[str, ...] = ()

    @property
    def kernel_arch(self) -> str:
        """The least architecture that runs the kernel."""
        return STREAM_ARCH

    @property
    def vectors(self) -> int:
        """Columns stored at once."""
        return self.tile.store_width
