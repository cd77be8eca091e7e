"""Plans for GPUs of regions without a contraction: threads share the points, rows or tiles of the outputs, or the
positions of a scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import WARP_LANES

AT_A_TIME = 4
"""Turns of a pass over a row, or terms of a reduction by one thread, whose loads are in flight together."""


Keep = Literal["reg", "smem", "none"]


def loop_name(axes: Sequence[int]) -> str:
    """The name of the loop over these axes of the outputs."""
    return "".join(f"i{axis}" for axis in axes)


class Points(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The loops over the outputs as one number. `axes` are the axes of every loop, outermost first, `extents` their
    points; lanes run along the last loop. There are `whole` vectors of `width` points, and behind them `rest` points if
    there is only one loop. A block has `threads` threads with `turns` vectors each."""

    axes: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...]
    width: int
    threads: int
    turns: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Points of every loop; of the last loop vectors."""
        return (*self.extents[:-1], self.extents[-1] // self.width) if self.extents else ()

    @property
    def whole(self) -> int:
        return math.prod(self.sizes)

    @property
    def rest(self) -> int:
        return self.extents[-1] % self.width if self.extents else 0

    @property
    def count(self) -> int:
        return self.whole + (self.rest > 0)

    @property
    def blocks(self) -> int:
        return max(1, -(-self.count // (self.threads * self.turns)))

    @property
    def tails(self) -> tuple[str, ...]:
        """ "p" if the last block is not full of points."""
        return ("p",) if self.rest or self.blocks * self.threads * self.turns != self.count else ()


class Rows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`axes` number the `count` rows. A block has `height` rows, and a team of `team` threads works on a row. `near`:
    neighbouring threads are of one team; else they work on neighbouring rows. `length`: elements of a row, the most of
    its reductions and of the outputs' other axes `inner`. `split`: number of blocks that share a row, with a part of it
    each. `width`: elements that a thread loads at once. `keep`: what stays from one reduction to the next: a thread's
    elements of the row in registers ("reg"), its loads in shared memory ("smem"), or nothing ("none"). `dear`: the
    computed values that stay in registers beside the elements. `shared`: the inputs that stay in shared memory.
    `scans`: the scans of a row that several blocks share; a block passes over its part twice, and waits in between for
    the totals of the parts before it."""

    axes: tuple[int, ...]
    inner: tuple[int, ...]
    count: int
    length: int
    height: int
    team: int
    near: bool
    keep: Keep
    width: int
    split: int = 1
    dear: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    scans: tuple[str, ...] = ()

    @property
    def threads(self) -> int:
        return self.height * self.team

    @property
    def in_registers(self) -> bool:
        """Whether threads keep their elements of a row in registers."""
        return self.keep == "reg"

    @property
    def in_shared(self) -> bool:
        """Whether a block keeps its rows in shared memory."""
        return self.keep == "smem"

    @property
    def blocks(self) -> int:
        """Blocks of rows; a block that is split counts once."""
        return max(1, -(-self.count // self.height))

    def turns(self, length: int) -> int:
        """Vectors per thread in a row of `length` elements."""
        return max(1, -(-length // (self.team * self.width)))

    def own_turns(self, length: int) -> int:
        """The turns of one block. Blocks that share a row have whole rounds of AT_A_TIME turns each."""
        turns = -(-self.turns(length) // self.split)
        return turns if self.split == 1 or turns <= AT_A_TIME else -(-turns // AT_A_TIME) * AT_A_TIME

    @property
    def held(self) -> int:
        """Elements of a row in shared memory, with the padding of turns that are not full."""
        return -(-self.turns(self.length) // AT_A_TIME) * AT_A_TIME * self.team * self.width

    def fills(self, length: int) -> bool:
        """Whether a row of `length` elements is a whole number of turns."""
        return length % (self.team * self.width) == 0

    @property
    def tails(self) -> tuple[str, ...]:
        """ "p" if the last block is not full of rows, "e" if the last turn of a row is not full."""
        rows = ("p",) if self.count % self.height else ()
        return (*rows, "e") if not self.fills(self.length) else rows


class Tiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Loops over the outputs, with the `axes` and `extents` of every loop. The last two loops are cut into tiles of
    `across` × `along`: lanes store along the last loop, and load along the one before it, through shared memory."""

    axes: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...]
    across: int
    along: int

    @property
    def threads(self) -> int:
        return 8 * WARP_LANES

    @property
    def counts(self) -> tuple[int, ...]:
        """Blocks along every loop."""
        *outer, across, along = self.extents
        return (*outer, -(-across // self.across), -(-along // self.along))

    @property
    def blocks(self) -> int:
        return math.prod(self.counts)

    @property
    def tails(self) -> tuple[str, ...]:
        """The loops that tiles do not divide."""
        cut = zip(self.axes[-2:], self.extents[-2:], (self.across, self.along), strict=True)
        return tuple(loop_name(axes) for axes, extent, size in cut if extent % size)

    @staticmethod
    def padding(dtype: str) -> int:
        """Elements between the rows of a tile in shared memory, so that the elements of a column lie in different
        banks."""
        return max(1, 4 // DTYPES[dtype].bytes)


class _CudaCorePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that plans without tensor cores share: the architecture, for which the kernel is compiled, too."""

    arch: str

    @property
    def kernel_arch(self) -> str:
        """The architecture for which the kernel is compiled."""
        return self.arch

    @property
    def vectors(self) -> int | None:
        """Neighbours that a thread loads or computes at once; None if one by one."""
        return None


class GpuPointsPlan(_CudaCorePlan, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gpu points"):
    """A thread has a few points of the outputs: pointwise ops, copies, short reductions. `ordered`: the terms of
    floating-point sums and products are taken one by one in index order. `approximate`: functions whose results have
    16 bits are the hardware's approximations."""

    points: Points
    ordered: bool = False
    approximate: bool = False
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> int | None:
        """Neighbours that a thread computes at once; None if one by one."""
        return self.points.width if self.points.width > 1 else None


class GpuRowsPlan(_CudaCorePlan, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gpu rows"):
    """A team of threads has a row and computes its reductions and scans together. `ordered`: as in GpuPointsPlan."""

    rows: Rows
    ordered: bool = False
    approximate: bool = False
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> int | None:
        """Neighbours that a thread loads at once; None if one by one."""
        return self.rows.width if self.rows.width > 1 else None


class GpuTilesPlan(_CudaCorePlan, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gpu tiles"):
    """A block has a tile of the outputs, which is transposed through shared memory. `ordered`: as in GpuPointsPlan."""

    tiles: Tiles
    ordered: bool = False
    approximate: bool = False
    notes: tuple[str, ...] = ()


class GpuScatterPlan(_CudaCorePlan, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gpu scatter"):
    """A thread owns some positions of one column, which is a point of all axes but that of the scatter: every
    `parts`-th position from its own number on. The thread writes the source there, then combines all updates of these
    positions in their order. A block has `threads` threads."""

    parts: int
    threads: int
    approximate: bool = False
    notes: tuple[str, ...] = ()
