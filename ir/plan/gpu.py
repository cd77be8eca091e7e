"""Plans for GPUs: how one region runs by the templates of contractions and of streams in tiles."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import msgspec

from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import WARP_LANES

MMA_BYTES = 32
"""Of a row of one mma: 16 halves, or 8 floats."""
TF32 = "mma_tf32"
"""The algorithm of products on tensor cores whose operands are floats, rounded to tf32."""
Store = Literal["staged", "vectors", "elements"]
"""How results leave: as rows of 16 bytes put together in shared memory, as neighbours in a thread's registers, or one
by one."""
_COPIED_BYTES = (16, 8, 4)


class Staging(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operand's way into shared memory.

    side      which input of the contraction
    dtype     of its elements in shared memory
    along_k   whether neighbours there are terms of a sum (else rows or columns), as they are in memory
    width     elements moved at once
    copied    whether the buffer that the operand is a copy of is copied as it stands (cp.async); else each element is
              computed and stored
    digits    so many of the last digits in that direction are one number, and `axes` of the last of the buffer one axis
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
        """Moved at once."""
        return self.width * DTYPES[self.dtype].bytes

    def fitted(self, extent: int, terms: int) -> Staging:
        """The way into a tile of `extent` rows or columns and so many terms, whose lines may be shorter than that."""
        width = math.gcd(self.width, terms if self.along_k else extent)
        if width == self.width:
            return self
        copied = self.copied and width * DTYPES[self.dtype].bytes in _COPIED_BYTES
        return msgspec.structs.replace(self, width=width if copied else 1, copied=copied)


class ContractionTile(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """The tiles of a contraction in elements: bm × bn of a block, bk terms of a stage, warp_m × warp_n of a warp.

    stages   depth of the ring of tiles of the operands
    lhs      the way of the operand with the rows, `rhs` of that with the columns
    store    how results leave, `store_width` of them at once
    thread   rows and columns of a thread on CUDA cores; None on tensor cores
    raster   so many tiles of rows stand beside each other in the order of blocks, so that they share columns in the
             second-level cache
    split    so many blocks share a tile of the result, each with a part of the terms
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

    @property
    def tensor_cores(self) -> bool:
        return self.thread is None

    @property
    def tf32(self) -> bool:
        """Whether tensor cores multiply floats, rounded to tf32."""
        return self.tensor_cores and self.rhs.dtype == "fp32"

    @property
    def multiplied(self) -> str:
        """What tensor cores multiply: "fp16", "bf16" or "tf32"."""
        return "tf32" if self.tf32 else self.rhs.dtype

    @property
    def algorithm(self) -> str:
        """Products on tensor cores, of halves or of floats rounded to tf32, or multiply-adds of each thread."""
        if not self.tensor_cores:
            return "fma"
        return TF32 if self.tf32 else "mma"

    @property
    def steps(self) -> int:
        """Of a stage on tensor cores: each the terms of one mma."""
        return self.bk * DTYPES[self.rhs.dtype].bytes // MMA_BYTES

    @property
    def warps(self) -> tuple[int, int]:
        """Of a block, along rows and columns."""
        return self.bm // self.warp_m, self.bn // self.warp_n

    @property
    def threads(self) -> int:
        return WARP_LANES * math.prod(self.warps)

    @cached_property
    def stagings(self) -> tuple[Staging, Staging]:
        """That of the operand with the rows, then that with the columns."""
        return self.lhs, self.rhs

    def extent(self, staged: Staging) -> int:
        """Rows or columns of an operand's tile."""
        return self.bm if staged is self.lhs else self.bn

    @property
    def lanes(self) -> tuple[int, int]:
        """Of a warp on CUDA cores, along rows and columns."""
        assert self.thread is not None
        return self.warp_m // self.thread[0], self.warp_n // self.thread[1]


GridAxis = Literal["x", "y", "z"]


class BlockPlaces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The axes of the grid along which blocks have other products, tiles of rows, tiles of columns, and parts of the
    terms."""

    batch: GridAxis
    rows: GridAxis
    columns: GridAxis
    parts: GridAxis = "x"


class GpuContractionPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gpu contraction"):
    """How a contraction runs on a GPU.

    operands       the tensors with the rows and with the columns, each in a ring of tiles in shared memory
    swizzled       whether the lines of each are swizzled there
    sums, result   the region's values that the sums are, and that they become by the epilogue
    tails          the axes whose last tile is cut; tiles divide the others
    epilogue       the functions applied to the sums, in order
    ordered        whether the terms of floating-point sums are taken one by one in index order
    """

    arch: str
    pattern: Literal["matmul", "conv"]
    tile: ContractionTile
    places: BlockPlaces
    operands: tuple[str, str]
    swizzled: tuple[bool, bool]
    sums: str
    result: str
    tails: tuple[str, ...] = ()
    epilogue: tuple[str, ...] = ()
    ordered: bool = False
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> int:
        """Columns that are stored at once."""
        return self.tile.store_width


class StreamTile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tiles of both products of streams in tiles.

    scores   bm rows × bn terms of a stage, over the whole depth of a score
    sums     bm rows × bn columns over the terms of a stage, one for each product; one for what is summed along rows
             where there is no product. A warp has whole rows, whose maxima and sums it finds alone
    held     on tensor cores: whether the fragments of the queries stay in registers
    ahead    on tensor cores: whether those of keys and values are loaded a step before their use
    stops    whether a tile ends with the last term that one of its rows sees
    """

    scores: ContractionTile
    sums: tuple[ContractionTile, ...]
    held: bool = False
    ahead: bool = False
    stops: bool = False

    @property
    def lead(self) -> ContractionTile:
        return self.sums[0]

    @property
    def tensor_cores(self) -> bool:
        return self.scores.tensor_cores

    @property
    def threads(self) -> int:
        return self.scores.threads

    @property
    def terms(self) -> int:
        """Of a stage."""
        return self.scores.bn

    @property
    def split(self) -> int:
        """Blocks that share the terms of a tile's rows."""
        return self.lead.split

    @property
    def across(self) -> int:
        """Lanes that share a row."""
        return 4 if self.tensor_cores else self.scores.lanes[1]


class GpuStreamPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gpu stream"):
    """How streams whose scores are tiles run on a GPU.

    together  whether points of the batch that share keys and values are rows of one tile; else each has its own tiles
    scored    the tensors of queries and keys, where scores are products of these
    values    the tensors of values, of each product
    tails     the axes whose last tile is cut; tiles divide the others
    epilogue  the functions applied to the sums, in order
    """

    arch: str
    tile: StreamTile
    places: BlockPlaces
    together: bool = False
    scored: tuple[str, str] | None = None
    values: tuple[str, ...] = ()
    tails: tuple[str, ...] = ()
    epilogue: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> int:
        """Columns that are stored at once."""
        return self.tile.lead.store_width
