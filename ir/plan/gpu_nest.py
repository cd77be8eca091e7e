"""Plans for GPUs of regions without a contraction: how threads share the points, rows or tiles of the outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import WARP_LANES

AT_A_TIME = 4
"""Turns of a pass over a row whose loads are under way together."""


Keep = Literal["reg", "smem", "none"]


def loop_name(axes: Sequence[int]) -> str:
    """The name of the loop over these axes of the outputs."""
    return "".join(f"i{axis}" for axis in axes)


class Points(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The loops over the outputs (`axes` of each, outermost first, lanes along the last) as one number of `whole`
    vectors of `width`, and after them `rest` points where there is one loop. A block has `threads`, each of them
    `turns` vectors."""

    axes: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...]
    width: int
    threads: int
    turns: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Points of each loop, vectors of the last."""
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
        """ "p" where the last block is not full of points."""
        return ("p",) if self.rest or self.blocks * self.threads * self.turns != self.count else ()


class Rows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`axes` number the rows, of which a block has `height`, each with a team of `team` threads: neighbours if `near`,
    else neighbours have neighbouring rows. A row has `length` elements (the longest of its reductions, or of the
    outputs' other axes `inner`), of which `split` blocks have a part each, and a thread loads `width` at once. From one
    reduction to the next what a thread has of its row stays in registers ("reg"), or what it loads of it in shared
    memory ("smem"), or nothing does."""

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

    @property
    def threads(self) -> int:
        return self.height * self.team

    @property
    def in_registers(self) -> bool:
        """Whether threads keep what they have of a row."""
        return self.keep == "reg"

    @property
    def in_shared(self) -> bool:
        """Whether a block keeps its rows in shared memory."""
        return self.keep == "smem"

    @property
    def blocks(self) -> int:
        """Of rows; each stands for the `split` that share them."""
        return max(1, -(-self.count // self.height))

    def turns(self, length: int) -> int:
        """Vectors of a team's threads in a row of so many elements."""
        return max(1, -(-length // (self.team * self.width)))

    def own_turns(self, length: int) -> int:
        """Those of one block: of the ones that share a row each has whole rounds of turns, and no other's."""
        turns = -(-self.turns(length) // self.split)
        return turns if self.split == 1 or turns <= AT_A_TIME else -(-turns // AT_A_TIME) * AT_A_TIME

    @property
    def held(self) -> int:
        """Elements of a row in shared memory, those of turns that are not full among them."""
        return -(-self.turns(self.length) // AT_A_TIME) * AT_A_TIME * self.team * self.width

    def fills(self, length: int) -> bool:
        """Whether a row of so many elements is whole turns."""
        return length % (self.team * self.width) == 0

    @property
    def tails(self) -> tuple[str, ...]:
        """ "p" where the last block is not full of rows, "e" where the last turn of a row is not full."""
        rows = ("p",) if self.count % self.height else ()
        return (*rows, "e") if not self.fills(self.length) else rows


class Tiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Loops over the outputs (`axes` of each), of which the last two are cut into tiles of `across` × `along`: lanes
    run along the last, and read along the one before it, through shared memory."""

    axes: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...]
    across: int
    along: int

    @property
    def threads(self) -> int:
        return 8 * WARP_LANES

    @property
    def counts(self) -> tuple[int, ...]:
        """Blocks along each loop."""
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
        """Elements between the rows of a tile in shared memory, which keep columns in banks of their own."""
        return max(1, 4 // DTYPES[dtype].bytes)


class GpuPointsPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gpu points"):
    """Each thread has a few points of the outputs: pointwise, copies, short reductions. `ordered`: the terms of
    floating-point sums and products are taken one by one in index order."""

    arch: str
    points: Points
    ordered: bool = False
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> int | None:
        """Neighbours that a thread has at once; None for one by one."""
        return self.points.width if self.points.width > 1 else None


class GpuRowsPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gpu rows"):
    """A team of threads has a row: what reductions and scans need is made together. `ordered`: as of points."""

    arch: str
    rows: Rows
    ordered: bool = False
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> int | None:
        """Neighbours that a thread has at once; None for one by one."""
        return self.rows.width if self.rows.width > 1 else None


class GpuTilesPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gpu tiles"):
    """A block has a tile of the outputs; what crosses them goes through shared memory. `ordered`: as of points."""

    arch: str
    tiles: Tiles
    ordered: bool = False
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> None:
        """Threads take their elements one by one."""
        return None
