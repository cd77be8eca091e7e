"""The points, rows and tiles that a GPU's blocks and threads have of a nest's outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ir.dtype import DTYPES
from ir.gpu import WARP_LANES

DEAR_FLOPS = 8
"""Additions per element above which a row's threads keep a value instead of computing it again."""
AT_A_TIME = 4
"""Turns of a pass over a row whose loads are under way together."""


def loop_name(axes: Sequence[int]) -> str:
    """What a plan calls the loop over these axes."""
    return "".join(f"i{axis}" for axis in axes)


@dataclass(frozen=True)
class Points:
    """The loops over the outputs (`axes` of each, outermost first) as one number of `whole` vectors of `width`, and
    after them `rest` points where there is one loop."""

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
        return ("p",) if self.rest or self.blocks * self.threads * self.turns != self.count else ()


@dataclass(frozen=True)
class Rows:
    """`axes` number the rows, of which a block has `height`, each with a team of `team` threads. A row has `length`
    elements (the longest of its reductions, or of the outputs' other axes `inner`), of which `split` blocks have a part
    each."""

    axes: tuple[int, ...]
    inner: tuple[int, ...]
    count: int
    length: int
    height: int
    team: int
    near: bool
    keep: str
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
        rows = ("p",) if self.count % self.height else ()
        return (*rows, "e") if not self.fills(self.length) else rows


@dataclass(frozen=True)
class Tiles:
    """Loops over the outputs (`axes` of each), of which the last two are cut into tiles of `across` × `along`."""

    axes: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...]
    across: int
    along: int
    threads: int = 8 * WARP_LANES

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
        cut = zip(self.axes[-2:], self.extents[-2:], (self.across, self.along), strict=True)
        return tuple(loop_name(axes) for axes, extent, size in cut if extent % size)

    @staticmethod
    def padding(dtype: str) -> int:
        """Elements between the rows of a tile in shared memory, which keep columns in banks of their own."""
        return max(1, 4 // DTYPES[dtype].bytes)
