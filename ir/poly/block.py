"""The blocks of Poly-View (seed 000 §5): what a value of a region reads and writes, contractions as patterns.

A block is one statement over a box of points; its accesses are index maps over that box, and say where memory and
values are read and written.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ir.index.map import AxisMap

BlockKind = Literal["contraction_pattern", "reduce", "stream", "scan", "ewise"]


class Access(msgspec.Struct, frozen=True):
    """`map` takes the block's point to what is read of `tensor`, its guards being the padding; or, where `mode` is
    "write", the index of the output `tensor` to the coordinates of the block's value that stands there."""

    tensor: str
    map: AxisMap
    mode: Literal["read", "write"]


class Pattern(msgspec.Struct, frozen=True):
    """What a contraction is.

    The `_idx` are axis names, operand by operand in the operand's order; an operand's coordinate that is a window
    over several axes is named by its output axis. `affine_offsets` gives those windows, by that axis:
    {"i2": "2*i2 + r1 - 1"}. `groups` counts the blocks of a grouped convolution. Along `batch_idx` both operands
    move, along `m_idx` the lhs only or neither, along `n_idx` the rhs only.
    """

    pattern: Literal["matmul", "conv"]
    lhs_idx: tuple[str, ...]
    rhs_idx: tuple[str, ...]
    out_idx: tuple[str, ...]
    reduce_idx: tuple[str, ...]
    affine_offsets: dict[str, str] = {}
    batch_idx: tuple[str, ...] = ()
    m_idx: tuple[str, ...] = ()
    n_idx: tuple[str, ...] = ()
    groups: int = 1

    @property
    def roles(self) -> tuple[tuple[str, ...], ...]:
        """Its output's axes: batch, m and n."""
        return self.batch_idx, self.m_idx, self.n_idx


class PolyBlock(msgspec.Struct, frozen=True):
    """One statement, over the box of `sizes`: the axes of its value, `i0, i1, …`, then those that it reduces,
    `r0, r1, …`. It writes each element of its value once; `accesses` are what else it touches."""

    name: str
    kind: BlockKind
    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    accesses: tuple[Access, ...]
    attrs: Pattern | None = None

    @property
    def own_axes(self) -> tuple[str, ...]:
        """The axes of its value."""
        return tuple(axis for axis in self.axes if axis.startswith("i"))

    @property
    def reduced_axes(self) -> tuple[str, ...]:
        """The axes that its value does not have."""
        return self.axes[len(self.own_axes) :]

    @property
    def reads(self) -> tuple[Access, ...]:
        """In the order of the operands."""
        return tuple(each for each in self.accesses if each.mode == "read")
